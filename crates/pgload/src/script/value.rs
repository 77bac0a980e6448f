//! Values of a script's variables and expressions, as pgbench has them.

use std::fmt::Write;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A number in floating point.
    Double(f64),
    /// A text that nobody has calculated with: from a column (`\gset`) or the command line. It gets
    /// its type where an expression uses it.
    Text(Box<str>),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// A value of one type where another is needed.
    #[error("a {is} stands where a {needed} is needed")]
    Type {
        /// Type of the value.
        is: &'static str,
        /// Type that is needed.
        needed: &'static str,
    },
    /// A variable's text is no value of an expression.
    #[error("`{0}` is neither a number, a boolean nor null")]
    Malformed(String),
    /// A result has no place in 64 bits.
    #[error("the result is beyond a 64-bit integer")]
    Overflow,
    /// A division by zero.
    #[error("division by zero")]
    Division,
    /// A parameter is out of its range.
    #[error("{what} must be {must}, but it is {is}")]
    Range {
        /// Name of the parameter.
        what: &'static str,
        /// Condition that it must meet.
        must: &'static str,
        /// Its value.
        is: String,
    },
    /// A variable that nothing has set yet.
    #[error("`{0}` has no value yet")]
    Unset(String),
}

impl Value {
    /// Name of its type.
    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Double(_) => "double",
            Value::Text(_) => "text",
        }
    }

    /// Appends the text that a statement gets: a double with 15 significant digits, as C's `%.15g`.
    pub(super) fn write(&self, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Value::Null => out.write_str("NULL"),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Int(value) => write!(out, "{value}"),
            Value::Double(value) => out.write_str(&significant(*value)),
            Value::Text(text) => out.write_str(text),
        };
    }

    /// The value that an expression calculates with: a text gets its type.
    pub(super) fn typed(&self) -> Result<Value, EvalError> {
        match self {
            Value::Text(text) => of_text(text),
            value => Ok(value.clone()),
        }
    }

    /// As an integer; a double is rounded to the nearest, halves to even.
    pub(super) fn int(&self) -> Result<i64, EvalError> {
        match *self {
            Value::Int(value) => Ok(value),
            Value::Double(value) => {
                let value = value.round_ties_even();
                // -2^63 fits and 2^63 does not; both are doubles.
                let fits = value >= i64::MIN as f64 && value < -(i64::MIN as f64);
                if fits { Ok(value as i64) } else { Err(EvalError::Overflow) }
            }
            _ => Err(EvalError::Type { is: self.kind(), needed: "number" }),
        }
    }

    /// As a double.
    pub(super) fn double(&self) -> Result<f64, EvalError> {
        match *self {
            Value::Int(value) => Ok(value as f64),
            Value::Double(value) => Ok(value),
            _ => Err(EvalError::Type { is: self.kind(), needed: "number" }),
        }
    }

    /// As a boolean: nothing else is one.
    pub(super) fn bool(&self) -> Result<bool, EvalError> {
        match *self {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::Type { is: self.kind(), needed: "boolean" }),
        }
    }

    /// As a condition: NULL is false, and so is the number 0.
    pub(super) fn truth(&self) -> bool {
        match *self {
            Value::Null | Value::Text(_) => false,
            Value::Bool(value) => value,
            Value::Int(value) => value != 0,
            Value::Double(value) => value != 0.0,
        }
    }
}

/// A text as a value. Prefixes of true, false, yes and no are booleans, on and off too.
fn of_text(text: &str) -> Result<Value, EvalError> {
    let malformed = || EvalError::Malformed(text.to_owned());
    let lower = text.to_ascii_lowercase();
    if lower == "null" {
        return Ok(Value::Null);
    }
    if lower.is_empty() {
        return Err(malformed());
    }
    if "true".starts_with(&lower) || "yes".starts_with(&lower) || lower == "on" {
        return Ok(Value::Bool(true));
    }
    if "false".starts_with(&lower) || "no".starts_with(&lower) || ["off", "of"].contains(&&*lower) {
        return Ok(Value::Bool(false));
    }
    let digits = lower.strip_prefix(['-', '+']).unwrap_or(&lower);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return lower.parse().map(Value::Int).map_err(|_| EvalError::Overflow);
    }
    lower.trim().parse().map(Value::Double).map_err(|_| malformed())
}

/// A double as C's `%.15g` writes it.
fn significant(value: f64) -> String {
    const DIGITS: i32 = 15;
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .into();
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let bare = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", bare(mantissa), exponent.abs());
    }
    bare(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-2.0, "-2"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123_456_789_012_345_680.0, "1.23456789012346e+17"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1e300, "1e+300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn texts_get_their_type_when_they_are_used() {
        let typed = |text: &str| Value::Text(text.into()).typed();
        for (text, value) in [
            ("null", Value::Null),
            ("T", Value::Bool(true)),
            ("yes", Value::Bool(true)),
            ("on", Value::Bool(true)),
            ("of", Value::Bool(false)),
            ("n", Value::Bool(false)),
            ("-12", Value::Int(-12)),
            ("+7", Value::Int(7)),
            ("1.5e2", Value::Double(150.0)),
        ] {
            assert_eq!(typed(text), Ok(value), "{text}");
        }
        assert_eq!(typed("9223372036854775808"), Err(EvalError::Overflow));
        for text in ["", "o", "shop", "1 2"] {
            assert_eq!(typed(text), Err(EvalError::Malformed(text.into())), "{text}");
        }
    }

    #[test]
    fn a_double_becomes_the_nearest_integer() {
        for (value, rounded) in [(2.5, 2), (3.5, 4), (-2.5, -2), (1.4999, 1)] {
            assert_eq!(Value::Double(value).int(), Ok(rounded));
        }
        for value in [f64::NAN, f64::INFINITY, 9.3e18, -9.3e18] {
            assert_eq!(Value::Double(value).int(), Err(EvalError::Overflow), "{value}");
        }
        assert_eq!(Value::Double(i64::MIN as f64).int(), Ok(i64::MIN));
    }
}
