//! Timers of a file in a server: set, shown, due after a stop, gone with their agent or their file.

use std::thread;
use std::time::{Duration, Instant};

use agents_server::Server;
use serde_json::{Value, json};

use crate::delivering::accepted;
use crate::reloading::{File, asked, count, fired, memory, until};

/// The timers that a message `order` sets, each with its moment.
fn order(timers: &str) -> String {
    format!("timers = {{ {timers} }}\n")
}

const REMIND: &str = "[timers.remind]\nset = { count = \"count + 1\" }\n\
                      [rules.late]\non = \"timer remind\"\nwhen = \"count > 0\"\n";
const LOOK: &str = "[timers.look]\nset = { count = \"count + 100\" }\n";

fn ordered(server: &Server, agent: &str) {
    accepted(server, &format!("PUT /agents/{agent}"), "{}");
    accepted(server, &format!("POST /agents/{agent}/messages/order"), "{}");
}

fn told(server: &Server, agent: &str) -> Value {
    asked(server, &format!("GET /agents/{agent}"), "", 200)
}

/// The number of an agent's timers that are set.
fn timers(told: &Value) -> f64 {
    told["timers"].as_object().map_or(-1.0, |timers| timers.len() as f64)
}

/// A timer goes with its agent: another life of the same name has none. The other agent's is set behind it, and
/// shows that its time has come.
#[test]
fn a_timer_fires_unless_its_agent_is_deleted() {
    let file = File::new("timer", &[&order("remind = { after = \"1s\" }"), REMIND]);
    let server = file.start(&memory());
    ordered(&server, "alice");
    asked(&server, "DELETE /agents/alice", "", 202);
    accepted(&server, "PUT /agents/alice", "{}");
    ordered(&server, "bob");
    until(&server, "bob", fired, 1.0);
    until(&server, "bob", count, 1.0);
    until(&server, "bob", timers, 0.0);
    let alice = told(&server, "alice");
    assert_eq!((count(&alice), fired(&alice), timers(&alice)), (0.0, 0.0, 0.0), "{alice}");
    assert!(server.end().is_drained);
}

/// A stop of several spans: what was due meanwhile fires once, and the row goes on.
#[test]
fn what_was_due_during_a_stop_fires_once() {
    let both = order("remind = { after = \"2s\" }, look = { every = \"1s\" }");
    let file = File::new("timer-stop", &[&both, REMIND, LOOK]);
    let store = memory();
    let first = Instant::now();
    let server = file.start(&store);
    ordered(&server, "alice");
    until(&server, "alice", timers, 2.0);
    assert!(server.end().is_drained);
    let up = first.elapsed();
    thread::sleep(Duration::from_secs(6));
    let second = Instant::now();
    let server = file.start(&store);
    until(&server, "alice", fired, 1.0);
    let looks = |told: &Value| (count(told) / 100.0).floor();
    let before = looks(&told(&server, "alice"));
    // At most one for each second that a server ran, and one for the stop.
    let seconds = (up + second.elapsed()).as_secs_f64();
    assert!(before <= seconds + 2.0, "{before} in {seconds} s");
    let end = Instant::now() + Duration::from_secs(60);
    while looks(&told(&server, "alice")) < before + 2.0 {
        assert!(Instant::now() < end, "the row goes on");
        thread::sleep(Duration::from_millis(50));
    }
    let last = told(&server, "alice");
    assert_eq!((count(&last) % 100.0, fired(&last)), (1.0, 1.0), "{last}");
    assert_eq!(last["timers"]["look"]["every_ns"], 1_000_000_000, "{last}");
    assert!(server.end().is_drained);
}

/// A file that has a timer no more ends it for all, told before, and also where another server starts with that file;
/// one that stays is due when it was.
#[test]
fn a_timer_ends_with_its_file() {
    let both = order("remind = { after = \"1h\" }, look = { every = \"2h\" }");
    let one = order("look = { every = \"3h\" }");
    let file = File::new("timer-reload", &[&both, REMIND, LOOK]);
    let store = memory();
    let server = file.start(&store);
    ordered(&server, "alice");
    ordered(&server, "bob");
    accepted(&server, "PUT /agents/carol", "{}");
    until(&server, "alice", timers, 2.0);
    until(&server, "bob", timers, 2.0);
    let due = told(&server, "alice")["timers"]["look"].clone();
    file.write(&[&one, LOOK]);
    let wanted = json!([
        { "name": "look", "change": "kept", "set": 2 },
        { "name": "remind", "change": "removed", "set": 2 },
    ]);
    let dry = asked(&server, "POST /rules?dry_run=true", "", 200);
    assert_eq!(dry["timers"], wanted, "{dry}");
    until(&server, "alice", timers, 2.0);
    asked(&server, "POST /rules", "", 202);
    until(&server, "alice", timers, 1.0);
    until(&server, "bob", timers, 1.0);
    assert_eq!(told(&server, "alice")["timers"]["look"], due);
    file.write(&[&both, REMIND, LOOK]);
    let added = asked(&server, "POST /rules?dry_run=true", "", 200);
    let wanted = json!({ "name": "remind", "change": "added", "set": 0 });
    assert_eq!(added["timers"][1], wanted, "{added}");
    assert!(server.end().is_drained);
    file.write(&["set = { count = \"count + 1\" }\n"]);
    let server = file.start(&store);
    until(&server, "alice", timers, 0.0);
    until(&server, "bob", timers, 0.0);
    assert!(server.end().is_drained);
}

/// A timer that fails is a dead letter with its name; the row goes on. The past tells timers, and so does a trial.
#[test]
fn the_past_tells_timers() {
    let row = order("look = { every = \"1s\" }");
    let fails = "[timers.look]\nset = { count = \"1 / (count - 1)\" }\n";
    let watch = "[rules.seen]\non = \"timer look\"\nwhen = \"true\"\n";
    // From 0 it is -1, then -0.5, and so on; from 1 it is no number.
    let file = File::new("timer-past", &[&row, fails, watch]);
    let server = file.start(&memory());
    accepted(&server, "PUT /agents/alice", r#"{"count": 1}"#);
    accepted(&server, "POST /agents/alice/messages/order", "{}");
    let end = Instant::now() + Duration::from_secs(60);
    let letters = loop {
        let pages = (0..2).map(|at| asked(&server, &format!("GET /dead?partition={at}"), "", 200));
        let letters: Vec<Value> =
            pages.flat_map(|page| page["letters"].as_array().unwrap().clone()).collect();
        if letters.len() > 1 {
            break letters;
        }
        assert!(Instant::now() < end, "{letters:?}");
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(letters[0]["cause"], "the timer `look`: `count` would be no number");
    accepted(&server, "PUT /agents/alice", r#"{"count": 0}"#);
    until(&server, "alice", |told| f64::from(fired(told) >= 2.0), 1.0);
    let why = asked(&server, "GET /agents/alice/why?limit=1000", "", 200);
    let timers = why["recomputed"].as_array().unwrap().iter().filter(|it| it["position"] == 0);
    let timers: Vec<&Value> = timers.collect();
    assert!(timers.iter().any(|it| it["rules"]["seen"] == "fired"), "{why}");
    let message = r#"{"event":{"name":"timer look","fields":{}}}"#;
    assert_eq!(why["kept"][0]["message"], message, "{why}");
    let text = "[agent]\nstate = { count = 0 }\n[messages.order]\n\
                timers = { look = { every = \"1s\" } }\n"
        .to_owned()
        + watch;
    let tried = asked(&server, "POST /try?since_ns=0", &Value::from(text).to_string(), 200);
    assert!(tried["fired"]["seen"].as_u64() >= Some(2), "{tried}");
    server.end();
}
