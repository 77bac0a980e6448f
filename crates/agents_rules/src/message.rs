//! Messages as they are sent and kept. What is kept names fields and no places in a file, so that it can
//! be read after the file has changed.

use std::sync::Arc;
use std::time::Duration;

use agents_store::Content;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::rules::{MessageRules, Rules, Source};
use crate::value::Value;

/// A message to agents that follow rules.
#[derive(Clone, Debug)]
pub struct Message {
    /// The rules by which it is handled: those of today, whatever they were when it was sent.
    pub(crate) rules: Option<Arc<Rules>>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Its owner declares the agent of this name, or changes fields of its state.
    Declare { name: Arc<str>, fields: Arc<[(String, Value)]> },
    /// One of the messages of the file.
    Event(Event),
    /// Its owner wants silence.
    Snooze(Duration),
    /// Its owner ends it.
    End,
    /// The file has changed: bounds are published anew. `None` for one that does not say by which texts.
    Changed(Option<Change>),
    /// It was kept, and is none by the rules of today.
    Unknown { text: Arc<str>, cause: Arc<str> },
}

/// A change of the rules, to those of its message.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The rules before, if they are known.
    pub(crate) from: Option<Arc<Rules>>,
}

/// A message of the file.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Its number in the file.
    pub(crate) index: usize,
    pub(crate) fields: Arc<[Value]>,
}

impl Event {
    /// True if an agent with these values has what the message and the state share.
    pub(crate) fn is_for(&self, message: &MessageRules, values: &[Option<Value>]) -> bool {
        let mut shared = message.shared.iter();
        shared.all(|&(at, field)| values[at].as_ref() == Some(&self.fields[field]))
    }

    /// Its fields by name.
    pub(crate) fn named(&self, message: &MessageRules) -> Map<String, serde_json::Value> {
        let names = message.fields.iter().map(|(name, _)| name.clone());
        names.zip(self.fields.iter().map(json)).collect()
    }
}

/// The cause why there is no such message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The file has no message of this name.
    #[error("unknown message `{name}`; {way_out}")]
    Name {
        /// The name.
        name: String,
        /// The nearest one, or all.
        way_out: String,
    },
    /// A field is not one of the file.
    #[error("unknown field `{name}`; {way_out}")]
    Field {
        /// The field.
        name: String,
        /// The nearest one, or all.
        way_out: String,
    },
    /// A field is missing.
    #[error("the field `{0}` is missing")]
    Missing(String),
    /// A field has a value of another kind.
    #[error("the field `{name}` is {wanted}, and {found} stands there")]
    Kind {
        /// The field.
        name: String,
        /// The kind of the file.
        wanted: String,
        /// The value, cut.
        found: String,
    },
    /// The content is no table of fields.
    #[error("the fields are an object, such as {{\"price\": 10}}; {0} stands there")]
    Shape(String),
    /// No agent has such a name.
    #[error(
        "`{0}` is no key of an agent: a key is a text of 1 to 200 bytes, or, with `key = \"number\"`, a whole number"
    )]
    Key(String),
}

/// A message as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kept {
    Declare { agent: String, state: Map<String, serde_json::Value> },
    Event { name: String, fields: Map<String, serde_json::Value> },
    SnoozeNs(u64),
    End,
    Changed,
    Rules { from: Option<Source>, to: Source },
}

/// The beginning of a change as it is kept: to be one, nothing of it need be read.
const CHANGE: &str = "{\"rules\":";

/// The first byte of what is kept.
const VERSION: u8 = 1;

impl Message {
    /// The message by other rules than those that it was read by, or by the first. A change of the rules
    /// keeps its own.
    pub fn by(&mut self, rules: &Arc<Rules>) {
        if matches!(self.body, Body::Changed(Some(_))) {
            return;
        }
        if self.rules.as_ref().is_some_and(|own| Arc::ptr_eq(own, rules)) {
            return;
        }
        let is_placed = matches!(self.body, Body::Event(_) | Body::Declare { .. });
        if let Body::Unknown { text, .. } = &self.body {
            *self = by_rules(rules, text);
        } else if is_placed && self.rules.is_some() {
            *self = by_rules(rules, &self.text().into());
        } else {
            self.rules = Some(rules.clone());
        }
    }

    /// The cause why it is none by its rules; `None` if it is one.
    pub fn unknown(&self) -> Option<&str> {
        match &self.body {
            Body::Unknown { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// True if it says that from its position on other rules hold.
    pub fn is_change(&self) -> bool {
        matches!(self.body, Body::Changed(Some(_)))
    }

    /// The same, also if it comes from a store and was not read by rules yet.
    pub fn is_kept_change(&self) -> bool {
        let is_unread = self.rules.is_none();
        let is_kept = |text: &str| is_unread && text.starts_with(CHANGE);
        self.is_change() || matches!(&self.body, Body::Unknown { text, .. } if is_kept(text))
    }

    /// The rules before and after a change; `None` for another message.
    pub(crate) fn change(&self) -> Option<(Option<&Arc<Rules>>, &Arc<Rules>)> {
        match (&self.body, &self.rules) {
            (Body::Changed(Some(change)), Some(to)) => Some((change.from.as_ref(), to)),
            _ => None,
        }
    }

    /// True for a message of the file.
    pub fn is_event(&self) -> bool {
        matches!(self.body, Body::Event(_))
    }

    /// It in words, at most so many characters.
    pub fn told(&self, most: usize) -> String {
        if let Body::Changed(_) = self.body {
            return "the rules were changed".to_owned();
        }
        let text = self.text();
        match text.char_indices().nth(most) {
            Some((at, _)) => format!("{}...", &text[..at]),
            None => text,
        }
    }

    fn text(&self) -> String {
        let kept = match &self.body {
            Body::Declare { name, fields } => {
                let state = fields.iter().map(|(name, value)| (name.clone(), json(value)));
                Kept::Declare { agent: name.to_string(), state: state.collect() }
            }
            Body::Event(event) => {
                let rules = self.rules.as_ref().expect("an event is one by rules");
                let message = &rules.messages[event.index];
                Kept::Event { name: message.name.clone(), fields: event.named(message) }
            }
            Body::Snooze(span) => {
                Kept::SnoozeNs(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
            }
            Body::End => Kept::End,
            Body::Changed(None) => Kept::Changed,
            Body::Changed(Some(change)) => {
                let source = |rules: &Arc<Rules>| (*rules.source).clone();
                let to = self.rules.as_ref().expect("a change is one to rules");
                Kept::Rules { from: change.from.as_ref().map(source), to: source(to) }
            }
            Body::Unknown { text, .. } => return text.to_string(),
        };
        let is_change = matches!(kept, Kept::Rules { .. });
        let text = serde_json::to_string(&kept).expect("keys are texts, and numbers are finite");
        assert_eq!(text.starts_with(CHANGE), is_change, "a change is known by its beginning");
        text
    }

    /// Size in memory, by estimate \[bytes\].
    pub(crate) fn size(&self) -> u64 {
        let value = |value: &Value| match value {
            Value::Text(text) => 40 + text.len(),
            Value::Number(_) | Value::Bool(_) => 24,
        };
        let content = match &self.body {
            Body::Declare { name, fields } => {
                let of = |(name, it): &(String, Value)| 24 + name.len() + value(it);
                name.len() + fields.iter().map(of).sum::<usize>()
            }
            Body::Event(event) => event.fields.iter().map(value).sum(),
            Body::Unknown { text, cause } => text.len() + cause.len(),
            Body::Changed(Some(change)) => {
                let all = change.from.iter().chain(&self.rules);
                all.map(|rules| rules.text_bytes()).sum()
            }
            Body::Snooze(_) | Body::End | Body::Changed(None) => 0,
        };
        (size_of::<Message>() + content) as u64
    }
}

pub(crate) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Number(it) => (*it).into(),
        Value::Text(it) => (**it).into(),
        Value::Bool(it) => (*it).into(),
    }
}

/// What is kept, by these rules.
fn by_rules(rules: &Arc<Rules>, text: &Arc<str>) -> Message {
    let by = |body| Message { rules: Some(rules.clone()), body };
    let unknown = |cause: String| by(Body::Unknown { text: text.clone(), cause: cause.into() });
    let kept: Kept = match serde_json::from_str(text) {
        Ok(kept) => kept,
        Err(error) => return unknown(error.to_string()),
    };
    let read = match kept {
        Kept::Declare { agent, state } => rules.declaration(&agent, &state.into()),
        Kept::Event { name, fields } => rules.event(&name, &fields.into()),
        Kept::SnoozeNs(span) => return by(Body::Snooze(Duration::from_nanos(span))),
        Kept::End => return by(Body::End),
        Kept::Changed => return by(Body::Changed(None)),
        Kept::Rules { from, to } => {
            // A text that was right once may be none for another version of this program: then it divides nothing.
            let Some(to) = of_source(rules, &to) else { return by(Body::Changed(None)) };
            let from = from.and_then(|from| of_source(rules, &from));
            let body = Body::Changed(Some(Change { from }));
            return Message { rules: Some(to), body };
        }
    };
    read.unwrap_or_else(|error| unknown(error.to_string()))
}

/// The rules of a text: these, if it is theirs.
fn of_source(rules: &Arc<Rules>, source: &Source) -> Option<Arc<Rules>> {
    if *rules.source == *source {
        return Some(rules.clone());
    }
    rules.read_again("rules", &source.text, source.way).ok()
}

impl Content for Message {
    fn encode(&self, to: &mut Vec<u8>) {
        to.push(VERSION);
        to.extend(self.text().into_bytes());
    }

    /// The message without rules: [`Message::by`] gives them.
    fn decode(bytes: &[u8]) -> Result<Message, String> {
        let Some((&VERSION, text)) = bytes.split_first() else {
            return Err(match bytes.first() {
                Some(other) => format!("a message of version {other}; known is {VERSION}"),
                None => "a message of no bytes".to_owned(),
            });
        };
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let cause = "it was not read by rules yet".into();
        Ok(Message { rules: None, body: Body::Unknown { text: text.into(), cause } })
    }
}
