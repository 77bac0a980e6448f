//! Corners where the stated error was once far too small: many clients that think for long, lines of
//! constant demands, servers in turn, few connections inside many workers, and a gate before sharing.

use std::time::{Duration, Instant};

use advise::formula;
use sim::Options;

use crate::scenario::read;
use crate::variation::is_answered;

fn demand(mean: f64, scv: f64) -> String {
    match scv {
        0.0 => format!("\"{mean}s\""),
        1.0 => format!("{{ mean = \"{mean}s\", dist = \"exponential\" }}"),
        _ => format!("{{ mean = \"{mean}s\", dist = \"lognormal\", scv = {scv} }}"),
    }
}

/// So many clients, each thinking for a mean of so many seconds, or a rate.
fn load((clients, time): (u32, f64)) -> String {
    match clients {
        0 => format!("rate = \"{time}/s\""),
        _ => format!("population = {clients}, think = {}", demand(time, 1.0)),
    }
}

fn scenario(who: (u32, f64), rest: &str) -> String {
    let load = load(who);
    format!(
        "sekisho = 1\nname = \"x\"\nclass = [{{ name = \"c\", {load}, route = [\"g\"] }}]\n{rest}"
    )
}

/// A gate of so many slots inside of a line of queues of 1 s.
fn line(who: (u32, f64), slots: u32, queues: usize, scv: f64) -> String {
    let inside: Vec<String> = (0..queues).map(|i| format!("\"s{i}\"")).collect();
    let station =
        |i| format!("{{ name = \"s{i}\", kind = \"queue\", demand = {} }}", demand(1.0, scv));
    let stations: Vec<String> = (0..queues).map(station).collect();
    let rest = format!(
        "gate = [{{ name = \"g\", slots = {slots}, inside = [{}] }}]\nstation = [{}]\n",
        inside.join(", "),
        stations.join(", ")
    );
    scenario(who, &rest)
}

/// Workers that are held through a CPU, then connections, which are held through a base and a disk.
fn nested(
    who: (u32, f64),
    (workers, connections): (u32, u32),
    (base, times): (&str, [f64; 3]),
    scv: f64,
) -> String {
    let [cpu, of_base, disk] = times.map(|mean| demand(mean, scv));
    let rest = format!(
        "gate = [{{ name = \"g\", slots = {workers}, inside = [\"cpu\", \"k\"] }}, {{ name = \"k\", slots \
         = {connections}, inside = [\"base\", \"disk\"] }}]\nstation = [{{ name = \"cpu\", kind = \
         \"queue\", demand = {cpu} }}, {{ name = \"base\", kind = \"{base}\", demand = {of_base} }}, {{ \
         name = \"disk\", kind = \"queue\", demand = {disk} }}]\n"
    );
    scenario(who, &rest)
}

/// Servers of one slot and a queue each, dealt to in turn, of 1 s.
fn turns(who: (u32, f64), servers: u32, scv: f64) -> String {
    let demand = demand(1.0, scv);
    let rest = format!(
        "gate = [{{ name = \"g\", router = \"round-robin\", queues = \"per-server\", servers = [{{ slots = \
         1, station = \"s\", count = {servers} }}], inside = [\"server\"] }}]\nstation = [{{ name = \
         \"s\", kind = \"queue\", demand = {demand}, count = {servers} }}]\n"
    );
    scenario(who, &rest)
}

const ALIKE: (&str, [f64; 3]) = ("queue", [1.0, 1.0, 1.0]);
const MIXED: (&str, [f64; 3]) = ("sharing", [1.0, 0.8, 0.7]);

/// The story: 35 % were stated, and the answer was 36 to 458 % too long: in a line of constant demands
/// nobody waits for anybody, and what they do not wait inside, those before the gate do not wait either.
/// The means are simulated to 1 %.
#[test]
fn lines_of_demands_that_vary_little_are_within_what_is_said_or_refused() {
    let cases = [
        (line((100, 125.0), 5, 5, 0.0), (6.44, 0.06)),
        (line((8, 0.001), 4, 4, 0.0), (8.0, 0.0)),
        (line((30, 34.0), 4, 3, 0.0), (4.338, 0.04)),
        (line((20, 22.0), 3, 2, 0.0), (3.272, 0.03)),
        (line((100, 135.0), 3, 2, 0.5), (6.051, 0.06)),
        (nested((20, 17.0), (4, 3), ALIKE, 0.0), (5.123, 0.05)),
        (nested((30, 35.0), (8, 3), ALIKE, 0.0), (4.237, 0.04)),
        (nested((20, 20.0), (8, 2), MIXED, 0.0), (4.002, 0.04)),
        (line((0, 0.4), 3, 3, 0.0), (3.339, 0.03)),
        (nested((0, 0.5), (6, 3), MIXED, 0.0), (3.00, 0.03)),
    ];
    for (text, mean) in cases {
        is_answered(&text, mean);
    }
    // Who refuses everything holds everything.
    let easy = [line((100, 400.0), 8, 2, 0.0), line((0, 0.15), 8, 2, 0.5)];
    assert!(easy.iter().any(|text| formula(&read(text)).is_ok()));
}

/// The story: 35 % were stated of constant demands dealt in turn, and the answer was up to 74 % too long:
/// servers that take turns and as long as each other have hardly a queue.
#[test]
fn servers_in_turn_before_clients_are_within_what_is_said_or_refused() {
    let cases = [
        ((60, 7.0), 8, 0.0, 1.270),
        ((60, 6.0), 8, 0.0, 1.669),
        ((100, 6.0), 16, 0.0, 1.089),
        ((60, 14.0), 4, 0.0, 1.917),
        ((10, 4.0), 2, 0.0, 1.642),
        ((60, 6.0), 8, 0.5, 2.541),
        ((60, 7.0), 8, 2.0, 3.185),
        ((60, 7.0), 8, 4.0, 4.103),
    ];
    for (who, servers, scv, mean) in cases {
        is_answered(&turns(who, servers, scv), (mean, 0.01 * mean));
    }
    assert!(is_answered(&turns((60, 7.0), 8, 1.0), (2.521, 0.025)));
}

/// The story: 12 % were stated of exponential demands behind few connections inside many workers, and
/// the answer was 15 to 25 % too long.
#[test]
fn few_connections_inside_many_workers_are_within_what_is_said() {
    let cases = [
        ((100, 150.0), (100, 2), 6.263),
        ((200, 370.0), (12, 2), 4.972),
        ((60, 110.0), (40, 1), 6.635),
        ((60, 85.0), (30, 2), 6.380),
    ];
    for (who, slots, mean) in cases {
        assert!(is_answered(&nested(who, slots, MIXED, 1.0), (mean, 0.01 * mean)));
    }
}

/// The story: before a shared processor every demand was taken as exponential, "within 26 %": with a
/// squared coefficient of variation of 8 and more the response was up to 54 % too short. Those with two
/// digits behind the point are simulated to 3 %, the others solved as a chain of their own.
#[test]
fn clients_before_slots_that_share_are_as_near_as_is_said() {
    let of = |who: (u32, f64), slots: u32, scv: f64, dist: &str| {
        let rest = format!(
            "gate = [{{ name = \"g\", slots = {slots}, inside = [\"s\"] }}]\nstation = [{{ name = \"s\", \
             kind = \"sharing\", demand = {{ mean = \"1s\", dist = \"{dist}\", scv = {scv} }} }}]\n"
        );
        scenario(who, &rest)
    };
    let two = "hyperexponential";
    let cases = [
        ((20, 25.0), 2, 20.0, two, 4.487, 0.001),
        ((100, 130.0), 2, 10.0, two, 7.863, 0.001),
        ((40, 50.0), 2, 10.0, two, 5.755, 0.001),
        ((500, 480.0), 16, 6.0, two, 31.06, 0.03),
        ((20, 25.0), 2, 8.0, "lognormal", 3.702, 0.01),
        ((20, 25.0), 2, 20.0, "lognormal", 4.198, 0.012),
        ((20, 22.0), 2, 30.0, "lognormal", 5.096, 0.013),
        ((40, 50.0), 2, 20.0, "lognormal", 6.082, 0.015),
        ((200, 260.0), 3, 10.0, "lognormal", 7.205, 0.022),
        ((100, 130.0), 4, 50.0, "lognormal", 6.419, 0.035),
    ];
    for (who, slots, scv, dist, mean, known) in cases {
        let answer = formula(&read(&of(who, slots, scv, dist))).unwrap();
        let off = ((answer.response - mean).abs() - known * mean).max(0.0) / mean;
        let stated = answer.trust.error.unwrap_or(1e-3);
        assert!(off <= stated, "{off}: {answer:?}");
        assert!(stated <= 0.1 && answer.trust.exact == (dist == two), "{answer:?}");
    }
}

/// Documents are a list of values, which a mixture of exponentials only nears; each is drawn anew here, and
/// the simulation of 300,000 knows the mean to 2 % or so.
#[test]
fn documents_before_slots_that_share_are_as_near_as_is_said() {
    let sizes = "sizes = { draw = \"random\", documents = [{ name = \"a\", size = \"500B\", weight = 350 \
                 }, { name = \"b\", size = \"5kB\", weight = 500 }, { name = \"c\", size = \"50kB\", weight = \
                 140 }, { name = \"d\", size = \"1MB\", weight = 10 }] }";
    let mut worst: f64 = 0.0;
    for (clients, think, slots, base) in
        [(8, 0.2, 2, 5), (40, 0.9, 2, 1), (100, 2.0, 4, 1), (30, 0.5, 8, 5), (60, 1.5, 16, 1)]
    {
        let text = scenario(
            (clients, think),
            &format!(
                "gate = [{{ name = \"g\", slots = {slots}, inside = [\"s\"] }}]\nstation = [{{ name = \"s\", \
             kind = \"sharing\", demand = {{ per-byte = \"1us/B\", base = \"{base}ms\" }} }}]\n"
            ),
        );
        let scenario = read(&text.replace("route =", &format!("{sizes}, route =")));
        let answer = formula(&scenario).unwrap();
        let options = Options { completions_max: 300_000, ..Options::default() };
        let found = sim::run(&scenario.network().unwrap(), &options).unwrap();
        let found = found.classes[0].response.unwrap();
        let off = ((answer.response - found.mean).abs() - found.half_width).max(0.0) / found.mean;
        assert!(off <= answer.trust.error.unwrap(), "{off}: {found:?} {answer:?}");
        worst = worst.max(off);
    }
    println!("at worst {worst}");
}

/// The story: an open load of 99 % before four servers, and whatever approximates it, had been tried by
/// nothing whose truth was known.
#[test]
fn an_open_load_beyond_what_was_tried_is_refused() {
    let at = |rate: f64| {
        let rest = format!(
            "gate = [{{ name = \"g\", queues = \"shared\", servers = [{{ slots = 1, station = \"s\", count \
             = 4 }}], inside = [\"server\"] }}]\nstation = [{{ name = \"s\", kind = \"queue\", demand = \
             {}, count = 4 }}]\n",
            demand(1.0, 2.0)
        );
        formula(&read(&scenario((0, rate), &rest)))
    };
    assert!(at(3.6).is_ok());
    let none = at(3.96).unwrap_err().to_string();
    assert!(none.contains("99.0 % busy") && none.contains("tried up to 95 %"), "{none}");
}

/// The story: 5000 servers in turn took more than 40 s and 5.1 GB, and 30,000 slots inside 100,000 before
/// queues of 1000 servers gave no answer in 40 s either. The time is that of an unoptimised build on a busy
/// machine; what is counted are steps.
#[test]
fn what_takes_too_long_is_refused_with_the_way_out() {
    let queue = |name: &str, ms: u32| {
        format!(
            "{{ name = \"{name}\", kind = \"queue\", servers = 1000, demand = {{ mean = \"{ms}ms\", dist = \
             \"exponential\" }} }}"
        )
    };
    let rest = format!(
        "gate = [{{ name = \"g\", slots = 100000, inside = [\"cpu\", \"k\"] }}, {{ name = \"k\", slots = \
         30000, inside = [\"base\", \"disk\"] }}]\nstation = [{}, {}, {}]\n",
        queue("cpu", 1000),
        queue("base", 800),
        queue("disk", 700)
    );
    let begun = Instant::now();
    let many = formula(&read(&scenario((1_000_000, 1000.0), &rest))).unwrap_err().to_string();
    assert!(many.contains("more than 5e8 steps") && many.contains("sekisho sim"), "{many}");
    let wide = turns((100_000, 10.0), 5000, 1.0).replace("slots = 1,", "slots = 2,");
    let wide = formula(&read(&wide)).unwrap_err().to_string();
    assert!(wide.contains("5000 servers with a queue each") && wide.contains("32"), "{wide}");
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}
