//! Our own format: reading, and where in the text a key stands.

use formats::scenario_file::{explain, line_at};
use serde::de::DeserializeOwned;
use toml::Value;
use toml::de::{DeTable, DeValue};

use super::config::{FORMAT, GateFile};
use super::keys::{OURS, Section, Verdict};
use super::written::pruned;
use super::{FileError, Files, Loaded, Unsupported, check};

/// Reads a configuration and says what is wrong with it, by lines.
pub(super) fn read(name: &str, text: &str, files: &dyn Files) -> Result<Loaded, FileError> {
    let file: GateFile = parse(name, text)?;
    if file.format != FORMAT {
        return Err(unknown_format(name, file.format));
    }
    let place = places(name, text);
    let found = check::check(&file, files).into_iter();
    let contradictions = found
        .map(|found| format!("{}: `{}`: {}", place(&found.path), found.path, found.cause))
        .collect();
    let unsupported = unsupported(&file, &place);
    Ok(Loaded { file, warnings: Vec::new(), replaced: Vec::new(), unsupported, contradictions })
}

/// Reads the text of the file of this name.
///
/// # Errors
/// The line of what is wrong, its cause, and the nearest key.
pub(super) fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, FileError> {
    // Lines are counted as they are in the file; the mark has none.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    toml::from_str(text).map_err(|error| FileError::new(explain(name, text, &error)))
}

/// Why a file of another format, or of none, cannot be read.
pub(super) fn unknown_format(name: &str, format: u32) -> FileError {
    let cause = match format {
        0 => format!("the key `format` is missing; the file begins with `format = {FORMAT}`"),
        other => format!("`format = {other}` is not known; this program reads {FORMAT}"),
    };
    FileError::new(format!("{name}:1: {cause}"))
}

/// Where in the text of the file of this name a key stands: `file:line`.
pub(super) fn places<'t>(name: &'t str, text: &'t str) -> impl Fn(&str) -> String + 't {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = DeTable::parse(text).ok();
    move |path: &str| {
        let line = tree.as_ref().and_then(|tree| line_of(text, tree.get_ref(), path));
        line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"))
    }
}

/// The keys of the file that do nothing yet.
fn unsupported(file: &GateFile, place: &dyn Fn(&str) -> String) -> Vec<Unsupported> {
    let said = pruned(file);
    let said = Value::Table(said);
    let mut all = Vec::new();
    for (section, table) in
        [(Section::Pgbouncer, ""), (Section::Databases, "database."), (Section::Users, "user.")]
    {
        for key in section.keys().iter().filter(|key| key.verdict() == Verdict::NotYet) {
            let Some(path) = key.says else { continue };
            let paths = said_at(&said, &format!("{table}{path}"));
            all.extend(paths.iter().map(|path| Unsupported::of(key, place(path), path)));
        }
    }
    for (path, part) in OURS.iter().filter(|(_, part)| !part.has_landed()) {
        let paths = said_at(&said, path);
        all.extend(paths.iter().map(|path| Unsupported::ours(path, *part, place(path))));
    }
    // Several keys of PgBouncer may say one of ours.
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all.dedup_by(|a, b| a.key == b.key);
    all
}

/// The places of a key: its path, with the indices of lists in it.
fn said_at(said: &Value, path: &str) -> Vec<String> {
    match said {
        Value::Array(all) => {
            let all = all.iter().enumerate();
            let inner = |(at, one)| {
                said_at(one, path).into_iter().map(move |rest| join(&format!("{at}"), &rest))
            };
            all.flat_map(inner).collect()
        }
        _ if path.is_empty() => vec![String::new()],
        Value::Table(table) => {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            let Some(value) = table.get(first) else { return Vec::new() };
            if rest.is_empty() {
                return vec![first.to_owned()];
            }
            said_at(value, rest).iter().map(|rest| join(first, rest)).collect()
        }
        _ => Vec::new(),
    }
}

fn join(first: &str, rest: &str) -> String {
    if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") }
}

/// The line of a key, or of the innermost thing around it that stands in the text.
fn line_of(text: &str, tree: &DeTable<'_>, path: &str) -> Option<usize> {
    let mut names = path.split('.');
    let (key, mut value) = tree.get_key_value(names.next()?)?;
    let mut span = key.span();
    for name in names {
        match value.get_ref() {
            DeValue::Table(table) => {
                let Some((key, inner)) = table.get_key_value(name) else { break };
                (span, value) = (key.span(), inner);
            }
            DeValue::Array(array) => {
                let inner = name.parse().ok().and_then(|index: usize| array.get(index));
                let Some(inner) = inner else { break };
                (span, value) = (inner.span(), inner);
            }
            _ => break,
        }
    }
    Some(line_at(text, span))
}
