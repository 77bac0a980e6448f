//! The random and pseudorandom functions of pgbench's expressions: the same distributions from our own
//! chance, and the same hashes and permutations to the bit.

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoroshiro128StarStar;
use workload::Chance;

use super::value::EvalError;

/// The least parameter of a gaussian: half the range in standard deviations.
const GAUSSIAN_MIN: f64 = 2.0;
/// The range of the parameter of a zipfian.
const ZIPFIAN: (f64, f64) = (1.001, 1000.0);

/// Uniform from `min` to `max`, both included.
pub(super) fn uniform(min: i64, max: i64, chance: &mut Chance) -> i64 {
    chance.random_range(min..=max)
}

/// A bell cut off at `parameter` standard deviations on both sides, and spread over the range.
pub(super) fn gaussian(
    (min, max): (i64, i64),
    parameter: f64,
    chance: &mut Chance,
) -> Result<i64, EvalError> {
    if parameter.is_nan() || parameter < GAUSSIAN_MIN {
        return Err(range("the parameter of random_gaussian", "2 or more", parameter));
    }
    let deviations = loop {
        let drawn: f64 = chance.sample(StandardNormal);
        if -parameter <= drawn && drawn < parameter {
            break drawn;
        }
    };
    Ok(within((min, max), (deviations + parameter) / (parameter * 2.0)))
}

/// An exponential density cut off where the range ends.
pub(super) fn exponential(
    (min, max): (i64, i64),
    parameter: f64,
    chance: &mut Chance,
) -> Result<i64, EvalError> {
    if parameter.is_nan() || parameter <= 0.0 {
        return Err(range("the parameter of random_exponential", "above 0", parameter));
    }
    let cut = (-parameter).exp();
    // Never 0, of which there is no logarithm.
    let uniform = 1.0 - chance.random::<f64>();
    Ok(within((min, max), -(cut + (1.0 - cut) * uniform).ln() / parameter))
}

/// Zipf's law: the k-th value with a chance in proportion to k to the power of minus the parameter, by
/// rejection (Devroye 1986, page 551).
pub(super) fn zipfian(
    (min, max): (i64, i64),
    parameter: f64,
    chance: &mut Chance,
) -> Result<i64, EvalError> {
    if !(ZIPFIAN.0..=ZIPFIAN.1).contains(&parameter) {
        return Err(range("the parameter of random_zipfian", "1.001 to 1000", parameter));
    }
    let values = max.wrapping_sub(min).wrapping_add(1);
    if values <= 1 {
        return Ok(min);
    }
    let (n, b) = (values as f64, 2.0_f64.powf(parameter - 1.0));
    loop {
        let (u, v): (f64, f64) = (chance.random(), chance.random());
        let x = u.powf(-1.0 / (parameter - 1.0)).floor();
        let t = (1.0 + 1.0 / x).powf(parameter - 1.0);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= n {
            return Ok(min - 1 + x as i64);
        }
    }
}

fn range(what: &'static str, must: &'static str, is: f64) -> EvalError {
    EvalError::Range { what, must, is: is.to_string() }
}

/// The value at a share of a range, below 1.
fn within((min, max): (i64, i64), share: f64) -> i64 {
    let width = max.wrapping_sub(min).wrapping_add(1) as f64;
    min.wrapping_add((width * share) as i64).clamp(min, max)
}

/// FNV-1a over the eight bytes of a value.
pub(super) fn fnv1a(value: i64, seed: i64) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed as u64;
    for byte in value.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash as i64
}

/// MurmurHash2 over the eight bytes of a value.
pub(super) fn murmur2(value: i64, seed: i64) -> i64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const ROTATION: u32 = 47;
    let mut hash = seed as u64 ^ FACTOR.wrapping_mul(8);
    let mut key = (value as u64).wrapping_mul(FACTOR);
    key = (key ^ (key >> ROTATION)).wrapping_mul(FACTOR);
    hash = (hash ^ key).wrapping_mul(FACTOR);
    hash = (hash ^ (hash >> ROTATION)).wrapping_mul(FACTOR);
    (hash ^ (hash >> ROTATION)) as i64
}

/// The place of a value in a permutation of 0 to `size - 1` that the seed chooses, as pgbench has it
/// from release 15 on.
pub(super) fn permute(value: i64, size: i64, seed: i64) -> Result<i64, EvalError> {
    if size < 1 {
        let (what, must) = ("the size of permute", "1 or more");
        return Err(EvalError::Range { what, must, is: size.to_string() });
    }
    if size < 2 {
        return Ok(0);
    }
    let mut chance = seeded(seed as u64);
    let size = size as u64;
    let mut place = value as u64 % size;
    let bits = size.ilog2();
    let mask = (1_u64 << bits) - 1;
    let turn = |of: u64, factor: u64, xor: u64| {
        let mixed = (of.wrapping_mul(factor) ^ xor) & mask;
        ((mixed << 1) & mask) | (mixed >> (bits - 1))
    };
    for _ in 0..6 {
        let (factor, xor) = (chance.next_u64() & mask | 1, chance.next_u64() & mask);
        if place <= mask {
            place = turn(place, factor, xor);
        }
        let (factor, xor) = (chance.next_u64() & mask | 1, chance.next_u64() & mask);
        let from_above = size - 1 - place;
        if from_above <= mask {
            place = size - 1 - turn(from_above, factor, xor);
        }
        place = (place + below(&mut chance, size)) % size;
    }
    Ok(place as i64)
}

/// PostgreSQL's generator, seeded as it seeds it: by SplitMix64.
fn seeded(mut seed: u64) -> Xoroshiro128StarStar {
    use rand_xoshiro::rand_core::SeedableRng;
    let mut bytes = [0; 16];
    for half in bytes.chunks_mut(8) {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        half.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    Xoroshiro128StarStar::from_seed(bytes)
}

/// Uniform from 0 to `size - 1`, by PostgreSQL's rejection: the highest bits that it takes.
fn below(chance: &mut Xoroshiro128StarStar, size: u64) -> u64 {
    let shift = 63 - (size - 1).ilog2();
    loop {
        let drawn = chance.next_u64() >> shift;
        if drawn < size {
            return drawn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::stream;

    /// Shares of 100 000 draws from 1 to 10.
    fn shares(mut draw: impl FnMut(&mut Chance) -> i64) -> [f64; 10] {
        let mut chance = stream(7, 0);
        let mut shares = [0.0; 10];
        for _ in 0..100_000 {
            shares[draw(&mut chance) as usize - 1] += 1e-5;
        }
        shares
    }

    /// A share p of n draws has a standard deviation of sqrt(p (1 - p) / n), at most 0.0016; five of
    /// them are allowed.
    fn assert_shares(drawn: [f64; 10], expected: impl Fn(f64) -> f64) {
        for (at, share) in drawn.into_iter().enumerate() {
            let expected = expected(at as f64 + 1.0);
            assert!((share - expected).abs() < 0.008, "{}: {share}, not {expected}", at + 1);
        }
    }

    #[test]
    fn distributions_are_those_of_their_formulas() {
        assert_shares(shares(|chance| uniform(1, 10, chance)), |_| 0.1);
        // The share of [k - 1, k) of ten in an exponential that is cut off.
        let p = 3.0_f64;
        assert_shares(shares(|chance| exponential((1, 10), p, chance).unwrap()), |k| {
            let at = |x: f64| (-p * x / 10.0).exp();
            (at(k - 1.0) - at(k)) / (1.0 - (-p).exp())
        });
        let s = 1.5_f64;
        let all: f64 = (1..=10).map(|k| f64::from(k).powf(-s)).sum();
        assert_shares(shares(|chance| zipfian((1, 10), s, chance).unwrap()), |k| k.powf(-s) / all);
        // Tenths of -2.5 to 2.5 standard deviations of a normal distribution (tables of Phi).
        let phi = [0.00621, 0.02275, 0.06681, 0.15866, 0.30854, 0.5];
        let half: Vec<f64> = phi.windows(2).map(|pair| (pair[1] - pair[0]) / 0.98758).collect();
        assert_shares(shares(|chance| gaussian((1, 10), 2.5, chance).unwrap()), |k| {
            half[if k <= 5.0 { k as usize - 1 } else { 10 - k as usize }]
        });
    }

    #[test]
    fn a_permutation_has_each_place_once() {
        for size in [7, 8, 100] {
            let mut places: Vec<i64> = (0..size).map(|i| permute(i, size, 5).unwrap()).collect();
            assert_ne!(places, (0..size).map(|i| permute(i, size, 6).unwrap()).collect::<Vec<_>>());
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>());
        }
        assert!(permute(1, 0, 1).is_err());
    }

    #[test]
    fn parameters_have_ranges() {
        let chance = &mut stream(1, 1);
        assert!(gaussian((1, 2), 1.9, chance).is_err());
        assert!(exponential((1, 2), 0.0, chance).is_err());
        assert!(zipfian((1, 2), 1.0, chance).is_err() && zipfian((1, 2), 1e4, chance).is_err());
    }
}
