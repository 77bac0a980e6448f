//! All ways of a pass, held to each other, to `sim` and to theory.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use agents::{Destination, PartitionSpec};
use agents_bench::{
    Account, Direct, Load, LoadSpec, Meter, Order, Policy, PolicySpec, RunError, Server, Tick,
    Watch, WatchSpec, populate,
};
use agents_store::{Memory, PostgresSpec, PostgresStore, Store};
use gate::EvictionRule;
use pgtest::Bound;
use postgres::{Private, Settings};
use sim::agents::{AgentOrder, Audience, Multicasts, hit_ratio};

const AGENTS: u32 = 2_000;
/// Nobody stops a test.
static GOES: AtomicBool = AtomicBool::new(false);

fn policy(order: Order, victim: EvictionRule, room: u32) -> Policy {
    Policy::new(PolicySpec { agents: AGENTS, room, order, victim, seed: 5 }).unwrap()
}

/// A store with the accounts in it.
fn filled(load: &Load, store: Arc<dyn Store<Tick>>) -> Arc<dyn Store<Tick>> {
    populate(load, &*store, 0, (&GOES, |_| ())).unwrap();
    store
}

/// Whatever the way, who fires is what one loop over the accounts says.
fn all_ways_fire_the_same(store: Arc<dyn Store<Tick>>) {
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    let store = filled(&load, store);
    let ticks: Vec<Tick> = (1..=12).map(|number| load.tick(number)).collect();
    let expected = load.expected(&ticks).unwrap();
    assert!(expected.iter().all(|fired| fired.count > 50), "{expected:?}");
    let mut at = 0;
    for (order, chunk) in
        [(Order::Same, 1), (Order::Shuffled, 1), (Order::Cohort, 1), (Order::Cohort, 100)]
    {
        let policy = policy(order, EvictionRule::Lru, 500);
        let mut direct = Direct::open(&*store, 0, policy, (AGENTS, chunk, 2)).unwrap();
        for _ in 0..2 {
            assert_eq!(
                direct.tick(&ticks[at], &GOES).unwrap(),
                expected[at],
                "{order:?} {chunk} {at}"
            );
            at += 1;
        }
        let hits = direct.hit_ratio();
        match order {
            Order::Same => assert_eq!(hits, 0.0),
            // 2,000 agents, two passes: the standard deviation is about 0.005.
            Order::Shuffled => assert!((hits - 0.0342).abs() < 0.02, "{hits}"),
            Order::Cohort => assert_eq!(hits, 0.25),
        }
    }
    for room in [500, AGENTS] {
        let spec = PartitionSpec { held_max: 100_000, ..PartitionSpec::new(0, room) };
        let mut server = Server::<Account>::open(Arc::clone(&store), spec).unwrap();
        for pass in 0..2 {
            let before = server.counts();
            let fired = server
                .tick([(ticks[at].clone(), Destination::All)], expected[at].count, &GOES)
                .unwrap();
            assert_eq!(fired, expected[at], "the server, {room}, {at}");
            let counts = server.counts();
            assert_eq!(counts.handled - before.handled, u64::from(AGENTS));
            let hits = counts.hits - before.hits;
            assert_eq!(hits, if pass == 0 { 0 } else { u64::from(room) }, "{counts:?}");
            at += 1;
        }
        server.close();
    }
    // What the first owner of the outbox left, the next one has not to deliver.
    assert!(store.outbox(0, 0, 10).unwrap().is_empty());
}

/// Prices go up and down past more or fewer thresholds; with bounds in memory those concerned alone handle a
/// message.
#[test]
fn those_whose_threshold_a_price_crosses_are_told_by_bounds_and_by_asking_all() {
    let spec = WatchSpec { agents: AGENTS, symbols: 5, bytes: 100 };
    let store: Arc<dyn Store<_>> = Arc::new(Memory::new());
    for (partition, is_bound) in [(0, true), (1, false)] {
        spec.populate(&*store, partition, &GOES).unwrap();
        let all = PartitionSpec { held_max: 100_000, ..PartitionSpec::new(partition, 500) };
        let mut server = Server::<Watch>::open(Arc::clone(&store), all).unwrap();
        let levels = [0, 400, 399, 40, 40, 0, 1];
        for (number, levels) in (1..).zip(levels.windows(2)) {
            let (from, to) = (levels[0], levels[1]);
            let expected = spec.expected(number, (from, to));
            assert_eq!(expected.count, u64::from(from.abs_diff(to)) * 5);
            let messages = spec.prices(number, to).into_iter().map(|price| match is_bound {
                true => (price, Destination::Crossed { symbol: price.symbol, price: price.price }),
                false => (price, Destination::All),
            });
            let before = server.counts().handled;
            let fired = server.tick(messages, expected.count, &GOES).unwrap();
            assert_eq!(fired, expected, "{is_bound}, from {from} to {to}");
            let handled = server.counts().handled - before;
            let each = if is_bound { expected.count } else { u64::from(AGENTS) * 5 };
            assert_eq!(handled, each, "{is_bound}, from {from} to {to}");
        }
        server.close();
    }
}

/// A stop is heeded at once by each way.
#[test]
fn whoever_is_told_to_stop_stops() {
    let stop = AtomicBool::new(true);
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    let store = filled(&load, Arc::new(Memory::new()));
    let tick = load.tick(1);
    let filled = populate(&load, &*store, 1, (&stop, |done| assert_eq!(done, 1_000)));
    assert!(matches!(filled, Err(RunError::Stopped)));
    let policy = policy(Order::Same, EvictionRule::Lru, 500);
    let mut direct = Direct::open(&*store, 0, policy, (AGENTS, 1, 1)).unwrap();
    assert!(matches!(direct.tick(&tick, &stop), Err(RunError::Stopped)));
    let mut server = Server::<Account>::open(store, PartitionSpec::new(0, 500)).unwrap();
    assert!(matches!(server.tick([(tick, Destination::All)], 1, &stop), Err(RunError::Stopped)));
}

#[test]
fn all_ways_fire_the_same_in_memory() {
    all_ways_fire_the_same(Arc::new(Memory::new()));
}

fn server() -> &'static Private {
    static CONNECTIONS: Bound = Bound::of(100, 12);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters = [("fsync", "off"), ("shared_buffers", "32MB")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Private::start(&Settings { parameters: parameters.to_vec(), ..Settings::default() })
            .unwrap()
    })
}

#[test]
fn all_ways_fire_the_same_in_postgresql_and_costs_are_told() {
    let config: tpcc::Config = server().url().as_str().parse().unwrap();
    let spec = PostgresSpec::default();
    PostgresStore::init(config.clone(), &spec).unwrap();
    let store = Arc::new(PostgresStore::open(config.clone(), &spec).unwrap());
    let meter = Meter::new(&config, server().pid().unwrap()).unwrap();
    let ((), costs) = meter
        .of(|| {
            all_ways_fire_the_same(store);
            Ok::<(), RunError>(())
        })
        .unwrap();
    // 2,000 accounts of 1 kB were written.
    assert!(costs.wal > 2_000_000, "{costs:?}");
    assert!(costs.own.as_millis() > 0 && costs.database.as_millis() > 0, "{costs:?}");
    assert!(costs.wall.as_millis() > 0, "{costs:?}");
    assert!(meter.run("select 1 from nothing").is_err());
}

/// The policies beside the simulator's own loop over the same code of `gate`.
#[test]
fn hit_ratios_are_those_of_the_simulator() {
    let rules = [
        EvictionRule::Lru,
        EvictionRule::Mru,
        EvictionRule::Sieve,
        EvictionRule::Frequency,
        EvictionRule::WTinyLfu,
    ];
    for rule in rules {
        for (order, simulated) in [
            (Order::Same, AgentOrder::Same(600, rule)),
            (Order::Shuffled, AgentOrder::Shuffled(600, rule)),
        ] {
            let mut policy = policy(order, rule, 600);
            (0..20).for_each(|_| _ = policy.pass());
            let mean = (0..20).map(|_| policy.pass()).sum::<f64>() / 20.0;
            let found = hit_ratio(&Multicasts {
                agents: AGENTS,
                order: simulated,
                audience: Audience::All,
                outstanding: 1,
                warm_up: 20,
                rounds: 20,
                seed: 8,
            });
            // Both have other orders: the mean of 20 rounds of 2,000 turns is known to about 0.003.
            let found = found.unwrap().mean;
            assert!((mean - found).abs() < 0.02, "{rule:?} {order:?}: {mean} and {found}");
        }
    }
}

/// Section 5: with the scheduler the cached share, without it c + (1 - c) ln (1 - c).
#[test]
fn hit_ratios_are_those_of_theory() {
    for (room, share) in [(200, 0.1), (1_000, 0.5), (1_800, 0.9), (AGENTS, 1.0)] {
        let ratio = |order| {
            let mut policy = policy(order, EvictionRule::Lru, room);
            (0..3).for_each(|_| _ = policy.pass());
            (0..10).map(|_| policy.pass()).sum::<f64>() / 10.0
        };
        assert!((ratio(Order::Cohort) - share).abs() < 1e-9, "{share}");
        let theory = solve::lru_hit_ratio(share).unwrap();
        // Ten rounds of 2,000 turns: known to about 0.004.
        assert!((ratio(Order::Shuffled) - theory).abs() < 0.02, "{share}: {theory}");
        let same = if room == AGENTS { 1.0 } else { 0.0 };
        assert!((ratio(Order::Same) - same).abs() < 1e-9, "{share}");
    }
}
