//! Why a file is not read, with its place.

use std::fmt;

/// Why a file is not read: where, what is wrong, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    text: String,
}

impl ReadError {
    /// Error in a line, counted from 1.
    pub(crate) fn at(
        file: impl fmt::Display,
        line: impl fmt::Display,
        cause: impl fmt::Display,
    ) -> ReadError {
        ReadError { text: format!("{file}:{line}: {cause}") }
    }

    /// A text that names its place itself.
    pub(crate) fn whole(text: String) -> ReadError {
        ReadError { text }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ReadError {}
