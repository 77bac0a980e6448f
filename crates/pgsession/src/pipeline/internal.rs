//! Messages of the gate's own: to resolve an ambiguous Sync after a failed COPY, and to clean up
//! behind a client that has gone.

use std::collections::VecDeque;

use super::{
    Answer, Copy, End, Flushed, Kept, Pipeline, Question, Segment, Skip, Stage, SyncMarker, Whose,
};
use pgwire::frame::Frontend;
use pgwire::message::{Status, write};

/// The name of a portal that nobody has.
// No client is kept from using it. One that does loses that portal where a COPY of its own fails.
const SYNC_MARKER: &[u8] = b"Psekisho: a fence\0";

/// Number of the requests of a question: Close, Sync, Close, Close, Sync.
pub(super) const QUESTION: usize = 5;

/// State of the last message of a client that has gone: whole at the server, or in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// It is.
    Whole,
    /// Its head went out and its end never came, so nothing more can be said.
    InPart,
}

/// Needs of a server whose client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// Nothing more: it is free.
    Free,
    /// Time, for what it still has to say. The caller bounds it, and closes the connection after.
    Waits(Kept),
    /// To be closed: it cannot be used any more.
    Close(Kept),
}

impl Pipeline {
    /// Resolves an ambiguous Sync after a failed COPY, if there is one and this is the place. To be
    /// called after each [`send`](Pipeline::send) and [`receive`](Pipeline::receive); what
    /// it writes, which is mostly nothing, is to be sent before anything else.
    #[inline]
    pub fn resolve(&mut self, out: &mut Vec<u8>) {
        if self.extra > 0 {
            self.place_sync_marker(out);
        }
    }

    fn place_sync_marker(&mut self, out: &mut Vec<u8>) {
        // What is answered by more than ReadyForQuery ends the ambiguity by itself; and it may turn out
        // to be a COPY, which nothing of the gate's may stand in.
        let failed = usize::from(self.stage == Stage::Failed);
        let mut more = self.queue.iter().skip(failed);
        let ends_itself = more.any(|request| request.has_reply_of_its_own());
        let here = self.skip == Skip::No && self.segment == Segment::Closed && !ends_itself;
        if self.sync_marker == SyncMarker::Placed || !here || self.end.is_some() {
            return;
        }
        // Close of what does not exist is no error and changes nothing, also in a failed transaction, so
        // it only marks a place among the replies. Its Sync flushes the reply, and leaves no segment open.
        self.sync_marker = SyncMarker::Placed;
        self.say(Frontend::Close, out, |out| out.extend_from_slice(SYNC_MARKER));
        self.say(Frontend::Sync, out, |_| {});
    }

    /// Asks whether the server skips, where that is ambiguous and the client goes on without a Sync.
    /// What the client says then waits for the answer.
    ///
    /// # Panics
    /// If it is known.
    pub(super) fn ask(&mut self, out: &mut Vec<u8>) {
        assert_eq!((self.skip, self.queue.len()), (Skip::Maybe, 0), "there is no doubt");
        let question = Question { withheld: VecDeque::new(), answer: Answer::Outstanding };
        self.question = Some(Box::new(question));
        (self.skip, self.sync_marker) = (Skip::No, SyncMarker::Placed);
        // A server that skips answers Z 3 3 Z: it drops the first Close. One that does not answers 3 Z 3
        // 3 Z, behind a Z for each Sync of the client's that it has not swallowed. So one Z and then two
        // Closes in a row say that it skips; that Z is of the question, and the only one.
        for closes in [1, 2] {
            for _ in 0..closes {
                self.say(Frontend::Close, out, |out| out.extend_from_slice(SYNC_MARKER));
            }
            self.say(Frontend::Sync, out, |_| {});
        }
        assert_eq!(self.queue.len(), QUESTION, "a question has all its requests");
    }

    /// The state with which a ReadyForQuery was held back that is the client's, as is known now. Ask
    /// until there is none, after each [`receive`](Pipeline::receive).
    #[inline]
    pub fn next_ready(&mut self) -> Option<Status> {
        let question = self.question.as_mut()?;
        let next = match question.answer {
            Answer::Given => question.withheld.pop_front(),
            Answer::Outstanding | Answer::Begun => return None,
        };
        if next.is_none() {
            self.question = None;
        }
        next
    }

    /// The client has gone. Writes what the server must be told next; to be called when that is
    /// known and again after each message of the server, until it is free or must be closed. What
    /// the server says meanwhile is for nobody.
    ///
    /// A COPY fails, a segment without Sync is rolled back (a Sync would commit it), as is a
    /// transaction; what is whole is let run to its end, as PostgreSQL does.
    pub fn abandon(&mut self, forwarded: Forwarded, out: &mut Vec<u8>) -> Abandoned {
        // The server would take the next bytes for the rest of that message, whatever they are.
        if forwarded == Forwarded::InPart && self.end.is_none() {
            self.end = Some(End::Lost);
        }
        self.resolve(out);
        let Some(kept) = self.kept() else { return Abandoned::Free };
        match kept {
            Kept::Ended(_) | Kept::Replication => return Abandoned::Close(kept),
            // CopyDone would end the COPY, too, but as if half of the rows were all of them.
            Kept::CopyIn => {
                self.say(Frontend::CopyFail, out, |out| {
                    out.extend_from_slice(b"the client has gone\0");
                });
            }
            // The segment has failed, so this Sync commits nothing. Only a Sync is read at all.
            Kept::Skipping => self.end_segment(out),
            Kept::Ambiguous if self.skip == Skip::Maybe => self.end_segment(out),
            // ROLLBACK ends an implicit transaction, too (`UserAbortTransactionBlock`), and warns that
            // there is no block; nobody hears that. A Sync would commit it.
            Kept::Segment | Kept::InTransaction | Kept::InFailedTransaction => {
                self.say(Frontend::Query, out, |out| out.extend_from_slice(b"ROLLBACK\0"));
            }
            Kept::Owes { .. } | Kept::Ambiguous | Kept::CopyOut | Kept::Message => {}
        }
        // What is in no segment is flushed by itself.
        let unflushed = self.segment.is_open() && self.flushed == Flushed::No;
        if unflushed && !self.queue.is_empty() && !matches!(self.copy, Copy::In { .. }) {
            self.say(Frontend::Flush, out, |_| {});
        }
        Abandoned::Waits(kept)
    }

    fn end_segment(&mut self, out: &mut Vec<u8>) {
        self.say(Frontend::Sync, out, |_| {});
        self.resolve(out);
    }

    /// Says something of the gate's own, where it is known to be possible.
    pub(super) fn say(
        &mut self,
        tag: Frontend,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        match self.send(tag, Whose::Gate) {
            Ok(_) => write::message(out, tag, body),
            // The state that was read off here is not the server's, so the connection is not used on.
            Err(_) => self.end = Some(End::Lost),
        }
    }
}
