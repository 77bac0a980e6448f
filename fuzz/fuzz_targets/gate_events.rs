//! Any sequence of events that keeps the protocol: the gate keeps its promises, and told the same
//! again it says the same. The input is as `promises.rs` says.
#![no_main]

mod promises;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| promises::run(input));
