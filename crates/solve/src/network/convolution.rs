//! Exact solution by the normalising constant, for stations whose speed depends on their jobs.
//!
//! G(n) for all populations n is the coefficient of z^n in the product of the stations' generating
//! functions. With s = sum of D_c z_c over the closed classes and rho the open load, a station is
//!
//! ```text
//!   F(s + rho) = 1 + (s + rho)/a(1) [1 + (s + rho)/a(2) [... [1 / (1 - (s + rho)/a(B))]]]
//! ```
//!
//! where a(B) holds for all larger numbers. Evaluated from the inside it costs B shifted additions of
//! an array, and every term is positive: the relative error stays near the number of operations
//! times 1e-16, where the usual recursion for several servers loses all its digits. The mean number
//! of jobs needs F', which is of the same kind.

use super::answer::Flows;
use super::model::{Model, Spot};
use crate::wide::Wide;

pub(super) fn solve(model: &Model) -> Flows {
    let lattice = Lattice::new(&model.population);
    let mut base = lattice.delays(&model.pause);
    for spot in model.stations.iter().filter(|spot| spot.rates.len() == 1) {
        lattice.apply(&mut base, &Factor::new(model, spot));
    }
    let curved: Vec<usize> =
        (0..model.stations.len()).filter(|&k| model.stations[k].rates.len() > 1).collect();
    let mut whole = base.clone();
    for &k in &curved {
        lattice.apply(&mut whole, &Factor::new(model, &model.stations[k]));
    }
    let top = whole[lattice.size - 1];
    let x: Vec<f64> =
        (0..model.closed.len()).map(|c| whole[lattice.less_one(c)].over(top)).collect();

    // H = F'_k times the constants without station k; E[jobs of c at k] = D_ck H(N - 1_c) / G(N).
    let mut found: Vec<Vec<f64>> = vec![vec![0.0; model.classes]; model.stations.len()];
    let mut record = |k: usize, h: &[Wide]| {
        for (c, &class) in model.closed.iter().enumerate() {
            // A customer's residence, by Little's law: the queue over the throughput.
            found[k][class] = model.stations[k].demand[class]
                * h[lattice.less_one(c)].over(whole[lattice.less_one(c)]);
        }
        for &class in &model.open {
            found[k][class] = model.stations[k].demand[class] * h[lattice.size - 1].over(top);
        }
    };
    for (k, spot) in model.stations.iter().enumerate().filter(|(_, spot)| spot.rates.len() == 1) {
        // F' = F^2 / a here, so the constants with this station twice serve.
        let mut h = whole.clone();
        lattice.apply(&mut h, &Factor::new(model, spot));
        h.iter_mut().for_each(|h| *h = h.times(1.0 / spot.rates[0]));
        record(k, &h);
    }
    lattice.each_left_out(model, &curved, base, &mut record);

    let mut flows = Flows::zero(model);
    for (c, &x) in x.iter().enumerate() {
        flows.set_closed(model, c, x, |k| found[k][model.closed[c]]);
    }
    flows.set_open(model, |k, class| found[k][class]);
    flows
}

/// The generating function of a station.
struct Factor<'a> {
    /// D by closed class, classes without demand left out.
    demand: Vec<(usize, f64)>,
    open_load: f64,
    rates: &'a [f64],
}

impl<'a> Factor<'a> {
    fn new(model: &Model, spot: &'a Spot) -> Factor<'a> {
        let demand = model.closed.iter().map(|&class| spot.demand[class]).enumerate();
        Factor {
            demand: demand.filter(|(_, d)| *d > 0.0).collect(),
            open_load: spot.open_load,
            rates: &spot.rates,
        }
    }

    fn rate_last(&self) -> f64 {
        *self.rates.last().expect("a delay has no factor")
    }
}

/// The coefficients of an expansion b(0), b(1), ... b(n) of F(s + rho) in s.
pub(super) fn expansion(rates: &[f64], open_load: f64, n: u32) -> Vec<Wide> {
    let lattice = Lattice::new(&[n]);
    let mut b = vec![Wide::ZERO; lattice.size];
    b[0] = Wide::ONE;
    lattice.apply(&mut b, &Factor { demand: vec![(0, 1.0)], open_load, rates });
    b
}

/// The populations from nobody to all, each with a place in an array.
struct Lattice {
    population: Vec<u32>,
    strides: Vec<usize>,
    size: usize,
}

impl Lattice {
    fn new(population: &[u32]) -> Lattice {
        let mut strides = vec![1; population.len()];
        let mut size = 1;
        for c in (0..population.len()).rev() {
            strides[c] = size;
            size *= population[c] as usize + 1;
        }
        Lattice { population: population.to_vec(), strides, size }
    }

    /// The place of the whole population without one customer of a class.
    fn less_one(&self, class: usize) -> usize {
        self.size - 1 - self.strides[class]
    }

    /// Number of customers of a class in the population at a place.
    fn count(&self, class: usize, place: usize) -> usize {
        place / self.strides[class] % (self.population[class] as usize + 1)
    }

    /// Delays: the product of Z_c^n_c / n_c! over the classes.
    fn delays(&self, pause: &[f64]) -> Vec<Wide> {
        let mut g = vec![Wide::ZERO; self.size];
        g[0] = Wide::ONE;
        for place in 1..self.size {
            let class = (0..self.strides.len())
                .find(|&c| self.count(c, place) > 0)
                .expect("only the first place is nobody's");
            let factor = pause[class] / self.count(class, place) as f64;
            g[place] = g[place - self.strides[class]].times(factor);
        }
        g
    }

    /// g = F g.
    fn apply(&self, g: &mut [Wide], factor: &Factor) {
        if factor.rates.len() == 1 {
            return self.geometric(g, factor);
        }
        let mut sum = g.to_vec();
        self.geometric(&mut sum, factor);
        for &rate in factor.rates.iter().rev() {
            self.nest(&mut sum, g, 1.0, factor, rate);
        }
        g.copy_from_slice(&sum);
    }

    /// F' g. With x = (s + rho)/a(B), F' = 1/a(1) [1 + (s + rho)/a(2) [2 + ... [B + (B+1) x + ...]]]
    /// and the innermost sum is (B-1)/(1-x) + 1/(1-x)^2.
    fn derivative(&self, g: &[Wide], factor: &Factor) -> Vec<Wide> {
        let mut once = g.to_vec();
        self.geometric(&mut once, factor);
        let mut sum = once.clone();
        self.geometric(&mut sum, factor);
        let length = factor.rates.len();
        for (sum, once) in sum.iter_mut().zip(once) {
            *sum = sum.plus(once.times(length as f64 - 1.0));
        }
        for j in (2..=length).rev() {
            self.nest(&mut sum, g, (j - 1) as f64, factor, factor.rates[j - 1]);
        }
        sum.iter_mut().for_each(|sum| *sum = sum.times(1.0 / factor.rates[0]));
        sum
    }

    /// g = g / (1 - (s + rho)/a(B)), in place: smaller populations come first.
    fn geometric(&self, g: &mut [Wide], factor: &Factor) {
        let a = factor.rate_last();
        let rest = a - factor.open_load;
        for place in 0..self.size {
            let mut sum = g[place].times(a);
            for &(class, demand) in &factor.demand {
                if self.count(class, place) > 0 {
                    sum = sum.plus(g[place - self.strides[class]].times(demand));
                }
            }
            g[place] = sum.times(1.0 / rest);
        }
    }

    /// sum = weight g + (s + rho)/rate sum, in place: larger populations come first.
    fn nest(&self, sum: &mut [Wide], g: &[Wide], weight: f64, factor: &Factor, rate: f64) {
        for place in (0..self.size).rev() {
            let mut shifted = sum[place].times(factor.open_load);
            for &(class, demand) in &factor.demand {
                if self.count(class, place) > 0 {
                    shifted = shifted.plus(sum[place - self.strides[class]].times(demand));
                }
            }
            sum[place] = g[place].times(weight).plus(shifted.times(1.0 / rate));
        }
    }

    /// For each of the stations, F' of it times the constants of all others: halving the list, so
    /// that log2 of its length arrays are held and as many rounds made.
    fn each_left_out(
        &self,
        model: &Model,
        stations: &[usize],
        without: Vec<Wide>,
        record: &mut impl FnMut(usize, &[Wide]),
    ) {
        match stations {
            [] => {}
            [k] => {
                let factor = Factor::new(model, &model.stations[*k]);
                record(*k, &self.derivative(&without, &factor));
            }
            _ => {
                let (left, right) = stations.split_at(stations.len() / 2);
                for (half, other) in [(left, right), (right, left)] {
                    let mut g = without.clone();
                    for &k in other {
                        self.apply(&mut g, &Factor::new(model, &model.stations[k]));
                    }
                    self.each_left_out(model, half, g, record);
                }
            }
        }
    }
}
