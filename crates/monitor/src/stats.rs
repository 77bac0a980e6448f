//! Counters as plain values: PgBouncer's, and histograms of waits and holds.

use std::time::Duration;

use gate::Role;
use live::model::Fitted;
use live::{ClassStats, Controlled, Estimate};
use measure::{Histogram, Recording};

use pgsession::relay::Prepares;
use pgsession::sql::{Lost, Reasons};

/// The counters of one pool, under PgBouncer's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that have ended.
    pub xact_count: u64,
    /// Queries, or segments of the extended protocol, that have ended.
    pub query_count: u64,
    /// From clients \[byte\].
    pub received: u64,
    /// To clients \[byte\].
    pub sent: u64,
    /// In transactions, summed over servers.
    pub xact_time: Duration,
    /// In queries, summed over servers.
    pub query_time: Duration,
    /// Of clients for a slot, summed.
    pub wait_time: Duration,
    /// Jobs refused because the queue was full.
    pub refused_queue_full: u64,
    /// Jobs refused because they could not start before their deadline.
    pub refused_deadline: u64,
    /// Jobs refused at once that would have waited in vain.
    pub refused_hopeless: u64,
    /// Jobs refused because no server could be reached.
    pub refused_unreachable: u64,
    /// Jobs whose key should have been told by their first messages, and was not.
    pub keys_missing: u64,
    /// Jobs whose clients went while they waited.
    pub reneged: u64,
    /// Prepared statements made by clients.
    pub client_parse_count: u64,
    /// Prepared statements made at servers.
    pub server_parse_count: u64,
    /// Prepared statements given their parameters.
    pub bind_count: u64,
    /// Connections to servers that could not be made.
    pub connects_failed: u64,
    /// Connections to servers that were made.
    pub connects: u64,
    /// Times that clients have kept servers beyond their jobs, as far as these are over.
    pub pins: u64,
    /// In these, summed.
    pub pin_time: Duration,
    /// Of that, between the clients' jobs, when the slots could have served others: slots times
    /// seconds lost.
    pub pin_idle_time: Duration,
}

impl Counters {
    /// Jobs refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused_queue_full
            + self.refused_deadline
            + self.refused_hopeless
            + self.refused_unreachable
    }
}

/// A client that keeps its server beyond its job: an entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The number by which the client may cancel.
    pub client: u32,
    /// The number of the server's process.
    pub server: u32,
    /// The database, by the name that clients know.
    pub database: String,
    /// The user.
    pub user: String,
    /// The name that the client gave.
    pub application_name: String,
    /// Session state that it has left there.
    pub reasons: Reasons,
    /// Why its settings are not known, if they are not.
    pub lost: Option<Lost>,
    /// For how long by now.
    pub held: Duration,
    /// Of that, between its jobs.
    pub idle: Duration,
}

impl Counters {
    /// Clients have prepared something.
    pub(super) fn prepare(&mut self, prepares: Prepares) {
        self.client_parse_count += prepares.client_parses;
        self.server_parse_count += prepares.server_parses;
        self.bind_count += prepares.binds;
    }
}

/// Figures of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolStats {
    /// The database, by the name that clients know.
    pub database: String,
    /// The user.
    pub user: String,
    /// Its counters.
    pub counters: Counters,
    /// From arrival to start.
    pub wait: Histogram,
    /// From start to departure.
    pub hold: Histogram,
    /// The same for each class that has had a job, if there are several.
    pub classes: Vec<ClassStats>,
    /// Jobs that wait.
    pub waiting: u64,
    /// Slots that are held.
    pub busy: u32,
    /// Slots that there are.
    pub slots: u32,
    /// Slots that came back because nobody had them any more, and not because a job had ended: a
    /// defect of the monitor.
    pub slots_dropped: u64,
    /// Connections to servers, in whatever state, but for those of probes.
    pub servers: usize,
    /// Of these, idle ones.
    pub servers_idle: usize,
    /// Each server, in the order of the database's.
    pub per_server: Vec<ServerStats>,
    /// Predicted wait of a job that came now; `None` if nothing is known of holds yet.
    pub predicted_wait: Option<Duration>,
    /// Estimates of the model; none while it knows nothing, and none of sessions.
    pub model: Vec<Estimate>,
    /// The same as the parts of a scenario, if the model fits and a knee was seen.
    pub fitted: Option<Fitted>,
    /// The last decision about the slots, where that is left to the gate.
    pub control: Option<Controlled>,
}

/// Figures of one server of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// Its role, as far as is known.
    pub role: Role,
    /// True if it is up, as far as is known.
    pub up: bool,
    /// Jobs that wait for it alone.
    pub waiting: u64,
    /// Slots that are held.
    pub busy: u32,
    /// Slots that there are.
    pub slots: u32,
    /// Jobs that were started there.
    pub started: u64,
    /// Connections to it, in whatever state, but for those of probes.
    pub connections: usize,
}

/// Figures of slots over several pools.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaStats {
    /// Their owner: `all`, `database NAME`, `user NAME` or `pool DATABASE/USER`.
    pub name: String,
    /// Slots that there are.
    pub slots: u32,
    /// Slots that are held.
    pub busy: u32,
    /// As of [pools](PoolStats::slots_dropped).
    pub slots_dropped: u64,
    /// Jobs that have a slot of their pool and wait for one of these.
    pub waiting: u64,
    /// From the slot of the pool to the slot of these.
    pub wait: Histogram,
}

/// Figures of a monitor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Secrets of users that were looked up in a database.
    pub auth_queries: u64,
    /// Those that could not be.
    pub auth_queries_failed: u64,
    /// Why not, the last time; clients are not told.
    pub auth_query_fault: Option<String>,
    /// Clients' connections now.
    pub clients: usize,
    /// Clients' connections so far.
    pub clients_accepted: u64,
    /// Those of them that were too many.
    pub clients_refused: u64,
    /// Those that did not get in, for whatever reason.
    pub logins_failed: u64,
    /// Clients that were handed over to another process.
    pub clients_handed_over: u64,
    /// Clients that were taken over from another process; they count as accepted there.
    pub clients_taken_over: u64,
    /// Cancel requests that were passed on.
    pub cancels: u64,
    /// Cancel requests that fitted nobody, or nobody who was being served.
    pub cancels_ignored: u64,
    /// Clients that keep a server beyond their jobs.
    pub pins: Vec<Pin>,
    /// Slots over several pools, if there are any.
    pub quotas: Vec<QuotaStats>,
    /// Lines of the log that could not be written.
    pub log_lost: u64,
    /// Times that each worker has taken the loop, in their order.
    pub turns: Vec<u64>,
    /// The pools, in the order in which they were asked for.
    pub pools: Vec<PoolStats>,
}

/// Results of a monitor that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Its last figures.
    pub stats: Stats,
    /// The recording of each pool, in the order of [`Stats::pools`], if there was to be any.
    pub recordings: Vec<Option<Recording>>,
    /// The same of each of the quotas, in the order of [`Stats::quotas`].
    pub quota_recordings: Vec<Option<Recording>>,
    /// Clients that were cut off because the drain took too long.
    pub cut: usize,
}
