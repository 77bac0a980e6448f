//! The border to Python: models come as text, answers go as JSON, from which `sekisho/__init__.py` makes
//! tables. Every error is a `SekishoError` with the text that the command prints.

mod records;

use advise::NodeAnswer;
use formats::exchange::{self, Model};
use measure::Estimate;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use sim::{Options, Outcome, Plan, Stop};

pyo3::create_exception!(
    _native,
    SekishoError,
    PyValueError,
    "A model that is wrong, or has no answer: the place, the cause and the way out."
);

fn wrong(text: impl ToString) -> PyErr {
    SekishoError::new_err(text.to_string())
}

/// A model from the text of a file of this name, or from JSON.
fn model(name: &str, text: &str, form: Form) -> PyResult<Model> {
    match form {
        Form::Json => exchange::from_json(name, text).map_err(wrong),
        Form::File => exchange::read(name, text).map_err(wrong),
    }
}

/// How a model is written.
#[derive(Clone, Copy)]
enum Form {
    Json,
    File,
}

impl Form {
    fn of(name: &str) -> PyResult<Form> {
        match name {
            "json" => Ok(Form::Json),
            "file" => Ok(Form::File),
            _ => Err(wrong(format!("there is no form `{name}`"))),
        }
    }
}

/// Solves a model by formula; gives JSON.
#[pyfunction]
fn solve(
    py: Python<'_>,
    name: &str,
    text: &str,
    form: &str,
    method: Option<&str>,
) -> PyResult<String> {
    let model = model(name, text, Form::of(form)?)?;
    let method = method.map(exchange::method).transpose().map_err(wrong)?;
    let solved = py.detach(|| model.solve(method)).map_err(wrong)?;
    let answer = json!({
        "rows": solved.rows.iter().map(solved_row).collect::<Vec<_>>(),
        "attrs": {
            "algorithm": solved.algorithm,
            "exact": solved.trust.exact,
            "approximate": !solved.trust.exact,
            "error": solved.trust.error,
            "trust": solved.trust.text,
            "classes": solved.classes,
            "queue": solved.queue,
            "product_bounds": solved.product_bounds,
            "caches": solved.caches,
            "notes": solved.notes,
        },
    });
    Ok(answer.to_string())
}

fn solved_row(row: &NodeAnswer) -> Value {
    let mut object = named(&row.station, row.class.as_deref());
    for (column, value) in exchange::COLUMNS[2..].iter().zip(exchange::cells(row)) {
        object[*column] = json!(value);
    }
    object
}

fn named(station: &str, class: Option<&str>) -> Value {
    json!({ "Station": station, "Class": class.unwrap_or("(all)") })
}

/// Simulates a model; gives JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
fn simulate(
    py: Python<'_>,
    name: &str,
    text: &str,
    form: &str,
    seed: Option<u64>,
    precision: f64,
    replications: u32,
    max_requests: u64,
    threads: Option<usize>,
) -> PyResult<String> {
    let model = model(name, text, Form::of(form)?)?;
    let scenario = model.scenario().map_err(wrong)?;
    let network = scenario.network().map_err(|error| wrong(format!("{name}: {error}")))?;
    let options = Options {
        seed: seed.or(scenario.seed).unwrap_or(1),
        precision,
        plan: Plan::Replications(replications),
        completions_max: max_requests,
        threads,
        ..Options::default()
    };
    let outcome = py
        .detach(|| sim::run(&network, &options))
        .map_err(|error| wrong(format!("{name}: {error}")))?;
    Ok(simulated(&outcome).to_string())
}

fn simulated(outcome: &Outcome) -> Value {
    let only = if let [class] = &*outcome.classes { Some(class) } else { None };
    let class = only.map(|class| &*class.name);
    // Time of all visits of a request, where all requests are of one class.
    let residence = |jobs: Cell| {
        let x = only.map(|class| Cell::of(&class.throughput)).filter(|x| x.mean > 0.0)?;
        Some(jobs.scaled(1.0 / x.mean))
    };
    let mut rows = Vec::new();
    for gate in &outcome.gates {
        let jobs = Cell::of(&gate.waiting).plus(Cell::of(&gate.busy));
        let times = gate.wait.as_ref().zip(gate.hold.as_ref());
        let response = times.map(|(wait, hold)| Cell::of(wait).plus(Cell::of(hold)));
        let refused = gate.refused_full.mean
            + gate.refused_deadline.mean
            + gate.refused_unreachable.mean
            + gate.reneged.mean;
        let started = Cell::of(&gate.started);
        // Of slots that change nobody knows the share that is busy, only their number.
        let busy =
            (!gate.slots_change).then(|| Cell::of(&gate.busy).scaled(1.0 / f64::from(gate.slots)));
        let arrivals = started.scaled(1.0 / (1.0 - refused));
        let cells =
            [Some(jobs), busy, response, residence(jobs), Some(arrivals), Some(started)];
        rows.push(simulated_row(&gate.name, class, cells));
    }
    for station in &outcome.stations {
        let jobs = Cell::of(&station.jobs);
        let x = Some(Cell::of(&station.throughput));
        let busy = station.utilisation.as_ref().map(Cell::of);
        let response = station.sojourn.as_ref().map(Cell::of);
        let arrivals = Cell::of(&station.throughput).plus(Cell::of(&station.lost));
        let cells = [Some(jobs), busy, response, residence(jobs), Some(arrivals), x];
        rows.push(simulated_row(&station.name, class, cells));
    }
    let classes = outcome.classes.iter().map(|class| {
        let quantiles = class.quantiles.iter().map(|(q, value)| (q.to_string(), quantile(value)));
        json!({
            "name": class.name,
            "throughput_per_s": class.throughput,
            "refused_per_s": class.refused,
            "response_s": class.response,
            "response_quantiles_s": Value::Object(quantiles.collect()),
        })
    });
    json!({
        "rows": rows,
        "attrs": {
            "seed": outcome.seed,
            "replications": outcome.plan.runs(),
            "confidence": outcome.classes.first().map(|class| class.throughput.confidence),
            "precise": outcome.stop != Stop::Budget,
            "warmup_found": outcome.warmup_found,
            "steady": outcome.unsettled.is_none(),
            "unsettled": outcome.unsettled,
            "events": outcome.events,
            "classes": classes.collect::<Vec<_>>(),
        },
    })
}

/// A quantile with its interval, and on which side it is no more than a bound.
fn quantile(value: &Estimate) -> Value {
    let mut object = json!(value);
    object["bound"] = json!(measure::Bound::of(value.mean));
    object
}

/// A mean with half the width of its interval.
#[derive(Clone, Copy)]
struct Cell {
    mean: f64,
    half: f64,
}

impl Cell {
    fn of(estimate: &Estimate) -> Cell {
        Cell { mean: estimate.mean, half: estimate.half_width }
    }

    /// The sum, its interval as wide as both: they may go wrong together.
    fn plus(self, other: Cell) -> Cell {
        Cell { mean: self.mean + other.mean, half: self.half + other.half }
    }

    fn scaled(self, factor: f64) -> Cell {
        Cell { mean: self.mean * factor, half: self.half * factor }
    }
}

fn simulated_row(station: &str, class: Option<&str>, cells: [Option<Cell>; 6]) -> Value {
    let mut object = named(station, class);
    for (column, cell) in exchange::COLUMNS[2..].iter().zip(cells) {
        object[*column] = json!(cell.map(|cell| cell.mean));
        object[format!("{column}_hw")] = json!(cell.map(|cell| cell.half));
    }
    object
}

/// The module that `sekisho/__init__.py` stands on.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SekishoError", module.py().get_type::<SekishoError>())?;
    module.add_function(wrap_pyfunction!(solve, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(records::runs, module)?)?;
    module.add_function(wrap_pyfunction!(records::histogram, module)?)?;
    module.add_function(wrap_pyfunction!(records::intervals, module)?)?;
    module.add_function(wrap_pyfunction!(records::knees, module)?)?;
    module.add_function(wrap_pyfunction!(records::probes, module)?)?;
    module.add_function(wrap_pyfunction!(records::fit, module)?)?;
    module.add_function(wrap_pyfunction!(records::ask, module)?)
}
