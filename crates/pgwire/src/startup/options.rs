//! The start-up parameter `options`: what would stand on the command line of a server.
//!
//! Words are parted by blanks, and a backslash takes the next character as it is. Of PostgreSQL's
//! switches those are known that name a setting: `-c name=value` in one word or two, and
//! `--name=value`. The short ones for single settings are refused, and say so.

use std::fmt;

use thiserror::Error;

use super::SqlState;

/// A setting that a session begins with.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name as it came; PostgreSQL's names know no case.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (self.name.escape_ascii(), self.value.escape_ascii());
        write!(out, "{name}={value}")
    }
}

/// Why `options` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// A name without a value.
    #[error("{switch} requires a value")]
    Value {
        /// The switch with the name.
        switch: String,
    },
    /// A word that is no switch.
    #[error("invalid command-line argument for server process: {word}")]
    Word {
        /// The word.
        word: String,
    },
    /// A switch that PostgreSQL may know.
    #[error("the switch {switch} is not supported in options: use -c name=value")]
    Switch {
        /// Its first two characters.
        switch: String,
    },
}

impl OptionsError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            OptionsError::Value { .. } | OptionsError::Word { .. } => SqlState::SYNTAX_ERROR,
            OptionsError::Switch { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        }
    }
}

/// The settings that `options` name.
pub(super) fn settings(options: &[u8]) -> Result<Vec<Setting>, OptionsError> {
    let mut words = words(options).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let shown = || String::from_utf8_lossy(&word).into_owned();
        settings.push(match word.as_slice() {
            b"-c" => {
                let next = words.next().ok_or_else(|| OptionsError::Value { switch: shown() })?;
                setting(&next, "-c ")?
            }
            b"-" | b"--" => return Err(OptionsError::Word { word: shown() }),
            [b'-', b'c', assignment @ ..] => setting(assignment, "-c ")?,
            [b'-', b'-', assignment @ ..] => setting(assignment, "--")?,
            [b'-', ..] => {
                return Err(OptionsError::Switch { switch: shown().chars().take(2).collect() });
            }
            _ => return Err(OptionsError::Word { word: shown() }),
        });
    }
    Ok(settings)
}

/// `name=value`; a dash in the name stands for an underscore.
fn setting(assignment: &[u8], switch: &str) -> Result<Setting, OptionsError> {
    let Some(equals) = assignment.iter().position(|&byte| byte == b'=') else {
        let name = String::from_utf8_lossy(assignment);
        return Err(OptionsError::Value { switch: format!("{switch}{name}") });
    };
    let name = assignment[..equals].iter().map(|&byte| if byte == b'-' { b'_' } else { byte });
    Ok(Setting { name: name.collect(), value: assignment[equals + 1..].to_vec() })
}

fn words(options: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut escaped = false;
    for &byte in options {
        match byte {
            _ if escaped => {
                word.get_or_insert_default().push(byte);
                escaped = false;
            }
            b'\\' => {
                word.get_or_insert_default();
                escaped = true;
            }
            b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c' => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &str) -> String {
        match settings(options.as_bytes()) {
            Ok(settings) => format!("{settings:?}"),
            Err(error) => format!("{} {error}", error.sqlstate()),
        }
    }

    #[test]
    fn every_form_of_a_setting_is_read() {
        let forms = [
            ("", "[]"),
            (" \t\n\r\x0b\x0c ", "[]"),
            ("-c a=b", "[a=b]"),
            ("-ca=b", "[a=b]"),
            ("--a=b", "[a=b]"),
            ("--a-b=c-d", "[a_b=c-d]"),
            ("-c a-b=c", "[a_b=c]"),
            ("  -c  a=b  --c=d -ce=f ", "[a=b, c=d, e=f]"),
            (r"-c search_path=a\ b", "[search_path=a b]"),
            (r"-c\ a=b", "[ a=b]"),
            (r"--a=\\", r"[a=\\]"),
            (r"--a=b\", "[a=b]"),
            ("--a=", "[a=]"),
            ("--a=b=c", "[a=b=c]"),
        ];
        for (options, expected) in forms {
            assert_eq!(read(options), expected, "{options:?}");
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_by_name() {
        let refused = [
            ("-c", "42601 -c requires a value"),
            ("-c a", "42601 -c a requires a value"),
            ("--a-b", "42601 --a-b requires a value"),
            ("a=b", "42601 invalid command-line argument for server process: a=b"),
            ("-c a=b c", "42601 invalid command-line argument for server process: c"),
            ("-", "42601 invalid command-line argument for server process: -"),
            ("--", "42601 invalid command-line argument for server process: --"),
            (r"\", "42601 invalid command-line argument for server process: "),
            ("-S 4096", "0A000 the switch -S is not supported in options: use -c name=value"),
        ];
        for (options, expected) in refused {
            assert_eq!(read(options), expected, "{options:?}");
        }
    }
}
