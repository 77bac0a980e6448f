//! Setting by setting: what to try instead, and why, from what was observed; or why to leave it.

use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Observed, Setting};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// A block, and so an image of a page in the log, at most \[bytes\].
const BLOCK: u64 = 8192;
/// The names under which releases count the wait for the log to be on the disk.
const LOG_WAITS: [&str; 4] = ["IO WALSync", "IO WalSync", "LWLock WALWrite", "IO WALWrite"];

/// The machine of the server; what is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its memory \[bytes\].
    pub memory: Option<u64>,
    /// The free space where the log is \[bytes\].
    pub free: Option<u64>,
    /// Sessions that work at the same time.
    pub connections: u32,
}

impl Machine {
    /// This machine, with a server whose log lies in `folder`, as far as both can be looked up.
    pub fn here(folder: &Path, connections: u32) -> Machine {
        let memory = load::host::facts().memory_bytes;
        Machine {
            memory: (memory > 0).then_some(memory),
            free: crate::sys::free_bytes(folder).ok(),
            connections,
        }
    }
}

/// Advice on a setting.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// The setting.
    pub setting: String,
    /// Its value now.
    pub now: String,
    /// The advice.
    pub what: What,
}

/// Advice on a setting, with its reason.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum What {
    /// Try another value: the benchmark can tell.
    Try {
        /// The value.
        to: String,
        /// Because of what was seen.
        why: String,
        /// The expected effect.
        expected: String,
        /// A run must be at least so long to show it.
        least: Duration,
    },
    /// Set another value, though the benchmark cannot tell.
    Advise {
        /// The value.
        to: String,
        /// Why, and why the benchmark cannot.
        why: String,
    },
    /// Leave it.
    Leave {
        /// Because of what was seen.
        why: String,
    },
}

type Rule = fn(&Observed, &Setting, &Machine) -> What;

/// In the order in which they are tried: what decides most comes first.
const RULES: [(&str, Rule); 17] = [
    ("shared_buffers", shared_buffers),
    ("max_wal_size", max_wal_size),
    ("checkpoint_timeout", checkpoint_timeout),
    ("checkpoint_completion_target", completion_target),
    ("wal_buffers", wal_buffers),
    ("wal_compression", wal_compression),
    ("commit_delay", commit_delay),
    ("bgwriter_lru_maxpages", background_writer),
    ("autovacuum_vacuum_scale_factor", autovacuum),
    ("work_mem", work_mem),
    ("maintenance_work_mem", maintenance_work_mem),
    ("huge_pages", huge_pages),
    ("effective_cache_size", planner),
    ("random_page_cost", planner),
    ("synchronous_commit", synchronous_commit),
    ("fsync", safety),
    ("full_page_writes", safety),
];

/// The names of the settings that [`advise`] goes through, in its order.
pub fn settings() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(name, _)| *name)
}

/// Goes through the settings, one by one. Settings that the server does not know are passed over.
pub fn advise(observed: &Observed, machine: &Machine) -> Vec<Advice> {
    let advice = RULES.iter().filter_map(|&(name, rule)| {
        let setting = observed.settings.get(name)?;
        let what = match rule(observed, setting, machine) {
            What::Try { .. } if !setting.is_systems() => leave(format!(
                "its value comes from the {}, so ALTER SYSTEM would change nothing",
                setting.source
            )),
            what => what,
        };
        Some(Advice { setting: name.to_owned(), now: setting.value.clone(), what })
    });
    advice.collect()
}

fn leave(why: impl Into<String>) -> What {
    What::Leave { why: why.into() }
}

fn now(least: Duration, to: String, why: String, expected: &str) -> What {
    What::Try { to, why, expected: expected.to_owned(), least }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Whole MiB, or GiB where that is exact.
fn size(bytes: u64) -> String {
    match bytes % GIB {
        0 => format!("{}GB", bytes / GIB),
        _ => format!("{}MB", bytes.div_ceil(MIB)),
    }
}

/// Advice on `shared_buffers`, by what is read from outside while there is memory to hold it.
fn shared_buffers(observed: &Observed, setting: &Setting, machine: &Machine) -> What {
    let asked = observed.blocks_read + observed.blocks_hit;
    let missed = observed.blocks_read as f64 / asked.max(1) as f64;
    let Some(is) = setting.bytes() else { return leave("its unit is not known") };
    if missed < 0.001 {
        return leave(format!("of the blocks asked for {} were not in it", percent(missed)));
    }
    let Some(memory) = machine.memory else {
        return leave(format!(
            "{} of the blocks asked for were not in it, but the memory of the server's machine is \
             not known; name it with --memory",
            percent(missed)
        ));
    };
    // A quarter is what PostgreSQL's own manual starts from; more than the database is of no use.
    let wanted = (observed.database_bytes + observed.database_bytes / 4).div_ceil(64 * MIB);
    let wanted = (wanted * 64 * MIB).min(memory / 4 / (64 * MIB) * 64 * MIB);
    if wanted < is + is / 4 {
        return leave(format!(
            "{} of the blocks asked for were not in it, and it has all that the database or a \
             quarter of the memory asks for",
            percent(missed)
        ));
    }
    let each = observed.blocks_read as f64 / observed.commits.max(1) as f64;
    now(
        Duration::ZERO,
        size(wanted),
        format!(
            "{} of the blocks asked for were not in it, {each:.1} a transaction; the database has \
             {}",
            percent(missed),
            size(observed.database_bytes)
        ),
        "the database fits, and reads from outside end",
    )
}

/// The log between two checkpoints, as far as `max_wal_size` allows it \[bytes\]: since release 11
/// it is divided by one and the completion target.
fn log_between(observed: &Observed) -> Option<f64> {
    let size = observed.settings.get("max_wal_size")?.bytes()?;
    Some(size as f64 / (1.0 + target(observed)))
}

fn target(observed: &Observed) -> f64 {
    let setting = observed.settings.get("checkpoint_completion_target");
    setting.and_then(|setting| setting.base.parse().ok()).unwrap_or(0.9)
}

/// The log that is written \[bytes/s\].
fn log_rate(observed: &Observed) -> f64 {
    observed.wal_bytes as f64 / observed.elapsed_s.max(1e-9)
}

fn timeout_s(observed: &Observed) -> f64 {
    let setting = observed.settings.get("checkpoint_timeout");
    setting.and_then(Setting::seconds).unwrap_or(300.0)
}

/// Checkpoints that come because the log is full come too often, and each makes whole pages go to
/// the log again.
fn max_wal_size(observed: &Observed, setting: &Setting, machine: &Machine) -> What {
    let (Some(is), Some(between)) = (setting.bytes(), log_between(observed)) else {
        return leave("its unit is not known");
    };
    let rate = log_rate(observed);
    let fills_s = between / rate.max(1e-9);
    if fills_s >= timeout_s(observed) {
        return leave(format!(
            "at {:.1} MB/s the log does not reach it before checkpoint_timeout",
            rate / 1e6
        ));
    }
    // A tenth more than the rate asks for, in whole GiB, and never more than a quarter of the disk.
    let asked = rate * timeout_s(observed) * (1.0 + target(observed)) * 1.1;
    let most = machine.free.map_or(64 * GIB, |free| (free / 4).min(64 * GIB));
    let wanted = ((asked / GIB as f64).ceil() as u64 * GIB).min(most / GIB * GIB);
    if wanted <= is {
        return leave(format!(
            "the log forces a checkpoint every {fills_s:.0} s, but the disk has no room for more"
        ));
    }
    now(
        Duration::from_secs_f64(2.0 * fills_s),
        size(wanted),
        format!(
            "at {:.1} MB/s the log forces a checkpoint every {fills_s:.0} s, and {} of it are \
             images of pages",
            rate / 1e6,
            percent(images(observed))
        ),
        "checkpoints come by time, and fewer whole pages go to the log",
    )
}

/// The share of the log that is images of pages, at most.
fn images(observed: &Observed) -> f64 {
    (observed.wal_images * BLOCK) as f64 / observed.wal_bytes.max(BLOCK) as f64
}

fn checkpoint_timeout(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    /// Between full checkpoints the specification allows 30 minutes (5.5.2.2).
    const MOST_S: f64 = 1800.0;
    let is = setting.seconds().unwrap_or(MOST_S);
    let fills_s = log_between(observed).unwrap_or(0.0) / log_rate(observed).max(1e-9);
    if fills_s < is {
        return leave("the log forces checkpoints before it is time: see max_wal_size");
    }
    if is >= MOST_S / 2.0 {
        return leave("checkpoints are rare already; the specification allows 30 minutes");
    }
    if images(observed) < 0.2 {
        return leave(format!("only {} of the log are images of pages", percent(images(observed))));
    }
    now(
        Duration::from_secs_f64(2.0 * is),
        "30min".to_owned(),
        format!(
            "{} of the log are images of pages, which each checkpoint causes anew",
            percent(images(observed))
        ),
        "a smaller log; a restart after a crash takes longer",
    )
}

fn completion_target(observed: &Observed, _: &Setting, _: &Machine) -> What {
    let is = target(observed);
    if is >= 0.9 {
        return leave("checkpoints are spread over the time between them");
    }
    let between_s = log_between(observed).unwrap_or(0.0) / log_rate(observed).max(1e-9);
    now(
        Duration::from_secs_f64(2.0 * between_s.min(timeout_s(observed))),
        "0.9".to_owned(),
        format!("a checkpoint writes all in {} of the time that there is", percent(is)),
        "writes spread out, and the longest response times fall",
    )
}

fn wal_buffers(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    const MOST: u64 = 64 * MIB;
    let full_s = observed.wal_buffers_full as f64 / observed.elapsed_s.max(1e-9);
    if full_s < 1.0 {
        return leave(format!("they were full {full_s:.2} times a second"));
    }
    match setting.bytes() {
        Some(is) if is < MOST => now(
            Duration::ZERO,
            size(MOST),
            format!("they were full {full_s:.0} times a second, and a session wrote them out"),
            "sessions write the log only to commit",
        ),
        _ => leave(format!("they were full {full_s:.0} times a second, but are large already")),
    }
}

fn wal_compression(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    let share = images(observed);
    if setting.value != "off" {
        return leave("images of pages are compressed already");
    }
    if share < 0.2 {
        return leave(format!("only {} of the log are images of pages", percent(share.min(1.0))));
    }
    // What the server was built with is what it offers.
    let to = if setting.choices.iter().any(|choice| choice == "lz4") { "lz4" } else { "on" };
    now(
        Duration::ZERO,
        to.to_owned(),
        format!("up to {} of the log are images of pages", percent(share.min(1.0))),
        "a smaller log, for some processor time",
    )
}

/// Sessions that commit at about the same time share one write of the log.
fn commit_delay(observed: &Observed, setting: &Setting, machine: &Machine) -> What {
    let waiting = observed.waiting_for(&LOG_WAITS);
    let siblings = observed.settings.get("commit_siblings");
    let siblings: u32 = siblings.and_then(|setting| setting.base.parse().ok()).unwrap_or(5);
    if setting.base != "0" {
        return leave("it is set already");
    }
    if waiting < 0.3 {
        let waiting = percent(waiting);
        return leave(format!("sessions waited for the log in {waiting} of the samples"));
    }
    if machine.connections <= siblings {
        return leave(format!(
            "{} connections are no more than commit_siblings, so it would do nothing",
            machine.connections
        ));
    }
    now(
        Duration::ZERO,
        // Microseconds; the setting knows no units.
        "200".to_owned(),
        format!("sessions waited for the log in {} of the samples", percent(waiting)),
        "more commits share a write of the log, each a little later",
    )
}

fn background_writer(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    const MOST: &str = "1000";
    let share = observed.session_writes as f64 / observed.writes.max(1) as f64;
    let rate = observed.session_writes as f64 / observed.elapsed_s.max(1e-9);
    if share < 0.2 || rate < 50.0 {
        return leave(format!("sessions had to write {rate:.0} blocks a second themselves"));
    }
    if setting.base.parse::<u64>().is_ok_and(|is| is >= 1000) {
        return leave("it is large already; see shared_buffers");
    }
    now(
        Duration::ZERO,
        MOST.to_owned(),
        format!("sessions had to write {rate:.0} blocks a second themselves, to have room"),
        "the background writer makes room instead",
    )
}

fn autovacuum(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    let off = observed.settings.get("autovacuum").is_some_and(|setting| setting.base == "off");
    if off {
        return leave("autovacuum is off: turn it on, or the tables grow without end");
    }
    let dead = |table: &super::TableUse| table.dead as f64 / (table.live + table.dead) as f64;
    let worst = observed.tables.iter().filter(|(_, table)| table.dead >= 10_000);
    let worst = worst.max_by(|(_, a), (_, b)| dead(a).total_cmp(&dead(b)));
    match worst {
        Some((name, table)) if dead(table) > 0.2 && setting.base.parse() != Ok(0.05) => now(
            Duration::from_secs(120),
            "0.05".to_owned(),
            format!("{} of the rows of {name} are dead", percent(dead(table))),
            "scans pass over fewer dead rows, and tables stay small",
        ),
        _ => leave("no table has many dead rows"),
    }
}

fn work_mem(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    if observed.temporary_bytes == 0 {
        return leave("no sort and no hash went to the disk");
    }
    match setting.bytes() {
        Some(is) if is < 64 * MIB => now(
            Duration::ZERO,
            size((is * 4).min(64 * MIB)),
            format!("sorts and hashes put {} on the disk", size(observed.temporary_bytes)),
            "they stay in memory",
        ),
        _ => leave("sorts and hashes went to the disk, though it is large: look at the statements"),
    }
}

fn maintenance_work_mem(_: &Observed, setting: &Setting, machine: &Machine) -> What {
    let Some(memory) = machine.memory else {
        return leave("the memory of the server's machine is not known; name it with --memory");
    };
    let wanted = (memory / 16 / MIB * MIB).min(2 * GIB);
    match setting.bytes() {
        Some(is) if is < wanted / 2 => What::Advise {
            to: size(wanted),
            why:
                "indexes and vacuum work in it: it shortens `tpcc load`, which a run does not show"
                    .to_owned(),
        },
        _ => leave("it is large enough for indexes and vacuum"),
    }
}

fn huge_pages(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    let buffers = observed.settings.get("shared_buffers").and_then(Setting::bytes).unwrap_or(0);
    if buffers < GIB {
        return leave("shared_buffers are small enough for pages of 4 kB");
    }
    match setting.value.as_str() {
        "on" => leave("it is on"),
        _ => What::Advise {
            to: "on".to_owned(),
            why: format!(
                "every connection maps {} of shared_buffers in pages of 4 kB, where the kernel has \
                 no huge pages; it must be given some first, see the kernel's settings",
                size(buffers)
            ),
        },
    }
}

fn planner(_: &Observed, _: &Setting, _: &Machine) -> What {
    leave("terminals plan through indexes whatever it says; other sessions may gain by it")
}

fn synchronous_commit(observed: &Observed, setting: &Setting, _: &Machine) -> What {
    match setting.value.as_str() {
        "off" => What::Advise {
            to: "on".to_owned(),
            why: "a crash loses transactions that were acknowledged: `tpcc crash` shows it".into(),
        },
        _ => leave(format!(
            "off would be faster where sessions wait for the log ({} of the samples), and would \
             lose acknowledged transactions",
            percent(observed.waiting_for(&LOG_WAITS))
        )),
    }
}

fn safety(_: &Observed, setting: &Setting, _: &Machine) -> What {
    match setting.value.as_str() {
        "off" => What::Advise {
            to: "on".to_owned(),
            why: "without it a crash can leave a database that cannot be read".to_owned(),
        },
        _ => leave("without it a crash can leave a database that cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::TableUse;

    fn setting(value: &str, base: &str, unit: &str) -> Setting {
        Setting {
            value: value.into(),
            base: base.into(),
            unit: unit.into(),
            context: "sighup".into(),
            source: "default".into(),
            choices: Vec::new(),
        }
    }

    /// A server as it comes, on which nothing is amiss.
    fn quiet() -> Observed {
        let settings = [
            ("autovacuum", setting("on", "on", "")),
            ("autovacuum_vacuum_scale_factor", setting("0.2", "0.2", "")),
            ("bgwriter_lru_maxpages", setting("100", "100", "")),
            ("checkpoint_completion_target", setting("0.9", "0.9", "")),
            ("checkpoint_timeout", setting("5min", "300", "s")),
            ("commit_delay", setting("0", "0", "")),
            ("commit_siblings", setting("5", "5", "")),
            ("effective_cache_size", setting("4GB", "524288", "8kB")),
            ("fsync", setting("on", "on", "")),
            ("full_page_writes", setting("on", "on", "")),
            ("huge_pages", setting("try", "try", "")),
            ("maintenance_work_mem", setting("2GB", "2097152", "kB")),
            ("max_wal_size", setting("1GB", "1024", "MB")),
            ("random_page_cost", setting("4", "4", "")),
            ("shared_buffers", setting("128MB", "16384", "8kB")),
            ("synchronous_commit", setting("on", "on", "")),
            ("wal_buffers", setting("4MB", "512", "8kB")),
            ("wal_compression", setting("off", "off", "")),
            ("work_mem", setting("4MB", "4096", "kB")),
        ];
        Observed {
            elapsed_s: 10.0,
            settings: settings.map(|(name, setting)| (name.to_owned(), setting)).into(),
            database_bytes: 100 * MIB,
            commits: 10_000,
            blocks_hit: 1_000_000,
            wal_bytes: 10 * MIB,
            writes: 100,
            waits: [("running".to_owned(), 100)].into(),
            ..Observed::default()
        }
    }

    const MACHINE: Machine =
        Machine { memory: Some(16 * GIB), free: Some(100 * GIB), connections: 8 };

    fn of(observed: &Observed, setting: &str) -> What {
        let all = advise(observed, &MACHINE);
        all.into_iter().find(|advice| advice.setting == setting).unwrap().what
    }

    fn tried(observed: &Observed, setting: &str) -> (String, Duration) {
        match of(observed, setting) {
            What::Try { to, least, .. } => (to, least),
            what => panic!("{setting}: {what:?}"),
        }
    }

    #[test]
    fn a_server_without_a_reason_is_left_alone_and_every_setting_is_spoken_of() {
        let advice = advise(&quiet(), &MACHINE);
        assert_eq!(advice.len(), RULES.len());
        for advice in advice {
            assert!(matches!(advice.what, What::Leave { .. }), "{advice:?}");
        }
    }

    #[test]
    fn this_machine_has_memory_and_room() {
        let here = Machine::here(Path::new("/"), 3);
        assert!(here.memory.is_some_and(|bytes| bytes > 64 * MIB), "{here:?}");
        assert!(here.free.is_some() && here.connections == 3, "{here:?}");
        assert_eq!(Machine::here(Path::new("/nowhere/at/all"), 1).free, None);
    }

    #[test]
    fn sizes_and_lengths_are_read_in_their_units() {
        assert_eq!(setting("128MB", "16384", "8kB").bytes(), Some(128 * MIB));
        assert_eq!(setting("1GB", "1024", "MB").bytes(), Some(GIB));
        assert_eq!(setting("4", "4", "").bytes(), None);
        assert_eq!(setting("5min", "300", "s").seconds(), Some(300.0));
        assert_eq!(
            (size(GIB), size(GIB + 1), size(192 * MIB)),
            ("1GB".into(), "1025MB".into(), "192MB".into())
        );
    }

    #[test]
    fn buffers_grow_to_the_database_but_not_beyond_a_quarter_of_the_memory() {
        let mut observed = quiet();
        observed.blocks_read = 20_000;
        observed.database_bytes = 1000 * MIB;
        assert_eq!(tried(&observed, "shared_buffers").0, "1280MB");
        observed.database_bytes = 100 * GIB;
        assert_eq!(tried(&observed, "shared_buffers").0, "4GB");
        // A hundred MiB need no more than what there is.
        observed.database_bytes = 90 * MIB;
        assert!(matches!(of(&observed, "shared_buffers"), What::Leave { .. }));
        observed.database_bytes = 100 * GIB;
        let unknown = advise(&observed, &Machine { memory: None, ..MACHINE });
        let What::Leave { why } = &unknown[0].what else { panic!("{unknown:?}") };
        assert!(why.contains("--memory"), "{why}");
    }

    #[test]
    fn the_log_is_given_the_room_that_its_rate_asks_for_and_the_disk_has() {
        let mut observed = quiet();
        // 10 MiB/s fill 1 GiB / 1.9 in 53.9 s; 300 s of it are 5.6 GiB with the target, 6.1 in all.
        observed.wal_bytes = 100 * MIB;
        let (to, least) = tried(&observed, "max_wal_size");
        assert_eq!(to, "7GB");
        assert!((least.as_secs_f64() - 2.0 * 1024.0 / 1.9 / 10.0).abs() < 0.1, "{least:?}");
        let small = Machine { free: Some(5 * GIB), ..MACHINE };
        let advice = advise(&observed, &small);
        assert!(matches!(advice[1].what, What::Leave { .. }), "{advice:?}");
        // While the log forces checkpoints, their timeout is not what to turn.
        observed.wal_images = 8000;
        assert!(matches!(of(&observed, "checkpoint_timeout"), What::Leave { .. }));
        observed.settings.insert("max_wal_size".into(), setting("64GB", "65536", "MB"));
        assert_eq!(
            tried(&observed, "checkpoint_timeout"),
            ("30min".into(), Duration::from_secs(600))
        );
    }

    #[test]
    fn each_reason_turns_its_own_setting_and_no_other() {
        type Fault = fn(&mut Observed);
        let faults: [(&str, &str, Fault); 6] = [
            ("wal_buffers", "64MB", |o| o.wal_buffers_full = 500),
            ("wal_compression", "lz4", |o| {
                o.wal_images = 900;
                let compression = o.settings.get_mut("wal_compression").unwrap();
                compression.choices = vec!["off".into(), "pglz".into(), "lz4".into()];
                // Whose images are many, whose checkpoints are rare already.
                o.settings.insert("checkpoint_timeout".into(), setting("30min", "1800", "s"));
                o.settings.insert("max_wal_size".into(), setting("64GB", "65536", "MB"));
            }),
            ("commit_delay", "200", |o| {
                o.waits.insert("IO WalSync".into(), 90);
            }),
            ("bgwriter_lru_maxpages", "1000", |o| (o.session_writes, o.writes) = (5000, 9000)),
            ("work_mem", "16MB", |o| o.temporary_bytes = 1),
            ("autovacuum_vacuum_scale_factor", "0.05", |o| {
                let table = TableUse { dead: 50_000, live: 50_000, ..TableUse::default() };
                o.tables.insert("new_order".into(), table);
            }),
        ];
        for (setting, to, fault) in faults {
            let mut observed = quiet();
            fault(&mut observed);
            assert_eq!(tried(&observed, setting).0, to, "{setting}");
            let tries = advise(&observed, &MACHINE);
            let tries = tries.iter().filter(|advice| matches!(advice.what, What::Try { .. }));
            assert_eq!(tries.count(), 1, "{setting}");
        }
    }

    #[test]
    fn what_loses_acknowledged_work_is_never_tried_and_is_advised_back() {
        for name in ["synchronous_commit", "fsync", "full_page_writes"] {
            let mut observed = quiet();
            observed.waits.insert("IO WALSync".into(), 10_000);
            assert!(matches!(of(&observed, name), What::Leave { .. }), "{name}");
            observed.settings.insert(name.into(), setting("off", "off", ""));
            assert!(matches!(of(&observed, name), What::Advise { .. }), "{name}");
        }
    }

    #[test]
    fn what_the_database_or_the_role_says_is_left_to_them() {
        let mut observed = quiet();
        observed.temporary_bytes = 1;
        observed.settings.get_mut("work_mem").unwrap().source = "database".into();
        let What::Leave { why } = of(&observed, "work_mem") else { panic!("it was tried") };
        assert!(why.contains("from the database"), "{why}");
    }
}
