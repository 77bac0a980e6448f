//! Disciplines and routers by name, with their parameters: what files, recordings and flags hold,
//! and how each becomes the code that decides.

use std::time::Duration;

use crate::discipline::{
    Cohort, DeficitRoundRobin, Discipline, Fifo, Lifo, Priority, Rank, Ranked,
};
use crate::router::{
    ByKey, JoinIdle, Least, PowerOfD, Random, RoundRobin, Router, Score, WeightedRandom,
    WeightedRotation,
};
use crate::{CohortSpec, GateSpec, Queues, SpecError};

/// Queue disciplines by name.
///
/// | name | next is | starves |
/// | --- | --- | --- |
/// | `fifo` | the job that waits longest | nobody |
/// | `lifo` | the job that waits shortest | old jobs, under overload |
/// | `priority` | the highest [`Job::priority`](crate::Job::priority) | low priorities, under overload |
/// | `priority-ageing` | the same, but a wait of `interval` counts as much as one priority | nobody |
/// | `shortest-job` | the smallest [`Job::size`](crate::Job::size); unknown sizes (0) last | large jobs, under overload |
/// | `earliest-deadline` | the earliest [`Job::deadline`](crate::Job::deadline); jobs without last | jobs without |
/// | `deficit-round-robin` | the next class, as far as its quantum goes | nobody |
/// | `cohort` | a job about a key that is cached | nobody within a level, given `cached_max` |
///
/// Ties are first in, first out in all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum DisciplineSpec {
    /// First in, first out.
    Fifo,
    /// Last in, first out.
    Lifo,
    /// The highest priority first, first in first out within one.
    Priority,
    /// The highest priority first, where waiting counts: after each `interval` a job is as important
    /// as one that arrives now with the next higher priority.
    PriorityAgeing {
        /// Wait that counts as much as one priority.
        interval: Duration,
    },
    /// The smallest size first; jobs of unknown size, 0, after all others.
    ShortestJob,
    /// The earliest deadline first; jobs without one after all others.
    EarliestDeadline,
    /// Classes in turn, each as far as its quantum of work goes (Shreedhar and Varghese 1995). The
    /// work of a job is its size, and 1 if that is unknown.
    DeficitRoundRobin {
        /// The work of a turn, in the unit of the sizes, for a class of weight 1.
        quantum: u64,
        /// Quanta of each class, by the class's index; classes beyond the list get 1.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        weights: Vec<u32>,
    },
    /// Jobs in cohorts by key, those first whose key is cached: yamamoto's agent scheduler
    /// ([`CohortScheduler`](crate::CohortScheduler)) over keys. Taken as cached are the keys that it
    /// would hold if every job that starts brought its key into the cache.
    Cohort(CohortSpec),
}

impl DisciplineSpec {
    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            DisciplineSpec::Fifo => "fifo",
            DisciplineSpec::Lifo => "lifo",
            DisciplineSpec::Priority => "priority",
            DisciplineSpec::PriorityAgeing { .. } => "priority-ageing",
            DisciplineSpec::ShortestJob => "shortest-job",
            DisciplineSpec::EarliestDeadline => "earliest-deadline",
            DisciplineSpec::DeficitRoundRobin { .. } => "deficit-round-robin",
            DisciplineSpec::Cohort(_) => "cohort",
        }
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        const INTERVAL_MAX: Duration = Duration::from_secs(366 * 86_400);
        match self {
            DisciplineSpec::Fifo
            | DisciplineSpec::Lifo
            | DisciplineSpec::Priority
            | DisciplineSpec::ShortestJob
            | DisciplineSpec::EarliestDeadline => Ok(()),
            DisciplineSpec::PriorityAgeing { interval } => {
                if interval.is_zero() || *interval > INTERVAL_MAX {
                    return Err(SpecError::Interval);
                }
                Ok(())
            }
            DisciplineSpec::DeficitRoundRobin { quantum, weights } => {
                if *quantum == 0 || weights.contains(&0) {
                    return Err(SpecError::Quantum);
                }
                Ok(())
            }
            DisciplineSpec::Cohort(spec) => spec.check(),
        }
    }

    pub(crate) fn build(&self) -> Box<dyn Discipline> {
        match self {
            DisciplineSpec::Fifo => Box::new(Fifo::default()),
            DisciplineSpec::Lifo => Box::new(Lifo::default()),
            DisciplineSpec::Priority => Box::new(Priority::default()),
            DisciplineSpec::PriorityAgeing { interval } => {
                Box::new(Ranked::new(Rank::Ageing { interval: *interval }))
            }
            DisciplineSpec::ShortestJob => Box::new(Ranked::new(Rank::Size)),
            DisciplineSpec::EarliestDeadline => Box::new(Ranked::new(Rank::Deadline)),
            DisciplineSpec::DeficitRoundRobin { quantum, weights } => {
                Box::new(DeficitRoundRobin::new(*quantum, weights.clone()))
            }
            DisciplineSpec::Cohort(spec) => Box::new(Cohort::new(*spec)),
        }
    }
}

/// Routing policies by name.
///
/// | name | a job goes to | looks at |
/// | --- | --- | --- |
/// | `random` | any server, with equal chance | nothing |
/// | `round-robin` | one after the other | nothing |
/// | `weighted` | servers in proportion to their weights, rotating or by chance | nothing |
/// | `shortest-queue` | the fewest jobs | lengths |
/// | `power-of-d` | the fewest jobs among `d` drawn servers | lengths of those |
/// | `join-idle-queue` | an idle server; any if there is none | idleness |
/// | `least-work` | the least work left | sizes |
/// | `lowest-utilisation` | the server that was busy least | utilisation |
/// | `ev` | the largest K1 / length + K2 / utilisation (ohmae) | lengths, utilisation |
/// | `by-key` | the server that the job's key or class belongs to | the job |
///
/// One queue for all servers (multiple servers, single queue) is no router: it is
/// [`Queues::Shared`], where the router chooses among the servers that have a free slot.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum RouterSpec {
    /// Each server with equal chance.
    Random,
    /// One after the other.
    RoundRobin,
    /// The server with the fewest jobs.
    ShortestQueue {
        /// Jobs that count.
        length: Length,
        /// Choice among several equally short ones.
        ties: Ties,
    },
    /// The server with the lowest [`utilisation`](Window).
    LowestUtilisation {
        /// Since when.
        window: Window,
        /// Choice among several equally busy ones.
        ties: Ties,
    },
    /// The server with the largest EV = K1 / length + K2 / utilisation (ohmae, section 4.2). A
    /// utilisation of 0 makes its term larger than any number; of servers with as many such terms
    /// the one with the larger rest has the larger EV.
    Ev {
        /// K1, of the length; at least 0.
        queue: f64,
        /// K2, of the utilisation; at least 0.
        utilisation: f64,
        /// Jobs that count.
        length: Length,
        /// Term of a length of 0.
        at_zero: AtZero,
        /// Since when utilisation counts.
        window: Window,
        /// Choice among several equal ones.
        ties: Ties,
    },
    /// The server with the fewest jobs among `d` different ones that are drawn with equal chance.
    PowerOfD {
        /// Number of servers drawn; all of them if there are fewer.
        d: u32,
        /// Jobs that count.
        length: Length,
        /// Choice among several equally short ones.
        ties: Ties,
    },
    /// A server with a free slot for which nobody waits; if there is none, any with equal chance.
    JoinIdleQueue {
        /// Choice among several idle ones.
        ties: Ties,
    },
    /// The server with the least work: the sizes of the jobs that wait for it or are being served.
    LeastWork {
        /// Work that each slot does of a job in service in a second, in the unit of the sizes. With
        /// it, a job in service counts with what is left of it; without, with its whole size until
        /// it departs.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        speed: Option<u64>,
        /// Choice among several equal ones.
        ties: Ties,
    },
    /// Servers in proportion to their weights.
    Weighted {
        /// One for each server, 1 to 1,000,000.
        weights: Vec<u32>,
        /// Evenly spread, or drawn.
        order: WeightedOrder,
    },
    /// The server that the job's key belongs to: data-dependent routing. Needs a queue for each
    /// server.
    ByKey {
        /// Property of the job that decides.
        of: KeyOf,
        /// Map from keys to servers.
        map: KeyMap,
        /// Fate of jobs whose server is down.
        down: KeyDown,
    },
}

impl RouterSpec {
    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            RouterSpec::Random => "random",
            RouterSpec::RoundRobin => "round-robin",
            RouterSpec::ShortestQueue { .. } => "shortest-queue",
            RouterSpec::LowestUtilisation { .. } => "lowest-utilisation",
            RouterSpec::Ev { .. } => "ev",
            RouterSpec::PowerOfD { .. } => "power-of-d",
            RouterSpec::JoinIdleQueue { .. } => "join-idle-queue",
            RouterSpec::LeastWork { .. } => "least-work",
            RouterSpec::Weighted { .. } => "weighted",
            RouterSpec::ByKey { .. } => "by-key",
        }
    }

    pub(crate) fn check(&self, spec: &GateSpec) -> Result<(), SpecError> {
        let must = |holds: bool, error: SpecError| if holds { Ok(()) } else { Err(error) };
        match self {
            RouterSpec::Random
            | RouterSpec::RoundRobin
            | RouterSpec::ShortestQueue { .. }
            | RouterSpec::JoinIdleQueue { .. } => Ok(()),
            RouterSpec::LowestUtilisation { window, .. } => window.check(),
            RouterSpec::Ev { queue, utilisation, at_zero, window, .. } => {
                window.check()?;
                let weighs = |k: f64| k.is_finite() && k >= 0.0;
                let floor = match at_zero {
                    AtZero::Floor(floor) => floor.is_finite() && *floor > 0.0,
                    AtZero::Best | AtZero::PlusOne => true,
                };
                let some = *queue > 0.0 || *utilisation > 0.0;
                must(weighs(*queue) && weighs(*utilisation) && some && floor, SpecError::Ev)
            }
            RouterSpec::PowerOfD { d, .. } => must(*d > 0, SpecError::Choices),
            RouterSpec::LeastWork { speed, .. } => must(*speed != Some(0), SpecError::Speed),
            RouterSpec::Weighted { weights, .. } => {
                let in_range = weights.iter().all(|weight| (1..=1_000_000).contains(weight));
                must(in_range && weights.len() == spec.servers.len(), SpecError::Weights)
            }
            RouterSpec::ByKey { map, .. } => {
                let keeps = spec.queues == Queues::PerServer || spec.servers.len() == 1;
                must(keeps, SpecError::KeyWithoutQueues)?;
                map.check(spec.servers.len())
            }
        }
    }

    pub(crate) fn build(&self, seed: u64) -> Box<dyn Router> {
        match self {
            RouterSpec::Random => Box::new(Random::new(seed)),
            RouterSpec::RoundRobin => Box::new(RoundRobin::default()),
            RouterSpec::ShortestQueue { length, ties } => {
                Box::new(Least::new(Score::Length(*length), *ties, seed))
            }
            RouterSpec::LowestUtilisation { ties, .. } => {
                Box::new(Least::new(Score::Utilisation, *ties, seed))
            }
            RouterSpec::Ev { queue, utilisation, length, at_zero, ties, .. } => {
                let score =
                    Score::Ev { k1: *queue, k2: *utilisation, length: *length, at_zero: *at_zero };
                Box::new(Least::new(score, *ties, seed))
            }
            RouterSpec::PowerOfD { d, length, ties } => {
                Box::new(PowerOfD::new(*d, *length, *ties, seed))
            }
            RouterSpec::JoinIdleQueue { ties } => Box::new(JoinIdle::new(*ties, seed)),
            RouterSpec::LeastWork { ties, .. } => Box::new(Least::new(Score::Work, *ties, seed)),
            RouterSpec::Weighted { weights, order: WeightedOrder::Rotate } => {
                Box::new(WeightedRotation::new(weights))
            }
            RouterSpec::Weighted { weights, order: WeightedOrder::Random } => {
                Box::new(WeightedRandom::new(weights, seed))
            }
            RouterSpec::ByKey { of, map, down } => Box::new(ByKey::new(*of, map.clone(), *down)),
        }
    }

    /// The window over which it looks at utilisation, if it does.
    pub(crate) fn window(&self) -> Option<Window> {
        match self {
            RouterSpec::LowestUtilisation { window, .. } | RouterSpec::Ev { window, .. } => {
                Some(*window)
            }
            _ => None,
        }
    }

    /// The share of the jobs that each of so many servers gets, where that depends on nothing but turns
    /// and chance; `None` where it depends on the servers' states or on the jobs.
    pub fn shares(&self, servers: usize) -> Option<Vec<f64>> {
        match self {
            RouterSpec::Random | RouterSpec::RoundRobin => {
                Some(vec![1.0 / servers as f64; servers])
            }
            RouterSpec::Weighted { weights, .. } => {
                let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
                Some(weights.iter().map(|&weight| f64::from(weight) / sum).collect())
            }
            RouterSpec::ShortestQueue { .. }
            | RouterSpec::LowestUtilisation { .. }
            | RouterSpec::Ev { .. }
            | RouterSpec::PowerOfD { .. }
            | RouterSpec::JoinIdleQueue { .. }
            | RouterSpec::LeastWork { .. }
            | RouterSpec::ByKey { .. } => None,
        }
    }

    /// Property of a job that must be known before it is sent to one of several servers; `None` if
    /// nothing. A table that names no key sends all jobs alike, so it needs none.
    pub fn reads(&self) -> Option<KeyOf> {
        match self {
            RouterSpec::ByKey {
                map: KeyMap::Table { rows, default: KeyDefault::Server(_) },
                ..
            } if rows.is_empty() => None,
            RouterSpec::ByKey { of, .. } => Some(*of),
            _ => None,
        }
    }

    /// True if it decides without a look at any server's state.
    pub fn is_blind(&self) -> bool {
        matches!(
            self,
            RouterSpec::Random
                | RouterSpec::RoundRobin
                | RouterSpec::Weighted { .. }
                | RouterSpec::ByKey { .. }
        )
    }
}

/// Jobs that the length of a queue counts. ohmae's findings on load balancing hold for one of the
/// two and not for the other, so it is always said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Length {
    /// Jobs that wait for this server alone; with one queue for all servers that is none, and every
    /// choice is a tie.
    Waiting,
    /// Jobs that wait or are being served.
    InSystem,
}

/// Choice among several equally good servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ties {
    /// The one with the lowest index.
    Lowest,
    /// The next one after the server chosen last.
    Rotate,
    /// Any, with equal chance.
    Random,
}

/// Since when utilisation counts. It is the integral over time of busy slots over slots, at most 1
/// (1 for a server without slots), divided by the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Window {
    /// Since the start of the run.
    SinceStart,
    /// Recently: what was t ago weighs `exp(-t / window)`. At the start it is 0.
    Recent(
        /// The window, above 0.
        Duration,
    ),
}

impl Window {
    fn check(self) -> Result<(), SpecError> {
        if self == Window::Recent(Duration::ZERO) { Err(SpecError::Span) } else { Ok(()) }
    }
}

/// Treatment by EV of a queue of length 0, which its paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AtZero {
    /// Its term is larger than any number: an empty queue beats every other.
    Best,
    /// The length counts as this, above 0.
    Floor(
        /// Length that 0 counts as.
        f64,
    ),
    /// Every length counts as one more than it is.
    PlusOne,
}

/// Order in which weights are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WeightedOrder {
    /// In turn, those of one server spread as evenly as can be (smooth weighted round robin).
    Rotate,
    /// Each drawn with a chance in proportion to its weight.
    Random,
}

/// Property of a job that decides where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KeyOf {
    /// [`Job::key`](crate::Job::key).
    #[cfg_attr(feature = "schema", schemars(description = "The key."))]
    Key,
    /// [`Job::class`](crate::Job::class).
    #[cfg_attr(feature = "schema", schemars(description = "The class."))]
    Class,
}

/// Map from keys to servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KeyMap {
    /// By rendezvous hashing (Thaler and Ravishankar 1998): each key ranks all servers, and a server
    /// that goes down or comes up moves its own keys only.
    Hash,
    /// By ranges: the first server has the keys below the first bound, and so on; the last has those
    /// from the last bound on.
    Range {
        /// Increasing, one fewer than servers.
        bounds: Vec<u64>,
    },
    /// By a table.
    Table {
        /// Keys that it names, each once.
        rows: Vec<KeyRow>,
        /// Servers of the others.
        default: KeyDefault,
    },
}

impl KeyMap {
    fn check(&self, servers: usize) -> Result<(), SpecError> {
        match self {
            KeyMap::Hash => Ok(()),
            KeyMap::Range { bounds } => {
                let increase = bounds.windows(2).all(|pair| pair[0] < pair[1]);
                if increase && bounds.len() + 1 == servers {
                    Ok(())
                } else {
                    Err(SpecError::Bounds)
                }
            }
            KeyMap::Table { rows, default } => {
                let mut keys: Vec<u64> = rows.iter().map(|row| row.key).collect();
                keys.sort_unstable();
                let once = keys.windows(2).all(|pair| pair[0] < pair[1]);
                let exists = |server: u32| (server as usize) < servers;
                let default = match default {
                    KeyDefault::Hash => true,
                    KeyDefault::Server(server) => exists(*server),
                };
                let holds = once && default && rows.iter().all(|row| exists(row.server));
                if holds { Ok(()) } else { Err(SpecError::Table) }
            }
        }
    }
}

/// A key and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyRow {
    /// The key, or the class.
    pub key: u64,
    /// Its server.
    pub server: u32,
}

/// Servers of the keys that a table does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KeyDefault {
    /// Over all servers, as by [`KeyMap::Hash`].
    #[cfg_attr(feature = "schema", schemars(description = "Over all servers, by hash."))]
    Hash,
    /// To this server.
    Server(
        /// The server.
        u32,
    ),
}

/// Fate of a job whose key belongs to a server that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KeyDown {
    /// It goes to the next server that is up: for caches, which any server can fill. By hash, that
    /// is the next in the rank of its key, else the next by index.
    Next,
    /// It waits until its server is up, or until its deadline: for data that no other server has.
    Wait,
}

#[cfg(test)]
mod tests {
    /// The two tables above are what `docs/gate.md` shows: each policy is in one of them.
    #[test]
    fn every_policy_is_in_a_table() {
        let code = include_str!("policy.rs");
        let names: Vec<&str> = code
            .lines()
            .filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","))
            .collect();
        assert_eq!(names.len(), 18, "{names:?}");
        for name in names {
            assert!(code.contains(&format!("/// | `{name}` |")), "{name} is in no table");
        }
    }
}
