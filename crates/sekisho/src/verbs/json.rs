//! Answers of `--json` that several verbs have in common: a run and a score, with units in the names.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use advise::{Load, Quantity, Score, Value};
use cli::json::{Answer, Interrupted, Quantiles, quantiles};
use cli::{Failure, Verdict, say};
use expectations::{ExpectationAnswer, Outcome, quantity_text, verdict_of};
use measure::{
    ClassSpec, ErrorKind, Estimate, Judgement, LittleCheck, Measures, Phase, PhaseJudgement,
    RunHeader, RunRecord,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The name of a value as files have it: `connect-refused`.
pub(crate) fn name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::from("?"),
    }
}

/// Measures of a class, or of all requests.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Measures")]
pub(crate) struct MeasuresAnswer<'a> {
    /// Number of requests that were answered.
    completed: u64,
    /// Number of requests that failed, by the kind of failure.
    errors: &'a BTreeMap<ErrorKind, u64>,
    /// Throughput \[1/s\].
    throughput_per_s: Estimate,
    /// None if nothing was completed.
    response_s: Option<Estimate>,
    /// Quantiles of the response by their q \[s\].
    response_quantiles_s: Quantiles,
    /// Longest response \[s\].
    response_max_s: Option<f64>,
    /// Mean time to the first byte \[s\].
    first_byte_mean_s: Option<f64>,
    /// Mean time to open a connection \[s\].
    connect_mean_s: Option<f64>,
    /// Bytes of answers \[Mbit/s\].
    mbit_per_s: f64,
    /// Response times in all, over the length: the mean number of requests in flight.
    load_factor: f64,
}

impl<'a> From<&'a Measures> for MeasuresAnswer<'a> {
    fn from(of: &'a Measures) -> MeasuresAnswer<'a> {
        let known = of.quantiles.iter().filter_map(|at| Some((at.q, at.response.as_ref()?)));
        MeasuresAnswer {
            completed: of.completed,
            errors: &of.errors,
            throughput_per_s: of.throughput,
            response_s: of.response,
            response_quantiles_s: quantiles(known),
            response_max_s: of.response_max_s,
            first_byte_mean_s: of.first_byte_mean_s,
            connect_mean_s: of.connect_mean_s,
            mbit_per_s: of.mbit_per_s,
            load_factor: of.load_factor,
        }
    }
}

/// A class of requests.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MeasuredClass")]
struct ClassAnswer<'a> {
    /// The class, as the record has it.
    class: &'a ClassSpec,
    measures: MeasuresAnswer<'a>,
}

/// Little's law, held against the run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LittlesLaw")]
struct LittleAnswer {
    /// Requests in flight by counting.
    counted: f64,
    /// Requests in flight by throughput times response; none if nothing was completed.
    computed: Option<f64>,
    /// Difference that is allowed, as a share; none where it cannot be judged.
    tolerance: Option<f64>,
}

impl From<&LittleCheck> for LittleAnswer {
    fn from(of: &LittleCheck) -> LittleAnswer {
        let known = |value: f64| value.is_finite().then_some(value);
        LittleAnswer {
            counted: of.counted,
            computed: known(of.computed),
            tolerance: known(of.tolerance),
        }
    }
}

/// A run: its header, what was measured, and how it was judged.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunAnswer<'a> {
    header: &'a RunHeader,
    /// Time that was measured, without the warm-up \[s\].
    length_s: f64,
    all: MeasuresAnswer<'a>,
    /// Each class by itself.
    classes: Vec<ClassAnswer<'a>>,
    /// Check by Little's law.
    little: LittleAnswer,
    /// Faults that make the measurement invalid.
    faults: Vec<String>,
    /// None of a run that was cut off.
    warnings: Option<&'a [String]>,
    /// The expectations that were named, each with its verdict.
    expectations: Vec<ExpectationAnswer<'a>>,
}

impl<'a> RunAnswer<'a> {
    pub(crate) fn new(
        record: &'a RunRecord,
        judgement: &'a Judgement,
        outcomes: &'a [Outcome],
    ) -> RunAnswer<'a> {
        let classes = record.header.classes.iter().zip(&judgement.classes);
        RunAnswer {
            header: &record.header,
            length_s: judgement.length_s,
            all: (&judgement.all).into(),
            classes: classes
                .map(|(class, of)| ClassAnswer { class, measures: of.into() })
                .collect(),
            little: (&judgement.little).into(),
            faults: judgement.faults.iter().map(ToString::to_string).collect(),
            warnings: record.summary.as_ref().map(|summary| &*summary.warnings),
            expectations: outcomes.iter().map(Outcome::answer).collect(),
        }
    }
}

/// A part of a run whose load varies.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MeasuredPhase")]
pub(crate) struct PhaseAnswer<'a> {
    phase: &'a Phase,
    /// True if the run went on to its end.
    complete: bool,
    all: MeasuresAnswer<'a>,
    /// Quantities that did not settle.
    drifting: &'a [&'static str],
    /// Faults of its measurement, in words.
    faults: Vec<String>,
}

impl<'a> From<&'a PhaseJudgement> for PhaseAnswer<'a> {
    fn from(part: &'a PhaseJudgement) -> PhaseAnswer<'a> {
        PhaseAnswer {
            phase: &part.phase,
            complete: part.complete,
            all: (&part.judgement.all).into(),
            drifting: &part.drifting,
            faults: part.judgement.faults.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A run that was measured.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Measured<'a> {
    #[serde(flatten)]
    pub(crate) run: RunAnswer<'a>,
    /// Parts of the run; empty where the load does not vary.
    pub(crate) phases: Vec<PhaseAnswer<'a>>,
    /// File of the run's record.
    pub(crate) record: &'a Path,
    /// Files that were written, if they were asked for.
    pub(crate) csv: Option<&'a Path>,
    /// The file for HdrHistogram, if one was asked for.
    pub(crate) hlog: Option<&'a Path>,
}

impl Answer for Measured<'_> {
    const FORMAT: &'static str = "sekisho/measure/1";
}

/// A prediction held against a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Score")]
pub(crate) struct ScoreAnswer<'a> {
    /// Name of the run.
    run: &'a str,
    /// The load.
    load: &'a Load,
    /// Number of slots, where it was named.
    slots: Option<u32>,
    /// Its verdict, in a word.
    verdict: &'static str,
    /// True if the formula's numbers are approximate, with their largest error where it was tried.
    approximate: bool,
    /// That error; none where it was not tried.
    error: Option<f64>,
    /// A row for each quantity.
    rows: Vec<RowAnswer>,
    /// From the formula to the measurement, step by step.
    accounts: Vec<AccountAnswer<'a>>,
    /// Ways in which the prediction lies beyond its calibration.
    beyond: &'a [String],
}

/// A quantity: predicted by formula and simulation, and measured.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScoredQuantity")]
struct RowAnswer {
    /// Name of the quantity.
    quantity: String,
    /// Unit of its values.
    unit: &'static str,
    /// Number that were completed.
    completed: u64,
    /// Value by the formula.
    formula: Option<Value>,
    simulated: Value,
    /// Measured value.
    measured: Estimate,
    /// Relative error of the simulated value; none where nothing was measured.
    error: Option<f64>,
    /// Its verdict, in a word.
    verdict: &'static str,
}

/// The mean response with so much taken into account.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Account")]
struct AccountAnswer<'a> {
    /// Fact that is taken into account.
    what: &'a str,
    /// Mean response with it \[s\].
    response_s: f64,
}

impl<'a> From<&'a Score> for ScoreAnswer<'a> {
    fn from(score: &'a Score) -> ScoreAnswer<'a> {
        let row = |row: &advise::Row| RowAnswer {
            quantity: quantity_text(&row.quantity),
            unit: if row.quantity == Quantity::Throughput { "1/s" } else { "s" },
            completed: row.completed,
            formula: row.formula,
            simulated: row.simulated,
            measured: row.measured,
            error: Some(row.error()).filter(|error| error.is_finite()),
            verdict: verdict_of(row.right).word(),
        };
        let accounts = score.accounts.iter();
        ScoreAnswer {
            run: &score.run,
            load: &score.load,
            slots: score.slots,
            verdict: verdict_of(score.right()).word(),
            approximate: score.approximation.approximate,
            error: score.approximation.error,
            rows: score.rows.iter().map(row).collect(),
            accounts: accounts
                .map(|account| AccountAnswer { what: &account.what, response_s: account.response })
                .collect(),
            beyond: &score.beyond,
        }
    }
}

/// End of a command that was interrupted before there was anything to tell. A person knows it.
pub(crate) fn interrupted(as_json: bool, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if as_json {
        say(out, &Interrupted::default().line())?;
    }
    Ok(Verdict::Interrupted)
}

/// Scores as answers have them.
pub(crate) fn scores(of: &[Score]) -> Vec<ScoreAnswer<'_>> {
    of.iter().map(ScoreAnswer::from).collect()
}
