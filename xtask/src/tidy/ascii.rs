//! Code is ASCII: letters that look alike and spaces that cannot be seen hide errors. Comments and
//! literals may hold what they need.

use super::Finding;
use crate::source::{Kind, Source};

/// The first foreign character of each line of code.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let foreign = source.text.char_indices().filter(|(_, c)| !c.is_ascii());
    for (at, c) in foreign.filter(|(at, _)| source.kind(*at) == Kind::Code) {
        let line = source.line(at);
        if findings.last().is_none_or(|last| last.line != line) {
            let cause = format!("U+{:04X} `{c}` in code", u32::from(c));
            findings.push(Finding::new(path, line, cause, "write it in ASCII"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check("a.rs", &Source::scan(text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn foreign_characters_in_code_fail_once_a_line() {
        assert_eq!(lines("let \u{3bb}\u{3bc} = 1;\nlet a\u{a0}= 2;\nlet b = 3;"), [1, 2]);
    }

    #[test]
    fn comments_and_literals_may_hold_them() {
        assert_eq!(
            lines("// \u{2500}\u{25b6}\nlet s = \"\u{3bb}\"; let c = '\u{3bb}'; /* \u{3bb} */"),
            [0; 0]
        );
    }
}
