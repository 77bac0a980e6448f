//! Curves that agree with what was seen.
//!
//! While n slots are held, jobs are done at the rate X(n), the throughput of what is behind with n
//! jobs in it (Chandy, Herzog and Woo 1975). So the numbers done at each level are counts of known
//! exposure, and the curve is found by the least deviance. What noise there is in excess of Poisson's,
//! between blocks of time or between the curve and the counts, widens the region (quasi-likelihood:
//! McCullagh and Nelder, Generalized Linear Models, 1989, ch. 9).

use super::curve::{Curve, relative};
use super::observed::{BINS, Block};

/// Numbers of servers that are tried.
const SERVERS: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];
/// A knee at so many times the most slots seen is none that can be seen.
const KNEE_MAX: f64 = 64.0;
/// Chi-square of one degree of freedom at 95 %.
const CHI_SQUARE: f64 = 3.841;
/// Fewer jobs say nothing.
pub(super) const DONE_MIN: f64 = 100.0;
/// Fewer blocks say nothing of the noise between them.
pub(super) const BLOCKS_MIN: usize = 5;
/// Jobs that a level needs, to be held against the curve.
const LEVEL_DONE_MIN: f64 = 5.0;
/// Steps in which a knee is looked for first, and halvings afterwards.
const STEPS: [u32; 2] = [24, 16];

/// Observation at one range of levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The mean level.
    pub(super) level: f64,
    /// Time \[s\].
    pub(super) time: f64,
    /// Jobs done.
    pub(super) done: f64,
}

impl Point {
    fn rate(&self) -> f64 {
        self.done / self.time
    }
}

/// A curve, those that cannot be told from it, and how well it agrees.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) best: Curve,
    /// Curves on the edge of the region of 95 % confidence, and some inside.
    pub(super) region: Vec<Curve>,
    /// True if a knee was seen: else the region has none where it ends.
    pub(super) has_knee: bool,
    /// The fewest and the most slots held of which enough was seen.
    pub(super) levels: [f64; 2],
    /// Jobs that it rests on.
    pub(super) done: f64,
    /// The largest deviation of a rate from the curve, as a share, beyond its own noise; and where.
    pub(super) misfit: (f64, f64),
}

impl Fit {
    /// Between what something lies that follows from the curve.
    pub(super) fn range(&self, of: impl Fn(&Curve) -> f64) -> (f64, f64) {
        let all = self.region.iter().chain([&self.best]).map(of);
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    }
}

/// The points of what was seen.
pub(super) fn points(total: &Block) -> Vec<Point> {
    let all: f64 = total.cells.iter().map(|cell| cell.time).sum();
    let cells = total.cells.iter().filter(|cell| cell.time > 0.0);
    let points =
        cells.map(|cell| Point { level: cell.held / cell.time, time: cell.time, done: cell.done });
    points.filter(|point| point.done >= LEVEL_DONE_MIN || point.time > 0.01 * all).collect()
}

/// Fits a curve. `None` if there is too little to go by.
pub(super) fn fit(blocks: &[Block]) -> Option<Fit> {
    let mut total = Block::default();
    blocks.iter().for_each(|block| total.add(block));
    let points = points(&total);
    let done: f64 = points.iter().map(|point| point.done).sum();
    if done < DONE_MIN || blocks.len() < BLOCKS_MIN {
        return None;
    }
    let seen = Seen { level_max: points.iter().fold(1.0, |most, at| at.level.max(most)), points };
    let most = (2.0 * seen.level_max).max(2.0);
    let servers = SERVERS.iter().copied().filter(|servers| f64::from(*servers) <= most);
    let found: Vec<Valley> = servers.map(|servers| seen.valley(servers)).collect();
    let least = found.iter().min_by(|a, b| a.deviance.total_cmp(&b.deviance))?;
    let freedom = seen.points.len().saturating_sub(3) as f64;
    let lack = if freedom >= 1.0 { least.deviance / freedom } else { 1.0 };
    let dispersion = lack.max(seen.between(blocks)).max(1.0);
    let limit = least.deviance + CHI_SQUARE * dispersion;
    let best = seen.curve(least.servers, least.knee);
    let mut region = Vec::new();
    let mut has_knee = true;
    for valley in found.iter().filter(|valley| valley.deviance <= limit) {
        has_knee &= seen.edges(valley, limit, &mut region);
    }
    let misfit = seen.misfit(&best, dispersion.min(seen.between(blocks).max(1.0)));
    let levels = seen.points.iter().map(|point| point.level);
    let lowest = levels.fold(f64::INFINITY, f64::min);
    Some(Fit { best, region, has_knee, levels: [lowest, seen.level_max], done, misfit })
}

/// The least deviance of one number of servers.
#[derive(Clone, Copy, Debug)]
struct Valley {
    servers: u32,
    knee: f64,
    deviance: f64,
}

struct Seen {
    points: Vec<Point>,
    level_max: f64,
}

impl Seen {
    /// 2 sum of C ln(C / E), where E are the counts expected at the best time alone; and that time.
    fn deviance(&self, servers: u32, knee: f64) -> (f64, f64) {
        let expected = self.points.iter().map(|at| at.time * relative(servers, knee, at.level));
        let expected: Vec<f64> = expected.collect();
        let done: f64 = self.points.iter().map(|at| at.done).sum();
        let alone = expected.iter().sum::<f64>() / done;
        let pairs = self.points.iter().zip(&expected).filter(|(at, _)| at.done > 0.0);
        let sum: f64 = pairs.map(|(at, e)| at.done * (at.done * alone / e).ln()).sum();
        (2.0 * sum, alone)
    }

    fn curve(&self, servers: u32, knee: f64) -> Curve {
        Curve { servers, knee, alone: self.deviance(servers, knee).1 }
    }

    /// The knees that are looked at, as logarithms.
    fn ends(&self, servers: u32) -> [f64; 2] {
        let least = f64::from(servers);
        [least.ln(), (KNEE_MAX * self.level_max).max(2.0 * least).ln()]
    }

    fn valley(&self, servers: u32) -> Valley {
        let [low, high] = self.ends(servers);
        let step = (high - low) / f64::from(STEPS[0]);
        let at = |ln_knee: f64| self.deviance(servers, ln_knee.exp()).0;
        let coarse = (0..=STEPS[0]).map(|k| low + f64::from(k) * step);
        let (start, _) = coarse
            .map(|ln_knee| (ln_knee, at(ln_knee)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are steps");
        // Golden section around the best step.
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        let (mut a, mut b) = ((start - step).max(low), (start + step).min(high));
        for _ in 0..STEPS[1] {
            let (left, right) = (b - golden * (b - a), a + golden * (b - a));
            if at(left) <= at(right) { b = right } else { a = left }
        }
        let tries = [start, f64::midpoint(a, b)].map(|ln_knee| (ln_knee.exp(), at(ln_knee)));
        let [first, second] = tries;
        let (knee, deviance) = if first.1 <= second.1 { first } else { second };
        Valley { servers, knee, deviance }
    }

    /// Curves of the region with this number of servers. Whether it ends within what can be seen.
    fn edges(&self, valley: &Valley, limit: f64, region: &mut Vec<Curve>) -> bool {
        let servers = valley.servers;
        let [low, high] = self.ends(servers);
        let best = valley.knee.ln();
        let edge = |end: f64| {
            if self.deviance(servers, end.exp()).0 <= limit {
                return end;
            }
            let (mut inside, mut outside) = (best, end);
            for _ in 0..STEPS[1] {
                let middle = f64::midpoint(inside, outside);
                let is_in = self.deviance(servers, middle.exp()).0 <= limit;
                *(if is_in { &mut inside } else { &mut outside }) = middle;
            }
            inside
        };
        let (left, right) = (edge(low), edge(high));
        let done: f64 = self.points.iter().map(|at| at.done).sum();
        let middles = [f64::midpoint(left, best), f64::midpoint(best, right)];
        for ln_knee in [left, middles[0], best, middles[1], right] {
            let knee = ln_knee.exp();
            let (deviance, alone) = self.deviance(servers, knee);
            // The deviance grows with the square of the logarithm of the time alone.
            let width = ((limit - deviance).max(0.0) / done).sqrt();
            for alone in [alone * (-width).exp(), alone * width.exp()] {
                region.push(Curve { servers, knee, alone });
            }
        }
        right < high
    }

    /// Noise between blocks, as a multiple of Poisson's.
    fn between(&self, blocks: &[Block]) -> f64 {
        let mut total = Block::default();
        blocks.iter().for_each(|block| total.add(block));
        let (mut sum, mut freedom) = (0.0, 0.0);
        for bin in 0..total.cells.len().min(BINS) {
            let all = total.cells[bin];
            let cells = blocks.iter().filter_map(|block| block.cells.get(bin));
            let rate = all.done / all.time;
            let cells: Vec<_> = cells.filter(|cell| cell.time * rate >= 1.0).collect();
            for cell in &cells {
                let expected = cell.time * rate;
                sum += (cell.done - expected).powi(2) / expected;
            }
            freedom += cells.len().saturating_sub(1) as f64;
        }
        if freedom >= 1.0 { sum / freedom } else { 1.0 }
    }

    /// The largest deviation from a curve that is no noise, and at which level.
    fn misfit(&self, curve: &Curve, dispersion: f64) -> (f64, f64) {
        let done: f64 = self.points.iter().map(|at| at.done).sum();
        let mut worst = (0.0, self.level_max);
        for at in self.points.iter().filter(|at| at.done >= 0.01 * done) {
            let off = at.rate() / curve.throughput(at.level) - 1.0;
            let noise = 2.0 * (dispersion / at.done).sqrt();
            if off.abs() - noise > f64::abs(worst.0) {
                worst = (off.signum() * (off.abs() - noise), at.level);
            }
        }
        worst
    }
}
