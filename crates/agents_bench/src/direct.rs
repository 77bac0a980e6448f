//! A pass over a store without the server's core: by a policy of order and eviction, agents one by one or in
//! chunks. With chunks of one it is what a server without batches does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use agents::{
    Agent, Context, Effect, Header, Key, LoadWay, Notification, NotificationKey, RowWrite,
    StateWrite,
};
use agents_store::Store;
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
    /// Rows that the store returned since the cache was filled.
    loaded: u64,
    turns: u64,
    due: Option<Due>,
}

impl std::fmt::Debug for Direct<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        let mut it =
            Direct { store, writer, policy, residents, chunk, loaded: 0, turns: 0, due: None };
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

    /// The time by which the last pass ended later than its pace says: the machine was too slow for it.
    pub fn late(&self) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.late)
    }

    /// Gives a tick to each agent, unless `stop` is set meanwhile; who fired.
    ///
    /// # Errors
    /// The store fails, an account does, or it was stopped.
    pub fn tick(&mut self, tick: &Tick, stop: &AtomicBool) -> Result<Fired, RunError> {
        let mut fired = Fired::default();
        self.policy.begin();
        self.take_time(|due| due.at = Instant::now());
        let mut turns: Vec<Turn> = Vec::with_capacity(self.chunk);
        loop {
            turns.clear();
            while turns.len() < self.chunk
                && let Some(turn) = self.policy.take()
            {
                turns.push(turn);
            }
            if turns.is_empty() {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            self.run(&turns, tick, &mut fired)?;
            turns.iter().for_each(|turn| self.policy.done(turn.agent));
            let count = turns.len() as u32;
            self.take_time(|due| {
                due.at += due.pace.turn * count;
                due.wait(WAIT_LEAST);
            });
        }
        self.take_time(|due| {
            due.late = Instant::now().saturating_duration_since(due.at);
            due.wait(Duration::ZERO);
        });
        self.writer.finish(self.store)?;
        Ok(fired)
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

    fn run(&mut self, turns: &[Turn], tick: &Tick, fired: &mut Fired) -> Result<(), RunError> {
        for turn in turns {
            if let Some(out) = turn.evicted {
                self.residents[out as usize] = None;
            }
        }
        self.turns += turns.len() as u64;
        let mut missing: Vec<u32> =
            turns.iter().filter(|turn| !turn.hit).map(|turn| turn.agent).collect();
        missing.sort_unstable();
        self.load(&missing)?;
        let (mut rows, mut notifications) = (Vec::new(), Vec::new());
        for turn in turns {
            let key = Key(turn.agent.into());
            let resident = self.residents[turn.agent as usize].as_mut();
            let resident = resident.expect("it was loaded, and is held");
            let mut cx = Context::new(Time::ZERO, key, resident.header.fired);
            let effect = resident.account.on(tick, &mut cx);
            let effect = effect.map_err(|failure| RunError::Account(key, failure))?;
            assert!(effect <= Effect::Hot, "an account changes its hot part alone");
            if effect == Effect::Clean {
                continue;
            }
            for (rule, firing, payload) in cx.notified() {
                fired.add(key, payload);
                let (version, life) = (Account::VERSION, resident.header.born);
                let name =
                    NotificationKey { rule: *rule, version, agent: key, life, firing: *firing };
                let n = self.writer.number();
                notifications.push(Notification { n, key: name, payload: payload.clone() });
                resident.header.fired = *firing;
            }
            let header = resident.header.clone();
            let state = StateWrite::Hot(stored(&resident.account).hot);
            rows.push(RowWrite { key, header, state });
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.take_time(|due| due.at += due.pace.access);
        self.writer.commit(self.store, rows, notifications)
    }

    fn load(&mut self, agents: &[u32]) -> Result<(), RunError> {
        if agents.is_empty() {
            return Ok(());
        }
        self.take_time(|due| due.at += due.pace.access);
        let keys: Vec<Key> = agents.iter().map(|&agent| Key(agent.into())).collect();
        for (key, row) in self.store.load(self.writer.partition, &keys, LoadWay::Keys)? {
            self.loaded += 1;
            let state = row.state.as_ref();
            let account = state.map_or_else(
                || Err(agents::Failure("it is not in the store".to_owned())),
                |state| Account::decode(row.header.version, &state.cold, &state.hot),
            );
            let account = account.map_err(|failure| RunError::Account(key, failure))?;
            let resident = Resident { header: row.header, account };
            self.residents[key.0 as usize] = Some(Box::new(resident));
        }
        Ok(())
    }
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
        let (order, victim) = (Order::Cohort, EvictionRule::Lru);
        let spec = PolicySpec { agents: AGENTS, room: AGENTS, order, victim, seed: 3 };
        let policy = Policy::new(spec).unwrap();
        let mut direct = Direct::open(&store, 0, policy, (AGENTS, 1, 1)).unwrap();
        direct.tick(&load.tick(1), &goes).unwrap();
        assert!((direct.hit_ratio() - 1.0).abs() < 1e-12, "what fills the cache is no miss");
        direct.load(&[1, 2, 3, 4, 5]).unwrap();
        assert!((direct.hit_ratio() - 0.95).abs() < 1e-12, "{}", direct.hit_ratio());
    }
}
