//! An error of a request is a problem of RFC 9457: it names the place, the cause and the way out.

use std::fmt;

use jungle::{CommitError, Conflict, EditError, JsonError, PastError, Refusal, Rejected};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::ConflictView;
use crate::store::StoreError;

/// An error as the server answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The kind, a path such as `/problems/stale`.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// The kind in words.
    pub title: Box<str>,
    /// The status of the answer.
    pub status: u16,
    /// Cause and way out.
    pub detail: Box<str>,
    /// The path of the request.
    #[serde(default)]
    pub instance: Box<str>,
    /// All conflicts of a merge, revert or pick.
    #[serde(default)]
    pub conflicts: Vec<ConflictView>,
    /// Time after which to try again \[s\].
    #[serde(default)]
    pub retry_after_s: Option<u32>,
    /// A header that belongs to it, with its value.
    #[serde(skip)]
    pub(crate) header: Option<Box<(&'static str, String)>>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.detail)
    }
}

impl Problem {
    /// A problem of a kind with a title.
    pub(crate) fn new(status: u16, kind: &str, title: &str, detail: impl fmt::Display) -> Self {
        Self {
            kind: format!("/problems/{kind}").into(),
            title: title.into(),
            status,
            detail: detail.to_string().into(),
            instance: "".into(),
            conflicts: Vec::new(),
            retry_after_s: None,
            header: None,
        }
    }

    pub(crate) fn not_allowed(methods: &'static str) -> Self {
        let detail = format!("this address takes {methods}");
        let title = "The method is not allowed here";
        let header = Some(Box::new(("allow", methods.to_owned())));
        Self { header, ..Self::new(405, "method", title, detail) }
    }

    pub(crate) fn bad_request(detail: impl fmt::Display) -> Self {
        Self::new(400, "bad-request", "The request is not understood", detail)
    }

    pub(crate) fn not_found(detail: impl fmt::Display) -> Self {
        Self::new(404, "not-found", "It is not there", detail)
    }

    pub(crate) fn impossible(detail: impl fmt::Display) -> Self {
        Self::new(422, "impossible", "The edit is not possible", detail)
    }

    /// A query that takes more steps than it may.
    pub(crate) fn too_long(detail: impl fmt::Display) -> Self {
        Self::new(422, "too-long", "The query takes too long", detail)
    }

    pub(crate) fn conflict(detail: impl fmt::Display) -> Self {
        Self::new(409, "conflict", "Others changed the same", detail)
    }

    pub(crate) fn stale(detail: impl fmt::Display) -> Self {
        Self::new(412, "stale", "It has changed since it was read", detail)
    }

    fn busy(detail: impl fmt::Display) -> Self {
        let title = "The database has too much to do or is stopping";
        Self { retry_after_s: Some(1), ..Self::new(503, "busy", title, detail) }
    }

    pub(crate) fn full(detail: impl fmt::Display) -> Self {
        Self::new(507, "full", "There is no room", detail)
    }

    /// A part of a blob of which no byte is there.
    pub(crate) fn no_part(id: jungle::BlobId, length: u64) -> Self {
        let detail = format!(
            "blob {id} has {length} B, and none of the bytes that `Range` asks for; ask for fewer, or leave it out"
        );
        let header = Some(Box::new(("content-range", format!("bytes */{length}"))));
        Self { header, ..Self::new(416, "no-such-part", "There is no such part", detail) }
    }

    fn with_conflicts(self, conflicts: &[Conflict]) -> Self {
        Self { conflicts: conflicts.iter().map(ConflictView::of).collect(), ..self }
    }

    /// A tree that is not there.
    pub(crate) fn no_tree(name: &str) -> Self {
        Self::not_found(Rejected::NoSuchTree(name.to_owned()))
    }

    /// Tells whether what others did at the same time is the cause, so that deciding again may help.
    pub(crate) fn is_race(error: &StoreError) -> bool {
        let StoreError::Commit(CommitError::Rejected(rejected)) = error else { return false };
        matches!(
            rejected,
            Rejected::Edit { cause: Refusal::Value { .. } | Refusal::Moved { .. }, .. }
                | Rejected::Stale { .. }
        )
    }
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Self {
        match &rejected {
            Rejected::NoSuchTree(_) => Self::not_found(rejected),
            Rejected::TreeName(_) | Rejected::Id { .. } => Self::bad_request(rejected),
            Rejected::Stale { .. } => Self::stale(rejected),
            Rejected::Edit { cause: Refusal::Edit(cause), .. } => {
                Self { detail: rejected.to_string().into(), ..Self::from(cause.clone()) }
            }
            Rejected::Conflicts { conflicts, .. } => {
                Self::conflict(&rejected).with_conflicts(conflicts)
            }
            Rejected::Full => Self::full(rejected),
            _ => Self::conflict(rejected),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match &error {
            EditError::NoSuchNode(_)
            | EditError::NoSuchPath(_)
            | EditError::NoSuchAttribute { .. }
            | EditError::NoSuchIndex(_) => Self::not_found(error),
            EditError::Name(_) => Self::bad_request(error),
            EditError::IndexExists(_) | EditError::Exists(_) => Self::conflict(error),
            EditError::Value { .. } | EditError::TooMany => Self::too_large(error),
            _ => Self::impossible(error),
        }
    }
}

impl Problem {
    pub(crate) fn too_large(detail: impl fmt::Display) -> Self {
        Self::new(413, "too-large", "It is too large", detail)
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Edit(error) => error.into(),
            JsonError::Pointer(_) | JsonError::Name(_) => Self::bad_request(error),
            JsonError::Nothing(_) => Self::not_found(error),
            error => Self::impossible(error),
        }
    }
}

impl From<PastError> for Problem {
    fn from(error: PastError) -> Self {
        match &error {
            PastError::NoSuchVersion(_) => {
                Self::new(410, "gone", "That version is not kept", error)
            }
            PastError::NoSuchTree(_) | PastError::NoSuchNode { .. } => Self::not_found(error),
            PastError::Conflicts(conflicts) => Self::conflict(&error).with_conflicts(conflicts),
            PastError::Overtaken { .. } => Self::conflict(error),
            _ => Self::impossible(error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Commit(CommitError::Rejected(rejected)) => rejected.into(),
            StoreError::Commit(error @ CommitError::NoRoom(_)) => Self::full(error),
            StoreError::Commit(error @ CommitError::TooLarge(_)) => Self::too_large(error),
            StoreError::Commit(error @ CommitError::QueueFull(_)) => Self::busy(error),
            StoreError::Commit(error) => {
                Self::new(500, "unknown", "It is not known whether it was committed", error)
            }
            error @ (StoreError::Busy(_) | StoreError::Stopped) => Self::busy(error),
            error @ StoreError::NoBlob(_) => Self::new(410, "gone", "That blob is not kept", error),
            error @ StoreError::Snapshot(_) => {
                Self::new(507, "no-snapshot", "No snapshot was written", error)
            }
        }
    }
}
