//! More jobs than the server can do, of two classes: whoever is measured gets them at moments of
//! chance that do not wait for its answers.
//!
//! A job holds its connection for a time of chance (exponential) and burns nothing, so that what can
//! be done is known whatever the machine: slots / mean hold. The high class asks for half of that. A job
//! counts if its answer comes within the deadline, counted from the moment at which it was due.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use proxy::postgres::message::write;

use super::crowd;
use super::sides::{Kind, Server, Side};
use super::spread::Spread;

const SLOTS: u32 = 16;
/// \[s\].
const HOLD_MEAN: f64 = 0.02;
/// From due to answered \[s\].
const DEADLINE: f64 = 0.25;
/// What is left of the deadline after as long a wait as the gate allows is longer than 99 of 100 holds.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(155);
/// Clients of each class: as many as are ever needed where nobody waits longer than the deadline.
const CLIENTS: usize = 500;
const SECONDS: f64 = 15.0;
const ROUNDS: usize = 3;

/// The classes, by the names that their clients give themselves.
pub(crate) const NAMES: [&str; 2] = ["high", "low"];

/// What came of the jobs of one class.
#[derive(Clone, Debug, Default)]
struct Came {
    due: u64,
    /// Of those that were served: from due to answered \[s\].
    served: Vec<f64>,
    /// Those that were told that they would not be.
    refused: u64,
}

impl Came {
    /// Answers in time, a second.
    fn good(&self) -> f64 {
        self.served.iter().filter(|time| **time <= DEADLINE).count() as f64 / SECONDS
    }

    fn p99(&self) -> f64 {
        let mut sorted = self.served.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() as f64 * 0.99) as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Prints what becomes of 150 % at PgBouncer and at the gate.
pub(crate) fn compare(server: &Server) {
    let text = format!("select pg_sleep(-{HOLD_MEAN} * ln(1.0 - random()))");
    let able = f64::from(SLOTS) / HOLD_MEAN;
    println!(
        "\n150 % of what {SLOTS} slots can do, in two classes, half of it and all of it; jobs hold a \
         slot for {:.0} ms\non average (exponential); answers within {:.0} ms count; median of \
         {ROUNDS} runs of {SECONDS:.0} s (least..most)",
        HOLD_MEAN * 1e3,
        DEADLINE * 1e3
    );
    println!(
        "{:<12} {:>21} {:>21} {:>21} {:>21} {:>9}",
        "",
        "full, answers/s",
        "in time/full, aim .95",
        "p99 high alone [ms]",
        "with low/alone, 1.2",
        "refused"
    );
    let kinds = [Kind::PgBouncer, Kind::Gate];
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (kind, seen) in kinds.iter().zip(&mut seen) {
            let side = Side::start_classed(*kind, server, SLOTS);
            let full = closed(&side, server, &text);
            let [alone, _] = open(&side, server, &text, [0.5 * able, 0.0]);
            let both = open(&side, server, &text, [0.5 * able, able]);
            seen.push((full, alone, both));
        }
    }
    for (kind, seen) in kinds.iter().zip(&seen) {
        let full = Spread::of(seen.iter().map(|run| run.0));
        let good = |both: &[Came; 2]| both.iter().map(Came::good).sum::<f64>();
        let kept = Spread::of(seen.iter().map(|(full, _, both)| good(both) / full));
        let alone = Spread::of(seen.iter().map(|(_, alone, _)| alone.p99() * 1e3));
        let grown = Spread::of(seen.iter().map(|(_, alone, both)| both[0].p99() / alone.p99()));
        let refused: u64 = seen.iter().flat_map(|run| &run.2).map(|came| came.refused).sum();
        let due: u64 = seen.iter().flat_map(|run| &run.2).map(|came| came.due).sum();
        println!(
            "{:<12} {:>21} {:>21} {:>21} {:>21} {:>7.0} %",
            kind.name(),
            full.show(0),
            kept.show(3),
            alone.show(0),
            grown.show(2),
            refused as f64 / due as f64 * 100.0
        );
    }
}

/// Answers a second where four clients for each slot ask again and again.
fn closed(side: &Side, server: &Server, text: &str) -> f64 {
    let clients = crowd::enter(side, server, 4 * SLOTS as usize);
    crowd::press(clients, SECONDS, text).rate
}

/// One client.
struct Line {
    stream: mio::net::TcpStream,
    class: usize,
    /// When its job was due; `None` while it has none.
    due: Option<Instant>,
    heard: Vec<u8>,
}

/// Jobs of each class at these rates [1/s], whoever waits. One for whom no client is free is lost.
fn open(side: &Side, server: &Server, text: &str, rates: [f64; 2]) -> [Came; 2] {
    let mut question = Vec::new();
    write::query(&mut question, text);
    let mut poll = Poll::new().expect("a poll");
    let mut lines = Vec::new();
    for (class, name) in NAMES.iter().enumerate().filter(|(class, _)| rates[*class] > 0.0) {
        for stream in crowd::enter_as(side, server, CLIENTS, name) {
            lines.push(line(&poll, lines.len(), stream, class));
        }
    }
    let mut idle: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    (0..lines.len()).for_each(|at| idle[lines[at].class].push(at));
    let mut chance = Chance(20_261_122);
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(SECONDS);
    let mut next = rates.map(|rate| began + chance.gap(rate));
    let mut came = [Came::default(), Came::default()];
    let mut events = Events::with_capacity(1024);
    // Who was due before the end is waited for, as long as it takes to see that it is late.
    let last = end + Duration::from_secs_f64(2.0 * DEADLINE);
    while Instant::now() < last {
        let soonest = next.into_iter().min().expect("two classes").min(last);
        let pause = soonest.saturating_duration_since(Instant::now());
        poll.poll(&mut events, Some(pause)).expect("a poll");
        for event in &events {
            let at = event.token().0;
            if let Some(served) = lines[at].hears() {
                lines[at].ends(served, &mut came);
                idle[lines[at].class].push(at);
            }
        }
        for class in 0..2 {
            while next[class] <= Instant::now() {
                if next[class] < end {
                    came[class].due += 1;
                    if let Some(at) = idle[class].pop() {
                        lines[at].due = Some(next[class]);
                        lines[at].stream.write_all(&question).expect("room for a question");
                    }
                    next[class] += chance.gap(rates[class]);
                } else {
                    next[class] = last;
                }
            }
        }
    }
    came
}

fn line(poll: &Poll, at: usize, stream: TcpStream, class: usize) -> Line {
    stream.set_nonblocking(true).expect("a socket");
    let mut stream = mio::net::TcpStream::from_std(stream);
    poll.registry().register(&mut stream, Token(at), Interest::READABLE).expect("room");
    Line { stream, class, due: None, heard: Vec::new() }
}

impl Line {
    /// Reads what is there; whether the job was served, if its reply has ended.
    fn hears(&mut self) -> Option<bool> {
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("it hung up: {}", String::from_utf8_lossy(&self.heard)),
                Ok(read) => self.heard.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("it is lost: {error}"),
            }
        }
        let ended = self.heard.ends_with(crowd::READY);
        ended.then(|| std::mem::take(&mut self.heard)[0] != b'E')
    }

    fn ends(&mut self, served: bool, came: &mut [Came; 2]) {
        let due = self.due.take().expect("it was asked something");
        let came = &mut came[self.class];
        match served {
            true => came.served.push(due.elapsed().as_secs_f64()),
            false => came.refused += 1,
        }
    }
}

/// Chance for one run (splitmix64).
struct Chance(u64);

impl Chance {
    /// Between two moments of a Poisson process of this rate [1/s]; a year for none.
    fn gap(&mut self, rate: f64) -> Duration {
        if rate == 0.0 {
            return Duration::from_secs(31_536_000);
        }
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((z ^ z >> 31) >> 11) as f64 / (1_u64 << 53) as f64;
        Duration::from_secs_f64(-(1.0 - uniform).ln() / rate)
    }
}
