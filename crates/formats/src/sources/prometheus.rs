//! Prometheus: the text of two scrapes, or the answers of range queries as JSON; counters and classic
//! histograms as they are, without `rate()`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use advise::{DemandEvidence, Window};
use serde_json::Value;

use super::{shown, text_of, wrong};
use crate::ReadError;

/// Metrics that are meant.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The histogram or summary of requests, without `_count`; none if there is only one.
    pub requests: Option<String>,
    /// The label that tells classes apart; none for one class.
    pub by: Option<String>,
    /// The counter of processor seconds; none for a usual one.
    pub busy: Option<String>,
    /// The time between two scrapes without time stamps \[s\].
    pub seconds: Option<f64>,
}

/// The usual counters of processor seconds, the likelier first.
const BUSY: [&str; 3] =
    ["process_cpu_seconds_total", "container_cpu_usage_seconds_total", "node_cpu_seconds_total"];
/// Modes of `node_cpu_seconds_total` in which a processor works for nobody here.
const IDLE: [&str; 3] = ["idle", "iowait", "steal"];

/// A counter with its labels, at times \[s\].
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    points: BTreeMap<u64, f64>,
}

/// Moments are compared by the millisecond.
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

/// Reads scrapes or range queries, and what they say about the use of the processors; and notes.
///
/// # Errors
/// If a file cannot be read, or a line of it: its place and the cause.
pub fn read_metrics(
    paths: &[PathBuf],
    metrics: &Metrics,
) -> Result<(DemandEvidence, Vec<String>), ReadError> {
    let mut series: BTreeMap<(String, String), Series> = BTreeMap::new();
    let texts = paths.iter().map(|path| text_of(path)).collect::<Result<Vec<_>, _>>()?;
    let is_json = texts.iter().map(|text| text.trim_start().starts_with('{'));
    let is_json: Vec<bool> = is_json.collect();
    if is_json.iter().any(|json| *json) && !is_json.iter().all(|json| *json) {
        let cause = "some files are JSON and some are text; give scrapes or range queries";
        return Err(ReadError::whole(cause.into()));
    }
    for (nth, (path, text)) in paths.iter().zip(&texts).enumerate() {
        if is_json[nth] {
            range_query(path, text, &mut series)?;
        } else {
            let given = metrics.seconds.map(|seconds| seconds * nth as f64);
            scrape(path, text, given, paths.len(), &mut series)?;
        }
    }
    let series: Vec<Series> = series.into_values().collect();
    evidence(&series, paths, metrics)
}

fn add(
    series: &mut BTreeMap<(String, String), Series>,
    name: String,
    labels: BTreeMap<String, String>,
    at: u64,
    value: f64,
) {
    let key = (name.clone(), format!("{labels:?}"));
    let entry = series.entry(key).or_insert(Series { name, labels, points: BTreeMap::new() });
    entry.points.insert(at, value);
}

/// The JSON answer of `/api/v1/query_range`.
fn range_query(
    path: &Path,
    text: &str,
    series: &mut BTreeMap<(String, String), Series>,
) -> Result<(), ReadError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| wrong(path, error.line(), format!("this JSON is broken: {error}")))?;
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Err(wrong(path, 1, format!("the query failed: {error}")));
    }
    let is_matrix = value.pointer("/data/resultType").and_then(Value::as_str) == Some("matrix");
    let results = value.pointer("/data/result").and_then(Value::as_array);
    let Some(results) = results.filter(|_| is_matrix) else {
        let cause = "this is no answer of a range query (`data.resultType` is not `matrix`)";
        return Err(wrong(path, 1, cause));
    };
    for result in results {
        let labels = result.get("metric").and_then(Value::as_object);
        let mut labels: BTreeMap<String, String> = labels
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        let Some(name) = labels.remove("__name__") else {
            let cause =
                "a result has no name: query the counters themselves, without rate() or sum()";
            return Err(wrong(path, 1, cause));
        };
        if result.get("histograms").is_some() {
            let cause = format!(
                "`{name}` is a native histogram, which is not read: query `{name}_bucket`, `_sum` and \
                 `_count` of a classic one"
            );
            return Err(wrong(path, 1, cause));
        }
        for point in result.get("values").and_then(Value::as_array).into_iter().flatten() {
            let at = point.get(0).and_then(Value::as_f64).filter(|at| (0.0..1e12).contains(at));
            let value = point.get(1).and_then(Value::as_str).and_then(super::number);
            let (Some(at), Some(value)) = (at, value) else {
                let cause =
                    format!("`{name}` has a value that is none: {}", shown(&point.to_string()));
                return Err(wrong(path, 1, cause));
            };
            add(series, name.clone(), labels.clone(), milliseconds(at), value);
        }
    }
    Ok(())
}

/// The text of a scrape.
fn scrape(
    path: &Path,
    text: &str,
    given: Option<f64>,
    all: usize,
    series: &mut BTreeMap<(String, String), Series>,
) -> Result<(), ReadError> {
    if all < 2 {
        let cause = "one scrape has counts since the start of the program; give the one before too";
        return Err(wrong(path, 1, cause));
    }
    for (nth, line) in text.lines().enumerate() {
        let line_text = line.trim();
        if line_text.is_empty() || line_text.starts_with('#') {
            continue;
        }
        let bad = || wrong(path, nth + 1, format!("`{}` is no sample", shown(line)));
        let (name, labels, rest) = sample(line_text).ok_or_else(bad)?;
        let mut words = rest.split_whitespace();
        let word = words.next().ok_or_else(bad)?;
        let value = match super::number(word) {
            Some(value) => value,
            // Gauges may be below 0 or not a number; no counter is.
            None if word.parse::<f64>().is_ok() => continue,
            None => return Err(bad()),
        };
        let stamp = match words.next() {
            Some(word) => Some(word.parse::<u64>().map_err(|_| bad())?),
            None => given.map(milliseconds),
        };
        let Some(at) = stamp else {
            let cause =
                "the scrapes have no time stamps; give the time between them with --seconds";
            return Err(wrong(path, nth + 1, cause));
        };
        add(series, name, labels, at, value);
    }
    Ok(())
}

/// `name{label="value",...} rest`.
fn sample(line: &str) -> Option<(String, BTreeMap<String, String>, &str)> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut labels = BTreeMap::new();
    let Some(mut rest) = rest.strip_prefix('{') else { return Some((name.into(), labels, rest)) };
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((name.into(), labels, rest));
        }
        let (label, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut escaped = false;
        let mut end = None;
        for (at, c) in after.char_indices() {
            match c {
                'n' if escaped => value.push('\n'),
                _ if escaped => value.push(c),
                '\\' => {
                    escaped = true;
                    continue;
                }
                '"' => {
                    end = Some(at);
                    break;
                }
                _ => value.push(c),
            }
            escaped = false;
        }
        labels.insert(label.trim().to_owned(), value);
        rest = &after[end? + 1..];
    }
}

fn evidence(
    series: &[Series],
    paths: &[PathBuf],
    metrics: &Metrics,
) -> Result<(DemandEvidence, Vec<String>), ReadError> {
    let names: BTreeSet<&str> = series.iter().map(|series| series.name.as_str()).collect();
    let requests = requests_of(&names, metrics)?;
    let busy = busy_of(&names, metrics)?;
    let class_of = |series: &Series| match &metrics.by {
        Some(label) => series.labels.get(label).cloned().unwrap_or_else(|| "others".into()),
        None => "requests".into(),
    };
    let of = |name: &str| series.iter().filter(|s| s.name == name).collect::<Vec<_>>();
    let (count, counts) = counts_of(series, &requests);
    let sums = of(&format!("{requests}_sum"));
    check_label(&counts, &count, metrics)?;
    let is_work = |s: &&&Series| !s.labels.get("mode").is_some_and(|m| IDLE.contains(&&**m));
    let works: Vec<&Series> = of(busy).iter().filter(is_work).copied().collect();
    let classes: BTreeSet<String> = counts.iter().map(|series| class_of(series)).collect();
    let classes: Vec<String> = classes.into_iter().collect();
    let mut notes = Vec::new();
    let buckets = of(&format!("{requests}_bucket"));
    let histograms = classes
        .iter()
        .map(|class| {
            let own = buckets.iter().filter(|series| class_of(series) == *class).copied();
            Histogram::new(class, own, &mut notes)
        })
        .collect::<Result<Vec<_>, _>>()?;
    // Windows are between moments at which the processors were looked at.
    let moments: BTreeSet<u64> = works.iter().flat_map(|s| s.points.keys().copied()).collect();
    let moments: Vec<u64> = moments.into_iter().collect();
    let [counts, sums] = [counts, sums].map(|all| split(&classes, &all, &class_of));
    let counters = Counters { works, counts, sums, histograms };
    let windows: Vec<Window> =
        moments.windows(2).filter_map(|pair| counters.window(pair[0], pair[1])).collect();
    let skipped = moments.len().saturating_sub(1 + windows.len());
    let histograms = counters.histograms;
    let is_broken = |window: &&Window| {
        let mut each = histograms.iter().zip(&window.within);
        each.any(|(histogram, within)| !histogram.bounds.is_empty() && within.is_none())
    };
    let broken = windows.iter().filter(is_broken).count();
    if windows.is_empty() {
        return Err(ReadError::whole(format!(
            "no two moments have `{busy}` and `{count}` both: query them with the same start, end \
             and step"
        )));
    }
    notes.insert(
        0,
        format!(
            "{} windows; requests from `{count}`, processor seconds from `{busy}`",
            windows.len()
        ),
    );
    notes.extend(left_out(skipped, broken));
    if of(&requests).iter().any(|series| series.labels.contains_key("quantile")) {
        notes.push(format!(
            "the quantiles of the summary `{requests}` are left out: they are of some time before each \
             scrape and cannot be added; a histogram has buckets instead"
        ));
    }
    let sources = paths.iter().map(|path| path.display().to_string()).collect();
    let bounds = histograms.into_iter().map(|histogram| histogram.bounds).collect();
    Ok((DemandEvidence { sources, classes, bounds, windows }, notes))
}

/// The series of each class.
fn split<'a>(
    classes: &[String],
    all: &[&'a Series],
    class_of: &impl Fn(&Series) -> String,
) -> Vec<Vec<&'a Series>> {
    let of = |class: &String| all.iter().filter(|s| class_of(s) == *class).copied().collect();
    classes.iter().map(of).collect()
}

/// Series that count, by class but for the processors.
struct Counters<'a> {
    works: Vec<&'a Series>,
    counts: Vec<Vec<&'a Series>>,
    sums: Vec<Vec<&'a Series>>,
    histograms: Vec<Histogram<'a>>,
}

impl Counters<'_> {
    /// Changes between two moments; none if a counter of requests or processors began anew, or a
    /// value of it is missing.
    fn window(&self, from: u64, to: u64) -> Option<Window> {
        let grown = |series: &[&Series]| growth(series.iter().copied(), from, to);
        let completed: Vec<f64> =
            self.counts.iter().map(|own| grown(own)).collect::<Option<_>>()?;
        let response = self.sums.iter().map(|own| grown(own).filter(|_| !own.is_empty())).collect();
        let of_each = self.histograms.iter().zip(&completed);
        let within = of_each.map(|(one, completed)| one.within(from, to, *completed)).collect();
        let seconds = (to - from) as f64 / 1e3;
        Some(Window { seconds, busy: grown(&self.works)?, completed, response, within })
    }
}

/// Notes on the windows that say nothing, or nothing of quantiles.
fn left_out(skipped: usize, broken: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if skipped > 0 {
        notes.push(format!(
            "{skipped} windows are left out: a counter began anew in them, or a value is missing"
        ));
    }
    if broken > 0 {
        notes.push(format!(
            "the buckets of {broken} windows are left out: one began anew or is missing, or they \
             contradict each other or the count"
        ));
    }
    notes
}

/// The counter of requests: its name and its series; buckets without a bound serve where there is none.
fn counts_of<'a>(series: &'a [Series], requests: &str) -> (String, Vec<&'a Series>) {
    let count = format!("{requests}_count");
    let counts: Vec<&Series> = series.iter().filter(|s| s.name == count).collect();
    if !counts.is_empty() {
        return (count, counts);
    }
    let bucket = format!("{requests}_bucket");
    let is_all = |s: &&Series| s.labels.get("le").is_some_and(|le| le == "+Inf");
    let counts = series.iter().filter(|s| s.name == bucket).filter(is_all).collect();
    (format!("{bucket}{{le=\"+Inf\"}}"), counts)
}

/// The cumulative buckets of one class, from however many programs.
struct Histogram<'a> {
    /// The finite bounds that all programs have, ascending.
    bounds: Vec<f64>,
    /// By bound.
    buckets: Vec<Vec<&'a Series>>,
}

impl<'a> Histogram<'a> {
    /// # Errors
    /// If a bound is no number.
    fn new(
        class: &str,
        buckets: impl Iterator<Item = &'a Series>,
        notes: &mut Vec<String>,
    ) -> Result<Histogram<'a>, ReadError> {
        let mut programs: BTreeMap<String, Vec<(f64, &Series)>> = BTreeMap::new();
        for series in buckets {
            let mut labels = series.labels.clone();
            let le = labels.remove("le").unwrap_or_default();
            let bound = le.parse::<f64>().ok().filter(|bound| !bound.is_nan());
            let bound = bound.ok_or_else(|| {
                let name = &series.name;
                ReadError::whole(format!(
                    "`{name}` has a bucket without a bound: le=\"{}\"",
                    shown(&le)
                ))
            })?;
            programs.entry(format!("{labels:?}")).or_default().push((bound, series));
        }
        let mut bounds: Vec<f64> = programs
            .values()
            .flatten()
            .map(|(bound, _)| *bound)
            .filter(|b| b.is_finite())
            .collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        let all = bounds.len();
        bounds.retain(|bound| programs.values().all(|own| own.iter().any(|(b, _)| b == bound)));
        if bounds.len() < all {
            notes.push(format!(
                "of {all} bounds of the histogram of `{class}` those are used that all its series \
                 have: {}",
                bounds.len()
            ));
        }
        let with = |bound: &f64| {
            let own = programs.values().flatten().filter(|(b, _)| b == bound);
            own.map(|(_, series)| *series).collect()
        };
        let buckets = bounds.iter().map(with).collect();
        Ok(Histogram { bounds, buckets })
    }

    /// Numbers of responses between two moments that took at most as long as each bound; none if a
    /// bucket began anew or is missing, or they contradict each other or the count of all.
    fn within(&self, from: u64, to: u64, completed: f64) -> Option<Vec<f64>> {
        // Counters of one program are not read in one instant.
        const SKEW: f64 = 0.01;
        if self.bounds.is_empty() {
            return None;
        }
        let grown = self.buckets.iter().map(|own| growth(own.iter().copied(), from, to));
        let grown: Vec<f64> = grown.collect::<Option<_>>()?;
        let rises = grown.windows(2).all(|pair| pair[0] <= pair[1]);
        let fits = grown.iter().all(|within| *within <= completed * (1.0 + SKEW) + 1.0);
        let seen = grown.into_iter().map(|within| within.min(completed)).collect();
        (rises && fits).then_some(seen)
    }
}

/// Growth of counters in all between two moments; none if one began anew, or a value is missing.
fn growth<'a>(series: impl Iterator<Item = &'a Series>, from: u64, to: u64) -> Option<f64> {
    let mut sum = 0.0;
    for series in series {
        sum += match (series.points.get(&from), series.points.get(&to)) {
            (Some(from), Some(to)) if to >= from => to - from,
            // A counter that appears counts from 0.
            (None, Some(grown)) if series.points.keys().next() == Some(&to) => *grown,
            (None, None) => 0.0,
            _ => return None,
        };
    }
    Some(sum)
}

/// # Errors
/// If no request has the label by which classes are told apart.
fn check_label(counts: &[&Series], count: &str, metrics: &Metrics) -> Result<(), ReadError> {
    if let Some(label) = &metrics.by
        && !counts.iter().any(|series| series.labels.contains_key(label))
    {
        let known: BTreeSet<&str> =
            counts.iter().flat_map(|s| s.labels.keys().map(String::as_str)).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(ReadError::whole(format!(
            "`{count}` has no label `{label}` (--by); it has {known}"
        )));
    }
    Ok(())
}

/// The counter of processor seconds, by name or because it is a usual one.
fn busy_of<'a>(names: &BTreeSet<&'a str>, metrics: &'a Metrics) -> Result<&'a str, ReadError> {
    Ok(match &metrics.busy {
        Some(name) if names.contains(name.as_str()) => name.as_str(),
        Some(name) => {
            return Err(ReadError::whole(format!("no metric is called `{name}` (--busy)")));
        }
        None => *BUSY.iter().find(|name| names.contains(**name)).ok_or_else(|| {
            ReadError::whole(format!(
                "no counter of processor seconds is there (looked for {}); name it with --busy",
                BUSY.join(", ")
            ))
        })?,
    })
}

/// The histogram of the requests, by name or because there is no other.
fn requests_of(names: &BTreeSet<&str>, metrics: &Metrics) -> Result<String, ReadError> {
    let has = |base: &str| {
        ["count", "bucket"].iter().any(|end| names.contains(format!("{base}_{end}").as_str()))
    };
    if let Some(given) = &metrics.requests {
        let base = given.trim_end_matches("_count").trim_end_matches("_sum");
        let base = base.trim_end_matches("_bucket");
        return if has(base) {
            Ok(base.to_owned())
        } else {
            Err(ReadError::whole(format!("no metric is called `{base}_count` (--requests)")))
        };
    }
    let bases = names.iter().filter_map(|name| name.strip_suffix("_sum"));
    let found: Vec<&str> = bases.filter(|base| has(base)).collect();
    match found[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(ReadError::whole(
            "no histogram or summary of requests is there (`..._count` with `..._sum`)".into(),
        )),
        _ => Err(ReadError::whole(format!(
            "several histograms are there ({}): say which with --requests",
            found.join(", ")
        ))),
    }
}
