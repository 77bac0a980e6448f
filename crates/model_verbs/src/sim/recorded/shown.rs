//! What a recorded load does at several gates, as a person reads it and as JSON.

use cli::Verdict;
use cli::text::{Table, count, label, next, paragraph, sentence, shell_word, time, time_estimate};
use measure::{ClassAccount, Estimate, GateAccount};

use super::{Simulated, WhatIf};
use crate::json::{AtGate, AtGates, Class, Compared, Reproduced};
use crate::replay::{other_slots, times_cells};

/// A name that is longer than this is told by a letter.
const NAME_MAX: usize = 22;
/// Most classes that are shown each by itself.
const CLASSES_MAX: usize = 8;

impl WhatIf<'_> {
    pub(super) fn text(&self, verdict: Verdict) -> String {
        let mut text = self.headline(verdict);
        let names = self.names(&mut text);
        text += &format!("\n{}", self.counts(&names));
        let all = |account: &GateAccount| Some(account.all());
        text += &format!("\n{}", self.waits("wait", &names, None, &all));
        let classes = self.recorded.account.classes();
        if classes.len() > 1 {
            for class in classes.keys().take(CLASSES_MAX) {
                let head = format!("wait, {}", label(&self.recorded.class(*class)));
                let of = |account: &GateAccount| account.classes().get(class).cloned();
                text += &format!("\n{}", self.waits(&head, &names, Some(*class), &of));
            }
            if classes.len() > CLASSES_MAX {
                let left = classes.len() - CLASSES_MAX;
                text += &paragraph(&format!("{left} more classes: say `--json` for all"));
            }
        }
        text += "\n";
        for told in self.told() {
            text += &paragraph(&told);
        }
        text + "\n" + &next(&self.next())
    }

    fn headline(&self, verdict: Verdict) -> String {
        let jobs = self.load.jobs().len();
        let length = time(self.recorded.account.length().as_secs_f64());
        let gates = match self.simulated.len() - 1 {
            0 => "the recorded gate".to_owned(),
            1 => "the recorded gate and 1 other".to_owned(),
            others => format!("the recorded gate and {others} others"),
        };
        let word = match verdict {
            Verdict::Holds => "simulated",
            verdict => verdict.word(),
        };
        sentence(&format!(
            "{word}: {gates} under the recorded load, {} in {length}",
            count(jobs as u64, "job")
        ))
    }

    /// The names of the gates; long ones are letters, which are explained in the text.
    fn names(&self, text: &mut String) -> Vec<String> {
        let names: Vec<String> =
            self.simulated.iter().map(|simulated| simulated.gate.name.clone()).collect();
        if names.iter().all(|name| name.chars().count() <= NAME_MAX) {
            return names;
        }
        let mut letters = vec![names[0].clone()];
        for (nth, name) in names.iter().enumerate().skip(1) {
            let letter = format!("gate {nth}");
            *text += &paragraph(&format!("{letter}: {name}"));
            letters.push(letter);
        }
        letters
    }

    fn counts(&self, names: &[String]) -> Table {
        let mut table = Table::new(&["", "served", "refused", "reneged", "slots held"]);
        let mut row = |name: &str, account: &GateAccount| {
            let all = account.all();
            let held = account.utilisation();
            let held = held.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
            let counts = [all.waits.count(), all.refused_in_all(), all.reneged];
            let mut cells = vec![name.to_owned()];
            cells.extend(counts.map(|count| count.to_string()));
            cells.push(held);
            table.row(cells);
        };
        row("as recorded", &self.recorded.account);
        for (name, simulated) in names.iter().zip(&self.simulated) {
            row(name, &simulated.account);
        }
        table
    }

    fn waits(
        &self,
        head: &str,
        names: &[String],
        class: Option<u32>,
        of: &dyn Fn(&GateAccount) -> Option<ClassAccount>,
    ) -> Table {
        let mut table = Table::new(&[head, "mean", "p50", "p95", "p99", "mean difference"]);
        let mut row = |name: &str, account: &GateAccount, difference: String| {
            let times = of(account).unwrap_or_default().waits;
            let mut cells = vec![name.to_owned()];
            cells.extend(times_cells(&times));
            cells.push(difference);
            table.row(cells);
        };
        row("as recorded", &self.recorded.account, String::new());
        for (nth, (name, simulated)) in names.iter().zip(&self.simulated).enumerate() {
            let difference = match nth {
                0 => String::new(),
                _ => self.difference(simulated, class).map_or("-".into(), |of| signed(&of)),
            };
            row(name, &simulated.account, difference);
        }
        table
    }

    /// What must be known to read the tables.
    fn told(&self) -> Vec<String> {
        let gaps = self.load.gaps();
        let mut told = vec![self.reproduced()];
        if self.simulated.len() > 1 {
            told.push(
                "Differences are of the jobs that both gates serve, at this gate minus as it was, with 95 % \
                 intervals by blocks of time (± ?: too short or too correlated to say)."
                    .into(),
            );
        }
        told.push(format!(
            "Holds are as recorded, with at most {} at work; more at a time may make each longer, fewer \
             shorter. Arrivals are as recorded; clients that wait for an answer before they ask again would \
             come at other moments.",
            count(gaps.held_most as u64, "job")
        ));
        if gaps.holds_drawn > 0 {
            told.push(format!(
                "{} never started, with a hold that nobody knows: where a gate serves them, they hold as long \
                 as others of their class, drawn with seed {}.",
                count(gaps.holds_drawn, "job"),
                self.seed
            ));
        }
        if gaps.holds_cut_off > 0 {
            told.push(format!(
                "{} held a slot at the end of the recording: such holds are drawn among the longer ones of \
                 their class.",
                count(gaps.holds_cut_off, "job")
            ));
        }
        if gaps.reneged > 0 {
            told.push(format!(
                "{} gave up, and again after as long a wait. How long the others would have \
                 waited is not known, so that where waits are longer, more would give up than here.",
                count(gaps.reneged, "client")
            ));
        }
        if gaps.resizes > 0 && self.args.other.changes_slots() {
            told.push(format!(
                "The slots were changed {} while it was recorded; gates with other slots keep theirs.",
                count(gaps.resizes, "time")
            ));
        }
        if self.recorded.truncated || self.recorded.is_cut_off() {
            told.push(
                "The recording ends before the gate did: jobs that waited then are served here."
                    .into(),
            );
        }
        told
    }

    fn reproduced(&self) -> String {
        let found = &self.reproduction;
        if found.is_exact() {
            return format!(
                "As it was: all {} jobs have the fate and the wait of the recording, to the nanosecond.",
                found.compared
            );
        }
        let why = match &self.recorded.divergence {
            Some(divergence) => format!(
                "today's gate decides otherwise from step {} on (`sekisho replay` shows it)",
                divergence.step + 1
            ),
            None => {
                "the live gate was woken a little later than it had asked, and what depends on set \
                     times (a reserve, load information that is refreshed) came later"
                    .to_owned()
            }
        };
        let judged = match found.is_near() {
            true => "near enough to stand for it",
            false => "so that what is said of other gates does not count",
        };
        format!(
            "As it was: of {} jobs {} have another fate than in the recording and {} another wait, at most by \
             {}: {why}; {judged}.",
            found.compared,
            found.other_fate,
            found.other_wait,
            time(found.largest.as_secs_f64())
        )
    }

    /// The question that is still open.
    fn next(&self) -> String {
        let file = shell_word(&self.args.scenario);
        let partial = if self.args.other.partial { " --partial" } else { "" };
        let flags = match self.args.other.changes_slots() {
            false => format!("--slots {}", other_slots(&self.recorded)),
            true => "--discipline shortest-job --discipline lifo".to_owned(),
        };
        format!("sekisho sim {file} {flags}{partial}")
    }

    pub(super) fn answer(&self) -> AtGates<'_> {
        let (gaps, found) = (self.load.gaps(), &self.reproduction);
        let gates = self.simulated.iter().enumerate();
        AtGates {
            recording: self.args.scenario.display().to_string(),
            seed: self.seed,
            as_recorded: self.recorded.answer(),
            reproduced: Reproduced {
                exactly: found.is_exact(),
                jobs: found.compared,
                other_fate: found.other_fate,
                other_wait: found.other_wait,
                largest_difference_s: found.largest.as_secs_f64(),
            },
            holds_drawn: gaps.holds_drawn,
            holds_cut_off: gaps.holds_cut_off,
            reneged_as_recorded: gaps.reneged,
            slots_held_most: gaps.held_most,
            slots_changed: gaps.resizes,
            gates: gates.map(|(nth, simulated)| self.at_gate(simulated, nth)).collect(),
        }
    }

    fn at_gate<'a>(&'a self, simulated: &'a Simulated, nth: usize) -> AtGate<'a> {
        let account = &simulated.account;
        let compared = |of: &ClassAccount, class| Compared {
            jobs: of.into(),
            wait_difference_s: match nth {
                0 => None,
                _ => self.difference(simulated, class),
            },
        };
        let class = |(class, of): (&u32, &ClassAccount)| Class {
            class: self.recorded.class(*class),
            of: compared(of, Some(*class)),
        };
        let (waiting, held) = account.unfinished();
        AtGate {
            name: simulated.gate.name.clone(),
            gate: &simulated.gate.spec,
            jobs: compared(&account.all(), None),
            classes: account.classes().iter().map(class).collect(),
            utilisation: account.utilisation(),
            waiting_mean: account.waiting_mean(),
            slots_held_mean: account.held_mean(),
            slots_mean: account.slots_mean(),
            never_ended: waiting + held,
        }
    }
}

/// A difference with its sign and its interval: `+3.2 ms ± 0.4`.
fn signed(estimate: &Estimate) -> String {
    let sign = match estimate.mean {
        mean if mean > 0.0 => "+",
        mean if mean < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}", time_estimate(&Estimate { mean: estimate.mean.abs(), ..*estimate }))
}
