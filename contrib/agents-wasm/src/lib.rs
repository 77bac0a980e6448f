//! A handler that keeps a smoothed price: `mean` moves a tenth of the way to each price.

use serde_json::{Value, json};

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn sekisho_agents_abi() -> i32 {
    1
}

/// The place of so many free bytes. An instance is asked once, so nothing is freed.
#[unsafe(no_mangle)]
pub extern "C" fn alloc(length: usize) -> *mut u8 {
    Vec::leak(vec![0; length]).as_mut_ptr()
}

/// The place and the length of the answer to a question.
#[unsafe(no_mangle)]
pub extern "C" fn handle(at: *const u8, length: usize) -> u64 {
    // SAFETY: the caller has written so many bytes to the place that `alloc` gave.
    let question = unsafe { std::slice::from_raw_parts(at, length) };
    let answer = Vec::leak(answers(question).to_string().into_bytes());
    ((answer.as_ptr() as u64) << 32) | answer.len() as u64
}

/// An answer for each agent.
fn answers(question: &[u8]) -> Value {
    let question: Value = serde_json::from_slice(question).expect("a question is JSON");
    let price = &question["message"]["fields"]["price"];
    let agents = question["agents"].as_array().expect("a question has agents");
    agents.iter().map(|agent| smoothed(price, &agent["state"]["mean"])).collect()
}

fn smoothed(price: &Value, mean: &Value) -> Value {
    match (price.as_f64(), mean.as_f64()) {
        (Some(price), _) if price < 0.0 => json!({ "error": "a price is 0 or above" }),
        (Some(price), None) => json!({ "set": { "mean": price } }),
        (Some(price), Some(mean)) => json!({ "set": { "mean": mean + (price - mean) / 10.0 } }),
        (None, _) => json!({ "error": "the message has no `price`" }),
    }
}
