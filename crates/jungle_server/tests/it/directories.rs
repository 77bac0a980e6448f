//! A directory: whose it is, what it survives, and what is found in it.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use jungle_server::{Access, DirectoryError, OpenError, Server, StartError, backed_up, verify};
use serde_json::json;

use crate::client::{Folder, Site, settings};

fn write(site: &Site, count: u32) {
    for number in 0..count {
        let one = json!({"attributes": {"n": number.to_string()}});
        site.post("/trees/board/nodes/root/children", &one).is(201);
    }
}

fn numbers(site: &Site) -> Vec<String> {
    let root = site.get("/trees/board/nodes/root?limit=10000").is(200);
    let nodes = root["node"]["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|one| one["attributes"]["n"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_committed_is_there_after_a_start_with_and_without_a_snapshot() {
    let folder = Folder::new();
    let place = folder.join("data");
    let mut wanted = Vec::new();
    for round in 0..4 {
        let site = Site::start(&place);
        if round == 0 {
            site.put("/trees/board", None).is(201);
        }
        assert_eq!(numbers(&site), wanted, "round {round}");
        write(&site, 5);
        wanted.extend((0..5).map(|number| number.to_string()));
        if round % 2 == 0 {
            site.post("/snapshot", &json!({})).is(200);
        }
        site.server.stop().unwrap();
        let found = verify(&place).unwrap();
        assert_eq!((found.broken, found.seq), (vec![], Some(1 + wanted.len() as u64)));
    }
}

/// A directory that the program of 28 November 2026 left behind is read by each one after it: a snapshot, log behind it,
/// a blob, a deadline, a branch and a past. With `SEKISHO_FORMAT=write` it is written anew, for a new format beside the
/// old ones.
#[test]
fn a_directory_that_an_earlier_program_left_is_read() {
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1");
    if std::env::var_os("SEKISHO_FORMAT").is_some_and(|wanted| wanted == "write") {
        fs::remove_dir_all(&kept).ok();
        let mut small = settings();
        small.store.segment_bytes = 4096;
        let site = Site::with(&kept, small);
        site.put("/trees/board", None).is(201);
        write(&site, 3);
        site.put_bytes("/trees/board/nodes/2.0/blobs/page", b"a blob", &[]).is(200);
        site.post("/trees/board/branch", &json!({"name": "draft"})).is(201);
        site.post("/snapshot", &json!({})).is(200);
        let renamed = json!({"attributes": {"n": "renamed"}, "ttl": "36500d"});
        site.patch("/trees/board/nodes/3.0", "application/json", &renamed).is(200);
        site.ask("DELETE", "/trees/board/nodes/4.0", None).is(200);
        site.server.stop().unwrap();
        fs::remove_file(kept.join("lock")).unwrap();
    }
    let folder = Folder::new();
    let place = folder.join("data");
    fs::create_dir(&place).unwrap();
    for file in fs::read_dir(&kept).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), place.join(file.file_name())).unwrap();
    }
    let found = verify(&place).unwrap();
    assert_eq!((found.broken, found.seq, found.blobs), (vec![], Some(8), 1));
    let site = Site::start(&place);
    assert_eq!(numbers(&site), ["0", "renamed"]);
    assert_eq!(site.bytes("/trees/board/nodes/2.0/blobs/page").unwrap(), b"a blob");
    let renamed = site.get("/trees/board/nodes/3.0").is(200);
    assert!(renamed["node"]["expires"].is_string(), "{renamed}");
    let draft = site.get("/trees/draft/nodes/root").is(200);
    assert_eq!(draft["node"]["children"], 3, "{draft}");
    let blame = site.get("/trees/board/nodes/3.0/blame").is(200);
    assert_eq!(blame["attributes"]["n"]["seq"], 7, "{blame}");
    // And written: another start reads what is appended to it.
    write(&site, 1);
    site.server.stop().unwrap();
    assert_eq!(numbers(&Site::start(&place)), ["0", "renamed", "0"]);
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    let error = Server::start(&folder.join("data"), settings(), Access::default()).unwrap_err();
    let told = error.to_string();
    let is_right =
        matches!(error, StartError::Open(OpenError::Directory(DirectoryError::InUse { .. })));
    assert!(is_right && told.contains(&std::process::id().to_string()), "{told}");
    let looked = verify(&folder.join("data")).unwrap_err().to_string();
    assert!(looked.contains("stop it first"), "{looked}");
    site.server.stop().unwrap();
    Site::start(&folder.join("data")).server.stop().unwrap();
}

#[test]
fn a_directory_of_another_version_or_of_somebody_else_is_left_alone() {
    let folder = Folder::new();
    let place = folder.join("data");
    Site::start(&place).server.stop().unwrap();
    let description = place.join("jungle.json");
    let own = fs::read_to_string(&description).unwrap();
    fs::write(&description, own.replace("\"format\":1", "\"format\":7")).unwrap();
    let told = Server::start(&place, settings(), Access::default()).unwrap_err().to_string();
    assert!(told.contains("format is 7") && told.contains("knows 1"), "{told}");
    fs::write(&description, "{").unwrap();
    let told = Server::start(&place, settings(), Access::default()).unwrap_err().to_string();
    assert!(told.contains("jungle.json") && told.contains("backup"), "{told}");
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    let told = Server::start(&other, settings(), Access::default()).unwrap_err().to_string();
    assert!(told.contains("jungle.json is missing"), "{told}");
    let files: Vec<_> = fs::read_dir(&other).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(files, ["letter.txt"], "nothing was written there");
    let told = verify(&folder.join("none")).unwrap_err().to_string();
    assert!(told.contains("serve"), "{told}");
}

#[test]
fn a_server_that_others_would_reach_does_not_start() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.listen = "0.0.0.0:0".parse().unwrap();
    let told =
        Server::start(&folder.join("data"), settings, Access::default()).unwrap_err().to_string();
    assert!(told.contains("no loopback address"), "{told}");
    assert!(!folder.join("data").exists());
}

#[test]
fn a_flipped_bit_is_named_with_its_file_and_nothing_is_lost_silently() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = Site::start(&place);
    site.put("/trees/board", None).is(201);
    write(&site, 3);
    site.post("/snapshot", &json!({})).is(200);
    write(&site, 3);
    site.server.stop().unwrap();
    let flip = |prefix: &str, at: u64| {
        let file = fs::read_dir(&place).unwrap().map(|one| one.unwrap().path());
        let named = |path: &std::path::PathBuf| {
            path.file_name().unwrap().to_str().unwrap().starts_with(prefix)
        };
        let path = file.filter(named).max().unwrap();
        let byte = fs::read(&path).unwrap()[at as usize];
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[byte ^ 1]).unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let snapshot = flip("snapshot-", 40);
    let found = verify(&place).unwrap();
    assert!(found.broken.iter().any(|one| one.contains(&snapshot)), "{found:?}");
    // The log is whole, so that the database is to be had all the same.
    assert_eq!(found.seq, Some(7), "{found:?}");
    let log = flip("log-", 70);
    let found = verify(&place).unwrap();
    assert!(found.broken.iter().any(|one| one.contains(&log)), "{found:?}");
    assert_eq!(found.seq, None);
    let told = Server::start(&place, settings(), Access::default()).unwrap_err().to_string();
    assert!(told.contains(&log) && told.contains("restore"), "{told}");
}

/// `verify` told of no entry where one was broken, as if the log had been empty.
#[test]
fn entries_before_a_broken_one_are_counted() {
    let folder = Folder::new();
    let place = folder.join("data");
    let site = Site::start(&place);
    site.put("/trees/board", None).is(201);
    write(&site, 4);
    site.server.stop().unwrap();
    assert_eq!(verify(&place).unwrap().entries, 5);
    let entries = fs::read_dir(&place).unwrap().map(|one| one.unwrap().path());
    let log =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log-"));
    let log = log.max().unwrap();
    let mut bytes = fs::read(&log).unwrap();
    // The last entry is padded to 32 B, and no byte of it stays as it was in the payload.
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 40] ^= 1;
    fs::write(&log, bytes).unwrap();
    let found = verify(&place).unwrap();
    assert_eq!((found.entries, found.seq, found.broken.len()), (4, None, 1), "{found:?}");
    assert!(found.broken[0].contains("entry 5"), "{found:?}");
}

/// A directory whose log somebody had removed was taken for a new one: `verify` held, and the server started empty.
#[test]
fn a_directory_that_has_lost_all_its_commits_is_no_new_one() {
    let folder = Folder::new();
    let place = folder.join("data");
    // Without a commit there is nothing to lose.
    Site::start(&place).server.stop().unwrap();
    assert_eq!(verify(&place).unwrap().broken, [""; 0]);
    let site = Site::start(&place);
    site.put("/trees/board", None).is(201);
    site.server.stop().unwrap();
    assert_eq!(verify(&place).unwrap().seq, Some(1));
    for file in fs::read_dir(&place).unwrap().map(|file| file.unwrap()) {
        if file.file_name().to_str().unwrap().starts_with("log-") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    let found = verify(&place).unwrap();
    assert_eq!((found.seq, found.broken.len()), (None, 1), "{found:?}");
    assert!(found.broken[0].contains("every snapshot is gone; restore it"), "{found:?}");
    let told = Server::start(&place, settings(), Access::default()).unwrap_err().to_string();
    assert!(told.contains("every snapshot is gone; restore it"), "{told}");
}

#[test]
fn a_backup_is_a_directory_that_starts_and_a_part_of_one_does_not_count() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    site.put("/trees/board", None).is(201);
    write(&site, 50);
    let fetched = || site.agent.get(format!("{}/backup", site.url)).call().unwrap();
    let response = fetched();
    assert_eq!(response.headers()["jungle-token"], "1.51");
    let mut body = response.into_body().into_reader();
    backed_up(&folder.join("copy"), 51, &mut body, none).unwrap();
    let copy = Site::start(&folder.join("copy"));
    assert_eq!(numbers(&copy), numbers(&site));
    write(&copy, 1);
    copy.server.stop().unwrap();
    assert_eq!(verify(&folder.join("copy")).unwrap().seq, Some(52));
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut fetched().into_body().into_reader(), &mut whole).unwrap();
    let told =
        backed_up(&folder.join("part"), 51, &mut &whole[..whole.len() - 9], none).unwrap_err();
    assert!(told.to_string().contains("no whole backup"), "{told}");
    let told = backed_up(&folder.join("copy"), 51, &mut &whole[..], none).unwrap_err();
    assert!(told.to_string().contains("already"), "{told}");
}

/// A version without blobs asks for none.
fn none(_: jungle::BlobId) -> Result<std::io::Empty, String> {
    Err("there is none".to_owned())
}
