//! `sekisho demo`: the whole loop on a real HTTP server, on this machine.
//!
//! ```text
//!   processor A: generator ──▶ gate (r slots) ──▶ processor B: origin, more workers than slots
//! ```
//!
//! It measures closed loads behind one number of slots, fits, asks about loads and a number of slots
//! that the fit never saw, measures those too, and scores what was predicted.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use advise::{Fit, FitError, FitOptions, Prediction, Question, Right, Score, Tolerance};
use clap::{Args as ClapArgs, Subcommand};
use cli::json::Answer;
use cli::text::{paragraph, percent, sentence};
use cli::{Failure, Session, Verdict, progress, say, store};
use expectations::verdict_of;
use httpgate::{Config, Finished, Handle, Server, StartError};
use indicatif::ProgressBar;
use load::http::{Load, PlanSpec, Reach, Request, Target};
use measure::{RunRecord, Until};
use origin::{Demand, Document, Origin, OriginConfig, Serving};
use schemars::JsonSchema;
use serde::Serialize;
use sim::Options;
use workload::{Dist, DocumentSet};

use super::check::{point_text, quick, score_text};
use super::http_target::press;
use super::json::{ScoreAnswer, scores};
use super::{ask, demo_postgres, fit, loop_report};

/// The whole loop on a real HTTP server on this machine: measure, fit, ask, gate, check
///
/// With the name of another service, on that.
#[derive(ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "SERVICE",
    after_help = "\
Example:
  sekisho demo
      ends with 0 or 4: the predictions are right, or the runs cannot tell"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    service: Option<Service>,
    /// How long each of the seven runs is measured
    #[arg(long, value_name = "TIME", default_value = "9s")]
    run: advise::Span,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "sekisho-demo.html")]
    report: PathBuf,
    /// Print the scores as JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Service {
    /// The same loop on a private PostgreSQL: how many connections are best
    Postgres(demo_postgres::Args),
    /// What a TP monitor does before a private PostgreSQL: clients served in time, with and without
    Monitor(tpcc_verbs::monitored::Args),
    /// A scheduler that knows its cache: 100,000 stock accounts in a private PostgreSQL, with and without
    Agents(demo_verbs::agents::Args),
    /// A bulletin board on Jungle, SQLite and a private PostgreSQL, loaded alike
    Jungle(board_verbs::demo::Args),
}

/// Cost of a request to the origin: 0.025 us for each byte and 1 ms. With WebStone's documents that
/// is 1.48 ms in the mean with a squared coefficient of variation of about 8: fujita's regime, in
/// which the number of slots matters, scaled down so that a demo takes a minute.
const DEMAND: Demand = Demand { per_byte_s: 25e-9, base_s: 1e-3 };
/// The slots that the fit sees, and the loads.
const FITTED: (u32, [u32; 4]) = (4, [1, 4, 12, 32]);
/// Points that it never sees: other loads with those slots, and another number of slots.
const CHECKED: [(u32, u32); 3] = [(8, 4), (24, 4), (24, 12)];
/// More workers than there are ever slots, so that the gate is the only queue.
const WORKERS: u32 = 32;
/// Length at the start of a run that is not used.
const WARMUP: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.service {
        Some(Service::Postgres(args)) => return demo_postgres::run(args, session, out),
        Some(Service::Monitor(args)) => return tpcc_verbs::monitored::run(args, session, out),
        Some(Service::Agents(args)) => return demo_verbs::agents::run(args, session, out),
        Some(Service::Jungle(args)) => return board_verbs::demo::run(args, session, out),
        None => {}
    }
    session.catch_interrupts()?;
    let site = Site::start()?;
    if !args.json {
        say(out, &site.introduction())?;
    }
    let runs = FITTED.1.len() + CHECKED.len();
    let bar =
        progress((runs as f64 * (args.run.0 + WARMUP.as_secs_f64()) * 10.0) as u64, "measuring");
    let mut fitted_runs = Vec::new();
    for clients in FITTED.1 {
        fitted_runs.push(site.measure(clients, FITTED.0, args, session, &bar)?);
        if session.interrupted() {
            bar.finish_and_clear();
            return super::json::interrupted(args.json, out);
        }
    }
    let fit = match fit_of(&fitted_runs, args) {
        Ok(fit) => fit,
        Err(error) => {
            bar.finish_and_clear();
            // The slots and processors are known here, so what is missing is in the runs.
            let verdict = match error {
                FitError::DoesNotFit(_) => Verdict::DoesNotFit,
                _ => Verdict::Invalid,
            };
            return fit::no_fit(verdict, &error, args.json, out);
        }
    };
    let mut demo = Demo::new(fitted_runs, fit, args)?;
    for (clients, slots) in CHECKED {
        let record = site.measure(clients, slots, args, session, &bar)?;
        if session.interrupted() {
            bar.finish_and_clear();
            return super::json::interrupted(args.json, out);
        }
        demo.check(record, slots)?;
    }
    bar.finish_and_clear();
    let replayed = site.stop()?;
    demo.finish(args, replayed, out)
}

/// The server and the gate in front of it.
struct Site {
    origin: Origin,
    gate: Handle,
    running: JoinHandle<Result<Finished, StartError>>,
    generator_cpu: usize,
    origin_cpu: usize,
}

impl Site {
    fn start() -> Result<Site, Failure> {
        let cpus = origin::allowed_cpus().map_err(Failure::machine)?;
        let (Some(&generator_cpu), Some(&origin_cpu)) = (cpus.first(), cpus.last()) else {
            return Err(Failure::Machine("this process may use no processor".into()));
        };
        let documents = DocumentSet::webstone();
        let documents = documents.documents().iter();
        let origin = Origin::start(&OriginConfig {
            documents: documents
                .map(|d| Document { name: d.name.clone(), bytes: d.bytes })
                .collect(),
            demand: DEMAND,
            workers: WORKERS,
            serving: Serving::Threads,
            cpu: Some(origin_cpu),
            keep_alive: true,
            bytes_max: 5_000_000,
            backlog: 1024,
        })
        .map_err(Failure::machine)?;
        let listen = "127.0.0.1:0".parse().map_err(Failure::defect)?;
        let mut config = Config::new(listen, vec![origin.address()], FITTED.0);
        config.record_max = 200_000;
        // The largest document fits, so that a slot is held for the server and never for a client.
        config.limits.buffer = 8 << 20;
        let server = Server::bind(config).map_err(Failure::machine)?;
        let gate = server.handle();
        let running = std::thread::Builder::new()
            .name("gate".into())
            .spawn(move || {
                // A machine that does not allow it only makes the demo noisier.
                origin::pin_current_thread(generator_cpu).ok();
                server.run()
            })
            .map_err(Failure::machine)?;
        Ok(Site { origin, gate, running, generator_cpu, origin_cpu })
    }

    fn introduction(&self) -> String {
        let mut text = paragraph(&format!(
            "A real HTTP server runs on processor {}: {WORKERS} workers, WebStone's documents, each \
             request burning 0.025 us of processor time a byte and 1 ms. In front of it stands a gate \
             with {} slots; gate and load generator run on processor {}. All on loopback.",
            self.origin_cpu, FITTED.0, self.generator_cpu
        ));
        if self.origin_cpu == self.generator_cpu {
            text += &paragraph(
                "note: there is only one processor, so generator and server disturb each other, and \
                 the predictions will be worse than they should be",
            );
        }
        text + "\n"
    }

    fn measure(
        &self,
        clients: u32,
        slots: u32,
        args: &Args,
        session: &Session,
        bar: &ProgressBar,
    ) -> Result<RunRecord, Failure> {
        self.gate.resize(0, slots).map_err(Failure::machine)?;
        bar.set_message(format!(
            "measuring {}",
            point_text(advise::Load::Clients(clients), Some(slots))
        ));
        let url = format!("http://{}/", self.gate.address());
        let target = Target::parse(&url, Reach::Private).map_err(Failure::machine)?;
        let load = Load::Closed { clients, think: Dist::Constant(0.0) };
        let mut spec = PlanSpec::new(target, load, Until::Seconds(args.run.0));
        spec.requests = Request::documents(&spec.target, &DocumentSet::webstone());
        spec.warmup = WARMUP;
        spec.interval = WARMUP;
        spec.cpus = vec![self.generator_cpu];
        spec.seed = args.seed + u64::from(clients);
        let mut record = press(spec, session, bar)?;
        let (id, path) = store::claimed("runs", &record.header.id, "jsonl")?;
        record.header.id = id;
        store::write_run(&path, &record)?;
        Ok(record)
    }

    /// Stops all; says whether the recording of the live gate replays to the same actions.
    fn stop(self) -> Result<String, Failure> {
        let recording = self.gate.recording().map_err(Failure::machine)?;
        self.gate.drain().map_err(Failure::machine)?;
        let finished = self.running.join();
        self.origin.stop();
        match finished {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(Failure::machine(error)),
            Err(_) => return Err(Failure::Defect("the gate panicked".into())),
        }
        Ok(match recording {
            None => "The gate was not recorded.".into(),
            Some(recording) => match recording.replay() {
                Ok(()) => format!(
                    "The live gate's recording ({} steps) replays in the same gate to identical actions.",
                    recording.steps.len()
                ),
                Err(divergence) => format!("The recording does NOT replay: {divergence}"),
            },
        })
    }
}

/// Findings of the loop so far.
struct Demo {
    runs: Vec<RunRecord>,
    fit: Fit,
    prediction: Prediction,
    prediction_path: PathBuf,
    scenario_path: PathBuf,
    checked: Vec<RunRecord>,
    scores: Vec<Score>,
}

fn fit_of(runs: &[RunRecord], args: &Args) -> Result<Fit, FitError> {
    let options = FitOptions {
        slots: Some(FITTED.0),
        cores: Some(1),
        seed: args.seed,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: "demo: webstone documents behind a gate".into(),
    };
    advise::fit(runs, &options)
}

impl Demo {
    /// Asks about what the fitted runs never saw, before it is measured.
    fn new(runs: Vec<RunRecord>, fit: Fit, args: &Args) -> Result<Demo, Failure> {
        let mut slots: Vec<u32> = CHECKED.iter().map(|(_, slots)| *slots).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut clients: Vec<u32> = CHECKED.iter().map(|(clients, _)| *clients).collect();
        clients.extend(FITTED.1);
        clients.sort_unstable();
        clients.dedup();
        let question = Question { clients, slots, ..Question::default() };
        let mut prediction = ask::predict(fit.scenario.clone(), &question, args.seed)?;
        let (id, path) = store::claimed("predictions", &prediction.id, "json")?;
        prediction.id = id;
        ask::store_prediction(&path, &prediction)?;
        let scenario_path = fit::keep_scenario(&fit.scenario, &prediction.id)?;
        Ok(Demo {
            runs,
            fit,
            prediction,
            prediction_path: path,
            scenario_path,
            checked: Vec::new(),
            scores: Vec::new(),
        })
    }

    fn check(&mut self, record: RunRecord, slots: u32) -> Result<(), Failure> {
        let point = advise::point_for(&self.prediction, &record, Some(slots))
            .ok_or_else(|| Failure::Defect("the demo did not ask about its own check".into()))?;
        let options = Options { seed: self.prediction.seed, ..quick() };
        let scenario = &self.prediction.scenario;
        let score = advise::score(scenario, point, &record, Tolerance::default(), &options)
            .map_err(Failure::machine)?;
        self.scores.push(score);
        self.checked.push(record);
        Ok(())
    }

    fn verdict(&self) -> Verdict {
        let right = self.scores.iter().map(Score::right).max().unwrap_or(Right::CannotTell);
        let invalid =
            self.runs.iter().chain(&self.checked).any(|record| !record.judge(0.95).is_valid());
        if invalid { Verdict::Invalid } else { verdict_of(right) }
    }

    fn headline(&self) -> String {
        let worst = self
            .scores
            .iter()
            .filter_map(|score| {
                score.rows.iter().find(|row| row.quantity == advise::Quantity::Response)
            })
            .map(advise::Row::error)
            .max_by(|a, b| a.abs().total_cmp(&b.abs()))
            .unwrap_or(0.0);
        format!(
            "{} loads and slots that the fit never saw were predicted; the mean response was at worst {} \
             off{}",
            self.scores.len(),
            percent(worst),
            self.prediction.approximation().of_formula()
        )
    }

    fn finish(
        &self,
        args: &Args,
        replayed: String,
        out: &mut dyn Write,
    ) -> Result<Verdict, Failure> {
        let verdict = self.verdict();
        let mut runs = self.runs.clone();
        runs.extend(self.checked.iter().cloned());
        let page = loop_report::page(&loop_report::Story {
            title: "Sekisho demo: measured, fitted, predicted, checked",
            verdict,
            line: self.headline(),
            judged: loop_report::judged(&runs),
            runs: &runs,
            knees: &[],
            fit: Some(&self.fit),
            prediction: Some(&self.prediction),
            scenario: Some(&self.scenario_path),
            scores: &self.scores,
            notes: std::slice::from_ref(&replayed),
            held: &[],
            answer: &loop_report::of_prediction(&self.prediction),
            more: Vec::new(),
        })?;
        page.write(&args.report).map_err(Failure::machine)?;
        if args.json {
            let answer = Demonstrated {
                approximate: self.prediction.approximation().approximate,
                error: self.prediction.approximation().error,
                scores: scores(&self.scores),
                prediction_file: &self.prediction_path,
                scenario_file: &self.scenario_path,
                report: &args.report,
            };
            say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
            return Ok(verdict);
        }
        let line = sentence(&format!("{}: {}", verdict.word(), self.headline()));
        say(out, &format!("{line}\n"))?;
        say(out, &format!("1. measured and fitted\n\n{}\n", fit::fit_text(&self.fit)))?;
        let asked = ask::prediction_text(&self.prediction);
        say(out, &format!("2. asked, before it was measured\n\n{asked}\n"))?;
        say(out, "3. checked\n")?;
        for score in &self.scores {
            let right = verdict_of(score.right());
            say(out, &format!("\n  {}: {}\n", right.word(), point_text(score.load, score.slots)))?;
            say(out, &score_text(score))?;
        }
        for record in self.runs.iter().chain(&self.checked) {
            for fault in record.judge(0.95).faults {
                say(out, &paragraph(&format!("invalid: run {}: {fault}", record.header.id)))?;
            }
        }
        say(out, &format!("\n{}", paragraph(&replayed)))?;
        say(
            out,
            &format!(
                "\n  prediction: {}\n  scenario: {}\n  report: {}\n  for your own service: `sekisho \
                 measure http`, its URL, `--clients 1,32`\n",
                self.prediction_path.display(),
                self.scenario_path.display(),
                std::path::absolute(&args.report)?.display()
            ),
        )?;
        Ok(verdict)
    }
}

/// The whole loop: measured, fitted, predicted, checked.
#[derive(Serialize, JsonSchema)]
pub(super) struct Demonstrated<'a> {
    /// True if the formula's numbers are approximate.
    approximate: bool,
    /// The largest relative error where the formula was tried.
    error: Option<f64>,
    /// Each predicted load, held against its run.
    scores: Vec<ScoreAnswer<'a>>,
    /// File that the prediction was stored in.
    prediction_file: &'a Path,
    /// File that the scenario was written to.
    scenario_file: &'a Path,
    /// File of the report.
    report: &'a Path,
}

impl Answer for Demonstrated<'_> {
    const FORMAT: &'static str = "sekisho/demo/1";
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::text::time;

    #[test]
    fn the_demo_is_in_the_regime_where_slots_matter() {
        let set = DocumentSet::webstone();
        let cost = |bytes: u64| DEMAND.per_byte_s * bytes as f64 + DEMAND.base_s;
        let mean = set.mean_of(|document| cost(document.bytes));
        let second = set.mean_of(|document| cost(document.bytes).powi(2));
        let scv = second / (mean * mean) - 1.0;
        assert_eq!(time(mean), "1.48 ms");
        assert!((7.0..9.0).contains(&scv), "{scv}");
    }
}
