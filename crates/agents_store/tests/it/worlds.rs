//! The core's simulated world (crashes, suspended owners, lost and late transactions) over each store, and
//! what a naive interpreter says of its end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use agents_store::{Durability, Embedded, EmbeddedSpec, Memory};

use crate::places::Scratch;
use crate::store::{Real, next};
use crate::world::{Done, World};

/// Runs these worlds, each in a partition of its own; all together must have had crashes, crossings and
/// dead letters.
pub(crate) fn every_world(seeds: u32, name: &str, real: impl Fn() -> Real) {
    let only = std::env::var("SEKISHO_SEED").ok().and_then(|seed| seed.parse::<u32>().ok());
    let mut all = Done::default();
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        next(real(), seed);
        let world = AssertUnwindSafe(|| World::new(u64::from(seed), None).run());
        let done = catch_unwind(world).unwrap_or_else(|_| {
            panic!("SEKISHO_SEED={seed} cargo test -p agents_store --test it {name} -- --nocapture")
        });
        all.messages += done.messages;
        all.acknowledged += done.acknowledged;
        all.fired += done.fired;
        all.dead += done.dead;
        all.owners += done.owners;
    }
    println!("{all:?}");
    assert_eq!(all.acknowledged, all.messages);
    let floor = u64::from(seeds);
    assert!(only.is_some() || all.owners > 2 * floor && all.fired > floor && all.dead > floor);
}

#[test]
fn the_worlds_hold_over_memory() {
    every_world(300, "worlds_hold_over_memory", || Box::new(Memory::new()));
}

#[test]
fn the_worlds_hold_over_a_folder() {
    let scratch = Scratch::new();
    // What a crash of the machine leaves is not of this test: crashes here are the owner's.
    let spec = EmbeddedSpec { durability: Durability::System, ..EmbeddedSpec::default() };
    every_world(60, "worlds_hold_over_a_folder", || {
        Box::new(Embedded::open(scratch.path(), spec).unwrap())
    });
}
