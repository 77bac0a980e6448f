//! From the document to its HTML: everything that was handed in is escaped here, once.

use std::fmt::Write as _;

use super::number::Digits;
use super::sliders::{Sliders, module, no_sliders};
use super::table::{Cell, Column, Narrow, Table};
use super::{Block, Fact, Figure, Outcome, Report, Section, Verdict, alternative};

/// A vendored file: what it is, its bytes and its licence.
pub(super) struct Library {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    pub(super) licence: &'static str,
}

/// The charting library and what it needs, in the order in which they must be loaded.
pub(super) const LIBRARIES: [Library; 2] = [
    Library {
        name: "d3 7.9.0",
        script: include_str!("../assets/d3-7.9.0/d3.min.js"),
        licence: include_str!("../assets/d3-7.9.0/LICENSE"),
    },
    Library {
        name: "Observable Plot 0.6.17",
        script: include_str!("../assets/plot-0.6.17/plot.umd.min.js"),
        licence: include_str!("../assets/plot-0.6.17/LICENSE"),
    },
];

const STYLE: &str = include_str!("page.css");
const WATCH: &str = include_str!("watch.js");
const SCRIPT: &str = include_str!("page.js");
const ANSWERER: &str = include_str!("answerer.js");
const TURN: &str = include_str!("sliders.js");

/// Nothing may be loaded from anywhere; what is inside the file may run.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; \
                      worker-src blob:; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// A table of contents helps from this many sections on.
const SECTIONS_FOR_CONTENTS: usize = 3;

/// A longer fact has a line of its own [bytes of HTML].
const FACT_SHORT: usize = 56;

/// The report as one HTML file.
pub fn render(report: &Report) -> String {
    render_with(report, module().ok_or_else(no_sliders))
}

/// The report with this module for its sliders, or with the sentence why there is none.
pub(super) fn render_with(report: &Report, module: Result<&str, String>) -> String {
    let html = String::with_capacity(1 << 20);
    let mut page = Page { html, figures: 0, module, sliders: None };
    page.head(&report.title);
    page.html.push_str("<main>\n<header>\n");
    page.element("h1", "", &escape(&report.title));
    if let Some(verdict) = &report.verdict {
        page.verdict(verdict);
    }
    for text in &report.lead {
        page.element("p", "lead", &inline(text));
    }
    page.facts(&report.facts);
    page.contents(&report.sections);
    page.html.push_str("</header>\n");
    for (index, section) in report.sections.iter().enumerate() {
        page.section(index + 1, section);
    }
    page.html.push_str("</main>\n");
    page.foot();
    page.scripts(report);
    page.html.push_str("</body>\n</html>\n");
    page.html
}

struct Page<'r> {
    html: String,
    figures: usize,
    module: Result<&'r str, String>,
    /// The first sliders.
    sliders: Option<&'r Sliders>,
}

impl<'r> Page<'r> {
    fn head(&mut self, title: &str) {
        let title = escape(title);
        let _ = write!(
            self.html,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"generator\" content=\"sekisho\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n<script>\n{WATCH}</script>\n\
             </head>\n<body>\n"
        );
    }

    /// `content` is HTML already.
    fn element(&mut self, name: &str, class: &str, content: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.html, "<{name}{class}>{content}</{name}>");
    }

    fn verdict(&mut self, verdict: &Verdict) {
        let word = verdict.outcome.word();
        let details = verdict.details.iter();
        let details = details.map(|text| format!("<span class=\"detail\">{}</span>", inline(text)));
        let _ = writeln!(
            self.html,
            "<p class=\"verdict {word}\">{}<span class=\"line\">{}</span>{}</p>",
            outcome(verdict.outcome),
            inline(&verdict.line),
            details.collect::<String>()
        );
    }

    fn facts(&mut self, facts: &[Fact]) {
        if facts.is_empty() {
            return;
        }
        self.html.push_str("<dl class=\"facts\">\n");
        for Fact { key, value, unit } in facts {
            let unit = match unit.as_str() {
                "" => String::new(),
                unit => format!("\u{a0}<span class=\"unit\">{}</span>", escape(unit)),
            };
            let (key, value) = (escape(key), inline(value));
            let class = if value.len() > FACT_SHORT { " class=\"long\"" } else { "" };
            let _ = writeln!(self.html, "<div{class}><dt>{key}</dt><dd>{value}{unit}</dd></div>");
        }
        self.html.push_str("</dl>\n");
    }

    fn contents(&mut self, sections: &[Section]) {
        if sections.len() < SECTIONS_FOR_CONTENTS {
            return;
        }
        self.html.push_str("<nav aria-label=\"Contents\"><ol>\n");
        for (index, section) in sections.iter().enumerate() {
            let (number, heading) = (index + 1, inline(&section.heading));
            let _ = writeln!(self.html, "<li><a href=\"#section-{number}\">{heading}</a></li>");
        }
        self.html.push_str("</ol></nav>\n");
    }

    fn section(&mut self, number: usize, section: &'r Section) {
        let heading = inline(&section.heading);
        let _ = writeln!(self.html, "<section id=\"section-{number}\">\n<h2>{heading}</h2>");
        for block in &section.blocks {
            match block {
                Block::Paragraph(text) => self.element("p", "", &inline(text)),
                Block::Figure(figure) => self.figure(figure),
                Block::Table(table) => self.table(table),
                Block::Command { why, command } => {
                    self.html.push_str("<div class=\"next\">\n");
                    self.element("p", "", &inline(why));
                    let lines: String = command
                        .lines()
                        .map(|line| format!("<code>{}</code>\n", escape(line)))
                        .collect();
                    let _ = writeln!(self.html, "<pre>{}</pre>\n</div>", lines.trim_end());
                }
                Block::Sliders(sliders) => self.sliders(sliders),
            }
        }
        self.html.push_str("</section>\n");
    }

    /// The place that `sliders.js` fills, with what a reader without scripts sees instead.
    fn sliders(&mut self, sliders: &'r Sliders) {
        if let Err(why) = &self.module {
            let why = inline(why);
            return self.element("p", "note", &why);
        }
        if self.sliders.is_some() {
            return;
        }
        self.sliders = Some(sliders);
        self.html.push_str(
            "<section id=\"sliders\" class=\"sliders\" aria-label=\"What if\">\n\
             <p class=\"note\" id=\"sliders-note\">With JavaScript and WebAssembly, sliders stand \
             here that run the formulas and the simulator of <code>sekisho</code> inside this page. \
             Without, <code>sekisho ask</code> answers the same.</p>\n</section>\n",
        );
    }

    fn figure(&mut self, figure: &Figure) {
        self.figures += 1;
        let number = self.figures;
        let _ = write!(
            self.html,
            "<figure id=\"figure-{number}\">\n\
             <p class=\"title\"><span class=\"number\">Figure {number}</span> {title}</p>\n\
             <div class=\"key\" aria-hidden=\"true\"></div>\n\
             <div class=\"plot\" role=\"img\" aria-label=\"{sentence}\"></div>\n\
             <figcaption>{caption}</figcaption>\n\
             <details open>\n<summary>The numbers</summary>\n",
            title = inline(figure.title()),
            sentence = escape(&alternative::sentence(figure)),
            caption = inline(figure.caption()),
        );
        self.table(&alternative::table(figure));
        for note in alternative::notes(figure) {
            self.element("p", "note", &escape(&note));
        }
        self.html.push_str("</details>\n</figure>\n");
    }

    fn table(&mut self, table: &Table) {
        let caption = table.caption();
        let is_stacked = table.narrow() == Narrow::Stacked;
        let class = if is_stacked { " class=\"stacked\"" } else { "" };
        let _ = write!(
            self.html,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table{class}>\n\
             <caption>{}</caption>\n<thead><tr>",
            escape(caption),
            inline(caption)
        );
        let formats: Vec<(Digits, bool)> =
            (0..table.columns().len()).map(|index| column_format(table, index)).collect();
        for (column, (_, numeric)) in table.columns().iter().zip(&formats) {
            let class = if *numeric { " class=\"numeric\"" } else { "" };
            let _ = write!(self.html, "<th scope=\"col\"{class}>{}", inline(&column.heading));
            if !column.unit.is_empty() {
                let _ =
                    write!(self.html, " <span class=\"unit\">[{}]</span>", escape(&column.unit));
            }
            self.html.push_str("</th>");
        }
        self.html.push_str("</tr></thead>\n<tbody>\n");
        for line in table.lines() {
            self.html.push_str("<tr>");
            for (index, (cell, format)) in line.iter().zip(&formats).enumerate() {
                let column = Some(&table.columns()[index]).filter(|_| is_stacked && index > 0);
                self.cell(index, cell, *format, column);
            }
            self.html.push_str("</tr>\n");
        }
        self.html.push_str("</tbody>\n</table>\n</div>\n");
    }

    /// The first cell names its row.
    /// A cell, and the column whose head stands beside it where the row is a block.
    fn cell(
        &mut self,
        index: usize,
        cell: &Cell,
        (digits, numeric): (Digits, bool),
        head: Option<&Column>,
    ) {
        let name = if index == 0 { "th scope=\"row\"" } else { "td" };
        let class = if numeric { " class=\"numeric\"" } else { "" };
        let format = |value: f64| digits.format(value);
        let text = match cell {
            Cell::Empty => "<span class=\"none\">\u{2013}</span>".to_owned(),
            Cell::Text(text) => inline(text),
            Cell::Number(value) => format(*value),
            Cell::Interval { value, lower, upper } => format!(
                "{} <span class=\"interval\">[{}, {}]</span>",
                format(*value),
                format(*lower),
                format(*upper)
            ),
            Cell::Range { lower, upper } => {
                format!("<span class=\"interval\">[{}, {}]</span>", format(*lower), format(*upper))
            }
            Cell::Outcome(found) => outcome(*found),
        };
        let end = if index == 0 { "th" } else { "td" };
        let head = head.map(|Column { heading, unit }| match unit.as_str() {
            "" => format!(" data-head=\"{}\"", escape(heading)),
            unit => format!(" data-head=\"{} [{}]\"", escape(heading), escape(unit)),
        });
        let head = head.unwrap_or_default();
        let _ = write!(self.html, "<{name}{class}{head}>{text}</{end}>");
    }

    fn foot(&mut self) {
        self.html.push_str(
            "<footer>\n\
             <p>This file is complete in itself: it loads nothing and sends nothing.</p>\n\
             <details>\n<summary>Licences of the drawing library inside this file</summary>\n",
        );
        for library in &LIBRARIES {
            self.element("h3", "", &escape(library.name));
            self.element("pre", "", &escape(library.licence));
        }
        self.html.push_str("</details>\n</footer>\n");
    }

    fn scripts(&mut self, report: &Report) {
        let figures: Vec<&Figure> = report.figures().collect();
        let json = serde_json::to_string(&figures)
            .expect("figures hold only strings and finite numbers, and no map has other keys");
        let json = escape_json(&json);
        let _ =
            writeln!(self.html, "<script type=\"application/json\" id=\"data\">{json}</script>");
        for script in LIBRARIES.iter().map(|library| library.script).chain([SCRIPT]) {
            let _ = writeln!(self.html, "<script>\n{script}</script>");
        }
        let (Ok(module), Some(Sliders { model, seed })) = (&self.module, self.sliders) else {
            return;
        };
        let _ = write!(
            self.html,
            "<script type=\"application/json\" id=\"model\" data-seed=\"{seed}\">{}</script>\n\
             <script type=\"text/plain\" id=\"module\">{module}</script>\n",
            escape_json(model)
        );
        for script in [ANSWERER, TURN] {
            let _ = writeln!(self.html, "<script>\n{script}</script>");
        }
    }
}

/// The digits of a column, and whether it holds numbers at all.
fn column_format(table: &Table, index: usize) -> (Digits, bool) {
    let cells = table.lines().iter().filter_map(move |line| line.get(index));
    let numbers = cells.flat_map(Cell::numbers);
    (Digits::for_column(numbers.clone()), numbers.clone().next().is_some())
}

fn outcome(outcome: Outcome) -> String {
    let (word, sign) = (outcome.word(), outcome.sign());
    format!(
        "<span class=\"outcome {word}\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span> \
         {word}</span>"
    )
}

/// Plain text as HTML; a part between two backticks becomes code.
fn inline(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after)) = after.split_once('`') else { break };
        html.push_str(&escape(before));
        let _ = write!(html, "<code>{}</code>", escape(code));
        rest = after;
    }
    html.push_str(&escape(rest));
    html
}

/// Text for an element's content or a quoted attribute.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // A control character is no text: HTML would read some of them as something else.
            letter if letter.is_control() && letter != '\n' && letter != '\t' => {
                html.push(char::REPLACEMENT_CHARACTER);
            }
            letter => html.push(letter),
        }
    }
    html
}

/// JSON inside a script element: no end tag and no comment can begin in it. In JSON these letters
/// occur only inside strings, where the escape means the same.
fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
