//! Admission on the command line, the same for every server of ours with users: who knows the verbs of one knows those of the
//! others.
//!
//! ```text
//!   user NAME      ──▶ user::draw ──▶ access token, lines of the file of users
//!   serve --users  ──▶ AccessArgs ──▶ Access
//!   client verbs   ──▶ Asked ──▶ Way: an agent with TLS, the header that names the user
//! ```

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

mod client;
mod serve;
pub mod user;

pub use client::{Asked, Way};
pub use serve::AccessArgs;
