//! Figures and tables of experiment 1, with captions made from what they show.

use board_bench::Mix;
use cli::Failure;
use cli::text::quantile;
use report::{Axis, Cell, Column, Curves, Figure, Section, Series, Table};

use crate::drawn::{self, from_to};

use super::experiment::{Experiment, Point, STORES};
use super::model::Model;

/// The sections of the report that show them.
pub(super) fn sections(experiment: &Experiment, models: &[Model]) -> Result<Vec<Section>, Failure> {
    let mut section = Section::new("Experiment 1: one server, so many clients at once").paragraph(
        "Every store serves the same board in the strict durability class: what is acknowledged is on the \
         disk. The paper's Jungle kept nothing on disk. Boards and clients share the processors of this \
         machine; the paper's clients had machines of their own.",
    );
    for mix in Mix::ALL {
        section = section.figure(time(experiment, mix)?);
    }
    let mut rates = Section::new("Rates, predicted and measured");
    for mix in Mix::ALL {
        let model = models.iter().find(|model| model.mix == mix);
        rates = rates.figure(rate(experiment, mix, model)?);
    }
    rates = rates.paragraph(chance(experiment.rounds()));
    Ok(vec![section, rates, Section::new("All points").table(table(experiment)?)])
}

/// The part of chance in what all rounds decide.
pub(super) fn chance(rounds: usize) -> String {
    format!(
        "A comparison of two stores is decided only by all {rounds} rounds of each. Of stores that are alike, chance \
         alone puts the first one ahead once in {} comparisons, with one number of clients.",
        board_bench::orders(rounds)
    )
}

fn of<'a>(
    experiment: &'a Experiment,
    store: &'static str,
    mix: Mix,
) -> impl Iterator<Item = &'a Point> {
    experiment.points.iter().filter(move |point| point.store == store && point.mix == mix)
}

/// The paper's metric: the time until all requests of a client are answered.
fn time(experiment: &Experiment, mix: Mix) -> Result<Figure, Failure> {
    let mut curves = Curves::new(
        Axis::linear("Clients", ""),
        Axis::linear("Time of all requests of a client", "s"),
    );
    for store in experiment.stores() {
        let dots = of(experiment, store, mix).map(|point| {
            let [mean, deviation] = point.times();
            (f64::from(point.clients), mean, mean - deviation, mean + deviation)
        });
        curves = curves.series(Series::measured(store, dots));
    }
    let cut = experiment.points.iter().filter(|point| point.mix == mix && point.was_cut()).count();
    let cut = match cut {
        0 => String::new(),
        cut => format!(" {cut} of the points were cut off, so that their clients had more to do."),
    };
    let title = format!("{}: time of all requests of a client", mix.word());
    drawn::figure(&title, curves, |drawn| {
        let ends = drawn.rows().iter().map(|row| format!("{} {} s", row.name, from_to(row)));
        format!(
            "Mean and standard deviation over clients, from the fewest clients to the most: {}.{cut}",
            ends.collect::<Vec<_>>().join(", ")
        )
    })
}

fn rate(experiment: &Experiment, mix: Mix, model: Option<&Model>) -> Result<Figure, Failure> {
    let mut curves =
        Curves::new(Axis::linear("Clients", ""), Axis::linear("Requests a second", "1/s"));
    for store in experiment.stores() {
        let dots = of(experiment, store, mix).map(|point| {
            let [slow, fast] = point.rates();
            (f64::from(point.clients), f64::midpoint(slow, fast), slow, fast)
        });
        curves = curves.series(Series::measured(store, dots));
    }
    let predicted = model.and_then(|model| model.predicted.as_ref().ok());
    if let Some(predicted) = predicted {
        let dots = experiment.clients().into_iter().map(|clients| {
            let [slow, fast] = experiment.rates_of_one(mix, clients);
            (f64::from(clients), f64::midpoint(slow, fast), slow, fast)
        });
        curves = curves.series(Series::measured(ONE, dots));
        let line = predicted.iter().map(|one| (f64::from(one.clients), one.rates[1]));
        curves = curves.series(Series::line(PREDICTED, line).hue(0));
    }
    let title = format!("{}: requests a second", mix.word());
    drawn::figure(&title, curves, |drawn| {
        let Some(predicted) = drawn.rows().iter().find(|row| row.name == PREDICTED) else {
            return format!(
                "Slowest and fastest round. {} Nothing is predicted: no scenario was fitted.",
                drawn.spread("clients", "1/s")
            );
        };
        let off = predicted.over(drawn.row(ONE)).map(|ratio| ratio - 1.0);
        let worst = off.fold(0.0_f64, |all, one| if one.abs() > all.abs() { one } else { all });
        format!(
            "Slowest and fastest round. The line is predicted for Jungle and as many connections of one program from \
             few connections, and off by at most {:+.0} %. The {} clients are programs with their beginnings: {}.",
            worst * 100.0,
            STORES[0],
            from_to(drawn.row(STORES[0]))
        )
    })
}

/// Name of the line of the model.
const PREDICTED: &str = "jungle, predicted";
/// Name of what it is held against.
const ONE: &str = "jungle, one program";

fn table(experiment: &Experiment) -> Result<Table, Failure> {
    let heads = [
        Column::plain("store"),
        Column::plain("mix"),
        Column::plain("clients"),
        Column::new("rate", "1/s"),
        Column::new("time of a client, mean", "s"),
        Column::new("deviation", "s"),
        Column::plain("p50"),
        Column::plain("p99"),
        Column::new("board and store a request", "us"),
        Column::new("load engine a request", "us"),
        Column::new("memory", "MB"),
        Column::new("idle", "%"),
        Column::plain("cut off"),
    ];
    let mut table = Table::new("Every store, mix and number of clients, mean of the rounds", heads);
    for point in &experiment.points {
        let [mean, deviation] = point.times();
        let idle = point.idle().map(|[least, most]| f64::midpoint(least, most));
        let cells = [
            point.store.to_owned(),
            point.mix.word().to_owned(),
            point.clients.to_string(),
            format!("{:.0}", point.mean(board_bench::Pressed::rate)),
            format!("{mean:.3}"),
            format!("{deviation:.3}"),
            quantile(point.quantile(0.5)),
            quantile(point.quantile(0.99)),
            format!("{:.1}", point.mean(|round| round.server_cpu_s) * 1e6),
            format!("{:.1}", point.mean(|round| round.generator_cpu_s) * 1e6),
            point
                .memory()
                .map_or("-".into(), |memory| format!("{:.0}", memory.resident as f64 / 1e6)),
            idle.map_or("-".into(), |idle| format!("{:.0}", idle * 100.0)),
            if point.was_cut() { "yes" } else { "no" }.to_owned(),
        ];
        table = table.row(cells.map(Cell::from)).map_err(Failure::defect)?;
    }
    Ok(table)
}
