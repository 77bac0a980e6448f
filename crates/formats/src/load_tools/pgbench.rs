//! The output of pgbench.

use advise::{MeanFrom, Pace, Tool, ToolMean, ToolPart, ToolRun};

use super::scan::{Broken, Line, Section, blank, clients, count, number};

pub(super) fn starts(line: &str) -> bool {
    line.starts_with("pgbench (") || line.starts_with("transaction type:")
}

pub(super) fn read(section: &Section<'_>) -> Result<ToolRun, Broken> {
    let transactions = section.value("transaction type:", 0, "name", |_| Some(()));
    transactions?;
    let all = section.value("number of clients:", 0, "number of clients", clients)?;
    let processed = |word: &str| count(word.split('/').next().unwrap_or(""));
    let label = "number of transactions actually processed:";
    let completed = section.value(label, 0, "count", processed)?;
    let failed = section.maybe("number of failed transactions:", 0, "count", count)?.unwrap_or(0);
    let seconds = section.maybe("duration:", 0, "time in seconds", number)?;
    let average = section.need("latency average = ")?;
    let words = average.words("latency average = ");
    let ms = words.first().and_then(|word| number(word)).filter(|ms| *ms > 0.0);
    let ms = ms.ok_or_else(|| average.broken("time in milliseconds"))?;
    let (throughput, reconnects) = throughput(section)?;
    let scheduled = section.find("rate limit schedule lag:").is_some();
    // Only with -P, -R or -L are transactions timed one by one; their deviation then is printed too.
    let timed = section.find("latency stddev").is_some();
    let from = if timed || scheduled { MeanFrom::Requests } else { MeanFrom::Derived };
    let connecting = section.maybe("average connection time = ", 0, "time", number)?;
    let kind = section.need("transaction type:")?.text;
    let scale = section.find("scaling factor:").map_or("", |line| line.text);
    Ok(ToolRun {
        clients: Some(all),
        pace: if scheduled { Pace::Scheduled } else { Pace::AtOnce },
        throughput,
        response: Some(ToolMean { seconds: ms / 1e3, rounding: 0.5e-6, from }),
        completed,
        failed,
        seconds,
        connecting: connecting.filter(|_| reconnects).map(|ms| ms / 1e3),
        target: Some(format!("{}, {}", kind.trim(), scale.trim())),
        parts: parts(section)?,
        progress: progress(section)?,
        traps: traps(timed, reconnects, scheduled),
        ..blank(Tool::Pgbench)
    })
}

/// Transactions a second, and whether connecting is in every one of them. Before version 14 two
/// lines were printed, with and without the time of the first connections.
fn throughput(section: &Section<'_>) -> Result<(f64, bool), Broken> {
    let lines: Vec<&Line<'_>> =
        section.lines.iter().filter(|line| line.text.starts_with("tps = ")).collect();
    let wanted = ["without initial connection", "excluding connections", "including"];
    let best = wanted
        .iter()
        .find_map(|kind| lines.iter().find(|line| line.text.contains(kind)))
        .ok_or_else(|| section.at_end("the output ends without a line `tps = `".into()))?;
    let value = best.words("tps = ").first().and_then(|word| number(word));
    let value = value.ok_or_else(|| best.broken("rate"))?;
    Ok((value, best.text.contains("including reconnection")))
}

/// The statements of a run of one script; of several scripts each has its own.
fn parts(section: &Section<'_>) -> Result<Vec<ToolPart>, Broken> {
    if section.find("SQL script 1:").is_some() {
        return scripts(section);
    }
    let mut parts = Vec::new();
    let below = section.lines.iter().skip_while(|line| !is_statements(line));
    for line in below.skip(1).take_while(|line| line.text.starts_with(' ')) {
        let ms = line.text.split_whitespace().next().and_then(number);
        let ms = ms.ok_or_else(|| line.broken("time in milliseconds"))?;
        let name = name_of(line.text);
        // What pgbench computes itself is not the server's.
        if !name.is_empty() && !name.starts_with('\\') {
            parts.push(ToolPart { name, seconds: ms / 1e3 });
        }
    }
    Ok(parts)
}

fn is_statements(line: &Line<'_>) -> bool {
    line.text.trim_start().trim_start_matches("- ").starts_with("statement latencies in")
        || line.text.starts_with("statement latencies in")
}

/// The text of a statement after its numbers: its time, and since version 15 its failures.
fn name_of(text: &str) -> String {
    let rest = text.trim_start();
    let rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
    let rest = match rest.split_once(char::is_whitespace) {
        Some((failures, rest)) if count(failures).is_some() => rest.trim_start(),
        _ => rest,
    };
    rest.trim_end().to_owned()
}

/// The scripts of a mix with their mean times.
fn scripts(section: &Section<'_>) -> Result<Vec<ToolPart>, Broken> {
    let mut parts: Vec<ToolPart> = Vec::new();
    let mut name = None;
    for line in &section.lines {
        if let Some(rest) = line.text.strip_prefix("SQL script ") {
            name = rest.split_once(": ").map(|(_, name)| name.trim().to_owned());
        } else if let Some(rest) = line.text.trim_start().strip_prefix("- latency average = ") {
            let ms = rest.split_whitespace().next().and_then(number);
            let seconds = ms.ok_or_else(|| line.broken("time in milliseconds"))? / 1e3;
            parts.extend(name.take().map(|name| ToolPart { name, seconds }));
        }
    }
    Ok(parts)
}

fn progress(section: &Section<'_>) -> Result<Vec<f64>, Broken> {
    let lines = section.lines.iter().filter(|line| line.text.starts_with("progress: "));
    let of = |line: &Line<'_>| {
        let words = line.words("progress: ");
        let at = words.iter().position(|word| *word == "tps,");
        let value = at.and_then(|at| words.get(at.checked_sub(1)?)).and_then(|word| number(word));
        value.ok_or_else(|| line.broken("rate"))
    };
    lines.map(of).collect()
}

fn traps(timed: bool, reconnects: bool, scheduled: bool) -> Vec<String> {
    let mut traps = Vec::new();
    if !timed {
        traps.push(
            "without -P pgbench does not time transactions: its `latency average` is clients / tps; \
             add -P 5 to have it measured"
                .into(),
        );
    }
    if reconnects {
        traps.push("with -C every transaction connects anew, and tps includes that".into());
    }
    if scheduled {
        traps.push("with -R latency counts from the schedule, so it includes the lag".into());
    }
    traps
}
