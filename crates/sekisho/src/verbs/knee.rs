//! `sekisho measure ... --knee`: the highest open load that holds a limit, with an interval.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cli::knee::{finding, known, outlook, span, word};
use cli::text::{Table, next, paragraph, rate, sentence, shell_word, time};
use cli::{Failure, Session, Verdict, json, progress, say, store};
use expectations::{Expectation, ExpectationAnswer, Metric, Outcome as Held, Side, expect_knee};
use indicatif::ProgressBar;
use load::http::Idle;
use load::lockstep::{Answer, Course};
use load::probe::Probed;
use measure::knee::{Believed, Knee, KneeSpec, Outcome, Probe, Search, Step, WITH_WARMUP, Why};
use measure::limit::Limit;
use measure::{
    EndRecord, ErrorKind, Interval, KneeLimit, KneeRecord, LoadShape, ProbeRecord, RunHeader,
    RunPart, RunRecord, Seen,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Way to keep the record of a search.
pub(super) type Keep<'a> = dyn Fn(&mut KneeRecord) -> Result<PathBuf, Failure> + 'a;

/// Knee that is wanted, of whatever has a rate.
pub(super) struct Wanted<'a> {
    /// The limit on a quantile that is to hold.
    pub(super) limit: &'a Expectation,
    /// The longest that the search may take \[s\].
    pub(super) budget_s: f64,
    /// Length of a probe, if it was asked for \[s\].
    pub(super) length_given_s: Option<f64>,
    pub(super) json: bool,
    /// Limits on the knee.
    pub(super) limits: &'a [Expectation],
    /// Keeps the record of the search; its file.
    pub(super) keep: &'a Keep<'a>,
    pub(super) idle: Idle,
    /// Options that give the generator more, as the end of a sentence.
    pub(super) more: &'static str,
    /// The command of one run in one process, without its load.
    pub(super) command: String,
    /// The same in as many parts as the search, of the usual length: a probe's is too short for a run.
    pub(super) command_of_run: String,
    pub(super) part: RunPart,
}

/// System whose knee is looked for.
pub(super) trait System {
    /// Runs it with one client for so many requests, or as long: how long a request takes alone.
    ///
    /// # Errors
    /// If it cannot be run.
    fn alone(&self, requests: u64, longest: Duration) -> Result<RunRecord, Failure>;

    /// Description of a probe, as its record begins.
    ///
    /// # Errors
    /// If the plan does not hold.
    fn header(&self) -> Result<RunHeader, Failure>;

    /// Makes a probe with its number, from 1, of at most this length; none if no probe can be made any more, although
    /// none was an error. `sink` sees each interval.
    ///
    /// # Errors
    /// If it cannot be run at this rate.
    fn probe(
        &mut self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Option<Probed>, Failure>;

    /// Takes note of the search before a probe.
    fn follow(&mut self, _spec: &KneeSpec, _search: &Search) {}

    /// Reason that no probe can be made any more.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Takes note of the end.
    fn end(&mut self, _found: &Answer) {}
}

/// Share of the budget of a search that may be spent on requests that run alone, and their number.
const ALONE: (f64, u64) = (0.1, 100);
/// The longest that a search waits for what a probe has left [s].
const REST_S: f64 = 5.0;
/// A probe cannot see overload if it is no longer than so many limits.
const LIMITS_MIN: f64 = 4.0;

/// Failure of a search that is not told what for.
pub(super) fn no_limit() -> Failure {
    Failure::Usage("`--knee` needs a limit".into())
}

/// Looks for the knee of a system.
pub(super) fn look(
    wanted: &Wanted<'_>,
    system: &mut dyn System,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let limit = limit(wanted.limit)?;
    let mut spec = KneeSpec::for_limit(limit.quantile, limit.response.as_secs_f64());
    spec.budget_s = wanted.budget_s;
    if let Some(length_s) = wanted.length_given_s {
        long_enough(length_s, wanted.limit)?;
        (spec.length_min_s, spec.requests) = (length_s, 1.0);
    }
    let (begun, header) = (Instant::now(), system.header()?);
    let longest = Duration::from_secs_f64(ALONE.0 * spec.budget_s);
    let alone = system.alone(ALONE.1, longest)?;
    let answered: u64 =
        alone.steady().iter().flat_map(|one| &one.classes).map(|c| c.completed).sum();
    if session.interrupted() && answered == 0 {
        return super::json::interrupted(wanted.json, out);
    }
    if answered == 0 {
        return nothing_answered(wanted, &alone, out);
    }
    let response_s = alone.judge(0.95).all.response.map_or(f64::INFINITY, |response| response.mean);
    // One request at a time is half of what a server of one slot can do at the most.
    spec.rate_first = (0.5 / response_s).clamp(spec.rate_min, spec.rate_max);
    let told = wanted.limit.to_string();
    let outlook = outlook(&spec, limit.quantile, response_s);
    let mut search = Search::new(spec);
    search.spend(begun.elapsed().as_secs_f64());
    let bar = telling(&told, &outlook);
    let mut watch = Watch::new(limit);
    let quick_s = (2.0 * response_s).max(0.5 * limit.response.as_secs_f64());
    let knee = loop {
        let probe = match search.next() {
            Step::Finished(knee) => break knee,
            Step::Try(probe) => probe,
        };
        if session.interrupted() {
            break search.stop(Why::Stopped);
        }
        system.follow(&spec, &search);
        let started = store::now_rfc3339();
        let tried = try_at(system, probe, &search, &limit, session, &bar)?;
        let Some((probed, took_s)) = tried else { break search.stop(Why::Stopped) };
        search.tell(probe, probed.outcome, took_s);
        watch.see(probe, started, probed);
        search.spend(rest(system, session, quick_s, &bar)?);
    };
    bar.finish_and_clear();
    let found = Answer {
        course: Course { spec, told: search.probes().to_vec() },
        knee,
        elapsed_s: begun.elapsed().as_secs_f64(),
        broken: system.broken(),
        interrupted: session.interrupted(),
    };
    system.end(&found);
    let record = watch.record(header, wanted, &found);
    show(wanted, &found, Some(record), out)
}

/// Checks that a probe of this length \[s\] can see that requests are late.
fn long_enough(length_s: f64, limit: &Expectation) -> Result<(), Failure> {
    if length_s >= LIMITS_MIN * limit.limit {
        return Ok(());
    }
    let typed = |seconds: f64| match (seconds * 1e3).ceil() {
        millis if millis % 1e3 == 0.0 => format!("{}s", millis / 1e3),
        millis => format!("{millis}ms"),
    };
    let (given, least) = (typed(length_s), typed(LIMITS_MIN * limit.limit));
    Err(Failure::Usage(format!(
        "`--duration {given}` is too short for a probe of `{limit}`: where a server is overloaded its queue has to grow for \
         longer than the limit before a request is late; say at least `--duration {least}`, or leave it out"
    )))
}

/// Lets a request alone pass before the next probe: a server that was overloaded still has before it what the last probe
/// has left, and the next one would measure that. It is done when a request takes no longer than `quick_s` \[s\]; some
/// servers answer the newest first, so it is tried again. The time that it took \[s\].
fn rest(
    system: &dyn System,
    session: &Session,
    quick_s: f64,
    bar: &ProgressBar,
) -> Result<f64, Failure> {
    let begun = Instant::now();
    let left = || Duration::from_secs_f64(REST_S).saturating_sub(begun.elapsed());
    while !left().is_zero() && !session.interrupted() {
        let alone = system.alone(1, left())?.judge(0.95).all;
        // Of one that failed there is nothing to wait for.
        if alone.failed() > 0 || alone.response_max_s.is_some_and(|took_s| took_s <= quick_s) {
            break;
        }
        bar.set_message("waiting until the server has answered what the last probe asked");
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Observations of the probes, of which a record is made.
pub(super) struct Watch {
    limit: Limit,
    seen: Vec<Seen>,
    /// Runs of the probes that decided something, with the rate, the outcome and the moment of the start.
    decided: Vec<(Probe, Outcome, String, RunRecord)>,
}

impl Watch {
    /// Nothing is seen yet.
    pub(super) fn new(limit: Limit) -> Watch {
        Watch { limit, seen: Vec::new(), decided: Vec::new() }
    }

    /// Takes note of the next probe, which began at this moment.
    fn see(&mut self, probe: Probe, started: String, Probed { record, outcome }: Probed) {
        self.seen.push(Seen::of(&record, &self.limit));
        if outcome.is_decided() {
            self.decided.push((probe, outcome, started, record));
        }
    }

    /// The record of the search; `header` is that of a probe at any rate.
    pub(super) fn record(
        &self,
        mut header: RunHeader,
        wanted: &Wanted<'_>,
        found: &Answer,
    ) -> KneeRecord {
        let Course { spec, told } = &found.course;
        let (low, high) = found.knee.ends();
        let lower = self.end(low, Outcome::Holds, &header, "holds");
        let upper = self.end(high, Outcome::Fails, &header, "fails");
        set_rate(&mut header.load, low.or(high).unwrap_or(spec.rate_first));
        let mut seen = self.seen.iter().cloned();
        let probes = told.iter().map(|(probe, outcome)| ProbeRecord {
            probe: *probe,
            outcome: *outcome,
            seen: seen.next(),
        });
        KneeRecord {
            header,
            limit: KneeLimit {
                text: wanted.limit.to_string(),
                quantile: self.limit.quantile,
                response_s: self.limit.response.as_secs_f64(),
            },
            spec: *spec,
            knee: found.knee,
            elapsed_s: found.elapsed_s,
            broken: found.broken.clone(),
            interrupted: found.interrupted,
            probes: probes.collect(),
            ends: lower.into_iter().chain(upper).map(EndRecord::from).collect(),
        }
    }

    /// The run that decided an end at last.
    fn end(
        &self,
        rate: Option<f64>,
        wanted: Outcome,
        header: &RunHeader,
        word: &str,
    ) -> Option<RunRecord> {
        let rate = rate?;
        let is_end = |(probe, outcome, ..): &&(Probe, Outcome, String, RunRecord)| {
            probe.rate == rate && *outcome == wanted
        };
        let (_, _, started, record) = self.decided.iter().rev().find(is_end)?;
        let mut record = record.clone();
        record.header.id = format!("{}-{word}", header.id);
        record.header.started.clone_from(started);
        record.header.tool.clone_from(&header.tool);
        record.header.command.clone_from(&header.command);
        Some(record)
    }
}

fn set_rate(load: &mut LoadShape, wanted: f64) {
    if let LoadShape::Poisson { rate, .. } | LoadShape::Fixed { rate, .. } = load {
        *rate = wanted;
    }
}

/// The highest open load that holds a limit.
#[derive(Serialize, JsonSchema)]
pub(super) struct KneeAnswer<'a> {
    /// The limit as it was written.
    limit: String,
    /// The highest rate at which it was seen to hold.
    knee_low_per_s: Option<f64>,
    /// The lowest rate at which it was seen to fail.
    knee_high_per_s: Option<f64>,
    /// Time that the search took \[s\].
    elapsed_s: f64,
    /// The probes, in their order.
    probes: Vec<ProbeAnswer>,
    /// Failures of the requests before the search, by their kind, where none was answered.
    errors: BTreeMap<ErrorKind, u64>,
    /// Reason that a search in several parts could not go on: the part, and what became of it.
    broken: Option<String>,
    /// The limits on the knee that were named, each with its verdict.
    expectations: Vec<ExpectationAnswer<'a>>,
    /// File of the search's record; none where another part keeps it, or where there is nothing to keep.
    record: Option<&'a Path>,
}

impl json::Answer for KneeAnswer<'_> {
    const FORMAT: &'static str = "sekisho/knee/1";
}

/// A probe of a search.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Probe")]
struct ProbeAnswer {
    /// Rate of arrivals \[1/s\].
    rate_per_s: f64,
    /// Number of times as long as a probe of just enough requests; 0 for the shortest.
    effort: u32,
    /// Its outcome.
    outcome: &'static str,
}

fn nothing_answered(
    wanted: &Wanted<'_>,
    alone: &RunRecord,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let verdict = Verdict::Invalid;
    let kinds: BTreeMap<_, u64> = alone.judge(0.95).all.errors;
    let kinds = kinds.iter().map(|(kind, n)| format!("{n} {}", super::json::name(kind)));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    if wanted.json {
        let answer = KneeAnswer {
            limit: wanted.limit.to_string(),
            knee_low_per_s: None,
            knee_high_per_s: None,
            elapsed_s: alone.summary.as_ref().map_or(0.0, |summary| summary.elapsed_s),
            probes: Vec::new(),
            errors: alone.judge(0.95).all.errors,
            broken: None,
            expectations: Vec::new(),
            record: None,
        };
        say(out, &json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    let line = match (kinds.is_empty(), &alone.summary) {
        (true, Some(summary)) => format!("no request was answered in {}", time(summary.elapsed_s)),
        _ => format!("no request was answered well; failed: {kinds}"),
    };
    let line = format!("{}: {line}", verdict.word());
    say(out, &sentence(&line))?;
    say(out, &format!("\n{}", next(&format!("{} --clients 1", wanted.command))))?;
    Ok(verdict)
}

/// Progress of a search, which is told beforehand in full.
fn telling(limit: &str, outlook: &str) -> ProgressBar {
    // Nobody may listen, and the search goes on.
    let text = sentence(&format!("looking for the knee of {limit}: {outlook}"));
    write!(std::io::stderr(), "{text}").ok();
    progress(0, "looking for the knee")
}

/// One probe; none if it was interrupted, or no more can be made.
fn try_at(
    system: &mut dyn System,
    at: Probe,
    search: &Search,
    limit: &Limit,
    session: &Session,
    bar: &ProgressBar,
) -> Result<Option<(Probed, f64)>, Failure> {
    let begun = Instant::now();
    let number = search.probes().len() + 1;
    let length = Duration::from_secs_f64(search.length_s(at));
    let last = search.probes().last();
    let before = last.map_or(String::new(), |(probe, outcome)| {
        format!("; before: {} {}", rate(probe.rate), word(*outcome))
    });
    let longest_s = WITH_WARMUP * length.as_secs_f64();
    bar.set_message(format!(
        "probe {number} at {}, {} at most{before}",
        rate(at.rate),
        span(longest_s)
    ));
    let mut sink = |_: &Interval| bar.tick();
    let probed = system.probe(at, number as u64, length, limit, &mut sink)?;
    let probed = probed.filter(|_| !session.interrupted());
    Ok(probed.map(|probed| (probed, begun.elapsed().as_secs_f64())))
}

/// Limit whose knee can be looked for.
pub(super) fn limit(expectation: &Expectation) -> Result<Limit, Failure> {
    match (expectation.metric, expectation.side, &expectation.document) {
        (Metric::Quantile(quantile), Side::Below, None) if expectation.limit > 0.0 => {
            Ok(Limit { quantile, response: Duration::from_secs_f64(expectation.limit) })
        }
        _ => Err(Failure::Usage(format!(
            "`--knee '{expectation}'` must limit a quantile from above, such as 'p99<50ms'"
        ))),
    }
}

/// Verdict of a search for a knee, in words and by the limits on the knee.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) line: String,
    pub(super) outcomes: Vec<Held>,
}

/// Judges a search; `under` is its limit, `more` are options that give the generator more. Limits on the knee decide in
/// place of the width of its interval.
pub(super) fn judged(found: &Found<'_>, under: &str, limits: &[Expectation], more: &str) -> Judged {
    let (verdict, line) = match found.broken {
        None => finding(found.knee, &found.believed, under, more),
        Some(why) => {
            (Verdict::Invalid, format!("{}; {why}", known(found.knee, &found.believed, under)))
        }
    };
    let outcomes: Vec<Held> =
        limits.iter().map(|limit| expect_knee(limit, found.knee, &found.believed, under)).collect();
    let held = outcomes.iter().map(|outcome| outcome.verdict).reduce(Verdict::and);
    let verdict = match held {
        _ if found.interrupted => Verdict::Interrupted,
        Some(held) if found.broken.is_none() => held,
        _ => verdict,
    };
    Judged { verdict, line, outcomes }
}

/// What a search has found, as far as its verdict needs it.
pub(super) struct Found<'a> {
    pub(super) knee: &'a Knee,
    pub(super) believed: Believed,
    pub(super) broken: Option<&'a str>,
    pub(super) interrupted: bool,
}

impl<'a> From<&'a Answer> for Found<'a> {
    fn from(of: &'a Answer) -> Found<'a> {
        let believed = Believed::of(&of.course.spec, &of.course.told);
        let (broken, interrupted) = (of.broken.as_deref(), of.interrupted);
        Found { knee: &of.knee, believed, broken, interrupted }
    }
}

impl<'a> From<&'a KneeRecord> for Found<'a> {
    fn from(of: &'a KneeRecord) -> Found<'a> {
        let (broken, interrupted) = (of.broken.as_deref(), of.interrupted);
        Found { knee: &of.knee, believed: of.believed(), broken, interrupted }
    }
}

/// Keeps what a search has found, and says it.
pub(super) fn show(
    wanted: &Wanted<'_>,
    found: &Answer,
    record: Option<KneeRecord>,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let limit = &wanted.limit.to_string();
    // Of a search without a probe there is nothing to keep.
    let record = record.filter(|record| !record.probes.is_empty());
    let kept = record.map(|mut record| (wanted.keep)(&mut record)).transpose()?;
    let Judged { verdict, line, outcomes } =
        judged(&found.into(), limit, wanted.limits, wanted.more);
    let (low, high) = found.knee.ends();
    let Course { spec, told: probes } = &found.course;
    if wanted.json {
        let probe = |(probe, outcome): &(Probe, Outcome)| ProbeAnswer {
            rate_per_s: probe.rate,
            effort: probe.effort,
            outcome: word(*outcome),
        };
        let answer = KneeAnswer {
            limit: limit.to_owned(),
            knee_low_per_s: low,
            knee_high_per_s: high,
            elapsed_s: found.elapsed_s,
            probes: probes.iter().map(probe).collect(),
            errors: BTreeMap::new(),
            broken: found.broken.clone(),
            expectations: outcomes.iter().map(Held::answer).collect(),
            record: kept.as_deref(),
        };
        say(out, &json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    say(out, &sentence(&format!("{}: {line}", verdict.word())))?;
    let mut table = Table::new(&["probe", "rate", "at most", limit]);
    for (at, (probe, outcome)) in probes.iter().enumerate() {
        table.row(vec![
            (at + 1).to_string(),
            rate(probe.rate),
            span(WITH_WARMUP * spec.length_s(*probe)),
            word(*outcome).into(),
        ]);
    }
    say(out, &format!("\n{table}\n"))?;
    say(out, &paragraph(&terms(wanted, found, kept.as_deref())))?;
    for outcome in &outcomes {
        say(out, &paragraph(&format!("{}: {}", outcome.verdict.word(), outcome.line)))?;
    }
    if let Some(path) = &kept {
        say(out, &format!("\n  recorded: {}\n", shell_word(path)))?;
    }
    let command = match (low, &kept) {
        (Some(low), _) => {
            format!("{} --rate {} --expect '{limit}'", wanted.command_of_run, rate_below(low))
        }
        (None, Some(path)) => format!("sekisho report {}", shell_word(path)),
        (None, None) => return Ok(verdict),
    };
    let gap = if kept.is_some() { "" } else { "\n" };
    say(out, &format!("{gap}{}", next(&command)))?;
    Ok(verdict)
}

/// A rate that is safely below the lower end of a knee \[1/s\], as an option has it.
pub(super) fn rate_below(low: f64) -> String {
    match 0.8 * low {
        rate if rate >= 10.0 => format!("{rate:.0}/s"),
        rate => format!("{rate:.2}/s"),
    }
}

/// Terms on which a knee was found.
fn terms(wanted: &Wanted<'_>, found: &Answer, kept: Option<&Path>) -> String {
    let idle = match wanted.idle {
        Idle::Sleep => "sleeping",
        Idle::Spin => "spinning",
    };
    let together = match wanted.part {
        RunPart::WHOLE => String::new(),
        part => {
            let keeper = if kept.is_none() { ", and part 1 keeps the record" } else { "" };
            format!("{} parts made each probe together; all tell this{keeper}. ", part.of())
        }
    };
    let twice = match found.knee {
        Knee::Inconclusive { .. } => "",
        Knee::Between { low, high } if high > low * (1.0 + found.course.spec.width) + 1e-9 => {
            "Each end was seen twice, at it or beyond it; more time (`--budget`) narrows the interval. "
        }
        _ => "Each end was seen twice, at it or beyond it. ",
    };
    format!(
        "{together}{twice}{:.0} s in all. Open load, response times from the intended start; requests that \
         failed or were not answered count as late. The generator was {idle} while idle.",
        found.elapsed_s
    )
}
