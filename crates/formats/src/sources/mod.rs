//! Reading what people have: access logs, metrics, statements, spans, tables of points. Each reader
//! names the line of whatever it cannot read; what the numbers mean is decided in `advise`.

mod access_log;
mod csv;
mod points;
mod prometheus;
mod replay;
mod spans;
mod statements;

pub use access_log::{Fields, Log, read_log};
pub use points::read_points;
pub use prometheus::{Metrics, read_metrics};
pub use replay::{LoggedTarget, OTHERS, Replay, read_replay};
pub use spans::read_spans;
pub use statements::read_statements;

use std::path::Path;

use crate::ReadError;
use crate::bounded::{self, Bounded};

/// No source that is fitted needs to be larger.
const SOURCE_MIB: u64 = 512;

/// The whole of a source.
fn text_of(path: &Path) -> Result<String, ReadError> {
    let failed = |cause: String| {
        ReadError::whole(format!("cannot read the source {}: {cause}", path.display()))
    };
    let bytes = bounded::open(path, SOURCE_MIB).and_then(Bounded::whole);
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        wrong(path, line, "this is no UTF-8 text")
    })
}

/// An error with its place.
fn wrong(path: &Path, line: usize, cause: impl std::fmt::Display) -> ReadError {
    ReadError::at(path.display(), line, cause)
}

/// Part of a line that is shown in an error.
fn shown(text: &str) -> String {
    text.trim().chars().take(40).collect()
}

/// A number that a source may hold: finite, not below 0.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// Length of a unit in seconds.
fn unit_s(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}
