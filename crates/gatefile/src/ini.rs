//! PgBouncer's file as it stands: sections, keys, values, what it includes, and connection strings.
//! What the keys mean is not known here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use formats::exchange::suggest;

use super::convert::shown;
use super::keys::Section;
use super::{FileError, Files};

/// Depth of includes at most, as in PgBouncer.
const DEPTH_MAX: usize = 10;
/// Files included at most, in all.
const FILES_MAX: usize = 256;
/// Text of all files at most \[byte\].
const BYTES_MAX: usize = 8 << 20;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: Rc<str>,
    /// From 1.
    line: usize,
}

impl Place {
    pub(super) fn error(&self, cause: impl fmt::Display) -> FileError {
        FileError::new(format!("{self}: {cause}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) section: Section,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) place: Place,
}

/// The entries of a file and its includes: each key once, in the order in which they first occur.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) all: Vec<Entry>,
    /// Warnings about a file that can be read all the same.
    pub(super) warnings: Vec<String>,
}

/// Reads a file and what it includes.
pub(super) fn read(name: &str, text: &str, files: &dyn Files) -> Result<Entries, FileError> {
    let mut reading = Reading {
        files,
        open: vec![normal(Path::new(name))],
        read: 0,
        bytes: 0,
        section: None,
        by_key: BTreeMap::new(),
        entries: Entries::default(),
    };
    reading.text(name, text)?;
    Ok(reading.entries)
}

struct Reading<'f> {
    files: &'f dyn Files,
    /// The files that are being read, the outermost first.
    open: Vec<PathBuf>,
    /// Files included so far.
    read: usize,
    bytes: usize,
    /// Goes on into what is included, and out of it.
    section: Option<Section>,
    by_key: BTreeMap<(Section, String), usize>,
    entries: Entries,
}

impl Reading<'_> {
    fn text(&mut self, name: &str, text: &str) -> Result<(), FileError> {
        let file: Rc<str> = name.into();
        self.bytes += text.len();
        if self.bytes > BYTES_MAX {
            let cause = "with what is included, the files are larger than 8 MiB; is one of them \
                the wrong file?";
            return Err(FileError::new(format!("{name}: {cause}")));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let place = Place { file: file.clone(), line: index + 1 };
            self.line(line.trim(), place)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str, place: Place) -> Result<(), FileError> {
        if line.is_empty() || line.starts_with([';', '#']) {
            return Ok(());
        }
        if let Some(control) = line.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(place.error(format!(
                "U+{:04X} stands here, which no text has; is it the right file?",
                u32::from(control)
            )));
        }
        if let Some(rest) = line.strip_prefix("%include") {
            return match rest.trim() {
                file if rest.starts_with([' ', '\t']) && !file.is_empty() => {
                    self.include(file, &place)
                }
                _ => Err(place.error("`%include` is followed by a blank and a file's name")),
            };
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, after)) = rest.split_once(']') else {
                return Err(place.error("a section's name ends with `]`"));
            };
            let after = after.trim();
            if !after.is_empty() && !after.starts_with([';', '#']) {
                return Err(place.error("something follows the section's name; give it a line"));
            }
            let section = Section::ALL.into_iter().find(|section| section.name() == name);
            self.section = Some(section.ok_or_else(|| {
                let known = Section::ALL.iter().map(|section| section.name());
                place.error(format!("unknown section `{}`; {}", shown(name), suggest(name, known)))
            })?);
            return Ok(());
        }
        let (key, value) = pair(line).map_err(|cause| place.error(cause))?;
        let Some(section) = self.section else {
            return Err(place.error(format!(
                "`{}` stands before any section; begin with `[pgbouncer]`",
                shown(&key)
            )));
        };
        self.add(Entry { section, key, value, place })
    }

    /// In one file a key stands once; a file may set anew what another one has set.
    fn add(&mut self, entry: Entry) -> Result<(), FileError> {
        let at = (entry.section, entry.key.clone());
        match self.by_key.get(&at) {
            None => {
                self.by_key.insert(at, self.entries.all.len());
                self.entries.all.push(entry);
            }
            Some(&index) => {
                let first = &mut self.entries.all[index];
                let key = shown(&entry.key);
                if first.place.file == entry.place.file {
                    return Err(entry.place.error(format!(
                        "`{key}` stands on line {} already; remove one of the two lines",
                        first.place.line
                    )));
                }
                self.entries.warnings.push(format!(
                    "{}: `{key}` counts; {} is overridden",
                    entry.place, first.place
                ));
                *first = entry;
            }
        }
        Ok(())
    }

    fn include(&mut self, name: &str, place: &Place) -> Result<(), FileError> {
        let path = normal(Path::new(name));
        if self.open.contains(&path) {
            return Err(place.error(format!("`{}` includes itself; remove the line", shown(name))));
        }
        if self.open.len() > DEPTH_MAX {
            return Err(place.error(format!("files include files {DEPTH_MAX} deep; not deeper")));
        }
        self.read += 1;
        if self.read > FILES_MAX {
            return Err(place.error(format!("more than {FILES_MAX} files are included")));
        }
        let text = self
            .files
            .text(Path::new(name))
            .map_err(|cause| place.error(format!("cannot include {}: {cause}", shown(name))))?;
        self.open.push(path);
        self.text(name, &text)?;
        self.open.pop();
        Ok(())
    }
}

/// A path without what does not change it.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}

/// `key = value`; a key with other characters stands between quotation marks of either kind.
fn pair(line: &str) -> Result<(String, String), String> {
    let wrong = || format!("`{}` is no `key = value`", shown(line));
    let (key, rest) = match line.chars().next() {
        Some(mark @ ('"' | '\'')) => {
            let (key, rest) = quoted(&line[1..], mark)
                .ok_or_else(|| format!("`{}` has a quotation mark without end", shown(line)))?;
            (key, rest)
        }
        _ => {
            let is_plain = |c: char| c.is_alphanumeric() || "_.-*".contains(c);
            let end = line.find(|c| !is_plain(c)).unwrap_or(line.len());
            (line[..end].to_owned(), &line[end..])
        }
    };
    match rest.trim_start().strip_prefix('=') {
        Some(value) if !key.is_empty() => Ok((key, value.trim().to_owned())),
        _ => Err(wrong()),
    }
}

/// A text up to its closing mark, where two marks are one, and what follows it.
fn quoted(text: &str, mark: char) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(mark)?;
        content.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(mark) {
            Some(after) => {
                content.push(mark);
                rest = after;
            }
            None => return Some((content, rest)),
        }
    }
}

/// The pairs of a connection string: `key=value key='a value'`, where `''` is one mark.
pub(super) fn connection(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((key, value)) = rest.split_once('=') else {
            return Err(format!("`{}` is no `key=value`", shown(rest)));
        };
        let key = key.trim();
        if key.is_empty() || key.contains([' ', '\t', '\'']) {
            return Err(format!("`{}` is no key; write `key=value`", shown(key)));
        }
        let value = value.trim_start();
        let (value, after) = match value.strip_prefix('\'') {
            Some(inside) => quoted(inside, '\'')
                .ok_or_else(|| format!("the value of `{}` has no closing mark", shown(key)))?,
            None => {
                let end = value.find([' ', '\t']).unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            }
        };
        if value.is_empty() {
            return Err(format!("`{}` has no value; leave it out", shown(key)));
        }
        // A connection string has two dozen keys; more are the same twice.
        if pairs.len() >= 64 || pairs.iter().any(|(known, _)| known == key) {
            return Err(format!("`{}` stands there twice; remove one", shown(key)));
        }
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// A value as a connection string has it.
pub(super) fn connection_value(value: &str) -> String {
    if value.contains([' ', '\t', '\'']) {
        return format!("'{}'", value.replace('\'', "''"));
    }
    value.to_owned()
}

/// A key as a line has it.
pub(super) fn line_key(key: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_.-*".contains(c);
    if !key.is_empty() && key.chars().all(is_plain) {
        return key.to_owned();
    }
    format!("\"{}\"", key.replace('"', "\"\""))
}
