//! An answer in which numbers of an approximate formula stand says so in its first line and to programs,
//! not in its last: each verb that shows any.

use std::fs;

use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{Ended, sekisho};
use crate::records;

/// Slots that are held over two queues: no exact formula.
const HELD: &str = "sekisho = 1\nname = \"held\"\n\
    [[class]]\nname = \"c\"\npopulation = 6\nthink = { mean = \"50ms\", dist = \"exponential\" }\n\
    route = [\"slots\"]\n\
    [[gate]]\nname = \"slots\"\nslots = 4\ninside = [\"cpu\", \"disk\"]\n\
    [[station]]\nname = \"cpu\"\nkind = \"queue\"\ndemand = { mean = \"5ms\", dist = \"exponential\" }\n\
    [[station]]\nname = \"disk\"\nkind = \"queue\"\ndemand = { mean = \"8ms\", dist = \"exponential\" }\n";

/// One queue: its formula is exact.
const EXACT: &str = "sekisho = 1\nname = \"one\"\n\
    [[class]]\nname = \"c\"\nrate = \"50/s\"\nroute = [\"cpu\"]\n\
    [[station]]\nname = \"cpu\"\nkind = \"queue\"\ndemand = { mean = \"10ms\", dist = \"exponential\" }\n";

fn call(scratch: &Scratch, line: &str) -> Ended {
    let words: Vec<&str> = line.split(' ').collect();
    sekisho(&scratch.join(""), &words)
}

/// The first sentence, which may be broken over lines.
fn first(ended: &Ended) -> String {
    let lines = ended.out.lines().enumerate();
    let head = lines.take_while(|(at, line)| *at == 0 || line.starts_with("  "));
    let head: Vec<&str> = head.map(|(_, line)| line.trim()).take(4).collect();
    head.join(" ")
}

#[track_caller]
fn object(ended: &Ended) -> Value {
    let line = ended.out.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no JSON: {ended:?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.join("held.toml"), HELD).expect("a folder of our own");
    fs::write(scratch.join("exact.toml"), EXACT).expect("a folder of our own");
    scratch
}

/// Every form of `ask` and `report` gave an approximate formula's numbers beside the simulation's, and said
/// so behind them, if at all.
#[test]
fn what_shows_an_approximate_formula_says_so_first() {
    let scratch = scratch();
    for (line, approximate) in [
        ("solve held.toml", true),
        ("solve exact.toml", false),
        ("ask held.toml --clients 4,8", true),
        ("ask exact.toml --rate 40/s", false),
        ("ask capacity held.toml --slo mean<60ms --max-requests 5000", true),
        ("ask capacity exact.toml --slo mean<30ms --max-requests 5000", false),
        ("ask slots held.toml --slots 2,4 --max-requests 5000", true),
        ("ask holds held.toml --load 1x --max-requests 5000", true),
        ("ask holds exact.toml --load 1x --max-requests 5000", false),
        ("ask servers held.toml --load 2x --max-requests 5000", true),
        // No formula is asked.
        ("ask bottleneck held.toml --max-requests 5000", false),
        ("ask policy held.toml --max-requests 5000", false),
        ("ask sensitivity held.toml --max-requests 5000", false),
        ("report held.toml --out page.html", true),
        ("report exact.toml --out page.html", false),
        ("reproduce yamamoto --model", false),
    ] {
        let text = call(&scratch, line);
        let first = first(&text);
        assert_eq!(first.contains("approximate within 12 %"), approximate, "{line}: {text:?}");
        let json = call(&scratch, &format!("{line} --json"));
        let object = object(&json);
        assert_eq!((json.code, &object["exit_code"]), (text.code, &Value::from(text.code)));
        assert_eq!(object["approximate"], approximate, "{line}: {object}");
        let error = if approximate { Value::from(0.12) } else { Value::Null };
        assert_eq!(object["error"], error, "{line}: {object}");
    }
}

/// The table for other programs had no word of it.
#[test]
fn every_row_of_a_csv_file_says_how_far_it_may_be_off() {
    let scratch = scratch();
    for (name, ends) in [("held", ",true,0.12"), ("exact", ",false,")] {
        let line = format!("solve {name}.toml --csv {name}.csv");
        assert_eq!(call(&scratch, &line).code, 0);
        let text =
            fs::read_to_string(scratch.join(&format!("{name}.csv"))).expect("it was written");
        let (head, rows) = text.split_once('\n').expect("a head");
        assert!(head.ends_with(",Tput,Approximate,Error"), "{text}");
        assert!(rows.lines().count() >= 1, "{text}");
        assert!(rows.lines().all(|row| row.ends_with(ends)), "{text}");
    }
}

/// A prediction keeps what its formula's numbers are worth, so that its score can say it too.
#[test]
fn a_check_of_a_prediction_says_what_its_formula_is_worth() {
    let scratch = scratch();
    records::write(&scratch.join("8.jsonl"), &records::record(8));
    for (name, approximate) in [("held", true), ("exact", false)] {
        let ask = format!("ask {name}.toml --clients 8 --out {name}.json");
        assert_eq!(call(&scratch, &ask).code, 0);
        let check = format!("check 8.jsonl --prediction {name}.json");
        let text = call(&scratch, &check);
        let first = first(&text);
        assert_eq!(
            first.contains("; its formula is approximate within 12 %"),
            approximate,
            "{text:?}"
        );
        let object = object(&call(&scratch, &format!("{check} --json")));
        assert_eq!(object["approximate"], approximate, "{object}");
        assert_eq!(object["score"]["approximate"], approximate, "{object}");
    }
}
