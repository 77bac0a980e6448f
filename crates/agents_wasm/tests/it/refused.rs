//! Modules that are refused before they are asked anything, each with its cause and a way out.

use agents_wasm::{Limits, Module};

use super::{limits, module};

fn refused(bytes: &[u8]) -> String {
    Module::compile("m.wasm", bytes, limits()).unwrap_err().to_string()
}

#[test]
fn what_is_no_handler_is_refused_with_its_cause() {
    let good = module("(unreachable)");
    let import = good.replace("(module", "(module (import \"env\" \"now\" (func (result i64)))");
    let without = |export: &str| good.replace(&format!("(export \"{export}\")"), "");
    let table = [
        (
            "\0asm\u{1}".to_owned(),
            "a handler is a core module, such as one for wasm32-unknown-unknown",
        ),
        ("#!/bin/sh".to_owned(), "a handler is a core module"),
        (String::new(), "a handler is a core module"),
        (import, "it imports `env.now`; a handler has no imports"),
        (without("memory"), "it has no export `memory` of the type memory"),
        (without("alloc"), "it has no export `alloc` of the type (i32) -> i32"),
        (without("handle"), "it has no export `handle` of the type (i32, i32) -> i64"),
        (
            without("sekisho_agents_abi"),
            "it has no export `sekisho_agents_abi` of the type () -> i32",
        ),
        (
            good.replace("(result i32) (i32.const 1))", "(result i32) (i32.const 2))"),
            "it is for version 2 of the interface; known is 1",
        ),
        (
            good.replace("\"memory\") 2)", "\"memory\") 17)"),
            "whose memory begins with at most 1048576 bytes",
        ),
        (
            good.replace("(global", "(func $begin (unreachable)) (start $begin) (global"),
            "it fails before it is asked: it trapped",
        ),
        (
            good.replace("(global", "(func $begin (loop $on (br $on))) (start $begin) (global"),
            "it fails before it is asked: it took more than 1000000 instructions",
        ),
    ];
    for (text, cause) in table {
        let told = refused(text.as_bytes());
        assert!(told.starts_with("m.wasm: ") && told.contains(cause), "{cause}: {told}");
    }
}

#[test]
fn a_component_is_no_handler() {
    assert!(refused(b"(component)").contains("a handler is a core module"));
}

#[test]
fn a_memory_of_just_the_limit_is_taken() {
    let text = module("(unreachable)").replace("\"memory\") 2)", "\"memory\") 16)");
    Module::compile("m.wasm", text.as_bytes(), limits()).unwrap();
}

#[test]
fn a_module_is_known_by_its_bytes() {
    let text = module("(unreachable)");
    let of = |text: &str| Module::compile("m", text.as_bytes(), Limits::default()).unwrap();
    assert_eq!(of(&text).sha256(), Module::sha256_of(text.as_bytes()));
    assert_ne!(of(&text).sha256(), of(&format!("{text} ")).sha256());
    assert_eq!(
        Module::sha256_of(b""),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}
