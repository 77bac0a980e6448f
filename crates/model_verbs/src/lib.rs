//! Verbs of models: `solve` and `sim` of a scenario, `sim` and `replay` of a recorded gate.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

pub mod json;
pub mod replay;
pub mod sim;
pub mod solve;

mod recording;
