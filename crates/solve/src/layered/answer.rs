//! Answer for a layered model, checked against the laws that every answer obeys.

use std::collections::BTreeSet;

use super::flat::{Chain, Flat};
use super::iterate::Found;
use super::{CallKind, EntryId, Layered, LayeredError, Threads};

/// The largest relative error of throughput and of response seen over the cases of the tests.
pub(super) const ERROR: f64 = 0.12;
/// The same where something is done behind a reply, or nobody waits for it, beside simulations.
pub(super) const ERROR_LATE: f64 = 0.50;

/// A task is saturated where at least this share of its threads is busy.
const SATURATED: f64 = 0.8;

/// Tolerance of a law: an approximation may go beyond it by this share.
const SLACK: f64 = 2e-3;

/// Results of a layered model, as means over a long time.
#[derive(Clone, Debug, PartialEq)]
pub struct LayeredAnswer {
    /// The tasks, in the order given.
    pub tasks: Vec<TaskAnswer>,
    /// The processors, in the order given.
    pub processors: Vec<ProcessorAnswer>,
    /// The task that is short of threads while all that it uses is not, if there is one; the one
    /// with the largest strength.
    pub software_bottleneck: Option<SoftwareBottleneck>,
    /// The largest share of what a task's threads can do, all held, that requests from outside ask of it,
    /// 0 to 1; of tasks alone whose threads wait for each other inside. Near 1 the answer is far off.
    pub open_share: f64,
    /// Number of times that the layers were solved.
    pub rounds: usize,
}

/// Results of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAnswer {
    /// Calls served, or cycles of customers [1/s].
    pub throughput: f64,
    /// Mean number of busy threads; of customers that do not think.
    pub busy: f64,
    /// The share of threads that is busy, 0 to 1; none where threads have no number.
    pub utilisation: Option<f64>,
    /// Mean wait of a call for a thread \[s\].
    pub wait: f64,
    /// Its entries.
    pub entries: Vec<EntryAnswer>,
}

/// Results of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntryAnswer {
    /// Calls served [1/s].
    pub throughput: f64,
    /// Mean time that a thread is held, before and after the reply \[s\].
    pub hold: [f64; 2],
    /// Mean wait of requests that come at the open rate and of messages \[s\].
    pub open_wait: f64,
}

impl EntryAnswer {
    /// Mean time from a request at the open rate to its reply \[s\].
    pub fn open_response(&self) -> f64 {
        self.open_wait + self.hold[0]
    }
}

/// Results of a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorAnswer {
    /// Mean number of busy servers.
    pub busy: f64,
    /// The share of servers that is busy, 0 to 1; none where nobody waits.
    pub utilisation: Option<f64>,
}

/// A task that is saturated while nothing below it is (Neilson, Woodside, Petriu and Majumdar, IEEE
/// TSE 21(9), 1995).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftwareBottleneck {
    /// The task, an index.
    pub task: usize,
    /// The share of its threads that is busy.
    pub utilisation: f64,
    /// That, over the largest utilisation of anything that it uses: by so much more threads could
    /// raise the throughput at the most.
    pub strength: f64,
}

pub(super) fn answer(
    layered: &Layered,
    flat: &Flat,
    found: &Found,
) -> Result<LayeredAnswer, LayeredError> {
    let making = Making { layered, flat, found, rates: rates(layered, flat, found) };
    let tasks: Vec<TaskAnswer> = (0..layered.tasks.len()).map(|task| making.task(task)).collect();
    let processors = making.processors();
    making.check(&tasks, &processors)?;
    let software_bottleneck = making.bottleneck(&tasks, &processors);
    let (open_share, rounds) = (found.open_share, found.rounds);
    Ok(LayeredAnswer { tasks, processors, software_bottleneck, open_share, rounds })
}

struct Making<'a> {
    layered: &'a Layered,
    flat: &'a Flat,
    found: &'a Found,
    /// By task and entry: calls [1/s].
    rates: Vec<Vec<f64>>,
}

/// Rate of calls of each entry.
fn rates(layered: &Layered, flat: &Flat, found: &Found) -> Vec<Vec<f64>> {
    let order = super::check::order(layered).expect("the model was checked for cycles");
    let open = |task: &super::Task| task.entries.iter().map(|entry| entry.open_rate).collect();
    let mut rates: Vec<Vec<f64>> = layered.tasks.iter().map(open).collect();
    for task in order {
        for (entry, of) in layered.tasks[task].entries.iter().enumerate() {
            if let Threads::Reference { .. } = layered.tasks[task].threads {
                rates[task][entry] = found.rate[flat.node_of[&EntryId { task, entry }]];
            }
            for call in of.phases.iter().flat_map(|phase| &phase.calls) {
                rates[call.to.task][call.to.entry] += call.mean * rates[task][entry];
            }
        }
    }
    rates
}

impl Making<'_> {
    fn task(&self, task: usize) -> TaskAnswer {
        let of = &self.layered.tasks[task];
        let throughput: f64 = self.rates[task].iter().sum();
        let mut busy = 0.0;
        let mut entries = Vec::new();
        for entry in 0..of.entries.len() {
            let id = EntryId { task, entry };
            let rate = self.rates[task][entry];
            let (hold, open_wait) = match self.flat.node_of.get(&id) {
                Some(&node) => {
                    let station = self.flat.chains[self.flat.nodes[node].chain].station;
                    let wait = station.map_or(0.0, |station| self.found.open_wait[station]);
                    (self.found.hold[node], wait)
                }
                // Requests from outside know best what they meet.
                None => match self.flat.open_of.get(&id) {
                    Some(&node) if of.entries[entry].open_rate > 0.0 => {
                        (self.found.hold[node], 0.0)
                    }
                    _ => (self.inlined_hold(id), 0.0),
                },
            };
            busy += rate * (hold[0] + hold[1]);
            entries.push(EntryAnswer { throughput: rate, hold, open_wait });
        }
        let utilisation = match of.threads {
            Threads::Finite(threads) => Some(busy / f64::from(threads)),
            Threads::Infinite | Threads::Reference { .. } => None,
        };
        TaskAnswer { throughput, busy, utilisation, wait: self.wait(task), entries }
    }

    /// Mean wait of the calls of a task with threads.
    fn wait(&self, task: usize) -> f64 {
        let id = EntryId { task, entry: 0 };
        let Some(&node) = self.flat.node_of.get(&id) else { return 0.0 };
        let chain = self.flat.nodes[node].chain;
        let Some(station) = self.flat.chains[chain].station else { return 0.0 };
        let (mut calls, mut waits) = (0.0, 0.0);
        let mut add = |rate: f64, wait: f64| {
            calls += rate;
            waits += rate * wait;
        };
        for (from, node) in self.flat.nodes.iter().enumerate() {
            let rate = self.found.rate[from];
            if self.flat.nodes[from].chain == chain {
                add(node.open_rate, self.found.open_wait[station]);
            }
            for body in &node.bodies {
                for (&to, &mean) in &body.calls {
                    if self.flat.nodes[to].chain == chain {
                        add(rate * mean, self.found.wait[node.chain][station]);
                    }
                }
                for (&to, &mean) in &body.sends {
                    if self.flat.nodes[to].chain == chain {
                        add(rate * mean, self.found.open_wait[station]);
                    }
                }
            }
        }
        if calls > 0.0 { waits / calls } else { 0.0 }
    }

    /// Time of a call of an infinite task, as the mean of its callers sees it.
    fn inlined_hold(&self, id: EntryId) -> [f64; 2] {
        let task = &self.layered.tasks[id.task];
        task.entries[id.entry].phases.each_ref().map(|phase| {
            let station = self.station_of_processor(task.processor);
            let visits = 1.0 + phase.calls.iter().map(|call| call.mean).sum::<f64>();
            let mut time = phase.demand;
            if let Some(station) = station.filter(|_| phase.demand > 0.0) {
                let wait = self.mean_wait(station);
                let sharing = self.flat.stations[station].is_sharing;
                time += wait * if sharing { phase.demand } else { visits };
            }
            let calls = phase.calls.iter().filter(|call| call.kind == CallKind::Synchronous);
            time + calls.map(|call| call.mean * self.response(call.to)).sum::<f64>()
        })
    }

    fn response(&self, id: EntryId) -> f64 {
        match self.flat.node_of.get(&id) {
            Some(&node) => self.wait(id.task) + self.found.hold[node][0],
            None => self.inlined_hold(id)[0],
        }
    }

    fn station_of_processor(&self, processor: usize) -> Option<usize> {
        let before = self.layered.processors[..processor].iter();
        let before = before.filter(|processor| processor.servers.is_some()).count();
        self.layered.processors[processor].servers.map(|_| before)
    }

    /// Mean wait at a processor, over all visits; where it is shared, over all service.
    fn mean_wait(&self, station: usize) -> f64 {
        let sharing = self.flat.stations[station].is_sharing;
        let (mut sum, mut waits) = (0.0, 0.0);
        for (from, node) in self.flat.nodes.iter().enumerate() {
            for body in &node.bodies {
                if let Some(visits) = body.visits.get(&station) {
                    let part = if sharing { visits.service } else { visits.count };
                    let weight = self.found.rate[from] * part;
                    sum += weight;
                    waits += weight * self.found.wait[node.chain][station];
                }
            }
        }
        if sum > 0.0 { waits / sum } else { 0.0 }
    }

    fn processors(&self) -> Vec<ProcessorAnswer> {
        let mut answers: Vec<ProcessorAnswer> = (self.layered.processors.iter())
            .map(|_| ProcessorAnswer { busy: 0.0, utilisation: None })
            .collect();
        for (task, rates) in self.layered.tasks.iter().zip(&self.rates) {
            for (entry, rate) in task.entries.iter().zip(rates) {
                let demand: f64 = entry.phases.iter().map(|phase| phase.demand).sum();
                answers[task.processor].busy += rate * demand;
            }
        }
        for (answer, processor) in answers.iter_mut().zip(&self.layered.processors) {
            answer.utilisation = processor.servers.map(|servers| answer.busy / f64::from(servers));
        }
        answers
    }

    /// Laws: nothing is used more than there is of it, and nobody goes round faster than alone. That
    /// customers are where they are counted (Little) is how throughputs are found.
    fn check(
        &self,
        tasks: &[TaskAnswer],
        processors: &[ProcessorAnswer],
    ) -> Result<(), LayeredError> {
        let unsound = |place: String, law, value| Err(LayeredError::Unsound { place, law, value });
        let of_tasks = tasks.iter().zip(&self.layered.tasks);
        let of_tasks =
            of_tasks.map(|(answer, task)| (format!("task `{}`", task.name), answer.utilisation));
        let of_processors =
            processors.iter().zip(&self.layered.processors).map(|(answer, processor)| {
                (format!("processor `{}`", processor.name), answer.utilisation)
            });
        for (place, utilisation) in of_tasks.chain(of_processors) {
            let utilisation = utilisation.unwrap_or(0.0);
            if !(0.0..=1.0 + SLACK).contains(&utilisation) {
                return unsound(place, "a utilisation from 0 to 1", utilisation);
            }
        }
        for (chain, task) in self.customers() {
            let of = &self.layered.tasks[task];
            let Threads::Reference { population, think } = of.threads else { continue };
            let alone = think + self.alone(chain);
            let cycles = tasks[task].throughput * alone / f64::from(population);
            if !(cycles.is_finite() && cycles > 0.0 && cycles <= 1.0 + SLACK) {
                let place = format!("task `{}`", of.name);
                return unsound(place, "a cycle at least as long as alone", cycles);
            }
        }
        Ok(())
    }

    fn customers(&self) -> impl Iterator<Item = (&Chain, usize)> {
        let ids = self.flat.node_of.iter();
        let chains =
            ids.map(|(id, &node)| (&self.flat.chains[self.flat.nodes[node].chain], id.task));
        chains.filter(|(chain, _)| chain.think.is_some())
    }

    /// Time of a customer's cycle without any wait, and without thinking \[s\].
    fn alone(&self, chain: &Chain) -> f64 {
        let mut first = vec![0.0; self.flat.nodes.len()];
        let mut cycle = 0.0;
        for (index, node) in self.flat.nodes.iter().enumerate().rev() {
            let times = node.bodies.each_ref().map(|body| {
                let served: f64 = body.visits.values().map(|visits| visits.service).sum();
                let called = body.calls.iter().map(|(&to, mean)| mean * first[to]).sum::<f64>();
                body.delay + served + called
            });
            first[index] = times[0];
            if chain.nodes.contains(&index) {
                cycle = times[0] + times[1];
            }
        }
        cycle
    }

    /// The task that is short of threads, while what it uses is not short.
    fn bottleneck(
        &self,
        tasks: &[TaskAnswer],
        processors: &[ProcessorAnswer],
    ) -> Option<SoftwareBottleneck> {
        let of = |task: usize| {
            let utilisation = tasks[task].utilisation.filter(|share| *share >= SATURATED)?;
            let mut seen = BTreeSet::from([task]);
            let mut open = vec![task];
            let mut below: f64 = 0.0;
            while let Some(next) = open.pop() {
                let used = processors[self.layered.tasks[next].processor].utilisation;
                below = below.max(used.unwrap_or(0.0));
                if next != task {
                    below = below.max(tasks[next].utilisation.unwrap_or(0.0));
                }
                let phases = self.layered.tasks[next].entries.iter().flat_map(|e| &e.phases);
                for call in phases.flat_map(|phase| &phase.calls) {
                    if seen.insert(call.to.task) {
                        open.push(call.to.task);
                    }
                }
            }
            let strength = utilisation / below;
            (strength > 1.0).then_some(SoftwareBottleneck { task, utilisation, strength })
        };
        let found = (0..tasks.len()).filter_map(of);
        found.max_by(|a, b| a.strength.total_cmp(&b.strength))
    }
}
