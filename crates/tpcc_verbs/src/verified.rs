//! Verdict of the consistency conditions on a database after a run, as it is told and kept.

use ::tpcc::verify::{Outcome, Part, Verification, VerifyError, verify};
use cli::text::paragraph;
use cli::{Failure, Session, Verdict, progress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::target::Target;

/// The checks that were made of a database.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verified {
    /// Their number.
    pub(super) checks: usize,
    /// Those that failed.
    pub(super) failed: Vec<Broken>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broken {
    /// Name of the condition.
    check: String,
    /// Statement that must hold.
    statement: String,
    /// Number of rows or groups that break it.
    places: u64,
}

impl From<&Outcome> for Broken {
    fn from(outcome: &Outcome) -> Broken {
        let Outcome { check, broken, .. } = outcome;
        Broken { check: check.name(), statement: check.statement().into(), places: *broken }
    }
}

impl From<&Verification> for Verified {
    fn from(found: &Verification) -> Verified {
        Verified {
            checks: found.outcomes.len(),
            failed: found.failed().map(Broken::from).collect(),
        }
    }
}

impl Verified {
    /// Verifies the consistency conditions; `None` if the user does not want to wait.
    pub(super) fn of(target: &Target, session: &Session) -> Result<Option<Verified>, Failure> {
        let bar = progress(0, "verifying");
        let mut watch = |done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        };
        let found = verify(&target.config, &[Part::Conditions], &session.interrupt, &mut watch);
        bar.finish_and_clear();
        match found {
            Ok(found) => Ok(Some(Verified::from(&found))),
            Err(VerifyError::Interrupted) => Ok(None),
            Err(error) => Err(Failure::machine(error)),
        }
    }

    /// True if every check holds.
    pub(super) fn holds(&self) -> bool {
        self.failed.is_empty()
    }

    /// In a sentence.
    pub(super) fn text(&self) -> String {
        if self.holds() {
            let checks = self.checks;
            return paragraph(&format!("Verified: all {checks} checks of the database hold."));
        }
        let broken = self.failed.iter().map(|Broken { check, statement, places }| {
            paragraph(&format!("fails in {places} places: {check}: {statement}"))
        });
        broken.collect()
    }
}

/// Finding in a sentence.
pub(super) fn verified_text(found: Option<&Verified>) -> String {
    match found {
        Some(found) => found.text(),
        None => paragraph("The database was not verified after the run."),
    }
}

/// The worse of a run's verdict and that on the database after it.
pub(super) fn and_verified(verdict: Verdict, found: Option<&Verified>) -> Verdict {
    match found {
        Some(found) if !found.holds() => verdict.and(Verdict::Fails),
        _ => verdict,
    }
}
