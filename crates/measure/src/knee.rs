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

use serde::{Deserialize, Serialize};

/// Parameters of the search for a knee.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KneeSpec {
    /// The rate to begin with [1/s].
    pub rate_first: f64,
    /// No lower rate is tried [1/s].
    pub rate_min: f64,
    /// No higher rate is tried [1/s].
    pub rate_max: f64,
    /// The search ends when the upper end of the interval is at most this share above the lower. What it has when its
    /// budget or its probes are used up is an answer if it is at most ten times as wide.
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
        match probe.effort {
            0 => self.length_min_s,
            effort => f64::from(effort) * (self.requests / probe.rate).max(self.length_min_s),
        }
    }

    /// Likely time to an interval of a factor of two for a knee at about this rate \[s\], warm-ups included.
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
/// A search takes about as long as so many probes at the knee until it has an interval of a factor of two.
const LIKELY: f64 = 16.0;

/// A rate to try.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Probe {
    /// Arrivals per second [1/s].
    pub rate: f64,
    /// Length as a multiple of a usual probe's: a rate that could not be decided is tried again
    /// with more effort. With 0 it is the shortest, however few requests it sees: long enough for overload to show.
    pub effort: u32,
}

/// Outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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

impl Knee {
    /// The highest rate at which the limit holds and the lowest at which it fails, as far as they are known [1/s].
    pub fn ends(&self) -> (Option<f64>, Option<f64>) {
        match *self {
            Knee::Between { low, high } => (Some(low), Some(high)),
            Knee::Above { low } => (Some(low), None),
            Knee::Below { high } => (None, Some(high)),
            Knee::Inconclusive { low, high, .. } => (low, high),
        }
    }
}

/// Ends of a knee that probes have seen often enough: at them, or beyond them, since what holds at a rate holds at lower
/// ones. Verdicts rest on these; the ends of an undecided [`Knee`] may have been seen once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Believed {
    /// The highest rate at which the limit is believed to hold [1/s].
    pub low: Option<f64>,
    /// The lowest rate above that at which it is believed to fail [1/s].
    pub high: Option<f64>,
}

impl Believed {
    /// Those of a search with these parameters that has made these probes.
    pub fn of(spec: &KneeSpec, told: &[(Probe, Outcome)]) -> Believed {
        Search { spec: *spec, told: told.to_vec(), spent_s: 0.0 }.believed()
    }
}

/// Why a search was inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
/// It doubles the rate until a load fails. Overload is soon seen, so these probes are short, and a rate that they leave
/// undecided is passed. Then it halves the rate until a load holds. Then it narrows the gap, at first with probes of usual
/// length, then with ones four and sixteen times as long. A rate that stays undecided is passed on both sides, so that
/// both ends move towards it.
///
/// An end is believed when two probes say so, at it or beyond it. A rough knee that was seen twice is more than a narrow
/// one that was seen once: a part of the budget is kept for the second probe.
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
        seen: usize,
    },
    Fails {
        seen: usize,
    },
    /// Nothing is known after a probe of this length \[s\]; `few` if nothing speaks against the limit.
    Undecided {
        length_s: f64,
        few: bool,
    },
    Invalid {
        seen: usize,
    },
}

/// The rates that matter: `low` holds, `high` fails, and no rate between them is decided.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    low: Option<f64>,
    high: Option<f64>,
}

impl Colour {
    /// Length of a probe above which another one between two ends may tell something new \[s\].
    fn length_s(self) -> f64 {
        match self {
            Colour::Undecided { length_s, .. } => length_s,
            Colour::Holds { .. } | Colour::Fails { .. } | Colour::Invalid { .. } => f64::INFINITY,
        }
    }

    /// True of an end that was seen, but not often enough.
    fn is_once(self) -> bool {
        matches!(self, Colour::Holds { seen } | Colour::Fails { seen } if seen < SEEN)
    }

    /// True where nothing is known and nothing speaks against the limit.
    fn is_few(self) -> bool {
        matches!(self, Colour::Undecided { few: true, .. })
    }
}

/// Number of times that the outcome at an end must be seen.
const SEEN: usize = 2;
/// After this share of the budget the ends are seen again as soon as they are near enough for an answer.
const LATE: f64 = 0.3;
/// An end that was undecided so often since it was seen once is none.
const DOUBTS: usize = 2;
/// So many times as long as it takes to see both ends again is kept of the budget.
const RESERVE: f64 = 1.25;
/// So many times the generator may have been the limit at a rate before it is taken to be.
const BUSY: usize = 3;
/// Efforts at which a gap is narrowed, one after the other, and the width of the gaps that each leaves, as a multiple
/// of the wanted width.
const LEVELS: [(u32, f64); 3] = [(1, 2.0), (4, 1.0), (16, 0.25)];
/// Effort on the way down to a rate that holds.
const FIRST: u32 = 2;
/// The most effort at one rate.
const EFFORT_MAX: u32 = 16;
/// An interval that is wider than this many times the wanted width is no answer: a factor of two where a tenth is
/// wanted.
const WIDTHS: f64 = 10.0;

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
        if let Some((low, high)) = self.answer() {
            return Knee::Between { low, high };
        }
        let Ends { low, high } = self.ends();
        Knee::Inconclusive { low, high, why: self.reason(why) }
    }

    /// The nearest ends that were seen often enough, if they are as near to each other as an answer may be.
    fn answer(&self) -> Option<(f64, f64)> {
        let Believed { low, high } = self.believed();
        let (low, high) = (low?, high?);
        (high <= low * (1.0 + WIDTHS * self.spec.width)).then_some((low, high))
    }

    /// The nearest ends that were seen often enough. What holds at a rate holds at lower ones, so a probe beyond an end
    /// sees it too.
    pub fn believed(&self) -> Believed {
        let ends = self.ends();
        let low = ends.low.and_then(|low| {
            let holds = self.rates_of(Outcome::Holds).into_iter().rev();
            holds.skip_while(|rate| *rate > low).nth(SEEN - 1)
        });
        let high = ends.high.and_then(|high| {
            let fails = self.rates_of(Outcome::Fails).into_iter();
            fails.skip_while(|rate| *rate < high).nth(SEEN - 1)
        });
        Believed { low, high }
    }

    /// Where nothing but too few requests speaks against a rate, there is no contradiction.
    fn reason(&self, why: Why) -> Why {
        let speaks =
            |&(_, told): &(Probe, Outcome)| told == Outcome::Holds || told == Outcome::Straddles;
        let few = self.told.iter().any(|&(_, told)| told == Outcome::TooFew);
        let is_few = few && !self.told.iter().any(speaks);
        if is_few && matches!(why, Why::Noise | Why::Probes) { Why::Few } else { why }
    }

    /// Next step.
    pub fn next(&self) -> Step {
        let busy = |colour: Colour| matches!(colour, Colour::Invalid { seen } if seen > BUSY);
        let ceiling = self.rates().into_iter().find(|&(_, colour)| busy(colour));
        let step = match ceiling.map(|(rate, _)| self.below(rate)) {
            Some(Some(probe)) => Step::Try(probe),
            Some(None) => return Step::Finished(self.stop(Why::Generator)),
            None => self.step(),
        };
        match step {
            Step::Try(_) if self.told.len() as u32 >= self.spec.probes_max => {
                Step::Finished(self.stop(Why::Probes))
            }
            // A probe of half its length may still tell.
            Step::Try(probe) if self.length_s(probe) < 0.5 * self.spec.length_s(probe) => {
                Step::Finished(self.stop(Why::Budget))
            }
            step => step,
        }
    }

    /// The next probe where the generator is the limit at this rate: what holds below it is an answer too. None once it is
    /// believed.
    fn below(&self, ceiling: f64) -> Option<Probe> {
        match (self.ends(), self.believed().low) {
            (Ends { high: Some(_), .. }, _) | (_, Some(_)) => None,
            (Ends { low: Some(low), .. }, None) => self.once(low),
            (Ends { low: None, .. }, None) => self.downwards(ceiling),
        }
    }

    fn step(&self) -> Step {
        let spec = &self.spec;
        let rates = self.rates();
        let (Some(&(lowest, _)), Some(&(highest, _))) = (rates.first(), rates.last()) else {
            let rate = spec.rate_first.clamp(spec.rate_min, spec.rate_max);
            return Step::Try(Probe { rate, effort: 0 });
        };
        if let Some(&(rate, _)) = rates.iter().find(|at| matches!(at.1, Colour::Invalid { .. })) {
            return Step::Try(Probe { rate, effort: 1 });
        }
        if let Some(probe) = self.contradicted() {
            return Step::Try(probe);
        }
        match self.ends() {
            Ends { low: Some(low), high: Some(high) } => self.narrow(low, high),
            // Overload is soon seen, and what is undecided is passed.
            Ends { high: None, .. } if highest < spec.rate_max => {
                Step::Try(Probe { rate: (highest * 2.0).min(spec.rate_max), effort: 0 })
            }
            Ends { high: None, .. } => self.edge(highest),
            Ends { low: None, high: Some(high) } => match self.downwards(high) {
                Some(probe) => Step::Try(probe),
                None => self.edge(lowest),
            },
        }
    }

    /// The next probe on the way down from the lowest rate that fails: half of the lowest rate that was tried with as
    /// much effort, or more effort. Each further rate that saw too few requests allows twice as much at the highest of
    /// them: a lower rate does not help where all probes are too short.
    fn downwards(&self, high: f64) -> Option<Probe> {
        let rates = self.rates();
        let spec = &self.spec;
        let is_tried = |&&(rate, colour): &&(f64, Colour)| {
            rate < high && colour.length_s() >= 0.9 * spec.length_s(Probe { rate, effort: FIRST })
        };
        let Some(&(lowest, _)) = rates.iter().find(is_tried) else { return self.half(high) };
        let few: Vec<(f64, Colour)> =
            rates.iter().filter(is_tried).filter(|at| at.1.is_few()).copied().collect();
        let most = (FIRST << few.len().min(8)).min(EFFORT_MAX);
        let longer = few.iter().rev().find_map(|&(rate, colour)| {
            let efforts = std::iter::successors(Some(FIRST), |effort| Some(effort * 2));
            let mut probes =
                efforts.take_while(|effort| *effort <= most).map(|effort| Probe { rate, effort });
            probes.find(|probe| spec.length_s(*probe) > 1.1 * colour.length_s())
        });
        longer.or_else(|| self.half(lowest))
    }

    /// A probe at half of this rate, if that is not below all that may be tried.
    fn half(&self, rate: f64) -> Option<Probe> {
        let half = (rate / 2.0).max(self.spec.rate_min);
        (rate > self.spec.rate_min).then_some(Probe { rate: half, effort: FIRST })
    }

    /// One side has no end within the rates that may be tried: the last one is seen again, or with more effort.
    fn edge(&self, rate: f64) -> Step {
        match self.colour(rate) {
            colour if colour.is_once() => Step::Try(Probe { rate, effort: FIRST }),
            Colour::Holds { .. } => Step::Finished(Knee::Above { low: rate }),
            Colour::Fails { .. } => Step::Finished(Knee::Below { high: rate }),
            Colour::Undecided { length_s, .. } => {
                let longer = LEVELS.into_iter().map(|(effort, _)| Probe { rate, effort });
                let probe =
                    longer.into_iter().find(|probe| self.spec.length_s(*probe) > 1.1 * length_s);
                probe.map_or_else(|| Step::Finished(self.stop(Why::Noise)), Step::Try)
            }
            Colour::Invalid { .. } => Step::Finished(self.stop(Why::Noise)),
        }
    }

    /// A rate that fails below one that holds, or holds above one that fails, and was seen once: one bad moment does
    /// not make an end.
    fn contradicted(&self) -> Option<Probe> {
        let first = *self.rates_of(Outcome::Fails).first()?;
        let last = *self.rates_of(Outcome::Holds).last()?;
        let within = |rate: f64| first <= rate && rate <= last;
        let rates = self.rates();
        let doubtful = rates.iter().find(|&&(rate, colour)| within(rate) && colour.is_once())?;
        let probe = self.again(doubtful.0);
        (probe.effort <= EFFORT_MAX).then_some(probe)
    }

    /// Next step between two ends: the gap is narrowed as long as enough of the budget is left to see both ends again.
    fn narrow(&self, low: f64, high: f64) -> Step {
        let again = self.unseen(low, high);
        let inner = self.inner(low, high).filter(|probe| self.affords(*probe, low, high));
        let is_late = self.spent_s > LATE * self.spec.budget_s && self.answer().is_none();
        let is_near = high <= low * (1.0 + WIDTHS * self.spec.width);
        let first = if is_late && is_near { again.or(inner) } else { inner.or(again) };
        match first {
            Some(probe) => Step::Try(probe),
            None if self.inner(low, high).is_some() => Step::Finished(self.stop(Why::Budget)),
            None => Step::Finished(self.stop(Why::Noise)),
        }
    }

    /// The next probe between the ends, at the least effort that may tell something new.
    fn inner(&self, low: f64, high: f64) -> Option<Probe> {
        if high <= low * (1.0 + self.spec.width) {
            return None;
        }
        let rates = self.rates();
        let between: Vec<(f64, f64)> = rates
            .iter()
            .filter(|(rate, _)| low < *rate && *rate < high)
            .map(|(rate, colour)| (*rate, colour.length_s()))
            .collect();
        LEVELS.into_iter().find_map(|(effort, widths)| {
            let long = |&(rate, length_s): &(f64, f64)| {
                length_s >= 0.9 * self.spec.length_s(Probe { rate, effort })
            };
            let below = between.iter().find(|at| long(at)).map_or(high, |at| at.0);
            let above = between.iter().rev().find(|at| long(at)).map_or(low, |at| at.0);
            let gap = 1.0 + widths * self.spec.width;
            let short_above = between.iter().rev().find(|at| !long(at) && at.0 > above);
            let short_below = between.iter().find(|at| !long(at) && at.0 < below);
            let rate = match () {
                () if high > above * gap => short_above.map_or((above * high).sqrt(), |at| at.0),
                () if below > low * gap && effort > 1 => {
                    short_below.map_or((low * below).sqrt(), |at| at.0)
                }
                () => return None,
            };
            Some(Probe { rate, effort })
        })
    }

    /// The probe that sees an end once more, if one was not seen often enough: the shorter one first.
    fn unseen(&self, low: f64, high: f64) -> Option<Probe> {
        let probes = [high, low].into_iter().filter_map(|rate| self.once(rate));
        probes.min_by(|a, b| self.spec.length_s(*a).total_cmp(&self.spec.length_s(*b)))
    }

    /// The probe that sees a rate once more, if it was seen once.
    fn once(&self, rate: f64) -> Option<Probe> {
        let probe = self.again(rate);
        (self.colour(rate).is_once() && probe.effort <= EFFORT_MAX).then_some(probe)
    }

    /// Probes at a rate that were undecided after one that was decided.
    fn doubts(&self, rate: f64) -> usize {
        let of_rate = self.told.iter().filter(|(at, _)| at.rate == rate);
        of_rate
            .skip_while(|(_, told)| !told.is_decided())
            .filter(|(_, told)| !told.is_decided())
            .count()
    }

    /// The probe that sees an end once more: as much effort as it took, or twice as much as last did not decide.
    fn again(&self, rate: f64) -> Probe {
        let of_rate = || self.told.iter().filter(move |(at, _)| at.rate == rate);
        let decided = of_rate().filter(|(_, told)| told.is_decided());
        let least = decided.map(|(at, _)| at.effort).max().unwrap_or(1);
        let last = of_rate().next_back().filter(|(_, told)| !told.is_decided());
        Probe { rate, effort: last.map_or(least, |(at, _)| least.max(at.effort * 2)) }
    }

    /// True if a probe leaves enough of the budget to see both ends again.
    fn affords(&self, probe: Probe, low: f64, high: f64) -> bool {
        let again = [low, high].into_iter().filter_map(|rate| self.once(rate));
        let again_s: f64 = again.map(|probe| self.spec.length_s(probe)).sum();
        WITH_WARMUP * (self.spec.length_s(probe) + RESERVE * again_s) <= self.left_s()
    }

    /// Rates with this outcome and without the opposite one, lowest first, each as often as it was seen.
    fn rates_of(&self, outcome: Outcome) -> Vec<f64> {
        let rates = self.rates().into_iter();
        rates
            .flat_map(|(rate, colour)| {
                let seen = match (colour, outcome) {
                    (Colour::Holds { seen }, Outcome::Holds)
                    | (Colour::Fails { seen }, Outcome::Fails) => seen,
                    _ => 0,
                };
                std::iter::repeat_n(rate, seen)
            })
            .collect()
    }

    /// Each rate that was tried, lowest first, with its colour.
    fn rates(&self) -> Vec<(f64, Colour)> {
        let mut rates: Vec<f64> = self.told.iter().map(|(probe, _)| probe.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates.into_iter().map(|rate| (rate, self.colour(rate))).collect()
    }

    fn colour(&self, rate: f64) -> Colour {
        let of_rate = || self.told.iter().filter(move |(at, _)| at.rate == rate);
        let count = |wanted: Outcome| of_rate().filter(|(_, told)| *told == wanted).count();
        let (holds, fails) = (count(Outcome::Holds), count(Outcome::Fails));
        let (straddles, few) = (count(Outcome::Straddles), count(Outcome::TooFew));
        // A decision by chance, in a run that told nothing more since, is none.
        let is_chance = holds + fails < SEEN && self.doubts(rate) >= DOUBTS;
        match (holds, fails) {
            (0, 0) if straddles + few == 0 => Colour::Invalid { seen: count(Outcome::Invalid) },
            _ if is_chance || holds + fails == 0 => {
                let undecided = of_rate().filter(|(_, told)| *told != Outcome::Invalid);
                let length_s = undecided.map(|(at, _)| self.spec.length_s(*at)).fold(0.0, f64::max);
                Colour::Undecided { length_s, few: straddles == 0 }
            }
            // A rate whose probes contradict each other is not tried again.
            (1.., 1..) => Colour::Undecided { length_s: f64::INFINITY, few: false },
            (seen, 0) => Colour::Holds { seen },
            (0, seen) => Colour::Fails { seen },
        }
    }

    /// The highest rate that holds below all that fail, and the lowest that fails above all that hold.
    fn ends(&self) -> Ends {
        let (holds, fails) = (self.rates_of(Outcome::Holds), self.rates_of(Outcome::Fails));
        let first = fails.first().copied().unwrap_or(f64::INFINITY);
        let last = holds.last().copied().unwrap_or(0.0);
        Ends {
            low: holds.iter().rev().copied().find(|rate| *rate < first),
            high: fails.iter().copied().find(|rate| *rate > last),
        }
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
