//! What was answered is there, and each batch whole or not at all: after kill -9 of the process at every
//! step, and after the end of the database's session in the middle of a commit.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agents::{
    Append, Audience, Commit, Cursor, Destination, Entry, Envelope, Epoch, Header, Key, LoadWay,
    Notification, NotificationKey, Outcome, Priority, RowWrite, Seq, Snapshot, StateWrite, Stored,
    Timer, TimerName,
};
use agents_store::{Embedded, EmbeddedSpec, Store, StoreError};
use gate::Time;
use rand::RngExt;
use workload::stream;

use crate::places::Scratch;

const FOLDER: &str = "ASTORE_FOLDER";
const PARTITION: u32 = 3;
const KEYS: u64 = 50;
/// Messages of an append, and notifications of a commit.
const EACH: u64 = 3;

type Any = dyn Store<Vec<u8>>;

/// A partition that writes what an observer can check: each batch writes its number everywhere.
pub(crate) struct Writer<'a> {
    store: &'a Any,
    epoch: Epoch,
    pub(crate) version: u64,
    pub(crate) log_end: u64,
    cursor: Cursor,
    /// Calls whose end nobody knew.
    pub(crate) unknown: u64,
    /// Times that a call is made before the test fails.
    attempts: u32,
    /// The cause of the last one.
    failed: Option<StoreError>,
}

const ATTEMPTS: u32 = 100;

impl<'a> Writer<'a> {
    pub(crate) fn open(store: &'a Any) -> Writer<'a> {
        // A session may be ended here too.
        let opened = (0..100).find_map(|_| match store.open(PARTITION) {
            Err(StoreError::Unavailable { .. }) => None,
            end => Some(end.unwrap()),
        });
        let Snapshot { epoch, version, log_end, cursor, .. } = opened.unwrap();
        let (attempts, failed) = (ATTEMPTS, None);
        Writer { store, epoch, version, log_end: log_end.0, cursor, unknown: 0, attempts, failed }
    }

    /// Appends, and answers when that is durable.
    pub(crate) fn append(&mut self) {
        let entries = (self.log_end + 1..=self.log_end + EACH).map(|n| {
            let envelope = Envelope {
                id: None,
                sender: 1,
                to: Destination::All,
                audience: Audience::Everyone,
                priority: Priority::Normal,
                message: n.to_le_bytes().to_vec(),
            };
            Entry { seq: Seq(n), at: Time::from_nanos(n), envelope }
        });
        let after = Seq(self.log_end);
        let append = Append {
            epoch: self.epoch,
            after,
            entries: entries.collect(),
            received: BTreeMap::new(),
        };
        let end = Seq(self.log_end + EACH);
        self.until_known(
            |store| store.append(PARTITION, &append),
            |outcome| matches!(outcome, Outcome::Conflict { log_end, .. } if *log_end == end),
        );
        self.log_end = end.0;
    }

    /// Commits, and answers when that is durable.
    pub(crate) fn commit(&mut self) {
        let commit = self.batch();
        let after = self.version + 1;
        self.until_known(
            |store| store.commit(PARTITION, &commit),
            |outcome| matches!(outcome, Outcome::Conflict { version, .. } if *version == after),
        );
        self.version = after;
        self.cursor = commit.cursor;
    }

    /// Appends once; the cause why nobody knows whether it took place.
    pub(crate) fn try_append(&mut self) -> Option<StoreError> {
        let before = (self.log_end, self.unknown);
        self.once(|writer| writer.append(), |writer| writer.log_end = before.0)
    }

    /// Commits once; the same.
    pub(crate) fn try_commit(&mut self) -> Option<StoreError> {
        let before = (self.version, self.cursor.clone());
        self.once(|writer| writer.commit(), |writer| (writer.version, writer.cursor) = before)
    }

    fn once(
        &mut self,
        write: impl FnOnce(&mut Self),
        undo: impl FnOnce(&mut Self),
    ) -> Option<StoreError> {
        self.attempts = 1;
        write(self);
        self.attempts = ATTEMPTS;
        let error = self.failed.take();
        if error.is_some() {
            undo(self);
        }
        error
    }

    fn batch(&self) -> Commit<Vec<u8>> {
        let number = self.version + 1;
        let content = [number.to_le_bytes(), self.log_end.to_le_bytes()].concat();
        let state = || match number % 3 {
            0 => StateWrite::Hot(content.clone()),
            _ => StateWrite::Whole(Stored { cold: content.repeat(50), hot: content.clone() }),
        };
        let header = Header { fired: number, ..Header::default() };
        let rows =
            (0..KEYS).map(|key| RowWrite { key: Key(key), header: header.clone(), state: state() });
        let mut cursor = self.cursor.clone();
        let delivered =
            (cursor.notified + 1 - EACH.min(cursor.notified)..=cursor.notified).collect();
        let notifications = (0..EACH).map(|n| {
            cursor.notified += 1;
            let (life, agent) = (Seq(1), Key(n));
            let key = NotificationKey { rule: 1, version: 1, agent, life, firing: number };
            Notification { n: cursor.notified, key, payload: content.clone() }
        });
        let notifications = notifications.collect();
        cursor.low = Seq(self.log_end);
        let due = Time::from_nanos(number);
        let timers = [((Key(1), TimerName(1)), Some(Timer { due, every: None }))].into();
        Commit {
            epoch: self.epoch,
            version: self.version,
            cursor,
            rows: rows.collect(),
            erased: Vec::new(),
            notifications,
            delivered,
            sends: Vec::new(),
            timers,
            dead: Vec::new(),
        }
    }

    /// As the core does: what has no answer is asked again, and a conflict with itself is its answer.
    fn until_known(
        &mut self,
        ask: impl Fn(&Any) -> Result<Outcome, StoreError>,
        own: impl Fn(&Outcome) -> bool,
    ) {
        for _ in 0..self.attempts {
            match ask(self.store) {
                Ok(Outcome::Written) => return,
                Ok(outcome) if self.unknown > 0 && own(&outcome) => return,
                Ok(other) => panic!("{other:?}"),
                Err(error @ (StoreError::Unavailable { .. } | StoreError::Full { .. })) => {
                    println!("{error}");
                    self.unknown += 1;
                    self.failed = Some(error);
                }
                Err(error) => panic!("{error}"),
            }
        }
        if self.attempts < ATTEMPTS {
            return;
        }
        panic!("the store does not come back");
    }
}

/// All that a partition holds is of one batch; its number, and the end of the log.
pub(crate) fn whole(store: &Any) -> (u64, u64) {
    let found = store.open(PARTITION).unwrap();
    let (version, low) = (found.version, found.cursor.low.0);
    if version > 0 {
        let content = [version.to_le_bytes(), low.to_le_bytes()].concat();
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        for (key, row) in store.load(PARTITION, &keys, LoadWay::Range).unwrap() {
            let state = row.state.unwrap();
            assert_eq!((row.header.fired, &state.hot), (version, &content), "{key:?}");
            // The cold part was written by this batch, or by the one before.
            let written = u64::from_le_bytes(state.cold[..8].try_into().unwrap());
            assert_eq!(written, if version % 3 == 0 { version - 1 } else { version }, "{key:?}");
        }
        let outbox = store.outbox(PARTITION, 0, 100).unwrap();
        assert_eq!(outbox.len() as u64, EACH);
        assert!(outbox.iter().all(|one| one.payload == content));
        assert_eq!(found.timers[0].2.due, Time::from_nanos(version));
    }
    let log = store.log(PARTITION, Seq(0), usize::MAX).unwrap();
    let numbers = log.entries.iter().map(|entry| entry.envelope.message.clone());
    assert!(numbers.eq((1..=found.log_end.0).map(|n| n.to_le_bytes().to_vec())));
    (version, found.log_end.0)
}

/// The process that is killed: this test again, told where by the environment. Without that it has nothing
/// to write.
#[test]
fn the_writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Embedded::open(Path::new(&folder), EmbeddedSpec::default()).unwrap();
    println!("step open");
    let mut writer = Writer::open(&store);
    loop {
        println!("step appending");
        writer.append();
        println!("step appended {}", writer.log_end);
        writer.commit();
        println!("step committed {}", writer.version);
    }
}

/// The steps of a writer, as its parent reads them.
struct Steps {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Steps {
    fn start(folder: &Path) -> Steps {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::the_writer", "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Steps { child, lines }
    }

    /// The next step; `None` at the end.
    fn next(&mut self) -> Option<Vec<String>> {
        let step = self.lines.by_ref().map(Result::unwrap).find(|line| line.contains("step "))?;
        let (_, step) = step.split_once("step ").unwrap();
        Some(step.split(' ').map(str::to_owned).collect())
    }
}

/// Rounds: each kills a writer after another number of steps, so that every step is met, and then a
/// moment later by chance, so that every part of a step can be.
const ROUNDS: u64 = 40;

#[test]
fn what_was_answered_outlives_kill_9_at_every_step() {
    let scratch = Scratch::new();
    let chance = &mut stream(1, 0);
    let (mut version, mut log_end) = (0, 0);
    for round in 0..ROUNDS {
        let mut steps = Steps::start(scratch.path());
        let mut note = |step: &[String]| match step {
            [what, n] if what == "appended" => log_end = n.parse().unwrap(),
            [what, n] if what == "committed" => version = n.parse().unwrap(),
            _ => {}
        };
        for _ in 0..round % 13 {
            note(&steps.next().unwrap());
        }
        std::thread::sleep(Duration::from_micros(chance.random_range(0..6_000)));
        steps.child.kill().unwrap();
        steps.child.wait().unwrap();
        while let Some(step) = steps.next() {
            note(&step);
        }
        let store = Embedded::open(scratch.path(), EmbeddedSpec::default()).unwrap();
        let (found, end) = whole(&store);
        assert!((version..=version + 1).contains(&found), "round {round}: {found}, {version}");
        assert!((log_end..=log_end + EACH).contains(&end), "round {round}: {end}, {log_end}");
        (version, log_end) = (found, end);
    }
    assert!(version > ROUNDS, "there was little to lose: {version}");
}
