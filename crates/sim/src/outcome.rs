//! Outcome of a simulation, each number with its interval over the replications or batches.

use gate::{Move, Time};
use measure::{Estimate, Histogram, Parts, Recording};

use crate::network::{Agenda, Sizes};
use crate::observation::Observation;
use crate::program::Program;
use crate::replication::{Replication, Snapshot};
use crate::run::Plan;

/// The quantiles that are reported.
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Outcome of a simulation.
///
/// Intervals of means (response, wait, hold, rates, utilisations, jobs) are Student's t intervals over
/// the means of independent replications, or intervals of batch means of one run
/// ([`measure::Batches`]). Intervals of quantiles are inverted intervals of the share of requests below
/// them ([`Parts::quantiles`]): they have an infinite half-width where the run is too short to say how
/// far up the quantile may be, which it mostly is for p99.9 if no more was asked of it than a precise mean.
/// In the table `tests/grid/tails.csv`, 1400 runs of M/M/1 and M/M/4 to a load of 0.8, those of 95 % that
/// are finite hold the exact value in 96 to 99 of 100, up to p99.9.
///
/// A run stops where its intervals are narrow, which is sooner where they happen to be too narrow: each
/// is at least as wide as the interim analysis before foretold. On the grid of `tests/grid/coverage.csv`, 33 cases of
/// 200 runs, 95.6 % of the intervals of mean responses, and of sojourns at queues that settle slowly, hold the
/// truth, of no case fewer than 92 %.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed of all its chance.
    pub seed: u64,
    /// Basis of the intervals.
    pub plan: Plan,
    /// By [`Plan::OneRun`]: whether the mean responses of neighbouring batches are still correlated
    /// significantly, so that their intervals are probably too narrow. By replications never.
    pub correlated: bool,
    /// Arrivals and completions of service that were simulated, warm-up included.
    pub events: u64,
    /// Requests left out at the start of each replication as warm-up.
    pub warmup_completions: u64,
    /// True if the end of the warm-up was found (MSER-5); if not, the load is probably too high for
    /// a steady state.
    pub warmup_found: bool,
    /// Why the run is not in a steady state, as far as it has come: the numbers are then those of the time
    /// that was simulated, and their intervals know nothing of what comes. None where nothing speaks
    /// against one. Where there is a reason, every interval that is claimed of a steady state is infinite.
    pub unsettled: Option<String>,
    /// Virtual time counted, over all replications \[s\].
    pub counted_s: f64,
    /// Part of it that is needed at the least, for queues to have forgotten themselves often enough
    /// \[s\]; 0 where nothing queues, or by an agenda.
    pub counted_least_s: f64,
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

/// Results of the jobs of one class. There is no response time if no job was completed. A request
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
    /// The sizes.
    pub range: SizeRange,
    /// Number of completed jobs.
    pub completed: u64,
    /// Mean size of the completed jobs \[bytes\].
    pub size_mean: f64,
    /// Mean response time \[s\].
    pub response: Option<Estimate>,
    /// Response-time quantiles \[s\], each with its q; only for documents.
    pub quantiles: Vec<(f64, Estimate)>,
}

/// Sizes that are counted together.
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

/// Results of one gate.
#[derive(Clone, Debug)]
pub struct GateOutcome {
    /// The gate's name.
    pub name: String,
    /// Slots, over all servers, at the start.
    pub slots: u32,
    /// True if a controller or the agenda may change them.
    pub slots_change: bool,
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
    /// Share of jobs refused because no server was up.
    pub refused_unreachable: Estimate,
    /// Share of jobs whose client gave up while they waited.
    pub reneged: Estimate,
    /// All waits.
    pub wait_histogram: Histogram,
    /// Moves of its controller in the first replication, each with its time.
    pub moves: Vec<(Time, Move)>,
}

/// Results of one station.
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

/// Results of one cache.
#[derive(Clone, Debug)]
pub struct CacheOutcome {
    /// The cache's name.
    pub name: String,
    /// Share of lookups that found their key; none where nobody looked.
    pub hit_ratio: Option<Estimate>,
    /// Lookups [1/s].
    pub lookups: Estimate,
}

/// Results of one interval of the agenda.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its beginning \[s\], from the start of the run or of the period.
    pub from_s: f64,
    /// Its end \[s\].
    pub to_s: f64,
    /// By class.
    pub classes: Vec<ClassInterval>,
    /// By gate: `jobs` are those that wait, `busy` the slots held.
    pub gates: Vec<NodeInterval>,
    /// By station: `jobs` are all there, `busy` the servers busy.
    pub stations: Vec<NodeInterval>,
}

/// Results of the jobs of one class in one interval.
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
pub struct NodeInterval {
    /// Mean number of jobs.
    pub jobs: Estimate,
    /// Mean number of slots or servers busy.
    pub busy: Estimate,
}

/// Everything but what the run knows by itself.
pub(crate) struct Estimates {
    pub(crate) classes: Vec<ClassOutcome>,
    pub(crate) gates: Vec<GateOutcome>,
    pub(crate) stations: Vec<StationOutcome>,
    pub(crate) caches: Vec<CacheOutcome>,
    pub(crate) counted_s: f64,
    /// True if the mean responses of neighbouring batches are still correlated.
    pub(crate) correlated: bool,
    /// Why there is no steady state yet.
    pub(crate) unsettled: Option<String>,
}

impl Estimates {
    /// The same without a steady state: what is on its way agrees with itself, and says nothing of where it
    /// goes, so that no interval is known.
    pub(crate) fn unknown(mut self, why: String) -> Estimates {
        self.unsettled = Some(why);
        self.each(|_, estimate| estimate.half_width = f64::INFINITY);
        self
    }
}

/// Gathers what the parts of a run counted; `confidence` is that of all intervals.
pub(crate) fn gather(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Estimates {
    let estimator = Estimator { observations, relation, confidence };
    let classes = 0..program.classes.len();
    Estimates {
        correlated: classes.clone().any(|at| {
            let pairs = estimator.pairs(|observation| responses(observation, at));
            relation.batches(&pairs, confidence).is_some_and(|batches| batches.correlated)
        }),
        classes: classes.map(|at| class(program, &estimator, at)).collect(),
        gates: (0..program.gates.len()).map(|at| gate(program, &estimator, at)).collect(),
        stations: (0..program.stations.len()).map(|at| station(program, &estimator, at)).collect(),
        caches: (0..program.caches.len()).map(|at| cache(program, &estimator, at)).collect(),
        counted_s: observations.iter().map(|observation| observation.span).sum(),
        unsettled: None,
    }
}

/// The sum of the response times of a class, and their number.
fn responses(observation: &Observation<'_>, class: usize) -> (f64, f64) {
    let class = &observation.classes[class];
    (class.response_sum, class.completed as f64)
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
            let ratio = |of: &dyn Fn(&Snapshot) -> (f64, f64)| {
                let pairs: Vec<_> = replications.iter().map(|r| of(&r.intervals()[at])).collect();
                Parts::Independent.ratio(&pairs, confidence)
            };
            let rate = |of: &dyn Fn(&Snapshot) -> f64| {
                ratio(&|i| (of(i), i.span)).expect("every replication reached it")
            };
            let counted = &replications[0].intervals()[at];
            let class = |c: usize| ClassInterval {
                offered: rate(&|i| i.classes[c][0]),
                throughput: rate(&|i| i.classes[c][1]),
                failed: rate(&|i| i.classes[c][2]),
                response: ratio(&|i| {
                    let [_, completed, _, sum] = i.classes[c];
                    (sum, completed)
                }),
            };
            let gate = |g: usize| NodeInterval {
                jobs: rate(&|i| i.gates[g][0]),
                busy: rate(&|i| i.gates[g][1]),
            };
            let station = |s: usize| NodeInterval {
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

/// Estimates over the parts of a run.
struct Estimator<'a> {
    observations: &'a [Observation<'a>],
    relation: Parts,
    confidence: f64,
}

impl Estimator<'_> {
    fn pairs(&self, of: impl Fn(&Observation<'_>) -> (f64, f64)) -> Vec<(f64, f64)> {
        self.observations.iter().map(of).collect()
    }

    /// A count, per second.
    fn rate(&self, of: impl Fn(&Observation<'_>) -> f64) -> Estimate {
        let pairs = self.pairs(|observation| (of(observation), observation.span));
        let rate = self.relation.ratio(&pairs, self.confidence);
        rate.expect("every part counts over some time")
    }

    /// The mean of a ratio, over the parts in which there is something to divide by; none if
    /// they are too few.
    fn ratio(&self, of: impl Fn(&Observation<'_>) -> (f64, f64)) -> Option<Estimate> {
        self.relation.ratio(&self.pairs(of), self.confidence)
    }

    /// A share, 0 where there was nothing.
    fn share(&self, of: impl Fn(&Observation<'_>) -> (f64, f64)) -> Estimate {
        match self.relation {
            Parts::Independent => {
                let share = |(some, all)| if all == 0.0 { 0.0 } else { some / all };
                let shares: Vec<f64> = self.pairs(of).into_iter().map(share).collect();
                Estimate::from_independent(&shares, self.confidence)
            }
            // Of next to nothing no share is known.
            Parts::Neighbours => self.ratio(of).unwrap_or(Estimate {
                mean: 0.0,
                half_width: f64::INFINITY,
                confidence: self.confidence,
                n: 0,
            }),
        }
    }

    fn quantiles(
        &self,
        of: impl for<'r> Fn(&'r Observation<'_>) -> &'r Histogram,
    ) -> Vec<(f64, Estimate)> {
        let histograms: Vec<&Histogram> = self.observations.iter().map(of).collect();
        self.relation.quantiles(&histograms, &QUANTILES, self.confidence)
    }

    fn merged(&self, of: impl for<'r> Fn(&'r Observation<'_>) -> &'r Histogram) -> Histogram {
        let mut all = Histogram::new();
        self.observations.iter().for_each(|observation| all.merge(of(observation)));
        // A histogram is large while it is open, and an outcome has one for each class and gate.
        all.pack();
        all
    }
}

fn class(program: &Program, estimator: &Estimator<'_>, at: usize) -> ClassOutcome {
    let class = &program.classes[at];
    let groups = estimator.observations[0].classes[at].by_size.len();
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
        let like = || {
            estimator.observations.iter().map(|observation| &observation.classes[at].by_size[group])
        };
        let completed = like().map(|like| like.completed).sum();
        let size_sum: f64 = like().map(|like| like.size_sum).sum();
        let documents = matches!(range, SizeRange::Document { .. });
        SizeOutcome {
            range,
            completed,
            size_mean: if completed == 0 { 0.0 } else { size_sum / completed as f64 },
            response: estimator.ratio(|observation| {
                let like = &observation.classes[at].by_size[group];
                (like.response_sum, like.completed as f64)
            }),
            quantiles: if documents {
                estimator.quantiles(|observation| {
                    observation.classes[at].by_size[group]
                        .histogram
                        .as_ref()
                        .expect("documents have one")
                })
            } else {
                Vec::new()
            },
        }
    };
    ClassOutcome {
        name: class.name.clone(),
        throughput: estimator.rate(|observation| observation.classes[at].completed as f64),
        offered: estimator.rate(|observation| observation.classes[at].offered as f64),
        refused: estimator.rate(|observation| observation.classes[at].refused as f64),
        lost: estimator.rate(|observation| observation.classes[at].lost as f64),
        reneged: estimator.rate(|observation| observation.classes[at].reneged as f64),
        timed_out: estimator.rate(|observation| observation.classes[at].timed_out as f64),
        gave_up: estimator.rate(|observation| observation.classes[at].gave_up as f64),
        response: estimator.ratio(|observation| responses(observation, at)),
        quantiles: estimator.quantiles(|observation| &observation.classes[at].histogram),
        sizes: (0..groups).map(size).filter(|size| size.completed > 0).collect(),
        histogram: estimator.merged(|observation| &observation.classes[at].histogram),
    }
}

fn gate(program: &Program, estimator: &Estimator<'_>, at: usize) -> GateOutcome {
    let node = &program.gates[at];
    let share = |of: fn(&crate::tally::GateTally) -> u64| {
        estimator.share(move |observation| {
            let tally = observation.gates[at];
            let refused = tally.refused_full + tally.refused_deadline + tally.refused_unreachable;
            let left = refused + tally.reneged;
            (of(tally) as f64, (tally.started + left) as f64)
        })
    };
    GateOutcome {
        name: node.name.clone(),
        slots: node.spec.servers.iter().map(|server| server.slots).sum(),
        slots_change: node.control.is_some() || program.changes_slots(at),
        started: estimator.rate(|observation| observation.gates[at].started as f64),
        wait: estimator.ratio(|observation| {
            (observation.gates[at].wait_sum, observation.gates[at].started as f64)
        }),
        hold: estimator.ratio(|observation| {
            (observation.gates[at].hold_sum, observation.gates[at].departed as f64)
        }),
        wait_quantiles: estimator.quantiles(|observation| &observation.gates[at].wait),
        waiting: estimator.rate(|observation| observation.gates[at].waiting_area * 1e-9),
        busy: estimator.rate(|observation| observation.gates[at].busy_area * 1e-9),
        refused_full: share(|tally| tally.refused_full),
        refused_deadline: share(|tally| tally.refused_deadline),
        refused_unreachable: share(|tally| tally.refused_unreachable),
        reneged: share(|tally| tally.reneged),
        wait_histogram: estimator.merged(|observation| &observation.gates[at].wait),
        moves: estimator
            .observations
            .first()
            .map_or_else(Vec::new, |observation| observation.gates[at].moves.clone()),
    }
}

fn station(program: &Program, estimator: &Estimator<'_>, at: usize) -> StationOutcome {
    let station = &program.stations[at];
    let utilisation = station.kind.capacity().map(|capacity| {
        estimator.rate(|observation| observation.stations[at].busy_s / f64::from(capacity))
    });
    StationOutcome {
        name: station.name.clone(),
        utilisation,
        jobs: estimator.rate(|observation| observation.stations[at].jobs_s),
        // Little's law; what has arrived and what has left differ by the few that are there.
        sojourn: estimator.ratio(|observation| {
            (observation.stations[at].jobs_s, observation.stations[at].served as f64)
        }),
        throughput: estimator.rate(|observation| observation.stations[at].served as f64),
        lost: estimator.rate(|observation| observation.stations[at].lost as f64),
    }
}

fn cache(program: &Program, estimator: &Estimator<'_>, at: usize) -> CacheOutcome {
    CacheOutcome {
        name: program.caches[at].name.clone(),
        hit_ratio: estimator.ratio(|observation| {
            (observation.caches[at].hits as f64, observation.caches[at].lookups as f64)
        }),
        lookups: estimator.rate(|observation| observation.caches[at].lookups as f64),
    }
}
