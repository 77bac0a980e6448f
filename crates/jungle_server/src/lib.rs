//! Jungle for other programs: a database on real files, its commits decided by one thread, and HTTP with JSON in
//! front of it.
//!
//! ```text
//!   HTTP ──▶ request ──▶ transaction ──▶ Store ──▶ sequencer's thread ──▶ FileDisk
//!    ├──▶ newest version, without asking anybody      ├──▶ snapshots' thread
//!    └──▶ watch: commits in the order of the log      └──▶ reaper's thread
//! ```

mod answer;
mod blob_routes;
mod blobs;
mod bodies;
mod directory;
mod disk;
mod edits;
mod exchange;
mod history;
mod idempotency;
mod jsonpath;
mod leases;
mod lifetime;
mod openapi;
mod problem;
mod query;
mod ranges;
mod reads;
mod request;
mod routes;
mod server;
mod shared;
mod state;
mod store;
mod users;
mod verify;
mod watching;

pub use access::{AccessError, UsersError, access_token_hash};
pub use answer::{
    BlameAnswer, BlobList, BlobView, ChangeView, ChangedNode, CommitAnswer, CommitView,
    CommittedAnswer, ConflictView, DiffAnswer, DifferenceView, DocumentBlobView, EntryView,
    ExportAnswer, FoundAnswer, LogAnswer, MatchView, NodeAnswer, NodeView, QueryAnswer, SeqAnswer,
    Stats, StoredBlob, TreeView, Trees, Value, Values,
};
pub use directory::{Directory, DirectoryError};
pub use disk::FileDisk;
pub use jsonpath::{Found, JsonPath, JsonPathError, Step, TooManySteps};
pub use openapi::openapi;
pub use problem::Problem;
pub use request::{
    OperationRequest, PolicyName, PreconditionRequest, RuleName, TransactionRequest,
};
pub use server::{Access, Server, StartError, listener};
pub use shared::ServerSettings;
pub use store::{Counts, OpenError, Store, StoreError, StoreSettings, StoreThread};
pub use users::Users;
pub use verify::{BackupError, Verified, VerifiedSnapshot, backed_up, verify};
