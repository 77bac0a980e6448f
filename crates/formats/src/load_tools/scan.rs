//! Reading the lines of a tool's output: labels, numbers with units, and errors with their line.

use std::fmt;

use advise::{Pace, Tool, ToolRun};

/// Fault of an output, with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The line of the whole input, from 1.
    pub line: usize,
    /// The fault.
    pub cause: String,
}

impl std::error::Error for Broken {}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

/// A run of which nothing is known yet.
pub(super) fn blank(tool: Tool) -> ToolRun {
    ToolRun {
        tool,
        clients: None,
        pace: if tool == Tool::Vegeta { Pace::Open } else { Pace::AtOnce },
        offered: None,
        throughput: 0.0,
        response: None,
        fastest: None,
        quantiles: Vec::new(),
        completed: 0,
        failed: 0,
        seconds: None,
        connecting: None,
        target: None,
        parts: Vec::new(),
        progress: Vec::new(),
        traps: Vec::new(),
    }
}

/// A line of the input and its number, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn broken(&self, wanted: &str) -> Broken {
        let seen: String = self.text.trim().chars().take(40).collect();
        Broken { line: self.number, cause: format!("`{seen}` has no {wanted}") }
    }

    /// The words of what stands after a label.
    pub(super) fn words(&self, label: &str) -> Vec<&'a str> {
        self.text.trim_start().strip_prefix(label).unwrap_or("").split_whitespace().collect()
    }
}

/// The lines of one run.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    pub(super) lines: Vec<Line<'a>>,
    /// The command that stands before it, if it was pasted too.
    pub(super) command: Option<&'a str>,
}

impl<'a> Section<'a> {
    /// The first line that begins with a label, whatever it is indented by.
    pub(super) fn find(&self, label: &str) -> Option<Line<'a>> {
        self.lines.iter().find(|line| line.text.trim_start().starts_with(label)).copied()
    }

    /// The same, which must be there.
    pub(super) fn need(&self, label: &str) -> Result<Line<'a>, Broken> {
        self.find(label).ok_or_else(|| {
            self.at_end(format!(
                "the output ends without a line `{}`: paste all of it",
                label.trim()
            ))
        })
    }

    /// An error at the section as a whole.
    pub(super) fn at_end(&self, cause: String) -> Broken {
        Broken { line: self.lines.last().map_or(1, |line| line.number), cause }
    }

    /// The n-th word after a label, read by `read`; `wanted` says what it should be.
    pub(super) fn value<T>(
        &self,
        label: &str,
        nth: usize,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Broken> {
        let line = self.need(label)?;
        let words = line.words(label);
        words.get(nth).and_then(|word| read(word)).ok_or_else(|| line.broken(wanted))
    }

    /// The same of a line that may be missing; one that is there must be right.
    pub(super) fn maybe<T>(
        &self,
        label: &str,
        nth: usize,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Broken> {
        match self.find(label) {
            Some(_) => self.value(label, nth, wanted, read).map(Some),
            None => Ok(None),
        }
    }

    /// The value of an option of the command that was pasted with the output.
    pub(super) fn option(&self, name: &str) -> Option<&'a str> {
        let mut words = self.command?.split_whitespace();
        while let Some(word) = words.next() {
            if word == name {
                return words.next();
            }
            if let Some(rest) = word.strip_prefix(name).filter(|rest| !rest.is_empty()) {
                return Some(rest.trim_start_matches('='));
            }
        }
        None
    }
}

/// A plain number: digits and at most one point, no sign, no exponent.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim_end_matches([',', ';']);
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| text.parse().ok()).flatten().filter(|value: &f64| *value < 1e15)
}

/// `99%`, or `99.9%`, or `99.00%`, as a share.
pub(super) fn percentile(text: &str) -> Option<f64> {
    let value = text.strip_suffix('%').and_then(number)?;
    // So that p99.9 is 0.999 and not its neighbour.
    (value <= 100.0).then(|| (value * 1e6).round() / 1e8)
}

/// A count.
pub(super) fn count(text: &str) -> Option<u64> {
    let text = text.trim_end_matches([',', ';', ':']);
    let plain = text.chars().all(|c| c.is_ascii_digit());
    // No tool counts further, and sums of such counts stay counts.
    plain.then(|| text.parse().ok()).flatten().filter(|count: &u64| *count < 1_000_000_000_000_000)
}

/// A number of clients, at least 1.
pub(super) fn clients(text: &str) -> Option<u32> {
    count(text).filter(|count| (1..=1_000_000).contains(count)).map(|count| count as u32)
}

/// A time with its unit stuck to it, as C and Go tools write it \[s\]: `12.3ms`, `1.5s`, `2m30.5s`.
pub(super) fn time(text: &str) -> Option<f64> {
    let (mut rest, mut sum) = (text.trim_end_matches(','), 0.0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let value = number(&rest[..end])?;
        let unit_end =
            rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        let unit = match &rest[end..unit_end] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" | "secs" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum += value * unit;
        rest = &rest[unit_end..];
    }
    Some(sum)
}

/// Half a unit of the last printed digit of a time, in its own unit \[s\].
pub(super) fn rounding(text: &str) -> f64 {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let places = text[..end].split_once('.').map_or(0, |(_, places)| places.len());
    let one = format!("1{}", &text[end..]);
    let unit = time(&one).unwrap_or(1.0);
    0.5 * 10f64.powi(-(places.min(15) as i32)) * unit
}

/// `http://host:port/path` without its scheme, so that tools that write it differently agree.
pub(super) fn target(url: &str) -> String {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let bare = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
    bare.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_their_unit() {
        for (text, seconds) in
            [("12.5ms", 12.5e-3), ("1.5s", 1.5), ("2m30.5s", 150.5), ("230.08us", 230.08e-6)]
        {
            let read = time(text).unwrap();
            assert!((read / seconds - 1.0).abs() < 1e-12, "{text}: {read}");
        }
        for text in ["", "12", "ms", "-1ms", "1e3ms", "nan", "1.2.3s", "5x", "1..2s"] {
            assert_eq!(time(text), None, "{text}");
        }
        assert!((rounding("32.17ms") - 5e-6).abs() < 1e-12);
    }
}
