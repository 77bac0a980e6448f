//! Rules from the text of a file to what fires.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod errors;
mod filtering;
mod life;
mod modules;
mod past;
mod timing;
