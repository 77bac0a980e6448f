//! The process that outlives us: a shell that waits for our end, then ends the server and removes
//! its folder.
//!
//! It waits on a pipe whose other end only we hold, so it notices our end however we end. The
//! kernel's own way (`PR_SET_PDEATHSIG`) looks at the thread that started the server, not at the
//! process, and removes no files.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::account::{self, Account};
use crate::private::Keep;

/// `$1` is the folder, `$2` says whether to keep it.
///
/// If we end while the server is being started, it may not have said its number yet; so the shell
/// looks for it for some seconds. A number in an old file may be somebody else's by now, so the
/// process must stand in the data directory, as a server does.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
while read -r _; do :; done
tries=0
while [ -d "$1" ] && [ "$tries" -lt 300 ]; do
    tries=$((tries + 1))
    pid=
    { read -r pid < "$1/data/postmaster.pid"; } 2> /dev/null
    if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1/data" ]; then
        if [ "$2" = keep ]; then kill -INT "$pid"; else kill -QUIT "$pid"; fi
        [ "$tries" -lt 100 ] || kill -KILL "$pid"
    elif [ "$tries" -lt 20 ]; then
        :
    elif [ "$2" = keep ]; then
        exit 0
    else
        rm -rf -- "$1"
    fi
    sleep 0.1
done 2> /dev/null
"#;

/// The shell. While this lives, it waits.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    folder: PathBuf,
    keep: Keep,
}

impl Watchdog {
    /// Begins to wait for our end. `keep` leaves the folder, as `$2` of the script has it.
    pub(crate) fn new(
        folder: &Path,
        keep: Keep,
        account: Option<&Account>,
    ) -> io::Result<Watchdog> {
        let mut command = Command::new("/bin/sh");
        account::run_as(&mut command, account);
        command.args(["-c", SCRIPT, "sekisho-pg-watchdog"]).arg(folder);
        command.arg(match keep {
            Keep::Nothing => "remove",
            Keep::Folder => "keep",
        });
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Watchdog { shell: command.spawn()?, folder: folder.to_owned(), keep })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if self.keep == Keep::Nothing && self.folder.exists() {
            // What we could not do is its work now: the end of the pipe tells it to begin.
            return drop(self.shell.stdin.take());
        }
        // Everything is done. It ignores what asks it to end, and holds nothing.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
