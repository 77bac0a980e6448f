//! Estimates as `--json` shows them.

use measure::{Bound, Estimate};
use serde_json::{Value, json};

/// Mean, half-width of the interval (none where it is not known), confidence and number of parts.
pub fn estimate(estimate: &Estimate) -> Value {
    json!({
        "mean": estimate.mean,
        "half_width": estimate.half_width.is_finite().then_some(estimate.half_width),
        "confidence": estimate.confidence,
        "n": estimate.n,
    })
}

/// A quantile, and on which side it is no more than a bound.
pub fn quantile(value: &Estimate) -> Value {
    let mut object = estimate(value);
    object["bound"] = json!(Bound::of(value.mean));
    object
}
