//! Printing of an explanation.

use advise::{
    Explanation, Knee, Little, LittleCheck, NextLoad, NextRun, Pace, Side, Span, Tool, ToolRun,
};
use cli::Verdict;
use cli::json::Answer;
use cli::text::{Table, count, next, paragraph, percent, rate, sentence, time};
use schemars::JsonSchema;
use serde::Serialize;

/// Output of other load tools, explained.
#[derive(Serialize, JsonSchema)]
pub struct Explained<'a> {
    /// The runs that were read.
    runs: &'a [ToolRun],
    /// Check of each run by Little's law.
    little: &'a [LittleCheck],
    knee: &'a Knee,
    /// Load of the run that would tell most.
    next: &'a NextRun,
    /// The command of that run.
    command: String,
    /// Parts of the explanation, in their order.
    parts: &'a [String],
}

impl Answer for Explained<'_> {
    const FORMAT: &'static str = "sekisho/explain/1";
}

pub(super) fn json(verdict: Verdict, runs: &[ToolRun], explanation: &Explanation) -> String {
    let answer = Explained {
        runs,
        little: &explanation.little,
        knee: &explanation.knee,
        next: &explanation.next,
        command: command(runs, explanation),
        parts: &explanation.parts,
    };
    cli::json::answer(verdict, verdict.word(), &answer)
}

pub(super) fn text(verdict: Verdict, runs: &[ToolRun], explanation: &Explanation) -> String {
    let mut text = sentence(&format!("{}: {}", verdict.word(), little_line(explanation, runs)));
    text += &sentence(&format!("knee: {}", knee_line(&explanation.knee)));
    text += &sentence(&format!("next run: {}", next_line(explanation)));
    text += &format!("\n{}\n", table(runs, &explanation.little));
    for (at, check) in explanation.little.iter().enumerate() {
        for why in &check.why {
            text += &paragraph(&format!("run {}: {why}.", at + 1));
        }
    }
    for why in explanation.knee.why.iter().chain(&explanation.parts) {
        text += &paragraph(&format!("{why}."));
    }
    let mut traps: Vec<&String> = Vec::new();
    for trap in runs.iter().flat_map(|run| &run.traps) {
        if !traps.contains(&trap) {
            traps.push(trap);
            text += &paragraph(&format!("take care: {trap}."));
        }
    }
    format!("{text}\n{}", next(&command(runs, explanation)))
}

/// `495 /s x 32.2 ms = 15.9 of 16`: the worst run, in numbers.
fn little_line(explanation: &Explanation, runs: &[ToolRun]) -> String {
    let checks = &explanation.little;
    let rank = |check: &LittleCheck| match check.little {
        _ if check.is_failing() => 5,
        Little::Broken => 4,
        Little::Unknown => 3,
        Little::Outstanding => 2,
        Little::ByConstruction => 1,
        Little::Closes => 0,
    };
    let Some((at, worst)) =
        checks.iter().enumerate().max_by_key(|(at, check)| (rank(check), std::cmp::Reverse(*at)))
    else {
        return String::new();
    };
    let which = if checks.len() > 1 { format!("run {}: ", at + 1) } else { String::new() };
    let numbers = match (runs[at].response, worst.found) {
        (Some(mean), Some(found)) => {
            let of = worst.clients.map_or(String::new(), |clients| format!(" of {clients}"));
            format!("{} x {} = {found:.2}{of}", rate(runs[at].throughput), time(mean.seconds))
        }
        _ => rate(runs[at].throughput),
    };
    if worst.is_failing() {
        return format!("{which}{:.1} % of the requests failed", 100.0 * worst.failed);
    }
    let all = if checks.len() > 1 { " in every run" } else { "" };
    match worst.little {
        Little::Closes => format!("Little's law closes{all}: {which}X (R + Z) = {numbers}"),
        Little::ByConstruction => format!(
            "{which}Little's law closes because the tool computed its mean from it: {numbers}"
        ),
        Little::Unknown => format!("{which}Little's law cannot be checked: {numbers}"),
        Little::Outstanding => format!(
            "{which}no closed load: {:.2} requests were due or under way",
            worst.found.unwrap_or(0.0)
        ),
        Little::Broken => format!(
            "{which}Little's law does not close: {numbers} ({})",
            worst.apart().map_or("-".into(), percent)
        ),
    }
}

fn knee_line(knee: &Knee) -> String {
    let side = match knee.side {
        Side::Before => "before it",
        Side::At => "about at it",
        Side::Past => "past it",
        Side::Unknown => "one run cannot tell",
    };
    let side = match (knee.side, knee.why.first()) {
        (Side::Unknown, Some(why)) if !why.starts_with("one load") => "these runs cannot tell",
        _ => side,
    };
    let at = match knee.clients {
        Some([low, high]) if format!("{low:.1}") == format!("{high:.1}") => {
            format!("; N* = {low:.1} clients")
        }
        Some([low, high]) => format!("; N* = {low:.1} to {high:.1} clients"),
        None => String::new(),
    };
    let peak = knee.peak.map_or(String::new(), |n| format!("; throughput falls beyond {n:.0}"));
    format!("{side}{at}{peak}")
}

fn next_line(explanation: &Explanation) -> String {
    let run = &explanation.next;
    let load = match run.load {
        NextLoad::Clients(1) => "1 client".to_owned(),
        NextLoad::Clients(clients) => count(clients.into(), "client"),
        NextLoad::Rate(of) => format!("an open load of {}", rate(of)),
    };
    format!("{load} for {:.0} s: {}", run.seconds, run.why)
}

fn table(runs: &[ToolRun], little: &[LittleCheck]) -> Table {
    let head = ["run", "tool", "N", "X", "R", "p50", "p99", "X (R+Z)", "apart", "failed"];
    let mut table = Table::new(&head);
    for (at, (run, check)) in runs.iter().zip(little).enumerate() {
        let quantile = |q: f64| {
            let found = run.quantiles.iter().find(|(share, _)| (share - q).abs() < 1e-9);
            found.map_or("-".into(), |(_, seconds)| time(*seconds))
        };
        table.row(vec![
            (at + 1).to_string(),
            run.tool.to_string(),
            match (check.clients, run.pace) {
                (Some(clients), _) => clients.to_string(),
                (None, Pace::Open) => "open".into(),
                (None, _) => "?".into(),
            },
            throughput(run),
            run.response.map_or("-".into(), |mean| time(mean.seconds)),
            quantile(0.5),
            quantile(0.99),
            check.found.map_or("-".into(), |found| format!("{found:.2}")),
            check.apart().map_or("-".into(), percent),
            run.failed.to_string(),
        ]);
    }
    table
}

/// The throughput, with its interval where the tool told its progress.
fn throughput(run: &ToolRun) -> String {
    if run.progress.len() < 3 {
        return rate(run.throughput);
    }
    let estimate = measure::Estimate::from_series(&run.progress, 0.95);
    cli::text::rate_estimate(&measure::Estimate { mean: run.throughput, ..estimate })
}

/// The next run as a command of the same tool.
fn command(runs: &[ToolRun], explanation: &Explanation) -> String {
    let Some(run) = runs.last() else { return String::new() };
    let seconds = explanation.next.seconds;
    let url = match &run.target {
        Some(target) if run.tool != Tool::Pgbench => format!("http://{target}"),
        _ => "http://HOST:PORT/".into(),
    };
    match explanation.next.load {
        NextLoad::Clients(n) => match run.tool {
            Tool::Wrk => format!("wrk -t{} -c{n} -d{seconds}s --latency {url}", n.min(2)),
            Tool::Ab => format!("ab -k -c {n} -n 1000000 -t {seconds} {url}"),
            Tool::Hey => format!("hey -c {n} -z {seconds}s {url}"),
            Tool::Oha => format!("oha --no-tui -c {n} -z {seconds}s {url}"),
            Tool::H2load => format!("h2load -t1 -c{n} -D{seconds} {url}"),
            Tool::Weighttp => {
                let requests = (run.throughput * seconds).ceil();
                format!("weighttp -k -t {} -c {n} -n {requests} {url}", n.min(2))
            }
            Tool::Pgbench => format!("pgbench -c {n} -j {} -T {seconds} -P 5 -r", n.min(2)),
            Tool::Wrk2 | Tool::Vegeta => {
                format!("sekisho measure http {url} --clients {n} --duration {seconds}s")
            }
        },
        NextLoad::Rate(of) => {
            let of = of.round().max(1.0);
            match run.tool {
                Tool::Vegeta => {
                    format!("echo 'GET {url}' | vegeta attack -rate {of} -duration {seconds}s")
                }
                Tool::Wrk2 => format!("wrk -t2 -c64 -d{seconds}s -R{of} --latency {url}"),
                Tool::Pgbench => format!("pgbench -c 32 -j 2 -R {of} -T {seconds} -P 5"),
                _ => {
                    let length = Span(seconds);
                    format!("sekisho measure http {url} --rate {of}/s --duration {length}")
                }
            }
        }
    }
}
