//! Caches by formula: the share of lookups that each of them hits, and the ways that jobs then go
//! by chance.

use serde::Serialize;
use sim::{Cache, Keys, Network, Replacement, Step};
use solve::{CacheHits, Exactness};

use super::{FormulaAnswer, NoFormula, Trust, trust};

/// Hits that are told one by one.
const KEYS_TOLD: usize = 100;

/// The largest relative error of throughput and response that came of taking lookups as independent of one
/// another, on the 48 cases of `tests/grid` that have a cache: in truth hits come in runs. Open loads were up
/// to 5.3 % off, where one key of two is remembered, and closed ones 0.4 %.
const ERROR_INDEPENDENT: f64 = 0.06;

/// Answer of a formula for one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheAnswer {
    /// The cache.
    pub name: String,
    /// Share of the lookups that hit, 0 to 1.
    pub hit_ratio: f64,
    /// By key, from the first, up to a hundred: the probability that it is there when it is asked for;
    /// none where its order does not tell.
    pub hits: Vec<f64>,
    /// Trust that the hit ratio deserves.
    pub trust: Trust,
    /// Trust that the probability of a key deserves.
    pub trust_of_keys: Trust,
}

/// A formula's answer to a network, whatever caches it has.
pub(super) fn answer(
    network: Network,
    solve: impl Fn(&Network) -> Result<FormulaAnswer, NoFormula>,
) -> Result<FormulaAnswer, NoFormula> {
    if network.caches.is_empty() {
        return solve(&network);
    }
    let caches = network.caches.iter().map(hits).collect::<Result<Vec<_>, _>>()?;
    let ratios = |by: f64| -> Vec<f64> {
        let ratio = |cache: &CacheAnswer| {
            (cache.hit_ratio * (1.0 + by * cache.trust.error.unwrap_or(0.0))).min(1.0)
        };
        caches.iter().map(ratio).collect()
    };
    let mut found = solve(&by_chance(&network, &ratios(0.0)))?;
    if caches.iter().any(|cache| cache.hit_ratio > 0.0 && cache.hit_ratio < 1.0) {
        let mut error = Some(ERROR_INDEPENDENT + found.trust.error.unwrap_or(0.0));
        // What a hit ratio may be off, the answer is off as well.
        for by in [-1.0, 1.0].into_iter().filter(|_| caches.iter().any(|of| !of.trust.exact)) {
            let far = solve(&by_chance(&network, &ratios(by))).ok();
            let off = far.map(|far| {
                let off = |a: f64, b: f64| (a / b - 1.0).abs();
                off(far.response, found.response).max(off(far.throughput, found.throughput))
            });
            error = error.zip(off).map(|(error, off)| error.max(ERROR_INDEPENDENT + off));
        }
        let source = "lookups are taken as independent of one another";
        let is_known = found.trust.exact || found.trust.error.is_some();
        found.trust = match error.filter(|_| is_known) {
            Some(error) => trust(Exactness::Approximate { source, error }, false),
            None => Trust { exact: false, error: None, text: format!("{source}, not tried") },
        };
        // These are of exact answers, or of the whole distribution.
        (found.bounds, found.product_bounds, found.queue) = (None, None, None);
        found.quantiles = None;
        found.given_size = found.given_size.map(|of| super::GivenSize {
            trust: Trust { exact: false, error: None, text: format!("{source}, not tried") },
            ..of
        });
    }
    for cache in &caches {
        found.remarks.push(format!(
            "cache `{}` hits {:.2} % of its lookups, {}",
            cache.name,
            100.0 * cache.hit_ratio,
            cache.trust.text
        ));
    }
    found.caches = caches;
    Ok(found)
}

/// Hit ratio of a cache; else the reason why only the simulation tells it.
fn hits(cache: &Cache) -> Result<CacheAnswer, String> {
    let keys = cache.keys as usize;
    let replacement = match cache.replacement {
        Replacement::Lru => solve::Replacement::Lru,
        Replacement::Fifo => solve::Replacement::Fifo,
        Replacement::Random => solve::Replacement::Random,
    };
    let fits = cache.capacity >= cache.keys;
    let weights = match &cache.order {
        Keys::Uniform => vec![1.0; keys],
        Keys::Zipf { exponent } => (1..=keys).map(|key| (key as f64).powf(-exponent)).collect(),
        Keys::Weighted(weights) => weights.clone(),
        // Each comes back when all others have come after it.
        Keys::Scan if fits || cache.replacement != Replacement::Random => {
            let hit_ratio = f64::from(u8::from(fits));
            let trust = trust(Exactness::Exact, false);
            let (name, trust_of_keys) = (cache.name.clone(), trust.clone());
            return Ok(CacheAnswer { name, hit_ratio, hits: Vec::new(), trust, trust_of_keys });
        }
        Keys::Scan | Keys::Shuffled | Keys::CachedFirst => {
            return Err(format!(
                "how often cache `{}` hits in this order is for the simulation to tell",
                cache.name
            ));
        }
    };
    let found = CacheHits::new(&weights, cache.capacity, replacement)
        .map_err(|error| format!("cache `{}`: {error}", cache.name))?;
    Ok(CacheAnswer {
        name: cache.name.clone(),
        hit_ratio: found.hit_ratio().min(1.0),
        hits: found.hits().iter().copied().take(KEYS_TOLD).collect(),
        trust: trust(found.exactness(), false),
        trust_of_keys: trust(found.exactness_given(), false),
    })
}

/// The network with chances in place of caches.
fn by_chance(network: &Network, ratios: &[f64]) -> Network {
    let mut network = network.clone();
    network.caches.clear();
    for class in &mut network.classes {
        class.route = class.route.iter().map(|step| chosen(step, ratios)).collect();
    }
    network
}

fn chosen(step: &Step, ratios: &[f64]) -> Step {
    let all = |steps: &[Step]| -> Vec<Step> { steps.iter().map(|of| chosen(of, ratios)).collect() };
    match step {
        Step::Lookup { cache, hit, miss } => {
            let ratio = ratios[*cache];
            Step::Choose(vec![(ratio, all(hit)), (1.0 - ratio, all(miss))])
        }
        Step::Hold { gate, inside } => Step::Hold { gate: *gate, inside: all(inside) },
        Step::Choose(ways) => {
            Step::Choose(ways.iter().map(|(chance, steps)| (*chance, all(steps))).collect())
        }
        Step::Repeat { again, steps } => Step::Repeat { again: *again, steps: all(steps) },
        Step::Send { way } => Step::Send { way: all(way) },
        Step::Fork { ways, join } => {
            Step::Fork { ways: ways.iter().map(|way| all(way)).collect(), join: *join }
        }
        Step::Visit { .. } | Step::VisitServer { .. } | Step::Reply | Step::Become { .. } => {
            step.clone()
        }
    }
}
