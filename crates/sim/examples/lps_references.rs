//! Makes the references that `solve`'s limited processor sharing is held against, by simulation.
//!
//! M/G/1 with limited processor sharing is simulated by a loop written for it alone: Poisson
//! arrivals, first in first out in front of r slots, whose holders share one server equally. The
//! demand has mean 1. A job of size x and a larger one are alike until each has been given x, so
//! the time in which a job is given x is counted for every job of at least that size. The variance
//! is reduced by regression on three quantities whose means are known: the workload (Pollaczek and
//! Khinchine), the demand and its square.
//!
//! ```text
//! cargo run --release -p sim --example lps_references -- 20 > crates/solve/tests/lps_references.csv
//! ```
//!
//! 20 is the length of a case in millions of jobs, four times that where load or tail is heavy; with
//! another length the table differs. An interval is of 95 %.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Case number i draws from this seed plus i.
const SEED: u64 = 2_009_110_700;
const BATCHES: usize = 100;
/// Student's t, 95 %, for 100 batches less four estimated coefficients.
const STUDENT: f64 = 1.985;
/// Shares of jobs that are at most as large as the sizes at which the response is given; of a
/// constant demand, the sizes.
const SHARES: [f64; 7] = [0.01, 0.1, 0.5, 0.9, 0.99, 0.997, 0.999];
/// Standard normal quantiles of `SHARES`.
const NORMAL: [f64; 7] = [
    -2.326_347_874,
    -1.281_551_566,
    0.0,
    1.281_551_566,
    2.326_347_874,
    2.747_781_385,
    3.090_232_306,
];
const MARKS: usize = SHARES.len();
/// The mark that a tenth of all jobs exceed.
const TENTH: usize = 3;
/// Of jobs that are not among the largest tenth, one in this many is watched.
const WATCHED: u64 = 4;

#[derive(Clone, Copy)]
enum Demand {
    /// Mean and standard deviation of the logarithm.
    Lognormal {
        mu: f64,
        sigma: f64,
    },
    /// Two exponentials with means 1 / (2 p) and 1 / (2 (1 - p)): balanced means.
    Hyperexponential {
        p: f64,
    },
    Constant,
}

impl Demand {
    fn lognormal(scv: f64) -> Demand {
        let variance = (1.0 + scv).ln();
        Demand::Lognormal { mu: -variance / 2.0, sigma: variance.sqrt() }
    }

    fn hyperexponential(scv: f64) -> Demand {
        Demand::Hyperexponential { p: (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0 }
    }

    /// The k-th moment.
    fn moment(self, k: i32) -> f64 {
        match self {
            Demand::Constant => 1.0,
            Demand::Lognormal { mu, sigma } => {
                let k = f64::from(k);
                (k * mu + k * k * sigma * sigma / 2.0).exp()
            }
            Demand::Hyperexponential { p } => {
                let factorial = f64::from((1..=k).product::<i32>());
                factorial * (p * (0.5 / p).powi(k) + (1.0 - p) * (0.5 / (1.0 - p)).powi(k))
            }
        }
    }

    fn draw(self, random: &mut Xoshiro256PlusPlus) -> f64 {
        let unit = |random: &mut Xoshiro256PlusPlus| 1.0 - random.random::<f64>();
        match self {
            Demand::Constant => 1.0,
            Demand::Lognormal { mu, sigma } => {
                let radius = (-2.0 * unit(random).ln()).sqrt();
                let angle = std::f64::consts::TAU * unit(random);
                (mu + sigma * radius * angle.cos()).exp()
            }
            Demand::Hyperexponential { p } => {
                let share = if unit(random) <= p { p } else { 1.0 - p };
                -unit(random).ln() * 0.5 / share
            }
        }
    }

    /// The size that a share of all jobs, number `mark` of `SHARES`, does not exceed.
    fn size(self, mark: usize) -> f64 {
        match self {
            Demand::Constant => SHARES[mark],
            Demand::Lognormal { mu, sigma } => (mu + sigma * NORMAL[mark]).exp(),
            Demand::Hyperexponential { p } => {
                let tail =
                    |x: f64| p * (-2.0 * p * x).exp() + (1.0 - p) * (-2.0 * (1.0 - p) * x).exp();
                let (mut low, mut high) = (0.0, 1e6);
                for _ in 0..200 {
                    let middle = 0.5 * (low + high);
                    if tail(middle) > 1.0 - SHARES[mark] {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                high
            }
        }
    }
}

struct Case {
    family: &'static str,
    scv: f64,
    rho: f64,
    slots: usize,
}

/// A job in service: the virtual time of its next mark, or of its end.
struct Served {
    next: f64,
    start: f64,
    end: f64,
    entered: f64,
    last: f64,
    mark: usize,
}

/// What is summed over a batch.
#[derive(Clone, Default)]
struct Batch {
    jobs: f64,
    wait: f64,
    hold: f64,
    demand: f64,
    square: f64,
    backlog: f64,
    time: f64,
    /// Times in which jobs of at least the size of a mark were brought there from the one before.
    steps: [f64; MARKS],
    counts: [f64; MARKS],
}

struct Simulation {
    random: Xoshiro256PlusPlus,
    demand: Demand,
    rho: f64,
    slots: usize,
    marks: [f64; MARKS],
    now: f64,
    attained: f64,
    workload: f64,
    served: Vec<Served>,
    queue: VecDeque<(f64, f64)>,
    batch: Batch,
    started: u64,
}

impl Simulation {
    fn new(case: &Case, seed: u64) -> Simulation {
        let demand = demand_of(case);
        Simulation {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            demand,
            rho: case.rho,
            slots: case.slots,
            marks: std::array::from_fn(|mark| demand.size(mark)),
            now: 0.0,
            attained: 0.0,
            workload: 0.0,
            served: Vec::new(),
            queue: VecDeque::new(),
            batch: Batch::default(),
            started: 0,
        }
    }

    fn run(&mut self, arrivals: u64) -> Batch {
        self.batch = Batch::default();
        for _ in 0..arrivals {
            let gap = -(1.0 - self.random.random::<f64>()).ln() / self.rho;
            self.serve_until(self.now + gap);
            let size = self.demand.draw(&mut self.random);
            self.batch.jobs += 1.0;
            self.batch.demand += size;
            self.batch.square += size * size;
            self.workload += size;
            if self.served.len() < self.slots {
                self.start(self.now, size);
            } else {
                self.queue.push_back((self.now, size));
            }
        }
        self.batch.clone()
    }

    fn serve_until(&mut self, until: f64) {
        while let Some(first) = self.served.last() {
            let sharing = self.served.len() as f64;
            let at = self.now + (first.next - self.attained) * sharing;
            if at > until {
                break;
            }
            let mut job = self.served.pop().expect("there is a last one");
            self.pass(at - self.now);
            self.now = at;
            self.attained = job.next;
            if job.next < job.end {
                let step = self.now - job.last;
                self.batch.steps[job.mark] += step;
                self.batch.counts[job.mark] += 1.0;
                job.last = self.now;
                job.mark += 1;
                job.next = self.next_mark(&job);
                self.insert(job);
            } else {
                self.batch.hold += self.now - job.entered;
                if let Some((arrived, size)) = self.queue.pop_front() {
                    self.start(arrived, size);
                }
            }
        }
        let gap = until - self.now;
        if self.served.is_empty() {
            self.attained = 0.0;
        } else {
            self.attained += gap / self.served.len() as f64;
        }
        self.pass(gap);
        self.now = until;
    }

    /// Time passes: the server works as long as there is work.
    fn pass(&mut self, gap: f64) {
        let left = (self.workload - gap).max(0.0);
        let busy = if left > 0.0 { gap } else { self.workload };
        self.batch.backlog += 0.5 * (self.workload + left) * busy;
        self.batch.time += gap;
        self.workload = left;
    }

    fn start(&mut self, arrived: f64, size: f64) {
        self.batch.wait += self.now - arrived;
        self.started += 1;
        let watched = self.started.is_multiple_of(WATCHED) || size > self.marks[TENTH];
        let mark = if watched { 0 } else { MARKS };
        let (now, start) = (self.now, self.attained);
        let mut job = Served { next: 0.0, start, end: start + size, entered: now, last: now, mark };
        job.next = self.next_mark(&job);
        self.insert(job);
    }

    fn next_mark(&self, job: &Served) -> f64 {
        self.marks.get(job.mark).map_or(job.end, |&mark| job.end.min(job.start + mark))
    }

    fn insert(&mut self, job: Served) {
        let place = self.served.partition_point(|other| other.next > job.next);
        self.served.insert(place, job);
    }
}

fn demand_of(case: &Case) -> Demand {
    match case.family {
        "lognormal" => Demand::lognormal(case.scv),
        "constant" => Demand::Constant,
        _ => Demand::hyperexponential(case.scv),
    }
}

/// Mean and half-width of a quantity, regressed on controls of mean zero.
fn regressed(values: &[f64], controls: &[[f64; 3]]) -> (f64, f64) {
    let n = values.len() as f64;
    // Normal equations of [1, controls], four by four, with the right side as fifth column.
    let mut a = [[0.0; 5]; 4];
    for (&value, control) in values.iter().zip(controls) {
        let row = [1.0, control[0], control[1], control[2], value];
        for i in 0..4 {
            for j in 0..5 {
                a[i][j] += row[i] * row[j];
            }
        }
    }
    // The variance of the intercept is that of the residuals times the first diagonal element of
    // the inverse, which is found with the solution.
    let mut inverse = [[0.0; 4]; 4];
    for (i, row) in inverse.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    for i in 0..4 {
        // A control that never varies, as a constant demand, explains nothing.
        if a[i][i].abs() < 1e-18 {
            a[i][i] = 1.0;
        }
        let pivot = a[i][i];
        a[i].iter_mut().chain(inverse[i].iter_mut()).for_each(|cell| *cell /= pivot);
        let (pivot_row, pivot_inverse) = (a[i], inverse[i]);
        for k in (0..4).filter(|&k| k != i) {
            let factor = a[k][i];
            a[k].iter_mut().zip(pivot_row).for_each(|(cell, other)| *cell -= factor * other);
            inverse[k]
                .iter_mut()
                .zip(pivot_inverse)
                .for_each(|(cell, other)| *cell -= factor * other);
        }
    }
    let residual: f64 = values
        .iter()
        .zip(controls)
        .map(|(value, c)| {
            let fitted = a[0][4] + a[1][4] * c[0] + a[2][4] * c[1] + a[3][4] * c[2];
            (value - fitted).powi(2)
        })
        .sum();
    (a[0][4], STUDENT * (residual / (n - 4.0) * inverse[0][0]).sqrt())
}

fn simulate(case: &Case, seed: u64, jobs: u64) {
    let demand = demand_of(case);
    let mut simulation = Simulation::new(case, seed);
    let length = jobs / BATCHES as u64;
    simulation.run(length);
    let batches: Vec<Batch> = (0..BATCHES).map(|_| simulation.run(length)).collect();
    let workload = case.rho * demand.moment(2) / (2.0 * (1.0 - case.rho));
    let controls: Vec<[f64; 3]> = batches
        .iter()
        .map(|b| {
            let square = b.square / b.jobs / demand.moment(2) - 1.0;
            [b.backlog / b.time / workload - 1.0, b.demand / b.jobs - 1.0, square]
        })
        .collect();
    let row = |what: &str, x: f64, values: Vec<f64>| {
        let (mean, half) = regressed(&values, &controls);
        let Case { family, scv, rho, slots } = case;
        println!("{family},{scv},{rho},{slots},{seed},{what},{x:.6},{mean:.6},{half:.6}");
    };
    row("wait", 0.0, batches.iter().map(|b| b.wait / b.jobs).collect());
    row("mean", 1.0, batches.iter().map(|b| (b.wait + b.hold) / b.jobs).collect());
    for (mark, share) in SHARES.iter().enumerate() {
        let values = batches.iter().map(|b| {
            let steps = b.steps.iter().zip(&b.counts).take(mark + 1);
            b.wait / b.jobs + steps.map(|(step, count)| step / count.max(1.0)).sum::<f64>()
        });
        row(&share.to_string(), simulation.marks[mark], values.collect());
    }
}

fn main() {
    let millions: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(3);
    let only = std::env::args().nth(2);
    println!("family,scv,rho,slots,seed,what,size,seconds,half_width");
    let mut seed = SEED;
    for (family, loads, all_slots) in [
        ("lognormal", &[0.2, 0.5, 0.8, 0.9][..], &[2, 4, 8, 16, 32, 64][..]),
        ("hyperexponential", &[0.5, 0.9][..], &[4, 16, 64][..]),
        ("constant", &[0.8][..], &[2, 4][..]),
    ] {
        let scvs = if family == "constant" { &[0.0][..] } else { &[4.0, 20.0, 60.0][..] };
        for &scv in scvs {
            for &rho in loads {
                // Heavy traffic and a heavy tail are what need the long runs.
                let long = rho > 0.7 || (scv > 50.0 && rho > 0.4);
                let jobs = millions * 1_000_000 * if long { 4 } else { 1 };
                for &slots in all_slots {
                    seed += 1;
                    let case = Case { family, scv, rho, slots };
                    let name = format!("{family},{scv},{rho},{slots},");
                    if only.as_ref().is_none_or(|only| name.starts_with(only.as_str())) {
                        simulate(&case, seed, jobs);
                    }
                }
            }
        }
    }
}
