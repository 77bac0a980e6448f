//! Clients that take turns on few servers each hear what a server of their own would have told them,
//! in whatever portions. The input is as `exchanging.rs` says.
#![no_main]

mod exchanging;
mod portions;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| exchanging::run(input));
