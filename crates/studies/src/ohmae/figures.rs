//! The paper's tables and figures, drawn again: printed values, formulas and simulated dots.

use cli::Failure;
use gate::Window;
use measure::Estimate;
use report::{Axis, Cell, Column, Curves, Figure, Section, Series, Table};

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

fn figure(title: &str, caption: &str, curves: Curves) -> Result<Figure, Failure> {
    Figure::new(title, caption, curves).map_err(Failure::defect)
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
        .figure(figure(
            "Table 3.1: response time by tasks",
            "Past six tasks the bottleneck is no longer software.",
            more,
        )?)
        .figure(figure(
            "Table 3.2: one task, faster servers",
            "At a quarter of the service time one task does what six do at today's servers.",
            faster,
        )?)
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
    let figures = [
        figure(
            "Figure 4.3: response time, a queue for each server",
            "EV (4) is best or as good as the best; the shortest queue (2) helps under load, the \
             lowest utilisation (3) at light load.",
            by_clients(runs, with_queues, Of::Response),
        )?,
        figure(
            "Figure 4.4: throughput, a queue for each server",
            "With 10 s of thinking between requests throughput differs less than response time.",
            by_clients(runs, with_queues, Of::Throughput),
        )?,
        figure(
            "Figure 4.5: response time, one shared queue",
            "One queue (5) beats every policy with a queue for each server.",
            by_clients(runs, &[balance::EV, Policy::OneQueue], Of::Response),
        )?,
        figure(
            "Figure 4.6: throughput, one shared queue",
            "The same for throughput.",
            by_clients(runs, &[balance::EV, Policy::OneQueue], Of::Throughput),
        )?,
        figure(
            "What the paper leaves out: other readings of (2), (3) and (4)",
            "If the request in service counts towards the length, the plain shortest queue is better \
             than EV; with utilisation since the start, (3) is hardly better than round robin.",
            by_clients(runs, &other_readings, Of::Response),
        )?,
        figure("EV by its weights", "30 clients; equal weights stand at 1.", weights(runs))?,
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

fn by_clients(runs: &balance::Runs, policies: &[Policy], of: Of) -> Curves {
    let y = match of {
        Of::Response => Axis::linear("Mean response time", "s"),
        Of::Throughput => Axis::linear("Throughput", "/s"),
    };
    let mut curves = Curves::new(Axis::linear("Clients", ""), y);
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
    curves
}

fn weights(runs: &balance::Runs) -> Curves {
    let windows = [("last 10 s", balance::recent()), ("since start", Window::SinceStart)];
    let mut curves = Curves::new(Axis::log("K1 / K2", ""), Axis::linear("Mean response time", "s"));
    for (name, window) in windows {
        let dots = runs.by_weight(window).into_iter().map(|(k, response)| dot(k, response));
        curves = curves.series(Series::measured(name, dots));
    }
    curves
}

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
                "simulated, decoupled",
                simulated.map(|(count, response)| dot(f64::from(*count), *response)),
            ))
            .series(Series::measured("simulated, station held until stored", held));
    Ok(Section::new("Nested servers: section 5 of the paper")
        .figure(figure(
            "Figure 5.2: utilisation by component",
            "The four stations are full long before LAN and scan server.",
            busy,
        )?)
        .figure(figure(
            "Figure 5.3: response time by stations",
            "At 0.72 pages a second. Four stations that are held until the page is stored cannot take \
             it at all.",
            stations,
        )?))
}
