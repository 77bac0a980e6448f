//! Networks of several classes, open, closed or mixed: one type, and the algorithms that solve it.
//!
//! Which algorithm is for what, and how far off it is, stands with [`Network`].
//!
//! What product form needs (Baskett, Chandy, Muntz and Palacios 1975): a FIFO queue serves all its
//! classes with one exponential service time; sharing stations, rate curves and delays may have any
//! distribution and a service time for each class.
//!
//! Open classes are Poisson. Where they meet closed ones the generating function of a station,
//! F(s) = sum of s^j / (a(1) ... a(j)), is taken at s plus the open load rho, which stays a series
//! of positive terms: nothing is subtracted, for any number of servers.

mod answer;
mod approximate;
mod bounds;
mod convolution;
mod curve;
mod model;
mod mva;

pub use answer::{ClassAnswer, NetworkAnswer, VisitAnswer};
pub use bounds::ClassBounds;

use crate::SolveError;
use crate::error::{at_least_one, not_negative, positive};
use model::Model;

/// Several classes of jobs and the stations that they visit.
///
/// | what you have | algorithm | exact, or off by at most, where tried | cost |
/// | --- | --- | --- | --- |
/// | product form, one server a station | mean value analysis ([`Algorithm::Exact`]) | exact | states C K |
/// | product form, several servers or rate curves | positive convolution ([`Algorithm::Exact`]) | exact | states C times the curves' lengths |
/// | only open classes, product form | the same, one state ([`Algorithm::Exact`]) | exact | C times the curves' lengths |
/// | more states than can be paid for | [`Algorithm::Linearizer`] | 4 %; several servers 13 % | C^2 K a round, and in memory |
/// | the same, less memory | [`Algorithm::Aql`] | 8 %; several servers 13 % | C^2 K a round, C K in memory |
/// | more classes than that | [`Algorithm::BardSchweitzer`] | 35 % | C K a round |
/// | rates that fall with more jobs, too many states | the approximate ones | 120 % | as above |
/// | FIFO, service times differ by class | the approximate ones, Reiser's wait | 50 % | as above |
/// | priorities | the approximate ones, MVA priority approximation | 70 % | as above |
/// | FIFO or priorities at one station, all classes open | the same | exact | C |
/// | no time at all | [`Network::asymptotic_bounds`] | a theorem | C K |
///
/// C is the number of closed classes and K that of stations; states are the populations from nobody
/// to all, the product of N_c + 1. The errors are the largest seen in throughput or response time of
/// any class, on some hundred random networks of one to four classes, one to 20 customers each and
/// one to six stations, against the exact solution or the Markov chain, rounded up. Nine in ten are
/// within 0.5 % with Linearizer, 1.2 % with AQL and 11 % with Bard-Schweitzer where each station has
/// one server; within 1.1 % with Linearizer where some have up to twelve.
///
/// Classes and stations are counted from 0 in the order in which they are added; the methods that
/// add one give its index.
///
/// ```
/// use solve::{Network, StationKind};
///
/// let mut network = Network::new();
/// let browsers = network.add_closed("browsers", 20, 5.0)?;
/// let batch = network.add_open("batch", 0.5)?;
/// let cpu = network.add_station("cpu", StationKind::Sharing { servers: 2 })?;
/// let disk = network.add_station("disk", StationKind::Fifo { servers: 1 })?;
/// network.set_visits(cpu, browsers, 3.0, 0.05)?;
/// network.set_visits(disk, browsers, 2.0, 0.03)?;
/// network.set_visits(cpu, batch, 1.0, 0.4)?;
/// let answer = network.solve()?;
/// assert!(answer.exactness().is_exact());
/// let row = answer.at(disk, browsers);
/// assert!((row.jobs - row.arrival_rate * row.response).abs() < 1e-12);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    pub(crate) classes: Vec<Class>,
    pub(crate) stations: Vec<Place>,
}

/// A class of jobs: a population that thinks between its cycles, or a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) load: Load,
    /// 0 is served first.
    pub(crate) rank: u32,
}

/// When the jobs of a class come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A population of which each goes round for ever.
    Closed {
        /// Number of customers, N.
        customers: u32,
        /// Mean pause between two cycles, Z \[s\].
        think: f64,
    },
    /// A Poisson stream from outside.
    Open {
        /// Arrivals, lambda [1/s].
        rate: f64,
    },
}

/// A station with what each class asks of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) kind: StationKind,
    /// By class; classes that never come may be missing at the end.
    pub(crate) asks: Vec<Ask>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ask {
    pub(crate) visits: f64,
    pub(crate) service: f64,
}

/// Service of a station.
#[derive(Clone, Debug, PartialEq)]
pub enum StationKind {
    /// First in first out, by so many like servers, with exponential service times.
    Fifo {
        /// Number of servers, m.
        servers: u32,
    },
    /// All jobs at once, shared equally, at most one server a job.
    Sharing {
        /// Number of servers, m.
        servers: u32,
    },
    /// Everybody at once, at full speed: time passes, nobody waits.
    Delay,
    /// All jobs at once, shared equally, at a speed that depends on their number.
    Curve {
        /// Speed with 1, 2, ... jobs, a(1), a(2), ..., as a multiple of the speed that the service
        /// times are given for; the last one holds for all larger numbers.
        rates: Vec<f64>,
    },
    /// One server; the class of the lowest rank first (see [`Network::set_rank`]), first in first
    /// out within a rank, with exponential service times.
    Priority {
        /// Fate of the job in service when a more urgent one arrives.
        preemption: Preemption,
    },
}

/// Fate of the job in service when a more urgent one arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// It is put back and goes on later where it stopped (preemptive resume).
    Resume,
    /// It is served to its end first (head of line).
    None,
}

/// Algorithms that solve a network; the module's table says when to take which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Mean value analysis (Reiser and Lavenberg 1980), or the convolution of positive terms (Buzen
    /// 1973) where a station has several servers or a rate curve.
    Exact,
    /// Proportional estimation of the queue found (Bard 1979, Schweitzer 1979).
    BardSchweitzer,
    /// Linear estimation of the queue found, three passes (Chandy and Neuse 1982).
    Linearizer,
    /// Linearizer with the classes of a station taken together (Zahorjan, Eager and Sweillam 1988).
    Aql,
}

impl Network {
    /// A network with no class and no station.
    pub fn new() -> Network {
        Network::default()
    }

    /// Adds a closed class of N customers that think for Z seconds between cycles; gives its index.
    ///
    /// # Errors
    /// If there is no customer or Z is negative.
    pub fn add_closed(
        &mut self,
        name: &str,
        customers: u32,
        think: f64,
    ) -> Result<usize, SolveError> {
        let place = || format!("class `{name}`");
        at_least_one("customers N", customers).map_err(|error| error.at(place()))?;
        let think = not_negative("think time Z", think, "s").map_err(|error| error.at(place()))?;
        Ok(self.add_class(name, Load::Closed { customers, think }))
    }

    /// Adds an open class of Poisson arrivals with rate lambda [1/s]; gives its index.
    ///
    /// # Errors
    /// If the rate is not positive.
    pub fn add_open(&mut self, name: &str, rate: f64) -> Result<usize, SolveError> {
        let rate = positive("arrival rate lambda", rate, "/s")
            .map_err(|error| error.at(format!("class `{name}`")))?;
        Ok(self.add_class(name, Load::Open { rate }))
    }

    /// Adds a station that no class visits yet; gives its index.
    ///
    /// # Errors
    /// If it has no server, or a rate curve is empty or has a rate that is not positive.
    pub fn add_station(&mut self, name: &str, kind: StationKind) -> Result<usize, SolveError> {
        let place = || format!("station `{name}`");
        match &kind {
            StationKind::Fifo { servers } | StationKind::Sharing { servers } => {
                at_least_one("servers", *servers).map_err(|error| error.at(place()))?;
            }
            StationKind::Curve { rates } => {
                if rates.is_empty() {
                    return Err(SolveError::Zero { name: "rates of the curve" }.at(place()));
                }
                for &rate in rates {
                    positive("rate a(n)", rate, "of the nominal speed")
                        .map_err(|error| error.at(place()))?;
                }
            }
            StationKind::Delay | StationKind::Priority { .. } => {}
        }
        self.stations.push(Place { name: name.to_owned(), kind, asks: Vec::new() });
        Ok(self.stations.len() - 1)
    }

    /// Says how often a job of the class comes to the station in a cycle (or, open, in all), V, and
    /// how long each visit is served, S \[s\]; demand is D = V S.
    ///
    /// # Errors
    /// If there is no such station or class, or a number is negative.
    pub fn set_visits(
        &mut self,
        station: usize,
        class: usize,
        visits: f64,
        service: f64,
    ) -> Result<(), SolveError> {
        self.find(station, class)?;
        let place = format!(
            "station `{}`, class `{}`",
            self.stations[station].name, self.classes[class].name
        );
        let visits =
            not_negative("visits V", visits, "per job").map_err(|error| error.at(place.clone()))?;
        let service = not_negative("service time S", service, "s")
            .map_err(|error| error.at(place.clone()))?;
        not_negative("demand D = V S", visits * service, "s").map_err(|error| error.at(place))?;
        let asks = &mut self.stations[station].asks;
        if asks.len() <= class {
            asks.resize(class + 1, Ask::default());
        }
        asks[class] = Ask { visits, service };
        Ok(())
    }

    /// The same for one visit of D seconds.
    ///
    /// # Errors
    /// As [`Network::set_visits`].
    pub fn set_demand(
        &mut self,
        station: usize,
        class: usize,
        demand: f64,
    ) -> Result<(), SolveError> {
        self.set_visits(station, class, 1.0, demand)
    }

    /// Changes the think time of a closed class, Z \[s\].
    ///
    /// # Errors
    /// If there is no such closed class, or Z is negative.
    pub fn set_think(&mut self, class: usize, think: f64) -> Result<(), SolveError> {
        let classes = self.classes.len();
        let Some(Class { name, load: Load::Closed { think: old, .. }, .. }) =
            self.classes.get_mut(class)
        else {
            return Err(SolveError::NoClass { class, classes });
        };
        *old = not_negative("think time Z", think, "s")
            .map_err(|error| error.at(format!("class `{name}`")))?;
        Ok(())
    }

    /// Sets the rank of a class at every [`StationKind::Priority`] station: 0, which every class has
    /// unless told otherwise, is served first.
    ///
    /// # Errors
    /// If there is no such class.
    pub fn set_rank(&mut self, class: usize, rank: u32) -> Result<(), SolveError> {
        let classes = self.classes.len();
        let found = self.classes.get_mut(class).ok_or(SolveError::NoClass { class, classes })?;
        found.rank = rank;
        Ok(())
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Number of stations.
    pub fn stations(&self) -> usize {
        self.stations.len()
    }

    /// The name of a class.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn class_name(&self, class: usize) -> &str {
        &self.classes[class].name
    }

    /// The name of a station.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn station_name(&self, station: usize) -> &str {
        &self.stations[station].name
    }

    /// When the jobs of a class come.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn load(&self, class: usize) -> Load {
        self.classes[class].load
    }

    /// The rank of a class at priority stations.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn rank(&self, class: usize) -> u32 {
        self.classes[class].rank
    }

    /// Service of a station.
    ///
    /// # Panics
    /// If there is no such station.
    pub fn kind(&self, station: usize) -> &StationKind {
        &self.stations[station].kind
    }

    /// Visits of a job of the class to the station in a cycle, V, and mean service of a visit, S
    /// \[s\].
    ///
    /// # Panics
    /// If there is no such station.
    pub fn visits(&self, station: usize, class: usize) -> (f64, f64) {
        let ask = self.ask(station, class);
        (ask.visits, ask.service)
    }

    /// Solves the network: exactly where it has product form and at most some 100 million steps are
    /// needed, otherwise by Linearizer, or, where that does not settle, by AQL. Beyond 20 million
    /// numbers (C^2 K) or at last it is Bard-Schweitzer. The answer says which.
    ///
    /// # Errors
    /// If there is no class, a class that takes no time or visits no station, an open class
    /// overloads a station, or the approximation does not converge.
    pub fn solve(&self) -> Result<NetworkAnswer, SolveError> {
        let model = Model::new(self)?;
        let is_affordable = model.steps() <= model::STEPS_AFFORDABLE && model.fits();
        if model.no_product_form().is_none() && is_affordable {
            return self.solved(&model, Algorithm::Exact);
        }
        let tried: &[Algorithm] = if approximate::linearizer_is_affordable(&model) {
            &[Algorithm::Linearizer, Algorithm::Aql, Algorithm::BardSchweitzer]
        } else {
            &[Algorithm::BardSchweitzer]
        };
        let mut last = None;
        for &algorithm in tried {
            match self.solved(&model, algorithm) {
                Err(error @ (SolveError::NoConvergence { .. } | SolveError::Unsound { .. })) => {
                    last.get_or_insert(error);
                }
                found => return found,
            }
        }
        Err(last.expect("every algorithm that gave no answer gave an error"))
    }

    /// Solves the network as told.
    ///
    /// # Errors
    /// As [`Network::solve`]; and for [`Algorithm::Exact`], if the network has no product form (the
    /// station and the cause are named) or has too many states.
    pub fn solve_with(&self, algorithm: Algorithm) -> Result<NetworkAnswer, SolveError> {
        self.solved(&Model::new(self)?, algorithm)
    }

    fn solved(&self, model: &Model, algorithm: Algorithm) -> Result<NetworkAnswer, SolveError> {
        let flows = match algorithm {
            Algorithm::Exact => {
                if let Some(error) = model.no_product_form() {
                    return Err(error);
                }
                model.check_size()?;
                if model.is_plain() { mva::solve(model) } else { convolution::solve(model) }
            }
            Algorithm::BardSchweitzer => approximate::bard_schweitzer(model)?,
            Algorithm::Linearizer => approximate::linearizer(model)?,
            Algorithm::Aql => approximate::aql(model)?,
        };
        answer::assembled(self, model, algorithm, &flows)
    }

    fn add_class(&mut self, name: &str, load: Load) -> usize {
        self.classes.push(Class { name: name.to_owned(), load, rank: 0 });
        self.classes.len() - 1
    }

    fn find(&self, station: usize, class: usize) -> Result<(), SolveError> {
        let (stations, classes) = (self.stations.len(), self.classes.len());
        if station >= stations {
            return Err(SolveError::NoStation { station, stations });
        }
        if class >= classes {
            return Err(SolveError::NoClass { class, classes });
        }
        Ok(())
    }

    /// Demand of a class at a station.
    pub(crate) fn ask(&self, station: usize, class: usize) -> Ask {
        self.stations[station].asks.get(class).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Algorithm::Exact => "exact",
            Algorithm::BardSchweitzer => "Bard-Schweitzer",
            Algorithm::Linearizer => "Linearizer",
            Algorithm::Aql => "AQL",
        })
    }
}
