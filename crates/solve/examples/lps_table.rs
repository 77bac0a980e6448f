//! Prints how far limited processor sharing as a chain is from every simulated reference, and how
//! long a solution takes.
//!
//! ```text
//! cargo run --release -p solve --example lps_table
//! ```
//!
//! Per cent off, with the half-width of the reference's 95 % interval: of the mean response, and of
//! the response of jobs as large as 1, 10, 50, 90, 99, 99.7 and 99.9 % of all.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use solve::{Demand, Lps, Mg1Lps, SolveError};

fn main() -> Result<(), SolveError> {
    let text = include_str!("../tests/lps_references.csv");
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let number = |cell: &str| cell.parse::<f64>().expect("the table holds numbers");
    for case in rows.chunk_by(|a, b| a[..4] == b[..4]) {
        let (scv, rho) = (number(case[0][1]), number(case[0][2]));
        let slots = number(case[0][3]) as u32;
        let demand = match case[0][0] {
            "lognormal" => Demand::lognormal(1.0, scv)?,
            "constant" => Demand::constant(1.0)?,
            _ => Demand::balanced(1.0, scv)?,
        };
        let began = Instant::now();
        let answer = Lps::new(rho, demand.clone(), slots)?.solve()?;
        let seconds = began.elapsed().as_secs_f64();
        let formula = Mg1Lps::new(rho, demand.moments()?, Some(slots))?;
        print!("{:<5.5} scv {scv:>2} rho {rho} r {slots:>2} {seconds:>5.2} s", case[0][0]);
        for row in &case[1..] {
            let got = match row[5] {
                "mean" => answer.response,
                _ => answer.response_given(number(row[6]))?,
            };
            let want = number(row[7]);
            let (off, noise) = (100.0 * (got / want - 1.0), 100.0 * number(row[8]) / want);
            print!(" {off:+.1}±{noise:.1}");
        }
        let off = |got: f64, row: &[&str]| 100.0 * (got / number(row[7]) - 1.0);
        let given = |row: &[&str]| formula.response_given(number(row[6]));
        println!(
            "  formula {:+.0} {:+.0} {:+.0}",
            off(formula.response(), &case[1]),
            off(given(&case[2])?, &case[2]),
            off(given(&case[8])?, &case[8])
        );
    }
    Ok(())
}
