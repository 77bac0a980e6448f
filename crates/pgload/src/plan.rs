//! Plan of a run, checked before it begins.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use gate::Time;
use load::asks::{Asks, Order, Tickets};
use load::http::{Load, Naming};
use measure::{ClassSpec, RunHeader, RunPart, Until, figures};
use tpcc::Config;
use workload::{Deck, Dist, DistError, Document, DocumentError, DocumentSet};

use crate::script::Scripts;

/// Most connections of a run.
const CONNECTIONS_MAX: u32 = 10_000;
/// The most cards of a deck.
const CARDS_MAX: u64 = 10_000_000;

/// Unchecked plan of a run; [`Plan::new`] checks it.
#[derive(Clone, Debug)]
pub struct PlanSpec {
    /// The way to the database.
    pub config: Config,
    /// Name of the database where one says what was measured: no secret is in it.
    pub target: String,
    /// What is run.
    pub scripts: Scripts,
    /// The load. A closed client has a connection of its own.
    pub load: Load,
    /// Connections of an open load, 1 to 10000: an arrival that finds none free waits for one.
    pub connections: u32,
    /// When the run ends. A number of transactions includes those of the warm-up.
    pub until: Until,
    /// The length at the start that is recorded, but not to be used.
    pub warmup: Duration,
    /// The length of the record's intervals.
    pub interval: Duration,
    /// Number of threads, at least 1.
    pub threads: u32,
    /// Order of the scripts. One that is listed names them by their numbers.
    pub order: Order,
    /// Tries of a transaction that the database gives up for the sake of others (40001, 40P01), at
    /// most; 0 is without limit.
    pub tries_max: u32,
    /// A run in which connections fail, and nothing else has come, for so long has lost its server.
    pub lost_after: Duration,
    /// The seed of all chance.
    pub seed: u64,
    /// The part of a run in several processes that this is: load, end and seed are the whole run's, threads and
    /// the connections of an open load each part's.
    pub part: RunPart,
}

impl PlanSpec {
    /// A spec with the usual choices: no warm-up, intervals of a second, one thread, 20 connections
    /// under open load, scripts from a deck, one try.
    pub fn new(
        config: Config,
        target: String,
        scripts: Scripts,
        load: Load,
        until: Until,
    ) -> PlanSpec {
        PlanSpec {
            config,
            target,
            scripts,
            load,
            connections: 20,
            until,
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            threads: 1,
            order: Order::Deck,
            tries_max: 1,
            lost_after: Duration::from_secs(10),
            seed: 1,
            part: RunPart::WHOLE,
        }
    }
}

/// Why a spec is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A number is out of its range.
    #[error("{what} must be {must}, but it is {is}")]
    Range {
        /// Name of the number.
        what: &'static str,
        /// Condition that it must meet.
        must: &'static str,
        /// Its value.
        is: String,
    },
    /// Some parts would have nothing to do.
    #[error("{of} parts are too many for {all} {what}: each needs one of its own")]
    Parts {
        /// The number of parts.
        of: u32,
        /// Name of what they share.
        what: &'static str,
        /// Number of it.
        all: u64,
    },
    /// The think time is no distribution.
    #[error("the think time is no distribution: {0}")]
    Think(#[from] DistError),
    /// The weights are none.
    #[error("the scripts cannot be drawn: {0}")]
    Weights(#[from] DocumentError),
    /// The scripts cannot be drawn in this order.
    #[error("the scripts cannot be drawn: {0}")]
    Order(
        /// Why, and the way out.
        String,
    ),
}

/// Plan of a run; checked, so that it can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) spec: PlanSpec,
    /// The scripts by their weights.
    pub(crate) classes: DocumentSet,
    /// Moments at which an interval ends, whatever its length: the end of the warm-up and of each phase.
    pub(crate) edges: Vec<Time>,
}

impl Plan {
    /// Checks a spec. No more threads are used than there are connections.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(mut spec: PlanSpec) -> Result<Plan, PlanError> {
        check_load(&spec)?;
        check_lengths(&spec)?;
        let threads = spec.threads.to_string();
        range("the number of threads", "1 to 1024", threads, (1..=1024).contains(&spec.threads))?;
        spec.threads = spec.threads.min(threads_max(&spec));
        let of = |script: &crate::script::Script| Document {
            name: script.name.clone(),
            bytes: 0,
            weight: script.weight,
        };
        let classes = DocumentSet::new(spec.scripts.all().iter().map(of).collect())?;
        check_order(&spec)?;
        let edges = spec.load.edges(spec.warmup);
        Ok(Plan { spec, classes, edges })
    }

    /// The spec, as it is run.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// Connections that the run opens, or this part of it.
    pub fn connections(&self) -> u32 {
        connections(&self.spec)
    }

    /// Numbers of these connections among those of all parts.
    pub(crate) fn numbers(&self) -> Range<u32> {
        let (part, own) = (self.spec.part, self.connections());
        let before = match self.spec.load {
            Load::Closed { clients, .. } => part.before(clients),
            Load::Open { .. } | Load::Varying { .. } => part.thread(0, own),
        };
        before..before + own
    }

    /// The asks of a thread.
    pub(crate) fn asks<'a>(&self, tickets: &'a Tickets, thread: u32) -> Asks<'a> {
        let spec = &self.spec;
        match (&spec.load, &spec.order) {
            (Load::Varying { schedule, .. }, Order::Listed(list)) if schedule.is_log() => {
                Asks::in_turns(tickets, list, thread)
            }
            (_, order) => Asks::new(tickets, &weights(spec), order, spec.seed, thread),
        }
    }

    /// The head of the run's record.
    pub fn header(&self, naming: Naming) -> RunHeader {
        let spec = &self.spec;
        let class = |document: &Document| ClassSpec {
            name: document.name.clone(),
            bytes: None,
            weight: document.weight,
        };
        RunHeader {
            id: naming.id,
            started: naming.started,
            tool: naming.tool,
            command: naming.command,
            seed: spec.seed,
            host: load::host::facts(),
            target: spec.target.clone(),
            load: spec.load.shape(spec.warmup),
            until: spec.until,
            warmup_s: spec.warmup.as_secs_f64(),
            classes: self.classes.documents().iter().map(class).collect(),
            settings: settings(spec),
            part: None,
            merged: Vec::new(),
        }
    }
}

fn connections(spec: &PlanSpec) -> u32 {
    match spec.load {
        Load::Closed { clients, .. } => spec.part.share(clients),
        Load::Open { .. } | Load::Varying { .. } => spec.connections,
    }
}

/// Threads that have something to do in each part.
fn threads_max(spec: &PlanSpec) -> u32 {
    match spec.load {
        Load::Closed { clients, .. } => clients / spec.part.of(),
        Load::Open { .. } | Load::Varying { .. } => spec.connections,
    }
}

fn weights(spec: &PlanSpec) -> Vec<u32> {
    spec.scripts.all().iter().map(|script| script.weight).collect()
}

fn check_order(spec: &PlanSpec) -> Result<(), PlanError> {
    let wrong = |text: String| Err(PlanError::Order(text));
    let has_gaps = matches!(&spec.load, Load::Varying { schedule, .. } if schedule.is_log());
    match &spec.order {
        Order::Deck | Order::Random if has_gaps => {
            wrong("a log's gaps go with its order, which the plan does not have".into())
        }
        Order::Listed(list) => {
            match list.iter().find(|one| **one as usize >= weights(spec).len()) {
                Some(one) => wrong(format!("the list names script {one}, and there are fewer")),
                None if list.is_empty() => wrong("the list of scripts is empty".into()),
                None => Ok(()),
            }
        }
        Order::Deck => match Deck::size_of(&weights(spec)) {
            size if size > CARDS_MAX => wrong(format!(
                "the weights make a deck of {size} cards, and {CARDS_MAX} are the most: give smaller \
                 weights, or draw at random"
            )),
            _ => Ok(()),
        },
        Order::Random => Ok(()),
    }
}

fn range(what: &'static str, must: &'static str, is: String, holds: bool) -> Result<(), PlanError> {
    if holds { Ok(()) } else { Err(PlanError::Range { what, must, is }) }
}

fn check_load(spec: &PlanSpec) -> Result<(), PlanError> {
    let of = spec.part.of();
    let enough = |what, all: u64| match all < u64::from(of) {
        true => Err(PlanError::Parts { of, what, all }),
        false => Ok(()),
    };
    if let Load::Closed { clients, .. } = spec.load {
        enough("clients", u64::from(clients.max(1)))?;
    }
    if let Load::Open { in_flight_max, .. } | Load::Varying { in_flight_max, .. } = spec.load {
        enough("transactions in flight", u64::from(in_flight_max.max(1)))?;
    }
    if let Until::Requests(all) = spec.until {
        enough("transactions", all.max(1))?;
    }
    let open = connections(spec);
    let fits = (1..=CONNECTIONS_MAX).contains(&open);
    match &spec.load {
        Load::Closed { think, .. } => {
            range("the number of clients", "1 to 10000", open.to_string(), fits)?;
            let mean = think.check()?.mean();
            range("the mean think time", "below a day", figures::time(mean), mean < 86_400.0)
        }
        Load::Open { in_flight_max, .. } | Load::Varying { in_flight_max, .. } => {
            range("the number of connections", "1 to 10000", open.to_string(), fits)?;
            if let Load::Open { arrivals, .. } = &spec.load {
                let rate = arrivals.rate();
                let holds = rate.is_finite() && rate > 0.0 && rate <= 1e8;
                range("the rate", "above 0 and at most 100000000/s", figures::rate(rate), holds)?;
            }
            let holds = (1..=1_000_000).contains(in_flight_max);
            let is = in_flight_max.to_string();
            range("the bound on transactions in flight", "1 to 1000000", is, holds)
        }
    }
}

fn check_lengths(spec: &PlanSpec) -> Result<(), PlanError> {
    const DAY: Duration = Duration::from_secs(86_400);
    match spec.until {
        Until::Requests(all) => {
            range("the number of transactions", "at least 1", all.to_string(), all > 0)?;
        }
        Until::Seconds(seconds) => {
            let holds = seconds > 0.0 && seconds <= 30.0 * 86_400.0;
            range("the duration", "above 0 and at most 30 days", figures::time(seconds), holds)?;
        }
    }
    for (what, span) in [
        ("the interval", spec.interval),
        ("the time after which a server is lost", spec.lost_after),
    ] {
        let holds = (Duration::from_millis(10)..=DAY).contains(&span);
        range(what, "10 ms to a day", format!("{span:?}"), holds)?;
    }
    range("the warm-up", "at most a day", format!("{:?}", spec.warmup), spec.warmup <= DAY)
}

/// Everything in force that has no field of its own in the record.
fn settings(spec: &PlanSpec) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| drop(settings.insert(name.to_owned(), value));
    set("protocol", spec.scripts.protocol().name().into());
    set("idle", "sleep".into());
    let order = match &spec.order {
        Order::Deck => "deck",
        Order::Random => "random",
        Order::Listed(_) => "listed",
    };
    set("draw", order.into());
    set("threads", spec.threads.to_string());
    set("interval", format!("{:?}", spec.interval));
    set("lost-after", format!("{:?}", spec.lost_after));
    set("max-tries", spec.tries_max.to_string());
    match spec.load {
        Load::Open { .. } | Load::Varying { .. } => {
            set("connections", spec.connections.to_string());
        }
        Load::Closed { think, .. } if think != Dist::Constant(0.0) => {
            set("think", format!("{think:?}"));
        }
        Load::Closed { .. } => {}
    }
    settings
}
