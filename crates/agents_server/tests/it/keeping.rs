//! Messages that are kept for questions about the past, for a time and up to a size.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agents::Seq;
use agents_rules::Message;
use agents_server::{Server, ServerSpec};
use agents_store::{Memory, Store};

use crate::delivering::{accepted, rules, spec};
use crate::sink::request;

const PATIENCE: Duration = Duration::from_secs(60);

fn started(keep: Duration, keep_bytes: u64) -> (Server, Arc<dyn Store<Message>>) {
    let store: Arc<dyn Store<Message>> = Arc::new(Memory::new());
    let spec = ServerSpec { partitions: 1, keep, keep_bytes, ..spec() };
    let server = Server::start(&spec, rules(&[]), store.clone()).unwrap();
    accepted(&server, "PUT /agents/alice", "{}");
    (server, store)
}

fn orders(server: &Server, count: usize) {
    let batch = format!("[{}]", vec!["{}"; count].join(","));
    accepted(server, "POST /agents/alice/messages/order", &batch);
}

/// Orders until the log begins behind a position: what is forgotten depends on what has taken effect.
#[track_caller]
fn until_first_is(server: &Server, store: &Arc<dyn Store<Message>>, wanted: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        orders(server, 1);
        let first = store.log(0, Seq(0), 1).unwrap().first;
        if first >= Seq(wanted) {
            return;
        }
        assert!(Instant::now() < until, "{first:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn messages_are_kept_for_a_time() {
    let (server, store) = started(Duration::from_millis(300), 1 << 30);
    orders(&server, 500);
    until_first_is(&server, &store, 500);
}

#[test]
fn messages_are_kept_up_to_a_size() {
    let (server, store) = started(Duration::from_secs(1), 20_000);
    orders(&server, 2_000);
    until_first_is(&server, &store, 1_000);
}

/// Within time and size nothing is forgotten, and a new server knows what the one before kept.
#[test]
fn what_is_within_time_and_size_is_kept_across_a_start() {
    let (server, store) = started(Duration::from_secs(3_600), 1 << 30);
    orders(&server, 200);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(store.log(0, Seq(0), 1).unwrap().first, Seq(1));
    server.end();
    let spec = ServerSpec { partitions: 1, keep: Duration::from_secs(1), keep_bytes: 1, ..spec() };
    let server = Server::start(&spec, rules(&[]), store.clone()).unwrap();
    until_first_is(&server, &store, 200);
}

/// A message that one agent cannot handle is a dead letter of that one alone: the others of its batch go on.
#[test]
fn a_message_that_fails_for_one_agent_takes_effect_for_the_others() {
    let text =
        "[agent]\nstate = { count = 1 }\n[messages.grow]\nset = { count = \"count * 10\" }\n";
    let rules = agents_rules::Rules::read("r.toml", text).unwrap();
    let server = Server::start(&spec(), rules, Arc::new(Memory::new())).unwrap();
    for (name, count) in [("a", "1"), ("b", "1e308"), ("c", "3")] {
        accepted(&server, &format!("PUT /agents/{name}"), &format!("{{\"count\": {count}}}"));
    }
    accepted(&server, "POST /messages/grow?to=all", "{}");
    let count = |name: &str| {
        let (_, _, text) = request(server.address(), &format!("GET /agents/{name}"), &[], "");
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        told["state"]["count"].as_f64()
    };
    let letters = || {
        let of = |partition: u32| {
            let line = format!("GET /dead?partition={partition}");
            let (_, _, text) = request(server.address(), &line, &[], "");
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            told["letters"].as_array().unwrap().clone()
        };
        (0..2).flat_map(of).collect::<Vec<_>>()
    };
    let until = Instant::now() + PATIENCE;
    while (count("a"), count("c"), letters().len()) != (Some(10.0), Some(30.0), 1) {
        assert!(Instant::now() < until, "{:?} {:?} {:?}", count("a"), count("c"), letters());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count("b"), Some(1e308));
    let letter = &letters()[0];
    assert!(letter["cause"].as_str().unwrap().contains("`count` would be no number"), "{letter}");
}
