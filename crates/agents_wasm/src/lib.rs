//! Handlers of agents that are WebAssembly modules. A module gets the states of a batch of agents and a message,
//! and answers with the fields that change. It has no clock, no input, no output and nothing random, so the
//! same messages lead to the same states again.
//!
//! Version 1 of the interface. A module exports
//!
//! | export | type | meaning |
//! | --- | --- | --- |
//! | `memory` | memory | the module's own |
//! | `sekisho_agents_abi` | `() -> i32` | the version of this interface that it was written for |
//! | `alloc` | `(i32) -> i32` | the place of so many free bytes |
//! | `handle` | `(i32, i32) -> i64` | the answer to the question at a place, of a length: `place << 32 \| length` |
//!
//! Question and answer are JSON in UTF-8:
//!
//! ```json
//! {"message": {"name": "tick", "fields": {"price": 11}}, "agents": [{"agent": "alice", "state": {"high": 10}}]}
//! ```
//! ```json
//! [{"set": {"high": 12}}]
//! ```
//!
//! There is one answer for each agent, in order: `{"set": {...}}`, `{}`, or `{"error": "the cause"}`. The answer for
//! an agent depends on this agent and the message alone: how many others are in its batch is nobody's choice.
//!
//! Each call runs in an instance of its own, from a pool, with three limits. Fuel is counted in instructions and is the
//! same on each machine. Memory is bounded. An epoch ends what fuel does not measure well, such as copies of much
//! memory. A batch that fails is halved until the agent that fails is alone: so the limits hold for one agent as
//! for a batch.
#![cfg(feature = "wasm")]

mod module;
mod wire;

pub use module::{Limits, Module, ModuleError};
pub use wire::{ABI, Asked, Fields, Message};
