//! Answers as JSON, written by the server and read by its clients: of one type, so that a client that does not
//! understand an answer says so and takes nothing for zero.

use std::collections::BTreeMap;
use std::time::Duration;

use agents_rules::Decision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Messages that are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedAnswer {
    /// Messages that were accepted.
    pub accepted: u64,
    /// The last position in the logs of their partitions; none if there was no message.
    pub position: Option<u64>,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentAnswer {
    /// Its name.
    pub agent: String,
    /// Its fields.
    pub state: BTreeMap<String, Value>,
    /// Number of its notifications.
    pub fired: u64,
    /// Its rules by name.
    pub rules: BTreeMap<String, RuleView>,
    /// Its timers that are set, by name.
    #[serde(default)]
    pub timers: BTreeMap<String, TimerView>,
}

/// A timer that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimerView {
    /// The moment at which it is due \[ns since 1970\].
    pub due_ns: u64,
    /// The span after which it is due again \[ns\]; none if it fires once.
    pub every_ns: Option<u64>,
}

impl TimerView {
    pub(crate) fn of(timer: agents::Timer) -> TimerView {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        TimerView { due_ns: timer.due.as_nanos(), every_ns: timer.every.map(nanos) }
    }
}

/// A rule of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    /// True if the next value outside fires.
    pub is_armed: bool,
    /// Values outside that did not fire.
    pub silences: u64,
    /// The last of them.
    pub last_silence: Option<SilenceView>,
}

/// A value outside that did not fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SilenceView {
    /// The moment \[ns since 1970\].
    pub at_ns: u64,
    /// The cause.
    pub cause: String,
}

/// A page of the agents of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentsAnswer {
    /// The agents, in the order of their keys.
    pub agents: Vec<StateView>,
    /// The key from which the next page begins, a text as programs may have no whole numbers of 64 bits; none at
    /// the end.
    pub next: Option<String>,
    /// Number of partitions.
    pub partitions: u64,
}

/// An agent with its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateView {
    /// Its name.
    pub agent: String,
    /// Its fields.
    pub state: BTreeMap<String, Value>,
}

/// A page of the dead letters of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LettersAnswer {
    /// The letters, in the order of their numbers.
    pub letters: Vec<LetterView>,
    /// The number behind which the next page begins; none at the end.
    pub next: Option<u64>,
    /// Number of partitions.
    pub partitions: u64,
}

/// A message that an agent could not handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetterView {
    /// Its number in its partition.
    pub n: u64,
    /// The partition.
    pub partition: u64,
    /// The agent's key.
    pub key: String,
    /// The cause.
    pub cause: String,
    /// The message; none if it cannot be read any more.
    pub message: Option<String>,
}

/// A page of notifications that were not taken yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndeliveredAnswer {
    /// The notifications, in the order of their numbers.
    pub notifications: Vec<UndeliveredView>,
    /// The number behind which the next page begins; none at the end.
    pub next: Option<u64>,
}

/// A notification that a destination did not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndeliveredView {
    /// Its number.
    pub n: u64,
    /// The destination.
    pub destination: String,
    /// The stable name of the notification, or of a digest of several.
    pub id: String,
    /// The names of the notifications of a digest; empty if it is none.
    pub members: Vec<String>,
    /// Attempts so far.
    pub attempts: u32,
    /// True if it is given up until somebody resends it; else it is tried again.
    pub is_dead: bool,
    /// The cause of the last failure.
    pub cause: String,
    /// The first attempt \[ns since 1970\].
    pub since_ns: u64,
}

/// The end of sending again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentAnswer {
    /// Number of those that were sent.
    pub sent: u64,
    /// Number of those that stay: they cannot be read any more, or are no messages by the rules of today.
    pub left: u64,
}

/// The past of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyAnswer {
    /// The agent.
    pub agent: String,
    /// Decisions that are kept with the agent, the oldest first: what fired, and what was suppressed.
    pub kept: Vec<DecisionView>,
    /// The last messages that may concern it, handled once more.
    pub recomputed: Vec<RecomputedView>,
    /// The state with which that began.
    pub began: Began,
    /// The moment of the first message that is kept \[ns since 1970\].
    pub messages_since_ns: Option<u64>,
}

/// A decision that is kept with its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionView {
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// The stable name of the notification; none if it was suppressed.
    pub notification: Option<String>,
    /// What became of the notification; none if it was suppressed.
    pub delivery: Option<String>,
}

/// A message that was handled once more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecomputedView {
    /// Its position in the log; 0 for a timer, which is in no log.
    pub position: u64,
    /// The moment at which it was accepted, or the timer was due \[ns since 1970\].
    pub at_ns: u64,
    /// The message.
    pub message: String,
    /// The fields of the state before.
    pub before: Map<String, Value>,
    /// Those that were others afterwards.
    pub changed: Map<String, Value>,
    /// Of each rule that it is about, what it decided.
    pub rules: BTreeMap<String, String>,
    /// The cause why the agent could not handle it.
    pub failure: Option<String>,
}

/// The state with which a recomputation began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Began {
    /// That of the declaration.
    Declaration,
    /// The declaration is not kept any more: that of today, with all rules armed anew.
    StateOfToday,
}

/// Rules that were tried on kept messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialAnswer {
    /// Agents that were asked.
    pub agents: u64,
    /// Those among them that would have fired.
    pub agents_fired: u64,
    /// Messages that took part.
    pub messages: u64,
    /// Messages that did not fit into memory and took no part.
    pub messages_unread: u64,
    /// The moment of the first message that is kept \[ns since 1970\].
    pub messages_since_ns: Option<u64>,
    /// Conditions that were evaluated.
    pub evaluations: u64,
    /// Of each rule, the notifications.
    pub fired: BTreeMap<String, u64>,
    /// Of each rule, those that a cooldown, a quiet time and so on would have suppressed.
    pub suppressed: BTreeMap<String, u64>,
    /// The agents with the most notifications.
    pub most: Vec<FiredView>,
    /// Messages that agents could not handle.
    pub failures: u64,
    /// True if all agents and all kept messages of the span took part.
    pub is_whole: bool,
    /// True if all messages of the span are kept.
    pub is_span_kept: bool,
    /// Time that it took \[s\].
    pub seconds: f64,
}

/// An agent with its notifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FiredView {
    /// The agent.
    pub agent: String,
    /// Its notifications.
    pub fired: u64,
}

/// A change of the rules of a running server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadAnswer {
    /// True if the file has another text than the rules that held.
    pub is_changed: bool,
    /// True if it was only asked what would become of the rules.
    pub is_dry: bool,
    /// Each rule of the file, and each that it has no more.
    pub rules: Vec<RuleChangeView>,
    /// Each field of the state that is new or gone, or that has another kind.
    pub fields: Vec<FieldChangeView>,
    /// Each timer of the file, and each that it has no more.
    #[serde(default)]
    pub timers: Vec<TimerChangeView>,
    /// Agents that were counted.
    pub agents: u64,
    /// True if all agents were counted: else the numbers are those of a part, since there was no time or a state
    /// cannot be read.
    pub is_whole: bool,
    /// Of each partition in order, the position of its log from which on the new rules hold; empty if nothing
    /// was changed.
    pub positions: Vec<u64>,
}

/// A rule before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleChangeView {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub change: RuleFate,
    /// The version that held; none for a rule that is new.
    pub version_before: Option<String>,
    /// The version that holds afterwards; none for a rule that is gone.
    pub version: Option<String>,
    /// Agents that have the rule, in whatever version; those that a change has not reached yet have another.
    pub agents: u64,
    /// Those of them that are armed: the next value outside fires.
    pub armed: u64,
}

/// A timer of the file before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimerChangeView {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub change: TimerFate,
    /// Agents for which it is set.
    pub set: u64,
}

/// What becomes of a timer, and of those that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimerFate {
    /// It is new: set for no agent.
    Added,
    /// It is gone: those that are set end, and do not fire.
    Removed,
    /// It stays: those that are set are due when they were, and do what the rules of that moment say.
    Kept,
}

/// A field of the state before and after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChangeView {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub change: FieldFate,
    /// The kind that it had: text, number or bool; none for a field that is new.
    pub kind_before: Option<String>,
    /// The kind that it has afterwards; none for a field that is gone.
    pub kind: Option<String>,
    /// The value that agents without one begin with; none if the file says none.
    pub start: Option<serde_json::Value>,
    /// Agents that have a value that is lost.
    pub lost: u64,
}

/// What becomes of a field of the state, and of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FieldFate {
    /// It is new.
    Added,
    /// It is gone, with its values.
    Removed,
    /// It has another kind; its values are lost.
    Changed,
}

/// What becomes of a rule, and of what is armed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleFate {
    /// It is new: armed for each agent as at a creation.
    Added,
    /// It is gone, with all that is armed.
    Removed,
    /// It has another version: armed anew for each agent, as at a creation.
    Changed,
    /// It goes on as it is, armed or not.
    Unchanged,
}

/// The form of agents by the rules that hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RulesAnswer {
    /// The kind of keys: text or number.
    pub key: String,
    /// The fields of the state, each with its kind: text, number or bool.
    pub state: BTreeMap<String, String>,
}
