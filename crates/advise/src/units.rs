//! Quantities as people write them in files and arguments: a number with its unit, never a bare
//! number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The text.
    pub text: String,
    /// What would have been right, with an example.
    pub wanted: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.wanted)
    }
}

impl std::error::Error for UnitError {}

/// A number and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|&(at, c)| {
            let exponent = matches!(c, 'e' | 'E')
                && text[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
            let sign = matches!(c, '-' | '+') && (at == 0 || text[..at].ends_with(['e', 'E']));
            !(c.is_ascii_digit() || c == '.' || c == '_' || exponent || sign)
        })
        .map_or(text.len(), |(at, _)| at);
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number, text[end..].trim()))
}

fn scale(unit: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

const TIMES: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

const SIZES: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $wanted:expr, $read:expr, $write:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<$name, UnitError> {
                let read: fn(f64, &str) -> Option<$inner> = $read;
                split(text)
                    .and_then(|(number, unit)| read(number, unit))
                    .map($name)
                    .ok_or_else(|| UnitError { text: text.into(), wanted: $wanted })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let write: fn($inner) -> String = $write;
                f.write_str(&write(self.0))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($wanted)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

quantity!(
    /// A span of time \[s\], written `"250ms"`.
    Span(f64),
    "a time such as \"250ms\" (ns, us, ms, s, min, h, d)",
    |number, unit| Some(number * scale(unit, &TIMES)?),
    |seconds| {
        let (factor, unit) = match seconds {
            s if s == 0.0 || s >= 1.0 => (1.0, "s"),
            s if s >= 1e-3 => (1e3, "ms"),
            s if s >= 1e-6 => (1e6, "us"),
            _ => (1e9, "ns"),
        };
        format!("{}{unit}", significant(seconds * factor))
    }
);

quantity!(
    /// A rate [1/s], written `"200/s"`.
    Rate(f64),
    "a rate such as \"200/s\" (/s, /min, /h)",
    |number, unit| {
        let per = unit.strip_prefix('/')?;
        Some(number / scale(per, &TIMES)?)
    },
    |rate| format!("{}/s", significant(rate))
);

quantity!(
    /// A size \[bytes\], written `"1.5MiB"`.
    Bytes(u64),
    "a size such as \"50kB\" (B, kB, MB, GB, KiB, MiB, GiB)",
    |number, unit| {
        let bytes = (number * scale(unit, &SIZES)?).round();
        (bytes < 9e18).then_some(bytes as u64)
    },
    |bytes| {
        let (factor, unit) = match bytes {
            b if b >= 1_000_000 && b % 1_000 == 0 => (1e6, "MB"),
            b if b >= 1_000 && b % 10 == 0 => (1e3, "kB"),
            _ => (1.0, "B"),
        };
        format!("{}{unit}", bytes as f64 / factor)
    }
);

quantity!(
    /// Time that each byte costs \[s/byte\], written `"0.485us/kB"`.
    PerByte(f64),
    "a time per size such as \"0.485us/kB\"",
    |number, unit| {
        let (time, size) = unit.split_once('/')?;
        Some(number * scale(time, &TIMES)? / scale(size, &SIZES)?)
    },
    |per_byte| format!("{}us/kB", significant(per_byte * 1e9))
);

/// Six significant digits, without trailing zeros: what a file keeps of a fitted number.
fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = (5 - value.abs().log10().floor() as i32).clamp(0, 15) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}
