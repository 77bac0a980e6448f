//! The examples that take minutes, and what becomes of each in the short suite and in the long one.

use std::fs;
use std::path::Path;

/// Is this the long suite, which leaves nothing out?
pub(super) fn is_long() -> bool {
    std::env::var_os("SEKISHO_LONG").is_some()
}

/// An example that takes minutes.
pub(super) struct Slow {
    /// A part of its line.
    pub(super) part: &'static str,
    pub(super) short: Short,
    pub(super) long: Long,
}

/// What becomes of it in the short suite.
pub(super) enum Short {
    /// It is run for seconds: words of the line, and what stands for them; what stands for none is added.
    For(&'static [(&'static str, &'static str)]),
    /// Only its words are held to be understood. The tests that do as it does, but for its size: of each the
    /// file below `crates`, and the name.
    In(&'static [&'static str]),
}

/// What becomes of it in the long suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Long {
    /// It is run as it is typed, but for the size of a database: 10 warehouses, and 2 that are looked for.
    Run,
    /// The same, and the other part beside it.
    Beside,
    /// It is what it is in the short suite.
    Not,
}

/// Of its measurements only the judging is tested, on rows that are made up: nothing presses Apache in a test.
const FUJITA: &[&str] = &[
    "studies/src/fujita.rs: every_claim_that_needs_no_measurement_is_judged_as_expected",
    "studies/src/fujita/live/clients.rs: the_caption_tells_how_far_from_the_line_the_runs_are",
    "studies/src/fujita/live/closed.rs: one_wrong_row_decides_and_one_uncertain_row_leaves_it_open",
    "studies/src/fujita/live/mixes.rs: the_caption_tells_how_much_longer_small_documents_took",
    "studies/src/fujita/live/sizes.rs: the_caption_tells_how_far_from_their_lines_the_runs_are",
];
const NAKAMURA: &[&str] = &["studies/src/nakamura.rs: every_claim_is_judged_as_expected"];

const SLOW: [Slow; 29] = [
    slow_in(
        "sekisho demo jungle",
        &["sekisho/tests/it/board.rs: the_demo_says_as_text_what_it_found_and_what_comes_next"],
        Long::Run,
    ),
    slow_in(
        "sekisho demo postgres",
        &["sekisho/tests/it/tpcc_closed.rs: the_demo_on_postgresql_closes_the_loop"],
        Long::Run,
    ),
    slow_in(
        "sekisho demo monitor",
        &["sekisho/tests/it/tpcc_closed.rs: the_demo_of_the_monitor_compares_both_ways"],
        Long::Run,
    ),
    slow_for("sekisho demo agents", &[("", "--agents 5000 --one-by-one 1000")]),
    slow_in(
        "sekisho demo",
        &[
            "sekisho/tests/it/demo.rs: the_demo_closes_the_loop_and_its_report_opens",
            "sekisho/tests/it/the_loop.rs: from_measurement_to_report",
        ],
        Long::Run,
    ),
    // Servers that are pressed for hours, or a release that is fetched.
    slow_in("reproduce fujita --live", FUJITA, Long::Not),
    slow_in(
        "reproduce ohmae --live",
        &["studies/src/ohmae/live.rs: five_servers_do_as_the_simulation_says"],
        Long::Not,
    ),
    slow_in(
        "reproduce nakamura --live",
        &[
            "sekisho/tests/it/interrupt.rs: an_interrupted_reproduction_says_what_is_left_and_leaves_nothing",
            "studies/src/nakamura/tiers.rs: what_the_paper_measured_is_found_as_it_says",
        ],
        Long::Not,
    ),
    slow_in(
        "reproduce fujita",
        &["studies/src/fujita.rs: every_claim_that_needs_no_measurement_is_judged_as_expected"],
        Long::Run,
    ),
    slow_in(
        "reproduce ohmae",
        &["studies/src/ohmae.rs: every_claim_is_judged_as_expected"],
        Long::Run,
    ),
    slow_in("reproduce nakamura", NAKAMURA, Long::Run),
    slow_in("reproduce oshiro --live --full", OSHIRO, Long::Not),
    slow_in("reproduce oshiro", OSHIRO, Long::Not),
    slow_in(
        "reproduce yamamoto --live",
        &[
            "studies/src/yamamoto/live.rs: what_is_measured_is_judged_and_a_machine_that_is_too_slow_decides_nothing",
        ],
        Long::Not,
    ),
    Slow {
        part: "tpcc run --part",
        short: Short::For(&[("--warehouses 900", "--warehouses 2"), BRIEF, NOW]),
        long: Long::Beside,
    },
    slow_for(
        "tpcc run --warehouses 10 ",
        &[("--warehouses 10", "--warehouses 1"), ("10min", "2s --no-verify"), NOW],
    ),
    slow_for(
        "tpcc run --warehouses 8 ",
        &[("--warehouses 8", "--warehouses 1"), ("30s", "2s --no-verify"), NOW],
    ),
    slow_for("tpcc run", &[BRIEF, NOW]),
    slow_for("tpcc stress --connections 8", &[("", "--measure 1s"), NOW]),
    slow_for("tpcc stress --connections 1,", &[("", "--measure 500ms --no-verify"), NOW]),
    // Three block devices that not every machine can make.
    slow_in(
        "tpcc place --simulate",
        &[
            "sekisho/tests/it/placing.rs: three_disks_are_devices_where_the_machine_can_make_them",
            "sekisho/tests/it/placing.rs: three_disks_are_simulated_by_the_model",
        ],
        Long::Not,
    ),
    slow_for(
        "tpcc tune --warehouses 4 ",
        &[("--warehouses 4", "--warehouses 1"), ("", "--measure 1s --no-verify"), NOW],
    ),
    slow_for(
        "tpcc tune --warehouses 10 --db \"$DATABASE_URL\" --apply",
        &[
            ("--warehouses 10", "--warehouses 1"),
            ("", "--only wal_compression --rounds 2 --longest 1s"),
            ("", "--measure 1s --no-verify"),
            NOW,
        ],
    ),
    slow_for(
        "tpcc tune",
        &[("--warehouses 10", "--warehouses 1"), ("", "--measure 1s --no-verify"), NOW],
    ),
    slow_for("tpcc acid", &[]),
    // A server of its own, which it kills.
    slow_for("tpcc crash --rounds 1", &[("", "--under-load 2s --connections 4")]),
    slow_for("tpcc crash", &[("", "--rounds 1 --under-load 2s --connections 4")]),
    slow_for("tpcc find --max-warehouses 60", &[("60", "1"), SEARCHED, NOW]),
    // A confirmation of two hours.
    Slow {
        part: "tpcc find",
        short: Short::For(&[("200", "1"), ("--confirm 2h", ""), SEARCHED, NOW]),
        long: Long::Not,
    },
];

/// A board on three stores, as small as it goes.
const OSHIRO: &[&str] =
    &["sekisho/tests/it/board.rs: the_experiment_of_the_paper_judges_every_claim"];

/// The story: the list named "a test beside it, which judges its claims" where there was none.
#[test]
fn each_test_that_stands_for_a_slow_example_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for slow in &SLOW {
        let Short::In(tests) = slow.short else { continue };
        assert!(!tests.is_empty(), "{}: nothing stands for it", slow.part);
        for test in tests {
            let (file, name) = test.split_once(": ").expect("a file and a name");
            let text = fs::read_to_string(crates.join(file));
            let text = text.unwrap_or_else(|error| panic!("{}: {file}: {error}", slow.part));
            // Between the attribute and the name stand other attributes at most.
            let is_test = text.split("#[test]").skip(1).any(|rest| {
                rest.split_once("fn ")
                    .is_some_and(|(_, rest)| rest.starts_with(&format!("{name}(")))
            });
            assert!(is_test, "{}: {file} has no test `{name}`", slow.part);
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} tests");
}

/// So short that nothing can be told.
const BRIEF: (&str, &str) = ("", "--measure 2s --no-verify");
const SEARCHED: (&str, &str) = ("", "--probe 1s --confirm 1s --no-verify");

/// Measured from the start on.
const NOW: (&str, &str) = ("", "--ramp 0s");

const fn slow_in(part: &'static str, tests: &'static [&'static str], long: Long) -> Slow {
    Slow { part, short: Short::In(tests), long }
}

const fn slow_for(part: &'static str, words: &'static [(&'static str, &'static str)]) -> Slow {
    Slow { part, short: Short::For(words), long: Long::Run }
}

pub(super) fn slow(line: &str) -> Option<&'static Slow> {
    SLOW.iter().find(|slow| line.contains(slow.part))
}

impl Slow {
    /// Whether it is run in this suite.
    pub(super) fn runs(&self) -> bool {
        !self.is_short() || matches!(self.short, Short::For(_))
    }

    /// Whether it is run for seconds only, or not at all.
    pub(super) fn is_short(&self) -> bool {
        !is_long() || self.long == Long::Not
    }
}

/// The warehouses that are loaded for examples.
pub(super) fn warehouses() -> &'static str {
    if is_long() { "--warehouses 10" } else { "--warehouses 1" }
}

/// The same where two parts of a run share them.
pub(super) fn warehouses_of_parts() -> &'static str {
    if is_long() { "--warehouses 10" } else { "--warehouses 2" }
}
