//! Effects of chance on what terminals by the rules ask for: shares that are drawn, shares that are
//! dealt from a deck, and the rate at which a deck is dealt.

use measure::SamplingDistribution;
use workload::tpcc::{Kind, rules};

use super::Finding;

/// Share of the runs of terminals by the rules that may be called wrong, whatever is asked of them.
pub(super) const WRONG_MOST: f64 = 0.05;

/// Probability below which a number that chance makes speaks against the terminals that made it.
///
/// A run is asked about many numbers that chance makes, and each has its own chance to be off: at one
/// of twenty each, every third run by the rules would be called wrong. So they share what is allowed
/// (Bonferroni), however they depend on each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level(f64);

impl Level {
    /// Of each of so many numbers that a run is asked about.
    pub(super) fn shared_by(numbers: u32) -> Level {
        Level(WRONG_MOST / f64::from(numbers.max(1)))
    }

    /// The finding on a rule, of numbers that terminals by the rules make worse with this
    /// probability: it takes about twice as many as `n` to tell where that is less than `doubt`.
    pub(super) fn finding(self, probability: f64, doubt: f64, n: u64) -> Finding {
        match probability {
            p if p < self.0 => Finding::Violated,
            p if p < doubt => Finding::TooFew { needs: 2 * n },
            _ => Finding::Met,
        }
    }

    /// The quantile of the normal distribution that leaves it outside on both sides.
    fn z_two(self) -> f64 {
        SamplingDistribution::deviations(self.0 / 2.0)
    }

    /// The same on one side.
    fn z_one(self) -> f64 {
        SamplingDistribution::deviations(self.0)
    }
}

/// Range that is allowed.
#[derive(Clone, Copy)]
pub(super) struct Band {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A number that chance makes, of terminals by the rules, and how many it takes to tell.
pub(super) struct Expected {
    chance: SamplingDistribution,
    level: Level,
    needs: u64,
}

impl Expected {
    /// A share of `n` draws, each with chance `p`, in a band around it.
    pub(super) fn drawn(n: u64, p: f64, band: Band, level: Level) -> Expected {
        let edge = (band.high - p).min(p - band.low);
        let needs = (level.z_two() / edge).powi(2) * p * (1.0 - p);
        Expected { chance: SamplingDistribution::of_share(n, p), level, needs: needs.ceil() as u64 }
    }

    /// The mean of `n` draws with this mean and variance, in a band around it.
    pub(super) fn mean(n: u64, (mean, variance): (f64, f64), band: Band, level: Level) -> Expected {
        let edge = (band.high - mean).min(mean - band.low);
        let deviation = (variance / n.max(1) as f64).sqrt();
        let needs = ((level.z_two() / edge).powi(2) * variance).ceil() as u64;
        Expected { chance: SamplingDistribution::normal(mean, deviation), level, needs }
    }

    /// The share of a kind in `n` transactions that so many terminals were dealt, of which a least
    /// share is asked. Whole decks have no variance: all there is comes from the two decks that the
    /// ends of the interval cut, at any card. Of `k` cards of a deck of `d` the variance is
    /// hypergeometric, `k p (1 - p) (d - k) / (d - 1)`; over all `k` from 0 to `d - 1` its mean is
    /// `p (1 - p) (d + 1) / 6`.
    pub(super) fn dealt(
        n: u64,
        kind: Kind,
        (terminals, least): (u32, f64),
        level: Level,
    ) -> Expected {
        let p = f64::from(kind.rules().cards) / cards();
        let deviation = (f64::from(terminals) * cut(p * (1.0 - p))).sqrt();
        let chance = SamplingDistribution::normal(p, deviation / n.max(1) as f64);
        let needs = (deviation * level.z_one() / (p - least)).ceil() as u64;
        Expected { chance, level, needs }
    }

    /// New-Orders a minute and warehouse of terminals whose answers take no time, measured for so
    /// long \[s\], and a band that they shall not leave upwards. Decks are dealt one after another, so that
    /// they are a renewal process: in `t` the number of decks of mean duration `m` and variance `v`
    /// has the variance `t v / m^3`. To that comes what the cuts of the first and of the last deck
    /// do to New-Orders, each of which is one for the time that it takes.
    pub(super) fn rate(warehouses: u32, seconds: f64, band: Band, level: Level) -> Expected {
        let (decks, edges) = variance_of_new_orders();
        let terminals = f64::from(rules::TERMINALS);
        let all = f64::from(warehouses) * terminals;
        let variance = |seconds: f64| all * (decks * seconds + edges);
        let minutes = |seconds: f64| f64::from(warehouses) * seconds / 60.0;
        let deviation = |seconds: f64| variance(seconds).sqrt() / minutes(seconds).max(1e-9);
        let mean = rate_nominal();
        // In warehouse-minutes, at this number of warehouses: the variance falls with the time.
        let mut enough = 60.0;
        while deviation(enough) * level.z_one() > band.high - mean && enough < 1e9 {
            enough *= 1.1;
        }
        Expected {
            chance: SamplingDistribution::normal(mean, deviation(seconds)),
            level,
            needs: minutes(enough).ceil() as u64,
        }
    }

    /// The finding on a rule: inside it is met. Outside it is violated, but where terminals by the
    /// rules would miss it too often with so few, and might well be as far off.
    pub(super) fn finding(&self, value: f64, band: Band) -> Finding {
        let Band { low, high } = band;
        if low <= value && value <= high {
            return Finding::Met;
        }
        let Level(level) = self.level;
        let few = self.chance.outside(low, high) > level;
        match few && self.chance.as_far_as(value) > level {
            true => Finding::TooFew { needs: self.needs },
            false => Finding::Violated,
        }
    }

    /// Without anything there is too few.
    pub(super) fn none(&self) -> Finding {
        Finding::TooFew { needs: self.needs }
    }
}

/// Cards of a deck.
fn cards() -> f64 {
    Kind::ALL.iter().map(|kind| f64::from(kind.rules().cards)).sum()
}

/// The variance that two cuts of a deck bring, of which each card has this one.
fn cut(variance: f64) -> f64 {
    2.0 * variance * (cards() + 1.0) / 6.0
}

/// A sum over the cards of a deck.
fn over_deck(of: impl Fn(Kind) -> f64) -> f64 {
    Kind::ALL.iter().map(|&kind| f64::from(kind.rules().cards) * of(kind)).sum()
}

/// The mean time that a terminal takes for a transaction whose answer takes none \[s\].
fn turn(kind: Kind) -> f64 {
    (kind.rules().keying + kind.rules().think_mean).as_secs_f64()
}

/// New-Orders a minute and warehouse, where answers take no time.
fn rate_nominal() -> f64 {
    let orders = f64::from(Kind::NewOrder.rules().cards);
    orders / over_deck(turn) * 60.0 * f64::from(rules::TERMINALS)
}

/// The variance of a terminal's New-Orders: a second, and of the ends of the interval.
fn variance_of_new_orders() -> (f64, f64) {
    let (orders, deck_s) = (f64::from(Kind::NewOrder.rules().cards), over_deck(turn));
    // Think times are exponential: the variance is the mean's square.
    let thinking = over_deck(|kind| kind.rules().think_mean.as_secs_f64().powi(2));
    let beyond = |kind: Kind| {
        let one = if kind == Kind::NewOrder { 1.0 } else { 0.0 };
        one - turn(kind) * orders / deck_s
    };
    let card = over_deck(|kind| beyond(kind).powi(2)) / cards();
    (orders.powi(2) * thinking / deck_s.powi(3), cut(card))
}

#[cfg(test)]
#[path = "chance_tests.rs"]
mod tests;
