//! `sekisho replay`: a live gate's recording held against today's gate, and what was recorded.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use cli::text::{
    Table, count, filled, label, next, paragraph, quantile, sentence, shell_word, time,
};
use cli::{Failure, Session, Verdict, say};
use measure::{ClassAccount, Divergence, Times};

use crate::json::{Difference, Replayed};
use crate::recording::{CutOff, Recorded, actions_text, gate_text, reasons};

/// Hold a gate's recording against today's gate, and say what is in it
///
/// A fresh gate is told every event of the recording. It must answer each as the live gate did.
#[derive(ClapArgs)]
#[command(after_help = "\
A recording is what `gate http --record FILE` and `gate postgres --record FILE`
write at their end.

Example:
  sekisho replay gate.rec")]
pub struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Take a file that is cut off as far as it goes
    #[arg(long)]
    partial: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Holds a recording against today's gate.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let cut_off = if args.partial { CutOff::Taken } else { CutOff::Refused };
    let recorded = Recorded::read(&args.file, cut_off, session, false, &mut |_, _| {})?;
    let verdict = match (&recorded.divergence, recorded.steps) {
        (Some(_), _) => Verdict::Fails,
        (None, 0) => Verdict::Inconclusive,
        (None, _) => Verdict::Holds,
    };
    if args.json {
        let answer = Replayed {
            recording: args.file.display().to_string(),
            recorded: recorded.answer(),
            first_difference: recorded.divergence.as_ref().map(Difference::from),
        };
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    say(out, &headline(&recorded, verdict))?;
    if let Some(divergence) = &recorded.divergence {
        say(out, &difference(&recorded, divergence))?;
    }
    if recorded.steps > 0 {
        say(out, &format!("\n{}", contents(&recorded)))?;
    }
    let file = shell_word(&args.file);
    let command = match (verdict, recorded.account.all().holds.count()) {
        (Verdict::Holds, 1..) => {
            let partial = if recorded.is_cut_off() { " --partial" } else { "" };
            format!("sekisho sim {file} --slots {}{partial}", other_slots(&recorded))
        }
        _ => "sekisho gate http --help".to_owned(),
    };
    say(out, &format!("\n{}", next(&command)))?;
    Ok(verdict)
}

/// Other numbers of slots that are worth a look: half and twice as many.
pub(crate) fn other_slots(recorded: &Recorded) -> String {
    let slots = recorded.spec.servers.iter().map(|server| server.slots).max().unwrap_or(1);
    let mut others = vec![(slots / 2).max(1), slots, slots.saturating_mul(2).max(2)];
    others.retain(|&other| other != slots || slots == 0);
    let others: Vec<String> = others.iter().map(u32::to_string).collect();
    others.join(",")
}

fn headline(recorded: &Recorded, verdict: Verdict) -> String {
    let steps = recorded.steps;
    sentence(&match &recorded.divergence {
        Some(divergence) => format!(
            "{}: today's gate answers step {} of {steps} otherwise than it was recorded",
            verdict.word(),
            divergence.step + 1
        ),
        None if steps == 0 => format!("{}: nothing was recorded", verdict.word()),
        None => format!(
            "{}: {steps} steps; today's gate answers each as it was recorded",
            verdict.word()
        ),
    })
}

/// The first step that differs.
fn difference(recorded: &Recorded, divergence: &Divergence) -> String {
    let Divergence { recorded: step, replayed, .. } = divergence;
    let rows = [
        ("at", format!("{:.9} s", step.at.as_secs_f64())),
        ("event", recorded.event_text(&step.event)),
        ("recorded", actions_text(&step.actions)),
        ("now", actions_text(replayed)),
    ];
    let row =
        |(name, text): (&str, String)| filled(&format!("  {name:<9}"), &" ".repeat(12), &text);
    rows.map(row).concat()
        + &paragraph(
            "What follows is not compared: the gates are in other states. Either the gate has changed \
             since, or the file was edited.",
        )
}

/// The jobs and times of a recording.
fn contents(recorded: &Recorded) -> String {
    let account = &recorded.account;
    let all = account.all();
    let length = account.length().as_secs_f64();
    let mut text = paragraph(&format!("gate: {}", gate_text(&recorded.spec)));
    text += &paragraph(&format!("length: {}, {}", time(length), count(all.arrived, "job")));
    let mut table = Table::new(&["class", "jobs", "served", "refused", "reneged"]);
    let mut times = Table::new(&["time", "mean", "p50", "p95", "p99"]);
    let mut row = |name: &str, of: &ClassAccount| {
        let counts = [of.arrived, of.waits.count(), of.refused_in_all(), of.reneged];
        let mut cells = vec![label(name)];
        cells.extend(counts.map(|count| count.to_string()));
        table.row(cells);
        for (what, of) in [("wait", &of.waits), ("hold", &of.holds)] {
            let mut cells = vec![format!("{what}, {}", label(name))];
            cells.extend(times_cells(of));
            times.row(cells);
        }
    };
    let classes = account.classes();
    if classes.len() > 1 {
        for (class, of) in classes {
            row(&recorded.class(*class), of);
        }
    }
    row("all", &all);
    text += &format!("\n{table}\n{times}\n");
    if all.refused_in_all() > 0 {
        text += &paragraph(&format!("refused: {}", reasons(&all)));
    }
    text += &levels(recorded);
    text
}

fn levels(recorded: &Recorded) -> String {
    let account = &recorded.account;
    let share = account.utilisation().map(|share| format!(" ({:.1} %)", share * 100.0));
    let slots = match account.slots_mean() {
        mean if (mean - mean.round()).abs() < 1e-9 => format!("{mean:.0}"),
        mean => format!("{mean:.2}"),
    };
    let mut text = paragraph(&format!(
        "slots held: {:.2} of {}{}, jobs waiting: {:.2}, on average over the time",
        account.held_mean(),
        slots,
        share.unwrap_or_default(),
        account.waiting_mean()
    ));
    let (waiting, held) = account.unfinished();
    if waiting + held > 0 {
        text += &paragraph(&format!(
            "at the end {} waiting, {} held",
            count(waiting, "job"),
            count(held, "slot")
        ));
    }
    if recorded.truncated {
        text += &paragraph(&format!(
            "The gate went on when {} steps were recorded, the most that it was told to record: say \
             `--record-max N` for more.",
            recorded.announced
        ));
    }
    if recorded.is_cut_off() {
        text += &paragraph(&format!(
            "The file is cut off: {} of {} steps are there.",
            recorded.steps, recorded.announced
        ));
    }
    text
}

/// Mean and quantiles of times.
pub(crate) fn times_cells(times: &Times) -> Vec<String> {
    let mean = times.mean_s().map_or("-".into(), time);
    let of = |q| times.quantile_s(q).map_or("-".into(), quantile);
    std::iter::once(mean).chain([0.5, 0.95, 0.99].map(of)).collect()
}
