//! Prints how far the formulas are from the references, case by case: what the errors that they state
//! are taken from.
//!
//! ```text
//! cargo run --release -p advise --example formula_errors
//! ```
//!
//! Another table is named by its file.

#![allow(clippy::print_stdout)]
#![allow(dead_code, reason = "the cases are shared with what makes the references")]

#[path = "../tests/grid/cases.rs"]
mod cases;
#[path = "../tests/grid/table.rs"]
mod table;

use advise::{Scenario, formula};
use table::references;

fn main() {
    let file = std::env::args().nth(1);
    let file = file.unwrap_or_else(|| "crates/advise/tests/grid/references.csv".into());
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    println!("family,seed,share,stated,throughput,response,half,formula");
    for of in references(&text) {
        let scenario: Scenario = toml::from_str(&of.text).expect("the grid has scenarios");
        let off = |formula: f64, (mean, _): (f64, f64)| 100.0 * (formula / mean - 1.0);
        let told = match formula(&scenario) {
            Ok(answer) => format!(
                "{},{:+.2},{:+.2},{:.2},{}",
                answer.trust.error.map_or("exact".into(), |error| format!("{error}")),
                off(answer.throughput, of.throughput),
                off(answer.response, of.response),
                100.0 * of.response.1 / of.response.0,
                answer.name
            ),
            Err(none) => {
                let none: String = none.to_string().chars().take(90).collect();
                format!("refused,,,,{}", none.replace(',', ";"))
            }
        };
        println!("{},{},{told}", of.case.key(), of.case.share);
    }
}
