//! What we depend on: its licences, its versions and where it comes from, against `deny.toml`. The
//! file is cargo-deny's, which also knows advisories; building that takes longer than our whole
//! test run, so the three rules that need no database are checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::exec;

const RULES: &str = "deny.toml";
const LOCK: &str = "Cargo.lock";

/// The parts of `deny.toml` that are enforced here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    /// Targets whose dependencies count: what a platform that we do not run on pulls in is not ours.
    targets: Vec<String>,
    /// Licences by their SPDX names.
    licences: BTreeSet<String>,
    /// Versions that may stand beside another of the same crate: (crate, beginning of the version).
    skipped: Vec<(String, String)>,
    /// Registries.
    registries: BTreeSet<String>,
}

/// A crate that is built for some target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Built {
    name: String,
    version: String,
    licence: String,
}

/// Checks licences, versions and origins of all dependencies.
///
/// # Errors
/// What breaks a rule, a line each, or why it cannot be known.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path))
            .map_err(|error| format!("{path}: cannot be read: {error}"))
    };
    let rules = Rules::parse(&read(RULES)?)?;
    let mut built = BTreeSet::new();
    for target in &rules.targets {
        let mut command = exec::cargo(
            root,
            &[
                "tree",
                "--locked",
                "--workspace",
                "--all-features",
                "--target",
                target,
                "--edges",
                "normal,build,dev",
                "--prefix",
                "none",
                "--format",
                "{p}\t{l}",
            ],
        );
        built.extend(parse_tree(&exec::output_of(&mut command)?)?);
    }
    let mut broken = licences(&rules, &built);
    broken.extend(versions(&rules, &built));
    broken.extend(origins(&rules, &read(LOCK)?)?);
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
}

impl Rules {
    fn parse(text: &str) -> Result<Rules, String> {
        let table: Table = text.parse().map_err(|error| format!("{RULES}: {error}"))?;
        let list = |path: [&str; 2]| {
            let value = table.get(path[0]).and_then(|section| section.get(path[1]));
            let missing = || format!("{RULES}: no list [{}] {}", path[0], path[1]);
            value.and_then(Value::as_array).ok_or_else(missing)
        };
        let texts = |path: [&str; 2]| -> Result<Vec<String>, String> {
            let not_text =
                || format!("{RULES}: [{}] {} holds something but text", path[0], path[1]);
            list(path)?
                .iter()
                .map(|one| one.as_str().map(str::to_owned).ok_or_else(not_text))
                .collect()
        };
        let skipped = list(["bans", "skip"])?.iter().map(|entry| {
            let spec = entry.get("crate").and_then(Value::as_str).unwrap_or_default();
            let parts = spec.split_once('@').filter(|(name, version)| {
                !name.is_empty() && version.starts_with(|c: char| c.is_ascii_digit())
            });
            parts.map(|(name, version)| (name.to_owned(), version.to_owned())).ok_or_else(|| {
                format!("{RULES}: [bans] skip: write crate = \"name@version\", not `{entry}`")
            })
        });
        Ok(Rules {
            targets: texts(["graph", "targets"])?,
            licences: texts(["licenses", "allow"])?.into_iter().collect(),
            skipped: skipped.collect::<Result<_, _>>()?,
            registries: texts(["sources", "allow-registry"])?.into_iter().collect(),
        })
    }
}

/// Parses lines `name v1.2.3 (remarks)<tab>licence`; a crate that came before ends with ` (*)`.
fn parse_tree(text: &str) -> Result<BTreeSet<Built>, String> {
    let parse = |line: &str| {
        let (package, licence) = line.split_once('\t')?;
        let mut words = package.split(' ');
        let name = words.next()?.to_owned();
        let version = words.next()?.strip_prefix('v')?.to_owned();
        let licence = licence.trim_end_matches("(*)").trim().to_owned();
        Some(Built { name, version, licence })
    };
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| parse(line).ok_or_else(|| format!("cargo tree: cannot read `{line}`")))
        .collect()
}

fn licences(rules: &Rules, built: &BTreeSet<Built>) -> Vec<String> {
    let refused = built.iter().filter(|one| {
        let mut words = Licence::words(&one.licence);
        let allowed = Licence::any_of(&mut words, &rules.licences);
        !(allowed == Some(true) && words.is_empty())
    });
    refused
        .map(|Built { name, version, licence }| {
            format!(
                "{RULES}: {name} {version} has the licence `{licence}`, which [licenses] allow does \
                 not cover\n    way out: replace the crate, or allow the licence if it suits MIT OR \
                 Apache-2.0"
            )
        })
        .collect()
}

/// Reads SPDX expressions: is what they demand allowed? `None` where one cannot be read.
struct Licence;

impl Licence {
    /// The words of an expression, the last first. A slash is the old way to write `OR`.
    fn words(expression: &str) -> Vec<String> {
        let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        spaced.split_whitespace().rev().map(str::to_owned).collect()
    }

    fn any_of(words: &mut Vec<String>, allowed: &BTreeSet<String>) -> Option<bool> {
        let mut any = Licence::all_of(words, allowed)?;
        while words.last().is_some_and(|word| word == "OR") {
            words.pop();
            any |= Licence::all_of(words, allowed)?;
        }
        Some(any)
    }

    fn all_of(words: &mut Vec<String>, allowed: &BTreeSet<String>) -> Option<bool> {
        let mut all = Licence::one(words, allowed)?;
        while words.last().is_some_and(|word| word == "AND") {
            words.pop();
            all &= Licence::one(words, allowed)?;
        }
        Some(all)
    }

    fn one(words: &mut Vec<String>, allowed: &BTreeSet<String>) -> Option<bool> {
        let mut name = words.pop()?;
        if name == "(" {
            let inner = Licence::any_of(words, allowed)?;
            return (words.pop()? == ")").then_some(inner);
        }
        if words.last().is_some_and(|word| word == "WITH") {
            words.pop();
            name = format!("{name} WITH {}", words.pop()?);
        }
        let is_name = !matches!(&*name, ")" | "OR" | "AND" | "WITH");
        is_name.then(|| allowed.contains(&name))
    }
}

/// Crates that are built in more than one version without leave, and leave that nobody needs.
fn versions(rules: &Rules, built: &BTreeSet<Built>) -> Vec<String> {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in built {
        by_name.entry(&one.name).or_default().insert(&one.version);
    }
    let covers = |(name, begin): &(String, String), crate_name: &str, version: &str| {
        let rest = version.strip_prefix(begin.as_str());
        name == crate_name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut broken = Vec::new();
    for (name, versions) in &by_name {
        let skipped =
            |version: &&&str| rules.skipped.iter().any(|skip| covers(skip, name, version));
        let kept: Vec<&str> = versions.iter().filter(|one| !skipped(one)).copied().collect();
        if kept.len() > 1 {
            broken.push(format!(
                "{LOCK}: `{name}` is built in {} versions: {}\n    way out: agree on one; if another \
                 crate forbids it, name the older one with the reason in {RULES}, [bans] skip",
                kept.len(),
                kept.join(", ")
            ));
        }
    }
    for skip in &rules.skipped {
        let needed = by_name.get(skip.0.as_str()).is_some_and(|versions| {
            versions.len() > 1 && versions.iter().any(|version| covers(skip, &skip.0, version))
        });
        if !needed {
            broken.push(format!(
                "{RULES}: [bans] skip: nobody needs `{}@{}` any more\n    way out: remove the line",
                skip.0, skip.1
            ));
        }
    }
    broken
}

/// Crates of the lock file that come from somewhere else than an allowed registry.
fn origins(rules: &Rules, lock: &str) -> Result<Vec<String>, String> {
    let table: Table = lock.parse().map_err(|error| format!("{LOCK}: {error}"))?;
    let packages = table.get("package").and_then(Value::as_array);
    let packages = packages.ok_or_else(|| format!("{LOCK}: no packages"))?;
    let foreign = packages.iter().filter_map(|package| {
        // What has no source is a folder of this workspace.
        let source = package.get("source")?.as_str()?;
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        (!rules.registries.contains(registry)).then(|| {
            let name = package.get("name").and_then(Value::as_str).unwrap_or("a crate");
            format!(
                "{LOCK}: `{name}` comes from {source}\n    way out: use a release from a registry of \
                 {RULES}, [sources] allow-registry"
            )
        })
    });
    Ok(foreign.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = r#"
[graph]
targets = ["x86_64-unknown-linux-gnu"]
[licenses]
allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"]
[bans]
skip = [{ crate = "getrandom@0.2", reason = "ring" }]
[sources]
allow-registry = ["https://github.com/rust-lang/crates.io-index"]
"#;

    fn rules() -> Rules {
        Rules::parse(DENY).unwrap()
    }

    fn built(lines: &str) -> BTreeSet<Built> {
        parse_tree(lines).unwrap()
    }

    #[test]
    fn licences_are_read_as_expressions() {
        for (licence, is_allowed) in [
            ("MIT", true),
            ("MIT/GPL-3.0", true),
            ("GPL-3.0 OR Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("MIT AND (ISC AND Apache-2.0)", true),
            ("GPL-3.0", false),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR ISC) AND Unicode-3.0", false),
            ("ISC WITH LLVM-exception", false),
            ("", false),
            ("MIT OR", false),
            ("MIT ISC", false),
            ("(MIT", false),
        ] {
            let found = licences(&rules(), &built(&format!("a v1.0.0\t{licence}")));
            assert_eq!(found.is_empty(), is_allowed, "{licence}: {found:?}");
        }
    }

    #[test]
    fn the_tree_is_read_with_its_remarks() {
        let found = built(
            "gate v0.1.0 (/w/crates/gate)\tMIT\n\nserde_derive v1.0.1 (proc-macro)\tMIT OR Apache-2.0\n\
             gate v0.1.0 (/w/crates/gate)\tMIT (*)\n",
        );
        let names: Vec<_> =
            found.iter().map(|one| (&*one.name, &*one.version, &*one.licence)).collect();
        assert_eq!(
            names,
            [("gate", "0.1.0", "MIT"), ("serde_derive", "1.0.1", "MIT OR Apache-2.0")]
        );
        assert!(parse_tree("what").is_err());
    }

    #[test]
    fn two_versions_need_leave() {
        let two = "getrandom v0.2.17\tMIT\ngetrandom v0.4.3\tMIT\n";
        assert_eq!(versions(&rules(), &built(two)), [""; 0]);
        let three = format!("{two}getrandom v0.20.1\tMIT\n");
        assert!(versions(&rules(), &built(&three))[0].contains("0.20.1, 0.4.3"));
        let other = format!("{two}rand v0.9.0\tMIT\nrand v0.10.0\tMIT\n");
        assert!(versions(&rules(), &built(&other))[0].contains("`rand` is built in 2 versions"));
    }

    #[test]
    fn leave_that_nobody_needs_is_taken_away() {
        let found = versions(&rules(), &built("getrandom v0.2.17\tMIT"));
        assert!(found[0].contains("nobody needs `getrandom@0.2`"), "{found:?}");
    }

    #[test]
    fn only_known_registries_pass() {
        let lock = |source: &str| format!("[[package]]\nname = \"a\"\n{source}\n");
        let crates_io = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(origins(&rules(), &lock(crates_io)), Ok(Vec::new()));
        assert_eq!(origins(&rules(), &lock("")), Ok(Vec::new()));
        for source in ["git+https://example.org/a#1", "registry+https://example.org/index"] {
            let found = origins(&rules(), &lock(&format!("source = \"{source}\""))).unwrap();
            assert!(found[0].contains(source), "{found:?}");
        }
        assert!(origins(&rules(), "").is_err());
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_an_error() {
        for (good, bad) in
            [("allow = [", "alow = ["), ("getrandom@0.2", "getrandom"), ("\"ISC\"", "1")]
        {
            assert!(Rules::parse(&DENY.replace(good, bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_rules_of_this_repository_can_be_read() {
        let text =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../deny.toml")).unwrap();
        let rules = Rules::parse(&text).unwrap();
        assert!(rules.licences.contains("MIT") && !rules.targets.is_empty());
    }
}
