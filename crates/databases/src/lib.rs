//! Databases that a verb works on: the one that the user names, or a private PostgreSQL; and the permission
//! to press or to stand before it.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

mod database;
mod passfile;
mod private;

pub use database::{DatabaseArgs, PRESSES, STANDS_BEFORE, out_of_reach, reach, server};
pub use private::PrivateArgs;
