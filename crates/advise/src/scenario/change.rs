//! A scenario with one thing changed: how a question "what if" is asked.

use super::compile::suggest;
use super::{GateEntry, Scenario, ScenarioError};
use crate::units::Rate;

impl Scenario {
    /// The same with another population of a closed class.
    ///
    /// # Errors
    /// If there is no such class, or it is open: a closed question has no open answer.
    pub fn with_population(&self, class: &str, population: u32) -> Result<Scenario, ScenarioError> {
        let mut changed = self.clone();
        let at = self.class_index(class)?;
        if self.classes[at].population.is_none() {
            let cause = "it is an open class: it has a rate, no population; ask for another rate";
            return Err(wrong(format!("class `{class}`"), cause));
        }
        changed.classes[at].population = Some(population);
        Ok(changed)
    }

    /// The same with another arrival rate [1/s] of an open class.
    ///
    /// # Errors
    /// If there is no such class, or it is closed: an open question has no closed answer.
    pub fn with_rate(&self, class: &str, rate: f64) -> Result<Scenario, ScenarioError> {
        let mut changed = self.clone();
        let at = self.class_index(class)?;
        if self.classes[at].rate.is_none() {
            let cause =
                "it is a closed class: it has a population, no rate; ask for another population";
            return Err(wrong(format!("class `{class}`"), cause));
        }
        changed.classes[at].rate = Some(Rate(rate));
        Ok(changed)
    }

    /// The same with another number of slots of a gate with one server.
    ///
    /// # Errors
    /// If there is no such gate, or it has several servers, each with slots of its own.
    pub fn with_slots(&self, gate: &str, slots: u32) -> Result<Scenario, ScenarioError> {
        let mut changed = self.clone();
        let Some(entry) = changed.gates.iter_mut().find(|entry| entry.name == gate) else {
            let names = self.gates.iter().map(|entry| &*entry.name);
            let way_out = suggest("gate", gate, names);
            return Err(wrong("gate", &format!("no gate is called `{gate}`; {way_out}")));
        };
        match entry {
            GateEntry { servers, .. } if servers.is_empty() => entry.slots = Some(slots),
            GateEntry { servers, .. } if servers.len() == 1 => servers[0].slots = slots,
            GateEntry { servers, .. } => {
                let cause = format!(
                    "it has {} servers, each with slots of its own; change them in the file",
                    servers.len()
                );
                return Err(wrong(format!("gate `{gate}`"), &cause));
            }
        }
        Ok(changed)
    }

    /// The same with so many times the load: populations (rounded, at least 1) and rates of all
    /// classes, or of one.
    ///
    /// # Errors
    /// If there is no such class, or the factor is not above 0.
    pub fn scaled(&self, factor: f64, class: Option<&str>) -> Result<Scenario, ScenarioError> {
        if !(factor > 0.0 && factor.is_finite()) {
            let cause =
                format!("{factor} times as much is no load; ask for more than 0, such as 3x");
            return Err(wrong("load", &cause));
        }
        let mut changed = self.clone();
        let entries = match class {
            Some(class) => {
                let at = self.class_index(class)?;
                &mut changed.classes[at..=at]
            }
            None => &mut changed.classes[..],
        };
        for entry in entries {
            if let Some(population) = &mut entry.population {
                *population = (f64::from(*population) * factor).round().max(1.0) as u32;
            }
            if let Some(Rate(rate)) = &mut entry.rate {
                *rate *= factor;
            }
        }
        Ok(changed)
    }

    /// The same with another seed.
    pub fn with_seed(&self, seed: u64) -> Scenario {
        Scenario { seed: Some(seed), ..self.clone() }
    }

    pub(crate) fn class_index(&self, class: &str) -> Result<usize, ScenarioError> {
        self.classes.iter().position(|entry| entry.name == class).ok_or_else(|| {
            let names = self.classes.iter().map(|entry| &*entry.name);
            let way_out = suggest("class", class, names);
            wrong("class", &format!("no class is called `{class}`; {way_out}"))
        })
    }
}

fn wrong(place: impl Into<String>, cause: &str) -> ScenarioError {
    ScenarioError { place: place.into(), cause: cause.into() }
}
