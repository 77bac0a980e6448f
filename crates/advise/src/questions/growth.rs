//! Growth of the load: `3x` of everything, or of one class.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::QuestionError;
use crate::{Load, Scenario};

/// So many times the load of all classes, or of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// Factor of the load; above 0.
    pub factor: f64,
    /// The class that grows; none for all.
    pub class: Option<String>,
}

/// Why a text is no growth.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{0}` is not how many times the load, such as 3x or 1.5x")]
pub struct GrowthError(String);

impl FromStr for Growth {
    type Err = GrowthError;

    fn from_str(text: &str) -> Result<Growth, GrowthError> {
        let number = text.trim().strip_suffix('x').and_then(|number| number.trim().parse().ok());
        match number.filter(|factor: &f64| *factor > 0.0 && *factor <= 1e6) {
            Some(factor) => Ok(Growth { factor, class: None }),
            None => Err(GrowthError(text.to_owned())),
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x the load", (self.factor * 1000.0).round() / 1000.0)?;
        match &self.class {
            Some(class) => write!(f, " of class `{class}`"),
            None => Ok(()),
        }
    }
}

/// The load of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassLoad {
    /// The class.
    pub class: String,
    /// Its load.
    pub load: Load,
}

impl ClassLoad {
    /// The loads of a scenario that can be run.
    pub(super) fn of(scenario: &Scenario) -> Vec<ClassLoad> {
        let load = |class: &crate::ClassEntry| {
            let load = match (class.population, class.rate) {
                (Some(population), _) => Load::Clients(population),
                (None, rate) => Load::Rate(rate.map_or(0.0, |rate| rate.0)),
            };
            ClassLoad { class: class.name.clone(), load }
        };
        scenario.classes.iter().map(load).collect()
    }
}

impl Growth {
    /// The load as the scenario has it.
    pub fn none() -> Growth {
        Growth { factor: 1.0, class: None }
    }

    pub(super) fn times(&self, factor: f64) -> Growth {
        Growth { factor, class: self.class.clone() }
    }

    /// The scenario under that load.
    ///
    /// # Errors
    /// If there is no such class.
    pub fn of(&self, scenario: &Scenario) -> Result<Scenario, QuestionError> {
        let grown = scenario.scaled(self.factor, self.class.as_deref())?;
        grown.network()?;
        Ok(grown)
    }

    /// The loads that this means.
    ///
    /// # Errors
    /// If there is no such class.
    pub fn loads(&self, scenario: &Scenario) -> Result<Vec<ClassLoad>, QuestionError> {
        Ok(ClassLoad::of(&scenario.scaled(self.factor, self.class.as_deref())?))
    }

    /// The only closed class that grows, with its population: then loads are whole numbers.
    pub(super) fn whole(&self, scenario: &Scenario) -> Result<Option<u32>, QuestionError> {
        let grown = match &self.class {
            Some(class) => &scenario.classes[scenario.class_index(class)?],
            None => match scenario.classes.as_slice() {
                [class] => class,
                _ => return Ok(None),
            },
        };
        Ok(grown.population)
    }
}
