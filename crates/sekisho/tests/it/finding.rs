//! `sekisho tpcc find`: searches whose probes are too short to tell, that are interrupted, and that
//! lack warehouses.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, sekisho, start};
use crate::tpcc::database;

/// Record of the search.
fn kept(folder: &Path, ended: &Ended) -> Value {
    let text = std::fs::read_to_string(folder.join(ended.after("record"))).expect("it is kept");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Number of runs that have begun.
fn results(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder.join(".sekisho/runs")).expect("it is there");
    let name = |file: std::io::Result<std::fs::DirEntry>| file.ok().map(|file| file.file_name());
    files.filter_map(name).filter(|n| n.to_string_lossy().ends_with("deliveries.jsonl")).count()
}

#[test]
fn a_search_keeps_its_trials_whatever_they_say() {
    let (scratch, url) = (Scratch::new(), database("search"));
    let folder = scratch.join("");
    let load = sekisho(&folder, &["tpcc", "load", "--db", &url, "--warehouses", "2"]);
    assert_eq!(load.code, 0, "{load:?}");
    let find = ["tpcc", "find", "--db", &url, "--ramp", "0s", "--max-warehouses"];

    // In seconds nothing can be told: each size is tried three times, each time for longer.
    let ended = sekisho(&folder, &[&find[..], &["2", "--probe", "1s", "--confirm", "1s"]].concat());
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.out.starts_with("inconclusive: of one warehouse"), "{ended:?}");
    assert!(ended.err.starts_with("note: probes of 1 s are too short to tell"), "{ended:?}");
    let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("Verified: all") && flat.contains("not an audited"), "{ended:?}");
    let search = kept(&folder, &ended);
    let tried: Vec<(u64, f64)> = search["trials"]
        .as_array()
        .expect("they are a list")
        .iter()
        .map(|trial| {
            let record = folder.join(trial["record"].as_str().expect("a path"));
            assert!(record.exists(), "{trial}");
            assert!(trial["reading"]["too-few"].is_array(), "{trial}");
            let seconds = trial["measured_s"].as_f64().expect("a number");
            (trial["warehouses"].as_u64().expect("a number"), seconds.round())
        })
        .collect();
    assert_eq!(tried, [(2, 1.0), (2, 2.0), (2, 4.0), (1, 1.0), (1, 2.0), (1, 4.0)]);
    // The page had the verdict of the worst trial, and spoke of none of them.
    let html = std::fs::read_to_string(folder.join(ended.after("report"))).expect("it is written");
    let told = "of one warehouse, the least there is, it could not be told";
    assert!(html.contains("class=\"verdict inconclusive\"") && html.contains(told), "{ended:?}");
    assert!(!html.contains("none of 6 runs") && html.contains("checks of the database hold"));

    let least = ["1", "--probe", "1s", "--confirm", "1s", "--json"];
    let told = sekisho(&folder, &[&find[..], &least].concat());
    assert_eq!(told.code, 4, "{told:?}");
    assert_eq!(told.object("tpcc-find")["verdict"], "inconclusive", "{told:?}");
    let began = results(&folder);

    let running = start(&folder, &[&find[..], &["2", "--probe", "1h"]].concat());
    let deadline = Instant::now() + PATIENCE;
    while results(&folder) == began {
        assert!(Instant::now() < deadline, "no probe begins");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(500));
    running.signal("INT");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: in trial 1; so far none held"), "{ended:?}");
    let search = kept(&folder, &ended);
    assert_eq!(search["answer"], "interrupted");
    assert_eq!(search["trials"][0]["reading"], "interrupted");

    let ended = sekisho(&folder, &[&find[..], &["3", "--json"]].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
    let says = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains("the run wants 3 warehouses, and 2 are loaded"), "{says}");
    assert!(says.contains("sekisho tpcc load --warehouses 3 --replace"), "{says}");
    let ended = sekisho(&folder, &[&find[..], &["2", "--probe", "0s"]].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
}
