//! `agents serve` on a disk that is full: nothing that was acknowledged is lost, the cause is told, and it goes on
//! when there is room again. A limit on the size of the server's files stands for the disk.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{Running, shell_without_room, until};
use crate::serving_agents::{RULES, address, request, state, takes_effect_once_in};

const LINE: &str = "sekisho agents serve rules.toml --listen 127.0.0.1:0";

/// From now on the server can write nothing, or everything again.
fn room(running: &Running, is_there: bool) {
    let pid = Pid::from_raw(running.pid() as i32).expect("it runs");
    let current = if is_there { None } else { Some(0) };
    prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None }).expect("it is ours");
}

#[track_caller]
fn status(address: &str, line: &str) -> (u16, String) {
    request(address, line, &[], if line.starts_with("GET") { "" } else { "{}" }).expect("an answer")
}

/// Clients press a server whose disk is full now and again: each counter is what was acknowledged, each firing is in
/// the log.
#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let disturbances = if std::env::var_os("SEKISHO_LONG").is_some() { 20 } else { 3 };
    takes_effect_once_in(shell_without_room, &folder, LINE, disturbances, |running| {
        let here = address(&running);
        room(&running, false);
        until("it says that its disk is full", || status(&here, "GET /readyz").0 == 507);
        assert_eq!(status(&here, "GET /healthz").0, 200, "a new start would not help");
        room(&running, true);
        until("it goes on", || status(&here, "GET /readyz").0 == 200);
        running
    });
}

#[test]
fn a_full_disk_is_told_and_a_message_that_was_refused_counts_once() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let running = shell_without_room(&folder, LINE);
    let here = address(&running);
    assert_eq!(status(&here, "PUT /agents/alice").0, 202);
    until("alice is there", || status(&here, "GET /agents/alice").0 == 200);
    room(&running, false);
    let order = |n: u32| {
        let id = format!("Idempotency-Key: order-{n}");
        request(&here, "POST /agents/alice/messages/order", &[&id], "{}").expect("an answer")
    };
    for n in 0..3 {
        let (status, text) = order(n);
        let told: Value = serde_json::from_str(&text).unwrap();
        let cause = told["error"].as_str().unwrap();
        assert_eq!(status, 507, "{text}");
        assert!(cause.contains("no room is left on its disk"), "{cause}");
        assert!(cause.contains("agents.store"), "{cause}");
    }
    let (code, text) = status(&here, "GET /readyz");
    assert!(code == 507 && text.contains("no room is left on its disk"), "{text}");
    assert!(status(&here, "GET /metrics").1.contains("sekisho_agents_store_full 1"));
    room(&running, true);
    until("there is room", || status(&here, "GET /readyz").0 == 200);
    for n in 0..3 {
        assert_eq!(order(n).0, 202);
    }
    until("they took effect", || state(&here, "alice")["state"]["count"].as_f64() >= Some(3.0));
    drop(running);
    let running = shell_without_room(&folder, LINE);
    assert_eq!(state(&address(&running), "alice")["state"]["count"], 3.0);
}
