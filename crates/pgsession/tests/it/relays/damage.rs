//! Bytes that nobody should send, from either side: no panic, nothing that grows without bound, the
//! same in any portions. `SEKISHO_SEED` replays a run; the seeds are those of the fuzzer.
//! `SEKISHO_LONG=SECONDS` lets clients take turns by one seed after another for so long.

use std::fs;
use std::path::Path;
use std::time::Instant;

use pgtest::Chance;
use pgtest::suite::{many, soak};

#[path = "../../../../../fuzz/fuzz_targets/exchanging.rs"]
mod exchanging;
#[path = "../../../../../fuzz/fuzz_targets/portions.rs"]
#[allow(dead_code, unreachable_pub, reason = "the other targets of the fuzzer need the rest")]
mod portions;
#[path = "../../../../../fuzz/fuzz_targets/relaying.rs"]
mod relaying;

/// Number of inputs of chance that a seed stands for.
const EXCHANGES: usize = 8_000;

/// Pieces of pipelines, to be put together.
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
    for _ in 0..many(100_000) {
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

/// The fault of an input, if it has one.
fn fails(input: &[u8]) -> Option<String> {
    let told = std::panic::catch_unwind(|| exchanging::run(input)).err()?;
    let words = told.downcast_ref::<String>().cloned();
    let word = || told.downcast_ref::<&str>().map(|&word| word.to_owned());
    Some(words.or_else(word).unwrap_or_default())
}

/// An input that fails, without all acts that it fails without.
fn smaller(mut input: Vec<u8>) -> Vec<u8> {
    let mut acts = input.len() / 2;
    while acts > 0 {
        let mut at = 1;
        while at + 2 * acts <= input.len() {
            let mut less = input.clone();
            less.drain(at..at + 2 * acts);
            if fails(&less).is_some() { input = less } else { at += 2 * acts }
        }
        acts /= 2;
    }
    input
}

/// Plays inputs of chance.
fn exchanges(mut chance: Chance) {
    for _ in 0..EXCHANGES {
        let bytes = 2 + chance.below(200);
        let input: Vec<u8> = (0..bytes).map(|_| chance.below(256) as u8).collect();
        if fails(&input).is_some() {
            let input = smaller(input);
            let cause = fails(&input).unwrap_or_default();
            panic!("{cause}\nthe input was {input:?}:\n{}", exchanging::told(&input).join("\n"));
        }
    }
}

#[test]
fn clients_that_take_turns_hear_what_a_server_of_their_own_says() {
    let Some(soak) = soak() else { return exchanges(Chance::new(98)) };
    let (began, mut seed) = (Instant::now(), 0);
    while began.elapsed() < soak {
        seed += 1;
        println!("SEKISHO_SEED={seed}");
        exchanges(Chance::of(seed));
    }
}
