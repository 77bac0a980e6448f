//! The ingress: answers, ids, errors, lists.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agents_server::Server;
use agents_store::{Memory, Store};

use crate::delivering::{accepted, rules, start, start_on};
use crate::sink::request;

/// Waits until the state of an agent fulfils a condition.
#[track_caller]
fn state(server: &Server, agent: &str, fits: impl Fn(&serde_json::Value) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, _, text) = request(server.address(), &format!("GET /agents/{agent}"), &[], "");
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        if fits(&told) {
            return;
        }
        assert!(Instant::now() < until, "{told}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_message_with_an_id_that_comes_again_counts_once() {
    let server = start(rules(&[]));
    accepted(&server, "PUT /agents/alice%20b", "{}");
    for id in ["one", "two", "one"] {
        let header = format!("Idempotency-Key: {id}");
        let line = "POST /agents/alice%20b/messages/order";
        let (status, _, told) = request(server.address(), line, &[&header], "[{}, {}]");
        assert_eq!(status, 202, "{told}");
    }
    accepted(&server, "POST /agents/alice%20b/messages/order", "{}");
    state(&server, "alice%20b", |told| told["state"]["count"] == 5.0);
}

#[test]
fn an_agent_that_was_ended_is_gone() {
    let server = start(rules(&[]));
    accepted(&server, "PUT /agents/alice", "{}");
    state(&server, "alice", |told| told["agent"] == "alice");
    accepted(&server, "DELETE /agents/alice", "");
    state(&server, "alice", |told| told["error"] == "there is no agent `alice`");
}

#[test]
fn what_is_wrong_is_told() {
    let server = start(rules(&[]));
    for (line, body, status, told) in [
        ("POST /messages/tik", "{}", 400, "unknown message `tik`; did you mean `tick`?"),
        ("POST /messages/tick", "{", 400, "the body is no JSON"),
        (
            "POST /messages/tick",
            "[{\"symbol\": \"A\", \"price\": 1}, {}]",
            400,
            "message 2: the field `price`",
        ),
        (
            "POST /messages/tick?to=some",
            "{\"symbol\": \"A\", \"price\": 1}",
            400,
            "unknown receivers `some`",
        ),
        (
            "POST /messages/tick?priority=urgent",
            "{\"symbol\": \"A\", \"price\": 1}",
            400,
            "only a message to one",
        ),
        (
            "POST /messages/tick?from=1&upto=2",
            "{\"symbol\": \"A\", \"price\": 1}",
            400,
            "a range needs keys",
        ),
        ("PUT /agents/a", "{\"hihg\": 1}", 400, "unknown field `hihg`; did you mean `high`?"),
        (
            "GET /agents?where=hihg%3E1",
            "",
            400,
            "where:1:1: unknown name `hihg`; did you mean `high`?",
        ),
        (
            "GET /agents?were=high%3E1",
            "",
            400,
            "unknown parameter `were`; known: partition, from, where",
        ),
        ("PUT /agents/%zz", "{}", 400, "two digits follow %"),
        ("GET /nothing", "", 404, "known: /messages/NAME"),
        ("PATCH /agents/a", "", 405, "PATCH is not done"),
        ("POST /agents/a/snooze", "", 400, "say for how long"),
    ] {
        let (code, _, text) = request(server.address(), line, &[], body);
        assert_eq!(code, status, "{line}: {text}");
        assert!(text.contains(told), "{line}: {text}");
    }
}

/// An order to an agent that nobody has declared is a dead letter. After the declaration it is sent again,
/// and it counts once however often that is asked.
#[test]
fn a_dead_letter_is_listed_and_sent_again_once() {
    let server = start(rules(&[]));
    accepted(&server, "POST /agents/alice/messages/order", "{}");
    let list = || {
        let of = |partition: u32| {
            let line = format!("GET /dead?partition={partition}");
            let (_, _, text) = request(server.address(), &line, &[], "");
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            told["letters"].as_array().unwrap().clone()
        };
        (0..2).flat_map(of).collect::<Vec<_>>()
    };
    let until = Instant::now() + Duration::from_secs(20);
    while list().is_empty() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(10));
    }
    accepted(&server, "PUT /agents/alice", "{}");
    for sent in [1, 0] {
        let (status, _, told) = request(server.address(), "POST /dead/resend", &[], "");
        assert_eq!((status, told.trim()), (200, &*format!("{{\"sent\":{sent},\"left\":0}}")));
    }
    state(&server, "alice", |told| told["state"]["count"] == 1.0);
    assert!(list().is_empty());
}

/// Letters that are sent again and die again are letters of the next time. One request once followed them for as long
/// as they died.
#[test]
fn letters_that_die_again_are_sent_once_for_each_request() {
    // As many as a page has.
    const LETTERS: usize = 100;
    let server = start(rules(&[]));
    let batch = format!("[{}]", vec!["{}"; LETTERS].join(","));
    accepted(&server, "POST /agents/nobody/messages/order", &batch);
    let letters = || {
        let of = |partition: u32| {
            let line = format!("GET /dead?partition={partition}");
            let (_, _, text) = request(server.address(), &line, &[], "");
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            told["letters"].as_array().unwrap().len()
        };
        (0..2).map(of).sum::<usize>()
    };
    for _ in 0..2 {
        let until = Instant::now() + Duration::from_secs(60);
        while letters() != LETTERS {
            assert!(Instant::now() < until, "{}", letters());
            thread::sleep(Duration::from_millis(10));
        }
        let (status, _, told) = request(server.address(), "POST /dead/resend", &[], "");
        assert_eq!((status, told.trim()), (200, &*format!("{{\"sent\":{LETTERS},\"left\":0}}")));
    }
}

/// Another server with the same store takes over; the first one accepts nothing more, and says so.
#[test]
fn of_two_servers_one_accepts() {
    let store: Arc<dyn Store<agents_rules::Message>> = Arc::new(Memory::new());
    let first = start_on(rules(&[]), store.clone());
    accepted(&first, "PUT /agents/alice", "{}");
    let second = start_on(rules(&[]), store);
    let (status, headers, told) = request(first.address(), "PUT /agents/alice", &[], "{}");
    assert_eq!(status, 503, "{told}");
    assert_eq!(headers["retry-after"], "1");
    accepted(&second, "POST /agents/alice/messages/order", "{}");
    state(&second, "alice", |told| told["state"]["count"] == 1.0);
    assert!(first.is_superseded() && !second.is_superseded());
}

/// What was accepted before the server ended is done by the next one.
#[test]
fn a_server_that_ends_has_done_what_it_accepted() {
    let store: Arc<dyn Store<agents_rules::Message>> = Arc::new(Memory::new());
    let server = start_on(rules(&[]), store.clone());
    accepted(&server, "PUT /agents/alice", "{}");
    let batch = format!("[{}]", vec!["{}"; 5_000].join(","));
    accepted(&server, "POST /agents/alice/messages/order", &batch);
    let ended = server.end();
    assert!(ended.is_drained && !ended.was_superseded, "{ended:?}");
    let server = start_on(rules(&[]), store);
    state(&server, "alice", |told| told["state"]["count"] == 5_000.0);
}

/// The story: a client that sends an empty body in chunks, as one of Rust's does, lost its next request on the connection
/// where the last chunk came after the answer.
#[test]
fn the_end_of_a_body_that_nobody_wants_is_waited_for() {
    let server = start(rules(&[]));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for _ in 0..2 {
        let head =
            "POST /dead/resend HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(50));
        stream.write_all(b"0\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    }
}

/// A client that asks first is told the refusal, and not to send its body.
#[test]
fn who_asks_first_sends_no_body_in_vain() {
    let server = start(rules(&[]));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let head = "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 404");
}

/// Bodies that come slowly take the room of messages; who comes then is refused, and let in afterwards.
#[test]
fn without_room_a_message_is_refused_for_now() {
    let server = start(rules(&[]));
    let until = Instant::now() + Duration::from_secs(60);
    let put = || {
        let (status, headers, told) = request(server.address(), "PUT /agents/a", &[], "{}");
        assert!(status != 503 || headers["retry-after"] == "1", "{headers:?}");
        assert!(Instant::now() < until, "{status}: {told}");
        status
    };
    // The largest body takes all of the room, and has it as soon as the server has read its head.
    let head = "PUT /agents/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n\r\n{";
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.write_all(head.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(200));
    while put() != 503 {
        // It came while another one was answered, and was refused itself.
        slow = TcpStream::connect(server.address()).unwrap();
        slow.write_all(head.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(200));
    }
    drop(slow);
    while put() != 202 {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn metrics_count() {
    let server = start(rules(&[]));
    accepted(&server, "PUT /agents/alice", "{}");
    state(&server, "alice", |told| told["agent"] == "alice");
    thread::sleep(Duration::from_millis(50));
    let (_, _, text) = request(server.address(), "GET /metrics", &[], "");
    assert!(text.contains("\nsekisho_agents_agents 1\n"), "{text}");
    assert!(text.contains("\nsekisho_agents_messages_accepted_total 1\n"), "{text}");
}
