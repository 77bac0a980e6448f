//! The live page of the server: the page itself, which has no numbers, and the numbers that it asks for, which
//! need the right to read.

use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use live::page::{Words, page};
use serde::Serialize;

use crate::delivery::Board;
use crate::partition::Handle;

const WORDS: Words = Words {
    title: "Sekisho agents",
    asking: "Asking the server ...",
    now: ["messages", "notifications waiting", "Messages and notifications that wait"],
    rate: [
        "handled",
        "notified",
        "Messages handled per second, and notifications delivered per second,",
    ],
};

/// The page, one HTML file that loads nothing but `/state.json`.
pub(crate) static PAGE: LazyLock<String> =
    LazyLock::new(|| page(&WORDS, include_str!("page.html"), include_str!("page.js")));

/// The server at a moment, as the page reads it.
#[derive(Serialize)]
struct State {
    version: String,
    /// What it does, as the page says it behind its version.
    says: &'static str,
    at_unix_s: f64,
    uptime_s: f64,
    memory: Memory,
    requests: Requests,
    partitions: Vec<PartitionState>,
    destinations: Vec<DestinationState>,
    sources: Sources,
    /// The last faults of the store and of the delivery.
    faults: Vec<String>,
}

#[derive(Serialize)]
struct Memory {
    /// The bound of states, messages and what is around them \[B\].
    bound: u64,
    states: u64,
    messages: u64,
    /// The process as the system sees it \[B\]; none where it does not say.
    resident: Option<u64>,
}

#[derive(Serialize)]
struct Requests {
    open: u64,
    accepted: u64,
    refused: u64,
}

#[derive(Serialize)]
struct Sources {
    refused: u64,
    last: Option<String>,
}

#[derive(Serialize)]
struct PartitionState {
    id: u32,
    epoch: u64,
    agents: u64,
    cached: u32,
    hits: u64,
    loads: u64,
    handled: u64,
    passes: u64,
    commits: u64,
    taken_back: u64,
    waiting: u64,
    pass_messages: u64,
    pass_agents: u64,
    running: u32,
    loading: u32,
    is_committing: bool,
    lane: u32,
    lane_total: u64,
    outbox: u64,
    timers: u64,
    store_errors: u64,
}

#[derive(Serialize)]
struct DestinationState {
    name: String,
    means: &'static str,
    slots: usize,
    in_flight: u64,
    delivered: u64,
    failed: u64,
    /// Failures in a row; 0 where the last attempt arrived.
    failures: u64,
    waiting: usize,
    gathered: usize,
    dead: usize,
    last_error: Option<String>,
}

/// The parts of the server that the page shows.
pub(crate) struct Shown<'a> {
    pub(crate) partitions: &'a [Handle],
    pub(crate) board: &'a Board,
    pub(crate) uptime: Duration,
    /// The bound of memory \[B\].
    pub(crate) memory: u64,
    pub(crate) is_closing: bool,
    /// Requests that change something: under way, accepted messages, refused ones.
    pub(crate) requests: [u64; 3],
    /// Lines and rows of sources that were refused, and the last cause.
    pub(crate) lines_refused: (u64, Option<String>),
}

/// The numbers of this moment.
pub(crate) fn state_json(shown: Shown<'_>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_superseded = |it: &Handle| it.shown.stopped.load(Ordering::Relaxed);
    let says = if shown.partitions.iter().any(is_superseded) {
        "is superseded: another server has these agents"
    } else if shown.is_closing {
        "ends: it takes no messages"
    } else {
        "serves agents"
    };
    let partitions: Vec<PartitionState> = partitions(shown.partitions).collect();
    let bytes = shown.partitions.iter().map(|it| it.shown.figures());
    let (states, messages) = bytes.fold((0, 0), |(states, messages), it| {
        (states + it.state_bytes, messages + it.message_bytes)
    });
    let (refused, last) = shown.lines_refused;
    let [open, accepted, refused_requests] = shown.requests;
    let faults = shown.partitions.iter().filter_map(|it| it.shown.last_error());
    let state = State {
        version: format!("Sekisho {}", env!("CARGO_PKG_VERSION")),
        says,
        at_unix_s: now.as_secs_f64(),
        uptime_s: shown.uptime.as_secs_f64(),
        memory: Memory { bound: shown.memory, states, messages, resident: resident() },
        requests: Requests { open, accepted, refused: refused_requests },
        partitions,
        destinations: destinations(shown.board),
        sources: Sources { refused, last },
        faults: faults.chain(shown.board.last_error()).collect(),
    };
    serde_json::to_string(&state).expect("keys are texts, and numbers are finite")
}

fn partitions(all: &[Handle]) -> impl Iterator<Item = PartitionState> {
    all.iter().map(|handle| {
        let figures = handle.shown.figures();
        let (counts, view) = (figures.counts, figures.view);
        PartitionState {
            id: handle.id,
            epoch: handle.epoch.0,
            agents: figures.agents,
            cached: figures.cached,
            hits: counts.hits,
            loads: counts.loads,
            handled: counts.handled,
            passes: counts.passes,
            commits: counts.commits,
            taken_back: counts.taken_back,
            waiting: view.waiting,
            pass_messages: view.pass_messages,
            pass_agents: view.pass_agents,
            running: view.running,
            loading: view.loading,
            is_committing: view.is_committing,
            lane: view.lane,
            lane_total: counts.urgent,
            outbox: view.outbox,
            timers: view.timers,
            store_errors: handle.shown.store_errors.load(Ordering::Relaxed),
        }
    })
}

/// The destinations of the file, in the order of their names.
fn destinations(board: &Board) -> Vec<DestinationState> {
    let kept = board.shelf().of_destinations();
    let all = board.outlets();
    let all = all.into_iter().map(|(name, outlet)| {
        let kept = kept.get(&name).copied().unwrap_or_default();
        DestinationState {
            means: outlet.means,
            slots: outlet.slots,
            in_flight: outlet.in_flight.load(Ordering::Relaxed),
            delivered: outlet.delivered.load(Ordering::Relaxed),
            failed: outlet.failed.load(Ordering::Relaxed),
            failures: outlet.failures.load(Ordering::Relaxed),
            waiting: kept.waiting,
            gathered: kept.gathered,
            dead: kept.dead,
            last_error: outlet.last_error(),
            name,
        }
    });
    all.collect()
}

/// Memory of the process that is in use \[B\].
fn resident() -> Option<u64> {
    let told = fs::read_to_string("/proc/self/status").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}
