//! `pg_stat_statements` as CSV: one snapshot, or two of which the difference counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use advise::Statement;

use super::csv::{column, records};
use super::{number, shown, text_of, wrong};
use crate::ReadError;

/// Reads the statements of one snapshot, or what happened between two.
///
/// # Errors
/// If a file cannot be read, or a line of it: its place and the cause.
pub fn read_statements(paths: &[PathBuf]) -> Result<Vec<Statement>, ReadError> {
    match paths {
        [one] => Ok(snapshot(one)?.into_values().collect()),
        [before, after] => difference(&snapshot(before)?, snapshot(after)?, after),
        _ => Err(ReadError::whole(format!(
            "{} files of statements are given; give one snapshot, or the one before and the one after",
            paths.len()
        ))),
    }
}

fn snapshot(path: &Path) -> Result<BTreeMap<String, Statement>, ReadError> {
    let text = text_of(path)?;
    let records = records(path, &text)?;
    let Some((header, rows)) = records.split_first() else {
        return Err(wrong(path, 1, "the table is empty; wanted are query,calls,total_exec_time"));
    };
    let need = |names: &[&str]| {
        column(header, names).ok_or_else(|| {
            wrong(path, header.line, format!("no column is called {}", names.join(" or ")))
        })
    };
    let key = column(header, &["queryid"]);
    let name = column(header, &["query"]).or(key);
    let name = name.ok_or_else(|| wrong(path, header.line, "no column is called query"))?;
    let calls = need(&["calls"])?;
    // Before version 13 there was one time, without planning.
    let time = need(&["total_exec_time", "total_time"])?;
    let deviation = column(header, &["stddev_exec_time", "stddev_time"]);
    let mut found: BTreeMap<String, Statement> = BTreeMap::new();
    for row in rows {
        let bad = |at: usize| {
            let (text, of) = (shown(&row.fields[at]), header.fields[at].trim());
            wrong(path, row.line, format!("`{text}` is no {of}"))
        };
        let count: u64 = row.fields[calls].trim().parse().map_err(|_| bad(calls))?;
        let ms = number(&row.fields[time]).ok_or_else(|| bad(time))?;
        let sd = match deviation {
            Some(at) => Some(number(&row.fields[at]).ok_or_else(|| bad(at))? / 1e3),
            None => None,
        };
        if count == 0 {
            continue;
        }
        let words: Vec<&str> = row.fields[name].split_whitespace().collect();
        let name: String = words.join(" ").chars().take(60).collect();
        let id = key.map_or(name.clone(), |at| row.fields[at].clone());
        // Several users or databases execute the same statement.
        let entry =
            found.entry(id).or_insert(Statement { name, calls: 0, seconds: 0.0, deviation: sd });
        entry.calls = entry.calls.saturating_add(count);
        entry.seconds += ms / 1e3;
    }
    Ok(found)
}

fn difference(
    before: &BTreeMap<String, Statement>,
    after: BTreeMap<String, Statement>,
    path: &Path,
) -> Result<Vec<Statement>, ReadError> {
    let mut rest = Vec::new();
    for (id, mut statement) in after {
        if let Some(earlier) = before.get(&id) {
            if statement.calls < earlier.calls || statement.seconds < earlier.seconds - 1e-6 {
                return Err(ReadError::whole(format!(
                    "{}: `{}` was called less often than in the snapshot before: were the \
                     statistics reset, or the files given in the wrong order?",
                    path.display(),
                    statement.name
                )));
            }
            statement.calls -= earlier.calls;
            statement.seconds = (statement.seconds - earlier.seconds).max(0.0);
        }
        if statement.calls > 0 {
            rest.push(statement);
        }
    }
    Ok(rest)
}
