//! `agents backup` and `agents restore` as a user types them: under load, after kill -9, elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agents_asked::flat;
use crate::agents_database::made;
use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell, until};
use crate::serving_agents::{RULES, address, request, state};

const SERVE: &str = "sekisho agents serve rules.toml --listen 127.0.0.1:0";

fn asked(folder: &Path, words: &str, address: &str) -> Ended {
    let words: Vec<&str> = words.split(' ').collect();
    let url = format!("http://{address}");
    sekisho(folder, &[&["agents"], &words[..], &["--url", &url]].concat())
}

/// The positions of what is acknowledged: orders, and prices that cross or come back in turn.
#[derive(Default)]
struct Acknowledged {
    orders: Mutex<Vec<u64>>,
    ticks: AtomicUsize,
}

impl Acknowledged {
    fn orders(&self) -> usize {
        self.orders.lock().expect("nobody panics with it").len()
    }

    /// The orders up to a position.
    fn upto(&self, position: u64) -> usize {
        let orders = self.orders.lock().expect("nobody panics with it");
        orders.iter().filter(|at| **at <= position).count()
    }

    fn press(&self, address: &str, is_over: &AtomicBool) {
        for n in 0.. {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let told = request(address, "POST /agents/alice/messages/order", &[], "{}");
            let Some((202, body)) = told else { return };
            let told: Value = serde_json::from_str(&body).expect("it is JSON");
            let position = told["position"].as_u64().expect("a position");
            self.orders.lock().expect("nobody panics with it").push(position);
            let price = if n % 2 == 0 { 11 } else { 9 };
            let tick = format!(r#"{{"symbol": "A", "price": {price}}}"#);
            if matches!(request(address, "POST /messages/tick", &[], &tick), Some((202, _))) {
                self.ticks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The notifications of a log, by their names: what each says. The moment is left out: a message that was accepted before a
/// backup and had not taken effect fires again behind it, under the same name and at another time.
fn notified(folder: &Path) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(folder.join("alerts.jsonl")).unwrap_or_default();
    // A kill may have torn the last one.
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let untimed = |mut it: Value| {
        assert!(it["at_ns"].is_u64(), "{it}");
        it.as_object_mut().expect("an object").remove("at_ns");
        (it["id"].as_str().expect("a name").to_owned(), it)
    };
    whole.map(untimed).collect()
}

/// A backup while clients write; then the server is killed, and another one goes on from the backup in another
/// folder. Its counter is what was acknowledged up to the position that the backup tells, and each notification that
/// it sends is one that the first server has sent, under the same name, with the same content.
#[test]
fn a_backup_under_load_has_what_was_acknowledged_up_to_its_moment() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let running = shell(&folder, SERVE);
    let here = address(&running);
    let declared = r#"{"symbol": "A", "high": 10}"#;
    assert_eq!(request(&here, "PUT /agents/alice", &[], declared).unwrap().0, 202);
    let (acknowledged, is_over) = (Acknowledged::default(), AtomicBool::new(false));
    let told = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..3).map(|_| scope.spawn(|| acknowledged.press(&here, &is_over))).collect();
        until("orders come", || acknowledged.orders() > 60);
        // What a process that was killed has left.
        fs::write(folder.join("agents.backup.part"), "sekisho agents backup, format 1\nto")
            .unwrap();
        let before = acknowledged.orders();
        let told = asked(&folder, "backup agents.backup --json", &here);
        let told = told.object("agents-backup");
        let (position, after) = (position(&told), acknowledged.orders());
        until("orders go on", || acknowledged.orders() > after + 30);
        assert!(acknowledged.upto(position) >= before, "what was acknowledged before is in it");
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("a client ends"));
        told
    });
    // The first server sends all that it has to: the second one cannot have more.
    let fired = state(&here, "alice")["fired"].as_u64().unwrap();
    until("all are sent", || notified(&folder).len() as u64 >= fired);
    // Dropping kills with signal 9.
    drop(running);
    assert!(!folder.join("agents.backup.part").exists());
    let wanted = acknowledged.upto(position(&told));
    assert!(wanted < acknowledged.orders(), "it was made under load");

    let other = scratch.join("elsewhere");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("rules.toml"), RULES).unwrap();
    let words = ["agents", "restore", "../agents.backup", "--json"];
    let dry = sekisho(&other, &[&words[..], &["--dry-run"]].concat()).object("agents-restore");
    assert_eq!((&dry["is_dry"], position(&dry)), (&true.into(), position(&told)), "{dry}");
    assert!(!other.join("agents.store").exists(), "nothing is made");
    let made = sekisho(&other, &words).object("agents-restore");
    assert_eq!((&made["is_dry"], &made["agents"]), (&false.into(), &1.into()), "{made}");
    let running = shell(&other, SERVE);
    let here = address(&running);
    until("the orders have taken effect", || {
        state(&here, "alice")["state"]["count"].as_f64() >= Some(wanted as f64)
    });
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert!(ended.code == 0 && ended.out.contains("drained"), "{ended:?}");
    let running = shell(&other, SERVE);
    let told = state(&address(&running), "alice");
    assert_eq!(told["state"]["count"], wanted as f64, "{told}");
    let (first, second) = (notified(&folder), notified(&other));
    for (name, content) in second {
        assert_eq!(first.get(&name), Some(&content), "the first server has not sent it");
    }
    let fired = told["fired"].as_u64().unwrap();
    assert!(fired > 0 && first.len() as u64 > fired, "{fired}: {first:?}");
}

fn position(told: &Value) -> u64 {
    told["partitions"][0]["position"].as_u64().expect("a position")
}

/// What waits is in a backup: a timer's alert that was not due, a notification that no destination took.
#[test]
fn what_a_destination_did_not_take_is_in_a_backup_too() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let rules = RULES.replace("log = \"alerts.jsonl\"", "webhook = \"http://127.0.0.1:9/hook\"");
    fs::write(folder.join("rules.toml"), rules).unwrap();
    let running = shell(&folder, SERVE);
    let here = address(&running);
    let declared = r#"{"symbol": "A", "high": 10}"#;
    assert_eq!(request(&here, "PUT /agents/alice", &[], declared).unwrap().0, 202);
    let tick = r#"{"symbol": "A", "price": 11}"#;
    assert_eq!(request(&here, "POST /messages/tick", &[], tick).unwrap().0, 202);
    let kept = |here: &str| -> Vec<String> {
        let (_, text) = request(here, "GET /undelivered", &[], "").unwrap();
        let told: Value = serde_json::from_str(&text).unwrap();
        let all = told["notifications"].as_array().unwrap();
        all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    until("it is kept", || kept(&here).len() == 1);
    let before = kept(&here);
    let told = asked(&folder, "backup agents.backup", &here);
    assert_eq!((told.code, &*told.err), (0, ""), "{told:?}");
    assert!(told.out.contains("and read again: it is whole"), "{told:?}");
    assert!(told.out.lines().all(|line| line.chars().count() <= 80), "{told:?}");
    // There already: it is left as it is.
    let again = asked(&folder, "backup agents.backup", &here);
    assert!(again.code == 2 && again.err.contains("is there already"), "{again:?}");
    drop(running);
    let restored = ["agents", "restore", "agents.backup", "--store", "restored"];
    let made = sekisho(&folder, &restored);
    assert_eq!((made.code, &*made.err), (0, ""), "{made:?}");
    assert!(
        flat(&made.out).contains("serve rules.toml --store restored --partitions 1"),
        "{made:?}"
    );
    let running = shell(&folder, &format!("{SERVE} --store restored"));
    assert_eq!(kept(&address(&running)), before, "under the same name");
    // A store that is there is left alone; a backup that is torn is told with its place.
    let again = sekisho(&folder, &restored);
    assert!(
        again.code == 2 && flat(&again.err).contains("name a new or an empty one"),
        "{again:?}"
    );
    let bytes = fs::read(folder.join("agents.backup")).unwrap();
    fs::write(folder.join("torn"), &bytes[..bytes.len() - 1]).unwrap();
    let torn = sekisho(&folder, &["agents", "restore", "torn", "--store", "other"]);
    let told = flat(&torn.err);
    assert!(torn.code == 2 && told.contains("the backup torn, byte "), "{torn:?}");
    assert!(told.contains("it is torn") && told.contains("take another backup"), "{torn:?}");
    assert!(!folder.join("other").exists());
}

/// The way of PostgreSQL that docs/agents-rules.md tells: a dump of the schema, of one moment, while the server
/// goes on; and the schema in another database.
#[test]
fn agents_in_postgresql_are_backed_up_by_its_own_means() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let url = made("agents_backed_up");
    let running = shell(&folder, &format!("{SERVE} --db '{url}'"));
    let here = address(&running);
    assert_eq!(request(&here, "PUT /agents/alice", &[], "{}").unwrap().0, 202);
    for _ in 0..5 {
        assert_eq!(request(&here, "POST /agents/alice/messages/order", &[], "{}").unwrap().0, 202);
    }
    let told = asked(&folder, "backup agents.backup", &here);
    assert!(told.code == 2 && flat(&told.err).contains("pg_dump --schema="), "{told:?}");
    assert!(!folder.join("agents.backup").exists() && !folder.join("agents.backup.part").exists());
    let docs = include_str!("../../../../docs/agents-rules.md");
    let run = |line: &str, database: &str| {
        assert!(docs.contains(line), "the docs say it otherwise: {line}");
        let mut command = Command::new("sh");
        let ended = command.args(["-c", line]).env("DATABASE_URL", database).current_dir(&folder);
        let ended = ended.output().expect("a shell");
        assert!(ended.status.success(), "{line}: {ended:?}");
    };
    run(
        "pg_dump --schema=sekisho_agents --format=custom --file=agents.dump \"$DATABASE_URL\"",
        &url,
    );
    // What comes behind is not in it.
    assert_eq!(request(&here, "POST /agents/alice/messages/order", &[], "{}").unwrap().0, 202);
    drop(running);
    let other = crate::tpcc::database("agents_restored");
    run(
        "pg_restore --exit-on-error --single-transaction --dbname=\"$DATABASE_URL\" agents.dump",
        &other,
    );
    let running = shell(&folder, &format!("{SERVE} --db '{other}' --store elsewhere"));
    let here = address(&running);
    let patience = Instant::now() + PATIENCE;
    loop {
        let told = request(&here, "GET /agents/alice", &[], "").unwrap();
        if told.0 == 200 && told.1.contains("\"count\":5.0") {
            break;
        }
        assert!(Instant::now() < patience, "{told:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
