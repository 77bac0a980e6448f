//! Gates that are told whatever keeps the protocol, as the fuzzer tells them, and as chance does.

use std::fs;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[path = "../../../../fuzz/fuzz_targets/promises.rs"]
mod promises;

#[test]
fn a_gate_keeps_its_promises_whatever_happens() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/gate_events");
    let seeds: Vec<_> = fs::read_dir(seeds).unwrap().map(|one| one.unwrap().path()).collect();
    assert!(!seeds.is_empty(), "the fuzzer has seeds");
    seeds.iter().for_each(|path| promises::run(&fs::read(path).unwrap()));
    let seed = 20_261_122;
    println!("seed {seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let is_long = std::env::var_os("SEKISHO_LONG").is_some();
    for _ in 0..if is_long { 1_000_000 } else { 10_000 } {
        let bytes = rng.random_range(0..300);
        let input: Vec<u8> = (0..bytes).map(|_| rng.random_range(0..=255)).collect();
        if std::panic::catch_unwind(|| promises::run(&input)).is_err() {
            panic!("the input was {input:?}");
        }
    }
}
