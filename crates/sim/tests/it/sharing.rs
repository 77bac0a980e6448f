//! Processor sharing, alone and behind a gate of r slots (limited processor sharing).

use gate::GateSpec;
use sim::{Class, Demand, GateNode, Network, SizeRange, Sizes, Station, StationKind, Step};
use workload::{Dist, Document, DocumentSet, Draw};

use crate::support::*;

const SHARING: StationKind = StationKind::Sharing { processors: 1 };

#[test]
fn sharing_does_not_care_about_the_distribution() {
    // M/G/1-PS: E[R | x] = x / (1 - rho), whatever the distribution.
    let document = |name: &str, weight| Document { name: name.into(), bytes: 1, weight };
    let documents = vec![document("small", 5), document("middle", 4), document("large", 1)];
    let set = DocumentSet::new(documents).unwrap();
    let demands = vec![0.5, 1.0, 4.0];
    let rate = 0.6 / 1.05;
    let with = |draw| {
        let mut network = single(poisson(rate), SHARING, Demand::OfDocument(demands.clone()));
        network.classes[0].sizes = Sizes::Documents(set.clone(), draw);
        run(&network, 21, 1_000_000)
    };
    let outcome = with(Draw::Random);
    assert_near("R", response(&outcome, 0), 1.05 / 0.4, 0.03);
    let sizes = &outcome.classes[0].sizes;
    assert_eq!(sizes.len(), 3);
    for (index, (size, x)) in sizes.iter().zip(&demands).enumerate() {
        let name = set.documents()[index].name.clone();
        assert_eq!(size.range, SizeRange::Document { index, name, bytes: 1 });
        assert_near("R by document", size.response.unwrap(), x / 0.4, 0.04);
        assert!(quantile(&size.quantiles, 0.99).mean > size.response.unwrap().mean);
    }
    let completed: u64 = sizes.iter().map(|size| size.completed).sum();
    assert_eq!(completed, outcome.classes[0].histogram.len());
    // A deck of ten cards keeps large jobs apart: it has the exact mix, but is no independent draw,
    // and the response is lower.
    let deck = with(Draw::Deck);
    let large = deck.classes[0].sizes[2].completed as f64 / completed as f64;
    assert!((large - 0.1).abs() < 1e-4, "but for those that are under way: {large}");
    assert!(response(&deck, 0).high() < response(&outcome, 0).low() * 0.95);
}

#[test]
fn sizes_are_grouped_by_powers_of_two() {
    let demand = Demand::OfSize { per_byte_s: 1e-3, base_s: 0.0 };
    let mut network = single(poisson(0.1), SHARING, demand);
    network.classes[0].sizes = Sizes::Drawn(Dist::Uniform { low: 0.0, high: 4096.0 });
    let outcome = run(&network, 22, 200_000);
    let sizes = &outcome.classes[0].sizes;
    assert_eq!(sizes.last().unwrap().range, SizeRange::PowerOfTwo(2048.0));
    // Half of all are in the last bin, 3072 bytes in the mean; rho is 0.2048.
    let last = sizes.last().unwrap();
    let share = last.completed as f64 / outcome.classes[0].histogram.len() as f64;
    assert!((share - 0.5).abs() < 0.01, "five standard errors of 150 000 draws: {share}");
    assert!((last.size_mean - 3072.0).abs() < 15.0, "likewise: {}", last.size_mean);
    assert_near("R", last.response.unwrap(), 3.072 / (1.0 - 0.2048), 0.01);
}

#[test]
fn several_processors_share_like_several_servers() {
    // Each job on at most one of them and exponential demands: the number of jobs is M/M/4's.
    let kind = StationKind::Sharing { processors: 4 };
    let outcome = run(&single(poisson(0.7), kind, exponential(5.0)), 23, 700_000);
    assert_near("R", response(&outcome, 0), 12.3786, 0.04);
    assert_near("utilisation", outcome.stations[0].utilisation.unwrap(), 0.875, 0.01);
    // Nobody alone is served faster than by one processor.
    let outcome = run(&single(closed(3, no_think()), kind, constant(2.0)), 23, 3_000);
    assert_near("R below 4 jobs", response(&outcome, 0), 2.0, 1e-6);
}

#[test]
fn limited_sharing_is_exact_where_the_formula_is_not() {
    // LPS(4), H2 of scv 4 with balanced means, rho 0.8: from the exact Markov chain; the formula of
    // Avi-Itzhak and Halfin gives 8.07.
    let demand = Demand::Drawn(Dist::Hyperexponential { mean: 1.0, scv: 4.0 });
    let outcome = run(&gated(poisson(0.8), GateSpec::fifo(4), SHARING, demand), 24, 800_000);
    assert_near("R", response(&outcome, 0), 7.92716, 0.06);
    let exponential = gated(poisson(0.8), GateSpec::fifo(4), SHARING, exponential(1.0));
    let outcome = run(&exponential, 24, 600_000);
    assert_near("exponential: the mean of M/M/1, for every r", response(&outcome, 0), 5.0, 0.04);
}

#[test]
fn fujitas_server_gets_slower_with_more_helpers() {
    // Lognormal document sizes, g(x) = a x + b, rho 0.8. The figures are simulated themselves, with
    // 3 to 20 million requests a point: about half a percent is theirs.
    let simulated = [(2, 0.0982), (4, 0.1085), (8, 0.1200), (16, 0.1272), (100_000, 0.1288)];
    let demand = || Demand::OfSize { per_byte_s: 0.4851e-6, base_s: 21.55e-3 };
    let sizes = Dist::Lognormal { mu: 7.811, sigma: 1.573 };
    let mean = 0.4851e-6 * sizes.mean() + 21.55e-3;
    assert!((mean - 0.02568).abs() < 1e-5, "the paper states 25.68 ms, not {mean}");
    for (helpers, exact) in simulated {
        let mut network = gated(poisson(0.8 / mean), GateSpec::fifo(helpers), SHARING, demand());
        network.classes[0].sizes = Sizes::Drawn(sizes);
        let outcome = run(&network, 25, 1_000_000);
        assert_near(&format!("r = {helpers}"), response(&outcome, 0), exact, 0.03);
    }
}

#[test]
fn many_quanta_are_sharing_and_one_is_first_in_first_out() {
    // H2 of scv 4 at rho 0.6: PS 2.5, FIFO 1 + 0.6 * 5 / 0.8 = 4.75.
    let demand = || Demand::Drawn(Dist::Hyperexponential { mean: 1.0, scv: 4.0 });
    let kind = |quantum_s| StationKind::FairShare { quantum_s, tick_s: 0.0 };
    let outcome = run(&single(poisson(0.6), kind(0.01), demand()), 26, 20_000);
    assert_near("a quantum of 1/100 of the demand", response(&outcome, 0), 2.5, 0.08);
    let outcome = run(&single(poisson(0.6), kind(1e6), demand()), 26, 400_000);
    assert_near("a quantum of 10^6 demands", response(&outcome, 0), 4.75, 0.05);
    assert_near("utilisation", outcome.stations[0].utilisation.unwrap(), 0.6, 0.02);
}

#[test]
fn jobs_that_end_together_all_end() {
    // Four jobs of 1 s share one processor: all four end at 4 s, 8 s, ... at the same nanosecond.
    let outcome = run(&single(closed(4, no_think()), SHARING, constant(1.0)), 27, 4_000);
    assert_near("R", response(&outcome, 0), 4.0, 1e-6);
    assert_near("X", outcome.classes[0].throughput, 1.0, 1e-6);
}

#[test]
fn sharing_stations_and_queues_stand_side_by_side() {
    // A closed product-form network does not care which of the two a station is.
    let mut network = Network::default();
    let kinds = [SHARING, StationKind::Queue { servers: 1 }, SHARING, SHARING];
    let steps = [1.0, 0.8, 0.6, 0.4].iter().zip(kinds).map(|(&mean, kind)| {
        let station = network.add_station(Station::new(&format!("S{mean}"), kind));
        Step::Visit { station, demand: exponential(mean) }
    });
    let steps = steps.collect();
    network.add_class(Class::new("jobs", closed(10, no_think()), steps));
    let outcome = run(&network, 28, 200_000);
    assert_near("X", outcome.classes[0].throughput, 0.953956715634138, 0.01);
}

#[test]
fn a_gate_keeps_more_than_its_slots_out_of_the_processor() {
    let mut network = Network::default();
    let cpu = network.add_station(Station::new("cpu", SHARING));
    let gate = network.add_gate(GateNode::new("gate", GateSpec::fifo(3)));
    let inside = vec![Step::Visit { station: cpu, demand: exponential(1.0) }];
    let route = vec![Step::Hold { gate, inside }];
    network.add_class(Class::new("jobs", closed(20, no_think()), route));
    let outcome = run(&network, 29, 20_000);
    assert_near("at the processor", outcome.stations[0].jobs, 3.0, 1e-9);
    assert_near("slots held", outcome.gates[0].busy, 3.0, 1e-9);
    assert_near("waiting", outcome.gates[0].waiting, 17.0, 1e-9);
}
