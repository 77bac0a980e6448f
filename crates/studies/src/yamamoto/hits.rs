//! Hit ratios when every agent is asked for once a scan: with the cohort scheduler that the agent
//! server runs, and without it, in a fresh random order through an LRU cache.

use std::collections::BTreeMap;

use cli::Failure;
use cli::text::percent;
use gate::{Cached, CohortScheduler, CohortSpec};
use solve::lru_hit_ratio;
use workload::{Chance, Deck, Document, DocumentSet, stream};

use super::super::claim::{Evidence, Judged, Registry};

/// Agents; the ratios do not depend on their number once there are some hundreds.
pub(super) const AGENTS: u32 = 4_000;
/// Scans that are counted, after one that fills the cache.
const SCANS: u32 = 20;
/// Shares of the agents that the cache holds.
pub(super) const SHARES: [f64; 9] = [0.1, 0.25, 0.5, 0.7, 0.79, 0.9, 0.95, 0.97, 1.0];

/// Hit ratios by the share that is cached.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) with: Vec<f64>,
    pub(super) without: Vec<f64>,
}

impl Runs {
    pub(super) fn simulate(seed: u64) -> Runs {
        let capacity = |share: f64| (share * f64::from(AGENTS)).round() as u32;
        let mut chance = stream(seed, 0);
        let with = SHARES.map(|share| scheduled(capacity(share), &mut chance));
        let without = SHARES.map(|share| shuffled(capacity(share), &mut chance));
        Runs { with: with.into(), without: without.into() }
    }

    /// Judges the claims on hit ratios, in the order of the list.
    pub(super) fn judge(&self, registry: &Registry) -> Result<Vec<Judged>, Failure> {
        let claim = registry.claim("hit-with");
        let off = |ratios: &[f64], theory: &[f64]| {
            ratios.iter().zip(theory).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
        };
        let worst = off(&self.with, &SHARES);
        let with = claim
            .judge()
            .simulation(format!("{} off", percent(worst)))
            .found("The largest difference from the cached share, over shares of 0.1 to 1.")
            .shape(Evidence::of(&self.with, |found| off(found, &SHARES) <= claim.within()));
        let claim = registry.claim("hit-without");
        let theory = SHARES.map(lru_hit_ratio).into_iter().collect::<Result<Vec<f64>, _>>();
        let theory = theory.map_err(Failure::machine)?;
        let worst = off(&self.without, &theory);
        let rule = |found: &[f64]| {
            let lower = found.iter().zip(&SHARES).all(|(ratio, share)| ratio <= share);
            lower && off(found, &theory) <= claim.within()
        };
        let without = claim
            .judge()
            .formula("theory")
            .simulation(format!("{} off", percent(worst)))
            .found(format!(
                "The largest difference from theory; at 0.9 cached, {:.3} simulated.",
                self.without[5]
            ))
            .shape(Evidence::of(&self.without, rule));
        Ok(vec![with, without])
    }
}

/// The hit ratio of scans with the scheduler. Messages arrive in a fresh random order each time.
fn scheduled(capacity: u32, chance: &mut Chance) -> f64 {
    let spec = CohortSpec { capacity, run_max: 1, cached_max: None, levels: 1 };
    let mut cohorts = CohortScheduler::new(spec).expect("the cache holds an agent");
    let mut order = Order::new();
    let mut hits = 0;
    for scan in 0..=SCANS {
        for agent in order.next(chance) {
            cohorts.deliver(agent, 0);
        }
        let mut last = None;
        while let Some((agent, cached)) = cohorts.next(last) {
            if cached == Cached::Out {
                if cohorts.is_full() {
                    cohorts.evict().expect("a cache that is full holds an agent that does not run");
                }
                cohorts.loaded(agent);
            } else if scan > 0 {
                hits += 1;
            }
            cohorts.finish(agent, None);
            last = Some(agent);
        }
    }
    f64::from(hits) / f64::from(SCANS * AGENTS)
}

/// The hit ratio of scans in a fresh random order through an LRU cache.
fn shuffled(capacity: u32, chance: &mut Chance) -> f64 {
    // When each agent was used last, and the cached ones by that moment.
    let mut used: Vec<Option<u64>> = vec![None; AGENTS as usize];
    let mut cache: BTreeMap<u64, u32> = BTreeMap::new();
    let mut order = Order::new();
    let mut hits = 0;
    let mut now = 0;
    for scan in 0..=SCANS {
        for agent in order.next(chance) {
            now += 1;
            let before = used[agent as usize].replace(now);
            let is_hit = before.is_some_and(|before| cache.remove(&before).is_some());
            if is_hit && scan > 0 {
                hits += 1;
            }
            if !is_hit && cache.len() == capacity as usize {
                cache.pop_first();
            }
            cache.insert(now, agent);
        }
    }
    f64::from(hits) / f64::from(SCANS * AGENTS)
}

/// Deals every agent once a scan, in a fresh random order.
struct Order(Deck);

impl Order {
    fn new() -> Order {
        let agent = |at: u32| Document { name: at.to_string(), bytes: 0, weight: 1 };
        let agents = DocumentSet::new((0..AGENTS).map(agent).collect());
        Order(Deck::new(&agents.expect("agents have names of their own")))
    }

    fn next(&mut self, chance: &mut Chance) -> Vec<u32> {
        (0..AGENTS).map(|_| self.0.draw(chance) as u32).collect()
    }
}
