//! Schemas and references of the files that a person writes, from the types that read them, so that
//! neither can say anything else. Editors complete a file by its schema; `docs/` has both.
//!
//! [`documents`] is all that is written; `cargo xtask references` writes it.

mod page;
mod rules;
mod schema;

pub use schema::File;

/// A document of `docs/` that is written from the types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its path from the root of the repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The schemas and the references of all files.
pub fn documents() -> Vec<Document> {
    let schemas = File::ALL
        .into_iter()
        .map(|file| Document { path: file.schema_path(), text: format!("{:#}\n", file.schema()) });
    schemas.chain(page::pages()).collect()
}
