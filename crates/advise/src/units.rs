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
    /// Form that would have been right, with an example.
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

/// Size of one unit, as a numerator and a denominator: 1/1000 is no float, but 250/1000 is the
/// float nearest to 0.25.
fn scale(unit: &str, units: &[(&str, f64, f64)]) -> Option<(f64, f64)> {
    units.iter().find(|(name, ..)| *name == unit).map(|&(_, over, under)| (over, under))
}

/// A product of a number and a unit may be beyond every float.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(crate) const TIMES: [(&str, f64, f64); 8] = [
    ("ns", 1.0, 1e9),
    ("us", 1.0, 1e6),
    ("µs", 1.0, 1e6),
    ("ms", 1.0, 1e3),
    ("s", 1.0, 1.0),
    ("min", 60.0, 1.0),
    ("h", 3600.0, 1.0),
    ("d", 86_400.0, 1.0),
];

pub(crate) const SIZES: [(&str, f64, f64); 9] = [
    ("B", 1.0, 1.0),
    ("kB", 1e3, 1.0),
    ("KB", 1e3, 1.0),
    ("MB", 1e6, 1.0),
    ("GB", 1e9, 1.0),
    ("TB", 1e12, 1.0),
    ("KiB", 1024.0, 1.0),
    ("MiB", 1_048_576.0, 1.0),
    ("GiB", 1_073_741_824.0, 1.0),
];

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $wanted:expr, $read:expr, $most:expr, $write:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<$name, UnitError> {
                let read: fn(f64, &str) -> Option<$inner> = $read;
                let most: Option<($inner, &'static str)> = $most;
                let wrong = |wanted| UnitError { text: text.into(), wanted };
                let value = split(text).and_then(|(number, unit)| read(number, unit));
                match (value, most) {
                    (Some(value), Some((most, wanted))) if value > most => Err(wrong(wanted)),
                    (Some(value), _) => Ok($name(value)),
                    (None, _) => Err(wrong($wanted)),
                }
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
    |number, unit| {
        let (over, under) = scale(unit, &TIMES)?;
        finite(number * over / under)
    },
    // A clock of 64 bits counts nanoseconds for 584 years.
    Some((1e10, "a time of at most 1e10s, which is 317 years; give a shorter one")),
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
        let (over, under) = scale(per, &TIMES)?;
        finite(number * under / over)
    },
    None,
    |rate| format!("{}/s", significant(rate))
);

quantity!(
    /// A size \[bytes\], written `"1.5MiB"`.
    Bytes(u64),
    "a size such as \"50kB\" (B, kB, MB, GB, KiB, MiB, GiB)",
    |number, unit| {
        let bytes = (number * scale(unit, &SIZES)?.0).round();
        (bytes < 9e18).then_some(bytes as u64)
    },
    None,
    |bytes| {
        // Only so far as a float holds every digit.
        let (factor, unit) = match bytes {
            b if b >= 1 << 53 => return format!("{b}B"),
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
        let (over, under) = scale(time, &TIMES)?;
        finite(number * over / (under * scale(size, &SIZES)?.0))
    },
    None,
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

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "a time such as \"250ms\" (ns, us, ms, s, min, h, d)";

    #[test]
    fn quantities_are_read_with_their_units() {
        let times = [
            ("250ms", 0.25),
            ("1.5s", 1.5),
            ("2 min", 120.0),
            ("1h", 3600.0),
            ("1d", 86_400.0),
            ("12us", 12e-6),
            ("12µs", 12e-6),
            ("7ns", 7e-9),
            ("1e-3s", 1e-3),
            ("2.5e+1ms", 25e-3),
            ("1_000ms", 1.0),
            (" 0s ", 0.0),
        ];
        for (text, seconds) in times {
            let span: Span = text.parse().unwrap();
            assert!((span.0 - seconds).abs() <= 1e-15 * seconds, "{text}: {}", span.0);
        }
        assert_eq!("200/s".parse(), Ok(Rate(200.0)));
        assert_eq!("30/min".parse(), Ok(Rate(0.5)));
        assert_eq!("50kB".parse(), Ok(Bytes(50_000)));
        assert_eq!("1.5MiB".parse(), Ok(Bytes(1_572_864)));
        assert_eq!("500 B".parse(), Ok(Bytes(500)));
        let per_byte: PerByte = "0.485us/kB".parse().unwrap();
        assert!((per_byte.0 - 0.485e-9).abs() < 1e-24);
    }

    #[test]
    fn what_is_no_quantity_says_what_was_wanted() {
        let wrong =
            ["", "250", "ms", "-1s", "1ss", "1 S", "nan s", "inf s", "1e999s", "1e308d", "1e"];
        for text in wrong {
            let error = text.parse::<Span>().expect_err(text).to_string();
            let wanted = "a time such as \"250ms\" (ns, us, ms, s, min, h, d)";
            assert_eq!(error, format!("`{text}` is not {wanted}"));
        }
        for text in ["200", "200/", "200 per s", "-3/s", "5/month", "5s"] {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert_eq!(error, format!("`{text}` is not a rate such as \"200/s\" (/s, /min, /h)"));
        }
        for text in ["50", "50K", "50kb", "1e20GB", "-1B"] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            let wanted = "a size such as \"50kB\" (B, kB, MB, GB, KiB, MiB, GiB)";
            assert_eq!(error, format!("`{text}` is not {wanted}"));
        }
        for text in ["0.485us", "1kB/us", "us/kB", "1e308d/B"] {
            let error = text.parse::<PerByte>().expect_err(text).to_string();
            assert_eq!(error, format!("`{text}` is not a time per size such as \"0.485us/kB\""));
        }
    }

    /// The story: `--wait-max 1e300s` panicked, since no clock goes so far.
    #[test]
    fn a_time_that_no_clock_counts_is_refused() {
        for text in ["1e300s", "1e10001ms", "1e8d", "10000000001s"] {
            let error = text.parse::<Span>().expect_err(text).to_string();
            let wanted = "a time of at most 1e10s, which is 317 years; give a shorter one";
            let wanted = if text == "1e10001ms" { TIME } else { wanted };
            assert_eq!(error, format!("`{text}` is not {wanted}"));
        }
        assert_eq!("1e10s".parse(), Ok(Span(1e10)));
    }

    #[test]
    fn quantities_are_written_so_that_they_read_back() {
        let times = [(0.0, "0s"), (0.25, "250ms"), (1.5, "1.5s"), (90.0, "90s"), (12e-6, "12us")];
        for (seconds, text) in times {
            assert_eq!(Span(seconds).to_string(), text);
        }
        assert_eq!(Rate(31.16).to_string(), "31.16/s");
        assert_eq!(Rate(1e-4).to_string(), "0.0001/s");
        assert_eq!(Bytes(50_000).to_string(), "50kB");
        assert_eq!(Bytes(1_234_567).to_string(), "1234567B");
        assert_eq!(PerByte(0.4851e-6).to_string(), "485.1us/kB");
        // Six digits are kept: over 18 orders of magnitude nothing moves further than half a digit.
        for exponent in -9..9 {
            for digits in [1.0, 1.234_567_89, 9.999_994, 9.999_996] {
                let value = digits * 10f64.powi(exponent);
                let near = |read: f64| (read / value - 1.0).abs() < 5.1e-6;
                let span: Span = Span(value).to_string().parse().unwrap();
                let rate: Rate = Rate(value).to_string().parse().unwrap();
                let per_byte: PerByte = PerByte(value * 1e-9).to_string().parse().unwrap();
                assert!(near(span.0) && near(rate.0) && near(per_byte.0 * 1e9), "{value}");
            }
        }
        for bytes in
            [0, 1, 999, 1_000, 1_010, 123_450, 1_000_001, 7_777_000, (1 << 53) - 1, 1 << 53]
        {
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
    }
}
