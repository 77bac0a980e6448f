//! The rules of `ARCHITECTURE.md` and `STYLE.md` that a machine can check in about a second. What
//! clippy can see is clippy's.

mod ascii;
mod circles;
mod figures;
mod functions;
mod graph;
mod heads;
mod imports;
mod links;
mod lints;
mod names;
mod openings;
pub(crate) mod policies;
mod shares;
mod size;
mod sources;
mod words;

use std::fmt;
use std::path::Path;

use crate::manifest;
use crate::source::Source;
use crate::tree::Tree;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The file, relative to the repository.
    path: String,
    /// The line, counted from 1.
    line: usize,
    /// The rule that is broken, and by what.
    cause: String,
    /// The way to mend it.
    way_out: String,
}

impl Finding {
    fn new(
        path: &str,
        line: usize,
        cause: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Finding {
        Finding { path: path.to_owned(), line, cause: cause.into(), way_out: way_out.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, cause, way_out } = self;
        write!(f, "{path}:{line}: {cause}\n    way out: {way_out}")
    }
}

/// Checks the repository.
///
/// # Errors
/// All places where a rule is broken, ready to print, or why the repository cannot be read.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let findings = check(&Tree::read(root)?, &manifest::packages(root)?);
    if findings.is_empty() {
        return Ok(());
    }
    let mut report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    report.push(format!("tidy: findings: {}", findings.len()));
    Err(report.join("\n"))
}

/// A table of figures that the rules are about.
///
/// # Errors
/// The repository cannot be read.
pub(crate) fn figures(root: &Path) -> Result<String, String> {
    let tree = Tree::read(root)?;
    Ok(figures::table(&scanned(&tree), &manifest::packages(root)?))
}

/// All Rust files, scanned.
fn scanned(tree: &Tree) -> Vec<(&str, Source<'_>)> {
    tree.with_extension("rs").map(|(path, text)| (path, Source::scan(text))).collect()
}

fn check(tree: &Tree, packages: &[manifest::Package]) -> Vec<Finding> {
    let mut findings = graph::check(tree, packages);
    findings.extend(lints::check(tree, packages));
    findings.extend(links::check(tree));
    findings.extend(policies::check(tree));
    findings.extend(size::check(tree, packages));
    findings.extend(sources::check(tree));
    let sources = scanned(tree);
    findings.extend(functions::check(&sources, tree.text(functions::LIST).unwrap_or_default()));
    findings.extend(circles::check(&sources, packages));
    let list = tree.text(openings::LIST).unwrap_or_default();
    findings.extend(openings::check(&sources, packages, list));
    for (path, source) in &sources {
        findings.extend(ascii::check(path, source));
        findings.extend(heads::check(path, source));
        findings.extend(names::check(path, source));
        findings.extend(shares::check(path, source));
        findings.extend(words::check(path, source));
    }
    findings.sort();
    findings
}

/// The line of a byte of a text that is not Rust, counted from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_the_place_the_cause_and_the_way_out() {
        let finding = Finding::new("crates/gate/src/lib.rs", 7, "broken", "mend it");
        assert_eq!(finding.to_string(), "crates/gate/src/lib.rs:7: broken\n    way out: mend it");
    }

    #[test]
    fn every_check_is_asked() {
        let long = "    step();\n".repeat(70);
        let many = "//\n".repeat(20_000);
        let circle: Vec<(String, String)> = (0..9)
            .map(|n| {
                let text = format!("use crate::m{}::M as N; pub struct M;", (n + 1) % 9);
                (format!("crates/gate/src/m{n}.rs"), text)
            })
            .collect();
        let source =
            format!("/// Whether.\nstruct UserInfo;\nlet \u{e9} = dbg!(1);\nfn f() {{\n{long}}}\n");
        let mut files = vec![
            ("crates/gate/src/lib.rs", &*source),
            ("crates/gate/src/many.rs", &many),
            ("crates/gate/Cargo.toml", "[package]\nname = \"gate\"\n"),
            ("README.md", "[gone](gone.md) `gone.rs`\n"),
        ];
        files.extend(circle.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let tree = Tree::of(&files);
        let gate = manifest::Package {
            name: "gate".to_owned(),
            manifest: "crates/gate/Cargo.toml".to_owned(),
            uses: Vec::new(),
        };
        let causes: Vec<String> = check(&tree, &[gate]).into_iter().map(|one| one.cause).collect();
        for part in [
            "Who may use whom",  // graph
            "[lints]",           // lints
            "gone.md",           // links
            "`f` has 72 lines",  // functions
            "U+00E9",            // ascii
            "`//!`",             // heads
            "UserInfo",          // names
            "20000 are allowed", // size
            "`gone.rs`",         // sources
            "9 files import",    // circles
            "begin with What",   // openings
            "dbg!",              // words
        ] {
            assert!(causes.iter().any(|cause| cause.contains(part)), "{part} in {causes:#?}");
        }
    }
}
