//! Every verb has its help, and what the help shows as an example works when it is typed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postgres::{Private, Settings};
use serde_json::Value;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::clockwork::Clockwork;
use crate::command::{Ended, PATIENCE, sekisho, shell, shell_on};
use crate::records;
use crate::replaying;
use crate::site::{alone, server, write_documents};
use crate::sources::write_sources;
use crate::tpcc::{ask, database};
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
    replaying::write(&folder.join("gate.rec"), &replaying::recording());
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

/// The verbs whose examples are run.
const KNOWN: [&str; 35] = [
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

#[test]
fn every_verb_has_an_example_that_works() {
    let verbs = verbs();
    let names: Vec<String> = verbs.iter().map(|words| words.join(" ")).collect();
    assert_eq!(names, KNOWN, "say below what the examples of a new verb need");
    let scratch = Scratch::new();
    let folder = scratch.join("");
    prepare(&folder);
    let mut all: Vec<Example> = verbs.iter().flat_map(|words| examples(words)).collect();
    // What others work on is loaded first.
    all.sort_by_key(|example| !example.line.starts_with("sekisho tpcc load "));
    let server = Private::start(&Settings::default()).expect("a server starts");
    let mut loaded = None;
    for Example { line, codes } in all {
        // The examples of `fit` write over it.
        fs::write(folder.join("scenario.toml"), SCENARIO).expect("a folder of our own");
        let of_server = line.starts_with("sekisho gate ") || line.starts_with("sekisho measure ");
        assert!(!of_server || codes == [0], "{line} is ended by hand, or judged as it says");
        let database = || loaded.as_deref().expect("`load` comes before");
        match (slow(&line), line.split(' ').nth(1)) {
            (Some(of), _) if of.runs() => takes_long(&folder, &line, &codes, of, database()),
            (Some(of), _) => accepted(&folder, &line, of),
            (_, Some("gate")) if line.contains(" postgres ") => monitors(&folder, &line),
            (_, Some("gate")) => gates(&folder, &line),
            (_, Some("measure")) if line.contains(" postgres ") => own_sql(&folder, &line),
            (_, Some("measure")) => measures(&folder, &line),
            (_, Some("tpcc")) if line.contains(" report ") => works(&folder, &line, &codes),
            (_, Some("tpcc")) if line.contains(" merge ") => merges(&line, &codes),
            (_, Some("tpcc")) if line.contains(" verify ") => {
                verifies(&folder, &line, &codes, database());
            }
            (_, Some("tpcc")) => loaded = Some(loads(&folder, &line, &codes, &server)),
            _ => works(&folder, &line, &codes),
        }
    }
    server.stop().expect("it runs");
}

/// Is this the long suite, which leaves nothing out?
fn is_long() -> bool {
    std::env::var_os("SEKISHO_LONG").is_some()
}

/// An example that takes minutes.
struct Slow {
    /// A part of its line.
    part: &'static str,
    short: Short,
    long: Long,
}

/// What becomes of it in the short suite.
enum Short {
    /// It is run for seconds: words of the line, and what stands for them; what stands for none is added.
    For(&'static [(&'static str, &'static str)]),
    /// Only its words are held to be understood. The place where such a line is run, but for its size.
    In(&'static str),
}

/// What becomes of it in the long suite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    /// It is run as it is typed, but for the size of a database: 10 warehouses, and 2 that are looked for.
    Run,
    /// The same, and the other part beside it.
    Beside,
    /// Only its words are held to be understood there too.
    Not,
}

const SLOW: [Slow; 21] = [
    slow_in("sekisho demo postgres", "`tpcc_closed`", Long::Run),
    slow_in("sekisho demo monitor", "`tpcc_closed`", Long::Run),
    slow_in("sekisho demo", "`demo` and `the_loop`", Long::Run),
    slow_in("reproduce fujita", "a test beside it, which judges its claims", Long::Not),
    slow_in("reproduce ohmae", "a test beside it, which judges its claims", Long::Not),
    slow_in("reproduce nakamura", "a test beside it, which judges its claims", Long::Not),
    slow_in("tpcc run --part", "`tpcc`", Long::Beside),
    slow_in("tpcc run --warehouses 10 ", "the long suite", Long::Run),
    slow_for(
        "tpcc run --warehouses 8 ",
        &[("--warehouses 8", "--warehouses 1"), ("30s", "2s --no-verify"), NOW],
    ),
    slow_for("tpcc run", &[("", "--measure 2s --no-verify"), NOW]),
    slow_for("tpcc stress --connections 8", &[("", "--measure 1s"), NOW]),
    slow_for("tpcc stress --connections 1,", &[("", "--measure 500ms --no-verify"), NOW]),
    // Three disks that this machine need not have.
    slow_in("tpcc place --on", "`placing`", Long::Not),
    slow_in("tpcc place", "`placing`", Long::Not),
    slow_in("tpcc tune --warehouses 4 ", "`tuning`", Long::Run),
    slow_in("tpcc tune --warehouses 10 --db \"$DATABASE_URL\" --apply", "`tuning`", Long::Run),
    slow_for(
        "tpcc tune",
        &[("--warehouses 10", "--warehouses 1"), ("", "--measure 1s --no-verify"), NOW],
    ),
    slow_in("tpcc acid", "`isolating`", Long::Run),
    slow_in("tpcc crash", "`crashing`", Long::Run),
    slow_in("tpcc find --max-warehouses 60", "`finding`", Long::Run),
    // A confirmation of two hours.
    slow_in("tpcc find", "`finding`", Long::Not),
];

/// Measured from the start on.
const NOW: (&str, &str) = ("", "--ramp 0s");

const fn slow_in(part: &'static str, place: &'static str, long: Long) -> Slow {
    Slow { part, short: Short::In(place), long }
}

const fn slow_for(part: &'static str, words: &'static [(&'static str, &'static str)]) -> Slow {
    Slow { part, short: Short::For(words), long: Long::Run }
}

fn slow(line: &str) -> Option<&'static Slow> {
    SLOW.iter().find(|slow| line.contains(slow.part))
}

impl Slow {
    /// Whether it is run in this suite.
    fn runs(&self) -> bool {
        if is_long() { self.long != Long::Not } else { matches!(self.short, Short::For(_)) }
    }
}

/// The warehouses that are loaded for examples.
fn warehouses() -> &'static str {
    if is_long() { "--warehouses 10" } else { "--warehouses 1" }
}

/// In the short suite on the database that the example of `tpcc load` has loaded, named or not; in the
/// long one as it is typed. One in twenty runs by the rules is said to deviate, and on a machine that
/// others use terminals may be late: then it is done again, with other chance.
#[track_caller]
fn takes_long(folder: &Path, line: &str, codes: &[i32], slow: &Slow, database: &str) {
    let _live = alone();
    let patience = if is_long() { Duration::from_secs(3600) } else { PATIENCE };
    let is_named = line.contains("\"$DATABASE_URL\"");
    let url = (is_named || !is_long()).then_some(database);
    let mut typed = line.replace("--warehouses 900", warehouses());
    typed = typed.replace("--max-warehouses 60", "--max-warehouses 2");
    if let (Short::For(words), false) = (&slow.short, is_long()) {
        for (word, instead) in *words {
            assert!(typed.contains(word), "{line}: {word}");
            typed = match *word {
                "" => format!("{typed} {instead}"),
                word => typed.replace(word, instead),
            };
        }
    }
    let mut tries = Vec::new();
    for seed in 4..7 {
        let seeded =
            if typed.contains("--seed") { typed.clone() } else { format!("{typed} --seed {seed}") };
        let other = (slow.long == Long::Beside)
            .then(|| shell_on(folder, url, &seeded.replace("--part 1/2", "--part 2/2")));
        let ended = shell_on(folder, url, &seeded).ended(patience);
        if let Some(other) = other {
            other.ended(patience);
        }
        if codes.contains(&ended.code) {
            // A demo says first what it will do.
            let is_demo = line.starts_with("sekisho demo");
            assert!(is_demo || ended.code == said(&ended.out), "{typed}: {ended:?}");
            return;
        }
        tries.push(ended);
    }
    panic!("{typed} never ended with {codes:?}: {tries:?}");
}

/// It ends as the help promises, and as its own first words say.
#[track_caller]
fn works(folder: &Path, line: &str, codes: &[i32]) {
    let ended = shell(folder, line).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
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
        ("fails", 3),
        ("DEVIATES", 3),
        ("NOT QUALIFIED", 3),
        ("inconclusive", 4),
        ("NOT PRECISE", 4),
        ("one part, so no verdict", 4),
        ("too few to tell", 4),
        ("too short to tell", 4),
        ("invalid", 5),
        ("does not fit", 6),
    ];
    words.iter().find(|(word, _)| out.starts_with(word)).map_or(0, |(_, code)| *code)
}

/// All its words are understood, so that a wrong one that is added is the only thing to complain about.
#[track_caller]
fn accepted(folder: &Path, line: &str, slow: &Slow) {
    let ended = shell(folder, &format!("{line} --seed nonsense")).ended(PATIENCE);
    let elsewhere = match slow.short {
        Short::In(place) => place,
        Short::For(_) => "the short suite",
    };
    assert_eq!(ended.code, 2, "{line}, which is run in {elsewhere}: {ended:?}");
    assert!(ended.err.starts_with("error: invalid value 'nonsense' for '--seed"), "{ended:?}");
}

/// Put to a server that keeps time. It has room for all, but where a knee is looked for, which is at five
/// hundred requests a second. In the short suite for a second or two: that tells a mean, and of a quantile
/// the ninth decile where requests come by the clock. A generator that is late by a tenth of a response
/// makes a run invalid, so that the response is longer there. On a machine that others use a run may be late by itself,
/// and says so: then it is made again.
#[track_caller]
fn measures(folder: &Path, line: &str) {
    let _live = alone();
    let (places, service) = match () {
        () if line.contains("--knee") => (5, Duration::from_millis(10)),
        () if ["--rate", "--log", "--steps"].iter().any(|word| line.contains(word))
            && !is_long() =>
        {
            (1000, Duration::from_millis(100))
        }
        () => (1000, Duration::from_millis(30)),
    };
    let server = Clockwork::start(places, service);
    let mut typed = line.replace("127.0.0.1:8080", &server.address().to_string());
    assert_ne!(typed, line);
    if !is_long() {
        let short = [
            (" --duration 5s", " --duration 1s"),
            (
                " --rate 1000/s --expect 'p99<50ms'",
                " --rate 200/s --duration 2s --expect 'mean<500ms'",
            ),
            (" --knee 'p99<50ms'", " --knee 'p90<50ms' --arrivals fixed --duration 500ms"),
            (" --post /a '{}' --clients 4", " --post /a '{}' --clients 4 --duration 1s"),
            (" --log access.log --speed 10", " --log access.log --rate 100/s --duration 2s"),
            (" --steps 10s:100/s,10s:300/s", " --steps 1s:100/s,1s:200/s"),
        ];
        let (word, instead) =
            short.iter().find(|(word, _)| line.contains(word)).expect("it is one of them");
        typed = format!("{} --warmup 100ms", typed.replace(word, instead));
    }
    let mut tries = Vec::new();
    for _ in 0..4 {
        let ended = shell(folder, &typed).ended(PATIENCE);
        assert_eq!(ended.code, said(&ended.out), "{typed}: {ended:?}");
        // Within a twentieth of a second other work may be the limit of every probe: half a minute would
        // tell a knee from it, which the long suite takes.
        let is_short_knee = line.contains("--knee") && !is_long();
        if ended.code == 0 || is_short_knee && ended.code == 4 {
            return;
        }
        tries.push(ended);
    }
    panic!("{typed} never held: {tries:?}");
}

/// The database that the example of `tpcc load` has loaded.
#[track_caller]
fn verifies(folder: &Path, line: &str, codes: &[i32], loaded: &str) {
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{loaded}'"));
    assert!(line.contains(loaded), "{line}");
    works(folder, &line, codes);
}

/// Records of two parts that meet the rules together, in a folder where no other run is.
#[track_caller]
fn merges(line: &str, codes: &[i32]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for (nth, part) in (1..).zip(tpcc_records::parts(10)) {
        let path = folder.join(format!("part-{nth}.tpcc.json"));
        tpcc_records::write(&path, &format!("part-{nth}"), &part);
    }
    works(&folder, line, codes);
}

/// Into a new database of a server that keeps what it acknowledges; gives its address.
#[track_caller]
fn loads(folder: &Path, line: &str, codes: &[i32], server: &Private) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("example_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = server.url();
    ask(url.as_str(), &format!("create database {name}")).expect("it is a new name");
    let (start, _) = url.as_str().rsplit_once('/').expect("it ends in a database");
    let url = format!("{start}/{name}");
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    let line = line.replace("--warehouses 10", warehouses());
    assert!(line.contains(&url) && line.contains(warehouses()), "{line}");
    works(folder, &line, codes);
    url
}

/// Load of own SQL on a database of a private server that holds what the scripts name, or on a private one
/// that they fill. Judged as it says: the machine may have no time for it.
#[track_caller]
fn own_sql(folder: &Path, line: &str) {
    let tables = "create table if not exists item (id int primary key, price int); \
                  insert into item select i, i from generate_series(1, 100) i";
    let script = "\\set item random(1, 100)\nselect price from item where id = :item;\n";
    let tables_file = tables.replace("; ", ";\n");
    let files = [("shop.sql", script), ("pay.sql", script), ("browse.sql", script)];
    for (name, text) in files.into_iter().chain([("schema.sql", &*tables_file)]) {
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
    let url = database(&format!("own_sql_{}", line.len()));
    ask(&url, tables).expect("they are statements");
    let mut typed = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    if !line.contains("DATABASE_URL") && !line.contains("--init") {
        typed += &format!(" --db '{url}'");
    }
    // Short, but for the search, which is short by its limit.
    typed += if line.contains("--knee") { " --duration 100ms" } else { " --duration 500ms" };
    let ended = shell(folder, &typed).ended(PATIENCE);
    assert!([0, 3, 4, 5].contains(&ended.code), "{line}: {ended:?}");
    assert!(ended.out.contains("measuring "), "{line}: {ended:?}");
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
