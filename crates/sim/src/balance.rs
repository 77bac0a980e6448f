//! Whether what leaves agrees with what arrives: in a steady state as many jobs leave as arrive, and stations
//! are as busy as the work that is brought to them. A run that is on its way up shows neither, however
//! narrow the intervals of its responses are.

use measure::{Estimate, Parts};

use crate::network::{Load, Speed};
use crate::part::Part;
use crate::program::{Op, Program};

/// The chance that a run in its steady state is taken for one that is not, over all that is looked at.
const FALSE_ALARM: f64 = 0.001;
/// By how much of its servers' time a station may differ from the work that is brought to it.
const BUSY_SLACK: f64 = 0.002;

/// What does not agree, in words; none if everything does, as far as chance allows.
pub(crate) fn broken(program: &Program, parts: &[Part<'_>], relation: Parts) -> Option<String> {
    let flows = flows(program);
    let stations = program.offered.as_ref().map_or(0, Vec::len);
    let confidence = 1.0 - FALSE_ALARM / (flows.len() + stations) as f64;
    let broken =
        flows.iter().find_map(|(name, classes)| flow(name, classes, parts, relation, confidence));
    broken.or_else(|| busy(program, parts, relation, confidence))
}

/// Classes whose jobs leave as the class that they arrived as: each by itself; all together where jobs
/// change their class.
pub(crate) fn flows(program: &Program) -> Vec<(String, Vec<usize>)> {
    let open = |at: &usize| matches!(program.classes[*at].load, Load::Open(_));
    if program.ops.iter().any(|op| matches!(op, Op::Become { .. })) {
        return vec![("all classes".into(), (0..program.classes.len()).collect())];
    }
    let named = |at: usize| (format!("class `{}`", program.classes[at].name), vec![at]);
    (0..program.classes.len()).filter(open).map(named).collect()
}

fn flow(
    name: &str,
    classes: &[usize],
    parts: &[Part<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    let sum = |part: &Part<'_>, of: &dyn Fn(&crate::tally::ClassTally) -> u64| -> f64 {
        classes.iter().map(|&at| of(&part.classes[at])).sum::<u64>() as f64
    };
    let arrived = |part: &Part<'_>| sum(part, &|class| class.offered);
    let left = |part: &Part<'_>| sum(part, &|class| class.completed + class.failed());
    let more: Vec<f64> = parts.iter().map(|part| arrived(part) - left(part)).collect();
    if !is_trend(&more, relation, confidence) {
        return None;
    }
    let span: f64 = parts.iter().map(|part| part.span).sum();
    let rate = |of: &dyn Fn(&Part<'_>) -> f64| parts.iter().map(of).sum::<f64>() / span;
    Some(format!(
        "{name}: of {:.4} /s that arrive {:.4} /s leave, so that more and more are inside",
        rate(&arrived),
        rate(&left)
    ))
}

/// Whether the numbers by which jobs become more say that they do: by replications whether their mean is
/// other than 0; in one run whether it ends with other numbers inside than it began with. One job more
/// or less says nothing.
fn is_trend(more: &[f64], relation: Parts, confidence: f64) -> bool {
    match relation {
        Parts::Independent => {
            let mean = Estimate::from_independent(more, confidence);
            mean.mean.abs() > mean.half_width + 1.0
        }
        Parts::Neighbours => {
            let mut inside = 0.0;
            let inside: Vec<f64> = more
                .iter()
                .map(|more| {
                    inside += more;
                    inside
                })
                .collect();
            let third = inside.len() / 3;
            if third < 2 {
                return true;
            }
            let first = Estimate::from_independent(&inside[..third], confidence);
            let last = Estimate::from_independent(&inside[inside.len() - third..], confidence);
            // Neighbours are alike, so that each interval counts in full.
            (last.mean - first.mean).abs() > first.half_width + last.half_width + 1.0
        }
    }
}

/// A station that is less or more busy than the work that arrives makes it.
fn busy(program: &Program, parts: &[Part<'_>], relation: Parts, confidence: f64) -> Option<String> {
    let offered = program.offered.as_ref()?;
    let plain = program.stations.iter().zip(offered).enumerate();
    let plain = plain.filter(|(_, (station, _))| station.speed == Speed::One);
    plain.into_iter().find_map(|(at, (station, work))| {
        let servers = f64::from(station.kind.capacity()?);
        let pairs: Vec<_> =
            parts.iter().map(|part| (part.desks[at].busy_s / servers, part.span)).collect();
        let found = relation.ratio(&pairs, confidence)?;
        let rho = work / servers;
        let apart = (found.mean - rho).abs();
        (apart > found.half_width + BUSY_SLACK).then(|| {
            format!(
                "station `{}`: it is busy for {:.2} % of the time, and what arrives would make it {:.2} %",
                station.name,
                100.0 * found.mean,
                100.0 * rho
            )
        })
    })
}
