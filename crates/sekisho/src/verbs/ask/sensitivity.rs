//! `sekisho ask sensitivity`: which parameters matter.

use std::io::Write;

use advise::Approximation;
use advise::questions::{self, Elasticity, Sensitivity};
use clap::Args as ClapArgs;
use cli::text::Table;
use cli::{Failure, Verdict, waiting};

use super::answer::{Common, Text};

/// Ask which parameters matter, and how much
///
/// Every number of the scenario is varied by 5 % to each side (a whole one by a tenth, or by one), under
/// the same chance. 1.5 means: 1 % more of the parameter, 1.5 % more response.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho ask sensitivity scenario.toml")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let bar = waiting("simulating");
    let answer = questions::sensitivity(&scenario, &options, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let mut why = vec![format!(
        "Elasticities: percent more for each percent more of the parameter, between the two values, by \
         pairs under the same chance (10 replications, seed {}). The intervals of the {} parameters hold \
         together at 95 %, column by column (Bonferroni). No formula is asked.",
        options.seed, answer.claims
    )];
    for (path, cause) in &answer.left_out {
        why.push(format!("left out: {path}: {cause}"));
    }
    let first = &answer.rows[0];
    let [low, high] = first.between;
    let (low, high) = (written(&scenario, first, low), written(&scenario, first, high));
    let sweep = format!("{}={low},{high}", first.path);
    let command = args.common.command("sim", &[("sweep", Some(&sweep))]);
    let text = Text {
        headline: headline(&answer),
        approximation: Approximation::NONE,
        numbers: numbers(&answer),
        why,
        next: command,
    };
    args.common.say(out, Verdict::Holds, &answer, &text)
}

/// A value as a file has it.
fn written(scenario: &advise::Scenario, row: &Elasticity, value: f64) -> String {
    let parameters = scenario.numeric_parameters();
    let parameter = parameters.iter().find(|parameter| parameter.path == row.path);
    parameter.map_or_else(|| value.to_string(), |parameter| parameter.written(value))
}

fn headline(answer: &Sensitivity) -> String {
    let first = &answer.rows[0];
    let [elasticity, ..] = first.response.unwrap_or_default();
    let effect = format!("1 % more of it changes the mean response by {elasticity:+.2} %");
    let path = &first.path;
    if !first.is_told() {
        return format!("none can be told from chance; {path} seems to matter most: {effect}");
    }
    match answer.rivals() {
        0 => format!("{path} matters most: {effect}"),
        1 => format!("{path} matters most or second: {effect}; another one may matter more"),
        more => format!("{path} is among the first {}: {effect}", more + 1),
    }
}

fn numbers(answer: &Sensitivity) -> String {
    let mut table = Table::new(&["parameter", "mean response", "p99", "throughput"]);
    let text = |of: Option<[f64; 3]>| match of {
        Some([estimate, low, high]) => format!("{estimate:+.2} ({low:+.2} to {high:+.2})"),
        None => "-".into(),
    };
    for row in &answer.rows {
        let cells = [row.response, row.p99, row.throughput].map(text);
        table.row([row.path.clone()].into_iter().chain(cells).collect());
    }
    table.to_string()
}
