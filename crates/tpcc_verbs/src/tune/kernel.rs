//! The kernel's settings that a database feels, in today's names: read and advised, never set.
//!
//! nakamura's list (section 4) was write-back, limits of shared memory, and needless services. The
//! limits have gone, since PostgreSQL maps its memory; which services are needless, no file tells.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// State of a setting of the kernel, with advice.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(super) struct Line {
    /// Name of the setting of the kernel.
    pub(super) setting: &'static str,
    /// Value at present.
    pub(super) now: String,
    /// Value to give it, and why; `None` where it is well as it is.
    pub(super) advice: Option<(String, &'static str)>,
}

/// A kernel whose files are under `root`; `/` but for tests.
pub(super) struct Kernel<'a> {
    pub(super) root: &'a Path,
    /// The number of the device of the data directory, `259:1`, if it is known.
    pub(super) device: Option<String>,
    /// The server's `shared_buffers` \[bytes\].
    pub(super) buffers: u64,
    pub(super) memory: u64,
}

impl Kernel<'_> {
    /// Lines on all that can be read, each with what to make of it.
    pub(super) fn lines(&self) -> Vec<Line> {
        let lines = [
            self.write_back(),
            self.write_back_interval(),
            self.swappiness(),
            self.overcommit(),
            self.huge_pages(),
            self.transparent(),
            self.scheduler(),
        ];
        lines.into_iter().flatten().collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Dirty pages wait until they are this many; then a checkpoint's fsync finds them all at once.
    fn write_back(&self) -> Option<Line> {
        const WANTED: u64 = 256 * MIB;
        let bytes = self.number("proc/sys/vm/dirty_background_bytes")?;
        let ratio = self.number("proc/sys/vm/dirty_background_ratio")?;
        let begins = if bytes > 0 { bytes } else { self.memory / 100 * ratio };
        let (setting, now) = match bytes {
            0 => ("vm.dirty_background_ratio", format!("{ratio}")),
            _ => ("vm.dirty_background_bytes", format!("{bytes}")),
        };
        let advice = (begins > GIB).then(|| {
            (
                format!("vm.dirty_background_bytes = {WANTED}"),
                "more than 1 GiB may wait to be written, and a checkpoint then waits for all of it",
            )
        });
        Some(Line { setting, now, advice })
    }

    fn write_back_interval(&self) -> Option<Line> {
        let now = self.number("proc/sys/vm/dirty_writeback_centisecs")?;
        let advice = (now == 0 || now > 500).then(|| {
            ("500".to_owned(), "dirty pages should be written every few seconds, not in bursts")
        });
        let setting = "vm.dirty_writeback_centisecs";
        Some(Line { setting, now: now.to_string(), advice })
    }

    fn swappiness(&self) -> Option<Line> {
        let now = self.number("proc/sys/vm/swappiness")?;
        let swaps = self.read("proc/swaps").is_some_and(|text| text.lines().count() > 1);
        let advice = (swaps && now > 10).then(|| {
            (
                "10".to_owned(),
                "the memory of an idle session goes to the disk for files that are read once",
            )
        });
        let now = if swaps { now.to_string() } else { format!("{now}, without swap") };
        Some(Line { setting: "vm.swappiness", now, advice })
    }

    fn overcommit(&self) -> Option<Line> {
        let now = self.number("proc/sys/vm/overcommit_memory")?;
        let advice = (now != 2).then(|| {
            (
                "2, on a machine of the database's own".to_owned(),
                "where memory runs out, a session is refused memory instead of the server being killed",
            )
        });
        Some(Line { setting: "vm.overcommit_memory", now: now.to_string(), advice })
    }

    fn huge_pages(&self) -> Option<Line> {
        let meminfo = self.read("proc/meminfo")?;
        let field = |name: &str| -> Option<u64> {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let (pages, kib) = (field("HugePages_Total:")?, field("Hugepagesize:")?);
        let size = (kib << 10).max(1);
        // A tenth more than the buffers: what else the server shares.
        let needed = (self.buffers + self.buffers / 10).div_ceil(size);
        let advice = (self.buffers >= GIB && pages < needed).then(|| {
            (
                needed.to_string(),
                "shared_buffers fit into them, and each connection then maps them for nothing",
            )
        });
        Some(Line { setting: "vm.nr_hugepages", now: pages.to_string(), advice })
    }

    fn transparent(&self) -> Option<Line> {
        let now = chosen(&self.read("sys/kernel/mm/transparent_hugepage/enabled")?);
        let advice = (now == "always").then(|| {
            ("madvise".to_owned(), "the kernel looks for huge pages while transactions wait")
        });
        Some(Line { setting: "transparent_hugepage/enabled", now, advice })
    }

    /// Of the whole disk, where the data directory is on a part of one.
    fn scheduler(&self) -> Option<Line> {
        let device = PathBuf::from("sys/dev/block").join(self.device.as_ref()?);
        let queues = [device.join("queue"), device.join("../queue")];
        let queue = queues.into_iter().find(|queue| self.root.join(queue).is_dir())?;
        let at = |name: &str| self.read(&queue.join(name).to_string_lossy());
        let now = chosen(&at("scheduler")?);
        let turns = at("rotational")? == "1";
        let advice = match (turns, now.as_str()) {
            (true, "mq-deadline" | "bfq") | (false, "none" | "mq-deadline" | "kyber") => None,
            (true, _) => {
                Some(("mq-deadline", "a disk that turns gains by an order of its requests"))
            }
            (false, _) => Some(("none", "a disk without an arm gains nothing by an order")),
        };
        let advice = advice.map(|(to, why)| (to.to_owned(), why));
        Some(Line { setting: "scheduler of the disk", now, advice })
    }
}

/// The word in brackets: `[none] mq-deadline`; the whole where there is none.
fn chosen(text: &str) -> String {
    let within = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    within.map_or(text, |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel as files under a folder that is removed with it.
    struct Files(PathBuf);

    impl Files {
        fn new(name: &str, files: &[(&str, &str)]) -> Files {
            let root = std::env::temp_dir().join(format!("kernel-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            }
            Files(root)
        }

        fn lines(&self, buffers: u64) -> Vec<Line> {
            let device = Some("8:1".to_owned());
            Kernel { root: &self.0, device, buffers, memory: 32 * GIB }.lines()
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn what_hurts_a_database_is_advised_on_and_what_does_not_is_only_told() {
        let swap = "Filename Type Size\n/swap file 100";
        let bad = [
            ("proc/sys/vm/dirty_background_bytes", "0"),
            ("proc/sys/vm/dirty_background_ratio", "10"),
            ("proc/sys/vm/dirty_writeback_centisecs", "0"),
            ("proc/sys/vm/swappiness", "60"),
            ("proc/swaps", swap),
            ("proc/sys/vm/overcommit_memory", "0"),
            ("proc/meminfo", "HugePages_Total:       0\nHugepagesize:       2048 kB"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("sys/dev/block/8:1/start", "2048"),
            ("sys/dev/block/queue/scheduler", "[none] mq-deadline"),
            ("sys/dev/block/queue/rotational", "1"),
        ];
        let lines = Files::new("bad", &bad).lines(4 * GIB);
        assert_eq!(lines.len(), 7, "{lines:?}");
        for line in &lines {
            assert!(line.advice.is_some(), "{line:?}");
        }
        // 4 GiB and a tenth in pages of 2 MiB.
        assert_eq!(lines[4].advice.as_ref().unwrap().0, "2253");
        let good = [
            ("proc/sys/vm/dirty_background_bytes", "268435456"),
            ("proc/sys/vm/dirty_background_ratio", "0"),
            ("proc/sys/vm/dirty_writeback_centisecs", "500"),
            ("proc/sys/vm/swappiness", "60"),
            ("proc/swaps", "Filename Type Size"),
            ("proc/sys/vm/overcommit_memory", "2"),
            ("proc/meminfo", "HugePages_Total:    2300\nHugepagesize:       2048 kB"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
            ("sys/dev/block/8:1/queue/scheduler", "none [mq-deadline]"),
            ("sys/dev/block/8:1/queue/rotational", "0"),
        ];
        let lines = Files::new("good", &good).lines(4 * GIB);
        assert_eq!(lines.len(), 7, "{lines:?}");
        for line in &lines {
            assert_eq!(line.advice, None, "{line:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_spoken_of() {
        assert_eq!(Files::new("none", &[("proc/swaps", "")]).lines(GIB), []);
    }
}
