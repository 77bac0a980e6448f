//! TPC-C records without a run: what terminals would have recorded of a server that answers in
//! milliseconds, so that reports can be looked at on every machine alike.

use std::fs;
use std::path::Path;
use std::time::Duration;

use measure::{ClassCounts, GeneratorHealth, Histogram, Host, Interval};
use tpcc::{
    Checkpoints, Client, DeferredRecord, End, Execution, InputCounts, Isolation, KindRecord, Pace,
    PartRecord, Plan, Record, Server,
};
use workload::tpcc::Kind;

/// So many times of an exponential distribution, each quantile once, shifted by a least time.
fn times(n: u64, least_s: f64, mean_s: f64) -> Histogram {
    let mut times = Histogram::new();
    for nth in 0..n {
        let u = (nth as f64 + 0.5) / n as f64;
        times.record(Duration::from_secs_f64(least_s - (1.0 - u).ln() * mean_s));
    }
    times
}

/// Ten minutes of so many warehouses by the rules, after a minute of ramp-up.
pub(crate) fn paced(warehouses: u32) -> Record {
    let plan = Plan {
        pace: Pace::Paced,
        warehouses,
        connections: 8,
        ramp: Duration::from_secs(60),
        measure: Duration::from_secs(600),
        execution: Execution::Sql,
        isolation: Isolation::RepeatableRead,
        seed: 1,
    };
    let decks = 126 * u64::from(warehouses) / 10;
    let kinds = Kind::ALL.map(|kind| {
        let (completed, rules) = (decks * u64::from(kind.rules().cards), kind.rules());
        let mut keying = Histogram::new();
        (0..completed).for_each(|_| keying.record(rules.keying));
        KindRecord {
            completed,
            retries: completed / 100,
            response: times(completed, 3e-3, 1e-3 * f64::from(warehouses)),
            keying,
            think: times(completed, 0.0, rules.think_mean.as_secs_f64()),
            ..KindRecord::default()
        }
    });
    let each = u64::from(warehouses) * 2;
    let bucket = |nth: u64| match nth {
        0..2 => each / 2,
        _ => each - 1 + (nth * 7) % 3,
    };
    Record {
        kinds,
        menu: times(decks * 23, 20e-6, 30e-6),
        deferred: DeferredRecord { times: times(decks, 10e-3, 5e-3), ..Default::default() },
        new_orders: (0..66).map(bucket).collect(),
        ..frame(plan, inputs(decks))
    }
}

/// Two halves of a run of so many warehouses by the rules, in processes that began together.
pub(crate) fn parts(warehouses: u32) -> [Record; 2] {
    ["1/2", "2/2"].map(|part| {
        let mut half = paced(warehouses / 2);
        half.plan.warehouses = warehouses;
        let part = part.parse().expect("it is a part of a run");
        let start_us = 1_795_000_000_000_000;
        half.part = Some(PartRecord { part, start_us, clock_error_s: 1e-4, late_s: 1e-3 });
        half
    })
}

/// The same twenty times hastened: what is waited is a twentieth.
pub(crate) fn hastened(warehouses: u32) -> Record {
    let mut record = paced(warehouses);
    record.plan.pace = Pace::Hastened(20.try_into().expect("it is not 0"));
    for kind in Kind::ALL {
        let (of, rules) = (&mut record.kinds[kind.index()], kind.rules());
        of.keying = Histogram::new();
        (0..of.completed).for_each(|_| of.keying.record(rules.keying / 20));
        of.think = times(of.completed, 0.0, rules.think_mean.as_secs_f64() / 20.0);
    }
    record
}

/// The inputs of so many decks, as the rules have them.
fn inputs(decks: u64) -> InputCounts {
    let orders = decks * 10;
    InputCounts {
        rollbacks: orders / 100,
        orders_by_lines: [orders.div_ceil(11); 11],
        lines_remote: orders / 10,
        payments_remote: orders * 15 / 100,
        payments_by_name: orders * 6 / 10,
        statuses_by_name: decks * 6 / 10,
    }
}

/// Decks of 23 transactions that one processor of the server does in a second.
const DECKS: u32 = 40;

/// Demand of a transaction of one of them \[s\].
pub(crate) fn demand() -> f64 {
    1.0 / f64::from(23 * DECKS)
}

/// Twenty seconds without waits at so many connections: a server of two processors, whose throughput
/// is that of a closed network of them and nothing else.
pub(crate) fn stressed(connections: u32) -> Record {
    let plan = Plan {
        pace: Pace::Stress,
        warehouses: 4,
        connections,
        ramp: Duration::from_secs(2),
        measure: Duration::from_secs(20),
        execution: Execution::Functions,
        isolation: Isolation::RepeatableRead,
        seed: 1,
    };
    let busy = connections.min(2);
    let decks = u64::from(DECKS * busy) * 20;
    let response = demand() * f64::from(connections) / f64::from(busy);
    let kinds = Kind::ALL.map(|kind| {
        let completed = decks * u64::from(kind.rules().cards);
        let retries = completed * u64::from(connections - 1) / 20;
        let response = times(completed, response / 2.0, response / 2.0);
        KindRecord { completed, retries, response, ..KindRecord::default() }
    });
    let second = |nth: u64| 400 * u64::from(busy) + (nth * 7) % 5 * 3;
    Record {
        kinds,
        new_orders: (0..22).map(second).collect(),
        intervals: (0..44).map(|nth| interval(nth, connections, response)).collect(),
        machine_busy: vec![0.98 * f64::from(busy) / 2.0; 44],
        ..frame(plan, inputs(decks))
    }
}

/// Half a second of it; no two are quite alike.
fn interval(nth: u32, connections: u32, response_s: f64) -> Interval {
    let decks = DECKS * connections.min(2) / 2;
    let wobble = 1.0 + 0.02 * (f64::from(nth) * 2.4).sin();
    let classes = Kind::ALL.map(|kind| {
        let completed = u64::from(decks) * u64::from(kind.rules().cards);
        let mut total = Histogram::new();
        (0..completed).for_each(|_| total.record(Duration::from_secs_f64(response_s * wobble)));
        ClassCounts { completed, total, ..ClassCounts::default() }
    });
    Interval {
        start_s: f64::from(nth) / 2.0,
        length_s: 0.5,
        in_flight_mean: f64::from(connections) * wobble,
        started: u64::from(decks) * 23,
        connects: 0,
        lag: Histogram::new(),
        generator: GeneratorHealth { thread_cpu_s: vec![0.1] },
        classes: classes.into(),
    }
}

/// Parts that every record has.
fn frame(plan: Plan, inputs: InputCounts) -> Record {
    let measured_s = plan.measure.as_secs_f64();
    let settings = [
        ("checkpoint_timeout", "5min"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("shared_buffers", "512MB"),
        ("synchronous_commit", "on"),
    ];
    let checkpoint = |at_s, timed| Checkpoints { at_s, timed, requested: 0 };
    Record {
        host: Host { name: "nowhere".into(), cpus: 2, memory_bytes: 4 << 30, ..Host::default() },
        server: Server {
            version: "PostgreSQL 15.18 on a machine of tests".into(),
            tls: None,
            c_load: 87,
            load_seed: 1,
            settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
        },
        end: End::Complete,
        measured_s,
        kinds: Default::default(),
        menu: Histogram::new(),
        deferred: DeferredRecord::default(),
        inputs,
        new_orders: Vec::new(),
        checkpoints: vec![checkpoint(0.0, 7), checkpoint(200.0, 8), checkpoint(500.0, 9)],
        errors: Default::default(),
        error_first: None,
        client: Client {
            cpu_s: 0.4,
            elapsed_s: measured_s + plan.ramp.as_secs_f64(),
            transactions: 3200,
            lag: times(1000, 5e-6, 20e-6),
        },
        part: None,
        merged: Vec::new(),
        intervals: Vec::new(),
        machine_busy: Vec::new(),
        plan,
    }
}

/// A run that its user ended before anything was measured.
pub(crate) fn empty() -> Record {
    let whole = paced(1);
    Record {
        end: End::Interrupted(3.0),
        measured_s: 0.0,
        kinds: Default::default(),
        menu: Histogram::new(),
        deferred: DeferredRecord::default(),
        inputs: InputCounts::default(),
        new_orders: Vec::new(),
        checkpoints: Vec::new(),
        client: Client::default(),
        ..whole
    }
}

/// Writes a record as the file of a run.
pub(crate) fn write(path: &Path, id: &str, record: &Record) {
    let document = serde_json::json!({
        "sekisho-tpcc": 1,
        "id": id,
        "started": "2026-11-22T05:00:00Z",
        "tool": "sekisho 0.1.0",
        "command": ["/some/where/sekisho", "tpcc", "run", "--warehouses", "10"],
        "record": record,
    });
    fs::write(path, document.to_string()).expect("a folder of our own");
}
