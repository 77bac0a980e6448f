//! LQN: layered queueing networks as text, the form in which the literature exchanges them.
//!
//! Words between spaces, in sections that begin with a capital letter and end with -1:
//! ```text
//! G "comment" 1e-5 100 1 0.9 -1
//! P 2   p users f i        p cpu s m 2            -1
//! T 2   t clients r go -1 users m 10 z 5   t pool n ask -1 cpu m 4   -1
//! E 2   s go 0 -1   y go ask 1.5 -1   s ask 0.02 0.01 -1   -1
//! ```
//! Activities, forwarding, groups, variables and whatever else has no counterpart in
//! [`solve::layered`] are refused by name, with the line.

use solve::layered::{CallCounts, CallKind, EntryId, Threads};

use super::Model;
use super::file::{self, suggest};
use super::layers::{Draft, DraftCall, IsShared, processor};
use crate::ReadError;

/// Number of phases of an entry here.
const PHASES: usize = 2;

/// Reads a file.
pub(super) fn read(file: &str, text: &str) -> Result<Model, ReadError> {
    let words = words(file, text)?;
    let last = text.lines().count().max(1) as u32;
    let mut reader = Reader { words, at: 0, last, draft: Draft::new(file) };
    let mut seen = Vec::new();
    while let Some(Word { text, line }) = reader.next() {
        if seen.contains(&text) {
            return Err(reader.draft.error(line, format!("section {text} is there twice")));
        }
        match text.as_str() {
            "G" => reader.general()?,
            "P" => reader.section(line, Reader::processor)?,
            "T" => reader.section(line, Reader::task)?,
            "E" => reader.section(line, Reader::entry)?,
            "A" => return Err(reader.refused(line, "activities")),
            "U" => return Err(reader.refused(line, "processor groups")),
            "R" | "C" => return Err(reader.refused(line, "SPEX reports and convergence variables")),
            other if other.starts_with('$') => {
                return Err(reader.refused(line, &format!("the variable {other}")));
            }
            other => {
                let cause = format!("`{other}` begins no section; known here: G, P, T, E");
                return Err(reader.draft.error(line, cause));
            }
        }
        seen.push(text);
    }
    for needed in ["P", "T", "E"] {
        if !seen.iter().any(|section| section == needed) {
            let cause = format!("the file ends without a section {needed}; add it");
            return Err(reader.draft.error(last, cause));
        }
    }
    reader.draft.finish()
}

#[derive(Clone)]
struct Word {
    text: String,
    line: u32,
}

/// The words of the file, comments left out; a text in double quotes is one.
fn words(file: &str, text: &str) -> Result<Vec<Word>, ReadError> {
    let mut words = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() || c == ',' => {}
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' => {
                let begun = line;
                let mut text = String::new();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some(c) => {
                            line += u32::from(c == '\n');
                            text.push(c);
                        }
                        None => {
                            let cause = "the quote that opens here is never closed; close it";
                            return Err(ReadError::at(file, begun, cause));
                        }
                    }
                }
                words.push(Word { text, line: begun });
            }
            c => {
                let mut text = String::from(c);
                let is_end = |c: &char| c.is_whitespace() || matches!(c, ',' | '#' | '"');
                while let Some(c) = chars.next_if(|c| !is_end(c)) {
                    text.push(c);
                }
                words.push(Word { text, line });
            }
        }
    }
    Ok(words)
}

struct Reader {
    words: Vec<Word>,
    at: usize,
    /// The last line of the file.
    last: u32,
    draft: Draft,
}

impl Reader {
    fn next(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(|word| word.text.as_str())
    }

    /// The next word, which there must be.
    fn word(&mut self, what: &str) -> Result<Word, ReadError> {
        let last = self.last;
        self.next()
            .ok_or_else(|| self.draft.error(last, format!("the file ends, {what} is missing")))
    }

    fn refused(&self, line: u32, what: &str) -> ReadError {
        self.draft.error(line, format!("{what}: not supported; express the model without"))
    }

    fn number(&mut self, what: &str) -> Result<f64, ReadError> {
        let word = self.word(what)?;
        file::number(&word.text)
            .map_err(|cause| self.draft.error(word.line, format!("{what}: {cause}")))
    }

    fn count(&mut self, what: &str) -> Result<u32, ReadError> {
        let word = self.word(what)?;
        file::count(&word.text)
            .map_err(|cause| self.draft.error(word.line, format!("{what}: {cause}")))
    }

    /// Numbers up to -1.
    fn numbers(&mut self, line: u32, what: &str) -> Result<Vec<f64>, ReadError> {
        let mut numbers = Vec::new();
        while self.peek() != Some("-1") {
            numbers.push(self.number(what)?);
            if numbers.len() > PHASES && numbers[PHASES..].iter().any(|number| *number != 0.0) {
                return Err(self.refused(line, "a third phase"));
            }
        }
        self.next();
        numbers.truncate(PHASES);
        if numbers.is_empty() {
            return Err(self.draft.error(line, format!("no {what}; give one before -1")));
        }
        Ok(numbers)
    }

    /// Comment, parameters of the other solver, -1.
    fn general(&mut self) -> Result<(), ReadError> {
        self.word("the comment of section G")?;
        while self.word("the -1 that ends section G")?.text != "-1" {}
        Ok(())
    }

    /// Reads a section: the number of its declarations, or 0, then one after the other up to -1.
    fn section(
        &mut self,
        line: u32,
        one: fn(&mut Reader, Word) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if self.peek().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit())) {
            self.number("the number of declarations")?;
        }
        loop {
            let word = self.word("the -1 that ends the section")?;
            if word.text == "-1" {
                return Ok(());
            }
            if word.line < line {
                unreachable!("lines grow");
            }
            one(self, word)?;
        }
    }

    /// `p NAME SCHEDULING [quantum] [m N | i] [R speed]`
    fn processor(&mut self, Word { text, line }: Word) -> Result<(), ReadError> {
        if text != "p" {
            return Err(self.draft.error(line, format!("`{text}` declares no processor; use p")));
        }
        let name = self.word("the name of a processor")?.text;
        let scheduling = self.word("the scheduling of a processor")?.text;
        let mut servers = Some(1);
        let is_shared = match scheduling.as_str() {
            "f" => IsShared::No,
            "s" => IsShared::Yes,
            "i" => {
                servers = None;
                IsShared::No
            }
            "h" | "p" | "r" | "c" => {
                let what = format!("scheduling `{scheduling}` of processor `{name}`");
                return Err(self.refused(line, &what));
            }
            other => {
                let cause = format!("`{other}` is no scheduling; known here: f, s, i");
                return Err(self.draft.error(line, cause));
            }
        };
        if is_shared == IsShared::Yes
            && self.peek().is_some_and(|text| text.parse::<f64>().is_ok_and(|n| n >= 0.0))
        {
            self.number("the quantum")?;
            self.draft.note("a quantum is left out: sharing is ideal");
        }
        let mut speed = 1.0;
        while let Some(flag) = self.peek() {
            match flag {
                "m" => {
                    self.next();
                    servers = Some(self.count("the multiplicity")?);
                }
                "i" => {
                    self.next();
                    servers = None;
                }
                "R" => {
                    self.next();
                    speed = self.number("the speed")?;
                }
                "r" => {
                    self.next();
                    self.no_replicas(line)?;
                }
                _ => break,
            }
        }
        self.draft.processor(line, processor(&name, servers, is_shared), speed).map(drop)
    }

    fn no_replicas(&mut self, line: u32) -> Result<(), ReadError> {
        if self.count("the number of replicas")? > 1 {
            return Err(self.refused(line, "replication"));
        }
        Ok(())
    }

    /// `t NAME SCHEDULING ENTRY ... -1 PROCESSOR [z think] [m N | i]`
    fn task(&mut self, Word { text, line }: Word) -> Result<(), ReadError> {
        if text != "t" {
            return Err(self.draft.error(line, format!("`{text}` declares no task; use t")));
        }
        let name = self.word("the name of a task")?.text;
        let scheduling = self.word("the scheduling of a task")?.text;
        let mut entries = Vec::new();
        loop {
            let word = self.word("the -1 after the entries of a task")?;
            if word.text == "-1" {
                break;
            }
            entries.push(word);
        }
        let processor = self.word("the processor of a task")?;
        let processor = self.draft.processor_index(processor.line, &processor.text)?;
        let (mut many, mut think) = (Some(1), 0.0);
        while let Some(flag) = self.peek().map(str::to_owned) {
            match flag.as_str() {
                "m" => {
                    self.next();
                    many = Some(self.count("the multiplicity")?);
                }
                "i" => {
                    self.next();
                    many = None;
                }
                "z" => {
                    self.next();
                    think = self.number("the think time")?;
                }
                "r" => {
                    self.next();
                    self.no_replicas(line)?;
                }
                "q" => return Err(self.refused(line, "a bound on a queue")),
                "g" => return Err(self.refused(line, "processor groups")),
                text if text.parse::<i64>().is_ok() && text != "-1" => {
                    self.next();
                    self.draft
                        .note("priorities are left out: all scheduling is by order of arrival");
                }
                _ => break,
            }
        }
        let threads = self.threads(line, &name, &scheduling, many, think)?;
        let task = self.draft.task(line, &name, processor, threads)?;
        for entry in entries {
            self.draft.entry(entry.line, task, &entry.text)?;
        }
        Ok(())
    }

    fn threads(
        &self,
        line: u32,
        name: &str,
        scheduling: &str,
        many: Option<u32>,
        think: f64,
    ) -> Result<Threads, ReadError> {
        let threads = match (scheduling, many) {
            ("r", Some(population)) => return Ok(Threads::Reference { population, think }),
            ("r", None) => {
                let cause = format!("reference task `{name}` is infinite; give it `m` customers");
                return Err(self.draft.error(line, cause));
            }
            ("n" | "f", Some(threads)) => Threads::Finite(threads),
            ("n" | "f", None) | ("i", _) => Threads::Infinite,
            ("h" | "p" | "b" | "u" | "P" | "S" | "A" | "R" | "W", _) => {
                return Err(
                    self.refused(line, &format!("scheduling `{scheduling}` of task `{name}`"))
                );
            }
            (other, _) => {
                let cause = format!("`{other}` is no scheduling; known here: r, n, f, i");
                return Err(self.draft.error(line, cause));
            }
        };
        if think > 0.0 {
            let cause = format!("task `{name}` thinks, which only reference tasks (r) do");
            return Err(self.draft.error(line, cause));
        }
        Ok(threads)
    }

    /// One line of section E.
    fn entry(&mut self, Word { text, line }: Word) -> Result<(), ReadError> {
        const KNOWN: [&str; 12] = ["s", "c", "f", "y", "z", "a", "p", "F", "A", "Z", "M", "H"];
        match text.as_str() {
            "s" | "c" | "f" => self.phases(line, &text),
            "y" => self.calls(line, CallKind::Synchronous),
            "z" => self.calls(line, CallKind::Asynchronous),
            "a" => {
                let id = self.entry_id()?;
                *self.draft.open(id) = self.number("the open arrival rate")?;
                // Older files end the line with -1.
                if self.peek() == Some("-1")
                    && self.words.get(self.at + 1).is_some_and(|next| {
                        next.text == "-1" || KNOWN.contains(&next.text.as_str())
                    })
                {
                    self.next();
                }
                Ok(())
            }
            "p" => {
                self.entry_id()?;
                self.number("the priority")?;
                self.draft.note("priorities are left out: all scheduling is by order of arrival");
                Ok(())
            }
            "M" => {
                self.entry_id()?;
                self.numbers(line, "time")?;
                self.draft.note("limits on service times are left out");
                Ok(())
            }
            "F" => Err(self.refused(line, "forwarding")),
            "A" => Err(self.refused(line, "activities")),
            "Z" => Err(self.refused(line, "think times of phases")),
            "H" => Err(self.refused(line, "histograms")),
            "P" | "V" | "Q" | "U" | "R" | "W" => Err(self.refused(line, "semaphores and locks")),
            other => {
                let way_out = suggest(other, KNOWN.into_iter());
                Err(self
                    .draft
                    .error(line, format!("`{other}` says nothing of an entry; {way_out}")))
            }
        }
    }

    fn entry_id(&mut self) -> Result<EntryId, ReadError> {
        let word = self.word("the name of an entry")?;
        self.draft.entry_id(word.line, &word.text)
    }

    /// Service times, their variation, or how many calls are made, by phase.
    fn phases(&mut self, line: u32, what: &str) -> Result<(), ReadError> {
        let id = self.entry_id()?;
        for (at, value) in self.numbers(line, "value of a phase")?.into_iter().enumerate() {
            let phase = self.draft.phase(id, at);
            match what {
                "s" => phase.demand = value,
                "c" => phase.scv = value,
                _ => {
                    phase.counts = match value {
                        0.0 => CallCounts::Geometric,
                        1.0 => CallCounts::Fixed,
                        _ => {
                            let cause = format!("`{value}` is no type of phase; use 0 or 1");
                            return Err(self.draft.error(line, cause));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn calls(&mut self, line: u32, kind: CallKind) -> Result<(), ReadError> {
        let from = self.entry_id()?;
        let to = self.word("the entry that is called")?.text;
        for (phase, mean) in self.numbers(line, "number of calls")?.into_iter().enumerate() {
            self.draft.call(DraftCall { line, from, phase, to: to.clone(), mean, kind });
        }
        Ok(())
    }
}
