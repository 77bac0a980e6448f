//! Tuning of a server's settings by its counters: nakamura's list (section 4) in the names of
//! today, and what came since.
//!
//! [`observe`] reads the counters before and after some work and samples what sessions wait for
//! meanwhile; [`advise`] goes through the settings one by one, from these numbers alone; [`set`] and
//! [`restore`] change one of them. Whether a change helps is for a benchmark to say, not for this.

mod advice;
mod counters;
mod setting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connection::Config;
use super::transactions::{OpenError, connect, reason};

pub use advice::{Advice, Machine, What, advise, settings};
pub use counters::{Observed, Setting, Statement, TableUse};
pub use setting::{Before, answers, checkpoint, restore, set};

/// Interval between samples of what sessions wait for.
const SAMPLE: Duration = Duration::from_millis(50);

/// Why a server could not be read or set.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// There is no connection.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It does not tell its counters.
    #[error("the server does not tell its {what}: {}", reason(.source))]
    Unread {
        /// The thing that it does not tell.
        what: &'static str,
        /// The error that it gave.
        source: tokio_postgres::Error,
    },
    /// It does not let its settings be changed.
    #[error("the server does not let {setting} be changed: {}{}", reason(.source), way_out(.source))]
    Refused {
        /// The setting.
        setting: String,
        /// The error that it gave.
        source: tokio_postgres::Error,
    },
    /// A setting was written, and the server did not take it.
    #[error("{setting} was written and is not in force after {waited_s} s: {why}")]
    NotInForce {
        /// The setting.
        setting: String,
        /// The time waited \[s\].
        waited_s: u64,
        /// The server's message on its file.
        why: String,
    },
    /// The operating system refuses something.
    #[error("cannot look on: {0}")]
    Machine(#[from] std::io::Error),
}

fn way_out(error: &tokio_postgres::Error) -> &'static str {
    match error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        true => "; connect as a superuser, or grant ALTER SYSTEM on it",
        false => "",
    }
}

/// Runs `work`, and tells what the server did meanwhile.
///
/// # Errors
/// If there is no connection, or the server keeps its counters to itself.
///
/// # Panics
/// If the thread that looks on does.
pub fn observe<T>(config: &Config, work: impl FnOnce() -> T) -> Result<(Observed, T), TuneError> {
    let before = with(config, counters::read)?;
    let done = AtomicBool::new(false);
    let began = Instant::now();
    let (worked, waits) = thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            with(config, async |client| {
                let mut waits = counters::Waits::new();
                while !done.load(Ordering::Relaxed) {
                    counters::sample(client, &mut waits).await?;
                    tokio::time::sleep(SAMPLE).await;
                }
                Ok(waits)
            })
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        (worked, sampler.join().expect("it only asks the server"))
    });
    let elapsed = began.elapsed();
    let after = with(config, counters::read)?;
    Ok((Observed::between(&before, after, elapsed, waits?), worked))
}

/// Asks the server something on a connection of its own.
fn with<T>(
    config: &Config,
    ask: impl AsyncFnOnce(&Client) -> Result<T, TuneError>,
) -> Result<T, TuneError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(config, 1).await?;
        ask(&client).await
    })
}
