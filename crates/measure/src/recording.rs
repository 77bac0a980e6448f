//! A recording of a gate: all that it was told and all that it said, so that the same gate, built
//! anew, can be asked to say it again. It holds no payloads: jobs are numbers.

use std::fmt;

use gate::{Action, Event, Gate, GateSpec, Time};
use serde::{Deserialize, Serialize};

/// What a gate was told and what it said, up to a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The gate's parameters at the start.
    pub spec: GateSpec,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How many steps it may hold.
    pub bound: usize,
    /// Whether steps were left out because the bound was reached.
    pub truncated: bool,
}

/// One event and the gate's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When.
    pub at: Time,
    /// What the gate was told.
    pub event: Event,
    /// What it said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

impl Recording {
    /// An empty recording of a gate with this specification, of at most `bound` steps.
    pub fn new(spec: GateSpec, bound: usize) -> Recording {
        Recording { spec, steps: Vec::new(), bound, truncated: false }
    }

    /// Adds a step; past the bound it is left out, and the recording says so.
    pub fn push(&mut self, at: Time, event: Event, actions: &[Action]) {
        if self.steps.len() < self.bound {
            self.steps.push(Step { at, event, actions: actions.to_vec() });
        } else {
            self.truncated = true;
        }
    }

    /// Tells a fresh gate the recorded events and compares its answers.
    ///
    /// # Errors
    /// The first step at which the answers differ.
    ///
    /// # Panics
    /// If the specification is not valid, or the steps break the gate's protocol.
    pub fn replay(&self) -> Result<(), Divergence> {
        let mut gate = Gate::new(&self.spec).expect("a recording is of a gate that existed");
        let mut actions = Vec::new();
        for (step, recorded) in self.steps.iter().enumerate() {
            actions.clear();
            gate.handle(recorded.at, recorded.event, &mut actions);
            if actions != recorded.actions {
                return Err(Divergence { step, recorded: recorded.clone(), replayed: actions });
            }
        }
        Ok(())
    }
}

/// Where a replay left the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The step, from 0.
    pub step: usize,
    /// What was recorded.
    pub recorded: Step,
    /// What the fresh gate said.
    pub replayed: Vec<Action>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { at, event, actions } = &self.recorded;
        write!(
            f,
            "step {}: at {at} after {event:?} the recording has {actions:?}, the replay {:?}",
            self.step, self.replayed
        )
    }
}

impl std::error::Error for Divergence {}
