//! Answers of `gate --json`: what a gate says when it begins, when it has drained, and of its file.

use std::path::PathBuf;
use std::time::Duration;

use cli::json::Answer;
use httpgate::Stats as HttpStats;
use live::{Controlled, Estimate};
use measure::Histogram;
use monitor::{Finished, PoolStats};
use schemars::JsonSchema;
use serde::Serialize;

use super::auto::is_shadow;

/// An HTTP gate that listens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HttpStarted {
    /// Address that clients connect to.
    pub(crate) listening: String,
    /// Address of the live page, metrics and controls, if there is one.
    pub(crate) http: Option<String>,
}

impl Answer for HttpStarted {
    const FORMAT: &'static str = "sekisho/gate-http-start/1";
}

/// A file of an HTTP gate with which one can start.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HttpChecked<'a> {
    /// Addresses of the servers.
    pub(crate) servers: Vec<String>,
    /// Names of the classes.
    pub(crate) classes: Vec<&'a str>,
    /// Remarks on it.
    pub(crate) notes: Vec<String>,
}

impl Answer for HttpChecked<'_> {
    const FORMAT: &'static str = "sekisho/gate-http-check/1";
}

/// An HTTP gate that has drained.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HttpEnded<'a> {
    /// Number of responses of whatever kind.
    responses: u64,
    /// Number whose clients gave up while they waited.
    reneged: u64,
    /// Number refused because the queue was full.
    refused_queue_full: u64,
    /// Number refused because they could not start before their deadline.
    refused_deadline: u64,
    /// Number refused at once that would have waited in vain.
    refused_hopeless: u64,
    /// Number refused because no server could be reached.
    refused_unreachable: u64,
    /// Each server.
    servers: Vec<HttpServer>,
    /// Model of what is behind the gate, as far as the load told it.
    model: &'a [Estimate],
    /// The slots.
    slots: Slots<'a>,
    /// File of the recording, if one was asked for.
    recording: Option<PathBuf>,
    /// File of the fitted scenario, if one was asked for and the load told enough.
    scenario_file: Option<PathBuf>,
}

/// A server behind an HTTP gate.
#[derive(Serialize, JsonSchema)]
struct HttpServer {
    /// Its address.
    address: String,
    /// Number of requests that it served.
    served: u64,
    /// None if none was served.
    wait_mean_s: Option<f64>,
    /// Mean hold of a slot \[s\]; none if it served nothing.
    hold_mean_s: Option<f64>,
}

impl Answer for HttpEnded<'_> {
    const FORMAT: &'static str = "sekisho/gate-http/1";
}

impl<'a> HttpEnded<'a> {
    pub(crate) fn new(
        stats: &HttpStats,
        modelled: &'a httpgate::Modelled,
        [recording, scenario_file]: [Option<PathBuf>; 2],
    ) -> HttpEnded<'a> {
        let mean = |of: Option<Duration>| of.map(|span| span.as_secs_f64());
        let servers = stats.upstreams.iter().map(|upstream| HttpServer {
            address: upstream.address.to_string(),
            served: upstream.hold.count(),
            wait_mean_s: mean(upstream.wait.mean()),
            hold_mean_s: mean(upstream.hold.mean()),
        });
        let slots = stats.upstreams.iter().map(|upstream| upstream.slots).sum();
        HttpEnded {
            responses: stats.responses(),
            reneged: stats.reneged,
            refused_queue_full: stats.refused_queue_full,
            refused_deadline: stats.refused_deadline,
            refused_hopeless: stats.refused_hopeless,
            refused_unreachable: stats.refused_unreachable,
            servers: servers.collect(),
            model: &modelled.estimates,
            slots: Slots::new(slots, modelled.control.as_ref()),
            recording,
            scenario_file,
        }
    }
}

/// The slots at the end, and what was decided about them.
#[derive(Serialize, JsonSchema)]
struct Slots<'a> {
    /// Slots in all at the end.
    now: u32,
    /// None where the slots were not left to the gate.
    #[serde(flatten)]
    control: Option<Control<'a>>,
}

/// Decisions about slots that are left to the gate.
#[derive(Serialize, JsonSchema)]
struct Control<'a> {
    /// Slots of each server that stand.
    standing: &'a [u32],
    /// True if the gate only said what it would have done.
    shadow: bool,
    /// The latest moves.
    moves: Vec<Move>,
    /// Number of moves in all.
    moves_in_all: u64,
}

/// A change of the slots.
#[derive(Serialize, JsonSchema)]
struct Move {
    /// Moment, since the beginning \[s\].
    at_s: f64,
    /// Number of the server, from 0.
    server: u32,
    /// Its slots from then on.
    slots: u32,
    /// Cause of the move, in a word.
    why: String,
}

impl<'a> Slots<'a> {
    fn new(now: u32, control: Option<&'a Controlled>) -> Slots<'a> {
        let moved = |moved: &live::Moved| Move {
            at_s: moved.at.since(gate::Time::ZERO).as_secs_f64(),
            server: moved.server,
            slots: moved.made.slots,
            why: moved.made.why.to_string(),
        };
        let control = control.map(|control| Control {
            standing: &control.standing,
            shadow: is_shadow(control),
            moves: control.moves.iter().map(moved).collect(),
            moves_in_all: control.made,
        });
        Slots { now, control }
    }
}

/// A TP monitor that listens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PostgresStarted {
    /// The first of its addresses.
    pub(crate) listening: String,
    /// All addresses that it listens on.
    pub(crate) addresses: Vec<String>,
    /// Names of the databases.
    pub(crate) databases: Vec<String>,
    /// Address of the live page and metrics, if there is one.
    pub(crate) http: Option<String>,
    /// Process whose clients it takes over, if there is one.
    pub(crate) takes_over_from: Option<u32>,
}

impl Answer for PostgresStarted {
    const FORMAT: &'static str = "sekisho/gate-postgres-start/1";
}

/// A file of a TP monitor with which one can start.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PostgresChecked<'a> {
    /// Names of the databases.
    pub(crate) databases: Vec<&'a str>,
    /// Number of known users.
    pub(crate) users: usize,
    /// Number of classes.
    pub(crate) classes: usize,
    /// Remarks on it.
    pub(crate) notes: Vec<String>,
}

impl Answer for PostgresChecked<'_> {
    const FORMAT: &'static str = "sekisho/gate-postgres-check/1";
}

/// A TP monitor that has drained.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PostgresEnded<'a> {
    /// Number of clients that came.
    clients: u64,
    /// Number of clients that were too many.
    clients_refused: u64,
    /// Clients that were still there when the time to drain was over.
    clients_cut: usize,
    /// Number of clients that were taken over from another process.
    clients_taken_over: u64,
    /// Number of clients that were handed over to another process.
    clients_handed_over: u64,
    /// Number of clients that did not get in.
    logins_failed: u64,
    /// Number of lines of both logs that could not be written.
    log_lines_lost: u64,
    /// Number of cancel requests that were passed on.
    cancels: u64,
    /// Each pool.
    pools: Vec<Pool<'a>>,
    /// Files of the recordings, one a pool.
    recordings: Vec<PathBuf>,
    /// Files of the fitted scenarios, of each pool whose load told enough.
    scenario_files: Vec<PathBuf>,
}

impl Answer for PostgresEnded<'_> {
    const FORMAT: &'static str = "sekisho/gate-postgres/1";
}

/// A database as one user asks for it.
#[derive(Serialize, JsonSchema)]
struct Pool<'a> {
    /// Name of the database.
    database: &'a str,
    /// Name of the user.
    user: &'a str,
    /// Number of transactions that ended.
    transactions: u64,
    /// Number of queries, or segments of the extended protocol, that ended.
    queries: u64,
    /// Bytes from clients.
    bytes_from_clients: u64,
    /// Bytes to clients.
    bytes_to_clients: u64,
    /// Number refused because the queue was full.
    refused_queue_full: u64,
    /// Number refused because they could not start before their deadline.
    refused_deadline: u64,
    /// Number refused at once that would have waited in vain.
    refused_hopeless: u64,
    /// Number refused because no server could be reached.
    refused_unreachable: u64,
    /// Number whose clients gave up while they waited.
    reneged: u64,
    /// Number of connections to servers that were made.
    connects: u64,
    /// Number of connections to servers that could not be made.
    connects_failed: u64,
    wait: Times,
    hold: Times,
    /// Model of what is behind its gate, as far as the load told it.
    model: &'a [Estimate],
    /// The slots.
    slots: Slots<'a>,
}

/// Quantiles; none of no job.
#[derive(Serialize, JsonSchema)]
struct Times {
    /// Median \[s\].
    p50_s: Option<f64>,
    /// 99th percentile \[s\].
    p99_s: Option<f64>,
}

impl From<&Histogram> for Times {
    fn from(times: &Histogram) -> Times {
        let at = |q| (!times.is_empty()).then(|| times.quantile(q).as_secs_f64());
        Times { p50_s: at(0.5), p99_s: at(0.99) }
    }
}

impl<'a> From<&'a PoolStats> for Pool<'a> {
    fn from(pool: &'a PoolStats) -> Pool<'a> {
        let counters = &pool.counters;
        Pool {
            database: &pool.database,
            user: &pool.user,
            transactions: counters.xact_count,
            queries: counters.query_count,
            bytes_from_clients: counters.received,
            bytes_to_clients: counters.sent,
            refused_queue_full: counters.refused_queue_full,
            refused_deadline: counters.refused_deadline,
            refused_hopeless: counters.refused_hopeless,
            refused_unreachable: counters.refused_unreachable,
            reneged: counters.reneged,
            connects: counters.connects,
            connects_failed: counters.connects_failed,
            wait: (&pool.wait).into(),
            hold: (&pool.hold).into(),
            model: &pool.model,
            slots: Slots::new(pool.slots, pool.control.as_ref()),
        }
    }
}

impl<'a> PostgresEnded<'a> {
    pub(crate) fn new(
        finished: &'a Finished,
        recordings: Vec<PathBuf>,
        scenario_files: Vec<PathBuf>,
    ) -> PostgresEnded<'a> {
        let stats = &finished.stats;
        PostgresEnded {
            clients: stats.clients_accepted,
            clients_refused: stats.clients_refused,
            clients_cut: finished.cut,
            clients_taken_over: stats.clients_taken_over,
            clients_handed_over: stats.clients_handed_over,
            logins_failed: stats.logins_failed,
            log_lines_lost: stats.log_lost,
            cancels: stats.cancels,
            pools: stats.pools.iter().map(Pool::from).collect(),
            recordings,
            scenario_files,
        }
    }
}
