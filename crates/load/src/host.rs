//! Description of this machine, and use of it by a thread: a number without its machine is worth
//! little.

use std::fs;

use measure::Host;

pub use crate::sys::{raise_descriptor_limit, set_timer_slack_least, thread_cpu};

/// The machine that this runs on; what cannot be read is left empty.
pub fn facts() -> Host {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let system = line("/proc/sys/kernel/ostype");
    let release = line("/proc/sys/kernel/osrelease");
    Host {
        name: line("/proc/sys/kernel/hostname"),
        kernel: format!("{system} {release}").trim().to_owned(),
        cpu_model: cpu_model(&line("/proc/cpuinfo")),
        cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
        memory_bytes: memory_bytes(&line("/proc/meminfo")),
    }
}

/// Ticks of all processors since the machine began, busy and in all; `None` where the kernel does not
/// tell.
pub fn ticks() -> Option<(u64, u64)> {
    ticks_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line has user, nice, system, idle, iowait, irq, softirq, steal, and guest times that are
/// in the first two already. A processor that another machine has stolen is not free.
fn ticks_of(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let idle = fields.get(3)? + fields.get(4)?;
    let all: u64 = fields.iter().sum();
    Some((all - idle, all))
}

/// x86 names the model; arm64 only numbers its implementer and part.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name")
        .or_else(|| {
            Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?))
        })
        .unwrap_or_default()
}

fn memory_bytes(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok())
        .map_or(0, |kib: u64| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_a_kernel_processors_and_memory() {
        let host = facts();
        assert!(!host.name.is_empty() && host.kernel.starts_with("Linux "), "{host:?}");
        assert!(host.cpus >= 1 && host.memory_bytes > 1 << 20, "{host:?}");
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting() {
        let stat = "cpu  100 5 20 800 60 3 2 10 7 0\ncpu0 1 2 3\n";
        assert_eq!(ticks_of(stat), Some((140, 1000)));
        for broken in ["", "cpu  1 2 3", "cpu  1 2 x 4 5", "intr 5"] {
            assert_eq!(ticks_of(broken), None, "{broken}");
        }
        assert!(ticks().is_some_and(|(busy, all)| 0 < busy && busy < all));
    }

    #[test]
    fn processors_are_named_on_both_architectures() {
        assert_eq!(
            cpu_model("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
        let arm = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n";
        assert_eq!(cpu_model(arm), "implementer 0x41 part 0xd0c");
        assert_eq!(memory_bytes("MemTotal:       2048 kB\nMemFree: 1 kB"), 2 << 20);
    }
}
