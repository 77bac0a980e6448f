//! Our own format: reading, and where in the text a key stands.

use toml::de::{DeTable, DeValue};

use super::config::{FORMAT, GateFile};
use super::keys::{OURS, Part, Section, Verdict};
use super::written::pruned;
use super::{FileError, Files, Loaded, Unmet, check};
use crate::scenario_file::{explain, line_at};

/// Reads a configuration and says what is wrong with it, by lines.
pub(super) fn read(name: &str, text: &str, files: &dyn Files) -> Result<Loaded, FileError> {
    // Lines are counted as they are in the file; the mark has none.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: GateFile =
        toml::from_str(text).map_err(|error| FileError::new(explain(name, text, &error)))?;
    if file.format != FORMAT {
        let cause = match file.format {
            0 => format!("the key `format` is missing; the file begins with `format = {FORMAT}`"),
            other => format!("`format = {other}` is not known; this program reads {FORMAT}"),
        };
        return Err(FileError::new(format!("{name}:1: {cause}")));
    }
    let tree = DeTable::parse(text).ok();
    let place = |path: &str| {
        let line = tree.as_ref().and_then(|tree| line_of(text, tree.get_ref(), path));
        line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"))
    };
    let found = check::check(&file, files).into_iter();
    let contradictions = found
        .map(|found| format!("{}: `{}`: {}", place(&found.path), found.path, found.cause))
        .collect();
    let unmet = unmet(&file, &place);
    Ok(Loaded { file, warnings: Vec::new(), replaced: Vec::new(), unmet, contradictions })
}

/// What the file says that does nothing yet.
fn unmet(file: &GateFile, place: &dyn Fn(&str) -> String) -> Vec<Unmet> {
    let said = pruned(file);
    let is_said = |path: &str| {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let Some(value) = said.get(first) else { return false };
        rest.is_empty() || rest.split('.').try_fold(value, |value, key| value.get(key)).is_some()
    };
    let theirs = Section::Pgbouncer.keys().iter().filter_map(|key| {
        let path = key.says?;
        let waits = key.verdict() == Verdict::NotYet && is_said(path);
        waits.then(|| Unmet::of(key, place(path), path))
    });
    let ours = OURS.iter().filter(|(path, part)| !part.has_landed() && is_said(path));
    let ours = ours.map(|(path, part): &(&str, Part)| Unmet::ours(path, *part, place(path)));
    let mut all: Vec<Unmet> = theirs.chain(ours).collect();
    // Several keys of PgBouncer may say one of ours.
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all.dedup_by(|a, b| a.key == b.key);
    all
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
