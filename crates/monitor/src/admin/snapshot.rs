//! The snapshot of a monitor: what its loop knows, in the console's words. What nobody knows is left
//! out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gate::{Role, Time};
use live::ClassCounts;

use crate::admin::Periods;
use crate::admin::settings::{self, Source};
use crate::client::{self, State};
use crate::config::{self, Address};
use crate::connection::{BUFFER, Connection};
use crate::pool::{self, PoolIndex};
use crate::quotas::UNBOUNDED;
use crate::server;
use crate::slab::Key;
use crate::state::Loop;
use crate::stats::ServerStats;
use pgconsole::{
    Buffered, Class, Client, ClientState, Connection as ConnectionRow, Counts, Database, Memory,
    Mode, Pool, PoolClients, PoolServers, Replication, Server, ServerSlots, ServerState, Slots,
    SlotsOf, Snapshot, User, Waiter,
};
use pgwire::startup;

/// Names that connections of one pool share.
struct Names {
    database: Arc<str>,
    user: Arc<str>,
}

/// Counts that are made while connections are gone through.
#[derive(Default)]
struct Tallies {
    clients: Vec<PoolClients>,
    servers: Vec<PoolServers>,
    buffers: usize,
}

impl Periods {
    /// Ends a period if it is long enough; what there is of each pool by now is `counts`.
    pub(super) fn turn(
        &mut self,
        now: Time,
        period: Duration,
        counts: impl Iterator<Item = Counts>,
    ) {
        let length = now.since(self.began);
        if length < period {
            return;
        }
        for (at, counts) in counts.enumerate() {
            match self.pools.get_mut(at) {
                Some((begun, recent)) => {
                    *recent = minus(counts, *begun);
                    *begun = counts;
                }
                None => self.pools.push((counts, counts)),
            }
        }
        (self.began, self.length) = (now, length);
    }

    /// A pool is closed, and its place is for another one.
    pub(super) fn forget(&mut self, pool: PoolIndex) {
        if let Some(counts) = self.pools.get_mut(pool) {
            *counts = (Counts::default(), Counts::default());
        }
    }

    /// Of a pool, in the last period.
    fn recent(&self, pool: PoolIndex) -> Counts {
        self.pools.get(pool).map_or(Counts::default(), |(_, recent)| *recent)
    }
}

fn minus(now: Counts, then: Counts) -> Counts {
    Counts {
        assignments: now.assignments - then.assignments,
        transactions: now.transactions - then.transactions,
        queries: now.queries - then.queries,
        received: now.received - then.received,
        sent: now.sent - then.sent,
        transaction_time: now.transaction_time.saturating_sub(then.transaction_time),
        query_time: now.query_time.saturating_sub(then.query_time),
        wait_time: now.wait_time.saturating_sub(then.wait_time),
        client_parses: now.client_parses - then.client_parses,
        server_parses: now.server_parses - then.server_parses,
        binds: now.binds - then.binds,
    }
}

impl Loop {
    /// Ends a period of counting when it is over.
    pub(crate) fn turn_period(&mut self) {
        let counts = self.pools.iter().map(|pool| match pool.vacant {
            true => Counts::default(),
            false => counts(pool),
        });
        self.admin.periods.turn(self.now, self.config.admin.stats_period, counts);
    }

    /// All that the console shows.
    pub(super) fn survey(&mut self) -> Snapshot {
        let source = if self.has_setter() { Source::Sets } else { Source::ReadsAtMost };
        let config = settings::list(&mut self.config, source);
        let names: Vec<Names> = (0..self.pools.len())
            .map(|at| Names {
                database: self.name_of(at).into(),
                user: String::from_utf8_lossy(&self.pools[at].user).into(),
            })
            .collect();
        let mut tallies = Tallies {
            clients: vec![PoolClients::default(); names.len()],
            servers: vec![PoolServers::default(); names.len()],
            buffers: 0,
        };
        let clients = self.clients_now(&names, &mut tallies);
        let servers = self.servers_now(&names, &mut tallies);
        let mut pools: Vec<Pool> =
            (0..names.len()).map(|at| self.pool_now(at, &names[at], &tallies)).collect();
        let queue = self.queue_now(&names, &mut pools);
        let mut there = self.pools.iter().map(|pool| !pool.vacant);
        pools.retain(|_| there.next().unwrap_or(true));
        // Those of one database together.
        pools.sort_by(|a, b| (&a.database, &a.user).cmp(&(&b.database, &b.user)));
        let databases = self.databases_now(&pools);
        let classes = self.config.classes.list();
        let model = (0..self.pools.len())
            .filter(|&at| !self.pools[at].vacant)
            .flat_map(|at| self.pools[at].estimates(self.name_of(at), classes))
            .collect();
        let users = self.users_now(&pools);
        Snapshot {
            version: concat!("Sekisho ", env!("CARGO_PKG_VERSION")).to_owned(),
            at: self.calendar(self.now),
            uptime: self.now.since(Time::ZERO),
            phase: self.console_phase(),
            period: self.admin.periods.length,
            memory: self.memory_now(tallies.buffers),
            pools,
            clients,
            servers,
            queue,
            pins: self.ledger(),
            databases,
            users,
            config,
            slots: self.slots_now(),
            over_all: self.over_all(),
            model,
            clients_accepted: self.stats.clients_accepted,
            logins_failed: self.stats.logins_failed,
            log_lost: self.log.lost() + self.access_log.lost(),
        }
    }

    fn clients_now(&self, names: &[Names], tallies: &mut Tallies) -> Vec<Client> {
        let cancels: BTreeMap<Key, PoolIndex> = self
            .cancels
            .iter()
            .filter_map(|(_, cancel)| Some((cancel.asker?, self.servers.get(cancel.server)?.pool)))
            .collect();
        let nobody: Arc<str> = "".into();
        let mut found = Vec::with_capacity(self.clients.len());
        for (key, client) in self.clients.iter() {
            tallies.buffers += client.connection.borrowed();
            let since = |moment| self.now.since(moment);
            let (pool, state, link, waited) = match &client.state {
                State::Opening(_) | State::Looking(_) | State::Asked(_) => {
                    (None, ClientState::Login, None, Duration::ZERO)
                }
                State::WaitingForWelcome(_) => {
                    (Some(client.pool), ClientState::Waiting, None, since(client.came))
                }
                State::Idle | State::Migrating => {
                    (Some(client.pool), ClientState::Idle, None, Duration::ZERO)
                }
                State::Waits(_) => {
                    (Some(client.pool), ClientState::Waiting, None, since(client.since))
                }
                State::Served(at) => {
                    let server = self.servers.get(*at);
                    let waited = server.and_then(|server| server.query_since).map(since);
                    let link = server.map(|server| server.id);
                    (Some(client.pool), ClientState::Active, link, waited.unwrap_or_default())
                }
                State::Cancelling => (
                    cancels.get(&key).copied(),
                    ClientState::ActiveCancel,
                    None,
                    since(client.came),
                ),
                // Nobody reckons with it any more.
                State::Ending => continue,
            };
            if let Some(pool) = pool {
                let tally = &mut tallies.clients[pool];
                match state {
                    ClientState::Waiting => tally.waiting += 1,
                    ClientState::ActiveCancel => tally.active_cancel += 1,
                    _ => tally.active += 1,
                }
            }
            let names = pool.map(|pool| &names[pool]);
            let connection = ConnectionRow {
                id: client.id,
                link,
                user: names.map_or(&nobody, |names| &names.user).clone(),
                database: names.map_or(&nobody, |names| &names.database).clone(),
                replication: replication(client.replication),
                address: client.ends.0,
                local_address: client.ends.1,
                connected: self.calendar(client.came),
                requested: self.calendar(client.asked),
                waited,
                process: None,
                tls: shared(&client.connection.server_tls(), &nobody),
                application_name: self.application(client, &nobody),
                prepared: small(client.statements.names()),
                buffered: buffered(&client.connection, client.needs as usize),
            };
            found.push(Client { connection, state });
        }
        found
    }

    fn application(&self, client: &client::Client, nobody: &Arc<str>) -> Arc<str> {
        let name = client.settings.value(b"application_name").unwrap_or_default();
        shared(&String::from_utf8_lossy(&name), nobody)
    }

    fn servers_now(&self, names: &[Names], tallies: &mut Tallies) -> Vec<Server> {
        let nobody: Arc<str> = "".into();
        let mut found = Vec::with_capacity(self.servers.len());
        for (_, server) in self.servers.iter() {
            let tally = &mut tallies.servers[server.pool];
            let (state, count) = match server.state {
                server::State::Connecting
                | server::State::LoggingIn(_)
                | server::State::Hashing => (ServerState::New, &mut tally.login),
                server::State::Idle => (ServerState::Idle, &mut tally.idle),
                server::State::Serving
                | server::State::Setting(_)
                | server::State::Forgetting
                | server::State::Restoring(_)
                | server::State::Encoding => (ServerState::Active, &mut tally.active),
                server::State::BeingCancelled => {
                    (ServerState::BeingCancelled, &mut tally.being_cancelled)
                }
                _ => (ServerState::Tested, &mut tally.tested),
            };
            *count += 1;
            let connection = server.connection.as_ref();
            tallies.buffers += connection.map_or(0, Connection::borrowed);
            let (peer, local) =
                connection.map_or((None, None), |connection| connection.stream().ends());
            let link = server.client.and_then(|client| self.clients.get(client));
            let waited = server.query_since.map(|since| self.now.since(since));
            let connection = ConnectionRow {
                id: server.id,
                link: link.map(|client| client.id),
                user: names[server.pool].user.clone(),
                database: names[server.pool].database.clone(),
                replication: replication(server.replication),
                address: peer,
                local_address: local,
                connected: self.calendar(server.since),
                requested: self.calendar(server.query_since.unwrap_or(server.active)),
                waited: waited.unwrap_or_default(),
                process: Some(server.process).filter(|process| *process != 0),
                tls: connection
                    .map_or(nobody.clone(), |connection| shared(&connection.server_tls(), &nobody)),
                application_name: link
                    .map_or(nobody.clone(), |client| self.application(client, &nobody)),
                prepared: small(server.relay.prepared()),
                buffered: connection
                    .map_or(Buffered::default(), |connection| buffered(connection, 0)),
            };
            let closing = server.closing || server.tainted;
            found.push(Server { connection, state, closing });
        }
        for (_, cancel) in self.cancels.iter() {
            if let Some(server) = self.servers.get(cancel.server) {
                tallies.servers[server.pool].active_cancel += 1;
            }
        }
        found
    }

    fn pool_now(&self, at: PoolIndex, names: &Names, tallies: &Tallies) -> Pool {
        let pool = &self.pools[at];
        let gate = &self.config.databases[pool.database].gate;
        let named = |class: usize, counts| {
            class_now(self.config.classes.list()[class].name.clone(), counts)
        };
        let mut classes: Vec<Class> =
            pool.driver.counts().map(|(class, counts)| named(class, counts)).collect();
        if classes.is_empty() {
            // Nobody has asked for anything yet.
            classes.push(named(0, &ClassCounts::default()));
        }
        Pool {
            database: names.database.to_string(),
            user: names.user.to_string(),
            mode: mode(pool.mode),
            gate: Slots {
                slots: pool.driver.slots(),
                busy: pool.driver.busy(),
                waiting: small(pool.driver.waiting() as usize),
            },
            slots_dropped: pool.driver.dropped(),
            discipline: gate.discipline.name().to_owned(),
            router: gate.router.name().to_owned(),
            clients: tallies.clients[at],
            servers: tallies.servers[at],
            wait_oldest: Duration::ZERO,
            load_balance_hosts: load_balance(&self.config.databases[pool.database]),
            total: counts(pool),
            recent: self.admin.periods.recent(at),
            classes,
        }
    }

    /// The slots of each server of each pool, and those over several pools.
    fn slots_now(&self) -> Vec<SlotsOf> {
        let mut found = Vec::new();
        let there = self.pools.iter().enumerate().filter(|(_, pool)| !pool.vacant);
        for (at, pool) in there {
            let user = String::from_utf8_lossy(&pool.user).into_owned();
            let name = (self.name_of(at).to_string(), user);
            let of = format!("{}/{}", name.0, name.1);
            for (place, server) in (0..).zip(pool.per_server()) {
                let ServerStats { role, up, waiting, busy, slots, started, connections } = server;
                found.push(SlotsOf {
                    of: of.clone(),
                    slots: Slots { slots, busy, waiting: small(waiting as usize) },
                    dropped: None,
                    server: Some(ServerSlots {
                        pool: name.clone(),
                        address: self.address_of(at, place).to_string(),
                        role: match role {
                            Role::Primary => "primary",
                            Role::Replica => "replica",
                        },
                        up,
                        started,
                        connections: small(connections),
                    }),
                });
            }
        }
        found.sort_by(|a, b| a.of.cmp(&b.of));
        let quotas = self.quota_stats().into_iter().filter(|quota| quota.slots < UNBOUNDED);
        found.extend(quotas.map(|quota| SlotsOf {
            of: quota.name,
            slots: Slots {
                slots: quota.slots,
                busy: quota.busy,
                waiting: small(quota.waiting as usize),
            },
            dropped: Some(quota.slots_dropped),
            server: None,
        }));
        found
    }

    /// The slots over all pools, if there are any.
    fn over_all(&self) -> Option<Slots> {
        let all = self.quota_stats().into_iter().find(|quota| quota.name == "all")?;
        if all.slots >= UNBOUNDED {
            return None;
        }
        let waiting = small(all.waiting as usize);
        Some(Slots { slots: all.slots, busy: all.busy, waiting })
    }

    /// The jobs that wait, pool by pool, and the longest wait of each.
    fn queue_now(&self, names: &[Names], pools: &mut [Pool]) -> Vec<Waiter> {
        let classes = self.config.classes.list().iter();
        let classes: Vec<Arc<str>> = classes.map(|class| class.name.as_str().into()).collect();
        let mut found = Vec::new();
        for (at, names) in names.iter().enumerate() {
            let driver = &self.pools[at].driver;
            if driver.waiting() == 0 {
                continue;
            }
            for job in driver.queue(self.now) {
                let waited = self.now.since(job.arrived);
                pools[at].wait_oldest = pools[at].wait_oldest.max(waited);
                let Some(client) = self.clients.get(job.owner) else { continue };
                found.push(Waiter {
                    client: client.id,
                    database: names.database.clone(),
                    user: names.user.clone(),
                    class: classes[job.class as usize].clone(),
                    priority: job.priority.into(),
                    waited,
                    left: job.deadline.map(|deadline| deadline.since(self.now)),
                    estimate: job.estimate,
                });
            }
        }
        found
    }

    fn databases_now(&self, pools: &[Pool]) -> Vec<Database> {
        let quotas = &self.config.quotas;
        let database = |one: &config::Database| {
            // They are in the order of their databases.
            let first = pools.partition_point(|pool| pool.database < one.name);
            let of = || pools[first..].iter().take_while(|pool| pool.database == one.name);
            let ends = one.servers.iter().map(|server| match server {
                Address::Tcp(address) => (address.ip().to_string(), address.port()),
                Address::Host { name, address } => (name.clone(), address.port()),
                Address::Unresolved { name, port } => (name.clone(), *port),
                Address::Unix(path) => directory_and_port(path),
            });
            let (hosts, ports): (Vec<_>, Vec<_>) = ends.unzip();
            Database {
                name: one.name.clone(),
                host: Some(hosts.join(",")),
                port: ports.first().copied().unwrap_or_default(),
                database: one.target().to_owned(),
                force_user: one
                    .forced
                    .as_ref()
                    .map(|user| String::from_utf8_lossy(user).into_owned()),
                pool_size: one.gate.servers.iter().map(|server| server.slots).sum(),
                pool_size_min: one.maintenance.slots_kept,
                reserve_pool_size: reserve(&one.gate),
                server_lifetime: one
                    .maintenance
                    .lifetime
                    .unwrap_or(self.config.timeouts.server_lifetime),
                mode: Some(mode(one.mode)),
                load_balance_hosts: load_balance(one),
                connections_max: quotas
                    .databases
                    .get(&one.name)
                    .copied()
                    .or(quotas.database)
                    .unwrap_or(0),
                connections: of().map(|pool| connections(&pool.servers)).sum(),
                clients_max: one.clients.or(self.config.limits.database_clients).map_or(0, small),
                clients: of().map(|pool| clients(&pool.clients)).sum(),
                paused: self.admin.is_paused(&one.name),
                disabled: self.admin.is_disabled(&one.name),
            }
        };
        let there = self.config.databases.iter().filter(|one| !one.name.is_empty());
        there.map(database).collect()
    }

    fn users_now(&self, pools: &[Pool]) -> Vec<User> {
        let mut found: Vec<User> = self
            .config
            .users
            .names()
            .map(|name| {
                let terms = self.config.terms.get(name);
                let quotas = &self.config.quotas;
                User {
                    name: String::from_utf8_lossy(name).into_owned(),
                    pool_size: terms.and_then(|terms| terms.slots),
                    reserve_pool_size: terms
                        .and_then(|terms| terms.reserve.map(|reserve| reserve.slots)),
                    mode: terms.and_then(|terms| terms.mode).map(mode),
                    connections_max: quotas.users.get(name).copied().or(quotas.user).unwrap_or(0),
                    connections: 0,
                    clients_max: terms
                        .and_then(|terms| terms.clients)
                        .or(self.config.limits.user_clients)
                        .map_or(0, small),
                    clients: 0,
                }
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        for pool in pools {
            if let Ok(at) = found.binary_search_by(|user| user.name.cmp(&pool.user)) {
                found[at].connections += connections(&pool.servers);
                found[at].clients += clients(&pool.clients);
            }
        }
        found
    }

    fn memory_now(&self, buffers: usize) -> Vec<Memory> {
        let memory = |name: &str, size, used, free| Memory {
            name: name.to_owned(),
            size: small(size),
            used: small(used),
            free: small(free),
        };
        vec![
            memory(
                "client",
                size_of::<client::Client>(),
                self.clients.len(),
                self.clients.vacant(),
            ),
            memory(
                "server",
                size_of::<server::Server>(),
                self.servers.len(),
                self.servers.vacant(),
            ),
            memory("buffer", BUFFER, buffers, self.buffers.spare()),
        ]
    }
}

/// The slots that a pool may have besides, at all of its servers.
fn reserve(gate: &gate::GateSpec) -> u32 {
    gate.reserve.map_or(0, |reserve| reserve.slots.saturating_mul(small(gate.servers.len())))
}

/// The choice of a server in PgBouncer's words: the first as long as it is up, or by turns.
fn load_balance(database: &config::Database) -> Option<String> {
    let word = match database.share {
        config::Share::Each => "disable",
        config::Share::Together => "round-robin",
    };
    (database.servers.len() > 1).then(|| word.to_owned())
}

/// One text for many, if it is the usual one.
fn shared(text: &str, nobody: &Arc<str>) -> Arc<str> {
    if text.is_empty() { nobody.clone() } else { text.into() }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn buffered(connection: &Connection, needs: usize) -> Buffered {
    let unread = connection.read().len();
    Buffered {
        unread: small(unread),
        missing: small(needs.saturating_sub(unread)),
        unsent: small(connection.unsent()),
    }
}

fn replication(replication: startup::Replication) -> Replication {
    match replication {
        startup::Replication::No => Replication::None,
        startup::Replication::Logical => Replication::Logical,
        startup::Replication::Physical => Replication::Physical,
    }
}

fn mode(mode: config::Mode) -> Mode {
    match mode {
        config::Mode::Session => Mode::Session,
        config::Mode::Transaction => Mode::Transaction,
        config::Mode::Statement => Mode::Statement,
    }
}

fn class_now(name: String, counts: &ClassCounts) -> Class {
    Class {
        name,
        waiting: small(counts.waiting as usize),
        busy: counts.busy,
        wait: counts.wait.clone(),
        hold: counts.hold.clone(),
        refused_queue_full: counts.refused_queue_full,
        refused_deadline: counts.refused_deadline,
        refused_hopeless: counts.refused_hopeless,
        refused_unreachable: counts.refused_unreachable,
        reneged: counts.reneged,
    }
}

fn counts(pool: &pool::Pool) -> Counts {
    let counters = &pool.counters;
    Counts {
        assignments: pool.driver.starts(),
        transactions: counters.xact_count,
        queries: counters.query_count,
        received: counters.received,
        sent: counters.sent,
        transaction_time: counters.xact_time,
        query_time: counters.query_time,
        wait_time: pool.driver.wait_sum(),
        client_parses: counters.client_parse_count,
        server_parses: counters.server_parse_count,
        binds: counters.bind_count,
    }
}

fn connections(servers: &PoolServers) -> u32 {
    let PoolServers { active, being_cancelled, idle, used, tested, login, .. } = *servers;
    active + being_cancelled + idle + used + tested + login
}

fn clients(clients: &PoolClients) -> u32 {
    clients.active + clients.waiting
}
/// The directory of a server's socket, and the port that its name has there.
fn directory_and_port(path: &Path) -> (String, u16) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let port = name.strip_prefix(".s.PGSQL.").and_then(|port| port.parse().ok());
    match (port, path.parent()) {
        (Some(port), Some(directory)) => (directory.display().to_string(), port),
        _ => (path.display().to_string(), 0),
    }
}
