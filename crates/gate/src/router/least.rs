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

    /// What [`least`](Tie::least) says where only these of the first `n` are candidates, in order: their
    /// number is what it takes time for.
    fn least_of<S: PartialOrd>(
        &mut self,
        candidates: &[usize],
        n: usize,
        score: impl Fn(usize) -> S,
    ) -> Option<usize> {
        // The first of equals, in the order from `first` on.
        let first_least = |first: usize| {
            let (before, behind) =
                candidates.split_at(candidates.partition_point(|&at| at < first));
            let mut best: Option<(S, usize)> = None;
            for &at in behind.iter().chain(before) {
                let score = score(at);
                if best.as_ref().is_none_or(|(least, _)| score < *least) {
                    best = Some((score, at));
                }
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
                let mut equals = candidates.iter().filter(|&&at| score(at) == least);
                let among = equals.clone().count();
                *equals.nth(draw_below(&mut self.chance, among)?)?
            }
        };
        self.last = at;
        Some(at)
    }
}

/// Of so many drawn servers the order is restored swap by swap; more are sorted.
const SWAPS_KEPT: usize = 16;

/// The shortest queue among a few drawn servers.
#[derive(Debug)]
pub(crate) struct PowerOfD {
    d: usize,
    length: Length,
    tie: Tie,
    chance: Xoshiro256PlusPlus,
    /// The usable servers, in order.
    usable: Vec<usize>,
    /// All servers, in order.
    all: Vec<usize>,
    drawn: Vec<usize>,
}

impl PowerOfD {
    /// Its chance is a function of `seed`.
    pub(crate) fn new(d: u32, length: Length, ties: Ties, seed: u64) -> PowerOfD {
        // Ties have a stream of their own, lest they be broken by the numbers of the draws.
        let tie = Tie::new(ties, !seed);
        let (usable, all, drawn) = (Vec::new(), Vec::new(), Vec::new());
        PowerOfD { d: d as usize, length, tie, chance: chance(seed), usable, all, drawn }
    }

    /// The best of a few that are drawn from these. Only the few are looked at, and the order is left as it
    /// was.
    fn best(&mut self, from: &mut [usize], servers: &[ServerView]) -> Option<usize> {
        let few = self.d.min(from.len());
        let mut swaps = [0; SWAPS_KEPT];
        self.drawn.clear();
        for at in 0..few {
            let other = at + draw_below(&mut self.chance, from.len() - at)?;
            from.swap(at, other);
            if let Some(swap) = swaps.get_mut(at) {
                *swap = other;
            }
        }
        self.drawn.extend_from_slice(&from[..few]);
        if few <= SWAPS_KEPT {
            (0..few).rev().for_each(|at| from.swap(at, swaps[at]));
        } else {
            from.sort_unstable();
        }
        self.drawn.sort_unstable();
        let score = |at: usize| count(&servers[at], self.length);
        self.tie.least_of(&self.drawn, servers.len(), score)
    }
}

impl Router for PowerOfD {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let mut usable = std::mem::take(&mut self.usable);
        usable.clear();
        usable.extend((0..servers.len()).filter(|&at| servers[at].usable));
        let best = self.best(&mut usable, servers);
        self.usable = usable;
        best
    }

    fn route_all(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let mut all = std::mem::take(&mut self.all);
        if all.len() != servers.len() {
            all = (0..servers.len()).collect();
        }
        let best = self.best(&mut all, servers);
        self.all = all;
        best
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

    /// What is found without a look at all servers is what a look at all of them finds, draw by draw: a
    /// recording replays alike.
    #[test]
    fn a_few_of_all_are_the_same_few() {
        let (now, length) = (Time::ZERO, Length::InSystem);
        for d in [1, 2, 3, 9, 20, 40] {
            for ties in [Ties::Lowest, Ties::Rotate, Ties::Random] {
                let mut by_look = PowerOfD::new(d, length, ties, 7);
                let mut by_number = PowerOfD::new(d, length, ties, 7);
                let mut lengths = chance(u64::from(d));
                for job in 0..500 {
                    let view = |_| {
                        let waiting = draw_below(&mut lengths, 4).unwrap() as u64;
                        ServerView { usable: true, slots: 1, waiting, ..ServerView::default() }
                    };
                    let views: Vec<ServerView> = (0..30).map(view).collect();
                    let job = Job::new(JobId(job));
                    let seen = by_look.route(now, &job, &views);
                    assert_eq!(by_number.route_all(now, &job, &views), seen, "{d} {ties:?}");
                    assert!(by_look.all.is_empty(), "it has looked");
                    assert!(by_number.all.is_sorted(), "{d}: the order is restored");
                }
            }
        }
    }

    /// Drawn as from a list that is swapped, and the least of these in the order of the servers: the choices
    /// as they were before, of seed 7.
    #[test]
    fn the_choices_of_a_seed_stay() {
        for ties in [Ties::Lowest, Ties::Rotate, Ties::Random] {
            let mut router = PowerOfD::new(3, Length::Waiting, ties, 7);
            let (mut draws, mut tie) = (chance(7), Tie::new(ties, !7));
            for job in 0..500_u64 {
                let view = |at: u64| {
                    let (waiting, usable) = ((at * 7 + job) % 3, !(at + job).is_multiple_of(5));
                    ServerView { usable, slots: 1, waiting, ..ServerView::default() }
                };
                let views: Vec<ServerView> = (0..11).map(view).collect();
                let mut list: Vec<usize> = (0..11).filter(|&at| views[at].usable).collect();
                for at in 0..3 {
                    let other = at + draw_below(&mut draws, list.len() - at).unwrap();
                    list.swap(at, other);
                }
                list.truncate(3);
                let score = |at: usize| list.contains(&at).then(|| views[at].waiting);
                let expected = tie.least(11, score);
                assert_eq!(router.route(Time::ZERO, &Job::new(JobId(job)), &views), expected);
            }
        }
    }
}
