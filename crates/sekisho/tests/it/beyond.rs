//! Quantiles at the ends of what a histogram tells apart are bounds, and say so to programs too.

use std::fs;
use std::time::Duration;

use measure::Histogram;

use crate::browser::Scratch;
use crate::command::sekisho;
use crate::records;

/// Five customers that take two hours a turn, and never wait for each other.
pub(crate) const LONG: &str = "sekisho = 1\nname = \"long\"\n\
    [[class]]\nname = \"c\"\npopulation = 5\nthink = { mean = \"1s\", dist = \"exponential\" }\n\
    route = [\"post\"]\n\
    [[station]]\nname = \"post\"\nkind = \"delay\"\n\
    demand = { mean = \"2h\", dist = \"exponential\" }\n";

/// Files and JSON had 3600 s and no interval, as if it were a time that nobody knows well.
#[test]
fn files_for_programs_say_that_a_quantile_is_a_bound() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let sim = ["sim", "s.toml", "--precision", "20%", "--csv", "s.csv", "--json"];
    for (text, bound, [low, high]) in [
        (LONG.to_owned(), "at-least", [3600.0, 3604.0]),
        (LONG.replace("2h", "100ns"), "at-most", [0.0, 1.001e-6]),
        (LONG.replace("2h", "10ms"), "", [6e-3, 8e-3]),
    ] {
        fs::write(folder.join("s.toml"), text).expect("a folder of our own");
        let ended = sekisho(&folder, &sim);
        assert!([0, 4].contains(&ended.code), "{ended:?}");
        let object = &ended.objects()[0];
        let median = &object["classes"][0]["response_quantiles_s"]["0.5"];
        let wanted = if bound.is_empty() { serde_json::Value::Null } else { bound.into() };
        assert_eq!(median["bound"], wanted, "{median}");
        let mean = median["mean"].as_f64().expect("a number");
        assert!((low..=high).contains(&mean), "{median}");
        let csv = fs::read_to_string(folder.join("s.csv")).expect("it was written");
        assert!(
            csv.starts_with("kind,name,number,unit,mean,half_width,confidence,bound\n"),
            "{csv}"
        );
        let row = |number: &str| {
            let row = csv.lines().find(|line| line.starts_with(&format!("class,c,{number},")));
            let row = row.unwrap_or_else(|| panic!("no {number}: {csv}"));
            row.split(',').map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("response p50")[7], bound, "{csv}");
        // Nothing else is one: a mean is what it is, however long.
        assert_eq!(row("response")[7], "", "{csv}");
        if bound == "at-least" {
            assert_eq!(row("response p50")[5], "", "no interval: {csv}");
        }
    }
}

/// The curve of a page ran to 3600 s and stayed there, and `--json` had no word of it.
#[test]
fn pages_draw_no_bound_as_a_time() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let mut record = records::record(1);
    for interval in &mut record.intervals {
        for class in &mut interval.classes {
            let mut total = Histogram::new();
            // One in five takes two hours.
            for nth in 0..class.completed {
                total.record(Duration::from_secs(if nth % 5 == 0 { 7200 } else { 1 }));
            }
            class.total = total;
        }
    }
    records::write(&folder.join("1.jsonl"), &record);
    records::write(&folder.join("32.jsonl"), &records::record(32));
    for (run, says) in [("1.jsonl", true), ("32.jsonl", false)] {
        let page = sekisho(&folder, &["report", run, "--out", "page.html"]);
        assert!([0, 5].contains(&page.code), "{page:?}");
        let html = fs::read_to_string(folder.join("page.html")).expect("it was written");
        assert_eq!(html.contains("Not drawn: what is beyond 1 h."), says, "{run}");
        assert!(html.contains("Response by quantile"), "{run}");
        let check = sekisho(&folder, &["check", run, "--expect", "p99<1s", "--json"]);
        let object = &check.objects()[0];
        let text = object.to_string();
        assert_eq!(text.contains("\"bound\":\"at-least\""), says, "{text}");
    }
}
