//! Searches for a knee, held against limits on the knee and against earlier searches.

use std::io::Write;
use std::path::{Path, PathBuf};

use cli::json::Answer;
use cli::text::{next, paragraph, sentence};
use cli::{Failure, Verdict, say, store};
use expectations::{Checked, ExpectationAnswer, Kind, Outcome, expect_knee, of_knees};
use measure::knee::Believed;
use measure::{KneeRecord, differing};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Args, DIFFERENCE_MIN};

/// A search for a knee, held against limits and earlier searches.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CheckedKnee<'a> {
    /// Name of the search.
    id: &'a str,
    /// The limit under which the knee was looked for.
    limit: &'a str,
    /// The highest rate at which it was seen to hold.
    knee_low_per_s: Option<f64>,
    /// The lowest rate at which it was seen to fail.
    knee_high_per_s: Option<f64>,
    /// What it was held against, each with its verdict.
    expectations: Vec<ExpectationAnswer<'a>>,
    /// Files that were written, if they were asked for; one for all searches of a command.
    junit: Option<&'a Path>,
    /// The Markdown file, if one was asked for.
    markdown: Option<&'a Path>,
}

impl Answer for CheckedKnee<'_> {
    const FORMAT: &'static str = "sekisho/check-knee/1";
}

/// Holds each search against the limits and against each earlier one.
pub(super) fn run(args: &Args, paths: &[PathBuf], out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.prediction.is_some() {
        return Err(Failure::Usage(
            "a prediction speaks of loads and not of a knee: hold runs against it".into(),
        ));
    }
    of_knees(&args.expect)?;
    let read = |path: &PathBuf| store::read_knee(path);
    let earlier = args.against.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let knees = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for knee in &knees {
        all.push(check(args, knee, &earlier, out)?);
    }
    expectations::write(args.junit.as_deref(), args.markdown.as_deref(), &all)?;
    if !args.json {
        say(out, &format!("\n{}", next(&args.report(paths))))?;
    }
    Ok(all.iter().fold(Verdict::Holds, |worst, one| worst.and(one.verdict)))
}

fn check(
    args: &Args,
    knee: &KneeRecord,
    earlier: &[KneeRecord],
    out: &mut dyn Write,
) -> Result<Checked, Failure> {
    let under = &knee.limit.text;
    let believed = knee.believed();
    let limits = args.expect.iter().map(|limit| expect_knee(limit, &knee.knee, &believed, under));
    let mut outcomes: Vec<Outcome> = limits.collect();
    outcomes.extend(earlier.iter().map(|one| change(one, knee)));
    if let Some(why) = &knee.broken {
        let line = format!("the search ended before its time: {why}");
        outcomes.push(Outcome::named_by(Kind::Fault, Verdict::Invalid, line));
    }
    let verdict = outcomes.iter().fold(Verdict::Holds, |worst, one| worst.and(one.verdict));
    let load = format!("knee of {under}");
    let (low, high) = knee.knee.ends();
    if args.json {
        let answer = CheckedKnee {
            id: &knee.header.id,
            limit: under,
            knee_low_per_s: low,
            knee_high_per_s: high,
            expectations: outcomes.iter().map(Outcome::answer).collect(),
            junit: args.junit.as_deref(),
            markdown: args.markdown.as_deref(),
        };
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
    } else {
        let found = cli::knee::known(&knee.knee, &believed, under);
        say(out, &sentence(&format!("{}: {}: {found}", verdict.word(), knee.header.id)))?;
        for outcome in &outcomes {
            say(out, &paragraph(&format!("{}: {}", outcome.verdict.word(), outcome.line)))?;
        }
    }
    Ok(Checked { name: knee.header.id.clone(), load, verdict, outcomes })
}

/// A knee against an earlier one: the ratio, as far as the ends of both tell it. To be higher is fine.
fn change(earlier: &KneeRecord, now: &KneeRecord) -> Outcome {
    let name = format!("knee against {}", earlier.header.id);
    let outcome = |verdict, line: &str| Outcome::new(Kind::Change, verdict, &name, line);
    if earlier.limit != now.limit {
        let (one, other) = (&earlier.limit.text, &now.limit.text);
        return outcome(
            Verdict::Inconclusive,
            &format!("the limits differ, {one} and {other}: look for the knee of one limit"),
        );
    }
    // A probe's rate is what a search looks for.
    let mut things = differing(&earlier.header, &now.header);
    things.retain(|thing| thing != "load");
    if !things.is_empty() {
        let line = format!("the searches differ in {}", things.join(", "));
        return outcome(Verdict::Inconclusive, &line);
    }
    let (Some(before), Some(after)) = (known(earlier), known(now)) else {
        let line = "not both ends were seen twice in both; a longer `--budget` sees them";
        return outcome(Verdict::Inconclusive, line);
    };
    let (low, high) = (after[0] / before[1], after[1] / before[0]);
    let enough = 1.0 + DIFFERENCE_MIN;
    let middle = (low * high).sqrt();
    let (verdict, word) = match () {
        () if low >= enough => (Verdict::Holds, "higher"),
        () if low > 1.0 / enough => (Verdict::Holds, "no lower for all that matters"),
        () if high < 1.0 && middle <= 1.0 / enough => (Verdict::Fails, "lower"),
        () => (Verdict::Inconclusive, "not clear; a longer `--budget` narrows both"),
    };
    let line = format!("{middle:.2} times ({low:.2} to {high:.2}): {word}");
    outcome(verdict, &line).found_between(middle, low, high).of_ratio()
}

/// Both ends of a knee, if both are believed.
fn known(record: &KneeRecord) -> Option<[f64; 2]> {
    let Believed { low, high } = record.believed();
    Some([low?, high?])
}
