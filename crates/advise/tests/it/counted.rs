//! Scenarios that say a thing once and mean it many times: equal stations and servers, and visits.

use advise::{Scenario, formula};
use sim::Options;

use crate::scenario::read;

fn many(station: &str, server: &str) -> String {
    format!(
        "sekisho = 1\nname = \"t\"\n\
         class = [{{ name = \"c\", rate = \"500/s\", route = [\"pool\"] }}]\n\
         gate = [{{ name = \"pool\", router = \"random\", queues = \"per-server\", \
         inside = [\"server\"], servers = [{server}] }}]\nstation = [{station}]\n"
    )
}

const STATION: &str = "kind = \"queue\", demand = { mean = \"1s\", dist = \"exponential\" }";

#[test]
fn a_thousand_servers_are_three_lines() {
    let counted = many(
        &format!("{{ name = \"cpu\", count = 1000, {STATION} }}"),
        "{ slots = 1, station = \"cpu\", count = 1000 }",
    );
    let stations: Vec<String> =
        (1..=1000).map(|n| format!("{{ name = \"cpu-{n}\", {STATION} }}")).collect();
    let servers: Vec<String> =
        (1..=1000).map(|n| format!("{{ slots = 1, station = \"cpu-{n}\" }}")).collect();
    let spelled = read(&many(&stations.join(", "), &servers.join(", ")));
    assert_eq!(read(&counted), spelled);
    // JSON of it reads back as the same.
    let json = serde_json::to_string(&spelled).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), spelled);
}

#[test]
fn a_count_out_of_range_and_a_key_that_is_unknown_are_named() {
    for (station, wanted) in [
        ("count = 0", "`count` of station `cpu` is 0; it is from 1 to 65536"),
        ("count = 1000000000", "`count` of station `cpu` is 1000000000; it is from 1 to 65536"),
        ("cuont = 3", "unknown field `cuont`"),
    ] {
        let station = format!("{{ name = \"cpu\", {station}, {STATION} }}");
        let text = many(&station, "{ slots = 1, station = \"cpu\" }");
        let error = toml::from_str::<Scenario>(&text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

fn visiting(step: &str) -> Scenario {
    read(&format!(
        "sekisho = 1\nname = \"t\"\n\
         class = [{{ name = \"c\", rate = \"10/s\", route = [{step}] }}]\n\
         station = [{{ name = \"disk\", kind = \"queue\", \
         demand = {{ mean = \"20ms\", dist = \"exponential\" }} }}]\n"
    ))
}

/// 25 visits a second of 20 ms: half busy, 40 ms a visit, 100 ms in all.
#[test]
fn visits_count_for_formula_and_simulation_alike() {
    for step in [
        "{ visit = \"disk\", visits = 2.5 }",
        "{ visits = 2.5, route = [\"disk\"] }",
        "{ visits = 1.25, route = [\"disk\", \"disk\"] }",
        "{ visit = \"disk\", visits = 2.5, demand = { mean = \"20ms\", dist = \"exponential\" } }",
    ] {
        let scenario = visiting(step);
        let answer = formula(&scenario).unwrap();
        assert!((answer.response - 0.1).abs() < 1e-9, "{step}: {}", answer.response);
    }
    let network = visiting("{ visit = \"disk\", visits = 2.5 }").network().unwrap();
    let options = Options { seed: 1, precision: 0.02, ..Options::default() };
    let outcome = sim::run(&network, &options).unwrap();
    let response = outcome.classes[0].response.as_ref().unwrap();
    // Three half-widths of 95 % are six standard errors.
    let off = (response.mean - 0.1).abs();
    assert!(off < 3.0 * response.half_width, "{response:?}");
}

#[test]
fn visits_that_make_no_sense_are_refused() {
    for visits in ["0", "-1.0", "1e9", "nan"] {
        let text = format!("{{ visit = \"disk\", visits = {visits} }}");
        let whole = format!(
            "sekisho = 1\nname = \"t\"\nclass = [{{ name = \"c\", rate = \"1/s\", \
             route = [{text}] }}]\nstation = [{{ name = \"disk\", kind = \"delay\", demand = \
             \"1ms\" }}]\n"
        );
        let scenario: Scenario = toml::from_str(&whole).unwrap();
        let error = scenario.network().unwrap_err().to_string();
        assert!(error.contains("`visits` is above 0 and at most 100000"), "{error}");
    }
}

fn routed(matrix: &str) -> Scenario {
    read(&format!(
        "sekisho = 1\nname = \"t\"\n\
         class = [{{ name = \"c\", rate = \"10/s\", matrix = {{ {matrix} }} }}]\n\
         station = [{{ name = \"cpu\", kind = \"queue\", \
         demand = {{ mean = \"4ms\", dist = \"exponential\" }} }}, \
         {{ name = \"disk\", kind = \"queue\", demand = {{ mean = \"8ms\", dist = \"exponential\" }} }}, \
         {{ name = \"net\", kind = \"delay\", demand = \"10ms\" }}]\n"
    ))
}

/// Visits from v = start + v P, by walking until nobody is left, and Jackson's theorem.
#[test]
fn a_routing_matrix_is_gone_by_formula_and_simulation_alike() {
    let cases = [
        (
            "start = { cpu = 1.0 }, cpu = { disk = 0.6, net = 0.2 }, disk = { cpu = 1.0 }, \
             net = { cpu = 1.0 }",
            [1.0, 0.0, 0.0],
            [[0.0, 0.6, 0.2], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
        ),
        (
            "start = { cpu = 0.5, disk = 0.5 }, cpu = { cpu = 0.1, disk = 0.3, net = 0.3 }, \
             disk = { cpu = 0.2, disk = 0.4, net = 0.1 }, net = { cpu = 0.3, disk = 0.2, net = 0.25 }",
            [0.5, 0.5, 0.0],
            [[0.1, 0.3, 0.3], [0.2, 0.4, 0.1], [0.3, 0.2, 0.25]],
        ),
    ];
    for (matrix, start, p) in cases {
        let (mut visits, mut now) = ([0.0; 3], start);
        for _ in 0..500 {
            (0..3).for_each(|k| visits[k] += now[k]);
            now = [0, 1, 2].map(|to| (0..3).map(|from| now[from] * p[from][to]).sum());
        }
        let queue = |visits: f64, s: f64| visits * s / (1.0 - 10.0 * visits * s);
        let wanted = queue(visits[0], 4e-3) + queue(visits[1], 8e-3) + visits[2] * 10e-3;
        let scenario = routed(matrix);
        let answer = formula(&scenario).unwrap();
        assert!((answer.response / wanted - 1.0).abs() < 1e-9, "{} {wanted}", answer.response);
        let options = Options { seed: 1, precision: 0.02, ..Options::default() };
        let outcome = sim::run(&scenario.network().unwrap(), &options).unwrap();
        let response = outcome.classes[0].response.as_ref().unwrap();
        // Three half-widths of 95 % are six standard errors.
        assert!((response.mean - wanted).abs() < 3.0 * response.half_width, "{response:?}");
    }
}

#[test]
fn a_matrix_that_makes_no_sense_is_refused_by_row() {
    for (matrix, wanted) in [
        ("cpu = { disk = 1.0 }", "it has no row `start`"),
        ("start = { cpu = 0.5 }", "row `start`: the chances do not sum to 1"),
        (
            "start = { cpu = 1.0 }, cpu = { disk = 0.7, net = 0.7 }",
            "row `cpu`: the chances sum to 1.4",
        ),
        ("start = { cpu = 1.0 }, cpu = { cpu = 1.0 }", "a job at `cpu` never leaves"),
        (
            "start = { cpu = 1.0 }, cpu = { disk = 1.0 }, disk = { cpu = 1.0 }",
            "never leaves; give it a chance to go on",
        ),
        ("start = { cpu = 1.0 }, net = { cpu = 1.0 }", "row `net`: no row sends a job there"),
        ("start = { cpq = 1.0 }", "no gate or station is called `cpq`; did you mean `cpu`?"),
    ] {
        let error = routed(matrix).network().unwrap_err().to_string();
        assert!(error.contains(wanted), "{matrix}: {error}");
    }
}
