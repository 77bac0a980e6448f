//! Next request of a thread. Requests of a run are numbered, and a thread takes small blocks of
//! numbers: so a limit on requests is exact on any number of threads, and so is the deck.
//!
//! Request `n` of a run draws card `n mod size` of deck `n / size`, whichever thread makes it; each
//! deck has its own stream of chance, so that threads shuffle the same decks without talking. Request `n`
//! of a list is number `n` in it. Where arrivals are a log's own, each of them stands for a certain
//! request, and the threads take turns instead of blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use workload::{Chance, Deck, Draw, Drawing, stream};

use super::plan::{Load, Order, PlanSpec};

/// Streams of chance, by use; a thread's number is added.
pub(crate) const ARRIVALS: u64 = 0;
pub(crate) const THINKING: u64 = 1 << 20;
const DRAWING: u64 = 1 << 21;
const DECKS: u64 = 1 << 40;

/// Numbers that a thread takes at once: enough that the shared counter costs nothing.
const BLOCK: u64 = 16;

/// The requests of a run, given out.
#[derive(Debug)]
pub(crate) struct Tickets {
    next: AtomicU64,
    limit: u64,
    threads: u64,
}

impl Tickets {
    pub(crate) fn new(limit: Option<u64>, threads: u32) -> Tickets {
        let limit = limit.unwrap_or(u64::MAX / 2);
        Tickets { next: AtomicU64::new(0), limit, threads: u64::from(threads) }
    }

    /// A block of numbers, shorter towards the end, so that no thread sits on work that another
    /// could do; empty when all are given out.
    fn take(&self) -> (u64, u64) {
        let left = self.limit.saturating_sub(self.next.load(Ordering::Relaxed));
        if left == 0 {
            return (0, 0);
        }
        let block = (left / (8 * self.threads)).clamp(1, BLOCK);
        let first = self.next.fetch_add(block, Ordering::Relaxed);
        (first.min(self.limit), (first + block).min(self.limit))
    }

    fn all_given(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.limit
    }
}

/// One thread's view of what is asked for next.
#[derive(Debug)]
pub(crate) struct Asks<'a> {
    tickets: &'a Tickets,
    next: u64,
    end: u64,
    /// Distance of a thread's numbers, where the threads take turns.
    turns: Option<u64>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    One,
    Random { drawing: Drawing, chance: Chance },
    Deck { fresh: Deck, seed: u64, number: Option<u64>, cards: Vec<usize> },
    Listed(Arc<[u32]>),
}

impl<'a> Asks<'a> {
    /// The asks of thread `number`.
    pub(crate) fn new(tickets: &'a Tickets, spec: &PlanSpec, number: u32) -> Asks<'a> {
        let turns = match &spec.load {
            Load::Varying { schedule, .. } if schedule.is_log() => Some(u64::from(spec.threads)),
            _ => None,
        };
        let source = Source::new(spec, u64::from(number));
        let Some(step) = turns else { return Asks { tickets, next: 0, end: 0, turns, source } };
        let rows = if let Source::Listed(list) = &source { list.len() as u64 } else { 0 };
        let end = rows.min(tickets.limit);
        Asks { tickets, next: u64::from(number).min(end), end, turns: Some(step), source }
    }

    /// The number of the next request among the plan's; `None` if the run has made all that it was to make.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u32> {
        if self.next == self.end {
            if self.turns.is_some() {
                return None;
            }
            (self.next, self.end) = self.tickets.take();
            if self.next == self.end {
                return None;
            }
        }
        let number = self.next;
        self.next = (number + self.turns.unwrap_or(1)).min(self.end);
        Some(self.source.request(number) as u32)
    }

    /// True if no request is left to be made.
    pub(crate) fn is_over(&self) -> bool {
        self.next == self.end && (self.turns.is_some() || self.tickets.all_given())
    }
}

impl Source {
    fn new(spec: &PlanSpec, thread: u64) -> Source {
        let weights: Vec<u32> = spec.requests.iter().map(|request| request.weight).collect();
        match &spec.order {
            Order::Listed(list) => Source::Listed(Arc::clone(list)),
            _ if weights.len() == 1 => Source::One,
            Order::Random => Source::Random {
                drawing: Drawing::of_weights(&weights, Draw::Random),
                chance: stream(spec.seed, DRAWING + thread),
            },
            Order::Deck => Source::Deck {
                fresh: Deck::of_weights(&weights),
                seed: spec.seed,
                number: None,
                cards: Vec::new(),
            },
        }
    }

    fn request(&mut self, number: u64) -> usize {
        match self {
            Source::One => 0,
            Source::Listed(list) => list[(number % list.len() as u64) as usize] as usize,
            Source::Random { drawing, chance } => drawing.draw(chance),
            Source::Deck { fresh, seed, number: current, cards } => {
                let size = fresh.size() as u64;
                let deck = number / size;
                if *current != Some(deck) {
                    *current = Some(deck);
                    let mut chance = stream(*seed, DECKS + deck);
                    let mut shuffled = fresh.clone();
                    cards.clear();
                    cards.extend((0..size).map(|_| shuffled.draw(&mut chance)));
                }
                cards[(number % size) as usize]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::Until;
    use workload::{Dist, DocumentSet};

    use super::*;
    use crate::http::{Reach, Request, Schedule, Target};

    /// A plan's spec of these documents, drawn so.
    fn spec(set: &DocumentSet, order: Order, seed: u64) -> PlanSpec {
        let target = Target::parse("http://127.0.0.1/", Reach::Private).unwrap();
        let load = Load::Closed { clients: 1, think: Dist::Constant(0.0) };
        let mut spec = PlanSpec::new(target, load, Until::Seconds(1.0));
        spec.requests = Request::documents(&spec.target, set);
        (spec.order, spec.seed) = (order, seed);
        spec
    }

    #[test]
    fn a_deck_dealt_over_threads_is_exact_per_thousand() {
        let set = DocumentSet::webstone();
        let tickets = Tickets::new(Some(3_000), 3);
        let spec = spec(&set, Order::Deck, 7);
        let mut threads: Vec<Asks> =
            (0..3).map(|thread| Asks::new(&tickets, &spec, thread)).collect();
        let mut dealt = vec![0; set.len()];
        let mut mine = [0; 3];
        // Threads of unequal speed: 3 to 2 to 1.
        'all: loop {
            for thread in [0, 1, 0, 2, 1, 0] {
                match threads[thread].next() {
                    Some(class) => dealt[class as usize] += 1,
                    None => break 'all,
                }
                mine[thread] += 1;
            }
        }
        for thread in &mut threads {
            while let Some(class) = thread.next() {
                dealt[class as usize] += 1;
            }
            assert!(thread.is_over());
        }
        assert_eq!(dealt, [1050, 1500, 420, 27, 3]);
        assert!(mine[0] > mine[1] && mine[1] > mine[2], "{mine:?}");
    }

    #[test]
    fn neither_decks_nor_seeds_repeat() {
        let order = |seed| {
            let tickets = Tickets::new(None, 1);
            let spec = spec(&DocumentSet::webstone(), Order::Deck, seed);
            let mut asks = Asks::new(&tickets, &spec, 0);
            (0..2000).map(|_| asks.next().unwrap()).collect::<Vec<_>>()
        };
        let one = order(1);
        assert_ne!(one[..1000], one[1000..]);
        assert_ne!(one, order(2));
        assert_eq!(one, order(1));
    }

    #[test]
    fn a_limit_is_exact() {
        for (limit, threads) in [(1, 1), (17, 4), (1000, 2)] {
            let tickets = Tickets::new(Some(limit), threads);
            let spec = spec(&DocumentSet::single("x", 1), Order::Random, 1);
            let mut many: Vec<Asks> =
                (0..threads).map(|thread| Asks::new(&tickets, &spec, thread)).collect();
            let made: usize =
                many.iter_mut().map(|asks| std::iter::from_fn(|| asks.next()).count()).sum();
            assert_eq!(made as u64, limit);
        }
    }

    #[test]
    fn a_list_is_gone_through_in_its_order_again_and_again() {
        let mut spec = spec(&DocumentSet::webstone(), Order::Listed(vec![4, 0, 0, 2].into()), 1);
        let tickets = Tickets::new(Some(10), 1);
        let mut asks = Asks::new(&tickets, &spec, 0);
        let made: Vec<u32> = std::iter::from_fn(|| asks.next()).collect();
        assert_eq!(made, [4, 0, 0, 2, 4, 0, 0, 2, 4, 0]);
        // With its own gaps a log ends, and each arrival has its request, whichever thread makes it.
        let schedule = Schedule::log(vec![0.0, 0.1, 0.2, 0.3], 1.0);
        spec.load = Load::Varying { schedule, in_flight_max: 10 };
        for (limit, rows) in [(None, vec![4, 0, 0, 2]), (Some(3), vec![4, 0, 0])] {
            for threads in 1..6 {
                spec.threads = threads;
                let tickets = Tickets::new(limit, threads);
                let mut made = vec![None; rows.len()];
                for thread in 0..threads {
                    let mut asks = Asks::new(&tickets, &spec, thread);
                    let mut at = thread as usize;
                    while let Some(request) = asks.next() {
                        made[at] = Some(request);
                        at += threads as usize;
                    }
                    assert!(asks.is_over());
                }
                assert_eq!(made, rows.iter().copied().map(Some).collect::<Vec<_>>());
            }
        }
    }
}
