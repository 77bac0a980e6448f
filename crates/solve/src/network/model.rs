//! A network as the algorithms read it: checked, flat, and with its size counted before anything
//! is allocated.

use super::{Load, Network, Place, Preemption, StationKind};
use crate::SolveError;

/// Steps that [`Network::solve`] pays for an exact answer: well under a second.
pub(super) const STEPS_AFFORDABLE: f64 = 1e8;
/// Steps that an exact answer may take when it is asked for by name: a minute or so.
const STEPS_MAX: f64 = 4e9;
/// Memory that the arrays of an algorithm may take \[bytes\].
pub(super) const BYTES_MAX: f64 = (1_u64 << 30) as f64;
/// Servers that may all be busy, because there is a rate for each number of them.
const SERVERS_MAX: u32 = 1_000_000;
/// Service times that differ by less are one.
const SAME: f64 = 1e-9;

pub(super) struct Model {
    /// Closed classes, as indices into the network's.
    pub(super) closed: Vec<usize>,
    /// Open classes, as indices into the network's.
    pub(super) open: Vec<usize>,
    /// N by closed class.
    pub(super) population: Vec<u32>,
    /// Z and the demand at delays, by closed class.
    pub(super) pause: Vec<f64>,
    /// lambda by open class.
    pub(super) lambda: Vec<f64>,
    pub(super) stations: Vec<Spot>,
    /// Of the network, open and closed.
    pub(super) classes: usize,
}

/// A station.
pub(super) struct Spot {
    pub(super) name: String,
    /// a(1), a(2), ...; the last holds for all larger numbers. Empty for a delay.
    pub(super) rates: Vec<f64>,
    /// The greatest rate, which utilisation is a share of.
    pub(super) peak: f64,
    /// D by class of the network.
    pub(super) demand: Vec<f64>,
    /// V and S by class of the network.
    pub(super) visits: Vec<f64>,
    pub(super) service: Vec<f64>,
    /// rho, the work that open classes bring in a second.
    pub(super) open_load: f64,
    pub(super) order: Order,
}

/// The rule for the service times that a job waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Product form.
    Product,
    /// First in first out with service times that differ by class.
    FifoByClass,
    /// Rank by class of the network.
    Ranked { preemption: Preemption, ranks: Vec<u32> },
}

impl Model {
    pub(super) fn new(network: &Network) -> Result<Model, SolveError> {
        let classes = network.classes.len();
        if classes == 0 {
            return Err(SolveError::Zero { name: "classes" });
        }
        let mut model = Model {
            closed: Vec::new(),
            open: Vec::new(),
            population: Vec::new(),
            pause: Vec::new(),
            lambda: Vec::new(),
            stations: Vec::new(),
            classes,
        };
        for (index, class) in network.classes.iter().enumerate() {
            let demand: f64 =
                (0..network.stations.len()).map(|k| network.ask(k, index)).map(demand).sum();
            let named = |error: SolveError| error.at(format!("class `{}`", class.name));
            match class.load {
                Load::Closed { customers, think } => {
                    if think + demand == 0.0 {
                        return Err(named(SolveError::NoTime));
                    }
                    model.closed.push(index);
                    model.population.push(customers);
                    model.pause.push(think);
                }
                Load::Open { rate } => {
                    if demand == 0.0 {
                        return Err(named(SolveError::Zero { name: "stations with a demand" }));
                    }
                    model.open.push(index);
                    model.lambda.push(rate);
                }
            }
        }
        for place in &network.stations {
            let spot = model.spot(network, place)?;
            if spot.is_delay() {
                for (pause, &class) in model.pause.iter_mut().zip(&model.closed) {
                    *pause += spot.demand[class];
                }
            }
            model.stations.push(spot);
        }
        Ok(model)
    }

    fn spot(&self, network: &Network, place: &Place) -> Result<Spot, SolveError> {
        let by_class = |of: fn(super::Ask) -> f64| -> Vec<f64> {
            let asks = place.asks.iter().copied().map(of);
            asks.chain(std::iter::repeat(0.0)).take(self.classes).collect()
        };
        let demand_by_class = by_class(demand);
        let loads = self.open.iter().zip(&self.lambda).map(|(&c, l)| l * demand_by_class[c]);
        let open_load: f64 = loads.clone().sum();
        let counted = |servers: u32| -> Result<(Vec<f64>, f64), SolveError> {
            // More jobs than customers are never there, unless others come from outside.
            let length =
                if open_load == 0.0 { servers.min(self.customers().max(1)) } else { servers };
            if length > SERVERS_MAX {
                let error = SolveError::TooManyServers { servers, servers_max: SERVERS_MAX };
                return Err(error.at(format!("station `{}`", place.name)));
            }
            Ok(((1..=length).map(f64::from).collect(), f64::from(servers)))
        };
        let (rates, peak) = match &place.kind {
            StationKind::Fifo { servers } | StationKind::Sharing { servers } => counted(*servers)?,
            StationKind::Delay => (Vec::new(), f64::INFINITY),
            StationKind::Curve { rates } => {
                (rates.clone(), rates.iter().copied().fold(0.0, f64::max))
            }
            StationKind::Priority { .. } => (vec![1.0], 1.0),
        };
        let spot = Spot {
            name: place.name.clone(),
            rates,
            peak,
            visits: by_class(|ask| ask.visits),
            service: by_class(|ask| ask.service),
            demand: demand_by_class,
            open_load,
            order: order(network, place),
        };
        spot.check_stable(network, self)?;
        Ok(spot)
    }

    /// All customers of closed classes.
    pub(super) fn customers(&self) -> u32 {
        self.population.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// Populations from nobody to all.
    pub(super) fn states(&self) -> f64 {
        self.population.iter().map(|&n| f64::from(n) + 1.0).product()
    }

    /// Only delays and stations of one speed: the short way.
    pub(super) fn is_plain(&self) -> bool {
        self.stations.iter().all(|spot| spot.rates.len() <= 1)
    }

    /// Additions and multiplications of the exact algorithm, about.
    pub(super) fn steps(&self) -> f64 {
        let classes = self.closed.len().max(1) as f64;
        let stations = self.stations.len() as f64;
        if self.is_plain() {
            return self.states() * classes * stations;
        }
        let curved: Vec<f64> = self.curved().map(|spot| spot.rates.len() as f64 + 2.0).collect();
        let rounds = (curved.len() as f64).log2().ceil() + 2.0;
        self.states() * classes * (2.0 * stations + rounds * curved.iter().sum::<f64>())
    }

    /// True if the arrays of the exact algorithm fit in memory.
    pub(super) fn fits(&self) -> bool {
        let bytes = if self.is_plain() {
            let plane = self.states() / (f64::from(self.population_max()) + 1.0);
            plane * self.stations.len() as f64 * 16.0
        } else {
            self.states() * 16.0 * ((self.curved().count() as f64).log2().ceil() + 4.0)
        };
        bytes <= BYTES_MAX
    }

    pub(super) fn check_size(&self) -> Result<(), SolveError> {
        if self.steps() <= STEPS_MAX && self.fits() {
            return Ok(());
        }
        Err(SolveError::TooManyStates {
            states: self.states(),
            steps: self.steps(),
            steps_max: STEPS_MAX,
        })
    }

    /// Why there is no exact solution, if there is none.
    pub(super) fn no_product_form(&self) -> Option<SolveError> {
        let refused =
            |spot: &Spot, cause| SolveError::NoProductForm { station: spot.name.clone(), cause };
        self.stations.iter().find_map(|spot| match spot.order {
            Order::Product => None,
            Order::FifoByClass => {
                Some(refused(spot, "first in first out with service times that differ by class"))
            }
            Order::Ranked { .. } => Some(refused(spot, "it serves by priority")),
        })
    }

    /// The greatest speed at which a station ever serves one job: a(n) is shared by n jobs.
    pub(super) fn fastest_for_one(&self, station: usize) -> f64 {
        let shares = (1..).zip(&self.stations[station].rates).map(|(n, a)| a / f64::from(n));
        let fastest = shares.fold(0.0, f64::max);
        if fastest == 0.0 { 1.0 } else { fastest }
    }

    fn curved(&self) -> impl Iterator<Item = &Spot> {
        self.stations.iter().filter(|spot| spot.rates.len() > 1)
    }

    fn population_max(&self) -> u32 {
        self.population.iter().copied().max().unwrap_or(0)
    }
}

impl Spot {
    pub(super) fn is_delay(&self) -> bool {
        self.rates.is_empty()
    }

    /// The rate with very many jobs; of a delay, without end.
    pub(super) fn rate_last(&self) -> f64 {
        self.rates.last().copied().unwrap_or(f64::INFINITY)
    }

    /// Refuses open classes that together bring more than the station can do.
    fn check_stable(&self, network: &Network, model: &Model) -> Result<(), SolveError> {
        let rho = self.open_load / self.rate_last();
        if rho < crate::error::FULL {
            return Ok(());
        }
        let load = |at: usize| model.lambda[at] * self.demand[model.open[at]];
        let heaviest = (0..model.open.len())
            .max_by(|&a, &b| load(a).total_cmp(&load(b)))
            .expect("an open load comes from an open class");
        let class = &network.classes[model.open[heaviest]].name;
        let together = if model.open.len() > 1 { ", all open classes scaled alike" } else { "" };
        Err(SolveError::Unstable {
            place: format!("station `{}`, class `{class}`{together}", self.name),
            rho,
            rate_max: model.lambda[heaviest] / rho,
        })
    }
}

fn demand(ask: super::Ask) -> f64 {
    ask.visits * ask.service
}

/// The rule for the service times that a job waits for at a place: ranks and service times that are
/// all alike make no difference.
fn order(network: &Network, place: &Place) -> Order {
    let comers = || {
        let all = place.asks.iter().enumerate();
        all.filter(|(_, ask)| demand(**ask) > 0.0)
    };
    let services = || comers().map(|(_, ask)| ask.service);
    let (least, most) = services().fold((f64::INFINITY, 0.0_f64), |(a, b), s| (a.min(s), b.max(s)));
    let is_one_service = most - least <= SAME * most;
    let fifo = if is_one_service { Order::Product } else { Order::FifoByClass };
    match place.kind {
        StationKind::Fifo { .. } => fifo,
        StationKind::Priority { preemption } => {
            let ranks: Vec<u32> = network.classes.iter().map(|class| class.rank).collect();
            let mut first = comers().map(|(class, _)| ranks[class]);
            let lead = first.next();
            if first.all(|rank| Some(rank) == lead) {
                return fifo;
            }
            Order::Ranked { preemption, ranks }
        }
        StationKind::Sharing { .. } | StationKind::Delay | StationKind::Curve { .. } => {
            Order::Product
        }
    }
}
