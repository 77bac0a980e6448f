//! Meeting of the parts of a run: at an address of part 1, to which the others connect. When all are there,
//! part 1 lays down the start by its clock, to which each of the others measures its own.
//!
//! The words are lines of JSON, each of them bounded. A part is there as long as its connection is open, so
//! that one that was killed is missing at once. Part 1 listens only while the parts meet: one that comes too
//! early or too late finds nobody, and asks again until its patience is over.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use measure::parts::{difference, named};
use measure::{Difference, PartRecord, RunHeader, RunPart};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Interval between a part's looks for the others.
const LOOK: Duration = Duration::from_millis(50);
/// Time in which somebody who has connected must say who he is.
const GREETING_MAX: Duration = Duration::from_secs(2);
/// Lead with which the start is laid down: all parts must have seen it and read the clock by then.
const LEAD: Duration = Duration::from_millis(1_500);
/// Number of readings of the clock; the shortest round trip counts.
const READINGS: u32 = 15;
/// Longest line \[bytes\]: it holds the names of 2,000 classes.
const LINE_MAX: usize = 4 << 20;
/// The most connections at once, beyond which nobody is listened to.
const GUESTS_MAX: usize = 1_024;
/// Version of the words.
const VERSION: u32 = 2;

/// A part that is to meet the others.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// The part, and the number of parts.
    pub part: RunPart,
    /// Address at which part 1 listens and to which the others connect; the first that works counts.
    pub addresses: Vec<SocketAddr>,
    /// The time limit of its wait for the others.
    pub patience: Duration,
}

/// Why the parts of a run did not meet.
#[derive(Debug, Error)]
pub enum MeetError {
    /// Part 1 cannot listen.
    #[error(
        "part 1 cannot listen at {address}: {error}; name an address of its machine with a free port, \
         and the same one in all parts"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Some did not come.
    #[error(
        "{} of {of} did not come within {patience:?}{}; start each part with the same arguments, and \
         wait for it longer if need be", named(numbers), turned_away(.refused)
    )]
    Missing {
        /// The parts that are missing.
        numbers: Vec<u32>,
        /// The number of parts.
        of: u32,
        /// The time that they were waited for.
        patience: Duration,
        /// The last one that came with another plan.
        refused: Option<Box<Difference>>,
    },
    /// Part 1 is not there.
    #[error(
        "part 1 was not found at {address} within {patience:?} ({error}); start it with the same \
         arguments, and see whether its machine can be reached at this address"
    )]
    NoHost {
        /// The address.
        address: SocketAddr,
        /// The time that it was looked for.
        patience: Duration,
        /// The last failure.
        error: io::Error,
    },
    /// Somebody else is there.
    #[error(
        "whoever listens at {0} is no part 1 of a run of this version: {1}; name the address at which \
         part 1 listens, and give all parts one version"
    )]
    Stranger(
        /// The address.
        SocketAddr,
        /// The beginning of the answer, or the fault in it.
        String,
    ),
    /// Part 1 has gone before the start.
    #[error("part 1 has gone before the start: see there why; then start all parts again")]
    Gone,
    /// Part 1 waits to run another plan.
    #[error(
        "part {} waits for another plan: its {} is {}, and here it is {}; start all parts with the \
         same arguments", .0.part, .0.what, .0.there, .0.here
    )]
    Differs(Box<Difference>),
    /// The same part is there.
    #[error(
        "part {number} is there already; each part runs once, so end that one or be another part"
    )]
    Twice {
        /// The part.
        number: u32,
    },
    /// The user did not want to wait.
    #[error("interrupted before the other parts had come")]
    Interrupted,
}

fn turned_away(refused: &Option<Box<Difference>>) -> String {
    refused.as_ref().map_or_else(String::new, |found| {
        format!(
            ": part {} came with another plan, its {} is {} and here it is {}",
            found.part, found.what, found.there, found.here
        )
    })
}

/// The start that all parts have agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// When it is, by this machine's clock.
    pub at: Instant,
    /// The record that is kept of it.
    pub record: PartRecord,
}

impl Start {
    /// Waits for the start; the moment that all times of this part count from, which is the start itself, so
    /// that a part that is late shows it as lag.
    ///
    /// # Errors
    /// If it is interrupted.
    pub fn wait(self, interrupt: &AtomicBool) -> Result<(Instant, PartRecord), MeetError> {
        while let Some(left) = self.at.checked_duration_since(Instant::now()) {
            if interrupt.load(Ordering::Relaxed) {
                return Err(MeetError::Interrupted);
            }
            thread::sleep(left.min(LOOK));
        }
        let late_s = self.at.elapsed().as_secs_f64();
        Ok((self.at, PartRecord { late_s, ..self.record }))
    }
}

/// A part that meets the others before its run begins.
pub struct Attendance<'a> {
    /// The meeting.
    pub meeting: &'a Meeting,
    /// Told again and again which parts are missing.
    pub waits: &'a mut dyn FnMut(&[u32]),
}

impl fmt::Debug for Attendance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendance").field("meeting", self.meeting).finish_non_exhaustive()
    }
}

impl Attendance<'_> {
    /// Meets the others and waits for the start; the moment that all times count from.
    ///
    /// # Errors
    /// As [`Meeting::attend`].
    pub fn begin(
        self,
        header: &RunHeader,
        interrupt: &AtomicBool,
    ) -> Result<(Instant, PartRecord), MeetError> {
        let told = told(self.meeting.part, header);
        self.meeting.attend(&told, interrupt, self.waits)?.wait(interrupt)
    }
}

/// The facts of a plan, and of those who run it, as parts tell them each other.
pub(crate) fn told(part: RunPart, header: &RunHeader) -> Vec<String> {
    let parts = ("number of parts".to_owned(), part.of().to_string());
    let facts = [parts].into_iter().chain(header.facts());
    facts.map(|(name, value)| format!("{name}: {value}")).collect()
}

impl Meeting {
    /// Waits for the other parts, and says when all start; `plan` are the facts that all must
    /// tell alike, and `waits` is told again and again who is missing.
    ///
    /// # Errors
    /// If a part is missing, has another plan, or is there already; if it is interrupted.
    pub fn attend(
        &self,
        plan: &[String],
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<Start, MeetError> {
        match self.part.number() {
            1 => self.host(plan, Lines::Ended, interrupt, waits).map(|(start, _)| start),
            _ => self.visit(plan, interrupt, waits, &|line, start_us| {
                let mut line = line;
                self.read_clock(&mut line, start_us)
            }),
        }
    }

    /// Part 1 waits for the other parts as [`attend`](Meeting::attend) does, and keeps the connection of each.
    pub(crate) fn gather(
        &self,
        plan: &[String],
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<(Clock, BTreeMap<u32, Line>), MeetError> {
        let (_, gathered) = self.host(plan, Lines::Kept, interrupt, waits)?;
        let (clock, lines) = gathered;
        let gone = (2..=self.part.of()).filter(|number| !lines.contains_key(number));
        let numbers: Vec<u32> = gone.collect();
        if !numbers.is_empty() {
            let (of, patience) = (self.part.of(), self.patience);
            return Err(MeetError::Missing { numbers, of, patience, refused: None });
        }
        Ok((clock, lines))
    }

    /// Another part waits as [`attend`](Meeting::attend) does, and keeps its connection to part 1.
    pub(crate) fn join(
        &self,
        plan: &[String],
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<Line, MeetError> {
        self.visit(plan, interrupt, waits, &|line, _| Ok(line))
    }
}

/// Connections of a meeting after the start has been laid down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// They end when all have read the clock.
    Ended,
    /// They are kept, and the words on them are others from then on.
    Kept,
}

/// The clock of part 1, and the connections that were kept.
type Gathered = (Clock, BTreeMap<u32, Line>);

/// Bounds of a part's wait for the others.
struct Patience<'a> {
    deadline: Instant,
    interrupt: &'a AtomicBool,
    waits: &'a mut dyn FnMut(&[u32]),
}

/// Those who have come to part 1, and its decisions. Pure.
#[derive(Debug)]
struct Table {
    part: RunPart,
    plan: Vec<String>,
    /// The parts that are there beside part 1, each with the number of its connection.
    present: BTreeMap<u32, u64>,
    start_us: Option<i64>,
    refused: Option<Difference>,
}

/// Answer to a part that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Welcome,
    Differs(Difference),
    Twice,
}

impl Table {
    fn new(part: RunPart, plan: &[String]) -> Table {
        let (present, plan) = (BTreeMap::new(), plan.to_vec());
        Table { part, plan, present, start_us: None, refused: None }
    }

    /// A part comes on a connection. Who has another plan does not enter.
    fn enter(&mut self, number: u32, plan: &[String], connection: u64) -> Entry {
        if let Some(found) = difference(number, plan, &self.plan) {
            let Difference { part: _, what, there, here } = found.clone();
            self.refused = Some(found);
            // Seen from the other side.
            return Entry::Differs(Difference { part: 1, what, there: here, here: there });
        }
        if number <= 1 || number > self.part.of() || self.present.contains_key(&number) {
            return Entry::Twice;
        }
        self.present.insert(number, connection);
        Entry::Welcome
    }

    /// A connection is closed. After the start has been laid down it does not matter any more.
    fn leave(&mut self, connection: u64) {
        if self.start_us.is_none() {
            self.present.retain(|_, own| *own != connection);
        }
    }

    fn missing(&self) -> Vec<u32> {
        (2..=self.part.of()).filter(|number| !self.present.contains_key(number)).collect()
    }

    /// The start, laid down as soon as nobody is missing.
    fn start(&mut self, now_us: i64) -> Option<i64> {
        if self.start_us.is_none() && self.missing().is_empty() {
            self.start_us = Some(now_us + LEAD.as_micros() as i64);
        }
        self.start_us
    }
}

/// Word of a part that comes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Guest {
    Part {
        version: u32,
        number: u32,
        plan: Vec<String>,
    },
    /// It asks for the time.
    Clock,
}

/// Word of part 1.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Host {
    /// These are missing.
    Waits(Vec<u32>),
    Differs(Difference),
    Twice,
    /// The start \[us since 1970\], by the clock of part 1.
    Start(i64),
    /// The time \[us since 1970\], by the clock of part 1.
    Clock(i64),
}

/// A clock that does not jump: the moment at which it was made, as the system's clock has it, and what has
/// gone by since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    made: Instant,
    made_us: i64,
}

impl Clock {
    fn new() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { made: Instant::now(), made_us: since.as_micros() as i64 }
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.made_us + self.made.elapsed().as_micros() as i64
    }

    pub(crate) fn at(&self, us: i64) -> Instant {
        self.made + Duration::from_micros((us - self.made_us).max(0) as u64)
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meeting {
    /// Part 1: it listens until all have come, and tells them the time until the start.
    fn host(
        &self,
        plan: &[String],
        lines: Lines,
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
    ) -> Result<(Start, Gathered), MeetError> {
        let listener = self.listen()?;
        let clock = Clock::new();
        let deadline = Instant::now() + self.patience;
        let table = Mutex::new(Table::new(self.part, plan));
        let (over, kept) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
        let record =
            |start_us| PartRecord { part: self.part, start_us, clock_error_s: 0.0, late_s: 0.0 };
        let start = thread::scope(|scope| {
            // Whatever ends this scope ends the threads of the guests.
            let _over = SetOnDrop(&over);
            let mut guests = Vec::new();
            for connection in 0.. {
                // The guests need the table meanwhile: nothing holds it here.
                let laid_down = locked(&table).start(clock.now_us());
                if let Some(start_us) = laid_down {
                    let at = clock.at(start_us);
                    // Who has read the clock says goodbye; the others are waited for as long as there is time.
                    let last = at.checked_sub(LOOK).unwrap_or(at);
                    let reads = |guest: &thread::ScopedJoinHandle<'_, ()>| !guest.is_finished();
                    while Instant::now() < last && guests.iter().any(reads) {
                        if interrupt.load(Ordering::Relaxed) {
                            return Err(MeetError::Interrupted);
                        }
                        thread::sleep(Duration::from_millis(2));
                    }
                    return Ok(Start { at, record: record(start_us) });
                }
                if interrupt.load(Ordering::Relaxed) {
                    return Err(MeetError::Interrupted);
                }
                let (numbers, refused) = {
                    let table = locked(&table);
                    (table.missing(), table.refused.clone().map(Box::new))
                };
                if Instant::now() >= deadline {
                    let (of, patience) = (self.part.of(), self.patience);
                    return Err(MeetError::Missing { numbers, of, patience, refused });
                }
                waits(&numbers);
                guests.retain(|guest: &thread::ScopedJoinHandle<'_, ()>| !guest.is_finished());
                match listener.accept() {
                    Ok((socket, _)) if guests.len() < GUESTS_MAX => {
                        let (table, over, kept) = (&table, &over, &kept);
                        guests.push(scope.spawn(move || {
                            let kept = (lines == Lines::Kept).then_some(kept);
                            serve(socket, connection, table, clock, over, kept);
                        }));
                    }
                    // One too many is not listened to, and asks again.
                    Ok(_) => {}
                    Err(_) => thread::sleep(LOOK / 5),
                }
            }
            unreachable!("connections are counted without an end")
        })?;
        Ok((start, (clock, kept.into_inner().unwrap_or_else(PoisonError::into_inner))))
    }

    fn listen(&self) -> Result<TcpListener, MeetError> {
        let mut failed = None;
        for &address in &self.addresses {
            let bound = TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            match bound {
                Ok(listener) => return Ok(listener),
                Err(error) => failed = Some(MeetError::Listen { address, error }),
            }
        }
        Err(failed.expect("a name that was resolved has an address"))
    }

    /// Another part: it looks for part 1, waits with it, and makes of its connection and the start \[us since 1970\]
    /// what it came for.
    fn visit<T>(
        &self,
        plan: &[String],
        interrupt: &AtomicBool,
        waits: &mut dyn FnMut(&[u32]),
        met: &dyn Fn(Line, i64) -> io::Result<T>,
    ) -> Result<T, MeetError> {
        let deadline = Instant::now() + self.patience;
        let mut last = io::Error::from(ErrorKind::TimedOut);
        loop {
            for &address in &self.addresses {
                match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                    Ok(socket) => {
                        let patience = Patience { deadline, interrupt, waits };
                        match self.greet(socket, address, plan, patience, met) {
                            // It had no room, or was about to go.
                            Err(MeetError::Gone) if Instant::now() < deadline => {}
                            result => return result,
                        }
                    }
                    Err(error) => last = error,
                }
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(MeetError::Interrupted);
            }
            if Instant::now() >= deadline {
                let (address, patience) = (self.addresses[0], self.patience);
                return Err(MeetError::NoHost { address, patience, error: last });
            }
            waits(&[1]);
            thread::sleep(LOOK);
        }
    }

    fn greet<T>(
        &self,
        socket: TcpStream,
        address: SocketAddr,
        plan: &[String],
        patience: Patience<'_>,
        met: &dyn Fn(Line, i64) -> io::Result<T>,
    ) -> Result<T, MeetError> {
        let Patience { deadline, interrupt, waits } = patience;
        let stranger = |error: io::Error| match error.kind() {
            ErrorKind::InvalidData => MeetError::Stranger(address, error.to_string()),
            _ => MeetError::Gone,
        };
        let mut line = Line::new(socket).map_err(stranger)?;
        let (number, plan) = (self.part.number(), plan.to_vec());
        line.say(&Guest::Part { version: VERSION, number, plan }).map_err(stranger)?;
        let mut missing = vec![1];
        loop {
            match line.hear::<Host>().map_err(stranger)? {
                None => {}
                Some(Host::Waits(numbers)) => missing = numbers,
                Some(Host::Differs(difference)) => {
                    return Err(MeetError::Differs(Box::new(difference)));
                }
                Some(Host::Twice) => return Err(MeetError::Twice { number }),
                Some(Host::Start(start_us)) => {
                    return met(line, start_us).map_err(stranger);
                }
                // Nobody has asked for it.
                Some(Host::Clock(_)) => {}
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(MeetError::Interrupted);
            }
            if Instant::now() >= deadline {
                let (of, patience) = (self.part.of(), self.patience);
                return Err(MeetError::Missing { numbers: missing, of, patience, refused: None });
            }
            waits(&missing);
        }
    }

    /// The start by this machine's clock, as well as that can be known.
    fn read_clock(&self, line: &mut Line, start_us: i64) -> io::Result<Start> {
        let mut reading = Reading::default();
        for _ in 0..READINGS {
            let asked = Instant::now();
            line.say(&Guest::Clock)?;
            let host_us = loop {
                match line.hear::<Host>()? {
                    Some(Host::Clock(us)) => break us,
                    _ if asked.elapsed() > LEAD => return Err(ErrorKind::TimedOut.into()),
                    _ => {}
                }
            };
            reading.take(asked, host_us);
        }
        Ok(reading.start(self.part, start_us, self.patience))
    }
}

/// Readings of the clock of part 1: it read its own within the shortest round trip.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    best: Option<(Duration, Instant, i64)>,
}

impl Reading {
    /// Number of readings that make one.
    pub(crate) const TIMES: u32 = READINGS;

    /// Takes note of an answer that has just come to a question at that moment.
    pub(crate) fn take(&mut self, asked: Instant, host_us: i64) {
        let half = asked.elapsed() / 2;
        if self.best.is_none_or(|(least, ..)| half < least) {
            self.best = Some((half, asked + half, host_us));
        }
    }

    /// The start by this machine's clock; of one that lies farther ahead than anybody waits, the farthest.
    ///
    /// # Panics
    /// If nothing was read.
    pub(crate) fn start(&self, part: RunPart, start_us: i64, patience: Duration) -> Start {
        let (error, read, host_us) = self.best.expect("the clock is read more than once");
        let ahead = start_us.saturating_sub(host_us);
        let span = Duration::from_micros(ahead.unsigned_abs()).min(patience + LEAD);
        let at = if ahead >= 0 { read + span } else { read.checked_sub(span).unwrap_or(read) };
        let clock_error_s = error.as_secs_f64();
        Start { at, record: PartRecord { part, start_us, clock_error_s, late_s: 0.0 } }
    }
}

/// Part 1's side of a connection, to its end.
fn serve(
    socket: TcpStream,
    connection: u64,
    table: &Mutex<Table>,
    clock: Clock,
    over: &AtomicBool,
    kept: Option<&Mutex<BTreeMap<u32, Line>>>,
) {
    // Whoever talks another language, or goes, is nobody; the table shows who is missing.
    let _ = converse(socket, connection, table, clock, over, kept);
    locked(table).leave(connection);
}

fn converse(
    socket: TcpStream,
    connection: u64,
    table: &Mutex<Table>,
    clock: Clock,
    over: &AtomicBool,
    kept: Option<&Mutex<BTreeMap<u32, Line>>>,
) -> io::Result<()> {
    let mut line = Line::new(socket)?;
    let greeted = Instant::now();
    let (number, plan) = loop {
        match line.hear::<Guest>()? {
            Some(Guest::Part { version: VERSION, number, plan }) => break (number, plan),
            Some(_) => return Err(ErrorKind::InvalidData.into()),
            None if greeted.elapsed() > GREETING_MAX || over.load(Ordering::Relaxed) => {
                return Err(ErrorKind::TimedOut.into());
            }
            None => {}
        }
    };
    let entry = locked(table).enter(number, &plan, connection);
    match entry {
        Entry::Welcome => {}
        Entry::Differs(difference) => return line.say(&Host::Differs(difference)),
        Entry::Twice => return line.say(&Host::Twice),
    }
    let (mut said, mut started) = (None, false);
    while !over.load(Ordering::Relaxed) {
        let (start, missing) = {
            let table = locked(table);
            (table.start_us, table.missing())
        };
        match start {
            Some(start_us) if !started => {
                line.say(&Host::Start(start_us))?;
                if let Some(kept) = kept {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).insert(number, line);
                    return Ok(());
                }
                started = true;
            }
            None if said.as_ref() != Some(&missing) => {
                line.say(&Host::Waits(missing.clone()))?;
                said = Some(missing);
            }
            _ => {}
        }
        if let Some(Guest::Clock) = line.hear::<Guest>()? {
            line.say(&Host::Clock(clock.now_us()))?;
        }
    }
    Ok(())
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection on which lines of JSON go to and fro.
#[derive(Debug)]
pub(crate) struct Line {
    socket: TcpStream,
    /// Bytes that came and make no line yet.
    rest: Vec<u8>,
}

impl Line {
    fn new(socket: TcpStream) -> io::Result<Line> {
        // What accepts without blocking may hand that down.
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LOOK / 2))?;
        socket.set_write_timeout(Some(GREETING_MAX))?;
        Ok(Line { socket, rest: Vec::new() })
    }

    pub(crate) fn say(&mut self, word: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(word)?;
        bytes.push(b'\n');
        self.socket.write_all(&bytes)
    }

    /// Ends the connection so that the last word arrives: bytes of the other end that nobody reads would reset it, and the
    /// word with it.
    pub(crate) fn close(mut self) {
        let begun = Instant::now();
        let mut rest = [0; 4096];
        if self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        while begun.elapsed() < GREETING_MAX {
            match self.socket.read(&mut rest) {
                Ok(0) => return,
                Err(error) if !is_pause(&error) => return,
                _ => {}
            }
        }
    }

    /// The next word; none if none has come within a moment. The end of the connection is an error.
    pub(crate) fn hear<W: for<'a> Deserialize<'a>>(&mut self) -> io::Result<Option<W>> {
        let mut buffer = [0; 4096];
        let until = Instant::now() + LOOK;
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(|_| odd(&line));
            }
            if self.rest.len() > LINE_MAX {
                return Err(odd(&self.rest));
            }
            // Bytes that drip in for ever leave the caller its turn to look at the clock.
            if Instant::now() >= until {
                return Ok(None);
            }
            match self.socket.read(&mut buffer) {
                Ok(0) if self.rest.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Err(odd(&self.rest)),
                Ok(count) => self.rest.extend_from_slice(&buffer[..count]),
                Err(error) if is_pause(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// True if nothing has come yet.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Bytes that are no word of a part.
fn odd(bytes: &[u8]) -> io::Error {
    let text: String = bytes
        .iter()
        .take(40)
        .flat_map(|&byte| std::ascii::escape_default(byte))
        .map(char::from)
        .collect();
    io::Error::new(ErrorKind::InvalidData, format!("it says `{text}`"))
}

#[cfg(test)]
#[path = "meeting_tests.rs"]
mod tests;
