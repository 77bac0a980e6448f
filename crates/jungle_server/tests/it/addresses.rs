//! Each address, asked well and badly.

use serde_json::{Value, json};

use crate::client::{Folder, Site};

/// A tree `board` with a thread 2.0 and a message 3.0 in it.
fn board() -> (Folder, Site) {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    assert_eq!(site.put("/trees/board", None).is(201)["seq"], 1);
    let thread = json!({"attributes": {"title": "Hello"}});
    let made = site.post("/trees/board/nodes/root/children", &thread);
    assert_eq!(made.is(201)["made"], json!(["2.0"]));
    assert_eq!(made.header("location"), Some("/trees/board/nodes/2.0"));
    let message = json!({"attributes": {"body": "first"}});
    site.post("/trees/board/nodes/2.0/children", &message).is(201);
    (folder, site)
}

fn node(site: &Site, place: &str) -> Value {
    site.get(place).is(200)["node"].clone()
}

#[test]
fn trees_are_made_listed_renamed_and_dropped() {
    let (_folder, site) = board();
    site.put("/trees/board", None).is_problem(409, &["board", "exists", "drop it"]);
    site.put("/trees/plain", Some(&json!({"addressable": false}))).is(201);
    site.put("/trees/x", Some(&json!({"addresable": false}))).is_problem(400, &["addresable"]);
    let trees = site.get("/trees").is(200);
    assert_eq!(trees["trees"][0]["name"], "board");
    assert_eq!(trees["trees"][1]["addressable"], false);
    site.post("/trees/plain/rename", &json!({"name": "bäume/2"})).is(200);
    site.get("/trees/plain").is_problem(404, &["plain", "create it"]);
    assert_eq!(site.get("/trees/b%C3%A4ume%2F2").is(200)["name"], "bäume/2");
    site.ask("DELETE", "/trees/b%C3%A4ume%2F2", None).is(200);
    site.ask("DELETE", "/trees/b%C3%A4ume%2F2", None).is_problem(404, &["bäume/2"]);
    let odd = site.ask("POST", "/trees/board", None);
    odd.is_problem(405, &["GET, PUT, DELETE"]);
    assert_eq!(odd.header("allow"), Some("GET, PUT, DELETE"));
    site.get("/nothing").is_problem(404, &["/trees"]);
    site.get("/trees?ta=3").is_problem(400, &["ta", "at"]);
}

#[test]
fn nodes_are_read_by_id_path_and_part() {
    let (_folder, site) = board();
    for place in ["2.0", "-1,0", "%3C-1,0%3E"] {
        let found = site.get(&format!("/trees/board/nodes/{place}")).is(200);
        assert_eq!(found["path"], "<-1,0>", "{place}");
        assert_eq!(found["node"]["attributes"], json!({"title": "Hello"}), "{place}");
        assert_eq!(found["node"]["nodes"][0]["id"], "3.0", "{place}");
    }
    let none = node(&site, "/trees/board/nodes/root?depth=0");
    assert_eq!((&none["children"], &none["nodes"]), (&json!(1), &json!([])));
    for number in 0..5 {
        let one = json!({"attributes": {"number": number.to_string()}});
        site.post("/trees/board/nodes/root/children", &one).is(201);
    }
    let part = node(&site, "/trees/board/nodes/root?offset=2&limit=2");
    assert_eq!((&part["nodes"][0]["id"], &part["next_offset"]), (&json!("5.0"), &json!(4)));
    site.get("/trees/board/nodes/9.9").is_problem(404, &["9.9"]);
    site.get("/trees/board/nodes/-1,77").is_problem(404, &["<-1,77>", "read the tree again"]);
    site.get("/trees/board/nodes/what").is_problem(400, &["what", "<-1,0,2>", "17.0", "root"]);
    site.get("/trees/board/nodes/root?limit=-1").is_problem(400, &["limit=-1"]);
    site.get("/trees/nowhere/nodes/root").is_problem(404, &["nowhere"]);
}

#[test]
fn edits_take_effect_and_say_why_not() {
    let (_folder, site) = board();
    let first = json!({"attributes": {"title": "First"}, "position": 0});
    site.post("/trees/board/nodes/root/children", &first).is(201);
    let titles = |site: &Site| {
        let root = node(site, "/trees/board/nodes/root");
        root["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["attributes"]["title"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(titles(&site), ["First", "Hello"]);
    let far = json!({"attributes": {}, "position": 9});
    site.post("/trees/board/nodes/root/children", &far)
        .is_problem(422, &["position 9", "use at most 2"]);
    site.post("/trees/board/nodes/2.0/move", &json!({"parent": "root", "position": 0})).is(200);
    assert_eq!(titles(&site), ["Hello", "First"]);
    site.post("/trees/board/nodes/2.0/move", &json!({"parent": "3.0"})).is_problem(422, &["below"]);
    site.ask("DELETE", "/trees/board/nodes/root", None).is_problem(422, &["drop the tree"]);
    site.ask("DELETE", "/trees/board/nodes/4.0", None).is(200);
    site.ask("DELETE", "/trees/board/nodes/4.0", None).is_problem(404, &["4.0"]);
    let put = json!({"attributes": {"title": "Hi", "bytes": {"base64": "/w=="}}});
    site.patch("/trees/board/nodes/2.0", "application/json", &put).is(200);
    let now = node(&site, "/trees/board/nodes/2.0");
    assert_eq!(now["attributes"], json!({"title": "Hi", "bytes": {"base64": "/w=="}}));
    let out = json!({"attributes": {"bytes": null}});
    site.patch("/trees/board/nodes/2.0", "application/json", &out).is(200);
    site.patch("/trees/board/nodes/2.0", "application/json", &out).is_problem(404, &["bytes"]);
    site.patch("/trees/board/nodes/2.0", "text/plain", &out).is_problem(415, &["text/plain"]);
    let wrong = json!({"attributes": {"x": {"base64": "!"}}});
    site.patch("/trees/board/nodes/2.0", "application/json", &wrong)
        .is_problem(400, &["`x`", "base64"]);
}

#[test]
fn an_edit_of_what_others_have_changed_is_refused_by_its_mark() {
    let (_folder, site) = board();
    let read = site.get("/trees/board/nodes/2.0");
    let mark = read.header("etag").unwrap().to_owned();
    let unchanged =
        site.ask_with("GET", "/trees/board/nodes/2.0", None, &[("if-none-match", &mark)]);
    assert_eq!((unchanged.status, &*unchanged.text), (304, ""));
    let put = |title: &str, mark: &str| {
        let body = json!({"attributes": {"title": title}});
        site.ask_with("PATCH", "/trees/board/nodes/2.0", Some(&body), &[("if-match", mark)])
    };
    put("one", &mark).is(200);
    put("two", &mark).is_problem(412, &[&*mark, "read it again"]);
    // A change below it counts as well.
    let mark = site.get("/trees/board/nodes/2.0").header("etag").unwrap().to_owned();
    let below = json!({"attributes": {"body": "edited"}});
    site.patch("/trees/board/nodes/3.0", "application/json", &below).is(200);
    put("three", &mark).is_problem(412, &[]);
    assert_eq!(node(&site, "/trees/board/nodes/2.0")["attributes"]["title"], "one");
    let expecting = json!({"attributes": {"title": "four"}, "expect": {"title": "Hello"}});
    site.patch("/trees/board/nodes/2.0", "application/json", &expecting)
        .is_problem(409, &["title", "2.0", "read it"]);
}

#[test]
fn a_transaction_takes_effect_whole_or_not_at_all() {
    let (_folder, site) = board();
    let good = json!({"author": "ann", "message": "both", "operations": [
        {"op": "create_tree", "tree": "users"},
        {"op": "insert", "tree": "users", "parent": "root", "attributes": {"name": "ann"}, "label": "ann"},
        {"op": "insert", "tree": "users", "parent": "#ann", "attributes": {"mail": "a@b"}},
        {"op": "put", "tree": "board", "node": "2.0", "attributes": {"by": "ann"}}
    ]});
    let made = site.post("/transactions", &good).is(200);
    assert_eq!((&made["seq"], &made["made"]), (&json!(4), &json!(["4.0", "4.1", "4.2"])));
    assert_eq!(node(&site, "/trees/users/nodes/4.1")["nodes"][0]["attributes"]["mail"], "a@b");
    assert_eq!(site.get("/commits/4").is(200)["author"], "ann");
    let half = json!({"operations": [
        {"op": "put", "tree": "board", "node": "2.0", "attributes": {"by": "bob"}},
        {"op": "remove", "tree": "users", "node": "root"}
    ]});
    site.post("/transactions", &half).is_problem(422, &["operation 1", "users", "root"]);
    assert_eq!(node(&site, "/trees/board/nodes/2.0")["attributes"]["by"], "ann");
    let stale = json!({"preconditions": [{"tree": "board", "since": 1}], "operations": []});
    site.post("/transactions", &stale).is_problem(412, &["board", "commit 4", "after 1"]);
    let label = json!({"operations": [{"op": "insert", "tree": "users", "parent": "#bob"}]});
    site.post("/transactions", &label).is_problem(400, &["operation 0", "bob"]);
    site.post("/transactions", &json!({"operations": [{"op": "fly"}]})).is_problem(400, &["fly"]);
    site.post("/transactions", &json!({"operations": []})).is(200);
}

#[test]
fn the_past_is_read_compared_and_taken_back() {
    let (_folder, site) = board();
    let author = [("jungle-author", "ann"), ("jungle-message", "a better title")];
    let put = json!({"attributes": {"title": "Welcome"}});
    site.ask_with("PATCH", "/trees/board/nodes/2.0", Some(&put), &author).is(200);
    assert_eq!(node(&site, "/trees/board/nodes/2.0?at=3")["attributes"]["title"], "Hello");
    let log = site.get("/trees/board/nodes/2.0/log").is(200);
    let seqs: Vec<_> =
        log["entries"].as_array().unwrap().iter().map(|one| one["seq"].clone()).collect();
    assert_eq!(seqs, [4, 3, 2]);
    assert_eq!(log["entries"][0]["changes"], json!([{"kind": "put", "attribute": "title"}]));
    let page = site.get("/trees/board/nodes/2.0/log?limit=1").is(200);
    assert_eq!((&page["entries"][0]["seq"], &page["next_before"]), (&json!(4), &json!(4)));
    let page = site.get("/trees/board/nodes/2.0/log?limit=1&before=4").is(200);
    assert_eq!(page["entries"][0]["seq"], 3);
    let blame = site.get("/trees/board/nodes/2.0/blame").is(200);
    assert_eq!(blame["attributes"]["title"]["message"], "a better title");
    let diff = site.get("/trees/board/diff?from=3").is(200);
    assert_eq!(diff["differences"][0]["after"], "Welcome");
    site.get("/trees/board/diff").is_problem(400, &["from", "from_tree"]);
    site.get("/trees/board/diff?from=99").is_problem(404, &["99", "newest is 4"]);
    site.ask("POST", "/commits/4/revert", None).is(200);
    assert_eq!(node(&site, "/trees/board/nodes/2.0")["attributes"]["title"], "Hello");
    site.post("/trees/board/nodes/2.0/restore", &json!({"at": 4})).is(200);
    assert_eq!(node(&site, "/trees/board/nodes/2.0")["attributes"]["title"], "Welcome");
    site.ask("POST", "/commits/99/revert", None).is_problem(404, &["99", "newest is 6"]);
    site.ask("POST", "/commits/x/revert", None).is_problem(400, &["`x`"]);
    let commits = site.get("/commits?limit=2").is(200);
    assert_eq!((&commits[0]["seq"], &commits[1]["seq"]), (&json!(6), &json!(5)));
    site.get("/commits/77").is_problem(404, &["77", "1 to 6"]);
    site.put("/holds/release", Some(&json!({"seq": 4}))).is(200);
    assert_eq!(site.ask("DELETE", "/holds/release", None).status, 204);
    site.ask("DELETE", "/holds/release", None).is_problem(404, &["release"]);
}

#[test]
fn a_merge_lists_its_conflicts() {
    let (_folder, site) = board();
    site.post("/trees/board/branch", &json!({"name": "draft"})).is(201);
    for (tree, title) in [("board", "ours"), ("draft", "theirs")] {
        let put = json!({"attributes": {"title": title}});
        site.patch(&format!("/trees/{tree}/nodes/2.0"), "application/json", &put).is(200);
    }
    let refused = site.post("/trees/board/merge", &json!({"from": "draft"}));
    refused.is_problem(409, &["draft", "board", "title"]);
    let conflict = &refused.json()["conflicts"][0];
    assert_eq!(
        (&conflict["kind"], &conflict["base"], &conflict["ours"], &conflict["theirs"]),
        (&json!("attribute"), &json!("Hello"), &json!("ours"), &json!("theirs"))
    );
    let merged =
        site.post("/trees/board/merge", &json!({"from": "draft", "policy": "theirs"})).is(200);
    assert_eq!(merged["conflicts"][0]["node"], "2.0");
    assert_eq!(node(&site, "/trees/board/nodes/2.0")["attributes"]["title"], "theirs");
    let compared = site.get("/trees/board/diff?from_tree=draft").is(200);
    assert_eq!(compared["differences"], json!([]));
    site.post("/trees/board/merge", &json!({"from": "none"})).is_problem(404, &["none"]);
    site.post("/trees/board/merge", &json!({"from": "draft", "policy": "best"}))
        .is_problem(400, &["best"]);
}

#[test]
fn an_index_answers_in_its_order_page_by_page() {
    let (_folder, site) = board();
    for title in ["c", "a", "b"] {
        site.post("/trees/board/nodes/root/children", &json!({"attributes": {"title": title}}))
            .is(201);
    }
    let walked = site.get("/trees/board/find?attribute=title&value=a").is(200);
    assert_eq!((&walked["indexed"], &walked["nodes"][0]["id"]), (&json!(false), &json!("5.0")));
    site.get("/trees/board/find?attribute=title").is_problem(404, &["title", "make one"]);
    site.put("/trees/board/indexes/title", None).is(201);
    site.put("/trees/board/indexes/title", None).is_problem(409, &["title"]);
    let mut titles = Vec::new();
    let mut after = String::new();
    loop {
        let page = site.get(&format!("/trees/board/find?attribute=title&limit=2{after}")).is(200);
        assert_eq!(page["indexed"], true);
        titles.extend(
            page["nodes"].as_array().unwrap().iter().map(|one| one["attributes"]["title"].clone()),
        );
        match page["next_after"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(titles, ["Hello", "a", "b", "c"]);
    site.get("/trees/board/find?value=a").is_problem(400, &["attribute"]);
    site.ask("DELETE", "/trees/board/indexes/title", None).is(200);
    site.ask("DELETE", "/trees/board/indexes/title", None).is_problem(404, &["title"]);
    site.put("/trees/board/rules/votes", Some(&json!({"rule": "counter"}))).is(200);
    site.put("/trees/board/rules/votes", Some(&json!({"rule": "best"}))).is_problem(400, &["best"]);
}

#[test]
fn documents_go_in_are_patched_and_come_out() {
    let (_folder, site) = board();
    let document = json!({"todo": [{"title": "one"}], "done": []});
    site.post("/trees/board/nodes/root/children", &json!({"json": document})).is(201);
    let place = "/trees/board/nodes/4.0";
    assert_eq!(site.get(&format!("{place}?as=json")).is(200), document);
    let patch = json!([{"op": "move", "from": "/todo/0", "path": "/done/-"}]);
    site.patch(place, "application/json-patch+json", &patch).is(200);
    let first = site.get(&format!("{place}?as=json&pointer=/done/0/title")).is(200);
    assert_eq!(first, "one");
    site.patch(place, "application/merge-patch+json", &json!({"todo": null, "n": 1.5})).is(200);
    let now = json!({"done": [{"title": "one"}], "n": 1.5});
    assert_eq!(site.get(&format!("{place}?as=json")).is(200), now);
    let id = site.get(&format!("{place}?pointer=/done/0")).is(200)["node"]["id"].clone();
    assert!(id.as_str().unwrap().starts_with("4."), "a value that moved keeps its node: {id}");
    site.get(&format!("{place}?as=json&pointer=/nothing")).is_problem(404, &["/nothing"]);
    site.get(&format!("{place}?as=json&pointer=x")).is_problem(400, &["`x`", "begins with `/`"]);
    let test = json!([{"op": "test", "path": "/n", "value": 2}]);
    site.patch(place, "application/json-patch+json", &test).is_problem(422, &["operation 0"]);
    site.get("/trees/board/nodes/2.0?as=json").is_problem(422, &["2.0", "no JSON"]);
    site.get(&format!("{place}?as=xml")).is_problem(400, &["xml"]);
}

#[test]
fn the_server_tells_of_itself() {
    let (_folder, site) = board();
    assert_eq!(site.get("/healthz").status, 200);
    assert_eq!(site.get("/readyz").text, "ready\n");
    let stats = site.get("/stats").is(200);
    assert_eq!(
        (&stats["seq"], &stats["nodes"], &stats["durability"]),
        (&json!(3), &json!(3), &json!("sync"))
    );
    let metrics = site.get("/metrics");
    assert!(metrics.text.contains("\njungle_commits_total 3\n"), "{}", metrics.text);
    for row in metrics.text.lines().filter(|row| !row.starts_with('#')) {
        let (name, value) = row.split_once(' ').unwrap();
        assert!(name.starts_with("jungle_") && value.parse::<f64>().is_ok(), "{row}");
    }
    assert_eq!(site.get("/trees").header("jungle-token"), Some("1.3"));
    let seen = |token: &str| site.ask_with("GET", "/trees", None, &[("jungle-token", token)]);
    seen("1.3").is(200);
    seen("1.4").is_problem(409, &["1.4", "1.3"]);
    seen("2.3").is_problem(409, &[]);
    seen("x").is_problem(400, &["`x`"]);
    assert_eq!(site.post("/snapshot", &json!({})).is(200)["seq"], 3);
}

/// A page of somebody else in a browser of this machine must not reach the database.
#[test]
fn pages_of_others_are_refused() {
    let (_folder, site) = board();
    let own = site.url.clone();
    let from = |origin: &str| site.ask_with("GET", "/trees", None, &[("origin", origin)]);
    from(&own).is(200);
    from("http://evil.example").is_problem(403, &["evil.example"]);
    let named = |host: &str| site.ask_with("GET", "/trees", None, &[("host", host)]);
    named("localhost:80").is(200);
    named("evil.example").is_problem(421, &["evil.example"]);
}
