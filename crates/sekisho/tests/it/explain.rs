//! `sekisho explain` as it is typed: verdicts, exit codes, JSON, and what it refuses.

use std::fs;
use std::path::Path;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell};

fn explain(words: &[&str]) -> Ended {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/explain");
    sekisho(&folder, &[&["explain"], words].concat())
}

#[test]
fn the_three_lines_come_first() {
    let ended = explain(&["wrk-1.txt", "wrk-16.txt"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.starts_with("holds: Little's law closes in every run"), "{flat}");
    // One processor of 2 ms a request, and nothing else: a second client only waits.
    assert!(flat.contains("knee: past it; N* = 1.0 clients"), "{flat}");
    assert!(flat.contains("next run: 2 clients for"), "{flat}");
    assert!(ended.out.contains("next: wrk -t2 -c2"), "{flat}");
    let queue = explain(&["pgbench-1.txt", "pgbench-8.txt"]);
    let flat = queue.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("`UPDATE pgbench_branches"), "{flat}");
}

#[test]
fn the_exit_code_tells_what_the_output_is_worth() {
    let cases: [(&[&str], i32); 7] = [
        (&["wrk-16.txt"], 0),
        (&["hey-16.txt"], 4),
        (&["hey-16.txt", "--clients", "16"], 0),
        (&["hey-q.txt", "--clients", "16"], 5),
        (&["hey-q.txt", "--clients", "16", "--think", "70ms"], 0),
        (&["wrk-404.txt"], 5),
        (&["vegeta-800.txt"], 5),
    ];
    for (words, code) in cases {
        let text = explain(words);
        assert_eq!(text.code, code, "{text:?}");
        let json = explain(&[words, &["--json"]].concat());
        assert_eq!((json.code, &json.objects()[0]["exit_code"]), (code, &code.into()), "{json:?}");
    }
    let object = &explain(&["wrk-16.txt", "--json"]).objects()[0];
    let found = object["little"][0]["found"].as_f64().expect("a number");
    assert!((found / (494.66 * 32.17e-3) - 1.0).abs() < 1e-9, "{object}");
    assert_eq!(object["next"]["load"]["clients"], 1, "{object}");
}

#[test]
fn what_is_no_output_is_refused() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("prose.txt"), "The quick brown fox.\n").expect("a folder of our own");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/explain");
    let wrk = fs::read_to_string(fixtures.join("wrk-16.txt")).expect("it is there");
    fs::write(folder.join("cut.txt"), &wrk[..wrk.find("Requests/sec").expect("it is there")])
        .expect("the same");
    fs::write(folder.join("wrk.txt"), &wrk).expect("the same");
    fs::write(folder.join("big.txt"), vec![b'x'; (16 << 20) + 1]).expect("the same");
    let cases = [
        ("sekisho explain prose.txt", "known are wrk, wrk2, ab, hey, oha, h2load, weighttp"),
        ("sekisho explain < prose.txt", "standard input: this is the output of no load tool"),
        ("sekisho explain cut.txt", "cut.txt: line 11: the output ends without a line"),
        ("sekisho explain absent", "cannot read the output absent"),
        ("sekisho explain wrk.txt --clients 3", "16 clients, as its output says, not 3"),
        ("sekisho explain wrk.txt --clients 1,2", "2 numbers of clients are given for 1 runs"),
        ("sekisho explain wrk.txt --alone 0s", "a time above 0 s"),
        ("sekisho explain big.txt", "larger than 16 MiB"),
    ];
    for (line, wanted) in cases {
        let ended = shell(&folder, line).ended(PATIENCE);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains(wanted), "{line}: {message}");
        assert_eq!(ended.out, "", "{line}");
    }
}
