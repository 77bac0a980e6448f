//! Values of states and messages: few kinds, so that a rule is checked before it runs.

use std::fmt;
use std::sync::Arc;

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number with a fraction, finite.
    Number,
    /// A text.
    Text,
    /// True or false.
    Bool,
}

impl Kind {
    pub(crate) const NAMES: [(&'static str, Kind); 3] =
        [("number", Kind::Number), ("text", Kind::Text), ("bool", Kind::Bool)];

    /// Its word in a file of rules.
    pub fn word(self) -> &'static str {
        let named = Kind::NAMES.iter().find(|(_, kind)| *kind == self);
        named.expect("each kind has a name").0
    }

    /// A value of this kind, to try an expression with.
    pub(crate) fn sample(self) -> Value {
        match self {
            Kind::Number => Value::Number(1.0),
            Kind::Text => Value::Text("a".into()),
            Kind::Bool => Value::Bool(true),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::Bool => "true or false",
        })
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// A text.
    Text(Arc<str>),
    /// True or false.
    Bool(bool),
}

impl Value {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Number(_) => Kind::Number,
            Value::Text(_) => Kind::Text,
            Value::Bool(_) => Kind::Bool,
        }
    }

    /// The value that JSON tells; `None` if it is none of a kind that is known here.
    pub(crate) fn of_json(json: &serde_json::Value) -> Option<Value> {
        match json {
            serde_json::Value::Number(number) => {
                number.as_f64().filter(|it| it.is_finite()).map(Value::Number)
            }
            serde_json::Value::String(text) => Some(Value::Text(text.as_str().into())),
            serde_json::Value::Bool(it) => Some(Value::Bool(*it)),
            _ => None,
        }
    }
}

/// The place of a number in the order of all numbers, so that an index over whole numbers finds what
/// a number crosses: `a < b` exactly if `place(a) < place(b)`.
pub(crate) fn place(number: f64) -> i64 {
    assert!(!number.is_nan(), "values are numbers");
    // Both zeros are the same number.
    let bits = (number + 0.0).to_bits() as i64;
    // Of negative numbers a larger amount is the smaller one.
    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }
}

/// A stable name of bytes, the same in every build: FNV-1a of 64 bits, then mixed, so that short names
/// spread over all keys.
pub(crate) fn stable_hash(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        // The length keeps ("a", "bc") apart from ("ab", "c").
        for byte in (part.len() as u64).to_le_bytes().iter().chain(*part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // The finaliser of SplitMix64.
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn the_place_of_a_number_keeps_the_order() {
        let ordered = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1e9,
            -1.5,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            1.0 + f64::EPSILON,
            1e9,
            f64::MAX,
            f64::INFINITY,
        ];
        for pair in ordered.windows(2) {
            assert!(place(pair[0]) < place(pair[1]), "{pair:?}");
        }
        assert_eq!(place(0.0), place(-0.0));
        assert!(place(f64::NEG_INFINITY) > i64::MIN && place(f64::INFINITY) < i64::MAX);
    }
}
