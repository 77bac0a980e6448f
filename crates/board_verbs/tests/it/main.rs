//! The verbs as `sekisho` calls them, without its other verbs.
#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Parser;
use cli::{Failure, Session, Verdict};
use serde_json::Value;

#[derive(Parser)]
struct Board {
    #[command(flatten)]
    args: board_verbs::Args,
}

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("sekisho-board-verbs-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ask(address: &str, request: &str, body: &str) -> String {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if begun.elapsed() > Duration::from_secs(60) => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn serve(words: &[&str], session: &Session) -> Result<(Verdict, String), Failure> {
    let Board { args } = Board::parse_from([&["board", "serve"], words].concat());
    let mut out = Vec::new();
    let verdict = board_verbs::run(&args, session, &mut out)?;
    Ok((verdict, String::from_utf8(out).unwrap()))
}

/// What was written is there after a stop and a start, and each stop says that everything acknowledged is stored.
#[test]
fn a_board_is_served_stopped_and_served_again() {
    let folder = Folder::new("serve");
    for store in ["jungle", "sqlite"] {
        let directory = folder.file(store);
        for (round, json) in [(0, false), (1, true)] {
            let session = Session::new();
            let address = format!("127.0.0.1:{}", port());
            let mut words = vec!["--store", store, "--at", &address, "--directory", &directory];
            words.extend(json.then_some("--json"));
            let (verdict, out) = std::thread::scope(|scope| {
                let serving = scope.spawn(|| serve(&words, &session).unwrap());
                if round == 0 {
                    let opened = ask(&address, "POST /threads", "author=ann&title=One");
                    assert!(opened.starts_with("HTTP/1.1 303"), "{opened}");
                }
                let body = "author=bob&body=written";
                let appended = ask(&address, "POST /threads/1/messages", body);
                assert!(appended.starts_with("HTTP/1.1 303"), "{appended}");
                let page = ask(&address, "GET /threads/1", "");
                assert_eq!(page.matches("written").count(), round + 1, "{store}: {page}");
                session.interrupt.store(true, Ordering::Relaxed);
                serving.join().unwrap()
            });
            assert_eq!(verdict, Verdict::Holds, "{out}");
            if json {
                let lines: Vec<Value> =
                    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                assert_eq!(lines[0]["format"], "sekisho/board-serve-start/1");
                assert_eq!((&lines[0]["messages"], &lines[0]["store"]), (&1.into(), &store.into()));
                assert_eq!(lines[1]["format"], "sekisho/board-serve/1");
                assert_eq!(
                    (&lines[1]["verdict"], &lines[1]["messages"]),
                    (&"holds".into(), &2.into())
                );
            } else {
                assert!(out.starts_with(&format!("listening on http://{address}\n")), "{out}");
                assert!(out.contains("holds: 1 threads and 1 messages are stored"), "{out}");
            }
        }
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_the_way_out() {
    for (words, told) in [
        (
            &["--store", "jungle", "--at", "0.0.0.0:7430", "--directory", "/nowhere"][..],
            "127.0.0.1",
        ),
        (&["--store", "postgres", "--directory", "d"], "leave it out"),
        (&["--store", "sqlite", "--postgres", "15"], "leave it out"),
    ] {
        let refused = serve(words, &Session::new()).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains(told), "{words:?}: {refused}");
    }
    assert!(!Path::new("/nowhere").exists(), "what was refused has made nothing");
    let wrong = Board::try_parse_from(["board", "serve", "--store", "jungel"]).err().unwrap();
    assert!(wrong.to_string().contains("'jungle'"), "{wrong}");
}

/// With `SEKISHO_SCHEMAS=write` they are written anew instead, as `cargo xtask schemas` does for all verbs.
#[test]
fn the_schemas_in_docs_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let is_writing = std::env::var("SEKISHO_SCHEMAS").is_ok_and(|word| word == "write");
    for format in board_verbs::formats() {
        let schema = format.schema.as_value();
        let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
        let file = folder.join(format.file());
        if is_writing {
            std::fs::write(&file, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text, "{}", file.display());
    }
}
