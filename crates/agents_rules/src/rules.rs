//! Rules as they are followed: a file that was read, with places instead of names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agents::alert::{AtCreation, On, Quiet, Rearm};
use agents::{Audience, Key};
use gate::Time;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::expression::{self, Expression};
use crate::message::{Body, Change, Event, Message, MessageError, json};
use crate::program::{Modules, NamedProgram};
use crate::threshold::Threshold;
use crate::timer::{Due, TimerChange, TimerSet, TimerSummary};
use crate::value::{Kind, Value, place, stable_hash};

/// The rules of a file: one kind of agents, its messages, its rules and where notifications go.
pub struct Rules {
    pub(crate) key: KeyKind,
    pub(crate) state: Vec<StateField>,
    pub(crate) messages: Vec<MessageRules>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) fingerprint: u64,
    /// All agents are asked because somebody said so.
    pub(crate) asks_all: bool,
    /// The text that they were read from.
    pub(crate) source: Arc<Source>,
    /// The modules that a text may name.
    pub(crate) modules: Arc<dyn Modules>,
}

/// The text of a file, and the way that was asked for: rules can be read from it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) way: Option<Way>,
}

/// A rule before and after a change of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChange {
    /// Its name.
    pub name: String,
    /// Its number, as [notifications](agents::NotificationKey) have it.
    pub id: u32,
    /// A number of its condition and of its life before; `None` if the file did not have it.
    pub before: Option<u64>,
    /// The same afterwards; `None` if the file has it no more. With another number than before it begins anew.
    pub after: Option<u64>,
}

/// A field of the state before and after a change of the file that gives it another kind, or has it alone.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Its name.
    pub name: String,
    /// Its kind before; `None` if the file did not have it.
    pub before: Option<Kind>,
    /// The same afterwards; `None` if the file has it no more. Values of another kind are lost.
    pub after: Option<Kind>,
    /// The value that it begins with afterwards.
    pub start: Option<serde_json::Value>,
}

/// Other rules take keys of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`agent.key` cannot change: no agent would be found again; begin anew in another folder or schema"
)]
pub struct KeyKindChanged;

/// The kind of the keys of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Texts, of which a stable hash is the key.
    Text,
    /// Whole numbers, which have an order: agents can be named by a range.
    Number,
}

pub(crate) struct StateField {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) start: Option<Value>,
}

/// A message of the file.
pub(crate) struct MessageRules {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, Kind)>,
    /// Fields that state and message share: it is for agents with equal ones.
    pub(crate) shared: Vec<(usize, usize)>,
    /// Fields of the state that it sets, in order.
    pub(crate) set: Vec<(usize, Expression)>,
    /// The program that says which fields of the state it sets.
    pub(crate) program: Option<Arc<NamedProgram>>,
    /// Timers that it sets, and those that it cancels before.
    pub(crate) timers: Vec<TimerSet>,
    pub(crate) cancel: Vec<Arc<str>>,
    /// The timer whose firing it is: nobody sends it.
    pub(crate) timer: Option<Arc<str>>,
    /// Its rules.
    pub(crate) rules: Vec<usize>,
    /// The field that all its rules compare with thresholds, if a threshold is all that it is for.
    pub(crate) compared: Option<usize>,
}

pub(crate) struct Rule {
    pub(crate) name: String,
    /// A stable number of its name.
    pub(crate) id: u32,
    /// A number of all that an agent's limits depend on.
    pub(crate) fingerprint: u64,
    pub(crate) message: usize,
    pub(crate) when: Expression,
    pub(crate) threshold: Option<Threshold>,
    pub(crate) on: On,
    pub(crate) rearm: Rearm,
    /// The band in numbers of the message.
    pub(crate) band: f64,
    pub(crate) cooldown: Option<Duration>,
    pub(crate) per_day_max: Option<u32>,
    pub(crate) quiet: Option<Quiet>,
    pub(crate) zone: TimeZone,
    /// The field of the state that holds the moment when it is over \[s since 1970\].
    pub(crate) expires: Option<usize>,
    pub(crate) at_creation: AtCreation,
    pub(crate) notify: Vec<usize>,
}

/// A place where notifications go.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Its name in the file.
    pub name: String,
    /// The way there.
    pub to: Delivered,
    /// Notifications on their way at once, at least 1.
    pub slots: u32,
    /// Time that one of them may take.
    pub timeout: Duration,
    /// Time after which one that did not arrive is a dead letter.
    pub give_up: Duration,
    /// Several notifications of one user leave in one delivery.
    pub digest: Option<Digest>,
}

/// A delivery of several notifications of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Time for which the first of them waits for others.
    pub every: Duration,
    /// Number of them that leave at once, 1 to 1,000.
    pub count: u32,
    /// The field of the state that says whose a notification is; `None` for its agent.
    pub by: Option<String>,
}

/// The way of a notification.
#[derive(Clone, Debug)]
pub enum Delivered {
    /// A request to a server of the user's.
    Webhook(Webhook),
    /// A line of JSON in a file; `None` for standard output.
    Log(Option<PathBuf>),
    /// A mail by SMTP.
    Email(Email),
}

/// The protection of a connection to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailSecurity {
    /// TLS from the first byte.
    Tls,
    /// TLS after STARTTLS; without it nothing is sent.
    StartTls,
    /// None: others on the way can read the mails.
    Plain,
}

/// A mail by way of a mail server.
#[derive(Clone, Debug)]
pub struct Email {
    /// The host of the mail server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The protection of the connection.
    pub security: MailSecurity,
    /// The address of the sender.
    pub from: String,
    /// The addresses of the receivers, at least one.
    pub to: Vec<String>,
    /// The user at the mail server; its password is the secret.
    pub user: Option<String>,
    /// The variable of the environment with the password.
    pub secret_env: Option<String>,
    /// The file with it.
    pub secret_file: Option<PathBuf>,
    /// The file of an authority that the mail server's certificate is of, besides the machine's own.
    pub ca_file: Option<PathBuf>,
    /// True if it may lead to a public address.
    pub public: bool,
}

/// A request to a server of the user's.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// The URL, http or https.
    pub url: String,
    /// The variable of the environment with the secret that signs requests.
    pub secret_env: Option<String>,
    /// The file with it.
    pub secret_file: Option<PathBuf>,
    /// True if it may lead to a public address.
    pub public: bool,
}

/// The way in which a message finds its agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// An index over bounds names those concerned.
    Bounds,
    /// All agents are asked.
    All,
    /// It is a timer's, and its agent is asked.
    Own,
}

/// A rule in words, for a person.
#[derive(Clone, Debug)]
pub struct RuleSummary {
    /// Its name.
    pub name: String,
    /// The message that it is about.
    pub message: String,
    /// True if its condition is compiled to plain operations.
    pub is_compiled: bool,
    /// The field that it compares with limits, if it is a threshold.
    pub compares: Option<String>,
    /// The way in which its message finds agents, and why.
    pub way: Way,
    /// The cause of the way.
    pub why: String,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<&str> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
        f.debug_struct("Rules").field("rules", &rules).finish_non_exhaustive()
    }
}

impl Rules {
    /// The kind of keys.
    pub fn key_kind(&self) -> KeyKind {
        self.key
    }

    /// A number of everything that the bounds of agents depend on: with another one they must be published anew.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// True if these rules are of the same text, and find agents in the same way.
    pub fn is_of_one_text(&self, other: &Rules) -> bool {
        self.source == other.source
    }

    /// The size of the text that they were read from \[B\].
    pub fn text_bytes(&self) -> usize {
        self.source.text.len()
    }

    /// All rules of these and of others that come after them, by name.
    ///
    /// # Errors
    /// Agents have other kinds of keys by the others, so that none of them would be found.
    pub fn changes_to(&self, after: &Rules) -> Result<Vec<RuleChange>, KeyKindChanged> {
        if self.key != after.key {
            return Err(KeyKindChanged);
        }
        let mut all: BTreeMap<&str, RuleChange> = BTreeMap::new();
        let none = |rule: &Rule| RuleChange {
            name: rule.name.clone(),
            id: rule.id,
            before: None,
            after: None,
        };
        for rule in &self.rules {
            all.entry(&rule.name).or_insert_with(|| none(rule)).before = Some(rule.fingerprint);
        }
        for rule in &after.rules {
            all.entry(&rule.name).or_insert_with(|| none(rule)).after = Some(rule.fingerprint);
        }
        Ok(all.into_values().collect())
    }

    /// The fields of the state that others after these have with another kind, or that only one of both has, by
    /// name.
    pub fn fields_to(&self, after: &Rules) -> Vec<FieldChange> {
        let kinds = |of: &Rules| -> BTreeMap<String, Kind> {
            of.state.iter().map(|field| (field.name.clone(), field.kind)).collect()
        };
        let (before, then) = (kinds(self), kinds(after));
        let names: BTreeSet<&String> = before.keys().chain(then.keys()).collect();
        let other = names.into_iter().filter(|name| before.get(*name) != then.get(*name));
        let change = |name: &String| FieldChange {
            name: name.clone(),
            before: before.get(name).copied(),
            after: then.get(name).copied(),
            start: (after.state.iter().find(|field| field.name == *name))
                .and_then(|field| field.start.as_ref().map(json)),
        };
        other.map(change).collect()
    }

    /// Of each rule its number, as [notifications](agents::NotificationKey) have it, and the names of its
    /// destinations.
    pub fn routes(&self) -> impl Iterator<Item = (u32, Vec<&str>)> {
        self.rules.iter().map(|rule| {
            let names = rule.notify.iter().map(|&at| self.destinations[at].name.as_str());
            (rule.id, names.collect())
        })
    }

    /// The destinations of notifications.
    pub fn destinations(&self) -> &[Destination] {
        &self.destinations
    }

    /// The fields of the state, each with its kind.
    pub fn state(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.state.iter().map(|field| (field.name.as_str(), field.kind))
    }

    /// The names of the messages.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.sent().map(|(_, message)| message.name.as_str())
    }

    /// The messages that somebody sends, with their places.
    fn sent(&self) -> impl Iterator<Item = (usize, &MessageRules)> {
        self.messages.iter().enumerate().filter(|(_, message)| message.timer.is_none())
    }

    /// The place of a timer's firing among the messages.
    pub(crate) fn firing(&self, timer: &str) -> Option<usize> {
        self.messages.iter().position(|message| message.timer.as_deref() == Some(timer))
    }

    /// Each timer in words, by name.
    pub fn timers(&self) -> Vec<TimerSummary> {
        let own = self.messages.iter().filter_map(|message| message.timer.as_deref());
        let summary = |timer: &str| {
            let set = self.messages.iter().flat_map(|message| {
                let set = message.timers.iter().filter(|set| &*set.name == timer);
                set.map(|set| (message.name.clone(), told(&set.due)))
            });
            let cancels = |message: &&MessageRules| message.cancel.iter().any(|it| &**it == timer);
            let cancelled_by = self.messages.iter().filter(cancels).map(|it| it.name.clone());
            TimerSummary {
                name: timer.to_owned(),
                set_by: set.collect(),
                cancelled_by: cancelled_by.collect(),
            }
        };
        own.map(summary).collect()
    }

    /// The timers of these rules and of others that come after them, by name.
    pub fn timers_to(&self, after: &Rules) -> Vec<TimerChange> {
        let names = self.timers().into_iter().chain(after.timers()).map(|timer| timer.name);
        let names: BTreeSet<String> = names.collect();
        let change = |name: String| TimerChange {
            is_before: self.firing(&name).is_some(),
            is_after: after.firing(&name).is_some(),
            name,
        };
        names.into_iter().map(change).collect()
    }

    /// The names of the fields of a message; none if there is no such message.
    pub fn fields(&self, message: &str) -> impl Iterator<Item = &str> {
        let of = self.sent().filter(move |(_, it)| it.name == message);
        of.flat_map(|(_, it)| it.fields.iter().map(|(name, _)| name.as_str()))
    }

    /// The name of a rule that a [notification](agents::NotificationKey) names; `None` if the file has it no
    /// more.
    pub fn rule(&self, id: u32) -> Option<&str> {
        self.rules.iter().find(|rule| rule.id == id).map(|rule| rule.name.as_str())
    }

    /// The key of an agent of this name.
    ///
    /// # Errors
    /// A text of no bytes or more than 200; with keys that are numbers, anything else.
    pub fn key(&self, name: &str) -> Result<Key, MessageError> {
        let wrong = || MessageError::Key(name.chars().take(80).collect());
        match self.key {
            KeyKind::Text if name.is_empty() || name.len() > 200 => Err(wrong()),
            KeyKind::Text => Ok(Key(stable_hash(&[name.as_bytes()]))),
            // One number has one name: `07` is none.
            KeyKind::Number => match name.parse::<u64>() {
                Ok(number) if number.to_string() == name => Ok(Key(number)),
                _ => Err(wrong()),
            },
        }
    }

    /// A message that declares an agent, or changes fields of its state. Rules are armed anew by it.
    ///
    /// # Errors
    /// Fields that the state does not have, or of another kind.
    pub fn declaration(
        self: &Arc<Rules>,
        name: &str,
        state: &serde_json::Value,
    ) -> Result<Message, MessageError> {
        self.key(name)?;
        let state = object(state)?;
        let known = || self.state.iter().map(|field| field.name.as_str());
        let mut fields = Vec::new();
        for (key, value) in state {
            let field = self.state.iter().find(|field| field.name == *key);
            let field = field.ok_or_else(|| unknown_field(key, known()))?;
            fields.push((key.clone(), value_of(key, value, field.kind)?));
        }
        let body = Body::Declare { name: name.into(), fields: fields.into() };
        Ok(Message { rules: Some(self.clone()), body })
    }

    /// A message of the file, from its name and its fields.
    ///
    /// # Errors
    /// No such message; a field too many, missing or of another kind.
    pub fn event(
        self: &Arc<Rules>,
        name: &str,
        fields: &serde_json::Value,
    ) -> Result<Message, MessageError> {
        let Some((index, message)) = self.sent().find(|(_, message)| message.name == name) else {
            let known: Vec<&str> = self.messages().collect();
            let way_out = way_out(name, known.into_iter());
            return Err(MessageError::Name { name: name.to_owned(), way_out });
        };
        let given = object(fields)?;
        let known = || message.fields.iter().map(|(name, _)| name.as_str());
        if let Some(key) = given.keys().find(|key| !known().any(|it| it == *key)) {
            return Err(unknown_field(key, known()));
        }
        let read = message.fields.iter().map(|(name, kind)| {
            let value = given.get(name).ok_or_else(|| MessageError::Missing(name.clone()))?;
            value_of(name, value, *kind)
        });
        let fields = read.collect::<Result<Arc<[Value]>, _>>()?;
        let body = Body::Event(Event { index, fields });
        Ok(Message { rules: Some(self.clone()), body })
    }

    /// A message that ends an agent.
    pub fn end(self: &Arc<Rules>) -> Message {
        Message { rules: Some(self.clone()), body: Body::End }
    }

    /// A message that silences an agent for a span.
    pub fn snooze(self: &Arc<Rules>, span: Duration) -> Message {
        Message { rules: Some(self.clone()), body: Body::Snooze(span) }
    }

    /// A message to all agents that these rules hold from its position in the log on; before it held `from`,
    /// if that is known. It [divides](agents::Agent::divides) the log.
    pub fn changed(self: &Arc<Rules>, from: Option<&Arc<Rules>>) -> Message {
        let change = Change { from: from.cloned() };
        Message { rules: Some(self.clone()), body: Body::Changed(Some(change)) }
    }

    /// A message to one agent that these rules hold, for one that a change could not tell so. It does not
    /// divide the log.
    pub fn reminder(self: &Arc<Rules>) -> Message {
        Message { rules: Some(self.clone()), body: Body::Changed(None) }
    }

    /// The agents that a message is for if its sender names none: those whose bounds it crosses, if it is
    /// for thresholds alone, or else all.
    pub fn concerned(&self, message: &Message) -> (agents::Destination, Audience) {
        let Body::Event(event) = &message.body else {
            return (agents::Destination::All, Audience::Everyone);
        };
        let of = &self.messages[event.index];
        let number = of.compared.map(|field| &event.fields[field]);
        let Some(Value::Number(number)) = number else {
            // An agent whose rules are all spent or over is asked for nothing, unless it keeps a value.
            let is_kept = of.acts();
            let audience = if is_kept { Audience::Everyone } else { Audience::Armed };
            return (agents::Destination::All, audience);
        };
        let shared = of.shared.iter().map(|&(_, field)| Some(&event.fields[field]));
        let symbol = of.symbol(shared).expect("a message has all its fields");
        (agents::Destination::Crossed { symbol, price: place(*number) }, Audience::Everyone)
    }

    /// The same rules without bounds: each message is for all agents.
    pub(crate) fn asking_all(mut self) -> Rules {
        let mut has_bounds = false;
        for message in &mut self.messages {
            has_bounds |= message.compared.take().is_some();
        }
        if has_bounds {
            self.fingerprint = stable_hash(&[&self.fingerprint.to_le_bytes(), b"all"]);
            self.asks_all = true;
        }
        self
    }

    /// Each rule in words.
    pub fn summary(&self) -> Vec<RuleSummary> {
        self.rules.iter().map(|rule| self.summary_of(rule)).collect()
    }

    fn summary_of(&self, rule: &Rule) -> RuleSummary {
        let message = &self.messages[rule.message];
        let field = |at: usize| message.fields[at].0.clone();
        let way = match (&message.timer, message.compared) {
            (Some(_), _) => Way::Own,
            (None, Some(_)) => Way::Bounds,
            (None, None) => Way::All,
        };
        let other = message.rules.iter().map(|&at| &self.rules[at]);
        let other = other.into_iter().find(|rule| rule.threshold.is_none());
        let why = match (&message.compared, other) {
            (Some(at), _) => {
                format!(
                    "each agent publishes the range of `{}` in which nothing can happen to it",
                    field(*at)
                )
            }
            _ if message.timer.is_some() => "the firing of a timer is its agent's alone".to_owned(),
            (None, None) if self.asks_all && !message.acts() => "`--way all` says so".to_owned(),
            (None, _) if message.sets() => {
                format!("`{}` sets fields of every agent that it is for", message.name)
            }
            (None, _) if message.acts() => {
                format!("`{}` sets or cancels timers of every agent that it is for", message.name)
            }
            (None, Some(other)) => {
                format!(
                    "the condition of `{}` is no comparison of one number with limits",
                    other.name
                )
            }
            (None, None) => "its rules compare different fields".to_owned(),
        };
        RuleSummary {
            name: rule.name.clone(),
            message: message.name.clone(),
            is_compiled: matches!(rule.when.way, expression::Way::Native(_)),
            compares: rule.threshold.as_ref().map(|it| field(it.field)),
            way,
            why,
        }
    }
}

impl MessageRules {
    /// True if it can change fields of the state.
    pub(crate) fn sets(&self) -> bool {
        !self.set.is_empty() || self.program.is_some()
    }

    /// True if it can change an agent whatever its rules decide.
    pub(crate) fn acts(&self) -> bool {
        self.sets() || !self.timers.is_empty() || !self.cancel.is_empty()
    }

    /// The symbol of the index of values that state and message share; `None` if one is missing.
    pub(crate) fn symbol<'a>(
        &self,
        shared: impl Iterator<Item = Option<&'a Value>>,
    ) -> Option<u32> {
        let mut parts: Vec<Vec<u8>> = vec![self.name.as_bytes().to_vec()];
        for value in shared {
            parts.push(match value? {
                Value::Number(it) => place(*it).to_le_bytes().to_vec(),
                Value::Text(it) => it.as_bytes().to_vec(),
                Value::Bool(it) => vec![u8::from(*it)],
            });
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        // Two symbols of one number wake agents for nothing; they lose none.
        Some(stable_hash(&parts) as u32)
    }
}

impl Rule {
    /// The offset from UTC in its zone at a moment \[minutes\].
    pub(crate) fn utc_offset(&self, now: Time) -> i32 {
        let seconds = (now.as_nanos() / 1_000_000_000) as i64;
        let moment = jiff::Timestamp::from_second(seconds);
        // A clock beyond the year 9999 has no zones.
        moment.map_or(0, |moment| self.zone.to_offset(moment).seconds() / 60)
    }
}

fn told(due: &Due) -> String {
    match due {
        Due::After(span) => format!("after {}", humantime::format_duration(*span)),
        Due::At(_) => "at a moment that an expression gives".to_owned(),
        Due::Every(span) => format!("every {}", humantime::format_duration(*span)),
    }
}

fn object(value: &serde_json::Value) -> Result<&Map<String, serde_json::Value>, MessageError> {
    value.as_object().ok_or_else(|| MessageError::Shape(cut(value)))
}

fn cut(value: &serde_json::Value) -> String {
    value.to_string().chars().take(60).collect()
}

fn unknown_field<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> MessageError {
    MessageError::Field { name: name.to_owned(), way_out: way_out(name, known) }
}

/// The nearest right spelling, or all.
pub(crate) fn way_out<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match measure::nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

fn value_of(name: &str, json: &serde_json::Value, kind: Kind) -> Result<Value, MessageError> {
    let value = Value::of_json(json).filter(|value| value.kind() == kind);
    value.ok_or_else(|| MessageError::Kind {
        name: name.to_owned(),
        wanted: kind.to_string(),
        found: cut(json),
    })
}
