//! The system calls that neither the standard library nor tokio offers: timers to the nanosecond, and
//! the room of a file system. All `unsafe` of the crate is here.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::unix::AsyncFd;

/// A clock that wakes a task of tokio's at a moment, to the nanosecond, where tokio's own timers
/// count in milliseconds.
#[derive(Debug)]
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// An alarm of the runtime in which this is called.
    ///
    /// # Errors
    /// If the system has no timer left.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new() -> io::Result<Alarm> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open, and is owned and never given away by what is made here.
        let fd = unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)?;
        Ok(Alarm(fd))
    }

    /// Rings once, after `span`; what was set before is forgotten.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set(&self, span: Duration) -> io::Result<()> {
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let span = span.max(Duration::from_nanos(1)); // Zero would disarm it.
        let once = libc::itimerspec {
            it_interval: never,
            it_value: libc::timespec {
                tv_sec: span.as_secs() as libc::time_t,
                tv_nsec: libc::c_long::from(span.subsec_nanos() as i32),
            },
        };
        let fd = self.0.as_raw_fd();
        // SAFETY: `once` lives through the call; the old value is not asked for.
        check(unsafe { libc::timerfd_settime(fd, 0, &raw const once, std::ptr::null_mut()) })
            .map(drop)
    }

    /// True if it has rung since this was asked last. If not, its ring wakes the task.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub fn poll(&self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut rang = false;
        while let Poll::Ready(ready) = self.0.poll_read_ready(context) {
            let mut ready = ready?;
            let mut times = 0_u64;
            let fd = self.0.as_raw_fd();
            // SAFETY: `times` has the eight bytes that are read. That there is nothing is fine.
            rang |= unsafe { libc::read(fd, (&raw mut times).cast(), 8) } == 8;
            ready.clear_ready();
        }
        Ok(rang)
    }
}

/// Space that an unprivileged process may still fill on the file system of a path \[bytes\].
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zero is a valid value of the plain struct.
    let mut found: libc::statvfs = unsafe { mem::zeroed() };
    // SAFETY: both pointers live through the call, and the path ends in a zero.
    check(unsafe { libc::statvfs(path.as_ptr(), &raw mut found) })?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// An alarm rang while its task was busy with something else. The task saw the ring only when
    /// it went to sleep, took the alarm for one that was still to ring, and slept for ever.
    #[test]
    fn an_alarm_that_has_rung_says_so_once_and_can_be_set_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let alarm = Alarm::new().unwrap();
            for _ in 0..3 {
                alarm.set(Duration::from_millis(1)).unwrap();
                std::thread::sleep(Duration::from_millis(3));
                let rang = poll_fn(|context| match alarm.poll(context) {
                    Ok(false) => Poll::Pending,
                    rang => Poll::Ready(rang),
                });
                assert!(rang.await.unwrap());
                poll_fn(|context| {
                    assert!(!alarm.poll(context).unwrap(), "it rang once");
                    Poll::Ready(())
                })
                .await;
            }
        });
    }
}
