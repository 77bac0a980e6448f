//! Answers of `replay --json` and of `sim RECORDING --json`: what is in a recording, and at other gates.

use std::collections::BTreeMap;

use cli::json::Answer;
use gate::{Action, Event, GateSpec};
use measure::{ClassAccount, Divergence, Estimate};
use schemars::JsonSchema;
use serde::Serialize;

/// Spans of a gate's specification and of its events.
const SPANS: &[&str] = &[
    "interval",
    "memory",
    "wait-max",
    "unreachable-max",
    "unreachable_max",
    "wait_max",
    "delayed",
    "refreshed",
    "after",
    "recent",
];

/// A recording, held against today's gate.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Replayed<'a> {
    /// File of the recording.
    pub(crate) recording: String,
    #[serde(flatten)]
    pub(crate) recorded: InRecording<'a>,
    /// None if today's gate answers each step as it was recorded.
    pub(crate) first_difference: Option<Difference<'a>>,
}

impl Answer for Replayed<'_> {
    const FORMAT: &'static str = "sekisho/replay/2";
    const SPANS: &'static [&'static str] = SPANS;
}

/// Contents of a recording.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InRecording<'a> {
    /// Number of steps.
    pub(crate) steps: u64,
    /// True if the gate went on when as many steps as its bound were recorded.
    pub(crate) stopped_at_its_bound: bool,
    /// True if steps that its first line announces are missing.
    pub(crate) cut_off: bool,
    /// Time from the first step to the last \[s\].
    pub(crate) length_s: f64,
    /// Specification of the gate.
    pub(crate) gate: &'a GateSpec,
    /// All jobs.
    pub(crate) jobs: Jobs,
    /// Each class by itself.
    pub(crate) classes: Vec<Class<Jobs>>,
    /// Mean number that waits.
    pub(crate) waiting_mean: f64,
    /// Mean number of slots that are held.
    pub(crate) slots_held_mean: f64,
    /// Mean number of slots that there are.
    pub(crate) slots_mean: f64,
    /// Number that waited at the end.
    pub(crate) waiting_at_end: u64,
    /// Number of slots that were held at the end.
    pub(crate) slots_held_at_end: u64,
}

/// The first step that differs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FirstDifference")]
pub(crate) struct Difference<'a> {
    /// Its number, from 1.
    step: u64,
    /// Moment, since the beginning \[s\].
    at_s: f64,
    event: &'a Event,
    /// Actions that were recorded.
    recorded: &'a [Action],
    /// Actions of today's gate.
    now: &'a [Action],
}

impl<'a> From<&'a Divergence> for Difference<'a> {
    fn from(of: &'a Divergence) -> Difference<'a> {
        Difference {
            step: of.step as u64 + 1,
            at_s: of.recorded.at.as_secs_f64(),
            event: &of.recorded.event,
            recorded: &of.recorded.actions,
            now: &of.replayed,
        }
    }
}

/// A class and what is told of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClassOf{T}")]
pub(crate) struct Class<T> {
    /// Name of the class.
    pub(crate) class: String,
    #[serde(flatten)]
    pub(crate) of: T,
}

/// Jobs of a class, or of all.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Jobs {
    /// Number that arrived.
    arrived: u64,
    /// Number that were served.
    served: u64,
    /// Number of those that were refused, by the reason.
    refused: BTreeMap<&'static str, u64>,
    /// Number whose clients gave up while they waited.
    reneged: u64,
    wait_s: Times,
    hold_s: Times,
}

/// Mean and quantiles; none of no job.
#[derive(Serialize, JsonSchema)]
struct Times {
    /// Mean \[s\].
    mean: Option<f64>,
    /// Median \[s\].
    p50: Option<f64>,
    /// 95th percentile \[s\].
    p95: Option<f64>,
    /// 99th percentile \[s\].
    p99: Option<f64>,
}

impl From<&measure::Times> for Times {
    fn from(of: &measure::Times) -> Times {
        Times {
            mean: of.mean_s(),
            p50: of.quantile_s(0.5),
            p95: of.quantile_s(0.95),
            p99: of.quantile_s(0.99),
        }
    }
}

impl From<&ClassAccount> for Jobs {
    fn from(of: &ClassAccount) -> Jobs {
        Jobs {
            arrived: of.arrived,
            served: of.waits.count(),
            refused: of.refused.iter().map(|(reason, jobs)| (reason.name(), *jobs)).collect(),
            reneged: of.reneged,
            wait_s: (&of.waits).into(),
            hold_s: (&of.holds).into(),
        }
    }
}

/// The load of a recorded gate, simulated at several gates.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AtGates<'a> {
    /// File of the recording.
    pub(crate) recording: String,
    /// Seed of all that was drawn.
    pub(crate) seed: u64,
    pub(crate) as_recorded: InRecording<'a>,
    pub(crate) reproduced: Reproduced,
    /// Jobs whose holds the recording does not tell, so that they were drawn from the others'.
    pub(crate) holds_drawn: u64,
    /// Jobs that held their slots when the recording ended.
    pub(crate) holds_cut_off: u64,
    /// Number of jobs that gave up in the recording, and are given the same patience.
    pub(crate) reneged_as_recorded: u64,
    /// The most slots that were held at once in the recording.
    pub(crate) slots_held_most: u32,
    /// Number of changes of the slots in the recording.
    pub(crate) slots_changed: u64,
    /// The recorded gate first.
    pub(crate) gates: Vec<AtGate<'a>>,
}

impl Answer for AtGates<'_> {
    const FORMAT: &'static str = "sekisho/sim-recording/2";
    const SPANS: &'static [&'static str] = SPANS;
}

/// Distance of the simulation of the recorded gate from the recording.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Reproduced {
    /// True if each job has the fate and the wait that were recorded.
    pub(crate) exactly: bool,
    /// Number of jobs whose fate the recording tells.
    pub(crate) jobs: u64,
    /// Number of those that were served in one and not in the other, or refused for another reason.
    pub(crate) other_fate: u64,
    /// Number of those that were served in both after different waits.
    pub(crate) other_wait: u64,
    /// Largest difference of a wait \[s\].
    pub(crate) largest_difference_s: f64,
}

/// The load at one gate.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AtGate<'a> {
    /// Name of the gate: as recorded, or the policy and slots that differ.
    pub(crate) name: String,
    /// Specification of the gate.
    pub(crate) gate: &'a GateSpec,
    /// All jobs.
    pub(crate) jobs: Compared,
    /// Each class by itself.
    pub(crate) classes: Vec<Class<Compared>>,
    /// Share of the slots that is held; none where there was no time.
    pub(crate) utilisation: Option<f64>,
    /// Mean number that waits.
    pub(crate) waiting_mean: f64,
    /// Mean number of slots that are held.
    pub(crate) slots_held_mean: f64,
    /// Mean number of slots that there are.
    pub(crate) slots_mean: f64,
    /// Number of jobs that wait or hold a slot at the end.
    pub(crate) never_ended: u64,
}

/// Jobs, and how much longer they wait than at the recorded gate.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Compared {
    #[serde(flatten)]
    pub(crate) jobs: Jobs,
    /// None at the recorded gate, or where too few jobs were served at both.
    pub(crate) wait_difference_s: Option<Estimate>,
}
