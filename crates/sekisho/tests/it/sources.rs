//! `sekisho fit --from`: every source as it is typed, and what is broken, partial or hostile in it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, shell};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fit")
}

/// Puts a file of each source into a folder.
pub(crate) fn write_sources(folder: &Path) {
    for name in ["points.csv", "range.json", "pss.csv", "spans.json"] {
        fs::copy(fixtures().join(name), folder.join(name)).expect("a folder of our own");
    }
    fs::write(folder.join("access.log"), access_log()).expect("the same");
}

/// One server of 5 ms in line behind a delay of 20 ms, under loads from 20 % to 75 %, as nginx logs
/// it with `$request_time`.
fn access_log() -> String {
    let mut state = 7u64;
    let mut exponential = |mean: f64| {
        // A multiplicative generator (Knuth) is chance enough for a log.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        -mean * (1.0 - (state >> 11) as f64 / (1u64 << 53) as f64).ln()
    };
    let (mut log, mut now, mut free) = (String::new(), 0.0, 0.0_f64);
    for load in [0.2, 0.6, 0.75, 0.4, 0.7, 0.3] {
        for nth in 0..4_000 {
            now += exponential(5e-3 / load);
            free = free.max(now) + exponential(5e-3);
            let (end, seconds) = (free + 20e-3, free + 20e-3 - now);
            let (minute, second) = (end as u64 / 60, end as u64 % 60);
            writeln!(
                log,
                "192.0.2.1 - - [20/Nov/2026:12:{minute:02}:{second:02} +0000] \"GET /item/{nth}?a=b \
                 HTTP/1.1\" 200 512 {seconds:.3}"
            )
            .expect("a String takes all");
        }
    }
    log
}

fn fit(folder: &Path, line: &str) -> Ended {
    shell(folder, &format!("sekisho fit {line}")).ended(PATIENCE)
}

fn parameters(ended: &Ended) -> Value {
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.objects()[0]["scenario"]["calibration"]["parameters"].clone()
}

/// Asserts that the region of a parameter holds the truth.
#[track_caller]
fn holds(parameters: &Value, name: &str, truth: f64) {
    let of = |at: usize| parameters[name]["interval"][at].as_f64().expect("a number");
    assert!(of(0) <= truth && truth <= of(1), "{name}: {parameters}");
}

/// Stamps of whole seconds and few windows: within a third is as near as such a log tells.
#[track_caller]
fn near(parameters: &Value, name: &str, truth: f64) {
    let value = parameters[name]["value"].as_f64().expect("a number");
    assert!((value / truth - 1.0).abs() < 0.33, "{name}: {parameters}");
}

/// The story: of 0.1 ms and a delay of 19.9 ms "3.80 ms, 1.59 to 9.02 ms".
#[test]
fn a_demand_that_points_do_not_tell_from_a_delay_is_not_known() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let rows: String =
        (1..=5).map(|n| format!("{n},{:.5},20.0000\n", f64::from(n) / 1.02)).collect();
    let table = format!("clients,throughput,latency_ms\n{rows}");
    fs::write(folder.join("below.csv"), table).expect("a folder of our own");
    let ended = fit(&folder, "--from points below.csv --cores 1");
    assert_eq!(ended.code, 0, "{ended:?}");
    for name in ["demand", "delay"] {
        let row = ended.out.lines().find(|line| line.trim_start().starts_with(name));
        assert!(row.is_some_and(|row| row.contains("not known")), "{name}: {ended:?}");
    }
    let parameters =
        parameters(&fit(&folder, "--from points below.csv --cores 1 --json --out b.toml"));
    holds(&parameters, "demand", 0.1e-3);
    holds(&parameters, "delay", 19.9e-3);
}

#[test]
fn every_source_is_fitted_and_its_scenario_can_be_asked() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    write_sources(&folder);
    let points = parameters(&fit(&folder, "--from points points.csv --cores 1 --json"));
    holds(&points, "demand", 2e-3);
    holds(&points, "delay", 6e-3);
    let solved = sekisho(&folder, &["solve", "scenario.toml"]);
    assert_eq!(solved.code, 0, "{solved:?}");
    let log = parameters(&fit(&folder, "--from access-log access.log --cores 1 --json"));
    near(&log, "demand GET /item/*", 5e-3);
    let metrics =
        parameters(&fit(&folder, "--from prometheus range.json --by handler --cores 2 --json"));
    holds(&metrics, "demand /get", 4e-3);
    holds(&metrics, "demand /put", 12e-3);
    holds(&metrics, "background", 0.1);
    // Several classes have no formula there; the simulator takes them.
    let words = ["sim", "scenario.toml", "--max-requests", "20000"];
    let simulated = sekisho(&folder, &words);
    assert!([0, 4].contains(&simulated.code), "{simulated:?}");
    let line = "--from pg-stat-statements pss.csv --seconds 6 --busy 4.1s --cores 2 --once 'UPDATE pgbench_b'";
    let ended = fit(&folder, line);
    assert_eq!(ended.code, 0, "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    // 4.1 s for 5029 transactions; the updates of the branches wait for one row's lock.
    assert!(flat.contains("demand 815 us 0 s to 815 us"), "{flat}");
    assert!(flat.contains("not identified: the processor time of each statement"), "{flat}");
    // One number is charged with all that was measured, which proves nothing.
    assert!(flat.contains("nothing was measured that could contradict them"), "{flat}");
    assert!(!flat.contains("0.0 % off"), "{flat}");
    let spans = parameters(&fit(&folder, "--from spans spans.json --json"));
    assert_eq!(spans["visits stock SELECT"]["value"], 2.0, "{spans}");
}

#[test]
fn json_lines_and_apaches_microseconds_are_read_too() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let nginx = access_log();
    let (mut lines, mut apache) = (String::new(), String::new());
    for line in nginx.lines() {
        let (head, seconds) = line.rsplit_once(' ').expect("it has words");
        let stamp = &line[line.find("12:").expect("it has a time")..][..8];
        let seconds: f64 = seconds.parse().expect("a number");
        writeln!(
            lines,
            "{{\"ts\":\"2026-11-20T{stamp}Z\",\"took\":{},\"uri\":\"/item/7\"}}",
            seconds * 1e3
        )
        .expect("a String takes all");
        writeln!(apache, "{head} {:.0}", seconds * 1e6).expect("the same");
    }
    fs::write(folder.join("lines.json"), lines).expect("a folder of our own");
    fs::write(folder.join("apache.log"), apache).expect("the same");
    let json = "--from access-log lines.json --fields ts,took,uri --time-unit ms --cores 1 --json";
    near(&parameters(&fit(&folder, json)), "demand /item/*", 5e-3);
    let clf = "--from access-log apache.log --time-unit us --cores 1 --json";
    near(&parameters(&fit(&folder, clf)), "demand GET /item/*", 5e-3);
    let without = fit(&folder, "--from access-log apache.log --cores 1");
    assert_eq!(without.code, 2, "{without:?}");
    assert!(without.err.contains("apache.log:1:") && without.err.contains("--time-unit"));
}

#[test]
fn two_scrapes_bound_the_demand() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let scrape = |count: u32, sum: f64, cpu: f64| {
        format!(
            "# TYPE http_seconds histogram\nhttp_seconds_bucket{{path=\"/a\\\"}}\",le=\"+Inf\"}} \
             {count}\nhttp_seconds_count{{path=\"/a\\\"}}\"}} {count}\n\
             http_seconds_sum{{path=\"/a\\\"}}\"}} {sum}\nprocess_cpu_seconds_total {cpu}\n\
             temperature -3\nratio NaN\n"
        )
    };
    fs::write(folder.join("a.txt"), scrape(100, 5.0, 1.0)).expect("a folder of our own");
    fs::write(folder.join("b.txt"), scrape(1100, 30.0, 6.0)).expect("the same");
    let line = "--from prometheus a.txt b.txt --by path --seconds 60 --cores 1";
    let found = parameters(&fit(&folder, &format!("{line} --json")));
    assert_eq!(found["demand /a\"}"]["interval"], serde_json::json!([0.0, 5e-3]), "{found}");
    for (change, wanted) in [
        ("b.txt a.txt --seconds 60 --cores 1", "no two moments"),
        ("a.txt --seconds 60 --cores 1", "give the one before too"),
        ("a.txt b.txt --cores 1", "no time stamps"),
        ("a.txt b.txt --seconds 60", "--cores"),
        ("a.txt b.txt --seconds 60 --cores 1 --by method", "it has path"),
        ("a.txt b.txt --seconds 60 --cores 1 --busy none", "no metric is called `none`"),
        ("a.txt b.txt --seconds 60 --cores 1 --requests none", "`none_count`"),
    ] {
        refused(&folder, &format!("--from prometheus {change}"), wanted);
    }
    let narrow = fit(&folder, "--from prometheus a.txt b.txt --seconds 2 --cores 1");
    assert_eq!(narrow.code, 6, "{narrow:?}");
}

/// Growth by bound of 1000 responses of 5 ms of a processor at 8 % and 20 ms elsewhere.
const GROWN: [(&str, u32); 4] = [("0.025", 600), ("0.05", 992), ("0.1", 1000), ("+Inf", 1000)];

/// Two scrapes, 60 s apart, of a server whose responses were counted so.
fn histograms(folder: &Path, grown: &[(&str, u32)], more: [&str; 2]) {
    let scrape = |is_later: u32, more: &str| {
        let mut text = String::from("# TYPE http_seconds histogram\n");
        for (le, count) in grown {
            let count = 40 + is_later * count;
            writeln!(text, "http_seconds_bucket{{le=\"{le}\"}} {count}")
                .expect("a String takes all");
        }
        let (count, sum) = (40 + is_later * 1000, 1 + is_later * 25);
        let cpu = 1 + 5 * is_later;
        write!(
            text,
            "http_seconds_count {count}\nhttp_seconds_sum {sum}\nprocess_cpu_seconds_total {cpu}\n\
             {more}"
        )
        .expect("the same");
        text
    };
    fs::write(folder.join("a.txt"), scrape(0, more[0])).expect("a folder of our own");
    fs::write(folder.join("b.txt"), scrape(1, more[1])).expect("the same");
}

const SCRAPES: &str = "--from prometheus a.txt b.txt --seconds 60 --cores 1";

#[test]
fn buckets_of_two_scrapes_bound_the_quantiles() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    histograms(&folder, &GROWN, ["", ""]);
    let ended = fit(&folder, SCRAPES);
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("fits: 1 numbers; 3 of 3 quantiles it did not use agree;"), "{flat}");
    // By hand: ranks 468 to 532 of 1000, 881 to 919, 983 to 997.
    for row in ["p50 requests 0.08 0 s to 25.0 ms", "p90 requests 0.08 25.0 ms to 50.0 ms"] {
        assert!(flat.contains(row), "no `{row}` in {flat}");
    }
    assert!(flat.contains("p99 requests 0.08 25.0 ms to 100 ms"), "{flat}");
    assert!(flat.contains("response requests 25.0 ms 25.0 ms taken up"), "{flat}");
    assert!(flat.contains("where between two bounds of the histogram"), "{flat}");
    // Without +Inf the count says how many there were; without the count +Inf does.
    histograms(&folder, &GROWN[..3], ["", ""]);
    assert!(fit(&folder, SCRAPES).out.contains("3 of 3 quantiles"));
    for name in ["a.txt", "b.txt"] {
        let text = fs::read_to_string(folder.join(name)).expect("it is there");
        let text = text.replace("http_seconds_count", "http_seconds_bucket{le=\"+Inf\"}");
        fs::write(folder.join(name), text).expect("a folder of our own");
    }
    let ended = fit(&folder, SCRAPES);
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("3 of 3 quantiles"), "{flat}");
    assert!(flat.contains("requests from `http_seconds_bucket{le=\"+Inf\"}`"), "{flat}");
}

#[test]
fn buckets_contradict_a_model_or_are_left_out() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    // Nine in ten take longer than 25 ms, but the model has the median at 23 ms.
    histograms(&folder, &[("0.025", 100), ("0.05", 1000), ("0.1", 1000)], ["", ""]);
    let flat = |ended: Ended| {
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = flat(fit(&folder, SCRAPES));
    assert!(text.contains("2 of 3 quantiles it did not use agree"), "{text}");
    assert!(text.contains("the p50 of `requests` below them"), "{text}");
    let found = fit(&folder, &format!("{SCRAPES} --json")).objects()[0].clone();
    let median = &found["quantiles"][0];
    assert_eq!(median["agrees"], false, "{found}");
    assert_eq!(
        (&median["above_s"], &median["at_most_s"]),
        (&0.025.into(), &0.05.into()),
        "{found}"
    );
    // Cumulative counts that fall, that exceed the count, or that began anew say nothing.
    let ends_low = [("0.025", 600), ("0.05", 500), ("0.1", 1000)];
    let too_many = [("0.025", 600), ("0.05", 992), ("0.1", 1200)];
    for grown in [ends_low, too_many] {
        histograms(&folder, &grown, ["", ""]);
        let text = flat(fit(&folder, SCRAPES));
        assert!(text.contains("the buckets of 1 windows are left out"), "{text}");
        assert!(text.contains("nothing was measured that could contradict them"), "{text}");
    }
    let other = |count: u32| format!("http_seconds_bucket{{le=\"0.025\",pod=\"b\"}} {count}\n");
    histograms(&folder, &GROWN, [&other(50), &other(20)]);
    let text = flat(fit(&folder, SCRAPES));
    assert!(text.contains("of 3 bounds of the histogram of `requests` those are used"), "{text}");
    assert!(text.contains("the buckets of 1 windows are left out"), "{text}");
    // A sum that these buckets cannot have, and a bound that is none.
    let slow = [("0.025", 10), ("0.05", 20), ("0.1", 30)];
    histograms(&folder, &slow, ["", ""]);
    let ended = fit(&folder, SCRAPES);
    assert_eq!(ended.code, 6, "{ended:?}");
    histograms(&folder, &[("soon", 10)], ["", ""]);
    refused(&folder, SCRAPES, "a bucket without a bound: le=\"soon\"");
}

/// The answer of a range query: a series each, with its values every 15 s.
fn range(series: &[(&str, &str, &[u32])]) -> String {
    let results = series.iter().map(|(name, le, values)| {
        let points = values.iter().enumerate();
        let points: Vec<_> =
            points.map(|(at, v)| serde_json::json!([15 * at, v.to_string()])).collect();
        let mut metric = serde_json::json!({ "__name__": name });
        if !le.is_empty() {
            metric["le"] = (*le).into();
        }
        serde_json::json!({ "metric": metric, "values": points })
    });
    let results: Vec<_> = results.collect();
    serde_json::json!({ "data": { "resultType": "matrix", "result": results } }).to_string()
}

#[test]
fn buckets_of_range_queries_are_counted_between_resets() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    // The program begins anew before the third value; what it did until then is not known.
    let series: [(&str, &str, &[u32]); 6] = [
        ("rpc_count", "", &[0, 500, 100, 600]),
        ("rpc_sum", "", &[0, 12, 2, 14]),
        ("rpc_bucket", "0.03", &[0, 450, 90, 540]),
        ("rpc_bucket", "0.5", &[0, 499, 100, 599]),
        ("rpc_bucket", "+Inf", &[0, 500, 100, 600]),
        ("process_cpu_seconds_total", "", &[0, 2, 2, 4]),
    ];
    fs::write(folder.join("range.json"), range(&series)).expect("a folder of our own");
    let line = "--from prometheus range.json --cores 1";
    let ended = fit(&folder, line);
    assert_eq!(ended.code, 0, "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("2 windows; requests from `rpc_count`"), "{flat}");
    assert!(flat.contains("1 windows are left out"), "{flat}");
    let found = fit(&folder, &format!("{line} --json")).objects()[0].clone();
    let quantiles = found["quantiles"].as_array().expect("three");
    assert!(quantiles.iter().all(|one| one["completed"] == 1000.0), "{found}");
    assert!(flat.contains("0.20 % of `requests` beyond 0.5 s"), "{flat}");
    // A native histogram is refused, not taken as nothing.
    let native = r#"{"data":{"resultType":"matrix","result":[{"metric":{"__name__":"rpc"},
        "histograms":[]}]}}"#;
    fs::write(folder.join("native.json"), native).expect("the same");
    refused(&folder, "--from prometheus native.json --cores 1", "is a native histogram");
}

#[track_caller]
fn refused(folder: &Path, line: &str, wanted: &str) {
    let before = fs::read_dir(folder).expect("it is there").count();
    let ended = fit(folder, line);
    assert_eq!(ended.code, 2, "{line}: {ended:?}");
    let message = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(message.contains(wanted), "{line}: no `{wanted}` in: {message}");
    assert_eq!(ended.out, "", "{line}");
    assert_eq!(fs::read_dir(folder).expect("it is there").count(), before, "{line} wrote a file");
}

#[test]
fn what_is_broken_is_named_with_its_line() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let log = "1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5";
    let span = "{\"traceId\":\"t\",\"spanId\":\"s\",\"name\":\"n\",\"startTimeUnixNano\":\"9\",\
                \"endTimeUnixNano\":\"3\"}";
    let export = |service: &str| {
        format!(
            "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":[{service}]}},\
             \"scopeSpans\":[{{\"spans\":[{span}]}}]}}]}}\n"
        )
    };
    let shop = "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"shop\"}}";
    let cases: [(&str, String, &str); 19] = [
        ("points", String::new(), "f:1: the table is empty"),
        ("points", "a,b\n1,2\n".into(), "no column is called clients"),
        ("points", "clients,rps,latency\n1,2,3\n".into(), "`latency` has no unit"),
        ("points", "clients,rps\n1,2\n2,x\n".into(), "f:3: `x` is no rps"),
        ("points", "clients,rps\n0,2\n".into(), "f:2: `0` is no clients"),
        ("points", "clients,rps\n1,nan\n".into(), "f:2: `nan` is no rps"),
        ("points", "clients,rps\n1,2,3\n".into(), "f:2: it has 3 fields, the header 2"),
        ("points", "clients,rps\n\"1,2\n".into(), "f:2: a quote is never closed"),
        ("points", "clients,rps\n1,2\n2,3\n".into(), "2 points are too few"),
        ("access-log", "prose\n".into(), "f:1: `prose` has no time in brackets"),
        ("access-log", format!("{log}12\n"), "f:1: it ends with the bytes"),
        ("access-log", format!("{log} 0.1\n{log} 1e9.\n"), "f:2: `1e9.` is no duration"),
        ("access-log", format!("{log} 0.1\n{{\"a\n"), "f:2: this JSON is broken"),
        ("access-log", format!("{log} 0.1\n"), "1 requests over"),
        (
            "prometheus",
            "{\"status\":\"error\",\"error\":\"bad\"}".into(),
            "f:1: the query failed: bad",
        ),
        (
            "pg-stat-statements --seconds 1",
            "query,calls\n".into(),
            "no column is called total_exec",
        ),
        ("spans", "{\"resourceSpans\":[]}\n{\n".into(), "this JSON is broken"),
        ("spans", export(""), "no attribute `service.name`"),
        ("spans", export(shop), "f:1: a span ends 6 ns before it begins"),
    ];
    for (source, text, wanted) in &cases {
        fs::write(folder.join("f"), text).expect("a folder of our own");
        refused(&folder, &format!("--from {source} f"), wanted);
    }
    fs::write(folder.join("f"), b"clients,rps\n1,\xff\n").expect("the same");
    refused(&folder, "--from points f", "f:2: this is no UTF-8");
    refused(&folder, "--from points absent", "absent");
    refused(&folder, "--from points f f", "2 files are given");
    refused(&folder, "--from points f --slots 3", "no other source tells slots");
    refused(&folder, "f --by x", "`--by` is of other sources");
    refused(&folder, "--from nonsense f", "access-log");
}

/// Damage by chance: an answer or an error, never a panic, and a scenario only with an answer.
#[test]
fn damaged_sources_end_in_an_answer_or_an_error() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    write_sources(&folder);
    let sources = [
        ("points", "points.csv"),
        ("prometheus --by handler --cores 2", "range.json"),
        ("pg-stat-statements --seconds 6 --busy 4s --cores 2", "pss.csv"),
        ("spans", "spans.json"),
    ];
    let mut state = 1u64;
    for (source, name) in sources {
        let whole = fs::read(folder.join(name)).expect("it is there");
        for nth in 0..12 {
            let mut bytes = whole.clone();
            for _ in 0..=nth % 4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                match state >> 61 {
                    0..3 => bytes[at] = (state >> 20) as u8 & 0x7f,
                    3 => bytes.truncate(at + 1),
                    4 | 5 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0-9e\",{}"[(state >> 17) as usize % 8]),
                }
            }
            fs::write(folder.join("damaged"), &bytes).expect("the same");
            let ended = fit(&folder, &format!("--from {source} damaged --out d.toml"));
            assert!([0, 2, 6].contains(&ended.code), "{source} {nth}: {ended:?}");
            let written = folder.join("d.toml").exists();
            assert_eq!(written, ended.code == 0, "{source} {nth}: {ended:?}");
            fs::remove_file(folder.join("d.toml")).ok();
        }
    }
}
