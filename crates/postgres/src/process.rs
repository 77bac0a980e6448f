//! The system calls: who we are, signals, and the end of a whole server at once.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Time for processes to end that were killed: one that writes to a disk ends when that is done.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// True if we are root.
pub(crate) fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// Sends a signal to a child that has not been waited for, so that its number is still its own.
pub(crate) fn signal(child: &Child, signal: i32) {
    send(child.id(), signal);
}

/// Kills a process that leads its group, the group, and all its children, none of which may clean
/// up. A postmaster's children lead sessions of their own, so its group does not hold them; those
/// of `initdb` are in its group, and have children. It is stopped first, so that it starts no more.
/// Its children are gone when this returns, or it has waited for [`GONE_WITHIN`]: the memory that they
/// share is in use as long as one is left, and the next server on that folder would refuse to start.
pub(crate) fn kill_all(leader: &Child) -> io::Result<()> {
    let pid = leader.id();
    send(pid, libc::SIGSTOP);
    // A signal takes effect when its process runs next, and until then another child may come.
    wait_until(|| matches!(state(pid), None | Some('T' | 't' | 'Z' | 'X')));
    let children = children(pid);
    // Children first: one that notices that its parent is gone would clean up.
    for child in children.as_deref().unwrap_or_default() {
        send(*child, libc::SIGKILL);
    }
    send(pid, libc::SIGKILL);
    // SAFETY: a plain system call. The leader is not waited for, so the group's number is its own;
    // the call fails where the child leads no group.
    unsafe { libc::kill(-(pid as libc::pid_t), libc::SIGKILL) };
    let is_gone = |pid: &u32| matches!(state(*pid), None | Some('Z' | 'X'));
    wait_until(|| children.as_ref().is_ok_and(|all| all.iter().all(is_gone)) || children.is_err());
    children.map(|_| ())
}

/// Looks until something is so, for a time.
fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < GONE_WITHIN {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The state of a process, as `ps` has it; none if it is gone.
fn state(pid: u32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = status.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

fn send(pid: u32, signal: i32) {
    // SAFETY: a plain system call. The caller knows that the number names its own process, which is
    // not waited for; so it cannot fail but for a process that has ended, which is as well.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// The children of a process.
pub(crate) fn children(parent: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that ends while we look is nobody's child any more.
        let Ok(status) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if parent_in(&status) == Some(parent) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The child that calls itself so, as the background processes of PostgreSQL do.
pub(crate) fn child_titled(parent: u32, title: &str) -> io::Result<u32> {
    let is_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_titled(&line, title)
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no process `{title}`"));
    children(parent)?.into_iter().find(is_it).ok_or_else(missing)
}

/// True if a command line, which ends in zeros and spaces, is this title.
fn is_titled(line: &[u8], title: &str) -> bool {
    let line = String::from_utf8_lossy(line);
    line.trim_end_matches(['\0', ' ']) == title
}

/// Holds a child of a process of ours still; nothing but the end wakes it.
pub(crate) fn hold(child: u32) {
    send(child, libc::SIGSTOP);
}

/// The second field after the name, which stands in parentheses and may hold anything.
fn parent_in(status: &str) -> Option<u32> {
    let (_, rest) = status.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Gives a file or folder to somebody.
pub(crate) fn give(path: &Path, user: u32, group: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(user), Some(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (a) b (c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a"), None);
    }

    #[test]
    fn a_title_is_the_whole_line() {
        assert!(is_titled(b"postgres: walwriter \0\0", "postgres: walwriter"));
        assert!(!is_titled(b"postgres: walwriter x", "postgres: walwriter"));
        assert!(!is_titled(b"", "postgres: walwriter"));
    }

    #[test]
    fn a_child_is_among_our_children() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).unwrap().contains(&child.id()));
        kill_all(&child).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    /// The story: a server that was killed and started again at once found the memory of the one before in use.
    #[test]
    fn all_children_are_gone_when_it_returns() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "for n in $(seq 200); do sleep 60 & done; wait"]);
        let mut child = shell.spawn().unwrap();
        let sleeps = loop {
            let children = children(child.id()).unwrap();
            if children.len() == 200 {
                break children;
            }
        };
        kill_all(&child).unwrap();
        let left = sleeps.iter().filter(|pid| !matches!(state(**pid), None | Some('Z' | 'X')));
        assert_eq!(left.count(), 0);
        child.wait().unwrap();
    }

    #[test]
    fn grandchildren_in_the_group_end_too() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 60; true'; true"]).process_group(0);
        let mut child = shell.spawn().unwrap();
        let sleep = loop {
            let children = children(child.id()).unwrap();
            let grand = children.first().map(|shell| super::children(*shell).unwrap());
            if let Some(pid) = grand.unwrap_or_default().first() {
                break *pid;
            }
        };
        kill_all(&child).unwrap();
        child.wait().unwrap();
        let begun = std::time::Instant::now();
        let is_alive = || {
            let status = fs::read_to_string(format!("/proc/{sleep}/stat")).unwrap_or_default();
            !status.is_empty() && !status.contains(") Z ")
        };
        while is_alive() {
            assert!(begun.elapsed().as_secs() < 10, "it sleeps on");
        }
    }
}
