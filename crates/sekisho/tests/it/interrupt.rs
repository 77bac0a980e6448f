//! Ctrl-C: what was measured by then is kept.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::browser::Scratch;
use crate::command::{PATIENCE, sekisho, start};
use crate::records;
use crate::site::{alone, server};

/// Measures for a minute with `rest`, and interrupts that when 100 requests were served.
fn interrupted(rest: &[&str]) -> (Scratch, crate::command::Ended) {
    interrupted_by(&[Signal::INT], rest)
}

/// The same by several signals, one right behind the other.
fn interrupted_by(signals: &[Signal], rest: &[&str]) -> (Scratch, crate::command::Ended) {
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
    let pid = i32::try_from(running.pid()).ok().and_then(Pid::from_raw).expect("a process");
    for &signal in signals {
        kill_process(pid, signal).expect("it runs");
    }
    let ended = running.ended(PATIENCE);
    origin.stop();
    (scratch, ended)
}

/// The story: `timeout` sends its signal to the program and to its group, and the second ended the program before it
/// had kept what was measured.
#[test]
fn interrupts_that_come_together_are_one() {
    let (scratch, ended) = interrupted_by(&[Signal::INT, Signal::TERM], &[]);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: closed load, 2 clients"), "{ended:?}");
    assert!(scratch.join(ended.after("recorded")).is_file(), "{ended:?}");
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

/// The folder of the PostgreSQL that a process, or one that it has started, has started.
fn data_of(pid: u32) -> Option<PathBuf> {
    let parent = |of: u32| -> Option<u32> {
        let text = std::fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
        text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let began_by = |mut of: u32| loop {
        match parent(of) {
            Some(above) if above == pid => return true,
            Some(above) if above > 1 => of = above,
            _ => return false,
        }
    };
    let processes = std::fs::read_dir("/proc").expect("it is Linux").flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find_map(|of: u32| {
        let words = std::fs::read(format!("/proc/{of}/cmdline")).ok()?;
        let words: Vec<&str> =
            words.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
        let at = words.iter().position(|word| *word == "-D")?;
        (words[0].ends_with("postgres") && began_by(of)).then(|| PathBuf::from(words[at + 1]))
    })
}

/// It said nothing for minutes, and what Ctrl-C left was a matter of luck.
#[test]
fn an_interrupted_reproduction_says_what_is_left_and_leaves_nothing() {
    let scratch = Scratch::new();
    for (json, setting) in [(false, "small setting"), (true, "full setting")] {
        let mut words = vec!["reproduce", "nakamura", "--live"];
        words.push(if json { "--json" } else { "--small" });
        let running = start(&scratch.join(""), &words);
        running.complains(setting);
        let deadline = Instant::now() + PATIENCE;
        let data = loop {
            if let Some(data) = data_of(running.pid()) {
                break data;
            }
            assert!(Instant::now() < deadline, "no server: {running:?}");
            thread::sleep(Duration::from_millis(50));
        };
        // Its files are there before anybody may be let in.
        assert!(data.exists(), "{data:?}");
        running.signal("INT");
        let ended = running.ended(PATIENCE);
        assert_eq!(ended.code, 130, "{ended:?}");
        let told = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("minutes on two quiet processors"), "{told}");
        assert!(told.contains("Ctrl-C ends it within seconds and leaves nothing"), "{told}");
        match json {
            true => {
                let objects = ended.objects();
                assert_eq!(objects[0]["verdict"], "interrupted");
                assert_eq!(objects[0]["exit_code"], 130);
                let left = objects[0]["left"].as_str().expect("it is said");
                assert!(left.starts_with("nothing"), "{left}");
            }
            false => {
                let flat = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(flat.starts_with("interrupted: while "), "{ended:?}");
                assert!(flat.contains("it leaves nothing: what was started is stopped"), "{flat}");
            }
        }
        assert!(!data.exists(), "{data:?} is left: {ended:?}");
        let left = std::fs::read_dir("/proc").expect("it is Linux").flatten().any(|entry| {
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let name = data.to_str().expect("it is text").as_bytes();
            words.windows(name.len()).any(|part| part == name)
        });
        assert!(!left, "a server runs on: {ended:?}");
        let files = std::fs::read_dir(scratch.join("")).expect("it is there").count();
        assert_eq!(files, 0, "{ended:?}");
    }
}
