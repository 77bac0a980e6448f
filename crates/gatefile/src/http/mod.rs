//! Files of the gate for HTTP: TOML, `format = 1`, in the words of the gate for PostgreSQL.

mod check;
mod config;
mod to_httpgate;

use std::path::Path;

pub use config::*;
pub use to_httpgate::to_httpgate;

use super::config::FORMAT;
#[cfg(feature = "schema")]
pub(crate) use check::{ABOVE_ZERO, METHODS, RANGES};

use super::own::{parse, places};
use super::{Disk, FileError, Files, TOLD_MAX};

/// Reads a configuration from a file of the machine.
///
/// # Errors
/// If it cannot be read, is none, or contradicts itself or the machine: places, causes and ways out.
pub fn load_http(path: &Path) -> Result<HttpFile, FileError> {
    let name = path.display().to_string();
    let text = Disk.text(path);
    let text = text.map_err(|cause| FileError::new(format!("cannot read {name}: {cause}")))?;
    read_http(&name, &text, &Disk)
}

/// Reads a configuration from the text of the file of this name.
///
/// # Errors
/// As [`load_http`].
pub fn read_http(name: &str, text: &str, files: &dyn Files) -> Result<HttpFile, FileError> {
    let file: HttpFile = parse(name, text)?;
    if file.format != FORMAT {
        return Err(super::own::unknown_format(name, file.format));
    }
    let place = places(name, text);
    let found = check::check(&file, files).into_iter();
    let mut wrong: Vec<String> = found
        .map(|found| format!("{}: `{}`: {}", place(&found.path), found.path, found.cause))
        .collect();
    if wrong.is_empty() {
        return Ok(file);
    }
    if wrong.len() > TOLD_MAX {
        let more = wrong.len() - TOLD_MAX;
        wrong.truncate(TOLD_MAX);
        wrong.push(format!("and {more} more"));
    }
    Err(FileError::new(wrong.join("\n")))
}
