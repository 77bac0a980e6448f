//! Messages from the server: the request that each belongs to, and its effect on that.

use thiserror::Error;

use super::internal::QUESTION;
use super::{
    Answer, Copy, End, Flushed, Kind, Pipeline, Replication, Request, Segment, Skip, Stage,
    SyncMarker, Whose,
};
use pgwire::SqlState;
use pgwire::frame::Backend;
use pgwire::message::Status;
use pgwire::message::read::{self, ReadError};

/// Receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The client.
    Client,
    /// Nobody: the gate had asked.
    Nobody,
}

/// Meaning of a message for the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It answers nothing: a notice, a notification, a setting.
    Aside,
    /// More will come to the same request; or one ReadyForQuery of those ambiguous.
    Underway,
    /// The request of this number is done.
    Done(u64),
    /// The request `number` has failed, and the server skips the rest of its segment: all requests
    /// below `next`. A Query, FunctionCall or Sync fails alone, and its ReadyForQuery will end it:
    /// it is [`Underway`](Fate::Underway).
    Failed {
        /// The one that failed.
        number: u64,
        /// The first that is not skipped.
        next: u64,
    },
    /// The connection must be closed.
    Ended(End),
}

/// Receiver and meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The receiver.
    pub to: To,
    /// The meaning.
    pub fate: Fate,
}

/// The server has said what it could not say. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Nobody has asked for it.
    #[error("the server sent {tag:?}, and nothing was asked")]
    Unasked {
        /// The message that came.
        tag: Backend,
    },
    /// Something else was asked for.
    #[error("the server sent {tag:?} in answer to {asked}")]
    Unfitting {
        /// The message that came.
        tag: Backend,
        /// The request.
        asked: &'static str,
    },
    /// A message cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The connection had ended before.
    #[error("the server sent {tag:?} after the end")]
    Ended {
        /// The message that came.
        tag: Backend,
    },
}

impl Violation {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

/// Effect of a reply on the request at the front.
enum Step {
    Goes,
    /// A statement of several is done, perhaps the last.
    Answers,
    CopiesIn,
    CopiesOut,
    CopyOver,
    Ends,
}

impl Pipeline {
    /// A message has come. `body` is what is here of it, behind its head: all of a message that is
    /// short by nature, the front of a longer one.
    ///
    /// # Errors
    /// If the server could not say that. The connection is [lost](End::Lost) then.
    pub fn receive(&mut self, tag: Backend, body: &[u8]) -> Result<Received, Violation> {
        if self.end.is_some() {
            return Err(Violation::Ended { tag });
        }
        let received = self.hear(tag, body);
        // One reply without a request puts the place of every later one in question, so nothing is repaired.
        if received.is_err() {
            self.end = Some(End::Lost);
        }
        received
    }

    fn hear(&mut self, tag: Backend, body: &[u8]) -> Result<Received, Violation> {
        match tag {
            // FATAL may come at any time, as at a shutdown, and need not answer the request at the
            // front.
            Backend::ErrorResponse if is_fatal(body) => {
                self.end = Some(End::Fatal);
                Ok(Received { to: To::Client, fate: Fate::Ended(End::Fatal) })
            }
            // The stream of a walsender is not followed; only its end counts.
            _ if self.replication == Replication::Yes => {
                Ok(Received { to: To::Client, fate: Fate::Underway })
            }
            Backend::NoticeResponse | Backend::NotificationResponse | Backend::ParameterStatus => {
                // They name no request. All that can tell whom they are for is the request at the front.
                let own = self.queue.front().is_some_and(|request| request.brings_about(tag));
                let to = if own { To::Nobody } else { To::Client };
                Ok(Received { to, fate: Fate::Aside })
            }
            Backend::ReadyForQuery if self.is_asking() => {
                self.answer_with_ready(read::ready_for_query(body)?)
            }
            Backend::CloseComplete if self.is_asking() => self.answer_with_close(),
            Backend::ReadyForQuery => self.ready(read::ready_for_query(body)?),
            Backend::ErrorResponse => self.fail(),
            _ => self.reply(tag),
        }
    }

    fn is_asking(&self) -> bool {
        self.question.as_ref().is_some_and(|question| question.answer != Answer::Given)
    }

    /// ReadyForQuery while it is asked whether the server skips.
    fn answer_with_ready(&mut self, status: Status) -> Result<Received, Violation> {
        let tag = Backend::ReadyForQuery;
        let extra = self.extra as usize;
        debug_assert_eq!(self.queue.len(), QUESTION, "nothing is sent behind a question");
        debug_assert!(extra > 0, "only an ambiguous Sync is asked about");
        let question = self.question.as_mut().expect("its caller has seen it");
        match question.answer {
            // An ambiguous Sync, or the first one of the question.
            Answer::Outstanding if question.withheld.len() < extra => {
                question.withheld.push_back(status);
                return Ok(Received { to: To::Nobody, fate: Fate::Underway });
            }
            // It does not skip: one Close was answered, then its Sync. All before is the client's.
            Answer::Begun if !question.withheld.is_empty() => question.answer = Answer::Given,
            _ => return Err(Violation::Unasked { tag }),
        }
        // The Close and its Sync go. Two Closes and a Sync are still to be answered, for nobody.
        self.drop_front();
        let number = self.pop();
        (self.extra, self.sync_marker, self.status) = (0, SyncMarker::Absent, status);
        Ok(Received { to: To::Nobody, fate: Fate::Done(number) })
    }

    /// CloseComplete while it is asked whether the server skips.
    fn answer_with_close(&mut self) -> Result<Received, Violation> {
        debug_assert_eq!(self.queue.len(), QUESTION, "nothing is sent behind a question");
        let question = self.question.as_mut().expect("its caller has seen it");
        if question.answer == Answer::Outstanding && !question.withheld.is_empty() {
            question.answer = Answer::Begun;
            return Ok(Received { to: To::Nobody, fate: Fate::Underway });
        }
        // A second CloseComplete in a row: behind a skipped Close there is one ReadyForQuery and no more.
        let [status] = *question.withheld.make_contiguous() else {
            return Err(Violation::Unasked { tag: Backend::CloseComplete });
        };
        // It has skipped the first Close, and its Sync was ready; it goes on as if it skipped still,
        // up to the client's Sync.
        for _ in 0..3 {
            self.drop_front();
        }
        let number = self.pop();
        (self.question, self.extra, self.sync_marker) = (None, 0, SyncMarker::Absent);
        (self.status, self.skip) = (status, Skip::Yes);
        Ok(Received { to: To::Nobody, fate: Fate::Done(number) })
    }

    fn front(&self, tag: Backend) -> Result<Request, Violation> {
        let front = self.queue.front().copied().ok_or(Violation::Unasked { tag })?;
        let waits = !matches!(front.kind, Kind::CopyEnd | Kind::Void);
        debug_assert!(waits, "{front:?} has no reply, so it cannot be next");
        Ok(front)
    }

    fn ready(&mut self, status: Status) -> Result<Received, Violation> {
        let tag = Backend::ReadyForQuery;
        // No COPY ends by ReadyForQuery, so one that comes within is nobody's.
        let closed = self.copy == Copy::Closed;
        let (to, fate) = match self.queue.front() {
            Some(request) if closed && request.awaits_ready(self.stage) => {
                let to = request.to();
                (to, Fate::Done(self.pop()))
            }
            // Which of the ambiguous Syncs this one answers cannot be told, and need not be: any of
            // them ends the skipping.
            _ if closed && self.extra > 0 => {
                self.extra -= 1;
                if self.skip == Skip::Maybe {
                    self.skip = Skip::No;
                    self.segment = Segment::Closed;
                }
                (To::Client, Fate::Underway)
            }
            Some(request) => return Err(request.unfitting(tag)),
            None => return Err(Violation::Unasked { tag }),
        };
        self.status = status;
        // Only now is it known that the Query in the segment was not skipped, and so has closed it.
        if self.queue.is_empty() && self.segment == Segment::Queried {
            self.segment = Segment::Closed;
        }
        Ok(Received { to, fate })
    }

    fn reply(&mut self, tag: Backend) -> Result<Received, Violation> {
        let front = self.front(tag)?;
        // Nothing has changed yet if the reply does not fit.
        let step = self.step(front.kind, tag).ok_or(front.unfitting(tag))?;
        // Replies come in order, and this one was asked for behind all Syncs that were ambiguous: those
        // of them that had an answer have had it.
        self.extra = 0;
        match step {
            Step::Goes => {}
            Step::Answers => {
                self.copy = Copy::Closed;
                self.stage = Stage::Answered;
            }
            Step::CopiesIn => self.begin_copy_in(),
            Step::CopiesOut => self.copy = Copy::Out,
            Step::CopyOver => self.copy = Copy::Closed,
            Step::Ends => return Ok(Received { to: front.to(), fate: Fate::Done(self.pop()) }),
        }
        Ok(Received { to: front.to(), fate: Fate::Underway })
    }

    /// The effect of a reply, if the server can give it to such a request now.
    fn step(&self, kind: Kind, tag: Backend) -> Option<Step> {
        use Backend as B;
        use Kind as K;
        // A request that has failed has nothing more to say: its ReadyForQuery is heard elsewhere.
        if self.stage == Stage::Failed {
            return None;
        }
        Some(match (self.copy, kind, tag) {
            (Copy::Closed, K::Parse, B::ParseComplete)
            | (Copy::Closed, K::Bind, B::BindComplete)
            | (Copy::Closed, K::Close, B::CloseComplete)
            | (Copy::Closed, K::Describe, B::RowDescription | B::NoData)
            | (
                Copy::Closed,
                K::Execute,
                B::CommandComplete | B::EmptyQueryResponse | B::PortalSuspended,
            )
            | (Copy::InEnded { .. }, K::Execute, B::CommandComplete) => Step::Ends,
            (Copy::Closed, K::Describe, B::ParameterDescription)
            | (Copy::Closed, K::Execute | K::Query, B::DataRow)
            | (Copy::Closed, K::Query, B::RowDescription)
            | (Copy::Out, K::Execute | K::Query, B::CopyData) => Step::Goes,
            // A text may have more commands, so a Query is done by its ReadyForQuery alone. Within a COPY
            // no CommandComplete is listed: that of the COPY comes behind its end.
            (Copy::Closed, K::Query, B::CommandComplete | B::EmptyQueryResponse)
            | (Copy::Closed, K::FunctionCall, B::FunctionCallResponse)
            | (Copy::InEnded { .. }, K::Query, B::CommandComplete) => Step::Answers,
            (Copy::Closed, K::Execute | K::Query, B::CopyInResponse) => Step::CopiesIn,
            (Copy::Closed, K::Execute | K::Query, B::CopyOutResponse) => Step::CopiesOut,
            (Copy::Out, K::Execute | K::Query, B::CopyDone) => Step::CopyOver,
            _ => return None,
        })
    }

    /// The request at the front turns out to be COPY: it has read, or will read, what was sent
    /// behind it up to the end of the rows.
    fn begin_copy_in(&mut self) {
        let copies = self.queue.front().is_some_and(|front| front.kind.may_copy());
        debug_assert!(copies, "only a Query and an Execute can be COPY");
        let (mut syncs, mut ended, mut broken) = (0, false, false);
        // `CopyGetData` reads on from the same input: it ignores Sync and Flush, ends at CopyDone or
        // CopyFail, and takes anything else for a reason to end the session.
        for request in self.queue.iter_mut().skip(1) {
            match request.kind {
                Kind::Void => continue,
                Kind::Sync => syncs += 1,
                Kind::CopyEnd => ended = true,
                _ => broken = true,
            }
            if broken {
                break;
            }
            request.kind = Kind::Void;
            if ended {
                break;
            }
        }
        self.ready_owed -= syncs;
        self.copy_ends -= u32::from(ended);
        self.copy = match (ended, broken) {
            (_, true) => Copy::InBroken { syncs },
            (true, _) => Copy::InEnded { syncs },
            _ => Copy::In { syncs },
        };
        // The Flush may be one that the COPY has swallowed. To ask once more costs a message, no reply.
        self.flushed = Flushed::No;
        // A Sync that is swallowed has closed no segment.
        self.segment =
            self.queue.iter().fold(Segment::Closed, |segment, request| segment.after(request.kind));
    }

    /// An error that does not end the session.
    fn fail(&mut self) -> Result<Received, Violation> {
        let tag = Backend::ErrorResponse;
        if self.is_asking() {
            return Err(Violation::Unasked { tag });
        }
        let front = self.front(tag)?;
        // An error ends the COPY of its request, on whichever side.
        let copy = std::mem::replace(&mut self.copy, Copy::Closed);
        // As in `reply`, the request stands behind all Syncs that were ambiguous. Its own COPY may leave
        // others, below.
        self.extra = 0;
        let (syncs, broken) = match copy {
            Copy::In { syncs } | Copy::InEnded { syncs } => (syncs, false),
            Copy::InBroken { syncs } => (syncs, true),
            Copy::Closed | Copy::Out => (0, false),
        };
        let received = match front.kind {
            // A Sync fails where its commit does, as by a deferred constraint. All three still end by
            // ReadyForQuery, and `PostgresMain` skips nothing behind them.
            Kind::Sync | Kind::Query | Kind::FunctionCall => {
                self.stage = Stage::Failed;
                self.count_ambiguous(syncs);
                Received { to: front.to(), fate: Fate::Underway }
            }
            Kind::Parse | Kind::Bind | Kind::Describe | Kind::Execute | Kind::Close => {
                let number = self.pop();
                let skipped = self.skip_to_sync();
                self.count_ambiguous(syncs);
                // If the server has seen one of these Syncs outside of the COPY, it has run what
                // was just taken as skipped, and no count of replies fits both cases.
                if syncs > 0 && (broken || skipped == Skipped::Requests) {
                    self.end = Some(End::Lost);
                }
                if syncs > 0 && self.skip == Skip::Yes {
                    self.skip = Skip::Maybe;
                }
                let next = self.front_number;
                Received { to: To::Client, fate: Fate::Failed { number, next } }
            }
            // The last two never stand at the front (`pop`). The gate's own reply does while an ambiguous
            // Sync is before it; the server, which knows nothing of it, can have no error for it.
            Kind::Here(_) | Kind::CopyEnd | Kind::Void => return Err(front.unfitting(tag)),
        };
        Ok(match self.end {
            Some(end) => Received { fate: Fate::Ended(end), ..received },
            None => received,
        })
    }

    /// The server discards what was sent, up to a Sync.
    fn skip_to_sync(&mut self) -> Skipped {
        let mut skipped = Skipped::Nothing;
        while let Some(request) = self.queue.front() {
            match request.kind {
                // The Sync is on its way, so the skipping is over when anything sent from now on is read.
                Kind::Sync => return skipped,
                Kind::CopyEnd | Kind::Void => {}
                _ => skipped = Skipped::Requests,
            }
            self.drop_front();
        }
        // From here on `skip` stands for the segment: the server is kept until a Sync ends it.
        self.skip = Skip::Yes;
        self.segment = Segment::Closed;
        skipped
    }

    /// A COPY has failed, and the server may or may not have swallowed so many Syncs. A reply of
    /// the gate's that stands behind them has no place then.
    fn count_ambiguous(&mut self, syncs: u32) {
        self.extra = syncs;
        // A marker from before stands before these Syncs, and says nothing of them.
        self.sync_marker = SyncMarker::Absent;
        if syncs > 0 && self.queue.iter().any(|request| matches!(request.kind, Kind::Here(_))) {
            self.end = Some(End::Lost);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    Nothing,
    Requests,
}

impl Request {
    fn to(&self) -> To {
        match self.whose {
            Whose::Client => To::Client,
            Whose::Gate => To::Nobody,
        }
    }

    /// True if this internal query brings about a message that answers nothing. Settings are
    /// reported before ReadyForQuery, those of a client's request perhaps before that of a Sync of
    /// the gate's.
    fn brings_about(&self, tag: Backend) -> bool {
        self.whose == Whose::Gate
            && match tag {
                Backend::ParameterStatus => self.kind == Kind::Query,
                Backend::NoticeResponse => matches!(self.kind, Kind::Query | Kind::Parse),
                _ => false,
            }
    }

    fn awaits_ready(&self, stage: Stage) -> bool {
        match self.kind {
            Kind::Sync => true,
            Kind::Query | Kind::FunctionCall => stage != Stage::Fresh,
            _ => false,
        }
    }

    fn unfitting(&self, tag: Backend) -> Violation {
        let asked = match self.kind {
            Kind::Parse => "Parse",
            Kind::Bind => "Bind",
            Kind::Describe => "Describe",
            Kind::Execute => "Execute",
            Kind::Close => "Close",
            Kind::Sync => "Sync",
            Kind::Query => "Query",
            Kind::FunctionCall => "FunctionCall",
            Kind::CopyEnd | Kind::Void => "COPY",
            Kind::Here(_) => "what the gate had to answer",
        };
        Violation::Unfitting { tag, asked }
    }
}

/// True if an error ends the session, from as much of its body as is here: servers put the severity
/// first, and a second time in English.
fn is_fatal(body: &[u8]) -> bool {
    // `send_message_to_frontend` (elog.c) writes S and V before all other fields, so the front of a long
    // error is enough. An empty field is the end of the message.
    body.split(|&byte| byte == 0)
        .take_while(|field| !field.is_empty())
        .any(|field| matches!(field, b"VFATAL" | b"VPANIC" | b"SFATAL" | b"SPANIC"))
}
