//! Sekisho measures your service, tells you the load at which it breaks and which queue breaks it,
//! puts a gate there that holds, and then checks whether it was right.
//!
//! This crate is the command: it alone parses arguments and files. Each verb is a module of
//! `verbs`, prints its verdict first, then the numbers, then why, then the next command to type.
//! Without the feature `command` it only reads models and solves them ([`exchange`]).

pub mod exchange;
#[cfg(feature = "command")]
pub mod gate_file;
#[cfg(feature = "command")]
pub mod report;

#[cfg_attr(not(feature = "command"), expect(dead_code, reason = "the command reads more files"))]
mod bounded;
mod scenario_file;
#[cfg(feature = "command")]
mod sources;
#[cfg(feature = "command")]
mod store;
#[cfg(feature = "command")]
mod verbs;

#[cfg(feature = "command")]
pub use verbs::main;
