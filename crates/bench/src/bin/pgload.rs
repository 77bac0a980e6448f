//! Cost of the load engine for own SQL beside pgbench: CPU time of the client a transaction, for the
//! same script of one SELECT by key, prepared, on the same private PostgreSQL, in turns.
//!
//! ```text
//! cargo run --release -p bench --bin bench_pgload [-- SECONDS [REPETITIONS]]
//! ```
//!
//! CPU time of the engine is that of its one thread; of pgbench that of the process, which has one
//! thread and a start of some milliseconds. Both speak over TCP on loopback, without encryption.
#![allow(unsafe_code, clippy::print_stdout, clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bench::Spread;
use load::http::{Load, Naming};
use measure::Until;
use pgload::script::{Protocol, Scripts, Source};
use pgload::{Plan, PlanSpec, execute, record};
use postgres::{Private, Settings};
use tpcc::Config;
use workload::Dist;

const TABLE: &str = "create table item (id int primary key, price int);\n\
    insert into item select i, i % 100 from generate_series(1, 100000) i;\nanalyze item;";
const SCRIPT: &str = "\\set id random(1, 100000)\nselect price from item where id = :id;\n";

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap());
    let (seconds, repetitions) = (words.next().unwrap_or(5), words.next().unwrap_or(6));
    let parameters = vec![("fsync".to_owned(), "off".to_owned())];
    let server = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
    let program = server.programs().folder().join("pgbench");
    assert!(program.exists(), "{} is missing: apt-get install postgresql", program.display());
    let url = format!("{}?sslmode=disable", server.url().as_str());
    let config: Config = server.url().as_str().parse().unwrap();
    let source = |text: &str| Source { name: "select.sql".into(), text: text.into(), weight: 1 };
    execute(&config, &source(TABLE), &AtomicBool::new(false)).unwrap();
    let file = std::env::temp_dir().join(format!("sekisho-select-{}.sql", std::process::id()));
    std::fs::write(&file, SCRIPT).unwrap();
    println!(
        "PostgreSQL {}; {seconds} s, {repetitions} times in turns",
        server.programs().version()
    );
    println!("clients  us of CPU a transaction: ours; pgbench         ratio");
    println!("         transactions a second: ours; pgbench           ratio");
    for clients in [1_u32, 8] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let scripts = Scripts::read(&[source(SCRIPT)], &[], Protocol::Prepared).unwrap();
            let load = Load::Closed { clients, think: Dist::Constant(0.0) };
            let until = Until::Seconds(seconds as f64);
            let spec = PlanSpec::new(config.clone(), "a bench".into(), scripts, load, until);
            ours.push(engine(spec));
            let mut command = Command::new(&program);
            command.args(["-n", "-M", "prepared", "-c", &clients.to_string(), "-j", "1", "-f"]);
            command.arg(&file).args(["-T", &seconds.to_string()]).arg(&url);
            theirs.push(pgbench(command));
        }
        let show = |of: fn(&(f64, f64)) -> f64, digits| {
            let ratio = ours.iter().zip(&theirs).map(|(ours, theirs)| of(ours) / of(theirs));
            let ratio = Spread::of(ratio);
            let [ours, theirs] = [&ours, &theirs].map(|all| Spread::of(all.iter().map(of)));
            format!("{}; {}    {}", ours.show(digits), theirs.show(digits), ratio.show(2))
        };
        println!("{clients:>7}  {}", show(|one| one.0, 2));
        println!("         {}", show(|one| one.1, 0));
    }
    std::fs::remove_file(&file).unwrap();
    server.stop().unwrap();
}

/// CPU time a transaction [us], and transactions a second.
fn engine(spec: PlanSpec) -> (f64, f64) {
    let (id, started, tool) = (String::new(), String::new(), String::new());
    let naming = Naming { id, started, tool, command: Vec::new() };
    let record =
        record(&Plan::new(spec).unwrap(), naming, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let (mut completed, mut cpu_s, mut length_s) = (0, 0.0, 0.0);
    for interval in &record.intervals {
        completed += interval.classes[0].completed;
        cpu_s += interval.generator.thread_cpu_s.iter().sum::<f64>();
        length_s += interval.length_s;
    }
    (cpu_s * 1e6 / completed as f64, completed as f64 / length_s)
}

/// The same of a pgbench.
fn pgbench(mut command: Command) -> (f64, f64) {
    let (before, began) = (children(), Instant::now());
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success() && began.elapsed() > Duration::ZERO);
    let cpu = children().saturating_sub(before);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |label: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(label)).unwrap();
        line.split([' ', '/']).next().unwrap().parse().unwrap()
    };
    let completed = of("number of transactions actually processed: ");
    (cpu.as_secs_f64() * 1e6 / completed, of("tps = "))
}

/// CPU time of all children that have ended.
fn children() -> Duration {
    // SAFETY: all-zero is a valid `rusage`, and it lives through the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}
