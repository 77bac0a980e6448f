//! Choice of the entry that leaves a full cache, for the agent scheduler and for every cache that is
//! simulated: each rule is written once.

use std::collections::BTreeMap;

mod arrivals;
mod sketch;

pub use arrivals::{ArrivalOrder, ArrivalTurn, Victim};
use sketch::Sketch;

/// Rules for the entry that leaves a full cache.
///
/// | name | leaves | good where |
/// | --- | --- | --- |
/// | `lru` | the least recently used | use soon follows use |
/// | `mru` | the most recently used | everything is used in turn |
/// | `sieve` | the oldest that was not used since the hand passed it (Zhang and others, NSDI 2024) | one use says little |
/// | `frequency` | the least often used, uses before long counting less | some are popular for long |
/// | `w-tiny-lfu` | of the oldest of a small window and of the rest the less often used (Einziger and others 2017) | popularity moves |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum EvictionRule {
    /// The least recently used: yamamoto's rule.
    Lru,
    /// The most recently used.
    Mru,
    /// SIEVE: entries stay in the order in which they came in; a hand goes round from the oldest,
    /// spares who was used since it last passed, and takes the first who was not.
    Sieve,
    /// The least often used by a sketch of all uses, of entries that are not cached too; counts are
    /// halved after 16 uses for each entry of the capacity. Ties fall on the most recently used.
    Frequency,
    /// W-TinyLFU: newcomers wait in a window of 1 % of the capacity; when it is over-full, its oldest
    /// stays only if it was used more often than the oldest on probation. Four fifths of the rest
    /// are protected: those used again while on probation.
    WTinyLfu,
}

/// The entries of a cache, and the one of them that would leave. Entries are numbers that the caller
/// gives them; memory is set aside for the largest.
///
/// An entry that is in use, or that is known to be used soon, is *held*: it never leaves. A use is
/// counted each time an entry is set free. All operations are O(log n) or better, amortised, but for
/// [`EvictionRule::Sieve`], whose hand also passes over those that are held.
///
/// ```
/// use gate::{Eviction, EvictionRule};
///
/// let mut cache = Eviction::new(EvictionRule::Lru, 2);
/// for entry in [7, 3] {
///     cache.enter(entry, u64::from(entry)); // It comes in, and is in use.
///     cache.free(entry);
/// }
/// cache.hold(7);
/// cache.free(7); // It was used again.
/// assert_eq!(cache.evict(), Some(3));
/// ```
#[derive(Clone, Debug)]
pub struct Eviction {
    rule: EvictionRule,
    nodes: Vec<Node>,
    lists: [List; SEGMENTS],
    /// Entries of each segment, held ones included.
    sizes: [u32; SEGMENTS],
    /// Most entries of the window, of the two other segments, and of the protected one.
    window_max: u32,
    main_max: u32,
    protected_max: u32,
    /// Entries that are not held.
    free: u32,
    /// Where the hand of SIEVE goes on; `NONE` for the oldest.
    hand: u32,
    sketch: Option<Sketch>,
    /// The entries that may leave, by score: there are few scores. Of a list leaves the tail, which was used
    /// last: a tie falls on the latest, which keeps a set where all are used in turn.
    ranking: BTreeMap<u64, List>,
}

/// Segments: all of the rules but W-TinyLFU have only the first.
const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
const SEGMENTS: usize = 3;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    identity: u64,
    /// Its score in the ranking.
    score: u64,
    segment: u8,
    cached: bool,
    held: bool,
    /// True if it was used again since it came in or since the hand passed it.
    used: bool,
    /// True until it is set free for the first time.
    new: bool,
}

const ABSENT: Node = Node {
    prev: NONE,
    next: NONE,
    identity: 0,
    score: 0,
    segment: 0,
    cached: false,
    held: false,
    used: false,
    new: false,
};

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE };

impl List {
    /// Puts an entry at the tail.
    fn append(&mut self, entry: u32, nodes: &mut [Node]) {
        let node = &mut nodes[entry as usize];
        (node.prev, node.next) = (self.tail, NONE);
        match nodes.get_mut(self.tail as usize) {
            Some(before) => before.next = entry,
            None => self.head = entry,
        }
        self.tail = entry;
    }

    fn unlist(&mut self, entry: u32, nodes: &mut [Node]) {
        let Node { prev, next, .. } = nodes[entry as usize];
        match nodes.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match nodes.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.tail = prev,
        }
        let node = &mut nodes[entry as usize];
        (node.prev, node.next) = (NONE, NONE);
    }
}

/// Room for so many, and for an eighth more: there are very many agents, and a vector that doubles would be
/// half empty.
pub(crate) fn make_room<T>(all: &mut Vec<T>, len: usize) {
    if len > all.capacity() {
        all.reserve_exact(len - all.len() + len / 8);
    }
}

impl Eviction {
    /// No entries, under this rule, for a cache of `capacity` entries: window, sketch and sample are
    /// measured by it; that the cache is full is the caller's to know.
    pub fn new(rule: EvictionRule, capacity: u32) -> Eviction {
        let window_max = (capacity / 100).max(1);
        let sketch = match rule {
            EvictionRule::Frequency => Some(Sketch::new(capacity, u8::MAX, 16)),
            EvictionRule::WTinyLfu => Some(Sketch::new(capacity, 15, 10)),
            EvictionRule::Lru | EvictionRule::Mru | EvictionRule::Sieve => None,
        };
        Eviction {
            rule,
            nodes: Vec::new(),
            lists: [EMPTY; SEGMENTS],
            sizes: [0; SEGMENTS],
            window_max,
            main_max: capacity.saturating_sub(window_max),
            protected_max: (capacity.saturating_sub(window_max) / 5).saturating_mul(4),
            free: 0,
            hand: NONE,
            sketch,
            ranking: BTreeMap::new(),
        }
    }

    /// Number of entries that may leave.
    pub fn evictable(&self) -> u32 {
        self.free
    }

    /// An entry comes in, held. `identity` is what its uses are remembered by when it is gone.
    ///
    /// # Panics
    /// If it is there already, or is `u32::MAX`.
    pub fn enter(&mut self, entry: u32, identity: u64) {
        assert!(entry != NONE, "entries are numbered below u32::MAX");
        if self.nodes.len() <= entry as usize {
            make_room(&mut self.nodes, entry as usize + 1);
            self.nodes.resize(entry as usize + 1, ABSENT);
        }
        let node = &mut self.nodes[entry as usize];
        assert!(!node.cached, "entry {entry} is in the cache already");
        *node = Node { identity, cached: true, held: true, new: true, ..ABSENT };
        self.sizes[WINDOW] += 1;
        if self.rule == EvictionRule::Sieve {
            self.append(entry);
        }
    }

    /// A held entry was used and may leave from now on.
    ///
    /// # Panics
    /// If it is not there, or is not held.
    pub fn free(&mut self, entry: u32) {
        let node = self.nodes.get_mut(entry as usize).filter(|node| node.cached && node.held);
        let node = node.expect("only a cached entry that is held can be set free");
        let again = !node.new;
        (node.held, node.new, node.used) = (false, false, node.used || again);
        let identity = node.identity;
        self.free += 1;
        let score = self.sketch.as_mut().map_or(0, |sketch| sketch.count(identity));
        match self.rule {
            EvictionRule::Lru | EvictionRule::Mru => self.append(entry),
            EvictionRule::Sieve => {}
            EvictionRule::Frequency => {
                self.nodes[entry as usize].score = score;
                let list = self.ranking.entry(score).or_insert(EMPTY);
                list.append(entry, &mut self.nodes);
            }
            EvictionRule::WTinyLfu => {
                if again && self.nodes[entry as usize].segment == PROBATION as u8 {
                    self.move_to(entry, PROTECTED);
                }
                self.append(entry);
                self.overflow();
                self.shrink_protected();
            }
        }
    }

    /// An entry may not leave from now on: it is in use, or will be soon. No change if it is held.
    ///
    /// # Panics
    /// If it is not there.
    pub fn hold(&mut self, entry: u32) {
        let node = self.nodes.get_mut(entry as usize).filter(|node| node.cached);
        let node = node.expect("only a cached entry can be held");
        if node.held {
            return;
        }
        node.held = true;
        let score = node.score;
        self.free -= 1;
        match self.rule {
            EvictionRule::Sieve => {}
            EvictionRule::Frequency => {
                let list = self.ranking.get_mut(&score).expect("who is free is in its list");
                list.unlist(entry, &mut self.nodes);
                if list.head == NONE {
                    self.ranking.remove(&score);
                }
            }
            EvictionRule::Lru | EvictionRule::Mru | EvictionRule::WTinyLfu => self.unlist(entry),
        }
    }

    /// An entry leaves by the caller's choice.
    ///
    /// # Panics
    /// If it is not there.
    pub fn leave(&mut self, entry: u32) {
        self.hold(entry);
        if self.rule == EvictionRule::Sieve {
            if self.hand == entry {
                self.hand = self.nodes[entry as usize].next;
            }
            self.unlist(entry);
        }
        let node = &mut self.nodes[entry as usize];
        self.sizes[usize::from(node.segment)] -= 1;
        *node = ABSENT;
    }

    /// The entry that leaves; `None` if all are held.
    pub fn evict(&mut self) -> Option<u32> {
        let entry = match self.rule {
            EvictionRule::Lru => self.lists[WINDOW].head,
            EvictionRule::Mru => self.lists[WINDOW].tail,
            EvictionRule::Frequency => {
                self.ranking.first_key_value().map_or(NONE, |(_, list)| list.tail)
            }
            EvictionRule::Sieve => self.hand_takes(),
            EvictionRule::WTinyLfu => self.less_popular(),
        };
        (entry != NONE).then(|| {
            self.leave(entry);
            entry
        })
    }

    /// The first entry from the hand on that is free and was not used; those that it passes count as
    /// not used. Two rounds are enough: the first clears all marks.
    fn hand_takes(&mut self) -> u32 {
        if self.free == 0 {
            return NONE;
        }
        let mut at = self.hand;
        loop {
            if at == NONE {
                at = self.lists[WINDOW].head;
            }
            let node = &mut self.nodes[at as usize];
            if !node.held && !node.used {
                self.hand = node.next;
                return at;
            }
            // What is held keeps its mark: it is in use now.
            node.used &= node.held;
            at = node.next;
        }
    }

    /// W-TinyLFU's choice.
    fn less_popular(&mut self) -> u32 {
        let [window, probation, protected] = self.lists.map(|list| list.head);
        let rest = if probation != NONE { probation } else { protected };
        if window == NONE || (rest != NONE && self.sizes[WINDOW] <= self.window_max) {
            return rest;
        }
        if rest == NONE {
            return window;
        }
        let Some(sketch) = &self.sketch else { return window };
        let uses = |entry: u32| sketch.estimate(self.nodes[entry as usize].identity);
        if uses(window) <= uses(rest) {
            return window;
        }
        self.unlist(window);
        self.move_to(window, PROBATION);
        self.append(window);
        rest
    }

    /// While the rest of the cache has room, what the window has too many of goes there.
    fn overflow(&mut self) {
        while self.sizes[WINDOW] > self.window_max
            && self.sizes[PROBATION] + self.sizes[PROTECTED] < self.main_max
            && self.lists[WINDOW].head != NONE
        {
            let oldest = self.lists[WINDOW].head;
            self.unlist(oldest);
            self.move_to(oldest, PROBATION);
            self.append(oldest);
        }
    }

    /// Puts the oldest protected entries on probation while there are too many.
    fn shrink_protected(&mut self) {
        while self.sizes[PROTECTED] > self.protected_max && self.lists[PROTECTED].head != NONE {
            let oldest = self.lists[PROTECTED].head;
            self.unlist(oldest);
            self.move_to(oldest, PROBATION);
            self.append(oldest);
        }
    }

    /// Counts an entry that is in no list to another segment.
    fn move_to(&mut self, entry: u32, segment: usize) {
        let node = &mut self.nodes[entry as usize];
        self.sizes[usize::from(node.segment)] -= 1;
        self.sizes[segment] += 1;
        node.segment = segment as u8;
    }

    /// Puts an entry at the tail of its segment's list.
    fn append(&mut self, entry: u32) {
        let segment = usize::from(self.nodes[entry as usize].segment);
        self.lists[segment].append(entry, &mut self.nodes);
    }

    fn unlist(&mut self, entry: u32) {
        let segment = usize::from(self.nodes[entry as usize].segment);
        self.lists[segment].unlist(entry, &mut self.nodes);
    }
}
