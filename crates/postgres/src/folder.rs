//! The folder that a server lives in: its log, its password, its socket, its data directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::account::Account;
use crate::process;

/// The last lines of a log that an error shows, and what they may be in all \[byte\].
const LINES: usize = 8;
const TAIL: u64 = 4096;

/// A folder of the server's user, which nobody else can look into.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Opened before the folder was given away: a name in it may be anything by now.
    log: File,
}

impl Folder {
    /// Makes the folder below `parent`, with the password and an empty log in it, and gives it to
    /// `account`.
    pub(crate) fn new(
        parent: &Path,
        password: &str,
        account: Option<&Account>,
    ) -> io::Result<Folder> {
        let path = make(parent)?;
        Folder::fill(&path, password, account).inspect_err(|_| {
            // The error in hand says more than one about what is left.
            let _ = fs::remove_dir_all(&path);
        })
    }

    fn fill(path: &Path, password: &str, account: Option<&Account>) -> io::Result<Folder> {
        let mut options = OpenOptions::new();
        options.create_new(true).read(true).append(true).mode(0o600);
        let log = options.open(path.join("server.log"))?;
        options.open(path.join("password"))?.write_all(password.as_bytes())?;
        if let Some(account) = account {
            for name in ["server.log", "password", "."] {
                process::give(&path.join(name), account.user, account.group)?;
            }
        }
        Ok(Folder { path: path.to_owned(), log })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(crate) fn password(&self) -> PathBuf {
        self.path.join("password")
    }

    /// For a child to write to.
    pub(crate) fn log(&self) -> io::Result<File> {
        self.log.try_clone()
    }

    /// Length of the log \[byte\].
    pub(crate) fn log_length(&self) -> u64 {
        self.log.metadata().map_or(0, |log| log.len())
    }

    /// The last lines that were written after the log was `since` bytes long.
    pub(crate) fn log_tail(&self, since: u64) -> String {
        let end = self.log_length();
        let start = since.max(end.saturating_sub(TAIL));
        let mut bytes = vec![0; end.saturating_sub(start) as usize];
        let read = self.log.read_at(&mut bytes, start).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// The process that serves and whether it is ready, as the server itself says.
    pub(crate) fn ready(&self, pid: u32) -> bool {
        let mut text = String::new();
        let read = File::open(self.data().join("postmaster.pid"))
            .and_then(|file| file.take(TAIL).read_to_string(&mut text));
        let mut lines = text.lines();
        read.is_ok()
            && lines.next().and_then(|line| line.trim().parse().ok()) == Some(pid)
            && lines.nth(6).is_some_and(|status| status.trim() == "ready")
    }

    /// Removes it with everything in it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }
}

/// A new folder below `parent` with a name of its own, closed to others.
pub(crate) fn make(parent: &Path) -> io::Result<PathBuf> {
    let mut tries = 0_u32..10_000;
    loop {
        let number = tries.next().ok_or(io::ErrorKind::AlreadyExists)?;
        let path = parent.join(format!("sekisho-pg-{}-{number}", std::process::id()));
        // Fails where anything of that name exists, so nobody can put a trap there.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes a folder with everything in it. What was killed a moment ago may still be writing.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let mut tries = 0..50;
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if tries.next().is_none() => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(10)),
            Ok(()) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn two_folders_differ_and_nobody_else_may_look_inside() {
        let make = || Folder::new(&std::env::temp_dir(), "secret", None).unwrap();
        let (one, other) = (make(), make());
        assert_ne!(one.path(), other.path());
        for path in [one.path(), &one.password()] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
        }
        assert_eq!(fs::read_to_string(one.password()).unwrap(), "secret");
        one.remove().unwrap();
        other.remove().unwrap();
        one.remove().unwrap();
        assert!(!one.path().exists());
    }

    #[test]
    fn the_tail_of_a_log_begins_where_it_is_told() {
        let folder = Folder::new(&std::env::temp_dir(), "", None).unwrap();
        folder.log().unwrap().write_all(b"old\n").unwrap();
        let since = folder.log_length();
        assert_eq!(folder.log_tail(since), "");
        for number in 0..20 {
            writeln!(folder.log().unwrap(), "line {number}\n").unwrap();
        }
        let tail = folder.log_tail(since);
        assert_eq!(tail.lines().count(), LINES);
        assert!(tail.starts_with("line 12\n") && tail.ends_with("line 19"), "{tail}");
        folder.remove().unwrap();
    }

    #[test]
    fn only_the_servers_own_word_makes_it_ready() {
        let folder = Folder::new(&std::env::temp_dir(), "", None).unwrap();
        assert!(!folder.ready(7));
        fs::create_dir(folder.data()).unwrap();
        let write = |pid: &str, status: &str| {
            let text = format!("{pid}\n/d\n1\n5432\n/s\n127.0.0.1\n 1 2\n{status}\n");
            fs::write(folder.data().join("postmaster.pid"), text).unwrap();
        };
        write("7", "starting");
        assert!(!folder.ready(7));
        write("8", "ready   ");
        assert!(!folder.ready(7), "somebody else's");
        write("7", "ready   ");
        assert!(folder.ready(7));
        folder.remove().unwrap();
    }
}
