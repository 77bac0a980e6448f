//! The server of agents: partitions driven in real time over a store, an ingress by HTTP, and the delivery
//! of notifications.
//!
//! ```text
//!   client ──▶ http ──▶ partition (a thread) ──▶ store (threads of its own)
//!                           │
//!                           └──▶ delivery ──▶ a gate for each destination ──▶ webhook, log
//! ```
//!
//! A partition's thread takes the time once for each event. Calls of the store block threads of their own:
//! one appends while another commits and a third loads. A message is answered 202 when it is durable.
//! Notifications that a destination does not take are kept apart, so that one that is down delays nobody.

mod answer;
mod backup;
mod clock;
mod delivery;
mod digest;
mod figures;
mod http;
mod ids;
mod kept;
mod mail;
mod page;
mod partition;
mod past;
mod reload;
mod response;
mod retention;
mod routes;
mod server;
mod signature;
mod source;
mod table;
mod unsent;
mod users;
mod webhook;

pub use access::{AccessError, UsersError, access_token_hash};
pub use answer::{
    AcceptedAnswer, AgentAnswer, AgentsAnswer, Began, DecisionView, FieldChangeView, FieldFate,
    FiredView, LetterView, LettersAnswer, RecomputedView, ReloadAnswer, RuleChangeView, RuleFate,
    RuleView, RulesAnswer, SentAnswer, SilenceView, StateView, TimerChangeView, TimerFate,
    TimerView, TrialAnswer, UndeliveredAnswer, UndeliveredView, WhyAnswer,
};
pub use reload::RulesFile;
pub use routes::{ROUTES, Route};
pub use server::{Access, Ended, Server, ServerSpec, StartError};
pub use signature::{Secret, SecretError};
pub use source::SourceSpec;
pub use table::TableSource;
pub use users::{Right, Scope, Users};
