//! Notifications: with their signature, at least once, and none delayed by a destination that is down.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agents_rules::Rules;
use agents_server::{Access, Ended, Server, ServerSpec};
use agents_store::{Memory, Store};

use crate::sink::{Conduct, Sink, request};

pub(crate) fn spec() -> ServerSpec {
    ServerSpec {
        listen: "127.0.0.1:0".parse().unwrap(),
        partitions: 2,
        memory: 32 << 20,
        access: Access::default(),
        public: false,
        directory: None,
        sources: Vec::new(),
        tables: Vec::new(),
        rules_file: None,
        keep: Duration::from_secs(3_600),
        keep_bytes: 64 << 20,
        drain: Duration::from_secs(10),
    }
}

/// Rules of a threshold with these destinations, by name and lines.
pub(crate) fn rules(destinations: &[(&str, String)]) -> Arc<Rules> {
    let names: Vec<String> = destinations.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let tables =
        destinations.iter().map(|(name, lines)| format!("[destinations.{name}]\n{lines}\n"));
    let text = format!(
        "[agent]\nstate = {{ symbol = \"text\", high = \"number\", count = 0 }}\n\
         [messages.tick]\nfields = {{ symbol = \"text\", price = \"number\" }}\n\
         [messages.order]\nset = {{ count = \"count + 1\" }}\n\
         [rules.too-high]\non = \"tick\"\nwhen = \"price > high\"\nnotify = [{}]\n{}",
        names.join(", "),
        tables.collect::<String>()
    );
    Rules::read("r.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn start(rules: Arc<Rules>) -> Server {
    start_on(rules, Arc::new(Memory::new()))
}

pub(crate) fn start_on(rules: Arc<Rules>, store: Arc<dyn Store<agents_rules::Message>>) -> Server {
    Server::start(&spec(), rules, store).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(crate) fn accepted(server: &Server, line: &str, body: &str) {
    let (status, _, told) = request(server.address(), line, &[], body);
    assert_eq!(status, 202, "{line}: {told}");
}

fn hook(sink: &Sink, more: &str) -> String {
    format!("webhook = \"http://{}/hook\"\n{more}", sink.address)
}

/// So many agents with limits of 10 each.
fn declare(server: &Server, agents: usize) {
    for agent in 0..agents {
        let body = r#"{"symbol": "A", "high": 10}"#;
        accepted(server, &format!("PUT /agents/a{agent}"), body);
    }
}

#[test]
fn a_value_beyond_a_limit_arrives_signed() {
    let sink = Sink::start(Conduct::Takes);
    let folder = std::env::temp_dir().join(format!("agents-secret-{}", std::process::id()));
    std::fs::write(&folder, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    let more = format!("secret-file = {:?}", folder.to_str().unwrap());
    let server = start(rules(&[("hook", hook(&sink, &more))]));
    declare(&server, 3);
    accepted(
        &server,
        "POST /messages/tick",
        r#"[{"symbol": "A", "price": 9}, {"symbol": "B", "price": 11}]"#,
    );
    accepted(&server, "POST /messages/tick", r#"{"symbol": "A", "price": 11}"#);
    let received = sink.wait_for(3);
    let ids: BTreeSet<&str> = received.iter().map(|it| &*it.headers["webhook-id"]).collect();
    assert_eq!(ids.len(), 3);
    let first: serde_json::Value = serde_json::from_str(&received[0].body).unwrap();
    assert_eq!((&first["rule"], &first["fields"]["price"]), (&"too-high".into(), &11.0.into()));
    assert!(received[0].headers["webhook-signature"].starts_with("v1,"));
    assert!(received[0].headers["webhook-timestamp"].parse::<u64>().unwrap() > 1_700_000_000);
    let ended = server.end();
    assert!(matches!(ended, Ended { notified: 3, kept: 0, is_drained: true, .. }), "{ended:?}");
    std::fs::remove_file(folder).unwrap();
}

/// Once a destination that hung took the places of all in the outbox, and others heard nothing.
#[test]
fn a_destination_that_hangs_delays_no_other() {
    let (live, dead) = (Sink::start(Conduct::Takes), Sink::start(Conduct::Hangs));
    let server = start(rules(&[
        ("dead", hook(&dead, "timeout = \"1s\"")),
        ("live", hook(&live, "slots = 8")),
    ]));
    // More than the outbox holds in delivery, in two partitions.
    let agents = 2_500;
    let all: Vec<usize> = (0..agents).collect();
    thread::scope(|scope| {
        for part in all.chunks(agents / 8 + 1) {
            let server = &server;
            scope.spawn(move || {
                for agent in part {
                    let body = r#"{"symbol": "A", "high": 10}"#;
                    accepted(server, &format!("PUT /agents/a{agent}"), body);
                }
            });
        }
    });
    accepted(&server, "POST /messages/tick", r#"{"symbol": "A", "price": 11}"#);
    let received = live.wait_for(agents);
    let ids: BTreeSet<&str> = received.iter().map(|it| &*it.headers["webhook-id"]).collect();
    assert_eq!(ids.len(), agents);
    // One attempt of the dead one takes 1 s. A machine with others on it may have no time for a while: the
    // best of three rounds counts, and none of them can be good where the dead one is waited for.
    let mut rounds = (0..3).map(|round| delay(&server, &live, agents, round));
    assert!(rounds.any(|p99| p99 <= Duration::from_secs(1)), "never within 1 s");
    // What it did not take is kept, and goes there when it is back.
    dead.set(Conduct::Takes);
    let until = Instant::now() + Duration::from_secs(60);
    let left = || {
        let (_, _, text) = request(server.address(), "GET /undelivered", &[], "");
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        told["notifications"].as_array().unwrap().len()
    };
    while left() > 0 {
        assert!(Instant::now() < until, "{} are left", left());
        thread::sleep(Duration::from_millis(50));
    }
    let taken = dead.received.lock().unwrap().clone();
    let taken: BTreeSet<&str> = taken.iter().map(|it| &*it.headers["webhook-id"]).collect();
    let received = live.received.lock().unwrap().clone();
    let ids: BTreeSet<&str> = received.iter().map(|it| &*it.headers["webhook-id"]).collect();
    assert_eq!(taken, ids, "at least once, under the same names");
}

/// Firings one after the other, each of another agent and to the dead one as well: the time from the message to
/// the arrival at the live one, of which one in a hundred was longer.
fn delay(server: &Server, live: &Sink, agents: usize, round: usize) -> Duration {
    const FIRINGS: usize = 200;
    let mut delays = Vec::new();
    for n in 0..FIRINGS {
        let agent = (round * FIRINGS + n) % agents;
        let line = format!("POST /agents/a{agent}/messages/tick");
        // Back inside, and out again.
        accepted(server, &line, r#"{"symbol": "A", "price": 9}"#);
        let before = live.received.lock().unwrap().len();
        let began = Instant::now();
        accepted(server, &line, r#"{"symbol": "A", "price": 11}"#);
        delays.push(live.wait_for(before + 1)[before].at - began);
    }
    delays.sort();
    delays[FIRINGS * 99 / 100]
}

#[test]
fn a_notification_that_failed_is_tried_again_under_its_name() {
    let sink = Sink::start(Conduct::Fails);
    let server = start(rules(&[("hook", hook(&sink, ""))]));
    declare(&server, 1);
    accepted(&server, "POST /messages/tick", r#"{"symbol": "A", "price": 11}"#);
    sink.wait_for(1);
    sink.set(Conduct::Takes);
    let received = sink.wait_for(2);
    assert_eq!(received[0].headers["webhook-id"], received[1].headers["webhook-id"]);
    assert_eq!(received[0].body, received[1].body);
}

/// The story: a webhook that refused one notification for good counted as down, so that all others waited for pauses
/// of up to 5 minutes, until that one was given up after a day.
#[test]
fn a_notification_that_is_refused_is_dead_and_holds_up_no_other() {
    let sink = Sink::start(Conduct::Refuses);
    let server = start(rules(&[("hook", hook(&sink, "slots = 1"))]));
    declare(&server, 20);
    accepted(&server, "POST /messages/tick", r#"{"symbol": "A", "price": 11}"#);
    let received = sink.wait_for(20);
    let ids: BTreeSet<&str> = received.iter().map(|it| &*it.headers["webhook-id"]).collect();
    assert_eq!(ids.len(), 20, "each was sent once");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, _, text) = request(server.address(), "GET /undelivered", &[], "");
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        if let [one] = &told["notifications"].as_array().unwrap()[..] {
            assert_eq!((&one["is_dead"], &one["cause"]), (&true.into(), &"answered 422".into()));
            break;
        }
        assert!(Instant::now() < until, "{text}");
        thread::sleep(Duration::from_millis(20));
    }
    let ended = server.end();
    assert!(matches!(ended, Ended { notified: 19, kept: 1, .. }), "{ended:?}");
    assert_eq!(sink.received.lock().unwrap().len(), 20, "the dead one was not tried again");
}

#[test]
fn a_public_target_is_refused_unless_the_file_says_so() {
    let public = |more: &str| rules(&[("far", format!("webhook = \"http://192.0.2.1/\"\n{more}"))]);
    let refused = Server::start(&spec(), public(""), Arc::new(Memory::new())).unwrap_err();
    let told = refused.to_string();
    assert!(told.starts_with("destination `far`: `192.0.2.1` leads to"), "{told}");
    assert!(told.ends_with("add `public = true`"), "{told}");
    // Nothing is connected to before something fires.
    drop(start(public("public = true")));
}
