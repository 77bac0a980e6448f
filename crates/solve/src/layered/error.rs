//! Faults of a layered model, or of its answer, named by the part.

use crate::SolveError;

/// Why a layered model has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayeredError {
    /// A number is out of range.
    #[error("{place}: {cause}")]
    Number {
        /// The part.
        place: String,
        /// The fault of the number.
        cause: SolveError,
    },
    /// An index names nothing.
    #[error("{place} names {what}, which there is not; count from 0")]
    NoSuch {
        /// The part that names it.
        place: String,
        /// The thing that it names.
        what: String,
    },
    /// A task without entries, or a reference task without exactly one.
    #[error(
        "task `{task}` has {entries} entries; give a reference task exactly one, others \
         at least one"
    )]
    Entries {
        /// The task.
        task: String,
        /// Number of its entries.
        entries: usize,
    },
    /// Somebody calls a reference task.
    #[error(
        "{place} calls the reference task `{task}`, whose customers nobody calls; make it \
         a task of threads"
    )]
    CallsReference {
        /// The caller.
        place: String,
        /// The reference task.
        task: String,
    },
    /// A task calls itself, by itself or through others: its threads could wait for each other for ever.
    #[error(
        "task `{task}` calls itself, perhaps through others; threads that wait for \
         threads of their own task may wait for ever: split the task"
    )]
    Cycle {
        /// A task on the way round.
        task: String,
    },
    /// Nobody calls an entry.
    #[error("{place} is called by nobody; call it, give it an open rate, or remove it")]
    Unreached {
        /// The entry.
        place: String,
    },
    /// A count is larger than what is solved or simulated.
    #[error(
        "{place}: the number of {name} is {value}, above the {most} that are solved or simulated; \
         {way_out}"
    )]
    TooMany {
        /// The part.
        place: String,
        /// The things that are counted.
        name: &'static str,
        /// Their number.
        value: u32,
        /// The largest number that is allowed.
        most: u32,
        /// The way out.
        way_out: &'static str,
    },
    /// A customer goes round without taking any time.
    #[error(
        "a cycle of the reference task `{task}` takes no time; give it a think time or a \
         demand"
    )]
    NoTime {
        /// The reference task.
        task: String,
    },
    /// Requests that wait for no reply are more than a station can take.
    #[error(
        "{place} is asked for {utilisation:.3} of what it can do by requests that wait \
         for no reply; lower their rate below {:.3} of today's, cut the demand or add \
         capacity", 1.0 / .utilisation
    )]
    Unstable {
        /// The station.
        place: String,
        /// Its utilisation by open requests alone.
        utilisation: f64,
    },
    /// The layers do not agree in the end.
    #[error(
        "the layers still change by {change:.1e} after {rounds} rounds; there is no \
         answer by formula: simulate it"
    )]
    NotConverged {
        /// Number of times that they were solved.
        rounds: usize,
        /// The largest relative change in the last round.
        change: f64,
    },
    /// The layers are too many, or what waits in them.
    #[error(
        "the layers take more than {steps:.0e} steps, which is more than are taken; there is no \
         answer by formula: simulate it"
    )]
    TooLong {
        /// Number of steps that are taken at the most.
        steps: f64,
    },
    /// The answer breaks a law.
    #[error(
        "{place}: {law} does not hold ({value:.6}), so the approximation is worthless \
         here; there is no answer by formula: simulate it"
    )]
    Unsound {
        /// The part.
        place: String,
        /// The law.
        law: &'static str,
        /// The value that breaks it.
        value: f64,
    },
}
