//! The system calls: who we are, signals, and the end of a whole server at once.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::path::Path;
use std::process::Child;

/// Whether we may do everything.
pub(crate) fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// Sends a signal to a child that has not been waited for, so that its number is still its own.
pub(crate) fn signal(child: &Child, signal: i32) {
    send(child.id(), signal);
}

/// Kills a postmaster and all its children, none of which may clean up. Its children lead sessions
/// of their own, so no process group holds them; it is stopped first, so that it starts no more.
pub(crate) fn kill_all(postmaster: &Child) -> io::Result<()> {
    let pid = postmaster.id();
    send(pid, libc::SIGSTOP);
    let children = children(pid);
    // Children first: one that notices that its parent is gone would clean up.
    for child in children.as_deref().unwrap_or_default() {
        send(*child, libc::SIGKILL);
    }
    send(pid, libc::SIGKILL);
    children.map(|_| ())
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
    use std::process::Command;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (a) b (c) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a"), None);
    }

    #[test]
    fn a_child_is_among_our_children() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).unwrap().contains(&child.id()));
        kill_all(&child).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
