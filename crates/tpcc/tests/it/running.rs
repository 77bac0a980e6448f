//! Whole runs: terminals that wait, terminals that do not, and runs that end early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tpcc::{
    DeliveryResult, End, Execution, Isolation, LoadPlan, Outcome, Pace, Plan, Record, RunError,
    Watch, run,
};
use workload::tpcc::Kind;

use super::Database;

fn plan(pace: Pace, execution: Execution, ramp: u64, measure: u64) -> Plan {
    Plan {
        pace,
        warehouses: 2,
        connections: 3,
        ramp: Duration::from_secs(ramp),
        measure: Duration::from_secs(measure),
        execution,
        isolation: Isolation::RepeatableRead,
        seed: 5,
    }
}

/// Keeps what it is shown.
#[derive(Default)]
pub(super) struct Seen {
    ticks: u32,
    deliveries: Vec<DeliveryResult>,
}

impl Watch for Seen {
    fn tick(&mut self, _: Duration, _: u64) {
        self.ticks += 1;
    }

    fn delivered(&mut self, result: &DeliveryResult) {
        self.deliveries.push(result.clone());
    }
}

fn run_all(database: &Database, plan: &Plan) -> (Record, Seen) {
    let mut seen = Seen::default();
    let record = run(&database.0, plan, &AtomicBool::new(false), &mut seen).unwrap();
    (record, seen)
}

/// Work done since the load, by the database.
fn done(database: &Database, sql: &str) -> u64 {
    database.ask(sql)[0].parse().unwrap()
}

const ORDERS: &str = "select sum(d_next_o_id - 3001) from district";
const PAYMENTS: &str = "select count(*) - 60000 from history";
const DELIVERED: &str = "select count(*) - 42000 from orders where o_carrier_id is not null";

#[test]
fn without_waits_what_is_counted_is_what_the_database_holds() {
    for execution in [Execution::Sql, Execution::Functions] {
        let database = Database::loaded(&format!("stress_{execution:?}").to_lowercase());
        let (record, seen) = run_all(&database, &plan(Pace::Stress, execution, 0, 3));
        assert_eq!(record.end, End::Complete);
        assert!(record.errors.is_empty(), "{:?}", record.error_first);
        let entered = record.of(Kind::NewOrder).completed - record.inputs.rollbacks;
        let (orders, payments) = (done(&database, ORDERS), done(&database, PAYMENTS));
        // Those under way at the end, one a connection, may have been done.
        assert!((entered..=entered + 3).contains(&orders), "{entered} counted, {orders} there");
        let paid = record.of(Kind::Payment).completed;
        assert!((paid..=paid + 3).contains(&payments), "{paid} counted, {payments} there");
        let noted: usize = seen.deliveries.iter().map(|result| result.delivered.orders.len()).sum();
        assert_eq!(noted as u64, done(&database, DELIVERED), "the result file holds them all");
        assert!(noted > 0 && seen.ticks >= 3);
        let unbalanced = "select count(*) from warehouse where w_ytd <> \
             (select sum(d_ytd) from district where d_w_id = w_id)";
        assert_eq!(done(&database, unbalanced), 0);
        assert_eq!(record.judge().outcome, Outcome::NoWaits, "{:?}", record.judge());
        is_a_closed_load(&record);
        let text = serde_json::to_string(&record).unwrap();
        let again: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text, "a record can be kept");
    }
}

/// The same run by intervals: nothing is lost, three are always under way, the books balance.
fn is_a_closed_load(record: &Record) {
    let closed = record.closed().unwrap();
    assert_eq!(closed.intervals.len(), 6);
    for kind in Kind::ALL {
        let classes = closed.intervals.iter().map(|interval| &interval.classes[kind.index()]);
        let counted: u64 = classes.map(|class| class.completed).sum();
        assert_eq!(counted, record.of(kind).completed, "{kind:?}");
    }
    for interval in &closed.intervals {
        assert!((interval.in_flight_mean - 3.0).abs() < 0.3, "{}", interval.in_flight_mean);
    }
    let little = closed.judge(0.95).little;
    assert_ne!(little.verdict, measure::LittleVerdict::DoesNot, "{little:?}");
    assert!((little.computed / 3.0 - 1.0).abs() < 0.1, "{little:?}");
    assert!(record.machine_busy().is_some_and(|share| 0.0 < share && share <= 1.0));
}

#[test]
fn terminals_key_and_think_and_are_answered_at_once() {
    let database = Database::loaded("paced");
    let (record, _) = run_all(&database, &plan(Pace::Paced, Execution::Sql, 1, 9));
    assert_eq!(record.end, End::Complete);
    assert!((record.measured_s - 9.0).abs() < 0.01, "{}", record.measured_s);
    let payments = record.of(Kind::Payment);
    // Twenty terminals begin within a second; those that key three seconds have sent by then, and
    // those that key eighteen have not.
    assert!(payments.completed > 3, "{}", payments.completed);
    assert_eq!(record.of(Kind::NewOrder).completed, 0);
    // A histogram knows a thousandth.
    let keying = (payments.keying.min().as_secs_f64(), payments.keying.max().as_secs_f64());
    assert!(2.99 < keying.0 && keying.1 < 3.01, "keying is constant: {keying:?}");
    assert_eq!(payments.failed + payments.unfinished, 0);
    assert!(payments.response.quantile(0.9) < Duration::from_secs(1), "this is no load");
    assert!(!payments.think.is_empty());
    let unsettled = record.judge();
    assert_eq!(unsettled.outcome, Outcome::Deviates, "fsync is off here: {:#?}", unsettled.checks);
    assert!(unsettled.deviations.iter().any(|name| name.contains("short interval")));
}

/// A run twenty times hastened reported 17.99 s of keying: what was drawn.
#[test]
fn what_is_recorded_of_a_hastened_run_is_what_was_waited() {
    let database = Database::loaded("hastened");
    let pace = Pace::Hastened(20.try_into().unwrap());
    let (record, _) = run_all(&database, &plan(pace, Execution::Sql, 1, 4));
    assert_eq!(record.end, End::Complete);
    for kind in [Kind::NewOrder, Kind::Payment] {
        let (of, asked) = (record.of(kind), kind.rules());
        let keying = asked.keying.as_secs_f64() / 20.0;
        let (least, most) = (of.keying.min().as_secs_f64(), of.keying.max().as_secs_f64());
        assert!((least / keying - 1.0).abs() < 2e-3, "{kind:?}: {least} for {keying}");
        assert!((most / keying - 1.0).abs() < 2e-3, "{kind:?}: {most} for {keying}");
        // Some ten think times at least, none longer than ten means.
        let (mean, think) = (of.think.mean_s(), asked.think_mean.as_secs_f64() / 20.0);
        assert!(of.think.len() > 10 && mean < 4.0 * think, "{kind:?}: {mean} for {think}");
    }
    assert!(!matches!(record.judge().outcome, Outcome::Qualified | Outcome::Meets { .. }));
}

/// Lets terminals fifty times as fast as people run for three seconds, while somebody holds the oldest
/// new orders of both warehouses for so long: what was recorded, how many orders were noted as
/// delivered, and how many the database then holds.
fn held_up(name: &str, held: Duration) -> (Record, Seen, u64) {
    let database = Database::loaded(name);
    let plan = plan(Pace::Hastened(50.try_into().unwrap()), Execution::Sql, 0, 3);
    let (began, has) = std::sync::mpsc::channel();
    let (record, seen) = std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            database.with(async |client| {
                let hold = "begin; select * from new_order where no_o_id < 2300 for update";
                client.simple_query(hold).await.unwrap();
                began.send(()).unwrap();
                tokio::time::sleep(held).await;
                client.simple_query("rollback").await.unwrap();
            });
        });
        has.recv().unwrap();
        let ended = run_all(&database, &plan);
        holder.join().unwrap();
        ended
    });
    assert_eq!(record.end, End::Complete);
    assert!(record.errors.is_empty(), "{:?}", record.error_first);
    let delivered = done(&database, DELIVERED);
    (record, seen, delivered)
}

/// Deliveries are answered when they are queued. A run forgot those that were queued at its end: they
/// were never done, and nothing said so.
#[test]
fn deliveries_that_were_answered_are_finished_after_the_end() {
    // A second after the end of the run, which then waits for up to five.
    let (record, seen, delivered) = held_up("queued", Duration::from_secs(4));
    let answered = record.of(Kind::Delivery).completed;
    assert!(answered > 1, "some were answered: {answered}");
    assert_eq!(record.deferred.unfinished, 0);
    assert_eq!(record.deferred.times.len(), answered, "each has its time");
    assert_eq!(seen.deliveries.len() as u64, answered, "each has its line of the result file");
    let noted: usize = seen.deliveries.iter().map(|result| result.delivered.orders.len()).sum();
    assert_eq!((noted as u64, noted), (delivered, 10 * answered as usize), "and it is done");
}

#[test]
fn deliveries_that_cannot_be_finished_are_counted() {
    // Longer than anybody waits.
    let (record, seen, delivered) = held_up("never_done", Duration::from_secs(12));
    let answered = record.of(Kind::Delivery).completed;
    assert!(answered > 1, "some were answered: {answered}");
    assert_eq!(record.deferred.unfinished, answered, "none could be done");
    assert_eq!((record.deferred.times.len(), seen.deliveries.len()), (0, 0));
    // The one that was under way at each warehouse the server may have done since.
    assert!(delivered <= 20, "{delivered}");
    let kept: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(kept.deferred.unfinished, answered, "and the record keeps it");
}

#[test]
fn a_run_that_is_stopped_ends_within_a_second_and_leaves_a_record() {
    let database = Database::loaded("stopped_run");
    let plan = plan(Pace::Stress, Execution::Sql, 0, 600);
    let (stop, mut seen) = (AtomicBool::new(false), Seen::default());
    let record = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&database.0, &plan, &stop, &mut seen));
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        let record = running.join().unwrap().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        record
    });
    assert!(matches!(record.end, End::Interrupted(_)), "{:?}", record.end);
    assert_eq!(record.judge().outcome, Outcome::Interrupted);
}

#[test]
fn a_run_that_lost_its_database_is_invalid() {
    let database = Database::loaded("lost");
    let plan = plan(Pace::Stress, Execution::Functions, 0, 600);
    let mut seen = Seen::default();
    let record = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&database.0, &plan, &AtomicBool::new(false), &mut seen));
        std::thread::sleep(Duration::from_secs(1));
        database.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where datname = 'lost' and pid <> pg_backend_pid()",
        );
        running.join().unwrap().unwrap()
    });
    assert!(matches!(record.end, End::Lost(..)), "{:?}", record.end);
    assert!(matches!(record.judge().outcome, Outcome::Invalid(_)));
}

/// The user may have three connections: without that bound the run took all that the server has, and
/// the tests beside it met "too many clients already".
#[test]
fn too_few_connections_are_named_with_the_way_out() {
    let database = Database::loaded("sessions");
    database.ask(
        "create role modest login password 'modest' connection limit 3; \
         grant all on schema public to modest; grant all on all tables in schema public to modest",
    );
    let mut config = database.0.clone();
    config.user("modest").password("modest");
    let plan = Plan { connections: 5_000, ..plan(Pace::Stress, Execution::Sql, 0, 1) };
    let error = run(&config, &plan, &AtomicBool::new(false), &mut Seen::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("fewer connections") && error.contains("max_connections"), "{error}");
    assert!(error.contains("role \"modest\""), "it is this bound that it met: {error}");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_way_out() {
    let database = Database::loaded("refused");
    let refused = |change: fn(&mut Plan)| {
        let mut plan = plan(Pace::Stress, Execution::Sql, 0, 1);
        change(&mut plan);
        run(&database.0, &plan, &AtomicBool::new(false), &mut Seen::default()).unwrap_err()
    };
    let error = refused(|plan| plan.warehouses = 3);
    assert!(matches!(error, RunError::TooFewWarehouses { asked: 3, loaded: 2 }), "{error}");
    assert!(matches!(refused(|plan| plan.connections = 0), RunError::Nothing));
    let empty = Database::new("not_loaded");
    let plan = plan(Pace::Stress, Execution::Sql, 0, 1);
    let error = run(&empty.0, &plan, &AtomicBool::new(false), &mut Seen::default()).unwrap_err();
    assert!(error.to_string().contains("sekisho tpcc load"), "{error}");
    let stopped = AtomicBool::new(true);
    let load = tpcc::load(&empty.0, &LoadPlan::new(1, 1), &stopped, &mut |_| {});
    assert!(load.is_err(), "a load that is stopped is not complete");
    let error = run(&empty.0, &plan, &AtomicBool::new(false), &mut Seen::default()).unwrap_err();
    // The way out was refused for want of `--warehouses`.
    let way = "`sekisho tpcc load --warehouses 1 --resume`";
    assert!(
        matches!(error, RunError::Incomplete { .. }) && error.to_string().contains(way),
        "{error}"
    );
}
