//! Rules for single jobs, as a configuration has them: class, key, session state.

use advise::Span;
use serde::{Deserialize, Serialize};

/// A class of jobs. Everything that it names must match; it names something. A `*` at the end of a
/// name or a tag's value stands for all that begin so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// As an integer of 2, 4 or 8 bytes.
    Integer,
    /// As a text.
    Text,
}

/// The policy for session state that a client leaves, in transaction and statement mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Leftovers {
    /// LISTEN.
    pub listen: Leftover,
    /// Advisory locks of a session.
    pub advisory_locks: Leftover,
    /// Temporary tables.
    pub temporary_tables: Leftover,
    /// Cursors that outlive their transaction.
    pub held_cursors: Leftover,
    /// PREPARE in SQL.
    pub prepare: Leftover,
    /// SET and what sets without it.
    pub set: SetLeftover,
    /// SET ROLE.
    pub role: SetLeftover,
    /// SET SESSION AUTHORIZATION.
    pub session_authorization: Leftover,
    /// LOAD.
    pub load: Leftover,
    /// DO and CALL, which may do anything unseen.
    pub code: CodeLeftover,
    /// `currval` and `lastval`, which tell what a session has moved of sequences.
    pub sequences: SequenceLeftover,
    /// True if a client hears of it by a NOTICE that keeps its slot, where half of its pool's are.
    pub notice: bool,
}

impl Default for Leftovers {
    fn default() -> Leftovers {
        Leftovers {
            listen: Leftover::Pin,
            advisory_locks: Leftover::Pin,
            temporary_tables: Leftover::Pin,
            held_cursors: Leftover::Pin,
            prepare: Leftover::Pin,
            set: SetLeftover::Track,
            role: SetLeftover::Track,
            session_authorization: Leftover::Pin,
            load: Leftover::Pin,
            code: CodeLeftover::Clean,
            sequences: SequenceLeftover::Discard,
            notice: false,
        }
    }
}

/// Values of `currval` and `lastval` outside of the transaction that moved the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SequenceLeftover {
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
#[serde(rename_all = "kebab-case")]
pub enum Leftover {
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
}

/// The policy for a setting of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetLeftover {
    /// The client keeps its slot.
    Pin,
    /// The statement is refused.
    Refuse,
    /// It is set again wherever the client is served.
    Track,
}

/// The policy for session state that code may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeLeftover {
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
