//! Schemas of what `--json` prints and of the files that are kept: those in `docs/schemas` are those of the
//! types, every verb is held to its own, and the keys have one style.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cli::json::Format;
use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::browser::Scratch;
use crate::examples::prepare;

/// Validators by the name of the format.
static KNOWN: LazyLock<BTreeMap<&'static str, Validator>> = LazyLock::new(|| {
    let validator = |format: &Format| {
        let schema = closed(format.schema.clone().to_value());
        (format.name, jsonschema::validator_for(&schema).expect("it is a schema"))
    };
    sekisho::formats().iter().map(validator).collect()
});

/// Holds each line that says its format to the schema of it. Every command of these tests passes here.
#[track_caller]
pub(crate) fn hold(out: &str) {
    for line in out.lines().filter(|line| line.starts_with("{\"format\":")) {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let format = object["format"].as_str().unwrap_or_else(|| panic!("no format: {line}"));
        hold_to(format, &object);
    }
}

/// Holds an object to a format.
#[track_caller]
pub(crate) fn hold_to(format: &str, object: &Value) {
    let known = KNOWN.get(format).unwrap_or_else(|| panic!("no schema of `{format}`: {object}"));
    let wrong = known.iter_errors(object);
    let wrong: Vec<String> =
        wrong.map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{format}:\n{}\n{object:#}", wrong.join("\n"));
}

/// The same schema without room for keys that it does not name. In `docs` there is room, since a later
/// program of the same version may add some.
fn closed(mut schema: Value) -> Value {
    let close = |of: &mut Map<String, Value>| {
        let is_open = of.get("additionalProperties").is_none_or(|more| *more == Value::Bool(true));
        if of.contains_key("properties") && is_open {
            of.insert("unevaluatedProperties".into(), false.into());
        }
    };
    let root = schema.as_object_mut().expect("a schema is an object");
    if let Some(Value::Object(definitions)) = root.get_mut("$defs") {
        definitions.values_mut().filter_map(Value::as_object_mut).for_each(close);
    }
    close(root);
    schema
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// A schema as its file has it.
fn text(format: &Format) -> String {
    let schema = format.schema.as_value();
    serde_json::to_string_pretty(schema).expect("a schema can be written") + "\n"
}

/// With `SEKISHO_SCHEMAS=write` the files are written anew instead: `cargo xtask schemas` says so.
#[test]
fn the_schemas_in_docs_are_those_of_the_types() {
    let formats = sekisho::formats();
    let folder = folder();
    let ours: BTreeSet<String> = formats.iter().map(Format::file).collect();
    assert_eq!(ours.len(), formats.len(), "two formats have one name");
    let there = fs::read_dir(&folder).into_iter().flatten();
    let there = there.map(|entry| entry.expect("a folder of ours").file_name());
    // Those of files that people write belong to another test.
    let others = there
        .map(|name| name.into_string().expect("a name of ours"))
        .filter(|name| name.ends_with(".json") && !name.ends_with(".toml.json"))
        .filter(|name| !ours.contains(name));
    let others: Vec<String> = others.collect();
    if std::env::var_os("SEKISHO_SCHEMAS").is_some_and(|wanted| wanted == "write") {
        fs::create_dir_all(&folder).expect("a folder of ours");
        for format in &formats {
            fs::write(folder.join(format.file()), text(format)).expect("the same");
        }
        for name in others {
            fs::remove_file(folder.join(name)).expect("the same");
        }
        return;
    }
    let is_stale = |format: &&Format| {
        let there = fs::read_to_string(folder.join(format.file()));
        there.ok().as_deref() != Some(&*text(format))
    };
    let stale: Vec<String> = formats.iter().filter(is_stale).map(Format::file).collect();
    assert!(
        stale.is_empty() && others.is_empty(),
        "docs/schemas is stale: {stale:?} differ, {others:?} are of no format. Type `cargo xtask schemas`; a key \
         that changes its meaning, or goes, needs a new version of its format"
    );
}

#[test]
fn every_schema_is_one_and_says_of_what() {
    for format in sekisho::formats() {
        let schema = format.schema.as_value();
        assert!(jsonschema::meta::is_valid(schema), "{}: {schema:#}", format.name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["title"], format.name);
        let told = schema["description"].as_str().unwrap_or_else(|| panic!("{}", format.name));
        assert!(!told.is_empty(), "{}", format.name);
        if format.name.starts_with("sekisho/") {
            assert_eq!(schema["properties"]["format"]["const"], format.name);
            assert!(
                schema["required"].as_array().is_some_and(|all| all.contains(&"format".into())),
                "{}",
                format.name
            );
        }
    }
}

/// Properties that nobody describes, in a schema: neither themselves, nor the type that they name, nor the form that
/// they tell from others.
fn undescribed(schema: &Value, path: &str, definitions: &Value, into: &mut Vec<String>) {
    let is_told = |of: &Value| of.get("description").is_some();
    let is_of_told = |of: &Value| {
        let to = of.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/$defs/"));
        to.is_some_and(|name| is_told(&definitions[name]))
    };
    match schema {
        Value::Object(of) => {
            if let Some(Value::Object(properties)) = of.get("properties") {
                for (key, one) in properties {
                    let forms = one.get("anyOf").and_then(Value::as_array);
                    let told = is_told(one)
                        || is_of_told(one)
                        || forms.is_some_and(|forms| forms.iter().any(is_of_told))
                        || is_told(schema) && path.contains("/oneOf/");
                    if !told {
                        into.push(format!("{path}/{key}"));
                    }
                }
            }
            for (key, inner) in of {
                undescribed(inner, &format!("{path}/{key}"), definitions, into);
            }
        }
        Value::Array(all) => {
            for (nth, inner) in all.iter().enumerate() {
                undescribed(inner, &format!("{path}/{nth}"), definitions, into);
            }
        }
        _ => {}
    }
}

/// A key is of use to a program whose author knows what it means.
#[test]
fn every_key_of_every_schema_is_described() {
    let mut missing = Vec::new();
    for format in sekisho::formats() {
        let schema = format.schema.as_value();
        let definitions = schema.get("$defs").cloned().unwrap_or_default();
        undescribed(schema, format.name, &definitions, &mut missing);
    }
    // The two parts of a span, as the files have them that are read back to the nanosecond.
    missing.retain(|path| !path.contains("/$defs/Duration/"));
    assert!(missing.is_empty(), "{} have no description:\n{}", missing.len(), missing.join("\n"));
}

/// An answer has times in seconds, whatever the types behind it have in their own files.
#[test]
fn no_answer_has_spans_of_seconds_and_nanoseconds() {
    for format in sekisho::formats().iter().filter(|one| one.name.starts_with("sekisho/")) {
        let schema = format.schema.as_value().to_string();
        assert!(!schema.contains("#/$defs/Duration"), "{}: {schema}", format.name);
    }
}

/// Keys that are names of something, and not of a field: a kind with its parameters, a mark of a file.
fn is_tag(of: &Map<String, Value>, key: &str) -> bool {
    let alone = of["properties"].as_object().is_some_and(|all| all.len() == 1);
    alone && of.get("required").is_some_and(|required| *required == Value::from(vec![key]))
        || key.starts_with("sekisho-")
}

/// Keys that are no snake_case.
fn others(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(of) => {
            if let Some(Value::Object(properties)) = of.get("properties") {
                let is_snake = |key: &str| {
                    key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                };
                let keys = properties.keys().filter(|key| !is_snake(key) && !is_tag(of, key));
                into.extend(keys.cloned());
            }
            of.values().for_each(|inner| others(inner, into));
        }
        Value::Array(all) => all.iter().for_each(|inner| others(inner, into)),
        _ => {}
    }
}

/// Keys of a run were in snake_case, and those of a prediction in kebab-case.
#[test]
fn keys_have_one_style() {
    for format in sekisho::formats() {
        let mut found = BTreeSet::new();
        others(format.schema.as_value(), &mut found);
        assert!(found.is_empty(), "{}: {found:?}", format.name);
    }
}

/// Each line of a file of lines, held to the format of its file.
#[track_caller]
fn lines(format: &str, text: &str) {
    let objects = text.lines().map(|line| serde_json::from_str(line).expect("a line is an object"));
    let objects: Vec<Value> = objects.collect();
    assert!(objects.len() > 1, "{format}: {text}");
    objects.iter().for_each(|object| hold_to(format, object));
}

#[test]
fn files_that_are_kept_are_held_to_their_schemas() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    prepare(&folder);
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
    lines("sekisho-run/1", &read(".sekisho/runs/RUN.jsonl"));
    lines("sekisho-recording/1", &read("gate.rec"));
    let object = |name: &str| serde_json::from_str(&read(name)).expect("it is an object");
    hold_to("sekisho-prediction/1", &object(".sekisho/predictions/P.json"));
    hold_to("sekisho-knee/1", &object("service.knee.json"));
    hold_to("sekisho-tpcc/1", &object(".sekisho/runs/8.tpcc.json"));
}

/// A check that cannot fail is none.
#[test]
fn a_wrong_answer_is_found_out() {
    let format = "sekisho/interrupted/1";
    let right = serde_json::json!({
        "format": format, "verdict": "interrupted", "exit_code": 130,
        "at": null, "runs": null, "left": null, "seed": 1,
    });
    hold_to(format, &right);
    let wrong = |key: &str, value: Value| {
        let mut object = right.clone();
        object[key] = value;
        !KNOWN[format].is_valid(&object)
    };
    assert!(wrong("more", 1.into()), "a key that no schema names");
    assert!(wrong("exit_code", 1.into()), "a code of no verdict");
    assert!(wrong("runs", "two".into()), "a text for a number");
    assert!(wrong("format", "sekisho/demo/1".into()), "another format");
    let mut without = right.clone();
    without.as_object_mut().expect("it is one").remove("verdict");
    assert!(!KNOWN[format].is_valid(&without), "no verdict");
}
