//! Run in several processes: the part that each of them is, what they must have in common, and one record of
//! theirs. Pure, so that it can be done whenever and wherever the records are.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::figures::time;
use crate::{
    ClassCounts, ClassSpec, GeneratorHealth, Histogram, Host, Interval, LoadShape, RunHeader,
    RunRecord, RunSummary, Until,
};

/// No run has more parts.
const PARTS_MAX: u32 = 1_000;
/// Limit of the distance between the starts of a run's parts \[s\]: the length of the shortest bucket in which
/// a throughput is counted.
const APART_MOST_S: f64 = 1.0;
/// Starts of an interval that lie closer are the same \[s\].
const SAME_S: f64 = 1e-6;
/// Share of its length by which a part may fall short, for its last look at the clock.
const SHORT_MOST: f64 = 1e-3;

/// One of several processes that make a run together, written `1/2`. Each has a share of the load; their
/// chance, and so what all of them ask for, is what it is in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct RunPart {
    number: u32,
    of: u32,
}

/// A text that names no part.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no part of a run: it is K/N, K from 1 to N, and N at most {PARTS_MAX}")]
pub struct NotAPart(String);

impl RunPart {
    /// A run in one process.
    pub const WHOLE: RunPart = RunPart { number: 1, of: 1 };

    /// Its number, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// The number of parts, 1000 at most.
    pub fn of(self) -> u32 {
        self.of
    }

    /// True if the run has no other part.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Every part of its run, in order.
    pub fn all(self) -> impl Iterator<Item = RunPart> {
        (1..=self.of).map(move |number| RunPart { number, of: self.of })
    }

    /// Number of things that belong to the parts before this one, of so many: neighbours belong together, and
    /// no part has more than one more than another.
    pub fn before(self, all: u32) -> u32 {
        (u64::from(all) * u64::from(self.number - 1) / u64::from(self.of)) as u32
    }

    /// Number of things that belong to this part, of so many.
    pub fn share(self, all: u32) -> u32 {
        (u64::from(all) * u64::from(self.number) / u64::from(self.of)) as u32 - self.before(all)
    }

    /// The number that one of this part's threads has among those of all parts, where each part has so many.
    pub fn thread(self, number: u32, threads: u32) -> u32 {
        (self.number - 1) * threads + number
    }

    /// Threads of all parts, where each has so many.
    pub fn threads(self, threads: u32) -> u32 {
        self.of * threads
    }
}

impl FromStr for RunPart {
    type Err = NotAPart;

    fn from_str(text: &str) -> Result<RunPart, NotAPart> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            Some(RunPart { number, of })
        });
        let exists = |part: &RunPart| part.of <= PARTS_MAX && (1..=part.of).contains(&part.number);
        parsed.filter(exists).ok_or_else(|| NotAPart(text.to_owned()))
    }
}

impl TryFrom<String> for RunPart {
    type Error = NotAPart;

    fn try_from(text: String) -> Result<RunPart, NotAPart> {
        text.parse()
    }
}

impl From<RunPart> for String {
    fn from(part: RunPart) -> String {
        part.to_string()
    }
}

impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// A part of a run, and how well it knows when the run began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PartRecord {
    /// The part, and the number of parts.
    pub part: RunPart,
    /// The start that all parts agreed on, by the clock of the place where they met: the database, or the
    /// machine of part 1 \[us since 1970\].
    pub start_us: i64,
    /// The error of this machine's reading of that clock \[s\], at most: half the shortest round trip.
    pub clock_error_s: f64,
    /// The delay from the start until its load began \[s\].
    pub late_s: f64,
}

/// Facts that a merged record keeps of a part as they were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MergedPart {
    /// The part, and its beginning.
    pub part: PartRecord,
    /// Its machine.
    pub host: Host,
    /// Time that it took in all \[s\].
    pub elapsed_s: f64,
    /// Number of its threads.
    pub threads: u32,
    /// Actual less intended start of each request after the warm-up: among many parts, one that cannot keep up is
    /// lost in the lag of all.
    pub lag: Histogram,
}

/// Two parts whose plans are not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The other part.
    pub part: u32,
    /// The thing that differs, in words.
    pub what: String,
    /// Its value there.
    pub there: String,
    /// Its value here.
    pub here: String,
}

/// Why records are not those of the parts of one run.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MergeError {
    /// There is none.
    #[error("there is no record to merge; give one of each part")]
    None,
    /// One is not of a part.
    #[error("record {nth} is of a whole run and not of a part; merge what `--part` has left")]
    NotAPart {
        /// Its place among those given, from 1.
        nth: usize,
    },
    /// Some are missing.
    #[error("{} of {of} {} missing; give the record of each part", named(numbers), being(numbers))]
    Missing {
        /// The parts.
        numbers: Vec<u32>,
        /// The number of parts.
        of: u32,
    },
    /// One is given twice.
    #[error("part {number} is given twice; give one record of each part")]
    Twice {
        /// The part.
        number: u32,
    },
    /// They ran different plans, or against different servers.
    #[error(
        "parts {} and {with} are not of one run: the {} is {} in the one and {} in the other",
        .difference.part, .difference.what, .difference.there, .difference.here
    )]
    Differs {
        /// The other part of the two.
        with: u32,
        /// The difference.
        difference: Difference,
    },
    /// They did not begin together.
    #[error(
        "parts {one} and {other} began {apart_s:.1} s apart, and more than 1 s is too far: they are of \
         different runs, or a machine was too slow; run all parts again"
    )]
    Apart {
        /// One of the two.
        one: u32,
        /// The other.
        other: u32,
        /// The distance between their starts at most \[s\], the errors of their clocks included.
        apart_s: f64,
    },
    /// Nothing of a part was measured.
    #[error("part {number} ended before its first interval was over; run all parts again")]
    Empty {
        /// The part.
        number: u32,
    },
    /// Intervals of two parts do not cover each other.
    #[error(
        "interval {interval} of part {number} begins at {there} and not at {here} as that of part 1: \
         the file was changed, or is of another run"
    )]
    Intervals {
        /// The part.
        number: u32,
        /// The interval, from 1.
        interval: usize,
        /// Its start there.
        there: String,
        /// Its start in part 1.
        here: String,
    },
}

fn being(numbers: &[u32]) -> &'static str {
    if numbers.len() == 1 { "is" } else { "are" }
}

/// Numbers of parts, as a message names them: `part 2`, `parts 2, 3`.
pub fn named(numbers: &[u32]) -> String {
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let s = if numbers.len() == 1 { "" } else { "s" };
    format!("part{s} {}", list.join(", "))
}

/// The first fact in which two plans differ, each `name: value`; a fact that only one of them has is one.
pub fn difference(part: u32, there: &[String], here: &[String]) -> Option<Difference> {
    let halves = |fact: &String| match fact.split_once(": ") {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (fact.clone(), String::from("so")),
    };
    // By name: a fact that only one of them has moves all behind it.
    let value = |facts: &[String], name: &str| {
        let of_name = facts.iter().map(halves).filter(|(own, _)| own == name);
        let values: Vec<String> = of_name.map(|(_, value)| value).collect();
        if values.is_empty() { String::from("not said") } else { values.join(", ") }
    };
    let mut names = here.iter().chain(there).map(|fact| halves(fact).0);
    let what = names.find(|name| value(there, name) != value(here, name))?;
    Some(Difference { part, there: value(there, &what), here: value(here, &what), what })
}

/// One record of each part of a run, in the order of the parts, which began together.
///
/// # Errors
/// If one is missing, there twice or of no part, or if they began more than a second apart.
pub fn arranged<R>(
    records: &[R],
    part_of: impl Fn(&R) -> Option<PartRecord>,
) -> Result<Vec<(PartRecord, &R)>, MergeError> {
    let mut parts = BTreeMap::new();
    for (nth, record) in (1..).zip(records) {
        let part = part_of(record).ok_or(MergeError::NotAPart { nth })?;
        let number = part.part.number();
        if parts.insert(number, (part, record)).is_some() {
            return Err(MergeError::Twice { number });
        }
    }
    let (first, _) = *parts.values().next().ok_or(MergeError::None)?;
    let of = first.part.of();
    for (part, _) in parts.values() {
        if part.part.of() != of {
            let sizes = (of.to_string(), part.part.of().to_string());
            return Err(differs(&first, part, "number of parts", sizes));
        }
    }
    let numbers: Vec<u32> = (1..=of).filter(|number| !parts.contains_key(number)).collect();
    if !numbers.is_empty() {
        return Err(MergeError::Missing { numbers, of });
    }
    let parts: Vec<(PartRecord, &R)> = parts.into_values().collect();
    Ok(parts)
}

/// Two parts that ran different plans: the error.
pub fn differs(
    one: &PartRecord,
    two: &PartRecord,
    what: &str,
    (there, here): (String, String),
) -> MergeError {
    let difference = Difference { part: one.part.number(), what: what.to_owned(), there, here };
    MergeError::Differs { with: two.part.number(), difference }
}

/// Checks that all parts began together, as far as their clocks can tell.
///
/// # Errors
/// If two of them began more than a second apart.
pub fn together(parts: impl Iterator<Item = PartRecord> + Clone) -> Result<(), MergeError> {
    let Some(first) = parts.clone().next() else { return Ok(()) };
    let begun = |part: &PartRecord| {
        part.start_us.saturating_sub(first.start_us) as f64 * 1e-6 + part.late_s
    };
    for one in parts.clone() {
        for other in parts.clone() {
            let sure = one.clock_error_s + other.clock_error_s;
            let apart_s = begun(&other) - begun(&one) + sure;
            let (one, other) = (one.part.number(), other.part.number());
            // What is no number is too far.
            if one != other && (apart_s > APART_MOST_S || apart_s.is_nan()) {
                return Err(MergeError::Apart { one, other, apart_s });
            }
        }
    }
    Ok(())
}

impl RunHeader {
    /// The facts of a plan that must be the same in all parts of its run: names, and values as a person reads
    /// them. Not among them are the machine, the processors that threads are bound to, and sizes of answers,
    /// which the answers themselves decide.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("version of sekisho".to_owned(), self.tool.clone())];
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        fact("target", self.target.clone());
        let kind = match &self.load {
            LoadShape::Closed { .. } => "closed",
            LoadShape::Poisson { .. } | LoadShape::Fixed { .. } => "open",
            LoadShape::Varying { .. } => "open, at a rate that changes",
        };
        fact("load", kind.to_owned());
        match &self.load {
            LoadShape::Closed { clients, think_s } => {
                fact("number of clients", clients.to_string());
                fact("mean think time", format!("{think_s} s"));
            }
            LoadShape::Poisson { rate, in_flight_max } => {
                fact("rate", format!("{rate}/s (poisson)"));
                fact("bound on requests in flight", in_flight_max.to_string());
            }
            LoadShape::Fixed { rate, in_flight_max } => {
                fact("rate", format!("{rate}/s (fixed)"));
                fact("bound on requests in flight", in_flight_max.to_string());
            }
            LoadShape::Varying { course, phases, in_flight_max } => {
                let phases: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
                fact("course of the rate", phases.join(", "));
                fact("points of the rate", format!("{course:?}"));
                fact("bound on requests in flight", in_flight_max.to_string());
            }
        }
        match self.until {
            Until::Requests(requests) => fact("end", format!("after {requests} requests")),
            Until::Seconds(seconds) => fact("end", format!("after {seconds} s")),
        }
        fact("warm-up", format!("{} s", self.warmup_s));
        let class = |class: &ClassSpec| format!("{} x{}", class.name, class.weight);
        fact("requests", self.classes.iter().map(class).collect::<Vec<_>>().join(", "));
        fact("seed", self.seed.to_string());
        for (name, value) in self.settings.iter().filter(|(name, _)| *name != "cpus") {
            fact(name, value.clone());
        }
        facts
    }
}

impl RunRecord {
    /// The record of a whole run from those of its parts, in any order. Histograms merge and counts add, so
    /// that it is what one process would have recorded: its threads are those of all parts, one after the
    /// other.
    ///
    /// A run is as complete as its least complete part: if one was interrupted, cut off, or ended before its
    /// time, the intervals are those in which all of them ran, the record says that it was interrupted, and a
    /// warning names the part. Name, start and command line are those of part 1.
    ///
    /// # Errors
    /// If they are not the parts of one run: one is missing or there twice, their plans differ, or they began
    /// too far apart.
    pub fn merge(records: &[RunRecord]) -> Result<RunRecord, MergeError> {
        let parts = arranged(records, |record| record.header.part)?;
        agree(&parts)?;
        together(parts.iter().map(|(part, _)| *part))?;
        let first = parts[0].1;
        let mut header = RunHeader {
            classes: classes(&parts),
            part: None,
            merged: parts.iter().map(|(part, record)| kept(*part, record)).collect(),
            ..first.header.clone()
        };
        header.settings.remove("cpus");
        let early: Vec<String> =
            parts.iter().filter_map(|(part, record)| early(part, record)).collect();
        let intervals = intervals(&parts, early.is_empty())?;
        let summaries = || parts.iter().filter_map(|(_, record)| record.summary.as_ref());
        let mut warnings = early.clone();
        for (part, record) in &parts {
            let own = record.summary.iter().flat_map(|summary| &summary.warnings);
            warnings.extend(own.map(|warning| format!("part {}: {warning}", part.part.number())));
        }
        let elapsed_s = match early.is_empty() {
            true => summaries().map(|summary| summary.elapsed_s).fold(0.0, f64::max),
            false => intervals.last().map_or(0.0, |last| last.start_s + last.length_s),
        };
        let interrupted = !early.is_empty();
        let summary = Some(RunSummary { elapsed_s, interrupted, warnings });
        Ok(RunRecord { header, intervals, summary })
    }
}

/// A part's record, with what it says of the part.
type PartOf<'a> = (PartRecord, &'a RunRecord);

/// Checks that all parts ran the same plan.
fn agree(parts: &[PartOf<'_>]) -> Result<(), MergeError> {
    let told = |record: &RunRecord| -> Vec<String> {
        record.header.facts().into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
    };
    let (first, record) = &parts[0];
    let here = told(record);
    for (part, other) in &parts[1..] {
        if let Some(found) = difference(first.part.number(), &here, &told(other)) {
            return Err(MergeError::Differs { with: part.part.number(), difference: found });
        }
    }
    Ok(())
}

/// The classes of all parts; a size is known where all parts have the same.
fn classes(parts: &[PartOf<'_>]) -> Vec<ClassSpec> {
    let of = |(nth, class): (usize, &ClassSpec)| {
        let same = |(_, other): &PartOf<'_>| other.header.classes[nth].bytes == class.bytes;
        ClassSpec { bytes: class.bytes.filter(|_| parts.iter().all(same)), ..class.clone() }
    };
    parts[0].1.header.classes.iter().enumerate().map(of).collect()
}

fn kept(part: PartRecord, record: &RunRecord) -> MergedPart {
    let threads = record.intervals.first().map_or(0, |first| first.generator.thread_cpu_s.len());
    let mut lag = Histogram::new();
    record.steady().iter().for_each(|interval| lag.merge(&interval.lag));
    lag.pack();
    MergedPart {
        part,
        host: record.header.host.clone(),
        elapsed_s: ended_s(record),
        threads: threads as u32,
        lag,
    }
}

/// The time that a part ran \[s\].
fn ended_s(record: &RunRecord) -> f64 {
    let last = record.intervals.last().map_or(0.0, |last| last.start_s + last.length_s);
    record.summary.as_ref().map_or(last, |summary| summary.elapsed_s)
}

/// Number of requests that ended, well or not.
fn ended(record: &RunRecord) -> u64 {
    let classes = record.intervals.iter().flat_map(|interval| &interval.classes);
    classes.map(|class| class.completed + class.errors.values().sum::<u64>()).sum()
}

/// The sentence on a part that ended before its time.
fn early(part: &PartRecord, record: &RunRecord) -> Option<String> {
    let (number, at) = (part.part.number(), ended_s(record));
    let how = match &record.summary {
        None => "was cut off",
        Some(summary) if summary.interrupted => "was interrupted",
        Some(_) => match record.header.until {
            Until::Seconds(length) => {
                let whole = length + record.header.warmup_s;
                if at >= whole * (1.0 - SHORT_MOST) {
                    return None;
                }
                "ended before its time"
            }
            Until::Requests(all) => {
                let (before, of) = (u64::from(number - 1), u64::from(part.part.of()));
                if ended(record) >= all.saturating_sub(before).div_ceil(of) {
                    return None;
                }
                "ended before its time"
            }
        },
    };
    Some(format!(
        "part {number} {how}, after {}: the run is what all parts measured until then; run all parts \
         again for the whole",
        time(at)
    ))
}

/// The intervals of all parts; of parts that ended early those in which all ran in full.
fn intervals(parts: &[PartOf<'_>], complete: bool) -> Result<Vec<Interval>, MergeError> {
    for (part, record) in parts {
        if record.intervals.is_empty() {
            return Err(MergeError::Empty { number: part.part.number() });
        }
    }
    let lengths = || parts.iter().map(|(_, record)| record.intervals.len());
    let count = if complete { lengths().max() } else { lengths().min() }.unwrap_or(0);
    let longest = parts.iter().max_by_key(|(_, record)| record.intervals.len());
    let longest = longest.map_or(parts[0].1, |(_, record)| record);
    let mut all = Vec::with_capacity(count);
    for at in 0..count {
        let start_s = longest.intervals[at].start_s;
        for (part, record) in parts {
            let Some(own) = record.intervals.get(at) else { continue };
            if (own.start_s - start_s).abs() > SAME_S {
                return Err(MergeError::Intervals {
                    number: part.part.number(),
                    interval: at + 1,
                    there: time(own.start_s),
                    here: time(start_s),
                });
            }
        }
        let lengths = parts.iter().filter_map(|(_, record)| record.intervals.get(at));
        let (least, most) = lengths.fold((f64::INFINITY, 0.0_f64), |(least, most), one| {
            (least.min(one.length_s), most.max(one.length_s))
        });
        // One that a part did not see to its end counts less than it lasted.
        if !complete && most - least > SAME_S {
            break;
        }
        all.push(merged(parts, at));
    }
    Ok(all)
}

/// One interval of all parts; a thread of a part that had ended used no processor.
fn merged(parts: &[PartOf<'_>], at: usize) -> Interval {
    let threads = |record: &RunRecord| record.intervals[0].generator.thread_cpu_s.len();
    let of = |(_, record): &PartOf<'_>| {
        record.intervals.get(at).cloned().unwrap_or_else(|| nothing(threads(record)))
    };
    let own: Vec<Interval> = parts.iter().map(of).collect();
    sum(&own.iter().collect::<Vec<_>>())
}

/// Interval of a part that had ended.
fn nothing(threads: usize) -> Interval {
    Interval {
        start_s: 0.0,
        length_s: 0.0,
        classes: Vec::new(),
        in_flight_mean: 0.0,
        started: 0,
        connects: 0,
        lag: Histogram::new(),
        generator: GeneratorHealth { thread_cpu_s: vec![0.0; threads] },
    }
}

/// The same interval of several parts as one: histograms merge, counts add, and threads come one after the
/// other. It is as long as the longest of them.
pub fn sum(parts: &[&Interval]) -> Interval {
    let length_s = parts.iter().map(|one| one.length_s).fold(0.0, f64::max);
    let classes = parts.iter().map(|one| one.classes.len()).max().unwrap_or(0);
    let mut all =
        Interval { length_s, classes: vec![ClassCounts::default(); classes], ..nothing(0) };
    for one in parts {
        all.start_s = one.start_s.max(all.start_s);
        all.in_flight_mean += one.in_flight_mean * one.length_s / length_s.max(f64::MIN_POSITIVE);
        all.started += one.started;
        all.connects += one.connects;
        all.lag.merge(&one.lag);
        all.generator.thread_cpu_s.extend(&one.generator.thread_cpu_s);
        for (sum, of_part) in all.classes.iter_mut().zip(&one.classes) {
            sum.completed += of_part.completed;
            sum.bytes += of_part.bytes;
            for (kind, count) in &of_part.errors {
                *sum.errors.entry(*kind).or_default() += count;
            }
            sum.total.merge(&of_part.total);
            sum.first_byte.merge(&of_part.first_byte);
            sum.connect.merge(&of_part.connect);
        }
    }
    all
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
