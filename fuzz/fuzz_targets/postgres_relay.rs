//! Hostile clients and hostile servers do not make a relay panic or grow, or lose a statement, and
//! portions do not matter. The input is as `relaying.rs` says.
#![no_main]

mod portions;
mod relaying;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| relaying::run(input));
