//! Modules as handlers: what they answer, and what is refused.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::time::Duration;

use agents_wasm::{Asked, Fields, Limits, Message, Module};

mod example;
mod refused;

/// A module that answers for each agent of a batch with `{"set":{"n":1}}`, unless its question has the letter `!`:
/// then it does what `wrong` says, which begins with nothing on the stack. It counts agents by the colons behind
/// `"state"`, and answers from 32,768 on.
pub(crate) fn module(wrong: &str) -> String {
    include_str!("one.wat").replace("(WRONG)", wrong)
}

pub(crate) fn limits() -> Limits {
    Limits { memory: 1 << 20, fuel: 1_000_000, ..Limits::default() }
}

pub(crate) fn asked(name: &str) -> Asked {
    Asked { agent: name.to_owned(), state: Fields::new() }
}

/// The answers for agents of these names.
fn ask(module: &Module, names: &[&str]) -> Vec<Result<Fields, String>> {
    let agents: Vec<Asked> = names.iter().map(|name| asked(name)).collect();
    module.handle(Message { name: "tick", fields: &Fields::new() }, &agents)
}

fn compiled(text: &str, limits: Limits) -> Module {
    Module::compile("m.wasm", text.as_bytes(), limits).unwrap()
}

fn one() -> Fields {
    serde_json::from_str(r#"{"n": 1}"#).unwrap()
}

#[test]
fn a_batch_is_answered_agent_by_agent() {
    let module = compiled(&module("(unreachable)"), limits());
    let names: Vec<String> = (0..700).map(|n| format!("a{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let answers = ask(&module, &names);
    assert_eq!(answers.len(), 700);
    assert!(answers.iter().all(|it| *it == Ok(one())), "{answers:?}");
    assert_eq!(ask(&module, &[]), []);
}

/// A batch of many is one call: with fuel for it, but not for a call for each agent from the beginning.
#[test]
fn a_batch_is_one_call() {
    // The second call in an instance would trap; so would an instance that was used before.
    let once = "(if (global.get $calls) (then (unreachable))) (global.set $calls (i32.const 1))";
    let text = module("(unreachable)").replace(
        "(local.set $to (i32.const 32769))\n    (i32.store8",
        &format!("(local.set $to (i32.const 32769)) {once}\n    (i32.store8"),
    );
    assert!(text.contains("$calls (i32.const 1)"), "{text}");
    let module = compiled(&text, limits());
    for _ in 0..100 {
        assert_eq!(ask(&module, &["a", "b", "c"]), [Ok(one()), Ok(one()), Ok(one())]);
    }
}

/// One agent of a batch fails in each way there is; the others are answered.
#[test]
fn an_agent_that_fails_is_found_by_halving() {
    let far = "(return (i64.const -1))";
    let table = [
        ("(unreachable)", "it trapped: wasm trap: wasm `unreachable` instruction executed"),
        ("(loop $on (br $on))", "it took more than 1000000 instructions"),
        ("(drop (memory.grow (i32.const 100)))", "it wants more memory than 1048576 bytes"),
        (far, "its answer is at a place beyond its memory"),
        ("(return (i64.const 0x1000000010))", "its answer is no list in JSON"),
        // It spoils the answers of those behind it, too, if they are in its batch.
        ("(i64.store (i32.const 16) (i64.const 0x7b3a227172227b20))", "unknown field `rq`"),
        ("(i64.store (i32.const 16) (i64.const 0))", "its answer is no list in JSON"),
        ("(drop (i32.load (i32.const -4)))", "it trapped: wasm trap: out of bounds memory access"),
        (
            "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
            "it trapped: wasm trap: integer divide by zero",
        ),
    ];
    for (wrong, cause) in table {
        let module = compiled(&module(wrong), limits());
        let answers = ask(&module, &["a", "b", "c!", "d", "e"]);
        let failed = answers[2].as_ref().expect_err(wrong);
        assert!(failed.starts_with("m.wasm: "), "{wrong}: {failed}");
        assert!(failed.contains(cause), "{wrong}: {failed}");
        for at in [0, 1, 3, 4] {
            assert_eq!(answers[at], Ok(one()), "{wrong}: {at}");
        }
    }
}

/// The limit of an agent alone is the same, whatever batch it came in.
#[test]
fn fuel_fails_an_agent_for_its_own_instructions_alone() {
    let module = compiled(&module("(unreachable)"), Limits { fuel: 5_000, ..limits() });
    let names = ["a"; 200];
    assert!(ask(&module, &names).iter().all(|it| *it == Ok(one())));
    let long = "x".repeat(2_000);
    let failed = ask(&module, &["a", &long, "b"]);
    assert_eq!((&failed[0], &failed[2]), (&Ok(one()), &Ok(one())));
    assert_eq!(failed[1], Err("m.wasm: it took more than 5000 instructions".to_owned()));
}

/// Copies of much memory take little fuel and much time.
#[test]
fn an_epoch_ends_what_fuel_does_not() {
    let copies =
        "(loop $on (memory.fill (i32.const 65536) (i32.const 0) (i32.const 65536)) (br $on))";
    let time = Duration::from_millis(300);
    let module = compiled(&module(copies), Limits { fuel: u64::MAX, time, ..limits() });
    let failed = ask(&module, &["!"]);
    assert_eq!(failed, [Err("m.wasm: it took more than 300ms".to_owned())]);
    assert_eq!(ask(&module, &["a"]), [Ok(one())]);
}

/// An agent's own error, and an answer of another shape.
#[test]
fn an_answer_can_be_an_error() {
    let table = [
        (r#"{\22error\22:\22no\22}"#, "m.wasm: no"),
        (r#"{\22sat\22:{\22n\22:1}}"#, "unknown field `sat`, expected `set` or `error`"),
        (r#"[1]            "#, "its answer is none of"),
    ];
    for (answer, cause) in table {
        let bytes = answer.replace("\\22", "\"").len();
        let text = module("(unreachable)")
            .replace(r#"{\22set\22:{\22n\22:1}}"#, answer)
            .replace("(i32.const 15)", &format!("(i32.const {bytes})"));
        let failed = ask(&compiled(&text, limits()), &["a"]).remove(0).unwrap_err();
        assert!(failed.contains(cause), "{failed}");
    }
}

/// More callers than there are instances wait for one, and fail for no reason of their own.
#[test]
fn many_callers_wait_for_an_instance() {
    let module = compiled(&module("(unreachable)"), limits());
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(ask(&module, &["a", "b"]), [Ok(one()), Ok(one())]);
                }
            });
        }
    });
}
