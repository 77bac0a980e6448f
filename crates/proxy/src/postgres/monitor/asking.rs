//! What a client's job is at its gate: its class and priority, its key, and whether it only reads,
//! from who asks and from what the client's first messages say.

use std::sync::Arc;

use gate::{Access, Job, JobId};

use super::arena::Key;
use super::config::{Database, Mode};
use super::pool::Pool;
use super::state::Loop;
use crate::postgres::frame::{Frames, Frontend, HEAD, Piece};
use crate::postgres::sql::tokens::Lexis;
use crate::postgres::sql::{self, Class, Format, KeyError, KeyRules, Settings, Subject};
use crate::postgres::statements::{Catalogue, Client as Statements};

impl Loop {
    /// The job that a client has now, but for its name.
    pub(super) fn job_of(&mut self, key: Key) -> Job {
        let class = self.class_of(key);
        let client = self.clients.get(key).expect("who asks is there");
        if !self.config.classes.are_one() && !self.config.classes.look_at_texts() {
            let settings = Arc::clone(&client.settings);
            let client = self.clients.get_mut(key).expect("it was there above");
            client.class = Some((settings, class));
        }
        let job = Job { class: class.class, priority: class.priority, ..Job::new(JobId(0)) };
        let client = self.clients.get(key).expect("it was there above");
        let database = &self.config.databases[self.pools[client.pool].database];
        if database.keys.is_empty() && database.gate.roles.is_empty() {
            return job;
        }
        let routed = self.route_of(key, database, job);
        let client = self.clients.get_mut(key).expect("it was there above");
        client.access = routed.access;
        let pool = client.pool;
        let missing = &mut self.pools[pool].counters.keys_missing;
        let key = routed.key.unwrap_or_else(|_| {
            *missing += 1;
            None
        });
        let key = key.unwrap_or(self.config.databases[self.pools[pool].database].key_default);
        Job { key, access: routed.access, ..job }
    }

    /// What a job says of the server that it needs.
    fn route_of(&self, key: Key, database: &Database, job: Job) -> Routed {
        let client = self.clients.get(key).expect("its caller has it");
        let pool = &self.pools[client.pool];
        let lexis = client.settings.lexis();
        let readable = client.wire.read();
        let text = first_text(&client.frames, readable, &client.statements, &pool.catalogue);
        let key = if database.keys.is_empty() {
            Ok(None)
        } else {
            key_of(&database.keys, text, lexis, || first_bind(&client.frames, readable))
        };
        let declared = match sql::access(text, lexis) {
            // A session may go on to write whatever its first text says.
            _ if database.gate.roles.is_empty() => job.access,
            Ok(sql::Access::ReadOnly) if pool.mode != Mode::Session => Access::Read,
            Ok(sql::Access::ReadWrite) | Err(_) => Access::Write,
            Ok(_) if reads_only(&client.settings) => Access::Read,
            Ok(_) => Access::Write,
        };
        let wrote = client.wrote.is_some_and(|at| self.now.since(at) < database.own_writes);
        Routed { key, access: if wrote { Access::Write } else { declared } }
    }

    fn class_of(&mut self, key: Key) -> Class {
        let classes = &self.config.classes;
        if classes.are_one() {
            return Class::default();
        }
        let client = self.clients.get(key).expect("its caller has it");
        if let Some((settings, class)) = &client.class
            && Arc::ptr_eq(settings, &client.settings)
        {
            return *class;
        }
        let Pool { user, database, catalogue, readings, .. } = &mut self.pools[client.pool];
        let database = self.config.databases[*database].name.as_bytes();
        let read = |text: &[u8]| {
            classes.class(&Subject {
                // Who asks, whoever it is at the servers.
                user: client.user.as_deref().unwrap_or(user),
                database,
                application_name: &client.settings.value(b"application_name").unwrap_or_default(),
                text,
                lexis: client.settings.lexis(),
            })
        };
        if !classes.look_at_texts() {
            return read(b"");
        }
        let readable = client.wire.read();
        let text = first_text(&client.frames, readable, &client.statements, catalogue);
        readings.class((&client.settings, client.user.as_ref()), text, || read(text))
    }
}

/// What a job says of the server that it needs.
struct Routed {
    key: Result<Option<u64>, KeyError>,
    access: Access,
}

/// Whether transactions of a session with these settings only read unless they say otherwise.
fn reads_only(settings: &Settings) -> bool {
    let value =
        settings.value(b"default_transaction_read_only").map(|value| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some(b"on" | b"true" | b"yes" | b"1"))
}

/// The key of a job by its first text and, if that is where it is, its first Bind.
fn key_of<'a>(
    rules: &KeyRules,
    text: &[u8],
    lexis: Lexis,
    bind: impl FnOnce() -> Option<Bind<'a>>,
) -> Result<Option<u64>, KeyError> {
    let source = rules.source(text, lexis)?;
    let Some(number) = source.number() else { return source.bound(Format::Text, None) };
    let Some(bind) = bind() else { return Ok(None) };
    let (format, value) = bind.parameter(number).ok_or(KeyError::Missing)?;
    source.bound(format, value)
}

/// A Bind, from the formats of its parameters on.
struct Bind<'a>(&'a [u8]);

impl<'a> Bind<'a> {
    /// The format and value of a parameter, by its number from 1; none if it is not there.
    fn parameter(&self, number: u16) -> Option<(Format, Option<&'a [u8]>)> {
        let index = usize::from(number.checked_sub(1)?);
        let (formats, rest) = count(self.0)?;
        let (codes, rest) = rest.split_at_checked(formats * 2)?;
        let code = match formats {
            0 => &[0, 0][..],
            1 => codes,
            _ => codes.get(index * 2..index * 2 + 2)?,
        };
        let format = if code == [0, 1] { Format::Binary } else { Format::Text };
        let (values, mut rest) = count(rest)?;
        for at in 0..values {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            // A negative length is NULL.
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            let (value, behind) = behind.split_at_checked(length.unwrap_or(0))?;
            if at == index {
                return Some((format, length.map(|_| value)));
            }
            rest = behind;
        }
        None
    }
}

fn count(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<2>()?;
    Some((usize::from(u16::from_be_bytes(*count)), rest))
}

/// The Bind that a client's first messages begin with, or that follows its first Parse before
/// anything else is executed; none if it is not all here.
fn first_bind<'a>(frames: &Frames<Frontend>, mut readable: &'a [u8]) -> Option<Bind<'a>> {
    loop {
        let Ok(Piece::Whole { tag, len }) = frames.look(readable) else { return None };
        let body = &readable[HEAD..len];
        match tag {
            Frontend::Bind => {
                let (_, behind) = string(body)?;
                return string(behind).map(|(_, behind)| Bind(behind));
            }
            Frontend::Parse | Frontend::Describe => readable = &readable[len..],
            _ => return None,
        }
    }
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

    #[test]
    fn a_parameter_is_found_in_the_first_bind() {
        let message = |tag, body: &[u8]| {
            let mut out = Vec::new();
            write::message(&mut out, tag, |out| out.extend_from_slice(body));
            out
        };
        let frames = Frames::new(Limits::SESSION);
        let parameter = |bytes: &[u8], number| {
            let bind = first_bind(&frames, bytes)?;
            let (format, value) = bind.parameter(number)?;
            Some((format, value.map(<[u8]>::to_vec)))
        };
        let parse = message(Frontend::Parse, b"\0select $1, $2, $3\0\0\0");
        let describe = message(Frontend::Describe, b"S\0");
        // Formats for each; 7 in binary, NULL, a text.
        let each =
            b"\0\0\0\x03\0\x01\0\0\0\0\0\x03\0\0\0\x02\0\x07\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        let bind = message(Frontend::Bind, each);
        let all = [&parse[..], &describe, &bind].concat();
        for bytes in [&all[..], &bind] {
            assert_eq!(parameter(bytes, 1), Some((Format::Binary, Some(vec![0, 7]))));
            assert_eq!(parameter(bytes, 2), Some((Format::Text, None)), "NULL");
            assert_eq!(parameter(bytes, 3), Some((Format::Text, Some(b"ab".to_vec()))));
            assert_eq!(parameter(bytes, 4), None);
            assert_eq!(parameter(bytes, 0), None);
        }
        for short in 0..all.len() {
            assert_eq!(parameter(&all[..short], 1), None, "it is not all here");
        }
        for short in 2..each.len() - 3 {
            let cut = message(Frontend::Bind, &each[..short]);
            assert_eq!(parameter(&cut, 3), None, "{short} bytes of it");
        }
        // One format for all.
        let one = message(Frontend::Bind, b"\0\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\0");
        assert_eq!(parameter(&one, 1), Some((Format::Binary, Some(b"x".to_vec()))));
        let query = message(Frontend::Query, b"select 1\0");
        assert_eq!(parameter(&[query, bind].concat(), 1), None);
    }
}
