//! The network to be simulated, as plain values, and what makes one impossible.

use std::fmt;
use std::time::Duration;

use gate::{ControlSpec, GateSpec};
use workload::{Arrivals, Dist, DocumentSet, Draw, RateCurve, Trace};

pub use crate::agenda::{Agenda, Change, Changed};
pub use crate::cache::{Cache, Keys, Replacement};

/// The low bits of a job's id at a gate are the customer, the high bits count its visits.
pub(crate) const CUSTOMER_BITS: u32 = 24;
/// More customers than this at once have no id at a gate.
pub(crate) const CUSTOMERS_MAX: usize = 1 << CUSTOMER_BITS;

/// Gates, stations and the classes of jobs that pass them.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Classes of jobs: the clients, and the way that their jobs go.
    pub classes: Vec<Class>,
    /// Gates: all that a person could configure.
    pub gates: Vec<GateNode>,
    /// Stations: the hardware that does the work.
    pub stations: Vec<Station>,
    /// Caches: stores of answers, so that the work for them need not be done again.
    pub caches: Vec<Cache>,
    /// Changes at set times, and the length of the run. With it each replication starts empty and
    /// lasts as long as it says, and nothing is claimed of a steady state; without it the means are
    /// those of a steady state.
    pub agenda: Option<Agenda>,
}

impl Network {
    /// Adds a cache and returns its index.
    pub fn add_cache(&mut self, cache: Cache) -> usize {
        self.caches.push(cache);
        self.caches.len() - 1
    }

    /// Adds a class and returns its index.
    pub fn add_class(&mut self, class: Class) -> usize {
        self.classes.push(class);
        self.classes.len() - 1
    }

    /// Adds a gate and returns its index.
    pub fn add_gate(&mut self, gate: GateNode) -> usize {
        self.gates.push(gate);
        self.gates.len() - 1
    }

    /// Adds a station and returns its index.
    pub fn add_station(&mut self, station: Station) -> usize {
        self.stations.push(station);
        self.stations.len() - 1
    }
}

/// Jobs of one kind: who asks, for what, and which way they go.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// When they come.
    pub load: Load,
    /// Size of a job.
    pub sizes: Sizes,
    /// Importance at gates with priorities: larger first.
    pub priority: u8,
    /// Time within which a job must have been started after it comes to a gate, else it is refused.
    pub deadline: Option<Duration>,
    /// The way through the network; empty for [`Load::Within`].
    pub route: Vec<Step>,
    /// Behaviour of its clients when they are not served well.
    pub client: Client,
}

impl Class {
    /// A class of jobs without sizes, of the lowest priority.
    pub fn new(name: &str, load: Load, route: Vec<Step>) -> Class {
        Class {
            name: name.into(),
            load,
            sizes: Sizes::None,
            priority: 0,
            deadline: None,
            route,
            client: Client::default(),
        }
    }
}

/// When the jobs of a class come.
#[derive(Clone, Debug)]
pub enum Load {
    /// A fixed population: each customer thinks, then asks, then thinks again.
    Closed {
        /// Number of customers.
        population: u32,
        /// Time between an answer and the next request \[s\].
        think: Dist,
    },
    /// Arrivals that wait for nobody.
    Open(Arrivals),
    /// The same with a rate that changes over time; needs [`Network::agenda`].
    Varying(RateCurve),
    /// Arrivals that were recorded, or made elsewhere; needs [`Network::agenda`].
    Trace(Trace),
    /// No job begins as this class: jobs of others become it ([`Step::Become`]).
    Within,
}

/// Behaviour of the clients of a class when they are not served well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// Time that they wait at a gate before they renege \[s\], drawn anew at each gate.
    pub patience: Option<Dist>,
    /// Time that they wait for the answer in all, each attempt anew.
    pub time_out: Option<TimeOut>,
    /// Repetition of an attempt that failed: refused, lost, reneged or timed out.
    pub retry: Option<Retry>,
}

/// Time-out of a client, and the end of the request then.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeOut {
    /// Time from the attempt to the time-out \[s\].
    pub after: Dist,
    /// The part of the network that notices.
    pub noticed: Noticed,
}

/// The part of the network that notices that a client has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// Nobody: the request runs on to its end, for nothing.
    Nowhere,
    /// Gates: the request leaves the gate where it waits, or the next one that it comes to; a
    /// service that has begun is completed.
    AtGates,
}

/// Repetition of attempts that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// The most attempts after the first.
    pub more: u32,
    /// The pause before the first of them \[s\].
    pub back_off_s: f64,
    /// Ratio of each pause to the one before, at least 1.
    pub factor: f64,
    /// The longest pause \[s\].
    pub back_off_max_s: f64,
    /// The share of each pause that is left to chance, 0 to 1: a pause p becomes one between
    /// `(1 - jitter) p` and p.
    pub jitter: f64,
}

/// Sizes of the jobs of a class \[bytes\].
#[derive(Clone, Debug)]
pub enum Sizes {
    /// They have no size.
    None,
    /// Each job asks for one of these documents.
    Documents(DocumentSet, Draw),
    /// Each job has a size of its own.
    Drawn(Dist),
}

/// One step of a route.
#[derive(Clone, Debug)]
pub enum Step {
    /// Be served at a station.
    Visit {
        /// The station, an index into [`Network::stations`].
        station: usize,
        /// Service needed there.
        demand: Demand,
    },
    /// Be served at the station that belongs to the server whose slot is held, at the innermost
    /// gate around this step ([`GateNode::stations`]).
    VisitServer {
        /// Service needed there.
        demand: Demand,
    },
    /// Get a slot of a gate, hold it through all the steps inside, give it back.
    Hold {
        /// The gate, an index into [`Network::gates`].
        gate: usize,
        /// Steps while the slot is held.
        inside: Vec<Step>,
    },
    /// Go one of several ways by chance; what is missing to 1 goes on at once.
    Choose(
        /// Chance (0 to 1) and way.
        Vec<(f64, Vec<Step>)>,
    ),
    /// Go this way once, and again each time with this chance.
    Repeat {
        /// The chance of going again, below 1.
        again: f64,
        /// The way.
        steps: Vec<Step>,
    },
    /// Inside a gate: the client has its answer and goes on behind the gate, while the steps from here
    /// on (the second phase) run on without it and keep the slot. Once in a [`Step::Hold`], not in a
    /// choice or a repetition.
    Reply,
    /// A job of its own goes this way, and nobody waits for it. It holds nothing of what the sender
    /// holds; its time counts in no response.
    Send {
        /// Its way.
        way: Vec<Step>,
    },
    /// Jobs of their own go all these ways at once; this one goes on when enough of them are through.
    /// They hold nothing of what this one holds. Those that are not waited for run on to their end.
    Fork {
        /// The ways.
        ways: Vec<Vec<Step>>,
        /// Number that must be through; if so many are refused that this cannot be, this job fails
        /// too.
        join: Join,
    },
    /// Go on as a job of that class: gates see its class and priority, and the request is counted where
    /// it ends. Its size, its client and the next request are those of the class that it began as.
    Become {
        /// The class, an index into [`Network::classes`].
        class: usize,
    },
    /// Look for a key in a cache and go one way or the other; a key that was missing is there from now
    /// on, in place of another where the cache is full.
    Lookup {
        /// The cache, an index into [`Network::caches`].
        cache: usize,
        /// The way if the key is there.
        hit: Vec<Step>,
        /// The way if it is not.
        miss: Vec<Step>,
    },
}

/// Number of ways of a [`Step::Fork`] that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// All of them.
    All,
    /// The first so many: a quorum.
    First(u32),
}

/// Service that a visit needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// Drawn anew at each visit \[s\].
    Drawn(Dist),
    /// `g(x) = a x + b` of the job's size x \[bytes\].
    OfSize {
        /// a \[s/byte\].
        per_byte_s: f64,
        /// b \[s\].
        base_s: f64,
    },
    /// By the document that the job asks for \[s\].
    OfDocument(Vec<f64>),
    /// The demand that the trace gives this job ([`Load::Trace`]) \[s\].
    OfTrace,
}

/// A gate in the network.
#[derive(Clone, Debug)]
pub struct GateNode {
    /// Its name.
    pub name: String,
    /// Its parameters. The seed is mixed with the replication's.
    pub spec: GateSpec,
    /// The station that belongs to each server, for [`Step::VisitServer`]; may be empty.
    pub stations: Vec<usize>,
    /// The speed of each server: a demand d takes d / speed at [`Step::VisitServer`]. Empty where all
    /// have speed 1.
    pub speeds: Vec<f64>,
    /// Controller of the number of slots of one of its servers; none: they stay as they are.
    pub control: Option<ControlSpec>,
}

impl GateNode {
    /// A gate without stations of its servers' own.
    pub fn new(name: &str, spec: GateSpec) -> GateNode {
        let (stations, speeds) = (Vec::new(), Vec::new());
        GateNode { name: name.into(), spec, stations, speeds, control: None }
    }

    /// Speed at which jobs with a slot of this server are served.
    pub fn speed(&self, server: usize) -> f64 {
        self.speeds.get(server).copied().unwrap_or(1.0)
    }
}

/// Hardware that does the work, not policy.
#[derive(Clone, Debug)]
pub struct Station {
    /// Its name.
    pub name: String,
    /// Kind of service.
    pub kind: StationKind,
    /// Number of jobs that it has room for, those in service among them, and the fate of others
    /// when it is full; none for no bound.
    pub room: Option<(u32, WhenFull)>,
    /// Order of service at a queue.
    pub order: Order,
    /// Speed of its work.
    pub speed: Speed,
}

impl Station {
    /// A station with room for all, first in first out, of speed 1.
    pub fn new(name: &str, kind: StationKind) -> Station {
        let (room, order, speed) = (None, Order::Fifo, Speed::One);
        Station { name: name.into(), kind, room, order, speed }
    }

    /// The most work that it can do in a second, all its servers together \[s\]; none where it serves all at once.
    pub fn speed_max(&self) -> Option<f64> {
        let capacity = f64::from(self.kind.capacity()?);
        Some(match &self.speed {
            Speed::One => capacity,
            Speed::Servers(speeds) => speeds.iter().sum(),
            Speed::Curve(curve) => curve.iter().copied().fold(0.0, f64::max),
        })
    }

    /// The work that it does in a second when very many jobs are there \[s\]; none where it serves all at once.
    pub fn speed_of_many(&self) -> Option<f64> {
        match &self.speed {
            Speed::Curve(curve) => curve.last().copied(),
            Speed::One | Speed::Servers(_) => self.speed_max(),
        }
    }

    /// The most work of one job that it can do in a second, whoever else is there \[s\].
    pub fn speed_of_one(&self) -> f64 {
        match &self.speed {
            Speed::One => 1.0,
            Speed::Servers(speeds) => speeds.iter().copied().fold(0.0, f64::max),
            // Each job has an equal part.
            Speed::Curve(curve) => {
                let parts = (1..).zip(curve).map(|(jobs, speed)| speed / f64::from(jobs));
                parts.fold(0.0, f64::max)
            }
        }
    }

    /// True if it is served as its kind alone says, without a bound.
    pub fn is_plain(&self) -> bool {
        self.room.is_none() && self.order == Order::Fifo && self.speed == Speed::One
    }
}

/// Fate of a job that finds a station full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is lost: the attempt has failed.
    Lose,
    /// Blocking after service: it stays where it is until there is room, and keeps the server of the
    /// queue that it comes from, and the slots that it holds. Stations of other kinds are left all the
    /// same.
    Block,
}

/// Order of service at a [`StationKind::Queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First in first out.
    Fifo,
    /// The class of the largest priority first; a service that has begun is completed.
    Priority,
    /// The same, but a more important job takes the server from the least important one, which goes on
    /// later where it was.
    Preemptive,
    /// The job of the shortest remaining demand first, whatever its class; it takes the server from the one
    /// that has most left, which goes on later where it was.
    ShortestRemaining,
}

/// Speed of a station.
#[derive(Clone, Debug, PartialEq)]
pub enum Speed {
    /// One second of demand takes one second.
    One,
    /// Each server of a [`StationKind::Queue`] has its own speed, above 0; the fastest that is free
    /// serves.
    Servers(Vec<f64>),
    /// A [`StationKind::Sharing`] does so many seconds of demand a second, all jobs together, at 1, 2,
    /// ... jobs, each above 0; the last value holds beyond. In place of its processors.
    Curve(Vec<f64>),
}

/// Kinds of service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StationKind {
    /// First in first out, `servers` at a time.
    Queue {
        /// Number of jobs served at a time, at least 1.
        servers: u32,
    },
    /// Everybody at once: an infinite server.
    Delay,
    /// All jobs share `processors` equally, each job on at most one of them.
    Sharing {
        /// Number of processors, at least 1.
        processors: u32,
    },
    /// One processor, one job at a time for a quantum, the worker with the least processor time so
    /// far first. The share belongs to the worker, which is the slot held at the innermost gate, and
    /// survives from job to job: what an operating system does with processes that serve requests.
    /// Outside all gates each visit is a worker of its own. For a quantum towards 0, without ticks, it
    /// becomes sharing.
    FairShare {
        /// The time a worker keeps the processor while others want it \[s\], above 0.
        quantum_s: f64,
        /// From one tick of the processor's timer to the next \[s\]: a worker that has had its quantum
        /// keeps the processor up to the next tick, so that turns differ in length. 0 without a timer.
        tick_s: f64,
    },
}

impl StationKind {
    /// Number of jobs that it serves at once at full speed; none for a delay.
    pub fn capacity(&self) -> Option<u32> {
        match *self {
            StationKind::Queue { servers: n } | StationKind::Sharing { processors: n } => Some(n),
            StationKind::FairShare { .. } => Some(1),
            StationKind::Delay => None,
        }
    }
}

/// Why a network cannot be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkError {
    /// The place: the kind and name of the part.
    pub place: String,
    /// The fault, and the way out.
    pub cause: String,
    /// Of what kind that is.
    pub fault: NetworkFault,
}

/// Kinds of faults that make a network impossible to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// It cannot be, whatever the load.
    Impossible,
    /// Open classes bring a station more work than it can do; less load would be possible.
    Overloaded,
}

impl NetworkError {
    pub(crate) fn new(place: impl Into<String>, cause: impl Into<String>) -> NetworkError {
        let fault = NetworkFault::Impossible;
        NetworkError { place: place.into(), cause: cause.into(), fault }
    }

    pub(crate) fn overloaded(place: impl Into<String>, cause: impl Into<String>) -> NetworkError {
        NetworkError { fault: NetworkFault::Overloaded, ..NetworkError::new(place, cause) }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cause)
    }
}

impl std::error::Error for NetworkError {}
