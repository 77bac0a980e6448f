//! The run record: what ran, where, with which seed, every interval, and what became of it.
//!
//! In a file it is JSON lines: one header, one line an interval, one summary. A record without a
//! summary is one whose run was cut off, and says so by that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Histogram, MergedPart, PartRecord};

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Description of the run.
    pub header: RunHeader,
    /// Observations, interval by interval, in order, warm-up included.
    pub intervals: Vec<Interval>,
    /// End of the run; `None` if the run was cut off.
    pub summary: Option<RunSummary>,
}

/// Description of a run: enough to run it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunHeader {
    /// The run's name, unique in its folder: its start as `20261120T113000Z` and four hex digits.
    pub id: String,
    /// When it began, UTC, RFC 3339.
    pub started: String,
    /// The program and its version, with the commit where known.
    pub tool: String,
    /// The words of the command line, secrets removed.
    pub command: Vec<String>,
    /// The seed of all chance in the run.
    pub seed: u64,
    /// The machine that the generator ran on.
    pub host: Host,
    /// Target of the load: a URL without user or password.
    pub target: String,
    /// The load that was asked for.
    pub load: LoadShape,
    /// When the run was to end.
    pub until: Until,
    /// The length at the start of the run that is not to be used \[s\].
    pub warmup_s: f64,
    /// Classes that were asked for: class `i` of every interval is `classes[i]`.
    pub classes: Vec<ClassSpec>,
    /// Everything else in force, by name: keep-alive, idle strategy (`idle`, `sleep` or `spin`; the
    /// judgement of the generator looks at it), way of closing, threads, draw.
    pub settings: BTreeMap<String, String>,
    /// The part of a run in several processes that this is; load, end and seed are those of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartRecord>,
    /// Of a run that was [merged](RunRecord::merge), its parts in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedPart>,
}

/// The machine that a run's generator ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Operating system and kernel release.
    pub kernel: String,
    /// The model of its processors.
    pub cpu_model: String,
    /// Number of its processors.
    pub cpus: u32,
    /// Its memory \[bytes\].
    pub memory_bytes: u64,
}

/// The load that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadShape {
    /// A fixed population: each client asks again when it has its answer and has thought.
    Closed {
        /// Number of clients.
        clients: u32,
        /// Mean think time \[s\].
        think_s: f64,
    },
    /// Arrivals that wait for nobody, with exponential gaps.
    Poisson {
        /// Arrivals per second \[1/s\].
        rate: f64,
        /// The declared bound on requests in flight; an arrival beyond it counts as failed.
        in_flight_max: u32,
    },
    /// Arrivals that wait for nobody, with equal gaps.
    Fixed {
        /// Arrivals per second \[1/s\].
        rate: f64,
        /// The declared bound on requests in flight; an arrival beyond it counts as failed.
        in_flight_max: u32,
    },
    /// Arrivals that wait for nobody, at a rate that changes: there is no steady state, and the run is
    /// judged phase by phase.
    Varying {
        /// Origin of the rate.
        course: Course,
        /// Parts of the run after its warm-up, in order.
        phases: Vec<Phase>,
        /// The declared bound on requests in flight; an arrival beyond it counts as failed.
        in_flight_max: u32,
    },
}

/// Origin of a rate that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Course {
    /// A rate over time, as the key `rate-curve` of a scenario has it: steps, a ramp, a blip.
    RateCurve {
        /// Times since the end of the warm-up \[s\], and rates [1/s]; the first holds in the warm-up.
        points: Vec<(f64, f64)>,
        /// The course between two points.
        pieces: CurvePieces,
        /// After which time it begins anew \[s\].
        period_s: Option<f64>,
        /// Spacing of the arrivals.
        spacing: ArrivalSpacing,
    },
    /// An access log, with its own gaps.
    Log {
        /// Number of its requests.
        requests: u64,
        /// Factor by which its gaps were divided.
        speed: f64,
    },
}

/// Course of a rate between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CurvePieces {
    /// It stays until the next point.
    Constant,
    /// It goes straight to the next point.
    Linear,
}

/// Spacing of arrivals at a rate that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalSpacing {
    /// A Poisson process.
    Poisson,
    /// One arrival whenever the rate has summed up to one.
    Fixed,
}

/// Part of a run whose load varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name, such as `200/s`.
    pub name: String,
    /// Its start, since the run began \[s\].
    pub start_s: f64,
    /// Its length \[s\].
    pub length_s: f64,
    /// Number of arrivals that the load has in it, in the mean.
    pub arrivals: f64,
}

impl LoadShape {
    /// True if the load itself changes, so that no run of it is stationary.
    pub fn varies(&self) -> bool {
        matches!(self, LoadShape::Varying { .. })
    }

    /// The phases of a load that varies; none of any other.
    pub fn phases(&self) -> &[Phase] {
        if let LoadShape::Varying { phases, .. } = self { phases } else { &[] }
    }
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Until {
    /// After this many requests have ended, well or badly.
    Requests(u64),
    /// After this long, warm-up not counted \[s\].
    Seconds(f64),
}

/// Class of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Its name: the document's.
    pub name: String,
    /// The size of the document \[bytes\], where known beforehand.
    pub bytes: Option<u64>,
    /// Weight of its requests, relative to the others'.
    pub weight: u32,
}

/// Observations in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Its start, since the run began \[s\].
    pub start_s: f64,
    /// Its length \[s\].
    pub length_s: f64,
    /// By class: requests that ended in this interval.
    pub classes: Vec<ClassCounts>,
    /// Mean number of requests in flight, integrated over the interval by counting starts and
    /// ends: the L of Little's law, independent of the measured response times.
    pub in_flight_mean: f64,
    /// Requests whose intended start fell into this interval.
    pub started: u64,
    /// Connections that were opened.
    pub connects: u64,
    /// Actual less intended start of each request.
    pub lag: Histogram,
    /// The generator's own health.
    pub generator: GeneratorHealth,
}

impl Interval {
    /// Time for which a run has seen nothing but broken connections \[s\], if that was `before_s` when this
    /// interval began. An answer ends it; an interval in which nothing ended leaves it.
    pub fn lost_s(&self, before_s: f64) -> f64 {
        let of = |seen: fn(ErrorKind) -> bool| {
            self.classes.iter().any(|class| class.errors.keys().any(|kind| seen(*kind)))
        };
        let answered = self.classes.iter().any(|class| class.completed > 0);
        match (answered || of(ErrorKind::is_answer), of(ErrorKind::is_broken_connection)) {
            (true, _) => 0.0,
            (false, true) => before_s + self.length_s,
            (false, false) => before_s,
        }
    }
}

/// Requests of one class that ended in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassCounts {
    /// Answered in full with a 2xx or 3xx status.
    pub completed: u64,
    /// Bytes of all responses, heads included.
    pub bytes: u64,
    /// Failed, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<ErrorKind, u64>,
    /// From the intended start to the last byte (or, where the connection is closed, to the close).
    pub total: Histogram,
    /// From the intended start to the first byte.
    pub first_byte: Histogram,
    /// From the connect call to an open connection (TLS handshake included), where one was opened.
    pub connect: Histogram,
}

/// Kind of a request's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The connection was refused.
    ConnectRefused,
    /// The connection was not open in time.
    ConnectTimeout,
    /// Connecting failed in another way (no route, no ports left, no descriptors left).
    ConnectOther,
    /// The TLS handshake failed, or TLS broke later.
    Tls,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the response was complete.
    ClosedEarly,
    /// The response was not HTTP.
    Malformed,
    /// The body was longer or shorter than announced.
    WrongLength,
    /// No complete response in time.
    Timeout,
    /// Status 4xx.
    Status4xx,
    /// Status 503: the server, or a gate before it, turned the request away; of a database, it refused
    /// the transaction.
    Refused,
    /// Status 5xx other than 503.
    Status5xx,
    /// Any other status (1xx as a final one, 6xx and above).
    StatusOther,
    /// The server ended the stream of the request (HTTP/2, RST_STREAM).
    StreamReset,
    /// The server ended the connection without dealing with the request (HTTP/2, GOAWAY).
    GoAway,
    /// The generator's declared bound on requests in flight was reached; never skipped silently.
    InFlightBound,
    /// A database refused with SQLSTATE 40001: the transaction could not be serialized.
    SerializationFailure,
    /// A database refused with SQLSTATE 40P01: it was the victim of a deadlock.
    Deadlock,
    /// A database refused with another SQLSTATE of class 40, a rollback of the transaction.
    #[serde(rename = "sqlstate-40")]
    SqlRollback,
    /// A database refused with an SQLSTATE of class 08: a connection exception.
    #[serde(rename = "sqlstate-08")]
    SqlConnection,
    /// A database refused with an SQLSTATE of class 0A: a feature that it does not support.
    #[serde(rename = "sqlstate-0a")]
    SqlUnsupported,
    /// A database refused with an SQLSTATE of class 22: a data exception, such as a division by zero.
    #[serde(rename = "sqlstate-22")]
    SqlData,
    /// A database refused with an SQLSTATE of class 23: a violated constraint.
    #[serde(rename = "sqlstate-23")]
    SqlConstraint,
    /// A database refused with an SQLSTATE of class 25: a state of the transaction that does not allow the statement.
    #[serde(rename = "sqlstate-25")]
    SqlTransactionState,
    /// A database refused with an SQLSTATE of class 28: an invalid authorization.
    #[serde(rename = "sqlstate-28")]
    SqlAuthorization,
    /// A database refused with an SQLSTATE of class 42: a syntax error, a missing table or a missing privilege.
    #[serde(rename = "sqlstate-42")]
    SqlSyntaxOrAccess,
    /// A database refused with an SQLSTATE of class 53: insufficient resources, such as too many connections.
    #[serde(rename = "sqlstate-53")]
    SqlResources,
    /// A database refused with an SQLSTATE of class 54: a limit of the program that was exceeded.
    #[serde(rename = "sqlstate-54")]
    SqlLimit,
    /// A database refused with an SQLSTATE of class 55: an object in another state than is needed, such as a lock not available.
    #[serde(rename = "sqlstate-55")]
    SqlPrerequisite,
    /// A database refused with an SQLSTATE of class 57: an intervention: cancelled, timed out, shut down.
    #[serde(rename = "sqlstate-57")]
    SqlOperator,
    /// A database refused with an SQLSTATE of class 58: an error outside it, such as of the disk.
    #[serde(rename = "sqlstate-58")]
    SqlSystem,
    /// A database refused with an SQLSTATE of class P0: an exception that a function raised.
    #[serde(rename = "sqlstate-p0")]
    SqlRaised,
    /// A database refused with an SQLSTATE of class XX: an internal error.
    #[serde(rename = "sqlstate-xx")]
    SqlInternal,
    /// A database refused with an SQLSTATE of any other class.
    SqlOther,
}

impl ErrorKind {
    /// True if such a failure shows that nobody serves at the address: a connection that could not be made, or
    /// broke. A request that had no answer in time, or was never sent, shows neither that nor an answer.
    pub fn is_broken_connection(self) -> bool {
        use ErrorKind::{ClosedEarly, ConnectOther, ConnectRefused, ConnectTimeout, Reset, Tls};
        matches!(self, ConnectRefused | ConnectTimeout | ConnectOther | Tls | Reset | ClosedEarly)
    }

    /// True if such a failure is an answer: somebody serves at the address.
    pub fn is_answer(self) -> bool {
        !self.is_broken_connection()
            && !matches!(self, ErrorKind::Timeout | ErrorKind::InFlightBound)
    }

    /// The kind of a transaction that a database refused with this SQLSTATE.
    ///
    /// ```
    /// use measure::ErrorKind;
    ///
    /// assert_eq!(ErrorKind::of_sqlstate("40P01"), ErrorKind::Deadlock);
    /// assert_eq!(ErrorKind::of_sqlstate("23505"), ErrorKind::SqlConstraint);
    /// ```
    pub fn of_sqlstate(code: &str) -> ErrorKind {
        match (code, code.get(..2).unwrap_or_default()) {
            ("40001", _) => ErrorKind::SerializationFailure,
            ("40P01", _) => ErrorKind::Deadlock,
            (_, "40") => ErrorKind::SqlRollback,
            (_, "08") => ErrorKind::SqlConnection,
            (_, "0A") => ErrorKind::SqlUnsupported,
            (_, "22") => ErrorKind::SqlData,
            (_, "23") => ErrorKind::SqlConstraint,
            (_, "25") => ErrorKind::SqlTransactionState,
            (_, "28") => ErrorKind::SqlAuthorization,
            (_, "42") => ErrorKind::SqlSyntaxOrAccess,
            (_, "53") => ErrorKind::SqlResources,
            (_, "54") => ErrorKind::SqlLimit,
            (_, "55") => ErrorKind::SqlPrerequisite,
            (_, "57") => ErrorKind::SqlOperator,
            (_, "58") => ErrorKind::SqlSystem,
            (_, "P0") => ErrorKind::SqlRaised,
            (_, "XX") => ErrorKind::SqlInternal,
            _ => ErrorKind::SqlOther,
        }
    }
}

/// State of the generator itself in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GeneratorHealth {
    /// CPU time used by each of its threads \[s\], less what one that sleeps when it can spun away
    /// before arrivals.
    pub thread_cpu_s: Vec<f64>,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunSummary {
    /// Time that it took in all \[s\].
    pub elapsed_s: f64,
    /// True if it was interrupted before its end.
    pub interrupted: bool,
    /// Facts that the user must know before believing a number, in sentences.
    pub warnings: Vec<String>,
}
