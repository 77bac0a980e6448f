//! Streams: the same on every machine and in every version, and strangers to each other.

use rand::{Rng, RngExt};
use workload::{Arrivals, Deck, Dist, DocumentSet, Draw, Drawing, stream};

/// Recordings and expected values of studies hang on these numbers: a library that draws
/// differently in a new version must not come in unnoticed. The words, the uniform and the Pareto
/// number were also computed by a program of its own from the published algorithms.
#[test]
fn what_is_drawn_stays_the_same() {
    let mut chance = stream(42, 7);
    let words: Vec<u64> = (0..3).map(|_| chance.next_u64()).collect();
    assert_eq!(words, GOLDEN_WORDS);
    for (dist, expected) in GOLDEN_DISTS {
        let found = dist.sample(&mut stream(42, 7));
        assert!((found / expected - 1.0).abs() < 1e-12, "{dist:?}: {found:?}");
    }
    let gap = Arrivals::Poisson { rate: 100.0 }.gap(&mut stream(42, 7));
    assert_eq!(gap.as_nanos(), GOLDEN_GAP_NS);
    let set = DocumentSet::webstone();
    let mut chance = stream(42, 7);
    let mut deck = Deck::new(&set);
    let cards: Vec<usize> = (0..12).map(|_| deck.draw(&mut chance)).collect();
    assert_eq!(cards, GOLDEN_DECK);
    let mut chance = stream(42, 7);
    let mut drawing = Drawing::new(&set, Draw::Random);
    let drawn: Vec<usize> = (0..12).map(|_| drawing.draw(&mut chance)).collect();
    assert_eq!(drawn, GOLDEN_DRAWN);
}

const GOLDEN_WORDS: [u64; 3] =
    [6_144_688_783_203_113_279, 6_582_333_671_749_428_606, 4_093_867_398_854_821_960];
const GOLDEN_GAP_NS: u128 = 9_029_244;
const GOLDEN_DECK: [usize; 12] = [1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1];
const GOLDEN_DRAWN: [usize; 12] = [0, 1, 0, 0, 1, 1, 2, 2, 1, 1, 1, 1];
const GOLDEN_DISTS: [(Dist, f64); 8] = [
    (Dist::Constant(2.0), 2.0),
    (Dist::Exponential { mean: 2.0 }, 1.805_848_787_956_399),
    (Dist::Erlang { mean: 2.0, stages: 3 }, 1.136_059_023_799_141),
    (Dist::Gamma { mean: 2.0, scv: 2.0 }, 0.332_958_278_435_881_05),
    (Dist::Hyperexponential { mean: 2.0, scv: 3.0 }, 0.708_811_889_652_128_7),
    (Dist::Lognormal { mu: 0.5, sigma: 1.0 }, 0.835_860_225_954_066),
    (Dist::Uniform { low: 1.0, high: 3.0 }, 1.666_208_492_799_612_6),
    (Dist::Pareto { low: 1.0, shape: 2.5 }, 1.175_917_406_796_478_6),
];

/// Correlation of two sequences of uniform numbers; it has mean 0 and standard deviation
/// `1 / sqrt(n)` if they are independent.
fn correlation(a: (u64, u64), b: (u64, u64), n: u32) -> f64 {
    let (mut a, mut b) = (stream(a.0, a.1), stream(b.0, b.1));
    let product = |_| (a.random::<f64>() - 0.5) * (b.random::<f64>() - 0.5);
    (0..n).map(product).sum::<f64>() / f64::from(n) * 12.0
}

#[test]
fn streams_are_reproducible_and_independent() {
    const N: u32 = 20_000;
    assert_eq!(stream(5, 9), stream(5, 9));
    let numbers = [0, 1, 2, 3, 1 << 32, u64::MAX];
    let mut pairs = Vec::new();
    for seed in numbers {
        for other in numbers.into_iter().filter(|&other| other > seed) {
            pairs.push(((seed, 0), (other, 0))); // Neighbouring seeds.
            pairs.push(((1, seed), (1, other))); // Neighbouring streams.
            pairs.push(((seed, other), (other, seed)));
        }
    }
    // Of 45 pairs one above 4 sigma has a chance of 0.3 %.
    for (a, b) in pairs {
        let r = correlation(a, b, N);
        assert!(r.abs() <= 4.0 / f64::from(N).sqrt(), "streams {a:?} and {b:?}: {r}");
    }
}
