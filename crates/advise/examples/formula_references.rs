//! Makes the references that the errors stated by formulas are measured against, by simulation.
//!
//! ```text
//! cargo run --release -p advise --example formula_references > crates/advise/tests/grid/references.csv
//! ```
//!
//! Each case is simulated in 10 replications until its mean response is known to 0.3 %, or a budget
//! of requests is used up: 12 million from a load of 0.9 on, else 4 million, so that what is left
//! of the start is a small part. Of the families from `sharing-many` on that is 1 % and one
//! million: they are there for errors of 10 % and more, and all of them take 15 minutes of one core
//! at the most. A reference at a load of up to 95 % whose interval is still wider than 2 % is made again with sixteen times
//! that budget, in two hours of one core for all of them: looser ones confirm no stated error. The interval, of 95 %, is
//! part of the table. An open load is a share of what the
//! gate's slots serve when all are always held, which is simulated first where it has no formula.
//! With a word, only the families that begin with it are made; the table differs by nothing else. With the name of a
//! table besides, the rows of it that are known well enough are taken over and not made again.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/grid/cases.rs"]
mod cases;

use advise::Scenario;
use cases::Case;
use sim::{Options, Outcome};

/// Case number i of the k-th family, both from 0, is simulated with this seed plus 48 k + i.
const SEED: u64 = 13_000;

fn simulate(text: &str, seed: u64, precision: f64, completions_max: u64) -> Outcome {
    let scenario: Scenario = toml::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let network = scenario.network().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let threads = Some(1);
    let options = Options { seed, precision, completions_max, threads, ..Options::default() };
    sim::run(&network, &options).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A reference that is known less well than this confirms no stated error.
const KNOWN: f64 = 0.02;

/// Factor of the budget where a reference is not known so well.
const AGAIN: u64 = 16;

/// The row of a table, if it has one that need not be made again.
fn known<'a>(table: &'a str, case: &Case) -> Option<&'a str> {
    let of = format!("{},", case.key());
    let row = table.lines().find(|row| row.starts_with(&of))?;
    let number = |at: usize| row.split(',').nth(at).and_then(|word| word.parse::<f64>().ok());
    let is_known =
        |at: usize| number(at).zip(number(at + 1)).is_some_and(|(x, half)| half <= KNOWN * x);
    ((is_known(5) && is_known(7)) || is_beyond(case)).then_some(row)
}

/// Open load so near to what can be served that simulations tell little.
fn is_beyond(case: &Case) -> bool {
    case.is_open() && case.share > 0.95
}

fn main() {
    let mut words = std::env::args().skip(1);
    let only = words.next().unwrap_or_default();
    let made = words.next().map(|file| std::fs::read_to_string(file).expect("a table"));
    println!("family,seed,share,rate_per_s,sim_seed,throughput_per_s,half,response_s,half");
    for case in Case::all() {
        if !case.family.starts_with(&only) {
            continue;
        }
        match made.as_deref().and_then(|table| known(table, &case)) {
            Some(row) => println!("{row}"),
            None => println!("{}", row(&case)),
        }
    }
}

/// Simulates a case.
fn row(case: &Case) -> String {
    let seed = SEED + 48 * case.kind() as u64 + u64::from(case.seed);
    let (text, share, rate) = if case.is_open() || case.is_many() {
        let most = case.most.unwrap_or_else(|| {
            simulate(&case.saturated(), seed, 0.001, 2_000_000).classes[0].throughput.mean
        });
        let rate = case.share * most;
        // Four digits are enough of it, and it is read again as it is written.
        let rate = format!("{rate:.2}").parse::<f64>().expect("it was written so");
        let text = if case.is_open() { case.open(rate) } else { case.many(rate) };
        (text, case.share.to_string(), rate.to_string())
    } else {
        (case.closed(), String::new(), String::new())
    };
    let heavy = case.is_open() && case.share > 0.9;
    let (precision, most) = match (case.is_rough(), heavy) {
        (true, _) => (0.01, 1_000_000),
        (_, true) => (0.003, 12_000_000),
        _ => (0.003, 4_000_000),
    };
    let mut found = simulate(&text, seed, precision, most);
    let known = |found: &Outcome| {
        let class = &found.classes[0];
        let response = class.response.as_ref().expect("much was completed");
        [&class.throughput, response].iter().all(|of| of.half_width <= KNOWN * of.mean)
    };
    if !is_beyond(case) && !known(&found) {
        found = simulate(&text, seed, precision, AGAIN * most);
    }
    let class = &found.classes[0];
    let response = class.response.expect("much was completed");
    format!(
        "{},{share},{rate},{seed},{:.6},{:.6},{:.9},{:.9}",
        case.key(),
        class.throughput.mean,
        class.throughput.half_width,
        response.mean,
        response.half_width
    )
}
