//! The tests of atomicity and isolation: what each level shows, and that they can fail.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use tpcc::verify::{Part, verify};
use tpcc::{
    AcidError, AcidFinding, AcidPlan, AcidTest, Execution, Isolation, RunError, Trial, acid,
};

use super::Database;

const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

fn tests(database: &Database, execution: Execution, isolation: Isolation) -> Vec<Trial> {
    let plan = AcidPlan { execution, isolation, seed: 3 };
    acid(&database.0, &plan, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// The tests that come out like this at a level.
fn that(trials: &[Trial], level: Isolation, is: fn(AcidFinding) -> bool) -> Vec<AcidTest> {
    trials.iter().filter(|trial| is(trial.finding(level))).map(|trial| trial.test).collect()
}

fn fails(finding: AcidFinding) -> bool {
    finding == AcidFinding::Fails
}

fn is_odd(finding: AcidFinding) -> bool {
    matches!(finding, AcidFinding::Anomaly(_))
}

fn assert_consistent(database: &Database) {
    let stop = AtomicBool::new(false);
    let found = verify(&database.0, &[Part::Conditions], &stop, &mut |_, _| {}).unwrap();
    assert!(found.holds(), "{:?}", found.failed().collect::<Vec<_>>());
}

#[test]
fn at_each_level_and_in_both_modes_the_tests_come_out_as_the_level_promises() {
    use AcidTest::{Isolation3, Isolation5, Isolation7, Isolation8, Isolation9};
    let database = Database::loaded("acid");
    let items = database.hashes()[5].clone();
    assert_eq!(items.0, "item");
    for execution in [Execution::Sql, Execution::Functions] {
        for level in LEVELS {
            let trials = tests(&database, execution, level);
            let done: Vec<_> = trials.iter().map(|trial| trial.test).collect();
            assert_eq!(done, AcidTest::ALL);
            assert_eq!(that(&trials, level, fails), [], "{execution:?} {level:?}: {trials:#?}");
            let odd = that(&trials, level, is_odd);
            let weak = level == Isolation::ReadCommitted;
            let expected: &[_] = if weak { &[Isolation7, Isolation8, Isolation9] } else { &[] };
            assert_eq!(odd, expected, "{execution:?} {level:?}");
            for other in LEVELS.into_iter().filter(|other| *other != level) {
                // Whoever runs at another level than they say is found out by what they do, not
                // only by the level's name: the retries and the anomalies.
                let failed = that(&trials, other, fails);
                if weak || other == Isolation::ReadCommitted {
                    for test in [Isolation3, Isolation5, Isolation7, Isolation8, Isolation9] {
                        let trial = trials.iter().find(|trial| trial.test == test).unwrap();
                        let seen = &trial.observations;
                        let wrong = seen.iter().filter(|seen| fails(seen.finding(other)));
                        assert!(wrong.count() >= 2, "{test:?} at {level:?}, said {other:?}");
                    }
                }
                assert!(failed.len() >= 9, "{level:?} passes for {other:?}: {failed:?}");
            }
        }
    }
    assert_eq!(database.hashes()[5], items, "prices are put back");
    let lost = "select count(*) from orders left join new_order on no_w_id = o_w_id \
        and no_d_id = o_d_id and no_o_id = o_id where o_carrier_id is null and no_o_id is null";
    assert_eq!(database.ask(lost), ["0"], "the marks of new orders are put back");
    assert_consistent(&database);
}

#[test]
fn what_a_database_does_wrong_fails_its_test() {
    let database = Database::loaded("acid_faults");
    let level = Isolation::RepeatableRead;
    let failed = || that(&tests(&database, Execution::Sql, level), level, fails);
    database.ask(
        "create function nothing() returns trigger language plpgsql as $$ \
             begin return null; end $$; \
         create trigger lost before insert on history for each row execute function nothing()",
    );
    assert_eq!(failed(), [AcidTest::AtomicityCommit, AcidTest::AtomicityRollback]);
    database.ask(
        "drop trigger lost on history; \
         create function kept() returns trigger language plpgsql as $$ \
             begin new.c_delivery_cnt := old.c_delivery_cnt; return new; end $$; \
         create trigger kept before update on customer for each row execute function kept()",
    );
    assert_eq!(failed(), [AcidTest::Isolation5]);
    // An order number that skips one: nothing waits wrongly, but the numbers do not fit.
    database.ask(
        "drop trigger kept on customer; \
         create function skips() returns trigger language plpgsql as $$ \
             begin new.d_next_o_id := new.d_next_o_id + 1; return new; end $$; \
         create trigger skips before update of d_next_o_id on district \
             for each row execute function skips()",
    );
    let failed = failed();
    assert_eq!(failed, [AcidTest::Isolation3, AcidTest::Isolation4]);
}

#[test]
fn where_others_work_or_nothing_is_loaded_no_test_begins() {
    let plan =
        AcidPlan { execution: Execution::Sql, isolation: Isolation::RepeatableRead, seed: 1 };
    let refused = |database: &Database, stop: bool| {
        acid(&database.0, &plan, &AtomicBool::new(stop), &mut |_| {}).unwrap_err()
    };
    let database = Database::loaded("acid_busy");
    let error = database.with(async |client| {
        client.batch_execute("begin; select * from warehouse").await.unwrap();
        let config = database.0.clone();
        let busy = move || refused(&Database(config), false);
        std::thread::scope(|scope| scope.spawn(busy).join().unwrap())
    });
    assert!(matches!(error, AcidError::Busy { sessions: 1 }), "{error}");
    let error = refused(&Database::new("acid_empty"), false);
    assert!(matches!(error, AcidError::Begin(RunError::Open(_) | RunError::NotLoaded)), "{error}");
    assert!(error.to_string().contains("sekisho tpcc load"), "{error}");

    assert!(matches!(refused(&database, true), AcidError::Interrupted));
}

#[test]
fn a_wish_to_stop_in_the_middle_of_a_test_puts_back_what_it_changed() {
    let database = Database::loaded("acid_stopped");
    let plan =
        AcidPlan { execution: Execution::Sql, isolation: Isolation::RepeatableRead, seed: 1 };
    let marks = "select count(*) from new_order";
    let before = database.ask(marks);
    let (stop, stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    let in_place = Barrier::new(2);
    // Somebody keeps the New-Order of the eighth test from taking its number; the marks of its
    // district are away by then.
    let in_the_way = || {
        database.with(async |client| {
            client.batch_execute("begin; lock table district in exclusive mode").await.unwrap();
            in_place.wait();
            let waits = "select exists (select from pg_locks where not granted \
                 and relation = 'district'::regclass)";
            while !client.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
                assert!(!stopped.load(Ordering::Relaxed), "nobody waited");
            }
            let left: i64 = client.query_one(marks, &[]).await.unwrap().get(0);
            assert!(left < before[0].parse().unwrap(), "they are away");
            stop.store(true, Ordering::Relaxed);
            while !stopped.load(Ordering::Relaxed) {
                client.query_one("select pg_sleep(0.01)", &[]).await.unwrap();
            }
        });
    };
    let ended = std::thread::scope(|scope| {
        let ended = acid(&database.0, &plan, &stop, &mut |done| {
            if AcidTest::ALL.get(done) == Some(&AcidTest::Isolation8) {
                scope.spawn(in_the_way);
                in_place.wait();
            }
        });
        stopped.store(true, Ordering::Relaxed);
        ended
    });
    assert!(matches!(ended, Err(AcidError::Interrupted)), "{ended:?}");
    assert_consistent(&database);
}
