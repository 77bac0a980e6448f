//! Explanations of outputs of load tools, for runs whose truth is known.

use advise::{
    ExplainError, ExplainOptions, KneeFrom, Little, MeanFrom, NextLoad, Pace, Side, Tool, ToolMean,
    ToolRun, explain,
};
use solve::{ClosedNetwork, Station};

fn run(clients: u32, throughput: f64, mean: f64) -> ToolRun {
    ToolRun {
        tool: Tool::Wrk,
        clients: Some(clients),
        pace: Pace::AtOnce,
        offered: None,
        throughput,
        response: Some(ToolMean { seconds: mean, rounding: 0.0, from: MeanFrom::Requests }),
        fastest: None,
        quantiles: Vec::new(),
        completed: 100_000,
        failed: 0,
        seconds: None,
        connecting: None,
        target: None,
        parts: Vec::new(),
        progress: Vec::new(),
        traps: Vec::new(),
    }
}

/// A run of exact mean value analysis.
fn exact(demands: &[f64], think: f64, clients: u32) -> ToolRun {
    let stations: Vec<_> = demands.iter().map(|demand| Station::queue(*demand).unwrap()).collect();
    let answer = ClosedNetwork::new(clients, think, &stations).unwrap().solve();
    run(clients, answer.throughput, answer.response)
}

fn with(think: f64) -> ExplainOptions {
    ExplainOptions { think, ..ExplainOptions::default() }
}

/// From a single client and any other load the bracket of N* holds the truth, (D + Z) / D_max, for
/// balanced and unbalanced networks, with and without think time: N/X is convex in N.
#[test]
fn two_loads_bracket_the_knee() {
    let networks: [(&[f64], f64); 5] = [
        (&[5e-3], 0.0),
        (&[5e-3, 3e-3, 1e-3], 0.0),
        (&[2e-3; 4], 0.0),
        (&[5e-3, 1e-3], 50e-3),
        (&[1e-3, 1e-3, 8e-3], 200e-3),
    ];
    let mut told = 0;
    for (demands, think) in networks {
        let largest = demands.iter().copied().fold(0.0, f64::max);
        let knee = (demands.iter().sum::<f64>() + think) / largest;
        for clients in [4, 16, 64, 256] {
            let runs = [exact(demands, think, 1), exact(demands, think, clients)];
            let found = explain(&runs, &with(think)).unwrap();
            assert!(found.little.iter().all(|check| check.little == Little::Closes));
            let Some([low, high]) = found.knee.clients else { continue };
            let place = format!("{demands:?}, Z {think}, {clients}: {low} to {high}, not {knee}");
            assert!(low <= knee * 1.0001 && knee <= high * 1.0001, "{place}");
            if f64::from(clients) > 8.0 * knee {
                assert_eq!(found.knee.side, Side::Past, "{place}");
                assert!(high / low < 1.2, "{place}");
            }
            told += 1;
        }
    }
    assert!(told >= 18, "{told} of 20 brackets");
}

#[test]
fn three_loads_find_the_peak_of_the_scalability_law() {
    let (gamma, alpha, beta) = (500.0, 0.05, 1e-3);
    let of = |n: u32| {
        let m = f64::from(n);
        let x = gamma * m / (1.0 + alpha * (m - 1.0) + beta * m * (m - 1.0));
        run(n, x, m / x)
    };
    let runs = [of(1), of(8), of(32), of(100)];
    let knee = explain(&runs, &with(0.0)).unwrap().knee;
    let peak = ((1.0_f64 - alpha) / beta).sqrt();
    assert!((knee.peak.unwrap() / peak - 1.0).abs() < 1e-6, "{knee:?}");
    assert_eq!((knee.from, knee.side), (KneeFrom::Scalability, Side::Past));
}

#[test]
fn one_load_cannot_tell_and_asks_for_a_single_client() {
    let found = explain(&[run(16, 500.0, 32e-3)], &with(0.0)).unwrap();
    assert_eq!(found.knee.side, Side::Unknown);
    assert_eq!(found.next.load, NextLoad::Clients(1));
    let options = ExplainOptions { alone: Some(2e-3), ..ExplainOptions::default() };
    let found = explain(&[run(16, 500.0, 32e-3)], &options).unwrap();
    assert_eq!((found.knee.side, found.knee.from), (Side::Past, KneeFrom::Alone));
    assert_ne!(found.next.load, NextLoad::Clients(1));
    let before = explain(&[run(2, 950.0, 2.1e-3)], &options).unwrap();
    assert_eq!(before.knee.side, Side::Before);
}

#[test]
fn littles_law_says_what_is_missing() {
    let little = |run: &ToolRun, options: &ExplainOptions| {
        explain(std::slice::from_ref(run), options).unwrap().little.remove(0)
    };
    // 100 /s of 16 clients: a cycle takes 160 ms, of which 100 ms are in no response.
    let paused = run(16, 100.0, 60e-3);
    let check = little(&paused, &with(0.0));
    assert_eq!(check.little, Little::Broken);
    assert!((check.apart().unwrap() + 0.625).abs() < 1e-9);
    assert!(check.why.iter().any(|why| why.contains("100 ms are missing")), "{check:?}");
    assert_eq!(little(&paused, &with(100e-3)).little, Little::Closes);
    let mut corrected = run(16, 500.0, 50e-3);
    corrected.response = corrected.response.map(|m| ToolMean { from: MeanFrom::Corrected, ..m });
    let check = little(&corrected, &with(0.0));
    assert!(check.why[0].contains("coordinated omission"), "{check:?}");
    let derived = ToolMean { seconds: 1.0, rounding: 0.0, from: MeanFrom::Derived };
    let derived = ToolRun { response: Some(derived), ..run(16, 16.0, 1.0) };
    assert_eq!(little(&derived, &with(0.0)).little, Little::ByConstruction);
    let unknown = ToolRun { clients: None, ..run(16, 500.0, 32e-3) };
    assert_eq!(little(&unknown, &with(0.0)).little, Little::Unknown);
    let told = ExplainOptions { clients: vec![16], ..ExplainOptions::default() };
    assert_eq!(little(&unknown, &told).little, Little::Closes);
    let failing = ToolRun { failed: 5_000, ..run(16, 500.0, 32e-3) };
    assert!(little(&failing, &with(0.0)).is_failing());
    // Backlog inside a generator that sends by a schedule.
    let late = ToolRun { pace: Pace::Scheduled, ..run(16, 500.0, 2.0) };
    let found = explain(std::slice::from_ref(&late), &with(0.0)).unwrap();
    assert_eq!(found.little[0].little, Little::Outstanding);
    assert!(found.little[0].why[0].contains("984 waited inside"), "{found:?}");
    assert_eq!(found.knee.side, Side::Past);
    let NextLoad::Rate(rate) = found.next.load else { panic!("{found:?}") };
    assert!(rate < 500.0);
}

#[test]
fn what_contradicts_is_refused() {
    let runs = [run(1, 100.0, 10e-3), run(2, 150.0, 13e-3)];
    let given = |clients: &[u32]| {
        let clients = clients.to_vec();
        explain(&runs, &ExplainOptions { clients, ..ExplainOptions::default() }).unwrap_err()
    };
    assert_eq!(explain(&[], &with(0.0)), Err(ExplainError::Nothing));
    assert_eq!(given(&[1, 2, 3]), ExplainError::Clients { given: 3, runs: 2 });
    assert_eq!(given(&[1, 4]), ExplainError::Contradicted { run: 2, printed: 2, given: 4 });
    assert!(matches!(given(&[0]), ExplainError::Impossible { .. }));
    assert!(matches!(explain(&runs, &with(f64::NAN)), Err(ExplainError::Impossible { .. })));
    let mut other = runs.clone();
    other[0].target = Some("a/".into());
    other[1].target = Some("b/".into());
    assert!(matches!(explain(&other, &with(0.0)), Err(ExplainError::Targets { run: 2, .. })));
}
