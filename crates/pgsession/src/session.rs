//! Settings of the session at a server, and of the client that has it, while bytes pass: what one of the
//! two changes, the other follows, and what the client is told instead where its own values differ.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::relay::Instead;
use crate::sql::{Effect, EffectKind, Lost, Settings, SettingsBounds, Side};
use pgwire::message::{Status, write};

/// Savepoints of a transaction that are remembered by their names, in case that it sets something.
// With more the settings count as unknown, which costs their client a server and not the gate its memory.
const SAVEPOINTS_MAX: usize = 4096;

/// Settings of former clients that are kept to be shared with others that have the same.
const KNOWN_MAX: usize = 64;

/// The settings of the session at a server.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    /// The client's settings that it has, since nothing changed.
    // Kept alive by this reference, so that no other settings can have their address.
    agreed: Option<Arc<Settings>>,
    /// True while a transaction is open that has changed some.
    moves: bool,
    /// Its savepoints, while it has not.
    savepoints: Vec<Vec<u8>>,
    /// True if there were more.
    deep: bool,
    /// True if these settings or its client's are not known any more.
    lost: bool,
}

impl Session {
    /// One that has just begun with these settings, of which nothing was reported.
    pub fn begun(begun: &[(Vec<u8>, Vec<u8>)]) -> Session {
        let base = begun.iter().map(|(name, value)| (&name[..], &value[..]));
        Session {
            settings: Settings::new(Side::Server, SettingsBounds::default(), base),
            agreed: None,
            moves: false,
            savepoints: Vec::new(),
            deep: false,
            lost: false,
        }
    }

    /// The settings that it has.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// True if it has these settings, without a closer look.
    pub fn has(&self, settings: &Arc<Settings>) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| Arc::ptr_eq(agreed, settings))
    }

    /// The statements that give it these settings, if it lacks any.
    ///
    /// # Errors
    /// As [`Settings::difference`].
    pub fn difference(&self, settings: &Settings) -> Result<Option<Vec<u8>>, Lost> {
        Settings::difference(&self.settings, settings)
    }

    /// It has been told the encoding of these, before the rest.
    ///
    /// # Errors
    /// As [`Settings::encoded`].
    pub fn encoded(&self, settings: &mut Arc<Settings>) -> Result<(), Lost> {
        Settings::encoded(&self.settings, Arc::make_mut(settings))
    }

    /// It has been told, or needed not be.
    pub fn agrees(&mut self, settings: &mut Arc<Settings>, known: &mut Known) {
        Settings::handed_over(&mut self.settings, Arc::make_mut(settings));
        known.share(settings);
        self.agreed = Some(Arc::clone(settings));
    }

    /// Its server says so at its beginning, or answering the gate.
    pub fn reported(&mut self, name: &[u8], value: &[u8]) {
        self.settings.reported(name, value);
        self.agreed = None;
    }

    /// Notes that what clients have set is gone.
    pub fn discarded(&mut self) {
        self.settings.discarded();
        self.unlinked();
        // Lost is what clients had set, and nothing of that is there any more.
        (self.agreed, self.lost) = (None, false);
    }

    /// Its client has gone, and nobody hears how what it asked last ends.
    pub fn unfollowed(&mut self) {
        self.settings.unfollowed();
        self.unlinked();
        (self.agreed, self.lost) = (None, true);
    }

    fn unlinked(&mut self) {
        (self.moves, self.deep) = (false, false);
        self.savepoints.clear();
    }

    /// True while a transaction is open that has changed settings.
    pub fn is_moving(&self) -> bool {
        self.moves
    }

    /// True if a client must keep it since nobody knows its settings.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

/// The settings of a server and its client while the two are together.
#[derive(Debug)]
pub struct Following<'a> {
    session: &'a mut Session,
    /// None if nobody has the server.
    client: Option<&'a mut Arc<Settings>>,
    /// True once the client has got its settings there.
    serves: bool,
    /// True once the client's have changed.
    pub changed: bool,
    /// Values that a question of the gate's own has brought about and that the client was told
    /// otherwise, as what it is to be told.
    pub news: Vec<u8>,
}

impl<'a> Following<'a> {
    /// Those of a server and the client that has it, if one has. `serves`: it has got its settings.
    pub fn new(
        session: &'a mut Session,
        client: Option<&'a mut Arc<Settings>>,
        serves: bool,
    ) -> Following<'a> {
        Following { session, client, serves, changed: false, news: Vec::new() }
    }
}

impl Following<'_> {
    fn both(&mut self, what: impl Fn(&mut Settings)) {
        // The client's copy is what the next server is given; the server's is what the clean-up goes by.
        what(&mut self.session.settings);
        self.session.lost = self.session.settings.lost().is_some();
        self.session.agreed = None;
        if let Some(client) = self.client.as_deref_mut().filter(|_| self.serves) {
            let client = Arc::make_mut(client);
            what(client);
            self.session.lost |= client.lost().is_some();
            self.changed = true;
        }
    }

    /// ParameterStatus has come, for a question of the gate's `own` perhaps; what the client is told for
    /// it. What it has reset has the value that it began with, and not that of its server.
    pub fn reported(&mut self, name: &[u8], value: &[u8], own: bool) -> Instead {
        let small = name.to_ascii_lowercase();
        // After RESET a server reports its own value, which is no news to who began with another one.
        let is_first = self.session.settings.is_first(&small, value);
        let client = self.client.as_deref_mut().filter(|_| !own && self.serves && is_first);
        if let Some(client) = client
            && let Some(begun) = client.begins_again(&small)
        {
            let knows = client.value(&small).is_some_and(|told| told == begun);
            Arc::make_mut(client).reported(name, &begun);
            self.session.settings.reported(name, value);
            (self.session.agreed, self.changed) = (None, true);
            return if knows { Instead::Nothing } else { Instead::Value(begun) };
        }
        let told = self.client.as_ref().filter(|_| own);
        let told = told.and_then(|client| client.value(&name.to_ascii_lowercase()));
        if told.is_some_and(|told| told != value) {
            write::parameter_status(&mut self.news, name, value);
        }
        self.both(|settings| settings.reported(name, value));
        Instead::Same
    }

    /// Writes what the client has again and was told otherwise since.
    pub fn tell(&mut self, told: &mut Vec<u8>) {
        if let Some(client) = self.client.as_deref_mut().filter(|_| self.serves) {
            write_untold(client, told);
        }
    }

    /// A command has completed, and this was found in it.
    pub fn completed(&mut self, tag: &[u8], left: &[Effect]) {
        // Nearly no transaction sets anything: until one does, only savepoints are noted.
        if !self.session.moves {
            if self.session.savepoints.is_empty() && left.is_empty() {
                return;
            }
            if left.iter().all(|effect| !sets(&effect.what)) {
                return self.session.remember(tag, left);
            }
            self.begin();
        }
        self.both(|settings| settings.completed(left.iter().map(|effect| &effect.what), tag));
    }

    /// From here on the transaction counts, with the savepoints that it has.
    fn begin(&mut self) {
        self.session.moves = true;
        // Said once more to the settings, in their order: a rollback to one undoes what is set behind it.
        let names = std::mem::take(&mut self.session.savepoints);
        if std::mem::take(&mut self.session.deep) {
            self.both(Settings::unfollowed);
        }
        let savepoints: Vec<EffectKind> = names.into_iter().map(EffectKind::Savepoint).collect();
        if !savepoints.is_empty() {
            self.both(|settings| settings.completed(&savepoints, b"SAVEPOINT"));
        }
    }

    /// The gate has done this in the client's transaction.
    pub fn restored(&mut self, sets: &[EffectKind]) {
        self.both(|settings| settings.completed(sets, b"SET"));
    }

    /// A command has failed.
    pub fn failed(&mut self) {
        if self.session.moves {
            self.both(Settings::failed);
        }
    }

    /// ReadyForQuery has come.
    pub fn ready(&mut self, status: Status) {
        if self.session.moves {
            self.both(|settings| settings.ready(status));
        }
        if status == Status::Idle {
            self.session.unlinked();
        }
    }
}

impl Session {
    /// A transaction that has set nothing yet gets savepoints, and loses them.
    fn remember(&mut self, tag: &[u8], left: &[Effect]) {
        // `ROLLBACK TO` has the tag ROLLBACK, too.
        let mut ends = matches!(tag, b"COMMIT" | b"ROLLBACK" | b"PREPARE TRANSACTION");
        for effect in left {
            let place = |name: &[u8]| self.savepoints.iter().rposition(|one| one == name);
            match &effect.what {
                EffectKind::Savepoint(_) if self.savepoints.len() >= SAVEPOINTS_MAX => {
                    self.deep = true
                }
                EffectKind::Savepoint(name) => self.savepoints.push(name.clone()),
                // PostgreSQL finds the latest of a name, and with it go those that were made behind it.
                EffectKind::Release(name) => match place(name) {
                    Some(at) => self.savepoints.truncate(at),
                    None => self.deep = true,
                },
                EffectKind::RollbackTo(name) => {
                    ends = false;
                    match place(name) {
                        Some(at) => self.savepoints.truncate(at + 1),
                        None => self.deep = true,
                    }
                }
                _ => {}
            }
        }
        debug_assert!(self.savepoints.len() <= SAVEPOINTS_MAX);
        if ends {
            self.unlinked();
        }
    }
}

/// True if it changes settings.
fn sets(what: &EffectKind) -> bool {
    matches!(
        what,
        EffectKind::Set { .. }
            | EffectKind::SetLocal { .. }
            | EffectKind::Reset { .. }
            | EffectKind::ResetAll
            | EffectKind::SetUnknown
            | EffectKind::SessionAuthorization
            | EffectKind::ResetAuthorization
            | EffectKind::DiscardAll
            | EffectKind::Many
    )
}

/// Settings that clients of a pool have, or have had: those with the same share them.
#[derive(Debug, Default)]
pub struct Known(VecDeque<Arc<Settings>>);

impl Known {
    /// Takes those in place of these, if there are such, and remembers these if not.
    pub fn share(&mut self, settings: &mut Arc<Settings>) {
        match self.0.iter().find(|one| one.is_same(settings)) {
            Some(known) => *settings = Arc::clone(known),
            None => {
                // Whoever has the oldest keeps them, and is only compared more closely.
                if self.0.len() >= KNOWN_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(Arc::clone(settings));
            }
        }
    }

    /// Those of a client that begins as one did before, and with them what servers have made of it;
    /// but not of one that was told otherwise than who comes now.
    pub fn of_beginner(
        &self,
        settings: &Settings,
        told: &[(Vec<u8>, Vec<u8>)],
    ) -> Option<Arc<Settings>> {
        let knows = |one: &Settings| {
            told.iter().all(|(name, value)| {
                let name = name.to_ascii_lowercase();
                let begins = one.begun_with().any(|(begun, _)| begun == name);
                begins || one.value(&name).is_none_or(|known| known == *value)
            })
        };
        self.0.iter().rev().find(|one| one.begins_as(settings) && knows(one)).cloned()
    }
}

/// Writes what a client has again and was told otherwise since.
pub fn write_untold(settings: &mut Arc<Settings>, out: &mut Vec<u8>) {
    let before = out.len();
    for (name, value) in settings.untold() {
        write::parameter_status(out, name, &value);
    }
    if out.len() > before {
        Arc::make_mut(settings).told();
    }
}
