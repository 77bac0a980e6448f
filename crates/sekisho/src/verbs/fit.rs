//! `sekisho fit`: from run records, or from what else people have, to a scenario.

use std::io::Write;
use std::path::PathBuf;

use advise::{
    Calibration, Fit, FitError, FitOptions, Fitted, LoadPoint, Parameter, QuantileWitness,
    RowStand, Scenario, SourceFit, Span, StatementEvidence,
};
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::{
    Table, bytes, label, next, paragraph, percent, sentence, shell_word, time, time_estimate,
};
use cli::{Failure, Verdict, say, store, turning};
use formats::sources::{self, Fields, Metrics};
use measure::{Judgement, LoadShape, RunRecord};

use self::answer::{By, FittedBySizes, FittedSource};
use super::newest::Newest;

pub(super) mod answer;
mod doubtful;

/// Source that a scenario is fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    /// Run records: one of a single client, one saturated
    Runs,
    /// Common or Combined log with a duration at the end, or JSON lines
    AccessLog,
    /// Scrapes as text, or range queries as JSON: counters, histograms
    Prometheus,
    /// pg_stat_statements as CSV, one snapshot or two
    PgStatStatements,
    /// OpenTelemetry spans as OTLP JSON
    Spans,
    /// CSV with the columns clients, throughput, latency_ms
    Points,
}

/// Fit a scenario to run records, or to logs, metrics, statements, spans or a table
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho fit .sekisho/runs/*.jsonl --cores 1 --out scenario.toml
  sekisho fit --last
  sekisho fit .sekisho/runs/*.tpcc.json --cores 2
  sekisho fit --from points points.csv
  sekisho fit --from access-log access.log --cores 1
  sekisho fit --from prometheus range.json --by handler --cores 2
  sekisho fit --from pg-stat-statements pss.csv --seconds 6 --busy 4.1s
  sekisho fit --from spans spans.json")]
pub(crate) struct Args {
    /// Run records of one document set, or of one database under TPC-C, or files of the source that --from names
    #[arg(value_name = "FILE")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    newest: Newest,
    /// What the files are
    #[arg(long, value_name = "SOURCE", default_value = "runs")]
    from: Source,
    /// Access log: the unit of durations that are plain numbers (s, ms, us, ns)
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<String>,
    /// Access log, JSON lines: the names of the fields
    #[arg(long, value_delimiter = ',', value_name = "TIME,DURATION,CLASS")]
    fields: Vec<String>,
    /// Prometheus: the histogram of the requests
    #[arg(long, value_name = "METRIC")]
    requests: Option<String>,
    /// Prometheus: the label that tells classes apart
    #[arg(long, value_name = "LABEL")]
    by: Option<String>,
    /// Prometheus: the counter of processor seconds; statements: the processor time of the host
    #[arg(long, value_name = "METRIC|TIME")]
    busy: Option<String>,
    /// Prometheus: time between scrapes without time stamps; statements: how long they were counted
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Statements: a part of the text of the one that each transaction executes once
    #[arg(long, value_name = "TEXT")]
    once: Option<String>,
    /// The server's slots (workers, helpers), if you know them
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// The processors that the server may use, if you know them
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// The seed of the bootstrap and of the simulations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// File of the scenario
    #[arg(long, value_name = "FILE", default_value = "scenario.toml")]
    out: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.from != Source::Runs {
        return run_source(args, out);
    }
    let foreign = [
        ("--time-unit", args.time_unit.is_some()),
        ("--fields", !args.fields.is_empty()),
        ("--requests", args.requests.is_some()),
        ("--by", args.by.is_some()),
        ("--busy", args.busy.is_some()),
        ("--seconds", args.seconds.is_some()),
        ("--once", args.once.is_some()),
    ];
    if let Some((name, _)) = foreign.iter().find(|(_, given)| *given) {
        let cause = format!("`{name}` is of other sources than run records; say which with --from");
        return Err(Failure::Usage(cause));
    }
    let files = args.newest.with_runs(&args.runs)?;
    let of_tpcc = files.iter().filter(|path| tpcc_verbs::is_record(path)).count();
    if of_tpcc > 0 {
        if of_tpcc < files.len() {
            let cause =
                "records of TPC-C and of HTTP load tell of different services: fit them apart";
            return Err(Failure::usage(cause));
        }
        return run_tpcc(args, &files, out);
    }
    run_http(args, &files, out)
}

/// Fits records of HTTP load: those that belong together.
fn run_http(args: &Args, files: &[PathBuf], out: &mut dyn Write) -> Result<Verdict, Failure> {
    let read = || files.iter().map(|path| store::read_run(path)).collect::<Result<Vec<_>, _>>();
    let all = turning("reading", read)?;
    let (taken, left) = advise::together(&all, 0.95).map_err(Failure::usage)?;
    let runs: Vec<RunRecord> = taken.iter().map(|&at| all[at].clone()).collect();
    let options = FitOptions {
        slots: args.slots,
        cores: args.cores,
        seed: args.seed,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: runs.first().map_or(String::new(), |run| run.header.target.clone()),
    };
    let fitted = match turning("fitting", || advise::fit_runs(&runs, &options)) {
        Ok(fitted) => fitted,
        Err(error @ FitError::DoesNotFit(_)) => {
            return doubtful::no_fit(&error, &runs, args.json, out);
        }
        Err(error) => return Err(doubtful::lacking(&error, &runs, &left)),
    };
    let (scenario, text) = match &fitted {
        Fitted::BySizes(fit) => (&fit.scenario, fit_text(fit)),
        Fitted::ByLoads(fit) => (&fit.scenario, source_text(fit)),
    };
    // What is written must be runnable.
    scenario.network().map_err(Failure::usage)?;
    store::write_whole(&args.out, &scenario_text(scenario)?)?;
    if args.json {
        let line = match &fitted {
            Fitted::BySizes(fit) => FittedBySizes::new(fit, &left, &args.out).line(),
            Fitted::ByLoads(fit) => FittedSource::new(fit, By::Loads, &left, &args.out).line(),
        };
        say(out, &line)?;
        return Ok(Verdict::Holds);
    }
    say(out, &text)?;
    say(out, &doubtful::left_out(&left))?;
    if let Fitted::ByLoads(fit) = &fitted
        && fit.rows.iter().any(|row| row.relative().abs() > RESIDUAL_MAX)
    {
        say(out, &doubtful::likely(&runs))?;
    }
    let path = args.out.display();
    let (clients, slots) = asked(scenario);
    let file = shell_word(&args.out);
    let command = next(&format!("sekisho ask {file} --clients {clients} --slots {slots}"));
    say(out, &format!("\n  scenario: {path}\n{command}"))?;
    Ok(Verdict::Holds)
}

/// A residual beyond this has a cause that is worth a word.
const RESIDUAL_MAX: f64 = 0.25;

/// Loads and slots to ask a fitted scenario about: around its knee or peak, and beyond what was measured.
fn asked(scenario: &Scenario) -> (String, String) {
    let calibration = scenario.calibration.as_ref();
    let parameter = |name: &str| calibration.and_then(|of| of.parameters.get(name));
    let best = match parameter("peak").or_else(|| parameter("knee")) {
        Some(clients) => clients.value.round().clamp(1.0, 1e4) as u32,
        None if parameter("demand").is_none() => return ("8,64".into(), "2,8".into()),
        None => 2,
    };
    let most = calibration.map_or(8, |of| of.clients[1]).max(2);
    let slots = [best, best.saturating_mul(4)];
    let clients = [most, most.saturating_mul(4)];
    (clients.map(|n| n.to_string()).join(","), slots.map(|n| n.to_string()).join(","))
}

/// Fits one of the other sources.
fn run_source(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.newest.is_asked() {
        return Err(Failure::usage("`--last` takes run records; name the files of another source"));
    }
    if args.runs.is_empty() {
        return Err(Failure::usage("no file of the source is named"));
    }
    if args.slots.is_some() {
        let cause = "`--slots` is of run records: no other source tells slots apart";
        return Err(Failure::usage(cause));
    }
    if args.cores == Some(0) {
        return Err(Failure::usage("`--cores` must be at least 1"));
    }
    if args.seconds.is_some_and(|seconds| !(seconds.is_finite() && seconds > 0.0)) {
        return Err(Failure::usage("`--seconds` must be above 0"));
    }
    let names: Vec<String> = args.runs.iter().map(|path| path.display().to_string()).collect();
    let options = FitOptions {
        slots: None,
        cores: args.cores,
        seed: args.seed,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: names.join(" "),
    };
    told(turning("reading and fitting", || from_source(args, &names, &options))?, args, out)
}

/// Fit to the files that `--from` names.
fn from_source(
    args: &Args,
    names: &[String],
    options: &FitOptions,
) -> Result<Result<SourceFit, FitError>, Failure> {
    match args.from {
        Source::AccessLog => from_log(args, names, options),
        Source::Prometheus => from_metrics(args, options),
        Source::PgStatStatements => from_statements(args, names, options),
        Source::Spans => {
            let mut spans = Vec::new();
            for path in &args.runs {
                spans.extend(sources::read_spans(path)?);
            }
            Ok(advise::fit_spans(&spans, names, options))
        }
        Source::Points | Source::Runs => {
            let points = sources::read_points(only(args)?)?;
            Ok(advise::fit_points(&points, names, options))
        }
    }
}

/// Result of a fit, told, and the scenario in its file.
fn told(
    fitted: Result<SourceFit, FitError>,
    args: &Args,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let fitted = match fitted {
        Ok(fitted) => fitted,
        Err(error @ FitError::DoesNotFit(_)) => {
            return no_fit(Verdict::DoesNotFit, &error, args.json, out);
        }
        Err(error) => return Err(Failure::usage(error)),
    };
    // What is written must be runnable.
    fitted.scenario.network().map_err(Failure::usage)?;
    store::write_whole(&args.out, &scenario_text(&fitted.scenario)?)?;
    if args.json {
        say(out, &FittedSource::new(&fitted, By::Source, &[], &args.out).line())?;
    } else {
        say(out, &source_text(&fitted))?;
        let path = args.out.display();
        // The formulas know one class.
        let verb = if fitted.scenario.classes.len() > 1 { "sim" } else { "solve" };
        let command = next(&format!("sekisho {verb} {path}"));
        say(out, &format!("\n  scenario: {path}\n{command}"))?;
    }
    Ok(Verdict::Holds)
}

/// Fits records of TPC-C's transactions without waits: each is a point of a closed load.
fn run_tpcc(args: &Args, files: &[PathBuf], out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.slots.is_some() {
        let cause = "`--slots` is of HTTP load: connections to a database are its clients here";
        return Err(Failure::usage(cause));
    }
    if args.cores == Some(0) {
        return Err(Failure::usage("`--cores` must be at least 1"));
    }
    let runs =
        files.iter().map(|path| tpcc_verbs::read_run(path)).collect::<Result<Vec<_>, _>>()?;
    let first = runs.first().map(|run| &run.header);
    if let Some(other) = runs.iter().find(|run| {
        first.is_some_and(|first| {
            (&first.target, &first.settings) != (&run.header.target, &run.header.settings)
        })
    }) {
        return Err(Failure::Usage(format!(
            "run {} has other warehouses, another execution, isolation or server than the first: fit \
             those that differ in connections alone",
            other.header.id
        )));
    }
    let judged: Vec<(&RunRecord, Judgement)> =
        runs.iter().map(|run| (run, run.judge(0.95))).collect();
    let points = points_of(&judged)?;
    let names: Vec<String> = runs.iter().map(|run| run.header.id.clone()).collect();
    let options = FitOptions {
        slots: None,
        cores: args.cores,
        seed: args.seed,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: first.map_or(String::new(), |first| first.target.clone()),
    };
    let fitted =
        turning("fitting", || advise::fit_points(&points, &names, &options)).map(|mut fit| {
            for (run, judgement) in &judged {
                let id = &run.header.id;
                let invalid = judgement.faults.iter();
                fit.notes.extend(invalid.map(|fault| format!("run {id} is invalid: {fault}")));
            }
            fit
        });
    told(fitted, args, out)
}

/// Closed runs as points of load, throughput and response.
pub(crate) fn points_of(runs: &[(&RunRecord, Judgement)]) -> Result<Vec<LoadPoint>, Failure> {
    let point = |(nth, (run, judgement)): (usize, &(&RunRecord, Judgement))| {
        let id = &run.header.id;
        let LoadShape::Closed { clients, .. } = run.header.load else {
            return Err(Failure::Usage(format!("run {id} is no closed load")));
        };
        if judgement.all.completed == 0 {
            return Err(Failure::Usage(format!("run {id}: nothing was completed in it")));
        }
        Ok(LoadPoint {
            line: nth + 1,
            clients: f64::from(clients),
            throughput: judgement.all.throughput.mean,
            response: judgement.all.response.as_ref().map(|response| response.mean),
        })
    };
    runs.iter().enumerate().map(point).collect()
}

fn only(args: &Args) -> Result<&PathBuf, Failure> {
    match &args.runs[..] {
        [one] => Ok(one),
        more => Err(Failure::Usage(format!("{} files are given; this source is one", more.len()))),
    }
}

fn from_log(
    args: &Args,
    names: &[String],
    options: &FitOptions,
) -> Result<Result<SourceFit, FitError>, Failure> {
    let json = match &args.fields[..] {
        [] => ["time", "duration", "path"].map(String::from),
        [time, duration, class] => [time.clone(), duration.clone(), class.clone()],
        other => {
            let given = other.len();
            let cause = format!("{given} names of fields are given; give TIME,DURATION,CLASS");
            return Err(Failure::Usage(cause));
        }
    };
    let fields = Fields { json, unit: args.time_unit.clone() };
    let log = sources::read_log(only(args)?, &fields)?;
    let fitted = advise::fit_log(&log.requests, &log.classes, names, options);
    Ok(fitted.map(|mut fit| {
        if log.failed > 0 {
            fit.notes.push(format!("{} requests failed (5xx) and are left out", log.failed));
        }
        fit
    }))
}

fn from_metrics(args: &Args, options: &FitOptions) -> Result<Result<SourceFit, FitError>, Failure> {
    let metrics = Metrics {
        requests: args.requests.clone(),
        by: args.by.clone(),
        busy: args.busy.clone(),
        seconds: args.seconds,
    };
    let (evidence, notes) = sources::read_metrics(&args.runs, &metrics)?;
    Ok(advise::fit_demands(&evidence, options).map(|mut fit| {
        fit.notes.splice(0..0, notes);
        fit
    }))
}

fn from_statements(
    args: &Args,
    names: &[String],
    options: &FitOptions,
) -> Result<Result<SourceFit, FitError>, Failure> {
    let Some(seconds) = args.seconds else {
        let cause = "how long the statements were counted is not in the file; give --seconds";
        return Err(Failure::usage(cause));
    };
    let busy = args.busy.as_deref().map(str::parse::<Span>).transpose();
    let evidence = StatementEvidence {
        sources: names.to_vec(),
        statements: sources::read_statements(&args.runs)?,
        seconds,
        busy: busy.map_err(Failure::usage)?.map(|span| span.0),
        once: args.once.clone(),
    };
    Ok(advise::fit_statements(&evidence, options))
}

/// Text of the fitted values with their regions, beside what was measured, and of what could not be
/// identified.
pub(crate) fn source_text(fit: &SourceFit) -> String {
    let calibration = fit.scenario.calibration.as_ref();
    let parameters = calibration.map(|calibration| &calibration.parameters);
    let count = parameters.map_or(0, |parameters| parameters.len());
    let missing = calibration.map_or(0, |calibration| calibration.unidentified.len());
    let missing = match missing {
        1 => "1 thing is not identified".to_owned(),
        n => format!("{n} things are not identified"),
    };
    let mut text = sentence(&format!("fits: {count} numbers; {}; {missing}", compared(fit)));
    let mut table = Table::new(&["parameter", "value", "95 % region"]);
    for (name, parameter) in parameters.into_iter().flatten() {
        let [value, region] = value_and_region(name, parameter, calibration);
        table.row(vec![long_label(name), value, region]);
    }
    text += &format!("\n{table}\n");
    let mut table = Table::new(&["measured", "value", "fitted", "residual"]);
    for row in &fit.rows {
        let number = |value: f64| match row.unit {
            "s" => time(value),
            "1/s" => cli::text::rate(value),
            _ => format!("{value:.3}"),
        };
        let residual = match row.stand {
            RowStand::Compared => percent(row.relative()),
            RowStand::TakenUp => "taken up".into(),
        };
        table.row(vec![long_label(&row.name), number(row.measured), number(row.fitted), residual]);
    }
    text += &format!("{table}\n");
    if !fit.witnesses.is_empty() {
        text += &format!("{}\n", witness_table(&fit.witnesses));
    }
    for note in &fit.notes {
        text += &paragraph(&format!("note: {note}"));
    }
    for unidentified in calibration.iter().flat_map(|calibration| &calibration.unidentified) {
        text += &paragraph(&format!("not identified: {unidentified}"));
    }
    text
}

/// Number of measured values that could have contradicted the model, and how near they came.
fn compared(fit: &SourceFit) -> String {
    let rows: Vec<f64> = fit
        .rows
        .iter()
        .filter(|row| row.stand == RowStand::Compared)
        .map(|row| row.relative().abs())
        .collect();
    let agreeing = fit.witnesses.iter().filter(|witness| witness.agrees()).count();
    let mut parts = Vec::new();
    if !rows.is_empty() {
        let worst = 100.0 * rows.iter().copied().fold(0.0, f64::max);
        parts.push(format!("at worst {worst:.1} % off {} that could differ", rows.len()));
    }
    if !fit.witnesses.is_empty() {
        let all = fit.witnesses.len();
        parts.push(format!("{agreeing} of {all} quantiles it did not use agree"));
    }
    if parts.is_empty() {
        return "nothing was measured that could contradict them".into();
    }
    parts.join(", ")
}

/// Quantiles between the bounds of a histogram, beside those of the fitted scenario.
fn witness_table(witnesses: &[QuantileWitness]) -> Table {
    let mut table = Table::new(&["quantile", "busy", "histogram", "simulated", "agrees"]);
    for witness in witnesses {
        let [low, high] = witness.measured;
        let between = if high.is_finite() {
            format!("{} to {}", time(low), time(high))
        } else {
            format!("above {}", time(low))
        };
        let percentile = 100.0 * witness.quantile;
        table.row(vec![
            format!("p{percentile:.0} {}", long_label(&witness.class)),
            format!("{:.2}", witness.busy),
            between,
            time_estimate(&witness.fitted),
            if witness.agrees() { "yes".into() } else { "no".into() },
        ]);
    }
    table
}

/// The beginning of a name that may be a whole statement.
fn long_label(name: &str) -> String {
    const SHOWN: usize = 40;
    if name.chars().count() <= SHOWN {
        return name.to_owned();
    }
    name.chars().take(SHOWN - 1).chain(['…']).collect()
}

/// Says why there is no fit, as text or as JSON.
pub(crate) fn no_fit(
    verdict: Verdict,
    error: &FitError,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let line = if as_json {
        answer::NoFit::new(error).line(verdict)
    } else {
        sentence(&format!("{}: {error}", verdict.word()))
    };
    say(out, &line)?;
    Ok(verdict)
}

/// Keeps a scenario that was fitted on the way to something else, so that it can be asked; its file.
pub(crate) fn keep_scenario(scenario: &Scenario, id: &str) -> Result<PathBuf, Failure> {
    let path = store::path("scenarios", &format!("{id}.toml"))?;
    store::write_whole(&path, &scenario_text(scenario)?)?;
    Ok(path)
}

/// A scenario as a file.
pub(crate) fn scenario_text(scenario: &Scenario) -> Result<String, Failure> {
    toml::to_string(scenario).map_err(Failure::defect)
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
        "knee-least" => "knee",
        "peak-least" => "peak",
        other => other,
    }
}

/// A fitted number and its region as a table has them.
pub(crate) fn value_and_region(
    name: &str,
    parameter: &Parameter,
    calibration: Option<&Calibration>,
) -> [String; 2] {
    let [low, high] = parameter.interval.map(|value| parameter_text(parameter, value));
    let value = parameter_text(parameter, parameter.value);
    let most = calibration.map_or(f64::INFINITY, |of| of.clients[1].into());
    if name.ends_with("-least") || (name == "knee" && !is_known(parameter, most)) {
        return ["not known".into(), format!("from {low} on")];
    }
    // A demand beside a delay that may be nothing was not told from it.
    let both = calibration
        .and_then(|of| of.parameters.get("demand").filter(|_| of.parameters.contains_key("delay")));
    if matches!(name, "demand" | "delay") && both.is_some_and(|demand| demand.interval[0] == 0.0) {
        return ["not known".into(), format!("{low} to {high}")];
    }
    if low == high { [value, "as counted".into()] } else { [value, format!("{low} to {high}")] }
}

/// True if the region of a knee ends: near what was measured, up to `most` clients. One that runs
/// beyond twice that says of no number of clients that it is enough.
pub(crate) fn is_known(knee: &Parameter, most: f64) -> bool {
    knee.interval[1] <= 2.0 * most
}

pub(crate) fn parameter_text(parameter: &Parameter, value: f64) -> String {
    match parameter.unit.as_str() {
        "s" if value < 0.0 => format!("-{}", time(-value)),
        "s" => time(value),
        "s/byte" => format!("{:.3} us/kB", value * 1e9),
        "slots" => format!("{value:.1}"),
        // A knee is no better known than that.
        "clients" => format!("{value:.1} clients"),
        // A share: three digits that say something, however small it is.
        "" if value != 0.0 && value.abs() < 0.1 => format!("{value:.2e}"),
        "" => format!("{value:.3}"),
        unit => format!("{value:.3} {unit}"),
    }
}
