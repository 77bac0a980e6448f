//! Agents whose messages are handled by a WebAssembly module: with the feature `wasm`, in the long suite. Without
//! it such a file is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::fs;
use std::path::Path;

use crate::browser::Scratch;
use crate::command::{Ended, sekisho};

const RULES: &str = r#"[agent]
state = { n = 0 }

[modules.one]
file = "one.wat"

[messages.tick]
fields = { note = "text" }
module = "one"

[rules.some]
on = "tick"
when = "n > 0"
notify = ["alerts"]

[destinations.alerts]
log = "alerts.jsonl"
"#;

fn refused(folder: &Path, told: &str) -> Ended {
    for words in [&["agents", "explain", "rules.toml"][..], &["agents", "serve", "rules.toml"]] {
        let ended = sekisho(folder, words);
        let is_told = ended.err.starts_with("refused: rules.toml:5:8: ")
            || ended.err.contains("rules.toml:5:8: ");
        assert!(ended.code == 2 && is_told, "{words:?}: {ended:?}");
        assert!(crate::agents_asked::flat(&ended.err).contains(told), "{words:?}: {ended:?}");
    }
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(left.iter().all(|it| it != "agents.store"), "what was refused has made nothing");
    sekisho(folder, &["agents", "explain", "rules.toml"])
}

#[cfg(not(feature = "wasm"))]
#[test]
fn without_webassembly_a_file_that_names_a_module_is_refused() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    refused(&folder, "build it with `cargo build --release -p sekisho --features wasm`");
}

#[cfg(feature = "wasm")]
mod with_webassembly {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::agents_asked::{Served, flat};

    /// The module: an agent with `!` in its name takes all of its instructions.
    const MODULE: &str = include_str!("../../../agents_wasm/tests/it/one.wat");

    /// The file of rules for the module as it lies in the folder, which tells its SHA-256 itself.
    fn with_module(folder: &Path) -> String {
        fs::write(folder.join("rules.toml"), RULES).unwrap();
        let loops = MODULE.replace("(WRONG)", "(loop $on (br $on))");
        fs::write(folder.join("one.wat"), loops).unwrap();
        let told = flat(&refused(folder, "a module is known by its bytes: add `sha256 = \"").err);
        let (_, rest) = told.split_once("sha256 = \"").unwrap();
        let (hash, _) = rest.split_once('"').unwrap();
        let keys = format!("one.wat\"\nsha256 = \"{hash}\"\ninstructions = 100000");
        RULES.replace("one.wat\"", &keys)
    }

    #[test]
    fn a_module_handles_messages_and_what_fails_is_a_dead_letter_that_names_it() {
        let scratch = Scratch::new();
        let folder = scratch.join("");
        let rules = with_module(&folder);
        fs::write(folder.join("rules.toml"), &rules).unwrap();
        let explained = sekisho(&folder, &["agents", "explain", "rules.toml"]);
        assert_eq!(explained.code, 0, "{explained:?}");
        let served = Served::start(&folder);
        for name in ["alice", "bob", "loop!"] {
            served.object(&folder, &["put", name], "agents-accepted");
        }
        served.object(&folder, &["send", "tick", "note=x"], "agents-accepted");
        for name in ["alice", "bob"] {
            let told = served.until(&folder, &["get", name], "agents-state", |it| it["fired"] == 1);
            assert_eq!(told["state"]["n"], 1.0, "{told}");
        }
        let is_dead = |told: &Value| told["messages"].as_array().is_some_and(|it| !it.is_empty());
        let dead = served.until(&folder, &["dead", "list"], "agents-dead", is_dead);
        assert_eq!(dead["messages"].as_array().unwrap().len(), 1, "{dead}");
        let told = dead["messages"][0].to_string();
        let cause = "the module `one`: one.wat: it took more than 100000 instructions";
        assert!(told.contains(cause) && told.contains("tick"), "{dead}");
        // The same messages lead to the same states.
        let why = served.object(&folder, &["why", "bob"], "agents-why");
        let last = why["recomputed"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["rules"]["some"], "fired", "{why}");
        assert_eq!(last["changed"], json!({ "n": 1.0 }), "{why}");
        let tried = served.object(&folder, &["try", "rules.toml"], "agents-try");
        assert_eq!(tried["fired"]["some"], 2, "{tried}");
        served.stop();
        // After the next start the module's answers are there.
        let served = Served::start(&folder);
        let told = served.until(&folder, &["get", "alice"], "agents-state", |it| it["fired"] == 1);
        assert_eq!(told["state"]["n"], 1.0, "{told}");
        served.stop();
    }

    /// Rules are for the bytes of a module: others are refused at the start, and change nothing while a server runs.
    #[test]
    fn another_module_under_the_same_name_is_refused() {
        let scratch = Scratch::new();
        let folder = scratch.join("");
        let rules = with_module(&folder);
        fs::write(folder.join("rules.toml"), &rules).unwrap();
        let served = Served::start(&folder);
        served.object(&folder, &["put", "alice"], "agents-accepted");
        let other = fs::read_to_string(folder.join("one.wat")).unwrap() + ";; another";
        fs::write(folder.join("one.wat"), other).unwrap();
        // It runs as it did: what a server runs is not read again.
        served.object(&folder, &["reload"], "agents-reload");
        served.object(&folder, &["send", "tick", "note=x"], "agents-accepted");
        served.until(&folder, &["get", "alice"], "agents-state", |it| it["fired"] == 1);
        fs::write(folder.join("rules.toml"), rules.replace("100000", "100001")).unwrap();
        let told = flat(&served.ask(&folder, &["reload"]).err);
        assert!(
            told.contains("one.wat is another module than the one that the rules are for"),
            "{told}"
        );
        served.stop();
        let ended = sekisho(&folder, &["agents", "serve", "rules.toml"]);
        assert!(ended.code == 2 && ended.err.contains("is another module"), "{ended:?}");
    }
}
