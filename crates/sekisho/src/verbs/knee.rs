//! `sekisho measure ... --knee`: the highest open load that holds a limit, with an interval.

use std::io::Write;
use std::time::Duration;

use cli::text::{Table, next, paragraph, rate, sentence};
use cli::{Failure, Session, Verdict, progress, say};
use load::http::Idle;
use load::http::knee::{Found, Knee, KneeSpec, Limit, Outcome, Probe, Why, find, probe, verdict};
use measure::RunRecord;
use serde_json::json;

use super::check::{Expectation, Metric, Side};
use super::measure::HttpArgs;

/// The rates between which a knee is looked for [1/s].
const RATES: (f64, f64) = (0.1, 1e6);
/// The search begins here [1/s]: nobody is hurt, and doubling gets anywhere.
pub(super) const RATE_FIRST: f64 = 20.0;
/// The interval is narrow enough when its upper end is at most this share above its lower.
const WIDTH: f64 = 0.1;
const PROBES_MAX: u32 = 40;

pub(crate) fn run(
    args: &HttpArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let base = args.spec(args.open(RATE_FIRST))?;
    let wanted = Wanted {
        limit: args.knee_limit(),
        length_s: args.length_s(),
        json: args.json(),
        idle: base.idle,
        command: format!("sekisho measure http {}", args.url()),
    };
    let length = Duration::from_secs_f64(args.length_s());
    look(&wanted, session, out, |at, number| {
        probe(&base, at, number, length, &session.interrupt, &mut |_| {}).map_err(Failure::usage)
    })
}

/// A knee that is wanted, of whatever has a rate.
pub(super) struct Wanted<'a> {
    /// The limit on a quantile that is to hold.
    pub(super) limit: Option<&'a Expectation>,
    /// Length of a usual probe [s].
    pub(super) length_s: f64,
    pub(super) json: bool,
    pub(super) idle: Idle,
    /// The command of one run, without its load.
    pub(super) command: String,
}

/// Looks for a knee with a probe, which is told its number, from 1.
pub(super) fn look(
    wanted: &Wanted<'_>,
    session: &Session,
    out: &mut dyn Write,
    mut probe: impl FnMut(Probe, u64) -> Result<RunRecord, Failure>,
) -> Result<Verdict, Failure> {
    let limit = limit(wanted)?;
    let spec = KneeSpec {
        rate_first: RATE_FIRST,
        rate_min: RATES.0,
        rate_max: RATES.1,
        width: WIDTH,
        probes_max: PROBES_MAX,
    };
    let bar = progress(u64::from(PROBES_MAX), "looking for the knee");
    let mut number = 0;
    let found = find(&spec, |at: Probe| -> Result<Outcome, Stopped> {
        number += 1;
        bar.set_message(format!("trying {}", rate(at.rate)));
        let record = probe(at, number)?;
        bar.inc(1);
        if session.interrupted() {
            return Err(Stopped::Interrupted);
        }
        Ok(verdict(&record, &limit))
    });
    bar.finish_and_clear();
    match found {
        Ok(found) => show(wanted, &found, out),
        Err(Stopped::Interrupted) => Ok(Verdict::Interrupted),
        Err(Stopped::Failed(failure)) => Err(failure),
    }
}

enum Stopped {
    Interrupted,
    Failed(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

fn limit(wanted: &Wanted<'_>) -> Result<Limit, Failure> {
    let expectation =
        wanted.limit.ok_or_else(|| Failure::Usage("`--knee` needs a limit".into()))?;
    match (expectation.metric, expectation.side, &expectation.document) {
        (Metric::Quantile(quantile), Side::Below, None) => Ok(Limit {
            quantile,
            response: Duration::from_secs_f64(expectation.limit),
            errors_max: None,
        }),
        _ => Err(Failure::Usage(format!(
            "`--knee '{expectation}'` must limit a quantile from above, such as 'p99<50ms'"
        ))),
    }
}

fn show(wanted: &Wanted<'_>, found: &Found, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let limit = wanted.limit.map(ToString::to_string).unwrap_or_default();
    let (verdict, line) = finding(&found.knee, &limit);
    if wanted.json {
        let probes: Vec<_> = found
            .probes
            .iter()
            .map(|(probe, outcome)| {
                json!({"rate_per_s": probe.rate, "effort": probe.effort, "outcome": word(*outcome)})
            })
            .collect();
        let (low, high) = ends(&found.knee);
        let object = json!({
            "verdict": verdict.word(), "exit_code": verdict.code(), "limit": limit,
            "knee_low_per_s": low, "knee_high_per_s": high, "probes": probes,
        });
        say(out, &format!("{object}\n"))?;
        return Ok(verdict);
    }
    say(out, &sentence(&format!("{}: {line}", verdict.word())))?;
    let mut table = Table::new(&["probe", "rate", "length", limit.as_str()]);
    for (at, (probe, outcome)) in found.probes.iter().enumerate() {
        table.row(vec![
            (at + 1).to_string(),
            rate(probe.rate),
            format!("{} s", wanted.length_s * f64::from(probe.effort)),
            word(*outcome).into(),
        ]);
    }
    let idle = match wanted.idle {
        Idle::Sleep => "sleeping",
        Idle::Spin => "spinning",
    };
    say(out, &format!("\n{table}\n"))?;
    say(
        out,
        &paragraph(&format!(
            "Each end was seen twice. Open load, response times from the intended start; requests that \
             failed or were not answered count as late. The generator was {idle} while idle."
        )),
    )?;
    if let (Some(low), _) = ends(&found.knee) {
        let command = format!(
            "{} --rate {}/s --expect '{limit}'",
            wanted.command,
            (low * 0.8).round().max(1.0)
        );
        say(out, &format!("\n{}", next(&command)))?;
    }
    Ok(verdict)
}

fn finding(knee: &Knee, limit: &str) -> (Verdict, String) {
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
            let side = |word: &str, end: Option<f64>| {
                end.map_or(String::new(), |end| format!(", {word} {}", rate(end)))
            };
            let why = match why {
                Why::Probes => "the probes were used up: allow longer ones with `--duration`",
                Why::Noise => "probes contradicted each other: allow longer ones with `--duration`",
                Why::Few => {
                    "too few requests were seen to tell: allow longer probes with `--duration`"
                }
                Why::Generator => "the generator could not make the load: use more `--threads`",
            };
            let line = format!(
                "the knee of {limit} could not be narrowed down{}{}; {why}",
                side("it holds at", low),
                side("it fails at", high)
            );
            (Verdict::Inconclusive, line)
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
        Outcome::Fails => "FAILS",
        Outcome::Straddles => "straddles",
        Outcome::TooFew => "too few",
        Outcome::Invalid => "INVALID",
    }
}
