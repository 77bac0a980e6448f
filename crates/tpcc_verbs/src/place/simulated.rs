//! `sekisho tpcc place --simulate`: nakamura's three disks on a machine that has one.
//!
//! Where the machine can, they are three limited block devices, and terminals run against tables on one
//! of them and over all. Else they are the queueing model of disks that reproduces the paper's
//! table 5, with the shares of the accesses that a run here was measured to have.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use ::measure::{Estimate, Ratio};
use ::tpcc::place::{Accesses, Arrangement, Placement, Step, assign, perform, steps as statements};
use ::tpcc::{Outcome, Pace};
use advise::disk_model::{DiskModel, DiskModelError, Effort, PAPER_ONE, PAPER_THREE, Point, limit};
use cli::json::Answer;
use cli::text::{Table, next, paragraph, plus_minus, sentence, time, time_estimate};
use cli::{Failure, Session, Verdict, say, store, turning};
use schemars::JsonSchema;
use serde::Serialize;
use workload::tpcc::Kind;

use super::devices::{DISKS, Devices};
use super::shown::{self, Form};
use super::{Args, How, Measured, PARAMETERS, Stop, measure};
use crate::target::Target;
use crate::terminals::{self, TerminalArgs};

/// Connections of the runs on devices.
const LOADS: [u32; 3] = [1, 4, 16];
const EFFORT: Effort = Effort { requests: 30_000, runs: 5 };

/// Output of the story, and its verdict.
struct Story {
    verdict: Verdict,
    text: String,
    /// The same as JSON.
    line: String,
}

/// Transactions on devices that the kernel limits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OnDevices<'a> {
    /// Means by which the disks were simulated.
    simulated_by: &'static str,
    /// Reads, and writes, that each device does in a second.
    per_second: u32,
    /// Arrangement of tables, indexes and log over the directories, in words.
    arrangement: String,
    /// Planned rate of blocks of each directory \[1/s\].
    planned_blocks_per_s: &'a [f64],
    /// A row for each number of connections.
    loads: Vec<LoadAnswer>,
}

impl Answer for OnDevices<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-place-devices/1";
}

/// A number of connections.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Load")]
struct LoadAnswer {
    /// Number of connections.
    connections: u32,
    one_disk: DiskAnswer,
    three_disks: DiskAnswer,
    new_orders_ratio: Ratio,
}

/// A run on one disk, or on three.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OnDisks")]
struct DiskAnswer {
    /// 90th percentile of the response of new orders \[s\].
    new_order_p90_s: f64,
    /// Ends of its interval \[s\].
    new_order_p90_interval_s: [f64; 2],
    /// New orders completed in a minute.
    new_orders_per_minute: Estimate,
}

/// Table 5 of the paper by the model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ByModel<'a> {
    /// Means by which the disks were simulated.
    simulated_by: &'static str,
    /// Cause why no devices were used.
    why: &'a str,
    /// Time of an access of a disk \[s\].
    disk_time_s: f64,
    /// Share of the accesses of each disk.
    shares: &'a [f64],
    /// Arrangement of tables, indexes and log over the directories, in words.
    arrangement: String,
    /// Blocks that a transaction accesses, the mean.
    blocks_per_transaction: f64,
    /// A row for each number of warehouses.
    sizes: Vec<SizeAnswer>,
    /// Most warehouses within the limits of the specification.
    valid_one_disk: u32,
    /// The same with three disks.
    valid_three_disks: u32,
    /// File that the scenario was written to.
    scenario_file: &'a Path,
}

impl Answer for ByModel<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-place-model/1";
}

/// A number of warehouses.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Size")]
struct SizeAnswer {
    /// Number of warehouses.
    warehouses: u32,
    /// 90th percentile of the response with one disk \[s\].
    one_disk_p90_s: f64,
    three_disks_p90_s: Estimate,
    /// None where the paper has none.
    paper_one_disk_p90_s: Option<f64>,
    /// The same of the paper with three disks \[s\].
    paper_three_disks_p90_s: Option<f64>,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.terminals.database.is_named() {
        return Err(Failure::Usage(
            "`--simulate` works on a private PostgreSQL: leave out `--db` (and DATABASE_URL, \
             PGHOST ...)"
                .into(),
        ));
    }
    // Made before the server and gone after it, whatever becomes of it in between: a file system
    // that is in use stays.
    let mut devices = match args.simulate {
        Some(How::Model) => Err("the model was asked for".to_owned()),
        _ => Devices::make(),
    };
    if let (Some(How::Devices), Err(said)) = (args.simulate, &devices) {
        return Err(Failure::Usage(format!(
            "this machine cannot make three disks: {said}; `--simulate=model` asks the model"
        )));
    }
    let &TerminalArgs { ref private, warehouses, seed, .. } = &args.terminals;
    let Some(mut target) = Target::lend(private, &PARAMETERS, (warehouses, seed), session)? else {
        return terminals::not_begun(&args.terminals, out);
    };
    let story = match &mut devices {
        Ok(devices) => on_devices(args, &mut target, devices, session),
        Err(said) => by_model(args, &target, said, session),
    };
    let verdict = match story {
        Ok(story) => {
            let text = match args.form() {
                Form::Json => story.line,
                Form::Text => story.text,
            };
            say(out, &text)?;
            story.verdict
        }
        Err(stop) => stop.tell(args.form(), out)?,
    };
    target.close()?;
    Ok(verdict)
}

/// A run on limited devices: New-Orders.
struct Limited {
    connections: u32,
    /// The 90th percentile and its interval: low, value, high \[s\].
    p90: (f64, f64, f64),
    per_minute: Estimate,
}

fn on_devices(
    args: &Args,
    target: &mut Target,
    devices: &mut Devices,
    session: &Session,
) -> Result<Story, Stop> {
    let folders = devices.folders();
    let free = measure(args, target, session)?;
    let placement = assign(&free.accesses.rated(), DISKS).map_err(Failure::usage)?;
    let server = target.private().expect("it was lent for this");
    let places = folders
        .iter()
        .map(|folder| server.lend(folder).map_err(Failure::usage))
        .collect::<Result<Vec<PathBuf>, Failure>>()?;
    let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    // The log stays with one disk; what comes and goes is everything else.
    let log_at = placement.of.first().copied().unwrap_or(0);
    server.move_log(places[log_at]).map_err(Failure::machine)?;
    let (spread, together) = moves(&free.accesses, &placement, log_at, &places);
    let mut rows = Vec::new();
    for steps in [&spread, &together] {
        perform(&target.config, steps, &session.interrupt, &mut |_| {})?;
        rows.push(limited(args, target, devices, session)?);
    }
    let together = rows.pop().unwrap_or_default();
    let spread = rows.pop().unwrap_or_default();
    Ok(devices_story(args, &placement, &together, &spread))
}

/// The statements that spread everything over the disks, and those that then put all on one.
fn moves(
    accesses: &Accesses,
    placement: &Placement,
    log_at: usize,
    places: &[&Path],
) -> (Vec<Step>, Vec<Step>) {
    let one = Placement {
        of: vec![log_at; placement.of.len()],
        arrangement: Arrangement::Even,
        rates: placement.rates.clone(),
        bound: placement.bound,
    };
    let is_made = |step: &Step| matches!(step, Step::Make { .. });
    let mut spread = statements(accesses, placement, places);
    let (makes, together): (Vec<Step>, Vec<Step>) =
        statements(accesses, &one, places).into_iter().partition(is_made);
    // Where the log is alone, spreading makes no tablespace beside it.
    for make in makes {
        if !spread.contains(&make) {
            spread.insert(0, make);
        }
    }
    (spread, together)
}

/// Runs at every load, with the disks limited while the terminals work.
fn limited(
    args: &Args,
    target: &Target,
    devices: &mut Devices,
    session: &Session,
) -> Result<Vec<Limited>, Stop> {
    // What was moved is written before anything is limited.
    ::tpcc::place::observe(&target.config, &session.interrupt)?;
    let mut rows = Vec::new();
    for connections in LOADS {
        let (ramp, measure) = (terminals::span(args.ramp)?, terminals::span(args.measure)?);
        let plan = args.terminals.plan(Pace::Stress, connections, ramp, measure);
        devices.limit(args.per_second).map_err(Failure::Machine)?;
        let kept = terminals::run(target, &plan, session);
        devices.limit(0).map_err(Failure::Machine)?;
        let kept = kept?;
        let judged = kept.record.judge();
        match judged.outcome {
            Outcome::Interrupted => return Err(Stop::Interrupted("interrupted: in a run".into())),
            Outcome::Invalid(_) => return Err(Stop::Invalid(Box::new((kept, judged)))),
            _ => {}
        }
        let times = &kept.record.of(Kind::NewOrder).response;
        if times.is_empty() {
            return Err(Stop::Failed(Failure::Usage(
                "no New-Order was answered in time: allow more I/Os (`--per-second`), or measure \
                 longer (`--measure`)"
                    .into(),
            )));
        }
        rows.push(Limited {
            connections,
            p90: shown::p90(times),
            per_minute: judged.new_orders_per_minute,
        });
    }
    Ok(rows)
}

fn devices_story(args: &Args, placement: &Placement, one: &[Limited], three: &[Limited]) -> Story {
    let pairs = || one.iter().zip(three);
    let gains: Vec<Ratio> =
        pairs().map(|(one, three)| Ratio::of(one.per_minute, three.per_minute)).collect();
    // Where most wait, disks matter most.
    let verdict = match gains.last() {
        Some(most) if most.low > 1.0 => Verdict::Holds,
        Some(most) if most.high < 1.0 => Verdict::Fails,
        _ => Verdict::Inconclusive,
    };
    let times: Vec<String> = gains.iter().map(|gain| format!("{:.2}", gain.ratio)).collect();
    let mut text = sentence(&format!(
        "{}: three limited devices did {} times the New-Orders of one",
        verdict.word(),
        times.join(", ")
    ));
    let head = ["conn.", "one NO/min", "three NO/min", "ratio (95 %)", "p90 one", "p90 three"];
    let mut table = Table::new(&head);
    let mut rows = Vec::new();
    for ((one, three), gain) in pairs().zip(&gains) {
        let per_minute = |of: &Limited| plus_minus(&of.per_minute, 0);
        table.row(vec![
            one.connections.to_string(),
            per_minute(one),
            per_minute(three),
            match gain.high.is_finite() {
                true => format!("{:.2} ({:.2} to {:.2})", gain.ratio, gain.low, gain.high),
                false => format!("{:.2} (?)", gain.ratio),
            },
            time(one.p90.1),
            time(three.p90.1),
        ]);
        let side = |of: &Limited| DiskAnswer {
            new_order_p90_s: of.p90.1,
            new_order_p90_interval_s: [of.p90.0, of.p90.2],
            new_orders_per_minute: of.per_minute,
        };
        rows.push(LoadAnswer {
            connections: one.connections,
            one_disk: side(one),
            three_disks: side(three),
            new_orders_ratio: *gain,
        });
    }
    let _ = write!(text, "\n{table}\n");
    let per_second = args.per_second;
    text += &paragraph(&format!(
        "Files as block devices, each limited by the kernel to {per_second} reads and {per_second} \
         writes a second; times are of such disks. Tables, indexes and log lay on one of them, then \
         spread by their access rates, {}, the busiest {:.0} % above the mean.",
        shown::arrangement(placement.arrangement),
        placement.imbalance() * 100.0
    ));
    text += &paragraph(
        "Reads that the system's cache answers do not reach a disk, so mostly writes meet the limit. \
         A 90th percentile of a short run leaves out whom a full disk keeps waiting to its end. In the \
         paper's table 5 it is 2.0, 6.4 and 7.3 times as long on one disk, at 4, 6 and 8 warehouses.",
    );
    text += &next("sekisho tpcc place --simulate=model");
    let answer = OnDevices {
        simulated_by: "devices",
        per_second,
        arrangement: format!("{:?}", placement.arrangement),
        planned_blocks_per_s: &placement.rates,
        loads: rows,
    };
    let line = cli::json::answer(verdict, verdict.word(), &answer);
    Story { verdict, text, line }
}

fn by_model(args: &Args, target: &Target, said: &str, session: &Session) -> Result<Story, Stop> {
    let run = measure(args, target, session)?;
    let placement = assign(&run.accesses.rated(), DISKS).map_err(Failure::usage)?;
    let seed = args.terminals.seed;
    Ok(turning("simulating", || model_story(&run, &placement, said, seed))?)
}

/// A size of table 5 in the model: with one disk exactly, with three simulated, and the paper's.
struct Size {
    warehouses: u32,
    one: f64,
    three: Estimate,
    paper: [Option<f64>; 2],
}

fn model_story(
    run: &Measured,
    placement: &Placement,
    said: &str,
    seed: u64,
) -> Result<Story, Failure> {
    let one = DiskModel::fitted(&PAPER_ONE).map_err(unanswered)?;
    let three = one.over(&placement.rates);
    let printed = |points: &[Point], warehouses: u32| {
        points.iter().find(|(of, _)| *of == warehouses).map(|(_, p90)| *p90)
    };
    let mut sizes = Vec::new();
    for (warehouses, _) in PAPER_THREE {
        sizes.push(Size {
            warehouses,
            one: one.p90_of_one(warehouses).map_err(unanswered)?,
            three: three.answer(warehouses, EFFORT, seed).map_err(unanswered)?.p90,
            paper: [printed(&PAPER_ONE, warehouses), printed(&PAPER_THREE, warehouses)],
        });
    }
    let valid = |model: &DiskModel| model.valid_most(EFFORT, seed).map_err(unanswered);
    let valid = [valid(&one)?, valid(&three)?];
    let faster = sizes.iter().all(|size| size.three.high() < size.one);
    // The paper's is 2.5 times; half of what three disks could bring at most is a shape.
    let holds = faster && f64::from(valid[1]) >= 1.5 * f64::from(valid[0]);
    let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
    let path = kept(&three)?;
    let text = model_text(run, placement, said, &one, &sizes, valid, verdict)
        + &next(&format!("sekisho sim {}", path.display()));
    let rows = sizes.iter().map(|size| SizeAnswer {
        warehouses: size.warehouses,
        one_disk_p90_s: size.one,
        three_disks_p90_s: size.three,
        paper_one_disk_p90_s: size.paper[0],
        paper_three_disks_p90_s: size.paper[1],
    });
    let answer = ByModel {
        simulated_by: "model",
        why: said,
        disk_time_s: one.demand,
        shares: &three.shares,
        arrangement: format!("{:?}", placement.arrangement),
        blocks_per_transaction: blocks(run),
        sizes: rows.collect(),
        valid_one_disk: valid[0],
        valid_three_disks: valid[1],
        scenario_file: &path,
    };
    let line = cli::json::answer(verdict, verdict.word(), &answer);
    Ok(Story { verdict, text, line })
}

fn unanswered(error: DiskModelError) -> Failure {
    match error {
        DiskModelError::NeverTheLimit => Failure::usage(error),
        error => Failure::machine(error),
    }
}

/// Blocks read and written a transaction, in the run.
fn blocks(run: &Measured) -> f64 {
    let all: f64 = run.accesses.all.iter().map(|access| access.rate()).sum();
    let client = &run.kept.record.client;
    all * client.elapsed_s / (client.transactions.max(1)) as f64
}

/// Keeps the scenario with three disks, for questions of the user's own.
fn kept(three: &DiskModel) -> Result<PathBuf, Failure> {
    let path = store::path("scenarios", &format!("{}.toml", store::new_id()))?;
    let text = toml::to_string(&three.scenario(8)).map_err(Failure::defect)?;
    store::write_whole(&path, text)?;
    Ok(path)
}

fn model_text(
    run: &Measured,
    placement: &Placement,
    said: &str,
    one: &DiskModel,
    sizes: &[Size],
    valid: [u32; 2],
    verdict: Verdict,
) -> String {
    let mut text = sentence(&format!(
        "{}: by the queueing model of disks, {} warehouses are within {} s on one disk and {} over \
         three",
        verdict.word(),
        valid[0],
        limit(),
        valid[1]
    ));
    let head = ["warehouses", "one disk p90", "paper", "three p90", "paper's placement"];
    let mut table = Table::new(&head);
    let printed = |value: Option<f64>| value.map_or("-".into(), time);
    for size in sizes {
        table.row(vec![
            size.warehouses.to_string(),
            time(size.one),
            printed(size.paper[0]),
            time_estimate(&size.three),
            printed(size.paper[1]),
        ]);
    }
    let _ = write!(text, "\n{table}\n");
    let shares: Vec<String> = placement
        .rates
        .iter()
        .map(|rate| format!("{:.0} %", rate / placement.rates.iter().sum::<f64>() * 100.0))
        .collect();
    text += &paragraph(&format!(
        "The model and not devices: {said}. Seconds are of the model. A transaction works for {:.3} s \
         at one disk, which is fitted to the paper's times of one disk and to nothing else; over \
         three it is shared out as the accesses of a run here would be: {}, {}. That run read and \
         wrote {:.1} blocks a transaction.",
        one.demand,
        shares.join(", "),
        shown::arrangement(placement.arrangement),
        blocks(run),
    ));
    text + &paragraph(
        "The paper's own placement gave its three disks 24, 44 and 33 %; `sekisho reproduce nakamura` \
         asks the model with those.",
    )
}
