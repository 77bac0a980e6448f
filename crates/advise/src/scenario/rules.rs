//! Rules of a scenario that its types do not say: which keys exclude or need each other. They are for
//! the schema; the readers beside the types have the last word, and a test of `reference` compares the two.

use schemars::Schema;
use serde_json::Value;

use crate::schema::{at_least_one, exactly_one, needed_where, not_both, only_beside, only_where};

/// A class of jobs.
pub(super) fn class(schema: &mut Schema) {
    exactly_one(schema, &["population", "rate", "rate-curve", "trace", "load"]);
    exactly_one(schema, &["route", "matrix", "load"]);
    only_beside(schema, "think", "population");
    only_beside(schema, "arrivals", "rate");
    not_both(schema, "load", "sizes");
    not_both(schema, "load", "client");
    not_both(schema, "load", "deadline");
}

/// A distribution by its mean and shape.
pub(super) fn shaped(schema: &mut Schema) {
    at_least_one(schema, &["dist", "scv"]);
    needed_where(schema, "scv", "dist", &["erlang", "hyperexponential", "lognormal"]);
}

/// A gate.
pub(super) fn gate(schema: &mut Schema) {
    exactly_one(schema, &["slots", "servers"]);
}

/// A server of a gate.
pub(super) fn server(schema: &mut Schema) {
    only_beside(schema, "speed", "station");
}

/// A station.
pub(super) fn station(schema: &mut Schema) {
    only_beside(schema, "full", "room");
    not_both(schema, "speeds", "speed-curve");
    only_where(schema, "quantum", "kind", &["fair-share"]);
    needed_where(schema, "quantum", "kind", &["fair-share"]);
    only_where(schema, "tick", "kind", &["fair-share"]);
    only_where(schema, "servers", "kind", &["queue", "sharing", "fair-share"]);
    only_where(schema, "order", "kind", &["queue"]);
    only_where(schema, "speeds", "kind", &["queue"]);
    only_where(schema, "speed-curve", "kind", &["sharing"]);
}

/// Clients' behaviour.
pub(super) fn client(schema: &mut Schema) {
    only_beside(schema, "noticed", "time-out");
}

/// A cache.
pub(super) fn cache(schema: &mut Schema) {
    only_where(schema, "exponent", "order", &["zipf"]);
    needed_where(schema, "exponent", "order", &["zipf"]);
    only_where(schema, "weights", "order", &["weighted"]);
    needed_where(schema, "weights", "order", &["weighted"]);
}

/// A change on the way.
pub(super) fn change(schema: &mut Schema) {
    exactly_one(schema, &["gate", "station"]);
    exactly_one(schema, &["speed", "slots", "state"]);
    only_beside(schema, "slots", "gate");
}

/// Speeds of a station, each above 0 and at most 1e6.
pub(super) fn speeds(schema: &mut Schema) {
    let each = schema.get_mut("items").and_then(Value::as_object_mut).expect("it is a list");
    each.insert("exclusiveMinimum".into(), 0.into());
    each.insert("maximum".into(), 1e6.into());
}
