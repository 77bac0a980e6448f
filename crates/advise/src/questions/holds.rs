//! Does it hold under more load, and if not, what breaks first?

use serde::Serialize;
use sim::Options;

use super::assess::{Assessment, assess};
use super::growth::{ClassLoad, Growth};
use super::slo::Slo;
use super::{Bottleneck, QuestionError, bottleneck};
use crate::Scenario;

/// Judgement of a scenario under a larger load.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Holds {
    /// The growth of the load.
    pub growth: Growth,
    /// The loads that this means.
    pub loads: Vec<ClassLoad>,
    /// Assessment of the scenario under it.
    pub assessment: Assessment,
    /// The part that saturates first, and the next ones, as the load grows from where it is now.
    pub bottleneck: Bottleneck,
}

/// Judges a scenario under so many times its load: it holds if it keeps the objective; without one,
/// if nothing saturates and nobody is turned away.
///
/// # Errors
/// If there is no such class, or it cannot be simulated.
pub fn holds(
    scenario: &Scenario,
    growth: &Growth,
    slo: Option<&Slo>,
    options: &Options,
) -> Result<Holds, QuestionError> {
    if let Some(slo) = slo {
        slo.check(scenario)?;
    }
    let grown = growth.of(scenario)?;
    Ok(Holds {
        growth: growth.clone(),
        loads: ClassLoad::of(&grown),
        assessment: assess(&grown, slo, options, 1)?,
        bottleneck: bottleneck(scenario, growth.class.as_deref(), options)?,
    })
}
