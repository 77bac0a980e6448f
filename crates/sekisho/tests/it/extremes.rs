//! Numbers that nobody means, in every place that takes one: each call answers, is refused at its place
//! with the cause, or shows that it works, within a bound on its memory. None hangs, panics or aborts.

use std::fs;
use std::path::Path;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::sources::write_sources;
use crate::terminal::{Seen, Until, on_terminal};

const COUNTS: [&str; 8] =
    ["0", "-1", "1.5", "nan", "", "1000000000", "18446744073709551615", "18446744073709551616"];
const TIMES: [&str; 6] = ["0s", "-1s", "NaNs", "1e-300s", "1e9h", "1e300s"];
const RATES: [&str; 6] = ["0/s", "-5/s", "NaN/s", "1e-300/s", "1e12/s", "1e300/s"];
const FACTORS: [&str; 6] = ["0x", "-1x", "NaNx", "1e-300x", "1e9x", "1e300x"];
const SHARES: [&str; 6] = ["0%", "-1%", "NaN%", "1e-300%", "101%", "1e300%"];
const LIMITS: [&str; 6] = ["mean<0s", "mean<NaNs", "mean<1e300s", "p0<1s", "p100<1s", "pNaN<1s"];
const NUMBERS: [&str; 6] = ["0", "-1", "nan", "inf", "1e-300", "1e300"];

/// Address at which nobody listens, so that what is not refused fails at once.
const NOWHERE: &str = "--db postgres://u@127.0.0.1:1/x";

fn folder() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.join("s.toml"), SCENARIO).expect("a folder of our own");
    let points = "clients,throughput,latency_ms\n1,50,20\n4,180,22\n16,390,41\n";
    fs::write(scratch.join("points.csv"), points).expect("the same");
    let output =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/explain/wrk-16.txt");
    fs::copy(output, scratch.join("wrk.txt")).expect("the same");
    write_sources(&scratch.join(""));
    scratch
}

/// It answered, was refused in words, or is at work and shows it.
#[track_caller]
fn settled(folder: &Path, line: &str) -> Seen {
    let words: Vec<&str> = line.split(' ').collect();
    let seen = on_terminal(folder, &words, Until::Shown);
    match seen.code {
        Some(2) => refused(line, &seen),
        Some(0 | 3 | 4 | 5 | 6) => assert!(!seen.out.is_empty(), "{line}: {seen:?}"),
        Some(_) => panic!("{line}: {seen:?}"),
        None => assert!(!seen.err.is_empty() || !seen.out.is_empty(), "{line}: {seen:?}"),
    }
    seen
}

/// It names its place, and the cause in words that are no parser's.
#[track_caller]
fn refused(line: &str, seen: &Seen) {
    let message = seen.message();
    assert!(message.contains("error: "), "{line}: {message}");
    for said in ["digit found in string", "fit in target type", "float literal", "empty string"] {
        assert!(!message.contains(said), "{line}: {message}");
    }
    assert!(message.len() < 700, "{line}: {message}");
}

/// Options that a message names by what they are.
const NAMED: [(&str, &str); 4] = [
    ("alone", "single client"),
    ("timeout", "the time for a response"),
    ("seconds", "would be busy"),
    ("seconds", "class `transactions`: a rate"),
];

/// Each value of an option, at the end of a line.
#[track_caller]
fn swept(folder: &Path, table: &[(&str, &str, &[&str])]) {
    let mut lacking = Vec::new();
    for (line, option, values) in table {
        for value in *values {
            let seen = settled(folder, &format!("{line} --{option}={value}"));
            let message = seen.message();
            let named = NAMED.iter().any(|(of, name)| of == option && message.contains(name));
            // What nobody listens to is found when the number has been taken.
            let taken = message.contains("cannot connect to the database");
            let place = message.contains(option) || message.contains("s.toml") || named || taken;
            if seen.code == Some(2) && !place && (value.is_empty() || !message.contains(value)) {
                lacking.push(format!("{line} --{option}={value}: {message}"));
            }
        }
    }
    assert!(lacking.is_empty(), "no place in:\n{}", lacking.join("\n"));
}

#[test]
fn options_of_models_take_any_number() {
    let scratch = folder();
    swept(
        &scratch.join(""),
        &[
            ("ask s.toml", "clients", &COUNTS),
            ("ask s.toml", "rate", &RATES),
            ("ask s.toml --clients 1", "slots", &COUNTS),
            ("ask s.toml --clients 1", "seed", &COUNTS),
            ("ask bottleneck s.toml", "max-requests", &COUNTS),
            ("ask bottleneck s.toml --max-requests 2000", "threads", &COUNTS),
            ("ask capacity s.toml --max-requests 2000", "slo", &LIMITS),
            ("ask holds s.toml --max-requests 2000", "load", &FACTORS),
            ("ask servers s.toml --max-requests 2000", "load", &FACTORS),
            ("ask slots s.toml --max-requests 2000", "slots", &COUNTS),
            ("explain wrk.txt", "clients", &COUNTS),
            ("explain wrk.txt --clients 16", "think", &TIMES),
            ("explain wrk.txt --clients 16", "alone", &TIMES),
            ("fit --from points points.csv --out f.toml", "cores", &COUNTS),
            ("fit --from pg-stat-statements pss.csv --out f.toml", "seconds", &NUMBERS),
            ("sim s.toml --max-requests 2000", "replications", &COUNTS),
            ("sim s.toml --max-requests 2000", "precision", &SHARES),
            ("sim s.toml --max-requests 2000", "threads", &COUNTS),
            ("sim s.toml --plan one-run", "max-requests", &COUNTS),
            ("solve s.toml --corrected", "seed", &COUNTS),
            ("reproduce fujita --live", "seconds", &NUMBERS),
        ],
    );
}

#[test]
fn options_of_servers_take_any_number() {
    const MEASURE: &str =
        "measure http http://127.0.0.1:1/ --no-preflight --duration 100ms --clients 1";
    const GATE: &str = "gate http --listen 127.0.0.1:0 --upstream 127.0.0.1:1 --slots 1";
    const POSTGRES: &str = "gate postgres --listen 127.0.0.1:0 --slots 1 --auth trust";
    let of = |verb: &str| format!("{verb} {NOWHERE}");
    let [postgres, load] = [of(POSTGRES), of("tpcc load --warehouses 1")];
    let [run, stress, find, tune] = ["run", "stress", "find --max-warehouses 2", "tune"]
        .map(|verb| of(&format!("tpcc {verb}")));
    let own_sql = of("measure postgres own.sql --duration 100ms");
    let own_open = format!("{own_sql} --rate 10/s");
    let scratch = folder();
    std::fs::write(scratch.join("own.sql"), "select 1;").expect("a folder of our own");
    swept(
        &scratch.join(""),
        &[
            (
                "measure http http://127.0.0.1:1/ --no-preflight --duration 100ms",
                "clients",
                &COUNTS,
            ),
            ("measure http http://127.0.0.1:1/ --no-preflight --duration 100ms", "rate", &RATES),
            ("measure http http://127.0.0.1:1/ --no-preflight", "knee", &LIMITS),
            ("measure http http://127.0.0.1:1/ --no-preflight --clients 1", "duration", &TIMES),
            (MEASURE, "threads", &COUNTS),
            (&own_open, "connections", &COUNTS),
            (&own_open, "in-flight", &COUNTS),
            (&own_sql, "rate", &RATES),
            (&own_sql, "clients", &COUNTS),
            (&own_open, "max-tries", &COUNTS),
            (MEASURE, "warmup", &TIMES),
            (MEASURE, "timeout", &TIMES),
            (MEASURE, "think", &TIMES),
            (MEASURE, "requests", &COUNTS),
            (GATE, "room", &COUNTS),
            (GATE, "wait-max", &TIMES),
            (GATE, "timeout", &TIMES),
            ("gate http --listen 127.0.0.1:0 --upstream 127.0.0.1:1", "slots", &COUNTS),
            (&postgres, "room", &COUNTS),
            (&postgres, "wait-max", &TIMES),
            (&postgres, "clients-max", &COUNTS),
            (&postgres, "drain", &TIMES),
            (&load, "jobs", &COUNTS),
            (&run, "warehouses", &COUNTS),
            (&run, "connections", &COUNTS),
            (&run, "hasten", &NUMBERS),
            (&run, "measure", &TIMES),
            (&stress, "connections", &COUNTS),
            (&stress, "ramp", &TIMES),
            (&find, "probe", &TIMES),
            (&find, "connections", &COUNTS),
            (&tune, "rounds", &COUNTS),
            (&tune, "longest", &TIMES),
        ],
    );
}

/// A closed class before a gate and a station; a word in capitals is a number.
const CLOSED: &str = "sekisho = 1\nname = \"s\"\n\
    [[class]]\nname = \"web\"\npopulation = POPULATION\n\
    think = { mean = \"THINK\", dist = \"exponential\" }\nroute = [\"pool\"]\n\
    [[gate]]\nname = \"pool\"\nslots = SLOTS\ninside = [\"cpu\"]\n\
    [[station]]\nname = \"cpu\"\nkind = \"KIND\"\n\
    demand = { mean = \"DEMAND\", dist = \"exponential\" }\n";
/// An open class before a queue.
const OPEN: &str = "sekisho = 1\nname = \"s\"\n\
    [[class]]\nname = \"web\"\nrate = \"RATE\"\nroute = [\"cpu\"]\n\
    [[station]]\nname = \"cpu\"\nkind = \"KIND\"\nservers = SERVERS\n\
    demand = { mean = \"DEMAND\", dist = \"hyperexponential\", scv = SCV }\n";

/// The number of a key, and what all others are.
fn with(text: &str, key: &str, value: &str) -> String {
    let usual = [
        ("POPULATION", "10"),
        ("THINK", "1s"),
        ("SLOTS", "4"),
        ("KIND", "queue"),
        ("DEMAND", "10ms"),
        ("RATE", "50/s"),
        ("SERVERS", "1"),
        ("SCV", "4"),
    ];
    usual.iter().fold(text.replace(key, value), |text, (key, value)| text.replace(key, value))
}

#[test]
fn keys_of_scenarios_take_any_number() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for (text, key, values) in [
        (CLOSED, "POPULATION", &COUNTS[..]),
        (CLOSED, "THINK", &TIMES),
        (CLOSED, "SLOTS", &COUNTS),
        (CLOSED, "DEMAND", &TIMES),
        (CLOSED, "KIND", &["fair-share\"\nquantum = \"1ns", "fair-share\"\nquantum = \"1e300s"]),
        (OPEN, "RATE", &RATES),
        (OPEN, "DEMAND", &TIMES),
        (OPEN, "SERVERS", &COUNTS),
        (OPEN, "SCV", &NUMBERS),
    ] {
        for value in values {
            fs::write(folder.join("s.toml"), with(text, key, value)).expect("a folder of our own");
            for line in ["solve s.toml", "sim s.toml --max-requests 2000"] {
                let seen = settled(&folder, line);
                let is_placed = seen.code != Some(2) || seen.message().contains("s.toml");
                assert!(is_placed, "{key} = {value}: {line}: {}", seen.message());
                // Else it would be the name that is refused, and not the number.
                let is_known = !seen.message().contains("unknown name");
                assert!(is_known, "{key} = {value}: {line}: {}", seen.message());
            }
        }
    }
    let sweep =
        |of: &str| settled(&folder, &format!("sim s.toml --max-requests 2000 --sweep {of}"));
    fs::write(folder.join("s.toml"), SCENARIO).expect("a folder of our own");
    for range in ["1..1000000000", "0..1", "-1..1", "1..10/0", "1..99999999999999999999", "nan"] {
        assert_eq!(sweep(&format!("gate.pool.slots={range}")).code, Some(2), "{range}");
    }
    for rate in RATES {
        sweep(&format!("class.web.rate={rate}"));
    }
}

/// A layered model of customers and threads.
fn layers(customers: &str, threads: &str, processor: &str) -> String {
    format!(
        "G \"s\" 1e-6 100 1 0.9 -1\nP 2\np users f i\np cpu f {processor}\n-1\nT 2\n\
         t clients r use -1 users z 1.0 m {customers}\nt pool {threads}\n-1\n\
         E 2\nf use 1 -1\ny use ask 1.0 -1\ns ask 0.02 -1\n-1\n"
    )
}

/// The story: 1e9 threads were refused with "simulate it", and so they were when it was simulated.
#[test]
fn the_way_out_of_a_layered_model_that_is_too_large_leads_out() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let call = |text: String, verb: &str| {
        fs::write(folder.join("m.lqn"), text).expect("a folder of our own");
        settled(&folder, &format!("{verb} m.lqn"))
    };
    let many = "n ask -1 cpu m 1000000000";
    for (text, wanted, way_out) in [
        (layers("10", many, ""), "m.lqn:8: task `pool`: the number of threads is 1000000000", true),
        (
            layers("10", "i ask -1 cpu", "m 1000000000"),
            "m.lqn:4: processor `cpu`: the number of servers is 1000000000",
            true,
        ),
        (
            layers("1000000000", "n ask -1 cpu m 4", ""),
            "m.lqn:7: task `clients`: the number of customers N is 1000000000",
            false,
        ),
    ] {
        for verb in ["solve", "sim"] {
            let refused = call(text.clone(), verb);
            assert_eq!(refused.code, Some(2), "{verb}: {refused:?}");
            let message = refused.message();
            assert!(message.contains(wanted), "{verb}: {message}");
            assert!(message.contains("; give fewer"), "{verb}: {message}");
            assert_eq!(message.contains("let it have no limit"), way_out, "{verb}: {message}");
            assert!(!message.contains("simulate it"), "{verb}: {message}");
        }
    }
    // What it says, typed.
    for verb in ["solve", "sim"] {
        for text in [
            layers("10", "n ask -1 cpu m 1000000", ""),
            layers("10", "i ask -1 cpu", ""),
            layers("10", "i ask -1 cpu", "i"),
            layers("10", "i ask -1 cpu", "m 1000000"),
        ] {
            fs::write(folder.join("m.lqn"), &text).expect("a folder of our own");
            let seen = on_terminal(&folder, &[verb, "m.lqn"], Until::Ended);
            assert_eq!(seen.code, Some(0), "{verb}: {seen:?}\n{text}");
        }
    }
    let fewer = call(layers("1000000", "n ask -1 cpu m 4", ""), "solve");
    assert!(matches!(fewer.code, None | Some(0)), "{fewer:?}");
}
