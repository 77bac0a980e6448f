//! The log: a line of `key=value` for each event. The crate `linelog` writes them, so that a log that
//! cannot be written never holds up a client.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use gate::Time;

use super::client::Client;
use super::listen::Peer;
use super::slab::Key;
use super::state::Loop;
use super::stats::PoolStats;
use pgwire::SqlState;
use pgwire::message::read;
use pgwire::secrets::Transport;

/// A longer text is cut \[character\].
const TEXT_MAX: usize = 300;

/// The kinds of events that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Logins.
    pub connections: bool,
    /// Ends of sessions, with the reason.
    pub disconnections: bool,
    /// Errors that clients are told, and servers that cannot be reached.
    pub errors: bool,
    /// Interval of the lines of figures, if there are any.
    pub stats: Option<Duration>,
}

/// The line that tells how many are lost.
pub(super) fn lost(lines: u64) -> String {
    Line::new("lost").with("lines", lines).0
}

/// A line of the log.
pub(super) struct Line(String);

impl From<Line> for String {
    fn from(line: Line) -> String {
        line.0
    }
}

impl Line {
    /// One of this event, now.
    pub(super) fn new(event: &str) -> Line {
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        Line(format!("{now} event={event}"))
    }

    /// With a value that is no text.
    pub(super) fn with(mut self, key: &str, value: impl fmt::Display) -> Line {
        let _ = write!(self.0, " {key}={value}");
        self
    }

    /// With a text, quoted where it must be.
    pub(super) fn text(mut self, key: &str, text: &str) -> Line {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/*@[]".contains(c);
        let cut: String = text.chars().take(TEXT_MAX).collect();
        let _ = if !cut.is_empty() && cut.chars().all(plain) {
            write!(self.0, " {key}={cut}")
        } else {
            write!(self.0, " {key}={cut:?}")
        };
        self
    }
}

/// The figures of the last line of figures.
#[derive(Debug, Default)]
pub(super) struct Figures {
    due: Time,
    totals: Totals,
}

/// Figures of all pools together.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    transactions: u64,
    queries: u64,
    received: u64,
    sent: u64,
    refused: u64,
    waited: Duration,
}

impl Totals {
    fn add(mut self, pool: &PoolStats) -> Totals {
        let one = &pool.counters;
        self.transactions += one.xact_count;
        self.queries += one.query_count;
        self.received += one.received;
        self.sent += one.sent;
        self.refused += one.refused();
        self.waited += one.wait_time;
        self
    }
}

impl Loop {
    /// A client has got in.
    pub(super) fn log_login(&self, key: Key) {
        if self.config.logged.connections {
            self.log.line(self.about("login", key));
        }
    }

    /// A client that was in has gone.
    pub(super) fn log_end(&self, client: &Client) {
        if self.config.logged.disconnections && client.user.is_some() {
            let reason = match client.ended_with {
                Some(sqlstate) => sqlstate.to_string(),
                None => "left".into(),
            };
            let lasted = self.now.since(client.entered).as_secs_f64();
            let line = self.line_of("end", client).text("reason", &reason);
            self.log.line(line.with("seconds", format_args!("{lasted:.3}")));
        }
    }

    /// A client that was in goes on with another process.
    pub(super) fn log_handed(&self, client: &Client) {
        if self.config.logged.disconnections {
            let lasted = self.now.since(client.entered).as_secs_f64();
            let line = self.line_of("end", client).text("reason", "handed over");
            self.log.line(line.with("seconds", format_args!("{lasted:.3}")));
        }
    }

    /// A client is told an error of the gate's own.
    pub(super) fn log_error(&self, key: Key, sqlstate: SqlState, message: &str) {
        if self.config.logged.errors {
            let line = self.about("error", key).with("sqlstate", sqlstate);
            self.log.line(line.text("message", message));
        }
    }

    /// A connection to a server could not be made; `words` is what its client hears.
    pub(super) fn log_unmade(&self, server: &str, words: &[u8]) {
        if self.config.logged.errors {
            let fields = words.get(5..).and_then(|body| read::fields(body).ok());
            let field = |kind| {
                let text = fields.as_ref().and_then(|fields| fields.field(kind));
                String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
            };
            let line = Line::new("unreachable").text("server", server);
            self.log.line(line.text("sqlstate", &field(b'C')).text("message", &field(b'M')));
        }
    }

    fn about(&self, event: &str, key: Key) -> Line {
        match self.clients.get(key) {
            Some(client) => self.line_of(event, client),
            None => Line::new(event),
        }
    }

    fn line_of(&self, event: &str, client: &Client) -> Line {
        let mut line = Line::new(event);
        if let Some(user) = &client.user {
            let database = &self.config.databases[self.pools[client.pool].database].name;
            line = line.with("client", client.process).text("user", &String::from_utf8_lossy(user));
            line = line.text("database", database);
        }
        line = match client.peer {
            Peer::Local => line.with("from", "local"),
            Peer::Network(address) => line.with("from", address),
        };
        line.with("tls", if client.transport == Transport::Tls { "yes" } else { "no" })
    }

    /// Writes the line of figures, where one is due.
    pub(super) fn log_figures(&mut self) {
        let Some(period) = self.config.logged.stats else { return };
        if self.now < self.figures.due {
            return;
        }
        let first = self.figures.due == Time::ZERO;
        self.figures.due = self.now + period;
        let stats = self.snapshot();
        let now = stats.pools.iter().fold(Totals::default(), Totals::add);
        let before = std::mem::replace(&mut self.figures.totals, now);
        if first {
            return;
        }
        let sum = |of: fn(&PoolStats) -> u64| stats.pools.iter().map(of).sum::<u64>();
        // A pool may have been taken away, and its counts with it.
        let more = |of: fn(&Totals) -> u64| of(&now).saturating_sub(of(&before));
        let waited = now.waited.saturating_sub(before.waited).as_secs_f64();
        let line = Line::new("stats")
            .with("clients", stats.clients)
            .with("waiting", sum(|pool| pool.waiting))
            .with("busy", sum(|pool| pool.busy.into()))
            .with("servers", sum(|pool| pool.servers as u64))
            .with("transactions", more(|one| one.transactions))
            .with("queries", more(|one| one.queries))
            .with("received", more(|one| one.received))
            .with("sent", more(|one| one.sent))
            .with("refused", more(|one| one.refused))
            .with("waited", format_args!("{waited:.6}"));
        self.log.line(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_where_they_must_be() {
        let line = Line::new("three").text("user", "a \"b\"\nc").text("database", "x-1").0;
        let (_, line) = line.split_once(' ').unwrap();
        assert_eq!(line, r#"event=three user="a \"b\"\nc" database=x-1"#);
        assert!(lost(2).ends_with(" event=lost lines=2"));
    }
}
