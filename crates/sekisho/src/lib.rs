//! Sekisho measures your service, tells you the load at which it breaks and which queue breaks it,
//! puts a gate there that holds, and then checks whether it was right.
//!
//! This crate is the command: it alone parses arguments and files. Each verb is a module of
//! `verbs`, prints its verdict first, then the numbers, then why, then the next command to type.

pub mod report;

mod scenario_file;
mod session;
mod sources;
mod store;
mod text;
mod verbs;
mod verdict;

pub use verbs::main;
