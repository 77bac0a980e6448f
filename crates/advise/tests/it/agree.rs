//! Formula and simulation, which share no code, asked the same scenario.
//!
//! The simulation stops at 1 % half-width of the mean response at 95 % confidence, about two standard
//! errors, so that an exact formula is off by more than 2 % in one case of 10,000; every seed is
//! fixed, so that a failure is a change of the code and not bad luck. Approximate formulas have the
//! tolerance that they claim for such a scenario, plus those 2 %.

use advise::{FormulaAnswer, Scenario, formula};
use sim::{Options, Outcome, SizeRange, Stop};

use crate::scenario::{read, study};

fn one(load: &str, rest: &str) -> Scenario {
    read(&format!("sekisho = 1\nname = \"t\"\nclass = [{{ name = \"c\", {load} }}]\n{rest}"))
}

/// Asks both, and holds them against each other: the mean response within `tolerance`, each document
/// that came 1000 times within `document`.
fn agree(scenario: &Scenario, seed: u64, tolerance: f64, document: f64) {
    let answer = formula(scenario).unwrap_or_else(|none| panic!("{none}"));
    let options =
        Options { seed, precision: 0.01, completions_max: 3_000_000, ..Options::default() };
    let outcome = sim::run(&scenario.network().unwrap(), &options).unwrap();
    assert_eq!(outcome.stop, Stop::Precise, "{}", answer.note());
    let class = &outcome.classes[0];
    let response = class.response.unwrap().mean;
    let near = |what: &str, formula: f64, simulated: f64, tolerance: f64| {
        let off = formula / simulated - 1.0;
        let note = answer.note();
        assert!(off.abs() <= tolerance, "{what}: {formula} and {simulated}: {off:+.4}, {note}");
    };
    near("response", answer.response, response, tolerance);
    near("throughput", answer.throughput, class.throughput.mean, tolerance);
    let bounds = answer.bounds.as_ref().expect("there is one class");
    assert!(bounds.throughput_min <= class.throughput.mean * 1.02);
    assert!(class.throughput.mean <= bounds.throughput_max * 1.02);
    assert!(bounds.response_min <= response * 1.02);
    assert!(bounds.response_max.is_none_or(|most| response <= most * 1.02));
    if let (Some(wait), [gate]) = (answer.wait, &*outcome.gates) {
        // A short wait varies more than the whole response: it is held against that.
        let simulated = gate.wait.unwrap().mean;
        assert!((wait - simulated).abs() <= tolerance * response, "wait: {wait} and {simulated}");
    }
    utilisations(&answer, &outcome, tolerance);
    for size in &class.sizes {
        if let SizeRange::Document { index, name, .. } = &size.range
            && size.completed >= 1_000
        {
            let simulated = size.response.unwrap().mean;
            near(name, answer.documents[*index].response, simulated, document);
        }
    }
}

fn utilisations(answer: &FormulaAnswer, outcome: &Outcome, tolerance: f64) {
    let stations = outcome.stations.iter();
    let stations = stations.filter_map(|s| Some((&s.name, s.utilisation.as_ref()?.mean)));
    let gates = outcome.gates.iter().map(|g| (&g.name, g.busy.mean / f64::from(g.slots)));
    let simulated: Vec<_> = stations.chain(gates).collect();
    assert!(!answer.utilisation.is_empty());
    for (name, busy) in &answer.utilisation {
        let (_, other) = simulated.iter().find(|(of, _)| *of == name).expect("the same names");
        assert!((busy - other).abs() <= tolerance, "busy {name}: {busy} and {other}");
    }
}

fn station(kind: &str, demand: &str) -> String {
    format!("station = [{{ name = \"s\", {kind}, demand = {demand} }}]")
}

const EXPONENTIAL: &str = "{ mean = \"10ms\", dist = \"exponential\" }";

#[test]
fn on_open_queues() {
    let load = "rate = \"70/s\", route = [\"s\"]";
    // M/M/1, M/M/4 and Pollaczek-Khinchine are exact.
    agree(&one(load, &station("kind = \"queue\"", EXPONENTIAL)), 1, 0.02, 0.0);
    agree(&study("ohmae/scan-stations.toml"), 2, 0.02, 0.0);
    for (seed, demand) in [
        (3, "\"10ms\""),
        (4, "{ mean = \"10ms\", scv = 4 }"),
        (5, "{ mean = \"10ms\", scv = 0.25 }"),
    ] {
        agree(&one(load, &station("kind = \"queue\"", demand)), seed, 0.02, 0.0);
    }
}

#[test]
fn on_open_sharing_by_document() {
    let load = "rate = \"30/s\", sizes = \"webstone\", route = [\"s\"]";
    let demand = "{ per-byte = \"485.1us/kB\", base = \"21.55ms\" }";
    // Exact for documents drawn independently; a deck deals them almost so. A document that comes
    // 1000 times varies by a few percent.
    agree(&one(load, &station("kind = \"sharing\"", demand)), 6, 0.03, 0.06);
}

#[test]
fn on_a_gate_before_sharing() {
    let gate = |demand: &str| {
        let gate = "gate = [{ name = \"g\", slots = 4, inside = [\"s\"] }]\n";
        format!("{gate}{}", station("kind = \"sharing\"", demand))
    };
    // Exact for exponential demand.
    agree(&one("rate = \"75/s\", route = [\"g\"]", &gate(EXPONENTIAL)), 7, 0.02, 0.0);
    // fujita's sizes: the mean is within 1.2 % (the paper's sizes, rho 0.8, r = 4).
    agree(&study("fujita/lps-r4.toml"), 8, 0.032, 0.0);
    // The order of those who wait changes no mean.
    let lifo = gate(EXPONENTIAL).replace("slots = 4", "slots = 4, discipline = \"lifo\"");
    agree(&one("rate = \"75/s\", route = [\"g\"]", &lifo), 9, 0.02, 0.0);
}

#[test]
fn on_pools_whose_slots_work_alone() {
    let pool = |kind: &str, slots: u32| {
        let gate = format!("gate = [{{ name = \"g\", slots = {slots}, inside = [\"s\"] }}]\n");
        format!("{gate}{}", station(kind, EXPONENTIAL))
    };
    let open = "rate = \"300/s\", route = [\"g\"]";
    let closed = "population = 12, think = \"20ms\", route = [\"g\"]";
    // M/M/4 in three disguises, and closed; more slots than servers leave it an M/M/4.
    agree(&one(open, &pool("kind = \"delay\"", 4)), 10, 0.02, 0.0);
    agree(&one(open, &pool("kind = \"sharing\", servers = 6", 4)), 11, 0.02, 0.0);
    agree(&one(open, &pool("kind = \"queue\", servers = 4", 9)), 12, 0.02, 0.0);
    agree(&one(closed, &pool("kind = \"delay\"", 4)), 13, 0.02, 0.0);
    agree(&one(closed, &pool("kind = \"queue\", servers = 4", 9)), 14, 0.02, 0.0);
}

/// A way with a loop, a choice, two queues, a sharing station and a delay.
const WAY: &str = r#"
station = [
    { name = "a", kind = "queue", servers = 2, demand = { mean = "10ms", dist = "exponential" } },
    { name = "b", kind = "sharing", demand = { mean = "8ms", scv = 4 } },
    { name = "c", kind = "delay", demand = "5ms" },
    { name = "d", kind = "queue", demand = { mean = "6ms", dist = "exponential" } },
]"#;

#[test]
fn on_networks_of_product_form() {
    let route = "route = [\"a\", { repeat = 0.3, route = [\"b\"] }, { choose = [{ chance = 0.4, route \
                 = [\"c\", \"d\"] }, { chance = 0.1, route = [\"a\"] }] }]";
    // Jackson's theorem and exact mean values: exact.
    agree(&one(&format!("rate = \"60/s\", {route}"), WAY), 15, 0.02, 0.0);
    agree(&one(&format!("population = 9, think = \"30ms\", {route}"), WAY), 16, 0.02, 0.0);
}

#[test]
fn on_closed_gates() {
    let gate = |load: &str, slots: u32, kind: &str, demand: &str| {
        let route = "route = [\"g\"]";
        let gate = format!("gate = [{{ name = \"g\", slots = {slots}, inside = [\"s\"] }}]\n");
        one(&format!("{load}, {route}"), &format!("{gate}{}", station(kind, demand)))
    };
    let think = "think = { mean = \"150ms\", dist = \"exponential\" }";
    let few = format!("population = 16, {think}");
    // Exact: exponential demand, one core and three.
    agree(&gate(&few, 4, "kind = \"sharing\"", EXPONENTIAL), 17, 0.02, 0.0);
    agree(&gate(&few, 6, "kind = \"sharing\", servers = 3", EXPONENTIAL), 18, 0.02, 0.0);
    // Exact for any demand: no think time, and enough slots.
    agree(&study("fujita/webstone-r16.toml"), 19, 0.02, 0.05);
    let documents = "{ per-byte = \"485.1us/kB\", base = \"21.55ms\" }";
    let clients = |n: u32| format!("population = {n}, {think}, sizes = \"webstone\"");
    agree(&gate(&clients(6), 8, "kind = \"sharing\"", documents), 20, 0.02, 0.05);
    // Web documents with fewer slots than clients: within 6 % of the mean, 9 % by document.
    agree(&gate(&clients(16), 8, "kind = \"sharing\"", documents), 21, 0.08, 0.11);
}

#[test]
fn on_a_fair_share_as_far_as_it_is_ideal() {
    // By a small quantum the fair share is near the ideal one in throughput and mean; a worker that
    // did little so far goes first, so that the two part by document. Seen: 1 % in the mean.
    let fair = one(
        "population = 16, think = { mean = \"150ms\", dist = \"exponential\" }, route = [\"g\"]",
        "gate = [{ name = \"g\", slots = 4, inside = [\"s\"] }]\nstation = [{ name = \"s\", kind = \
         \"fair-share\", quantum = \"1ms\", demand = { mean = \"10ms\", dist = \"exponential\" } }]",
    );
    agree(&fair, 22, 0.03, 0.0);
}
