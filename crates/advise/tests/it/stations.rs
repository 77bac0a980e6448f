//! Stations and gates with room, orders and speeds of their own: the formula held against the
//! simulation, and what is refused.
//!
//! Twice the simulation's 95 % interval at ten replications is 4.5 standard errors, which an exact
//! formula exceeds less than once in 500 comparisons; every seed is fixed. What a formula claims to be
//! off comes on top, and 0.2 % for jobs that the ends of a run cut in two.

use advise::questions::slots;
use advise::{Effort, FormulaAnswer, Load, NoFormula, Question, Scenario, formula, formula_with};
use measure::Estimate;
use sim::{Options, Outcome, SizeRange};

use crate::scenario::read;

const ENDS: f64 = 2e-3;
const EXPONENTIAL: &str = "{ mean = \"10ms\", dist = \"exponential\" }";

fn scenario(classes: &str, rest: &str) -> Scenario {
    read(&format!("sekisho = 1\nname = \"t\"\nclass = [{classes}]\n{rest}"))
}

fn one(load: &str, rest: &str) -> Scenario {
    scenario(&format!("{{ name = \"c\", {load} }}"), rest)
}

fn station(rest: &str) -> String {
    format!("station = [{{ name = \"s\", {rest} }}]")
}

fn gate(slots: u32, rest: &str) -> String {
    format!("gate = [{{ name = \"g\", slots = {slots}, inside = [\"s\"]{rest} }}]\n")
}

fn near(what: &str, formula: f64, simulated: &Estimate, claimed: f64) {
    let off = formula / simulated.mean - 1.0;
    let allowed = claimed + ENDS + 2.0 * simulated.relative();
    assert!(allowed < 0.25 + claimed, "{what}: {simulated:?} could hide an error");
    assert!(off.abs() <= allowed, "{what}: {formula}, not {simulated:?}: {off:+.4}");
}

/// Both witnesses, which agree on every class, every quantile and every document that the formula
/// speaks of, as far as it claims.
fn both(scenario: &Scenario, seed: u64) -> (FormulaAnswer, Outcome) {
    let answer = formula(scenario).unwrap_or_else(|none| panic!("{none}"));
    let options = Options { seed, precision: 0.01, completions_max: 400_000, ..Options::default() };
    let outcome = sim::run(&scenario.network().unwrap(), &options).unwrap();
    let claimed = answer.trust.error.unwrap_or(0.0);
    for (class, simulated) in answer.classes.iter().zip(&outcome.classes) {
        near(&class.name, class.throughput, &simulated.throughput, claimed);
        near(&class.name, class.response, &simulated.response.unwrap(), claimed);
    }
    let simulated = &outcome.classes[0];
    if let Some(quantiles) = &answer.quantiles {
        for (q, value) in &quantiles.list {
            let (_, seen) = simulated.quantiles.iter().find(|(of, _)| of == q).unwrap();
            // Histograms of the simulation keep two digits: half a percent.
            near(&format!("p{q}"), *value, seen, quantiles.trust.error.unwrap_or(0.0) + 5e-3);
        }
    }
    for size in &simulated.sizes {
        if let SizeRange::Document { index, name, .. } = &size.range {
            let given = answer.given_size.as_ref().unwrap().trust.error.unwrap_or(0.0);
            near(name, answer.documents[*index].response, &size.response.unwrap(), given);
        }
    }
    for (name, busy) in &answer.utilisation {
        let stations = outcome.stations.iter().filter(|station| station.name == *name);
        let mut stations = stations.filter_map(|station| station.utilisation);
        let gates = outcome.gates.iter().filter(|gate| gate.name == *name);
        let mut gates = gates.map(|gate| (gate.busy, f64::from(gate.slots)));
        let (seen, slots) = stations.next().map(|busy| (busy, 1.0)).or(gates.next()).unwrap();
        near(name, *busy * slots, &seen, claimed);
    }
    if let (Some(wait), [gate]) = (answer.wait, &*outcome.gates) {
        let seen = gate.wait.unwrap();
        let allowed = (claimed + ENDS) * answer.response + 2.0 * seen.half_width;
        assert!((wait - seen.mean).abs() <= allowed, "wait: {wait}, not {seen:?}");
    }
    (answer, outcome)
}

fn refused(scenario: &Scenario) -> String {
    match formula(scenario) {
        Err(NoFormula::Shape { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn limited_sharing_of_variable_demand_is_a_chain() {
    let load = "rate = \"60/s\", route = [\"g\"]";
    let cpu = |demand: &str| station(&format!("kind = \"sharing\", demand = {demand}"));
    let of = |slots: u32, demand: &str| one(load, &format!("{}{}", gate(slots, ""), cpu(demand)));
    let (answer, _) = both(&of(4, "{ mean = \"10ms\", scv = 4 }"), 1);
    assert!(answer.trust.exact && answer.source == "a chain of exponential phases", "{answer:?}");
    let quantiles = answer.quantiles.unwrap();
    assert_eq!(quantiles.list.len(), 4);
    assert_eq!(quantiles.trust.error, Some(0.001));
    let (answer, _) = both(&of(3, "{ mean = \"10ms\", dist = \"lognormal\", scv = 4 }"), 2);
    assert!(answer.trust.error == Some(0.03) && answer.quantiles.is_none(), "{answer:?}");
    let (answer, _) = both(&of(3, "{ mean = \"10ms\", scv = 0.5 }"), 3);
    assert!(answer.trust.exact && answer.quantiles.is_some(), "Erlang's stages: {answer:?}");
    let (answer, _) = both(&of(3, "\"10ms\""), 17);
    assert_eq!(answer.trust.error, Some(0.03));
    // Last in first out changes no mean, but every quantile.
    let lifo = gate(4, ", discipline = \"lifo\"");
    let lifo = one(load, &format!("{lifo}{}", cpu("{ mean = \"10ms\", scv = 4 }")));
    assert!(formula(&lifo).unwrap().quantiles.is_none());
}

#[test]
fn documents_of_limited_sharing_have_each_their_own_mean() {
    let load = "rate = \"28/s\", route = [\"g\"], sizes = { documents = [{ name = \"small\", size = \
                \"1kB\", weight = 100 }, { name = \"middle\", size = \"20kB\", weight = 20 }, { name = \
                \"large\", size = \"100kB\", weight = 5 }], draw = \"random\" }";
    let cpu = "kind = \"sharing\", demand = { per-byte = \"2ms/kB\", base = \"5ms\" }";
    let scenario = one(load, &format!("{}{}", gate(3, ""), station(cpu)));
    let (answer, _) = both(&scenario, 4);
    let given = answer.given_size.unwrap();
    assert_eq!(given.curve.len(), 3);
    for document in &answer.documents {
        assert!((given.response(document.bytes as f64) / document.response - 1.0).abs() < 1e-12);
    }
    let (low, high) = (given.response(20e3), given.response(100e3));
    let middle = given.response(60e3);
    assert!((middle / ((low + high) / 2.0) - 1.0).abs() < 1e-12, "straight between documents");
    assert!(given.response(1e6) > high && given.response(10.0) < given.response(1e3));
}

#[test]
fn beyond_what_is_paid_for_fujita_answers_and_says_so() {
    let demand = "kind = \"sharing\", demand = { mean = \"10ms\", dist = \"lognormal\", scv = 4 }";
    let of = |slots: u32| {
        one("rate = \"75/s\", route = [\"g\"]", &format!("{}{}", gate(slots, ""), station(demand)))
    };
    let answer = formula(&of(65)).unwrap();
    assert_eq!(answer.source, "fujita, eq. 1 and 2");
    assert_eq!(answer.remarks, ["its chain is solved for 64 slots at the most with such a demand"]);
    let quick = formula_with(&of(9), Effort::Quick).unwrap();
    assert_eq!((quick.source, quick.trust.error), ("fujita, eq. 1 and 2", Some(0.10)));
    let both = [Effort::Full, Effort::Quick].map(|effort| formula_with(&of(4), effort).unwrap());
    assert_eq!(both[0], both[1]);
    assert_eq!(both[0].source, "a chain of exponential phases");
}

#[test]
fn a_speed_curve_behind_a_gate_and_without_one() {
    let cpu = "kind = \"sharing\", speed-curve = [1.0, 1.6, 1.9, 1.5], demand = ";
    let exponential = station(&format!("{cpu}{EXPONENTIAL}"));
    let gated = format!("{}{exponential}", gate(4, ""));
    let (answer, _) = both(&one("rate = \"110/s\", route = [\"g\"]", &gated), 5);
    assert!(answer.trust.exact && answer.quantiles.is_some(), "{answer:?}");
    let (answer, _) = both(&one("rate = \"110/s\", route = [\"s\"]", &exponential), 6);
    assert_eq!((&*answer.name, answer.trust.exact), ("network with a speed curve", true));
    both(&one("population = 6, think = \"20ms\", route = [\"s\"]", &exponential), 7);
    let reason = refused(&one("population = 9, route = [\"g\"]", &gated));
    assert!(reason.contains("the speed of `s` depends on how many it serves"), "{reason}");
    let lognormal = "{ mean = \"10ms\", dist = \"lognormal\", scv = 4 }";
    let many = format!("{}{}", gate(65, ""), station(&format!("{cpu}{lognormal}")));
    let reason = refused(&one("rate = \"50/s\", route = [\"g\"]", &many));
    assert!(reason.contains("solved for 64 slots at the most"), "{reason}");
    let hot = formula(&one("rate = \"160/s\", route = [\"g\"]", &gated)).unwrap_err().to_string();
    assert!(hot.starts_with("station `s`: utilisation rho = 1.067"), "{hot}");
}

/// Share of the attempts that the simulation lost or turned away.
fn turned_away(outcome: &Outcome) -> f64 {
    let class = &outcome.classes[0];
    let lost = class.refused.mean + class.lost.mean;
    lost / (lost + class.throughput.mean)
}

#[test]
fn room_is_an_exact_queue_of_so_many() {
    let queue = "kind = \"queue\", servers = 2, room = 5, demand = ";
    let load = "rate = \"220/s\", route = [\"s\"]";
    let (answer, outcome) = both(&one(load, &station(&format!("{queue}{EXPONENTIAL}"))), 8);
    assert_eq!((&*answer.name, answer.refused), ("M/M/2/5", None));
    assert!((answer.lost.unwrap() / turned_away(&outcome) - 1.0).abs() < 0.03, "{answer:?}");
    let shared = "kind = \"sharing\", servers = 2, room = 5, demand = ";
    let (answer, _) = both(&one(load, &station(&format!("{shared}{EXPONENTIAL}"))), 9);
    assert_eq!(answer.name, "M/M/2/5");
    // A gate with room for three that wait: before servers, and before one processor.
    for (seed, slots, kind, name) in [
        (10, 2, "kind = \"queue\", servers = 2", "M/M/2/5"),
        (11, 2, "kind = \"delay\"", "M/M/2/5"),
        (12, 4, "kind = \"sharing\"", "M/M/1/7"),
    ] {
        let stations = station(&format!("{kind}, demand = {EXPONENTIAL}"));
        let rest = format!("{}{stations}", gate(slots, ", room = 3"));
        let (answer, outcome) = both(&one("rate = \"120/s\", route = [\"g\"]", &rest), seed);
        assert_eq!((&*answer.name, answer.lost), (name, None));
        let refused = answer.refused.unwrap();
        assert!((refused / turned_away(&outcome) - 1.0).abs() < 0.05, "{refused} {kind}");
    }
    let reason = refused(&one(load, &station("kind = \"queue\", room = 5, demand = \"1ms\"")));
    assert!(reason.starts_with("station `s` has room for so many jobs, which"), "{reason}");
    let blocking = "kind = \"queue\", full = \"block\", room = 5, demand = \"1ms\"";
    let reason = refused(&one(load, &station(blocking)));
    assert!(reason.contains("no formula knows blocking"), "{reason}");
    // As much room as clients is none.
    let roomy = "kind = \"queue\", room = 5, demand = ";
    let closed = one("population = 5, route = [\"s\"]", &station(&format!("{roomy}{EXPONENTIAL}")));
    assert_eq!(formula(&closed).unwrap().name, "closed network of product form");
}

#[test]
fn priorities_at_one_server_are_exact_for_any_demand() {
    let class = |name: &str, rate: u32, priority: u8, demand: &str| {
        format!(
            "{{ name = \"{name}\", rate = \"{rate}/s\", priority = {priority}, route = [\"d\", {{ visit \
             = \"s\", demand = {demand} }}] }}"
        )
    };
    let stations = |order: &str| {
        format!(
            "station = [{{ name = \"s\", kind = \"queue\", order = \"{order}\", demand = \"1ms\" }}, {{ \
             name = \"d\", kind = \"delay\", demand = \"5ms\" }}]"
        )
    };
    let classes = [
        class("first", 20, 2, "{ mean = \"10ms\", scv = 3 }"),
        class("also", 10, 2, "\"4ms\""),
        class("last", 30, 0, EXPONENTIAL),
    ]
    .join(", ");
    for (seed, order, name) in [
        (13, "priority", "M/G/1 with priorities"),
        (14, "preemptive", "M/G/1 with preemptive priorities"),
    ] {
        let (answer, _) = both(&scenario(&classes, &stations(order)), seed);
        assert_eq!((&*answer.name, answer.trust.exact), (name, true));
        assert!(answer.classes[0].response < answer.classes[2].response);
    }
    let alike = classes.replace("priority = 0", "priority = 2");
    let hot = scenario(&alike.replace("30/s", "90/s"), &stations("priority"));
    let first = scenario(&classes.replace("30/s", "90/s"), &stations("priority"));
    let hot = formula(&hot).unwrap_err().to_string();
    assert!(!hot.contains("order") && !hot.contains("bound"), "alike classes need none: {hot}");
    let hot = formula(&first).unwrap_err().to_string();
    assert!(hot.starts_with("station `s`: utilisation rho = 1.14"), "{hot}");
}

/// Of drawn sizes and of documents.
#[test]
fn the_shortest_remaining_first_by_size_says_where_it_is_exact() {
    let order = "kind = \"queue\", order = \"shortest-remaining\"";
    for (seed, sizes) in [
        (47, "lognormal-mu = 8.5, lognormal-sigma = 1.1"),
        (
            48,
            "documents = [{ name = \"a\", size = \"2kB\", weight = 3 }, { name = \"b\", size = \
              \"30kB\", weight = 1 }], draw = \"random\"",
        ),
    ] {
        let load = format!("rate = \"60/s\", sizes = {{ {sizes} }}, route = [\"s\"]");
        let demand = "demand = { per-byte = \"1us/B\", base = \"1ms\" }";
        let (answer, _) = both(&one(&load, &station(&format!("{order}, {demand}"))), seed);
        let given = answer.given_size.expect("it has sizes");
        assert!(given.response(1e3) < given.response(3e4), "{given:?}");
        // The story: 801 values stood for the drawn sizes, and straight lines for what is between them; it
        // was exact all the same.
        let is_listed = sizes.starts_with("documents");
        assert_eq!((answer.trust.exact, given.trust.exact), (is_listed, is_listed), "{given:?}");
        let errors = answer.trust.error.zip(given.trust.error);
        let says = errors.is_none_or(|(mean, size)| mean == 1e-4 && (0.05..0.15).contains(&size));
        assert!(says, "{errors:?}");
    }
}

/// Schrage and Miller's formula and the simulator, which knows none: of every kind of demand, of several
/// classes.
#[test]
fn the_shortest_remaining_first_is_exact_for_any_demand() {
    let order = "kind = \"queue\", order = \"shortest-remaining\"";
    let load = "rate = \"80/s\", route = [\"s\"]";
    for (seed, demand, most) in [
        (41, EXPONENTIAL, 0.02353),
        (42, "\"10ms\"", 0.0301),
        (43, "{ mean = \"10ms\", dist = \"lognormal\", scv = 3 }", 0.03),
        (44, "{ mean = \"10ms\", scv = 0.25 }", 0.03),
        (45, "{ mean = \"10ms\", scv = 4 }", 0.03),
    ] {
        let (answer, _) = both(&one(load, &station(&format!("{order}, demand = {demand}"))), seed);
        // Integrals over what is continuous are summed.
        let error = (demand != "\"10ms\"").then_some(1e-5);
        assert_eq!(
            (&*answer.name, answer.trust.exact, answer.trust.error),
            ("M/G/1, the shortest remaining first", error.is_none(), error)
        );
        assert!(answer.response <= most, "{demand}: {}", answer.response);
        let queue = answer.queue.expect("it is one queue");
        assert!((queue.jobs - 80.0 * answer.response).abs() < 1e-9, "{queue:?}");
        assert!(
            queue.wait <= answer.response - 0.009_999 && queue.wait_variance.is_none(),
            "{queue:?}"
        );
    }
    let class = |name: &str, priority: u32, demand: &str| {
        format!(
            "{{ name = \"{name}\", rate = \"30/s\", priority = {priority}, route = [\"d\", {{ visit = \
             \"s\", demand = {demand} }}] }}"
        )
    };
    let classes = [
        class("short", 0, "\"4ms\""),
        class("long", 9, EXPONENTIAL),
        class("varied", 3, "{ mean = \"12ms\", scv = 3 }"),
    ];
    let stations = format!(
        "station = [{{ name = \"s\", {order}, demand = \"1ms\" }}, {{ name = \"d\", kind = \"delay\", \
         demand = \"5ms\" }}]"
    );
    let (answer, _) = both(&scenario(&classes.join(", "), &stations), 46);
    assert!(answer.classes[0].response < answer.classes[1].response, "{:?}", answer.classes);

    // Closed, with more servers, or with more beside it, there is no formula.
    let closed = "population = 5, route = [\"s\"]";
    let plain = station(&format!("{order}, demand = {EXPONENTIAL}"));
    let reason = refused(&one(closed, &plain));
    assert!(
        reason.starts_with("station `s` serves the shortest remaining demand first"),
        "{reason}"
    );
    let two = plain.replace("kind = \"queue\"", "kind = \"queue\", servers = 2");
    assert!(refused(&one(load, &two)).contains("for one server"), "{two}");
}

#[test]
fn priorities_in_a_network_are_an_approximation_that_says_how_far() {
    let classes = "{ name = \"a\", priority = 1, population = 3, think = \"30ms\", route = [\"s\", \
                   \"t\"] }, { name = \"b\", rate = \"20/s\", route = [\"s\"] }";
    let stations = format!(
        "station = [{{ name = \"s\", kind = \"queue\", order = \"preemptive\", demand = {EXPONENTIAL} \
         }}, {{ name = \"t\", kind = \"queue\", demand = {EXPONENTIAL} }}]"
    );
    let network = scenario(classes, &stations);
    let (answer, _) = both(&network, 15);
    assert_eq!(answer.trust.error, Some(0.7));
    let sentence = advise::who_answers(0.7).unwrap();
    assert_eq!(sentence, "the formula is off by up to 70 %, so the simulation answers.");
    assert_eq!(advise::who_answers(0.03), None);
    let two = stations.replacen("kind = \"queue\"", "kind = \"queue\", servers = 2", 1);
    let reason = refused(&scenario(classes, &two));
    assert!(reason.contains("station `s` serves by priority, which has a formula for"), "{reason}");
}

#[test]
fn predictions_keep_the_formula_s_quantiles_and_its_error() {
    let cpu = station(&format!("kind = \"sharing\", demand = {EXPONENTIAL}"));
    let delay = cpu.replace("}]", "}, { name = \"d\", kind = \"delay\", demand = \"7ms\" }]");
    let shared = one("rate = \"60/s\", route = [\"d\", \"s\"]", &delay);
    both(&shared, 16);
    let options = Options { completions_max: 20_000, ..advise::options(1) };
    let question = Question { rates: vec![60.0], ..Question::default() };
    let points = advise::ask(&shared, &question, &options, |_, _| {}).unwrap();
    let point = &points[0];
    assert_eq!((point.load, point.formula_error), (Load::Rate(60.0), None));
    let numbers = point.formula.as_ref().unwrap();
    let p99 = formula(&shared).unwrap().quantiles.unwrap().at(0.99).unwrap();
    assert_eq!(numbers.quantile(0.99).unwrap().mean, p99);
    // What was stored before formulas knew any is still read.
    let mut stored = serde_json::to_value(point).unwrap();
    stored["formula"].as_object_mut().unwrap().remove("quantiles");
    let old: advise::Point = serde_json::from_value(stored).unwrap();
    assert!(old.formula.unwrap().quantiles.is_empty());
    // Of two classes the numbers are of the one that is asked about.
    let two = "{ name = \"a\", rate = \"20/s\", route = [\"s\"] }, { name = \"b\", rate = \"9/s\", \
               route = [{ visit = \"s\", demand = \"20ms\" }] }";
    let question = Question { class: Some("b".into()), ..question };
    let point = &advise::ask(&scenario(two, &cpu), &question, &options, |_, _| {});
    let Err(error) = point else { panic!("rho would be 1.4") };
    assert!(error.to_string().contains("60"), "{error}");
    let question = Question { rates: vec![9.0], ..question };
    let points = advise::ask(&scenario(two, &cpu), &question, &options, |_, _| {}).unwrap();
    let numbers = points[0].formula.as_ref().unwrap();
    assert!((numbers.throughput.mean - 9.0).abs() < 1e-12);
    assert!((numbers.response.mean - 20e-3 / (1.0 - 0.38)).abs() < 1e-9, "{numbers:?}");
}

#[test]
fn the_best_slots_have_a_formula_too() {
    let cpu = "kind = \"sharing\", speed-curve = [1.0, 1.7, 2.0, 1.8, 1.5, 1.2], demand = ";
    let of = |demand: &str| {
        let rest = format!("{}{}", gate(6, ""), station(&format!("{cpu}{demand}")));
        one("rate = \"100/s\", route = [\"g\"]", &rest)
    };
    let options = Options { seed: 3, completions_max: 100_000, ..Options::default() };
    let found = slots(&of(EXPONENTIAL), None, &[1, 2, 3, 4, 6], &options).unwrap();
    let best = found.by_formula.clone().unwrap();
    // Exponential demand: where most is served.
    assert_eq!((best.slots, best.peak, best.most), (3, 3, 6));
    assert_eq!(found.best_mean, 3);
    let row = found.rows.iter().find(|row| row.slots == 3).unwrap();
    assert!((best.response / row.formula.unwrap() - 1.0).abs() < 1e-6, "{best:?} {row:?}");
    near("best", best.response, &row.response.unwrap(), 0.0);
    let pool = one(
        "population = 6, route = [\"g\"]",
        &format!(
            "{}{}",
            gate(6, ""),
            station(&format!("kind = \"sharing\", demand = {EXPONENTIAL}"))
        ),
    );
    let found = slots(&pool, None, &[1, 2], &options).unwrap();
    assert!(found.by_formula.is_none(), "a closed load has no such formula");
}

/// Once a quantum of 1 ns ran for hours: each slice is an event.
#[test]
fn a_quantum_that_would_take_hours_is_refused_with_its_events() {
    let text = |rest: &str| {
        format!(
            "sekisho = 1\nname = \"t\"\nclass = [{{ name = \"c\", rate = \"1/s\", route = [\"s\"] \
             }}]\n{}",
            station(rest)
        )
    };
    let refused = |rest: &str| {
        let scenario: Scenario = toml::from_str(&text(rest)).unwrap();
        scenario.network().unwrap_err().to_string()
    };
    let error = refused("kind = \"fair-share\", quantum = \"1ns\", demand = \"20ms\"");
    assert!(error.contains("a quantum of 1ns cuts the mean demand of 20ms"), "{error}");
    assert!(error.contains("2.0e7 slices") && error.contains("2.0e12 for 100 000"), "{error}");
    let good = text("kind = \"fair-share\", quantum = \"2us\", demand = \"20ms\"");
    assert!(toml::from_str::<Scenario>(&good).unwrap().network().is_ok());
    let error = refused(&format!(
        "kind = \"queue\", servers = 4000000000, order = \"priority\", demand = {EXPONENTIAL}"
    ));
    assert!(error.contains("of these there may be 1000000"), "{error}");
}
