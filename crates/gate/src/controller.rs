//! Controller of the number of slots that starts from what a model says, and moves only inside the
//! band that the model gives, by trials against the number that stands.
//!
//! Limiters that go by latency take their baseline under the very load that they control, and drift with
//! it. This one has no baseline. While jobs wait, it serves with another number of slots for a window,
//! with the old one for the next, by turns (A B B A ...), and compares what got done. So whatever
//! else changes, slowly, changes both: a service that becomes slower, a latency that creeps up, a machine
//! that is shared. Without a queue nothing can be learned about slots, and nothing is done.
//!
//! What is judged is the elasticity of the throughput X in the slots r,
//!
//! ```text
//!           (X' - X) / (X' + X)
//!     eta = -------------------
//!           (r' - r) / (r' + r)
//! ```
//!
//! by Student's t over the pairs of windows. More slots are worth it above an elasticity of
//! [`WORTH`], fewer are enough below. For X(r) = r / (r + a), the throughput of a balanced closed network,
//! the elasticity is the share that is missing to the most: so 0.05 is where r keeps 95 % of it (Schroeder,
//! Harchol-Balter, Iyengar, Nahum, Wierman: How to determine a good multi-programming level for external
//! scheduling, ICDE 2006, asks for the fewest slots that do).
//!
//! Like a gate it is a pure decision: it is told what its gate was told, and answers with a
//! [`Move`]. Whoever drives it tells the gate of that as [`Event::Resize`], so a recording of the gate
//! replays without it.

use std::fmt;
use std::time::Duration;

use crate::{Event, Gate, Time};

/// The elasticity from which on more slots are worth it.
pub const WORTH: f64 = 0.05;
/// Numbers of pairs of windows at which a trial is judged.
const LOOKS: [u32; 5] = [4, 8, 16, 32, 64];
/// Student's t for each, at a level of 0.05 in all five looks together (Bonferroni): 3, 7, 15, 31 and
/// 63 degrees of freedom.
const STUDENT: [f64; 5] = [5.841, 3.499, 2.947, 2.744, 2.656];
/// Numbers of slots tried beside r: 3/5 r or 5/3 r. A smaller step would tell less in the same
/// time.
const STEP: [u32; 2] = [3, 5];
/// A window with fewer departures says nothing.
const DONE_MIN: u64 = 10;
/// The share of a window in which somebody must have waited, in percent.
const WAITED_MIN: u128 = 90;
/// Least length of a window in holds, so that what is under way at its ends counts little.
const HOLDS_MIN: u32 = 10;
/// Holds that a change needs before it is measured.
const HOLDS_SETTLE: u32 = 2;
/// The longest window, in windows as specified.
const WINDOW_MAX: u32 = 64;
/// Windows of rest after nothing was found better, at first and at most.
const REST: [u32; 2] = [32, 128];

/// The parameters of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlSpec {
    /// The server whose slots are controlled.
    pub server: u32,
    /// It never has fewer slots; at least 1.
    pub floor: u32,
    /// It never has more.
    pub ceiling: u32,
    /// Band that the model gives at first.
    pub band: Band,
    /// Length of a window, if jobs are not long: at least ten holds.
    pub window: Duration,
    /// Choice of making the moves or only telling them.
    pub conduct: Conduct,
}

/// Range of slots that a model gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Band {
    /// The fewest that may be best.
    pub least: u32,
    /// The best ones, as far as it knows.
    pub best: u32,
    /// The most that may be best.
    pub most: u32,
}

/// Effect of a controller's decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Conduct {
    /// Its moves are made.
    #[default]
    Acts,
    /// They are told and not made. It follows the model alone then: a trial needs deeds.
    Shadows,
}

/// Why a specification describes no controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// Floor and ceiling are not 1 <= floor <= ceiling.
    Limits,
    /// The band is not least <= best <= most.
    Band,
    /// A window is 0, or longer than an hour.
    Window,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ControlError::Limits => "slots need a floor of at least 1 and a ceiling not below it",
            ControlError::Band => "a band needs its least, best and most slots in this order",
            ControlError::Window => "a window is above 0 and at most an hour",
        })
    }
}

impl std::error::Error for ControlError {}

impl ControlSpec {
    /// # Errors
    /// If this describes no controller.
    pub fn check(&self) -> Result<(), ControlError> {
        let Band { least, best, most } = self.band;
        if self.floor == 0 || self.floor > self.ceiling {
            return Err(ControlError::Limits);
        }
        if least > best || best > most {
            return Err(ControlError::Band);
        }
        if self.window.is_zero() || self.window > Duration::from_secs(3600) {
            return Err(ControlError::Window);
        }
        Ok(())
    }
}

/// A number of slots from now on, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The slots, which may be as many as before.
    pub slots: u32,
    /// Why.
    pub why: Why,
}

/// Why the slots become as many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The model says so: its best, within floor and ceiling.
    Model(Band),
    /// For a window, to compare: a number that was not tried beside the one that stands.
    Tries {
        /// Slots that stand.
        standing: u32,
    },
    /// Back to the number that stands, to compare.
    Compares,
    /// Back to the number that stands: nobody waits any more, or nothing is done, so nothing can be
    /// compared.
    Calm,
    /// Back to the number that stands: the model says something else, and what was tried is outside
    /// of that.
    Outside(Band),
    /// More slots than stood do surely more.
    More(Finding),
    /// Fewer slots than stood do as much.
    Fewer(Finding),
    /// The number that stood stays: another does no better, or that could not be told.
    Stays(Finding),
}

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// Slots that stood.
    pub from: u32,
    /// Slots that were tried.
    pub to: u32,
    /// In which the elasticity lies, with 95 % confidence.
    pub elasticity: [f64; 2],
    /// Of how many pairs of windows.
    pub pairs: u32,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Model(Band { least, best, most }) => {
                write!(f, "the model says {best}, {least} to {most}")
            }
            Why::Tries { standing } => write!(f, "tried for a window, beside {standing}"),
            Why::Compares => f.write_str("back for a window, to compare"),
            Why::Calm => {
                f.write_str("back: nobody waits or nothing is done, so nothing can be compared")
            }
            Why::Outside(Band { least, best, most }) => {
                write!(f, "back: the model says {best}, {least} to {most}, not what was tried")
            }
            Why::More(found) => write!(f, "{found}: more slots do more"),
            Why::Fewer(found) => write!(f, "{found}: fewer slots do as much"),
            Why::Stays(found) => write!(f, "{found}: no reason to change"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { from, to, elasticity: [low, high], pairs } = self;
        write!(f, "{from} or {to} slots: elasticity {low:+.3} to {high:+.3}, {pairs} pairs")
    }
}

/// Decides how many slots one server of a gate has.
#[derive(Clone, Debug)]
pub struct Controller {
    spec: ControlSpec,
    band: Band,
    /// The number that stands.
    standing: u32,
    /// The number now.
    slots: u32,
    window: Window,
    trial: Option<Trial>,
    /// The trial that comes next.
    direction: Direction,
    /// Directions that were tried since the number that stands last changed.
    exhausted: u32,
    /// Windows until the next trial, and how many there were after the last.
    rest: u32,
    rested: u32,
    /// The next departure is of a job that failed.
    spoiled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// A stretch of time in which departures are counted, behind one in which a change settles.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Time,
    until: Time,
    /// Departures of jobs that did not fail.
    done: u64,
    /// Since when nobody has waited, and how long that was in all.
    calm_since: Option<Time>,
    calm: Duration,
    /// The mean hold, from the last window that told of it.
    hold: Duration,
}

/// One number of slots against the one that stands.
#[derive(Clone, Copy, Debug)]
struct Trial {
    to: u32,
    /// Windows so far; in the order of A B B A.
    windows: u32,
    /// The throughput of the first window of a pair [1/s].
    first: f64,
    pairs: u32,
    sum: f64,
    squares: f64,
}

impl Trial {
    fn new(to: u32) -> Trial {
        Trial { to, windows: 0, first: 0.0, pairs: 0, sum: 0.0, squares: 0.0 }
    }

    /// True if the window to come is of the other number: the second and the third of four.
    fn tries(&self) -> bool {
        matches!(self.windows % 4, 1 | 2)
    }

    /// A window of it has ended with this throughput [1/s].
    fn add(&mut self, throughput: f64) {
        let second = !self.windows.is_multiple_of(2);
        // Of the first pair the second window is the other number's, of the next pair the first.
        let [standing, other] = match self.tries() {
            true => [self.first, throughput],
            false => [throughput, self.first],
        };
        self.windows += 1;
        if !second {
            self.first = throughput;
            return;
        }
        let difference = (other - standing) / (other + standing);
        self.pairs += 1;
        self.sum += difference;
        self.squares += difference * difference;
    }

    /// The interval of the elasticity, if it is time for a look.
    fn look(&self, standing: u32) -> Option<Finding> {
        let student = STUDENT[LOOKS.iter().position(|&look| look == self.pairs)?];
        let n = f64::from(self.pairs);
        let mean = self.sum / n;
        let variance = ((self.squares - n * mean * mean) / (n - 1.0)).max(0.0);
        let half = student * (variance / n).sqrt();
        let [from, to] = [standing, self.to].map(f64::from);
        let slots = (to - from) / (to + from);
        let ends = [(mean - half) / slots, (mean + half) / slots];
        let elasticity = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        Some(Finding { from: standing, to: self.to, elasticity, pairs: self.pairs })
    }
}

impl Controller {
    /// A controller of a gate whose server begins with [`slots`](Controller::slots).
    ///
    /// # Errors
    /// If the specification describes none.
    pub fn new(spec: &ControlSpec) -> Result<Controller, ControlError> {
        spec.check()?;
        let mut controller = Controller {
            spec: *spec,
            band: spec.band,
            standing: 0,
            slots: 0,
            window: Window::default(),
            trial: None,
            direction: Direction::Down,
            exhausted: 0,
            rest: 0,
            rested: REST[0],
            spoiled: false,
        };
        controller.standing = controller.clamp(spec.band.best);
        controller.slots = controller.standing;
        controller.open(Time::ZERO);
        Ok(controller)
    }

    /// The server whose slots it controls.
    pub fn server(&self) -> u32 {
        self.spec.server
    }

    /// As many slots as there are now, or would be if it acted.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots that stand, but for a window of a trial.
    pub fn standing(&self) -> u32 {
        self.standing
    }

    /// Band that the model gives.
    pub fn band(&self) -> Band {
        self.band
    }

    /// Choice of making the moves or only telling them.
    pub fn conduct(&self) -> Conduct {
        self.spec.conduct
    }

    /// The model says something else. Its best stands from now on if what stood is outside of the new
    /// band, or if this only shadows; else what trials have found stays. A trial of a number that is
    /// outside ends.
    ///
    /// # Errors
    /// If it is no band; nothing has changed.
    pub fn set_band(&mut self, now: Time, band: Band) -> Result<Option<Move>, ControlError> {
        ControlSpec { band, ..self.spec }.check()?;
        self.band = band;
        let inside = self.least()..=self.most();
        if inside.contains(&self.standing) && self.spec.conduct == Conduct::Acts {
            if self.trial.is_none_or(|trial| inside.contains(&trial.to)) {
                return Ok(None);
            }
            // Else it could come to stand. The next one is of a number inside.
            self.trial = None;
            let tries = self.slots != self.standing;
            return Ok(tries.then(|| self.go(now, self.standing, Why::Outside(band))));
        }
        let best = self.clamp(band.best);
        if best == self.standing {
            return Ok(None);
        }
        self.stand(best);
        self.trial = None;
        Ok(Some(self.go(now, best, Why::Model(band))))
    }

    /// The job that departs next has failed: a time-out, an error. It counts for nothing.
    pub fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Move after an event that its gate was told, given the gate as it is now. Ask after each
    /// event but a resize that was this controller's own.
    pub fn after(&mut self, now: Time, event: &Event, gate: &Gate) -> Option<Move> {
        let over = self.window.until <= now;
        let busy = gate.servers()[self.spec.server as usize].busy;
        let ended = over.then(|| self.window.close(now, busy));
        let window = &mut self.window;
        match (gate.waiting_for(self.spec.server), window.calm_since) {
            (0, None) => window.calm_since = Some(now.max(window.began)),
            (0, Some(_)) | (_, None) => {}
            (_, Some(since)) => {
                window.calm += now.since(since);
                window.calm_since = None;
            }
        }
        if let Event::Depart(slot) = event
            && slot.server == self.spec.server
        {
            let failed = std::mem::take(&mut self.spoiled);
            window.done += u64::from(!failed && now > window.began);
        }
        let throughput = ended?;
        match self.spec.conduct {
            Conduct::Shadows => {
                self.open(now);
                None
            }
            Conduct::Acts => self.ended(now, throughput),
        }
    }

    fn least(&self) -> u32 {
        self.band.least.clamp(self.spec.floor, self.spec.ceiling)
    }

    fn most(&self) -> u32 {
        self.band.most.clamp(self.spec.floor, self.spec.ceiling)
    }

    fn clamp(&self, slots: u32) -> u32 {
        slots.clamp(self.least(), self.most())
    }

    fn open(&mut self, now: Time) {
        let hold = self.window.hold;
        let longest = self.spec.window * WINDOW_MAX;
        let span = self.spec.window.max(hold * HOLDS_MIN).min(longest);
        let settle = (span / 4).max(hold * HOLDS_SETTLE).min(longest);
        let calm_since = self.window.calm_since.map(|_| now + settle);
        let began = now + settle;
        self.window =
            Window { began, until: began + span, done: 0, calm_since, calm: Duration::ZERO, hold };
    }

    /// The slots become as many, and a window begins.
    fn go(&mut self, now: Time, slots: u32, why: Why) -> Move {
        self.slots = slots;
        self.open(now);
        Move { slots, why }
    }

    /// Another number stands.
    fn stand(&mut self, slots: u32) {
        self.standing = slots;
        self.exhausted = 0;
        self.rest = 0;
        self.rested = REST[0];
    }

    /// A window has ended, with this throughput if it tells anything.
    fn ended(&mut self, now: Time, throughput: Option<f64>) -> Option<Move> {
        let Some(throughput) = throughput else {
            self.trial = None;
            if self.slots == self.standing {
                self.open(now);
                return None;
            }
            return Some(self.go(now, self.standing, Why::Calm));
        };
        let Some(trial) = &mut self.trial else { return self.begin(now) };
        trial.add(throughput);
        if let Some(found) = trial.look(self.standing)
            && let Some(why) = self.judge(found)
        {
            self.trial = None;
            return Some(self.go(now, self.standing, why));
        }
        self.take_turn(now)
    }

    /// The next window of a trial.
    fn take_turn(&mut self, now: Time) -> Option<Move> {
        let trial = self.trial.as_ref()?;
        let (slots, why) = match trial.tries() {
            true => (trial.to, Why::Tries { standing: self.standing }),
            false => (self.standing, Why::Compares),
        };
        if slots == self.slots {
            self.open(now);
            return None;
        }
        Some(self.go(now, slots, why))
    }

    /// Begins a trial if it is time for one.
    fn begin(&mut self, now: Time) -> Option<Move> {
        if self.rest > 0 {
            self.rest -= 1;
            self.open(now);
            return None;
        }
        for _ in 0..2 {
            let to = match self.direction {
                Direction::Up => self.clamp(stretched(self.standing, STEP[1], STEP[0])),
                Direction::Down => self.clamp(stretched(self.standing, STEP[0], STEP[1])),
            };
            if to != self.standing {
                self.trial = Some(Trial::new(to));
                break;
            }
            self.turn();
        }
        // The window that has just ended was not begun as one of a trial; the first is the next.
        self.open(now);
        None
    }

    /// Result of a trial; none if it goes on.
    fn judge(&mut self, found: Finding) -> Option<Why> {
        let [low, high] = found.elasticity;
        let last = Some(&found.pairs) == LOOKS.last();
        match self.direction {
            Direction::Up if low > WORTH => {
                self.stand(found.to);
                Some(Why::More(found))
            }
            // What cannot be told in the end is decided for the fewer: a loss would be seen on the way up.
            Direction::Down if high < WORTH || last && low + high < 2.0 * WORTH => {
                self.stand(found.to);
                Some(Why::Fewer(found))
            }
            _ if low > WORTH || high < WORTH || last => {
                self.turn();
                Some(Why::Stays(found))
            }
            _ => None,
        }
    }

    /// Nothing is better this way. After both ways there is a rest, longer each time.
    fn turn(&mut self) {
        self.direction = match self.direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        self.exhausted += 1;
        if self.exhausted.is_multiple_of(2) {
            self.rest = self.rested;
            self.rested = (self.rested * 2).min(REST[1]);
        }
    }
}

/// `slots` times a fraction, and another number in any case.
fn stretched(slots: u32, times: u32, of: u32) -> u32 {
    let near = (u64::from(slots) * u64::from(times) / u64::from(of)).min(u32::MAX.into()) as u32;
    match times > of {
        true => near.max(slots.saturating_add(1)),
        false => near.min(slots.saturating_sub(1)),
    }
}

impl Window {
    /// The throughput [1/s]; none where nobody had to wait, too little was done, or the end was noticed
    /// too late.
    fn close(&mut self, now: Time, busy: u32) -> Option<f64> {
        let span = now.since(self.began);
        let calm = self.calm + self.calm_since.map_or(Duration::ZERO, |since| now.since(since));
        let waited = span.saturating_sub(calm).as_nanos() * 100 >= span.as_nanos() * WAITED_MIN;
        let late = now.since(self.until) > self.until.since(self.began);
        if self.done > 0 {
            // Little's law: the slots held, over what departs.
            self.hold = span * busy / u32::try_from(self.done).unwrap_or(u32::MAX);
        }
        (waited && !late && self.done >= DONE_MIN).then(|| self.done as f64 / span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::{Action, GateSpec, Job, JobId, Slot};

    fn spec(best: u32) -> ControlSpec {
        ControlSpec {
            server: 0,
            floor: 2,
            ceiling: 20,
            band: Band { least: 1, best, most: 40 },
            window: Duration::from_secs(1),
            conduct: Conduct::Acts,
        }
    }

    /// Finding of a trial of `to` beside 10 where `throughput` is done with so many slots in so
    /// many windows from the start.
    fn found(to: u32, throughput: impl Fn(u32, u32) -> f64) -> Finding {
        let mut trial = Trial::new(to);
        for window in 0..8 {
            let slots = if trial.tries() { to } else { 10 };
            trial.add(throughput(slots, window));
        }
        trial.look(10).expect("four pairs are a look")
    }

    #[test]
    fn the_elasticity_is_that_of_the_curve() {
        let exact = |a: f64, to: u32, from: u32| {
            let [x, y] = [f64::from(to), f64::from(from)].map(|r| r / (r + a));
            let [r, s] = [f64::from(to), f64::from(from)];
            ((x - y) / (x + y)) / ((r - s) / (r + s))
        };
        for to in [6, 16] {
            let linear = found(to, |slots, _| 3.0 * f64::from(slots)).elasticity;
            assert!(linear.iter().all(|eta| (eta - 1.0).abs() < 1e-9), "{linear:?}");
            let flat = found(to, |_, _| 300.0).elasticity;
            assert!(flat.iter().all(|eta| eta.abs() < 1e-9), "{flat:?}");
            let bent = found(to, |slots, _| f64::from(slots) / (f64::from(slots) + 2.0)).elasticity;
            assert!(bent.iter().all(|eta| (eta - exact(2.0, to, 10)).abs() < 1e-9), "{bent:?}");
        }
        // Where r keeps 95 % of the most, the elasticity is WORTH.
        let near = exact(1.0, 20, 18);
        assert!((near - WORTH).abs() < 2e-3, "{near}");
    }

    #[test]
    fn what_drifts_steadily_is_no_difference() {
        // A B B A: the drift of one pair undoes that of the next. 10 % slower in each window.
        let drifting = found(16, |_, window| 300.0 * 0.9_f64.powi(window as i32));
        let [low, high] = drifting.elasticity;
        assert!((low + high).abs() < 1e-9 && low < 0.0, "{drifting:?}");
    }

    #[test]
    fn a_band_is_followed_within_floor_and_ceiling() {
        let mut controller = Controller::new(&spec(30)).unwrap();
        assert_eq!((controller.slots(), controller.standing()), (20, 20), "the ceiling");
        let mut says = |least, best, most| {
            let band = Band { least, best, most };
            controller.set_band(Time::ZERO, band).map(|made| made.map(|made| made.slots))
        };
        assert_eq!(says(1, 1, 1), Ok(Some(2)), "the floor");
        assert_eq!(says(1, 8, 16), Ok(None), "inside: what was found stays");
        assert_eq!(says(4, 8, 16), Ok(Some(8)));
        assert_eq!(says(8, 4, 16), Err(ControlError::Band));
        assert_eq!(controller.band(), Band { least: 4, best: 8, most: 16 }, "nothing has changed");
        let mut shadow = Controller::new(&ControlSpec { conduct: Conduct::Shadows, ..spec(10) });
        let made =
            shadow.as_mut().unwrap().set_band(Time::ZERO, Band { least: 1, best: 8, most: 9 });
        assert_eq!(made.unwrap().map(|made| made.slots), Some(8), "it follows the model alone");
    }

    /// A controller with 20 slots that tries 12 beside them.
    fn trying() -> Controller {
        let band = Band { least: 1, best: 20, most: 100 };
        let mut controller =
            Controller::new(&ControlSpec { ceiling: 100, band, ..spec(20) }).unwrap();
        // The first window begins the trial, the second is the first of it.
        for (second, slots) in [(1, 20), (2, 12)] {
            controller.ended(seconds(second), Some(100.0));
            assert_eq!(controller.slots(), slots);
        }
        controller
    }

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// A trial that had begun before the model spoke went on outside of the new band, and what it tried
    /// could come to stand there.
    #[test]
    fn a_trial_outside_of_a_new_band_ends() {
        let says = |controller: &mut Controller, least, most| {
            let made = controller.set_band(seconds(3), Band { least, best: least, most }).unwrap();
            made.map(|made| made.slots)
        };
        let mut controller = trying();
        assert_eq!(says(&mut controller, 12, 60), None, "it is inside: nothing is disturbed");
        assert!(controller.trial.is_some());
        assert_eq!(says(&mut controller, 14, 60), Some(20), "back to what stands");
        for second in 4..100 {
            controller.ended(seconds(second), Some(100.0));
            assert!(controller.slots() >= 14, "{controller:?}");
        }
        assert_eq!(controller.standing(), 14, "fewer do as much, as far as the model lets it try");
        // In the windows of what stands there is nothing to go back from.
        let mut controller = trying();
        controller.ended(seconds(3), Some(100.0));
        controller.ended(seconds(4), Some(100.0));
        assert_eq!((controller.slots(), says(&mut controller, 14, 60)), (20, None));
        assert!(controller.trial.is_none());
    }

    #[test]
    fn what_stands_and_what_is_tried_is_always_inside_of_the_band() {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut draw = |from: u32, to: u32| from + chance.next_u32() % (to - from + 1);
        for _ in 0..200 {
            let mut controller = trying();
            // The service bends here, so that trials are decided either way.
            let bend = f64::from(draw(0, 60));
            for window in 4..400 {
                if draw(0, 9) == 0 {
                    let (least, span, more) = (draw(0, 110), draw(0, 20), draw(0, 40));
                    let band = Band { least, best: least + span, most: least + span + more };
                    controller.set_band(seconds(window), band).unwrap();
                }
                let slots = f64::from(controller.slots());
                let noise = f64::from(draw(95, 105));
                let throughput = noise * slots / (slots + bend);
                let told = (draw(0, 30) > 0).then_some(throughput);
                controller.ended(seconds(window), told);
                let inside = controller.least()..=controller.most();
                let tried = controller.trial.map_or(controller.standing, |trial| trial.to);
                for slots in [controller.standing, controller.slots, tried] {
                    assert!(inside.contains(&slots), "{slots} at {window}: {controller:?}");
                }
            }
        }
    }

    #[test]
    fn what_failed_counts_for_nothing() {
        // One job at a time for 10 ms each, always one waiting, all failed or none.
        let moves = |fails: bool| {
            let mut gate = Gate::new(&GateSpec::fifo(6)).unwrap();
            let mut controller = Controller::new(&spec(6)).unwrap();
            let (mut actions, mut held) = (Vec::new(), std::collections::VecDeque::<Slot>::new());
            let mut moves = Vec::new();
            for step in 0..3_000_u64 {
                let now = Time::from_nanos(step * 10_000_000);
                let mut events = vec![Event::Arrive(Job::new(JobId(step + 1)))];
                if step >= 40 {
                    events.extend(held.pop_front().map(Event::Depart));
                }
                for event in events {
                    if fails && matches!(event, Event::Depart(_)) {
                        controller.spoil();
                    }
                    gate.handle(now, event, &mut actions);
                    held.extend(actions.drain(..).filter_map(|action| match action {
                        Action::Start { slot, .. } => Some(slot),
                        Action::Refuse { .. } => None,
                    }));
                    moves.extend(controller.after(now, &event, &gate));
                }
            }
            moves
        };
        assert!(!moves(false).is_empty(), "something is tried");
        assert_eq!(moves(true), []);
    }

    #[test]
    fn other_numbers_are_other_numbers() {
        let of = |slots| (stretched(slots, STEP[0], STEP[1]), stretched(slots, STEP[1], STEP[0]));
        assert_eq!([1, 2, 3, 10, 64].map(of), [(0, 2), (1, 3), (1, 5), (6, 16), (38, 106)]);
    }
}
