//! Input and what must hold: see `jsonpath` in `jungle_asks.rs`.
#![no_main]

#[allow(dead_code, reason = "the other target needs the rest")]
mod jungle_asks;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| jungle_asks::jsonpath(input));
