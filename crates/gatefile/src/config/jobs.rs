//! Rules for single jobs, as a configuration has them: class, key, session state.

use advise::Span;
use serde::{Deserialize, Serialize};

/// A class of jobs. Everything that it names must match; it names something. A `*` at the end of a
/// name or a tag's value stands for all that begin so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::class))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassEntry {
    /// Its name, in tables and in policies.
    pub name: String,
    /// Jobs of this user.
    pub user: Option<String>,
    /// Jobs at this database, by its name for clients.
    pub database: Option<String>,
    /// Jobs of clients that call themselves so.
    pub application_name: Option<String>,
    /// Jobs whose statement says so in a comment: `key=value`.
    pub tag: Option<String>,
    /// Jobs whose first statement has this fingerprint, in hexadecimal digits.
    pub fingerprint: Option<String>,
    /// Its importance; larger goes first.
    #[serde(default)]
    pub priority: u8,
    /// The longest wait of its jobs, if that is shorter than the pool's.
    pub deadline: Option<Span>,
}

/// The place of a job's key: `parameter`, `tag` or `statement`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::key))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KeyEntry {
    /// A parameter of its first statement, counted from 1; what stands behind is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u16>,
    /// The value that a comment gives to this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// A place in a statement of a fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementKey>,
    /// Its type; left out, as the router needs it: an integer for `bounds` and for a table of
    /// numbers, else a text. It must be said of what may be a parameter where the router goes by
    /// the hash: drivers send one number as a text and in several binary forms.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<KeyKind>,
}

/// A place in a statement: `parameter` or `place`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::statement))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StatementKey {
    /// The fingerprint, in hexadecimal digits.
    pub fingerprint: String,
    /// The number of a parameter, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<u16>,
    /// The number among its literals and parameters, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u16>,
}

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// As an integer of 2, 4 or 8 bytes.
    Integer,
    /// As a text.
    Text,
}

/// The policy for session state that a client leaves, in transaction and statement mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SessionState {
    /// LISTEN.
    pub listen: StatePolicy,
    /// Advisory locks of a session.
    pub advisory_locks: StatePolicy,
    /// Temporary tables.
    pub temporary_tables: StatePolicy,
    /// Cursors that outlive their transaction.
    pub held_cursors: StatePolicy,
    /// PREPARE in SQL.
    pub prepare: StatePolicy,
    /// SET and what sets without it.
    pub set: SetPolicy,
    /// SET ROLE.
    pub role: SetPolicy,
    /// SET SESSION AUTHORIZATION.
    pub session_authorization: StatePolicy,
    /// LOAD.
    pub load: StatePolicy,
    /// DO and CALL, which may do anything unseen.
    pub code: CodePolicy,
    /// `currval` and `lastval`, which tell what a session has moved of sequences.
    pub sequences: SequencePolicy,
    /// True if a client hears of it by a NOTICE that keeps its slot, where half of its pool's are.
    pub notice: bool,
}

impl Default for SessionState {
    fn default() -> SessionState {
        SessionState {
            listen: StatePolicy::Pin,
            advisory_locks: StatePolicy::Pin,
            temporary_tables: StatePolicy::Pin,
            held_cursors: StatePolicy::Pin,
            prepare: StatePolicy::Pin,
            set: SetPolicy::Track,
            role: SetPolicy::Track,
            session_authorization: StatePolicy::Pin,
            load: StatePolicy::Pin,
            code: CodePolicy::Clean,
            sequences: SequencePolicy::Discard,
            notice: false,
        }
    }
}

/// Values of `currval` and `lastval` outside of the transaction that moved the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SequencePolicy {
    /// Those that any client has moved.
    Trust,
    /// An error of the server: sequences are discarded between clients, from the first text that names
    /// one of the two, or from the beginning where a function, a default or a view of the database does.
    Discard,
    /// The same from the beginning, whatever the database has.
    DiscardAlways,
    /// The same, but who has named one keeps its slot from then on, and has its own values.
    Pin,
    /// Nothing: both are refused, anywhere.
    Refuse,
}

/// The policy for one kind of session state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StatePolicy {
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
}

/// The policy for a setting of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SetPolicy {
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
    /// It is set again wherever the client is served.
    Track,
}

/// The policy for session state that code may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CodePolicy {
    /// It is trusted to leave nothing.
    Trust,
    /// All that it can have left is cleaned up behind it.
    Clean,
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
}

/// The policy for parameters of a session's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Startup {
    /// Parameters that follow a client from server to server, beside those that PostgreSQL's
    /// drivers always send.
    pub track: Vec<String>,
    /// Parameters that are taken and not passed on.
    pub ignore: Vec<String>,
}

impl Default for Startup {
    fn default() -> Startup {
        Startup { track: vec!["IntervalStyle".into()], ignore: Vec::new() }
    }
}
