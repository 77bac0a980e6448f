//! Settings of a server are changed and put back, and what it did is seen.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tpcc::tuning::{Before, TuneError, observe, restore, set};
use tpcc::{DeliveryResult, Execution, Isolation, Pace, Plan, Watch, run};

use super::{Database, start};

struct Nobody;

impl Watch for Nobody {
    fn tick(&mut self, _: Duration, _: u64) {}
    fn delivered(&mut self, _: &DeliveryResult) {}
}

/// One test, because settings are the whole server's.
#[test]
fn what_is_changed_is_in_force_and_what_is_put_back_is_as_before() {
    let server = start();
    let database = Database::of(&server, "postgres");
    let shown = |name: &str| database.ask(&format!("show {name}")).remove(0);
    let written = || {
        database.ask(
            "select name || '=' || setting from pg_file_settings \
             where sourcefile like '%/postgresql.auto.conf' order by 1",
        )
    };
    let was = shown("work_mem");
    let first = set(&database.0, "work_mem", "5MB").unwrap();
    assert_eq!(shown("work_mem"), "5MB");
    let second = set(&database.0, "work_mem", "6MB").unwrap();
    assert_eq!(second.statement(), "alter system set work_mem = '5MB'");
    restore(&database.0, &second).unwrap();
    assert_eq!((shown("work_mem").as_str(), written()), ("5MB", vec!["work_mem=5MB".to_owned()]));
    restore(&database.0, &first).unwrap();
    assert_eq!((shown("work_mem"), written()), (was, vec![]));

    // What needs a restart is written, and not in force before it.
    let buffers = shown("shared_buffers");
    let before = set(&database.0, "shared_buffers", "64MB").unwrap();
    assert_eq!((shown("shared_buffers"), written()), (buffers, vec!["shared_buffers=64MB".into()]));
    restore(&database.0, &before).unwrap();
    assert_eq!(written(), Vec::<String>::new());

    let refused = |result: Result<Before, TuneError>, says: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
        assert_eq!(written(), Vec::<String>::new());
    };
    refused(set(&database.0, "commit_delay", "it's many"), "invalid value");
    database.ask("create role guest login password 'guest'");
    let mut guest = database.0.clone();
    guest.user("guest").password("guest");
    refused(set(&guest, "work_mem", "5MB"), "permission denied");
    server.stop().unwrap();
}

#[test]
fn what_a_server_did_meanwhile_is_seen() {
    let database = Database::loaded("observed");
    let plan = Plan {
        pace: Pace::Stress,
        warehouses: 2,
        connections: 2,
        ramp: Duration::ZERO,
        measure: Duration::from_secs(2),
        execution: Execution::Sql,
        isolation: Isolation::RepeatableRead,
        seed: 1,
    };
    let (observed, record) =
        observe(&database.0, || run(&database.0, &plan, &AtomicBool::new(false), &mut Nobody))
            .unwrap();
    let done = record.unwrap().completed();
    // Every transaction commits, and few others do; a rolled back New-Order does not.
    assert!(observed.commits as f64 > 0.9 * done as f64, "{observed:?}");
    assert!(observed.elapsed_s > 1.9 && observed.wal_bytes > 100 * done, "{observed:?}");
    assert!(observed.waits.values().sum::<u64>() > 0, "{observed:?}");
    assert_eq!(observed.tables.len(), 9, "{:?}", observed.tables.keys());
    let of = |table: &str| observed.tables[table];
    assert!(of("orders").inserts > 0 && of("district").updates > 0, "{observed:?}");
    assert_eq!((of("item").updates, of("stock").inserts), (0, 0));
    let (lines, orders) = (of("order_line").inserts, of("orders").inserts);
    assert!((5 * orders..=15 * orders).contains(&lines), "{lines} {orders}");
    assert!(of("stock").bytes > 50 << 20, "{:?}", of("stock"));
}
