//! Slots in reserve: lent where jobs have waited long, and taken back when none does any more.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Job, JobId, Time};

/// Further slots of each server, beyond its own, while a job has waited long.
///
/// When a job has waited for `after`, a server whose slots are all held gets one of these for the
/// next job of the discipline, which need not be that one. A slot that departs while nobody has
/// waited so long is one fewer of them. They are the slots of the highest indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reserve {
    /// Number of slots, for each server.
    pub slots: u32,
    /// Wait that a job must have behind it.
    pub after: Duration,
}

/// State of the loans from a reserve.
#[derive(Debug)]
pub(crate) struct Lending {
    pub(crate) spec: Reserve,
    /// Number of slots of each server that are lent.
    pub(crate) lent: Vec<u32>,
    /// Jobs that wait, since when.
    waiting: BTreeSet<(Time, JobId)>,
}

impl Lending {
    pub(crate) fn new(spec: Reserve, servers: usize) -> Lending {
        Lending { spec, lent: vec![0; servers], waiting: BTreeSet::new() }
    }

    pub(crate) fn join(&mut self, job: &Job) {
        self.waiting.insert((job.since, job.id));
    }

    pub(crate) fn leave(&mut self, job: &Job) {
        self.waiting.remove(&(job.since, job.id));
    }

    /// When somebody will have waited too long, or has.
    pub(crate) fn due(&self) -> Option<Time> {
        self.waiting.first().map(|&(since, _)| since + self.spec.after)
    }
}
