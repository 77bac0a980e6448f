//! What a run takes in memory: it grows with what is counted, not with how many classes might count
//! much. A program of its own, because it measures what the whole program has allocated.

#![allow(unsafe_code, reason = "an allocator that counts has no safe interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::{Class, Demand, Load, Network, Options, Station, StationKind, Step};
use workload::{Arrivals, Dist};

struct Measuring;

/// What is allocated now, and the most that was at once \[byte\].
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn added(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is passed on as it is to the system's allocator, which keeps the promises; the
// counters allocate nothing themselves.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        added(layout.size());
        // SAFETY: as the caller has promised for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        added(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as for `dealloc`, and as the caller has promised for the size.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static MEASURING: Measuring = Measuring;

/// A thousand classes were 2.1 GB: each kept counts of 190 KiB in each of ten replications, however few
/// requests it had completed.
#[test]
fn a_thousand_classes_take_little_memory() {
    const CLASSES: usize = 1_000;
    const COMPLETIONS: u64 = 200_000;
    let mut network = Network::default();
    let station = network.add_station(Station::new("cpu", StationKind::Queue { servers: 1 }));
    let demand = Demand::Drawn(Dist::Exponential { mean: 0.5 / CLASSES as f64 });
    for at in 0..CLASSES {
        let load = Load::Open(Arrivals::Poisson { rate: 1.0 });
        let steps = vec![Step::Visit { station, demand: demand.clone() }];
        network.add_class(Class::new(&format!("c{at}"), load, steps));
    }
    let options = Options {
        seed: 20261123,
        precision: 1e-9,
        completions_max: COMPLETIONS,
        threads: Some(1),
        ..Options::default()
    };
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let outcome = sim::run(&network, &options).unwrap();
    let took = MOST.load(Ordering::Relaxed) - before;
    assert_eq!(outcome.classes.len(), CLASSES);
    // Eight bytes a completion, twice while a list grows, and 10 KiB for each class's results.
    let most = COMPLETIONS as usize * 32 + CLASSES * (10 << 10);
    assert!(took < most, "{took} of at most {most} bytes");
}
