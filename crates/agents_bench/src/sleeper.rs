//! An agent that does nothing but wait for its timers, and tells each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agents::{
    Agent, Context, Effect, Failure, Header, Key, RowWrite, StateWrite, Timer, TimerName,
};
use agents_store::{Content, Store};
use gate::Time;

use crate::load::{RunError, Writer, fill, stored};

/// A rule's number in notifications.
const RULE: u32 = 3;
/// Timers of a transaction while they are written.
const CHUNK: u64 = 10_000;

/// A message to all that changes nothing: it brings agents into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello;

/// An agent with timers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sleeper {
    /// Number of its timers that fired.
    pub fired: u64,
    /// Bytes that are only carried along.
    pub rest: Vec<u8>,
}

impl Sleeper {
    /// The number of a timer that a notification tells.
    pub fn timer(payload: &[u8]) -> Option<u64> {
        payload.try_into().ok().map(u64::from_le_bytes)
    }
}

impl Agent for Sleeper {
    type Message = Hello;
    const VERSION: u16 = 1;

    fn create(_key: Key, _first: &Hello) -> Option<Sleeper> {
        None
    }

    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<Sleeper, Failure> {
        let told = || Failure(format!("no sleeper: version {version}, {} bytes", hot.len()));
        let fired = hot.try_into().map_err(|_| told())?;
        Ok(Sleeper { fired: u64::from_le_bytes(fired), rest: cold.to_vec() })
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        to.extend(&self.rest);
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        to.extend(self.fired.to_le_bytes());
    }

    fn on(&mut self, _: &Hello, _cx: &mut Context<Hello>) -> Result<Effect, Failure> {
        Ok(Effect::Clean)
    }

    fn on_timer(&mut self, name: TimerName, cx: &mut Context<Hello>) -> Result<Effect, Failure> {
        self.fired += 1;
        cx.notify(RULE, name.0.to_le_bytes().to_vec());
        Ok(Effect::Hot)
    }
}

impl Content for Hello {
    fn encode(&self, _to: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Result<Hello, String> {
        if bytes.is_empty() { Ok(Hello) } else { Err(format!("a hello of {} bytes", bytes.len())) }
    }
}

/// Sleepers and their timers, which are numbered on: those up to `due` are due within a span, at even distances,
/// each of another agent; all others in a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleeperSpec {
    /// Number of agents.
    pub agents: u32,
    /// Number of timers.
    pub timers: u64,
    /// Number of those that are due, at most that of the agents.
    pub due: u64,
    /// The moment from which on they are due, by the clock of the server that runs them.
    pub from: Time,
    /// The span.
    pub span: Duration,
    /// Size of a state \[bytes\], at least 8.
    pub bytes: usize,
}

impl SleeperSpec {
    /// The moment at which a timer is due.
    pub fn due(&self, timer: u64) -> Time {
        match timer < self.due {
            true => self.from + self.span.mul_f64(timer as f64 / self.due as f64),
            false => Time::ZERO + Duration::from_secs(365 * 86_400),
        }
    }

    /// The agent of a timer. Those that are due one after the other are not neighbours.
    pub fn agent(&self, timer: u64) -> Key {
        const STEP: u64 = 1_000_003;
        Key(timer.wrapping_mul(STEP) % u64::from(self.agents))
    }

    /// Writes the agents into a partition, without timers.
    ///
    /// # Errors
    /// The store fails or refuses, or it was stopped.
    pub fn populate(
        &self,
        store: &dyn Store<Hello>,
        partition: u32,
        stop: &AtomicBool,
    ) -> Result<(), RunError> {
        let rest = vec![0x5a; self.bytes.saturating_sub(8)];
        let row = |key| {
            let header = Header { version: Sleeper::VERSION, armed: true, ..Header::default() };
            let sleeper = Sleeper { fired: 0, rest: rest.clone() };
            RowWrite { key, header, state: StateWrite::Whole(stored(&sleeper)) }
        };
        fill(store, partition, (self.agents.into(), row), (stop, |_| ()))
    }

    /// Sets the timers.
    ///
    /// # Errors
    /// The store fails or refuses, or it was stopped.
    pub fn arm(
        &self,
        store: &dyn Store<Hello>,
        partition: u32,
        stop: &AtomicBool,
    ) -> Result<(), RunError> {
        let mut writer = Writer::open(store, partition)?;
        for first in (0..self.timers).step_by(CHUNK as usize) {
            let numbers = first..(first + CHUNK).min(self.timers);
            let timers: BTreeMap<_, _> = numbers
                .map(|n| {
                    let timer = Timer { due: self.due(n), every: None };
                    ((self.agent(n), TimerName(n)), Some(timer))
                })
                .collect();
            writer.commit_with(store, (Vec::new(), Vec::new()), timers)?;
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
        }
        Ok(())
    }
}
