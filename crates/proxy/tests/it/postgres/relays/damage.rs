//! Bytes that nobody should send, from either side: no panic, nothing that grows without bound, the
//! same in any portions. `SEKISHO_SEED` replays a run; the seeds are those of the fuzzer.

use std::fs;
use std::path::Path;

use crate::fuzz::Chance;

#[path = "../../../../../../fuzz/fuzz_targets/exchanging.rs"]
mod exchanging;
#[path = "../../../../../../fuzz/fuzz_targets/portions.rs"]
#[allow(dead_code, unreachable_pub, reason = "the other targets of the fuzzer need the rest")]
mod portions;
#[path = "../../../../../../fuzz/fuzz_targets/relaying.rs"]
mod relaying;

/// Pieces of conversations, to be put together.
fn crumbs() -> Vec<Vec<u8>> {
    let asked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/postgres_relay");
    let mut paths: Vec<_> = fs::read_dir(asked).unwrap().map(|one| one.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 8, "{paths:?}");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn hostile_bytes_of_either_side_neither_panic_nor_grow() {
    let mut chance = Chance::new(97);
    let seeds = crumbs();
    for seed in &seeds {
        relaying::run(seed);
    }
    for _ in 0..100_000 {
        let mut input = seeds[chance.below(seeds.len())].clone();
        for _ in 0..chance.below(3) {
            let other = &seeds[chance.below(seeds.len())];
            input.extend_from_slice(&other[chance.below(other.len())..]);
        }
        for _ in 0..chance.below(6) {
            let at = chance.below(input.len());
            match chance.below(4) {
                0 => input[at] = chance.below(256) as u8,
                1 => drop(input.remove(at)),
                2 => input[at] ^= 1 << chance.below(8),
                _ => {
                    let end = (at + chance.below(40)).min(input.len());
                    let copy = input[at..end].to_vec();
                    let to = chance.below(input.len());
                    input.splice(to..to, copy);
                }
            }
            if input.is_empty() {
                break;
            }
        }
        relaying::run(&input);
    }
}

#[test]
fn clients_that_take_turns_hear_what_a_server_of_their_own_says() {
    let mut chance = Chance::new(98);
    for _ in 0..4_000 {
        let bytes = 2 + chance.below(200);
        let input: Vec<u8> = (0..bytes).map(|_| chance.below(256) as u8).collect();
        if std::panic::catch_unwind(|| exchanging::run(&input)).is_err() {
            panic!("the input was {input:?}");
        }
    }
}
