//! Cancel requests: each goes to the server that its client has now. Nobody else gets that server until
//! the request has arrived, and nothing else is asked of it: PostgreSQL signals twice, and the second
//! signal would hit what a client asks that was quick.

use subtle::ConstantTimeEq;

use super::backend::connect;
use super::client;
use super::connection::{Connection, End, Filled};
use super::deadlines::Deadline;
use super::negotiation::Negotiating;
use super::server;
use super::server_tls::Session;
use super::slab::{Key, Socket};
use super::state::Loop;
use pgwire::SqlState;
use pgwire::message::{Report, Severity};
use pgwire::startup::write_cancel;

/// Cancel requests that may be on their way to one server; more would say the same.
const CANCELS_MAX: u32 = 4;

/// A cancel request on its way to a server.
#[derive(Debug)]
pub(super) struct Cancel {
    pub(super) connection: Connection,
    /// To whom, and who asked; the gate itself, if nobody.
    pub(super) server: Key,
    pub(super) asker: Option<Key>,
    negotiation: Negotiating,
    request: Vec<u8>,
    deadline: Deadline,
}

/// Outcome of a cancel request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It has arrived, or never left.
    Settled,
    /// It may still arrive.
    Unknown,
}

impl Loop {
    /// Somebody wants a query cancelled. Nobody is told whether there was one.
    pub(super) fn cancel(&mut self, asker: Key, process: u32, secret: &[u8]) {
        let is_new = |client: &client::Client| matches!(client.state, client::State::Opening(_));
        assert!(self.clients.get(asker).is_some_and(is_new), "a cancel request is a first packet");
        if self.cancel_console(process, secret) {
            self.stats.cancels += 1;
            return self.close(asker);
        }
        if self.cancel_waiting(process, secret) {
            self.stats.cancels += 1;
            return self.close(asker);
        }
        let sent =
            self.target(process, secret).and_then(|server| self.send_cancel(Some(asker), server));
        match sent {
            Some(()) => {
                self.stats.cancels += 1;
                let client = self.clients.get_mut(asker).expect("its caller has it");
                client.state = client::State::Cancelling;
                self.logins.remove(&client.id);
                self.deadlines.clear(Socket::Client(asker), &mut client.deadline);
            }
            None => {
                // A client that is here is nowhere else, whatever the key says.
                if !self.processes.contains_key(&process)
                    && self.pass_cancel(asker, process, secret)
                {
                    return;
                }
                self.stats.cancels_ignored += 1;
                self.close(asker);
            }
        }
    }

    /// Cancels the wait of the client with this key, as a server would cancel its query. False if
    /// it does not wait for a slot. In session mode there is no session yet that could go on.
    fn cancel_waiting(&mut self, process: u32, secret: &[u8]) -> bool {
        let Some(&key) = self.processes.get(&process) else { return false };
        let Some(client) = self.clients.get(key) else { return false };
        let is_waiting = matches!(client.state, client::State::Waits(_));
        // In constant time, here and below: how long it takes tells nothing of the key.
        let fits = bool::from(client.secret().ct_eq(secret));
        if !is_waiting || !fits || !self.goes_on_unserved(key) {
            return false;
        }
        let message = "canceling statement due to user request";
        let report = Report::new(Severity::Error, SqlState::QUERY_CANCELED, message);
        self.refuse_job(key, &report);
        true
    }

    /// The server of the client with this key, if it has one and it works for it.
    pub(super) fn target(&self, process: u32, secret: &[u8]) -> Option<Key> {
        let client = self.clients.get(*self.processes.get(&process)?)?;
        if !bool::from(client.secret().ct_eq(secret)) {
            return None;
        }
        let client::State::Served(key) = client.state else { return None };
        let server = self.servers.get(key)?;
        // In any other state it works for the gate: a signal would fail that, and help nobody.
        let works = matches!(server.state, server::State::Serving);
        (works && server.cancels < CANCELS_MAX && !server.secret.is_empty()).then_some(key)
    }

    /// Sends a request to a server to cancel what it does; `None` if that cannot be.
    pub(super) fn send_cancel(&mut self, asker: Option<Key>, key: Key) -> Option<()> {
        let server = self.servers.get_mut(key)?;
        if server.cancels >= CANCELS_MAX || server.secret.is_empty() {
            return None;
        }
        let mut request = Vec::new();
        write_cancel(&mut request, server.process, &server.secret).ok()?;
        let database = &self.config.databases[self.pools[server.pool].database];
        let is_encrypted = server.connection.as_ref().is_some_and(Connection::is_encrypted);
        let session = if is_encrypted { Session::Encrypted } else { Session::Clear };
        let way = database.server_tls.same_way(&server.address, session)?;
        let mut connection = Connection::new(connect(&server.address).ok()?);
        let at = self.cancels.next_key();
        self.watchers.watch(&mut connection, Socket::Cancel(at)).ok()?;
        // From here on nobody else gets the server: nothing below fails.
        server.cancels += 1;
        let mut cancel = Cancel {
            connection,
            server: key,
            asker,
            negotiation: Negotiating::new(way),
            request,
            deadline: Deadline::default(),
        };
        let latest = self.now + self.config.timeouts.cancel;
        self.deadlines.set(Socket::Cancel(at), &mut cancel.deadline, latest);
        let placed = self.cancels.insert(cancel);
        assert_eq!(placed, at, "the system tells of it by this key");
        self.again.push_back(Socket::Cancel(at));
        Some(())
    }

    /// Something happened to a cancel request.
    pub(super) fn cancel_event(&mut self, key: Key) {
        let Some(cancel) = self.cancels.get_mut(key) else { return };
        if !cancel.request.is_empty() {
            match cancel.negotiation.advance(&mut cancel.connection, &mut self.buffers) {
                Ok(false) => return,
                Ok(true) => {}
                // Nothing has left yet.
                Err(_) => return self.end_cancel(key, Outcome::Settled),
            }
            let request = std::mem::take(&mut cancel.request);
            if cancel.connection.send(&request, &mut self.buffers).is_err() {
                return self.end_cancel(key, Outcome::Settled);
            }
        }
        // A server says nothing to it, but closes when the signal is given.
        if cancel.connection.flush(&mut self.buffers).is_err() {
            return self.end_cancel(key, Outcome::Settled);
        }
        loop {
            match cancel.connection.fill(&mut self.buffers) {
                Filled::Bytes(bytes) => cancel.connection.take(bytes, &mut self.buffers),
                Filled::Nothing | Filled::NoRoom => return,
                Filled::Ended(End::Closed) => return self.end_cancel(key, Outcome::Settled),
                // A server closes it in order. Whatever has reset it may have passed the request on.
                Filled::Ended(End::Broken) => return self.end_cancel(key, Outcome::Unknown),
            }
        }
    }

    /// A cancel request takes too long.
    pub(super) fn cancel_late(&mut self, key: Key) {
        self.end_cancel(key, Outcome::Unknown);
    }

    fn end_cancel(&mut self, key: Key, outcome: Outcome) {
        let Some(mut cancel) = self.cancels.remove(key) else { return };
        self.deadlines.clear(Socket::Cancel(key), &mut cancel.deadline);
        cancel.connection.close(&mut self.buffers);
        if let Some(asker) = cancel.asker {
            self.close(asker);
        }
        let Some(server) = self.servers.get_mut(cancel.server) else { return };
        let left = server.cancels.checked_sub(1);
        server.cancels = left.expect("it was counted when it was sent");
        // PostgreSQL may take it up at any time: only the end of the session is sure to be behind that.
        server.tainted |= outcome == Outcome::Unknown;
        if server.cancels > 0 {
            return;
        }
        match (&server.state, server.client) {
            (server::State::BeingCancelled, _) => self.give_back(cancel.server),
            // What it says next may have waited for this.
            (_, Some(client)) => self.again.push_back(Socket::Client(client)),
            _ => {}
        }
    }
}
