//! Statements of a database with their counts and times, and what the host's processor says.

use measure::figures;

use super::demands::stretch;
use super::draft::{
    Draft, RowStand, SourceFit, SourceRow, constant, exponential, listed, open_class, station,
};
use super::{FitError, FitOptions};
use crate::StationName;

/// A statement as the database counts it.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Its text, or its number.
    pub name: String,
    /// Number of executions.
    pub calls: u64,
    /// Time from its begin to its end, all calls together \[s\].
    pub seconds: f64,
    /// The standard deviation of that \[s\], if it is known.
    pub deviation: Option<f64>,
}

/// Statements, and what is known of the host.
#[derive(Clone, Debug)]
pub struct StatementEvidence {
    /// Sources of the statements.
    pub sources: Vec<String>,
    /// The statements.
    pub statements: Vec<Statement>,
    /// Time for which they were counted \[s\].
    pub seconds: f64,
    /// Processor time that the host used in that time \[s\].
    pub busy: Option<f64>,
    /// A part of the text of the statement that is executed once in each transaction.
    pub once: Option<String>,
}

/// Statements with less than this share of the time are not reported one by one.
const SHARE_MIN: f64 = 0.005;

/// Fits demands by statement, as far as the source tells them.
///
/// # Errors
/// If there is no statement, none is that of a transaction, or the times contradict each other.
pub fn fit_statements(
    evidence: &StatementEvidence,
    options: &FitOptions,
) -> Result<SourceFit, FitError> {
    let all: f64 = evidence.statements.iter().map(|s| s.seconds).sum();
    if evidence.statements.is_empty() || all <= 0.0 {
        return Err(FitError::TooLittle("there is no statement that took any time".into()));
    }
    let reference = reference(evidence)?;
    let transactions = reference.calls as f64;
    let rate = transactions / evidence.seconds;
    let mut draft = Draft::new();
    let mut notes = vec![format!(
        "a transaction is what executes `{}` once: {transactions} of them, {}",
        reference.name,
        figures::rate(rate)
    )];
    by_statement(evidence, all, transactions, (&mut draft, &mut notes), options);
    let each = all / transactions;
    let busy = processor(evidence, each, transactions, options, &mut draft)?;
    draft.classes.push(open_class("transactions", rate, &["cpu", "waits"]));
    let servers = options.cores.unwrap_or(1).max(1);
    let mut cpu = station("cpu", StationName::Sharing, servers);
    cpu.demand = Some(exponential(busy.unwrap_or(each)));
    let mut waits = station("waits", StationName::Delay, 1);
    let load = rate * busy.unwrap_or(each) / f64::from(servers);
    if load >= 0.98 {
        return Err(FitError::TooLittle(format!(
            "{} of {servers} processor(s) would be busy: {}",
            figures::digits(load),
            match (busy, options.cores) {
                (None, _) =>
                    "executing includes waiting; give the host's processor time with \
                              `--busy`",
                (_, None) => "say how many there are with `--cores`",
                _ => "an open model has no steady state there; choose a quieter time",
            }
        )));
    }
    // What the processors of the scenario will make of the demand, and not one processor alone.
    let used = busy.unwrap_or(each) * stretch(servers, load);
    let rest = (each - used).max(0.0);
    if rest > 0.0 {
        waits.demand = Some(constant(rest));
        draft.stations.push(waits);
    } else {
        draft.classes[0].route.truncate(1);
    }
    draft.stations.push(cpu);
    draft.unidentified.push(
        "time between the statements of a transaction, on the way and in the application: the \
         database does not see it"
            .into(),
    );
    let rows = vec![SourceRow {
        name: "executing, a transaction".into(),
        measured: each,
        fitted: used + rest,
        unit: "s",
        stand: RowStand::TakenUp,
    }];
    let clients = [1.0, all / evidence.seconds];
    let scenario = draft.scenario(options, &evidence.sources, clients, rate);
    Ok(SourceFit { scenario, rows, witnesses: Vec::new(), notes })
}

/// Time and visits of each statement that matters.
fn by_statement(
    evidence: &StatementEvidence,
    all: f64,
    transactions: f64,
    (draft, notes): (&mut Draft, &mut Vec<String>),
    options: &FitOptions,
) {
    let mut small = Vec::new();
    for statement in &evidence.statements {
        if statement.seconds < SHARE_MIN * all {
            small.push(statement.name.clone());
            continue;
        }
        let calls = statement.calls as f64;
        let mean = statement.seconds / calls;
        let half = statement.deviation.map_or(mean, |sd| 1.96 * sd / calls.sqrt());
        let name = &statement.name;
        let region = [(mean - half).max(0.0), mean + half];
        draft.parameter(format!("time {name}"), mean, region, "s", options);
        let visits = calls / transactions;
        draft.parameter(format!("visits {name}"), visits, [visits, visits], "visits", options);
    }
    if !small.is_empty() {
        notes.push(format!(
            "{} statements with less than {:.1} % of the time are counted together: {}",
            small.len(),
            100.0 * SHARE_MIN,
            listed(&small)
        ));
    }
}

/// The statement that tells transactions apart: as given, or the one that takes the most
/// time of all.
fn reference(evidence: &StatementEvidence) -> Result<&Statement, FitError> {
    let Some(text) = &evidence.once else {
        let longest = evidence.statements.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        return longest.filter(|s| s.calls > 0).ok_or_else(|| {
            FitError::TooLittle("no statement was called; give a longer time".into())
        });
    };
    let mut found = evidence.statements.iter().filter(|s| s.name.contains(text.as_str()));
    match (found.next(), found.next()) {
        (Some(one), None) if one.calls > 0 => Ok(one),
        (Some(_), Some(_)) => Err(FitError::TooLittle(format!(
            "several statements hold `{text}`: give more of the text with `--once`"
        ))),
        _ => Err(FitError::TooLittle(format!(
            "no statement that was called holds `{text}`: give a part of its text with `--once`"
        ))),
    }
}

/// The processor time of a transaction, by the service demand law D = U T / C.
fn processor(
    evidence: &StatementEvidence,
    each: f64,
    transactions: f64,
    options: &FitOptions,
    draft: &mut Draft,
) -> Result<Option<f64>, FitError> {
    let Some(busy) = evidence.busy else {
        draft.unidentified.push(
            "how much of the executing is processor time and how much waits for locks, reads and \
             writes: all of it is taken as processor time, its most; give the host's with `--busy`"
                .into(),
        );
        draft.parameter("demand", each, [0.0, each], "s", options);
        return Ok(None);
    };
    if let Some(cores) = options.cores
        && busy > 1.02 * f64::from(cores) * evidence.seconds
    {
        return Err(FitError::DoesNotFit(format!(
            "{busy} s of processor time in {} s are more than {cores} processor(s) have",
            evidence.seconds
        )));
    }
    let demand = busy / transactions;
    // Nothing bounds what else the host did; what the statements took bounds their part from above.
    draft.parameter("demand", demand, [0.0, demand], "s", options);
    draft.unidentified.push(
        "how much of the host's processor time belongs to something else: all is charged to the \
         transactions, and their demand may be anything from 0 to that"
            .into(),
    );
    draft.unidentified.push(
        "the processor time of each statement: one figure of the host cannot be divided among them; \
         only their sum is fitted"
            .into(),
    );
    Ok(Some(demand))
}
