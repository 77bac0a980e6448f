//! `sekisho ask servers`: how many are needed for more load.

use std::io::Write;

use advise::questions::{self, Growth, Servers, Slo};
use clap::Args as ClapArgs;
use cli::text::Table;
use cli::{Failure, Verdict, waiting};

use super::answer::{
    Common, Text, error_of, failing, limits, load_text, observed, share, sources, verdict_of,
};

/// Ask how many servers are needed for more load
///
/// Without an objective, as many as keep every gate and station from being saturated (90 % busy on
/// average).
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho ask servers studies/ohmae/scan-stations.toml --load 3x --slo 'mean<7s'")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// How many times the load
    #[arg(long, value_name = "FACTORx")]
    load: Growth,
    /// The class whose load grows; left out, all
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The station or gate that gets them; left out, the station with the most work
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
    /// The objective; limits as for `capacity`
    #[arg(long, value_name = "LIMITS")]
    slo: Option<Slo>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (scenario, options) = args.common.read()?;
    let growth = Growth { class: args.class.clone(), ..args.load.clone() };
    let bar = waiting("simulating");
    let answer =
        questions::servers(&scenario, args.of.as_deref(), &growth, args.slo.as_ref(), &options);
    bar.finish_and_clear();
    let answer = answer.map_err(args.common.failed())?;
    let shown = answer.holds_with.as_ref().or(answer.tried.last());
    let mut why = Vec::new();
    if let Some(point) = shown {
        why.extend(sources(
            &point.assessment.formula_note,
            error_of(&point.assessment),
            options.seed,
        ));
    }
    if answer.kept == advise::Right::No
        && let Some(seen) = shown.and_then(|point| point.assessment.simulated.as_ref())
    {
        if let Some(failing) = failing(seen) {
            why.insert(0, format!("Then {failing}, whatever the servers do."));
        } else if let Some(busy) = seen.busiest() {
            why.insert(
                0,
                format!("Then `{}` limits it, {} busy.", busy.name, share(busy.share.mean)),
            );
        }
    }
    let command = args.common.command("ask bottleneck", &[("class", args.class.as_deref())]);
    let text = Text {
        headline: headline(&answer, args.slo.as_ref()),
        approximation: answer.approximation(),
        numbers: numbers(&answer),
        why,
        next: command,
    };
    args.common.say(out, verdict_of(answer.kept), &answer, &text)
}

fn headline(answer: &Servers, slo: Option<&Slo>) -> String {
    let at = load_text(&answer.growth, &answer.loads);
    let what = slo.map_or("no saturation".to_owned(), Slo::to_string);
    let of = &answer.of;
    let word = verdict_of(answer.kept).word();
    match (&answer.holds_with, &answer.fails_with) {
        (Some(holds), fails) => {
            let fails = fails
                .as_ref()
                .map_or(String::new(), |point| format!(", and not with {}", point.servers));
            format!(
                "{word}: {what} at {at} with {} servers of `{of}`{fails}; now it has {}",
                holds.servers, answer.now
            )
        }
        (None, _) => {
            let most = answer.tried.last().map_or(answer.now, |point| point.servers);
            format!("{word}: {what} at {at} with no number of servers of `{of}`, up to {most}")
        }
    }
}

fn numbers(answer: &Servers) -> String {
    let mut table = Table::new(&["servers", "kept", "busy", "busiest"]);
    for point in &answer.tried {
        let seen = point.assessment.simulated.as_ref();
        let own = seen.and_then(|seen| seen.busy.iter().find(|busy| busy.name == answer.of));
        table.row(vec![
            point.servers.to_string(),
            verdict_of(point.assessment.kept).word().into(),
            own.map_or("-".into(), |busy| share(busy.share.mean)),
            match (seen.and_then(|seen| seen.busiest()), &point.assessment.grows) {
                (Some(busy), _) => format!("{} {}", busy.name, share(busy.share.mean)),
                (None, Some(place)) => format!("{place} grows without end"),
                (None, None) => "-".into(),
            },
        ]);
    }
    let mut text = table.to_string();
    if let Some(point) = &answer.holds_with {
        text += &format!("\n  with {} servers\n{}", point.servers, observed(&point.assessment));
        if !point.assessment.limits.is_empty() {
            text += &limits(&point.assessment.limits);
        }
    }
    text
}
