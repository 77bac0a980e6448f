//! Clients that are not served well: patience, time-outs, retries, metastable overload.

use gate::GateSpec;
use sim::{
    Agenda, Class, Client, Load, Network, Noticed, Outcome, Retry, StationKind, Step, TimeOut,
    WhenFull,
};
use workload::{Dist, Pieces, RateCurve};

use crate::support::*;

fn exp(mean: f64) -> Dist {
    Dist::Exponential { mean }
}

#[test]
fn impatient_callers_follow_erlang_a() {
    // M/M/c + M: birth rate lambda, death rate min(n, c) mu + max(n - c, 0) theta. c = 3, lambda = 4,
    // mu = 1, theta = 0.5; no load is too much for it.
    let (lambda, c, theta) = (4.0, 3_usize, 0.5);
    let mut p = vec![1.0_f64];
    for n in 1..200_usize {
        let death = n.min(c) as f64 + n.saturating_sub(c) as f64 * theta;
        p.push(p[n - 1] * lambda / death);
    }
    let sum: f64 = p.iter().sum();
    let waiting: f64 =
        (p.iter().enumerate()).map(|(n, p)| n.saturating_sub(c) as f64 * p / sum).sum();
    let mut network =
        gated(poisson(lambda), GateSpec::fifo(c as u32), StationKind::Delay, exponential(1.0));
    network.classes[0].client.patience = Some(exp(1.0 / theta));
    let outcome = run(&network, 81, 400_000);
    assert_near("waiting", outcome.gates[0].waiting, waiting, 0.02);
    assert_near("reneged", outcome.classes[0].reneged, theta * waiting, 0.02);
    assert_near("share", outcome.gates[0].reneged, theta * waiting / lambda, 0.02);
    assert_near("X", outcome.classes[0].throughput, lambda - theta * waiting, 0.01);
    assert_near("gave up", outcome.classes[0].gave_up, theta * waiting, 0.02);
}

#[test]
fn who_is_lost_tries_again_as_often_as_it_may() {
    // A station that is always full: a closed class of one holds the only place for ever. Each request
    // of the other makes 1 + 3 attempts, with pauses of 1, 2 and 3 s (bounded), and gives up.
    let mut network = Network::default();
    let station = add_delay(&mut network, "full");
    network.stations[station].room = Some((1, WhenFull::Lose));
    let hog = vec![Step::Visit { station, demand: constant(1e5) }];
    network.add_class(Class::new("hog", closed(1, no_think()), hog));
    let route = vec![Step::Visit { station, demand: constant(1.0) }];
    let retry = Retry { more: 3, back_off_s: 1.0, factor: 2.0, back_off_max_s: 3.0, jitter: 0.0 };
    let client = Client { retry: Some(retry), ..Client::default() };
    let load = closed(1, Dist::Constant(4.0));
    network.add_class(Class { client, ..Class::new("jobs", load, route) });
    network.agenda = Some(Agenda { length_s: Some(1e4), ..Agenda::default() });
    let jobs = &sim::run(&network, &options(82, 10)).unwrap().classes[1];
    // A cycle is 4 s of thinking and 6 s of pauses.
    assert!((jobs.gave_up.mean - 0.1).abs() < 1e-3, "{:?}", jobs.gave_up);
    assert!((jobs.offered.mean - 0.4).abs() < 1e-3, "{:?}", jobs.offered);
    assert!((jobs.lost.mean - 0.4).abs() < 1e-3, "{:?}", jobs.lost);
    assert_eq!(jobs.throughput.mean, 0.0);
}

#[test]
fn what_succeeds_at_last_took_all_the_time_from_the_first_attempt_on() {
    // The first 10 s the only place is taken: the attempts at 0, 4 and 8 s are lost, that at 12 s is not.
    let mut network = Network::default();
    let station = add_delay(&mut network, "place");
    network.stations[station].room = Some((1, WhenFull::Lose));
    let hog = vec![Step::Visit { station, demand: constant(10.0) }];
    network.add_class(Class::new("hog", closed(1, Dist::Constant(0.0)), hog));
    network.classes[0].route.push(Step::Visit { station: 1, demand: constant(1e6) });
    add_delay(&mut network, "elsewhere");
    let route = vec![Step::Visit { station, demand: constant(1.0) }];
    let retry = Retry { more: 9, back_off_s: 4.0, factor: 1.0, back_off_max_s: 4.0, jitter: 0.0 };
    let client = Client { retry: Some(retry), ..Client::default() };
    let load = closed(1, Dist::Constant(1e3));
    network.add_class(Class { client, ..Class::new("jobs", load, route) });
    network.classes[1].load = Load::Trace(
        workload::Trace::new(vec![workload::TraceJob { at: 1e-9, ..Default::default() }], None)
            .unwrap(),
    );
    network.agenda = Some(Agenda { length_s: Some(100.0), ..Agenda::default() });
    let outcome = sim::run(&network, &options(83, 10)).unwrap();
    let response = outcome.classes[1].response.unwrap().mean;
    assert!((response - 13.0).abs() < 1e-6, "{response}");
    assert!((outcome.classes[1].lost.mean * 100.0 - 3.0).abs() < 1e-9);
}

#[test]
fn a_time_out_leaves_the_work_behind_where_nobody_notices() {
    // M/M/1 at rho 0.5 whose clients wait 1 s: P(R > 1) = e^-0.5 time out, but the server does all.
    let mut network = gated(poisson(0.5), GateSpec::fifo(1), StationKind::Delay, exponential(1.0));
    let time_out = |noticed| Some(TimeOut { after: Dist::Constant(1.0), noticed });
    network.classes[0].client.time_out = time_out(Noticed::Nowhere);
    let outcome = run(&network, 84, 400_000);
    let late = (-0.5_f64).exp();
    assert_near("timed out", outcome.classes[0].timed_out, 0.5 * late, 0.01);
    assert_near("X", outcome.classes[0].throughput, 0.5 * (1.0 - late), 0.01);
    assert_near("busy", outcome.gates[0].busy, 0.5, 0.01);
    // Where the gate notices, those that wait leave: M/M/1 + D by patience is the same queue.
    network.classes[0].client.time_out = time_out(Noticed::AtGates);
    let noticed = run(&network, 85, 400_000);
    network.classes[0].client = Client { patience: Some(Dist::Constant(1.0)), ..Client::default() };
    let patience = run(&network, 86, 400_000);
    let (busy, other) = (noticed.gates[0].busy, patience.gates[0].busy);
    assert!(busy.mean < 0.45, "{busy:?}");
    assert_near("busy", busy, other.mean, 0.02);
    assert_near("share", noticed.gates[0].reneged, patience.gates[0].reneged.mean, 0.03);
}

/// 60/s for a server of 100/s with room for 400, whose clients wait a second and then try again; from
/// 50 s to 60 s three times the load.
fn burst(more: u32) -> Outcome {
    let kind = StationKind::Queue { servers: 1 };
    let points = vec![(0.0, 60.0), (50.0, 180.0), (60.0, 60.0)];
    let curve = RateCurve::new(points, Pieces::Constant, None).unwrap();
    let mut network = single(Load::Varying(curve), kind, exponential(0.01));
    network.stations[0].room = Some((400, WhenFull::Lose));
    let time_out = TimeOut { after: Dist::Constant(1.0), noticed: Noticed::Nowhere };
    let retry = Retry { more, back_off_s: 0.1, factor: 2.0, back_off_max_s: 1.0, jitter: 0.5 };
    network.classes[0].client =
        Client { time_out: Some(time_out), retry: Some(retry), ..Client::default() };
    network.agenda = Some(Agenda { length_s: Some(300.0), intervals: 6, ..Agenda::default() });
    sim::run(&network, &options(87, 10)).unwrap()
}

/// Metastable overload (Bronson et al., HotOS 2021): the burst fills the queue, every answer comes too
/// late, every client asks again, and that load alone keeps the queue full.
#[test]
fn a_burst_tips_a_service_with_retries_for_good() {
    let without = burst(0);
    let with = burst(4);
    for outcome in [&without, &with] {
        let before = outcome.intervals[0].classes[0].throughput;
        assert_near("goodput before", before, 60.0, 0.03);
    }
    let last = |outcome: &Outcome| outcome.intervals[5].classes[0].clone();
    assert_near("recovered", last(&without).throughput, 60.0, 0.03);
    let down = last(&with);
    assert!(down.throughput.mean < 6.0, "the load is back to 60/s, the goodput is not: {down:?}");
    assert!(down.offered.mean > 200.0, "{down:?}");
    assert!(with.intervals[5].stations[0].busy.mean > 0.99, "busy with answers nobody waits for");
}

#[test]
fn clients_that_cannot_be_are_refused() {
    let refuses = |client: Client, cause: &str| {
        let mut network = single(poisson(0.1), StationKind::Delay, exponential(1.0));
        network.classes[0].client = client;
        let error = sim::run(&network, &options(1, 1_000)).unwrap_err().to_string();
        assert!(error.contains("class `jobs`") && error.contains(cause), "{error}");
    };
    let sound = Retry { more: 1, back_off_s: 1.0, factor: 2.0, back_off_max_s: 3.0, jitter: 0.5 };
    let with = |retry| Client { retry: Some(retry), ..Client::default() };
    refuses(with(Retry { factor: 0.5, ..sound.clone() }), "must not shrink");
    refuses(with(Retry { jitter: 1.5, ..sound.clone() }), "from 0 to 1");
    refuses(with(Retry { back_off_max_s: 0.5, ..sound }), "not above its maximum");
    let patience = Some(Dist::Constant(0.0));
    refuses(Client { patience, ..Client::default() }, "no patience at all");
}
