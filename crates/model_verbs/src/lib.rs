//! Verbs of models: `solve` and `sim` of a scenario, `sim` and `replay` of a recorded gate, `explain` of the output of
//! others' load tools.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

pub mod explain;
pub mod replay;
pub mod sim;
pub mod solve;

mod json;
mod recording;

use cli::json::Format;

/// Formats of what these verbs print with `--json`.
pub fn formats() -> Vec<Format> {
    vec![
        Format::of_answer::<explain::Explained<'_>>(),
        Format::of_answer::<solve::SolvedScenario<'_>>(),
        Format::of_answer::<solve::SolvedNetwork<'_>>(),
        Format::of_answer::<sim::answer::Simulated<'_>>(),
        Format::of_answer::<sim::answer::Sweep<'_>>(),
        Format::of_answer::<json::AtGates<'_>>(),
        Format::of_answer::<json::Replayed<'_>>(),
    ]
}
