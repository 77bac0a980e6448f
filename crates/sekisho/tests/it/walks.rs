//! The loop as somebody walks it who knows nothing: one URL is typed, and from then on whatever was printed
//! last. It is walked on four servers, and on what goes wrong.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use origin::{Apache, ApacheConfig, Document, Work};

use crate::browser::{Scratch, framed, open};
use crate::command::{Ended, PATIENCE, sekisho, shell};
use crate::records;
use crate::site::{alone, server};

/// Words that begin a line, each with its exit code, the mildest first.
const WORDS: [(&str, i32); 8] = [
    ("holds", 0),
    ("measured", 0),
    ("fits", 0),
    ("answered", 0),
    ("inconclusive", 4),
    ("fails", 3),
    ("does not fit", 6),
    ("invalid", 5),
];
/// Measurements that others who use the machine may spoil.
const TRIES: usize = 8;

/// The commands that were printed to be typed, in their order.
fn printed(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let command = |line: &str| {
        let rest = line.strip_prefix("  next: ").or_else(|| line.strip_prefix("  then: "))?;
        Some(rest.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    joined.lines().filter_map(command).collect()
}

/// Text without its line breaks: where a line was broken does not matter.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Types a line. It must end with the code that its text announces.
#[track_caller]
fn typed(folder: &Path, line: &str) -> Ended {
    let ended = shell(folder, line).ended(PATIENCE);
    let said = |(word, _): &&(&str, i32)| {
        ended.out.lines().any(|line| line.starts_with(&format!("{word}: ")))
    };
    let worst = WORDS.iter().rev().find(said).unwrap_or_else(|| panic!("{line}: {ended:?}"));
    assert_eq!(ended.code, worst.1, "{line}: {ended:?}");
    ended
}

/// Measures, and types what is printed until it is valid and fits.
#[track_caller]
fn fitted(folder: &Path, url: &str) -> Ended {
    let mut line =
        format!("sekisho measure http {url} --clients 1,4,16 --duration 1s --warmup 200ms");
    for _ in 0..TRIES {
        let measured = typed(folder, &line);
        let next = printed(&measured.out);
        let [next] = &next[..] else { panic!("one command is next: {measured:?}") };
        if measured.code == 5 {
            assert!(measured.out.contains("\n  to change: "), "{measured:?}");
            assert!(next.starts_with("sekisho measure http "), "{measured:?}");
            line.clone_from(next);
            continue;
        }
        assert!(next.starts_with("sekisho fit .sekisho/runs/"), "{measured:?}");
        let fitted = typed(folder, next);
        if fitted.code == 0 {
            return fitted;
        }
        assert!(!folder.join("scenario.toml").exists(), "{fitted:?}");
        line = printed(&fitted.out).first().expect("it says what would tell").clone();
        assert!(line.starts_with("sekisho measure http "), "{fitted:?}");
    }
    // Others took the machine in each of them: what was measured is fitted all the same.
    typed(folder, "sekisho fit --last")
}

/// The whole loop on a server, from its URL to the report.
#[track_caller]
fn walk(url: &str) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let fitted = fitted(&folder, url);
    assert_eq!(fitted.code, 0, "{fitted:?}");
    let which = "not to sizes: all documents have one size, and no slots are given";
    assert!(flat(&fitted.out).contains(which), "it says which: {fitted:?}");
    let asked = typed(&folder, &printed(&fitted.out)[0]);
    let steps = printed(&asked.out);
    let [gate, measure, check] = &steps[..] else { panic!("a gate, a load, a check: {asked:?}") };
    let slots = gate.split_once(" --slots ").expect("the gate has slots").1.to_owned();
    assert!(check.ends_with(&format!("--slots {slots}")), "the check knows them: {asked:?}");
    let running = shell(&folder, gate);
    running.says("listening on");
    let through = typed(&folder, measure);
    assert!([0, 5].contains(&through.code), "{through:?}");
    assert!(!through.out.contains("failed: "), "the gate lets all through: {through:?}");
    let checked = typed(&folder, check);
    for wanted in ["throughput", "mean response", "simulated", "measured"] {
        assert!(checked.out.contains(wanted), "no `{wanted}`: {checked:?}");
    }
    let reported = typed(&folder, &printed(&checked.out)[0]);
    assert_eq!(reported.code, checked.code, "the page says what the check said: {reported:?}");
    let page = fs::read_to_string(folder.join("report.html")).expect("it was written");
    assert!(page.contains("N* = ") || page.contains("peak: most is served"), "{reported:?}");
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
    let listed = sekisho(&folder, &["runs"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert_eq!(listed.out.matches(" client").count(), records(&folder), "{listed:?}");
}

fn records(folder: &Path) -> usize {
    fs::read_dir(folder.join(".sekisho/runs")).expect("there are runs").count()
}

/// A server of another program. It is ended with this value.
pub(crate) struct Foreign {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits until somebody listens.
#[track_caller]
fn listens(address: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "nobody listens on {address}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn write_index(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder of our own");
    fs::write(folder.join("index.html"), vec![b'x'; 20_000]).expect("room for a page");
}

/// `python3 -m http.server`, which says its port.
fn python(folder: &Path) -> Foreign {
    write_index(folder);
    let mut command = Command::new("python3");
    command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]);
    command.arg(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("python3 is installed: `cargo xtask test` does it");
    let mut line = String::new();
    let out = child.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("it says where it listens");
    let port = line.split_whitespace().skip_while(|word| *word != "port").nth(1);
    let port: u16 = port.and_then(|port| port.parse().ok()).expect("`... port 8000 ...`");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    listens(address);
    Foreign { child, address }
}

/// nginx in one process without a master, so that ending it leaves nobody behind.
fn nginx(folder: &Path) -> Foreign {
    nginx_that(folder, "")
}

/// The same, which speaks so.
fn nginx_that(folder: &Path, speaks: &str) -> Foreign {
    nginx_in(folder, speaks, "")
}

/// The same, with these lines before its server.
fn nginx_in(folder: &Path, speaks: &str, before: &str) -> Foreign {
    write_index(folder);
    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let address = address.expect("a free port");
    let kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {kind};\n"))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log nginx.err;\n\
         events {{ worker_connections 512; }}\n\
         http {{\naccess_log off;\n{kept}{before}server {{ listen {address}{speaks}; root {}; }}\n}}\n",
        folder.display()
    );
    fs::write(folder.join("nginx.conf"), text).expect("room for a configuration");
    let mut command = Command::new("nginx");
    command.env("PATH", "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
    command.arg("-p").arg(folder).arg("-e").arg(folder.join("nginx.err"));
    command.arg("-c").arg(folder.join("nginx.conf")).stdin(Stdio::null());
    let child = command.spawn().expect("nginx is installed: `cargo xtask test` does it");
    let started = Foreign { child, address };
    listens(address);
    started
}

#[test]
fn the_built_in_origin_from_its_url_to_the_report() {
    let _live = alone();
    let origin = server();
    walk(&format!("http://{}/20k", origin.address()));
    origin.stop();
}

/// nginx that speaks HTTP/2 over TLS, and lets 2,000 requests a second through: any machine's generator brings more than
/// that by one thread.
pub(crate) fn limited_nginx_by_tls(folder: &Path) -> Foreign {
    let limited = format!("{}; limit_req zone=all burst=1000", by_tls());
    nginx_in(folder, &limited, "limit_req_zone $server_port zone=all:1m rate=2000r/s;\n")
}

/// nginx that speaks HTTP/2 over TLS.
fn nginx_by_tls(folder: &Path) -> Foreign {
    nginx_that(folder, &by_tls())
}

/// How nginx listens by TLS.
fn by_tls() -> String {
    let certs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../load/tests/it/certs");
    let (chain, key) = (certs.join("server.pem"), certs.join("server.key"));
    let (chain, key) = (chain.display(), key.display());
    format!(" ssl http2; ssl_certificate {chain}; ssl_certificate_key {key}")
}

/// nginx speaks HTTP/2 without a word on the one port, and by ALPN on the other. It ends each connection with a
/// GOAWAY after a thousand requests: none of them is lost by that.
#[test]
fn nginx_by_http2_without_a_word_and_over_tls() {
    let _live = alone();
    for scheme in ["http", "https"] {
        let scratch = Scratch::new();
        let folder = scratch.join("");
        fs::create_dir(scratch.join("www")).expect("a folder of our own");
        let server = match scheme {
            "http" => nginx_that(&scratch.join("www"), " http2"),
            _ => nginx_by_tls(&scratch.join("www")),
        };
        let url = format!("{scheme}://{}/", server.address);
        let insecure = if scheme == "https" { &["--insecure"][..] } else { &[] };
        let words = ["measure", "http", &url, "--http2", "--streams", "8", "--clients", "16"];
        let short = ["--requests", "5000", "--warmup", "0s", "--json"];
        let ended = sekisho(&folder, &[&words[..], &short, insecure].concat());
        assert!([0, 5].contains(&ended.code), "{ended:?}");
        let object = &ended.objects()[0];
        assert_eq!(object["all"]["completed"], 5_000, "{ended:?}");
        assert_eq!(object["all"]["errors"], serde_json::json!({}), "{ended:?}");
        let warnings = object["warnings"].to_string();
        assert!(warnings.contains("(GOAWAY)") && warnings.contains("with NO_ERROR"), "{ended:?}");
        assert_eq!(object["header"]["settings"]["http-version"], "2");
        let other = sekisho(
            &folder,
            &[&["measure", "http", &url, "--clients", "1"][..], insecure].concat(),
        );
        if scheme == "https" {
            continue;
        }
        // By HTTP/1 at the port without a word, and the other way round: the cause, and what to say instead.
        assert_eq!(other.code, 2, "{other:?}");
        let said = other.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("it speaks HTTP/2, and no HTTP/1: say `--http2`"), "{other:?}");
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("www")).expect("a folder of our own");
    let server = nginx(&scratch.join("www"));
    let url = format!("http://{}/", server.address);
    let words = ["measure", "http", &url, "--http2", "--clients", "1"];
    let refused = sekisho(&scratch.join(""), &words);
    assert_eq!(refused.code, 2, "{refused:?}");
    let said = refused.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("it speaks HTTP/1, and no HTTP/2: leave out `--http2`"), "{refused:?}");
}

#[test]
fn nginx_from_its_url_to_the_report() {
    let _live = alone();
    let scratch = Scratch::new();
    let server = nginx(&scratch.join("www"));
    walk(&format!("http://{}/", server.address));
}

#[test]
fn a_server_of_python_from_its_url_to_the_report() {
    let _live = alone();
    let scratch = Scratch::new();
    let server = python(&scratch.join("www"));
    walk(&format!("http://{}/", server.address));
}

#[test]
fn apache_from_its_url_to_the_report() {
    let _live = alone();
    let apache = Apache::find().unwrap_or_else(|missing| panic!("{missing}"));
    let server = apache.start(&ApacheConfig {
        documents: vec![Document { name: "page".into(), bytes: 20_000 }],
        seed: 1,
        // One more than the clients: a connection that is kept holds its helper.
        helpers: 80,
        work: Work::Sendfile,
        keep_alive: true,
        cpu: None,
        backlog: 128,
        send_buffer: None,
    });
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    walk(&format!("http://{}/page", server.address()));
    server.stop();
}

#[test]
fn what_cannot_go_on_says_what_to_change() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = taken.local_addr().expect("it has one");
    drop(taken);
    let line = format!("sekisho measure http http://{nobody}/ --clients 1,2 --duration 500ms");
    let looked = shell(&folder, &line).ended(PATIENCE);
    assert_eq!(looked.code, 2, "{looked:?}");
    assert!(flat(&looked.err).contains("nobody listens there: start the service"), "{looked:?}");
    let refused = typed(&folder, &(line + " --warmup 100ms --no-preflight"));
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(flat(&refused.out).contains("to change: nothing was answered"), "{refused:?}");
    assert_eq!(printed(&refused.out), [""; 0], "no command helps: {refused:?}");
    let fit = sekisho(&folder, &["fit", "--last"]);
    assert_eq!(fit.code, 2, "{fit:?}");
    assert!(flat(&fit.err).contains("nothing was completed"), "{fit:?}");
    // A single load is no loop: a small and a saturating one are next.
    let _live = alone();
    let origin = server();
    let url = format!("http://{}/1k", origin.address());
    let line = format!("sekisho measure http {url} --clients 1 --duration 1s --warmup 200ms");
    let one = typed(&folder, &line);
    let next = printed(&one.out);
    assert!(next[0].starts_with("sekisho measure http http://"), "{one:?}");
    if one.code == 0 {
        assert!(next[0].contains("--warmup 200ms"), "it was typed, and is typed again: {one:?}");
        assert!(next[0].ends_with("--clients 1,4,16"), "{one:?}");
    }
    origin.stop();
}

/// A folder with runs of two targets, written and not measured.
fn folder_of_runs(folder: &Path) {
    let runs = folder.join(".sekisho/runs");
    fs::create_dir_all(&runs).expect("a folder of our own");
    for (nth, (clients, target)) in
        [(1, "a"), (16, "a"), (2, "b"), (32, "a")].into_iter().enumerate()
    {
        let mut record = records::record(clients);
        // The last two are of one process.
        let process = if nth < 2 { nth.to_string() } else { "beef".into() };
        record.header.id = format!("20261120T1130{nth:02}-000{process}");
        record.header.started = format!("2026-11-20T11:30:{nth:02}Z");
        record.header.target = format!("http://127.0.0.1/{target}/");
        records::write(&runs.join(format!("{}.jsonl", record.header.id)), &record);
    }
}

/// The story: a page of runs of a server and of the gate before it named the server alone, over all of them.
#[test]
fn a_page_of_runs_of_two_targets_names_both_and_whose_knee_it_has() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    folder_of_runs(&folder);
    let reported = sekisho(&folder, &["report", "--last", "4", "--out", "page.html"]);
    assert_eq!(reported.code, 0, "{reported:?}");
    let page = fs::read_to_string(folder.join("page.html")).expect("it was written");
    assert!(page.contains("http://127.0.0.1/a/, http://127.0.0.1/b/"), "both are named");
    assert!(
        page.contains("knee and advice are of the runs of http://127.0.0.1/a/ alone"),
        "whose it is"
    );
    fits_a_phone(&scratch, "page.html");
}

/// The story: on a phone the tables of runs and of both ends of a search were scrolled in their frames.
#[track_caller]
pub(crate) fn fits_a_phone(scratch: &Scratch, name: &str) {
    let html = fs::read_to_string(scratch.join(name)).expect("it was written");
    assert!(html.contains("<table class=\"stacked\">"), "a table of many columns is stacked");
    fs::write(scratch.join("phone.html"), framed(&html, 390, 900)).expect("a folder of our own");
    let narrow = open(&scratch.join("phone.html"), (800, 900));
    assert_eq!(narrow.root_data("errors"), Some("0"), "{:?}", narrow.script_messages());
    assert_eq!(narrow.root_data("scrolled"), Some("0"), "tables that do not fit");
    assert_eq!(narrow.root_data("scroll-width"), narrow.root_data("client-width"));
}

#[test]
fn a_folder_of_many_runs_is_listed_and_fitted_by_what_belongs_together() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    folder_of_runs(&folder);
    let listed = sekisho(&folder, &["runs"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let rows: Vec<&str> = listed.out.lines().filter(|line| line.contains("127.0.0.1/")).collect();
    assert_eq!(rows.len(), 4, "{listed:?}");
    for wanted in ["20261120T113003-000beef", "127.0.0.1/a/", "32 clients", "valid"] {
        assert!(rows[0].contains(wanted), "the newest first: no `{wanted}`: {listed:?}");
    }
    let two = sekisho(&folder, &["runs", "--last", "2", "--json"]);
    assert_eq!(two.objects().len(), 2, "{two:?}");
    let fitted = sekisho(&folder, &["fit", "--last", "4", "--cores", "1"]);
    assert_eq!(fitted.code, 0, "{fitted:?}");
    assert!(fitted.out.starts_with("fits: a request for x bytes costs"), "by sizes: {fitted:?}");
    let left = "left out: run 20261120T113002-000beef: it measured http://127.0.0.1/b/, not";
    assert!(flat(&fitted.out).contains(left), "{fitted:?}");
    // Those of the newest command have one load each of two targets.
    let newest = sekisho(&folder, &["fit", "--last"]);
    assert_eq!(newest.code, 2, "{newest:?}");
    assert!(flat(&newest.err).contains("all runs have one load, 32 clients"), "{newest:?}");
    let many = sekisho(&folder, &["check", "--last", "9", "--expect", "mean<1s"]);
    assert_eq!(many.code, 2, "{many:?}");
    assert!(flat(&many.err).contains("only 4 such runs are stored"), "{many:?}");
    let checked = sekisho(&folder, &["check", "--last", "--expect", "mean<1s"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert_eq!(checked.out.matches("holds: 20261120T1130").count(), 2, "{checked:?}");
    let next = printed(&checked.out);
    assert!(next[0].ends_with("--expect 'mean<1s'"), "{next:?}");
    assert_eq!(typed(&folder, &next[0]).code, 0);
    let nothing = sekisho(&scratch.join(".sekisho"), &["report", "--last"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    assert!(flat(&nothing.err).contains("measure first"), "{nothing:?}");
    let empty = sekisho(&scratch.join(".sekisho"), &["runs"]);
    assert!(empty.code == 0 && empty.out.starts_with("no run is stored"), "{empty:?}");
}

/// The story: `check` took the first of several numbers of slots silently, and `report` too.
#[test]
fn a_prediction_of_several_slots_asks_for_theirs() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    folder_of_runs(&folder);
    let fitted = sekisho(&folder, &["fit", "--last", "4", "--cores", "1"]);
    let asked = typed(&folder, "sekisho ask scenario.toml --clients 16 --slots 2,4 --out p.json");
    let next = printed(&asked.out);
    // Its record was not typed by anybody, so that nothing can be typed again.
    assert_eq!(next, ["sekisho report p.json"], "{fitted:?} {asked:?}");
    assert_eq!(typed(&folder, &next[0]).code, 0);
    let run = ".sekisho/runs/20261120T113001-0001.jsonl";
    let unclear = sekisho(&folder, &["check", run, "--prediction", "p.json"]);
    assert_eq!(unclear.code, 2, "{unclear:?}");
    assert!(flat(&unclear.err).contains("with 2 and 4 slots: say with"), "{unclear:?}");
    let told = typed(&folder, &format!("sekisho check {run} --prediction p.json --slots 4"));
    let reported = typed(&folder, &printed(&told.out)[0]);
    assert!(flat(&reported.out).contains("1 held against the prediction"), "{reported:?}");
    let open = typed(&folder, &format!("sekisho report {run} p.json"));
    assert!(flat(&open.out).contains("0 held against the prediction"), "{open:?}");
    assert!(flat(&open.out).contains("say with `--slots`"), "{open:?}");
}

/// The story: a run that had failed its `--expect` was reported as `measured`, in green.
#[test]
fn a_report_is_never_green_over_a_failed_expectation() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let mut record = records::record(16);
    let words = "sekisho measure http http://h/ --clients 16 --expect p99<1ms --expect errors<1%";
    record.header.command = words.split(' ').map(str::to_owned).collect();
    records::write(&folder.join("run.jsonl"), &record);
    let reported = typed(&folder, "sekisho report run.jsonl");
    assert_eq!(reported.code, 3, "{reported:?}");
    assert!(
        flat(&reported.out).starts_with("fails: 1 run; of 2 limits 1 holds, 1 fails"),
        "{reported:?}"
    );
    let page = fs::read_to_string(folder.join("report.html")).expect("it was written");
    assert!(page.contains("<p class=\"verdict fails\">"), "the box is not green");
    let wanted = ["p50", "p95", "p99", "errors", "What was expected", "p99&lt;1ms"];
    for wanted in wanted.into_iter().chain(["Throughput over time", "Response over time"]) {
        assert!(page.contains(wanted), "no `{wanted}`");
    }
    assert!(!page.contains("Throughput against load"), "one dot is a number");
    let shown = open(&folder.join("report.html"), (1200, 900));
    assert_eq!(shown.root_data("errors"), Some("0"), "{:?}", shown.script_messages());
    let listed = sekisho(&folder, &["report", "run.jsonl", "--json", "--expect", "mean<1s"]);
    let object = &listed.objects()[0];
    assert_eq!(object["expectations"].as_array().map(Vec::len), Some(3), "{listed:?}");
}

/// The story: of runs behind a gate of 4 slots the page advised 15, as if it knew the server.
#[test]
fn slots_are_advised_for_runs_without_a_gate_alone() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for clients in [1, 4, 16] {
        records::write(&folder.join(format!("{clients}.jsonl")), &records::record(clients));
    }
    let reported = typed(&folder, "sekisho report 1.jsonl 4.jsonl 16.jsonl");
    assert_eq!(reported.code, 0, "{reported:?}");
    let page = fs::read_to_string(folder.join("report.html")).expect("it was written");
    for wanted in [
        "advised, if the runs reached the server itself: a gate of",
        "the runs do not tell whether a gate or a pool of connections was before the server",
    ] {
        assert!(page.contains(wanted), "no `{wanted}`");
    }
}
