//! Layout of what a person reads: the columns of a line, and the colours of verdicts.
//!
//! A terminal decides by its width. What goes to a file or a pipe is not wrapped, so that a line can be
//! searched for; `COLUMNS` in the environment asks for a width there, and for another one on a terminal.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use console::{Style, Term};

/// Bounds on the width that is taken from a terminal or from `COLUMNS` [columns].
const COLUMNS_MIN: usize = 40;
const COLUMNS_MAX: usize = 1000;
/// Lines of text are hard to read when they are longer, however wide the terminal is [columns].
const TEXT_MAX: usize = 100;

/// Columns of a line; `None` where lines are not wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width(pub(crate) Option<usize>);

impl Width {
    /// Width of what is written to standard output.
    pub(crate) fn of_output() -> Width {
        static WIDTH: OnceLock<Width> = OnceLock::new();
        *WIDTH.get_or_init(|| Width::of(&Term::stdout(), io::stdout().is_terminal()))
    }

    /// Width of what is written to standard error.
    pub(crate) fn of_errors() -> Width {
        static WIDTH: OnceLock<Width> = OnceLock::new();
        *WIDTH.get_or_init(|| Width::of(&Term::stderr(), io::stderr().is_terminal()))
    }

    fn of(term: &Term, is_terminal: bool) -> Width {
        let asked = env::var("COLUMNS").ok();
        let terminal = is_terminal.then(|| term.size_checked().map(|(_, columns)| columns));
        Width::chosen(asked.as_deref(), terminal.flatten())
    }

    /// Width that is asked for by the environment, or else the terminal's. A width out of bounds, or one
    /// that is no number, is not taken.
    fn chosen(asked: Option<&str>, terminal: Option<u16>) -> Width {
        let asked = asked.and_then(|text| text.trim().parse().ok());
        let is_sound = |columns: &usize| (COLUMNS_MIN..=COLUMNS_MAX).contains(columns);
        Width(asked.filter(is_sound).or_else(|| terminal.map(usize::from).filter(is_sound)))
    }

    /// Columns of a table.
    pub(crate) fn of_table(self) -> usize {
        self.0.unwrap_or(usize::MAX)
    }

    /// Columns of running text.
    pub(crate) fn of_text(self) -> usize {
        self.0.map_or(usize::MAX, |columns| columns.min(TEXT_MAX))
    }
}

/// Words that begin a line as its verdict, by their colour.
const GOOD: [&str; 5] = ["holds", "fits", "measured", "answered", "reproduced"];
const BAD: [&str; 6] = ["fails", "invalid", "does not fit", "deviates", "refused", "error"];
const OPEN: [&str; 3] = ["inconclusive", "interrupted", "too few to tell"];

/// The text with its verdicts in colours: green for what is well, red for what is not, yellow for what is
/// not known. A verdict is a word at the beginning of a line, before a colon.
pub(crate) fn coloured(text: &str) -> String {
    let mut coloured = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let begin = line.len() - line.trim_start_matches(' ').len();
        let verdict = line[begin..].split_once(':').map_or("", |(word, _)| word);
        match style(verdict) {
            Some(style) => {
                coloured += &line[..begin];
                coloured += &style.force_styling(true).apply_to(verdict).to_string();
                coloured += &line[begin + verdict.len()..];
            }
            None => coloured += line,
        }
    }
    coloured
}

fn style(verdict: &str) -> Option<Style> {
    let style = Style::new().bold();
    match () {
        () if GOOD.contains(&verdict) => Some(style.green()),
        () if BAD.contains(&verdict) => Some(style.red()),
        () if OPEN.contains(&verdict) => Some(style.yellow()),
        () => None,
    }
}

/// True if standard output is a terminal that has colours, and `NO_COLOR` is not set.
pub(crate) fn are_colours_wanted_on_output() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| io::stdout().is_terminal() && are_allowed())
}

/// The same of standard error.
pub(crate) fn are_colours_wanted_on_errors() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| io::stderr().is_terminal() && are_allowed())
}

/// See <https://no-color.org>: any value that is not empty forbids them.
fn are_allowed() -> bool {
    let is_forbidden = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_forbidden && env::var_os("TERM").is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_filled_and_a_pipe_is_not_wrapped() {
        assert_eq!(Width::chosen(None, None), Width(None));
        assert_eq!(Width::chosen(None, Some(132)), Width(Some(132)));
        assert_eq!(Width::chosen(Some("60"), Some(132)), Width(Some(60)));
        assert_eq!(Width::chosen(Some("60"), None), Width(Some(60)));
        // Nonsense, and what no table fits into.
        for nonsense in ["", "wide", "-80", "0", "12", "99999999999999999999"] {
            assert_eq!(Width::chosen(Some(nonsense), Some(90)), Width(Some(90)), "{nonsense}");
        }
        assert_eq!(Width::chosen(None, Some(0)), Width(None), "a terminal that does not know");
        assert_eq!(Width(Some(240)).of_table(), 240);
        assert_eq!(Width(Some(240)).of_text(), TEXT_MAX);
        assert_eq!(Width(None).of_text(), usize::MAX);
    }

    #[test]
    fn verdicts_are_coloured_and_nothing_else_is() {
        let text = "holds: p99 < 50 ms\n\n  table  holds: no\n  fails: p90\ninconclusive: few\n";
        let expected = "\u{1b}[32m\u{1b}[1mholds\u{1b}[0m: p99 < 50 ms\n\n  table  holds: no\n  \
                        \u{1b}[31m\u{1b}[1mfails\u{1b}[0m: p90\n\
                        \u{1b}[33m\u{1b}[1minconclusive\u{1b}[0m: few\n";
        assert_eq!(coloured(text), expected);
        let plain = "what holds: it\nthreshold: 3\nerrors: 4\n";
        assert_eq!(coloured(plain), plain);
    }
}
