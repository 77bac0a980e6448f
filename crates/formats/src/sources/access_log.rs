//! Access logs: Common and Combined with a duration at the end of the line, and JSON lines.

use std::collections::BTreeMap;
use std::path::Path;

use advise::LoggedRequest;
use serde_json::Value;

use super::{number, shown, text_of, unit_s, wrong};
use crate::ReadError;

/// More requests do not make a fit better.
const REQUESTS_MAX: usize = 5_000_000;
/// Paths are not classes when there are more of them.
const CLASSES_MAX: usize = 20_000;

/// Fields of a line.
#[derive(Clone, Debug)]
pub struct Fields {
    /// Names of the fields of JSON lines: time, duration, class.
    pub json: [String; 3],
    /// The unit of durations that are plain numbers.
    pub unit: Option<String>,
}

/// Content of a log.
#[derive(Clone, Debug)]
pub struct Log {
    /// Its requests, without those that failed.
    pub requests: Vec<LoggedRequest>,
    /// The names of their classes.
    pub classes: Vec<String>,
    /// Number of lines that failed (status 5xx).
    pub failed: usize,
}

/// A line, read.
struct Entry {
    /// Since the epoch \[s\].
    time: f64,
    seconds: f64,
    class: String,
    failed: bool,
}

/// Reads a log.
///
/// # Errors
/// If a file cannot be read, or a line of it: its place and the cause.
pub fn read_log(path: &Path, fields: &Fields) -> Result<Log, ReadError> {
    let text = text_of(path)?;
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    let mut log = Log { requests: Vec::new(), classes: Vec::new(), failed: 0 };
    for (nth, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let entry = if line.trim_start().starts_with('{') {
            json(line, fields)
        } else {
            common(line, fields)
        };
        let entry = entry.map_err(|cause| wrong(path, nth + 1, cause))?;
        if entry.failed {
            log.failed += 1;
            continue;
        }
        let next = classes.len();
        let class = *classes.entry(entry.class).or_insert(next);
        if classes.len() > CLASSES_MAX || log.requests.len() >= REQUESTS_MAX {
            let cause = format!(
                "there are more than {CLASSES_MAX} kinds of requests or {REQUESTS_MAX} requests; \
                 give a part of the log"
            );
            return Err(wrong(path, nth + 1, cause));
        }
        log.requests.push(LoggedRequest { ended: entry.time, seconds: entry.seconds, class });
    }
    let mut names = vec![String::new(); classes.len()];
    for (name, at) in classes {
        names[at] = name;
    }
    log.classes = names;
    Ok(log)
}

/// Common or Combined, a duration at the end.
fn common(line: &str, fields: &Fields) -> Result<Entry, String> {
    let stamp = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let (stamp, rest) = stamp.ok_or_else(|| {
        format!("`{}` has no time in brackets, as Common and Combined logs have", shown(line))
    })?;
    let time = clf_time(stamp).ok_or_else(|| {
        format!("`{}` is no time such as 10/Oct/2026:13:55:36 +0000", shown(stamp))
    })?;
    let mut quotes = rest.split('"');
    let request = quotes.nth(1).ok_or("it has no request in quotes")?;
    let after = quotes.next().ok_or("it has no status after the request")?;
    let status = after.split_whitespace().next().and_then(|text| text.parse::<u16>().ok());
    let status = status.filter(|status| (100..600).contains(status));
    let status = status.ok_or("it has no status after the request")?;
    let last = line.split_whitespace().last().unwrap_or("").trim_matches('"');
    if rest.trim_end().ends_with('"') && number(last).is_none() {
        return Err("it ends with a text, not with a duration: add $request_time (nginx) or %D \
                    (Apache) at the end of the log's format"
            .into());
    }
    // Common ends with status and bytes: then the last number is no duration.
    if after.split_whitespace().count() <= 2 && quotes.next().is_none() {
        return Err(
            "it ends with the bytes, not with a duration: add $request_time (nginx) or %D \
                    (Apache) at the end of the log's format"
                .into(),
        );
    }
    let seconds = duration(last, fields)?;
    Ok(Entry { time, seconds, class: class_of(request), failed: status >= 500 })
}

fn duration(text: &str, fields: &Fields) -> Result<f64, String> {
    let value = number(text).ok_or_else(|| format!("`{}` is no duration", shown(text)))?;
    let unit = match &fields.unit {
        Some(unit) => {
            unit_s(unit).ok_or_else(|| format!("`{unit}` is no unit: s, ms, us or ns"))?
        }
        // Only nginx writes a point, and then seconds.
        None if text.contains('.') => 1.0,
        None => {
            return Err(format!(
                "the duration `{text}` has no unit: say it with --time-unit (Apache's %D is us)"
            ));
        }
    };
    let seconds = value * unit;
    if seconds > 86_400.0 {
        return Err(format!("a duration of {seconds} s is longer than a day: is the unit right?"));
    }
    Ok(seconds)
}

/// `GET /a/12?x=1 HTTP/1.1` is `GET /a/*`.
pub(super) fn class_of(request: &str) -> String {
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or("-"), words.next().unwrap_or("-"));
    let path = target.split(['?', '#']).next().unwrap_or(target);
    let is_number = |part: &str| {
        part.chars().any(|c| c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
    };
    let parts: Vec<&str> =
        path.split('/').map(|part| if is_number(part) { "*" } else { part }).collect();
    format!("{method} {}", parts.join("/")).chars().take(60).collect()
}

/// `10/Oct/2026:13:55:36 +0000`, since the epoch \[s\].
pub(super) fn clf_time(text: &str) -> Option<f64> {
    let (stamp, zone) = text.split_once(' ')?;
    let mut parts = stamp.split(['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let name = parts.next()?;
    let month = months.iter().position(|month| *month == name)? as i64 + 1;
    let mut next = || -> Option<i64> { parts.next()?.parse().ok() };
    let (year, hour, minute) = (next()?, next()?, next()?);
    // Apache's `%{msec_frac}t` and others put a fraction behind the seconds.
    let second = number(parts.next()?)?;
    moment([year, month, day, hour, minute, second as i64], second.fract(), zone)
}

/// `2026-10-10T13:55:36.250+02:00`, or with Z, since the epoch \[s\].
pub(super) fn rfc3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let at = rest.find(['Z', '+', '-'])?;
    let (clock, zone) = rest.split_at(at);
    let date: Vec<i64> = date.split('-').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let mut clock = clock.split(':');
    let hour = clock.next()?.parse().ok()?;
    let minute = clock.next()?.parse().ok()?;
    let second = number(clock.next()?)?;
    let [year, month, day] = date[..] else { return None };
    let zone = zone.replace(':', "");
    moment([year, month, day, hour, minute, second as i64], second.fract(), &zone)
}

/// Days from civil, and a zone such as +0130 or Z.
fn moment(
    [year, month, day, hour, minute, second]: [i64; 6],
    fraction: f64,
    zone: &str,
) -> Option<f64> {
    let within = (1970..3000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    let offset = match zone {
        "Z" => 0,
        _ if zone.len() == 5 && zone.is_ascii() => {
            let sign = match &zone[..1] {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            let (hours, minutes): (i64, i64) = (zone[1..3].parse().ok()?, zone[3..].parse().ok()?);
            sign * (hours * 3600 + minutes * 60)
        }
        _ => return None,
    };
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let whole = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    within.then_some(whole as f64 + fraction)
}

fn json(line: &str, fields: &Fields) -> Result<Entry, String> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| format!("this JSON is broken: {error}"))?;
    let [time_name, duration_name, class_name] = &fields.json;
    let field = |name: &str| {
        value.get(name).ok_or_else(|| {
            format!(
                "it has no field `{name}`; say which are meant with --fields TIME,DURATION,CLASS"
            )
        })
    };
    let time = field(time_name)?;
    let time = match time {
        Value::String(text) => rfc3339(text).or_else(|| clf_time(text)).or_else(|| number(text)),
        other => other.as_f64().filter(|seconds| (0.0..1e11).contains(seconds)),
    }
    .ok_or_else(|| format!("`{time_name}` is no time: {}", shown(&time.to_string())))?;
    let seconds = match field(duration_name)? {
        Value::String(text) => match text.parse::<advise::Span>() {
            Ok(span) => span.0,
            Err(_) => duration(text, fields)?,
        },
        other => duration(&other.to_string(), fields)?,
    };
    let class = match field(class_name)? {
        Value::String(text) if text.contains('/') && !text.contains(' ') => {
            class_of(&format!("- {text}")).trim_start_matches("- ").to_owned()
        }
        Value::String(text) => class_of_words(text),
        other => shown(&other.to_string()),
    };
    let failed = value.get("status").and_then(Value::as_u64).is_some_and(|status| status >= 500);
    Ok(Entry { time, seconds, class, failed })
}

fn class_of_words(text: &str) -> String {
    if text.split_whitespace().count() >= 2 { class_of(text) } else { shown(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_kinds_are_the_same_moment() {
        let seconds = 1_791_640_536.0;
        assert_eq!(clf_time("10/Oct/2026:13:55:36 +0000"), Some(seconds));
        assert_eq!(clf_time("10/Oct/2026:15:55:36 +0200"), Some(seconds));
        assert_eq!(rfc3339("2026-10-10T13:55:36Z"), Some(seconds));
        assert_eq!(rfc3339("2026-10-10T15:55:36.250+02:00"), Some(seconds + 0.25));
        for text in ["10/Okt/2026:13:55:36 +0000", "10/Oct/2026", "", "x/y", "2026-10-10T1Z"] {
            assert_eq!(clf_time(text).or(rfc3339(text)), None, "{text}");
        }
        assert_eq!(class_of("GET /a/12/b?c=1 HTTP/1.1"), "GET /a/*/b");
    }
}
