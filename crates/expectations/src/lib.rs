//! Expectations: limits that a run, or a knee, is held against, and what came of each.
//!
//! ```text
//!   'p99<50ms' ──▶ Expectation ──▶ expect, expect_knee ──▶ Outcome ──▶ a line, fields of JSON
//!                                                             └──▶ write: JUnit XML, Markdown
//! ```

mod check_files;
mod expectation;
mod outcome;

pub use check_files::{Checked, write};
pub use expectation::{
    Expectation, Metric, Side, expect, expect_knee, of_knees, of_runs, shortest,
};
pub use outcome::{ExpectationAnswer, Kind, Outcome, quantity_text, verdict_of};
