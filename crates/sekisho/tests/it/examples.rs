//! Every verb has its help, and what the help shows as an example works when it is typed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use measure::PartRecord;
use postgres::{Private, Settings};
use serde_json::Value;

use crate::agents_asked;
use crate::agents_database;
use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::clockwork::Clockwork;
use crate::command::{Ended, PATIENCE, sekisho, shell, shell_on};
use crate::jungle;
use crate::parts::meeting_place;
use crate::placing::directories;
use crate::records;
use crate::replaying;
use crate::serving_agents;
use crate::site::{alone, server, write_documents};
use crate::sources::write_sources;
use crate::tpcc::{ask, database};
use crate::tpcc_records::{self, stressed};
use crate::walks::nginx_by_tls;

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
    records::write_knee(&folder.join(".sekisho/runs/RUN.knee.json"), &records::knee());
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
const KNOWN: [&str; 80] = [
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

/// An example of `jungle`, with a server that has a board.
fn of_jungle(folder: &Path, line: &str, codes: &[i32], address: &str) {
    match line.split(' ').nth(2) {
        Some("serve") => serves(&format!("{line} --listen 127.0.0.1:0")),
        // The copy that the example of `backup` has made has no server, and a user is made without one.
        Some("verify" | "user") => works(folder, line, codes),
        _ => works(folder, &format!("{line} --server http://{address}"), codes),
    }
}

/// An example of `agents`, with a server that has alice, or with a database.
fn of_agents(folder: &Path, line: &str, codes: &[i32], address: &str, database: &str) {
    match line.split(' ').nth(2) {
        Some("serve") => {
            let line = line.replace("\"$DATABASE_URL\"", &format!("'{database}'"));
            serving_agents::serves(folder, &line);
        }
        Some("init") => works_on(folder, database, line, codes),
        Some("explain" | "user") => works(folder, line, codes),
        _ => {
            // Others that come later are about alice: it is another one that ends.
            let line = line.replace("delete alice", "delete nobody");
            works(folder, &format!("{line} --url http://{address}"), codes);
        }
    }
}

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
    let release = server.programs().version();
    let places_of_tables = Scratch::new();
    let (_, disks) = directories(&places_of_tables, server.user());
    let jungle = jungle::with_a_board(&folder);
    let agents = agents_asked::with_alice(&folder);
    let agents_url = agents_database::made("examples_of_agents");
    let mut loaded = None;
    for Example { line, codes } in all {
        // The examples of `fit` write over it.
        fs::write(folder.join("scenario.toml"), SCENARIO).expect("a folder of our own");
        let of_server = line.starts_with("sekisho gate ") || line.starts_with("sekisho measure ");
        let is_part = line.contains(" --part ");
        let is_judged = is_part || line.contains(" --knee ");
        assert!(!of_server || is_judged || codes == [0], "{line} is ended by hand, or measures");
        let database = || loaded.as_deref().expect("`load` comes before");
        match (slow(&line), line.split(' ').nth(1)) {
            (Some(of), _) if of.runs() => {
                takes_long(&folder, (&line, &codes), of, (database(), release));
            }
            (Some(of), _) => accepted(&folder, &line, of),
            (_, Some("agents")) => of_agents(&folder, &line, &codes, &agents.address, &agents_url),
            (_, Some("gate")) if line.contains(" postgres ") => monitors(&folder, &line),
            (_, Some("gate")) => gates(&folder, &line),
            (_, Some("jungle")) => of_jungle(&folder, &line, &codes, &jungle.address),
            (_, Some("board")) => serves(&format!("{line} --at 127.0.0.1:0")),
            (_, Some("measure")) if line.contains(" postgres ") => {
                own_sql(&folder, &line, &codes);
            }
            (_, Some("measure")) if line.contains(" merge ") => merges_runs(&line, &codes),
            (_, Some("measure")) if is_part => takes_part(&folder, &line, &codes),
            (_, Some("measure")) if line.contains("https://") => by_http2(&folder, &line, &codes),
            (_, Some("measure")) => measures(&folder, &line, &codes),
            (_, Some("tpcc")) if line.contains(" report ") => reports(&line, &codes),
            (_, Some("tpcc")) if line.contains(" merge ") => merges(&line, &codes),
            (_, Some("tpcc")) if line.contains(" place ") => {
                places(&folder, (&line, &codes), &disks, (database(), release));
            }
            (_, Some("tpcc")) if line.contains(" verify ") => {
                verifies(&folder, &line, &codes, database());
            }
            (_, Some("tpcc")) => loaded = Some(loads(&folder, &line, &codes, &server)),
            _ => works(&folder, &line, &codes),
        }
    }
    jungle.stop();
    agents.stop();
    server.stop().expect("it runs");
}

/// It listens, and stops when it is told to.
#[track_caller]
fn serves(line: &str) {
    // In a folder of its own: the server of the other examples has the directory that all of them name.
    let scratch = Scratch::new();
    let running = shell(&scratch.join(""), line);
    running.says("listening on http://127.0.0.1:");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{line}: {ended:?}");
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
    /// Only its words are held to be understood. The tests that do as it does, but for its size: of each the
    /// file below `crates`, and the name.
    In(&'static [&'static str]),
}

/// What becomes of it in the long suite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    /// It is run as it is typed, but for the size of a database: 10 warehouses, and 2 that are looked for.
    Run,
    /// The same, and the other part beside it.
    Beside,
    /// It is what it is in the short suite.
    Not,
}

/// Of its measurements only the judging is tested, on rows that are made up: nothing presses Apache in a test.
const FUJITA: &[&str] = &[
    "studies/src/fujita.rs: every_claim_that_needs_no_measurement_is_judged_as_expected",
    "studies/src/fujita/live/clients.rs: the_caption_tells_how_far_from_the_line_the_runs_are",
    "studies/src/fujita/live/closed.rs: one_wrong_row_decides_and_one_uncertain_row_leaves_it_open",
    "studies/src/fujita/live/mixes.rs: the_caption_tells_how_much_longer_small_documents_took",
    "studies/src/fujita/live/sizes.rs: the_caption_tells_how_far_from_their_lines_the_runs_are",
];
const NAKAMURA: &[&str] = &["studies/src/nakamura.rs: every_claim_is_judged_as_expected"];

const SLOW: [Slow; 29] = [
    slow_in(
        "sekisho demo jungle",
        &["sekisho/tests/it/board.rs: the_demo_says_as_text_what_it_found_and_what_comes_next"],
        Long::Run,
    ),
    slow_in(
        "sekisho demo postgres",
        &["sekisho/tests/it/tpcc_closed.rs: the_demo_on_postgresql_closes_the_loop"],
        Long::Run,
    ),
    slow_in(
        "sekisho demo monitor",
        &["sekisho/tests/it/tpcc_closed.rs: the_demo_of_the_monitor_compares_both_ways"],
        Long::Run,
    ),
    slow_for("sekisho demo agents", &[("", "--agents 5000 --one-by-one 1000")]),
    slow_in(
        "sekisho demo",
        &[
            "sekisho/tests/it/demo.rs: the_demo_closes_the_loop_and_its_report_opens",
            "sekisho/tests/it/the_loop.rs: from_measurement_to_report",
        ],
        Long::Run,
    ),
    // Servers that are pressed for hours, or a release that is fetched.
    slow_in("reproduce fujita --live", FUJITA, Long::Not),
    slow_in(
        "reproduce ohmae --live",
        &["studies/src/ohmae/live.rs: five_servers_do_as_the_simulation_says"],
        Long::Not,
    ),
    slow_in(
        "reproduce nakamura --live",
        &[
            "sekisho/tests/it/interrupt.rs: an_interrupted_reproduction_says_what_is_left_and_leaves_nothing",
            "studies/src/nakamura/tiers.rs: what_the_paper_measured_is_found_as_it_says",
        ],
        Long::Not,
    ),
    slow_in(
        "reproduce fujita",
        &["studies/src/fujita.rs: every_claim_that_needs_no_measurement_is_judged_as_expected"],
        Long::Run,
    ),
    slow_in(
        "reproduce ohmae",
        &["studies/src/ohmae.rs: every_claim_is_judged_as_expected"],
        Long::Run,
    ),
    slow_in("reproduce nakamura", NAKAMURA, Long::Run),
    slow_in("reproduce oshiro --live --full", OSHIRO, Long::Not),
    slow_in("reproduce oshiro", OSHIRO, Long::Not),
    slow_in(
        "reproduce yamamoto --live",
        &[
            "studies/src/yamamoto/live.rs: what_is_measured_is_judged_and_a_machine_that_is_too_slow_decides_nothing",
        ],
        Long::Not,
    ),
    Slow {
        part: "tpcc run --part",
        short: Short::For(&[("--warehouses 900", "--warehouses 2"), BRIEF, NOW]),
        long: Long::Beside,
    },
    slow_for(
        "tpcc run --warehouses 10 ",
        &[("--warehouses 10", "--warehouses 2"), ("10min", "2s --no-verify"), NOW],
    ),
    slow_for(
        "tpcc run --warehouses 8 ",
        &[("--warehouses 8", "--warehouses 2"), ("30s", "2s --no-verify"), NOW],
    ),
    slow_for("tpcc run", &[BRIEF, NOW]),
    slow_for("tpcc stress --connections 8", &[("", "--measure 1s"), NOW]),
    slow_for("tpcc stress --connections 1,", &[("", "--measure 500ms --no-verify"), NOW]),
    // Three block devices that not every machine can make.
    slow_in(
        "tpcc place --simulate",
        &[
            "sekisho/tests/it/placing.rs: three_disks_are_devices_where_the_machine_can_make_them",
            "sekisho/tests/it/placing.rs: three_disks_are_simulated_by_the_model",
        ],
        Long::Not,
    ),
    slow_for(
        "tpcc tune --warehouses 4 ",
        &[("--warehouses 4", "--warehouses 2"), ("", "--measure 1s --no-verify"), NOW],
    ),
    slow_for(
        "tpcc tune --warehouses 10 --db \"$DATABASE_URL\" --apply",
        &[
            ("--warehouses 10", "--warehouses 2"),
            ("", "--only wal_compression --rounds 2 --longest 1s"),
            ("", "--measure 1s --no-verify"),
            NOW,
        ],
    ),
    slow_for(
        "tpcc tune",
        &[("--warehouses 10", "--warehouses 2"), ("", "--measure 1s --no-verify"), NOW],
    ),
    slow_for("tpcc acid", &[]),
    // A server of its own, which it kills.
    slow_for("tpcc crash --rounds 1", &[("", "--under-load 2s --connections 4")]),
    slow_for("tpcc crash", &[("", "--rounds 1 --under-load 2s --connections 4")]),
    slow_for("tpcc find --max-warehouses 60", &[("60", "1"), SEARCHED, NOW]),
    // A confirmation of two hours.
    Slow {
        part: "tpcc find",
        short: Short::For(&[("200", "1"), ("--confirm 2h", ""), SEARCHED, NOW]),
        long: Long::Not,
    },
];

/// A board on three stores, as small as it goes.
const OSHIRO: &[&str] =
    &["sekisho/tests/it/board.rs: the_experiment_of_the_paper_judges_every_claim"];

/// The story: the list named "a test beside it, which judges its claims" where there was none.
#[test]
fn each_test_that_stands_for_a_slow_example_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for slow in &SLOW {
        let Short::In(tests) = slow.short else { continue };
        assert!(!tests.is_empty(), "{}: nothing stands for it", slow.part);
        for test in tests {
            let (file, name) = test.split_once(": ").expect("a file and a name");
            let text = fs::read_to_string(crates.join(file));
            let text = text.unwrap_or_else(|error| panic!("{}: {file}: {error}", slow.part));
            // Between the attribute and the name stand other attributes at most.
            let is_test = text.split("#[test]").skip(1).any(|rest| {
                rest.split_once("fn ")
                    .is_some_and(|(_, rest)| rest.starts_with(&format!("{name}(")))
            });
            assert!(is_test, "{}: {file} has no test `{name}`", slow.part);
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} tests");
}

/// So short that nothing can be told.
const BRIEF: (&str, &str) = ("", "--measure 2s --no-verify");
const SEARCHED: (&str, &str) = ("", "--probe 1s --confirm 1s");

/// Measured from the start on.
const NOW: (&str, &str) = ("", "--ramp 0s");

const fn slow_in(part: &'static str, tests: &'static [&'static str], long: Long) -> Slow {
    Slow { part, short: Short::In(tests), long }
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
        !self.is_short() || matches!(self.short, Short::For(_))
    }

    /// Whether it is run for seconds only, or not at all.
    fn is_short(&self) -> bool {
        !is_long() || self.long == Long::Not
    }
}

/// The warehouses that are loaded for examples.
fn warehouses() -> &'static str {
    if is_long() { "--warehouses 10" } else { "--warehouses 2" }
}

/// In the short suite on the database that the example of `tpcc load` has loaded, named or not; in the
/// long one as it is typed. One in twenty runs by the rules is said to deviate, and on a machine that
/// others use terminals may be late: then it is done again, with other chance.
#[track_caller]
fn takes_long(
    folder: &Path,
    (line, codes): (&str, &[i32]),
    slow: &Slow,
    (database, release): (&str, &str),
) {
    let _live = alone();
    let patience = if is_long() { Duration::from_secs(3600) } else { PATIENCE };
    let is_named = line.contains("\"$DATABASE_URL\"");
    // Whose server is killed has none of others.
    let is_own = line.contains("tpcc crash");
    let url = (is_named || !is_long() && !is_own).then_some(database);
    let mut typed = line.to_owned();
    if !slow.is_short() {
        typed = typed.replace("--warehouses 900", warehouses());
        typed = typed.replace("--max-warehouses 60", "--max-warehouses 2");
    }
    if let (Short::For(words), true) = (&slow.short, slow.is_short()) {
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
            names_its_server(line, &ended, release);
            return;
        }
        tries.push(ended);
    }
    panic!("{typed} never ended with {codes:?}: {tries:?}");
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

/// It ends as the help promises, and as its own first words say.
#[track_caller]
fn works_on(folder: &Path, database: &str, line: &str, codes: &[i32]) {
    let ended = shell_on(folder, Some(database), line).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
    assert_ne!(ended.out, "", "{line}: {ended:?}");
}

#[track_caller]
fn works(folder: &Path, line: &str, codes: &[i32]) {
    let ended = shell(folder, line).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
    assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
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

/// All its words are understood, so that a wrong one that is added is the only thing to complain about.
#[track_caller]
fn accepted(folder: &Path, line: &str, slow: &Slow) {
    let ended = shell(folder, &format!("{line} --seed nonsense")).ended(PATIENCE);
    let elsewhere = match slow.short {
        Short::In(tests) => tests,
        Short::For(_) => &["the short suite"],
    };
    assert_eq!(ended.code, 2, "{line}, which is run in {elsewhere:?}: {ended:?}");
    assert!(ended.err.starts_with("error: invalid value 'nonsense' for '--seed"), "{ended:?}");
}

/// Put to a server that keeps time. It has room for all, but where a knee is looked for, which is at five
/// hundred requests a second. In the short suite for a second or two: that tells a mean, and of a quantile
/// the ninth decile where requests come by the clock. A generator that is late by a tenth of a response
/// makes a run invalid, so that the response is longer there. On a machine that others use a run may be late by itself,
/// and says so: then it is made again.
#[track_caller]
fn measures(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let (places, service) = match () {
        () if line.contains("--knee") => (5, Duration::from_millis(10)),
        () if ["--rate", "--log", "--steps"].iter().any(|word| line.contains(word))
            && !is_long() =>
        {
            (1000, Duration::from_millis(300))
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
            (
                " --knee 'p99<50ms'",
                " --knee 'p90<50ms' --arrivals fixed --duration 500ms --budget 20s",
            ),
            (" --post /a '{}' --clients 4", " --post /a '{}' --clients 4 --duration 1s"),
            (" --log access.log --speed 10", " --log access.log --rate 100/s --duration 2s"),
            (" --steps 10s:100/s,10s:300/s", " --steps 1s:100/s,1s:200/s"),
        ];
        let (word, instead) =
            short.iter().find(|(word, _)| line.contains(word)).expect("it is one of them");
        typed = format!("{} --warmup 100ms", typed.replace(word, instead));
    }
    until_promised(folder, &typed, codes);
}

/// Until it ends as the help promises. What it says is what it ends with, each time.
#[track_caller]
fn until_promised(folder: &Path, typed: &str, codes: &[i32]) {
    let mut tries = Vec::new();
    for _ in 0..8 {
        let ended = shell(folder, typed).ended(PATIENCE);
        let said_of = ended.out.strip_prefix("measuring ").and_then(|out| out.split_once('\n'));
        let out = said_of.map_or(&*ended.out, |(_, out)| out);
        assert_eq!(ended.code, said(out), "{typed}: {ended:?}");
        if codes.contains(&ended.code) {
            return;
        }
        // Nothing but the machine's business is a reason to do it again.
        assert_eq!(ended.code, 5, "{typed}: {ended:?}");
        tries.push(ended);
    }
    panic!("{typed} never ended with {codes:?}: {tries:?}");
}

/// Beside the other parts of the run, all on this machine, at a rate for it.
#[track_caller]
fn takes_part(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let server = Clockwork::start(1000, Duration::from_millis(30));
    let mut typed = format!("{line} --duration 1s --warmup 100ms");
    let instead = [
        ("http://h/", format!("http://{}/", server.address())),
        ("90000/s", "150/s".to_owned()),
        ("10.0.0.5:7400", meeting_place()),
    ];
    for (word, instead) in instead {
        assert!(typed.contains(word), "{line}: {word}");
        typed = typed.replace(word, &instead);
    }
    assert!(typed.contains("--part 1/3"), "{line}");
    let part = |number: u32| typed.replace("--part 1/3", &format!("--part {number}/3"));
    let parts: Vec<_> = (1..=3).map(|number| shell(folder, &part(number))).collect();
    for part in parts {
        let ended = part.ended(PATIENCE);
        assert!(codes.contains(&ended.code), "{line}: {ended:?}");
        assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
    }
}

/// Put to an nginx whose certificate nobody has signed.
#[track_caller]
fn by_http2(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("www")).expect("a folder of our own");
    let server = nginx_by_tls(&scratch.join("www"));
    let mut typed = line.replace("127.0.0.1:8443", &server.address.to_string());
    assert!(typed != line && typed.contains("--http2"), "{line}");
    if !is_long() {
        typed = format!("{typed} --duration 1s --warmup 100ms");
    }
    until_promised(folder, &typed, codes);
}

/// On directories that stand for disks, of the user who has the server.
#[track_caller]
fn places(
    folder: &Path,
    (line, codes): (&str, &[i32]),
    disks: &str,
    (loaded, release): (&str, &str),
) {
    let typed = line.replace("/disk1,/disk2,/disk3", disks);
    assert_ne!(typed != line, line.contains("--undo"), "{line}");
    // Without a word a server of its own is made in the long suite; in the short one the plan is told.
    let is_named = line.contains("\"$DATABASE_URL\"");
    let url = (is_named || !is_long()).then_some(loaded);
    let is_short = !is_long() && !line.contains("--undo");
    let short = if is_short { " --ramp 0s --measure 1s --connections 2" } else { "" };
    let ended = shell_on(folder, url, &format!("{typed}{short}")).ended(PATIENCE);
    assert!(codes.contains(&ended.code), "{line}: {ended:?}");
    assert_eq!(ended.code, said(&ended.out), "{line}: {ended:?}");
    // Nothing is measured when all is put back.
    if !line.contains("--undo") {
        names_its_server(line, &ended, release);
    }
}

/// The database that the example of `tpcc load` has loaded.
#[track_caller]
fn verifies(folder: &Path, line: &str, codes: &[i32], loaded: &str) {
    let line = line.replace("\"$DATABASE_URL\"", &format!("'{loaded}'"));
    assert!(line.contains(loaded), "{line}");
    works(folder, &line, codes);
}

/// Of runs that belong on one page, in a folder where no other example has left its runs.
#[track_caller]
fn reports(line: &str, codes: &[i32]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    prepare(&folder);
    works(&folder, line, codes);
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

/// Records of two parts of a run, in a folder where no other run is.
#[track_caller]
fn merges_runs(line: &str, codes: &[i32]) {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for number in 1..=2 {
        let mut part = records::record(4);
        part.header.part = Some(PartRecord {
            part: format!("{number}/2").parse().expect("it is one"),
            start_us: 1_800_000_000_000_000,
            clock_error_s: 1e-4,
            late_s: 1e-5,
        });
        records::write(&folder.join(format!("part-{number}.jsonl")), &part);
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
/// that they fill. A transaction takes a tenth of a second, but where a knee is looked for, so that what other
/// work does to the generator counts for little.
#[track_caller]
fn own_sql(folder: &Path, line: &str, codes: &[i32]) {
    let _live = alone();
    let tables = "create table if not exists item (id int primary key, price int); \
                  insert into item select i, i from generate_series(1, 100) i";
    let is_knee = line.contains("--knee");
    let rest = if is_knee { "0.005" } else { "0.1" };
    let script = format!(
        "\\set item random(1, 100)\nselect price, pg_sleep({rest}) from item where id = :item;\n"
    );
    let tables_file = tables.replace("; ", ";\n");
    let files = [("shop.sql", &script), ("pay.sql", &script), ("browse.sql", &script)];
    for (name, text) in files.into_iter().chain([("schema.sql", &tables_file)]) {
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
    let url = database(&format!("own_sql_{}", line.len()));
    ask(&url, tables).expect("they are statements");
    let mut typed = line.replace("\"$DATABASE_URL\"", &format!("'{url}'"));
    if !line.contains("DATABASE_URL") && !line.contains("--init") {
        typed += &format!(" --db '{url}'");
    }
    typed = typed.replace("--rate 200/s", "--rate 50/s");
    // Short, but for the search, which is short by its limit.
    typed += if is_knee { " --duration 1s --budget 10s" } else { " --duration 1s" };
    until_promised(folder, &typed, codes);
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
