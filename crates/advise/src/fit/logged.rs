//! From the requests of an access log: classes, Little's law over windows, and demands from the
//! growth of the response with the load.
//!
//! Under processor sharing, and in the mean under M/M/1, R_c = P_c + D_c / (1 - rho) with
//! rho = sum_c lambda_c D_c (Kleinrock 1976, section 4.4): windows with different loads tell D_c as
//! the slope over the stretch 1 / (1 - rho), and P_c, which does not grow, as its foot.

use measure::figures;
use rand_distr::{Distribution, Uniform};
use workload::stream;

use super::draft::{
    Draft, RowStand, SourceFit, SourceRow, constant, exponential, open_class, station,
};
use super::evidence::interval;
use super::{FitError, FitOptions};
use crate::StationName;

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedRequest {
    /// When it was answered, since any moment \[s\].
    pub ended: f64,
    /// Time that it took \[s\].
    pub seconds: f64,
    /// The index of its class.
    pub class: usize,
}

/// Number of draws of the bootstrap.
const DRAWS: usize = 200;
/// A window should hold so many requests.
const REQUESTS: f64 = 200.0;
/// Stamps of whole seconds need windows of this length \[s\], so that each tells its rate to some
/// 2 %; noise in the rates would make demands look smaller than they are.
const WHOLE_STAMPS_S: f64 = 20.0;
/// More windows do not tell more, only longer.
const WINDOWS_MAX: usize = 100;
/// A class with fewer requests than this share joins the others.
const SHARE_MIN: f64 = 0.01;

/// Counts of a window, by class.
#[derive(Clone)]
struct Slice {
    seconds: f64,
    count: Vec<f64>,
    sum: Vec<f64>,
}

/// D and P of each class \[s\].
#[derive(Clone)]
struct Model {
    demands: Vec<f64>,
    feet: Vec<f64>,
}

/// Fits demands to the growth of responses with the load.
///
/// # Errors
/// If the requests are too few.
pub fn fit_log(
    requests: &[LoggedRequest],
    classes: &[String],
    sources: &[String],
    options: &FitOptions,
) -> Result<SourceFit, FitError> {
    check(requests)?;
    let mut notes = Vec::new();
    let (requests, classes) = join_rare(requests, classes, &mut notes);
    let slices = slices(&requests, classes.len());
    if slices.len() < 8 {
        return Err(FitError::TooLittle(format!(
            "the time stamps make only {} windows of enough requests (and 20 s, where they are whole \
             seconds), 8 are needed; give a longer time",
            slices.len()
        )));
    }
    let cores = options.cores.unwrap_or(1).max(1);
    let model = solve(&slices.iter().collect::<Vec<_>>(), cores, classes.len());
    let draws = bootstrap(&slices, cores, classes.len(), options.seed);
    let mut draft = Draft::new();
    let mut cpu = station("machine", StationName::Sharing, cores);
    let mut delay = station("elsewhere", StationName::Delay, 1);
    let count = |c: usize| slices.iter().map(|s| s.count[c]).sum::<f64>();
    let total: f64 = slices.iter().map(|s| s.seconds).sum();
    let load: f64 = (0..classes.len()).map(|c| count(c) / total * model.demands[c]).sum::<f64>();
    let load = (load / f64::from(cores)).min(0.97);
    let mut rows = Vec::new();
    let mut vague = Vec::new();
    for (c, name) in classes.iter().enumerate() {
        let (demand, foot) = (model.demands[c], model.feet[c]);
        let of = |values: fn(&Model) -> &Vec<f64>, value: f64| {
            interval(value, draws.iter().map(|draw| values(draw)[c]), options.confidence)
        };
        let region = of(|m| &m.demands, demand);
        draft.parameter(format!("demand {name}"), demand, region, "s", options);
        draft.parameter(format!("delay {name}"), foot, of(|m| &m.feet, foot), "s", options);
        if demand <= 0.0 || region[1] - region[0] > demand {
            vague.push(name.clone());
        }
        let mut route = Vec::new();
        if demand > 0.0 {
            cpu.demands.insert(name.clone(), exponential(demand));
            route.push("machine");
        }
        if foot > 0.0 {
            delay.demands.insert(name.clone(), constant(foot));
            route.push("elsewhere");
        }
        draft.classes.push(open_class(name, count(c) / total, &route));
        let measured = slices.iter().map(|s| s.sum[c]).sum::<f64>() / count(c);
        let fitted = foot + demand * super::demands::stretch(cores, load);
        let (name, stand) = (format!("response {name}"), RowStand::Compared);
        rows.push(SourceRow { name, measured, fitted, unit: "s", stand });
    }
    name_the_unidentified(&mut draft, &vague, options);
    for station in [cpu, delay] {
        if !station.demands.is_empty() {
            draft.stations.push(station);
        }
    }
    let [lowest, highest] = under_way(&slices, &mut notes);
    let most = slices.iter().map(|s| s.count.iter().sum::<f64>() / s.seconds).fold(0.0, f64::max);
    let scenario = draft.scenario(options, sources, [lowest.max(1.0), highest.max(1.0)], most);
    Ok(SourceFit { scenario, rows, witnesses: Vec::new(), notes })
}

/// # Errors
/// If the requests are too few.
fn check(requests: &[LoggedRequest]) -> Result<(), FitError> {
    let first = requests.iter().map(|r| r.ended - r.seconds).fold(f64::INFINITY, f64::min);
    let last = requests.iter().map(|r| r.ended).fold(f64::NEG_INFINITY, f64::max);
    let span = last - first;
    if requests.len() < 2_000 || span <= 0.0 {
        return Err(FitError::TooLittle(format!(
            "{} requests over {} are too few for a fit; give at least 2000",
            requests.len(),
            figures::time(span.max(0.0))
        )));
    }
    Ok(())
}

/// The fewest and the most requests under way on average, over windows, by Little's law.
fn under_way(slices: &[Slice], notes: &mut Vec<String>) -> [f64; 2] {
    let level = |s: &Slice| s.sum.iter().sum::<f64>() / s.seconds;
    let concurrency: Vec<f64> = slices.iter().map(level).collect();
    let lowest = concurrency.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = concurrency.iter().copied().fold(0.0, f64::max);
    notes.push(format!(
        "by Little's law {} to {} requests were under way in {} windows of {}",
        figures::digits(lowest),
        figures::digits(highest),
        slices.len(),
        figures::time(slices[0].seconds)
    ));
    [lowest, highest]
}

fn name_the_unidentified(draft: &mut Draft, vague: &[String], options: &FitOptions) {
    if !vague.is_empty() {
        draft.unidentified.push(format!(
            "the demand of {}: responses hardly grow with the load, or too irregularly, so that \
             what queues cannot be told from what does not; add a busier time, or processor seconds \
             from a metrics source",
            super::draft::listed(vague)
        ));
    }
    if options.cores.is_none() {
        draft.unidentified.push(
            "how many servers share the load: taken as one; if you know them, say it with `--cores`"
                .into(),
        );
    }
    draft.unidentified.push(
        "whether requests share the server or wait in line: the mean response is the same for \
         exponential demands, for others it is not; taken as sharing"
            .into(),
    );
}

/// Classes that are hardly ever asked for, as one.
fn join_rare(
    requests: &[LoggedRequest],
    classes: &[String],
    notes: &mut Vec<String>,
) -> (Vec<LoggedRequest>, Vec<String>) {
    let mut counts = vec![0usize; classes.len()];
    for request in requests {
        counts[request.class] += 1;
    }
    let least = (SHARE_MIN * requests.len() as f64).max(REQUESTS);
    let is_rare = |c: usize| (counts[c] as f64) < least;
    let rare: Vec<usize> = (0..classes.len()).filter(|&c| is_rare(c) && counts[c] > 0).collect();
    let mut kept: Vec<String> = Vec::new();
    let mut place = vec![0usize; classes.len()];
    for c in (0..classes.len()).filter(|&c| !is_rare(c)) {
        place[c] = kept.len();
        kept.push(classes[c].clone());
    }
    if !rare.is_empty() {
        for &c in &rare {
            place[c] = kept.len();
        }
        kept.push("others".into());
        let names: Vec<String> = rare.iter().map(|&c| classes[c].clone()).collect();
        notes.push(format!(
            "{} rare classes are one, `others`: {}",
            rare.len(),
            super::draft::listed(&names)
        ));
    }
    let moved = requests.iter().map(|r| LoggedRequest { class: place[r.class], ..*r }).collect();
    (moved, kept)
}

/// Windows of equally many requests, by the time of arrival: the load that a request met.
fn slices(requests: &[LoggedRequest], classes: usize) -> Vec<Slice> {
    let mut arrivals: Vec<(f64, &LoggedRequest)> =
        requests.iter().map(|request| (request.ended - request.seconds, request)).collect();
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut each = (requests.len() / WINDOWS_MAX).max(REQUESTS as usize);
    if let [first, .., last] = arrivals[..]
        && requests.iter().all(|request| request.ended.fract() == 0.0)
    {
        let rate = requests.len() as f64 / (last.0 - first.0).max(1e-9);
        each = each.max((rate * WHOLE_STAMPS_S) as usize);
    }
    let mut slices = Vec::new();
    let mut from = 0;
    // A window ends with the first arrival after it; the rest at the end has none, and is left out.
    while from + each < arrivals.len() {
        let mut to = from + each;
        // Stamps of whole seconds may fall together.
        while to + 1 < arrivals.len() && arrivals[to].0 <= arrivals[from].0 {
            to += 1;
        }
        let seconds = arrivals[to].0 - arrivals[from].0;
        let mut slice = Slice { seconds, count: vec![0.0; classes], sum: vec![0.0; classes] };
        for (_, request) in &arrivals[from..to] {
            slice.count[request.class] += 1.0;
            slice.sum[request.class] += request.seconds;
        }
        if seconds > 0.0 {
            slices.push(slice);
        }
        from = to;
    }
    slices
}

/// The demands of least squares: for each, the stretch of every window follows, and with it the
/// foot of each class. Noise grows with the stretch, as the mean does.
fn solve(slices: &[&Slice], cores: u32, classes: usize) -> Model {
    let mean = |c: usize| {
        let sum: f64 = slices.iter().map(|s| s.sum[c]).sum();
        sum / slices.iter().map(|s| s.count[c]).sum::<f64>().max(1.0)
    };
    let means: Vec<f64> = (0..classes).map(mean).collect();
    let scaled = |by: f64| means.iter().map(|mean| by * mean).collect::<Vec<f64>>();
    let mut best = (f64::INFINITY, scaled(0.0), Vec::new());
    // First all demands together, as the same share of their means: the steps for one at a time,
    // below, only find the bottom of the valley that they begin in.
    for step in 0..=60 {
        let demands = scaled(10f64.powf(-3.0 + f64::from(step) / 20.0));
        if let Some((error, feet)) = misfit(slices, cores, &demands, &means)
            && error < best.0
        {
            best = (error, demands, feet);
        }
    }
    let mut size: f64 = 0.2;
    while size > 1e-3 {
        let mut better = false;
        for c in 0..classes {
            for factor in [size.exp(), (-size).exp()] {
                let mut demands = best.1.clone();
                demands[c] *= factor;
                if let Some((error, feet)) = misfit(slices, cores, &demands, &means)
                    && error < best.0
                {
                    best = (error, demands, feet);
                    better = true;
                }
            }
        }
        if !better {
            size *= 0.5;
        }
    }
    Model { demands: best.1, feet: best.2 }
}

/// The squares of what is left, and the feet; none where a window would be busier than its time.
fn misfit(
    slices: &[&Slice],
    cores: u32,
    demands: &[f64],
    means: &[f64],
) -> Option<(f64, Vec<f64>)> {
    let stretch = |s: &&Slice| {
        let work: f64 = s.count.iter().zip(demands).map(|(n, d)| n * d).sum();
        let load = work / (f64::from(cores) * s.seconds);
        (load < 0.98).then(|| super::demands::stretch(cores, load))
    };
    let stretches: Vec<f64> = slices.iter().map(stretch).collect::<Option<_>>()?;
    let (mut error, mut feet) = (0.0, Vec::new());
    for (c, demand) in demands.iter().enumerate() {
        let parts = || {
            slices.iter().zip(&stretches).filter(|(s, _)| s.count[c] > 0.0).map(|(s, stretch)| {
                let rest = s.sum[c] / s.count[c] - demand * stretch;
                (s.count[c] / (stretch * stretch), rest)
            })
        };
        let weights: f64 = parts().map(|(weight, _)| weight).sum();
        let foot = parts().map(|(weight, rest)| weight * rest).sum::<f64>() / weights.max(1e-300);
        let foot = foot.max(0.0);
        let square: f64 = parts().map(|(weight, rest)| weight * (rest - foot).powi(2)).sum();
        error += square / (means[c] * means[c]).max(1e-300);
        feet.push(foot);
    }
    Some((error, feet))
}

/// Windows in blocks, because a queue carries over from one to the next.
fn bootstrap(slices: &[Slice], cores: u32, classes: usize, seed: u64) -> Vec<Model> {
    let mut chance = stream(seed, 0x109);
    let block = (slices.len() / 20).max(1);
    let pick = Uniform::new(0, slices.len()).expect("there are windows");
    (0..DRAWS)
        .map(|_| {
            let mut drawn: Vec<&Slice> = Vec::with_capacity(slices.len() + block);
            while drawn.len() < slices.len() {
                let from = pick.sample(&mut chance);
                drawn.extend((0..block).map(|nth| &slices[(from + nth) % slices.len()]));
            }
            solve(&drawn, cores, classes)
        })
        .collect()
}
