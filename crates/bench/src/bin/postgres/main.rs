//! Cost of a transaction at the gate for PostgreSQL, against PgBouncer and a bare relay, in one
//! run, interleaved.
//!
//! ```text
//! cargo run --release -p bench --bin bench_postgres [WORDS OF A CASE]
//! ```
//!
//! The cases are those of [`CASES`], `workers` (two of them against one), `idle clients` (memory),
//! `crowd` (10,000 clients on 10 slots) and `overload` (150 % of what can be done, in two classes).
//!
//! All three stand before the same private PostgreSQL; pgbench presses them in turn with its
//! select-only script. Who is measured has a CPU of its own; server and pgbench share another. What is
//! compared is the CPU time of the process for a transaction, as the scheduler counts it \[ns\]: it
//! depends far less than the rate on what the others can do. The relay gives each client a connection
//! of its own and looks at no byte: less than what it costs cannot be had from such sockets.
//!
//! PgBouncer before release 1.21 has no prepared statements in transaction mode; there it is asked in
//! session mode, and the table says so. Ends with status 2 if PgBouncer, pgbench or taskset is missing
//! (`PGBOUNCER` and `PGBENCH` name them where they are not in PATH), or there is only one CPU.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod crowd;
mod overload;
mod relay;
mod sides;

use std::process::ExitCode;
use std::thread;

use bench::Spread;
use sides::{Kind, Mode, Server, Side};

const ROUNDS: usize = 5;
const SECONDS: u32 = 3;

/// A load of pgbench.
struct Case {
    name: &'static str,
    /// As pgbench calls the protocol.
    protocol: &'static str,
    clients: u32,
    /// Connections to the server, where clients share them.
    slots: u32,
    aim: &'static str,
}

const CASES: [Case; 5] = [
    Case { name: "simple, 8 clients", protocol: "simple", clients: 8, slots: 10, aim: "1.10" },
    Case { name: "simple, 64 on 10", protocol: "simple", clients: 64, slots: 10, aim: "1.0" },
    Case { name: "extended, 8 clients", protocol: "extended", clients: 8, slots: 10, aim: "-" },
    Case { name: "prepared, 8 clients", protocol: "prepared", clients: 8, slots: 10, aim: "0.9" },
    Case { name: "simple, 1 client", protocol: "simple", clients: 1, slots: 10, aim: "-" },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = words.split_first()
        && sides::run_as_child(first, rest)
    {
        return ExitCode::SUCCESS;
    }
    if let Err(missing) = sides::check_machine() {
        eprintln!("{missing}");
        return ExitCode::from(2);
    }
    let only = words.join(" ");
    let server = Server::start();
    println!("{}; {}; {}", server.version(), sides::pgbouncer_version(), sides::pgbench_version());
    compare(&server, &only);
    if "workers".contains(&only) {
        workers(&server);
    }
    if "idle clients".contains(&only) {
        idle(&server);
    }
    if "crowd".contains(&only) {
        crowded(&server);
    }
    if "overload".contains(&only) {
        overload::compare(&server);
    }
    ExitCode::SUCCESS
}

/// CPU time a transaction, and the latency that is added.
fn compare(server: &Server, only: &str) {
    let cases: Vec<&Case> = CASES.iter().filter(|case| case.name.contains(only)).collect();
    if cases.is_empty() {
        return;
    }
    println!(
        "\nCPU time of the process a transaction [us], median of {ROUNDS} runs of {SECONDS} s \
         (least..most)\n{:<20} {:>18} {:>18} {:>18} {:>18} {:>5}",
        "", "relay", "PgBouncer", "gate", "gate/PgBouncer", "aim"
    );
    let (mut latencies, mut sends) = (Vec::new(), Vec::new());
    for case in cases {
        let mode = match case.protocol {
            "prepared" if !sides::pgbouncer_prepares() => Mode::Session,
            _ => Mode::Transaction,
        };
        let asked = [
            (Kind::Relay, Mode::Session),
            (Kind::PgBouncer, mode),
            (Kind::Gate, Mode::Transaction),
        ];
        let sides = asked.map(|(kind, mode)| Side::start(kind, mode, server, case.slots));
        let mut seen = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (side, seen) in sides.iter().zip(&mut seen) {
                seen.push(side.press(server, case.protocol, case.clients, SECONDS));
            }
        }
        let cost = |at: usize| Spread::of(seen[at].iter().map(|run| run.cpu_us));
        let ratio =
            Spread::of(seen[2].iter().zip(&seen[1]).map(|(ours, peer)| ours.cpu_us / peer.cpu_us));
        println!(
            "{:<20} {:>18} {:>18} {:>18} {:>18} {:>5}",
            case.name,
            cost(0).show(1),
            cost(1).show(1),
            cost(2).show(1),
            ratio.show(2),
            case.aim
        );
        if mode == Mode::Session {
            println!("{:<20} PgBouncer in session mode: it is too old for prepared statements", "");
        }
        let mean = |at: usize| Spread::of(seen[at].iter().map(|run| run.latency_us));
        latencies.push((case.name, [mean(0), mean(1), mean(2)]));
        let count = |side: &Side| side.sends(server, case.protocol, case.clients);
        sends.push((case.name, [count(&sides[1]), count(&sides[2])]));
    }
    println!("\nmean latency as pgbench saw it [us]");
    for (name, means) in latencies {
        let [relay, peer, gate] = means.map(|mean| mean.show(0));
        println!("{name:<20} {relay:>18} {peer:>18} {gate:>18}");
    }
    println!("\nsends a transaction, as strace counts them; PgBouncer, gate");
    for (name, counts) in sends {
        let [peer, gate] = counts.each_ref().map(|count| match count {
            Ok(count) => format!("{count:.2}"),
            Err(_) => "not counted".to_owned(),
        });
        println!("{name:<20} {:>18} {peer:>18} {gate:>18}", "");
        counts.iter().filter_map(|count| count.as_ref().err()).for_each(|why| println!("  {why}"));
    }
}

/// Cost of a transaction with two workers, against one. Both sides may run on all CPUs, and so
/// beside server and load: two workers are for machines where one is busy all the time.
fn workers(server: &Server) {
    println!(
        "\nCPU time of the gate a transaction [us], by workers, on the CPUs of server and load\n\
         {:<20} {:>18} {:>18} {:>18} {:>5}",
        "", "1 worker", "2 workers", "2 workers/1", "aim"
    );
    for case in CASES.iter().filter(|case| case.clients > 1) {
        let sides = [1, 2].map(|workers| Side::of_workers(server, case.slots, workers));
        let mut seen = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (side, seen) in sides.iter().zip(&mut seen) {
                seen.push(side.press(server, case.protocol, case.clients, SECONDS));
            }
        }
        let cost = |at: usize| Spread::of(seen[at].iter().map(|run| run.cpu_us)).show(1);
        let pairs = seen[1].iter().zip(&seen[0]);
        let ratio = Spread::of(pairs.map(|(two, one)| two.cpu_us / one.cpu_us)).show(2);
        println!("{:<20} {:>18} {:>18} {ratio:>18} {:>5}", case.name, cost(0), cost(1), "1.2");
    }
}

/// Clients that have logged in and say nothing.
fn idle(server: &Server) {
    const CLIENTS: usize = 5000;
    println!(
        "\nmemory of the process for each of {CLIENTS} idle clients [B], without the kernel's"
    );
    for kind in [Kind::PgBouncer, Kind::Gate] {
        let side = Side::start(kind, Mode::Transaction, server, 10);
        let mut held = crowd::enter(&side, server, 100);
        let before = side.memory();
        held.extend(crowd::enter(&side, server, CLIENTS));
        let fresh = side.memory() - before;
        crowd::ask_once(&mut held);
        thread::sleep(std::time::Duration::from_millis(200));
        let used = side.memory() - before;
        println!(
            "{:<20} {:>8.0} after login, {:>8.0} after a query",
            kind.name(),
            fresh / CLIENTS as f64,
            used / CLIENTS as f64
        );
    }
}

/// Many clients on few slots, as fast as they get answers.
fn crowded(server: &Server) {
    const CLIENTS: usize = 10_000;
    const SLOTS: u32 = 10;
    println!(
        "\n{CLIENTS} clients on {SLOTS} slots, each asks again as soon as it has its answer\n{:<20} \
         {:>12} {:>10} {:>10} {:>9} {:>9}",
        "", "answers/s", "p50 [ms]", "p99 [ms]", "p99/p50", "Jain"
    );
    for kind in [Kind::PgBouncer, Kind::Gate] {
        let side = Side::start(kind, Mode::Transaction, server, SLOTS);
        let seen = crowd::press(crowd::enter(&side, server, CLIENTS), 20.0);
        println!(
            "{:<20} {:>12.0} {:>10.0} {:>10.0} {:>9.2} {:>9.4}",
            kind.name(),
            seen.rate,
            seen.p50_s * 1e3,
            seen.p99_s * 1e3,
            seen.p99_s / seen.p50_s,
            seen.jain
        );
    }
}
