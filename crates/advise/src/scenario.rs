//! The scenario: the one configuration of a model, format version 1.
//!
//! The types here are the file's shape, key by key. [`Scenario::network`] turns a scenario into what
//! `sim` runs; whatever is impossible is refused there or earlier, with the place and the way out.

use std::collections::BTreeMap;
use std::fmt;

use gate::{Queues, Ties};
use serde::{Deserialize, Serialize};
use workload::Draw;

use crate::units::{Bytes, PerByte, Rate, Span};

mod behaviour;
mod change;
mod compile;
mod counted;
mod entries;
mod loads;
mod matrix;
mod path;
mod policies;
#[cfg(feature = "schema")]
mod rules;
mod setting;
mod trace;
mod unreachable;

pub use behaviour::{
    AgendaEntry, CacheEntry, ChangeEntry, ClientEntry, ControlEntry, CurveEntry, FullName,
    KeysName, LoadName, NoticedName, OrderName, PiecesName, ReplacementName, RetryEntry, StateName,
};
pub(crate) use compile::{mean_demand, suggest};
pub use matrix::MatrixRow;
pub use path::{NumberKind, NumericParameter};
pub use policies::{DisciplineEntry, LoadInformationEntry, Policies, RouterEntry};
pub use setting::{Control, Setting, Stops, Turns, disciplines, routers};
pub use trace::TraceEntry;
pub use unreachable::Unreachable;

/// A model of a service and the load on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The format version: 1.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [1])))]
    pub sekisho: u32,
    /// Its name: the service that it is a model of.
    pub name: String,
    /// The seed of a simulation, unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The classes of jobs, which ask for service.
    #[serde(rename = "class")]
    pub classes: Vec<ClassEntry>,
    /// The gates, which a person could configure.
    #[serde(rename = "gate", default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateEntry>,
    /// The stations, which do the work.
    #[serde(rename = "station", deserialize_with = "counted::stations")]
    pub stations: Vec<StationEntry>,
    /// The caches, which remember keys.
    #[serde(rename = "cache", default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheEntry>,
    /// Length of the simulation and changes on the way; left out, the answer is of a steady state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agenda: Option<AgendaEntry>,
    /// Source of the numbers, if they were fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// A class of jobs. It has one of a population (closed), a rate, a rate curve or a trace (open); or it
/// is `load = "within"`, and jobs of other classes become it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = rules::class))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassEntry {
    /// Its name.
    pub name: String,
    /// Number of customers who ask in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub population: Option<u32>,
    /// Time between an answer and the next request; none is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "0s")))]
    pub think: Option<DistEntry>,
    /// Arrivals per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub rate: Option<Rate>,
    /// Gaps between arrivals; left out, exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "poisson")))]
    pub arrivals: Option<ArrivalsName>,
    /// Sizes of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizesEntry>,
    /// Importance at gates with priorities: larger first.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = 0)))]
    pub priority: u8,
    /// Longest time from the arrival of a job at a gate to its start, else it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub deadline: Option<Span>,
    /// Arrivals per second that change over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_curve: Option<CurveEntry>,
    /// Arrivals from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceEntry>,
    /// A class without a load of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadName>,
    /// Behaviour of its clients when they are not served well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientEntry>,
    /// The way through the network; none for a class without a load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<RouteEntry>,
    /// Chances of the next place of a job, by the place where it is, instead of a route. `start` is
    /// the row of jobs that come. The chance to leave is the part of 1 that a row does not give
    /// away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub matrix: BTreeMap<String, MatrixRow>,
}

fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

/// Spacing of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalsName {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Fixed,
}

/// A step of a route.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RouteEntry {
    /// The name of a gate or a station; or `server`, the station of the server held; or `reply`, from
    /// which on the client does not wait for the rest of what is inside a gate.
    Name(String),
    /// A station with a demand of this step's own.
    Visit(VisitEntry),
    /// One of several ways.
    Choose(ChooseEntry),
    /// A way that is gone again with a chance.
    Repeat(RepeatEntry),
    /// A way that is gone so many times.
    Visits(VisitsEntry),
    /// A job of its own that nobody waits for.
    Send(SendEntry),
    /// Jobs of their own that are waited for.
    Fork(ForkEntry),
    /// Another class from here on.
    Become(BecomeEntry),
    /// One way or another, as a cache knows the key or not.
    Lookup(LookupEntry),
}

/// A job of its own goes this way, and nobody waits for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SendEntry {
    /// Its way.
    pub send: Vec<RouteEntry>,
}

/// Jobs of their own go these ways at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForkEntry {
    /// The ways.
    pub fork: Vec<Vec<RouteEntry>>,
    /// Number of ways that are waited for; left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<u32>,
}

/// The job is of another class from here on: for gates, for the demands at stations, and where it is
/// counted. In a way of several it is so to the end of that way as far as demands go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BecomeEntry {
    /// The class.
    pub r#become: String,
}

/// One way if a cache has the key, another if not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LookupEntry {
    /// The cache.
    pub lookup: String,
    /// The way if it has; left out, straight on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hit: Vec<RouteEntry>,
    /// The way if it has not.
    pub miss: Vec<RouteEntry>,
}

/// A visit with a demand of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VisitEntry {
    /// The station.
    pub visit: String,
    /// The demand there.
    pub demand: DemandEntry,
}

/// One of several ways by chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChooseEntry {
    /// The ways.
    pub choose: Vec<ChoiceEntry>,
}

/// One way of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChoiceEntry {
    /// Its chance, 0 to 1; those of all ways sum to 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub chance: f64,
    /// The way; left out, the job goes on at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<RouteEntry>,
}

/// A way that is gone once, and again each time with this chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RepeatEntry {
    /// The chance of going again, below 1.
    pub repeat: f64,
    /// The way.
    pub route: Vec<RouteEntry>,
}

/// A way that is gone so many times: 2.5 is twice, and once more with a chance of a half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VisitsEntry {
    /// Mean number of times, above 0.
    pub visits: f64,
    /// The way.
    pub route: Vec<RouteEntry>,
}

/// A distribution of a time: a plain time is a constant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum DistEntry {
    /// Always the same.
    Constant(Span),
    /// A named distribution, or two moments.
    Shaped(ShapedEntry),
}

/// A distribution by its mean and shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = rules::shaped))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ShapedEntry {
    /// The mean.
    pub mean: Span,
    /// The distribution; left out, the squared cv chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dist: Option<DistName>,
    /// The squared coefficient of variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1e4)))]
    pub scv: Option<f64>,
}

/// Distributions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DistName {
    /// Always the mean.
    Constant,
    /// Squared cv 1.
    Exponential,
    /// Squared cv below 1.
    Erlang,
    /// Squared cv above 1, balanced means.
    Hyperexponential,
    /// Any squared cv above 0.
    Lognormal,
}

/// Sizes of the jobs of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SizesEntry {
    /// A built-in document set.
    Named(SizesName),
    /// A document set of one's own.
    Documents(DocumentsEntry),
    /// A lognormal size.
    Lognormal(LognormalEntry),
}

/// Built-in document sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SizesName {
    /// WebStone's file list, drawn from a shuffled deck.
    Webstone,
}

/// A document set of one's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DocumentsEntry {
    /// The documents.
    pub documents: Vec<DocumentEntry>,
    /// Rule by which they are drawn; left out, from a deck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "deck")))]
    pub draw: Option<Draw>,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DocumentEntry {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// Its frequency, relative to the others.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub weight: u32,
}

/// A lognormal size \[bytes\].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LognormalEntry {
    /// The mean of the natural logarithm of the bytes.
    pub lognormal_mu: f64,
    /// The standard deviation of the natural logarithm of the bytes.
    pub lognormal_sigma: f64,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = rules::gate))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GateEntry {
    /// Its name.
    pub name: String,
    /// The slots of its one server; or give `servers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub slots: Option<u32>,
    /// Its servers, where it has several.
    #[serde(default, deserialize_with = "counted::servers", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerEntry>,
    /// Rule for the next job; left out, first in first out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "fifo")))]
    pub discipline: Option<DisciplineEntry>,
    /// Rule for the server of a job; left out, round robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "round-robin")))]
    pub router: Option<RouterEntry>,
    /// Count that routers use that compare queues; left out, jobs in system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "in-system")))]
    pub length: Option<LengthName>,
    /// Choice among several equally good servers; left out, rotating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "rotate")))]
    pub ties: Option<Ties>,
    /// Age of the load information that the router sees; left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_information: Option<LoadInformationEntry>,
    /// One queue for all servers, or one for each; left out, shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "shared")))]
    pub queues: Option<Queues>,
    /// Number of jobs that may wait; left out, without bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<u64>,
    /// The longest wait; left out, without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub wait_max: Option<Span>,
    /// Longest wait of a job while no server is up: `"refuse"` for none, `"wait"` for as long as
    /// for a slot, or a time; left out, a server that is down is as one that is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
    /// The controller that turns the slots while it runs, beginning with those given; left out,
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlEntry>,
    /// Steps of a job while it holds the slot. Another gate may stand there: slots over several
    /// pools are a gate inside that of each pool, as in `studies/slots/quotas.toml`.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub inside: Vec<RouteEntry>,
}

/// A server of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = rules::server))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerEntry {
    /// Number of jobs that it may serve at once.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub slots: u32,
    /// So many equal servers, each with a `station` of its own: `cpu-1`, `cpu-2`, ... for `cpu`. None
    /// in a scenario that was read: the servers stand there one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_536), extend("default" = 1)))]
    pub count: Option<u32>,
    /// The station that belongs to it: visited by the step `"server"` inside the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station: Option<String>,
    /// Speed of that station; left out, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 1e6), extend("exclusiveMinimum" = 0, "default" = 1)))]
    pub speed: Option<f64>,
}

/// The count that makes the length of a queue, by name.
pub type LengthName = gate::Length;

/// A station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = rules::station))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StationEntry {
    /// Its name.
    pub name: String,
    /// Its kind of service.
    pub kind: StationName,
    /// So many equal stations, called `cpu-1`, `cpu-2`, ... for `cpu`. None in a scenario that was
    /// read: the stations stand there one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_536)))]
    pub count: Option<u32>,
    /// Number of its servers or processors; left out, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 1)))]
    pub servers: Option<u32>,
    /// The quantum of a fair share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub quantum: Option<Span>,
    /// Time from one tick to the next of the timer that ends the turns of a fair share; left out,
    /// turns end with the quantum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::above_zero))]
    pub tick: Option<Span>,
    /// Number of jobs that it has room for, those in service among them; left out, any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub room: Option<u32>,
    /// Fate of a job that finds no room; left out, it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "lose")))]
    pub full: Option<FullName>,
    /// Rule for the next job at a queue; left out, first in first out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "fifo")))]
    pub order: Option<OrderName>,
    /// The speed of each server of a queue; left out, 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(transform = rules::speeds))]
    pub speeds: Vec<f64>,
    /// The speed of a sharing station at 1, 2, ... jobs, all together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(transform = rules::speeds))]
    pub speed_curve: Vec<f64>,
    /// The demand of every class that has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<DemandEntry>,
    /// Demands by the name of the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub demands: BTreeMap<String, DemandEntry>,
}

/// Stations by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StationName {
    /// First in first out.
    Queue,
    /// Everybody at once.
    Delay,
    /// Processor sharing.
    Sharing,
    /// One processor shared by quantum between workers.
    FairShare,
}

/// Amount of service that a visit needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum DemandEntry {
    /// A time, constant or with a distribution.
    Time(DistEntry),
    /// `g(x) = a x + b` of the job's size.
    BySize(ByteDemand),
    /// `"trace"`: what the trace says of the job.
    OfTrace(OfTrace),
}

/// The word `trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OfTrace {
    /// The demand that the trace has for the job.
    Trace,
}

/// A demand by the size x of the job: `g(x) = a x + b`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ByteDemand {
    /// Time that each byte takes, a.
    pub per_byte: PerByte,
    /// Time at size 0, b.
    pub base: Span,
}

/// Origin of fitted numbers, and the range in which they may be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Calibration {
    /// Time of the fit, UTC, RFC 3339.
    pub date: String,
    /// The runs that it was fitted to.
    pub runs: Vec<String>,
    /// The fewest and the most clients among them.
    pub clients: [u32; 2],
    /// The highest throughput among them.
    pub throughput_max: Rate,
    /// The fitted parameters with their intervals.
    pub parameters: BTreeMap<String, Parameter>,
    /// Parameters that the runs could not identify, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unidentified: Vec<String>,
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Parameter {
    /// Its value, in SI units.
    pub value: f64,
    /// Its interval.
    pub interval: [f64; 2],
    /// The confidence of that.
    pub confidence: f64,
    /// Its unit.
    pub unit: String,
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioError {
    /// The place: kind and name of the part.
    pub place: String,
    /// The mistake, and the way out.
    pub cause: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cause)
    }
}

impl std::error::Error for ScenarioError {}
