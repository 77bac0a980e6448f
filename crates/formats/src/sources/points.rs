//! A table of clients, throughput and response.

use std::path::Path;

use advise::LoadPoint;

use super::csv::{column, records};
use super::{number, shown, text_of, unit_s, wrong};
use crate::ReadError;

const CLIENTS: [&str; 6] = ["clients", "concurrency", "connections", "users", "threads", "n"];
const THROUGHPUT: [&str; 8] =
    ["throughput", "rps", "tps", "qps", "requests/s", "requests_per_s", "throughput_per_s", "x"];
const RESPONSE: [&str; 5] = ["latency", "response", "response_time", "mean", "r"];

/// Reads the points of a table.
///
/// # Errors
/// If a file cannot be read, or a line of it: its place and the cause.
pub fn read_points(path: &Path) -> Result<Vec<LoadPoint>, ReadError> {
    let text = text_of(path)?;
    let records = records(path, &text)?;
    let Some((header, rows)) = records.split_first() else {
        return Err(wrong(path, 1, "the table is empty; wanted are clients,throughput,latency_ms"));
    };
    let need = |names: &[&str]| {
        column(header, names).ok_or_else(|| {
            wrong(path, header.line, format!("no column is called {}", names.join(" or ")))
        })
    };
    let (clients, throughput) = (need(&CLIENTS)?, need(&THROUGHPUT)?);
    let response = response(path, header)?;
    let mut points = Vec::new();
    for row in rows {
        let read = |at: usize, least: f64| {
            let text = &row.fields[at];
            number(text).filter(|value| *value >= least && *value > 0.0).ok_or_else(|| {
                let name = header.fields[at].trim();
                wrong(path, row.line, format!("`{}` is no {name} above 0", shown(text)))
            })
        };
        points.push(LoadPoint {
            line: row.line,
            clients: read(clients, 1.0)?,
            throughput: read(throughput, 0.0)?,
            response: match response {
                Some((at, unit)) => Some(read(at, 0.0)? * unit),
                None => None,
            },
        });
    }
    Ok(points)
}

/// The column of the response, and what its unit is in seconds.
fn response(path: &Path, header: &super::csv::Record) -> Result<Option<(usize, f64)>, ReadError> {
    for (at, field) in header.fields.iter().enumerate() {
        let field = field.trim().to_lowercase();
        if RESPONSE.contains(&field.as_str()) {
            let cause =
                format!("`{field}` has no unit; call the column `{field}_ms` or `{field}_s`");
            return Err(wrong(path, header.line, cause));
        }
        if let Some((name, unit)) = field.rsplit_once('_')
            && RESPONSE.contains(&name)
            && let Some(unit) = unit_s(unit)
        {
            return Ok(Some((at, unit)));
        }
    }
    Ok(None)
}
