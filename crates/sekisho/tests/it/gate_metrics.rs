//! The metrics of both gates: one query serves the gate in front of HTTP and the one in front of PostgreSQL.

#[path = "../../../pgconsole/tests/it/exposition.rs"]
#[allow(clippy::unwrap_used, reason = "a text that is not in the format ends the test")]
pub(crate) mod exposition;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use httpgate::{Config, Server};
use pgconsole::prometheus;

use crate::gate_page::sample;
use exposition::read;

/// Names and labels of what a gate tells of itself, without the labels that tell one gate from others.
fn of_gates(text: &str) -> BTreeSet<(String, String, Vec<String>)> {
    let (families, samples) = read(text);
    let gates = ["slots", "slots_busy", "waiting", "class_busy", "refused_total", "reneged_total"];
    let process = ["build_info", "uptime_seconds", "connections", "connections_accepted_total"];
    let state = ["log_lines_lost_total", "paused", "draining", "wait_oldest_seconds"];
    let servers = ["server_up", "server_slots", "server_busy", "server_started_total"];
    let gates = gates.into_iter().chain(process).chain(state).chain(servers);
    let gates = gates.chain(["slots_dropped_total", "wait_seconds", "hold_seconds", "model"]);
    let gates: BTreeSet<String> = gates.map(|name| format!("sekisho_{name}")).collect();
    let family = |sample: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| sample.strip_suffix(part)).unwrap_or(sample);
        gates.get(base).or_else(|| gates.get(sample)).cloned()
    };
    let told = samples.iter().filter_map(|(name, labels, _)| {
        let family = family(name)?;
        let labels = labels.keys().filter(|label| !["database", "user"].contains(&&***label));
        Some((name.clone(), families[&family].clone(), labels.cloned().collect()))
    });
    told.filter(|(name, ..)| name != "sekisho_model").collect()
}

/// The reasons for which jobs are refused.
fn reasons(text: &str) -> BTreeSet<String> {
    let refused = read(text).1.into_iter().filter(|(name, ..)| name == "sekisho_refused_total");
    refused.map(|(_, labels, _)| labels["reason"].clone()).collect()
}

/// Asks once, over a connection of its own; the body of the answer.
fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout above 0");
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and closes");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

/// A server that answers one request with nothing.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the gate connects");
        let mut head = [0; 4096];
        let read = stream.read(&mut head).expect("the gate asks");
        assert!(read > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("it reads");
    });
    address
}

/// The metrics of a gate in front of HTTP that has served a request.
pub(crate) fn http_metrics() -> String {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().expect("it is an address");
    let mut config = Config::new(anywhere, vec![upstream()], 2);
    config.admin = Some(anywhere);
    let server = Server::bind(config).expect("a gate on loopback");
    let gate = server.handle();
    let running = thread::spawn(move || server.run());
    assert_eq!(get(gate.address(), "/x"), "ok");
    let http = get(gate.admin_address().expect("it was asked for"), "/metrics");
    gate.drain().expect("the gate runs");
    running.join().expect("the gate does not panic").expect("it ends well");
    http
}

#[test]
fn both_gates_tell_of_themselves_by_the_same_names_and_labels() {
    let http = http_metrics();
    let postgres = prometheus(&sample::filled());
    let told = of_gates(&http);
    assert_eq!(told, of_gates(&postgres));
    assert_eq!(reasons(&http), reasons(&postgres));
    let names: BTreeSet<&str> = told.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(
        names.len(),
        25,
        "of the process 7, of the gate 8, four by class, and two histograms of three: {names:?}"
    );
}
