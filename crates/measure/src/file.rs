//! Records as files: JSON lines, so that a run that is killed leaves all that it had seen.
//!
//! A record is read as if an enemy had written it: each line has a bound, nothing is taken on
//! trust, and an error says where, why, and what to do.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Interval, RunHeader, RunRecord, RunSummary};

/// The version of the format of run records and recordings that is written, and the only one read.
pub(crate) const VERSION: u64 = 1;

/// Longest line \[bytes\].
const LINE_MAX: u64 = 64 << 20;

/// Why a file is no run record or no recording.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// There is nothing in it, or its first line is cut off.
    #[error("line 1: there is no complete header, so nothing was recorded; run it again")]
    NoHeader,
    /// The first line does not say that it is what was asked for.
    #[error(
        "line 1: this is no {wanted}: it does not begin with {{\"sekisho-{wanted}\":{VERSION},"
    )]
    NotThis {
        /// Kind of record that was asked for: `run`, `recording` or `knee`.
        wanted: &'static str,
    },
    /// It is of another version.
    #[error(
        "line 1: the format has version {found}, this program reads version {VERSION}; \
         read it with the program that wrote it"
    )]
    Version {
        /// The file's version.
        found: u64,
    },
    /// A line is longer than 64 MiB.
    #[error("line {line}: longer than 64 MiB, which no record needs; is it the right file?")]
    LineTooLong {
        /// The line, from 1.
        line: u64,
    },
    /// A key or a name is not known.
    #[error("line {line}, column {column}: unknown name `{name}`; {}", way_out(.nearest, .known))]
    UnknownName {
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: usize,
        /// Name that stands there.
        name: String,
        /// Name that was probably meant.
        nearest: Option<String>,
        /// All that may stand there.
        known: Vec<String>,
    },
    /// A line is no JSON, or has the wrong shape.
    #[error(
        "line {line}, column {column}: {cause}; the file was changed or damaged after it was \
         written, take the original"
    )]
    Malformed {
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: usize,
        /// Its fault.
        cause: String,
    },
    /// A line contradicts another, or itself.
    #[error(
        "line {line}: {cause}; the file was changed or damaged after it was written, take the \
         original"
    )]
    Inconsistent {
        /// The line, from 1.
        line: u64,
        /// The contradiction.
        cause: String,
    },
}

fn way_out(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "nothing may stand there".into(),
        None => format!("one of these may stand there: {}", known.join(", ")),
    }
}

/// Writes a run record while the run goes on. Each line is complete when its call returns, so
/// that a run that is killed leaves a readable record, cut off.
#[derive(Debug)]
pub struct RunWriter<W: Write> {
    out: W,
    checks: Checks,
}

impl<W: Write> RunWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If `out` fails, or the header is one that could not be read back.
    pub fn new(mut out: W, header: &RunHeader) -> io::Result<RunWriter<W>> {
        let checks = Checks::header(header).map_err(refused)?;
        write_line(&mut out, &RunFirst { version: VERSION, header })?;
        Ok(RunWriter { out, checks })
    }

    /// Writes an interval.
    ///
    /// # Errors
    /// If `out` fails, or the interval is one that could not be read back: its classes are not the
    /// header's, its numbers are not finite, it starts before the last one.
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        self.checks.interval(interval).map_err(refused)?;
        write_line(&mut self.out, &RunLine::<&Interval, &RunSummary>::Interval(interval))
    }

    /// Writes the summary, which says that the run came to its end, and gives `out` back.
    ///
    /// # Errors
    /// If `out` fails, or the summary could not be read back.
    pub fn finish(mut self, summary: &RunSummary) -> io::Result<W> {
        check_number("elapsed_s", summary.elapsed_s).map_err(refused)?;
        write_line(&mut self.out, &RunLine::<&Interval, &RunSummary>::Summary(summary))?;
        Ok(self.out)
    }
}

/// Reads a run record. One that is cut off, even in the middle of its last line, is read up to
/// there; its `summary` is `None`.
///
/// # Errors
/// See [`ReadError`].
pub fn read_run(input: impl BufRead) -> Result<RunRecord, ReadError> {
    let mut lines = Lines::new(input);
    let header: RunHeader = lines.first::<RunFirst<RunHeader>>("run")?.header;
    let mut checks = Checks::header(&header).map_err(|cause| lines.inconsistent(cause))?;
    let mut record = RunRecord { header, intervals: Vec::new(), summary: None };
    while let Some(line) = lines.next::<RunLine<Interval, RunSummary>>()? {
        if record.summary.is_some() {
            return Err(lines.inconsistent("something follows the summary".into()));
        }
        let checked = match line {
            RunLine::Interval(interval) => {
                let checked = checks.interval(&interval);
                record.intervals.push(interval);
                checked
            }
            RunLine::Summary(summary) => {
                let checked = check_number("elapsed_s", summary.elapsed_s);
                record.summary = Some(summary);
                checked
            }
        };
        checked.map_err(|cause| lines.inconsistent(cause))?;
    }
    Ok(record)
}

/// The first line of a run record.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFirst<H> {
    /// Version of the format.
    #[serde(rename = "sekisho-run")]
    version: u64,
    header: H,
}

/// Every other line of a run record.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunLine<I, S> {
    Interval(I),
    Summary(S),
}

/// Checks of what the types of a run record cannot say.
#[derive(Debug)]
pub(crate) struct Checks {
    classes: usize,
    started_s: f64,
}

impl Checks {
    pub(crate) fn header(header: &RunHeader) -> Result<Checks, String> {
        check_number("warmup_s", header.warmup_s)?;
        match &header.load {
            crate::LoadShape::Closed { think_s, .. } => check_number("think_s", *think_s)?,
            crate::LoadShape::Poisson { rate, .. } | crate::LoadShape::Fixed { rate, .. } => {
                check_number("rate", *rate)?;
            }
            crate::LoadShape::Varying { phases, .. } => {
                for phase in phases {
                    check_number("start_s of a phase", phase.start_s)?;
                    check_number("length_s of a phase", phase.length_s)?;
                    check_number("arrivals of a phase", phase.arrivals)?;
                }
            }
        }
        if let crate::Until::Seconds(seconds) = header.until {
            check_number("until", seconds)?;
        }
        Ok(Checks { classes: header.classes.len(), started_s: 0.0 })
    }

    pub(crate) fn interval(&mut self, interval: &Interval) -> Result<(), String> {
        check_number("start_s", interval.start_s)?;
        check_number("length_s", interval.length_s)?;
        check_number("in_flight_mean", interval.in_flight_mean)?;
        for &cpu_s in &interval.generator.thread_cpu_s {
            check_number("thread_cpu_s", cpu_s)?;
        }
        if interval.classes.len() != self.classes {
            let (found, wanted) = (interval.classes.len(), self.classes);
            return Err(format!("the interval has {found} classes, the header {wanted}"));
        }
        if interval.start_s < self.started_s {
            let (start, last) = (interval.start_s, self.started_s);
            return Err(format!(
                "the interval starts at {start} s, before the last one ({last} s)"
            ));
        }
        self.started_s = interval.start_s;
        Ok(())
    }
}

pub(crate) fn check_number(name: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(format!("`{name}` is {value}, which is no length, rate or number of anything"))
}

pub(crate) fn refused(cause: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, cause)
}

/// Writes a line in one piece and sees it off.
pub(crate) fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    out.write_all(&bytes)?;
    out.flush()
}

/// The lines of a file, parsed one by one.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines { input, buffer: Vec::new(), number: 0 }
    }

    /// The first line, after a look at which format and version it is.
    pub(crate) fn first<T: DeserializeOwned>(
        &mut self,
        wanted: &'static str,
    ) -> Result<T, ReadError> {
        if !self.advance()? {
            return Err(ReadError::NoHeader);
        }
        match serde_json::from_slice::<Formats>(&self.buffer) {
            Err(error) if self.is_cut_off(&error) => return Err(ReadError::NoHeader),
            Err(error) if self.buffer.starts_with(b"{\"sekisho-") && !error.is_data() => {
                return Err(self.explain(&error));
            }
            Err(_) => return Err(ReadError::NotThis { wanted }),
            Ok(formats) => match formats.of(wanted) {
                None => return Err(ReadError::NotThis { wanted }),
                Some(VERSION) => {}
                Some(found) => return Err(ReadError::Version { found }),
            },
        }
        serde_json::from_slice(&self.buffer).map_err(|error| self.explain(&error))
    }

    /// The next line; `None` at the end, also if the last line is cut off.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ReadError> {
        if !self.advance()? {
            return Ok(None);
        }
        match serde_json::from_slice(&self.buffer) {
            Ok(line) => Ok(Some(line)),
            Err(error) if self.is_cut_off(&error) => Ok(None),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// True if the line is the file's last, and wrong only in that it ends too early. A number may
    /// end where it is none yet: `1.` or `2e`.
    fn is_cut_off(&self, error: &serde_json::Error) -> bool {
        let in_number = || {
            error.column() >= self.buffer.len()
                && self.buffer.last().is_some_and(|last| b"-+.eE".contains(last))
        };
        !self.buffer.ends_with(b"\n") && (error.is_eof() || in_number())
    }

    /// Reads a line into the buffer; `false` at the end.
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.buffer.clear();
        self.number += 1;
        (&mut self.input).take(LINE_MAX + 1).read_until(b'\n', &mut self.buffer)?;
        if self.buffer.len() as u64 > LINE_MAX {
            return Err(ReadError::LineTooLong { line: self.number });
        }
        Ok(!self.buffer.is_empty())
    }

    pub(crate) fn inconsistent(&self, cause: String) -> ReadError {
        ReadError::Inconsistent { line: self.number, cause }
    }

    fn explain(&self, error: &serde_json::Error) -> ReadError {
        let (line, column) = (self.number, error.column());
        // The parser knows only this one line; its own position is at the end of its message.
        let message = error.to_string();
        let cause = message.rsplit_once(" at line ").map_or(&*message, |(cause, _)| cause);
        match unknown_name(cause) {
            Some((name, known)) => ReadError::UnknownName {
                line,
                column,
                nearest: nearest(&name, known.iter().map(String::as_str)).map(str::to_owned),
                name,
                known,
            },
            None => ReadError::Malformed { line, column, cause: shortened(cause, 300) },
        }
    }
}

/// Formats that a first line claims to be of.
#[derive(Deserialize)]
struct Formats {
    #[serde(rename = "sekisho-run")]
    run: Option<u64>,
    #[serde(rename = "sekisho-recording")]
    recording: Option<u64>,
    #[serde(rename = "sekisho-knee")]
    knee: Option<u64>,
}

impl Formats {
    /// Version of the format that is wanted.
    fn of(&self, wanted: &str) -> Option<u64> {
        match wanted {
            "run" => self.run,
            "knee" => self.knee,
            _ => self.recording,
        }
    }
}

/// Takes the name that is not known, and those that are, out of the message of a parser that was
/// given a key or a name by serde's rules; none if the message is about something else.
pub fn unknown_name(cause: &str) -> Option<(String, Vec<String>)> {
    let rest = ["unknown field `", "unknown variant `"]
        .iter()
        .find_map(|start| cause.strip_prefix(start))?;
    // The name may hold anything, so the list of the known is looked for from the end.
    let (name, known) = ["`, expected ", "`, there are no "]
        .iter()
        .find_map(|middle| rest.rsplit_once(middle))
        .unwrap_or((rest, ""));
    let known = known.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((shortened(name, 60), known))
}

/// The beginning of a text that may be megabytes long.
fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// The candidate that is spelt most like `word`, if one is near enough to be meant: at most a third
/// of its letters differ, or one. What an error about an unknown name suggests.
///
/// ```
/// assert_eq!(measure::nearest("sltos", ["slots", "servers"]), Some("slots"));
/// assert_eq!(measure::nearest("colour", ["slots", "servers"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    let edits_max = |candidate: &str| (candidate.chars().count() / 3).max(1);
    candidates
        .into_iter()
        // Whatever is so long is no name; and edits are at least the difference in length.
        .filter(|candidate| candidate.len() <= WORD_MAX)
        .filter(|candidate| letters.abs_diff(candidate.chars().count()) <= edits_max(candidate))
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|&(edits, candidate)| edits <= edits_max(candidate))
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// No name that is longer is suggested \[bytes\].
const WORD_MAX: usize = 200;

/// Number of letters to be put in, taken out, changed or exchanged with a neighbour to make one
/// word of the other (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
