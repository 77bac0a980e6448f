//! Fills a database with the population of [`workload::tpcc::population`].
//!
//! Rows come first, by binary COPY and on several connections; then each table is vacuumed,
//! analysed and given its keys. Rows come in chunks: a chunk is one transaction, which also notes
//! that the chunk is there, so that a load that was killed goes on where it was.

mod chunk;
mod error;
mod ledger;
mod work;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

pub use error::LoadError;
pub use ledger::LoadRecord;

use super::connection::Config;
use super::schema::{TABLES, Table};
use ledger::Ledger;
use work::{Work, connect, runtime};

/// More would need more terminals than anybody has, and keeps all keys in 31 bits.
const WAREHOUSES_MAX: u32 = 1_000_000;

/// Plan of a load, with what may stand in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// All rows follow from it.
    pub seed: u64,
    /// Number of warehouses, from 1.
    pub warehouses: u32,
    /// Connections at once, at least 1.
    pub jobs: usize,
    /// The contents of one transaction.
    pub grain: Grain,
    /// References between tables.
    pub foreign_keys: ForeignKeys,
    /// The treatment of a load that is there.
    pub existing: Existing,
    /// The treatment of a database that holds other tables.
    pub others: Others,
}

/// Contents of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// The rows of a warehouse: an interrupted load loses little, and connections share the work
    /// evenly. Freezing is left to the vacuum at the end, except with one warehouse.
    Warehouse,
    /// Whole tables, written frozen: nothing is written twice, but an interrupted load loses all
    /// of the tables that were not done, and at most four connections have work.
    Table,
}

/// References between tables. The specification does not ask for it (1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeys {
    /// No constraints: a transaction costs what its statements cost.
    Left,
    /// All references of clause 1.3, added and checked after the rows.
    Added,
}

/// Treatment of a load that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Touch nothing.
    Refuse,
    /// Go on where it was interrupted.
    Resume,
    /// Remove it first.
    Replace,
}

/// Treatment of a database that holds tables of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Touch nothing.
    Refuse,
    /// Load beside them.
    Allow,
}

/// Phase of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows; steps are rows, and their number in all is known within 1 %.
    Rows,
    /// Keys, indexes, vacuum and statistics; steps are tables.
    Keys,
}

/// Progress of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Steps that are done.
    pub done: u64,
    /// Steps in all.
    pub of: u64,
    /// Steps that were done before, by a load that was interrupted.
    pub before: u64,
    /// Since the phase began.
    pub elapsed: Duration,
}

impl Progress {
    /// Steps per second \[1/s\].
    pub fn rate(&self) -> f64 {
        (self.done - self.before) as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The time that the phase will still take at this rate; `None` while nothing is done.
    pub fn left(&self) -> Option<Duration> {
        let rate = self.rate();
        let steps = self.of.saturating_sub(self.done) as f64;
        (rate > 0.0).then(|| Duration::from_secs_f64((steps / rate).min(1e9)))
    }
}

/// Result of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loaded {
    /// The record that the database keeps of it.
    pub record: LoadRecord,
    /// Rows that it has brought, without those of the load that it went on with.
    pub rows: u64,
    /// Space that tables and indexes take \[bytes\].
    pub bytes: u64,
    /// The time that the rows took.
    pub rows_took: Duration,
    /// The time that keys, indexes, vacuum and statistics took.
    pub keys_took: Duration,
}

impl LoadPlan {
    /// A plan with one job a processor, no foreign keys, and respect for everything that is there.
    pub fn new(seed: u64, warehouses: u32) -> LoadPlan {
        LoadPlan {
            seed,
            warehouses,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            grain: Grain::Warehouse,
            foreign_keys: ForeignKeys::Left,
            existing: Existing::Refuse,
            others: Others::Refuse,
        }
    }

    fn chunk_warehouses(&self) -> u32 {
        match self.grain {
            Grain::Warehouse => 1,
            Grain::Table => self.warehouses,
        }
    }
}

/// Loads a database. `tell` learns several times a second how far it is; `stop` ends it within a
/// second, and what is done then is kept.
///
/// The rows of a chunk are where they belong, or not there at all, whatever is killed and when. The
/// load is complete only once its last statement is safe on disk.
///
/// # Errors
/// If the plan has no warehouses, the database cannot be reached, holds something that the plan
/// does not allow for, or refuses; if the server goes away or its disk is full; if it was stopped.
pub fn load(
    config: &Config,
    plan: &LoadPlan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Result<Loaded, LoadError> {
    let warehouses = plan.warehouses;
    if !(1..=WAREHOUSES_MAX).contains(&warehouses) {
        return Err(LoadError::Warehouses { warehouses });
    }
    let runtime = runtime()?;
    let mut config = config.clone();
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    // This connection holds the lock: it lives until the load has ended.
    let mut client = runtime.block_on(connect(&config))?;
    let ledger = runtime.block_on(ledger::begin(&mut client, plan))?;
    let before = ledger.rows_done;
    let jobs = plan.jobs.max(1);

    let phase = Tell { tell, phase: Phase::Rows, of: rows(warehouses), before };
    let rows_took = phase.during(&config, stop, |work, tell| {
        let each = async |client: &mut Client, chunk: chunk::Chunk| {
            chunk.load(client, &ledger, work).await
        };
        work.all(jobs, ledger.left(), each, tell)
    })?;
    runtime.block_on(settle(&client))?;
    let phase = Tell { tell, phase: Phase::Keys, of: TABLES.len() as u64, before: 0 };
    let keys_took = phase.during(&config, stop, |work, tell| {
        let each = async |client: &mut Client, table: Table| {
            finish_table(client, &table, &ledger).await?;
            work.brought(1);
            Ok(())
        };
        work.all(jobs, TABLES, each, tell)?;
        match ledger.foreign_keys {
            ForeignKeys::Left => Ok(()),
            // References need the keys of the tables that they point to, and lock both.
            ForeignKeys::Added => work.all(1, TABLES, refer, tell),
        }
    })?;
    let (rows, bytes) = runtime.block_on(end(&client))?;
    let record = LoadRecord { complete: true, ..ledger.record };
    Ok(Loaded { record, rows: rows - before, bytes, rows_took, keys_took })
}

/// A phase, and whom to tell of it.
struct Tell<'a> {
    tell: &'a mut dyn FnMut(Progress),
    phase: Phase,
    of: u64,
    before: u64,
}

impl Tell<'_> {
    fn during(
        self,
        config: &Config,
        stop: &AtomicBool,
        run: impl FnOnce(&Work<'_>, &mut dyn FnMut(u64)) -> Result<(), LoadError>,
    ) -> Result<Duration, LoadError> {
        let Tell { tell, phase, of, before } = self;
        let work = Work::new(config, stop, before);
        let start = Instant::now();
        run(&work, &mut |done| {
            tell(Progress { phase, done, of: of.max(done), before, elapsed: start.elapsed() });
        })?;
        Ok(start.elapsed())
    }
}

/// Number of rows of so many warehouses; that of the order lines is an expectation.
fn rows(warehouses: u32) -> u64 {
    const DISTRICT: u64 = 1 + 3_000 + 3_000 + 3_000 + 900 + 30_000;
    100_000 + u64::from(warehouses) * (1 + 100_000 + 10 * DISTRICT)
}

/// Vacuums a table, so that no transaction has to freeze or to mark what will never change, and
/// builds its keys and indexes. What a load that was interrupted has built stays.
async fn finish_table(client: &Client, table: &Table, ledger: &Ledger) -> Result<(), LoadError> {
    let name = table.name;
    // Where one chunk held the whole table its rows were written frozen.
    let whole = name == "item" || ledger.chunk_warehouses >= ledger.record.warehouses;
    let vacuum = if whole { "vacuum (analyze)" } else { "vacuum (freeze, analyze)" };
    let doing = format!("vacuuming {name}");
    let vacuumed = client.batch_execute(&format!("{vacuum} {name}")).await;
    vacuumed.map_err(|error| LoadError::of(&doing, &error))?;
    for (index, sql) in table.build() {
        let sql =
            format!("do $$ begin if to_regclass('{index}') is null then {sql}; end if; end $$");
        let doing = format!("building {index}");
        let built = client.batch_execute(&sql).await;
        built.map_err(|error| LoadError::of(&doing, &error))?;
    }
    Ok(())
}

async fn refer(client: &mut Client, table: Table) -> Result<(), LoadError> {
    for (key, sql) in table.refer() {
        let sql = format!(
            "do $$ begin if not exists (select from pg_constraint where conname = '{key}' \
             and conrelid = '{}'::regclass) then {sql}; end if; end $$",
            table.name
        );
        let added = client.batch_execute(&sql).await;
        added.map_err(|error| LoadError::of(&format!("adding {key}"), &error))?;
    }
    Ok(())
}

/// Waits until all rows are safe on disk. Before that no vacuum marks what committed without waiting
/// as visible to all.
async fn settle(client: &Client) -> Result<(), LoadError> {
    let sql = "set synchronous_commit = on; update tpcc_load set finished_at = null";
    let written = client.batch_execute(sql).await;
    written.map_err(|error| LoadError::of("writing the rows to disk", &error))
}

/// Notes that the load is complete, and waits until that is safe on disk, which makes everything
/// before it safe too.
async fn end(client: &Client) -> Result<(u64, u64), LoadError> {
    let wrong = |error| LoadError::of("ending the load", &error);
    let sql = "set synchronous_commit = on; update tpcc_load set finished_at = now()";
    client.batch_execute(sql).await.map_err(wrong)?;
    let sql = "select (select sum(rows) from tpcc_load_chunk)::bigint, \
        (select sum(pg_total_relation_size(oid)) from pg_class \
         where relnamespace = current_schema()::regnamespace and relname = any($1))::bigint";
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let row = client.query_one(sql, &[&names]).await.map_err(wrong)?;
    Ok((row.get::<_, i64>(0).cast_unsigned(), row.get::<_, i64>(1).cast_unsigned()))
}
