//! Words that must not land: unfinished work, forgotten debugging, tests that are switched off.

use super::Finding;
use crate::source::{Kind, Source};

/// Promises of later work, anywhere in the text. In two parts, or this file would break the rule.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
/// Macros that stand for code that is not there, or for a look inside.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Forbidden words in a source file.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |at: usize, cause: String, way_out: &str| {
        findings.push(Finding::new(path, source.line(at), cause, way_out));
    };
    for (at, word) in raw_words(source.text) {
        if PROMISES.contains(&word) {
            report(at, format!("`{word}`"), "do it, or leave it out and open an issue");
        }
    }
    for (at, word) in source.words() {
        let is_macro = source.code().get(source.skip_space(at + word.len())) == Some(&b'!');
        if MACROS.contains(&word) && is_macro {
            report(at, format!("`{word}!`"), "write what belongs here, or remove it");
        }
    }
    for at in ignored_tests(source) {
        report(at, "`#[ignore]`".to_owned(), "make the test pass and fast, or remove it");
    }
    for (at, _) in source.text.match_indices("```") {
        let info = source.text[at + 3..].lines().next().unwrap_or_default();
        if source.kind(at) == Kind::Comment && info.split(',').any(|word| word.trim() == "ignore") {
            report(at, "a doc test that is ignored".to_owned(), "make it run, or mark it `text`");
        }
    }
    findings
}

/// The attributes that switch a test off, plain or on a condition.
fn ignored_tests(source: &Source) -> Vec<usize> {
    let code = source.code();
    let starts = code.iter().enumerate().filter(|(_, byte)| **byte == b'#').map(|(at, _)| at);
    starts
        .filter(|at| {
            let open = source.skip_space(at + 1);
            if code.get(open) != Some(&b'[') {
                return false;
            }
            match source.word_after(open + 1) {
                "ignore" => true,
                "cfg_attr" => {
                    let end = attribute_end(code, open);
                    source.words().any(|(at, word)| (open..end).contains(&at) && word == "ignore")
                }
                _ => false,
            }
        })
        .collect()
}

fn attribute_end(code: &[u8], open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Runs of letters, digits and underscores of a text, code or not.
fn raw_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let outside = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(outside).map(move |word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check("a.rs", &Source::scan(text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unfinished_work_fails_in_code_and_comments() {
        let [later, broken] = PROMISES;
        assert_eq!(lines(&format!("\n// {later}: more\n")), [2]);
        assert_eq!(lines(&format!("\n\nlet s = \"{broken}\";")), [3]);
        assert_eq!(lines(&format!("/// {later}(me)")), [1]);
        assert_eq!(lines("todo!()\n; unimplemented !(\"x\")\n; dbg![x]"), [1, 2, 3]);
        assert_eq!(lines("std::todo!{}"), [1]);
    }

    #[test]
    fn tests_that_are_switched_off_fail() {
        assert_eq!(lines("#[test]\n#[ignore]\nfn f() {}"), [2]);
        assert_eq!(lines("# [ ignore = \"slow\" ]"), [1]);
        assert_eq!(lines("#[cfg_attr(not(feature = \"x\"), ignore)]"), [1]);
        assert_eq!(lines("/// ```ignore\n/// f();\n/// ```"), [1]);
        assert_eq!(lines("//! ```rust, ignore"), [1]);
    }

    #[test]
    fn honest_code_passes() {
        let later = PROMISES[0];
        for text in [
            "//! Says todo!() and #[ignore] and dbg! in prose.",
            "let s = \"dbg!(x) #[ignore] ```ignore\";",
            "let todo = 1; if todo != 2 { dbg(todo) }".replace("!=", "<").as_str(),
            &format!("// M{later} and {later}S are other words"),
            "#[cfg_attr(feature = \"serde\", derive(serde::Serialize))] struct S;",
            "#[serde(rename = \"ignore\")] struct S; let ignore = 1;",
            "/// ```text\n/// ignore\n/// ```",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }
}
