//! Records of runs as tables, fits to them, and questions about other loads.

use advise::{FitOptions, Fitted, Numbers, Point, Question, Scenario, SourceFit};
use measure::knee::Knee;
use measure::{Estimate, Histogram, Judgement, KneeRecord, LoadShape, Measures, RunRecord};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::{Form, model, wrong};

/// A file: its name and its text.
type File = (String, String);

fn read((name, text): &File) -> PyResult<RunRecord> {
    let run =
        measure::read_run(text.as_bytes()).map_err(|error| wrong(format!("{name}: {error}")))?;
    match &run.header.part {
        Some(of) => Err(wrong(format!(
            "{name}: this is part {} of a run, and one part is no verdict: merge all of them with \
             `sekisho measure merge RECORD...`, and read what that makes",
            of.part
        ))),
        None => Ok(run),
    }
}

fn read_all(files: &[File]) -> PyResult<Vec<RunRecord>> {
    files.iter().map(read).collect()
}

/// Half the width of an interval, if it is known.
fn half(of: &Estimate) -> Option<f64> {
    of.half_width.is_finite().then_some(of.half_width)
}

/// The side on which the true quantile may lie beyond this one; none where it is the quantile itself.
fn bound(of: &Estimate) -> Option<measure::Bound> {
    measure::Bound::of(of.mean)
}

/// Runs as rows, one for all requests and one for each class; gives JSON.
#[pyfunction]
pub(crate) fn runs(py: Python<'_>, files: Vec<File>) -> PyResult<String> {
    py.detach(|| {
        let mut rows = Vec::new();
        for (file, record) in files.iter().zip(read_all(&files)?) {
            let judgement = record.judge(0.95);
            let (valid, faults) = (record.is_valid(0.95), faults(&record, &judgement));
            let mut push = |class: &str, measures: &Measures| {
                let mut row = row(file, &record, class, measures);
                row["Valid"] = valid.into();
                row["Faults"] = (&*faults).into();
                rows.push(row);
            };
            push("(all)", &judgement.all);
            for (class, measures) in record.header.classes.iter().zip(&judgement.classes) {
                push(&class.name, measures);
            }
        }
        Ok(json!({ "rows": rows, "attrs": { "confidence": 0.95 } }).to_string())
    })
}

fn read_knee((name, text): &File) -> PyResult<KneeRecord> {
    measure::read_knee(text.as_bytes()).map_err(|error| wrong(format!("{name}: {error}")))
}

/// Searches for a knee as rows; gives JSON.
#[pyfunction]
pub(crate) fn knees(py: Python<'_>, files: Vec<File>) -> PyResult<String> {
    py.detach(|| {
        let row = |file: &File| {
            let record = read_knee(file)?;
            let (seen_low, seen_high) = record.knee.ends();
            let believed = record.believed();
            let why = match record.knee {
                Knee::Inconclusive { why, .. } => Some(why),
                _ => None,
            };
            Ok(json!({
                "File": file.0, "Run": record.header.id, "Target": record.header.target,
                "Limit": record.limit.text, "Quantile": record.limit.quantile,
                "R_limit": record.limit.response_s, "Low": believed.low, "High": believed.high,
                "Low_seen": seen_low, "High_seen": seen_high, "Decided": why.is_none(), "Why": why,
                "Elapsed": record.elapsed_s, "Probes": record.probes.len(),
                "Interrupted": record.interrupted,
            }))
        };
        let rows = files.iter().map(row).collect::<PyResult<Vec<Value>>>()?;
        Ok(json!({ "rows": rows, "attrs": { "confidence": 0.95 } }).to_string())
    })
}

/// Probes of a search for a knee, one row each; gives JSON.
#[pyfunction]
pub(crate) fn probes(py: Python<'_>, file: File) -> PyResult<String> {
    py.detach(|| {
        let record = read_knee(&file)?;
        let rows = record.probes.iter().map(|one| {
            let seen = one.seen.as_ref();
            let ends = seen.and_then(|seen| seen.interval_s);
            json!({
                "Rate": one.probe.rate, "Effort": one.probe.effort, "Outcome": one.outcome,
                "Answered": seen.map(|seen| seen.answered), "Late": seen.map(|seen| seen.late),
                "Failed": seen.map(|seen| seen.failed), "R": seen.and_then(|seen| seen.quantile_s),
                "R_low": ends.map(|ends| ends[0]), "R_high": ends.map(|ends| ends[1]),
            })
        });
        let attrs = json!({
            "run": record.header.id, "limit": record.limit.text, "quantile": record.limit.quantile,
            "limit_s": record.limit.response_s,
        });
        Ok(json!({ "rows": rows.collect::<Vec<_>>(), "attrs": attrs }).to_string())
    })
}

/// Faults of the whole run, and of each phase of a load that varies.
fn faults(run: &RunRecord, of: &Judgement) -> String {
    let mut all: Vec<String> = of.faults.iter().map(ToString::to_string).collect();
    for part in run.judge_phases(0.95) {
        let name = &part.phase.name;
        all.extend(part.judgement.faults.iter().map(|fault| format!("phase {name}: {fault}")));
    }
    all.join("; ")
}

fn row(file: &File, run: &RunRecord, class: &str, measures: &Measures) -> Value {
    let (clients, rate) = match run.header.load {
        LoadShape::Closed { clients, .. } => (Some(clients), None),
        LoadShape::Poisson { rate, .. } | LoadShape::Fixed { rate, .. } => (None, Some(rate)),
        LoadShape::Varying { .. } => (None, None),
    };
    let response = measures.response.as_ref();
    let mut row = json!({
        "File": file.0, "Run": run.header.id, "Target": run.header.target, "Class": class,
        "Clients": clients, "Rate": rate, "Completed": measures.completed,
        "Failed": measures.failed(), "X": measures.throughput.mean,
        "X_hw": half(&measures.throughput), "R": response.map(|of| of.mean),
        "R_hw": response.and_then(half), "R_max": measures.response_max_s,
    });
    for (q, name) in [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")] {
        let at = measures.quantiles.iter().find(|quantile| (quantile.q - q).abs() < 1e-9);
        let at = at.and_then(|quantile| quantile.response.as_ref());
        row[name] = json!(at.map(|of| of.mean));
        row[format!("{name}_hw")] = json!(at.and_then(half));
        row[format!("{name}_bound")] = json!(at.and_then(bound));
    }
    row
}

/// A class by its name.
fn class_of(file: &File, run: &RunRecord, class: Option<&str>) -> PyResult<Option<usize>> {
    let Some(name) = class else { return Ok(None) };
    let at = run.header.classes.iter().position(|class| class.name == name);
    let known: Vec<&str> = run.header.classes.iter().map(|class| &*class.name).collect();
    let error =
        || format!("{}: no class is called `{name}`; there is {}", file.0, known.join(", "));
    at.map(Some).ok_or_else(|| wrong(error()))
}

/// Response times after the warm-up: each value that the histogram tells apart, with its count; gives JSON.
#[pyfunction]
pub(crate) fn histogram(py: Python<'_>, file: File, class: Option<&str>) -> PyResult<String> {
    py.detach(|| {
        let run = read(&file)?;
        let at = class_of(&file, &run, class)?;
        let (mut all, mut failed) = (Histogram::new(), 0u64);
        for interval in run.steady() {
            for (nth, counts) in interval.classes.iter().enumerate() {
                if at.is_none_or(|at| at == nth) {
                    all.merge(&counts.total);
                    failed += counts.errors.values().sum::<u64>();
                }
            }
        }
        let rows =
            all.counts().map(|(nanos, count)| json!({ "R": nanos as f64 / 1e9, "Count": count }));
        let attrs = json!({
            "run": run.header.id, "class": class.unwrap_or("(all)"), "failed": failed,
        });
        Ok(json!({ "rows": rows.collect::<Vec<_>>(), "attrs": attrs }).to_string())
    })
}

/// Intervals of a run, the warm-up too, one row each; gives JSON.
#[pyfunction]
pub(crate) fn intervals(py: Python<'_>, file: File, class: Option<&str>) -> PyResult<String> {
    py.detach(|| {
        let run = read(&file)?;
        let at = class_of(&file, &run, class)?;
        let rows = run.intervals.iter().map(|interval| {
            let classes = interval.classes.iter().enumerate();
            let classes = classes.filter(|(nth, _)| at.is_none_or(|at| at == *nth));
            let (mut completed, mut failed, mut all) = (0, 0, Histogram::new());
            for (_, counts) in classes {
                completed += counts.completed;
                failed += counts.errors.values().sum::<u64>();
                all.merge(&counts.total);
            }
            let quantile = |q| (!all.is_empty()).then(|| all.quantile(q).as_secs_f64());
            json!({
                "Start": interval.start_s, "Length": interval.length_s,
                "X": completed as f64 / interval.length_s.max(1e-9), "Completed": completed,
                "Failed": failed, "R": (!all.is_empty()).then(|| all.mean_s()),
                "p50": quantile(0.5), "p99": quantile(0.99), "InFlight": interval.in_flight_mean,
            })
        });
        let attrs = json!({
            "run": run.header.id, "class": class.unwrap_or("(all)"), "warmup_s": run.header.warmup_s,
        });
        Ok(json!({ "rows": rows.collect::<Vec<_>>(), "attrs": attrs }).to_string())
    })
}

/// Fits a scenario to runs that belong together; gives JSON.
#[pyfunction]
pub(crate) fn fit(
    py: Python<'_>,
    files: Vec<File>,
    cores: Option<u32>,
    slots: Option<u32>,
    seed: u64,
    date: String,
) -> PyResult<String> {
    py.detach(|| {
        let all = read_all(&files)?;
        let (taken, left) = advise::together(&all, 0.95).map_err(wrong)?;
        let runs: Vec<RunRecord> = taken.iter().map(|&at| all[at].clone()).collect();
        let name = runs.first().map_or(String::new(), |run| run.header.target.clone());
        let options = FitOptions { slots, cores, seed, confidence: 0.95, date, name };
        let fitted = advise::fit_runs(&runs, &options).map_err(wrong)?;
        let (scenario, by, rows, notes) = match &fitted {
            Fitted::BySizes(fit) => (&fit.scenario, "sizes", residuals(fit), &fit.notes),
            Fitted::ByLoads(fit) => (&fit.scenario, "loads", compared(fit), &fit.notes),
        };
        let left = left.iter().map(|one| json!({ "run": one.run, "why": one.why }));
        let calibration = scenario.calibration.as_ref();
        let attrs = json!({
            "scenario": scenario, "by": by, "rows": rows, "notes": notes,
            "unidentified": calibration.map(|of| &of.unidentified),
            "left_out": left.collect::<Vec<_>>(),
        });
        Ok(json!({ "rows": parameters(scenario), "attrs": attrs }).to_string())
    })
}

fn parameters(scenario: &Scenario) -> Vec<Value> {
    let all = scenario.calibration.iter().flat_map(|of| &of.parameters);
    all.map(|(name, parameter)| {
        let [low, high] = parameter.interval;
        json!({
            "Parameter": name, "Value": parameter.value, "Low": low, "High": high,
            "Unit": parameter.unit,
        })
    })
    .collect()
}

fn residuals(fit: &advise::Fit) -> Vec<Value> {
    let row = |of: &advise::Residual| {
        json!({
            "run": of.run, "clients": of.clients, "document": of.document, "bytes": of.bytes,
            "completed": of.completed, "measured_s": of.measured.mean, "fitted_s": of.fitted,
        })
    };
    fit.residuals.iter().map(row).collect()
}

fn compared(fit: &SourceFit) -> Vec<Value> {
    let row = |of: &advise::SourceRow| json!({ "name": of.name, "measured": of.measured, "fitted": of.fitted, "unit": of.unit });
    fit.rows.iter().map(row).collect()
}

/// What a scenario would do at other loads and with other slots; gives JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(crate) fn ask(
    py: Python<'_>,
    name: &str,
    text: &str,
    form: &str,
    clients: Vec<u32>,
    rates: Vec<f64>,
    slots: Vec<u32>,
    class: Option<String>,
    seed: Option<u64>,
) -> PyResult<String> {
    let model = model(name, text, Form::of(form)?)?;
    let scenario = model.scenario().map_err(wrong)?;
    let question = Question { clients, rates, slots, class };
    let seed = seed.or(scenario.seed).unwrap_or(1);
    let points = py
        .detach(|| advise::ask(&scenario, &question, &advise::options(seed), |_, _| {}))
        .map_err(|error| wrong(format!("{name}: {error}")))?;
    let attrs = json!({ "seed": seed, "notes": points.iter().map(|at| &at.formula_note).collect::<Vec<_>>() });
    Ok(json!({ "rows": points.iter().map(point).collect::<Vec<_>>(), "attrs": attrs }).to_string())
}

fn point(of: &Point) -> Value {
    let (clients, rate) = match of.load {
        advise::Load::Clients(clients) => (Some(clients), None),
        advise::Load::Rate(rate) => (None, Some(rate)),
    };
    let simulated = &of.simulation;
    let formula = |value: fn(&Numbers) -> f64| of.formula.as_ref().map(value);
    let mut row = json!({
        "Clients": clients, "Rate": rate, "Slots": of.slots,
        "X": simulated.throughput.mean, "X_hw": simulated.throughput.half_width,
        "R": simulated.response.mean, "R_hw": simulated.response.half_width,
        "W": simulated.wait.map(|wait| wait.mean),
        "X_formula": formula(|numbers| numbers.throughput.mean),
        "R_formula": formula(|numbers| numbers.response.mean),
        "Error": of.formula_error, "Beyond": of.beyond.join("; "),
    });
    for (q, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")] {
        let value = simulated.quantile(q);
        row[name] = json!(value.map(|value| value.mean));
        row[format!("{name}_bound")] = json!(value.and_then(|value| measure::Bound::of(value.mean)));
    }
    row
}
