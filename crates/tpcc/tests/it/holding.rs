//! Jobs that hold a server for a time of chance, against a private PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::{Private, Settings};
use tpcc::Config;
use tpcc::holding::{HoldingError, Plan, run};
use workload::Dist;

#[test]
fn jobs_hold_a_server_for_as_long_as_was_drawn() {
    let server = Private::start(&Settings::default()).unwrap();
    let mut config: Config = server.url().as_str().parse().unwrap();
    let plan = Plan {
        clients: 3,
        think: Dist::Constant(0.005),
        hold: Dist::Uniform { low: 0.002, high: 0.01 },
        ramp: Duration::from_millis(100),
        measure: Duration::from_secs(1),
        seed: 1,
    };
    let stop = AtomicBool::new(false);
    let seen = run(&config, &plan, &stop).unwrap();
    let jobs = seen.responses.len();
    // Each has all of a server: at most one job every 7 ms, and one at least every 100 ms.
    assert!((30..=440).contains(&jobs) && seen.holds.len() == jobs, "{jobs}");
    assert!(seen.responses.iter().zip(&seen.holds).all(|(response, hold)| response >= hold));
    let whole = |hold: &f64| ((hold * 1e3).round() - hold * 1e3).abs() < 1e-9;
    assert!(seen.holds.iter().all(|hold| (0.002..=0.01).contains(hold) && whole(hold)));

    // An hour of them ends when it is to.
    let long = Plan { measure: Duration::from_secs(3600), ..plan.clone() };
    let stopped = thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, &long, &stop));
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap_err()
    });
    assert!(matches!(stopped, HoldingError::Interrupted), "{stopped}");

    config.password("not this one");
    let refused = run(&config, &plan, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(refused, HoldingError::Refused { clients: 3, .. }), "{refused}");
    server.stop().unwrap();
}
