//! One value, from PgBouncer's way of writing it to ours and back, by its unit.

use advise::{Bytes, Span};
use formats::exchange::suggest;
use toml::Value;

use super::keys::Unit;

/// No time in a file is longer \[s\]: ten years are a mistake.
pub(super) const SPAN_MAX: f64 = 315_360_000.0;
const DAY: &str = "86400s";

/// A value of a key of PgBouncer as ours; none where it says that there is none.
pub(super) fn from_ini(unit: Unit, text: &str) -> Result<Option<Value>, String> {
    let own = |text: &str| Ok(Some(Value::String(text.into())));
    let is_zero = text.parse() == Ok(0.0);
    match unit {
        Unit::Apart | Unit::AnyText => own(text),
        Unit::Text => Ok((!text.is_empty()).then(|| Value::String(text.into()))),
        Unit::Check => own(match text {
            "" => "off",
            "<empty>" => "",
            text => text,
        }),
        Unit::List => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Ok(Some(Value::Array(names.map(|name| Value::String(name.into())).collect())))
        }
        Unit::CountOrNone if is_zero => Ok(None),
        Unit::Count | Unit::CountOrNone => Ok(Some(Value::Integer(count(text)?.into()))),
        Unit::SecondsOrOff if is_zero => own("off"),
        Unit::SecondsOrDay if is_zero => own(DAY),
        Unit::SecondsOrNone | Unit::MillisOrNone if is_zero => Ok(None),
        Unit::Seconds | Unit::SecondsOrOff | Unit::SecondsOrDay | Unit::SecondsOrNone => {
            own(&span(text, 1.0, "seconds")?)
        }
        Unit::MillisOrNone => own(&span(text, 1e-3, "milliseconds")?),
        Unit::Size => own(&Bytes(count(text)?.into()).to_string()),
        Unit::Switch => match text {
            "0" => Ok(Some(Value::Boolean(false))),
            "1" => Ok(Some(Value::Boolean(true))),
            _ => Err(format!("`{}` is neither 0 nor 1", shown(text))),
        },
        Unit::Choice(choices) => {
            let spaceless = text.replace(' ', "");
            match choices.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(&spaceless)) {
                Some((_, ours)) => own(ours),
                None => {
                    let known = choices.iter().map(|(theirs, _)| *theirs);
                    Err(format!("`{}` is not possible; {}", shown(text), suggest(text, known)))
                }
            }
        }
    }
}

/// A value of ours as PgBouncer writes it, if it can be said there.
pub(super) fn to_ini(unit: Unit, value: &Value) -> Option<String> {
    let text = value.as_str();
    let scaled = |per_second: f64| {
        let seconds = text?.parse::<Span>().ok()?.0;
        Some((seconds * per_second).to_string())
    };
    match unit {
        Unit::Apart => None,
        Unit::Text | Unit::AnyText => text
            .filter(|text| !text.contains(['\n', '\r']) && text.trim() == *text)
            .map(str::to_owned),
        Unit::Check => match text? {
            "off" => Some(String::new()),
            "" => Some("<empty>".into()),
            text => to_ini(Unit::Text, &Value::String(text.into())),
        },
        Unit::List => {
            let names: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
            let names = names?;
            let is_said = |name: &&str| !name.is_empty() && !name.contains([',', '\n', '\r']);
            names.iter().all(is_said).then(|| names.join(", "))
        }
        Unit::Count | Unit::CountOrNone => value.as_integer().map(|count| count.to_string()),
        Unit::SecondsOrOff if text == Some("off") => Some("0".into()),
        Unit::SecondsOrDay if text == Some(DAY) => Some("0".into()),
        // There 0 leaves it to what is said for all.
        Unit::SecondsOrNone if scaled(1.0)?.parse() == Ok(0.0) => None,
        Unit::Seconds | Unit::SecondsOrOff | Unit::SecondsOrDay | Unit::SecondsOrNone => {
            scaled(1.0)
        }
        Unit::MillisOrNone => {
            let millis = scaled(1e3)?.parse::<f64>().ok()?.round();
            Some(millis.to_string())
        }
        Unit::Size => Some(text?.parse::<Bytes>().ok()?.0.to_string()),
        Unit::Switch => value.as_bool().map(|on| u8::from(on).to_string()),
        Unit::Choice(choices) => {
            let ours = text?;
            let choice = choices.iter().find(|(_, known)| *known == ours);
            choice.map(|(theirs, _)| (*theirs).to_owned())
        }
    }
}

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| *number <= i32::MAX as u32);
    number.ok_or_else(|| format!("`{}` is no whole number from 0 to 2147483647", shown(text)))
}

/// So many of a unit of so many seconds, with the digits that our files keep.
fn span(text: &str, seconds: f64, unit: &str) -> Result<String, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    match number {
        Some(number) if number * seconds <= SPAN_MAX => Ok(Span(number * seconds).to_string()),
        Some(_) => Err(format!("`{}` {unit} are more than ten years", shown(text))),
        None => Err(format!("`{}` is no number of {unit} from 0 up", shown(text))),
    }
}

/// As much of a text as a message needs.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
