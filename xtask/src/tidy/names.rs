//! Names that name nothing: a thing called a manager or a helper has no job that one could check.

use super::Finding;
use crate::source::Source;

/// As a type's last word, and, in small letters, as a file's or a module's.
const EMPTY: [&str; 10] = [
    "Manager", "Managers", "Helper", "Helpers", "Handler", "Handlers", "Util", "Utils", "Info",
    "Infos",
];
const WAY_OUT: &str = "name it after what it is in the field, or what it decides (STYLE.md, Names)";

/// A source file, or a type in it, with a name that says nothing.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for part in path.split('/') {
        let stem = part.split('.').next().unwrap_or_default();
        let last = stem.rsplit(['_', '-']).next().unwrap_or_default();
        if EMPTY.iter().any(|empty| empty.to_lowercase() == last) {
            findings.push(Finding::new(
                path,
                1,
                format!("the name `{part}` says nothing"),
                WAY_OUT,
            ));
        }
    }
    for (at, word) in source.words() {
        if !matches!(word, "struct" | "enum" | "union" | "trait" | "type") {
            continue;
        }
        let name = source.word_after(at + word.len());
        if EMPTY.iter().any(|empty| name.ends_with(empty)) {
            let cause = format!("the name of the {word} `{name}` says nothing");
            findings.push(Finding::new(path, source.line(at), cause, WAY_OUT));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(path, &Source::scan(text)).len()
    }

    #[test]
    fn names_that_say_nothing_fail() {
        for path in ["crates/a/src/utils.rs", "crates/a/src/host_info.rs", "a/helpers/mod.rs"] {
            assert_eq!(found(path, ""), 1, "{path}");
        }
        for text in [
            "struct PoolManager;",
            "enum Util {}",
            "trait Helper {}",
            "type A = B; type\nRunInfo = u8;",
        ] {
            assert_eq!(found("a.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn names_of_the_field_pass() {
        assert_eq!(found("crates/a/src/utilisation.rs", "struct Utilisation; struct Informed;"), 0);
        let used =
            "use libc::sysinfo; // struct Helper\nlet x: sigInfo = 1; let s = \"enum Info\";";
        assert_eq!(found("crates/measure/src/host.rs", used), 0);
    }
}
