//! Outcome of holding a run against something, and its words.

use advise::{Quantity, Right};
use cli::Verdict;

/// Result of an expectation.
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) line: String,
}

/// Name of what was predicted.
pub(crate) fn quantity_text(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Throughput => "throughput".into(),
        Quantity::Response => "mean response".into(),
        Quantity::Document { name, .. } => name.clone(),
    }
}

/// Verdict of a comparison.
pub(crate) fn verdict_of(right: Right) -> Verdict {
    match right {
        Right::Yes => Verdict::Holds,
        Right::CannotTell => Verdict::Inconclusive,
        Right::No => Verdict::Fails,
    }
}
