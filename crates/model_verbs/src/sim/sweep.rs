//! Many simulations of one scenario that differ in parameters, several at a time.

use std::io::Write;
use std::sync::Arc;

use advise::Scenario;
use cli::text::{
    Table, count, label, next, option, paragraph, rate_estimate, sentence, shell_word,
};
use cli::{Failure, Verdict, progress, say};
use sim::{Network, Options, Outcome, Plan, SimError, Stop};

use super::answer::{self, Files, Found, Sweep};
use super::numbers::Numbers;
use super::{Args, plan_word, quantile, quantile_or_dash, time_or_dash};

/// A parameter and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    path: String,
    values: Arc<[String]>,
}

/// More simulations than this are surely a mistake.
const POINTS_MAX: usize = 10_000;

impl Axis {
    /// From `path=values`: `1..10`, `1..10/3` (in steps of 3), `10ms,20ms`.
    pub(super) fn parse(text: &str) -> Result<Axis, String> {
        let Some((path, values)) = text.split_once('=') else {
            return Err("it has no `=`; wanted is such as 'gate.pool.slots=1..10'".into());
        };
        let mut all = Vec::new();
        for value in values.split(',').map(str::trim) {
            match range(value)? {
                Some(range) => all.extend(range),
                None if value.is_empty() => {
                    return Err(
                        "a value is missing; wanted is such as '1..10' or '5ms,10ms'".into()
                    );
                }
                None => all.push(value.to_owned()),
            }
            if all.len() > POINTS_MAX {
                return Err(format!("it has more than {POINTS_MAX} values"));
            }
        }
        Ok(Axis { path: path.trim().to_owned(), values: all.into() })
    }
}

/// The values of `1..10` or `1..10/3`; none if it is a single value.
fn range(text: &str) -> Result<Option<Vec<String>>, String> {
    let Some((from, rest)) = text.split_once("..") else { return Ok(None) };
    let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (Some(from), Some(to), Some(step @ 1..)) = (number(from), number(to), number(step)) else {
        return Err(format!(
            "`{text}` is no range of whole numbers such as 1..10 or 1..10/3; list other values: 5ms,10ms"
        ));
    };
    if from > to {
        return Err(format!("`{text}` goes down; say {to}..{from}"));
    }
    if (to - from) / step >= POINTS_MAX as u64 {
        return Err(format!("`{text}` has more than {POINTS_MAX} values"));
    }
    Ok(Some((from..=to).step_by(step as usize).map(|value| value.to_string()).collect()))
}

/// One simulation of a sweep.
struct Point {
    /// The values of the parameters.
    values: Vec<String>,
    result: Result<Outcome, SimError>,
}

pub(super) fn run(
    args: &Args,
    scenario: &Scenario,
    options: &Options,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let (all, networks) = points(args, scenario)?;
    let bar = progress(networks.len() as u64, "simulating");
    let results = sim::sweep(&networks, options, || bar.inc(1));
    bar.finish_and_clear();
    let pairs = all.into_iter().zip(results);
    let points: Vec<Point> = pairs.map(|(values, result)| Point { values, result }).collect();
    // A load without a steady state is an answer; whatever else fails is a mistake in what was asked.
    for point in &points {
        if let Err(error) = &point.result
            && error.overloaded().is_none()
        {
            let place = place(&args.sweep, &point.values);
            return Err(Failure::Usage(format!("{}: {place}: {error}", args.scenario.display())));
        }
    }
    let mut numbers = Numbers::new(args.sweep.iter().map(|axis| axis.path.clone()).collect());
    for point in &points {
        if let Ok(outcome) = &point.result {
            numbers.add(&point.values, outcome);
        }
    }
    args.write(&numbers)?;
    let imprecise =
        |point: &Point| point.result.as_ref().is_ok_and(|outcome| outcome.stop == Stop::Budget);
    let verdict = match points.iter().any(imprecise) {
        true => Verdict::Inconclusive,
        false => Verdict::Holds,
    };
    if args.json {
        let answer = answer(scenario, args, options, &points);
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
    } else {
        say(out, &text(args, options, &points))?;
    }
    Ok(verdict)
}

/// Every combination of values, the last parameter changing fastest, and its network.
fn points(args: &Args, scenario: &Scenario) -> Result<(Vec<Vec<String>>, Vec<Network>), Failure> {
    let failed = |error: String| Failure::Usage(format!("{}: {error}", args.scenario.display()));
    let all: usize = args.sweep.iter().fold(1, |all, axis| all.saturating_mul(axis.values.len()));
    if all > POINTS_MAX {
        return Err(failed(format!(
            "the sweep has {all} points, more than {POINTS_MAX}; take fewer values"
        )));
    }
    let mut points: Vec<(Vec<String>, Scenario)> = vec![(Vec::new(), scenario.clone())];
    for axis in &args.sweep {
        let mut finer = Vec::with_capacity(points.len() * axis.values.len());
        for (values, scenario) in &points {
            for value in axis.values.iter() {
                let changed = scenario.with_parameter(&axis.path, value);
                let changed = changed.map_err(|error| failed(error.to_string()))?;
                finer.push(([values.as_slice(), std::slice::from_ref(value)].concat(), changed));
            }
        }
        points = finer;
    }
    let mut networks = Vec::with_capacity(points.len());
    for (_, scenario) in &points {
        networks.push(scenario.network().map_err(|error| failed(error.to_string()))?);
    }
    Ok((points.into_iter().map(|(values, _)| values).collect(), networks))
}

/// `gate.pool.slots = 4, ...`.
fn place(axes: &[Axis], values: &[String]) -> String {
    let pairs = axes.iter().zip(values).map(|(axis, value)| format!("{} = {value}", axis.path));
    pairs.collect::<Vec<_>>().join(", ")
}

fn text(args: &Args, options: &Options, points: &[Point]) -> String {
    let spent = points
        .iter()
        .filter(|point| point.result.as_ref().is_ok_and(|outcome| outcome.stop == Stop::Budget));
    let (spent, grow) = (spent.count(), points.iter().filter(|p| p.result.is_err()).count());
    let head = if spent > 0 { "inconclusive, not precise" } else { "simulated" };
    let mut text = format!("{head}: {}", count(points.len() as u64, "point"));
    if spent > 0 {
        text += &format!(", {spent} with wider intervals than asked for");
    }
    let settled = |point: &&Point| point.result.as_ref().is_ok_and(|o| o.unsettled.is_none());
    let on_its_way = points.len() - grow - points.iter().filter(settled).count();
    if on_its_way > 0 {
        text += &format!(", {on_its_way} not in a steady state");
    }
    if grow > 0 {
        text += &format!(", {grow} without a steady state");
    }
    let mut text = sentence(&text) + "\n";
    let classes =
        points.iter().find_map(|point| point.result.as_ref().ok()).map_or(Vec::new(), |outcome| {
            outcome.classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>()
        });
    for (at, class) in classes.iter().enumerate() {
        if classes.len() > 1 {
            text += &paragraph(&format!("class {}", label(class)));
        }
        text += &table(args, points, at).to_string();
        text.push('\n');
    }
    if classes.is_empty() {
        text += &paragraph("Nowhere is there a steady state: jobs pile up without end.");
    }
    for point in points {
        let Ok(Outcome { unsettled: Some(why), .. }) = &point.result else { continue };
        text += &paragraph(&format!(
            "{}: no steady state was reached: {why}.",
            point.values.join(" / ")
        ));
    }
    let paths: Vec<&str> = args.sweep.iter().map(|axis| axis.path.as_str()).collect();
    text += &paragraph(&format!(
        "The points are the values of {}. All run under the same chance: {}, seed {}, \
         95 % intervals.",
        paths.join(" / "),
        match options.plan {
            Plan::Replications(n) => format!("{n} replications"),
            Plan::OneRun => "one run in batches".to_owned(),
        },
        options.seed
    ));
    let seed = args.seed.map_or(String::new(), |seed| option("seed", &seed.to_string()));
    let path = shell_word(&args.scenario);
    text + "\n" + &next(&format!("sekisho ask sensitivity {path}{seed}"))
}

fn table(args: &Args, points: &[Point], class: usize) -> Table {
    let last = |axis: &Axis| axis.path.rsplit('.').next().unwrap_or_default().to_owned();
    let names: Vec<String> = args.sweep.iter().map(last).collect();
    let corner = names.join(" / ");
    let mut table = Table::new(&[&corner, "throughput", "mean response", "p99"]);
    for point in points {
        let values = point.values.join(" / ");
        table.row(match &point.result {
            Ok(outcome) => {
                let class = &outcome.classes[class];
                vec![
                    values,
                    rate_estimate(&class.throughput),
                    time_or_dash(class.response.as_ref()),
                    quantile_or_dash(quantile(&class.quantiles, 0.99)),
                ]
            }
            Err(_) => vec![values, "grows".into(), "-".into(), "-".into()],
        });
    }
    table
}

fn answer<'a>(
    scenario: &'a Scenario,
    args: &'a Args,
    options: &Options,
    points: &'a [Point],
) -> Sweep<'a> {
    let point = |point: &'a Point| {
        let paths = args.sweep.iter().map(|axis| axis.path.as_str());
        answer::Point {
            parameters: paths.zip(point.values.iter().map(String::as_str)).collect(),
            found: match &point.result {
                Ok(outcome) => outcome.into(),
                Err(error) => Found::Grows { grows: error.to_string() },
            },
        }
    };
    let Files { csv, parquet } = args.files();
    Sweep {
        scenario,
        seed: options.seed,
        plan: plan_word(options.plan),
        replications: options.plan.runs(),
        precision: options.precision,
        points: points.iter().map(point).collect(),
        csv,
        parquet,
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).expect("it is an axis").values.to_vec()
    }

    #[test]
    fn values_are_listed_or_ranges() {
        assert_eq!(values("gate.pool.slots=1..3"), ["1", "2", "3"]);
        assert_eq!(values("gate.pool.slots=1..9/4, 20"), ["1", "5", "9", "20"]);
        assert_eq!(values("station.cpu.demand=5ms,0.5s"), ["5ms", "0.5s"]);
        assert_eq!(Axis::parse("gate.pool.slots = 1").expect("it is").path, "gate.pool.slots");
    }

    #[test]
    fn what_is_no_axis_says_what_is_wrong() {
        for (text, cause) in [
            ("gate.pool.slots", "no `=`"),
            ("gate.pool.slots=1,,2", "a value is missing"),
            ("gate.pool.slots=3..1", "say 1..3"),
            ("gate.pool.slots=1..9/0", "no range of whole numbers"),
            ("station.cpu.demand=1ms..3ms", "list other values"),
            ("gate.pool.slots=1..99999999", "more than 10000"),
        ] {
            let error = Axis::parse(text).expect_err(text);
            assert!(error.contains(cause), "{text}: {error}");
        }
    }
}
