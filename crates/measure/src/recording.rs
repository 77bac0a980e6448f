//! A recording of a gate: all that it was told and all that it said, so that the same gate, built
//! anew, can be asked to say it again. It holds no payloads: jobs are numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use gate::{Action, Event, Gate, GateSpec, Reason, SpecError, Time};
use serde::{Deserialize, Serialize};

use crate::Histogram;
use crate::file::{Lines, ReadError, VERSION};
use crate::protocol::{BrokenProtocol, Fate, Ledger, News};

/// Events that a gate was told and actions that it answered, up to a bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The gate's parameters at the start.
    pub spec: GateSpec,
    /// Names of its classes, by their numbers, as far as the server that recorded it has names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Gates that its jobs may have to pass while they hold its slot: quotas.
    #[serde(default, skip_serializing_if = "is_none")]
    pub quotas: u32,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Most steps that it may hold.
    pub bound: usize,
    /// True if steps were left out because the bound was reached.
    pub truncated: bool,
}

/// One event and the gate's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When.
    pub at: Time,
    /// Event that the gate was told.
    pub event: Event,
    /// Actions that it answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

impl Recording {
    /// An empty recording of a gate with this specification, of at most `bound` steps.
    pub fn new(spec: GateSpec, bound: usize) -> Recording {
        let (classes, quotas) = (Vec::new(), 0);
        Recording { spec, classes, quotas, steps: Vec::new(), bound, truncated: false }
    }

    /// Adds a step; past the bound it is left out, and the recording says so.
    pub fn push(&mut self, at: Time, event: Event, actions: &[Action]) {
        if self.steps.len() < self.bound {
            self.steps.push(Step { at, event, actions: actions.to_vec() });
        } else {
            self.truncated = true;
        }
    }

    /// Tells a fresh gate the recorded events and compares its answers.
    ///
    /// # Errors
    /// The first step at which the answers differ.
    ///
    /// # Panics
    /// If the specification is not valid, or the steps break the gate's protocol.
    pub fn replay(&self) -> Result<(), Divergence> {
        let mut replay = Replay::new(&self.spec).expect("a recording is of a gate that existed");
        for step in &self.steps {
            replay.step(step);
            if let Some(divergence) = replay.divergence {
                return Err(divergence);
            }
        }
        Ok(())
    }

    /// Writes it as JSON lines: a header with the specification, then a step a line.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = io::BufWriter::new(out);
        let Recording { spec, classes, quotas, steps, bound, truncated } = self;
        let first = First {
            version: VERSION,
            spec,
            classes: classes.iter().map(String::as_str).collect(),
            quotas: *quotas,
            bound: *bound as u64,
            truncated: *truncated,
            steps: steps.len() as u64,
        };
        serde_json::to_writer(&mut out, &first)?;
        for step in steps {
            out.write_all(b"\n")?;
            serde_json::to_writer(&mut out, step)?;
        }
        out.write_all(b"\n")?;
        out.flush()
    }

    /// Reads what [`write`](Recording::write) wrote, at most `steps_max` steps of it. One that is
    /// cut off, or has more steps, is read up to there and says that it is truncated. What is
    /// returned keeps the gate's protocol, so that it can be replayed.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(input: impl BufRead, steps_max: usize) -> Result<Recording, ReadError> {
        let mut reader = RecordingReader::new(input)?;
        let mut steps = Vec::new();
        while steps.len() < steps_max
            && let Some(step) = reader.next_step()?
        {
            steps.push(step);
        }
        if reader.read == reader.steps {
            // There must be none, and if there is, it contradicts the header.
            reader.next_step()?;
        }
        let truncated = reader.truncated || (steps.len() as u64) < reader.steps;
        let RecordingReader { spec, classes, quotas, bound, .. } = reader;
        let bound = usize::try_from(bound).unwrap_or(usize::MAX);
        Ok(Recording { spec, classes, quotas, steps, bound, truncated })
    }

    /// Measures of a gate's jobs, from the first step to the last: for a live recording and for a
    /// simulation of it alike, so that they can be compared.
    ///
    /// # Errors
    /// The first step that breaks the protocol of gates; no step that a gate took part in does.
    pub fn measures(&self) -> Result<GateMeasures, (usize, BrokenProtocol)> {
        let mut ledger = Ledger::new(&self.spec).map_err(|cause| (0, cause))?;
        let mut measures = GateMeasures::default();
        let (mut waiting_s, mut busy_s) = (0.0, 0.0);
        for (index, step) in self.steps.iter().enumerate() {
            let before = if index == 0 { step.at } else { ledger.now };
            let gap = step.at.since(before);
            measures.length += gap;
            waiting_s += ledger.waiting() as f64 * gap.as_secs_f64();
            busy_s += ledger.busy() as f64 * gap.as_secs_f64();
            let Step { at, event, actions } = step;
            ledger
                .step(*at, event, actions, |news| measures.count(&news))
                .map_err(|cause| (index, cause))?;
        }
        let length_s = measures.length.as_secs_f64();
        if length_s > 0.0 {
            measures.waiting_mean = waiting_s / length_s;
            measures.busy_mean = busy_s / length_s;
        }
        measures.unfinished = (ledger.waiting() + ledger.busy()) as u64;
        Ok(measures)
    }
}

/// The first line of a recording.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct First<S, C> {
    /// Version of the format.
    #[serde(rename = "sekisho-recording")]
    version: u64,
    spec: S,
    /// Names of the classes, in the order of their numbers.
    #[serde(default = "Vec::<C>::new", skip_serializing_if = "Vec::is_empty")]
    classes: Vec<C>,
    /// Number of quotas that each job passes.
    #[serde(default, skip_serializing_if = "is_none")]
    quotas: u32,
    /// The most steps that were to be recorded.
    bound: u64,
    /// True if the gate went on when so many were recorded.
    truncated: bool,
    /// Number of lines that follow; fewer mean that it is cut off.
    steps: u64,
}

fn is_none(number: &u32) -> bool {
    *number == 0
}

/// Reads a recording step by step, so that one of any length needs little memory. The steps that it
/// returns keep the gate's protocol.
#[derive(Debug)]
pub struct RecordingReader<R> {
    lines: Lines<R>,
    ledger: Ledger,
    read: u64,
    /// The gate's parameters at the start.
    pub spec: GateSpec,
    /// Names of its classes, by their numbers; empty where there are none.
    pub classes: Vec<String>,
    /// Gates that its jobs may have to pass while they hold its slot: quotas.
    pub quotas: u32,
    /// Number of steps that the header announces.
    pub steps: u64,
    /// Most steps that were to be recorded.
    pub bound: u64,
    /// True if steps were left out because the bound was reached.
    pub truncated: bool,
}

impl<R: BufRead> RecordingReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn new(input: R) -> Result<RecordingReader<R>, ReadError> {
        let mut lines = Lines::new(input);
        let first: First<GateSpec, String> = lines.first("recording")?;
        let ledger =
            Ledger::new(&first.spec).map_err(|cause| lines.inconsistent(cause.to_string()))?;
        Gate::new(&first.spec).map_err(|cause| lines.inconsistent(cause.to_string()))?;
        let First { spec, classes, quotas, bound, truncated, steps, .. } = first;
        Ok(RecordingReader {
            lines,
            ledger,
            read: 0,
            spec,
            classes,
            quotas,
            steps,
            bound,
            truncated,
        })
    }

    /// The next step; `None` at the end, which comes too early in a file that is
    /// [cut off](RecordingReader::is_cut_off).
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn next_step(&mut self) -> Result<Option<Step>, ReadError> {
        let Some(step) = self.lines.next::<Step>()? else { return Ok(None) };
        let inconsistent = |cause: String| self.lines.inconsistent(cause);
        if self.read == self.steps {
            let cause = format!("the header announces {} steps, here is another", self.steps);
            return Err(inconsistent(cause));
        }
        self.ledger
            .step(step.at, &step.event, &step.actions, |_| {})
            .map_err(|cause| inconsistent(cause.to_string()))?;
        self.read += 1;
        Ok(Some(step))
    }

    /// Number of steps read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// At the end: true if there were fewer steps than the header announces.
    pub fn is_cut_off(&self) -> bool {
        self.read < self.steps
    }
}

/// Measures of a gate's jobs, from the first recorded step to the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateMeasures {
    /// The jobs that were served from their arrival to their end, in the order of their departures.
    /// Those that had been started before there was the gate are not among them.
    pub served: Vec<JobTimes>,
    /// Number of jobs refused, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Number of jobs that gave up while they waited.
    pub reneged: u64,
    /// Number of jobs that waited or held a slot at the end.
    pub unfinished: u64,
    /// From the first step to the last.
    pub length: Duration,
    /// Mean number of jobs waiting, over time.
    pub waiting_mean: f64,
    /// Mean number of slots held, over time.
    pub busy_mean: f64,
}

/// Times of one job that a gate served to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTimes {
    /// Its class.
    pub class: u32,
    /// From arrival to start.
    pub wait: Duration,
    /// From start to departure.
    pub hold: Duration,
}

impl GateMeasures {
    /// The waits of the jobs served, of one class or (`None`) of all.
    pub fn waits(&self, class: Option<u32>) -> Histogram {
        self.histogram(class, |job| job.wait)
    }

    /// The holds of the jobs served, of one class or (`None`) of all.
    pub fn holds(&self, class: Option<u32>) -> Histogram {
        self.histogram(class, |job| job.hold)
    }

    fn histogram(&self, class: Option<u32>, span: impl Fn(&JobTimes) -> Duration) -> Histogram {
        let mut histogram = Histogram::new();
        let wanted = |job: &&JobTimes| class.is_none_or(|class| job.class == class);
        self.served.iter().filter(wanted).for_each(|job| histogram.record(span(job)));
        histogram
    }

    fn count(&mut self, news: &News) {
        let class = news.class;
        match news.fate {
            Fate::Started { .. } => {}
            Fate::Served { wait, hold } => self.served.push(JobTimes { class, wait, hold }),
            Fate::Refused { reason } => *self.refused.entry(reason).or_default() += 1,
            Fate::Reneged => self.reneged += 1,
        }
    }
}

/// A gate of today that is told what a recorded one was told, step by step.
#[derive(Debug)]
pub struct Replay {
    gate: Gate,
    actions: Vec<Action>,
    next: usize,
    divergence: Option<Divergence>,
}

impl Replay {
    /// A fresh gate of this specification.
    ///
    /// # Errors
    /// If it is none of a gate.
    pub fn new(spec: &GateSpec) -> Result<Replay, SpecError> {
        Ok(Replay { gate: Gate::new(spec)?, actions: Vec::new(), next: 0, divergence: None })
    }

    /// Tells the gate a recorded event and compares its answer. After the first that differs the gate is
    /// told nothing more: it is in another state than the recorded one.
    ///
    /// # Panics
    /// If the steps break the gate's protocol.
    pub fn step(&mut self, recorded: &Step) {
        let step = self.next;
        self.next += 1;
        if self.divergence.is_some() {
            return;
        }
        self.actions.clear();
        self.gate.handle(recorded.at, recorded.event, &mut self.actions);
        if self.actions != recorded.actions {
            let (recorded, replayed) = (recorded.clone(), std::mem::take(&mut self.actions));
            self.divergence = Some(Divergence { step, recorded, replayed });
        }
    }

    /// The first step at which the answers differ, if any does so far.
    pub fn divergence(&self) -> Option<&Divergence> {
        self.divergence.as_ref()
    }
}

/// Place at which a replay left the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The step, from 0.
    pub step: usize,
    /// Step that was recorded.
    pub recorded: Step,
    /// Actions of the fresh gate.
    pub replayed: Vec<Action>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { at, event, actions } = &self.recorded;
        write!(
            f,
            "step {}: at {at} after {event:?} the recording has {actions:?}, the replay {:?}",
            self.step, self.replayed
        )
    }
}

impl std::error::Error for Divergence {}
