//! HTTP/2 towards servers: many streams on few connections, by the library h2, which the engine polls in its
//! own loop.
//!
//! Framing, HPACK and the states of streams are the library's. Ours are the decisions: which connection a
//! request goes on ([`budget`]), what a failure means ([`ended`]), when a peer has vanished ([`silence`]), and
//! the moments that are measured.
//!
//! Flow control must not hide latency: the windows that the engine grants, of each stream and of each
//! connection, are 1 GiB, and what was received is given free at once. So a server never waits for the client
//! to make room, and the bytes that are held are those of one turn, [`link::TURN_MAX`] at most.

pub(super) mod budget;
mod drive;
pub(super) mod ended;
pub(super) mod link;
mod silence;

pub(super) use drive::Links;
pub(crate) use ended::Frame;
