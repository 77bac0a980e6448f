//! No server outlives the process that started it, and root's tests are run as an ordinary user too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Keep, Private, Settings};

use crate::Test;
use crate::failing::Place;
use crate::life::{exists, starts_answers_and_leaves_nothing};

/// The argument that makes this executable live as somebody.
pub(crate) const ARGUMENT: &str = "--live-as=";
/// The user and group without rights, on every Linux.
const NOBODY: u32 = 65_534;

pub(crate) const TESTS: &[Test] = &[
    ("an_ordinary_user_has_a_server_too", ordinary_user),
    ("a_server_does_not_outlive_a_killed_owner", killed_owner),
    ("a_server_to_be_kept_is_stopped_when_its_owner_is_killed", killed_owner_keeps),
    ("an_owner_killed_while_it_starts_leaves_nothing", killed_while_starting),
    ("a_start_from_a_thread_that_ends_is_no_end", thread_ends),
];

/// Lives as somebody; `role` is a word and, after a colon, a folder.
pub(crate) fn live(role: &str) {
    let (role, parent) = role.split_once(':').unwrap_or((role, "/var/tmp"));
    let settings = Settings { parent: PathBuf::from(parent), ..Settings::default() };
    let keep = match role {
        "ordinary" => return starts_answers_and_leaves_nothing(),
        "keeper" => Keep::Folder,
        "owner" => Keep::Nothing,
        _ => panic!("nobody lives as {role}"),
    };
    let server = Private::start(&Settings { keep, ..settings }).unwrap();
    println!("{}", server.pid().unwrap());
    std::thread::sleep(Duration::from_secs(120));
    panic!("nobody killed this");
}

fn start(executable: &Path, role: &str) -> Command {
    let mut command = Command::new(executable);
    command.arg(format!("{ARGUMENT}{role}")).stdin(Stdio::null()).current_dir("/");
    command
}

fn owner(role: &str, place: &Place) -> Child {
    let executable = std::env::current_exe().unwrap();
    let role = format!("{role}:{}", place.0.display());
    start(&executable, &role).stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits until `owner` says that its server runs; the number of its process.
fn server_of(owner: &mut Child) -> u32 {
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().parse().unwrap()
}

fn kill(mut owner: Child) {
    owner.kill().unwrap();
    owner.wait().unwrap();
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ordinary_user() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return starts_answers_and_leaves_nothing();
    }
    // Where this executable is, nobody may be able to look.
    let place = Place::new("ordinary");
    let executable = place.0.join("it");
    fs::copy(std::env::current_exe().unwrap(), &executable).unwrap();
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
    let status = start(&executable, "ordinary").uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(status.success(), "as an ordinary user: {status}");
}

fn killed_owner() {
    let place = Place::new("owner");
    let mut owner = owner("owner", &place);
    let pid = server_of(&mut owner);
    assert!(exists(pid) && place.entries().len() == 1);
    kill(owner);
    wait_until("the server lives on", || !exists(pid));
    wait_until("the folder is still there", || place.entries().is_empty());
}

fn killed_owner_keeps() {
    let place = Place::new("keeper");
    let mut owner = owner("keeper", &place);
    let pid = server_of(&mut owner);
    kill(owner);
    wait_until("the server lives on", || !exists(pid));
    let folder = place.0.join(&place.entries()[0]);
    assert!(folder.join("data/PG_VERSION").is_file());
    wait_until("not shut down cleanly", || {
        let log = fs::read_to_string(folder.join("server.log")).unwrap();
        log.contains("database system is shut down")
    });
}

fn killed_while_starting() {
    // From the making of the folder to the first steps of the server.
    for wait in [0, 300, 600, 900] {
        let place = Place::new("starting");
        let owner = owner("owner", &place);
        wait_until("no folder", || !place.entries().is_empty());
        std::thread::sleep(Duration::from_millis(wait));
        kill(owner);
        wait_until("the folder is still there", || place.entries().is_empty());
        wait_until("a server lives on", || servers_in(&place.0).is_empty());
    }
}

/// The processes that stand in a folder.
fn servers_in(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stands = |path: &PathBuf| fs::read_link(path).is_ok_and(|cwd| cwd.starts_with(place));
    entries.map(|entry| entry.path().join("cwd")).filter(stands).collect()
}

fn thread_ends() {
    let place = Place::new("thread");
    let settings = Settings { parent: place.0.clone(), ..Settings::default() };
    let server = std::thread::spawn(move || Private::start(&settings).unwrap()).join().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(exists(server.pid().unwrap()));
    server.stop().unwrap();
}
