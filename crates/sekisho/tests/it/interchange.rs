//! Files of other tools as the command solves, simulates and writes them.

use std::fs;
use std::path::PathBuf;

use crate::browser::Scratch;
use crate::command::{Ended, sekisho};

fn text(name: &str) -> String {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/models");
    fs::read_to_string(models.join(name)).expect("it is part of the repository")
}

/// Digit by digit, but for rounding: the numbers are those of the literature.
#[track_caller]
fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{found}, not {wanted}");
}

/// Calls the command in an empty folder with the model in it.
fn command(model: &str, words: &[&str]) -> (Ended, Scratch) {
    let scratch = Scratch::new();
    fs::write(scratch.join(model), text(model)).expect("a folder of our own");
    (sekisho(&scratch.join(""), words), scratch)
}

#[test]
fn the_command_prints_the_table_that_people_know() {
    let words = ["solve", "mixed.jmva", "--csv", "t.csv", "--jmva", "again.jmva"];
    let (ended, folder) = command("mixed.jmva", &words);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.starts_with("solved: 3 classes\n"), "{ended:?}");
    for wanted in ["QLen", "Util", "RespT", "ResidT", "ArvR", "Tput", "from 0 to", "exact"] {
        assert!(ended.out.contains(wanted), "no {wanted}: {}", ended.out);
    }
    let csv = fs::read_to_string(folder.join("t.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "Station,Class,QLen,Util,RespT,ResidT,ArvR,Tput,Approximate,Error");
    assert_eq!(lines.len(), 1 + 7, "{csv}");
    let row: Vec<&str> = lines[1].split(',').collect();
    let number = |at: usize| row[at].parse::<f64>().expect("a number");
    assert_eq!((&row[..2], &row[8..]), (&["cpu", "readers"][..], &["false", ""][..]));
    near(number(2), number(4) * number(6), 1e-9);
    near(number(5), 3.0 * number(4), 1e-9);
    // What was written is the same model, and its solution the same.
    let again = sekisho(&folder.join(""), &["solve", "again.jmva", "--csv", "u.csv", "--json"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(fs::read_to_string(folder.join("u.csv")).unwrap(), csv);
    let object = &again.objects()[0];
    assert_eq!(object["table"].as_array().map(Vec::len), Some(7), "{object}");
    assert_eq!(object["trust"]["exact"], true, "{object}");
    assert_eq!(object["approximate"], false, "{object}");
    assert!(object["error"].is_null(), "{object}");
}

#[test]
fn the_command_solves_and_simulates_layered_models() {
    let (ended, folder) = command("pool.lqn", &["solve", "pool.lqn"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let first = ended.out.lines().next().unwrap_or_default();
    assert!(first.ends_with(", approximate within 12 %"), "{first}");
    for wanted in ["pool", "(all)", "software bottleneck", "approximate (within 12 %"] {
        let text = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(wanted), "no {wanted}: {}", ended.out);
    }
    let simulated = sekisho(&folder.join(""), &["sim", "pool.lqn", "--precision", "3%"]);
    assert_eq!(simulated.code, 0, "{simulated:?}");
    assert!(simulated.out.starts_with("simulated: 16."), "{simulated:?}");
}

#[test]
fn what_cannot_be_done_is_exit_code_2_and_nothing_is_written() {
    let cases: [(&str, &[&str], &str); 4] = [
        (
            "pool.lqn",
            &["solve", "pool.lqn", "--jmva", "x.jmva", "--csv", "x.csv"],
            "is no network of product form",
        ),
        ("pool.lqn", &["solve", "pool.lqn", "--method", "exact"], "layered model"),
        ("ring.jmva", &["solve", "ring.jmva", "--corrected"], "only scenarios are corrected"),
        ("late-work.lqn", &["sim", "late-work.lqn", "--csv", "x.csv"], "by formula only"),
    ];
    for (model, words, wanted) in cases {
        let (ended, folder) = command(model, words);
        assert_eq!(ended.code, 2, "{ended:?}");
        let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains(wanted), "{message}");
        assert_eq!(ended.out, "");
        assert!(!folder.join("x.csv").exists() && !folder.join("x.jmva").exists());
    }
}
