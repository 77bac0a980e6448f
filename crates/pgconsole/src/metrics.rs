//! The snapshot as Prometheus reads it.
//!
//! What every gate tells is written by `live`, so that it has the names that the HTTP gate has. Totals only
//! grow as long as the gate runs; what is now is a gauge.

use live::prometheus::{
    self, GateFigures, ProcessFigures, ServerFigures, Text, label, write_gates, write_model,
};

use super::snapshot::{ClientState, Phase, Pool, ServerSlots, Snapshot};

/// Classes of pools told at most; the gauge `sekisho_classes_left_out` says how many more there
/// are. Two histograms of each make some 4 kB.
pub const CLASSES_MAX: usize = 1000;

/// The text of `/metrics` (exposition format 0.0.4).
pub fn prometheus(snapshot: &Snapshot) -> String {
    let mut text = Text::new();
    write_process(snapshot, &mut text);
    // Whole pools, as long as their classes are few enough.
    let mut classes = 0;
    let told = snapshot.pools.iter().take_while(|pool| {
        classes += pool.classes.len();
        classes <= CLASSES_MAX
    });
    let pools = &snapshot.pools[..told.count()];
    let left_out: usize = snapshot.pools[pools.len()..].iter().map(|p| p.classes.len()).sum();
    let name = "sekisho_classes_left_out";
    text.family(name, "gauge", "Classes of pools that are too many to be told here.");
    text.sample(name, "", left_out);
    write_pools(pools, &mut text);
    write_counts(pools, &mut text);
    write_gates(&mut text, &pools.iter().map(|pool| figures(snapshot, pool)).collect::<Vec<_>>());
    write_pins(snapshot, pools, &mut text);
    write_model(&mut text, &snapshot.model, CLASSES_MAX);
    text.finish()
}

fn write_process(of: &Snapshot, text: &mut Text) {
    let logging_in = of.clients.iter().filter(|client| client.state == ClientState::Login).count();
    let figures = ProcessFigures {
        gate: "postgres",
        version: of.version.rsplit(' ').next().unwrap_or_default(),
        uptime: of.uptime,
        connections: of.clients.len() as u64,
        connections_accepted: of.clients_accepted,
        log_lines_lost: of.log_lost,
        paused: of.phase == Phase::Paused,
        draining: of.phase == Phase::Draining,
    };
    prometheus::write_process(text, &figures);
    text.family("sekisho_logging_in", "gauge", "Clients that log in.");
    text.sample("sekisho_logging_in", "", logging_in);
    text.family("sekisho_logins_failed_total", "counter", "Failed logins.");
    text.sample("sekisho_logins_failed_total", "", of.logins_failed);
    if let Some(slots) = of.over_all {
        for (name, help, value) in [
            ("sekisho_over_all_slots", "Slots over all pools that exist.", slots.slots),
            ("sekisho_over_all_busy", "Slots over all pools that are held.", slots.busy),
            ("sekisho_over_all_waiting", "Jobs that wait for one.", slots.waiting),
        ] {
            text.family(name, "gauge", help);
            text.sample(name, "", value);
        }
    }
}

fn labels(pool: &Pool) -> String {
    format!("{},{}", label("database", &pool.database), label("user", &pool.user))
}

fn write_pools(pools: &[Pool], text: &mut Text) {
    text.family("sekisho_clients", "gauge", "Clients of the pool by what they do.");
    for pool in pools {
        let clients = pool.clients;
        for (state, count) in [
            ("active", clients.active),
            ("waiting", clients.waiting),
            ("active-cancel", clients.active_cancel),
            ("waiting-cancel", clients.waiting_cancel),
        ] {
            let labels = format!("{},{}", labels(pool), label("state", state));
            text.sample("sekisho_clients", &labels, count);
        }
    }
    text.family("sekisho_servers", "gauge", "Connections to servers by what they do.");
    for pool in pools {
        let servers = pool.servers;
        for (state, count) in [
            ("active", servers.active),
            ("idle", servers.idle),
            ("used", servers.used),
            ("tested", servers.tested),
            ("login", servers.login),
            ("active-cancel", servers.active_cancel),
            ("being-cancelled", servers.being_cancelled),
        ] {
            let labels = format!("{},{}", labels(pool), label("state", state));
            text.sample("sekisho_servers", &labels, count);
        }
    }
}

fn write_counts(pools: &[Pool], text: &mut Text) {
    type Value = fn(&Pool) -> f64;
    let plain: [(&str, &str, Value); 10] = [
        ("sekisho_transactions_total", "Transactions that ended.", |p| p.total.transactions as f64),
        ("sekisho_queries_total", "Statements that ended.", |p| p.total.queries as f64),
        ("sekisho_assignments_total", "Servers given to clients.", |p| p.total.assignments as f64),
        ("sekisho_received_bytes_total", "Bytes from clients.", |p| p.total.received as f64),
        ("sekisho_sent_bytes_total", "Bytes to clients.", |p| p.total.sent as f64),
        ("sekisho_transaction_seconds_total", "Time in transactions.", |p| {
            p.total.transaction_time.as_secs_f64()
        }),
        ("sekisho_query_seconds_total", "Time at work on statements.", |p| {
            p.total.query_time.as_secs_f64()
        }),
        ("sekisho_client_parses_total", "Statements prepared by clients.", |p| {
            p.total.client_parses as f64
        }),
        ("sekisho_server_parses_total", "Statements prepared at servers.", |p| {
            p.total.server_parses as f64
        }),
        ("sekisho_binds_total", "Prepared statements given parameters.", |p| p.total.binds as f64),
    ];
    for (name, help, value) in plain {
        text.family(name, "counter", help);
        for pool in pools {
            text.sample(name, &labels(pool), value(pool));
        }
    }
}

/// The gate of a pool, with its classes and servers.
fn figures<'s>(of: &'s Snapshot, pool: &'s Pool) -> GateFigures<'s> {
    let is_own = |server: &ServerSlots| {
        let (database, user) = &server.pool;
        *database == pool.database && *user == pool.user
    };
    let servers = of.slots.iter().filter_map(|of| {
        let server = of.server.as_ref().filter(|server| is_own(server))?;
        Some(ServerFigures {
            address: server.address.clone(),
            up: server.up,
            slots: of.slots.slots,
            busy: of.slots.busy,
            started: server.started,
        })
    });
    GateFigures {
        labels: labels(pool),
        slots_dropped: pool.slots_dropped,
        slots: pool.gate.slots,
        busy: pool.gate.busy,
        wait_oldest: pool.wait_oldest,
        classes: pool.classes.iter().map(|class| (&*class.name, class.counts())).collect(),
        servers: servers.collect(),
    }
}

fn write_pins(of: &Snapshot, pools: &[Pool], text: &mut Text) {
    let of_pool = |pool: &Pool| {
        let (database, user) = (pool.database.clone(), pool.user.clone());
        of.pins.iter().filter(move |pin| pin.database == database && pin.user == user)
    };
    text.family("sekisho_pinned", "gauge", "Clients that keep a slot beyond their job.");
    for pool in pools {
        text.sample("sekisho_pinned", &labels(pool), of_pool(pool).count());
    }
    let name = "sekisho_pinned_cost_slots";
    text.family(name, "gauge", "Slots lost to them: the idle share of the time they keep one.");
    for pool in pools {
        let cost: f64 = of_pool(pool).map(|pin| pin.cost()).sum();
        // A sum of nothing is a negative zero.
        text.sample(name, &labels(pool), cost.max(0.0));
    }
}
