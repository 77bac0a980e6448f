//! A, B, A, B, ..., A: runs with the settings as they are and as they might be, one after the other
//! on the same database, and what the ratio of their throughputs says.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ::tpcc::tuning::{self, Before};
use ::tpcc::{Outcome, Plan};
use cli::{Failure, Session};
use indicatif::ProgressBar;
use measure::{ChangeVerdict, Ratio};
use schemars::JsonSchema;
use serde::Serialize;

use crate::target::Target;
use crate::terminals;

/// Time that a server which is not ours may take to answer after its restart.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

/// A value that a setting might have.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(super) struct Change {
    /// Name of the setting.
    pub(super) setting: String,
    /// Value before.
    pub(super) from: String,
    /// Value afterwards.
    pub(super) to: String,
    /// True if it is in force only after a restart.
    pub(super) restart: bool,
}

/// Record of a trial.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Trial {
    /// Settings that were changed.
    pub(super) changes: Vec<Change>,
    /// New orders a minute of A, B, A, ..., A.
    pub(super) new_orders_per_minute: Vec<f64>,
    /// The records of these runs.
    pub(super) runs: Vec<String>,
    /// Duration of each measurement.
    pub(super) measured: Duration,
    pub(super) result: Tried,
}

impl Trial {
    /// One that was not made.
    pub(super) fn skipped(changes: &[Change], result: Tried) -> Trial {
        let (new_orders_per_minute, runs) = (Vec::new(), Vec::new());
        let (changes, measured) = (changes.to_vec(), Duration::ZERO);
        Trial { changes, new_orders_per_minute, runs, measured, result }
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self.result, Tried::Measured { kept: true, .. })
    }
}

/// End of a trial.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tried {
    /// B over A, and what to make of it.
    Measured {
        ratio: Ratio,
        /// Effect of the change, in a word.
        finding: &'static str,
        /// True if it was kept.
        kept: bool,
    },
    /// The server does not start or run with it.
    Refused {
        /// The server's own words.
        why: String,
    },
    /// It would take longer than the user wants to wait for.
    TooLong {
        /// Time that it would take \[s\].
        needs_s: f64,
    },
    /// It needs a restart of a server that is not ours.
    NotOurs,
    /// The user stopped it.
    Interrupted,
}

/// Effect of a change, in a word.
pub(super) fn finding(verdict: ChangeVerdict) -> &'static str {
    match verdict {
        ChangeVerdict::Better => "helps",
        ChangeVerdict::Worse => "hurts",
        ChangeVerdict::NoDifference => "no difference",
        ChangeVerdict::Inconclusive => "cannot tell",
    }
}

/// A server whose settings are changed, and put back whatever happens.
pub(super) struct Bench<'a> {
    pub(super) target: &'a mut Target,
    /// Command that restarts a server that is not ours, if its owner has given one.
    pub(super) restart: Option<&'a str>,
    pub(super) session: &'a Session,
    pub(super) bar: ProgressBar,
    /// Changes that were kept, in the order in which they came to be, and what was there before.
    pub(super) kept: Vec<(Change, Before)>,
    /// Changes that are tried now, as far as they are written.
    pub(super) tried: Vec<(Change, Before)>,
}

impl Bench<'_> {
    /// True if a change can be tried at all.
    pub(super) fn can(&mut self, change: &Change) -> bool {
        !change.restart || self.restart.is_some() || self.target.private().is_some()
    }

    /// Tries changes in as many B as `rounds`, and leaves the server as it was.
    pub(super) fn trial(
        &mut self,
        changes: &[Change],
        plan: &Plan,
        rounds: u32,
        judge: impl Fn(Ratio) -> ChangeVerdict,
        confidence: f64,
    ) -> Result<Trial, Failure> {
        let restart = changes.iter().any(|change| change.restart);
        let (mut values, mut runs) = (Vec::new(), Vec::new());
        let mut result = Tried::Interrupted;
        for nth in 0..=2 * rounds {
            if self.session.interrupted() {
                break;
            }
            let switched = match nth % 2 {
                0 => self.put_back(restart),
                _ => self.change(changes, restart),
            };
            if let Err(why) = switched {
                result = Tried::Refused { why: why.to_string() };
                break;
            }
            tuning::checkpoint(&self.target.config).map_err(Failure::machine)?;
            let arm = ["A", "B"][nth as usize % 2];
            self.bar.set_message(format!("{arm}: {}", name(changes)));
            let kept = terminals::run(self.target, plan, self.session)?;
            self.bar.inc(1);
            let judged = kept.record.judge();
            match judged.outcome {
                Outcome::Interrupted => break,
                Outcome::Invalid(why) => {
                    result = Tried::Refused { why: format!("a run with it is invalid: {why}") };
                    break;
                }
                _ => values.push(judged.new_orders_per_minute.mean),
            }
            runs.push(kept.id);
        }
        self.put_back(restart)?;
        if values.len() == 2 * rounds as usize + 1 {
            let ratio = Ratio::alternating(&values, confidence);
            let verdict = judge(ratio);
            let kept = verdict == ChangeVerdict::Better;
            result = Tried::Measured { ratio, finding: finding(verdict), kept };
        }
        let (changes, measured) = (changes.to_vec(), plan.measure);
        Ok(Trial { changes, new_orders_per_minute: values, runs, measured, result })
    }

    /// Keeps changes: what was tried and helps.
    pub(super) fn keep(&mut self, changes: &[Change]) -> Result<(), Failure> {
        self.change(changes, changes.iter().any(|change| change.restart))?;
        self.kept.append(&mut self.tried);
        Ok(())
    }

    /// Takes back all that was kept, to see what it does in all; what it was.
    pub(super) fn unkeep(&mut self) -> Result<Vec<Change>, Failure> {
        self.tried.append(&mut self.kept);
        let changes: Vec<Change> = self.tried.iter().map(|(change, _)| change.clone()).collect();
        self.put_back(changes.iter().any(|change| change.restart))?;
        Ok(changes)
    }

    /// Writes changes; each is noted as soon as it is written, so that it is taken back.
    fn change(&mut self, changes: &[Change], restart: bool) -> Result<(), Failure> {
        for change in changes {
            let before = tuning::set(&self.target.config, &change.setting, &change.to);
            self.tried.push((change.clone(), before.map_err(Failure::machine)?));
        }
        if restart { self.restarted() } else { Ok(()) }
    }

    /// Takes back what is tried. A private server that does not come up with it forgets all that it
    /// was told, and is told again what was kept.
    pub(super) fn put_back(&mut self, restart: bool) -> Result<(), Failure> {
        if let Some(private) = self.target.private()
            && private.pid().is_none()
        {
            private.forget_settings().map_err(Failure::machine)?;
            private.restart().map_err(Failure::machine)?;
            self.tried.clear();
            let kept: Vec<Change> = self.kept.drain(..).map(|(change, _)| change).collect();
            return self.keep(&kept);
        }
        while let Some((_, before)) = self.tried.last() {
            tuning::restore(&self.target.config, before).map_err(Failure::machine)?;
            self.tried.pop();
        }
        if restart { self.restarted() } else { Ok(()) }
    }

    fn restarted(&mut self) -> Result<(), Failure> {
        if let Some(private) = self.target.private() {
            return private.restart().map_err(Failure::machine);
        }
        let Some(command) = self.restart else {
            return Err(Failure::Usage(
                "the server is not ours and needs a restart: say how with --restart".into(),
            ));
        };
        let ended = Command::new("/bin/sh").args(["-c", command]).output();
        let ended = ended.map_err(Failure::machine)?;
        if !ended.status.success() {
            let told = String::from_utf8_lossy(&ended.stderr);
            let told = told.trim().lines().last().unwrap_or("it says nothing").to_owned();
            return Err(Failure::Machine(format!("`{command}` failed: {told}. {}", self.undo())));
        }
        let began = Instant::now();
        while !tuning::answers(&self.target.config) {
            if began.elapsed() > PATIENCE {
                let waited = PATIENCE.as_secs();
                let undo = self.undo();
                return Err(Failure::Machine(format!(
                    "the server does not answer {waited} s after `{command}`. {undo}"
                )));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Advice to its owner on a server that does not come back.
    fn undo(&self) -> String {
        let written = self.tried.iter().chain(&self.kept);
        let written: Vec<&str> = written.map(|(change, _)| change.setting.as_str()).collect();
        match written.as_slice() {
            [] => "Nothing of ours is left in its settings.".to_owned(),
            written => format!(
                "What we wrote is in postgresql.auto.conf: remove the lines of {} and start it",
                written.join(", ")
            ),
        }
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        // Only after a failure is there anything left, and that failure is what is told.
        let restart = self.tried.iter().any(|(change, _)| change.restart);
        self.put_back(restart).ok();
    }
}

/// Name of what is tried, in a word.
pub(super) fn name(changes: &[Change]) -> String {
    match changes {
        [change] => format!("{} = {}", change.setting, change.to),
        changes => format!("all {} together", changes.len()),
    }
}
