//! What a simulation found, each number with its interval over the replications.

use measure::{Estimate, Histogram, Recording};

use crate::network::{Agenda, Sizes};
use crate::program::Program;
use crate::replication::{Replication, Snapshot};

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
    /// By cache.
    pub caches: Vec<CacheOutcome>,
    /// By interval of the agenda: of the whole run, or of its period.
    pub intervals: Vec<Interval>,
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
    /// The time that the agenda sets was over. The means are those of that time, from an empty start or
    /// over the periods after the first; no steady state is claimed.
    Agenda,
}

/// What became of the jobs of one class. Where no job was completed there is no response time. A request
/// is counted in the class that it ends as ([`crate::Step::Become`]), an attempt in the one that it
/// begins as; jobs that nobody waits for are not counted.
#[derive(Clone, Debug)]
pub struct ClassOutcome {
    /// The class's name.
    pub name: String,
    /// Completed requests [1/s]: the goodput.
    pub throughput: Estimate,
    /// Attempts, the first and those after a failure [1/s].
    pub offered: Estimate,
    /// Attempts turned away by gates [1/s].
    pub refused: Estimate,
    /// Attempts lost at full stations [1/s].
    pub lost: Estimate,
    /// Attempts whose client lost patience at a gate [1/s].
    pub reneged: Estimate,
    /// Attempts whose client waited for the answer no longer [1/s].
    pub timed_out: Estimate,
    /// Requests given up after the last attempt [1/s].
    pub gave_up: Estimate,
    /// Mean response time \[s\], from the first attempt on.
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
    /// Share of jobs whose client gave up while they waited.
    pub reneged: Estimate,
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
    /// Visits lost because it was full [1/s].
    pub lost: Estimate,
}

/// What happened at one cache.
#[derive(Clone, Debug)]
pub struct CacheOutcome {
    /// The cache's name.
    pub name: String,
    /// Share of lookups that found their key; none where nobody looked.
    pub hit_ratio: Option<Estimate>,
    /// Lookups [1/s].
    pub lookups: Estimate,
}

/// What happened in one interval of the agenda.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Where it begins \[s\], from the start of the run or of the period.
    pub from_s: f64,
    /// Where it ends \[s\].
    pub to_s: f64,
    /// By class.
    pub classes: Vec<ClassInterval>,
    /// By gate: `jobs` are those that wait, `busy` the slots held.
    pub gates: Vec<PartInterval>,
    /// By station: `jobs` are all there, `busy` the servers busy.
    pub stations: Vec<PartInterval>,
}

/// What became of the jobs of one class in one interval.
#[derive(Clone, Debug)]
pub struct ClassInterval {
    /// Attempts [1/s].
    pub offered: Estimate,
    /// Completed requests [1/s].
    pub throughput: Estimate,
    /// Attempts that failed [1/s].
    pub failed: Estimate,
    /// Mean response time of those completed in it \[s\].
    pub response: Option<Estimate>,
}

/// Means over one interval at a gate or a station.
#[derive(Clone, Debug)]
pub struct PartInterval {
    /// Mean number of jobs.
    pub jobs: Estimate,
    /// Mean number of slots or servers busy.
    pub busy: Estimate,
}

/// Everything but what the run knows by itself.
pub(crate) struct Found {
    pub(crate) classes: Vec<ClassOutcome>,
    pub(crate) gates: Vec<GateOutcome>,
    pub(crate) stations: Vec<StationOutcome>,
    pub(crate) caches: Vec<CacheOutcome>,
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
        caches: (0..program.caches.len()).map(|at| cache(program, &over, at)).collect(),
        counted_s: spans.iter().sum(),
    }
}

/// Gathers the intervals of the agenda.
pub(crate) fn intervals(
    program: &Program,
    agenda: &Agenda,
    replications: &[Replication<'_>],
    confidence: f64,
) -> Vec<Interval> {
    let n = agenda.intervals;
    let divided_s = agenda.divided_s(&program.classes);
    // An interval that a run did not reach has no means.
    let reached = |at: usize| replications.iter().all(|r| r.intervals()[at].span > 0.0);
    let border = |at: usize| divided_s * at as f64 / f64::from(n);
    (0..n as usize)
        .filter(|&at| reached(at))
        .map(|at| {
            let spans: Vec<f64> = replications.iter().map(|r| r.intervals()[at].span).collect();
            let over = Over { replications, spans: &spans, confidence };
            let rate = |of: &dyn Fn(&Snapshot) -> f64| over.all(|r, s| of(&r.intervals()[at]) / s);
            let counted = &replications[0].intervals()[at];
            let class = |c: usize| ClassInterval {
                offered: rate(&|i| i.classes[c][0]),
                throughput: rate(&|i| i.classes[c][1]),
                failed: rate(&|i| i.classes[c][2]),
                response: over.ratio(|r| {
                    let [_, completed, _, sum] = r.intervals()[at].classes[c];
                    (sum, completed as u64)
                }),
            };
            let gate = |g: usize| PartInterval {
                jobs: rate(&|i| i.gates[g][0]),
                busy: rate(&|i| i.gates[g][1]),
            };
            let station = |s: usize| PartInterval {
                jobs: rate(&|i| i.stations[s][0]),
                busy: rate(&|i| i.stations[s][1]),
            };
            Interval {
                from_s: border(at),
                to_s: border(at + 1),
                classes: (0..counted.classes.len()).map(class).collect(),
                gates: (0..counted.gates.len()).map(gate).collect(),
                stations: (0..counted.stations.len()).map(station).collect(),
            }
        })
        .collect()
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
        offered: over.all(|r, span| r.classes[at].offered as f64 / span),
        refused: over.all(|r, span| r.classes[at].refused as f64 / span),
        lost: over.all(|r, span| r.classes[at].lost as f64 / span),
        reneged: over.all(|r, span| r.classes[at].reneged as f64 / span),
        timed_out: over.all(|r, span| r.classes[at].timed_out as f64 / span),
        gave_up: over.all(|r, span| r.classes[at].gave_up as f64 / span),
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
            let left = tally.refused_full + tally.refused_deadline + tally.reneged;
            let asked = tally.started + left;
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
        reneged: share(|tally| tally.reneged),
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
        lost: over.all(|r, span| r.desk(at).lost as f64 / span),
    }
}

fn cache(program: &Program, over: &Over<'_, '_>, at: usize) -> CacheOutcome {
    CacheOutcome {
        name: program.caches[at].name.clone(),
        hit_ratio: over.ratio(|r| (r.shelves[at].hits as f64, r.shelves[at].lookups)),
        lookups: over.all(|r, span| r.shelves[at].lookups as f64 / span),
    }
}
