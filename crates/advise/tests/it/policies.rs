//! Policies in scenario files: every discipline and router becomes what it says at the gate, goes
//! round, and is simulated; what does not fit together is refused.

use std::time::Duration;

use advise::Scenario;
use gate::{
    AtZero, CohortSpec, DisciplineSpec, GateSpec, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow,
    Length, LoadInformation, Queues, RouterSpec, Ties, WeightedOrder, Window,
};

/// Two classes, documents, and two servers with a queue each; `keys` go into the gate.
fn text(keys: &str) -> String {
    format!(
        r#"sekisho = 1
name = "policies"

[[class]]
name = "web"
rate = "2/s"
sizes = {{ documents = [
    {{ name = "small", size = "1kB", weight = 3 }},
    {{ name = "large", size = "9kB", weight = 1 }},
], draw = "random" }}
route = ["farm"]

[[class]]
name = "batch"
rate = "0.5/s"
deadline = "30s"
route = ["farm"]

[[gate]]
name = "farm"
servers = [{{ slots = 1 }}, {{ slots = 2 }}]
queues = "per-server"
{keys}
inside = ["cpu"]

[[station]]
name = "cpu"
kind = "delay"
demand = "200ms"
"#
    )
}

fn read(keys: &str) -> Scenario {
    toml::from_str(&text(keys)).unwrap_or_else(|error| panic!("{keys}: {error}"))
}

fn spec(keys: &str) -> GateSpec {
    let network = read(keys).network().unwrap_or_else(|error| panic!("{keys}: {error}"));
    network.gates[0].spec.clone()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// It means this, and is the same after it was written and read again, and runs.
fn holds(keys: &str) {
    let scenario = read(keys);
    let written = toml::to_string(&scenario).unwrap();
    let again: Scenario = toml::from_str(&written).unwrap();
    assert_eq!(again, scenario, "{written}");
    let network = scenario.network().unwrap();
    let options = sim::Options {
        completions_max: 2_000,
        plan: sim::Plan::Replications(2),
        ..sim::Options::default()
    };
    let outcome = sim::run(&network, &options).unwrap();
    assert!(outcome.gates[0].started.mean > 2.0, "{keys}");
}

#[test]
fn disciplines_have_names_and_parameters() {
    let cohort = CohortSpec { capacity: 10, run_max: 2, cached_max: Some(8), levels: 1 };
    let weights = vec![3, 1];
    for (keys, expected) in [
        (r#""fifo""#, DisciplineSpec::Fifo),
        (r#""lifo""#, DisciplineSpec::Lifo),
        (r#""priority""#, DisciplineSpec::Priority),
        (r#""shortest-job""#, DisciplineSpec::ShortestJob),
        (r#""earliest-deadline""#, DisciplineSpec::EarliestDeadline),
        (
            r#"{ priority-ageing = { interval = "2s" } }"#,
            DisciplineSpec::PriorityAgeing { interval: seconds(2) },
        ),
        (
            r#"{ deficit-round-robin = { quantum = "4kB", weights = { web = 3 } } }"#,
            DisciplineSpec::DeficitRoundRobin { quantum: 4000, weights },
        ),
        (
            "{ cohort = { capacity = 10, run-max = 2, cached-max = 8 } }",
            DisciplineSpec::Cohort(cohort),
        ),
    ] {
        let keys = format!("discipline = {keys}");
        assert_eq!(spec(&keys).discipline, expected);
        holds(&keys);
    }
}

#[test]
fn routers_have_names_and_parameters() {
    let (length, ties) = (Length::InSystem, Ties::Rotate);
    let recent = Window::Recent(seconds(10));
    let ev = |window, at_zero, length, ties| RouterSpec::Ev {
        queue: 1.0,
        utilisation: 2.5,
        length,
        at_zero,
        window,
        ties,
    };
    let by_key = |of, map, down| RouterSpec::ByKey { of, map, down };
    let rows = |key| vec![KeyRow { key, server: 1 }];
    let table = |key, default| KeyMap::Table { rows: rows(key), default };
    for (keys, expected) in [
        (r#""random""#, RouterSpec::Random),
        (r#""round-robin""#, RouterSpec::RoundRobin),
        (r#""shortest-queue""#, RouterSpec::ShortestQueue { length, ties }),
        (r#""join-idle-queue""#, RouterSpec::JoinIdleQueue { ties }),
        (
            r#""lowest-utilisation""#,
            RouterSpec::LowestUtilisation { window: Window::SinceStart, ties },
        ),
        (
            "{ lowest-utilisation = { window = \"10s\" } }\nties = \"random\"",
            RouterSpec::LowestUtilisation { window: recent, ties: Ties::Random },
        ),
        (
            "{ ev = { queue = 1, utilisation = 2.5 } }",
            ev(Window::SinceStart, AtZero::Best, length, ties),
        ),
        (
            "{ ev = { queue = 1, utilisation = 2.5, window = \"10s\", at-zero = { floor = 0.5 } } }\n\
             length = \"waiting\"\nties = \"lowest\"",
            ev(recent, AtZero::Floor(0.5), Length::Waiting, Ties::Lowest),
        ),
        ("{ power-of-d = { d = 2 } }", RouterSpec::PowerOfD { d: 2, length, ties }),
        (r#""least-work""#, RouterSpec::LeastWork { speed: None, ties }),
        (
            r#"{ least-work = { per-byte = "1us/B" } }"#,
            RouterSpec::LeastWork { speed: Some(1_000_000), ties },
        ),
        (
            "{ weighted = { weights = [1, 2] } }",
            RouterSpec::Weighted { weights: vec![1, 2], order: WeightedOrder::Rotate },
        ),
        (r#""by-key""#, by_key(KeyOf::Key, KeyMap::Hash, KeyDown::Next)),
        (
            "{ by-key = { bounds = [1], down = \"wait\" } }",
            by_key(KeyOf::Key, KeyMap::Range { bounds: vec![1] }, KeyDown::Wait),
        ),
        (
            "{ by-key = { of = \"class\", table = { batch = 1 }, default = { server = 0 } } }",
            by_key(KeyOf::Class, table(1, KeyDefault::Server(0)), KeyDown::Next),
        ),
        (
            "{ by-key = { table = { 0 = 1 } } }",
            by_key(KeyOf::Key, table(0, KeyDefault::Hash), KeyDown::Next),
        ),
    ] {
        let keys = format!("router = {keys}");
        assert_eq!(spec(&keys).router, expected, "{keys}");
        holds(&keys);
    }
}

#[test]
fn a_router_may_see_its_servers_late() {
    let keys = "router = \"shortest-queue\"\nload-information = ";
    let load_information =
        |load_information: &str| spec(&format!("{keys}{load_information}")).load_information;
    assert_eq!(load_information("{ delay = \"10s\" }"), LoadInformation::Delayed(seconds(10)));
    assert_eq!(load_information("{ refresh = \"10s\" }"), LoadInformation::Refreshed(seconds(10)));
    holds(&format!("{keys}{{ delay = \"10s\" }}"));
    assert_eq!(spec("").queues, Queues::PerServer);
}

#[test]
fn policies_that_cannot_work_are_refused() {
    for (keys, expected) in [
        ("router = \"ev\"", "missing field `queue`"),
        ("router = \"power-of-2\"", "unknown variant `power-of-2`"),
        ("router = { power-of-d = { n = 2 } }", "unknown field `n`"),
        ("router = { power-of-d = { d = 0 } }", "d of at least 1"),
        // What stood behind the first name was once read over.
        ("router = { power-of-d = { d = 2 }, random = 1 }", "`random` stands beside the name"),
        ("router = { weighted = { weights = [1] } }", "has 1 numbers for 2 servers"),
        ("router = { weighted = { weights = [1, 0] } }", "a weight of 1 to 1000000"),
        ("router = { ev = { queue = 0, utilisation = 0 } }", "one of them above it"),
        ("router = { by-key = { bounds = [1, 2] } }", "one fewer than servers"),
        ("router = { by-key = { table = { 1 = 7 } } }", "only servers that exist"),
        ("router = { by-key = { table = { web = 0 } } }", "add `of = \"class\"`"),
        (
            "router = { by-key = { of = \"class\", table = { wep = 0 } } }",
            "gate `farm`: no class is called `wep`; did you mean `web`?",
        ),
        ("ties = \"lowest\"", "`ties` is of routers that compare servers"),
        ("router = \"least-work\"\nlength = \"waiting\"", "`length` is of routers that"),
        (
            "load-information = { delay = \"1s\" }",
            "`load-information` is of routers that look at servers",
        ),
        (
            "router = \"shortest-queue\"\nload-information = \"reported\"",
            "in a model nobody reports",
        ),
        ("discipline = \"priority-ageing\"", "missing field `interval`"),
        ("discipline = { priority-ageing = { interval = \"0s\" } }", "must be above 0"),
        ("discipline = { cohort = { capacity = 0, run-max = 1 } }", "a capacity, a longest run"),
        (
            "discipline = { deficit-round-robin = { quantum = \"1kB\", weights = { x = 1 } } }",
            "no class is called `x`",
        ),
    ] {
        let found = match toml::from_str::<Scenario>(&text(keys)) {
            Err(error) => error.to_string(),
            Ok(scenario) => scenario.network().expect_err(keys).to_string(),
        };
        assert!(found.contains(expected), "{keys}: {found}");
    }
    let unsized_jobs = |keys: &str| {
        let mut scenario = read(keys);
        scenario.classes[0].sizes = None;
        scenario.network().unwrap_err().to_string()
    };
    assert!(unsized_jobs("discipline = \"shortest-job\"").contains("no class has `sizes`"));
    assert!(unsized_jobs("router = \"by-key\"").contains("no class has documents"));
    let shared = text("router = \"by-key\"").replace("per-server", "shared");
    let error = toml::from_str::<Scenario>(&shared).unwrap().network().unwrap_err().to_string();
    assert!(error.contains("add `queues = \"per-server\"`"), "{error}");
}

/// No formula answers for an order that looks at sizes, keys or deadlines, nor for a deadline.
#[test]
fn formulas_refuse_what_they_do_not_know() {
    let one = |keys: &str, deadline: &str| {
        let text = format!(
            r#"sekisho = 1
name = "one"
[[class]]
name = "web"
rate = "2/s"
sizes = "webstone"
route = ["pool"]
{deadline}
[[gate]]
name = "pool"
slots = 1
discipline = {keys}
inside = ["cpu"]
[[station]]
name = "cpu"
kind = "queue"
demand = {{ mean = "200ms", dist = "exponential" }}
"#
        );
        advise::formula(&toml::from_str(&text).unwrap())
    };
    for keys in [
        "\"shortest-job\"",
        "\"earliest-deadline\"",
        "{ deficit-round-robin = { quantum = \"1kB\" } }",
        "{ cohort = { capacity = 1, run-max = 1 } }",
    ] {
        let error = one(keys, "").unwrap_err().to_string();
        assert!(error.contains("no formula knows the discipline of gate `pool`"), "{error}");
    }
    let error = one("\"fifo\"", "deadline = \"1s\"").unwrap_err().to_string();
    assert!(error.contains("turns jobs away"), "{error}");
    assert!(one("\"fifo\"", "").is_ok());
    assert!(one("{ priority-ageing = { interval = \"1s\" } }", "").is_ok());
}
