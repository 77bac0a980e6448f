//! Errors in words that a client understands: with its own names for statements in the place of ours,
//! or the gate's own.

use super::{Refusal, Server};
use crate::postgres::SqlState;
use crate::postgres::frame::Backend;
use crate::postgres::message::read::Fields;
use crate::postgres::message::write;
use crate::postgres::statements::catalogue::Catalogue;

impl Server {
    /// Writes an error with the client's names for ours, or with words of the gate's.
    pub(super) fn translate(
        &self,
        catalogue: &Catalogue,
        fields: Fields<'_>,
        told: Option<Told>,
        out: &mut Vec<u8>,
    ) {
        write::message(out, Backend::ErrorResponse, |out| {
            for (kind, value) in fields.iter() {
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
                    (b'M' | b'D' | b'H', None) => self.renamed(catalogue, value, out),
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

    fn renamed(&self, catalogue: &Catalogue, text: &[u8], out: &mut Vec<u8>) {
        let prefix = catalogue.prefix();
        let mut rest = text;
        while let Some(at) = position(rest, prefix) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at + prefix.len()..];
            let is_of_name = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'd' | b'n');
            let end = rest.iter().position(|byte| !is_of_name(byte)).unwrap_or(rest.len());
            let (ours, behind) = rest.split_at(end);
            let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
            match ours {
                [b'd' | b'n', place @ ..] => {
                    let place = number(place).map_or(0, |place| place as usize);
                    let special = self.specials.get(place);
                    out.extend_from_slice(special.map_or(&b""[..], |special| &special.name));
                }
                _ => {
                    // What the server speaks of is what its message was about.
                    let front = self.expected.front();
                    let name = front.and_then(|front| front.name.as_deref());
                    out.extend_from_slice(name.unwrap_or_default());
                }
            }
            rest = behind;
        }
        out.extend_from_slice(rest);
    }
}

/// Whether an error speaks of a name of ours.
pub(super) fn names(catalogue: &Catalogue, fields: Fields<'_>) -> bool {
    fields.iter().any(|(kind, value)| {
        matches!(kind, b'M' | b'D' | b'H') && position(value, catalogue.prefix()).is_some()
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
        Refusal::Catalogue => (
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            "too many prepared statements: the clients of this database hold all there is room \
             for; close some"
                .to_owned(),
        ),
        Refusal::Long { most } => (
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("the statement is too long to be prepared here: at most {most} bytes"),
        ),
        Refusal::Portals { most } => (
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!(
                "too many portals of statements that change the session: a client may have {most} \
                 at once"
            ),
        ),
        Refusal::Leftover(refusal, _) => (refusal.sqlstate(), refusal.message()),
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
    let routine = matches!(refusal, Refusal::Reshaped(_)).then_some("RevalidateCachedQuery");
    let (hint, position) = match refusal {
        Refusal::Leftover(refusal, position) => {
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
