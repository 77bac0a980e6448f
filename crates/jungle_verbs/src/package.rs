//! A document with its blobs in one piece of JSON, so that a file that was exported has all of what it names.
//!
//! A document without blobs is written as it is. One with blobs, or with a member `$jungle` of its own, is written as a
//! package: `{"$jungle": "document/1", "document": ..., "blobs": [...]}`. A file of lines that has a package begins
//! with a line that says how many documents follow, so that a file that was cut is told from a whole one.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jungle::BlobHash;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The member by which a package is told from a document.
pub(crate) const MARK: &str = "$jungle";
const DOCUMENT: &str = "document/1";
const LINES: &str = "documents/1";

/// A blob of a document: its place, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackedBlob {
    /// The JSON Pointer of its node in the document.
    pub(crate) at: String,
    /// Its name.
    pub(crate) name: String,
    /// The SHA-256 of its bytes, hexadecimal.
    pub(crate) sha256: String,
    base64: String,
}

impl PackedBlob {
    pub(crate) fn of(at: &str, name: &str, sha256: &str, bytes: &[u8]) -> Self {
        let base64 = STANDARD.encode(bytes);
        Self { at: at.to_owned(), name: name.to_owned(), sha256: sha256.to_owned(), base64 }
    }

    /// Its bytes, if they are those that its hash tells.
    fn bytes(&self) -> Result<Vec<u8>, String> {
        let bytes =
            STANDARD.decode(&self.base64).map_err(|error| format!("its base64: {error}"))?;
        same(&bytes, &self.sha256)?;
        Ok(bytes)
    }
}

/// Nothing, if the bytes have that hash.
pub(crate) fn same(bytes: &[u8], sha256: &str) -> Result<(), String> {
    let mut hash = BlobHash::default();
    hash.update(bytes);
    let found = hash.id().to_string();
    if found == sha256 {
        return Ok(());
    }
    Err(format!("its bytes have the hash {found}, and {sha256} is said"))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    #[serde(rename = "$jungle")]
    mark: String,
    document: Value,
    blobs: Vec<PackedBlob>,
}

/// The first line of a file of lines that has packages.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    #[serde(rename = "$jungle")]
    mark: String,
    documents: u64,
}

/// A blob to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// The JSON Pointer of its node in the document.
    pub(crate) at: String,
    /// Its name.
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// A piece of JSON that was read.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A document.
    Document {
        /// The document.
        document: Value,
        /// Its blobs, if it came in a package.
        blobs: Vec<Unpacked>,
    },
    /// The head of a file of lines: so many documents follow.
    Head(u64),
}

/// The text of a document with its blobs.
pub(crate) fn packed(document: Value, blobs: Vec<PackedBlob>) -> String {
    if blobs.is_empty() && document.get(MARK).is_none() {
        return document.to_string();
    }
    let package = Package { mark: DOCUMENT.to_owned(), document, blobs };
    serde_json::to_string(&package).expect("a package is JSON")
}

/// Tells whether a text was written as a package.
pub(crate) fn is_packed(text: &[u8]) -> bool {
    text.starts_with(b"{\"$jungle\":")
}

/// The head of a file of so many documents.
pub(crate) fn head(documents: u64) -> String {
    let head = Head { mark: LINES.to_owned(), documents };
    serde_json::to_string(&head).expect("a head is JSON")
}

/// A document, from a value that may be a package.
///
/// # Errors
/// It says that it is a package, and is none that is whole: the cause.
pub(crate) fn unpacked(value: Value) -> Result<Piece, String> {
    let Some(mark) = value.get(MARK) else {
        return Ok(Piece::Document { document: value, blobs: Vec::new() });
    };
    let mark = mark.as_str().map_or_else(|| mark.to_string(), str::to_owned);
    let wrong = |cause: String| {
        format!(
            "member `{MARK}` says that it was exported, and it is no whole export: {cause}; export it \
             again, or give the member another name"
        )
    };
    if mark == LINES {
        let head: Head = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        return Ok(Piece::Head(head.documents));
    }
    if mark != DOCUMENT {
        return Err(wrong(format!("its kind is `{mark}`, and `{DOCUMENT}` is known")));
    }
    let package: Package =
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    let mut blobs = Vec::new();
    for blob in &package.blobs {
        let wrong = |cause| wrong(format!("blob `{}` at `{}`: {cause}", blob.name, blob.at));
        let bytes = blob.bytes().map_err(wrong)?;
        blobs.push(Unpacked { at: blob.at.clone(), name: blob.name.clone(), bytes });
    }
    let places = blobs.iter().map(|one| (&*one.at, &*one.name));
    has_places(&package.document, places).map_err(wrong)?;
    Ok(Piece::Document { document: package.document, blobs })
}

/// Nothing, if each blob has a node of its own in the document to lie beside, and a name.
pub(crate) fn has_places<'a>(
    document: &Value,
    blobs: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    let mut known = BTreeSet::new();
    for (at, name) in blobs {
        if !is_node(document, at) {
            return Err(format!("blob `{name}` lies at `{at}`, where the document has no node"));
        }
        if name.is_empty() {
            return Err(format!("a blob at `{at}` has no name"));
        }
        if !known.insert((at, name)) {
            return Err(format!("blob `{name}` at `{at}` is there twice"));
        }
    }
    Ok(())
}

/// Tells whether a pointer names a value that becomes a node: the document, an object, an array or an element.
fn is_node(document: &Value, at: &str) -> bool {
    let Some(value) = document.pointer(at) else { return false };
    let above = at.rsplit_once('/').map(|(above, _)| above);
    let is_element = above.and_then(|above| document.pointer(above)).is_some_and(Value::is_array);
    at.is_empty() || value.is_object() || value.is_array() || is_element
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn packed_blob(at: &str, name: &str, bytes: &[u8]) -> PackedBlob {
        let mut hash = BlobHash::default();
        hash.update(bytes);
        PackedBlob::of(at, name, &hash.id().to_string(), bytes)
    }

    #[track_caller]
    fn refused(text: &str, because: &str) {
        let value = serde_json::from_str(text).expect("it is JSON");
        let told = unpacked(value).expect_err(because);
        assert!(told.contains(because) && told.contains("export it again"), "{told}");
    }

    #[test]
    fn a_package_comes_out_as_it_went_in() {
        let document = json!({"a": [1], "$jungle": "mine"});
        let blobs = vec![packed_blob("", "x", b"one"), packed_blob("/a/0", "x", b"\xff")];
        let text = packed(document.clone(), blobs);
        assert!(is_packed(text.as_bytes()), "{text}");
        let piece = unpacked(serde_json::from_str(&text).expect("it is JSON"));
        let Ok(Piece::Document { document: read, blobs }) = piece else {
            panic!("{piece:?}");
        };
        let wanted = [("", &b"one"[..]), ("/a/0", b"\xff")];
        let found: Vec<_> = blobs.iter().map(|one| (&*one.at, &*one.bytes)).collect();
        assert_eq!((read, found), (document, wanted.to_vec()));
        // One without blobs stays plain, unless it could be taken for a package.
        assert_eq!(packed(json!([1]), Vec::new()), "[1]");
        let own = packed(json!({"$jungle": 1}), Vec::new());
        let piece = unpacked(serde_json::from_str(&own).expect("it is JSON"));
        let Ok(Piece::Document { document, .. }) = piece else { panic!("{piece:?}") };
        assert_eq!(document, json!({"$jungle": 1}));
    }

    #[test]
    fn a_package_that_is_torn_or_foreign_is_refused() {
        let whole = packed(json!({"a": {}}), vec![packed_blob("/a", "x", b"one")]);
        let hash = packed_blob("", "x", b"one").sha256;
        refused(&whole.replace("b25l", "b25"), "blob `x` at `/a`: its base64");
        refused(&whole.replace("b25l", "dHdv"), "its bytes have the hash");
        refused(&whole.replace(&hash, "ab"), "and ab is said");
        refused(&whole.replace("\"/a\"", "\"/b\""), "the document has no node");
        refused(&whole.replace("{\"a\":{}}", "{\"a\":1}"), "the document has no node");
        refused(&whole.replace("\"x\"", "\"\""), "has no name");
        refused(&whole.replace("document/1", "document/2"), "its kind is `document/2`");
        refused(&whole.replace("\"blobs\"", "\"files\""), "unknown field `files`");
        refused(r#"{"$jungle": 7}"#, "its kind is `7`");
        refused(r#"{"$jungle": "documents/1"}"#, "missing field `documents`");
        let twice = vec![packed_blob("", "x", b"one"), packed_blob("", "x", b"one")];
        refused(&packed(json!([]), twice), "is there twice");
    }
}
