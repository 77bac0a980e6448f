//! The size of a crate: what one person reads in a day or two, and one change builds again.

use super::Finding;
use super::imports::source_folder;
use crate::manifest::Package;
use crate::tree::Tree;

/// The most lines of a crate's `src`, with comments and the tests in it.
const LINES_MAX: usize = 20_000;
/// Crates that may be larger, each with the reason.
const FREE: &[(&str, &str)] = &[];

/// Crates that are too large, and leave that nobody needs.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    judge(tree, packages, FREE)
}

fn judge(tree: &Tree, packages: &[Package], free: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let lines = lines(tree, package);
        let is_free = free.iter().any(|(name, _)| *name == package.name);
        if lines > LINES_MAX && !is_free {
            findings.push(Finding::new(
                &package.manifest,
                1,
                format!(
                    "the `src` of `{}` has {lines} lines; at most {LINES_MAX} are allowed",
                    package.name
                ),
                "split the crate where the arrows between its parts go one way",
            ));
        }
        if lines <= LINES_MAX && is_free {
            findings.push(Finding::new(
                "xtask/src/tidy/size.rs",
                1,
                format!("`{}` has only {lines} lines and needs no leave", package.name),
                "remove it from the list FREE",
            ));
        }
    }
    findings
}

/// The lines of a package's `src`.
pub(super) fn lines(tree: &Tree, package: &Package) -> usize {
    let folder = source_folder(package);
    let files = tree.with_extension("rs").filter(|(path, _)| path.starts_with(&folder));
    files.map(|(_, text)| text.lines().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: usize, free: &[(&str, &str)]) -> Vec<String> {
        let (half, rest) = (lines / 2, lines - lines / 2);
        let tree = Tree::of(&[
            ("crates/gate/src/lib.rs", &"//\n".repeat(half)),
            ("crates/gate/src/a/b.rs", &"//\n".repeat(rest)),
            ("crates/gate/tests/it/main.rs", "//\n"),
            ("crates/gateway/src/lib.rs", "//\n"),
        ]);
        let gate = Package {
            name: "gate".to_owned(),
            manifest: "crates/gate/Cargo.toml".to_owned(),
            uses: Vec::new(),
        };
        judge(&tree, &[gate], free).into_iter().map(|one| one.cause).collect()
    }

    #[test]
    fn a_crate_of_twenty_thousand_lines_passes_and_no_larger_one() {
        assert_eq!(found(20_000, &[]), [""; 0]);
        assert!(found(20_001, &[])[0].contains("has 20001 lines"));
    }

    #[test]
    fn leave_lasts_as_long_as_it_is_needed() {
        let free = [("gate", "why")];
        assert_eq!(found(20_001, &free), [""; 0]);
        assert!(found(20_000, &free)[0].contains("needs no leave"));
    }
}
