//! A partition at a moment, for whoever looks at it: nothing depends on it.

use super::Partition;
use crate::agent::Agent;
use crate::message::Key;

/// A partition at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionView {
    /// Messages of the log that have not taken effect everywhere.
    pub waiting: u64,
    /// Messages of the pass that runs; 0 between passes.
    pub pass_messages: u64,
    /// Agents that it is known to wait for: cold ones are found bit by bit.
    pub pass_agents: u64,
    /// Agents in batches, in the interactive lane or not.
    pub running: u32,
    /// Agents of the interactive lane among them that wait for their run.
    pub lane: u32,
    /// Batches whose agents are being loaded.
    pub loading: u32,
    /// True while a transaction is on its way.
    pub is_committing: bool,
    /// Notifications that are not delivered.
    pub outbox: u64,
    /// Timers that are set.
    pub timers: u64,
}

impl<A: Agent> Partition<A> {
    /// The partition as it is now.
    pub fn view(&self) -> PartitionView {
        let is_running = self.pass.running;
        let messages = self.pass.until.0 - self.pass.spanned.0;
        let lane = self.ready.iter().chain(self.loading.values()).map(|batch| batch.lane());
        PartitionView {
            waiting: self.ingress.log_end().0 - self.window.low().0,
            pass_messages: if is_running { messages } else { 0 },
            pass_agents: self.pass.left() as u64,
            running: self.running,
            lane: lane.sum(),
            loading: self.loading.len() as u32,
            is_committing: self.committing.is_some(),
            outbox: self.outbox.pending(),
            timers: self.timers.len() as u64,
        }
    }

    /// True if the state of an agent is in memory.
    pub fn is_cached(&self, key: Key) -> bool {
        self.known.number(key).is_some_and(|agent| self.known.resident(agent).is_some())
    }
}
