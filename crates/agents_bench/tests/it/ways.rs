//! All ways of a pass, held to each other, to `sim` and to theory.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agents::{Destination, Key, LoadWay, PartitionSpec};
use agents_bench::{
    Account, Blocks, Direct, Hello, Load, LoadSpec, Meter, Order, Policy, PolicySpec, Probes,
    RunError, Server, Sleeper, SleeperSpec, Tick, Watch, WatchSpec, populate,
};
use agents_store::{Memory, PostgresSpec, PostgresStore, Store};
use gate::{EvictionRule, Time, Victim};
use pgtest::Bound;
use postgres::{Private, Settings};
use sim::agents::{AgentOrder, Audience, Multicasts, hit_ratio};

const AGENTS: u32 = 2_000;
/// Nobody stops a test.
static GOES: AtomicBool = AtomicBool::new(false);

fn policy(order: Order, victim: EvictionRule, room: u32) -> Policy {
    Policy::new(PolicySpec { agents: AGENTS, room, order, victim: victim.into(), seed: 5 }).unwrap()
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

/// With several multicasts outstanding each receiver handles each of them, in order; an agent is loaded once for
/// all of them by the scheduler, and (1 - c) a message by what knows of no queue.
#[test]
fn several_outstanding_multicasts_reach_all_of_their_receivers() {
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    let store = filled(&load, Arc::new(Memory::new()));
    let ticks: Vec<Tick> = (1..=3).map(|number| load.tick(number)).collect();
    let expected = load.expected(&ticks).unwrap();
    for (order, rule, loads) in [
        (Order::Cohort, EvictionRule::Lru, 0.25),
        (Order::Same, EvictionRule::Lru, 1.0),
        (Order::Shuffled, EvictionRule::Mru, 0.75),
    ] {
        for chunk in [1, 100] {
            let policy = policy(order, rule, 500).outstanding(3);
            let mut direct = Direct::open(&*store, 0, policy, (AGENTS, chunk, 2)).unwrap();
            assert_eq!(direct.pass(&ticks, &GOES).unwrap(), expected, "{order:?} {chunk}");
            let found = 1.0 - direct.hit_ratio();
            // A batch holds its agents while it runs, so that MRU chooses others.
            let is_exact = chunk == 1 || rule == EvictionRule::Lru;
            assert!(!is_exact || (found - loads).abs() < 0.02, "{order:?} {chunk}: {found}");
        }
    }
}

/// Where an agent receives a multicast by chance, those that do are told and no others.
#[test]
fn a_multicast_for_some_reaches_them_alone() {
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    let store = filled(&load, Arc::new(Memory::new()));
    let chances: Vec<f64> = (0..AGENTS).map(|at| if at < 500 { 0.9 } else { 0.1 }).collect();
    for order in [Order::Shuffled, Order::Cohort] {
        let policy = policy(order, EvictionRule::Frequency, 500).for_some(chances.clone());
        let mut direct = Direct::open(&*store, 0, policy, (AGENTS, 50, 20)).unwrap();
        let tick = load.tick(1);
        let fired = direct.tick(&tick, &GOES).unwrap();
        let receivers: Vec<Key> =
            direct.receivers()[0].iter().map(|&agent| Key(agent.into())).collect();
        // A mean of 600, a standard deviation of 13.
        assert!(receivers.len().abs_diff(600) < 80, "{}", receivers.len());
        assert_eq!(fired, load.expected_of(receivers, &[tick]).unwrap()[0], "{order:?}");
        assert!(fired.count > 20);
    }
}

/// A pass that is timed in part: its turns, and so its hits, are those of the same pass one by one.
#[test]
fn blocks_that_are_not_timed_go_one_by_one_as_well() {
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    let store = filled(&load, Arc::new(Memory::new()));
    let tick = load.tick(1);
    let expected = load.expected(std::slice::from_ref(&tick)).unwrap()[0];
    for order in [Order::Same, Order::Shuffled, Order::Cohort] {
        for victim in [EvictionRule::Lru.into(), EvictionRule::Mru.into(), Victim::Paper] {
            let open = || {
                let spec = PolicySpec { agents: AGENTS, room: 700, order, victim, seed: 5 };
                let policy = Policy::new(spec).unwrap();
                Direct::open(&*store, 0, policy, (AGENTS, 1, 3)).unwrap()
            };
            let mut whole = open();
            assert_eq!(whole.tick(&tick, &GOES).unwrap(), expected, "{order:?} {victim:?}");
            let hits = whole.hit_ratio();
            let (mut part, mut timed) = (open(), 0);
            let mut count = |run: &mut dyn FnMut() -> Result<(), RunError>| {
                timed += 1;
                run()
            };
            let blocks = Blocks { turns: 100, of: 4 };
            let fired = part.sampled(&tick, &GOES, (blocks, &mut count)).unwrap();
            assert_eq!(fired, expected, "{order:?} {victim:?}");
            assert_eq!((part.hit_ratio(), timed), (hits, 5), "{order:?} {victim:?}");
        }
    }
}

/// Urgent messages to agents that are not in memory, beside passes and alone: each takes its agent outside, and
/// the server tells when that is committed.
#[test]
fn the_lane_tells_the_time_of_each_urgent_message() {
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    let store = filled(&load, Arc::new(Memory::new()));
    let spec = PartitionSpec { held_max: 100_000, ..PartitionSpec::new(0, 500) };
    let mut server = Server::<Account>::open(store, spec).unwrap();
    let probes = Probes { count: 30, every: Duration::from_millis(1), seed: 2 };
    let idle = server.lane(&load, probes, &mut || Ok(None), &GOES).unwrap();
    assert_eq!((idle.len(), server.counts().urgent), (30, 30));
    assert_eq!(server.counts().loads, 30, "none of them was cached");
    let mut number = 0;
    let mut next = || {
        number += 1;
        let tick = load.tick(number);
        let count = load.expected(std::slice::from_ref(&tick))?[0].count;
        Ok(Some((tick, count)))
    };
    let busy = server.lane(&load, probes, &mut next, &GOES).unwrap();
    assert_eq!(busy.len(), 30);
    let handled = server.counts().handled;
    assert_eq!(handled, 60 + number * u64::from(AGENTS), "each pass was for all");
    server.close();
}

/// Timers that are due fire at their time or later, each once, and all others wait.
#[test]
fn timers_fire_when_they_are_due_and_not_before() {
    let (from, span) = (Time::ZERO + Duration::from_millis(300), Duration::from_millis(200));
    let spec = SleeperSpec { agents: AGENTS, timers: 6_000, due: 500, from, span, bytes: 100 };
    let store = Arc::new(Memory::new());
    spec.populate(&*store, 0, &GOES).unwrap();
    spec.arm(&*store, 0, &GOES).unwrap();
    let shared: Arc<dyn Store<Hello>> = store;
    let all = PartitionSpec { held_max: 100_000, ..PartitionSpec::new(0, 1_000) };
    let mut server = Server::<Sleeper>::open(shared, all).unwrap();
    server.listen();
    server.tick([(Hello, Destination::All)], 0, &GOES).unwrap();
    server.run_until(from + span, &GOES).unwrap();
    let mut heard = server.heard();
    heard.sort_by_key(|told| Sleeper::timer(&told.payload));
    assert_eq!(heard.len(), 500);
    for (told, timer) in heard.iter().zip(0..) {
        assert_eq!(Sleeper::timer(&told.payload), Some(timer));
        assert_eq!(told.agent, spec.agent(timer));
        assert!(told.at >= spec.due(timer), "timer {timer} fired at {:?}", told.at);
    }
    server.close();
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
    static CONNECTIONS: Bound = Bound::of(100, 16);
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
fn reads_that_are_outstanding_together_fire_the_same() {
    let config: tpcc::Config = server().url().as_str().parse().unwrap();
    let spec = PostgresSpec { schema: "each".to_owned(), ..PostgresSpec::default() };
    PostgresStore::init(config.clone(), &spec).unwrap();
    let store = PostgresStore::open(config, &spec).unwrap();
    let load = Load::new(LoadSpec::new(AGENTS, 9));
    populate(&load, &store, 0, (&GOES, |_| ())).unwrap();
    let keys: Vec<Key> = [3, 7, 1_999].map(Key).to_vec();
    let together = Store::<Tick>::load(&store, 0, &keys, LoadWay::Keys).unwrap();
    assert_eq!(store.read_each(0, &keys).unwrap(), together);
    assert!(store.read_each(0, &[Key(2_000)]).unwrap().is_empty(), "there is no such agent");
    let tick = load.tick(1);
    let expected = load.expected(std::slice::from_ref(&tick)).unwrap()[0];
    let each = |keys: &[Key]| store.read_each(0, keys);
    let policy = policy(Order::Cohort, EvictionRule::Lru, 500);
    let direct = Direct::open(&store, 0, policy, (AGENTS, 64, 2)).unwrap();
    let mut direct = direct.reading_each(&each);
    assert_eq!(direct.tick(&tick, &GOES).unwrap(), expected);
    assert_eq!(direct.hit_ratio(), 0.25);
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
            (Order::Same, AgentOrder::Same(600, rule.into())),
            (Order::Shuffled, AgentOrder::Shuffled(600, rule.into())),
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
