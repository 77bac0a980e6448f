//! Private servers, started, killed, started again and left behind by an owner that dies.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests"
)]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rivals::{CommitLog, Lent, Settings, StartError};

/// The server of a process that is started to be killed.
const OWNER: &str = "SEKISHO_RIVALS_TO_KILL";

fn start(server: &str) -> Lent {
    let settings = Settings::default();
    match server {
        "etcd" => Lent::etcd(&settings, None).unwrap(),
        _ => Lent::cassandra(&settings, CommitLog::Batch, 512).unwrap(),
    }
}

/// Both in the long suite; Cassandra takes some 20 s a start.
fn servers() -> &'static [&'static str] {
    if std::env::var_os("SEKISHO_LONG").is_some() { &["etcd", "cassandra"] } else { &["etcd"] }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_is_started_killed_started_again_and_removed() {
    for name in servers() {
        let mut server = start(name);
        let (address, folder) = (server.address(), server.folder().to_owned());
        assert!(address.ip().is_loopback(), "{name}");
        std::net::TcpStream::connect(address).unwrap();
        let first = server.pid().unwrap();
        server.kill().unwrap();
        assert!(!is_alive(first), "{name}");
        server.restart().unwrap();
        assert_eq!(server.address(), address, "{name}: clients find it again");
        let second = server.pid().unwrap();
        assert!(is_alive(second) && second != first, "{name}");
        server.restart().unwrap();
        server.stop().unwrap();
        assert!(!is_alive(second) && !folder.exists(), "{name}");
    }
}

#[test]
fn a_server_that_is_dropped_is_removed() {
    let server = start("etcd");
    let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
    drop(server);
    assert!(!is_alive(pid) && !folder.exists());
}

/// The owner that is killed. Without its variable it starts nothing.
#[test]
fn an_owner_to_kill() {
    let Ok(name) = std::env::var(OWNER) else { return };
    let server = start(&name);
    println!("owned {} {}", server.pid().unwrap(), server.folder().display());
    drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
}

#[test]
fn nothing_outlives_an_owner_that_is_killed() {
    for name in servers() {
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "an_owner_to_kill", "--nocapture", "--test-threads", "1"])
            .env(OWNER, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(owner.stdout.take().unwrap());
        let line = out.lines().map(Result::unwrap).find_map(|line| {
            let (_, told) = line.split_once("owned ")?;
            let (pid, folder) = told.split_once(' ')?;
            Some((pid.parse::<u32>().unwrap(), PathBuf::from(folder)))
        });
        let (pid, folder) = line.unwrap();
        assert!(is_alive(pid) && folder.exists(), "{name}");
        owner.kill().unwrap();
        owner.wait().unwrap();
        wait_until(&format!("{name} runs on"), || !is_alive(pid));
        wait_until(&format!("{} stays", folder.display()), || !folder.exists());
    }
}

#[test]
fn a_program_that_is_no_server_is_told_with_its_words_and_leaves_nothing() {
    let parent = std::env::temp_dir().join(format!("sekisho-rivals-{}", std::process::id()));
    std::fs::create_dir(&parent).unwrap();
    let settings = Settings { parent: parent.clone(), ..Settings::default() };
    let error = Lent::etcd(&settings, Some(Path::new("/bin/ls"))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("etcd ended (exit status: 2)") && text.contains("/bin/ls: "), "{text}");
    let error = Lent::etcd(&settings, Some(Path::new("/nowhere/etcd"))).unwrap_err();
    assert!(error.to_string().starts_with("cannot start etcd"), "{error}");
    let slow = parent.join("slow");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o700)).unwrap();
    let interrupt = Some(Arc::new(AtomicBool::new(true)));
    let error = Lent::etcd(&Settings { interrupt, ..settings }, Some(&slow)).unwrap_err();
    assert!(matches!(error, StartError::Interrupted), "{error}");
    std::fs::remove_file(&slow).unwrap();
    wait_until("a folder stays", || std::fs::read_dir(&parent).unwrap().next().is_none());
    std::fs::remove_dir(&parent).unwrap();
}
