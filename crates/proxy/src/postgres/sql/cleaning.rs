//! Remembers what clients left at a server, and says what it needs before the next one has it.

use super::choices::Reason;
use super::leaves::{Leaves, What};
use super::settings::{Settings, write_reset};
use super::tokens::Unclear;
use crate::postgres::message::Status;

/// What was left at a server since it was clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    kinds: u16,
    /// Gone, if the transaction commits.
    going: u16,
}

/// What a session has that is not a setting and goes with DISCARD ALL: all but a library.
const DISCARDED: u16 = !bit(Reason::Load);
/// What keeps a client at its server for as long as it is there.
const KEEPS: u16 = !(bit(Reason::Set) | bit(Reason::Role) | bit(Reason::Code));

const fn bit(reason: Reason) -> u16 {
    1 << reason as u8
}

impl Left {
    /// A text is on its way to the server: it leaves what it may leave.
    pub fn sent(&mut self, leaves: &Leaves) {
        if leaves.unclear == Some(Unclear::Encoding) {
            self.kinds |= bit(Reason::Unreadable);
        }
        for reason in leaves.leaves.iter().filter_map(|leaf| Reason::of(&leaf.what)) {
            self.kinds |= bit(reason);
        }
    }

    /// One of its commands has completed, with this tag.
    pub fn completed<'w>(&mut self, found: impl IntoIterator<Item = &'w What>, tag: &[u8]) {
        for what in found {
            if let Some(reason) = Reason::of(what) {
                self.kinds |= bit(reason);
                self.going &= !bit(reason);
            }
            self.going |= match what {
                What::UnlistenAll => bit(Reason::Listen),
                What::AdvisoryUnlockAll => bit(Reason::AdvisoryLock),
                What::DiscardTemporary => bit(Reason::Temporary),
                What::CloseAll => bit(Reason::Hold),
                What::DeallocateAll => bit(Reason::Prepare),
                What::DiscardAll => DISCARDED,
                _ => 0,
            };
        }
        if tag == b"ROLLBACK" {
            self.going = 0;
        }
    }

    /// An error has come: what was on its way out may have stayed.
    pub fn failed(&mut self) {
        self.going = 0;
    }

    /// ReadyForQuery has come.
    pub fn ready(&mut self, status: Status) {
        if status == Status::Idle {
            self.kinds &= !self.going;
            self.going = 0;
        }
    }

    /// Whether this may be there.
    pub fn has(&self, reason: Reason) -> bool {
        self.kinds & bit(reason) != 0
    }

    /// What there is that only this server has, for as long as it does.
    pub fn keeps(&self) -> impl Iterator<Item = Reason> {
        let kinds = self.kinds & KEEPS;
        Reason::ALL.into_iter().filter(move |&reason| kinds & bit(reason) != 0)
    }

    /// The server was cleaned.
    pub fn cleaned(&mut self) {
        *self = Left::default();
    }
}

/// What a server needs before another client has it. It is outside of a transaction then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// Nothing.
    Nothing,
    /// A query of several commands in one text, whose replies are for nobody. What it reports is
    /// for the server's [`Settings`], which then are [`Settings::discarded`].
    Batch(Vec<u8>),
    /// `DISCARD ALL`, as a query of its own: the server has no prepared statement behind it.
    Discard,
    /// Nothing cleans it: close the connection.
    Close,
}

impl Cleaning {
    /// That of a server with this left, and these settings. RESET ALL would keep role and session
    /// authorization, so these are named.
    pub fn of(left: &Left, server: &Settings) -> Cleaning {
        if left.has(Reason::Load) {
            return Cleaning::Close;
        }
        if left.has(Reason::Prepare)
            || left.has(Reason::Authorization)
            || left.has(Reason::Unreadable)
            || server.lost().is_some()
        {
            return Cleaning::Discard;
        }
        let code = left.has(Reason::Code);
        let has = |reason| code || left.has(reason);
        let role = has(Reason::Role) || server.names().any(|name| name == b"role");
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (needed, command) in [
            (has(Reason::Hold), &b"CLOSE ALL; "[..]),
            (code, b"RESET SESSION AUTHORIZATION; "),
            (role, b"RESET ROLE; "),
            (code, b"RESET ALL; "),
        ] {
            first.extend_from_slice(if needed { command } else { b"" });
        }
        for (needed, command) in [
            (has(Reason::Listen), &b"UNLISTEN *; "[..]),
            (has(Reason::AdvisoryLock), b"SELECT pg_catalog.pg_advisory_unlock_all(); "),
            (has(Reason::Temporary), b"DISCARD TEMP; "),
        ] {
            last.extend_from_slice(if needed { command } else { b"" });
        }
        let mut text = first;
        if !code {
            for name in server.names().filter(|name| *name != b"role") {
                write_reset(&mut text, name);
            }
        }
        text.append(&mut last);
        if text.is_empty() {
            return Cleaning::Nothing;
        }
        text.truncate(text.len() - 2);
        Cleaning::Batch(text)
    }

    /// The text to send, if there is one.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Cleaning::Batch(text) => Some(text),
            Cleaning::Discard => Some(b"DISCARD ALL"),
            Cleaning::Nothing | Cleaning::Close => None,
        }
    }
}
