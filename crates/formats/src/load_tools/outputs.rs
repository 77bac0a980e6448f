//! Recognition of each tool's output, and of where one ends and the next begins.

use advise::{Tool, ToolRun};
use serde_json::Value;

use super::scan::{Broken, Line, Section};
use super::{ab, h2load, hey, json, pgbench, vegeta, wrk};

/// Beginning of a tool's output, and its reader.
struct Format {
    starts: fn(&str) -> bool,
    /// The line that every output of it has once; a second one begins another run.
    head: &'static str,
    read: fn(&Section<'_>) -> Result<ToolRun, Broken>,
}

const FORMATS: [Format; 7] = [
    Format { starts: wrk::starts, head: "Running ", read: wrk::read },
    Format { starts: ab::starts, head: "Server Software:", read: ab::read },
    Format { starts: hey::starts, head: "Summary:", read: hey::read },
    Format { starts: h2load::starts, head: "spawning thread #0:", read: h2load::read },
    Format { starts: vegeta::starts, head: "Requests ", read: vegeta::read },
    Format { starts: pgbench::starts, head: "transaction type:", read: pgbench::read },
    Format { starts: starts_weighttp, head: "weighttp ", read: no_json },
];

fn starts_weighttp(line: &str) -> bool {
    line.starts_with("weighttp ") && line.contains("webserver benchmarking tool")
}

fn no_json(section: &Section<'_>) -> Result<ToolRun, Broken> {
    Err(section.at_end(
        "this output of weighttp has no JSON: versions from 0.5 print it, and older ones tell no \
         response times"
            .into(),
    ))
}

/// The tools that are known, for a message.
pub fn known() -> String {
    let names: Vec<String> = Tool::ALL.iter().map(Tool::to_string).collect();
    format!("{} (oha and vegeta also as JSON)", names.join(", "))
}

/// One output that was found.
struct Found<'a> {
    format: Option<usize>,
    section: Section<'a>,
    value: Option<Value>,
}

/// The runs of a text, in its order.
///
/// # Errors
/// If an output is damaged, or contradicts itself.
pub fn runs_of(text: &str) -> Result<Vec<ToolRun>, Broken> {
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut command: Option<&str> = None;
    let mut read_to = 0;
    for (at, line) in lines(text) {
        if at < read_to {
            continue;
        }
        if let Some(format) = begins(found.last(), line.text) {
            let section = Section { lines: vec![line], command: command.take() };
            found.push(Found { format: Some(format), section, value: None });
            continue;
        }
        if line.text.trim_start().starts_with('{') {
            let (value, length) = object(&text[at..], line)?;
            read_to = at + length;
            let last = found.last_mut().filter(|last| {
                last.format.is_some_and(|format| FORMATS[format].head == "weighttp ")
            });
            match last {
                Some(last) if last.value.is_none() => last.value = Some(value),
                _ => {
                    let section = Section { lines: vec![line], command: command.take() };
                    found.push(Found { format: None, section, value: Some(value) });
                }
            }
            continue;
        }
        if is_command(line.text) {
            command = Some(line.text);
        }
        if let Some(last) = found.last_mut() {
            last.section.lines.push(line);
        }
    }
    found.iter().map(run_of).collect()
}

fn run_of(found: &Found<'_>) -> Result<ToolRun, Broken> {
    let run = match (&found.value, found.format) {
        (Some(value), _) => json::read(value, &found.section)?,
        (None, Some(format)) => (FORMATS[format].read)(&found.section)?,
        (None, None) => return Err(found.section.at_end("there is nothing in it".into())),
    };
    sane(&run).map_err(|cause| Broken {
        line: found.section.lines.first().map_or(1, |line| line.number),
        cause: format!("this output of {} contradicts itself: {cause}", run.tool),
    })?;
    Ok(run)
}

/// Lines with the place where they begin in the text.
fn lines(text: &str) -> impl Iterator<Item = (usize, Line<'_>)> {
    let mut at = 0;
    text.split_inclusive('\n').enumerate().map(move |(nth, whole)| {
        let begins = at;
        at += whole.len();
        // A progress bar writes over its line.
        let text = whole.trim_end_matches(['\n', '\r']);
        let text = text.rsplit('\r').next().unwrap_or(text);
        (begins, Line { number: nth + 1, text })
    })
}

/// The format that begins with this line, unless it goes on with the one before.
fn begins(last: Option<&Found<'_>>, line: &str) -> Option<usize> {
    let format = FORMATS.iter().position(|format| (format.starts)(line))?;
    let same = last.filter(|last| last.format == Some(format));
    let has_head = |found: &Found<'_>| {
        found.section.lines.iter().any(|line| line.text.starts_with(FORMATS[format].head))
    };
    let goes_on =
        same.is_some_and(|last| line.starts_with(FORMATS[format].head) && !has_head(last));
    (!goes_on).then_some(format)
}

/// A line that looks like the call of a tool.
fn is_command(line: &str) -> bool {
    let line = line.trim_start_matches(['$', '#', '>', '%', ' ']);
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or("");
    let name = name.rsplit('/').next().unwrap_or(name);
    Tool::ALL.iter().any(|tool| tool.to_string() == name) && words.any(|word| word.starts_with('-'))
}

fn object(text: &str, line: Line<'_>) -> Result<(Value, usize), Broken> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match stream.next() {
        Some(Ok(value)) if json::is_known(&value) => Ok((value, stream.byte_offset())),
        Some(Ok(_)) => {
            let cause = format!("this JSON is of no tool that is known; known are {}", known());
            Err(Broken { line: line.number, cause })
        }
        Some(Err(error)) => {
            let number = line.number + error.line().saturating_sub(1);
            Err(Broken { line: number, cause: format!("this JSON is broken: {error}") })
        }
        None => Err(Broken { line: line.number, cause: "there is no JSON".into() }),
    }
}

/// Numbers that cannot all be true are of a damaged paste, or of a version that is not known.
fn sane(run: &ToolRun) -> Result<(), String> {
    let x = run.throughput;
    if !(x.is_finite() && x > 0.0) {
        return Err("nothing was answered (a throughput of 0)".into());
    }
    if let (Some(seconds), completed @ 1..) = (run.seconds, run.completed) {
        let (least, most) =
            (completed.saturating_sub(run.failed) as f64, (completed + run.failed) as f64);
        let off = 1.1 + 2.0 / completed as f64;
        if !(x * seconds * off >= least && x * seconds <= most * off) {
            return Err(format!("{completed} requests in {seconds} s are not {x} a second"));
        }
    }
    let Some(mean) = run.response else { return Ok(()) };
    if !(mean.seconds.is_finite() && mean.seconds > 0.0) {
        return Err("the mean response is no time above 0".into());
    }
    if run.fastest.is_some_and(|fastest| fastest > mean.seconds + 2.0 * mean.rounding) {
        return Err("the fastest response takes longer than the mean".into());
    }
    if !run.quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1) {
        return Err("its percentiles do not rise".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
