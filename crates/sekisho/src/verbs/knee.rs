//! `sekisho measure http --knee`: the highest open load that holds a limit, with an interval.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use cli::text::{Table, message, next, paragraph, rate, sentence, time};
use cli::{Failure, Session, Verdict, progress, say};
use indicatif::ProgressBar;
use load::http::{Idle, Load, PlanSpec, ProbeError, RunError, probe};
use measure::knee::{Knee, KneeSpec, Outcome, Probe, Search, Step, WITH_WARMUP, Why};
use measure::limit::Limit;
use measure::{Interval, RunRecord, Until};
use serde_json::json;
use workload::Dist;

use super::expectation::{Expectation, Metric, Side};
use super::http_target::press;
use super::measure::HttpArgs;

/// Knee that is wanted, of whatever has a rate.
pub(super) struct Wanted<'a> {
    /// The limit on a quantile that is to hold.
    pub(super) limit: &'a Expectation,
    /// The longest that the search may take \[s\].
    pub(super) budget_s: f64,
    /// Length of a probe, if it was asked for \[s\].
    pub(super) length_given_s: Option<f64>,
    pub(super) json: bool,
    pub(super) idle: Idle,
    /// Options that give the generator more, as the end of a sentence.
    pub(super) more: &'static str,
    /// The command of one run, without its load.
    pub(super) command: String,
}

/// System whose knee is looked for.
pub(super) trait System {
    /// Runs it with one client: how long a request takes alone.
    ///
    /// # Errors
    /// If it cannot be run.
    fn alone(&mut self) -> Result<RunRecord, Failure>;

    /// Makes a probe with its number, from 1, of at most this length. `sink` sees each interval.
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
    ) -> Result<Outcome, Failure>;
}

/// HTTP server that is measured.
struct Http<'a> {
    args: &'a HttpArgs,
    session: &'a Session,
    /// The plan of a probe but for its rate and its length.
    base: PlanSpec,
}

impl System for Http<'_> {
    fn alone(&mut self) -> Result<RunRecord, Failure> {
        let load = Load::Closed { clients: 1, think: Dist::Constant(0.0) };
        let mut spec = self.args.spec(load)?;
        spec.until = Until::Requests(100);
        spec.warmup = Duration::ZERO;
        spec.interval = Duration::from_millis(50);
        press(spec, self.session, &ProgressBar::hidden())
    }

    fn probe(
        &mut self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Outcome, Failure> {
        let probed = probe(&self.base, at, number, length, limit, &self.session.interrupt, sink);
        let probed = probed.map_err(|error| match error {
            ProbeError::Run(RunError::Start(_)) => Failure::machine(error),
            error => Failure::usage(error),
        })?;
        Ok(probed.outcome)
    }
}

pub(crate) fn run(
    args: &HttpArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    // The search says the rate of each probe.
    let base = args.spec(args.open(1.0))?;
    let wanted = Wanted {
        limit: args.knee_limit().ok_or_else(no_limit)?,
        budget_s: args.budget_s(),
        length_given_s: args.length_given_s(),
        json: args.json(),
        idle: base.idle,
        more: "`--threads`, or processors of its own with `--cpus`",
        command: format!("sekisho measure http {}", args.url()),
    };
    look(&wanted, &mut Http { args, session, base }, session, out)
}

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
        (spec.length_min_s, spec.requests) = (length_s, 1.0);
    }
    let begun = Instant::now();
    let alone = system.alone()?;
    let answered: u64 =
        alone.steady().iter().flat_map(|one| &one.classes).map(|c| c.completed).sum();
    if session.interrupted() && answered == 0 {
        return Ok(Verdict::Interrupted);
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
    let teller = Teller::new(&told, &outlook);
    let knee = loop {
        let probe = match search.next() {
            Step::Finished(knee) => break knee,
            Step::Try(probe) => probe,
        };
        if session.interrupted() {
            break search.stop(Why::Stopped);
        }
        let Some((outcome, took_s)) = try_at(system, probe, &search, &limit, session, &teller)?
        else {
            break search.stop(Why::Stopped);
        };
        search.tell(probe, outcome, took_s);
    };
    teller.bar.finish_and_clear();
    let found = Found { knee, search: &search, elapsed_s: begun.elapsed().as_secs_f64() };
    let verdict = show(wanted, &found, &told, out)?;
    Ok(if session.interrupted() { Verdict::Interrupted } else { verdict })
}

/// Search that is over.
struct Found<'a> {
    knee: Knee,
    search: &'a Search,
    elapsed_s: f64,
}

fn nothing_answered(
    wanted: &Wanted<'_>,
    alone: &RunRecord,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let verdict = Verdict::Invalid;
    let kinds: std::collections::BTreeMap<_, u64> = alone.judge(0.95).all.errors;
    let kinds = kinds.iter().map(|(kind, n)| format!("{n} {}", super::json::name(kind)));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    if wanted.json {
        let object = json!({
            "verdict": verdict.word(), "exit_code": verdict.code(), "errors": kinds, "probes": [],
        });
        say(out, &format!("{object}\n"))?;
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

/// Foreseen course of a search, told before it begins.
fn outlook(spec: &KneeSpec, quantile: f64, response_s: f64) -> String {
    let slot = 1.0 / response_s;
    let one = Probe { rate: slot, effort: 1 };
    let length_s = spec.length_s(one);
    let likely_s = spec.search_s(slot);
    let p = percentile(quantile);
    let mut text = format!(
        "A request alone takes {}. {p} needs {:.0} requests a probe, {} each at {}; a probe ends when it has \
         decided.",
        time(response_s),
        spec.requests,
        time(length_s),
        rate(slot)
    );
    if likely_s <= spec.budget_s {
        text += &format!(
            " That is about {}, at most {} (--budget).",
            span(likely_s),
            span(spec.budget_s)
        );
        return text;
    }
    text += &format!(
        " If the server does one request at a time, that is about {} in all, more than the {} of --budget; it will \
         be told as far as it is known then.",
        span(likely_s),
        span(spec.budget_s)
    );
    match spec.quantile_within(slot).filter(|within| *within < quantile) {
        Some(within) => {
            text += &format!(" {} can tell {}.", span(spec.budget_s), percentile(within))
        }
        None => text += " No quantile can be told in less.",
    }
    text
}

fn percentile(quantile: f64) -> String {
    let percent = (quantile * 1e6).round() / 1e4;
    format!("p{percent}")
}

/// A length as a person says it: `40 s`, `3 min`.
fn span(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "no end".into(),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// Progress of a search: a bar on a terminal, a line every ten seconds elsewhere.
struct Teller {
    bar: ProgressBar,
    begun: Instant,
    /// When it was told last.
    last: Cell<Instant>,
    is_terminal: bool,
}

impl Teller {
    fn new(limit: &str, outlook: &str) -> Teller {
        // Nobody may listen, and the search goes on.
        let text = sentence(&format!("looking for the knee of {limit}: {outlook}"));
        write!(std::io::stderr(), "{text}").ok();
        Teller {
            bar: progress(0, "looking for the knee"),
            begun: Instant::now(),
            last: Cell::new(Instant::now()),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Tells of a probe that goes on, if ten seconds are over since it was told last.
    fn tick(&self, line: &dyn Fn() -> String) {
        if self.is_terminal {
            self.bar.set_message(line());
            return;
        }
        if self.last.get().elapsed() >= EVERY {
            self.last.set(Instant::now());
            let line = message(&format!("{:.0} s: {}", self.begun.elapsed().as_secs_f64(), line()));
            write!(std::io::stderr(), "{line}").ok();
        }
    }
}

const EVERY: Duration = Duration::from_secs(10);

/// One probe; none if it was interrupted.
fn try_at(
    system: &mut dyn System,
    at: Probe,
    search: &Search,
    limit: &Limit,
    session: &Session,
    teller: &Teller,
) -> Result<Option<(Outcome, f64)>, Failure> {
    let begun = Instant::now();
    let number = search.probes().len() + 1;
    let length = Duration::from_secs_f64(search.length_s(at));
    let last = search.probes().last();
    let before = last.map_or(String::new(), |(probe, outcome)| {
        format!("; before: {} {}", rate(probe.rate), word(*outcome))
    });
    let longest_s = WITH_WARMUP * length.as_secs_f64();
    let mut sink = |_: &Interval| {
        let line =
            || format!("probe {number} at {}, {} at most{before}", rate(at.rate), span(longest_s));
        teller.tick(&line);
        teller.bar.tick();
    };
    let outcome = system.probe(at, number as u64, length, limit, &mut sink)?;
    if session.interrupted() {
        return Ok(None);
    }
    Ok(Some((outcome, begun.elapsed().as_secs_f64())))
}

/// Limit whose knee can be looked for.
pub(super) fn limit(expectation: &Expectation) -> Result<Limit, Failure> {
    match (expectation.metric, expectation.side, &expectation.document) {
        (Metric::Quantile(quantile), Side::Below, None) if expectation.limit > 0.0 => Ok(Limit {
            quantile,
            response: Duration::from_secs_f64(expectation.limit),
            errors_max: None,
        }),
        _ => Err(Failure::Usage(format!(
            "`--knee '{expectation}'` must limit a quantile from above, such as 'p99<50ms'"
        ))),
    }
}

fn show(
    wanted: &Wanted<'_>,
    found: &Found<'_>,
    limit: &str,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let (verdict, line) = finding(&found.knee, limit, wanted.more);
    let (low, high) = ends(&found.knee);
    let probes = found.search.probes();
    if wanted.json {
        let probes: Vec<_> = probes
            .iter()
            .map(|(probe, outcome)| {
                json!({"rate_per_s": probe.rate, "effort": probe.effort, "outcome": word(*outcome)})
            })
            .collect();
        let object = json!({
            "verdict": verdict.word(), "exit_code": verdict.code(), "limit": limit,
            "knee_low_per_s": low, "knee_high_per_s": high, "elapsed_s": found.elapsed_s, "probes": probes,
        });
        say(out, &format!("{object}\n"))?;
        return Ok(verdict);
    }
    say(out, &sentence(&format!("{}: {line}", verdict.word())))?;
    let mut table = Table::new(&["probe", "rate", "effort", limit]);
    for (at, (probe, outcome)) in probes.iter().enumerate() {
        table.row(vec![
            (at + 1).to_string(),
            rate(probe.rate),
            probe.effort.to_string(),
            word(*outcome).into(),
        ]);
    }
    let idle = match wanted.idle {
        Idle::Sleep => "sleeping",
        Idle::Spin => "spinning",
    };
    say(out, &format!("\n{table}\n"))?;
    let twice = match found.knee {
        Knee::Inconclusive { .. } => "",
        _ => "Each end was seen twice. ",
    };
    say(
        out,
        &paragraph(&format!(
            "{twice}{:.0} s in all. Open load, response times from the intended start; requests that \
             failed or were not answered count as late. The generator was {idle} while idle.",
            found.elapsed_s
        )),
    )?;
    if let Some(low) = low {
        let rate = match 0.8 * low {
            rate if rate >= 10.0 => format!("{rate:.0}"),
            rate => format!("{rate:.2}"),
        };
        let command = format!("{} --rate {rate}/s --expect '{limit}'", wanted.command);
        say(out, &format!("\n{}", next(&command)))?;
    }
    Ok(verdict)
}

fn finding(knee: &Knee, limit: &str, more: &str) -> (Verdict, String) {
    match *knee {
        Knee::Between { low, high } => (
            Verdict::Holds,
            format!("{limit} holds up to {} and fails at {}", rate(low), rate(high)),
        ),
        Knee::Above { low } => {
            (Verdict::Holds, format!("{limit} holds even at {}, the highest rate tried", rate(low)))
        }
        Knee::Below { high } => {
            (Verdict::Fails, format!("{limit} fails even at {}, the lowest rate tried", rate(high)))
        }
        Knee::Inconclusive { low, high, why } => {
            let known = match (low, high) {
                (Some(low), Some(high)) => {
                    format!("{limit} holds at {} and fails at {}", rate(low), rate(high))
                }
                (Some(low), None) => {
                    format!("{limit} holds at {}; no rate was seen to fail", rate(low))
                }
                (None, Some(high)) => {
                    format!("{limit} fails at {}; no rate was seen to hold", rate(high))
                }
                (None, None) => format!("no rate was seen to hold or fail {limit}"),
            };
            let verdict = match why {
                Why::Stopped => Verdict::Interrupted,
                _ => Verdict::Inconclusive,
            };
            let why = match why {
                Why::Probes => "the probes were used up: allow longer ones with `--duration`",
                Why::Budget => {
                    "the time was used up before the interval was as narrow as it should be: allow \
                                more with `--budget`"
                }
                Why::Stopped => "that is what was known when it was stopped",
                Why::Noise => {
                    "between them nothing could be decided: allow longer probes with `--duration`"
                }
                Why::Few => {
                    "too few requests were seen to tell: allow longer probes with `--duration`"
                }
                Why::Generator => &format!(
                    "the generator could not make the next load in time: give it more {more}"
                ),
            };
            (verdict, format!("{known}; {why}"))
        }
    }
}

fn ends(knee: &Knee) -> (Option<f64>, Option<f64>) {
    match *knee {
        Knee::Between { low, high } => (Some(low), Some(high)),
        Knee::Above { low } => (Some(low), None),
        Knee::Below { high } => (None, Some(high)),
        Knee::Inconclusive { low, high, .. } => (low, high),
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "fails",
        Outcome::Straddles => "straddles",
        Outcome::TooFew => "too few",
        Outcome::Invalid => "invalid",
    }
}
