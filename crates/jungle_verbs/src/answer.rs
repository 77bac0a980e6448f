//! Answers of `--json`: those of the server, in the frame that all answers have.

use std::path::PathBuf;

use cli::json::{Answer, Format};
use jungle_server::{
    BlameAnswer, CommitView, CommittedAnswer, DiffAnswer, FoundAnswer, LogAnswer, NodeAnswer,
    Problem, QueryAnswer, SeqAnswer, Stats, Trees, Verified,
};
use schemars::JsonSchema;
use serde::Serialize;

cli::framed! {
    /// All trees.
    TreeList(Trees) = "sekisho/jungle-trees/1";
    /// A node with some of those below it.
    OneNode(NodeAnswer) = "sekisho/jungle-node/1";
    /// A commit that took effect.
    Committed(CommittedAnswer) = "sekisho/jungle-committed/1";
    /// A request that was refused because of what others did: its problem (RFC 9457).
    Refused(Problem) = "sekisho/jungle-problem/1";
    /// Nodes that were found.
    Found(FoundAnswer) = "sekisho/jungle-found/1";
    /// Values that a JSONPath has found.
    Queried(QueryAnswer) = "sekisho/jungle-query/1";
    /// The commits that changed a node or one below it, newest first.
    NodeLog(LogAnswer) = "sekisho/jungle-log/1";
    /// The commits that answer for a node as it is.
    Blamed(BlameAnswer) = "sekisho/jungle-blame/1";
    /// The differences between two versions of a tree.
    Differences(DiffAnswer) = "sekisho/jungle-diff/1";
    /// A snapshot that was written.
    SnapshotTaken(SeqAnswer) = "sekisho/jungle-snapshot/1";
    /// Counts of a server.
    Counts(Stats) = "sekisho/jungle-stats/1";
    /// A directory that was looked through.
    LookedThrough(Verified) = "sekisho/jungle-verify/1";
    /// A user with its access token.
    UserMade(access_verbs::user::UserMade) = "sekisho/jungle-user/1";
}

/// The newest commits of a database.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CommitList {
    /// The commits, newest first.
    pub(crate) commits: Vec<CommitView>,
}

impl Answer for CommitList {
    const FORMAT: &'static str = "sekisho/jungle-commits/1";
}

/// A server that listens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Started {
    /// Address that clients use.
    pub(crate) listening: String,
    /// The newest commit.
    pub(crate) seq: u64,
    /// The snapshot that it began with; 0 is none.
    pub(crate) snapshot: u64,
    /// Entries of the log behind the snapshot.
    pub(crate) entries: u64,
    /// Snapshots that could not be used, and the torn tail that was cut.
    pub(crate) notes: Vec<String>,
}

impl Answer for Started {
    const FORMAT: &'static str = "sekisho/jungle-serve-start/1";
}

/// A server that was stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    /// The newest commit.
    pub(crate) seq: u64,
    /// Commits of this session.
    pub(crate) commits: u64,
}

impl Answer for Stopped {
    const FORMAT: &'static str = "sekisho/jungle-serve/1";
}

/// An event of a watch.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Event {
    /// The kind: commit, position or reset.
    pub(crate) event: String,
    /// The position behind which a watch goes on.
    pub(crate) token: String,
    /// The commit with the nodes that it changed, the position, or the reason of a reset.
    pub(crate) content: serde_json::Value,
}

impl Answer for Event {
    const FORMAT: &'static str = "sekisho/jungle-event/1";
}

/// A watch that has ended.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Watched {
    /// Commits that were told.
    pub(crate) commits: u64,
    /// The position behind which it goes on.
    pub(crate) token: Option<String>,
}

impl Answer for Watched {
    const FORMAT: &'static str = "sekisho/jungle-watch/1";
}

/// A copy of a database in a directory of its own.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BackedUp {
    /// The directory.
    pub(crate) folder: PathBuf,
    /// The newest commit in it.
    pub(crate) seq: u64,
    /// The bytes of it.
    pub(crate) size_bytes: u64,
}

impl Answer for BackedUp {
    const FORMAT: &'static str = "sekisho/jungle-backup/1";
}

/// Documents that were written to a file or a folder.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Exported {
    /// The file or folder.
    pub(crate) file: PathBuf,
    /// The bytes of it.
    pub(crate) size_bytes: u64,
    /// The documents in it.
    pub(crate) documents: u64,
    /// The blobs beside their nodes.
    pub(crate) blobs: u64,
}

impl Answer for Exported {
    const FORMAT: &'static str = "sekisho/jungle-export/1";
}

/// A blob that was written to a file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BlobWritten {
    /// The file.
    pub(crate) file: PathBuf,
    /// The bytes of it.
    pub(crate) size_bytes: u64,
    /// The SHA-256 of these, hexadecimal.
    pub(crate) sha256: String,
}

impl Answer for BlobWritten {
    const FORMAT: &'static str = "sekisho/jungle-blob/1";
}

/// Formats of all answers.
pub(crate) fn formats() -> Vec<Format> {
    vec![
        Format::of_answer::<TreeList<'_>>(),
        Format::of_answer::<OneNode<'_>>(),
        Format::of_answer::<Committed<'_>>(),
        Format::of_answer::<Refused<'_>>(),
        Format::of_answer::<Found<'_>>(),
        Format::of_answer::<Queried<'_>>(),
        Format::of_answer::<NodeLog<'_>>(),
        Format::of_answer::<Blamed<'_>>(),
        Format::of_answer::<Differences<'_>>(),
        Format::of_answer::<SnapshotTaken<'_>>(),
        Format::of_answer::<Counts<'_>>(),
        Format::of_answer::<LookedThrough<'_>>(),
        Format::of_answer::<CommitList>(),
        Format::of_notice::<Started>(),
        Format::of_answer::<Stopped>(),
        Format::of_notice::<Event>(),
        Format::of_answer::<Watched>(),
        Format::of_answer::<BackedUp>(),
        Format::of_answer::<Exported>(),
        Format::of_answer::<BlobWritten>(),
        Format::of_answer::<UserMade<'_>>(),
    ]
}
