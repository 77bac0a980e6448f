//! Source files that the documents name exist: a page that says where something is decided must not
//! outlive the file.

use super::{Finding, line_of};
use crate::tree::Tree;

/// Files named in code spans of the documents that no file of the repository is.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files: Vec<&str> = tree.with_extension("rs").map(|(path, _)| path).collect();
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md").filter(|(path, _)| describes_today(path)) {
        for (at, name) in named(text) {
            if !files.iter().any(|file| is_named(file, name)) {
                let cause = format!("`{name}` is no file of the repository");
                findings.push(Finding::new(
                    path,
                    line_of(text, at),
                    cause,
                    "name the file of today",
                ));
            }
        }
    }
    findings
}

/// True of the pages about the code as it is; a change log may name files that are gone.
fn describes_today(path: &str) -> bool {
    path.starts_with("docs/") || (!path.contains('/') && path != "CHANGELOG.md")
}

/// The code spans that name a Rust file, with their places.
fn named(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-');
    text.match_indices('`').filter_map(move |(at, _)| {
        let (name, _) = text[at + 1..].split_once('`')?;
        (name.ends_with(".rs") && name.chars().all(is_path)).then_some((at, name))
    })
}

/// True if the name is the file's path, or the end of it from a folder on.
fn is_named(file: &str, name: &str) -> bool {
    file.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, document: &str) -> Vec<usize> {
        let tree = Tree::of(&[("crates/gate/src/router/least.rs", ""), (path, document)]);
        check(&tree).into_iter().map(|one| one.line).collect()
    }

    #[test]
    fn files_that_are_there_pass_by_any_end_of_their_path() {
        let document = "`crates/gate/src/router/least.rs`, `router/least.rs` and `least.rs`, x.rs";
        assert!(found("docs/gate.md", document).is_empty());
    }

    #[test]
    fn a_file_that_is_gone_is_found_with_its_line() {
        for name in ["most.rs", "gate/least.rs", "east.rs"] {
            assert_eq!(found("docs/gate.md", &format!("\n`{name}`")), [2], "{name}");
            assert_eq!(found("ARCHITECTURE.md", &format!("\n`{name}`")), [2], "{name}");
        }
        assert!(found("CHANGELOG.md", "`most.rs`").is_empty(), "it tells of what was");
    }
}
