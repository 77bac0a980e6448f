//! Questions that people have about a service, one file each. Every answer says what was simulated,
//! with intervals, and what the formulas say, side by side.
//!
//! Nothing is printed here, and no clock is read.

use serde::Serialize;
use sim::SimError;

use crate::{Right, Scenario, ScenarioError};

mod assess;
mod bottleneck;
mod capacity;
mod growth;
mod holds;
mod policy;
mod sensitivity;
mod servers;
mod slo;
mod slots;
mod work;

pub use assess::{Assessment, Busy, Observed};
pub use bottleneck::{Bottleneck, Saturation, bottleneck};
pub use capacity::{Capacity, CapacityPoint, capacity};
pub use growth::{ClassLoad, Growth, GrowthError};
pub use holds::{Holds, holds};
pub use policy::{Policies, PolicyRow, policy};
pub use sensitivity::{Elasticity, Sensitivity, sensitivity};
pub use servers::{Servers, ServersPoint, can_vary_servers, servers};
pub use slo::{Judged, Limit, LimitSide, Slo, SloError};
pub use slots::{Folklore, Slots, SlotsRow, slots};
pub use work::Hardness;

/// Share of slots or servers that is busy from which on a gate or a station counts as saturated.
pub const SATURATED: f64 = 0.9;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The scenario, or what the question makes of it, cannot be.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It cannot be simulated.
    #[error("{place}: {error}")]
    Sim {
        /// The load or the change.
        place: String,
        /// Why.
        error: SimError,
    },
    /// The question is about a gate, and there is none, or more than one to choose from.
    #[error("which gate? {0}: say `--gate NAME`")]
    WhichGate(String),
    /// The utilisation law, from which the question starts, is of steady loads.
    #[error(
        "{0}, and the question starts from the utilisation law, which is of a steady state: use \
         `sekisho sim`, with `--sweep` to vary something"
    )]
    NoLaw(String),
    /// Nothing can be varied.
    #[error("{0}")]
    NothingToVary(String),
}

impl QuestionError {
    fn sim(place: impl Into<String>) -> impl FnOnce(SimError) -> QuestionError {
        let place = place.into();
        move |error| QuestionError::Sim { place, error }
    }
}

/// A change of a quantity, as a ratio to what it is compared with: 1 is no change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The ratio.
    pub ratio: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Change {
    /// True if the interval leaves 1 out.
    pub fn is_real(&self) -> bool {
        !(self.low <= 1.0 && 1.0 <= self.high)
    }
}

impl From<measure::Ratio> for Change {
    fn from(ratio: measure::Ratio) -> Change {
        Change { ratio: ratio.ratio, low: ratio.low, high: ratio.high }
    }
}

/// The one gate that a question is about.
fn gate_named(scenario: &Scenario, name: Option<&str>) -> Result<usize, QuestionError> {
    let names = || scenario.gates.iter().map(|gate| gate.name.as_str());
    if let Some(name) = name {
        return names().position(|gate| gate == name).ok_or_else(|| {
            let way_out = crate::scenario::suggest("gate", name, names());
            ScenarioError {
                place: "gate".into(),
                cause: format!("no gate is called `{name}`; {way_out}"),
            }
            .into()
        });
    }
    match scenario.gates.len() {
        1 => Ok(0),
        0 => Err(QuestionError::NothingToVary(
            "the scenario has no gate, so that there are no slots to choose; add a [[gate]]".into(),
        )),
        _ => {
            let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
            Err(QuestionError::WhichGate(format!("there is {}", names.join(", "))))
        }
    }
}

/// The worst of several.
fn all_kept<'j>(judged: impl IntoIterator<Item = &'j Judged>) -> Right {
    judged.into_iter().map(|judged| judged.kept).max().unwrap_or(Right::Yes)
}
