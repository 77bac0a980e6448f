//! A pass over a store without the server's core: by a policy of order and eviction, agents one by one, with
//! several reads outstanding, or in chunks. One by one it is what a server without batches does.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use agents::{
    Agent, Context, Effect, Header, Key, LoadWay, Notification, NotificationKey, Row, RowWrite,
    StateWrite,
};
use agents_store::{Store, StoreError};
use gate::Time;

use crate::account::{Account, Tick};
use crate::load::{Fired, RunError, Writer, stored};
use crate::policy::{Policy, Turn};

/// Agents that the cache is filled with at once.
const FILL: usize = 1_000;

/// Shortest wait: a shorter one is put off, since waits are not that exact.
const WAIT_LEAST: Duration = Duration::from_millis(1);

/// The rates of a server and a database that are slower than these: so long takes a turn of an agent, and so
/// long a statement of loading or committing, in the mean of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time of a turn.
    pub turn: Duration,
    /// Time of a statement.
    pub access: Duration,
}

/// The moment at which all that was done would be over at a pace.
#[derive(Clone, Copy, Debug)]
struct Due {
    pace: Pace,
    at: Instant,
    /// Delay of the last pass.
    late: Duration,
}

impl Due {
    fn wait(&self, least: Duration) {
        let ahead = self.at.saturating_duration_since(Instant::now());
        if ahead >= least {
            sleep(ahead);
        }
    }
}

/// Reads the rows of these agents by a statement for each, all of them outstanding at once.
pub type ReadEach<'a> = &'a (dyn Fn(&[Key]) -> Result<Vec<(Key, Row)>, StoreError> + Sync);

/// Does a part of a pass, and learns what it costs.
pub type Timed<'a> =
    &'a mut dyn FnMut(&mut dyn FnMut() -> Result<(), RunError>) -> Result<(), RunError>;

/// Blocks of turns of a pass that goes one by one: the first of each so many is timed. In the others agents
/// are loaded and committed together, in no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Turns of a block, at least 1.
    pub turns: usize,
    /// One of so many is timed, at least 1.
    pub of: usize,
}

/// Rows and notifications that are to be committed.
#[derive(Default)]
struct Work {
    rows: Vec<RowWrite>,
    notifications: Vec<Notification>,
}

/// An account in the cache.
struct Resident {
    header: Header,
    account: Account,
}

/// Passes by a policy.
pub struct Direct<'a> {
    store: &'a dyn Store<Tick>,
    writer: Writer,
    policy: Policy,
    residents: Vec<Option<Box<Resident>>>,
    chunk: usize,
    each: Option<ReadEach<'a>>,
    /// Rows that the store returned since the cache was filled.
    loaded: u64,
    turns: u64,
    due: Option<Due>,
}

impl fmt::Debug for Direct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

impl<'a> Direct<'a> {
    /// Takes a partition over, with the cache as so many passes of the policy leave it. Agents are loaded and
    /// committed `chunk` at a time, at least 1 and at most half of the cache.
    ///
    /// # Errors
    /// The store fails.
    pub fn open(
        store: &'a dyn Store<Tick>,
        partition: u32,
        mut policy: Policy,
        (agents, chunk, warm_up): (u32, usize, u32),
    ) -> Result<Direct<'a>, RunError> {
        assert!(chunk > 0, "a chunk has an agent");
        (0..warm_up).for_each(|_| _ = policy.pass());
        let residents = (0..agents).map(|_| None).collect();
        let writer = Writer::open(store, partition)?;
        let (each, loaded, turns, due) = (None, 0, 0, None);
        let mut it = Direct { store, writer, policy, residents, chunk, each, loaded, turns, due };
        let cached: Vec<u32> = it.policy.cached().collect();
        for chunk in cached.chunks(FILL) {
            it.load(chunk)?;
        }
        it.loaded = 0;
        Ok(it)
    }

    /// From now on it is as slow as that, and no faster.
    pub fn paced(self, pace: Pace) -> Direct<'a> {
        let due = Due { pace, at: Instant::now(), late: Duration::ZERO };
        Direct { due: Some(due), ..self }
    }

    /// From now on the rows of a chunk are read by a statement each, outstanding at once, and each agent is
    /// committed alone: what a server does that has many reads outstanding and no batches.
    pub fn reading_each(self, each: ReadEach<'a>) -> Direct<'a> {
        Direct { each: Some(each), ..self }
    }

    /// The receivers of each multicast of the last pass.
    pub fn receivers(&self) -> &[Vec<u32>] {
        self.policy.receivers()
    }

    /// The time by which the last pass ended later than its pace says: the machine was too slow for it.
    pub fn late(&self) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.late)
    }

    /// Gives a tick to each receiver, unless `stop` is set meanwhile; who fired.
    ///
    /// # Errors
    /// The store fails, an account does, or it was stopped.
    pub fn tick(&mut self, tick: &Tick, stop: &AtomicBool) -> Result<Fired, RunError> {
        Ok(self.pass(std::slice::from_ref(tick), stop)?[0])
    }

    /// Gives as many ticks as the policy has outstanding, at once; who fired by each.
    ///
    /// # Errors
    /// The store fails, an account does, or it was stopped.
    ///
    /// # Panics
    /// If there are more or fewer ticks.
    pub fn pass(&mut self, ticks: &[Tick], stop: &AtomicBool) -> Result<Vec<Fired>, RunError> {
        let mut fired = self.begin(ticks);
        self.take_time(|due| due.at = Instant::now());
        while self.go_on(ticks, stop, &mut fired)? {}
        self.take_time(|due| {
            due.late = Instant::now().saturating_duration_since(due.at);
            due.wait(Duration::ZERO);
        });
        self.writer.finish(self.store)?;
        Ok(fired)
    }

    /// Gives a tick to each receiver, of which some blocks are timed; who fired.
    ///
    /// # Errors
    /// The store fails, an account does, or it was stopped.
    ///
    /// # Panics
    /// If it does not go one by one.
    pub fn sampled(
        &mut self,
        tick: &Tick,
        stop: &AtomicBool,
        (blocks, timed): (Blocks, Timed<'_>),
    ) -> Result<Fired, RunError> {
        assert!(self.chunk == 1 && self.policy.multicasts() == 1, "it goes one by one");
        let ticks = std::slice::from_ref(tick);
        let mut fired = self.begin(ticks);
        for block in 0.. {
            if self.policy.is_over() {
                break;
            }
            if block % blocks.of == 0 {
                timed(&mut || {
                    for _ in 0..blocks.turns {
                        if !self.go_on(ticks, stop, &mut fired)? {
                            break;
                        }
                    }
                    Ok(())
                })?;
            } else if stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            } else {
                self.run_together(blocks.turns, ticks, &mut fired)?;
            }
        }
        self.writer.finish(self.store)?;
        Ok(fired[0])
    }

    fn begin(&mut self, ticks: &[Tick]) -> Vec<Fired> {
        assert_eq!(ticks.len(), self.policy.multicasts() as usize, "a tick for each multicast");
        self.policy.begin();
        vec![Fired::default(); ticks.len()]
    }

    /// Runs the next chunk; false if the pass is over.
    fn go_on(
        &mut self,
        ticks: &[Tick],
        stop: &AtomicBool,
        fired: &mut [Fired],
    ) -> Result<bool, RunError> {
        let mut turns: Vec<Turn> = Vec::with_capacity(self.chunk);
        while turns.len() < self.chunk
            && let Some(turn) = self.policy.take()
        {
            turns.push(turn);
        }
        if turns.is_empty() {
            return Ok(false);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        self.run(&turns, ticks, fired)?;
        turns.iter().for_each(|turn| self.policy.done(turn.agent));
        let count = turns.len() as u32;
        self.take_time(|due| {
            due.at += due.pace.turn * count;
            due.wait(WAIT_LEAST);
        });
        Ok(true)
    }

    /// The share of turns so far for which the store returned no row: their agents were cached. Asked for are the misses
    /// of the policy alone, so that a store that answers at all can only confirm its hit ratio.
    pub fn hit_ratio(&self) -> f64 {
        1.0 - self.loaded as f64 / self.turns.max(1) as f64
    }

    fn take_time(&mut self, change: impl FnOnce(&mut Due)) {
        if let Some(due) = &mut self.due {
            change(due);
        }
    }

    fn run(&mut self, turns: &[Turn], ticks: &[Tick], fired: &mut [Fired]) -> Result<(), RunError> {
        for turn in turns {
            if let Some(out) = turn.evicted {
                self.residents[out as usize] = None;
            }
        }
        self.load(&missing(turns))?;
        let mut work = Work::default();
        for turn in turns {
            self.turn(turn, ticks, fired, &mut work)?;
            if self.each.is_some() {
                self.commit(&mut work)?;
            }
        }
        self.commit(&mut work)
    }

    /// Runs turns as one by one they come, but loads and commits their agents together.
    fn run_together(
        &mut self,
        count: usize,
        ticks: &[Tick],
        fired: &mut [Fired],
    ) -> Result<(), RunError> {
        let mut turns = Vec::with_capacity(count);
        while turns.len() < count
            && let Some(turn) = self.policy.take()
        {
            self.policy.done(turn.agent);
            turns.push(turn);
        }
        let mut rows: HashMap<u32, Box<Resident>> =
            self.read(&missing(&turns))?.into_iter().collect();
        let mut work = Work::default();
        for turn in &turns {
            if let Some(out) = turn.evicted {
                self.residents[out as usize] = None;
            }
            if let Some(resident) = rows.remove(&turn.agent) {
                self.residents[turn.agent as usize] = Some(resident);
            }
            self.turn(turn, ticks, fired, &mut work)?;
        }
        self.commit(&mut work)
    }

    /// An agent handles a message.
    fn turn(
        &mut self,
        turn: &Turn,
        ticks: &[Tick],
        fired: &mut [Fired],
        work: &mut Work,
    ) -> Result<(), RunError> {
        self.turns += 1;
        let (key, at) = (Key(turn.agent.into()), turn.message as usize);
        let resident = self.residents[turn.agent as usize].as_mut();
        let resident = resident.expect("it was loaded, and is held");
        let mut cx = Context::new(Time::ZERO, key, resident.header.fired);
        let effect = resident.account.on(&ticks[at], &mut cx);
        let effect = effect.map_err(|failure| RunError::Account(key, failure))?;
        assert!(effect <= Effect::Hot, "an account changes its hot part alone");
        if effect == Effect::Clean {
            return Ok(());
        }
        for (rule, firing, payload) in cx.notified() {
            fired[at].add(key, payload);
            let (version, life) = (Account::VERSION, resident.header.born);
            let name = NotificationKey { rule: *rule, version, agent: key, life, firing: *firing };
            let n = self.writer.number();
            work.notifications.push(Notification { n, key: name, payload: payload.clone() });
            resident.header.fired = *firing;
        }
        let header = resident.header.clone();
        let state = StateWrite::Hot(stored(&resident.account).hot);
        work.rows.push(RowWrite { key, header, state });
        Ok(())
    }

    fn commit(&mut self, work: &mut Work) -> Result<(), RunError> {
        if work.rows.is_empty() {
            return Ok(());
        }
        self.take_time(|due| due.at += due.pace.access);
        let Work { rows, notifications } = std::mem::take(work);
        self.writer.commit(self.store, rows, notifications)
    }

    fn load(&mut self, agents: &[u32]) -> Result<(), RunError> {
        for (agent, resident) in self.read(agents)? {
            self.residents[agent as usize] = Some(resident);
        }
        Ok(())
    }

    /// The agents as the store has them.
    fn read(&mut self, agents: &[u32]) -> Result<Vec<(u32, Box<Resident>)>, RunError> {
        if agents.is_empty() {
            return Ok(Vec::new());
        }
        self.take_time(|due| due.at += due.pace.access);
        let keys: Vec<Key> = agents.iter().map(|&agent| Key(agent.into())).collect();
        let rows = match self.each {
            Some(each) => each(&keys)?,
            None => self.store.load(self.writer.partition, &keys, LoadWay::Keys)?,
        };
        self.loaded += rows.len() as u64;
        let resident = |(key, row): (Key, Row)| {
            let state = row.state.as_ref();
            let account = state.map_or_else(
                || Err(agents::Failure("it is not in the store".to_owned())),
                |state| Account::decode(row.header.version, &state.cold, &state.hot),
            );
            let account = account.map_err(|failure| RunError::Account(key, failure))?;
            Ok((key.0 as u32, Box::new(Resident { header: row.header, account })))
        };
        rows.into_iter().map(resident).collect()
    }
}

/// The agents that are not in the cache, in the order of their keys.
fn missing(turns: &[Turn]) -> Vec<u32> {
    let mut agents: Vec<u32> =
        turns.iter().filter(|turn| !turn.hit).map(|turn| turn.agent).collect();
    agents.sort_unstable();
    agents
}

#[cfg(test)]
mod tests {
    use agents_store::Memory;
    use gate::EvictionRule;

    use super::*;
    use crate::load::{Load, LoadSpec, populate};
    use crate::policy::{Order, PolicySpec};

    /// The ratio was the policy's own word, whatever was asked of the store.
    #[test]
    fn hits_are_turns_for_which_the_store_returns_no_row() {
        const AGENTS: u32 = 100;
        let goes = AtomicBool::new(false);
        let (load, store) = (Load::new(LoadSpec::new(AGENTS, 3)), Memory::new());
        populate(&load, &store, 0, (&goes, |_| ())).unwrap();
        let (order, victim) = (Order::Cohort, EvictionRule::Lru.into());
        let spec = PolicySpec { agents: AGENTS, room: AGENTS, order, victim, seed: 3 };
        let policy = Policy::new(spec).unwrap();
        let mut direct = Direct::open(&store, 0, policy, (AGENTS, 1, 1)).unwrap();
        direct.tick(&load.tick(1), &goes).unwrap();
        assert!((direct.hit_ratio() - 1.0).abs() < 1e-12, "what fills the cache is no miss");
        direct.load(&[1, 2, 3, 4, 5]).unwrap();
        assert!((direct.hit_ratio() - 0.95).abs() < 1e-12, "{}", direct.hit_ratio());
    }
}
