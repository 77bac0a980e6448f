//! One server, several open classes, the more important ones first: M/G/1 with priorities.

use std::collections::BTreeMap;

use sim::{Class, Demand, Load, Network, Order, Sizes, StationKind, Step};
use solve::{Mg1Priority, Moments, Preemption};
use workload::{Arrivals, Draw};

use super::nodes::moments;
use super::{ClassAnswer, FormulaAnswer, NoFormula, NodeAnswer, QueueAnswer, Trust, laws};
use crate::scenario::mean_demand;

/// The answer; none if no server serves by priority, or there is more than it and delays.
pub(super) fn answer(network: &Network) -> Option<Result<FormulaAnswer, NoFormula>> {
    let mut ordered = network.stations.iter().enumerate().filter(|(_, of)| of.order != Order::Fifo);
    let (at, station) = ordered.next()?;
    let preemption = match (ordered.next(), station.kind, station.order) {
        (None, StationKind::Queue { servers: 1 }, Order::Priority) => Preemption::None,
        (None, StationKind::Queue { servers: 1 }, Order::Preemptive) => Preemption::Resume,
        _ => return None,
    };
    let streams = network.classes.iter().map(|class| Stream::of(network, class, at));
    let streams = streams.collect::<Option<Vec<Stream>>>()?;
    Some(solve(network, at, &streams, preemption))
}

/// Demands of one class.
pub(super) struct Stream {
    pub(super) lambda: f64,
    /// Its priority; larger is first.
    priority: u8,
    /// Moments of its demand at the server; none if it never comes there.
    pub(super) demand: Option<Moments>,
    /// The whole distribution of that; none if it is not known.
    pub(super) law: Option<solve::Demand>,
    /// True if values stand for that distribution.
    pub(super) stands_in: bool,
    /// Mean demand at delays \[s\].
    pub(super) delays: f64,
    /// Variance of the delays \[s^2\]; none if it is not known.
    delays_variance: Option<f64>,
}

impl Stream {
    /// Demands of a class on a station, with nothing but delays beside it; none where the class
    /// asks for more than that.
    pub(super) fn of(network: &Network, class: &Class, at: usize) -> Option<Stream> {
        let Load::Open(Arrivals::Poisson { rate: lambda }) = class.load else { return None };
        // Documents from a deck do not come independently.
        (!matches!(class.sizes, Sizes::Documents(_, Draw::Deck))).then_some(())?;
        let (mut demand, mut law, mut stands_in) = (None, None, false);
        let (mut delays, mut delays_variance) = (0.0, Some(0.0));
        for step in &class.route {
            let Step::Visit { station, demand: of_step } = step else { return None };
            if *station == at {
                if demand.replace(moments(of_step, &class.sizes)?).is_some() {
                    return None;
                }
                let known = laws::law(of_step, &class.sizes);
                stands_in = known.as_ref().is_some_and(|law| law.stands_in);
                law = known.map(|law| law.demand);
            } else if network.stations[*station].kind == StationKind::Delay {
                delays += mean_demand(of_step, &class.sizes);
                // Delays by one size vary together.
                let by_size =
                    matches!(of_step, Demand::OfSize { per_byte_s, .. } if *per_byte_s > 0.0);
                let variance = moments(of_step, &class.sizes).map(Moments::variance);
                let variance = variance.filter(|_| !by_size);
                delays_variance = delays_variance.zip(variance).map(|(a, b)| a + b);
            } else {
                return None;
            }
        }
        let priority = class.priority;
        Some(Stream { lambda, priority, demand, law, stands_in, delays, delays_variance })
    }
}

fn solve(
    network: &Network,
    at: usize,
    streams: &[Stream],
    preemption: Preemption,
) -> Result<FormulaAnswer, NoFormula> {
    // Classes of one priority are served first in first out, as if they were one.
    let mut ranks: BTreeMap<std::cmp::Reverse<u8>, (f64, f64, f64)> = BTreeMap::new();
    for Stream { lambda, priority, demand, .. } in streams {
        let Some(demand) = demand else { continue };
        let sums = ranks.entry(std::cmp::Reverse(*priority)).or_default();
        sums.0 += lambda;
        sums.1 += lambda * demand.mean();
        sums.2 += lambda * demand.second();
    }
    let mut merged = Vec::new();
    for (lambda, work, second) in ranks.values() {
        merged.push((*lambda, Moments::new(work / lambda, second / lambda)?));
    }
    let name = &network.stations[at].name;
    let server = Mg1Priority::new(&merged, preemption).map_err(|error| super::at(error, name))?;
    let ranks: Vec<u8> = ranks.keys().map(|rank| rank.0).collect();
    let thirds = ranks.iter().map(|rank| third_of(streams, *rank)).collect::<Option<Vec<f64>>>();
    let served = Ranked { server: &server, merged: &merged, ranks: &ranks, preemption, thirds };
    let (classes, all) = served.classes(network, streams, name)?;
    let throughput: f64 = classes.iter().map(|class| class.throughput).sum();
    let jobs: f64 = classes.iter().map(|class| class.throughput * class.response).sum();
    Ok(FormulaAnswer {
        name: match preemption {
            Preemption::None => "M/G/1 with priorities".into(),
            Preemption::Resume => "M/G/1 with preemptive priorities".into(),
        },
        source: "Cobham 1954; Kleinrock 1976",
        throughput,
        response: jobs / throughput,
        wait: None,
        utilisation: vec![(name.clone(), server.utilisation())],
        given_size: None,
        documents: Vec::new(),
        quantiles: None,
        refused: None,
        lost: None,
        trust: Trust { exact: true, error: None, text: server.exactness().to_string() },
        remarks: Vec::new(),
        bounds: None,
        product_bounds: None,
        caches: Vec::new(),
        queue: Some(all),
        nodes: rows(network, at, streams, &classes),
        classes,
    })
}

/// The third moment of the demand of all streams of a priority \[s^3\].
fn third_of(streams: &[Stream], priority: u8) -> Option<f64> {
    let of = streams.iter().filter(|of| of.priority == priority && of.demand.is_some());
    let sums = of.map(|of| Some((of.lambda, of.lambda * of.law.as_ref()?.third_moment())));
    let sums = sums.collect::<Option<Vec<(f64, f64)>>>()?;
    let sum = |of: fn(&(f64, f64)) -> f64| sums.iter().map(of).sum::<f64>();
    Some(sum(|of| of.1) / sum(|of| of.0))
}

/// The server, and who comes first there.
struct Ranked<'a> {
    server: &'a Mg1Priority,
    /// Rate [1/s] and demand of each rank.
    merged: &'a [(f64, Moments)],
    /// The priority of each rank.
    ranks: &'a [u8],
    preemption: Preemption,
    /// The third moment of the demand of each rank \[s^3\]; none if one is not known.
    thirds: Option<Vec<f64>>,
}

impl Ranked<'_> {
    /// The classes, and what is told of all of them together.
    fn classes(
        &self,
        network: &Network,
        streams: &[Stream],
        name: &str,
    ) -> Result<(Vec<ClassAnswer>, QueueAnswer), NoFormula> {
        let Ranked { server, merged, preemption, .. } = *self;
        let work = |ranks: &[(f64, Moments)]| ranks.iter().map(|(l, s)| l * s.mean()).sum::<f64>();
        let mut classes = Vec::new();
        // Of those that come to the server: their rate, and what they wait and find busy, by the second.
        let (mut rate, mut waits, mut finds, mut stays) = (0.0, 0.0, 0.0, 0.0);
        for (class, stream) in network.classes.iter().zip(streams) {
            let rank = self.rank(stream);
            let mut served = 0.0;
            if let (Some(rank), Some(demand)) = (rank, stream.demand) {
                // What comes first takes its share of the server, during a service too if it may; who
                // may interrupt waits for nobody that comes after it.
                let (stretch, busy) = match preemption {
                    Preemption::None => (1.0, server.utilisation()),
                    Preemption::Resume => {
                        (1.0 / (1.0 - work(&merged[..rank])), work(&merged[..=rank]))
                    }
                };
                let wait = server.wait(rank)?;
                served = wait + demand.mean() * stretch;
                rate += stream.lambda;
                waits += stream.lambda * wait;
                finds += stream.lambda * busy;
                stays += stream.lambda * served;
            }
            classes.push(ClassAnswer {
                name: class.name.clone(),
                throughput: stream.lambda,
                response: stream.delays + served,
            });
        }
        let all = QueueAnswer {
            station: name.to_owned(),
            wait: waits / rate,
            wait_probability: Some(finds / rate),
            jobs: stays,
            waiting: stays - server.utilisation(),
            wait_variance: self.wait_variance(streams),
            response_variance: self.response_variance(streams, &classes),
        };
        Ok((classes, all))
    }

    fn rank(&self, stream: &Stream) -> Option<usize> {
        self.ranks.iter().position(|rank| *rank == stream.priority)
    }

    /// Variance of the wait of all that come to the server together \[s^2\]; none if it is not
    /// known.
    fn wait_variance(&self, streams: &[Stream]) -> Option<f64> {
        let thirds = self.thirds.as_deref()?;
        let mut sums = Sums::default();
        for stream in streams.iter().filter(|of| of.demand.is_some()) {
            let rank = self.rank(stream)?;
            let variance = self.server.wait_variance(rank, thirds).ok()?;
            sums.add(stream.lambda, self.server.wait(rank).ok()?, variance);
        }
        Some(sums.variance())
    }

    /// Variance of the response of all together, delays included \[s^2\]; none if it is not known.
    fn response_variance(&self, streams: &[Stream], classes: &[ClassAnswer]) -> Option<f64> {
        let thirds = self.thirds.as_deref()?;
        let mut sums = Sums::default();
        for (stream, class) in streams.iter().zip(classes) {
            let mut variance = stream.delays_variance?;
            if let Some(demand) = stream.demand {
                let rank = self.rank(stream)?;
                variance += self.server.wait_variance(rank, thirds).ok()?;
                variance += self.server.service_variance(rank, demand).ok()?;
            }
            sums.add(stream.lambda, class.response, variance);
        }
        Some(sums.variance())
    }
}

/// Sums of a mixture: of the weights, and of the first two moments times them.
#[derive(Default)]
struct Sums {
    weight: f64,
    first: f64,
    second: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, mean: f64, variance: f64) {
        self.weight += weight;
        self.first += weight * mean;
        self.second += weight * (variance + mean * mean);
    }

    fn variance(&self) -> f64 {
        self.second / self.weight - (self.first / self.weight).powi(2)
    }
}

/// The server, class by class.
pub(super) fn rows(
    network: &Network,
    at: usize,
    streams: &[Stream],
    classes: &[ClassAnswer],
) -> Vec<NodeAnswer> {
    let row = |(class, stream): (&ClassAnswer, &Stream)| {
        let demand = stream.demand?;
        let (x, response) = (class.throughput, class.response - stream.delays);
        Some(NodeAnswer {
            station: network.stations[at].name.clone(),
            class: Some(class.name.clone()),
            jobs: Some(x * response),
            utilisation: Some(x * demand.mean()),
            response: Some(response),
            residence: Some(response),
            arrival_rate: x,
            throughput: x,
        })
    };
    classes.iter().zip(streams).filter_map(row).collect()
}
