//! The access log: a line for each job, whatever became of it, and a file that can be renamed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use monitor::{AccessLog, Config, Mode, Monitor};
use pgwire::startup::Version;
use serde_json::Value;

use super::{Gate, Raw, database, trusting};

/// A file of a test, which is gone with it.
struct Paper(PathBuf);

impl Paper {
    fn new(name: &str) -> Paper {
        let file = format!("sekisho-access-{}-{name}.log", std::process::id());
        Paper(std::env::temp_dir().join(file))
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// The same, with an access log.
fn into(path: &Path, config: Config) -> Config {
    Config { access_log: Some(AccessLog::File(path.to_owned())), ..config }
}

fn logging(config: Config, path: &Path) -> Gate {
    let monitor = Monitor::bind(into(path, config)).unwrap().drain_on_signals().unwrap();
    let handle = monitor.handle();
    Gate { handle, thread: Some(std::thread::spawn(|| monitor.run().unwrap())) }
}

/// Outcome, reason and number of queries of each line.
fn outcomes(lines: &[Value]) -> Vec<(&str, Option<&str>, u64)> {
    let of = |line: &'_ Value, key: &str| line[key].as_u64().unwrap();
    lines
        .iter()
        .map(|line| {
            (line["outcome"].as_str().unwrap(), line["reason"].as_str(), of(line, "queries"))
        })
        .collect()
}

#[test]
fn a_transaction_is_a_line_whatever_becomes_of_it() {
    let paper = Paper::new("transactions");
    let mut database = database(Mode::Transaction, 1);
    database.gate.room = Some(1);
    let gate = logging(trusting(database), &paper.0);
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    let [holder, second, third] = &mut clients[..] else { unreachable!("three are made") };
    // Three queries in one transaction are one line; an error of the server is served, too.
    for (text, answer) in
        [("begin", "ZT"), ("select 1", "ZT"), ("commit", "ZI"), ("nonsense", "ZI")]
    {
        holder.query(text);
        assert_eq!(holder.answer().last().unwrap(), answer);
    }
    holder.query("begin");
    assert_eq!(holder.answer(), ["BEGIN", "ZT"]);
    // One may wait, and leaves; the next is refused while it waits.
    second.query("select 'waits'");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    third.query("select 'refused'");
    assert!(third.answer()[0].starts_with("ERROR 53300"));
    drop(clients.remove(1));
    gate.until("it has left", |stats| stats.pools[0].counters.reneged == 1);
    // One that waits gets its turn behind the transaction, and one leaves in the midst of its own.
    clients[1].query("select 'served'");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    std::thread::sleep(Duration::from_millis(50));
    clients[0].query("commit");
    assert_eq!(clients[0].answer(), ["COMMIT", "ZI"]);
    assert_eq!(clients[1].answer().last().unwrap(), "ZI");
    clients[1].query("begin");
    assert_eq!(clients[1].answer(), ["BEGIN", "ZT"]);
    drop(clients.remove(1));
    gate.until("it has left", |stats| stats.clients == 1);
    let finished = gate.end();
    assert_eq!(finished.stats.log_lost, 0);
    let lines = paper.lines();
    assert_eq!(
        outcomes(&lines),
        [
            ("served", None, 3),
            ("served", None, 1),
            ("refused", Some("queue-full"), 0),
            ("reneged", None, 0),
            ("served", None, 2),
            ("served", None, 1),
            ("client-lost", None, 1),
        ],
        "{lines:#?}"
    );
    let first = &lines[0];
    assert_eq!((&first["user"], &first["client"]), (&"sekisho".into(), &"127.0.0.1".into()));
    assert!(first["received_bytes"].as_u64().unwrap() > 20, "{first}");
    assert!(first["sent_bytes"].as_u64().unwrap() > 20, "{first}");
    let port = super::server().port();
    assert_eq!(first["server"], format!("127.0.0.1:{port}"));
    let [wait, hold, response] =
        ["wait_s", "hold_s", "response_s"].map(|key| lines[5][key].as_f64().unwrap());
    assert!(wait >= 0.05 && (wait + hold - response).abs() < 2e-6, "{}", lines[5]);
    for unserved in &lines[2..4] {
        assert!(unserved["wait_s"].is_null() && unserved["server"].is_null(), "{unserved}");
    }
    // What the lines say is what the counters say.
    let counters = &finished.stats.pools[0].counters;
    let queries: u64 = lines.iter().map(|line| line["queries"].as_u64().unwrap()).sum();
    assert!(counters.query_count >= queries, "{counters:?}");
    assert_eq!((counters.refused_queue_full, counters.reneged), (1, 1));
}

#[test]
fn a_session_is_a_line_in_session_mode() {
    let paper = Paper::new("sessions");
    let gate = logging(trusting(database(Mode::Session, 1)), &paper.0);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    for _ in 0..4 {
        client.query("select 1");
        assert_eq!(client.answer().last().unwrap(), "ZI");
    }
    drop(client);
    gate.until("it has left", |stats| stats.clients == 0);
    gate.end();
    assert_eq!(outcomes(&paper.lines()), [("served", None, 4)]);
}

/// logrotate renames the file, and tells by SIGUSR1.
#[test]
fn a_file_that_was_renamed_is_opened_anew_at_sigusr1() {
    let [paper, old] = ["renamed", "renamed-1"].map(Paper::new);
    let gate = logging(trusting(database(Mode::Transaction, 1)), &paper.0);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut ask = |times: usize, into: &Paper| {
        client.query("select 1");
        assert_eq!(client.answer().last().unwrap(), "ZI");
        let began = std::time::Instant::now();
        // A thread of its own writes the line.
        while !into.0.exists() || into.lines().len() < times {
            assert!(began.elapsed() < Duration::from_secs(20), "{times}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    ask(1, &paper);
    std::fs::rename(&paper.0, &old.0).unwrap();
    ask(2, &old);
    signal_hook::low_level::raise(signal_hook::consts::SIGUSR1).unwrap();
    ask(1, &paper);
    assert_eq!((old.lines().len(), paper.lines().len()), (2, 1));
    drop(client);
    gate.end();
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let config = || trusting(database(Mode::Transaction, 1));
    let nowhere = Path::new("/no/such/folder/a.log");
    let error = Monitor::bind(into(nowhere, config())).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("/no/such/folder/a.log") && said.contains("that exists"), "{said}");
}

/// The story: a file that was read anew and named another log was taken but for that, and nobody was told.
#[test]
fn a_reload_begins_moves_and_ends_the_log() {
    let [first, second] = ["first", "second"].map(Paper::new);
    let config = || trusting(database(Mode::Transaction, 1));
    let gate = Gate::new(config());
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut ask = || {
        client.query("select 1");
        assert_eq!(client.answer().last().unwrap(), "ZI");
    };
    ask();
    assert_eq!(gate.handle.reload(into(&first.0, config())).unwrap().restart, [""; 0]);
    ask();
    // All else of it would do, and it is not taken in part.
    let nowhere = gate.handle.reload(into(Path::new("/no/such/folder/a.log"), config()));
    assert!(nowhere.unwrap_err().to_string().contains("/no/such/folder/a.log"));
    ask();
    gate.handle.reload(into(&second.0, config())).unwrap();
    ask();
    gate.handle.reload(config()).unwrap();
    ask();
    drop(client);
    assert_eq!(gate.end().stats.log_lost, 0);
    assert_eq!(
        (first.lines().len(), second.lines().len()),
        (2, 1),
        "the last lines are waited for"
    );
}

/// The story: every reload opened the log anew, also where it was the same, so that another number of slots was refused
/// where the log's folder was gone.
#[test]
fn a_log_that_stays_is_not_opened_again() {
    let folder = std::env::temp_dir().join(format!("sekisho-access-{}-gone", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("a.log");
    let slots = |slots| into(&file, trusting(database(Mode::Transaction, slots)));
    let gate = logging(trusting(database(Mode::Transaction, 1)), &file);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("select 1");
    assert_eq!(client.answer().last().unwrap(), "ZI");
    std::fs::remove_dir_all(&folder).unwrap();
    gate.handle.reload(slots(3)).unwrap();
    assert_eq!(gate.stats().pools[0].slots, 3);
    drop(client);
    gate.end();
}

/// The source of configurations takes its time, and meanwhile somebody else moves the log away from where it says.
#[test]
fn a_log_that_is_moved_while_the_configuration_is_read_is_moved_back() {
    let [first, second] = ["read", "meanwhile"].map(Paper::new);
    let config = || {
        let mut config = trusting(database(Mode::Transaction, 1));
        config.admin.users = vec!["sekisho".to_owned()];
        config
    };
    let monitor = Monitor::bind(into(&first.0, config())).unwrap();
    let handle = monitor.handle();
    let (mover, at, away) = (handle.clone(), first.0.clone(), second.0.clone());
    let reads = Arc::new(AtomicU32::new(0));
    let read = Arc::clone(&reads);
    let monitor = monitor.reload_from(move || {
        if read.fetch_add(1, Ordering::Relaxed) == 0 {
            mover.reload(into(&away, config())).unwrap();
        }
        Ok(into(&at, config()))
    });
    let monitor = monitor.unwrap();
    let gate = Gate { handle, thread: Some(std::thread::spawn(|| monitor.run().unwrap())) };
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    console.query("RELOAD");
    assert_eq!(console.answer(), ["RELOAD", "ZI"]);
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("select 1");
    assert_eq!(client.answer().last().unwrap(), "ZI");
    drop((client, console));
    gate.end();
    assert_eq!((first.lines().len(), second.lines().len()), (1, 0));
}
