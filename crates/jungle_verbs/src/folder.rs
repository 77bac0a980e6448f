//! A folder as a document: folders are objects, and so each file keeps its place and its name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cli::Failure;
use serde_json::{Map, Value};

/// The deepest folder.
const FOLDERS_MAX: usize = 60;
/// The most levels of a document: JSON parsers take 127 (serde_json), of which the body of the request is one.
const DEPTH_MAX: usize = 126;

/// The document of a folder: an object with a member for each folder and file, by its name. A file `*.json` is its
/// value, another one its text, or `{"base64": "..."}` where it is no UTF-8. At most so many bytes \[B\].
///
/// # Errors
/// A file cannot be read, is no JSON though its name says so, lies too deep, or is neither file nor folder.
pub(crate) fn document(folder: &Path, bytes_max: u64) -> Result<Value, Failure> {
    let mut left = bytes_max;
    inner(folder, 0, &mut left)
}

fn inner(folder: &Path, depth: usize, left: &mut u64) -> Result<Value, Failure> {
    let wrong = |path: &Path, cause: String| Failure::Usage(format!("{}: {cause}", path.display()));
    if depth == FOLDERS_MAX {
        let deep = format!("lies deeper than {FOLDERS_MAX} folders; import a part of it");
        return Err(wrong(folder, deep));
    }
    let mut members = Map::new();
    let entries = fs::read_dir(folder).map_err(|error| wrong(folder, error.to_string()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| wrong(folder, error.to_string()))?.path());
    }
    // The nodes that are made are the same wherever the same folder is imported.
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| wrong(&path, "its name is no UTF-8; rename it".to_owned()))?;
        // A link is not followed: it may lead anywhere, and round in a circle.
        let found = fs::symlink_metadata(&path).map_err(|error| wrong(&path, error.to_string()))?;
        let value = if found.is_dir() {
            inner(&path, depth + 1, left)?
        } else if found.is_file() {
            let many = || wrong(&path, "with it the folder is too large; import a part".to_owned());
            let bytes = bytes_within(&path, *left);
            let bytes = bytes.map_err(|error| wrong(&path, error.to_string()))?.ok_or_else(many)?;
            *left -= bytes.len() as u64;
            file(&path, depth + 1, bytes)?
        } else {
            let odd = "is neither a file nor a folder; remove it, or put in what it leads to";
            return Err(wrong(&path, odd.to_owned()));
        };
        members.insert(name.to_owned(), value);
    }
    Ok(Value::Object(members))
}

/// The bytes of a file; `None` if it has more than so many, however many it says that it has.
pub(crate) fn bytes_within(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

/// The levels of arrays and objects in a value.
fn levels(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// The value of JSON that lies below so many levels of a document.
///
/// # Errors
/// It is no JSON, or too deep; the place is named.
pub(crate) fn parsed(
    bytes: &[u8],
    above: usize,
    place: impl Fn() -> String,
) -> Result<Value, Failure> {
    // Editors of some systems begin a file with the mark of its order of bytes.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        // The parser tells this by its words alone.
        let is_deep = error.to_string().starts_with("recursion limit exceeded");
        let cause = if is_deep { "it is too deep; import it in parts" } else { "it is no JSON" };
        Failure::Usage(format!("{}: {cause}: {error}", place()))
    })?;
    let all = above + levels(&value);
    if all > DEPTH_MAX {
        return Err(Failure::Usage(format!(
            "{}: with it the document is {all} levels deep, and {DEPTH_MAX} are the most; import it in parts",
            place()
        )));
    }
    Ok(value)
}

fn file(path: &Path, above: usize, bytes: Vec<u8>) -> Result<Value, Failure> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return parsed(&bytes, above, || path.display().to_string());
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Value::String(text),
        Err(odd) => serde_json::json!({"base64": STANDARD.encode(odd.as_bytes())}),
    })
}
