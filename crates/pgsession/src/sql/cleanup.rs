//! Remembers what clients left at a server, and says what it needs before the next one has it.

use super::choices::{Reason, Reasons};
use super::effects::{EffectKind, Effects};
use super::settings::{Settings, without_end, write_reset};
use super::tokens::Unclear;
use pgwire::message::Status;

/// Session state left at a server since it was clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The kinds that are there.
    kinds: u16,
    /// The kinds that an open transaction has left, which a rollback takes back.
    open: u16,
    /// The kinds that texts on their way may have left.
    asked: u16,
    /// Gone, if the transaction commits.
    going: u16,
    /// True if the transaction has failed.
    failed: bool,
}

/// Session state that is not a setting and goes with DISCARD ALL: all but a library.
const DISCARDED: u16 = !bit(Reason::Load);
/// Session state that keeps a client at its server for as long as it is there.
const KEEPS: u16 = !(bit(Reason::Set) | bit(Reason::Role) | bit(Reason::Code));
/// Session state that no rollback takes back.
const STAYS: u16 = bit(Reason::AdvisoryLock)
    | bit(Reason::Prepare)
    | bit(Reason::Load)
    | bit(Reason::Code)
    | bit(Reason::Sequence)
    | bit(Reason::Unreadable);
/// Session state that may be there though its command has failed.
// A PREPARE that fails has made nothing; a function that fails may have taken its lock before.
const SLIPS: u16 = STAYS & !bit(Reason::Prepare);
const _: () = assert!(STAYS & (bit(Reason::Set) | PATH) == 0, "a rollback takes settings back");

/// A search_path under which things may be temporary: DISCARD TEMP is not the end of them while it is
/// there. It is no reason of its own.
const PATH: u16 = 1 << 15;
const _: () = assert!(Reason::ALL.len() < 15, "reasons have bits of their own");

const fn bit(reason: Reason) -> u16 {
    1 << reason as u8
}

impl Left {
    /// A text is on its way to the server: it leaves what it may leave.
    pub fn sent(&mut self, effects: &Effects) {
        if effects.unclear == Some(Unclear::Encoding) {
            self.kinds |= bit(Reason::Unreadable);
        }
        for reason in effects.effects.iter().filter_map(|effect| Reason::of(&effect.what)) {
            self.asked |= bit(reason);
        }
    }

    /// One of its commands has completed, with this tag.
    pub fn completed<'w>(&mut self, found: impl IntoIterator<Item = &'w EffectKind>, tag: &[u8]) {
        let mut whole = tag == b"ROLLBACK";
        for what in found {
            if let Some(reason) = Reason::of(what) {
                let path = if *what == EffectKind::TemporaryPath { PATH } else { 0 };
                let bits = bit(reason) | path;
                // What no rollback takes back is there from now on, whatever becomes of the transaction.
                self.kinds |= bits & STAYS;
                self.open |= bits & !STAYS;
                // Made again behind its end, it does not go.
                self.going &= !bits;
            }
            self.going |= match what {
                EffectKind::UnlistenAll => bit(Reason::Listen),
                EffectKind::AdvisoryUnlockAll => bit(Reason::AdvisoryLock),
                EffectKind::Set { name, value: Some(_) } | EffectKind::Reset { name }
                    if name == b"search_path" =>
                {
                    PATH
                }
                // Under such a path the next table without a schema is temporary again.
                EffectKind::DiscardTemporary
                    if (self.kinds | self.open) & !self.going & PATH != 0 =>
                {
                    0
                }
                EffectKind::DiscardTemporary => bit(Reason::Temporary),
                EffectKind::DiscardSequences => bit(Reason::Sequence),
                EffectKind::CloseAll => bit(Reason::WithHold),
                EffectKind::DeallocateAll => bit(Reason::Prepare),
                EffectKind::ResetAll => bit(Reason::Set) | PATH,
                EffectKind::DiscardAll => DISCARDED,
                EffectKind::RollbackTo(_) => {
                    // What was going since the savepoint is back, and what was before may be.
                    (whole, self.failed, self.going) = (false, false, 0);
                    0
                }
                _ => 0,
            };
        }
        if whole {
            self.rolled_back();
        } else if matches!(tag, b"COMMIT" | b"PREPARE TRANSACTION") {
            self.committed();
        }
    }

    /// An error has come: what was on its way out may have stayed.
    pub fn failed(&mut self) {
        // Locks and prepared statements that were taken away are gone though the transaction fails: to
        // take them for there is the safe side.
        self.going = 0;
        self.failed = true;
        self.kinds |= self.asked & SLIPS;
    }

    /// ReadyForQuery has come. What was [sent](Left::sent) and is not answered yet must be told
    /// again.
    pub fn ready(&mut self, status: Status) {
        self.asked = 0;
        if status == Status::Idle {
            if self.failed {
                self.rolled_back();
            } else {
                self.committed();
            }
        }
    }

    fn committed(&mut self) {
        debug_assert_eq!(self.open & STAYS, 0, "that is there already");
        self.kinds = (self.kinds | self.open) & !self.going;
        (self.open, self.going, self.failed) = (0, 0, false);
    }

    fn rolled_back(&mut self) {
        debug_assert_eq!(self.open & STAYS, 0, "no rollback takes that back");
        (self.open, self.going, self.failed) = (0, 0, false);
    }

    /// True while something is under way that decides what is left.
    pub fn is_moving(&self) -> bool {
        self.open | self.asked | self.going != 0 || self.failed
    }

    /// True if this may be there.
    pub fn has(&self, reason: Reason) -> bool {
        self.reasons().has(reason)
    }

    /// The kinds that may be there.
    pub fn reasons(&self) -> Reasons {
        Reasons((self.kinds | self.open | self.asked) & !PATH)
    }

    /// True if nothing is there that goes with no client: what [`Settings`] follow goes with it.
    pub fn is_clean(&self) -> bool {
        let followed = bit(Reason::Set) | bit(Reason::Role);
        self.reasons().0 & !followed == 0
    }

    /// The kinds that only this server has, for as long as it does.
    pub fn keeps(&self) -> impl Iterator<Item = Reason> {
        Reasons(self.reasons().0 & KEEPS).iter()
    }

    /// The server was cleaned.
    pub fn cleaned(&mut self) {
        *self = Left::default();
    }
}

/// Fails where SQL has prepared a statement, so that its server is closed. Those of the gate are made by the
/// protocol, and stay.
// To deallocate it takes its name, and so a language for code: not every database has one that the user may
// use. What DEALLOCATE ALL would drop as well is there for all clients, and code seldom prepares anything.
const LACKS_PREPARED: &[u8] = b"SELECT CASE WHEN EXISTS (SELECT FROM \
    pg_catalog.pg_prepared_statements WHERE from_sql) THEN 'code has left a prepared statement' \
    ELSE '0' END::pg_catalog.int4; ";

/// Cleaning of a server before another client has it. It is outside of a transaction then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// Nothing.
    Nothing,
    /// A query of several commands in one text, whose replies are for nobody. What it reports is
    /// for the server's [`Settings`], which then are [`Settings::discarded`]. If it fails, nothing else
    /// cleans the connection: close it.
    Batch(Vec<u8>),
    /// `DISCARD ALL`, as a query of its own: the server has no prepared statement behind it.
    Discard,
    /// Nothing cleans it: close the connection.
    Close,
}

impl Cleanup {
    /// That of a server with this left, and these settings. RESET ALL would keep role and session
    /// authorization, so these are named.
    pub fn of(left: &Left, server: &Settings) -> Cleanup {
        // A library stays in its process (`load_file`), and may have changed anything there.
        if left.has(Reason::Load) {
            return Cleanup::Close;
        }
        // DISCARD ALL ends all of these. It also drops what the server has prepared for all clients, and
        // must stand alone (`PreventInTransactionBlock`), so it is the last resort.
        if left.has(Reason::Prepare)
            || left.has(Reason::Authorization)
            || left.has(Reason::Unreadable)
            || server.lost().is_some()
        {
            return Cleanup::Discard;
        }
        // Of code anything that a command can undo is taken to be there. A library that it has loaded
        // cannot be seen.
        let code = left.has(Reason::Code);
        let has = |reason| code || left.has(reason);
        let role = has(Reason::Role) || server.names().any(|name| name == b"role");
        let (mut first, mut last) = (Vec::new(), Vec::new());
        // In the order of `DiscardAll`: to close a cursor may run somebody's code, so that comes before
        // all else is reset. RESET ALL leaves role and user as they are, so these are named.
        for (needed, command) in [
            (has(Reason::WithHold), &b"CLOSE ALL; "[..]),
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
            (left.has(Reason::Sequence), b"DISCARD SEQUENCES; "),
            // Behind all that may run code itself.
            (code, LACKS_PREPARED),
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
            return Cleanup::Nothing;
        }
        without_end(&mut text);
        Cleanup::Batch(text)
    }

    /// The text to send, if there is one.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Cleanup::Batch(text) => Some(text),
            Cleanup::Discard => Some(b"DISCARD ALL"),
            Cleanup::Nothing | Cleanup::Close => None,
        }
    }
}
