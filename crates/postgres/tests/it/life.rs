//! Start, stop, restart, kill, remove.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use postgres::{Keep, Private, Settings};

use crate::Test;
use crate::sql::{ask, ask_at};

pub(crate) const TESTS: &[Test] = &[
    ("a_server_starts_answers_and_leaves_nothing", starts_answers_and_leaves_nothing),
    ("two_servers_at_once_do_not_meet", two_at_once),
    ("what_was_committed_survives_a_kill", survives_a_kill),
    ("a_setting_changed_inside_counts_after_a_restart", changed_setting),
    ("settings_that_do_not_start_are_forgotten", forgotten),
    ("a_folder_that_is_to_stay_stays", stays),
    ("folders_elsewhere_hold_tablespaces_and_the_log_and_go_too", lends),
    ("what_is_killed_leaves_no_shared_memory", shares),
];

pub(crate) fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Also run as an ordinary user.
pub(crate) fn starts_answers_and_leaves_nothing() {
    let settings = Settings {
        parameters: vec![
            ("shared_buffers".to_owned(), "24MB".to_owned()),
            ("application_name".to_owned(), r"it's a \ test".to_owned()),
        ],
        ..Settings::default()
    };
    let server = Private::start(&settings).unwrap();
    for url in [server.url(), server.socket_url()] {
        assert_eq!(ask(&url, "show shared_buffers").unwrap(), ["24MB"]);
        let name = "select setting from pg_file_settings where name = 'application_name'";
        assert_eq!(ask(&url, name).unwrap(), [r"it's a \ test"]);
    }
    for url in [server.url(), server.socket_url()] {
        let (before, after) = url.as_str().split_once('@').unwrap();
        let guess = format!("{}:guess@{after}", before.rsplit_once(':').unwrap().0);
        let error = ask_at(&guess, "select 1").unwrap_err();
        assert_eq!(error.code().unwrap().code(), "28P01", "{error}");
    }
    let release = ask(&server.url(), "show server_version").unwrap().remove(0);
    assert!(release.starts_with(server.programs().version()), "{release}");
    assert!((14..=18).contains(&server.programs().major()));
    alone(&server);
    let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
    server.stop().unwrap();
    assert!(!exists(pid) && !folder.exists());
}

/// A server that did not stop within five seconds of a busy machine was killed, and what it shared stayed
/// in /dev/shm.
fn shares() {
    let mut server = Private::start(&Settings::default()).unwrap();
    let pid = server.pid().unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let shared = server.folder().join("data/pg_dynshmem");
    assert!(maps.contains(shared.to_str().unwrap()), "{maps}");
    assert!(!maps.contains("/dev/shm/"), "{maps}");
    server.kill().unwrap();
    let folder = server.folder().to_owned();
    server.stop().unwrap();
    assert!(!folder.exists());
}

/// Nobody else looks in; root does not serve.
fn alone(server: &Private) {
    let folder = fs::metadata(server.folder()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    let process = fs::metadata(format!("/proc/{}", server.pid().unwrap())).unwrap();
    assert_ne!(process.uid(), 0);
    assert_eq!(process.uid(), folder.uid());
    if let Some((user, group)) = server.user() {
        assert_eq!((process.uid(), process.gid()), (user, group));
    }
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid().unwrap())).unwrap();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
    assert!(server.user().is_none() || groups.trim().is_empty(), "root's groups: {groups}");
}

fn two_at_once() {
    let (one, other) = std::thread::scope(|scope| {
        let start = || Private::start(&Settings::default()).unwrap();
        let one = scope.spawn(start);
        let other = scope.spawn(start);
        (one.join().unwrap(), other.join().unwrap())
    });
    // The threads that started them are gone by now, and the servers are not.
    assert_ne!((one.port(), one.folder()), (other.port(), other.folder()));
    ask(&one.url(), "create table mine (a int)").unwrap();
    let tables = "select count(*) from pg_tables where tablename = 'mine'";
    assert_eq!(ask(&one.socket_url(), tables).unwrap(), ["1"]);
    assert_eq!(ask(&other.socket_url(), tables).unwrap(), ["0"]);
    drop(one);
    assert_eq!(ask(&other.url(), "select 1").unwrap(), ["1"]);
}

fn survives_a_kill() {
    let mut server = Private::start(&Settings::default()).unwrap();
    ask(
        &server.url(),
        "create table kept (a int); insert into kept select generate_series(1, 500)",
    )
    .unwrap();
    let pid = server.pid().unwrap();
    let backends = backends_of(pid);
    assert!(backends.len() >= 4, "{backends:?}");
    server.kill().unwrap();
    assert!(server.pid().is_none() && !exists(pid));
    let begun = Instant::now();
    while backends.iter().any(|pid| exists(*pid)) {
        assert!(begun.elapsed() < Duration::from_secs(10), "a part of the server lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(ask(&server.url(), "select 1").is_err());
    server.restart().unwrap();
    assert_eq!(ask(&server.url(), "select count(*) from kept").unwrap(), ["500"]);
    assert!(server.log().contains("automatic recovery in progress"), "{}", server.log());
}

fn backends_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn changed_setting() {
    let settings = Settings {
        parameters: vec![("max_connections".to_owned(), "20".to_owned())],
        ..Settings::default()
    };
    let mut server = Private::start(&settings).unwrap();
    let port = server.port();
    ask(&server.url(), "alter system set max_connections = 30").unwrap();
    assert_eq!(ask(&server.url(), "show max_connections").unwrap(), ["20"]);
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(ask(&server.url(), "show max_connections").unwrap(), ["30"]);
    assert!(!server.log().contains("automatic recovery"), "{}", server.log());
}

fn forgotten() {
    let mut server = Private::start(&Settings::default()).unwrap();
    let url = server.url();
    let usual = ask(&url, "show shared_buffers").unwrap();
    ask(&url, "alter system set shared_buffers = '4000GB'").unwrap();
    let error = server.restart().unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
    assert_eq!(server.pid(), None);
    server.forget_settings().unwrap();
    server.restart().unwrap();
    assert_eq!(ask(&url, "show shared_buffers").unwrap(), usual);
    server.stop().unwrap();
}

fn stays() {
    let server = Private::start(&Settings { keep: Keep::Folder, ..Settings::default() }).unwrap();
    let (pid, data) = (server.pid().unwrap(), server.data());
    let folder = server.folder().to_owned();
    let password = fs::read_to_string(folder.join("password")).unwrap();
    assert!(server.url().as_str().contains(&password));
    drop(server);
    assert!(!exists(pid) && data.join("PG_VERSION").is_file());
    assert!(!data.join("postmaster.pid").exists(), "not shut down cleanly");
    fs::remove_dir_all(folder).unwrap();
}

fn lends() {
    let mut server = Private::start(&Settings::default()).unwrap();
    let missing = server.lend(Path::new("/var/tmp/sekisho-is-not-here")).unwrap_err().to_string();
    assert!(missing.contains("sekisho-is-not-here"), "{missing}");
    let closed = Path::new("/var/tmp").join(format!("sekisho-closed-{}", std::process::id()));
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if server.user().is_some() {
        let refused = server.lend(&closed).unwrap_err().to_string();
        assert!(refused.contains("closed to the user"), "{refused}");
    }
    fs::remove_dir(&closed).unwrap();
    let [one, two] = [(); 2].map(|()| server.lend(Path::new("/var/tmp")).unwrap());
    assert_ne!(one, two);
    ask(&server.url(), &format!("create tablespace elsewhere location '{}'", one.display()))
        .unwrap();
    ask(&server.url(), "create table there (id int) tablespace elsewhere").unwrap();
    ask(&server.url(), "insert into there values (7)").unwrap();
    // Twice: from the data directory, and from where it was moved to.
    for folder in [&one, &two] {
        server.move_log(folder).unwrap();
        assert_eq!(fs::read_link(server.data().join("pg_wal")).unwrap(), folder.join("pg_wal"));
        assert!(!server.data().join("pg_wal.old").exists());
        assert_eq!(ask(&server.url(), "select id from there").unwrap(), ["7"]);
        ask(&server.url(), "insert into there values (7)").unwrap();
        ask(&server.url(), "delete from there where ctid <> (select min(ctid) from there)")
            .unwrap();
    }
    assert!(!one.join("pg_wal").exists(), "what was moved on is not left");
    assert!(fs::read_dir(two.join("pg_wal")).unwrap().count() > 1);
    let taken = server.move_log(&two).unwrap_err().to_string();
    assert!(taken.contains("could not be moved"), "{taken}");
    server.restart().unwrap();
    assert_eq!(ask(&server.url(), "select id from there").unwrap(), ["7"]);
    server.stop().unwrap();
    assert!(!one.exists() && !two.exists());
}
