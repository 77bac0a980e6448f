//! Invariants between turns: what clients, servers and pools know of each other agrees. A slot that
//! nobody holds, or a client that nobody serves, is found in the turn that lost it.

use super::client::{Client, State as ClientState};
use super::deadlines::Deadline;
use super::pool::{Pool, PoolIndex};
use super::server::{Server, State};
use super::slab::Key;
use super::state::Loop;

/// Connections up to which all are looked at in each turn: more would make a turn of a test too long.
const CHECKED_MAX: usize = 64;

impl Loop {
    /// Looks at all that is there, if that is little.
    ///
    /// # Panics
    /// If something does not agree.
    pub(super) fn check_invariants(&self) {
        if self.clients.len() + self.servers.len() >= CHECKED_MAX {
            return;
        }
        self.clients.iter().for_each(|(key, client)| self.check_client(key, client));
        self.servers.iter().for_each(|(key, server)| self.check_server(key, server));
        // One too many for good, and some time no connection would be made any more.
        let dialled = |server: &Server| server.greeting.is_some() && server.connection.is_some();
        assert_eq!(self.connecting, self.servers_that(dialled), "each is counted until it is in");
        assert_eq!(self.logins.len(), self.clients_that(logs_in), "who logs in is listed");
        let cancels = |client: &Client| client.secret_bytes > 0;
        assert_eq!(self.processes.len(), self.clients_that(cancels), "each number is somebody's");
        if !self.decided.is_empty() || self.quotas.chain.has_decided() {
            // A slot may have been given to a job whose client has not heard of it yet.
            return;
        }
        let pools = self.pools.iter().enumerate().filter(|(_, pool)| !pool.vacant);
        pools.for_each(|(at, pool)| self.check_pool(at, pool));
        // On the way through quotas slots are held that no server has yet.
        if self.servers_that(|server| server.asks.is_some()) == 0 {
            for quota in self.quotas.places() {
                let permits = self.servers.iter().flat_map(|(_, server)| &server.permits);
                let held = permits.filter(|(at, _)| *at == quota).count();
                assert_eq!(self.quotas.chain.busy(quota) as usize, held, "quota {quota}");
            }
        }
    }

    fn clients_that(&self, are: impl Fn(&Client) -> bool) -> usize {
        self.clients.iter().filter(|(_, client)| are(client)).count()
    }

    fn servers_that(&self, are: impl Fn(&Server) -> bool) -> usize {
        self.servers.iter().filter(|(_, server)| are(server)).count()
    }

    fn check_client(&self, key: Key, client: &Client) {
        let pool = || &self.pools[client.pool];
        let agrees = match client.state {
            _ if logs_in(client) => {
                client.user.is_none() && self.logins.get(&client.id) == Some(&key)
            }
            ClientState::WaitingForWelcome(_) => pool().waiting_for_welcome.contains(&key),
            ClientState::Served(at) => {
                let server = self.servers.get(at).expect("who is served has a server");
                (server.client, server.pool) == (Some(key), client.pool)
            }
            // A takeover lets these go without a look at what is due for them.
            ClientState::Idle | ClientState::Migrating => client.deadline == Deadline::default(),
            ClientState::Waits(_) => client.user.is_some(),
            _ => client.secret_bytes == 0,
        };
        assert!(agrees, "client {} in state {:?}", client.id, client.state);
    }

    fn check_server(&self, key: Key, server: &Server) {
        let Server { state, slot, connection, greeting, .. } = server;
        let is_free = server.client.is_none() && slot.is_none() && server.permits.is_empty();
        let agrees = match state {
            State::Admitting => slot.is_some() && connection.is_none() && server.asks.is_some(),
            State::Connecting => greeting.is_some(),
            State::LoggingIn(_) | State::Hashing => greeting.is_some() && connection.is_some(),
            State::Idle => is_free && server.cancels == 0,
            State::Probing => is_free && server.probe.is_some(),
            State::Serving | State::Restoring(_) => server.client.is_some(),
            State::Leaving | State::GivenUp | State::Discarding | State::Cleanup => {
                server.client.is_none()
            }
            State::BeingCancelled => {
                server.client.is_none() && slot.is_some() && server.cancels > 0
            }
            // Its client may go meanwhile, and one that was made for nobody has none.
            _ => greeting.is_none(),
        };
        assert!(agrees, "server {} in state {state:?}", server.id);
        assert!(connection.is_some() || greeting.is_some(), "one that was made has a connection");
        let slot_of = |slot| self.pools[server.pool].driver.slot_of(slot);
        let its_place = slot.as_ref().map(|slot| slot_of(slot).server);
        assert!(its_place.is_none_or(|place| place == server.place), "a slot is of its server");
        assert!(slot.is_some() || server.permits.is_empty(), "permits go with a slot");
        let client = server.client.map(|client| self.clients.get(client));
        let names = client.is_none_or(|one| one.is_some_and(|one| one.state.server() == Some(key)));
        assert!(names, "a server's client names that server");
        assert!(slot.is_some() || server.client.is_none(), "who is served has a slot");
        assert!(!server.is_kept() || server.client.is_some(), "a pin ends with its client");
        let cancels = self.cancels.iter().filter(|(_, cancel)| cancel.server == key).count();
        assert_eq!(server.cancels as usize, cancels, "each request on its way is counted");
    }

    fn check_pool(&self, at: PoolIndex, pool: &Pool) {
        let servers = || self.servers.iter().filter(|(_, server)| server.pool == at);
        let held = servers().filter(|(_, server)| server.slot.is_some()).count();
        assert_eq!(pool.driver.busy() as usize, held, "each slot is some server's");
        let waits = |client: &Client| client.state.job().is_some() && client.pool == at;
        assert_eq!(
            pool.driver.waiting() as usize,
            self.clients_that(waits),
            "each job has a client"
        );
        for (place, &count) in pool.connections.iter().enumerate() {
            let there = servers().filter(|(_, one)| one.counts() && one.place as usize == place);
            assert_eq!(count, there.count(), "connections to server {place}");
        }
        let is_idle = |server: &Server| {
            matches!(server.state, State::Idle) && server.probe.is_none() && server.pool == at
        };
        let idle = |key: Key| self.servers.get(key).is_some_and(is_idle);
        assert!(pool.idle_longest().all(idle), "an idle connection is nobody's");
        assert_eq!(pool.idle_longest().count(), self.servers_that(is_idle), "each is in the list");
        let kept = servers().filter(|(_, server)| server.is_kept()).count();
        assert_eq!(pool.kept as usize, kept, "each pin is counted once");
        let is_in = |client: &Client| client.user.is_some() && client.pool == at;
        assert_eq!(
            self.client_limits.of_pool(at),
            self.clients_that(is_in),
            "who is in is counted"
        );
        let has_job =
            |key: &Key| self.clients.get(*key).is_some_and(|one| one.state.job().is_some());
        let asks =
            pool.welcome_connection.is_some() || pool.waiting_for_welcome.iter().any(has_job);
        let waits = pool.parameters.is_none() && asks;
        assert!(
            waits || pool.waiting_for_welcome.is_empty(),
            "one who waits asks for all, and nobody waits for what is known"
        );
    }
}

fn logs_in(client: &Client) -> bool {
    use ClientState::{Asked, Looking, Opening};
    matches!(client.state, Opening(_) | Looking(_) | Asked(_))
}
