//! The whole database on a simulated disk, with seeded clients, crashes and faults: what holds here holds for any
//! shell that does as the disk's contract says. A failing seed prints the command that replays it.

#![allow(clippy::print_stdout, reason = "a failing seed prints what replays it")]

#[path = "../tests/it/chance.rs"]
mod chance;
mod disk;
mod linearizable;
mod world;

use std::time::Duration;

use chance::seeds;
use world::{Faults, World};

use crate::{Durability, Planted};

/// Seeds of the short suite: about 20 s.
const SEEDS: u64 = 2_500;

#[test]
fn nothing_acknowledged_is_lost_under_crashes_and_faults() {
    let mut total = world::Totals::default();
    let mut runs = 0;
    seeds("--lib simulated::nothing_acknowledged", SEEDS, |seed, _| {
        runs += 1;
        let totals = World::new(seed, Faults::of(seed), None).run();
        total.add(&totals.unwrap_or_else(|failure| panic!("seed {seed}: {failure}")));
    });
    if std::env::var_os("SEKISHO_SEED").is_some() {
        return;
    }
    // The liveness floor: a core that rejects or stops all the time would pass every oracle.
    assert!(total.acknowledged > 50 * runs, "{total:?} in {runs} runs");
    assert!(total.crashes > runs && total.reads > 20 * runs, "{total:?}");
    for (count, name) in [
        (total.torn, "torn tails"),
        (total.snapshots, "snapshots"),
        (total.from_snapshot, "starts from a snapshot"),
        (total.no_room, "groups without room"),
        (total.unknown, "unknown answers"),
        (total.damaged, "damaged logs refused"),
        (total.rejected, "rejections"),
        (total.ticks, "ticks"),
        (total.blobs, "blobs"),
        (total.blobs_freed, "freed blobs"),
    ] {
        assert!(count > runs / 50, "{count} {name} in {runs} runs: the simulator has gone blunt");
    }
}

#[test]
fn a_crash_at_every_write_loses_nothing() {
    let mut crashes = 0;
    for durability in [Durability::Sync, Durability::Interval, Durability::None] {
        for seed in 0..4 {
            for operation in 0.. {
                let faults = Faults { durability, crash_at: Some(operation), ..Faults::none() };
                let totals = World::new(seed, faults, None).run();
                let totals = totals.unwrap_or_else(|failure| {
                    panic!("{durability:?}, seed {seed}, crash at operation {operation}: {failure}")
                });
                if totals.crashes == 0 {
                    break;
                }
                crashes += 1;
            }
        }
    }
    assert!(crashes > 500, "{crashes} operations");
}

/// Runs seeds with a planted bug until one fails.
fn found(planted: Planted) -> (u64, String) {
    let start = clock();
    for seed in 0.. {
        if let Err(failure) = World::new(seed, Faults::of(seed), Some(planted)).run() {
            return (seed, failure);
        }
        assert!(
            start() < Duration::from_secs(60),
            "{planted:?} not found in {seed} seeds, a minute"
        );
    }
    unreachable!("seeds do not end")
}

#[allow(clippy::disallowed_methods, reason = "the test is timed, not the core")]
fn clock() -> impl Fn() -> Duration {
    let start = std::time::Instant::now();
    move || start.elapsed()
}

#[test]
fn each_planted_bug_is_found_within_a_minute() {
    for planted in [
        Planted::AnswerBeforeSync,
        Planted::TornGroupTakenWhole,
        Planted::SyncRetried,
        Planted::PublishBeforeLog,
        Planted::HeldVersionFreed,
        Planted::TrimmedTooEarly,
        Planted::StartWithoutSync,
        Planted::TickByAClock,
        Planted::BlobNotSynced,
        Planted::HeldBlobFreed,
        Planted::BlobFreedTooEarly,
    ] {
        let (seed, failure) = found(planted);
        println!("{planted:?}: seed {seed}: {failure}");
    }
}
