//! Every verb has its help, and what the help shows as an example works when it is typed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::{Ended, sekisho};
use crate::records;
use crate::replaying;
use crate::serving_agents;
use crate::site::write_documents;
use crate::sources::write_sources;
use crate::tpcc_records::{self, stressed};

mod slow;
mod typed;

use typed::Places;

/// The verbs that do something, as their words.
pub(crate) fn verbs() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let help = help(&words);
        let (_, list) = help.out.split_once("\nCommands:\n").unwrap_or_default();
        // A description that goes on in a second line is indented further.
        let names = list.lines().take_while(|line| line.starts_with("  "));
        let names = names.filter(|line| !line.starts_with("   "));
        let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
        // A verb may do something by itself and have questions besides.
        if names.is_empty() || help.out.contains("\nArguments:\n") || words == ["demo"] {
            found.push(words.clone());
        }
        for name in names.into_iter().filter(|name| *name != "help") {
            open.push([words.as_slice(), &[name.to_owned()]].concat());
        }
    }
    found.sort();
    found
}

pub(crate) fn help(words: &[String]) -> Ended {
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let ended = sekisho(Path::new("."), &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.err, "", "help is no error");
    ended
}

/// A line of a help as somebody types it, and the exit codes that the help promises.
#[derive(Debug)]
struct Example {
    line: String,
    /// 0, unless `ends with N: ...` or `ends with N or M: ...` stands below the line.
    codes: Vec<i32>,
}

/// The examples in the help of a verb.
fn examples(words: &[String]) -> Vec<Example> {
    let help = help(words).out;
    let (_, rest) = help.split_once("\nExample").unwrap_or_else(|| panic!("no example: {help}"));
    let mut found: Vec<Example> = Vec::new();
    for line in rest.lines().skip(1).take_while(|line| line.starts_with("  ")) {
        if let Some(promise) = line.strip_prefix("      ends with ") {
            let (code, why) = promise.split_once(": ").unwrap_or_else(|| panic!("no why: {help}"));
            assert!(!why.is_empty(), "{help}");
            let last = found.last_mut().unwrap_or_else(|| panic!("nothing to end: {help}"));
            let number = |code: &str| code.parse().unwrap_or_else(|_| panic!("`{code}`: {help}"));
            last.codes = code.split(" or ").map(number).collect();
        } else {
            found.push(Example { line: line.trim().to_owned(), codes: vec![0] });
        }
    }
    let lines = || found.iter().map(|example| &*example.line);
    assert!(!found.is_empty() && lines().all(|line| line.starts_with("sekisho ")), "{help}");
    let own = format!("sekisho {}", words.join(" "));
    assert!(lines().any(|line| line.starts_with(&own)), "no example calls `{own}`: {help}");
    found
}

/// The exit codes that the help of a verb promises of the example that calls it by its words alone, and all
/// that it names in a sentence of its own.
pub(crate) fn promised(words: &[&str]) -> (Vec<i32>, Vec<i32>) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let line = format!("sekisho {}", words.join(" "));
    let example = examples(&words).into_iter().find(|example| example.line == line);
    let help = help(&words).out;
    let (_, named) = help.split_once("\nExit codes: ").unwrap_or_else(|| panic!("none: {help}"));
    let named = named.split(';').map(|part| {
        let code = part.split_whitespace().next().unwrap_or_default();
        code.parse().unwrap_or_else(|_| panic!("`{part}` begins with no code: {help}"))
    });
    (example.unwrap_or_else(|| panic!("no `{line}`: {help}")).codes, named.collect())
}

/// A folder in which every file that an example names is there.
pub(crate) fn prepare(folder: &Path) {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let studies = studies.canonicalize().expect("it is part of the repository");
    symlink(studies, folder.join("studies")).expect("a folder of our own");
    fs::write(folder.join("scenario.toml"), SCENARIO).expect("the same");
    write_documents(&folder.join("documents.toml"));
    fs::write(folder.join("rules.toml"), serving_agents::RULES).expect("the same");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/explain");
    for output in ["wrk-1.txt", "wrk-16.txt", "hey-16.txt", "pgbench-8.txt"] {
        fs::copy(fixtures.join(output), folder.join(output)).expect("the same");
    }
    write_sources(folder);
    replaying::write(&folder.join("gate.rec"), &replaying::recording());
    fs::create_dir_all(folder.join(".sekisho/runs")).expect("the same");
    records::write(&folder.join(".sekisho/runs/RUN.jsonl"), &records::record(1));
    records::write(&folder.join(".sekisho/runs/32.jsonl"), &records::record(32));
    records::write_knee(&folder.join("service.knee.json"), &records::knee());
    for (id, connections) in [("ID", 4), ("1", 1), ("2", 2), ("8", 8)] {
        let path = folder.join(format!(".sekisho/runs/{id}.tpcc.json"));
        tpcc_records::write(&path, id, &stressed(connections));
    }
    // A prediction of what the runs are of, so that they hold it.
    let runs = [".sekisho/runs/RUN.jsonl", ".sekisho/runs/32.jsonl"];
    let fit = [&["fit"], &runs[..], &["--cores", "1", "--slots", "4", "--out", "fitted.toml"]];
    assert_eq!(sekisho(folder, &fit.concat()).code, 0);
    let ask = ["ask", "fitted.toml", "--clients", "1", "--out", ".sekisho/predictions/P.json"];
    assert_eq!(sekisho(folder, &ask).code, 0);
}

/// The verbs whose examples are run.
const KNOWN: [&str; 82] = [
    "agents backup",
    "agents dead list",
    "agents dead resend",
    "agents delete",
    "agents explain",
    "agents export",
    "agents get",
    "agents import",
    "agents init",
    "agents put",
    "agents reload",
    "agents restore",
    "agents send",
    "agents serve",
    "agents try",
    "agents user",
    "agents why",
    "ask",
    "ask bottleneck",
    "ask capacity",
    "ask holds",
    "ask policy",
    "ask sensitivity",
    "ask servers",
    "ask slots",
    "board serve",
    "check",
    "demo",
    "demo agents",
    "demo jungle",
    "demo monitor",
    "demo postgres",
    "explain",
    "fit",
    "gate http",
    "gate postgres",
    "jungle append",
    "jungle at",
    "jungle backup",
    "jungle blame",
    "jungle branch",
    "jungle diff",
    "jungle export",
    "jungle find",
    "jungle get",
    "jungle import",
    "jungle insert",
    "jungle log",
    "jungle merge",
    "jungle mv",
    "jungle pick",
    "jungle put",
    "jungle query",
    "jungle restore",
    "jungle revert",
    "jungle rm",
    "jungle serve",
    "jungle snapshot",
    "jungle stats",
    "jungle user",
    "jungle verify",
    "jungle watch",
    "measure http",
    "measure merge",
    "measure postgres",
    "replay",
    "report",
    "reproduce",
    "runs",
    "sim",
    "solve",
    "tpcc acid",
    "tpcc crash",
    "tpcc find",
    "tpcc load",
    "tpcc merge",
    "tpcc place",
    "tpcc report",
    "tpcc run",
    "tpcc stress",
    "tpcc tune",
    "tpcc verify",
];

/// Verbs whose examples are typed in one test, by what they need: so that a failure says more than that some
/// example fails, and no test takes minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Agents,
    Trees,
    Gates,
    Load,
    /// Runs of TPC-C, and what is read from them.
    Tpcc,
    /// Faults of TPC-C's server, and searches that load it.
    Searches,
    Demos,
    /// Models and records: no server.
    Models,
}

fn part(words: &[String]) -> Part {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["agents", ..] => Part::Agents,
        ["board" | "jungle", ..] => Part::Trees,
        ["gate", ..] => Part::Gates,
        ["measure", ..] => Part::Load,
        ["tpcc", "acid" | "crash" | "find" | "place" | "tune"] => Part::Searches,
        ["tpcc", ..] => Part::Tpcc,
        ["demo" | "reproduce", ..] => Part::Demos,
        _ => Part::Models,
    }
}

#[test]
fn every_verb_is_known_and_has_an_example() {
    let verbs = verbs();
    let names: Vec<String> = verbs.iter().map(|words| words.join(" ")).collect();
    assert_eq!(names, KNOWN, "say in `part` and in `typed` what the examples of a new verb need");
    verbs.iter().for_each(|words| assert!(!examples(words).is_empty(), "{words:?}"));
}

#[test]
fn examples_of_agents_work() {
    work(Part::Agents);
}

#[test]
fn examples_of_trees_work() {
    work(Part::Trees);
}

#[test]
fn examples_of_gates_work() {
    work(Part::Gates);
}

#[test]
fn examples_of_load_work() {
    work(Part::Load);
}

#[test]
fn examples_of_tpcc_work() {
    work(Part::Tpcc);
}

#[test]
fn examples_of_faults_and_searches_work() {
    work(Part::Searches);
}

#[test]
fn examples_of_demos_work() {
    work(Part::Demos);
}

#[test]
fn examples_of_models_and_records_work() {
    work(Part::Models);
}

/// Each example of the verbs of a part does as its help says when it is typed.
fn work(of: Part) {
    let verbs = verbs().into_iter().filter(|words| part(words) == of);
    let mut all: Vec<Example> = verbs.flat_map(|words| examples(&words)).collect();
    assert!(!all.is_empty(), "{of:?} has no verb");
    // What others work on is loaded first.
    all.sort_by_key(|example| !example.line.starts_with("sekisho tpcc load "));
    let scratch = Scratch::new();
    prepare(&scratch.join(""));
    let places = Places::new(&scratch.join(""), of);
    for Example { line, codes } in all {
        // The examples of `fit` write over it.
        fs::write(scratch.join("scenario.toml"), SCENARIO).expect("a folder of our own");
        let of_server = line.starts_with("sekisho gate ") || line.starts_with("sekisho measure ");
        let is_judged = line.contains(" --part ") || line.contains(" --knee ");
        assert!(!of_server || is_judged || codes == [0], "{line} is ended by hand, or measures");
        places.typed(&line, &codes);
    }
    places.end();
}

/// A result on PostgreSQL says which release it is of, which is this one: the programs that are found on this
/// machine are the same for all.
#[track_caller]
pub(crate) fn names_its_server(line: &str, ended: &Ended, release: &str) {
    let is_on_postgres = ["sekisho tpcc", "sekisho demo postgres", "sekisho demo monitor"];
    if is_on_postgres.iter().any(|start| line.starts_with(start)) {
        if ended.out.starts_with('{') {
            let objects = ended.objects();
            let told = objects[0]["postgres"].as_str();
            assert_eq!(told, Some(release), "{line}: {ended:?}");
            return;
        }
        let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let whole = |rest: &str| {
            let rest = rest.strip_prefix(release);
            rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_digit()))
        };
        let mut told = flat.split("PostgreSQL ").skip(1);
        assert!(told.any(whole), "{line}, {release}: {ended:?}");
    }
}

/// The exit code that belongs to the words with which an answer begins; JSON names its own.
#[track_caller]
pub(crate) fn said(out: &str) -> i32 {
    assert!(!out.is_empty(), "it says nothing");
    let json = out.lines().find(|line| line.starts_with('{')).map(serde_json::from_str::<Value>);
    if let Some(Ok(object)) = json {
        return object["exit_code"].as_i64().expect("a number") as i32;
    }
    let words = [
        ("fails", 3),
        ("deviates", 3),
        ("not qualified", 3),
        ("inconclusive", 4),
        ("one part, so no verdict", 4),
        ("too few to tell", 4),
        ("too short to tell", 4),
        ("invalid", 5),
        ("does not fit", 6),
    ];
    words.iter().find(|(word, _)| out.starts_with(word)).map_or(0, |(_, code)| *code)
}
