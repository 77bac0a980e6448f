//! Nodes that live for a time, as those see it who ask the server.

use std::thread::sleep;
use std::time::{Duration, Instant};

use jungle_server::ServerSettings;
use serde_json::{Value, json};

use crate::client::{Folder, Site, settings};
use crate::watches::watch;

/// Settings of a server that looks often for what is due.
fn often() -> ServerSettings {
    let mut settings = settings();
    settings.store.tick = Duration::from_millis(10);
    settings
}

/// Waits until a node is gone.
#[track_caller]
fn gone(site: &Site, node: &str) {
    let begun = Instant::now();
    while site.get(&format!("/trees/board/nodes/{node}")).status != 404 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{node} is still there");
        sleep(Duration::from_millis(20));
    }
}

fn made(answer: &Value) -> String {
    answer["made"][0].as_str().unwrap().to_owned()
}

#[test]
fn a_node_goes_in_its_time_and_whoever_watches_is_told() {
    let folder = Folder::new();
    let site = Site::with(&folder.join("data"), often());
    site.put("/trees/board", None).is(201);
    site.put("/trees/other", None).is(201);
    let events = watch(&site, "?tree=board", None);
    let body = json!({"attributes": {"title": "T"}, "ttl": "400ms"});
    let node = made(&site.post("/trees/board/nodes/root/children", &body).is(201));
    site.post("/trees/other/nodes/root/children", &body).is(201);
    let below = format!("/trees/board/nodes/{node}/children");
    site.post(&below, &json!({"attributes": {}})).is(201);
    let read = site.get(&format!("/trees/board/nodes/{node}?at=3")).is(200);
    assert_eq!(read["node"]["attributes"], json!({"title": "T"}));
    let expires = read["node"]["expires"].as_str().unwrap().to_owned();
    assert!(expires.ends_with('Z') && expires.starts_with("20"), "{expires}");

    let is_told = |event: &crate::watches::Event| {
        let nodes = event.data["nodes"].as_array();
        let is_gone = |one: &Value| one["changes"][0]["kind"] == "expired" && one["node"] == *node;
        event.kind == "commit" && nodes.is_some_and(|nodes| nodes.iter().any(is_gone))
    };
    let told = { events }.find(is_told).unwrap();
    assert_eq!(told.data["trees"], json!(["board"]), "each tree goes by a tick of its own");
    assert!(
        told.data["time"].as_str().unwrap() >= &*expires,
        "{told:?} before {expires}",
        told = told.data
    );
    site.get(&format!("/trees/board/nodes/{node}")).is_problem(404, &[&node]);
    let log = site.get("/trees/board/nodes/root/log?limit=1").is(200);
    assert_eq!(log["entries"][0]["seq"], told.data["seq"]);
    assert_eq!(log["entries"][0]["message"], "Expired");
    let seq = told.data["seq"].as_u64().unwrap();
    let before = site.get(&format!("/trees/board/nodes/{node}?at={}", seq - 1)).is(200);
    assert_eq!(before["node"]["children"], 1);
    let difference = format!("/trees/board/diff?from={}&to={seq}", seq - 1);
    assert_eq!(
        site.get(&difference).is(200)["differences"],
        json!([{"kind": "removed", "node": node}])
    );
    let reverted = site.post(&format!("/commits/{seq}/revert"), &json!({}));
    reverted.is(200);
    let back = site.get(&format!("/trees/board/nodes/{node}")).is(200);
    assert_eq!(back["node"]["expires"], Value::Null, "it is back for good");
    let metrics = site.get("/metrics").text;
    assert!(!metrics.contains("jungle_ticks_total 0\n"), "{metrics}");
}

#[test]
fn a_time_to_live_is_set_changed_and_taken_away() {
    let folder = Folder::new();
    let site = Site::with(&folder.join("data"), often());
    site.put("/trees/board", None).is(201);
    let operations = json!({"operations": [
        {"op": "insert", "tree": "board", "parent": "root", "ttl": "1h", "label": "a"},
        {"op": "insert", "tree": "board", "parent": "#a", "attributes": {"x": "1"}},
        {"op": "put", "tree": "board", "node": "#a", "attributes": {"y": "2"}, "ttl": "2h"},
    ]});
    let node = made(&site.post("/transactions", &operations).is(200));
    let place = format!("/trees/board/nodes/{node}");
    let expires = |site: &Site| site.get(&place).is(200)["node"]["expires"].clone();
    let two_hours = expires(&site);
    assert!(two_hours.is_string());
    site.patch(&place, "application/json", &json!({"ttl": "3h"})).is(200);
    assert!(expires(&site).as_str().unwrap() > two_hours.as_str().unwrap());
    let difference = site.get("/trees/board/diff?from=2&to=3").is(200)["differences"].clone();
    assert_eq!(difference[0]["name"], "$expires");
    assert_eq!(difference[0]["before"], two_hours);
    site.patch(&place, "application/json", &json!({"ttl": "never"})).is(200);
    assert_eq!(expires(&site), Value::Null);
    // That it stays is so already.
    site.patch(&place, "application/json", &json!({"ttl": "never"})).is(200);
    let document = json!({"json": {"a": [1]}, "ttl": "1ms"});
    let document = made(&site.post("/trees/board/nodes/root/children", &document).is(201));
    gone(&site, &document);
    site.get(&place).is(200);

    for (ttl, words) in [("90", "unit"), ("0s", "too short"), ("soon", "`90s`")] {
        let refused = site.patch(&place, "application/json", &json!({"ttl": ttl}));
        refused.is_problem(400, &["`ttl`", words]);
    }
    let raw = json!({"attributes": {"$expires": "7"}});
    site.patch(&place, "application/json", &raw).is_problem(400, &["`$expires`", "`ttl`"]);
    site.post("/trees/board/nodes/root/children", &raw).is_problem(400, &["`ttl`"]);
    let root = site.patch("/trees/board/nodes/root", "application/json", &json!({"ttl": "1h"}));
    root.is_problem(422, &["a root does not expire"]);
    site.put("/trees/plain", Some(&json!({"addressable": false}))).is(201);
    let body = json!({"attributes": {}, "ttl": "1h"});
    let plain = site.post("/trees/plain/nodes/root/children", &body);
    plain.is_problem(422, &["no addresses by id"]);
}

/// The story of a server that is down when a deadline comes: what is due goes as soon as it is back.
#[test]
fn what_was_due_while_the_server_was_down_goes_when_it_is_back() {
    let folder = Folder::new();
    let site = Site::with(&folder.join("data"), often());
    site.put("/trees/board", None).is(201);
    let body = json!({"attributes": {}, "ttl": "50ms"});
    let mut slow = often();
    slow.store.tick = Duration::from_secs(3600);
    site.server.stop().unwrap();
    // A tick an hour: the first node goes with the first, and the second would wait for the next.
    let site = Site::with(&folder.join("data"), slow);
    let first = made(&site.post("/trees/board/nodes/root/children", &body).is(201));
    gone(&site, &first);
    let second = made(&site.post("/trees/board/nodes/root/children", &body).is(201));
    site.post("/snapshot", &json!({})).is(200);
    sleep(Duration::from_millis(100));
    site.get(&format!("/trees/board/nodes/{second}")).is(200);
    site.server.stop().unwrap();
    let site = Site::with(&folder.join("data"), often());
    gone(&site, &second);
    site.server.stop().unwrap();
}
