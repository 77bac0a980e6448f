//! Columns, values, and how they go over the wire in text and in binary.

use std::borrow::Cow;
use std::sync::Arc;

use pgwire::frame::Backend;
use pgwire::message::write::message;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// text.
    Text,
    /// int4.
    Int4,
    /// int8.
    Int8,
    /// numeric; whole numbers here.
    Numeric,
    /// float8.
    Float8,
}

impl Kind {
    /// PostgreSQL's number of the type.
    pub fn oid(self) -> u32 {
        match self {
            Kind::Text => 25,
            Kind::Int4 => 23,
            Kind::Int8 => 20,
            Kind::Numeric => 1700,
            Kind::Float8 => 701,
        }
    }

    /// The size of a value \[byte\]; -1 where it varies.
    fn size(self) -> i16 {
        match self {
            Kind::Text | Kind::Numeric => -1,
            Kind::Int4 => 4,
            Kind::Int8 | Kind::Float8 => 8,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

pub(super) const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

pub(super) const fn int4(name: &'static str) -> Column {
    Column { name, kind: Kind::Int4 }
}

pub(super) const fn int8(name: &'static str) -> Column {
    Column { name, kind: Kind::Int8 }
}

pub(super) const fn numeric(name: &'static str) -> Column {
    Column { name, kind: Kind::Numeric }
}

pub(super) const fn float8(name: &'static str) -> Column {
    Column { name, kind: Kind::Float8 }
}

/// A value of a row. A number that does not fit its column is NULL, never another number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Text(Cow<'a, str>),
    Int4(i32),
    Int8(i64),
    Numeric(u64),
    Float8(f64),
}

impl Value<'_> {
    fn kind(&self) -> Option<Kind> {
        match self {
            Value::Null => None,
            Value::Text(_) => Some(Kind::Text),
            Value::Int4(_) => Some(Kind::Int4),
            Value::Int8(_) => Some(Kind::Int8),
            Value::Numeric(_) => Some(Kind::Numeric),
            Value::Float8(_) => Some(Kind::Float8),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a Arc<str>> for Value<'a> {
    fn from(text: &'a Arc<str>) -> Value<'a> {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Value::Int4(i32::from(yes))
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Value<'a> {
        value.map_or(Value::Null, Into::into)
    }
}

/// For a column of int4.
pub(super) fn small<'a>(number: impl TryInto<i32>) -> Value<'a> {
    number.try_into().map_or(Value::Null, Value::Int4)
}

/// For a column of int8.
pub(super) fn large<'a>(number: impl TryInto<i64>) -> Value<'a> {
    number.try_into().map_or(Value::Null, Value::Int8)
}

/// The format of a value on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Text,
    Binary,
}

/// The format of each column: none is text for all, one is for all, else one each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Formats(pub(super) Vec<Format>);

impl Formats {
    fn of(&self, column: usize) -> Format {
        match self.0.as_slice() {
            [] => Format::Text,
            [all] => *all,
            each => each.get(column).copied().unwrap_or_default(),
        }
    }

    /// True if they may be for so many columns.
    pub(super) fn fit(&self, columns: usize) -> bool {
        self.0.len() <= 1 || self.0.len() == columns
    }
}

/// RowDescription.
pub(super) fn describe(out: &mut Vec<u8>, columns: &[Column], formats: &Formats) {
    message(out, Backend::RowDescription, |out| {
        let count = u16::try_from(columns.len()).expect("a table of the console is narrow");
        out.extend_from_slice(&count.to_be_bytes());
        for (index, column) in columns.iter().enumerate() {
            out.extend_from_slice(column.name.as_bytes());
            // The end of the name; of no table, and of no column of one.
            out.extend_from_slice(&[0; 7]);
            out.extend_from_slice(&column.kind.oid().to_be_bytes());
            out.extend_from_slice(&column.kind.size().to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&(formats.of(index) as u16).to_be_bytes());
        }
    });
}

/// DataRow.
///
/// # Panics
/// If the values are not those of the columns: a table of the console is wrong then.
pub(super) fn row(out: &mut Vec<u8>, columns: &[Column], values: &[Value<'_>], formats: &Formats) {
    assert_eq!(columns.len(), values.len(), "a row has a value for each column");
    message(out, Backend::DataRow, |out| {
        let count = u16::try_from(values.len()).expect("a table of the console is narrow");
        out.extend_from_slice(&count.to_be_bytes());
        for (index, (column, value)) in columns.iter().zip(values).enumerate() {
            let kind = value.kind();
            assert!(kind.is_none_or(|kind| kind == column.kind), "{column:?} is not {value:?}");
            if *value == Value::Null {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            match formats.of(index) {
                Format::Text => write_text(out, value),
                Format::Binary => write_binary(out, value),
            }
            let length = i32::try_from(out.len() - at - 4).expect("a value is small");
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    });
}

fn write_text(out: &mut Vec<u8>, value: &Value<'_>) {
    let text = match value {
        Value::Null => return,
        // No text of PostgreSQL's can hold a NUL, so drivers would choke on one.
        Value::Text(text) => {
            return out.extend(text.bytes().filter(|&byte| byte != 0));
        }
        Value::Int4(number) => number.to_string(),
        Value::Int8(number) => number.to_string(),
        Value::Numeric(number) => number.to_string(),
        Value::Float8(number) if number.is_infinite() => {
            if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        Value::Float8(number) => number.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}

fn write_binary(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null | Value::Text(_) => write_text(out, value),
        Value::Int4(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Int8(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Float8(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Numeric(number) => numeric_digits(out, *number),
    }
}

/// numeric in binary: how many digits to the base 10,000, the power of the first one, the sign, the
/// decimals that are shown, and the digits.
fn numeric_digits(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = Vec::with_capacity(5);
    while number > 0 {
        digits.push((number % 10_000) as u16);
        number /= 10_000;
    }
    let count = digits.len() as u16;
    for head in [count, count.saturating_sub(1), 0, 0] {
        out.extend_from_slice(&head.to_be_bytes());
    }
    for digit in digits.iter().rev() {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_in_binary_is_what_postgresql_sends() {
        // As numeric_send() of PostgreSQL has 0, 12345678 and 10000.
        for (number, bytes) in [
            (0, &[0, 0, 0, 0, 0, 0, 0, 0][..]),
            (12_345_678, &[0, 2, 0, 1, 0, 0, 0, 0, 0x04, 0xd2, 0x16, 0x2e]),
            (10_000, &[0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            numeric_digits(&mut out, number);
            assert_eq!(out, bytes, "{number}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_null() {
        assert_eq!(small(u64::from(u32::MAX)), Value::Null);
        assert_eq!(small(7_u64), Value::Int4(7));
        assert_eq!(large(u64::MAX), Value::Null);
    }
}
