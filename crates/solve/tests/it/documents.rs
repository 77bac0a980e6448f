//! Limited processor sharing of documents, whose demands are a list with a least value, against a grid
//! that `examples/lps_documents.rs` simulates.

use solve::{Demand, Exactness, Lps};

/// fujita: work for each byte and for each document \[ms\].
const PER_BYTE: f64 = 0.4851e-3;
const BASE: f64 = 21.55;
const DOCUMENTS: usize = 1000;
/// Parts of the documents by size, from here up to there, in the order of the table.
const PARTS: [(usize, usize); 4] = [(0, 100), (450, 550), (900, 990), (990, 1000)];

/// References of the mean and by size that are known less well, as a share, tell of no error: a tenth of
/// what is stated of lists.
const KNOWN: (f64, f64) = (0.012, 0.016);

/// The demands of the documents, from the smallest, of mean 1.
fn demands(factor: f64) -> Vec<f64> {
    // mu = 7.811 and sigma = 1.573 of the logarithm of bytes.
    let sigma2 = 1.573_f64.powi(2);
    let bytes = Demand::lognormal((7.811 + sigma2 / 2.0).exp(), sigma2.exp_m1()).unwrap();
    let size = |at: usize| bytes.quantile((at as f64 + 0.5) / DOCUMENTS as f64).unwrap();
    let works: Vec<f64> = (0..DOCUMENTS).map(|at| BASE + factor * PER_BYTE * size(at)).collect();
    let mean = works.iter().sum::<f64>() / DOCUMENTS as f64;
    works.iter().map(|work| work / mean).collect()
}

/// How far off beyond the interval of the simulation, as a share.
fn off(formula: f64, mean: f64, half: f64) -> f64 {
    (((formula - mean).abs() - half) / mean).max(0.0)
}

fn error(of: Exactness) -> f64 {
    match of {
        Exactness::Exact => 1e-6,
        Exactness::Approximate { error, .. } => error,
    }
}

/// How many numbers were held, of how many, and the worst.
#[derive(Debug, Default)]
struct Count {
    held: u32,
    all: u32,
    worst: f64,
}

impl Count {
    /// A formula's number beside a simulated one with its half, unless that is above this share of it.
    fn add(&mut self, formula: f64, (mean, half): (f64, f64), stated: f64, known: f64) {
        if half <= known * mean {
            let found = off(formula, mean, half);
            self.held += u32::from(found <= stated);
            self.all += 1;
            self.worst = self.worst.max(found);
        }
    }
}

/// The story: Fujita's documents times 10 behind 8 slots were 4.9 % too short in the mean and 12 % for
/// small ones, where 3 and 4 % were stated, of lognormal demands alone; then 6 % where 2 slots are 9.8 %
/// too long.
#[test]
fn documents_are_as_near_to_simulation_as_is_said() {
    let (mut means, mut parts) = (Count::default(), Count::default());
    for line in include_str!("../lps_documents.csv").lines().skip(1) {
        let cell: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let (factor, rho, slots) = (cell[0], cell[1], cell[2] as u32);
        let works = demands(factor);
        let list: Vec<(f64, f64)> = works.iter().map(|work| (*work, 1.0)).collect();
        let lps = Lps::new(rho, Demand::weighted(&list).unwrap(), slots).unwrap();
        let answer = lps.solve().unwrap();
        means.add(answer.response, (cell[4], cell[5]), error(answer.exactness()), KNOWN.0);
        for (at, (from, to)) in PARTS.into_iter().enumerate() {
            let given = works[from..to].iter().map(|work| answer.response_given(*work).unwrap());
            let given = given.sum::<f64>() / (to - from) as f64;
            let simulated = (cell[6 + 2 * at], cell[7 + 2 * at]);
            parts.add(given, simulated, error(answer.exactness_given()), KNOWN.1);
        }
    }
    for (count, least) in [(&means, 80), (&parts, 350)] {
        assert!(count.all >= least, "too few are known: {count:?}");
        assert!(f64::from(count.held) >= 0.99 * f64::from(count.all), "{count:?}");
    }
}
