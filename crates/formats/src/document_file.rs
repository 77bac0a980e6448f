//! Documents that a load asks for, from a file: TOML with a `[[document]]` each.

use std::path::Path;

use advise::Bytes;
use serde::Deserialize;

use crate::scenario_file::explain;
use crate::{ReadError, bounded};

/// No set of documents is larger.
const FILE_MIB: u64 = 64;

/// A document as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiledDocument {
    /// Its name, the last part of its path.
    pub name: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// Its frequency, relative to the others.
    pub weight: u32,
}

/// A set of documents below a URL: `measure http --documents FILE`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Documents"))]
#[serde(deny_unknown_fields)]
struct File {
    /// A document each.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    document: Vec<Entry>,
}

/// A document.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Document"))]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Its name: the last part of its path, asked for below the URL. No two have the same.
    name: String,
    /// Its size, which an answer is compared with.
    size: Bytes,
    /// Its frequency, relative to the others.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    weight: u32,
}

/// The JSON Schema of a set of documents.
#[cfg(feature = "schema")]
pub fn schema(generator: schemars::SchemaGenerator) -> schemars::Schema {
    generator.into_root_schema_for::<File>()
}

/// Reads a set of documents.
///
/// # Errors
/// If the file cannot be read or is none: the place, the cause and the nearest key.
pub fn read_documents(path: &Path) -> Result<Vec<FiledDocument>, ReadError> {
    let name = path.display().to_string();
    let text = bounded::text(path, FILE_MIB).map_err(|error| {
        let or = "name a TOML file with [[document]], or say `webstone`";
        ReadError::whole(format!("cannot read the document set {name}: {error}; {or}"))
    })?;
    let file: File =
        toml::from_str(&text).map_err(|error| ReadError::whole(explain(&name, &text, &error)))?;
    let document = |entry: Entry| FiledDocument {
        name: entry.name,
        bytes: entry.size.0,
        weight: entry.weight,
    };
    Ok(file.document.into_iter().map(document).collect())
}
