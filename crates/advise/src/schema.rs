//! Rules of files in the words of JSON Schema: a derived schema knows keys, types and defaults; these
//! add which keys go together. What a reader refuses for other reasons no schema can say.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::units;

/// A number of nothing, with any unit.
const ZERO: &str = "^\\s*[0_]*\\.?[0_]+([eE][-+]?[0-9_]+)?\\s*[^0-9._eE\\s]";

/// Exactly one of these keys is there.
pub fn exactly_one(schema: &mut Schema, keys: &[&str]) {
    let one: Vec<Value> = keys.iter().map(|key| json!({ "required": [key] })).collect();
    also(schema, json!({ "oneOf": one }));
}

/// At least one of these keys is there.
pub fn at_least_one(schema: &mut Schema, keys: &[&str]) {
    let one: Vec<Value> = keys.iter().map(|key| json!({ "required": [key] })).collect();
    also(schema, json!({ "anyOf": one }));
}

/// Not both of these keys are there.
pub fn not_both(schema: &mut Schema, one: &str, other: &str) {
    also(schema, json!({ "not": { "required": [one, other] } }));
}

/// The first key is there only beside the second.
pub fn only_beside(schema: &mut Schema, key: &str, other: &str) {
    also(schema, json!({ "dependencies": { key: [other] } }));
}

/// The key is there only where another has one of these values.
pub fn only_where(schema: &mut Schema, key: &str, other: &str, values: &[&str]) {
    let then = json!({ "properties": { other: { "enum": values } } });
    also(schema, json!({ "if": { "required": [key] }, "then": then }));
}

/// The key is there wherever another has one of these values.
pub fn needed_where(schema: &mut Schema, key: &str, other: &str, values: &[&str]) {
    let is = json!({ "required": [other], "properties": { other: { "enum": values } } });
    also(schema, json!({ "if": is, "then": { "required": [key] } }));
}

/// Exactly one kind of table: the key that makes it one, and those that may stand beside it.
pub fn exactly_one_kind(schema: &mut Schema, kinds: &[(&str, &[&str])]) {
    let all: BTreeSet<&str> =
        kinds.iter().flat_map(|(kind, beside)| beside.iter().chain([kind])).copied().collect();
    let kinds = kinds.iter().map(|(kind, beside)| {
        let others = all.iter().filter(|key| *key != kind && !beside.contains(key));
        let others: Vec<Value> = others.map(|key| json!({ "required": [key] })).collect();
        json!({ "required": [kind], "not": { "anyOf": others } })
    });
    let kinds: Vec<Value> = kinds.collect();
    also(schema, json!({ "oneOf": kinds }));
}

/// At least one of these keys is there wherever another is.
pub fn at_least_one_where_there(schema: &mut Schema, key: &str, needed: &[&str]) {
    let needed: Vec<Value> = needed.iter().map(|key| json!({ "required": [key] })).collect();
    also(schema, json!({ "if": { "required": [key] }, "then": { "anyOf": needed } }));
}

/// These keys are there, whatever the reader would take in their place.
///
/// # Panics
/// If one of them is no key.
pub fn required(schema: &mut Schema, keys: &[&str]) {
    let object = schema.ensure_object();
    for key in keys {
        let property = object.get_mut("properties").and_then(|all| all.get_mut(*key));
        let property = property.and_then(Value::as_object_mut).expect("it is a key");
        property.remove("default");
    }
    let known = object.entry("required").or_insert_with(|| json!([]));
    let known = known.as_array_mut().expect("it is a list of keys");
    known.extend(keys.iter().map(|key| json!(key)));
}

/// A policy by name alone, where it needs no parameter; else its schema has only the table.
pub fn names_alone(schema: &mut Schema) {
    let forms = schema.get_mut("oneOf").and_then(Value::as_array_mut).expect("it is a choice");
    let mut named = Vec::new();
    for form in forms.iter() {
        let Some(all) = form.get("properties").and_then(Value::as_object) else { continue };
        let (name, parameters) = all.iter().next().expect("a table of one name");
        if parameters.get("required").is_none() {
            named.push(json!({
                "type": "string",
                "const": name,
                "description": form.get("description"),
            }));
        }
    }
    forms.extend(named);
}

/// The quantity is above 0.
pub fn above_zero(schema: &mut Schema) {
    also(schema, json!({ "not": { "pattern": ZERO } }));
}

/// The key, by its path from the root, has a number from `least` to `most`.
///
/// # Panics
/// If there is no such key.
pub fn bound(root: &mut Schema, path: &str, least: u64, most: u64) {
    let property = at(root, path);
    let object = property.as_object_mut().expect("a key has a schema");
    let is_integer = |kind: &Value| kind == "integer";
    let is_number = object.get("type").is_some_and(|kind| {
        is_integer(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_integer))
    });
    // A quantity is a text, whose number no schema can compare.
    if !is_number {
        object.insert("x-range".into(), json!(format!("{} to {}", Bytes(least), Bytes(most))));
    } else {
        object.insert("minimum".into(), json!(least));
        object.insert("maximum".into(), json!(most));
    }
}

/// The quantity at this path from the root is above 0.
///
/// # Panics
/// If there is no such key.
pub fn bound_above_zero(root: &mut Schema, path: &str) {
    let schema: &mut Schema = at(root, path).try_into().expect("a key has a schema");
    above_zero(schema);
}

/// The schema of a key, by its path from the root; lists are passed through.
fn at<'s>(root: &'s mut Schema, path: &str) -> &'s mut Value {
    let (outer, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut pointer = String::new();
    for name in outer.split('.').filter(|name| !name.is_empty()) {
        let here = root.pointer(&pointer).expect("it was found before");
        let property = here.pointer(&format!("/properties/{name}"));
        let property =
            property.unwrap_or_else(|| panic!("there is no table `{name}` for `{path}`"));
        let reference = reference(property).unwrap_or_else(|| panic!("`{name}` is no table"));
        pointer = reference.trim_start_matches('#').to_owned();
    }
    let pointer = format!("{pointer}/properties/{key}");
    root.pointer_mut(&pointer).unwrap_or_else(|| panic!("there is no key `{path}`"))
}

/// The definition that a key's schema leads to: of its table, or of the tables of its list.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    direct.or_else(|| schema.get("items").and_then(reference)).or_else(|| {
        ["allOf", "anyOf"]
            .into_iter()
            .find_map(|all| schema.get(all)?.as_array()?.iter().find_map(reference))
    })
}

/// Adds a rule to those that are there.
///
/// # Panics
/// If `allOf` of the schema is no list.
pub fn also(schema: &mut Schema, rule: Value) {
    let rules = schema.ensure_object().entry("allOf").or_insert_with(|| json!([]));
    rules.as_array_mut().expect("rules are a list").push(rule);
}

/// A quantity: a number and one of these units.
fn quantity(title: &str, example: &str, units: &str) -> Schema {
    json_schema!({
        "type": "string",
        "title": title,
        "pattern": format!("^{}$", pattern(units)),
        "examples": [example],
    })
}

/// A number and one of these units, as a regular expression.
fn pattern(units: &str) -> String {
    format!("\\s*([0-9][0-9_]*\\.?[0-9_]*|\\.[0-9][0-9_]*)([eE][-+]?[0-9_]+)?\\s*({units})\\s*")
}

/// The names of units as alternatives.
fn names(units: &[(&str, f64, f64)]) -> String {
    units.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join("|")
}

/// The pattern of a time, without its ends.
pub fn time_pattern() -> String {
    pattern(&names(&units::TIMES))
}

macro_rules! inline {
    ($name:ident, $schema:expr) => {
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

use crate::{Bytes, PerByte, Rate, Span, Unreachable};

inline!(Span, quantity("time", "250ms", &names(&units::TIMES)));
inline!(Rate, quantity("rate", "200/s", &format!("/({})", names(&units::TIMES))));
inline!(Bytes, quantity("size", "50kB", &names(&units::SIZES)));
inline!(
    PerByte,
    quantity(
        "time per size",
        "0.485us/kB",
        &format!("({})/({})", names(&units::TIMES), names(&units::SIZES))
    )
);
inline!(
    Unreachable,
    json_schema!({
        "type": "string",
        "title": "time, `refuse` or `wait`",
        "pattern": format!("^(refuse|wait|{})$", time_pattern()),
        "examples": ["refuse", "wait", "5s"],
    })
);
