//! Non-uniform random numbers against an exact enumeration, and the constants that shift them.

use workload::stream;
use workload::tpcc::{Constants, NuRand, c_load, delta_is_allowed};

use super::{assert_uniform, chi_square};

/// The chance of each value of `NURand(a, x, y)` with this C, for `a = 2^k - 1`, without drawing.
///
/// `random[0..a] | v` is any superset of the low bits of `v`, `2^(ones in the low bits)` ways
/// each, under the high bits of `v`; so the ways to reach a value are a sum over subsets.
fn exact(a: usize, x: usize, y: usize, c: usize) -> Vec<f64> {
    let n = y - x + 1;
    let mut chances = vec![0.0; n];
    for block in 0..=y / (a + 1) {
        let from = block * (a + 1);
        let mut ways: Vec<f64> = (0..=a)
            .map(|low| {
                let there = (x..=y).contains(&(from + low));
                if there { f64::from(1_u32 << low.count_ones()) } else { 0.0 }
            })
            .collect();
        let mut bit = 1;
        while bit <= a {
            for low in (0..=a).filter(|low| low & bit != 0) {
                ways[low] += ways[low ^ bit];
            }
            bit *= 2;
        }
        for (low, ways) in ways.iter().enumerate() {
            chances[(from + low + c) % n] += ways / ((a + 1) * n) as f64;
        }
    }
    chances
}

#[test]
fn the_enumeration_is_right_where_every_pair_can_be_tried() {
    let (a, x, y, c) = (255_usize, 0_usize, 999, 173);
    let mut counted = vec![0.0; 1000];
    for first in 0..=a {
        for second in x..=y {
            counted[((first | second) + c) % 1000] += 1.0 / 256_000.0;
        }
    }
    for (value, (found, expected)) in exact(a, x, y, c).iter().zip(&counted).enumerate() {
        assert!((found - expected).abs() < 1e-12, "{value}: {found} {expected}");
    }
}

/// Draws a million numbers and compares cells of neighbours, likely enough to count, with the
/// enumeration.
fn compare(nurand: NuRand, [a, x, y, c]: [usize; 4], seed: u64) {
    let chances = exact(a, x, y, c);
    assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{a}: a distribution");
    let draws = 1_000_000;
    let mut counts = vec![0.0; chances.len()];
    let mut chance = stream(seed, 0);
    for _ in 0..draws {
        counts[nurand.draw(&mut chance) as usize - x] += 1.0;
    }
    let (mut found, mut expected) = (vec![0.0], vec![0.0]);
    for (count, chance) in counts.iter().zip(&chances) {
        if expected.last().is_some_and(|&cell| cell >= 200.0) {
            found.push(0.0);
            expected.push(0.0);
        }
        *found.last_mut().unwrap() += count;
        *expected.last_mut().unwrap() += chance * f64::from(draws);
    }
    // What is left at the end may be too little for a cell of its own.
    let (count, chance) = (found.pop().unwrap(), expected.pop().unwrap());
    *found.last_mut().unwrap() += count;
    *expected.last_mut().unwrap() += chance;
    let (chi2, limit) = chi_square(&found, &expected);
    assert!(found.len() > 300, "{a}: {} cells are too few to tell", found.len());
    assert!(chi2 <= limit, "NURand({a}, {x}, {y}) with C = {c}: {chi2} of at most {limit}");
}

#[test]
fn each_field_has_its_distribution() {
    compare(NuRand::last(173), [255, 0, 999, 173], 1);
    compare(NuRand::customer(701), [1023, 1, 3000, 701], 2);
    compare(NuRand::item(4242), [8191, 1, 100_000, 4242], 3);
}

/// With C = 0 the range's ends are where the formula says, so a range shifted by one is seen.
#[test]
fn ranges_are_reached_and_never_left() {
    for (nurand, from, to) in [
        (NuRand::last(0), 0, 999),
        (NuRand::last(255), 0, 999),
        (NuRand::customer(0), 1, 3000),
        (NuRand::customer(1023), 1, 3000),
    ] {
        let mut chance = stream(4, 0);
        let drawn: Vec<u32> = (0..300_000).map(|_| nurand.draw(&mut chance)).collect();
        assert_eq!(drawn.iter().min(), Some(&from), "{nurand:?}");
        assert_eq!(drawn.iter().max(), Some(&to), "{nurand:?}");
    }
    for c in [0, 8191] {
        let mut chance = stream(5, 0);
        let nurand = NuRand::item(c);
        assert!((0..300_000).all(|_| (1..=100_000).contains(&nurand.draw(&mut chance))));
    }
}

#[test]
fn c_run_keeps_its_distance_from_c_load() {
    let mut deltas = vec![0.0; 120];
    let mut loads = vec![0.0; 8];
    for seed in 0..20_000 {
        let load = c_load(seed);
        loads[usize::from(load / 32)] += 1.0;
        let constants = Constants::for_run(seed ^ 0x5555, load);
        assert!(constants.last <= 255 && constants.customer <= 1023 && constants.item <= 8191);
        assert!(delta_is_allowed(constants.last, load), "seed {seed}");
        deltas[usize::from(constants.last.abs_diff(load))] += 1.0;
    }
    assert_uniform(&loads, "C-Load");
    for (delta, &count) in deltas.iter().enumerate() {
        let allowed = (65..=119).contains(&delta) && delta != 96 && delta != 112;
        assert_eq!(count > 0.0, allowed, "a distance of {delta}: {count} times");
    }
}

#[test]
fn every_c_load_leaves_a_c_run() {
    for load in 0..=255 {
        let run = Constants::for_run(u64::from(load), load).last;
        assert!(delta_is_allowed(run, load), "{run} {load}");
    }
    for (run, load, allowed) in [
        (0, 64, false),
        (0, 65, true),
        (95, 0, true),
        (96, 0, false),
        (0, 112, false),
        (113, 0, true),
        (119, 0, true),
        (0, 120, false),
        (7, 7, false),
    ] {
        assert_eq!(delta_is_allowed(run, load), allowed, "{run} {load}");
    }
}

#[test]
fn constants_are_a_function_of_the_seed() {
    assert_eq!(Constants::for_run(9, 30), Constants::for_run(9, 30));
    let seeds = 0..50_u64;
    let mut drawn: Vec<_> = seeds.map(|seed| Constants::for_run(seed, 30)).collect();
    drawn.sort_by_key(|constants| (constants.item, constants.customer));
    drawn.dedup();
    assert!(drawn.len() >= 49, "50 seeds give {} constants", drawn.len());
}
