//! What a client's job is at its gate: its class and priority, from who asks and from what the
//! client's first message says.

use std::rc::Rc;

use gate::{Job, JobId};

use super::arena::Key;
use super::settings::Settings;
use super::state::Loop;
use crate::postgres::frame::{Frames, Frontend, HEAD, Piece};
use crate::postgres::sql::tokens::{Encoding, Lexis, Strings};
use crate::postgres::sql::{Class, Subject};
use crate::postgres::statements::{Catalogue, Client as Statements};

impl Loop {
    /// The job that a client has now, but for its name.
    pub(super) fn job_of(&mut self, key: Key) -> Job {
        let client = self.clients.get(key).expect("who asks is there");
        let class = self.class_of(key);
        if !self.config.classes.are_one() && !self.config.classes.look_at_texts() {
            let settings = Rc::clone(&client.settings);
            let client = self.clients.get_mut(key).expect("it was there above");
            client.class = Some((settings, class));
        }
        Job { class: class.class, priority: class.priority, ..Job::new(JobId(0)) }
    }

    fn class_of(&self, key: Key) -> Class {
        let classes = &self.config.classes;
        if classes.are_one() {
            return Class::default();
        }
        let client = self.clients.get(key).expect("its caller has it");
        if let Some((settings, class)) = &client.class
            && Rc::ptr_eq(settings, &client.settings)
        {
            return *class;
        }
        let pool = &self.pools[client.pool];
        let text = if classes.look_at_texts() {
            first_text(&client.frames, client.wire.read(), &client.statements, &pool.catalogue)
        } else {
            b""
        };
        classes.class(&Subject {
            user: &pool.user,
            database: self.config.databases[pool.database].name.as_bytes(),
            application_name: client.settings.value(b"application_name").unwrap_or_default(),
            text,
            lexis: lexis(&client.settings),
        })
    }
}

/// How the texts of a session with these settings are to be read.
fn lexis(settings: &Settings) -> Lexis {
    let off = |value: &[u8]| value.eq_ignore_ascii_case(b"off");
    let strings = match settings.value(b"standard_conforming_strings").is_some_and(off) {
        true => Strings::Backslash,
        false => Strings::Standard,
    };
    let encoding = settings.value(b"client_encoding");
    Lexis { strings, encoding: encoding.map_or(Encoding::AsciiSafe, Encoding::of) }
}

/// The text that a client's first message says or names; empty if it does neither, or is not all
/// here.
fn first_text<'a>(
    frames: &Frames<Frontend>,
    readable: &'a [u8],
    statements: &Statements,
    catalogue: &'a Catalogue,
) -> &'a [u8] {
    let Ok(Piece::Whole { tag, len }) = frames.look(readable) else { return b"" };
    let body = &readable[HEAD..len];
    let text = match tag {
        Frontend::Query => string(body).map(|(text, _)| text),
        Frontend::Parse => {
            string(body).and_then(|(_, behind)| string(behind)).map(|(text, _)| text)
        }
        Frontend::Bind => string(body)
            .and_then(|(_, behind)| string(behind))
            .and_then(|(name, _)| catalogue.text(statements, name)),
        Frontend::Describe => body
            .strip_prefix(b"S")
            .and_then(string)
            .and_then(|(name, _)| catalogue.text(statements, name)),
        _ => None,
    };
    text.unwrap_or_default()
}

/// A string that ends with 0, and what is behind it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::frame::Limits;
    use crate::postgres::message::write;
    use crate::postgres::statements::Bounds;

    fn said(bytes: &[u8]) -> String {
        let catalogue = Catalogue::new([0; 8], Bounds::default());
        let frames = Frames::new(Limits::SESSION);
        let text = first_text(&frames, bytes, &Statements::new(0), &catalogue);
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[test]
    fn the_first_message_says_the_text_or_nothing() {
        let message = |tag, body: &[u8]| {
            let mut out = Vec::new();
            write::message(&mut out, tag, |out| out.extend_from_slice(body));
            out
        };
        let mut query = Vec::new();
        write::query(&mut query, "select 1");
        assert_eq!(said(&query), "select 1");
        assert_eq!(said(&query[..query.len() - 1]), "", "it is not all here");
        assert_eq!(said(&message(Frontend::Parse, b"name\0select $1\0\0\0")), "select $1");
        assert_eq!(said(&message(Frontend::Bind, b"\0unknown\0\0\0\0\0\0\0")), "");
        assert_eq!(said(&message(Frontend::Describe, b"Sunknown\0")), "");
        assert_eq!(said(&message(Frontend::Query, b"without an end")), "");
        assert_eq!(said(&message(Frontend::Sync, b"")), "");
    }
}
