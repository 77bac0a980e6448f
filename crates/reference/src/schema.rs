//! A file's JSON Schema, as editors of TOML take it: draft 7, since they know that best, and without
//! `null`, which TOML does not have.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::{Map, Value, json};

/// A kind of file that a person writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// A scenario.
    Scenario,
    /// Configuration of `sekisho gate http`.
    GateHttp,
    /// Configuration of `sekisho gate postgres`.
    GatePostgres,
    /// A set of documents, for `measure http --documents`.
    Documents,
    /// Requests, for `measure http --targets`.
    Requests,
}

impl File {
    /// Every kind.
    pub const ALL: [File; 5] =
        [File::Scenario, File::GateHttp, File::GatePostgres, File::Documents, File::Requests];

    /// Name of the schema, without its folder.
    pub fn schema_name(self) -> &'static str {
        match self {
            File::Scenario => "scenario.toml.json",
            File::GateHttp => "gate-http.toml.json",
            File::GatePostgres => "gate-postgres.toml.json",
            File::Documents => "documents.toml.json",
            File::Requests => "requests.toml.json",
        }
    }

    /// Path of the schema from the root of the repository.
    pub fn schema_path(self) -> String {
        format!("docs/schemas/{}", self.schema_name())
    }

    fn title(self) -> &'static str {
        match self {
            File::Scenario => "sekisho: scenario",
            File::GateHttp => "sekisho: gate for HTTP",
            File::GatePostgres => "sekisho: gate for PostgreSQL",
            File::Documents => "sekisho: set of documents",
            File::Requests => "sekisho: requests",
        }
    }

    /// The JSON Schema of such a file.
    pub fn schema(self) -> Value {
        let generator = SchemaSettings::draft07().into_generator();
        let mut schema = match self {
            File::Scenario => generator.into_root_schema_for::<advise::Scenario>(),
            File::GateHttp => gatefile::schema::http_schema(generator),
            File::GatePostgres => gatefile::schema::postgres_schema(generator),
            File::Documents => formats::document_file::schema(generator),
            File::Requests => formats::request_file::schema(generator),
        };
        schema.insert("title".into(), json!(self.title()));
        use schemars::transform::Transform;
        RecursiveTransform(without_null).transform(&mut schema);
        RecursiveTransform(plain).transform(&mut schema);
        schema.to_value()
    }
}

/// Takes `null` out: a key of TOML is there or not.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(names)) = object.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    let is_null = |form: &Value| form.get("type").is_some_and(|kind| kind == "null");
    let Some(Value::Array(forms)) = object.get_mut("anyOf") else { return };
    let before = forms.len();
    forms.retain(|form| !is_null(form));
    if forms.len() == before {
        return;
    }
    if let [one] = &forms[..] {
        let one = one.clone();
        object.remove("anyOf");
        match one {
            Value::Object(inner) if !inner.contains_key("$ref") => add(object, inner),
            one => object
                .entry("allOf")
                .or_insert_with(|| json!([]))
                .as_array_mut()
                .expect("rules are a list")
                .insert(0, one),
        }
    }
}

/// Adds what is not there yet: a key's own description goes before that of its type.
fn add(object: &mut Map<String, Value>, inner: Map<String, Value>) {
    for (key, value) in inner {
        object.entry(key).or_insert(value);
    }
}

/// Leaves out what no reader of the schema needs, and writes descriptions as plain text.
fn plain(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    // Widths of our numbers; their bounds stand beside.
    object.remove("format");
    // Defaults of tables are those of their keys.
    let is_table = |value: &Value| match value {
        Value::Null | Value::Object(_) => true,
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    if object.get("default").is_some_and(is_table) {
        object.remove("default");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = sentence(text);
    }
}

/// A doc comment on one line, without the marks of rustdoc.
fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("\\[", "[").replace("\\]", "]")
}
