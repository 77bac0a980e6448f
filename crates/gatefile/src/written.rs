//! A configuration as a file of our own format: what is as it would be anyway is left out.

use toml::{Table, Value};

use super::FORMAT;
use super::config::GateFile;

/// All that a configuration says, defaults too.
pub(super) fn table_of(file: &GateFile) -> Table {
    Table::try_from(file).expect("a configuration is a table of plain values")
}

/// The part of a configuration that is no default; tables within tables are whole.
pub(super) fn pruned(file: &GateFile) -> Table {
    let defaults = table_of(&GateFile::default());
    let mut table = Table::new();
    for (key, value) in table_of(file) {
        let default = defaults.get(&key);
        if default == Some(&value) {
            continue;
        }
        let value = match (value, default) {
            (Value::Table(inner), Some(Value::Table(default))) => {
                let differs = |(key, value): &(String, Value)| default.get(key) != Some(value);
                Value::Table(inner.into_iter().filter(differs).collect())
            }
            (value, _) => value,
        };
        table.insert(key, value);
    }
    table
}

/// The text of the file, with comments before it.
pub(super) fn write(file: &GateFile, comments: &[String]) -> String {
    let mut table = pruned(file);
    table.remove("format");
    let mut text = String::new();
    for comment in comments {
        text += &format!("# {}\n", fits_in_comment(comment));
    }
    text += &format!("format = {FORMAT}\n");
    // The writer's time grows with the square of a list's length, so that lists are written by entries.
    let lists: Vec<(String, Vec<Value>)> = ["database", "user", "class"]
        .into_iter()
        .filter_map(|list| match table.remove(list)? {
            Value::Array(entries) => Some((list.to_owned(), entries)),
            _ => None,
        })
        .collect();
    text += &text_of(&table);
    for (list, entries) in lists {
        for entry in entries {
            let one = Table::from_iter([(list.clone(), Value::Array(vec![entry]))]);
            text += &format!("\n{}", text_of(&one));
        }
    }
    text
}

fn text_of(table: &Table) -> String {
    toml::to_string(table).expect("a table of plain values can be written")
}

/// A text on one line, without what a comment may not hold.
pub(super) fn fits_in_comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
