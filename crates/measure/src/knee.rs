//! The knee: the highest open load at which a limit on the response time still holds.
//!
//! [`Search`] says at which rate to try next, a pure function of what was told. It knows nothing of the
//! load: [`find`] makes each probe through a closure, so that any system can be searched.
//! [`verdict`](crate::limit::verdict) says from a record whether the limit held.
//!
//! ```
//! use measure::knee::{Knee, KneeSpec, Outcome, find};
//!
//! // An M/M/1 queue with mu = 100/s: p99 of the sojourn is ln(100) / (mu - lambda).
//! let holds = |rate: f64| rate < 100.0 && 100.0_f64.ln() / (100.0 - rate) < 0.5;
//! let spec = KneeSpec { width: 0.05, ..KneeSpec::for_limit(0.99, 0.5) };
//! let found = find(&spec, |probe| {
//!     Ok::<_, ()>(if holds(probe.rate) { Outcome::Holds } else { Outcome::Fails })
//! });
//! let Knee::Between { low, high } = found.unwrap().knee else { panic!("it has a knee") };
//! assert!(low < 90.79 && 90.79 < high && high <= 1.05 * low);
//! ```

/// Parameters of the search for a knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeSpec {
    /// The rate to begin with [1/s].
    pub rate_first: f64,
    /// No lower rate is tried [1/s].
    pub rate_min: f64,
    /// No higher rate is tried [1/s].
    pub rate_max: f64,
    /// The search ends when the upper end of the interval is at most this share above the lower.
    pub width: f64,
    /// It ends with what it has after so many probes.
    pub probes_max: u32,
    /// Requests that a probe is to see at least.
    pub requests: f64,
    /// The shortest length of a probe \[s\], however many requests it sees.
    pub length_min_s: f64,
    /// It ends with what it has after this long, warm-ups included \[s\]; infinite if it need not.
    pub budget_s: f64,
}

impl KneeSpec {
    /// Usual search for a limit on a quantile of the response time \[s\], without a budget: from 20/s, between 0.1/s
    /// and 1e6/s, to an interval of 10 %.
    ///
    /// A probe sees ten requests that may be late, and a hundred at least. It lasts 20 times the limit: a load that is
    /// a tenth too much makes requests late after ten of them.
    ///
    /// # Panics
    /// If the quantile is not between 0 and 1.
    pub fn for_limit(quantile: f64, response_s: f64) -> KneeSpec {
        assert!(0.0 < quantile && quantile < 1.0, "a quantile of {quantile}");
        KneeSpec {
            rate_first: 20.0,
            rate_min: 0.1,
            rate_max: 1e6,
            width: 0.1,
            probes_max: 60,
            requests: requests(quantile),
            length_min_s: (20.0 * response_s).max(1.0),
            budget_s: f64::INFINITY,
        }
    }

    /// Length of a probe \[s\], warm-up not counted.
    pub fn length_s(&self, probe: Probe) -> f64 {
        f64::from(probe.effort) * (self.requests / probe.rate).max(self.length_min_s)
    }

    /// Likely length of the whole search for a knee at about this rate \[s\], warm-ups included.
    pub fn search_s(&self, rate: f64) -> f64 {
        LIKELY * WITH_WARMUP * self.length_s(Probe { rate, effort: 1 })
    }

    /// The farthest of the usual quantiles that the budget can tell at a knee at about this rate, by the number of
    /// requests alone; none if it tells not even p50.
    pub fn quantile_within(&self, rate: f64) -> Option<f64> {
        let enough =
            |q: &f64| KneeSpec { requests: requests(*q), ..*self }.search_s(rate) <= self.budget_s;
        [0.999, 0.99, 0.95, 0.9, 0.5].into_iter().find(enough)
    }
}

/// Requests of a probe: ten of them may be late, and a hundred at least.
fn requests(quantile: f64) -> f64 {
    (10.0 / (1.0 - quantile)).max(100.0).round()
}

/// Length of a probe with its warm-up, as a multiple of the length without.
pub const WITH_WARMUP: f64 = 1.25;
/// A search takes about as long as so many probes at the knee.
const LIKELY: f64 = 16.0;

/// A rate to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Arrivals per second [1/s].
    pub rate: f64,
    /// Length as a multiple of a usual probe's: a rate that could not be decided is tried again
    /// with more effort.
    pub effort: u32,
}

/// Outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The limit holds, and the whole interval of what was measured is within it.
    Holds,
    /// It does not, and the whole interval is beyond it.
    Fails,
    /// The interval straddles the limit.
    Straddles,
    /// Nothing speaks against the limit, but so few requests were seen that a share as small as it
    /// allows cannot be told from none.
    TooFew,
    /// The generator was the limit: the probe says nothing about the server.
    Invalid,
}

impl Outcome {
    /// True if a limit holds or fails.
    pub fn is_decided(self) -> bool {
        matches!(self, Outcome::Holds | Outcome::Fails)
    }
}

/// Place of the knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// The limit holds at `low` and does not at `high`, each seen twice.
    Between {
        /// The highest rate at which it was seen to hold [1/s].
        low: f64,
        /// The lowest rate at which it was seen to fail [1/s].
        high: f64,
    },
    /// It holds even at the highest rate that may be tried.
    Above {
        /// That rate [1/s].
        low: f64,
    },
    /// It fails even at the lowest rate that may be tried.
    Below {
        /// That rate [1/s].
        high: f64,
    },
    /// It could not be narrowed down far enough.
    Inconclusive {
        /// The highest rate at which it was seen to hold [1/s].
        low: Option<f64>,
        /// The lowest rate above that at which it was seen to fail [1/s].
        high: Option<f64>,
        /// Why.
        why: Why,
    },
}

/// Why a search was inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The probes were used up.
    Probes,
    /// The time was used up.
    Budget,
    /// Somebody stopped it.
    Stopped,
    /// Between the two ends no probe could be decided, or probes contradicted each other.
    Noise,
    /// At the rates that matter too few requests were seen, however long they were probed.
    Few,
    /// The generator could not make the load.
    Generator,
}

/// A search and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Place of the knee.
    pub knee: Knee,
    /// Probes that were made, in order.
    pub probes: Vec<(Probe, Outcome)>,
}

/// Next step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Try this, and [`tell`](Search::tell).
    Try(Probe),
    /// Nothing more.
    Finished(Knee),
}

/// A search for a knee: pure, told what came of each probe.
///
/// It doubles (or halves) the rate until the knee is enclosed, then halves the gap (geometrically).
/// A probe that straddles is repeated once with twice the effort; what straddles again is grey, and
/// so is a rate whose probes contradict each other. Then the gaps on both sides of the grey are
/// narrowed instead. Both ends are seen twice before they are believed. Where too few requests are seen
/// to tell, a higher rate shows more in the same time; below one that fails there is none, and there
/// it takes more effort.
#[derive(Clone, Debug)]
pub struct Search {
    spec: KneeSpec,
    told: Vec<(Probe, Outcome)>,
    spent_s: f64,
}

/// Verdict of all probes at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Colour {
    Holds {
        seen: u32,
    },
    Fails {
        seen: u32,
    },
    /// Told to straddle once: worth another try.
    Open {
        seen: u32,
    },
    /// So few requests so many times, and nothing else.
    Few {
        seen: u32,
    },
    Grey,
    Invalid,
}

/// The rates that matter: `low` holds, all of `grey` is undecided, `high` fails.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    low: Option<(f64, u32)>,
    grey: Option<(f64, f64)>,
    high: Option<(f64, u32)>,
}

/// Number of times that the outcome at an end must be seen.
const SEEN: u32 = 2;
/// So many times the generator may have been the limit at a rate before it is taken to be.
const BUSY: u32 = 3;
/// Effort is doubled so many times for the sake of more requests.
const DOUBLED: u32 = 4;
/// A knee whose grey makes its interval wider than this many times the wanted width is none.
const GREY_WIDTHS: f64 = 4.0;

impl Search {
    /// A search that knows nothing yet.
    pub fn new(spec: KneeSpec) -> Search {
        Search { spec, told: Vec::new(), spent_s: 0.0 }
    }

    /// Takes note of what came of a probe, and how long it took \[s\].
    pub fn tell(&mut self, probe: Probe, outcome: Outcome, took_s: f64) {
        self.told.push((probe, outcome));
        self.spent_s += took_s;
    }

    /// Takes note of time that was spent otherwise \[s\].
    pub fn spend(&mut self, took_s: f64) {
        self.spent_s += took_s;
    }

    /// Probes so far, with what came of them.
    pub fn probes(&self) -> &[(Probe, Outcome)] {
        &self.told
    }

    /// Length of a probe \[s\], warm-up not counted, within what is left of the budget.
    pub fn length_s(&self, probe: Probe) -> f64 {
        self.spec.length_s(probe).min(self.left_s() / WITH_WARMUP)
    }

    /// What is left of the budget \[s\].
    fn left_s(&self) -> f64 {
        (self.spec.budget_s - self.spent_s).max(0.0)
    }

    /// Knee as far as it is known now: for one who cannot go on.
    pub fn stop(&self, why: Why) -> Knee {
        let ends = self.ends();
        match (ends.low, ends.high) {
            (Some(low), Some(high)) if self.is_narrow(low, high) => {
                Knee::Between { low: low.0, high: high.0 }
            }
            (low, high) => Knee::Inconclusive {
                low: low.map(|end| end.0),
                high: high.map(|end| end.0),
                why: self.reason(why),
            },
        }
    }

    /// Where nothing but too few requests speaks against a rate, there is no contradiction.
    fn reason(&self, why: Why) -> Why {
        let speaks =
            |&(_, told): &(Probe, Outcome)| told == Outcome::Holds || told == Outcome::Straddles;
        let few = self.told.iter().any(|&(_, told)| told == Outcome::TooFew);
        let is_few = few && !self.told.iter().any(speaks);
        if is_few && matches!(why, Why::Noise | Why::Probes) { Why::Few } else { why }
    }

    /// True if both ends were seen often enough, and are as near to each other as a grey between them allows.
    fn is_narrow(&self, low: (f64, u32), high: (f64, u32)) -> bool {
        low.1.min(high.1) >= SEEN && high.0 <= low.0 * (1.0 + GREY_WIDTHS * self.spec.width)
    }

    /// Next step.
    pub fn next(&self) -> Step {
        let spec = &self.spec;
        let ends = self.ends();
        if self.rates().iter().any(|&(_, colour)| colour == Colour::Invalid) {
            return self.give_up(ends, Why::Generator);
        }
        let step = self.step(ends);
        match step {
            Step::Try(_) if self.told.len() as u32 >= spec.probes_max => {
                Step::Finished(self.stop(Why::Probes))
            }
            // A probe of half its length may still tell.
            Step::Try(probe) if self.length_s(probe) < 0.5 * spec.length_s(probe) => {
                Step::Finished(self.stop(Why::Budget))
            }
            step => step,
        }
    }

    fn step(&self, ends: Ends) -> Step {
        let spec = &self.spec;
        let at = |rate: f64| match self.colour(rate) {
            Colour::Few { seen } => Step::Try(Probe { rate, effort: 1 << seen }),
            _ => Step::Try(Probe { rate, effort: 1 }),
        };
        if self.told.is_empty() {
            return at(spec.rate_first.clamp(spec.rate_min, spec.rate_max));
        }
        if let Some(&(rate, Colour::Open { seen })) =
            self.rates().iter().find(|(_, colour)| matches!(colour, Colour::Open { .. }))
        {
            return Step::Try(Probe { rate, effort: 1 << seen.min(3) });
        }
        let lowest_bad = ends.grey.map(|grey| grey.0).or(ends.high.map(|high| high.0));
        let highest_good = ends.grey.map(|grey| grey.1).or(ends.low.map(|low| low.0));
        let few = self.few_below(lowest_bad.unwrap_or(f64::INFINITY));
        let (low, high) = match (ends.low, ends.high) {
            (None, _) => match (few, lowest_bad) {
                (Some(few), None) if few < spec.rate_max => {
                    return at((few * 2.0).min(spec.rate_max));
                }
                (Some(few), _) => return at(few),
                (None, Some(bad)) if bad > spec.rate_min => {
                    return at((bad / 2.0).max(spec.rate_min));
                }
                _ => return self.edge(ends),
            },
            (_, None) => match highest_good {
                Some(good) if good < spec.rate_max => return at((good * 2.0).min(spec.rate_max)),
                _ => return self.edge(ends),
            },
            (Some(low), Some(high)) => (low, high),
        };
        // A rough knee that was seen twice is more than a narrow one that was seen once.
        let is_late = self.spent_s > 0.5 * spec.budget_s;
        let unseen = [low, high].into_iter().find(|end| end.1 < SEEN);
        if is_late
            && high.0 <= low.0 * (1.0 + GREY_WIDTHS * spec.width)
            && let Some((rate, seen)) = unseen
        {
            return Step::Try(self.again(rate, seen));
        }
        // The gaps that hold no probe: one, or one on each side of the grey.
        let (below, above) = ends.grey.unwrap_or((high.0, high.0));
        let share = if ends.grey.is_some() { spec.width / 2.0 } else { spec.width };
        if below > low.0 * (1.0 + share) {
            return at((low.0 * below).sqrt());
        }
        if high.0 > above * (1.0 + share) {
            return at((above * high.0).sqrt());
        }
        match unseen {
            Some((rate, seen)) => Step::Try(self.again(rate, seen)),
            None if self.is_narrow(low, high) => {
                Step::Finished(Knee::Between { low: low.0, high: high.0 })
            }
            None => self.give_up(ends, Why::Noise),
        }
    }

    /// One side has no end within the rates that may be tried.
    fn edge(&self, ends: Ends) -> Step {
        let confirm =
            |(rate, seen): (f64, u32)| (seen < SEEN).then_some(Step::Try(self.again(rate, seen)));
        match (ends.low, ends.grey, ends.high) {
            (Some(low), None, None) => {
                confirm(low).unwrap_or(Step::Finished(Knee::Above { low: low.0 }))
            }
            (None, None, Some(high)) => {
                confirm(high).unwrap_or(Step::Finished(Knee::Below { high: high.0 }))
            }
            _ => self.give_up(ends, Why::Noise),
        }
    }

    /// The highest rate below this one at which too few requests were seen.
    fn few_below(&self, rate: f64) -> Option<f64> {
        let few = |&(at, colour): &(f64, Colour)| at < rate && matches!(colour, Colour::Few { .. });
        self.rates().into_iter().rev().find(few).map(|(at, _)| at)
    }

    /// The probe that sees an end once more, with as many requests as it took, or twice as many as last did not
    /// decide.
    fn again(&self, rate: f64, seen: u32) -> Probe {
        let of_rate = || self.told.iter().filter(|(at, _)| at.rate == rate);
        let few = of_rate().any(|(_, told)| *told == Outcome::TooFew);
        let most = of_rate().map(|(at, _)| at.effort).max().filter(|_| few).unwrap_or(seen);
        let undecided = of_rate().next_back().is_some_and(|(_, told)| *told == Outcome::TooFew);
        let effort = if undecided { most * 2 } else { most };
        Probe { rate, effort: effort.min(1 << DOUBLED) }
    }

    /// True if effort for the sake of more requests, doubled so many times, takes no more than a half of what is left
    /// of the budget.
    fn affords(&self, rate: f64, doubled: u32) -> bool {
        let effort = 1 << doubled.min(DOUBLED);
        WITH_WARMUP * self.spec.length_s(Probe { rate, effort }) <= 0.5 * self.left_s()
    }

    fn give_up(&self, ends: Ends, why: Why) -> Step {
        let why = self.reason(why);
        let (low, high) = (ends.low.map(|end| end.0), ends.high.map(|end| end.0));
        Step::Finished(Knee::Inconclusive { low, high, why })
    }

    /// Each rate that was tried, lowest first, with its colour.
    fn rates(&self) -> Vec<(f64, Colour)> {
        let mut rates: Vec<f64> = self.told.iter().map(|(probe, _)| probe.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates.into_iter().map(|rate| (rate, self.colour(rate))).collect()
    }

    fn colour(&self, rate: f64) -> Colour {
        let count = |wanted: Outcome| {
            let hit = |told: &&(Probe, Outcome)| told.0.rate == rate && told.1 == wanted;
            self.told.iter().filter(hit).count() as u32
        };
        let (holds, fails) = (count(Outcome::Holds), count(Outcome::Fails));
        let (straddles, invalid) = (count(Outcome::Straddles), count(Outcome::Invalid));
        let few = count(Outcome::TooFew);
        match (holds, fails) {
            // The machine may have been busy with something else for a while.
            (0, 0) if invalid > BUSY => Colour::Invalid,
            (0, 0) if straddles > 1 || straddles > 0 && few > 0 => Colour::Grey,
            (0, 0) if few > DOUBLED || few > 0 && !self.affords(rate, few) => Colour::Grey,
            (0, 0) if few > 0 => Colour::Few { seen: few },
            (0, 0) => Colour::Open { seen: straddles },
            (1.., 1..) => Colour::Grey,
            // A decision after a doubt, made with more effort, outweighs it; two doubts do not fall.
            _ if straddles > 1 || few > DOUBLED => Colour::Grey,
            (seen, 0) => Colour::Holds { seen },
            (0, seen) => Colour::Fails { seen },
        }
    }

    fn ends(&self) -> Ends {
        let rates = self.rates();
        let mut doubtful = rates.iter().filter(|(_, colour)| *colour == Colour::Grey);
        let first = doubtful.next().map(|&(rate, _)| rate);
        let last = doubtful.next_back().map(|&(rate, _)| rate).or(first);
        let grey = first.zip(last);
        let clear_of = |rate: f64| grey.is_none_or(|(from, to)| rate < from || rate > to);
        let mut ends = Ends { grey, ..Ends::default() };
        for &(rate, colour) in &rates {
            match colour {
                Colour::Holds { seen } if clear_of(rate) => ends.low = Some((rate, seen)),
                Colour::Fails { seen } if clear_of(rate) && ends.high.is_none() => {
                    ends.high = Some((rate, seen));
                }
                _ => {}
            }
        }
        // A rate that holds above the grey, with nothing that fails below it, proves the grey good;
        // and the other way round.
        if let (Some((low, _)), Some((_, to))) = (ends.low, grey)
            && low > to
        {
            ends.grey = None;
        }
        if let (Some((high, _)), Some((from, _))) = (ends.high, grey)
            && high < from
        {
            ends.grey = None;
        }
        ends
    }
}

/// Looks for a knee with whatever `probe` does; each takes as long as it was planned.
///
/// # Errors
/// If `probe` fails: that ends the search.
pub fn find<E>(
    spec: &KneeSpec,
    mut probe: impl FnMut(Probe) -> Result<Outcome, E>,
) -> Result<Found, E> {
    let mut search = Search::new(*spec);
    loop {
        match search.next() {
            Step::Finished(knee) => return Ok(Found { knee, probes: search.told }),
            Step::Try(next) => {
                let took_s = WITH_WARMUP * search.length_s(next);
                let outcome = probe(next)?;
                search.tell(next, outcome, took_s);
            }
        }
    }
}

#[cfg(test)]
#[path = "knee_tests.rs"]
mod tests;
