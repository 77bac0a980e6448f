//! JSON Schemas of the gates' files: what the types say, and the ranges and exclusions that `check`
//! and its counterpart for HTTP hold a file to.

use advise::schema::{
    also, at_least_one, bound, bound_above_zero, exactly_one, needed_where, not_both, only_beside,
    required,
};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::config::GateFile;
use super::http::{self, HttpFile};
use super::{FORMAT, check};

/// The JSON Schema of a file of the gate for HTTP.
pub fn http_schema(generator: SchemaGenerator) -> Schema {
    let mut root = generator.into_root_schema_for::<HttpFile>();
    required(&mut root, &["format", "listen", "server"]);
    only_format(&mut root);
    for (path, _, least, most) in http::RANGES {
        bound(&mut root, path, least, most);
    }
    for (path, _) in http::ABOVE_ZERO {
        bound_above_zero(&mut root, path);
    }
    root
}

/// The JSON Schema of a file of the gate for PostgreSQL.
pub fn postgres_schema(generator: SchemaGenerator) -> Schema {
    let mut root = generator.into_root_schema_for::<GateFile>();
    required(&mut root, &["format", "database"]);
    at_least_one(&mut root, &["listen", "unix-socket"]);
    only_format(&mut root);
    for (path, _, least, most) in check::RANGES {
        bound(&mut root, path, least, most);
    }
    for (path, _) in check::TIMES {
        bound_above_zero(&mut root, path);
    }
    for (key, _) in check::USER_TIMES {
        bound_above_zero(&mut root, &format!("user.{key}"));
    }
    for path in ["database.wait-max", "class.deadline"] {
        bound_above_zero(&mut root, path);
    }
    root
}

fn only_format(root: &mut Schema) {
    let format = root.pointer_mut("/properties/format").and_then(Value::as_object_mut);
    format.expect("it is a key").insert("enum".into(), json!([FORMAT]));
}

/// A class of requests names something.
pub(super) fn http_class(schema: &mut Schema) {
    at_least_one(schema, &["path", "method", "header"]);
}

/// Methods that the gate serves.
pub(super) fn http_methods(schema: &mut Schema) {
    let each = schema.get_mut("items").and_then(Value::as_object_mut).expect("it is a list");
    each.insert("enum".into(), json!(http::METHODS));
}

/// The log of queries is a part of the access log.
pub(super) fn http_log(schema: &mut Schema) {
    only_true_beside(schema, "query", "access");
}

fn only_true_beside(schema: &mut Schema, key: &str, other: &str) {
    let is = json!({ "required": [key], "properties": { key: { "enum": [true] } } });
    also(schema, json!({ "if": is, "then": { "required": [other] } }));
}

/// A class of jobs names something.
pub(super) fn class(schema: &mut Schema) {
    at_least_one(schema, &["user", "database", "application-name", "tag", "fingerprint"]);
}

/// A certificate and its key belong together.
pub(super) fn tls(schema: &mut Schema) {
    only_beside(schema, "cert", "key");
    only_beside(schema, "key", "cert");
    needed_where(schema, "ca", "mode", &["verify-ca", "verify-full"]);
}

/// A password is of a forced user.
pub(super) fn database(schema: &mut Schema) {
    only_beside(schema, "password", "user");
}

/// A key has one place.
pub(super) fn key(schema: &mut Schema) {
    exactly_one(schema, &["parameter", "tag", "statement"]);
}

/// A place in a statement is that of a parameter or of a literal.
pub(super) fn statement(schema: &mut Schema) {
    not_both(schema, "parameter", "place");
    at_least_one(schema, &["parameter", "place"]);
}
