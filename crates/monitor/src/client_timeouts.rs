//! Clients that take too long: a query, a transaction, silence; and those that are told that they wait.

use std::sync::Arc;
use std::time::Duration;

use super::client::{self, Client};
use super::config::{ClientTimeouts, Config};
use super::server::{Server, State};
use super::slab::Key;
use super::state::Loop;
use pgsession::pipeline::{Kept, Turn};
use pgwire::SqlState;
use pgwire::message::{Report, Severity, write};
use pgwire::startup::Replication;

/// The time limits of all clients.
#[derive(Debug, Default)]
pub(super) struct ClientTimeoutsByUser {
    usual: Arc<ClientTimeouts>,
    /// Of users who have their own.
    own: Vec<(Vec<u8>, Arc<ClientTimeouts>)>,
    /// True if anybody has a limit with a server, and without one.
    served: bool,
    idle: bool,
}

impl ClientTimeoutsByUser {
    pub(super) fn new(config: &Config) -> ClientTimeoutsByUser {
        let usual = config.timeouts.client_timeouts();
        let own = config.terms.iter().filter_map(|(user, terms)| {
            terms.client_timeouts.map(|client_timeouts| (user.clone(), Arc::new(client_timeouts)))
        });
        let mut own: Vec<(Vec<u8>, Arc<ClientTimeouts>)> = own.collect();
        own.sort_by(|a, b| a.0.cmp(&b.0));
        let any = |ends: fn(&ClientTimeouts) -> bool| {
            ends(&usual) || own.iter().any(|(_, client_timeouts)| ends(client_timeouts))
        };
        ClientTimeoutsByUser {
            served: any(|one| one.query.or(one.transaction).or(one.idle_transaction).is_some()),
            idle: any(|one| one.client_idle.is_some()),
            usual: Arc::new(usual),
            own,
        }
    }

    /// That of a user.
    pub(super) fn of(&self, user: &[u8]) -> Arc<ClientTimeouts> {
        match self.own.binary_search_by(|(name, _)| name[..].cmp(user)) {
            Ok(at) => Arc::clone(&self.own[at].1),
            Err(_) => Arc::clone(&self.usual),
        }
    }
}

/// The limit that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    Query,
    Transaction,
    IdleTransaction,
    Stalled,
}

impl Late {
    /// The error that its client hears.
    fn words(self) -> (SqlState, &'static str) {
        match self {
            Late::Query => {
                (SqlState::QUERY_CANCELED, "canceling statement due to query timeout of the gate")
            }
            Late::Transaction => {
                (SqlState::TRANSACTION_TIMEOUT, "terminating connection due to transaction timeout")
            }
            Late::Stalled => (
                SqlState::CONNECTION_FAILURE,
                "terminating connection because the client has stopped reading its results",
            ),
            Late::IdleTransaction => (
                SqlState::IDLE_TRANSACTION,
                "terminating connection due to idle-in-transaction timeout",
            ),
        }
    }
}

impl Loop {
    /// Ends the sessions of clients that take longer than they may, and tells those that wait.
    pub(super) fn sweep_clients(&mut self) {
        if self.client_timeouts.served {
            let late = |(key, server): (Key, &Server)| {
                let client = server.client?;
                let client_timeouts = &self.clients.get(client)?.timeouts;
                self.is_late(server, client_timeouts).map(|late| (key, client, late))
            };
            let all: Vec<(Key, Key, Late)> = self.servers.iter().filter_map(late).collect();
            for (server, client, late) in all {
                self.end_late(server, client, late);
            }
        }
        self.sweep_stalled();
        if self.client_timeouts.idle {
            let is_old = |client: &Client| {
                matches!(client.state, client::State::Idle)
                    && is_over(client.timeouts.client_idle, self.now.since(client.since))
            };
            let clients = self.clients.iter().filter(|(_, client)| is_old(client));
            let old: Vec<Key> = clients.map(|(key, _)| key).collect();
            for key in old {
                let message = "terminating connection due to idle-session timeout";
                self.fail(key, SqlState::IDLE_SESSION, message);
            }
        }
        self.tell_waiting();
    }

    fn is_late(&self, server: &Server, client_timeouts: &ClientTimeouts) -> Option<Late> {
        if !matches!(server.state, State::Serving) || server.replication != Replication::No {
            return None;
        }
        let turn = server.relay.turn();
        let lasts = |since: Option<gate::Time>| since.map(|since| self.now.since(since));
        let over = |most, time: Option<Duration>| time.is_some_and(|time| is_over(most, time));
        if turn == Turn::Server && over(client_timeouts.query, lasts(server.query_since)) {
            return Some(Late::Query);
        }
        // Whoever keeps its server has no transaction for that; else something is under way.
        let is_open = !self.stays(server) || server.relay.kept().is_some();
        if is_open && over(client_timeouts.transaction, lasts(server.xact_since)) {
            return Some(Late::Transaction);
        }
        let silent = self.now.since(server.active);
        let is_idle =
            turn == Turn::Client && is_open && is_over(client_timeouts.idle_transaction, silent);
        is_idle.then_some(Late::IdleTransaction)
    }

    /// Ends a session; what its server still does for it is cancelled.
    fn end_late(&mut self, server: Key, client: Key, late: Late) {
        let works = self.servers.get(server).is_some_and(|one| one.relay.turn() == Turn::Server);
        if works && self.send_cancel(None, server).is_some() {
            self.stats.cancels += 1;
        }
        let (sqlstate, message) = late.words();
        if self.servers.get(server).is_some_and(|one| one.relay.kept() == Some(Kept::Message)) {
            // Within a row there is no place for words.
            self.log_error(client, sqlstate, message);
            return self.close(client);
        }
        self.fail(client, sqlstate, message);
    }

    /// Ends the sessions of clients that hold a server and have stopped reading.
    fn sweep_stalled(&mut self) {
        let Some(most) = self.config.timeouts.stalled else { return };
        let mut late = Vec::new();
        for (key, server) in self.servers.iter() {
            let Some(at) = server.client else { continue };
            let Some(client) = self.clients.get_mut(at) else { continue };
            if !client.connection.is_blocked() {
                client.stalled = None;
                continue;
            }
            let written = client.connection.written();
            let (before, since) = *client.stalled.get_or_insert((written, self.now));
            if before != written {
                client.stalled = Some((written, self.now));
            } else if self.now.since(since) > most {
                late.push((key, at));
            }
        }
        for (server, client) in late {
            self.end_late(server, client, Late::Stalled);
        }
    }

    /// Tells clients by a notice that have waited for so long that they wait.
    fn tell_waiting(&mut self) {
        let Some(after) = self.config.timeouts.wait_notice else { return };
        if self.pools.iter().all(|pool| pool.driver.waiting() == 0) {
            return;
        }
        let waits = |client: &Client| {
            matches!(client.state, client::State::Waits(_))
                && client.told != client.since
                && self.now.since(client.since) > after
        };
        let clients = self.clients.iter().filter(|(_, client)| waits(client));
        let untold: Vec<Key> = clients.map(|(key, _)| key).collect();
        let message = "all server connections are busy: the query waits for one";
        let report = Report::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        let mut out = Vec::new();
        write::notice_response(&mut out, &report);
        for key in untold {
            let client = self.clients.get_mut(key).expect("it was there above");
            client.told = client.since;
            if self.say(key, &out).is_err() {
                self.close(key);
            }
        }
    }
}

fn is_over(most: Option<Duration>, time: Duration) -> bool {
    most.is_some_and(|most| time > most)
}
