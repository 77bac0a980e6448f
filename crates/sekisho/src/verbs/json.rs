//! Output of `--json`: one object a run, a fit or an answer, with units in the names.

use measure::{Judgement, Measures, RunRecord};
use model_verbs::json::{estimate, quantile};
use serde::Serialize;
use serde_json::{Value, json};

use advise::{Quantity, Score};
use cli::Verdict;

use super::outcome::{Outcome, quantity_text, verdict_of};

/// The name of a value as files have it: `connect-refused`.
pub(crate) fn name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::from("?"),
    }
}

pub(crate) fn measures(measures: &Measures) -> Value {
    let quantiles: serde_json::Map<String, Value> = measures
        .quantiles
        .iter()
        .filter_map(|of| Some((of.q.to_string(), quantile(of.response.as_ref()?))))
        .collect();
    json!({
        "completed": measures.completed,
        "errors": measures.errors,
        "throughput_per_s": estimate(&measures.throughput),
        "response_s": measures.response.as_ref().map(estimate),
        "response_quantiles_s": quantiles,
        "response_max_s": measures.response_max_s,
        "first_byte_mean_s": measures.first_byte_mean_s,
        "connect_mean_s": measures.connect_mean_s,
        "mbit_per_s": measures.mbit_per_s,
        "load_factor": measures.load_factor,
    })
}

/// A run: its header, what was measured, and how it was judged.
pub(crate) fn run(
    record: &RunRecord,
    judgement: &Judgement,
    outcomes: &[Outcome],
    verdict: Verdict,
) -> Value {
    let classes: Vec<Value> = record
        .header
        .classes
        .iter()
        .zip(&judgement.classes)
        .map(|(spec, of_class)| json!({"class": spec, "measures": measures(of_class)}))
        .collect();
    json!({
        "verdict": verdict.word(),
        "exit_code": verdict.code(),
        "header": record.header,
        "length_s": judgement.length_s,
        "all": measures(&judgement.all),
        "classes": classes,
        "little": {
            "counted": judgement.little.counted,
            "computed": judgement.little.computed,
            "tolerance": judgement.little.tolerance,
        },
        "faults": judgement.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "warnings": record.summary.as_ref().map(|summary| &summary.warnings),
        "expectations": outcomes.iter().map(|outcome| json!({
            "verdict": outcome.verdict.word(),
            "line": outcome.line,
        })).collect::<Vec<_>>(),
    })
}

/// A prediction held against a run.
pub(crate) fn score(score: &Score) -> Value {
    let rows: Vec<Value> = score
        .rows
        .iter()
        .map(|row| {
            let unit = if row.quantity == Quantity::Throughput { "1/s" } else { "s" };
            json!({
                "quantity": quantity_text(&row.quantity),
                "unit": unit,
                "completed": row.completed,
                "formula": row.formula,
                "simulated": row.simulated,
                "measured": estimate(&row.measured),
                "error": row.error(),
                "verdict": verdict_of(row.right).word(),
            })
        })
        .collect();
    let accounts: Vec<Value> = score
        .accounts
        .iter()
        .map(|account| json!({"what": account.what, "response_s": account.response}))
        .collect();
    json!({
        "run": score.run,
        "load": score.load,
        "slots": score.slots,
        "verdict": verdict_of(score.right()).word(),
        "approximate": score.approximation.approximate,
        "error": score.approximation.error,
        "rows": rows,
        "accounts": accounts,
        "beyond": score.beyond,
    })
}
