//! Refusals: the message to clients that get no server for what they ask, and the fate of their
//! sessions. One that has begun and has nothing under way goes on, so that an overload makes nobody
//! come anew.

use gate::{Access, Reason};

use super::access_log::Ended;
use super::client;
use super::config::Mode;
use super::slab::{Key, Socket};
use super::state::Loop;
use pgwire::SqlState;
use pgwire::frame::HEAD;
use pgwire::message::{Report, Severity, read, write};
use pgwire::startup::Replication;

impl Loop {
    /// A client's job does not get a slot: it is told why, and how long it would have waited.
    pub(super) fn turn_away(&mut self, key: Key, reason: Reason) {
        self.note_end(key, Ended::Refused, Some(reason.name()));
        let client = self.clients.get_mut(key).expect("who waits is there");
        // Where a quota has refused it, what stood for its wait there is gone by now.
        let has_one = client.state.server().is_some_and(|at| self.servers.get(at).is_some());
        assert!(!has_one, "who is turned away has no server");
        // The gate knows nothing of the job any more.
        let waits_for_welcome = matches!(client.state, client::State::WaitingForWelcome(_));
        client.state = if waits_for_welcome {
            client::State::WaitingForWelcome(None)
        } else {
            client::State::Idle
        };
        let at = client.pool;
        let pool = &mut self.pools[at];
        let (sqlstate, message, counter) = match reason {
            Reason::Deadline if !pool.driver.has_primary() && client.access == Access::Write => (
                SqlState::CANNOT_CONNECT_NOW,
                "no server is there that takes writes",
                &mut pool.counters.refused_deadline,
            ),
            Reason::Unreachable => (
                SqlState::CANNOT_CONNECT_NOW,
                "no server can be reached",
                &mut pool.counters.refused_unreachable,
            ),
            Reason::Hopeless => (
                SqlState::TOO_MANY_CONNECTIONS,
                "no server would become free in time",
                &mut pool.counters.refused_hopeless,
            ),
            Reason::QueueFull => {
                let counter = &mut pool.counters.refused_queue_full;
                (SqlState::TOO_MANY_CONNECTIONS, "too many clients wait for a server", counter)
            }
            Reason::Deadline => {
                let counter = &mut pool.counters.refused_deadline;
                (SqlState::TOO_MANY_CONNECTIONS, "no server became free in time", counter)
            }
        };
        *counter += 1;
        // A full queue is no news of the servers: then the gate's own words say more.
        if matches!(reason, Reason::Deadline | Reason::Unreachable)
            && let Some(words) = self.pools[at].janitor.words()
        {
            if waits_for_welcome && self.pools[at].janitor.unavailable_at_once().is_some() {
                // It has asked for all who wait for the welcome.
                return self.refuse_waiting_for_welcome(at, &words);
            }
            return self.leave_unserved(key, &words);
        }
        let pool = &self.pools[at];
        let (slots, waiting) = (pool.driver.slots(), pool.driver.waiting());
        let wait = pool.driver.predicted_wait(self.now);
        let kept = self.kept(at);
        let detail = kept.detail(slots, waiting, wait);
        let report = Report {
            detail: Some(&detail),
            hint: Some(kept.hint()),
            ..Report::new(Severity::Error, sqlstate, message)
        };
        self.refuse_job(key, &report);
    }

    /// A client gets no server for what it asks, and is told this: as an error of its first message
    /// if its session goes on, else as what ends it.
    pub(super) fn refuse_job(&mut self, key: Key, report: &Report<'_>) {
        if !self.goes_on_unserved(key) {
            return self.fail_with(key, &Report { severity: Severity::Fatal, ..*report });
        }
        self.log_error(key, report.sqlstate, report.message);
        let mut words = Vec::new();
        write::error_response(&mut words, report);
        self.answer_unserved(key, words);
        // What it has sent behind that is here already: no edge will tell of it.
        self.again.push_back(Socket::Client(key));
    }

    /// The same where nobody gets in: `words` is the ErrorResponse that says why.
    pub(super) fn leave_unserved(&mut self, key: Key, words: &[u8]) {
        self.answer_or_end(key, words);
        self.again.push_back(Socket::Client(key));
    }

    /// The same by whoever goes on hearing the client itself.
    pub(super) fn answer_or_end(&mut self, key: Key, words: &[u8]) {
        let goes_on = self.goes_on_unserved(key);
        let fields = words.get(HEAD..).and_then(|body| read::fields(body).ok());
        match fields.filter(|_| goes_on) {
            Some(fields) => {
                // FATAL was said to the gate; to a client it would mean that its session is over.
                let mut milder = Vec::new();
                write::error_response_as(&mut milder, Severity::Error, &fields);
                self.answer_unserved(key, milder);
            }
            None => self.end_with(key, words),
        }
    }

    /// True if the session of a client that is not served has begun, and has nothing under way. In
    /// session mode it begins at its server, and a replication connection is one.
    pub(super) fn goes_on_unserved(&self, key: Key) -> bool {
        let Some(client) = self.clients.get(key) else { return false };
        let is_in = matches!(client.state, client::State::Idle | client::State::Waits(_));
        let is_own =
            self.pools[client.pool].mode == Mode::Session || client.replication != Replication::No;
        is_in && !is_own
    }

    /// Answers what a client has asked first with these words, which end a segment.
    fn answer_unserved(&mut self, key: Key, mut words: Vec<u8>) {
        let waits = self.clients.get(key).is_some_and(|client| client.state.job().is_some());
        // Who waits is answered where its wait was cancelled.
        match waits {
            true => self.note_end(key, Ended::Reneged, Some("cancelled")),
            false => self.note_end(key, Ended::Failed, None),
        }
        let client = self.clients.get_mut(key).expect("its caller has it");
        let state = std::mem::replace(&mut client.state, client::State::Idle);
        let is_in = matches!(state, client::State::Idle | client::State::Waits(_));
        assert!(is_in, "the session of others ends");
        (client.needs, client.since) = (0, self.now);
        let pool = client.pool;
        let refused =
            client.unlinked.refuse(&mut client.frames, client.connection.read(), &mut words);
        let bytes = *refused.as_ref().unwrap_or(&0);
        client.connection.take(bytes, &mut self.buffers);
        let counters = &mut self.pools[pool].counters;
        counters.received += bytes as u64;
        counters.sent += words.len() as u64;
        // Of a cancelled wait: who was refused by its gate has no job there.
        if let client::State::Waits(job) = state {
            self.renege(pool, job);
        }
        match refused {
            Err(error) => self.fail(key, error.sqlstate(), &error.to_string()),
            Ok(_) if self.say(key, &words).is_err() => self.close(key),
            Ok(_) => {}
        }
    }
}
