//! Every verb has its help, and what the help shows as an example works when it is typed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell};
use crate::records;
use crate::site::{alone, server, write_documents};
use crate::sources::write_sources;
use crate::tpcc::database;
use crate::tpcc_records::{self, stressed};

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

/// A line of a help as somebody types it, and the exit code that the help promises.
#[derive(Debug)]
struct Example {
    line: String,
    /// 0, unless `ends with N: ...` stands below the line.
    code: i32,
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
            last.code = code.parse().unwrap_or_else(|_| panic!("no exit code `{code}`: {help}"));
        } else {
            found.push(Example { line: line.trim().to_owned(), code: 0 });
        }
    }
    let lines = || found.iter().map(|example| &*example.line);
    assert!(!found.is_empty() && lines().all(|line| line.starts_with("sekisho ")), "{help}");
    let own = format!("sekisho {}", words.join(" "));
    assert!(lines().any(|line| line.starts_with(&own)), "no example calls `{own}`: {help}");
    found
}

/// A folder in which every file that an example names is there.
fn prepare(folder: &Path) {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let studies = studies.canonicalize().expect("it is part of the repository");
    symlink(studies, folder.join("studies")).expect("a folder of our own");
    fs::write(folder.join("scenario.toml"), SCENARIO).expect("the same");
    write_documents(&folder.join("documents.toml"));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/explain");
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
    // A prediction of what the runs are of, so that they hold it.
    let runs = [".sekisho/runs/RUN.jsonl", ".sekisho/runs/32.jsonl"];
    let fit = [&["fit"], &runs[..], &["--cores", "1", "--slots", "4", "--out", "fitted.toml"]];
    assert_eq!(sekisho(folder, &fit.concat()).code, 0);
    let ask = ["ask", "fitted.toml", "--clients", "1", "--out", ".sekisho/predictions/P.json"];
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
    let mut loaded = None;
    for Example { line, code } in verbs.iter().flat_map(|words| examples(words)) {
        // The examples of `fit` write over it.
        fs::write(folder.join("scenario.toml"), SCENARIO).expect("a folder of our own");
        let of_server = line.starts_with("sekisho gate ") || line.starts_with("sekisho measure ");
        assert!(!of_server || code == 0, "{line} is ended by hand, or judged as it says");
        match line.split(' ').nth(1) {
            _ if not_run(&line).is_some() => accepted(&folder, &line),
            Some("gate") if line.contains(" postgres ") => monitors(&folder, &line),
            Some("gate") => gates(&folder, &line),
            Some("measure") => measures(&folder, &line),
            Some("tpcc") if line.contains(" report ") => works(&folder, &line, code),
            Some("tpcc") if line.contains(" merge ") => merges(&line, code),
            Some("tpcc") if line.contains(" verify ") => {
                verifies(&folder, &line, code, loaded.as_deref().expect("`load` comes before"));
            }
            Some("tpcc") => loaded = Some(loads(&folder, &line, code)),
            _ => works(&folder, &line, code),
        }
    }
}

/// Examples that are not run here, by a part of their line, and why: of these only the words are held to
/// be understood.
const NOT_RUN: [(&str, &str); 12] = [
    ("sekisho demo", "a minute each; run in `demo`, `tpcc_closed` and `the_loop`"),
    ("reproduce fujita", "minutes; its claims are judged by a test beside them"),
    ("reproduce ohmae", "minutes; the same"),
    ("reproduce nakamura", "half a minute and more; the same"),
    ("tpcc run", "minutes by the rules; run in `tpcc` and `tpcc_records`"),
    ("tpcc stress", "a minute a number of connections; run in `tpcc_closed`"),
    ("tpcc tune", "minutes, and it changes a server's settings; run in `tuning`"),
    ("tpcc acid", "two minutes; run in `isolating`"),
    ("tpcc crash", "minutes; run in `crashing`"),
    ("tpcc place --on /disk1", "three disks that this machine need not have; run in `placing`"),
    ("tpcc place", "minutes; run in `placing`"),
    ("tpcc find", "an hour and more; run in `finding`"),
];

fn not_run(line: &str) -> Option<&'static str> {
    NOT_RUN.iter().find(|(part, _)| line.contains(part)).map(|(_, why)| *why)
}

/// It ends as the help promises, and as its own first words say.
#[track_caller]
fn works(folder: &Path, line: &str, code: i32) {
    let ended = shell(folder, line).ended(PATIENCE);
    assert_eq!(ended.code, code, "{line}: {ended:?}");
    assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
}

/// The exit code that belongs to the words with which an answer begins; JSON names its own.
#[track_caller]
fn said(out: &str) -> i32 {
    assert!(!out.is_empty(), "it says nothing");
    let json = out.lines().find(|line| line.starts_with('{')).map(serde_json::from_str::<Value>);
    if let Some(Ok(object)) = json {
        return object["exit_code"].as_i64().expect("a number") as i32;
    }
    let words = [
        ("FAILS", 3),
        ("NOT QUALIFIED", 3),
        ("inconclusive", 4),
        ("NOT PRECISE", 4),
        ("INVALID", 5),
        ("DOES NOT FIT", 6),
    ];
    words.iter().find(|(word, _)| out.starts_with(word)).map_or(0, |(_, code)| *code)
}

/// All its words are understood, so that a wrong one that is added is the only thing to complain about.
#[track_caller]
fn accepted(folder: &Path, line: &str) {
    let ended = shell(folder, &format!("{line} --seed nonsense")).ended(PATIENCE);
    assert_eq!(ended.code, 2, "{line}: {ended:?}");
    assert!(ended.err.starts_with("error: invalid value 'nonsense' for '--seed"), "{ended:?}");
}

/// Put to a real server, for a fraction of a second. The verdict is on this machine at this moment, which
/// other work may have kept from being steady, quick, or seen often enough; whatever it is, it ends as its
/// first words say.
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
    let line = format!("{line} --duration 200ms --warmup 100ms");
    let ended = shell(folder, &line).ended(PATIENCE);
    assert!([0, 3, 4, 5].contains(&ended.code), "{line}: {ended:?}");
    assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
    origin.stop();
}

/// The database that the example of `tpcc load` has loaded.
#[track_caller]
fn verifies(folder: &Path, line: &str, code: i32, loaded: &str) {
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{loaded}'"));
    assert!(line.contains(loaded), "{line}");
    works(folder, &line, code);
}

/// Records of two parts that meet the rules together, in a folder where no other run is.
#[track_caller]
fn merges(line: &str, code: i32) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for (nth, part) in (1..).zip(tpcc_records::parts(10)) {
        let path = folder.join(format!("part-{nth}.tpcc.json"));
        tpcc_records::write(&path, &format!("part-{nth}"), &part);
    }
    works(&folder, line, code);
}

/// Into a database of a private server, one warehouse; gives its address.
#[track_caller]
fn loads(folder: &Path, line: &str, code: i32) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let url = database(&format!("example_{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    let line = line.replace("--warehouses 10", "--warehouses 1");
    assert!(line.contains(&url) && line.contains("--warehouses 1"), "{line}");
    works(folder, &line, code);
    url
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
