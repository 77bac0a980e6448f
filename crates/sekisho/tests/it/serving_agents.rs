//! `agents serve` as a user starts it: answers, ends, and what is left after kill -9.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{PATIENCE, Running, sekisho, shell};

/// A file of rules with a counter and a threshold.
pub(crate) const RULES: &str = r#"[agent]
state = { symbol = "text", high = "number", count = 0 }

[messages.tick]
fields = { symbol = "text", price = "number" }

[messages.order]
set = { count = "count + 1" }

[rules.too-high]
on = "tick"
when = "price > high"
notify = ["alerts"]

[destinations.alerts]
log = "alerts.jsonl"
"#;

/// The example of the help: it listens, answers and drains.
#[track_caller]
pub(crate) fn serves(folder: &Path, line: &str) {
    // In a folder of its own: the server of the other examples has the one that all of them name.
    let line = line.replace("rules.toml", &format!("{}/rules.toml", folder.display()));
    let scratch = Scratch::new();
    let said = user(&scratch.join(""), "root", "--admin");
    let running = shell(&scratch.join(""), &format!("{line} --listen 127.0.0.1:0"));
    let address = address(&running);
    let put = |headers: &[&str]| request(&address, "PUT /agents/alice", headers, "{}");
    assert_eq!(put(&[&format!("Authorization: Bearer {said}")]).map(|it| it.0), Some(202));
    let stranger = if line.contains("--users") { 401 } else { 202 };
    assert_eq!(put(&[]).map(|it| it.0), Some(stranger), "{line}");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    assert!(ended.out.contains("drained: "), "{line}: {ended:?}");
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{ended:?}");
}

/// The access token of a user with these rights, whose lines stand in `users.toml` then.
#[track_caller]
pub(crate) fn user(folder: &Path, name: &str, rights: &str) -> String {
    let made = shell(folder, &format!("sekisho agents user {name} {rights} --users users.toml"));
    let made = made.ended(PATIENCE);
    assert_eq!((made.code, &*made.err), (0, ""), "{made:?}");
    let then = "next: sekisho agents serve rules.toml --users users.toml";
    assert!(made.out.contains(then), "{made:?}");
    made.out.lines().nth(1).expect("it is printed").to_owned()
}

pub(crate) fn address(running: &Running) -> String {
    let said = running.says("listening on http");
    let (_, rest) = said.split_once("://").expect("it says so");
    rest.split([' ', ',']).next().expect("it says where").to_owned()
}

/// Status and body of an answer; nothing if the server went away.
pub(crate) fn request(
    address: &str,
    line: &str,
    headers: &[&str],
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let extra: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

#[track_caller]
pub(crate) fn state(address: &str, agent: &str) -> Value {
    let (_, text) = request(address, &format!("GET /agents/{agent}"), &[], "").expect("an answer");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn it_says_where_it_listens_and_what_it_did() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0 --json";
    let words = ["agents", "serve", "rules.toml", "--listen", "127.0.0.1:0", "--json"];
    assert_eq!(line, format!("sekisho {}", words.join(" ")));
    let running = shell(&folder, line);
    let said = running.says("\"listening\"");
    let started: Value = serde_json::from_str(said.trim()).unwrap();
    let address =
        started["listening"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let batch = format!("[{}]", ["{}"; 50].join(","));
    assert_eq!(request(&address, "PUT /agents/alice", &[], "{}").unwrap().0, 202);
    let sent = request(&address, "POST /agents/alice/messages/order", &[], &batch).unwrap();
    assert_eq!(sent.0, 202, "{sent:?}");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    let last = ended.objects().pop().unwrap();
    assert_eq!(
        (&last["format"], &last["drained"]),
        (&"sekisho/agents-serve/1".into(), &true.into())
    );
    // The declaration, the orders, and the news that the file is a new one reach alice.
    assert!(last["handled"].as_u64().is_some_and(|handled| handled >= 51), "{last}");
}

#[test]
fn a_wrong_file_ends_with_2_and_its_place() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES.replace("price > high", "prise > high")).unwrap();
    for verb in ["serve", "explain"] {
        let ended = sekisho(&folder, &["agents", verb, "rules.toml"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        let told = "rules.toml:12:9: unknown name `prise`; did you mean `price`?";
        assert!(ended.err.contains(told), "{ended:?}");
    }
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let open = ["agents", "serve", "rules.toml", "--listen", "0.0.0.0:0"];
    let ended = sekisho(&folder, &open);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("--users"), "{ended:?}");
    let made = user(&folder, "ann", "--read");
    let ended = sekisho(&folder, &[&open[..], &["--users", "users.toml"]].concat());
    assert!(ended.code == 2 && ended.err.contains("--tls-cert"), "{ended:?}");
    let text = fs::read_to_string(folder.join("users.toml")).unwrap();
    assert!(!text.contains(&made), "the access token is kept nowhere: {text}");
    fs::write(folder.join("users.toml"), text + "reed = true\n").unwrap();
    let words = ["agents", "serve", "rules.toml", "--users", "users.toml"];
    let ended = sekisho(&folder, &words);
    let told = "users.toml: line 5: unknown field `reed`";
    assert!(ended.code == 2 && ended.err.contains(told), "{ended:?}");
    assert!(!folder.join("agents.store").exists(), "nothing was made");
}

/// Clients under load while the server is killed again and again. Each order has an id and is sent until it is
/// acknowledged; each tick crosses the limits of all agents once more. Then the counters are the orders that
/// were acknowledged, and each firing that a state counts is in the log under one name.
#[test]
fn after_kill_9_what_was_acknowledged_took_effect_once() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let kills = if std::env::var_os("SEKISHO_LONG").is_some() { 50 } else { 8 };
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0";
    takes_effect_once(&folder, line, kills, |running| {
        // Dropping kills with signal 9.
        drop(running);
        shell(&folder, line)
    });
}

/// Timers of 20 agents come due while the server is killed again and again: each has taken effect once, and has left
/// under one name. A row goes on behind the last kill.
#[test]
fn after_kill_9_each_timer_fires_once() {
    const AGENTS: u64 = 20;
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let kills = if std::env::var_os("SEKISHO_LONG").is_some() { 30 } else { 6 };
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0";
    let timers = r#"timers = { remind = { after = "2s" }, look = { every = "1s" } }

[timers.remind]
set = { count = "count + 1" }

[timers.look]
set = { high = "high + 1" }
"#;
    let rules = RULES.replace("set = { count = \"count + 1\" }\n", timers);
    let rules = rules.replace(
        "on = \"tick\"\nwhen = \"price > high\"",
        "on = \"timer remind\"\nwhen = \"count > 0\"",
    );
    fs::write(folder.join("rules.toml"), rules).unwrap();
    let mut running = shell(&folder, line);
    let mut place = Mutex::new(address(&running));
    for agent in 0..AGENTS {
        let body = r#"{"symbol": "A", "high": 0}"#;
        until_taken(&place, &format!("PUT /agents/a{agent}"), &format!("p{agent}"), body);
        let order = format!("POST /agents/a{agent}/messages/order");
        until_taken(&place, &order, &format!("o{agent}"), "{}");
    }
    for n in 0..kills {
        thread::sleep(Duration::from_millis(100 + 237 * (n % 5)));
        drop(running);
        running = shell(&folder, line);
        place = Mutex::new(address(&running));
    }
    let here = place.into_inner().unwrap();
    let until = Instant::now() + PATIENCE;
    let number = |told: &Value, field: &str| told["state"][field].as_f64().expect("a number");
    for agent in (0..AGENTS).map(|agent| format!("a{agent}")) {
        let looks = number(&state(&here, &agent), "high");
        loop {
            let told = state(&here, &agent);
            if number(&told, "count") >= 1.0 && number(&told, "high") >= looks + 2.0 {
                break;
            }
            assert!(Instant::now() < until, "{told}");
            thread::sleep(Duration::from_millis(50));
        }
        let told = state(&here, &agent);
        assert_eq!((number(&told, "count"), &told["fired"]), (1.0, &1.into()), "{told}");
        assert_eq!(told["timers"].as_object().map(|timers| timers.len()), Some(1), "{told}");
    }
    let wanted: BTreeMap<String, u64> = (0..AGENTS).map(|agent| (format!("a{agent}"), 1)).collect();
    while firings(&folder) != wanted {
        assert!(Instant::now() < until, "{:?}", firings(&folder));
        thread::sleep(Duration::from_millis(50));
    }
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
}

/// The same where notifications leave in digests: each is in one, whatever was gathered when the server was killed.
#[test]
fn after_kill_9_each_notification_is_in_a_digest() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let kills = if std::env::var_os("SEKISHO_LONG").is_some() { 50 } else { 8 };
    let line = "sekisho agents serve rules.toml --listen 127.0.0.1:0";
    let rules = RULES.to_owned() + "digest = { every = \"1s\", count = 7 }\n";
    takes_effect_once_by(&rules, shell, &folder, line, kills, |running| {
        drop(running);
        shell(&folder, line)
    });
    let text = fs::read_to_string(folder.join("alerts.jsonl")).unwrap();
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sizes: Vec<usize> = whole.map(|it| it["notifications"].as_array().unwrap().len()).collect();
    assert!(sizes.iter().all(|size| (1..=7).contains(size)), "{sizes:?}");
    assert!(sizes.iter().any(|size| *size > 1), "several leave together: {sizes:?}");
}

/// Clients press a server that is disturbed so often; `disturbed` gives the one that runs afterwards.
pub(crate) fn takes_effect_once(
    folder: &Path,
    line: &str,
    disturbances: u64,
    disturbed: impl FnMut(Running) -> Running,
) {
    takes_effect_once_by(RULES, shell, folder, line, disturbances, disturbed);
}

/// The same with servers that are started so.
pub(crate) fn takes_effect_once_in(
    start: fn(&Path, &str) -> Running,
    folder: &Path,
    line: &str,
    disturbances: u64,
    disturbed: impl FnMut(Running) -> Running,
) {
    takes_effect_once_by(RULES, start, folder, line, disturbances, disturbed);
}

/// The same by these rules.
fn takes_effect_once_by(
    rules: &str,
    start: fn(&Path, &str) -> Running,
    folder: &Path,
    line: &str,
    disturbances: u64,
    mut disturbed: impl FnMut(Running) -> Running,
) {
    const AGENTS: u64 = 20;
    fs::write(folder.join("rules.toml"), rules).expect("a folder of our own");
    let place = Arc::new(Mutex::new(String::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let acknowledged: Arc<[AtomicU64]> = (0..AGENTS).map(|_| AtomicU64::new(0)).collect();
    let mut running = start(folder, line);
    *place.lock().expect("nobody panics with it") = address(&running);
    for agent in 0..AGENTS {
        let line = format!("PUT /agents/a{agent}");
        let here = place.lock().expect("nobody panics with it").clone();
        let declared = request(&here, &line, &[], r#"{"symbol": "A", "high": 10}"#);
        let declared = declared.expect("the server is there");
        assert_eq!(declared.0, 202, "{declared:?}");
    }
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let (place, is_over) = (place.clone(), is_over.clone());
            let acknowledged = acknowledged.clone();
            thread::spawn(move || press(client, &place, &is_over, &acknowledged))
        })
        .collect();
    for n in 0..disturbances {
        // Other moments each time, some within the start.
        thread::sleep(Duration::from_millis(100 + 137 * (n % 7)));
        running = disturbed(running);
        *place.lock().expect("nobody panics with it") = address(&running);
    }
    // Each client sends a price that fires with its tenth order, whatever time the disturbances took.
    let until = Instant::now() + PATIENCE;
    while acknowledged.iter().map(|it| it.load(Ordering::Relaxed)).sum::<u64>() < 200 {
        assert!(Instant::now() < until, "{acknowledged:?}");
        thread::sleep(Duration::from_millis(20));
    }
    is_over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("a client ends"));
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert!(ended.code == 0 && ended.out.contains("drained"), "{ended:?}");
    let running = shell(folder, line);
    let here = address(&running);
    let mut wanted = BTreeMap::new();
    for agent in 0..AGENTS {
        let told = state(&here, &format!("a{agent}"));
        let count = acknowledged[agent as usize].load(Ordering::Relaxed);
        assert_eq!(told["state"]["count"], count as f64, "{told}");
        wanted.insert(format!("a{agent}"), told["fired"].as_u64().expect("a count"));
    }
    assert!(wanted.values().sum::<u64>() > 0, "something fired");
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let found = firings(folder);
        if found == wanted {
            break;
        }
        assert!(Instant::now() < until, "{found:?}\n{wanted:?}");
        thread::sleep(Duration::from_millis(50));
    }
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
}

/// A client: orders to one agent after the other, and now and then a price that crosses or comes back.
fn press(client: u64, place: &Mutex<String>, is_over: &AtomicBool, acknowledged: &[AtomicU64]) {
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        n += 1;
        let agent = (n * 7 + client) % acknowledged.len() as u64;
        let line = format!("POST /agents/a{agent}/messages/order");
        until_taken(place, &line, &format!("c{client}-{n}"), "{}");
        acknowledged[agent as usize].fetch_add(1, Ordering::Relaxed);
        if n % 5 == 0 {
            let price = if n % 10 == 0 { 11 } else { 9 };
            let body = format!(r#"{{"symbol": "A", "price": {price}}}"#);
            until_taken(place, "POST /messages/tick", &format!("t{client}-{n}"), &body);
        }
    }
}

/// Sends a message until it is acknowledged, wherever the server is by then.
fn until_taken(place: &Mutex<String>, line: &str, id: &str, body: &str) {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let here = place.lock().expect("nobody panics with it").clone();
        match request(&here, line, &[&format!("Idempotency-Key: {id}")], body) {
            Some((202, _)) => return,
            Some((503 | 504 | 507, _)) | None => {}
            Some(other) => panic!("{line}: {other:?}"),
        }
        assert!(Instant::now() < until, "{line} was never taken");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The names of notifications in the log, counted by agent. A line that a kill has torn is not one.
fn firings(folder: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(folder.join("alerts.jsonl")).unwrap_or_default();
    let mut ids = BTreeSet::new();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        // By itself, or in a digest.
        let one = std::slice::from_ref(&line);
        for one in line["notifications"].as_array().map_or(one, Vec::as_slice) {
            if ids.insert(one["id"].as_str().expect("a name").to_owned()) {
                *found.entry(one["agent"].as_str().expect("a name").to_owned()).or_default() += 1;
            }
        }
    }
    found
}
