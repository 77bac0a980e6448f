//! The parameters of a partition, checked once, so that a partition that exists can run.

use std::fmt;
use std::time::Duration;

use gate::{CohortSpec, EvictionRule, PassSpec, SchedulerSpec, SpecError, TenantSpec};

use crate::message::Priority;

/// The parameters of a partition.
#[derive(Clone, Debug)]
pub struct PartitionSpec {
    /// Its number.
    pub id: u32,
    /// Most agents in the cache, at least 16.
    pub agents_max: u32,
    /// Bytes of states in the cache above which agents leave it; a batch may go beyond.
    pub state_bytes_max: u64,
    /// Bytes of messages in memory above which new ones are refused.
    pub message_bytes_max: u64,
    /// Choice among the cached agents without messages.
    pub eviction: EvictionRule,
    /// Most urgent runs in a row while others wait; `None` for any number.
    pub urgent_max: Option<u32>,
    /// Wait that raises an agent by one priority within its pass.
    pub ageing: Option<Duration>,
    /// Most agents that start together from those with messages of their own; `None` for all.
    pub members_max: Option<u32>,
    /// Turns of tenants among these.
    pub tenants: Option<TenantSpec>,
    /// Most agents of a batch, at least 1; never more than an eighth of the cache.
    pub batch_agents_max: u32,
    /// Most deliveries of a batch, at least 1.
    pub batch_deliveries_max: u32,
    /// Most messages of the log that take part in a pass, at least 1.
    pub pass_messages_max: u64,
    /// Span for which ids of messages are remembered.
    pub id_window: Duration,
    /// Most ids that are remembered: beyond it messages with an id are refused.
    pub ids_max: usize,
    /// Wait before something is asked of the store again, above 0.
    pub retry: Duration,
    /// Most notifications in delivery, and most messages on their way to other agents, at least 1.
    pub held_max: usize,
    /// Most notifications that are not delivered, at least 1: at this number no batch runs before some
    /// are. One batch may go beyond.
    pub outbox_max: u64,
    /// Most messages to other agents on their way, at least 1: at this number those of clients are
    /// refused. Agents may go beyond.
    pub sent_max: u64,
}

impl PartitionSpec {
    /// A partition with a cache of this many agents, and all else as is usual.
    pub fn new(id: u32, agents_max: u32) -> PartitionSpec {
        PartitionSpec {
            id,
            agents_max,
            state_bytes_max: u64::MAX,
            message_bytes_max: 64 << 20,
            eviction: EvictionRule::Frequency,
            urgent_max: Some(64),
            ageing: None,
            members_max: None,
            tenants: None,
            batch_agents_max: 1_000,
            batch_deliveries_max: 10_000,
            pass_messages_max: 100_000,
            id_window: Duration::from_secs(600),
            ids_max: 1_000_000,
            retry: Duration::from_millis(100),
            held_max: 1_000,
            outbox_max: 1_000_000,
            sent_max: 1_000_000,
        }
    }

    pub(crate) fn scheduler(&self) -> Result<SchedulerSpec, PartitionError> {
        let counts = [
            (self.agents_max >= 16, "a cache holds at least 16 agents"),
            (self.batch_agents_max > 0, "a batch has at least 1 agent"),
            (self.batch_deliveries_max > 0, "a batch has at least 1 delivery"),
            (self.pass_messages_max > 0, "a pass has at least 1 message"),
            (self.held_max > 0, "at least 1 notification is in delivery"),
            (self.outbox_max > 0, "an outbox holds at least 1 notification"),
            (self.sent_max > 0, "at least 1 message to another agent is on its way"),
            (!self.retry.is_zero(), "a wait before the store is asked again is above 0"),
        ];
        if let Some((_, rule)) = counts.into_iter().find(|(holds, _)| !holds) {
            return Err(PartitionError::Range(rule));
        }
        Ok(SchedulerSpec {
            cohorts: CohortSpec {
                capacity: self.agents_max,
                run_max: 1,
                cached_max: None,
                levels: Priority::LEVELS,
            },
            bytes_max: (self.state_bytes_max < u64::MAX).then_some(self.state_bytes_max),
            eviction: self.eviction,
            passes: Some(PassSpec {
                members_max: self.members_max,
                runs_max: u32::MAX,
                tenants: self.tenants.clone(),
            }),
            urgent_max: self.urgent_max,
            ageing: self.ageing,
        })
    }

    /// Most agents of a batch, so that four batches at once fill at most half of the cache.
    pub(crate) fn batch_agents(&self) -> u32 {
        self.batch_agents_max.min(self.agents_max / 8)
    }
}

/// The cause why there can be no such partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionError {
    /// A number is out of its range.
    Range(&'static str),
    /// The scheduler cannot be.
    Scheduler(SpecError),
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionError::Range(rule) => f.write_str(rule),
            PartitionError::Scheduler(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PartitionError {}
