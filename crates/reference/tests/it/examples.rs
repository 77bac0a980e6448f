//! Examples in the repository: files, and files that pages show.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use reference::File;
use serde_json::Value;

use crate::reading::meaning;
use crate::root;

/// An example: where it stands, of which kind it is, and its values.
pub(crate) struct Example {
    pub(crate) name: String,
    pub(crate) file: File,
    pub(crate) text: String,
    pub(crate) value: Value,
    pub(crate) folder: PathBuf,
}

pub(crate) fn validator(file: File) -> Validator {
    jsonschema::validator_for(&file.schema()).expect("it is a schema")
}

/// The kind of file that has these keys.
fn kind(value: &Value) -> Option<File> {
    let has = |key: &str| value.get(key).is_some();
    match () {
        () if has("sekisho") => Some(File::Scenario),
        () if has("format") && has("database") => Some(File::GatePostgres),
        () if has("format") && has("server") => Some(File::GateHttp),
        () if has("request") => Some(File::Requests),
        () if has("document") => Some(File::Documents),
        () => None,
    }
}

/// Every example: files of the repository and blocks of its pages.
pub(crate) fn examples() -> Vec<Example> {
    let mut all = Vec::new();
    let places = ["docs", "studies", "contrib", "crates", "python", "README.md"];
    for place in places {
        walk(&root().join(place), &mut |path| {
            let name =
                path.strip_prefix(root()).expect("it is in the repository").display().to_string();
            let Some(ending) = path.extension().and_then(|ending| ending.to_str()) else { return };
            let folder = path.parent().expect("a file lies somewhere");
            match ending {
                "toml" => {
                    let text = fs::read_to_string(path).expect("it can be read");
                    all.extend(example(&name, &text, folder));
                }
                "md" => {
                    let page = fs::read_to_string(path).expect("it can be read");
                    for (nth, text) in blocks(&page).into_iter().enumerate() {
                        all.extend(example(&format!("{name}, block {}", nth + 1), &text, folder));
                    }
                }
                _ => {}
            }
        });
    }
    all
}

fn walk(path: &Path, hear: &mut impl FnMut(&Path)) {
    if path.is_file() {
        return hear(path);
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    let built = ["target", "node_modules", ".git"];
    for entry in entries {
        if !entry.file_name().is_some_and(|name| built.iter().any(|built| name == *built)) {
            walk(&entry, hear);
        }
    }
}

/// The blocks of TOML on a page.
fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```toml\n").skip(1);
    parts.filter_map(|part| part.split("```").next().map(str::to_owned)).collect()
}

fn example(name: &str, text: &str, folder: &Path) -> Option<Example> {
    let value: Value = toml::from_str(text).ok()?;
    let file = kind(&value)?;
    let folder = folder.to_owned();
    Some(Example { name: name.to_owned(), file, text: text.to_owned(), value, folder })
}

#[test]
fn every_example_is_taken_by_its_reader_and_its_schema() {
    let all = examples();
    for file in File::ALL {
        let validator = validator(file);
        let own: Vec<&Example> = all.iter().filter(|example| example.file == file).collect();
        assert!(own.len() >= 2, "{file:?} has {} examples", own.len());
        for example in own {
            if let Err(error) = meaning(file, &example.text, &example.folder) {
                panic!("{}: {error}", example.name);
            }
            let found: Vec<String> = validator
                .iter_errors(&example.value)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(found.is_empty(), "{}: {}", example.name, found.join("\n"));
        }
    }
}
