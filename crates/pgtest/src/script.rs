//! Messages of a client, one by one, as the scripts of tests write them.

use pgwire::frame::{Frontend, HEAD};
use pgwire::message::write;

/// A type that no script uses but the mark at the end of each of its steps.
pub const MARK: u32 = 3614;

/// A Parse of a text under a name, with the types of its first parameters.
pub fn parse(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("{name}\0{text}\0").as_bytes());
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.iter().for_each(|of| out.extend_from_slice(&of.to_be_bytes()));
    });
    out
}

/// A Bind of a statement with these values, all as text.
pub fn bind(portal: &str, name: &str, values: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Bind, |out| {
        out.extend_from_slice(format!("{portal}\0{name}\0\0\0").as_bytes());
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(&[0; 2]);
    });
    out
}

/// A message of a kind and a name, with more behind it.
pub fn named(tag: Frontend, kind: &str, name: &str, more: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, tag, |out| {
        out.extend_from_slice(format!("{kind}{name}\0").as_bytes());
        out.extend_from_slice(more);
    });
    out
}

/// A Describe of a statement.
pub fn describe(name: &str) -> Vec<u8> {
    named(Frontend::Describe, "S", name, &[])
}

/// A Close of a statement.
pub fn close(name: &str) -> Vec<u8> {
    named(Frontend::Close, "S", name, &[])
}

/// An Execute of a portal, of all its rows.
pub fn execute(portal: &str) -> Vec<u8> {
    named(Frontend::Execute, "", portal, &[0; 4])
}

/// A Query.
pub fn query(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::query(&mut out, text);
    out
}

/// A Sync.
pub fn sync() -> Vec<u8> {
    b"S\0\0\0\x04".to_vec()
}

/// A message without a body.
pub fn bare(tag: Frontend) -> Vec<u8> {
    let mut out = Vec::new();
    write::bare(&mut out, tag);
    out
}

/// A CopyData.
pub fn rows(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::CopyData, |out| out.extend_from_slice(text.as_bytes()));
    out
}

/// Parse, Bind, Execute.
pub fn runs(name: &str, text: &str) -> Vec<u8> {
    [parse(name, text, &[]), bind("", name, &[]), execute("")].concat()
}

/// Bind, Execute, Sync.
pub fn again(name: &str) -> Vec<u8> {
    [bind("", name, &[]), execute(""), sync()].concat()
}

/// The bytes that a client sends in one go: some messages and the mark.
pub fn step(messages: &[Vec<u8>]) -> Vec<u8> {
    let mark = "sekisho_test_mark";
    let mut step = messages.concat();
    step.extend(sync());
    step.extend(parse(mark, "", &[MARK]));
    step.extend(describe(mark));
    step.extend(close(mark));
    step.extend(sync());
    step
}

/// True if a server's message answers the mark.
pub fn is_mark(message: &[u8]) -> bool {
    message[0] == b't' && message[HEAD..] == [&[0, 1], &MARK.to_be_bytes()[..]].concat()
}
