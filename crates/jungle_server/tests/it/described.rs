//! The description of the addresses holds: whatever any test asks is held against it, and here each method of each
//! address is asked for each answer that it is said to give.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use jsonschema::Validator;
use jungle::Thinning;
use serde_json::{Value, json};

use crate::client::{Answer, Folder, Site, agent, settings};

static DESCRIPTION: LazyLock<Value> = LazyLock::new(jungle_server::openapi);

/// Statuses that any address may answer, as the description of a problem says.
const OF_ALL: [u16; 12] = [400, 401, 403, 408, 409, 413, 421, 422, 429, 500, 503, 507];

/// What was asked and answered since a test began to listen: method, path as described, status.
type Seen = BTreeSet<(String, String, u16)>;

std::thread_local! {
    static SEEN: Mutex<Seen> = const { Mutex::new(Seen::new()) };
}

/// A validator of a schema of the description.
fn validator(schema: &Value) -> Validator {
    let mut whole = schema.clone();
    // References lead to the description's own components.
    if let Some(whole) = whole.as_object_mut() {
        whole.insert("components".into(), DESCRIPTION["components"].clone());
    }
    jsonschema::draft202012::new(&whole).unwrap_or_else(|error| panic!("{error}: {schema}"))
}

fn wrong(schema: &Value, value: &Value) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<String, Validator>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    let validator = known.entry(schema.to_string()).or_insert_with(|| validator(schema));
    validator.validate(value).err().map(|error| format!("{error} at {}", error.instance_path()))
}

/// A reference's object, or the object itself.
fn resolved(value: &Value) -> &Value {
    match value["$ref"].as_str() {
        Some(path) => DESCRIPTION.pointer(path.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

fn methods(path: &str) -> BTreeSet<String> {
    let methods = DESCRIPTION["paths"][path].as_object().unwrap();
    methods.keys().map(|method| method.to_uppercase()).collect()
}

/// The described path that a request is for.
fn path_of(place: &str) -> Option<&'static str> {
    let asked = place.split('?').next().unwrap();
    let asked: Vec<&str> = asked.strip_suffix('/').unwrap_or(asked).split('/').collect();
    let fits = |path: &&String| {
        let parts: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').collect();
        let same = |(part, asked): (&&str, &&str)| part.starts_with('{') || part == asked;
        parts.len() == asked.len() && parts.iter().zip(&asked).all(same)
    };
    DESCRIPTION["paths"].as_object().unwrap().keys().find(fits).map(String::as_str)
}

/// Holds a request and its answer against the description.
#[track_caller]
pub(crate) fn hold(
    method: &str,
    place: &str,
    body: Option<&Value>,
    kind: Option<&str>,
    answer: &Answer,
) {
    let Some(path) = path_of(place) else {
        assert!(answer.status == 404 || OF_ALL.contains(&answer.status), "{place}: {answer:?}");
        return;
    };
    let told = format!("{method} {path}: {body:?} {answer:?}");
    let described = &DESCRIPTION["paths"][path][method.to_lowercase()];
    if described.is_null() {
        if answer.status == 405 {
            let allow: BTreeSet<String> =
                answer.header("allow").unwrap().split(", ").map(str::to_owned).collect();
            assert_eq!(allow, methods(path), "{told}");
        } else {
            assert!(OF_ALL.contains(&answer.status), "{told}");
        }
        return;
    }
    let status = answer.status.to_string();
    let own = &described["responses"][&status];
    let response = if own.is_null() {
        assert!(OF_ALL.contains(&answer.status), "not described: {told}");
        resolved(&described["responses"]["default"])
    } else {
        resolved(own)
    };
    SEEN.with(|seen| {
        let one = (method.to_owned(), path.to_owned(), answer.status);
        seen.lock().unwrap().insert(one);
    });
    let token = answer.header("jungle-token").unwrap_or_else(|| panic!("no token: {told}"));
    assert!(token.split_once('.').is_some(), "{told}");
    if let Some(content) = response["content"].as_object() {
        let given = answer.header("content-type").unwrap().split(';').next().unwrap();
        let content = content.get(given).unwrap_or_else(|| panic!("another type: {told}"));
        if let Some(schema) = content.get("schema") {
            let wrong = wrong(schema, &answer.json());
            assert_eq!(wrong, None, "the answer is not as described: {told}");
        }
    } else {
        assert_eq!(answer.text, "", "no body is described: {told}");
    }
    body_is_as_described(described, body, kind, answer, &told);
}

/// A body is taken only if it is as described, and if it is so, nobody says that it cannot be read.
#[track_caller]
fn body_is_as_described(
    described: &Value,
    body: Option<&Value>,
    kind: Option<&str>,
    answer: &Answer,
    told: &str,
) {
    let is_good = answer.status < 300;
    let Some(body) = body else {
        assert!(!is_good || described["requestBody"]["required"] != true, "{told}");
        return;
    };
    let content = &described["requestBody"]["content"];
    if content.is_null() {
        return;
    }
    let schema = &content[kind.unwrap_or("application/json")]["schema"];
    if schema.is_null() {
        assert_eq!(answer.status, 415, "a body of a type that is not described: {told}");
        return;
    }
    match wrong(schema, body) {
        Some(wrong) => assert!(!is_good, "{wrong}: {told}"),
        None if answer.status == 400 => {
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(!detail.starts_with("the body:"), "it is as described: {told}");
        }
        None => {}
    }
}

/// The description in `docs` is the one that is served. With
/// `SEKISHO_SCHEMAS=write` it is written anew: `cargo xtask schemas` says so.
#[test]
fn the_description_in_docs_is_the_one_that_is_served() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    let served = site.get("/openapi.json").is(200);
    assert_eq!(served, *DESCRIPTION);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/jungle-openapi.json");
    if std::env::var_os("SEKISHO_SCHEMAS").is_some_and(|wanted| wanted == "write") {
        let text = serde_json::to_string_pretty(&served).unwrap() + "\n";
        std::fs::write(file, text).unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(kept == served, "docs/jungle-openapi.json is stale; type `cargo xtask schemas`");
    let ids: Vec<&str> = DESCRIPTION["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|methods| methods.as_object().unwrap().values())
        .map(|described| described["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id stands twice");
}

/// A path of a description with its parts filled in.
fn filled(path: &str) -> String {
    let parts = [
        ("{tree}", "board"),
        ("{node}", "2.0"),
        ("{seq}", "1"),
        ("{blob}", "photo"),
        ("{sha256}", &*"0".repeat(64)),
    ];
    let filled =
        parts.iter().fold(path.to_owned(), |path, (part, value)| path.replace(part, value));
    filled.replace("{attribute}", "title").replace("{name}", "one")
}

/// No method and no parameter is there that is not described, and all of those are that are.
#[test]
fn methods_and_parameters_are_those_that_are_described() {
    let (_folder, site) = board();
    for (path, described) in DESCRIPTION["paths"].as_object().unwrap() {
        let place = filled(path);
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE"] {
            if described[method.to_lowercase()].is_null() {
                site.ask(method, &place, None).is_problem(405, &[]);
            }
        }
        let Some(get) = described.get("get") else { continue };
        let names: Vec<&str> = get["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(resolved)
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        if !path.starts_with("/trees") && !path.starts_with("/commits") && names.is_empty() {
            continue;
        }
        let refused = site.get(&format!("{place}?zz=1"));
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        let known = match detail.split_once("it takes ").unwrap().1 {
            "none" => BTreeSet::new(),
            known => known.split(", ").collect(),
        };
        assert_eq!(known, names.into_iter().collect::<BTreeSet<_>>(), "{path}");
    }
    // Every word of an address in the source stands in an address that is described.
    let words: BTreeSet<&str> =
        DESCRIPTION["paths"].as_object().unwrap().keys().flat_map(|path| path.split('/')).collect();
    let patterns = include_str!("../../src/routes.rs")
        .lines()
        .filter(|line| line.trim_start().starts_with('['))
        .filter_map(|line| line.split_once("=>"));
    let mut looked_at = 0;
    for (pattern, _) in patterns {
        for word in pattern.split('"').skip(1).step_by(2) {
            assert!(words.contains(word), "`{word}` is an address that is not described");
            looked_at += 1;
        }
    }
    assert!(looked_at > 40, "the addresses are no longer written as {looked_at} words");
}

/// A tree `board` with a thread 2.0 and a message 3.0 in it, and a plain tree.
fn board() -> (Folder, Site) {
    let folder = Folder::new();
    let mut settings = settings();
    settings.body_max = 1 << 20;
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/board", None).is(201);
    site.post("/trees/board/nodes/root/children", &json!({"attributes": {"title": "Hello"}}));
    site.post("/trees/board/nodes/2.0/children", &json!({"attributes": {"body": "first"}}));
    site.put("/trees/plain", Some(&json!({"addressable": false}))).is(201);
    (folder, site)
}

fn refused_by_mark(site: &Site, method: &str, place: &str, body: Option<&Value>) {
    site.ask_with(method, place, body, &[("if-match", "\"9.9\"")]).is_problem(412, &[]);
}

fn ask_the_server(site: &Site) {
    for place in [
        "/",
        "/page.css",
        "/page.js",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/stats",
        "/commits",
    ] {
        assert_eq!(site.get(place).status, 200, "{place}");
    }
    site.get("/watch?tree=none").is_problem(404, &[]);
    site.ask("POST", "/snapshot", None).is(200);
    assert_eq!(site.ask_bytes("/backup").status, 200);
}

fn ask_for_trees(site: &Site) {
    site.get("/trees").is(200);
    site.get("/trees/board").is(200);
    for place in [
        "/trees",
        "/trees/board",
        "/trees/board/find",
        "/trees/board/nodes/root",
        "/trees/board/nodes/root/log",
        "/trees/board/nodes/root/blame",
        "/trees/board/nodes/root/query",
    ] {
        let attribute = if place.ends_with("find") { "&attribute=a" } else { "" };
        site.get(&format!("{place}?at=99{attribute}")).is_problem(404, &["99"]);
        // Of a log that was lost nothing is kept.
        site.get(&format!("{place}?at=9.1{attribute}")).is_problem(410, &["9.1"]);
    }
    site.put("/trees/board", None).is_problem(409, &[]);
    let name = |name: &str| json!({"name": name});
    for (verb, status) in [("rename", 200), ("branch", 201)] {
        let place = format!("/trees/board/{verb}");
        site.post(&format!("/trees/none/{verb}"), &name("x")).is_problem(404, &[]);
        site.post(&place, &name("plain")).is_problem(409, &[]);
        refused_by_mark(site, "POST", &place, Some(&name("x")));
        site.put("/trees/spare", None).is(201);
        site.post(&format!("/trees/spare/{verb}"), &name(verb)).is(status);
        site.ask("DELETE", &format!("/trees/{verb}"), None).is(200);
        if verb == "branch" {
            site.ask("DELETE", "/trees/spare", None).is(200);
        }
    }
    site.post("/trees/plain/branch", &name("x")).is_problem(422, &[]);
    refused_by_mark(site, "DELETE", "/trees/board", None);
    site.ask("DELETE", "/trees/none", None).is_problem(404, &[]);
    site.post("/trees/board/branch", &name("draft")).is(201);
    for (tree, title) in [("board", "ours"), ("draft", "theirs")] {
        let put = json!({"attributes": {"title": title}});
        site.patch(&format!("/trees/{tree}/nodes/2.0"), "application/json", &put).is(200);
    }
    site.post("/trees/board/merge", &json!({"from": "none"})).is_problem(404, &[]);
    site.post("/trees/board/merge", &json!({"from": "draft"})).is_problem(409, &[]);
    let theirs = json!({"from": "draft", "policy": "theirs"});
    refused_by_mark(site, "POST", "/trees/board/merge", Some(&theirs));
    site.post("/trees/board/merge", &theirs).is(200);
    site.get("/trees/board/diff?from=3").is(200);
    site.get("/trees/board/diff?from=9999").is_problem(404, &[]);
}

fn ask_for_indexes(site: &Site) {
    let index = "/trees/board/indexes/title";
    let rule = json!({"rule": "last-in-log"});
    for (method, place, body) in [
        ("PUT", "/trees/none/indexes/title", None),
        ("DELETE", index, None),
        ("PUT", "/trees/none/rules/votes", Some(&rule)),
    ] {
        site.ask(method, place, body).is_problem(404, &[]);
    }
    refused_by_mark(site, "PUT", index, None);
    site.put(index, None).is(201);
    site.put(index, None).is_problem(409, &[]);
    site.get("/trees/board/find?attribute=title").is(200);
    site.get("/trees/plain/find?attribute=title").is_problem(422, &[]);
    refused_by_mark(site, "DELETE", index, None);
    site.ask("DELETE", index, None).is(200);
    refused_by_mark(site, "PUT", "/trees/board/rules/votes", Some(&rule));
    site.put("/trees/board/rules/votes", Some(&rule)).is(200);
}

fn ask_for_nodes(site: &Site) {
    let node = "/trees/board/nodes/2.0";
    let none = "/trees/board/nodes/99.0";
    let mark = site.get(node).header("etag").unwrap().to_owned();
    assert_eq!(site.ask_with("GET", node, None, &[("if-none-match", &mark)]).status, 304);
    for place in [none.to_owned(), format!("{none}/log"), format!("{none}/blame")] {
        site.get(&place).is_problem(404, &[]);
    }
    site.get(&format!("{node}?as=json")).is_problem(422, &[]);
    site.get(&format!("{node}/log")).is(200);
    site.get(&format!("{node}/blame")).is(200);
    site.get("/trees/plain/nodes/root/blame").is_problem(422, &[]);
    let put = json!({"attributes": {"title": "again"}});
    site.patch(node, "application/json", &put).is(200);
    site.patch(none, "application/json", &put).is_problem(404, &[]);
    site.patch(node, "text/plain", &put).is_problem(415, &[]);
    let expecting = json!({"attributes": {"title": "x"}, "expect": {"title": "other"}});
    site.patch(node, "application/json", &expecting).is_problem(409, &[]);
    let patch = json!([{"op": "remove", "path": "/none"}]);
    site.patch(node, "application/json-patch+json", &patch).is_problem(422, &[]);
    refused_by_mark(site, "PATCH", node, Some(&put));
    let child = json!({"attributes": {"a": "1"}});
    site.post(&format!("{node}/children"), &child).is(201);
    site.post(&format!("{none}/children"), &child).is_problem(404, &[]);
    refused_by_mark(site, "POST", &format!("{node}/children"), Some(&child));
    let far = json!({"attributes": {}, "position": 77});
    site.post(&format!("{node}/children"), &far).is_problem(422, &[]);
    let document = json!({"json": {"todo": [1, {"title": "one"}]}});
    let made = site.post("/trees/board/nodes/root/children", &document).is(201);
    let place = format!("/trees/board/nodes/{}", made["made"][0].as_str().unwrap());
    site.get(&format!("{place}?as=json")).is(200);
    site.get(&format!("{place}?as=export")).is(200);
    site.get(&format!("{place}?as=export&pointer=/todo")).is_problem(400, &["no `pointer`"]);
    site.get(&format!("{place}/query?path=$..title")).is(200);
    site.get(&format!("{node}/query?path=$")).is_problem(422, &[]);
    site.patch(&place, "application/merge-patch+json", &json!({"n": 1})).is(200);
    let moved = json!({"parent": "root", "position": 0});
    site.post(&format!("{node}/move"), &moved).is(200);
    site.post(&format!("{none}/move"), &moved).is_problem(404, &[]);
    site.post(&format!("{node}/move"), &json!({"parent": "3.0"})).is_problem(422, &[]);
    refused_by_mark(site, "POST", &format!("{node}/move"), Some(&moved));
    site.post(&format!("{node}/restore"), &json!({"at": 3})).is(200);
    site.post(&format!("{none}/restore"), &json!({"at": 3})).is_problem(404, &[]);
    site.post(&format!("{node}/restore"), &json!({"at": 9999})).is_problem(410, &[]);
    site.ask("DELETE", none, None).is_problem(404, &[]);
    site.ask("DELETE", "/trees/board/nodes/root", None).is_problem(422, &[]);
    refused_by_mark(site, "DELETE", node, None);
    site.ask("DELETE", "/trees/board/nodes/3.0", None).is(200);
}

fn ask_for_blobs(site: &Site) {
    let blob = "/trees/board/nodes/2.0/blobs/photo";
    let none = "/trees/board/nodes/99.0/blobs/photo";
    site.put_bytes(none, b"bytes", &[]).is_problem(404, &[]);
    site.put_bytes(blob, b"bytes", &[("if-match", "\"1.0\"")]).is_problem(412, &[]);
    let put = site.put_bytes(blob, b"bytes", &[]);
    put.is(200);
    let mark = put.header("etag").unwrap();
    site.ask_bytes(blob);
    assert_eq!(site.ask_with("GET", blob, None, &[("if-none-match", mark)]).status, 304);
    let part = |range: &str, place: &str| site.ask_with("GET", place, None, &[("range", range)]);
    for place in [blob, &format!("/blobs/{}", mark.trim_matches('"'))] {
        let answer = part("bytes=1-3", place);
        assert_eq!((answer.status, &*answer.text), (206, "yte"));
        assert_eq!(answer.header("content-range"), Some("bytes 1-3/5"));
        part("bytes=5-", place).is_problem(416, &["5 B"]);
    }
    site.get(none).is_problem(404, &[]);
    site.get("/blobs").is(200);
    site.get("/blobs?at=9999").is_problem(404, &[]);
    site.ask_bytes(&format!("/blobs/{}", mark.trim_matches('"')));
    site.get(&format!("/blobs/{}", "0".repeat(64))).is_problem(410, &[]);
    site.get("/backup?at=9999").is_problem(404, &[]);
    refused_by_mark(site, "DELETE", blob, None);
    site.ask("DELETE", blob, None).is(200);
    site.ask("DELETE", blob, None).is_problem(404, &[]);
}

fn ask_for_commits(site: &Site) {
    let transaction = |operations: Value| json!({"author": "ann", "operations": operations});
    let put = |tree: &str, node: &str, title: &str| json!({"op": "put", "tree": tree, "node": node, "attributes": {"title": title}});
    let made = site.post("/transactions", &transaction(json!([put("board", "2.0", "t")]))).is(200);
    let seq = made["seq"].as_u64().unwrap();
    for (operation, status) in [
        (put("none", "2.0", "t"), 404),
        (json!({"op": "create_tree", "tree": "board"}), 409),
        (json!({"op": "remove", "tree": "board", "node": "root"}), 422),
    ] {
        site.post("/transactions", &transaction(json!([operation]))).is_problem(status, &[]);
    }
    let stale = json!({"preconditions": [{"tree": "board", "since": 1}], "operations": []});
    site.post("/transactions", &stale).is_problem(412, &[]);
    site.get("/commits?limit=2").is(200);
    site.get(&format!("/commits/{seq}")).is(200);
    site.get("/commits/9999").is_problem(404, &[]);
    site.post("/trees/board/branch", &json!({"name": "other"})).is(201);
    site.post("/transactions", &transaction(json!([put("other", "2.0", "o")]))).is(200);
    let pick = json!({"from": "board", "into": "other"});
    site.post(&format!("/commits/{seq}/pick"), &pick).is_problem(409, &[]);
    site.post("/commits/9999/pick", &pick).is_problem(404, &[]);
    let child = json!({"attributes": {"picked": "yes"}});
    let child = site.post("/trees/board/nodes/2.0/children", &child).is(201)["seq"].clone();
    site.post(&format!("/commits/{child}/pick"), &pick).is(200);
    site.post("/transactions", &transaction(json!([put("board", "2.0", "u")]))).is(200);
    site.ask("POST", &format!("/commits/{seq}/revert"), None).is_problem(409, &[]);
    site.ask("POST", "/commits/9999/revert", None).is_problem(404, &[]);
    site.ask("POST", &format!("/commits/{child}/revert"), None).is(200);
    site.put("/holds/one", Some(&json!({"seq": seq}))).is(200);
    site.put("/holds/one", Some(&json!({"seq": 9999}))).is_problem(410, &[]);
    assert_eq!(site.ask("DELETE", "/holds/one", None).status, 204);
    site.ask("DELETE", "/holds/one", None).is_problem(404, &[]);
}

/// What thinning has given up is gone, by whatever address.
fn ask_for_what_is_not_kept() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.store.thinning = Thinning { newest: 2, all_for: 0, minutes_for: 0, versions: 3 };
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/board", None).is(201);
    site.post("/trees/board/branch", &json!({"name": "other"})).is(201);
    for number in 0..8 {
        let put = json!({"attributes": {"title": number.to_string()}});
        site.patch("/trees/board/nodes/root", "application/json", &put).is(200);
    }
    let gone = |answer: Answer| answer.is_problem(410, &["is not kept any more"]);
    gone(site.get("/trees/board/diff?from=3"));
    gone(site.get("/trees/board/diff?from=9&to=3"));
    gone(site.get("/trees/board/nodes/root?at=3"));
    gone(site.get("/trees/board/nodes/root/blobs/photo?at=3"));
    gone(site.get("/blobs?at=3"));
    gone(site.get("/backup?at=3"));
    gone(site.ask("POST", "/commits/3/revert", None));
    gone(site.post("/commits/3/pick", &json!({"from": "board", "into": "other"})));
    gone(site.post("/trees/board/nodes/root/restore", &json!({"at": 3})));
    site.get("/trees/board/diff?from=9").is(200);
    // Of a log that was lost nothing is kept.
    for query in ["from=9.1", "from=9&to=9.1"] {
        let answer = site.get(&format!("/trees/board/diff?{query}"));
        answer.is_problem(410, &["9.1", "generation"]);
    }
}

/// Those who write end with this, however the test does.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever takes something back while others change the same tree without a pause is told so in the end.
fn ask_while_others_write(site: &Site) {
    // To look at so many attributes takes time, in which others are before whoever looks.
    let many: BTreeMap<String, &str> = (0..2_000).map(|n| (format!("many {n}"), "x")).collect();
    let node = "/trees/board/nodes/2.0";
    site.patch(node, "application/json", &json!({"attributes": many})).is(200);
    let put = |tree: &str| json!({"op": "put", "tree": tree, "node": "root", "attributes": {"a": "busy"}});
    let busy = json!({"operations": [put("board"), put("other")]}).to_string();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&over);
        for _ in 0..8 {
            scope.spawn(|| {
                let (agent, place) = (agent(), format!("{}/transactions", site.url));
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(agent.post(&place).send(&busy).unwrap().status(), 200);
                }
            });
        }
        let pick = json!({"from": "board", "into": "other"});
        let mut told = BTreeSet::new();
        // One to five rounds were enough in all runs; the bound is only that a defect ends.
        for number in 0..300 {
            // Of a name of its own, so that nothing is in conflict with it.
            let edit = json!({"attributes": {(format!("try {number}")): "x"}});
            let seq = site.patch(node, "application/json", &edit).is(200)["seq"].clone();
            for (place, body) in [
                (format!("/commits/{seq}/pick"), Some(&pick)),
                (format!("/commits/{seq}/revert"), None),
                (format!("{node}/restore"), Some(&json!({"at": seq}))),
            ] {
                let answer = site.ask("POST", &place, body);
                if answer.status == 412 {
                    answer.is_problem(412, &["changed"]);
                    told.insert(place.rsplit('/').next().unwrap().to_owned());
                } else {
                    answer.is(200);
                }
            }
            if told.len() == 3 {
                break;
            }
        }
        assert_eq!(told.into_iter().collect::<Vec<_>>(), ["pick", "restore", "revert"]);
    });
}

/// The events of a watch are those that its description names, in the same shapes.
fn watch(site: &Site) {
    let answered = site.agent.get(format!("{}/watch?after=1.0&heartbeat_s=1", site.url)).call();
    let lines = BufReader::new(answered.unwrap().into_body().into_reader()).lines();
    let (mut kind, mut kinds) = (String::new(), BTreeSet::new());
    for line in lines {
        let line = line.unwrap();
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut kind);
        }
        let Some(body) = line.strip_prefix("data: ") else { continue };
        let body: Value = serde_json::from_str(body).unwrap();
        if kind == "commit" {
            let schema = json!({"$ref": "#/components/schemas/CommitAnswer"});
            assert_eq!(wrong(&schema, &body), None, "{body}");
        } else {
            assert!(body["seq"].is_u64(), "{kind} {body}");
        }
        kinds.insert(std::mem::take(&mut kind));
        if kinds.len() == 2 {
            break;
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["commit", "position"]);
}

#[test]
fn each_address_gives_each_answer_that_is_described() {
    let (_folder, site) = board();
    ask_the_server(&site);
    ask_for_trees(&site);
    ask_for_indexes(&site);
    ask_for_blobs(&site);
    ask_for_nodes(&site);
    ask_for_commits(&site);
    ask_for_what_is_not_kept();
    ask_while_others_write(&site);
    watch(&site);
    let seen = SEEN.with(|seen| std::mem::take(&mut *seen.lock().unwrap()));
    let mut missing = Vec::new();
    for (path, methods) in DESCRIPTION["paths"].as_object().unwrap() {
        for (method, described) in methods.as_object().unwrap() {
            for status in described["responses"].as_object().unwrap().keys() {
                let Ok(status) = status.parse::<u16>() else { continue };
                // A watch does not end, so that its events are read by hand above.
                let is_watch = path == "/watch" && status == 200;
                if !is_watch && !seen.contains(&(method.to_uppercase(), path.clone(), status)) {
                    missing.push(format!("{method} {path} {status}"));
                }
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "described, and answered by nobody");
}
