//! A reference in Markdown from a schema: a table of keys for each table of the file.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::rules::{beside, listed, range, value};
use crate::{Document, File};

/// A page: its path, what stands before the first table, and the files that it is about.
struct Page {
    path: &'static str,
    head: &'static str,
    parts: &'static [(File, &'static str)],
}

const PAGES: [Page; 4] = [
    Page {
        path: "docs/scenario.md",
        head: include_str!("../text/scenario.txt"),
        parts: &[(File::Scenario, "")],
    },
    Page {
        path: "docs/gate-http-toml.md",
        head: include_str!("../text/gate-http.txt"),
        parts: &[(File::GateHttp, "")],
    },
    Page {
        path: "docs/gate-postgres-toml.md",
        head: include_str!("../text/gate-postgres.txt"),
        parts: &[(File::GatePostgres, "")],
    },
    Page {
        path: "docs/documents.md",
        head: include_str!("../text/documents.txt"),
        parts: &[(File::Requests, "Requests"), (File::Documents, "Documents")],
    },
];

/// How quantities are written, on every page.
const QUANTITIES: &str = include_str!("../text/quantities.txt");

/// The references.
pub(crate) fn pages() -> impl Iterator<Item = Document> {
    PAGES.into_iter().map(|page| {
        let mut text = format!("{}\n{QUANTITIES}", page.head);
        for (file, title) in page.parts {
            let schema = file.schema();
            if !title.is_empty() {
                text += &format!("\n## {title}\n");
            }
            text += &Sections::of(&schema).text(if title.is_empty() { "##" } else { "###" });
        }
        Document { path: page.path.to_owned(), text }
    })
}

/// A table of keys, or the forms of a policy.
struct Section<'s> {
    /// The name of its definition in the schema; empty for the file itself.
    definition: &'s str,
    /// The path of its keys, as the file has it.
    path: String,
    is_list: bool,
    /// Other paths at which the same table stands.
    also: Vec<String>,
    /// A key of its own, where another table has the same path.
    told_apart: Option<&'s str>,
    schema: &'s Value,
}

impl Section<'_> {
    fn heading(&self) -> String {
        let with = self.told_apart.map_or_else(String::new, |key| format!(" with `{key}`"));
        match (&*self.path, self.is_list) {
            ("", _) => "The file".to_owned(),
            (path, true) => format!("`[[{path}]]`{with}"),
            (path, false) => format!("`{path}`{with}"),
        }
    }

    /// The anchor that a heading has on the usual sites.
    fn anchor(&self) -> String {
        let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let text: String = self.heading().chars().filter(kept).collect();
        text.to_lowercase().replace(' ', "-")
    }
}

/// All that stands on a page for one schema.
struct Sections<'s> {
    root: &'s Value,
    all: Vec<Section<'s>>,
}

impl<'s> Sections<'s> {
    fn of(root: &'s Value) -> Sections<'s> {
        let file = Section {
            definition: "",
            path: String::new(),
            is_list: false,
            also: Vec::new(),
            told_apart: None,
            schema: root,
        };
        let mut sections = Sections { root, all: vec![file] };
        let mut known = BTreeSet::new();
        let mut at = 0;
        // Those of a table follow it, so that a page can be read from the top.
        while let Some(section) = sections.all.get(at) {
            let path = section.path.clone();
            let mut found = Vec::new();
            let parameters = forms(section.schema).flat_map(keys).flat_map(|(_, one)| keys(one));
            for (key, schema) in keys(section.schema).chain(parameters) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                sections.seek(schema, &path, false, &mut known, &mut found);
            }
            at += 1;
            sections.all.splice(at..at, found);
        }
        sections.tell_apart();
        let mut places = BTreeMap::new();
        sections.places(root, "", &mut Vec::new(), &mut places);
        for section in &mut sections.all {
            let own = &section.path;
            let others = places.remove(section.definition).unwrap_or_default();
            section.also = others.into_iter().filter(|path| path != own).collect();
        }
        sections
    }

    /// The paths at which each definition's table may stand. What stands within itself is not followed.
    fn places(
        &self,
        schema: &'s Value,
        path: &str,
        within: &mut Vec<&'s str>,
        found: &mut BTreeMap<&'s str, BTreeSet<String>>,
    ) {
        if let Some(definition) = reference(schema) {
            if within.contains(&definition) {
                return;
            }
            let inner = self.definition(definition);
            if is_section(inner) {
                found.entry(definition).or_default().insert(path.to_owned());
            }
            within.push(definition);
            self.places(inner, path, within, found);
            within.pop();
            return;
        }
        let below = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        for (key, schema) in keys(schema) {
            self.places(schema, &below(key), within, found);
        }
        for form in forms(schema) {
            // A form with parameters is a table of its own name, whose keys stand below that of the form.
            match keys(form).next() {
                None => self.places(form, path, within, found),
                Some(_) => keys(form).flat_map(|(_, one)| keys(one)).for_each(|(key, schema)| {
                    self.places(schema, &below(key), within, found);
                }),
            }
        }
        match (schema.get("items"), schema.get("additionalProperties")) {
            (Some(Value::Array(each)), _) => {
                each.iter().for_each(|one| self.places(one, path, within, found));
            }
            (Some(one), _) => self.places(one, path, within, found),
            (None, Some(of @ Value::Object(_))) => {
                self.places(of, &below("NAME"), within, found);
            }
            _ => {}
        }
    }

    /// Tables of one path are told apart by a key that each must have.
    fn tell_apart(&mut self) {
        let paths: Vec<(String, bool)> =
            self.all.iter().map(|section| (section.path.clone(), section.is_list)).collect();
        for section in &mut self.all {
            let same = paths
                .iter()
                .filter(|(path, is_list)| *path == section.path && *is_list == section.is_list);
            if same.count() > 1 {
                let needed = section.schema.get("required").and_then(|all| all.get(0));
                section.told_apart = needed.and_then(Value::as_str);
            }
        }
    }

    /// The sections that a key's schema leads to, and that are not on the page yet.
    fn seek(
        &self,
        schema: &'s Value,
        path: &str,
        is_list: bool,
        known: &mut BTreeSet<&'s str>,
        found: &mut Vec<Section<'s>>,
    ) {
        if let Some(definition) = reference(schema) {
            let inner = self.definition(definition);
            if !is_section(inner) {
                return self.seek(inner, path, is_list, known, found);
            }
            if known.insert(definition) {
                let path = path.to_owned();
                let (also, told_apart) = (Vec::new(), None);
                found.push(Section { definition, path, is_list, also, told_apart, schema: inner });
            }
            return;
        }
        for form in forms(schema) {
            self.seek(form, path, is_list, known, found);
        }
        let inner = if path.is_empty() { "NAME".to_owned() } else { format!("{path}.NAME") };
        match (schema.get("items"), schema.get("additionalProperties")) {
            (Some(Value::Array(each)), _) => {
                each.iter().for_each(|one| self.seek(one, path, is_list, known, found));
            }
            (Some(one), _) => self.seek(one, path, true, known, found),
            (None, Some(of @ Value::Object(_))) => self.seek(of, &inner, false, known, found),
            _ => {}
        }
    }

    fn definition(&self, name: &str) -> &'s Value {
        self.root.pointer(&format!("/definitions/{name}")).expect("a reference leads somewhere")
    }

    fn text(&self, level: &str) -> String {
        self.all.iter().map(|section| self.section(section, level)).collect()
    }

    fn section(&self, section: &Section<'s>, level: &str) -> String {
        let sense = sense(section.schema);
        let mut text = format!("\n{level} {}\n\n{}\n", section.heading(), wrapped(sense));
        if !section.also.is_empty() {
            let paths: Vec<String> = section.also.iter().map(|path| format!("`{path}`")).collect();
            text += &format!("\n{}\n", wrapped(format!("Also as {}.", listed(&paths, "and"))));
        }
        text += "\n| key | type | default | range | with | |\n";
        text += "| --- | --- | --- | --- | --- | --- |\n";
        match is_table(section.schema) {
            true => text += &self.rows(section.schema, ""),
            false => {
                let all: Vec<&Value> = forms(section.schema).collect();
                let names: Vec<&str> = all.iter().filter_map(|form| name(form)).collect();
                let has_table = |form: &&&Value| {
                    name(form).is_some_and(|name| {
                        all.iter().any(|one| keys(one).any(|(key, _)| key == name))
                    })
                };
                for form in all.iter().filter(|form| !has_table(form)) {
                    text += &self.form(form, &names);
                }
            }
        }
        text
    }

    /// One form of a policy: a name, or a table of a name and its parameters.
    fn form(&self, form: &'s Value, names: &[&str]) -> String {
        if let Some(name) = name(form) {
            return format!("| `\"{name}\"` | name |  |  |  | {} |\n", sense(form));
        }
        let mut text = String::new();
        for (name, inner) in keys(form) {
            let sense = sense(form);
            if is_table(inner) {
                // Where nothing must be said, the name alone is enough.
                let (alone, kind) = match names.contains(&&**name) {
                    true => (format!("`\"{name}\"` or "), "name or table"),
                    false => (String::new(), "table"),
                };
                text +=
                    &format!("| {alone}`{{ {name} = {{ ... }} }}` | {kind} |  |  |  | {sense} |\n");
                text += &self.rows(inner, &format!("{name}."));
            } else {
                let kind = self.kind(inner);
                text += &format!(
                    "| `{{ {name} = ... }}` | {kind} |  | {} |  | {sense} |\n",
                    range(inner)
                );
            }
        }
        text
    }

    /// The rows of a table's keys, those first that must be there.
    fn rows(&self, table: &'s Value, before: &str) -> String {
        let needed = table.get("required").and_then(Value::as_array);
        let is_needed = |key: &str| needed.is_some_and(|all| all.iter().any(|one| one == key));
        let beside = beside(table);
        let row = |(key, schema): (&String, &'s Value)| {
            let default = match (is_needed(key), schema.get("default")) {
                (true, _) => "required".to_owned(),
                (false, Some(default)) => value(default).replace('|', "\\|"),
                (false, None) => String::new(),
            };
            let with = beside.get(key).map_or_else(String::new, |all| all.join("; "));
            let (kind, range) = (self.kind(schema), self.range(schema));
            let sense = format!("{}{}", sense(schema), self.names(schema));
            format!("| `{before}{key}` | {kind} | {default} | {range} | {with} | {sense} |\n")
        };
        let (first, rest): (Vec<_>, Vec<_>) = keys(table).partition(|(key, _)| is_needed(key));
        first.into_iter().chain(rest).map(row).collect()
    }

    /// The range of a value, or of each of a list.
    fn range(&self, schema: &'s Value) -> String {
        let own = range(schema);
        match schema.get("items") {
            Some(each @ Value::Object(_)) if own.is_empty() && reference(each).is_none() => {
                let each = range(each);
                if each.is_empty() { each } else { format!("each {each}") }
            }
            _ => own,
        }
    }

    /// The type of a value in words.
    fn kind(&self, schema: &'s Value) -> String {
        let mut all = Vec::new();
        for word in self.words(schema) {
            if !all.contains(&word) {
                all.push(word);
            }
        }
        listed(&all, "or")
    }

    fn words(&self, schema: &'s Value) -> Vec<String> {
        if let Some(definition) = reference(schema) {
            let section = self.all.iter().find(|section| section.definition == definition);
            let Some(section) = section else { return self.words(self.definition(definition)) };
            let kind = if is_table(section.schema) { "table" } else { "name or table" };
            return vec![format!("{kind} [{}](#{})", section.heading(), section.anchor())];
        }
        let forms: Vec<&Value> = forms(schema).collect();
        if !forms.is_empty() {
            return forms.iter().flat_map(|form| self.words(form)).collect();
        }
        if let Some(name) = schema.get("const") {
            return vec![value(name)];
        }
        if let Some(Value::Array(names)) = schema.get("enum") {
            return names.iter().map(value).collect();
        }
        if let Some(title) = schema.get("title").and_then(Value::as_str) {
            return vec![title.to_owned()];
        }
        let word = match schema.get("type").and_then(Value::as_str) {
            Some("integer") => "whole number".to_owned(),
            Some("number") => "number".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("string") => "text".to_owned(),
            Some("array") => match schema.get("items") {
                Some(Value::Array(each)) => {
                    let each: Vec<String> = each.iter().map(|one| self.kind(one)).collect();
                    format!("[{}]", each.join(", "))
                }
                Some(each) => {
                    let words: Vec<String> =
                        self.words(each).iter().map(|word| several(word)).collect();
                    let n = match (schema.get("minItems"), schema.get("maxItems")) {
                        (Some(least), Some(most)) if least == most => format!("{least} "),
                        _ => String::new(),
                    };
                    format!("list of {n}{}", listed(&words, "or"))
                }
                None => unreachable!("a list of anything: {schema}"),
            },
            Some("object") => match schema.get("additionalProperties") {
                Some(of @ Value::Object(_)) => format!("table of names, each {}", self.kind(of)),
                _ => unreachable!("a table without a name: {schema}"),
            },
            _ => unreachable!("a value of no type: {schema}"),
        };
        vec![word]
    }

    /// The sense of each name that a value may be.
    fn names(&self, schema: &'s Value) -> String {
        let schema = match reference(schema) {
            Some(name) if !is_section(self.definition(name)) => self.definition(name),
            _ => return String::new(),
        };
        let told: Vec<String> = forms(schema)
            .filter_map(|form| {
                let (name, sense) = (form.get("const")?, sense(form));
                Some(format!("{}: {}", value(name), within_a_sentence(sense.trim_end_matches('.'))))
            })
            .collect();
        if told.is_empty() { String::new() } else { format!(" {}.", told.join("; ")) }
    }
}

/// The definition that a schema leads to.
fn reference(schema: &Value) -> Option<&str> {
    let one = schema.get("$ref").or_else(|| {
        let all = schema.get("allOf")?.as_array()?;
        all.iter().find_map(|one| one.get("$ref"))
    });
    one?.as_str()?.strip_prefix("#/definitions/")
}

/// The forms that a value may have; rules about keys are none.
fn forms(schema: &Value) -> impl Iterator<Item = &Value> {
    let choice = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    choice.into_iter().flatten()
}

/// The keys of a table.
fn keys(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn is_table(schema: &Value) -> bool {
    schema.get("properties").is_some()
}

/// True if a definition has a table of its own on the page: it has keys, or forms with keys.
fn is_section(schema: &Value) -> bool {
    is_table(schema) || forms(schema).any(is_table)
}

/// The description, fit for a cell.
fn sense(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or("");
    text.replace('|', "\\|")
}

/// The name that a form is, if it is one.
fn name(form: &Value) -> Option<&str> {
    form.get("const").and_then(Value::as_str)
}

/// The same, as it stands behind a colon: a name keeps its capital.
fn within_a_sentence(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or("");
    let is_name = first.chars().skip(1).any(char::is_uppercase);
    match text.chars().next() {
        Some(letter) if !is_name => {
            format!("{}{}", letter.to_lowercase(), &text[letter.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}

/// The plural of a type in words.
fn several(kind: &str) -> String {
    match kind {
        "whole number" | "number" | "text" | "time" | "size" | "rate" => format!("{kind}s"),
        _ => match kind.strip_prefix("table ") {
            Some(link) => format!("tables {link}"),
            None => kind.to_owned(),
        },
    }
}

/// A text in lines of at most 120 characters.
fn wrapped(text: String) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > 120 {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}
