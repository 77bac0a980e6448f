//! What Cargo knows of the workspace: its packages, and which of them each one uses.

use std::path::Path;

use serde_json::Value;

use crate::exec;

/// One package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// The path of its `Cargo.toml`, relative to the repository.
    pub(crate) manifest: String,
    /// What it depends on, of ours and of others.
    pub(crate) uses: Vec<Use>,
}

/// A line of a package's list of dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// The name of the package that is used, even when it is renamed.
    pub(crate) name: String,
    /// `normal`, `dev` or `build`.
    pub(crate) kind: String,
}

/// The packages of the workspace in order of name.
///
/// # Errors
/// `cargo metadata` fails, or answers in a shape that we do not know.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let mut command =
        exec::cargo(root, &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    parse(&exec::output_of(&mut command)?)
}

/// Parses what `cargo metadata --no-deps` prints.
///
/// # Errors
/// It is not JSON, or lacks a field; the message names the field.
pub(crate) fn parse(json: &str) -> Result<Vec<Package>, String> {
    let metadata: Value =
        serde_json::from_str(json).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = text(&metadata, "workspace_root")?;
    let mut packages = Vec::new();
    for package in list(&metadata, "packages")? {
        let manifest = text(package, "manifest_path")?;
        let mut uses = Vec::new();
        for dependency in list(package, "dependencies")? {
            let kind = dependency.get("kind").and_then(Value::as_str).unwrap_or("normal");
            uses.push(Use { name: text(dependency, "name")?.to_owned(), kind: kind.to_owned() });
        }
        packages.push(Package {
            name: text(package, "name")?.to_owned(),
            manifest: manifest
                .strip_prefix(root)
                .unwrap_or(manifest)
                .replace('\\', "/")
                .trim_start_matches('/')
                .to_owned(),
            uses,
        });
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value
        .get(field)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("cargo metadata: no text `{field}`"))
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    value
        .get(field)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("cargo metadata: no list `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_manifests_and_kinds_are_read() {
        let json = r#"{"workspace_root": "/w", "packages": [
            {"name": "sim", "manifest_path": "/w/crates/sim/Cargo.toml", "dependencies": [
                {"name": "gate", "kind": null}, {"name": "load", "kind": "dev"}]},
            {"name": "gate", "manifest_path": "/w/crates/gate/Cargo.toml", "dependencies": []}]}"#;
        let packages = parse(json).unwrap();
        assert_eq!(packages[0].name, "gate");
        assert_eq!(packages[1].manifest, "crates/sim/Cargo.toml");
        let kinds: Vec<_> =
            packages[1].uses.iter().map(|used| (&*used.name, &*used.kind)).collect();
        assert_eq!(kinds, [("gate", "normal"), ("load", "dev")]);
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = parse(r#"{"workspace_root": "/w", "packages": [{"name": "gate"}]}"#);
        assert_eq!(error, Err("cargo metadata: no text `manifest_path`".to_owned()));
        assert!(parse("{").is_err());
    }
}
