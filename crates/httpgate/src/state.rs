//! The state of the gate as its live page reads it, and that page. Times are in seconds, and names say so.

use std::sync::LazyLock;
use std::time::SystemTime;

use gate::GateSpec;
use live::page::{ClassState, GATE, page};
use live::{ClassCounts, Estimate};
use serde::Serialize;

use super::stats::{Stats, Traffic, UpstreamStats};

/// The live page: one HTML file that asks for `/state.json` of its own address again and again.
pub(crate) static PAGE: LazyLock<String> =
    LazyLock::new(|| page(&GATE, include_str!("page.html"), include_str!("page.js")));

/// Estimates at most.
const LIST_MAX: usize = 200;

#[derive(Serialize)]
struct State<'s> {
    version: String,
    at_unix_s: f64,
    uptime_s: f64,
    phase: &'static str,
    connections: u64,
    connections_accepted: u64,
    clients_lost: u64,
    log_lines_lost: u64,
    gate: GateState<'s>,
    wait_oldest_s: f64,
    classes: Vec<ClassRow<'s>>,
    servers: Vec<ServerRow>,
    model: Vec<&'s Estimate>,
}

#[derive(Serialize)]
struct GateState<'s> {
    slots: u32,
    busy: u32,
    waiting: u64,
    discipline: &'s str,
    router: &'s str,
}

#[derive(Serialize)]
struct ClassRow<'s> {
    #[serde(flatten)]
    class: ClassState<'s>,
    /// Responses with 2xx, 3xx, 4xx and 5xx, of the servers and of the gate.
    statuses: [u64; 4],
    received_bytes: u64,
    sent_bytes: u64,
}

#[derive(Serialize)]
struct ServerRow {
    address: String,
    up: bool,
    slots: u32,
    busy: u32,
    started: u64,
    hold_mean_s: Option<f64>,
    connections_opened: u64,
    errors: u64,
}

impl ClassRow<'_> {
    fn new<'s>(((name, counts), traffic): (&'s (String, ClassCounts), &Traffic)) -> ClassRow<'s> {
        ClassRow {
            class: ClassState::new(name, counts),
            statuses: [2, 3, 4, 5].map(|hundreds| traffic.with_status(hundreds)),
            received_bytes: traffic.received,
            sent_bytes: traffic.sent,
        }
    }
}

impl ServerRow {
    fn new(of: &UpstreamStats) -> ServerRow {
        ServerRow {
            address: of.address.to_string(),
            up: of.up,
            slots: of.slots,
            busy: of.busy,
            started: of.wait.count(),
            hold_mean_s: of.hold.mean().map(|mean| mean.as_secs_f64()),
            connections_opened: of.connections_opened,
            errors: of.errors_all(),
        }
    }
}

/// The JSON of `/state.json`.
pub(crate) fn json(stats: &Stats, spec: &GateSpec, at: SystemTime, model: &[Estimate]) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let sum = |of: fn(&UpstreamStats) -> u32| stats.upstreams.iter().map(of).sum();
    let state = State {
        version: format!("Sekisho {}", env!("CARGO_PKG_VERSION")),
        at_unix_s: since.as_secs_f64(),
        uptime_s: stats.uptime.as_secs_f64(),
        phase: match (stats.draining, stats.paused) {
            (true, _) => "draining",
            (false, true) => "paused",
            (false, false) => "active",
        },
        connections: stats.connections,
        connections_accepted: stats.connections_accepted,
        clients_lost: stats.clients_lost,
        log_lines_lost: stats.log_lines_lost,
        gate: GateState {
            slots: sum(|upstream| upstream.slots),
            busy: sum(|upstream| upstream.busy),
            waiting: stats.waiting,
            discipline: spec.discipline.name(),
            router: spec.router.name(),
        },
        wait_oldest_s: stats.wait_oldest.as_secs_f64(),
        classes: stats.classes.iter().zip(&stats.traffic).map(ClassRow::new).collect(),
        servers: stats.upstreams.iter().map(ServerRow::new).collect(),
        model: model.iter().take(LIST_MAX).collect(),
    };
    serde_json::to_string(&state).expect("texts and numbers are always JSON")
}
