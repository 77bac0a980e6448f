//! What machine this is: a number without its machine is worth little.

use std::fs;

use measure::Host;

/// The machine that this runs on; what cannot be read is left empty.
pub(crate) fn facts() -> Host {
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
