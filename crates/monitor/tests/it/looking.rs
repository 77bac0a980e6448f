//! What a monitor that runs shows over HTTP, and that nobody who looks at it holds up anybody.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use monitor::{Config, Mode};
use serde_json::Value;

use super::{Gate, ask, config, database, runtime};

/// A gate whose metrics are somewhere.
fn looked_at(slots: u32) -> Config {
    let mut config = config(database(Mode::Transaction, slots));
    config.admin.http = Some("127.0.0.1:0".parse().unwrap());
    config
}

fn gate(slots: u32) -> Gate {
    Gate::new(looked_at(slots))
}

fn http(gate: &Gate) -> SocketAddr {
    gate.handle.http().unwrap()
}

/// The whole answer to one request.
fn answer(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // One that is turned away may be closed before it has said anything.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// Status and body.
pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = answer(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), body.len());
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn state(address: SocketAddr) -> Value {
    let (status, body) = get(address, "/state.json");
    assert_eq!(status, 200);
    serde_json::from_str(&body).unwrap()
}

#[test]
fn metrics_state_and_page_are_of_the_gate_as_it_is() {
    let gate = gate(1);
    let at = http(&gate);
    assert!(state(at)["pools"].as_array().unwrap().is_empty());
    runtime().block_on(async {
        let (one, two) = (gate.connect().await, gate.connect().await);
        one.batch_execute("BEGIN").await.unwrap();
        let waits = tokio::spawn(async move { ask(&two, "SELECT 1").await.unwrap() });
        let began = Instant::now();
        while gate.stats().pools[0].waiting == 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", gate.stats());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let now = state(at);
        assert_eq!((&now["totals"]["clients"], &now["totals"]["waiting"]), (&2.into(), &1.into()));
        assert_eq!(now["pools"][0]["gate"]["busy"], 1);
        assert_eq!(now["queue"][0]["client"], now["clients"][0]["id"], "who waits is first");
        let (status, metrics) = get(at, "/metrics");
        assert_eq!(status, 200);
        let has = |line: &str| metrics.lines().any(|one| one == line);
        assert!(has("sekisho_connections 2"), "{metrics}");
        let name = database(Mode::Transaction, 1).name;
        let labels = format!("database=\"{name}\",user=\"sekisho\"");
        assert!(has(&format!("sekisho_slots_busy{{{labels}}} 1")), "{metrics}");
        assert!(has(&format!("sekisho_waiting{{{labels},class=\"other\"}} 1")), "{metrics}");
        one.batch_execute("COMMIT").await.unwrap();
        assert_eq!(waits.await.unwrap(), "1");
    });
    let (status, page) = get(at, "/");
    assert!(status == 200 && page.contains("<title>Sekisho gate</title>"));
    assert_eq!(get(at, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(at, "/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(get(at, "/secrets").0, 404);
    let posted = answer(at, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("Allow: GET, HEAD"), "{posted}");
    let head = answer(at, "HEAD / HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let elsewhere = answer(at, "GET /state.json HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 421 "), "{elsewhere}");
    gate.end();
}

#[test]
fn a_gate_that_drains_lives_and_is_not_ready() {
    let gate = gate(1);
    let at = http(&gate);
    runtime().block_on(async {
        let one = gate.connect().await;
        one.batch_execute("BEGIN").await.unwrap();
        gate.handle.drain().unwrap();
        assert_eq!(get(at, "/readyz"), (503, "draining\n".to_owned()));
        assert_eq!(get(at, "/healthz").0, 200);
        assert_eq!(state(at)["phase"], "draining");
        // It may be sent away before it hears that this went well.
        let _ = one.batch_execute("COMMIT").await;
    });
    gate.thread_ends();
    assert!(TcpStream::connect(at).is_err(), "it has ended with the gate");
}

#[test]
fn a_gate_that_leaves_is_not_ready_at_once_and_lets_in_until_its_delay_is_over() {
    let mut config = looked_at(1);
    config.timeouts.drain_delay = Duration::from_millis(900);
    let gate = Gate::new(config);
    let at = http(&gate);
    let began = Instant::now();
    gate.handle.drain().unwrap();
    assert_eq!(get(at, "/readyz"), (503, "draining\n".to_owned()));
    assert_eq!(get(at, "/healthz").0, 200);
    assert_eq!(state(at)["phase"], "draining");
    runtime().block_on(async {
        let late = gate.connect().await;
        assert_eq!(ask(&late, "SELECT 7").await.unwrap(), "7", "it is let in and served");
    });
    gate.thread_ends();
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

/// Names of metrics in a text.
fn names(text: &str) -> Vec<&str> {
    let belongs = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let starts = text.match_indices("sekisho_").map(|(at, _)| &text[at..]);
    let mut names: Vec<_> =
        starts.map(|rest| rest.split(|letter| !belongs(letter)).next().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn the_dashboard_asks_for_what_a_gate_that_runs_tells() {
    let gate = gate(1);
    runtime().block_on(async {
        let one = gate.connect().await;
        ask(&one, "SELECT 1").await.unwrap();
    });
    let (_, metrics) = get(http(&gate), "/metrics");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../contrib/grafana/sekisho-postgres.json");
    let dashboard = std::fs::read_to_string(path).unwrap();
    let told = names(&metrics);
    // A model is not fitted at once, so that its families are there without numbers.
    let asked = names(&dashboard);
    assert!(asked.len() > 10, "{asked:?}");
    let missing: Vec<_> = asked.iter().filter(|name| !told.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not among {told:?}");
    gate.end();
}

#[test]
fn those_who_ask_and_say_nothing_hold_up_neither_each_other_nor_clients() {
    let gate = gate(1);
    let at = http(&gate);
    // As many as there may be, which say nothing, and some that say half.
    let silent: Vec<TcpStream> = (0..16)
        .map(|which| {
            let mut stream = TcpStream::connect(at).unwrap();
            if which % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
            }
            stream
        })
        .collect();
    runtime().block_on(async {
        let one = gate.connect().await;
        assert_eq!(ask(&one, "SELECT 9").await.unwrap(), "9");
    });
    assert_eq!(answer(at, "GET / HTTP/1.1\r\n\r\n"), "", "there is no room for more");
    drop(silent);
    let began = Instant::now();
    while answer(at, "GET /healthz HTTP/1.1\r\n\r\n").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "their places are free again");
    }
    // Those that stay are closed in time.
    let mut silent = TcpStream::connect(at).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    // Garbage is told so.
    let told = answer(at, "\x16\x03\x01\x02\r\n\r\n");
    assert!(told.starts_with("HTTP/1.1 400 "), "{told}");
    let long = answer(at, &format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)));
    assert!(long.starts_with("HTTP/1.1 431 "), "{}", &long[..40.min(long.len())]);
    gate.end();
}

#[test]
fn an_address_that_is_taken_is_said_at_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(database(Mode::Transaction, 1));
    config.admin.http = Some(taken.local_addr().unwrap());
    let error = monitor::Monitor::bind(config).unwrap_err();
    let address = taken.local_addr().unwrap().to_string();
    assert!(error.to_string().contains(&address), "{error}");
}
