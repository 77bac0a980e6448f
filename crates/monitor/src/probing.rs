//! Probes: each server that is watched is asked at intervals whether it answers, what it is, and how
//! far it is, on a connection of its own that no client has; all pools of its database go by it.
//!
//! These are the servers that the configuration says. A pool that still has others, since jobs go on at
//! one that is gone, goes by what its own connections find until it has these.

use gate::{Role, Time};
use pgsession::health::{PROBE, Seen, Watch};

use super::config::{Config, Database};
use super::pool::PoolIndex;
use super::server::{Server, State};
use super::slab::{Key, Socket};
use super::state::Loop;

/// The probes of a database.
#[derive(Debug)]
pub(super) struct Probes {
    pub(super) watch: Watch,
    servers: Vec<Probe>,
}

/// The probe of one server.
#[derive(Clone, Debug)]
struct Probe {
    /// Its connection.
    connection: Option<Key>,
    /// When it asks next.
    due: Time,
}

impl Probes {
    /// Those of each database that is watched.
    pub(super) fn of(config: &Config) -> Vec<Option<Probes>> {
        config.databases.iter().map(Probes::of_database).collect()
    }

    /// Those of a database, if it is watched.
    pub(super) fn of_database(database: &Database) -> Option<Probes> {
        let health = database.health?;
        let roles = match &database.gate.roles[..] {
            [] => vec![Role::Primary; database.servers.len()],
            roles => roles.to_vec(),
        };
        let probe = Probe { connection: None, due: Time::ZERO };
        let servers = vec![probe; roles.len()];
        Some(Probes { watch: Watch::new(health, &roles), servers })
    }
}

impl Loop {
    /// Begins the probes that are due.
    pub(super) fn probe(&mut self) {
        for database in 0..self.probes.len() {
            let Some(probes) = &mut self.probes[database] else { continue };
            let next = self.now + probes.watch.health().interval;
            let mut due = Vec::new();
            for (place, probe) in probes.servers.iter_mut().enumerate() {
                if probe.due <= self.now {
                    probe.due = next;
                    due.push((place, probe.connection));
                }
            }
            for (place, connection) in due {
                self.probe_server(database, place, connection);
            }
        }
    }

    /// The servers of a database are watched anew, or not at all.
    pub(super) fn watch_anew(&mut self, database: usize) {
        let pools = 0..self.pools.len();
        let pools: Vec<_> = pools.filter(|at| self.pools[*at].database == database).collect();
        self.withdraw_probes(&pools);
        self.probes[database] = Probes::of_database(&self.config.databases[database]);
        for pool in pools {
            for place in 0..self.pools[pool].addresses.len() {
                self.tell(pool, |driver, now| driver.rise(now, place as u32));
            }
        }
    }

    fn probe_server(&mut self, database: usize, place: usize, connection: Option<Key>) {
        match connection.and_then(|key| Some((key, self.servers.get(key)?))) {
            Some((key, server)) if matches!(server.state, State::Idle) => self.ask_health(key),
            // The last probe has not ended yet.
            Some(_) => {}
            None => {
                let (user, _) = self.config.databases[database].login.as_ref().expect("checked");
                let user = user.clone();
                // Without a pool for it there is nobody to whom it would matter.
                let Some(pool) = self.open_pool(database, user) else { return };
                self.connect_probe(database, place, pool);
            }
        }
    }

    fn connect_probe(&mut self, database: usize, place: usize, pool: PoolIndex) {
        let address = self.config.databases[database].servers[place].clone();
        let server = self.fresh_server(pool, (place as u32, address));
        let Some(probes) = &mut self.probes[database] else { return };
        let key = self.servers.insert(Server { probe: Some(Vec::new()), ..server });
        probes.servers[place].connection = Some(key);
        let latest = self.now + probes.watch.health().timeout;
        let server = self.servers.get_mut(key).expect("it has just been put there");
        self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        self.connects.push_back(key);
        self.connect_next();
    }

    /// Asks on a connection of a probe.
    pub(super) fn ask_health(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        server.state = State::Probing;
        let database = self.pools[server.pool].database;
        self.query(key, PROBE.as_bytes());
        let Some(server) = self.servers.get_mut(key) else { return };
        let Some(probes) = &self.probes[database] else { return };
        let latest = self.now + probes.watch.health().timeout;
        self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
    }

    /// A probe has its answer.
    pub(super) fn probed(&mut self, key: Key) {
        let server = self.servers.get(key).expect("its caller has it");
        let seen = server.probe.as_deref().and_then(Seen::read);
        let (database, place) = (self.pools[server.pool].database, server.place as usize);
        self.note_health(database, place, seen);
        self.close_spent_probe(key);
    }

    /// Closes a probe's connection that is to be used no more, unless it asks: then it goes when it has
    /// its answer. The server is asked on another one when that is due.
    pub(super) fn close_spent_probe(&mut self, key: Key) {
        let server = self.servers.get(key).expect("its caller has it");
        let is_spent = server.closing || server.tainted;
        if is_spent && matches!(server.state, State::Idle) {
            self.drop_server(key);
        }
    }

    /// Ends the probes of these pools, whatever they do: that says nothing of their servers.
    pub(super) fn withdraw_probes(&mut self, pools: &[PoolIndex]) {
        let all = self
            .servers
            .iter()
            .filter(|(_, server)| server.probe.is_some() && pools.contains(&server.pool));
        let all: Vec<Key> = all.map(|(key, _)| key).collect();
        for key in all {
            let server = self.servers.get(key).expect("it was there above");
            if let Some(probes) = &mut self.probes[self.pools[server.pool].database] {
                probes.servers[server.place as usize].connection = None;
            }
            self.drop_server(key);
        }
    }

    /// The connection of a probe has ended. It has failed if it asked, and was not withdrawn.
    pub(super) fn probe_ended(&mut self, key: Key, at: (usize, u32), state: &State) {
        let (database, place) = (at.0, at.1 as usize);
        let Some(probes) = &mut self.probes[database] else { return };
        let connection = &mut probes.servers[place].connection;
        if connection.take_if(|one| *one == key).is_some() && !matches!(state, State::Idle) {
            self.note_health(database, place, None);
        }
    }

    fn note_health(&mut self, database: usize, place: usize, seen: Option<Seen>) {
        let Some(probes) = &mut self.probes[database] else { return };
        probes.watch.note(place, seen);
        let answered = seen.is_some().then_some(place);
        for pool in 0..self.pools.len() {
            if self.pools[pool].database == database {
                self.follow_health(pool, answered);
            }
        }
    }

    /// True if the results of probes count for a pool: its database is watched, and it has the
    /// servers that are.
    pub(super) fn follows_probes(&self, pool: PoolIndex) -> bool {
        self.probes[self.pools[pool].database].is_some() && self.has_its_servers(pool)
    }

    /// Brings a pool up to what is known of its servers. Only one that has just answered is raised: a
    /// pool may have found it unreachable since it answered last.
    pub(super) fn follow_health(&mut self, pool: PoolIndex, answered: Option<usize>) {
        if !self.follows_probes(pool) {
            return;
        }
        let Some(probes) = &self.probes[self.pools[pool].database] else { return };
        let all = (0..probes.watch.len()).map(|place| probes.watch.standing(place));
        let standings: Vec<_> = all.collect();
        let alone = standings.len() == 1;
        if answered.is_some() {
            self.pools[pool].janitor.is_in();
        }
        for (place, standing) in standings.into_iter().enumerate() {
            let server = place as u32;
            self.tell(pool, |driver, now| driver.assume(now, server, standing.role));
            if !standing.up && alone {
                // Whoever waited for it to return would not be told why it does not.
            } else if !standing.up {
                self.tell(pool, |driver, now| driver.lower(now, server));
            } else if answered == Some(place) {
                self.tell(pool, |driver, now| driver.rise(now, server));
            }
        }
    }
}
