//! Caches: what is remembered, the order in which keys are asked for, and who is forgotten.

use rand::RngExt;
use workload::Chance;

use crate::network::NetworkError;

/// A cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Its name.
    pub name: String,
    /// Number of keys that it remembers.
    pub capacity: u32,
    /// Number of keys that there are.
    pub keys: u32,
    /// The rule for the key that a job asks for.
    pub order: Keys,
    /// The rule for the key that is forgotten when it is full.
    pub replacement: Replacement,
}

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

/// Rules for the key that a job asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Keys {
    /// Any, independently of the ones before.
    Uniform,
    /// The k-th most popular with a chance in proportion to `k^-exponent`, independently of the ones
    /// before.
    Zipf {
        /// The exponent, 0 or above.
        exponent: f64,
    },
    /// The first, the second, ... with a chance in proportion to its weight, independently of the ones
    /// before; as many as there are keys.
    Weighted(Vec<f64>),
    /// All of them once in each round, in the same order each time.
    Scan,
    /// All of them once in each round, in a new random order each time.
    Shuffled,
    /// All of them once in each round, first those that the cache remembers, the one used least
    /// recently first: yamamoto's two cohorts.
    CachedFirst,
}

impl Cache {
    /// More keys than this are a mistake in the unit.
    pub const KEYS_MAX: u32 = 10_000_000;

    /// Checks that it can be.
    ///
    /// # Errors
    /// If it remembers nothing, or its keys are none, too many, or of no popularity.
    pub fn check(&self) -> Result<(), NetworkError> {
        let error = |cause: &str| {
            Err(NetworkError::new(format!("cache `{}`", self.name), cause.to_owned()))
        };
        if self.capacity == 0 {
            return error("it remembers nothing; give it a capacity of at least 1");
        }
        if self.keys == 0 {
            return error("there are no keys to ask for; give at least 1");
        }
        if self.keys > Cache::KEYS_MAX {
            return error("it has more than 10 million keys; count larger units");
        }
        match &self.order {
            Keys::Zipf { exponent } if !(0.0..=100.0).contains(exponent) => {
                error("the exponent of its popularity must be from 0 to 100")
            }
            Keys::Weighted(weights) if weights.len() != self.keys as usize => {
                error("it has another number of weights than of keys; give each key one")
            }
            Keys::Weighted(weights) => {
                let fits = |weight: &f64| (0.0..=1e100).contains(weight);
                match weights.iter().all(fits) && weights.iter().any(|weight| *weight > 0.0) {
                    true => Ok(()),
                    false => error("its weights must be 0 or above, and one above 0"),
                }
            }
            Keys::CachedFirst if self.replacement != Replacement::Lru => {
                error("yamamoto's cohorts know a cache that forgets the least recently used key")
            }
            _ => Ok(()),
        }
    }
}

/// A cache during a run.
#[derive(Debug)]
pub(crate) struct CacheState {
    recency: Recency,
    references: ReferenceStream,
    chance: Chance,
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    /// Keys that it has taken in since it was empty.
    taken_in: u64,
}

/// Number of times that a cache must have been taken in anew if it forgets whatever else but the
/// least recently used: then all that it began with is forgotten but for e^-3, 5 %.
const TURNOVERS: u64 = 3;

impl CacheState {
    pub(crate) fn new(cache: &Cache, chance: Chance) -> CacheState {
        let (recency, references) = (Recency::new(cache), ReferenceStream::new(cache));
        CacheState { recency, references, chance, lookups: 0, hits: 0, taken_in: 0 }
    }

    /// Looks for the next key; whether it was there.
    pub(crate) fn look_up(&mut self) -> bool {
        let key = self.references.next(&self.recency, &mut self.chance);
        let hit = self.recency.touch(key, &mut self.chance);
        self.lookups += 1;
        self.hits += u64::from(hit);
        self.taken_in += u64::from(!hit);
        hit
    }

    /// Number of keys that it has taken in, and the number that it should have before its contents
    /// tell nothing of its start: as many as it has room for (LRU holds those that were asked for
    /// last, whatever was there before), and several times that where others stay. None when it
    /// has.
    pub(crate) fn fills(&self) -> Option<(u64, u64)> {
        let (room, keys) = (self.recency.capacity, self.recency.present.len());
        let whole = room.min(keys) as u64;
        let turnovers = match self.recency.replacement {
            Replacement::Fifo | Replacement::Random if room < keys => TURNOVERS,
            _ => 1,
        };
        let least = turnovers * whole;
        (self.taken_in < least).then_some((self.taken_in, least))
    }

    pub(crate) fn reset(&mut self) {
        self.lookups = 0;
        self.hits = 0;
    }
}

/// No key.
const NONE: u32 = u32::MAX;

/// The remembered keys as a ring through arrays, from the one used least recently to the one used last, or
/// from the one that came in first to the last one.
#[derive(Debug)]
struct Recency {
    replacement: Replacement,
    /// The same keys in no order, where any may be forgotten.
    held: Vec<u32>,
    older: Vec<u32>,
    newer: Vec<u32>,
    present: Vec<bool>,
    oldest: u32,
    newest: u32,
    len: usize,
    capacity: usize,
}

impl Recency {
    fn new(cache: &Cache) -> Recency {
        let (keys, capacity) = (cache.keys as usize, cache.capacity as usize);
        Recency {
            replacement: cache.replacement,
            held: Vec::new(),
            older: vec![NONE; keys],
            newer: vec![NONE; keys],
            present: vec![false; keys],
            oldest: NONE,
            newest: NONE,
            len: 0,
            capacity,
        }
    }

    /// Uses a key: it is there from now on, and the newest unless it keeps its place. Whether it was
    /// there.
    fn touch(&mut self, key: u32, chance: &mut Chance) -> bool {
        let hit = self.present[key as usize];
        let full = self.len == self.capacity;
        match self.replacement {
            Replacement::Lru if hit => self.take_out(key),
            Replacement::Fifo | Replacement::Random if hit => return true,
            Replacement::Lru | Replacement::Fifo if full => self.take_out(self.oldest),
            Replacement::Lru | Replacement::Fifo => {}
            Replacement::Random if full => {
                let at = chance.random_range(0..self.held.len());
                let out = std::mem::replace(&mut self.held[at], key);
                self.take_out(out);
            }
            Replacement::Random => self.held.push(key),
        }
        self.present[key as usize] = true;
        self.len += 1;
        self.older[key as usize] = self.newest;
        self.newer[key as usize] = NONE;
        match self.newest {
            NONE => self.oldest = key,
            newest => self.newer[newest as usize] = key,
        }
        self.newest = key;
        debug_assert!(self.len <= self.capacity, "{} of {} keys", self.len, self.capacity);
        hit
    }

    fn take_out(&mut self, key: u32) {
        let (older, newer) = (self.older[key as usize], self.newer[key as usize]);
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        self.present[key as usize] = false;
        self.len -= 1;
    }
}

/// The rule for the next key, and its state.
#[derive(Debug)]
enum ReferenceStream {
    Uniform(u32),
    /// Running sums of the popularities, the last one 1.
    Popular(Vec<f64>),
    Scan {
        keys: u32,
        next: u32,
    },
    Shuffled {
        order: Vec<u32>,
        next: usize,
    },
    CachedFirst {
        /// The round in which each key was asked for last.
        asked: Vec<u32>,
        round: u32,
        /// Number of keys asked for in this round.
        done: usize,
        /// All before this key were asked for in this round.
        next: u32,
    },
}

impl ReferenceStream {
    fn new(cache: &Cache) -> ReferenceStream {
        let keys = cache.keys;
        match &cache.order {
            Keys::Uniform => ReferenceStream::Uniform(keys),
            Keys::Zipf { exponent } => {
                ReferenceStream::popular((1..=keys).map(|k| f64::from(k).powf(-exponent)))
            }
            Keys::Weighted(weights) => ReferenceStream::popular(weights.iter().copied()),
            Keys::Scan => ReferenceStream::Scan { keys, next: 0 },
            Keys::Shuffled => {
                ReferenceStream::Shuffled { order: (0..keys).collect(), next: keys as usize }
            }
            Keys::CachedFirst => ReferenceStream::CachedFirst {
                asked: vec![0; keys as usize],
                round: 1,
                done: 0,
                next: 0,
            },
        }
    }

    fn popular(weights: impl Iterator<Item = f64>) -> ReferenceStream {
        let mut sums: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let total = sums[sums.len() - 1];
        sums.iter_mut().for_each(|sum| *sum /= total);
        ReferenceStream::Popular(sums)
    }

    fn next(&mut self, recency: &Recency, chance: &mut Chance) -> u32 {
        match self {
            ReferenceStream::Uniform(keys) => chance.random_range(0..*keys),
            ReferenceStream::Popular(sums) => {
                let draw = chance.random::<f64>();
                // Not `<`: a key of weight 0 is never asked for, not even by a draw of 0.
                sums.partition_point(|sum| *sum <= draw).min(sums.len() - 1) as u32
            }
            ReferenceStream::Scan { keys, next } => {
                let key = *next;
                *next = (key + 1) % *keys;
                key
            }
            ReferenceStream::Shuffled { order, next } => {
                if *next == order.len() {
                    for at in (1..order.len()).rev() {
                        order.swap(at, chance.random_range(0..=at));
                    }
                    *next = 0;
                }
                *next += 1;
                order[*next - 1]
            }
            ReferenceStream::CachedFirst { asked, round, done, next } => {
                if *done == asked.len() {
                    (*round, *done, *next) = (*round + 1, 0, 0);
                }
                *done += 1;
                // What was asked for in this round is newer than all that was not, so that only the
                // oldest one needs a look.
                let key = match recency.oldest {
                    oldest if oldest != NONE && asked[oldest as usize] < *round => oldest,
                    _ => {
                        while asked[*next as usize] == *round {
                            *next += 1;
                        }
                        *next
                    }
                };
                asked[key as usize] = *round;
                key
            }
        }
    }
}
