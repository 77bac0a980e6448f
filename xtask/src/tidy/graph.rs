//! Who may use whom: the table of `ARCHITECTURE.md` against the packages as Cargo sees them. The
//! table is read, not repeated here, so the document cannot drift from what is enforced.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::manifest::{Package, Use};
use crate::tree::Tree;

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "Who may use whom";

/// One crate's line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    /// The line of the document, counted from 1.
    line: usize,
    /// What the crate may use, of ours.
    may_use: Allowed,
}

#[derive(Debug, PartialEq, Eq)]
enum Allowed {
    All,
    Only(BTreeSet<String>),
}

/// Every dependency that the table forbids, and every difference between table and workspace.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let (rules, mut findings) = match parse(tree.text(DOCUMENT).unwrap_or_default(), &names) {
        Ok(parsed) => parsed,
        Err(finding) => return vec![finding],
    };
    for package in packages {
        let Some(rule) = rules.get(&package.name) else {
            findings.push(Finding::new(
                &package.manifest,
                1,
                format!("`{}` is missing from the table \"{HEADING}\" of {DOCUMENT}", package.name),
                "add its line: what it may use, and what it never may",
            ));
            continue;
        };
        let ours = package.uses.iter().filter(|used| names.contains(&*used.name));
        findings.extend(ours.filter_map(|used| judge(tree, package, used, rule)));
    }
    findings
}

fn judge(tree: &Tree, package: &Package, used: &Use, rule: &Rule) -> Option<Finding> {
    let Allowed::Only(allowed) = &rule.may_use else { return None };
    if allowed.contains(&used.name) {
        return None;
    }
    let section = match &*used.kind {
        "normal" => "dependencies".to_owned(),
        kind => format!("{kind}-dependencies"),
    };
    let manifest = tree.text(&package.manifest).unwrap_or_default();
    let list: Vec<&str> = allowed.iter().map(String::as_str).collect();
    let list = if list.is_empty() { "nothing of ours".to_owned() } else { list.join(", ") };
    Some(Finding::new(
        &package.manifest,
        line_of_dependency(manifest, &used.name),
        format!(
            "`{}` uses `{}` ([{section}]), but {DOCUMENT}:{} lets it use {list}",
            package.name, used.name, rule.line
        ),
        "remove the dependency, or move the code to where the table allows it; a test that \
         crosses crates lives in `sekisho`",
    ))
}

/// The line on which a manifest names a dependency; 1 when it is written in a way we do not know.
fn line_of_dependency(manifest: &str, name: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start().strip_prefix(name)?;
        rest.starts_with([' ', '=', '.']).then_some(())
    };
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        if let Some(section) = line.trim().strip_prefix('[') {
            inside = section.contains("dependencies");
        } else if inside && names(line).is_some() {
            return index + 1;
        }
    }
    1
}

type Rules = BTreeMap<String, Rule>;

/// Reads the table; beside it, what is wrong with single lines of it.
///
/// # Errors
/// There is no such table.
fn parse(document: &str, names: &BTreeSet<&str>) -> Result<(Rules, Vec<Finding>), Finding> {
    let mut lines = document.lines().enumerate();
    let heading = lines
        .find(|(_, line)| line.starts_with('#') && line.trim_start_matches('#').trim() == HEADING)
        .map(|(index, _)| index + 1);
    let section = lines.take_while(|(_, line)| !line.starts_with('#'));
    let table: Vec<(usize, Vec<&str>)> = section
        .skip_while(|(_, line)| !line.starts_with('|'))
        .take_while(|(_, line)| line.starts_with('|'))
        .map(|(index, line)| (index + 1, cells(line)))
        .collect();
    let [(_, head), (_, rule_line), rows @ ..] = &table[..] else {
        return Err(no_table(heading.unwrap_or(1)));
    };
    let is_ours = head.len() >= 2 && head[0] == "crate" && head[1].starts_with("may use");
    if !is_ours || !rule_line.iter().all(|cell| cell.contains("---")) {
        return Err(no_table(table[0].0));
    }
    let mut rules = Rules::new();
    let mut findings = Vec::new();
    for (line, row) in rows {
        read_row(*line, row, names, &mut rules, &mut findings);
    }
    Ok((rules, findings))
}

fn no_table(line: usize) -> Finding {
    Finding::new(
        DOCUMENT,
        line,
        format!("no table under the heading \"{HEADING}\""),
        "restore it: | crate | may use ... | never |",
    )
}

fn read_row(
    line: usize,
    row: &[&str],
    names: &BTreeSet<&str>,
    rules: &mut Rules,
    findings: &mut Vec<Finding>,
) {
    let mut known = |name: &str| {
        let is_known = names.contains(name);
        if !is_known {
            findings.push(Finding::new(
                DOCUMENT,
                line,
                format!("the table \"{HEADING}\" names `{name}`, which is no crate of ours"),
                "correct the name, or remove it; remarks stand in parentheses",
            ));
        }
        is_known
    };
    let cell = row.get(1).copied().unwrap_or_default();
    let words = entries(cell);
    let used: Vec<&String> = words.iter().filter(|word| !is_keyword(word)).collect();
    let only: BTreeSet<String> = used.into_iter().filter(|name| known(name)).cloned().collect();
    let users: Vec<String> = entries(row[0]).into_iter().filter(|name| known(name)).collect();
    let plain = words.len() == 1 || !words.iter().any(|word| is_keyword(word));
    if words.is_empty() || !plain {
        findings.push(Finding::new(
            DOCUMENT,
            line,
            format!("cannot read `{cell}` as a list of crates"),
            "write `nothing`, `all`, or names with commas between them",
        ));
    }
    for user in users {
        let all = words == ["all"];
        let may_use = if all { Allowed::All } else { Allowed::Only(only.clone()) };
        if rules.insert(user.clone(), Rule { line, may_use }).is_some() {
            findings.push(Finding::new(
                DOCUMENT,
                line,
                format!("the table \"{HEADING}\" has a second line for `{user}`"),
                "keep one",
            ));
        }
    }
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "nothing" | "all")
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The names of a cell, without backquotes and remarks: `gate (its time), measure` are two.
fn entries(cell: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let mut text = String::new();
    for c in cell.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '`' => {}
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
# Architecture

## Who may use whom

| crate | may use, of ours (tests included) | never |
| --- | --- | --- |
| gate | nothing | a clock |
| workload, measure | gate | |
| load | gate (its time, only), `measure` | |
| sekisho | all | |

## Next
| gate | all | |
";

    fn package(name: &str, uses: &[(&str, &str)]) -> Package {
        let used = |(name, kind): &(&str, &str)| Use {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
        };
        Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            uses: uses.iter().map(used).collect(),
        }
    }

    fn workspace() -> Vec<Package> {
        vec![
            package("gate", &[("serde", "normal")]),
            package("workload", &[("gate", "normal")]),
            package("measure", &[("gate", "dev")]),
            package("load", &[("gate", "normal"), ("measure", "normal")]),
            package("sekisho", &[("load", "normal"), ("gate", "build")]),
        ]
    }

    fn causes(table: &str, packages: &[Package]) -> Vec<String> {
        let manifest =
            "[package]\nname = \"load\"\n\n[dev-dependencies]\nworkload.workspace = true\n";
        let tree = Tree::of(&[(DOCUMENT, table), ("crates/load/Cargo.toml", manifest)]);
        let found = check(&tree, packages);
        found.iter().map(|one| format!("{}:{}: {}", one.path, one.line, one.cause)).collect()
    }

    #[test]
    fn what_the_table_allows_passes() {
        assert_eq!(causes(TABLE, &workspace()), [""; 0]);
    }

    #[test]
    fn an_arrow_that_the_table_forbids_fails_whatever_its_kind() {
        for kind in ["normal", "dev", "build"] {
            let mut packages = workspace();
            packages[3] = package("load", &[("workload", kind)]);
            let found = causes(TABLE, &packages);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("crates/load/Cargo.toml:5: `load` uses `workload`"));
            assert!(found[0].ends_with("ARCHITECTURE.md:9 lets it use gate, measure"), "{found:?}");
        }
        let mut packages = workspace();
        packages[0] = package("gate", &[("measure", "dev")]);
        assert!(causes(TABLE, &packages)[0].contains("lets it use nothing of ours"));
    }

    #[test]
    fn a_crate_that_the_table_lacks_fails() {
        let mut packages = workspace();
        packages.push(package("jungle", &[]));
        let found = causes(TABLE, &packages);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/jungle/Cargo.toml:1: `jungle` is missing"));
    }

    #[test]
    fn a_name_that_is_no_crate_fails_in_both_columns() {
        let table = TABLE.replace("workload, measure | gate |", "workload, measure, tree | gatt |");
        let found = causes(&table, &workspace());
        assert!(
            found.iter().any(|one| one.contains(":8: ") && one.contains("`tree`")),
            "{found:?}"
        );
        assert!(
            found.iter().any(|one| one.contains(":8: ") && one.contains("`gatt`")),
            "{found:?}"
        );
    }

    #[test]
    fn a_table_that_cannot_be_read_fails() {
        for broken in
            ["", "## Who may use whom\n\nnothing\n", "## Who may use whom\n| a |\n| - |\n"]
        {
            let found = causes(broken, &workspace());
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("no table"), "{found:?}");
        }
        let twice = TABLE.replace("| sekisho", "| gate | all | |\n| sekisho");
        assert!(causes(&twice, &workspace())[0].contains("second line for `gate`"));
        let mixed = TABLE.replace("| nothing |", "| nothing, measure |");
        assert!(causes(&mixed, &workspace())[0].contains("cannot read"));
        let empty = TABLE.replace("| nothing |", "| |");
        assert!(causes(&empty, &workspace())[0].contains("cannot read"));
    }
}
