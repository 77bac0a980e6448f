//! Every package takes the workspace's lints and is never published by accident.

use toml::{Table, Value};

use super::Finding;
use crate::manifest::Package;
use crate::tree::Tree;

/// Settings that each manifest takes from the workspace: table, key path, the line to add.
const SHARED: [(&str, &[&str], &str); 2] = [
    ("lints", &["lints", "workspace"], "workspace = true"),
    ("package", &["package", "publish", "workspace"], "publish.workspace = true"),
];

/// Packages that go their own way.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let text = tree.text(&package.manifest).unwrap_or_default();
        let table = text.parse::<Table>().unwrap_or_default();
        for (section, path, line) in SHARED {
            if !is_true(&table, path) {
                findings.push(Finding::new(
                    &package.manifest,
                    line_of_section(text, section),
                    format!("`{}` does not take [{section}] `{line}`", package.name),
                    format!("add `{line}` under [{section}]"),
                ));
            }
        }
    }
    findings
}

fn is_true(table: &Table, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let value =
        rest.iter().try_fold(table.get(*first), |value, key| value.map(|value| value.get(*key)));
    matches!(value.flatten(), Some(Value::Boolean(true)))
}

fn line_of_section(text: &str, section: &str) -> usize {
    let head = format!("[{section}]");
    text.lines().position(|line| line.trim() == head).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> Vec<(usize, String)> {
        let path = "crates/gate/Cargo.toml";
        let gate = Package { name: "gate".into(), manifest: path.into(), uses: Vec::new() };
        let findings = check(&Tree::of(&[(path, manifest)]), &[gate]);
        findings.into_iter().map(|one| (one.line, one.way_out)).collect()
    }

    #[test]
    fn a_manifest_that_shares_both_passes() {
        assert_eq!(
            found(
                "[package]\nname = \"gate\"\npublish.workspace = true\n[lints]\nworkspace = true\n"
            ),
            []
        );
        assert_eq!(
            found("lints.workspace = true\n[package]\npublish = { workspace = true }\n"),
            []
        );
    }

    #[test]
    fn a_manifest_that_lacks_one_fails() {
        let lints = "add `workspace = true` under [lints]";
        let publish = "add `publish.workspace = true` under [package]";
        for (manifest, expected) in [
            ("[package]\npublish.workspace = true\n", vec![(1, lints)]),
            ("[package]\npublish = true\n[lints]\nworkspace = true\n", vec![(1, publish)]),
            ("[package]\n[lints]\nworkspace = false\n", vec![(2, lints), (1, publish)]),
            ("", vec![(1, lints), (1, publish)]),
        ] {
            let found = found(manifest);
            let found: Vec<_> = found.iter().map(|(line, way)| (*line, way.as_str())).collect();
            assert_eq!(found, expected, "{manifest}");
        }
    }
}
