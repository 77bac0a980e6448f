//! Caches against what is known of them.

use sim::{Cache, Class, Keys, Network, Replacement, Step};

use crate::support::*;

/// The hit ratio of a cache of a thousand keys that forgets the one used least recently.
fn hit_ratio(capacity: u32, order: Keys, seed: u64) -> measure::Estimate {
    hit_ratio_of(capacity, order, Replacement::Lru, seed)
}

fn hit_ratio_of(
    capacity: u32,
    order: Keys,
    replacement: Replacement,
    seed: u64,
) -> measure::Estimate {
    let mut network = Network::default();
    let [hit, miss] = ["hit", "miss"].map(|name| add_delay(&mut network, name));
    let cache = network.add_cache(Cache {
        name: "cache".into(),
        capacity,
        keys: 1_000,
        order,
        replacement,
    });
    let visit = |station| vec![Step::Visit { station, demand: exponential(1.0) }];
    let route = vec![Step::Lookup { cache, hit: visit(hit), miss: visit(miss) }];
    network.add_class(Class::new("jobs", closed(1, no_think()), route));
    let outcome = run(&network, seed, 400_000);
    let ratio = outcome.caches[0].hit_ratio.unwrap();
    // The ways are those that the cache says, but for the few jobs that are on them.
    let hits = outcome.stations[hit].throughput.mean;
    assert!((hits - ratio.mean * outcome.caches[0].lookups.mean).abs() < 1e-3, "{hits}");
    ratio
}

#[test]
fn popular_keys_hit_as_che_says() {
    // Che: sum (1 - e^(-p T)) = C, h = sum p (1 - e^(-p T)) (Che, Tung and Wang 2002). It is
    // asymptotically exact; at 1000 keys it is better than 1 %.
    for (exponent, capacity) in [(0.8, 100), (1.2, 50)] {
        let weights: Vec<f64> = (1..=1_000).map(|k| f64::from(k).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let filled = |t: f64| weights.iter().map(|w| 1.0 - (-w / total * t).exp()).sum::<f64>();
        let (mut low, mut high) = (0.0, 1e7);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if filled(middle) < f64::from(capacity) { low = middle } else { high = middle }
        }
        let hits: f64 = weights.iter().map(|w| w / total * (1.0 - (-w / total * low).exp())).sum();
        let found = hit_ratio(capacity, Keys::Zipf { exponent }, 91);
        assert!((found.mean / hits - 1.0).abs() < 0.01, "{exponent}: {found:?}, Che {hits}");
    }
    assert_near("uniform", hit_ratio(300, Keys::Uniform, 92), 0.3, 0.01);
}

/// FIFO and RANDOM forget popular keys as often as they come in: both hit as p t / (1 + p t) with as many there
/// as are remembered (Gelenbe 1973 for many keys), which is less than LRU.
#[test]
fn what_comes_in_first_and_any_are_forgotten_alike() {
    let (exponent, capacity) = (1.0, 100);
    let chances: Vec<f64> = (1..=1_000).map(|k| 1.0 / f64::from(k)).collect();
    let total: f64 = chances.iter().sum();
    let there = |t: f64| chances.iter().map(move |p| p / total * t / (1.0 + p / total * t));
    let (mut low, mut high) = (0.0, 1e7);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if there(middle).sum::<f64>() < f64::from(capacity) { low = middle } else { high = middle }
    }
    let hits: f64 = there(low).zip(&chances).map(|(there, p)| there * p / total).sum();
    let lru = hit_ratio(capacity, Keys::Zipf { exponent }, 97);
    // The same popularity in weights, turned round: which key is the first does not matter.
    let turned: Vec<f64> = chances.iter().rev().copied().collect();
    for (seed, replacement) in [(98, Replacement::Fifo), (99, Replacement::Random)] {
        for order in [Keys::Zipf { exponent }, Keys::Weighted(turned.clone())] {
            let found = hit_ratio_of(capacity, order, replacement, seed);
            assert!(
                (found.mean / hits - 1.0).abs() < 0.01,
                "{replacement:?}: {found:?}, not {hits}"
            );
            assert!(found.mean < 0.95 * lru.mean, "{replacement:?}: {found:?}, LRU {lru:?}");
        }
    }
    // In a scan each comes back too late, but for those that were spared by chance.
    assert_eq!(hit_ratio_of(300, Keys::Scan, Replacement::Fifo, 100).mean, 0.0);
    assert!(hit_ratio_of(300, Keys::Scan, Replacement::Random, 101).mean > 0.01);
}

#[test]
fn scans_hit_as_their_order_says() {
    for capacity in [300, 900] {
        let c = f64::from(capacity) / 1_000.0;
        assert_eq!(hit_ratio(capacity, Keys::Scan, 93).mean, 0.0, "each comes back too late");
        // yamamoto's random scan: c + (1 - c) ln (1 - c) for many keys.
        let shuffled = hit_ratio(capacity, Keys::Shuffled, 94);
        let curve = c + (1.0 - c) * (1.0 - c).ln();
        assert!((shuffled.mean - curve).abs() < 0.003, "{c}: {shuffled:?}, the curve has {curve}");
        // Cached first: the optimum, the share that fits.
        assert_near("cohorts", hit_ratio(capacity, Keys::CachedFirst, 95), c, 0.001);
    }
    assert_eq!(hit_ratio(1_000, Keys::Scan, 96).mean, 1.0, "all fit");
}

/// A miss takes ten times as long as a hit. While a cache fills it hits ever more often: a run that counted
/// meanwhile had a mean that was too long, and called it precise.
#[test]
fn a_cache_that_fills_is_no_steady_state() {
    for (replacement, budget) in [
        (Replacement::Lru, 600_000),
        (Replacement::Fifo, 1_500_000),
        (Replacement::Random, 1_500_000),
    ] {
        let mut network = Network::default();
        let [hit, miss] = ["hit", "miss"].map(|name| add_delay(&mut network, name));
        let cache = network.add_cache(Cache {
            name: "cache".into(),
            capacity: 4_000,
            keys: 5_000,
            order: Keys::Uniform,
            replacement,
        });
        let visit = |station, mean| vec![Step::Visit { station, demand: constant(mean) }];
        let route = vec![Step::Lookup { cache, hit: visit(hit, 1.0), miss: visit(miss, 10.0) }];
        network.add_class(Class::new("jobs", closed(10, no_think()), route));
        let short = sim::run(&network, &options(31, 40_000)).unwrap();
        let told = short.unsettled.expect("it fills all the time");
        assert!(told.contains("cache `cache`") && told.contains("keys"), "{told}");
        assert_eq!(short.stop, sim::Stop::Budget);
        // Uniformly asked for, each key is there for 4 of 5 lookups: 0.8 * 1 + 0.2 * 10.
        let long = sim::run(&network, &options(31, budget)).unwrap();
        assert_eq!(long.unsettled, None);
        let response = long.classes[0].response.unwrap();
        assert!((response.mean - 2.8).abs() < 0.03, "{replacement:?}: {response:?}");
    }
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let refuses = |change: &dyn Fn(&mut Cache), cause: &str| {
        let mut network = Network::default();
        let station = add_delay(&mut network, "delay");
        let mut cache = Cache {
            name: "cache".into(),
            capacity: 1,
            keys: 2,
            order: Keys::Scan,
            replacement: Replacement::Lru,
        };
        change(&mut cache);
        network.add_cache(cache);
        let visit = Step::Visit { station, demand: constant(1.0) };
        network.add_class(Class::new("jobs", closed(1, no_think()), vec![visit]));
        let error = sim::run(&network, &options(1, 1_000)).unwrap_err().to_string();
        assert!(error.contains("cache `cache`") && error.contains(cause), "{error}");
    };
    refuses(&|cache| cache.capacity = 0, "remembers nothing");
    refuses(&|cache| cache.keys = 0, "no keys");
    refuses(&|cache| cache.keys = 20_000_000, "10 million");
    refuses(&|cache| cache.order = Keys::Zipf { exponent: -1.0 }, "exponent");
    refuses(&|cache| cache.order = Keys::Weighted(vec![1.0]), "another number of weights");
    refuses(&|cache| cache.order = Keys::Weighted(vec![0.0; 2]), "one above 0");
    let cohorts = |cache: &mut Cache| {
        (cache.order, cache.replacement) = (Keys::CachedFirst, Replacement::Fifo);
    };
    refuses(&cohorts, "least recently used");
    refuses(&|_| (), "no class's route looks into it");
}
