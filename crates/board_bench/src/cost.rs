//! Costs of a store: processor time and memory of the processes that hold it, as the kernel counts them.

use std::{fs, io};

/// Processor time and memory of a family of processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Processor time so far, that of processes that have ended included \[s\].
    pub(crate) cpu_s: f64,
    /// Memory; none if the kernel does not tell.
    pub(crate) memory: Option<Memory>,
}

/// Resident memory, a page that several processes share counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All of it \[B\].
    pub resident: u64,
    /// The part in shared segments, as PostgreSQL's buffers are \[B\].
    pub shared: u64,
}

/// The parent of a process, and its processor time and that of the children that it has waited for in ticks, from
/// `/proc/PID/stat`.
fn parse_stat(stat: &str) -> Option<(u32, u64)> {
    // Its name stands in brackets and may hold anything.
    let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| rest.get(at)?.parse::<u64>().ok();
    let all = (11..=14).map(ticks).sum::<Option<u64>>()?;
    Some((rest.get(1)?.parse().ok()?, all))
}

/// The share of a process in resident memory, from `/proc/PID/smaps_rollup`.
fn parse_rollup(rollup: &str) -> Option<Memory> {
    let bytes = |key: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(Memory { resident: bytes("Pss:")?, shared: bytes("Pss_Shmem:")? })
}

/// The memory of a family from the kernel's files, the first process in front, which must be told. Others that end
/// between two looks have no memory any more; of one that lives and may not be looked at, the sum is unknown.
fn sum(rollups: impl IntoIterator<Item = io::Result<String>>) -> Option<Memory> {
    let mut rollups = rollups.into_iter();
    let first = parse_rollup(&rollups.next()?.ok()?)?;
    rollups.try_fold(first, |all, rollup| match rollup {
        Ok(rollup) => {
            let one = parse_rollup(&rollup)?;
            Some(Memory { resident: all.resident + one.resident, shared: all.shared + one.shared })
        }
        Err(error) => has_ended(&error).then_some(all),
    })
}

/// True if the kernel says by this that the process is no more: its files are gone, or it holds no memory any more.
fn has_ended(error: &io::Error) -> bool {
    let is_gone = error.kind() == io::ErrorKind::NotFound;
    is_gone || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// A process and all that descend from it.
fn family(of: u32, all: &[(u32, u32, u64)]) -> Vec<(u32, u64)> {
    let mut found: Vec<(u32, u64)> = Vec::new();
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        found.extend(all.iter().filter(|one| one.0 == parent).map(|one| (one.0, one.2)));
        // No process descends from itself.
        next.extend(all.iter().filter(|one| one.1 == parent && one.0 != parent).map(|one| one.0));
    }
    found
}

/// The costs of a process and of all that descend from it.
pub(crate) fn cost(of: u32) -> Cost {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32, u64)> = pids
        .filter_map(|pid| {
            // A process may end while it is looked at.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (parent, ticks) = parse_stat(&stat)?;
            Some((pid, parent, ticks))
        })
        .collect();
    let family = family(of, &all);
    let ticks: u64 = family.iter().map(|one| one.1).sum();
    let rollup = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let cpu_s = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Cost { cpu_s, memory: sum(family.iter().map(|(pid, _)| rollup(pid))) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_family_is_a_process_and_all_that_descend_from_it() {
        let all = [(10, 1, 5), (11, 10, 7), (12, 11, 11), (13, 1, 100)];
        let mut pids: Vec<u32> = family(10, &all).iter().map(|one| one.0).collect();
        pids.sort_unstable();
        assert_eq!(pids, [10, 11, 12]);
        assert_eq!(family(10, &all).iter().map(|one| one.1).sum::<u64>(), 23);
        assert!(family(99, &all).is_empty());
    }

    #[test]
    fn the_kernels_files_are_read_whatever_a_process_is_called() {
        let stat = "12 (a) b) c) S 10 12 12 0 -1 4194560 1 2 3 4 250 50 4 3 20 0 1 0 9 8 7";
        assert_eq!(parse_stat(stat), Some((10, 307)), "its ended children's ticks with its own");
        let rollup = "00-ff ---p [rollup]\nRss: 9 kB\nPss:    12 kB\nPss_Shmem:  5 kB\n";
        let memory = Memory { resident: 12 << 10, shared: 5 << 10 };
        assert_eq!(parse_rollup(rollup), Some(memory));
        assert_eq!(parse_rollup("Rss: 9 kB\n"), None);
    }

    /// This process works and holds memory: both are seen, and grow.
    #[test]
    fn work_and_memory_are_seen() {
        let before = cost(std::process::id());
        let held = vec![1_u8; 32 << 20];
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed().as_millis() < 300 {
            sum = held.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        }
        let after = cost(std::process::id());
        assert!(sum > 0 && after.cpu_s > before.cpu_s, "{before:?} {after:?}");
        let resident = |cost: Cost| cost.memory.expect("Linux tells").resident;
        let grown = resident(after) - resident(before);
        assert!(grown > 24 << 20, "{grown} B of 32 MiB");
    }

    /// A process with these bytes, as the kernel tells them.
    fn told() -> io::Result<String> {
        Ok("Pss:  3 kB\nPss_Shmem:  1 kB\n".into())
    }

    /// What the kernel says in place of the memory of a process.
    fn refused(errno: rustix::io::Errno) -> io::Result<String> {
        Err(io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    /// A backend of PostgreSQL that ended as it was looked at made the memory of all unknown.
    #[test]
    fn a_process_that_ends_between_two_looks_is_left_out() {
        use rustix::io::Errno;
        let both = Memory { resident: 6 << 10, shared: 2 << 10 };
        for ended in [Errno::NOENT, Errno::SRCH] {
            assert_eq!(sum([told(), refused(ended), told()]), Some(both), "{ended:?}");
            assert_eq!(sum([refused(ended), told()]), None, "nothing is known of the first");
        }
        // A process that nobody has waited for yet holds no memory: this is what the kernel says of it.
        let mut child = Command::new("true").spawn().unwrap();
        let path = format!("/proc/{}", child.id());
        let begun = std::time::Instant::now();
        while !fs::read_to_string(format!("{path}/stat")).unwrap().contains(") Z ") {
            assert!(begun.elapsed().as_secs() < 20, "it does not end");
            std::thread::yield_now();
        }
        let error = fs::read_to_string(format!("{path}/smaps_rollup")).unwrap_err();
        assert!(has_ended(&error), "{error:?}");
        child.wait().unwrap();
        let error = fs::read_to_string(format!("{path}/smaps_rollup")).unwrap_err();
        assert!(has_ended(&error), "{error:?}");
    }

    /// Processes of another user counted as ended: the memory of a store was told without them, and too small.
    #[test]
    fn the_memory_of_a_family_is_unknown_if_one_of_it_may_not_be_looked_at() {
        use rustix::io::Errno;
        for errno in [Errno::ACCESS, Errno::PERM, Errno::IO] {
            assert_eq!(sum([told(), refused(errno), told()]), None, "{errno:?}");
        }
        assert_eq!(sum([told(), Ok("Rss: 9 kB\n".into())]), None, "an older kernel");
    }

    /// Backends of PostgreSQL end with their connections: their processor time was no longer counted.
    #[test]
    fn the_work_of_children_that_have_ended_is_seen() {
        let loops = "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done";
        let script = format!("sh -c '{loops}'; echo done; read end");
        let mut parent = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = String::new();
        BufReader::new(parent.stdout.take().unwrap()).read_line(&mut told).unwrap();
        let cost = cost(parent.id());
        drop(parent.stdin.take());
        parent.wait().unwrap();
        assert_eq!(told, "done\n");
        assert!(cost.cpu_s > 0.05, "{cost:?}");
    }
}
