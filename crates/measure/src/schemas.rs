//! JSON Schemas of what this crate writes: a line of a run record, a line of a recording.

use gate::GateSpec;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::file::{RunFirst, RunLine};
use crate::knee_record::KneeLine;
use crate::recording::First;
use crate::{Interval, KneeRecord, RunHeader, RunSummary, Step};

/// Line of a run record: the first has the header, every other one is an interval or the summary.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it stands for its schema")]
enum RunRecordLine {
    First(Box<RunFirst<RunHeader>>),
    Other(RunLine<Interval, RunSummary>),
}

/// Line of a gate's recording: the first has its specification, every other one is a step.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, clippy::large_enum_variant, reason = "it stands for its schema")]
enum RecordingLine {
    First(First<GateSpec, String>),
    Step(Step),
}

/// Schema of each line of a run record.
pub fn run_record() -> Schema {
    of::<RunRecordLine>()
}

/// Schema of each line of a recording.
pub fn recording() -> Schema {
    of::<RecordingLine>()
}

/// Schema of the record of a search for a knee.
pub fn knee() -> Schema {
    of::<KneeLine<KneeRecord>>()
}

/// Schema of what is written of a type.
fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
