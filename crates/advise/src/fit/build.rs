//! From the model's numbers to a scenario.

use std::collections::BTreeMap;
use std::fmt;

use super::evidence::{Evidence, Point, interval};
use super::{FitOptions, names};
use crate::units::{PerByte, Rate, Span};
use crate::{
    ByteDemand, Calibration, ClassEntry, DemandEntry, DistEntry, DocumentsEntry, GateEntry,
    Parameter, RouteEntry, Scenario, SizesEntry, StationEntry, StationName,
};

pub(super) fn build(
    evidence: &Evidence<'_>,
    point: &Point,
    draws: &[Point],
    slots: u32,
    options: &FitOptions,
) -> Scenario {
    let (low, high) = (evidence.low, evidence.full[0]);
    let sizes = DocumentsEntry { documents: low.documents.clone(), draw: None };
    Scenario {
        sekisho: 1,
        name: options.name.clone(),
        seed: Some(options.seed),
        classes: vec![ClassEntry {
            matrix: BTreeMap::new(),
            name: names::CLASS.into(),
            population: Some(high.clients),
            think: None,
            rate: None,
            arrivals: None,
            sizes: Some(SizesEntry::Documents(sizes)),
            priority: 0,
            deadline: None,
            rate_curve: None,
            trace: None,
            load: None,
            client: None,
            route: vec![RouteEntry::Name(names::PATH.into()), RouteEntry::Name(names::GATE.into())],
        }],
        gates: vec![gate(slots, names::CPU)],
        stations: stations(point, evidence.cores),
        caches: Vec::new(),
        agenda: None,
        calibration: Some(Calibration {
            date: options.date.clone(),
            runs: Vec::new(),
            clients: [low.clients, high.clients],
            throughput_max: as_written(Rate(high.throughput.mean)),
            parameters: parameters(point, draws, options.confidence),
            unidentified: Vec::new(),
        }),
    }
}

/// The gate of so many slots before this station.
pub(super) fn gate(slots: u32, station: &str) -> GateEntry {
    GateEntry {
        name: names::GATE.into(),
        slots: Some(slots),
        servers: Vec::new(),
        discipline: None,
        router: None,
        length: None,
        ties: None,
        load_information: None,
        queues: None,
        room: None,
        wait_max: None,
        unreachable: None,
        control: None,
        inside: vec![RouteEntry::Name(station.into())],
    }
}

/// The way outside the server, and the processors that the holders of slots share.
pub(super) fn stations(point: &Point, cores: u32) -> Vec<StationEntry> {
    let demand = ByteDemand {
        per_byte: as_written(PerByte(point.per_byte)),
        base: as_written(Span(point.base)),
    };
    let path = DemandEntry::Time(DistEntry::Constant(as_written(Span(point.path.max(0.0)))));
    let station = |name: &str, kind, demand| StationEntry {
        name: name.into(),
        kind,
        servers: None,
        count: None,
        quantum: None,
        tick: None,
        room: None,
        full: None,
        order: None,
        speeds: Vec::new(),
        speed_curve: Vec::new(),
        demand: Some(demand),
        demands: BTreeMap::new(),
    };
    vec![
        station(names::PATH, StationName::Delay, path),
        StationEntry {
            servers: (cores > 1).then_some(cores),
            ..station(names::CPU, StationName::Sharing, DemandEntry::BySize(demand))
        },
    ]
}

/// The fitted numbers with their intervals; without those that the runs do not show.
pub(super) fn parameters(
    point: &Point,
    draws: &[Point],
    confidence: f64,
) -> BTreeMap<String, Parameter> {
    type Of = fn(&Point) -> Option<f64>;
    let all: [(&str, Of, &str); 4] = [
        ("per-byte", |point| Some(point.per_byte), "s/byte"),
        ("base", |point| Some(point.base), "s"),
        ("path", |point| Some(point.path), "s"),
        ("slots-seen", |point| point.slots, "slots"),
    ];
    let parameter = |(name, of, unit): (&str, Of, &str)| {
        let value = of(point)?;
        let interval = interval(value, draws.iter().filter_map(of), confidence);
        Some((name.to_owned(), Parameter { value, interval, confidence, unit: unit.into() }))
    };
    all.into_iter().filter_map(parameter).collect()
}

/// The value that a file would give back: what is simulated is what is written.
pub(super) fn as_written<T: fmt::Display + std::str::FromStr + Copy>(value: T) -> T {
    value.to_string().parse().unwrap_or(value)
}
