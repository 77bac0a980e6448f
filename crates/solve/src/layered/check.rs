//! Checks that a layered model must pass before it is solved.

use std::collections::BTreeSet;

use super::{EntryId, Layered, LayeredError, Task, Threads};
use crate::SolveError;
use crate::error::{at_least_one, not_negative, positive};

/// The most threads, servers or customers: tables hold a number for each.
const COUNT_MAX: u32 = 1_000_000;

pub(super) fn check(layered: &Layered) -> Result<(), LayeredError> {
    for processor in &layered.processors {
        let number = number(format!("processor `{}`", processor.name));
        if let Some(servers) = processor.servers {
            at_least_one("servers", servers).map_err(&number)?;
            let way_out = "give fewer, or let it have no limit, which so many come to";
            few(&format!("processor `{}`", processor.name), "servers", servers, way_out)?;
        }
    }
    for task in &layered.tasks {
        check_task(layered, task)?;
    }
    check_cycles(layered)?;
    check_reached(layered)?;
    for task in &layered.tasks {
        check_time(layered, task)?;
    }
    Ok(())
}

/// No more than are solved, or simulated: the simulator has the same limit.
fn few(
    place: &str,
    name: &'static str,
    value: u32,
    way_out: &'static str,
) -> Result<(), LayeredError> {
    if value <= COUNT_MAX {
        return Ok(());
    }
    let place = place.to_owned();
    Err(LayeredError::TooMany { place, name, value, most: COUNT_MAX, way_out })
}

fn number(place: String) -> impl Fn(SolveError) -> LayeredError {
    move |cause| LayeredError::Number { place: place.clone(), cause }
}

pub(super) fn place(layered: &Layered, id: EntryId) -> String {
    let task = &layered.tasks[id.task];
    format!("entry `{}` of task `{}`", task.entries[id.entry].name, task.name)
}

fn check_task(layered: &Layered, task: &Task) -> Result<(), LayeredError> {
    let place = format!("task `{}`", task.name);
    if task.processor >= layered.processors.len() {
        let what = format!("processor {}", task.processor);
        return Err(LayeredError::NoSuch { place, what });
    }
    let number_of_task = number(place);
    not_negative("squared variation of gaps", task.gap_scv, "").map_err(&number_of_task)?;
    let entries = task.entries.len();
    match task.threads {
        Threads::Finite(threads) => {
            at_least_one("threads", threads).map_err(&number_of_task)?;
            let way_out = "give fewer, or let it have no limit, which so many come to";
            few(&format!("task `{}`", task.name), "threads", threads, way_out)?;
        }
        Threads::Infinite => {}
        Threads::Reference { population, think } => {
            at_least_one("customers N", population).map_err(&number_of_task)?;
            few(&format!("task `{}`", task.name), "customers N", population, "give fewer")?;
            not_negative("think time Z", think, "s").map_err(&number_of_task)?;
        }
    }
    let is_reference = matches!(task.threads, Threads::Reference { .. });
    if entries == 0 || (is_reference && entries != 1) {
        return Err(LayeredError::Entries { task: task.name.clone(), entries });
    }
    for entry in &task.entries {
        let place = format!("entry `{}` of task `{}`", entry.name, task.name);
        let number_of_entry = number(place.clone());
        not_negative("open rate", entry.open_rate, "/s").map_err(&number_of_entry)?;
        if is_reference && entry.open_rate > 0.0 {
            return Err(LayeredError::CallsReference { place, task: task.name.clone() });
        }
        for phase in &entry.phases {
            not_negative("demand", phase.demand, "s").map_err(&number_of_entry)?;
            not_negative("squared variation", phase.scv, "").map_err(&number_of_entry)?;
            for call in &phase.calls {
                positive("mean number of calls", call.mean, "").map_err(&number_of_entry)?;
                let Some(to) = layered.tasks.get(call.to.task) else {
                    let what = format!("task {}", call.to.task);
                    return Err(LayeredError::NoSuch { place, what });
                };
                if call.to.entry >= to.entries.len() {
                    let what = format!("entry {} of task `{}`", call.to.entry, to.name);
                    return Err(LayeredError::NoSuch { place, what });
                }
                if matches!(to.threads, Threads::Reference { .. }) {
                    return Err(LayeredError::CallsReference { place, task: to.name.clone() });
                }
            }
        }
    }
    Ok(())
}

/// The tasks that a task calls.
fn callees(task: &Task) -> impl Iterator<Item = usize> {
    let phases = task.entries.iter().flat_map(|entry| &entry.phases);
    phases.flat_map(|phase| phase.calls.iter().map(|call| call.to.task))
}

/// Takes away tasks that nobody left calls, until none is left; callers come before callees.
pub(super) fn order(layered: &Layered) -> Result<Vec<usize>, usize> {
    let called: Vec<BTreeSet<usize>> =
        layered.tasks.iter().map(|task| callees(task).collect()).collect();
    let mut callers = vec![0_usize; layered.tasks.len()];
    for &callee in called.iter().flatten() {
        callers[callee] += 1;
    }
    let mut ready: Vec<usize> = (0..callers.len()).filter(|&task| callers[task] == 0).collect();
    let mut order = Vec::with_capacity(callers.len());
    while let Some(task) = ready.pop() {
        order.push(task);
        for &callee in &called[task] {
            callers[callee] -= 1;
            if callers[callee] == 0 {
                ready.push(callee);
            }
        }
    }
    match callers.iter().position(|&left| left > 0) {
        Some(task) => Err(task),
        None => Ok(order),
    }
}

fn check_cycles(layered: &Layered) -> Result<(), LayeredError> {
    // A task that is left may only be below the way round, and then is no help: follow callers that
    // are left, which must come round.
    order(layered).map(drop).map_err(|task| LayeredError::Cycle {
        task: layered.tasks[on_the_way_round(layered, task)].name.clone(),
    })
}

/// From a task that is called by a way round, back to one that is on it.
fn on_the_way_round(layered: &Layered, task: usize) -> usize {
    let reaches_itself = |start: usize| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<usize> = callees(&layered.tasks[start]).collect();
        while let Some(next) = open.pop() {
            if next == start {
                return true;
            }
            if seen.insert(next) {
                open.extend(callees(&layered.tasks[next]));
            }
        }
        false
    };
    (0..layered.tasks.len()).find(|&other| reaches_itself(other)).unwrap_or(task)
}

fn check_reached(layered: &Layered) -> Result<(), LayeredError> {
    let mut reached = BTreeSet::new();
    let mut open = Vec::new();
    for (task, of) in layered.tasks.iter().enumerate() {
        let is_reference = matches!(of.threads, Threads::Reference { .. });
        for (entry, each) in of.entries.iter().enumerate() {
            if is_reference || each.open_rate > 0.0 {
                open.push(EntryId { task, entry });
            }
        }
    }
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            let phases = &layered.tasks[id.task].entries[id.entry].phases;
            open.extend(phases.iter().flat_map(|phase| phase.calls.iter().map(|call| call.to)));
        }
    }
    for (task, of) in layered.tasks.iter().enumerate() {
        for entry in 0..of.entries.len() {
            let id = EntryId { task, entry };
            if !reached.contains(&id) {
                return Err(LayeredError::Unreached { place: place(layered, id) });
            }
        }
    }
    Ok(())
}

/// Each customer's cycle takes time.
fn check_time(layered: &Layered, task: &Task) -> Result<(), LayeredError> {
    let Threads::Reference { think, .. } = task.threads else { return Ok(()) };
    let mut seen = BTreeSet::new();
    let mut open: Vec<&super::Entry> = task.entries.iter().collect();
    let mut time = think;
    while let Some(entry) = open.pop() {
        for phase in &entry.phases {
            time += phase.demand;
            for call in phase.calls.iter().filter(|call| call.kind == super::CallKind::Synchronous)
            {
                if seen.insert(call.to) {
                    open.push(&layered.tasks[call.to.task].entries[call.to.entry]);
                }
            }
        }
    }
    if time > 0.0 { Ok(()) } else { Err(LayeredError::NoTime { task: task.name.clone() }) }
}
