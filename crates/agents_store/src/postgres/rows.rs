//! Transactions as statements over arrays: one of a kind, however many rows.

use agents::{Append, Commit, Key, Seq, StateWrite, Timer, TimerName};
use tokio_postgres::types::ToSql;

use crate::codec::{self, CodecError};
use crate::content::Content;

/// A statement of a transaction.
pub(super) struct Sent<'a> {
    pub(super) sql: String,
    pub(super) params: Vec<Box<dyn ToSql + Sync + 'a>>,
    /// The number of rows that it must change.
    pub(super) rows: Option<u64>,
    /// The cause, for a person, if it changes others.
    pub(super) lacking: &'static str,
}

/// Statements of a partition in a schema.
struct Statements<'a> {
    schema: &'a str,
    partition: i64,
    all: Vec<Sent<'a>>,
}

impl<'a> Statements<'a> {
    /// A statement whose first parameter is the partition.
    fn push(&mut self, sql: &str, params: Vec<Box<dyn ToSql + Sync + 'a>>) -> &mut Sent<'a> {
        let sql = sql.replace("SCHEMA", self.schema);
        let mut all: Vec<Box<dyn ToSql + Sync + 'a>> = vec![Box::new(self.partition)];
        all.extend(params);
        self.all.push(Sent { sql, params: all, rows: None, lacking: "" });
        self.all.last_mut().expect("it was pushed")
    }
}

fn boxed<'a>(param: impl ToSql + Sync + 'a) -> Box<dyn ToSql + Sync + 'a> {
    Box::new(param)
}

/// An append: the fence is epoch and end of the log.
pub(super) fn append<'a, M: Content>(
    schema: &'a str,
    partition: u32,
    append: &'a Append<M>,
) -> Vec<Sent<'a>> {
    let mut it = Statements { schema, partition: of_partition(partition), all: Vec::new() };
    let end = append.after.0 + append.entries.len() as u64;
    it.push(
        "update SCHEMA.partitions set log_end = $4 \
         where partition = $1 and epoch = $2 and log_end = $3",
        vec![
            boxed(of_unsigned(append.epoch.0)),
            boxed(of_unsigned(append.after.0)),
            boxed(of_unsigned(end)),
        ],
    );
    if !append.entries.is_empty() {
        let (mut seqs, mut entries) = (Vec::new(), Vec::new());
        for (entry, n) in append.entries.iter().zip(append.after.0 + 1..) {
            assert_eq!(entry.seq, Seq(n), "messages are numbered on");
            seqs.push(of_unsigned(n));
            entries.push(bytes(|to| codec::put_entry(entry, to)));
        }
        it.push(
            "insert into SCHEMA.log select $1::int8, * from unnest($2::int8[], $3::bytea[])",
            vec![boxed(seqs), boxed(entries)],
        );
    }
    if !append.received.is_empty() {
        let (sources, numbers): (Vec<i64>, Vec<i64>) =
            append.received.iter().map(|(&from, &n)| (i64::from(from), of_unsigned(n))).unzip();
        it.push(
            "insert into SCHEMA.received select $1::int8, * from unnest($2::int8[], $3::int8[]) \
             on conflict (partition, source) do update set n = excluded.n",
            vec![boxed(sources), boxed(numbers)],
        );
    }
    it.all
}

/// A commit: the fence is epoch and version.
pub(super) fn commit<'a, M: Content>(
    schema: &'a str,
    partition: u32,
    commit: &'a Commit<M>,
) -> Vec<Sent<'a>> {
    let mut it = Statements { schema, partition: of_partition(partition), all: Vec::new() };
    it.push(
        "update SCHEMA.partitions set version = version + 1, cursor = $4, dead_end = dead_end + $5 \
         where partition = $1 and epoch = $2 and version = $3",
        vec![
            boxed(of_unsigned(commit.epoch.0)),
            boxed(of_unsigned(commit.version)),
            boxed(bytes(|to| codec::put_cursor(&commit.cursor, to))),
            boxed(of_unsigned(commit.dead.len() as u64)),
        ],
    );
    states(&mut it, commit);
    queues(&mut it, commit);
    timers(&mut it, commit);
    it.all
}

/// A part of a state, in a column.
type Part<'a> = Option<&'a [u8]>;

/// The rows of agents as columns, by what is written of each.
#[derive(Default)]
struct Columns<'a> {
    gone: Vec<i64>,
    hot: (Vec<i64>, Vec<Vec<u8>>, Vec<&'a [u8]>),
    cold: (Vec<i64>, Vec<&'a [u8]>),
    /// Headers with hot parts, of which there may be none.
    whole: (Vec<i64>, Vec<Vec<u8>>, Vec<Part<'a>>),
    kept: (Vec<i64>, Vec<Vec<u8>>),
}

impl<'a> Columns<'a> {
    /// In the order of the keys, so that neighbours share pages.
    fn of<M>(commit: &'a Commit<M>) -> Columns<'a> {
        let mut sorted: Vec<_> = commit.rows.iter().collect();
        sorted.sort_by_key(|write| write.key);
        let mut it = Columns::default();
        for write in sorted {
            let key = of_key(write.key.0);
            let header = bytes(|to| codec::put_header(&write.header, to));
            match &write.state {
                StateWrite::Keep => {
                    it.kept.0.push(key);
                    it.kept.1.push(header);
                }
                StateWrite::Hot(part) => {
                    it.hot.0.push(key);
                    it.hot.1.push(header);
                    it.hot.2.push(part);
                }
                StateWrite::Whole(stored) => {
                    it.cold.0.push(key);
                    it.cold.1.push(&stored.cold);
                    it.whole.0.push(key);
                    it.whole.1.push(header);
                    it.whole.2.push(Some(&stored.hot));
                }
                StateWrite::Delete => {
                    it.gone.push(key);
                    it.whole.0.push(key);
                    it.whole.1.push(header);
                    it.whole.2.push(None);
                }
            }
        }
        it
    }
}

/// The rows of agents.
fn states<'a, M>(it: &mut Statements<'a>, commit: &'a Commit<M>) {
    let erased: Vec<i64> = commit.erased.iter().map(|key| of_key(key.0)).collect();
    let Columns { mut gone, hot, cold, whole, kept } = Columns::of(commit);
    gone.extend(&erased);
    if !erased.is_empty() {
        let sql = "delete from SCHEMA.hot where partition = $1 and key = any($2)";
        it.push(sql, vec![boxed(erased)]);
    }
    if !gone.is_empty() {
        it.push(
            "delete from SCHEMA.cold where partition = $1 and key = any($2)",
            vec![boxed(gone)],
        );
    }
    if !hot.0.is_empty() {
        let count = hot.0.len() as u64;
        let sent = it.push(
            "update SCHEMA.hot it set header = its.header, hot = its.hot \
             from unnest($2::int8[], $3::bytea[], $4::bytea[]) its (key, header, hot) \
             where it.partition = $1 and it.key = its.key and it.hot is not null",
            vec![boxed(hot.0), boxed(hot.1), boxed(hot.2)],
        );
        sent.rows = Some(count);
        sent.lacking = "an agent has no state in the store: something else has written there";
    }
    if !cold.0.is_empty() {
        it.push(
            "insert into SCHEMA.cold select $1::int8, * from unnest($2::int8[], $3::bytea[]) \
             on conflict (partition, key) do update set cold = excluded.cold",
            vec![boxed(cold.0), boxed(cold.1)],
        );
    }
    if !whole.0.is_empty() {
        it.push(
            "insert into SCHEMA.hot select $1::int8, * from unnest($2::int8[], $3::bytea[], $4::bytea[]) \
             on conflict (partition, key) do update set header = excluded.header, hot = excluded.hot",
            vec![boxed(whole.0), boxed(whole.1), boxed(whole.2)],
        );
    }
    if !kept.0.is_empty() {
        it.push(
            "insert into SCHEMA.hot select $1::int8, *, null from unnest($2::int8[], $3::bytea[]) \
             on conflict (partition, key) do update set header = excluded.header",
            vec![boxed(kept.0), boxed(kept.1)],
        );
    }
}

/// Notifications, messages between agents, dead letters.
fn queues<'a, M: Content>(it: &mut Statements<'a>, commit: &'a Commit<M>) {
    if !commit.notifications.is_empty() {
        let all = commit.notifications.iter();
        let (numbers, rows): (Vec<i64>, Vec<Vec<u8>>) = all
            .map(|one| (of_unsigned(one.n), bytes(|to| codec::put_notification(one, to))))
            .unzip();
        it.push(
            "insert into SCHEMA.outbox select $1::int8, * from unnest($2::int8[], $3::bytea[])",
            vec![boxed(numbers), boxed(rows)],
        );
    }
    if !commit.delivered.is_empty() {
        let numbers: Vec<i64> = commit.delivered.iter().map(|&n| of_unsigned(n)).collect();
        it.push(
            "delete from SCHEMA.outbox where partition = $1 and n = any($2)",
            vec![boxed(numbers)],
        );
    }
    if !commit.sends.is_empty() {
        let all = commit.sends.iter();
        let (numbers, rows): (Vec<i64>, Vec<Vec<u8>>) =
            all.map(|one| (of_unsigned(one.n), bytes(|to| codec::put_outgoing(one, to)))).unzip();
        it.push(
            "insert into SCHEMA.sent select $1::int8, * from unnest($2::int8[], $3::bytea[])",
            vec![boxed(numbers), boxed(rows)],
        );
    }
    it.push(
        "delete from SCHEMA.sent where partition = $1 and n <= $2",
        vec![boxed(of_unsigned(commit.cursor.relayed))],
    );
    if !commit.dead.is_empty() {
        // Text of PostgreSQL has no zero byte; the letter itself has the reason as it is.
        let reasons: Vec<String> =
            commit.dead.iter().map(|letter| letter.reason.replace('\0', " ")).collect();
        let letters: Vec<Vec<u8>> =
            commit.dead.iter().map(|letter| bytes(|to| codec::put_dead(letter, to))).collect();
        it.push(
            "insert into SCHEMA.dead select $1::int8, dead_end - cardinality($2::text[]) + number, reason, \
             letter from SCHEMA.partitions, unnest($2::text[], $3::bytea[]) \
             with ordinality its (reason, letter, number) where partition = $1",
            vec![boxed(reasons), boxed(letters)],
        );
    }
}

fn timers<'a, M>(it: &mut Statements<'a>, commit: &'a Commit<M>) {
    let at = |key: Key, name: TimerName| (of_key(key.0), of_key(name.0));
    let set =
        commit.timers.iter().filter_map(|(&(key, name), &timer)| Some((at(key, name), timer?)));
    let (set, rows): (Vec<(i64, i64)>, Vec<Vec<u8>>) =
        set.map(|(at, timer): (_, Timer)| (at, bytes(|to| codec::put_timer(timer, to)))).unzip();
    let gone = commit.timers.iter().filter(|(_, timer)| timer.is_none());
    let gone: (Vec<i64>, Vec<i64>) = gone.map(|(&(key, name), _)| at(key, name)).unzip();
    if !gone.0.is_empty() {
        it.push(
            "delete from SCHEMA.timers it using unnest($2::int8[], $3::int8[]) its (key, name) \
             where it.partition = $1 and it.key = its.key and it.name = its.name",
            vec![boxed(gone.0), boxed(gone.1)],
        );
    }
    if !rows.is_empty() {
        let (keys, names): (Vec<i64>, Vec<i64>) = set.into_iter().unzip();
        it.push(
            "insert into SCHEMA.timers select $1::int8, * \
             from unnest($2::int8[], $3::int8[], $4::bytea[]) \
             on conflict (partition, key, name) do update set timer = excluded.timer",
            vec![boxed(keys), boxed(names), boxed(rows)],
        );
    }
}

fn bytes(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes);
    bytes
}

/// A key or a timer's name, in PostgreSQL's order: 2^63 is taken from it.
pub(super) fn of_key(n: u64) -> i64 {
    (n ^ 1 << 63) as i64
}

/// The key of a number of a table.
pub(super) fn number(n: i64) -> u64 {
    n as u64 ^ 1 << 63
}

/// A count: it is below 2^63, since it was counted.
fn of_unsigned(n: u64) -> i64 {
    i64::try_from(n).expect("nothing was counted that far")
}

/// The count of a number of a table; this store writes none below 0.
pub(super) fn of_number(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

pub(super) fn of_partition(partition: u32) -> i64 {
    i64::from(partition)
}

pub(super) fn partition_of(n: i64) -> Result<u32, CodecError> {
    u32::try_from(n).map_err(|_| CodecError::Damaged("it is of no partition"))
}
