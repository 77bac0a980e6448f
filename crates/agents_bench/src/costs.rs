//! The costs of passes: time, processor time of this process and of the database, write-ahead log.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;
use tpcc::Config;

use crate::load::RunError;

/// Unit of `/proc/PID/stat`: Linux says 100 a second to programs, whatever it uses itself.
const TICK: Duration = Duration::from_millis(10);

/// The costs of something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Time that passed.
    pub wall: Duration,
    /// Processor time of this process.
    pub own: Duration,
    /// Processor time of the database, all its processes.
    pub database: Duration,
    /// Bytes of the database's write-ahead log.
    pub wal: u64,
}

impl Costs {
    /// More costs.
    pub fn add(&mut self, other: &Costs) {
        self.wall += other.wall;
        self.own += other.own;
        self.database += other.database;
        self.wal += other.wal;
    }

    /// Costs of so many times as much.
    ///
    /// # Panics
    /// If the factor is below 0.
    pub fn times(&self, factor: f64) -> Costs {
        Costs {
            wall: self.wall.mul_f64(factor),
            own: self.own.mul_f64(factor),
            database: self.database.mul_f64(factor),
            wal: (self.wal as f64 * factor) as u64,
        }
    }
}

/// A meter of costs, with a connection of its own.
pub struct Meter {
    runtime: Runtime,
    client: Client,
    server: u32,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Meter {
    /// A meter of this process and of the database whose first process is `server`.
    ///
    /// # Errors
    /// The database is out of reach.
    pub fn new(config: &Config, server: u32) -> Result<Meter, RunError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(config.open());
        let client = client.map_err(|error| RunError::Database(error.to_string()))?;
        Ok(Meter { runtime, client, server })
    }

    /// Runs statements: their work is over when this returns.
    ///
    /// # Errors
    /// The database refuses.
    pub fn run(&self, sql: &str) -> Result<(), RunError> {
        let ran = self.runtime.block_on(self.client.batch_execute(sql));
        ran.map_err(|error| RunError::Database(error.to_string()))
    }

    /// Costs of a call.
    ///
    /// # Errors
    /// The call fails, or the costs cannot be read.
    pub fn of<T>(
        &self,
        call: impl FnOnce() -> Result<T, RunError>,
    ) -> Result<(T, Costs), RunError> {
        let (own, database, wal) = self.now()?;
        let start = Instant::now();
        let got = call()?;
        let wall = start.elapsed();
        let (own_end, database_end, wal_end) = self.now()?;
        let costs = Costs {
            wall,
            own: own_end.saturating_sub(own),
            database: database_end.saturating_sub(database),
            wal: wal_end.saturating_sub(wal),
        };
        Ok((got, costs))
    }

    fn now(&self) -> Result<(Duration, Duration, u64), RunError> {
        let sql = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8";
        let row = self.runtime.block_on(self.client.query_one(sql, &[]));
        let wal: i64 = row.map_err(|error| RunError::Database(error.to_string()))?.get(0);
        let [own, _] = ticks("self")?;
        let server = self.server;
        // Of its processes those that have ended are counted in the first one.
        let [first, ended] = ticks(&server.to_string())?;
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"))?;
        // One that ends between the two readings is in the next one's.
        let live = children.split_whitespace().filter_map(|child| ticks(child).ok());
        let database = first + ended + live.map(|[own, _]| own).sum::<u32>();
        Ok((TICK * own, TICK * database, wal as u64))
    }
}

/// Processor time of a process, and of those that it has waited for, in [`TICK`]s.
fn ticks(process: &str) -> io::Result<[u32; 2]> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    parsed(&text).ok_or_else(|| io::Error::other(format!("/proc/{process}/stat says {text}")))
}

/// The name of a program, in brackets, may hold anything; the fields after it are numbered from 3.
fn parsed(stat: &str) -> Option<[u32; 2]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u32>().ok();
    Some([field(14)? + field(15)?, field(16)? + field(17)?])
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_program_is_called() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 200 0 0 12 30 4 5 20 0 1 0 9 9 9";
        assert_eq!(parsed(line), Some([42, 9]));
        assert_eq!(parsed("7 (a) S 1"), None);
        assert_eq!(parsed("nothing"), None);
    }
}
