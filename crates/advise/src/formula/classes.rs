//! Several classes at stations without gates: the network of several classes.

use sim::{Class, Demand, Load, Network, Sizes, StationKind, Step};
use workload::{Arrivals, Dist, Draw};

use super::{Bounds, ClassAnswer, FormulaAnswer, NoFormula, Trust};
use crate::scenario::mean_demand;

/// The answer of the network; none if it is no such network.
pub(super) fn answer(
    network: &Network,
    bounds: Option<Bounds>,
) -> Option<Result<FormulaAnswer, NoFormula>> {
    if network.classes.len() < 2 {
        return None;
    }
    let mut asked = Vec::new();
    for class in &network.classes {
        let mut asks = vec![Asks::default(); network.stations.len()];
        is_known(class).then_some(())?;
        add(network, class, &class.route, 1.0, &mut asks)?;
        asked.push(asks);
    }
    Some(solve(network, &asked, bounds))
}

/// What a job of a class asks of a station.
#[derive(Clone, Copy, Default)]
struct Asks {
    visits: f64,
    /// Of each visit \[s\].
    service: f64,
}

/// Whether the formulas know the load: Poisson or closed, and no documents from a deck.
fn is_known(class: &Class) -> bool {
    let is_dealt = matches!(class.sizes, Sizes::Documents(_, Draw::Deck));
    let is_fixed = matches!(class.load, Load::Open(Arrivals::Fixed { .. }));
    !is_dealt && !is_fixed
}

/// Adds up steps that are passed so often; none if one is not a station of product form.
fn add(
    network: &Network,
    class: &Class,
    steps: &[Step],
    passes: f64,
    asks: &mut [Asks],
) -> Option<()> {
    for step in steps {
        match step {
            Step::Visit { station, demand } => {
                let kind = network.stations[*station].kind;
                let exponential = matches!(demand, Demand::Drawn(Dist::Exponential { .. }));
                let asks = &mut asks[*station];
                let service = mean_demand(demand, &class.sizes);
                let same = asks.visits == 0.0 || (asks.service / service - 1.0).abs() < 1e-12;
                match kind {
                    StationKind::Queue { .. } if !exponential || !same => return None,
                    StationKind::FairShare { .. } => return None,
                    _ => {}
                }
                let visits = asks.visits + passes;
                asks.service = (asks.visits * asks.service + passes * service) / visits;
                asks.visits = visits;
            }
            Step::Choose(ways) => {
                for (chance, steps) in ways.iter().filter(|(chance, _)| *chance > 0.0) {
                    add(network, class, steps, passes * chance, asks)?;
                }
            }
            Step::Repeat { again, steps } => {
                add(network, class, steps, passes / (1.0 - again), asks)?;
            }
            Step::Hold { .. }
            | Step::VisitServer { .. }
            | Step::Reply
            | Step::Send { .. }
            | Step::Fork { .. }
            | Step::Become { .. }
            | Step::Lookup { .. } => return None,
        }
    }
    Some(())
}

fn solve(
    network: &Network,
    asked: &[Vec<Asks>],
    bounds: Option<Bounds>,
) -> Result<FormulaAnswer, NoFormula> {
    let mut model = solve::Network::new();
    for station in &network.stations {
        let kind = match station.kind {
            StationKind::Queue { servers } => solve::StationKind::Fifo { servers },
            StationKind::Sharing { processors } => {
                solve::StationKind::Sharing { servers: processors }
            }
            StationKind::Delay => solve::StationKind::Delay,
            // A route that passes one is none of such a network: it stands idle.
            StationKind::FairShare { .. } => solve::StationKind::Sharing { servers: 1 },
        };
        model.add_station(&station.name, kind)?;
    }
    for (class, asks) in network.classes.iter().zip(asked) {
        let index = match &class.load {
            Load::Closed { population, think } => {
                model.add_closed(&class.name, *population, think.mean())?
            }
            Load::Open(arrivals) => model.add_open(&class.name, arrivals.rate())?,
            Load::Varying(_) | Load::Trace(_) | Load::Within => {
                return Err("the formulas know constant loads only".to_owned().into());
            }
        };
        for (station, asks) in asks.iter().enumerate().filter(|(_, asks)| asks.visits > 0.0) {
            model.set_visits(station, index, asks.visits, asks.service)?;
        }
    }
    let found = model.solve()?;
    let pairs = network.classes.iter().zip(&found.classes);
    let classes: Vec<ClassAnswer> = pairs
        .map(|(class, answer)| ClassAnswer {
            name: class.name.clone(),
            throughput: answer.throughput,
            response: answer.response,
        })
        .collect();
    let throughput: f64 = classes.iter().map(|class| class.throughput).sum();
    let jobs: f64 = classes.iter().map(|class| class.throughput * class.response).sum();
    let stations = network.stations.iter().enumerate();
    let exactness = found.exactness();
    let error = match exactness {
        solve::Exactness::Exact => None,
        solve::Exactness::Approximate { error, .. } => Some(error),
    };
    Ok(FormulaAnswer {
        name: "network of several classes".into(),
        source: "Baskett et al. 1975",
        throughput,
        response: jobs / throughput,
        wait: None,
        utilisation: stations
            .filter_map(|(at, station)| Some((station.name.clone(), found.utilisation_of(at)?)))
            .collect(),
        given_size: None,
        documents: Vec::new(),
        trust: Trust { exact: error.is_none(), error, text: exactness.to_string() },
        remarks: Vec::new(),
        bounds,
        classes,
    })
}
