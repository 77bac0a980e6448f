//! Access logs as a load: the requests of a log in their order, with their moments.
//!
//! The log is read line by line, and what is kept has a bound: a log of weeks is cut off, and says so.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::access_log::{class_of, clf_time, rfc3339};
use super::{number, shown, wrong};
use crate::ReadError;

/// The most requests that are kept: 12 bytes each.
const ROWS_MAX: usize = 5_000_000;
/// The most different requests.
const DIFFERENT_MAX: usize = 200_000;
/// Kinds of requests that are told apart; all others are one more.
const KINDS_MAX: usize = 20;
/// The longest line \[bytes\].
const LINE_MAX: u64 = 64 << 10;
/// The class of requests beyond the kinds that are told apart.
pub const OTHERS: &str = "others";

/// A log as a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// The different requests of the log.
    pub requests: Vec<LoggedTarget>,
    /// The names of their classes.
    pub classes: Vec<String>,
    /// Each line that is replayed: its moment since the first \[s\], and its request.
    pub rows: Vec<(f64, u32)>,
    /// True if the log's moments are whole seconds, within which its requests were spread evenly.
    pub spread: bool,
    /// Number of lines whose method was not asked for, by method.
    pub left_out: Vec<(String, u64)>,
    /// Number of lines that name no path of a server: garbage, proxies, `*`.
    pub unusable: u64,
    /// The line after which the log was cut off, where it is too long.
    pub cut_off: Option<usize>,
}

/// A request of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoggedTarget {
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
    /// Its class.
    pub class: u32,
}

/// Reads a log in Common or Combined format, or as JSON lines, keeping the requests whose method is among
/// those named. Durations are not needed.
///
/// # Errors
/// If the file cannot be read, a line has no time or no request, or nothing is left to replay.
pub fn read_replay(path: &Path, methods: &[&str]) -> Result<Replay, ReadError> {
    let failed = |cause: String| {
        ReadError::whole(format!("cannot read the log {}: {cause}", path.display()))
    };
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut reading = Reading::default();
    let mut line = Vec::new();
    for nth in 1.. {
        line.clear();
        let read = (&mut input).take(LINE_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| failed(error.to_string()))? == 0 {
            break;
        }
        if line.len() as u64 == LINE_MAX {
            return Err(wrong(path, nth, "the line is longer than 64 KiB; is it the right file?"));
        }
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let entry = if text.trim_start().starts_with('{') { json(&text) } else { common(&text) };
        let (time, method, target) = entry.map_err(|cause| wrong(path, nth, cause))?;
        if !reading.take(time, &method, &target, methods) {
            reading.replay.cut_off = Some(nth - 1);
            break;
        }
    }
    reading.finish(path, methods)
}

#[derive(Default)]
struct Reading {
    replay: Replay,
    /// The number of each request, by method and path.
    numbers: HashMap<(String, String), u32>,
    /// Lines of each kind of request.
    kinds: HashMap<String, u64>,
    left_out: HashMap<String, u64>,
}

impl Reading {
    /// Takes a line; false if it is one too many.
    fn take(&mut self, time: f64, method: &str, target: &str, methods: &[&str]) -> bool {
        let is_method = !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase());
        let is_path = target.starts_with('/') && target.chars().all(|c| c.is_ascii_graphic());
        if !is_method || !is_path {
            self.replay.unusable += 1;
            return true;
        }
        if !methods.contains(&method) {
            *self.left_out.entry(method.to_owned()).or_default() += 1;
            return true;
        }
        let target = target.split('#').next().unwrap_or(target);
        let key = (method.to_owned(), target.to_owned());
        let next = self.replay.requests.len() as u32;
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if next as usize == DIFFERENT_MAX => return false,
            None => {
                let (method, path) = key.clone();
                self.replay.requests.push(LoggedTarget { method, path, class: 0 });
                self.numbers.insert(key, next);
                next
            }
        };
        if self.replay.rows.len() == ROWS_MAX {
            return false;
        }
        *self.kinds.entry(kind(method, target)).or_default() += 1;
        self.replay.rows.push((time, number));
        true
    }

    fn finish(mut self, path: &Path, methods: &[&str]) -> Result<Replay, ReadError> {
        let mut left_out: Vec<(String, u64)> = self.left_out.into_iter().collect();
        left_out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        self.replay.left_out = left_out;
        if self.replay.rows.is_empty() {
            let cause = format!(
                "{}: there is nothing to replay in it: no line has the method {}",
                path.display(),
                methods.join(" or ")
            );
            return Err(ReadError::whole(cause));
        }
        let mut kinds: Vec<(String, u64)> = self.kinds.into_iter().collect();
        kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut classes: Vec<String> = kinds.into_iter().map(|(kind, _)| kind).collect();
        if classes.len() > KINDS_MAX {
            classes.truncate(KINDS_MAX);
            classes.push(OTHERS.into());
        }
        let last = classes.len() as u32 - 1;
        let numbers: HashMap<&str, u32> = classes.iter().map(String::as_str).zip(0..).collect();
        for request in &mut self.replay.requests {
            let kind = kind(&request.method, &request.path);
            request.class = numbers.get(kind.as_str()).copied().unwrap_or(last);
        }
        self.replay.classes = classes;
        self.replay.set_moments();
        Ok(self.replay)
    }
}

/// The kind of a request: a GET by its path alone, numbers in it as stars.
fn kind(method: &str, target: &str) -> String {
    let class = class_of(&format!("{method} {target}"));
    class.strip_prefix("GET ").map_or(class.clone(), str::to_owned)
}

impl Replay {
    /// Moments from the first on, in order; whole seconds are spread evenly.
    fn set_moments(&mut self) {
        // A server writes a line when it has answered: a log is nearly in order.
        self.rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = self.rows.first().map_or(0.0, |row| row.0);
        self.rows.iter_mut().for_each(|row| row.0 -= first);
        self.spread = self.rows.iter().all(|row| row.0.fract() == 0.0);
        if !self.spread {
            return;
        }
        let mut from = 0;
        while from < self.rows.len() {
            let second = self.rows[from].0;
            let count = self.rows[from..].iter().take_while(|row| row.0 == second).count();
            for (nth, row) in self.rows[from..from + count].iter_mut().enumerate() {
                row.0 += nth as f64 / count as f64;
            }
            from += count;
        }
    }
}

/// Time since the epoch \[s\], method and target of a line in Common or Combined format.
fn common(line: &str) -> Result<(f64, String, String), String> {
    let stamp = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let (stamp, rest) = stamp.ok_or_else(|| {
        format!("`{}` has no time in brackets, as Common and Combined logs have", shown(line))
    })?;
    // `[$msec]` of nginx is a number.
    let time = clf_time(stamp).or_else(|| rfc3339(stamp)).or_else(|| epoch(number(stamp)?));
    let time = time.ok_or_else(|| {
        format!("`{}` is no time such as 10/Oct/2026:13:55:36 +0000", shown(stamp))
    })?;
    let request = rest.split('"').nth(1).ok_or("it has no request in quotes")?;
    let (method, target) = words(request);
    Ok((time, method, target))
}

/// `GET /a HTTP/1.1`; what is none has no method.
fn words(request: &str) -> (String, String) {
    let mut words = request.split_whitespace();
    match (words.next(), words.next()) {
        (Some(method), Some(target)) => (method.to_owned(), target.to_owned()),
        _ => (String::new(), String::new()),
    }
}

/// Seconds since the epoch of a number that counts seconds, milliseconds, microseconds or nanoseconds: a log of this
/// millennium has no other number in the range of each.
fn epoch(number: f64) -> Option<f64> {
    match number {
        0.0..1e11 => Some(number),
        1e11..1e14 => Some(number / 1e3),
        1e14..1e17 => Some(number / 1e6),
        1e17..1e20 => Some(number / 1e9),
        _ => None,
    }
}

/// Names that servers give to the time, the request line, the method and the path.
const TIMES: [&str; 9] = [
    "StartUTC",
    "time",
    "ts",
    "timestamp",
    "@timestamp",
    "time_iso8601",
    "time_local",
    "msec",
    "start_time",
];
const METHODS: [&str; 5] = ["method", "request_method", "verb", "http_method", "RequestMethod"];
const PATHS: [&str; 7] =
    ["uri", "path", "request_uri", "url", "target", "http_path", "RequestPath"];

/// The same of a JSON line, under the names that common servers use.
fn json(line: &str) -> Result<(f64, String, String), String> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| format!("this JSON is broken: {error}"))?;
    let of =
        |within: &Value, names: &[&str]| names.iter().find_map(|name| within.get(name).cloned());
    let time = of(&value, &TIMES)
        .ok_or_else(|| format!("it has no time; known names: {}", TIMES.join(", ")))?;
    let time = match &time {
        Value::String(text) => {
            rfc3339(text).or_else(|| clf_time(text)).or_else(|| epoch(number(text)?))
        }
        other => other.as_f64().and_then(epoch),
    }
    .ok_or_else(|| format!("`{}` is no time", shown(&time.to_string())))?;
    let inner = value.get("request").filter(|request| request.is_object()).unwrap_or(&value);
    if let Some(Value::String(request)) = value.get("request") {
        let (method, target) = words(request);
        return Ok((time, method, target));
    }
    let text =
        |names: &[&str]| of(inner, names).and_then(|value| value.as_str().map(str::to_owned));
    let path = text(&PATHS).ok_or_else(|| {
        format!(
            "it has no `request` such as \"GET /a HTTP/1.1\", and no path: {}",
            PATHS.join(", ")
        )
    })?;
    Ok((time, text(&METHODS).unwrap_or_else(|| "GET".into()), path))
}
