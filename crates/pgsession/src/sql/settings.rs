//! Follows the settings of sessions, so that a client finds its own at whatever server it has next.
//!
//! There is one [`Settings`] for each client and one for each server. Both are told what completes
//! while the two are together: what [`super::effects`] found, the tag of each CommandComplete,
//! errors, ReadyForQuery, ParameterStatus. What a rollback takes back never counts.
//! [`Settings::difference`] is what a server must be told before a client's next transaction runs
//! there; when it has done so, [`Settings::handed_over`].
//!
//! Where a server reports a setting, its word is the truth, whatever the texts seemed to say: `ISO`
//! and `ISO, MDY` are alike there, and what a function has set is seen too.
//!
//! A client is told of what it has begun with itself as servers tell it (`told.rs`), before one has
//! been asked, and so it is handed over: what `SET DateStyle TO ISO` makes of the order of day and month
//! depends on what was there before.
//!
//! A client's RESET goes to the value that its own connection began with, and that is what it is told of it:
//! behind the text that has
//! reset it in a transaction ([`Settings::begun_again`]), else with its next transaction. What is
//! behind it in the same text or the same segment sees the value that its server's connection began
//! with, and a DateStyle of which only half is set then takes the other half from there. Of a custom
//! setting that is reset, an empty value stays at the server, where a new session has none.
//!
//! What is set until its transaction ends counts for what texts mean in it ([`Settings::scope`],
//! [`Settings::lexer_mode`]), and is nobody's to hand over.

mod export;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::effects::EffectKind;
use super::fingerprint::Hash;
use super::tokens::{Encoding, LexerMode, Strings};
use super::told::as_told;
pub use export::{ExportedSettings, Named};
use pgwire::message::Status;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// As SET lists it.
    Items(Vec<Vec<u8>>),
    /// As the server stores it, lists in one.
    Whole(Vec<u8>),
}

impl Value {
    pub(super) fn items(items: impl IntoIterator<Item = Vec<u8>>) -> Value {
        Value::Items(items.into_iter().collect())
    }

    /// True if things may be temporary that are made without a schema while `search_path` is this.
    /// They are made in the first schema that is there, so the one for temporary things need not
    /// stand first: only behind one that is always there it does not count.
    pub(super) fn has_temporary_schema(&self) -> bool {
        let is_temporary = |item: &[u8]| item.starts_with(b"pg_temp");
        let is_there = |item: &[u8]| item == b"pg_catalog";
        match self {
            Value::Items(items) => {
                let items = items.iter().map(Vec::as_slice);
                items.take_while(|item| !is_there(item)).any(is_temporary)
            }
            Value::Whole(whole) => {
                let whole = whole.to_ascii_lowercase();
                // A name in quotes may be cut in two at its commas, and finds more.
                let plain = !whole.contains(&b'"');
                whole
                    .split(|byte| matches!(byte, b',' | b'"' | 0x0b))
                    .map(<[u8]>::trim_ascii)
                    .take_while(|item| !plain || !is_there(item))
                    .any(is_temporary)
            }
        }
    }

    /// Its part of the bound \[byte\].
    fn len(&self) -> usize {
        match self {
            // Sixteen for an item itself, or many empty ones would cost nothing.
            Value::Items(items) => items.iter().map(|item| item.len() + 16).sum(),
            Value::Whole(whole) => whole.len(),
        }
    }

    /// As the server stores it, where it does not quote what a list has.
    fn joined(&self) -> Vec<u8> {
        match self {
            Value::Items(items) => items.join(&b", "[..]),
            Value::Whole(whole) => whole.clone(),
        }
    }

    fn hash(&self, hash: &mut Hash) {
        match self {
            Value::Whole(whole) => hash.part(whole),
            Value::Items(items) => {
                hash.part(&items.len().to_be_bytes());
                items.iter().for_each(|item| hash.part(item));
            }
        }
    }

    fn is(&self, other: &Value, name: &[u8]) -> bool {
        // A list that is not quoted is stored as one string, so a string may be the same list.
        self == other || !QUOTED_LISTS.contains(&name) && self.joined() == other.joined()
    }
}

/// Lists whose items the server quotes, so that one string is one item (GUC_LIST_QUOTE).
const QUOTED_LISTS: [&[u8]; 6] = [
    b"search_path",
    b"temp_tablespaces",
    b"local_preload_libraries",
    b"session_preload_libraries",
    b"shared_preload_libraries",
    b"unix_socket_directories",
];

/// Settings that every server reports, and a session may set.
const REPORTED: [&[u8]; 6] = [
    b"application_name",
    b"client_encoding",
    b"datestyle",
    b"intervalstyle",
    b"standard_conforming_strings",
    b"timezone",
];

/// Settings that some servers report.
const REPORTED_SOMETIMES: [&[u8]; 3] =
    [b"default_transaction_read_only", b"scram_iterations", b"search_path"];

/// Settings that change the meaning of a text that is prepared.
const MEANING: [&[u8]; 14] = [
    b"search_path",
    b"role",
    b"datestyle",
    b"intervalstyle",
    b"timezone",
    b"client_encoding",
    b"standard_conforming_strings",
    b"array_nulls",
    b"backslash_quote",
    b"lc_monetary",
    b"row_security",
    b"transform_null_equals",
    b"xmlbinary",
    b"xmloption",
];

/// True if a text may mean something else under another value of this.
pub(super) fn is_meaning(name: &[u8]) -> bool {
    MEANING.contains(&name)
}

/// True if servers report this setting and sessions may set it.
pub(super) fn is_reported(name: &[u8]) -> bool {
    REPORTED.contains(&name)
}

/// Limits of what is remembered of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsBounds {
    /// Names, those of savepoints too.
    pub names_max: usize,
    /// Names and values \[byte\].
    pub bytes_max: usize,
}

impl Default for SettingsBounds {
    fn default() -> SettingsBounds {
        // Behind these a client keeps its server, which costs others a slot, but the gate no more memory.
        SettingsBounds { names_max: 256, bytes_max: 64 << 10 }
    }
}

/// Owner of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client's.
    Client,
    /// A server's.
    Server,
}

/// Why settings are not known any more: a client must keep its server, and a server be discarded or
/// closed behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Lost {
    /// A text sets what it does not say.
    #[error("a setting got a value that its text does not show")]
    Unknown,
    /// They are more than the bounds let be.
    #[error("the session has more settings or savepoints than are tracked")]
    Bounds,
    /// They cannot be told in one text.
    #[error("settings that are not ASCII cannot be handed over with another client_encoding")]
    Encoding,
    /// Another user's.
    #[error("the session has another user than its connection began with")]
    Authorization,
}

#[derive(Clone, Debug)]
enum Change {
    Set(Value),
    Unknown,
    Reset,
}

/// Changes of an open transaction since a savepoint or its beginning.
#[derive(Clone, Debug, Default)]
struct Level {
    savepoint: Vec<u8>,
    changes: BTreeMap<Vec<u8>, Change>,
    /// Changes since then that end with it; under an empty name what may be any setting.
    local: BTreeMap<Vec<u8>, Change>,
}

impl Level {
    /// This comes on top.
    fn extend(&mut self, above: Level) {
        // A SET behind a SET LOCAL ends that, so what is local below must not hide what comes on top.
        self.local.retain(|name, _| !above.changes.contains_key(name));
        self.changes.extend(above.changes);
        self.local.extend(above.local);
    }
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    side: Side,
    bounds: SettingsBounds,
    /// The values that it began with.
    base: BTreeMap<Vec<u8>, Value>,
    /// The values that it has set and committed.
    set: BTreeMap<Vec<u8>, Value>,
    /// The changes that it has not committed yet; the first level is the transaction's own.
    open: Vec<Level>,
    /// Committed, with a value that only a report can tell.
    unknown: BTreeSet<Vec<u8>>,
    /// Of a client, what was reset to what it began with, and its server reports another value of.
    forgotten: BTreeSet<Vec<u8>>,
    /// Of a client, what it has been told another value of since than the one that it began with and
    /// has again.
    untold: BTreeSet<Vec<u8>>,
    reported: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The value of each that it reported first.
    first: BTreeMap<Vec<u8>, Vec<u8>>,
    failed: Failed,
    lost: Option<Lost>,
    /// Of the client whose settings a server has, since nothing changed.
    agreed: Option<u64>,
    /// The digest that tells these settings from others, where it is known.
    digest: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Yes,
    No,
}

impl Settings {
    /// Those that a session begins with, by its start-up packet: its parameters that are settings,
    /// and those in `options`.
    pub fn new<'a>(
        side: Side,
        bounds: SettingsBounds,
        base: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Settings {
        let base = base.into_iter();
        let base: BTreeMap<_, _> =
            base.map(|(name, value)| (lower(name), Value::Whole(value.to_vec()))).collect();
        let mut settings = Settings {
            side,
            bounds,
            base,
            set: BTreeMap::new(),
            open: Vec::new(),
            unknown: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            untold: BTreeSet::new(),
            reported: BTreeMap::new(),
            first: BTreeMap::new(),
            failed: Failed::No,
            lost: None,
            agreed: None,
            digest: None,
        };
        settings.check_bounds();
        settings
    }

    /// Why they are not known, if they are not.
    pub fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// The value that a setting has by what was told, outside of a transaction. None is the
    /// server's own.
    pub fn value(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.reported.get(name).cloned().or_else(|| self.effective(name).map(Value::joined))
    }

    /// Settings that a client has again and has been told another value of since, by their names as
    /// servers spell them.
    pub fn untold(&self) -> impl Iterator<Item = (&[u8], Vec<u8>)> {
        let spelt = |name: &'_ [u8]| -> Option<&'static [u8]> {
            let all: [&[u8]; 3] = [b"DateStyle", b"IntervalStyle", b"TimeZone"];
            all.into_iter().find(|one| one.eq_ignore_ascii_case(name))
        };
        self.untold
            .iter()
            .filter_map(move |name| Some((spelt(name).unwrap_or(name), self.value(name)?)))
    }

    /// It was told that.
    pub fn told(&mut self) {
        self.untold.clear();
    }

    /// Lexer mode of the session's next text. A client that has had no server yet must have been
    /// told ([`Settings::reported`]) what it was told at its login.
    pub fn lexer_mode(&self) -> LexerMode {
        let now = |name: &[u8]| match self.changed(name) {
            Some(Change::Set(value)) => Some(value.joined()),
            _ => self.value(name),
        };
        let off = |value: Vec<u8>| value.eq_ignore_ascii_case(b"off");
        let strings = match now(b"standard_conforming_strings").is_some_and(off) {
            true => Strings::Backslash,
            false => Strings::Standard,
        };
        let encoding = now(b"client_encoding");
        let encoding = encoding.map_or(Encoding::AsciiSafe, |encoding| Encoding::of(&encoding));
        LexerMode { strings, encoding }
    }

    /// Names that the session has set itself, as far as is told or reported.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let names: BTreeSet<&[u8]> = self
            .set
            .keys()
            .map(Vec::as_slice)
            .filter(|name| !self.reported.contains_key(*name) || self.moved(name))
            .chain(self.reported.keys().map(Vec::as_slice).filter(|name| self.moved(name)))
            .collect();
        names.into_iter()
    }

    /// True if a setting is reported with another value than at first.
    fn moved(&self, name: &[u8]) -> bool {
        self.reported.get(name) != self.first.get(name)
    }

    fn effective(&self, name: &[u8]) -> Option<&Value> {
        self.set.get(name).or_else(|| self.base.get(name))
    }

    /// A command of a text has completed: what was found in it, and its tag.
    pub fn completed<'w>(&mut self, found: impl IntoIterator<Item = &'w EffectKind>, tag: &[u8]) {
        let mut whole = matches!(tag, b"ROLLBACK");
        for what in found {
            // ROLLBACK TO completes with the tag of ROLLBACK, and ends no transaction.
            whole &= !matches!(what, EffectKind::RollbackTo(_));
            self.found(what);
        }
        if whole {
            self.rolled_back();
        } else if matches!(tag, b"COMMIT" | b"PREPARE TRANSACTION") {
            self.commit();
        }
    }

    fn found(&mut self, what: &EffectKind) {
        match what {
            EffectKind::Set { name, value } => {
                let change = value.clone().map_or(Change::Unknown, Change::Set);
                self.change(name, change);
            }
            EffectKind::SetLocal { name, value } => {
                // It is nobody's to hand over, so `agreed` stays.
                let change = value.clone().map_or(Change::Unknown, Change::Set);
                if let Some(level) = self.level() {
                    level.local.insert(name.clone().unwrap_or_default(), change);
                    self.check_bounds();
                }
            }
            EffectKind::Reset { name } => self.change(name, Change::Reset),
            EffectKind::ResetAll => {
                let open = self.open.iter().flat_map(|l| l.changes.keys().chain(l.local.keys()));
                let known = self.set.keys().chain(self.base.keys()).chain(open);
                let names: BTreeSet<_> = known.cloned().collect();
                // RESET ALL leaves the role as it is (`GUC_NO_RESET_ALL`); the empty name is no
                // setting.
                for name in names.iter().filter(|name| !matches!(&name[..], b"role" | b"")) {
                    self.change(name, Change::Reset);
                }
            }
            // Any setting may be another one now, so each server that the client had next would be wrong.
            EffectKind::SetUnknown => self.lose(Lost::Unknown),
            EffectKind::Many => self.lose(Lost::Bounds),
            EffectKind::SessionAuthorization => self.lose(Lost::Authorization),
            // With the user that the connection began with, its role is reset.
            EffectKind::ResetAuthorization => self.change(b"role", Change::Reset),
            EffectKind::DiscardAll => self.discarded(),
            EffectKind::Savepoint(name) => {
                // The first level is the transaction's own, which no RELEASE or ROLLBACK TO can name.
                if self.open.is_empty() {
                    self.open.push(Level::default());
                }
                self.open.push(Level { savepoint: name.clone(), ..Level::default() });
                self.check_bounds();
            }
            EffectKind::Release(name) => match self.savepoint(name) {
                Some(at) => {
                    for level in self.open.split_off(at) {
                        let below = self.open.last_mut().expect("no savepoint is the first level");
                        below.extend(level);
                    }
                }
                None => self.lose(Lost::Unknown),
            },
            EffectKind::RollbackTo(name) => match self.savepoint(name) {
                Some(at) => {
                    // The savepoint itself stays, and so does the transaction: nothing has failed.
                    debug_assert_eq!(self.open[at].savepoint, *name, "another savepoint");
                    self.open.truncate(at + 1);
                    let savepoint = std::mem::take(&mut self.open[at].savepoint);
                    self.open[at] = Level { savepoint, ..Level::default() };
                    self.failed = Failed::No;
                }
                None => self.lose(Lost::Unknown),
            },
            _ => {}
        }
    }

    fn savepoint(&self, name: &[u8]) -> Option<usize> {
        // Of several with one name PostgreSQL takes the last.
        let at = self.open.iter().skip(1).rposition(|level| level.savepoint == name)?;
        Some(at + 1)
    }

    fn change(&mut self, name: &[u8], change: Change) {
        let Some(level) = self.level() else { return };
        // A SET or RESET behind a SET LOCAL ends it, and counts behind the transaction too.
        level.local.remove(name);
        level.changes.insert(name.to_vec(), change);
        self.agreed = None;
        self.check_bounds();
    }

    /// The level that changes go to now; none if nothing is known any more.
    fn level(&mut self) -> Option<&mut Level> {
        if self.lost.is_some() {
            return None;
        }
        if self.open.is_empty() {
            self.open.push(Level::default());
        }
        self.open.last_mut()
    }

    /// An ErrorResponse has come, for a command that so did not complete.
    pub fn failed(&mut self) {
        self.failed = Failed::Yes;
    }

    /// ReadyForQuery has come.
    pub fn ready(&mut self, status: Status) {
        // Within a block nothing is decided: COMMIT and ROLLBACK tell by their tags.
        if status != Status::Idle {
            return;
        }
        // An error outside of BEGIN rolls back what ran with it, and no command completes that
        // would tell.
        if self.failed == Failed::Yes {
            self.rolled_back();
        } else {
            self.commit();
        }
        if !self.unknown.is_empty() || !self.forgotten.is_empty() {
            self.digest = None;
        }
        // Servers of PostgreSQL 14 and later report what has changed before ReadyForQuery
        // (`ReportChangedGUCOptions`), so what can be known is known by now.
        for name in std::mem::take(&mut self.unknown) {
            match self.reported.get(&name) {
                Some(value) => drop(self.set.insert(name, Value::Whole(value.clone()))),
                None => self.lose(Lost::Unknown),
            }
        }
        debug_assert!(self.side == Side::Client || self.forgotten.is_empty(), "of a server");
        for name in std::mem::take(&mut self.forgotten) {
            // It was set again behind the RESET.
            if self.set.contains_key(&name) {
                continue;
            }
            let told = self.reported.remove(&name);
            // The server has its own value now, and the client is owed the one that it began with.
            if let (Some(told), Some(begun)) = (&told, self.first.get(&name)) {
                if told != begun {
                    self.untold.insert(name.clone());
                }
                self.reported.insert(name, begun.clone());
                continue;
            }
            if told.is_some_and(|told| self.value(&name).is_some_and(|value| value != told)) {
                self.untold.insert(name);
            }
        }
    }

    fn rolled_back(&mut self) {
        self.open.clear();
        self.failed = Failed::No;
    }

    fn commit(&mut self) {
        self.failed = Failed::No;
        if self.open.iter().any(|level| !level.changes.is_empty()) {
            self.digest = None;
        }
        // From the first level to the last, so that a later change replaces an earlier one.
        for (name, change) in std::mem::take(&mut self.open).into_iter().flat_map(|l| l.changes) {
            // What is known of it is of the last change alone.
            self.unknown.remove(&name);
            match change {
                Change::Set(value) => drop(self.set.insert(name, value)),
                Change::Unknown => {
                    self.unknown.insert(name);
                }
                Change::Reset => {
                    // The server has reset it to what the server began with.
                    self.set.remove(&name);
                    if self.side == Side::Client && self.base.contains_key(&name) {
                        self.forgotten.insert(name);
                    }
                }
            }
        }
    }

    /// ParameterStatus has come: the server has this value now.
    pub fn reported(&mut self, name: &[u8], value: &[u8]) {
        let name = lower(name);
        if REPORTED.contains(&name.as_slice()) || REPORTED_SOMETIMES.contains(&name.as_slice()) {
            // They are no longer what client and server agreed on.
            if self.reported.get(&name).is_none_or(|known| known != value) {
                (self.agreed, self.digest) = (None, None);
            }
            self.first.entry(name.clone()).or_insert_with(|| value.to_vec());
            self.reported.insert(name, value.to_vec());
            self.check_bounds();
        }
    }

    /// A client is told this of servers at its login: of what it has begun with itself, it is told what
    /// they will make of that, as far as it is known.
    pub fn begins(&mut self, name: &[u8], own: &[u8]) {
        let name = lower(name);
        // What a server has told, or the client has set since, is newer than its login.
        if self.reported.contains_key(&name) || self.set.contains_key(&name) {
            return;
        }
        if let Some(Value::Whole(said)) = self.base.get(&name)
            && let Some(told) = as_told(&name, said, own)
        {
            self.reported(&name, &told);
        }
    }

    /// The value that a client has begun with of a setting, in lower case, as servers tell it, if it has
    /// reset it: whatever a server then has of its own.
    pub fn begins_again(&self, name: &[u8]) -> Option<Vec<u8>> {
        let is_reset = match self.changed(name) {
            Some(change) => matches!(change, Change::Reset),
            None => self.forgotten.contains(name),
        };
        if is_reset { self.begun(name) } else { None }
    }

    fn begun(&self, name: &[u8]) -> Option<Vec<u8>> {
        let said = self.base.get(name)?;
        Some(self.first.get(name).cloned().unwrap_or_else(|| said.joined()))
    }

    /// Whether this is the value that a server had of a setting, in lower case, at first.
    pub fn is_first(&self, name: &[u8], value: &[u8]) -> bool {
        self.first.get(name).is_some_and(|first| first == value)
    }

    /// Commands that the server must be told before this client's next transaction. None if it has
    /// all.
    ///
    /// It is one text of several commands, to be sent as a query of its own, outside of a
    /// transaction: all of it takes effect or nothing. Its replies are for nobody, nor is
    /// what it reports, which the client was told; an error is the client's to read.
    ///
    /// # Errors
    ///
    /// The settings of one of the two are not known, or a value is not ASCII and `client_encoding`
    /// differs too: the server reads all of the text by the one that it has before.
    pub fn difference(server: &Settings, client: &Settings) -> Result<Option<Vec<u8>>, Lost> {
        if let Some(lost) = client.lost.or(server.lost) {
            return Err(lost);
        }
        if server.agreed.is_some() && server.agreed == client.digest {
            return Ok(None);
        }
        // One text is one transaction: a value that the server refuses leaves none of the others behind.
        let mut text = Vec::new();
        let mut encodes = false;
        for (name, wanted) in Settings::changes(server, client) {
            encodes |= name == b"client_encoding";
            match wanted {
                Some(value) => write_set(&mut text, name, &value),
                None => write_reset(&mut text, name),
            }
        }
        let role = |side: &Settings| side.effective(b"role").cloned();
        let (has, wants) = (role(server), role(client));
        if text.is_empty() && has == wants {
            return Ok(None);
        }
        // What may be set depends on who sets it: the user of the connection does, before it becomes
        // the role that is wanted.
        if has.is_some() {
            text.splice(0..0, *b"RESET ROLE; ");
        }
        if let Some(role) = wants {
            write_set(&mut text, b"role", &role);
        }
        without_end(&mut text);
        if encodes && !text.is_ascii() {
            return Err(Lost::Encoding);
        }
        Ok(Some(text))
    }

    /// The settings that differ, without the role: the wanted value, or none where it is the
    /// server's own.
    fn changes<'a>(
        server: &'a Settings,
        client: &'a Settings,
    ) -> impl Iterator<Item = (&'a [u8], Option<Value>)> {
        let names: BTreeSet<&[u8]> = [&client.set, &client.base, &server.set]
            .into_iter()
            .flat_map(|map| map.keys().map(Vec::as_slice))
            .chain(client.reported.keys().chain(server.reported.keys()).map(Vec::as_slice))
            .filter(|name| *name != b"role")
            .collect();
        names.into_iter().filter_map(move |name| {
            let has = server.reported.get(name);
            // Both as servers spell them: a SET to `ISO` is reported as `ISO, MDY`.
            if let (Some(wanted), Some(has)) = (client.reported.get(name), has) {
                let wanted = Value::Whole(wanted.clone());
                return (wanted != Value::Whole(has.clone())).then_some((name, Some(wanted)));
            }
            match (client.effective(name), has) {
                (Some(wanted), Some(has)) => {
                    let alike = wanted.joined() == *has;
                    (!alike).then(|| (name, Some(wanted.clone())))
                }
                (Some(wanted), None) => {
                    let alike = server.effective(name).is_some_and(|has| wanted.is(has, name));
                    (!alike).then(|| (name, Some(wanted.clone())))
                }
                // The client has nothing of its own: the server goes back to what it reported first.
                (None, Some(_)) => server.moved(name).then_some((name, None)),
                (None, None) => server.set.contains_key(name).then_some((name, None)),
            }
        })
    }

    /// Commands that set again what the open transaction of a client has reset, to the values that
    /// its connection began with and its server's did not, and the effects of these. None if there
    /// are none.
    pub fn begun_again(&self) -> Option<(Vec<u8>, Vec<EffectKind>)> {
        if self.open.is_empty() || self.base.is_empty() || self.lost.is_some() {
            return None;
        }
        let mut text = Vec::new();
        let mut sets = Vec::new();
        // The role last: what may be set depends on it.
        let role = self.base.iter().filter(|(name, _)| *name == b"role");
        for (name, value) in self.base.iter().filter(|(name, _)| *name != b"role").chain(role) {
            let kept = self.open.iter().rev().find_map(|level| level.changes.get(name));
            if matches!(kept, Some(Change::Reset)) {
                // Half of a DateStyle would leave the other half as it is now.
                let value = self.first.get(name).map_or(value.clone(), |v| Value::Whole(v.clone()));
                write_set(&mut text, name, &value);
                sets.push(EffectKind::Set { name: name.clone(), value: Some(value) });
            }
        }
        if sets.is_empty() {
            return None;
        }
        without_end(&mut text);
        Some((text, sets))
    }

    /// The server has done all of [`Settings::difference`], or it was nothing: it has the client's
    /// settings now.
    pub fn handed_over(server: &mut Settings, client: &mut Settings) {
        if server.agreed.is_some() && server.agreed == client.digest {
            return;
        }
        let wishes = client.base.iter().filter(|(name, _)| !client.set.contains_key(*name));
        let wishes = wishes.chain(&client.set);
        // A RESET takes a server back to these, so they are no changes of its session.
        let begun =
            |name: &[u8], value| server.base.get(name).is_some_and(|base| base.is(value, name));
        server.set = wishes
            .filter(|(name, value)| !begun(name, value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        // Spelt as servers spell them, so that the next difference compares like with like.
        client.reported.clone_from(&server.reported);
        for name in client.base.keys().filter(|name| !client.set.contains_key(*name)) {
            if let Some(value) = client.reported.get(name) {
                client.first.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        server.check_bounds();
        client.digest = Some(client.digest());
        server.agreed = client.digest;
    }

    /// The server has been cleaned of what it had set ([`super::Cleanup`]), or has done `DISCARD
    /// ALL`.
    pub fn discarded(&mut self) {
        // DISCARD ALL has reset it to what the server began with, not to what this client did.
        if self.side == Side::Client {
            self.forgotten.extend(self.base.keys().cloned());
        }
        self.open.clear();
        self.set.clear();
        self.unknown.clear();
        // However little was known of it, all of it is gone.
        (self.failed, self.lost) = (Failed::No, None);
        (self.agreed, self.digest) = (None, None);
    }

    /// Tells apart sessions in which a text may mean another thing when it is prepared, as they are
    /// now: what a transaction has changed counts as soon as it has. None where that is not known.
    pub fn scope(&self) -> Option<u64> {
        let unnamed = self.open.iter().any(|level| level.local.contains_key(&b""[..]));
        if self.lost.is_some() || unnamed || self.unknown.iter().any(|name| is_meaning(name)) {
            return None;
        }
        let mut hash = Hash::default();
        for name in MEANING {
            // Of a DateStyle, what was before may count beside what was set.
            if let Some(value) = self.value(name) {
                hash.part(name);
                hash.part(&value);
            }
            match self.changed(name) {
                Some(Change::Set(value)) => {
                    hash.part(b"open");
                    hash.part(name);
                    value.hash(&mut hash);
                }
                Some(Change::Reset) => {
                    hash.part(b"reset");
                    hash.part(name);
                }
                Some(Change::Unknown) => return None,
                None => {}
            }
        }
        Some(hash.end())
    }

    /// The last change of a setting by the open transaction, whether that stays or ends with it.
    fn changed(&self, name: &[u8]) -> Option<&Change> {
        // Within one level a SET LOCAL hides the SET before it, and a SET behind it has ended it
        // (`change`).
        let mut levels = self.open.iter().rev();
        levels.find_map(|level| level.local.get(name).or_else(|| level.changes.get(name)))
    }

    /// True while a transaction is open that has changed settings, or has savepoints.
    pub fn is_moving(&self) -> bool {
        !self.open.is_empty()
    }

    /// The changes made to them are not known, and will not be.
    pub fn unfollowed(&mut self) {
        self.lose(Lost::Unknown);
    }

    /// Number of settings that the session has beside the server's own.
    pub fn len(&self) -> usize {
        self.base.len() + self.set.len()
    }

    /// The settings that it has begun with.
    pub fn begun_with(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.base.iter().filter_map(|(name, value)| match value {
            Value::Whole(whole) => Some((&name[..], &whole[..])),
            Value::Items(_) => None,
        })
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of all that it has set or begun with.
    pub fn wanted(&self) -> impl Iterator<Item = &[u8]> {
        let names: BTreeSet<&[u8]> =
            self.base.keys().chain(self.set.keys()).map(Vec::as_slice).collect();
        names.into_iter()
    }

    /// True if both are the same in all that can be told, with nothing under way.
    pub fn is_same(&self, other: &Settings) -> bool {
        let unlinked = |one: &Settings| {
            one.open.is_empty()
                && one.unknown.is_empty()
                && one.forgotten.is_empty()
                && one.lost.is_none()
        };
        unlinked(self)
            && unlinked(other)
            && self.side == other.side
            && self.base == other.base
            && self.set == other.set
            && self.reported == other.reported
            && self.untold == other.untold
    }

    /// True if these began as those do, and have changed nothing since.
    pub fn begins_as(&self, beginner: &Settings) -> bool {
        self.base == beginner.base
            && self.set.is_empty()
            && self.open.is_empty()
            && self.unknown.is_empty()
            && self.forgotten.is_empty()
            && self.lost.is_none()
            && self.side == beginner.side
    }

    /// The command that a server must be told first where [`Settings::difference`] is
    /// [`Lost::Encoding`]: the encoding alone, which is ASCII. It counts when the server has done
    /// it ([`Settings::encoded`]).
    pub fn encoding_first(client: &Settings) -> Vec<u8> {
        let name: &[u8] = b"client_encoding";
        let mut text = Vec::new();
        match client.value(name) {
            Some(value) => write_set(&mut text, name, &Value::Whole(value)),
            None => write_reset(&mut text, name),
        }
        without_end(&mut text);
        text
    }

    /// The server has done [`Settings::encoding_first`]: the client has its encoding as the server
    /// reports it, and it differs no more in what the two call it.
    ///
    /// # Errors
    ///
    /// The server does not report it, so that it would be told for ever.
    pub fn encoded(server: &Settings, client: &mut Settings) -> Result<(), Lost> {
        let name: &[u8] = b"client_encoding";
        let value = server.reported.get(name).ok_or(Lost::Encoding)?;
        client.reported(name, value);
        Ok(())
    }

    fn digest(&self) -> u64 {
        let mut hash = Hash::default();
        for (mark, map) in [(b"s", &self.set), (b"b", &self.base)] {
            hash.part(mark);
            for (name, value) in map {
                hash.part(name);
                value.hash(&mut hash);
            }
        }
        for (name, value) in &self.reported {
            hash.part(name);
            hash.part(value);
        }
        hash.end()
    }

    fn lose(&mut self, lost: Lost) {
        // The first reason stays: those behind it follow from it.
        self.open.clear();
        self.agreed = None;
        self.lost.get_or_insert(lost);
    }

    fn check_bounds(&mut self) {
        let values = self.base.iter().chain(&self.set);
        let mut names = self.base.len() + self.set.len() + self.open.len();
        let mut bytes: usize = values.map(|(name, value)| name.len() + value.len()).sum();
        bytes += self.reported.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        for level in &self.open {
            names += level.changes.len() + level.local.len();
            bytes += level.savepoint.len();
            for (name, change) in level.changes.iter().chain(&level.local) {
                bytes += name.len();
                if let Change::Set(value) = change {
                    bytes += value.len();
                }
            }
        }
        if names > self.bounds.names_max || bytes > self.bounds.bytes_max {
            self.lose(Lost::Bounds);
        }
    }
}

fn lower(name: &[u8]) -> Vec<u8> {
    name.to_ascii_lowercase()
}

/// Takes what ends each command of a text away behind the last one.
pub(super) fn without_end(text: &mut Vec<u8>) {
    assert!(text.ends_with(b"; "), "there is no command, or a part of one would be cut off");
    text.truncate(text.len() - 2);
}

fn write_set(text: &mut Vec<u8>, name: &[u8], value: &Value) {
    let items = match value {
        // One string would be one item, whatever commas it has.
        Value::Whole(whole) if QUOTED_LISTS.contains(&name) => {
            text.extend_from_slice(b"SELECT pg_catalog.set_config(");
            write_literal(text, name);
            text.extend_from_slice(b", ");
            write_literal(text, whole);
            text.extend_from_slice(b", false); ");
            return;
        }
        Value::Whole(whole) => std::slice::from_ref(whole),
        Value::Items(items) => items,
    };
    text.extend_from_slice(b"SET ");
    write_name(text, name);
    text.extend_from_slice(b" TO ");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.extend_from_slice(b", ");
        }
        write_literal(text, item);
    }
    text.extend_from_slice(b"; ");
}

pub(super) fn write_reset(text: &mut Vec<u8>, name: &[u8]) {
    text.extend_from_slice(b"RESET ");
    write_name(text, name);
    text.extend_from_slice(b"; ");
}

/// A setting's name, each part in quotes.
fn write_name(text: &mut Vec<u8>, name: &[u8]) {
    // A custom setting has a name of two parts, and one pair of quotes around both would name another.
    for (index, part) in name.split(|&byte| byte == b'.').enumerate() {
        if index > 0 {
            text.push(b'.');
        }
        text.push(b'"');
        for &byte in part {
            if byte == b'"' {
                text.push(b'"');
            }
            text.push(byte);
        }
        text.push(b'"');
    }
}

/// A string that means the same whatever `standard_conforming_strings` is.
fn write_literal(text: &mut Vec<u8>, value: &[u8]) {
    // In E'' a backslash is an escape whatever the setting says, and is doubled below.
    if value.contains(&b'\\') {
        text.push(b'E');
    }
    text.push(b'\'');
    for &byte in value {
        if matches!(byte, b'\'' | b'\\') {
            text.push(byte);
        }
        text.push(byte);
    }
    text.push(b'\'');
}
