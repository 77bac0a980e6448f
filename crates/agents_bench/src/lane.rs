//! The interactive lane: urgent messages to single agents that are not in memory, one after the other at fixed
//! moments, while multicasts to all keep the server busy, or while nothing does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agents::{Destination, Key, Priority};
use rand::RngExt;
use workload::stream;

use crate::account::{Account, Tick};
use crate::load::{Load, RunError};
use crate::server::Server;

/// The number of the first urgent message; ticks to all are below.
const FIRST: u64 = 1 << 40;
/// Draws of an agent that is not cached before it is said that all are.
const DRAWS_MAX: u32 = 10_000;

/// Urgent messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Their number.
    pub count: u32,
    /// The span between two.
    pub every: Duration,
    /// The seed of the agents that they go to.
    pub seed: u64,
}

impl Server<Account> {
    /// The time of each urgent message from the moment when it was to be given until its notification was to be
    /// delivered, so that its effect is committed. Meanwhile the ticks that `next` yields, each with the number of
    /// its notifications, go to all, one after the other without a pause; `None` leaves the server idle.
    ///
    /// # Errors
    /// The store fails or refuses, all agents are cached, or `stop` was set.
    pub fn lane(
        &mut self,
        load: &Load,
        probes: Probes,
        next: &mut dyn FnMut() -> Result<Option<(Tick, u64)>, RunError>,
        stop: &AtomicBool,
    ) -> Result<Vec<Duration>, RunError> {
        self.listen();
        let (mut own, mut chance) = (VecDeque::new(), stream(probes.seed, 0));
        // Nobody is told at the start that a pass before has ended.
        let mut left = self.multicast(&mut own, next)?;
        let start = self.now();
        let (mut given, mut times, mut due) = (0, Vec::new(), BTreeMap::new());
        while times.len() < probes.count as usize {
            let at = start + probes.every * given;
            if given < probes.count && self.now() >= at {
                let key = self.cold(load, &mut chance)?;
                let number = FIRST + u64::from(given);
                due.insert(number, (key, at));
                let to = Destination::One(key);
                let offer = self.offer(load.shock(number), to, Priority::Urgent);
                own.push_back(offer);
                given += 1;
                continue;
            }
            let is_last = given == probes.count;
            let patience = if is_last { Duration::from_secs(60) } else { at.since(self.now()) };
            self.step(&mut own, patience, stop)?;
            for told in self.heard() {
                let number = Account::number(&told.payload);
                match due.remove(&number) {
                    Some((key, at)) if key == told.agent => times.push(told.at.since(at)),
                    Some(_) => return Err(RunError::Unwanted(format!("{told:?}"))),
                    None => left = left.map(|left| left.saturating_sub(1)),
                }
            }
            if left == Some(0) && given < probes.count {
                left = self.multicast(&mut own, next)?;
            }
        }
        while !(own.is_empty() && self.is_idle()) {
            self.step(&mut own, Duration::from_secs(60), stop)?;
        }
        self.heard();
        Ok(times)
    }

    /// Offers the next tick to all; the number of its notifications.
    fn multicast(
        &mut self,
        own: &mut VecDeque<agents::Event<Tick>>,
        next: &mut dyn FnMut() -> Result<Option<(Tick, u64)>, RunError>,
    ) -> Result<Option<u64>, RunError> {
        let Some((tick, count)) = next()? else { return Ok(None) };
        let offer = self.offer(tick, Destination::All, Priority::Normal);
        own.push_back(offer);
        Ok(Some(count))
    }

    /// An agent that is not in memory.
    fn cold(&self, load: &Load, chance: &mut workload::Chance) -> Result<Key, RunError> {
        let agents = u64::from(load.spec().agents);
        let mut draws = (0..DRAWS_MAX).map(|_| Key(chance.random_range(0..agents)));
        let found = draws.find(|&key| !self.core.is_cached(key));
        found.ok_or_else(|| RunError::Unwanted("all agents are cached".to_owned()))
    }
}
