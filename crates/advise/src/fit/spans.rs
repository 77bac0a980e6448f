//! Traces: which service calls which, how often, how long each works itself, and how long each is
//! held while it waits for those that it calls (a layered model; Rolia and Sevcik 1995).

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Draft, RowStand, SourceFit, SourceRow, constant, listed, open_class, station};
use super::{FitError, FitOptions};
use crate::StationName;

/// A span of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: String,
    /// Its own name within that.
    pub id: String,
    /// The span that it is a part of; none for the root.
    pub parent: Option<String>,
    /// The service that did it.
    pub service: String,
    /// The operation.
    pub operation: String,
    /// When it began \[ns\].
    pub start: u64,
    /// When it ended \[ns\], not before it began.
    pub end: u64,
}

/// The largest share of traces that may be broken: of which a part is missing.
const BROKEN_MAX: f64 = 0.5;

/// Time of a class of traces at an operation: sums over the traces, and of their squares.
#[derive(Clone, Default)]
struct Spent {
    visits: f64,
    own: f64,
    own_square: f64,
    held: f64,
    /// Time held while calling others.
    calling: f64,
}

/// All traces that begin alike.
#[derive(Default)]
struct Class {
    traces: f64,
    whole: f64,
    at: BTreeMap<(String, String), Spent>,
}

/// Findings beside the classes.
#[derive(Default)]
struct Flaws {
    /// Traces without exactly one root, or with parents that are missing.
    broken: usize,
    /// Spans that begin before or end after the span that they are a part of.
    outside: usize,
    first: Option<u64>,
    last: u64,
}

/// Fits the stations, visits and own times that traces tell.
///
/// # Errors
/// If there is no whole trace, or most are not whole.
pub fn fit_spans(
    spans: &[Span],
    sources: &[String],
    options: &FitOptions,
) -> Result<SourceFit, FitError> {
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        traces.entry(&span.trace).or_default().push(span);
    }
    let (mut classes, mut flaws) = (BTreeMap::<String, Class>::new(), Flaws::default());
    let mut calls: BTreeMap<(String, String), f64> = BTreeMap::new();
    for trace in traces.values() {
        if !follow(trace, &mut classes, &mut calls, &mut flaws) {
            flaws.broken += 1;
        }
    }
    let whole = traces.len() - flaws.broken;
    if whole == 0 || flaws.broken as f64 > BROKEN_MAX * traces.len() as f64 {
        return Err(FitError::TooLittle(format!(
            "{} of {} traces are not whole (no single root, or a parent that is missing): export \
             complete traces, sampled as wholes",
            flaws.broken,
            traces.len()
        )));
    }
    let seconds = flaws.last.saturating_sub(flaws.first.unwrap_or(0)) as f64 / 1e9;
    if seconds <= 0.0 {
        return Err(FitError::TooLittle("the traces take no time at all".into()));
    }
    let mut notes = notes(&flaws, traces.len(), &calls);
    let mut draft = Draft::new();
    let mut rows = Vec::new();
    build(&mut draft, &classes, seconds, options, &mut rows);
    draft.unidentified.push(
        "how much of a service's own time is waiting for its processor, its locks or its pools: \
         spans do not tell, so the stations are delays, and the scenario holds at the load that was \
         seen; give processor seconds from a metrics source for a demand"
            .into(),
    );
    draft.unidentified.push(
        "how many slots (threads, connections) each service has: the times `held` say how many are \
         taken at a rate, by Little's law"
            .into(),
    );
    if classes.len() > 1 {
        notes.push(format!("{} kinds of requests, by the root of their traces", classes.len()));
    }
    let rate = whole as f64 / seconds;
    let in_flight: f64 = classes.values().map(|class| class.whole).sum::<f64>() / seconds;
    let scenario = draft.scenario(options, sources, [1.0, in_flight.max(1.0)], rate);
    Ok(SourceFit { scenario, rows, witnesses: Vec::new(), notes })
}

/// Adds a trace to its class; false if it is not whole.
fn follow(
    trace: &[&Span],
    classes: &mut BTreeMap<String, Class>,
    calls: &mut BTreeMap<(String, String), f64>,
    flaws: &mut Flaws,
) -> bool {
    let mut by_id: BTreeMap<&str, &Span> = BTreeMap::new();
    for span in trace {
        if by_id.insert(&span.id, span).is_some() {
            return false;
        }
    }
    let mut children: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    let mut root = None;
    for span in trace {
        match span.parent.as_deref() {
            None if root.is_some() => return false,
            None => root = Some(*span),
            Some(parent) if by_id.contains_key(parent) => {
                children.entry(parent).or_default().push(span);
            }
            Some(_) => return false,
        }
    }
    let Some(root) = root else { return false };
    // From the root all are reached, or some go round in a circle.
    let mut reached = BTreeSet::new();
    let mut open = vec![root.id.as_str()];
    while let Some(id) = open.pop() {
        reached.insert(id);
        open.extend(children.get(id).into_iter().flatten().map(|child| child.id.as_str()));
    }
    if reached.len() != trace.len() {
        return false;
    }
    // Not before here: a broken trace must not lengthen the time that the rates are taken over.
    flaws.first = Some(flaws.first.map_or(root.start, |first| first.min(root.start)));
    flaws.last = flaws.last.max(root.end);
    let class = classes.entry(format!("{} {}", root.service, root.operation)).or_default();
    class.traces += 1.0;
    class.whole += seconds(root.start, root.end);
    let mut own: BTreeMap<(String, String), f64> = BTreeMap::new();
    for span in trace {
        let parts = children.get(span.id.as_str()).map_or(&[][..], Vec::as_slice);
        let covered = covered(span, parts, flaws);
        let held = seconds(span.start, span.end);
        let key = (span.service.clone(), span.operation.clone());
        let spent = class.at.entry(key.clone()).or_default();
        spent.visits += 1.0;
        spent.held += held;
        spent.calling += covered;
        *own.entry(key).or_default() += held - covered;
        for part in parts.iter().filter(|part| part.service != span.service) {
            *calls.entry((span.service.clone(), part.service.clone())).or_default() += 1.0;
        }
    }
    // A trace may come to an operation several times; its square is that of the sum.
    for (key, own) in own {
        let spent = class.at.entry(key).or_default();
        spent.own += own;
        spent.own_square += own * own;
    }
    true
}

fn seconds(start: u64, end: u64) -> f64 {
    end.saturating_sub(start) as f64 / 1e9
}

/// Time of a span that its parts cover, those at the same time counted once \[s\].
fn covered(span: &Span, parts: &[&Span], flaws: &mut Flaws) -> f64 {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for part in parts {
        if part.start < span.start || part.end > span.end {
            flaws.outside += 1;
        }
        let (start, end) = (part.start.max(span.start), part.end.min(span.end));
        if start < end {
            pieces.push((start, end));
        }
    }
    pieces.sort_unstable();
    // By rising start, all before `reached` was counted already.
    let (mut sum, mut reached) = (0, span.start);
    for (start, end) in pieces {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum as f64 / 1e9
}

fn notes(flaws: &Flaws, traces: usize, calls: &BTreeMap<(String, String), f64>) -> Vec<String> {
    let mut notes = Vec::new();
    if flaws.broken > 0 {
        notes.push(format!("{} of {traces} traces are not whole and left out", flaws.broken));
    }
    if flaws.outside > 0 {
        notes.push(format!(
            "{} spans begin before or end after the span that they are a part of: they run on after \
             the answer, or clocks differ; what is outside is not counted as held",
            flaws.outside
        ));
    }
    let pairs: Vec<String> = calls.keys().map(|(from, to)| format!("{from} -> {to}")).collect();
    if !pairs.is_empty() {
        notes.push(format!("held while calling: {}", listed(&pairs)));
    }
    notes
}

/// A delay for each service, a class for each root.
fn build(
    draft: &mut Draft,
    classes: &BTreeMap<String, Class>,
    seconds: f64,
    options: &FitOptions,
    rows: &mut Vec<SourceRow>,
) {
    let services: BTreeSet<&String> =
        classes.values().flat_map(|class| class.at.keys().map(|(service, _)| service)).collect();
    let mut stations: BTreeMap<&String, _> = services
        .into_iter()
        .map(|service| (service, station(service, StationName::Delay, 1)))
        .collect();
    for (name, class) in classes {
        let mut own: BTreeMap<&String, f64> = BTreeMap::new();
        for ((service, operation), spent) in &class.at {
            let mean = spent.own / class.traces;
            let square = (spent.own_square / class.traces - mean * mean).max(0.0);
            let half = if class.traces > 1.0 {
                1.96 * (square / (class.traces - 1.0)).sqrt()
            } else {
                mean
            };
            let place = format!("{service} {operation}");
            let visits = spent.visits / class.traces;
            let of = |what: &str| match classes.len() {
                1 => format!("{what} {place}"),
                _ => format!("{what} {place} of {name}"),
            };
            let region = [(mean - half).max(0.0), mean + half];
            draft.parameter(of("own"), mean, region, "s", options);
            draft.parameter(of("visits"), visits, [visits, visits], "visits", options);
            let held = spent.held / spent.visits;
            draft.parameter(of("held"), held, [held, held], "s", options);
            *own.entry(service).or_default() += mean;
        }
        let mut route = Vec::new();
        for (service, seconds) in own.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
            if let Some(entry) = stations.get_mut(service) {
                entry.demands.insert(name.clone(), constant(seconds));
                route.push(service.as_str());
            }
        }
        let fitted: f64 = class.at.values().map(|spent| spent.own).sum::<f64>() / class.traces;
        let measured = class.whole / class.traces;
        rows.push(SourceRow {
            name: format!("response {name}"),
            measured,
            fitted,
            unit: "s",
            stand: RowStand::Compared,
        });
        draft.classes.push(open_class(name, class.traces / seconds, &route));
    }
    draft.stations.extend(stations.into_values().filter(|entry| !entry.demands.is_empty()));
}
