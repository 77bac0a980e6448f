//! Values of a configuration that are more than a number: a time that may be off, slots that may be
//! sought, a secret that no message shows.

use std::fmt;

use advise::Span;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time after which something ends, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timeout {
    /// Never; written `"off"`.
    Off,
    /// After this; written `"250ms"`.
    After(Span),
}

impl Timeout {
    /// The time, if there is one.
    pub fn span(self) -> Option<Span> {
        match self {
            Timeout::Off => None,
            Timeout::After(span) => Some(span),
        }
    }
}

impl Serialize for Timeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Timeout::Off => serializer.serialize_str("off"),
            Timeout::After(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timeout, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Timeout;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"250ms\", or \"off\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Timeout, E> {
                match text {
                    "off" => Ok(Timeout::Off),
                    text => text
                        .parse()
                        .map(Timeout::After)
                        .map_err(|error| E::custom(format!("{error}, nor \"off\""))),
                }
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Server connections of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// So many.
    Fixed(u32),
    /// Sought within the band of the table `auto`; written `"auto"`.
    Auto,
}

impl Slots {
    /// The number, if it is said.
    pub fn number(self) -> Option<u32> {
        match self {
            Slots::Fixed(slots) => Some(slots),
            Slots::Auto => None,
        }
    }
}

impl Serialize for Slots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Slots::Fixed(slots) => serializer.serialize_u32(*slots),
            Slots::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Slots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Slots, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Slots;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of slots, or \"auto\"")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Slots, E> {
                let slots = u32::try_from(number);
                slots
                    .map(Slots::Fixed)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Slots, E> {
                let slots = u32::try_from(number);
                slots
                    .map(Slots::Fixed)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Slots, E> {
                match text {
                    "auto" => Ok(Slots::Auto),
                    text => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(feature = "schema")]
mod schema {
    //! Schemas of the values that are read by hand above.

    use std::borrow::Cow;

    use advise::schema::time_pattern;
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{Slots, Timeout};

    impl JsonSchema for Timeout {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Timeout".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "type": "string",
                "title": "time or `off`",
                "pattern": format!("^(off|{})$", time_pattern()),
                "examples": ["off", "250ms"],
            })
        }
    }

    impl JsonSchema for Slots {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Slots".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "title": "whole number or `auto`",
                "type": ["integer", "string"],
                "minimum": 0,
                "pattern": "^auto$",
                "examples": [20, "auto"],
            })
        }
    }
}

/// A password: what prints the rest of a configuration does not print it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(..)")
    }
}
