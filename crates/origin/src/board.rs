//! The counters of an origin, in memory that its worker processes share with whoever started it.
#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// The most workers that an origin may have.
pub(crate) const WORKERS_MAX: usize = 1024;

/// The counters. All zero at the start, so that fresh memory from the kernel is a valid one.
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) served: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) overruns: AtomicU64,
    pub(crate) overrun_ns: AtomicU64,
    pub(crate) demand_ns: AtomicU64,
    /// CPU time of forked workers that have ended [ns].
    pub(crate) ended_cpu_ns: AtomicU64,
    /// CPU time that forked workers spent after their request, which later ones spend less [ns].
    pub(crate) debt_ns: AtomicI64,
    pub(crate) lost: AtomicU32,
    pub(crate) in_service_max: AtomicU32,
    in_service: AtomicU32,
    pub(crate) stopping: AtomicBool,
    pub(crate) workers: [Row; WORKERS_MAX],
}

/// Row of one worker.
#[repr(C)]
pub(crate) struct Row {
    /// Its process, 0 for none; unused where workers are threads.
    pub(crate) pid: AtomicI32,
    /// 1 while it serves a request.
    busy: AtomicU32,
    /// Of a process: its CPU time when it was ready for its first connection [ns]. Of a thread:
    /// its CPU time since then.
    pub(crate) cpu_ns: AtomicI64,
}

impl Counters {
    /// A request is in service from when its head was read to when its last byte was handed over.
    pub(crate) fn enter(&self, row: usize) {
        self.workers[row].busy.store(1, Ordering::Relaxed);
        let now = self.in_service.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_service_max.fetch_max(now, Ordering::Relaxed);
    }

    /// Also called for a worker that was killed: does nothing unless it was in service.
    pub(crate) fn leave(&self, row: usize) {
        if self.workers[row].busy.swap(0, Ordering::Relaxed) == 1 {
            self.in_service.fetch_sub(1, Ordering::Release);
        }
    }

    pub(crate) fn in_service(&self) -> u32 {
        self.in_service.load(Ordering::Acquire)
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// A mapping of [`Counters`].
pub(crate) struct Board(NonNull<Counters>);

// SAFETY: the mapping lives as long as the `Board`, belongs to no thread, and holds only atomics.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Board {
    /// Memory of this process, shared with what it forks.
    pub(crate) fn anonymous() -> io::Result<Board> {
        Board::map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// The memory behind a file descriptor of [`Board::SIZE`] bytes.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn at(fd: RawFd) -> io::Result<Board> {
        Board::map(libc::MAP_SHARED, fd)
    }

    pub(crate) const SIZE: usize = size_of::<Counters>();

    fn map(flags: libc::c_int, fd: RawFd) -> io::Result<Board> {
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), Board::SIZE, protection, flags, fd, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Board(NonNull::new(start.cast()).expect("a mapping is never at address 0")))
    }
}

impl Deref for Board {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        // SAFETY: page-aligned, `SIZE` bytes long, zero or written through atomics only, and
        // mapped until drop.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the very mapping that `map` made, and nobody can hold a reference any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), Board::SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_was_idle_leaves_nothing() {
        let board = Board::anonymous().unwrap();
        board.enter(3);
        board.enter(4);
        board.leave(3);
        board.leave(3);
        board.leave(5);
        assert_eq!(board.in_service(), 1);
        assert_eq!(board.in_service_max.load(Ordering::Relaxed), 2);
    }
}
