//! `sekisho ask policy`: routers, disciplines and forms of queue, compared.

use std::io::Write;

use advise::Approximation;
use advise::questions::{self, Policies, PolicyRow};
use clap::Args as ClapArgs;
use cli::text::{Table, label, percent_estimate, time};
use cli::{Failure, Verdict, waiting};

use super::answer::{Common, Text, change_text, time_or_dash};

/// Ask which router and which discipline
///
/// Every policy that a scenario can name is put in the place of what the scenario has, one at a time,
/// and simulated under the same chance.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho ask policy studies/ohmae/software-bottleneck.toml --gate servers")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The gate; left out, each in turn
    #[arg(long, value_name = "GATE")]
    gate: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let bar = waiting("simulating");
    let answer = questions::policy(&scenario, args.gate.as_deref(), &options);
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let mut why = vec![format!(
        "Changes are against the scenario as it is, by pairs under the same chance (10 replications, \
         seed {}); a star marks those that are real with 95 % confidence over all of them together. No \
         formula knows policies.",
        options.seed
    )];
    let with_parameters = answer.rows.iter().map(|row| row.policy.as_str());
    let with_parameters: Vec<&str> =
        with_parameters.filter(|policy| policy.contains('(')).collect();
    if !with_parameters.is_empty() {
        why.push(format!(
            "Policies with parameters have usual ones: {}.",
            with_parameters.join(", ")
        ));
    }
    for (what, cause) in &answer.impossible {
        why.push(format!("left out: {what}: {cause}"));
    }
    let best = best(&answer);
    // A sweep takes names; what has parameters goes into the file.
    let plain = |row: &&PolicyRow| !row.policy.contains(' ');
    let command = match best.filter(plain).and_then(|row| Some((row.path.as_ref()?, row))) {
        Some((path, row)) => {
            let sweep = format!("{path}={}", row.policy);
            args.common.command("sim", &[("sweep", Some(&sweep))])
        }
        None => args.common.command("ask sensitivity", &[]),
    };
    let text = Text {
        headline: headline(best),
        approximation: Approximation::NONE,
        numbers: numbers(&answer),
        why,
        next: command,
    };
    args.common.say(out, Verdict::Holds, &answer, &text)
}

/// The change that surely lowers the mean response most, of those with which no more fail.
fn best(answer: &Policies) -> Option<&PolicyRow> {
    let better = |row: &&PolicyRow| {
        !row.fails_more && row.mean_change.is_some_and(|change| change.high < 1.0)
    };
    let response = |row: &PolicyRow| row.response.map_or(f64::INFINITY, |value| value.mean);
    let better = answer.rows.iter().skip(1).filter(better);
    better.min_by(|a, b| response(a).total_cmp(&response(b)))
}

fn headline(best: Option<&PolicyRow>) -> String {
    match best {
        Some(row) => format!(
            "best for the mean: {} = {}, {} at {}",
            row.path.as_deref().unwrap_or_default(),
            row.setting.as_deref().unwrap_or(&row.policy).trim_matches('"'),
            change_text(row.mean_change.as_ref()).trim_end_matches(['*', ' ']),
            row.response.as_ref().map_or("-".into(), |value| time(value.mean))
        ),
        None => "no other policy is surely better for the mean than what there is".into(),
    }
}

fn numbers(answer: &Policies) -> String {
    let several = answer.rows.iter().any(|row| !row.classes.is_empty());
    let gates = answer.rows.iter().filter_map(|row| Some(row.path.as_ref()?.rsplit_once('.')?.0));
    let one_gate = gates.collect::<std::collections::BTreeSet<_>>().len() == 1;
    let fails = answer.rows.iter().any(|row| row.failed.is_some_and(|share| share.mean > 0.0));
    let head = ["policy", "mean response", "p99", "mean", "p99"].into_iter();
    let mut table = Table::new(&head.chain(fails.then_some("fail")).collect::<Vec<_>>());
    let mut by_class: Option<Table> = None;
    for row in &answer.rows {
        let name = match &row.path {
            // What all paths have in common is left out, and so are parameters.
            Some(path) => {
                let policy = row.policy.split(" (").next().unwrap_or_default();
                let (place, key) = path.rsplit_once('.').unwrap_or(("", path));
                let gate = place.trim_start_matches("gate.");
                if one_gate { format!("{key} {policy}") } else { format!("{gate} {key} {policy}") }
            }
            None => row.policy.clone(),
        };
        let numbers = match row.response {
            Some(_) => time_or_dash(row.response.as_ref()),
            None => "grows".into(),
        };
        let failed =
            fails.then(|| row.failed.as_ref().map_or("-".into(), |of| percent_estimate(of, 1)));
        let cells = vec![
            name.clone(),
            numbers,
            time_or_dash(row.p99.as_ref()),
            change_text(row.mean_change.as_ref()),
            change_text(row.p99_change.as_ref()),
        ];
        table.row(cells.into_iter().chain(failed).collect());
        if several {
            let table = by_class.get_or_insert_with(|| {
                let names: Vec<String> = row.classes.iter().map(|(name, _)| label(name)).collect();
                let head = ["mean of class"].into_iter().chain(names.iter().map(String::as_str));
                Table::new(&head.collect::<Vec<_>>())
            });
            let changes = row.classes.iter().map(|(_, change)| change_text(change.as_ref()));
            table.row([name].into_iter().chain(changes).collect());
        }
    }
    match by_class {
        Some(classes) => format!("{table}\n{classes}"),
        None => table.to_string(),
    }
}
