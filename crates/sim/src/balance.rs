//! Balance of flows: in a steady state as many jobs leave as arrive, and stations are as busy as
//! the work that is brought to them. A run that is on its way up shows neither, however narrow the
//! intervals of its responses are. Growth of the number of jobs is looked for in the later half of
//! what is counted: what was still on its way when the counting began has come to its end by then,
//! and growth has none.

use measure::{Estimate, Parts};

use crate::network::{Load, Speed};
use crate::observation::Observation;
use crate::program::{Op, Program};
use crate::tally::ClassTally;

/// The chance that a run in its steady state is taken for one that is not, over all that is looked at.
const FALSE_ALARM: f64 = 0.001;
/// By how much of its servers' time a station may differ from the work that is brought to it.
const BUSY_SLACK: f64 = 0.002;
/// Of fewer replications than this the interval is so wide at the confidence needed here (1273 standard
/// errors of two) that hardly anything would ever lie outside.
const REPLICATIONS_MIN: usize = 10;
/// Of so few, jobs may become more by this share of those that come, and a station's servers may differ
/// by this share of their time, at the most.
const FEW_SLACK: (f64, f64) = (0.01, 0.05);

/// The disagreement, in words; none if everything agrees, as far as chance allows.
pub(crate) fn imbalance(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
) -> Option<String> {
    let flows = flows(program);
    let stations = program.offered.as_ref().map_or(0, Vec::len);
    let places = program.stations.len() + program.gates.len();
    let confidence = 1.0 - FALSE_ALARM / (flows.len() + stations + places) as f64;
    let found = flows
        .iter()
        .find_map(|(name, classes)| flow(name, classes, observations, relation, confidence));
    let found = found.or_else(|| busy(program, observations, relation, confidence));
    found.or_else(|| piled_up(program, observations, relation, confidence))
}

/// A station or a gate where more and more are: that is to be seen whatever the load, closed classes and
/// work that depends on a cache included.
fn piled_up(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    let grows = |more: &dyn Fn(&Observation<'_>) -> (f64, f64)| {
        let (more, passed): (Vec<f64>, Vec<f64>) = observations.iter().map(more).unzip();
        is_trend(&more, &passed, relation, confidence).then(|| more.iter().sum::<f64>())
    };
    let told = |kind: &str, name: &str, more: f64| {
        let way = if more > 0.0 { "more" } else { "fewer" };
        format!(
            "{kind} `{name}`: the jobs there become {way} and {way}, by {:.0} so far",
            more.abs()
        )
    };
    let station = |at: usize| {
        let more = grows(&|observation| {
            (observation.stations[at].more as f64, observation.stations[at].passed as f64)
        })?;
        Some(told("station", &program.stations[at].name, more))
    };
    let gate = |at: usize| {
        let more = grows(&|observation| {
            let gate = observation.gates[at];
            let more = f64::from(gate.waiting) - f64::from(gate.waiting_before);
            (more, (gate.started - gate.started_before) as f64)
        })?;
        Some(told("gate", &program.gates[at].name, more))
    };
    let stations = (0..program.stations.len()).find_map(station);
    stations.or_else(|| (0..program.gates.len()).find_map(gate))
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
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    let sum = |observation: &Observation<'_>, of: &dyn Fn(&ClassTally) -> u64| -> f64 {
        classes.iter().map(|&at| of(&observation.classes[at])).sum::<u64>() as f64
    };
    let arrived = |observation: &Observation<'_>| sum(observation, &|class| class.offered);
    let left =
        |observation: &Observation<'_>| sum(observation, &|class| class.completed + class.failed());
    let came = |observation: &Observation<'_>| sum(observation, &|class| class.since_mark().0);
    let went = |observation: &Observation<'_>| sum(observation, &|class| class.since_mark().1);
    let more: Vec<f64> =
        observations.iter().map(|observation| came(observation) - went(observation)).collect();
    let came: Vec<f64> = observations.iter().map(came).collect();
    if !is_trend(&more, &came, relation, confidence) {
        return None;
    }
    let span: f64 = observations.iter().map(|observation| observation.span).sum();
    let rate =
        |of: &dyn Fn(&Observation<'_>) -> f64| observations.iter().map(of).sum::<f64>() / span;
    Some(format!(
        "{name}: of {:.4} /s that arrive {:.4} /s leave, so that more and more are inside",
        rate(&arrived),
        rate(&left)
    ))
}

/// True if the numbers by which jobs become more show growth: by replications if their mean is
/// other than 0; in one run if it ends with other numbers inside than it began with. One job more
/// or less says nothing. `passed` are those that came, or left: the share of few replications is
/// one of these.
fn is_trend(more: &[f64], passed: &[f64], relation: Parts, confidence: f64) -> bool {
    match relation {
        Parts::Independent => {
            let mean = Estimate::from_independent(more, confidence);
            let few = FEW_SLACK.0 * passed.iter().sum::<f64>() / passed.len() as f64;
            mean.mean.abs() > least(mean.half_width, few, more.len()) + 1.0
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

/// The deviation that an interval allows; of few replications no more than a share.
fn least(half_width: f64, few: f64, replications: usize) -> f64 {
    if replications < REPLICATIONS_MIN { half_width.min(few) } else { half_width }
}

/// A station that is less or more busy than the work that arrives makes it.
fn busy(
    program: &Program,
    observations: &[Observation<'_>],
    relation: Parts,
    confidence: f64,
) -> Option<String> {
    let offered = program.offered.as_ref()?;
    let plain = program.stations.iter().zip(offered).enumerate();
    let plain = plain.filter(|(_, (station, _))| station.speed == Speed::One);
    plain.into_iter().find_map(|(at, (station, work))| {
        let servers = f64::from(station.kind.capacity()?);
        let pairs: Vec<_> =
            observations.iter().map(|observation| (observation.stations[at].busy_s / servers, observation.span)).collect();
        let found = relation.ratio(&pairs, confidence)?;
        let rho = work / servers;
        let apart = (found.mean - rho).abs();
        let allowed = match relation {
            Parts::Independent => least(found.half_width, FEW_SLACK.1, observations.len()),
            Parts::Neighbours => found.half_width,
        };
        (apart > allowed + BUSY_SLACK).then(|| {
            format!(
                "station `{}`: it is busy for {:.2} % of the time, and what arrives would make it {:.2} %",
                station.name,
                100.0 * found.mean,
                100.0 * rho
            )
        })
    })
}
