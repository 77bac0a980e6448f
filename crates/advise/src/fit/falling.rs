//! A service whose throughput falls under load, as a station with the speed that was measured: the
//! flow-equivalent server of Chandy, Herzog and Woo (1975), which with n jobs in it serves as many a
//! second as the service did with n clients.

use super::build::as_written;
use super::draft::{Draft, RowStand, SourceFit, exponential, open_class, station};
use super::points::{Fitter, LoadPoint, MACHINE, rows};
use super::scalability::fit_scalability;
use super::{FitOptions, names};
use crate::units::Span;
use crate::{ClassEntry, DistEntry, StationName};

/// Share of the highest throughput that must be lost at the most clients.
const LOST_MIN: f64 = 0.1;
/// Standard errors of the loss that are taken for noise.
const NOISE: f64 = 2.0;

/// True if the throughput at the most clients is below its peak by more than noise.
pub(super) fn is_falling(points: &[LoadPoint], noise: &[f64]) -> bool {
    let Some(last) = points.len().checked_sub(1) else { return false };
    let peak = peak(points);
    let lost = 1.0 - points[last].throughput / points[peak].throughput;
    lost > LOST_MIN.max(NOISE * noise[peak].hypot(noise[last]))
}

/// Position of the highest throughput.
fn peak(points: &[LoadPoint]) -> usize {
    let throughput = |(_, point): &(usize, &LoadPoint)| point.throughput;
    let all = points.iter().enumerate();
    all.max_by(|a, b| throughput(a).total_cmp(&throughput(b))).map_or(0, |(at, _)| at)
}

/// The scenario that serves as was measured. It can contradict nothing: it takes up every throughput.
pub(super) fn fit(
    fitter: &Fitter<'_>,
    mut draft: Draft,
    sources: &[String],
    options: &FitOptions,
) -> SourceFit {
    let Fitter { points, noise, think, .. } = *fitter;
    let loads = loads(points, think);
    let last = points.len() - 1;
    let top = peak(points);
    let (at, most) = (points[top].clients, points[last].clients);
    let lost = 100.0 * (1.0 - points[last].throughput / points[top].throughput);
    let mut notes = vec![format!(
        "throughput falls by {lost:.0} % beyond {}: the server does extra work under load, which no queue \
         explains; the scenario serves as was measured at each load, on straight lines between them, and \
         a gate of {} before the server keeps it at its peak",
        number_of(at, "client"),
        number_of(at, "slot")
    )];
    notes.extend(fit_scalability(points, &mut draft, options));
    if !draft.parameters.contains_key("peak") {
        let [before, after] = [top.saturating_sub(1), (top + 1).min(last)];
        let region = [points[before].clients, points[after].clients];
        draft.clients("peak", at, region, most, options);
        draft.parameters.remove("peak-least");
    }
    let curve = speeds(&loads);
    let alone = 1.0 / curve[0];
    let wide = 1.0 + NOISE * noise[0];
    draft.parameter("demand", alone, [alone / wide, alone * wide], "s", options);
    if points[0].clients > 1.0 {
        draft.unidentified.push(format!(
            "the throughput below {:.0} clients: taken as a share of theirs; measure 1 client",
            points[0].clients
        ));
    }
    draft.unidentified.push("what makes the throughput fall beyond its peak".into());
    let mut machine = station(MACHINE, StationName::Sharing, 1);
    machine.demand = Some(exponential(alone));
    machine.speed_curve = curve.iter().map(|speed| speed * alone).collect();
    let throughput_max = points[top].throughput;
    draft.stations.push(machine);
    draft.classes.push(ClassEntry {
        rate: None,
        population: Some(most.round().max(1.0) as u32),
        think: (think > 0.0).then(|| DistEntry::Constant(as_written(Span(think)))),
        ..open_class("requests", 1.0, &[names::GATE])
    });
    let seen: Vec<f64> = points.iter().map(|point| point.throughput).collect();
    let rows = rows(points, &seen, think, RowStand::TakenUp);
    let scenario = draft.scenario(options, sources, [points[0].clients, most], throughput_max);
    SourceFit { scenario, rows, witnesses: Vec::new(), notes }
}

/// `1 slot`, `2 slots`.
fn number_of(count: f64, what: &str) -> String {
    if count == 1.0 { format!("1 {what}") } else { format!("{count:.0} {what}s") }
}

/// Mean number of requests under way and throughput [1/s], load by load; of several measurements of one
/// load the mean.
fn loads(points: &[LoadPoint], think: f64) -> Vec<(f64, f64)> {
    let of_one = |of: &[LoadPoint]| {
        let throughput = of.iter().map(|point| point.throughput).sum::<f64>() / of.len() as f64;
        ((of[0].clients - think * throughput).max(1.0), throughput)
    };
    let mut loads: Vec<(f64, f64)> =
        points.chunk_by(|a, b| a.clients == b.clients).map(of_one).collect();
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    loads.dedup_by(|a, b| a.0 == b.0);
    loads
}

/// Throughput with 1, 2, ... jobs up to the most [1/s]: straight lines between the loads, and through
/// the origin below the first.
fn speeds(loads: &[(f64, f64)]) -> Vec<f64> {
    let (first, last) = (loads[0], loads[loads.len() - 1]);
    let at = |n: f64| {
        if n <= first.0 {
            return first.1 * n / first.0;
        }
        let between = loads.windows(2).find(|pair| n <= pair[1].0);
        between.map_or(last.1, |pair| {
            let part = (n - pair[0].0) / (pair[1].0 - pair[0].0);
            pair[0].1 + part * (pair[1].1 - pair[0].1)
        })
    };
    (1..=last.0.ceil().max(1.0) as u32).map(|n| at(f64::from(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(clients: f64, throughput: f64) -> LoadPoint {
        LoadPoint { line: 0, clients, throughput, response: Some(clients / throughput) }
    }

    #[test]
    fn a_fall_within_noise_is_none() {
        let points = [point(1.0, 100.0), point(4.0, 120.0), point(16.0, 100.0)];
        assert!(is_falling(&points, &[0.01, 0.01, 0.01]));
        assert!(!is_falling(&points, &[0.01, 0.1, 0.01]));
        assert!(!is_falling(&points[..2], &[0.01, 0.01]));
        assert!(!is_falling(&[], &[]));
    }

    #[test]
    fn between_loads_the_speed_is_on_a_straight_line() {
        let points = [point(2.0, 100.0), point(4.0, 200.0), point(4.0, 220.0), point(8.0, 110.0)];
        let speeds = speeds(&loads(&points, 0.0));
        assert_eq!(speeds, [50.0, 100.0, 155.0, 210.0, 185.0, 160.0, 135.0, 110.0]);
    }
}
