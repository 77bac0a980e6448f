//! The network to be simulated, as plain values, and what makes one impossible.

use std::fmt;
use std::time::Duration;

use gate::GateSpec;
use workload::{Arrivals, Dist, DocumentSet, Draw};

/// Gates, stations and the classes of jobs that pass them.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Who asks, and which way they go.
    pub classes: Vec<Class>,
    /// What a person could configure.
    pub gates: Vec<GateNode>,
    /// What does the work.
    pub stations: Vec<Station>,
}

impl Network {
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
    /// How large a job is.
    pub sizes: Sizes,
    /// Importance at gates with priorities: larger first.
    pub priority: u8,
    /// How soon after it comes to a gate a job must have been started, else it is refused.
    pub deadline: Option<Duration>,
    /// The way through the network.
    pub route: Vec<Step>,
}

impl Class {
    /// A class of jobs without sizes, of the lowest priority.
    pub fn new(name: &str, load: Load, route: Vec<Step>) -> Class {
        Class { name: name.into(), load, sizes: Sizes::None, priority: 0, deadline: None, route }
    }
}

/// When the jobs of a class come.
#[derive(Clone, Debug)]
pub enum Load {
    /// A fixed population: each customer thinks, then asks, then thinks again.
    Closed {
        /// How many customers.
        population: u32,
        /// Time between an answer and the next request \[s\].
        think: Dist,
    },
    /// Arrivals that wait for nobody.
    Open(Arrivals),
}

/// How large the jobs of a class are \[bytes\].
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
        /// How much service is needed there.
        demand: Demand,
    },
    /// Be served at the station that belongs to the server whose slot is held, at the innermost
    /// gate around this step ([`GateNode::stations`]).
    VisitServer {
        /// How much service is needed there.
        demand: Demand,
    },
    /// Get a slot of a gate, hold it through all the steps inside, give it back.
    Hold {
        /// The gate, an index into [`Network::gates`].
        gate: usize,
        /// What happens while the slot is held.
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
}

/// How much service a visit needs.
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
}

impl GateNode {
    /// A gate without stations of its servers' own.
    pub fn new(name: &str, spec: GateSpec) -> GateNode {
        GateNode { name: name.into(), spec, stations: Vec::new() }
    }
}

/// What does the work: hardware, not policy.
#[derive(Clone, Debug)]
pub struct Station {
    /// Its name.
    pub name: String,
    /// How it serves.
    pub kind: StationKind,
}

impl Station {
    /// A station.
    pub fn new(name: &str, kind: StationKind) -> Station {
        Station { name: name.into(), kind }
    }
}

/// How a station serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StationKind {
    /// First in first out, `servers` at a time.
    Queue {
        /// How many are served at a time, at least 1.
        servers: u32,
    },
    /// Everybody at once: an infinite server.
    Delay,
    /// All jobs share `processors` equally, each job on at most one of them.
    Sharing {
        /// How many processors, at least 1.
        processors: u32,
    },
    /// One processor, one job at a time for a quantum, the worker with the least processor time so
    /// far first. The share belongs to the worker, which is the slot held at the innermost gate, and
    /// survives from job to job: what an operating system does with processes that serve requests.
    /// Outside all gates each visit is a worker of its own. For a quantum towards 0 it becomes
    /// sharing.
    FairShare {
        /// The longest time a worker keeps the processor while others want it \[s\], above 0.
        quantum_s: f64,
    },
}

impl StationKind {
    /// How many jobs it serves at once at full speed; none for a delay.
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
    /// Where: the kind and name of the part.
    pub place: String,
    /// What is wrong, and the way out.
    pub cause: String,
}

impl NetworkError {
    pub(crate) fn new(place: impl Into<String>, cause: impl Into<String>) -> NetworkError {
        NetworkError { place: place.into(), cause: cause.into() }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cause)
    }
}

impl std::error::Error for NetworkError {}
