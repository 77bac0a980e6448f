//! From the server: what a message means, who hears it, and what follows from it.

use std::cell::RefCell;

use super::out::{Out, Run};
use super::{Instead, Names, News, Presence, Relay, Rest, ServerFault, Stop, Taken};
use crate::pipeline::{End, Fate, Forwarded, Kept, Received, To};
use crate::sql::Effect;
use crate::statements::{Client, Completed, StatementCache, Treatment};
use pgwire::SqlState;
use pgwire::frame::{Backend, HEAD, Piece};
use pgwire::message::{read, write};

/// Whom a message of the server meets.
struct Replies<'a, 'o, O, N> {
    client: Option<&'a mut Client>,
    cache: &'a mut StatementCache,
    run: &'a mut Run<'o, O>,
    to_server: &'a mut Vec<u8>,
    news: N,
}

impl Relay {
    /// Takes as much as it can of what the server has sent. `client` is whose it is now; it is left
    /// out while nobody has the server, and after the client was [left](Relay::leave).
    /// `to_server` gets what the gate says in turn, which is mostly nothing.
    ///
    /// # Errors
    /// If the server is to be closed. What was written before is good.
    pub fn from_server(
        &mut self,
        client: Option<&mut Client>,
        cache: &mut StatementCache,
        readable: &[u8],
        to_client: &mut impl Out,
        to_server: &mut Vec<u8>,
        news: impl FnMut(News<'_>),
    ) -> Result<Taken, ServerFault> {
        let mut run = Run::new(to_client);
        let replies = Replies { client, cache, run: &mut run, to_server, news };
        let taken = self.hear(replies, readable);
        if taken.is_err() {
            self.put_due(&mut run);
        }
        run.end();
        taken
    }

    fn hear<O: Out, N: FnMut(News<'_>)>(
        &mut self,
        mut replies: Replies<'_, '_, O, N>,
        readable: &[u8],
    ) -> Result<Taken, ServerFault> {
        let mut at = 0;
        // The treatment of the row before, where there is one. Rows change no state, so the next has the
        // same: the pipeline is asked once for the rows of one read.
        let mut row: Option<(Backend, Rest)> = None;
        loop {
            let rest = &readable[at..];
            let piece = self.frames.look(rest)?;
            let end = at + piece.bytes();
            match piece {
                Piece::More { missing } => {
                    let stop = Stop::More { needs: rest.len() + missing };
                    return Ok(Taken { bytes: at, stop });
                }
                Piece::Rest { left, .. } => {
                    if self.said == Rest::Passes {
                        replies.run.pass(at..end);
                    }
                    if left == 0 {
                        self.said = Rest::None;
                        self.put_due(replies.run);
                        self.go_on(&mut replies);
                    }
                }
                Piece::Whole { tag, .. } if row.is_some_and(|(of, _)| of == tag) => {
                    if row == Some((tag, Rest::Passes)) {
                        replies.run.pass(at..end);
                    }
                    // `Frames::take` notes nothing of a message that is whole.
                    at = end;
                    continue;
                }
                Piece::Whole { tag, len } | Piece::Begin { tag, len, .. } => {
                    let message = &readable[at..end];
                    // The gate's own replies that were due before this one: PostgreSQL would have sent
                    // them earlier.
                    self.put_due(replies.run);
                    let passes = self.said(&mut replies, tag, message)?;
                    if passes {
                        replies.run.pass(at..end);
                    }
                    if message.len() < len {
                        self.said = if passes { Rest::Passes } else { Rest::Falls };
                    }
                    if !self.scratch.is_empty() {
                        self.put_scratch(replies.run);
                    }
                    if self.said == Rest::None {
                        self.go_on(&mut replies);
                    }
                    let fate = if passes { Rest::Passes } else { Rest::Falls };
                    let is_row = matches!(tag, Backend::DataRow | Backend::CopyData);
                    row = is_row.then_some((tag, fate));
                }
            }
            at += self.frames.take(piece);
            // A FATAL that is longer than the buffer still passes to its end.
            if matches!(self.pipeline.kept(), Some(Kept::Ended(_))) && self.said == Rest::None {
                return Ok(Taken { bytes: at, stop: Stop::Ended });
            }
        }
    }
}

impl Relay {
    fn put_due(&mut self, run: &mut Run<'_, impl Out>) {
        if !self.due.is_empty() {
            run.put(&self.due);
            self.due.clear();
        }
    }

    /// Takes a message by its meaning; true if the client gets it as it is.
    fn said<O: Out, N: FnMut(News<'_>)>(
        &mut self,
        replies: &mut Replies<'_, '_, O, N>,
        tag: Backend,
        message: &[u8],
    ) -> Result<bool, ServerFault> {
        let body = &message[HEAD..];
        // The pipeline comes first: it says whose the reply is, and numbers the request that it answers.
        let received = self.pipeline.receive(tag, body)?;
        debug_assert!(self.scratch.is_empty(), "written for another message");
        let hears = matches!(self.presence, Presence::There) && replies.client.is_some();
        let is_clients = received.to == To::Client && hears;
        if matches!(tag, Backend::DataRow | Backend::CopyData) {
            return Ok(is_clients);
        }
        let mut treatment = Treatment::Pass;
        if let Names::Rewriting(statements) = &mut self.names {
            // A client that has gone is still the one that asked: its names follow the replies.
            let client = match &mut self.presence {
                Presence::Gone(client) => Some(client),
                Presence::There => replies.client.as_deref_mut(),
            };
            if let Some(client) = client {
                let client_statements = (client, &mut *replies.cache);
                let what = (tag, received.fate);
                let (pipeline, instead) = (&self.pipeline, &mut self.scratch);
                treatment =
                    statements.reply(pipeline, client_statements, what, message, instead)?;
                statements.ask_for_end(&mut self.pipeline, replies.to_server);
            } else {
                assert!(statements.is_settled(), "what a client has asked is heard with it");
            }
        }
        if !is_clients {
            self.scratch.clear();
        }
        let completed = match &mut self.names {
            Names::Rewriting(statements) => statements.take_completed(),
            Names::Passthrough => None,
        };
        let left = completed.as_ref().map_or(&[][..], Completed::effects);
        let instead = self.tell(&mut replies.news, (tag, received), hears, body, left)?;
        if let Instead::Value(value) = &instead
            && is_clients
        {
            let (name, _) = read::parameter_status(body)?;
            write::parameter_status(&mut self.scratch, name, value);
        }
        // As PostgreSQL reports settings: a driver that has read ReadyForQuery may read no further.
        if tag == Backend::ReadyForQuery && is_clients {
            let told = tells(&mut replies.news);
            if !told.is_empty() {
                replies.run.put(&told);
            }
        }
        self.answer(replies.cache);
        // In their order: what stands for this reply, the gate's own replies behind it, and the
        // ReadyForQuery that were held until it was known whose they are.
        let mut locals = std::mem::take(&mut self.scratch);
        locals.append(&mut self.due);
        while let Some(status) = self.pipeline.next_ready() {
            if hears {
                (replies.news)(News::Ready(status));
                locals.append(&mut tells(&mut replies.news));
                write::ready_for_query(&mut locals, status);
            }
        }
        self.scratch = locals;
        Ok(is_clients && treatment == Treatment::Pass && instead == Instead::Same)
    }

    /// Tells what concerns more than the client; what that is told for it.
    fn tell(
        &mut self,
        news: &mut impl FnMut(News<'_>),
        (tag, received): (Backend, Received),
        hears: bool,
        body: &[u8],
        left: &[Effect],
    ) -> Result<Instead, ServerFault> {
        let instead = RefCell::default();
        let is_clients = received.to == To::Client && hears;
        match tag {
            Backend::ParameterStatus => {
                let (name, value) = read::parameter_status(body)?;
                let own = received.to == To::Nobody;
                news(News::Parameter { name, value, own, instead: &instead });
            }
            Backend::NotificationResponse if !hears => {
                news(News::Unheard { notification: body });
            }
            Backend::ErrorResponse => {
                let fields = read::fields(body).ok();
                if received.fate == Fate::Ended(End::Fatal) {
                    news(News::Ended(fields));
                } else if is_clients {
                    news(News::Failed(fields));
                } else if self.own.front() == Some(&self.pipeline.front_number()) {
                    // The first error is the cause; one that follows it in the same text is not.
                    let code = fields.and_then(|fields| fields.sqlstate());
                    self.own_failed.get_or_insert(code.unwrap_or(SqlState::PROTOCOL_VIOLATION));
                }
            }
            Backend::CommandComplete if is_clients => {
                news(News::Completed { tag: body.strip_suffix(b"\0").unwrap_or(body), left });
            }
            Backend::CommandComplete if self.own.front() == Some(&self.pipeline.front_number()) => {
                let count = body.strip_suffix(b"\0").and_then(|tag| tag.strip_prefix(b"SELECT "));
                let count = count.and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
                self.own_rows = count.unwrap_or(0);
            }
            // What it does it may have done already.
            Backend::PortalSuspended | Backend::EmptyQueryResponse
                if is_clients && !left.is_empty() =>
            {
                news(News::Completed { tag: b"", left });
            }
            // What no CommandComplete has told (`counted`) goes before anybody may have the server.
            Backend::ReadyForQuery if is_clients => {
                if !left.is_empty() {
                    news(News::Completed { tag: b"", left });
                }
                news(News::Ready(self.pipeline.status()));
            }
            _ => {}
        }
        // A question is done by its ReadyForQuery; until then its error and its rows are gathered.
        if let Fate::Done(number) = received.fate
            && self.own.front() == Some(&number)
        {
            self.own.pop_front();
            let rows = std::mem::take(&mut self.own_rows);
            news(News::Own { failed: self.own_failed.take(), rows });
        }
        Ok(instead.into_inner())
    }

    /// Says to the server what follows from what it has said.
    fn go_on<O, N>(&mut self, replies: &mut Replies<'_, '_, O, N>) {
        match self.presence {
            Presence::Gone(_) => {
                self.clean(Forwarded::Whole, replies.cache, replies.to_server);
            }
            // Nothing may stand within a message of the client's.
            Presence::There if self.asked == Rest::None => {
                self.pipeline.resolve(replies.to_server);
            }
            Presence::There => {}
        }
    }
}

/// What a client is to be told before a ReadyForQuery.
fn tells(news: &mut impl FnMut(News<'_>)) -> Vec<u8> {
    let told = RefCell::default();
    news(News::Tells(&told));
    told.into_inner()
}
