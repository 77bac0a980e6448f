//! Many worlds by seed: the core keeps its guarantees in all, and each planted defect is found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use agents::Planted;

use crate::world::{Done, World};

/// Worlds of the short suite, and of the long one.
const SEEDS: u64 = 3_000;
const SEEDS_LONG: u64 = 100_000;

/// A broken guarantee prints the command that shows it again. The floor: all messages are
/// acknowledged in each world, and over all worlds there are crashes, crossings and dead letters.
#[test]
fn a_partition_keeps_its_guarantees_in_every_world() {
    if let Some(seed) = std::env::var("SEKISHO_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", World::new(seed, None).run());
        return;
    }
    let seeds = if std::env::var_os("SEKISHO_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    let mut all = Done::default();
    for seed in 0..seeds {
        let done = catch_unwind(AssertUnwindSafe(|| World::new(seed, None).run()));
        let done = done.unwrap_or_else(|_| {
            panic!("SEKISHO_SEED={seed} cargo test -p agents --test it every_world -- --nocapture")
        });
        all.messages += done.messages;
        all.acknowledged += done.acknowledged;
        all.fired += done.fired;
        all.dead += done.dead;
        all.owners += done.owners;
    }
    println!("{all:?}");
    assert_eq!(all.acknowledged, all.messages);
    assert!(all.messages > 40 * seeds && all.owners > 2 * seeds, "{all:?}");
    assert!(all.fired > seeds && all.dead > seeds, "{all:?}");
}

/// Each defect is found within this many worlds; a minute holds about ten times as many.
const FOUND_WITHIN: u64 = 1_000;

fn finds(planted: Planted) {
    let found = (0..FOUND_WITHIN).find(|&seed| {
        catch_unwind(AssertUnwindSafe(|| World::new(seed, Some(planted)).run())).is_err()
    });
    assert!(found.is_some(), "{planted:?} is not found");
}

#[test]
fn a_cursor_that_is_moved_too_early_is_found() {
    finds(Planted::CursorTooEarly);
}

#[test]
fn a_crossing_that_is_counted_twice_is_found() {
    finds(Planted::HeardNotWritten);
}

#[test]
fn a_lost_wake_up_is_found() {
    finds(Planted::LostWakeUp);
}

#[test]
fn a_commit_that_is_given_up_too_early_is_found() {
    finds(Planted::UnknownTakenForLost);
}

#[test]
fn a_divider_that_is_passed_over_is_found() {
    finds(Planted::DividerPassedOver);
}

#[test]
fn a_notification_that_counts_as_delivered_too_early_is_found() {
    finds(Planted::DeliveredTooEarly);
}
