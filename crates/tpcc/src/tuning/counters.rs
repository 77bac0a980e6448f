//! The counters of a server, by its release: 14 to 18 keep them in different views.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, Row};

use super::TuneError;
use crate::schema::TABLES;

/// Samples of what sessions were doing, by the name of what they waited for; `running` where it was
/// nothing.
pub(super) type Waits = BTreeMap<String, u64>;

/// The settings that [`advise`](super::advise) goes through, and those that its reasons need.
const SETTINGS: [&str; 24] = [
    "autovacuum",
    "autovacuum_vacuum_scale_factor",
    "bgwriter_lru_maxpages",
    "checkpoint_completion_target",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "data_directory",
    "effective_cache_size",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "io_method",
    "maintenance_work_mem",
    "max_wal_size",
    "random_page_cost",
    "server_version",
    "shared_buffers",
    "shared_preload_libraries",
    "synchronous_commit",
    "wal_block_size",
    "wal_buffers",
    "wal_compression",
    "work_mem",
];

/// The statements that are told of pg_stat_statements.
const STATEMENTS: i64 = 5;

/// A setting of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// As people write it: `128MB`.
    pub value: String,
    /// In its [unit](Setting::unit).
    pub base: String,
    /// `8kB`, `ms`; empty where it has none.
    pub unit: String,
    /// The context in which it may be changed: `postmaster` is at a start of the server.
    pub context: String,
    /// The source of its value.
    pub source: String,
    /// The values that it may have, where it is one of some words.
    pub choices: Vec<String>,
}

impl Setting {
    /// Its size \[bytes\], if it has one.
    pub fn bytes(&self) -> Option<u64> {
        let at = self.unit.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.unit.len());
        let (count, unit) = self.unit.split_at(at);
        let scale: u64 = match unit {
            "B" => 1,
            "kB" => 1 << 10,
            "MB" => 1 << 20,
            "GB" => 1 << 30,
            _ => return None,
        };
        let count: u64 = if count.is_empty() { 1 } else { count.parse().ok()? };
        self.base.parse::<u64>().ok()?.checked_mul(count * scale)
    }

    /// Its length \[s\], if it has one.
    pub fn seconds(&self) -> Option<f64> {
        let scale = match self.unit.as_str() {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            _ => return None,
        };
        Some(self.base.parse::<f64>().ok()? * scale)
    }

    /// True if it changes only when the server is started.
    pub fn needs_restart(&self) -> bool {
        self.context == "postmaster"
    }

    /// True if what `ALTER SYSTEM` says of it reaches the sessions: not where the database, the
    /// role or the command line says something else.
    pub fn is_systems(&self) -> bool {
        matches!(self.source.as_str(), "default" | "configuration file" | "override")
    }
}

/// Changes of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableUse {
    /// Blocks of it and of its indexes that were not in the server's memory.
    pub blocks_read: u64,
    /// Blocks that were.
    pub blocks_hit: u64,
    /// Rows added.
    pub inserts: u64,
    /// Rows changed.
    pub updates: u64,
    /// Rows changed without a new entry in any index.
    pub hot_updates: u64,
    /// Rows removed.
    pub deletes: u64,
    /// Scans of all of it.
    pub sequential_scans: u64,
    /// Rows that are dead at the end.
    pub dead: u64,
    /// Rows that are alive at the end.
    pub live: u64,
    /// Its size at the end, with its indexes \[bytes\].
    pub bytes: u64,
}

/// A statement, as pg_stat_statements counts it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Its beginning.
    pub text: String,
    /// The number of its executions.
    pub calls: u64,
    /// The total time of them \[s\].
    pub total_s: f64,
    /// The bytes that it added to the log \[bytes\].
    pub wal_bytes: u64,
}

/// Work of a server in some time.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// In how long \[s\].
    pub elapsed_s: f64,
    /// Its settings at the end, by name.
    pub settings: BTreeMap<String, Setting>,
    /// The size of the database at the end \[bytes\].
    pub database_bytes: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// Blocks that were not in the server's memory.
    pub blocks_read: u64,
    /// Blocks that were.
    pub blocks_hit: u64,
    /// The data that did not fit into the memory of a sort or a hash \[bytes\].
    pub temporary_bytes: u64,
    /// The log that was written \[bytes\].
    pub wal_bytes: u64,
    /// Images of whole pages in it.
    pub wal_images: u64,
    /// The number of times that a session had to write the log because its buffers were full.
    pub wal_buffers_full: u64,
    /// Checkpoints because it was time.
    pub checkpoints_timed: u64,
    /// Checkpoints because the log had grown, or somebody asked.
    pub checkpoints_requested: u64,
    /// Writes of blocks by the sessions themselves.
    pub session_writes: u64,
    /// Writes of blocks by all.
    pub writes: u64,
    /// By name of the table.
    pub tables: BTreeMap<String, TableUse>,
    /// Samples of active sessions, by what they waited for; `running` where it was nothing.
    pub waits: BTreeMap<String, u64>,
    /// The statements that took the longest, if pg_stat_statements counts.
    pub statements: Option<Vec<Statement>>,
}

impl Observed {
    /// The difference of two readings; what a restart has set back counts from nothing.
    pub(super) fn between(
        before: &Observed,
        after: Observed,
        elapsed: Duration,
        waits: Waits,
    ) -> Observed {
        let since = |of: fn(&Observed) -> u64| {
            of(&after).checked_sub(of(before)).unwrap_or_else(|| of(&after))
        };
        let tables = after.tables.iter().map(|(name, use_)| {
            let earlier = before.tables.get(name).copied().unwrap_or_default();
            (name.clone(), use_.since(&earlier))
        });
        let statements = after.statements.as_ref().map(|after| {
            let before = before.statements.as_deref().unwrap_or_default();
            longest(after.iter().map(|statement| statement.since(before)).collect())
        });
        Observed {
            elapsed_s: elapsed.as_secs_f64(),
            commits: since(|o| o.commits),
            blocks_read: since(|o| o.blocks_read),
            blocks_hit: since(|o| o.blocks_hit),
            temporary_bytes: since(|o| o.temporary_bytes),
            wal_bytes: since(|o| o.wal_bytes),
            wal_images: since(|o| o.wal_images),
            wal_buffers_full: since(|o| o.wal_buffers_full),
            checkpoints_timed: since(|o| o.checkpoints_timed),
            checkpoints_requested: since(|o| o.checkpoints_requested),
            session_writes: since(|o| o.session_writes),
            writes: since(|o| o.writes),
            tables: tables.collect(),
            waits,
            statements,
            settings: after.settings,
            database_bytes: after.database_bytes,
        }
    }

    /// The share of the samples in which a session waited for one of these; 0 without samples.
    pub fn waiting_for(&self, names: &[&str]) -> f64 {
        let of = |name: &str| self.waits.get(name).copied().unwrap_or(0);
        let waited: u64 = names.iter().copied().map(of).sum();
        waited as f64 / self.waits.values().sum::<u64>().max(1) as f64
    }
}

impl TableUse {
    fn since(&self, earlier: &TableUse) -> TableUse {
        let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        TableUse {
            blocks_read: since(self.blocks_read, earlier.blocks_read),
            blocks_hit: since(self.blocks_hit, earlier.blocks_hit),
            inserts: since(self.inserts, earlier.inserts),
            updates: since(self.updates, earlier.updates),
            hot_updates: since(self.hot_updates, earlier.hot_updates),
            deletes: since(self.deletes, earlier.deletes),
            sequential_scans: since(self.sequential_scans, earlier.sequential_scans),
            ..*self
        }
    }
}

impl Statement {
    fn since(&self, before: &[Statement]) -> Statement {
        let Some(earlier) = before.iter().find(|earlier| earlier.text == self.text) else {
            return self.clone();
        };
        match self.calls.checked_sub(earlier.calls) {
            Some(calls) => Statement {
                text: self.text.clone(),
                calls,
                total_s: self.total_s - earlier.total_s,
                wal_bytes: self.wal_bytes.saturating_sub(earlier.wal_bytes),
            },
            None => self.clone(),
        }
    }
}

fn longest(mut statements: Vec<Statement>) -> Vec<Statement> {
    statements.retain(|statement| statement.calls > 0);
    statements.sort_by(|a, b| b.total_s.total_cmp(&a.total_s));
    statements.truncate(STATEMENTS as usize);
    statements
}

/// Reads all counters as they stand.
pub(super) async fn read(client: &Client) -> Result<Observed, TuneError> {
    let version = "select current_setting('server_version_num')::int4";
    let version: i32 = one(client, version, "version").await?.get(0);
    let mut now = Observed { settings: settings(client).await?, ..Observed::default() };
    let sql = "select xact_commit, blks_read, blks_hit, temp_bytes, \
        pg_database_size(datid) from pg_stat_database where datname = current_database()";
    let row = one(client, sql, "database counters").await?;
    (now.commits, now.blocks_read) = (count(&row, 0), count(&row, 1));
    (now.blocks_hit, now.temporary_bytes) = (count(&row, 2), count(&row, 3));
    now.database_bytes = count(&row, 4);
    let sql = "select wal_bytes::int8, wal_fpi, wal_buffers_full from pg_stat_wal";
    let row = one(client, sql, "counters of the log").await?;
    (now.wal_bytes, now.wal_images) = (count(&row, 0), count(&row, 1));
    now.wal_buffers_full = count(&row, 2);
    let sql = match version {
        170_000.. => "select num_timed, num_requested from pg_stat_checkpointer",
        _ => "select checkpoints_timed, checkpoints_req from pg_stat_bgwriter",
    };
    let row = one(client, sql, "checkpoints").await?;
    (now.checkpoints_timed, now.checkpoints_requested) = (count(&row, 0), count(&row, 1));
    let sql = match version {
        160_000.. => {
            "select coalesce(sum(writes) filter (where backend_type = 'client backend'), 0)::int8, \
                coalesce(sum(writes), 0)::int8 from pg_stat_io where object = 'relation'"
        }
        _ => {
            "select buffers_backend, buffers_backend + buffers_checkpoint + buffers_clean \
                from pg_stat_bgwriter"
        }
    };
    let row = one(client, sql, "writes").await?;
    (now.session_writes, now.writes) = (count(&row, 0), count(&row, 1));
    now.tables = tables(client).await?;
    now.statements = statements(client).await?;
    Ok(now)
}

async fn one(client: &Client, sql: &str, what: &'static str) -> Result<Row, TuneError> {
    client.query_one(sql, &[]).await.map_err(|source| TuneError::Unread { what, source })
}

/// A counter; none is ever negative.
fn count(row: &Row, column: usize) -> u64 {
    row.get::<_, Option<i64>>(column).unwrap_or(0).max(0) as u64
}

async fn settings(client: &Client) -> Result<BTreeMap<String, Setting>, TuneError> {
    let sql = "select name, current_setting(name), coalesce(setting, ''), coalesce(unit, ''), \
        context, source, coalesce(enumvals, '{}') from pg_settings where name = any ($1)";
    let names = SETTINGS.to_vec();
    let rows = client.query(sql, &[&names]).await;
    let rows = rows.map_err(|source| TuneError::Unread { what: "settings", source })?;
    let settings = rows.iter().map(|row| {
        let setting = Setting {
            value: row.get(1),
            base: row.get(2),
            unit: row.get(3),
            context: row.get(4),
            source: row.get(5),
            choices: row.get(6),
        };
        (row.get(0), setting)
    });
    Ok(settings.collect())
}

async fn tables(client: &Client) -> Result<BTreeMap<String, TableUse>, TuneError> {
    let sql = "select t.relname::text, \
            coalesce(heap_blks_read, 0) + coalesce(idx_blks_read, 0), \
            coalesce(heap_blks_hit, 0) + coalesce(idx_blks_hit, 0), \
            n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, seq_scan, n_dead_tup, n_live_tup, \
            pg_total_relation_size(t.relid) \
        from pg_stat_user_tables t join pg_statio_user_tables io using (relid) \
        where t.relname = any ($1) and pg_table_is_visible(t.relid)";
    let names = TABLES.map(|table| table.name).to_vec();
    let rows = client.query(sql, &[&names]).await;
    let rows = rows.map_err(|source| TuneError::Unread { what: "tables' counters", source })?;
    let tables = rows.iter().map(|row| {
        let table = TableUse {
            blocks_read: count(row, 1),
            blocks_hit: count(row, 2),
            inserts: count(row, 3),
            updates: count(row, 4),
            hot_updates: count(row, 5),
            deletes: count(row, 6),
            sequential_scans: count(row, 7),
            dead: count(row, 8),
            live: count(row, 9),
            bytes: count(row, 10),
        };
        (row.get(0), table)
    });
    Ok(tables.collect())
}

/// `None` where the extension is not there, or counts nothing because it was not loaded at a start.
async fn statements(client: &Client) -> Result<Option<Vec<Statement>>, TuneError> {
    let unread = |source| TuneError::Unread { what: "statements", source };
    let sql = "select to_regclass('pg_stat_statements') is not null \
        and current_setting('shared_preload_libraries') like '%pg_stat_statements%'";
    if !client.query_one(sql, &[]).await.map_err(unread)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let sql = "select left(regexp_replace(query, '\\s+', ' ', 'g'), 60), sum(calls)::int8, \
            sum(total_exec_time) / 1000, sum(wal_bytes)::int8 from pg_stat_statements \
        where dbid = (select oid from pg_database where datname = current_database()) \
        group by 1";
    let rows = client.query(sql, &[]).await.map_err(unread)?;
    let statements = rows.iter().map(|row| Statement {
        text: row.get(0),
        calls: count(row, 1),
        total_s: row.get(2),
        wal_bytes: count(row, 3),
    });
    Ok(Some(statements.collect()))
}

/// Looks once what the other sessions of the database wait for.
pub(super) async fn sample(client: &Client, waits: &mut Waits) -> Result<(), TuneError> {
    let sql = "select case when state = 'active' \
                then coalesce(wait_event_type || ' ' || wait_event, 'running') \
                else state end, count(*) \
        from pg_stat_activity where datname = current_database() \
            and backend_type = 'client backend' and pid <> pg_backend_pid() \
            and state in ('active', 'idle in transaction') group by 1";
    let rows = client.query(sql, &[]).await;
    for row in &rows.map_err(|source| TuneError::Unread { what: "waits", source })? {
        *waits.entry(row.get(0)).or_default() += count(row, 1);
    }
    Ok(())
}
