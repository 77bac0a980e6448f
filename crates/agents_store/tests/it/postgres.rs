//! The store in PostgreSQL: as the one in memory, whatever happens to its connections.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agents::{Commit, Header, Key, LoadWay, Outcome, RowWrite, StateWrite, Stored};
use agents_store::{Made, PostgresSpec, PostgresStore, Store, StoreError};
use pgtest::{Bound, Newest};
use postgres::{Private, Settings};
use tokio_postgres::{NoTls, SimpleQueryMessage};
use tpcc::Config;

use crate::account::Message;
use crate::killed::{Writer, whole};
use crate::same::as_memory;
use crate::worlds::every_world;

/// The server of all tests but those of another release. It ends with the process.
pub(crate) fn server() -> &'static Private {
    // A store has two connections, and a test four stores at most, clients of its own beside.
    static CONNECTIONS: Bound = Bound::of(100, 15);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| Private::start(&settings()).unwrap())
}

/// Nothing is analysed but where a test says so.
const PARAMETERS: [(&str, &str); 5] = [
    ("max_prepared_transactions", "4"),
    ("fsync", "off"),
    ("shared_buffers", "32MB"),
    ("max_connections", "100"),
    ("autovacuum", "off"),
];

fn settings() -> Settings {
    let parameters = PARAMETERS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Settings { parameters, ..Settings::default() }
}

pub(crate) fn config(server: &Private) -> Config {
    server.url().as_str().parse().unwrap()
}

/// A schema of its own that nobody has yet.
fn spec() -> PostgresSpec {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PostgresSpec { schema: format!("of \"test\" {number}"), ..PostgresSpec::default() }
}

/// A new store.
fn store(server: &Private) -> (PostgresStore, PostgresSpec) {
    let spec = spec();
    assert_eq!(PostgresStore::init(config(server), &spec).unwrap(), Made::New);
    (PostgresStore::open(config(server), &spec).unwrap(), spec)
}

/// A load of 1,000 keys read all rows of the partition, as long as the tables had not been analysed: the planner
/// took the partition for small.
#[test]
fn a_load_by_keys_reads_no_more_than_its_rows_in_tables_that_nobody_analysed() {
    let (store, spec) = store(server());
    let first = Store::<Vec<u8>>::open(&store, 0).unwrap();
    let state = StateWrite::Whole(Stored { cold: vec![7; 800], hot: vec![1; 9] });
    let commit = Commit::<Vec<u8>> {
        epoch: first.epoch,
        version: first.version,
        cursor: first.cursor,
        rows: vec![RowWrite { key: Key(0), header: Header::default(), state }],
        erased: Vec::new(),
        notifications: Vec::new(),
        delivered: Vec::new(),
        sends: Vec::new(),
        timers: BTreeMap::new(),
        dead: Vec::new(),
    };
    assert_eq!(store.commit(0, &commit).unwrap(), Outcome::Written);
    let schema = format!("\"{}\"", spec.schema.replace('"', "\"\""));
    for (table, columns) in [("hot", "header, hot"), ("cold", "cold")] {
        ask(&format!(
            "insert into {schema}.{table} select partition, key + n, {columns} \
             from {schema}.{table}, generate_series(1, 19999) n"
        ));
    }
    let fetched = || {
        let name = spec.schema.replace('\'', "''");
        let sql = format!(
            "select coalesce(sum(idx_tup_fetch), 0)::int8 from pg_stat_user_tables \
             where schemaname = '{name}' and relname in ('hot', 'cold')"
        );
        ask(&sql)[0].parse::<u64>().unwrap()
    };
    let keys: Vec<Key> = (0..1_000).map(|n| Key(n * 20)).collect();
    let rows = Store::<Vec<u8>>::load(&store, 0, &keys, LoadWay::Keys).unwrap();
    assert!(rows.iter().map(|(key, _)| *key).eq(keys.iter().copied()));
    assert!(rows.iter().all(|(_, row)| row.state.as_ref().is_some_and(|it| it.cold.len() == 800)));
    // A session tells its counts at its end at the latest.
    drop(store);
    let until = Instant::now() + Duration::from_secs(30);
    while fetched() < 2_000 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!((2_000..2_100).contains(&fetched()), "{} rows were read", fetched());
}

/// The rows of a statement, columns joined by a bar, asked through another connection.
pub(crate) fn ask(sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = server().url();
        let (client, connection) = tokio_postgres::connect(url.as_str(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let messages = client.simple_query(sql).await.unwrap();
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("null").to_owned());
                Some(columns.collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        messages.into_iter().filter_map(row).collect()
    })
}

fn answers_as_memory(server: &Private) {
    let (first, spec) = store(server);
    let open = || Box::new(PostgresStore::open(config(server), &spec).unwrap());
    drop(first);
    for seed in 0..30 {
        as_memory(seed, 60, open(), |_| open());
    }
}

#[test]
fn the_machines_postgresql_answers_as_memory() {
    answers_as_memory(server());
}

#[test]
fn postgresql_18_answers_as_memory() {
    let newest = Newest::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let server = newest.start(&PARAMETERS);
    assert_eq!(server.programs().major(), 18);
    answers_as_memory(&server);
    server.stop().unwrap();
}

#[test]
fn the_worlds_hold_over_postgresql() {
    let (first, spec) = store(server());
    drop(first);
    every_world(40, "worlds_hold_over_postgresql", || {
        Box::new(PostgresStore::open(config(server()), &spec).unwrap())
    });
}

#[test]
fn tables_are_made_once_and_missing_ones_are_told_with_the_way_out() {
    let spec = spec();
    let missing = PostgresStore::open(config(server()), &spec).unwrap_err();
    assert!(matches!(missing, StoreError::Unusable { .. }), "{missing:?}");
    assert!(missing.to_string().contains("sekisho agents init"), "{missing}");
    assert_eq!(PostgresStore::init(config(server()), &spec).unwrap(), Made::New);
    assert_eq!(PostgresStore::init(config(server()), &spec).unwrap(), Made::Before);
    let store = PostgresStore::open(config(server()), &spec).unwrap();
    assert!(Store::<Message>::partitions(&store).unwrap().is_empty());
}

#[test]
fn tables_of_a_later_version_are_refused() {
    let (store, spec) = store(server());
    drop(store);
    let schema = spec.schema.replace('"', "\"\"");
    ask(&format!("update \"{schema}\".format set version = 2"));
    let later = PostgresStore::open(config(server()), &spec).unwrap_err().to_string();
    assert!(later.contains("format 2, and this version knows format 1"), "{later}");
}

#[test]
fn an_owner_that_stands_still_in_a_transaction_is_let_go() {
    let (store, spec) = store(server());
    Store::<Message>::open(&store, 7).unwrap();
    let schema = spec.schema.replace('"', "\"\"");
    let url = server().url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // As a suspended process would: the row is locked, and nothing more comes.
    let held = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url.as_str(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let lock = format!(
            "set idle_in_transaction_session_timeout = 1000; begin; \
             update \"{schema}\".partitions set epoch = epoch where partition = 7"
        );
        client.batch_execute(&lock).await.unwrap();
        client
    });
    let spec = PostgresSpec { patience: Duration::from_secs(10), ..spec };
    let second = PostgresStore::open(config(server()), &spec).unwrap();
    assert_eq!(Store::<Message>::open(&second, 7).unwrap().epoch.0, 2);
    drop(held);
}

#[test]
fn a_session_that_is_ended_in_a_commit_loses_nothing_and_doubles_nothing() {
    let (first, spec) = store(server());
    drop(first);
    let mut victim = config(server());
    victim.application_name("victim");
    let store = PostgresStore::open(victim, &spec).unwrap();
    let done = AtomicBool::new(false);
    let (version, log_end, unknown) = std::thread::scope(|scope| {
        // Ends a session that has written and not yet committed, then lets some transactions go through.
        scope.spawn(|| {
            let end = "do $$ begin for n in 1..100 loop \
                       perform pg_terminate_backend(pid) from pg_stat_activity \
                       where application_name = 'victim' and backend_xid is not null and n % 5 = 0; \
                       perform pg_sleep(0.001); perform pg_stat_clear_snapshot(); end loop; end $$";
            while !done.load(Ordering::Relaxed) {
                ask(end);
            }
        });
        let mut writer = Writer::open(&store);
        let until = Instant::now() + Duration::from_secs(120);
        let worked = catch_unwind(AssertUnwindSafe(|| {
            while writer.unknown < 20 && Instant::now() < until {
                writer.append();
                writer.commit();
            }
        }));
        done.store(true, Ordering::Relaxed);
        worked.unwrap_or_else(|panic| resume_unwind(panic));
        (writer.version, writer.log_end, writer.unknown)
    });
    assert!(unknown >= 20, "only {unknown} calls had no answer, of {version} commits");
    // By sessions that nobody ends: the last end of a victim may not have reached it yet.
    let reader = PostgresStore::open(config(server()), &spec).unwrap();
    assert_eq!(whole(&reader), (version, log_end));
}

#[test]
fn a_batch_that_the_database_refuses_is_rejected_and_the_next_one_is_written() {
    let (store, spec) = store(server());
    let schema = spec.schema.replace('"', "\"\"");
    let mut writer = Writer::open(&store);
    writer.append();
    // A rule of the user's own about the rows.
    ask(&format!("alter table \"{schema}\".cold add constraint small check (length(cold) < 10)"));
    let refused = catch_unwind(AssertUnwindSafe(|| writer.commit())).unwrap_err();
    let said = refused.downcast_ref::<String>().unwrap();
    assert!(
        said.contains("Rejected") && said.contains("small") && said.contains("23514"),
        "{said}"
    );
    assert_eq!(writer.version, 0);
    ask(&format!("alter table \"{schema}\".cold drop constraint small"));
    writer.commit();
    assert_eq!(whole(&store).0, 1);
}
