//! The verbs of demos that need nothing of the others: `demo agents`.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

use cli::json::Format;

pub mod agents;

/// Formats of what these verbs print.
pub fn formats() -> Vec<Format> {
    vec![Format::of_answer::<agents::DemonstratedAgents<'_>>()]
}
