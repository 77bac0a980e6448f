//! A connection to a server: what is known of it, and what it is doing.

use std::sync::Arc;

use gate::Time;
use live::model::Work;
use live::{PassId, Permits, SlotGuard};

use super::config::Address;
use super::connection::{BUFFER, Connection};
use super::deadlines::Deadline;
use super::negotiation::Negotiating;
use super::pool::PoolIndex;
use super::session_state::Pinned;
use super::slab::Key;
use pgsession::relay::Relay;
use pgsession::session::Session;
use pgsession::sql::{EffectKind, Settings};
use pgwire::auth::Login;
use pgwire::frame::{Backend, Frames, Limits};
use pgwire::startup::Replication;

/// The largest message that is waited for: what must be whole of a server's messages fits a buffer.
pub(super) const LIMITS: Limits = Limits::SESSION;
// Or a server would be waited for that cannot be read any further.
const _: () = assert!(LIMITS.whole_max < BUFFER, "a short message fits beside it");

/// State of a connection to a server.
#[derive(Debug)]
pub(super) enum State {
    /// It has no connection: its job waits for slots of quotas.
    Admitting,
    /// It waits for its turn to be made, or is being made, its encryption included.
    Connecting,
    /// The gate logs in.
    LoggingIn(Option<Login>),
    /// The gate logs in, and hashes its password beside the loop.
    Hashing,
    /// It is nobody's.
    Idle,
    /// A client has it.
    Serving,
    /// It is given these settings, of the client that has it.
    Setting(Arc<Settings>),
    /// Its client has reset this in a transaction, and is given the values that it began with.
    Restoring(Vec<EffectKind>),
    /// It is given the encoding of the client that has it, before its other settings.
    Encoding,
    /// It forgets what clients before have moved of sequences, since its client asks for that.
    Forgetting,
    /// Its client has gone, and what that has left is cleaned up.
    Leaving,
    /// The same, but that took too long, and is cancelled.
    GivenUp,
    /// It forgets the session that it had.
    Discarding,
    /// It loses what a client has left in its session.
    Cleanup,
    /// It is asked how it is.
    Probing,
    /// It is asked whether something in its database asks what a session has moved of sequences.
    Inquiring,
    /// It is asked what its database wants asked on a fresh session.
    Introducing,
    /// It was idle for long, and is asked whether it is alive, before a client has it.
    Checking,
    /// It is clean, but a cancel request is on its way that could hit whoever had it next.
    BeingCancelled,
}

/// Settings by name that a session begins with.
pub(super) type Begun = Vec<(Vec<u8>, Vec<u8>)>;

/// The words with a server until the gate is in.
#[derive(Debug)]
pub(super) struct Greeting {
    /// Number of earlier tries of the way there, and the progress of this one.
    pub(super) tries: u8,
    pub(super) negotiation: Option<Negotiating>,
    pub(super) frames: Frames<Backend>,
    pub(super) parameters: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Greeting {
    /// Before anything was said, at the try with this number.
    pub(super) fn new(tries: u8) -> Greeting {
        // All of these are decided upon, so they are wanted whole; those of a session pass in pieces.
        let frames = Frames::new(Limits { whole_max: BUFFER, ..LIMITS });
        Greeting { tries, negotiation: None, frames, parameters: Vec::new() }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Server {
    /// `None` while it waits for its turn to be made.
    pub(super) connection: Option<Connection>,
    pub(super) state: State,
    pub(super) pool: PoolIndex,
    /// The place of its server in the pool, and its address; in the database, if it is a probe's.
    pub(super) place: u32,
    pub(super) address: Address,
    /// The slot of the job that it serves.
    pub(super) slot: Option<SlotGuard>,
    /// The slots of quotas that go with it, and its way to them as long as it waits.
    pub(super) permits: Permits,
    pub(super) asks: Option<PassId>,
    /// Its client.
    pub(super) client: Option<Key>,
    pub(super) relay: Relay,
    /// The settings that it began with, in session mode: those that its client began with.
    pub(super) begun: Begun,
    /// Its kind of replication; a replication connection is of its client alone.
    pub(super) replication: Replication,
    /// Until the gate is in.
    pub(super) greeting: Option<Box<Greeting>>,
    /// Its number on the console.
    pub(super) id: u64,
    /// By which a query of it is cancelled.
    pub(super) process: u32,
    pub(super) secret: Box<[u8]>,
    pub(super) session: Session,
    /// For how long its client has kept it beyond its jobs.
    pub(super) pinned: Option<Pinned>,
    pub(super) deadline: Deadline,
    /// When it was begun, and when bytes passed last or it was given back.
    pub(super) since: Time,
    pub(super) active: Time,
    /// When the query, and the transaction, began that it is at.
    pub(super) query_since: Option<Time>,
    pub(super) xact_since: Option<Time>,
    /// The answer to a probe, if it is a probe's: no client ever has it.
    pub(super) probe: Option<Vec<u8>>,
    /// Cancel requests that are on their way to it.
    pub(super) cancels: u32,
    /// True if one of these may arrive at any time, and nobody is to have it any more.
    // Or if its server has another address now: it ends with its job for that, too.
    pub(super) tainted: bool,
    /// Outcome of the job that it serves, as far as it has got.
    // What failed, or was kept idle, is no measure of demand: the model must not learn from it.
    pub(super) work: Work,
    /// True if it is closed as soon as nobody needs it, since somebody has said so.
    pub(super) closing: bool,
    /// True if it was idle when its client got it.
    pub(super) reused: bool,
    /// True once it was asked whether its database asks what a session has moved of sequences.
    pub(super) inquired: bool,
    /// True while it is told to discard its sequences with the settings that it is given.
    pub(super) discards: bool,
}

impl Server {
    /// One that is still to be made.
    pub(super) fn new(
        pool: PoolIndex,
        (place, address): (u32, Address),
        relay: Relay,
        now: Time,
    ) -> Server {
        Server {
            connection: None,
            state: State::Connecting,
            pool,
            place,
            address,
            slot: None,
            permits: Permits::new(),
            asks: None,
            client: None,
            relay,
            begun: Begun::new(),
            replication: Replication::No,
            greeting: Some(Box::new(Greeting::new(0))),
            id: 0,
            // Both stay so at a server that sends no BackendKeyData: nothing there can be cancelled.
            process: 0,
            secret: Box::default(),
            session: Session::begun(&[]),
            pinned: None,
            deadline: Deadline::default(),
            since: now,
            active: now,
            query_since: None,
            xact_since: None,
            probe: None,
            cancels: 0,
            tainted: false,
            work: Work::Done,
            closing: false,
            reused: false,
            inquired: false,
            discards: false,
        }
    }

    /// The place of its server in the pool; none if it is a probe's. The pool may still have other
    /// servers than those of the database that are watched.
    pub(super) fn own_place(&self) -> Option<u32> {
        self.probe.is_none().then_some(self.place)
    }

    /// True if it counts among the connections of its pool. Slots say how many of these there may
    /// be: what no job ever has is beyond them.
    pub(super) fn counts(&self) -> bool {
        // Whoever waits for quotas has no connection, and its entry ends when it may have one.
        self.probe.is_none() && !matches!(self.state, State::Admitting)
    }

    /// True if nothing is owed to anybody, and no message is here in part.
    pub(super) fn stands_between(&self) -> bool {
        // PostgreSQL may send a notice or a setting at any time, so half of one may be here.
        let read = self.connection.as_ref().is_none_or(|connection| connection.read().is_empty());
        read && self.relay.kept().is_none()
    }
}
