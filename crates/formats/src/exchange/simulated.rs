//! Networks and layered models as scenarios, so that the simulator can judge what formulas say of them.
//!
//! Visits: less than one on average is a chance; more is one visit, and another each time with the
//! chance 1 - 1/V. Of a network of product form only the mean matters. A task with threads is a gate,
//! its threads are the slots; what an entry computes between its calls is a visit to its processor.
//! Behind its reply the slot is kept for the second phase. What waits for no reply, and what a task
//! without threads does behind its own, is sent off.

use std::collections::BTreeSet;

use advise::Scenario;
use serde_json::{Map, Value, json};
use solve::layered::{
    Call, CallCounts, CallKind, Entry, EntryId, Phase, ProcessorDiscipline, Task, Threads,
};
use solve::{Load, Network, StationKind};

use super::layers::Layers;

/// The most steps that a layered model is spelled out to.
const STEPS_MAX: usize = 10_000;

fn seconds(value: f64) -> String {
    format!("{value}s")
}

fn exponential(mean: f64) -> Value {
    json!({ "mean": seconds(mean), "dist": "exponential" })
}

/// A step that is gone so often on average.
fn often(step: Value, mean: f64) -> Value {
    if mean == 1.0 {
        step
    } else if mean < 1.0 {
        json!({ "choose": [{ "chance": mean, "route": [step] }, { "chance": 1.0 - mean }] })
    } else {
        json!({ "repeat": 1.0 - 1.0 / mean, "route": [step] })
    }
}

fn scenario(file: &str, parts: Map<String, Value>) -> Result<Scenario, String> {
    let mut whole = json!({ "sekisho": 1, "name": file });
    whole.as_object_mut().expect("it was made as one").extend(parts);
    let scenario: Scenario = serde_json::from_value(whole).map_err(|error| error.to_string())?;
    scenario.network().map_err(|error| error.to_string())?;
    Ok(scenario)
}

/// Names of gates and stations, each given once.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// The name, or one like it that is free. In routes, `server` and `reply` have a meaning of their
    /// own.
    fn free(&mut self, name: &str, kind: &str) -> String {
        let mut free = name.to_owned();
        let mut tries = 1;
        while ["server", "reply"].contains(&&*free) || self.0.contains(&free) {
            free = if tries == 1 {
                format!("{name} ({kind})")
            } else {
                format!("{name} ({kind} {tries})")
            };
            tries += 1;
        }
        self.0.insert(free.clone());
        free
    }
}

/// A network of product form as a scenario with exponential service.
///
/// # Errors
/// If a station serves in a way that scenarios do not know.
pub(super) fn network(file: &str, network: &Network) -> Result<Scenario, String> {
    let mut names = Names::default();
    let mut stations = Vec::new();
    for at in 0..network.stations() {
        let own = network.station_name(at);
        let kind = match network.kind(at) {
            StationKind::Fifo { servers } => json!({ "kind": "queue", "servers": servers }),
            StationKind::Sharing { servers } => json!({ "kind": "sharing", "servers": servers }),
            StationKind::Delay => json!({ "kind": "delay" }),
            StationKind::Curve { .. } => {
                return Err(format!(
                    "station `{own}` has service times that depend on the load, which the simulator \
                     does not know; solve it by formula"
                ));
            }
            StationKind::Priority { .. } => {
                return Err(format!(
                    "station `{own}` serves by priority, which only gates of scenarios do"
                ));
            }
        };
        let mut demands = Map::new();
        for class in 0..network.classes() {
            let (visits, service) = network.visits(at, class);
            if visits * service > 0.0 {
                demands.insert(network.class_name(class).to_owned(), exponential(service));
            }
        }
        let name = names.free(own, "station");
        let mut station = json!({ "name": name, "demands": demands });
        let entries = kind.as_object().expect("it was made as one").clone();
        station.as_object_mut().expect("the same").extend(entries);
        stations.push((name, station));
    }
    let classes = (0..network.classes()).map(|class| {
        let mut route = Vec::new();
        for (at, (name, _)) in stations.iter().enumerate() {
            let (visits, service) = network.visits(at, class);
            if visits * service > 0.0 {
                route.push(often(json!(name), visits));
            }
        }
        let name = network.class_name(class);
        match network.load(class) {
            Load::Closed { customers, think } => closed(name, customers, think, &route),
            Load::Open { rate } => open(name, rate, &route),
        }
    });
    let classes: Vec<Value> = classes.collect();
    // A station at which no class spends time is no part of a scenario.
    let stations = stations.into_iter().map(|(_, station)| station);
    let stations: Vec<Value> = stations
        .filter(|station| station["demands"].as_object().is_some_and(|demands| !demands.is_empty()))
        .collect();
    let parts = json!({ "class": classes, "station": stations });
    scenario(file, parts.as_object().expect("it was made as one").clone())
}

fn closed(name: &str, customers: u32, think: f64, route: &[Value]) -> Value {
    let mut class = json!({ "name": name, "population": customers, "route": route });
    if think > 0.0 {
        class["think"] = exponential(think);
    }
    class
}

fn open(name: &str, rate: f64, route: &[Value]) -> Value {
    json!({ "name": name, "rate": format!("{rate}/s"), "route": route })
}

/// A layered model as nested gates.
///
/// # Errors
/// If it has what gates cannot say: tasks with threads and several entries.
pub(super) fn layers(file: &str, layers: &Layers) -> Result<Scenario, String> {
    let mut names = Names::default();
    let gates = layers.tasks.iter().map(|task| names.free(&task.name, "task")).collect();
    let stations = layers.processors.iter().map(|one| names.free(&one.name, "processor"));
    let stations = stations.collect();
    let mut spelled = Spelled { layers, gates, stations, steps: 0, visited: BTreeSet::new() };
    let mut classes = Vec::new();
    let mut gates = Vec::new();
    for (at, task) in layers.tasks.iter().enumerate() {
        check(task)?;
        match task.threads {
            Threads::Reference { population, think } => {
                // Customers have nobody who waits: they go on when both phases are over.
                let [first, second] = &task.entries[0].phases;
                let mut route = spelled.phase(at, first)?;
                route.extend(spelled.phase(at, second)?);
                classes.push(closed(&task.name, population, think, &route));
            }
            Threads::Finite(slots) => {
                let inside = spelled.held(at, &task.entries[0])?;
                gates.push(json!({ "name": spelled.gates[at], "slots": slots, "inside": inside }));
            }
            Threads::Infinite => {}
        }
        for (entry, of) in task.entries.iter().enumerate().filter(|(_, of)| of.open_rate > 0.0) {
            let route = spelled.call(EntryId { task: at, entry })?;
            classes.push(open(&of.name, of.open_rate, &route));
        }
    }
    let processors = layers.processors.iter().enumerate();
    let stations =
        processors.filter(|(at, _)| spelled.visited.contains(at)).map(|(at, processor)| {
            let name = &spelled.stations[at];
            match (processor.servers, processor.discipline) {
                (None, _) => json!({ "name": name, "kind": "delay" }),
                (Some(servers), ProcessorDiscipline::Fifo) => {
                    json!({ "name": name, "kind": "queue", "servers": servers })
                }
                (Some(servers), ProcessorDiscipline::Sharing) => {
                    json!({ "name": name, "kind": "sharing", "servers": servers })
                }
            }
        });
    let stations: Vec<Value> = stations.collect();
    let parts = json!({ "class": classes, "gate": gates, "station": stations });
    scenario(file, parts.as_object().expect("it was made as one").clone())
}

fn check(task: &Task) -> Result<(), String> {
    if let (Threads::Finite(_), 2..) = (task.threads, task.entries.len()) {
        return Err(format!(
            "task `{}` has threads and several entries, and a gate has one way inside: it is solved \
             by formula only",
            task.name
        ));
    }
    Ok(())
}

/// Step that sends a route on as a job of its own; none, where there is nothing to do.
fn sent(route: Vec<Value>) -> Option<Value> {
    (!route.is_empty()).then(|| json!({ "send": route }))
}

/// Routes, as far as they are spelled out.
struct Spelled<'a> {
    layers: &'a Layers,
    gates: Vec<String>,
    stations: Vec<String>,
    steps: usize,
    /// The processors that some route visits.
    visited: BTreeSet<usize>,
}

impl Spelled<'_> {
    fn step(&mut self, task: usize) -> Result<(), String> {
        self.steps += 1;
        if self.steps <= STEPS_MAX {
            return Ok(());
        }
        Err(format!(
            "task `{}`: its calls spelled out are more than {STEPS_MAX} steps; solve it by formula",
            self.layers.tasks[task].name
        ))
    }

    /// A call: the gate of a task with threads, or all that a task without does.
    fn call(&mut self, to: EntryId) -> Result<Vec<Value>, String> {
        self.step(to.task)?;
        let task = &self.layers.tasks[to.task];
        match task.threads {
            Threads::Finite(_) => Ok(vec![json!(self.gates[to.task])]),
            Threads::Infinite | Threads::Reference { .. } => {
                let [first, second] = &task.entries[to.entry].phases;
                let mut route = self.phase(to.task, first)?;
                route.extend(sent(self.phase(to.task, second)?));
                Ok(route)
            }
        }
    }

    /// Route of an entry with a thread held, before its reply and after.
    fn held(&mut self, task: usize, entry: &Entry) -> Result<Vec<Value>, String> {
        let [first, second] = &entry.phases;
        let mut inside = self.phase(task, first)?;
        let after = self.phase(task, second)?;
        if !after.is_empty() {
            inside.push(json!("reply"));
            inside.extend(after);
        }
        Ok(inside)
    }

    /// A call, waited for or not.
    fn request(&mut self, call: &Call) -> Result<Vec<Value>, String> {
        let route = self.call(call.to)?;
        Ok(match call.kind {
            CallKind::Synchronous => route,
            CallKind::Asynchronous => sent(route).into_iter().collect(),
        })
    }

    /// Slices of work with calls between them.
    fn phase(&mut self, task: usize, phase: &Phase) -> Result<Vec<Value>, String> {
        self.step(task)?;
        let calls: f64 = phase.calls.iter().map(|call| call.mean).sum();
        let slice = self.slice(task, phase, phase.demand / (calls + 1.0));
        let mut route: Vec<Value> = slice.clone().into_iter().collect();
        if calls == 0.0 {
            return Ok(route);
        }
        if phase.counts == CallCounts::Fixed {
            for call in &phase.calls {
                for _ in 0..call.mean as u64 {
                    route.extend(self.request(call)?);
                    route.extend(slice.clone());
                }
            }
            return Ok(route);
        }
        let mut ways = Vec::new();
        for call in &phase.calls {
            ways.push(json!({ "chance": call.mean / calls, "route": self.request(call)? }));
        }
        let mut round: Vec<Value> = match &ways[..] {
            [only] => only["route"].as_array().expect("it was made as one").clone(),
            _ => vec![json!({ "choose": ways })],
        };
        round.extend(slice);
        // After each slice another call comes with this chance: as many as wanted on average.
        let again = calls / (1.0 + calls);
        let repeated = json!({ "repeat": again, "route": round });
        route.push(json!({
            "choose": [{ "chance": again, "route": [repeated] }, { "chance": 1.0 - again }]
        }));
        Ok(route)
    }

    fn slice(&mut self, task: usize, phase: &Phase, mean: f64) -> Option<Value> {
        if mean == 0.0 {
            return None;
        }
        let processor = self.layers.tasks[task].processor;
        self.visited.insert(processor);
        let demand = if phase.scv == 1.0 {
            exponential(mean)
        } else {
            json!({ "mean": seconds(mean), "scv": phase.scv })
        };
        Some(json!({ "visit": self.stations[processor], "demand": demand }))
    }
}
