//! The kernel's counters of processes and of its network: CPU time, memory, overflows. Read only.

use crate::origin::Memory;

/// The longest queue that `listen` really gives.
#[cfg(target_os = "linux")]
pub(crate) fn backlog_max() -> u32 {
    // Where /proc is not readable, the value of every kernel since 5.4.
    let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    text.trim().parse().unwrap_or(4096)
}

/// The longest queue that `listen` really gives: elsewhere, what `<sys/socket.h>` says.
#[cfg(not(target_os = "linux"))]
pub(crate) fn backlog_max() -> u32 {
    libc::SOMAXCONN.unsigned_abs()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn memory(_control: u32, _workers: &[u32]) -> std::io::Result<Memory> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
pub use linux::{ListenOverflows, listen_overflows};
#[cfg(target_os = "linux")]
pub(crate) use linux::{children, cpu_time, memory};

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::{self, ErrorKind};
    use std::time::Duration;

    use super::Memory;

    /// Connections that a full queue lost, over all listeners of this network namespace since it began;
    /// compare two readings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListenOverflows {
        /// Connections that found an accept queue full (`TcpExt: ListenOverflows`).
        pub overflows: u64,
        /// Connections dropped for this or any other reason (`TcpExt: ListenDrops`).
        pub drops: u64,
    }

    /// Reads how many connections were lost so far. Each shows to its client as 1 s, 3 s or 7 s more
    /// of connecting, so that a run in which the count grew did not measure the server.
    ///
    /// # Errors
    /// If `/proc/net/netstat` cannot be read or does not hold the two counters.
    pub fn listen_overflows() -> io::Result<ListenOverflows> {
        let text = fs::read_to_string("/proc/net/netstat")?;
        parse_netstat(&text).ok_or_else(|| {
            let message = "/proc/net/netstat names no TcpExt ListenOverflows and ListenDrops";
            io::Error::new(ErrorKind::InvalidData, message)
        })
    }

    /// Each protocol has a line of names and a line of values.
    fn parse_netstat(text: &str) -> Option<ListenOverflows> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |wanted: &str| {
            let at = names.split_whitespace().position(|name| name == wanted)?;
            values.split_whitespace().nth(at)?.parse().ok()
        };
        Some(ListenOverflows { overflows: value("ListenOverflows")?, drops: value("ListenDrops")? })
    }

    /// The memory of worker processes and of the one that forks them. A worker that ended meanwhile
    /// does not count.
    pub(crate) fn memory(control: u32, workers: &[u32]) -> io::Result<Memory> {
        let mut memory = Memory { workers: 0, workers_pss: 0, control_pss: pss(control)? };
        for &worker in workers {
            match pss(worker) {
                Ok(bytes) => {
                    memory.workers += 1;
                    memory.workers_pss += bytes;
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(memory)
    }

    /// A process that has ended has no files in /proc, or, not yet reaped, no memory.
    fn is_gone(error: &io::Error) -> bool {
        error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
    }

    /// A process's proportional set size \[byte\].
    fn pss(pid: u32) -> io::Result<u64> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path)
            .map_err(|error| if is_gone(&error) { error } else { named(&path, &error) })?;
        if text.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let kib =
            text.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next());
        let kib = kib.and_then(|kib| kib.parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, format!("{path} has no Pss")))
    }

    fn named(path: &str, error: &io::Error) -> io::Error {
        let mut message = format!("{path}: {error}");
        if error.kind() == ErrorKind::PermissionDenied {
            message += "; reading another user's memory needs CAP_SYS_PTRACE";
        }
        io::Error::new(error.kind(), message)
    }

    /// The processes that `parent` forked and has not reaped, in ascending order.
    pub(crate) fn children(parent: u32) -> io::Result<Vec<u32>> {
        let mut children = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process may end between the listing and the look at it.
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            if parent_of(&stat) == Some(parent) {
                children.push(pid);
            }
        }
        children.sort_unstable();
        Ok(children)
    }

    /// The second field after the name, which is in brackets and may itself hold any character.
    fn parent_of(stat: &str) -> Option<u32> {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace().nth(1)?.parse().ok()
    }

    /// The CPU time that a process has used. Its CPU clock is exact even while it runs;
    /// `/proc/<pid>/schedstat` is behind by up to a tick.
    #[allow(unsafe_code)]
    pub(crate) fn cpu_time(pid: u32) -> io::Result<Duration> {
        let mut clock: libc::clockid_t = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `clock` is valid for writes; the call returns its error instead of setting errno.
        let error = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: `time` is valid for writes.
        if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn netstat_is_read_by_name() {
            let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops Other\n\
                        TcpExt: 1 22 333 4\nIpExt: InOctets\nIpExt: 5\n";
            let expected = ListenOverflows { overflows: 22, drops: 333 };
            assert_eq!(parse_netstat(text), Some(expected));
            assert_eq!(parse_netstat("TcpExt: ListenDrops\nTcpExt: 1\n"), None);
            assert_eq!(parse_netstat(""), None);
            assert!(listen_overflows().is_ok());
        }

        #[test]
        fn a_process_name_cannot_confuse_the_parent() {
            assert_eq!(parent_of("7 (a) R 1) S 42 7 7 0"), Some(42));
            assert_eq!(parent_of("garbage"), None);
        }

        #[test]
        fn own_memory_and_cpu_time_are_seen() {
            let own = std::process::id();
            let seen = memory(own, &[own]).unwrap();
            assert_eq!(seen.workers, 1);
            assert!(seen.workers_pss > 100_000, "{seen:?}");
            let before = cpu_time(own).unwrap();
            let target = crate::demand::thread_cpu_ns() + 5_000_000;
            crate::demand::Spin::calibrate().until(target, || false);
            assert!(cpu_time(own).unwrap() - before >= Duration::from_millis(5));
        }

        #[test]
        fn children_are_found_until_they_are_reaped() {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            assert!(children(std::process::id()).unwrap().contains(&child.id()));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!children(std::process::id()).unwrap().contains(&child.id()));
            let own = std::process::id();
            assert_eq!(memory(own, &[child.id()]).unwrap().workers, 0);
        }
    }
}
