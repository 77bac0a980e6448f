//! Ledger of a load in its database: its seed, its size, and the chunks that are done.

use std::collections::BTreeSet;

use tokio_postgres::{Client, Error};
use workload::tpcc::population::Population;

use super::chunk::{Chunk, Part};
use super::{Existing, ForeignKeys, LoadError, LoadPlan, Others};
use crate::schema;

/// Record of a database on itself: a run reads it, and so does whoever loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRecord {
    /// From which seed the rows were made.
    pub seed: u64,
    /// Number of warehouses.
    pub warehouses: u32,
    /// The constant C of the last names: a run's C-Run keeps its distance from it.
    pub c_load: u16,
    /// True if the load came to its end.
    pub complete: bool,
}

impl LoadRecord {
    /// The record of this database's load; `None` where it was not, by us.
    ///
    /// # Errors
    /// If the server does not answer, or the tables of the record are somebody else's.
    pub async fn read(client: &Client) -> Result<Option<LoadRecord>, Error> {
        let there = client.query_one("select to_regclass($1) is not null", &[&schema::LOAD]);
        if !there.await?.get::<_, bool>(0) {
            return Ok(None);
        }
        let sql = "select seed::text, warehouses, c_load, finished_at is not null from tpcc_load";
        let Some(row) = client.query_opt(sql, &[]).await? else { return Ok(None) };
        Ok(Some(LoadRecord {
            seed: row.try_get::<_, String>(0)?.parse().expect("the table takes only seeds"),
            warehouses: row.try_get::<_, i32>(1)?.cast_unsigned(),
            c_load: row.try_get::<_, i16>(2)?.cast_unsigned(),
            complete: row.try_get(3)?,
        }))
    }
}

/// A load that has begun.
pub(super) struct Ledger {
    pub(super) record: LoadRecord,
    /// Number of warehouses of a chunk.
    pub(super) chunk_warehouses: u32,
    pub(super) foreign_keys: ForeignKeys,
    /// When it began, in microseconds since the year 2000: what columns that are times hold.
    pub(super) time: i64,
    /// Chunks that are done, and their rows.
    pub(super) done: BTreeSet<(Part, u32)>,
    pub(super) rows_done: u64,
}

/// Nobody else uses this number: it is "tpcc" and "load" in ASCII.
const LOCK: i64 = 0x7470_6363_6c6f_6164;

/// Begins a load, or takes up one that was interrupted, and makes sure that nobody else does. The
/// lock is the connection's, and lasts as long.
pub(super) async fn begin(client: &mut Client, plan: &LoadPlan) -> Result<Ledger, LoadError> {
    let wrong = |error: Error| LoadError::of("looking at the database", &error);
    if !locked(client).await.map_err(wrong)? {
        return Err(LoadError::Busy);
    }
    let (ours, others) = tables(client).await.map_err(wrong)?;
    if plan.others == Others::Refuse && !others.is_empty() {
        return Err(LoadError::OtherTables { tables: others });
    }
    let found = LoadRecord::read(client).await.map_err(wrong)?;
    let asked = (plan.warehouses, plan.seed);
    match (found, plan.existing) {
        (None, _) if !ours.is_empty() => return Err(LoadError::NotOurs { tables: ours }),
        (None, Existing::Resume) => return Err(LoadError::NothingToResume),
        (None, Existing::Refuse | Existing::Replace) => create(client, plan).await?,
        (Some(_), Existing::Replace) => {
            remove(client).await?;
            create(client, plan).await?;
        }
        (Some(LoadRecord { complete: true, seed, warehouses, .. }), _) => {
            return Err(LoadError::Complete { warehouses, seed });
        }
        (Some(LoadRecord { seed, warehouses, .. }), Existing::Refuse) => {
            return Err(LoadError::Incomplete { warehouses, seed });
        }
        (Some(LoadRecord { seed, warehouses, .. }), Existing::Resume)
            if (warehouses, seed) != asked =>
        {
            return Err(LoadError::Differs { warehouses, seed });
        }
        (Some(_), Existing::Resume) => {}
    }
    read(client).await.map_err(wrong)
}

/// The lock, tried for some seconds: the server needs a moment to notice that a client was killed.
async fn locked(client: &Client) -> Result<bool, Error> {
    for attempt in 0..20 {
        if attempt > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let row = client.query_one("select pg_try_advisory_lock($1)", &[&LOCK]).await?;
        if row.get(0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tables of the names of a load in the schema where ours would be, and all others of users.
async fn tables(client: &Client) -> Result<(Vec<String>, Vec<String>), Error> {
    const SQL: &str = "select c.relname::text, \
            n.nspname is not distinct from current_schema(), \
            case when n.nspname = current_schema() then c.relname::text \
                 else n.nspname || '.' || c.relname end \
        from pg_class c join pg_namespace n on n.oid = c.relnamespace \
        where c.relkind in ('r', 'p', 'f', 'm') and n.nspname <> 'information_schema' \
            and n.nspname !~ '^pg_' \
            and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass \
                and d.objid = c.oid and d.deptype = 'e') \
        order by 3";
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for row in client.query(SQL, &[]).await? {
        let (name, here, full): (String, bool, String) = (row.get(0), row.get(1), row.get(2));
        let list = if here && schema::is_ours(&name) { &mut ours } else { &mut others };
        list.push(full);
    }
    Ok((ours, others))
}

async fn create(client: &mut Client, plan: &LoadPlan) -> Result<(), LoadError> {
    let wrong = |error: Error| LoadError::of("creating the tables", &error);
    let sql: String = schema::TABLES.iter().map(schema::Table::create).collect();
    let transaction = client.transaction().await.map_err(wrong)?;
    transaction.batch_execute(&sql).await.map_err(wrong)?;
    transaction.batch_execute(schema::CREATE_LOAD).await.map_err(wrong)?;
    let c_load = Population::new(plan.seed).c_load().cast_signed();
    let foreign_keys = plan.foreign_keys == ForeignKeys::Added;
    transaction
        .execute(
            "insert into tpcc_load (seed, warehouses, c_load, chunk_warehouses, foreign_keys) \
             values ($1::text::numeric, $2, $3, $4, $5)",
            &[
                &plan.seed.to_string(),
                &plan.warehouses.cast_signed(),
                &c_load,
                &plan.chunk_warehouses().cast_signed(),
                &foreign_keys,
            ],
        )
        .await
        .map_err(wrong)?;
    transaction.commit().await.map_err(wrong)
}

/// Removes a load of ours, whole.
async fn remove(client: &Client) -> Result<(), LoadError> {
    let names = schema::TABLES.iter().map(|table| table.name);
    let names: Vec<&str> = names.chain([schema::CHUNKS, schema::PARTS, schema::LOAD]).collect();
    let sql = format!("drop table if exists {}", names.join(", "));
    let dropped = client.batch_execute(&sql).await;
    dropped.map_err(|error| LoadError::of("removing the earlier load", &error))
}

async fn read(client: &Client) -> Result<Ledger, Error> {
    let record = LoadRecord::read(client).await?.expect("it was there, or has just been created");
    let row = client
        .query_one(
            "select chunk_warehouses, foreign_keys, \
             (extract(epoch from loaded_at - '2000-01-01 00:00:00+00') * 1000000)::bigint \
             from tpcc_load",
            &[],
        )
        .await?;
    let chunks = client.query("select part, warehouse, rows from tpcc_load_chunk", &[]).await?;
    let (mut done, mut rows_done) = (BTreeSet::new(), 0);
    for chunk in chunks {
        if let Some(part) = Part::of(chunk.get(0)) {
            done.insert((part, chunk.get::<_, i32>(1).cast_unsigned()));
            rows_done += chunk.get::<_, i64>(2).cast_unsigned();
        }
    }
    Ok(Ledger {
        record,
        chunk_warehouses: row.get::<_, i32>(0).cast_unsigned(),
        foreign_keys: if row.get(1) { ForeignKeys::Added } else { ForeignKeys::Left },
        time: row.get(2),
        done,
        rows_done,
    })
}

impl Ledger {
    /// The chunks that are still to be done, those of the first warehouses first.
    pub(super) fn left(&self) -> Vec<Chunk> {
        let all = Chunk::all(self.record.warehouses, self.chunk_warehouses);
        all.filter(|chunk| !self.done.contains(&(chunk.part, chunk.from))).collect()
    }
}
