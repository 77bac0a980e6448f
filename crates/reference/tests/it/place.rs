//! Places in a file beside the schema of what stands there.

use serde_json::Value;

/// A table in a file, with the schema of its keys.
pub(crate) struct Table<'s> {
    /// The place in the file, a JSON pointer.
    pub(crate) pointer: String,
    /// The place in the schema, which is the same for all tables of a kind.
    pub(crate) kind: String,
    pub(crate) schema: &'s Value,
}

/// All tables of a file that have keys.
pub(crate) fn tables<'s>(root: &'s Value, value: &Value) -> Vec<Table<'s>> {
    let mut all = Vec::new();
    seek(root, root, "#", value, "", &mut all);
    all
}

fn seek<'s>(
    root: &'s Value,
    schema: &'s Value,
    kind: &str,
    value: &Value,
    pointer: &str,
    all: &mut Vec<Table<'s>>,
) {
    if let Some(reference) = reference(schema) {
        let inner = root.pointer(reference.trim_start_matches('#')).expect("it leads somewhere");
        return seek(root, inner, reference, value, pointer, all);
    }
    let forms = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    if let Some(forms) = forms {
        for (nth, form) in forms.iter().enumerate().filter(|(_, form)| may_be(root, form, value)) {
            seek(root, form, &format!("{kind}/{nth}"), value, pointer, all);
        }
        return;
    }
    match value {
        Value::Object(table) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            if properties.is_some() {
                let (pointer, kind) = (pointer.to_owned(), kind.to_owned());
                all.push(Table { pointer, kind, schema });
            }
            for (key, value) in table {
                let named = properties.and_then(|all| all.get(key));
                let inner = named.or_else(|| schema.get("additionalProperties"));
                let Some(inner) = inner.filter(|inner| inner.is_object()) else { continue };
                let kind = format!("{kind}/properties/{key}");
                let key = key.replace('~', "~0").replace('/', "~1");
                seek(root, inner, &kind, value, &format!("{pointer}/{key}"), all);
            }
        }
        Value::Array(list) => {
            let Some(each @ Value::Object(_)) = schema.get("items") else { return };
            for (nth, value) in list.iter().enumerate() {
                seek(root, each, &format!("{kind}/items"), value, &format!("{pointer}/{nth}"), all);
            }
        }
        _ => {}
    }
}

/// The definition that a schema leads to.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let one = schema
        .get("$ref")
        .or_else(|| schema.get("allOf")?.as_array()?.iter().find_map(|one| one.get("$ref")));
    one?.as_str()
}

/// True if a value may be of this form: a table whose keys are known there.
fn may_be(root: &Value, form: &Value, value: &Value) -> bool {
    if let Some(reference) = reference(form) {
        let inner = root.pointer(reference.trim_start_matches('#')).expect("it leads somewhere");
        return may_be(root, inner, value);
    }
    if let Some(forms) = form.get("oneOf").or_else(|| form.get("anyOf")).and_then(Value::as_array) {
        return forms.iter().any(|form| may_be(root, form, value));
    }
    match (value, form.get("properties").and_then(Value::as_object)) {
        (Value::Object(table), Some(known)) => table.keys().all(|key| known.contains_key(key)),
        _ => false,
    }
}
