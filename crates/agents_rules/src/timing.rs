//! Timers of a file: set and cancelled by messages, and the deeds of an agent when one is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use crate::expression::Name;
use crate::file::{FileEntry, MessageEntry, Read, Reader};
use crate::rules::way_out;
use crate::timer::{Due, EVERY_MIN, TimerSet, number};
use crate::value::Kind;

/// The moment of a timer that a message sets: one of them.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimerEntry {
    after: Option<Spanned<String>>,
    at: Option<Spanned<String>>,
    every: Option<Spanned<String>>,
}

/// The deeds of an agent when a timer is due.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FiringEntry {
    #[serde(default)]
    set: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    timers: BTreeMap<String, Spanned<TimerEntry>>,
    #[serde(default)]
    cancel: Vec<Spanned<String>>,
}

/// Longest name of a timer \[B\].
const NAME_MAX: usize = 100;

impl Reader<'_> {
    /// Each timer of a file, as a message that nobody sends.
    pub(crate) fn firings(&self, file: &FileEntry) -> Read<Vec<(String, MessageEntry)>> {
        let messages = file.messages.values().map(|entry| {
            let MessageEntry { timers, cancel, .. } = entry.get_ref();
            (timers, cancel)
        });
        let firings = file.timers.values().map(|entry| {
            let FiringEntry { timers, cancel, .. } = entry.get_ref();
            (timers, cancel)
        });
        let all: Vec<_> = messages.chain(firings).collect();
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for (name, entry) in all.iter().flat_map(|(timers, _)| timers.iter()) {
            if name.is_empty() || name.len() > NAME_MAX {
                return self.wrong(entry.span(), "a timer has a name of 1 to 100 bytes");
            }
            let other = known.iter().find(|other| **other != name && number(other) == number(name));
            if let Some(other) = other {
                let cause = format!("`{name}` and `{other}` have one number: rename one");
                return self.wrong(entry.span(), &cause);
            }
            known.insert(name);
        }
        for (timers, cancel) in &all {
            for name in cancel.iter() {
                self.named(name, "timer", known.iter().copied())?;
                if timers.contains_key(name.get_ref()) {
                    let cause = format!("`{}` is set here, too: leave one out", name.get_ref());
                    return self.wrong(name.span(), &cause);
                }
            }
        }
        if let Some((name, entry)) = file.timers.iter().find(|(name, _)| !known.contains(&***name))
        {
            let way_out = way_out(name, known.iter().copied());
            return self.wrong(entry.span(), &format!("no message sets `{name}`; {way_out}"));
        }
        let firing = |name: &&str| {
            let entry = file.timers.get(*name).map(|entry| entry.get_ref().clone());
            (name.to_string(), entry.map_or_else(MessageEntry::default, MessageEntry::of_firing))
        };
        Ok(known.iter().map(firing).collect())
    }

    /// The timers that a message sets.
    pub(crate) fn timers(&self, entry: &MessageEntry, names: &Arc<[Name]>) -> Read<Vec<TimerSet>> {
        let each = entry.timers.iter().map(|(name, timer)| {
            let TimerEntry { after, at, every } = timer.get_ref();
            let due = match (after, at, every) {
                (Some(span), None, None) => Due::After(self.span(span)?),
                (None, Some(at), None) => Due::At(self.expression(at, names, Kind::Number)?),
                (None, None, Some(text)) => match self.span(text)? {
                    span if span < EVERY_MIN => {
                        return self.wrong(text.span(), "a timer fires at most once a second");
                    }
                    span => Due::Every(span),
                },
                _ => {
                    let cause = "a timer has one of `after`, `at` and `every`, \
                                 such as { after = \"10m\" }";
                    return self.wrong(timer.span(), cause);
                }
            };
            Ok(TimerSet { name: name.as_str().into(), due })
        });
        each.collect()
    }
}

impl MessageEntry {
    fn of_firing(FiringEntry { set, timers, cancel }: FiringEntry) -> MessageEntry {
        MessageEntry { set, timers, cancel, ..MessageEntry::default() }
    }
}
