//! Prometheus: the text of two scrapes, or the answers of range queries as JSON; counters as they
//! are, without `rate()`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use advise::{DemandEvidence, Window};
use serde_json::Value;

use super::{shown, text_of, wrong};
use crate::verdict::Failure;

/// Which metrics are meant.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// The histogram or summary of requests, without `_count`; none if there is only one.
    pub(crate) requests: Option<String>,
    /// The label that tells classes apart; none for one class.
    pub(crate) by: Option<String>,
    /// The counter of processor seconds; none for a usual one.
    pub(crate) busy: Option<String>,
    /// The time between two scrapes without time stamps \[s\].
    pub(crate) seconds: Option<f64>,
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
pub(crate) fn read_metrics(
    paths: &[PathBuf],
    metrics: &Metrics,
) -> Result<(DemandEvidence, Vec<String>), Failure> {
    let mut series: BTreeMap<(String, String), Series> = BTreeMap::new();
    let texts = paths.iter().map(|path| text_of(path)).collect::<Result<Vec<_>, _>>()?;
    let is_json = texts.iter().map(|text| text.trim_start().starts_with('{'));
    let is_json: Vec<bool> = is_json.collect();
    if is_json.iter().any(|json| *json) && !is_json.iter().all(|json| *json) {
        let cause = "some files are JSON and some are text; give scrapes or range queries";
        return Err(Failure::Usage(cause.into()));
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
) -> Result<(), Failure> {
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
) -> Result<(), Failure> {
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
) -> Result<(DemandEvidence, Vec<String>), Failure> {
    let usage = |cause: String| Failure::Usage(cause);
    let names: BTreeSet<&str> = series.iter().map(|series| series.name.as_str()).collect();
    let requests = requests_of(&names, metrics)?;
    let busy = busy_of(&names, metrics)?;
    let (count, sum) = (format!("{requests}_count"), format!("{requests}_sum"));
    let class_of = |series: &Series| match &metrics.by {
        Some(label) => series.labels.get(label).cloned().unwrap_or_else(|| "others".into()),
        None => "requests".into(),
    };
    let of = |name: &str| series.iter().filter(|s| s.name == name).collect::<Vec<_>>();
    let (counts, sums) = (of(&count), of(&sum));
    check_label(&counts, &count, metrics)?;
    let is_work = |s: &&&Series| !s.labels.get("mode").is_some_and(|m| IDLE.contains(&&**m));
    let works: Vec<&Series> = of(busy).iter().filter(is_work).copied().collect();
    let classes: BTreeSet<String> = counts.iter().map(|series| class_of(series)).collect();
    let classes: Vec<String> = classes.into_iter().collect();
    // Windows are between moments at which the processors were looked at.
    let moments: BTreeSet<u64> = works.iter().flat_map(|s| s.points.keys().copied()).collect();
    let moments: Vec<u64> = moments.into_iter().collect();
    let mut windows = Vec::new();
    let mut skipped = 0;
    for pair in moments.windows(2) {
        let grown = |all: &[&Series], class: Option<&String>| {
            let of_class = all.iter().filter(|s| class.is_none_or(|class| class_of(s) == *class));
            growth(of_class.copied(), pair[0], pair[1])
        };
        let completed: Option<Vec<f64>> =
            classes.iter().map(|class| grown(&counts, Some(class))).collect();
        let (Some(busy), Some(completed)) = (grown(&works, None), completed) else {
            skipped += 1;
            continue;
        };
        let response =
            classes.iter().map(|class| grown(&sums, Some(class)).filter(|_| !sums.is_empty()));
        let response = response.collect();
        let seconds = (pair[1] - pair[0]) as f64 / 1e3;
        windows.push(Window { seconds, busy, completed, response });
    }
    if windows.is_empty() {
        return Err(usage(format!(
            "no two moments have `{busy}` and `{count}` both: query them with the same start, end \
             and step"
        )));
    }
    let mut notes = vec![format!(
        "{} windows; requests from `{count}`, processor seconds from `{busy}`",
        windows.len()
    )];
    if skipped > 0 {
        notes.push(format!(
            "{skipped} windows are left out: a counter began anew in them, or a value is missing"
        ));
    }
    let sources = paths.iter().map(|path| path.display().to_string()).collect();
    Ok((DemandEvidence { sources, classes, windows }, notes))
}

/// How much counters grew in all between two moments; none if one began anew, or a value is missing.
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
fn check_label(counts: &[&Series], count: &str, metrics: &Metrics) -> Result<(), Failure> {
    if let Some(label) = &metrics.by
        && !counts.iter().any(|series| series.labels.contains_key(label))
    {
        let known: BTreeSet<&str> =
            counts.iter().flat_map(|s| s.labels.keys().map(String::as_str)).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::Usage(format!(
            "`{count}` has no label `{label}` (--by); it has {known}"
        )));
    }
    Ok(())
}

/// The counter of processor seconds, by name or because it is a usual one.
fn busy_of<'a>(names: &BTreeSet<&'a str>, metrics: &'a Metrics) -> Result<&'a str, Failure> {
    Ok(match &metrics.busy {
        Some(name) if names.contains(name.as_str()) => name.as_str(),
        Some(name) => return Err(Failure::Usage(format!("no metric is called `{name}` (--busy)"))),
        None => *BUSY.iter().find(|name| names.contains(**name)).ok_or_else(|| {
            Failure::Usage(format!(
                "no counter of processor seconds is there (looked for {}); name it with --busy",
                BUSY.join(", ")
            ))
        })?,
    })
}

/// The histogram of the requests, by name or because there is no other.
fn requests_of(names: &BTreeSet<&str>, metrics: &Metrics) -> Result<String, Failure> {
    let has = |base: &str| names.contains(format!("{base}_count").as_str());
    if let Some(given) = &metrics.requests {
        let base = given.trim_end_matches("_count").trim_end_matches("_sum");
        let base = base.trim_end_matches("_bucket");
        return if has(base) {
            Ok(base.to_owned())
        } else {
            Err(Failure::Usage(format!("no metric is called `{base}_count` (--requests)")))
        };
    }
    let bases = names.iter().filter_map(|name| name.strip_suffix("_count"));
    let found: Vec<&str> =
        bases.filter(|base| names.contains(format!("{base}_sum").as_str())).collect();
    match found[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(Failure::Usage(
            "no histogram or summary of requests is there (`..._count` with `..._sum`)".into(),
        )),
        _ => Err(Failure::Usage(format!(
            "several histograms are there ({}): say which with --requests",
            found.join(", ")
        ))),
    }
}
