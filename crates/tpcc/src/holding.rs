//! Clients of a PostgreSQL that think, and then ask it to sleep for a time of chance: jobs that take
//! a slot of whatever stands before it and hardly anything else. So the demand is known, whatever the
//! machine, and what is left of the response is the wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select, try_join_all};
use thiserror::Error;
use tokio_postgres::NoTls;
use workload::{Dist, stream};

use crate::{Config, PlaceError};

/// Load to be asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of clients, at least 1.
    pub clients: u32,
    /// Think time before each job \[s\].
    pub think: Dist,
    /// Hold of a job at its server \[s\]. PostgreSQL sleeps for whole milliseconds, and so what is
    /// drawn is rounded, to one at least.
    pub hold: Dist,
    /// The time before, which is not counted.
    pub ramp: Duration,
    /// The time that is counted.
    pub measure: Duration,
    /// Of all chance.
    pub seed: u64,
}

/// Observations of the jobs that ended while it counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// From asked to answered, in the order of the answers \[s\].
    pub responses: Vec<f64>,
    /// The sleep that each was told \[s\].
    pub holds: Vec<f64>,
    /// The time counted \[s\].
    pub elapsed_s: f64,
}

/// Why there is nothing to be seen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HoldingError {
    /// The clients cannot run.
    #[error("the clients cannot be started: {0}")]
    Start(#[from] std::io::Error),
    /// It was asked to stop.
    #[error("the clients were stopped")]
    Interrupted,
    /// The server is not where load may go, or nowhere.
    #[error(transparent)]
    Reach(#[from] PlaceError),
    /// The server, or what stands before it, has refused something.
    #[error("client {client} of {clients}: {source}")]
    Refused {
        /// The client, from 1.
        client: u32,
        /// Of how many.
        clients: u32,
        /// The error that it got.
        source: tokio_postgres::Error,
    },
}

/// One job: when it was answered, how long that took, and how long it was told to sleep \[s\].
type Job = (Instant, f64, f64);

/// Interval between looks for a wish to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Lets the clients ask, all of them logged in before the first asks, until they have or `stop` is
/// set.
///
/// # Errors
/// If a client is refused, by whatever it speaks to, or if it is stopped; the others end then.
pub fn run(to: &Config, plan: &Plan, stop: &AtomicBool) -> Result<Seen, HoldingError> {
    let to = &to.judged()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let entered = Arc::new(tokio::sync::Barrier::new(plan.clients as usize));
        let clients = (0..plan.clients).map(|number| client(to, plan, number, entered.clone()));
        let stopped = async {
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let jobs = match select(pin!(try_join_all(clients)), pin!(stopped)).await {
            Either::Left((jobs, _)) => jobs?,
            Either::Right(_) => return Err(HoldingError::Interrupted),
        };
        let (began, ended) = jobs[0].0;
        let mut all: Vec<Job> = jobs.into_iter().flat_map(|(_, jobs)| jobs).collect();
        all.retain(|(at, _, _)| (began..ended).contains(at));
        all.sort_by_key(|(at, _, _)| *at);
        let (responses, holds) = all.iter().map(|(_, response, hold)| (response, hold)).unzip();
        Ok(Seen { responses, holds, elapsed_s: plan.measure.as_secs_f64() })
    })
}

/// A client: between when it counted, and all jobs that it had.
async fn client(
    to: &tokio_postgres::Config,
    plan: &Plan,
    number: u32,
    entered: Arc<tokio::sync::Barrier>,
) -> Result<((Instant, Instant), Vec<Job>), HoldingError> {
    let refused =
        |source| HoldingError::Refused { client: number + 1, clients: plan.clients, source };
    let (client, connection) = to.connect(NoTls).await.map_err(refused)?;
    // It ends with its client; what ends it is told to the client too.
    let connection = tokio::spawn(connection);
    entered.wait().await;
    let began = Instant::now() + plan.ramp;
    let ended = began + plan.measure;
    let (mut chance, mut jobs) = (stream(plan.seed, number.into()), Vec::new());
    while Instant::now() < ended {
        let think = plan.think.sample(&mut chance);
        tokio::time::sleep(Duration::from_secs_f64(think)).await;
        let hold = (plan.hold.sample(&mut chance) * 1e3).round().max(1.0) / 1e3;
        let asked = Instant::now();
        client.simple_query(&format!("select pg_sleep({hold})")).await.map_err(refused)?;
        let answered = Instant::now();
        jobs.push((answered, (answered - asked).as_secs_f64(), hold));
    }
    drop(client);
    // Whoever has said goodbye need not know how the connection ended.
    let _ = connection.await;
    Ok(((began, ended), jobs))
}
