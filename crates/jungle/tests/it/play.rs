//! The fuzzer's seeds, and chance in the place of coverage: so what the fuzzer holds cannot stop compiling unseen.

use std::fs;
use std::path::Path;

use crate::chance::{Chance, seeds};

fn read(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 2, "the fuzzer has seeds");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A seed with some bytes changed, left out or put in.
fn changed(chance: &mut Chance, seed: &[u8]) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..chance.below(6) {
        let at = chance.below(input.len() + 1);
        match chance.below(4) {
            0 if at < input.len() => drop(input.remove(at)),
            1 => input.insert(at, chance.below(256) as u8),
            _ if at < input.len() => input[at] = chance.below(256) as u8,
            _ => {}
        }
    }
    input
}

/// Runs a target on its seeds, and on so many of them with changes. `test` is what `cargo test` finds the test by.
pub(crate) fn play(test: &str, target: &str, count: u64, run: fn(&[u8])) {
    let inputs = read(target);
    inputs.iter().for_each(|input| run(input));
    seeds(test, count, |_, chance| {
        let input = chance.pick(&inputs).clone();
        run(&changed(chance, &input));
    });
}
