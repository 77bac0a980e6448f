//! The admin console: commands, tables in PgBouncer's columns, both query protocols against raw bytes
//! and a real driver, metrics, JSON, and the dashboard that stands on them.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real servers and clients are on the other side of a socket, and some of them are late"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod asking;
mod commands;
mod drivers;
mod exposition;
mod metrics;
mod sample;
mod tables;

use pgconsole::{Access, Heard, Reply, Session, Snapshot, Want};
use pgwire::SqlState;
use pgwire::frame::{Backend, Frontend};
use pgwire::message::read;

use pgtest::messages;

/// A client of the console that is logged in.
fn session(access: Access) -> Session {
    Session::begin(access, "0.1.0", &mut Vec::new())
}

/// Says a simple query, and gives it the snapshot as often as it is wanted.
fn query(session: &mut Session, text: &str, snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::new();
    let mut heard = session.hear(Frontend::Query, format!("{text}\0").as_bytes(), &mut out);
    while let Heard::Wants(want) = heard {
        assert_eq!(want, Want::Snapshot, "{text}");
        heard = session.reply(Reply::Snapshot(snapshot), &mut out);
    }
    assert_eq!(heard, Heard::Answered);
    out
}

fn tags(bytes: &[u8]) -> Vec<Backend> {
    messages::<Backend>(bytes).into_iter().map(|(tag, _)| tag).collect()
}

/// The first error in a reply.
fn error(bytes: &[u8]) -> Option<(SqlState, String)> {
    let messages = messages::<Backend>(bytes);
    let (_, body) = messages.into_iter().find(|(tag, _)| *tag == Backend::ErrorResponse)?;
    let fields = read::fields(body).unwrap();
    let text = String::from_utf8(fields.message().unwrap().to_vec()).unwrap();
    Some((fields.sqlstate().unwrap(), text))
}

/// A column as RowDescription has it: the name, the type, its size and its format.
type Shape = (String, u32, i16, u16);

/// The columns and the rows in text of a reply.
fn table(bytes: &[u8]) -> (Vec<Shape>, Vec<Vec<Option<String>>>) {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for (tag, body) in messages::<Backend>(bytes) {
        let mut left = body;
        let mut take = |count: usize| {
            let (bytes, rest) = left.split_at(count);
            left = rest;
            bytes
        };
        let short = |bytes: &[u8]| u16::from_be_bytes(bytes.try_into().unwrap());
        let long = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        match tag {
            Backend::RowDescription => {
                for _ in 0..short(take(2)) {
                    let mut name = Vec::new();
                    loop {
                        match take(1)[0] {
                            0 => break,
                            letter => name.push(letter),
                        }
                    }
                    take(6);
                    let (oid, size) = (long(take(4)), short(take(2)).cast_signed());
                    take(4);
                    columns.push((String::from_utf8(name).unwrap(), oid, size, short(take(2))));
                }
            }
            Backend::DataRow => {
                let count = short(take(2));
                let value = |_| match long(take(4)) {
                    u32::MAX => None,
                    length => Some(String::from_utf8(take(length as usize).to_vec()).unwrap()),
                };
                rows.push((0..count).map(value).collect());
            }
            _ => continue,
        }
        assert!(left.is_empty(), "{tag:?} {body:?}");
    }
    (columns, rows)
}
