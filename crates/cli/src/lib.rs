//! Command line: what a person reads there, and how a command ends.
//!
//! ```text
//!   work ──▶ Verdict or Failure ──▶ text ──▶ say ──▶ standard output, exit code
//!    ├──▶ progress, waiting ──▶ standard error
//!    └◀── Session: Ctrl-C
//! ```
//!
//! A [`Verdict`] is the result of a command that did its work, a [`Failure`] the reason why it could
//! not; each has its exit code. Lines and tables are as wide as the terminal, and are not wrapped where
//! there is none ([`text`]). Progress is a bar on a terminal, and elsewhere a line every ten seconds.
//! Records and predictions that a command keeps lie in the [`store`]. What `--json` prints has a frame and a
//! schema ([`json`]). Verbs that ask a server of ours share the words of a [`request`]. Arguments are parsed elsewhere.

pub mod json;
pub mod knee;
pub mod phases;
pub mod request;
pub mod store;
pub mod text;

mod layout;
mod session;
mod verdict;

pub use session::{
    Session, advance, complain, progress, say, tool, turning, waiting, without_secret,
};
pub use verdict::{Failure, Verdict};
