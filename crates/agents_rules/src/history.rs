//! The last decisions of an agent's rules, kept with its state: whatever fired, and what did not though its
//! condition held.

use agents::{Context, Failure};
use gate::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::message::Message;

/// Decisions that an agent keeps.
const KEPT: usize = 4;
/// Bytes of a kept message or state; of a longer one nothing is kept.
const BYTES_MAX: usize = 1_024;

/// A decision of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The moment \[ns since 1970\].
    pub at_ns: u64,
    /// The rule's number.
    pub rule: u32,
    /// The rule's name when it decided.
    pub name: String,
    /// The message; `None` if it was too large to be kept.
    pub message: Option<String>,
    /// The fields of the state before; `None` if they were too large to be kept.
    pub before: Option<Map<String, Json>>,
    /// Those that were others afterwards.
    pub changed: Map<String, Json>,
    /// The number of the firing; `None` if it was suppressed.
    pub firing: Option<u64>,
    /// The cause of the suppression; empty if it fired.
    pub suppressed: String,
}

/// The last decisions, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History(Vec<Decision>);

impl History {
    pub(crate) fn all(&self) -> &[Decision] {
        &self.0
    }

    pub(crate) fn push(&mut self, decision: Decision) {
        if self.0.len() == KEPT {
            self.0.remove(0);
        }
        self.0.push(decision);
    }

    /// Nothing of an agent that never decided anything, so that its state is no larger.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        if !self.0.is_empty() {
            serde_json::to_writer(to, &self.0).expect("keys are texts, and numbers are finite");
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<History, Failure> {
        if bytes.is_empty() {
            return Ok(History::default());
        }
        let read = serde_json::from_slice(bytes);
        read.map(History).map_err(|error| Failure(format!("a history that is no JSON: {error}")))
    }
}

/// The part of a decision that all rules of a message share.
pub(crate) struct Moment {
    at: Time,
    message: Option<String>,
    pub(crate) before: Map<String, Json>,
}

impl Moment {
    pub(crate) fn new(
        message: &Message,
        before: Map<String, Json>,
        cx: &Context<Message>,
    ) -> Moment {
        let told = message.told(usize::MAX);
        Moment { at: cx.now(), message: (told.len() <= BYTES_MAX).then_some(told), before }
    }

    /// The decision of a rule, of which the state is now another.
    pub(crate) fn decision(
        &self,
        rule: (u32, &str),
        after: &Map<String, Json>,
        end: Result<u64, String>,
    ) -> Decision {
        let is_other = |(name, value): &(&String, &Json)| self.before.get(*name) != Some(*value);
        let changed = after.iter().filter(is_other);
        let changed = changed.map(|(name, value)| (name.clone(), value.clone()));
        let is_small = |of: &Map<String, Json>| {
            serde_json::to_string(of).is_ok_and(|text| text.len() <= BYTES_MAX)
        };
        let changed: Map<String, Json> = changed.collect();
        let changed = if is_small(&changed) { changed } else { Map::new() };
        Decision {
            at_ns: self.at.as_nanos(),
            rule: rule.0,
            name: rule.1.to_owned(),
            message: self.message.clone(),
            before: is_small(&self.before).then(|| self.before.clone()),
            changed,
            firing: end.as_ref().ok().copied(),
            suppressed: end.err().unwrap_or_default(),
        }
    }
}
