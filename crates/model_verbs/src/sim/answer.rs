//! Answers of `sim --json`: what was simulated of a scenario, and of many that differ in parameters.

use std::collections::BTreeMap;
use std::path::Path;

use advise::{Scenario, ScenarioKeys};
use cli::json::{self, Answer, Quantiles};
use gate::Why;
use measure::Estimate;
use schemars::JsonSchema;
use serde::Serialize;
use sim::{CacheOutcome, ClassOutcome, GateOutcome, Outcome, SizeRange, StationOutcome, Stop};

/// A scenario, simulated.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Simulated<'a> {
    #[schemars(with = "ScenarioKeys")]
    scenario: &'a Scenario,
    /// Seed of all that was drawn.
    seed: u64,
    /// The plan of the runs: replications, or batches of one run.
    plan: &'static str,
    /// Number of runs, or of batches.
    replications: u32,
    /// True if neighbouring batches of one run are still correlated, so that intervals are too narrow.
    batches_correlated: bool,
    /// Half-width of the means that was asked for, as a share of them.
    precision: f64,
    stop: StopWord,
    /// Number of requests that were left out as warm-up, in each run.
    warmup_requests: u64,
    /// True if the end of the warm-up was found, and not only assumed.
    warmup_found: bool,
    /// True if a steady state was seen.
    steady: bool,
    /// Cause why there is no steady state so far.
    unsettled: Option<&'a str>,
    /// Simulated time that counts, over all runs \[s\].
    counted_s: f64,
    /// Number of events.
    events: u64,
    /// Each class by itself.
    classes: Vec<Class<'a>>,
    /// Each gate.
    gates: Vec<Gate<'a>>,
    /// Each station.
    stations: Vec<Station<'a>>,
    /// Each cache.
    caches: Vec<Cache<'a>>,
    /// The course over time, if intervals were asked for.
    intervals: Vec<Interval>,
    /// Files that were written, if they were asked for.
    csv: Option<&'a Path>,
    /// The Parquet file.
    parquet: Option<&'a Path>,
}

impl Answer for Simulated<'_> {
    const FORMAT: &'static str = "sekisho/sim/1";
}

/// Files that a simulation was written to.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) csv: Option<&'a Path>,
    pub(crate) parquet: Option<&'a Path>,
}

impl<'a> Simulated<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        outcome: &'a Outcome,
        precision: f64,
        files: Files<'a>,
    ) -> Simulated<'a> {
        Simulated {
            scenario,
            seed: outcome.seed,
            plan: super::plan_word(outcome.plan),
            replications: outcome.plan.runs(),
            batches_correlated: outcome.correlated,
            precision,
            stop: outcome.stop.into(),
            warmup_requests: outcome.warmup_completions,
            warmup_found: outcome.warmup_found,
            steady: outcome.unsettled.is_none() && outcome.stop != Stop::Agenda,
            unsettled: outcome.unsettled.as_deref(),
            counted_s: outcome.counted_s,
            events: outcome.events,
            classes: outcome.classes.iter().map(Class::from).collect(),
            gates: outcome.gates.iter().map(Gate::from).collect(),
            stations: outcome.stations.iter().map(Station::from).collect(),
            caches: outcome.caches.iter().map(Cache::from).collect(),
            intervals: outcome.intervals.iter().map(Interval::from).collect(),
            csv: files.csv,
            parquet: files.parquet,
        }
    }
}

/// Cause of a simulation's end.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StopWord {
    /// The intervals are as narrow as was asked for.
    Precise,
    /// The budget of requests was used up.
    Budget,
    /// The agenda ended.
    Agenda,
}

impl From<Stop> for StopWord {
    fn from(stop: Stop) -> StopWord {
        match stop {
            Stop::Precise => StopWord::Precise,
            Stop::Budget => StopWord::Budget,
            Stop::Agenda => StopWord::Agenda,
        }
    }
}

/// A class of jobs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SimulatedClass")]
pub(crate) struct Class<'a> {
    /// Its name.
    name: &'a str,
    /// Throughput \[1/s\].
    throughput_per_s: Estimate,
    offered_per_s: Estimate,
    refused_per_s: Estimate,
    lost_per_s: Estimate,
    reneged_per_s: Estimate,
    timed_out_per_s: Estimate,
    gave_up_per_s: Estimate,
    /// None if nothing was completed.
    response_s: Option<Estimate>,
    /// Quantiles of the response by their q \[s\].
    response_quantiles_s: Quantiles,
    /// Responses by the sizes of documents.
    sizes: Vec<Size<'a>>,
}

/// Jobs of one document, or of sizes from a power of two on.
#[derive(Serialize, JsonSchema)]
struct Size<'a> {
    /// Name of the document.
    document: Option<&'a str>,
    /// Smallest size of the range \[B\].
    from_bytes: f64,
    /// Number that were completed.
    completed: u64,
    /// Mean size \[B\].
    size_mean_bytes: f64,
    /// Mean response \[s\].
    response_s: Option<Estimate>,
    /// Quantiles of the response by their q \[s\].
    response_quantiles_s: Quantiles,
}

fn quantiles(of: &[(f64, Estimate)]) -> Quantiles {
    json::quantiles(of.iter().map(|(q, value)| (*q, value)))
}

impl<'a> From<&'a ClassOutcome> for Class<'a> {
    fn from(class: &'a ClassOutcome) -> Class<'a> {
        let size = |size: &'a sim::SizeOutcome| {
            let (document, from_bytes) = match &size.range {
                SizeRange::Document { name, bytes, .. } => (Some(name.as_str()), *bytes as f64),
                SizeRange::PowerOfTwo(low) => (None, *low),
            };
            Size {
                document,
                from_bytes,
                completed: size.completed,
                size_mean_bytes: size.size_mean,
                response_s: size.response,
                response_quantiles_s: quantiles(&size.quantiles),
            }
        };
        Class {
            name: &class.name,
            throughput_per_s: class.throughput,
            offered_per_s: class.offered,
            refused_per_s: class.refused,
            lost_per_s: class.lost,
            reneged_per_s: class.reneged,
            timed_out_per_s: class.timed_out,
            gave_up_per_s: class.gave_up,
            response_s: class.response,
            response_quantiles_s: quantiles(&class.quantiles),
            sizes: class.sizes.iter().map(size).collect(),
        }
    }
}

/// A gate.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SimulatedGate")]
pub(crate) struct Gate<'a> {
    /// Its name.
    name: &'a str,
    /// Slots at the beginning.
    slots: u32,
    started_per_s: Estimate,
    wait_s: Option<Estimate>,
    /// Quantiles of the wait by their q \[s\].
    wait_quantiles_s: Quantiles,
    hold_s: Option<Estimate>,
    waiting: Estimate,
    slots_held: Estimate,
    refused_full_share: Estimate,
    refused_deadline_share: Estimate,
    refused_unreachable_share: Estimate,
    /// Trials and changes of the slots, of a gate that looks for them itself.
    moves: Vec<Move>,
}

/// A trial or a change of the slots.
#[derive(Serialize, JsonSchema)]
struct Move {
    /// Moment, since the beginning \[s\].
    at_s: f64,
    /// Its slots from then on.
    slots: u32,
    /// Cause of the move, in a word.
    why: String,
    trial: Option<Trial>,
}

/// Two numbers of slots, compared.
#[derive(Serialize, JsonSchema)]
struct Trial {
    /// The fewer slots.
    from: u32,
    /// The more slots.
    to: u32,
    /// Number of pairs of phases.
    pairs: u32,
    /// Ends of the interval of the throughput's elasticity in the slots.
    elasticity: [f64; 2],
}

impl<'a> From<&'a GateOutcome> for Gate<'a> {
    fn from(gate: &'a GateOutcome) -> Gate<'a> {
        let row = |(at, made): &(gate::Time, gate::Move)| Move {
            at_s: at.as_secs_f64(),
            slots: made.slots,
            why: made.why.to_string(),
            trial: match made.why {
                Why::More(found) | Why::Fewer(found) | Why::Stays(found) => Some(Trial {
                    from: found.from,
                    to: found.to,
                    pairs: found.pairs,
                    elasticity: found.elasticity,
                }),
                _ => None,
            },
        };
        Gate {
            name: &gate.name,
            slots: gate.slots,
            started_per_s: gate.started,
            wait_s: gate.wait,
            wait_quantiles_s: quantiles(&gate.wait_quantiles),
            hold_s: gate.hold,
            waiting: gate.waiting,
            slots_held: gate.busy,
            refused_full_share: gate.refused_full,
            refused_deadline_share: gate.refused_deadline,
            refused_unreachable_share: gate.refused_unreachable,
            moves: gate.moves.iter().map(row).collect(),
        }
    }
}

/// A station.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SimulatedStation")]
pub(crate) struct Station<'a> {
    /// Its name.
    name: &'a str,
    /// None of a station that only delays.
    utilisation: Option<Estimate>,
    /// Mean number of jobs there.
    jobs: Estimate,
    sojourn_s: Option<Estimate>,
    /// Throughput \[1/s\].
    throughput_per_s: Estimate,
}

impl<'a> From<&'a StationOutcome> for Station<'a> {
    fn from(station: &'a StationOutcome) -> Station<'a> {
        Station {
            name: &station.name,
            utilisation: station.utilisation,
            jobs: station.jobs,
            sojourn_s: station.sojourn,
            throughput_per_s: station.throughput,
        }
    }
}

/// A cache.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SimulatedCache")]
pub(crate) struct Cache<'a> {
    /// Its name.
    name: &'a str,
    /// Share of the lookups that hit, 0 to 1.
    hit_ratio: Option<Estimate>,
    lookups_per_s: Estimate,
}

impl<'a> From<&'a CacheOutcome> for Cache<'a> {
    fn from(cache: &'a CacheOutcome) -> Cache<'a> {
        Cache { name: &cache.name, hit_ratio: cache.hit_ratio, lookups_per_s: cache.lookups }
    }
}

/// A part of the simulated time; its parts are in the order of the whole.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SimulatedInterval")]
pub(crate) struct Interval {
    /// Its beginning \[s\].
    from_s: f64,
    /// Its end \[s\].
    to_s: f64,
    /// Each class by itself.
    classes: Vec<ClassInInterval>,
    /// Each gate.
    gates: Vec<Node>,
    /// Each station.
    stations: Vec<Node>,
}

/// A class in an interval.
#[derive(Serialize, JsonSchema)]
struct ClassInInterval {
    offered_per_s: Estimate,
    /// Requests that ended in it \[1/s\].
    throughput_per_s: Estimate,
    failed_per_s: Estimate,
    /// Mean response of those that ended in it \[s\].
    response_s: Option<Estimate>,
}

/// A gate or station in an interval.
#[derive(Serialize, JsonSchema)]
struct Node {
    /// Mean number of jobs: at a gate those that wait, at a station all.
    jobs: Estimate,
    /// Mean number of slots or servers that are busy.
    busy: Estimate,
}

impl From<&sim::Interval> for Interval {
    fn from(interval: &sim::Interval) -> Interval {
        let class = |class: &sim::ClassInterval| ClassInInterval {
            offered_per_s: class.offered,
            throughput_per_s: class.throughput,
            failed_per_s: class.failed,
            response_s: class.response,
        };
        let node = |node: &sim::NodeInterval| Node { jobs: node.jobs, busy: node.busy };
        Interval {
            from_s: interval.from_s,
            to_s: interval.to_s,
            classes: interval.classes.iter().map(class).collect(),
            gates: interval.gates.iter().map(node).collect(),
            stations: interval.stations.iter().map(node).collect(),
        }
    }
}

/// A scenario, simulated at every combination of values.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Sweep<'a> {
    #[schemars(with = "ScenarioKeys")]
    pub(crate) scenario: &'a Scenario,
    /// Seed of all that was drawn.
    pub(crate) seed: u64,
    /// The plan of the runs: replications, or batches of one run.
    pub(crate) plan: &'static str,
    /// Number of runs, or of batches.
    pub(crate) replications: u32,
    /// Half-width of the means that was asked for, as a share of them.
    pub(crate) precision: f64,
    /// The points.
    pub(crate) points: Vec<Point<'a>>,
    /// Files that were written, if they were asked for.
    pub(crate) csv: Option<&'a Path>,
    /// The Parquet file.
    pub(crate) parquet: Option<&'a Path>,
}

impl Answer for Sweep<'_> {
    const FORMAT: &'static str = "sekisho/sim-sweep/1";
}

/// A point of a sweep.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Point<'a> {
    /// Its values, by the paths of the parameters.
    pub(crate) parameters: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    pub(crate) found: Found<'a>,
}

/// Finding at a point.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Found<'a> {
    /// It was simulated.
    Simulated {
        stop: StopWord,
        /// Cause why there is no steady state so far.
        unsettled: Option<&'a str>,
        /// Number of events.
        events: u64,
        /// Each class.
        classes: Vec<Class<'a>>,
        /// Each gate.
        gates: Vec<Gate<'a>>,
        /// Each station.
        stations: Vec<Station<'a>>,
    },
    /// Jobs pile up without end.
    Grows {
        /// Place and cause.
        grows: String,
    },
}

impl<'a> From<&'a Outcome> for Found<'a> {
    fn from(outcome: &'a Outcome) -> Found<'a> {
        Found::Simulated {
            stop: outcome.stop.into(),
            unsettled: outcome.unsettled.as_deref(),
            events: outcome.events,
            classes: outcome.classes.iter().map(Class::from).collect(),
            gates: outcome.gates.iter().map(Gate::from).collect(),
            stations: outcome.stations.iter().map(Station::from).collect(),
        }
    }
}
