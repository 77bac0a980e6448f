//! A child process that cannot outlive this one, however this one ends.
//!
//! The kernel kills it when the *thread* that started it is gone (`PR_SET_PDEATHSIG`), so each has
//! a thread of its own that starts it and stays until it has ended. It leads a process group, so
//! that an interrupt at the terminal does not reach it before this process has decided what to do.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A running or ended child.
#[derive(Debug)]
pub(crate) struct Kept {
    pid: u32,
    /// Its exit status. While this is empty the child is not reaped, and its number still its own.
    status: Arc<Mutex<Option<ExitStatus>>>,
    ended: mpsc::Receiver<()>,
    keeper: Option<JoinHandle<()>>,
}

/// The ends of the child's pipes, where the command asked for pipes.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
}

impl Kept {
    /// Starts `command`; `signal` is what it gets when this process dies.
    pub(crate) fn spawn(mut command: Command, signal: i32) -> io::Result<(Kept, Pipes)> {
        let parent = std::process::id();
        command.process_group(0);
        // SAFETY: `die_with` makes system calls only.
        unsafe { command.pre_exec(move || die_with(parent, signal)) };
        let status = Arc::new(Mutex::new(None));
        let (started, start) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let keepers_status = Arc::clone(&status);
        let keeper =
            thread::Builder::new().name("keeper".to_owned()).spawn(move || {
                match command.spawn() {
                    Err(error) => drop(started.send(Err(error))),
                    Ok(mut child) => {
                        let pipes =
                            Pipes { stdin: child.stdin.take(), stdout: child.stdout.take() };
                        drop(started.send(Ok((child.id(), pipes))));
                        wait_unreaped(child.id());
                        let mut status = lock(&keepers_status);
                        *status = Some(child.wait().expect("nobody else reaps this child"));
                        drop(end);
                    }
                }
            })?;
        match start.recv().expect("the keeper answers before it ends") {
            Ok((pid, pipes)) => Ok((Kept { pid, status, ended, keeper: Some(keeper) }, pipes)),
            Err(error) => {
                keeper.join().expect("the keeper does not panic");
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its exit status, if it has ended.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        *lock(&self.status)
    }

    /// Sends it a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: i32) {
        self.send(self.pid as libc::pid_t, signal);
    }

    /// Waits for its end; gives up after `patience` and kills it, and with it whatever it started
    /// that is still in its process group.
    pub(crate) fn end(&mut self, patience: Duration) {
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            self.send(-(self.pid as libc::pid_t), libc::SIGKILL);
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.join().expect("the keeper does not panic");
        }
    }

    fn send(&self, to: libc::pid_t, signal: i32) {
        let status = lock(&self.status);
        if status.is_none() {
            // SAFETY: a plain system call; under the lock the child cannot be reaped, so `to`
            // names it or its group and nobody else.
            unsafe { libc::kill(to, signal) };
        }
    }
}

fn lock(status: &Mutex<Option<ExitStatus>>) -> MutexGuard<'_, Option<ExitStatus>> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs between fork and exec, and in freshly forked workers: no allocation.
pub(crate) fn die_with(parent: u32, signal: i32) -> io::Result<()> {
    // SAFETY: plain system calls.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the call above, and then nobody will send the signal.
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

/// Waits until the child has ended and leaves it to be reaped.
fn wait_unreaped(pid: u32) {
    loop {
        // SAFETY: an all-zero `siginfo_t` is a valid one, and it is valid for writes.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("60");
        command
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let (mut kept, _) =
            thread::spawn(|| Kept::spawn(sleep(), libc::SIGKILL).unwrap()).join().unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(kept.status(), None);
        kept.signal(libc::SIGTERM);
        kept.end(Duration::from_secs(10));
        assert!(kept.status().is_some());
        assert!(!std::path::Path::new(&format!("/proc/{}", kept.pid())).exists());
    }

    #[test]
    fn a_child_that_will_not_end_is_killed() {
        let (mut kept, _) = Kept::spawn(sleep(), libc::SIGKILL).unwrap();
        let begun = Instant::now();
        kept.end(Duration::from_millis(20));
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(!kept.status().unwrap().success());
    }

    #[test]
    fn a_command_that_does_not_exist_is_an_error() {
        let error = Kept::spawn(Command::new("/no/such/program"), libc::SIGKILL).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
