//! Prepared statements of a server, the replies that it owes, and the treatment of each.

mod ask;
mod errors;
mod portals;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use self::errors::{Moved, names, refused_text};
use self::portals::{Portal, Portals};
use super::Client;
use super::recent::Recent;
use super::shape::{self, Known, Shape};
use super::sql::{May, Target};
use super::statement_cache::{Change, EntryId, StatementCache, Version};
use crate::pipeline::{Fate, Local, Pipeline, Sent, Violation, Whose};
use crate::sql::{self, Effect, Followed, Left, Reason, Reasons};
pub(super) use ask::{is_parse, is_types};
use pgwire::SqlState;
use pgwire::frame::{Backend, Frontend, HEAD};
use pgwire::message::read::Fields;
use pgwire::message::{Status, read, write};

/// A message of a client: all of it, or what its piece has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// The tag.
    pub tag: Frontend,
    /// Its bytes in all, head included \[byte\].
    pub len: usize,
    /// Those that are here, head included.
    pub here: &'a [u8],
}

/// Part of a message that goes to the server, behind what was written for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    /// The message as it is.
    AsItIs,
    /// The message without its first bytes: others were written for them.
    Behind {
        /// The number left out \[byte\].
        bytes: usize,
    },
    /// Nothing of it, whatever pieces follow.
    Nothing,
    /// Nothing yet, and the message is not taken: the same again after a reply of the server. What
    /// was written must be sent; it lets the replies come.
    Later,
    /// Nothing yet, and the message is not taken: the same again when all of it is here.
    Whole,
    /// Nothing yet, and the message is not taken: the same again when the session's sequences are
    /// discarded. Nothing is outstanding, and no transaction open.
    Sequences,
}

/// Treatment of a reply of a server. What was written goes to the client behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Treatment {
    /// The client gets it.
    Pass,
    /// The client does not get it, or what was written in its place.
    Swallow,
}

/// Step that a server owes a reply for, or the gate in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    /// A Parse and a Close of ours, of which the client hears nothing.
    PutParse,
    PutClose,
    /// A Describe of ours, of a statement that was parsed just before.
    PutDescribe,
    /// Replies of ours.
    InternalParse,
    InternalClose,
    Sync,
    Query,
    Call,
    /// A Bind that fails for a reason of ours, and a Query.
    Refused,
    RefusedQuery,
}

impl Step {
    fn is_boundary(self) -> bool {
        matches!(self, Step::Sync | Step::Query | Step::RefusedQuery | Step::Call)
    }

    /// True if settings may be others behind it.
    fn runs(self) -> bool {
        self == Step::Execute || self.is_boundary()
    }
}

/// Change of the client's names on the way, and what was there before, to be undone if the server
/// does not do it.
///
/// Names wait for what earlier batches do to names, so nothing is ever undone before a change that
/// stays. The unnamed statement does not wait: what drops or sets it says so even where it changes
/// nothing, since what was there before may yet turn out to be something else.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Renamed {
    Nothing,
    Named(Arc<[u8]>, Option<Known>),
    /// PostgreSQL drops the unnamed statement at the beginning of a Parse of it and of a Query: one
    /// that fails has dropped it, one that is skipped has not.
    Unnamed(Option<Known>),
}

/// The same of the server's set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Altered {
    Nothing,
    Prepared {
        number: u64,
        change: u64,
    },
    /// `change`: that which has made what is closed.
    Closed {
        number: u64,
        change: u64,
    },
    /// Nothing; but its shape is told, of a Parse by the client or by us.
    Described {
        id: EntryId,
        number: u64,
        change: u64,
        whose: Whose,
    },
    /// Nothing; but this entry is what the message speaks of. `unproven`: its client does not know its
    /// shape, since the gate has answered its Parse.
    Uses {
        number: u64,
        unproven: bool,
    },
}

#[derive(Clone, Debug)]
struct Expected {
    /// Of the request, as the pipeline counts.
    number: u64,
    step: Step,
    /// The client's name for the statement that it uses; none for the unnamed one.
    name: Option<Arc<[u8]>>,
    renamed: Renamed,
    altered: Altered,
    /// Bytes that go from the statement cache with its reply at the earliest \[byte\].
    bytes: usize,
}

/// A statement as a server has it.
#[derive(Clone, Copy, Debug)]
struct Prepared {
    version: Version,
    /// The change that made it, and its batch.
    change: u64,
    batch: u64,
    state: State,
    /// None before the server has told, and of what is not held to one.
    shape: Option<Shape>,
    /// True if it may mean something else behind the transaction that is open.
    passing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    There,
    /// Perhaps it is there, perhaps with other columns.
    Doubtful,
}

/// Number of changes that wait for their replies, and of those in the batch that is being asked.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    all: usize,
    here: usize,
}

impl Pending {
    fn add(&mut self) {
        self.all += 1;
        self.here += 1;
    }

    fn take(&mut self, batches_follow: usize) {
        assert!(self.all > 0, "a change that was not counted");
        self.all -= 1;
        // Without a Sync behind it, it was in the batch that is being asked. A COPY may have swallowed
        // the Sync that began this count, which then lacks what came before.
        if batches_follow == 0 {
            self.here = self.here.saturating_sub(1);
        }
        debug_assert!(self.here <= self.all, "{self:?}");
    }

    fn earlier(self) -> bool {
        self.all > self.here
    }
}

/// A statement of the client's that an irregular message is about.
#[derive(Clone, Debug)]
struct Special {
    name: Arc<[u8]>,
    /// The statements of the client's that its DEALLOCATE drops; [`Target::Discard`] for none.
    target: Target,
}

/// Why the gate itself refuses a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refusal {
    Names {
        most: usize,
    },
    Bytes {
        most: usize,
    },
    StatementCache,
    Long {
        most: usize,
    },
    /// The names of a portal and of its statement are longer together.
    LongNames {
        most: usize,
    },
    Portals {
        most: usize,
    },
    /// A text executes more statements than its server keeps.
    Executes {
        most: usize,
    },
    /// A text executes a statement that names others itself.
    Nested,
    /// It has other parameters or columns now than when its client prepared it.
    Reshaped(&'static str),
    /// The session state that it would leave, and the place in its text that says so.
    SessionState(sql::Refusal, Option<usize>),
    /// It asks what its session has moved of sequences, in the midst of what others' may be mixed with.
    Sequences,
}

/// A text that leaves something, from when it is sent until its replies have come.
#[derive(Debug)]
struct Watched {
    /// Of its request.
    number: u64,
    followed: Arc<Followed>,
    /// The number of its commands that have completed.
    commands: usize,
    /// True if one has failed.
    failed: bool,
}

/// A command that has completed, of a text that is followed.
#[derive(Debug)]
pub(crate) struct Completed {
    followed: Arc<Followed>,
    at: Range<usize>,
}

impl Completed {
    /// Its session effects.
    pub(crate) fn effects(&self) -> &[Effect] {
        &self.followed.effects().effects[self.at.clone()]
    }
}

/// A connection to a server: what it has prepared, and the replies that it owes to the client that
/// has it now.
#[derive(Debug)]
pub(crate) struct Server {
    prepared: Recent<u64, Prepared>,
    /// True if some of these are only for the transaction that is open.
    passes: bool,
    expected: VecDeque<Expected>,
    /// True if the transaction may be another one behind what is not answered yet.
    may_open: bool,
    /// True if the open transaction has changed a schema, and if it may have by then.
    alters: bool,
    may_alter: bool,
    /// True if a text on its way may make a table without its tag saying so.
    may_make: bool,
    /// True if a command of a Query has described rows, and is not completed.
    has_rows: bool,
    /// Steps without an answer yet that run something, or end a segment.
    runs: usize,
    boundaries: usize,
    syncs: usize,
    batch: u64,
    changes: u64,
    /// Parses that it was sent and that nobody has counted yet.
    parses: u64,
    /// The part of the statement cache that expected replies keep \[byte\].
    bytes: usize,
    /// True while nothing more is asked before all is answered.
    stalled: bool,
    /// True if a COPY may have been asked for: until it is answered nothing is asked that the
    /// server would read as part of it, or that an ambiguous Sync would leave without a place.
    copies: bool,
    names: Pending,
    unnamed: Pending,
    closes: Pending,
    specials: Vec<Special>,
    specials_done: usize,
    /// The statements that a text executes that was sent last, with its client's names for them, and
    /// where it has been changed.
    executed: Vec<(u64, Arc<[u8]>)>,
    moved: Moved,
    /// True while a Query waits for statements that it executes.
    query_waits: bool,
    refusal: Option<Refusal>,
    sync_missing: bool,
    /// The statement whose shape was asked for before a message goes on that uses it: from then until that
    /// message comes again, when all is answered.
    asked: Option<u64>,
    /// The parameters of the statement that is being described.
    parameters: u64,
    portals: Portals,
    /// Texts with session effects that were executed and are not answered yet, the first first.
    watched: VecDeque<Watched>,
    completed: Option<Completed>,
    /// True if one of these decides what texts behind it mean.
    means: bool,
    left: Left,
    pins: Reasons,
    sequences: Sequences,
}

/// Clients whose sequences a session has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sequences {
    /// None, or its client's in what it has asked since it has the session.
    #[default]
    Clients,
    /// Perhaps those of clients before.
    Others,
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl Server {
    /// A session that has just begun, or just ended with `DISCARD ALL`.
    pub(crate) fn new() -> Server {
        Server {
            prepared: Recent::new(),
            passes: false,
            expected: VecDeque::new(),
            may_open: false,
            alters: false,
            may_alter: false,
            may_make: false,
            has_rows: false,
            runs: 0,
            boundaries: 0,
            syncs: 0,
            batch: 0,
            changes: 0,
            parses: 0,
            bytes: 0,
            stalled: false,
            copies: false,
            names: Pending::default(),
            unnamed: Pending::default(),
            closes: Pending::default(),
            specials: Vec::new(),
            specials_done: 0,
            executed: Vec::new(),
            moved: Moved::default(),
            query_waits: false,
            refusal: None,
            sync_missing: false,
            asked: None,
            parameters: 0,
            portals: Portals::default(),
            watched: VecDeque::new(),
            completed: None,
            means: false,
            left: Left::default(),
            pins: Reasons::default(),
            sequences: Sequences::Clients,
        }
    }

    /// Its client has no longer to do with it: what that has moved of sequences is another's from here on.
    pub(crate) fn parted(&mut self) {
        self.sequences = Sequences::Others;
    }

    /// The gate has discarded what the session has moved of sequences.
    pub(crate) fn sequences_discarded(&mut self) {
        self.sequences = Sequences::Clients;
    }

    /// True if the session may have moved sequences for clients before.
    pub(crate) fn has_others_sequences(&self) -> bool {
        self.sequences == Sequences::Others
    }

    /// True if all is answered that was asked for clients.
    pub(crate) fn is_settled(&self) -> bool {
        self.expected.is_empty()
    }

    /// Number of statements that it has prepared, as far as that is known.
    pub(crate) fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// Number of Parses that it was sent since this was last asked.
    pub(crate) fn take_parses(&mut self) -> u64 {
        std::mem::take(&mut self.parses)
    }

    /// The gate itself has dropped all statements of the session, as by `DISCARD ALL`.
    ///
    /// # Panics
    /// If replies are owed.
    pub(crate) fn discarded(&mut self) {
        // What is on its way may be done before the DISCARD ALL or behind it, and nobody could tell what
        // is there.
        assert!(self.is_settled(), "a session is reset between its clients");
        self.prepared.clear();
        self.sequences_discarded();
    }

    /// Session state left by clients.
    pub(crate) fn left(&self) -> &Left {
        &self.left
    }

    /// True if code, or what could not be read, may have changed what texts mean here.
    fn is_unsure(&self) -> bool {
        self.left.has(Reason::Code) || self.left.has(Reason::Unreadable)
    }

    /// Why its client keeps it.
    pub(crate) fn pins(&self) -> Reasons {
        // What has gone from the session, as by UNLISTEN, keeps nobody.
        self.pins.among(self.left.reasons())
    }

    /// The gate has cleaned the session of what clients have left.
    pub(crate) fn cleaned(&mut self) {
        self.left.cleaned();
        self.pins = Reasons::default();
    }

    /// The command that the last reply has completed, if its text is followed.
    pub(crate) fn take_completed(&mut self) -> Option<Completed> {
        self.completed.take()
    }

    /// A text goes out that leaves something: `number` is that of its request.
    fn watch(&mut self, number: u64, followed: &Arc<Followed>) {
        if !followed.effects_something() {
            return;
        }
        // Before the reply: the server may do this at any moment from now on, and its client may go.
        self.left.sent(followed.effects());
        self.pins = self.pins().with(followed.pins());
        self.means |= followed.changes_meaning();
        let followed = Arc::clone(followed);
        self.watched.push_back(Watched { number, followed, commands: 0, failed: false });
    }

    /// The request of this number has had a command completed, with this tag.
    fn command_done(&mut self, number: u64, tag: &[u8]) {
        let watched = self.watched.front_mut().filter(|watched| watched.number == number);
        if let Some(Watched { followed, commands, .. }) = watched {
            let effects = &followed.effects().effects;
            debug_assert!(effects.is_sorted_by_key(|effect| effect.command), "{effects:?}");
            let start = effects.partition_point(|effect| effect.command < *commands);
            let end = effects.partition_point(|effect| effect.command <= *commands);
            *commands += 1;
            let completed = Completed { followed: Arc::clone(followed), at: start..end };
            self.left.completed(completed.effects().iter().map(|effect| &effect.what), tag);
            self.completed = Some(completed);
        // A COMMIT or ROLLBACK by a text that leaves nothing itself decides on what others have left.
        } else if self.left.is_moving() {
            self.left.completed([], tag);
        }
    }

    /// The request of this number is done. Where another number of its commands has completed than its
    /// text was taken to have, nothing is claimed of what any of them has left.
    fn counted(&mut self, number: u64) {
        let watched = self.watched.front().filter(|watched| watched.number == number);
        // Behind an error the rest of the text was not run.
        let Some(Watched { followed, commands, failed: false, .. }) = watched else { return };
        if followed.effects().commands.is_none_or(|known| known == *commands) {
            return;
        }
        let followed = Arc::new(Followed::miscounted());
        let at = 0..followed.effects().effects.len();
        let completed = Completed { followed, at };
        self.left.completed(completed.effects().iter().map(|effect| &effect.what), b"");
        self.pins = self.pins().with(completed.followed.pins());
        self.completed = Some(completed);
    }

    /// Nothing more comes to requests below this number.
    fn unwatch(&mut self, below: u64) {
        while self.watched.front().is_some_and(|watched| watched.number < below) {
            self.watched.pop_front();
        }
        self.means = self.watched.iter().any(|watched| watched.followed.changes_meaning());
    }

    /// Something is on its way that may do this.
    fn may(&mut self, may: May) {
        self.may_open |= may.opens;
        self.copies |= may.copies;
        self.may_alter |= may.alters;
        self.may_make |= may.makes;
    }

    /// Gives up the connection: what its client asked and got no reply for has not happened.
    pub(crate) fn lost(mut self, client: &mut Client, cache: &mut StatementCache) {
        // The last first, since each puts back what it found.
        for last in std::mem::take(&mut self.expected).into_iter().rev() {
            self.undo(last, client, cache);
        }
        // Its last transaction may have committed without a word.
        self.alteration_ended(cache);
        self.portals.clear(cache);
    }

    /// Takes a message of the server, of which `heard` says what it means: all of one that the gate
    /// reads (`message` is what of it is there, head included). What is written to `instead` goes to
    /// the client for it.
    ///
    /// # Errors
    /// If it answers something that was asked later than what is expected next: a fault of ours, by
    /// which this connection must end and no other.
    pub(crate) fn reply(
        &mut self,
        pipeline: &Pipeline,
        (client, cache): (&mut Client, &mut StatementCache),
        (tag, fate): (Backend, Fate),
        message: &[u8],
        instead: &mut Vec<u8>,
    ) -> Result<Treatment, Violation> {
        let front = self.expected.front().map(|front| (front.number, front.step));
        // A transaction may end without a word: an error outside of a block rolls it back, a Sync commits
        // it. Only this status tells, and it counts before what the reply does to its own request.
        if tag == Backend::ReadyForQuery && pipeline.status() == Status::Idle {
            self.alteration_ended(cache);
            self.alters = false;
            self.unsettle();
        }
        let body = message.get(HEAD..).unwrap_or_default();
        self.follow(pipeline, (tag, fate), body);
        match fate {
            Fate::Done(number) => {
                let (parts, of) = ((client, cache), (tag, number));
                return self.request_done(pipeline, parts, of, message, instead);
            }
            // What the gate asks for its own purposes fails for nobody here.
            Fate::Failed { number, next } => {
                let of = front.filter(|&(expected, _)| expected == number);
                let next = of.map(|_| next);
                return Ok(self.failed((client, cache), next, message, instead));
            }
            Fate::Underway if front.is_some_and(|(at, _)| at == pipeline.front_number()) => {
                match tag {
                    Backend::CommandComplete => {
                        return Ok(self.completed(client, cache, body, instead));
                    }
                    Backend::ErrorResponse => {
                        return Ok(self.failed((client, cache), None, message, instead));
                    }
                    Backend::CopyInResponse => self.copies(pipeline),
                    Backend::RowDescription => self.has_rows = true,
                    Backend::ParameterDescription
                        if front.is_some_and(|(_, step)| step == Step::PutDescribe) =>
                    {
                        self.parameters = cache.told(body);
                    }
                    _ => {}
                }
            }
            Fate::Underway | Fate::Aside | Fate::Ended(_) => {}
        }
        Ok(Treatment::Pass)
    }

    /// The request of this number is done, by a reply with this tag.
    fn request_done(
        &mut self,
        pipeline: &Pipeline,
        (client, cache): (&mut Client, &mut StatementCache),
        (tag, number): (Backend, u64),
        message: &[u8],
        instead: &mut Vec<u8>,
    ) -> Result<Treatment, Violation> {
        let front = self.expected.front().map(|front| (front.number, front.step));
        // What the gate asks for its own purposes is not expected here.
        let is_expected = front.is_some_and(|(expected, _)| expected == number);
        if front.is_some_and(|(expected, _)| expected < number) {
            debug_assert!(false, "{front:?} was passed over for {number}");
            return Err(Violation::Unasked { tag });
        }
        let mut treatment = Treatment::Pass;
        if is_expected {
            // Each of these reads the request at the front, which `done` takes away.
            if tag == Backend::CommandComplete {
                let body = message.get(HEAD..).unwrap_or_default();
                treatment = self.completed(client, cache, body, instead);
            }
            if matches!(front, Some((_, Step::PutDescribe))) {
                self.described(client, cache, message);
            }
            self.proven(client, cache);
            self.done(cache);
        }
        if tag == Backend::ReadyForQuery {
            self.ready(pipeline.status(), cache);
        }
        Ok(treatment)
    }

    /// Follows what texts leave in the session.
    fn follow(&mut self, pipeline: &Pipeline, (tag, fate): (Backend, Fate), body: &[u8]) {
        if self.watched.is_empty() && !self.left.is_moving() {
            return;
        }
        // Of a request that is done the pipeline knows no more; the next one is at its front by now.
        let number = match fate {
            Fate::Done(number) => number,
            _ => pipeline.front_number(),
        };
        match tag {
            Backend::CommandComplete => {
                self.command_done(number, body.strip_suffix(b"\0").unwrap_or(body));
            }
            // Whatever it does it may have done.
            Backend::PortalSuspended => self.command_done(number, b""),
            Backend::ErrorResponse => {
                self.left.failed();
                let front = self.watched.front_mut();
                if let Some(front) = front.filter(|watched| watched.number == number) {
                    front.failed = true;
                }
            }
            _ => {}
        }
        // Counted last: this very reply may be the CommandComplete of its last command.
        match fate {
            Fate::Done(number) => {
                self.counted(number);
                self.unwatch(number + 1);
            }
            Fate::Failed { next, .. } => self.unwatch(next),
            _ => {}
        }
        if tag == Backend::ReadyForQuery {
            self.left.ready(pipeline.status());
            // `ready` forgets what was sent; these texts are still without an answer.
            for watched in &self.watched {
                self.left.sent(watched.followed.effects());
            }
            self.pins = self.pins();
        }
    }

    /// A reply of the gate's own has been given.
    pub(crate) fn answered(
        &mut self,
        pipeline: &Pipeline,
        number: u64,
        cache: &mut StatementCache,
    ) {
        debug_assert_eq!(self.expected.front().map(|front| front.number), Some(number));
        self.done(cache);
        // The server has seen nothing of it since it was ready.
        if pipeline.kept().is_none() {
            self.ready(Status::Idle, cache);
        }
    }

    fn rest(&mut self) {
        if self.expected.is_empty() {
            // What waits for one of these would wait for ever.
            let steps = (self.runs, self.boundaries, self.syncs, self.bytes);
            assert_eq!(steps, (0, 0, 0, 0), "counted of no request");
            let pending = (self.names.all, self.unnamed.all, self.closes.all);
            assert_eq!(pending, (0, 0, 0), "changes of no request");
            self.stalled = false;
            self.copies = false;
            (self.may_alter, self.may_make) = (false, false);
            self.forget_names();
        }
    }

    /// The names remembered of a text are not needed any more.
    fn forget_names(&mut self) {
        self.specials.clear();
        self.specials_done = 0;
        self.executed.clear();
        self.moved = Moved::default();
    }

    /// The first request is done: it stays so.
    fn done(&mut self, cache: &mut StatementCache) {
        let Some(front) = self.expected.pop_front() else { return };
        self.uncount(&front);
        if front.step == Step::Bind && !self.portals.is_empty() {
            self.portals.done(front.number, cache);
        }
        if let Altered::Prepared { number, change } = front.altered
            && let Some(prepared) = self.prepared.peek_mut(number)
            && prepared.change == change
        {
            prepared.state = State::There;
            // Made of a schema that a rollback may take back.
            prepared.passing |= self.alters;
            self.passes |= prepared.passing;
        }
        // No error puts it back any more, so its entry may go.
        match front.renamed {
            Renamed::Named(_, Some(was)) | Renamed::Unnamed(Some(was)) => cache.release(was.id),
            _ => {}
        }
        self.rest();
    }

    fn uncount(&mut self, one: &Expected) {
        self.runs -= usize::from(one.step.runs());
        self.boundaries -= usize::from(one.step.is_boundary());
        self.syncs -= usize::from(one.step == Step::Sync);
        self.bytes -= one.bytes;
        match one.renamed {
            Renamed::Nothing => {}
            Renamed::Named(..) => self.names.take(self.syncs),
            Renamed::Unnamed(_) => self.unnamed.take(self.syncs),
        }
        if matches!(one.altered, Altered::Closed { .. }) {
            self.closes.take(self.syncs);
        }
    }

    /// The server has told the shape of a statement that it has parsed. What the client has named by
    /// that Parse has it, and what it has named since by one that the gate has answered.
    fn described(&mut self, client: &mut Client, cache: &mut StatementCache, message: &[u8]) {
        let Some(front) = self.expected.front() else { return };
        let Altered::Described { id, number, change, whose } = front.altered else { return };
        let (head, body) = message.split_at(HEAD);
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let rows = shape::of_rows(body, length.saturating_sub(4));
        let shape = Shape { parameters: self.parameters, rows };
        let prepared = self.prepared.peek_mut(number);
        if let Some(prepared) = prepared.filter(|prepared| prepared.change == change) {
            prepared.shape = Some(shape);
            // A statement that means something else to others says nothing of the schema.
            if !prepared.passing && cache.has_shape(id, shape) == Change::Unseen {
                cache.has_changed_schema();
            }
        }
        let name = front.name.clone();
        // In the order of time: each change that is expected keeps what its name stood for before it, so
        // the first of that name has what the Parse made of it, and the client itself where none follows.
        let mut own = (whose == Whose::Client).then(|| name.clone());
        let mut tell = |known: &mut Known, name: Option<&Arc<[u8]>>| {
            let is_own = own.as_ref().is_some_and(|own| own.as_ref() == name);
            if known.id == id && (is_own || known.shape.is_none()) {
                known.shape = Some(shape);
            }
            if is_own {
                own = None;
            }
        };
        let mut renamed = Vec::new();
        for one in &mut self.expected {
            match &mut one.renamed {
                Renamed::Named(name, Some(was)) => tell(was, Some(name)),
                Renamed::Unnamed(Some(was)) => tell(was, None),
                Renamed::Named(name, None) => renamed.push(name.clone()),
                _ => {}
            }
        }
        renamed.extend(name);
        for name in &renamed {
            if let Some(known) = client.known_mut(name) {
                tell(known, Some(name));
            }
        }
        if let Some(known) = &mut client.unnamed {
            tell(known, None);
        }
    }

    /// The server has done what was asked first: what that uses has had its shape since its client's
    /// Parse, which the gate has answered, and the client is held to it from here on.
    fn proven(&mut self, client: &mut Client, cache: &StatementCache) {
        let Some(front) = self.expected.front() else { return };
        match front.altered {
            Altered::Uses { number, unproven: true } => {
                let name = front.name.clone();
                self.prove(number, name.as_ref(), client, cache);
            }
            _ if matches!(front.step, Step::Query | Step::Execute) => {
                for (number, name) in std::mem::take(&mut self.executed) {
                    self.prove(number, Some(&name), client, cache);
                }
            }
            _ => {}
        }
    }

    fn prove(
        &mut self,
        number: u64,
        name: Option<&Arc<[u8]>>,
        client: &mut Client,
        cache: &StatementCache,
    ) {
        let Some(shape) = self.prepared.peek(number).and_then(|prepared| prepared.shape) else {
            return;
        };
        // What the name stood for at this request: the first change behind it has kept that.
        let later = self.expected.iter_mut().find_map(|one| match (&mut one.renamed, name) {
            (Renamed::Named(renamed, was), Some(name)) if renamed == name => Some(was.as_mut()),
            (Renamed::Unnamed(was), None) => Some(was.as_mut()),
            _ => None,
        });
        let known = later.unwrap_or_else(|| client.known_mut(name.map_or(b"", |name| name)));
        if let Some(known) = known
            && cache.entry(known.id).number == number
        {
            // Only the first time: from then on the client is held to it.
            known.shape.get_or_insert(shape);
        }
    }

    /// A request has not happened. It is expected no more, nor is what was asked behind it in the
    /// same batch, which is undone before.
    fn undo(&mut self, one: Expected, client: &mut Client, cache: &mut StatementCache) {
        match one.renamed {
            Renamed::Nothing => {}
            Renamed::Named(name, was) => {
                let now = match was {
                    Some(was) => client.name(name, was, cache),
                    None => client.unname(&name, cache).map(|(_, now)| now),
                };
                if let Some(now) = now {
                    cache.release(now.id);
                }
            }
            Renamed::Unnamed(was) => self.set_unnamed(was, client, cache),
        }
        match one.altered {
            Altered::Prepared { number, change } => {
                if self.prepared.peek(number).is_some_and(|now| now.change == change) {
                    self.prepared.remove(number);
                }
            }
            // The Close was skipped: the statement is still there, in a version that nobody
            // remembers. It is prepared anew before its next use.
            Altered::Closed { number, change } => {
                if self.prepared.peek(number).is_none() {
                    // Doubtful, so that it serves nobody, whatever its version. Where the Parse that has made
                    // it is skipped, too, that is undone next, and takes it away again: so no more are there
                    // than before.
                    let (version, batch) = (Version::default(), 0);
                    let (state, passing) = (State::Doubtful, false);
                    let shape = None;
                    let prepared = Prepared { version, change, batch, state, shape, passing };
                    self.prepared.insert(number, prepared);
                }
            }
            // Its shape was not told, and nothing that has one can be compared with it.
            Altered::Described { number, change, .. } => {
                let prepared = self.prepared.peek_mut(number);
                if let Some(prepared) = prepared.filter(|prepared| prepared.change == change) {
                    prepared.state = State::Doubtful;
                }
            }
            Altered::Nothing | Altered::Uses { .. } => {}
        }
    }

    /// The unnamed statement is this before all that is expected.
    fn set_unnamed(&mut self, was: Option<Known>, client: &mut Client, cache: &mut StatementCache) {
        let later = self.expected.iter_mut().find_map(|one| match &mut one.renamed {
            Renamed::Unnamed(was) => Some(was),
            _ => None,
        });
        // Where a later request has replaced it, that one has kept what was there before.
        let place = later.unwrap_or(&mut client.unnamed);
        if let Some(now) = std::mem::replace(place, was) {
            cache.release(now.id);
        }
    }

    /// The transaction has ended, or went back: what it has changed is everybody's now, or nobody's.
    fn alteration_ended(&mut self, cache: &mut StatementCache) {
        if self.alters {
            cache.has_changed_schema();
            self.unsettle();
        }
    }

    /// Statements that were prepared for the transaction alone are to be prepared again. Those that
    /// were asked for a later one stay.
    fn unsettle(&mut self) {
        if !self.passes {
            return;
        }
        self.passes = false;
        for prepared in self.prepared.values_mut().filter(|prepared| prepared.passing) {
            match prepared.state {
                State::Asked => self.passes = true,
                State::There | State::Doubtful => prepared.state = State::Doubtful,
            }
        }
    }

    fn ready(&mut self, status: Status, cache: &mut StatementCache) {
        self.query_waits = false;
        if self.expected.is_empty() {
            (self.may_open, self.asked) = (false, None);
            // Portals end with their transaction. While anything is expected, one of them may be of the
            // next.
            if status == Status::Idle {
                self.portals.clear(cache);
            }
        }
    }

    /// True if an earlier batch, of which nothing is known yet, decides what a portal is.
    fn is_unclear(&self, portal: &Portal) -> bool {
        let first = self.expected.front().map(|first| first.number);
        portal.batch != self.batch && first.is_some_and(|first| first <= portal.number)
    }

    /// A command is done, and its tag tells what happened to statements and to the schema.
    fn completed(
        &mut self,
        client: &mut Client,
        cache: &mut StatementCache,
        body: &[u8],
        to_client: &mut Vec<u8>,
    ) -> Treatment {
        let has_rows = std::mem::take(&mut self.has_rows);
        match body {
            b"DEALLOCATE\0" => {
                let Some(special) = self.specials.get(self.specials_done) else {
                    return Treatment::Pass;
                };
                // The n-th DEALLOCATE that completes is of the n-th that was written for this text.
                self.specials_done += 1;
                match &special.target {
                    Target::Name(name) => {
                        if let Some((_, known)) = client.unname(name, cache) {
                            cache.release(known.id);
                        }
                        Treatment::Pass
                    }
                    Target::Discard => Treatment::Pass,
                    Target::All => {
                        // The server has dropped one name of ours, and says so; its client has dropped
                        // all.
                        client.drop_all(cache);
                        write::command_complete(to_client, "DEALLOCATE ALL");
                        Treatment::Swallow
                    }
                }
            }
            // Sent as they are: the server has nothing prepared any more, for whomever it was.
            b"DEALLOCATE ALL\0" | b"DISCARD ALL\0" => {
                client.drop_all(cache);
                self.prepared.clear();
                Treatment::Pass
            }
            b"COMMIT\0" | b"ROLLBACK\0" | b"PREPARE TRANSACTION\0" => {
                self.alteration_ended(cache);
                Treatment::Pass
            }
            _ => {
                // At once, not at the end: the same transaction must find nothing older from here on.
                let alters = [&b"ALTER "[..], b"DROP ", b"CREATE ", b"IMPORT "];
                let is_code = matches!(body, b"DO\0" | b"CALL\0") && cache.code.is_some();
                let alters = is_code || alters.iter().any(|tag| body.starts_with(tag));
                if alters || self.has_made_table(body, has_rows) {
                    self.alters = true;
                    cache.has_changed_schema();
                }
                Treatment::Pass
            }
        }
    }

    /// True if a command that completes with this tag may have made a table of what it has selected.
    fn has_made_table(&self, tag: &[u8], has_rows: bool) -> bool {
        let is_query = self.expected.front().is_some_and(|front| front.step == Step::Query);
        if tag.starts_with(b"SELECT ") {
            // In a Query any other SELECT describes its rows, if there are none too. In the protocol a
            // Describe is for that, so the text must tell.
            return if is_query { !has_rows } else { self.may_make };
        }
        tag == b"EXPLAIN\0" && self.may_make
    }

    /// Rows are wanted: what was sent before their end is for them.
    fn copies(&mut self, pipeline: &Pipeline) {
        // The first is the COPY itself.
        let mut at = 1;
        while let Some(one) = self.expected.get(at) {
            if pipeline.is_void(one.number) {
                let void = self.expected.remove(at).expect("it is there");
                debug_assert_eq!((void.step, void.renamed.clone()), (Step::Sync, Renamed::Nothing));
                self.uncount(&void);
            } else {
                at += 1;
            }
        }
    }

    /// An error: in a batch, all that follows up to `next` does not happen.
    fn failed(
        &mut self,
        (client, cache): (&mut Client, &mut StatementCache),
        next: Option<u64>,
        message: &[u8],
        to_client: &mut Vec<u8>,
    ) -> Treatment {
        self.has_rows = false;
        // Kept here, since what fails is taken away below.
        let front = self.expected.front().cloned();
        let fields = read::fields(message.get(HEAD..).unwrap_or_default()).ok();
        let mut treatment = Treatment::Pass;
        if let Some(fields) = fields {
            match front.as_ref().map(|front| (front.altered, front.step)) {
                Some((Altered::Uses { number, .. }, _)) => self.suspect(number, cache, fields),
                Some((_, Step::Query | Step::Execute)) => {
                    for at in 0..self.executed.len() {
                        self.suspect(self.executed[at].0, cache, fields);
                    }
                }
                _ => {}
            }
            let refused = front
                .as_ref()
                .is_some_and(|front| matches!(front.step, Step::Refused | Step::RefusedQuery));
            let told = match self.refusal.as_ref().filter(|_| refused) {
                Some(refusal) if names(cache, fields) => Some(refused_text(refusal)),
                _ => None,
            };
            let moved = self.is_moved() && fields.field(b'P').is_some();
            if told.is_some() || moved || names(cache, fields) {
                self.translate(cache, fields, told, to_client);
                treatment = Treatment::Swallow;
            }
        }
        // The rest of its text is not run.
        if front.is_some_and(|front| matches!(front.step, Step::Query | Step::Execute)) {
            self.executed.clear();
        }
        if let Some(next) = next {
            self.skip(next, client, cache);
        }
        treatment
    }

    /// The first expected request has failed, and the server skips all below `next`.
    fn skip(&mut self, next: u64, client: &mut Client, cache: &mut StatementCache) {
        let at = self.expected.partition_point(|one| one.number < next);
        let behind = self.expected.split_off(at);
        let mut skipped = std::mem::replace(&mut self.expected, behind);
        let is_put = |one: &&Expected| {
            matches!(one.step, Step::PutParse | Step::PutClose | Step::PutDescribe)
        };
        let put = skipped.iter().take_while(is_put).count();
        // Of what the client has asked, this was its turn: whatever was put before it is part of it.
        let failed = skipped.get(put).map(|one| (one.step, one.renamed.clone()));
        if let Some(first) = skipped.front().map(|one| one.number) {
            self.portals.undo(first..next, cache);
        }
        // The last first: each puts back what it found when it was asked.
        while let Some(last) = skipped.pop_back() {
            self.uncount(&last);
            self.undo(last, client, cache);
        }
        // PostgreSQL drops the unnamed statement first: the request that failed has dropped it,
        // those that were skipped have not.
        if let Some((_, Renamed::Unnamed(_))) = failed {
            self.set_unnamed(None, client, cache);
        }
        if self.expected.is_empty() {
            (self.names.here, self.unnamed.here, self.closes.here) = (0, 0, 0);
            // The message that has waited for a shape is skipped.
            self.asked = None;
        }
        // The server skips the Query, too, and its client waits for the end of a Query, not of a segment.
        self.sync_missing = put > 0 && matches!(failed, Some((Step::Query, _)));
        self.rest();
    }

    /// Sends the Sync that must follow where what was put before a Query of the client's has
    /// failed: the server skips the Query, and the client waits for its end. Asked once after each
    /// reply.
    pub(crate) fn ask_for_end(&mut self, pipeline: &mut Pipeline, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.sync_missing)
            && let Ok(Sent::Owes(number)) = pipeline.send(Frontend::Sync, Whose::Client)
        {
            write::bare(out, Frontend::Sync);
            self.push(number, Step::Sync, Renamed::Nothing, Altered::Nothing, 0);
        }
    }

    /// The gate has ended a segment of the client's by a Sync of its own, with this number.
    pub(crate) fn ended(&mut self, number: u64) {
        self.push(number, Step::Sync, Renamed::Nothing, Altered::Nothing, 0);
    }

    /// The server says that it lacks what it was thought to have, or that its columns have changed: then
    /// somebody has changed a schema, past the gate perhaps, and no Parse from before is an answer to one
    /// that comes now.
    fn suspect(&mut self, number: u64, cache: &mut StatementCache, fields: Fields<'_>) {
        // By where it comes from: the words depend on the server's language.
        let changed = fields.sqlstate() == Some(SqlState::FEATURE_NOT_SUPPORTED)
            && fields.field(b'R') == Some(b"RevalidateCachedQuery");
        if (changed || fields.sqlstate() == Some(SqlState::UNDEFINED_STATEMENT))
            && let Some(prepared) = self.prepared.peek_mut(number)
        {
            if changed && prepared.state != State::Doubtful {
                cache.has_changed_schema();
            }
            prepared.state = State::Doubtful;
        }
    }
}
