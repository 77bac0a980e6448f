//! Results of a fit to sources other than run records, and the entries of its scenario.

use std::collections::BTreeMap;

use super::{FitOptions, buckets::QuantileWitness, build::as_written};
use crate::units::{Rate, Span};
use crate::{
    Calibration, ClassEntry, DemandEntry, DistEntry, DistName, GateEntry, Parameter, RouteEntry,
    Scenario, ShapedEntry, StationEntry, StationName,
};

/// A scenario that was fitted to a source, and what it rests on.
#[derive(Clone, Debug)]
pub struct SourceFit {
    /// The scenario, with the load that was seen.
    pub scenario: Scenario,
    /// Measured numbers, each beside the one that the fitted model gives for it.
    pub rows: Vec<SourceRow>,
    /// Quantiles of response times that the fit did not use, beside those of the fitted scenario.
    pub witnesses: Vec<QuantileWitness>,
    /// Notes for the user, in sentences.
    pub notes: Vec<String>,
}

impl SourceFit {
    /// Root mean square of ln(fitted / measured), over the numbers by which the model could have
    /// been off.
    pub fn misfit(&self) -> f64 {
        let compared = self.rows.iter().filter(|row| row.stand == RowStand::Compared);
        let squares: Vec<f64> =
            compared.map(|row| (row.fitted / row.measured).ln().powi(2)).collect();
        (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
    }
}

/// A measured number beside the fitted one.
#[derive(Clone, Debug)]
pub struct SourceRow {
    /// Name of the number.
    pub name: String,
    /// The measured number, in `unit`.
    pub measured: f64,
    /// The model's number, in the same unit.
    pub fitted: f64,
    /// `s` or `1/s`, or nothing for a share.
    pub unit: &'static str,
    /// Worth of their agreement.
    pub stand: RowStand,
}

/// Worth of the agreement of a measured number with the fitted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStand {
    /// The model could have been off: their difference says how well it fits.
    Compared,
    /// The model has a number of its own that takes up whatever was measured: they agree always.
    TakenUp,
}

impl SourceRow {
    /// Fitted less measured, as a share of measured.
    pub fn relative(&self) -> f64 {
        self.fitted / self.measured - 1.0
    }
}

/// Beyond so many times the most clients that were seen, a number of clients is not known.
const BEYOND: f64 = 2.0;

/// A scenario that is being put together.
pub(super) struct Draft {
    pub(super) classes: Vec<ClassEntry>,
    pub(super) stations: Vec<StationEntry>,
    pub(super) parameters: BTreeMap<String, Parameter>,
    pub(super) unidentified: Vec<String>,
    /// The gate that the stations which queue stand behind, if there is one.
    pub(super) gate: Option<GateEntry>,
}

impl Draft {
    pub(super) fn new() -> Draft {
        Draft {
            classes: Vec::new(),
            stations: Vec::new(),
            parameters: BTreeMap::new(),
            unidentified: Vec::new(),
            gate: None,
        }
    }

    /// A fitted number with its region, widened to hold it.
    pub(super) fn parameter(
        &mut self,
        name: impl Into<String>,
        value: f64,
        interval: [f64; 2],
        unit: &str,
        options: &FitOptions,
    ) {
        let interval = [interval[0].min(value), interval[1].max(value)];
        let confidence = options.confidence;
        self.parameters
            .insert(name.into(), Parameter { value, interval, confidence, unit: unit.into() });
    }

    /// Adds a number of clients, if its region ends near what was measured, up to `most` clients.
    /// Else it adds the beginning of the region, as `NAME-least`, and says that the number is not
    /// known: an extrapolation has no end.
    pub(super) fn clients(
        &mut self,
        name: &str,
        value: f64,
        [low, high]: [f64; 2],
        most: f64,
        options: &FitOptions,
    ) {
        // NaN ends nowhere.
        if value <= BEYOND * most && high <= BEYOND * most {
            return self.parameter(name, value, [low, high], "clients", options);
        }
        let least = low.min(value).min(BEYOND * most);
        self.parameter(format!("{name}-least"), least, [least; 2], "clients", options);
        self.unidentified.push(format!(
            "the {name}: it may lie at any number of clients from {:.1} on, and no more than {most} \
             were measured; measure more",
            least
        ));
    }

    /// The scenario, calibrated on `sources` between these numbers of clients.
    pub(super) fn scenario(
        self,
        options: &FitOptions,
        sources: &[String],
        clients: [f64; 2],
        throughput_max: f64,
    ) -> Scenario {
        let whole = |clients: f64| clients.round().clamp(1.0, 1e6) as u32;
        Scenario {
            sekisho: 1,
            name: options.name.clone(),
            seed: Some(options.seed),
            classes: self.classes,
            gates: self.gate.into_iter().collect(),
            stations: self.stations,
            caches: Vec::new(),
            agenda: None,
            calibration: Some(Calibration {
                date: options.date.clone(),
                runs: sources.to_vec(),
                clients: clients.map(whole),
                throughput_max: as_written(Rate(throughput_max)),
                parameters: self.parameters,
                unidentified: self.unidentified,
            }),
        }
    }
}

/// An open class.
pub(super) fn open_class(name: &str, rate: f64, route: &[&str]) -> ClassEntry {
    ClassEntry {
        matrix: BTreeMap::new(),
        name: name.into(),
        population: None,
        think: None,
        rate: Some(as_written(Rate(rate))),
        arrivals: None,
        sizes: None,
        priority: 0,
        deadline: None,
        rate_curve: None,
        trace: None,
        load: None,
        client: None,
        route: route.iter().map(|step| RouteEntry::Name((*step).into())).collect(),
    }
}

/// A station without demands.
pub(super) fn station(name: &str, kind: StationName, servers: u32) -> StationEntry {
    let servers = (servers > 1 && kind != StationName::Delay).then_some(servers);
    StationEntry {
        name: name.into(),
        kind,
        servers,
        count: None,
        quantum: None,
        tick: None,
        room: None,
        full: None,
        order: None,
        speeds: Vec::new(),
        speed_curve: Vec::new(),
        demand: None,
        demands: BTreeMap::new(),
    }
}

/// An exponential time.
pub(super) fn exponential(mean: f64) -> DemandEntry {
    let mean = as_written(Span(mean));
    DemandEntry::Time(DistEntry::Shaped(ShapedEntry {
        mean,
        dist: Some(DistName::Exponential),
        scv: None,
    }))
}

/// Always the same time.
pub(super) fn constant(seconds: f64) -> DemandEntry {
    DemandEntry::Time(DistEntry::Constant(as_written(Span(seconds))))
}

/// `one, two and three more`: of many names the first.
pub(super) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0..=SHOWN => shown.join(", "),
        all => format!("{} and {} more", shown.join(", "), all - SHOWN),
    }
}
