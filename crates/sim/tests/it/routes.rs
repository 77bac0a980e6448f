//! Routes: choices, repetitions, servers by router.

use gate::{
    AtZero, GateSpec, Length, LoadInformation, Queues, RouterSpec, ServerSpec, Ties, Window,
};
use sim::{Class, Demand, GateNode, Network, Sizes, Speed, Station, StationKind, Step, WhenFull};
use workload::Dist;

use crate::support::*;

#[test]
fn choices_and_repetitions_have_their_visit_ratios() {
    let mut network = Network::default();
    let [a, b, c] = ["a", "b", "c"].map(|name| add_delay(&mut network, name));
    let visit = |station| Step::Visit { station, demand: exponential(1.0) };
    let route = vec![
        // 0.2 goes on at once.
        Step::Choose(vec![(0.3, vec![visit(a)]), (0.5, vec![visit(b), visit(b)])]),
        Step::Repeat { again: 0.6, steps: vec![visit(c)] },
    ];
    network.add_class(Class::new("jobs", poisson(10.0), route));
    let outcome = run(&network, 51, 300_000);
    for (station, visits) in [(a, 0.3), (b, 1.0), (c, 2.5)] {
        let throughput = outcome.stations[station].throughput;
        assert_near(&outcome.stations[station].name, throughput, 10.0 * visits, 0.02);
    }
    assert_near("R", response(&outcome, 0), 3.8, 0.01);
}

#[test]
fn choices_nest_and_a_sure_way_is_always_gone() {
    let mut network = Network::default();
    let [a, b] = ["a", "b"].map(|name| add_delay(&mut network, name));
    let visit = |station| Step::Visit { station, demand: constant(1.0) };
    // Tenths do not sum to 1 in binary; the last way must not leak into "goes on".
    let inner = Step::Choose((0..10).map(|_| (0.1, vec![visit(a)])).collect());
    let route = vec![Step::Choose(vec![(1.0, vec![inner]), (0.0, vec![visit(b)])]), visit(b)];
    network.add_class(Class::new("jobs", poisson(1.0), route));
    let outcome = run(&network, 52, 50_000);
    assert_near("R", response(&outcome, 0), 2.0, 1e-6);
    let (a, b) = (outcome.stations[a].throughput.mean, outcome.stations[b].throughput.mean);
    assert!((a / b - 1.0).abs() < 1e-3, "as often, but for those between: {a} and {b}");
}

/// Four stations of one server each behind a gate that routes.
fn balanced(router: RouterSpec, queues: Queues) -> Network {
    let mut network = Network::default();
    let stations = (0..4).map(|n| add_queue(&mut network, &format!("server {n}"), 1)).collect();
    let slots = if queues == Queues::PerServer { 1_000 } else { 1 };
    let spec =
        GateSpec { servers: vec![ServerSpec { slots }; 4], queues, router, ..GateSpec::fifo(1) };
    let gate = network.add_gate(GateNode { stations, ..GateNode::new("balancer", spec) });
    let inside = vec![Step::VisitServer { demand: exponential(1.0) }];
    network.add_class(Class::new("jobs", poisson(3.2), vec![Step::Hold { gate, inside }]));
    network
}

#[test]
fn routers_send_jobs_where_they_say() {
    // lambda = 3.2, four servers of 1/s. Random: four M/M/1, R = 5. Round robin: E4/M/1 each, whose
    // sigma solves sigma = (3.2 / (4.2 - sigma))^4: 0.693945, so R = 3.26738. One queue: M/M/4, R =
    // 1.745528. The shortest queue lies between that and round robin.
    let per_server = |router| run(&balanced(router, Queues::PerServer), 53, 500_000);
    let random = per_server(RouterSpec::Random);
    assert_near("random", response(&random, 0), 5.0, 0.04);
    let round_robin = per_server(RouterSpec::RoundRobin);
    assert_near("round robin", response(&round_robin, 0), ROUND_ROBIN, 0.04);
    let shortest = RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Random };
    let shared = run(&balanced(RouterSpec::Random, Queues::Shared), 53, 500_000);
    assert_near("shared", response(&shared, 0), SHARED, 0.03);
    let shortest = per_server(shortest);
    let r = response(&shortest, 0).mean;
    assert!(SHARED * 1.1 < r && r < ROUND_ROBIN * 0.8, "shortest queue: {r}");
    for outcome in [random, round_robin, shortest, shared] {
        for station in &outcome.stations {
            assert_near(&station.name, station.utilisation.unwrap(), 0.8, 0.02);
        }
    }
}

const ROUND_ROBIN: f64 = 3.2673836103193548;
const SHARED: f64 = 1.7455405897342557;

/// A router that looks may load unequal servers unequally; the check for too much work once charged
/// each an equal share and called the small one overloaded.
#[test]
fn unequal_servers_behind_a_router_that_looks_are_not_charged_equally() {
    let mut network = Network::default();
    let large = add_queue(&mut network, "large", 4);
    let small = add_queue(&mut network, "small", 1);
    let spec = GateSpec {
        servers: vec![ServerSpec { slots: 4 }, ServerSpec { slots: 1 }],
        router: RouterSpec::Random,
        ..GateSpec::fifo(1)
    };
    let stations = vec![large, small];
    let gate = network.add_gate(GateNode { stations, ..GateNode::new("balancer", spec) });
    let inside = vec![Step::VisitServer { demand: exponential(1.0) }];
    network.add_class(Class::new("jobs", poisson(4.0), vec![Step::Hold { gate, inside }]));
    let outcome = run(&network, 54, 100_000);
    // M/M/5 at 4 Erlang: each slot is busy 0.8 of the time in the mean.
    assert_near("busy", outcome.gates[0].busy, 4.0, 0.02);
    // Behind a router that does not look the small one gets half: twice what it can do.
    network.gates[0].spec.queues = Queues::PerServer;
    let error = sim::run(&network, &options(54, 1_000)).unwrap_err().to_string();
    assert!(error.contains("station `small`") && error.contains("2.000 times"), "{error}");
}

/// The work was shared out by the number of servers, whatever their speed: half of 2.2/s is more than a station of
/// speed 1 can do, and one of speed 3 beside it was said to be overloaded at 1.1 times its work.
#[test]
fn servers_of_unequal_speed_behind_a_router_that_looks_are_charged_by_their_speed() {
    let mut network = Network::default();
    for (name, speed) in [("fast", 3.0), ("slow", 1.0)] {
        let station = Station::new(name, StationKind::Queue { servers: 1 });
        network.add_station(Station { speed: Speed::Servers(vec![speed]), ..station });
    }
    let spec = GateSpec { servers: vec![ServerSpec { slots: 1 }; 2], ..GateSpec::fifo(1) };
    let gate = network.add_gate(GateNode { stations: vec![0, 1], ..GateNode::new("both", spec) });
    let inside = vec![Step::VisitServer { demand: exponential(1.0) }];
    network.add_class(Class::new("jobs", poisson(2.8), vec![Step::Hold { gate, inside }]));
    let outcome = run(&network, 55, 100_000);
    let busy = |at: usize| outcome.stations[at].utilisation.expect("a queue");
    // Both together do 2.8 a second, whoever does which.
    let done = 3.0 * busy(0).mean + busy(1).mean;
    assert!((done / 2.8 - 1.0).abs() < 0.02, "{done}");
    network.classes[0].load = poisson(4.1);
    let error = sim::run(&network, &options(55, 1_000)).unwrap_err().to_string();
    assert!(error.contains("1.025 times"), "{error}");
}

/// The story: all of a gate's work was taken to be done at the speed of its fastest server. Two servers of speeds 3 and 1
/// do 4 a second together, and 4.4 a second was "precise" or ran until its queue was very long.
#[test]
fn servers_of_a_gate_with_speeds_of_their_own_are_charged_by_their_speed() {
    let pool = |rate: f64, queues: Queues| {
        let mut network = Network::default();
        let stations = vec![add_queue(&mut network, "fast", 1), add_queue(&mut network, "slow", 1)];
        let servers = vec![ServerSpec { slots: 1 }; 2];
        let spec = GateSpec { servers, queues, router: RouterSpec::Random, ..GateSpec::fifo(1) };
        let node = GateNode { stations, speeds: vec![3.0, 1.0], ..GateNode::new("both", spec) };
        let gate = network.add_gate(node);
        let inside = vec![Step::VisitServer { demand: exponential(1.0) }];
        network.add_class(Class::new("jobs", poisson(rate), vec![Step::Hold { gate, inside }]));
        network
    };
    for (rate, times) in [(4.1, "1.025 times"), (4.4, "1.100 times"), (6.0, "1.500 times")] {
        let error = sim::run(&pool(rate, Queues::Shared), &options(57, 1_000)).unwrap_err();
        assert!(error.to_string().contains(times), "{error}");
    }
    let outcome = run(&pool(3.6, Queues::Shared), 57, 200_000);
    let done: f64 = outcome
        .stations
        .iter()
        .zip([3.0, 1.0])
        .map(|(of, speed)| speed * of.utilisation.expect("a queue").mean)
        .sum();
    assert!((done / 3.6 - 1.0).abs() < 0.02, "{done}");
    // A router that looks at nothing gives each of them a half, of which the slow one can do 1 a second.
    let outcome = run(&pool(1.8, Queues::PerServer), 58, 200_000);
    for (station, busy) in outcome.stations.iter().zip([0.3, 0.9]) {
        assert_near("busy", station.utilisation.expect("a queue"), busy, 0.02);
    }
    let error =
        sim::run(&pool(2.2, Queues::PerServer), &options(58, 1_000)).unwrap_err().to_string();
    assert!(error.contains("station `slow`") && error.contains("1.100 times"), "{error}");
}

/// The story: work that one of two stations loses, for its room is full, was counted as the other's, and what is stable
/// was refused.
#[test]
fn work_that_a_full_station_loses_is_not_left_to_the_other() {
    let mut network = pool_with_other_work(1.11, 0.9);
    network.stations[0].room = Some((3, WhenFull::Lose));
    let outcome = run(&network, 59, 200_000);
    let served: f64 = outcome.stations.iter().map(|of| of.throughput.mean).sum();
    let lost = outcome.stations[0].lost.mean;
    assert!(lost > 0.1 && (served + lost - 2.01).abs() < 0.03, "{served} {lost}");
}

/// Two stations behind one queue, one of which has other work, too.
fn pool_with_other_work(together: f64, alone: f64) -> Network {
    let mut network = Network::default();
    let stations = vec![add_queue(&mut network, "a", 1), add_queue(&mut network, "b", 1)];
    let spec = GateSpec { servers: vec![ServerSpec { slots: 1 }; 2], ..GateSpec::fifo(1) };
    let gate = network.add_gate(GateNode { stations, ..GateNode::new("both", spec) });
    let inside = vec![Step::VisitServer { demand: exponential(1.0) }];
    network.add_class(Class::new("any", poisson(together), vec![Step::Hold { gate, inside }]));
    let route = vec![Step::Visit { station: 0, demand: exponential(1.0) }];
    network.add_class(Class::new("own", poisson(alone), route));
    network
}

/// The story: what comes to either of two stations was split by their speeds, whatever else came to one of them, and
/// 1.7 s of work a second, of 2 that both can do, were refused as 1.25 times what the one can do.
#[test]
fn other_work_of_a_station_is_left_to_the_others_by_a_shared_queue() {
    let outcome = run(&pool_with_other_work(0.9, 0.8), 56, 200_000);
    let busy = |at: usize| outcome.stations[at].utilisation.expect("a queue").mean;
    // A busy share of 1.7 is seen to 2 %: at 0.85 a run of 200,000 jobs is that near.
    assert!(((busy(0) + busy(1)) / 1.7 - 1.0).abs() < 0.02, "{} and {}", busy(0), busy(1));
    let refused = |together, alone| {
        let network = pool_with_other_work(together, alone);
        sim::run(&network, &options(56, 1_000)).unwrap_err().to_string()
    };
    let error = refused(1.3, 0.8);
    assert!(error.contains("those that share its work, 1.050 times"), "{error}");
    let error = refused(0.1, 1.1);
    assert!(error.contains("station `a`") && error.contains("1.100 times"), "{error}");
}

/// Four servers of one slot each at utilisation 0.8, first in first out. A job of x bytes needs x
/// microseconds; sizes are hyperexponential with mean 1 MB and squared cv 10, so that what they
/// measure can be compared with a study made elsewhere.
fn varied(spec: GateSpec) -> Network {
    let mut network = Network::default();
    let work = add_delay(&mut network, "work");
    let spec = GateSpec { servers: vec![ServerSpec { slots: 1 }; 4], ..spec };
    let gate = network.add_gate(GateNode::new("balancer", spec));
    let demand = Demand::OfSize { per_byte_s: 1e-6, base_s: 0.0 };
    let inside = vec![Step::Visit { station: work, demand }];
    let class = Class::new("jobs", poisson(3.2), vec![Step::Hold { gate, inside }]);
    let sizes = Sizes::Drawn(Dist::Hyperexponential { mean: 1e6, scv: 10.0 });
    network.add_class(Class { sizes, ..class });
    network
}

fn routed(router: RouterSpec) -> GateSpec {
    GateSpec { queues: Queues::PerServer, router, ..GateSpec::fifo(1) }
}

/// Measured by another simulator: random 22.85, round robin 21.39, the better of two 6.76, the
/// shortest queue 5.28, one queue 4.60 s. Random is M/G/1, and exact: 1 + 0.8 * 11 / 2 / 0.2 = 23.
/// At this variance a run of a million jobs is still some percent off, and so was theirs: 10 % and
/// the order of all are asked for.
#[test]
fn varied_demand_is_balanced_as_others_measured_it() {
    let (length, ties) = (Length::InSystem, Ties::Random);
    let mean = |spec| response(&run(&varied(spec), 61, 1_000_000), 0).mean;
    let shared = mean(GateSpec::fifo(1));
    let least_work = mean(routed(RouterSpec::LeastWork { speed: Some(1_000_000), ties }));
    let jsq = mean(routed(RouterSpec::ShortestQueue { length, ties }));
    let two = mean(routed(RouterSpec::PowerOfD { d: 2, length, ties }));
    let round_robin = mean(routed(RouterSpec::RoundRobin));
    let random = mean(routed(RouterSpec::Random));
    for (name, found, expected) in [
        ("one queue", shared, 4.60),
        // The least work left, known exactly and served first in first out, is one queue.
        ("least work", least_work, shared),
        ("shortest queue", jsq, 5.28),
        ("better of two", two, 6.76),
        ("round robin", round_robin, 21.39),
        ("random", random, 23.0),
    ] {
        assert!((found / expected - 1.0).abs() < 0.1, "{name}: {found} for {expected}");
    }
    assert!(shared < jsq && jsq < two && two < round_robin && round_robin < random);
}

/// The staler what the shortest queue sees, the worse it balances: at a delay of many services all
/// jobs run after the same server, and it is worse than chance.
#[test]
fn stale_load_information_spoils_the_shortest_queue() {
    let shortest = RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Random };
    let with = |load_information, router| {
        let mut network = balanced(router, Queues::PerServer);
        network.gates[0].spec.load_information = load_information;
        response(&run(&network, 62, 200_000), 0).mean
    };
    let delayed = |seconds| LoadInformation::Delayed(std::time::Duration::from_secs_f64(seconds));
    let fresh = with(LoadInformation::Fresh, shortest.clone());
    let little = with(delayed(0.001), shortest.clone());
    assert!((little / fresh - 1.0).abs() < 0.03, "{little} for {fresh}");
    let some = with(delayed(1.0), shortest.clone());
    let refreshed =
        with(LoadInformation::Refreshed(std::time::Duration::from_secs(1)), shortest.clone());
    let much = with(delayed(20.0), shortest);
    let random = with(LoadInformation::Fresh, RouterSpec::Random);
    assert!(fresh * 1.1 < some && some < much, "{fresh} {some} {much}");
    assert!(fresh * 1.05 < refreshed && refreshed < much, "{fresh} {refreshed} {much}");
    assert!(much > random, "{much} for {random} by chance");
}

/// ohmae, section 4.2, as inferred in a study of the paper: 5 servers of one slot, 50 clients who
/// think 10 s, service 1.5 s hyperexponential with squared cv 4, and lengths that count waiting jobs
/// only. Its figures have about 1 % of noise; 4 % are asked for.
#[test]
fn the_policies_of_ohmae_at_50_clients() {
    let (length, ties) = (Length::Waiting, Ties::Lowest);
    let recent = Window::Recent(std::time::Duration::from_secs(10));
    let ev = |window| RouterSpec::Ev {
        queue: 1.0,
        utilisation: 1.0,
        length,
        at_zero: AtZero::Best,
        window,
        ties,
    };
    let utilisation = |window| RouterSpec::LowestUtilisation { window, ties };
    for (router, expected) in [
        (RouterSpec::RoundRobin, 9.26),
        (RouterSpec::ShortestQueue { length, ties }, 5.58),
        (utilisation(Window::SinceStart), 8.34),
        (utilisation(recent), 7.16),
        (ev(Window::SinceStart), 5.57),
        (ev(recent), 5.52),
    ] {
        let name = format!("{router:?}");
        let mut network = Network::default();
        let work = add_delay(&mut network, "work");
        let spec = GateSpec { servers: vec![ServerSpec { slots: 1 }; 5], ..routed(router) };
        let gate = network.add_gate(GateNode::new("balancer", spec));
        let demand = Demand::Drawn(Dist::Hyperexponential { mean: 1.5, scv: 4.0 });
        let inside = vec![Step::Visit { station: work, demand }];
        let load = closed(50, Dist::Exponential { mean: 10.0 });
        network.add_class(Class::new("jobs", load, vec![Step::Hold { gate, inside }]));
        let found = response(&run(&network, 63, 200_000), 0).mean;
        assert!((found / expected - 1.0).abs() < 0.04, "{name}: {found} for {expected}");
    }
}
