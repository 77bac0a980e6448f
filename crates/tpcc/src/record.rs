//! The record of a run: all that its verdict is computed from, and enough to run it again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use measure::{Histogram, Host, Interval, PartRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::tpcc::Kind;

use super::parts::Share;
use super::{Execution, Isolation};

/// Plan of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The pace of the terminals.
    pub pace: Pace,
    /// Active warehouses, from 1; each has ten terminals.
    pub warehouses: u32,
    /// Connections to the database, 1 or more, whatever the number of terminals. Of a part, its
    /// own; those of the parts add up.
    pub connections: u32,
    /// The time before the measurement.
    pub ramp: Duration,
    /// The measurement interval.
    pub measure: Duration,
    /// The side that runs the profiles.
    pub execution: Execution,
    /// The isolation of the transactions.
    pub isolation: Isolation,
    /// The seed of all chance.
    pub seed: u64,
}

/// Pace of terminals: whether they wait as people do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Menu, keying time, transaction, think time (5.2).
    Paced,
    /// One terminal a connection, and no waits: throughput, never a qualified result.
    Stress,
    /// As [`Paced`](Pace::Paced), with keying and think times divided by this: few warehouses press as
    /// many do, in their proportions. Never a qualified result.
    Hastened(NonZeroU32),
}

impl Pace {
    /// True if terminals wait at all.
    pub fn waits(self) -> bool {
        self != Pace::Stress
    }

    /// The wait of a terminal where a person would wait for so long.
    pub(super) fn wait(self, person: Duration) -> Duration {
        match self {
            Pace::Paced => person,
            Pace::Stress => Duration::ZERO,
            Pace::Hastened(by) => person / by.get(),
        }
    }
}

impl Plan {
    /// Length of a bucket of [`Record::new_orders`]: 10 s, and 1 s in a run without waits or with
    /// short ones, which is short.
    pub fn bucket(&self) -> Duration {
        match self.pace {
            Pace::Paced => Duration::from_secs(10),
            Pace::Stress | Pace::Hastened(_) => Duration::from_secs(1),
        }
    }

    /// Number of terminals.
    pub fn terminals(&self) -> u32 {
        match self.pace {
            Pace::Stress => self.connections,
            _ => self.warehouses * u32::from(workload::tpcc::rules::TERMINALS),
        }
    }
}

/// Record of a run.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The plan.
    pub plan: Plan,
    /// The machine of the terminals; of a merged run, that of part 1.
    pub host: Host,
    /// The database.
    pub server: Server,
    /// The end.
    pub end: End,
    /// The time measured \[s\]: less than planned in a run that ended early.
    pub measured_s: f64,
    /// By kind, in the order of [`Kind::ALL`].
    pub kinds: [KindRecord; 5],
    /// Response times of the menu inside the measurement interval.
    pub menu: Histogram,
    /// The deferred part of Deliveries.
    pub deferred: DeferredRecord,
    /// The inputs that were drawn, for their audit.
    pub inputs: InputCounts,
    /// New-Orders completed in each [bucket](Plan::bucket) since the run began, the ramp included.
    pub new_orders: Vec<u64>,
    /// Checkpoints seen, the ramp included.
    pub checkpoints: Vec<Checkpoints>,
    /// Transactions that the database refused, by SQLSTATE, in the whole run.
    pub errors: BTreeMap<String, u64>,
    /// The first error message.
    pub error_first: Option<String>,
    /// The cost of the terminals themselves.
    pub client: Client,
    /// The part of a run in several processes that this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartRecord>,
    /// Of a run that was [merged](Record::merge), its parts in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedPart>,
    /// Of a run without waits, what ended in each interval since it began, the ramp included, by kind
    /// in the order of [`Kind::ALL`]; see [`Record::closed`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// In each of them, the share of the processors of the terminals' machine that were busy, by
    /// whatever ran there; empty where that cannot be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine_busy: Vec<f64>,
}

impl Record {
    /// The active warehouses at which its terminals are at home: of a part, its share.
    pub fn warehouses(&self) -> u32 {
        match (self.part, self.plan.pace) {
            (Some(PartRecord { part, .. }), pace) if pace.waits() => {
                part.warehouses(&self.plan).count() as u32
            }
            _ => self.plan.warehouses,
        }
    }

    /// The record of one kind.
    pub fn of(&self, kind: Kind) -> &KindRecord {
        &self.kinds[kind.index()]
    }

    /// Transactions completed inside the measurement interval.
    pub fn completed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.completed).sum()
    }

    /// New-Orders a minute over the measurement interval, rolled back ones included (5.4.1).
    pub fn new_orders_per_minute(&self) -> f64 {
        if self.measured_s <= 0.0 {
            return 0.0;
        }
        self.of(Kind::NewOrder).completed as f64 * 60.0 / self.measured_s
    }
}

/// Facts that a merged record keeps of a part as they were.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedPart {
    /// The part, and its beginning.
    pub part: PartRecord,
    /// Its machine.
    pub host: Host,
    /// The end.
    pub end: End,
    /// The time measured \[s\].
    pub measured_s: f64,
    /// The cost of its terminals.
    pub client: Client,
}

/// A database, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its version, as it gives it.
    pub version: String,
    /// The version of TLS that its connections speak, if they do: `TLSv1.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// The constant C of C_LAST with which it was populated (2.1.6.1): with the plan's seed it
    /// decides C-Run.
    pub c_load: u16,
    /// From which seed it was populated.
    pub load_seed: u64,
    /// Its settings, as it says them.
    pub settings: BTreeMap<String, String>,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// As planned.
    Complete,
    /// By its user, so long after it began \[s\].
    Interrupted(f64),
    /// Without its database, so long after it began \[s\], with what was the last news of it.
    Lost(f64, String),
    /// By an error that no later transaction could have been spared \[s\].
    Failed(f64, String),
}

/// One kind of transaction inside the measurement interval.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRecord {
    /// Sent and answered inside it.
    pub completed: u64,
    /// Sent inside it and not answered at its end.
    pub unfinished: u64,
    /// Tries that came into conflict and were repeated.
    pub retries: u64,
    /// Sent inside it, and refused by the database.
    pub failed: u64,
    /// From the moment at which the terminal intends to send to the answer, with the wait for a
    /// connection and all retries.
    pub response: Histogram,
    /// Keying times as they were waited, from the form's appearance to the moment at which the
    /// terminal intends to send.
    pub keying: Histogram,
    /// Think times as they were waited, from the answer to the moment of the next menu pick.
    pub think: Histogram,
}

/// The deferred part of Deliveries that were queued inside the measurement interval.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeferredRecord {
    /// From the queue to the end, of those that ended.
    pub times: Histogram,
    /// The number still open at the end although their limit had passed.
    pub overdue: u64,
    /// The number answered, and not done some seconds after the end: overdue ones among them.
    #[serde(default)]
    pub unfinished: u64,
    /// The number that the database refused.
    pub failed: u64,
    /// Districts without an order to deliver.
    pub skipped: u64,
}

/// Inputs of the completed transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputCounts {
    /// New-Orders that were rolled back.
    pub rollbacks: u64,
    /// New-Orders of 5 to 15 lines.
    pub orders_by_lines: [u64; 11],
    /// Lines that another warehouse supplied.
    pub lines_remote: u64,
    /// Payments of a customer of another warehouse.
    pub payments_remote: u64,
    /// Payments by last name.
    pub payments_by_name: u64,
    /// Order-Statuses by last name.
    pub statuses_by_name: u64,
}

/// Checkpoints that the server has seen since its statistics began.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoints {
    /// When this was seen, since the run began \[s\].
    pub at_s: f64,
    /// Because it was time.
    pub timed: i64,
    /// Because the log had grown, or somebody asked.
    pub requested: i64,
}

/// Cost of the terminals, and their lateness.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// CPU time \[s\].
    pub cpu_s: f64,
    /// In how much time \[s\]; of a merged run, that of the longest part.
    pub elapsed_s: f64,
    /// For how many transactions, deferred ones counted once.
    pub transactions: u64,
    /// Lateness of the sending of transactions, inside the measurement interval; the lateness of
    /// forms is the menu's response time.
    pub lag: Histogram,
}
