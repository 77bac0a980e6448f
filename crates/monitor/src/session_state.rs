//! Session state that clients leave at servers: pins with their cost, and the clean-up before somebody
//! else has the server. The settings are followed by [`pgsession::session`] while bytes pass.

use std::sync::Arc;
use std::time::Duration;

use gate::Time;
use live::model::Work;

use super::client;
use super::config::Mode;
use super::connection::Buffers;
use super::pool::Pool;
use super::server::{Server, State};
use super::slab::{Key, Socket};
use super::state::Loop;
use super::stats::Pin;
use pgsession::pipeline::Kept;
use pgsession::session::{Following, write_untold};
use pgsession::sql::{Cleanup, EffectKind, Settings};
use pgwire::SqlState;

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

impl Loop {
    /// A server is not kept any more.
    pub(super) fn unpin(&mut self, key: Key) {
        // Each end of a job and of a connection comes here, kept or not.
        let Some(server) = self.servers.get_mut(key) else { return };
        if let Some(pinned) = server.pinned.take() {
            // How long it was kept says nothing of what it had to do.
            server.work = Work::Failed;
            // Whichever way its client went: what that has moved of sequences is none of the next one's.
            server.relay.parted();
            let pool = &mut self.pools[server.pool];
            pool.kept = pool.kept.checked_sub(1).expect("each pin is counted when it begins");
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
        // Statements are shared only among those whose texts mean the same.
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
        // Had it gone, the server would be at cleaning up behind it, and not at this.
        let at = server.client.expect("it has not gone");
        let client = self.clients.get_mut(at).expect("who has a server is there");
        debug_assert_eq!(client.state.server(), Some(key), "a server's client names it");
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
        let cleaning = Cleanup::of(&left, server.session.settings());
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
        assert!(server.client.is_none(), "nobody loses a session that is in use");
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
        // Shared with others from the first moment, they are told from a server's by their address alone.
        let known =
            parameters.as_ref().and_then(|told| known.of_beginner(&settings, told.as_slice()));
        client.settings = known.unwrap_or_else(|| Arc::new(settings));
    }

    /// What a client has begun with itself is what servers will make of that.
    pub(super) fn begin_as_told(&mut self, key: Key) {
        let Some(client::Client { settings, pool, .. }) = self.clients.get_mut(key) else { return };
        // Who begins with nothing goes on sharing what is the same for many.
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
