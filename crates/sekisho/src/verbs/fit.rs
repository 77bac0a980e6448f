//! `sekisho fit`: from run records to a scenario.

use std::io::Write;
use std::path::PathBuf;

use advise::{Fit, FitError, FitOptions, Parameter, Scenario};
use clap::Args as ClapArgs;

use crate::session::say;
use crate::store;
use crate::text::{Table, bytes, label, next, paragraph, percent, sentence, time, time_estimate};
use crate::verdict::{Failure, Verdict};

/// Fit a scenario to closed runs: one with a single client, one saturated
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho measure http http://127.0.0.1:80/ --documents webstone --clients 1,32
  sekisho fit .sekisho/runs/*.jsonl --cores 1 --out scenario.toml")]
pub(crate) struct Args {
    /// Run records of one document set
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The server's slots (workers, helpers), if you know them
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// The processors that the server may use, if you know them
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// The seed of the bootstrap and of the simulations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the scenario is written
    #[arg(long, value_name = "FILE", default_value = "scenario.toml")]
    out: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let runs = args.runs.iter().map(|path| store::read_run(path)).collect::<Result<Vec<_>, _>>()?;
    let options = FitOptions {
        slots: args.slots,
        cores: args.cores,
        seed: args.seed,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: runs.first().map_or(String::new(), |run| run.header.target.clone()),
    };
    let fit = match advise::fit(&runs, &options) {
        Ok(fit) => fit,
        Err(error @ FitError::DoesNotFit(_)) => {
            return no_fit(Verdict::DoesNotFit, &error, args.json, out);
        }
        Err(error) => return Err(Failure::usage(error)),
    };
    store::write_whole(&args.out, &scenario_text(&fit.scenario)?)?;
    if args.json {
        say(out, &format!("{}\n", json(&fit)))?;
    } else {
        say(out, &fit_text(&fit))?;
        let path = args.out.display();
        let command = next(&format!("sekisho ask {path} --clients 8,64 --slots 2,8"));
        say(out, &format!("\n  scenario: {path}\n{command}"))?;
    }
    Ok(Verdict::Holds)
}

/// Says why there is no fit, as text or as JSON.
pub(crate) fn no_fit(
    verdict: Verdict,
    error: &FitError,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let line = if as_json {
        let (word, code) = (verdict.word(), verdict.code());
        let object =
            serde_json::json!({"verdict": word, "exit_code": code, "why": error.to_string()});
        format!("{object}\n")
    } else {
        sentence(&format!("{}: {error}", verdict.word()))
    };
    say(out, &line)?;
    Ok(verdict)
}

/// A scenario as a file.
pub(crate) fn scenario_text(scenario: &Scenario) -> Result<String, Failure> {
    toml::to_string(scenario).map_err(Failure::machine)
}

fn json(fit: &Fit) -> serde_json::Value {
    let residuals: Vec<_> = fit
        .residuals
        .iter()
        .map(|residual| {
            serde_json::json!({
                "run": residual.run,
                "clients": residual.clients,
                "document": residual.document,
                "bytes": residual.bytes,
                "completed": residual.completed,
                "measured_s": residual.measured.mean,
                "measured_half_width_s": residual.measured.half_width.is_finite()
                    .then_some(residual.measured.half_width),
                "fitted_s": residual.fitted,
            })
        })
        .collect();
    serde_json::json!({
        "verdict": Verdict::Holds.word(),
        "exit_code": Verdict::Holds.code(),
        "scenario": fit.scenario,
        "residuals": residuals,
        "notes": fit.notes,
    })
}

/// The fitted numbers with their intervals, the residuals, and what could not be identified.
pub(crate) fn fit_text(fit: &Fit) -> String {
    let mut text = format!("{}\n", sentence(&format!("fits: {}", headline(fit))));
    if let Some(calibration) = &fit.scenario.calibration {
        let mut table = Table::new(&["parameter", "value", "95 % interval"]);
        for (name, parameter) in &calibration.parameters {
            let [low, high] = parameter.interval;
            table.row(vec![
                parameter_name(name).into(),
                parameter_text(parameter, parameter.value),
                format!(
                    "{} to {}",
                    parameter_text(parameter, low),
                    parameter_text(parameter, high)
                ),
            ]);
        }
        text += &format!("{table}\n");
    }
    let mut table =
        Table::new(&["document", "size", "clients", "requests", "measured", "fitted", "residual"]);
    for residual in &fit.residuals {
        table.row(vec![
            label(&residual.document),
            bytes(residual.bytes),
            residual.clients.to_string(),
            residual.completed.to_string(),
            time_estimate(&residual.measured),
            time(residual.fitted),
            percent(residual.relative()),
        ]);
    }
    text += &format!("{table}\n");
    for note in &fit.notes {
        text += &paragraph(&format!("note: {note}"));
    }
    let calibration = fit.scenario.calibration.as_ref();
    for unidentified in calibration.iter().flat_map(|calibration| &calibration.unidentified) {
        text += &paragraph(&format!("not identified: {unidentified}"));
    }
    text
}

/// The demand and the slots in one line.
pub(crate) fn headline(fit: &Fit) -> String {
    let value = |name: &str| {
        let calibration = fit.scenario.calibration.as_ref()?;
        Some(calibration.parameters.get(name)?.value)
    };
    let slots = fit.scenario.gates.first().and_then(|gate| gate.slots).unwrap_or(0);
    let (a, b) = (value("per-byte").unwrap_or(0.0), value("base").unwrap_or(0.0));
    format!("a request for x bytes costs {:.3} us/kB x + {}; {slots} slots", a * 1e9, time(b))
}

fn parameter_name(name: &str) -> &str {
    match name {
        "per-byte" => "a, cost of each byte",
        "base" => "b, cost of each request",
        "path" => "time on the way, outside",
        "slots-seen" => "slots, as the runs show them",
        other => other,
    }
}

fn parameter_text(parameter: &Parameter, value: f64) -> String {
    match parameter.unit.as_str() {
        "s" if value < 0.0 => format!("-{}", time(-value)),
        "s" => time(value),
        "s/byte" => format!("{:.3} us/kB", value * 1e9),
        _ => format!("{value:.1}"),
    }
}
