//! The snapshot as JSON, for the live page and for scripts. Times are in seconds, and names say so.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use live::Estimate;
use live::page::ClassState;
use serde::{Serialize, Serializer};

use super::snapshot::{
    Class, ClientState, Counts, Mode, Phase, Pin, Pool, PoolClients, PoolServers, Slots, Snapshot,
    Waiter,
};

/// Entries of each list at most: clients, jobs that wait, pins, pools.
pub const LIST_MAX: usize = 200;

pub(super) fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

pub(super) fn maybe_seconds<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

pub(super) fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

/// The JSON of `/state.json`. Of each list, the first [`LIST_MAX`] are there; their numbers, `totals`,
/// count all. Clients that wait come first, the one that has waited longest before the others.
pub fn state_json(snapshot: &Snapshot) -> String {
    let mut clients: Vec<_> = snapshot.clients.iter().collect();
    let urgency = |state| match state {
        ClientState::Waiting => 0,
        ClientState::Active => 1,
        _ => 2,
    };
    clients.sort_by_key(|client| {
        (urgency(client.state), std::cmp::Reverse(client.connection.waited), client.connection.id)
    });
    let since = snapshot.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let state = State {
        version: &snapshot.version,
        at_unix_s: since.as_secs_f64(),
        uptime_s: snapshot.uptime.as_secs_f64(),
        phase: snapshot.phase,
        period_s: snapshot.period.as_secs_f64(),
        over_all: snapshot.over_all,
        totals: Totals {
            pools: snapshot.pools.len(),
            clients: snapshot.clients.len(),
            servers: snapshot.servers.len(),
            waiting: snapshot.queue.len(),
            pins: snapshot.pins.len(),
            clients_accepted: snapshot.clients_accepted,
            logins_failed: snapshot.logins_failed,
            log_lines_lost: snapshot.log_lost,
        },
        pools: snapshot.pools.iter().take(LIST_MAX).map(PoolState::new).collect(),
        clients: clients
            .iter()
            .take(LIST_MAX)
            .map(|client| ClientRow {
                id: client.connection.id,
                database: &client.connection.database,
                user: &client.connection.user,
                application_name: &client.connection.application_name,
                address: client.connection.address.map(|address| address.to_string()),
                state: client.state,
                waited_s: client.connection.waited.as_secs_f64(),
            })
            .collect(),
        queue: snapshot.queue.iter().take(LIST_MAX).collect(),
        pins: snapshot
            .pins
            .iter()
            .take(LIST_MAX)
            .map(|pin| PinState { pin, cost_slots: pin.cost() })
            .collect(),
        model: snapshot.model.iter().take(LIST_MAX).collect(),
    };
    serde_json::to_string(&state).expect("texts and numbers are always JSON")
}

#[derive(Serialize)]
struct State<'a> {
    version: &'a str,
    at_unix_s: f64,
    uptime_s: f64,
    phase: Phase,
    period_s: f64,
    over_all: Option<Slots>,
    totals: Totals,
    pools: Vec<PoolState<'a>>,
    clients: Vec<ClientRow<'a>>,
    queue: Vec<&'a Waiter>,
    pins: Vec<PinState<'a>>,
    model: Vec<&'a Estimate>,
}

#[derive(Serialize)]
struct Totals {
    pools: usize,
    clients: usize,
    servers: usize,
    waiting: usize,
    pins: usize,
    clients_accepted: u64,
    logins_failed: u64,
    log_lines_lost: u64,
}

#[derive(Serialize)]
struct PoolState<'a> {
    database: &'a str,
    user: &'a str,
    mode: Mode,
    discipline: &'a str,
    router: &'a str,
    gate: Slots,
    clients: PoolClients,
    servers: PoolServers,
    wait_oldest_s: f64,
    total: Counts,
    recent: Counts,
    classes: Vec<ClassState<'a>>,
}

impl PoolState<'_> {
    fn new(pool: &Pool) -> PoolState<'_> {
        PoolState {
            database: &pool.database,
            user: &pool.user,
            mode: pool.mode,
            discipline: &pool.discipline,
            router: &pool.router,
            gate: pool.gate,
            clients: pool.clients,
            servers: pool.servers,
            wait_oldest_s: pool.wait_oldest.as_secs_f64(),
            total: pool.total,
            recent: pool.recent,
            classes: pool.classes.iter().take(LIST_MAX).map(class_state).collect(),
        }
    }
}

fn class_state(class: &Class) -> ClassState<'_> {
    ClassState::new(&class.name, &class.counts())
}

#[derive(Serialize)]
struct ClientRow<'a> {
    id: u64,
    database: &'a str,
    user: &'a str,
    application_name: &'a str,
    address: Option<String>,
    state: ClientState,
    waited_s: f64,
}

#[derive(Serialize)]
struct PinState<'a> {
    #[serde(flatten)]
    pin: &'a Pin,
    cost_slots: f64,
}
