//! Every verb has its help, and what the help shows as an example works when it is typed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell};
use crate::records;
use crate::site::{alone, server, write_documents};
use crate::sources::write_sources;
use crate::tpcc::database;
use crate::tpcc_records::{self, stressed};
use crate::verifying::small;

/// The verbs that do something, as their words.
fn verbs() -> Vec<Vec<String>> {
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

fn help(words: &[String]) -> Ended {
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let ended = sekisho(Path::new("."), &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.err, "", "help is no error");
    ended
}

/// The examples in the help of a verb.
fn examples(words: &[String]) -> Vec<String> {
    let help = help(words).out;
    let (_, rest) = help.split_once("\nExample").unwrap_or_else(|| panic!("no example: {help}"));
    let lines = rest.lines().skip(1).take_while(|line| line.starts_with("  "));
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("sekisho ")), "{help}");
    let own = format!("sekisho {}", words.join(" "));
    assert!(lines.iter().any(|line| line.starts_with(&own)), "no example calls `{own}`: {help}");
    lines
}

/// A folder in which every file that an example names is there.
fn prepare(folder: &Path) {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let studies = studies.canonicalize().expect("it is part of the repository");
    symlink(studies, folder.join("studies")).expect("a folder of our own");
    fs::write(folder.join("scenario.toml"), SCENARIO).expect("the same");
    write_documents(&folder.join("documents.toml"));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/explain");
    for output in ["wrk-1.txt", "wrk-16.txt", "hey-16.txt", "pgbench-8.txt"] {
        fs::copy(fixtures.join(output), folder.join(output)).expect("the same");
    }
    write_sources(folder);
    fs::create_dir_all(folder.join(".sekisho/runs")).expect("the same");
    records::write(&folder.join(".sekisho/runs/RUN.jsonl"), &records::record(1));
    records::write(&folder.join(".sekisho/runs/32.jsonl"), &records::record(32));
    for (id, connections) in [("ID", 4), ("1", 1), ("2", 2), ("8", 8)] {
        let path = folder.join(format!(".sekisho/runs/{id}.tpcc.json"));
        tpcc_records::write(&path, id, &stressed(connections));
    }
    let ask = ["ask", "scenario.toml", "--clients", "1", "--out", ".sekisho/predictions/P.json"];
    assert_eq!(sekisho(folder, &ask).code, 0);
}

#[test]
fn every_verb_has_an_example_that_works() {
    let verbs = verbs();
    let names: Vec<String> = verbs.iter().map(|words| words.join(" ")).collect();
    let known = [
        "ask",
        "ask bottleneck",
        "ask capacity",
        "ask holds",
        "ask policy",
        "ask sensitivity",
        "ask servers",
        "ask slots",
        "check",
        "demo",
        "demo monitor",
        "demo postgres",
        "explain",
        "fit",
        "gate http",
        "gate postgres",
        "measure http",
        "report",
        "reproduce",
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
    assert_eq!(names, known, "say below what the examples of a new verb need");
    let scratch = Scratch::new();
    let folder = scratch.join("");
    prepare(&folder);
    for line in verbs.iter().flat_map(|words| examples(words)) {
        // The examples of `fit` write over it.
        fs::write(folder.join("scenario.toml"), SCENARIO).expect("a folder of our own");
        match line.split(' ').nth(1) {
            Some("demo" | "reproduce") => accepted(&folder, &line),
            Some("gate") if line.contains(" postgres ") => monitors(&folder, &line),
            Some("gate") => gates(&folder, &line),
            Some("measure") => measures(&folder, &line),
            Some("tpcc") if line.contains(" report ") => works(&folder, &line),
            Some("tpcc") if LONG.iter().any(|verb| line.contains(verb)) => {
                accepted(&folder, &line);
            }
            Some("tpcc") if line.contains(" merge ") => merges(&line),
            Some("tpcc") if line.contains(" verify ") => verifies(&folder, &line),
            Some("tpcc") => loads(&folder, &line),
            _ => works(&folder, &format!("{line}{}", shorter(&line))),
        }
    }
}

/// Verbs of `tpcc` that take minutes.
const LONG: [&str; 7] = [" run", " stress", " tune", " acid", " crash", " place", " find"];

/// What makes an example short.
fn shorter(line: &str) -> &'static str {
    let question = line.strip_prefix("sekisho ask ").is_some_and(|rest| !rest.starts_with("scen"));
    if question || line.starts_with("sekisho sim ") { " --max-requests 20000" } else { "" }
}

/// It did its work, whatever the verdict.
#[track_caller]
fn works(folder: &Path, line: &str) {
    let ended = shell(folder, line).ended(PATIENCE);
    assert!(![1, 2].contains(&ended.code), "{line}: {ended:?}");
    assert!(!ended.out.is_empty(), "{line}: {ended:?}");
}

/// One that takes minutes, and is called by tests of its own: all its words are understood, so that a
/// wrong one that is added is the only thing to complain about.
#[track_caller]
fn accepted(folder: &Path, line: &str) {
    let ended = shell(folder, &format!("{line} --seed nonsense")).ended(PATIENCE);
    assert_eq!(ended.code, 2, "{line}: {ended:?}");
    assert!(ended.err.starts_with("error: invalid value 'nonsense' for '--seed"), "{ended:?}");
}

/// Put to a real server, for a fraction of a second.
#[track_caller]
fn measures(folder: &Path, line: &str) {
    let _live = alone();
    let origin = server();
    let address = origin.address().to_string();
    let line = line.replace("127.0.0.1:8080/", &format!("{address}/1k"));
    let line = line.replace("127.0.0.1:80/", &format!("{address}/"));
    assert!(line.contains(&address), "{line}");
    let line = line.replace(" --duration 5s", "");
    // The server has other documents than WebStone's.
    let line = line.replace(" webstone", " documents.toml");
    works(folder, &format!("{line} --duration 200ms --warmup 100ms"));
    origin.stop();
}

/// A database of a private server with two small warehouses.
#[track_caller]
fn verifies(folder: &Path, line: &str) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let url = small(&format!("verify_example_{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    assert!(line.contains(&url), "{line}");
    works(folder, &line);
}

/// Records of two parts, in a folder where no other run is.
#[track_caller]
fn merges(line: &str) {
    let scratch = Scratch::new();
    let (folder, parts) = (scratch.join(""), Path::new(env!("CARGO_MANIFEST_DIR")));
    for part in ["part-1.tpcc.json", "part-2.tpcc.json"] {
        let kept = parts.join("tests/fixtures/tpcc").join(part);
        fs::copy(kept, folder.join(part)).expect("a folder of our own");
    }
    works(&folder, line);
}

/// Into a database of a private server, one warehouse.
#[track_caller]
fn loads(folder: &Path, line: &str) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let url = database(&format!("example_{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    let line = line.replace("--warehouses 10", "--warehouses 1");
    assert!(line.contains(&url) && line.contains("--warehouses 1"), "{line}");
    works(folder, &line);
}

/// Listens on a free port, before a database of a private server, until it is told to stop.
#[track_caller]
fn monitors(folder: &Path, line: &str) {
    let url = database("monitor_example");
    let line = line.replace("127.0.0.1:6432", "127.0.0.1:0");
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    assert!(line.contains(&url), "{line}");
    let running = shell(folder, &line);
    running.says("listening on 127.0.0.1:");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    assert!(ended.out.contains("drained: "), "{line}: {ended:?}");
}

/// Listens on a free port, before a real server, until it is told to stop.
#[track_caller]
fn gates(folder: &Path, line: &str) {
    let origin = server();
    let line = line.replace("127.0.0.1:8080", "127.0.0.1:0");
    let line = line.replace("127.0.0.1:9000", &origin.address().to_string());
    let running = shell(folder, &line);
    let said = running.says("listening on 127.0.0.1:");
    let (_, rest) = said.split_once("listening on ").expect("it says so");
    let address = rest.split(' ').next().expect("it says where");
    let url = format!("http://{address}/1k");
    let words = ["measure", "http", &url, "--clients", "2", "--requests", "20", "--warmup", "0s"];
    let measured = sekisho(folder, &[&words[..], &["--out", "gated.jsonl"]].concat());
    assert!(!measured.out.contains("failed: "), "{measured:?}");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{line}: {ended:?}");
    assert!(ended.out.contains("drained: "), "{line}: {ended:?}");
    origin.stop();
}
