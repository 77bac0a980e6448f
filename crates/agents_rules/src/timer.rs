//! Timers that a file gives to agents: set by messages, cancelled by name, and due as a message of the agent
//! to itself, of which no sender is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agents::{Context, Effect, Failure, Timer, TimerName};
use gate::Time;

use crate::expression::{Expression, Scope};
use crate::value::{Value, stable_hash};

/// The beginning of the name that a firing has among the messages of a file.
pub(crate) const PREFIX: &str = "timer ";
/// The shortest span of a row.
pub(crate) const EVERY_MIN: Duration = Duration::from_secs(1);

/// A timer that a message sets.
pub(crate) struct TimerSet {
    pub(crate) name: Arc<str>,
    pub(crate) due: Due,
}

/// The moment when a timer is due.
pub(crate) enum Due {
    /// A span after it was set.
    After(Duration),
    /// A moment \[s since 1970\]; at once, if that has passed.
    At(Expression),
    /// After each such span.
    Every(Duration),
}

/// A timer in words, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerSummary {
    /// Its name.
    pub name: String,
    /// The messages and timers that set it, each with the moment when it is due.
    pub set_by: Vec<(String, String)>,
    /// The messages and timers that cancel it.
    pub cancelled_by: Vec<String>,
}

/// A timer before and after a change of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerChange {
    /// Its name.
    pub name: String,
    /// True if the file had it before.
    pub is_before: bool,
    /// True if the file has it afterwards; else those that are set end.
    pub is_after: bool,
}

/// The core's name for a timer of a file, beside those of alerts, which are below.
pub(crate) fn number(name: &str) -> TimerName {
    const OF_FILES: u64 = 1 << 63;
    TimerName(OF_FILES | stable_hash(&[name.as_bytes()]))
}

/// The timers of an agent that are set, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timers(BTreeMap<String, Timer>);

impl Timers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Timer)> {
        self.0.iter().map(|(name, &timer)| (name.as_str(), timer))
    }

    pub(crate) fn named(&self, number_of: TimerName) -> Option<String> {
        self.0.keys().find(|name| number(name) == number_of).cloned()
    }

    /// Those that a file has no more end.
    pub(crate) fn follow<M>(
        &mut self,
        is_known: impl Fn(&str) -> bool,
        cx: &mut Context<M>,
    ) -> Effect {
        let before = self.0.len();
        self.0.retain(|name, _| {
            let is_known = is_known(name);
            if !is_known {
                cx.cancel(number(name));
            }
            is_known
        });
        if self.0.len() == before { Effect::Clean } else { Effect::Dirty }
    }

    /// A message cancels timers and sets others.
    pub(crate) fn take<M>(
        &mut self,
        (cancel, set): (&[Arc<str>], &[TimerSet]),
        scope: Scope<'_>,
        cx: &mut Context<M>,
    ) -> Result<Effect, Failure> {
        let mut effect = Effect::Clean;
        for name in cancel {
            if self.0.remove(&**name).is_some() {
                cx.cancel(number(name));
                effect = Effect::Dirty;
            }
        }
        for TimerSet { name, due } in set {
            let timer = match due {
                Due::After(span) => Timer { due: cx.now() + *span, every: None },
                Due::Every(span) => Timer { due: cx.now() + *span, every: Some(*span) },
                Due::At(at) if !at.is_ready(scope.state) => continue,
                Due::At(at) => Timer { due: moment(name, at, scope)?, every: None },
            };
            match timer.every {
                Some(span) => cx.every(number(name), span),
                None => cx.at(number(name), timer.due),
            }
            self.0.insert(name.to_string(), timer);
            effect = Effect::Dirty;
        }
        Ok(effect)
    }

    /// One was due: it is set anew, if it has a row, or over.
    pub(crate) fn fire(&mut self, name: &str, now: Time) {
        match self.0.get(name).and_then(|timer| timer.after_firing(now)) {
            Some(next) => _ = self.0.insert(name.to_owned(), next),
            None => _ = self.0.remove(name),
        }
    }

    /// As it is kept: of each its moment and its span \[ns\], 0 for none.
    pub(crate) fn kept(&self) -> BTreeMap<&str, (u64, u64)> {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.iter()
            .map(|(name, it)| (name, (it.due.as_nanos(), it.every.map_or(0, nanos))))
            .collect()
    }

    pub(crate) fn of_kept(kept: BTreeMap<String, (u64, u64)>) -> Timers {
        let timer = |(due, every): (u64, u64)| Timer {
            due: Time::from_nanos(due),
            every: (every > 0).then_some(Duration::from_nanos(every)),
        };
        Timers(kept.into_iter().map(|(name, it)| (name, timer(it))).collect())
    }
}

/// The moment that an expression gives.
fn moment(name: &str, at: &Expression, scope: Scope<'_>) -> Result<Time, Failure> {
    let wrong = |cause: String| Failure(format!("the moment of the timer `{name}`: {cause}"));
    match at.value(scope).map_err(wrong)? {
        Value::Number(seconds) if seconds.is_finite() => {
            // What is later than the clock can tell never comes.
            let span = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
            Ok(Time::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
        }
        _ => Err(wrong("it would be no number".to_owned())),
    }
}
