//! `sekisho ask holds`: does it hold under more load, and what breaks first?

use std::io::Write;

use advise::questions::{self, Growth, Holds, SATURATED, Slo};
use clap::Args as ClapArgs;
use cli::{Failure, Verdict, waiting};

use super::answer::{
    Common, Text, error_of, failing, limits, load_text, observed, sources, strip, verdict_of,
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
    let verdict = verdict_of(answer.assessment.kept);
    let slo = args.slo.as_ref().map(Slo::to_string);
    let (slo, class) = (("slo", slo.as_deref()), ("class", args.class.as_deref()));
    let command = match verdict {
        Verdict::Holds if args.slo.is_some() => args.common.command("ask capacity", &[slo, class]),
        Verdict::Holds => args.common.command("ask bottleneck", &[class]),
        _ if !questions::can_vary_servers(&scenario, None) => {
            args.common.command("ask sensitivity", &[])
        }
        _ => {
            let load = format!("{}x", growth.factor);
            args.common.command("ask servers", &[("load", Some(&load)), slo, class])
        }
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

/// Verdict, load, and what decides: where it fails, what fails.
fn headline(answer: &Holds, slo: Option<&Slo>) -> String {
    let assessment = &answer.assessment;
    let verdict = verdict_of(assessment.kept);
    let word = verdict.word();
    let at = load_text(&answer.growth, &answer.loads);
    let head = slo.map_or(format!("{word} at {at}: "), |slo| format!("{word}: {slo} at {at}; "));
    if let Some(place) = &assessment.grows {
        return format!("{head}at {place} jobs pile up without end");
    }
    let Some(seen) = &assessment.simulated else { return head };
    let busiest = seen.busiest();
    let busy = busiest.map(|busy| (&*busy.name, busy.share.mean));
    let Some((name, share)) = busy else { return head };
    let percent = format!("{:.0} %", share * 100.0);
    let lost = failing(seen);
    let busy = match (slo, verdict) {
        (None, Verdict::Fails) if share >= SATURATED => {
            Some(format!("`{name}` is saturated, {percent} busy"))
        }
        (None, Verdict::Fails) => None,
        (None, Verdict::Holds) => {
            Some(format!("nothing is saturated; busiest is `{name}`, {percent}"))
        }
        _ => Some(format!("busiest is `{name}`, {percent}")),
    };
    head + &busy.into_iter().chain(lost).collect::<Vec<_>>().join("; ")
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
