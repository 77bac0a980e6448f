//! Finds what a transaction is about, as a number by which `by-key` routes it to its server: in a
//! comment, in a parameter, or in the literal that stands where a rule says.
//!
//! A text is looked at once ([`KeyRules::source`]); where its key is a parameter, each Bind then
//! tells it ([`Source::bound`]).

use std::collections::BTreeMap;

use thiserror::Error;

use super::fingerprint::{Fingerprint, Hash, Place, Places, Sign};
use super::tags::Tags;
use super::tokens::{Kind, LexerMode, Unclear};

/// Of which type a key is: it says how it is read in a text, and in the binary form of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// int2, int4 or int8.
    Integer,
    /// text and what is sent as text is.
    Text,
}

/// Mapping of a value to a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// By its hash, the same for an integer in text and in binary: for `gate::KeyMap::Hash`.
    Hash,
    /// The integer itself, from 0: for `gate::KeyMap::Range`.
    Number,
    /// By a table of values as texts: for `gate::KeyMap::Table`.
    Table(BTreeMap<Vec<u8>, u64>),
}

/// Place of a key, by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the tag of this name, in any text.
    Comment {
        /// Its name, such as `key`.
        name: Vec<u8>,
    },
    /// In a parameter of any statement that has one of this number; the rules behind are not asked.
    AnyParameter {
        /// Its number, from 1, as in `$1`.
        number: u16,
    },
    /// In a parameter of a statement like this.
    Parameter {
        /// Its fingerprint.
        statement: Fingerprint,
        /// Its number, from 1, as in `$1`.
        number: u16,
    },
    /// In the literal at a place of a statement like this, or in the parameter that stands there.
    Place {
        /// Its fingerprint.
        statement: Fingerprint,
        /// Its number among the literals and parameters of the text, from 1. Behind a list whose
        /// length differs, places differ too.
        number: usize,
    },
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// The place of the key.
    pub at: Where,
    /// Its type.
    pub of: KeyType,
    /// The mapping of the key to a number.
    pub mapping: Mapping,
}

/// Why a key that should be there is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text cannot be read.
    #[error("the text of the statement cannot be read for its key")]
    Text,
    /// The value is missing.
    #[error("the key is NULL, or its place or parameter is not there")]
    Missing,
    /// It is no integer.
    #[error("the key is not an integer of 2, 4 or 8 bytes")]
    Integer,
    /// It is below 0.
    #[error("the key {value} is negative: ranges of keys begin at 0")]
    Negative {
        /// The value.
        value: i64,
    },
    /// The table lacks it.
    #[error("the table of keys has no row for \"{value}\"")]
    Unlisted {
        /// The value.
        value: String,
    },
    /// It is written so that its value cannot be told.
    #[error("the literal of the key is written in a form that the gate does not read")]
    Form,
}

/// The format of a parameter in a Bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 0.
    Text,
    /// 1.
    Binary,
}

/// Source of the key of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// No rule is for this text.
    None,
    /// In the text: this.
    Known(u64),
    /// In a parameter.
    Parameter {
        /// Its number, from 1.
        number: u16,
        /// The rule that says so.
        rule: &'a KeyRule,
    },
}

impl Source<'_> {
    /// The key, when a Bind has this for the parameter with [`Source::number`].
    ///
    /// # Errors
    ///
    /// The parameter is NULL, or not of the rule's type or in its range.
    pub fn bound(&self, format: Format, value: Option<&[u8]>) -> Result<Option<u64>, KeyError> {
        match self {
            Source::None => Ok(None),
            Source::Known(key) => Ok(Some(*key)),
            Source::Parameter { rule, .. } => {
                let value = value.ok_or(KeyError::Missing)?;
                let value = match (rule.of, format) {
                    (KeyType::Text, _) => Read::Text(value.to_vec()),
                    (KeyType::Integer, Format::Text) => integer(value)?,
                    (KeyType::Integer, Format::Binary) => Read::Integer(match *value {
                        [a, b] => i64::from(i16::from_be_bytes([a, b])),
                        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
                        _ => i64::from_be_bytes(value.try_into().map_err(|_| KeyError::Integer)?),
                    }),
                };
                rule.key(value).map(Some)
            }
        }
    }

    /// The number of the parameter that must be known, from 1.
    pub fn number(&self) -> Option<u16> {
        match self {
            Source::Parameter { number, .. } => Some(*number),
            _ => None,
        }
    }
}

enum Read {
    Integer(i64),
    Text(Vec<u8>),
}

fn integer(text: &[u8]) -> Result<Read, KeyError> {
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| KeyError::Integer)?;
    text.parse().map(Read::Integer).map_err(|_| KeyError::Integer)
}

impl KeyRule {
    fn key(&self, value: Read) -> Result<u64, KeyError> {
        let text = |value: Read| match value {
            Read::Integer(integer) => integer.to_string().into_bytes(),
            Read::Text(text) => text,
        };
        match (&self.mapping, value) {
            (Mapping::Hash, value) => {
                let mut hash = Hash::default();
                // As text in either format, or one key would go to two servers.
                hash.part(&text(value));
                Ok(hash.end())
            }
            (Mapping::Number, Read::Integer(value)) => {
                u64::try_from(value).map_err(|_| KeyError::Negative { value })
            }
            (Mapping::Number, Read::Text(_)) => Err(KeyError::Integer),
            (Mapping::Table(rows), value) => {
                let value = text(value);
                let unlisted = || String::from_utf8_lossy(&value).into_owned();
                rows.get(&value).copied().ok_or_else(|| KeyError::Unlisted { value: unlisted() })
            }
        }
    }

    fn read(&self, value: &[u8]) -> Result<u64, KeyError> {
        self.key(match self.of {
            KeyType::Integer => integer(value)?,
            KeyType::Text => Read::Text(value.to_vec()),
        })
    }

    /// The key in the place of a text.
    fn source(&self, text: &[u8], place: Option<&Place>) -> Result<Source<'_>, KeyError> {
        let Place { token, sign } = place.ok_or(KeyError::Missing)?;
        let written = &text[token.at()];
        let value = match token.kind {
            // The text shows a place for a value, and each Bind has another one there.
            Kind::Parameter => {
                let number = std::str::from_utf8(&written[1..]).ok();
                let number = number.and_then(|number| number.parse().ok());
                let number = number.ok_or(KeyError::Missing)?;
                return Ok(Source::Parameter { number, rule: self });
            }
            Kind::Number if *sign == Sign::Minus => [b"-", written].concat(),
            Kind::Number => written.to_vec(),
            _ => token.value(text).ok_or(KeyError::Form)?,
        };
        self.read(&value).map(Source::Known)
    }
}

/// The rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRules {
    rules: Vec<KeyRule>,
}

impl KeyRules {
    /// These rules, asked in this order.
    pub fn new(rules: Vec<KeyRule>) -> KeyRules {
        KeyRules { rules }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// True if a text says anything of where its key is: not where the first rule is for all of
    /// them.
    pub fn look_at_texts(&self) -> bool {
        !matches!(self.rules.first(), None | Some(KeyRule { at: Where::AnyParameter { .. }, .. }))
    }

    /// The source of a text's key, by the first rule that is for it.
    ///
    /// # Errors
    ///
    /// A rule is for it, and the key that it says is not there or none.
    pub fn source(&self, text: &[u8], lexer_mode: LexerMode) -> Result<Source<'_>, KeyError> {
        let (mut tags, mut statement) = (None, None);
        for rule in &self.rules {
            match &rule.at {
                Where::Comment { name } => {
                    // Read once, and not at all where an earlier rule is for the text.
                    if tags.is_none() {
                        tags = Some(Tags::of(text, lexer_mode).map_err(|_| KeyError::Text)?);
                    }
                    if let Some(value) = tags.as_ref().and_then(|tags| tags.value(name)) {
                        return rule.read(value).map(Source::Known);
                    }
                }
                Where::AnyParameter { number } => {
                    return Ok(Source::Parameter { number: *number, rule });
                }
                Where::Parameter { statement: wanted, .. }
                | Where::Place { statement: wanted, .. } => {
                    if statement.is_none() {
                        statement = Some(places(text, lexer_mode).map_err(|_| KeyError::Text)?);
                    }
                    let Some((found, places)) = &statement else { continue };
                    if found != wanted {
                        continue;
                    }
                    return match rule.at {
                        Where::Place { number, .. } => {
                            let index = number.checked_sub(1).ok_or(KeyError::Missing)?;
                            rule.source(text, places.get(index))
                        }
                        Where::Parameter { number, .. } => Ok(Source::Parameter { number, rule }),
                        Where::Comment { .. } | Where::AnyParameter { .. } => Ok(Source::None),
                    };
                }
            }
        }
        Ok(Source::None)
    }
}

/// Limit of the places of a text that a rule may name.
const PLACES_MAX: usize = 256;

fn places(text: &[u8], lexer_mode: LexerMode) -> Result<(Fingerprint, Vec<Place>), Unclear> {
    let (mut places, mut found) = (Places::new(text, lexer_mode)?, Vec::new());
    while let Some(place) = places.next()? {
        if found.len() < PLACES_MAX {
            found.push(place);
        }
    }
    Ok((places.fingerprint(), found))
}
