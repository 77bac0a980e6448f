//! Nonsense is refused with exit code 2, with the way out, and before anything is written.

use std::fs;

use crate::browser::Scratch;
use crate::command::sekisho;

pub(crate) const SCENARIO: &str = r#"sekisho = 1
name = "a pool before a processor"

[[class]]
name = "web"
rate = "50/s"
route = ["pool"]

[[gate]]
name = "pool"
slots = 4
inside = ["cpu"]

[[station]]
name = "cpu"
kind = "sharing"
demand = { mean = "10ms", dist = "exponential" }
"#;

/// Writes the scenario with `from` replaced by `to`, calls `words` in that folder, and expects to be
/// refused with a message that holds each of `wanted`.
#[track_caller]
fn refused((from, to): (&str, &str), words: &[&str], wanted: &[&str]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    assert!(SCENARIO.contains(from), "`{from}` stands in the scenario");
    fs::write(folder.join("s.toml"), SCENARIO.replacen(from, to, 1)).expect("a folder of our own");
    fs::write(folder.join("garbage.jsonl"), "\u{0}\u{1}garbage\n{").expect("the same");
    let ended = sekisho(&folder, words);
    assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
    // Where lines were broken does not matter.
    let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.starts_with("error: "), "{words:?}: {message}");
    for wanted in wanted {
        assert!(message.contains(wanted), "{words:?}: no `{wanted}` in: {message}");
    }
    assert_eq!(ended.out, "", "{words:?}");
    let entries = fs::read_dir(&folder).expect("it is still there");
    let mut left: Vec<_> =
        entries.map(|entry| entry.expect("it can be listed").file_name()).collect();
    left.sort();
    assert_eq!(left, ["garbage.jsonl", "s.toml"], "{words:?} wrote something");
}

/// Nothing is wrong with the scenario.
const AS_IT_IS: (&str, &str) = ("", "");

#[test]
fn scenarios_that_are_wrong() {
    let cases = [
        (("slots = 4", "slotz = 4"), ["s.toml:11:1:", "did you mean `slots`"]),
        (("\"50/s\"", "\"50ms\""), ["s.toml:6:8:", "a rate such as \"200/s\""]),
        (("\"10ms\"", "\"10\""), ["s.toml:17:", "a time such as"]),
        (("sharing", "shareing"), ["s.toml:16:8:", "did you mean `sharing`"]),
        (
            ("route = [\"pool\"]", "route = [\"cpu\"]"),
            ["gate `pool`", "no class's route passes it"],
        ),
        (("route = [\"pool\"]", "route = [\"poll\"]"), ["class `web`", "did you mean `pool`"]),
        (("slots = 4", "slots = 0"), ["gate `pool`", "give at least 1"]),
    ];
    for (change, wanted) in cases {
        for words in [&["sim", "s.toml"][..], &["solve", "s.toml"], &["ask", "s.toml"]] {
            refused(change, words, &wanted);
        }
    }
    let hot = ("50/s", "150/s");
    refused(hot, &["solve", "s.toml"], &["station `cpu`", "rho = 1.5", "below 100 /s"]);
    refused(hot, &["sim", "s.toml"], &["station `cpu`", "grows without end"]);
    refused(AS_IT_IS, &["ask", "s.toml"], &["names no load", "--clients"]);
    refused(AS_IT_IS, &["ask", "s.toml", "--rate", "150/s"], &["cpu"]);
    refused(AS_IT_IS, &["ask", "s.toml", "--clients", "0"], &["at least 1"]);
    refused(AS_IT_IS, &["sim", "s.toml", "--precision", "0%"], &["above 0 %"]);
    refused(AS_IT_IS, &["sim", "s.toml", "--replications", "1"], &["at least 2"]);
    let both = ["sim", "s.toml", "--plan", "one-run", "--replications", "10"];
    refused(AS_IT_IS, &both, &["has no replications", "leave out"]);
}

#[test]
fn files_that_are_missing_or_garbage() {
    let absent: [&[&str]; 9] = [
        &["sim", "absent"],
        &["solve", "absent"],
        &["ask", "absent", "--clients", "1"],
        &["fit", "absent"],
        &["check", "absent", "--expect", "mean<1s"],
        &["check", "garbage.jsonl", "--prediction", "absent", "--expect", "mean<1s"],
        &["report", "absent"],
        &["measure", "http", "http://127.0.0.1:1/", "--clients", "1", "--documents", "absent"],
        &["measure", "http", "https://127.0.0.1:1/", "--clients", "1", "--ca", "absent"],
    ];
    for words in absent {
        refused(AS_IT_IS, words, &["absent"]);
    }
    let garbage: [&[&str]; 5] = [
        &["fit", "garbage.jsonl"],
        &["check", "garbage.jsonl", "--expect", "mean<1s"],
        &["report", "garbage.jsonl"],
        &["sim", "garbage.jsonl"],
        &["check", "garbage.jsonl", "--prediction", "garbage.jsonl"],
    ];
    for words in garbage {
        refused(AS_IT_IS, words, &["garbage.jsonl"]);
    }
}

/// The arguments of a measurement of nobody.
fn measure<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["measure", "http", "http://127.0.0.1:1/"], rest].concat()
}

#[test]
fn measurements_that_make_no_sense() {
    // An address for documentation (RFC 5737): were it not refused, it would lead nowhere.
    let public = "http://192.0.2.1/";
    let wanted = ["neither loopback nor private", "--public --public"];
    refused(AS_IT_IS, &["measure", "http", public, "--clients", "1"], &wanted);
    refused(AS_IT_IS, &["measure", "http", public, "--clients", "1", "--public"], &wanted);
    refused(AS_IT_IS, &["measure", "http", "nowhere", "--clients", "1"], &["http"]);
    let cases: [(&[&str], &str); 16] = [
        (&[], "--clients 1,8,32"),
        (&["--clients", "0"], "1 to 1000000"),
        (&["--clients", "x"], "--clients"),
        (&["--clients", "1", "--rate", "5/s"], "cannot be used with"),
        (&["--rate", "5"], "a rate such as \"200/s\""),
        (&["--rate", "NaN/s"], "a rate such as \"200/s\""),
        (&["--rate=-5/s"], "a rate such as \"200/s\""),
        (&["--clients", "1", "--duration", "5"], "a time such as \"250ms\""),
        (&["--clients", "1", "--duration", "0s"], "above 0"),
        (&["--clients", "1", "--timeout", "0s"], "10 ms to a day"),
        (&["--clients", "1", "--expect", "p99<50"], "a time such as"),
        (&["--clients", "1", "--expect", "maen<1s"], "did you mean `mean`"),
        (&["--clients", "1,2", "--out", "r.jsonl"], "several runs"),
        (&["--clients", "1", "--header", "nonsense"], "no colon"),
        (&["--knee", "mean<1s"], "limit a quantile from above"),
        (&["--clients", "1", "--think", "1s", "--threads", "0"], "threads"),
    ];
    for (rest, wanted) in cases {
        refused(AS_IT_IS, &measure(rest), &[wanted]);
    }
}

/// The story: it ended with exit code 1, as a fault of the program does.
#[test]
fn a_port_that_is_taken_is_no_fault_of_the_program() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = ["gate", "http", "--listen", &address, "--upstream", "127.0.0.1:1", "--slots", "1"];
    let scratch = Scratch::new();
    let ended = sekisho(&scratch.join(""), &words);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.starts_with(&format!("error: cannot listen on {address}")), "{ended:?}");
    let words = ["gate", "postgres", "--listen", &address, "--slots", "1", "--auth", "trust"];
    let ended = sekisho(
        &scratch.join(""),
        &[&words[..], &["--db", "postgresql://u@127.0.0.1:1/x"]].concat(),
    );
    assert_eq!(ended.code, 2, "{ended:?}");
}

#[test]
fn other_arguments_that_make_no_sense() {
    let cases: [(&[&str], &str); 13] = [
        (&["mesure"], "'measure'"),
        (
            &["ask", "slot", "garbage.jsonl"],
            "`slot` is neither a question nor a file of a scenario; did you mean `slots`?",
        ),
        (&["ask", "sensitivty"], "did you mean `sensitivity`?"),
        (&["ask", "growth", "garbage.jsonl"], "Questions: bottleneck, capacity, slots, servers"),
        (&["sim", "s.toml", "--sede", "1"], "'--seed'"),
        (&["sim"], "<SCENARIO>"),
        (&["check", "garbage.jsonl"], "nothing to check against"),
        (&["gate", "http", "--upstream", "127.0.0.1:1", "--slots", "1,2"], "2 numbers"),
        (&["gate", "http", "--upstream", "nonsense", "--slots", "1"], "127.0.0.1:8080"),
        (&["gate", "http", "--upstream", "127.0.0.1:1"], "--slots"),
        (
            &["gate", "http", "--upstream", "127.0.0.1:1", "--slots", "1", "--priority", "/a=1"],
            "without a `--discipline` that looks at it",
        ),
        (&["demo", "--run", "5"], "a time such as"),
        (&["reproduce", "nobody"], "fujita"),
    ];
    for (words, wanted) in cases {
        refused(AS_IT_IS, words, &[wanted]);
    }
}

/// A file with holes only: as large as it says, and no room on the disk.
fn hollow(path: &std::path::Path, mib: u64) {
    let file = fs::File::create(path).expect("a folder of our own");
    file.set_len(mib << 20).expect("the file system knows holes");
}

#[test]
fn files_that_are_too_large_are_refused_unread() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let text = SCENARIO.replace("rate = \"50/s\"", "trace = { file = \"jobs.csv\" }");
    fs::write(folder.join("traced.toml"), text).expect("a folder of our own");
    hollow(&folder.join("jobs.csv"), 513);
    hollow(&folder.join("large.toml"), 65);
    hollow(&folder.join("large.lqn"), 65);
    hollow(&folder.join("points.csv"), 513);
    for (words, wanted) in [
        (&["sim", "traced.toml"][..], "512 MiB"),
        (&["solve", "large.toml"], "64 MiB"),
        (&["sim", "large.lqn"], "64 MiB"),
        (&["fit", "--from", "points", "points.csv"], "512 MiB"),
        (&["solve", "/dev/zero"], "64 MiB"),
    ] {
        let ended = sekisho(&folder, words);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        let wanted = format!("it is larger than {wanted}; is it the right file?");
        assert!(message.contains(&wanted), "{words:?}: {message}");
    }
}
