//! What cannot work says why and leaves nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgres::{Private, Search, Settings, StartError};

use crate::Test;

pub(crate) const TESTS: &[Test] = &[
    ("a_server_that_does_not_start_says_why", says_why),
    ("without_postgresql_and_network_the_way_out_is_named", nothing_there),
    ("a_full_disk_is_named", full_disk),
    ("a_folder_that_cannot_be_used_is_named", bad_folder),
    ("an_interrupt_ends_a_start", interrupted),
    ("a_server_that_is_never_ready_is_given_up", never_ready),
];

/// A folder of its own for a test, open to everybody.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let path = PathBuf::from(format!("/var/tmp/sekisho-pg-it-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Place(path)
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn says_why() {
    let place = Place::new("why");
    for (name, value, words, advice) in [
        ("shard_buffers", "1MB", "unrecognized configuration parameter", "no such setting"),
        ("shared_buffers", "lots", "invalid value for parameter", "does not take that value"),
        ("max_connections", "0", "is outside the valid range", "does not take that value"),
        ("shared_buffers", "900GB", "shared memory", "less shared_buffers"),
    ] {
        let settings = Settings {
            parent: place.0.clone(),
            parameters: vec![(name.to_owned(), value.to_owned())],
            ..Settings::default()
        };
        let error = Private::start(&settings).unwrap_err();
        assert!(matches!(error, StartError::NotReady { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(advice), "{text}");
        assert_eq!(place.entries(), [""; 0], "something is left");
    }
}

fn nothing_there() {
    let place = Place::new("nothing");
    let start = |search: Search| {
        let settings = Settings {
            search,
            // A port that nobody listens on.
            repository: "http://127.0.0.1:1".to_owned(),
            cache: Some(place.0.join("cache")),
            parent: place.0.clone(),
            ..Settings::default()
        };
        Private::start(&settings).unwrap_err()
    };
    let text = start(Search::Fetched).to_string();
    for words in ["cannot fetch http://127.0.0.1:1/io/zonky", "refused", "apt-get install"] {
        assert!(text.contains(words), "{text}");
    }
    let text = start(Search::Folder(place.0.join("no"))).to_string();
    assert!(text.contains("no program `postgres` there"), "{text}");
    assert_eq!(place.entries(), ["cache"]);
}

/// A folder of programs that stand in for PostgreSQL's.
fn programs(place: &Place, initdb: &str, server: &str) -> Search {
    let bin = place.0.join("bin");
    fs::create_dir(&bin).unwrap();
    let version = "[ \"$1\" = --version ] && echo 'postgres (PostgreSQL) 18.1' && exit";
    for (name, text) in [("initdb", initdb), ("postgres", &format!("{version}\n{server}"))] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    Search::Folder(bin)
}

fn full_disk() {
    let place = Place::new("full");
    let said = "initdb: error: could not write to file \"pg_wal/1\": No space left on device";
    let search = programs(&place, &format!("echo '{said}' >&2; exit 1"), "");
    let settings = Settings { search, parent: place.0.clone(), ..Settings::default() };
    let error = Private::start(&settings).unwrap_err();
    assert!(matches!(error, StartError::Init { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the disk is full") && text.contains(said), "{text}");
    assert_eq!(place.entries(), ["bin"]);
}

fn bad_folder() {
    let start = |parent: &Path| {
        Private::start(&Settings { parent: parent.to_owned(), ..Settings::default() }).unwrap_err()
    };
    let text = start(Path::new("/no/such/folder")).to_string();
    assert!(text.contains("/no/such/folder"), "{text}");
    let place = Place::new("bad");
    let long = place.0.join("a".repeat(90));
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, fs::Permissions::from_mode(0o777)).unwrap();
    let error = start(&long);
    assert!(matches!(error, StartError::TooLong { .. }), "{error}");
    let shut = place.0.join("shut");
    fs::create_dir(&shut).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write there and cannot be followed; anybody else may not write there.
    match start(&shut) {
        StartError::Closed { folder } => assert_eq!(folder, shut),
        StartError::System { what, .. } => assert!(what.contains("shut"), "{what}"),
        error => panic!("{error}"),
    }
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
}

fn interrupted() {
    let place = Place::new("interrupt");
    let flag = Arc::new(AtomicBool::new(false));
    let settings = Settings {
        parent: place.0.clone(),
        interrupt: Some(Arc::clone(&flag)),
        search: programs(&place, "sleep 60", ""),
        ..Settings::default()
    };
    let begun = Instant::now();
    let starting = std::thread::spawn(move || Private::start(&settings).map(|_| ()));
    while place.entries().len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    flag.store(true, Ordering::Relaxed);
    let error = starting.join().unwrap().unwrap_err();
    assert!(matches!(error, StartError::Interrupted), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(place.entries(), ["bin"]);
}

fn never_ready() {
    let place = Place::new("never");
    let search = programs(&place, "mkdir data", "echo 'still thinking' >&2; exec sleep 60");
    let settings = Settings {
        search,
        parent: place.0.clone(),
        patience: Duration::from_millis(300),
        ..Settings::default()
    };
    let text = Private::start(&settings).unwrap_err().to_string();
    assert!(text.contains("not ready within 0 s") && text.contains("still thinking"), "{text}");
    assert_eq!(place.entries(), ["bin"]);
}
