//! A file of agents that names a WebAssembly module, in a build without the feature `wasm`.

#![cfg(not(feature = "wasm"))]

use std::fs;
use std::path::Path;

use crate::browser::Scratch;
use crate::command::sekisho;

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

fn refused(folder: &Path, told: &str) {
    for words in [&["agents", "explain", "rules.toml"][..], &["agents", "serve", "rules.toml"]] {
        let ended = sekisho(folder, words);
        let is_told = ended.err.starts_with("refused: rules.toml:5:8: ")
            || ended.err.contains("rules.toml:5:8: ");
        assert!(ended.code == 2 && is_told, "{words:?}: {ended:?}");
        assert!(crate::agents_asked::flat(&ended.err).contains(told), "{words:?}: {ended:?}");
    }
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(left.iter().all(|it| it != "agents.store"), "what was refused has made nothing");
}

#[test]
fn without_webassembly_a_file_that_names_a_module_is_refused() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    refused(&folder, "build it with `cargo build --release -p sekisho --features wasm`");
}
