//! Session state that clients leave at servers: following it while bytes pass, pins with their
//! cost, and the clean-up before somebody else has the server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gate::Time;
use live::model::Work;

use super::client;
use super::config::Mode;
use super::connection::Buffers;
use super::pool::Pool;
use super::server::{Begun, Server, State};
use super::slab::{Key, Socket};
use super::state::Loop;
use super::stats::Pin;
use pgsession::pipeline::Kept;
use pgsession::relay::Instead;
use pgsession::sql::{Cleanup, Effect, EffectKind, Lost, Settings, SettingsBounds, Side};
use pgwire::SqlState;
use pgwire::message::{Status, write};

/// Savepoints of a transaction that are remembered by their names, in case that it sets something.
const SAVEPOINTS_MAX: usize = 4096;

/// Settings of former clients that are kept to be shared with others that have the same.
const KNOWN_MAX: usize = 64;

/// The settings of the session at a server.
#[derive(Debug)]
pub(super) struct Session {
    settings: Settings,
    /// The client's settings that it has, since nothing changed.
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
    /// One that has just begun, of which nothing was reported.
    pub(super) fn new() -> Session {
        Session::begun(&Begun::new())
    }

    /// The same, with these settings.
    pub(super) fn begun(begun: &Begun) -> Session {
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

    /// True if it has these settings, without a closer look.
    pub(super) fn has(&self, settings: &Arc<Settings>) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| Arc::ptr_eq(agreed, settings))
    }

    /// The statements that give it these settings, if it lacks any.
    ///
    /// # Errors
    /// As [`Settings::difference`].
    pub(super) fn difference(&self, settings: &Settings) -> Result<Option<Vec<u8>>, Lost> {
        Settings::difference(&self.settings, settings)
    }

    /// It has been told the encoding of these, before the rest.
    ///
    /// # Errors
    /// As [`Settings::encoded`].
    pub(super) fn encoded(&self, settings: &mut Arc<Settings>) -> Result<(), Lost> {
        Settings::encoded(&self.settings, Arc::make_mut(settings))
    }

    /// It has been told, or needed not be.
    pub(super) fn agrees(&mut self, settings: &mut Arc<Settings>, known: &mut Known) {
        Settings::handed_over(&mut self.settings, Arc::make_mut(settings));
        known.share(settings);
        self.agreed = Some(Arc::clone(settings));
    }

    /// Its server says so at its beginning, or answering the gate.
    pub(super) fn reported(&mut self, name: &[u8], value: &[u8]) {
        self.settings.reported(name, value);
        self.agreed = None;
    }

    /// Notes that what clients have set is gone.
    pub(super) fn discarded(&mut self) {
        self.settings.discarded();
        self.unlinked();
        (self.agreed, self.lost) = (None, false);
    }

    /// Its client has gone, and nobody hears how what it asked last ends.
    pub(super) fn unfollowed(&mut self) {
        self.settings.unfollowed();
        self.unlinked();
        (self.agreed, self.lost) = (None, true);
    }

    fn unlinked(&mut self) {
        (self.moves, self.deep) = (false, false);
        self.savepoints.clear();
    }

    /// True while a transaction is open that has changed settings.
    pub(super) fn is_moving(&self) -> bool {
        self.moves
    }

    /// True if a client must keep it since nobody knows its settings.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }
}

/// The settings of a server and its client while the two are together.
pub(super) struct Following<'a> {
    pub(super) session: &'a mut Session,
    /// None if nobody has the server.
    client: Option<&'a mut Arc<Settings>>,
    /// True once the client has got its settings there.
    serves: bool,
    /// True once the client's have changed.
    pub(super) changed: bool,
    /// Values that a question of the gate's own has brought about and that the client was told
    /// otherwise, as what it is to be told.
    pub(super) news: Vec<u8>,
}

impl<'a> Following<'a> {
    /// Those of a server and the client that has it, if one has. `serves`: it has got its settings.
    pub(super) fn new(
        session: &'a mut Session,
        client: Option<&'a mut Arc<Settings>>,
        serves: bool,
    ) -> Following<'a> {
        Following { session, client, serves, changed: false, news: Vec::new() }
    }
}

impl Following<'_> {
    fn both(&mut self, what: impl Fn(&mut Settings)) {
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
    pub(super) fn reported(&mut self, name: &[u8], value: &[u8], own: bool) -> Instead {
        let small = name.to_ascii_lowercase();
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
    pub(super) fn tell(&mut self, told: &mut Vec<u8>) {
        if let Some(client) = self.client.as_deref_mut().filter(|_| self.serves) {
            write_untold(client, told);
        }
    }

    /// A command has completed, and this was found in it.
    pub(super) fn completed(&mut self, tag: &[u8], left: &[Effect]) {
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
    fn restored(&mut self, sets: &[EffectKind]) {
        self.both(|settings| settings.completed(sets, b"SET"));
    }

    /// A command has failed.
    pub(super) fn failed(&mut self) {
        if self.session.moves {
            self.both(Settings::failed);
        }
    }

    /// ReadyForQuery has come.
    pub(super) fn ready(&mut self, status: Status) {
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
        let mut ends = matches!(tag, b"COMMIT" | b"ROLLBACK" | b"PREPARE TRANSACTION");
        for effect in left {
            let place = |name: &[u8]| self.savepoints.iter().rposition(|one| one == name);
            match &effect.what {
                EffectKind::Savepoint(_) if self.savepoints.len() >= SAVEPOINTS_MAX => {
                    self.deep = true
                }
                EffectKind::Savepoint(name) => self.savepoints.push(name.clone()),
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
pub(super) struct Known(VecDeque<Arc<Settings>>);

impl Known {
    /// Takes those in place of these, if there are such, and remembers these if not.
    pub(super) fn share(&mut self, settings: &mut Arc<Settings>) {
        match self.0.iter().find(|one| one.is_same(settings)) {
            Some(known) => *settings = Arc::clone(known),
            None => {
                if self.0.len() >= KNOWN_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(Arc::clone(settings));
            }
        }
    }

    /// Those of a client that begins as one did before, and with them what servers have made of it;
    /// but not of one that was told otherwise than who comes now.
    pub(super) fn of_beginner(
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

/// The time for which a client has kept its server for the session state that it left there.
#[derive(Debug)]
pub(super) struct Pinned {
    since: Time,
    /// Between its jobs.
    idle: Duration,
    idle_since: Option<Time>,
}

impl Pinned {
    fn idle(&self, now: Time) -> Duration {
        self.idle + self.idle_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

impl Server {
    /// True if its client keeps it beyond its job, for the session state that it has left there.
    pub(super) fn is_pinned(&self) -> bool {
        self.session.is_lost() || !self.relay.pins().is_empty()
    }

    /// True while it is given the settings of a client that has it.
    pub(super) fn is_being_set(&self) -> bool {
        let set = matches!(self.state, State::Setting(_) | State::Encoding | State::Restoring(_));
        set && self.client.is_some()
    }

    /// True while it is in the ledger: from the end of the job that left something there.
    pub(super) fn is_kept(&self) -> bool {
        self.pinned.is_some()
    }

    /// Its client, which keeps it, has nothing under way. Whether it is kept from now on.
    pub(super) fn pin(&mut self, now: Time) -> bool {
        let is_new = self.pinned.is_none();
        let begun = Pinned { since: now, idle: Duration::ZERO, idle_since: None };
        let pinned = self.pinned.get_or_insert(begun);
        pinned.idle_since.get_or_insert(now);
        is_new
    }

    /// Its client has said something.
    pub(super) fn works(&mut self, now: Time) {
        if let Some(pinned) = &mut self.pinned {
            pinned.idle = pinned.idle(now);
            pinned.idle_since = None;
        }
    }
}

impl client::Client {
    /// Tells it what it has again and was told otherwise since. False if it cannot be written to.
    pub(super) fn tell_settings(&mut self, buffers: &mut Buffers) -> bool {
        let mut out = Vec::new();
        write_untold(&mut self.settings, &mut out);
        out.is_empty() || self.connection.send(&out, buffers).is_ok()
    }
}

fn write_untold(settings: &mut Arc<Settings>, out: &mut Vec<u8>) {
    let before = out.len();
    for (name, value) in settings.untold() {
        write::parameter_status(out, name, &value);
    }
    if out.len() > before {
        Arc::make_mut(settings).told();
    }
}

impl Loop {
    /// A server is not kept any more.
    pub(super) fn unpin(&mut self, key: Key) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if let Some(pinned) = server.pinned.take() {
            // How long it was kept says nothing of what it had to do.
            server.work = Work::Failed;
            let pool = &mut self.pools[server.pool];
            pool.kept -= 1;
            let counters = &mut pool.counters;
            counters.pins += 1;
            counters.pin_time += self.now.since(pinned.since);
            counters.pin_idle_time += pinned.idle(self.now);
        }
    }

    /// The pins of now: each client that keeps a server beyond its job, with reason and cost.
    pub(super) fn pins(&self) -> Vec<Pin> {
        self.pins_by_number().map(|(_, _, pin)| pin).collect()
    }

    /// The same for the console, which has numbers of its own.
    pub(super) fn ledger(&self) -> Vec<pgconsole::Pin> {
        let pins = self.pins_by_number().map(|(client, server, pin)| {
            let mut reasons: Vec<_> = pin.reasons.iter().map(|one| one.to_string()).collect();
            reasons.extend(pin.lost.map(|lost| lost.to_string()));
            let Pin { database, user, application_name, held, idle, .. } = pin;
            let reason = reasons.join(", ");
            pgconsole::Pin { client, server, database, user, application_name, reason, held, idle }
        });
        pins.collect()
    }

    /// Each with the console's numbers of client and server.
    fn pins_by_number(&self) -> impl Iterator<Item = (u64, u64, Pin)> + '_ {
        self.servers.iter().filter_map(|(_, server)| {
            let pinned = server.pinned.as_ref()?;
            let client = self.clients.get(server.client?)?;
            let pool = &self.pools[server.pool];
            let name = client.settings.value(b"application_name").unwrap_or_default();
            let pin = Pin {
                client: client.process,
                server: server.process,
                database: self.config.databases[pool.database].name.clone(),
                user: String::from_utf8_lossy(&pool.user).into_owned(),
                application_name: String::from_utf8_lossy(&name).into_owned(),
                reasons: server.relay.pins(),
                lost: client.settings.lost(),
                held: self.now.since(pinned.since),
                idle: pinned.idle(self.now),
            };
            Some((client.id, server.id, pin))
        })
    }

    /// Passes a change of a client's settings on to the reading of its next texts.
    pub(super) fn follow_client(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let (scope, lexer_mode) = (client.settings.scope(), client.settings.lexer_mode());
        client.statements.set_scope(scope, lexer_mode);
        client.statements.set_moving(client.settings.is_moving());
    }

    /// Gives a client what it began with of that which it has reset in its transaction. False if that
    /// is nothing.
    pub(super) fn restore(&mut self, key: Key) -> bool {
        let Some(server) = self.servers.get_mut(key) else { return false };
        if !server.session.is_moving() || server.relay.kept() != Some(Kept::InTransaction) {
            return false;
        }
        let read = server.connection.as_ref().is_none_or(|connection| connection.read().is_empty());
        let client = server.client.and_then(|client| self.clients.get(client));
        let Some((text, sets)) = client.filter(|_| read).and_then(|one| one.settings.begun_again())
        else {
            return false;
        };
        server.state = State::Restoring(sets);
        self.query(key, &text);
        true
    }

    /// A client has what it began with, or its server refuses that.
    pub(super) fn restored(&mut self, key: Key, sets: &[EffectKind], failed: Option<SqlState>) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        server.state = State::Serving;
        let at = server.client.expect("it has not gone");
        let client = self.clients.get_mut(at).expect("who has a server is there");
        if let Some(sqlstate) = failed {
            let message = "the server refuses the settings that this session began with";
            return self.fail(at, sqlstate, message);
        }
        let settings = Some(&mut client.settings);
        Following::new(&mut server.session, settings, true).restored(sets);
        self.follow_client(at);
        // What it has said meanwhile may not even be read.
        self.again.push_back(Socket::Client(at));
    }

    /// Cleans a server that nobody has of what was left there. False if it is clean.
    pub(super) fn clean(&mut self, key: Key) -> bool {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let left = server.relay.left();
        if left.is_clean() && !server.session.is_lost() {
            return false;
        }
        let cleaning = Cleanup::of(&left, &server.session.settings);
        match &cleaning {
            Cleanup::Nothing => {
                // Only its client's settings were not known.
                server.session.discarded();
                return false;
            }
            Cleanup::Close => self.drop_server(key),
            Cleanup::Discard => self.discard(key),
            Cleanup::Batch(text) => {
                server.state = State::Cleanup;
                self.query(key, text);
            }
        }
        true
    }

    /// Lets a server forget its session.
    pub(super) fn discard(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        server.state = State::Discarding;
        self.query(key, b"DISCARD ALL");
    }

    /// True if a client keeps the server that it has, whatever its job.
    pub(super) fn stays(&self, server: &Server) -> bool {
        self.pools[server.pool].mode == Mode::Session || server.is_pinned()
    }

    /// Gives a client the settings that it begins with.
    pub(super) fn begin_settings(&mut self, key: Key, settings: Settings) {
        let client = self.clients.get_mut(key).expect("its caller has it");
        let Pool { known, parameters, .. } = &self.pools[client.pool];
        let known =
            parameters.as_ref().and_then(|told| known.of_beginner(&settings, told.as_slice()));
        client.settings = known.unwrap_or_else(|| Arc::new(settings));
    }

    /// What a client has begun with itself is what servers will make of that.
    pub(super) fn begin_as_told(&mut self, key: Key) {
        let Some(client::Client { settings, pool, .. }) = self.clients.get_mut(key) else { return };
        if settings.begun_with().next().is_some() {
            let settings = Arc::make_mut(settings);
            for (name, value) in self.pools[*pool].parameters.iter().flatten() {
                settings.begins(name, value);
            }
        }
    }

    /// A client is told what servers report: so it has it, but for what it has begun with itself.
    pub(super) fn greet_settings(&mut self, key: Key) {
        let Some(client::Client { settings, pool, .. }) = self.clients.get_mut(key) else { return };
        let pool = &mut self.pools[*pool];
        for (name, value) in pool.parameters.iter().flatten() {
            if settings.value(&name.to_ascii_lowercase()).is_none() {
                Arc::make_mut(settings).reported(name, value);
            }
        }
        pool.known.share(settings);
        self.follow_client(key);
    }
}
