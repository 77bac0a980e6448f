//! A file of JSON lines as a source of messages.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use agents_server::{Server, ServerSpec, SourceSpec, StartError};
use agents_store::{Memory, Store};

use crate::delivering::{accepted, rules, spec};
use crate::sink::request;

type Messages = Arc<dyn Store<agents_rules::Message>>;

/// A folder of its own, that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("agents-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("orders.jsonl")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn started(folder: &Folder, message: &str, store: &Messages) -> Result<Server, StartError> {
    let sources = vec![SourceSpec { message: message.to_owned(), file: folder.file() }];
    let directory = Some(folder.0.join("server"));
    Server::start(&ServerSpec { sources, directory, ..spec() }, rules(&[]), store.clone())
}

fn append(file: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Waits until something of the server is so.
#[track_caller]
fn until<T: std::fmt::Debug>(look: impl Fn() -> T, fits: impl Fn(&T) -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = look();
        if fits(&seen) {
            return;
        }
        assert!(Instant::now() < end, "{seen:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn count(server: &Server) -> f64 {
    let (_, _, text) = request(server.address(), "GET /agents/alice", &[], "");
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    told["state"]["count"].as_f64().unwrap_or(-1.0)
}

/// Whole lines count once each, also across an end of the server; a line that is no message is told with its
/// place, and those after it count.
#[test]
fn lines_count_once_each_whenever_they_come() {
    let folder = Folder::new("source");
    let store: Messages = Arc::new(Memory::new());
    let server = started(&folder, "order", &store).unwrap();
    accepted(&server, "PUT /agents/alice", "{}");
    until(|| count(&server), |count| *count == 0.0);
    // The file comes late, with an empty line, and its last line is not whole.
    append(&folder.file(), "{}\n\n{}\n{");
    until(|| count(&server), |count| *count == 2.0);
    append(&folder.file(), "}\n{\"no\": 1}\nnonsense\n{}\n");
    until(|| count(&server), |count| *count == 4.0);
    let (refused, told) = server.lines_refused();
    let told = told.unwrap();
    assert_eq!(refused, 2, "{told}");
    assert!(told.contains("orders.jsonl, byte 20: no JSON"), "{told}");
    assert!(server.end().is_drained);
    append(&folder.file(), "{}\n");
    let server = started(&folder, "order", &store).unwrap();
    until(|| count(&server), |count| *count == 5.0);
    // A crash before the place was kept: the lines come again, and are the same messages.
    server.end();
    for entry in fs::read_dir(folder.0.join("server")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("source-") {
            fs::remove_file(path).unwrap();
        }
    }
    append(&folder.file(), "{}\n");
    let server = started(&folder, "order", &store).unwrap();
    until(|| count(&server), |count| *count == 6.0);
    // Another file of the same name is read from its beginning, after a line that is too long for anything.
    let other = folder.0.join("other");
    fs::write(&other, format!("{}\n{{}}\n{{}}\n", "x".repeat(3 << 20))).unwrap();
    fs::rename(other, folder.file()).unwrap();
    until(|| count(&server), |count| *count == 8.0);
    let (_, told) = server.lines_refused();
    assert!(told.unwrap().contains("a line of more than"));
    assert!(server.end().is_drained);
}

/// The story: a file that was cut and written anew in place had lines with the ids of those before, and they were taken
/// for the same messages; one that was as long again was not even read.
#[test]
fn a_file_that_is_written_anew_is_another_one() {
    let folder = Folder::new("anew");
    let store: Messages = Arc::new(Memory::new());
    let mut server = started(&folder, "order", &store).unwrap();
    accepted(&server, "PUT /agents/alice", "{}");
    let mut wanted = 0.0;
    for (nth, text) in
        ["{}\n{}\n", "{ }\n", "{  }\n", "{}  \n", "{}\n{}\n{}\n"].into_iter().enumerate()
    {
        // Cut and written under the same inode, sooner than somebody looks, or not.
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(folder.file());
        file.unwrap().write_all(text.as_bytes()).unwrap();
        wanted += text.lines().count() as f64;
        until(|| count(&server), |count| *count == wanted);
        if nth == 2 {
            server.end();
            server = started(&folder, "order", &store).unwrap();
        }
    }
    // Nothing comes twice.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(count(&server), wanted);
    server.end();
}

#[test]
fn a_source_of_an_unknown_message_is_refused() {
    let folder = Folder::new("no-source");
    let store: Messages = Arc::new(Memory::new());
    let error = started(&folder, "odrer", &store).unwrap_err().to_string();
    assert!(error.contains("orders.jsonl") && error.contains("did you mean `order`?"), "{error}");
}
