//! A queue with room for so many jobs under an open load: M/M/c/K, whose arrivals that find no room
//! are lost or turned away.

use gate::{DisciplineSpec, GateSpec};
use sim::{Class, Demand, Load, Network, Station, StationKind, Step};
use solve::Mmck;
use workload::{Arrivals, Dist};

use super::nodes::moments;
use super::{ClassAnswer, FormulaAnswer, NoFormula, NodeAnswer, QueueAnswer, Trust};
use crate::scenario::mean_demand;

/// The answer; none if nothing has a bound, or what has is a gate of another shape, which its own
/// refusal names.
pub(super) fn answer(network: &Network) -> Option<Result<FormulaAnswer, NoFormula>> {
    let bounded = network.stations.iter().find(|station| station.room.is_some());
    match (Finite::of(network), bounded) {
        (Some(finite), _) => Some(finite.answer(network)),
        (None, Some(station)) => Some(Err(format!(
            "station `{}` has room for so many jobs, which has a formula only under an open Poisson \
             load of one class with exponential demand, where it is visited once, with nothing but \
             delays beside it",
            station.name
        )
        .into())),
        (None, None) => None,
    }
}

/// The queue, and what stands beside it.
struct Finite {
    lambda: f64,
    /// Mean of its exponential demand \[s\].
    demand: f64,
    servers: u32,
    /// Room for jobs, K.
    capacity: u32,
    station: usize,
    gate: Option<(usize, u32)>,
    /// All delays together \[s\].
    delays: f64,
    /// Variance of all delays together \[s^2\]; none if it is not known.
    delays_variance: Option<f64>,
    /// Number of jobs that are served or hold a slot before anybody waits; none where nobody ever
    /// does.
    starts: Option<u32>,
    /// True if jobs are served in the order in which they came, each with a server of its own.
    in_order: bool,
}

impl Finite {
    fn of(network: &Network) -> Option<Finite> {
        let [class] = &*network.classes else { return None };
        let Load::Open(Arrivals::Poisson { rate }) = class.load else { return None };
        let (mut delays, mut delays_variance) = (0.0, Some(0.0));
        let mut found = None;
        for step in &class.route {
            match step {
                Step::Visit { station, demand } => {
                    let of = &network.stations[*station];
                    if of.kind == StationKind::Delay && of.is_plain() {
                        delays += mean_demand(demand, &class.sizes);
                        // Each visit draws anew, but for what goes by the job's size.
                        let drawn = matches!(demand, Demand::Drawn(_));
                        let of_visit = moments(demand, &class.sizes).filter(|_| drawn);
                        delays_variance =
                            delays_variance.zip(of_visit).map(|(sum, m)| sum + m.variance());
                    } else if found.replace(bounded_station(of, *station, demand)?).is_some() {
                        return None;
                    }
                }
                Step::Hold { gate, inside } => {
                    let spec = &network.gates[*gate].spec;
                    let queue = bounded_gate(network, class, (*gate, spec), inside)?;
                    if found.replace(queue).is_some() {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        let queue = found?;
        Some(Finite { lambda: rate, delays, delays_variance, ..queue })
    }

    /// The queue's numbers for those that are let in. Who has a slot but no server yet still waits.
    fn queue(&self, network: &Network, queue: &Mmck) -> QueueAnswer {
        let jobs = || (0_u32..).zip(queue.distribution());
        let beyond = |n: u32, starts: u32| f64::from(n.saturating_sub(starts));
        let waiting =
            self.starts.map_or(0.0, |starts| jobs().map(|(n, p)| beyond(n, starts) * p).sum());
        let last = queue.distribution().len() - 1;
        let accepted: f64 = queue.distribution()[..last].iter().sum();
        let found = |starts: u32| -> f64 {
            let waits = jobs().take(last).filter(|(n, _)| *n >= starts);
            waits.map(|(_, p)| p / accepted).sum()
        };
        let response_variance = self.in_order.then(|| queue.response_variance());
        QueueAnswer {
            station: network.stations[self.station].name.clone(),
            wait: if waiting == 0.0 { 0.0 } else { waiting / queue.throughput() },
            wait_probability: Some(self.starts.map_or(0.0, found)),
            jobs: queue.in_system(),
            waiting,
            wait_variance: self.in_order.then(|| queue.wait_variance()),
            response_variance: response_variance.zip(self.delays_variance).map(|(a, b)| a + b),
        }
    }

    fn answer(&self, network: &Network) -> Result<FormulaAnswer, NoFormula> {
        let Finite { lambda, demand, servers, capacity, .. } = *self;
        let queue = Mmck::new(lambda, demand, servers, capacity)?;
        let throughput = queue.throughput();
        let loss = queue.loss();
        let name = &network.classes[0].name;
        let response = self.delays + queue.response();
        let jobs = || (0_u32..).zip(queue.distribution());
        let mut utilisation = Vec::new();
        let mut wait = None;
        if let Some((gate, slots)) = self.gate {
            let held: f64 = jobs().map(|(n, p)| f64::from(n.min(slots)) * p).sum();
            let waiting: f64 = jobs().map(|(n, p)| f64::from(n.saturating_sub(slots)) * p).sum();
            utilisation.push((network.gates[gate].name.clone(), held / f64::from(slots)));
            wait = Some(if waiting == 0.0 { 0.0 } else { waiting / throughput });
        }
        let station = &network.stations[self.station];
        if let Some(servers) = station.kind.capacity() {
            utilisation.push((station.name.clone(), throughput * demand / f64::from(servers)));
        }
        let share = Some(loss);
        let visit = Some(queue.response());
        let row = NodeAnswer {
            station: match self.gate {
                Some((gate, _)) => network.gates[gate].name.clone(),
                None => station.name.clone(),
            },
            class: Some(name.clone()),
            jobs: Some(queue.in_system()),
            utilisation: utilisation.first().map(|(_, busy)| *busy),
            response: visit,
            residence: visit,
            arrival_rate: lambda,
            throughput,
        };
        Ok(FormulaAnswer {
            name: format!("M/M/{servers}/{capacity}"),
            source: "birth and death, Kleinrock 1975",
            throughput,
            response,
            wait,
            utilisation,
            given_size: None,
            documents: Vec::new(),
            quantiles: None,
            refused: share.filter(|_| self.gate.is_some()),
            lost: share.filter(|_| self.gate.is_none()),
            trust: Trust { exact: true, error: None, text: queue.exactness().to_string() },
            remarks: vec!["the means are of those that are let in".into()],
            bounds: None,
            product_bounds: None,
            caches: Vec::new(),
            queue: Some(self.queue(network, &queue)),
            nodes: vec![row],
            classes: vec![ClassAnswer { name: name.clone(), throughput, response }],
        })
    }
}

/// A station with room, by itself.
fn bounded_station(of: &Station, station: usize, demand: &Demand) -> Option<Finite> {
    let (room, _) = of.room?;
    let plain = Station { room: None, ..of.clone() };
    let Demand::Drawn(Dist::Exponential { mean }) = demand else { return None };
    let servers = match of.kind {
        StationKind::Queue { servers } | StationKind::Sharing { processors: servers } => servers,
        StationKind::Delay | StationKind::FairShare { .. } => return None,
    };
    plain.is_plain().then_some(Finite {
        lambda: 0.0,
        demand: *mean,
        // Room counts those in service, so that servers beyond it never work.
        servers: servers.min(room),
        capacity: room,
        station,
        gate: None,
        delays: 0.0,
        delays_variance: None,
        starts: matches!(of.kind, StationKind::Queue { .. }).then_some(servers),
        in_order: matches!(of.kind, StationKind::Queue { .. }),
    })
}

/// A gate with room for so many that wait, before one plain station. However its slots share the
/// servers, n jobs that are let in keep min(n, slots, servers) of them busy.
fn bounded_gate(
    network: &Network,
    class: &Class,
    (gate, spec): (usize, &GateSpec),
    inside: &[Step],
) -> Option<Finite> {
    let room = spec.room?;
    let [server] = &*spec.servers else { return None };
    let [Step::Visit { station, demand: Demand::Drawn(Dist::Exponential { mean }) }] = inside
    else {
        return None;
    };
    let in_turn = matches!(
        spec.discipline,
        DisciplineSpec::Fifo
            | DisciplineSpec::Lifo
            | DisciplineSpec::Priority
            | DisciplineSpec::PriorityAgeing { .. }
    );
    let of = &network.stations[*station];
    if spec.wait_max.is_some() || class.deadline.is_some() || !in_turn || !of.is_plain() {
        return None;
    }
    let slots = server.slots;
    let queues = matches!(of.kind, StationKind::Queue { .. });
    let servers = match of.kind {
        StationKind::Queue { servers } | StationKind::Sharing { processors: servers } => servers,
        StationKind::Delay => slots,
        StationKind::FairShare { .. } => return None,
    };
    Some(Finite {
        lambda: 0.0,
        demand: *mean,
        servers: servers.min(slots),
        capacity: u32::try_from(room).ok()?.checked_add(slots)?,
        station: *station,
        gate: Some((gate, slots)),
        delays: 0.0,
        delays_variance: None,
        starts: Some(slots.min(if queues { servers } else { slots })),
        in_order: (queues || slots <= servers) && spec.discipline != DisciplineSpec::Lifo,
    })
}
