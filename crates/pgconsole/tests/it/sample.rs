//! Snapshots to show: of a gate at work, and of one that has just begun.

use std::time::{Duration, SystemTime};

use live::{Estimate, Times};
use pgconsole::{
    Buffered, Class, Client, ClientState, Connection, Counts, Database, Memory, Mode, Phase, Pin,
    Pool, PoolClients, PoolServers, Replication, Server, ServerSlots, ServerState, Setting, Slots,
    SlotsOf, Snapshot, User, Waiter,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 2026-11-22 10:00:00 UTC.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_341_600)
}

/// Nothing but a configuration has been read.
pub(crate) fn empty() -> Snapshot {
    Snapshot {
        version: "Sekisho 0.1.0".to_owned(),
        at: now(),
        uptime: Duration::ZERO,
        phase: Phase::Active,
        period: Duration::ZERO,
        pools: vec![],
        clients: vec![],
        servers: vec![],
        queue: vec![],
        pins: vec![],
        databases: vec![],
        users: vec![],
        config: vec![],
        memory: vec![],
        slots: vec![],
        over_all: None,
        model: vec![],
        clients_accepted: 0,
        logins_failed: 0,
        log_lost: 0,
    }
}

fn connection(id: u64) -> Connection {
    Connection {
        id,
        link: None,
        user: "alice".into(),
        database: "shop".into(),
        replication: Replication::None,
        address: Some("127.0.0.1:40001".parse().expect("an address")),
        local_address: Some("127.0.0.1:6432".parse().expect("an address")),
        connected: now() - ms(60_000),
        requested: now() - ms(2_500),
        waited: Duration::ZERO,
        process: None,
        tls: "".into(),
        application_name: "till".into(),
        prepared: 3,
        buffered: Buffered::default(),
    }
}

fn class(name: &str, jobs: u64, wait_us: u64, hold_us: u64) -> Class {
    let (mut wait, mut hold) = (Times::default(), Times::default());
    for job in 0..jobs {
        // From a quarter to three times as long.
        let share = job * 11 / jobs + 1;
        wait.observe(Duration::from_micros(wait_us * share / 4));
        hold.observe(Duration::from_micros(hold_us * share / 4));
    }
    Class { name: name.to_owned(), wait, hold, ..Class::default() }
}

fn pool(database: &str, user: &str) -> Pool {
    let total = Counts {
        assignments: 1_000,
        transactions: 998,
        queries: 3_000,
        received: 123_456,
        sent: 7_654_321,
        transaction_time: ms(20_000),
        query_time: ms(12_000),
        wait_time: ms(4_000),
        client_parses: 30,
        server_parses: 12,
        binds: 2_900,
    };
    let recent = Counts {
        assignments: 100,
        transactions: 90,
        queries: 300,
        received: 10_007,
        transaction_time: ms(1_800),
        query_time: ms(1_201),
        wait_time: ms(400),
        ..Counts::default()
    };
    let mut web = class("web", 900, 4_000, 20_000);
    (web.waiting, web.busy, web.refused_deadline, web.reneged) = (2, 3, 5, 1);
    Pool {
        database: database.to_owned(),
        user: user.to_owned(),
        mode: Mode::Transaction,
        gate: Slots { slots: 4, busy: 4, waiting: 2 },
        slots_dropped: 3,
        discipline: "fifo".to_owned(),
        router: "shortest-queue".to_owned(),
        clients: PoolClients { active: 5, waiting: 2, active_cancel: 1, waiting_cancel: 0 },
        servers: PoolServers { active: 4, idle: 1, login: 1, ..PoolServers::default() },
        wait_oldest: Duration::from_micros(2_500_123),
        load_balance_hosts: None,
        total,
        recent,
        classes: vec![web, class("report", 100, 900_000, 2_000_000)],
    }
}

fn clients() -> Vec<Client> {
    let mut active = connection(1);
    (active.link, active.waited) = (Some(101), ms(700));
    let mut waiting = connection(3);
    waiting.waited = Duration::from_micros(2_500_123);
    let mut hostile = connection(4);
    hostile.application_name =
        "<img src=x onerror=alert(1)>\"'\\\nand a long name that goes on".into();
    hostile.address = None;
    hostile.buffered = Buffered { unread: 17, missing: 9, unsent: 0 };
    let of = |connection, state| Client { connection, state };
    let mut clients = vec![
        of(active, ClientState::Active),
        of(connection(2), ClientState::Idle),
        of(waiting, ClientState::Waiting),
        of(hostile, ClientState::Idle),
        of(connection(5), ClientState::Login),
    ];
    clients.extend((6..30).map(|id| of(connection(id), ClientState::Idle)));
    clients
}

fn servers() -> Vec<Server> {
    let mut active = connection(101);
    (active.link, active.process) = (Some(1), Some(4711));
    active.address = Some("[::1]:5432".parse().expect("an address"));
    active.tls = "TLSv1.3/TLS_AES_256_GCM_SHA384".into();
    vec![
        Server { connection: active, state: ServerState::Active, closing: true },
        Server { connection: connection(102), state: ServerState::Idle, closing: false },
        Server { connection: connection(103), state: ServerState::BeingCancelled, closing: false },
    ]
}

fn waiter(client: u64) -> Waiter {
    Waiter {
        client,
        database: "shop".into(),
        user: "alice".into(),
        class: "web".into(),
        priority: -1,
        waited: Duration::from_micros(2_500_123),
        left: Some(ms(117_500)),
        estimate: None,
    }
}

fn database() -> Database {
    Database {
        name: "shop".to_owned(),
        host: Some("127.0.0.1".to_owned()),
        port: 5432,
        database: "shop_live".to_owned(),
        force_user: None,
        pool_size: 20,
        pool_size_min: 0,
        reserve_pool_size: 2,
        server_lifetime: Duration::from_secs(3600),
        mode: None,
        load_balance_hosts: None,
        connections_max: 0,
        connections: 6,
        clients_max: 0,
        clients: 29,
        paused: false,
        disabled: true,
    }
}

fn model() -> Vec<Estimate> {
    let estimate = |what: &str, unit: &str, value, interval, happened| Estimate {
        of: "shop/alice".to_owned(),
        what: what.to_owned(),
        unit: unit.to_owned(),
        value,
        interval,
        happened,
        basis: "formula, at 2 to 20 slots".to_owned(),
    };
    vec![
        estimate("demand", "s", 0.0185, Some((0.017, 0.02)), None),
        estimate("throughput", "1/s", 191.5, Some((180.0, 203.0)), Some(188.2)),
    ]
}

/// A gate at work.
pub(crate) fn filled() -> Snapshot {
    Snapshot {
        uptime: Duration::from_secs(3600),
        period: Duration::from_secs(60),
        pools: vec![pool("shop", "alice"), pool("shop", "bo\"b\\"), pool("stock", "carol")],
        clients: clients(),
        servers: servers(),
        queue: vec![waiter(3), waiter(9)],
        pins: vec![Pin {
            client: 1,
            server: 101,
            database: "shop".into(),
            user: "alice".into(),
            application_name: "till".into(),
            reason: "LISTEN".to_owned(),
            held: ms(8_000),
            idle: ms(6_000),
        }],
        databases: vec![database()],
        users: vec![User {
            name: "alice".to_owned(),
            pool_size: None,
            reserve_pool_size: Some(2),
            mode: Some(Mode::Session),
            connections_max: 0,
            connections: 6,
            clients_max: 100,
            clients: 29,
        }],
        config: vec![Setting {
            key: "pool_mode".to_owned(),
            value: "transaction".to_owned(),
            default: "transaction".to_owned(),
            changeable: true,
        }],
        memory: vec![Memory { name: "client".to_owned(), size: 512, used: 29, free: 3 }],
        slots: vec![SlotsOf {
            of: "shop/alice".to_owned(),
            slots: Slots { slots: 4, busy: 4, waiting: 2 },
            dropped: None,
            server: Some(ServerSlots {
                pool: ("shop".to_owned(), "alice".to_owned()),
                address: "10.0.0.1:5432".to_owned(),
                role: "primary",
                up: true,
                started: 998,
                connections: 5,
            }),
        }],
        over_all: Some(Slots { slots: 10, busy: 8, waiting: 0 }),
        model: model(),
        clients_accepted: 41,
        logins_failed: 2,
        log_lost: 7,
        ..empty()
    }
}
