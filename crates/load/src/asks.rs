//! Next request of a thread. Requests of a run are numbered, and a thread takes small blocks of
//! numbers: so a limit on requests is exact on any number of threads, and so is the deck.
//!
//! Request `n` of a run draws card `n mod size` of deck `n / size`, whichever thread makes it; each
//! deck has its own stream of chance, so that threads shuffle the same decks without talking.

use std::sync::atomic::{AtomicU64, Ordering};

use workload::{Chance, Deck, DocumentSet, Draw, Drawing, stream};

// Streams of chance, by use; a thread's number is added.
/// The stream of a thread's arrivals.
pub const ARRIVALS: u64 = 0;
/// The stream of a thread's think times.
pub const THINKING: u64 = 1 << 20;
const DRAWING: u64 = 1 << 21;
const DECKS: u64 = 1 << 40;

/// Numbers that a thread takes at once: enough that the shared counter costs nothing.
const BLOCK: u64 = 16;

/// The requests of a run, given out.
#[derive(Debug)]
pub struct Tickets {
    next: AtomicU64,
    limit: u64,
    threads: u64,
}

impl Tickets {
    /// All that may be asked for in a run, or no limit, for so many threads.
    pub fn new(limit: Option<u64>, threads: u32) -> Tickets {
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
pub struct Asks<'a> {
    tickets: &'a Tickets,
    next: u64,
    end: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    One,
    Random { drawing: Drawing, chance: Chance },
    Deck { fresh: Deck, seed: u64, number: Option<u64>, cards: Vec<usize> },
}

impl<'a> Asks<'a> {
    /// View of thread number `thread`.
    pub fn new(
        tickets: &'a Tickets,
        set: &DocumentSet,
        draw: Draw,
        seed: u64,
        thread: u64,
    ) -> Asks<'a> {
        let source = match draw {
            _ if set.len() == 1 => Source::One,
            Draw::Random => Source::Random {
                drawing: Drawing::new(set, draw),
                chance: stream(seed, DRAWING + thread),
            },
            Draw::Deck => {
                Source::Deck { fresh: Deck::new(set), seed, number: None, cards: Vec::new() }
            }
        };
        Asks { tickets, next: 0, end: 0, source }
    }

    /// The class of the next request; `None` if the run has made all that it was to make.
    #[inline]
    pub fn next_class(&mut self) -> Option<u32> {
        if self.next == self.end {
            (self.next, self.end) = self.tickets.take();
            if self.next == self.end {
                return None;
            }
        }
        let number = self.next;
        self.next += 1;
        Some(self.source.class(number) as u32)
    }

    /// True if no request is left to be made.
    pub fn is_over(&self) -> bool {
        self.next == self.end && self.tickets.all_given()
    }
}

impl Source {
    fn class(&mut self, number: u64) -> usize {
        match self {
            Source::One => 0,
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

    #[test]
    fn a_deck_dealt_over_threads_is_exact_per_thousand() {
        let set = DocumentSet::webstone();
        let tickets = Tickets::new(Some(3_000), 3);
        let mut threads: Vec<Asks> =
            (0..3).map(|thread| Asks::new(&tickets, &set, Draw::Deck, 7, thread)).collect();
        let mut dealt = vec![0; set.len()];
        let mut mine = [0; 3];
        // Threads of unequal speed: 3 to 2 to 1.
        'all: loop {
            for thread in [0, 1, 0, 2, 1, 0] {
                match threads[thread].next_class() {
                    Some(class) => dealt[class as usize] += 1,
                    None => break 'all,
                }
                mine[thread] += 1;
            }
        }
        for thread in &mut threads {
            while let Some(class) = thread.next_class() {
                dealt[class as usize] += 1;
            }
            assert!(thread.is_over());
        }
        assert_eq!(dealt, [1050, 1500, 420, 27, 3]);
        assert!(mine[0] > mine[1] && mine[1] > mine[2], "{mine:?}");
    }

    #[test]
    fn neither_decks_nor_seeds_repeat() {
        let set = DocumentSet::webstone();
        let order = |seed| {
            let tickets = Tickets::new(None, 1);
            let mut asks = Asks::new(&tickets, &set, Draw::Deck, seed, 0);
            (0..2000).map(|_| asks.next_class().unwrap()).collect::<Vec<_>>()
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
            let set = DocumentSet::single("x", 1);
            let mut many: Vec<Asks> = (0..u64::from(threads))
                .map(|thread| Asks::new(&tickets, &set, Draw::Random, 1, thread))
                .collect();
            let made: usize =
                many.iter_mut().map(|asks| std::iter::from_fn(|| asks.next_class()).count()).sum();
            assert_eq!(made as u64, limit);
        }
    }
}
