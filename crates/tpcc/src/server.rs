//! The database as a whole: whether it holds what a run asks for, its settings, its checkpoints.

use std::sync::atomic::AtomicBool;

use tokio_postgres::Client;

use super::connection::Config;
use super::loader::LoadRecord;
use super::meeting::{MeetError, Meeting, Start};
use super::record::{Plan, Server};
use super::terminals::RunError;
use super::transactions::{OpenError, connect};

/// The settings that decide what a result is worth.
const SETTINGS: [&str; 14] = [
    "autovacuum",
    "checkpoint_timeout",
    "commit_delay",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "max_connections",
    "max_wal_size",
    "random_page_cost",
    "shared_buffers",
    "synchronous_commit",
    "wal_buffers",
    "wal_level",
    "work_mem",
];

/// Facts of a database before anything is asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The release of its server, as in `15.18`.
    pub version: String,
    /// The record of its load; `None` where it was not by us, or its record cannot be read: whoever
    /// needs one says so.
    pub load: Option<LoadRecord>,
}

/// Asks a server for its release, and its database for what it was loaded with.
///
/// # Errors
/// If there is no connection, or it does not say.
pub fn facts(config: &Config) -> Result<Facts, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(config, 1).await?;
        let row = client.query_one("show server_version", &[]).await;
        let said: String = row.map_err(OpenError::Prepare)?.get(0);
        let load = LoadRecord::read(&client).await.ok().flatten();
        // A distribution adds words of its own.
        let version = said.split(' ').next().unwrap_or_default().to_owned();
        Ok(Facts { version, load })
    })
}

/// Connections that a server lets one user have to one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// So many at most, if nobody else has any.
    pub connections: u32,
    /// The setting that says so, in words.
    pub by: String,
}

/// Asks a server how many connections it lets the user of an address have.
///
/// # Errors
/// If there is no connection, or it does not say.
pub fn allowance(config: &Config) -> Result<Allowance, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(config, 1).await?;
        let row = client.query_one(include_str!("allowance.sql"), &[]).await;
        let row = row.map_err(OpenError::Prepare)?;
        let [most, reserved, of_role, of_database]: [i32; 4] = [0, 1, 2, 3].map(|at| row.get(at));
        Ok(least_of(most, reserved, of_role, of_database))
    })
}

/// The least of the limits; one below 0 is none.
fn least_of(most: i32, reserved: i32, of_role: i32, of_database: i32) -> Allowance {
    let shared = match reserved {
        0 => format!("max_connections is {most}"),
        reserved => format!("max_connections is {most}, and {reserved} of them are reserved"),
    };
    let limits = [
        (most - reserved, shared),
        (of_role, "CONNECTION LIMIT of its role".to_owned()),
        (of_database, "CONNECTION LIMIT of the database".to_owned()),
    ];
    let there = limits.into_iter().filter(|(limit, _)| *limit >= 0);
    let (connections, by) = there.min_by_key(|(limit, _)| *limit).expect("the first is there");
    Allowance { connections: connections.unsigned_abs(), by }
}

/// A connection beside those of the terminals, that looks on.
#[derive(Debug)]
pub(super) struct Monitor {
    client: Client,
    checkpoints: &'static str,
}

/// Connects, and looks whether as many warehouses are loaded as are asked for.
pub(super) async fn examine(config: &Config, asked: u32) -> Result<(Monitor, Server), RunError> {
    let client = connect(config, 1).await?;
    let load = LoadRecord::read(&client).await.map_err(OpenError::Schema)?;
    let load = load.ok_or(RunError::NotLoaded)?;
    if !load.complete {
        return Err(RunError::Incomplete { warehouses: load.warehouses });
    }
    if load.warehouses < asked {
        return Err(RunError::TooFewWarehouses { asked, loaded: load.warehouses });
    }
    let settings = SETTINGS.map(str::to_owned).to_vec();
    let rows = client
        .query(
            "select name, current_setting(name) from pg_settings where name = any ($1)",
            &[&settings],
        )
        .await
        .map_err(OpenError::Prepare)?;
    let row = client
        .query_one(
            "select version(), current_setting('server_version_num')::int4, \
             (select version from pg_stat_ssl where ssl and pid = pg_backend_pid())",
            &[],
        )
        .await
        .map_err(OpenError::Prepare)?;
    // The checkpointer has statistics of its own since release 17.
    let checkpoints = match row.get::<_, i32>(1) {
        170_000.. => "select num_timed, num_requested from pg_stat_checkpointer",
        _ => "select checkpoints_timed, checkpoints_req from pg_stat_bgwriter",
    };
    let settings = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let server = Server {
        version: row.get(0),
        tls: row.get(2),
        c_load: load.c_load,
        load_seed: load.seed,
        settings,
    };
    Ok((Monitor { client, checkpoints }, server))
}

impl Monitor {
    /// Meets the other parts of a run; this part is there as long as the monitor is.
    pub(super) async fn attend(
        &mut self,
        meeting: &Meeting,
        plan: &Plan,
        stop: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<Start, MeetError> {
        meeting.attend(&mut self.client, plan, stop, waits).await
    }

    /// Checkpoints since the server's statistics began, timed and requested; `None` where they
    /// cannot be seen.
    pub(super) async fn checkpoints(&self) -> Option<(i64, i64)> {
        let row = self.client.query_one(self.checkpoints, &[]).await.ok()?;
        Some((row.get(0), row.get(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts_and_is_named() {
        let of = |limits: [i32; 4]| {
            let [most, reserved, role, database] = limits;
            let Allowance { connections, by } = least_of(most, reserved, role, database);
            (connections, by)
        };
        assert_eq!(of([100, 0, -1, -1]), (100, "max_connections is 100".into()));
        let reserved = "max_connections is 100, and 3 of them are reserved";
        assert_eq!(of([100, 3, -1, -1]), (97, reserved.into()));
        assert_eq!(of([100, 3, 5, 50]), (5, "CONNECTION LIMIT of its role".into()));
        assert_eq!(of([100, 3, 50, 0]), (0, "CONNECTION LIMIT of the database".into()));
    }
}
