//! Input and what must hold: see `names` in `jungle_bytes.rs`.
#![no_main]

#[allow(dead_code, reason = "the other targets need the rest")]
mod jungle_bytes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| jungle_bytes::names(input));
