//! More jobs than the server can do, of two classes: whoever is measured gets them at moments that are
//! laid down before and wait for nobody's answers.
//!
//! A job holds its connection for a time of chance (exponential) and burns next to nothing, so that the
//! queue is the limit, and no CPU of a small machine. What can be done is measured first, by clients
//! that ask again as soon as they have their answer. The high class asks for a quarter of it, first
//! alone and then beside a low class that asks for five quarters; it has the same moments and holds both
//! times. An answer counts if it comes within the deadline, from the moment at which it was due. Who is
//! told that it gets nothing goes on with its next job; who loses its session for that comes anew.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use pgwire::message::write;
use pgwire::startup::{Version, write_startup};

use super::crowd::READY;
use super::sides::{Kind, Server, Side, own_cpu_ns};
use bench::Spread;

const SLOTS: u32 = 16;
/// \[s\].
const HOLD_MEAN: f64 = 0.01;
/// From due to answered \[s\].
const DEADLINE: f64 = 0.25;
/// The deadline without five mean holds, which less than one job in a hundred takes longer than.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(200);
/// Clients of each class: as many as are needed where nobody waits for much longer than the deadline.
const CLIENTS: [usize; 2] = [300, 1500];
/// Load of the classes, as shares of what can be done.
const SHARES: [f64; 2] = [0.25, 1.25];
/// Before what counts, and what counts \[s\].
const WARM: f64 = 1.0;
const SECONDS: f64 = 10.0;
const ROUNDS: usize = 3;

const KINDS: [Kind; 2] = [Kind::PgBouncer, Kind::Gate];

/// The classes, by the names that their clients give themselves.
pub(crate) const NAMES: [&str; 2] = ["high", "low"];

/// Results of the jobs of one class, of the time that counts.
#[derive(Clone, Debug, Default)]
struct Came {
    due: u64,
    /// Of those that were due then and served: from due to answered \[s\].
    served: Vec<f64>,
    /// Those that came in time, by when they came.
    good: u64,
    /// Those that were told that they would not be served, and the sessions that this has ended.
    refused: u64,
    lost: u64,
    /// Those for which no client was free.
    unasked: u64,
    /// Delays from due to asked \[s\].
    late: Vec<f64>,
}

fn p99(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * 0.99) as usize).copied().unwrap_or(f64::NAN)
}

/// One load at one side: what came of each class, and the shares of a CPU that the side and this
/// program have used.
struct Run {
    came: [Came; 2],
    cpu: f64,
    own_cpu: f64,
}

/// All loads at one side.
struct Round {
    /// Answers a second of which it is able.
    full: f64,
    closed: Run,
    alone: Run,
    both: Run,
}

/// Prints what becomes of 150 % at PgBouncer and at the gate.
pub(crate) fn compare(server: &Server) {
    println!(
        "\noverload: {:.0} % of what {SLOTS} slots can do, by two classes ({:.0} % and {:.0} %)\na job \
         holds its slot for {:.0} ms on average (pg_sleep, exponential), so the queue is the limit and \
         no CPU\nanswers within {:.0} ms of when they were due count; both sides let wait for {} ms, \
         and PgBouncer then\nends the session; open load, its moments laid down before; median of \
         {ROUNDS} interleaved runs of {SECONDS:.0} s (least..most)",
        (SHARES[0] + SHARES[1]) * 100.0,
        SHARES[0] * 100.0,
        SHARES[1] * 100.0,
        HOLD_MEAN * 1e3,
        DEADLINE * 1e3,
        WAIT_MAX.as_millis(),
    );
    let mut seen = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (kind, seen) in KINDS.iter().zip(&mut seen) {
            let side = Side::of_classes(*kind, server, SLOTS);
            let seed = 20_261_122 + round as u64;
            let closed = Load::closed(&side, server, seed).run();
            let full = closed.came[0].served.len() as f64 / SECONDS;
            let alone = Load::open(&side, server, seed, [SHARES[0] * full, 0.0]).run();
            let both = Load::open(&side, server, seed, SHARES.map(|share| share * full)).run();
            seen.push(Round { full, closed, alone, both });
        }
    }
    show(&seen);
}

/// A table of what was seen at both.
fn show(seen: &[Vec<Round>; 2]) {
    println!("{:<34} {:>22} {:>22} {:>6}", "", KINDS[0].name(), KINDS[1].name(), "aim");
    let row = |name: &str, digits: usize, aim: &str, of: &dyn Fn(&Round) -> f64| {
        let [peer, gate] = [0, 1].map(|at| Spread::of(seen[at].iter().map(of)).show(digits));
        println!("{name:<34} {peer:>22} {gate:>22} {aim:>6}");
    };
    let sum = |run: &Run, of: fn(&Came) -> u64| run.came.iter().map(of).sum::<u64>() as f64;
    row("answers/s of which it is able", 0, "", &|round| round.full);
    row("answers in time, of these", 3, "0.95", &|round| {
        sum(&round.both, |came| came.good) / SECONDS / round.full
    });
    row("high class alone, p99 [ms]", 1, "", &|round| p99(&round.alone.came[0].served) * 1e3);
    row("high class in overload, p99 [ms]", 1, "", &|round| p99(&round.both.came[0].served) * 1e3);
    row("overload/alone", 3, "1.2", &|round| {
        p99(&round.both.came[0].served) / p99(&round.alone.came[0].served)
    });
    for (at, name) in NAMES.iter().enumerate() {
        row(&format!("refused of the {name} class"), 3, "", &|round| {
            round.both.came[at].refused as f64 / round.both.came[at].due as f64
        });
    }
    row("sessions lost by that, a second", 1, "0", &|round| {
        sum(&round.both, |came| came.lost) / SECONDS
    });
    row("jobs for which no client was free", 0, "0", &|round| {
        sum(&round.both, |came| came.unasked)
    });
    row("asked later than due, p99 [ms]", 1, "", &|round| {
        p99(&[&round.both.came[0].late[..], &round.both.came[1].late].concat()) * 1e3
    });
    row("its share of its own CPU, closed", 3, "", &|round| round.closed.cpu);
    row("the same in overload", 3, "", &|round| round.both.cpu);
    row("the load's share of one, overload", 3, "", &|round| round.both.own_cpu);
}

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It comes anew, and has not said so yet.
    Connects,
    LogsIn,
    Idle,
    /// Its job was due then.
    Asked(Instant),
}

/// One client.
struct Line {
    stream: TcpStream,
    class: usize,
    state: State,
    heard: Vec<u8>,
}

/// Message that a client has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Nothing,
    Ready,
    Error,
    /// The other side has ended it.
    End,
}

/// A load and its clients.
struct Load<'a> {
    side: &'a Side,
    server: &'a Server,
    poll: Poll,
    lines: Vec<Line>,
    idle: [Vec<usize>; 2],
    /// The moments and holds of each class.
    chance: [Chance; 2],
    /// Jobs a second; none if each client asks again as soon as it is answered.
    rates: Option<[f64; 2]>,
    began: Instant,
    came: [Came; 2],
}

impl<'a> Load<'a> {
    /// Four clients for each slot, of no class.
    fn closed(side: &'a Side, server: &'a Server, seed: u64) -> Load<'a> {
        Load::new(side, server, seed, None, [4 * SLOTS as usize, 0])
    }

    fn open(side: &'a Side, server: &'a Server, seed: u64, rates: [f64; 2]) -> Load<'a> {
        let clients = [0, 1].map(|class| if rates[class] > 0.0 { CLIENTS[class] } else { 0 });
        Load::new(side, server, seed, Some(rates), clients)
    }

    fn new(
        side: &'a Side,
        server: &'a Server,
        seed: u64,
        rates: Option<[f64; 2]>,
        clients: [usize; 2],
    ) -> Load<'a> {
        let chance = [0, 1].map(|class| Chance(seed << 1 | class));
        let poll = Poll::new().expect("a poll");
        let mut load = Load {
            side,
            server,
            poll,
            lines: Vec::new(),
            idle: [Vec::new(), Vec::new()],
            chance,
            rates,
            began: Instant::now(),
            came: [Came::default(), Came::default()],
        };
        for (class, &clients) in clients.iter().enumerate() {
            for _ in 0..clients {
                let at = load.lines.len();
                let stream = connect(side.address, &load.poll, at);
                load.lines.push(Line { stream, class, state: State::Connects, heard: Vec::new() });
            }
        }
        load
    }

    /// Waits until they are all in.
    fn enter(&mut self, events: &mut Events) {
        let latest = Instant::now() + Duration::from_secs(60);
        while self.idle.iter().map(Vec::len).sum::<usize>() < self.lines.len() {
            assert!(Instant::now() < latest, "not all clients get in");
            self.poll.poll(events, Some(Duration::from_secs(1))).expect("a poll");
            events.iter().for_each(|event| self.hear(event));
        }
    }

    /// Lets them all in, and then ask, until it is over.
    fn run(mut self) -> Run {
        let mut events = Events::with_capacity(4096);
        self.enter(&mut events);
        self.began = Instant::now();
        // Who was due in time is waited for, under the same load, until it is surely late.
        let end = self.began + Duration::from_secs_f64(WARM + SECONDS + 2.0 * DEADLINE);
        let mut next = [0, 1].map(|class| self.next_due(class, self.began).unwrap_or(end));
        if self.rates.is_none() {
            for at in std::mem::take(&mut self.idle[0]) {
                self.ask(at, self.began);
            }
        }
        let (mut from, mut shares) = (None, None);
        while Instant::now() < end {
            let soonest = next.into_iter().min().expect("two classes").min(end);
            let pause = soonest.saturating_duration_since(Instant::now());
            self.poll.poll(&mut events, Some(pause)).expect("a poll");
            events.iter().for_each(|event| self.hear(event));
            for (class, next) in next.iter_mut().enumerate() {
                while *next <= Instant::now() && *next < end {
                    let due = *next;
                    self.falls_due(class, due);
                    *next = self.next_due(class, due).unwrap_or(end);
                }
            }
            let since = self.began.elapsed().as_secs_f64();
            if since >= WARM && from.is_none() {
                from = Some(self.spent());
            }
            if since >= WARM + SECONDS
                && shares.is_none()
                && let Some((side, own, moment)) = from
            {
                let (side_now, own_now, now) = self.spent();
                let passed = (now - moment).as_secs_f64() * 1e9;
                shares = Some([(side_now - side) / passed, (own_now - own) / passed]);
            }
        }
        let [cpu, own_cpu] = shares.expect("the time that counts has passed");
        Run { came: self.came, cpu, own_cpu }
    }

    /// CPU time that the side and this program have used so far \[ns\], and when that was.
    fn spent(&self) -> (f64, f64, Instant) {
        (self.side.cpu_ns(), own_cpu_ns(), Instant::now())
    }

    /// True if a moment belongs to the time that counts.
    fn counts(&self, moment: Instant) -> bool {
        let since = moment.saturating_duration_since(self.began).as_secs_f64();
        (WARM..WARM + SECONDS).contains(&since)
    }

    /// When the next job of a class is due behind another one, if it has any.
    fn next_due(&mut self, class: usize, before: Instant) -> Option<Instant> {
        let rate = self.rates?[class];
        (rate > 0.0)
            .then(|| before + Duration::from_secs_f64(self.chance[class].exponential() / rate))
    }

    /// A job is due: a client that is free asks.
    fn falls_due(&mut self, class: usize, due: Instant) {
        let counts = self.counts(due);
        self.came[class].due += u64::from(counts);
        match self.idle[class].pop() {
            Some(at) => {
                if counts {
                    self.came[class].late.push(due.elapsed().as_secs_f64());
                }
                self.ask(at, due);
            }
            None => {
                // The job has a hold all the same: the next one has its own.
                self.chance[class].exponential();
                self.came[class].unasked += u64::from(counts);
            }
        }
    }

    fn ask(&mut self, at: usize, due: Instant) {
        let line = &mut self.lines[at];
        let hold = self.chance[line.class].exponential() * HOLD_MEAN;
        let mut question = Vec::new();
        write::query(&mut question, &format!("select pg_sleep({hold:.6})"));
        line.state = State::Asked(due);
        // One that was closed meanwhile is found when it is read.
        match line.stream.write(&question) {
            Ok(bytes) => assert_eq!(bytes, question.len(), "an empty socket takes a question"),
            Err(error) => assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it was empty"),
        }
    }

    fn hear(&mut self, event: &Event) {
        let at = event.token().0;
        let line = &mut self.lines[at];
        if line.state == State::Connects {
            if event.is_writable() {
                line.says_hello(self.server);
            }
            return;
        }
        let (heard, class) = (line.hears(), line.class);
        let now = Instant::now();
        let asked = match (heard, line.state) {
            (Heard::Nothing, _) => return,
            (_, State::Asked(due)) => Some(due),
            (Heard::End | Heard::Error, state) => {
                // Its job was refused behind its back, or it never came in.
                assert_eq!((heard, state), (Heard::End, State::Idle), "a client does not get in");
                self.idle[class].retain(|one| *one != at);
                None
            }
            (Heard::Ready, _) => None,
        };
        if let Some(due) = asked {
            self.ends(class, due, heard, now);
        }
        let line = &mut self.lines[at];
        if heard == Heard::End {
            line.heard.clear();
            line.stream = connect(self.side.address, &self.poll, at);
            line.state = State::Connects;
        } else if self.rates.is_none() && asked.is_some() {
            self.ask(at, now);
        } else {
            line.state = State::Idle;
            self.idle[class].push(at);
        }
    }

    /// A job has come to its end.
    fn ends(&mut self, class: usize, due: Instant, heard: Heard, now: Instant) {
        let (due_counts, end_counts) = (self.counts(due), self.counts(now));
        let (came, took) = (&mut self.came[class], (now - due).as_secs_f64());
        match heard {
            Heard::Ready => {
                // Of a closed load that counts which is done in the time.
                let counts = if self.rates.is_some() { due_counts } else { end_counts };
                came.served.extend(counts.then_some(took));
                came.good += u64::from(end_counts && took <= DEADLINE);
            }
            _ => came.refused += u64::from(due_counts),
        }
        came.lost += u64::from(heard == Heard::End && due_counts);
    }
}

fn connect(address: SocketAddr, poll: &Poll, at: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a socket");
    let both = Interest::READABLE | Interest::WRITABLE;
    poll.registry().register(&mut stream, Token(at), both).expect("room");
    stream
}

impl Line {
    fn says_hello(&mut self, server: &Server) {
        self.stream.set_nodelay(true).expect("a TCP socket");
        let settings = [
            (&b"user"[..], server.user.as_bytes()),
            (b"database", server.database.as_bytes()),
            (b"application_name", NAMES[self.class].as_bytes()),
        ];
        let mut hello = Vec::new();
        write_startup(&mut hello, Version { major: 3, minor: 0 }, settings).expect("it is short");
        self.stream.write_all(&hello).expect("an empty socket takes it");
        self.state = State::LogsIn;
    }

    /// Reads what is there.
    fn hears(&mut self) -> Heard {
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Heard::End,
                Ok(read) => self.heard.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Heard::End,
                Err(error) => panic!("it is lost: {error}"),
            }
        }
        if !self.heard.ends_with(READY) {
            return Heard::Nothing;
        }
        let first = std::mem::take(&mut self.heard)[0];
        if first == b'E' { Heard::Error } else { Heard::Ready }
    }
}

/// Chance for one class of one run (splitmix64).
struct Chance(u64);

impl Chance {
    /// Of mean 1.
    fn exponential(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - uniform).ln()
    }
}
