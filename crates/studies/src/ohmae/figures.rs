//! The paper's tables and figures, drawn again: printed values, formulas and simulated dots.

use cli::Failure;
use gate::Window;
use measure::Estimate;
use measure::figures::digits;
use report::{Axis, Cell, Column, Curves, Figure, Section, Series, Table};

use crate::drawn::{Drawn, Row, figure, from_to, sentence};

use super::balance::{self, Policy};
use super::{scanning, tasks};

/// The sections of the report that show them.
pub(super) fn sections(
    tasks: &tasks::Runs,
    balance: &balance::Runs,
    scanning: &scanning::Runs,
) -> Result<Vec<Section>, Failure> {
    Ok(vec![software(tasks)?, balancing(balance)?, nested(scanning)?])
}

/// A measured dot: where, and the simulated value with its interval.
fn dot(x: f64, y: Estimate) -> (f64, f64, f64, f64) {
    (x, y.mean, y.low(), y.high())
}

/// Two values are alike that differ by less than this share.
const ALIKE: f64 = 0.05;

/// The change from the first point to the last, as printed and as simulated.
fn changes(drawn: &Drawn) -> String {
    let [printed, simulated] = ["printed", "simulated"].map(|name| from_to(drawn.row(name)));
    format!("from left to right {simulated} s simulated, {printed} s printed")
}

/// The fewest tasks with which the time is like that of the most.
fn enough(drawn: &Drawn) -> String {
    let row = drawn.row("simulated");
    let Some([_, [most, last]]) = row.ends() else { return "Nothing is simulated.".into() };
    let enough = row.points.iter().find(|point| (point[1] / last - 1.0).abs() < ALIKE);
    let enough = enough.map_or(most, |point| point[0]);
    sentence(&format!(
        "{}; the fewest tasks within {} % of the time of {most}: {enough}",
        changes(drawn),
        100.0 * ALIKE
    ))
}

/// Section 4.1.
fn software(runs: &tasks::Runs) -> Result<Section, Failure> {
    let response = || Axis::linear("Mean response time", "s");
    let more = Curves::new(Axis::linear("Tasks", ""), response())
        .series(Series::dots(
            "printed",
            tasks::MORE_TASKS.iter().map(|row| (f64::from(row.tasks), row.response)),
        ))
        .series(Series::measured(
            "simulated",
            tasks::MORE_TASKS.iter().map(|row| dot(f64::from(row.tasks), runs.row(row).response)),
        ));
    let faster = Curves::new(Axis::linear("Mean service time of a server", "s"), response())
        .series(Series::dots(
            "printed",
            tasks::FASTER_SERVERS.iter().map(|row| (row.service, row.response)),
        ))
        .series(Series::measured(
            "simulated",
            tasks::FASTER_SERVERS.iter().map(|row| dot(row.service, runs.row(row).response)),
        ));
    Ok(Section::new("The software bottleneck: section 4.1 of the paper")
        .paragraph(
            "10 clients think 10 s; a request takes a task, is dispatched in 0.5 s, is served by one \
             of four servers (round robin) and gives the task back with the reply.",
        )
        .figure(figure("Table 3.1: response time by tasks", more, enough)?)
        .figure(figure("Table 3.2: one task, faster servers", faster, |drawn| {
            sentence(&changes(drawn))
        })?)
        .table(rows(runs)?))
}

/// Both tables, printed beside simulated.
fn rows(runs: &tasks::Runs) -> Result<Table, Failure> {
    let columns = [
        Column::plain("tasks"),
        Column::new("service", "s"),
        Column::new("R printed", "s"),
        Column::new("R simulated", "s"),
    ];
    let mut table = Table::new("Tables 3.1 and 3.2", columns);
    for row in tasks::MORE_TASKS.iter().chain(&tasks::FASTER_SERVERS[1..]) {
        let now = runs.row(row).response;
        let cells = [
            Cell::from(row.tasks.to_string()),
            Cell::from(row.service),
            Cell::from(row.response),
            Cell::interval(now.mean, now.low(), now.high()),
        ];
        table = table.row(cells).map_err(Failure::defect)?;
    }
    Ok(table)
}

/// Section 4.2.
fn balancing(runs: &balance::Runs) -> Result<Section, Failure> {
    let with_queues = &balance::FIVE[..4];
    let other_readings = [
        balance::SHORTEST,
        balance::SHORTEST_ROTATING,
        balance::SHORTEST_IN_SYSTEM,
        balance::LOWEST_EVER,
        balance::EV_EVER,
        balance::EV,
    ];
    let shared = &[balance::EV, Policy::OneQueue];
    let figures = [
        by_clients(
            runs,
            "Figure 4.3: response time, a queue for each server",
            with_queues,
            Of::Response,
        )?,
        by_clients(
            runs,
            "Figure 4.4: throughput, a queue for each server",
            with_queues,
            Of::Throughput,
        )?,
        by_clients(runs, "Figure 4.5: response time, one shared queue", shared, Of::Response)?,
        by_clients(runs, "Figure 4.6: throughput, one shared queue", shared, Of::Throughput)?,
        by_clients(
            runs,
            "What the paper leaves out: other readings of (2), (3) and (4)",
            &other_readings,
            Of::Response,
        )?,
        weights(runs)?,
    ];
    let mut section = Section::new("Load balancing: section 4.2 of the paper").paragraph(
        "Five servers, think time 10 s (exponential), service 1.5 s (hyperexponential, squared \
         coefficient of variation 4). Unless a name says otherwise: length counts waiting requests \
         only, utilisation that of the last 10 s.",
    );
    for figure in figures {
        section = section.figure(figure);
    }
    Ok(section)
}

#[derive(Clone, Copy)]
enum Of {
    Response,
    Throughput,
}

/// A figure of policies by the number of clients.
fn by_clients(
    runs: &balance::Runs,
    title: &str,
    policies: &[Policy],
    of: Of,
) -> Result<Figure, Failure> {
    let (label, unit) = match of {
        Of::Response => ("Mean response time", "s"),
        Of::Throughput => ("Throughput", "/s"),
    };
    let mut curves = Curves::new(Axis::linear("Clients", ""), Axis::linear(label, unit));
    for policy in policies {
        let at = |clients: &u32| {
            let estimate = match of {
                Of::Response => runs.response(*policy, *clients),
                Of::Throughput => runs.throughput(*policy, *clients),
            };
            dot(f64::from(*clients), estimate)
        };
        curves = curves.series(Series::measured(policy.name(), runs.clients.iter().map(at)));
    }
    figure(title, curves, |drawn| drawn.spread("clients", unit))
}

fn weights(runs: &balance::Runs) -> Result<Figure, Failure> {
    let windows = [("last 10 s", balance::recent()), ("since start", Window::SinceStart)];
    let mut curves = Curves::new(Axis::log("K1 / K2", ""), Axis::linear("Mean response time", "s"));
    for (name, window) in windows {
        let dots = runs.by_weight(window).into_iter().map(|(k, response)| dot(k, response));
        curves = curves.series(Series::measured(name, dots));
    }
    figure("EV by its weights", curves, |drawn| {
        let lowest = drawn.rows().iter().filter_map(lowest);
        format!(
            "{} clients. The lowest: {}.",
            balance::SWEPT,
            lowest.collect::<Vec<_>>().join("; ")
        )
    })
}

/// The lowest point with its interval, and the others that may be as low: a mean alone does not make it the lowest.
fn lowest(row: &Row) -> Option<String> {
    let ([k, least], [low, high], others) = row.lowest_by_chance()?;
    let others = match others.is_empty() {
        true => ", below all other intervals".to_owned(),
        false => {
            let others: Vec<String> = others.iter().map(f64::to_string).collect();
            format!(", and by their intervals perhaps as low at {}", others.join(", "))
        }
    };
    let [least, low, high] = [least, low, high].map(digits);
    Some(format!("{}: {least} s at {k} ({low} to {high} s){others}", row.name))
}

/// Names of the two ways to join the parts, simulated.
const DECOUPLED: &str = "simulated, decoupled";
const HELD: &str = "simulated, station held until stored";

/// Section 5.
fn nested(runs: &scanning::Runs) -> Result<Section, Failure> {
    let rates = || (1..=15).map(|at| 0.05 * f64::from(at));
    let mut busy =
        Curves::new(Axis::linear("Pages a second", "/s"), Axis::linear("Utilisation", "%"));
    for (at, name) in ["scan stations", "scanning LAN", "scan server"].iter().enumerate() {
        let share =
            |rate: f64| (rate, 100.0 * scanning::utilisations(rate, scanning::STATIONS_THEN)[at]);
        busy = busy.series(Series::line(*name, rates().map(share)));
    }
    let mut formula = Vec::new();
    for count in scanning::FIGURE_5_3 {
        formula.push((f64::from(count), scanning::part_a(scanning::BUSY, count)?));
    }
    let simulated = scanning::FIGURE_5_3.iter().zip(&runs.by_stations);
    let held = scanning::FIGURE_5_3.iter().zip(&runs.by_stations_held);
    let held = held.filter_map(|(count, response)| Some(dot(f64::from(*count), (*response)?)));
    let stations =
        Curves::new(Axis::linear("Scan stations", ""), Axis::linear("Mean response time", "s"))
            .series(Series::line("M/M/c", formula))
            .series(Series::measured(
                DECOUPLED,
                simulated.map(|(count, response)| dot(f64::from(*count), *response)),
            ))
            .series(Series::measured(HELD, held));
    Ok(Section::new("Nested servers: section 5 of the paper")
        .figure(figure("Figure 5.2: utilisation by component", busy, utilisations)?)
        .figure(figure("Figure 5.3: response time by stations", stations, by_stations)?))
}

/// Utilisation of each component at the most pages a second.
fn utilisations(drawn: &Drawn) -> String {
    let last = |row: &Row| row.ends().map(|[_, last]| last);
    let rate = drawn.rows().iter().find_map(last).map_or(0.0, |last| last[0]);
    let each = drawn.rows().iter().filter_map(|row| {
        let [_, busy] = last(row)?;
        Some(format!("{} {} %", row.name, digits(busy)))
    });
    format!("At {rate:.2} pages a second: {}.", each.collect::<Vec<_>>().join(", "))
}

/// Times of both ways, and the stations with which one of them has none.
fn by_stations(drawn: &Drawn) -> String {
    let [decoupled, held] = [DECOUPLED, HELD].map(|name| drawn.row(name));
    let without = decoupled.points.iter().map(|point| point[0]);
    let without = without.filter(|x| held.points.iter().all(|point| point[0] != *x));
    let without: Vec<String> = without.map(|x| x.to_string()).collect();
    let without = match without.is_empty() {
        true => String::new(),
        false => format!(
            " Held until the page is stored, {} stations cannot take it at all.",
            without.join(", ")
        ),
    };
    format!(
        "At {:.2} pages a second, from the fewest stations to the most: {} s decoupled, {} s held.{without}",
        scanning::BUSY,
        from_to(decoupled),
        from_to(held)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: the caption named the weight of the lowest mean, though the intervals of its neighbours met its own.
    #[test]
    fn a_weight_is_the_lowest_only_if_no_other_interval_meets_its_own() {
        let told = |high: f64| {
            let dots = [(0.1, 3.0, 2.9, 3.1), (1.0, 2.0, 1.9, high), (10.0, 2.2, 2.15, 2.25)];
            let curves = Curves::new(Axis::log("K1 / K2", ""), Axis::linear("response", "s"))
                .series(Series::measured("EV", dots));
            let made = figure("A", curves, |drawn| lowest(&drawn.rows()[0]).unwrap());
            made.unwrap().caption().to_owned()
        };
        assert_eq!(told(2.1), "EV: 2.00 s at 1 (1.90 to 2.10 s), below all other intervals");
        let wanted =
            "EV: 2.00 s at 1 (1.90 to 2.20 s), and by their intervals perhaps as low at 10";
        assert_eq!(told(2.2), wanted);
    }
}
