//! Open load: arrivals wait for nobody, and what they wait for a connection is theirs.

use std::time::Duration;

use load::http::Schedule;
use measure::ArrivalSpacing;
use workload::Arrivals;

use super::*;

/// A statement that takes 20 ms, 100 times a second, on so many connections.
fn asked(connections: u32, in_flight_max: u32) -> RunRecord {
    let url = database("");
    let load = Load::Open { arrivals: Arrivals::Fixed { rate: 100.0 }, in_flight_max };
    let text = "select pg_sleep(0.02)";
    let base = spec(&url, text, Protocol::Prepared, load, Until::Seconds(2.0));
    run(PlanSpec { connections, interval: Duration::from_millis(100), ..base }).unwrap()
}

#[test]
fn an_arrival_that_finds_no_connection_waits_and_that_counts() {
    // One connection does 50 a second at most: after two seconds a hundred wait, for one second.
    let record = asked(1, 10_000);
    let last = &record.intervals[record.intervals.len() - 2];
    let response = last.classes[0].total.mean_s();
    assert!((0.5..3.0).contains(&response), "{response} s");
    assert!(last.in_flight_mean > 50.0, "{}", last.in_flight_mean);
    let lag = last.lag.mean_s();
    assert!(lag < response / 4.0, "the wait is no lateness of the generator: {lag} s");
    let told = warnings(&record);
    assert!(told.contains("found no connection of 1 free"), "{told}");
    assert!(told.contains("still in flight at the end"), "{told}");
    assert_eq!(record.header.settings["connections"], "1");
}

#[test]
fn an_arrival_beyond_the_bound_counts_as_failed() {
    let record = asked(1, 5);
    let failures = failed(&record);
    let [(ErrorKind::InFlightBound, count)] = failures[..] else { panic!("{failures:?}") };
    assert!(count > 50, "{count}");
    assert!(record.intervals.iter().all(|interval| interval.in_flight_mean < 5.5));
}

#[test]
fn as_many_arrive_as_are_asked_for() {
    let record = asked(10, 10_000);
    let started: u64 = record.intervals.iter().map(|interval| interval.started).sum();
    assert!((199..=201).contains(&started), "{started}");
    // 2 are under way in the mean, on a machine that has the time for it.
    assert!(completed(&record) > 150, "{}", completed(&record));
}

#[test]
fn a_rate_that_changes_is_told_by_phase() {
    let schedule =
        Schedule::steps(&[(50.0, 1.0), (150.0, 1.0)], ArrivalSpacing::Fixed).expect("it is one");
    let load = Load::Varying { schedule, in_flight_max: 1000 };
    let base = spec(&database(""), "select 1", Protocol::Prepared, load, Until::Seconds(2.0));
    let record = run(PlanSpec { interval: Duration::from_millis(700), ..base }).unwrap();
    let phases = record.header.load.phases();
    assert_eq!(phases.iter().map(|phase| phase.arrivals).collect::<Vec<_>>(), [50.0, 150.0]);
    // Each phase begins with an interval, whatever the length of one is.
    let (before, after): (Vec<_>, Vec<_>) =
        record.intervals.iter().partition(|interval| interval.start_s < 1.0 - 1e-9);
    let started = |part: &[&measure::Interval]| part.iter().map(|one| one.started).sum::<u64>();
    assert!((49..=51).contains(&started(&before)), "{}", started(&before));
    assert!((148..=151).contains(&started(&after)), "{}", started(&after));
}
