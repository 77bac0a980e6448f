//! `sekisho measure postgres`: a user's own SQL from the command line, and what takes its records.

use std::fs;
use std::path::Path;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, start};
use crate::site::alone;
use crate::tpcc::{ask, database};

const BROWSE: &str =
    "\\set item random_zipfian(1, 100, 1.2)\nselect price from item where id = :item;\n";
const PAY: &str = "\\set item random(1, 100)\nbegin;\nupdate item set sold = sold + 1 where id = :item;\n\
    commit;\n";
const SCHEMA: &str = "create table item (id int primary key, price int, sold int);\n\
    insert into item select i, i, 0 from generate_series(1, 100) i;\n";

/// A folder with scripts, and a database that they fit.
fn shop(name: &str) -> (Scratch, String) {
    let (scratch, url) = (Scratch::new(), database(name));
    ask(&url, SCHEMA).expect("they are statements");
    write(&scratch.join(""));
    (scratch, url)
}

fn write(folder: &Path) {
    for (name, text) in [("browse.sql", BROWSE), ("pay.sql", PAY), ("schema.sql", SCHEMA)] {
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
}

fn measure(folder: &Path, words: &[&str]) -> Ended {
    sekisho(folder, &[&["measure", "postgres"], words].concat())
}

#[test]
fn own_sql_goes_round_the_loop() {
    let _alone = alone();
    let (scratch, url) = shop("own_loop");
    let folder = scratch.join("");
    // A statement that waits: on a machine that is busy otherwise, more clients still have a higher throughput.
    fs::write(folder.join("browse.sql"), format!("select pg_sleep(0.02);\n{BROWSE}"))
        .expect("a folder of our own");
    let files = ["browse.sql@4", "pay.sql", "--db", &url, "--duration", "2s", "--warmup", "200ms"];
    let measured = measure(&folder, &[&files[..], &["--clients", "1,2,4"]].concat());
    assert!([0, 5].contains(&measured.code), "{measured:?}");
    let said = &measured.out;
    assert!(said.starts_with("measuring own_loop at "), "{measured:?}");
    assert!(said.contains("closed load, 4 clients") && said.contains("browse.sql"), "{measured:?}");
    // After an invalid run, as on a busy machine, it says what to change instead.
    let next = match measured.code {
        0 => "next: sekisho fit .sekisho/runs/",
        _ => "to change: ",
    };
    assert!(said.contains(next), "{measured:?}");
    let sold: u64 =
        ask(&url, "select sum(sold) from item").expect("it is there")[0].parse().expect("a number");
    assert!(sold > 0);
    // Points of clients, throughput and response, as `fit` takes them.
    let runs = folder.join(".sekisho/runs");
    let mut points = String::from("clients,throughput,latency_ms\n");
    let mut names = Vec::new();
    for entry in fs::read_dir(&runs).expect("there are records") {
        let path = entry.expect("a file").path();
        let name = path.display().to_string();
        let checked = sekisho(&folder, &["check", &name, "--expect", "mean<10s", "--json"]);
        assert!([0, 5].contains(&checked.code), "{checked:?}");
        let object = checked.objects().remove(0);
        let number = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(|value| value.as_f64())
                .unwrap_or_else(|| panic!("{pointer}: {object}"))
        };
        let mean = number("/all/response_s/mean");
        let clients = number("/header/load/closed/clients");
        points += &format!("{clients},{},{}\n", number("/all/throughput_per_s/mean"), mean * 1e3);
        names.push(name);
    }
    assert_eq!(names.len(), 3);
    fs::write(folder.join("points.csv"), points).expect("a folder of our own");
    let fitted = sekisho(&folder, &["fit", "--from", "points", "points.csv", "--cores", "2"]);
    assert!([0, 6].contains(&fitted.code), "{fitted:?}");
    let report = sekisho(&folder, &["report", &names[0], &names[1]]);
    assert!([0, 5].contains(&report.code), "{report:?}");
    assert!(folder.join(report.after("report")).is_file(), "{report:?}");
}

#[test]
fn an_expectation_of_one_script_is_judged() {
    let (scratch, url) = shop("own_expect");
    let folder = scratch.join("");
    let words =
        ["browse.sql", "pay.sql", "--db", &url, "--requests", "200", "--clients", "1", "--json"];
    let slow = measure(&folder, &[&words[..], &["--expect", "p50(pay.sql)<1us"]].concat());
    assert!([3, 5].contains(&slow.code), "{slow:?}");
    let object = slow.object("measure");
    assert!(object.to_string().contains("pay.sql"), "{object}");
    let open =
        ["browse.sql", "--db", &url, "--rate", "50/s", "--duration", "1s", "--arrivals", "fixed"];
    let open = measure(&folder, &open);
    assert!([0, 5].contains(&open.code) && open.out.contains("open load, fixed rate"), "{open:?}");
}

#[test]
fn the_knee_of_own_sql_is_found() {
    let _alone = alone();
    let (scratch, url) = shop("own_knee");
    let folder = scratch.join("");
    // One connection does a hundred a second at most: beyond that arrivals wait without end.
    fs::write(folder.join("slow.sql"), "select pg_sleep(0.01);\n").expect("a folder of our own");
    let words = ["slow.sql", "--db", &url, "--connections", "1", "--knee", "p90<200ms"];
    let short = ["--duration", "1s", "--budget", "12s", "--json"];
    let found = measure(&folder, &[&words[..], &short].concat());
    assert!([0, 4].contains(&found.code), "{found:?}");
    let object = found.objects().remove(0);
    let high = object["knee_high_per_s"].as_f64().unwrap_or_else(|| panic!("{object}"));
    // Within a second four times as many must be seen to wait.
    assert!(high > 20.0 && high < 400.0, "{object}");
}

/// Each transaction may have another connection to the server, and the statements are there all the same.
#[test]
fn prepared_statements_are_measured_through_a_gate_in_transaction_mode() {
    let (scratch, url) = shop("own_gate");
    let folder = scratch.join("");
    let gate = ["gate", "postgres", "--listen", "127.0.0.1:0", "--slots", "2", "--db", &url];
    let running = start(&folder, &gate);
    let said = running.says("next: psql ");
    let (_, rest) = said.split_once("listening on ").expect("it says so");
    let address = rest.split(' ').next().expect("it says where");
    let (account, _) = url.split_once('@').expect("there is a password");
    let through = format!("{account}@{address}/own_gate");
    let load = ["--clients", "5", "--requests", "400", "--warmup", "0s", "--json"];
    for protocol in ["prepared", "extended", "simple"] {
        let files = ["browse.sql", "pay.sql", "--protocol", protocol, "--db", &through];
        let measured = measure(&folder, &[&files[..], &load].concat());
        assert!([0, 5].contains(&measured.code), "{protocol}: {measured:?}");
        let object = measured.object("measure");
        assert_eq!(object["all"]["errors"], serde_json::json!({}), "{protocol}: {object}");
    }
    let sold = ask(&url, "select sum(sold) from item").expect("it is there");
    assert_eq!(sold, ["600"], "half of the transactions pay");
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
}

#[test]
fn what_is_wrong_is_told_before_the_load() {
    let (scratch, url) = shop("own_wrong");
    let folder = scratch.join("");
    for (name, text) in [
        ("syntax.sql", "select 1;\nselekt 2;\n"),
        ("missing.sql", "select * from nobody;\n"),
        ("unset.sql", "select :id;\n"),
        ("old.sql", "\\setrandom id 1 10\nselect :id;\n"),
    ] {
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
    for (words, said) in [
        ("", "no script is given: write the SQL of one transaction into a file"),
        ("nobody.sql --clients 1", "nobody.sql"),
        ("browse.sql", "say what load: `--clients 1,8,32`"),
        ("browse.sql@0 --clients 1", "the weight after @ must be a whole number from 1 on"),
        ("browse.sql browse.sql --clients 1", "is given twice"),
        ("browse.sql -D x --clients 1", "write `-D NAME=VALUE`"),
        ("syntax.sql --clients 1", "syntax.sql, line 2, column 1: syntax error at or near"),
        ("missing.sql --clients 1", "relation \"nobody\" does not exist"),
        ("unset.sql --clients 1", "unset.sql, line 1, column 8: id is set nowhere"),
        ("old.sql --clients 1", "write `\\set id random(1, 10)`"),
        ("browse.sql --clients 0", "the number of clients must be 1 to 10000"),
        ("browse.sql --clients 1,5000", "raise max_connections"),
        ("browse.sql --init schema.sql --clients 1", "`--init` fills a private PostgreSQL"),
        ("browse.sql --knee errors<1%", "must limit a quantile from above"),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let refused = measure(&folder, &[&words[..], &["--db", &url]].concat());
        assert_eq!(refused.code, 2, "{words:?}: {refused:?}");
        let told = refused.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(said), "{words:?}: {told}");
        assert!(!folder.join(".sekisho/runs").exists(), "{words:?} has run");
    }
    let public = measure(
        &folder,
        &["browse.sql", "--clients", "1", "--db", "postgresql://me@203.0.113.1/x"],
    );
    assert_eq!(public.code, 2, "{public:?}");
    assert!(public.err.contains("--public --public"), "{public:?}");
}

#[test]
fn with_no_database_named_a_private_one_is_filled() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    write(&folder);
    let words = ["pay.sql", "--clients", "2", "--requests", "50", "--warmup", "0s"];
    let empty = measure(&folder, &words);
    assert_eq!(empty.code, 2, "{empty:?}");
    assert!(empty.err.contains("--init schema.sql"), "{empty:?}");
    let filled =
        measure(&folder, &[&words[..], &["--init", "schema.sql", "-M", "simple"]].concat());
    assert!([0, 5].contains(&filled.code), "{filled:?}");
    assert!(filled.out.starts_with("measuring a private server (PostgreSQL "), "{filled:?}");
    // The weight of a script alone broke the table at the width of a terminal.
    let is_head = |line: &&str| line.trim_start().starts_with("script ");
    let head = filled.out.lines().find(is_head).expect("there is a table");
    assert!(!head.contains("weight") && head.contains("transactions"), "{filled:?}");
    let is_row = |line: &&str| line.trim_start().starts_with("pay.sql ");
    let row = filled.out.lines().find(is_row).expect("there is a row");
    assert!(row.chars().count() <= 80, "{filled:?}");
}
