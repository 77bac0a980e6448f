//! Hit ratios of a cache, key by key, if keys are asked for independently.

use crate::error::{at_least_one, not_negative, positive};
use crate::{Exactness, SolveError};

/// Rules for the key that a full cache forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The key that was used least recently.
    Lru,
    /// The key that came in first.
    Fifo,
    /// Any, each alike.
    Random,
}

/// Keys up to which FIFO and RANDOM are solved exactly, and LRU: within a tenth of a second.
const EXACT_MAX: usize = 1000;
const EXACT_LRU_MAX: usize = 200;
/// Steps of Simpson's rule over the time that a key stays.
const STEPS: usize = 512;
/// Rest of a probability at which a sum or an integral ends.
const LEFT: f64 = 1e-12;

/// A cache of C keys of K that are asked for independently, each with a chance of its own (the independent
/// reference model), with the probability of a hit of each.
///
/// FIFO and RANDOM remember a set of C keys with a probability in proportion to the product of their
/// chances (Gelenbe 1973), which is that of K independent keys that are there with chance p t / (1 + p t),
/// given that there are C: exact by convolution up to 1000 keys, and beyond without the condition, with t
/// such that C are there on average. A key of LRU is there while fewer than C others were asked for since
/// it was (King 1971; in continuous time Fagin 1977): an integral, exact up to 200 keys, and beyond with the
/// same time T for all, 1 - exp(-p T) (Che, Tung and Wang 2002). Against the exact answers and a
/// simulation, with Zipf's exponents up to 1.6, both are within 2 % of the hit ratio and 6 % of any key's
/// probability from 10 remembered keys on, and within 12 and 25 % from 2 on. A cache of one key is exact.
///
/// ```
/// use solve::{CacheHits, Replacement};
///
/// // One of two keys, asked for at 3 to 1: what was asked for last is there.
/// let hits = CacheHits::new(&[0.75, 0.25], 1, Replacement::Lru)?;
/// assert!((hits.hit_ratio() - (0.75 * 0.75 + 0.25 * 0.25)).abs() < 1e-9);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CacheHits {
    chances: Vec<f64>,
    hits: Vec<f64>,
    exactness: Exactness,
    exactness_given: Exactness,
}

impl CacheHits {
    /// A cache of so many keys, which are asked for with these weights (the sum need not be 1).
    ///
    /// # Errors
    /// If nothing is remembered, a weight is negative, or all are zero.
    pub fn new(
        weights: &[f64],
        capacity: u32,
        replacement: Replacement,
    ) -> Result<CacheHits, SolveError> {
        at_least_one("keys remembered C", capacity)?;
        for weight in weights {
            not_negative("weight of a key", *weight, "")?;
        }
        let sum = positive("sum of weights", weights.iter().sum(), "")?;
        let chances: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        // Nobody asks for the others.
        let asked: Vec<f64> = chances.iter().copied().filter(|chance| *chance > 0.0).collect();
        let c = capacity as usize;
        let is_exact = c == 1
            || asked.len() <= c
            || match replacement {
                Replacement::Lru => asked.len() <= EXACT_LRU_MAX,
                Replacement::Fifo | Replacement::Random => asked.len() <= EXACT_MAX,
            }
            || asked.iter().all(|chance| (chance / asked[0] - 1.0).abs() < 1e-12);
        let of_asked = hits_of(&asked, c, replacement);
        let mut of_asked = of_asked.into_iter();
        let hit = |chance: &f64| if *chance > 0.0 { of_asked.next().unwrap_or(0.0) } else { 0.0 };
        let hits = chances.iter().map(hit).collect();
        let within = |error: f64| match is_exact {
            true => Exactness::Exact,
            false => Exactness::Approximate { source: "one time for all keys", error },
        };
        let (exactness, exactness_given) =
            if c >= 10 { (within(0.02), within(0.06)) } else { (within(0.12), within(0.25)) };
        Ok(CacheHits { chances, hits, exactness, exactness_given })
    }

    /// Share of lookups that hit.
    pub fn hit_ratio(&self) -> f64 {
        self.chances.iter().zip(&self.hits).map(|(chance, hit)| chance * hit).sum()
    }

    /// By key: the probability that it is there when it is asked for; 0 for those that never are.
    pub fn hits(&self) -> &[f64] {
        &self.hits
    }

    /// Of the hit ratio.
    pub fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// Of the probability of one key.
    pub fn exactness_given(&self) -> Exactness {
        self.exactness_given
    }
}

fn hits_of(p: &[f64], c: usize, replacement: Replacement) -> Vec<f64> {
    let k = p.len();
    if k <= c {
        return vec![1.0; k];
    }
    // What was asked for last is there.
    if c == 1 {
        return p.to_vec();
    }
    // Keys that are all alike are there with the same chance, whoever is forgotten.
    if p.iter().all(|chance| (chance / p[0] - 1.0).abs() < 1e-12) {
        return vec![c as f64 / k as f64; k];
    }
    match replacement {
        Replacement::Lru if k <= EXACT_LRU_MAX => lru(p, c),
        Replacement::Lru => {
            let there = |chance: f64, t: f64| -(-chance * t).exp_m1();
            let t = time_of(p, c as f64, there);
            p.iter().map(|chance| there(*chance, t)).collect()
        }
        Replacement::Fifo | Replacement::Random => {
            let there = |chance: f64, t: f64| chance * t / (1.0 + chance * t);
            let t = time_of(p, c as f64, there);
            let q: Vec<f64> = p.iter().map(|chance| there(*chance, t)).collect();
            if k <= EXACT_MAX { given_so_many(&q, c) } else { q }
        }
    }
}

/// The t at which so many are there on average.
fn time_of(p: &[f64], c: f64, there: impl Fn(f64, f64) -> f64) -> f64 {
    let filled = |t: f64| p.iter().map(|chance| there(*chance, t)).sum::<f64>();
    let (mut low, mut high) = (0.0, c);
    while filled(high) < c && high < 1e300 {
        (low, high) = (high, 4.0 * high);
    }
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if filled(middle) < c { low = middle } else { high = middle }
    }
    high
}

/// Distribution of the number of independent keys that are there, 0, 1, ..., K.
fn counts(q: &[f64]) -> Vec<f64> {
    let mut f = vec![1.0];
    for q in q {
        f.push(0.0);
        // Downwards, so that the number below is still without this key.
        for n in (0..f.len()).rev() {
            let below = if n > 0 { f[n - 1] } else { 0.0 };
            f[n] = f[n] * (1.0 - q) + below * q;
        }
    }
    f
}

/// The same without one of them, from 0 up to `most`: from that side of the counts from which rounding
/// shrinks.
fn without(f: &[f64], q: f64, most: usize) -> Vec<f64> {
    let last = f.len() - 2;
    let mut g = vec![0.0; last + 1];
    if q < 0.5 {
        let mut below = 0.0;
        for n in 0..=most.min(last) {
            below = ((f[n] - q * below) / (1.0 - q)).max(0.0);
            g[n] = below;
        }
    } else {
        let mut above = 0.0;
        for n in (0..=last).rev() {
            above = ((f[n + 1] - (1.0 - q) * above) / q).max(0.0);
            g[n] = above;
        }
    }
    g.truncate(most.min(last) + 1);
    g
}

/// The chance that each of independent keys is there, given that c are.
fn given_so_many(q: &[f64], c: usize) -> Vec<f64> {
    let f = counts(q);
    q.iter().map(|q| (q * without(&f, *q, c - 1)[c - 1] / f[c]).min(1.0)).collect()
}

/// LRU: by Poisson streams of lookups at these rates, the integral over the time since a key was asked
/// for, of its density times the chance that fewer than c others were asked for since.
fn lru(p: &[f64], c: usize) -> Vec<f64> {
    let asked = |t: f64| -> Vec<f64> { p.iter().map(|rate| -(-rate * t).exp_m1()).collect() };
    // Up to this time all are there but for a chance of `LEFT`, and after that none.
    let fewer = |t: f64, n: usize| counts(&asked(t))[..n].iter().sum::<f64>();
    let largest = p.iter().copied().fold(0.0, f64::max);
    let mut low = 1e-9 / largest;
    while fewer(2.0 * low, c) > 1.0 - LEFT {
        low *= 2.0;
    }
    let mut high = 2.0 * low;
    while fewer(high, c + 1) > LEFT {
        high *= 2.0;
    }
    // Of lookups that come again before `low` all hit.
    let mut hits: Vec<f64> = asked(low);
    let step = (high / low).ln() / STEPS as f64;
    for at in 0..=STEPS {
        let t = low * (step * at as f64).exp();
        let q = asked(t);
        let f = counts(&q);
        let weight = match at {
            0 | STEPS => 1.0,
            at if at % 2 == 1 => 4.0,
            _ => 2.0,
        };
        for ((hit, rate), q) in hits.iter_mut().zip(p).zip(&q) {
            // Over the logarithm of t, of which the steps are equal: dt is t d(ln t).
            let density = rate * t * (-rate * t).exp();
            if density > LEFT * 1e-3 {
                let there: f64 = without(&f, *q, c - 1).iter().sum();
                *hit += weight * step / 3.0 * density * there.min(1.0);
            }
        }
    }
    hits.iter().map(|hit| hit.min(1.0)).collect()
}
