//! Scenarios: what can be written, what it becomes, and what is refused with which words.

use advise::Scenario;
use gate::{DisciplineSpec, GateSpec, Length, Queues, RouterSpec, ServerSpec, Ties};
use sim::{
    Class, Client, Demand, GateNode, Load, Network, Options, Sizes, Station, StationKind, Step,
};
use std::time::Duration;
use workload::{Arrivals, Dist, Document, DocumentSet, Draw};

pub(crate) fn read(text: &str) -> Scenario {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Every feature of the format in one file.
pub(crate) const ALL: &str = r#"
sekisho = 1
name = "all of it"
seed = 7

[[class]]
name = "web"
population = 40
think = { mean = "2s", dist = "exponential" }
sizes = "webstone"
priority = 3
route = ["pool", { repeat = 0.25, route = ["disk"] }]

[[class]]
name = "batch"
rate = "2/s"
arrivals = "fixed"
sizes = { lognormal-mu = 7.811, lognormal-sigma = 1.573 }
route = [
    { choose = [
        { chance = 0.3, route = ["pool"] },
        { chance = 0.2, route = [{ visit = "disk", demand = { mean = "4ms", scv = 0.25 } }] },
        { chance = 0.5 },
    ] },
    "net",
]

[[class]]
name = "api"
rate = "90/min"
sizes = { documents = [
    { name = "small", size = "2kB", weight = 3 },
    { name = "large", size = "1MiB", weight = 1 },
], draw = "random" }
route = ["farm"]

[[gate]]
name = "pool"
slots = 8
discipline = "priority"
room = 100
wait-max = "5s"
unreachable = "2s"
inside = ["cpu", "disk"]

[[gate]]
name = "farm"
servers = [{ slots = 2, station = "one" }, { slots = 3, station = "two" }]
router = "shortest-queue"
length = "waiting"
ties = "lowest"
queues = "per-server"
inside = ["server", { visit = "server", demand = "3ms" }]

[[station]]
name = "cpu"
kind = "fair-share"
quantum = "4ms"
demand = { per-byte = "0.4851us/kB", base = "1ms" }
demands = { batch = { mean = "10ms", dist = "lognormal", scv = 2 } }

[[station]]
name = "disk"
kind = "queue"
servers = 2
demand = { mean = "5ms", dist = "hyperexponential", scv = 4 }

[[station]]
name = "net"
kind = "delay"
demand = { mean = "20ms", dist = "erlang", scv = 0.2 }

[[station]]
name = "one"
kind = "sharing"
servers = 2
demand = { per-byte = "1ns/B", base = "0s" }

[[station]]
name = "two"
kind = "queue"
demand = { per-byte = "1ns/B", base = "0s" }

[calibration]
date = "2026-05-01T12:00:00Z"
runs = ["a.jsonl"]
clients = [1, 32]
throughput-max = "120/s"
unidentified = ["slots: no run had a queue"]

[calibration.parameters.base]
value = 0.001
interval = [0.0009, 0.0011]
confidence = 0.95
unit = "s"
"#;

/// The same, made by hand.
fn all_by_hand() -> Network {
    let lognormal = Dist::lognormal_from_mean_scv(0.01, 2.0).expect("both are above 0");
    let by_size = |per_byte_s, base_s| Demand::OfSize { per_byte_s, base_s };
    let disk = || Demand::Drawn(Dist::Hyperexponential { mean: 0.005, scv: 4.0 });
    let hold = |cpu| Step::Hold {
        gate: 0,
        inside: vec![
            Step::Visit { station: 0, demand: cpu },
            Step::Visit { station: 1, demand: disk() },
        ],
    };
    let document = |name: &str, bytes, weight| Document { name: name.into(), bytes, weight };
    let documents = vec![document("small", 2_000, 3), document("large", 1_048_576, 1)];
    let own = Demand::Drawn(Dist::Erlang { mean: 0.004, stages: 4 });
    let net = Demand::Drawn(Dist::Erlang { mean: 0.02, stages: 5 });
    let constant = Demand::Drawn(Dist::Constant(0.003));
    let web = Class {
        name: "web".into(),
        load: Load::Closed { population: 40, think: Dist::Exponential { mean: 2.0 } },
        sizes: Sizes::Documents(DocumentSet::webstone(), Draw::Deck),
        deadline: None,
        priority: 3,
        route: vec![
            hold(by_size(0.4851e-9, 0.001)),
            Step::Repeat { again: 0.25, steps: vec![Step::Visit { station: 1, demand: disk() }] },
        ],
        client: Client::default(),
    };
    let batch = Class {
        sizes: Sizes::Drawn(Dist::Lognormal { mu: 7.811, sigma: 1.573 }),
        ..Class::new(
            "batch",
            Load::Open(Arrivals::Fixed { rate: 2.0 }),
            vec![
                Step::Choose(vec![
                    (0.3, vec![hold(Demand::Drawn(lognormal))]),
                    (0.2, vec![Step::Visit { station: 1, demand: own }]),
                    (0.5, Vec::new()),
                ]),
                Step::Visit { station: 2, demand: net },
            ],
        )
    };
    let inside = vec![
        Step::VisitServer { demand: by_size(1e-9, 0.0) },
        Step::VisitServer { demand: constant },
    ];
    let api = Class {
        sizes: Sizes::Documents(DocumentSet::new(documents).expect("two names"), Draw::Random),
        ..Class::new(
            "api",
            Load::Open(Arrivals::Poisson { rate: 1.5 }),
            vec![Step::Hold { gate: 1, inside }],
        )
    };
    Network {
        classes: vec![web, batch, api],
        gates: gates_by_hand(),
        stations: stations_by_hand(),
        ..Network::default()
    }
}

fn gates_by_hand() -> Vec<GateNode> {
    let pool = GateSpec {
        discipline: DisciplineSpec::Priority,
        room: Some(100),
        wait_max: Some(Duration::from_secs(5)),
        unreachable_max: Some(Duration::from_secs(2)),
        ..GateSpec::fifo(8)
    };
    let farm = GateSpec {
        servers: vec![ServerSpec { slots: 2 }, ServerSpec { slots: 3 }],
        queues: Queues::PerServer,
        router: RouterSpec::ShortestQueue { length: Length::Waiting, ties: Ties::Lowest },
        ..GateSpec::fifo(1)
    };
    vec![
        GateNode::new("pool", pool),
        GateNode { stations: vec![3, 4], ..GateNode::new("farm", farm) },
    ]
}

fn stations_by_hand() -> Vec<Station> {
    vec![
        Station::new("cpu", StationKind::FairShare { quantum_s: 0.004, tick_s: 0.0 }),
        Station::new("disk", StationKind::Queue { servers: 2 }),
        Station::new("net", StationKind::Delay),
        Station::new("one", StationKind::Sharing { processors: 2 }),
        Station::new("two", StationKind::Queue { servers: 1 }),
    ]
}

#[test]
fn every_feature_becomes_the_network_that_one_would_build_by_hand() {
    let network = read(ALL).network().unwrap();
    assert_eq!(format!("{network:#?}"), format!("{:#?}", all_by_hand()));
}

#[test]
fn a_scenario_and_the_network_built_by_hand_have_the_same_outcome() {
    let options = Options {
        seed: 11,
        plan: sim::Plan::Replications(2),
        precision: 1.0,
        completions_max: 4_000,
        ..Options::default()
    };
    let of_file = sim::run(&read(ALL).network().unwrap(), &options).unwrap();
    let by_hand = sim::run(&all_by_hand(), &options).unwrap();
    assert_eq!(format!("{of_file:?}"), format!("{by_hand:?}"));
    assert!(of_file.classes.iter().all(|class| class.throughput.mean > 0.0), "{of_file:?}");
}

#[test]
fn a_scenario_is_written_and_read_back_the_same() {
    let scenario = read(ALL);
    let text = toml::to_string(&scenario).unwrap();
    assert_eq!(read(&text), scenario, "{text}");
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario, "{json}");
}

#[test]
fn the_scenarios_of_the_studies_can_be_run() {
    for path in [
        "fujita/lps-r4.toml",
        "fujita/webstone-r16.toml",
        "ohmae/software-bottleneck.toml",
        "ohmae/scan-stations.toml",
    ] {
        study(path).network().unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// ohmae, table 3.1, which is one short run of each: within 10 %, as the digest of the paper found.
#[test]
fn ohmaes_tasks_come_out_as_printed() {
    let study = study("ohmae/software-bottleneck.toml");
    let options =
        Options { seed: 6, precision: 0.02, completions_max: 200_000, ..Options::default() };
    for (tasks, response, throughput) in [(2, 17.9, 0.36), (4, 9.35, 0.52), (6, 8.30, 0.54)] {
        let network = study.with_slots("tasks", tasks).unwrap().network().unwrap();
        let class = &sim::run(&network, &options).unwrap().classes[0];
        let simulated = class.response.unwrap().mean;
        assert!((simulated / response - 1.0).abs() < 0.10, "{tasks} tasks: R = {simulated} s");
        let simulated = class.throughput.mean;
        assert!((simulated / throughput - 1.0).abs() < 0.10, "{tasks} tasks: X = {simulated} /s");
    }
}

pub(crate) fn study(path: &str) -> Scenario {
    let path = format!("{}/../../studies/{path}", env!("CARGO_MANIFEST_DIR"));
    read(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

/// The whole message for a scenario with a part replaced.
fn refused(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "`{from}` stands once in the scenario");
    let changed = text.replace(from, to);
    match read(&changed).network() {
        Ok(network) => panic!("{from} -> {to} became {network:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_that_lead_nowhere_are_refused() {
    for (from, to, message) in [
        (
            "route = [\"farm\"]",
            "route = [\"fram\"]",
            "class `api`, route step 1: no gate or station is called `fram`; did you mean `farm`?",
        ),
        (
            "route = [\"farm\"]",
            "route = [\"database\"]",
            "class `api`, route step 1: no gate or station is called `database`; there is `cpu`, \
             `disk`, `farm`, `net`, `one`, `pool`, `two`",
        ),
        (
            "inside = [\"cpu\", \"disk\"]",
            "inside = [\"cpu\", \"disc\"]",
            "gate `pool`, inside step 2: no gate or station is called `disc`; did you mean `disk`?",
        ),
        (
            "{ chance = 0.3, route = [\"pool\"] }",
            "{ chance = 0.3, route = [\"poll\"] }",
            "class `batch`, route step 1, way 1 step 1: no gate or station is called `poll`; did you \
             mean `pool`?",
        ),
        (
            "route = [\"disk\"]",
            "route = [\"dis\"]",
            "class `web`, route step 2, repeat step 1: no gate or station is called `dis`; did you \
             mean `disk`?",
        ),
        (
            "station = \"one\"",
            "station = \"on\"",
            "gate `farm`, server 1: no station is called `on`; did you mean `one`?",
        ),
        (
            "demands = { batch",
            "demands = { bath",
            "station `cpu`: it has a demand for class `bath`, which is unknown; did you mean `batch`?",
        ),
        (
            "visit = \"disk\"",
            "visit = \"pool\"",
            "class `batch`, route step 1, way 2 step 1: `pool` is a gate; a demand belongs to a \
             station inside of it",
        ),
        (
            "route = [\"farm\"]",
            "route = [\"farm\", \"server\"]",
            "class `api`, route step 2: `server` is the station of the server whose slot is held, but \
             here no slot is held; use it inside a gate",
        ),
        (
            "inside = [\"cpu\", \"disk\"]",
            "inside = [\"cpu\", \"disk\", \"server\"]",
            "gate `pool`, inside step 3: the servers of gate `pool` have no stations; give each \
             `station`",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn names_must_be_unmistakable() {
    for (from, to, message) in [
        (
            "name = \"batch\"",
            "name = \"web\"",
            "class `web`: two classes have this name; rename one",
        ),
        ("name = \"farm\"", "name = \"pool\"", "gate `pool`: two gates have this name; rename one"),
        (
            "name = \"net\"",
            "name = \"cpu\"",
            "station `cpu`: two stations have this name; rename one",
        ),
        (
            "name = \"net\"",
            "name = \"farm\"",
            "station `farm`: a gate has the same name, so that a route could mean either; rename one",
        ),
        (
            "name = \"net\"",
            "name = \"server\"",
            "station `server`: as a step, `server` means the station of the server that is held; \
             choose another name",
        ),
        ("name = \"net\"", "name = \" \"", "station 3: its name is empty; give it one"),
        (
            "sekisho = 1",
            "sekisho = 2",
            "sekisho: the format has version 2, this program reads version 1; use the program that \
             the file was written for",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn loads_that_contradict_themselves_are_refused() {
    let closed = "population = 40\nthink = { mean = \"2s\", dist = \"exponential\" }";
    for (from, to, message) in [
        (
            "population = 40",
            "population = 40\nrate = \"1/s\"",
            "class `web`: it has both a population (closed load) and a rate (open load); keep one",
        ),
        (
            closed,
            "",
            "class `web`: it has neither a population (closed load) nor a rate (open load); give one \
             (or a `rate-curve`, or a `trace`)",
        ),
        (
            "population = 40",
            "population = 0",
            "class `web`: its population is 0: nobody asks for anything; give at least 1",
        ),
        (
            "population = 40",
            "population = 2_000_000",
            "class `web`: its population is 2000000, more than a million; give fewer, or a rate instead",
        ),
        (
            "population = 40",
            "population = 40\narrivals = \"fixed\"",
            "class `web`: `arrivals` is of an open load, but it has a population; remove it",
        ),
        (
            "rate = \"2/s\"",
            "rate = \"2/s\"\nthink = \"1s\"",
            "class `batch`: `think` is of a closed load, but it has a rate; remove it",
        ),
        (
            "rate = \"2/s\"",
            "rate = \"0/s\"",
            "class `batch`: a rate is from 1e-6/s to 1e9/s; it is 0 /s",
        ),
        (
            "think = { mean = \"2s\"",
            "think = { mean = \"20d\"",
            "class `web`: think: its mean is 1728000 s; a time is 0, or from 1 ns to 1e6 s (11 days)",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn distributions_that_cannot_be_are_refused() {
    let place = "class `batch`, route step 2: demand at station `net`";
    let net = "{ mean = \"20ms\", dist = \"erlang\", scv = 0.2 }";
    for (to, cause) in [
        (
            "{ mean = \"20ms\", dist = \"exponential\", scv = 4 }",
            "an exponential distribution has the squared cv 1, not 4; remove `scv` or the name",
        ),
        (
            "{ mean = \"20ms\", dist = \"constant\", scv = 0.5 }",
            "a constant has the squared cv 0, not 0.5; remove `scv` or the name",
        ),
        ("{ mean = \"20ms\" }", "a mean alone is no distribution; give `dist` or `scv`"),
        (
            "{ mean = \"20ms\", dist = \"erlang\" }",
            "an erlang distribution needs `scv`, its squared cv",
        ),
        (
            "{ mean = \"20ms\", dist = \"erlang\", scv = 0.4 }",
            "no erlang distribution has the squared cv 0.4; use 0.3333 or 0.5000, or dist = \
             \"lognormal\"",
        ),
        (
            "{ mean = \"20ms\", scv = 0.7 }",
            "no erlang distribution has the squared cv 0.7; use 0.5000 or 1.0000, or dist = \
             \"lognormal\"",
        ),
        (
            "{ mean = \"20ms\", dist = \"erlang\", scv = 3 }",
            "no erlang distribution has the squared cv 3; a squared cv above 1 is a \
             `hyperexponential` or `lognormal`",
        ),
        (
            "{ mean = \"20ms\", dist = \"hyperexponential\", scv = 0.5 }",
            "a hyperexponential distribution has a squared cv above 1, not 0.5; remove the name, and \
             the squared cv chooses one",
        ),
        ("{ mean = \"20ms\", scv = -1 }", "a squared cv is from 0 to 10000; it is -1"),
        ("{ mean = \"20ms\", scv = nan }", "a squared cv is from 0 to 10000; it is NaN"),
        (
            "{ mean = \"20ms\", dist = \"lognormal\" }",
            "a lognormal distribution needs `scv`, its squared cv",
        ),
        ("\"0.1ns\"", "it is 0.0000000001 s; a time is 0, or from 1 ns to 1e6 s (11 days)"),
    ] {
        assert_eq!(refused(ALL, net, to), format!("{place}: {cause}"));
    }
}

#[test]
fn demands_and_sizes_must_fit_each_other() {
    for (from, to, message) in [
        (
            "sizes = \"webstone\"\n",
            "",
            "gate `pool`, inside step 1: demand at station `cpu`: it depends on the size of the job; \
             give class `web` `sizes`",
        ),
        (
            "demand = { mean = \"20ms\", dist = \"erlang\", scv = 0.2 }\n",
            "",
            "class `batch`, route step 2: station `net` has no demand for class `batch`; give it \
             `demand`, or an entry in `demands`",
        ),
        (
            "kind = \"queue\"\ndemand = { per-byte = \"1ns/B\", base = \"0s\" }",
            "kind = \"queue\"\ndemand = \"1ms\"",
            "gate `farm`, inside step 1: the stations of gate `farm`'s servers have different demands \
             for class `api`; give the step one: { visit = \"server\", demand = ... }",
        ),
        (
            "lognormal-sigma = 1.573",
            "lognormal-sigma = -1",
            "class `batch`: sizes: lognormal: its sigma must be 0 or above, but it is -1",
        ),
        (
            "lognormal-mu = 7.811",
            "lognormal-mu = 80",
            "class `batch`: sizes: a lognormal of mu 80 and sigma 1.573 has mean 1.91e35 B and \
             squared cv 1.09e1; mu and sigma are of the natural logarithm of the bytes",
        ),
        (
            "weight = 3",
            "weight = 0",
            "class `api`: sizes: document `small` has weight 0: give it 1 or more, or leave it out",
        ),
        (
            "weight = 3 },\n    { name = \"large\", size = \"1MiB\", weight = 1 },\n], draw = \"random\"",
            "weight = 4_000_000_000 },\n]",
            "class `api`: sizes: a deck has a card for each unit of weight, 4000000000 in all; use \
             smaller weights, or draw = \"random\"",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn gates_that_cannot_work_are_refused() {
    for (from, to, message) in [
        (
            "slots = 8",
            "slots = 8\nservers = [{ slots = 1 }]",
            "gate `pool`: `slots` and `servers` are both given; `slots` is for a gate of one server: \
             keep one of them",
        ),
        ("slots = 8\n", "", "gate `pool`: it has no slots; give `slots` (or `servers`)"),
        ("slots = 8", "slots = 0", "gate `pool`: 0 slots let nobody in; give at least 1"),
        (
            "slots = 8",
            "slots = 4_000_000_000",
            "gate `pool`: it has 4000000000 slots, more than a million; give fewer",
        ),
        (
            "router = \"shortest-queue\"\n",
            "",
            "gate `farm`: `length` is of routers that compare queues; add `router = \
             \"shortest-queue\"` (or `power-of-d` or `ev`) or remove it",
        ),
        (
            ", station = \"two\"",
            "",
            "gate `farm`: 1 of its 2 servers have a station; give each of them one, or none",
        ),
        ("wait-max = \"5s\"", "wait-max = \"0s\"", "gate `pool`: `wait-max` must be above 0"),
        (
            "inside = [\"cpu\", \"disk\"]",
            "inside = []",
            "gate `pool`: `inside` is empty: nothing is done while the slot is held; name a station",
        ),
        (
            "inside = [\"cpu\", \"disk\"]",
            "inside = [\"cpu\", \"disk\", \"pool\"]",
            "gate `pool`, inside step 3: gate `pool` is inside itself: a job would wait for a slot \
             that it holds; enter it once",
        ),
        (
            "route = [\"farm\"]",
            "route = [\"net\"]",
            "gate `farm`: no class's route passes it; add it to a route or remove it",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn stations_that_cannot_work_are_refused() {
    for (from, to, message) in [
        (
            "quantum = \"4ms\"\n",
            "",
            "station `cpu`: a fair share needs a `quantum`, such as \"4ms\"",
        ),
        ("quantum = \"4ms\"", "quantum = \"0s\"", "station `cpu`: `quantum` must be above 0"),
        (
            "quantum = \"4ms\"",
            "quantum = \"4ms\"\ntick = \"0s\"",
            "station `cpu`: `tick` must be above 0",
        ),
        (
            "kind = \"delay\"",
            "kind = \"delay\"\ntick = \"1ms\"",
            "station `net`: `tick` is of a fair share only; use kind `fair-share` or remove it",
        ),
        (
            "quantum = \"4ms\"",
            "quantum = \"4ms\"\nservers = 2",
            "station `cpu`: a fair share has one processor, not 2; remove `servers`, or use kind \
             `sharing`",
        ),
        (
            "kind = \"delay\"",
            "kind = \"delay\"\nservers = 2",
            "station `net`: a delay serves everybody at once; remove `servers`",
        ),
        (
            "kind = \"delay\"",
            "kind = \"delay\"\nquantum = \"1ms\"",
            "station `net`: `quantum` is of a fair share only; use kind `fair-share` or remove it",
        ),
        (
            "kind = \"queue\"\nservers = 2",
            "kind = \"queue\"\nservers = 0",
            "station `disk`: 0 servers serve nobody; give at least 1",
        ),
        (
            "    \"net\",\n",
            "",
            "station `net`: no class's route visits it; add it to a route or remove it",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn routes_that_cannot_be_gone_are_refused() {
    for (from, to, message) in [
        (
            "repeat = 0.25",
            "repeat = 1",
            "class `web`, route step 2: `repeat` is the chance of going again, from 0 up to but \
             without 1; it is 1",
        ),
        (
            "repeat = 0.25",
            "repeat = 0.9999999",
            "class `web`, route step 2, repeat: a job would pass it 10000000 times on average; lower \
             the `repeat`",
        ),
        (
            "chance = 0.3",
            "chance = 0.9",
            "class `batch`, route step 1: the chances sum to 1.6, not to 1; for jobs that go on \
             at once, add a way without `route`",
        ),
        (
            "chance = 0.3",
            "chance = -0.3",
            "class `batch`, route step 1: a chance is from 0 to 1; one is -0.3",
        ),
        (
            "chance = 0.3",
            "chance = 0.2",
            "class `batch`, route step 1: the chances sum to 0.9, not to 1; for jobs that go on at \
             once, add a way without `route`",
        ),
        (
            "route = [\"farm\"]",
            "route = []",
            "class `api`, route: it is empty; name a gate or a station",
        ),
        (
            "route = [\"farm\"]",
            "route = [\"farm\", { choose = [] }]",
            "class `api`, route step 2: it offers no way to choose; add one or remove the step",
        ),
    ] {
        assert_eq!(refused(ALL, from, to), message);
    }
}

#[test]
fn a_cycle_without_time_is_refused() {
    let ring = "sekisho = 1\nname = \"x\"\nclass = [{ name = \"c\", population = 1, route = [\"d\"] }]\n\
                station = [{ name = \"d\", kind = \"delay\", demand = \"0s\" }]\n";
    assert_eq!(
        refused(ring, "population = 1", "population = 2"),
        "class `c`: neither thinking nor any demand takes time, so that its customers would go round \
         for ever; give it a think time or a demand"
    );
}

/// The story: the work of the ways of a fork counted nowhere, and a closed class that only forks was refused.
#[test]
fn a_cycle_of_forked_work_takes_time() {
    let forked = |ways: &str, join: &str| {
        format!(
            "sekisho = 1\nname = \"x\"\nclass = [{{ name = \"c\", population = 1, route = [{{ fork = [{ways}]{join} }}] }}]\n\
             station = [{{ name = \"d\", kind = \"delay\", demand = \"50ms\" }}, {{ name = \"z\", kind = \"delay\", demand \
             = \"0s\" }}]\n"
        )
    };
    for (ways, join) in [("[\"d\"], [\"d\", \"z\"]", ""), ("[\"d\"], [\"z\"]", ", join = 2")] {
        read(&forked(ways, join)).network().unwrap();
    }
    // The first of two that has nothing to do is there at once.
    let error = read(&forked("[\"d\"], [\"z\"]", ", join = 1")).network().unwrap_err().to_string();
    assert!(error.contains("neither thinking nor any demand takes time"), "{error}");
}

#[test]
fn gates_that_multiply_when_spelled_out_are_refused() {
    // Ten gates, each of which holds the next one ten times: 10^10 steps.
    let mut text = String::from(
        "sekisho = 1\nname = \"x\"\n[[class]]\nname = \"c\"\nrate = \"1/s\"\nroute = [\"g0\"]\n",
    );
    for n in 0..10 {
        let next = if n == 9 { "d".to_owned() } else { format!("g{}", n + 1) };
        let inside = vec![format!("\"{next}\""); 10].join(", ");
        text += &format!("[[gate]]\nname = \"g{n}\"\nslots = 1\ninside = [{inside}]\n");
    }
    text += "[[station]]\nname = \"d\"\nkind = \"delay\"\ndemand = \"1ms\"\n";
    let error = read(&text).network().expect_err("it would fill the memory");
    assert_eq!(error.place, "gate `g9`, inside");
    assert_eq!(error.cause, "with every gate spelled out, the routes have more than 100000 steps");
}

/// Text in [`ALL`], the text in its place, the message, and the place that it names.
const MISTAKES: [(&str, &str, &str, &str); 15] = [
    (
        "route = [\"farm\"]",
        "route = [5]",
        "invalid type: integer `5`, expected a step: the name of a gate or a station, or a table \
         with `visit`, `choose`, `repeat`, `visits`, `send`, `fork`, `become` or `lookup`",
        "5",
    ),
    (
        "route = [\"farm\"]",
        "route = [{ vist = \"farm\" }]",
        "unknown field `vist`, expected one of `visit`, `visits`, `demand`, `choose`, `repeat`, `route`, \
         `send`, `fork`, `join`, `become`, `lookup`, `hit`, `miss`",
        "vist",
    ),
    (
        "route = [\"farm\"]",
        "route = [{ visit = \"net\" }]",
        "a step with `visit` needs its own `demand`, or `visits`; without one, write \"net\"",
        "{ visit = \"net\" }",
    ),
    (
        "route = [\"farm\"]",
        "route = [{ repeat = 0.5 }]",
        "a step with `repeat` needs the `route` to go again",
        "{ repeat = 0.5 }",
    ),
    (
        "route = [\"farm\"]",
        "route = [{ demand = \"1s\" }]",
        "a step is a name, or has `visit`, `choose`, `repeat`, `visits`, `send`, `fork`, `become` \
         or `lookup`; this has none of them",
        "{ demand = \"1s\" }",
    ),
    (
        "route = [\"farm\"]",
        "route = [{ repeat = 0.5, choose = [] }]",
        "a step with `choose` has no `repeat`; these keys belong to different kinds",
        "{ repeat = 0.5, choose = [] }",
    ),
    (
        "demand = \"3ms\"",
        "demand = { mean = \"3ms\", base = \"1ms\" }",
        "a demand has `mean` with `dist` or `scv`, or `per-byte` with `base`; these keys belong to \
         both",
        "{ mean = \"3ms\", base = \"1ms\" }",
    ),
    (
        "demand = \"3ms\"",
        "demand = { per-byte = \"1us/kB\" }",
        "a demand by size needs `base`, the time at size 0",
        "{ per-byte = \"1us/kB\" }",
    ),
    (
        "demand = \"3ms\"",
        "demand = { base = \"1ms\" }",
        "a demand by size needs `per-byte`, such as \"0.485us/kB\"",
        "{ base = \"1ms\" }",
    ),
    ("demand = \"3ms\"", "demand = { scv = 1 }", "a demand by time needs `mean`", "{ scv = 1 }"),
    (
        "demand = \"3ms\"",
        "demand = 3",
        "invalid type: integer `3`, expected a time such as \"5ms\", a table with `mean` and `dist` \
         or `scv`, or a table with `per-byte` and `base`",
        "3",
    ),
    (
        "sizes = \"webstone\"",
        "sizes = \"webston\"",
        "unknown variant `webston`, expected `webstone`",
        "\"webston\"",
    ),
    (
        "lognormal-sigma = 1.573",
        "lognormal-sgma = 1.573",
        "unknown field `lognormal-sgma`, expected one of `documents`, `draw`, `lognormal-mu`, \
         `lognormal-sigma`",
        "lognormal-sgma",
    ),
    (
        ", lognormal-sigma = 1.573",
        "",
        "sizes have `documents` (and `draw`), or `lognormal-mu` and `lognormal-sigma`",
        "{ lognormal-mu = 7.811 }",
    ),
    (
        "think = { mean = \"2s\", dist = \"exponential\" }",
        "think = { mean = \"2s\", dist = \"exponentail\" }",
        "unknown variant `exponentail`, expected one of `constant`, `exponential`, `erlang`, \
         `hyperexponential`, `lognormal`",
        "\"exponentail\"",
    ),
];

#[test]
fn entries_of_several_forms_say_what_is_wrong_in_them() {
    let message = |from: &str, to: &str| {
        assert_eq!(ALL.matches(from).count(), 1, "`{from}` stands once in the scenario");
        let error = toml::from_str::<Scenario>(&ALL.replace(from, to)).expect_err(to);
        (
            error.message().to_owned(),
            error.span().map(|span| ALL.replace(from, to)[span].to_owned()),
        )
    };
    for (from, to, wanted, place) in MISTAKES {
        let (message, span) = message(from, to);
        assert_eq!((&*message, span.as_deref()), (wanted, Some(place)));
    }
}

#[test]
fn one_thing_can_be_changed() {
    let scenario = read(ALL);
    assert_eq!(scenario.with_population("web", 9).unwrap().classes[0].population, Some(9));
    assert_eq!(scenario.with_rate("batch", 3.5).unwrap().classes[1].rate, Some(advise::Rate(3.5)));
    assert_eq!(scenario.with_slots("pool", 2).unwrap().gates[0].slots, Some(2));
    assert_eq!(scenario.with_seed(3).seed, Some(3));
    let one = read(&ALL.replace(
        "{ slots = 2, station = \"one\" }, { slots = 3, station = \"two\" }",
        "{ slots = 2, station = \"one\" }",
    ));
    assert_eq!(one.with_slots("farm", 5).unwrap().gates[1].servers[0].slots, 5);
    for (changed, message) in [
        (
            scenario.with_population("wbe", 9),
            "class: no class is called `wbe`; did you mean `web`?",
        ),
        (
            scenario.with_population("batch", 9),
            "class `batch`: it is an open class: it has a rate, no population; ask for another rate",
        ),
        (
            scenario.with_rate("web", 9.0),
            "class `web`: it is a closed class: it has a population, no rate; ask for another \
             population",
        ),
        (scenario.with_slots("poll", 2), "gate: no gate is called `poll`; did you mean `pool`?"),
        (
            scenario.with_slots("farm", 2),
            "gate `farm`: it has 2 servers, each with slots of its own; change them in the file",
        ),
    ] {
        assert_eq!(changed.expect_err(message).to_string(), message);
    }
}

#[test]
fn a_gate_whose_slots_are_controlled_begins_within_its_limits() {
    let text = include_str!("../../../../studies/slots/thrashing.toml");
    let network = read(text).network().unwrap();
    let control = network.gates[0].control.expect("it has one");
    assert_eq!((control.floor, control.ceiling), (1, 64));
    assert_eq!((control.band.best, control.window.as_secs()), (40, 1));
    for (from, to, why) in [
        ("most = 64", "most = 39", "gate `pool`: `control` begins with the gate's 40 slots"),
        ("least = 1", "least = 0", "1 at least"),
        ("most = 64", "most = 64, window = \"0s\"", "control.window"),
        ("most = 64", "most = 64, steps = 2", "steps"),
        ("slots = 40", "servers = [{ slots = 40 }, { slots = 40 }]", "the gate has several"),
        ("[agenda]\nlength = \"1200s\"\nintervals = 6", "", "needs an agenda"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let error = match toml::from_str::<Scenario>(&changed).map(|scenario| scenario.network()) {
            Err(error) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(network)) => sim::run(&network, &Options::default()).unwrap_err().to_string(),
        };
        assert!(error.contains(why), "{to}: {error}");
    }
}

#[test]
fn a_gate_without_servers_refuses_waits_or_waits_for_so_long() {
    let limit = |to: &str| {
        let scenario = read(&ALL.replace("unreachable = \"2s\"\n", to));
        assert_eq!(read(&toml::to_string(&scenario).unwrap()), scenario);
        scenario.network().unwrap().gates[0].spec.unreachable_max
    };
    assert_eq!(limit("unreachable = \"refuse\"\n"), Some(Duration::ZERO));
    assert_eq!(limit("unreachable = \"wait\"\n"), Some(Duration::from_secs(5)), "as `wait-max`");
    assert_eq!(limit(""), None);
    let wrong = ALL.replace("unreachable = \"2s\"", "unreachable = \"later\"");
    let error = toml::from_str::<Scenario>(&wrong).unwrap_err().to_string();
    assert!(error.contains("nor \"refuse\" or \"wait\""), "{error}");
}
