//! `sekisho tpcc report` on records whose truth is known, to its page in a real browser.

use std::fs;

use tpcc::{End, Record};

use crate::browser::{Page, Scratch, Theme, framed, keep, open, screenshot};
use crate::command::{Ended, sekisho};
use crate::tpcc_records::{empty, hastened, paced, stressed, write};

const PHONE_WIDTH: u32 = 390;

/// Reports of records, in the order given; what was said, and the page.
fn report(scratch: &Scratch, records: &[Record]) -> (Ended, String) {
    let mut words = vec!["tpcc".to_owned(), "report".to_owned()];
    for (nth, record) in records.iter().enumerate() {
        let name = format!("{nth}.tpcc.json");
        write(&scratch.join(&name), &format!("run-{nth}"), record);
        words.push(name);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = sekisho(&scratch.join(""), &words);
    let html = fs::read_to_string(scratch.join("report.html")).unwrap_or_default();
    (ended, html)
}

/// Everything is drawn, wide and on a phone, and nothing fails.
#[track_caller]
fn drawn(scratch: &Scratch, name: &str, html: &str) -> Page {
    let page = open(&scratch.join("report.html"), (1280, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert!(page.script_messages().is_empty(), "{:?}", page.script_messages());
    let phone = scratch.join("phone.html");
    fs::write(&phone, framed(html, PHONE_WIDTH, 900)).expect("a folder of our own");
    let narrow = open(&phone, (800, 900));
    let width = narrow.root_data("client-width").expect("the page tells");
    assert_eq!(narrow.root_data("scroll-width"), Some(width), "the page is too wide");
    keep(&format!("tpcc-{name}.html"), html.as_bytes());
    if std::env::var_os("SEKISHO_SCREENSHOTS").is_some() {
        let wide = screenshot(&scratch.join("report.html"), (1280, 8000), Theme::Light);
        keep(&format!("tpcc-{name}.png"), &wide);
    }
    page
}

/// Asserts that these words stand in the page, its white space made one.
fn has(html: &str, words: &[&str]) {
    let flat = html.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(flat.contains(word), "{word}");
    }
}

#[test]
fn the_page_of_a_paced_run_has_all_that_the_specification_asks_for() {
    let scratch = Scratch::new();
    let (ended, html) = report(&scratch, &[paced(10)]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("meets the rules for 10 minutes: 126.0 ± "), "{ended:?}");
    let verdict = html.find("class=\"verdict holds\"").expect("it has one");
    assert!(verdict < html.find("<section").expect("it has some"));
    has(
        &html,
        &[
            "new orders per minute (TPC-C-like) at 10 warehouses, 100 terminals, 8 connections",
            "This is not an audited TPC result",
            "C-Load of C_LAST",
            "C-Run of C_LAST",
            "<code>sekisho tpcc run --warehouses 10</code>",
            "PostgreSQL 15.18",
            "repeatable read",
            "force_generic_plan",
            "short interval: 10.0 minutes of 120",
            "Share of 1260 answers",
            "2 checkpoints were seen to begin",
            "Share of 1260 think times",
            "\u{2713} met",
            "9.2.2.5",
            "synchronous_commit",
        ],
    );
    assert!(!html.contains("/some/where"), "where a program lies is nobody's business");
    // Throughput, quantiles, five kinds, the deferred part, the menu, thinking.
    let page = drawn(&scratch, "paced", &html);
    assert_eq!(page.root_data("figures"), Some("10"));
}

/// Ten minutes of what a rule forbids were called qualified, with exit 0.
#[test]
fn a_verdict_is_no_kinder_than_its_rule_in_text_and_on_the_page() {
    type Change = fn(&mut Record);
    let cases: [(&str, Change, i32, &str); 7] = [
        ("deviates: ", |record| record.kinds[0].completed = 1340, 3, "13.40 over"),
        ("deviates: ", |record| record.kinds[0].completed = 830, 3, "8.30 over"),
        ("deviates: ", |record| record.kinds[1].completed = 1176, 3, "41.79 % of 2814"),
        ("too few to tell: ", |record| record.inputs.rollbacks = 6, 4, "0.48 % of 1260"),
        ("too few to tell: ", |record| record.inputs.payments_remote = 164, 4, "13.02 % of 1260"),
        (
            "deviates: ",
            |record| _ = record.server.settings.insert("full_page_writes".into(), "off".into()),
            3,
            "off: full_page_writes",
        ),
        (
            "too short to tell: ",
            |record| record.measured_s = 599.0,
            4,
            "short interval: 10.0 minutes",
        ),
    ];
    for (begins, change, code, measured) in cases {
        let (scratch, mut record) = (Scratch::new(), paced(10));
        change(&mut record);
        let (ended, html) = report(&scratch, &[record]);
        assert_eq!(ended.code, code, "{begins}{measured}: {ended:?}");
        assert!(ended.out.starts_with(begins), "{measured}: {ended:?}");
        has(&html, &[begins.trim_end_matches(": "), measured]);
        assert!(!ended.out.contains("qualified") && !html.contains(">qualified"), "{ended:?}");
    }
}

#[test]
fn two_hours_by_the_rules_are_qualified_on_the_page() {
    let (scratch, mut record) = (Scratch::new(), paced(10));
    // As many a minute, for twelve times as long.
    let whole = paced(120);
    (record.measured_s, record.plan.measure) = (7200.0, std::time::Duration::from_secs(7200));
    (record.kinds, record.inputs) = (whole.kinds, whole.inputs);
    (record.menu, record.deferred) = (whole.menu, whole.deferred);
    record.new_orders = (0..726).map(|nth| 19 + (nth * 7) % 5).collect();
    let every = (0..25).map(|nth| tpcc::Checkpoints {
        at_s: f64::from(nth) * 300.0,
        timed: i64::from(nth),
        requested: 0,
    });
    record.checkpoints = every.collect();
    let (ended, html) = report(&scratch, &[record]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("qualified: 126.0 ± "), "{ended:?}");
    assert!(!html.contains("short interval"), "it is not short");
}

/// Records of a run twenty times hastened said 18 s of keying, which were drawn and not waited.
#[test]
fn the_page_of_a_hastened_run_shows_the_waits_as_they_were() {
    let scratch = Scratch::new();
    let (ended, html) = report(&scratch, &[hastened(10)]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("hastened, so no verdict: "), "{ended:?}");
    has(
        &html,
        &[
            "this run divided by 20 what is asked for",
            "0.60 s are asked for in the mean, and 0.60 s",
        ],
    );
    drawn(&scratch, "hastened", &html);
}

#[test]
fn what_the_database_said_afterwards_is_kept_with_the_run() {
    let scratch = Scratch::new();
    let path = scratch.join("0.tpcc.json");
    write(&path, "run-0", &paced(10));
    let mut kept: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("written")).expect("JSON");
    let mut page = |verified| {
        kept["verified"] = verified;
        fs::write(&path, kept.to_string()).expect("a folder of our own");
        let ended = sekisho(&scratch.join(""), &["tpcc", "report", "0.tpcc.json"]);
        (ended, fs::read_to_string(scratch.join("report.html")).unwrap_or_default())
    };
    let (ended, html) = page(serde_json::json!({ "checks": 22, "failed": [] }));
    assert_eq!(ended.code, 0, "{ended:?}");
    has(&html, &["Verified afterwards: all 22 checks of the database hold."]);
    let broken = serde_json::json!({ "check": "3.3.2.1", "statement": "it adds up", "places": 2 });
    let (ended, html) = page(serde_json::json!({ "checks": 22, "failed": [broken] }));
    assert_eq!(ended.code, 3, "{ended:?}");
    has(&html, &["afterwards 1 of 22 checks of the database FAIL", "class=\"verdict fails\""]);
}

#[test]
fn think_times_that_are_not_exponential_are_seen_to_be_apart() {
    let scratch = Scratch::new();
    let mut record = paced(10);
    let apart = |html: &str| {
        let (_, rest) = html.split_once("The cumulative shares are ").expect("it is told");
        let (share, _) = rest.split_once(" %").expect("in per cent");
        share.trim().parse::<f64>().expect("a number")
    };
    let (_, html) = report(&scratch, &[record.clone()]);
    assert!(apart(&html) < 0.2, "{}", apart(&html));
    // Payment keys for three seconds: a constant.
    record.kinds[0].think = record.kinds[1].keying.clone();
    let (_, html) = report(&scratch, &[record]);
    assert!(apart(&html) > 70.0, "{}", apart(&html));
}

#[test]
fn a_run_that_came_to_nothing_has_a_page_that_says_so() {
    let scratch = Scratch::new();
    let (ended, html) = report(&scratch, &[empty()]);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: 0.0 ± ?"), "{ended:?}");
    has(&html, &["there is nothing to draw", "New-Order: none was answered", "too few, needs"]);
    assert_eq!(drawn(&scratch, "empty", &html).root_data("figures"), Some("0"));

    let lost = Record { end: End::Lost(61.0, "<b>closed</b>".into()), ..paced(1) };
    let (ended, html) = report(&scratch, &[lost]);
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.out.starts_with("invalid: "), "{ended:?}");
    has(&html, &["class=\"verdict invalid\"", "after 61 s: &lt;b&gt;closed&lt;/b&gt;"]);
    drawn(&scratch, "lost", &html);

    let mut refused = paced(1);
    refused.errors.insert("42501".into(), 3);
    refused.error_first = Some("permission denied".into());
    let (ended, html) = report(&scratch, &[refused]);
    assert_eq!(ended.code, 3, "{ended:?}");
    has(&html, &["\u{2717} VIOLATED", "42501", "permission denied"]);
}

#[test]
fn runs_without_waits_become_curves_against_connections() {
    let scratch = Scratch::new();
    let lost = Record { end: End::Lost(3.0, "gone".into()), ..stressed(16) };
    let records = [stressed(8), stressed(1), stressed(2), stressed(4), lost];
    let (ended, html) = report(&scratch, &records[..4]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("no waits, so no verdict: at most "), "{ended:?}");
    has(&html, &["Throughput against connections", "Response of New-Order", "run-3"]);
    // What was asked of no rule was said to hold.
    assert!(html.contains("class=\"verdict measured\"") && !html.contains("verdict holds"));
    assert_eq!(drawn(&scratch, "stress", &html).root_data("figures"), Some("3"));
    // One that lost its server is listed, and drawn nowhere.
    assert!(
        html.contains("\"x\":8.0,") && !html.contains("\"x\":16.0,"),
        "points are written otherwise"
    );
    let (ended, html) = report(&scratch, &records);
    assert_eq!(ended.code, 5, "{ended:?}");
    has(&html, &["Run run-4: invalid: after 3 s: gone."]);
    assert!(
        html.contains("\"x\":8.0,") && !html.contains("\"x\":16.0,"),
        "an invalid run is no point"
    );
}

/// JSON said "holds" of runs of which the text says that there is no verdict, or that the rules are met for
/// ten minutes.
#[test]
fn json_says_no_kinder_word_than_the_text() {
    let scratch = Scratch::new();
    let says = |records: &[Record], general: bool| {
        let (text, _) = report(&scratch, records);
        let files: Vec<String> = (0..records.len()).map(|nth| format!("{nth}.tpcc.json")).collect();
        let verb: &[&str] = if general { &["report"] } else { &["tpcc", "report"] };
        let words = verb.iter().copied().chain(files.iter().map(String::as_str)).chain(["--json"]);
        let ended = sekisho(&scratch.join(""), &words.collect::<Vec<_>>());
        let object = ended.objects().remove(0);
        assert_eq!(object["exit_code"], ended.code, "{object}");
        (text.out, object["verdict"].as_str().expect("a word").to_owned())
    };
    for (records, text, word) in [
        (vec![stressed(2)], "no waits, so no verdict: ", "no verdict"),
        (vec![stressed(1), stressed(2)], "no waits, so no verdict: ", "no verdict"),
        (vec![hastened(10)], "hastened, so no verdict: ", "no verdict"),
        (vec![paced(10)], "meets the rules for 10 minutes: ", "meets the rules"),
        (vec![empty()], "interrupted: ", "interrupted"),
    ] {
        let (said, json) = says(&records, false);
        assert!(said.starts_with(text), "{said}");
        assert_eq!(json, word, "{said}");
    }
    assert_eq!(says(&[stressed(2)], true).1, "measured");
}

/// A rate whose interval cannot be told was drawn with one of no width, as if it were known exactly.
#[test]
fn a_rate_of_which_too_little_is_known_has_no_interval_in_the_figure() {
    let scratch = Scratch::new();
    let short = |mut record: Record| {
        record.new_orders.truncate(3);
        (record.measured_s, record.plan.measure) = (1.0, std::time::Duration::from_secs(1));
        record
    };
    let (ended, html) = report(&scratch, &[short(stressed(1)), short(stressed(2))]);
    assert!(ended.out.contains(" ± ? (too short for an interval) new\n"), "{ended:?}");
    assert!(
        html.contains("\"x\":1.0,") && html.contains("\"x\":2.0,"),
        "points are written otherwise"
    );
    assert!(!html.contains("\"interval\":["), "nothing is known of any interval");
}

#[test]
fn paced_runs_become_curves_against_warehouses() {
    let scratch = Scratch::new();
    let mut other = paced(30);
    other.server.settings.insert("shared_buffers".into(), "1GB".into());
    let (ended, html) = report(&scratch, &[paced(10), paced(20), other]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("meets the rules for 10 minutes: 378.0 ± "), "{ended:?}");
    assert!(!ended.out.contains("qualified"), "{ended:?}");
    has(
        &html,
        &[
            "30 warehouses, the most of 3 runs",
            "the runs differ in <code>shared_buffers</code>: 512MB, 1GB",
            "12.86 a warehouse",
        ],
    );
    assert_eq!(drawn(&scratch, "several", &html).root_data("figures"), Some("3"));
}

#[test]
fn what_does_not_belong_on_one_page_is_refused_and_nothing_is_written() {
    let scratch = Scratch::new();
    let slow = |record: Record| Record {
        plan: tpcc::Plan { isolation: tpcc::Isolation::Serializable, ..record.plan },
        ..record
    };
    let wide = |mut record: Record| {
        record.plan.warehouses = 5;
        record
    };
    for (one, two, why) in [
        (paced(10), stressed(4), "their terminals waited differently"),
        (paced(10), slow(paced(10)), "isolation levels differ"),
        (stressed(4), wide(stressed(4)), "warehouses differ"),
    ] {
        let (ended, html) = report(&scratch, &[one, two]);
        assert_eq!(ended.code, 2, "{ended:?}");
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(why) && said.contains("make a report of each"), "{ended:?}");
        assert!(said.contains("0.tpcc.json and 1.tpcc.json") && html.is_empty(), "{ended:?}");
    }
    let twice = ["tpcc", "report", "0.tpcc.json", "0.tpcc.json"];
    let ended = sekisho(&scratch.join(""), &twice);
    let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(ended.code == 2 && said.contains("are the same run; name it once"), "{ended:?}");
    fs::write(scratch.join("run.json"), "{\"sekisho-prediction\": 1}").expect("our own");
    for (name, why) in [("run.json", "no record of a TPC-C run"), ("none.json", "cannot read")] {
        let ended = sekisho(&scratch.join(""), &["tpcc", "report", name]);
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code == 2 && said.contains(why), "{ended:?}");
    }
}
