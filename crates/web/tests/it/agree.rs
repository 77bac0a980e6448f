//! The answers of the page against those of `advise`, and what is refused.

use advise::{Load, Numbers, Question, Scenario, Setting};
use serde_json::{Value, json};

/// A closed load behind a gate; a request is 2 ms and 20 ns a byte of one processor.
const CLOSED: &str = r#"
sekisho = 1
name = "a pool before a processor"

[[class]]
name = "web"
population = 12
sizes = { documents = [
    { name = "small", size = "2kB", weight = 9 },
    { name = "large", size = "1MB", weight = 1 },
] }
route = ["pool"]

[[gate]]
name = "pool"
slots = 4
inside = ["cpu"]

[[station]]
name = "cpu"
kind = "sharing"
demand = { per-byte = "20us/kB", base = "2ms" }
"#;

/// ohmae's farm in small: two servers with a station each.
const FARM: &str = r#"
sekisho = 1
name = "a farm"

[[class]]
name = "web"
rate = "100/s"
route = ["farm"]

[[gate]]
name = "farm"
queues = "per-server"
router = "shortest-queue"
ties = "lowest"
servers = [{ slots = 1, station = "cpu-1" }, { slots = 1, station = "cpu-2" }]
inside = [{ visit = "server", demand = { mean = "15ms", dist = "exponential" } }]

[[station]]
name = "cpu-1"
kind = "queue"

[[station]]
name = "cpu-2"
kind = "queue"
"#;

fn read(text: &str) -> Scenario {
    toml::from_str(text).unwrap()
}

fn ask(request: Value) -> Value {
    serde_json::from_str(&web::answer(&request.to_string())).unwrap()
}

#[track_caller]
fn ok(request: Value) -> Value {
    let mut reply = ask(request);
    assert!(reply["ok"].is_object() || reply["ok"].is_array(), "{reply}");
    reply["ok"].take()
}

#[track_caller]
fn error(request: Value) -> String {
    let reply = ask(request);
    reply["error"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn both_witnesses_say_what_ask_says_of_the_copied_file() {
    let scenario = read(CLOSED);
    let setting = json!({"clients": 9, "slots": {"pool": 3}, "demand": {"cpu": 1.1}});
    let request = |ask: &str, more: Value| {
        let mut request = json!({"ask": ask, "scenario": scenario, "setting": setting, "seed": 7});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let by_formula = ok(request("formula", json!({})));
    let simulated = ok(request("simulate", json!({"completions_max": 1_000_000})));

    // What a user does with the copied file: `sekisho ask FILE --clients 9`.
    let copied = read(by_formula["toml"].as_str().unwrap());
    assert_eq!(copied.seed, Some(7));
    assert_eq!(copied.gates[0].slots, Some(3));
    let question = Question { clients: vec![9], ..Question::default() };
    let points = advise::ask(&copied, &question, &advise::options(7), |_, _| {}).unwrap();
    let numbers = |value: &Value| serde_json::from_value::<Numbers>(value.clone()).unwrap();
    assert_eq!(Some(numbers(&by_formula["formula"])), points[0].formula);
    assert_eq!(numbers(&simulated), points[0].simulation);
    assert_eq!(by_formula["note"], points[0].formula_note);
    assert_eq!(by_formula["load"], json!(Load::Clients(9)));
    assert_eq!(by_formula["beyond"], json!(points[0].beyond));
    assert!(points[0].simulation.response.half_width.is_some(), "it has an interval");
}

#[test]
fn a_small_budget_gives_wider_intervals_and_never_more_than_ask_spends() {
    let simulate = |budget: u64| {
        let numbers = ok(json!({
            "ask": "simulate", "scenario": read(FARM), "setting": {}, "seed": 1,
            "completions_max": budget,
        }));
        let numbers: Numbers = serde_json::from_value(numbers).unwrap();
        numbers.response.half_width.unwrap()
    };
    let whole = advise::options(1).completions_max;
    assert!(simulate(20_000) > 2.0 * simulate(whole), "a fiftieth of the requests");
    assert_eq!(simulate(u64::MAX), simulate(whole));
}

#[test]
fn a_curve_is_the_formula_at_each_load_and_leaves_out_what_it_cannot_say() {
    let curve = ok(json!({
        "ask": "curve", "scenario": read(CLOSED), "setting": {"slots": {"pool": 2}},
        "loads": [1.0, 8.0, 0.0],
    }));
    let points = curve.as_array().unwrap();
    assert_eq!(points.len(), 2, "nobody asks at a load of 0");
    for (point, clients) in points.iter().zip([1, 8]) {
        let at = advise::at(&read(CLOSED), None, Load::Clients(clients), Some(2)).unwrap();
        let answer = advise::formula(&at).unwrap();
        assert_eq!(point["x"], json!(f64::from(clients)));
        assert_eq!(point["throughput"], json!(answer.throughput));
        assert_eq!(point["response"], json!(answer.response));
    }
}

#[test]
fn every_stop_of_every_control_is_a_scenario_that_can_be_run() {
    for text in [CLOSED, FARM] {
        let scenario = read(text);
        let reply = ok(json!({"ask": "controls", "scenario": scenario}));
        assert_eq!(reply["completions_max"], json!(advise::options(0).completions_max));
        for control in reply["controls"].as_array().unwrap() {
            let (kind, stops) = control["stops"].as_object().unwrap().iter().next().unwrap();
            let turns = control["turns"].as_str().unwrap();
            let own = control["own"].as_u64().unwrap() as usize;
            for (at, stop) in stops.as_array().unwrap().iter().enumerate() {
                let whole = kind == "numbers" && !["demand", "rate"].contains(&turns);
                let value = if whole { json!(stop.as_f64().unwrap() as u64) } else { stop.clone() };
                let setting = match control["of"].as_str().unwrap() {
                    "" => json!({ turns: value }),
                    of => json!({ turns: { of: value } }),
                };
                let setting: Setting = serde_json::from_value(setting).unwrap();
                let changed = scenario.set(&setting).unwrap();
                changed.network().unwrap_or_else(|error| panic!("{turns} {stop}: {error}"));
                if at == own {
                    let network = |scenario: &Scenario| format!("{:?}", scenario.network());
                    assert_eq!(network(&changed), network(&scenario), "{turns}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_answered_is_an_error_in_words() {
    let simulate = |scenario: Value, setting: Value| {
        json!({
            "ask": "simulate", "scenario": scenario, "setting": setting, "seed": 1,
            "completions_max": 20_000,
        })
    };
    let farm = || json!(read(FARM));
    let text = error(simulate(farm(), json!({"rate": 300.0})));
    assert!(text.contains("its queue grows without end"), "{text}");
    let text = error(simulate(farm(), json!({"clients": 3})));
    assert!(text.contains("it is an open class"), "{text}");
    let text = error(simulate(farm(), json!({"slots": {"pool": 3}})));
    assert!(text.contains("no gate is called `pool`"), "{text}");
    let text = error(simulate(farm(), json!({"servers": {"farm": 0}})));
    assert!(text.contains("from 1 to"), "{text}");
    let text = error(simulate(farm(), json!({"demand": {"farm": 0.0}})));
    assert!(text.contains("give a factor above 0"), "{text}");
    let text = error(simulate(farm(), json!({"slotz": {}})));
    assert!(text.contains("unknown field `slotz`"), "{text}");
    let mut hollow = farm();
    hollow["class"] = json!([]);
    let text = error(json!({"ask": "controls", "scenario": hollow}));
    assert!(text.contains("nobody asks for anything"), "{text}");
    assert!(error(json!({"ask": "weather"})).contains("unknown variant `weather`"));
    let text: Value = serde_json::from_str(&web::answer("\u{0}")).unwrap();
    assert!(text["error"].as_str().unwrap().contains("cannot be read"), "{text}");
}

#[test]
fn a_formula_that_does_not_fit_says_why_and_leaves_the_field_to_the_simulation() {
    let request = json!({"ask": "formula", "scenario": read(FARM), "setting": {}, "seed": 1});
    let reply = ok(request);
    assert_eq!(reply["formula"], Value::Null);
    assert!(reply["note"].as_str().unwrap().starts_with("no formula: "), "{reply}");
}
