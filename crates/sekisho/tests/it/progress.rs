//! Whatever may compute for seconds shows on a terminal that it does, and clears it away.

use std::fs;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::sekisho;
use crate::records;
use crate::replaying;
use crate::terminal::{Until, on_terminal};

/// `fit`, `report`, `check` and `reproduce` were silent for as long as they took.
#[test]
fn verbs_that_compute_show_that_they_do_on_a_terminal_alone() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("s.toml"), SCENARIO).expect("a folder of our own");
    fs::write(
        folder.join("points.csv"),
        "clients,throughput,latency_ms\n1,50,20\n4,180,22\n16,390,41\n",
    )
    .expect("the same");
    replaying::write(&folder.join("gate.rec"), &replaying::recording());
    records::write(&folder.join("1.jsonl"), &records::record(1));
    records::write(&folder.join("32.jsonl"), &records::record(32));
    let fit = "fit 1.jsonl 32.jsonl --cores 1 --slots 4 --out fitted.toml";
    for (line, shown) in [
        (fit, "fitting"),
        ("fit --from points points.csv --out points.toml", "reading and fitting"),
        ("ask fitted.toml --clients 1 --out p.json", "simulating"),
        ("check 1.jsonl --prediction p.json", "simulating"),
        ("report 1.jsonl p.json --out run.html", "simulating what was measured"),
        ("report s.toml --out page.html", "simulating"),
        ("report 1.jsonl --out page.html", "drawing"),
        ("solve s.toml", "solving"),
        ("sim s.toml --precision 20%", "simulating"),
        ("sim gate.rec --slots 4", "simulating"),
        ("replay gate.rec", "replaying"),
        ("ask bottleneck s.toml --max-requests 2000", "simulating"),
        ("reproduce yamamoto --model", "judging the claims"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let seen = on_terminal(&folder, &words, Until::Ended);
        assert!(matches!(seen.code, Some(0 | 4)), "{line}: {seen:?}");
        assert!(seen.err.contains(shown), "{line}: {seen:?}");
        // The last that a terminal is told is to clear the line.
        assert!(
            seen.err.ends_with("\u{1b}[2K") || seen.err.ends_with("\u{1b}[K"),
            "{line}: {seen:?}"
        );
        assert!(!seen.out.contains(shown), "{line}: {seen:?}");
        assert_eq!(sekisho(&folder, &words).err, "", "{line}: a pipe sees nothing of it");
    }
}
