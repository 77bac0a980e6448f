//! One server that always works on the shortest remaining demand, and delays beside it: M/G/1 SRPT.

use sim::{Demand, Network, Order, Sizes, StationKind, Step};
use solve::{Exactness, Mg1Srpt};

use super::ranks::{self, Stream};
use super::{
    ClassAnswer, DocumentAnswer, FormulaAnswer, GivenSize, NoFormula, QueueAnswer, laws, times,
};

/// The answer; none if no server has this order, or there is more than it and delays.
pub(super) fn answer(network: &Network) -> Option<Result<FormulaAnswer, NoFormula>> {
    let ordered = network.stations.iter().enumerate().filter(|(_, of)| of.order != Order::Fifo);
    let [(at, station)] = ordered.collect::<Vec<_>>()[..] else { return None };
    let is_one = station.kind == StationKind::Queue { servers: 1 } && station.room.is_none();
    if !is_one || station.order != Order::ShortestRemaining || station.speed != sim::Speed::One {
        return None;
    }
    let streams = network.classes.iter().map(|class| Stream::of(network, class, at));
    let streams = streams.collect::<Option<Vec<Stream>>>()?;
    if streams.iter().any(|of| of.demand.is_some() && of.law.is_none()) {
        return None;
    }
    Some(solve(network, at, &streams))
}

fn solve(network: &Network, at: usize, streams: &[Stream]) -> Result<FormulaAnswer, NoFormula> {
    let name = &network.stations[at].name;
    // Those that come to the server, and which of them each class is.
    let mut served: Vec<(f64, solve::Demand)> = Vec::new();
    let mut index = Vec::new();
    for stream in streams {
        index.push(stream.law.as_ref().map(|_| served.len()));
        served.extend(stream.law.clone().map(|law| (stream.lambda, law)));
    }
    let server = Mg1Srpt::new(&served).map_err(|error| super::at(error, name))?;
    let mut classes = Vec::new();
    let (mut rate, mut waits, mut stays) = (0.0, 0.0, 0.0);
    for ((class, stream), index) in network.classes.iter().zip(streams).zip(index) {
        let mut response = stream.delays;
        if let Some(index) = index {
            let there = server.response_of(index)?;
            response += there;
            rate += stream.lambda;
            waits += stream.lambda * server.wait(index)?;
            stays += stream.lambda * there;
        }
        let (name, throughput) = (class.name.clone(), stream.lambda);
        classes.push(ClassAnswer { name, throughput, response });
    }
    let throughput: f64 = classes.iter().map(|class| class.throughput).sum();
    let jobs: f64 = classes.iter().map(|class| class.throughput * class.response).sum();
    let queue = QueueAnswer {
        station: name.clone(),
        wait: waits / rate,
        wait_probability: None,
        jobs: stays,
        waiting: stays - server.utilisation(),
        wait_variance: None,
        response_variance: None,
    };
    let stands_in = streams.iter().any(|of| of.stands_in);
    // Beyond the largest utilisation that was tried, the error grows by less than the idle share
    // shrinks.
    let beyond = (1.0 - laws::STOOD_IN_MAX) / (1.0 - server.utilisation());
    let stated = |error: f64| match server.exactness() {
        _ if stands_in => Exactness::Approximate {
            source: "values for a distribution",
            error: error * beyond.max(1.0),
        },
        exactness => exactness,
    };
    let trust = super::trust(stated(laws::STANDS_IN.0), false);
    let given_size = given_size(network, at, &server, stated(laws::STANDS_IN.1));
    Ok(FormulaAnswer {
        name: "M/G/1, the shortest remaining first".into(),
        source: "Schrage and Miller 1966",
        throughput,
        response: jobs / throughput,
        wait: None,
        utilisation: vec![(name.clone(), server.utilisation())],
        documents: documents(network, given_size.as_ref()),
        given_size,
        quantiles: None,
        refused: None,
        lost: None,
        trust,
        remarks: Vec::new(),
        bounds: None,
        product_bounds: None,
        caches: Vec::new(),
        queue: Some(queue),
        nodes: ranks::rows(network, at, streams, &classes),
        classes,
    })
}

/// Mean response against size, of one class that has sizes.
fn given_size(
    network: &Network,
    at: usize,
    server: &Mg1Srpt,
    exactness: Exactness,
) -> Option<GivenSize> {
    let [class] = &*network.classes else { return None };
    if matches!(class.sizes, Sizes::None) {
        return None;
    }
    let of_size = |bytes: f64| -> Option<f64> {
        let mut sum = 0.0;
        for step in &class.route {
            let Step::Visit { station, demand } = step else { return None };
            let (own, mean) = match demand {
                Demand::OfSize { per_byte_s, base_s } => {
                    let own = per_byte_s * bytes + base_s;
                    (Some(own), own)
                }
                Demand::Drawn(dist) => (None, dist.mean()),
                Demand::OfDocument(_) | Demand::OfTrace => return None,
            };
            sum += match (*station == at, own) {
                (true, Some(own)) => server.response_given(own).ok()?,
                (true, None) => server.response(),
                (false, _) => mean,
            };
        }
        Some(sum)
    };
    let at = times::sizes(&class.sizes);
    let curve = at.into_iter().map(|bytes| Some((bytes, of_size(bytes)?)));
    let curve = curve.collect::<Option<Vec<(f64, f64)>>>()?;
    let last = curve.last().map_or(1.0, |(bytes, _)| *bytes);
    let per_byte = (of_size(2.0 * last)? - of_size(last)?) / last;
    let mut given =
        GivenSize { base: of_size(0.0)?, curve, per_byte, trust: super::trust(exactness, false) };
    // Documents are points of the curve; sizes that are drawn lie between them, where it is straight.
    if matches!(class.sizes, Sizes::Drawn(_)) {
        let error = straightened(&given, of_size)? + given.trust.error.unwrap_or(0.0);
        let source = "straight between sizes";
        given.trust = super::trust(Exactness::Approximate { source, error }, false);
    }
    Some(given)
}

/// Largest relative error of a curve that is straight from one size to the next: between the sizes,
/// and beyond the last one up to four times that size. It is the worst that is found at four points
/// of each stretch, and half as much again for the points between these.
fn straightened(given: &GivenSize, of_size: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    let sizes: Vec<f64> = given.curve.iter().map(|(bytes, _)| *bytes).collect();
    let (first, last) = (sizes.first()?, sizes.last()?);
    let ends = [first / 16.0, first / 4.0].into_iter().chain(sizes.iter().copied());
    let ends: Vec<f64> = ends.chain([2.0 * last, 4.0 * last]).collect();
    let mut worst = 0.0_f64;
    for pair in ends.windows(2) {
        for share in [0.2, 0.4, 0.6, 0.8] {
            let bytes = pair[0] * (pair[1] / pair[0]).powf(share);
            worst = worst.max((given.response(bytes) / of_size(bytes)? - 1.0).abs());
        }
    }
    Some(1.5 * worst)
}

fn documents(network: &Network, given: Option<&GivenSize>) -> Vec<DocumentAnswer> {
    let (Some(given), Some(class)) = (given, network.classes.first()) else { return Vec::new() };
    let Sizes::Documents(set, _) = &class.sizes else { return Vec::new() };
    let document = |document: &workload::Document| DocumentAnswer {
        name: document.name.clone(),
        bytes: document.bytes,
        response: given.response(document.bytes as f64),
    };
    set.documents().iter().map(document).collect()
}
