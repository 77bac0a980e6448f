//! `--json` of every verb: each line is an object that carries the verdict and the exit code.

use std::fs;

use serde_json::Value;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::{Ended, sekisho, start};
use crate::records;
use crate::site::{alone, server};

/// The objects that it printed, of which the last carries how it ended.
#[track_caller]
fn objects(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.err, "", "{ended:?}");
    let objects = ended.objects();
    let last = objects.last().unwrap_or_else(|| panic!("nothing: {ended:?}"));
    assert_eq!(last["exit_code"], ended.code, "{last}");
    // A run without a limit holds nothing.
    let is_bare = last["header"].is_object() && last["expectations"] == Value::Array(Vec::new());
    let word = match ended.code {
        0 if is_bare && last["score"].is_null() => "measured",
        0 => "holds",
        3 => "fails",
        4 => "inconclusive",
        5 => "invalid",
        code => panic!("{code}: {ended:?}"),
    };
    assert_eq!(last["verdict"], word, "{last}");
    objects
}

#[test]
fn a_gate_that_finds_its_slots_tells_how() {
    let scratch = Scratch::new();
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/slots/thrashing.toml");
    let words = ["sim", study, "--replications", "2"];
    let simulated = &objects(&sekisho(&scratch.join(""), &[&words[..], &["--json"]].concat()))[0];
    let moves = simulated["gates"][0]["moves"].as_array().expect("a list");
    let mut trials = moves.iter().filter(|made| !made["trial"].is_null());
    let last = trials.next_back().expect("something was tried");
    let slots = last["slots"].as_u64().expect("a number");
    assert!((4..=8).contains(&slots), "4 to 8 are best, it began with 40: {last}");
    let text = sekisho(&scratch.join(""), &words).out;
    assert!(text.contains("Gate `pool` began with 40 slots and ended with "), "{text}");
    let solved = sekisho(&scratch.join(""), &["solve", study]);
    assert_ne!(solved.code, 0, "{solved:?}");
}

#[test]
fn the_verbs_of_models_print_json() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let solved = &objects(&sekisho(&folder, &["solve", "s.toml", "--json"]))[0];
    // Exponential demand before sharing: as M/M/1 in the mean, 10 ms at 50 %.
    let response = solved["answer"]["response_s"].as_f64().expect("a number");
    assert!((response - 20e-3).abs() < 1e-9, "{solved}");
    let simulated = sekisho(&folder, &["sim", "s.toml", "--precision", "3%", "--json"]);
    let simulated = &objects(&simulated)[0];
    let mean = simulated["classes"][0]["response_s"]["mean"].as_f64().expect("a number");
    assert!((mean / response - 1.0).abs() < 0.09, "{simulated}");
    let one = ["sim", "s.toml", "--plan", "one-run", "--precision", "3%"];
    let simulated = &objects(&sekisho(&folder, &[&one[..], &["--json"]].concat()))[0];
    assert_eq!((&simulated["plan"], &simulated["replications"]), (&"one-run".into(), &1.into()));
    let mean = simulated["classes"][0]["response_s"]["mean"].as_f64().expect("a number");
    assert!((mean / response - 1.0).abs() < 0.09, "{simulated}");
    let text = sekisho(&folder, &one).out;
    assert!(text.contains("batches of one run") && text.contains("p95"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let asked = sekisho(&folder, &["ask", "s.toml", "--rate", "50/s", "--out", "p.json", "--json"]);
    let asked = &objects(&asked)[0];
    let points = asked["prediction"]["points"].as_array().expect("a list");
    assert_eq!(points.len(), 1, "{asked}");
    let stored: Value = serde_json::from_slice(&fs::read(folder.join("p.json")).unwrap()).unwrap();
    assert_eq!(stored, asked["prediction"]);
    let few = ["sim", "s.toml", "--precision", "0.1%", "--max-requests", "5000", "--json"];
    assert_eq!(objects(&sekisho(&folder, &few))[0]["exit_code"], 4);
}

/// LRU of two keys that remembers one: each hits as often as it was asked for last.
#[test]
fn the_hits_of_a_cache_are_told() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let text = "sekisho = 1\nname = \"c\"\n\
                class = [{ name = \"c\", rate = \"10/s\", \
                route = [{ lookup = \"pages\", hit = [\"near\"], miss = [\"disk\"] }] }]\n\
                cache = [{ name = \"pages\", capacity = 1, keys = 2, order = \"weighted\", \
                weights = [3, 1] }]\n\
                station = [{ name = \"near\", kind = \"delay\", demand = \"1ms\" }, \
                { name = \"disk\", kind = \"delay\", demand = \"8ms\" }]\n";
    fs::write(folder.join("c.toml"), text).unwrap();
    let solved = &objects(&sekisho(&folder, &["solve", "c.toml", "--json"]))[0];
    let hits = &solved["answer"]["caches"][0];
    assert_eq!(
        (hits["hit_ratio"].as_f64(), &hits["hits"][0]),
        (Some(0.625), &0.75.into()),
        "{hits}"
    );
    let text = sekisho(&folder, &["solve", "c.toml"]).out;
    for row in
        [["hits of pages", "62.50 %"], ["of its key 1", "75.00 %"], ["of its key 2", "25.00 %"]]
    {
        let found = text.lines().any(|line| row.iter().all(|part| line.contains(part)));
        assert!(found, "{row:?}: {text}");
    }
}

#[test]
fn the_verbs_of_records_print_json() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    records::write(&folder.join("1.jsonl"), &records::record(1));
    records::write(&folder.join("32.jsonl"), &records::record(32));
    let fit = ["fit", "1.jsonl", "32.jsonl", "--cores", "1", "--slots", "4", "--json"];
    let fitted = &objects(&sekisho(&folder, &fit))[0];
    let per_byte = &fitted["scenario"]["calibration"]["parameters"]["per-byte"];
    let value = per_byte["value"].as_f64().expect("a number");
    // The records wobble by 3 %.
    assert!((value / records::COST.0 - 1.0).abs() < 0.1, "{fitted}");
    let ask = ["ask", "scenario.toml", "--clients", "1,32", "--out", "p.json", "--json"];
    objects(&sekisho(&folder, &ask));
    let check = ["check", "32.jsonl", "--prediction", "p.json", "--json"];
    let checked = &objects(&sekisho(&folder, &check))[0];
    assert_eq!(checked["score"]["verdict"], checked["verdict"], "{checked}");
    let rows = checked["score"]["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 2 + records::DOCUMENTS.len(), "{checked}");
    // The truth of the records is the model's, so the model predicts them.
    assert_eq!(checked["exit_code"], 0, "{checked}");
    let report = ["report", "32.jsonl", "p.json", "--out", "r.html", "--json"];
    let reported = &objects(&sekisho(&folder, &report))[0];
    let path = reported["report"].as_str().expect("a path");
    assert!(std::path::Path::new(path).is_file(), "{reported}");
    assert_eq!(reported["scores"].as_array().map(Vec::len), Some(1), "{reported}");
}

#[test]
fn the_verbs_of_servers_print_json() {
    let _live = alone();
    let origin = server();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let upstream = origin.address().to_string();
    let words =
        ["gate", "http", "--listen", "127.0.0.1:0", "--upstream", &upstream, "--slots", "2"];
    let gate = start(&folder, &[&words[..], &["--admin-http", "127.0.0.1:0", "--json"]].concat());
    let said = gate.says("}\n");
    let first: Value = serde_json::from_str(said.lines().next().expect("a line")).unwrap();
    let at = first["listening"].as_str().expect("an address").to_owned();
    assert!(first["http"].as_str().is_some_and(|admin| admin.starts_with("127.0.0.1:")), "{first}");
    let url = format!("http://{at}/1k");
    let words = ["measure", "http", &url, "--clients", "1,2", "--requests", "50", "--json"];
    let measured = objects(&sekisho(&folder, &[&words[..], &["--warmup", "0s"]].concat()));
    assert_eq!(measured.len(), 2, "{measured:?}");
    assert!(measured[0]["all"]["throughput_per_s"]["mean"].as_f64() > Some(0.0), "{measured:?}");
    let words = ["measure", "http", &url, "--knee", "p90<1us", "--duration", "200ms", "--json"];
    // How long it will take is told beside it.
    let knee = &sekisho(&folder, &words).objects()[0];
    assert!(knee["probes"].as_array().is_some_and(|probes| !probes.is_empty()), "{knee}");
    gate.signal("TERM");
    let ended = gate.ended(crate::command::PATIENCE);
    let last = objects(&ended).pop().expect("there is one");
    assert!(last["servers"][0]["served"].as_u64() >= Some(100), "{last}");
    origin.stop();
}

#[test]
fn the_demo_prints_json() {
    let scratch = Scratch::new();
    let _live = alone();
    let ended = sekisho(&scratch.join(""), &["demo", "--run", "500ms", "--json"]);
    // Half a second on a busy machine may show what no model fits; that is said in JSON as well.
    if ended.code == 6 {
        assert_eq!(ended.objects()[0]["verdict"], "does not fit");
        return;
    }
    let object = &objects(&ended)[0];
    assert!(object["scores"].is_array() || object["why"].is_string(), "{object}");
}
