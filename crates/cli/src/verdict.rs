//! End of a command: a verdict with its exit code, or a failure that names the way out.

use std::fmt;
use std::process::ExitCode;

/// End of a command that did its work. The codes are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The expectation holds, or there was none.
    Holds,
    /// The interval straddles the limit: measure longer.
    Inconclusive,
    /// An expectation fails.
    Fails,
    /// The model does not fit what was measured.
    DoesNotFit,
    /// The measurement is invalid: the generator was the limit, or the run was not stationary.
    Invalid,
    /// The user interrupted it; what was measured so far is kept.
    Interrupted,
}

impl Verdict {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Verdict::Holds => 0,
            Verdict::Fails => 3,
            Verdict::Inconclusive => 4,
            Verdict::Invalid => 5,
            Verdict::DoesNotFit => 6,
            Verdict::Interrupted => 130,
        }
    }

    /// The word that begins a verdict line.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Invalid => "invalid",
            Verdict::DoesNotFit => "does not fit",
            Verdict::Interrupted => "interrupted",
        }
    }

    /// The worse of two, for a command that gives several.
    pub fn and(self, other: Verdict) -> Verdict {
        self.max(other)
    }
}

/// The word at the head of a report. What was seen until an interrupt decides nothing, and is not wrong.
impl From<Verdict> for report::Outcome {
    fn from(verdict: Verdict) -> report::Outcome {
        match verdict {
            Verdict::Holds => report::Outcome::Holds,
            Verdict::Fails | Verdict::DoesNotFit => report::Outcome::Fails,
            Verdict::Inconclusive | Verdict::Interrupted => report::Outcome::Inconclusive,
            Verdict::Invalid => report::Outcome::Invalid,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(verdict.code())
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The user can mend it: what, where, and the way out. Exit code 2.
    Usage(String),
    /// The machine is in the way: a file that cannot be written, a port that is taken. The user can mend
    /// that too. Exit code 2.
    Machine(String),
    /// A defect of this program, and nothing else. Exit code 1.
    Defect(String),
    /// The user asked to stop: what it was at. Exit code 130.
    Interrupted(String),
}

impl Failure {
    /// Failure that the user can mend, as the error tells it.
    pub fn usage(error: impl fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    /// Failure of the machine, as the error tells it.
    pub fn machine(error: impl fmt::Display) -> Failure {
        Failure::Machine(error.to_string())
    }

    /// A defect of this program, as the error tells it.
    pub fn defect(error: impl fmt::Display) -> Failure {
        Failure::Defect(error.to_string())
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Defect(_) => 1,
            Failure::Usage(_) | Failure::Machine(_) => 2,
            Failure::Interrupted(_) => Verdict::Interrupted.code(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Machine(text) => f.write_str(text),
            Failure::Defect(text) => {
                write!(f, "{text}; this is a defect of Sekisho: please report it with this line")
            }
            Failure::Interrupted(at) => write!(f, "interrupted while {at}"),
        }
    }
}

impl From<formats::ReadError> for Failure {
    fn from(error: formats::ReadError) -> Failure {
        Failure::usage(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::machine(error)
    }
}

#[cfg(test)]
mod tests {
    use report::Outcome;

    use super::*;

    /// Two verbs said "invalid" of what was interrupted, and two others "inconclusive".
    #[test]
    fn a_verdict_has_one_word_in_every_report() {
        for (verdict, word) in [
            (Verdict::Holds, Outcome::Holds),
            (Verdict::Inconclusive, Outcome::Inconclusive),
            (Verdict::Fails, Outcome::Fails),
            (Verdict::DoesNotFit, Outcome::Fails),
            (Verdict::Invalid, Outcome::Invalid),
            (Verdict::Interrupted, Outcome::Inconclusive),
        ] {
            assert_eq!(Outcome::from(verdict), word, "{verdict:?}");
        }
    }
}
