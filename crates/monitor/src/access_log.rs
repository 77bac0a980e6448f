//! The access log: one JSON object a line for each job that has ended, whatever became of it. A job is a
//! transaction, a session or a statement, as its pool has it.

use std::net::IpAddr;

use gate::Time;
use linelog::{Log, json};
use serde::Serialize;

use super::client::Client;
use super::config::{AccessLog, Mode, StartError};
use super::listen::Peer;
use super::slab::Key;
use super::state::Loop;
use pgwire::SqlState;

/// Course of a client's job, as far as it has come.
#[derive(Debug)]
pub(super) struct Course {
    arrived: Time,
    class: u32,
    /// When it got its slot, and at which of its pool's servers.
    started: Option<(Time, u32)>,
    pub(super) queries: u64,
    /// From the client, and to it, while it had its slot \[B\].
    pub(super) received: u64,
    pub(super) sent: u64,
}

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ended {
    /// The client has all that it asked for, errors of its server included.
    Served,
    /// The gate turned it away.
    Refused,
    /// The client left, or had it cancelled, while it waited.
    Reneged,
    /// The client was told an error of the gate, or of a server that let nobody in.
    Failed,
    /// The client left while it was served.
    ClientLost,
    /// The gate ended before it did.
    Cut,
}

/// A line. Times are in seconds, sizes in bytes, and names say so.
#[derive(Serialize)]
struct Line<'l> {
    time: String,
    /// None of the network, where it came by a socket of the file system.
    client: Option<IpAddr>,
    /// By which its end is named in the log of events.
    client_process: u32,
    user: &'l str,
    database: &'l str,
    class: &'l str,
    outcome: Ended,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    server: Option<String>,
    wait_s: Option<f64>,
    hold_s: Option<f64>,
    response_s: f64,
    queries: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

/// Opens the log; one that keeps nothing, if there is to be none.
///
/// # Errors
/// If the file cannot be written, or the system has no thread left.
pub(super) fn open(log: Option<&AccessLog>) -> Result<Log, StartError> {
    match log {
        None => Ok(Log::default()),
        Some(AccessLog::Output) => Log::to(std::io::stdout(), json::lost).map_err(StartError::Loop),
        Some(AccessLog::File(path)) => Log::to_file(path, json::lost)
            .map_err(|source| StartError::AccessLog { path: path.clone(), source }),
    }
}

impl Loop {
    /// A client's job arrives, or comes back to its gate because its server could not be had.
    pub(super) fn note_arrival(&mut self, key: Key, arrived: Time, class: u32) {
        if !self.access_log.is_kept() {
            return;
        }
        let Some(client) = self.clients.get_mut(key) else { return };
        // One that asks on behalf of all has no job of its own yet.
        if matches!(client.state, super::client::State::WaitingForWelcome(_)) {
            return;
        }
        let course = client.course.get_or_insert_with(|| {
            Box::new(Course { arrived, class, started: None, queries: 0, received: 0, sent: 0 })
        });
        course.started = None;
    }

    /// A client's job has its slot at this place, or the last of those that it needs.
    pub(super) fn note_start(&mut self, key: Key, place: u32) {
        let now = self.now;
        if let Some(course) = self.clients.get_mut(key).and_then(|client| client.course.as_mut()) {
            course.started = Some((now, place));
        }
    }

    /// Writes the line of a client's job, unless its end is written already.
    pub(super) fn note_end(&mut self, key: Key, outcome: Ended, reason: Option<&str>) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Some(course) = client.course.take() else { return };
        let Some(client) = self.clients.get(key) else { return };
        let pool = &self.pools[client.pool];
        let user = String::from_utf8_lossy(&pool.user);
        let class = &self.config.classes.list()[course.class as usize].name;
        let started = course.started.filter(|_| outcome != Ended::Refused);
        let server = started.and_then(|(_, place)| pool.addresses.get(place as usize));
        let line = Line {
            time: json::time(self.calendar(course.arrived)),
            client: match client.peer {
                Peer::Local => None,
                Peer::Network(address) => Some(address.ip().to_canonical()),
            },
            client_process: client.process,
            user: &user,
            database: &self.config.databases[pool.database].name,
            class,
            outcome,
            reason: reason.map(str::to_owned),
            server: server.map(ToString::to_string),
            wait_s: started.map(|(at, _)| json::seconds(at.since(course.arrived))),
            hold_s: started.map(|(at, _)| json::seconds(self.now.since(at))),
            response_s: json::seconds(self.now.since(course.arrived)),
            queries: course.queries,
            received_bytes: course.received,
            sent_bytes: course.sent,
        };
        let line = serde_json::to_string(&line).expect("texts and numbers are always JSON");
        self.access_log.line(line);
    }

    /// Writes the line of the job of a client that goes, as far as it has one.
    pub(super) fn note_leave(&mut self, key: Key) {
        let Some(client) = self.clients.get(key).filter(|client| client.course.is_some()) else {
            return;
        };
        let is_session = self.pools[client.pool].mode == Mode::Session;
        let (outcome, reason) = end_of(client, is_session);
        self.note_end(key, outcome, reason.as_deref());
    }
}

/// End of the job of a client that goes.
fn end_of(client: &Client, is_session: bool) -> (Ended, Option<String>) {
    match client.ended_with {
        Some(SqlState::ADMIN_SHUTDOWN) => (Ended::Cut, None),
        Some(sqlstate) => (Ended::Failed, Some(sqlstate.to_string())),
        None if client.state.job().is_some() => (Ended::Reneged, None),
        None if client.state.server().is_none() => (Ended::Failed, None),
        // The session is the job, and its client ends it.
        None if is_session => (Ended::Served, None),
        None => (Ended::ClientLost, None),
    }
}
