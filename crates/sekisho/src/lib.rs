//! Sekisho measures your service, tells you the load at which it breaks and which queue breaks it,
//! puts a gate there that holds, and then checks whether it was right.
//!
//! This crate is the command: it alone parses arguments. Each verb is a module of `verbs`, prints its
//! verdict first, then the numbers, then why, then the next command to type.

mod verbs;

pub use verbs::{formats, main};
