//! Watches: every commit once, in the order of the log, whatever breaks off.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use jungle::{Durability, Retention};
use serde_json::{Value, json};

use crate::client::{Folder, Site, agent, settings};

pub(crate) struct Event {
    id: String,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

pub(crate) struct Events(Box<dyn BufRead>);

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event { id: String::new(), kind: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("event", kind)) => event.kind = kind.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                Some(_) => panic!("{line}"),
                None => return Some(event),
            }
        }
    }
}

pub(crate) fn watch(site: &Site, query: &str, last: Option<&str>) -> Events {
    let mut request = agent().get(format!("{}/watch{query}", site.url));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = request.call().unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    Events(Box::new(BufReader::new(response.into_body().into_reader())))
}

fn append(site: &Site, tree: &str) {
    site.post(&format!("/trees/{tree}/nodes/root/children"), &json!({"attributes": {}})).is(201);
}

#[test]
fn commits_are_told_in_order_and_a_watch_goes_on_where_it_was() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    site.put("/trees/board", None).is(201);
    let mut events = watch(&site, "", None);
    let first = events.next().unwrap();
    assert_eq!((&*first.kind, &*first.id), ("position", "1.1"));
    // Eight clients write while the watch is broken off and taken up again, over and over.
    const WRITERS: u64 = 8;
    const EACH: u64 = 25;
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| (0..EACH).for_each(|_| append(&site, "board")));
        }
        let (mut told, mut last) = (Vec::new(), first.id.clone());
        drop(events);
        while (told.len() as u64) < WRITERS * EACH {
            for event in watch(&site, "", Some(&last)).take(7) {
                last.clone_from(&event.id);
                if event.kind == "commit" {
                    told.push(event.data["seq"].as_u64().unwrap());
                    assert_eq!(event.id, format!("1.{}", told.last().unwrap()));
                    assert_eq!(event.data["trees"], json!(["board"]));
                }
            }
        }
        assert!(told.iter().copied().eq(2..2 + WRITERS * EACH), "{told:?}");
    });
}

#[test]
fn a_watch_of_one_tree_passes_over_others_and_its_heartbeat_tells_the_position() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.heartbeat = Duration::from_millis(200);
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/a", None).is(201);
    site.put("/trees/b", None).is(201);
    let mut events = watch(&site, "?tree=a&after=2", None);
    append(&site, "b");
    append(&site, "a");
    append(&site, "b");
    let commit = events.by_ref().find(|event| event.kind == "commit").unwrap();
    assert_eq!(commit.data["seq"], 4);
    let position = events.by_ref().find(|event| event.data["seq"] == 5).unwrap();
    assert_eq!((&*position.kind, &*position.id), ("position", "1.5"));
    site.get("/watch?tree=none").is_problem(404, &["none"]);
    site.get("/watch?after=x").is_problem(400, &["`x`"]);
}

#[test]
fn who_asks_for_what_is_forgotten_is_told_where_to_begin_again() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.store.retention = Retention { commits: 10, ..Retention::default() };
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/board", None).is(201);
    for _ in 0..30 {
        append(&site, "board");
    }
    let mut events = watch(&site, "?after=1.5", None);
    let reset = events.by_ref().find(|event| event.kind != "position").unwrap();
    assert_eq!((&*reset.kind, &*reset.id), ("reset", "1.31"));
    assert_eq!(reset.data["token"], "1.31");
    assert!(events.next().is_none(), "the stream ends there");
    // A position of the future, or of another generation, is none either.
    for lost in ["1.99", "7.3"] {
        assert_eq!(watch(&site, "", Some(lost)).next().unwrap().kind, "reset", "{lost}");
    }
    append(&site, "board");
    let mut events = watch(&site, "", Some("1.31"));
    assert_eq!(events.find(|event| event.kind == "commit").unwrap().data["seq"], 32);
}

/// The generation grows where something that was seen may be lost, and nowhere else.
#[test]
fn positions_outlive_a_start_unless_a_crash_may_have_lost_them() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = Site::start(&place);
    site.put("/trees/board", None).is(201);
    site.server.stop().unwrap();
    let mut loose = settings();
    loose.store.durability = Durability::Interval;
    let site = Site::with(&place, loose);
    append(&site, "board");
    assert_eq!(watch(&site, "?after=1.1", None).nth(1).unwrap().id, "1.2");
    site.server.stop().unwrap();
    let site = Site::with(&place, loose);
    assert_eq!(
        site.get("/trees").header("jungle-token"),
        Some("1.2"),
        "it was stopped in good order"
    );
    site.server.stop().unwrap();
    // A session that did not end by itself leaves the same behind as one that was killed.
    let description = place.join("jungle.json");
    let killed = std::fs::read_to_string(&description).unwrap();
    let killed = killed.replace("\"answered_is_safe\":true", "\"answered_is_safe\":false");
    std::fs::write(&description, killed).unwrap();
    let site = Site::start(&place);
    assert_eq!(site.get("/trees").header("jungle-token"), Some("2.2"));
    assert_eq!(watch(&site, "", Some("1.2")).next().unwrap().kind, "reset");
    site.server.stop().unwrap();
}

#[test]
fn a_server_that_stops_ends_its_watches() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    let mut events = watch(&site, "", None);
    assert_eq!(events.next().unwrap().kind, "position");
    let begun = std::time::Instant::now();
    site.server.stop().unwrap();
    assert!(events.next().is_none());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
