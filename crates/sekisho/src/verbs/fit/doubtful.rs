//! Runs that do not fit, or do not suffice: likely causes, the run that would tell, and the command that
//! measures it.

use std::collections::BTreeSet;
use std::io::Write;

use advise::{CauseKind, FitError, LeftOut, causes};
use cli::text::{next, paragraph, sentence};
use cli::{Failure, Verdict, say};
use measure::{LoadShape, RunRecord, Until};

use super::super::typed::Typed;
use super::answer::NoFit;

/// Says why runs do not fit, what in their records may be the cause, and what to measure.
pub(super) fn no_fit(
    error: &FitError,
    runs: &[RunRecord],
    as_json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let verdict = Verdict::DoesNotFit;
    let causes = causes(runs);
    let told: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let is_of_noise =
        |kind: CauseKind| matches!(kind, CauseKind::Noise(_) | CauseKind::Elsewhere(_));
    let noisy = causes.iter().filter(|cause| is_of_noise(cause.kind));
    let again = again(runs, noisy.flat_map(|cause| cause.clients.iter().copied()).collect());
    if as_json {
        let answer = NoFit { causes: told, next: again, ..NoFit::new(error) };
        say(out, &answer.line(verdict))?;
        return Ok(verdict);
    }
    let mut text = sentence(&format!("{}: {error}", verdict.word())) + "\n";
    for cause in &told {
        text += &paragraph(&format!("perhaps {cause}"));
    }
    if told.is_empty() {
        text += &paragraph(
            "the records show no noise, no busy generator, no closed connections and no load from \
             elsewhere: the service is of another kind than the model, or was changed between the runs; \
             the same loads, measured anew and longer, would tell",
        );
    }
    if let Some(command) = again {
        text += &format!("\n{}", next(&command));
    }
    say(out, &text)?;
    Ok(verdict)
}

/// Likely causes of large residuals.
pub(super) fn likely(runs: &[RunRecord]) -> String {
    let causes = causes(runs).into_iter();
    causes.map(|cause| paragraph(&format!("a residual is large; perhaps {cause}"))).collect()
}

/// The command that measures loads anew, three times as long: these, and all where they are too few.
fn again(runs: &[RunRecord], clients: BTreeSet<u32>) -> Option<String> {
    let all = runs.iter().filter_map(|run| match run.header.load {
        LoadShape::Closed { clients, .. } => Some(clients),
        LoadShape::Poisson { .. } | LoadShape::Fixed { .. } | LoadShape::Varying { .. } => None,
    });
    let all: BTreeSet<u32> = all.collect();
    // Runs that were not made at the same time need not be of the same service.
    let clients = if clients.len() < 2 { all } else { clients };
    let first = runs.first()?;
    let typed = Typed::of_record(first)?.for_another_load();
    let list = clients.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let typed = typed.with("clients", list);
    let typed = match first.header.until {
        Until::Seconds(length) => typed.with("duration", format!("{:.0}s", (3.0 * length).ceil())),
        Until::Requests(requests) => typed.with("requests", requests.saturating_mul(3)),
    };
    Some(typed.line())
}

/// Failure of runs that do not suffice, with those that were left out.
pub(super) fn lacking(error: &FitError, runs: &[RunRecord], left: &[LeftOut]) -> Failure {
    let mut text = error.to_string();
    for one in left.iter().take(SHOWN) {
        text += &format!("; left out: run {}: {}", one.run, one.why);
    }
    if left.len() > SHOWN {
        text += &format!("; and {} more", left.len() - SHOWN);
    }
    let typed = runs.first().and_then(Typed::of_record);
    if let (FitError::OneLoad(_), Some(typed)) = (error, typed) {
        let command = typed.for_another_load().with("clients", "1,4,16").line();
        text += &format!("\nnext: {command}");
    }
    Failure::Usage(text)
}

/// Runs left out that are named one by one.
const SHOWN: usize = 8;

/// The runs that are not among those that were fitted, each with its reason.
pub(super) fn left_out(left: &[LeftOut]) -> String {
    let mut text = String::new();
    for one in left.iter().take(SHOWN) {
        text += &paragraph(&format!("left out: run {}: {}", one.run, one.why));
    }
    if left.len() > SHOWN {
        text += &paragraph(&format!("left out: {} more", left.len() - SHOWN));
    }
    text
}
