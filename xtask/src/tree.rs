//! The files of the repository, read once, so that each check is a function of plain text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders that hold what was built, downloaded or measured, by name, wherever they are.
const SKIPPED_NAMES: &[&str] = &[".git", "target", ".sekisho", "__pycache__", "node_modules"];
/// The same by path: files there are made by the fuzzer and belong to nobody.
const SKIPPED_PATHS: &[&str] = &["fuzz/corpus", "fuzz/artifacts"];
/// Extensions of the files whose text some check reads.
const READ: &[&str] = &["rs", "md", "toml", "txt"];

/// The tracked files of the repository. Paths are relative to its root, with `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// All files and folders.
    paths: BTreeSet<String>,
    /// The text of those that checks read.
    texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository.
    ///
    /// # Errors
    /// A folder or file cannot be read, or a source is not UTF-8.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.add_folder(root, "")?;
        Ok(tree)
    }

    fn add_folder(&mut self, root: &Path, folder: &str) -> Result<(), String> {
        let cannot = |error| format!("{folder}: cannot be read: {error}");
        for entry in fs::read_dir(root.join(folder)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if SKIPPED_NAMES.contains(&&*name) || SKIPPED_PATHS.contains(&&*path) {
                continue;
            }
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() {
                self.add_folder(root, &path)?;
            } else if kind.is_file() && READ.contains(&extension(&path)) {
                let text = fs::read_to_string(entry.path())
                    .map_err(|error| format!("{path}: cannot be read as text: {error}"))?;
                self.texts.insert(path.clone(), text);
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    /// Is there a file or folder at this path?
    pub(crate) fn has(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Path and text of all files with this extension, in order of path.
    pub(crate) fn with_extension<'a>(
        &'a self,
        wanted: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| extension(path) == wanted)
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// A tree made up of files, and of the folders that they are in.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            tree.paths.extend(ends.map(|end| path[..end].to_owned()));
        }
        tree
    }
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|found| found.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_read_without_what_was_built() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.has("xtask/src") && tree.has("xtask/src/tree.rs") && tree.has(".ci/run"));
        assert!(tree.text("xtask/src/tree.rs").unwrap().starts_with("//! The files"));
        assert!(tree.with_extension("md").any(|(path, _)| path == "ARCHITECTURE.md"));
        assert!(!tree.has("target") && !tree.has(".git"));
    }
}
