//! `sekisho ask holds`: does it hold under more load, and what breaks first?

use std::io::Write;

use advise::Right;
use advise::questions::{self, Growth, Holds, Slo};
use clap::Args as ClapArgs;
use cli::{Failure, Verdict, waiting};

use super::answer::{
    Common, Text, error_of, limits, load_text, observed, sources, strip, verdict_of,
};
use super::bottleneck;

/// Ask whether it holds under more load, and what breaks first
///
/// Without an objective, it holds when no gate and no station is saturated (90 % busy on average) and
/// nobody is turned away.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho ask holds scenario.toml --load 1.2x --slo 'p99<200ms'
  sekisho ask holds studies/ohmae/software-bottleneck.toml --load 3x
      ends with 3: its tasks are saturated by that many clients")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// How many times the load
    #[arg(long, value_name = "FACTORx")]
    load: Growth,
    /// The class whose load grows; left out, all
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The objective; limits as for `capacity`
    #[arg(long, value_name = "LIMITS")]
    slo: Option<Slo>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let growth = Growth { class: args.class.clone(), ..args.load.clone() };
    let bar = waiting("simulating");
    let answer = questions::holds(&scenario, &growth, args.slo.as_ref(), &options);
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let mut why = vec![bottleneck::headline(&answer.bottleneck) + "."];
    why.extend(sources(
        &answer.assessment.formula_note,
        error_of(&answer.assessment),
        options.seed,
    ));
    let path = args.common.path();
    let verdict = verdict_of(answer.assessment.kept);
    let command = match (verdict, &args.slo) {
        (Verdict::Holds, Some(slo)) => format!("sekisho ask capacity {path} --slo '{slo}'"),
        (Verdict::Holds, None) => format!("sekisho ask bottleneck {path}"),
        (_, Some(slo)) => {
            format!("sekisho ask servers {path} --load {}x --slo '{slo}'", growth.factor)
        }
        (_, None) => format!("sekisho ask servers {path} --load {}x", growth.factor),
    };
    let text = Text {
        headline: headline(&answer, args.slo.as_ref()),
        approximation: answer.assessment.approximation(),
        numbers: numbers(&answer),
        why,
        next: command,
    };
    args.common.say(out, verdict, &answer, &text)
}

fn headline(answer: &Holds, slo: Option<&Slo>) -> String {
    let word = verdict_of(answer.assessment.kept).word();
    let at = load_text(&answer.growth, &answer.loads);
    let head = match (slo, answer.assessment.kept) {
        (Some(slo), _) => format!("{word}: {slo} at {at}"),
        // What fails is named, not what would have held.
        (None, Right::No) => match &answer.assessment.grows {
            Some(place) => return format!("{word} at {at}: at {place} jobs pile up without end"),
            None => format!("{word} at {at}: a gate or station is full, or turns jobs away"),
        },
        (None, _) => format!("{word}: no saturation and no refusal at {at}"),
    };
    match &answer.assessment.grows {
        Some(place) => format!("{head}; at {place} jobs pile up without end"),
        None => match answer.assessment.simulated.as_ref().and_then(|seen| seen.busiest()) {
            Some(busy) => {
                format!("{head}; busiest is `{}`, {:.0} %", busy.name, busy.share.mean * 100.0)
            }
            None => head,
        },
    }
}

fn numbers(answer: &Holds) -> String {
    let assessment = &answer.assessment;
    let mut text = observed(assessment);
    if !assessment.limits.is_empty() {
        text += &format!("\n{}", limits(&assessment.limits));
    }
    if let Some(seen) = &assessment.simulated {
        text += &format!("\n{}", strip(&seen.busy));
    }
    text
}
