//! `sekisho measure http` on services that nobody here wrote: the server of Python's standard library, plain
//! and over TLS, with paths, bodies, files of requests, logs, loads that vary, and what goes wrong.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use measure::{Course, LoadShape};

use crate::browser::Scratch;
use crate::command::{Ended, sekisho, shell};
use crate::records;
use crate::site::alone;

/// Python's own server of files, which also takes a POST of JSON, redirects, and hides a page. Its handling
/// of connections, of heads and of TLS is Python's.
const SERVER: &str = r#"
import http.server, json, ssl, sys
class Service(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, status, headers=(), body=b"{}"):
        self.send_response(status)
        for name, value in headers: self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == "/moved": self.reply(302, [("Location", "/5k")])
        elif self.path == "/secret": self.reply(401, [("WWW-Authenticate", "Basic realm=x")])
        elif self.path == "/broken": self.reply(500)
        else: super().do_GET()
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        typed = self.headers["Content-Type"] == "application/json"
        good = typed and json.loads(body).get("id") == 7
        self.reply(201 if good else 415)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

struct Python {
    child: Child,
    place: String,
}

impl Python {
    fn start(words: &[PathBuf]) -> (Python, Scratch) {
        let scratch = Scratch::new();
        fs::write(scratch.join("index.html"), "hello\n").expect("a folder of our own");
        fs::write(scratch.join("5k"), vec![b'x'; 5000]).expect("the same");
        let mut child = Command::new("python3")
            .args(["-c", SERVER])
            .args(words)
            .current_dir(scratch.join(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 is there: `cargo xtask test` installs it");
        let mut port = String::new();
        let out = child.stdout.take().expect("piped above");
        BufReader::new(out).read_line(&mut port).expect("it says its port");
        let place = format!("127.0.0.1:{}", port.trim());
        (Python { child, place }, scratch)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A measurement, short, whose verdict a busy machine may spoil, but not its record.
#[track_caller]
fn measured(folder: &Path, url: &str, rest: &[&str]) -> (Ended, measure::RunRecord) {
    let words =
        [&["measure", "http", url, "--out", "run.jsonl", "--preflight", "20s"], rest].concat();
    let ended = sekisho(folder, &words);
    assert!([0, 4, 5].contains(&ended.code), "{ended:?}");
    let record = records::read(&folder.join("run.jsonl"));
    let failed: u64 = record
        .intervals
        .iter()
        .flat_map(|i| &i.classes)
        .flat_map(|class| class.errors.values())
        .sum();
    assert_eq!(failed, 0, "{ended:?}");
    (ended, record)
}

/// Requests that were completed, by class.
fn completed(record: &measure::RunRecord) -> Vec<(String, u64)> {
    let of = |class: usize| record.intervals.iter().map(|i| i.classes[class].completed).sum();
    let names = record.header.classes.iter().map(|class| class.name.clone());
    names.enumerate().map(|(class, name)| (name, of(class))).collect()
}

fn counts(of: &[(&str, u64)]) -> Vec<(String, u64)> {
    of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn any_service_is_measured_whatever_is_asked_of_it() {
    let _live = alone();
    let (python, scratch) = Python::start(&[]);
    let folder = scratch.join("");
    let url = format!("http://{}/", python.place);
    let short = ["--clients", "2", "--requests", "60", "--warmup", "0s"];
    // Several URLs: sizes are what the server said of each.
    let second = format!("{url}5k");
    let (_, record) = measured(&folder, &url, &[&[second.as_str()], &short[..]].concat());
    assert_eq!(completed(&record), counts(&[("/", 30), ("/5k", 30)]));
    let sizes: Vec<_> = record.header.classes.iter().map(|class| class.bytes).collect();
    assert_eq!(sizes, [Some(6), Some(5000)]);
    // Paths with weights, and a body, whose text is not recorded.
    let paths = ["--get", "4:/5k", "--post", "/orders", "{\"id\": 7}", "-H", "X-Key: s3cret"];
    let (_, record) = measured(&folder, &url, &[&paths[..], &short].concat());
    assert_eq!(completed(&record), counts(&[("/5k", 48), ("POST /orders", 12)]));
    let command = record.header.command.join(" ");
    assert!(!command.contains("s3cret") && !command.contains("id"), "{command}");
    assert!(command.contains("--post /orders ... -H X-Key: ..."), "{command}");
    // A file in both formats.
    fs::write(folder.join("order.json"), "{\"id\": 7}").expect("a folder of our own");
    let toml = "[[request]]\nname = \"page\"\npath = \"/\"\nweight = 2\n\n[[request]]\nmethod = \"POST\"\n\
                path = \"/orders\"\nbody-file = \"order.json\"\n";
    let vegeta = format!(
        "GET {url}\nX-A: 1\n\nPOST {url}orders\nContent-Type: application/json\n@order.json\n"
    );
    for (text, wanted) in [
        (toml, [("page", 40), ("POST /orders", 20)]),
        (vegeta.as_str(), [("/", 30), ("POST /orders", 30)]),
    ] {
        fs::write(folder.join("mix"), text).expect("a folder of our own");
        let (_, record) = measured(&folder, &url, &[&["--targets", "mix"], &short[..]].concat());
        assert_eq!(completed(&record), counts(&wanted));
    }
}

#[test]
fn a_log_is_replayed_with_its_own_gaps_or_by_clients() {
    let _live = alone();
    let (python, scratch) = Python::start(&[]);
    let folder = scratch.join("");
    let url = format!("http://{}/", python.place);
    let mut log = fs::File::create(folder.join("access.log")).expect("a folder of our own");
    for nth in 0..20 {
        let path = if nth % 4 == 0 { "/5k" } else { "/?page=7" };
        let second = nth / 10;
        writeln!(
            log,
            "10.0.0.1 - - [10/Oct/2026:13:55:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5"
        )
        .expect("the same");
    }
    writeln!(log, "10.0.0.1 - - [10/Oct/2026:13:55:02 +0000] \"POST /orders HTTP/1.1\" 201 2")
        .expect("the same");
    drop(log);
    let (ended, record) = measured(&folder, &url, &["--log", "access.log", "--speed", "2x"]);
    assert_eq!(completed(&record), counts(&[("/", 15), ("/5k", 5)]));
    assert!(ended.err.contains("left out are 1 POST"), "{ended:?}");
    assert!(ended.err.contains("whole seconds"), "{ended:?}");
    assert!(ended.out.contains("a log's 20 requests in 951 ms at 2 x speed"), "{ended:?}");
    let LoadShape::Varying { course: Course::Log { requests, speed }, phases, .. } =
        &record.header.load
    else {
        panic!("{:?}", record.header.load)
    };
    assert_eq!((*requests, *speed, phases.len()), (20, 2.0, 10));
    let closed = ["--log", "access.log", "--clients", "1", "--requests", "40", "--warmup", "0s"];
    let (_, record) = measured(&folder, &url, &closed);
    assert_eq!(completed(&record), counts(&[("/", 30), ("/5k", 10)]), "twice through");
}

#[test]
fn a_load_that_varies_is_told_by_phase() {
    let _live = alone();
    let (python, scratch) = Python::start(&[]);
    let folder = scratch.join("");
    let url = format!("http://{}/", python.place);
    let steps = ["--steps", "1s:20/s,1s:60/s", "--arrivals", "fixed", "--warmup", "0s"];
    let (ended, record) = measured(&folder, &url, &steps);
    let LoadShape::Varying { phases, .. } = &record.header.load else { panic!() };
    assert_eq!(phases.iter().map(|phase| phase.arrivals).collect::<Vec<_>>(), [20.0, 60.0]);
    let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("of about 80 requests answered in 2"), "{ended:?}");
    for line in ["  20.0 /s ", "  60.0 /s ", "[class.rate-curve]"] {
        assert!(ended.out.contains(line), "{line}: {ended:?}");
    }
    assert!(ended.out.contains("[\"0s\", \"20/s\"], [\"1s\", \"60/s\"]"), "{ended:?}");
    let page = sekisho(&folder, &["report", "run.jsonl"]);
    // As the measurement ended: a machine that is busy makes a generator late.
    assert_eq!(page.code, ended.code, "{page:?}");
    assert!([0, 5].contains(&page.code), "{page:?}");
    let page = fs::read_to_string(folder.join(page.after("report"))).expect("it was written");
    assert!(page.contains("By phase") && page.contains("no number of the whole run"), "{page}");
    let blip = ["--rate", "20/s", "--blip", "200ms:100/s", "--duration", "1s", "--warmup", "0s"];
    let (ended, _) = measured(&folder, &url, &blip);
    assert!(ended.out.contains("  blip, 100 /s"), "{ended:?}");
    let ramp = ["--ramp", "0/s:50/s", "--duration", "1s", "--warmup", "0s", "--json"];
    let (ended, _) = measured(&folder, &url, &ramp);
    assert_eq!(ended.objects()[0]["phases"].as_array().map(Vec::len), Some(10));
}

/// Each of them is found out before any load, in the time of one request.
#[test]
fn what_will_not_work_is_told_before_any_load() {
    let _live = alone();
    let (python, scratch) = Python::start(&[]);
    let folder = scratch.join("");
    let url = format!("http://{}", python.place);
    let cases: [(&[&str], &[&str]); 8] = [
        (&["/none"], &["GET /none is answered with 404", "nothing at this path", "--no-preflight"]),
        (&["/secret"], &["answered with 401", "Basic realm=x", "--header 'Authorization"]),
        (&["/broken"], &["answered with 500", "without load"]),
        (&["/moved"], &["redirects to /5k", "not followed", "next: sekisho measure http"]),
        (&["/", "--post", "/orders", "x"], &["answered with 415", "body and headers"]),
        (&["/", "--get", "http://127.0.0.1:1/x"], &["is at another server than"]),
        (&["/", "--get", "0:/x"], &["the weight of `0:/x`"]),
        (&["/", "--get", "/x", "--method", "PUT"], &["belong to the URLs themselves"]),
    ];
    for (words, wanted) in cases {
        let url = format!("{url}{}", words[0]);
        let words =
            [&["measure", "http", &url, "--clients", "1", "--preflight", "20s"], &words[1..]]
                .concat();
        let begun = Instant::now();
        let ended = sekisho(&folder, &words);
        assert!(begun.elapsed() < Duration::from_secs(20), "a busy machine's bound");
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{words:?}: {ended:?}");
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in wanted {
            assert!(said.contains(wanted), "{words:?}: no `{wanted}` in {said}");
        }
    }
    assert!(!scratch.join(".sekisho").exists(), "nothing was recorded");
    // The command that is printed is one that works.
    let moved = format!(
        "sekisho measure http {url}/moved --clients 1 --requests 5 --warmup 0s --preflight 20s"
    );
    let ended = shell(&folder, &moved).ended(crate::command::PATIENCE);
    let next = ended.err.split_once("next: ").expect("it says what to type").1;
    let next = next.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(next.contains(&format!("{url}/5k")), "{next}");
    let followed = shell(&folder, &next).ended(crate::command::PATIENCE);
    assert!([0, 5].contains(&followed.code), "{followed:?}");
    // What was asked for in spite of all is done.
    let none = format!("{url}/none");
    let anyway = ["measure", "http", &none, "--clients", "1", "--requests", "5", "--warmup", "0s"];
    let anyway = sekisho(&folder, &[&anyway[..], &["--no-preflight"]].concat());
    assert!(anyway.code == 5 && anyway.out.contains("5 status4xx"), "{anyway:?}");
}

/// A server that answers each request with 404 at once, and the number of requests that it has had.
fn without_documents() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&client).lines().map_while(Result::ok);
                while lines.any(|line| line.is_empty()) {
                    count.fetch_add(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                    if (&client).write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

/// A busy machine makes many tries late, and hardly all of twenty. A preflight that waits for a second makes each late.
#[test]
fn a_preflight_is_one_request_for_each_document_and_takes_less_than_a_second() {
    let _live = alone();
    let (scratch, (address, requests)) = (Scratch::new(), without_documents());
    let url = format!("http://{address}/");
    let words = [
        "measure",
        "http",
        &url,
        "--get",
        "/b",
        "--get",
        "/c",
        "--clients",
        "1",
        "--preflight",
        "20s",
    ];
    let mut took = Vec::new();
    for nth in 1..=20 {
        let begun = Instant::now();
        let ended = sekisho(&scratch.join(""), &words);
        took.push(begun.elapsed());
        assert!(ended.code == 2 && ended.err.contains("answered with 404"), "{ended:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 2 * nth, "{ended:?}");
        if took.last() < Some(&Duration::from_secs(1)) {
            return;
        }
    }
    panic!("none of these was made in a second: {took:?}");
}

#[test]
fn tls_is_told_apart_from_plain_http_and_distrust_from_both() {
    let _live = alone();
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    let (python, scratch) = Python::start(&[tls.join("server.pem"), tls.join("server.key")]);
    let folder = scratch.join("");
    let port = python.place.rsplit_once(':').expect("it has a port").1;
    let secure = format!("https://localhost:{port}/");
    let short = ["--clients", "1", "--requests", "5", "--warmup", "0s", "--preflight", "20s"];
    let told = |url: &str, rest: &[&str]| {
        let ended = sekisho(&folder, &[&["measure", "http", url], rest, &short].concat());
        (ended.code, ended.err.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (code, said) = told(&secure, &[]);
    assert!(code == 2 && said.contains("signed by nobody who is trusted"), "{said}");
    assert!(said.contains("--ca FILE") && said.contains("--insecure"), "{said}");
    let (code, said) = told(&format!("http://localhost:{port}/"), &[]);
    assert!(code == 2 && said.contains("it speaks TLS, and no plain HTTP"), "{said}");
    assert!(said.contains(&format!("next: sekisho measure http {secure}")), "{said}");
    let ca = tls.join("ca.pem").display().to_string();
    let (code, said) = told(&secure, &["--ca", &ca]);
    assert!([0, 5].contains(&code), "{said}");
}
