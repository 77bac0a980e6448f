//! Measures: programs that print ratios within one run, peers interleaved, one file each in `bin`;
//! `cargo xtask bench NAME` runs `bin/NAME.rs`. Here is what they share.

mod spread;

pub use spread::Spread;
