//! `sekisho solve`: a scenario answered by a formula, or the reason why none does.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use advise::{Bounds, Corrected, FormulaAnswer, NoFormula, Scenario};
use clap::Args as ClapArgs;
use serde_json::json;

use crate::scenario_file::read_scenario;
use crate::session::{progress, say};
use crate::text::{Table, bytes, label, next, paragraph, rate, time};
use crate::verdict::{Failure, Verdict};

/// Solve a scenario by formula
///
/// Says which formula fits, how exact it is, and what it leaves aside. Where none fits it says why,
/// and what throughput and response time cannot exceed all the same. An approximate answer can be
/// corrected by a short simulation (`--corrected`); it is then no longer independent of it.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho solve studies/fujita/lps-r4.toml
  sekisho solve studies/ohmae/software-bottleneck.toml --corrected")]
pub(crate) struct Args {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Correct an approximate answer by a short simulation
    #[arg(long)]
    corrected: bool,
    /// The seed of that simulation; left out, the scenario's, or 1
    #[arg(long, value_name = "N", requires = "corrected")]
    seed: Option<u64>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let scenario = read_scenario(&args.scenario)?;
    let path = args.scenario.display();
    let answer = advise::formula(&scenario).map_err(|none| {
        Failure::Usage(match none {
            NoFormula::Shape { reason, bounds } => {
                let rest = bounds.map_or(String::new(), |bounds| {
                    format!("\nwhatever the rest: {}", bounds_text(&bounds))
                });
                format!("{path}: no formula: {reason}; use `sekisho sim {path}`{rest}")
            }
            NoFormula::Scenario(_) | NoFormula::Solve(_) => format!("{path}: {none}"),
        })
    })?;
    let corrected = if args.corrected { Some(correct(args, &scenario)?) } else { None };
    if args.json {
        let text = json!({
            "verdict": Verdict::Holds.word(),
            "exit_code": Verdict::Holds.code(),
            "scenario": scenario,
            "answer": answer,
            "note": answer.note(),
            "corrected": corrected,
        });
        say(out, &format!("{text}\n"))?;
    } else {
        let mut text = text(&answer);
        let mut command = format!("sekisho sim {path}");
        match &corrected {
            Some(corrected) => text += &corrected_text(corrected),
            None if is_rough(&answer) => command = format!("sekisho solve {path} --corrected"),
            None => {}
        }
        say(out, &format!("{text}\n{}", next(&command)))?;
    }
    Ok(Verdict::Holds)
}

/// Whether a short simulation would say more.
fn is_rough(answer: &FormulaAnswer) -> bool {
    answer.name == "layered model" && answer.trust.error.is_some_and(|error| error > 0.02)
}

fn correct(args: &Args, scenario: &Scenario) -> Result<Corrected, Failure> {
    let seed = args.seed.or(scenario.seed).unwrap_or(1);
    let bar = progress(0, "simulating");
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let corrected = advise::corrected(scenario, &advise::short_simulation(seed));
    bar.finish_and_clear();
    corrected.map_err(|error| Failure::Usage(format!("{}: {error}", args.scenario.display())))
}

/// The corrected numbers, which are never shown as the formula's.
fn corrected_text(corrected: &Corrected) -> String {
    let mut table = Table::new(&["corrected by simulation", "mean", "formula off by"]);
    let value = corrected.value;
    let off = |formula: f64, mean: f64| format!("{:+.1} %", (formula / mean - 1.0) * 100.0);
    let formula = &corrected.formula;
    let (x, r) = (value.throughput.mean, value.response.mean);
    table.row(vec!["throughput".into(), rate(x), off(formula.throughput, x)]);
    table.row(vec!["response".into(), time(r), off(formula.response, r)]);
    let why = format!(
        "Corrected by a short simulation, to within {:.1} % at 95 % confidence. Such a number is no \
         witness beside that simulation.",
        corrected.error * 100.0
    );
    format!("\n{table}\n{}", paragraph(&why))
}

fn text(answer: &FormulaAnswer) -> String {
    let mut text = format!(
        "solved: {} at a mean response of {}\n\n",
        rate(answer.throughput),
        time(answer.response)
    );
    let mut table = Table::new(&["", "mean", "at least", "at most"]);
    let bound = |of: fn(&Bounds) -> Option<f64>, text: fn(f64) -> String| {
        answer.bounds.as_ref().and_then(of).map_or("-".into(), text)
    };
    table.row(vec![
        "throughput".into(),
        rate(answer.throughput),
        bound(|bounds| Some(bounds.throughput_min), rate),
        bound(|bounds| Some(bounds.throughput_max), rate),
    ]);
    table.row(vec![
        "response".into(),
        time(answer.response),
        bound(|bounds| Some(bounds.response_min), time),
        bound(|bounds| bounds.response_max, time),
    ]);
    if let Some(wait) = answer.wait {
        table.row(vec!["wait for a slot".into(), time(wait)]);
    }
    if answer.classes.len() > 1 {
        for class in &answer.classes {
            let name = label(&class.name);
            table.row(vec![format!("throughput: {name}"), rate(class.throughput)]);
            table.row(vec![format!("response: {name}"), time(class.response)]);
        }
    }
    for (name, busy) in &answer.utilisation {
        table.row(vec![format!("busy: {}", label(name)), format!("{:.1} %", busy * 100.0)]);
    }
    // Writing to a string does not fail.
    write!(text, "{table}\n{}", by_size(answer)).ok();
    text += &paragraph(&answer.note());
    if let Some(given) = answer.given_size.as_ref().filter(|given| given.trust != answer.trust) {
        text += &paragraph(&format!("By size: {}.", given.trust.text));
    }
    text
}

/// Response by document; without documents, for some sizes.
fn by_size(answer: &FormulaAnswer) -> String {
    let Some(given) = &answer.given_size else { return String::new() };
    let mut table = Table::new(&["size", "", "mean response"]);
    for document in &answer.documents {
        table.row(vec![label(&document.name), bytes(document.bytes), time(document.response)]);
    }
    if answer.documents.is_empty() {
        for size in [1_000, 10_000, 100_000, 1_000_000] {
            table.row(vec![String::new(), bytes(size), time(given.response(size as f64))]);
        }
    }
    format!("{table}\n")
}

fn bounds_text(bounds: &Bounds) -> String {
    let most = |at_most: Option<f64>| {
        at_most.map_or(String::new(), |at_most| format!(" and at most {}", time(at_most)))
    };
    format!(
        "throughput is at least {} and at most {}, the mean response at least {}{}",
        rate(bounds.throughput_min),
        rate(bounds.throughput_max),
        time(bounds.response_min),
        most(bounds.response_max)
    )
}
