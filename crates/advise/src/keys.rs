//! Shape of a scenario inside an answer. Its own keys are those of its file, which has a schema of its own.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Schema of a scenario that stands inside something else.
#[derive(Debug)]
pub struct ScenarioKeys;

impl JsonSchema for ScenarioKeys {
    fn schema_name() -> Cow<'static, str> {
        "Scenario".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "A scenario, with the keys of its file (scenario.toml), as `toml` writes them",
            "required": ["sekisho", "name", "class", "station"],
            "properties": {
                "sekisho": { "description": "Version of the format", "const": 1 },
                "name": { "description": "Its name", "type": "string" },
                "seed": { "description": "Seed of all that is drawn", "type": "integer", "minimum": 0 },
                "class": { "description": "Classes of jobs", "type": "array", "items": { "type": "object" } },
                "gate": { "description": "Gates", "type": "array", "items": { "type": "object" } },
                "station": { "description": "Stations", "type": "array", "items": { "type": "object" } },
                "cache": { "description": "Caches", "type": "array", "items": { "type": "object" } },
                "agenda": { "description": "What changes in its course", "type": "object" },
                "calibration": { "description": "Where its numbers come from: runs, parameters and their intervals", "type": "object" },
            },
            "additionalProperties": false,
        })
    }
}
