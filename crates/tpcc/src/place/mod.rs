//! Placing tables, indexes and the log over directories, so that access rates even out with
//! sequential and random access apart (nakamura, 4.3).
//!
//! [`observe()`] before and after a run, [`Accesses::between`] the two, [`assign()`], [`steps()`],
//! [`perform()`]; [`undoing()`] gives the steps that put all back. The log is placed by whoever may
//! stop the server: no statement moves it.

mod assign;
mod counters;
mod server;

pub use assign::{Arrangement, AssignError, Kind, LOG, Pattern, Placement, Rated, SLACK, assign};
pub use counters::{Access, Accesses, Relation, Snapshot};
pub use server::{Observed, PlaceError, Step, data_directory, observe, perform, steps, undoing};
