//! The first line of a source file says why the file exists.

use super::Finding;
use crate::source::Source;

/// Fewer words than this name a thing, but say nothing of it.
const WORDS_MIN: usize = 3;

/// A file that does not begin with its reason.
pub(super) fn check(path: &str, source: &Source) -> Option<Finding> {
    let first = source.text.lines().next().unwrap_or_default();
    let words = first.strip_prefix("//!").map_or(0, |reason| reason.split_whitespace().count());
    (words < WORDS_MIN).then(|| {
        Finding::new(
            path,
            1,
            "the first line is no `//!` sentence",
            "begin the file with `//! ` and the reason why it exists",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(text: &str) -> bool {
        check("a.rs", &Source::scan(text)).is_none()
    }

    #[test]
    fn a_reason_on_the_first_line_passes() {
        assert!(passes("//! Decides: a gate is a queue.\n\nfn f() {}\n"));
    }

    #[test]
    fn anything_else_fails() {
        for text in [
            "",
            "fn main() {}",
            "// Decides: a gate.",
            "//!",
            "//! Gate.\n",
            "\n//! Too late is this.",
        ] {
            assert!(!passes(text), "{text}");
        }
    }
}
