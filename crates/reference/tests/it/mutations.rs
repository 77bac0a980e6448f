//! Files with one thing changed: what the reader takes, its schema takes; and what is wrong with the shape
//! of a file, both refuse.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use reference::File;
use serde_json::{Value, json};

use crate::examples::{Example, examples, validator};
use crate::place::tables;
use crate::reading::{is_about_shape, meaning, text_of};

/// A file with one thing changed.
struct Mutant {
    told: String,
    value: Value,
}

/// Each key without, each with a value of every other type, one key too many in each table, and each key
/// that is not there, with a value that it has elsewhere.
fn mutants(schema: &Value, example: &Example, samples: &Samples) -> Vec<Mutant> {
    let mut all = Vec::new();
    let strange = [json!(true), json!(1.5), json!("neither"), json!({}), json!([]), json!(-3)];
    for table in tables(schema, &example.value) {
        let mut add = |told: String, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut value = example.value.clone();
            let place = value.pointer_mut(&table.pointer).and_then(Value::as_object_mut);
            change(place.expect("it is a table"));
            all.push(Mutant { told: format!("{}: {} {told}", example.name, table.pointer), value });
        };
        add("with unheard-of".into(), &|place| {
            place.insert("unheard-of".into(), json!(1));
        });
        let there = example.value.pointer(&table.pointer).and_then(Value::as_object);
        for key in there.expect("it is a table").keys() {
            add(format!("without {key}"), &|place| {
                place.remove(key);
            });
            for value in &strange {
                add(format!("{key} = {value}"), &|place| {
                    place.insert(key.clone(), value.clone());
                });
            }
        }
        for (key, of) in table.schema["properties"].as_object().expect("it has keys") {
            for value in beyond(of) {
                add(format!("{key} = {value}"), &|place| {
                    place.insert(key.clone(), value.clone());
                });
            }
            for value in samples.get(&format!("{}.{key}", table.kind)).into_iter().flatten() {
                add(format!("{key} = {value}"), &|place| {
                    place.insert(key.clone(), value.clone());
                });
            }
        }
    }
    all
}

/// Values just outside of a key's range.
fn beyond(of: &Value) -> Vec<Value> {
    let number = |key: &str| of.get(key).and_then(Value::as_f64);
    let whole = of.get("type").is_some_and(|kind| kind != "number");
    let make = |value: f64| if whole { json!(value as i64) } else { json!(value) };
    let mut all = Vec::new();
    all.extend(number("minimum").map(|least| make(least - 1.0)));
    all.extend(number("maximum").map(|most| make(most + 1.0)));
    all.extend(number("exclusiveMinimum").map(make));
    all.extend(number("exclusiveMaximum").map(make));
    let title = of.get("title").and_then(Value::as_str);
    let zero = title.and_then(|title| match title {
        "rate" => Some("0/s"),
        _ if title.starts_with("time") => Some("0s"),
        _ => None,
    });
    all.extend(zero.map(|zero| json!(zero)));
    all
}

/// Values of keys by the kind of their table, from all examples.
type Samples = BTreeMap<String, Vec<Value>>;

fn samples(schema: &Value, all: &[&Example]) -> Samples {
    let mut samples = Samples::new();
    for example in all {
        for table in tables(schema, &example.value) {
            let there = example.value.pointer(&table.pointer).and_then(Value::as_object);
            for (key, value) in there.expect("it is a table") {
                let known = samples.entry(format!("{}.{key}", table.kind)).or_default();
                if known.len() < 3 && !known.contains(value) {
                    known.push(value.clone());
                }
            }
        }
    }
    samples
}

#[test]
fn a_schema_refuses_what_its_reader_refuses_and_takes_what_it_takes() {
    let all = examples();
    for file in File::ALL {
        let schema = file.schema();
        let validator = validator(file);
        // The studies' scenarios say the same in more lines.
        let is_own =
            |example: &&Example| example.file == file && !example.name.starts_with("studies");
        let own: Vec<&Example> = all.iter().filter(is_own).collect();
        let samples = samples(&schema, &own);
        let rules = rules(&schema);
        let (mut taken, mut refused) = (0, 0);
        let mut broken = BTreeSet::new();
        let mut wrong = Vec::new();
        for example in own {
            let plain = meaning(file, &text_of(&example.value), &example.folder);
            assert!(plain.is_ok(), "{}: {plain:?}", example.name);
            for mutant in mutants(&schema, example, &samples) {
                let read = meaning(file, &text_of(&mutant.value), &example.folder);
                let is_valid = validator.is_valid(&mutant.value);
                match (&read, is_valid) {
                    (Ok(_), true) => taken += 1,
                    (Err(_), false) => {
                        refused += 1;
                        broken.extend(broken_rules(&schema, &rules, &mutant.value));
                    }
                    // A list in place of a table is read by position; no page says that it may be.
                    (Ok(_), false) if mutant.told.ends_with(" = []") => {}
                    (Ok(_), false) => wrong.push(format!("{}: the reader takes it", mutant.told)),
                    (Err(error), true) if is_about_shape(error) => {
                        wrong.push(format!("{}: the schema takes it, but {error}", mutant.told));
                    }
                    // What only the reader can know: names, files, sums.
                    (Err(_), true) => {}
                }
            }
        }
        let n = wrong.len();
        wrong.truncate(20);
        assert!(wrong.is_empty(), "{file:?}, {n} wrong:\n{}", wrong.join("\n"));
        assert!(taken > 5 && refused > 20, "{file:?}: {taken} taken, {refused} refused");
        let never: Vec<&String> = rules.keys().filter(|rule| !broken.contains(*rule)).collect();
        assert!(never.is_empty(), "{file:?}: no example breaks {never:#?}");
    }
}

/// A rule about keys or a range: the kind of its table, and a schema of its own.
struct Rule {
    kind: String,
    validator: Validator,
}

/// Rules about keys and ranges, by the kind of their table and their text.
fn rules(schema: &Value) -> BTreeMap<String, Rule> {
    let mut all = BTreeMap::new();
    let mut add = |kind: &str, rule: &Value| {
        let validator = jsonschema::validator_for(rule).expect("it is a schema");
        all.insert(format!("{kind} {rule}"), Rule { kind: kind.to_owned(), validator });
    };
    let definitions = schema.get("definitions").and_then(Value::as_object);
    let named =
        definitions.into_iter().flatten().map(|(name, one)| (format!("#/definitions/{name}"), one));
    for (kind, definition) in named.chain([("#".to_owned(), schema)]) {
        for rule in definition.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            add(&kind, rule);
        }
        let keys = definition.get("properties").and_then(Value::as_object);
        for (key, of) in keys.into_iter().flatten() {
            for bound in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
                let Some(value) = of.get(bound) else { continue };
                add(&kind, &json!({ "properties": { key: { bound: value } } }));
            }
            for rule in of.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                if rule.get("not").is_some() {
                    add(&kind, &json!({ "properties": { key: rule } }));
                }
            }
        }
    }
    all
}

/// The rules that a file breaks.
fn broken_rules(schema: &Value, rules: &BTreeMap<String, Rule>, value: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for table in tables(schema, value) {
        let place = value.pointer(&table.pointer).expect("it stands there");
        for (name, rule) in rules.iter().filter(|(_, rule)| rule.kind == table.kind) {
            if !rule.validator.is_valid(place) {
                broken.push(name.clone());
            }
        }
    }
    broken
}
