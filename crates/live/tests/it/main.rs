//! The driver, its controllers and its model, in virtual time.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod chance;
mod control;
mod model;
