//! Next request of a thread. Requests of a run are numbered, and a thread takes small blocks of
//! numbers: so a limit on requests is exact on any number of threads, and so is the deck.
//!
//! Request `n` of a run draws card `n mod size` of deck `n / size`, whichever thread makes it; each
//! deck has its own stream of chance, so that threads shuffle the same decks without talking. Request `n`
//! of a list is number `n` in it. Where arrivals are a log's own, each of them stands for a certain
//! request, and the threads take turns instead of blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::RunPart;
use workload::{Chance, Deck, Draw, Drawing, stream};

// Streams of chance, by use; a thread's number is added.
/// The stream of a thread's arrivals.
pub const ARRIVALS: u64 = 0;
/// The stream of a thread's think times.
pub const THINKING: u64 = 1 << 20;
const DRAWING: u64 = 1 << 21;
const DECKS: u64 = 1 << 40;

/// Order of the requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// From shuffled decks that hold each request as often as its weight says: each full deck is the exact
    /// mix.
    Deck,
    /// Each independently, by the weights.
    Random,
    /// As listed, from the beginning again after the end: the numbers of requests, as of a log. With several
    /// threads neighbouring blocks of 16 mingle, except under a log's own gaps.
    Listed(
        /// The numbers, from 0.
        Arc<[u32]>,
    ),
}

/// Numbers that a thread takes at once: enough that the shared counter costs nothing.
const BLOCK: u64 = 16;

/// The requests of a run, given out.
#[derive(Debug)]
pub struct Tickets {
    next: AtomicU64,
    /// Numbers of this part.
    limit: u64,
    /// Numbers of all parts.
    limit_of_all: u64,
    threads: u32,
    part: RunPart,
}

impl Tickets {
    /// All that may be asked for in a run, or no limit, for so many threads.
    pub fn new(limit: Option<u64>, threads: u32) -> Tickets {
        Tickets::of_part(limit, threads, RunPart::WHOLE)
    }

    /// The share of a part in all that may be asked for in a run. The parts take turns, number by number, so
    /// that together they ask for what one process asks for; each has so many threads.
    pub fn of_part(limit: Option<u64>, threads: u32, part: RunPart) -> Tickets {
        let all = limit.unwrap_or(u64::MAX / 2);
        let (before, of) = (u64::from(part.number() - 1), u64::from(part.of()));
        let limit = all.saturating_sub(before).div_ceil(of);
        Tickets { next: AtomicU64::new(0), limit, limit_of_all: all, threads, part }
    }

    /// The number in the run of number `own` of this part.
    fn number(&self, own: u64) -> u64 {
        own * u64::from(self.part.of()) + u64::from(self.part.number() - 1)
    }

    /// A block of numbers, shorter towards the end, so that no thread sits on work that another
    /// could do; empty when all are given out.
    fn take(&self) -> (u64, u64) {
        let left = self.limit.saturating_sub(self.next.load(Ordering::Relaxed));
        if left == 0 {
            return (0, 0);
        }
        let block = (left / (8 * u64::from(self.threads))).clamp(1, BLOCK);
        let first = self.next.fetch_add(block, Ordering::Relaxed);
        (first.min(self.limit), (first + block).min(self.limit))
    }

    fn all_given(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.limit
    }
}

/// One thread's view of what is asked for next.
#[derive(Debug)]
pub struct Asks<'a> {
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
    /// The asks of thread number `thread` for requests of these weights.
    pub fn new(
        tickets: &'a Tickets,
        weights: &[u32],
        order: &Order,
        seed: u64,
        thread: u32,
    ) -> Asks<'a> {
        let thread = tickets.part.thread(thread, tickets.threads);
        let source = Source::new(weights, order, seed, u64::from(thread));
        Asks { tickets, next: 0, end: 0, turns: None, source }
    }

    /// The asks of thread number `thread` where each arrival stands for the request of a list that has its
    /// number: the threads take turns, and nothing comes after the end of the list.
    pub fn in_turns(tickets: &'a Tickets, list: &Arc<[u32]>, thread: u32) -> Asks<'a> {
        let end = (list.len() as u64).min(tickets.limit_of_all);
        let (part, threads) = (tickets.part, tickets.threads);
        let next = u64::from(part.thread(thread, threads)).min(end);
        let turns = Some(u64::from(part.threads(threads)));
        Asks { tickets, next, end, turns, source: Source::Listed(Arc::clone(list)) }
    }

    /// The number of the next request among the plan's; `None` if the run has made all that it was to make.
    #[inline]
    pub fn next_request(&mut self) -> Option<u32> {
        if self.next == self.end {
            if self.turns.is_some() {
                return None;
            }
            (self.next, self.end) = self.tickets.take();
            if self.next == self.end {
                return None;
            }
        }
        let own = self.next;
        self.next = (own + self.turns.unwrap_or(1)).min(self.end);
        let number = if self.turns.is_some() { own } else { self.tickets.number(own) };
        Some(self.source.request(number) as u32)
    }

    /// True if no request is left to be made.
    pub fn is_over(&self) -> bool {
        self.next == self.end && (self.turns.is_some() || self.tickets.all_given())
    }
}

impl Source {
    fn new(weights: &[u32], order: &Order, seed: u64, thread: u64) -> Source {
        match order {
            Order::Listed(list) => Source::Listed(Arc::clone(list)),
            _ if weights.len() == 1 => Source::One,
            Order::Random => Source::Random {
                drawing: Drawing::of_weights(weights, Draw::Random),
                chance: stream(seed, DRAWING + thread),
            },
            Order::Deck => Source::Deck {
                fresh: Deck::of_weights(weights),
                seed,
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
    use super::*;

    /// WebStone's mix, per thousand.
    const WEIGHTS: [u32; 5] = [350, 500, 140, 9, 1];

    #[test]
    fn a_deck_dealt_over_threads_is_exact_per_thousand() {
        let tickets = Tickets::new(Some(3_000), 3);
        let mut threads: Vec<Asks> =
            (0..3).map(|thread| Asks::new(&tickets, &WEIGHTS, &Order::Deck, 7, thread)).collect();
        let mut dealt = vec![0; WEIGHTS.len()];
        let mut mine = [0; 3];
        // Threads of unequal speed: 3 to 2 to 1.
        'all: loop {
            for thread in [0, 1, 0, 2, 1, 0] {
                match threads[thread].next_request() {
                    Some(class) => dealt[class as usize] += 1,
                    None => break 'all,
                }
                mine[thread] += 1;
            }
        }
        for thread in &mut threads {
            while let Some(class) = thread.next_request() {
                dealt[class as usize] += 1;
            }
            assert!(thread.is_over());
        }
        assert_eq!(dealt, [1050, 1500, 420, 27, 3]);
        assert!(mine[0] > mine[1] && mine[1] > mine[2], "{mine:?}");
    }

    /// What the parts of a run ask for together is what one process asks for, whoever is slow: decks are exact,
    /// a list is made from its beginning to its end, a limit holds, and no draw is made twice.
    #[test]
    fn parts_ask_together_for_what_one_process_asks_for() {
        let list: Arc<[u32]> = (0..97).map(|number| number % 5).collect::<Vec<_>>().into();
        for (of, threads, limit) in [(1, 2, 3_000), (2, 1, 3_000), (3, 2, 2_999), (7, 3, 1_000)] {
            let parts = || RunPart::all(format!("1/{of}").parse().unwrap());
            let all: Vec<Tickets> =
                parts().map(|part| Tickets::of_part(Some(limit), threads, part)).collect();
            assert_eq!(all.iter().map(|tickets| tickets.limit).sum::<u64>(), limit);
            let made = |order: &Order| -> Vec<u64> {
                let mut counts = vec![0; 5];
                // Those that are asked first make all that they may.
                for tickets in all.iter().rev() {
                    tickets.next.store(0, Ordering::Relaxed);
                    for thread in 0..threads {
                        let mut asks = Asks::new(tickets, &WEIGHTS, order, 7, thread);
                        while let Some(request) = asks.next_request() {
                            counts[request as usize] += 1;
                        }
                    }
                }
                counts
            };
            let one = Tickets::new(Some(limit), 1);
            let mut whole = vec![0; 5];
            let mut asks = Asks::new(&one, &WEIGHTS, &Order::Deck, 7, 0);
            while let Some(request) = asks.next_request() {
                whole[request as usize] += 1;
            }
            assert_eq!(made(&Order::Deck), whole, "{of} parts of {threads} threads");
            let listed = made(&Order::Listed(Arc::clone(&list)));
            let wanted = |class| (0..limit).filter(|n| list[(n % 97) as usize] == class).count();
            assert_eq!(listed, (0..5).map(|class| wanted(class) as u64).collect::<Vec<_>>());
            let mut numbers: Vec<u64> = Vec::new();
            for tickets in &all {
                for thread in 0..threads {
                    let mut asks = Asks::in_turns(tickets, &list, thread);
                    while asks.next < asks.end {
                        numbers.push(asks.next);
                        asks.next_request();
                    }
                }
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..97).collect::<Vec<u64>>(), "each row of a log is one part's");
        }
    }

    #[test]
    fn neither_decks_nor_seeds_repeat() {
        let order = |seed| {
            let tickets = Tickets::new(None, 1);
            let mut asks = Asks::new(&tickets, &WEIGHTS, &Order::Deck, seed, 0);
            (0..2000).map(|_| asks.next_request().unwrap()).collect::<Vec<_>>()
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
            let mut many: Vec<Asks> = (0..threads)
                .map(|thread| Asks::new(&tickets, &[1], &Order::Random, 1, thread))
                .collect();
            let made: usize = many
                .iter_mut()
                .map(|asks| std::iter::from_fn(|| asks.next_request()).count())
                .sum();
            assert_eq!(made as u64, limit);
        }
    }

    #[test]
    fn a_list_is_gone_through_in_its_order_again_and_again() {
        let list: Arc<[u32]> = vec![4, 0, 0, 2].into();
        let tickets = Tickets::new(Some(10), 1);
        let mut asks = Asks::new(&tickets, &WEIGHTS, &Order::Listed(Arc::clone(&list)), 1, 0);
        let made: Vec<u32> = std::iter::from_fn(|| asks.next_request()).collect();
        assert_eq!(made, [4, 0, 0, 2, 4, 0, 0, 2, 4, 0]);
        // With its own gaps a log ends, and each arrival has its request, whichever thread makes it.
        for (limit, rows) in [(None, vec![4, 0, 0, 2]), (Some(3), vec![4, 0, 0])] {
            for threads in 1..6 {
                let tickets = Tickets::new(limit, threads);
                let mut made = vec![None; rows.len()];
                for thread in 0..threads {
                    let mut asks = Asks::in_turns(&tickets, &list, thread);
                    let mut at = thread as usize;
                    while let Some(request) = asks.next_request() {
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
