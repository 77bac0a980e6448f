//! yamamoto's cluster model against the values that the paper states.

use solve::{Cluster, Cohorts, SolveError, chord_hit_ratio, lru_hit_ratio};

use crate::{near, printed};

fn cluster(agents: f64, servers: u32, in_cache: f64) -> Cluster {
    Cluster::new(agents, servers, in_cache, 1000.0, 2000.0, 0.1).unwrap()
}

/// T_ag = 1500, M = 8 and 10. C_no is read off the throughput without the scheduler, so only the
/// throughput with it is a check; T_agdb and T_db are those of section 6.
#[test]
fn check_values_are_met() {
    for (agents, servers, cached, without, with) in
        [(1_649_485.0, 8, 0.970, 9170.88, 9135.89), (2_040_816.0, 10, 0.980, 11766.09, 11609.92)]
    {
        let (c_no, cohorts) =
            if servers == 8 { (0.8943, Cohorts::Case2) } else { (0.9300, Cohorts::Case3) };
        let answer = cluster(agents, servers, 1500.0).compare(cached, c_no).unwrap();
        near(answer.throughput_without, without, 5e-4, &answer);
        near(answer.throughput_with, with, 2e-6, &answer);
        assert_eq!(answer.cohorts, cohorts);
        printed(answer.servers_fetched, 3.21, 0.01, &answer);
        printed(answer.servers_cached, 15.33, 0.01, &answer);
    }
}

/// Section 6: 200,000 agents cached a server, N = 1,500,000, up to 89 % faster with the measured hit
/// curve. The hit ratio of LRU in theory is below it, and so it makes more of the scheduler.
#[test]
fn the_scheduler_wins_most_in_the_middle() {
    let speed_up = |servers: u32| {
        let cached = (f64::from(servers) * 200_000.0 / 1_500_000.0).min(1.0);
        let c_no = lru_hit_ratio(cached).unwrap();
        let answer = cluster(1_500_000.0, servers, 3757.4).compare(cached, c_no).unwrap();
        answer.throughput_with / answer.throughput_without
    };
    let best = (1..=8).map(speed_up).fold(0.0, f64::max);
    assert!((1.89..2.05).contains(&best), "{best}");
    near(speed_up(8), 1.0, 1e-12, &"everything is cached");
}

#[test]
fn bounds_on_servers_are_where_the_terms_meet() {
    for in_cache in [1500.0, 3757.4, 4500.0] {
        for step in 1..20 {
            let cached = f64::from(step) / 20.0;
            let c_no = lru_hit_ratio(cached).unwrap();
            for servers in 1..40 {
                let answer = cluster(1e6, servers, in_cache).compare(cached, c_no).unwrap();
                let m = f64::from(servers);
                let case = (in_cache, cached, servers, answer);
                let want = match (
                    m <= answer.servers_scan,
                    m <= answer.servers_cached,
                    m <= answer.servers_fetched,
                ) {
                    (true, true, true) => Cohorts::Case1,
                    (true, true, false) => Cohorts::Case2,
                    (false, true, false) => Cohorts::Case3,
                    (false, false, false) => Cohorts::Case4,
                    other => panic!("{other:?} {case:?}"),
                };
                assert_eq!(answer.cohorts, want, "{case:?}");
                let wins = answer.throughput_with >= answer.throughput_without * (1.0 - 1e-12);
                match answer.cohorts {
                    Cohorts::Case2 => assert_eq!(wins, m <= answer.wins_up_to, "{case:?}"),
                    Cohorts::Case3 => assert_eq!(wins, m >= answer.wins_from, "{case:?}"),
                    _ => assert!(wins, "{case:?}"),
                }
            }
        }
    }
}

/// The losing region of the paper's figure is one of the interpolated curve, not of LRU.
#[test]
fn the_scheduler_loses_on_the_chord_only() {
    let losses = |hit: &dyn Fn(f64) -> f64| -> Vec<u32> {
        (1..=40)
            .filter(|&servers| {
                (1..10_000).any(|part| {
                    let cached = f64::from(part) / 10_000.0;
                    let c_no = hit(cached);
                    let answer = cluster(1e6, servers, 1500.0).compare(cached, c_no).unwrap();
                    answer.throughput_with < answer.throughput_without * (1.0 - 1e-9)
                })
            })
            .collect()
    };
    assert_eq!(losses(&|c| lru_hit_ratio(c).unwrap()), Vec::<u32>::new());
    let chord = |c: f64| {
        if c < 0.9 { lru_hit_ratio(c).unwrap() } else { chord_hit_ratio(c, (0.9, 0.65)).unwrap() }
    };
    assert_eq!(losses(&chord), (8..=15).collect::<Vec<u32>>());
}

#[test]
fn the_hit_ratio_of_lru_meets_its_values() {
    for (c, hit) in [(0.5, 0.153), (0.9, 0.670), (0.97, 0.865), (0.98, 0.902)] {
        printed(lru_hit_ratio(c).unwrap(), hit, 1e-3, &c);
    }
    assert_eq!((lru_hit_ratio(0.0).unwrap(), lru_hit_ratio(1.0).unwrap()), (0.0, 1.0));
    // The series and the formula meet where one gives way to the other.
    near(lru_hit_ratio(0.999_9e-4).unwrap(), lru_hit_ratio(1.000_1e-4).unwrap(), 1e-3, &"joint");
    near(chord_hit_ratio(0.95, (0.9, 0.65)).unwrap(), 0.825, 1e-12, &"half way");
}

#[test]
fn shares_beyond_one_are_refused() {
    let cluster = cluster(1e6, 8, 1500.0);
    for bad in [-0.1, 1.1, 97.0, f64::NAN] {
        let errors = [
            cluster.compare(bad, 0.5).unwrap_err(),
            cluster.compare(0.5, bad).unwrap_err(),
            lru_hit_ratio(bad).unwrap_err(),
            chord_hit_ratio(bad, (0.9, 0.65)).unwrap_err(),
            Cluster::new(1e6, 8, 1500.0, 1000.0, 2000.0, bad).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, SolveError::Share { .. }), "{error}");
            assert!(error.to_string().contains("25 % is 0.25"), "{error}");
        }
    }
    assert!(chord_hit_ratio(0.5, (0.9, 0.65)).is_err(), "left of the measured point");
    let none = Cluster::new(1e6, 0, 1500.0, 1000.0, 2000.0, 0.1).unwrap_err();
    assert_eq!(none.to_string(), "the number of servers M is 0; give at least 1");
}
