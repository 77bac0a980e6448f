//! Questions and sweeps as a user types them: verdicts with their exit codes, JSON, files, refusals.

use std::fs;

use serde_json::Value;

use crate::arguments::SCENARIO;
use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell};

/// Calls the program where the scenario of a pool before a processor is `s.toml`: 50 jobs a second of
/// 10 ms.
fn call(scratch: &Scratch, words: &[&str]) -> Ended {
    fs::write(scratch.join("s.toml"), SCENARIO).expect("a folder of our own");
    sekisho(&scratch.join(""), words)
}

#[track_caller]
fn object(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn every_question_says_its_verdict_first_and_what_to_type_next() {
    let scratch = Scratch::new();
    for (words, code, begins) in [
        (vec!["bottleneck"], 0, "`cpu` saturates first, at"),
        (vec!["capacity", "--slo", "mean<20ms"], 0, "holds: mean<20ms at"),
        (vec!["capacity", "--slo", "mean<1ms"], 3, "fails: mean<1ms at no load"),
        (vec!["holds", "--load", "1.2x", "--slo", "mean<1s"], 0, "holds: mean<1s at 60.0 /s"),
        (vec!["holds", "--load", "1x", "--slo", "mean<20ms"], 4, "inconclusive: mean<20ms at"),
        (vec!["holds", "--load", "3x"], 3, "fails at 150 /s: at "),
        (vec!["servers", "--load", "3x"], 0, "holds: no saturation at 150 /s with 2 servers"),
        (vec!["slots", "--slots", "1,4"], 0, "gate `pool`: "),
        (vec!["policy"], 0, ""),
        (vec!["sensitivity"], 0, "station.cpu.demand.mean matters most"),
    ] {
        let question = [&["ask", words[0], "s.toml", "--max-requests", "100000"], &words[1..]];
        let question = question.concat();
        let ended = call(&scratch, &question);
        assert_eq!(ended.code, code, "{question:?}: {ended:?}");
        assert!(ended.out.starts_with(begins), "{question:?}: {}", ended.out);
        assert!(ended.out.contains("\n  next: sekisho "), "{question:?}: {}", ended.out);
        let json = call(&scratch, &[question.as_slice(), &["--json"]].concat());
        let object = object(&json);
        assert_eq!((json.code, &object["exit_code"]), (code, &Value::from(code)), "{json:?}");
        assert!(object["answer"].is_object(), "{json:?}");
    }
}

/// The command that an answer ends with, in one line.
#[track_caller]
fn next(ended: &Ended) -> String {
    let (_, command) = ended.out.split_once("\n  next: ").unwrap_or_else(|| panic!("{ended:?}"));
    command.trim_end().replace(&format!(" \\\n{}", " ".repeat(10)), " ")
}

#[test]
fn the_next_command_can_be_typed_whatever_file_and_names_are_called() {
    let scratch = Scratch::new();
    let two = "[[class]]\nname = \"it's a\"\nrate = \"5/s\"\nroute = [\"pool\"]\n\n[[class]]";
    let scenario = SCENARIO.replacen("[[class]]", two, 1).replace("\"cpu\"", "\"-cpu\"");
    fs::write(scratch.join("my file.toml"), scenario).expect("a folder of our own");
    let class = r"--class 'it'\''s a' --seed 7";
    for (line, wanted) in [
        (
            "ask holds 'my file.toml' --load 1.2x --slo 'mean<1s'",
            "ask capacity 'my file.toml' --slo 'mean<1s'",
        ),
        ("ask holds 'my file.toml' --load 1.2x", "ask bottleneck 'my file.toml'"),
        ("ask holds 'my file.toml' --load 30x", "ask servers 'my file.toml' --load 30x"),
        (
            r"ask capacity 'my file.toml' --slo 'mean(it'\''s a)<1ms'",
            r"ask servers 'my file.toml' --load 1x --slo 'mean(it'\''s a)<1ms'",
        ),
        ("ask capacity 'my file.toml' --slo 'p99<1s'", "ask bottleneck 'my file.toml'"),
        ("ask bottleneck 'my file.toml'", "ask servers 'my file.toml' --of=-cpu --load 2x"),
        ("ask servers 'my file.toml' --load 3x", "ask bottleneck 'my file.toml'"),
    ] {
        let line = format!("sekisho {line} {class} --max-requests 100000");
        let ended = shell(&scratch.join(""), &line).ended(PATIENCE);
        let typed = next(&ended);
        assert_eq!(typed, format!("sekisho {wanted} {class}"), "{line}: {ended:?}");
        // As it is printed, broken over lines.
        let (_, printed) = ended.out.split_once("\n  next: ").expect("it was found above");
        let again =
            shell(&scratch.join(""), &format!("{} --max-requests 100000", printed.trim_end()));
        let again = again.ended(PATIENCE);
        assert!([0, 3, 4].contains(&again.code), "{typed}: {again:?}");
    }
}

#[test]
fn every_verb_of_models_quotes_the_file_in_its_next_command() {
    let scratch = Scratch::new();
    fs::write(scratch.join("-it's a.toml"), SCENARIO).expect("a folder of our own");
    let file = r"'./-it'\''s a.toml'";
    for (words, wanted) in [
        ("sim", format!("sekisho solve {file}")),
        ("solve", format!("sekisho sim {file}")),
        ("sim --sweep gate.pool.slots=1,2", format!("sekisho ask sensitivity {file}")),
    ] {
        let line = format!(r"sekisho {words} -- '-it'\''s a.toml'");
        let ended = shell(&scratch.join(""), &line).ended(PATIENCE);
        let typed = next(&ended);
        assert_eq!(typed, wanted, "{line}: {ended:?}");
        let again = shell(&scratch.join(""), &typed).ended(PATIENCE);
        assert!([0, 4].contains(&again.code), "{typed}: {again:?}");
    }
}

#[test]
fn capacity_calls_the_limit_by_formula_what_the_objective_limits() {
    let scratch = Scratch::new();
    for slo in ["p99<200ms", "mean<20ms"] {
        let ended = call(&scratch, &["ask", "capacity", "s.toml", "--slo", slo]);
        let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("By formula, {slo} holds up to ")), "{ended:?}");
        assert!(!flat.contains("on the mean"), "{ended:?}");
    }
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    for (words, wanted) in [
        (["capacity", "--slo", "p99<200"], "column 5: `200` is not a time"),
        (["capacity", "--slo", "p98<1s"], "did you mean"),
        (["capacity", "--slo", "mean(wep)<1s"], "did you mean `web`"),
        (["holds", "--load", "3"], "such as 3x"),
        (["slots", "--gate", "pol"], "did you mean `pool`"),
        (["slots", "--slots", "2"], "name several"),
        (["policy", "--gate", "cpu"], "no gate is called `cpu`"),
        (["bottleneck", "--class", "wep"], "did you mean `web`"),
    ] {
        let ended = call(&scratch, &["ask", words[0], "s.toml", words[1], words[2]]);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains(wanted), "{words:?}: {message}");
        assert_eq!(ended.out, "", "{words:?}");
    }
}

#[test]
fn a_sweep_has_a_row_a_point_in_every_form() {
    let scratch = Scratch::new();
    let sweep = [
        "sim",
        "s.toml",
        "--max-requests",
        "20000",
        "--sweep",
        "gate.pool.slots=1..2",
        "--sweep",
        "class.web.rate=20/s,60/s,200/s",
        "--csv",
        "s.csv",
    ];
    let ended = call(&scratch, &sweep);
    assert_eq!(ended.code, 4, "20,000 requests are not precise: {ended:?}");
    assert!(ended.out.starts_with("inconclusive, not precise: 6 points"), "{}", ended.out);
    for row in ["1 / 20/s ", "2 / 60/s ", "2 / 200/s  "] {
        assert!(ended.out.contains(row), "{}", ended.out);
    }
    let csv = fs::read_to_string(scratch.join("s.csv")).expect("it was written");
    let head =
        "gate.pool.slots,class.web.rate,kind,name,number,unit,mean,half_width,confidence,bound";
    assert_eq!(csv.lines().next(), Some(head));
    let throughput: Vec<f64> = csv
        .lines()
        .filter(|line| line.contains(",class,web,throughput,1/s,"))
        .map(|line| line.split(',').nth(6).expect("the mean").parse().expect("a number"))
        .collect();
    let wanted = [20.0, 60.0, 20.0, 60.0];
    assert_eq!(throughput.len(), wanted.len(), "200/s has no steady state: {throughput:?}");
    for (found, wanted) in throughput.iter().zip(wanted) {
        assert!((found / wanted - 1.0_f64).abs() < 0.05, "{throughput:?}");
    }
    let json = object(&call(&scratch, &[&sweep[..], &["--json"]].concat()));
    let points = json["points"].as_array().expect("a list");
    assert_eq!(points.len(), 6);
    assert_eq!(points[5]["parameters"]["class.web.rate"], "200/s");
    assert!(points[5]["grows"].is_string() && points[0]["classes"].is_array(), "{json}");
}

#[test]
fn a_sweep_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    for (sweep, wanted) in [
        ("gate.pol.slots=1..2", "did you mean `pool`"),
        ("gate.pool.slotz=1..2", "did you mean `slots`"),
        ("gate.pool.slots=0..2", "0 slots let nobody in"),
        ("gate.pool.slots", "no `=`"),
        ("station.cpu.demand=1ms", "go on with one of"),
        ("station.cpu.servers=0.5", "invalid type"),
    ] {
        let words = ["sim", "s.toml", "--sweep", sweep, "--csv", "s.csv"];
        let ended = call(&scratch, &words);
        assert_eq!(ended.code, 2, "{sweep}: {ended:?}");
        let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains(wanted), "{sweep}: {message}");
        assert!(!scratch.join("s.csv").exists(), "{sweep} wrote something");
    }
}
