//! A folder as a document: folders are objects, and so each file keeps its place and its name. The same back.
//!
//! Blobs of the document are files of the folder `$jungle` in it, named by their hashes; `export.json` there says where
//! they belong, and of which document.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cli::Failure;
use jungle::BlobHash;
use jungle_server::ExportAnswer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::package::{MARK, has_places};

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
    if depth == 0 {
        paths.retain(|path| *path != blobs_folder(folder));
    }
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
    // A package is a level of its own, which goes when it is opened.
    let all = above
        + levels(value.get("document").filter(|_| value.get(MARK).is_some()).unwrap_or(&value));
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

const LIST: &str = "export.json";
const FOLDER: &str = "folder/1";

/// A blob of an exported folder, as the list has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    at: String,
    name: String,
    sha256: String,
    bytes: u64,
}

/// The blobs of an exported folder, and the document to which they belong.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(rename = "$jungle")]
    mark: String,
    document_sha256: String,
    blobs: Vec<Listed>,
}

/// A file that is a blob of a document.
#[derive(Debug)]
pub(crate) struct BlobFile {
    /// The JSON Pointer of its node in the document.
    pub(crate) at: String,
    /// Its name.
    pub(crate) name: String,
    /// The file.
    pub(crate) path: PathBuf,
}

/// The folder of the blobs of an exported folder.
pub(crate) fn blobs_folder(folder: &Path) -> PathBuf {
    folder.join(MARK)
}

/// The hash of a document: its members have one order, whatever the order in which they were read.
fn hash(document: &Value) -> String {
    let mut hash = BlobHash::default();
    hash.update(document.to_string().as_bytes());
    hash.id().to_string()
}

/// Writes the list of the blobs that were written; its bytes \[B\].
///
/// # Errors
/// The disk.
pub(crate) fn listed(answer: &ExportAnswer, folder: &Path) -> Result<u64, Failure> {
    let blobs = answer.blobs.iter().map(|blob| Listed {
        at: blob.at.clone(),
        name: blob.name.clone(),
        sha256: blob.sha256.clone(),
        bytes: blob.bytes,
    });
    let document_sha256 = hash(&answer.document);
    let list = List { mark: FOLDER.to_owned(), document_sha256, blobs: blobs.collect() };
    let text = serde_json::to_string(&list).expect("a list is JSON") + "\n";
    let file = blobs_folder(folder).join(LIST);
    fs::write(&file, &text)
        .map_err(|error| Failure::Machine(format!("{}: {error}", file.display())))?;
    Ok(text.len() as u64)
}

/// The blobs of a folder whose document was read, if it was exported with some; each file has its hash.
///
/// # Errors
/// What is there is not what was exported.
pub(crate) fn blobs(folder: &Path, document: &Value) -> Result<Vec<BlobFile>, Failure> {
    let inner = blobs_folder(folder);
    if fs::symlink_metadata(&inner).is_err() {
        return Ok(Vec::new());
    }
    let file = inner.join(LIST);
    let wrong = |path: &Path, cause: String| {
        Failure::Usage(format!(
            "{}: {cause}; export the folder again, or remove {} to import the files without blobs",
            path.display(),
            inner.display()
        ))
    };
    let text = fs::read(&file).map_err(|error| wrong(&file, error.to_string()))?;
    let list: List = serde_json::from_slice(&text)
        .map_err(|error| wrong(&file, format!("it is no list of blobs: {error}")))?;
    if list.mark != FOLDER {
        return Err(wrong(&file, format!("its kind is `{}`, and `{FOLDER}` is known", list.mark)));
    }
    let found = hash(document);
    if found != list.document_sha256 {
        let cause = format!(
            "it belongs to a document with the hash {}, and the files beside it make {found}: some \
             were changed, or are missing",
            list.document_sha256
        );
        return Err(wrong(&file, cause));
    }
    let places = list.blobs.iter().map(|one| (&*one.at, &*one.name));
    has_places(document, places).map_err(|cause| wrong(&file, cause))?;
    let mut blobs = Vec::new();
    for Listed { at, name, sha256, bytes } in list.blobs {
        let path = inner.join(&sha256);
        let of_blob = |cause: String| wrong(&path, format!("blob `{name}` at `{at}`: {cause}"));
        sha256.parse::<jungle::BlobId>().map_err(|error| wrong(&file, error.to_string()))?;
        let (found, length) = hashed(&path).map_err(|error| of_blob(error.to_string()))?;
        if (&found, length) != (&sha256, bytes) {
            return Err(of_blob(format!(
                "its {length} B have the hash {found}, {bytes} B are said"
            )));
        }
        blobs.push(BlobFile { at, name, path });
    }
    Ok(blobs)
}

/// The hash of a file, and its bytes \[B\].
fn hashed(path: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut part) = (File::open(path)?, vec![0; 1 << 18]);
    let (mut hash, mut length) = (BlobHash::default(), 0);
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok((hash.id().to_string(), length));
        }
        hash.update(&part[..read]);
        length += read as u64;
    }
}

/// Writes a document as a new folder, of which [`document`] makes the same; the bytes of its files \[B\].
///
/// # Errors
/// A value that no folder has a place for; the disk.
pub(crate) fn written(document: &Value, folder: &Path) -> Result<u64, Failure> {
    let Value::Object(members) = document else {
        return Err(no_place("", "the document is no object"));
    };
    if members.contains_key(MARK) {
        return Err(no_place(&format!("/{MARK}"), "that name is kept for the blobs"));
    }
    object(members, "", (folder, 0))
}

fn no_place(at: &str, cause: &str) -> Failure {
    Failure::Usage(format!(
        "`{at}` has no place in a folder: {cause}; export it as JSON, without --folder"
    ))
}

fn object(
    members: &Map<String, Value>,
    at: &str,
    (folder, depth): (&Path, usize),
) -> Result<u64, Failure> {
    if depth == FOLDERS_MAX {
        return Err(no_place(at, &format!("it lies deeper than {FOLDERS_MAX} folders")));
    }
    let failed =
        |path: &Path, error: io::Error| Failure::Machine(format!("{}: {error}", path.display()));
    fs::create_dir(folder).map_err(|error| failed(folder, error))?;
    let mut bytes = 0;
    for (name, value) in members {
        let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        let is_odd = matches!(&**name, "" | "." | "..") || name.contains(['/', '\0']);
        if is_odd || name.len() > 255 {
            return Err(no_place(&at, "its name is none of a file"));
        }
        let path = folder.join(name);
        let content = match (content(name, value), value) {
            (Some(content), _) => content,
            (None, Value::Object(members)) => {
                bytes += object(members, &at, (&path, depth + 1))?;
                continue;
            }
            (None, _) => return Err(no_place(&at, "it is neither an object nor a text")),
        };
        bytes += content.len() as u64;
        fs::write(&path, content).map_err(|error| failed(&path, error))?;
    }
    Ok(bytes)
}

/// The bytes of the file of a value, if it is one: what [`file`] makes the same value of.
fn content(name: &str, value: &Value) -> Option<Vec<u8>> {
    if Path::new(name).extension().is_some_and(|extension| extension == "json") {
        return Some(value.to_string().into_bytes());
    }
    if let Value::String(text) = value {
        return Some(text.clone().into_bytes());
    }
    let members = value.as_object().filter(|members| members.len() == 1)?;
    let text = members.get("base64")?.as_str()?;
    let bytes = STANDARD.decode(text).ok()?;
    // Of text, a file would become text again.
    (std::str::from_utf8(&bytes).is_err() && STANDARD.encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A folder for a test, which goes with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("sekisho-folder-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            drop(fs::remove_dir_all(&folder));
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_document_becomes_a_folder_and_the_same_document_again() {
        let scratch = Scratch::new("same");
        let whole = json!({
            "a.md": "# A", "empty": {}, "odd.json": [1, {"x": null}], "n.json": 7, ".json": "no end of a name",
            "bin": {"base64": "/w=="}, "no bytes": {"base64": {"x": ""}},
            "folder": {"base64": {"deep~/": {}}, "text": "\u{feff}mark"},
        });
        let mut fits = whole.clone();
        fits["folder"]["base64"] = json!({"deep~": {}});
        written(&fits, &scratch.0).map_err(drop).expect("it has a place");
        let read = document(&scratch.0, 1 << 20).map_err(drop).expect("it was written");
        assert_eq!(read, fits);
    }

    #[test]
    fn a_value_that_would_come_back_as_another_has_no_place_in_a_folder() {
        for (document, place) in [
            (json!([1]), "``"),
            (json!({"$jungle": {}}), "`/$jungle`"),
            (json!({"a": {"n": 1}}), "`/a/n`"),
            (json!({"a": {"l": []}}), "`/a/l`"),
            (json!({"a/b": "x"}), "`/a~1b`"),
            (json!({"..": {}}), "`/..`"),
            (json!({"x": {"base64": "YQ=="}}), ""),
            (json!({"x": {"base64": "/w="}}), ""),
        ] {
            let scratch = Scratch::new("none");
            let told = written(&document, &scratch.0);
            if place.is_empty() {
                // A folder with a text in it is the same document too.
                told.map_err(drop).expect("it has a place");
                let read = super::document(&scratch.0, 1 << 20).map_err(drop).expect("the same");
                assert_eq!(read, document);
                continue;
            }
            let Err(Failure::Usage(told)) = told else { panic!("{document} has a place") };
            assert!(told.starts_with(place) && told.contains("without --folder"), "{told}");
        }
    }
}
