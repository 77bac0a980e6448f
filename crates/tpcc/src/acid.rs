//! The tests of atomicity and isolation of clause 3: two transactions of the product, interleaved at
//! defined points, and what they and the rows show.
//!
//! A transaction is stopped right before its end ([`OpenTransaction`](super::transactions)) or by a
//! row that a third session holds; that another one waits for it is seen in the server's locks, not
//! guessed from the time. The specification describes what a database that locks does and allows for
//! one that keeps versions (its cases); what PostgreSQL shows at each level is written down beside
//! each thing that is looked at.

mod scripts;
mod stage;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use super::connection::Config;
use super::terminals::RunError;
use super::transactions::{Execution, Isolation, TransactionError};
use stage::Stage;

/// Interval between looks for a wish to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit of a test; one takes a fraction of a second.
const TEST_MAX: Duration = Duration::from_secs(60);

/// A test of clause 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcidTest {
    /// A Payment that commits changes all four tables (3.2.2.1).
    AtomicityCommit,
    /// A Payment that is rolled back changes none (3.2.2.2).
    AtomicityRollback,
    /// Order-Status while a New-Order is open (3.4.2.1).
    Isolation1,
    /// The same, and the New-Order is rolled back (3.4.2.2).
    Isolation2,
    /// Two New-Orders of a district (3.4.2.3).
    Isolation3,
    /// The same, and the first is rolled back for its invalid item (3.4.2.4).
    Isolation4,
    /// Payment of a customer while a Delivery is open (3.4.2.5).
    Isolation5,
    /// The same, and the Delivery is rolled back (3.4.2.6).
    Isolation6,
    /// Prices are raised while a New-Order is open (3.4.2.7).
    Isolation7,
    /// A New-Order while a Delivery is open that found none in its district (3.4.2.8).
    Isolation8,
    /// A New-Order of a customer while an Order-Status of theirs is open (3.4.2.9).
    Isolation9,
}

impl AcidTest {
    /// All of them, in the specification's order.
    pub const ALL: [AcidTest; 11] = [
        AcidTest::AtomicityCommit,
        AcidTest::AtomicityRollback,
        AcidTest::Isolation1,
        AcidTest::Isolation2,
        AcidTest::Isolation3,
        AcidTest::Isolation4,
        AcidTest::Isolation5,
        AcidTest::Isolation6,
        AcidTest::Isolation7,
        AcidTest::Isolation8,
        AcidTest::Isolation9,
    ];

    /// Its name, its clause, and what is done.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            AcidTest::AtomicityCommit => {
                ("atomicity 1", "3.2.2.1", "a Payment is performed and commits")
            }
            AcidTest::AtomicityRollback => {
                ("atomicity 2", "3.2.2.2", "a Payment is stopped before its end and rolled back")
            }
            AcidTest::Isolation1 => (
                "isolation 1",
                "3.4.2.1",
                "T1, a New-Order, stops before its commit; T2 asks for the status of that \
                 customer's order; T1 commits; it is asked for again",
            ),
            AcidTest::Isolation2 => {
                ("isolation 2", "3.4.2.2", "as isolation 1, but T1 is rolled back")
            }
            AcidTest::Isolation3 => (
                "isolation 3",
                "3.4.2.3",
                "T1, a New-Order, stops before its commit; T2 is a New-Order of the same customer; \
                 T1 commits",
            ),
            AcidTest::Isolation4 => (
                "isolation 4",
                "3.4.2.4",
                "as isolation 3, but T1 has an invalid item, stops before its rollback, and is \
                 rolled back",
            ),
            AcidTest::Isolation5 => (
                "isolation 5",
                "3.4.2.5",
                "T1, a Delivery, stops before its commit; T2 is a Payment of a customer whose order \
                 it delivers; T1 commits",
            ),
            AcidTest::Isolation6 => {
                ("isolation 6", "3.4.2.6", "as isolation 5, but T1 is rolled back")
            }
            AcidTest::Isolation7 => (
                "isolation 7",
                "3.4.2.7",
                "T2, a New-Order of items x, y, x, stops before its commit; T3 raises both prices \
                 by 10 % and commits; T2 reads the prices again and commits",
            ),
            AcidTest::Isolation8 => (
                "isolation 8",
                "3.4.2.8",
                "a district's rows of NEW-ORDER are removed; T1, a Delivery, finds none there and \
                 stops before its commit; T2 is a New-Order in the district; T1 looks again and \
                 commits",
            ),
            AcidTest::Isolation9 => (
                "isolation 9",
                "3.4.2.9",
                "T1, an Order-Status, stops before its commit; T2 is a New-Order of that customer; \
                 T1 looks again and commits",
            ),
        }
    }

    /// A short name, the same in every output: `isolation 3`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// The clause that describes it.
    pub fn clause(self) -> &'static str {
        self.words().1
    }

    /// The steps of the test.
    pub fn steps(self) -> &'static str {
        self.words().2
    }
}

/// Plan of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcidPlan {
    /// The side that runs the profiles.
    pub execution: Execution,
    /// The isolation of the sessions.
    pub isolation: Isolation,
    /// Warehouses, districts, customers and items follow from it.
    pub seed: u64,
}

/// Expected value of one observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The same at every level.
    Always(String),
    /// The name of the level itself.
    Level,
    /// The one or the other, both right: a level with a snapshot gives a transaction up where READ
    /// COMMITTED goes on with the newer row.
    ByLevel {
        /// At REPEATABLE READ and SERIALIZABLE.
        snapshot: String,
        /// At READ COMMITTED.
        read_committed: String,
    },
    /// The demand of clause 3.4.1, and the anomaly that READ COMMITTED shows in its place.
    Isolated {
        /// At REPEATABLE READ and SERIALIZABLE.
        snapshot: String,
        /// At READ COMMITTED.
        read_committed: String,
        /// The name of that anomaly.
        anomaly: &'static str,
    },
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The thing observed: `T2's retries`.
    pub what: String,
    /// The value that must be seen.
    pub expected: Expected,
    /// The value that was seen.
    pub seen: String,
}

/// Result of a test, or of an observation in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcidFinding {
    /// As an isolated execution would.
    Holds,
    /// An anomaly that the level allows, and that clause 3.4.1 does not.
    Anomaly(&'static str),
    /// Something else than the level promises.
    Fails,
}

/// A test that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The test.
    pub test: AcidTest,
    /// Everything that was looked at, in order.
    pub observations: Vec<Observation>,
}

impl Observation {
    /// The value that must be seen at a level.
    pub fn expected_at(&self, level: Isolation) -> &str {
        let weak = level == Isolation::ReadCommitted;
        match &self.expected {
            Expected::Always(value) => value,
            Expected::Level => level.name(),
            Expected::ByLevel { read_committed, .. }
            | Expected::Isolated { read_committed, .. }
                if weak =>
            {
                read_committed
            }
            Expected::ByLevel { snapshot, .. } | Expected::Isolated { snapshot, .. } => snapshot,
        }
    }

    /// The result, if the sessions were at this level.
    pub fn finding(&self, level: Isolation) -> AcidFinding {
        match &self.expected {
            _ if self.seen != self.expected_at(level) => AcidFinding::Fails,
            Expected::Isolated { snapshot, anomaly, .. } if self.seen != *snapshot => {
                AcidFinding::Anomaly(anomaly)
            }
            _ => AcidFinding::Holds,
        }
    }
}

impl Trial {
    /// The result, if the sessions were at this level: the worst of what was seen.
    pub fn finding(&self, level: Isolation) -> AcidFinding {
        let findings = self.observations.iter().map(|seen| seen.finding(level));
        findings.max().unwrap_or(AcidFinding::Fails)
    }
}

/// Why the tests could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AcidError {
    /// There is no way in, or the database is not one that was loaded.
    #[error(transparent)]
    Begin(#[from] RunError),
    /// Others would come in between.
    #[error(
        "{sessions} other sessions work in the database, and would come in between: stop them, or \
         name another one"
    )]
    Busy {
        /// Their number.
        sessions: i64,
    },
    /// A transaction could not be performed at all.
    #[error("{doing}: {source}")]
    Transaction {
        /// The test.
        doing: &'static str,
        /// The message of the database.
        source: TransactionError,
    },
    /// The changes that a test has made beside its transactions could not be put back.
    #[error("what {test} changed could not be put back ({cause}): run this yourself: {statement}")]
    NotUndone {
        /// The test.
        test: &'static str,
        /// The message of the database.
        cause: String,
        /// The statement that puts them back.
        statement: String,
    },
    /// The user asked to stop.
    #[error("interrupted: what the tests had changed beside their transactions is put back")]
    Interrupted,
}

/// Makes all tests on a loaded database on which nobody else works, until `stop` is set. `progress`
/// is told how many are done.
///
/// The transactions commit as those of a run do. Two tests change more: one raises two prices, one
/// removes a district's rows of NEW-ORDER; both put back what was there, also when they fail or are
/// stopped. The consistency conditions hold before and after.
///
/// # Errors
/// If the database cannot be reached, is not loaded, is in use, or is lost; or if it was to stop.
/// A test that comes out wrong is no error.
pub fn acid(
    config: &Config,
    plan: &AcidPlan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Trial>, AcidError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(RunError::Machine)?;
    runtime.block_on(async {
        let mut stage = Stage::set(config, plan).await?;
        let mut trials = Vec::new();
        for (done, test) in AcidTest::ALL.into_iter().enumerate() {
            progress(done);
            let played = play(&mut stage, test, stop).await;
            stage.put_back(test).await?;
            trials.push(Trial { test, observations: played? });
        }
        progress(AcidTest::ALL.len());
        Ok(trials)
    })
}

/// One test, bounded in time.
async fn play(
    stage: &mut Stage<'_>,
    test: AcidTest,
    stop: &AtomicBool,
) -> Result<Vec<Observation>, AcidError> {
    let begun = std::time::Instant::now();
    let mut script = pin!(scripts::play(stage, test));
    // Also before a test that would be over by the first look.
    while !stop.load(Ordering::Relaxed) {
        if let Ok(played) = timeout(LOOK, &mut script).await {
            return played.or_else(|stuck| stuck.observed(test));
        }
        if begun.elapsed() > TEST_MAX {
            let words = format!("no end within {} s", TEST_MAX.as_secs());
            return scripts::Stuck::Unexpected(words).observed(test);
        }
    }
    Err(AcidError::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(expected: Expected, seen: &str) -> Observation {
        Observation { what: "it".into(), expected, seen: seen.into() }
    }

    #[test]
    fn what_was_seen_is_judged_at_the_level_that_is_claimed() {
        use AcidFinding::{Anomaly, Fails, Holds};
        use Isolation::{ReadCommitted, RepeatableRead, Serializable};
        let isolated = || Expected::Isolated {
            snapshot: "none".into(),
            read_committed: "3001".into(),
            anomaly: "phantom",
        };
        let by_level = || Expected::ByLevel { snapshot: "1".into(), read_committed: "0".into() };
        let cases = [
            (seen(Expected::Always("a".into()), "a"), [Holds, Holds, Holds]),
            (seen(Expected::Always("a".into()), "b"), [Fails, Fails, Fails]),
            (seen(Expected::Level, "repeatable read"), [Fails, Holds, Fails]),
            (seen(by_level(), "1"), [Fails, Holds, Holds]),
            (seen(by_level(), "0"), [Holds, Fails, Fails]),
            (seen(isolated(), "none"), [Fails, Holds, Holds]),
            (seen(isolated(), "3001"), [Anomaly("phantom"), Fails, Fails]),
            (seen(isolated(), "3002"), [Fails, Fails, Fails]),
        ];
        for (observation, findings) in cases {
            let found = [ReadCommitted, RepeatableRead, Serializable]
                .map(|level| observation.finding(level));
            assert_eq!(found, findings, "{observation:?}");
        }
        let trial = |observations| Trial { test: AcidTest::Isolation8, observations };
        let both = vec![seen(isolated(), "3001"), seen(by_level(), "0")];
        assert_eq!(trial(both.clone()).finding(ReadCommitted), Anomaly("phantom"));
        assert_eq!(trial(both).finding(Serializable), Fails);
        assert_eq!(trial(Vec::new()).finding(ReadCommitted), Fails, "nothing was looked at");
    }
}
