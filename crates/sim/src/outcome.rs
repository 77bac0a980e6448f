//! What a simulation found, each number with its interval over the replications.

use measure::{Estimate, Histogram, Recording};

use crate::network::Sizes;
use crate::program::Program;
use crate::replication::Replication;

/// The quantiles that are reported.
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// What a simulation found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed of all its chance.
    pub seed: u64,
    /// How many independent replications were run.
    pub replications: u32,
    /// Arrivals and completions of service that were simulated, warm-up included.
    pub events: u64,
    /// Requests left out at the start of each replication as warm-up.
    pub warmup_completions: u64,
    /// Whether the end of the warm-up was found (MSER-5); if not, the load is probably too high for
    /// a steady state.
    pub warmup_found: bool,
    /// Virtual time counted, over all replications \[s\].
    pub counted_s: f64,
    /// Why it stopped.
    pub stop: Stop,
    /// By class.
    pub classes: Vec<ClassOutcome>,
    /// By gate.
    pub gates: Vec<GateOutcome>,
    /// By station.
    pub stations: Vec<StationOutcome>,
    /// The recording that was asked for.
    pub recording: Option<Recording>,
}

/// Why a simulation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every class's mean response time is as precise as was asked for.
    Precise,
    /// The budget of completions was used up first: the intervals are wider than asked for.
    Budget,
}

/// What became of the jobs of one class. Where no job was completed there is no response time.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// The class's name.
    pub name: String,
    /// Completed requests [1/s].
    pub throughput: Estimate,
    /// Requests turned away [1/s].
    pub refused: Estimate,
    /// Mean response time \[s\].
    pub response: Option<Estimate>,
    /// Response-time quantiles \[s\], each with its q.
    pub quantiles: Vec<(f64, Estimate)>,
    /// By document, or by power of two of the size.
    pub sizes: Vec<SizeOutcome>,
    /// All response times.
    pub histogram: Histogram,
}

/// Response times of the jobs of like size.
#[derive(Clone, Debug)]
pub struct SizeOutcome {
    /// Which sizes.
    pub range: SizeRange,
    /// How many were completed.
    pub completed: u64,
    /// Mean size of the completed jobs \[bytes\].
    pub size_mean: f64,
    /// Mean response time \[s\].
    pub response: Option<Estimate>,
    /// Response-time quantiles \[s\], each with its q; only for documents.
    pub quantiles: Vec<(f64, Estimate)>,
}

/// Which sizes are counted together.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeRange {
    /// One document.
    Document {
        /// Its index in the set.
        index: usize,
        /// Its name.
        name: String,
        /// Its size \[bytes\].
        bytes: u64,
    },
    /// From this size \[bytes\] to below twice it (from 0, where it is 1).
    PowerOfTwo(f64),
}

/// What happened at one gate.
#[derive(Clone, Debug)]
pub struct GateOutcome {
    /// The gate's name.
    pub name: String,
    /// Slots, over all servers.
    pub slots: u32,
    /// Jobs that got a slot [1/s].
    pub started: Estimate,
    /// Mean wait of those \[s\].
    pub wait: Option<Estimate>,
    /// Mean hold \[s\].
    pub hold: Option<Estimate>,
    /// Wait quantiles \[s\], each with its q.
    pub wait_quantiles: Vec<(f64, Estimate)>,
    /// Mean number of jobs that wait.
    pub waiting: Estimate,
    /// Mean number of slots held.
    pub busy: Estimate,
    /// Share of jobs refused because the queue was full.
    pub refused_full: Estimate,
    /// Share of jobs refused because of their deadline.
    pub refused_deadline: Estimate,
    /// All waits.
    pub wait_histogram: Histogram,
}

/// What happened at one station.
#[derive(Clone, Debug)]
pub struct StationOutcome {
    /// The station's name.
    pub name: String,
    /// Share of its servers that is busy, 0 to 1; none for a delay.
    pub utilisation: Option<Estimate>,
    /// Mean number of jobs there.
    pub jobs: Estimate,
    /// Mean time that a visit takes, wait included \[s\].
    pub sojourn: Option<Estimate>,
    /// Visits completed [1/s].
    pub throughput: Estimate,
}

/// Everything but what the run knows by itself.
pub(crate) struct Found {
    pub(crate) classes: Vec<ClassOutcome>,
    pub(crate) gates: Vec<GateOutcome>,
    pub(crate) stations: Vec<StationOutcome>,
    pub(crate) counted_s: f64,
}

/// Gathers what the replications counted; `confidence` is that of all intervals.
pub(crate) fn gather(
    program: &Program,
    replications: &mut [Replication<'_>],
    confidence: f64,
) -> Found {
    let spans: Vec<f64> = replications.iter_mut().map(Replication::settle).collect();
    let over = Over { replications, spans: &spans, confidence };
    Found {
        classes: (0..program.classes.len()).map(|at| class(program, &over, at)).collect(),
        gates: (0..program.gates.len()).map(|at| gate(program, &over, at)).collect(),
        stations: (0..program.stations.len()).map(|at| station(program, &over, at)).collect(),
        counted_s: spans.iter().sum(),
    }
}

/// Estimates over replications.
struct Over<'a, 'p> {
    replications: &'a [Replication<'p>],
    spans: &'a [f64],
    confidence: f64,
}

impl<'p> Over<'_, 'p> {
    /// The mean of a value that every replication has; `of` is given the replication and the time
    /// that it counted.
    fn all(&self, of: impl Fn(&Replication<'p>, f64) -> f64) -> Estimate {
        let values = self.replications.iter().zip(self.spans);
        let values: Vec<f64> = values.map(|(replication, &span)| of(replication, span)).collect();
        Estimate::from_independent(&values, self.confidence)
    }

    /// The mean of a ratio, over the replications in which there is something to divide by; none if
    /// they are fewer than two.
    fn ratio(&self, of: impl Fn(&Replication<'p>) -> (f64, u64)) -> Option<Estimate> {
        let ratios = self.replications.iter().map(of).filter(|(_, count)| *count > 0);
        let values: Vec<f64> = ratios.map(|(sum, count)| sum / count as f64).collect();
        (values.len() >= 2).then(|| Estimate::from_independent(&values, self.confidence))
    }

    fn quantiles(
        &self,
        of: impl for<'r> Fn(&'r Replication<'p>) -> &'r Histogram,
    ) -> Vec<(f64, Estimate)> {
        let at = |q: f64| {
            let filled =
                self.replications.iter().map(&of).filter(|histogram| !histogram.is_empty());
            let values: Vec<f64> = filled.map(|h| h.quantile(q).as_secs_f64()).collect();
            (values.len() >= 2).then(|| (q, Estimate::from_independent(&values, self.confidence)))
        };
        QUANTILES.iter().filter_map(|&q| at(q)).collect()
    }

    fn merged(&self, of: impl for<'r> Fn(&'r Replication<'p>) -> &'r Histogram) -> Histogram {
        let mut all = Histogram::new();
        self.replications.iter().for_each(|replication| all.merge(of(replication)));
        all
    }
}

fn class(program: &Program, over: &Over<'_, '_>, at: usize) -> ClassOutcome {
    let class = &program.classes[at];
    let groups = over.replications[0].classes[at].by_size.len();
    let size = |group: usize| {
        let range = match &class.sizes {
            Sizes::Documents(set, _) => {
                let document = &set.documents()[group];
                SizeRange::Document {
                    index: group,
                    name: document.name.clone(),
                    bytes: document.bytes,
                }
            }
            Sizes::None | Sizes::Drawn(_) => SizeRange::PowerOfTwo((group as f64).exp2()),
        };
        let like = |r: &Replication<'_>| {
            let like = &r.classes[at].by_size[group];
            (like.completed, like.size_sum)
        };
        let completed = over.replications.iter().map(|r| like(r).0).sum();
        let size_sum: f64 = over.replications.iter().map(|r| like(r).1).sum();
        let documents = matches!(range, SizeRange::Document { .. });
        SizeOutcome {
            range,
            completed,
            size_mean: if completed == 0 { 0.0 } else { size_sum / completed as f64 },
            response: over.ratio(|r| {
                let like = &r.classes[at].by_size[group];
                (like.response_sum, like.completed)
            }),
            quantiles: if documents {
                over.quantiles(|r| {
                    r.classes[at].by_size[group].histogram.as_ref().expect("documents have one")
                })
            } else {
                Vec::new()
            },
        }
    };
    ClassOutcome {
        name: class.name.clone(),
        throughput: over.all(|r, span| r.classes[at].completed as f64 / span),
        refused: over.all(|r, span| r.classes[at].refused as f64 / span),
        response: over.ratio(|r| (r.classes[at].response_sum, r.classes[at].completed)),
        quantiles: over.quantiles(|r| &r.classes[at].histogram),
        sizes: (0..groups).map(size).filter(|size| size.completed > 0).collect(),
        histogram: over.merged(|r| &r.classes[at].histogram),
    }
}

fn gate(program: &Program, over: &Over<'_, '_>, at: usize) -> GateOutcome {
    let node = &program.gates[at];
    let share = |of: fn(&crate::tally::GateTally) -> u64| {
        over.all(move |r, _| {
            let tally = r.gate(at);
            let asked = tally.started + tally.refused_full + tally.refused_deadline;
            if asked == 0 { 0.0 } else { of(tally) as f64 / asked as f64 }
        })
    };
    GateOutcome {
        name: node.name.clone(),
        slots: node.spec.servers.iter().map(|server| server.slots).sum(),
        started: over.all(|r, span| r.gate(at).started as f64 / span),
        wait: over.ratio(|r| (r.gate(at).wait_sum, r.gate(at).started)),
        hold: over.ratio(|r| (r.gate(at).hold_sum, r.gate(at).departed)),
        wait_quantiles: over.quantiles(|r| &r.gate(at).wait),
        waiting: over.all(|r, span| r.gate(at).waiting_area * 1e-9 / span),
        busy: over.all(|r, span| r.gate(at).busy_area * 1e-9 / span),
        refused_full: share(|tally| tally.refused_full),
        refused_deadline: share(|tally| tally.refused_deadline),
        wait_histogram: over.merged(|r| &r.gate(at).wait),
    }
}

fn station(program: &Program, over: &Over<'_, '_>, at: usize) -> StationOutcome {
    let station = &program.stations[at];
    let utilisation = station.kind.capacity().map(|capacity| {
        over.all(|r, span| r.desk(at).busy_area * 1e-9 / span / f64::from(capacity))
    });
    StationOutcome {
        name: station.name.clone(),
        utilisation,
        jobs: over.all(|r, span| r.desk(at).jobs_area * 1e-9 / span),
        // Little's law; what has arrived and what has left differ by the few that are there.
        sojourn: over.ratio(|r| (r.desk(at).jobs_area * 1e-9, r.desk(at).served)),
        throughput: over.all(|r, span| r.desk(at).served as f64 / span),
    }
}
