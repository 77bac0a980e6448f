//! Reads the bodies of the queries that the console answers. Any bytes are either read or refused.

use super::row::{Format, Formats};
use pgwire::message::read::ReadError;

/// Parse; types of parameters are passed over, since no statement has any.
#[derive(Debug)]
pub(super) struct Parse<'a> {
    pub(super) name: &'a [u8],
    pub(super) text: &'a str,
}

/// Bind.
#[derive(Debug)]
pub(super) struct Bind<'a> {
    pub(super) portal: &'a [u8],
    pub(super) statement: &'a [u8],
    /// Number of values that it brings.
    pub(super) parameters: u16,
    /// Of the columns.
    pub(super) formats: Formats,
}

/// The object of Describe and Close.
#[derive(Debug)]
pub(super) enum Target<'a> {
    Statement(&'a [u8]),
    Portal(&'a [u8]),
}

/// Execute.
#[derive(Debug)]
pub(super) struct Execute<'a> {
    pub(super) portal: &'a [u8],
    /// 0 for all.
    pub(super) rows_max: u32,
}

struct Body<'a> {
    message: &'static str,
    left: &'a [u8],
}

impl<'a> Body<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let truncated = ReadError::Truncated { message: self.message };
        let (bytes, rest) = self.left.split_at_checked(count).ok_or(truncated)?;
        self.left = rest;
        Ok(bytes)
    }

    fn short(&mut self) -> Result<u16, ReadError> {
        self.bytes(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn long(&mut self) -> Result<u32, ReadError> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn name(&mut self) -> Result<&'a [u8], ReadError> {
        let truncated = ReadError::Truncated { message: self.message };
        let end = self.left.iter().position(|&byte| byte == 0).ok_or(truncated)?;
        Ok(&self.bytes(end + 1)?[..end])
    }

    fn text(&mut self) -> Result<&'a str, ReadError> {
        let invalid = ReadError::Invalid { message: self.message, what: "text: it is not UTF-8" };
        std::str::from_utf8(self.name()?).map_err(|_| invalid)
    }

    fn end<T>(self, value: T) -> Result<T, ReadError> {
        if self.left.is_empty() {
            Ok(value)
        } else {
            Err(ReadError::Trailing { message: self.message })
        }
    }
}

pub(super) fn query(body: &[u8]) -> Result<&str, ReadError> {
    let mut body = Body { message: "Query", left: body };
    let text = body.text()?;
    body.end(text)
}

pub(super) fn parse(body: &[u8]) -> Result<Parse<'_>, ReadError> {
    let mut body = Body { message: "Parse", left: body };
    let parse = Parse { name: body.name()?, text: body.text()? };
    for _ in 0..body.short()? {
        body.long()?;
    }
    body.end(parse)
}

pub(super) fn bind(body: &[u8]) -> Result<Bind<'_>, ReadError> {
    let mut body = Body { message: "Bind", left: body };
    let (portal, statement) = (body.name()?, body.name()?);
    for _ in 0..body.short()? {
        body.short()?;
    }
    let parameters = body.short()?;
    for _ in 0..parameters {
        match body.long()? {
            u32::MAX => {}
            length => drop(body.bytes(length as usize)?),
        }
    }
    let mut formats = Vec::new();
    for _ in 0..body.short()? {
        formats.push(match body.short()? {
            0 => Format::Text,
            1 => Format::Binary,
            _ => return Err(ReadError::Invalid { message: "Bind", what: "format" }),
        });
    }
    body.end(Bind { portal, statement, parameters, formats: Formats(formats) })
}

pub(super) fn target<'a>(message: &'static str, body: &'a [u8]) -> Result<Target<'a>, ReadError> {
    let mut body = Body { message, left: body };
    let kind = body.bytes(1)?[0];
    let name = body.name()?;
    body.end(match kind {
        b'S' => Target::Statement(name),
        b'P' => Target::Portal(name),
        _ => return Err(ReadError::Invalid { message, what: "kind of target" }),
    })
}

pub(super) fn execute(body: &[u8]) -> Result<Execute<'_>, ReadError> {
    let mut body = Body { message: "Execute", left: body };
    let execute = Execute { portal: body.name()?, rows_max: body.long()? };
    body.end(execute)
}
