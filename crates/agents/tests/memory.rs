//! Memory of a partition for agents that are not cached, for their bounds and for their timers, by an
//! allocator that counts: docs/agents.md states these numbers, and a change that doubles one fails here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use agents::alert::{Alert, AlertMessage};
use agents::{
    Bound, Epoch, Key, Listed, Partition, PartitionSpec, Seq, Snapshot, Timer, TimerName,
};
use gate::Time;

struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const AGENTS: u64 = 100_000;

/// Bytes of a partition that was opened with these agents, for each of them.
fn bytes_each(bounds: impl Fn(u64) -> Vec<Bound>, timers: u64) -> f64 {
    // The keys of users' names lie anywhere.
    let key = |n: u64| Key(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut keys: Vec<Key> = (0..AGENTS).map(key).collect();
    keys.sort_unstable();
    let listed = |(n, &key): (usize, &Key)| (key, Listed { armed: true, bounds: bounds(n as u64) });
    let directory = keys.iter().enumerate().map(listed).collect();
    let all = keys.iter().flat_map(|&key| (1..=timers).map(move |name| (key, TimerName(name))));
    let timer = |(key, name): (Key, TimerName)| {
        (key, name, Timer { due: Time::from_nanos(key.0 ^ name.0), every: None })
    };
    let snapshot: Snapshot<AlertMessage> = Snapshot {
        epoch: Epoch(1),
        version: 0,
        cursor: Default::default(),
        log_end: Seq(0),
        received: Default::default(),
        log: Vec::new(),
        timers: all.map(timer).collect(),
        directory,
        ended: Vec::new(),
    };
    let own: u64 = snapshot_bytes(&snapshot);
    let before = LIVE.load(Ordering::Relaxed) - own;
    let spec = PartitionSpec::new(0, 16);
    let core = Partition::<Alert>::open(spec, Time::ZERO, snapshot).unwrap();
    let after = LIVE.load(Ordering::Relaxed);
    assert_eq!(core.agents().0 as u64, AGENTS);
    (after - before) as f64 / AGENTS as f64
}

/// The snapshot's own memory, which goes when the partition is open.
fn snapshot_bytes(it: &Snapshot<AlertMessage>) -> u64 {
    let bounds: usize = it.directory.iter().map(|(_, it)| it.bounds.capacity()).sum();
    let bytes = it.directory.capacity() * size_of::<(Key, Listed)>()
        + it.timers.capacity() * size_of::<(Key, TimerName, Timer)>()
        + bounds * size_of::<Bound>();
    bytes as u64
}

#[test]
fn an_agent_a_bound_and_a_timer_take_no_more_than_is_stated() {
    let bound = |n: u64, low: i64, high: i64| vec![Bound { symbol: (n % 1_000) as u32, low, high }];
    let agent = bytes_each(|_| Vec::new(), 0);
    let one_sided = bytes_each(|n| bound(n, i64::MIN, n as i64), 0) - agent;
    let two_sided = bytes_each(|n| bound(n, -(n as i64), n as i64), 0) - agent;
    let timer = bytes_each(|_| Vec::new(), 1) - agent;
    println!(
        "an agent {agent:.1} B, a bound {one_sided:.1} B on one side and {two_sided:.1} B on two, \
         a timer {timer:.1} B"
    );
    // A tenth above what docs/agents.md states.
    assert!(agent <= 12.0 && one_sided <= 24.0 && two_sided <= 46.0 && timer <= 67.0);
}
