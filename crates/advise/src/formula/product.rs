//! Scenarios of product form as networks of `solve`: any number of classes, and the bridge to other
//! tools, which know such networks and nothing of gates.

use std::collections::BTreeSet;

use sim::{Load, Network, Order, Speed};
use solve::{NetworkAnswer, Preemption, StationKind};
use workload::Arrivals;

use super::nodes::{Front, Kind, Nodes};
use super::rows::{self, NodeAnswer};
use super::{ClassAnswer, FormulaAnswer, NoFormula, plain};
use crate::Scenario;

/// Largest relative difference at which service times of classes at a FIFO queue count as one.
const SAME: f64 = 1e-9;

/// A scenario as a network of product form: gates that make nobody wait are left out, and a gate
/// right before a station becomes that station's servers where each slot has one of its own.
///
/// # Errors
/// If it cannot be run, or has no product form: the part is named, with the cause.
pub fn product_form(scenario: &Scenario) -> Result<solve::Network, NoFormula> {
    let network = plain::without_idle_rules(scenario.network()?);
    if let Some(reason) = plain::beyond_layers(&network) {
        return Err(reason.into());
    }
    Ok(Product::of(&network)?.solvable)
}

/// A network, and what its stations are in the scenario.
struct Product<'a> {
    network: &'a Network,
    solvable: solve::Network,
    /// By class.
    nodes: Vec<Nodes>,
    /// By station of the scenario: its index in `solvable`, if anybody passes it.
    stations: Vec<Option<usize>>,
}

impl<'a> Product<'a> {
    fn of(network: &'a Network) -> Result<Product<'a>, NoFormula> {
        if let Some(reason) = plain::beyond_formulas(network) {
            return Err(reason.into());
        }
        let mut product = Product {
            network,
            solvable: solve::Network::new(),
            nodes: Vec::new(),
            stations: vec![None; network.stations.len()],
        };
        let ranks: BTreeSet<u8> = network.classes.iter().map(|class| class.priority).collect();
        for class in &network.classes {
            let nodes = Nodes::of(network, class)?;
            if let Some(node) = nodes.dealt_to_several() {
                return Err(node.not_dealt_alone().into());
            }
            let index = match &class.load {
                Load::Closed { population, think } => {
                    product.solvable.add_closed(&class.name, *population, think.mean())?
                }
                Load::Open(Arrivals::Poisson { rate }) => {
                    product.solvable.add_open(&class.name, *rate)?
                }
                Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => {
                    let reason =
                        "its arrivals are not Poisson, and the formulas need that they are";
                    return Err(reason.to_owned().into());
                }
            };
            // The largest priority is served first.
            product.solvable.set_rank(index, ranks.range(class.priority..).count() as u32 - 1)?;
            if nodes.dealt {
                let reason = format!(
                    "the documents of class `{}` are dealt from a deck, and the formulas for several \
                     classes draw each independently; list them with `draw = \"random\"`",
                    class.name
                );
                return Err(reason.into());
            }
            product.nodes.push(nodes);
        }
        product.add_stations()?;
        Ok(product)
    }

    fn add_stations(&mut self) -> Result<(), NoFormula> {
        for station in 0..self.network.stations.len() {
            let mut found: Option<(Kind, Option<Front>, f64)> = None;
            let mut asks = Vec::new();
            for (class, nodes) in self.nodes.iter().enumerate() {
                let Some(node) = nodes.list.iter().find(|node| node.station() == station) else {
                    continue;
                };
                let service = node.demand / node.visits;
                asks.push((class, node.visits, service));
                match node.kind {
                    Kind::Fifo { .. } if !node.is_exponential => {
                        return Err(node.not_exponential().into());
                    }
                    Kind::Limited { .. } => return Err(node.not_limited_alone().into()),
                    Kind::Fifo { .. } | Kind::Sharing { .. } | Kind::Delay => {}
                }
                let Some((kind, front, first)) = found else {
                    found = Some((node.kind, node.gate, service));
                    continue;
                };
                if (kind, front) != (node.kind, node.gate) {
                    let reason =
                        format!("station `{}` is behind a gate for some classes only", node.name);
                    return Err(reason.into());
                }
                let in_turn = self.network.stations[station].order == Order::Fifo;
                let is_fifo = matches!(kind, Kind::Fifo { .. }) && in_turn;
                if is_fifo && (service - first).abs() > SAME * first {
                    let reason = format!(
                        "`{}` serves first in first out, and its classes have different service times",
                        node.name
                    );
                    return Err(reason.into());
                }
            }
            let Some((kind, front, _)) = found else { continue };
            let kind = self.kind(station, kind, front)?;
            let name = &self.network.stations[station].name;
            let index = self.solvable.add_station(name, kind)?;
            self.stations[station] = Some(index);
            for (class, visits, service) in asks {
                self.solvable.set_visits(index, class, visits, service)?;
            }
        }
        Ok(())
    }

    /// Kind of a station in `solve`.
    fn kind(
        &self,
        station: usize,
        kind: Kind,
        front: Option<Front>,
    ) -> Result<StationKind, NoFormula> {
        let of = &self.network.stations[station];
        let preemption = match of.order {
            Order::Fifo => None,
            Order::Priority => Some(Preemption::None),
            Order::Preemptive => Some(Preemption::Resume),
            Order::ShortestRemaining => return Err(plain::not_shortest_alone(&of.name).into()),
        };
        Ok(match (kind, preemption) {
            (Kind::Fifo { servers: 1 }, Some(preemption)) if front.is_none() => {
                StationKind::Priority { preemption }
            }
            (_, Some(_)) => {
                let reason = plain::beyond_layers(self.network);
                return Err(reason.expect("a station with an order is not plain").into());
            }
            (Kind::Fifo { servers }, None) => StationKind::Fifo { servers },
            (Kind::Sharing { processors }, None) => match &of.speed {
                Speed::Curve(curve) => StationKind::Curve { rates: curve.clone() },
                Speed::One | Speed::Servers(_) => StationKind::Sharing { servers: processors },
            },
            (Kind::Delay, None) => StationKind::Delay,
            (Kind::Limited { .. }, None) => unreachable!("refused before"),
        })
    }

    fn answer(self, found: &NetworkAnswer) -> FormulaAnswer {
        let mut nodes: Vec<NodeAnswer> = Vec::new();
        let mut classes = Vec::new();
        let mut remarks: Vec<String> = Vec::new();
        for (at, of) in self.nodes.iter().enumerate() {
            let name = self.network.classes[at].name.clone();
            let solve::ClassAnswer { throughput, response, .. } = found.classes[at];
            let class = ClassAnswer { name, throughput, response };
            let served: Vec<_> = of
                .list
                .iter()
                .map(|node| {
                    let index = self.stations[node.station()].expect("a node's station was added");
                    node.served(found.at(index, at).residence)
                })
                .collect();
            nodes.extend(rows::of_class(self.network, of, &served, &class));
            for remark in &of.remarks {
                if !remarks.contains(remark) {
                    remarks.push(remark.clone());
                }
            }
            classes.push(class);
        }
        let order = |row: &NodeAnswer| {
            let gates = self.network.gates.iter().map(|gate| &gate.name);
            let names = gates.chain(self.network.stations.iter().map(|station| &station.name));
            names.into_iter().position(|name| *name == row.station)
        };
        nodes.sort_by_key(order);
        let is_closed = |class: &sim::Class| matches!(class.load, Load::Closed { .. });
        if classes.len() > 1 && self.network.classes.iter().any(is_closed) {
            remarks.push(
                "balanced-job and geometric bounds and the knee are of one class, and not told of several"
                    .into(),
            );
        }
        let throughput: f64 = classes.iter().map(|class| class.throughput).sum();
        let jobs: f64 = classes.iter().map(|class| class.throughput * class.response).sum();
        let fair_share = self.nodes.iter().any(|nodes| nodes.fair_share);
        FormulaAnswer {
            name: match classes.len() {
                1 => "network with a speed curve".into(),
                _ => "network of several classes".into(),
            },
            source: "Baskett et al. 1975",
            throughput,
            response: jobs / throughput,
            wait: None,
            utilisation: utilisations(&nodes),
            given_size: None,
            documents: Vec::new(),
            quantiles: None,
            refused: None,
            lost: None,
            trust: super::trust(found.exactness(), fair_share),
            remarks,
            bounds: None,
            product_bounds: None,
            caches: Vec::new(),
            queue: None,
            classes,
            nodes,
        }
    }
}

/// By gate and station, over all classes.
fn utilisations(rows: &[NodeAnswer]) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for row in rows {
        let Some(busy) = row.utilisation else { continue };
        match all.iter_mut().find(|(name, _)| *name == row.station) {
            Some((_, sum)) => *sum += busy,
            None => all.push((row.station.clone(), busy)),
        }
    }
    all
}

/// The answer for several classes; else why there is none.
pub(super) fn answer(network: &Network) -> Result<FormulaAnswer, NoFormula> {
    let product = Product::of(network)?;
    let found = product.solvable.solve()?;
    Ok(product.answer(&found))
}
