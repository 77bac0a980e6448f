//! `sekisho tpcc` where a server has too little: connections, and disk. The disk is really full: a
//! small one in a mount namespace of its own, so that whoever runs the tests may mount it and
//! nothing of it stays.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::{Private, Settings};

use crate::browser::Scratch;
use crate::command::sekisho;
use crate::tpcc::ask;

/// Tells the test that it is where the disk is.
const DISK: &str = "SEKISHO_TEST_SMALL_DISK";
const NAME: &str = "scarce::a_full_disk_is_named_and_what_was_done_before_is_not_lost";
const MB: usize = 1_000_000;

/// Runs this test again, where a folder of its own is a disk of 300 MB.
fn on_a_small_disk() {
    let folder = PathBuf::from(format!("/var/tmp/sekisho-test-disk-{}", std::process::id()));
    fs::create_dir(&folder).expect("nobody else has this number");
    let is_root = fs::metadata("/proc/self").expect("Linux has it").uid() == 0;
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !is_root {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let script = "mount -t tmpfs -o size=300m,mode=0755 tmpfs \"$0\" && exec \"$@\"";
    command.args(["sh", "-c", script]).arg(&folder);
    command.arg(std::env::current_exe().expect("it runs")).args([NAME, "--exact", "--nocapture"]);
    let ended = command.env(DISK, &folder).output();
    fs::remove_dir(&folder).expect("what was mounted there was so for the other one only");
    let ended = ended.expect("util-linux has unshare");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{complained}");
}

/// A file that leaves so much of a disk free.
fn filler(disk: &Path, free: usize) -> PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).expect("it is ours");
    let block = vec![0; MB];
    let mut length = 0;
    while let Ok(more @ 1..) = file.write(&block) {
        length += more;
    }
    file.set_len((length - free) as u64).expect("it is longer than that");
    path
}

#[test]
fn a_full_disk_is_named_and_what_was_done_before_is_not_lost() {
    let Some(disk) = std::env::var_os(DISK) else { return on_a_small_disk() };
    let (server, url) = server_on(&disk);
    let disk = Path::new(&disk);
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let load = ["tpcc", "load", "--warehouses", "1", "--db", &url];

    let full = filler(disk, 80 * MB);
    let ended = sekisho(&folder, &load);
    assert_eq!(ended.code, 2, "{ended:?}");
    let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["the server's disk is full", "make room, then resume", "--resume"] {
        assert!(said.contains(words), "{words}: {ended:?}");
    }
    fs::remove_file(full).expect("it is there");
    let resumed = sekisho(&folder, &[&load[..], &["--resume"]].concat());
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.out.contains("the rest of them"), "{resumed:?}");

    let full = filler(disk, MB);
    let words = ["tpcc", "stress", "--ramp", "0s", "--measure", "40s", "--db", &url];
    let ended = sekisho(&folder, &words);
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.out.starts_with("INVALID: "), "{ended:?}");
    let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("(SQLSTATE 53100); make room and run again"), "{ended:?}");
    fs::remove_file(full).expect("it is there");
    let verified = sekisho(&folder, &["tpcc", "verify", "--db", &url]);
    assert_eq!(verified.code, 0, "{verified:?}");
    server.stop().expect("it stops");
}

#[test]
fn more_connections_than_the_server_has_are_a_usage_error_with_the_way_out() {
    let server = Private::start(&Settings {
        parameters: vec![("max_connections".to_owned(), "20".to_owned())],
        ..Settings::default()
    })
    .expect("a server starts");
    let (scratch, url) = (Scratch::new(), server.url());
    let folder = scratch.join("");
    let loaded = sekisho(&folder, &["tpcc", "load", "--warehouses", "1", "--db", url.as_str()]);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    for verb in ["run", "stress"] {
        let words = ["tpcc", verb, "--connections", "500", "--db", url.as_str()];
        let ended = sekisho(&folder, &words);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in ["no connection left for session", "ask for fewer", "raise max_connections"] {
            assert!(said.contains(words), "{words}: {ended:?}");
        }
    }
    server.stop().expect("it stops");
}

/// A server, and the address of a database whose tables are on the disk. Its log is not: a server
/// that cannot write its log ends, which is another matter.
fn server_on(disk: &OsString) -> (Private, String) {
    let parameters = vec![("fsync".to_owned(), "off".to_owned())];
    let server = Private::start(&Settings { parameters, ..Settings::default() });
    let server = server.expect("a server starts");
    let place = Path::new(disk).join("tables");
    fs::create_dir(&place).expect("the disk is empty");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).expect("it is ours");
    if let Some((user, group)) = server.user() {
        chown(&place, Some(user), Some(group)).expect("it is ours");
    }
    let url = server.url();
    for statement in [
        format!("create tablespace small location '{}'", place.display()),
        "create database full_disk tablespace small".to_owned(),
    ] {
        ask(url.as_str(), &statement).expect("the server is new");
    }
    let (start, _) = url.as_str().rsplit_once('/').expect("it ends in a database");
    let url = format!("{start}/full_disk");
    (server, url)
}
