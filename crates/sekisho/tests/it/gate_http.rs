//! `sekisho gate http` as somebody operates it: from a file that changes while it runs, with a log that is
//! renamed, to an end that is announced; what it says of a start that cannot work; and its live page.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::{Driven, Scratch, keep};
use crate::command::{PATIENCE, Running, lines, sekisho, start, until};

/// A server that answers every request after a while, one a connection.
fn server(after: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = [0; 4096];
                if !matches!(stream.read(&mut head), Ok(1..)) {
                    return;
                }
                thread::sleep(after);
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
                // A client that has gone needs no answer.
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    port
}

/// The whole answer to a request with these further fields.
pub(crate) fn ask(at: &str, request: &str, fields: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let head =
        format!("{request} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub(crate) fn get(at: &str, path: &str) -> String {
    ask(at, &format!("GET {path}"), "").expect("it answers")
}

/// A gate from the file `gate.toml` of a folder, and its two addresses.
fn from_file(folder: &Path) -> (Running, String, String) {
    let running = start(folder, &["gate", "http", "--config", "gate.toml", "--json"]);
    let said = running.says("}\n");
    let first: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    let at = |name: &str| first[name].as_str().expect("an address").to_owned();
    let (listening, http) = (at("listening"), at("http"));
    (running, listening, http)
}

#[test]
fn a_gate_from_a_file_is_changed_by_hangup_and_leaves_by_term_when_that_was_announced() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let port = server(Duration::ZERO);
    let text = |more: &str| {
        format!(
            "format = 1\nlisten = [\"127.0.0.1:0\"]\nadmin.http = \"127.0.0.1:0\"\n\
             discipline = \"priority\"\npool.slots = 2\ntimeouts.drain-delay = \"1500ms\"\n\
             log.access = \"access.log\"\n[[server]]\nhost = \"127.0.0.1\"\nport = {port}\n{more}"
        )
    };
    let gold = "[[class]]\nname = \"gold\"\nheader = { X-Plan = \"gold\" }\npriority = 5\n";
    fs::write(folder.join("gate.toml"), text(gold)).expect("a folder of our own");
    let (running, listening, http) = from_file(&folder);
    assert!(get(&http, "/readyz").ends_with("ok\n"));
    let answer = ask(&listening, "GET /a?secret", "X-Plan: gold\r\n").expect("it answers");
    assert!(answer.ends_with("ok"), "{answer}");
    let metric = |series: &str| get(&http, "/metrics").contains(&format!("\n{series}\n"));
    let requests = "sekisho_requests_total{class=\"gold\",status=\"2xx\",source=\"server\"}";
    assert!(metric(&format!("{requests} 1")));
    let log = folder.join("access.log");
    until("a line", || lines(&log).len() == 1);
    let line = &lines(&log)[0];
    assert_eq!((&line["class"], &line["path"]), (&"gold".into(), &"/a".into()));

    // A file that is wrong changes nothing; one that is right holds at once.
    fs::write(folder.join("gate.toml"), text("[[class]]\nnaem = \"x\"\n")).expect("as above");
    running.signal("HUP");
    running.complains("goes on as it was");
    running.complains("did you mean");
    let writes = "[[class]]\nname = \"writes\"\nmethod = [\"POST\"]\npriority = 7\n";
    let both = text(&format!("{writes}{gold}")).replace("slots = 2", "slots = 3");
    fs::write(folder.join("gate.toml"), both).expect("as above");
    running.signal("HUP");
    running.complains("has read its configuration anew");
    assert!(metric("sekisho_slots 3"));
    assert!(metric(&format!("{requests} 1")), "counts go on");
    ask(&listening, "POST /a", "Content-Length: 0\r\n").expect("it answers");
    let writes = "sekisho_hold_seconds_count{class=\"writes\"} 1";
    assert!(metric(writes));

    // Somebody renames the log.
    until("two lines", || lines(&log).len() == 2);
    let old = folder.join("access.log.1");
    fs::rename(&log, &old).expect("it is there");
    running.signal("USR1");
    until("a new file", || {
        get(&listening, "/new");
        log.exists()
    });
    until("a line in it", || lines(&log).last().is_some_and(|line| line["path"] == "/new"));

    let began = Instant::now();
    running.signal("TERM");
    until("not ready", || get(&http, "/readyz").ends_with("draining\n"));
    assert!(get(&http, "/healthz").ends_with("ok\n"));
    assert!(get(&listening, "/late").ends_with("ok"), "it serves until its delay is over");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
    assert!(TcpStream::connect(&listening).is_err());
    assert!(lines(&log).iter().any(|line| line["path"] == "/late"));
}

/// The story: the gate kept its old log, and said that another counts after a restart.
#[test]
fn an_access_log_begins_moves_and_ends_with_a_reload() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let port = server(Duration::ZERO);
    let with = |log: &str| {
        let text = format!(
            "format = 1\nlisten = [\"127.0.0.1:0\"]\nadmin.http = \"127.0.0.1:0\"\npool.slots = 2\n{log}\
             [[server]]\nhost = \"127.0.0.1\"\nport = {port}\n"
        );
        fs::write(folder.join("gate.toml"), text).expect("a folder of our own");
    };
    with("");
    let (running, listening, _) = from_file(&folder);
    running.signal("USR1");
    let get_from = |path: &str| assert!(get(&listening, path).ends_with("ok"));
    get_from("/unlogged");
    let [first, second] = ["first.log", "second.log"].map(|name| folder.join(name));
    let paths = |file: &Path| -> Vec<String> {
        let path = |line: &Value| line["path"].as_str().expect("a path").to_owned();
        lines(file).iter().map(path).collect()
    };
    let has = |file: &Path, wanted: &str| paths(file).iter().any(|path| path == wanted);
    // Until it is taken, a request has a line where it had one before.
    let taken = |log: &str, file: &Path, path: &str| {
        with(log);
        running.signal("HUP");
        until(path, || {
            get_from(path);
            has(file, path)
        });
    };
    taken("log.access = \"first.log\"\n", &first, "/1");
    assert!(!has(&first, "/unlogged"));
    with("log.access = \"no/such/third.log\"\n");
    running.signal("HUP");
    running.complains("goes on as it was");
    get_from("/2");
    until("the old one goes on", || has(&first, "/2"));
    taken("log.access = \"second.log\"\nlog.query = true\n", &second, "/3?q");
    get_from("/4?q");
    until("a line", || has(&second, "/4?q"));
    assert!(!paths(&first).iter().any(|path| path.starts_with("/4")));
    with("");
    running.signal("HUP");
    // No line comes any more.
    until("none is kept", || {
        let had = lines(&second).len();
        get_from("/5");
        thread::sleep(Duration::from_millis(100));
        lines(&second).len() == had
    });
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("cannot write the access log no/such/third.log: "), "{ended:?}");
    assert!(told.contains("name a file in a folder that exists"), "{ended:?}");
}

#[test]
fn a_file_is_looked_at_without_a_gate_and_refused_by_line() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let text = "format = 1\nlisten = [\"127.0.0.1:0\"]\npool.slots = 2\n[[server]]\n\
                host = \"127.0.0.1\"\nport = 1\n";
    fs::write(folder.join("gate.toml"), text).expect("a folder of our own");
    for flag in ["--check", "--check-config"] {
        let ended = sekisho(&folder, &["gate", "http", flag, "gate.toml"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let wanted = "gate.toml: a gate can start with it: 1 server, slots 2, 1 class\n";
        assert!(ended.out.starts_with(wanted), "{ended:?}");
        assert!(ended.out.ends_with("next: sekisho gate http --config gate.toml\n"), "{ended:?}");
    }
    let flags = ["--config", "gate.toml", "--slots", "3"];
    let ended = sekisho(&folder, &[&["gate", "http"], &flags[..]].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("cannot be used with"), "{ended:?}");
    fs::write(folder.join("gate.toml"), text.replace("port", "prot")).expect("as above");
    let ended = sekisho(&folder, &["gate", "http", "--config", "gate.toml"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("gate.toml:6:1: unknown key `prot`"), "{ended:?}");
}

#[test]
fn a_start_that_cannot_work_says_so() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let upstream = ["gate", "http", "--listen", "127.0.0.1:0", "--upstream"];
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Nobody listens there: the gate goes on, and says what it does meanwhile.
    let running = start(&folder, &[&upstream[..], &["127.0.0.1:1", "--slots", "1"]].concat());
    running.complains("does not answer");
    running.says("next: curl http://127.0.0.1:");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    // The story: a recording that could not be written ended with exit code 1, as a fault of the program does.
    let record = ["127.0.0.1:1", "--slots", "1", "--record", "no/such/place.jsonl"];
    let running = start(&folder, &[&upstream[..], &record].concat());
    running.says("next: curl http://127.0.0.1:");
    running.signal("TERM");
    let unwritten = running.ended(PATIENCE);
    assert_eq!(unwritten.code, 2, "{unwritten:?}");
    assert!(unwritten.err.contains("cannot write no/such/place.jsonl"), "{unwritten:?}");
    let told = "note: the server 127.0.0.1:1 does not answer";
    assert!(flat(&ended.err).contains(told), "{ended:?}");
    assert!(flat(&ended.err).contains("Meanwhile requests are refused"), "{ended:?}");
    for (words, wanted) in [
        (&["127.0.0.1:1", "--slots", "x"][..], "slots are a whole number such as 8, or `auto`"),
        (
            &["http://127.0.0.1:9000/x", "--slots", "1"],
            "`--upstream http://127.0.0.1:9000/x` is a URL, and a host with its port is wanted: \
             `--upstream 127.0.0.1:9000`",
        ),
        (&["https://h", "--slots", "1"], "`--upstream h:443`"),
        (
            &["127.0.0.1:1", "--slots", "1", "--access-log", "no/such/place.log"],
            "cannot write the access log no/such/place.log",
        ),
        (
            &["127.0.0.1:1", "--slots", "1", "--clients-max", "16000000"],
            "file descriptors, and the system gives this process",
        ),
    ] {
        let ended = sekisho(&folder, &[&upstream[..], words].concat());
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        assert!(flat(&ended.err).contains(wanted), "{wanted}: {}", flat(&ended.err));
    }
}

#[test]
fn the_live_page_shows_a_gate_under_load() {
    let scratch = Scratch::new();
    let upstream = format!("127.0.0.1:{}", server(Duration::from_millis(40)));
    let words = ["gate", "http", "--listen", "127.0.0.1:0", "--admin-http", "127.0.0.1:0"];
    let more = ["--upstream", &upstream, "--slots", "2", "--priority", "/pay/=3"];
    let policy = ["--discipline", "priority", "--json"];
    let running = start(&scratch.join(""), &[&words[..], &more, &policy].concat());
    let said = running.says("}\n");
    let first: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    let at = |name: &str| first[name].as_str().expect("an address").to_owned();
    let (listening, page) = (at("listening"), format!("http://{}/", at("http")));
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|nth| {
            let (listening, stop) = (listening.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    get(&listening, if nth == 0 { "/pay/1" } else { "/x" });
                }
            })
        })
        .collect();
    let mut browser = Driven::start();
    for (name, size) in [("wide", (1200, 900)), ("narrow", (390, 740))] {
        browser.visit(&page, size);
        browser.wait_for("document.documentElement.dataset.state === 'live'");
        browser.wait_for("document.getElementById('slots').textContent === '2 / 2'");
        browser.wait_for("document.querySelectorAll('#classes tbody tr').length === 2");
        browser.wait_for("document.querySelectorAll('#servers tbody tr').length === 1");
        // The rate is that of the last seconds: 2 slots of 40 ms and more serve 50 a second at most.
        browser.wait_for("/^[0-9.]+ [/]s$/.test(document.getElementById('rate').textContent)");
        let rate = "Number(document.getElementById('rate').textContent.split(' ')[0])";
        let rate = browser.value(rate).as_f64().expect("a number");
        assert!(rate > 0.0 && rate <= 60.0, "{rate}");
        let points =
            "document.querySelector('#chart-rate .first').getAttribute('points').split(' ').length";
        browser.wait_for(&format!("{points} > 2"));
        for chart in ["chart-slots", "chart-rate"] {
            let axes = format!(
                "[...document.querySelectorAll('#{chart} .ticks li')].map((l) => l.textContent).join('|')"
            );
            let axes = browser.value(&axes).as_str().expect("a text").to_owned();
            assert!(axes.ends_with("2 min ago|1 min ago|now"), "{axes}");
            let top = axes.split(['|', ' ']).next().and_then(|top| top.parse::<f64>().ok());
            assert!(top.is_some_and(|top| top >= 1.0), "{axes}");
        }
        let [all, seen] = ["scrollWidth", "clientWidth"]
            .map(|name| browser.value(&format!("document.documentElement.{name}")).as_u64());
        assert!(all.is_some() && all <= seen, "{all:?} px in {seen:?} px");
        keep(&format!("gate-http-{name}.png"), &browser.picture());
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("it was served"));
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    browser.wait_for("document.documentElement.dataset.state === 'lost'");
    let complaints: Vec<_> = browser
        .complaints()
        .iter()
        .filter(|one| !one.contains("ERR_CONNECTION"))
        .cloned()
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
