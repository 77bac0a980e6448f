//! Rules of a schema in words: the range of a value, and the keys that it goes with or excludes.

use std::collections::BTreeMap;

use serde_json::Value;

/// The range of a value in words; empty if its type says all.
pub(crate) fn range(schema: &Value) -> String {
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(range) = schema.get("x-range").and_then(Value::as_str) {
        return range.to_owned();
    }
    let text = match (
        number("minimum"),
        number("exclusiveMinimum"),
        number("maximum"),
        number("exclusiveMaximum"),
    ) {
        (Some(least), None, Some(most), None) => format!("{least} to {most}"),
        (Some(least), None, None, Some(most)) => format!("{least} to below {most}"),
        (None, Some(least), Some(most), None) => format!("above {least}, at most {most}"),
        (None, Some(least), None, None) => format!("above {least}"),
        (None, None, Some(most), None) => format!("at most {most}"),
        // That is what a whole number is here.
        (Some(0.0), None, None, None) => String::new(),
        (Some(least), None, None, None) => format!("at least {least}"),
        _ => String::new(),
    };
    if !text.is_empty() {
        return text;
    }
    let not_zero = |rule: &Value| rule.pointer("/not/pattern").is_some();
    if rules(schema).iter().any(not_zero) {
        return "above 0".to_owned();
    }
    match (number("minItems"), number("maxItems")) {
        (Some(least), None) => format!("at least {least}"),
        _ => String::new(),
    }
}

/// The rules of a schema beside its type.
fn rules(schema: &Value) -> &[Value] {
    schema.get("allOf").and_then(Value::as_array).map_or(&[], |rules| rules)
}

/// What each key of a table goes with, needs or excludes, in words.
pub(crate) fn beside(table: &Value) -> BTreeMap<String, Vec<String>> {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut say = |key: &str, text: String| said.entry(key.to_owned()).or_default().push(text);
    for rule in rules(table) {
        if let Some(kinds) = rule.get("oneOf").and_then(Value::as_array) {
            if kinds.iter().any(|kind| kind.get("not").is_some()) {
                of_kinds(table, kinds, &mut say);
                continue;
            }
            let all: Vec<&str> = kinds.iter().flat_map(needed).collect();
            for key in &all {
                say(key, format!("instead of {}", codes(&others(&all, key), "and")));
            }
        } else if let Some(one) = rule.get("anyOf").and_then(Value::as_array) {
            let all: Vec<&str> = one.iter().flat_map(needed).collect();
            for key in &all {
                say(key, format!("this or {}", codes(&others(&all, key), "or")));
            }
        } else if let Some(both) = rule.get("not") {
            if let [one, other] = needed(both)[..] {
                say(one, format!("not with `{other}`"));
                say(other, format!("not with `{one}`"));
            }
        } else if let Some(Value::Object(all)) = rule.get("dependencies") {
            for (key, other) in all {
                let other = other.as_array().map_or(&[][..], |list| list);
                let other: Vec<&str> = other.iter().filter_map(Value::as_str).collect();
                say(key, format!("only with {}", codes(&other, "and")));
            }
        } else if let (Some(condition), Some(then)) = (rule.get("if"), rule.get("then")) {
            conditional(condition, then, &mut say);
        }
    }
    for all in said.values_mut() {
        merge(all);
    }
    said
}

/// Says once that a key is needed where it is alone allowed.
fn merge(all: &mut Vec<String>) {
    let Some(only) = all.iter().position(|text| text.starts_with("only where ")) else { return };
    let place = all[only].trim_start_matches("only ").to_owned();
    if let Some(needed) = all.iter().position(|text| *text == format!("needed {place}")) {
        all[needed] = format!("needed {place}, and only there");
        all.remove(only);
    }
}

/// Tables of several kinds, each made by one key, beside which some others may stand.
fn of_kinds(table: &Value, kinds: &[Value], say: &mut impl FnMut(&str, String)) {
    let all = table.get("properties").and_then(Value::as_object);
    let all: Vec<&str> = all.into_iter().flatten().map(|(key, _)| &**key).collect();
    let mut with: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let named: Vec<&str> = kinds.iter().flat_map(needed).collect();
    for kind in kinds {
        let [name] = needed(kind)[..] else { continue };
        let not = kind.pointer("/not/anyOf").and_then(Value::as_array);
        let not: Vec<&str> = not.into_iter().flatten().flat_map(needed).collect();
        let may: Vec<&str> =
            all.iter().copied().filter(|key| *key != name && !not.contains(key)).collect();
        match &may[..] {
            [] => say(name, "alone".to_owned()),
            may => say(name, format!("alone or with {}", codes(may, "and"))),
        }
        for key in may {
            with.entry(key).or_default().push(name);
        }
    }
    for (key, kinds) in with {
        let also = if named.contains(&key) { "also" } else { "only" };
        say(key, format!("{also} with {}", codes(&kinds, "or")));
    }
}

fn conditional(condition: &Value, then: &Value, say: &mut impl FnMut(&str, String)) {
    let only = then.get("properties").and_then(Value::as_object);
    let is = condition.get("properties").and_then(Value::as_object);
    let values = |schema: &Value| -> String {
        let list = schema.get("enum").and_then(Value::as_array).map_or(&[][..], |list| list);
        let list: Vec<String> = list.iter().map(value).collect();
        listed(&list, "or")
    };
    for key in needed(condition) {
        for (other, schema) in only.into_iter().flatten() {
            say(key, format!("only where `{other}` is {}", values(schema)));
        }
        if let Some(any) = then.get("anyOf").and_then(Value::as_array) {
            let any: Vec<&str> = any.iter().flat_map(needed).collect();
            say(key, format!("needs {}", codes(&any, "or")));
        }
        for (other, schema) in is.into_iter().flatten() {
            for needed in needed(then) {
                say(needed, format!("needed where `{other}` is {}", values(schema)));
            }
        }
    }
}

/// A value as it stands in a file.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`\"{text}\"`"),
        other => format!("`{other}`"),
    }
}

fn needed(schema: &Value) -> Vec<&str> {
    let keys = schema.get("required").and_then(Value::as_array).map_or(&[][..], |keys| keys);
    keys.iter().filter_map(Value::as_str).collect()
}

fn others<'k>(all: &[&'k str], key: &str) -> Vec<&'k str> {
    all.iter().copied().filter(|other| *other != key).collect()
}

fn codes(keys: &[&str], word: &str) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    listed(&keys, word)
}

/// A list in a sentence.
pub(crate) fn listed(all: &[String], word: &str) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}
