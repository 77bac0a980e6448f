//! CPU affinity of this thread, to keep it on one CPU: demands add up to a known load only when all
//! workers share one CPU and nobody else is told to use it.

use std::io;

/// The CPUs that the calling thread may run on, in ascending order.
///
/// Outside Linux, where a thread cannot be bound, all CPUs of the machine.
///
/// # Errors
/// If the kernel refuses the question.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    system::allowed_cpus()
}

/// Binds the calling thread to one CPU; threads and processes that it starts inherit this.
///
/// # Errors
/// If this process may not use that CPU or there is none with that number; outside Linux, always
/// [`io::ErrorKind::Unsupported`].
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    Mask::single(cpu).apply()
}

/// A set of CPUs as the kernel reads it, built ahead so that a child between `fork` and `exec`
/// need not allocate.
pub(crate) struct Mask(#[cfg_attr(not(target_os = "linux"), allow(dead_code))] Vec<u64>);

impl Mask {
    pub(crate) fn single(cpu: usize) -> Mask {
        let mut words = vec![0; cpu / 64 + 1];
        words[cpu / 64] = 1 << (cpu % 64);
        Mask(words)
    }

    /// Binds the calling thread. Does not allocate.
    pub(crate) fn apply(&self) -> io::Result<()> {
        system::apply(&self.0)
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::io;

    /// More CPUs than any kernel is built for, so that the search for a size ends.
    const WORDS_MAX: usize = 1 << 12;

    pub(super) fn allowed_cpus() -> io::Result<Vec<usize>> {
        let mut words = vec![0_u64; 16];
        loop {
            let size = size_of_val(words.as_slice());
            // SAFETY: `words` is valid for writes of `size` bytes; 0 names the calling thread.
            let result = unsafe { libc::sched_getaffinity(0, size, words.as_mut_ptr().cast()) };
            if result == 0 {
                break;
            }
            let error = io::Error::last_os_error();
            // The kernel answers EINVAL while the mask is too short for its number of CPUs.
            if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= WORDS_MAX {
                return Err(error);
            }
            words.resize(words.len() * 2, 0);
        }
        Ok((0..words.len() * 64).filter(|cpu| words[cpu / 64] >> (cpu % 64) & 1 == 1).collect())
    }

    pub(super) fn apply(words: &[u64]) -> io::Result<()> {
        // SAFETY: `words` is valid for reads of that many bytes; 0 names the calling thread.
        let result =
            unsafe { libc::sched_setaffinity(0, size_of_val(words), words.as_ptr().cast()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    pub(super) fn allowed_cpus() -> io::Result<Vec<usize>> {
        Ok((0..std::thread::available_parallelism()?.get()).collect())
    }

    pub(super) fn apply(_words: &[u64]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_there_and_nowhere_else() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        for &cpu in &before {
            let (seen, inherited) = std::thread::spawn(move || {
                pin_current_thread(cpu).unwrap();
                let inherited = std::thread::spawn(|| allowed_cpus().unwrap()).join().unwrap();
                (allowed_cpus().unwrap(), inherited)
            })
            .join()
            .unwrap();
            assert_eq!(seen, [cpu]);
            assert_eq!(inherited, [cpu], "threads started by a pinned thread stay there");
        }
        assert_eq!(allowed_cpus().unwrap(), before, "only the thread that asked is bound");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        assert!(pin_current_thread(60_000).is_err());
    }
}
