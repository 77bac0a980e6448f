//! Messages of a client, rewritten for the server that it has now.

mod executing;

use std::ops::Range;
use std::sync::Arc;

pub(super) use self::executing::Naming;
use self::executing::{Executed, Meaning};
use super::portals::PORTALS_MAX;
use super::{
    Altered, Client, EntryId, Expected, Followed, Forward, HEAD, Local, Message, Pipeline, Portal,
    Prepared, Refusal, Renamed, Sent, Server, Special, State, StatementCache, Status, Step, Target,
    Whose,
};
use crate::pipeline::{self, SendError};
use crate::sql::{Prefilter, prefilter};
use crate::statements::shape::Known;
use crate::statements::sql::{self, Found, May};
use crate::statements::statement_cache::{Given, Room, Untaken};
use pgwire::frame::{Frontend, Limits};
use pgwire::message::write;

/// The parts that a message of a client meets.
struct Turn<'a> {
    server: &'a mut Server,
    pipeline: &'a mut Pipeline,
    client: &'a mut Client,
    cache: &'a mut StatementCache,
    out: &'a mut Vec<u8>,
}

impl Server {
    /// Takes a message of the client that the pipeline permits: writes to `to_server` what goes
    /// before it or for it. The pipeline is told of all that goes out.
    pub(crate) fn ask(
        &mut self,
        pipeline: &mut Pipeline,
        (client, cache): (&mut Client, &mut StatementCache),
        message: Message<'_>,
        to_server: &mut Vec<u8>,
    ) -> Forward {
        let (server, out) = (self, to_server);
        Turn { server, pipeline, client, cache, out }.take(message)
    }

    pub(super) fn push(
        &mut self,
        number: u64,
        step: Step,
        renamed: Renamed,
        altered: Altered,
        bytes: usize,
    ) {
        match renamed {
            Renamed::Nothing => {}
            Renamed::Named(..) => self.names.add(),
            Renamed::Unnamed(_) => self.unnamed.add(),
        }
        if matches!(altered, Altered::Closed { .. }) {
            self.closes.add();
        }
        self.runs += usize::from(step.runs());
        self.boundaries += usize::from(step.is_boundary());
        self.parses += u64::from(matches!(step, Step::Parse | Step::PutParse));
        // An error skips up to a Sync, so what comes behind one shares no fate with what is before.
        if step == Step::Sync {
            self.syncs += 1;
            self.batch += 1;
            (self.names.here, self.unnamed.here, self.closes.here) = (0, 0, 0);
        }
        let name = match &renamed {
            Renamed::Named(name, _) => Some(name.clone()),
            _ => None,
        };
        self.bytes += bytes;
        // Replies are told apart by these numbers alone: one out of its order would be another's.
        let follows = self.expected.back().is_none_or(|last| last.number < number);
        assert!(follows, "{step:?} of number {number} is expected too late");
        self.expected.push_back(Expected { number, step, name, renamed, altered, bytes });
    }

    /// The client's name for what was asked last.
    fn name(&mut self, client: &Client, name: &[u8]) {
        if let Some(last) = self.expected.back_mut() {
            last.name = client.names.get_key_value(Client::key(name)).map(|(key, _)| key.clone());
        }
    }

    /// True if the transaction cannot have failed when what is asked now has its turn.
    fn is_sound(&self, status: Status) -> bool {
        // Nothing is under way that ends or may fail a transaction: as of the last ReadyForQuery. An
        // Execute in the same segment may fail; then what is answered behind it is skipped with it.
        let known = self.boundaries == 0 && status != Status::InFailedTransaction;
        known || (status == Status::Idle && !self.may_open)
    }
}

/// A text at the front of a body; none if it does not end there.
fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body.iter().position(|&byte| byte == 0)?;
    Some((&body[..end], &body[end + 1..]))
}

/// True if a Parse is well formed behind its name, by the server's own reading.
pub(in crate::statements) fn is_parse(tail: &[u8]) -> bool {
    text(tail).is_some_and(|(_, types)| is_types(types))
}

/// True if these are a count of types and as many types.
pub(in crate::statements) fn is_types(bytes: &[u8]) -> bool {
    match bytes {
        [a, b, types @ ..] => types.len() == 4 * usize::from(u16::from_be_bytes([*a, *b])),
        _ => false,
    }
}

impl Turn<'_> {
    fn take(&mut self, message: Message<'_>) -> Forward {
        let tag = message.tag;
        // What was put before the Query has failed, and the server skips up to a Sync that its client
        // will not send.
        if self.server.query_waits && tag == Frontend::Query && self.pipeline.is_skipping() {
            return self.end_query();
        }
        if self.pipeline.takes_rows() || (self.pipeline.is_skipping() && tag != Frontend::Sync) {
            return self.tell(tag);
        }
        let busy = !self.server.expected.is_empty();
        let full = self.server.expected.len() >= self.cache.bounds.replies_max;
        let begins = matches!(
            tag,
            Frontend::Parse
                | Frontend::Bind
                | Frontend::Close
                | Frontend::Query
                | Frontend::FunctionCall
        );
        // A SET under way may change what this text means, and so the scope in which its statement
        // is shared.
        let moves = self.client.moves && self.server.runs > 0;
        let unsettled = self.server.copies || self.server.means || moves;
        let waits = self.server.stalled || full || (unsettled && begins);
        // Where nothing is outstanding no reply would end the waiting.
        if self.pipeline.is_full() || (busy && waits) {
            return self.later();
        }
        debug_assert!(!self.server.stalled, "what it stalled for is answered before more is asked");
        match tag {
            Frontend::Parse => self.parse(message),
            Frontend::Bind => self.bind(message),
            Frontend::Describe => self.describe(message),
            Frontend::Close => self.close(message),
            Frontend::Execute => self.execute(message),
            Frontend::Query => self.query(message),
            Frontend::FunctionCall => {
                // A function by its number: what it does is not seen (`HandleFunctionRequest` runs any).
                let code = self.cache.code.clone().filter(|_| !is_large_object(message));
                if tells_of_sequences(message) && self.asks_where_others_may_have_moved() {
                    if self.is_at_rest() {
                        return Forward::Sequences;
                    }
                    return self.refuse_query(Refusal::Sequences);
                }
                self.plain(Step::Call);
                if let Some(code) = code {
                    self.watch(&code);
                }
                Forward::AsItIs
            }
            Frontend::Sync => {
                self.plain(Step::Sync);
                Forward::AsItIs
            }
            _ => self.tell(tag),
        }
    }

    /// A message without a reply of its own.
    fn tell(&mut self, tag: Frontend) -> Forward {
        match self.pipeline.send_behind_others(tag, Whose::Client) {
            Ok(Sent::Discarded) => Forward::Nothing,
            sent => {
                debug_assert_eq!(sent, Ok(Sent::OwesNothing), "{tag:?}");
                Forward::AsItIs
            }
        }
    }

    fn plain(&mut self, step: Step) {
        self.push(step, Renamed::Nothing, Altered::Nothing);
    }

    /// Expects what the server, or the gate in its place, is asked now.
    fn push(&mut self, step: Step, renamed: Renamed, altered: Altered) {
        let (tag, whose) = match step {
            Step::PutParse => (Frontend::Parse, Whose::Gate),
            Step::PutClose => (Frontend::Close, Whose::Gate),
            Step::PutDescribe => (Frontend::Describe, Whose::Gate),
            Step::Parse => (Frontend::Parse, Whose::Client),
            Step::Bind | Step::Refused => (Frontend::Bind, Whose::Client),
            Step::Describe => (Frontend::Describe, Whose::Client),
            Step::Execute => (Frontend::Execute, Whose::Client),
            Step::Close => (Frontend::Close, Whose::Client),
            Step::Sync => (Frontend::Sync, Whose::Client),
            Step::Query | Step::RefusedQuery => (Frontend::Query, Whose::Client),
            Step::Call => (Frontend::FunctionCall, Whose::Client),
            Step::InternalParse | Step::InternalClose => {
                let reply = match step {
                    Step::InternalParse => Local::ParseComplete,
                    _ => Local::CloseComplete,
                };
                let sent = self.pipeline.answer_behind_others(reply);
                return self.expect(sent, step, renamed, altered);
            }
        };
        let sent = self.pipeline.send_behind_others(tag, whose);
        self.expect(sent, step, renamed, altered);
    }

    fn expect(
        &mut self,
        sent: Result<Sent, SendError>,
        step: Step,
        renamed: Renamed,
        altered: Altered,
    ) {
        let Ok(Sent::Owes(number)) = sent else {
            unreachable!("the conversation has permitted {step:?} and answers {sent:?}");
        };
        // The entry that the name stood for stays until no error can put it back.
        let bytes = match renamed {
            Renamed::Named(_, Some(was)) | Renamed::Unnamed(Some(was)) => {
                self.cache.entry(was.id).bytes()
            }
            _ => 0,
        };
        self.server.push(number, step, renamed, altered, bytes);
    }

    /// Outstanding requests must be answered before more is asked.
    fn later(&mut self) -> Forward {
        // Without a Sync or a Flush the server may keep the very reply that is waited for.
        if self.pipeline.turn() == pipeline::Turn::Client {
            self.flush();
        }
        Forward::Later
    }

    fn flush(&mut self) {
        write::bare(self.out, Frontend::Flush);
        let sent = self.pipeline.send_behind_others(Frontend::Flush, Whose::Gate);
        debug_assert_eq!(sent, Ok(Sent::OwesNothing));
    }

    /// Begins what is answered before anything else is asked: until then the client stalls.
    fn stall(&mut self) {
        self.server.stalled = true;
        self.server.forget_names();
        (self.server.refusal, self.server.asked) = (None, None);
    }

    fn special(&mut self, name: &[u8]) {
        self.stall();
        let target = Target::Name(Client::key(name).into());
        self.server.specials.push(Special { name: name.into(), target });
    }

    /// The number of what was asked last.
    fn asked_last(&self) -> u64 {
        self.server.expected.back().expect("it was asked").number
    }

    /// The last request is of a text with session effects.
    fn watch(&mut self, followed: &Arc<Followed>) {
        self.server.watch(self.asked_last(), followed);
        self.client.has_sql |= followed.prepares();
    }

    /// A failing Query in the place of one, so that the server's transaction fails too.
    fn refuse_query(&mut self, refusal: Refusal) -> Forward {
        if !self.server.expected.is_empty() {
            return self.later();
        }
        self.stall();
        self.server.refusal = Some(refusal);
        let cache = &*self.cache;
        // It fails in any state: 26000, or 25P02 in a failed transaction. Only the first is told in the
        // gate's words, since only that names a statement of ours (`names`).
        write::message(self.out, Frontend::Query, |out| {
            out.extend_from_slice(b"EXECUTE ");
            cache.write_quoted(out, Given::Lacking(0));
            out.push(0);
        });
        let renamed = self.drop_unnamed();
        self.push(Step::RefusedQuery, renamed, Altered::Nothing);
        Forward::Nothing
    }

    /// The change by a message that begins by dropping the unnamed statement.
    fn drop_unnamed(&mut self) -> Renamed {
        Renamed::Unnamed(self.client.unnamed.take())
    }

    /// A failing Bind in the place of a message, so that the server's transaction fails too.
    fn refuse(&mut self, message: Message<'_>, refusal: Refusal) -> Forward {
        if !self.server.expected.is_empty() {
            return self.later();
        }
        self.stall();
        self.server.refusal = Some(refusal);
        let cache = &*self.cache;
        write::message(self.out, Frontend::Bind, |out| {
            out.push(0);
            cache.write_name(out, Given::Lacking(0));
            // The end of the name; no formats, no values, no formats of results.
            out.extend_from_slice(&[0; 7]);
        });
        // A Parse without a name drops the unnamed statement before anything of it can fail.
        let drops = message.tag == Frontend::Parse && message.here.get(HEAD) == Some(&0);
        let renamed = if drops { self.drop_unnamed() } else { Renamed::Nothing };
        self.push(Step::Refused, renamed, Altered::Nothing);
        Forward::Nothing
    }

    fn put_close(&mut self, name: Given) {
        self.cache.write_close(self.out, Some(name));
        let altered = match name {
            Given::Entry(number) => {
                // At once: what is asked next must not use it. If the Close is skipped, `undo` puts it
                // back.
                let closed = self.server.prepared.remove(number).expect("what is closed is there");
                Altered::Closed { number, change: closed.change }
            }
            _ => Altered::Nothing,
        };
        self.push(Step::PutClose, Renamed::Nothing, altered);
    }

    /// Makes the server know a name of ours by an empty statement, which even a failed transaction
    /// takes.
    fn put_present(&mut self, name: Given) {
        // It may be there from a text before.
        self.put_close(name);
        let cache = &*self.cache;
        write::message(self.out, Frontend::Parse, |out| {
            cache.write_name(out, name);
            // The end of the name, an empty text, no types.
            out.extend_from_slice(&[0; 4]);
        });
        self.plain(Step::PutParse);
    }

    /// True if an earlier batch, of which nothing is known yet, decides what the server has.
    fn waits_for(&self, number: u64) -> bool {
        match self.server.prepared.peek(number) {
            Some(prepared) => prepared.state == State::Asked && prepared.batch != self.server.batch,
            // A Close that an error lets the server skip leaves the name taken, and a Parse of it fails.
            None => self.server.closes.earlier(),
        }
    }

    /// The client's scope; none where what its texts mean is not known.
    fn scope(&self) -> Option<u64> {
        self.client.scope.filter(|_| !self.server.is_unsure())
    }

    /// True if what the server would prepare for an entry may mean something else to others, or
    /// later.
    fn is_passing(&self, id: EntryId) -> bool {
        let scope = self.cache.entry(id).scope();
        scope.is_none() || scope != self.scope()
    }

    /// Makes room for an entry that the server lacks, and counts it as there.
    fn prepare(&mut self, id: EntryId) -> Altered {
        let number = self.cache.entry(id).number;
        // PostgreSQL refuses a Parse under a name that it has.
        if self.server.prepared.peek(number).is_some() {
            self.put_close(Given::Entry(number));
        }
        // More than one may have to go, as the limit may be lower than before. What is skipped leaves no more
        // than there were: the next Parse in another batch waits for each Close before it (`waits_for`).
        let most = self.cache.bounds.server_max.max(1);
        while self.server.prepared.len() >= most {
            let oldest = self.server.prepared.oldest().expect("there is one at least");
            self.put_close(Given::Entry(oldest));
        }
        self.server.changes += 1;
        let (change, batch) = (self.server.changes, self.server.batch);
        let (version, passing) = (self.cache.version(id), self.is_passing(id));
        let (state, shape) = (State::Asked, None);
        let prepared = Prepared { version, change, batch, state, shape, passing };
        self.server.prepared.insert(number, prepared);
        assert!(self.server.prepared.len() <= most, "a server has more statements than its limit");
        self.server.passes |= passing;
        Altered::Prepared { number, change }
    }

    /// Sees to it that the server has a client's statement, in the shape that the client knows it in.
    /// What a server makes of it now is asked before anything of the client's goes there that uses it.
    fn provide(&mut self, name: &[u8], known: Known) -> Result<Provided, Unresolved> {
        let entry = self.cache.entry(known.id);
        let (number, version, is_shaped) = (entry.number, entry.version(), entry.is_shaped);
        let was_asked = self.server.asked.take() == Some(number);
        let waits = was_asked && !self.server.expected.is_empty();
        debug_assert!(
            !waits,
            "the message that has asked for a shape comes again when all is answered"
        );
        let prepared = self.server.prepared.peek(number).filter(|one| one.version.serves(version));
        if let Some(prepared) = prepared.filter(|prepared| prepared.state != State::Doubtful) {
            let differs = prepared.shape.zip(known.shape).filter(|(has, knows)| has != knows);
            match differs {
                None => {
                    // A shape that was asked for this message is the client's from here on. One that
                    // the server told others before may be out of date: its first use proves it
                    // (`unproven`).
                    if let Some(known) = self.client.known_mut(name).filter(|_| was_asked) {
                        known.shape = known.shape.or(prepared.shape);
                    }
                    self.server.prepared.touch(number);
                    return Ok(Provided::Before);
                }
                Some((has, knows)) if was_asked => {
                    return match has.parameters == knows.parameters {
                        true => Err(Unresolved::Reshaped("result type")),
                        false => self.retype(name, known, knows.parameters),
                    };
                }
                // Either shape may be from before a change. The server is asked once more.
                Some(_) => {}
            }
        }
        let altered = self.put_parse(known.id);
        // Nothing is compared, so nothing is waited for: the Parse and its use go together.
        if !is_shaped {
            return Ok(Provided::Now);
        }
        self.ask_shape(name, known.id, altered);
        Err(Unresolved::Waits)
    }

    /// Has the server prepare an entry.
    fn put_parse(&mut self, id: EntryId) -> Altered {
        let altered = self.prepare(id);
        self.cache.write_parse(self.out, id);
        self.push(Step::PutParse, Renamed::Nothing, altered);
        altered
    }

    /// Asks for the shape of what was parsed last for a client's name, before anything uses it.
    fn ask_shape(&mut self, name: &[u8], id: EntryId, parsed: Altered) {
        self.server.name(self.client, name);
        self.describe_parsed(id, parsed, Whose::Gate);
        self.stall();
        self.server.asked = Some(self.cache.entry(id).number);
    }

    /// PostgreSQL keeps the types that a statement's parameters had at its Parse, whatever becomes of
    /// the tables that they came from. A server that was not there then must be told them: from here
    /// on the client's name stands for the text with these types.
    fn retype(
        &mut self,
        name: &[u8],
        known: Known,
        parameters: u64,
    ) -> Result<Provided, Unresolved> {
        debug_assert!(self.server.expected.is_empty(), "no error takes the name back");
        let room = if name.is_empty() { Room::All } else { Room::Named };
        let id = match self.cache.retyped(known.id, parameters, room) {
            Some(Ok(id)) => id,
            Some(Err(_)) => return Err(Unresolved::NoRoom),
            None => return Err(Unresolved::Reshaped("parameter types")),
        };
        let retyped = Known { id, shape: known.shape };
        let before = match name.is_empty() {
            true => self.client.unnamed.replace(retyped),
            false => self.client.name(Client::key(name).into(), retyped, self.cache),
        };
        if let Some(before) = before {
            self.cache.release(before.id);
        }
        let altered = self.put_parse(id);
        self.ask_shape(name, id, altered);
        Err(Unresolved::Waits)
    }

    /// Asks for the shape of what was parsed last, if it is held to one.
    fn describe_parsed(&mut self, id: EntryId, parsed: Altered, whose: Whose) {
        let Altered::Prepared { number, change } = parsed else { return };
        if !self.cache.entry(id).is_shaped {
            return;
        }
        let name = self.server.expected.back().and_then(|parse| parse.name.clone());
        self.cache.write_describe(self.out, Given::Entry(number));
        let altered = Altered::Described { id, number, change, whose };
        self.push(Step::PutDescribe, Renamed::Nothing, altered);
        if let Some(last) = self.server.expected.back_mut() {
            last.name = name;
        }
    }

    fn parse(&mut self, message: Message<'_>) -> Forward {
        let most = self.cache.bounds.statement_max;
        if message.len > most {
            return self.refuse(message, Refusal::Long { most });
        }
        // All of it: the text is the key by which the statement is found.
        if message.here.len() < message.len {
            return Forward::Whole;
        }
        let body = &message.here[HEAD..];
        let Some((name, tail)) = text(body).filter(|(_, tail)| is_parse(tail)) else {
            return self.malformed(Step::Parse);
        };
        if !name.is_empty() {
            if self.server.names.earlier() {
                return self.later();
            }
            if self.client.lookup(name).is_some() {
                return self.duplicate(name, tail);
            }
            if self.client.names.len() >= self.cache.bounds.client_max {
                return self.refuse(message, Refusal::Names { most: self.cache.bounds.client_max });
            }
        }
        let id = match self.taken_in(message, name, tail) {
            Ok(id) => id,
            Err(forward) => return forward,
        };
        // From here on the entry is counted for this Parse: whoever gives up releases it.
        let number = self.cache.entry(id).number;
        let is_named = !name.is_empty() && self.cache.entry(id).is_shaped;
        if self.waits_for(number) || (is_named && self.must_be_sure(id)) {
            self.cache.release(id);
            return self.later();
        }
        let followed = self.cache.entry(id).followed.clone();
        // Within a transaction it passes: it runs nothing.
        let asks = self.asks_of_sequences(followed.as_deref());
        if asks && (self.is_at_rest() || self.server.boundaries > 0) {
            self.cache.release(id);
            return if self.is_at_rest() { Forward::Sequences } else { self.later() };
        }
        // Its shape is told by the server: of this Parse, or when what the gate answers is used.
        let known = Known { id, shape: None };
        let renamed = if name.is_empty() {
            Renamed::Unnamed(self.client.unnamed.replace(known))
        } else {
            let name: Arc<[u8]> = Client::key(name).into();
            let before = self.client.name(name.clone(), known, self.cache);
            assert!(before.is_none(), "a name that is taken is refused above");
            Renamed::Named(name, None)
        };
        if let Renamed::Named(..) = renamed {
            self.check_sql_name(name, tail);
        }
        self.parsed(id, is_named, renamed);
        Forward::Nothing
    }

    /// The entry of a Parse, counted for it. If the client or all of them have no room for it, or its
    /// text is refused, what becomes of the message.
    fn taken_in(
        &mut self,
        message: Message<'_>,
        name: &[u8],
        tail: &[u8],
    ) -> Result<EntryId, Forward> {
        let (room, kept) = match name.is_empty() {
            true => (Room::All, self.server.bytes),
            false => (Room::Named, self.server.bytes + self.client.bytes),
        };
        let most = self.cache.bounds.client_bytes_max;
        // Whoever has nothing else may have one statement of any length that a Parse may have.
        if kept > 0 && kept + tail.len() > most {
            return Err(self.refuse(message, Refusal::Bytes { most }));
        }
        let (scope, lexer_mode) = (self.scope(), self.client.lexer_mode);
        match self.cache.intern(scope, lexer_mode, tail, room) {
            Ok(id) => Ok(id),
            Err(Untaken::NoRoom) => Err(self.refuse(message, Refusal::StatementCache)),
            Err(Untaken::Refused(refusal)) => {
                let position = text(tail).and_then(|(text, _)| refusal.position(text));
                Err(self.refuse(message, Refusal::SessionState(refusal, position)))
            }
        }
    }

    /// Whether a Parse of what the server may have waits until it is known that no transaction has failed:
    /// one that has would be left without it.
    fn must_be_sure(&self, id: EntryId) -> bool {
        let unsure = !self.server.is_sound(self.pipeline.status());
        unsure && self.server.boundaries > 0 && self.lasts(id)
    }

    /// Whether the server has what it would make of an entry now, as far as the gate knows.
    fn lasts(&self, id: EntryId) -> bool {
        let version = self.cache.version(id);
        let prepared = self.server.prepared.peek(self.cache.entry(id).number);
        let prepared = prepared.filter(|one| one.version == version);
        prepared.is_some_and(|one| one.state != State::Doubtful && !one.passing)
            && !self.is_passing(id)
            && !self.server.may_alter
    }

    /// Answers a Parse, or has it answered. A name is to stand for what its text means now, and only the
    /// server knows whether a schema was changed past the gate: it parses the text anew. Who has no name
    /// for it parses it each time, and is answered.
    fn parsed(&mut self, id: EntryId, is_named: bool, renamed: Renamed) {
        self.cache.parsed(id);
        let sound = self.server.is_sound(self.pipeline.status());
        if !self.lasts(id) || (is_named && sound) {
            let altered = self.prepare(id);
            self.cache.write_parse(self.out, id);
            self.push(Step::Parse, renamed, altered);
            self.describe_parsed(id, altered, Whose::Client);
        } else if sound {
            self.server.prepared.touch(self.cache.entry(id).number);
            self.push(Step::InternalParse, renamed, Altered::Nothing);
        } else {
            // PostgreSQL refuses a Parse in a failed transaction. This one may have failed by then,
            // so the server is asked, without a name.
            self.cache.write_parse_as(self.out, None, id);
            self.push(Step::Parse, renamed, Altered::Nothing);
        }
    }

    /// A message that cannot be read goes as it is: the server refuses it in its own words.
    fn malformed(&mut self, step: Step) -> Forward {
        // Nothing behind it may be taken for granted: the server reads the message in its own way.
        self.stall();
        self.plain(step);
        Forward::AsItIs
    }

    /// A name that the client has already: the server looks at the statement first, and then says so.
    fn duplicate(&mut self, name: &[u8], tail: &[u8]) -> Forward {
        self.special(name);
        self.put_present(Given::Present(0));
        let cache = &*self.cache;
        write::message(self.out, Frontend::Parse, |out| {
            cache.write_name(out, Given::Present(0));
            out.push(0);
            out.extend_from_slice(tail);
        });
        self.plain(Step::Parse);
        Forward::Nothing
    }

    /// Writes the head of a message, of which `old` bytes of the body are replaced.
    fn head(
        &mut self,
        message: Message<'_>,
        old: usize,
        new: impl FnOnce(&StatementCache, &mut Vec<u8>),
    ) {
        let start = self.out.len();
        self.out.push(message.tag.into());
        self.out.extend_from_slice(&[0; 4]);
        new(self.cache, self.out);
        debug_assert!(old <= message.len - HEAD, "{old} bytes of {} replaced", message.len);
        let length = message.len - HEAD - old + self.out.len() - start - 1;
        // A message has a gigabyte at most (`Limits::SESSION`), and names of ours are short.
        debug_assert!(i32::try_from(length).is_ok(), "{length} bytes of a message");
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        self.out[start + 1..start + HEAD].copy_from_slice(&length.to_be_bytes());
    }

    /// True if what a name means is not known before earlier batches are answered.
    fn is_unclear(&self, name: &[u8]) -> bool {
        match name {
            // What this batch has made of it stands, whatever becomes of those before.
            b"" => self.server.unnamed.earlier() && self.server.unnamed.here == 0,
            _ => self.server.names.earlier(),
        }
    }

    /// The name at the server for a client's, which the server has then if the client has it.
    fn resolve(&mut self, name: &[u8]) -> Result<(Option<Given>, Altered), Unresolved> {
        if self.is_unclear(name) {
            return Err(Unresolved::Waits);
        }
        let Some(known) = self.client.known(name) else {
            if name.is_empty() {
                // The server may have one by a Parse that was to be checked.
                self.cache.write_close(self.out, None);
                self.plain(Step::PutClose);
                self.stall();
                return Ok((None, Altered::Nothing));
            }
            // A name that the server lacks for sure: so the error is the server's, and the transaction
            // fails.
            self.special(name);
            return Ok((Some(Given::Lacking(0)), Altered::Nothing));
        };
        let entry = self.cache.entry(known.id);
        let (number, unproven) = (entry.number, known.shape.is_none() && entry.is_shaped);
        if self.waits_for(number) {
            return Err(Unresolved::Waits);
        }
        if self.provide(name, known)? == Provided::Now {
            self.server.name(self.client, name);
        }
        Ok((Some(Given::Entry(number)), Altered::Uses { number, unproven }))
    }

    fn bind(&mut self, message: Message<'_>) -> Forward {
        let body = &message.here[HEAD..];
        // So much of a long one is sure to be here, and no more is looked at, whatever has come.
        let front = &body[..body.len().min(Limits::SESSION.whole_max - HEAD)];
        let names = text(front).and_then(|(portal, rest)| Some((portal, text(rest)?.0)));
        let Some((portal, name)) = names else {
            if front.len() < message.len - HEAD {
                // Each name ends with a zero.
                return self.refuse(message, Refusal::LongNames { most: front.len() - 2 });
            }
            return self.malformed(Step::Bind);
        };
        let id = self.client.lookup(name);
        let (meanings, followed) = match self.executes(message, id) {
            Ok(executes) => executes,
            Err(forward) => return forward,
        };
        let drops = id.filter(|&id| !self.cache.entry(id).found.drops.is_empty());
        let may = id.map_or(May::default(), |id| self.cache.entry(id).found.may);
        let may = self.may_do(may, &meanings);
        let is_told = followed.is_some() || drops.is_some() || may.is_told_by_portal();
        // Before anything is written for the Bind: a refusal must come alone.
        if is_told && self.server.portals.is_full() {
            return self.refuse(message, Refusal::Portals { most: PORTALS_MAX });
        }
        if self.asks_of_sequences(followed.as_deref()) {
            return match self.is_at_rest() {
                true => Forward::Sequences,
                false => self.refuse(message, Refusal::Sequences),
            };
        }
        let mut naming = None;
        let given = match id {
            Some(id) if !meanings.is_empty() => {
                naming = self.put_named(id, &meanings);
                Ok((Name::Unnamed, Altered::Nothing))
            }
            Some(id) if self.drops_of_sql(id) => {
                self.cache.write_parse_as_said(self.out, id);
                self.plain(Step::PutParse);
                Ok((Name::Unnamed, Altered::Nothing))
            }
            _ => self.given(name),
        };
        let (given, altered) = match given {
            Ok(given) => given,
            Err(unresolved) => return self.unresolved(message, unresolved),
        };
        self.server.may(may);
        // Both names with their zeros. The portal's stays as it is: portals are the client's own at its
        // server.
        let old = portal.len() + name.len() + 2;
        self.head(message, old, |cache, out| {
            out.extend_from_slice(&body[..=portal.len()]);
            write_given(cache, out, given, name);
        });
        self.push(Step::Bind, Renamed::Nothing, altered);
        // By this name the client is told of an error, and what it knows of the statement is found again.
        self.server.name(self.client, name);
        if is_told || naming.is_some() || !self.server.portals.is_empty() {
            let (number, batch, name) = (self.asked_last(), self.server.batch, portal.into());
            let portal = Portal { number, batch, name, drops, followed, naming, may };
            self.server.portals.asked(portal, self.cache);
        }
        Forward::Behind { bytes: HEAD + old }
    }

    /// As [`resolve`](Turn::resolve), where a client that has its server for itself may also mean a
    /// statement of SQL's PREPARE.
    fn given(&mut self, name: &[u8]) -> Result<(Name, Altered), Unresolved> {
        let own = !name.is_empty() && self.client.has_sql && self.client.lookup(name).is_none();
        if own && !name.starts_with(self.cache.prefix()) && !self.is_unclear(name) {
            return Ok((Name::Clients, Altered::Nothing));
        }
        let (given, altered) = self.resolve(name)?;
        Ok((given.map_or(Name::Unnamed, Name::Ours), altered))
    }

    /// A message cannot name what it uses: now or at all.
    fn unresolved(&mut self, message: Message<'_>, unresolved: Unresolved) -> Forward {
        match unresolved {
            Unresolved::Waits => self.later(),
            Unresolved::Reshaped(what) => self.refuse(message, Refusal::Reshaped(what)),
            Unresolved::NoRoom => self.refuse(message, Refusal::StatementCache),
            Unresolved::Refused(refusal) => self.refuse(message, refusal),
        }
    }

    /// The meanings of the names in a statement's text, none where they go as they are, and all that it
    /// leaves.
    fn executes(
        &mut self,
        message: Message<'_>,
        id: Option<EntryId>,
    ) -> Result<(Vec<Meaning>, Option<Arc<Followed>>), Forward> {
        let Some(id) = id else { return Ok((Vec::new(), None)) };
        let entry = self.cache.entry(id);
        let followed = entry.followed.clone();
        if entry.found.names.is_empty() {
            return Ok((Vec::new(), followed));
        }
        let found = entry.found.clone();
        // Asked before the server gets anything for it: to discard sequences nothing may be under way.
        let said = self.executing(followed.clone(), &found, &self.meanings(&found));
        if message.tag == Frontend::Bind && self.asks_of_sequences(said.as_deref()) {
            return Err(match self.is_at_rest() {
                true => Forward::Sequences,
                false => self.refuse(message, Refusal::Sequences),
            });
        }
        let meanings = match self.executed(message, &found) {
            Executed::AsItIs => Vec::new(),
            Executed::Named(meanings) => meanings,
            Executed::Other(forward) => return Err(forward),
        };
        let followed = self.executing(followed, &found, &meanings);
        Ok((meanings, followed))
    }

    /// True if a statement drops what its client has prepared in SQL, which goes by its own names.
    fn drops_of_sql(&self, id: EntryId) -> bool {
        let sql = |target: &Target| match target {
            Target::Name(name) => !self.client.names.contains_key(name),
            Target::All => true,
            Target::Discard => false,
        };
        let drops = &self.cache.entry(id).found.drops;
        self.client.has_sql && drops.iter().any(|(_, target)| sql(target))
    }

    fn describe(&mut self, message: Message<'_>) -> Forward {
        match message.here.get(HEAD..) {
            Some([b'S', rest @ ..]) => {
                let Some((name, [])) = text(rest) else { return self.malformed(Step::Describe) };
                let id = self.client.lookup(name);
                let (meanings, _) = match self.executes(message, id) {
                    Ok(executes) => executes,
                    Err(forward) => return forward,
                };
                let named = id.filter(|_| !meanings.is_empty());
                let given = match named.and_then(|id| self.put_named(id, &meanings)) {
                    Some(_) => Ok((Name::Unnamed, Altered::Nothing)),
                    None => self.given(name),
                };
                let (given, altered) = match given {
                    Ok(given) => given,
                    Err(unresolved) => return self.unresolved(message, unresolved),
                };
                self.head(message, name.len() + 2, |cache, out| {
                    out.push(b'S');
                    write_given(cache, out, given, name);
                });
                self.push(Step::Describe, Renamed::Nothing, altered);
                self.server.name(self.client, name);
                Forward::Nothing
            }
            _ => {
                self.plain(Step::Describe);
                Forward::AsItIs
            }
        }
    }

    fn close(&mut self, message: Message<'_>) -> Forward {
        // A portal, or what the server will not read.
        let Some([b'S', rest @ ..]) = message.here.get(HEAD..) else {
            self.plain(Step::Close);
            return Forward::AsItIs;
        };
        let Some((name, [])) = text(rest) else { return self.malformed(Step::Close) };
        if !name.is_empty() && self.server.names.earlier() {
            return self.later();
        }
        if !name.is_empty()
            && self.client.has_sql
            && self.client.lookup(name).is_none()
            && !name.starts_with(self.cache.prefix())
        {
            // It may be one of SQL's.
            self.plain(Step::Close);
            return Forward::AsItIs;
        }
        let renamed = if name.is_empty() {
            self.drop_unnamed()
        } else {
            match self.client.unname(Client::key(name), self.cache) {
                Some((name, known)) => Renamed::Named(name, Some(known)),
                None => Renamed::Nothing,
            }
        };
        // The statement stays at the server for others. Close succeeds for any name, in a failed
        // transaction too, so the gate may answer it.
        self.push(Step::InternalClose, renamed, Altered::Nothing);
        Forward::Nothing
    }

    /// True if a text asks what its session has moved of sequences, where others may have moved
    /// some.
    fn asks_of_sequences(&mut self, followed: Option<&Followed>) -> bool {
        let asks = followed.is_some_and(Followed::asks_of_sequences);
        asks && self.asks_where_others_may_have_moved()
    }

    /// The same of what is known to ask, unless that is trusted.
    fn asks_where_others_may_have_moved(&mut self) -> bool {
        // From the first question on the gate discards between clients.
        self.cache.asked_of_sequences();
        self.cache.discards_sequences() && self.server.has_others_sequences()
    }

    /// True if nothing of the client's is under way at the server, in a transaction or before its
    /// end.
    fn is_at_rest(&self) -> bool {
        self.pipeline.kept().is_none()
    }

    fn execute(&mut self, message: Message<'_>) -> Forward {
        let portal = text(&message.here[HEAD..]).map(|(portal, _)| portal);
        let special = portal.and_then(|name| self.server.portals.last(name));
        // The Bind may yet be skipped, and an Execute would then run the portal before it.
        if special.is_some_and(|portal| self.server.is_unclear(portal)) {
            return self.later();
        }
        let (followed, drops) =
            special.map_or((None, None), |portal| (portal.followed.clone(), portal.drops));
        let may = special.map_or(May::default(), |portal| portal.may);
        if let Some(naming) = special.and_then(|portal| portal.naming.clone()) {
            return self.execute_named(message, &naming, followed, may);
        }
        let Some(id) = drops else {
            self.server.may(may);
            self.plain(Step::Execute);
            if let Some(followed) = followed {
                self.watch(&followed);
            }
            return Forward::AsItIs;
        };
        if self.server.names.earlier() {
            return self.later();
        }
        let drops = self.cache.entry(id).found.drops.clone();
        self.stall();
        for (_, target) in drops {
            match &target {
                Target::Discard => {}
                Target::All => self.put_present(Given::Present(0)),
                Target::Name(name) if self.client.names.contains_key(name) => {
                    self.put_present(Given::Present(0));
                }
                // The text names what must not be there, so that the server refuses it.
                Target::Name(_) => self.put_close(Given::Present(0)),
            }
            if let Target::Name(name) = &target {
                let name = name.clone();
                self.server.specials.push(Special { name, target });
            } else if target == Target::All {
                self.server.specials.push(Special { name: Arc::new([]), target });
            }
        }
        self.out.extend_from_slice(message.here);
        self.plain(Step::Execute);
        if let Some(followed) = followed {
            self.watch(&followed);
        }
        // Nothing more is taken before the reply, not even a Flush or a Sync that would bring it.
        self.flush();
        Forward::Nothing
    }

    fn query(&mut self, message: Message<'_>) -> Forward {
        let whole = message.here.len() == message.len;
        if !whole && message.len <= self.cache.bounds.statement_max {
            return Forward::Whole;
        }
        let body = text(&message.here[HEAD..]);
        // `exec_simple_query` drops the unnamed statement. It is not reached where the body of the
        // message is not one text.
        let is_read = !whole || matches!(body, Some((_, [])));
        let (found, followed) = match body {
            Some((text, [])) if whole => match self.look(text) {
                Ok(seen) => seen,
                Err(refusal) => {
                    let position = refusal.position(text);
                    return self.refuse_query(Refusal::SessionState(refusal, position));
                }
            },
            _ => {
                // Of a text that is not read anything may be true.
                let found = Found { may: May::ANYTHING, ..Found::default() };
                (found, self.cache.code.clone())
            }
        };
        let said = self.meanings(&found);
        let followed = self.executing(followed, &found, &said);
        if !found.drops.is_empty() && self.server.names.earlier() {
            return self.later();
        }
        if self.asks_of_sequences(followed.as_deref()) {
            if self.is_at_rest() {
                return Forward::Sequences;
            }
            return self.refuse_query(Refusal::Sequences);
        }
        let meanings = match self.executed(message, &found) {
            Executed::AsItIs => Vec::new(),
            Executed::Named(meanings) => meanings,
            Executed::Other(forward) => return forward,
        };
        self.server.may(self.may_do(found.may, &meanings));
        let forward = if found.drops.is_empty() && meanings.is_empty() {
            Forward::AsItIs
        } else {
            self.query_named(message, &found, &meanings)
        };
        // One that cannot be read does not begin.
        let renamed = if is_read { self.drop_unnamed() } else { Renamed::Nothing };
        self.push(Step::Query, renamed, Altered::Nothing);
        if let Some(followed) = followed {
            self.watch(&followed);
        }
        forward
    }

    /// The contents of a Query's text, and its session effects.
    fn look(&self, text: &[u8]) -> Result<(Found, Option<Arc<Followed>>), crate::sql::Refusal> {
        let lexer_mode = self.client.lexer_mode;
        let opens = match prefilter(text, lexer_mode) {
            Prefilter::Nothing => false,
            Prefilter::Opens => true,
            Prefilter::Unknown => {
                let followed = self.cache.follow(text, lexer_mode)?;
                let names = sql::names(text, lexer_mode, followed.as_deref());
                return Ok((Found { names, ..sql::look(text, lexer_mode) }, followed));
            }
        };
        let may = May { opens, ..May::default() };
        Ok((Found { may, ..Found::default() }, None))
    }

    /// The names of ours for those of the statements that a Query drops, and where they go.
    fn dropped(&mut self, found: &Found) -> Vec<(Range<usize>, Given)> {
        let (mut written, mut all) = (Vec::new(), false);
        for (at, target) in &found.drops {
            let known = match target {
                Target::Discard => continue,
                Target::All if self.client.has_sql => continue,
                Target::All => true,
                Target::Name(name) => {
                    let gone = |special: &Special| special.target == *target;
                    // Named twice in one text, it is there the first time only.
                    let gone = all || self.server.specials.iter().any(gone);
                    self.client.names.contains_key(name) && !gone
                }
            };
            let name: Arc<[u8]> = match target {
                Target::Name(name) if !known && self.client.has_sql => {
                    if !name.starts_with(self.cache.prefix()) {
                        // It counts as a DEALLOCATE that completes, and drops nothing here.
                        let (name, target) = (name.clone(), Target::Discard);
                        self.server.specials.push(Special { name, target });
                        continue;
                    }
                    name.clone()
                }
                Target::Name(name) => name.clone(),
                _ => Arc::new([]),
            };
            all |= *target == Target::All;
            let place = self.server.specials.len();
            let given = if known { Given::Present(place) } else { Given::Lacking(place) };
            if known {
                self.put_present(given);
            }
            self.server.specials.push(Special { name, target: target.clone() });
            written.push((at.clone(), given));
        }
        written
    }
}

/// True if a FunctionCall is of the functions for large objects, which drivers call so, and which
/// leave nothing in the session (`pg_proc.dat`).
fn is_large_object(message: Message<'_>) -> bool {
    const LARGE_OBJECTS: [u32; 17] =
        [715, 764, 767, 765, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172, 3457];
    let function = message.here.get(HEAD..).and_then(<[u8]>::first_chunk);
    function.is_some_and(|function| LARGE_OBJECTS.contains(&u32::from_be_bytes(*function)))
}

/// True if a FunctionCall is of `currval` or `lastval` (`pg_proc.dat`).
fn tells_of_sequences(message: Message<'_>) -> bool {
    let function = message.here.get(HEAD..).and_then(<[u8]>::first_chunk);
    function.is_some_and(|function| matches!(u32::from_be_bytes(*function), 1575 | 2559))
}

/// When a server got what it needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Provided {
    Before,
    Now,
}

/// Why what a message uses has no name at the server.
enum Unresolved {
    /// Outstanding requests must be answered first.
    Waits,
    /// The server would make something of another shape of it: what would change.
    Reshaped(&'static str),
    /// The statement cache has no room for it with the types that its parameters had.
    NoRoom,
    Refused(Refusal),
}

/// Name of a statement in a message.
#[derive(Clone, Copy)]
enum Name {
    Ours(Given),
    Unnamed,
    /// As the client does: a statement that it has made at this server by SQL.
    Clients,
}

fn write_given(cache: &StatementCache, out: &mut Vec<u8>, name: Name, clients: &[u8]) {
    match name {
        Name::Ours(given) => cache.write_name(out, given),
        Name::Unnamed => {}
        Name::Clients => out.extend_from_slice(clients),
    }
    out.push(0);
}
