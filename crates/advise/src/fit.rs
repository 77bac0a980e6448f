//! From run records to a scenario: what a request costs the server, what it costs on the way, and how
//! many slots there are.
//!
//! The server is taken to be fujita's: a queue, r slots, and processors that the holders of slots
//! share, with a work demand g(x) = a x + b of the document's size x. Two closed runs identify it:
//!
//! - **one client**: nobody waits, R(x) = Z + g(x), where Z is spent on the way; the slope is a;
//! - **saturated**: m busy processors complete X = m / E\[g\] requests a second, which gives b and so
//!   Z; and R(x) = W + (r / m) g(x), whose slope gives r, or, where r is known, a
//!   once more (exact for any demand: by Little's law the wait does not depend on x).
//!
//! Intervals are by parametric bootstrap: every measured mean is drawn anew within its own interval,
//! and the fit repeated. What the runs cannot identify is named, not guessed.

use std::collections::BTreeMap;
use std::fmt;

use measure::{Estimate, Interval, LoadShape, Measures, RunRecord};
use rand_distr::{Distribution, StandardNormal};
use sim::Options;
use workload::stream;

use crate::units::{Bytes, PerByte, Rate, Span};
use crate::{
    ByteDemand, Calibration, ClassEntry, DemandEntry, DistEntry, DocumentEntry, DocumentsEntry,
    GateEntry, Parameter, RouteEntry, Scenario, SizesEntry, StationEntry, StationName,
};

/// The names of the parts of a fitted scenario.
pub mod names {
    /// The class of all requests.
    pub const CLASS: &str = "http";
    /// The delay outside the server: network, client, proxy.
    pub const PATH: &str = "path";
    /// The gate whose slots requests hold while they are served.
    pub const GATE: &str = "slots";
    /// What the holders of the slots share.
    pub const CPU: &str = "cpu";
}

/// What is known beforehand, and how the fit is made.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The server's slots (workers, helpers), if known.
    pub slots: Option<u32>,
    /// The processors that it may use, if known.
    pub cores: Option<u32>,
    /// The seed of the bootstrap and of the simulations.
    pub seed: u64,
    /// The confidence of the intervals.
    pub confidence: f64,
    /// When the fit is made, UTC, RFC 3339.
    pub date: String,
    /// The name of the scenario.
    pub name: String,
}

/// A fitted scenario and what it rests on.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The scenario, with the load of the saturated run.
    pub scenario: Scenario,
    /// Every measured mean beside what the fitted scenario gives for it, by simulation.
    pub residuals: Vec<Residual>,
    /// What the user should know, in sentences.
    pub notes: Vec<String>,
}

/// A measured mean response beside the fitted one.
#[derive(Clone, Debug)]
pub struct Residual {
    /// The run.
    pub run: String,
    /// Its clients.
    pub clients: u32,
    /// The document.
    pub document: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// How many were measured.
    pub completed: u64,
    /// The measured mean response \[s\].
    pub measured: Estimate,
    /// What the fitted scenario gives \[s\].
    pub fitted: f64,
}

impl Residual {
    /// Fitted less measured, as a share of measured.
    pub fn relative(&self) -> f64 {
        self.fitted / self.measured.mean - 1.0
    }
}

/// Why no scenario could be fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum FitError {
    /// A run is of no use for a fit: its name and why.
    Run(String, String),
    /// The runs ask for different documents.
    Documents,
    /// No run has a single client.
    NoLowLoad,
    /// No run is saturated: the most clients, and the utilisation reached with them.
    NotSaturated(u32, f64),
    /// The processors cannot be told from the runs: the most that is possible.
    CoresUnknown(u32),
    /// The slots cannot be told from the runs: why.
    SlotsUnknown(String),
    /// The numbers contradict the model: how.
    DoesNotFit(String),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::Run(run, why) => write!(f, "run {run}: {why}"),
            FitError::Documents => {
                write!(
                    f,
                    "the runs ask for different documents: fit those of one document set together"
                )
            }
            FitError::NoLowLoad => write!(
                f,
                "no run has a single client, so service cannot be told from waiting: measure one with \
                 `--clients 1`"
            ),
            FitError::NotSaturated(clients, busy) => write!(
                f,
                "no run is saturated: with {clients} clients the server is {:.0} % busy; measure one \
                 with about {} clients",
                busy * 100.0,
                clients.saturating_mul(4)
            ),
            FitError::CoresUnknown(most) => write!(
                f,
                "the runs do not tell how many processors the server uses (1 to {most} are possible): \
                 say it with `--cores`"
            ),
            FitError::SlotsUnknown(why) => {
                write!(
                    f,
                    "the runs do not tell how many slots the server has ({why}): say it with `--slots`"
                )
            }
            FitError::DoesNotFit(how) => write!(f, "the model does not fit: {how}"),
        }
    }
}

impl std::error::Error for FitError {}

/// Fits a scenario to closed runs of one document set.
///
/// # Errors
/// If the runs do not identify the model, or contradict it.
pub fn fit(runs: &[RunRecord], options: &FitOptions) -> Result<Fit, FitError> {
    let runs = runs
        .iter()
        .map(|run| Observed::new(run, options.confidence))
        .collect::<Result<Vec<_>, _>>()?;
    let low = runs.iter().find(|run| run.clients == 1).ok_or(FitError::NoLowLoad)?;
    let high = runs.iter().max_by_key(|run| run.clients).ok_or(FitError::NoLowLoad)?;
    if runs.iter().any(|run| run.documents != low.documents) {
        return Err(FitError::Documents);
    }
    if high.clients == 1 {
        return Err(FitError::NotSaturated(1, high.throughput.mean * low.response_mean()));
    }
    let cores = identify_cores(low, high, options.cores)?;
    let evidence = Evidence::new(&runs, low, high, cores, options.slots);
    let point = evidence.solve(&evidence.as_measured());
    let draws = evidence.bootstrap(options.seed);
    let mut notes = Vec::new();
    let mut unidentified = Vec::new();
    let slots = identify_slots(&point, &draws, high, cores, options, &mut notes)?;
    point.check(high, slots, cores)?;
    if low.classes.len() == 1 {
        unidentified.push(
            "how the demand grows with the size (only one size was asked for): all of it is taken as \
             fixed"
                .into(),
        );
    }
    unidentified.push(
        "how much of the time on the way is spent while a slot is held: all of it is taken as spent \
         outside"
            .into(),
    );
    let mut scenario = build(&evidence, &point, &draws, slots, options);
    if let Some(calibration) = &mut scenario.calibration {
        calibration.runs = runs.iter().map(|run| run.id.clone()).collect();
        calibration.unidentified = unidentified;
    }
    choose_quantum(&mut scenario, high, cores, options, &mut notes)?;
    let residuals = residuals(&scenario, &runs, options)?;
    notes.extend(misfits(&residuals)?);
    Ok(Fit { scenario, residuals, notes })
}

/// A closed run as far as a fit looks at it.
struct Observed {
    id: String,
    clients: u32,
    throughput: Estimate,
    /// All that was asked for, completed or not.
    documents: Vec<DocumentEntry>,
    /// Of the documents that were completed.
    classes: Vec<DocumentSeen>,
    /// By interval after the warm-up: its length \[s\], the bytes of the documents that were
    /// completed in it, and how many these were.
    intervals: Vec<[f64; 3]>,
    response: Estimate,
}

/// The documents of one class, as measured.
struct DocumentSeen {
    name: String,
    bytes: u64,
    share: f64,
    completed: u64,
    response: Estimate,
}

impl Observed {
    fn new(run: &RunRecord, confidence: f64) -> Result<Observed, FitError> {
        let id = run.header.id.clone();
        let error = |why: &str| FitError::Run(id.clone(), why.into());
        let LoadShape::Closed { clients, think_s } = run.header.load else {
            return Err(error("it has an open load; a fit needs closed runs (`--clients N`)"));
        };
        if think_s > 0.0 {
            return Err(error("its clients think, so it tells little; measure without `--think`"));
        }
        let judgement = run.judge(confidence);
        if judgement.all.completed == 0 {
            return Err(error("nothing was completed in it"));
        }
        let failed: u64 = judgement.all.errors.values().sum();
        if failed * 100 > judgement.all.completed {
            return Err(error("more than 1 % of its requests failed"));
        }
        let total = judgement.all.completed as f64;
        let class = |(spec, measures): (&measure::ClassSpec, &Measures)| {
            Some(DocumentSeen {
                name: spec.name.clone(),
                bytes: spec.bytes?,
                share: measures.completed as f64 / total,
                completed: measures.completed,
                response: measures.response?,
            })
        };
        let classes: Vec<_> =
            run.header.classes.iter().zip(&judgement.classes).filter_map(class).collect();
        if classes.is_empty() {
            return Err(error("the sizes of its documents are not known"));
        }
        let documents = run.header.classes.iter().filter_map(|class| {
            Some(DocumentEntry {
                name: class.name.clone(),
                size: Bytes(class.bytes?),
                weight: class.weight,
            })
        });
        let documents = documents.collect();
        let response =
            judgement.all.response.ok_or_else(|| error("nothing was completed in it"))?;
        Ok(Observed {
            id,
            clients,
            throughput: judgement.all.throughput,
            documents,
            classes,
            intervals: run.steady().iter().map(|interval| work_of(run, interval)).collect(),
            response,
        })
    }

    /// What a request cost that run beside its bytes \[s\], with its standard error: the busy time of
    /// all processors, less the work of the bytes, for each request. A huge document counts with its
    /// work, so that whether one fell into the run or not changes nothing.
    fn base(&self, per_byte: f64, cores: f64) -> (f64, f64) {
        let times = |[length, bytes, _]: &[f64; 3]| cores * length - per_byte * bytes;
        let times: Vec<f64> = self.intervals.iter().map(times).collect();
        let counts: Vec<f64> = self.intervals.iter().map(|[_, _, count]| *count).collect();
        let estimate = Estimate::from_ratio(&times, &counts, 0.95);
        (estimate.mean, standard_error(&estimate).abs())
    }

    fn means(&self) -> Vec<f64> {
        self.classes.iter().map(|class| class.response.mean).collect()
    }

    fn response_mean(&self) -> f64 {
        self.response.mean
    }

    fn bytes_mean(&self) -> f64 {
        self.classes.iter().map(|class| class.share * class.bytes as f64).sum()
    }
}

/// Length \[s\], bytes of completed documents, and how many, of an interval.
fn work_of(run: &RunRecord, interval: &Interval) -> [f64; 3] {
    let classes = run.header.classes.iter().zip(&interval.classes);
    classes.fold([interval.length_s, 0.0, 0.0], |[length, bytes, count], (spec, counts)| {
        let completed = counts.completed as f64;
        [length, bytes + completed * spec.bytes.unwrap_or(0) as f64, count + completed]
    })
}

/// Two standard errors fill a 95 % interval, near enough for weights and draws.
fn standard_error(estimate: &Estimate) -> f64 {
    if estimate.half_width.is_finite() { estimate.half_width / 2.0 } else { estimate.mean * 0.2 }
}

/// The model's numbers, before rounding r.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// a \[s/byte\].
    per_byte: f64,
    /// b \[s\].
    base: f64,
    /// Z \[s\].
    path: f64,
    /// r; none where all documents have one size.
    slots: Option<f64>,
}

/// How far a straight line is trusted beyond the noise: weights never make a class more certain
/// than this share of its mean.
const LINE_ERROR: f64 = 0.02;

/// A straight line through (bytes, mean response).
struct Line {
    slope: f64,
    /// The variance of the slope.
    variance: f64,
}

/// How much a mean response counts.
fn weight(class: &DocumentSeen, mean: f64) -> f64 {
    1.0 / (standard_error(&class.response).powi(2) + (LINE_ERROR * mean).powi(2))
}

/// The weighted least-squares line; none through documents of one size.
fn line(classes: &[DocumentSeen], means: &[f64]) -> Option<Line> {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (class, &y) in classes.iter().zip(means) {
        let weight = weight(class, y);
        let x = class.bytes as f64;
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let spread = w * wxx - wx * wx;
    (spread > 1e-9 * w * wxx)
        .then(|| Line { slope: (w * wxy - wx * wy) / spread, variance: w / spread })
}

/// The mean that has the least variance.
fn combine(parts: &[(f64, f64)]) -> f64 {
    let weights: f64 = parts.iter().map(|(_, variance)| 1.0 / variance).sum();
    parts.iter().map(|(value, variance)| value / variance).sum::<f64>() / weights
}

/// The runs that identify the model, and what is known besides.
struct Evidence<'a> {
    /// The run with one client.
    low: &'a Observed,
    /// The saturated runs, the one with most clients first.
    full: Vec<&'a Observed>,
    cores: u32,
    /// The slots, if they were told: then every saturated run tells the slope too.
    slots: Option<u32>,
}

/// Measured means, or means drawn within their intervals.
struct Seen {
    low: Vec<f64>,
    /// By saturated run: the means, and by how many standard errors its busy time a request is off.
    full: Vec<(Vec<f64>, f64)>,
}

impl<'a> Evidence<'a> {
    fn new(
        runs: &'a [Observed],
        low: &'a Observed,
        high: &'a Observed,
        cores: u32,
        slots: Option<u32>,
    ) -> Evidence<'a> {
        // Twice as many clients as slots keep all slots held, whatever the time on the way.
        let is_full = |run: &&Observed| {
            slots.is_some_and(|slots| run.clients >= slots.max(cores).saturating_mul(2))
        };
        let others = runs.iter().filter(|run| !std::ptr::eq(*run, high)).filter(is_full);
        Evidence { low, full: std::iter::once(high).chain(others).collect(), cores, slots }
    }

    fn as_measured(&self) -> Seen {
        Seen {
            low: self.low.means(),
            full: self.full.iter().map(|run| (run.means(), 0.0)).collect(),
        }
    }

    fn solve(&self, seen: &Seen) -> Point {
        let cores = f64::from(self.cores);
        let alone = line(&self.low.classes, &seen.low);
        let stretched: Vec<Option<Line>> = self
            .full
            .iter()
            .zip(&seen.full)
            .map(|(run, (means, _))| line(&run.classes, means))
            .collect();
        let mut slopes: Vec<(f64, f64)> =
            alone.iter().map(|line| (line.slope, line.variance)).collect();
        if let Some(slots) = self.slots {
            for (run, line) in self.full.iter().zip(&stretched) {
                let stretch = (f64::from(slots.min(run.clients)) / cores).max(1.0);
                let line = line.as_ref();
                slopes.extend(line.map(|l| (l.slope / stretch, l.variance / (stretch * stretch))));
            }
        }
        let per_byte = if slopes.is_empty() { 0.0 } else { combine(&slopes) };
        let bases = self.full.iter().zip(&seen.full).map(|(run, (_, off))| {
            let (base, error) = run.base(per_byte, cores);
            (base + off * error, error * error + (LINE_ERROR * base).powi(2))
        });
        let base = combine(&bases.collect::<Vec<_>>());
        // With the slope settled, the single client tells what a request of no bytes takes.
        let classes = self.low.classes.iter().zip(&seen.low);
        let (sum, weights) = classes.fold((0.0, 0.0), |(sum, weights), (class, &mean)| {
            let weight = weight(class, mean);
            (sum + weight * (mean - per_byte * class.bytes as f64), weights + weight)
        });
        let slots = match (&alone, stretched.first()) {
            (Some(alone), Some(Some(high))) if alone.slope > 0.0 => {
                Some(cores * high.slope / alone.slope)
            }
            _ => None,
        };
        Point { per_byte, base, path: sum / weights - base, slots }
    }

    fn bootstrap(&self, seed: u64) -> Vec<Point> {
        let mut chance = stream(seed, 0xb007);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut chance) };
        let means = |run: &Observed, normal: &mut dyn FnMut() -> f64| -> Vec<f64> {
            let draw = |class: &DocumentSeen| {
                let mean = class.response.mean;
                (mean + standard_error(&class.response) * normal()).max(mean * 0.01)
            };
            run.classes.iter().map(draw).collect()
        };
        let draws = (0..DRAWS).map(|_| {
            let low = means(self.low, &mut normal);
            let full = self.full.iter().map(|run| (means(run, &mut normal), normal()));
            self.solve(&Seen { low, full: full.collect() })
        });
        draws.collect()
    }
}

impl Point {
    /// # Errors
    /// If the numbers contradict the model or the run was not saturated.
    fn check(&self, high: &Observed, slots: u32, cores: u32) -> Result<(), FitError> {
        if self.per_byte < 0.0 || self.base <= 0.0 {
            return Err(FitError::DoesNotFit(format!(
                "with {cores} processor(s), demand comes out as {:.3} us/kB times the size plus {:.3} ms, \
                 and neither may be negative; is `--cores` right, is the response cached?",
                self.per_byte * 1e9,
                self.base * 1e3
            )));
        }
        let demand = self.per_byte * high.bytes_mean() + self.base;
        if self.path < -0.1 * demand {
            return Err(FitError::DoesNotFit(format!(
                "a single client is answered in less time than a request costs in the saturated run \
                 ({:.3} ms less): is `--cores` right, did the server slow down?",
                -self.path * 1e3
            )));
        }
        // Full means more than clients enough to cover the time on the way.
        let enough = f64::from(cores.min(slots)) * (1.0 + self.path.max(0.0) / demand);
        if f64::from(high.clients) < 1.5 * enough {
            return Err(FitError::NotSaturated(
                high.clients,
                (f64::from(high.clients) / enough).min(0.99),
            ));
        }
        Ok(())
    }
}

/// # Errors
/// If more than one number of processors is possible and none is given.
fn identify_cores(low: &Observed, high: &Observed, given: Option<u32>) -> Result<u32, FitError> {
    if let Some(cores) = given {
        return if cores == 0 {
            Err(FitError::DoesNotFit("`--cores` must be at least 1".into()))
        } else {
            Ok(cores)
        };
    }
    // X = m / E[g] and E[g] <= R(one client), so m <= X R: the rest is noise.
    let most = high.throughput.mean * low.response_mean();
    let noise = 2.0 * (high.throughput.relative() + low.response.relative()).min(0.5);
    let most = (most * (1.0 + noise)).floor().max(1.0) as u32;
    if most == 1 { Ok(1) } else { Err(FitError::CoresUnknown(most)) }
}

/// How often the bootstrap draws.
const DRAWS: usize = 400;

/// The interval that holds a share `confidence` of the draws, widened to hold the point.
fn interval(point: f64, draws: impl Iterator<Item = f64>, confidence: f64) -> [f64; 2] {
    let mut values: Vec<f64> = draws.collect();
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    [at(tail).min(point), at(1.0 - tail).max(point)]
}

/// # Errors
/// If they are neither given nor told by the runs.
fn identify_slots(
    point: &Point,
    draws: &[Point],
    high: &Observed,
    cores: u32,
    options: &FitOptions,
    notes: &mut Vec<String>,
) -> Result<u32, FitError> {
    let seen = point.slots.map(|slots| {
        (slots, interval(slots, draws.iter().filter_map(|draw| draw.slots), options.confidence))
    });
    if let Some(slots) = options.slots {
        if slots == 0 {
            return Err(FitError::DoesNotFit("`--slots` must be at least 1".into()));
        }
        // Above the clients of the run, slots leave no trace in it.
        let shown = f64::from(slots.min(high.clients));
        if let Some((mean, [lower, upper])) = seen
            && (shown < 0.7 * lower || shown > 1.4 * upper)
        {
            notes.push(format!(
                "the runs look like {mean:.1} slots ({lower:.1} to {upper:.1}), not {slots}: is \
                 something else in the way?"
            ));
        }
        return Ok(slots);
    }
    let Some((mean, [lower, upper])) = seen else {
        return Err(FitError::SlotsUnknown("all documents have one size".into()));
    };
    if upper >= 0.9 * f64::from(high.clients) {
        return Err(FitError::SlotsUnknown(format!(
            "at least {:.0}; no run has clearly more clients than that",
            lower.floor().max(1.0)
        )));
    }
    if mean < 0.8 * f64::from(cores) {
        return Err(FitError::DoesNotFit(format!(
            "{mean:.1} slots come out for {cores} processors, which could not all be busy"
        )));
    }
    if upper - lower > 1.0 {
        notes.push(format!(
            "the runs tell the slots only roughly: {mean:.1} ({lower:.1} to {upper:.1}); if you know \
             them, say it with `--slots`"
        ));
    }
    Ok(mean.round().max(1.0) as u32)
}

fn build(
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
        gates: vec![GateEntry {
            name: names::GATE.into(),
            slots: Some(slots),
            servers: Vec::new(),
            discipline: None,
            router: None,
            length: None,
            ties: None,
            sight: None,
            queues: None,
            room: None,
            wait_max: None,
            inside: vec![RouteEntry::Name(names::CPU.into())],
        }],
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

/// The way outside the server, and the processors that the holders of slots share.
fn stations(point: &Point, cores: u32) -> Vec<StationEntry> {
    let demand = ByteDemand {
        per_byte: as_written(PerByte(point.per_byte)),
        base: as_written(Span(point.base)),
    };
    let path = DemandEntry::Time(DistEntry::Constant(as_written(Span(point.path.max(0.0)))));
    let station = |name: &str, kind, demand| StationEntry {
        name: name.into(),
        kind,
        servers: None,
        quantum: None,
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
fn parameters(point: &Point, draws: &[Point], confidence: f64) -> BTreeMap<String, Parameter> {
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
fn as_written<T: fmt::Display + std::str::FromStr + Copy>(value: T) -> T {
    value.to_string().parse().unwrap_or(value)
}

/// The quanta that are tried \[s\]; the kernel's slice is between 0.7 and 4 ms on most machines.
const QUANTA_S: [f64; 6] = [0.75e-3, 1.5e-3, 2e-3, 2.8e-3, 4e-3, 6e-3];
/// A quantum is taken only if it explains the saturated run clearly better than ideal sharing.
const QUANTUM_GAIN: f64 = 0.8;

/// An operating system shares a processor in slices, which short requests never feel: the quantum
/// that explains the saturated run best, if one does clearly better than ideal sharing.
///
/// # Errors
/// If the scenario cannot be simulated.
fn choose_quantum(
    scenario: &mut Scenario,
    high: &Observed,
    cores: u32,
    options: &FitOptions,
    notes: &mut Vec<String>,
) -> Result<(), FitError> {
    if cores > 1 {
        notes.push("several processors are taken as ideal sharing, without a quantum".into());
        return Ok(());
    }
    let ideal = misfit(scenario, high, options)?;
    let mut best = (ideal, None);
    for quantum in QUANTA_S {
        let sliced = with_quantum(scenario, Some(quantum));
        let error = misfit(&sliced, high, options)?;
        if error < best.0 {
            best = (error, Some(quantum));
        }
    }
    if let (error, Some(quantum)) = best
        && error < QUANTUM_GAIN * ideal
    {
        *scenario = with_quantum(scenario, Some(quantum));
        notes.push(format!(
            "a quantum of {} explains the saturated run better than ideal sharing (mean error over \
             documents {:.1} % against {:.1} %)",
            Span(quantum),
            error * 100.0,
            ideal * 100.0
        ));
    }
    Ok(())
}

/// The scenario with its processor shared by a quantum, or ideally.
pub(crate) fn with_quantum(scenario: &Scenario, quantum_s: Option<f64>) -> Scenario {
    let mut changed = scenario.clone();
    for station in changed.stations.iter_mut().filter(|station| station.name == names::CPU) {
        station.kind =
            if quantum_s.is_some() { StationName::FairShare } else { StationName::Sharing };
        station.quantum = quantum_s.map(Span);
    }
    changed
}

/// The mean relative error over the documents of a run, each counted as far as its own noise lets it.
fn misfit(scenario: &Scenario, run: &Observed, options: &FitOptions) -> Result<f64, FitError> {
    let fitted = simulate(scenario, run.clients, options)?;
    let (mut sum, mut weights) = (0.0, 0.0);
    for class in &run.classes {
        let Some(fitted) = fitted.get(&class.name) else { continue };
        let noise = standard_error(&class.response) / class.response.mean;
        let weight = 1.0 / (noise * noise + LINE_ERROR * LINE_ERROR);
        sum += weight * (fitted / class.response.mean - 1.0).abs();
        weights += weight;
    }
    Ok(if weights > 0.0 { sum / weights } else { f64::INFINITY })
}

/// Mean response by document \[s\] with so many clients.
fn simulate(
    scenario: &Scenario,
    clients: u32,
    options: &FitOptions,
) -> Result<BTreeMap<String, f64>, FitError> {
    let broken = |cause: String| FitError::DoesNotFit(cause);
    let network = scenario
        .with_population(names::CLASS, clients)
        .and_then(|scenario| scenario.network())
        .map_err(|error| broken(error.to_string()))?;
    let sim_options = Options {
        seed: options.seed,
        precision: 0.02,
        completions_max: 100_000,
        ..Options::default()
    };
    let outcome = sim::run(&network, &sim_options).map_err(|error| broken(error.to_string()))?;
    let by_document = outcome.classes[0].sizes.iter().filter_map(|size| {
        let sim::SizeRange::Document { name, .. } = &size.range else { return None };
        Some((name.clone(), size.response.as_ref()?.mean))
    });
    Ok(by_document.collect())
}

fn residuals(
    scenario: &Scenario,
    runs: &[Observed],
    options: &FitOptions,
) -> Result<Vec<Residual>, FitError> {
    let mut all = Vec::new();
    for run in runs {
        let fitted = simulate(scenario, run.clients, options)?;
        all.extend(run.classes.iter().filter_map(|class| {
            Some(Residual {
                run: run.id.clone(),
                clients: run.clients,
                document: class.name.clone(),
                bytes: class.bytes,
                completed: class.completed,
                measured: class.response,
                fitted: *fitted.get(&class.name)?,
            })
        }));
    }
    Ok(all)
}

/// Residuals beyond this are worth a word, beyond the second the model is refused.
const RESIDUAL_MAX: (f64, f64) = (0.15, 0.60);
/// Fewer measurements of a document than this prove nothing.
const COMPLETED_MIN: u64 = 30;

/// # Errors
/// If the fitted scenario is far from the very runs that it was fitted to.
fn misfits(residuals: &[Residual]) -> Result<Vec<String>, FitError> {
    let judged = residuals.iter().filter(|residual| residual.completed >= COMPLETED_MIN);
    let Some(worst) = judged.max_by(|a, b| a.relative().abs().total_cmp(&b.relative().abs()))
    else {
        return Ok(vec!["too few requests for a judgement of the residuals".into()]);
    };
    let text = format!(
        "the fitted scenario is {:+.0} % off for `{}` with {} client(s)",
        worst.relative() * 100.0,
        worst.document,
        worst.clients
    );
    match worst.relative().abs() {
        off if off > RESIDUAL_MAX.1 => Err(FitError::DoesNotFit(text)),
        off if off > RESIDUAL_MAX.0 => Ok(vec![text]),
        _ => Ok(Vec::new()),
    }
}
