//! Traces: the key of a class, and the lines of the file that it names.

use serde::{Deserialize, Serialize};
use workload::{Trace, TraceJob};

use super::{Scenario, ScenarioError};
use crate::units::Span;

/// The most jobs of a trace.
const JOBS_MAX: usize = 10_000_000;
/// The latest arrival \[s\], 10 years.
const TIME_MAX: f64 = 3.2e8;
/// The largest size \[bytes\].
const SIZE_MAX: f64 = 1e15;

/// A trace that a class replays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TraceEntry {
    /// The file: CSV with a line of names, `time_s` and, as far as there are, `class`, `size` \[bytes\]
    /// and `demand` \[s\].
    pub file: String,
    /// Time after which it begins anew; left out, it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
    /// The lines, once they have been read: class and job.
    #[serde(skip)]
    lines: Option<Vec<(Option<String>, TraceJob)>>,
}

impl TraceEntry {
    /// A trace in this file, not read yet.
    pub fn new(file: &str, period: Option<Span>) -> TraceEntry {
        TraceEntry { file: file.into(), period, lines: None }
    }

    /// The jobs of a class: those of its name, or all where the file names no classes.
    pub(super) fn trace(&self, class: &str) -> Result<Trace, String> {
        let Some(lines) = &self.lines else {
            return Err(format!("its trace `{}` has not been read", self.file));
        };
        let own = lines.iter().filter(|(name, _)| name.as_ref().is_none_or(|name| name == class));
        let jobs: Vec<TraceJob> = own.map(|(_, job)| *job).collect();
        if jobs.is_empty() {
            return Err(format!("its trace `{}` has no job of this class", self.file));
        }
        Trace::new(jobs, self.period.map(|Span(period)| period))
            .map_err(|error| format!("trace `{}`: {error}", self.file))
    }
}

impl Scenario {
    /// Reads the files of all traces by means of `read`, which is given their names; before
    /// [`network`](Scenario::network) where there are any.
    ///
    /// # Errors
    /// What `read` says, or the line that is no job, with what is wrong.
    pub fn read_traces(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), ScenarioError> {
        for class in &mut self.classes {
            let Some(trace) = &mut class.trace else { continue };
            let wrong = |cause: String| ScenarioError {
                place: format!("class `{}`, trace `{}`", class.name, trace.file),
                cause,
            };
            let text = read(&trace.file).map_err(wrong)?;
            trace.lines = Some(lines(&text).map_err(wrong)?);
        }
        Ok(())
    }
}

/// Indices of the columns.
struct Columns {
    time: usize,
    class: Option<usize>,
    size: Option<usize>,
    demand: Option<usize>,
    n: usize,
}

fn lines(text: &str) -> Result<Vec<(Option<String>, TraceJob)>, String> {
    let mut rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = rows.next() else {
        return Err("it is empty; its first line names the columns, `time_s` among them".into());
    };
    let columns = columns(head)?;
    let mut lines = Vec::new();
    for (at, row) in rows {
        if lines.len() == JOBS_MAX {
            return Err(format!("it has more than {JOBS_MAX} jobs; replay a part of it"));
        }
        lines.push(job(row, &columns).map_err(|cause| format!("line {}: {cause}", at + 1))?);
    }
    Ok(lines)
}

fn columns(head: &str) -> Result<Columns, String> {
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let known = ["time_s", "class", "size", "demand"];
    for (at, name) in names.iter().enumerate() {
        if !known.contains(name) {
            let way_out = match measure::nearest(name, known) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "there is `time_s`, `class`, `size`, `demand`".into(),
            };
            return Err(format!("line 1: no column is called `{name}`; {way_out}"));
        }
        if names[..at].contains(name) {
            return Err(format!("line 1: two columns are called `{name}`; remove one"));
        }
    }
    let find = |wanted: &str| names.iter().position(|name| *name == wanted);
    let Some(time) = find("time_s") else {
        return Err("line 1: no column is called `time_s`; it says when each job arrives".into());
    };
    let (class, size, demand) = (find("class"), find("size"), find("demand"));
    Ok(Columns { time, class, size, demand, n: names.len() })
}

fn job(row: &str, columns: &Columns) -> Result<(Option<String>, TraceJob), String> {
    let fields: Vec<&str> = row.split(',').map(str::trim).collect();
    if fields.len() != columns.n {
        return Err(format!("it has {} fields, not {}", fields.len(), columns.n));
    }
    let number = |at: usize, what: &str, max: f64| {
        let value: f64 = fields[at]
            .parse()
            .map_err(|_| format!("`{}` is no number; the column `{what}` needs one", fields[at]))?;
        if (0.0..=max).contains(&value) {
            Ok(value)
        } else {
            Err(format!("`{what}` is from 0 to {max:e}; it is {value}"))
        }
    };
    let job = TraceJob {
        at: number(columns.time, "time_s", TIME_MAX)?,
        size: columns.size.map(|at| number(at, "size", SIZE_MAX)).transpose()?,
        demand: columns.demand.map(|at| number(at, "demand", 1e6)).transpose()?,
    };
    Ok((columns.class.map(|at| fields[at].to_owned()), job))
}
