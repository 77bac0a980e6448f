//! The life of an alert as an agent: when a value fires, when it may fire again, and what keeps it
//! quiet. Rules that users declare become such alerts; nothing here knows of files.

use std::fmt;
use std::time::Duration;

use gate::Time;

use crate::agent::{Agent, Bound, Context, Effect, Failure};
use crate::message::{Key, TimerName};

/// An alert as its owner declares it. Moments count from the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertSpec {
    /// The symbol whose values it watches.
    pub symbol: u32,
    /// The lowest and the highest value that are inside; not all values.
    pub inside: (i64, i64),
    /// The values that fire.
    pub on: On,
    /// The rule for firing again.
    pub rearm: Rearm,
    /// Span after a firing in which it is silent, above 0.
    pub cooldown: Option<Duration>,
    /// The moment from which on it is over.
    pub expires: Option<Time>,
    /// Times of the day at which it is silent.
    pub quiet: Option<Quiet>,
    /// Most firings of a day, at least 1.
    pub per_day_max: Option<u32>,
    /// Offset of the owner's time of day from UTC \[minutes\]: days and quiet times are counted in it.
    pub utc_offset: i32,
    /// The rule for a first value that is outside.
    pub at_creation: AtCreation,
}

/// Values that fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The first one outside; then none before the alert is armed again.
    Crossing,
    /// Each one outside.
    Level,
}

/// Rules by which an alert on crossings is armed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// A value inside by this much at least, 0 or above.
    Band(i64),
    /// This span after the firing, above 0, whether values are inside by then or not.
    After(Duration),
    /// Nothing but a new declaration, as in yamamoto's paper.
    Edit,
}

/// Rules for a first value that is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCreation {
    /// It fires.
    Fires,
    /// It does not; values must have been inside first.
    Waits,
}

/// A stretch of each day, from one minute up to before another, \[minutes since midnight\], 0 to 1439;
/// over midnight if the first is the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// The first minute.
    pub from: u32,
    /// The minute at which it ends.
    pub to: u32,
}

/// The cause why there can be no such alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertError {
    /// No value is inside, or no value is outside.
    Inside,
    /// The band is negative, or so wide that no value is inside by it.
    Band,
    /// A span of 0.
    Span,
    /// No firing a day.
    PerDay,
    /// A quiet time that is no stretch of a day.
    Quiet,
    /// An offset of a day or more.
    Offset,
}

impl fmt::Display for AlertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AlertError::Inside => "some values must be inside of the limits, and some outside",
            AlertError::Band => "the band is 0 or above, and a value is inside by it",
            AlertError::Span => "a cooldown and a time to be armed again are above 0",
            AlertError::PerDay => "a limit is at least 1 firing a day",
            AlertError::Quiet => "quiet times are two different minutes of a day, 0 to 1439",
            AlertError::Offset => "an offset from UTC is less than a day",
        })
    }
}

impl std::error::Error for AlertError {}

impl AlertSpec {
    /// An alert on crossings, armed again by a value inside, that fires at creation and is never quiet.
    pub fn new(symbol: u32, low: i64, high: i64) -> AlertSpec {
        AlertSpec {
            symbol,
            inside: (low, high),
            on: On::Crossing,
            rearm: Rearm::Band(0),
            cooldown: None,
            expires: None,
            quiet: None,
            per_day_max: None,
            utc_offset: 0,
            at_creation: AtCreation::Fires,
        }
    }

    /// Checks that there can be such an alert.
    ///
    /// # Errors
    /// The first of its parts that is out of its range.
    pub fn check(&self) -> Result<(), AlertError> {
        let (low, high) = self.inside;
        if low > high || (low, high) == (i64::MIN, i64::MAX) {
            return Err(AlertError::Inside);
        }
        match self.rearm {
            Rearm::Band(band) => {
                let (low, high) = self.band(band);
                if band < 0 || low > high {
                    return Err(AlertError::Band);
                }
            }
            Rearm::After(span) if span.is_zero() => return Err(AlertError::Span),
            Rearm::After(_) | Rearm::Edit => {}
        }
        if self.cooldown.is_some_and(|span| span.is_zero()) {
            return Err(AlertError::Span);
        }
        if self.per_day_max == Some(0) {
            return Err(AlertError::PerDay);
        }
        if self.quiet.is_some_and(|it| it.from == it.to || it.from.max(it.to) >= 1_440) {
            return Err(AlertError::Quiet);
        }
        if self.utc_offset.unsigned_abs() >= 1_440 {
            return Err(AlertError::Offset);
        }
        Ok(())
    }

    /// The values that are inside by a band. A side without a limit needs none.
    fn band(&self, band: i64) -> (i64, i64) {
        let (low, high) = self.inside;
        let low = if low == i64::MIN { low } else { low.saturating_add(band) };
        let high = if high == i64::MAX { high } else { high.saturating_sub(band) };
        (low, high)
    }

    /// The day and the minute of the day in the owner's time.
    fn day(&self, now: Time) -> (i64, u32) {
        let minutes = (now.as_nanos() / 60_000_000_000) as i64 + i64::from(self.utc_offset);
        (minutes.div_euclid(1_440), minutes.rem_euclid(1_440) as u32)
    }

    fn is_quiet(&self, now: Time) -> bool {
        let (_, minute) = self.day(now);
        self.quiet.is_some_and(|Quiet { from, to }| {
            if from < to { (from..to).contains(&minute) } else { minute >= from || minute < to }
        })
    }
}

/// A message to an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertMessage {
    /// Its owner declares it, for the first time or anew.
    Declare(AlertSpec),
    /// A value of its symbol.
    Value(i64),
    /// Its owner wants silence for a span.
    Snooze(Duration),
    /// Its owner ends it.
    End,
}

/// The cause why a value that is outside did not fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Its owner wants silence for now.
    Snoozed,
    /// It has fired a short while ago.
    Cooldown,
    /// It is a quiet time of the day.
    Quiet,
    /// It has fired as often as it may on a day.
    PerDay,
    /// Values have been outside since it was declared.
    AtCreation,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Silence::Snoozed => "its owner wants silence for now",
            Silence::Cooldown => "the cooldown after a firing",
            Silence::Quiet => "a quiet time of the day",
            Silence::PerDay => "the most firings of a day",
            Silence::AtCreation => "values were outside since its declaration",
        })
    }
}

/// An alert. A crossing that falls into a silence is spent: the alert must be armed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    spec: AlertSpec,
    phase: Phase,
    snoozed_until: Time,
    fired_at: Option<Time>,
    /// The day of the last firing, and the firings of that day.
    day: (i64, u32),
    /// The last time it did not fire for a cause, and how often that was.
    silence: Option<(Time, Silence)>,
    silences: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has seen no value.
    New,
    Armed,
    /// It fired, or was silent; the values were above at that time, or below.
    Spent {
        above: bool,
    },
    /// Values have been outside since it was declared; they are above, or below.
    Outside {
        above: bool,
    },
    Expired,
}

/// Timers of an alert.
const ARM: TimerName = TimerName(1);
const EXPIRE: TimerName = TimerName(2);
/// The rule that its notifications name. The payload is the value, 8 bytes, the lowest first.
pub const ALERT_RULE: u32 = 1;

impl Alert {
    fn declared(spec: AlertSpec) -> Alert {
        Alert {
            spec,
            phase: Phase::New,
            snoozed_until: Time::ZERO,
            fired_at: None,
            day: (0, 0),
            silence: None,
            silences: 0,
        }
    }

    /// From now on days and quiet times are counted at this offset from UTC \[minutes\]: zones with
    /// summer time change it in spring and autumn.
    ///
    /// # Panics
    /// At an offset of a day or more.
    pub fn set_utc_offset(&mut self, minutes: i32) {
        assert!(minutes.unsigned_abs() < 1_440, "{}", AlertError::Offset);
        self.spec.utc_offset = minutes;
    }

    /// The last time when a value outside did not fire, and why.
    pub fn last_silence(&self) -> Option<(Time, Silence)> {
        self.silence
    }

    /// True if the next value outside fires, unless the alert is to be silent by then.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::New | Phase::Armed)
    }

    /// Number of values outside that could have fired and did not.
    pub fn silences(&self) -> u64 {
        self.silences
    }

    /// The declaration takes the place of an older one; what was fired is kept.
    fn declare(
        &mut self,
        spec: &AlertSpec,
        cx: &mut Context<AlertMessage>,
    ) -> Result<Effect, Failure> {
        spec.check().map_err(|error| Failure(error.to_string()))?;
        self.spec = spec.clone();
        self.phase = Phase::New;
        cx.cancel(ARM);
        match spec.expires {
            Some(at) => cx.at(EXPIRE, at),
            None => cx.cancel(EXPIRE),
        }
        Ok(Effect::Dirty)
    }

    fn value(&mut self, value: i64, cx: &mut Context<AlertMessage>) -> Effect {
        let before = self.phase;
        if self.spec.expires.is_some_and(|at| at <= cx.now()) {
            self.phase = Phase::Expired;
        }
        let (low, high) = self.spec.inside;
        let (inside, above) = ((low..=high).contains(&value), value > high);
        match self.phase {
            Phase::Expired => {}
            Phase::New | Phase::Armed | Phase::Outside { .. } if inside => {
                self.phase = Phase::Armed
            }
            Phase::New if self.spec.at_creation == AtCreation::Waits => {
                self.phase = Phase::Outside { above };
                return self.stay_silent(Silence::AtCreation, cx.now());
            }
            Phase::New | Phase::Armed => return self.fire(value, above, cx),
            Phase::Outside { .. } => self.phase = Phase::Outside { above },
            Phase::Spent { .. } => {
                let (low, high) = match self.spec.rearm {
                    Rearm::Band(band) => self.spec.band(band),
                    Rearm::After(_) | Rearm::Edit => return Effect::Clean,
                };
                if (low..=high).contains(&value) {
                    self.phase = Phase::Armed;
                } else if !inside {
                    self.phase = Phase::Spent { above };
                }
            }
        }
        if self.phase == before { Effect::Clean } else { Effect::Hot }
    }

    /// A value is outside that fires, unless the alert is to be silent.
    fn fire(&mut self, value: i64, above: bool, cx: &mut Context<AlertMessage>) -> Effect {
        let now = cx.now();
        if self.spec.on == On::Crossing {
            self.phase = Phase::Spent { above };
            if let Rearm::After(span) = self.spec.rearm {
                cx.after(ARM, span);
            }
        } else {
            self.phase = Phase::Armed;
        }
        let (day, _) = self.spec.day(now);
        let today = if self.day.0 == day { self.day.1 } else { 0 };
        let cooling = self
            .spec
            .cooldown
            .is_some_and(|span| self.fired_at.is_some_and(|fired| now < fired + span));
        let silence = if now < self.snoozed_until {
            Some(Silence::Snoozed)
        } else if cooling {
            Some(Silence::Cooldown)
        } else if self.spec.is_quiet(now) {
            Some(Silence::Quiet)
        } else if self.spec.per_day_max.is_some_and(|most| today >= most) {
            Some(Silence::PerDay)
        } else {
            None
        };
        if let Some(silence) = silence {
            return self.stay_silent(silence, now);
        }
        (self.fired_at, self.day) = (Some(now), (day, today + 1));
        cx.notify(ALERT_RULE, value.to_le_bytes().to_vec());
        Effect::Hot
    }

    fn stay_silent(&mut self, silence: Silence, now: Time) -> Effect {
        self.silence = Some((now, silence));
        self.silences += 1;
        Effect::Hot
    }
}

impl Agent for Alert {
    type Message = AlertMessage;
    const VERSION: u16 = 1;

    fn create(_key: Key, first: &AlertMessage) -> Option<Alert> {
        match first {
            AlertMessage::Declare(spec) => Some(Alert::declared(spec.clone())),
            _ => None,
        }
    }

    fn on(
        &mut self,
        message: &AlertMessage,
        cx: &mut Context<AlertMessage>,
    ) -> Result<Effect, Failure> {
        match message {
            AlertMessage::Declare(spec) => self.declare(spec, cx),
            AlertMessage::Value(value) => Ok(self.value(*value, cx)),
            AlertMessage::Snooze(span) => {
                self.snoozed_until = self.snoozed_until.max(cx.now() + *span);
                Ok(Effect::Hot)
            }
            AlertMessage::End => Ok(Effect::Delete),
        }
    }

    fn on_timer(
        &mut self,
        name: TimerName,
        _cx: &mut Context<AlertMessage>,
    ) -> Result<Effect, Failure> {
        let before = self.phase;
        self.phase = match (name, self.phase) {
            (EXPIRE, _) => Phase::Expired,
            (ARM, Phase::Spent { .. }) => Phase::Armed,
            (_, phase) => phase,
        };
        Ok(if self.phase == before { Effect::Clean } else { Effect::Hot })
    }

    fn armed(&self) -> bool {
        match self.phase {
            Phase::Expired => false,
            Phase::Spent { .. } => matches!(self.spec.rearm, Rearm::Band(_)),
            Phase::New | Phase::Armed | Phase::Outside { .. } => true,
        }
    }

    fn bounds(&self) -> Vec<Bound> {
        let (low, high) = self.spec.inside;
        let (low, high) = match self.phase {
            // The first value is always news.
            Phase::New => (i64::MAX, i64::MIN),
            Phase::Armed => (low, high),
            // Nothing happens before values come back, or go past the other side.
            Phase::Outside { above: true } => (high.saturating_add(1), i64::MAX),
            Phase::Outside { above: false } => (i64::MIN, low.saturating_sub(1)),
            Phase::Spent { above } => {
                let Rearm::Band(band) = self.spec.rearm else { return Vec::new() };
                let (low, high) = self.spec.band(band);
                match above {
                    true => (high.saturating_add(1), i64::MAX),
                    false => (i64::MIN, low.saturating_sub(1)),
                }
            }
            Phase::Expired => return Vec::new(),
        };
        vec![Bound { symbol: self.spec.symbol, low, high }]
    }

    fn message_bytes(message: &AlertMessage) -> u64 {
        size_of_val(message) as u64
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        let spec = &self.spec;
        let (low, high) = spec.inside;
        let (rearm, value) = match spec.rearm {
            Rearm::Band(band) => (0, band as u64),
            Rearm::After(span) => (1, nanos(span)),
            Rearm::Edit => (2, 0),
        };
        let quiet = spec.quiet.map_or(0, |it| 1 + u64::from(it.from) * 1_440 + u64::from(it.to));
        let numbers = [
            u64::from(spec.symbol),
            low as u64,
            high as u64,
            u64::from(spec.on == On::Level),
            rearm,
            value,
            spec.cooldown.map_or(0, nanos),
            spec.expires.map_or(u64::MAX, Time::as_nanos),
            quiet,
            u64::from(spec.per_day_max.unwrap_or(0)),
            i64::from(spec.utc_offset) as u64,
            u64::from(spec.at_creation == AtCreation::Waits),
        ];
        numbers.iter().for_each(|number| to.extend(number.to_le_bytes()));
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        let phase = match self.phase {
            Phase::New => 0,
            Phase::Armed => 1,
            Phase::Spent { above } => 2 + u64::from(above),
            Phase::Outside { above } => 4 + u64::from(above),
            Phase::Expired => 6,
        };
        let (at, silence) = self.silence.map_or((Time::ZERO, 0), |(at, it)| (at, 1 + it as u64));
        let numbers = [
            phase,
            self.snoozed_until.as_nanos(),
            self.fired_at.map_or(u64::MAX, Time::as_nanos),
            self.day.0 as u64,
            u64::from(self.day.1),
            at.as_nanos(),
            silence,
            self.silences,
        ];
        numbers.iter().for_each(|number| to.extend(number.to_le_bytes()));
    }

    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<Alert, Failure> {
        if version != Alert::VERSION {
            return Err(Failure(format!(
                "a state of version {version}; known is {}",
                Alert::VERSION
            )));
        }
        let spec = decode_spec(&numbers(cold)?)?;
        let [phase, snoozed, fired, day, today, at, silence, silences] = numbers(hot)?;
        let phase = match phase {
            0 => Phase::New,
            1 => Phase::Armed,
            2 | 3 => Phase::Spent { above: phase == 3 },
            4 | 5 => Phase::Outside { above: phase == 5 },
            6 => Phase::Expired,
            other => return Err(Failure(format!("a phase {other}"))),
        };
        let silence = match silence {
            0 => None,
            1 => Some(Silence::Snoozed),
            2 => Some(Silence::Cooldown),
            3 => Some(Silence::Quiet),
            4 => Some(Silence::PerDay),
            5 => Some(Silence::AtCreation),
            other => return Err(Failure(format!("a silence {other}"))),
        };
        Ok(Alert {
            spec,
            phase,
            snoozed_until: Time::from_nanos(snoozed),
            fired_at: (fired != u64::MAX).then_some(Time::from_nanos(fired)),
            day: (day as i64, today as u32),
            silence: silence.map(|it| (Time::from_nanos(at), it)),
            silences,
        })
    }
}

fn decode_spec(numbers: &[u64; 12]) -> Result<AlertSpec, Failure> {
    let [symbol, low, high, level, rearm, value, cooldown, expires, quiet, per_day, offset, waits] =
        *numbers;
    let rearm = match rearm {
        0 => Rearm::Band(value as i64),
        1 => Rearm::After(Duration::from_nanos(value)),
        2 => Rearm::Edit,
        other => return Err(Failure(format!("a rule {other} for being armed again"))),
    };
    let quiet =
        quiet.checked_sub(1).map(|it| Quiet { from: (it / 1_440) as u32, to: (it % 1_440) as u32 });
    let spec = AlertSpec {
        symbol: symbol as u32,
        inside: (low as i64, high as i64),
        on: if level == 1 { On::Level } else { On::Crossing },
        rearm,
        cooldown: (cooldown > 0).then_some(Duration::from_nanos(cooldown)),
        expires: (expires != u64::MAX).then_some(Time::from_nanos(expires)),
        quiet,
        per_day_max: (per_day > 0).then_some(per_day as u32),
        utc_offset: offset as i64 as i32,
        at_creation: if waits == 1 { AtCreation::Waits } else { AtCreation::Fires },
    };
    spec.check().map_err(|error| Failure(error.to_string()))?;
    Ok(spec)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn numbers<const N: usize>(bytes: &[u8]) -> Result<[u64; N], Failure> {
    let all: Vec<u64> = (bytes.chunks_exact(8))
        .map(|it| u64::from_le_bytes(it.try_into().expect("chunks of 8 bytes")))
        .collect();
    let wrong = || Failure(format!("a state of {} bytes, not of {}", bytes.len(), 8 * N));
    if bytes.len() == 8 * N { all.try_into().map_err(|_| wrong()) } else { Err(wrong()) }
}
