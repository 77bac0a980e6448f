//! Which of many runs belong together: those of one target, asked in one way, that differ in their
//! clients alone.

use std::collections::BTreeSet;

use measure::{LoadShape, RunRecord};

use super::FitError;
use super::observed::Observed;

/// A run that is not fitted with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its id.
    pub run: String,
    /// The reason, in a sentence.
    pub why: String,
}

/// Positions of the runs that belong together, in the order given, and those that are left out.
///
/// Of several groups it is the one with most loads; of equal ones the newest. An invalid run is left out
/// where two loads remain without it.
///
/// # Errors
/// If no run is of use; the reason is that of the first.
pub fn together(
    runs: &[RunRecord],
    confidence: f64,
) -> Result<(Vec<usize>, Vec<LeftOut>), FitError> {
    let mut left = Vec::new();
    let mut useful = Vec::new();
    let mut first = None;
    for (at, run) in runs.iter().enumerate() {
        match Observed::new(run, confidence) {
            Ok(_) => useful.push(at),
            Err(error) => {
                let FitError::Run(id, why) = &error else { return Err(error) };
                left.push(LeftOut { run: id.clone(), why: why.clone() });
                first.get_or_insert(error);
            }
        }
    }
    let newest = |group: &[usize]| group.iter().map(|&at| &runs[at].header.started).max();
    let groups = groups(runs, &useful);
    let best = groups.iter().max_by(|a, b| {
        let by_loads = loads(runs, a).len().cmp(&loads(runs, b).len());
        by_loads.then_with(|| newest(a).cmp(&newest(b)))
    });
    let Some(best) = best else {
        let none = || FitError::TooLittle("no run is given: name some".into());
        return Err(first.unwrap_or_else(none));
    };
    let of = &runs[best[0]];
    for &at in useful.iter().filter(|at| !best.contains(at)) {
        left.push(LeftOut { run: runs[at].header.id.clone(), why: difference(&runs[at], of) });
    }
    let is_valid = |at: &usize| runs[*at].judge(confidence).is_valid();
    let (valid, invalid): (Vec<usize>, Vec<usize>) = best.iter().partition(|at| is_valid(at));
    if loads(runs, &valid).len() < 2 {
        return Ok((best.clone(), left));
    }
    left.extend(invalid.iter().map(|&at| {
        let faults = runs[at].judge(confidence).faults;
        let fault = faults.first().map_or(String::new(), ToString::to_string);
        LeftOut { run: runs[at].header.id.clone(), why: format!("it is invalid: {fault}") }
    }));
    Ok((valid, left))
}

/// Numbers of clients among these runs.
fn loads(runs: &[RunRecord], group: &[usize]) -> BTreeSet<u32> {
    let clients = |&at: &usize| match runs[at].header.load {
        LoadShape::Closed { clients, .. } => Some(clients),
        LoadShape::Poisson { .. } | LoadShape::Fixed { .. } | LoadShape::Varying { .. } => None,
    };
    group.iter().filter_map(clients).collect()
}

fn groups(runs: &[RunRecord], useful: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &at in useful {
        let own = groups.iter_mut().find(|group| differing(&runs[at], &runs[group[0]]).is_empty());
        match own {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

/// Parts beside the clients in which two closed runs differ, the target first.
fn differing(run: &RunRecord, other: &RunRecord) -> Vec<String> {
    let (a, b) = (&run.header, &other.header);
    let think = |load: &LoadShape| match load {
        LoadShape::Closed { think_s, .. } => *think_s,
        LoadShape::Poisson { .. } | LoadShape::Fixed { .. } | LoadShape::Varying { .. } => 0.0,
    };
    let mut parts = Vec::new();
    let mut part = |name: &str, differs: bool| parts.extend(differs.then(|| name.to_owned()));
    part("the target", a.target != b.target);
    part("the documents", a.classes != b.classes);
    part("the think time", think(&a.load) != think(&b.load));
    part("the machine", a.host.name != b.host.name);
    let settings: BTreeSet<&String> = a.settings.keys().chain(b.settings.keys()).collect();
    // No more threads are used than there are clients: they differ by themselves.
    for name in settings.into_iter().filter(|name| !["threads", "think"].contains(&name.as_str())) {
        part(name, a.settings.get(name) != b.settings.get(name));
    }
    parts
}

fn difference(run: &RunRecord, other: &RunRecord) -> String {
    let parts = differing(run, other);
    let target = &run.header.target;
    match parts.first().map(String::as_str) {
        Some("the target") => format!("it measured {target}, not {}", other.header.target),
        _ => format!("it differs from them in {}", parts.join(", ")),
    }
}
