//! `sekisho ask capacity`: the largest load that keeps an objective.

use std::io::Write;

use advise::questions::{self, Capacity, CapacityPoint, Growth, Slo};
use clap::Args as ClapArgs;
use cli::text::Table;
use cli::{Failure, Verdict, waiting};

use super::answer::{Common, Text, limits, load_text, observed, sources, verdict_of};

/// Ask for the largest load that keeps an objective
///
/// The answer is a bracket: at its lower end the objective is surely kept, at its upper end it is surely
/// broken, both by simulation; the formula says where to begin. Limits are on mean, p50, p90, p95, p99, p99.9,
/// throughput, refused (by gates) and failed (refused, lost at full stations, or left by their clients), of all requests
/// or of one class: 'p99(web)<200ms and failed<1%'.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho ask capacity scenario.toml --slo 'p99<200ms'
  sekisho ask capacity scenario.toml --slo 'mean<50ms and refused<1%'")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The objective
    #[arg(long, value_name = "LIMITS")]
    slo: Slo,
    /// The class whose load grows; left out, all
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let bar = waiting("simulating");
    let answer =
        questions::capacity(&scenario, args.class.as_deref(), &args.slo, &options, |point| {
            bar.set_message(format!("tried {}", at(point)));
        });
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let mut why = Vec::new();
    if let Some(factor) = answer.formula {
        let growth = Growth { factor, class: args.class.clone() };
        let loads = growth.loads(&scenario).map_err(args.common.failed())?;
        let most = load_text(&growth, &loads);
        why.push(format!("By formula, {} holds up to {most}.", args.slo));
    }
    why.extend(sources(&answer.formula_note, answer.formula_error, options.seed));
    why.push(format!(
        "{} loads were tried. Each end is sure to 97.5 %, so that the bracket is to 95 %.",
        answer.tried.len()
    ));
    let (class, slo) = (args.class.as_deref(), args.slo.to_string());
    let command = match &answer.holds_at {
        Some(_) => args.common.command("ask bottleneck", &[("class", class)]),
        None if !questions::can_vary_servers(&scenario, None) => {
            args.common.command("ask sensitivity", &[])
        }
        None => args
            .common
            .command("ask servers", &[("load", Some("1x")), ("slo", Some(&slo)), ("class", class)]),
    };
    let text = Text {
        headline: headline(&answer, &args.slo),
        approximation: answer.approximation(),
        numbers: numbers(&answer),
        why,
        next: command,
    };
    args.common.say(out, verdict_of(answer.kept), &answer, &text)
}

fn at(point: &CapacityPoint) -> String {
    load_text(&point.growth, &point.loads)
}

fn headline(answer: &Capacity, slo: &Slo) -> String {
    let word = verdict_of(answer.kept).word();
    match (&answer.holds_at, &answer.fails_at) {
        (Some(low), Some(high)) => {
            format!("{word}: {slo} at {}, and no more at {}", at(low), at(high))
        }
        (Some(low), None) => {
            format!("{word}: {slo} at {}, and it fails at no load that was tried", at(low))
        }
        (None, Some(high)) => {
            format!("{word}: {slo} at no load that was tried, down to {}", at(high))
        }
        (None, None) => format!("{word}: no load that was tried tells whether {slo}"),
    }
}

fn numbers(answer: &Capacity) -> String {
    let mut text = String::new();
    let ends = [("holds at", &answer.holds_at), ("fails at", &answer.fails_at)];
    for (what, point) in ends {
        let Some(point) = point else { continue };
        text += &format!("  {what} {}\n", at(point));
        text += &match &point.assessment.grows {
            Some(place) => format!("    {place}: its queue grows without end\n"),
            None => limits(&point.assessment.limits),
        };
        text += &observed(&point.assessment);
        text.push('\n');
    }
    let mut table = Table::new(&["tried", "kept"]);
    let mut tried: Vec<&CapacityPoint> = answer.tried.iter().collect();
    tried.sort_by(|a, b| a.growth.factor.total_cmp(&b.growth.factor));
    for point in tried {
        table.row(vec![at(point), verdict_of(point.assessment.kept).word().into()]);
    }
    text + &table.to_string()
}
