//! Work of the open classes at each part: what is too much, and how slowly the network settles.

use gate::Queues;

use super::closed::ClosedDemands;
use super::shared::SharedWork;
use crate::network::{Client, GateNode, Load, Network, NetworkError, Speed, Station};

/// A utilisation from this on is 1: what is missing is the rounding of rates and visits.
const FULL: f64 = 1.0 - 1e-12;

/// Work that the open classes bring to each part, to find the impossible before the run does.
pub(super) struct Flow {
    /// Mean work that is sure to arrive at each station per second; of what any of several may do, its part by the
    /// split that keeps them as equally busy as can be.
    pub(super) work: Vec<f64>,
    /// The part of it that comes outside of every gate, where any number of jobs may be.
    outside: Vec<f64>,
    /// The mean square of the demand of all visits that are sure to come there in a second \[s^2/s\].
    pub(super) squares: Vec<f64>,
    /// What any of several stations may do.
    shared: SharedWork,
    /// Mean time that slots of each gate are sure to be held, per second: work done meanwhile.
    pub(super) held: Vec<f64>,
    /// Holds that are sure to begin there [1/s].
    holds: Vec<f64>,
    /// True if all that arrives is counted above, and not only what is sure.
    pub(super) is_whole: bool,
    pub(super) station_fed: Vec<bool>,
    pub(super) gate_fed: Vec<bool>,
    pub(super) cache_fed: Vec<bool>,
    pub(super) class_fed: Vec<bool>,
    /// Demands of the closed classes.
    pub(super) closed: ClosedDemands,
}

impl Flow {
    pub(super) fn new(network: &Network) -> Flow {
        Flow {
            work: vec![0.0; network.stations.len()],
            outside: vec![0.0; network.stations.len()],
            squares: vec![0.0; network.stations.len()],
            shared: SharedWork::default(),
            held: vec![0.0; network.gates.len()],
            holds: vec![0.0; network.gates.len()],
            is_whole: network.classes.iter().all(|class| {
                let is_open = matches!(class.load, Load::Open(_));
                is_open && class.client == Client::default()
            }),
            station_fed: vec![false; network.stations.len()],
            gate_fed: vec![false; network.gates.len()],
            cache_fed: vec![false; network.caches.len()],
            class_fed: vec![false; network.classes.len()],
            closed: ClosedDemands::default(),
        }
    }

    /// Splits what any of several stations may do, when all of it is known.
    pub(super) fn split(&mut self, network: &Network) {
        // Whoever finds a station full may be lost there, so that nothing is sure to come to the others.
        let lossless = |station: &Station| station.speed_max().filter(|_| station.room.is_none());
        let capacities: Vec<_> = network.stations.iter().map(lossless).collect();
        self.shared.split(&mut self.work, &mut self.squares, &capacities);
    }

    /// The servers that all known work keeps busy, by stations that share it.
    pub(super) fn offered(&self, network: &Network) -> Vec<Offered> {
        let groups = self.shared.groups(network.stations.len());
        let offered = |stations: Vec<usize>| {
            let mut speeds = stations.iter().map(|&at| speed_of_each(&network.stations[at]));
            let speed = speeds.next()??;
            // Who does how much of it is not known.
            let is_even = speeds.all(|other| other == Some(speed));
            let work = stations.iter().map(|&at| self.work[at]).sum::<f64>();
            is_even.then_some(Offered { stations, servers: work / speed })
        };
        groups.into_iter().filter_map(offered).collect()
    }

    pub(super) fn check(&self, network: &Network) -> Result<(), NetworkError> {
        for (at, gate) in network.gates.iter().enumerate() {
            if !self.gate_fed[at] {
                let cause = "no class's route passes it: add it to a route or remove it";
                return Err(NetworkError::new(format!("gate `{}`", gate.name), cause));
            }
        }
        let mut caches = network.caches.iter().zip(&self.cache_fed);
        if let Some((cache, _)) = caches.find(|(_, fed)| !**fed) {
            let cause = "no class's route looks into it: add it to a route or remove it";
            return Err(NetworkError::new(format!("cache `{}`", cache.name), cause));
        }
        for (class, fed) in network.classes.iter().zip(&self.class_fed) {
            if matches!(class.load, Load::Within) && !fed {
                let cause = "it has no load, and no job becomes it: give it a load or remove it";
                return Err(NetworkError::new(format!("class `{}`", class.name), cause));
            }
        }
        for (at, station) in network.stations.iter().enumerate() {
            let place = || format!("station `{}`", station.name);
            if !self.station_fed[at] {
                let cause = "no class's route visits it: add it to a route or remove it";
                return Err(NetworkError::new(place(), cause));
            }
            let (Some(mut capacity), Some(many)) = (station.speed_max(), station.speed_of_many())
            else {
                continue;
            };
            if self.outside[at] >= many {
                // Sooner or later very many are there, and it never gets to its largest speed again.
                capacity = capacity.min(many);
            }
            if network.agenda.is_some() || station.room.is_some() {
                // What lasts a set time or has a bound does not grow without end.
                continue;
            }
            let rho = self.work[at] / capacity;
            if rho >= FULL {
                let is_shared = self.shared.is_of(at);
                let beside = if is_shared { ", and those that share its work," } else { "" };
                let cause = format!(
                    "open classes bring it{beside} {rho:.3} times the work that {} can do, so its queue grows \
                     without end: arrivals must be below {:.3} of the rate given",
                    if is_shared { "they" } else { "it" },
                    1.0 / rho
                );
                return Err(NetworkError::overloaded(place(), cause));
            }
        }
        self.check_gates(network)
    }

    /// A slot is held at least for the work that is done meanwhile, however long the waits inside are.
    fn check_gates(&self, network: &Network) -> Result<(), NetworkError> {
        for (gate, held) in network.gates.iter().zip(&self.held) {
            if network.agenda.is_some() || gate.control.is_some() {
                continue;
            }
            let rho = held / slots(gate);
            if rho >= FULL {
                let cause = format!(
                    "its slots are held for {rho:.3} times the time that they have, even where nobody \
                     waits inside, so its queue grows without end: arrivals must be below {:.3} of the \
                     rate given",
                    1.0 / rho
                );
                return Err(NetworkError::overloaded(format!("gate `{}`", gate.name), cause));
            }
        }
        Ok(())
    }

    /// A visit of this demand, which takes at least so long \[s\], inside these gates.
    pub(super) fn add(
        &mut self,
        station: usize,
        around: &[usize],
        (rate, mean, square): Visit,
        least: f64,
    ) {
        self.work[station] += rate * mean;
        if around.is_empty() {
            self.outside[station] += rate * mean;
        }
        self.squares[station] += rate * square;
        for &gate in around {
            self.held[gate] += rate * least;
        }
    }

    /// A visit to any of the stations of a gate, which takes at least so long \[s\], inside these gates.
    pub(super) fn add_shared(
        &mut self,
        (gate, stations): (usize, &[(usize, f64)]),
        around: &[usize],
        visit: Visit,
        least: f64,
    ) {
        self.shared.add(gate, stations, visit);
        for &gate in around {
            self.held[gate] += visit.0 * least;
        }
    }

    /// A hold that begins so often [1/s].
    pub(super) fn add_hold(&mut self, gate: usize, rate: f64) {
        self.holds[gate] += rate;
    }

    /// The mean squares of the holds of a gate that begin in a second \[s\], as if they were exponential.
    pub(super) fn hold_squares(&self, gate: usize) -> f64 {
        let mean = self.held[gate] / self.holds[gate].max(f64::MIN_POSITIVE);
        self.held[gate] * 2.0 * mean
    }

    /// The time in which the slowest part forgets how it began \[s\]: about 4 S / (c (1 - rho)^2) for c
    /// servers with mean service S, times (1 + scv) / 2 (M/M/1: 1 / (mu (1 - sqrt(rho))^2), Morse 1958;
    /// heavy traffic: Abate and Whitt 1987). It counts only what is sure to arrive, so the truth may
    /// be more; 0 for closed classes.
    pub(super) fn relaxation_s(&self, network: &Network) -> f64 {
        let mut longest: f64 = 0.0;
        let mut routed = vec![false; network.stations.len()];
        for (at, gate) in network.gates.iter().enumerate() {
            let held = OfferedWork {
                servers: slots(gate),
                work: self.held[at],
                squares: self.hold_squares(at),
            };
            longest = longest.max(held.behind(gate));
            if gate.stations.len() < 2 || gate.spec.shares().is_some() {
                continue;
            }
            // No station has a share of its own: the router, or one queue, gives to whoever has least.
            gate.stations.iter().for_each(|&station| routed[station] = true);
            let sum = |of: &[f64]| gate.stations.iter().map(|&station| of[station]).sum::<f64>();
            let servers = gate.stations.iter().map(|&at| network.stations[at].speed_max());
            if let Some(servers) = servers.sum::<Option<f64>>() {
                let (work, squares) = (sum(&self.work), sum(&self.squares));
                longest = longest.max(OfferedWork { servers, work, squares }.behind(gate));
            }
        }
        for (at, station) in network.stations.iter().enumerate().filter(|(at, _)| !routed[*at]) {
            // What is full is full soon.
            if let Some(servers) = station.speed_max().filter(|_| station.room.is_none()) {
                let (work, squares) = (self.work[at], self.squares[at]);
                longest = longest.max(OfferedWork { servers, work, squares }.relaxation_s());
            }
        }
        longest
    }
}

/// Speed of each server of a station, where all are alike. Of one whose speed depends on how many it serves that is the
/// largest, of which what it does is counted as a share.
fn speed_of_each(station: &Station) -> Option<f64> {
    let servers = f64::from(station.kind.capacity()?);
    match &station.speed {
        Speed::One => Some(1.0),
        Speed::Servers(speeds) => {
            let first = *speeds.first()?;
            speeds.iter().all(|&speed| speed == first).then_some(first)
        }
        Speed::Curve(_) => Some(station.speed_max()? / servers),
    }
}

/// Servers that are busy in the mean, all of those of some stations together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offered {
    pub(crate) stations: Vec<usize>,
    pub(crate) servers: f64,
}

/// Work brought to some servers: work and mean squares of the demands, by second.
#[derive(Clone, Copy)]
pub(super) struct OfferedWork {
    pub(super) servers: f64,
    pub(super) work: f64,
    pub(super) squares: f64,
}

impl OfferedWork {
    /// The time in which all servers together forget that their one queue was empty \[s\].
    pub(super) fn relaxation_s(self) -> f64 {
        let left = 1.0 - self.work / self.servers;
        if self.work == 0.0 || left <= 0.0 {
            return 0.0;
        }
        // E[S^2] / E[S] is twice the mean for an exponential demand.
        2.0 * self.squares / self.work / (self.servers * left * left)
    }

    /// The same, with a gate before them.
    fn behind(self, gate: &GateNode) -> f64 {
        let together = self.relaxation_s();
        if gate.spec.queues == Queues::Shared || gate.spec.servers.len() < 2 || together == 0.0 {
            return together;
        }
        if gate.spec.shares().is_some() {
            // Each is alone with its share.
            let n = gate.spec.servers.len() as f64;
            let OfferedWork { servers, work, squares } = self;
            let alone = OfferedWork { servers: servers / n, work: work / n, squares: squares / n };
            return alone.relaxation_s();
        }
        // The better of two among very many (Mitzenmacher 2001): the slowest eigenvalue of its equations at
        // 0.8 to 0.995 is that of 1.3 to 1.43 mean services over 1 - rho. Routers that see more are faster.
        together.max(BETTER_OF_TWO * self.squares / self.work / (1.0 - self.work / self.servers))
    }
}

/// Relaxation of the better of two, in E[S^2] / E[S] over 1 - rho.
const BETTER_OF_TWO: f64 = 0.75;

/// Visits a second, the mean and the mean square of their demand \[s, s^2\].
pub(super) type Visit = (f64, f64, f64);

pub(super) fn slots(gate: &GateNode) -> f64 {
    gate.spec.servers.iter().map(|server| f64::from(server.slots)).sum()
}
