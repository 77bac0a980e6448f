//! The model of what is behind a gate: which demand its jobs have, how the throughput goes with the
//! slots, and what would be with others.
//!
//! ```text
//!   slots held, jobs done ──▶ counts by level ──▶ curve X(n) ──▶ band of the controller
//!                                                     │     └──▶ what if ... ?
//!                                                     └──▶ prediction, held against what comes
//! ```
//!
//! It has no clock and no thread: it is told what happens at the gate and when. While n slots are
//! held, jobs are done at the rate X(n), so that every level a gate ever was at says something of the
//! curve, whatever the load was. The curve is that of a closed network of a station of m servers and
//! a delay (what a job takes that nobody waits for: locks that are free, the client's own time within
//! a transaction): with n slots X(n) rises as n / (D + Z) and bends to m / D. What m, D and Z cannot
//! be told from what was seen is said as a region, and every number that follows from the curve is
//! given over that region. A database that slows down with more slots has no such curve; then the
//! model says so, and answers nothing.
//!
//! What is known is of the last minutes, and less where what comes is no more what was.

mod answers;
mod curve;
mod fit;
mod observed;

use gate::{Band, Slot, Time};
use std::time::Duration;

pub use answers::{Fitted, Now, Refusal};
use curve::Curve;
use fit::Fit;
use observed::{Block, Observed, bin_of};

/// The share of the throughput that the slots are to keep (Schroeder et al., ICDE 2006).
const KEEP: f64 = 0.95;
/// Most that a rate may be off the curve, as a share, for the model to be believed.
const MISFIT_MAX: f64 = 0.2;
/// Least time that a fit stands.
const REFIT: Duration = Duration::from_secs(10);
/// The change of a rate, as a share, from which on what was seen before is forgotten.
const CHANGE: f64 = 0.25;
/// The band is wider than the model's own by this, both ways: a model is never quite right.
const WIDER: f64 = 1.5;
/// The model takes slots away only if it has seen so many held, and so many times as many as it
/// leaves: two clients that stand in each other's way say nothing of fifty that do not.
const SEEN_MIN: [f64; 2] = [8.0, 2.0];
/// The most that was seen is the mean of a range, which lies so much below its end at most.
const RANGE: f64 = 0.8;

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It was done.
    Done,
    /// It took its time and came to nothing: a time-out, a deadlock, a connection that broke.
    Failed,
}

/// A job in a slot.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Time,
    class: u32,
    /// The server's progress then; not a number before that is known.
    began: f64,
}

/// A model of the servers behind one gate, which are taken to be alike.
#[derive(Clone, Debug)]
pub struct Model {
    observed: Observed,
    held: Vec<Vec<Option<Held>>>,
    fit: Option<Fit>,
    /// Before when no other fit is made.
    stands_until: Time,
    /// Observations since the last fit, and the number of their blocks.
    since: Block,
    since_blocks: usize,
    score: Option<Score>,
}

/// A prediction and what happened.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Score {
    /// [1/s].
    predicted: f64,
    between: (f64, f64),
    happened: f64,
    /// \[s\].
    span: f64,
}

impl Model {
    /// A model of so many servers, of which nothing is known.
    pub fn new(servers: usize) -> Model {
        Model {
            observed: Observed::new(servers),
            held: vec![Vec::new(); servers],
            fit: None,
            stands_until: Time::ZERO,
            since: Block::default(),
            since_blocks: 0,
            score: None,
        }
    }

    /// The same, begun at this moment.
    #[must_use]
    pub fn since(mut self, now: Time) -> Model {
        self.observed.begin(now);
        self
    }

    /// Time has passed: to be told before anything that happens then. True if the model has changed.
    pub fn pass(&mut self, now: Time) -> bool {
        let Some(block) = self.observed.pass(now) else { return false };
        self.since.add(&block);
        self.since_blocks += 1;
        if now < self.stands_until || self.since.done() < fit::DONE_MIN {
            return false;
        }
        self.refit(now)
    }

    /// A job has arrived.
    pub fn arrived(&mut self) {
        self.observed.arrived();
    }

    /// A job has started.
    pub fn started(&mut self, now: Time, slot: Slot, class: u32) {
        let Slot { server, index } = slot;
        let known = self.observed.knows_speeds();
        let began = if known { self.observed.progress(server as usize) } else { f64::NAN };
        let held = &mut self.held[server as usize];
        if held.len() <= index as usize {
            held.resize(index as usize + 1, None);
        }
        held[index as usize] = Some(Held { since: now, class, began });
    }

    /// A job has given its slot back.
    pub fn departed(&mut self, now: Time, slot: Slot, work: Work) {
        let Slot { server, index } = slot;
        let held = self.held[server as usize].get_mut(index as usize).and_then(Option::take);
        if let (Some(held), Work::Done) = (held, work) {
            let hold = now.since(held.since).as_secs_f64();
            self.observed.done(server as usize, held.class, hold, held.began);
        }
    }

    /// So many jobs wait, and so many slots of a server are held: to be told after what happened.
    pub fn level(&mut self, server: usize, held: u32, waiting: u64) {
        self.observed.becomes(waiting, server, held);
    }

    /// Between which numbers of slots the best one lies: the fewest that keep 95 % of the throughput
    /// with `ceiling` slots. If nothing is known, or the model does not fit, `standing` is as good as
    /// any other; it stays within the band as well where too few slots were held to take some away.
    pub fn band(&self, floor: u32, standing: u32, ceiling: u32) -> Band {
        let fewest = |curve: &Curve| curve.fewest(KEEP, ceiling);
        let Some(fit) = self.fit.as_ref().filter(|fit| fits(fit)) else {
            return Band { least: floor, best: standing.clamp(floor, ceiling), most: ceiling };
        };
        let (least, most) = fit.range(|curve| f64::from(fewest(curve)));
        let most = if fit.has_knee { most * WIDER } else { f64::from(ceiling) };
        let within = |slots: f64| (slots as u32).clamp(floor, ceiling);
        let [least, most] = [within((least / WIDER).floor()), within(most.ceil())];
        let enough = SEEN_MIN[0].max(SEEN_MIN[1] * f64::from(most)).min(f64::from(standing));
        if standing > most && fit.levels[1] < RANGE * enough {
            let best = within(f64::from(standing));
            return Band { least, best, most: best.max(most) };
        }
        Band { least, best: fewest(&fit.best).clamp(least, most), most }
    }

    fn refit(&mut self, now: Time) -> bool {
        let (since, blocks) = (std::mem::take(&mut self.since), self.since_blocks);
        self.since_blocks = 0;
        self.stands_until = now + REFIT;
        if let Some(fit) = &self.fit {
            self.score = score(fit, &since);
        }
        if has_changed(self.observed.blocks(), &since, blocks) {
            self.observed.forget_but(blocks);
            self.fit = None;
        }
        let Some(fit) = fit::fit(self.observed.blocks()) else { return self.fit.is_none() };
        let speed = |curve: &Curve, bin: usize| {
            let level = (1..).find(|level| bin_of(*level) == bin).expect("each bin has a level");
            let level = f64::from(level);
            curve.throughput(level) * curve.alone / level
        };
        self.observed.set_speeds((0..observed::BINS).map(|bin| speed(&fit.best, bin)).collect());
        self.fit = Some(fit);
        true
    }
}

fn fits(fit: &Fit) -> bool {
    fit.misfit.0.abs() <= MISFIT_MAX
}

/// Prediction by a fit of the throughput at the levels that came, and what it was.
fn score(fit: &Fit, since: &Block) -> Option<Score> {
    let points = fit::points(since);
    let time: f64 = points.iter().map(|at| at.time).sum();
    let done: f64 = points.iter().map(|at| at.done).sum();
    let said = |curve: &Curve| {
        points.iter().map(|at| at.time * curve.throughput(at.level)).sum::<f64>() / time
    };
    let score = || Score {
        predicted: said(&fit.best),
        between: fit.range(said),
        happened: done / time,
        span: since.span,
    };
    (time > 0.0).then(score)
}

/// True if the last blocks differ from those before, at levels that both were at.
fn has_changed(blocks: &[Block], since: &Block, last: usize) -> bool {
    let mut before = Block::default();
    blocks[..blocks.len().saturating_sub(last)].iter().for_each(|block| before.add(block));
    let (mut expected, mut done) = (0.0, 0.0);
    for (old, new) in before.cells.iter().zip(&since.cells) {
        if old.done >= fit::DONE_MIN / 2.0 {
            expected += new.time * old.done / old.time;
            done += new.done;
        }
    }
    // More than chance can do with so few: three standard deviations of a count.
    let share: f64 = if expected > 0.0 { done / expected - 1.0 } else { 0.0 };
    expected >= fit::DONE_MIN / 2.0 && share.abs() > CHANGE.max(3.0 / expected.sqrt())
}
