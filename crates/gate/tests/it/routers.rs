//! Choice of the server: every router, both lengths, all ties, with one queue and with several.

use gate::{
    Event, GateSpec, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow, Length, Queues, RouterSpec, Ties,
    WeightedOrder,
};

use crate::play::{Play, arrive, depart, per_server, shared, start};

fn shortest(length: Length, ties: Ties) -> RouterSpec {
    RouterSpec::ShortestQueue { length, ties }
}

#[test]
fn round_robin_passes_over_who_is_down_or_full() {
    let mut play = Play::new(&shared(&[2, 1, 2]));
    assert_eq!(play.servers_of(0, 1..6), [0, 1, 2, 0, 2]);
    // All are full; the turn stands at server 0.
    play.table(&[
        (1, arrive(6), &[]),
        (2, depart(1, 0), &[start(6, 1, 0)]),
        (2, depart(0, 0), &[]),
        (2, depart(2, 0), &[]),
        (3, Event::Down(2), &[]),
        (3, arrive(7), &[start(7, 0, 0)]),
        (4, Event::Up(2), &[]),
        (4, arrive(8), &[start(8, 2, 0)]),
    ]);
}

#[test]
fn round_robin_sends_to_full_servers_where_each_has_its_queue() {
    let mut play = Play::new(&per_server(&[1, 1], RouterSpec::RoundRobin));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[start(2, 1, 0)]),
        (1, depart(1, 0), &[]),
        (1, arrive(3), &[]), // To server 0, though server 1 is free: chosen at arrival.
        (1, arrive(4), &[start(4, 1, 0)]),
        (2, depart(0, 0), &[start(3, 0, 0)]),
    ]);
}

/// Ten jobs at three servers of 1, 2 and 3 slots, each with its queue; the lengths after each.
fn lengths(length: Length, ties: Ties) -> Vec<usize> {
    let mut play = Play::new(&per_server(&[1, 2, 3], shortest(length, ties)));
    let mut chosen = Vec::new();
    let mut before = [0; 3];
    for id in 1..=10 {
        play.tell(0, arrive(id));
        let jobs: Vec<u64> =
            play.gate.servers().iter().map(|s| s.waiting + u64::from(s.busy)).collect();
        let grown: Vec<usize> = (0..3).filter(|&at| jobs[at] != before[at]).collect();
        assert_eq!(grown.len(), 1);
        chosen.push(grown[0]);
        before.copy_from_slice(&jobs);
    }
    chosen
}

#[test]
fn the_shortest_queue_depends_on_what_counts() {
    // Nobody waits at server 0 before its second job; then at 1 before its third; and so on.
    assert_eq!(lengths(Length::Waiting, Ties::Lowest), [0, 0, 1, 1, 1, 2, 2, 2, 2, 0]);
    assert_eq!(lengths(Length::InSystem, Ties::Lowest), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(lengths(Length::Waiting, Ties::Rotate), [0, 1, 2, 0, 1, 2, 1, 2, 2, 0]);
    assert_eq!(lengths(Length::InSystem, Ties::Rotate), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn rotation_goes_on_from_the_server_chosen_last() {
    let mut play = Play::new(&per_server(&[1, 1, 1], shortest(Length::InSystem, Ties::Rotate)));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (1, depart(0, 0), &[]),
        (1, arrive(2), &[start(2, 1, 0)]),
        (2, depart(1, 0), &[]),
        (2, Event::Down(2), &[]),
        (2, arrive(3), &[start(3, 0, 0)]),
        (2, Event::Up(2), &[]),
        (2, arrive(4), &[start(4, 1, 0)]),
        (2, arrive(5), &[start(5, 2, 0)]),
        (3, depart(2, 0), &[]),
        (3, depart(0, 0), &[]),
        (3, arrive(6), &[start(6, 0, 0)]),
    ]);
}

#[test]
fn with_one_queue_the_length_is_of_those_in_service() {
    let router = shortest(Length::InSystem, Ties::Lowest);
    let mut play = Play::new(&GateSpec { router, ..shared(&[3, 2]) });
    assert_eq!(play.servers_of(0, 1..6), [0, 1, 0, 1, 0]);
    // Nobody waits for one server alone: all lengths are 0, and the ties decide.
    for (ties, expected) in [(Ties::Lowest, [0, 0, 0, 1, 1]), (Ties::Rotate, [0, 1, 0, 1, 0])] {
        let router = shortest(Length::Waiting, ties);
        let mut play = Play::new(&GateSpec { router, ..shared(&[3, 2]) });
        assert_eq!(play.servers_of(0, 1..6), expected);
    }
}

/// Number of times that each of four servers of plenty of slots is chosen; server 1 is down.
fn chosen(router: RouterSpec, queues: Queues, seed: u64) -> [u32; 4] {
    let mut play = Play::new(&GateSpec { router, queues, seed, ..shared(&[1; 4]) });
    play.tell(0, Event::Down(1));
    let mut chosen = [0; 4];
    for id in 1..=3000 {
        let servers = play.servers_of(0, id..id + 1);
        chosen[servers[0] as usize] += 1;
        play.tell(0, depart(servers[0], 0));
    }
    chosen
}

/// Binomial(3000, 1/3): mean 1000, standard deviation 25.8; four of them are 104.
#[test]
fn chance_is_fair_among_the_usable_and_follows_the_seed() {
    let ties = [Length::Waiting, Length::InSystem].map(|length| shortest(length, Ties::Random));
    for router in [RouterSpec::Random, ties[0].clone(), ties[1].clone()] {
        for queues in [Queues::Shared, Queues::PerServer] {
            let found = chosen(router.clone(), queues, 7);
            assert_eq!(found[1], 0, "{router:?} chose a server that is down");
            for at in [0, 2, 3] {
                assert!(found[at].abs_diff(1000) <= 104, "{router:?} {queues:?}: {found:?}");
            }
            assert_eq!(found, chosen(router.clone(), queues, 7));
            assert_ne!(found, chosen(router.clone(), queues, 8));
        }
    }
}

#[test]
fn chance_breaks_ties_only() {
    let router = shortest(Length::InSystem, Ties::Random);
    for seed in 0..50 {
        let mut play = Play::new(&GateSpec { seed, ..per_server(&[1, 1, 1], router.clone()) });
        let mut servers = play.servers_of(0, 1..4);
        servers.sort_unstable();
        assert_eq!(servers, [0, 1, 2], "seed {seed}");
    }
}

/// What is said of the shares is what is dealt: to servers of very different sizes, and to a few of them.
#[test]
fn shares_are_said_of_the_routers_that_deal_whatever_the_servers_do() {
    let weighted = |order| RouterSpec::Weighted { weights: vec![1, 2, 5], order };
    let dealt = [
        RouterSpec::Random,
        RouterSpec::RoundRobin,
        weighted(WeightedOrder::Rotate),
        weighted(WeightedOrder::Random),
    ];
    for router in dealt {
        let spec = per_server(&[1, 1000, 7], router);
        let shares = spec.shares().expect("its shares are fixed");
        let mut play = Play::new(&spec);
        (1..=8000).for_each(|id| drop(play.tell(0, arrive(id))));
        let jobs = play.gate.servers().iter().map(|s| s.waiting + u64::from(s.busy));
        for (share, jobs) in shares.into_iter().zip(jobs) {
            // A binomial count of 8000 strays by at most 45 (one sigma); this is four of them.
            assert!((share * 8000.0 - jobs as f64).abs() < 180.0, "{:?}: {jobs}", spec.router);
        }
        assert_eq!(
            GateSpec { queues: Queues::Shared, ..spec }.shares(),
            None,
            "who is free gets it"
        );
    }
    assert_eq!(shortest(Length::InSystem, Ties::Lowest).shares(3), None);
}

#[test]
fn a_router_by_key_says_what_it_must_know() {
    let by_key = |of, map| RouterSpec::ByKey { of, map, down: KeyDown::Next };
    let table = |rows| KeyMap::Table { rows, default: KeyDefault::Server(0) };
    assert_eq!(by_key(KeyOf::Key, KeyMap::Hash).reads(), Some(KeyOf::Key));
    let row = KeyRow { key: 1, server: 0 };
    assert_eq!(by_key(KeyOf::Class, table(vec![row])).reads(), Some(KeyOf::Class));
    assert_eq!(by_key(KeyOf::Class, table(Vec::new())).reads(), None, "all go to one server");
    assert_eq!(RouterSpec::Random.reads(), None);
}
