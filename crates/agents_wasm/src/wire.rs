//! The question to a module and its answer, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the interface.
pub const ABI: i32 = 1;

/// Fields by name: numbers, texts, true and false.
pub type Fields = Map<String, Value>;

/// A message to agents.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Message<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its fields.
    pub fields: &'a Fields,
}

/// An agent that gets a message.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// Its name.
    pub agent: String,
    /// The fields of its state that have a value.
    pub state: Fields,
}

#[derive(Serialize)]
struct Question<'a> {
    message: Message<'a>,
    agents: &'a [Asked],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    set: Fields,
    error: Option<String>,
}

pub(crate) fn question(message: Message<'_>, agents: &[Asked]) -> Vec<u8> {
    serde_json::to_vec(&Question { message, agents }).expect("keys are texts")
}

/// The answers for so many agents.
pub(crate) fn answers(bytes: &[u8], count: usize) -> Result<Vec<Result<Fields, String>>, String> {
    let all: Vec<Value> = serde_json::from_slice(bytes)
        .map_err(|error| format!("its answer is no list in JSON: {error}"))?;
    if all.len() != count {
        return Err(format!("it answers for {} agents of {count}", all.len()));
    }
    Ok(all.into_iter().map(answer).collect())
}

fn answer(value: Value) -> Result<Fields, String> {
    match serde_json::from_value(value) {
        Ok(Answer { set, error: None }) => Ok(set),
        Ok(Answer { error: Some(cause), .. }) => Err(cause),
        Err(error) => Err(format!(
            "its answer is none of {{\"set\": {{...}}}}, {{\"error\": \"...\"}}: {error}"
        )),
    }
}
