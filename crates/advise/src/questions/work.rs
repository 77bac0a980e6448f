//! Work that each job brings to a network's gates and stations when nobody waits: the formula's
//! witness of who saturates first (the utilisation law; Denning and Buzen 1978).

use serde::Serialize;
use sim::{Demand, Join, Load, Network, Sizes, Step};

use super::QuestionError;
use crate::scenario::mean_demand;

/// Something of limited capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Hardness {
    /// A gate: its slots are a setting.
    Soft,
    /// A station: its servers are hardware.
    Hard,
}

/// A gate or station of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Gate(usize),
    Station(usize),
}

impl Part {
    /// Every gate, and every station that is not a delay.
    pub(super) fn all(network: &Network) -> Vec<Part> {
        let gates = (0..network.gates.len()).map(Part::Gate);
        let stations = network.stations.iter().enumerate();
        let limited = stations.filter(|(_, station)| station.kind.capacity().is_some());
        gates.chain(limited.map(|(at, _)| Part::Station(at))).collect()
    }

    pub(super) fn name(self, network: &Network) -> &str {
        match self {
            Part::Gate(at) => &network.gates[at].name,
            Part::Station(at) => &network.stations[at].name,
        }
    }

    pub(super) fn hardness(self) -> Hardness {
        match self {
            Part::Gate(_) => Hardness::Soft,
            Part::Station(_) => Hardness::Hard,
        }
    }

    /// Slots or servers.
    pub(super) fn capacity(self, network: &Network) -> u32 {
        match self {
            Part::Gate(at) => {
                network.gates[at].spec.servers.iter().map(|server| server.slots).sum()
            }
            Part::Station(at) => network.stations[at].kind.capacity().unwrap_or(u32::MAX),
        }
    }
}

/// Work that the jobs of one class bring to every part, when nobody waits.
#[derive(Clone, Debug)]
pub(super) struct ClassWork {
    /// Mean demand at each station \[s\].
    pub(super) stations: Vec<f64>,
    /// The part of it that is asked for outside of every gate, where any number of jobs may be \[s\].
    outside: Vec<f64>,
    /// Mean demand inside each gate whose jobs go to whichever of its stations is free or best \[s\].
    shared: Vec<f64>,
    /// Mean time for which slots of each gate are held \[s\].
    pub(super) gates: Vec<f64>,
    /// Mean response time \[s\].
    pub(super) response: f64,
    /// Mean think time \[s\]; 0 for an open class.
    pub(super) think: f64,
    /// Jobs at a time (closed) or per second (open).
    load: Size,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    Population(f64),
    Rate(f64),
}

impl ClassWork {
    fn of(network: &Network, class: &sim::Class) -> ClassWork {
        let (load, think) = match &class.load {
            Load::Closed { population, think } => {
                (Size::Population(f64::from(*population)), think.mean())
            }
            Load::Open(arrivals) => (Size::Rate(arrivals.rate()), 0.0),
            Load::Varying(_) | Load::Trace(_) | Load::Within => {
                unreachable!("`work` refuses a load that is not steady")
            }
        };
        let mut work = ClassWork {
            stations: vec![0.0; network.stations.len()],
            outside: vec![0.0; network.stations.len()],
            shared: vec![0.0; network.gates.len()],
            gates: vec![0.0; network.gates.len()],
            response: 0.0,
            think,
            load,
        };
        work.response = work.steps(network, &class.sizes, &class.route, 1.0, None);
        work
    }

    fn steps(
        &mut self,
        network: &Network,
        sizes: &Sizes,
        steps: &[Step],
        passes: f64,
        gate: Option<usize>,
    ) -> f64 {
        let mut sum = 0.0;
        for step in steps {
            sum += match step {
                Step::Visit { station, demand } => {
                    let demand = passes * mean(demand, sizes);
                    self.stations[*station] += demand;
                    if gate.is_none() {
                        self.outside[*station] += demand;
                    }
                    demand / network.stations[*station].speed_of_one()
                }
                Step::VisitServer { demand } => {
                    let gate = gate.expect("the scenario saw a gate around it");
                    self.visit_server(network, gate, passes * mean(demand, sizes))
                }
                Step::Hold { gate, inside } => {
                    let held = self.steps(network, sizes, inside, passes, Some(*gate));
                    self.gates[*gate] += held;
                    held
                }
                Step::Choose(ways) => {
                    let way = |(chance, steps): &(f64, Vec<Step>)| {
                        self.steps(network, sizes, steps, passes * chance, gate)
                    };
                    ways.iter().map(way).sum()
                }
                Step::Repeat { again, steps } => {
                    self.steps(network, sizes, steps, passes / (1.0 - again), gate)
                }
                // What follows keeps the slot; that the client is gone by then makes the time without
                // waiting shorter than it says here.
                Step::Reply => 0.0,
                Step::Send { way } => {
                    self.steps(network, sizes, way, passes, None);
                    0.0
                }
                Step::Fork { ways, join } => {
                    let way = |way: &Vec<Step>| self.steps(network, sizes, way, passes, None);
                    let mut each: Vec<f64> = ways.iter().map(way).collect();
                    // By means: chance makes the true time longer for all of them, and shorter for
                    // the first one.
                    each.sort_by(f64::total_cmp);
                    let awaited = match join {
                        Join::All => each.len(),
                        Join::First(count) => *count as usize,
                    };
                    awaited.checked_sub(1).and_then(|last| each.get(last)).copied().unwrap_or(0.0)
                }
                Step::Become { .. } | Step::Lookup { .. } => {
                    unreachable!("`work` refuses what the law does not know")
                }
            };
        }
        sum
    }

    /// A visit to the server of a gate's slot; how long it takes at least \[s\].
    fn visit_server(&mut self, network: &Network, gate: usize, demand: f64) -> f64 {
        let node = &network.gates[gate];
        let servers = (0..).zip(&node.stations).map(|(server, &at)| (at, node.speed(server)));
        match node.spec.shares() {
            Some(shares) => {
                for ((station, speed), share) in servers.clone().zip(shares) {
                    self.stations[station] += demand * share / speed;
                }
            }
            None => self.shared[gate] += demand,
        }
        let speeds = servers.map(|(at, speed)| speed * network.stations[at].speed_of_one());
        demand / speeds.fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Completions per second when nobody waits.
    fn rate(&self) -> f64 {
        match self.load {
            Size::Population(population) => population / (self.response + self.think),
            Size::Rate(rate) => rate,
        }
    }

    /// Demand at a part \[s\].
    pub(super) fn demand(&self, part: Part) -> f64 {
        match part {
            Part::Gate(at) => self.gates[at],
            Part::Station(at) => self.stations[at],
        }
    }
}

fn mean(demand: &Demand, sizes: &Sizes) -> f64 {
    mean_demand(demand, sizes)
}

/// Work that every class brings to every part.
///
/// # Errors
/// If the load is not steady, or what a job asks for depends on more than its class.
pub(super) fn work(network: &Network) -> Result<Vec<ClassWork>, QuestionError> {
    if let Some(what) = beyond_law(network) {
        return Err(QuestionError::NoLaw(what));
    }
    let mut works: Vec<_> =
        network.classes.iter().map(|class| ClassWork::of(network, class)).collect();
    split(network, &mut works);
    Ok(works)
}

/// Gives the stations of gates that deal no shares their parts of the work: those that keep all stations as equally
/// busy as can be.
fn split(network: &Network, works: &mut [ClassWork]) {
    let busy =
        |of: &dyn Fn(&ClassWork) -> f64| works.iter().map(|work| work.rate() * of(work)).sum();
    let own: Vec<f64> =
        (0..network.stations.len()).map(|at| busy(&|work| work.stations[at])).collect();
    let capacities: Vec<_> = network.stations.iter().map(sim::Station::speed_max).collect();
    let pools = network.gates.iter().enumerate().map(|(gate, node)| {
        let servers = (0..).zip(&node.stations).map(|(server, &at)| (at, node.speed(server)));
        (servers.collect(), busy(&|work: &ClassWork| work.shared[gate]))
    });
    let shares = sim::equal_shares(&own, &capacities, &pools.collect::<Vec<_>>());
    for (gate, (node, shares)) in network.gates.iter().zip(shares).enumerate() {
        for (server, (&station, share)) in node.stations.iter().zip(shares).enumerate() {
            for work in works.iter_mut() {
                work.stations[station] += work.shared[gate] * share / node.speed(server);
            }
        }
    }
}

/// A trait of the network that the utilisation law does not know, in words; none if it has none.
fn beyond_law(network: &Network) -> Option<String> {
    let class = |class: &sim::Class| {
        let what = match &class.load {
            Load::Varying(_) => "its load changes over time",
            Load::Trace(_) => "its load is a trace",
            Load::Within => "jobs become it on their way",
            Load::Closed { .. } | Load::Open(_) => return None,
        };
        Some(format!("class `{}`: {what}", class.name))
    };
    if network.agenda.is_some() {
        return Some("the scenario lasts a set time".into());
    }
    let cache = network.caches.first();
    let cache =
        cache.map(|cache| format!("how often cache `{}` hits must be simulated", cache.name));
    network.classes.iter().find_map(class).or(cache)
}

/// The factor of the load at which a part would be full if nobody waited anywhere: at a smaller one,
/// others' waiting cannot fill a station, but makes a gate's holds longer. None if nothing is asked of
/// it.
pub(super) fn full_at(network: &Network, works: &[ClassWork], part: Part) -> Option<f64> {
    let busy: f64 = works.iter().map(|work| work.rate() * work.demand(part)).sum();
    let can_do = match part {
        Part::Station(at) => {
            let station = &network.stations[at];
            let may_grow =
                |work: &ClassWork| matches!(work.load, Size::Rate(_)) && work.outside[at] > 0.0;
            let speed = match works.iter().any(may_grow) {
                true => station.speed_of_many(),
                false => station.speed_max(),
            };
            speed.unwrap_or(f64::INFINITY)
        }
        Part::Gate(_) => f64::from(part.capacity(network)),
    };
    let full = can_do / busy;
    full.is_finite().then_some(full)
}
