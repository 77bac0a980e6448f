//! Runs of TPC-C's transactions without waits as closed loads: `fit`, `ask`, `check` and `report` take
//! their records, and `demo postgres` goes round the loop.

use std::fs;
use std::path::Path;

use crate::browser::{Scratch, open};
use crate::command::{Ended, sekisho};
use crate::examples::{names_its_server, promised};
use crate::records;
use crate::site::alone;
use crate::tpcc::server;
use crate::tpcc_records::{demand, paced, stressed, write};

/// Records at 1, 2, 4 and 8 connections, and the words that fit them.
fn fit(folder: &Path) -> Ended {
    let mut words = vec!["fit".to_owned(), "--cores".to_owned(), "2".to_owned()];
    for connections in [1, 2, 4, 8] {
        let name = format!("{connections}.tpcc.json");
        write(&folder.join(&name), &name, &stressed(connections));
        words.push(name);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    sekisho(folder, &words)
}

/// Output with its white space made one.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_loop_goes_round_on_records_of_tpcc() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let fitted = fit(&folder);
    assert_eq!(fitted.code, 0, "{fitted:?}");
    let scenario = fs::read_to_string(folder.join("scenario.toml")).expect("it is written");
    let (_, rest) = scenario.split_once("[calibration.parameters.demand]").expect("it is fitted");
    let value = rest.lines().find_map(|line| line.strip_prefix("value = ")).expect("it has one");
    let value: f64 = value.parse().expect("a number");
    assert!((value / demand() - 1.0).abs() < 0.02, "{value} s of {} s", demand());
    assert!(scenario.contains("TPC-C-like, 4 warehouses: PostgreSQL 15.18"), "{scenario}");

    let ask = ["ask", "scenario.toml", "--clients", "3,6", "--out", "P.json"];
    assert_eq!(sekisho(&folder, &ask).code, 0);
    write(&folder.join("3.tpcc.json"), "three", &stressed(3));
    let check = ["check", "3.tpcc.json", "--prediction", "P.json", "--expect", "mean<2ms"];
    let checked = sekisho(&folder, &check);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.out.contains("closed load, 3 clients"), "{checked:?}");
    let slow = sekisho(&folder, &["check", "3.tpcc.json", "--expect", "mean<1ms"]);
    assert_eq!(slow.code, 3, "{slow:?}");
    let other = sekisho(&folder, &["check", "8.tpcc.json", "--against", "4.tpcc.json"]);
    assert_eq!(other.code, 3, "twice the connections, twice the response: {other:?}");
    assert!(other.out.contains("inconclusive: the runs differ in load"), "{other:?}");

    let report = ["report", "1.tpcc.json", "3.tpcc.json", "P.json"];
    let reported = sekisho(&folder, &report);
    assert_eq!(reported.code, 0, "{reported:?}");
    let page = fs::read_to_string(folder.join("report.html")).expect("it is written");
    assert!(page.contains("Throughput against load") && page.contains("Checked: 3 clients"));
}

#[test]
fn what_is_no_closed_load_or_another_one_is_refused() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    write(&folder.join("paced.tpcc.json"), "paced", &paced(10));
    write(&folder.join("1.tpcc.json"), "1", &stressed(1));
    let mut wide = stressed(8);
    wide.plan.warehouses = 5;
    write(&folder.join("wide.tpcc.json"), "wide", &wide);
    let mut old = stressed(2);
    old.intervals.clear();
    old.machine_busy.clear();
    write(&folder.join("old.tpcc.json"), "old", &old);
    records::write(&folder.join("http.jsonl"), &records::record(1));
    let cases: [(&[&str], &str); 6] = [
        (&["fit", "paced.tpcc.json"], "its terminals keyed and thought"),
        (&["report", "paced.tpcc.json"], "`sekisho tpcc report` makes a page of it"),
        (&["fit", "1.tpcc.json", "old.tpcc.json"], "old.tpcc.json is no closed load: it has no"),
        (&["fit", "1.tpcc.json", "wide.tpcc.json"], "run wide has other warehouses"),
        (&["fit", "1.tpcc.json", "http.jsonl"], "fit them apart"),
        (&["check", "paced.tpcc.json", "--expect", "p99<1s"], "sekisho tpcc stress"),
    ];
    for (words, why) in cases {
        let ended = sekisho(&folder, words);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        assert!(flat(&ended.err).contains(why), "{words:?}: {ended:?}");
    }
    assert!(!folder.join("scenario.toml").exists(), "nothing was fitted");
    // A page of runs that were held against nothing said that they hold.
    let ended = sekisho(&folder, &["report", "1.tpcc.json"]);
    assert!(ended.code == 0 && ended.out.starts_with("measured: 1 run, no"), "{ended:?}");
    let html = std::fs::read_to_string(folder.join("report.html")).expect("it is written");
    assert!(html.contains("class=\"verdict measured\"") && !html.contains("verdict holds"));
}

/// As often as a demo is begun again that ends with what the help names and its example does not promise.
const TRIES: usize = 8;

/// A demo in a folder of its own, until it ends as the help promises of its example. As short as it is here,
/// chance or other programs may have it end with the other codes that the help names: then it is begun again.
/// Any other code is none that the help knows.
fn until_promised(demo: &[&str], rest: &[&str]) -> (Scratch, Ended) {
    let (codes, named) = promised(demo);
    assert!(
        codes.len() < named.len() && codes.iter().all(|code| named.contains(code)),
        "{named:?}"
    );
    let release = server().programs().version();
    let line = format!("sekisho {}", demo.join(" "));
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        let scratch = Scratch::new();
        let ended = sekisho(&scratch.join(""), &[demo, rest].concat());
        assert!(named.contains(&ended.code), "{line}, {named:?}: {ended:?}");
        if codes.contains(&ended.code) {
            names_its_server(&line, &ended, release);
            return (scratch, ended);
        }
        tries.push(ended);
    }
    panic!("{line} never ended with {codes:?}: {tries:?}");
}

/// The records that are kept in a folder.
fn kept(folder: &Path) -> usize {
    let kept = fs::read_dir(folder.join(".sekisho/runs")).expect("runs are kept");
    let names = kept.map(|file| file.expect("readable").file_name().into_string().expect("ours"));
    names.filter(|name| name.ends_with(".tpcc.json")).count()
}

/// Few clients, short runs, but one warehouse: without the monitor most of the clients wait for each other there.
#[test]
fn the_demo_of_the_monitor_compares_both_ways() {
    let _live = alone();
    let demo = ["demo", "monitor"];
    let rest = ["--warehouses", "1", "--clients", "2,32", "--slots", "2", "--ramp", "0s"];
    let (scratch, ended) = until_promised(&demo, &[&rest[..], &["--measure", "500ms"]].concat());
    let folder = scratch.join("");
    assert_eq!(kept(&folder), 10, "{ended:?}");
    let said = flat(&ended.out);
    assert!(said.contains(" clients are served directly and "), "{ended:?}");
    assert!(said.contains("Behind the monitor 2 are"), "{ended:?}");
    let json = ["--clients", "2", "--slots", "2", "--ramp", "0s", "--measure", "500ms", "--json"];
    let told = sekisho(&folder, &[&["demo", "monitor", "--warehouses", "1"], &json[..]].concat());
    assert_eq!(told.object("demo-monitor")["rows"][0]["clients"], 2, "{told:?}");
    let page = open(&folder.join("sekisho-demo-monitor.html"), (1200, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert!(page.dom.contains("Throughput against clients"));
}

/// As short as it goes.
#[test]
fn the_demo_on_postgresql_closes_the_loop() {
    let _live = alone();
    let demo = ["demo", "postgres"];
    let rest = ["--warehouses", "1", "--connections", "1,2,4", "--ramp", "0s"];
    let (scratch, ended) = until_promised(&demo, &[&rest[..], &["--measure", "1500ms"]].concat());
    let folder = scratch.join("");
    let kept = kept(&folder);
    let told = sekisho(&folder, &[&demo, &rest[..], &["--measure", "1s", "--json"]].concat());
    assert!(promised(&demo).1.contains(&told.code), "{told:?}");
    let format = told.objects()[0]["format"].clone();
    let formats = ["sekisho/demo-postgres/1", "sekisho/no-fit/1"];
    assert!(formats.iter().any(|known| format == *known), "{told:?}");
    let said = flat(&ended.out);
    // Where the throughput falls from the second number on, each up to there was fitted.
    let checked = match said.contains("nothing was checked, for up to where the throughput falls") {
        true => 0,
        false => {
            assert!(said.contains("which the fit never saw"), "{ended:?}");
            1
        }
    };
    assert!(kept >= 4 + checked, "checked, and one once more: {ended:?}");
    let parts = ["\n1. measured and fitted\n", "\n2. asked, before", "\n3. checked\n"];
    let places: Vec<_> = parts.iter().map(|part| ended.out.find(part)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{ended:?}");
    // On a busy machine the knee may lie anywhere: nothing is recommended then.
    let best = said.contains(" are best: ");
    assert!(best || ended.code != 0, "{ended:?}");
    assert_eq!(!best, said.contains("are best is not known: "), "{ended:?}");
    assert!(said.contains("the queue of the model is "), "{ended:?}");
    assert!(said.contains("once more, at the end, did "), "{ended:?}");
    assert!(folder.join(ended.after("prediction")).is_file(), "{ended:?}");
    let page = open(&folder.join("sekisho-demo-postgres.html"), (1200, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert!(page.dom.contains("How many connections, and why"));
}
