//! Each documented default is what the reader takes where the key is absent.

use std::collections::{BTreeMap, BTreeSet};

use reference::File;

use crate::examples::examples;
use crate::place::tables;
use crate::reading::{meaning, text_of};

#[test]
fn a_documented_default_is_what_is_taken_where_the_key_is_absent() {
    let all = examples();
    for file in File::ALL {
        let schema = file.schema();
        // Each default, and an example that means the same with it and without it.
        let mut seen = BTreeSet::new();
        let mut held: BTreeMap<String, String> = BTreeMap::new();
        for example in all.iter().filter(|example| example.file == file) {
            let without = meaning(file, &example.text, &example.folder).expect(&example.name);
            // Of a gate whose certificates lie nowhere, only the file is known.
            let certificates = example.value.pointer("/tls/clients/cert").is_some();
            let all = tables(&schema, &example.value).into_iter();
            let is_plain = file != File::GatePostgres || !certificates;
            for table in all.filter(|table| is_plain || table.pointer.starts_with("/tls")) {
                let keys = table.schema["properties"].as_object().expect("a table has keys");
                for (key, of) in keys {
                    let Some(default) = of.get("default") else { continue };
                    let id = format!("{}.{key}", table.kind);
                    seen.insert(id.clone());
                    let mut changed = example.value.clone();
                    let place = changed.pointer_mut(&table.pointer).expect("it stands there");
                    let place = place.as_object_mut().expect("it is a table");
                    if place.contains_key(key) {
                        continue;
                    }
                    place.insert(key.clone(), default.clone());
                    // Where the key has no meaning, the reader says so.
                    let Ok(with) = meaning(file, &text_of(&changed), &example.folder) else {
                        continue;
                    };
                    assert!(
                        with == without,
                        "{}: {} is not {key} = {default}",
                        example.name,
                        table.pointer
                    );
                    held.insert(id, example.name.clone());
                }
            }
        }
        let never: Vec<&String> = seen.iter().filter(|id| !held.contains_key(*id)).collect();
        assert!(never.is_empty(), "{file:?}: no example shows what is taken for {never:?}");
        assert!(!seen.is_empty() || matches!(file, File::Documents), "{file:?} has defaults");
        let all = all_defaults(&schema);
        let unseen = all.difference(&seen).collect::<Vec<_>>();
        assert!(unseen.is_empty(), "{file:?}: no example has the table of {unseen:?}");
    }
}

/// Every default of a schema's named tables.
fn all_defaults(schema: &serde_json::Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let definitions = schema.get("definitions").and_then(|all| all.as_object());
    for (name, definition) in definitions.into_iter().flatten() {
        let keys = definition.get("properties").and_then(|all| all.as_object());
        for (key, of) in keys.into_iter().flatten() {
            if of.get("default").is_some() {
                all.insert(format!("#/definitions/{name}.{key}"));
            }
        }
    }
    all
}
