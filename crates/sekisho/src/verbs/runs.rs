//! `sekisho runs`: the stored runs, the newest first.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use advise::Load;
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{Table, count, next, paragraph, rate, sentence};
use cli::{Failure, Verdict, say, store, turning};
use expectations::{expect, shortest};
use measure::{KneeRecord, RunRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::check::expected;
use super::knee::judged;
use cli::phases;

/// List the stored runs, the newest first
#[derive(ClapArgs)]
#[command(after_help = "\
A verdict is that of the limits with which a run was measured (`--expect`), or
whether the run is valid.

Example:
  sekisho runs --last 5")]
pub(crate) struct Args {
    /// So many of the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    last: u32,
    /// Print one JSON object a run instead of text
    #[arg(long)]
    json: bool,
}

/// A stored run, as far as it can be read.
struct Row {
    file: PathBuf,
    run: Result<Told, Failure>,
}

/// What is told of a run.
struct Told {
    id: String,
    target: String,
    load: String,
    verdict: &'static str,
    started: String,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let files = store::run_files()?;
    let shown = files.len().min(args.last as usize);
    let rows: Vec<Row> =
        turning("reading", || files[..shown].iter().map(|file| row(file)).collect());
    let now = SystemTime::now();
    if args.json {
        for row in &rows {
            say(out, &cli::json::notice(&stored(row, now)))?;
        }
        return Ok(Verdict::Holds);
    }
    if rows.is_empty() {
        say(out, "no run is stored under .sekisho/runs/ of this folder\n\n")?;
        say(out, &next("sekisho measure --help"))?;
        return Ok(Verdict::Holds);
    }
    let all = files.len();
    let of = match count(all as u64, "run") {
        all_runs if shown < all => format!("the newest {shown} of {all_runs}"),
        all_runs => all_runs,
    };
    say(out, &format!("{}\n", sentence(&format!("{of} under .sekisho/runs/"))))?;
    let mut table = Table::new(&["run", "target", "load", "verdict", "age"]);
    for row in &rows {
        if let Ok(told) = &row.run {
            table.row(vec![
                told.id.clone(),
                short(&told.target),
                told.load.clone(),
                told.verdict.into(),
                age(&told.started, now).map_or("?".into(), age_text),
            ]);
        }
    }
    say(out, &table.to_string())?;
    for row in &rows {
        if let Err(failure) = &row.run {
            say(out, &paragraph(&format!("not readable: {failure}")))?;
        }
    }
    let whole = |row: &&Row| row.run.as_ref().is_ok_and(|told| told.verdict != PART);
    if let Some(Row { file, .. }) = rows.iter().find(whole) {
        say(out, &format!("\n{}", next(&format!("sekisho report {}", file.display()))))?;
    }
    Ok(Verdict::Holds)
}

/// Verdict of a run's part.
const PART: &str = "one part";

fn row(file: &Path) -> Row {
    let run = match () {
        () if store::is_knee(file) => store::read_knee(file).map(|knee| told_of_knee(&knee)),
        () if tpcc_verbs::is_record(file) => tpcc_verbs::read_run(file).map(|record| told(&record)),
        () => store::read_part(file).map(|record| told(&record)),
    };
    Row { file: file.to_owned(), run }
}

/// What is told of a search for a knee.
fn told_of_knee(record: &KneeRecord) -> Told {
    let header = &record.header;
    let judged = judged(&record.into(), &record.limit.text, &expected(header), "");
    let place = match record.knee.ends() {
        (Some(low), Some(high)) => format!("{} to {}", rate(low), rate(high)),
        (Some(low), None) => format!("{} or more", rate(low)),
        (None, Some(high)) => format!("below {}", rate(high)),
        (None, None) => "not known".into(),
    };
    Told {
        id: header.id.clone(),
        target: header.target.clone(),
        load: format!("knee of {}: {place}", record.limit.text),
        verdict: if record.interrupted { "cut off" } else { judged.verdict.word() },
        started: header.started.clone(),
    }
}

fn told(record: &RunRecord) -> Told {
    let limits = expected(&record.header);
    let judgement = record.judge_for(0.95, shortest(&limits));
    let outcomes = limits.iter().map(|limit| expect(limit, record, &judgement).verdict);
    let verdict = outcomes.fold(Verdict::Holds, Verdict::and);
    let is_valid = judgement.is_valid() && !phases::invalid(&record.judge_phases(0.95));
    let verdict = if is_valid { verdict } else { verdict.and(Verdict::Invalid) };
    let interrupted = record.summary.as_ref().is_none_or(|summary| summary.interrupted);
    Told {
        id: record.header.id.clone(),
        target: record.header.target.clone(),
        load: match advise::load_of(record) {
            Load::Rate(requests) => rate(requests),
            load => load.to_string(),
        },
        verdict: match verdict {
            _ if interrupted => "cut off",
            _ if record.header.part.is_some() => PART,
            Verdict::Holds if limits.is_empty() => "valid",
            verdict => verdict.word(),
        },
        started: record.header.started.clone(),
    }
}

/// A stored run; of a file that cannot be read only that and why.
#[derive(Serialize, JsonSchema)]
pub(super) struct StoredRun<'a> {
    /// Path of the file.
    file: &'a Path,
    /// Cause why it cannot be read; all others but the file are none then.
    error: Option<String>,
    /// Name by which it is stored.
    id: Option<&'a str>,
    /// Address of what was measured.
    target: Option<&'a str>,
    /// The load.
    load: Option<&'a str>,
    /// Its verdict, in a word.
    verdict: Option<&'a str>,
    /// Moment at which it began, UTC, RFC 3339.
    started: Option<&'a str>,
    /// None where its clock was ahead of ours.
    age_s: Option<u64>,
}

impl Answer for StoredRun<'_> {
    const FORMAT: &'static str = "sekisho/stored-run/1";
}

fn stored(row: &Row, now: SystemTime) -> StoredRun<'_> {
    match &row.run {
        Err(failure) => StoredRun {
            file: &row.file,
            error: Some(failure.to_string()),
            id: None,
            target: None,
            load: None,
            verdict: None,
            started: None,
            age_s: None,
        },
        Ok(told) => StoredRun {
            file: &row.file,
            error: None,
            id: Some(&told.id),
            target: Some(&told.target),
            load: Some(&told.load),
            verdict: Some(told.verdict),
            started: Some(&told.started),
            age_s: age(&told.started, now).map(|age| age.as_secs()),
        },
    }
}

/// Time since a moment that is written as RFC 3339; none where it is none, or is to come.
fn age(started: &str, now: SystemTime) -> Option<Duration> {
    now.duration_since(humantime::parse_rfc3339(started).ok()?).ok()
}

/// An age in its largest unit.
fn age_text(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A target of which no more is shown than a table has room for.
fn short(target: &str) -> String {
    const SHOWN: usize = 20;
    let bare = target.strip_prefix("http://").unwrap_or(target);
    match bare.chars().count() {
        0..=SHOWN => bare.to_owned(),
        _ => bare.chars().take(SHOWN - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_their_largest_unit() {
        let told = [0, 119, 120, 7_199, 7_200, 172_800].map(|s| age_text(Duration::from_secs(s)));
        assert_eq!(told, ["0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        assert_eq!(age("1970-01-01T00:00:30Z", now), Some(Duration::from_secs(30)));
        assert_eq!(age("1970-01-01T00:02:00Z", now), None, "a clock was put back");
        assert_eq!(age("yesterday", now), None);
        assert_eq!(short("http://127.0.0.1:8080/"), "127.0.0.1:8080/");
        assert_eq!(short(&"x".repeat(30)).chars().count(), 20);
    }
}
