//! Fits to runs that tell no sizes: what is found, what is said not to be known, which runs belong
//! together, and what may be the cause where nothing fits.

use std::collections::BTreeMap;
use std::time::Duration;

use advise::{
    CauseKind, FitError, FitOptions, Fitted, Load, Question, SourceFit, ask, causes, fit_runs,
    options as simulations, together,
};
use measure::{
    ClassCounts, ClassSpec, GeneratorHealth, Histogram, Host, Interval, LoadShape, RunHeader,
    RunRecord, RunSummary, Until,
};
use rand_distr::{Distribution, Normal};
use workload::stream;

const DEMAND: f64 = 2e-3;
const DELAY: f64 = 6e-3;

fn options() -> FitOptions {
    FitOptions {
        slots: None,
        cores: None,
        seed: 7,
        confidence: 0.95,
        date: "2026-11-20T12:00:00Z".into(),
        name: "http://127.0.0.1/".into(),
    }
}

/// Twenty seconds with this throughput, each second off by a share of `noise`, and with what N / X leaves
/// beside the think time as the response.
fn run(clients: u32, throughput: f64, noise: f64, seed: u64) -> RunRecord {
    let mut chance = stream(seed, u64::from(clients));
    let normal = Normal::new(0.0, noise).unwrap();
    let interval = |second: u32| {
        let rate = throughput * (1.0 + normal.sample(&mut chance)).max(0.05);
        let response = f64::from(clients) / rate;
        let mut counts = ClassCounts { completed: rate.round() as u64, ..Default::default() };
        for _ in 0..counts.completed {
            counts.total.record(Duration::from_secs_f64(response));
        }
        Interval {
            start_s: f64::from(second),
            length_s: 1.0,
            classes: vec![counts],
            in_flight_mean: f64::from(clients),
            started: rate as u64,
            connects: 0,
            lag: Histogram::new(),
            generator: GeneratorHealth { thread_cpu_s: vec![0.1] },
        }
    };
    RunRecord {
        header: header(clients, "http://127.0.0.1/"),
        intervals: (0..20).map(interval).collect(),
        summary: Some(RunSummary { elapsed_s: 20.0, interrupted: false, warnings: Vec::new() }),
    }
}

fn header(clients: u32, target: &str) -> RunHeader {
    RunHeader {
        id: format!("run-{clients}"),
        started: format!("2026-11-20T12:00:{:02}Z", clients % 60),
        tool: "test".into(),
        command: Vec::new(),
        seed: 1,
        host: Host::default(),
        target: target.into(),
        load: LoadShape::Closed { clients, think_s: 0.0 },
        until: Until::Seconds(20.0),
        warmup_s: 0.0,
        classes: vec![ClassSpec { name: "/".into(), bytes: None, weight: 1 }],
        settings: BTreeMap::from([("keep-alive".into(), "on".into())]),
        part: None,
        merged: Vec::new(),
    }
}

/// Throughputs of one queue and a delay, 1 client first.
fn throughputs(demand: f64, delay: f64, most: u32) -> Vec<f64> {
    let stations = [solve::Station::queue(demand).unwrap(), solve::Station::delay(delay).unwrap()];
    solve::ClosedNetwork::new(most, 0.0, &stations).unwrap().throughputs()
}

fn runs(demand: f64, delay: f64, clients: &[u32], noise: f64, seed: u64) -> Vec<RunRecord> {
    let all = throughputs(demand, delay, *clients.last().unwrap());
    clients.iter().map(|&n| run(n, all[n as usize - 1], noise, seed)).collect()
}

#[track_caller]
fn by_loads(runs: &[RunRecord]) -> SourceFit {
    match fit_runs(runs, &options()) {
        Ok(Fitted::ByLoads(fit)) => {
            fit.scenario.network().unwrap();
            fit
        }
        other => panic!("{other:?}"),
    }
}

fn parameter(fit: &SourceFit, name: &str) -> (f64, [f64; 2]) {
    let parameter = &fit.scenario.calibration.as_ref().unwrap().parameters[name];
    (parameter.value, parameter.interval)
}

fn holds(fit: &SourceFit, name: &str, truth: f64) -> bool {
    let [low, high] = parameter(fit, name).1;
    low <= truth && truth <= high
}

/// The story: whoever measured a plain URL was told to type `fit`, which ended with "the sizes of its
/// documents are not known" and exit code 2. Of 20 seeds at least 17 regions of 95 % hold the truth: fewer
/// happen once in 60 times.
#[test]
fn runs_without_sizes_give_the_queue_and_the_delay() {
    let mut hits = [0; 3];
    for seed in 0..20 {
        let fit = by_loads(&runs(DEMAND, DELAY, &[1, 4, 16], 0.05, seed));
        hits[0] += usize::from(holds(&fit, "demand", DEMAND));
        hits[1] += usize::from(holds(&fit, "delay", DELAY));
        hits[2] += usize::from(holds(&fit, "knee", (DEMAND + DELAY) / DEMAND));
        let note = &fit.notes[0];
        assert!(note.contains("not to sizes: the sizes of the documents are not known"), "{note}");
        assert!(parameter(&fit, "demand").1[1] < 1.3 * DEMAND, "{fit:?}");
    }
    assert!(hits.iter().all(|hits| *hits >= 17), "of 20: {hits:?}");
}

#[test]
fn two_loads_suffice_and_prove_nothing() {
    let fit = by_loads(&runs(DEMAND, DELAY, &[1, 16], 0.03, 1));
    assert!(holds(&fit, "demand", DEMAND) && holds(&fit, "delay", DELAY), "{fit:?}");
    assert!(fit.rows.iter().all(|row| row.stand == advise::RowStand::TakenUp), "{fit:?}");
    let same = runs(DEMAND, DELAY, &[4, 4], 0.03, 1);
    assert_eq!(fit_runs(&same, &options()).unwrap_err(), FitError::OneLoad(4));
    let one = runs(DEMAND, DELAY, &[1], 0.03, 1);
    let error = fit_runs(&one, &options()).unwrap_err();
    assert!(error.to_string().contains("`--clients 1,4,16`"), "{error}");
}

/// A service of one thread without a delay: every client more waits, and that is all.
#[test]
fn a_flat_throughput_is_a_demand_without_a_delay() {
    for seed in 0..10 {
        let flat: Vec<_> = [1, 4, 16].map(|n| run(n, 1.0 / DEMAND, 0.05, seed)).into();
        let fit = by_loads(&flat);
        let (demand, [low, high]) = parameter(&fit, "demand");
        assert!((demand / DEMAND - 1.0).abs() < 0.1, "{seed}: {fit:?}");
        assert!(low > 0.8 * DEMAND && high < 1.25 * DEMAND, "{seed}: {fit:?}");
        assert!(parameter(&fit, "knee").0 < 2.0, "{seed}: {fit:?}");
    }
}

/// The story: Python's server answers most with one client. "All points before the throughput falls have
/// the same load" ended the loop there.
#[test]
fn a_throughput_that_falls_is_served_as_measured() {
    let falling = [run(1, 1000.0, 0.02, 1), run(4, 600.0, 0.02, 1), run(16, 300.0, 0.02, 1)];
    let fit = by_loads(&falling);
    assert_eq!(parameter(&fit, "peak"), (1.0, [1.0, 4.0]), "{fit:?}");
    assert!(fit.notes[1].contains("throughput falls by 70 % beyond 1 client"), "{:?}", fit.notes);
    // Behind a gate of one slot it is as with one client, however many there are.
    let question = Question { clients: vec![16], slots: vec![1, 4, 16], ..Default::default() };
    let points = ask(&fit.scenario, &question, &simulations(3), |_, _| {}).unwrap();
    for (point, wanted) in points.iter().zip([1000.0, 600.0, 300.0]) {
        assert_eq!(point.load, Load::Clients(16));
        let simulated = point.simulation.throughput.mean;
        // Three digits of a histogram, and 20 s of a simulation.
        assert!((simulated / wanted - 1.0).abs() < 0.03, "{simulated} /s, not {wanted}");
    }
    // Within noise it is no fall.
    let noisy = [run(1, 1000.0, 0.5, 1), run(4, 850.0, 0.5, 1)];
    assert!(parameter(&by_loads(&noisy), "knee").0 >= 1.0);
}

#[test]
fn what_the_user_knows_is_taken() {
    let runs = runs(DEMAND, DELAY, &[1, 4, 16], 0.02, 1);
    let told = FitOptions { slots: Some(3), cores: Some(2), ..options() };
    let Ok(Fitted::ByLoads(fit)) = fit_runs(&runs, &told) else { panic!("it fits") };
    assert_eq!(fit.scenario.gates[0].slots, Some(3));
    assert_eq!(by_loads(&runs).scenario.gates[0].slots, Some(16));
    for bad in
        [FitOptions { slots: Some(0), ..options() }, FitOptions { cores: Some(0), ..options() }]
    {
        assert!(matches!(fit_runs(&runs, &bad), Err(FitError::TooLittle(_))));
    }
}

#[test]
fn runs_of_one_target_belong_together() {
    let mut all = runs(DEMAND, DELAY, &[1, 4, 16], 0.02, 1);
    let of = |clients: u32, change: &dyn Fn(&mut RunRecord)| {
        let mut other = run(clients, 100.0, 0.02, 2);
        other.header.id = format!("other-{clients}");
        change(&mut other);
        other
    };
    all.push(of(8, &|run| run.header.target = "http://127.0.0.1:81/".into()));
    all.push(of(32, &|run| run.header.target = "http://127.0.0.1:81/".into()));
    all.push(of(2, &|run| drop(run.header.settings.insert("keep-alive".into(), "off".into()))));
    all.push(of(3, &|run| run.header.load = LoadShape::Fixed { rate: 9.0, in_flight_max: 9 }));
    let (taken, left) = together(&all, 0.95).unwrap();
    assert_eq!(taken, [0, 1, 2]);
    let why: Vec<&str> = left.iter().map(|one| one.why.as_str()).collect();
    assert!(why[0].contains("open load"), "{why:?}");
    assert_eq!(why[1], "it measured http://127.0.0.1:81/, not http://127.0.0.1/");
    assert_eq!(why[3], "it differs from them in keep-alive");
    // An invalid run is left out only where two loads remain.
    let cut = |run: &mut RunRecord| run.header.warmup_s = 0.0;
    cut(&mut all[0]);
    for interval in &mut all[1].intervals {
        interval.generator.thread_cpu_s = vec![0.95];
    }
    let (taken, left) = together(&all[..3], 0.95).unwrap();
    assert_eq!(taken, [0, 2]);
    assert!(left[0].why.starts_with("it is invalid: the generator was the limit"), "{left:?}");
    assert_eq!(together(&all[..2], 0.95).unwrap().0, [0, 1]);
    let none = together(&all[6..], 0.95).unwrap_err();
    assert!(none.to_string().contains("open load"), "{none}");
    assert!(matches!(together(&[], 0.95), Err(FitError::TooLittle(_))));
}

#[test]
fn the_cause_of_a_misfit_is_looked_for_in_the_records() {
    let kinds = |run: &RunRecord| -> Vec<CauseKind> {
        causes(std::slice::from_ref(run)).iter().map(|cause| cause.kind).collect()
    };
    let quiet = run(4, 1000.0, 0.02, 1);
    assert_eq!(kinds(&quiet), []);
    assert!(matches!(kinds(&run(4, 1000.0, 0.4, 1))[..], [CauseKind::Elsewhere(_)]));
    // So few that chance alone moves them.
    assert!(matches!(kinds(&run(1, 4.0, 0.5, 3))[..], [CauseKind::Noise(_)]));
    let mut closed = quiet.clone();
    for interval in &mut closed.intervals {
        interval.connects = interval.started;
        interval.generator.thread_cpu_s = vec![0.1, 0.7];
    }
    assert!(
        matches!(kinds(&closed)[..], [CauseKind::Generator(_), CauseKind::Closed(_)]),
        "{:?}",
        kinds(&closed)
    );
    let told = causes(&[closed]).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for wanted in ["threads: with 4 clients", "`--no-keep-alive`", "100 % of the requests"] {
        assert!(told.contains(wanted), "{told}");
    }
    // What several runs show is said once, with the worst of them.
    let noisy = [run(1, 1000.0, 0.3, 1), run(4, 1000.0, 0.4, 1), run(16, 1000.0, 0.5, 1)];
    let told: Vec<String> = causes(&noisy).iter().map(ToString::to_string).collect();
    let [one] = &told[..] else { panic!("{told:?}") };
    let percent = |run: &RunRecord| match causes(std::slice::from_ref(run))[0].kind {
        CauseKind::Elsewhere(size) => (100.0 * size).round(),
        other => panic!("{other:?}"),
    };
    let worst = noisy.iter().map(percent).fold(0.0, f64::max);
    let wanted = format!(
        "load from elsewhere: with 1, 4 and 16 clients the throughput varied by up to {worst:.0} % from"
    );
    assert!(one.starts_with(&wanted), "{one}");
    // Superlinear: sixteen clients get a hundred times what one gets.
    let wild = [run(1, 100.0, 0.02, 1), run(4, 2000.0, 0.02, 1), run(16, 10_000.0, 0.02, 1)];
    assert!(matches!(fit_runs(&wild, &options()), Err(FitError::DoesNotFit(_))));
}
