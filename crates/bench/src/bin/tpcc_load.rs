//! Time to load a warehouse: seconds, and core-seconds of the whole machine, for each way of
//! bringing the rows.
//!
//! ```text
//! cargo run --release -p bench --bin bench_tpcc_load -- [WAREHOUSES [URL]]
//! ```
//!
//! Two warehouses unless told, on a private server unless a database is named, which must be empty or hold
//! a load; it is loaded anew each time. "Machine" is what all
//! processors together were busy, other programs included; "client" is this process alone.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use postgres::{Private, Settings};
use tpcc::Config;
use tpcc::{Existing, Grain, LoadPlan, load};
use workload::tpcc::population::Population;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let warehouses = words.first().map_or(Ok(2), |word| word.parse());
    let Ok(warehouses) = warehouses else {
        eprintln!("usage: bench_tpcc_load [WAREHOUSES [URL]]");
        return ExitCode::from(2);
    };
    let server = match Server::open(words.get(1)) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("the database: {error}");
            return ExitCode::from(2);
        }
    };
    let config = server.config;
    let start = (std::time::Instant::now(), own());
    let rows = make(warehouses);
    println!(
        "making {rows} rows of {warehouses} warehouses, nothing sent: {:.2} s a warehouse",
        (own() - start.1) / f64::from(warehouses)
    );
    println!("\ngrain      jobs  rows s  keys s  all s  s/wh  machine core-s/wh  client core-s/wh");
    for grain in [Grain::Warehouse, Grain::Table] {
        for jobs in [1, 2, 4] {
            let plan = LoadPlan {
                grain,
                jobs,
                existing: Existing::Replace,
                ..LoadPlan::new(1, warehouses)
            };
            let (machine_before, own_before) = (machine(), own());
            let loaded = match load(&config, &plan, &AtomicBool::new(false), &mut |_| {}) {
                Ok(loaded) => loaded,
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::from(2);
                }
            };
            let (rows_s, keys_s) = (loaded.rows_took.as_secs_f64(), loaded.keys_took.as_secs_f64());
            let each = f64::from(warehouses);
            println!(
                "{:9}  {jobs:4}  {rows_s:6.2}  {keys_s:6.2}  {:5.2}  {:4.2}  {:17.2}  {:16.2}",
                format!("{grain:?}"),
                rows_s + keys_s,
                (rows_s + keys_s) / each,
                (machine() - machine_before) / each,
                (own() - own_before) / each,
            );
        }
    }
    ExitCode::SUCCESS
}

/// Server that the rows go to.
struct Server {
    config: Config,
    /// Ours, for as long as it is kept.
    _private: Option<Private>,
}

impl Server {
    fn open(url: Option<&String>) -> Result<Server, Box<dyn std::error::Error>> {
        if let Some(url) = url {
            return Ok(Server { config: url.parse()?, _private: None });
        }
        let private = Private::start(&Settings::default())?;
        Ok(Server { config: private.url().as_str().parse()?, _private: Some(private) })
    }
}

/// All rows of so many warehouses, made and forgotten.
fn make(warehouses: u32) -> usize {
    let all = Population::new(1);
    let mut rows = all.items().map(std::hint::black_box).count();
    for warehouse in 1..=warehouses {
        rows += all.stock(warehouse).map(std::hint::black_box).count();
        rows += all.customers(warehouse).map(std::hint::black_box).count();
        rows += all.history(warehouse).map(std::hint::black_box).count();
        rows += all.orders(warehouse).map(std::hint::black_box).count();
        rows += all.order_lines(warehouse).map(std::hint::black_box).count();
    }
    rows
}

/// Seconds that the processors were busy since the machine started, all together.
fn machine() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("Linux says it");
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system; idle and waiting come after, then interrupts.
    (ticks.iter().take(3).sum::<f64>() + ticks.iter().skip(5).take(2).sum::<f64>()) / 100.0
}

/// Seconds that this process has used.
fn own() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux says it");
    let after = text.rsplit(')').next().unwrap_or_default();
    let words: Vec<f64> =
        after.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).collect();
    words.iter().skip(11).take(2).sum::<f64>() / 100.0
}
