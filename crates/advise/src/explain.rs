//! Explanation of the output of somebody else's load tool: Little's law closes or not, the run was
//! past the knee or not, and the next run to make.
//!
//! The three answers rest on as little as they can. Little's law, N = X (R + Z), holds in every
//! closed run whatever the server does (Little 1961; Lazowska et al. 1984, chapter 3), so that where
//! it does not close, the *measurement* is at fault. The knee, N* = (D + Z) / D_max (Lazowska et al.
//! 1984, chapter 5), needs two loads: one run alone cannot tell it.

use std::fmt;

use serde::Serialize;

mod knee;
mod little;
mod third;

pub use knee::{Knee, KneeFrom, Side};
pub use little::{Little, LittleCheck};
pub use third::{NextLoad, NextRun};

/// A load tool whose output is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// wrk, without a rate.
    Wrk,
    /// wrk2: wrk with a rate.
    Wrk2,
    /// ApacheBench.
    Ab,
    /// hey.
    Hey,
    /// oha.
    Oha,
    /// h2load of nghttp2.
    H2load,
    /// weighttp of lighttpd.
    Weighttp,
    /// vegeta.
    Vegeta,
    /// pgbench of PostgreSQL.
    Pgbench,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 9] = [
        Tool::Wrk,
        Tool::Wrk2,
        Tool::Ab,
        Tool::Hey,
        Tool::Oha,
        Tool::H2load,
        Tool::Weighttp,
        Tool::Vegeta,
        Tool::Pgbench,
    ];
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Wrk => "wrk",
            Tool::Wrk2 => "wrk2",
            Tool::Ab => "ab",
            Tool::Hey => "hey",
            Tool::Oha => "oha",
            Tool::H2load => "h2load",
            Tool::Weighttp => "weighttp",
            Tool::Vegeta => "vegeta",
            Tool::Pgbench => "pgbench",
        })
    }
}

/// When a tool sends its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// As soon as the answer to the one before is there: a closed load.
    AtOnce,
    /// By a schedule, if one of its connections is free; time counts from the schedule.
    Scheduled,
    /// By a schedule, whatever is still under way: an open load.
    Open,
}

/// Origin of a printed mean response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MeanFrom {
    /// From the times of the requests.
    Requests,
    /// From the times of the requests, and of some that the tool made up for those that it could
    /// not send while it waited.
    Corrected,
    /// From the clients and the throughput, so that it obeys Little's law whatever happened.
    Derived,
}

/// A printed mean response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolMean {
    /// The mean \[s\], above 0.
    pub seconds: f64,
    /// Error that the printed digits leave \[s\].
    pub rounding: f64,
    /// Its origin.
    pub from: MeanFrom,
}

/// A part of a request of which a tool tells the time: a statement of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolPart {
    /// Its name, such as the text of the statement.
    pub name: String,
    /// Its mean time \[s\].
    pub seconds: f64,
}

/// A run, as the output of a tool tells it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolRun {
    /// The tool.
    pub tool: Tool,
    /// Its clients (connections), if the output names them.
    pub clients: Option<u32>,
    /// When it sends.
    pub pace: Pace,
    /// Requests that it meant to send [1/s], of an open load.
    pub offered: Option<f64>,
    /// Answers [1/s], above 0.
    pub throughput: f64,
    /// Mean response, if it is told.
    pub response: Option<ToolMean>,
    /// The fastest response \[s\].
    pub fastest: Option<f64>,
    /// Quantiles of the response, as (share, \[s\]), both rising.
    pub quantiles: Vec<(f64, f64)>,
    /// Requests that were answered, well or not.
    pub completed: u64,
    /// Number of requests that failed: timeouts, errors, statuses of failure.
    pub failed: u64,
    /// Length of the run \[s\].
    pub seconds: Option<f64>,
    /// Time that each request spends connecting and that its response leaves out \[s\].
    pub connecting: Option<f64>,
    /// Target that was asked for.
    pub target: Option<String>,
    /// The parts of a request, if the tool tells them.
    pub parts: Vec<ToolPart>,
    /// Throughput by interval [1/s], if the tool tells its progress.
    pub progress: Vec<f64>,
    /// Numbers that are easily misread in this output, in sentences.
    pub traps: Vec<String>,
}

/// Knowledge besides the outputs.
#[derive(Clone, Debug, Default)]
pub struct ExplainOptions {
    /// The clients of the runs whose output does not tell them: one for all, or one for each run.
    pub clients: Vec<u32>,
    /// Think time Z between an answer and the next request \[s\].
    pub think: f64,
    /// Mean response with one client \[s\], if it is known from elsewhere.
    pub alone: Option<f64>,
}

/// Meaning of the outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Little's law in each run.
    pub little: Vec<LittleCheck>,
    /// Past the knee or not.
    pub knee: Knee,
    /// The next run to make.
    pub next: NextRun,
    /// Parts on which the time goes, in sentences, if a tool tells parts.
    pub parts: Vec<String>,
}

/// Why outputs cannot be explained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExplainError {
    /// There is no run.
    #[error("there is no run to explain")]
    Nothing,
    /// As many numbers of clients as runs, or one for all, are needed.
    #[error("{given} numbers of clients are given for {runs} runs; give one, or one for each run")]
    Clients {
        /// Number of numbers that are given.
        given: usize,
        /// Number of runs.
        runs: usize,
    },
    /// The output names other clients than the user.
    #[error("run {run} ran with {printed} clients, as its output says, not {given}")]
    Contradicted {
        /// The run, from 1.
        run: usize,
        /// Clients by the output.
        printed: u32,
        /// Clients by the user.
        given: u32,
    },
    /// A given number is impossible.
    #[error("{what} is {value}; give {wanted}")]
    Impossible {
        /// Name of the number.
        what: &'static str,
        /// The number.
        value: f64,
        /// A number that would be right.
        wanted: &'static str,
    },
    /// Runs of different things say nothing about each other.
    #[error("runs 1 and {run} asked for different things ({first}, {other}); explain them apart")]
    Targets {
        /// The run, from 1.
        run: usize,
        /// Target of run 1.
        first: String,
        /// Target of this run.
        other: String,
    },
}

/// Says what runs mean, in the order in which they are given.
///
/// # Errors
/// If there is none, or what is known besides contradicts them.
pub fn explain(runs: &[ToolRun], options: &ExplainOptions) -> Result<Explanation, ExplainError> {
    let first = runs.first().ok_or(ExplainError::Nothing)?;
    if !(options.think >= 0.0 && options.think.is_finite()) {
        let (what, wanted) = ("the think time", "0 s or more");
        return Err(ExplainError::Impossible { what, value: options.think, wanted });
    }
    if let Some(value) = options.alone.filter(|alone| !(*alone > 0.0 && alone.is_finite())) {
        let (what, wanted) = ("the response of a single client", "a time above 0 s");
        return Err(ExplainError::Impossible { what, value, wanted });
    }
    for (at, run) in runs.iter().enumerate() {
        if let (Some(first), Some(other)) = (&first.target, &run.target)
            && first != other
        {
            let (first, other) = (first.clone(), other.clone());
            return Err(ExplainError::Targets { run: at + 1, first, other });
        }
    }
    let clients = clients(runs, &options.clients)?;
    let little: Vec<_> = runs
        .iter()
        .zip(&clients)
        .map(|(run, clients)| little::check(run, *clients, options.think))
        .collect();
    let knee = knee::find(runs, &little, options);
    let next = third::next(runs, &little, &knee, options.alone);
    Ok(Explanation { little, parts: parts(runs), knee, next })
}

/// The clients of each run, from its output or as given.
fn clients(runs: &[ToolRun], given: &[u32]) -> Result<Vec<Option<u32>>, ExplainError> {
    if given.len() > 1 && given.len() != runs.len() {
        return Err(ExplainError::Clients { given: given.len(), runs: runs.len() });
    }
    if given.contains(&0) {
        let (what, wanted) = ("the number of clients", "at least 1");
        return Err(ExplainError::Impossible { what, value: 0.0, wanted });
    }
    let of = |(at, run): (usize, &ToolRun)| {
        let told = given.get(if given.len() == 1 { 0 } else { at }).copied();
        match (run.clients, told) {
            (Some(printed), Some(given)) if printed != given => {
                Err(ExplainError::Contradicted { run: at + 1, printed, given })
            }
            (printed, told) => Ok(printed.or(told)),
        }
    };
    runs.iter().enumerate().map(of).collect()
}

/// The part that takes most of each run's time; with several runs, the part that grew most.
fn parts(runs: &[ToolRun]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let whole: f64 = run.parts.iter().map(|part| part.seconds).sum();
        let longest = run.parts.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        if let Some(part) = longest.filter(|_| whole > 0.0) {
            let share = 100.0 * part.seconds / whole;
            sentences.push(format!("run {}: {share:.0} % of the time is `{}`", at + 1, part.name));
        }
    }
    let told: Vec<_> = runs.iter().filter(|run| !run.parts.is_empty()).collect();
    if let [first, .., last] = told[..] {
        let growth = last.parts.iter().filter_map(|part| {
            let before = first.parts.iter().find(|other| other.name == part.name)?;
            Some((part.seconds - before.seconds, part))
        });
        if let Some((by, part)) = growth.max_by(|a, b| a.0.total_cmp(&b.0))
            && by > 0.0
        {
            let (name, by) = (&part.name, measure::figures::time(by));
            sentences.push(format!("`{name}` grew most, by {by}: a queue stands before it"));
        }
    }
    sentences
}
