//! Promise of `web`, seen from outside: it says what `advise` says, to the last bit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod agree;
