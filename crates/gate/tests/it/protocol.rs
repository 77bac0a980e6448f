//! A driver that breaks the protocol is stopped, and told what it did.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gate::{Event, GateSpec};

use crate::play::{Play, arrive, depart, resize, shared};

/// Message of the gate as it stops at the last of these events.
fn panic_of(spec: &GateSpec, events: &[(u64, Event)]) -> String {
    let mut play = Play::new(spec);
    let (last, before) = events.split_last().expect("at least one event");
    for &(ms, event) in before {
        play.tell(ms, event);
    }
    let stopped = catch_unwind(AssertUnwindSafe(|| play.tell(last.0, last.1)));
    let payload = stopped.expect_err("the gate must stop");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&str>().expect("panics carry text").to_string(),
    }
}

#[test]
fn each_breach_has_its_message() {
    let one = GateSpec::fifo(1);
    let two = shared(&[1, 1]);
    let started = (5, arrive(3));
    let cases = [
        (&one, vec![started, (4, Event::Wake)], "time runs backwards"),
        (&one, vec![started, (5, arrive(3))], "ids must increase"),
        (&one, vec![started, (6, arrive(2))], "ids must increase"),
        (&one, vec![(0, depart(0, 0))], "nobody holds it"),
        (&one, vec![started, (6, depart(0, 0)), (6, depart(0, 0))], "nobody holds it"),
        (&two, vec![started, (6, depart(1, 0))], "nobody holds it"),
        (&one, vec![started, (6, depart(0, 1))], "nobody holds it"),
        (&one, vec![(0, depart(0, u32::MAX))], "nobody holds it"),
        (&one, vec![started, (6, depart(1, 0))], "server 1 of 1"),
        (&two, vec![(0, resize(2, 1))], "server 2 of 2"),
        (&two, vec![(0, Event::Up(2))], "server 2 of 2"),
        (&two, vec![(0, Event::Down(u32::MAX))], "server 4294967295 of 2"),
        (&two, vec![(0, resize(0, GateSpec::SLOTS_MAX))], "16777217 slots"),
        (&two, vec![(0, resize(0, u32::MAX))], "4294967296 slots"),
    ];
    for (spec, events, text) in cases {
        let found = panic_of(spec, &events);
        assert!(found.contains(text), "{events:?}: {found}");
    }
}
