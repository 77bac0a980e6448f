//! Eviction rules against plain ones, and what each is for.

use gate::{ArrivalOrder, ArrivalTurn, Eviction, EvictionRule, Victim};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const RULES: [EvictionRule; 5] = [
    EvictionRule::Lru,
    EvictionRule::Mru,
    EvictionRule::Sieve,
    EvictionRule::Frequency,
    EvictionRule::WTinyLfu,
];

fn below(chance: &mut Xoshiro256PlusPlus, most: u32) -> u32 {
    (chance.next_u64() % u64::from(most)) as u32
}

/// A cache that looks keys up one after the other.
struct Cache {
    eviction: Eviction,
    capacity: usize,
    present: Vec<u32>,
}

impl Cache {
    fn new(rule: EvictionRule, capacity: usize) -> Cache {
        Cache { eviction: Eviction::new(rule, capacity as u32), capacity, present: Vec::new() }
    }

    /// Whether the key was there, and who left for it.
    fn touch(&mut self, key: u32) -> (bool, Option<u32>) {
        if self.present.contains(&key) {
            self.eviction.hold(key);
            self.eviction.free(key);
            return (true, None);
        }
        let mut left = None;
        if self.present.len() == self.capacity {
            left = self.eviction.evict();
            self.present.retain(|&other| Some(other) != left);
        }
        self.eviction.enter(key, u64::from(key));
        self.present.push(key);
        self.eviction.free(key);
        (false, left)
    }
}

/// LRU, MRU and SIEVE as their papers' few lines have them, over a plain list: the oldest first.
struct Plain {
    rule: EvictionRule,
    capacity: usize,
    entries: Vec<(u32, bool)>,
    /// The key where SIEVE's hand stands.
    hand: Option<u32>,
}

impl Plain {
    fn touch(&mut self, key: u32) -> (bool, Option<u32>) {
        if let Some(at) = self.entries.iter().position(|entry| entry.0 == key) {
            if self.rule == EvictionRule::Sieve {
                self.entries[at].1 = true;
            } else {
                let entry = self.entries.remove(at);
                self.entries.push(entry);
            }
            return (true, None);
        }
        let mut left = None;
        if self.entries.len() == self.capacity {
            let at = match self.rule {
                EvictionRule::Lru => 0,
                EvictionRule::Mru => self.entries.len() - 1,
                _ => self.sieve(),
            };
            left = Some(self.entries.remove(at).0);
        }
        self.entries.push((key, false));
        (false, left)
    }

    fn sieve(&mut self) -> usize {
        let hand = |key| self.entries.iter().position(|entry| Some(entry.0) == key);
        let mut at = hand(self.hand).unwrap_or(0);
        while self.entries[at].1 {
            self.entries[at].1 = false;
            at = (at + 1) % self.entries.len();
        }
        self.hand = self.entries.get(at + 1).map(|entry| entry.0);
        at
    }
}

/// Seeds are numbers from 0, which a failure names.
#[test]
fn rules_evict_as_the_plain_ones_do() {
    for rule in [EvictionRule::Lru, EvictionRule::Mru, EvictionRule::Sieve] {
        for seed in 0..300 {
            let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
            let capacity = 1 + below(&mut chance, 8) as usize;
            let keys = 1 + below(&mut chance, 20);
            let mut cache = Cache::new(rule, capacity);
            let mut plain = Plain { rule, capacity, entries: Vec::new(), hand: None };
            for step in 0..200 {
                let key = below(&mut chance, keys);
                let found = cache.touch(key);
                assert_eq!(found, plain.touch(key), "{rule:?}, seed {seed}, step {step}");
            }
        }
    }
}

/// Whatever the rule, who is held never leaves, whoever leaves was there, and as many can leave as are
/// free.
#[test]
fn who_is_held_stays() {
    for rule in RULES {
        for seed in 0..200 {
            let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut eviction = Eviction::new(rule, 1 + below(&mut chance, 40));
            let (mut held, mut free) = (Vec::new(), Vec::new());
            for step in 0..400_u32 {
                let at = format!("{rule:?}, seed {seed}, step {step}");
                match below(&mut chance, 5) {
                    0 => {
                        eviction.enter(step, u64::from(below(&mut chance, 50)));
                        held.push(step);
                    }
                    1 if !held.is_empty() => {
                        let entry = held.remove(below(&mut chance, held.len() as u32) as usize);
                        eviction.free(entry);
                        free.push(entry);
                    }
                    2 if !free.is_empty() => {
                        let entry = free.remove(below(&mut chance, free.len() as u32) as usize);
                        eviction.hold(entry);
                        held.push(entry);
                    }
                    3 if !held.is_empty() => {
                        let entry = held.remove(below(&mut chance, held.len() as u32) as usize);
                        eviction.leave(entry);
                    }
                    4 => {
                        let left = eviction.evict();
                        assert_eq!(left.is_some(), !free.is_empty(), "{at}");
                        let found = free.iter().position(|entry| Some(*entry) == left);
                        if let Some(found) = found {
                            free.remove(found);
                        }
                        assert_eq!(found.is_some(), left.is_some(), "{at}: {left:?}");
                    }
                    _ => {}
                }
                assert_eq!(eviction.evictable() as usize, free.len(), "{at}");
            }
        }
    }
}

#[test]
fn the_less_often_used_leaves_first_also_after_it_was_gone() {
    let mut cache = Cache::new(EvictionRule::Frequency, 2);
    for key in [1, 1, 1, 2, 2] {
        cache.touch(key);
    }
    assert_eq!(cache.touch(3), (false, Some(2)));
    assert_eq!(cache.touch(2), (false, Some(3)), "its uses are remembered: 3 has one, 2 has three");
    assert_eq!(cache.touch(4), (false, Some(2)), "a tie of 1 and 2 falls on the later use");
}

#[test]
fn a_scan_does_not_wash_out_what_w_tiny_lfu_protects() {
    let mut cache = Cache::new(EvictionRule::WTinyLfu, 100);
    for _ in 0..4 {
        (0..50).for_each(|key| {
            cache.touch(key);
        });
    }
    (1_000..2_000).for_each(|key| {
        cache.touch(key);
    });
    let kept = (0..50).filter(|key| cache.present.contains(key)).count();
    // All but a few: a newcomer whose counts collide seems popular.
    assert!(kept >= 48, "{kept}");
    let mut lru = Cache::new(EvictionRule::Lru, 100);
    (0..50).chain(1_000..2_000).for_each(|key| {
        lru.touch(key);
    });
    assert!((0..50).all(|key| !lru.present.contains(&key)));
}

/// The paper's choice as a loop over all cached agents: of those without messages who finished first, else
/// whose next message is last in the queue.
struct PlainArrivals {
    capacity: usize,
    queue: Vec<u32>,
    running: Vec<u32>,
    /// Those that finished last come last.
    cached: Vec<u32>,
}

impl PlainArrivals {
    fn next(&mut self) -> Option<ArrivalTurn> {
        let agent = *self.queue.first().filter(|&agent| !self.running.contains(agent))?;
        self.queue.remove(0);
        let hit = self.cached.contains(&agent);
        let mut evicted = None;
        if !hit {
            if self.cached.len() == self.capacity {
                let rests = self.cached.iter().filter(|it| !self.running.contains(it));
                let place = |it: &u32| self.queue.iter().position(|other| other == it);
                let empty = rests.clone().find(|it| place(it).is_none());
                evicted = empty.or_else(|| rests.max_by_key(|it| place(it))).copied();
                self.cached.retain(|&it| Some(it) != evicted);
            }
            self.cached.push(agent);
        }
        self.running.push(agent);
        Some(ArrivalTurn { agent, hit, evicted })
    }

    fn finish(&mut self, agent: u32) {
        self.running.retain(|&it| it != agent);
        self.cached.retain(|&it| it != agent);
        self.cached.push(agent);
    }
}

/// Messages of several agents at once, some of them for one agent, and up to three agents that run.
#[test]
fn the_papers_victims_are_those_of_a_plain_loop() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(9);
    for capacity in [4_usize, 7, 16] {
        let mut fast = ArrivalOrder::new(Victim::Paper, capacity as u32);
        let (queue, running, cached) = (Vec::new(), Vec::new(), Vec::new());
        let mut plain = PlainArrivals { capacity, queue, running, cached };
        let (mut turns, mut among_waiting) = (0, 0);
        for step in 0..20_000 {
            match below(&mut chance, 8) {
                0 if plain.queue.len() < 60 => {
                    let agents: Vec<u32> =
                        (0..below(&mut chance, 20)).map(|_| below(&mut chance, 24)).collect();
                    fast.deliver(&agents);
                    plain.queue.extend(&agents);
                }
                1..4 if plain.running.len() < 3 => {
                    let turn = plain.next();
                    assert_eq!(fast.next(), turn, "step {step} of {capacity}");
                    let out = turn.and_then(|turn| turn.evicted);
                    turns += u32::from(turn.is_some());
                    among_waiting += u32::from(out.is_some_and(|out| plain.queue.contains(&out)));
                }
                _ if !plain.running.is_empty() => {
                    let at = below(&mut chance, plain.running.len() as u32) as usize;
                    let agent = plain.running[at];
                    fast.finish(agent);
                    plain.finish(agent);
                }
                _ => {}
            }
            assert_eq!(fast.is_empty(), plain.queue.is_empty());
            let cached = (0..24).filter(|&agent| fast.is_cached(agent)).count();
            assert_eq!(cached, plain.cached.len(), "step {step} of {capacity}");
        }
        assert!(turns > 2_000 && among_waiting > 20, "{turns} turns, {among_waiting} waited");
    }
}
