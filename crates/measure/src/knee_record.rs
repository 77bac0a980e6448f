//! Record of a search for a knee: what was looked for, every probe with what came of it, where the knee lies,
//! and the runs at its two ends, from which somebody else can judge it later.
//!
//! In a file it is one line of JSON.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::file::{self, Lines, ReadError};
use crate::knee::{Believed, Knee, KneeSpec, Outcome, Probe};
use crate::limit::{Limit, answers};
use crate::{Interval, RunHeader, RunRecord, RunSummary};

/// Confidence of the intervals that are kept.
const CONFIDENCE: f64 = 0.95;

/// Search for a knee, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KneeRecord {
    /// Description of a probe, at the lower end of the knee where there is one; its name is that of the search.
    pub header: RunHeader,
    /// The limit that is to hold.
    pub limit: KneeLimit,
    /// Parameters of the search.
    pub spec: KneeSpec,
    /// Place of the knee, as far as it is known.
    pub knee: Knee,
    /// Time that the search took \[s\].
    pub elapsed_s: f64,
    /// Reason that it ended before its time, if it did.
    pub broken: Option<String>,
    /// True if a user has stopped it.
    pub interrupted: bool,
    /// Its probes, in their order.
    pub probes: Vec<ProbeRecord>,
    /// Runs of the probes that decided the ends of the knee, the lower end first; none in a process that did not
    /// decide.
    pub ends: Vec<EndRecord>,
}

/// A limit on a quantile, in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KneeLimit {
    /// The limit as it was written, such as `p99<50ms`.
    pub text: String,
    /// The quantile, above 0 and below 1.
    pub quantile: f64,
    /// The limit on the response time \[s\].
    pub response_s: f64,
}

/// A probe of a search, in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeRecord {
    /// Its rate, and its length as a multiple of a usual probe's.
    pub probe: Probe,
    /// Its outcome.
    pub outcome: Outcome,
    /// Observations; none in a process that did not decide.
    pub seen: Option<Seen>,
}

/// Observations of a probe, its warm-up left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Requests that were answered well.
    pub answered: u64,
    /// Those among them that took longer than the limit.
    pub late: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The quantile of the good answers \[s\]; none where they are too few.
    pub quantile_s: Option<f64>,
    /// Ends of its 95 % interval \[s\]; none where it is not known.
    pub interval_s: Option<[f64; 2]>,
}

/// Run at an end of a knee, in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EndRecord {
    /// Description of the run.
    pub header: RunHeader,
    /// Observations, interval by interval, warm-up included.
    pub intervals: Vec<Interval>,
    /// End of the run.
    pub summary: Option<RunSummary>,
}

impl KneeRecord {
    /// The ends that its probes have seen often enough for a verdict.
    pub fn believed(&self) -> Believed {
        let told: Vec<(Probe, Outcome)> =
            self.probes.iter().map(|one| (one.probe, one.outcome)).collect();
        Believed::of(&self.spec, &told)
    }
}

impl From<RunRecord> for EndRecord {
    fn from(RunRecord { header, intervals, summary }: RunRecord) -> EndRecord {
        EndRecord { header, intervals, summary }
    }
}

impl From<EndRecord> for RunRecord {
    fn from(EndRecord { header, intervals, summary }: EndRecord) -> RunRecord {
        RunRecord { header, intervals, summary }
    }
}

impl Seen {
    /// Observations of the run of a probe.
    pub fn of(record: &RunRecord, limit: &Limit) -> Seen {
        let answers = answers(record, None, limit);
        let classes = record.steady().iter().flat_map(|interval| &interval.classes);
        let quantile = record.quantile(None, limit.quantile, CONFIDENCE);
        let interval = quantile.filter(|quantile| quantile.half_width.is_finite());
        Seen {
            answered: answers.answered,
            late: answers.late,
            failed: classes.flat_map(|class| class.errors.values()).sum(),
            quantile_s: quantile.map(|quantile| quantile.mean),
            interval_s: interval.map(|quantile| [quantile.low().max(0.0), quantile.high()]),
        }
    }
}

/// The line of a file.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct KneeLine<R> {
    /// Version of the format.
    #[serde(rename = "sekisho-knee")]
    version: u64,
    search: R,
}

/// Writes the record of a search.
///
/// # Errors
/// If `out` fails, or the record is one that could not be read back.
pub fn write_knee(mut out: impl Write, record: &KneeRecord) -> io::Result<()> {
    check(record).map_err(file::refused)?;
    file::write_line(&mut out, &KneeLine { version: file::VERSION, search: record })
}

/// Reads the record of a search.
///
/// # Errors
/// See [`ReadError`].
pub fn read_knee(input: impl BufRead) -> Result<KneeRecord, ReadError> {
    let mut lines = Lines::new(input);
    let record: KneeRecord = lines.first::<KneeLine<KneeRecord>>("knee")?.search;
    check(&record).map_err(|cause| lines.inconsistent(cause))?;
    Ok(record)
}

/// Checks what the types cannot say.
fn check(record: &KneeRecord) -> Result<(), String> {
    /// No limit is longer \[s\].
    const LIMIT_MAX_S: f64 = 1e9;
    let KneeLimit { quantile, response_s, .. } = record.limit;
    if !(0.0 < quantile && quantile < 1.0) {
        return Err(format!("`quantile` is {quantile}, which is not between 0 and 1"));
    }
    if !(0.0 < response_s && response_s <= LIMIT_MAX_S) {
        return Err(format!("`response_s` is {response_s}, which is no limit"));
    }
    file::check_number("elapsed_s", record.elapsed_s)?;
    file::check_number("budget_s", record.spec.budget_s)?;
    let rates = record.probes.iter().map(|probe| probe.probe.rate).chain(ends(&record.knee));
    for rate in rates {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(format!("a rate is {rate}, which is none"));
        }
    }
    let (low, high) = record.knee.ends();
    if let (Some(low), Some(high)) = (low, high)
        && low > high
    {
        return Err(format!("the knee lies between {low}/s and {high}/s, which are not in order"));
    }
    for (end, outcome, word) in [(low, Outcome::Holds, "hold"), (high, Outcome::Fails, "fail")] {
        let is_end = |one: &ProbeRecord| Some(one.probe.rate) == end && one.outcome == outcome;
        if let Some(end) = end
            && !record.probes.iter().any(is_end)
        {
            return Err(format!("the limit is said to {word} at {end}/s, and no probe says so"));
        }
    }
    let believed = record.believed();
    let is_decided = !matches!(record.knee, Knee::Inconclusive { .. });
    for (end, believed) in [(low, believed.low), (high, believed.high)] {
        if let Some(end) = end.filter(|end| is_decided && Some(*end) != believed) {
            return Err(format!(
                "the knee is said to be decided, and no two probes say so of {end}/s"
            ));
        }
    }
    for end in &record.ends {
        let mut checks = file::Checks::header(&end.header)?;
        end.intervals.iter().try_for_each(|interval| checks.interval(interval))?;
    }
    file::Checks::header(&record.header).map(drop)
}

/// Rates at the ends of a knee that are known.
fn ends(knee: &Knee) -> impl Iterator<Item = f64> {
    let (low, high) = knee.ends();
    low.into_iter().chain(high)
}
