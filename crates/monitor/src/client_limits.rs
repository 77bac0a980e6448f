//! Client limits: the numbers of clients of each database, user and pool, and their bounds.

use std::collections::HashMap;
use std::sync::Arc;

use super::client::Client;
use super::pool::PoolIndex;
use super::state::Loop;
use pgwire::SqlState;

/// The clients that are in, by user and by the place of their database.
#[derive(Debug, Default)]
pub(super) struct ClientLimits {
    users: HashMap<Arc<[u8]>, usize>,
    databases: HashMap<usize, usize>,
    pools: Vec<usize>,
}

impl ClientLimits {
    /// One more; its user's name, which all its clients share.
    fn enter(&mut self, user: &[u8], database: usize, pool: PoolIndex) -> Arc<[u8]> {
        if self.pools.len() <= pool {
            self.pools.resize(pool + 1, 0);
        }
        self.pools[pool] += 1;
        *self.databases.entry(database).or_default() += 1;
        let name = match self.users.get_key_value(user) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(user),
        };
        *self.users.entry(Arc::clone(&name)).or_default() += 1;
        name
    }

    fn leave(&mut self, user: &Arc<[u8]>, database: usize, pool: PoolIndex) {
        self.pools[pool] -= 1;
        let fewer = |count: Option<&mut usize>| {
            let count = count.expect("who leaves has entered");
            *count -= 1;
            *count == 0
        };
        if fewer(self.users.get_mut(user)) {
            self.users.remove(user);
        }
        if fewer(self.databases.get_mut(&database)) {
            self.databases.remove(&database);
        }
    }

    /// The clients of the database in this place.
    pub(super) fn of_database(&self, database: usize) -> usize {
        self.databases.get(&database).copied().unwrap_or(0)
    }

    /// The clients of this pool.
    pub(super) fn of_pool(&self, pool: PoolIndex) -> usize {
        self.pools.get(pool).copied().unwrap_or(0)
    }

    /// The clients of this user.
    pub(super) fn of_user(&self, user: &[u8]) -> usize {
        self.users.get(user).copied().unwrap_or(0)
    }
}

impl Loop {
    /// Counts a client in; its user's name.
    ///
    /// # Errors
    /// If its database or its user has as many as it may have: what the client is told.
    pub(super) fn count_in(
        &mut self,
        user: &[u8],
        pool: PoolIndex,
    ) -> Result<Arc<[u8]>, (SqlState, String)> {
        let database = self.pools[pool].database;
        let limits = &self.config.limits;
        let full = |whose: &str, name: &str, most: usize| {
            let message =
                format!("{whose} \"{name}\" has {most} clients already, and may have no more");
            Err((SqlState::TOO_MANY_CONNECTIONS, message))
        };
        let of = &self.config.databases[database];
        if let Some(most) = of.clients.or(limits.database_clients)
            && self.client_limits.of_database(database) >= most
        {
            return full("database", &of.name, most);
        }
        let own = self.config.terms.get(user).and_then(|terms| terms.clients);
        if let Some(most) = own.or(limits.user_clients)
            && self.client_limits.of_user(user) >= most
        {
            return full("user", &String::from_utf8_lossy(user), most);
        }
        Ok(self.client_limits.enter(user, database, pool))
    }

    /// A client has gone that may have been counted.
    pub(super) fn count_out(&mut self, client: &Client) {
        if let Some(user) = &client.user {
            self.client_limits.leave(user, self.pools[client.pool].database, client.pool);
        }
    }
}
