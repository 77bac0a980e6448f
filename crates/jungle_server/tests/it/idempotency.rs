//! Requests that are sent again take effect once, over a restart too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Answer, Folder, Site, settings};

fn keyed(site: &Site, method: &str, place: &str, body: Option<&Value>, key: &str) -> Answer {
    site.ask_with(method, place, body, &[("idempotency-key", key)])
}

fn children(site: &Site) -> usize {
    let root = site.get("/trees/board/nodes/root?depth=0").is(200);
    root["node"]["children"].as_u64().unwrap() as usize
}

#[test]
fn a_request_that_is_sent_again_takes_effect_once_over_a_restart() {
    let folder = Folder::new();
    let place = folder.join("data");
    let mut site = Site::start(&place);
    let append = "/trees/board/nodes/root/children";
    let one = json!({"attributes": {"title": "one"}});
    let made = keyed(&site, "PUT", "/trees/board", None, "a").is(201);
    let appended = keyed(&site, "POST", append, Some(&one), "b").is(201);
    assert_eq!((&made["seq"], &appended["made"]), (&json!(1), &json!(["2.0"])));
    // Once it was snapshotted, and once it is only in the log.
    for round in 0..3 {
        assert_eq!(keyed(&site, "PUT", "/trees/board", None, "a").is(201), made, "{round}");
        let again = keyed(&site, "POST", append, Some(&one), "b");
        assert_eq!(again.is(201)["made"], json!(["2.0"]), "{round}");
        assert_eq!(children(&site), 1, "{round}");
        if round == 1 {
            site.post("/snapshot", &json!({})).is(200);
        }
        site.server.stop().unwrap();
        site = Site::start(&place);
    }
    let two = json!({"attributes": {"title": "two"}});
    keyed(&site, "POST", append, Some(&two), "b").is_problem(422, &["commit 2", "another request"]);
    assert_eq!(keyed(&site, "POST", append, Some(&two), "c").is(201)["seq"], 3);
    // What took no effect may be asked again under its key.
    let far = json!({"attributes": {}, "position": 9});
    keyed(&site, "POST", append, Some(&far), "d").is_problem(422, &["position 9"]);
    assert_eq!(keyed(&site, "POST", append, Some(&one), "d").is(201)["seq"], 4);
    site.get("/commits/4").is(200);
    let forged = json!({"attributes": {"idempotency-key": "x"}, "operations": []});
    site.post("/transactions", &forged).is_problem(400, &["idempotency-key", "header"]);
    keyed(&site, "POST", append, Some(&one), "").is_problem(400, &["1 to 255"]);
    keyed(&site, "POST", "/snapshot", None, "e").is_problem(400, &["edits"]);
    keyed(&site, "GET", "/trees", None, "e").is_problem(400, &["edits"]);
}

#[test]
fn a_merge_that_decided_conflicts_says_that_they_are_not_kept() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    site.put("/trees/board", None).is(201);
    site.post("/trees/board/branch", &json!({"name": "draft"})).is(201);
    for (tree, title) in [("board", "ours"), ("draft", "theirs")] {
        let put = json!({"attributes": {"title": title}});
        site.patch(&format!("/trees/{tree}/nodes/root"), "application/json", &put).is(200);
    }
    let merge = json!({"from": "draft", "policy": "theirs"});
    let merged = keyed(&site, "POST", "/trees/board/merge", Some(&merge), "m").is(200);
    assert_eq!(merged["conflicts"].as_array().unwrap().len(), 1);
    let again = keyed(&site, "POST", "/trees/board/merge", Some(&merge), "m");
    again.is_problem(409, &["commit 5 took effect", "1 conflicts", "/commits/5"]);
    assert_eq!(site.get("/stats").is(200)["seq"], 5);
}

/// Many send the same at once, and leave before the answer comes: it takes effect once.
#[test]
fn those_who_leave_and_ask_again_at_once_find_the_key_taken() {
    let folder = Folder::new();
    let site = Site::with(&folder.join("data"), settings());
    site.put("/trees/board", None).is(201);
    let body = r#"{"attributes":{"a":"1"}}"#;
    let head = "POST /trees/board/nodes/root/children HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json";
    for round in 0..20 {
        let text = format!(
            "{head}\r\nidempotency-key: k{round}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let address = site.server.address();
        let statuses: Vec<String> = thread::scope(|scope| {
            let asked: Vec<_> = (0..8)
                .map(|number| {
                    let text = &text;
                    scope.spawn(move || {
                        let mut stream = TcpStream::connect(address).unwrap();
                        stream.write_all(text.as_bytes()).unwrap();
                        let mut begin = [0; 12];
                        // Half of them leave at once.
                        if number % 2 == 0 {
                            return String::new();
                        }
                        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                        stream.read_exact(&mut begin).unwrap();
                        String::from_utf8_lossy(&begin[9..]).into_owned()
                    })
                })
                .collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let known = |status: &String| matches!(&**status, "" | "201" | "409");
        assert!(statuses.iter().all(known), "{statuses:?}");
    }
    // All that was begun is decided behind this.
    for round in 0..20 {
        let one: Value = serde_json::from_str(body).unwrap();
        let place = "/trees/board/nodes/root/children";
        let headers =
            [("idempotency-key", &*format!("k{round}")), ("content-type", "application/json")];
        site.ask_with("POST", place, Some(&one), &headers).is(201);
    }
    assert_eq!(children(&site), 20);
}
