//! Scenarios of several classes as networks of product form: exact where they are one, with numbers for
//! each class at each station, and refused or left to other formulas where they are not.

use advise::{FormulaAnswer, NodeAnswer, Scenario, formula, product_form};
use solve::{Load, Network, StationKind};

use crate::scenario::read;

/// Two closed classes and an open one at a pool before two processors, a disk and a delay.
const MIXED: &str = r#"sekisho = 1
name = "mixed"

[[class]]
name = "readers"
population = 6
think = { mean = "5s", dist = "exponential" }
route = ["cpu", { choose = [{ chance = 0.5, route = ["disk"] }, { chance = 0.5 }] }]

[[class]]
name = "writers"
population = 3
think = "2s"
route = ["line", "cpu", { repeat = 0.75, route = ["disk"] }]

[[class]]
name = "reports"
rate = "0.2/s"
route = ["cpu"]

[[station]]
name = "line"
kind = "delay"
demand = "300ms"

[[station]]
name = "cpu"
kind = "sharing"
servers = 2
demands = { readers = "400ms", writers = { mean = "1s", scv = 4 }, reports = "2s" }

[[station]]
name = "disk"
kind = "queue"
demand = { mean = "200ms", dist = "exponential" }
"#;

fn solved(scenario: &Scenario) -> FormulaAnswer {
    formula(scenario).unwrap_or_else(|none| panic!("{none}"))
}

#[track_caller]
fn near(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance * b.abs(), "{a} is not {b} within {tolerance}");
}

/// The same network, put together by hand.
fn by_hand() -> Network {
    let mut network = Network::new();
    let readers = network.add_closed("readers", 6, 5.0).unwrap();
    let writers = network.add_closed("writers", 3, 2.0).unwrap();
    let reports = network.add_open("reports", 0.2).unwrap();
    let line = network.add_station("line", StationKind::Delay).unwrap();
    let cpu = network.add_station("cpu", StationKind::Sharing { servers: 2 }).unwrap();
    let disk = network.add_station("disk", StationKind::Fifo { servers: 1 }).unwrap();
    network.set_visits(line, writers, 1.0, 0.3).unwrap();
    network.set_visits(cpu, readers, 1.0, 0.4).unwrap();
    network.set_visits(cpu, writers, 1.0, 1.0).unwrap();
    network.set_visits(cpu, reports, 1.0, 2.0).unwrap();
    network.set_visits(disk, readers, 0.5, 0.2).unwrap();
    network.set_visits(disk, writers, 4.0, 0.2).unwrap();
    network
}

#[test]
fn classes_of_a_mixed_network_get_exact_numbers_of_their_own() {
    let answer = solved(&read(MIXED));
    assert!(answer.trust.exact, "{}", answer.note());
    let hand = by_hand().solve().unwrap();
    for (class, (found, wanted)) in answer.classes.iter().zip(&hand.classes).enumerate() {
        near(found.throughput, wanted.throughput, 1e-9);
        near(found.response, wanted.response, 1e-9);
        for (station, name) in ["line", "cpu", "disk"].into_iter().enumerate() {
            let of = |row: &&NodeAnswer| {
                row.station == name && row.class.as_deref() == Some(&found.name)
            };
            let wanted = hand.at(station, class);
            let Some(row) = answer.nodes.iter().find(of) else {
                assert_eq!(wanted.jobs, 0.0, "{name}, class {class}");
                continue;
            };
            near(row.jobs.unwrap(), wanted.jobs, 1e-9);
            near(row.response.unwrap(), wanted.response, 1e-9);
            near(row.residence.unwrap(), wanted.residence, 1e-9);
            near(row.throughput, wanted.throughput, 1e-9);
            match (row.utilisation, wanted.utilisation) {
                (Some(found), Some(wanted)) => near(found, wanted, 1e-9),
                (found, wanted) => assert_eq!(found, wanted),
            }
        }
    }
    // All together: the mean over requests, and each station once.
    let jobs: f64 = hand.classes.iter().map(|class| class.jobs).sum();
    near(answer.response, jobs / answer.throughput, 1e-9);
    let names: Vec<&str> = answer.utilisation.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["cpu", "disk"]);
    near(answer.utilisation[0].1, hand.utilisation_of(1).unwrap(), 1e-9);
}

#[test]
fn the_network_of_a_scenario_is_given_away() {
    let network = product_form(&read(MIXED)).unwrap();
    assert_eq!(network.load(0), Load::Closed { customers: 6, think: 5.0 });
    assert_eq!(network.kind(1), &StationKind::Sharing { servers: 2 });
    let (visits, service) = network.visits(2, 1);
    near(visits, 4.0, 1e-12);
    near(service, 0.2, 1e-12);
}

#[test]
fn the_simulation_of_a_mixed_network_agrees() {
    let scenario = read(MIXED);
    let answer = solved(&scenario);
    // Seed 1: the intervals are 1 % at 95 %, and five of them are compared.
    let options = sim::Options { precision: 0.01, ..sim::Options::default() };
    let outcome = sim::run(&scenario.network().unwrap(), &options).unwrap();
    for (found, class) in answer.classes.iter().zip(&outcome.classes) {
        near(found.response, class.response.as_ref().unwrap().mean, 0.03);
        near(found.throughput, class.throughput.mean, 0.03);
    }
}

#[test]
fn a_pool_before_processors_is_a_queue_for_all_classes() {
    let text = MIXED
        .replace("\"400ms\"", "{ mean = \"400ms\", dist = \"exponential\" }")
        .replace("{ mean = \"1s\", scv = 4 }", "{ mean = \"400ms\", dist = \"exponential\" }")
        .replace("reports = \"2s\"", "reports = { mean = \"400ms\", dist = \"exponential\" }")
        .replace("[\"cpu\"", "[\"pool\"")
        .replace("\"line\", \"cpu\"", "\"line\", \"pool\"");
    let gate = |slots: u32| {
        read(&format!("{text}\n[[gate]]\nname = \"pool\"\nslots = {slots}\ninside = [\"cpu\"]\n"))
    };
    // Two slots before two processors wait as two servers do.
    let network = product_form(&gate(2)).unwrap();
    assert_eq!(network.kind(1), &StationKind::Fifo { servers: 2 });
    let answer = solved(&gate(2));
    assert!(answer.trust.exact);
    let row = |name: &str, class: &str| {
        let mut rows = answer.nodes.iter();
        let of = |row: &&NodeAnswer| row.station == name && row.class.as_deref() == Some(class);
        rows.find(of).unwrap_or_else(|| panic!("{name} {class}")).clone()
    };
    // At the gate are those who wait or hold a slot; at the station only those who hold one.
    let (pool, cpu) = (row("pool", "readers"), row("cpu", "readers"));
    near(cpu.response.unwrap(), 0.4, 1e-9);
    assert!(pool.response.unwrap() > 0.4, "{pool:?}");
    near(pool.utilisation.unwrap(), cpu.utilisation.unwrap(), 1e-9);
    // Three slots before two processors: limited sharing, which has no product form.
    let none = product_form(&gate(3)).expect_err("no product form").to_string();
    assert!(none.contains("shared behind a gate of fewer slots than jobs"), "{none}");
}

#[test]
fn what_has_no_product_form_says_why() {
    let cases = [
        (
            "demand = { mean = \"200ms\", dist = \"exponential\" }",
            "demands = { readers = { mean = \"200ms\", dist = \"exponential\" }, writers = { mean = \"1s\", dist = \"exponential\" } }",
            "`disk` serves first in first out, and its classes have different service times",
        ),
        (
            "demand = { mean = \"200ms\", dist = \"exponential\" }",
            "demand = \"200ms\"",
            "`disk` serves first in first out and its demand is not one exponential",
        ),
        ("rate = \"0.2/s\"", "rate = \"0.2/s\"\narrivals = \"fixed\"", "arrivals are not Poisson"),
        ("rate = \"0.2/s\"", "rate = \"2/s\"", ""),
    ];
    for (from, to, wanted) in cases {
        assert!(MIXED.contains(from), "{from}");
        let scenario = read(&MIXED.replacen(from, to, 1));
        if wanted.is_empty() {
            // Product form, and too much load.
            let none = formula(&scenario).expect_err("overloaded").to_string();
            assert!(none.contains("station `cpu`, class `reports`"), "{none}");
            continue;
        }
        let none = product_form(&scenario).expect_err(wanted).to_string();
        assert!(none.contains(wanted), "{none}");
    }
}
