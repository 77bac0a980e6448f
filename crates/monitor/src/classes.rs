//! The classes of jobs: who belongs to which, how important it is, and how long its jobs may wait.

use std::time::Duration;

use super::config::ConfigError;
use pgsession::sql::{Class, Rule, Rules};

/// The most classes that there may be: each costs a pool memory from its first job on, about
/// 400 KiB for its histograms.
pub const CLASSES_MAX: usize = 256;

/// The class of jobs that no rule fits.
const OTHER: &str = "other";

/// A class of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobClass {
    /// Its name where it is counted.
    pub name: String,
    /// The longest wait of its jobs, where that is shorter than the pool's.
    pub wait_max: Option<Duration>,
}

/// The classes of jobs, and who belongs to which.
///
/// A job is of the class of the first rule that fits its first text: a transaction is not looked at
/// again once it has begun. Rules without tests of texts cost nothing per text: a session has one
/// class until its settings change. Others are asked about the first text of each transaction, as far
/// as the client's first message holds it; where a statement was prepared before, its text counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    list: Vec<JobClass>,
    rules: Rules,
    look_at_texts: bool,
}

impl Default for Classes {
    /// One class for all.
    fn default() -> Classes {
        let other = JobClass { name: OTHER.to_owned(), wait_max: None };
        Classes { list: vec![other], rules: Rules::default(), look_at_texts: false }
    }
}

impl Classes {
    /// These classes by number, the first of which has the number 1, and rules that name them by
    /// number. The class 0, `other`, is of those whom no rule fits; a rule may name it too, to give
    /// them a priority.
    ///
    /// # Errors
    /// If a rule names a class that is not there, or there are more than [`CLASSES_MAX`].
    pub fn new(classes: Vec<JobClass>, rules: Vec<Rule>) -> Result<Classes, ConfigError> {
        let mut all = Classes::default();
        all.list.extend(classes);
        if all.list.len() > CLASSES_MAX {
            let (name, value) = ("classes", all.list.len());
            return Err(ConfigError::Limit { name, value, least: 1, most: CLASSES_MAX });
        }
        for (number, rule) in rules.iter().enumerate() {
            let class = rule.class.class;
            if class as usize >= all.list.len() {
                return Err(ConfigError::NoClass { rule: number + 1, class });
            }
        }
        all.rules = Rules::new(rules);
        all.look_at_texts = all.rules.look_at_texts();
        Ok(all)
    }

    /// Them by their numbers.
    pub fn list(&self) -> &[JobClass] {
        &self.list
    }

    /// True if there is nothing to ask: all jobs are alike.
    pub(super) fn are_one(&self) -> bool {
        self.rules == Rules::default()
    }

    /// True if a text can make a difference.
    pub(super) fn look_at_texts(&self) -> bool {
        self.look_at_texts
    }

    /// The class of a job.
    pub(super) fn class(&self, subject: &pgsession::sql::Subject<'_>) -> Class {
        self.rules.class(subject).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_class_that_is_there() {
        let web = || JobClass { name: "web".to_owned(), wait_max: None };
        let rule = |class| Rule { tests: Vec::new(), class: Class { class, priority: 1 } };
        let classes = Classes::new(vec![web()], vec![rule(1), rule(0)]).unwrap();
        assert_eq!(
            classes.list().iter().map(|one| &*one.name).collect::<Vec<_>>(),
            ["other", "web"]
        );
        assert!(!classes.are_one() && !classes.look_at_texts());
        assert!(Classes::default().are_one());
        let error = Classes::new(vec![web()], vec![rule(1), rule(2)]).unwrap_err().to_string();
        assert_eq!(error, "rule 2 of the classes names class 2, which is not there");
        let error = Classes::new(vec![web(); CLASSES_MAX], Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "classes is 257, but must be 1 to 256");
    }
}
