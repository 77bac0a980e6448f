//! Protocol pipeline of one server connection: the replies that the server still owes, and the
//! reasons why the connection may not go to another client.
//!
//! [`Pipeline`] is told of every message that goes to the server ([`send`](Pipeline::send))
//! and of every one that comes from it ([`receive`](Pipeline::receive)), and follows the server
//! through the states of PostgreSQL's main loop (14 to 18: documentation, chapter "Message Flow"):
//!
//! | the server is | it looks at | it passes over | it leaves by |
//! | --- | --- | --- | --- |
//! | reading | everything; each request has its replies, in order | CopyData, CopyDone, CopyFail | |
//! | skipping, after an error in Parse, Bind, Describe, Execute or Close | Sync | everything else, Query and FunctionCall too | Sync, which has its ReadyForQuery |
//! | in COPY from the client | CopyData, CopyDone, CopyFail | **Sync and Flush** | CopyDone: the statement is done. CopyFail or an error: reading if it came with Query, else skipping |
//! | in COPY to the client | nothing | | its CopyDone, or an error |
//! | gone | | | it said FATAL |
//!
//! An error of a Query or FunctionCall skips nothing that follows. Any other message during COPY
//! from the client ends the session, so it is refused here. NoticeResponse, NotificationResponse and
//! ParameterStatus come at any time and answer nothing.
//!
//! **An ambiguous Sync, and the marker that resolves it.** A Sync behind the Execute of COPY is
//! swallowed if the COPY reads it, and answered if the COPY fails before; nothing that the server
//! says tells which. So after such a failure [`resolve`](Pipeline::resolve) asks, behind the
//! next Sync, to close a portal that does not exist: what is ready before that answer belongs to
//! the client, and nothing after it can. It does not ask where the client has asked for more
//! already: that answer tells as much, and the question would end a session that turns out to be in
//! another COPY. A client that goes on without a Sync has to wait for a question of another kind
//! (`ask`): Close, Sync, Close, Close, Sync. A server that skips passes over the first Close, so
//! that two come behind its first ReadyForQuery, where one that does not answers one. What is ready
//! before that is held until then, since only then it is known whose it is.
//!
//! Who moves the bytes keeps one order, as a [relay](super::relay) does. To the server: [`send`](Pipeline::send), the message,
//! then what [`resolve`](Pipeline::resolve) writes. From the server:
//! [`receive`](Pipeline::receive), the message to whom it is for, what
//! [`next_local`](Pipeline::next_local) has for the client, then `resolve`. Without a client:
//! [`abandon`](Pipeline::abandon) in the place of `resolve`.
//!
//! A request has a [number](Sent::Owes), so that others can keep what they know of it beside.
//!
//! ```
//! use pgsession::pipeline::{Pipeline, Kept, Whose};
//! use pgwire::frame::{Backend, Frontend};
//!
//! let mut pipeline = Pipeline::new();
//! pipeline.send(Frontend::Query, Whose::Client)?;
//! assert!(matches!(pipeline.kept(), Some(Kept::Owes { .. })));
//! pipeline.receive(Backend::CommandComplete, b"BEGIN\0")?;
//! pipeline.receive(Backend::ReadyForQuery, b"T")?;
//! assert_eq!(pipeline.kept(), Some(Kept::InTransaction));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod internal;
mod replies;

use std::collections::VecDeque;
use std::fmt;

use thiserror::Error;

pub use internal::{Abandoned, Forwarded};
pub use replies::{Fate, Received, To, Violation};

use pgwire::SqlState;
use pgwire::frame::{Frontend, Tag};
use pgwire::message::Status;

/// Limit of a client's outstanding requests; two bytes each.
// So the queue of a server takes 8 KiB, however much its client pipelines. A client at the limit is not
// refused: it is read no further until replies have come.
pub const OWED_MAX: usize = 4096;

/// Side that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The client: it hears the replies.
    Client,
    /// The gate, for its own purposes: nobody hears them, except an error that fails a segment, which
    /// is the client's.
    Gate,
}

/// A reply that the gate gives itself, where its request would have been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// The statement is there already.
    ParseComplete,
    /// The statement is one of the gate's, which stays.
    CloseComplete,
}

/// Effect of a message that is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is a request of this number, and the server will reply. Numbers count from 0, with gaps
    /// for what is never answered.
    Owes(u64),
    /// It has no reply of its own.
    OwesNothing,
    /// The server will pass over it, so it may as well be left out.
    Discarded,
}

/// Why a message must not be sent. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Too many requests are outstanding: no fault. Send Flush, read no more from this client, and
    /// try again when there were replies.
    #[error("{OWED_MAX} requests have no reply yet")]
    Full,
    /// The server waits for rows. It would end the session.
    #[error("unexpected message type 0x{byte:02X} during COPY from stdin")]
    DuringCopy {
        /// Its tag.
        byte: u8,
    },
    /// A COPY has failed, and it cannot be known whether the server skips to the next Sync.
    #[error("after a COPY that failed with a Sync inside, only Sync can follow, not {tag:?}")]
    Ambiguous {
        /// Its tag.
        tag: Frontend,
    },
    /// It belongs to authentication.
    #[error("invalid frontend message type {byte}")]
    Unexpected {
        /// Its tag.
        byte: u8,
    },
    /// The connection is at its end.
    #[error("the connection to the server has ended")]
    Ended,
}

impl SendError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            SendError::Full => SqlState::PROGRAM_LIMIT_EXCEEDED,
            SendError::Ended => SqlState::CONNECTION_FAILURE,
            _ => SqlState::PROTOCOL_VIOLATION,
        }
    }
}

/// Why a server may not be given to another client. What SQL leaves behind (settings, LISTEN,
/// temporary tables, advisory locks) is not seen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The connection has ended, or must.
    Ended(End),
    /// A replication connection belongs to its client for life.
    Replication,
    /// A message is under way, of the client or of the server.
    Message,
    /// COPY waits for rows of the client.
    CopyIn,
    /// COPY has rows for the client.
    CopyOut,
    /// It is not known how many ReadyForQuery a COPY that failed has left.
    Ambiguous,
    /// Replies are outstanding.
    Owes {
        /// ReadyForQuery.
        ready: u32,
        /// Requests in all.
        requests: u32,
    },
    /// After an error, the server skips to a Sync that has not come.
    Skipping,
    /// A segment has begun and has no Sync: an implicit transaction, perhaps.
    Segment,
    /// A transaction is open.
    InTransaction,
    /// A transaction has failed and was not rolled back.
    InFailedTransaction,
}

impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kept::Ended(End::Terminated) => "the session has been terminated",
            Kept::Ended(End::Fatal) => "the server has ended the session",
            Kept::Ended(End::Lost) => "it is not known what the server will say",
            Kept::Replication => "it is a replication connection",
            Kept::Message => "a message is under way",
            Kept::CopyIn => "COPY waits for rows",
            Kept::CopyOut => "COPY has rows",
            Kept::Ambiguous => "a COPY failed with a Sync inside",
            Kept::Owes { ready, requests } => {
                return write!(out, "{requests} replies and {ready} ReadyForQuery are outstanding");
            }
            Kept::Skipping => "a series has failed and has no Sync yet",
            Kept::Segment => "a series has no Sync yet",
            Kept::InTransaction => "a transaction is open",
            Kept::InFailedTransaction => "a failed transaction is open",
        })
    }
}

/// End of a connection. It is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Terminate was sent.
    Terminated,
    /// The server said FATAL or PANIC.
    Fatal,
    /// Nobody can tell what the next reply would belong to.
    Lost,
}

/// Side that must go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The server: a reply will come without anything more.
    Server,
    /// The client: nothing is owed, or only what a Flush, a Sync or rows would bring.
    Client,
}

/// Kind of a request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    Sync,
    Query,
    FunctionCall,
    /// CopyDone or CopyFail, which ends the COPY of a request before it, if there is one.
    CopyEnd,
    /// Answered by the gate.
    Here(Local),
    /// Swallowed by a COPY.
    Void,
}

impl Kind {
    fn owes_ready(self) -> bool {
        matches!(self, Kind::Sync | Kind::Query | Kind::FunctionCall)
    }

    fn may_copy(self) -> bool {
        matches!(self, Kind::Query | Kind::Execute)
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
    kind: Kind,
    whose: Whose,
}

const _: () = assert!(size_of::<Request>() == 2, "the bound of the queue counts on two bytes each");

impl Request {
    /// True if the server answers it by something that is not ReadyForQuery.
    fn has_reply_of_its_own(self) -> bool {
        !matches!(self.kind, Kind::Sync | Kind::CopyEnd | Kind::Here(_) | Kind::Void)
    }
}

/// Progress of the request at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    /// A statement of it is done.
    Answered,
    /// All that can come is ReadyForQuery.
    Failed,
}

/// The COPY of the request at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    Closed,
    Out,
    /// The client may still send rows; so many Syncs were sent since the request.
    In {
        syncs: u32,
    },
    /// CopyDone or CopyFail has been sent.
    InEnded {
        syncs: u32,
    },
    /// Something else was sent, before it was known to be COPY. The server ends the session unless
    /// the COPY fails first.
    InBroken {
        syncs: u32,
    },
}

/// The server's skipping to the next Sync. While it skips, no reply is owed to the client; the last
/// Sync of a [`Question`] may be outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    No,
    Yes,
    /// Yes, unless an ambiguous Sync was answered.
    Maybe,
}

/// State of the segment sent since the last Sync, whatever becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Closed,
    /// Nothing of it runs anything.
    Preparing,
    /// The same, and the client wants the replies before it goes on.
    Prepared,
    Open,
    /// A Query came behind, which closes it unless it is skipped.
    Queried,
}

/// The state of one connection to a server that is past its start-up.
#[derive(Clone, Debug)]
pub struct Pipeline {
    queue: VecDeque<Request>,
    /// Number of these that may be the end of a COPY.
    copy_ends: u32,
    /// The number of the request at the front.
    front_number: u64,
    ready_owed: u32,
    stage: Stage,
    copy: Copy,
    skip: Skip,
    segment: Segment,
    /// The ReadyForQuery that may come beyond those owed, one for each ambiguous Sync.
    extra: u32,
    /// The sync marker for these.
    sync_marker: SyncMarker,
    /// The probe that tells whether the server skips.
    // Boxed, since nearly no connection ever needs it, and each would carry its size.
    question: Option<Box<Question>>,
    flushed: Flushed,
    status: Status,
    end: Option<End>,
    replication: Replication,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncMarker {
    Absent,
    Placed,
}

/// Question that tells by the replies whether the server skips.
#[derive(Clone, Debug)]
struct Question {
    /// ReadyForQuery with these states, held back; once the answer is there, the client's.
    withheld: VecDeque<Status>,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// No Close was answered.
    Outstanding,
    /// One was: another one says that the server has skipped.
    Begun,
    /// It has not skipped.
    Given,
}

/// Request to the server to send what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    No,
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replication {
    No,
    Yes,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline::new()
    }
}

impl Pipeline {
    /// A session at its first ReadyForQuery.
    pub fn new() -> Pipeline {
        Pipeline {
            queue: VecDeque::new(),
            copy_ends: 0,
            front_number: 0,
            ready_owed: 0,
            stage: Stage::Fresh,
            copy: Copy::Closed,
            skip: Skip::No,
            segment: Segment::Closed,
            extra: 0,
            sync_marker: SyncMarker::Absent,
            question: None,
            flushed: Flushed::No,
            status: Status::Idle,
            end: None,
            replication: Replication::No,
        }
    }

    /// A replication connection: nothing is followed, and it is never anybody else's.
    pub fn of_replication() -> Pipeline {
        Pipeline { replication: Replication::Yes, ..Pipeline::new() }
    }

    /// As of the last ReadyForQuery.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why the server may not be given to another client; `None` if it may. The caller sees to it
    /// that both streams stand between two messages.
    pub fn kept(&self) -> Option<Kept> {
        if let Some(end) = self.end {
            return Some(Kept::Ended(end));
        }
        if self.replication == Replication::Yes {
            return Some(Kept::Replication);
        }
        // A COPY has its request in the queue, too, but it needs more than time: one from the client waits
        // for rows.
        match self.copy {
            Copy::In { .. } => return Some(Kept::CopyIn),
            Copy::Out => return Some(Kept::CopyOut),
            _ => {}
        }
        // An empty queue proves nothing here: an ambiguous Sync may still be answered, and its
        // ReadyForQuery would reach the next client.
        if self.extra > 0 {
            return Some(Kept::Ambiguous);
        }
        if !self.queue.is_empty() {
            return Some(Kept::Owes { ready: self.ready_owed, requests: self.queue.len() as u32 });
        }
        assert!(
            self.ready_owed == 0 && self.copy == Copy::Closed,
            "nobody has asked for what is owed"
        );
        match (self.skip, self.segment, self.status) {
            (Skip::Yes | Skip::Maybe, ..) => Some(Kept::Skipping),
            // The status is that of the last ReadyForQuery. An implicit transaction that a segment has
            // begun since does not show in it, so the segment is asked before.
            _ if self.segment.is_open() => Some(Kept::Segment),
            (_, _, Status::InTransaction) => Some(Kept::InTransaction),
            (_, _, Status::InFailedTransaction) => Some(Kept::InFailedTransaction),
            (_, _, Status::Idle) => None,
        }
    }

    /// The side that must go on: for deadlines, and for the charge of a held slot.
    pub fn turn(&self) -> Turn {
        // PostgreSQL sends its buffer with each ReadyForQuery (`ReadyForQuery` in dest.c flushes) and
        // with Flush. Any other reply may stay there for as long as the client says nothing.
        let comes = self.ready_owed > 0 || self.flushed == Flushed::Yes && !self.queue.is_empty();
        match self.copy {
            _ if self.end.is_some() => Turn::Client,
            Copy::In { .. } => Turn::Client,
            // What ends the session is in the server's input already, so the server acts next.
            Copy::InBroken { .. } => Turn::Server,
            // The last rows of a COPY that nobody has flushed stay with the server, too.
            _ if comes => Turn::Server,
            _ => Turn::Client,
        }
    }

    /// True if [`SendError::Full`] would be the answer to a client's next request.
    pub fn is_full(&self) -> bool {
        // Rows and the Syncs among them are not queued, so a COPY goes on at the limit.
        self.queue.len() >= OWED_MAX && !matches!(self.copy, Copy::In { .. })
    }

    /// A message is about to be sent. Of a large one this is told when it begins.
    ///
    /// # Errors
    /// If it must not be sent.
    pub fn send(&mut self, tag: Frontend, whose: Whose) -> Result<Sent, SendError> {
        // Only a client can ask without end. What the gate sends ends a state that is there, and a
        // refusal would leave the server in it.
        let bound = if whose == Whose::Client { OWED_MAX } else { usize::MAX };
        self.send_within(tag, whose, bound)
    }

    /// The same for a client's message that others of the gate's may stand before: whoever sends
    /// these has asked [`is_full`](Pipeline::is_full) before the first.
    pub(super) fn send_behind_others(
        &mut self,
        tag: Frontend,
        whose: Whose,
    ) -> Result<Sent, SendError> {
        self.send_within(tag, whose, usize::MAX)
    }

    fn send_within(
        &mut self,
        tag: Frontend,
        whose: Whose,
        bound: usize,
    ) -> Result<Sent, SendError> {
        use Frontend as F;
        if self.end.is_some() {
            return Err(SendError::Ended);
        }
        // Both sides stream at once there (CopyBoth), and no message answers another.
        if self.replication == Replication::Yes {
            return Ok(Sent::OwesNothing);
        }
        assert!(self.skip == Skip::No || self.queue.len() <= 1, "a server that skips owes replies");
        // It ends the session in every state: a server that skips hears it (`SocketBackend`), and a
        // COPY takes it for an unexpected message.
        if tag == F::Terminate {
            self.end = Some(End::Terminated);
            return Ok(Sent::OwesNothing);
        }
        if let Copy::In { syncs } = self.copy {
            return self.send_into_copy(tag, syncs);
        }
        let kind = match tag {
            F::Password | F::Terminate => {
                return Err(SendError::Unexpected { byte: tag.byte() });
            }
            // PostgreSQL ignores these outside of a COPY, since a client may still send rows when
            // its COPY has failed.
            F::CopyData | F::CopyDone | F::CopyFail if self.queue.is_empty() => {
                return Ok(Sent::Discarded);
            }
            // Rows ahead of the reply that asks for them: nothing ever answers a row.
            F::CopyData => return Ok(Sent::OwesNothing),
            F::Flush if self.skip != Skip::No => return Ok(Sent::Discarded),
            F::Flush => {
                self.flush(whose);
                return Ok(Sent::OwesNothing);
            }
            F::CopyDone | F::CopyFail => Kind::CopyEnd,
            F::Parse => Kind::Parse,
            F::Bind => Kind::Bind,
            F::Describe => Kind::Describe,
            F::Execute => Kind::Execute,
            F::Close => Kind::Close,
            F::Sync => Kind::Sync,
            F::Query => Kind::Query,
            F::FunctionCall => Kind::FunctionCall,
        };
        match self.skip {
            // PostgresMain drops them while `ignore_till_sync` is set, which Sync alone clears.
            Skip::Yes if kind != Kind::Sync => return Ok(Sent::Discarded),
            // The COPY may have swallowed the Sync that would end the skipping: this would run or
            // not, and its reply could not be told from others. A relay asks first (`must_wait`).
            Skip::Maybe if kind != Kind::Sync => return Err(SendError::Ambiguous { tag }),
            _ => {}
        }
        // Before any field is changed: an error promises that nothing has.
        let sent = self.push(Request { kind, whose }, bound)?;
        self.skip = Skip::No;
        self.segment = self.segment.after(kind);
        self.count(kind);
        Ok(if kind == Kind::CopyEnd { Sent::OwesNothing } else { sent })
    }

    fn flush(&mut self, whose: Whose) {
        self.flushed = Flushed::Yes;
        // The client wants to see what it has prepared. A Flush of the gate's says nothing of that.
        if whose == Whose::Client && self.segment == Segment::Preparing {
            self.segment = Segment::Prepared;
        }
    }

    /// Counts a request that was put behind the others.
    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::CopyEnd => self.copy_ends += 1,
            _ if kind.owes_ready() => self.ready_owed += 1,
            // A Flush before it covers no later request; Sync, Query and FunctionCall need none.
            _ => self.flushed = Flushed::No,
        }
    }

    /// Fails if [`send`](Pipeline::send) would refuse a message of the client for another
    /// reason than that too many are outstanding.
    pub(super) fn permits(&self, tag: Frontend) -> Result<(), SendError> {
        use Frontend as F;
        // Whoever moves the bytes asks this before anything of the message is written: `send` would say
        // the same when messages of the gate's for it are on their way.
        let copies = matches!(tag, F::CopyData | F::CopyDone | F::CopyFail);
        match (self.end, self.copy) {
            (Some(_), _) => Err(SendError::Ended),
            _ if self.replication == Replication::Yes || tag == F::Terminate => Ok(()),
            (_, Copy::In { .. }) if !copies && !matches!(tag, F::Sync | F::Flush) => {
                Err(SendError::DuringCopy { byte: tag.byte() })
            }
            _ if tag == F::Password => Err(SendError::Unexpected { byte: tag.byte() }),
            _ => Ok(()),
        }
    }

    /// True if a message of the client's has to wait until the server has said more: behind a COPY
    /// that has failed, or may fail, with a Sync inside it cannot be known what becomes of it. What
    /// would bring the reply is asked for.
    pub(super) fn must_wait(&mut self, tag: Frontend, out: &mut Vec<u8>) -> bool {
        use Frontend as F;
        // The question's Sync ends the skipping at the server. If the server did skip, the gate must drop
        // what the client sends up to its own Sync. Only the answer tells, so all messages wait for it.
        let asks = self.question.as_ref().is_some_and(|one| one.answer != Answer::Given);
        if asks && self.end.is_none() {
            return true;
        }
        // These may stand within a COPY and outside of one, and the queue knows what either makes of
        // them.
        if matches!(tag, F::CopyData | F::CopyDone | F::CopyFail | F::Sync | F::Flush) {
            return false;
        }
        if self.skip == Skip::Maybe {
            self.ask(out);
            return true;
        }
        if !self.may_be_swallowed() {
            return false;
        }
        // The client's message waits for the reply that decides, and no Flush may be on its way.
        if self.turn() == Turn::Client {
            self.say(F::Flush, out, |_| {});
        }
        true
    }

    /// True if a message of the client's stands behind what the server will end by ReadyForQuery,
    /// so that it may begin a transaction of its own. What is ambiguous behind a COPY counts as soon
    /// as the server has been asked.
    pub(super) fn may_begin_anew(&self, tag: Frontend) -> bool {
        use Frontend as F;
        // Those that are left out belong to what is under way, or begin nothing.
        !matches!(tag, F::CopyData | F::CopyDone | F::CopyFail | F::Sync | F::Flush)
            && self.ready_owed > 0
    }

    /// True if a message of the client's is the first that runs anything in a segment of which it
    /// has asked for the replies before: what it has prepared so far has said nothing of what is
    /// run.
    pub(super) fn runs_late(&self, tag: Frontend) -> bool {
        // Execute cannot be the first: without a transaction there is no portal before a Bind.
        matches!(tag, Frontend::Bind | Frontend::Query | Frontend::FunctionCall)
            && (self.segment, self.status) == (Segment::Prepared, Status::Idle)
            && (self.skip, self.end, self.extra) == (Skip::No, None, 0)
    }

    /// True if the server is to say something yet: at once, or when the client asks for it.
    pub(super) fn is_owed(&self) -> bool {
        let is_servers =
            |request: &Request| !matches!(request.kind, Kind::Here(_) | Kind::CopyEnd | Kind::Void);
        self.end.is_none() && self.queue.iter().any(is_servers)
    }

    /// True if nothing is outstanding.
    pub(super) fn is_answered(&self) -> bool {
        self.queue.is_empty()
    }

    /// True if the end of a COPY was sent, if it is one, that has a Sync inside. What comes behind
    /// has no place of its own until that COPY is done or has failed.
    fn may_be_swallowed(&self) -> bool {
        match self.copy {
            Copy::InEnded { syncs } => syncs > 0,
            // The second search goes on where the first has stopped: a Sync, and behind it an end.
            Copy::Closed if self.copy_ends > 0 => {
                let mut kinds = self.queue.iter().map(|request| request.kind);
                kinds.any(|kind| kind == Kind::Sync) && kinds.any(|kind| kind == Kind::CopyEnd)
            }
            _ => false,
        }
    }

    /// The number of the request at the front, or of the next one if there is none.
    pub(super) fn front_number(&self) -> u64 {
        self.front_number
    }

    /// True if a COPY has swallowed the request of this number.
    pub(super) fn is_void(&self, number: u64) -> bool {
        // Nothing leaves the queue but at its front, so a number less that of the front is a place.
        let at = number.checked_sub(self.front_number).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.queue.get(at)).is_some_and(|request| request.kind == Kind::Void)
    }

    /// True if all that is not a Sync will be passed over.
    pub(super) fn is_skipping(&self) -> bool {
        self.skip != Skip::No
    }

    /// True if the server waits for rows of the client.
    pub(super) fn takes_rows(&self) -> bool {
        matches!(self.copy, Copy::In { .. })
    }

    /// While the server waits for rows, only what belongs to that may be sent.
    fn send_into_copy(&mut self, tag: Frontend, syncs: u32) -> Result<Sent, SendError> {
        match tag {
            // From here on messages count for the main loop again, so they are queued again.
            Frontend::CopyDone | Frontend::CopyFail => self.copy = Copy::InEnded { syncs },
            // PostgreSQL ignores a Sync among rows. It is counted, not queued: it is answered only
            // if the COPY fails before it has read it. Nothing bounds how many come among the rows.
            Frontend::Sync => self.copy = Copy::In { syncs: syncs.saturating_add(1) },
            Frontend::CopyData | Frontend::Flush => {}
            _ => return Err(SendError::DuringCopy { byte: tag.byte() }),
        }
        Ok(Sent::OwesNothing)
    }

    /// The gate answers a request of the client itself, at its place among the others. The reply
    /// is due when [`next_local`](Pipeline::next_local) says so.
    ///
    /// # Errors
    /// If the request must not be answered: as [`send`](Pipeline::send) has it.
    pub fn answer_here(&mut self, reply: Local) -> Result<Sent, SendError> {
        self.answer_within(reply, OWED_MAX)
    }

    /// The same behind messages of the gate's for that request, as
    /// [`send_behind_others`](Pipeline::send_behind_others).
    pub(super) fn answer_behind_others(&mut self, reply: Local) -> Result<Sent, SendError> {
        self.answer_within(reply, usize::MAX)
    }

    fn answer_within(&mut self, reply: Local, bound: usize) -> Result<Sent, SendError> {
        let tag = match reply {
            Local::ParseComplete => Frontend::Parse,
            Local::CloseComplete => Frontend::Close,
        };
        match (self.end, self.copy, self.skip) {
            (Some(_), ..) => Err(SendError::Ended),
            (_, Copy::In { .. }, _) => Err(SendError::DuringCopy { byte: tag.byte() }),
            // The server would pass over the request, so the gate's reply must not come either.
            (_, _, Skip::Yes) => Ok(Sent::Discarded),
            (_, _, Skip::Maybe) => Err(SendError::Ambiguous { tag }),
            _ => self.push(Request { kind: Kind::Here(reply), whose: Whose::Client }, bound),
        }
    }

    /// A reply of the gate's own that is due now, before anything else that the server says. Ask
    /// until there is none, after each [`answer_here`](Pipeline::answer_here) and each
    /// [`receive`](Pipeline::receive).
    pub fn next_local(&mut self) -> Option<(u64, Local)> {
        match self.queue.front() {
            // Its place is behind the replies to all before it, and one of these may be the ReadyForQuery
            // of an ambiguous Sync.
            Some(&Request { kind: Kind::Here(reply), .. }) if self.extra == 0 => {
                Some((self.pop(), reply))
            }
            _ => None,
        }
    }

    /// Puts a request behind the others. Those of the gate are few beside the client's.
    fn push(&mut self, request: Request, bound: usize) -> Result<Sent, SendError> {
        if self.queue.len() >= bound {
            return Err(SendError::Full);
        }
        // A request that a COPY swallows stays as `Void` up to the front: numbers keep no holes.
        let number = self.front_number + self.queue.len() as u64;
        self.queue.push_back(request);
        Ok(Sent::Owes(number))
    }

    /// Takes the request at the front away, and those behind it to which nobody replies; says its
    /// number.
    fn pop(&mut self) -> u64 {
        let number = self.front_number;
        self.drop_front();
        // No reply would ever take these away, and the queue would wait behind them for good.
        while let Some(Request { kind: Kind::CopyEnd | Kind::Void, .. }) = self.queue.front() {
            self.drop_front();
        }
        number
    }

    fn drop_front(&mut self) {
        if let Some(request) = self.queue.pop_front() {
            self.front_number += 1;
            self.ready_owed -= u32::from(request.kind.owes_ready());
            self.copy_ends -= u32::from(request.kind == Kind::CopyEnd);
        }
        if self.queue.is_empty() {
            assert_eq!((self.ready_owed, self.copy_ends), (0, 0), "counted of no request");
        }
        // Both were of the request that was at the front.
        self.stage = Stage::Fresh;
        self.copy = Copy::Closed;
    }
}

impl Segment {
    fn after(self, kind: Kind) -> Segment {
        match (kind, self) {
            (Kind::Parse | Kind::Describe | Kind::Close, Segment::Closed) => Segment::Preparing,
            (
                Kind::Parse | Kind::Describe | Kind::Close,
                Segment::Preparing | Segment::Prepared | Segment::Open,
            ) => self,
            // Whether the Query was skipped is not known yet. If it was, this goes on with a segment that
            // may have run something; that is the worse case, so it is taken.
            (Kind::Parse | Kind::Describe | Kind::Close, Segment::Queried) => Segment::Open,
            // A Bind runs something, too: the input functions of its parameters' types.
            (Kind::Bind | Kind::Execute, _) => Segment::Open,
            (Kind::Sync, _) => Segment::Closed,
            // Both end with `finish_xact_command`, which commits what the segment has done before, too.
            (Kind::Query | Kind::FunctionCall, _) if self.is_open() => Segment::Queried,
            _ => self,
        }
    }

    /// True if it has begun, and only Sync ends it.
    fn is_open(self) -> bool {
        matches!(self, Segment::Preparing | Segment::Prepared | Segment::Open)
    }
}
