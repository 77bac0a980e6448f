//! Fate of jobs while no server of their gate is up, by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Span;

/// Longest wait of jobs while no server of their gate is up, before they are refused for that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unreachable {
    /// Not at all; written `"refuse"`.
    Refuse,
    /// As long as for a slot; written `"wait"`.
    Wait,
    /// So long at most; written `"5s"`.
    AtMost(Span),
}

impl Unreachable {
    /// The limit of a gate at which jobs wait so long for a slot.
    pub fn limit(self, wait_max: Option<Duration>) -> Option<Duration> {
        match self {
            Unreachable::Refuse => Some(Duration::ZERO),
            Unreachable::Wait => wait_max,
            Unreachable::AtMost(Span(seconds)) => Some(Duration::from_secs_f64(seconds)),
        }
    }
}

impl FromStr for Unreachable {
    type Err = String;

    fn from_str(text: &str) -> Result<Unreachable, String> {
        match text {
            "refuse" => Ok(Unreachable::Refuse),
            "wait" => Ok(Unreachable::Wait),
            text => text
                .parse()
                .map(Unreachable::AtMost)
                .map_err(|error| format!("{error}, nor \"refuse\" or \"wait\"")),
        }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreachable::Refuse => f.write_str("refuse"),
            Unreachable::Wait => f.write_str("wait"),
            Unreachable::AtMost(span) => span.fmt(f),
        }
    }
}

impl Serialize for Unreachable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Unreachable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unreachable, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Unreachable;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"5s\", \"refuse\" or \"wait\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Unreachable, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
