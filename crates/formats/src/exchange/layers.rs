//! Layered models by name, as files declare them, before names become indices; and their answers.

use std::collections::BTreeMap;

use advise::{ClassAnswer, NodeAnswer, Scenario, layered_error};
use solve::Exactness;
use solve::layered::{
    Call, CallCounts, CallKind, Entry, EntryId, Layered, LayeredAnswer, Phase, Processor,
    ProcessorDiscipline, Task, Threads,
};

use super::file::{Lines, suggest};
use super::{Model, Shape, Solved, trust};
use crate::ReadError;

/// A layered model that can be solved, with its parts.
#[derive(Clone, Debug)]
pub struct Layers {
    /// Processors, which compute.
    pub processors: Vec<Processor>,
    /// Tasks, which are held.
    pub tasks: Vec<Task>,
    layered: Layered,
}

/// Parts that refer to each other by name.
pub(super) struct Draft {
    pub(super) lines: Lines,
    pub(super) notes: Vec<String>,
    processors: Vec<(Processor, f64)>,
    tasks: Vec<Task>,
    entries: BTreeMap<String, EntryId>,
    calls: Vec<DraftCall>,
}

/// A call whose target may be declared later.
pub(super) struct DraftCall {
    pub(super) line: u32,
    pub(super) from: EntryId,
    /// 0 for the first.
    pub(super) phase: usize,
    pub(super) to: String,
    pub(super) mean: f64,
    pub(super) kind: CallKind,
}

impl Draft {
    pub(super) fn new(file: &str) -> Draft {
        Draft {
            lines: Lines::new(file),
            notes: Vec::new(),
            processors: Vec::new(),
            tasks: Vec::new(),
            entries: BTreeMap::new(),
            calls: Vec::new(),
        }
    }

    pub(super) fn error(&self, line: u32, cause: impl std::fmt::Display) -> ReadError {
        ReadError::at(self.lines.file(), line, cause)
    }

    pub(super) fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// Adds a processor that does `speed` times the work of one for which the demands are given.
    pub(super) fn processor(
        &mut self,
        line: u32,
        processor: Processor,
        speed: f64,
    ) -> Result<usize, ReadError> {
        if self.processors.iter().any(|(other, _)| other.name == processor.name) {
            let cause = format!("two processors are called `{}`; rename one", processor.name);
            return Err(self.error(line, cause));
        }
        if speed <= 0.0 {
            return Err(self.error(line, "its speed is 0, so that nothing ever ends; give another"));
        }
        self.lines.add(&processor.name, line);
        self.processors.push((processor, speed));
        Ok(self.processors.len() - 1)
    }

    pub(super) fn processor_index(&self, line: u32, name: &str) -> Result<usize, ReadError> {
        self.processors.iter().position(|(processor, _)| processor.name == name).ok_or_else(|| {
            let way_out = suggest(name, self.processors.iter().map(|(one, _)| &*one.name));
            self.error(line, format!("no processor is called `{name}`; {way_out}"))
        })
    }

    /// Adds a task without entries; gives its index.
    pub(super) fn task(
        &mut self,
        line: u32,
        name: &str,
        processor: usize,
        threads: Threads,
    ) -> Result<usize, ReadError> {
        if self.tasks.iter().any(|other| other.name == name) {
            return Err(self.error(line, format!("two tasks are called `{name}`; rename one")));
        }
        self.lines.add(name, line);
        let task = Task::infinite(name, processor, Vec::new());
        self.tasks.push(Task { threads, ..task });
        Ok(self.tasks.len() - 1)
    }

    pub(super) fn entry(
        &mut self,
        line: u32,
        task: usize,
        name: &str,
    ) -> Result<EntryId, ReadError> {
        let entries = &mut self.tasks[task].entries;
        let id = EntryId { task, entry: entries.len() };
        if self.entries.insert(name.to_owned(), id).is_some() {
            return Err(self.error(line, format!("two entries are called `{name}`; rename one")));
        }
        entries.push(Entry::new(name, 0.0));
        self.lines.add(name, line);
        Ok(id)
    }

    pub(super) fn entry_id(&self, line: u32, name: &str) -> Result<EntryId, ReadError> {
        self.entries.get(name).copied().ok_or_else(|| {
            let way_out = suggest(name, self.entries.keys().map(String::as_str));
            self.error(line, format!("no entry is called `{name}`; {way_out}"))
        })
    }

    pub(super) fn open(&mut self, id: EntryId) -> &mut f64 {
        &mut self.tasks[id.task].entries[id.entry].open_rate
    }

    pub(super) fn phase(&mut self, id: EntryId, phase: usize) -> &mut Phase {
        &mut self.tasks[id.task].entries[id.entry].phases[phase]
    }

    pub(super) fn call(&mut self, call: DraftCall) {
        self.calls.push(call);
    }

    /// The model, with all names resolved.
    pub(super) fn finish(mut self) -> Result<Model, ReadError> {
        for call in std::mem::take(&mut self.calls) {
            if call.mean == 0.0 {
                continue;
            }
            let to = self.entry_id(call.line, &call.to)?;
            let new = Call { to, mean: call.mean, kind: call.kind };
            self.phase(call.from, call.phase).calls.push(new);
        }
        for at in 0..self.tasks.len() {
            self.check_reference(at)?;
        }
        self.check_counts()?;
        for task in &mut self.tasks {
            let speed = self.processors[task.processor].1;
            let phases = task.entries.iter_mut().flat_map(|entry| &mut entry.phases);
            phases.for_each(|phase| phase.demand /= speed);
        }
        let Draft { lines, notes, processors, tasks, .. } = self;
        let processors: Vec<Processor> = processors.into_iter().map(|(one, _)| one).collect();
        match Layered::new(&processors, &tasks) {
            Ok(layered) => {
                let shape = Shape::Layers(Layers { processors, tasks, layered });
                Ok(Model { shape, notes, lines })
            }
            Err(error) => Err(ReadError::whole(lines.tell(&error.to_string()))),
        }
    }

    /// Checks that a reference task stands for customers that all go through one entry.
    fn check_reference(&self, at: usize) -> Result<(), ReadError> {
        let task = &self.tasks[at];
        if let (Threads::Reference { .. }, 2..) = (task.threads, task.entries.len()) {
            let cause = format!(
                "reference task `{}` has {} entries, and more than one is not supported; make it \
                 several tasks",
                task.name,
                task.entries.len()
            );
            return Err(ReadError::whole(self.lines.tell(&cause)));
        }
        Ok(())
    }

    /// A fixed number of calls is a whole one.
    fn check_counts(&self) -> Result<(), ReadError> {
        for entry in self.tasks.iter().flat_map(|task| &task.entries) {
            for phase in &entry.phases {
                let is_fixed = phase.counts == CallCounts::Fixed;
                if let Some(call) =
                    phase.calls.iter().find(|call| is_fixed && call.mean.fract() != 0.0)
                {
                    let cause = format!(
                        "entry `{}` makes {} calls in a deterministic phase; give a whole number",
                        entry.name, call.mean
                    );
                    return Err(ReadError::whole(self.lines.tell(&cause)));
                }
            }
        }
        Ok(())
    }
}

/// A processor by its parts.
pub(super) fn processor(name: &str, servers: Option<u32>, is_shared: IsShared) -> Processor {
    let discipline = match is_shared {
        IsShared::Yes => ProcessorDiscipline::Sharing,
        IsShared::No => ProcessorDiscipline::Fifo,
    };
    Processor { servers, discipline, ..Processor::single(name) }
}

/// Service of all jobs of a processor at once, or not.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum IsShared {
    Yes,
    No,
}

impl Layers {
    /// Solves it by the method of layers; `scenario` is the same model as one, where there is one.
    ///
    /// # Errors
    /// As [`Layered::solve`], and if the model is out of the method's range.
    pub fn solve(&self, scenario: Option<&Scenario>) -> Result<Solved, String> {
        let answer = self.layered.solve().map_err(|error| error.to_string())?;
        let least = layered_error(&self.processors, &self.tasks, &answer, scenario)
            .map_err(|reason| format!("{reason}; simulate it"))?;
        let exactness = match self.layered.exactness() {
            Exactness::Approximate { source, error } => {
                Exactness::Approximate { source, error: error.max(least) }
            }
            Exactness::Exact => Exactness::Exact,
        };
        let mut notes = Vec::new();
        if let Some(short) = answer.software_bottleneck {
            notes.push(format!(
                "a software bottleneck: the threads of task `{}` are busy for {:.0} % of the time, {:.1} \
                 times as much as anything that they use",
                self.tasks[short.task].name,
                short.utilisation * 100.0,
                short.strength
            ));
        }
        Ok(Solved {
            algorithm: "layered model".into(),
            trust: trust(exactness),
            classes: self.classes(&answer),
            rows: self.rows(&answer),
            queue: None,
            product_bounds: None,
            caches: Vec::new(),
            notes,
            network: None,
        })
    }

    /// Answers for those who ask: reference tasks, and entries that are asked from outside.
    fn classes(&self, answer: &LayeredAnswer) -> Vec<ClassAnswer> {
        let mut classes = Vec::new();
        for (task, of) in self.tasks.iter().zip(&answer.tasks) {
            let is_reference = matches!(task.threads, Threads::Reference { .. });
            for (entry, found) in task.entries.iter().zip(&of.entries) {
                if is_reference {
                    let response = found.hold[0] + found.hold[1];
                    let name = task.name.clone();
                    classes.push(ClassAnswer { name, throughput: of.throughput, response });
                } else if entry.open_rate > 0.0 {
                    classes.push(ClassAnswer {
                        name: entry.name.clone(),
                        throughput: entry.open_rate,
                        response: found.open_response(),
                    });
                }
            }
        }
        classes
    }

    /// Tasks by entry, then processors.
    fn rows(&self, answer: &LayeredAnswer) -> Vec<NodeAnswer> {
        let sources = self.classes(answer);
        let cycles = if let [only] = &*sources { Some(only.throughput) } else { None };
        let mut rows = Vec::new();
        for (task, of) in self.tasks.iter().zip(&answer.tasks) {
            for (entry, found) in task.entries.iter().zip(&of.entries) {
                let x = found.throughput;
                let hold = found.hold[0] + found.hold[1];
                let response = match task.threads {
                    Threads::Reference { .. } => hold,
                    _ => of.wait + found.hold[0],
                };
                let utilisation = match task.threads {
                    Threads::Finite(threads) => Some(x * hold / f64::from(threads)),
                    Threads::Infinite | Threads::Reference { .. } => None,
                };
                rows.push(NodeAnswer {
                    station: task.name.clone(),
                    class: Some(entry.name.clone()),
                    jobs: Some(x * (of.wait + hold)),
                    utilisation,
                    response: Some(response),
                    residence: cycles.map(|cycles| x / cycles * response),
                    arrival_rate: x,
                    throughput: x,
                });
            }
        }
        for (index, (processor, of)) in self.processors.iter().zip(&answer.processors).enumerate() {
            let users = self.tasks.iter().zip(&answer.tasks);
            let users = users.filter(|(task, _)| task.processor == index);
            let calls = users.flat_map(|(task, of)| task.entries.iter().zip(&of.entries));
            let computing =
                calls.filter(|(entry, _)| entry.phases.iter().any(|phase| phase.demand > 0.0));
            // An empty sum of floats is -0.
            let x = computing.map(|(_, found)| found.throughput).sum::<f64>() + 0.0;
            rows.push(NodeAnswer {
                station: processor.name.clone(),
                class: None,
                jobs: None,
                utilisation: of.utilisation,
                response: None,
                residence: None,
                arrival_rate: x,
                throughput: x,
            });
        }
        rows
    }
}
