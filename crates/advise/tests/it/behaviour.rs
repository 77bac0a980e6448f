//! Scenario keys beyond a steady load on plain queues: read, refused with a way out, and left to the
//! simulation by the formulas.

use advise::{NoFormula, Scenario};
use sim::{
    Agenda, Cache, Change, Changed, Client, Demand, Join, Keys, Load, Noticed, Order, Replacement,
    Retry, Speed, Step, TimeOut, WhenFull,
};
use workload::{Dist, Pieces, RateCurve, Trace, TraceJob};

/// All of it, once.
const ALL: &str = r#"
sekisho = 1
name = "all"

[[class]]
name = "web"
rate-curve = { points = [["0s", "10/s"], ["5s", "30/s"]], pieces = "linear", period = "10s" }
client = { patience = { mean = "2s", dist = "exponential" }, time-out = "3s", noticed = "at-gates", retry = { more = 3, back-off = "100ms", factor = 2.0, back-off-max = "1s", jitter = 0.5 } }
route = [
    { lookup = "pages", miss = ["disk"] },
    "pool",
    { send = ["log"] },
    { fork = [["disk"], ["log"]], join = 1 },
    { become = "slow" },
    "log",
]

[[class]]
name = "replay"
trace = { file = "jobs.csv" }
route = [{ visit = "disk", demand = "trace" }]

[[class]]
name = "slow"
load = "within"
priority = 2

[[gate]]
name = "pool"
servers = [{ slots = 1, station = "a" }, { slots = 1, station = "b", speed = 2.0 }]
inside = ["server", "reply", "log"]

[[station]]
name = "a"
kind = "delay"
demand = "1ms"

[[station]]
name = "b"
kind = "delay"
demand = "1ms"

[[station]]
name = "disk"
kind = "queue"
servers = 2
room = 9
full = "lose"
order = "preemptive"
speeds = [1.0, 0.5]
demand = "2ms"

[[station]]
name = "log"
kind = "sharing"
speed-curve = [1.0, 1.5]
demand = "1ms"
demands = { slow = "5ms" }

[[cache]]
name = "pages"
capacity = 10
keys = 100
order = "zipf"
exponent = 0.8

[agenda]
length = "60s"
intervals = 4
period = "20s"
change = [
    { at = "3s", station = "disk", server = 2, state = "down" },
    { at = "4s", station = "disk", server = 2, speed = 0.5 },
    { at = "5s", gate = "pool", slots = 3 },
    { at = "6s", gate = "pool", server = 2, speed = 0.1 },
]
"#;

const JOBS: &str = "time_s,class,demand\n0.5,replay,0.001\n0.75,other,9\n1,replay,0.002\n";

fn parse(text: &str, jobs: &str) -> Result<Scenario, String> {
    let mut scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
    scenario.read_traces(|_| Ok(jobs.into())).map_err(|error| error.to_string())?;
    scenario.network().map_err(|error| error.to_string())?;
    Ok(scenario)
}

#[test]
fn every_key_becomes_what_it_says() {
    let network = parse(ALL, JOBS).unwrap().network().unwrap();
    let [web, replay, slow] = &*network.classes else { panic!("three classes") };
    let points = vec![(0.0, 10.0), (5.0, 30.0)];
    let curve = RateCurve::new(points, Pieces::Linear, Some(10.0)).unwrap();
    assert!(matches!(&web.load, Load::Varying(found) if *found == curve));
    let client = Client {
        patience: Some(Dist::Exponential { mean: 2.0 }),
        time_out: Some(TimeOut { after: Dist::Constant(3.0), noticed: Noticed::AtGates }),
        retry: Some(Retry {
            more: 3,
            back_off_s: 0.1,
            factor: 2.0,
            back_off_max_s: 1.0,
            jitter: 0.5,
        }),
    };
    assert_eq!(web.client, client);
    let own = |at, demand| TraceJob { at, demand: Some(demand), size: None };
    let trace = Trace::new(vec![own(0.5, 0.001), own(1.0, 0.002)], None).unwrap();
    assert!(matches!(&replay.load, Load::Trace(found) if *found == trace), "its own lines only");
    assert!(matches!(replay.route[0], Step::Visit { demand: Demand::OfTrace, .. }));
    assert!(matches!(slow.load, Load::Within) && slow.route.is_empty() && slow.priority == 2);
    let [Step::Lookup { cache: 0, hit, miss }, Step::Hold { inside, .. }, rest @ ..] = &*web.route
    else {
        panic!("{:?}", web.route)
    };
    assert!(hit.is_empty() && miss.len() == 1);
    assert!(matches!(inside[..], [Step::VisitServer { .. }, Step::Reply, Step::Visit { .. }]));
    let [Step::Send { way }, Step::Fork { ways, join }, Step::Become { class: 2 }, last] = rest
    else {
        panic!("{rest:?}")
    };
    assert_eq!((way.len(), ways.len(), *join), (1, 2, Join::First(1)));
    // Behind `become` the demand is that of the new class.
    assert!(
        matches!(last, Step::Visit { demand: Demand::Drawn(Dist::Constant(t)), .. } if *t == 0.005)
    );
    let [_, _, disk, log] = &*network.stations else { panic!("four stations") };
    assert_eq!(disk.room, Some((9, WhenFull::Lose)));
    assert_eq!((disk.order, &disk.speed), (Order::Preemptive, &Speed::Servers(vec![1.0, 0.5])));
    assert_eq!(log.speed, Speed::Curve(vec![1.0, 1.5]));
    assert_eq!(network.gates[0].speeds, [1.0, 2.0]);
    let order = Keys::Zipf { exponent: 0.8 };
    let replacement = Replacement::Lru;
    let cache = Cache { name: "pages".into(), capacity: 10, keys: 100, order, replacement };
    assert_eq!(network.caches, [cache]);
    let disk = |speed| Changed::StationSpeed { station: 2, server: 1, speed };
    let changes = vec![
        Change { at_s: 3.0, what: disk(0.0) },
        Change { at_s: 4.0, what: disk(0.5) },
        Change { at_s: 5.0, what: Changed::Slots { gate: 0, server: 0, slots: 3 } },
        Change { at_s: 6.0, what: Changed::GateSpeed { gate: 0, server: 1, speed: 0.1 } },
    ];
    let agenda = Agenda { length_s: Some(60.0), intervals: 4, period_s: Some(20.0), changes };
    assert_eq!(network.agenda, Some(agenda));
}

#[test]
fn a_scenario_with_all_of_it_runs_and_is_written_as_it_was_read() {
    let scenario = parse(ALL, JOBS).unwrap();
    let outcome = sim::run(&scenario.network().unwrap(), &sim::Options::default()).unwrap();
    assert_eq!(outcome.intervals.len(), 4);
    assert!(outcome.classes[2].throughput.mean > 1.0, "{:?}", outcome.classes[2].throughput);
    let written = toml::to_string(&scenario).unwrap();
    assert_eq!(parse(&written, JOBS).unwrap(), scenario);
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    let refuses = |from: &str, to: &str, causes: &[&str]| {
        assert!(ALL.contains(from), "`{from}` stands in the scenario");
        let error = parse(&ALL.replacen(from, to, 1), JOBS).unwrap_err();
        for cause in causes {
            assert!(error.contains(cause), "wanted `{cause}` for `{to}`, got: {error}");
        }
    };
    refuses("[\"0s\", \"10/s\"]", "[\"1s\", \"10/s\"]", &["class `web`", "rate-curve", "at 0 s"]);
    refuses("load = \"within\"", "load = \"within\"\nrate = \"1/s\"", &["keep one of them"]);
    refuses("trace = {", "think = \"1s\"\ntrace = {", &["`think` does not go with `trace`"]);
    refuses("noticed = \"at-gates\", ", "notice = \"at-gates\", ", &["unknown field `notice`"]);
    refuses("time-out = \"3s\", ", "", &["class `web`, client", "add `time-out`"]);
    refuses(", back-off-max = \"1s\"", "", &["need a `back-off-max`"]);
    refuses("join = 1", "join = 3", &["from 1 to 2"]);
    refuses("become = \"slow\"", "become = \"slwo\"", &["did you mean `slow`?"]);
    refuses("lookup = \"pages\"", "lookup = \"page\"", &["did you mean `pages`?"]);
    refuses("join = 1", "join = 1, miss = []", &["a step with `fork` has no `miss`"]);
    refuses("    \"pool\",\n", "    \"pool\", \"reply\",\n", &["here no slot is held"]);
    refuses("room = 9\n", "", &["station `disk`", "give it a `room`"]);
    refuses("speeds = [1.0, 0.5]", "speeds = [1.0]", &["2 servers but 1 speeds"]);
    refuses("speed-curve = [1.0, 1.5]", "speed-curve = [0.0]", &["station `log`", "above 0"]);
    refuses("exponent = 0.8", "", &["cache `pages`", "needs its `exponent`"]);
    refuses("capacity = 10", "capacity = 0", &["cache `pages`", "remembers nothing"]);
    refuses("slots = 3", "slots = 3, speed = 1.0", &["change at 5s", "one of `speed`"]);
    refuses("station = \"disk\", server = 2, state", "station = \"dsk\", state", &["`disk`?"]);
    refuses("intervals = 4", "intervals = 0", &["agenda", "at least 1"]);
    let without = ALL.split("[agenda]").next().unwrap();
    let error = parse(without, JOBS).unwrap_err();
    assert!(error.contains("class `web`") && error.contains("add an [agenda]"), "{error}");
}

#[test]
fn lines_that_are_no_jobs_are_named() {
    let refuses = |jobs: &str, cause: &str| {
        let error = parse(ALL, jobs).unwrap_err();
        assert!(error.contains("trace `jobs.csv`") && error.contains(cause), "{error}");
    };
    refuses("", "it is empty");
    refuses("time,class\n", "line 1: no column is called `time`; did you mean `time_s`?");
    refuses("class,demand\nreplay,1\n", "no column is called `time_s`");
    refuses("time_s,time_s\n1,1\n", "two columns are called `time_s`");
    refuses("time_s,demand\n1,1\n2\n", "line 3: it has 1 fields, not 2");
    refuses("time_s,demand\n1,1\n\n2,x\n", "line 4: `x` is no number");
    refuses("time_s,demand\n-1,1\n", "line 2: `time_s` is from 0");
    refuses("time_s,demand\n2,1\n1,1\n", "job 2 arrives before");
    refuses("time_s,class,demand\n1,other,1\n", "has no job of this class");
}

#[test]
fn no_formula_knows_any_of_it() {
    let plain = |class: &str, station: &str, rest: &str| {
        format!(
            "sekisho = 1\nname = \"x\"\n[[class]]\nname = \"c\"\n{class}\n[[station]]\nname = \
             \"s\"\n{station}\n{rest}"
        )
    };
    let class = "rate = \"1/s\"\nroute = [\"s\"]";
    let queue = "kind = \"queue\"\ndemand = { mean = \"100ms\", dist = \"exponential\" }";
    let answer = |text: String| advise::formula(&parse(&text, "").unwrap());
    answer(plain(class, queue, "")).expect("M/M/1 has one");
    let with = |class: &str, station: &str, rest: &str, reason: &str| {
        let text = plain(class, station, rest);
        match answer(text) {
            Err(NoFormula::Shape { reason: found, bounds: None }) => {
                assert!(found.contains(reason), "wanted `{reason}`, got: {found}");
            }
            other => panic!("{reason}: {other:?}"),
        }
    };
    let impatient = format!("{class}\nclient = {{ patience = \"1s\" }}");
    with(&impatient, queue, "", "clients lose patience");
    let blocking = format!("{queue}\nroom = 4\nfull = \"block\"");
    with(class, &blocking, "", "no formula knows blocking");
    with(class, queue, "[agenda]\nlength = \"9s\"", "lasts a set time");
    let cached = "rate = \"1/s\"\nroute = [{ lookup = \"k\", miss = [\"s\"] }]";
    let cache = "[[cache]]\nname = \"k\"\ncapacity = 1\nkeys = 2\norder = \"shuffled\"";
    with(cached, queue, cache, "cache `k`");
    let routes = [
        ("{ send = [\"s\"] }", "nobody waits for"),
        ("{ fork = [[\"s\"], [\"s\"]] }", "forks"),
        ("{ become = \"c\" }, \"s\"", "change their class"),
    ];
    for (route, reason) in routes {
        with(&format!("rate = \"1/s\"\nroute = [{route}]"), queue, "", reason);
    }
}
