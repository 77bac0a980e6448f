//! The inputs of a benchmark: accounts and ticks from one seed, the notifications that they must lead to, and
//! the writing of the accounts into a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agents::{
    Commit, Cursor, Failure, Header, Key, Notification, Outcome, PartitionError, RowWrite,
    StateWrite, Stored, Timer, TimerName,
};
use agents_store::{Content, Store, StoreError};
use gate::SpecError;
use rand::RngExt;
use workload::{Chance, stream};

use crate::account::{Account, Holding, Tick};
use agents::Agent;

/// Number of holdings of an account, as in the paper.
const HOLDINGS: usize = 10;
/// Rows of a transaction while accounts are written.
const CHUNK: u64 = 1_000;
/// A price is within this share of its mean.
const SWING: f64 = 0.05;
/// The stream of the mean prices; ticks and accounts have those above.
const MEANS: u64 = 0;
const TICKS: u64 = 1 << 62;
const ACCOUNTS: u64 = 1 << 61;

/// The parameters of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadSpec {
    /// Number of accounts.
    pub agents: u32,
    /// Size of an account's state \[bytes\], at least 200.
    pub bytes: usize,
    /// Number of symbols, at least 10.
    pub symbols: u32,
    /// Limits of profit and loss, in standard deviations of the profit: 1.645 for a tenth outside.
    pub limits: f64,
    /// Seed of accounts and prices.
    pub seed: u64,
}

impl LoadSpec {
    /// The paper's accounts: 1 kB, a tenth outside at each tick.
    pub fn new(agents: u32, seed: u64) -> LoadSpec {
        LoadSpec { agents, bytes: 1_000, symbols: 1_000, limits: 1.645, seed }
    }
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    spec: LoadSpec,
    means: Vec<i64>,
}

/// A cause why a pass came to no end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There can be no such partition.
    #[error("no such partition can be: {0}")]
    Partition(#[from] PartitionError),
    /// There can be no such scheduler.
    #[error("no such scheduler can be: {0:?}")]
    Scheduler(SpecError),
    /// An account could not be read or could not handle its message.
    #[error("account {}: {}", .0.0, .1.0)]
    Account(Key, Failure),
    /// The store did not take a transaction that it must take.
    #[error("the store did not take a transaction: {0:?}; does something else write there?")]
    Refused(Outcome),
    /// The core asked for what such a load never leads to.
    #[error("the core asked for what no such load leads to: {0}")]
    Unwanted(String),
    /// Others were notified than must be.
    #[error(
        "{} notifications (sum {:x}) where {} (sum {:x}) must be: a defect of ours",
        .fired.count, .fired.sum, .expected.count, .expected.sum
    )]
    Other {
        /// Those that were notified.
        fired: Fired,
        /// Those that must be.
        expected: Fired,
    },
    /// It was told to stop.
    #[error("it was stopped")]
    Stopped,
    /// Nothing happened for too long.
    #[error("a pass came to no end: nothing happened for {0} s")]
    Silent(u64),
    /// A thread could not be started, or the costs not be read.
    #[error("the machine refused: {0}")]
    Machine(#[from] std::io::Error),
    /// The database did not tell its costs.
    #[error("the database does not tell its costs: {0}")]
    Database(String),
}

/// Notifications of a pass: their number, and a sum over agent and content that does not depend on order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// The number.
    pub count: u64,
    /// The sum.
    pub sum: u64,
}

impl Fired {
    /// One more.
    pub fn add(&mut self, agent: Key, payload: &[u8]) {
        self.count += 1;
        // FNV-1a of key and content (Fowler, Noll, Vo).
        let bytes = agent.0.to_le_bytes();
        let hash = bytes.iter().chain(payload).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.sum = self.sum.wrapping_add(hash);
    }
}

impl Fired {
    /// Those of another pass, too.
    pub fn merge(&mut self, other: Fired) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl Load {
    /// The load of these parameters.
    ///
    /// # Panics
    /// If a parameter is out of its range.
    pub fn new(spec: LoadSpec) -> Load {
        assert!(spec.bytes >= 200 && spec.symbols as usize >= HOLDINGS, "no load: {spec:?}");
        let mut chance = stream(spec.seed, MEANS);
        let means = (0..spec.symbols).map(|_| chance.random_range(1_000..10_000)).collect();
        Load { spec, means }
    }

    /// Its parameters.
    pub fn spec(&self) -> LoadSpec {
        self.spec
    }

    /// The account of a key.
    pub fn account(&self, key: Key) -> Account {
        let (mut account, mut chance) = self.without_rest(key);
        let (mut cold, mut hot) = (Vec::new(), Vec::new());
        account.encode_cold(&mut cold);
        account.encode_hot(&mut hot);
        let rest = self.spec.bytes.saturating_sub(cold.len() + hot.len());
        account.rest = (0..rest).map(|_| chance.random()).collect();
        account
    }

    /// The account without what is only carried along, and the stream that goes on with that.
    fn without_rest(&self, key: Key) -> (Account, Chance) {
        let mut chance = stream(self.spec.seed, ACCOUNTS + key.0);
        let mut holdings: Vec<Holding> = Vec::with_capacity(HOLDINGS);
        let mut variance = 0.0;
        while holdings.len() < HOLDINGS {
            let symbol = chance.random_range(0..self.spec.symbols);
            if holdings.iter().any(|one| one.symbol == symbol) {
                continue;
            }
            let (count, bought) = (chance.random_range(100..1_000), self.means[symbol as usize]);
            // The variance of a price that is anywhere between its bounds with equal chance.
            variance += (f64::from(count) * bought as f64 * SWING).powi(2) / 3.0;
            holdings.push(Holding { symbol, count, bought });
        }
        let most = (self.spec.limits * variance.sqrt()) as i64;
        let limits = (-most, most);
        (Account { holdings, limits, rest: Vec::new(), notified: false, last: 0 }, chance)
    }

    /// A tick that takes no account outside: each price is its mean.
    pub fn calm(&self, number: u64) -> Tick {
        Tick { number, prices: self.means.iter().copied().collect() }
    }

    /// A tick that takes every account outside: each price is twice its mean.
    pub fn shock(&self, number: u64) -> Tick {
        Tick { number, prices: self.means.iter().map(|mean| 2 * mean).collect() }
    }

    /// The tick of a number: each price anywhere within 5 % of its mean.
    pub fn tick(&self, number: u64) -> Tick {
        let mut chance = stream(self.spec.seed, TICKS + number);
        let prices = self.means.iter().map(|&mean| {
            let swing = (mean as f64 * SWING) as i64;
            mean + chance.random_range(-swing..=swing)
        });
        Tick { number, prices: prices.collect::<Arc<[i64]>>() }
    }

    /// The notifications that ticks to all must lead to, by one loop over the accounts as they were drawn.
    ///
    /// # Errors
    /// An account that cannot handle a tick.
    pub fn expected(&self, ticks: &[Tick]) -> Result<Vec<Fired>, RunError> {
        self.expected_of((0..u64::from(self.spec.agents)).map(Key), ticks)
    }

    /// The same of ticks to these accounts.
    ///
    /// # Errors
    /// An account that cannot handle a tick.
    pub fn expected_of(
        &self,
        keys: impl IntoIterator<Item = Key>,
        ticks: &[Tick],
    ) -> Result<Vec<Fired>, RunError> {
        let mut fired = vec![Fired::default(); ticks.len()];
        for key in keys {
            let (account, _) = self.without_rest(key);
            for (tick, fired) in ticks.iter().zip(&mut fired) {
                let profit = account.profit(&tick.prices);
                let profit = profit.map_err(|failure| RunError::Account(key, failure))?;
                if account.is_outside(profit) {
                    fired.add(key, &Account::payload(tick.number, profit));
                }
            }
        }
        Ok(fired)
    }
}

/// The two parts of an agent's state.
pub(crate) fn stored(agent: &impl Agent) -> Stored {
    let (mut cold, mut hot) = (Vec::new(), Vec::new());
    agent.encode_cold(&mut cold);
    agent.encode_hot(&mut hot);
    Stored { cold, hot }
}

/// A partition as the one who writes there directly knows it.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) partition: u32,
    epoch: agents::Epoch,
    version: u64,
    cursor: Cursor,
    /// Notifications that were told and are still in the outbox.
    told: Vec<u64>,
}

impl Writer {
    /// Takes the partition over.
    pub(crate) fn open<M: Content>(
        store: &dyn Store<M>,
        partition: u32,
    ) -> Result<Writer, RunError> {
        let snapshot = store.open(partition)?;
        let (epoch, version, cursor) = (snapshot.epoch, snapshot.version, snapshot.cursor);
        Ok(Writer { partition, epoch, version, cursor, told: Vec::new() })
    }

    /// The number of the next notification.
    pub(crate) fn number(&mut self) -> u64 {
        self.cursor.notified += 1;
        self.cursor.notified
    }

    /// Commits rows and notifications, and removes those of the commit before from the outbox.
    pub(crate) fn commit<M: Content>(
        &mut self,
        store: &dyn Store<M>,
        rows: Vec<RowWrite>,
        notifications: Vec<Notification>,
    ) -> Result<(), RunError> {
        self.commit_with(store, (rows, notifications), BTreeMap::new())
    }

    /// The same with timers.
    pub(crate) fn commit_with<M: Content>(
        &mut self,
        store: &dyn Store<M>,
        (rows, notifications): (Vec<RowWrite>, Vec<Notification>),
        timers: BTreeMap<(Key, TimerName), Option<Timer>>,
    ) -> Result<(), RunError> {
        let numbers = notifications.iter().map(|one| one.n).collect();
        let commit = Commit {
            epoch: self.epoch,
            version: self.version,
            cursor: self.cursor.clone(),
            rows,
            erased: Vec::new(),
            notifications,
            delivered: std::mem::replace(&mut self.told, numbers),
            sends: Vec::new(),
            timers,
            dead: Vec::new(),
        };
        match store.commit(self.partition, &commit)? {
            Outcome::Written => self.version += 1,
            other => return Err(RunError::Refused(other)),
        }
        Ok(())
    }

    /// Commits what is left, so that the outbox is empty.
    pub(crate) fn finish<M: Content>(&mut self, store: &dyn Store<M>) -> Result<(), RunError> {
        if self.told.is_empty() { Ok(()) } else { self.commit(store, Vec::new(), Vec::new()) }
    }
}

/// Writes all accounts of a load into a partition, in the order of their keys, unless `stop` is set
/// meanwhile; `told` learns how many are there.
///
/// # Errors
/// The store fails or refuses, or it was stopped.
pub fn populate(
    load: &Load,
    store: &dyn Store<Tick>,
    partition: u32,
    watched: (&AtomicBool, impl FnMut(u64)),
) -> Result<(), RunError> {
    let row = |key| {
        let state = StateWrite::Whole(stored(&load.account(key)));
        let header = Header { version: Account::VERSION, armed: true, ..Header::default() };
        RowWrite { key, header, state }
    };
    fill(store, partition, (load.spec.agents.into(), row), watched)
}

/// Writes the rows of so many agents, in the order of their keys.
pub(crate) fn fill<M: Content>(
    store: &dyn Store<M>,
    partition: u32,
    (agents, row): (u64, impl Fn(Key) -> RowWrite),
    (stop, mut told): (&AtomicBool, impl FnMut(u64)),
) -> Result<(), RunError> {
    let mut writer = Writer::open(store, partition)?;
    for first in (0..agents).step_by(CHUNK as usize) {
        let end = (first + CHUNK).min(agents);
        writer.commit(store, (first..end).map(Key).map(&row).collect(), Vec::new())?;
        told(end);
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
    }
    Ok(())
}
