//! The process that outlives us: a shell that waits for our end, then ends the server and removes its folder.
//!
//! It waits on a pipe whose other end only we hold, so it notices our end however we end. A server stands in its
//! folder, and is found by that: it may have been started a moment ago, and its number told to nobody.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `$1` is the folder.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
while read -r _; do :; done
tries=0
while [ -d "$1" ] && [ "$tries" -lt 300 ]; do
    tries=$((tries + 1))
    left=
    for cwd in /proc/[0-9]*/cwd; do
        [ "$(readlink "$cwd")" = "$1" ] || continue
        pid=${cwd#/proc/}
        kill -KILL "${pid%/cwd}"
        left=1
    done
    [ -n "$left" ] || rm -rf -- "$1"
    sleep 0.1
done 2> /dev/null
"#;

/// The shell. While this lives, it waits.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    folder: PathBuf,
}

impl Watchdog {
    /// Begins to wait for our end.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sekisho-rival-watchdog"]).arg(folder);
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn()?, folder: folder.to_owned() })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if self.folder.exists() {
            // What we could not do is its work now: the end of the pipe tells it to begin.
            return drop(self.shell.stdin.take());
        }
        // Everything is done. It ignores what asks it to end, and holds nothing.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
