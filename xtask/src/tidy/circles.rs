//! Circles of imports: files that need each other can only be read, tested and moved together, so
//! there are few of them in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::imports::{self, Imports};
use crate::manifest::Package;
use crate::source::Source;

/// The most files of a circle: about the largest of quinn-proto, whose state machine is one, has.
const FILES_MAX: usize = 8;
/// The part of a path that frees from the rule: the TP monitor's core is one circle until it is rebuilt.
const FREE: &str = "monitor";

/// Circles of more than [`FILES_MAX`] files.
pub(super) fn check(sources: &[(&str, Source)], packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let mut imports = imports::of_package(package, sources);
        imports.retain(|path, _| !path.split('/').any(|part| part == FREE));
        let circles = circles(&imports);
        findings.extend(circles.iter().filter(|circle| circle.len() > FILES_MAX).map(|circle| {
            Finding::new(
                circle[0],
                1,
                format!(
                    "{} files import each other in a circle, and at most {FILES_MAX} may: {}",
                    circle.len(),
                    told(circle, &imports)
                ),
                "move what several of them need to a file that needs none of them",
            )
        }));
    }
    findings
}

/// Every file of a circle with those that it imports from.
fn told(circle: &[&str], imports: &Imports) -> String {
    let short = |path: &str| path.split_once("/src/").map_or(path, |(_, rest)| rest).to_owned();
    let one = |path: &&str| {
        let to = imports[*path].iter().filter(|to| circle.contains(to));
        let to: Vec<String> = to.map(|to| short(to)).collect();
        format!("\n    {} -> {}", short(path), to.join(", "))
    };
    circle.iter().map(one).collect()
}

/// The circles of a crate, the largest first; every file is in one at most.
pub(super) fn circles<'a>(imports: &Imports<'a>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|path| (*path, reached(imports, path))).collect();
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for (path, from_here) in &reached {
        if !from_here.contains(path) || done.contains(path) {
            continue;
        }
        let back = |other: &&&str| reached.get(**other).is_some_and(|there| there.contains(path));
        let circle: Vec<&str> = from_here.iter().filter(back).copied().collect();
        done.extend(circle.iter().copied());
        circles.push(circle);
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The files that a file needs, by way of others too.
fn reached<'a>(imports: &Imports<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = imports[from].iter().copied().collect();
    while let Some(path) = next.pop() {
        if imports.contains_key(path) && reached.insert(path) {
            next.extend(&imports[path]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of modules `m0` to `mN` below a folder, each of which imports from the next.
    fn ring(folder: &str, files: usize) -> Vec<(String, String)> {
        let below = if folder.is_empty() { String::new() } else { format!("{folder}::") };
        let slash = below.replace("::", "/");
        let file = |n: usize| {
            let text = format!("use crate::{below}m{}::M as N; pub struct M;", (n + 1) % files);
            (format!("crates/a/src/{slash}m{n}.rs"), text)
        };
        let root = ("crates/a/src/lib.rs".to_owned(), "//! A.".to_owned());
        (0..files).map(file).chain([root]).collect()
    }

    fn found(files: &[(String, String)]) -> Vec<Finding> {
        let sources: Vec<(&str, Source)> =
            files.iter().map(|(path, text)| (path.as_str(), Source::scan(text))).collect();
        let package = Package {
            name: "a".to_owned(),
            manifest: "crates/a/Cargo.toml".to_owned(),
            uses: Vec::new(),
        };
        check(&sources, &[package])
    }

    #[test]
    fn eight_files_in_a_circle_pass_and_nine_fail() {
        assert_eq!(found(&ring("", 8)), []);
        let found = found(&ring("", 9));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "crates/a/src/m0.rs");
        assert!(found[0].cause.starts_with("9 files import each other"), "{found:?}");
        assert!(found[0].cause.contains("m8.rs -> m0.rs"), "{found:?}");
    }

    #[test]
    fn a_row_of_files_is_no_circle() {
        let mut files = ring("", 20);
        files[19].1 = "pub struct M;".to_owned();
        assert_eq!(found(&files), []);
    }

    #[test]
    fn the_monitor_is_free_and_nobody_of_a_similar_name() {
        assert_eq!(found(&ring("monitor", 9)), []);
        assert_eq!(found(&ring("monitors", 9)).len(), 1);
    }

    #[test]
    fn circles_come_in_order_of_their_size() {
        let imports: Imports = [
            ("a", vec!["b"]),
            ("b", vec!["a", "c"]),
            ("c", vec!["d", "std"]),
            ("d", vec!["e"]),
            ("e", vec!["c"]),
            ("f", vec!["a"]),
            ("g", vec!["g"]),
        ]
        .into_iter()
        .map(|(from, to)| (from, to.into_iter().collect()))
        .collect();
        assert_eq!(circles(&imports), [vec!["c", "d", "e"], vec!["a", "b"], vec!["g"]]);
    }
}
