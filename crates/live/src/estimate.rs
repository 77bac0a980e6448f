//! Questions to the model of a gate, and the numbers that it gives.

use schemars::JsonSchema;
use serde::Serialize;

/// A number of the model, or one that the model gives: a demand, a throughput, a wait.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Estimate {
    /// Subject, as in `shop/alice` or `shop/alice class web`.
    pub of: String,
    /// Quantity, in words of queueing, as in `demand` or `wait p95`.
    pub what: String,
    /// Its unit, as in `s` or `1/s`; empty for a pure number.
    pub unit: String,
    /// The number.
    pub value: f64,
    /// Between which numbers it lies with 95 % confidence, if it is known.
    pub interval: Option<(f64, f64)>,
    /// Value that came true, of a prediction whose time has come.
    pub happened: Option<f64>,
    /// From what it comes and where it holds, as in `formula, at 2 to 20 slots`.
    pub basis: String,
}

/// A question to the model: what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// The slots of each pool.
    pub slots: Option<u32>,
    /// By what the arrivals are multiplied.
    pub arrivals: Option<f64>,
    /// The servers.
    pub servers: Option<u32>,
    /// The policy between them: a router, or `shared` for one queue.
    pub policy: Option<String>,
}
