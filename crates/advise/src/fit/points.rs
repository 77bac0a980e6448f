//! A closed network through measured points of clients, throughput and response.
//!
//! One station that queues, with demand D, and P of each response spent without queueing: the
//! simplest network with both asymptotes, X <= N / (D + P + Z) and X <= m / D (Lazowska et al. 1984,
//! chapter 5). N - X R gives Z.

use rand_distr::{Distribution, StandardNormal};
use solve::{ClosedNetwork, Station};
use workload::stream;

use super::build::{as_written, gate};
use super::draft::{
    Draft, RowStand, SourceFit, SourceRow, constant, exponential, open_class, station,
};
use super::evidence::interval;
use super::scalability::fit_scalability;
use super::{FitError, FitOptions, falling, names};
use crate::units::Span;
use crate::{ClassEntry, DistEntry, StationName};

/// A measured load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// Its line in the source, from 1.
    pub line: usize,
    /// Clients, or the mean number of requests under way; at least 1.
    pub clients: f64,
    /// Answers [1/s].
    pub throughput: f64,
    /// Mean response \[s\], if it was measured.
    pub response: Option<f64>,
}

/// Number of draws of the bootstrap.
const DRAWS: usize = 200;
/// More clients than this make the exact solution slow.
const CLIENTS_MAX: f64 = 5_000.0;
/// X R may exceed N by this share before the numbers contradict each other.
const LITTLE_MAX: f64 = 1.1;
/// Below this utilisation the ceiling is not seen, only inferred.
const NEAR_CEILING: f64 = 0.8;
/// A delay shorter than this is none \[s\]: no scenario can hold it.
const PAUSE_LEAST: f64 = 1e-9;
/// Name of the station that queues.
pub(super) const MACHINE: &str = "machine";
/// However well the points fit, no measurement is better than this share.
const NOISE_LEAST: f64 = 1e-4;
/// Gains in misfit up to this count as none: a delay towards 0 gets better without end.
const BETTER: f64 = 1e-9;
/// The least demand that is looked for, as a share of the response without queueing.
const DEMAND_LEAST: f64 = 1e-6;
/// Ratio of the ends of a demand's region beyond which the demand is not told from a delay.
const TOLD_APART: f64 = 10.0;
/// A misfit of throughput beyond this is no noise.
const MISFIT_MAX: f64 = 0.25;
/// Error of the network itself: no point counts as more certain than this share.
const MODEL_ERROR: f64 = 0.02;

/// D and P \[s\].
#[derive(Clone, Copy)]
struct Model {
    demand: f64,
    pause: f64,
}

/// Knowledge of points beside their numbers.
pub(super) struct Measured<'a> {
    /// Relative standard error of the throughput of each point.
    pub(super) noise: &'a [f64],
    /// Mean think time \[s\].
    pub(super) think: f64,
}

/// Fits a closed network.
///
/// # Errors
/// If the points are fewer than three, contradict Little's law, or do not tell both asymptotes
/// apart.
pub fn fit_points(
    points: &[LoadPoint],
    sources: &[String],
    options: &FitOptions,
) -> Result<SourceFit, FitError> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.clients.total_cmp(&b.clients));
    check(&points)?;
    let mut notes = Vec::new();
    let mut draft = Draft::new();
    let all = points.clone();
    let falling = cut_at_peak(&mut points, &mut notes);
    if falling {
        notes.extend(fit_scalability(&all, &mut draft, options));
    }
    if points.len() < 2 || points[0].clients == points[points.len() - 1].clients {
        return Err(FitError::TooLittle(
            "all points before the throughput falls have the same load: two are needed to tell a \
             demand from a ceiling; measure a small load and a saturating one"
                .into(),
        ));
    }
    let noise = vec![0.0; points.len()];
    let fitter = Fitter::new(&points, &noise, think(&points), servers(options));
    network(&fitter, draft, sources, options, falling).map(|mut fit| {
        fit.notes.splice(0..0, notes);
        fit
    })
}

/// Fits a closed network to runs, behind a gate that holds nobody back: the slots of the gate are the
/// most clients. Where the throughput falls by more than noise, the machine has the speed that was
/// measured at each load.
///
/// # Errors
/// If all points have one load, or no network comes near them.
pub(super) fn fit_measured(
    points: &[LoadPoint],
    measured: &Measured<'_>,
    sources: &[String],
    options: &FitOptions,
) -> Result<SourceFit, FitError> {
    let mut pairs: Vec<(LoadPoint, f64)> =
        points.iter().copied().zip(measured.noise.iter().copied()).collect();
    pairs.sort_by(|a, b| a.0.clients.total_cmp(&b.0.clients));
    let (points, noise): (Vec<LoadPoint>, Vec<f64>) = pairs.into_iter().unzip();
    let [Some(first), Some(last)] = [points.first(), points.last()] else {
        return Err(FitError::OneLoad(0));
    };
    if first.clients == last.clients {
        return Err(FitError::OneLoad(first.clients as u32));
    }
    if last.clients > CLIENTS_MAX {
        let cause =
            format!("{} clients are more than {CLIENTS_MAX}: leave that run out", last.clients);
        return Err(FitError::TooLittle(cause));
    }
    let fitter = Fitter::new(&points, &noise, measured.think, servers(options));
    let mut draft = Draft::new();
    draft.gate = Some(gate(options.slots.unwrap_or(last.clients as u32), MACHINE));
    if options.slots.is_none() {
        draft.unidentified.push(format!(
            "how many slots (workers, threads) the server has: means of clients, throughput and \
             response do not tell it; the scenario's gate has {:.0}, as many as there were clients, \
             and holds nobody back",
            last.clients
        ));
    }
    if falling::is_falling(&points, &noise) {
        return Ok(falling::fit(&fitter, draft, sources, options));
    }
    network(&fitter, draft, sources, options, false)
}

/// Servers of the queue, one where nothing else was said.
fn servers(options: &FitOptions) -> u32 {
    options.cores.unwrap_or(1).max(1)
}

/// The network nearest to the points, with the regions of its numbers.
fn network(
    fitter: &Fitter<'_>,
    mut draft: Draft,
    sources: &[String],
    options: &FitOptions,
    falling: bool,
) -> Result<SourceFit, FitError> {
    let Fitter { points, think, servers, .. } = *fitter;
    let model = fitter.fit(&fitter.seen());
    let fitted = fitter.throughputs(model);
    let seen: Vec<f64> = points.iter().map(|point| point.throughput).collect();
    let misfit = root_mean_square(&seen, &fitted, &fitter.weights);
    if misfit > MISFIT_MAX {
        return Err(FitError::DoesNotFit(format!(
            "one queue and a delay are {:.0} % off these throughputs: is more than one thing being \
             changed between the points?",
            100.0 * misfit
        )));
    }
    let draws = bootstrap(fitter, model, options.seed);
    let confidence = options.confidence;
    // Few points: the region also holds what comes out when any one of them is left out.
    let without = fitter.without_each();
    let region = |value: f64, of: fn(&Model) -> f64| {
        let seen = interval(value, draws.iter().map(of), confidence);
        let wider = |[low, high]: [f64; 2], value: f64| [low.min(value), high.max(value)];
        without.iter().map(of).fold(seen, wider)
    };
    let mut demand = region(model.demand, |m| m.demand);
    let mut pause = region(model.pause, |m| m.pause);
    if demand[1] > TOLD_APART * demand[0] {
        (demand, pause) = not_told_apart(&mut draft, model, demand, pause);
    }
    draft.parameter("demand", model.demand, demand, "s", options);
    let told = |pause: f64| if pause < PAUSE_LEAST { 0.0 } else { pause };
    draft.parameter("delay", told(model.pause), pause.map(told), "s", options);
    let cycle = model.demand + model.pause + think;
    let knees = |m: &Model| (m.demand + m.pause) / m.demand;
    let extra = think / model.demand;
    let m = f64::from(servers);
    let knee = region(knees(&model), |m| (m.demand + m.pause) / m.demand);
    let knee = [m * (knee[0] + extra), m * (knee[1] + extra)];
    let most = points[points.len() - 1].clients;
    draft.clients("knee", m * cycle / model.demand, knee, most, options);
    name_the_unidentified(&mut draft, demand, model, points, options, falling);
    build(&mut draft, model, think, servers, most);
    // Two numbers through two loads: they could not have been off.
    let stand = if points.len() > 2 { RowStand::Compared } else { RowStand::TakenUp };
    let rows = rows(points, &fitted, think, stand);
    let peak = seen.iter().copied().fold(0.0, f64::max);
    let scenario = draft.scenario(options, sources, [points[0].clients, most], peak);
    Ok(SourceFit { scenario, rows, witnesses: Vec::new(), notes: Vec::new() })
}

/// Says that the sum of demand and delay is told, and no more: the demand may be next to nothing.
/// Returns the regions that the two can have.
fn not_told_apart(
    draft: &mut Draft,
    model: Model,
    demand: [f64; 2],
    pause: [f64; 2],
) -> ([f64; 2], [f64; 2]) {
    draft.unidentified.push(
        "which part of a response is demand and which is delay: too few clients meet at the queue for these \
         points to tell; measure more clients"
            .into(),
    );
    let both = model.demand + model.pause;
    let pause = [pause[0].min(both - demand[1]).max(0.0), pause[1].max(both)];
    ([0.0, demand[1]], pause)
}

fn check(points: &[LoadPoint]) -> Result<(), FitError> {
    if points.len() < 3 {
        return Err(FitError::TooLittle(format!(
            "{} points are too few: two numbers are fitted, so at least three loads are needed, one \
             of them small and one beyond the knee",
            points.len()
        )));
    }
    for point in points {
        let LoadPoint { line, clients, throughput, response } = *point;
        if clients > CLIENTS_MAX {
            let cause = format!("line {line}: {clients} clients are more than {CLIENTS_MAX}");
            return Err(FitError::TooLittle(cause));
        }
        if let Some(response) = response
            && throughput * response > LITTLE_MAX * clients
        {
            return Err(FitError::DoesNotFit(format!(
                "line {line}: {throughput} /s times {response} s is {}, more than the {clients} clients: \
                 Little's law does not close; are the units right?",
                measure::figures::digits(throughput * response)
            )));
        }
    }
    Ok(())
}

/// Beyond its peak the throughput falls, which no network of queues does.
fn cut_at_peak(points: &mut Vec<LoadPoint>, notes: &mut Vec<String>) -> bool {
    let peak = points
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.throughput.total_cmp(&b.1.throughput))
        .map_or(0, |(at, _)| at);
    let (at, top) = (points[peak].clients, points[peak].throughput);
    let lost = 1.0 - points[points.len() - 1].throughput / top;
    if lost < 0.1 {
        return false;
    }
    points.truncate(peak + 1);
    notes.push(format!(
        "throughput falls by {:.0} % beyond {at:.0} clients: the server does extra work under load, \
         which no queue explains; only the loads up to there are fitted, and the scenario holds up \
         to there",
        100.0 * lost
    ));
    true
}

/// Time outside the response, N/X - R, if it is more than noise.
fn think(points: &[LoadPoint]) -> f64 {
    let outside: Vec<f64> = points
        .iter()
        .filter_map(|point| Some(point.clients / point.throughput - point.response?))
        .collect();
    if outside.is_empty() {
        return 0.0;
    }
    let mean = outside.iter().sum::<f64>() / outside.len() as f64;
    let cycle = points[0].clients / points[0].throughput;
    if mean > 0.05 * cycle { mean } else { 0.0 }
}

pub(super) struct Fitter<'a> {
    pub(super) points: &'a [LoadPoint],
    pub(super) noise: &'a [f64],
    /// What each number that is fitted counts; of the throughputs, then of the responses.
    weights: Vec<f64>,
    pub(super) think: f64,
    servers: u32,
}

impl<'a> Fitter<'a> {
    fn new(points: &'a [LoadPoint], noise: &'a [f64], think: f64, servers: u32) -> Fitter<'a> {
        let weight = |noise: &f64| 1.0 / (noise * noise + MODEL_ERROR * MODEL_ERROR);
        let with_response = points.iter().zip(noise).filter(|(point, _)| point.response.is_some());
        let responses = with_response.map(|(_, noise)| weight(noise));
        let weights = noise.iter().map(weight).chain(responses).collect();
        Fitter { points, noise, weights, think, servers }
    }

    /// True where clients mostly think: there a measured response tells what the throughput hardly
    /// does.
    fn has_responses(&self) -> bool {
        self.think > 0.0
    }

    /// Numbers to fit: the throughput of each point, then the responses that tell more.
    fn seen(&self) -> Vec<f64> {
        let responses = self.points.iter().filter_map(|point| point.response);
        let responses = responses.filter(|_| self.has_responses());
        self.points.iter().map(|point| point.throughput).chain(responses).collect()
    }

    /// The model's numbers, in the order of [`seen`](Fitter::seen).
    fn fitted(&self, model: Model) -> Vec<f64> {
        let mut all = self.throughputs(model);
        if self.has_responses() {
            let responses =
                self.points.iter().zip(&all).filter(|(point, _)| point.response.is_some());
            let responses: Vec<f64> = responses
                .map(|(point, x)| (point.clients / x - self.think).max(f64::MIN_POSITIVE))
                .collect();
            all.extend(responses);
        }
        all
    }

    /// The model's throughput at each point.
    fn throughputs(&self, model: Model) -> Vec<f64> {
        let most = self.points[self.points.len() - 1].clients.ceil().max(1.0) as u32;
        let stations = [
            Station::multi(model.demand, self.servers).expect("the demand is above 0"),
            Station::delay(model.pause).expect("the delay is not below 0"),
        ];
        let network = ClosedNetwork::new(most, self.think, &stations)
            .expect("there is a client and a demand");
        let all = network.throughputs();
        // A mean number of clients need not be whole.
        let at = |clients: f64| {
            let below = (clients.floor().max(1.0) as usize).min(all.len());
            let above = (below + 1).min(all.len());
            let part = (clients - below as f64).clamp(0.0, 1.0);
            all[below - 1] + part * (all[above - 1] - all[below - 1])
        };
        self.points.iter().map(|point| at(point.clients)).collect()
    }

    fn misfit(&self, model: Model, seen: &[f64]) -> f64 {
        root_mean_square(seen, &self.fitted(model), &self.weights)
    }

    /// Relative error of each number, where the noise of the points was measured: that noise and the
    /// network's own error, widened by Birge's ratio if the residuals are larger.
    fn known_noise(&self, seen: &[f64], fitted: &[f64]) -> Vec<Option<f64>> {
        if self.noise.iter().all(|noise| *noise == 0.0) {
            return vec![None; seen.len()];
        }
        let residual = |((s, f), weight): ((&f64, &f64), &f64)| weight * (f / s).ln().powi(2);
        let points = self.points.len();
        let square: f64 =
            seen.iter().zip(fitted).zip(&self.weights).take(points).map(residual).sum();
        let birge = (square / (points as f64 - 2.0).max(1.0)).sqrt().max(1.0);
        let own = self.weights[..seen.len()].iter();
        own.map(|weight| Some(birge / weight.sqrt())).collect()
    }

    /// The models without each of the points, where at least three are left.
    fn without_each(&self) -> Vec<Model> {
        let count = if self.points.len() > 3 { self.points.len() } else { 0 };
        let without = |at: usize| {
            let (mut points, mut noise) = (self.points.to_vec(), self.noise.to_vec());
            points.remove(at);
            noise.remove(at);
            let fitter = Fitter::new(&points, &noise, self.think, self.servers);
            fitter.fit(&fitter.seen())
        };
        (0..count).map(without).collect()
    }

    /// The least squares of the logarithms, by a search that halves its steps.
    fn fit(&self, seen: &[f64]) -> Model {
        let peak = seen[..self.points.len()].iter().copied().fold(0.0, f64::max);
        let ceiling = f64::from(self.servers) / peak;
        let cycle = (self.points[0].clients / seen[0] - self.think).max(1e-3 * ceiling);
        // The most that the points allow, and less of a response: far below the ceiling the demand may be
        // any share of it.
        let shares = [1.0, 0.3, 0.1, 0.03, 0.01, 0.001].map(|share| share * cycle);
        let starts = shares.into_iter().chain([ceiling]).map(|demand| {
            let model = Model { demand, pause: (cycle - demand).max(0.01 * demand) };
            (self.misfit(model, seen), model)
        });
        let (mut error, mut best) =
            starts.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are some");
        let mut step: f64 = 0.3;
        while step > 2e-5 {
            let (up, down) = (step.exp(), (-step).exp());
            let moves = [(up, 1.0), (down, 1.0), (1.0, up), (1.0, down), (up, down), (down, up)];
            let scaled = moves.map(|(of_demand, of_pause)| Model {
                demand: best.demand * of_demand,
                pause: best.pause * of_pause,
            });
            // From one to the other: their sum is what is told best.
            let traded = [up, down].map(|factor| {
                let demand = best.demand * factor;
                Model { demand, pause: best.pause + best.demand - demand }
            });
            // Where nobody waits the demand may be next to nothing, and the search would go there without end.
            let least = (DEMAND_LEAST * cycle).max(PAUSE_LEAST);
            let told = |model: &Model| model.pause > 0.0 && model.demand >= least;
            let models = scaled.into_iter().chain(traded).filter(told);
            let tried = models.map(|model| (self.misfit(model, seen), model));
            let nearest = tried.min_by(|a, b| a.0.total_cmp(&b.0));
            match nearest {
                Some((less, model)) if less < error - BETTER => (error, best) = (less, model),
                _ => step *= 0.5,
            }
        }
        best
    }
}

/// Root of the weighted mean of ln(fitted / seen) squared.
fn root_mean_square(seen: &[f64], fitted: &[f64], weights: &[f64]) -> f64 {
    let each = seen.iter().zip(fitted).zip(weights);
    let (square, all) = each.fold((0.0, 0.0), |(square, all), ((s, f), weight)| {
        (square + weight * (f / s).ln().powi(2), all + weight)
    });
    (square / all).sqrt()
}

/// Everything drawn anew with the noise that the residuals show.
fn bootstrap(fitter: &Fitter<'_>, model: Model, seed: u64) -> Vec<Model> {
    let (seen, fitted) = (fitter.seen(), fitter.fitted(model));
    let misfit = root_mean_square(&seen, &fitted, &fitter.weights).max(NOISE_LEAST);
    // A response is no point more.
    let count = fitter.points.len() as f64;
    // Two numbers were fitted; with few points their residuals look too small, and a normal too
    // narrow: Student's quantile to first order.
    let freedom = (count - 2.0).max(1.0);
    let student = (count / freedom).sqrt() * (1.0 + 1.2 / freedom + 1.9 / freedom.powi(2));
    // The noise comes from the queue: a point has its share of it by how busy the queue is.
    let throughputs = &fitted[..fitter.points.len()];
    let peak = throughputs.iter().copied().fold(0.0, f64::max);
    let with_response = fitter.points.iter().zip(throughputs);
    let with_response = with_response.filter(|(point, _)| point.response.is_some());
    let busy = throughputs.iter().chain(with_response.map(|(_, x)| x)).map(|x| x / peak);
    let busy: Vec<f64> = busy.collect();
    let known = fitter.known_noise(&seen, &fitted);
    let fitted: Vec<(f64, f64)> = fitted.iter().copied().zip(busy).collect();
    let square = |((fit, busy), seen): (&(f64, f64), &f64)| ((seen / fit).ln() / busy).powi(2);
    let own = fitted.iter().zip(&seen).map(square).sum::<f64>() / fitted.len() as f64;
    let own = own.sqrt();
    let mut chance = stream(seed, 0x9017);
    let mut normal = move || -> f64 { StandardNormal.sample(&mut chance) };
    (0..DRAWS)
        .map(|_| {
            let drawn = |((fit, busy), known): (&(f64, f64), &Option<f64>)| {
                let noise = known.unwrap_or(student * misfit.max(own * busy));
                fit * (noise * normal()).exp()
            };
            let drawn: Vec<f64> = fitted.iter().zip(&known).map(drawn).collect();
            fitter.fit(&drawn)
        })
        .collect()
}

fn name_the_unidentified(
    draft: &mut Draft,
    demand: [f64; 2],
    model: Model,
    points: &[LoadPoint],
    options: &FitOptions,
    falling: bool,
) {
    let last = points[points.len() - 1];
    let load = last.throughput * model.demand / f64::from(options.cores.unwrap_or(1).max(1));
    if demand[1] - demand[0] > model.demand || load < NEAR_CEILING {
        draft.unidentified.push(
            "the ceiling: no load is near it, so that it rests on the shape of the model alone; \
             measure a load that saturates"
                .into(),
        );
    }
    if options.cores.is_none() {
        draft.unidentified.push(
            "how many servers the queue has: taken as one; if you know them, say it with `--cores`"
                .into(),
        );
    }
    if points.iter().all(|point| point.response.is_none()) {
        draft.unidentified.push(
            "how much of a cycle is thinking: no response was given, so all of it is taken as spent \
             in the service"
                .into(),
        );
    }
    if falling {
        draft.unidentified.push("what makes the throughput fall beyond its peak".into());
    }
    draft.unidentified.push(
        "whether several stations queue: one queue and a delay are the simplest that explain the \
         points"
            .into(),
    );
}

fn build(draft: &mut Draft, model: Model, think: f64, servers: u32, most: f64) {
    let mut queue = station(MACHINE, StationName::Sharing, servers);
    queue.demand = Some(exponential(model.demand));
    let mut delay = station("elsewhere", StationName::Delay, 1);
    // The search goes towards no delay without end; a scenario has it or has not.
    let pause = if model.pause < PAUSE_LEAST { 0.0 } else { model.pause };
    delay.demand = Some(constant(pause));
    let way = if draft.gate.is_some() { names::GATE } else { MACHINE };
    let open = open_class("requests", 1.0, &["elsewhere", way]);
    draft.classes.push(ClassEntry {
        matrix: std::collections::BTreeMap::new(),
        rate: None,
        population: Some(most.round().max(1.0) as u32),
        think: (think > 0.0).then(|| DistEntry::Constant(as_written(Span(think)))),
        ..open
    });
    draft.stations.push(delay);
    draft.stations.push(queue);
}

pub(super) fn rows(
    points: &[LoadPoint],
    fitted: &[f64],
    think: f64,
    stand: RowStand,
) -> Vec<SourceRow> {
    let mut rows = Vec::new();
    for (point, x) in points.iter().zip(fitted) {
        let name = match point.clients {
            1.0 => "1 client".to_owned(),
            clients => format!("{clients} clients"),
        };
        let measured = point.throughput;
        rows.push(SourceRow {
            name: format!("X, {name}"),
            measured,
            fitted: *x,
            unit: "1/s",
            stand,
        });
        if let Some(measured) = point.response {
            let fitted = point.clients / x - think;
            rows.push(SourceRow { name: format!("R, {name}"), measured, fitted, unit: "s", stand });
        }
    }
    rows
}
