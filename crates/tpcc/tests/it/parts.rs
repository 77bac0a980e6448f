//! Several processes, here threads, that run a plan together on one database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tpcc::{
    DeliveryResult, End, Execution, Isolation, MeetError, Meeting, Outcome, Pace, Plan, Record,
    RunError, Watch, run_part,
};
use workload::tpcc::Kind;

use super::Database;

static NEVER: AtomicBool = AtomicBool::new(false);

/// The locks of parts on the database of whoever asks: other tests have theirs on the same server.
const PARTS: &str = "from pg_locks where locktype = 'advisory' and database = \
    (select oid from pg_database where datname = current_database())";

/// Stops what would run for minutes when a test fails, so that it is told at once.
struct Failing<'a>([&'a AtomicBool; 2]);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
        }
    }
}

fn plan() -> Plan {
    Plan {
        pace: Pace::Paced,
        warehouses: 2,
        connections: 2,
        ramp: Duration::from_secs(1),
        measure: Duration::from_secs(4),
        execution: Execution::Sql,
        isolation: Isolation::RepeatableRead,
        seed: 5,
    }
}

/// Whom a part has waited for, and whose Deliveries it has seen.
#[derive(Default)]
struct Seen {
    missing: Vec<Vec<u32>>,
    deliveries: Vec<u32>,
}

impl Watch for Seen {
    fn tick(&mut self, _: Duration, _: u64) {}

    fn delivered(&mut self, result: &DeliveryResult) {
        self.deliveries.push(result.warehouse);
    }

    fn waits(&mut self, parts: &[u32]) {
        if self.missing.last().is_none_or(|last| last != parts) {
            self.missing.push(parts.to_vec());
        }
    }
}

fn meeting(part: &str, seconds: u64) -> Meeting {
    Meeting { part: part.parse().unwrap(), patience: Duration::from_secs(seconds) }
}

fn attend(database: &Database, plan: &Plan, part: &str) -> (Result<Record, RunError>, Seen) {
    let mut seen = Seen::default();
    let record = run_part(&database.0, plan, &meeting(part, 30), &NEVER, &mut seen);
    (record, seen)
}

#[test]
fn two_parts_start_together_and_merge_into_one_run() {
    let database = Database::loaded("two_parts");
    let (plan, stress) = (plan(), Plan { pace: Pace::Stress, ..plan() });
    let ((one, seen), (two, _)) = std::thread::scope(|scope| {
        let first = scope.spawn(|| attend(&database, &plan, "1/2"));
        std::thread::sleep(Duration::from_millis(700));
        let second = attend(&database, &plan, "2/2");
        (first.join().unwrap(), second)
    });
    assert_eq!(seen.missing[0], [2], "one waits for the other");
    let (one, two) = (one.unwrap(), two.unwrap());
    let facts = |record: &Record| record.part.expect("it is a part");
    assert_eq!(facts(&one).start_us, facts(&two).start_us);
    for record in [&one, &two] {
        let facts = facts(record);
        // On one machine a round trip takes far less, and a busy one is late by some milliseconds.
        assert!(0.0 < facts.clock_error_s && facts.clock_error_s < 0.1, "{facts:?}");
        assert!(facts.late_s < 0.5, "{facts:?}");
        assert_eq!((record.end.clone(), record.warehouses()), (End::Complete, 1));
        assert_eq!(record.judge().outcome, Outcome::Part(facts.part));
    }
    let merged = Record::merge(&[two, one]).unwrap();
    assert_eq!(
        (merged.end.clone(), merged.merged.len(), merged.plan.connections),
        (End::Complete, 2, 4)
    );
    assert!(merged.part.is_none());
    assert!(!matches!(merged.judge().outcome, Outcome::Part(_)));

    // The next run begins although the last has left its rows; and what is counted is there.
    let orders = "select sum(d_next_o_id - 3001) from district";
    let before: u64 = database.ask(orders)[0].parse().unwrap();
    let (one, two) = std::thread::scope(|scope| {
        let first = scope.spawn(|| attend(&database, &stress, "1/2").0.unwrap());
        (attend(&database, &stress, "2/2").0.unwrap(), first.join().unwrap())
    });
    let merged = Record::merge(&[one, two]).unwrap();
    assert!(merged.errors.is_empty(), "{:?}", merged.error_first);
    let there = database.ask(orders)[0].parse::<u64>().unwrap() - before;
    let entered: u64 = merged.new_orders.iter().sum();
    // What was entered in the ramp, less what was rolled back there, is not told apart.
    let rolled_back = merged.inputs.rollbacks;
    assert!(there <= entered + 4 && there + 2 * rolled_back + 50 >= entered, "{entered}, {there}");
    assert!(merged.of(Kind::Payment).completed > 0 && merged.plan.terminals() == 4);
}

#[test]
fn a_part_that_does_not_come_is_named() {
    let database = Database::loaded("absent");
    let mut seen = Seen::default();
    let alone = |part: &str, seen: &mut Seen| {
        run_part(&database.0, &plan(), &meeting(part, 1), &NEVER, seen).unwrap_err()
    };
    let error = alone("1/2", &mut seen);
    assert!(
        matches!(&error, RunError::Meet(MeetError::Missing { numbers, of: 2, .. }) if *numbers == [2])
    );
    assert_eq!(error.to_string().split(';').next(), Some("part 2 of 2 did not come within 1s"));
    // What it has left does not count as its presence.
    let error = alone("2/2", &mut seen);
    assert!(
        matches!(&error, RunError::Meet(MeetError::Missing { numbers, .. }) if *numbers == [1])
    );
    let error = alone("3/3", &mut seen);
    assert!(
        matches!(error, RunError::Meet(MeetError::TooMany { of: 3, warehouses: 2 })),
        "{error}"
    );
    let stopped = AtomicBool::new(true);
    let error = run_part(&database.0, &plan(), &meeting("1/2", 30), &stopped, &mut seen);
    assert!(matches!(error, Err(RunError::Meet(MeetError::Interrupted))));
    assert!(seen.deliveries.is_empty());
}

#[test]
fn the_same_part_twice_and_another_plan_are_refused() {
    let database = Database::loaded("refused_parts");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut seen = Seen::default();
            run_part(&database.0, &plan(), &meeting("1/2", 60), &stop, &mut seen).map(drop)
        });
        let there = || database.ask(&format!("select 1 {PARTS} and objsubid = 2"));
        let deadline = Instant::now() + Duration::from_secs(20);
        while there().is_empty() {
            assert!(Instant::now() < deadline, "part 1 does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
        let (twice, _) = attend(&database, &plan(), "1/2");
        let twice = twice.unwrap_err();
        assert!(matches!(twice, RunError::Meet(MeetError::Twice { number: 1, .. })), "{twice}");
        let other = Plan { measure: Duration::from_secs(9), ..plan() };
        let (other, _) = attend(&database, &other, "2/2");
        let other = other.unwrap_err().to_string();
        let says =
            "part 1 waits for another plan: its measurement interval is 4s, and here it is 9s";
        assert!(other.starts_with(says), "{other}");
        let plan = Plan { pace: Pace::Stress, ..plan() };
        let (size, _) = attend(&database, &plan, "2/3");
        let size = size.unwrap_err().to_string();
        assert!(size.contains("its number of parts is 2, and here it is 3"), "{size}");
        stop.store(true, Ordering::Relaxed);
        let waited = waits.join().unwrap();
        assert!(
            matches!(waited, Err(RunError::Meet(MeetError::Interrupted))),
            "it went on waiting"
        );
    });
}

/// A part that is killed leaves its row, with a start in it, and its lock goes with its session.
#[test]
fn a_part_that_was_killed_is_in_nobodys_way_and_one_that_runs_is_waited_for() {
    let database = Database::loaded("killed_part");
    let long = Plan { measure: Duration::from_secs(600), ..plan() };
    let (stop, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (killed, stopped) = std::thread::scope(|scope| {
        let _failing = Failing([&stop, &failed]);
        let first = scope.spawn(|| {
            let mut seen = Seen::default();
            run_part(&database.0, &long, &meeting("1/2", 30), &failed, &mut seen).unwrap()
        });
        let second = scope.spawn(|| {
            let mut seen = Seen::default();
            run_part(&database.0, &long, &meeting("2/2", 30), &stop, &mut seen).unwrap()
        });
        let started = "select count(*) from tpcc_part where start_us is not null \
            and start_us < extract(epoch from clock_timestamp()) * 1000000";
        let deadline = Instant::now() + Duration::from_secs(20);
        while database.ask("select to_regclass('tpcc_part') is not null")[0] != "t"
            || database.ask(started)[0] != "2"
        {
            assert!(Instant::now() < deadline, "they do not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let [locks, other] = [1, 2].map(|part| format!("select pid {PARTS} and objid = {part}"));
        // All sessions of part 1 end: those of a process that was killed.
        let sessions = database.ask(&format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'killed_part' \
             and pid <> pg_backend_pid() and client_port is not null and pid in ({locks})"
        ));
        assert_eq!(sessions.len(), 1);
        let mut seen = Seen::default();
        // Part 2 runs on; whoever comes waits for its end.
        let comes =
            run_part(&database.0, &plan(), &meeting("1/2", 1), &NEVER, &mut seen).unwrap_err();
        assert!(
            matches!(&comes, RunError::Meet(MeetError::UnderWay { numbers, .. }) if *numbers == [2]),
            "{comes}"
        );
        let again =
            run_part(&database.0, &plan(), &meeting("2/2", 3), &NEVER, &mut seen).unwrap_err();
        assert!(matches!(&again, RunError::Meet(MeetError::UnderWay { .. })), "{again}");
        assert_eq!(database.ask(&other).len(), 1);
        stop.store(true, Ordering::Relaxed);
        let stopped = second.join().unwrap();
        database.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where datname = 'killed_part' and pid <> pg_backend_pid()",
        );
        (first.join().unwrap(), stopped)
    });
    assert!(matches!(killed.end, End::Lost(..)), "{:?}", killed.end);
    assert!(matches!(stopped.end, End::Interrupted(_)), "{:?}", stopped.end);
    let merged = Record::merge(&[killed, stopped]).unwrap();
    assert!(matches!(merged.judge().outcome, Outcome::Invalid(_)), "{:?}", merged.end);
    let quick = Plan { measure: Duration::from_secs(1), ramp: Duration::ZERO, ..plan() };
    let next = std::thread::scope(|scope| {
        let first = scope.spawn(|| attend(&database, &quick, "1/2").0);
        (attend(&database, &quick, "2/2").0, first.join().unwrap())
    });
    assert!(next.0.is_ok() && next.1.is_ok(), "{next:?}");
}
