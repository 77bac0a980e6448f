//! The knee from runs of somebody else's tool: the asymptotes through them, and what a single run
//! cannot tell.

use measure::figures::{digits, rate, time};
use serde::Serialize;

use super::{ExplainOptions, LittleCheck, Pace, ToolRun};

/// Position of a run relative to the knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Below the knee: more load still brings more throughput.
    Before,
    /// About at the knee.
    At,
    /// Beyond: more load brings waiting only.
    Past,
    /// The runs do not tell.
    Unknown,
}

/// Source of the knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KneeFrom {
    /// Not at all.
    Nothing,
    /// From one run and the response of a single client.
    Alone,
    /// From two loads: the line of an ideal server and the ceiling through them.
    TwoLoads,
    /// From three loads or more: the universal scalability law.
    Scalability,
    /// From an open load: what was asked for against what was answered.
    Offered,
}

/// Past the knee or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// Position of the run with the most load.
    pub side: Side,
    /// The clients at which the asymptotes meet, N* = (D + Z) / D_max: lowest and highest.
    pub clients: Option<[f64; 2]>,
    /// The clients beyond which throughput falls, from the universal scalability law.
    pub peak: Option<f64>,
    /// Its source.
    pub from: KneeFrom,
    /// Why, in sentences.
    pub why: Vec<String>,
}

impl Knee {
    fn unknown(why: String) -> Knee {
        let from = KneeFrom::Nothing;
        Knee { side: Side::Unknown, clients: None, peak: None, from, why: vec![why] }
    }
}

/// A closed load: clients and throughput.
#[derive(Clone, Copy)]
struct Point {
    n: f64,
    x: f64,
}

pub(super) fn find(runs: &[ToolRun], little: &[LittleCheck], options: &ExplainOptions) -> Knee {
    if let Some(at) = little.iter().position(LittleCheck::is_failing) {
        return Knee::unknown(format!("run {} is one of failures, which tell no knee", at + 1));
    }
    if runs.iter().all(|run| run.pace != Pace::AtOnce) {
        return by_schedule(runs, little);
    }
    let mut points: Vec<Point> = runs
        .iter()
        .zip(little)
        .filter(|(run, _)| run.pace == Pace::AtOnce)
        .filter_map(|(run, check)| Some(Point { n: clients(check)?, x: run.throughput }))
        .collect();
    points.sort_by(|a, b| a.n.total_cmp(&b.n));
    let loads = loads(&points);
    match (&loads[..], options.alone) {
        ([], _) => {
            Knee::unknown("the clients of no run are known; give them with --clients".into())
        }
        ([one], Some(alone)) => from_alone(*one, alone + options.think),
        ([one], None) => single(*one, runs, little),
        ([low, high], _) => two(*low, *high),
        (more, _) => scalability(more),
    }
}

/// The clients of a run: known, or where the law makes them a whole number.
pub(super) fn clients(check: &LittleCheck) -> Option<f64> {
    let found = || {
        let found = check.found?;
        let whole = found.round();
        (whole >= 1.0 && (found / whole - 1.0).abs() < 0.02).then_some(whole)
    };
    check.clients.map(f64::from).or_else(found)
}

/// The mean throughput of each load, by rising load.
fn loads(points: &[Point]) -> Vec<Point> {
    let of_same = |same: &[Point]| {
        let x = same.iter().map(|point| point.x).sum::<f64>() / same.len() as f64;
        Point { n: same[0].n, x }
    };
    points.chunk_by(|a, b| a.n == b.n).map(of_same).collect()
}

/// Below and above these shares of the ideal throughput a run is past and before the knee; at the
/// knee itself real servers reach about two thirds.
const IDEAL: (f64, f64) = (0.5, 0.8);

fn from_alone(point: Point, cycle: f64) -> Knee {
    let lowest = point.x * cycle;
    let ideal = lowest / point.n;
    let side = match ideal {
        share if share > IDEAL.1 => Side::Before,
        share if share < IDEAL.0 => Side::Past,
        _ => Side::At,
    };
    let why = format!(
        "with {} the throughput is {:.0} % of what it were if nobody waited; no server with \
         this throughput has a knee below X (R_1 + Z) = {lowest:.1} clients",
        if point.n == 1.0 { "1 client".to_owned() } else { format!("{} clients", point.n) },
        (100.0 * ideal).min(100.0)
    );
    // Only a run past the knee shows the ceiling, and with it the other end.
    let clients = (side == Side::Past).then_some([lowest, lowest / IDEAL.0]);
    Knee { side, clients, peak: None, from: KneeFrom::Alone, why: vec![why] }
}

fn single(point: Point, runs: &[ToolRun], little: &[LittleCheck]) -> Knee {
    let mut knee = Knee::unknown(
        "one load cannot tell: the same numbers come from a fast server that queues and from a slow \
         one that does not"
            .into(),
    );
    let run = runs.iter().zip(little).find(|(_, check)| clients(check) == Some(point.n));
    if let Some((run, _)) = run
        && let (Some(fastest), Some(mean)) = (run.fastest, run.response)
        && fastest > 0.0
        && point.n > 1.0
    {
        knee.why.push(format!(
            "a hint: the mean is {:.1} times the fastest response; if the fastest met nobody, {:.0} % \
             of the mean is waiting and the knee is near X times the fastest = {:.1} clients",
            mean.seconds / fastest,
            100.0 * (1.0 - fastest / mean.seconds).max(0.0),
            (run.throughput * fastest).max(1.0)
        ));
    } else if let Some((run, _)) = run
        && let (Some(median), Some(tail)) = (quantile(run, 0.5), quantile(run, 0.99))
        && median > 0.0
    {
        knee.why.push(format!("a hint: p99 is {:.1} times the median", tail / median));
    }
    knee
}

fn quantile(run: &ToolRun, q: f64) -> Option<f64> {
    run.quantiles.iter().find(|(share, _)| (share - q).abs() < 1e-9).map(|(_, seconds)| *seconds)
}

/// Through two loads: the ideal line and the ceiling of X = gamma N / (1 + alpha (N - 1)), which is
/// the universal scalability law without its last term (Gunther 2007), and the ceiling that was
/// seen. N/X = R + Z is convex in N for single servers, so that its chord is flatter than its end:
/// the true ceiling lies between the two.
fn two(low: Point, high: Point) -> Knee {
    let from = KneeFrom::TwoLoads;
    let gain = high.x / low.x;
    let rise =
        format!("{:.1} times the clients bring {gain:.2} times the throughput", high.n / low.n);
    if gain < 0.97 {
        let why = vec![rise, "throughput falls: the server does extra work under load".into()];
        let clients = Some([1.0, high.n]);
        return Knee { side: Side::Past, clients, peak: None, from, why };
    }
    // N/X is linear in N: (1 - alpha)/gamma + (alpha/gamma) N.
    let cycles = (low.n / low.x, high.n / high.x);
    let slope = (cycles.1 - cycles.0) / (high.n - low.n);
    let cycle_alone = cycles.0 - slope * (low.n - 1.0);
    if gain > 0.97 * high.n / low.n || cycle_alone <= 0.0 {
        let why = vec![rise, "as much as nobody waiting would: no ceiling is in sight".into()];
        return Knee { side: Side::Before, clients: None, peak: None, from, why };
    }
    let (ceiling, seen) = (1.0 / slope, high.x.max(low.x));
    let lowest = (cycle_alone * seen).max(1.0);
    let highest = (cycle_alone * ceiling).max(lowest);
    let side = match high.n {
        n if n > highest => Side::Past,
        n if n < lowest => Side::Before,
        _ => Side::At,
    };
    let why = vec![
        rise,
        format!(
            "the ideal line is N / {}, the ceiling between {} (seen) and {} (if X bends as N / (1 + a \
             (N - 1))): they meet at {lowest:.1} to {highest:.1} clients",
            time(cycle_alone),
            rate(seen),
            rate(ceiling)
        ),
    ];
    Knee { side, clients: Some([lowest, highest]), peak: None, from, why }
}

/// Beyond so many times the most clients that were measured, a number of clients is not known.
const BEYOND: f64 = 2.0;

/// Least squares of N/X = p + q N + s N (N - 1), which is the universal scalability law,
/// X = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), with 1/gamma = p + q, alpha/gamma = q,
/// beta/gamma = s; s below 0 is taken as 0.
fn scalability(points: &[Point]) -> Knee {
    let (mut p, mut q, mut s) = quadratic(points);
    if s < 0.0 || points.len() < 3 {
        (p, q) = straight(points);
        s = 0.0;
    }
    let gamma_inverse = p + q;
    let seen = points.iter().map(|point| point.x).fold(0.0, f64::max);
    let high = points[points.len() - 1];
    if gamma_inverse <= 0.0 || q < 0.0 {
        let low = points[0];
        return two(low, high);
    }
    let (alpha, beta) = (q / gamma_inverse, s / gamma_inverse);
    // The derivative of X is 0 where 1 - alpha = beta N^2.
    let peak = (beta > 0.0 && alpha < 1.0).then(|| ((1.0 - alpha) / beta).sqrt().max(1.0));
    let ceiling = match peak {
        Some(n) => n / (p + q * n + s * n * (n - 1.0)),
        None if q > 0.0 => 1.0 / q,
        None => f64::INFINITY,
    };
    let lowest = (gamma_inverse * seen).max(1.0);
    let highest = (gamma_inverse * ceiling).max(lowest);
    let side = match high.n {
        n if n > highest => Side::Past,
        n if n < lowest => Side::Before,
        _ => Side::At,
    };
    // Beyond twice what was measured, neither is more than a guess of the law.
    let told = |n: f64| n <= BEYOND * high.n;
    let mut why = vec![format!(
        "the universal scalability law through {} loads has alpha = {} (what is serial) and beta = {} \
         (what grows with every pair)",
        points.len(),
        digits(alpha),
        digits(beta)
    )];
    let clients = told(highest).then_some([lowest, highest]);
    if clients.is_none() {
        why.push(format!(
            "the ceiling is not in sight: the knee lies anywhere from {lowest:.1} clients on; measure \
             more than {}",
            high.n
        ));
    }
    let peak = peak.filter(|&n| told(n));
    Knee { side, clients, peak, from: KneeFrom::Scalability, why }
}

/// Least squares of N/X = p + q N.
fn straight(points: &[Point]) -> (f64, f64) {
    let count = points.len() as f64;
    let n_mean = points.iter().map(|point| point.n).sum::<f64>() / count;
    let y_mean = points.iter().map(|point| point.n / point.x).sum::<f64>() / count;
    let (mut across, mut square) = (0.0, 0.0);
    for point in points {
        across += (point.n - n_mean) * (point.n / point.x - y_mean);
        square += (point.n - n_mean).powi(2);
    }
    let q = across / square;
    (y_mean - q * n_mean, q)
}

/// Least squares of N/X = p + q N + s N (N - 1), by orthogonal polynomials over the loads.
fn quadratic(points: &[Point]) -> (f64, f64, f64) {
    let (p, q) = straight(points);
    let count = points.len() as f64;
    let bend = |n: f64| n * (n - 1.0);
    // What of the bend a straight line does not already tell.
    // `straight` fits N/X: with this X it fits the bend, which is 0 for one client.
    let bent: Vec<Point> = points
        .iter()
        .map(|point| Point { n: point.n, x: point.n / bend(point.n).max(1e-300) })
        .collect();
    let (bp, bq) = straight(&bent);
    let left = |n: f64| bend(n) - bp - bq * n;
    let (mut across, mut square) = (0.0, 0.0);
    for point in points {
        across += left(point.n) * (point.n / point.x);
        square += left(point.n).powi(2);
    }
    if square < 1e-12 * count {
        return (p, q, 0.0);
    }
    let s = across / square;
    (p - s * bp, q - s * bq, s)
}

/// The knee of scheduled and open loads: the capacity is higher if every request had its answer,
/// and is passed if requests piled up.
fn by_schedule(runs: &[ToolRun], little: &[LittleCheck]) -> Knee {
    let from = KneeFrom::Offered;
    for (at, (run, check)) in runs.iter().zip(little).enumerate().rev() {
        let overdue = match (run.pace, check.clients, check.found) {
            (Pace::Scheduled, Some(clients), Some(found)) => {
                found > f64::from(clients) * (1.0 + check.tolerance)
            }
            _ => run.offered.is_some_and(|offered| run.throughput < 0.97 * offered),
        };
        if overdue {
            let why = vec![format!(
                "run {}: {} were answered and requests piled up: the rate is beyond the capacity",
                at + 1,
                rate(run.throughput)
            )];
            return Knee { side: Side::Past, clients: None, peak: None, from, why };
        }
    }
    let why = vec![
        "what was asked for was answered, so the capacity is higher; how much higher, only a higher \
         rate or a closed run tells"
            .into(),
    ];
    Knee { side: Side::Before, clients: None, peak: None, from, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service of an answer in a quarter of an hour had a ceiling of "0 /s", and one of a microsecond a
    /// line of "N / 0.001 ms".
    #[test]
    fn a_knee_of_any_size_keeps_its_digits() {
        let why = |points: [(f64, f64); 2]| {
            let [low, high] = points.map(|(n, x)| Point { n, x });
            two(low, high).why.join(" ")
        };
        let slow = why([(1.0, 0.001), (4.0, 0.002)]);
        for wanted in ["N / 1000 s", "0.00200 /s (seen)", "0.00300 /s (if"] {
            assert!(slow.contains(wanted), "{slow}");
        }
        let quick = why([(1.0, 1e6), (4.0, 2e6)]);
        for wanted in ["N / 1.00 us", "2000000 /s (seen)", "3000000 /s (if"] {
            assert!(quick.contains(wanted), "{quick}");
        }
    }
}
