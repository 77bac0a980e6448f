//! Routers that take the best of the servers by some score: the shortest queue, the lowest
//! utilisation, ohmae's EV, the least work; the same among a few drawn ones; an idle one.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Router, chance, draw_below};
use crate::{AtZero, Job, Length, ServerView, Ties, Time};

/// What servers are compared by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Score {
    Length(Length),
    Utilisation,
    Work,
    Ev { k1: f64, k2: f64, length: Length, at_zero: AtZero },
}

/// The usable server with the least score.
#[derive(Debug)]
pub(crate) struct Least {
    score: Score,
    tie: Tie,
}

impl Least {
    /// Its chance is a function of `seed`.
    pub(crate) fn new(score: Score, ties: Ties, seed: u64) -> Least {
        Least { score, tie: Tie::new(ties, seed) }
    }
}

impl Router for Least {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let tie = &mut self.tie;
        match self.score {
            Score::Length(length) => {
                tie.least(servers.len(), usable(servers, |server| count(server, length)))
            }
            Score::Utilisation => tie.least(servers.len(), usable(servers, |s| s.utilisation)),
            Score::Work => tie.least(servers.len(), usable(servers, |server| server.work)),
            Score::Ev { k1, k2, length, at_zero } => {
                let ev = |server: &ServerView| ev(server, k1, k2, length, at_zero);
                tie.least(servers.len(), usable(servers, ev))
            }
        }
    }
}

/// The score of a server by its index; none if it is not usable.
fn usable<'s, S>(
    servers: &'s [ServerView],
    score: impl Fn(&'s ServerView) -> S,
) -> impl Fn(usize) -> Option<S> {
    move |at| servers[at].usable.then(|| score(&servers[at]))
}

fn count(server: &ServerView, length: Length) -> u64 {
    match length {
        Length::Waiting => server.waiting,
        Length::InSystem => server.waiting + u64::from(server.busy),
    }
}

/// EV with its sign turned, so that the least is the best: how many of its terms are beyond any
/// number, then the sum of the others.
fn ev(server: &ServerView, k1: f64, k2: f64, length: Length, at_zero: AtZero) -> (i8, f64) {
    let length = count(server, length) as f64;
    let length = match at_zero {
        AtZero::Best => length,
        AtZero::Floor(floor) => length.max(floor),
        AtZero::PlusOne => length + 1.0,
    };
    let (mut beyond, mut sum) = (0, 0.0);
    for (weight, of) in [(k1, length), (k2, server.utilisation)] {
        if weight == 0.0 {
            continue;
        }
        let term = weight / of;
        if term.is_finite() { sum -= term } else { beyond -= 1 }
    }
    (beyond, sum)
}

/// Chooses among equals.
#[derive(Debug)]
struct Tie {
    ties: Ties,
    last: usize,
    chance: Xoshiro256PlusPlus,
}

impl Tie {
    fn new(ties: Ties, seed: u64) -> Tie {
        // The first turn of `Rotate` must fall on server 0.
        Tie { ties, last: usize::MAX, chance: chance(seed) }
    }

    /// The candidate of least score among the first `n`; those without score are none.
    #[inline]
    fn least<S: PartialOrd>(
        &mut self,
        n: usize,
        score: impl Fn(usize) -> Option<S>,
    ) -> Option<usize> {
        // The first of equals, in the order from `first` on.
        let first_least = |first: usize| {
            let mut best: Option<(S, usize)> = None;
            let mut at = first;
            for _ in 0..n {
                if let Some(score) = score(at)
                    && best.as_ref().is_none_or(|(least, _)| score < *least)
                {
                    best = Some((score, at));
                }
                at = if at + 1 == n { 0 } else { at + 1 };
            }
            best
        };
        let at = match self.ties {
            Ties::Lowest => first_least(0)?.1,
            Ties::Rotate => {
                let next = self.last.wrapping_add(1);
                first_least(if next >= n { 0 } else { next })?.1
            }
            Ties::Random => {
                let (least, _) = first_least(0)?;
                let is_least = |at: &usize| score(*at).is_some_and(|score| score == least);
                let among = (0..n).filter(is_least).count();
                let nth = draw_below(&mut self.chance, among)?;
                (0..n).filter(is_least).nth(nth)?
            }
        };
        self.last = at;
        Some(at)
    }
}

/// The shortest queue among a few drawn servers.
#[derive(Debug)]
pub(crate) struct PowerOfD {
    d: usize,
    length: Length,
    tie: Tie,
    chance: Xoshiro256PlusPlus,
    /// The usable servers; of each draw, the first few are those drawn.
    drawn: Vec<usize>,
}

impl PowerOfD {
    /// Its chance is a function of `seed`.
    pub(crate) fn new(d: u32, length: Length, ties: Ties, seed: u64) -> PowerOfD {
        // Ties have a stream of their own, lest they be broken by the numbers of the draws.
        let tie = Tie::new(ties, !seed);
        PowerOfD { d: d as usize, length, tie, chance: chance(seed), drawn: Vec::new() }
    }
}

impl Router for PowerOfD {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let drawn = &mut self.drawn;
        drawn.clear();
        drawn.extend((0..servers.len()).filter(|&at| servers[at].usable));
        for at in 0..self.d.min(drawn.len()) {
            let other = at + draw_below(&mut self.chance, drawn.len() - at)?;
            drawn.swap(at, other);
        }
        drawn.truncate(self.d);
        let score = |at: usize| drawn.contains(&at).then(|| count(&servers[at], self.length));
        self.tie.least(servers.len(), score)
    }
}

/// An idle server; any if there is none.
#[derive(Debug)]
pub(crate) struct JoinIdle {
    tie: Tie,
    chance: Xoshiro256PlusPlus,
}

impl JoinIdle {
    /// Its chance is a function of `seed`.
    pub(crate) fn new(ties: Ties, seed: u64) -> JoinIdle {
        JoinIdle { tie: Tie::new(ties, !seed), chance: chance(seed) }
    }
}

impl Router for JoinIdle {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let idle = |server: &ServerView| server.waiting == 0 && server.busy < server.slots;
        let score = |at: usize| (servers[at].usable && idle(&servers[at])).then_some(());
        self.tie.least(servers.len(), score).or_else(|| {
            let usable = || (0..servers.len()).filter(|&at| servers[at].usable);
            let nth = draw_below(&mut self.chance, usable().count())?;
            usable().nth(nth)
        })
    }
}
