//! Simulates limited processor sharing of documents: a constant work for each and one by its size, of
//! a list of a thousand sizes as fujita's, at several shares of the two. It shares no code with what it
//! judges.
//!
//! ```text
//! cargo run --release -p solve --example lps_documents > crates/solve/tests/lps_documents.csv
//! ```
//!
//! Each case is 10 runs, of which the first tenth is left out; a half is that of the interval of 95 %
//! over the runs. The sizes are the quantiles at 0.0005, 0.0015, ... of a lognormal distribution, and
//! the mean demand is 1. Each row is a case: the factor by which the sizes are larger than fujita's, the
//! load, the slots, the seed of its first run, the mean response with its half, and the same of the
//! smallest tenth of the documents, of the tenth in the middle, of those from the 90 % quantile up to the
//! 99 % quantile, and of the largest hundredth.

#![allow(clippy::print_stdout)]

use std::collections::VecDeque;

/// fujita: mu and sigma of the logarithm of bytes, work for each byte and for each document \[ms\].
const MU: f64 = 7.811;
const SIGMA: f64 = 1.573;
const PER_BYTE: f64 = 0.4851e-3;
const BASE: f64 = 21.55;
const DOCUMENTS: usize = 1000;
const RUNS: u64 = 10;
/// All documents, and parts of them by size, from here up to there.
const KINDS: [(usize, usize); 5] = [(0, 1000), (0, 100), (450, 550), (900, 990), (990, 1000)];

/// A generator of Steele, Lea and Flood's (SplitMix64), so that a seed is a run for ever.
struct Chance(u64);

impl Chance {
    /// Above 0, below 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

/// P(Z <= z) of the standard normal distribution (Abramowitz and Stegun 26.2.11), for |z| up to 4.
fn normal(z: f64) -> f64 {
    let (mut term, mut sum) = (z, z);
    for k in 1..200 {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 + sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

/// The demands of the documents, from the smallest, of mean 1.
fn demands(factor: f64) -> Vec<f64> {
    let size = |at: usize| {
        let (mut low, mut high) = (-4.0, 4.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if normal(middle) < (at as f64 + 0.5) / DOCUMENTS as f64 {
                low = middle;
            } else {
                high = middle;
            }
        }
        (MU + SIGMA * low).exp()
    };
    let works: Vec<f64> = (0..DOCUMENTS).map(|at| BASE + factor * PER_BYTE * size(at)).collect();
    let mean = works.iter().sum::<f64>() / DOCUMENTS as f64;
    works.iter().map(|work| work / mean).collect()
}

/// One that is served, or waits.
struct Job {
    /// Its demand; in service the end of it, in what each one in service has had since the beginning.
    end: f64,
    arrived: f64,
    document: usize,
}

/// Numbers of jobs and sums of their responses, by document.
struct Sums(Vec<(f64, f64)>);

impl Sums {
    fn mean(&self, (from, to): (usize, usize)) -> f64 {
        let of = &self.0[from..to];
        of.iter().map(|sum| sum.1).sum::<f64>() / of.iter().map(|sum| sum.0).sum::<f64>()
    }
}

fn run(demands: &[f64], rho: f64, slots: usize, (seed, jobs): (u64, usize)) -> Sums {
    let mut chance = Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut sums = Sums(vec![(0.0, 0.0); demands.len()]);
    let mut serving: Vec<Job> = Vec::with_capacity(slots);
    let mut waiting: VecDeque<Job> = VecDeque::new();
    let (mut now, mut had, mut done, mut next) = (0.0_f64, 0.0_f64, 0, 0.0_f64);
    while done < jobs {
        let least = serving.iter().enumerate().min_by(|a, b| a.1.end.total_cmp(&b.1.end));
        let end = least.map(|(at, job)| (at, now + (job.end - had) * serving.len() as f64));
        if let Some((at, end)) = end.filter(|(_, end)| *end <= next) {
            now = end;
            let job = serving.swap_remove(at);
            had = job.end;
            done += 1;
            if done > jobs / 10 {
                let sum = &mut sums.0[job.document];
                *sum = (sum.0 + 1.0, sum.1 + now - job.arrived);
            }
            if let Some(job) = waiting.pop_front() {
                serving.push(Job { end: had + job.end, ..job });
            }
            continue;
        }
        if serving.is_empty() {
            // Digits are kept where nothing is under way.
            had = 0.0;
        } else {
            had += (next - now) / serving.len() as f64;
        }
        now = next;
        let document = (chance.unit() * demands.len() as f64) as usize;
        let job = Job { end: demands[document], arrived: now, document };
        if serving.len() < slots {
            serving.push(Job { end: had + job.end, ..job });
        } else {
            waiting.push_back(job);
        }
        next = now - chance.unit().ln() / rho;
    }
    sums
}

fn main() {
    println!("factor,rho,slots,seed,mean,half,small,half,middle,half,large,half,largest,half");
    let mut seed = 71_000;
    for factor in [1.0, 3.0, 5.0, 10.0, 15.0, 30.0, 100.0] {
        let demands = demands(factor);
        for (rho, jobs) in [(0.5, 1_000_000), (0.8, 3_000_000), (0.9, 6_000_000)] {
            for slots in [2, 4, 8, 16, 32] {
                let runs: Vec<Sums> =
                    (0..RUNS).map(|of| run(&demands, rho, slots, (seed + of, jobs))).collect();
                print!("{factor},{rho},{slots},{seed}");
                for kind in KINDS {
                    let means: Vec<f64> = runs.iter().map(|run| run.mean(kind)).collect();
                    let mean = means.iter().sum::<f64>() / RUNS as f64;
                    let square: f64 = means.iter().map(|of| (of - mean).powi(2)).sum();
                    // Student's t of 9 degrees of freedom.
                    let half = 2.262 * (square / (RUNS - 1) as f64 / RUNS as f64).sqrt();
                    print!(",{mean:.5},{half:.5}");
                }
                println!();
                seed += RUNS;
            }
        }
    }
}
