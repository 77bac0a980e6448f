//! Fits to runs whose truth is known, because they are written from the model itself; predictions of
//! what was fitted; and scores.

use std::collections::BTreeMap;
use std::time::Duration;

use advise::{
    AskError, FitError, FitOptions, Load, Parameter, Prediction, Quantity, Question, Right,
    Tolerance, ask, fit, names, point_for, score,
};
use measure::{
    ClassCounts, ClassSpec, GeneratorHealth, Histogram, Host, Interval, LoadShape, RunHeader,
    RunRecord, RunSummary, Until,
};
use sim::Options;
use workload::DocumentSet;

/// A server: g(x) = a x + b on one processor, a time on the way, and slots.
#[derive(Clone, Copy)]
struct Truth {
    per_byte: f64,
    base: f64,
    path: f64,
    slots: u32,
}

const TRUTH: Truth = Truth { per_byte: 50e-9, base: 1e-3, path: 0.2e-3, slots: 4 };

impl Truth {
    fn demand(&self, bytes: u64) -> f64 {
        self.per_byte * bytes as f64 + self.base
    }

    fn demand_mean(&self) -> f64 {
        DocumentSet::webstone().mean_of(|document| self.demand(document.bytes))
    }

    /// Throughput and mean response by document with so many clients: exact with one client and
    /// when saturated (http_load section 6; the time on the way only makes fewer wait).
    fn at(&self, clients: u32) -> (f64, impl Fn(u64) -> f64) {
        let truth = *self;
        let mean = truth.demand_mean();
        let rate = (f64::from(clients) / (mean + truth.path)).min(1.0 / mean);
        let inside = f64::from(clients) - rate * truth.path;
        let held = inside.min(f64::from(truth.slots));
        let wait = (inside - held) / rate;
        let stretch = if clients == 1 { 1.0 } else { held };
        (rate, move |bytes| truth.path + wait + stretch * truth.demand(bytes))
    }

    /// Twenty seconds of that, every second the same to within 0.2 %.
    fn run(&self, clients: u32) -> RunRecord {
        let (rate, response) = self.at(clients);
        let set = DocumentSet::webstone();
        let intervals = (0..20u32).map(|second| {
            let classes = set.documents().iter().enumerate().map(|(class, document)| {
                let mut counts = ClassCounts::default();
                let due = |second: f64| (second * rate * set.share(class)).round() as u64;
                counts.completed = due(f64::from(second) + 1.0) - due(f64::from(second));
                for nth in 0..counts.completed {
                    let noise =
                        1.0 + 0.004 * ((nth * 7 + u64::from(second)) % 5) as f64 / 4.0 - 0.002;
                    counts.total.record(Duration::from_secs_f64(response(document.bytes) * noise));
                }
                counts
            });
            Interval {
                start_s: f64::from(second),
                length_s: 1.0,
                classes: classes.collect(),
                in_flight_mean: f64::from(clients),
                started: rate as u64,
                connects: 0,
                lag: Histogram::new(),
                generator: GeneratorHealth { thread_cpu_s: vec![0.1] },
            }
        });
        RunRecord {
            header: header(clients, &set),
            intervals: intervals.collect(),
            summary: Some(RunSummary { elapsed_s: 20.0, interrupted: false, warnings: Vec::new() }),
        }
    }
}

fn header(clients: u32, set: &DocumentSet) -> RunHeader {
    let class = |document: &workload::Document| ClassSpec {
        name: document.name.clone(),
        bytes: Some(document.bytes),
        weight: document.weight,
    };
    RunHeader {
        id: format!("run-{clients}"),
        started: "2026-11-20T12:00:00Z".into(),
        tool: "test".into(),
        command: Vec::new(),
        seed: 1,
        host: Host::default(),
        target: "http://127.0.0.1/".into(),
        load: LoadShape::Closed { clients, think_s: 0.0 },
        until: Until::Seconds(20.0),
        warmup_s: 0.0,
        classes: set.documents().iter().map(class).collect(),
        settings: BTreeMap::new(),
        part: None,
        merged: Vec::new(),
    }
}

fn options(slots: Option<u32>, cores: Option<u32>) -> FitOptions {
    FitOptions {
        slots,
        cores,
        seed: 7,
        confidence: 0.95,
        date: "2026-11-20T12:00:00Z".into(),
        name: "test".into(),
    }
}

fn near(value: f64, truth: f64, share: f64) {
    assert!((value / truth - 1.0).abs() <= share, "{value} is not within {share} of {truth}");
}

#[test]
fn a_fit_finds_the_server_that_made_the_runs() {
    let runs = [TRUTH.run(1), TRUTH.run(32)];
    // Neither slots nor processors are told: both can be seen in these runs.
    let fit = fit(&runs, &options(None, None)).unwrap();
    let calibration = fit.scenario.calibration.as_ref().unwrap();
    let value = |name: &str| calibration.parameters[name].value;
    // The counts are whole requests and the histogram has three digits: 2 % covers both.
    near(value("per-byte"), TRUTH.per_byte, 0.02);
    near(value("base"), TRUTH.base, 0.02);
    near(value("path"), TRUTH.path, 0.25);
    assert_eq!(fit.scenario.gates[0].slots, Some(TRUTH.slots));
    for (name, parameter) in &calibration.parameters {
        let [low, high] = parameter.interval;
        assert!(low <= parameter.value && parameter.value <= high, "{name}");
    }
    assert_eq!(calibration.clients, [1, 32]);
    assert_eq!(calibration.runs, ["run-1", "run-32"]);
    let worst = fit.residuals.iter().filter(|residual| residual.completed >= 30);
    for residual in worst {
        assert!(residual.relative().abs() < 0.1, "{residual:?}");
    }
    assert!(calibration.unidentified.iter().any(|text| text.contains("while a slot is held")));
}

/// A short saturated run may end while its one huge document is still under way: nothing of that size
/// was completed, but the runs still ask for the same documents.
#[test]
fn a_document_that_was_never_completed_is_no_other_document() {
    let mut cut = TRUTH.run(32);
    for interval in &mut cut.intervals {
        interval.classes[4] = ClassCounts::default();
    }
    let fit = fit(&[TRUTH.run(1), cut], &options(Some(4), Some(1))).unwrap();
    let network = fit.scenario.network().unwrap();
    let sim::Sizes::Documents(set, _) = &network.classes[0].sizes else {
        panic!("it has documents")
    };
    assert_eq!(set.len(), 5);
}

#[test]
fn what_the_runs_cannot_tell_is_named_and_not_guessed() {
    let error = |runs: &[RunRecord], options: &FitOptions| fit(runs, options).unwrap_err();
    let both = [TRUTH.run(1), TRUTH.run(32)];

    assert_eq!(error(&both[1..], &options(None, None)), FitError::NoLowLoad);
    assert!(matches!(error(&both[..1], &options(None, None)), FitError::NotSaturated(1, _)));

    // As many clients as slots: nobody ever waits, so there may be any number of slots.
    let roomy = Truth { slots: 32, ..TRUTH };
    let unknown = error(&[roomy.run(1), roomy.run(32)], &options(None, Some(1)));
    assert!(matches!(unknown, FitError::SlotsUnknown(_)), "{unknown}");
    assert!(unknown.to_string().contains("--slots"));
    assert!(fit(&[roomy.run(1), roomy.run(32)], &options(Some(32), Some(1))).is_ok());

    // A long way: most of a single client's response could be service on several processors.
    let far = Truth { path: 10e-3, ..TRUTH };
    let unknown = error(&[far.run(1), far.run(64)], &options(Some(4), None));
    assert!(matches!(unknown, FitError::CoresUnknown(most) if most >= 4), "{unknown}");

    let mut open = TRUTH.run(32);
    open.header.load = LoadShape::Poisson { rate: 100.0, in_flight_max: 10 };
    assert!(matches!(error(&[TRUTH.run(1), open], &options(None, None)), FitError::Run(..)));
    let mut thinking = TRUTH.run(32);
    thinking.header.load = LoadShape::Closed { clients: 32, think_s: 1.0 };
    assert!(matches!(error(&[TRUTH.run(1), thinking], &options(None, None)), FitError::Run(..)));
    let mut others = TRUTH.run(32);
    others.header.classes[0].name = "another".into();
    assert_eq!(error(&[TRUTH.run(1), others], &options(None, None)), FitError::Documents);
}

#[test]
fn runs_that_contradict_the_model_do_not_fit() {
    // Told that four processors were busy, a request would have cost more than its response took.
    let told = fit(&[TRUTH.run(1), TRUTH.run(32)], &options(Some(4), Some(4)));
    let Err(FitError::DoesNotFit(why)) = told else { panic!("it must not fit: {told:?}") };
    assert!(why.contains("--cores"), "{why}");
}

fn quick() -> Options {
    Options { seed: 7, precision: 0.05, completions_max: 100_000, ..Options::default() }
}

fn prediction(question: &Question) -> Prediction {
    let fit = fit(&[TRUTH.run(1), TRUTH.run(32)], &options(Some(4), Some(1))).unwrap();
    let mut done = Vec::new();
    let points = ask(&fit.scenario, question, &quick(), |n, of| done.push((n, of))).unwrap();
    assert_eq!(done.last(), Some(&(points.len(), points.len())));
    Prediction {
        sekisho_prediction: 1,
        id: "p".into(),
        date: "2026-11-20T12:00:00Z".into(),
        seed: 7,
        scenario: fit.scenario,
        points,
    }
}

#[test]
fn a_prediction_has_two_witnesses_and_knows_its_range() {
    let question = Question { clients: vec![16, 64], slots: vec![4, 8], ..Question::default() };
    let prediction = prediction(&question);
    let places: Vec<_> = prediction.points.iter().map(|point| (point.load, point.slots)).collect();
    assert_eq!(
        places,
        [
            (Load::Clients(16), Some(4)),
            (Load::Clients(64), Some(4)),
            (Load::Clients(16), Some(8)),
            (Load::Clients(64), Some(8)),
        ]
    );
    for point in &prediction.points {
        let formula = point.formula.as_ref().unwrap();
        near(formula.throughput.mean, 1.0 / TRUTH.demand_mean(), 0.03);
        near(point.simulation.throughput.mean, 1.0 / TRUTH.demand_mean(), 0.05);
        assert_eq!(point.simulation.documents.len(), 5);
        let calibrated = point.load == Load::Clients(16);
        assert_eq!(point.beyond.is_empty(), calibrated, "{:?}", point.beyond);
    }
    // More slots help the small documents, because they wait less behind the large ones.
    let small = |slots| {
        let point = prediction.points.iter().find(|p| p.slots == Some(slots)).unwrap();
        point.simulation.document("500b").unwrap().mean
    };
    assert!(small(8) < small(4));
    let text = serde_json::to_string(&prediction).unwrap();
    assert_eq!(serde_json::from_str::<Prediction>(&text).unwrap(), prediction);
}

#[test]
fn a_question_that_does_not_fit_the_scenario_is_refused() {
    let scenario = prediction(&Question { clients: vec![4], ..Question::default() }).scenario;
    let refused = |scenario: &advise::Scenario, question: &Question| {
        ask(scenario, question, &quick(), |_, _| ()).unwrap_err()
    };
    assert_eq!(refused(&scenario, &Question::default()), AskError::NoLoad);
    let mut ungated = scenario.clone();
    ungated.gates.clear();
    let slots = Question { clients: vec![4], slots: vec![2], ..Question::default() };
    assert_eq!(refused(&ungated, &slots), AskError::NotOneGate(0));
    let mut two = scenario.clone();
    two.classes.push(two.classes[0].clone());
    two.classes[1].name = "other page".to_owned();
    let error = refused(&two, &slots);
    let named = format!("add `--class '{}'`, or `--class 'other page'`", two.classes[0].name);
    assert!(error.to_string().ends_with(&named), "{error}");
    let overload = Question { rates: vec![1e4], ..Question::default() };
    let error = refused(&scenario, &overload);
    assert!(matches!(error, AskError::Sim(..) | AskError::Scenario(..)), "{error:?}");
    assert!(error.to_string().contains("its queue grows without end"), "{error}");
}

/// The story: 5 ms of waiting inside a database were taken as outside the slots without a word: 64 clients at 4 slots
/// were to be served 6400 times a second, and were 735 times.
#[test]
fn a_delay_that_may_pass_in_a_slot_is_told_where_it_matters() {
    let question = Question { clients: vec![4], ..Question::default() };
    let mut scenario = prediction(&question).scenario;
    let parameters = &mut scenario.calibration.as_mut().unwrap().parameters;
    for (name, value) in [("delay", 18e-3), ("demand", 2e-3)] {
        let unit = "s".to_owned();
        let found = Parameter { value, interval: [value; 2], confidence: 0.95, unit };
        parameters.insert(name.to_owned(), found);
    }
    let told = |slots, clients| {
        let load = Load::Clients(clients);
        advise::beyond(&advise::at(&scenario, None, load, Some(slots)).unwrap(), load).concat()
    };
    let few = told(4, 64);
    assert!(few.contains("where the delay of 18.0 ms passes"), "{few}");
    assert!(few.contains("4 of them serve 200 /s at most"), "{few}");
    // Enough slots for the delay as well, or as few clients.
    assert!(!told(16, 64).contains("delay"), "{}", told(16, 64));
    assert!(!told(4, 4).contains("delay"), "{}", told(4, 4));
}

#[test]
fn a_score_says_right_wrong_or_cannot_tell() {
    let question = Question { clients: vec![16], slots: vec![4], ..Question::default() };
    let prediction = prediction(&question);
    let tolerance = Tolerance::default();
    let scored = |truth: Truth| {
        let run = truth.run(16);
        let point = point_for(&prediction, &run, Some(4)).unwrap();
        score(&prediction.scenario, point, &run, tolerance, &quick()).unwrap()
    };
    let right = scored(TRUTH);
    assert_eq!(right.right(), Right::Yes, "{:?}", right.rows);
    assert_eq!(right.accounts.last().unwrap().what, "measured");
    let measured = right.rows.iter().find(|row| row.quantity == Quantity::Response).unwrap();
    near(right.accounts.last().unwrap().response, measured.measured.mean, 1e-9);

    // The server does 30 % less work a second than when it was fitted: the score says so, and the
    // accounts say that the demands explain it.
    let slow = Truth { per_byte: TRUTH.per_byte * 1.3, base: TRUTH.base * 1.3, ..TRUTH };
    let wrong = scored(slow);
    assert_eq!(wrong.right(), Right::No);
    let scaled = wrong.accounts.iter().find(|account| account.what.starts_with("demands")).unwrap();
    assert!(["+29.", "+30."].iter().any(|by| scaled.what.contains(by)), "{}", scaled.what);
    near(scaled.response, wrong.accounts.last().unwrap().response, 0.05);

    let mut noisy = TRUTH.run(16);
    noisy.intervals.truncate(1);
    let point = point_for(&prediction, &noisy, Some(4)).unwrap();
    let unsure = score(&prediction.scenario, point, &noisy, tolerance, &quick()).unwrap();
    assert_eq!(unsure.right(), Right::CannotTell, "one interval tells nothing of its noise");

    assert!(point_for(&prediction, &TRUTH.run(17), None).is_none());
    assert_eq!(prediction.scenario.classes[0].name, names::CLASS);
}
