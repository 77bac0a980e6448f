//! Conformance: whatever is asked of a store, it answers as the one in memory does.

use std::fmt::Debug;

use agents::{Epoch, Key, LoadWay, Outcome, Seq};
use agents_store::{Memory, Store};
use rand::RngExt;
use workload::{Chance, stream};

use crate::random::{any_append, any_commit, any_key};

type Any = dyn Store<Vec<u8>>;

/// Both as text: what they hold has no equality of its own.
#[track_caller]
fn same<T: Debug>(seed: u64, real: T, model: T) {
    assert_eq!(format!("{real:?}"), format!("{model:?}"), "SEKISHO_SEED={seed}");
}

/// Runs transactions of one seed on a store and on a model, in one partition; `again` may close the store
/// and open it.
pub(crate) fn as_memory(
    seed: u64,
    steps: u32,
    mut real: Box<Any>,
    again: impl Fn(Box<Any>) -> Box<Any>,
) {
    let partition = u32::try_from(seed).unwrap();
    let model = Memory::new();
    let chance = &mut stream(seed, 0);
    let (mut epoch, mut stale) = (Epoch(0), None);
    for _ in 0..steps {
        match chance.random_range(0..12) {
            0 => {
                if chance.random_bool(0.3) {
                    real = again(real);
                }
                let (ours, theirs) =
                    (real.open(partition).unwrap(), model.open(partition).unwrap());
                (epoch, stale) = (theirs.epoch, Some(epoch));
                same(seed, ours, theirs);
            }
            1..=3 => append(seed, partition, &*real, &model, epoch, chance),
            4..=8 => commit(seed, partition, &*real, &model, epoch, chance),
            9 => fenced(seed, partition, &*real, &model, stale, chance),
            _ => look(seed, partition, &*real, &model, chance),
        }
    }
    look(seed, partition, &*real, &model, chance);
    same(seed, real.open(partition).unwrap(), model.open(partition).unwrap());
    assert!(real.partitions().unwrap().contains(&partition));
}

/// The end of the log and the cursor, as the model has them.
fn tail(partition: u32, model: &Memory<Vec<u8>>) -> Seq {
    model.log(partition, Seq(0), 0).unwrap().end
}

fn append(
    seed: u64,
    partition: u32,
    real: &Any,
    model: &Memory<Vec<u8>>,
    epoch: Epoch,
    chance: &mut Chance,
) {
    // One in four repeats what may have taken place already.
    let end = tail(partition, model);
    let after = if chance.random_bool(0.25) { Seq(end.0.saturating_sub(1)) } else { end };
    let append = any_append(epoch, after, chance);
    same(seed, real.append(partition, &append), model.append(partition, &append));
}

fn commit(
    seed: u64,
    partition: u32,
    real: &Any,
    model: &Memory<Vec<u8>>,
    epoch: Epoch,
    chance: &mut Chance,
) {
    let (version, cursor) = model.progress(partition);
    let version = if chance.random_bool(0.2) { version + 1 } else { version };
    let lives = |key: Key| {
        let row = model.scan(partition, key, 1).unwrap().pop();
        row.filter(|(at, _)| *at == key).map(|(_, row)| row.state.is_some())
    };
    let end = tail(partition, model);
    let commit = any_commit(epoch, version, &cursor, end, &lives, chance);
    same(seed, real.commit(partition, &commit), model.commit(partition, &commit));
}

/// An owner before the last one changes nothing, and hears of the new one.
fn fenced(
    seed: u64,
    partition: u32,
    real: &Any,
    model: &Memory<Vec<u8>>,
    stale: Option<Epoch>,
    chance: &mut Chance,
) {
    let Some(stale) = stale else { return };
    let (version, cursor) = model.progress(partition);
    let end = tail(partition, model);
    let append = any_append(stale, end, chance);
    let commit = any_commit(stale, version, &cursor, end, &|_| None, chance);
    for outcome in [real.append(partition, &append), real.commit(partition, &commit)] {
        assert!(matches!(outcome, Ok(Outcome::Conflict { .. })), "{outcome:?}");
    }
    same(seed, real.append(partition, &append), model.append(partition, &append));
    same(seed, real.commit(partition, &commit), model.commit(partition, &commit));
}

/// All that can be read.
fn look(seed: u64, partition: u32, real: &Any, model: &Memory<Vec<u8>>, chance: &mut Chance) {
    let mut keys: Vec<Key> = (0..chance.random_range(0..15)).map(|_| any_key(chance)).collect();
    keys.sort();
    keys.dedup();
    let loaded = model.load(partition, &keys, LoadWay::Keys).unwrap();
    for way in [LoadWay::Keys, LoadWay::Range] {
        same(seed, &real.load(partition, &keys, way).unwrap(), &loaded);
    }
    let (after, limit) = (chance.random_range(0..20), chance.random_range(0..30));
    let from = any_key(chance);
    same(seed, real.scan(partition, from, limit), model.scan(partition, from, limit));
    same(seed, real.outbox(partition, after, limit), model.outbox(partition, after, limit));
    same(seed, real.sent(partition, after, limit), model.sent(partition, after, limit));
    same(seed, real.log(partition, Seq(after), limit), model.log(partition, Seq(after), limit));
    same(seed, real.dead(partition, after, limit), model.dead(partition, after, limit));
    let numbers = [after, after, after + 1];
    same(seed, real.remove_dead(partition, &numbers), model.remove_dead(partition, &numbers));
    same(seed, real.forget(partition, Seq(after)), model.forget(partition, Seq(after)));
}
