//! Ctrl-C: what was measured by then is kept.

use std::thread;
use std::time::{Duration, Instant};

use crate::browser::Scratch;
use crate::command::{PATIENCE, sekisho, start};
use crate::records;
use crate::site::{alone, server};

/// Measures for a minute with `rest`, and interrupts that when 100 requests were served.
fn interrupted(rest: &[&str]) -> (Scratch, crate::command::Ended) {
    let _live = alone();
    let origin = server();
    let scratch = Scratch::new();
    let url = format!("http://{}/1k", origin.address());
    let mut words = vec!["measure", "http", url.as_str(), "--clients", "2,3", "--warmup", "0s"];
    words.extend(["--duration", "60s"]);
    words.extend(rest);
    let running = start(&scratch.join(""), &words);
    let deadline = Instant::now() + PATIENCE;
    while origin.usage().served < 100 {
        assert!(Instant::now() < deadline, "nothing is served: {running:?}");
        thread::sleep(Duration::from_millis(10));
    }
    running.signal("INT");
    let ended = running.ended(Duration::from_secs(20));
    origin.stop();
    (scratch, ended)
}

#[test]
fn an_interrupted_run_is_kept_and_the_next_is_not_begun() {
    let (scratch, ended) = interrupted(&[]);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: closed load, 2 clients"), "{ended:?}");
    let runs = std::fs::read_dir(scratch.join(".sekisho/runs")).expect("it was made").count();
    assert_eq!(runs, 1, "{ended:?}");
    let path = ended.after("recorded").to_owned();
    let record = records::read(&scratch.join(&path));
    let summary = record.summary.as_ref().expect("an interrupted run has its summary");
    assert!(summary.interrupted && summary.elapsed_s < 60.0, "{summary:?}");
    let completed: u64 =
        record.intervals.iter().flat_map(|i| &i.classes).map(|class| class.completed).sum();
    assert!(completed >= 90, "{completed}");
    // The other verbs read it.
    let words = ["check", path.as_str(), "--expect", "errors<50%"];
    let checked = sekisho(&scratch.join(""), &words);
    assert!([0, 4, 5].contains(&checked.code), "{checked:?}");
}

#[test]
fn an_interrupted_run_says_so_in_json_too() {
    let (_scratch, ended) = interrupted(&["--json"]);
    assert_eq!(ended.code, 130, "{ended:?}");
    let objects = ended.objects();
    assert_eq!(objects.len(), 1, "{objects:?}");
    assert_eq!(objects[0]["verdict"], "interrupted");
    assert_eq!(objects[0]["exit_code"], 130);
}
