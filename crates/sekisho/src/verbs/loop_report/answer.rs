//! The answer at the top of the page: the knee, the bottleneck and the slots to set, from a prediction or
//! from runs that can be fitted.

use std::collections::BTreeSet;

use advise::{FitOptions, Fitted, Load, Point, Prediction, Scenario};
use cli::store;
use cli::text::rate;
use measure::RunRecord;

use super::super::check::point_text;

/// Knee, bottleneck and slots, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// N*, the clients at which the asymptotes of the throughput meet.
    pub(crate) knee: Option<f64>,
    /// Sentences for the box at the top.
    pub(crate) lines: Vec<String>,
}

/// Slots with which so little less is served than with others are as good.
const AS_GOOD: f64 = 0.98;
/// The end of advice from runs alone: a client does not see what is between it and the server.
const BEHIND_A_GATE: &str = "the runs do not tell whether a gate or a pool of connections was before the server: if one was, \
     they show its slots and its queue, and no number of slots is advised";
/// Utilisation from which on a part is saturated.
const SATURATED: f64 = 0.9;

/// The answer of a prediction.
pub(crate) fn of_prediction(prediction: &Prediction) -> Answer {
    let mut answer = Answer::default();
    let highest = prediction
        .points
        .iter()
        .max_by(|a, b| a.simulation.throughput.mean.total_cmp(&b.simulation.throughput.mean));
    let Some(highest) = highest else { return answer };
    answer.note_knee(&prediction.scenario, highest.slots);
    answer.lines.extend(bottleneck(prediction, highest));
    answer.lines.extend(slots(prediction));
    answer
}

/// Slots that hold a knee, by the tenth of a client to which it is told: of 1.0 clients one, and not two for 1.04.
fn slots_of(knee: f64) -> f64 {
    ((10.0 * knee).round() / 10.0).ceil().max(1.0)
}

/// The answer of runs alone, where those that belong together can be fitted.
pub(crate) fn of_runs(runs: &[RunRecord]) -> Answer {
    let mut answer = Answer::default();
    let Ok((taken, _)) = advise::together(runs, 0.95) else { return answer };
    let taken: Vec<RunRecord> = taken.iter().map(|&at| runs[at].clone()).collect();
    let options = FitOptions {
        slots: None,
        cores: None,
        seed: 1,
        confidence: 0.95,
        date: store::now_rfc3339(),
        name: taken.first().map_or(String::new(), |run| run.header.target.clone()),
    };
    let fitted = advise::fit_runs(&taken, &options);
    let scenario = match &fitted {
        Ok(Fitted::BySizes(fit)) => &fit.scenario,
        Ok(Fitted::ByLoads(fit)) => &fit.scenario,
        Err(_) => return answer,
    };
    answer.note_knee(scenario, None);
    if answer.knee.is_some() && runs.iter().any(|run| run.header.target != options.name) {
        answer.lines.push(format!("knee and advice are of the runs of {} alone", options.name));
    }
    if let Some(knee) = answer.knee {
        let peak = parameter(scenario, "peak").is_some();
        let slots = if peak { knee.round() } else { slots_of(knee) };
        let why = if peak { "with more it serves less" } else { "with more they wait inside" };
        answer.lines.push(format!(
            "advised, if the runs reached the server itself: a gate of {} before it; {why}. `sekisho fit` \
             and `sekisho ask` say what would be",
            number_of(slots as u32)
        ));
        answer.lines.push(BEHIND_A_GATE.to_owned());
    }
    answer
}

impl Answer {
    /// Puts these sentences before its own.
    pub(crate) fn begin_with<'a>(&mut self, lines: impl Iterator<Item = &'a String>) {
        self.lines.splice(0..0, lines.cloned());
    }

    /// The knee of a scenario, and the most that it serves.
    fn note_knee(&mut self, scenario: &Scenario, slots: Option<u32>) {
        let region = |of: &advise::Parameter| {
            let [low, high] = of.interval;
            format!(" (95 %: {low:.1} to {high:.1})")
        };
        if let Some(peak) = parameter(scenario, "peak") {
            self.knee = Some(peak.value);
            self.lines.push(format!(
                "peak: most is served with {:.1} clients{}, and less with more",
                peak.value,
                region(peak)
            ));
            return;
        }
        let Some((knee, most)) = knee(scenario, slots) else { return };
        let told = parameter(scenario, "knee").map(region).unwrap_or_default();
        self.knee = Some(knee);
        self.lines.push(format!(
            "knee: N* = {knee:.1} clients{told}; beyond them more clients only wait, and at most {} are \
             served",
            rate(most)
        ));
    }
}

fn parameter<'a>(scenario: &'a Scenario, name: &str) -> Option<&'a advise::Parameter> {
    scenario.calibration.as_ref()?.parameters.get(name)
}

/// N* and the highest throughput [1/s] of a closed scenario: the asymptotes X <= N / (R(1) + Z) and X <=
/// 1 / D meet.
fn knee(scenario: &Scenario, slots: Option<u32>) -> Option<(f64, f64)> {
    let [class] = scenario.classes.as_slice() else { return None };
    class.population?;
    let alone = advise::at(scenario, None, Load::Clients(1), slots).ok()?;
    let one = advise::formula(&alone).ok()?;
    // The bound of one client is that client's own cycle: the ceiling shows with many.
    let many = advise::at(scenario, None, Load::Clients(MANY), slots).ok()?;
    let most = advise::formula(&many).ok()?.bounds?.throughput_max;
    let cycle = 1.0 / one.throughput;
    let knee = most * cycle;
    (knee.is_finite() && knee < f64::from(MANY) / 2.0).then_some((knee, most))
}

/// Clients that saturate whatever can be.
const MANY: u32 = 500;

/// The part that limits at the point of most throughput.
fn bottleneck(prediction: &Prediction, point: &Point) -> Option<String> {
    let gates: BTreeSet<&str> =
        prediction.scenario.gates.iter().map(|gate| gate.name.as_str()).collect();
    let busiest = |of: bool| {
        let parts = point.simulation.utilisation.iter();
        parts
            .filter(|(name, _)| gates.contains(name.as_str()) == of)
            .max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let place = point_text(point.load, point.slots);
    let told =
        |(name, busy): &(String, f64)| format!("`{name}` ({:.0} % busy at {place})", 100.0 * busy);
    match (busiest(false), busiest(true)) {
        (Some(hard), _) if hard.1 >= SATURATED => Some(format!("bottleneck: {}", told(hard))),
        (hard, Some(soft)) if soft.1 >= SATURATED => {
            let rest = hard.map(|hard| format!(", while {} is not", told(hard)));
            Some(format!("bottleneck: the slots of {}{}", told(soft), rest.unwrap_or_default()))
        }
        (Some(hard), _) => {
            Some(format!("no bottleneck up to {place}: the busiest is {}", told(hard)))
        }
        (None, _) => None,
    }
}

/// `1 slot`, `2 slots`.
fn number_of(slots: u32) -> String {
    if slots == 1 { "1 slot".into() } else { format!("{slots} slots") }
}

/// The fewest slots of those asked about that serve as much as any at the highest load.
fn slots(prediction: &Prediction) -> Option<String> {
    let load = prediction.points.iter().map(|point| point.load);
    let load = load.max_by(|a, b| super::x_of(*a).total_cmp(&super::x_of(*b)))?;
    let points = prediction.points.iter().filter(|point| point.load == load);
    let mut points: Vec<(u32, f64)> =
        points.filter_map(|point| Some((point.slots?, point.simulation.throughput.mean))).collect();
    points.sort_by_key(|(slots, _)| *slots);
    points.dedup_by_key(|(slots, _)| *slots);
    let most = points.iter().map(|(_, x)| *x).fold(0.0, f64::max);
    if points.len() < 2 {
        return None;
    }
    let (best, throughput) = *points.iter().find(|(_, x)| *x >= AS_GOOD * most)?;
    let asked: Vec<String> = points.iter().map(|(slots, _)| slots.to_string()).collect();
    Some(format!(
        "advised: {}, the fewest of those asked about ({}) that serve as much as any at {load}: {}",
        number_of(best),
        asked.join(", "),
        rate(throughput)
    ))
}

#[cfg(test)]
mod tests {
    use super::slots_of;

    #[test]
    fn slots_are_those_of_the_knee_as_it_is_told() {
        let found = [0.4, 1.0, 1.04, 1.06, 2.0, 2.06, 15.3].map(slots_of);
        assert_eq!(found, [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 16.0]);
    }
}
