//! `--json` of every verb: each line is an object of a known format that carries the verdict and the exit code.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell, start};
use crate::examples::{help, prepare, verbs};
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

/// Place where the output of a verb is held to its schema.
enum Held {
    /// Here: words that are typed, and the formats of what is said.
    Here(&'static str, &'static [&'static str]),
    /// In the tests of this file, on a server that they start, which look at an object of this format.
    In(&'static str, &'static str),
}
use Held::{Here, In};

/// Every verb that has `--json`. A verb may stand in several lines.
const JSON: [(&str, Held); 92] = [
    ("agents backup", In("agents_backup", "agents-backup")),
    ("agents dead list", In("agents_asked", "agents-dead")),
    ("agents dead resend", In("agents_asked", "agents-resent")),
    ("agents delete", In("agents_asked", "agents-accepted")),
    ("agents explain", Here("rules.toml", &["agents-explain"])),
    ("agents export", In("agents_asked", "agents-moved")),
    ("agents get", In("agents_asked", "agents-state")),
    ("agents import", In("agents_asked", "agents-moved")),
    ("agents init", In("agents_database", "agents-init")),
    ("agents put", In("agents_asked", "agents-accepted")),
    ("agents reload", In("agents_asked", "agents-reload")),
    ("agents restore", In("agents_backup", "agents-restore")),
    ("agents send", In("agents_asked", "agents-accepted")),
    ("agents serve", In("serving_agents", "agents-serve")),
    ("agents try", In("agents_asked", "agents-try")),
    ("agents user", In("agents_asked", "agents-user")),
    ("agents why", In("agents_asked", "agents-why")),
    ("ask", Here("scenario.toml --rate 50/s", &["ask"])),
    ("ask bottleneck", Here("scenario.toml --max-requests 20000", &["ask-bottleneck"])),
    ("ask capacity", Here("scenario.toml --slo 'p99<1s' --max-requests 20000", &["ask-capacity"])),
    ("ask holds", Here("scenario.toml --load 1.2x --max-requests 20000", &["ask-holds"])),
    ("ask policy", Here("fitted.toml --max-requests 20000", &["ask-policy"])),
    ("ask sensitivity", Here("scenario.toml --max-requests 20000", &["ask-sensitivity"])),
    ("ask servers", Here("scenario.toml --load 2x --max-requests 20000", &["ask-servers"])),
    ("ask slots", Here("fitted.toml --slots 2,4 --max-requests 20000", &["ask-slots"])),
    ("board serve", In("board", "board-serve")),
    ("check", Here(".sekisho/runs/RUN.jsonl --expect 'p99<1s' --expect 'max<1ns'", &["check"])),
    ("check", Here(".sekisho/runs/RUN.jsonl --prediction .sekisho/predictions/P.json", &["check"])),
    (
        "check",
        Here(
            ".sekisho/runs/32.jsonl .sekisho/runs/32.jsonl --against .sekisho/runs/32.jsonl \
             --junit j.xml --markdown m.md",
            &["check", "check", "check-runs"],
        ),
    ),
    ("check", Here("service.knee.json --expect 'knee>=100/s'", &["check-knee"])),
    ("demo", In("json", "demo")),
    ("demo agents", In("demo_agents", "demo-agents")),
    ("demo jungle", In("board", "demo-jungle")),
    ("demo monitor", In("tpcc_closed", "demo-monitor")),
    ("demo postgres", In("tpcc_closed", "demo-postgres")),
    ("explain", Here("wrk-1.txt wrk-16.txt", &["explain"])),
    ("fit", Here(".sekisho/runs/RUN.jsonl .sekisho/runs/32.jsonl --cores 1", &["fit"])),
    ("fit", Here("--from points points.csv --cores 1", &["fit-source"])),
    ("gate http", In("json", "gate-http")),
    ("gate http", Here("--check gate.toml", &["gate-http-check"])),
    ("gate postgres", In("gate_config", "gate-postgres-check")),
    ("jungle append", In("jungle", "jungle-committed")),
    ("jungle at", In("jungle", "jungle-node")),
    ("jungle backup", In("jungle", "jungle-backup")),
    ("jungle blame", In("jungle", "jungle-blame")),
    ("jungle branch", In("jungle", "jungle-committed")),
    ("jungle diff", In("jungle", "jungle-diff")),
    ("jungle export", In("jungle", "jungle-export")),
    ("jungle find", In("jungle", "jungle-found")),
    ("jungle get", In("jungle", "jungle-node")),
    ("jungle import", In("jungle", "jungle-committed")),
    ("jungle insert", In("jungle", "jungle-committed")),
    ("jungle log", In("jungle", "jungle-log")),
    ("jungle merge", In("jungle", "jungle-committed")),
    ("jungle mv", In("jungle", "jungle-committed")),
    ("jungle pick", In("jungle", "jungle-committed")),
    ("jungle put", In("jungle", "jungle-committed")),
    ("jungle query", In("jungle", "jungle-query")),
    ("jungle restore", In("jungle", "jungle-committed")),
    ("jungle revert", In("jungle", "jungle-committed")),
    ("jungle rm", In("jungle", "jungle-committed")),
    ("jungle serve", In("jungle", "jungle-serve")),
    ("jungle snapshot", In("jungle", "jungle-snapshot")),
    ("jungle stats", In("jungle", "jungle-stats")),
    ("jungle user", In("jungle", "jungle-user")),
    ("jungle verify", In("jungle", "jungle-verify")),
    ("jungle watch", In("jungle", "jungle-watch")),
    ("measure http", In("json", "measure")),
    ("measure merge", In("parts", "measure")),
    ("measure postgres", In("own_sql", "measure")),
    ("replay", Here("gate.rec", &["replay/2"])),
    ("report", Here("service.knee.json", &["report"])),
    ("report", Here(".sekisho/runs/32.jsonl --expect 'p99<1s'", &["report"])),
    ("reproduce", Here("yamamoto --model", &["reproduce"])),
    ("runs", Here("--last 2", &["stored-run", "stored-run"])),
    ("sim", Here("scenario.toml --max-requests 20000 --csv s.csv", &["sim"])),
    (
        "sim",
        Here(
            "scenario.toml --max-requests 20000 --sweep class.web.rate=20/s,400/s",
            &["sim-sweep"],
        ),
    ),
    ("sim", Here("gate.rec --slots 1,4", &["sim-recording/2"])),
    ("solve", Here("scenario.toml --csv s.csv", &["solve"])),
    ("solve", Here("fitted.toml --corrected", &["solve"])),
    (
        "solve",
        Here("studies/ohmae/scan-stations.toml --method exact --jmva s.jmva", &["solve-network"]),
    ),
    ("tpcc acid", In("isolating", "tpcc-acid")),
    ("tpcc crash", In("crashing", "tpcc-crash")),
    ("tpcc find", In("finding", "tpcc-find")),
    ("tpcc load", In("tpcc", "tpcc-load")),
    ("tpcc merge", In("tpcc", "tpcc-run")),
    ("tpcc place", In("placing", "tpcc-place")),
    ("tpcc report", Here(".sekisho/runs/1.tpcc.json .sekisho/runs/8.tpcc.json", &["tpcc-report"])),
    ("tpcc run", In("tpcc", "tpcc-run")),
    ("tpcc stress", In("tpcc", "tpcc-run")),
    ("tpcc tune", In("tuning", "tpcc-tune/2")),
    ("tpcc verify", In("verifying", "tpcc-verify")),
];

/// A format by its name, and by its version unless that is the first.
fn versioned(name: &str) -> String {
    let version = if name.contains('/') { "" } else { "/1" };
    format!("sekisho/{name}{version}")
}

/// What a verb prints is held to the schema that it names wherever a test runs it; here it is seen that there is
/// such a test, and that the format is the one that `docs/json.md` tells.
#[test]
fn every_verb_that_prints_json_is_held_to_a_schema() {
    let has_json = |words: &Vec<String>| help(words).out.contains("--json");
    let found: BTreeSet<String> =
        verbs().iter().filter(|words| has_json(words)).map(|words| words.join(" ")).collect();
    let known: BTreeSet<String> = JSON.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    assert_eq!(found, known, "say above where the JSON of a new verb is held to its schema");
    let scratch = Scratch::new();
    let folder = scratch.join("");
    prepare(&folder);
    fs::write(folder.join("gate.toml"), GATE).unwrap();
    for (verb, held) in JSON {
        match held {
            Here(words, formats) => {
                // `fit` writes over it.
                fs::write(folder.join("scenario.toml"), SCENARIO).unwrap();
                let line = format!("sekisho {verb} {words} --json");
                let ended = shell(&folder, &line).ended(PATIENCE);
                assert_ne!(ended.out, "", "{line}: {ended:?}");
                let objects = ended.objects();
                let said: Vec<&str> =
                    objects.iter().map(|one| one["format"].as_str().expect("a text")).collect();
                let wanted: Vec<String> = formats.iter().map(|name| versioned(name)).collect();
                assert_eq!(said, wanted, "{line}");
                // Objects that end nothing, such as those of `runs`, have no exit code.
                let severity = |code: i64| {
                    let at = WORSE.iter().position(|one| *one == code);
                    at.unwrap_or_else(|| panic!("{line} says {code}"))
                };
                let codes = objects.iter().filter_map(|object| object["exit_code"].as_i64());
                if let Some(worst) = codes.map(severity).max() {
                    assert_eq!(WORSE[worst], i64::from(ended.code), "{line}: {ended:?}");
                }
            }
            In(file, format) => {
                let path = format!("{}/tests/it/{file}.rs", env!("CARGO_MANIFEST_DIR"));
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
                let words: Vec<String> =
                    verb.split(' ').map(|word| format!("\"{word}\"")).collect();
                // Asserted by the name of the format: `object("tpcc-run")`.
                let looks = [
                    format!("\"{format}\""),
                    format!(" {format}\""),
                    format!("\"sekisho/{format}/1\""),
                ];
                assert!(looks.iter().any(|look| text.contains(look)), "{path} never sees {format}");
                let runs = text.contains("\"--json\"")
                    && words.iter().all(|word| text.contains(word) || text.contains(verb));
                assert!(runs, "{path} does not run `{verb} --json`");
            }
        }
    }
}

/// The exit codes of verdicts, the worst last.
const WORSE: [i64; 6] = [0, 4, 3, 6, 5, 130];

/// A file of a gate.
const GATE: &str = "format = 1\nlisten = [\"127.0.0.1:0\"]\npool = { slots = 2 }\n\
                    server = [{ host = \"127.0.0.1\", port = 9 }]\n";

/// What stands in `docs/json.md` of formats is what there is.
#[test]
fn every_format_is_told_in_the_docs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = fs::read_to_string(path).unwrap();
    let told: BTreeSet<&str> = page
        .split('`')
        .filter(|word| word.starts_with("sekisho") && word.contains('/') && !word.contains(' '))
        .collect();
    let formats = sekisho::formats();
    let there: BTreeSet<&str> = formats.iter().map(|format| format.name).collect();
    assert_eq!(told, there, "docs/json.md tells of other formats than there are");
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
    assert_eq!(measured[0]["format"], "sekisho/measure/1", "{measured:?}");
    assert!(measured[0]["all"]["throughput_per_s"]["mean"].as_f64() > Some(0.0), "{measured:?}");
    let words = ["measure", "http", &url, "--knee", "p90<1us", "--duration", "200ms", "--json"];
    let words = [&words[..], &["--budget", "5s"]].concat();
    // How long it will take is told beside it.
    let knee = &sekisho(&folder, &words).object("knee");
    assert!(knee["probes"].as_array().is_some_and(|probes| !probes.is_empty()), "{knee}");
    gate.signal("TERM");
    let ended = gate.ended(crate::command::PATIENCE);
    let last = objects(&ended).pop().expect("there is one");
    assert_eq!(last["format"], "sekisho/gate-http/1", "{last}");
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
    assert_eq!(object["format"], "sekisho/demo/1", "{object}");
    assert!(object["scores"].is_array() || object["why"].is_string(), "{object}");
}
