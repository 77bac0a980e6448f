//! Scenarios whose slots are held through several steps or other gates: the layered model against
//! the simulation, with and without correction.

use advise::{Load, Scenario, corrected, corrected_sweep, formula, short_simulation};
use sim::Options;

use crate::scenario::{read, study};

/// Relative errors of the formula's throughput and response, over all classes.
fn errors(scenario: &Scenario, seed: u64) -> [f64; 2] {
    errors_and_noise(scenario, seed).0
}

/// The same, and the part of each that the simulation's own interval may be.
fn errors_and_noise(scenario: &Scenario, seed: u64) -> ([f64; 2], [f64; 2]) {
    let found = corrected(scenario, &options(seed)).unwrap_or_else(|e| panic!("{e}"));
    let truth = found.value;
    assert!(found.error < 0.04, "{found:?}");
    let each =
        [(found.formula.throughput, truth.throughput), (found.formula.response, truth.response)];
    let off = each.map(|(formula, truth)| formula / truth.mean - 1.0);
    let noise = each.map(|(formula, truth)| {
        formula * truth.half_width.expect("it was simulated") / truth.mean.powi(2)
    });
    (off, noise)
}

fn worst_of(all: &[[f64; 2]]) -> f64 {
    all.iter().flatten().map(|error| error.abs()).fold(0.0, f64::max)
}

fn median_of(all: &[[f64; 2]]) -> f64 {
    let mut each: Vec<f64> = all.iter().map(|[x, r]| x.abs().max(r.abs())).collect();
    each.sort_by(f64::total_cmp);
    each[each.len() / 2]
}

/// Short enough for a test, and good to about 2 %.
fn options(seed: u64) -> Options {
    Options { precision: 0.015, completions_max: 150_000, ..short_simulation(seed) }
}

#[test]
fn ohmaes_tasks_are_as_near_as_is_said() {
    let study = study("ohmae/software-bottleneck.toml");
    let mut all = Vec::new();
    for tasks in 1..=10 {
        let scenario = study.with_slots("tasks", tasks).unwrap();
        all.push(errors(&scenario, 1));
        let answer = formula(&scenario).unwrap();
        assert_eq!(answer.name, "layered model");
        assert_eq!(answer.trust.error, Some(0.35));
        let short = answer.remarks.iter().any(|remark| remark.contains("gate `tasks`"));
        assert_eq!(short, tasks <= 5, "{tasks}: {:?}", answer.remarks);
    }
    let (worst, median) = (worst_of(&all), median_of(&all));
    assert!(worst <= 0.18 && median <= 0.14, "{worst} {median} {all:?}");
}

/// A linear congruential generator (Knuth's MMIX constants), so that a seed is a case for ever.
struct Lcg(u64);

impl Lcg {
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From low to high, both included.
    fn count(&mut self, low: u32, high: u32) -> u32 {
        low + (self.unit() * f64::from(high - low + 1)) as u32
    }

    fn demand(&mut self) -> String {
        let mean = 2.0 + 18.0 * self.unit();
        match self.count(0, 3) {
            0 => format!("\"{mean:.2}ms\""),
            1 => format!("{{ mean = \"{mean:.2}ms\", scv = 3 }}"),
            _ => format!("{{ mean = \"{mean:.2}ms\", dist = \"exponential\" }}"),
        }
    }
}

/// Web workers held through a CPU and connections, which are held through a database's CPU and disk;
/// one or two classes, closed or open.
fn nested(seed: u64) -> (String, Scenario) {
    let mut lcg = Lcg(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    lcg.unit();
    let workers = lcg.count(1, 8);
    let connections = lcg.count(1, workers);
    let kind = ["queue", "sharing"][lcg.count(0, 1) as usize];
    let demands = [lcg.demand(), lcg.demand(), lcg.demand()];
    let closed = format!(
        "population = {}, think = {{ mean = \"{}ms\", dist = \"exponential\" }}",
        lcg.count(1, 20),
        lcg.count(20, 400)
    );
    let load = match lcg.count(0, 3) {
        0 => format!("rate = \"{}/s\"", lcg.count(2, 16)),
        _ => closed,
    };
    let mut classes = format!("{{ name = \"a\", {load}, route = [\"workers\"] }}");
    if lcg.count(0, 2) == 0 {
        classes += &format!(
            ", {{ name = \"b\", population = {}, think = \"200ms\", route = [\"connections\"] }}",
            lcg.count(1, 4)
        );
    }
    let [a, b, c] = demands;
    let text = format!(
        "sekisho = 1\nname = \"nested {seed}\"\nclass = [{classes}]\n\
         gate = [{{ name = \"workers\", slots = {workers}, inside = [\"cpu\", \"connections\"] }}, \
         {{ name = \"connections\", slots = {connections}, inside = [\"base\", \"disk\"] }}]\n\
         station = [{{ name = \"cpu\", kind = \"{kind}\", demand = {a} }}, \
         {{ name = \"base\", kind = \"sharing\", demand = {b} }}, \
         {{ name = \"disk\", kind = \"queue\", demand = {c} }}]\n"
    );
    let scenario = read(&text);
    (text, scenario)
}

#[test]
fn nested_gates_are_as_near_as_is_said() {
    let mut all = Vec::new();
    for seed in 0..40 {
        let (text, scenario) = nested(seed);
        let answer = match formula(&scenario) {
            Ok(answer) => answer,
            Err(none) if none.to_string().contains("out of its range") => continue,
            Err(none) => panic!("{none}\n{text}"),
        };
        let (found, noise) = errors_and_noise(&scenario, seed);
        let claimed = answer.trust.error.unwrap();
        let is_near = |(off, noise): (&f64, &f64)| off.abs() <= claimed + noise;
        assert!(found.iter().zip(&noise).all(is_near), "{found:?} {noise:?} {answer:?}\n{text}");
        all.push(found);
    }
    assert!(all.len() >= 32, "{} of 40 have a formula", all.len());
    let (worst, median) = (worst_of(&all), median_of(&all));
    assert!(worst <= 0.36 && median <= 0.04, "{worst} {median}");
}

#[test]
fn a_sweep_is_within_two_percent_with_a_few_simulated_loads() {
    let study = study("ohmae/software-bottleneck.toml").with_slots("tasks", 3).unwrap();
    let loads: Vec<Load> = (1..=25).map(Load::Clients).collect();
    let sweep = corrected_sweep(&study, &loads, &short_simulation(1)).unwrap();
    let simulated = sweep.iter().filter(|point| point.simulated.is_some()).count();
    assert!((3..=12).contains(&simulated), "{simulated} of 25");
    let (mut all, mut plain) = (Vec::new(), Vec::new());
    let guessed = loads.iter().zip(&sweep).filter(|(_, point)| point.simulated.is_none());
    for (&load, point) in guessed.step_by(3) {
        let scenario = advise::at(&study, None, load, None).unwrap();
        let truth = corrected(&scenario, &short_simulation(77)).unwrap();
        let off = |x: f64, r: f64| {
            [x / truth.value.throughput.mean - 1.0, r / truth.value.response.mean - 1.0]
        };
        let found = off(point.value.throughput.mean, point.value.response.mean);
        // Both have an interval, and 95 % is not always.
        let allowed = 1.5 * (point.error + truth.error);
        assert!(worst_of(&[found]) <= allowed, "{load}: {found:?}, not {allowed}");
        assert!(point.error < 0.03, "{load}: {}", point.error);
        all.push(found);
        plain.push(off(point.formula.throughput, point.formula.response));
    }
    assert!(worst_of(&all) <= 0.02, "{all:?}");
    assert!(worst_of(&plain) > 2.0 * worst_of(&all), "nothing was gained: {plain:?} {all:?}");
}

#[test]
fn at_a_simulated_load_the_corrected_answer_is_the_simulation_and_the_formula_is_left_alone() {
    let (_, scenario) = nested(3);
    let found = corrected(&scenario, &options(5)).unwrap();
    assert_eq!(found.formula, formula(&scenario).unwrap());
    assert_eq!(found.simulated, Some(found.value));
    let half = found.value.response.half_width.unwrap() / found.value.response.mean;
    assert!(found.error >= half && found.error < 0.05, "{found:?}");
    let refusing = read(
        "sekisho = 1\nname = \"t\"\nclass = [{ name = \"c\", rate = \"1/s\", route = [\"g\"] }]\n\
         gate = [{ name = \"g\", slots = 1, room = 1, inside = [\"s\"] }]\n\
         station = [{ name = \"s\", kind = \"queue\", demand = \"1ms\" }]",
    );
    let error = corrected(&refusing, &options(5)).unwrap_err().to_string();
    assert!(error.contains("turns jobs away"), "{error}");
}

#[test]
fn each_class_has_its_own_answer() {
    let (_, scenario) = (0..)
        .map(nested)
        .find(|(_, scenario)| scenario.classes.len() == 2)
        .expect("a third of them has two");
    let answer = formula(&scenario).unwrap();
    let names: Vec<&str> = answer.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let sum: f64 = answer.classes.iter().map(|class| class.throughput).sum();
    assert!((answer.throughput / sum - 1.0).abs() < 1e-12);
}

#[test]
fn several_classes_without_gates_are_a_network_of_several_classes() {
    let text = "sekisho = 1\nname = \"t\"\nclass = [{ name = \"a\", population = 5, think = \"100ms\", route \
                = [\"cpu\", \"disk\"] }, { name = \"b\", rate = \"10/s\", route = [{ visit = \"cpu\", demand = \
                \"30ms\" }] }]\nstation = [{ name = \"cpu\", kind = \"sharing\", demand = \"10ms\" }, { \
                name = \"disk\", kind = \"queue\", demand = { mean = \"20ms\", dist = \"exponential\" } }]";
    let scenario = read(text);
    let answer = formula(&scenario).unwrap();
    assert_eq!((answer.name.as_str(), answer.trust.exact), ("network of several classes", true));
    let outcome = sim::run(&scenario.network().unwrap(), &options(9)).unwrap();
    for (class, simulated) in answer.classes.iter().zip(&outcome.classes) {
        let response = simulated.response.unwrap();
        let allowed = 2.0 * response.relative() + 2e-3;
        assert!((class.response / response.mean - 1.0).abs() < allowed, "{class:?} {response:?}");
    }
    let busy = answer.classes[0].throughput * 10e-3 + 10.0 * 30e-3;
    assert!((answer.utilisation[0].1 / busy - 1.0).abs() < 1e-9, "{answer:?}");
    let hot = read(&text.replace("10/s", "40/s"));
    let none = formula(&hot).unwrap_err().to_string();
    assert!(none.contains("cpu"), "{none}");
    // A queue whose demand is not exponential is left to the layered model.
    let other = formula(&read(&text.replace(", dist = \"exponential\"", ", scv = 2"))).unwrap();
    assert_eq!(other.name, "layered model");
}
