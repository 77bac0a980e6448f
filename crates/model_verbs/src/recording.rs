//! Recordings of gates as `replay` and `sim` read them: step by step, with progress, until the user stops
//! it; and the words for what is in them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use cli::{Failure, Session, progress};
use gate::{Action, Event, GateSpec, JobId, Queues, Reason, Slot};
use indicatif::ProgressBar;
use measure::{ClassAccount, Divergence, GateAccount, RecordingReader, Replay, Step};

use crate::json::{Class, InRecording, Jobs};

/// A recording that was read to its end.
pub(crate) struct Recorded {
    pub(crate) spec: GateSpec,
    pub(crate) classes: Vec<String>,
    pub(crate) quotas: u32,
    /// Number of steps that were read, and that were announced.
    pub(crate) steps: u64,
    pub(crate) announced: u64,
    /// True if the gate went on when the bound on the steps was reached.
    pub(crate) truncated: bool,
    pub(crate) account: GateAccount,
    /// The first step at which today's gate answers otherwise.
    pub(crate) divergence: Option<Divergence>,
}

/// A file that may be cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOff {
    /// It is refused.
    Refused,
    /// It is taken as far as it goes.
    Taken,
}

/// Steps between two looks at whether the user has stopped it.
const LOOK_EVERY: u64 = 1 << 14;

impl Recorded {
    /// Reads a recording, holds it against today's gate, and shows each step to `see`. With the fates of
    /// its jobs if they are asked for, which take memory for each.
    pub(crate) fn read(
        path: &Path,
        cut_off: CutOff,
        session: &Session,
        fates: bool,
        see: &mut dyn FnMut(&GateSpec, &Step),
    ) -> Result<Recorded, Failure> {
        let file = File::open(path).map_err(|error| {
            Failure::Usage(format!("cannot read the recording {}: {error}", path.display()))
        })?;
        let broken =
            |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let mut reader =
            RecordingReader::new(BufReader::new(file)).map_err(|error| broken(&error))?;
        let account = GateAccount::new(&reader.spec).map_err(|error| broken(&error))?;
        let mut account = if fates { account.with_fates() } else { account };
        let mut replay = Replay::new(&reader.spec).map_err(|error| broken(&error))?;
        let bar = progress(reader.steps, "replaying");
        bar.tick();
        while let Some(step) = reader.next_step().map_err(|error| broken(&error))? {
            look(session, &bar, reader.read(), path)?;
            replay.step(&step);
            account.step(step.at, &step.event, &step.actions).map_err(|error| broken(&error))?;
            see(&reader.spec, &step);
        }
        bar.finish_and_clear();
        let (steps, announced) = (reader.read(), reader.steps);
        if reader.is_cut_off() && cut_off == CutOff::Refused {
            return Err(Failure::Usage(format!(
                "{}: it is cut off: its first line announces {announced} steps, and {steps} are \
                 there; copy it again, or say `--partial` to take what is there",
                path.display()
            )));
        }
        let divergence = replay.divergence().cloned();
        let RecordingReader { spec, classes, quotas, truncated, .. } = reader;
        Ok(Recorded { spec, classes, quotas, steps, announced, truncated, account, divergence })
    }

    /// True if steps that the header announces are missing.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.steps < self.announced
    }

    /// The name of a class.
    pub(crate) fn class(&self, class: u32) -> String {
        if class == GateAccount::OTHERS {
            return "all others".to_owned();
        }
        self.classes.get(class as usize).cloned().unwrap_or_else(|| format!("class {class}"))
    }

    /// The names of all classes of which a job came, and of those with smaller numbers.
    pub(crate) fn class_names(&self) -> Vec<String> {
        let last = self.account.classes().keys().next_back();
        let last = last.map_or(0, |last| last.saturating_add(1));
        // A table of policies names few classes; a number of millions is no class that has a name.
        let named = (self.classes.len() as u32).max(last.min(1_000));
        (0..named).map(|class| self.class(class)).collect()
    }

    /// All that is in it, by class.
    pub(crate) fn answer(&self) -> InRecording<'_> {
        let account = &self.account;
        let (waiting, held) = account.unfinished();
        let class = |(class, of): (&u32, &ClassAccount)| Class {
            class: self.class(*class),
            of: Jobs::from(of),
        };
        InRecording {
            steps: self.steps,
            stopped_at_its_bound: self.truncated,
            cut_off: self.is_cut_off(),
            length_s: account.length().as_secs_f64(),
            gate: &self.spec,
            jobs: Jobs::from(&account.all()),
            classes: account.classes().iter().map(class).collect(),
            waiting_mean: account.waiting_mean(),
            slots_held_mean: account.held_mean(),
            slots_mean: account.slots_mean(),
            waiting_at_end: waiting,
            slots_held_at_end: held,
        }
    }
}

fn look(session: &Session, bar: &ProgressBar, steps: u64, path: &Path) -> Result<(), Failure> {
    if !steps.is_multiple_of(LOOK_EVERY) {
        return Ok(());
    }
    bar.set_position(steps);
    if session.interrupted() {
        bar.finish_and_clear();
        return Err(Failure::Interrupted(format!("reading {}", path.display())));
    }
    Ok(())
}

/// Reasons and their numbers: `12 queue-full, 3 deadline`.
pub(crate) fn reasons(of: &ClassAccount) -> String {
    let reason = |(reason, jobs): (&Reason, &u64)| format!("{jobs} {}", reason.name());
    of.refused.iter().map(reason).collect::<Vec<_>>().join(", ")
}

/// A gate in words: `2 servers of 8 slots, shared queue, fifo, round-robin`.
pub(crate) fn gate_text(spec: &GateSpec) -> String {
    let mut slots: Vec<u32> = spec.servers.iter().map(|server| server.slots).collect();
    slots.dedup();
    let several = spec.servers.len() > 1;
    let mut text = match (&slots[..], several) {
        ([1], false) => "1 server of 1 slot".to_owned(),
        ([slots], false) => format!("1 server of {slots} slots"),
        ([slots], true) => format!("{} servers of {slots} slots each", spec.servers.len()),
        _ => format!("{} servers of {} slots", spec.servers.len(), slots_text(spec)),
    };
    text += &format!(", {}", spec.discipline.name());
    if several {
        let queues = match spec.queues {
            Queues::Shared => "one queue",
            Queues::PerServer => "a queue for each",
        };
        text += &format!(", {}, {queues}", spec.router.name());
    }
    if let Some(room) = spec.room {
        text += &format!(", room for {room}");
    }
    if let Some(span) = spec.wait_max {
        text += &format!(", waits of {} at most", cli::text::time(span.as_secs_f64()));
    }
    text
}

/// The slots of each server: `8+4`.
pub(crate) fn slots_text(spec: &GateSpec) -> String {
    let slots: Vec<String> = spec.servers.iter().map(|one| one.slots.to_string()).collect();
    slots.join("+")
}

impl Recorded {
    /// An event in words.
    pub(crate) fn event_text(&self, event: &Event) -> String {
        let span = |span: &Option<std::time::Duration>| {
            span.map_or("without limit".into(), |span| cli::text::time(span.as_secs_f64()))
        };
        match event {
            Event::Arrive(job) => {
                let mut text = format!("{} of {} arrives", job_text(job.id), self.class(job.class));
                for (name, number) in
                    [("priority", u64::from(job.priority)), ("size", job.size), ("key", job.key)]
                {
                    if number > 0 {
                        text += &format!(", {name} {number}");
                    }
                }
                if let Some(deadline) = job.deadline {
                    text += &format!(", to start by {deadline}");
                }
                text
            }
            Event::Depart(slot) => format!("the job in {} departs", slot_text(*slot)),
            Event::Renege(id) => format!("{} gives up", job_text(*id)),
            Event::Wake => "the gate is woken, as it asked".into(),
            Event::Resize { server, slots } => format!("server {server} gets {slots} slots"),
            Event::Up(server) => format!("server {server} is up"),
            Event::Down(server) => format!("server {server} is down"),
            Event::Occupy(slot) => format!("{} is held by an earlier job", slot_text(*slot)),
            Event::WaitMax(limit) => format!("the longest wait becomes {}", span(limit)),
            other => format!("{other:?}"),
        }
    }
}

/// What a gate does, in words.
pub(crate) fn actions_text(actions: &[Action]) -> String {
    let action = |action: &Action| match *action {
        Action::Start { job, slot } => format!("{} starts in {}", job_text(job), slot_text(slot)),
        Action::Refuse { job, reason } => {
            format!("{} is refused, {}", job_text(job), reason.name())
        }
    };
    match actions {
        [] => "nothing".into(),
        actions => actions.iter().map(action).collect::<Vec<_>>().join("; "),
    }
}

fn job_text(id: JobId) -> String {
    format!("job {}", id.0)
}

fn slot_text(slot: Slot) -> String {
    format!("slot {} of server {}", slot.index, slot.server)
}
