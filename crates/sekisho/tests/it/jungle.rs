//! `sekisho jungle` as a user has it: the server is killed, stopped and starved, and what it has answered is there.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::browser::{Driven, Scratch, keep};
use crate::command::{PATIENCE, PROGRAM, Running, sekisho, shell, start};

/// A server on a port of its own.
pub(crate) struct Served {
    pub(crate) running: Running,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(folder: &Path, words: &[&str]) -> Served {
        let all = [&["jungle", "serve", "data", "--listen", "127.0.0.1:0"], words].concat();
        let running = start(folder, &all);
        let said = running.says("next:");
        let address = said
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("listening on http")?.split_once("://"));
        let address = address.unwrap_or_else(|| panic!("{said}")).1.to_owned();
        Served { running, address }
    }

    pub(crate) fn stop(self) {
        self.running.signal("TERM");
        let ended = self.running.ended(PATIENCE);
        assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
    }
}

/// A server with a tree `board` of threads and messages, and a document in `site`.
pub(crate) fn with_a_board(folder: &Path) -> Served {
    let served = Served::start(folder, &[]);
    let server = format!("--server http://{}", served.address);
    for (number, line) in [
        "put board",
        "append board root title=Hello",
        "append board 2.0 body=first",
        "append board 2.0 body=second",
        "append board root title=Old",
        "put board 2.0 pinned=yes -m 'for all to see'",
        "append board 3.0 body=reply",
        "put site",
        "append site root --document '{\"name\": \"Sekisho\", \"tags\": [1, 2]}'",
    ]
    .into_iter()
    .enumerate()
    {
        let ended = shell(folder, &format!("sekisho jungle {line} {server}")).ended(PATIENCE);
        let wanted = format!("commit {}", number + 1);
        assert!(ended.code == 0 && ended.out.starts_with(&wanted), "{line}: {ended:?}");
    }
    served
}

/// Lines, and a folder of pages.
fn files_to_import(folder: &Path) {
    fs::create_dir_all(folder.join("pages/old")).expect("a folder of our own");
    for (name, text) in [
        ("lines.jsonl", &b"{\"a\": 1}\n\n[2, \"b\"]\n"[..]),
        ("pages/old/a.json", b"{\"n\": 1}"),
        ("pages/b.md", b"# B"),
        ("pages/c.bin", b"\xff"),
    ] {
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
}

/// Every verb as JSON, each line of which is held to its schema when the command ends; formats, and exit codes.
#[test]
fn every_verb_prints_json() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_a_board(&folder);
    files_to_import(&folder);
    let server = format!("--server http://{}", served.address);
    for (line, formats, code) in [
        ("jungle get", "jungle-trees", 0),
        ("jungle get board 2.0 --depth 3", "jungle-node", 0),
        ("jungle at 3 board", "jungle-node", 0),
        ("jungle at 3", "jungle-trees", 0),
        ("jungle put board 2.0 title=Welcome", "jungle-committed", 0),
        ("jungle put board", "jungle-problem", 3),
        ("jungle append board root title=New", "jungle-committed", 0),
        ("jungle insert board root 0 title=First", "jungle-committed", 0),
        ("jungle mv board 4.0 root 0", "jungle-committed", 0),
        ("jungle rm board 5.0", "jungle-committed", 0),
        ("jungle find board title Welcome", "jungle-found", 0),
        ("jungle find board title --make-index", "jungle-found", 0),
        ("jungle log", "jungle-commits", 0),
        ("jungle log board 2.0", "jungle-log", 0),
        ("jungle blame board 2.0", "jungle-blame", 0),
        ("jungle diff board 3", "jungle-diff", 0),
        ("jungle branch board draft", "jungle-committed", 0),
        ("jungle put board 2.0 title=Ours", "jungle-committed", 0),
        ("jungle put draft 2.0 title=Theirs", "jungle-committed", 0),
        ("jungle diff board --from-tree draft", "jungle-diff", 0),
        ("jungle merge draft board", "jungle-problem", 3),
        ("jungle merge draft board --policy theirs", "jungle-committed", 0),
        ("jungle revert 10", "jungle-problem", 3),
        ("jungle revert 6", "jungle-committed", 0),
        ("jungle restore board 2.0 3", "jungle-committed", 0),
        ("jungle pick 11 board draft", "jungle-committed", 0),
        ("jungle watch --after 1 --count 1", "jungle-event jungle-event jungle-watch", 0),
        ("jungle snapshot", "jungle-snapshot", 0),
        ("jungle stats", "jungle-stats", 0),
        ("jungle export site --out site.json", "jungle-export", 0),
        ("jungle query site -1,0 '$.tags[*]' --order '$' --limit 1", "jungle-query", 0),
        ("jungle import notes site.json", "jungle-committed", 0),
        ("jungle import notes pages", "jungle-committed", 0),
        ("jungle import notes lines.jsonl --lines", "jungle-committed", 0),
        ("jungle export notes --lines --out notes.jsonl", "jungle-export", 0),
        ("jungle export notes -1,1 --folder --out out", "jungle-export", 0),
        ("jungle put board 2.0 --file page=pages/b.md", "jungle-committed", 0),
        ("jungle get board 2.0 --file page --out page.md", "jungle-blob", 0),
        ("jungle backup copy", "jungle-backup", 0),
    ] {
        let line = format!("sekisho {line} --json {server}");
        let ended = shell(&folder, &line).ended(PATIENCE);
        assert_eq!((ended.code, &*ended.err), (code, ""), "{line}: {ended:?}");
        let objects = ended.objects();
        let said: Vec<String> = objects.iter().map(|one| one["format"].to_string()).collect();
        let wanted: Vec<String> =
            formats.split(' ').map(|name| format!("\"sekisho/{name}/1\"")).collect();
        assert_eq!(said, wanted, "{line}");
        let last = objects.last().expect("it says something");
        assert_eq!(last["exit_code"], code, "{line}: {last}");
    }
    a_file_came_out_as_it_went_in(&folder, &server);
    let exported = fs::read_to_string(folder.join("site.json")).expect("it was written");
    let exported: Value = serde_json::from_str(&exported).expect("it is JSON");
    assert_eq!(exported, json!({"name": "Sekisho", "tags": [1, 2]}));
    let line = format!("sekisho jungle export notes -1,1 {server}");
    let pages: Value =
        serde_json::from_str(&shell(&folder, &line).ended(PATIENCE).out).expect("JSON");
    let wanted = json!({"b.md": "# B", "c.bin": {"base64": "/w=="}, "old": {"a.json": {"n": 1}}});
    assert_eq!(pages, wanted, "a folder is an object, and comes out as one");
    served.stop();
    those_without_a_server_print_json(&folder);
}

/// A server with two documents in `site`, of which the first has blobs, also beside an element that is a number.
fn with_documents(folder: &Path) -> (Served, String) {
    let served = Served::start(folder, &[]);
    let server = format!("--server http://{}", served.address);
    fs::write(folder.join("a.bin"), [0, 255, 7].repeat(100_000)).expect("a folder of our own");
    fs::write(folder.join("b.txt"), "# B").expect("a folder of our own");
    for line in [
        "put site",
        "append site root --document '{\"b.md\": \"B\", \"in\": {\"a.json\": [1, {\"x\": {}}]}}'",
        "append site root --document '[2]'",
        "put site 2.0 --file all=b.txt",
        "put site 2.1 --file 'odd /~name=a.bin'",
        "put site 2.2 --file list=a.bin",
        "put site 2.3 --file number=b.txt",
    ] {
        done(folder, &format!("{line} {server}"));
    }
    (served, server)
}

fn done(folder: &Path, line: &str) {
    let ended = shell(folder, &format!("sekisho jungle {line}")).ended(PATIENCE);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{line}: {ended:?}");
}

/// An import that is refused with exit code 2 and these words, and has made no tree.
#[track_caller]
fn refused(folder: &Path, line: &str, words: &[&str]) {
    let ended = shell(folder, &format!("sekisho jungle import none {line}")).ended(PATIENCE);
    assert_eq!(ended.code, 2, "{line}: {ended:?}");
    let told = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(told.contains(word), "{line}: `{word}` is not in: {told}");
    }
    let server = line.split_once("--server").expect("it names one").1;
    let trees = shell(folder, &format!("sekisho jungle get --server{server}")).ended(PATIENCE);
    assert!(!trees.out.contains("none"), "{line}: {trees:?}");
}

#[test]
fn documents_go_out_and_in_with_their_blobs() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let (served, server) = with_documents(&folder);
    let read = |name: &str| fs::read(folder.join(name)).expect("it was written");
    done(&folder, &format!("export site -1,0 --out one.json {server}"));
    done(&folder, &format!("export site --lines --out all.jsonl {server}"));
    done(&folder, &format!("export site -1,0 --folder --out out {server}"));
    for (tree, from) in [("one", "one.json"), ("all", "all.jsonl --lines"), ("out", "out")] {
        done(&folder, &format!("import {tree} {from} {server}"));
        done(&folder, &format!("export {tree} -1,0 --out {tree}.again {server}"));
        assert_eq!(read(&format!("{tree}.again")), read("one.json"), "{from}");
        done(&folder, &format!("get {tree} -1,0 --file all --out b.again {server}"));
        assert_eq!(read("b.again"), read("b.txt"));
    }
    done(&folder, &format!("export all --lines --out all.again {server}"));
    assert_eq!(read("all.again"), read("all.jsonl"));
    assert_eq!(read("out/b.md"), b"B");

    // Torn and foreign ones are told before anything is made.
    let text = String::from_utf8(read("one.json")).expect("it is JSON");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("our own");
    write("torn.json", &text[..text.len() / 2]);
    refused(&folder, &format!("torn.json {server}"), &["torn.json", "no JSON"]);
    write("torn.json", &text.replace("IyBC", "IyBD"));
    let way = "export it again";
    refused(&folder, &format!("torn.json {server}"), &["`all` at ``", "have the hash", way]);
    write("torn.json", &text.replace("document/1", "document/9"));
    refused(&folder, &format!("torn.json {server}"), &["`document/9`", "document/1", way]);
    let lines = String::from_utf8(read("all.jsonl")).expect("it is JSON");
    let cut = lines.trim_end().rsplit_once('\n').expect("it has lines").0;
    write("torn.jsonl", cut);
    let words = ["torn.jsonl", "1 documents, and its first line says 2", way];
    refused(&folder, &format!("torn.jsonl --lines {server}"), &words);
    write("torn.jsonl", &lines.replace("IyBC", "IyBD"));
    let words = ["torn.jsonl, line 2", "have the hash", way];
    refused(&folder, &format!("torn.jsonl --lines {server}"), &words);
    write("out/b.md", "C");
    let way = "export the folder again, or remove out/$jungle";
    refused(&folder, &format!("out {server}"), &["out/$jungle/export.json", "were changed", way]);
    write("out/b.md", "B");
    let blob = fs::read_dir(folder.join("out/$jungle")).expect("it is there");
    let blob = blob.map(|one| one.expect("it is there").path());
    let blob = blob.into_iter().find(|path| !path.ends_with("export.json")).expect("a blob");
    let whole = fs::read(&blob).expect("it was written");
    fs::write(&blob, &whole[1..]).expect("our own");
    refused(&folder, &format!("out {server}"), &["have the hash", way]);
    fs::remove_file(&blob).expect("our own");
    refused(&folder, &format!("out {server}"), &["No such file", way]);
    served.stop();
}

/// A document whose blobs the server does not take is not left there without them.
#[test]
fn a_document_whose_blob_is_refused_is_taken_away_again() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let (served, server) = with_documents(&folder);
    done(&folder, &format!("export site --lines --out all.jsonl {server}"));
    served.stop();
    let narrow = Served::start(&folder, &["--blob-max", "4KiB"]);
    let server = format!("--server http://{}", narrow.address);
    let line = format!("sekisho jungle import other all.jsonl --lines {server}");
    let ended = shell(&folder, &line).ended(PATIENCE);
    let told = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ended.code, 2, "{ended:?}");
    for word in ["line 2", "`odd /~name` at `/in`", "--blob-max", "was taken away again"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let left = shell(&folder, &format!("sekisho jungle get other --json {server}")).ended(PATIENCE);
    assert_eq!(left.object("jungle-node")["node"]["children"], 0, "{left:?}");
    narrow.stop();
}

/// A file that was stored beside a node is written whole, and one that is not there is not written.
fn a_file_came_out_as_it_went_in(folder: &Path, server: &str) {
    let none = format!("sekisho jungle get board 2.0 --file none --out none.md {server}");
    let ended = shell(folder, &none).ended(PATIENCE);
    assert!(ended.code == 2 && ended.err.contains("it has page"), "{ended:?}");
    assert!(!folder.join("none.md").exists());
    assert_eq!(fs::read(folder.join("page.md")).expect("it was written"), b"# B");
}

/// The same of the verbs that ask nobody; `copy` is a backup.
fn those_without_a_server_print_json(folder: &Path) {
    let verified = sekisho(folder, &["jungle", "verify", "copy", "--json"]);
    assert_eq!((verified.code, verified.objects().len()), (0, 1), "{verified:?}");
    verified.object("jungle-verify");
    let user = sekisho(folder, &["jungle", "user", "ann", "--admin", "--json"]);
    assert!(user.code == 0 && user.object("jungle-user")["exit_code"] == 0, "{user:?}");
    let serving = start(folder, &["jungle", "serve", "copy", "--listen", "127.0.0.1:0", "--json"]);
    serving.says("jungle-serve-start");
    serving.signal("TERM");
    let ended = serving.ended(PATIENCE);
    let last = &ended.objects()[1];
    assert_eq!(
        (&last["format"], &last["verdict"]),
        (&"sekisho/jungle-serve/1".into(), &"holds".into())
    );
}

/// A request by hand, and the status and body of its answer; `None` if the server was gone.
fn ask(address: &str, method: &str, place: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {place} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// All children of the root of `board`, by their attribute `n`.
fn stored(address: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let place = format!("/trees/board/nodes/root?limit=5000&offset={}", all.len());
        let (status, body) = ask(address, "GET", &place, "").expect("it is there");
        assert_eq!(status, 200, "{body}");
        let node: Value = serde_json::from_str(&body).expect("it is JSON");
        let nodes = node["node"]["nodes"].as_array().cloned().unwrap_or_default();
        all.extend(
            nodes.iter().map(|one| one["attributes"]["n"].as_str().expect("it has one").to_owned()),
        );
        if node["node"]["next_offset"].is_null() {
            return all;
        }
    }
}

/// Appends of so many clients until the server is gone; each in its order those that were acknowledged, and the one
/// that was on its way.
fn load(address: &str, round: u32, clients: u32, stop: &AtomicBool) -> Vec<(Vec<String>, String)> {
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..clients {
            let all = &all;
            scope.spawn(move || {
                let (mut acknowledged, mut number) = (Vec::new(), 0);
                let open = loop {
                    let name = format!("{round}-{client}-{number}");
                    let body = json!({"attributes": {"n": name}}).to_string();
                    let place = "/trees/board/nodes/root/children";
                    if stop.load(Ordering::Relaxed) {
                        break name;
                    }
                    match ask(address, "POST", place, &body) {
                        Some((201, _)) => acknowledged.push(name),
                        Some((503, _)) => {}
                        Some((status, body)) => panic!("{status}: {body}"),
                        None => break name,
                    }
                    number += 1;
                };
                all.lock().expect("nobody panics with it").push((acknowledged, open));
            });
        }
    });
    all.into_inner().expect("the same")
}

/// What is stored has everything that was acknowledged, once, each client's in its order, and besides nothing but what
/// was on its way when the server was killed.
#[track_caller]
fn assert_nothing_is_lost(stored: &[String], loads: &[(Vec<String>, String)]) {
    let mut sorted = stored.to_vec();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), stored.len(), "something is there twice");
    let mut known = 0;
    for (acknowledged, open) in loads {
        let client = open.rsplit_once('-').expect("round, client, number").0;
        let own: Vec<&String> = stored
            .iter()
            .filter(|one| one.rsplit_once('-').expect("the same").0 == client)
            .collect();
        let (first, rest) = own.split_at(acknowledged.len().min(own.len()));
        assert!(first.iter().copied().eq(acknowledged), "{client}: {acknowledged:?} but {own:?}");
        assert!(rest.is_empty() || rest == [open], "{client}: {rest:?}");
        known += own.len();
    }
    assert_eq!(known, stored.len(), "something is there that nobody has sent");
}

#[test]
fn a_server_that_is_killed_under_load_has_lost_nothing_that_it_answered() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let rounds = if std::env::var_os("SEKISHO_LONG").is_some() { 50 } else { 5 };
    let mut loads = Vec::new();
    for round in 0..rounds {
        // Small segments and snapshots, so that kills meet their edges.
        let served = Served::start(&folder, &["--segment", "64KiB", "--snapshot-after", "100kB"]);
        if round == 0 {
            let created = ask(&served.address, "PUT", "/trees/board", "").expect("it is there");
            assert_eq!(created.0, 201);
        } else {
            assert_nothing_is_lost(&stored(&served.address), &loads);
        }
        let stop = AtomicBool::new(false);
        let new = std::thread::scope(|scope| {
            let loading = scope.spawn(|| load(&served.address, round, 8, &stop));
            std::thread::sleep(Duration::from_millis(700 + u64::from(round) * 137 % 500));
            served.running.signal("KILL");
            loading.join().expect("clients do not fail")
        });
        let acknowledged: usize = new.iter().map(|(acknowledged, _)| acknowledged.len()).sum();
        assert!(acknowledged > 0, "round {round}: nothing was acknowledged before the kill");
        loads.extend(new);
        drop(served);
    }
    let found = sekisho(&folder, &["jungle", "verify", "data"]);
    assert_eq!(found.code, 0, "{found:?}");
    assert!(found.out.starts_with("holds: commit "), "{found:?}");
    let served = Served::start(&folder, &[]);
    assert_nothing_is_lost(&stored(&served.address), &loads);
    served.stop();
}

/// The text of a blob, of several parts, which no other has.
fn text_of(name: &str) -> String {
    format!("{name} ").repeat(40_000)
}

/// Blobs of a client, stored until the server is gone; the names of those that were acknowledged.
fn load_blobs(address: &str, client: &str) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("{client}-{number}");
        let place = format!("/trees/board/nodes/root/blobs/{name}");
        match ask(address, "PUT", &place, &text_of(&name)) {
            Some((200, _)) => acknowledged.push(name),
            Some((status, body)) => panic!("{status}: {body}"),
            None => break,
        }
    }
    acknowledged
}

#[test]
fn a_server_that_is_killed_while_blobs_come_has_lost_none_that_it_answered() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let rounds = if std::env::var_os("SEKISHO_LONG").is_some() { 30 } else { 3 };
    let mut stored = Vec::new();
    for round in 0..rounds {
        let served = Served::start(&folder, &["--snapshot-after", "20kB"]);
        if round == 0 {
            let created = ask(&served.address, "PUT", "/trees/board", "").expect("it is there");
            assert_eq!(created.0, 201);
        }
        std::thread::scope(|scope| {
            let address = &served.address;
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    scope.spawn(move || load_blobs(address, &format!("{round}-{client}")))
                })
                .collect();
            std::thread::sleep(Duration::from_millis(600 + round * 211 % 500));
            served.running.signal("KILL");
            for client in clients {
                stored.extend(client.join().expect("clients do not fail"));
            }
        });
    }
    assert!(!stored.is_empty(), "nothing was acknowledged before the kills");
    let found = sekisho(&folder, &["jungle", "verify", "data"]);
    assert_eq!(found.code, 0, "{found:?}");
    let served = Served::start(&folder, &[]);
    for name in &stored {
        let place = format!("/trees/board/nodes/root/blobs/{name}");
        let (status, text) = ask(&served.address, "GET", &place, "").expect("it is there");
        assert!(status == 200 && text == text_of(name), "{name}: {status}, {} B", text.len());
    }
    served.stop();
    let parts = fs::read_dir(folder.join("data")).expect("it is there");
    let parts = parts.filter(|file| {
        let name = file.as_ref().expect("it is there").file_name();
        name.to_string_lossy().ends_with(".part")
    });
    assert_eq!(parts.count(), 0, "a start removes what was not finished");
}

#[test]
fn a_server_that_is_told_to_stop_lets_commits_end_and_refuses_nobody_half() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = Served::start(&folder, &["--durability", "interval"]);
    assert_eq!(ask(&served.address, "PUT", "/trees/board", "").expect("it is there").0, 201);
    let address = served.address.clone();
    let stop = AtomicBool::new(false);
    let loads = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&address, 0, 8, &stop));
        std::thread::sleep(Duration::from_millis(500));
        served.stop();
        loading.join().expect("clients do not fail")
    });
    assert!(loads.iter().any(|(acknowledged, _)| !acknowledged.is_empty()));
    let served = Served::start(&folder, &[]);
    assert_nothing_is_lost(&stored(&served.address), &loads);
    served.stop();
}

/// Ends a server that was started by hand.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A file of more than 2 MiB has no room: the group that needs one is refused, and those after it go on.
#[test]
fn a_disk_without_room_refuses_what_it_cannot_keep_and_goes_on() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    // An ignored signal stays ignored: the system then says that the file is too large, as a full disk would.
    let line = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" jungle serve data --listen 127.0.0.1:0 \
                --segment 1MiB --json";
    let mut child = Command::new("bash")
        .args(["-c", line, PROGRAM])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(fs::File::create(folder.join("out")).expect("a folder of our own"))
        .stderr(Stdio::null())
        .spawn()
        .map(Ended)
        .expect("there is a shell");
    let address = loop {
        let out = fs::read_to_string(folder.join("out")).expect("it was made");
        if let Some(line) = out.lines().next().filter(|_| out.ends_with('\n')) {
            let begun: Value = serde_json::from_str(line).expect("it is JSON");
            let address = begun["listening"].as_str().expect("a text");
            break address.strip_prefix("http://").expect("a URL").to_owned();
        }
        assert!(child.0.try_wait().expect("it is our child").is_none(), "it ended: {out}");
        std::thread::sleep(Duration::from_millis(10));
    };
    let post = |text: String| {
        let body = json!({"attributes": {"n": text}}).to_string();
        ask(&address, "POST", "/trees/board/nodes/root/children", &body).expect("it is there")
    };
    assert_eq!(ask(&address, "PUT", "/trees/board", "").expect("it is there").0, 201);
    assert_eq!(post("before".into()).0, 201);
    let (status, told) = post("x".repeat(5 << 20));
    assert_eq!(status, 507, "{told}");
    assert!(told.contains("free some space"), "{told}");
    assert_eq!(post("after".into()).0, 201);
    assert_eq!(stored(&address), ["before", "after"]);
    drop(child);
    let served = Served::start(&folder, &[]);
    assert_eq!(stored(&served.address), ["before", "after"]);
    served.stop();
}

#[test]
fn users_reach_their_trees_by_tls_with_what_the_verb_has_printed() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let run = |line: &str| shell(&folder, &format!("sekisho jungle {line}")).ended(PATIENCE);
    let printed = |line: &str| {
        let ended = run(line);
        assert_eq!((ended.code, &*ended.err), (0, ""), "{line}: {ended:?}");
        ended.out
    };
    for (name, rules) in [("ann", "--read wiki --write shop/"), ("root", "--admin")] {
        let said = printed(&format!("user {name} {rules} --users users.toml"));
        let access_token = said.lines().nth(1).expect("it is printed");
        fs::write(folder.join(name), format!("{access_token}\n")).expect("there is room");
        assert!(said.contains("next: sekisho jungle serve ./data --users users.toml"), "{said}");
    }
    let twice = run("user ann --admin --users users.toml");
    assert!(twice.code == 2 && twice.err.contains("a name of its own"), "{twice:?}");
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates");
    for name in ["database.pem", "leaf.key", "authority.pem"] {
        fs::copy(certificates.join(name), folder.join(name)).expect("there is room");
    }
    let words = ["--users", "users.toml", "--tls-cert", "database.pem", "--tls-key", "leaf.key"];
    let served = Served::start(&folder, &words);
    let address = served.address.replace("127.0.0.1", "localhost");
    let server = format!("--server https://{address} --ca authority.pem");
    let by = |name: &str, line: &str| run(&format!("{line} {server} --access-token-file {name}"));
    for tree in ["wiki", "shop/a", "secret"] {
        let ended = by("root", &format!("put {tree}"));
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let ended = by("ann", "append shop/a root title=Hello");
    assert!(
        ended.code == 0 && ended.out.contains("--access-token-file ann --ca authority.pem"),
        "{ended:?}"
    );
    let log = by("ann", "log shop/a root");
    assert!(log.code == 0 && log.out.contains("ann"), "the author is the user: {log:?}");
    for (line, words) in [
        ("append wiki root title=Hello", "user `ann` may not write tree `wiki`"),
        ("get secret", "user `ann` may not read tree `secret`"),
        ("stats", "admin = true"),
    ] {
        let ended = by("ann", line);
        assert!(
            ended.code == 2 && ended.err.replace('\n', " ").contains(words),
            "{line}: {ended:?}"
        );
    }
    let nobody = run(&format!("get wiki {server}"));
    assert!(nobody.code == 2 && nobody.err.contains("Bearer ACCESS-TOKEN"), "{nobody:?}");
    let stranger = run(&format!("get wiki --server https://{address}"));
    assert!(stranger.code == 2 && stranger.err.contains("`--ca FILE`"), "{stranger:?}");
    served.stop();
}

#[test]
fn the_page_asks_for_an_access_token_where_there_are_users() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let line = "sekisho jungle user ann --write '*' --users users.toml --json";
    let made = shell(&folder, line).ended(PATIENCE);
    let made: Value = serde_json::from_str(&made.out).expect("a line of JSON");
    let served = Served::start(&folder, &["--users", "users.toml"]);
    let access_token = made["access_token"].as_str().expect("a text");
    fs::write(folder.join("ann"), access_token).expect("there is room");
    let put = format!(
        "sekisho jungle put wiki --access-token-file ann --server http://{}",
        served.address
    );
    assert_eq!(shell(&folder, &put).ended(PATIENCE).code, 0);
    let mut browser = Driven::start();
    let asks = "!document.getElementById('entry').hidden";
    for (name, size) in [("wide", (1200, 800)), ("narrow", (390, 740))] {
        let url = format!("http://{}/", served.address);
        browser.visit(&url, size);
        browser.value("sessionStorage.clear()");
        browser.visit(&url, size);
        browser.wait_for(asks);
        keep(&format!("jungle-entry-{name}.png"), &browser.picture());
        browser.value(&format!(
            "document.getElementById('token').value = {}, document.getElementById('entry').requestSubmit()",
            made["access_token"]
        ));
        browser.wait_for("document.getElementById('trees').textContent.includes('wiki')");
        assert_eq!(browser.value(asks), json!(false));
    }
    served.stop();
}

#[test]
fn a_directory_that_is_served_is_not_served_again_and_the_way_out_is_said() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = Served::start(&folder, &[]);
    let again = sekisho(&folder, &["jungle", "serve", "data", "--listen", "127.0.0.1:0"]);
    assert_eq!(again.code, 2, "{again:?}");
    let pid = served.running.pid().to_string();
    assert!(again.err.contains(&pid) && again.err.contains("stop it first"), "{again:?}");
    let port = sekisho(&folder, &["jungle", "serve", "other", "--listen", &served.address]);
    assert!(port.code == 2 && port.err.contains("another address"), "{port:?}");
    let public = sekisho(&folder, &["jungle", "serve", "other", "--listen", "0.0.0.0:0"]);
    assert!(public.code == 2 && public.err.contains("loopback"), "{public:?}");
    assert!(!folder.join("other").exists());
    served.stop();
    let nobody = sekisho(&folder, &["jungle", "get", "--server", "http://127.0.0.1:9"]);
    assert!(nobody.code == 2 && nobody.err.contains("jungle serve"), "{nobody:?}");
}

/// In a real browser, wide and narrow: trees, nodes, versions, differences, and a commit that is made meanwhile.
#[test]
fn the_page_shows_trees_versions_and_differences() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let served = with_a_board(&folder);
    let hostile = "<img src=x onerror=alert(1)>";
    let body = json!({"attributes": {"title": hostile}}).to_string();
    let put = |body: &str| {
        let place = "/trees/board/nodes/root/children";
        assert_eq!(ask(&served.address, "POST", place, body).expect("it is there").0, 201);
    };
    put(&body);
    let mut browser = Driven::start();
    let url = format!("http://{}/", served.address);
    let shows = |part: &str, text: &str| {
        format!("document.getElementById('{part}').textContent.includes({})", json!(text))
    };
    for (name, size) in [("wide", (1200, 800)), ("narrow", (390, 740))] {
        browser.visit(&format!("{url}#tree=board"), size);
        browser.wait_for(&shows("children", "title: Hello"));
        // What stands in a tree is a text, whatever it is.
        browser.wait_for(&shows("children", hostile));
        assert_eq!(browser.value("document.images.length"), json!(0));
        let before = browser.value("document.getElementById('children').children.length");
        put(&json!({"attributes": {"title": format!("new on a {name} page")}}).to_string());
        browser.wait_for(&shows("children", &format!("new on a {name} page")));
        let after = browser.value("document.getElementById('children').children.length");
        assert_eq!(after.as_u64(), before.as_u64().map(|count| count + 1));
        browser.value("location.hash = 'tree=board&node=2.0&at=6&diff=5'");
        browser.wait_for(&shows("diff", "changed 2.0 pinned: (none) \u{2192} yes"));
        browser.wait_for(&shows("log", "for all to see"));
        browser.wait_for(&shows("version", "as it was at commit 6"));
        let [all, seen] = ["scrollWidth", "clientWidth"]
            .map(|one| browser.value(&format!("document.documentElement.{one}")).as_u64());
        assert!(all.is_some() && all <= seen, "{name}: {all:?} px in {seen:?} px");
        keep(&format!("jungle-{name}.png"), &browser.picture());
        browser.value("location.hash = 'tree=none'");
        browser.wait_for(&shows("state", "no tree `none`"));
    }
    // That a tree was asked for that is not there is all that the browser had to say.
    let complaints: Vec<_> =
        browser.complaints().iter().filter(|one| !one.contains("404")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    served.stop();
}
