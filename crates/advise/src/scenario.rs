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

mod change;
mod compile;
mod entries;
mod policies;
mod setting;

pub(crate) use compile::mean_demand;
pub use policies::{DisciplineEntry, Policies, RouterEntry, SightEntry};
pub use setting::{Control, Setting, Stops, Turns, disciplines, routers};

/// A model of a service and the load on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The format version: 1.
    pub sekisho: u32,
    /// What it is a model of.
    pub name: String,
    /// The seed of a simulation, unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Who asks.
    #[serde(rename = "class")]
    pub classes: Vec<ClassEntry>,
    /// What a person could configure.
    #[serde(rename = "gate", default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateEntry>,
    /// What does the work.
    #[serde(rename = "station")]
    pub stations: Vec<StationEntry>,
    /// Where the numbers come from, if they were fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// A class of jobs. It has either a population (closed) or a rate (open).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassEntry {
    /// Its name.
    pub name: String,
    /// How many customers ask in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<u32>,
    /// Time between an answer and the next request; none is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<DistEntry>,
    /// Arrivals per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Equal gaps between arrivals rather than exponential ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalsName>,
    /// How large its jobs are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizesEntry>,
    /// Importance at gates with priorities: larger first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
    /// How soon after it comes to a gate a job must have been started, else it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// The way through the network.
    pub route: Vec<RouteEntry>,
}

fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The name of a gate or a station.
    Name(String),
    /// A station with a demand of this step's own.
    Visit(VisitEntry),
    /// One of several ways.
    Choose(ChooseEntry),
    /// A way that is gone again with a chance.
    Repeat(RepeatEntry),
}

/// A visit with a demand of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VisitEntry {
    /// The station.
    pub visit: String,
    /// The demand there.
    pub demand: DemandEntry,
}

/// One of several ways by chance; what is missing to 1 goes on at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChooseEntry {
    /// The ways.
    pub choose: Vec<ChoiceEntry>,
}

/// One way of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChoiceEntry {
    /// Its chance, 0 to 1.
    pub chance: f64,
    /// The way.
    pub route: Vec<RouteEntry>,
}

/// A way that is gone once, and again each time with this chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RepeatEntry {
    /// The chance of going again, below 1.
    pub repeat: f64,
    /// The way.
    pub route: Vec<RouteEntry>,
}

/// A distribution of a time: a plain time is a constant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DistEntry {
    /// Always the same.
    Constant(Span),
    /// A named distribution, or two moments.
    Shaped(ShapedEntry),
}

/// A distribution by its mean and shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ShapedEntry {
    /// The mean.
    pub mean: Span,
    /// Which distribution; left out, the squared cv chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dist: Option<DistName>,
    /// The squared coefficient of variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scv: Option<f64>,
}

/// Distributions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// How large the jobs of a class are.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[serde(rename_all = "kebab-case")]
pub enum SizesName {
    /// WebStone's file list, drawn from a shuffled deck.
    Webstone,
}

/// A document set of one's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DocumentsEntry {
    /// The documents.
    pub documents: Vec<DocumentEntry>,
    /// How they are drawn; left out, from a deck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<Draw>,
}

/// A document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DocumentEntry {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: Bytes,
    /// How often it is asked for, relative to the others.
    pub weight: u32,
}

/// A lognormal size \[bytes\].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LognormalEntry {
    /// The mean of the natural logarithm of the bytes.
    pub lognormal_mu: f64,
    /// The standard deviation of the natural logarithm of the bytes.
    pub lognormal_sigma: f64,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GateEntry {
    /// Its name.
    pub name: String,
    /// The slots of its one server; or give `servers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Its servers, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerEntry>,
    /// Who is next; left out, first in first out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<DisciplineEntry>,
    /// Where to; left out, round robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterEntry>,
    /// What routers count that compare queues; left out, jobs in system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<LengthName>,
    /// Which of several equally good servers; left out, rotating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ties: Option<Ties>,
    /// How stale what the router sees is; left out, not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sight: Option<SightEntry>,
    /// One queue for all servers, or one for each; left out, shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// How many jobs may wait; left out, without bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<u64>,
    /// The longest wait; left out, without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_max: Option<Span>,
    /// What is done while the slot is held.
    pub inside: Vec<RouteEntry>,
}

/// A server of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerEntry {
    /// How many jobs it may serve at once.
    pub slots: u32,
    /// The station that belongs to it: visited by the step `"server"` inside the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub station: Option<String>,
}

/// What the length of a queue counts, by name.
pub type LengthName = gate::Length;

/// A station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StationEntry {
    /// Its name.
    pub name: String,
    /// How it serves.
    pub kind: StationName,
    /// How many servers or processors it has; left out, 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// The quantum of a fair share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Span>,
    /// The demand of every class that has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<DemandEntry>,
    /// Demands by the name of the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub demands: BTreeMap<String, DemandEntry>,
}

/// Stations by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// How much service a visit needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DemandEntry {
    /// A time, constant or with a distribution.
    Time(DistEntry),
    /// `g(x) = a x + b` of the job's size.
    BySize(ByteDemand),
}

/// `g(x) = a x + b`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ByteDemand {
    /// a.
    pub per_byte: PerByte,
    /// b.
    pub base: Span,
}

/// Where fitted numbers come from and how far they may be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Calibration {
    /// When it was fitted, UTC, RFC 3339.
    pub date: String,
    /// The runs that it was fitted to.
    pub runs: Vec<String>,
    /// The fewest and the most clients among them.
    pub clients: [u32; 2],
    /// The highest throughput among them.
    pub throughput_max: Rate,
    /// The fitted parameters with their intervals.
    pub parameters: BTreeMap<String, Parameter>,
    /// What the runs could not identify, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unidentified: Vec<String>,
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Where: the kind and name of the part.
    pub place: String,
    /// What is wrong, and the way out.
    pub cause: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cause)
    }
}

impl std::error::Error for ScenarioError {}
