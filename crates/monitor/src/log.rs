//! The log: a line of `key=value` for each event, written by a thread of its own, so that a log
//! that cannot be written never holds up a client. What could not be written is counted, and said
//! as soon as something can be written again.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
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

/// Lines that wait to be written; those beyond are lost, and counted. They are three seconds' worth
/// at 5,000 lines a second.
const LINES_MAX: usize = 16 * 1024;
/// Lines that are there are written in one go, up to so many.
const BATCH_MAX: usize = 256;
/// A longer text is cut \[character\].
const TEXT_MAX: usize = 300;
/// Time for the last lines when the gate has ended.
const LAST: Duration = Duration::from_secs(1);

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

/// The way of lines to the log's thread.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
    /// The lines that wait, or are being written.
    unwritten: Arc<AtomicU64>,
    /// Told when the last line is written.
    ended: Option<Receiver<()>>,
}

impl Log {
    /// One that writes to `sink`, on a thread of its own.
    pub(super) fn to(sink: impl Write + Send + 'static) -> std::io::Result<Log> {
        let (lines, waiting) = mpsc::sync_channel(LINES_MAX);
        let (end, ended) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let unwritten = Arc::new(AtomicU64::new(0));
        let counts = (Arc::clone(&lost), Arc::clone(&unwritten));
        std::thread::Builder::new().name("log".into()).spawn(move || {
            write_all(&waiting, sink, &counts.0, &counts.1);
            // Whoever waited may have given up.
            let _ = end.send(());
        })?;
        Ok(Log { lines: Some(lines), lost, unwritten, ended: Some(ended) })
    }

    /// The lines that are lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn line(&self, line: Line) {
        let Some(lines) = &self.lines else { return };
        // Before it is there: it may be written at once.
        self.unwritten.fetch_add(1, Ordering::Relaxed);
        if lines.try_send(line.0 + "\n").is_err() {
            self.unwritten.fetch_sub(1, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the last lines a moment to be written.
    pub(super) fn end(&mut self) {
        self.end_within(LAST);
    }

    /// Ends the log. Lines that are not written by then are lost: the gate has ended all the same.
    fn end_within(&mut self, longest: Duration) {
        self.lines = None;
        if let Some(ended) = self.ended.take()
            && ended.recv_timeout(longest).is_err()
        {
            let unwritten = self.unwritten.load(Ordering::Relaxed);
            self.lost.fetch_add(unwritten, Ordering::Relaxed);
        }
    }
}

/// Writes what comes until nothing more can come.
fn write_all(
    lines: &Receiver<String>,
    mut sink: impl Write,
    lost: &AtomicU64,
    unwritten: &AtomicU64,
) {
    let mut told = 0;
    let lines_lost = |lost: u64| format!("{}\n", Line::new("lost").with("lines", lost).0);
    while let Ok(line) = lines.recv() {
        let now = lost.load(Ordering::Relaxed);
        let mut batch = if now > told { lines_lost(now - told) } else { String::new() };
        batch += &line;
        let mut count = 1;
        for line in lines.try_iter().take(BATCH_MAX - 1) {
            batch += &line;
            count += 1;
        }
        match sink.write_all(batch.as_bytes()).and_then(|()| sink.flush()) {
            Ok(()) => told = now,
            Err(_) => {
                lost.fetch_add(count, Ordering::Relaxed);
            }
        }
        unwritten.fetch_sub(count, Ordering::Relaxed);
    }
    let now = lost.load(Ordering::Relaxed);
    if now > told {
        // Nobody is left to be told that this is lost as well.
        let _ = sink.write_all(lines_lost(now - told).as_bytes()).and_then(|()| sink.flush());
    }
}

/// A line of the log.
pub(super) struct Line(String);

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
    use std::sync::Mutex;

    use super::*;

    /// A sink that is full as long as it is told so.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(bool, String)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            if disk.0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            disk.1 += std::str::from_utf8(bytes).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_has_lost_is_counted_and_told() {
        let disk = Disk::default();
        disk.0.lock().unwrap().0 = true;
        let mut log = Log::to(disk.clone()).unwrap();
        log.line(Line::new("one"));
        log.line(Line::new("two"));
        while log.lost() < 2 {
            std::thread::yield_now();
        }
        disk.0.lock().unwrap().0 = false;
        log.line(Line::new("three").text("user", "a \"b\"\nc").text("database", "x-1"));
        log.end();
        let written = disk.0.lock().unwrap().1.clone();
        let lines: Vec<&str> =
            written.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(lines, ["event=lost lines=2", r#"event=three user="a \"b\"\nc" database=x-1"#]);
        assert_eq!(log.lost(), 2);
    }

    /// Three seconds without a write at 5,000 lines a second.
    #[test]
    fn a_burst_waits_until_it_can_be_written() {
        struct Slow(Receiver<()>, Arc<Mutex<(usize, usize)>>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                // Until the burst is over.
                let _ = self.0.recv();
                let mut written = self.1.lock().unwrap();
                written.0 += 1;
                written.1 += bytes.iter().filter(|byte| **byte == b'\n').count();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (release, held) = mpsc::channel();
        let written = Arc::new(Mutex::new((0, 0)));
        let log = Log::to(Slow(held, Arc::clone(&written))).unwrap();
        (0..15_000).for_each(|_| log.line(Line::new("many")));
        assert_eq!(log.lost(), 0);
        drop(release);
        while written.lock().unwrap().1 < 15_000 {
            std::thread::yield_now();
        }
        let writes = written.lock().unwrap().0;
        assert!(writes <= 15_000 / BATCH_MAX + 2, "{writes}");
    }

    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        struct Stuck(Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                // Until the test ends.
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (release, stuck) = mpsc::channel();
        let mut log = Log::to(Stuck(stuck)).unwrap();
        (0..3 * LINES_MAX).for_each(|_| log.line(Line::new("many")));
        assert!(log.lost() >= (2 * LINES_MAX - BATCH_MAX) as u64, "{}", log.lost());
        // The others have waited in vain as well.
        log.end_within(Duration::ZERO);
        assert_eq!(log.lost(), 3 * LINES_MAX as u64);
        drop(release);
    }
}
