//! `sekisho ask slots`: r against throughput, mean and p99.

use std::io::Write;

use advise::BestByFormula;
use advise::questions::{self, Slots, SlotsRow};
use clap::Args as ClapArgs;
use cli::text::{Table, percent_estimate, rate_estimate, time};
use cli::{Failure, Verdict, waiting};

use super::answer::{Common, Text, change_text, sources, time_or_dash};

/// Ask how many slots a gate should have
///
/// Numbers of slots are simulated under the same chance, and compared by pairs; what folklore says is
/// marked.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho ask slots scenario.toml --slots 1,2,4,8")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The gate; may be left out where there is one
    #[arg(long, value_name = "GATE")]
    gate: Option<String>,
    /// The numbers to compare; left out, powers of two and what folklore says
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    slots: Vec<u32>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let bar = waiting("simulating");
    let answer = questions::slots(&scenario, args.gate.as_deref(), &args.slots, &options);
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let mut why: Vec<String> = answer
        .folklore
        .iter()
        .map(|folklore| format!("{}: {}", folklore.rule, verdict_on(&answer, folklore.slots)))
        .collect();
    why.push(format!(
        "peak throughput: from {} slots on, none is surely lower than the highest.",
        answer.peak
    ));
    why.extend(answer.by_formula.as_ref().map(by_formula));
    why.extend(sources(&answer.formula_note, answer.formula_error, options.seed));
    why.push(
        "Changes are against the best, by pairs under the same chance; a star marks those that are real \
         with 95 % confidence over all of them together."
            .into(),
    );
    let better = [answer.best_p99, answer.best_mean].into_iter().find(|best| *best != answer.now);
    let command = match better {
        Some(best) => {
            let sweep = format!("gate.{}.slots={},{best}", answer.gate, answer.now);
            args.common.command("sim", &[("sweep", Some(&sweep))])
        }
        None => args.common.command("ask sensitivity", &[]),
    };
    let text = Text {
        headline: headline(&answer),
        approximation: answer.approximation(),
        numbers: numbers(&answer),
        why,
        next: command,
    };
    args.common.say(out, Verdict::Holds, &answer, &text)
}

fn list(slots: &[u32]) -> String {
    slots.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn headline(answer: &Slots) -> String {
    let others = |best: u32, good: Vec<u32>| {
        let others: Vec<u32> = good.into_iter().filter(|slots| *slots != best).collect();
        if others.is_empty() { String::new() } else { format!(" (as good: {})", list(&others)) }
    };
    let mean = others(answer.best_mean, answer.as_good(|row| row.mean_change));
    let p99 = others(answer.best_p99, answer.as_good(|row| row.p99_change));
    format!(
        "gate `{}`: {} slots are best for the mean{mean}, {} for p99{p99}; now it has {}",
        answer.gate, answer.best_mean, answer.best_p99, answer.now
    )
}

/// Cost of a number that folklore gives.
fn verdict_on(answer: &Slots, slots: u32) -> String {
    match answer.rows.iter().find(|row| row.slots == slots) {
        Some(SlotsRow { response: Some(_), mean_change, p99_change, .. }) => format!(
            "{slots} slots; mean {}, p99 {}",
            change_text(mean_change.as_ref()).trim_end(),
            change_text(p99_change.as_ref()).trim_end()
        ),
        Some(_) => format!("{slots} slots; jobs pile up without end"),
        None => format!("{slots} slots; not among those that were compared"),
    }
}

/// Answer of the formula, as a witness.
fn by_formula(best: &BestByFormula) -> String {
    let (slots, most) = (best.slots, best.most);
    let bound = if slots == most { ", and perhaps more" } else { "" };
    let peak = match best.peak {
        peak if peak == slots => String::new(),
        peak => format!(" (most is served at {peak})"),
    };
    format!(
        "by formula {slots} slots of 1 to {most} are best for the mean{bound}, at {}{peak}: {}.",
        time(best.response),
        best.trust.text
    )
}

fn numbers(answer: &Slots) -> String {
    let fails = answer.rows.iter().any(|row| row.failed.is_some_and(|share| share.mean > 0.0));
    let head = ["slots", "throughput", "formula R", "mean response", "p99", "mean", "p99"];
    let fail_head = fails.then_some("fail");
    let mut table = Table::new(&head.into_iter().chain(fail_head).collect::<Vec<_>>());
    for row in &answer.rows {
        let mut name = row.slots.to_string();
        if row.slots == answer.now {
            name += " now";
        }
        let failed =
            fails.then(|| row.failed.as_ref().map_or("-".into(), |of| percent_estimate(of, 1)));
        let cells = vec![
            name,
            row.throughput.as_ref().map_or("grows".into(), rate_estimate),
            row.formula.map_or("-".into(), time),
            time_or_dash(row.response.as_ref()),
            time_or_dash(row.p99.as_ref()),
            change_text(row.mean_change.as_ref()),
            change_text(row.p99_change.as_ref()),
        ];
        table.row(cells.into_iter().chain(failed).collect());
    }
    table.to_string()
}
