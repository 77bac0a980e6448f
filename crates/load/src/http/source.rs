//! Origin of a thread's requests: clients that think, or arrivals that wait for nobody.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter;

use gate::Time;
use workload::{Chance, Dist, stream};

use super::plan::{Load, PlanSpec};
use crate::asks::THINKING;
use crate::schedule::Due;

/// Origin of requests.
pub(super) enum Source {
    Closed {
        think: Option<Dist>,
        chance: Chance,
        /// Clients that are to ask now and have no connection, with the moment from which they are;
        /// `None` at the start of the run: a client is there when its thread gets to it.
        ready: VecDeque<Option<Time>>,
        /// Clients that think: until when, and their connection.
        thinking: BinaryHeap<Reverse<(Time, u64)>>,
    },
    Open {
        schedule: Due,
        in_flight_max: u32,
        /// Open connections that nobody uses, the last used on top.
        idle: Vec<u32>,
    },
}

impl Source {
    /// The share of thread `number` of this part in the load.
    pub(super) fn new(spec: &PlanSpec, number: u32) -> Source {
        let number = spec.part.thread(number, spec.threads);
        let threads = spec.part.threads(spec.threads);
        match &spec.load {
            &Load::Closed { clients, think } => Source::Closed {
                think: (think != Dist::Constant(0.0)).then_some(think),
                chance: stream(spec.seed, THINKING + u64::from(number)),
                ready: {
                    let more = u32::from(number < clients % threads);
                    iter::repeat_n(None, (clients / threads + more) as usize).collect()
                },
                thinking: BinaryHeap::new(),
            },
            Load::Open { arrivals, in_flight_max } => Source::Open {
                schedule: Due::steady(*arrivals, spec.seed, number, threads),
                in_flight_max: spec.part.share(*in_flight_max),
                idle: Vec::new(),
            },
            Load::Varying { schedule, in_flight_max } => {
                let warmup_s = spec.warmup.as_secs_f64();
                Source::Open {
                    schedule: Due::varying(schedule, warmup_s, spec.seed, number, threads),
                    in_flight_max: spec.part.share(*in_flight_max),
                    idle: Vec::new(),
                }
            }
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        matches!(self, Source::Closed { ready, .. } if !ready.is_empty())
    }

    /// When something is to start next, as far as that is known.
    pub(super) fn next_due(&self) -> Option<Time> {
        match self {
            Source::Closed { thinking, .. } => thinking.peek().map(|Reverse((due, _))| *due),
            Source::Open { schedule, .. } => Some(schedule.due()),
        }
    }
}
