//! Bounds that no network of one class can exceed, whatever its gates, routers and distributions.
//!
//! Below: X >= N / (N D + Z). While not all N think, somebody is served, so that the mean number of
//! busy servers, X D, is at least the chance of that, 1 - P(all think) >= 1 - X Z / N by Markov's
//! inequality. A delay outside of every gate counts as thinking; one inside, where others may wait
//! for the slot, as service. Above: every station and every gate has a capacity.

use serde::Serialize;
use sim::{Load, Network, Step};
use solve::{ClosedBounds, ClosedNetwork, Station};

use crate::scenario::mean_demand;

/// An interval that holds the true throughput and response time; under open load, if there is a steady
/// state at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bounds {
    /// The throughput is at least this [1/s].
    #[serde(rename = "throughput_min_per_s")]
    pub throughput_min: f64,
    /// The throughput is at most this [1/s].
    #[serde(rename = "throughput_max_per_s")]
    pub throughput_max: f64,
    /// The response time is at least this \[s\].
    #[serde(rename = "response_min_s")]
    pub response_min: f64,
    /// The response time is at most this \[s\]; none where there is no such limit.
    #[serde(rename = "response_max_s")]
    pub response_max: Option<f64>,
}

impl From<ClosedBounds> for Bounds {
    fn from(of: ClosedBounds) -> Bounds {
        Bounds {
            throughput_min: of.throughput_min,
            throughput_max: of.throughput_max,
            response_min: of.response_min,
            response_max: Some(of.response_max),
        }
    }
}

/// Bounds of a closed network of product form: the asymptotes, and those that are closer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProductBounds {
    /// The asymptotes, which any network of these demands keeps to.
    pub asymptotic: Bounds,
    /// Balanced-job bounds (Zahorjan et al. 1982).
    pub balanced_job: Bounds,
    /// Geometric bounds (Casale, Muntz and Serazzi 2008).
    pub geometric: Bounds,
    /// The population at which the asymptotes of the throughput meet, N*; none where nothing queues.
    #[serde(rename = "knee_clients")]
    pub knee: Option<f64>,
}

impl ProductBounds {
    pub(super) fn of(network: &ClosedNetwork) -> ProductBounds {
        ProductBounds {
            asymptotic: network.asymptotic_bounds().into(),
            balanced_job: network.balanced_job_bounds().into(),
            geometric: network.geometric_bounds().into(),
            knee: network.knee(),
        }
    }
}

/// The bounds of a network of one class that turns nobody away.
pub(super) fn bounds(network: &Network) -> Option<Bounds> {
    let [class] = &*network.classes else { return None };
    if class.deadline.is_some() && !network.gates.is_empty() {
        return None;
    }
    // Other speeds are other demands, and where jobs are lost less is served than arrives.
    if network.stations.iter().any(|station| !station.is_plain()) {
        return None;
    }
    let mut sums = Sums {
        network,
        sizes: &class.sizes,
        population: None,
        stations: vec![0.0; network.stations.len()],
        servers: vec![0.0; network.gates.len()],
        held: vec![0.0; network.gates.len()],
        outside: 0.0,
    };
    match &class.load {
        Load::Open(arrivals) => {
            let demand = sums.steps(&class.route, 1.0, None)?;
            Some(Bounds {
                throughput_min: arrivals.rate(),
                throughput_max: arrivals.rate(),
                response_min: demand,
                response_max: None,
            })
        }
        Load::Closed { population, think } => {
            sums.population = Some(*population);
            sums.steps(&class.route, 1.0, None)?;
            sums.closed(*population, think.mean())
        }
        Load::Varying(_) | Load::Trace(_) | Load::Within => None,
    }
}

struct Sums<'a> {
    network: &'a Network,
    sizes: &'a sim::Sizes,
    population: Option<u32>,
    /// Demand at each station \[s\], but at delays outside of every gate.
    stations: Vec<f64>,
    /// Demand at the stations of each gate's servers together \[s\].
    servers: Vec<f64>,
    /// Demand while a slot of each gate is held \[s\].
    held: Vec<f64>,
    /// Demand at delays outside of every gate \[s\].
    outside: f64,
}

impl Sums<'_> {
    /// The demand of steps that are passed so often \[s\]; none if somebody may be turned away.
    fn steps(&mut self, steps: &[Step], passes: f64, gate: Option<usize>) -> Option<f64> {
        let mut sum = 0.0;
        for step in steps {
            sum += match step {
                Step::Visit { station, demand } => {
                    let demand = passes * mean_demand(demand, self.sizes);
                    match (self.network.stations[*station].kind.capacity(), gate) {
                        (None, None) => self.outside += demand,
                        _ => self.stations[*station] += demand,
                    }
                    demand
                }
                Step::VisitServer { demand } => {
                    let demand = passes * mean_demand(demand, self.sizes);
                    self.servers[gate?] += demand;
                    demand
                }
                Step::Hold { gate, inside } => {
                    let spec = &self.network.gates[*gate].spec;
                    let fits = |room: u64| {
                        self.population.is_some_and(|population| room >= u64::from(population))
                    };
                    if spec.wait_max.is_some() || spec.room.is_some_and(|room| !fits(room)) {
                        return None;
                    }
                    let demand = self.steps(inside, passes, Some(*gate))?;
                    self.held[*gate] += demand;
                    demand
                }
                Step::Choose(ways) => {
                    let mut sum = 0.0;
                    for (chance, steps) in ways {
                        sum += self.steps(steps, passes * chance, gate)?;
                    }
                    sum
                }
                Step::Repeat { again, steps } => self.steps(steps, passes / (1.0 - again), gate)?,
                // Work that the client does not wait for, or whose amount is not known.
                Step::Reply
                | Step::Send { .. }
                | Step::Fork { .. }
                | Step::Become { .. }
                | Step::Lookup { .. } => return None,
            };
        }
        Some(sum)
    }

    fn closed(&self, population: u32, think: f64) -> Option<Bounds> {
        let capacity = |station: usize| self.network.stations[station].kind.capacity();
        let mut stations = vec![Station::delay(self.outside).ok()?];
        for (at, &demand) in self.stations.iter().enumerate() {
            // A delay inside a gate serves everybody at once, but what it does is service.
            stations.push(Station::multi(demand, capacity(at).unwrap_or(u32::MAX)).ok()?);
        }
        for (at, &demand) in self.servers.iter().enumerate() {
            let servers = self.network.gates[at].stations.iter();
            let servers = servers.map(|&station| capacity(station).unwrap_or(u32::MAX));
            let servers = servers.fold(0, u32::saturating_add).max(1);
            stations.push(Station::multi(demand, servers).ok()?);
        }
        let found = ClosedNetwork::new(population, think, &stations).ok()?.asymptotic_bounds();
        let slots = |at: usize| {
            let servers = &self.network.gates[at].spec.servers;
            servers.iter().map(|server| f64::from(server.slots)).sum::<f64>()
        };
        let held = self.held.iter().enumerate().filter(|(_, demand)| **demand > 0.0);
        let gates = held.map(|(at, demand)| slots(at) / demand).fold(f64::INFINITY, f64::min);
        Some(Bounds {
            throughput_min: found.throughput_min,
            throughput_max: found.throughput_max.min(gates),
            response_min: found.response_min.max(f64::from(population) / gates - think),
            response_max: Some(found.response_max),
        })
    }
}
