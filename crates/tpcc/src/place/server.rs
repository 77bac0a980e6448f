//! Questions to a server: its counters, and to move relations between tablespaces.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::assign::{Kind, Placement};
use super::counters::{Accesses, Relation, Snapshot};
use crate::connection::Config;
use crate::loader::LoadRecord;
use crate::schema::TABLES;
use crate::transactions::{OpenError, connect};

/// Prefix of the tablespaces' names; a number follows.
const TABLESPACE: &str = "sekisho_place_";
/// Processes of the server tell their counters once a second.
const TOLD: Duration = Duration::from_millis(1_200);
/// Interval between looks for a wish to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit for a server to hear that a statement is not wanted any more.
const CANCEL: Duration = Duration::from_secs(5);
/// A table that others work on is not waited for longer.
const LOCK_TIMEOUT: &str = "set lock_timeout = '10s'; set statement_timeout = 0";

/// Why nothing could be observed or moved.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// There is no way into the database.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database was not loaded by us, or not to the end.
    #[error(
        "the database holds no whole load of TPC-C's tables: `sekisho tpcc load --warehouses N` makes one"
    )]
    NotLoaded,
    /// Relations lie in our tablespaces already.
    #[error("`{tablespace}` is there from an earlier placement: undo that first")]
    Placed {
        /// The first such tablespace.
        tablespace: String,
    },
    /// A statement was refused.
    #[error("`{sql}`: {cause}{way_out}; {done} of {of} steps are done{}", undo(*.done))]
    Refused {
        /// The statement.
        sql: String,
        /// The message of the server.
        cause: String,
        /// The way out.
        way_out: &'static str,
        /// The number of steps done before it.
        done: usize,
        /// Of how many.
        of: usize,
    },
    /// The user asked to stop.
    #[error("interrupted: {done} steps are done{}", undo(*.done))]
    Interrupted {
        /// The number of steps done.
        done: usize,
    },
    /// The database does not tell its counters.
    #[error("the database does not tell its statistics: {0}")]
    Statistics(#[source] tokio_postgres::Error),
    /// The machine refuses what a connection needs.
    #[error("cannot talk to the database: {0}")]
    Machine(#[from] std::io::Error),
}

fn undo(done: usize) -> &'static str {
    if done == 0 { "" } else { ", and undoing puts them back" }
}

/// The counters, and whether what was changed before had been written.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The counters.
    pub snapshot: Snapshot,
    /// The message of the server where it would not write all changed pages first.
    pub unwritten: Option<String>,
}

/// Asks for the counters of a loaded database, after a checkpoint, so that every change until then
/// has been written and is counted.
///
/// # Errors
/// If there is no connection, no whole load, or no statistics; or if it was to stop.
pub fn observe(config: &Config, stop: &AtomicBool) -> Result<Observed, PlaceError> {
    with_client(config, stop, async |client, _| {
        let load = LoadRecord::read(client).await.map_err(PlaceError::Statistics)?;
        if !load.is_some_and(|load| load.complete) {
            return Err(PlaceError::NotLoaded);
        }
        let refused = client.batch_execute("checkpoint").await.err();
        let unwritten = refused.map(|error| said(&error));
        sleep(TOLD).await;
        let snapshot = read(client).await.map_err(PlaceError::Statistics)?;
        Ok(Observed { snapshot, unwritten })
    })
}

/// The folder of the server's files, on its own machine; `None` where it does not tell us.
///
/// # Errors
/// If there is no connection, or if it was to stop.
pub fn data_directory(config: &Config, stop: &AtomicBool) -> Result<Option<PathBuf>, PlaceError> {
    with_client(config, stop, async |client, _| {
        let row = client.query_one("select current_setting('data_directory')", &[]).await;
        Ok(row.ok().map(|row| PathBuf::from(row.get::<_, String>(0))))
    })
}

async fn read(client: &Client) -> Result<Snapshot, tokio_postgres::Error> {
    let row = client
        .query_one(
            "select current_setting('server_version_num')::int4, \
             current_setting('block_size')::float8",
            &[],
        )
        .await?;
    let (release, block): (i32, f64) = (row.get(0), row.get(1));
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let rows = client.query(RELATIONS, &[&names]).await?;
    let relations = rows
        .iter()
        .map(|row| Relation {
            name: row.get(0),
            is_index: row.get(1),
            tablespace: row.get(2),
            pages: row.get::<_, f64>(3) / block,
            rows_per_page: row.get(4),
            read: row.get(5),
            inserted: row.get(6),
            updated: row.get(7),
            updated_hot: row.get(8),
            deleted: row.get(9),
        })
        .collect();
    let log = client.query_one(log_sql(release), &[]).await?;
    let written = client.query_one(written_sql(release), &[]).await?;
    Ok(Snapshot {
        release,
        block,
        relations,
        log_bytes: log.get(0),
        log_writes: log.get(1),
        written: written.get(0),
    })
}

/// Tables and their indexes, by name.
const RELATIONS: &str = "
select part.relname::text, part.relkind <> 'r', coalesce(space.spcname::text, ''),
    pg_relation_size(part.oid)::float8,
    case when part.relpages > 0 and part.reltuples > 0
        then part.reltuples::float8 / part.relpages else 0 end,
    coalesce(case part.relkind when 'r' then io.heap_blks_read else index_io.idx_blks_read end, 0)
        ::float8,
    seen.n_tup_ins::float8, seen.n_tup_upd::float8, seen.n_tup_hot_upd::float8,
    seen.n_tup_del::float8
from unnest($1::text[]) name
join pg_class whole on whole.oid = to_regclass(name)
join pg_stat_user_tables seen on seen.relid = whole.oid
join lateral (select whole.oid union all
    select indexrelid from pg_index where indrelid = whole.oid) every (oid) on true
join pg_class part on part.oid = every.oid
left join pg_statio_user_tables io on io.relid = part.oid
left join pg_statio_user_indexes index_io on index_io.indexrelid = part.oid
left join pg_tablespace space on space.oid = part.reltablespace
order by 1";

/// Bytes and writes of the log. Since release 18 its writes are among all others; making a new
/// segment is none of them.
fn log_sql(release: i32) -> &'static str {
    if release >= 180_000 {
        "select (select wal_bytes::float8 from pg_stat_wal), \
         coalesce(sum(writes), 0)::float8 from pg_stat_io \
         where object = 'wal' and context = 'normal'"
    } else {
        "select wal_bytes::float8, wal_write::float8 from pg_stat_wal"
    }
}

/// Blocks of relations written or added. Release 16 brought the view that tells of all writers, and
/// release 18 writes several blocks at once.
fn written_sql(release: i32) -> &'static str {
    if release >= 180_000 {
        "select coalesce(sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)), 0)::float8 \
         / current_setting('block_size')::float8 from pg_stat_io \
         where object = 'relation'"
    } else if release >= 160_000 {
        "select coalesce(sum(coalesce(writes, 0) + coalesce(extends, 0)), 0)::float8 \
         from pg_stat_io where object = 'relation'"
    } else {
        "select (buffers_checkpoint + buffers_clean + buffers_backend)::float8 \
         from pg_stat_bgwriter"
    }
}

/// A statement of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A tablespace for a directory of the server's machine.
    Make {
        /// Its name.
        tablespace: String,
        /// The directory.
        folder: PathBuf,
    },
    /// A relation goes to a tablespace.
    Move {
        /// Its name.
        relation: String,
        /// [`Kind::Table`] or [`Kind::Index`].
        kind: Kind,
        /// The destination.
        tablespace: String,
    },
    /// A tablespace is not needed any more.
    Drop {
        /// Its name.
        tablespace: String,
    },
}

impl Step {
    /// As the server wants it.
    pub fn sql(&self) -> String {
        match self {
            Step::Make { tablespace, folder } => format!(
                "create tablespace {} location {}",
                name(tablespace),
                literal(&folder.to_string_lossy())
            ),
            Step::Move { relation, kind, tablespace } => {
                let kind = if *kind == Kind::Index { "index" } else { "table" };
                format!("alter {kind} {} set tablespace {}", name(relation), name(tablespace))
            }
            Step::Drop { tablespace } => format!("drop tablespace {}", name(tablespace)),
        }
    }
}

/// An identifier; quoted only where it must be, since people read it.
fn name(name: &str) -> String {
    let is_plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn literal(text: &str) -> String {
    // A backslash means nothing unless somebody has set it to, long ago.
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// The steps of a placement of what was observed; the log is not among them.
///
/// # Panics
/// If the placement is of something else, or of more directories.
pub fn steps(accesses: &Accesses, placement: &Placement, folders: &[&Path]) -> Vec<Step> {
    assert_eq!(accesses.all.len(), placement.of.len(), "a placement of something else");
    let tablespace = |directory: usize| format!("{TABLESPACE}{}", directory + 1);
    let relations =
        accesses.all.iter().zip(&placement.of).filter(|(access, _)| access.kind != Kind::Log);
    let moves: Vec<(usize, Step)> = relations
        .map(|(access, directory)| {
            let step = Step::Move {
                relation: access.name.clone(),
                kind: access.kind,
                tablespace: tablespace(*directory),
            };
            (*directory, step)
        })
        .collect();
    let is_used = |directory: &usize| moves.iter().any(|(to, _)| to == directory);
    let made = (0..folders.len()).filter(is_used).map(|directory| Step::Make {
        tablespace: tablespace(directory),
        folder: folders[directory].to_owned(),
    });
    made.chain(moves.iter().map(|(_, step)| step.clone())).collect()
}

/// The steps that put back whatever lies in tablespaces of a placement, in this database.
///
/// # Errors
/// If there is no connection, or if it was to stop.
pub fn undoing(config: &Config, stop: &AtomicBool) -> Result<Vec<Step>, PlaceError> {
    with_client(config, stop, async |client, _| {
        let pattern = format!("^{TABLESPACE}[0-9]+$");
        let relations = client
            .query(
                "select relname::text, relkind = 'i', own.spcname::text \
                 from pg_class join pg_tablespace space on space.oid = reltablespace, \
                 pg_database base join pg_tablespace own on own.oid = base.dattablespace \
                 where space.spcname ~ $1 and relkind in ('r', 'i') \
                 and relnamespace <> 'pg_toast'::regnamespace \
                 and base.datname = current_database() order by 1",
                &[&pattern],
            )
            .await
            .map_err(PlaceError::Statistics)?;
        let moves = relations.iter().map(|row| Step::Move {
            relation: row.get(0),
            kind: if row.get(1) { Kind::Index } else { Kind::Table },
            tablespace: row.get(2),
        });
        let spaces = tablespaces(client).await?;
        let drops = spaces.into_iter().map(|tablespace| Step::Drop { tablespace });
        Ok(moves.chain(drops).collect())
    })
}

/// The tablespaces of a placement.
async fn tablespaces(client: &Client) -> Result<Vec<String>, PlaceError> {
    let pattern = format!("^{TABLESPACE}[0-9]+$");
    let sql = "select spcname::text from pg_tablespace where spcname ~ $1 order by 1";
    let rows = client.query(sql, &[&pattern]).await.map_err(PlaceError::Statistics)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Performs steps one after the other, each whole or not at all. `progress` is told how many are
/// done. A table is closed to others while it is moved.
///
/// # Errors
/// If a placement is there already, the server refuses a step, or it was to stop; the error says how
/// many steps are done.
pub fn perform(
    config: &Config,
    steps: &[Step],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<(), PlaceError> {
    with_client(config, stop, async |client, done| {
        client.batch_execute(LOCK_TIMEOUT).await.map_err(PlaceError::Statistics)?;
        if steps.iter().any(|step| matches!(step, Step::Make { .. }))
            && let Some(tablespace) = tablespaces(client).await?.into_iter().next()
        {
            return Err(PlaceError::Placed { tablespace });
        }
        for (at, step) in steps.iter().enumerate() {
            let sql = step.sql();
            client.batch_execute(&sql).await.map_err(|error| PlaceError::Refused {
                cause: said(&error),
                way_out: way_out(step, &error),
                sql,
                done: at,
                of: steps.len(),
            })?;
            *done = at + 1;
            progress(at + 1);
        }
        Ok(())
    })
}

/// The message of the server.
fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned())
}

fn way_out(step: &Step, error: &tokio_postgres::Error) -> &'static str {
    let Some(code) = error.code() else { return "" };
    let makes = matches!(step, Step::Make { .. });
    match *code {
        SqlState::UNDEFINED_FILE if makes => {
            ": make it on the server's machine, `install -d -o postgres -g postgres -m 700 DIR`"
        }
        SqlState::INSUFFICIENT_PRIVILEGE if makes && !said(error).contains("directory") => {
            ": only a superuser makes tablespaces, so connect as one"
        }
        SqlState::INSUFFICIENT_PRIVILEGE if makes => {
            ": the server's user must own the directory, `chown postgres: DIR`, and may enter those \
             above it"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => ": connect as the owner of the tables, or a superuser",
        SqlState::OBJECT_IN_USE if makes => ": it is a tablespace already, name another directory",
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE | SqlState::OBJECT_IN_USE => {
            ": another database has relations in it, undo there too"
        }
        SqlState::LOCK_NOT_AVAILABLE => ": others use the table, wait until they do not",
        SqlState::DISK_FULL => ": make room there, or name another directory",
        _ => "",
    }
}

/// Lets a client work until it is done or `stop` is set; then what it does is cancelled. The number
/// is how many steps it says it has done.
fn with_client<T>(
    config: &Config,
    stop: &AtomicBool,
    work: impl AsyncFnOnce(&Client, &mut usize) -> Result<T, PlaceError>,
) -> Result<T, PlaceError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(config, 1).await?;
        let token = client.cancel_token();
        let mut done = 0;
        let stopped = {
            let mut working = pin!(work(&client, &mut done));
            loop {
                if let Ok(result) = timeout(LOOK, &mut working).await {
                    break Some(result);
                }
                if stop.load(Ordering::Relaxed) {
                    // A server that does not even hear this will notice that we are gone.
                    let _ = timeout(CANCEL, config.cancel(&token)).await;
                    break None;
                }
            }
        };
        stopped.unwrap_or(Err(PlaceError::Interrupted { done }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{Access, Arrangement, LOG};

    fn access(name: &str, kind: Kind) -> Access {
        Access {
            name: name.into(),
            kind,
            pages: 1.0,
            tablespace: String::new(),
            read: 1.0,
            written: 1.0,
            appended: 0.0,
        }
    }

    #[test]
    fn a_placement_becomes_statements_and_a_directory_without_relations_none() {
        let all = vec![
            access(LOG, Kind::Log),
            access("stock", Kind::Table),
            access("Odd\"name", Kind::Index),
        ];
        let accesses = Accesses { all, written: 2.0, scale: 1.0, block: 8192.0 };
        let placement = Placement {
            of: vec![0, 1, 2],
            arrangement: Arrangement::Apart,
            rates: vec![1.0; 3],
            bound: 1.0,
        };
        let folders = ["/a", "/b's", "/c\\d"].map(Path::new);
        let sql: Vec<String> =
            steps(&accesses, &placement, &folders).iter().map(Step::sql).collect();
        assert_eq!(
            sql,
            [
                "create tablespace sekisho_place_2 location '/b''s'",
                "create tablespace sekisho_place_3 location E'/c\\\\d'",
                "alter table stock set tablespace sekisho_place_2",
                "alter index \"Odd\"\"name\" set tablespace sekisho_place_3",
            ]
        );
        let drop = Step::Drop { tablespace: "sekisho_place_2".into() };
        assert_eq!(drop.sql(), "drop tablespace sekisho_place_2");
    }
}
