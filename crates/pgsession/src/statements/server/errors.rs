//! Errors in words that a client understands: with its own names for statements in the place of ours,
//! or the gate's own.

use std::ops::Range;

use super::{Refusal, Server, Step};
use crate::statements::statement_cache::StatementCache;
use pgwire::SqlState;
use pgwire::frame::Backend;
use pgwire::message::read::Fields;
use pgwire::message::write;

impl Server {
    /// Writes an error with the client's names for ours, or with words of the gate's.
    pub(super) fn translate(
        &self,
        cache: &StatementCache,
        fields: Fields<'_>,
        told: Option<Told>,
        out: &mut Vec<u8>,
    ) {
        write::message(out, Backend::ErrorResponse, |out| {
            for (kind, value) in fields.iter() {
                // What the server says of the message that stood in the place of the client's.
                if told.is_some() && matches!(kind, b'D' | b'H' | b'P') {
                    continue;
                }
                out.push(kind);
                match (kind, &told) {
                    (b'C', Some(told)) => out.extend_from_slice(told.code.as_str().as_bytes()),
                    (b'R', Some(Told { routine: Some(routine), .. })) => {
                        out.extend_from_slice(routine.as_bytes());
                    }
                    (b'M', Some(told)) => out.extend_from_slice(told.message.as_bytes()),
                    (b'M' | b'D' | b'H', None) => self.renamed(cache, value, out),
                    (b'P', None) => out.extend_from_slice(&self.position(value)),
                    _ => out.extend_from_slice(value),
                }
                out.push(0);
            }
            let more = told.map(|told| [(b'H', told.hint), (b'P', told.position)]);
            for (kind, value) in more.into_iter().flatten() {
                if let Some(value) = value {
                    out.push(kind);
                    out.extend_from_slice(value.as_bytes());
                    out.push(0);
                }
            }
            out.push(0);
        });
    }

    fn renamed(&self, cache: &StatementCache, text: &[u8], out: &mut Vec<u8>) {
        let prefix = cache.prefix();
        let mut rest = text;
        while let Some(at) = position(rest, prefix) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at + prefix.len()..];
            let is_of_name = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'd' | b'n');
            // The server writes names in quotes, so a name of ours ends where a number does.
            let end = rest.iter().position(|byte| !is_of_name(byte)).unwrap_or(rest.len());
            let (ours, behind) = rest.split_at(end);
            let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
            match ours {
                // A name that was written for one of the client's: its number is the place of that one.
                [b'd' | b'n', place @ ..] => {
                    let place = number(place).map_or(0, |place| place as usize);
                    let special = self.specials.get(place);
                    out.extend_from_slice(special.map_or(&b""[..], |special| &special.name));
                }
                ours => {
                    let executed = |digits| {
                        let number = number(digits)?;
                        self.executed.iter().find(|(executed, _)| *executed == number)
                    };
                    // What the server speaks of is what its message was about.
                    let front = self.expected.front();
                    let name = match executed(ours) {
                        Some((_, name)) => Some(&name[..]),
                        None => front.and_then(|front| front.name.as_deref()),
                    };
                    out.extend_from_slice(name.unwrap_or_default());
                }
            }
            rest = behind;
        }
        out.extend_from_slice(rest);
    }

    /// True if positions in what the first request is told are other ones in its client's text.
    pub(super) fn is_moved(&self) -> bool {
        let of = self.expected.front().map(|front| front.step);
        matches!(of, Some(Step::Query | Step::Execute)) && !self.moved.replaced.is_empty()
    }

    fn position(&self, told: &[u8]) -> Vec<u8> {
        let read = std::str::from_utf8(told).ok().and_then(|told| told.parse::<usize>().ok());
        match read.filter(|_| self.is_moved()) {
            Some(position) => self.moved.back(position).to_string().into_bytes(),
            None => told.to_vec(),
        }
    }
}

/// Places of names that have another length in a text than in what goes on for it, in characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    is_utf8: bool,
    /// The start of each in the client's text, and its length there and behind.
    replaced: Vec<(usize, usize, usize)>,
    /// The length of the client's text.
    end: usize,
}

impl Moved {
    /// None yet in this text.
    pub(super) fn within(text: &[u8]) -> Moved {
        // PostgreSQL counts positions in characters of the server's encoding, which a text does not tell.
        // UTF-8 that is valid is taken for what it looks like.
        let is_utf8 = std::str::from_utf8(text).is_ok();
        let end = characters(text, is_utf8);
        Moved { is_utf8, replaced: Vec::new(), end }
    }

    /// The name here is replaced by one of this length, in ASCII, behind those before.
    pub(super) fn replaced(&mut self, text: &[u8], at: &Range<usize>, length: usize) {
        let start = characters(&text[..at.start], self.is_utf8);
        let was = characters(&text[at.clone()], self.is_utf8);
        self.replaced.push((start, was, length));
    }

    /// A position in what went on, from 1, as one in the client's text. One that no error of that text
    /// has is of the text of a statement that it executes, and stays.
    fn back(&self, position: usize) -> usize {
        let mut at = position.saturating_sub(1);
        for &(start, was, length) in &self.replaced {
            if at < start {
                break;
            }
            // Within a name of ours there is no place that the client knows.
            if at < start + length {
                return position;
            }
            debug_assert!(at >= length, "{at} is behind a name of {length}");
            at = at + was - length;
        }
        if at < self.end { at + 1 } else { position }
    }
}

/// Number of characters of these bytes, of one byte each if they are not UTF-8.
fn characters(text: &[u8], is_utf8: bool) -> usize {
    let begins = |byte: &&u8| !is_utf8 || **byte & 0xc0 != 0x80;
    text.iter().filter(begins).count()
}

/// True if an error speaks of a name of ours.
pub(super) fn names(cache: &StatementCache, fields: Fields<'_>) -> bool {
    // In other fields the server names no statement.
    fields.iter().any(|(kind, value)| {
        matches!(kind, b'M' | b'D' | b'H') && position(value, cache.prefix()).is_some()
    })
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// An error in the gate's own words.
pub(super) struct Told {
    code: SqlState,
    message: String,
    hint: Option<String>,
    position: Option<String>,
    /// That of the server that says so, by which drivers know the error.
    routine: Option<&'static str>,
}

pub(super) fn refused_text(refusal: &Refusal) -> Told {
    let (code, message) = match refusal {
        Refusal::Names { most } => (
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!("too many prepared statements: a client may have {most}; close some"),
        ),
        Refusal::Bytes { most } => (
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!("too long prepared statements: a client may have {most} bytes; close some"),
        ),
        Refusal::StatementCache => (
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            "too many prepared statements: the clients of this database hold all there is room \
             for; close some"
                .to_owned(),
        ),
        Refusal::Long { most } => (
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("the statement is too long to be prepared here: at most {most} bytes"),
        ),
        Refusal::LongNames { most } => (
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "the names of the portal and of its statement are too long: at most {most} bytes \
                 together"
            ),
        ),
        Refusal::Portals { most } => (
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!(
                "too many portals of statements that change the session: a client may have {most} \
                 at once"
            ),
        ),
        Refusal::Executes { most } => (
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("the text executes too many prepared statements: at most {most} at once"),
        ),
        Refusal::Nested => (
            SqlState::FEATURE_NOT_SUPPORTED,
            "EXECUTE of a statement that is EXECUTE, PREPARE or DEALLOCATE itself is not supported"
                .to_owned(),
        ),
        Refusal::SessionState(refusal, _) => (refusal.sqlstate(), refusal.message()),
        Refusal::Sequences => (
            SqlState::NOT_IN_PREREQUISITE_STATE,
            "it is not known which sequences this session has moved: the server was another \
             client's before"
                .to_owned(),
        ),
        Refusal::Reshaped(what) => {
            (SqlState::FEATURE_NOT_SUPPORTED, format!("cached plan must not change {what}"))
        }
    };
    // Drivers prepare a statement anew where they read this routine beside 0A000 (pgjdbc does).
    let routine = matches!(refusal, Refusal::Reshaped(_)).then_some("RevalidateCachedQuery");
    let (hint, position) = match refusal {
        Refusal::SessionState(refusal, position) => {
            (Some(refusal.hint().to_owned()), position.map(|position| position.to_string()))
        }
        Refusal::Sequences => {
            let hint = "Run the transaction again: from now on sequences are discarded between \
                        clients. So they are from the beginning by sequences = \"discard-always\".";
            (Some(hint.to_owned()), None)
        }
        _ => (None, None),
    };
    Told { code, message, hint, position, routine }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_back_behind_names_of_another_length() {
        // As the server sees it: "ä; execute \"twelve byte\"(x); y".
        let text = "ä; execute s(x); y";
        let mut moved = Moved::within(text.as_bytes());
        let start = text.find("s(").unwrap();
        moved.replaced(text.as_bytes(), &(start..start + 1), 13);
        let back = |position| moved.back(position);
        assert_eq!((back(1), back(11), back(26), back(30)), (1, 11, 14, 18));
        // Within the name nothing is wrong, and behind the end neither.
        assert_eq!((back(15), back(31)), (15, 31));
    }
}
