//! The program with a terminal as its standard error, and a bound on its memory: what it shows while it
//! works, and that whatever is asked for is answered, refused, or seen to be worked at.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command::{PATIENCE, PROGRAM};

/// The most address space that a call may take \[KiB\]: refused work takes none, and nothing that is
/// worked at in these tests needs a fraction of it.
const MEMORY_MAX_KIB: u64 = 4 << 20;

/// Result of a call.
#[derive(Debug)]
pub(crate) struct Seen {
    /// None if it was still at work, and showed it, when it was ended.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    /// As a terminal was sent it, with all control sequences.
    pub(crate) err: String,
}

impl Seen {
    /// Message on standard error, line breaks aside.
    pub(crate) fn message(&self) -> String {
        self.err.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Moment until which a call is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// Its end.
    Ended,
    /// Its end, or that it shows what it does.
    Shown,
}

/// Calls the program in a folder.
///
/// # Panics
/// If it says nothing for long, is ended by a signal (as when its memory is used up), or panics.
#[track_caller]
pub(crate) fn on_terminal(folder: &Path, words: &[&str], until: Until) -> Seen {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has terminals");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let slave = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let slave: OwnedFd = slave.expect("it was unlocked");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_MAX_KIB}; exec \"$0\" \"$@\""), PROGRAM]);
    command.args(words).current_dir(folder).env("TERM", "xterm").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(slave);
    let mut child = command.spawn().expect("the program starts");
    // With it the last end of the terminal that is ours goes, so that its reader sees the end.
    drop(command);
    let (out, err) = (Arc::default(), Arc::default());
    let readers = [
        collect(child.stdout.take().expect("piped above"), &out),
        collect(File::from(master), &err),
    ];
    let shown = || match until {
        Until::Ended => false,
        // Who complains is about to end, and with which code is asked.
        Until::Shown => {
            let err = text(&err);
            !text(&out).is_empty() || !err.is_empty() && !err.contains("error: ")
        }
    };
    let code = wait(&mut child, shown, &err, words);
    child.kill().ok();
    child.wait().expect("it is our child");
    for reader in readers {
        reader.join().expect("a reader cannot fail");
    }
    let seen = Seen { code, out: text(&out), err: text(&err) };
    assert!(!seen.err.contains("panicked"), "{words:?}: {seen:?}");
    seen
}

#[track_caller]
fn wait(
    child: &mut Child,
    shown: impl Fn() -> bool,
    err: &Mutex<Vec<u8>>,
    words: &[&str],
) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            let code = status.code();
            assert!(code.is_some(), "{words:?}: ended with {status}: {}", text(err));
            return code;
        }
        if shown() {
            // What is refused says so at once, and ends.
            thread::sleep(Duration::from_millis(100));
            let status = child.try_wait().expect("it is our child");
            return status.and_then(|status| status.code());
        }
        if Instant::now() > deadline {
            child.kill().expect("it is our child");
            panic!("{words:?}: no end within {PATIENCE:?}: {}", text(err));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn collect(
    mut from: impl Read + Send + 'static,
    into: &Arc<Mutex<Vec<u8>>>,
) -> thread::JoinHandle<()> {
    let into = Arc::clone(into);
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        // The end of a terminal is an error to its reader.
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            into.lock().expect("nobody panics with it").extend_from_slice(&bytes[..read]);
        }
    })
}

fn text(of: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&of.lock().expect("nobody panics with it")).into_owned()
}
