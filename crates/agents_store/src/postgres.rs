//! A store in a schema of its own in the user's PostgreSQL. A batch is one transaction whose statements are
//! sent at once: first the row of the partition, which fences, then arrays of rows.
//!
//! There are two sessions, so that loads do not wait for commits. One that fails is opened again at the next
//! call; the transaction that it was in may have taken place, and the fence tells.

mod rows;
mod session;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use agents::{
    Append, Commit, Cursor, Entry, Epoch, Key, LoadWay, Notification, Outcome, Outgoing, Row, Seq,
    Snapshot, Stored, TimerName,
};
use tokio_postgres::types::ToSql;
use tpcc::Config;

use self::rows::{Sent, number, of_number, of_partition, partition_of};
use self::session::{Fault, Params, Session};
pub use self::table::{Table, TableRow, TableSpec};
use crate::backup::{BackupError, BackupWriter};
use crate::codec::{self, CodecError};
use crate::content::Content;
use crate::store::{
    DeadRow, FORGOTTEN_MAX, LogPart, NOBODY, Store, StoreError, listed, remembered,
};

/// The version of the tables.
const FORMAT: i32 = 1;
/// Rows that are read at once when a partition is opened: what is in flight is bounded by them.
const CHUNK: i64 = 10_000;

/// Parameters of a store in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSpec {
    /// The schema, whose tables are this store's alone.
    pub schema: String,
    /// Time limit for a call; after it nobody knows its end.
    pub patience: Duration,
}

impl Default for PostgresSpec {
    fn default() -> PostgresSpec {
        PostgresSpec { schema: "sekisho_agents".to_owned(), patience: Duration::from_secs(30) }
    }
}

/// A store in PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    schema: String,
    place: String,
    writes: Mutex<Session>,
    reads: Mutex<Session>,
}

/// A schema after [`PostgresStore::init`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was made.
    New,
    /// It was there, as this version makes it.
    Before,
}

/// The row of a partition.
struct State {
    epoch: Epoch,
    version: u64,
    log_end: Seq,
    forgotten: Seq,
    cursor: Cursor,
}

impl State {
    fn conflict(&self) -> Outcome {
        Outcome::Conflict { epoch: self.epoch, version: self.version, log_end: self.log_end }
    }
}

const STATE: &str = "epoch, version, log_end, forgotten, cursor";

impl PostgresStore {
    /// Opens the store in this schema.
    ///
    /// # Errors
    /// The database is out of reach, has no such schema, or one of a later version.
    pub fn open(config: Config, spec: &PostgresSpec) -> Result<PostgresStore, StoreError> {
        let place = format!("the store in the schema {} of PostgreSQL", spec.schema);
        let schema = quoted(&spec.schema, &place)?;
        let session = |config| Mutex::new(Session::new(config, &place, spec.patience));
        let (writes, reads) = (session(config.clone()), session(config));
        let it = PostgresStore { schema, place, writes, reads };
        let sql = format!("select version from {}.format", it.schema);
        let found = it.read(|session| session.rows(&sql, &[]))?;
        match found.first().map(|row| row.get::<_, i32>(0)) {
            Some(FORMAT) => Ok(it),
            Some(other) => Err(it.unusable(format!(
                "its tables are of format {other}, and this version knows format {FORMAT}: use the \
                 version that made them"
            ))),
            None => Err(it.unusable("its table `format` is empty: restore a backup".to_owned())),
        }
    }

    /// The statements that make the tables of a store, schema included.
    ///
    /// # Errors
    /// The schema has a name that none can have.
    pub fn ddl(schema: &str) -> Result<String, StoreError> {
        let name = quoted(schema, "the schema")?;
        let tables = include_str!("postgres/schema.sql").replace("SCHEMA", &name);
        Ok(format!("create schema if not exists {name};\n{tables}"))
    }

    /// Makes the tables, in one transaction, if they are not there.
    ///
    /// # Errors
    /// The database is out of reach or refuses, or has tables of another version.
    pub fn init(config: Config, spec: &PostgresSpec) -> Result<Made, StoreError> {
        let ddl = PostgresStore::ddl(&spec.schema)?;
        let made = PostgresStore::look(config.clone(), spec)?;
        if made == Made::New {
            let place = format!("the schema {} of PostgreSQL", spec.schema);
            let mut session = Session::new(config, &place, spec.patience);
            let ddl = format!("begin;\n{ddl}\ncommit");
            session.script(&ddl).map_err(|fault| fault.told(&place))?;
        }
        Ok(made)
    }

    /// The answer that [`init`](PostgresStore::init) would give, without making anything.
    ///
    /// # Errors
    /// The database is out of reach, or has tables of another version.
    pub fn look(config: Config, spec: &PostgresSpec) -> Result<Made, StoreError> {
        let place = format!("the schema {} of PostgreSQL", spec.schema);
        quoted(&spec.schema, &place)?;
        let mut session = Session::new(config.clone(), &place, spec.patience);
        let there = "select 1 from information_schema.tables \
                     where table_schema = $1 and table_name = 'format'";
        let found = session.rows(there, &[&spec.schema]).map_err(|fault| fault.told(&place))?;
        match found.is_empty() {
            true => Ok(Made::New),
            false => PostgresStore::open(config, spec).map(|_| Made::Before),
        }
    }

    /// The rows of these agents by a statement for each, all of them sent before the first answer: what a server
    /// without batches can do at best. A load is faster, and asks for all in one statement.
    ///
    /// # Errors
    /// They could not be read.
    pub fn read_each(&self, partition: u32, keys: &[Key]) -> Result<Vec<(Key, Row)>, StoreError> {
        let sql = format!(
            "select key, header, hot, cold from {0}.hot left join {0}.cold using (partition, key) \
             where partition = $1 and key = $2",
            self.schema
        );
        let partition = of_partition(partition);
        let numbers: Vec<i64> = keys.iter().map(|key| rows::of_key(key.0)).collect();
        let rows = self.read(|session| session.rows_each(&sql, partition, &numbers))?;
        self.rows_of(&rows)
    }

    fn unusable(&self, cause: String) -> StoreError {
        StoreError::Unusable { place: self.place.clone(), cause }
    }

    fn damaged(&self, row: &str, error: &CodecError) -> StoreError {
        let place = format!("{}, {row}", self.place);
        StoreError::Unusable { place, cause: error.to_string() }
    }

    fn read<T>(
        &self,
        call: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        session::on(&self.reads, call).map_err(|fault| fault.told(&self.place))
    }

    fn write<T>(
        &self,
        call: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        session::on(&self.writes, call).map_err(|fault| fault.told(&self.place))
    }

    fn state_of(&self, row: &tokio_postgres::Row) -> Result<State, StoreError> {
        let cursor = codec::cursor(row.get(4));
        Ok(State {
            epoch: Epoch(of_number(row.get(0))),
            version: of_number(row.get(1)),
            log_end: Seq(of_number(row.get(2))),
            forgotten: Seq(of_number(row.get(3))),
            cursor: cursor.map_err(|error| self.damaged("a partition's row", &error))?,
        })
    }

    fn state(&self, partition: u32) -> Result<Option<State>, StoreError> {
        let sql = format!("select {STATE} from {}.partitions where partition = $1", self.schema);
        let rows = self.write(|session| session.rows(&sql, &[&of_partition(partition)]))?;
        rows.first().map(|row| self.state_of(row)).transpose()
    }

    /// A transaction whose first statement fences. The outcome is that of the whole.
    fn fenced(&self, partition: u32, batch: &[Sent<'_>]) -> Result<Outcome, StoreError> {
        match self.write(|session| session.transaction(batch)) {
            Ok(session::End::Written) => Ok(Outcome::Written),
            Ok(session::End::Refused(cause)) => Ok(Outcome::Rejected(cause)),
            Ok(session::End::Fenced) => {
                Ok(self.state(partition)?.map_or(NOBODY, |state| state.conflict()))
            }
            Err(error) => Err(error),
        }
    }

    /// The first rows after a number of a table, at most so many.
    fn queue<T>(
        &self,
        sql: &str,
        partition: u32,
        after: u64,
        limit: usize,
        decode: impl Fn(u64, &[u8]) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, StoreError> {
        let sql = sql.replace("SCHEMA", &self.schema);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: Params<'_> = &[&of_partition(partition), &clamped(after), &limit];
        let rows = self.read(|session| session.rows(&sql, params))?;
        let decoded = |row: &tokio_postgres::Row| {
            let n = of_number(row.get(0));
            decode(n, row.get(1)).map_err(|error| self.damaged(&format!("row {n}"), &error))
        };
        rows.iter().map(decoded).collect()
    }

    fn row_of(&self, row: &tokio_postgres::Row) -> Result<(Key, Row), StoreError> {
        let key = Key(number(row.get(0)));
        let place = || format!("agent {}", key.0);
        let header = codec::header(row.get(1)).map_err(|error| self.damaged(&place(), &error))?.0;
        let parts = (row.get::<_, Option<&[u8]>>(2), row.get::<_, Option<&[u8]>>(3));
        let state = match parts {
            (Some(hot), Some(cold)) => Some(Stored { cold: cold.to_vec(), hot: hot.to_vec() }),
            (None, _) => None,
            (Some(_), None) => {
                let missing = CodecError::Damaged("its cold part is missing");
                return Err(self.damaged(&place(), &missing));
            }
        };
        Ok((key, Row { header, state }))
    }

    fn rows_of(&self, rows: &[tokio_postgres::Row]) -> Result<Vec<(Key, Row)>, StoreError> {
        rows.iter().map(|row| self.row_of(row)).collect()
    }
}

/// All of a partition that its new owner reads, in the transaction that has locked its row: so nothing
/// changes between the chunks.
struct Opening<'a> {
    store: &'a PostgresStore,
    session: &'a mut Session,
    partition: i64,
}

impl Opening<'_> {
    /// Rows in chunks, from a position on; `take` yields the position after a row, if there can be one.
    fn each(
        &mut self,
        sql: &str,
        first: Option<Vec<i64>>,
        mut take: impl FnMut(&tokio_postgres::Row) -> Result<Option<Vec<i64>>, CodecError>,
    ) -> Result<(), Failed> {
        let sql = sql.replace("SCHEMA", &self.store.schema);
        let mut position = first;
        while let Some(at) = position.take() {
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.partition, &CHUNK];
            params.extend(at.iter().map(|at| at as &(dyn ToSql + Sync)));
            let rows = self.session.rows(&sql, &params).map_err(Failed::Fault)?;
            let is_last = rows.len() < CHUNK as usize;
            for row in &rows {
                position = take(row).map_err(|error| {
                    Failed::Told(self.store.damaged("a row of the partition", &error))
                })?;
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn read<M: Content>(&mut self) -> Result<Snapshot<M>, Failed> {
        let sql = format!(
            "insert into {0}.partitions as it (partition, epoch, version, log_end, forgotten, dead_end, \
             cursor) values ($1, 1, 0, 0, 0, 0, $2) \
             on conflict (partition) do update set epoch = it.epoch + 1 returning {STATE}",
            self.store.schema
        );
        let mut empty = Vec::new();
        codec::put_cursor(&Cursor::default(), &mut empty);
        let rows = self.session.rows(&sql, &[&self.partition, &empty]).map_err(Failed::Fault)?;
        let state = rows.first().map(|row| self.store.state_of(row)).transpose();
        let state = state.map_err(Failed::Told)?.expect("the statement returns its one row");
        let mut log = Vec::new();
        self.each(
            "select seq, entry from SCHEMA.log where partition = $1 and seq >= $3 \
             order by seq limit $2",
            clamped(state.cursor.trimmed.0).checked_add(1).map(|at| vec![at]),
            |row| {
                let seq: i64 = row.get(0);
                log.push(codec::entry(Seq(of_number(seq)), row.get(1))?);
                Ok(seq.checked_add(1).map(|at| vec![at]))
            },
        )?;
        let (mut directory, mut ended) = (Vec::new(), Vec::new());
        self.each(
            "select key, header, hot is not null from SCHEMA.hot where partition = $1 and key >= $3 \
             order by key limit $2",
            Some(vec![i64::MIN]),
            |row| {
                let at: i64 = row.get(0);
                let header = codec::header(row.get(1))?.0;
                match row.get(2) {
                    true => directory.push((Key(number(at)), listed(header))),
                    false => ended.push((Key(number(at)), remembered(&header))),
                }
                Ok(at.checked_add(1).map(|at| vec![at]))
            },
        )?;
        let mut timers = Vec::new();
        self.each(
            "select key, name, timer from SCHEMA.timers where partition = $1 \
             and (key, name) >= ($3, $4) order by key, name limit $2",
            Some(vec![i64::MIN, i64::MIN]),
            |row| {
                let (key, name): (i64, i64) = (row.get(0), row.get(1));
                timers.push((Key(number(key)), TimerName(number(name)), codec::timer(row.get(2))?));
                let next_key = || key.checked_add(1).map(|key| vec![key, i64::MIN]);
                Ok(name.checked_add(1).map(|name| vec![key, name]).or_else(next_key))
            },
        )?;
        let mut received = BTreeMap::new();
        self.each(
            "select source, n from SCHEMA.received where partition = $1 and source >= $3 \
             order by source limit $2",
            Some(vec![0]),
            |row| {
                let source: i64 = row.get(0);
                received.insert(partition_of(source)?, of_number(row.get(1)));
                Ok(source.checked_add(1).map(|at| vec![at]))
            },
        )?;
        let State { epoch, version, log_end, cursor, .. } = state;
        Ok(Snapshot { epoch, version, cursor, log_end, received, log, directory, ended, timers })
    }
}

/// The end of a reading that failed.
enum Failed {
    Fault(Fault),
    Told(StoreError),
}

impl<M: Content> Store<M> for PostgresStore {
    fn open(&self, partition: u32) -> Result<Snapshot<M>, StoreError> {
        let snapshot = self.write(|session| {
            session.begin()?;
            let partition = of_partition(partition);
            let read = Opening { store: self, session, partition }.read();
            match read {
                Ok(snapshot) => session.end("commit").map(|()| Ok(snapshot)),
                Err(Failed::Told(error)) => session.end("rollback").map(|()| Err(error)),
                // The session has gone, and its transaction with it.
                Err(Failed::Fault(fault)) => Err(fault),
            }
        });
        snapshot?
    }

    fn append(&self, partition: u32, append: &Append<M>) -> Result<Outcome, StoreError> {
        self.fenced(partition, &rows::append(&self.schema, partition, append))
    }

    fn commit(&self, partition: u32, commit: &Commit<M>) -> Result<Outcome, StoreError> {
        self.fenced(partition, &rows::commit(&self.schema, partition, commit))
    }

    fn load(
        &self,
        partition: u32,
        keys: &[Key],
        way: LoadWay,
    ) -> Result<Vec<(Key, Row)>, StoreError> {
        assert!(keys.is_sorted(), "keys are in order");
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(Vec::new());
        };
        let partition = of_partition(partition);
        let rows = match way {
            LoadWay::Keys => {
                let numbers: Vec<i64> = keys.iter().map(|key| rows::of_key(key.0)).collect();
                // Each key is looked up in both indexes, whatever the planner knows of the tables: before
                // they are analysed it takes a partition for small, and would read all of it. `offset 0`
                // keeps it from joining otherwise.
                let sql = format!(
                    "select its.key, header, hot, cold from unnest($2::int8[]) its (key) \
                     cross join lateral (select header, hot from {0}.hot \
                     where partition = $1 and key = its.key offset 0) h \
                     left join lateral (select cold from {0}.cold \
                     where partition = $1 and key = its.key offset 0) c on true",
                    self.schema
                );
                self.read(|session| session.rows(&sql, &[&partition, &numbers]))?
            }
            LoadWay::Range => {
                let (first, last) = (rows::of_key(first.0), rows::of_key(last.0));
                let sql = format!(
                    "select key, header, hot, cold from (select key, header, hot from {0}.hot \
                     where partition = $1 and key between $2 and $3) h left join \
                     (select key, cold from {0}.cold where partition = $1 and key between $2 and $3) c \
                     using (key)",
                    self.schema
                );
                self.read(|session| session.rows(&sql, &[&partition, &first, &last]))?
            }
        };
        let wanted =
            |row: &&tokio_postgres::Row| keys.binary_search(&Key(number(row.get(0)))).is_ok();
        let found = rows.iter().filter(wanted).map(|row| self.row_of(row));
        let mut found = found.collect::<Result<HashMap<Key, Row>, _>>()?;
        Ok(keys.iter().map(|&key| (key, found.remove(&key).unwrap_or_default())).collect())
    }

    fn outbox(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Notification>, StoreError> {
        let sql = "select n, notification from SCHEMA.outbox where partition = $1 and n > $2 \
                   order by n limit $3";
        self.queue(sql, partition, after, limit, codec::notification)
    }

    fn sent(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Outgoing<M>>, StoreError> {
        let sql = "select n, message from SCHEMA.sent where partition = $1 and n > $2 \
                   order by n limit $3";
        self.queue(sql, partition, after, limit, codec::outgoing)
    }

    fn scan(&self, partition: u32, from: Key, limit: usize) -> Result<Vec<(Key, Row)>, StoreError> {
        let sql = format!(
            "select key, header, hot, cold from {0}.hot left join {0}.cold using (partition, key) \
             where partition = $1 and key >= $2 order by key limit $3",
            self.schema
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (partition, from) = (of_partition(partition), rows::of_key(from.0));
        let rows = self.read(|session| session.rows(&sql, &[&partition, &from, &limit]))?;
        self.rows_of(&rows)
    }

    fn log(&self, partition: u32, after: Seq, limit: usize) -> Result<LogPart<M>, StoreError> {
        // Messages that are appended after this are beyond the end that it tells.
        let state = self.state(partition)?;
        let (first, end) =
            state.map_or((Seq(1), Seq(0)), |state| (Seq(state.forgotten.0 + 1), state.log_end));
        let sql = "select seq, entry from SCHEMA.log where partition = $1 and seq > $2 \
                   order by seq limit $3";
        let mut entries: Vec<Entry<M>> =
            self.queue(sql, partition, after.0, limit, |n, bytes| codec::entry(Seq(n), bytes))?;
        entries.retain(|entry| entry.seq <= end);
        Ok(LogPart { entries, first, end })
    }

    fn forget(&self, partition: u32, upto: Seq) -> Result<Seq, StoreError> {
        let Some(state) = self.state(partition)? else { return Ok(Seq(1)) };
        let most = state.forgotten.0.saturating_add(FORGOTTEN_MAX);
        let upto = upto.min(state.cursor.trimmed).0.min(most);
        if upto <= state.forgotten.0 {
            return Ok(Seq(state.forgotten.0 + 1));
        }
        // The cursor only moves on, so this stays right whoever commits meanwhile.
        let sql = format!(
            "with it as (update {0}.partitions set forgotten = greatest(forgotten, $2) \
             where partition = $1 returning forgotten), \
             gone as (delete from {0}.log where partition = $1 and seq <= $2) \
             select forgotten from it",
            self.schema
        );
        let params: Params<'_> = &[&of_partition(partition), &clamped(upto)];
        let rows = self.write(|session| session.rows(&sql, params))?;
        let forgotten = rows.first().map_or(0, |row| of_number(row.get(0)));
        Ok(Seq(forgotten + 1))
    }

    fn dead(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DeadRow<M>>, StoreError> {
        let sql = "select n, letter from SCHEMA.dead where partition = $1 and n > $2 \
                   order by n limit $3";
        self.queue(sql, partition, after, limit, |n, bytes| {
            Ok(DeadRow { n, letter: codec::dead(bytes)? })
        })
    }

    fn remove_dead(&self, partition: u32, numbers: &[u64]) -> Result<u64, StoreError> {
        let numbers: Vec<i64> = numbers.iter().map(|&n| clamped(n)).collect();
        let sql = format!(
            "with gone as (delete from {}.dead where partition = $1 and n = any($2) returning 1) \
             select count(*) from gone",
            self.schema
        );
        let params: Params<'_> = &[&of_partition(partition), &numbers];
        let rows = self.write(|session| session.rows(&sql, params))?;
        Ok(rows.first().map_or(0, |row| of_number(row.get(0))))
    }

    fn partitions(&self) -> Result<Vec<u32>, StoreError> {
        let sql = format!("select partition from {}.partitions order by partition", self.schema);
        let rows = self.read(|session| session.rows(&sql, &[]))?;
        let number = |row: &tokio_postgres::Row| {
            partition_of(row.get(0)).map_err(|error| self.damaged("a partition's row", &error))
        };
        rows.iter().map(number).collect()
    }

    fn backup(&self, _: &mut BackupWriter<'_>) -> Result<(), BackupError> {
        let cause = format!(
            "PostgreSQL makes its own backups: pg_dump --schema={} (docs/agents-rules.md)",
            self.schema
        );
        Err(StoreError::Unusable { place: "the store".to_owned(), cause }.into())
    }
}

/// A number as a position in a table: none is beyond the largest one of PostgreSQL.
fn clamped(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A schema's name in quotes.
fn quoted(schema: &str, place: &str) -> Result<String, StoreError> {
    if schema.is_empty() || schema.len() > 63 || schema.contains('\0') {
        return Err(StoreError::Unusable {
            place: place.to_owned(),
            cause: "a schema's name has 1 to 63 bytes".to_owned(),
        });
    }
    Ok(format!("\"{}\"", schema.replace('"', "\"\"")))
}
