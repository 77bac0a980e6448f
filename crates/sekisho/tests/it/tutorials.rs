//! The tutorials, typed: each command of a page in its order, and what the page quotes of its output.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::browser::Scratch;
use crate::clockwork::Clockwork;
use crate::command::{Ended, PATIENCE, Running, shell};
use crate::site::alone;
use crate::tpcc::database;

/// Measurements that others who use the machine may spoil.
const TRIES: usize = 8;

/// A command of a page.
#[derive(Debug, Default, PartialEq)]
struct Step {
    command: String,
    /// It goes on while the others are typed.
    is_server: bool,
    code: i32,
    /// Lines of its output.
    quoted: Vec<String>,
}

/// The commands in the blocks of a page that are marked `console`. A line that begins with `$ ` is typed, those
/// below it are quoted.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        match (line.strip_prefix("$ "), line.starts_with("```")) {
            (_, true) => is_console = line == "```console",
            (Some(typed), _) if is_console => {
                let (typed, code) = typed.split_once(" # exit code ").unwrap_or((typed, "0"));
                let command = typed.trim_end_matches(" &").to_owned();
                let is_server = command != typed;
                let code = code.parse().expect("a number");
                steps.push(Step { command, is_server, code, quoted: Vec::new() });
            }
            (None, _) if is_console => {
                steps.last_mut().expect("a command comes first").quoted.push(line.to_owned());
            }
            _ => {}
        }
    }
    steps
}

/// Text without its line breaks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first quoted line that is not in an output, in its order. Words with a digit (numbers, times, ids) may be others,
/// and so may all behind `...`; what stands between them counts.
fn missing<'a>(quoted: &'a [String], out: &str) -> Option<&'a str> {
    let out = flat(out);
    let mut rest = &*out;
    for line in quoted {
        let line_cut = line.split("...").next().unwrap_or_default();
        for phrase in phrases(line_cut) {
            match rest.find(&phrase) {
                Some(at) => rest = &rest[at + phrase.len()..],
                None => return Some(line),
            }
        }
    }
    None
}

/// The words of a line between those with a digit, and units beside numbers, which turn with their size.
fn phrases(line: &str) -> Vec<String> {
    const UNITS: [&str; 6] = ["s", "s,", "ms", "ms,", "us", "us,"];
    let words: Vec<&str> = line.split_whitespace().collect();
    let varies = |word: &&str| word.contains(|c: char| c.is_ascii_digit()) || UNITS.contains(word);
    let pieces = words.split(varies).filter(|piece| !piece.is_empty());
    pieces.map(|piece| piece.join(" ")).collect()
}

#[test]
fn what_stands_between_numbers_counts() {
    let is_in = |quoted: &str| {
        missing(&[quoted.to_owned()], "holds: p99<50ms: 12.3 ms (at most)").is_none()
    };
    assert!(is_in("holds: p99<40ms: 1.4 s (at most)"));
    assert!(is_in("holds: p99<40ms: ..."));
    assert!(!is_in("holds: p99<50ms: 12.3 ms (at least)"));
    assert!(!is_in("40 fails"));
}

/// A step that did not end as the page says.
struct Otherwise {
    told: String,
    /// True if whatever else runs on the machine may have done that to a measurement.
    may_be_noise: bool,
}

/// Types a step in a folder. A server is handed over, as it goes on.
fn typed(
    folder: &Path,
    step: &Step,
    places: &[(&str, String)],
) -> Result<Option<Running>, Otherwise> {
    let line =
        places.iter().fold(step.command.clone(), |line, (here, there)| line.replace(here, there));
    let told = |ended: &dyn std::fmt::Debug| format!("{line}: {ended:?}");
    if !line.starts_with("sekisho ") {
        let ended = Command::new("sh").current_dir(folder).args(["-c", &line]).output();
        let ended = ended.expect("there is a shell");
        let out = String::from_utf8_lossy(&ended.stdout);
        let lacks = missing(&step.quoted, &out);
        let is_right = ended.status.code() == Some(step.code) && lacks.is_none();
        let told = format!("{lacks:?} of {}", told(&ended));
        return if is_right { Ok(None) } else { Err(Otherwise { told, may_be_noise: false }) };
    }
    let running = shell(folder, &line);
    if step.is_server {
        running.says("listening on");
        return Ok(Some(running));
    }
    let ended: Ended = running.ended(PATIENCE);
    let lacks = missing(&step.quoted, &ended.out);
    if ended.code == step.code && lacks.is_none() {
        return Ok(None);
    }
    // A limit that fails, too few requests, an invalid run, a model that does not fit: not a wrong command.
    let may_be_noise = (3..=6).contains(&ended.code) || ended.code == step.code;
    Err(Otherwise { told: format!("{lacks:?} of {}", told(&ended)), may_be_noise })
}

/// Types a page from its first command to its last, in a folder of its own.
fn page(text: &str, places: &[(&str, String)]) -> Result<(), Otherwise> {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let mut servers = Vec::new();
    let mut result = Ok(());
    for step in &steps(text) {
        match typed(&folder, step, places) {
            Ok(server) => servers.extend(server),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    for server in servers {
        server.signal("TERM");
        assert_eq!(server.ended(PATIENCE).code, 0);
    }
    result
}

/// Types a page, a few times if need be: each time with these addresses in the place of those that it speaks of.
#[track_caller]
fn types(text: &str, addresses: impl Fn() -> Vec<(&'static str, String)>) {
    let _live = alone();
    assert!(steps(text).len() >= 4, "{:?}", steps(text));
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        match page(text, &addresses()) {
            Ok(()) => return,
            Err(Otherwise { told, may_be_noise }) => {
                assert!(may_be_noise, "{told}");
                tries.push(told);
            }
        }
    }
    panic!("the page never ended as it says: {tries:#?}");
}

/// An address on which nobody listens.
fn free() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a port on loopback").to_string()
}

/// Types a page before a server with so many places and this service, which keeps time.
#[track_caller]
fn types_before(server: &Clockwork, text: &str) {
    let address = server.address().to_string();
    types(text, || vec![("127.0.0.1:8080", address.clone()), ("127.0.0.1:8081", free())]);
}

#[test]
fn your_web_service() {
    let server = Clockwork::start(1, Duration::from_millis(10));
    types_before(&server, include_str!("../../../../docs/your-web-service.md"));
}

#[test]
fn your_ci() {
    let server = Clockwork::start(1000, Duration::from_millis(300));
    types_before(&server, include_str!("../../../../docs/your-ci.md"));
}

#[test]
fn your_postgresql() {
    let url = database("shop");
    let (account, place) = url.split_once('@').expect("it has a user");
    let (_, name) = place.split_once('/').expect("it has a database");
    types(include_str!("../../../../docs/your-postgresql.md"), || {
        let gate = free();
        vec![
            ("\"$DATABASE_URL\"", format!("'{url}'")),
            ("\"$GATED_URL\"", format!("'{account}@{gate}/{name}'")),
            ("127.0.0.1:6432", gate),
        ]
    });
}

/// The page's first block is the file that its commands read.
#[test]
fn agents_by_rules() {
    let text = include_str!("../../../../docs/agents-rules.md");
    let (_, file) = text.split_once("```toml\n").expect("it has a file");
    let (file, _) = file.split_once("```").expect("the block ends");
    let scratch = Scratch::new();
    let rules = scratch.join("rules.toml");
    std::fs::write(&rules, file).expect("a folder of our own");
    types(text, || {
        let address = free();
        vec![
            ("rules.toml", rules.display().to_string()),
            ("localhost:7080", address.clone()),
            ("127.0.0.1:7080", address),
        ]
    });
}

/// On a port that is free: the page's own is one on which somebody may listen.
#[test]
fn jungle() {
    const CLIENTS: [&str; 12] = [
        "sekisho jungle put ",
        "sekisho jungle append ",
        "sekisho jungle get ",
        "sekisho jungle blame ",
        "sekisho jungle at ",
        "sekisho jungle diff ",
        "sekisho jungle revert ",
        "sekisho jungle branch ",
        "sekisho jungle merge ",
        "sekisho jungle watch ",
        "sekisho jungle log ",
        "sekisho jungle backup ",
    ];
    types(include_str!("../../../../docs/jungle.md"), || {
        let address = free();
        let serve = "sekisho jungle serve ";
        let told = CLIENTS.map(|call| (call, format!("{call}--server http://{address} ")));
        let mut places = Vec::from(told);
        places.push((serve, format!("{serve}--listen {address} ")));
        places
    });
}

#[test]
fn a_page_that_says_something_else_is_found_out() {
    let step = |command: &str, code, quoted: &[&str]| Step {
        command: command.to_owned(),
        code,
        quoted: quoted.iter().map(|line| (*line).to_owned()).collect(),
        ..Step::default()
    };
    let text = "```console\n$ sekisho runs # exit code 3\nnothing 4\n$ cat x &\n```\n$ not\n```sh\n$ nor\n```\n";
    let server = Step { is_server: true, ..step("cat x", 0, &[]) };
    assert_eq!(steps(text), [step("sekisho runs", 3, &["nothing 4"]), server]);
    let scratch = Scratch::new();
    let folder = scratch.join("");
    // None if it ended as it says, else true if noise may have done that.
    let otherwise = |step: &Step| {
        typed(&folder, step, &[("NOBODY", "7".into())]).err().map(|other| other.may_be_noise)
    };
    assert_eq!(otherwise(&step("echo of NOBODY here", 0, &["of 5"])), None);
    assert_eq!(otherwise(&step("echo 7 of here", 0, &["here", "of"])), Some(false));
    assert_eq!(otherwise(&step("echo here", 3, &["here"])), Some(false));
    assert_eq!(otherwise(&step("sekisho explain nobody", 0, &[])), Some(false));
    assert_eq!(otherwise(&step("sekisho explain nobody", 2, &[])), None);
}
