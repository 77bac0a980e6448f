//! A gate takes over from another one that runs, and nobody who speaks in clear is dropped.
//!
//! ```text
//!   successor                              predecessor
//!     Hello, format ─────────────────────▶  same user of the system? same format? open?
//!     ◀──────────────── Welcome, listeners  (serves as ever)
//!     Ready ─────────────────────────────▶  accepts nobody any more, closes idle connections
//!     ◀────────────────────────────── Begin
//!     accepts; Serves ───────────────────▶  says goodbye to who cannot go over, as in a drain
//!     ◀───── pools, statements, Client+socket   whenever a client comes to rest
//!     Has ───────────────────────────────▶  forgets it
//!     ◀───────────────────────────── Ended  the last one is gone, or the drain's time is over
//! ```
//!
//! A client may migrate when it is in, holds no server, waits for none, and nothing of it is in the
//! gate's own buffers: what it has sent and nobody has read goes over with its socket. While it is in
//! passage neither side reads from it. It is the successor's from the moment at which that has said so
//! and the system has taken the word; a predecessor that gives up shuts its ear first, so that the
//! successor learns of each word whether it was heard: no client is ever with both, or with neither.
//!
//! A predecessor whose successor dies, or says nothing for as long as a server may take to let the gate
//! in ([`Timeouts::connect`](super::config::Timeouts::connect)), goes on as if nothing had
//! been, with the listeners that it never closed. Of clients that were handed over by then, those of
//! a successor that died are gone with it, as whenever a gate is killed. A successor that hears that
//! it was given up ends, its clients let out as in a drain; one whose predecessor dies without a word
//! goes on alone, with all clients that had come.
//!
//! A cancel request that reaches the one and is of a client of the other is passed on. Sums of slots
//! are bounded by a simple rule: each side has its own gate with its own slots, and the predecessor
//! keeps no idle connection from Begin on. What it has are the transactions under way, and those of
//! clients that wait in its queue: at most as many as it has slots, and for as long as these last. A
//! server that has no room for both is asked again until it has, as long as a connection may take.

mod channel;
mod predecessor;
mod protocol;
mod successor;

use gate::Time;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use thiserror::Error;

pub(super) use predecessor::Successor;
pub(super) use protocol::Place;
pub(super) use successor::{Given, Predecessor};

use super::client::State;
use super::listen::Listener;
use super::log::Line;
use super::run::Running;
use super::slab::{Key, Socket};
use super::state::{Loop, Phase};
use channel::Channel;
use protocol::{Message, SECRET_MAX};

/// Words of the other side that are heard before clients have their turn.
const ROUNDS: u32 = 64;

/// After how long a server is asked again that had no room for a connection.
// A client waits for it; and the other side closes its connections one by one, as its jobs end.
const CROWDED: Duration = Duration::from_millis(50);

/// Time that servers may take to be rid of the connections of a process that has ended.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Cancel requests that may be on their way to the other side; more are not passed on.
const CANCELS_MAX: usize = 64;

/// Why a gate could not take over from the one that runs, which goes on then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TakeoverError {
    /// Nobody could be spoken with.
    #[error("the gate that runs cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// Another user of the system listens there.
    #[error("it is listened on by another user of the system, with the number {user}")]
    UnlistedUser {
        /// The user's number.
        user: u32,
    },
    /// It has its reasons.
    #[error("the gate that runs does not hand over: {0}")]
    Refused(String),
    /// It said nothing in time, or ended.
    #[error("the gate that runs has not answered; it serves as before, unless it has ended")]
    Silent,
    /// Its message is not understood.
    #[error("the gate that runs says what this program does not understand: {0}")]
    Misunderstood(String),
    /// It has waited too long, and goes on itself.
    #[error("the gate that runs has given up, and serves as before: {0}")]
    GivenUp(String),
}

/// Knowledge of a loop about those before it and after it.
#[derive(Debug, Default)]
pub(super) struct Takeover {
    /// The door for a successor, and the socket of the admin server that it is given.
    pub(super) door: Option<Listener>,
    pub(super) http: Option<(String, OwnedFd)>,
    successor: Option<Successor>,
    /// To a successor that was given up and has not been told.
    parting: Option<Channel>,
    pub(super) predecessor: Option<Predecessor>,
    /// Clients that wait for what the other side makes of their cancel requests.
    asked: BTreeMap<u64, Key>,
    numbered: u64,
    /// Connections to servers for which there is room when the other side has fewer, when they are
    /// tried again, and until when that is still so though the other side has ended.
    crowded: Vec<Key>,
    crowded_until: Option<Time>,
    afterwards: Option<Time>,
    /// Why it has to end, if its predecessor goes on.
    pub(super) given_up: Option<TakeoverError>,
}

impl Takeover {
    /// When something has to be done.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.next_silence().into_iter().chain(self.crowded_until).min()
    }

    /// When a successor is given up, unless it says something.
    fn next_silence(&self) -> Option<Time> {
        self.successor.as_ref().and_then(Successor::latest)
    }

    /// True once a successor serves all that come.
    pub(super) fn is_served(&self) -> bool {
        self.successor.as_ref().is_some_and(Successor::serves)
    }

    fn other_side(&mut self) -> Option<&mut Channel> {
        // There is one at most: who has not taken over yet hands nothing over.
        let successor = self.successor.as_mut().and_then(Successor::channel_begun);
        successor.or(self.predecessor.as_mut().map(Predecessor::channel))
    }
}

impl Running {
    /// Does what is due by now.
    pub(super) fn tend_takeover(&mut self) {
        let now = self.inner.now;
        if self.inner.takeover.next_silence().is_some_and(|moment| moment <= now) {
            self.successor_late();
        }
        // All at once, by the queue for connections, which lets a few through at a time.
        if self.inner.takeover.crowded_until.is_some_and(|moment| moment <= now) {
            self.inner.takeover.crowded_until = None;
            let crowded = std::mem::take(&mut self.inner.takeover.crowded);
            self.inner.connects.extend(crowded);
            self.inner.connect_next();
            self.inner.settle();
        }
    }
}

impl Loop {
    /// True if a server that has no room for a connection will have some, since another process
    /// gives up those that it has there.
    pub(super) fn awaits_connection_slot(&self) -> bool {
        self.takeover.predecessor.is_some()
            || self.phase == Phase::HandingOver
            || self.takeover.afterwards.is_some_and(|until| self.now <= until)
    }

    /// Has a connection to a server made again in a moment.
    pub(super) fn await_connection_slot(&mut self, key: Key) {
        debug_assert!(!self.takeover.crowded.contains(&key), "it is tried again once");
        self.takeover.crowded.push(key);
        self.takeover.crowded_until.get_or_insert(self.now + CROWDED);
    }

    /// Tells whoever looks after the gate how a takeover goes.
    fn tell_takeover(&self, line: Line, sentence: &str) {
        self.log.line(line);
        if let Some(told) = self.config.decisions {
            told(sentence);
        }
    }

    /// A cancel request of nobody here: the other side is asked, if there is one. False if there is
    /// none.
    pub(super) fn pass_cancel(&mut self, asker: Key, process: u32, secret: &[u8]) -> bool {
        let number = self.takeover.numbered + 1;
        if self.takeover.asked.len() >= CANCELS_MAX || secret.len() > SECRET_MAX {
            return false;
        }
        let Some(channel) = self.takeover.other_side() else { return false };
        let message = Message::Cancel { number, process, secret: secret.to_vec() };
        // What cannot be sent now follows, and that it is broken is found when it is read.
        if channel.say(&message, None).is_err() || channel.flush().is_err() {
            return false;
        }
        self.takeover.numbered = number;
        let other = self.takeover.asked.insert(number, asker);
        assert!(other.is_none(), "each request has a number of its own");
        // The client may not wait for ever for the other process, which may hang.
        let latest = self.now + self.config.timeouts.cancel;
        let client = self.clients.get_mut(asker).expect("its caller has it");
        assert!(matches!(client.state, State::Opening(_)), "a cancel request is a first packet");
        client.state = State::Cancelling;
        self.logins.remove(&client.id);
        self.deadlines.set(Socket::Client(asker), &mut client.deadline, latest);
        true
    }

    /// The other side has a cancel request that may be of somebody here.
    fn hear_cancel(&mut self, number: u64, process: u32, secret: &[u8]) {
        // Nobody here to close when it has arrived: the asker is the other side's.
        let sent = self.cancel_console(process, secret)
            || self.target(process, secret).and_then(|at| self.send_cancel(None, at)).is_some();
        match sent {
            true => self.stats.cancels += 1,
            false => self.stats.cancels_ignored += 1,
        }
        if let Some(channel) = self.takeover.other_side() {
            channel.say(&Message::Cancelled { number }, None).expect("it is short");
            // That it is broken is found when it is read.
            let _ = channel.flush();
        }
    }

    /// The other side has looked at a cancel request.
    fn cancel_passed(&mut self, number: u64) {
        // The asker may have gone, or been told that it takes too long.
        if let Some(asker) = self.takeover.asked.remove(&number)
            && let Some(client) = self.clients.get(asker)
            && matches!(client.state, State::Cancelling)
        {
            self.close(asker);
        }
    }

    /// The other side has gone, and answers nobody.
    fn forget_cancels(&mut self) {
        for (_, asker) in std::mem::take(&mut self.takeover.asked) {
            let state = self.clients.get(asker).map(|client| &client.state);
            if matches!(state, Some(State::Cancelling)) {
                self.close(asker);
            }
        }
    }
}
