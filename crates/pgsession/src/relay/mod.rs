//! Traffic between a client and the server that it has now: the one place that knows of both the
//! replies that a server owes and the names of statements.
//!
//! ```text
//!   client ──▶ from_client ──▶ statements, pipeline ──▶ server
//!   client ◀── from_server ◀── pipeline, statements ◀── server
//! ```
//!
//! A [`Relay`] stands for one connection to a server, past its start-up, as long as that lives; its
//! clients come and go. It moves no bytes: it says which of those that are readable pass, by their
//! place, and writes those that are put between them, so that a batch of many messages is one copy
//! or one system call. In the steady state nothing is allocated.
//!
//! The order is the caller's one duty: what a call has for the server goes out before what a later
//! call has for it, and so for the client.
//!
//! ```
//! use pgwire::frame::{Frames, Frontend, Limits};
//! use pgsession::relay::{Copied, ClientStatements, News, Relay, Stop};
//! use pgsession::statements::{Bounds, StatementCache, Client};
//!
//! let mut relay = Relay::new(Limits::SESSION);
//! let mut cache = StatementCache::new([7; 8], Bounds::default());
//! let mut client = Client::new(0);
//! let mut frames = Frames::<Frontend>::new(Limits::SESSION);
//! let mut client_statements = ClientStatements { client: &mut client, cache: &mut cache };
//!
//! let asked = b"Q\0\0\0\x0dselect 1\0";
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! let mut out = Copied::new(asked, &mut to_server);
//! let taken = relay.from_client(&mut client_statements, &mut frames, asked, &mut out, &mut to_client)?;
//! assert_eq!((taken.bytes, taken.stop), (asked.len(), Stop::More { needs: 5 }));
//! assert_eq!(to_server, asked);
//! assert!(relay.kept().is_some(), "it owes a reply");
//!
//! let said = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
//! let mut out = Copied::new(said, &mut to_client);
//! let (client, mut beside) = (Some(&mut client), Vec::new());
//! relay.from_server(client, &mut cache, said, &mut out, &mut beside, |_: News| {})?;
//! assert_eq!(to_client, said);
//! assert_eq!(relay.kept(), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod out;
mod replies;

use std::cell::RefCell;
use std::collections::VecDeque;

use thiserror::Error;

use self::out::Run;
pub use self::out::{Copied, Out};

use super::pipeline::{
    Abandoned, Forwarded, Kept, Local, Pipeline, SendError, Sent, Turn, Violation, Whose,
};
use super::sql::{Effect, Left, Reasons};
use super::statements::{Client, Forward, Message, Server, StatementCache};
use pgwire::SqlState;
use pgwire::frame::{Backend, FrameError, Frames, Frontend, Limits, Piece};
use pgwire::message::read::{Fields, ReadError};
use pgwire::message::{Status, write};

/// Room that is kept for what was written between messages \[byte\].
// One Parse of the longest text that is allowed would otherwise stay with its server for good.
const SCRATCH_MAX: usize = 1 << 16;

/// Limit of replies of the gate's own that are held, as PostgreSQL sends a full buffer \[byte\].
// `PQ_SEND_BUFFER_SIZE` of pqcomm.c: a client that expects PostgreSQL to send by itself behind so many
// bytes is not kept waiting here either.
const DUE_MAX: usize = 8192;

/// A client, and the statements of its pool.
#[derive(Debug)]
pub struct ClientStatements<'a> {
    /// Its names for statements.
    pub client: &'a mut Client,
    /// The statements that they stand for.
    pub cache: &'a mut StatementCache,
}

/// Number of the readable bytes that were taken, and the reason why no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Taken {
    /// Those that are done with \[byte\].
    pub bytes: usize,
    /// The condition to go on.
    pub stop: Stop,
}

/// Why no more bytes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// So many must be readable, those counted that are and were not taken. It is more than
    /// [`Limits::whole_max`] only for a Parse.
    More {
        /// Their number \[byte\].
        needs: usize,
    },
    /// The server must reply first: the same bytes again after it was heard. What would bring the
    /// reply is written.
    Later,
    /// The gate must first ask the server to `DISCARD SEQUENCES`, and say [when that is
    /// done](Relay::sequences_discarded): the same bytes again then.
    Sequences,
    /// The client has said Terminate, which is taken and goes nowhere; it must be
    /// [left](Relay::leave). Nothing behind it counts.
    Terminated,
    /// The server has ended the session, or must be closed: nothing behind counts. What it said to
    /// its client last has passed; unless that was [`News::Ended`], the client is still to be told.
    Ended,
}

/// Protocol fault of a client. It is told so, as FATAL, and closed; the server is
/// [left](Relay::leave) as by a client that has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientFault {
    /// It is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It has no place here.
    #[error(transparent)]
    Message(#[from] SendError),
}

impl ClientFault {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            ClientFault::Frame(error) => error.sqlstate(),
            ClientFault::Message(error) => error.sqlstate(),
        }
    }
}

/// Protocol fault of a server. The connection to it is to be closed, its client told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ServerFault {
    /// It is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// Nobody has asked for it.
    #[error(transparent)]
    Violation(#[from] Violation),
}

impl ServerFault {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

/// Event at a server that concerns more than its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// A setting has this value now.
    Parameter {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// True if a [query of the gate's](Relay::query) has brought it about, so that the client
        /// does not get it.
        own: bool,
        /// What the client is told for it.
        instead: &'a RefCell<Instead>,
    },
    /// A request of the client's is done, and the session is in this state.
    Ready(Status),
    /// Its ReadyForQuery is about to go: what else the client is to be told first.
    Tells(&'a RefCell<Vec<u8>>),
    /// A statement of the client's is done: CommandComplete with this tag.
    Completed {
        /// As in `SELECT 3`.
        tag: &'a [u8],
        /// Its effects on the session.
        left: &'a [Effect],
    },
    /// A statement of the client's has failed; none if more of the error is there than is waited for.
    Failed(Option<Fields<'a>>),
    /// A notification came, and no client is there to hear it.
    Unheard {
        /// The body of its message.
        notification: &'a [u8],
    },
    /// A [query of the gate's](Relay::query) is done. Where it failed, with this code.
    Own {
        /// Of its first error; none if there was none.
        failed: Option<SqlState>,
        /// How many rows its last command has told.
        rows: u64,
    },
    /// The server ends the session, and says why.
    Ended(Option<Fields<'a>>),
}

/// What a client is told of a setting that its server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Instead {
    /// What the server says.
    #[default]
    Same,
    /// Nothing.
    Nothing,
    /// This value.
    Value(Vec<u8>),
}

/// Prepared statements, as PgBouncer counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepares {
    /// Made by clients: each Parse that they have sent.
    pub client_parses: u64,
    /// Made at the server: each Parse that it was sent.
    pub server_parses: u64,
    /// Given their parameters: each Bind that clients have sent.
    pub binds: u64,
}

/// Treatment of a message whose rest is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Passes,
    Falls,
}

/// Owner of the statements' names.
#[derive(Debug)]
enum Names {
    /// The server's own: its client has it for itself.
    Passthrough,
    /// Names of the gate's for those of the clients.
    Rewriting(Box<Server>),
}

/// Treatment of a client's messages behind the end of what may be a transaction, before the server
/// has said whether it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// It passes: one server is as good as another.
    #[default]
    Passes,
    /// It waits: as a transaction of its own it may belong to another server. So does what is run in a
    /// segment behind a Flush, before which it has only prepared.
    Waits,
}

/// Presence of the client that asked.
#[derive(Debug)]
enum Presence {
    There,
    Gone(Client),
}

/// One connection to a server that is past its start-up, between two messages.
#[derive(Debug)]
pub struct Relay {
    pipeline: Pipeline,
    names: Names,
    frames: Frames<Backend>,
    presence: Presence,
    ahead: Ahead,
    /// Of the client's message that is under way, and of the server's.
    asked: Rest,
    said: Rest,
    /// The numbers of the gate's own queries, and the error of the first.
    own: VecDeque<u64>,
    own_failed: Option<SqlState>,
    /// The rows of the last command of the first of them.
    own_rows: u64,
    scratch: Vec<u8>,
    /// Replies of the gate's own that are due. As PostgreSQL holds its own until it has to send, they
    /// go with what the server says next, or where the client has sent Flush: alone they would only
    /// wake the client.
    due: Vec<u8>,
    prepares: Prepares,
}

impl Relay {
    fn with(pipeline: Pipeline, names: Names, limits: Limits) -> Relay {
        Relay {
            pipeline,
            names,
            frames: Frames::new(limits),
            presence: Presence::There,
            ahead: Ahead::default(),
            asked: Rest::None,
            said: Rest::None,
            own: VecDeque::new(),
            own_failed: None,
            own_rows: 0,
            scratch: Vec::new(),
            due: Vec::new(),
            prepares: Prepares::default(),
        }
    }

    /// For clients that have another server in each transaction. `limits` are those of the server's
    /// messages.
    pub fn new(limits: Limits) -> Relay {
        Relay::with(Pipeline::new(), Names::Rewriting(Box::default()), limits)
    }

    /// For a client that has the server for its whole session: names pass as they are.
    pub fn transparent(limits: Limits) -> Relay {
        Relay::with(Pipeline::new(), Names::Passthrough, limits)
    }

    /// For a replication connection: nothing is followed, and it is never anybody else's.
    pub fn of_replication(limits: Limits) -> Relay {
        Relay::with(Pipeline::of_replication(), Names::Passthrough, limits)
    }

    /// Says what becomes from now on of that which clients ask behind the end of what may be a
    /// transaction.
    pub fn set_ahead(&mut self, ahead: Ahead) {
        self.ahead = ahead;
    }

    /// Takes as much as it can of what a client has sent: whole messages, and pieces of large ones.
    /// `frames` are those of the client's stream, and between two messages when it gets the server.
    ///
    /// # Errors
    /// If the client must be told so and closed. What was written before is good.
    ///
    /// # Panics
    /// If the client before was [left](Relay::leave) and the server is not free yet.
    pub fn from_client(
        &mut self,
        client_statements: &mut ClientStatements<'_>,
        frames: &mut Frames<Frontend>,
        readable: &[u8],
        to_server: &mut impl Out,
        to_client: &mut Vec<u8>,
    ) -> Result<Taken, ClientFault> {
        // What the server still says then is for the client before: this one would be told it.
        assert!(matches!(self.presence, Presence::There), "the server is not free yet");
        let mut run = Run::new(to_server);
        let taken = self.take(client_statements, frames, readable, &mut run, to_client);
        run.end();
        match &taken {
            Ok(taken) => debug_assert!(taken.bytes <= readable.len(), "{taken:?} is not readable"),
            // Before the client is told so and closed.
            Err(_) => to_client.append(&mut self.due),
        }
        taken
    }

    fn take(
        &mut self,
        client_statements: &mut ClientStatements<'_>,
        frames: &mut Frames<Frontend>,
        readable: &[u8],
        run: &mut Run<'_, impl Out>,
        to_client: &mut Vec<u8>,
    ) -> Result<Taken, ClientFault> {
        let mut at = 0;
        loop {
            let rest = &readable[at..];
            let piece = frames.look(rest)?;
            match piece {
                Piece::More { missing } => {
                    let stop = Stop::More { needs: rest.len() + missing };
                    return Ok(Taken { bytes: at, stop });
                }
                Piece::Rest { here, left } => {
                    if self.asked == Rest::Passes {
                        run.pass(at..at + here);
                    }
                    // Not before its last byte: a message of the gate's would stand within the
                    // client's.
                    if left == 0 {
                        self.asked = Rest::None;
                        self.pipeline.resolve(&mut self.scratch);
                    }
                }
                Piece::Whole { tag, len } | Piece::Begin { tag, len, .. } => {
                    // Nothing is noted of it before it is taken: the same bytes may come again, and
                    // perhaps more of them.
                    let message = Message { tag, len, here: &rest[..piece.bytes()] };
                    if let Some(stop) = self.message(client_statements, message, at, run)? {
                        self.put_scratch(run);
                        self.answer(client_statements.cache);
                        return Ok(match stop {
                            Stop::Terminated => Taken { bytes: at + frames.take(piece), stop },
                            _ => Taken { bytes: at, stop },
                        });
                    }
                    // While the message is here in part, this waits for its end, above.
                    if self.asked == Rest::None {
                        self.pipeline.resolve(&mut self.scratch);
                    }
                    self.answer(client_statements.cache);
                    if !self.due.is_empty() {
                        self.give_due(tag, to_client);
                    }
                }
            }
            self.put_scratch(run);
            at += frames.take(piece);
        }
    }

    /// A message of the client's that begins at `at`; why it is not taken, if it is not.
    fn message(
        &mut self,
        client_statements: &mut ClientStatements<'_>,
        message: Message<'_>,
        at: usize,
        run: &mut Run<'_, impl Out>,
    ) -> Result<Option<Stop>, ClientFault> {
        let Message { tag, len, here } = message;
        // The order counts. A fault is told at once, whatever there is to wait for; Terminate waits for
        // nothing; and only what need not wait is looked at, since looking has effects.
        self.pipeline.permits(tag)?;
        if tag == Frontend::Terminate {
            return Ok(Some(Stop::Terminated));
        }
        if self.pipeline.must_wait(tag, &mut self.scratch) {
            return Ok(Some(Stop::Later));
        }
        if self.ahead == Ahead::Waits && self.must_part(tag) {
            return Ok(Some(Stop::Later));
        }
        let forward = match &mut self.names {
            Names::Passthrough => transparently(&mut self.pipeline, tag, &mut self.scratch)?,
            Names::Rewriting(statements) => {
                let client_statements =
                    (&mut *client_statements.client, &mut *client_statements.cache);
                let out = &mut self.scratch;
                statements.ask(&mut self.pipeline, client_statements, message, out)
            }
        };
        let behind = match forward {
            Forward::Later => return Ok(Some(Stop::Later)),
            Forward::Whole => return Ok(Some(Stop::More { needs: len })),
            Forward::Sequences => return Ok(Some(Stop::Sequences)),
            Forward::AsItIs => Some(0),
            Forward::Behind { bytes } => Some(bytes),
            Forward::Nothing => None,
        };
        // Counted where it is taken: a message that has to wait comes here again.
        match tag {
            Frontend::Parse => self.prepares.client_parses += 1,
            Frontend::Bind => self.prepares.binds += 1,
            _ => {}
        }
        // What was written for the message stands before its bytes, or for the first of them.
        self.put_scratch(run);
        if let Some(behind) = behind {
            debug_assert!(behind <= here.len(), "{behind} bytes of {} replaced", here.len());
            run.pass(at + behind..at + here.len());
        }
        if here.len() < len {
            self.asked = if behind.is_some() { Rest::Passes } else { Rest::Falls };
        }
        Ok(None)
    }

    /// True if a message may belong to another server, and waits until this one can be left. A
    /// segment that has only prepared something, up to the client's Flush, is ended for that when it
    /// is answered, unless it has failed: whoever waits for the shape of a statement before it says
    /// the values would run it where nothing was known of them.
    fn must_part(&mut self, tag: Frontend) -> bool {
        if self.pipeline.may_begin_anew(tag) {
            return true;
        }
        if !self.pipeline.runs_late(tag) {
            return false;
        }
        // The segment has run nothing, so that a Sync of the gate's commits nothing.
        let next = match self.pipeline.is_answered() {
            true => Frontend::Sync,
            false if self.pipeline.turn() == Turn::Client => Frontend::Flush,
            false => return true,
        };
        if let Ok(sent) = self.pipeline.send(next, Whose::Gate) {
            write::bare(&mut self.scratch, next);
            // What the client has prepared counts as an earlier batch from here on.
            if let (Names::Rewriting(statements), Sent::Owes(number)) = (&mut self.names, sent) {
                statements.ended(number);
            }
        }
        true
    }

    fn put_scratch(&mut self, run: &mut Run<'_, impl Out>) {
        if !self.scratch.is_empty() {
            run.put(&self.scratch);
            self.scratch.clear();
            self.scratch.shrink_to(SCRATCH_MAX);
        }
    }

    /// Gives the replies of the gate's own that are due where nothing that the server says would bring
    /// them: the client has asked for them by this message, or they are many.
    fn give_due(&mut self, tag: Frontend, to_client: &mut Vec<u8>) {
        // If the server owes anything, it answers the Flush, and these go before its reply. They never go
        // into the middle of a message that is passing to the client.
        let asks = tag == Frontend::Flush && !self.pipeline.is_owed();
        if self.said == Rest::None && (asks || self.due.len() > DUE_MAX) {
            to_client.append(&mut self.due);
        }
    }

    /// Does what the gate answers itself and has its turn.
    fn answer(&mut self, cache: &mut StatementCache) {
        while let Some((number, reply)) = self.pipeline.next_local() {
            if let Names::Rewriting(statements) = &mut self.names {
                statements.answered(&self.pipeline, number, cache);
            }
            // Of a client that has gone they count all the same: its names must be put right.
            if matches!(self.presence, Presence::There) {
                let tag = match reply {
                    Local::ParseComplete => Backend::ParseComplete,
                    Local::CloseComplete => Backend::CloseComplete,
                };
                write::bare(&mut self.due, tag);
            }
        }
    }
}

impl Relay {
    /// The client has gone, or is no longer listened to. Writes what the server must be told, and
    /// says what it needs; what follows is done as the server is heard, until
    /// [`kept`](Relay::kept) has nothing more. Where it is [Close](Abandoned::Close), now or later,
    /// the connection is to be [ended](Relay::end). What the server says is for nobody.
    ///
    /// # Panics
    /// If the client before is not cleaned up behind.
    pub fn leave(
        &mut self,
        client: Client,
        cache: &mut StatementCache,
        to_server: &mut Vec<u8>,
    ) -> Abandoned {
        assert!(matches!(self.presence, Presence::There), "the server is not free yet");
        let forwarded = match self.asked {
            Rest::Passes => Forwarded::InPart,
            // The bytes of a message that falls go nowhere, so none is missing at the server.
            Rest::None | Rest::Falls => Forwarded::Whole,
        };
        self.asked = Rest::None;
        // The rest of what the server is saying must be read up to its end, for nobody.
        if self.said == Rest::Passes {
            self.said = Rest::Falls;
        }
        self.presence = Presence::Gone(client);
        self.due.clear();
        self.parted();
        self.clean(forwarded, cache, to_server)
    }

    fn clean(
        &mut self,
        forwarded: Forwarded,
        cache: &mut StatementCache,
        to_server: &mut Vec<u8>,
    ) -> Abandoned {
        // Replies of the gate's own are for nobody, too.
        self.answer(cache);
        let abandoned = self.pipeline.abandon(forwarded, to_server);
        if abandoned != Abandoned::Free {
            return abandoned;
        }
        if !self.is_between() {
            return Abandoned::Waits(Kept::Message);
        }
        if let Names::Rewriting(statements) = &self.names {
            assert!(statements.is_settled(), "a reply that is due would be the next client's");
        }
        // Its names stay up to here: each reply on the way has confirmed or undone one.
        if let Presence::Gone(client) = std::mem::replace(&mut self.presence, Presence::There) {
            cache.forget(client);
        }
        Abandoned::Free
    }

    /// The gate's own question, before a client's or behind it. Nobody hears the replies;
    /// [`News::Own`] tells of the end.
    ///
    /// # Errors
    /// If the connection has ended.
    ///
    /// # Panics
    /// If the server is kept by what a client has asked.
    pub fn query(
        &mut self,
        sql: &(impl AsRef<[u8]> + ?Sized),
        to_server: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let number = match self.pipeline.send(Frontend::Query, Whose::Gate)? {
            Sent::Owes(number) => Some(number),
            Sent::OwesNothing | Sent::Discarded => None,
        };
        // The questions before this one are all that is queued: the gate knows its own by these numbers.
        let expected = self.pipeline.front_number() + self.own.len() as u64;
        assert_eq!(number, Some(expected), "a client's questions are answered before the gate's");
        self.own.push_back(expected);
        write::query(to_server, sql);
        Ok(())
    }

    /// The session has dropped all statements, as by a [query](Relay::query) of `DISCARD ALL`: none
    /// is there, and nothing is left of clients.
    ///
    /// # Panics
    /// If replies are owed to a client.
    pub fn discarded(&mut self) {
        if let Names::Rewriting(statements) = &mut self.names {
            statements.discarded();
        }
        self.cleaned();
    }

    /// The client that was there has the server no longer, and asked for all to its end: what it has
    /// moved of sequences is none of the next one's.
    pub fn parted(&mut self) {
        if let Names::Rewriting(statements) = &mut self.names {
            statements.parted();
        }
    }

    /// The session has forgotten what it has moved of sequences, as by a [query](Relay::query) of
    /// `DISCARD SEQUENCES`.
    pub fn sequences_discarded(&mut self) {
        if let Names::Rewriting(statements) = &mut self.names {
            statements.sequences_discarded();
        }
    }

    /// True if the session may have moved sequences for clients before.
    pub fn has_others_sequences(&self) -> bool {
        match &self.names {
            Names::Rewriting(statements) => statements.has_others_sequences(),
            Names::Passthrough => false,
        }
    }

    /// The gate has cleaned the session of all that [`left`](Relay::left) tells.
    pub fn cleaned(&mut self) {
        if let Names::Rewriting(statements) = &mut self.names {
            statements.cleaned();
        }
    }

    /// Session state left by clients, as far as their texts tell. Nothing is looked at where the
    /// relay is [transparent](Relay::transparent).
    pub fn left(&self) -> Left {
        match &self.names {
            Names::Rewriting(statements) => *statements.left(),
            Names::Passthrough => Left::default(),
        }
    }

    /// The connection is at its end: what its client has asked and got no reply for has not
    /// happened. `client` as in [`from_server`](Relay::from_server).
    pub fn end(self, client: Option<&mut Client>, cache: &mut StatementCache) {
        // A client that has gone is the relay's to put right and forget. One that is there is told by its
        // owner, and goes on.
        let mut gone = match self.presence {
            Presence::Gone(client) => Some(client),
            Presence::There => None,
        };
        if let (Names::Rewriting(statements), Some(client)) = (self.names, gone.as_mut().or(client))
        {
            statements.lost(client, cache);
        }
        if let Some(client) = gone {
            cache.forget(client);
        }
    }

    /// Why the server may not be given to another client; none if it may, as far as messages tell
    /// that were taken: whoever has bytes of either side left over looks at these first. See
    /// [`pins`](Relay::pins), too.
    pub fn kept(&self) -> Option<Kept> {
        match self.pipeline.kept() {
            Some(Kept::Ended(end)) => Some(Kept::Ended(end)),
            _ if !self.is_between() => Some(Kept::Message),
            // `due` goes with this relay: these replies would reach the next client.
            None if !self.due.is_empty() => Some(Kept::Segment),
            None => {
                assert!(self.own.is_empty(), "a question of the gate's is not answered");
                None
            }
            kept => kept,
        }
    }

    fn is_between(&self) -> bool {
        self.frames.is_between() && self.asked == Rest::None
    }

    /// Why the client needs this server for itself beyond its transaction: what it has left there, by
    /// choice.
    pub fn pins(&self) -> Reasons {
        match &self.names {
            Names::Rewriting(statements) => statements.pins(),
            Names::Passthrough => Reasons::default(),
        }
    }

    /// As of the last ReadyForQuery.
    pub fn status(&self) -> Status {
        self.pipeline.status()
    }

    /// The side that must go on: for deadlines, and for the charge of a held slot.
    pub fn turn(&self) -> Turn {
        self.pipeline.turn()
    }

    /// The statements that were prepared since this was last asked.
    pub fn take_prepares(&mut self) -> Prepares {
        let Prepares { client_parses, binds, .. } = std::mem::take(&mut self.prepares);
        let server_parses = match &mut self.names {
            Names::Rewriting(statements) => statements.take_parses(),
            // A Parse passes as it is, so the server gets each.
            Names::Passthrough => client_parses,
        };
        Prepares { client_parses, server_parses, binds }
    }

    /// Number of statements that the server has prepared for clients, as far as that is known.
    pub fn prepared(&self) -> usize {
        match &self.names {
            Names::Rewriting(statements) => statements.prepared(),
            Names::Passthrough => 0,
        }
    }
}

/// Treatment of a message where names are as they are.
fn transparently(
    pipeline: &mut Pipeline,
    tag: Frontend,
    out: &mut Vec<u8>,
) -> Result<Forward, SendError> {
    if pipeline.is_full() {
        // The server may hold all replies back until it is asked for them, and the client that would ask
        // is not read any more.
        if pipeline.turn() == Turn::Client {
            pipeline.send(Frontend::Flush, Whose::Gate)?;
            write::bare(out, Frontend::Flush);
        }
        return Ok(Forward::Later);
    }
    Ok(match pipeline.send(tag, Whose::Client)? {
        Sent::Discarded => Forward::Nothing,
        Sent::Owes(_) | Sent::OwesNothing => Forward::AsItIs,
    })
}
