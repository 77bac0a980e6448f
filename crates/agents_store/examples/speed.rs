//! The time that a store takes for an agent: loads and commits of batches, so that its cost is known beside
//! the core's.
//!
//! `cargo run --release -p agents_store --example speed -- AGENTS folder PATH | postgresql | memory`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use agents::{
    Commit, Cursor, Epoch, Header, Key, LoadWay, Notification, NotificationKey, Outcome, RowWrite,
    Seq, StateWrite, Stored,
};
use agents_store::{Embedded, EmbeddedSpec, Memory, PostgresSpec, PostgresStore, Store};
use postgres::{Private, Settings};
use rand::RngExt;
use workload::{Chance, stream};

const BATCH: usize = 1_000;
const ROUNDS: usize = 50;

type Any = dyn Store<Vec<u8>>;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let agents: u64 = args[0].parse().unwrap();
    match &args[1][..] {
        "memory" => measure(&Memory::new(), agents),
        "folder" => {
            let store = Embedded::open(Path::new(&args[2]), EmbeddedSpec::default()).unwrap();
            measure(&store, agents);
        }
        "postgresql" => {
            let server = Private::start(&Settings::default()).unwrap();
            let config: tpcc::Config = server.url().as_str().parse().unwrap();
            let spec = PostgresSpec::default();
            PostgresStore::init(config.clone(), &spec).unwrap();
            measure(&PostgresStore::open(config, &spec).unwrap(), agents);
            server.stop().unwrap();
        }
        other => panic!("`{other}` is none of memory, folder, postgresql"),
    }
}

/// A partition as its writer knows it.
struct Partition<'a> {
    store: &'a Any,
    epoch: Epoch,
    version: u64,
    cursor: Cursor,
    chance: Chance,
}

impl Partition<'_> {
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.chance.random_range(0..=u8::MAX)).collect()
    }

    fn keys(&mut self, agents: u64) -> Vec<Key> {
        let mut keys = BTreeMap::new();
        while keys.len() < BATCH {
            keys.insert(Key(self.chance.random_range(0..agents)), ());
        }
        keys.into_keys().collect()
    }

    /// A batch with fresh content, ready to be written; all of it is made before the clock runs.
    fn batch(&mut self, keys: Vec<Key>, whole: bool) -> Commit<Vec<u8>> {
        let rows = keys.into_iter().map(|key| {
            let hot = self.bytes(100);
            let state = match whole {
                true => StateWrite::Whole(Stored { cold: self.bytes(860), hot }),
                false => StateWrite::Hot(hot),
            };
            RowWrite { key, header: Header { fired: self.version, ..Header::default() }, state }
        });
        let rows = rows.collect();
        let notifications = (0..10).map(|n| {
            self.cursor.notified += 1;
            let (life, agent) = (Seq(1), Key(n));
            let key = NotificationKey { rule: 1, version: 1, agent, life, firing: self.version };
            Notification { n: self.cursor.notified, key, payload: vec![0; 60] }
        });
        let notifications = notifications.collect();
        Commit {
            epoch: self.epoch,
            version: self.version,
            cursor: self.cursor.clone(),
            rows,
            erased: Vec::new(),
            notifications,
            delivered: Vec::new(),
            sends: Vec::new(),
            timers: BTreeMap::new(),
            dead: Vec::new(),
        }
    }

    /// Seconds of a commit.
    fn commit(&mut self, keys: Vec<Key>, whole: bool) -> f64 {
        let commit = self.batch(keys, whole);
        let start = Instant::now();
        assert_eq!(self.store.commit(0, &commit).unwrap(), Outcome::Written);
        self.version += 1;
        start.elapsed().as_secs_f64()
    }

    fn load(&self, keys: &[Key], way: LoadWay) -> f64 {
        let start = Instant::now();
        let rows = self.store.load(0, keys, way).unwrap();
        assert!(rows.iter().all(|(_, row)| row.state.is_some()));
        start.elapsed().as_secs_f64()
    }
}

fn measure(store: &Any, agents: u64) {
    let first = store.open(0).unwrap();
    let (epoch, version, cursor) = (first.epoch, first.version, first.cursor);
    let mut it = Partition { store, epoch, version, cursor, chance: stream(1, 0) };
    let all: Vec<Key> = (0..agents).map(Key).collect();
    let told = |what: &str, seconds: f64, count: usize| {
        println!("{what:40} {:8.2} us an agent", seconds / count as f64 * 1e6);
    };
    let seconds = all.chunks(BATCH).map(|keys| it.commit(keys.to_vec(), true)).sum();
    told("first write, 1,000 in order", seconds, all.len());
    for round in 1..=2 {
        println!("round {round}");
        let count = ROUNDS * BATCH;
        let seconds = (0..ROUNDS).map(|_| {
            let keys = it.keys(agents);
            it.load(&keys, LoadWay::Keys)
        });
        told("load by keys, 1,000 of all", seconds.sum(), count);
        let seconds = all.chunks(BATCH).map(|keys| it.load(keys, LoadWay::Range)).sum();
        told("load by range, 1,000 neighbours", seconds, all.len());
        for (what, whole) in [("hot parts", false), ("both parts", true)] {
            let seconds = (0..ROUNDS).map(|_| {
                let keys = it.keys(agents);
                it.commit(keys, whole)
            });
            told(&format!("commit of {what}, 1,000 of all"), seconds.sum(), count);
        }
        let seconds: f64 = (0..ROUNDS).map(|_| it.commit(vec![Key(1)], false)).sum();
        println!("{:40} {:8.2} ms", "commit of one agent", seconds / ROUNDS as f64 * 1e3);
    }
    let start = Instant::now();
    let opened = store.open(0).unwrap();
    assert_eq!(opened.directory.len() as u64, agents);
    told("opening again", start.elapsed().as_secs_f64(), all.len());
}
