//! Admission to a server of ours: users, known by the hashes of their access tokens, and the addresses that it may listen on.
//! Decided without a connection or a clock. A right is the server's own: what it means is decided there.
//!
//! ```text
//!   file of users ──▶ Users ──▶ Caller: name, rights, a place among the requests in flight
//!   Access: users and certificate, or a loopback address
//! ```

mod address;
mod users;

pub use address::{Access, AccessError, ElsewhereError, from_here};
pub use users::{
    Caller, CallerError, Entry, IN_FLIGHT, IN_FLIGHT_MAX, UserTable, Users, UsersError,
    access_token_hash, in_flight,
};
