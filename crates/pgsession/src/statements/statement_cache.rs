//! Global cache of prepared statements: each once by its content, however many clients have a name
//! for it.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use super::recent::Recent;
use super::server::is_types;
use super::shape::{self, Shape};
use super::sql::{Found, Target, is_dated, is_shaped, look, names};
use super::{Bounds, Client};
use crate::sql::tokens::{Encoding, LexerMode, Strings};
use crate::sql::{self, Choices, Followed, SequenceChoice};
use pgwire::frame::Frontend;
use pgwire::message::write;

/// Place of an entry. Whoever keeps one has counted it.
pub(super) type EntryId = u32;

/// A statement.
#[derive(Debug)]
pub(super) struct Entry {
    /// Part of its name at servers; never given twice.
    // A server may have a statement longer than the cache does: its name must never mean another text.
    pub(super) number: u64,
    /// The scope, and the body of its Parse behind the name.
    content: Arc<[u8]>,
    /// The body behind the name that servers get, where that is another one.
    rewritten: Option<Box<[u8]>>,
    pub(super) found: Found,
    /// The lexer mode in which its text was cut.
    lexer_mode: LexerMode,
    /// Its session effects, if they are to be followed.
    pub(super) followed: Option<Arc<Followed>>,
    /// True if each Parse makes something else of it.
    dated: bool,
    /// True if the server holds it to the shape that it had at its Parse.
    pub(super) is_shaped: bool,
    /// From when its last Parse by a client is.
    version: Version,
    /// The shape that a server has told last, and at which changes of a schema.
    shape: Option<(u64, Shape)>,
    references: usize,
}

/// Whether a statement has another shape than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Not as far as is known, or behind a change of a schema that was seen.
    Seen,
    /// It has, and nothing was seen that would have changed it.
    Unseen,
}

/// From when a statement is: by the changes of a schema, and by the Parses of its text where each makes
/// something else of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    epoch: u64,
    parse: u64,
}

impl Version {
    /// True if it is no older than that in anything.
    pub(super) fn serves(self, other: Version) -> bool {
        self.epoch >= other.epoch && self.parse >= other.parse
    }
}

impl Entry {
    /// The scope in which it was prepared first; none if nobody knew, so that it means something else
    /// each time.
    pub(super) fn scope(&self) -> Option<u64> {
        let scope = self.content.first_chunk().expect("a content begins with its scope");
        read(u64::from_be_bytes(*scope))
    }

    /// The lexer mode in which its text was cut when it was prepared first.
    pub(super) fn lexer_mode(&self) -> LexerMode {
        self.lexer_mode
    }

    /// From when its last Parse by a client is.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Its part of the bounds \[byte\].
    pub(super) fn bytes(&self) -> usize {
        self.content.len()
    }

    /// The body of its Parse behind the name.
    pub(super) fn tail(&self) -> &[u8] {
        &self.content[8..]
    }
}

/// The statements of all clients of a pool of servers: those of one database and one user.
///
/// An entry that no client has a name for stays while there is room, so that a client that comes
/// again finds it prepared.
#[derive(Debug)]
pub struct StatementCache {
    prefix: Vec<u8>,
    pub(super) bounds: Bounds,
    entries: Vec<Option<Entry>>,
    free: Vec<EntryId>,
    by_content: HashMap<Arc<[u8]>, EntryId>,
    unused: Recent<EntryId, ()>,
    bytes: usize,
    next: u64,
    /// The number of possible changes of a schema, and the mark that others are to be told.
    epoch: u64,
    news: bool,
    key: Vec<u8>,
    choices: Choices,
    /// The parameters' types that descriptions have told, by their digests, and the bytes of those.
    parameters: HashMap<u64, Box<[u8]>>,
    parameters_bytes: usize,
    /// Of what cannot be read, if it is not trusted.
    pub(super) code: Option<Arc<Followed>>,
    /// True if a text has asked what sequences its session has moved.
    asks_of_sequences: bool,
}

/// The parameters' types that are remembered take so much at most, of all statements \[byte\]: as a
/// few thousand lists; equal lists are there once.
const PARAMETERS_BYTES_MAX: usize = 1 << 20;
/// Size of a list beside its types, about \[byte\].
const PARAMETERS_OVERHEAD: usize = 32;

/// Room that a statement may take. Named ones stay, however many clients are to come: whoever
/// prepares without a name goes on all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    All,
    Named,
}

/// Why a statement is not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Untaken {
    NoRoom,
    Refused(sql::Refusal),
}

impl StatementCache {
    /// An empty one. `secret` makes the names at servers, `sekisho.SECRET.NUMBER`, unlike any that a
    /// client chooses, and unlike those of another gate before the same servers.
    pub fn new(secret: [u8; 8], bounds: Bounds) -> StatementCache {
        let choices = Choices::default();
        let prefix = format!("sekisho.{:016x}.", u64::from_be_bytes(secret)).into_bytes();
        StatementCache {
            prefix,
            bounds,
            entries: Vec::new(),
            free: Vec::new(),
            by_content: HashMap::new(),
            unused: Recent::new(),
            bytes: 0,
            next: 1,
            epoch: 0,
            news: false,
            key: Vec::new(),
            parameters: HashMap::new(),
            parameters_bytes: 0,
            code: Followed::code(&choices).map(Arc::new),
            choices,
            asks_of_sequences: false,
        }
    }

    /// Sets what becomes of texts that leave something behind. What is known already stays as it was
    /// decided: no client may have come before.
    #[must_use]
    pub fn choosing(mut self, choices: Choices) -> StatementCache {
        self.code = Followed::code(&choices).map(Arc::new);
        self.choices = choices;
        self
    }

    /// The same where clients have come: it counts for what they prepare from now on, and for texts that
    /// are not prepared. Statements that a client has a name for stay as they were decided.
    pub fn choose(&mut self, choices: &Choices) {
        if self.choices == *choices {
            return;
        }
        // An entry holds what was decided when it came in. Those that nobody has a name for go; the
        // others are found no more by their content, so that a Parse makes a new one.
        while let Some(oldest) = self.unused.oldest() {
            self.remove(oldest);
        }
        self.by_content.clear();
        self.code = Followed::code(choices).map(Arc::new);
        self.choices = choices.clone();
    }

    /// A text has asked what sequences its session has moved, or something in the database does: from
    /// here on no session has others'.
    pub fn asked_of_sequences(&mut self) {
        self.asks_of_sequences = true;
    }

    /// Whether anything has asked what sequences its session has moved.
    pub fn asks_of_sequences(&self) -> bool {
        self.asks_of_sequences
    }

    /// Whether it counts if something in the database asks that, and is not known.
    pub fn minds_sequences(&self) -> bool {
        let always = SequenceChoice::DiscardAlways;
        !self.asks_of_sequences
            && ![SequenceChoice::Trust, always].contains(&self.choices.sequences)
    }

    /// True if a server's sequences are discarded before a client has it.
    pub fn discards_sequences(&self) -> bool {
        match self.choices.sequences {
            SequenceChoice::Trust => false,
            // What is refused of texts may be called by number.
            SequenceChoice::Discard | SequenceChoice::Pin | SequenceChoice::Refuse => {
                self.asks_of_sequences
            }
            SequenceChoice::DiscardAlways => true,
        }
    }

    /// Sets the limits of what is remembered from now on. What is there goes as more comes.
    pub fn bound(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The session effects of a text that are to be followed.
    pub(super) fn follow(
        &self,
        text: &[u8],
        lexer_mode: LexerMode,
    ) -> Result<Option<Arc<Followed>>, sql::Refusal> {
        Ok(Followed::of(text, lexer_mode, &self.choices)?.map(Arc::new))
    }

    /// Number of statements that are known, with a client or without.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of those that a client has a name for.
    pub fn used(&self) -> usize {
        self.len() - self.unused.len()
    }

    /// The bytes of their texts \[byte\].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets a client and its names. Whoever drops a client without this keeps its statements.
    pub fn forget(&mut self, mut client: Client) {
        client.drop_all(self);
        if let Some(known) = client.unnamed.take() {
            self.release(known.id);
        }
    }

    /// The text of a client's statement, by the client's name for it; none if it has none by it.
    pub fn text(&self, client: &Client, name: &[u8]) -> Option<&[u8]> {
        // Before the text is the scope, behind it the types of its parameters.
        let tail = &self.entry(client.lookup(name)?).content[8..];
        tail.split(|&byte| byte == 0).next()
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// A schema may be another one: what was prepared before may have other columns now.
    pub fn schema_changed(&mut self) {
        // One number for all of the database: which statement a change concerns, no text tells for sure.
        self.epoch += 1;
    }

    /// The same by a client of this pool, which other pools of the database are to hear.
    pub(super) fn has_changed_schema(&mut self) {
        self.schema_changed();
        self.news = true;
    }

    /// True if a client has changed a schema since this was last asked.
    pub fn take_schema_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// The version that a Parse makes of an entry that its server is sent now.
    pub(super) fn version(&self, id: EntryId) -> Version {
        Version { epoch: self.epoch, parse: self.entry(id).version.parse }
    }

    /// A server tells the shape that an entry has there now.
    pub(super) fn has_shape(&mut self, id: EntryId, shape: Shape) -> Change {
        let epoch = self.epoch;
        let before = self.entry_mut(id).shape.replace((epoch, shape));
        match before {
            // Two answers without a change that was seen between them: one was made past the gate.
            Some((of, was)) if of == epoch && was != shape => Change::Unseen,
            _ => Change::Seen,
        }
    }

    /// A client parses an entry: from here on no server may have it from before.
    pub(super) fn parsed(&mut self, id: EntryId) {
        let epoch = self.epoch;
        let entry = self.entry_mut(id);
        assert!(entry.version.epoch <= epoch, "a Parse is newer than the last change of a schema");
        entry.version.epoch = epoch;
        entry.version.parse += u64::from(entry.dated);
    }

    pub(super) fn entry(&self, id: EntryId) -> &Entry {
        self.entries[id as usize].as_ref().expect("whoever has an id has counted the entry")
    }

    fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        self.entries[id as usize].as_mut().expect("whoever has an id has counted the entry")
    }

    /// The entry of this content, counted once more.
    pub(super) fn intern(
        &mut self,
        scope: Option<u64>,
        lexer_mode: LexerMode,
        tail: &[u8],
        room: Room,
    ) -> Result<EntryId, Untaken> {
        // A buffer that is kept: a text that is known is looked up without an allocation.
        self.key.clear();
        self.key.extend_from_slice(&written(scope, lexer_mode).to_be_bytes());
        self.key.extend_from_slice(tail);
        if let Some(&id) = self.by_content.get(&self.key[..]) {
            self.retain(id);
            return Ok(id);
        }
        let end = tail.iter().position(|&byte| byte == 0).expect("a Parse's text ends");
        let followed = self.follow(&tail[..end], lexer_mode).map_err(Untaken::Refused)?;
        let bytes = self.key.len();
        // An unnamed statement makes room for the next one of its client, a named one for none. So named
        // ones cannot have the last eighth.
        let of = |all: usize| if room == Room::All { all } else { all - all / 8 };
        let (entries_max, bytes_max) = (of(self.bounds.entries_max), of(self.bounds.bytes_max));
        while self.len() >= entries_max || self.bytes + bytes > bytes_max {
            // What a client has a name for never goes: its next Bind must find it.
            let oldest = self.unused.oldest().ok_or(Untaken::NoRoom)?;
            self.remove(oldest);
        }
        let content: Arc<[u8]> = self.key.as_slice().into();
        // One long text would otherwise stay as a buffer.
        if self.key.capacity() > 1 << 16 {
            self.key = Vec::new();
        }
        let mut found = look(&tail[..end], lexer_mode);
        found.names = names(&tail[..end], lexer_mode, followed.as_deref());
        let rewritten = self.rewritten(&found, tail);
        let (number, references) = (self.next, 1);
        let entry = Entry {
            number,
            content: content.clone(),
            rewritten,
            found,
            lexer_mode,
            followed,
            dated: is_dated(&tail[..end], lexer_mode),
            is_shaped: is_shaped(&tail[..end], lexer_mode),
            version: Version::default(),
            shape: None,
            references,
        };
        self.next += 1;
        self.bytes += bytes;
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            EntryId::try_from(self.entries.len() - 1).expect("the bounds are far below")
        });
        let place = &mut self.entries[id as usize];
        assert!(place.is_none(), "a free place has no statement of anybody");
        *place = Some(entry);
        self.by_content.insert(content, id);
        assert!(self.len() <= self.bounds.entries_max, "{} statements", self.len());
        assert!(self.bytes <= self.bounds.bytes_max, "{} bytes of statements", self.bytes);
        Ok(id)
    }

    /// The digest of a ParameterDescription, whose types are remembered while there is room.
    pub(super) fn told(&mut self, body: &[u8]) -> u64 {
        let digest = shape::of_parameters(body);
        let is_whole = is_types(body);
        // Where there is no room the list is not remembered, and a statement that needs it is refused
        // where it would have been declared anew. Nothing is forgotten: any list may be somebody's.
        if is_whole && !self.parameters.contains_key(&digest) {
            let bytes = self.parameters_bytes + body.len() + PARAMETERS_OVERHEAD;
            if bytes <= PARAMETERS_BYTES_MAX {
                self.parameters.insert(digest, body.into());
                self.parameters_bytes = bytes;
            }
        }
        digest
    }

    /// The entry of the same text with these types of its parameters declared, counted once more; none
    /// if they are not remembered, or are declared there already.
    pub(super) fn retyped(
        &mut self,
        id: EntryId,
        parameters: u64,
        room: Room,
    ) -> Option<Result<EntryId, Untaken>> {
        let types = self.parameters.get(&parameters)?;
        let entry = self.entry(id);
        let end = entry.tail().iter().position(|&byte| byte == 0)?;
        let tail = [&entry.tail()[..=end], types].concat();
        // They are declared already, so the server that has others would have them again.
        if tail == entry.tail() {
            return None;
        }
        let (scope, lexer_mode, version) = (entry.scope(), entry.lexer_mode, entry.version);
        let retyped = self.intern(scope, lexer_mode, &tail, room);
        if let Ok(retyped) = retyped {
            // It takes the place of that entry, so whatever was too old for that is too old for it.
            let of = &mut self.entry_mut(retyped).version;
            of.epoch = of.epoch.max(version.epoch);
            of.parse = of.parse.max(version.parse);
        }
        Some(retyped)
    }

    /// DEALLOCATE speaks of the client's names: a server gets it with one of ours.
    fn rewritten(&self, found: &Found, tail: &[u8]) -> Option<Box<[u8]>> {
        match &found.drops[..] {
            // One and no more: of a text of two commands PostgreSQL makes no prepared statement.
            [(at, Target::Name(_) | Target::All)] => {
                let mut text = tail[..at.start].to_vec();
                self.write_quoted(&mut text, Given::Present(0));
                text.extend_from_slice(&tail[at.end..]);
                Some(text.into())
            }
            _ => None,
        }
    }

    pub(super) fn retain(&mut self, id: EntryId) {
        let entry = self.entry_mut(id);
        entry.references += 1;
        if entry.references == 1 {
            let was_unused = self.unused.remove(id);
            debug_assert!(was_unused.is_some(), "an entry that nobody had was in use");
        }
    }

    pub(super) fn release(&mut self, id: EntryId) {
        let entry = self.entry_mut(id);
        assert!(
            entry.references > 0,
            "released more often than counted: somebody else still has it"
        );
        entry.references -= 1;
        if entry.references == 0 {
            self.unused.insert(id, ());
        }
    }

    fn remove(&mut self, id: EntryId) {
        self.unused.remove(id);
        let entry = self.entries[id as usize].take().expect("an unused entry is there");
        assert!(entry.references == 0, "statement {} is in use", entry.number);
        self.bytes -= entry.content.len();
        // Another one may have its content since other choices were made.
        if self.by_content.get(&entry.content) == Some(&id) {
            self.by_content.remove(&entry.content);
        }
        self.free.push(id);
    }

    pub(super) fn write_name(&self, out: &mut Vec<u8>, name: Given) {
        out.extend_from_slice(&self.prefix);
        let written = match name {
            Given::Entry(number) => write!(out, "{number}"),
            Given::Present(place) => write!(out, "d{place}"),
            Given::Lacking(place) => write!(out, "n{place}"),
        };
        written.expect("a Vec takes everything");
    }

    pub(super) fn write_quoted(&self, out: &mut Vec<u8>, name: Given) {
        out.push(b'"');
        self.write_name(out, name);
        out.push(b'"');
    }

    /// A Parse of an entry, under its own name.
    pub(super) fn write_parse(&self, out: &mut Vec<u8>, id: EntryId) {
        let entry = self.entry(id);
        self.write_parse_as(out, Some(Given::Entry(entry.number)), id);
    }

    /// A Parse of an entry; without a name as the unnamed one.
    pub(super) fn write_parse_as(&self, out: &mut Vec<u8>, name: Option<Given>, id: EntryId) {
        let entry = self.entry(id);
        write::message(out, Frontend::Parse, |out| {
            if let Some(name) = name {
                self.write_name(out, name);
            }
            out.push(0);
            out.extend_from_slice(entry.rewritten.as_deref().unwrap_or(&entry.content[8..]));
        });
    }

    /// A Parse of a text with these types of its parameters, as the unnamed one.
    pub(super) fn write_parse_of(&self, out: &mut Vec<u8>, text: &[u8], types: &[u8]) {
        write::message(out, Frontend::Parse, |out| {
            out.push(0);
            out.extend_from_slice(text);
            out.push(0);
            out.extend_from_slice(types);
        });
    }

    /// A Parse of an entry as its client has said it, as the unnamed one.
    pub(super) fn write_parse_as_said(&self, out: &mut Vec<u8>, id: EntryId) {
        write::message(out, Frontend::Parse, |out| {
            out.push(0);
            out.extend_from_slice(&self.entry(id).content[8..]);
        });
    }

    pub(super) fn write_describe(&self, out: &mut Vec<u8>, name: Given) {
        write::message(out, Frontend::Describe, |out| {
            out.push(b'S');
            self.write_name(out, name);
            out.push(0);
        });
    }

    pub(super) fn write_close(&self, out: &mut Vec<u8>, name: Option<Given>) {
        write::message(out, Frontend::Close, |out| {
            out.push(b'S');
            if let Some(name) = name {
                self.write_name(out, name);
            }
            out.push(0);
        });
    }
}

/// A scope as eight bytes can say it. Where there is none, texts that are cut in other ways are still
/// other ones.
pub(super) fn written(scope: Option<u64>, lexer_mode: LexerMode) -> u64 {
    scope.unwrap_or_else(|| {
        let strings = u64::from(lexer_mode.strings == Strings::Backslash);
        let encoding = u64::from(lexer_mode.encoding == Encoding::AsciiUnsafe);
        // Four numbers at the end, one for each way to cut a text (`read`).
        u64::MAX - 2 * strings - encoding
    })
}

/// The scope that was written so. A scope that is like none by chance is taken for it, which costs
/// a Parse.
pub(super) fn read(scope: u64) -> Option<u64> {
    (scope < u64::MAX - 3).then_some(scope)
}

/// A name that a server knows a statement by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// An entry's.
    Entry(u64),
    /// One that is prepared on purpose, so that it can be dropped or be there already.
    Present(usize),
    /// One that is never prepared.
    Lacking(usize),
}
