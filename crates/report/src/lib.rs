//! The report: one HTML file that opens from disk, prints, and says its verdict first.
//!
//! A [`Report`] is a typed document that knows nothing of queues: a verdict, facts, sections of
//! text, figures, tables and commands. What exists can be drawn: a [`Figure`] or a [`Table`] with a
//! number that is not finite, with an interval upside down, or with a zero on a logarithmic axis is
//! refused when it is built, with an error that names the figure and the series. Therefore
//! [`render`] cannot fail.
//!
//! The file holds its charting library, its style and its data, and asks the network for nothing.
//! Every figure also carries its numbers as a table: without JavaScript the tables stand
//! open instead of the figures.
//!
//! [`Sliders`] let the reader turn a model: the page then answers with the module of the crate `web`,
//! and figures that are [live](Figure::live) draw the answers beside their own series.
//!
//! Text is plain; a part between two backticks is set as code.

mod alternative;
mod figure;
mod html;
mod number;
mod sliders;
mod table;

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

pub use figure::{
    At, Axis, Curves, Fault, Figure, FigureError, Kind, Mark, Part, Plot, Point, Quantiles,
    Reference, Residuals, Role, Scale, Series, Stack, StackRow, Strip, StripRow,
};
pub use html::render;
pub use sliders::{Live, Sliders};
pub use table::{Cell, Column, Table, TableError};

/// Finding of a verb, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The expectation holds.
    Holds,
    /// The expectation does not hold.
    Fails,
    /// The interval straddles the limit.
    Inconclusive,
    /// The measurement cannot be used.
    Invalid,
    /// It was measured, and nothing was expected.
    Measured,
}

impl Outcome {
    /// The word, lower case.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Fails => "fails",
            Outcome::Inconclusive => "inconclusive",
            Outcome::Invalid => "invalid",
            Outcome::Measured => "measured",
        }
    }

    /// A sign beside the word, so that colour is never needed.
    pub fn sign(self) -> char {
        match self {
            Outcome::Holds => '\u{2713}',
            Outcome::Fails => '\u{2717}',
            Outcome::Inconclusive => '?',
            Outcome::Invalid => '!',
            Outcome::Measured => '=',
        }
    }
}

/// The first thing that a reader sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The word.
    pub outcome: Outcome,
    /// The finding in one line.
    pub line: String,
    /// What follows from it: sentences in the same box.
    #[serde(default)]
    pub details: Vec<String>,
}

/// One thing that is needed to judge or to repeat the run: seed, host, commit, command, date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The value's unit; empty if it has none.
    pub unit: String,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Block {
    /// Running text.
    Paragraph(String),
    /// A figure with its table of numbers.
    Figure(Figure),
    /// A table.
    Table(Table),
    /// Command to type next.
    Command {
        /// Why one would.
        why: String,
        /// The command line, or several lines.
        command: String,
    },
    /// A model that the reader may turn; a report has at most one that works, the first.
    Sliders(Sliders),
}

/// A heading and what stands under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    heading: String,
    blocks: Vec<Block>,
}

impl Section {
    /// A section without content.
    pub fn new(heading: impl Into<String>) -> Section {
        Section { heading: heading.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn paragraph(self, text: impl Into<String>) -> Section {
        self.block(Block::Paragraph(text.into()))
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(self, figure: Figure) -> Section {
        self.block(Block::Figure(figure))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Section {
        self.block(Block::Table(table))
    }

    /// Adds a command to type next, and why.
    #[must_use]
    pub fn command(self, why: impl Into<String>, command: impl Into<String>) -> Section {
        self.block(Block::Command { why: why.into(), command: command.into() })
    }

    /// Adds a model that the reader may turn.
    #[must_use]
    pub fn sliders(self, sliders: Sliders) -> Section {
        self.block(Block::Sliders(sliders))
    }

    fn block(mut self, block: Block) -> Section {
        self.blocks.push(block);
        self
    }
}

/// A whole report.
///
/// ```
/// use report::{Axis, Curves, Figure, Outcome, Report, Section, Series, render};
///
/// let throughput = Curves::new(Axis::linear("Load", "clients"), Axis::linear("Throughput", "1/s"))
///     .series(Series::line("formula", [(1.0, 95.0), (2.0, 180.0), (4.0, 310.0)]))
///     .series(Series::measured("seen", [(1.0, 96.0, 94.0, 98.0), (4.0, 305.0, 300.0, 310.0)]));
/// let figure = Figure::new("Throughput", "Formula and measurement agree.", throughput)?;
/// let report = Report::new("Capacity of the demo server")
///     .verdict(Outcome::Holds, "It holds 300/s.")
///     .fact("seed", "42", "")
///     .section(Section::new("Throughput").figure(figure));
/// assert!(render(&report).starts_with("<!DOCTYPE html>"));
/// # Ok::<(), report::FigureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    title: String,
    verdict: Option<Verdict>,
    lead: Vec<String>,
    facts: Vec<Fact>,
    sections: Vec<Section>,
}

impl Report {
    /// A report that says nothing yet.
    pub fn new(title: impl Into<String>) -> Report {
        Report {
            title: title.into(),
            verdict: None,
            lead: Vec::new(),
            facts: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Sets the verdict.
    #[must_use]
    pub fn verdict(mut self, outcome: Outcome, line: impl Into<String>) -> Report {
        self.verdict = Some(Verdict { outcome, line: line.into(), details: Vec::new() });
        self
    }

    /// Adds a sentence to the box of the verdict, if there is one.
    #[must_use]
    pub fn detail(mut self, text: impl Into<String>) -> Report {
        if let Some(verdict) = &mut self.verdict {
            verdict.details.push(text.into());
        }
        self
    }

    /// Adds a paragraph under the verdict.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Report {
        self.lead.push(text.into());
        self
    }

    /// Adds a fact; `unit` is empty if it has none.
    #[must_use]
    pub fn fact(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        unit: impl Into<String>,
    ) -> Report {
        self.facts.push(Fact { key: key.into(), value: value.into(), unit: unit.into() });
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Report {
        self.sections.push(section);
        self
    }

    /// The figures, in the order in which they are numbered.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Figure(figure) => Some(figure),
            Block::Paragraph(_) | Block::Table(_) | Block::Command { .. } | Block::Sliders(_) => {
                None
            }
        })
    }

    /// Writes the HTML file.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the message names it.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        fs::write(path, render(self)).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the report {} cannot be written: {error}", path.display()),
            )
        })
    }
}

#[cfg(test)]
mod tests;
