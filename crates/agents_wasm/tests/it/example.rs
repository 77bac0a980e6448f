//! The handler of docs/agents-wasm.md, built as the page says.

use std::path::{Path, PathBuf};
use std::process::Command;

use agents_wasm::{Asked, Limits, Message, Module};
use serde_json::{Value, json};

fn fields(value: Value) -> agents_wasm::Fields {
    value.as_object().unwrap().clone()
}

/// The module, built for wasm32.
fn built() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/agents-wasm");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("agents-wasm");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--target", "wasm32-unknown-unknown"])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::read(target.join("wasm32-unknown-unknown/release/smoothed.wasm")).unwrap()
}

#[test]
fn the_example_smooths_prices() {
    let module = Module::compile("smoothed.wasm", &built(), Limits::default()).unwrap();
    let states = [json!({}), json!({ "mean": 100.0 }), json!({ "mean": 0.1 })];
    let agents: Vec<Asked> = (states.into_iter().zip(["a", "b", "c"]))
        .map(|(state, name)| Asked { agent: name.to_owned(), state: fields(state) })
        .collect();
    let tick = fields(json!({ "price": 110 }));
    let answers = module.handle(Message { name: "tick", fields: &tick }, &agents);
    let means: Vec<f64> =
        answers.into_iter().map(|it| it.unwrap()["mean"].as_f64().unwrap()).collect();
    assert_eq!(means, [110.0, 101.0, 0.1 + (110.0 - 0.1) / 10.0]);
    let tick = fields(json!({ "price": -1 }));
    let answers = module.handle(Message { name: "tick", fields: &tick }, &agents[..1]);
    assert_eq!(answers, [Err("smoothed.wasm: a price is 0 or above".to_owned())]);
}

/// As many agents as a million ticks of a small machine need: a batch does not run into the limits of one agent.
#[test]
fn a_thousand_agents_are_within_the_usual_limits() {
    let module = Module::compile("smoothed.wasm", &built(), Limits::default()).unwrap();
    let agents: Vec<Asked> = (0..1_000)
        .map(|n| Asked { agent: format!("agent-{n}"), state: fields(json!({ "mean": n })) })
        .collect();
    let tick = fields(json!({ "price": 0 }));
    let answers = module.handle(Message { name: "tick", fields: &tick }, &agents);
    assert!(answers.iter().enumerate().all(|(n, it)| {
        it.as_ref().is_ok_and(|it| it["mean"].as_f64().unwrap() == n as f64 - n as f64 / 10.0)
    }));
}
