//! The tables of SHOW: their columns, which are constants, and their rows of a snapshot.
//!
//! Where PgBouncer has the table, name, order and type of every column are those of its release
//! 1.25 (documentation, "usage", section "Show commands"), since exporters go by them. Columns of
//! what the gate has not got say what PgBouncer says when it is not used.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use live::{Estimate, Times};

use super::row::{Column, Value, float8, int4, int8, large, numeric, small, text};
use super::snapshot::{
    Client, ClientState, Connection, Counts, Phase, Pool, Replication, Server, ServerSlots,
    ServerState, SlotsOf, Snapshot,
};

macro_rules! tables {
    ($($(#[$about:meta])* $table:ident = $name:literal $columns:ident,)*) => {
        /// A table of SHOW.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Table {
            $($(#[$about])* $table,)*
        }

        impl Table {
            /// Each table.
            pub const ALL: &[Table] = &[$(Table::$table),*];

            /// Its name behind SHOW.
            pub fn name(self) -> &'static str {
                match self { $(Table::$table => $name),* }
            }

            /// Its columns.
            pub fn columns(self) -> &'static [Column] {
                match self { $(Table::$table => $columns),* }
            }
        }
    };
}

tables! {
    /// Clients' connections.
    Clients = "CLIENTS" CONNECTIONS,
    /// The configuration.
    Config = "CONFIG" CONFIG,
    /// Databases of the configuration.
    Databases = "DATABASES" DATABASES,
    /// Names in the cache of DNS; the gate has no such cache.
    DnsHosts = "DNS_HOSTS" DNS_HOSTS,
    /// Zones in the cache of DNS; the gate has no such cache.
    DnsZones = "DNS_ZONES" DNS_ZONES,
    /// Numbers of databases, users, pools, clients and servers.
    Lists = "LISTS" LISTS,
    /// Memory that is kept.
    Mem = "MEM" MEM,
    /// Other gates of the same group; there are none.
    Peers = "PEERS" PEERS,
    /// Pools of these; there are none.
    PeerPools = "PEER_POOLS" PEER_POOLS,
    /// Pools.
    Pools = "POOLS" POOLS,
    /// Connections to servers.
    Servers = "SERVERS" CONNECTIONS,
    /// Connections of both kinds, with their buffers.
    Sockets = "SOCKETS" SOCKETS,
    /// Those that have something in their buffers.
    ActiveSockets = "ACTIVE_SOCKETS" SOCKETS,
    /// The state of the gate: active, paused or draining.
    State = "STATE" STATE,
    /// Totals and averages of each database.
    Stats = "STATS" STATS,
    /// Totals of each database.
    StatsTotals = "STATS_TOTALS" STATS_TOTALS,
    /// Averages of each database.
    StatsAverages = "STATS_AVERAGES" STATS_AVERAGES,
    /// Totals and averages of all databases.
    Totals = "TOTALS" TOTALS,
    /// Users.
    Users = "USERS" USERS,
    /// The program and its version.
    Version = "VERSION" VERSION,
    /// Ours: slots, queue, wait and hold of each class of each pool.
    Gate = "GATE" GATE,
    /// Ours: the slots of each server of each pool, and those over several pools.
    Slots = "SLOTS" SLOTS,
    /// Ours: who waits, and for how long by the gate's estimate.
    Queue = "QUEUE" QUEUE,
    /// Ours: the pinning ledger.
    Pins = "PINS" PINS,
    /// Ours: the model's numbers and predictions.
    Model = "MODEL" ESTIMATES,
}

const POOLS: &[Column] = &[
    text("database"),
    text("user"),
    int4("cl_active"),
    int4("cl_waiting"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active"),
    int4("sv_active_cancel"),
    int4("sv_being_canceled"),
    int4("sv_idle"),
    int4("sv_used"),
    int4("sv_tested"),
    int4("sv_login"),
    int4("maxwait"),
    int4("maxwait_us"),
    text("pool_mode"),
    text("load_balance_hosts"),
];

const STATS: &[Column] = &[
    text("database"),
    numeric("total_server_assignment_count"),
    numeric("total_xact_count"),
    numeric("total_query_count"),
    numeric("total_received"),
    numeric("total_sent"),
    numeric("total_xact_time"),
    numeric("total_query_time"),
    numeric("total_wait_time"),
    numeric("total_client_parse_count"),
    numeric("total_server_parse_count"),
    numeric("total_bind_count"),
    numeric("avg_server_assignment_count"),
    numeric("avg_xact_count"),
    numeric("avg_query_count"),
    numeric("avg_recv"),
    numeric("avg_sent"),
    numeric("avg_xact_time"),
    numeric("avg_query_time"),
    numeric("avg_wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
];

const STATS_TOTALS: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("client_parse_count"),
    numeric("server_parse_count"),
    numeric("bind_count"),
];

const STATS_AVERAGES: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
];

const TOTALS: &[Column] = &[text("name"), numeric("value")];

/// The names of [`TOTALS`]' rows, behind `total_` and `avg_`.
const COUNTED: [&str; 11] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
];

const CONNECTIONS: &[Column] = SOCKETS.split_at(21).0;

const SOCKETS: &[Column] = &[
    text("type"),
    text("user"),
    text("database"),
    text("replication"),
    text("state"),
    text("addr"),
    int4("port"),
    text("local_addr"),
    int4("local_port"),
    text("connect_time"),
    text("request_time"),
    int4("wait"),
    int4("wait_us"),
    int4("close_needed"),
    text("ptr"),
    text("link"),
    int4("remote_pid"),
    text("tls"),
    text("application_name"),
    int4("prepared_statements"),
    int4("id"),
    int4("recv_pos"),
    int4("pkt_pos"),
    int4("pkt_remain"),
    int4("send_pos"),
    int4("send_remain"),
    int4("pkt_avail"),
    int4("send_avail"),
];

const CONFIG: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

const DATABASES: &[Column] = &[
    text("name"),
    text("host"),
    int4("port"),
    text("database"),
    text("force_user"),
    int4("pool_size"),
    int4("min_pool_size"),
    int4("reserve_pool_size"),
    int4("server_lifetime"),
    text("pool_mode"),
    text("load_balance_hosts"),
    int4("max_connections"),
    int4("current_connections"),
    int4("max_client_connections"),
    int4("current_client_connections"),
    int4("paused"),
    int4("disabled"),
];

const USERS: &[Column] = &[
    text("name"),
    text("pool_size"),
    text("reserve_pool_size"),
    text("pool_mode"),
    int4("max_user_connections"),
    int4("current_connections"),
    int4("max_user_client_connections"),
    int4("current_client_connections"),
];

const LISTS: &[Column] = &[text("list"), int4("items")];
const MEM: &[Column] = &[text("name"), int4("size"), int4("used"), int4("free"), int4("memtotal")];
const STATE: &[Column] = &[text("key"), text("value")];
/// The release of PgBouncer whose words the console speaks: what looks for a release in SHOW
/// VERSION takes the first number of three parts there.
const SPOKEN: &str = "1.25.0";

const VERSION: &[Column] = &[text("version")];
const PEERS: &[Column] = &[int4("peer_id"), text("host"), int4("port"), int4("pool_size")];
const PEER_POOLS: &[Column] = &[
    int4("peer_id"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active_cancel"),
    int4("sv_login"),
];
const DNS_HOSTS: &[Column] = &[text("hostname"), int8("ttl"), text("addrs")];
const DNS_ZONES: &[Column] = &[text("zonename"), int8("serial"), int4("count")];

const GATE: &[Column] = &[
    text("database"),
    text("user"),
    text("class"),
    text("discipline"),
    text("router"),
    int4("slots"),
    int4("busy"),
    int4("waiting"),
    int8("started"),
    int8("refused"),
    int8("reneged"),
    float8("wait_mean_s"),
    text("wait_p50"),
    text("wait_p99"),
    float8("hold_mean_s"),
    text("hold_p50"),
    text("hold_p99"),
    int8("refused_hopeless"),
    int8("slots_dropped"),
];

const SLOTS: &[Column] = &[
    text("of"),
    text("server"),
    text("role"),
    text("up"),
    int4("slots"),
    int4("busy"),
    int4("waiting"),
    int8("started"),
    int4("connections"),
    int8("slots_dropped"),
];

const QUEUE: &[Column] = &[
    int8("place"),
    int8("client"),
    text("database"),
    text("user"),
    text("class"),
    int4("priority"),
    float8("waited_s"),
    float8("left_s"),
    float8("estimate_s"),
];

const PINS: &[Column] = &[
    int8("client"),
    int8("server"),
    text("database"),
    text("user"),
    text("application_name"),
    text("reason"),
    float8("held_s"),
    float8("idle_s"),
    float8("cost_slots"),
];

/// Of SHOW MODEL and SHOW WHATIF.
pub(super) const ESTIMATES: &[Column] = &[
    text("of"),
    text("what"),
    text("unit"),
    float8("value"),
    float8("low"),
    float8("high"),
    float8("happened"),
    text("basis"),
];

/// The taker of rows.
pub(super) type Sink<'a> = dyn FnMut(&[Value<'_>]) + 'a;

impl Table {
    /// The table of this name, in small letters.
    pub(super) fn named(lower: &str) -> Option<Table> {
        Table::ALL.iter().copied().find(|table| table.name().eq_ignore_ascii_case(lower))
    }

    /// Hands each row of it on.
    pub(super) fn rows(self, of: &Snapshot, to: &mut Sink<'_>) {
        match self {
            Table::Clients => clients(of, to),
            Table::Servers => servers(of, to),
            Table::Sockets => sockets(of, to, |_| true),
            Table::ActiveSockets => sockets(of, to, |connection| {
                connection.buffered.unread > 0 || connection.buffered.unsent > 0
            }),
            Table::Config => of.config.iter().for_each(|setting| {
                let changeable = if setting.changeable { "yes" } else { "no" };
                let (key, value) = ((&setting.key).into(), (&setting.value).into());
                to(&[key, value, (&setting.default).into(), changeable.into()]);
            }),
            Table::Databases => databases(of, to),
            Table::Users => users(of, to),
            Table::Pools => of.pools.iter().for_each(|pool| to(&pool_row(pool))),
            Table::Stats => by_database(of).iter().for_each(|(database, total, recent)| {
                to(&stats_row(database, &[numbers(*total), averages(*recent, of.period)]));
            }),
            Table::StatsTotals => by_database(of).iter().for_each(|(database, total, _)| {
                to(&stats_row(database, &[numbers(*total)]));
            }),
            Table::StatsAverages => by_database(of).iter().for_each(|(database, _, recent)| {
                to(&stats_row(database, &[averages(*recent, of.period)]));
            }),
            Table::Totals => totals(of, to),
            Table::Lists => lists(of, to),
            Table::Mem => of.memory.iter().for_each(|memory| {
                let total = u64::from(memory.size) * u64::from(memory.used + memory.free);
                let [size, used, free] = [memory.size, memory.used, memory.free].map(small);
                to(&[(&memory.name).into(), size, used, free, small(total)]);
            }),
            Table::State => {
                let yes = |yes| if yes { "yes" } else { "no" };
                to(&["active".into(), yes(of.phase == Phase::Active).into()]);
                to(&["paused".into(), yes(of.phase == Phase::Paused).into()]);
                to(&["suspended".into(), "no".into()]);
            }
            Table::Version => {
                let told = format!("PgBouncer {SPOKEN} console of {}", of.version);
                to(&[(&told).into()]);
            }
            Table::Peers | Table::PeerPools | Table::DnsHosts | Table::DnsZones => {}
            Table::Gate => gate(of, to),
            Table::Slots => slots(of, to),
            Table::Queue => queue(of, to),
            Table::Pins => pins(of, to),
            Table::Model => estimates(&of.model, to),
        }
    }
}

fn pool_row(pool: &Pool) -> [Value<'_>; 17] {
    let (clients, servers) = (pool.clients, pool.servers);
    let [maxwait, maxwait_us] = seconds_and_micros(pool.wait_oldest);
    [
        (&pool.database).into(),
        (&pool.user).into(),
        small(clients.active),
        small(clients.waiting),
        small(clients.active_cancel),
        small(clients.waiting_cancel),
        small(servers.active),
        small(servers.active_cancel),
        small(servers.being_cancelled),
        small(servers.idle),
        small(servers.used),
        small(servers.tested),
        small(servers.login),
        maxwait,
        maxwait_us,
        pool.mode.as_str().into(),
        pool.load_balance_hosts.as_ref().into(),
    ]
}

fn seconds_and_micros<'a>(time: Duration) -> [Value<'a>; 2] {
    [small(time.as_secs()), small(time.subsec_micros())]
}

/// Each database in the order of its first pool, with the counts of all its pools.
fn by_database(of: &Snapshot) -> Vec<(&str, Counts, Counts)> {
    let mut found: Vec<(&str, Counts, Counts)> = Vec::new();
    for pool in &of.pools {
        match found.iter_mut().find(|(database, ..)| *database == pool.database) {
            Some((_, total, recent)) => {
                (*total, *recent) = (total.plus(pool.total), recent.plus(pool.recent));
            }
            None => found.push((&pool.database, pool.total, pool.recent)),
        }
    }
    found
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// In the order of the columns; times in microseconds.
fn numbers(counts: Counts) -> [u64; 11] {
    [
        counts.assignments,
        counts.transactions,
        counts.queries,
        counts.received,
        counts.sent,
        micros(counts.transaction_time),
        micros(counts.query_time),
        micros(counts.wait_time),
        counts.client_parses,
        counts.server_parses,
        counts.binds,
    ]
}

/// Counts each second of the period, and times of one each \[us\], all rounded down as PgBouncer does.
fn averages(recent: Counts, period: Duration) -> [u64; 11] {
    if period.is_zero() {
        return [0; 11];
    }
    let period = period.as_micros().max(1);
    let mut found = numbers(recent)
        .map(|count| u64::try_from(u128::from(count) * 1_000_000 / period).unwrap_or(u64::MAX));
    let mean = |time, of| micros(time).checked_div(of).unwrap_or(0);
    found[5] = mean(recent.transaction_time, recent.transactions);
    found[6] = mean(recent.query_time, recent.queries);
    found[7] = mean(recent.wait_time, recent.assignments);
    found
}

fn stats_row<'a>(database: &'a str, parts: &[[u64; 11]]) -> Vec<Value<'a>> {
    let numbers = parts.iter().flatten().map(|&number| Value::Numeric(number));
    std::iter::once(database.into()).chain(numbers).collect()
}

fn totals(of: &Snapshot, to: &mut Sink<'_>) {
    let (mut total, mut recent) = (Counts::default(), Counts::default());
    for pool in &of.pools {
        (total, recent) = (total.plus(pool.total), recent.plus(pool.recent));
    }
    for (prefix, numbers) in [("total", numbers(total)), ("avg", averages(recent, of.period))] {
        for (name, number) in COUNTED.iter().zip(numbers) {
            to(&[format!("{prefix}_{name}").into(), Value::Numeric(number)]);
        }
    }
}

/// A moment as PgBouncer writes it, in UTC.
fn moment<'a>(at: SystemTime) -> Value<'a> {
    let mut text = String::new();
    match write!(text, "{}", humantime::format_rfc3339_seconds(at)) {
        Ok(()) => text.replace('T', " ").replace('Z', " UTC").into(),
        // No calendar has that year.
        Err(_) => Value::Null,
    }
}

/// The columns of one connection, of its buffers too.
fn connection_row<'a>(
    kind: &'static str,
    connection: &'a Connection,
    state: &'static str,
    closing: bool,
) -> [Value<'a>; 28] {
    let ends = [connection.address, connection.local_address].map(|end| match end {
        Some(end) => [end.ip().to_canonical().to_string().into(), small(end.port())],
        None => ["unix".into(), small(0_u16)],
    });
    let [[address, port], [local_address, local_port]] = ends;
    let [wait, wait_us] = seconds_and_micros(connection.waited);
    let replication = match connection.replication {
        Replication::None => "none",
        Replication::Logical => "logical",
        Replication::Physical => "physical",
    };
    let pointer = |id: u64| format!("{id:#x}");
    let buffered = connection.buffered;
    [
        kind.into(),
        (&connection.user).into(),
        (&connection.database).into(),
        replication.into(),
        state.into(),
        address,
        port,
        local_address,
        local_port,
        moment(connection.connected),
        moment(connection.requested),
        wait,
        wait_us,
        closing.into(),
        pointer(connection.id).into(),
        connection.link.map(pointer).unwrap_or_default().into(),
        small(connection.process.unwrap_or(0)),
        (&connection.tls).into(),
        (&connection.application_name).into(),
        small(connection.prepared),
        small(connection.id),
        small(buffered.unread),
        small(0),
        small(buffered.missing),
        small(0),
        small(0),
        small(buffered.unread),
        small(buffered.unsent),
    ]
}

fn clients(of: &Snapshot, to: &mut Sink<'_>) {
    for Client { connection, state } in &of.clients {
        let state = match state {
            ClientState::Login => continue,
            ClientState::Active => "active",
            ClientState::Idle => "idle",
            ClientState::Waiting => "waiting",
            ClientState::ActiveCancel => "active_cancel_req",
            ClientState::WaitingCancel => "waiting_cancel_req",
        };
        to(&connection_row("C", connection, state, false)[..CONNECTIONS.len()]);
    }
}

fn servers(of: &Snapshot, to: &mut Sink<'_>) {
    for Server { connection, state, closing } in &of.servers {
        let state = match state {
            ServerState::Active => "active",
            ServerState::Idle => "idle",
            ServerState::Used => "used",
            ServerState::Tested => "tested",
            ServerState::New => "new",
            ServerState::ActiveCancel => "active_cancel",
            ServerState::BeingCancelled => "being_canceled",
        };
        to(&connection_row("S", connection, state, *closing)[..CONNECTIONS.len()]);
    }
}

/// Those of both kinds that are wanted. PgBouncer leaves out those that cancel.
fn sockets(of: &Snapshot, to: &mut Sink<'_>, wanted: fn(&Connection) -> bool) {
    for Client { connection, state } in of.clients.iter().filter(|c| wanted(&c.connection)) {
        let state = match state {
            ClientState::Login => "cl_login",
            ClientState::Active | ClientState::Idle => "cl_active",
            ClientState::Waiting => "cl_waiting",
            ClientState::ActiveCancel | ClientState::WaitingCancel => continue,
        };
        to(&connection_row("C", connection, state, false));
    }
    for Server { connection, state, closing } in of.servers.iter().filter(|s| wanted(&s.connection))
    {
        let state = match state {
            ServerState::Active => "sv_active",
            ServerState::Idle => "sv_idle",
            ServerState::Used => "sv_used",
            ServerState::Tested => "sv_tested",
            ServerState::New => "sv_login",
            ServerState::ActiveCancel | ServerState::BeingCancelled => continue,
        };
        to(&connection_row("S", connection, state, *closing));
    }
}

fn databases(of: &Snapshot, to: &mut Sink<'_>) {
    for database in &of.databases {
        to(&[
            (&database.name).into(),
            database.host.as_ref().into(),
            small(database.port),
            (&database.database).into(),
            database.force_user.as_ref().into(),
            small(database.pool_size),
            small(database.pool_size_min),
            small(database.reserve_pool_size),
            small(database.server_lifetime.as_secs()),
            database.mode.map(|mode| mode.as_str()).into(),
            database.load_balance_hosts.as_ref().into(),
            small(database.connections_max),
            small(database.connections),
            small(database.clients_max),
            small(database.clients),
            database.paused.into(),
            database.disabled.into(),
        ]);
    }
}

fn users(of: &Snapshot, to: &mut Sink<'_>) {
    for user in &of.users {
        // What is not set is an empty text, as the program has it, and not NULL, as its manual has.
        let size = |size: Option<u32>| size.map(|size| size.to_string()).unwrap_or_default();
        to(&[
            (&user.name).into(),
            size(user.pool_size).into(),
            size(user.reserve_pool_size).into(),
            user.mode.map(|mode| mode.as_str()).into(),
            small(user.connections_max),
            small(user.connections),
            small(user.clients_max),
            small(user.clients),
        ]);
    }
}

fn lists(of: &Snapshot, to: &mut Sink<'_>) {
    let login = of.clients.iter().filter(|client| client.state == ClientState::Login).count();
    let kept = |name| {
        let kept = of.memory.iter().filter(|memory| memory.name == name);
        kept.map(|memory| memory.free as usize).sum()
    };
    for (list, items) in [
        ("databases", of.databases.len()),
        ("users", of.users.len()),
        ("peers", 0),
        ("pools", of.pools.len()),
        ("peer_pools", 0),
        ("free_clients", kept("client")),
        ("used_clients", of.clients.len()),
        ("login_clients", login),
        ("free_servers", kept("server")),
        ("used_servers", of.servers.len()),
        ("dns_names", 0),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", 0),
    ] {
        to(&[list.into(), small(items)]);
    }
}

fn gate(of: &Snapshot, to: &mut Sink<'_>) {
    let mean = |times: &Times| times.mean().map(|mean| Value::Float8(mean.as_secs_f64()));
    for pool in &of.pools {
        for class in &pool.classes {
            to(&[
                (&pool.database).into(),
                (&pool.user).into(),
                (&class.name).into(),
                (&pool.discipline).into(),
                (&pool.router).into(),
                small(pool.gate.slots),
                small(class.busy),
                small(class.waiting),
                large(class.wait.count()),
                large(class.refused()),
                large(class.reneged),
                mean(&class.wait).into(),
                between(&class.wait, 0.5),
                between(&class.wait, 0.99),
                mean(&class.hold).into(),
                between(&class.hold, 0.5),
                between(&class.hold, 0.99),
                large(class.refused_hopeless),
                large(pool.slots_dropped),
            ]);
        }
    }
}

fn slots(of: &Snapshot, to: &mut Sink<'_>) {
    for SlotsOf { of, slots, dropped, server } in &of.slots {
        let server = server.as_ref();
        let up = |server: &ServerSlots| if server.up { "yes" } else { "no" };
        to(&[
            of.into(),
            server.map(|server| server.address.clone()).into(),
            server.map(|server| server.role).into(),
            server.map(up).into(),
            small(slots.slots),
            small(slots.busy),
            small(slots.waiting),
            server.map_or(Value::Null, |server| large(server.started)),
            server.map_or(Value::Null, |server| small(server.connections)),
            dropped.map_or(Value::Null, large),
        ]);
    }
}

/// Between which times a quantile lies, as in `1ms to 2ms`.
fn between<'a>(times: &Times, q: f64) -> Value<'a> {
    times
        .quantile(q)
        .map(|(low, high)| match high {
            Some(high) => format!("{low:?} to {high:?}"),
            None => format!("above {low:?}"),
        })
        .into()
}

fn queue(of: &Snapshot, to: &mut Sink<'_>) {
    let seconds = |time: Duration| Value::Float8(time.as_secs_f64());
    for (place, waiter) in of.queue.iter().enumerate() {
        to(&[
            large(place + 1),
            large(waiter.client),
            (&waiter.database).into(),
            (&waiter.user).into(),
            (&waiter.class).into(),
            Value::Int4(waiter.priority),
            seconds(waiter.waited),
            waiter.left.map(seconds).into(),
            waiter.estimate.map(seconds).into(),
        ]);
    }
}

fn pins(of: &Snapshot, to: &mut Sink<'_>) {
    for pin in &of.pins {
        to(&[
            large(pin.client),
            large(pin.server),
            (&pin.database).into(),
            (&pin.user).into(),
            (&pin.application_name).into(),
            (&pin.reason).into(),
            Value::Float8(pin.held.as_secs_f64()),
            Value::Float8(pin.idle.as_secs_f64()),
            Value::Float8(pin.cost()),
        ]);
    }
}

pub(super) fn estimates(estimates: &[Estimate], to: &mut Sink<'_>) {
    for estimate in estimates {
        to(&[
            (&estimate.of).into(),
            (&estimate.what).into(),
            (&estimate.unit).into(),
            Value::Float8(estimate.value),
            estimate.interval.map(|(low, _)| Value::Float8(low)).into(),
            estimate.interval.map(|(_, high)| Value::Float8(high)).into(),
            estimate.happened.map(Value::Float8).into(),
            (&estimate.basis).into(),
        ]);
    }
}
