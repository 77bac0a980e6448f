//! What a text says to a gate that sees texts and no plans.

pub mod tokens;
