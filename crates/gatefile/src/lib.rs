//! Files of the gates. Of the gate for PostgreSQL: our own format, PgBouncer's, and each as the other. Of
//! the gate for HTTP: our own format, [`HttpFile`], in the same words.
//!
//! | file | what it is |
//! | --- | --- |
//! | `.ini`, `.conf` | PgBouncer's, with what it includes |
//! | anything else | our own, TOML, `format = 1` |
//!
//! [`GateFile`] is what both say. What is wrong is told with its place, its cause and the way out;
//! what PgBouncer has and the gate has not yet is told too ([`Unsupported`]), and is an error where
//! leaving it aside would let somebody in. The one list of PgBouncer's keys is `keys.rs`; the
//! support table ([`support`]) is made of it. Names of files are relative to the working directory,
//! as PgBouncer has it, so that a translation means the same files. The gate that runs is told by
//! [`to_monitor`].

mod check;
mod config;
mod convert;
mod from_ini;
mod http;
mod ini;
mod jobs;
mod keys;
mod own;
mod policies;
#[cfg(feature = "schema")]
pub mod schema;
mod set;
mod support;
mod to_ini;
mod to_monitor;
mod values;
mod written;

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

pub use check::Contradiction;
pub use config::*;
pub use http::*;
pub use keys::{Part, Verdict};
pub use support::support;
pub use to_monitor::{AGAIN, to_monitor, unresolved};
pub use values::{Hidden, Slots, Timeout};

use keys::{Aside, Key};

/// No configuration is larger.
const FILE_MIB: u64 = 8;
/// Faults told at once, at most.
const TOLD_MAX: usize = 20;

/// Why a configuration cannot be used: places, causes and ways out, a line each or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    text: String,
}

impl FileError {
    fn new(text: impl Into<String>) -> FileError {
        FileError { text: text.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for FileError {}

/// A source of the files that a configuration names.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn text(&self, path: &Path) -> Result<String, String>;

    /// # Errors
    /// Why the file cannot be read later.
    fn stands(&self, path: &Path) -> Result<(), String>;

    /// The address of a host by its name, and of a port there.
    ///
    /// # Errors
    /// Why there is none.
    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        let mut found = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
        found.next().ok_or_else(|| "the name has no address".to_owned())
    }
}

/// The machine's own files.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn text(&self, path: &Path) -> Result<String, String> {
        self.stands(path)?;
        let file = formats::bounded::open(path, FILE_MIB).map_err(|error| error.to_string())?;
        let bytes = file.whole().map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line} is no UTF-8; save the file in that encoding")
        })
    }

    fn stands(&self, path: &Path) -> Result<(), String> {
        let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if found.is_dir() {
            return Err("it is a directory; name a file in it".into());
        }
        // A pipe that nobody writes to would be waited for without end.
        if !found.is_file() {
            return Err("it is a pipe or a device; name a file".into());
        }
        Ok(())
    }
}

/// Something that a configuration asks for and the gate does not do yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// `file:line`.
    place: String,
    key: String,
    why: String,
    aside: Aside,
    /// True if our format says it too, so that a translation keeps it.
    is_said: bool,
}

impl Unsupported {
    fn of(key: &Key, place: String, name: &str) -> Unsupported {
        let (name, why) = (name.to_owned(), key.lack().to_owned());
        Unsupported { place, key: name, why, aside: key.aside, is_said: key.says.is_some() }
    }

    fn ours(path: &str, part: Part, place: String) -> Unsupported {
        let (key, why) = (path.to_owned(), part.missing().to_owned());
        Unsupported { place, key, why, aside: Aside::Harmless, is_said: true }
    }

    /// True if going on without it would let somebody in, or read along, who should not.
    pub fn is_unsafe(&self) -> bool {
        self.aside == Aside::Unsafe
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsupported { place, key, why, aside, .. } = self;
        let end = match aside {
            Aside::Harmless => "it is ignored",
            Aside::Unsafe => "to ignore it would be unsafe; remove it to go on without",
        };
        write!(f, "{place}: `{key}` does nothing yet: {why} So {end}.")
    }
}

/// A configuration that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration itself.
    pub file: GateFile,
    /// Remarkable things in it, in sentences with places.
    pub warnings: Vec<String>,
    /// Keys said in vain, since something better stands in their place.
    pub replaced: Vec<String>,
    /// Keys of it that the gate does not support yet.
    pub unsupported: Vec<Unsupported>,
    /// Contradictions, with places.
    pub contradictions: Vec<String>,
}

impl Loaded {
    /// The configuration for a gate that starts now, and what its user should be told.
    ///
    /// # Errors
    /// If it contradicts itself, or asks for something that would be unsafe to leave aside.
    pub fn to_run(self) -> Result<(GateFile, Vec<String>), FileError> {
        let (unsafe_now, aside): (Vec<Unsupported>, Vec<Unsupported>) =
            self.unsupported.into_iter().partition(Unsupported::is_unsafe);
        let mut wrong = self.contradictions;
        wrong.extend(unsafe_now.iter().map(Unsupported::to_string));
        if self.file.listen.is_empty() && self.file.unix_socket.is_none() {
            wrong.push("nobody can connect; say `listen = [\"127.0.0.1:6432\"]`".to_owned());
        }
        if wrong.is_empty() {
            let mut told = self.warnings;
            told.extend(aside.iter().map(Unsupported::to_string));
            return Ok((self.file, told));
        }
        if wrong.len() > TOLD_MAX {
            let more = wrong.len() - TOLD_MAX;
            wrong.truncate(TOLD_MAX);
            wrong.push(format!("and {more} more"));
        }
        Err(FileError::new(wrong.join("\n")))
    }
}

/// True if a file of this name is PgBouncer's.
pub fn is_ini(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["ini", "conf"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Reads a configuration from a file of the machine.
///
/// # Errors
/// If it cannot be read or is none; what contradicts itself is for [`Loaded::to_run`].
pub fn load(path: &Path) -> Result<Loaded, FileError> {
    let name = path.display().to_string();
    let text = Disk.text(path);
    let text = text.map_err(|cause| FileError::new(format!("cannot read {name}: {cause}")))?;
    read(&name, &text, &Disk)
}

/// Reads a configuration from the text of the file of this name.
///
/// # Errors
/// If the text is of neither format: the place and the way out.
pub fn read(name: &str, text: &str, files: &dyn Files) -> Result<Loaded, FileError> {
    if !is_ini(name) {
        return own::read(name, text, files);
    }
    let entries = ini::read(name, text, files)?;
    let from = from_ini::convert(name, &entries)?;
    let contradictions = check::check(&from.file, files).into_iter().map(|found| {
        let cause = keys::in_their_words(&found.path, &found.cause);
        let mut path = &*found.path;
        loop {
            if let Some(place) = from.places.get(path) {
                return format!("{place}: {cause}");
            }
            match path.rsplit_once('.') {
                Some((outer, _)) => path = outer,
                None => return format!("{name}: {cause}"),
            }
        }
    });
    let contradictions = contradictions.collect();
    Ok(Loaded {
        file: from.file,
        warnings: entries.warnings,
        replaced: from.replaced,
        unsupported: from.unsupported,
        contradictions,
    })
}

/// The text of a configuration in the other format: of PgBouncer's in ours, of ours in PgBouncer's.
/// What has no counterpart stands in comments.
///
/// # Errors
/// If the text cannot be read. What contradicts itself is translated as it is, and said in
/// comments.
pub fn translate(name: &str, text: &str, files: &dyn Files) -> Result<String, FileError> {
    let loaded = read(name, text, files)?;
    if !is_ini(name) {
        return Ok(to_ini::write(&loaded.file));
    }
    let mut comments = vec![format!("Translated from {name}.")];
    let mut add = |head: &str, lines: &mut dyn Iterator<Item = String>| {
        let lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
        if !lines.is_empty() {
            comments.push(head.to_owned());
            comments.extend(lines);
        }
    };
    let left_out = loaded.unsupported.iter().filter(|unsupported| !unsupported.is_said);
    add("Remarkable:", &mut loaded.warnings.iter().cloned());
    add("Not needed here:", &mut loaded.replaced.iter().cloned());
    add("Without a counterpart:", &mut left_out.map(Unsupported::to_string));
    add("To be mended before a gate starts:", &mut loaded.contradictions.iter().cloned());
    Ok(written::write(&loaded.file, &comments))
}
