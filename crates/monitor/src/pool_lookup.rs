//! Pool lookup: the database by its name or by the name that stands for the rest, the user or the
//! one that all its clients are made.

use super::client::Wanted;
use super::config::Database;
use super::pool::PoolIndex;
use super::state::Loop;
use pgwire::SqlState;
use pgwire::auth::Credential;
use pgwire::startup::Replication;

impl Loop {
    /// The pool of a client that has proved who it is, and what it brought to log in with.
    pub(super) fn pool_for(
        &mut self,
        wanted: &Wanted,
        brought: Credential,
    ) -> Result<PoolIndex, (SqlState, String)> {
        let name = String::from_utf8_lossy(&wanted.database);
        let named = self.databases.get(&*name).copied();
        let rest = || self.databases.get(Database::REST).copied();
        // A whole server is replicated; those who do that name a database that is none.
        let only = || {
            let only = wanted.replication == Replication::Physical && self.databases.len() == 1;
            self.databases.values().next().copied().filter(|_| only)
        };
        let at = named.or_else(only).or_else(rest).ok_or_else(|| {
            let message = format!("database \"{name}\" does not exist");
            (SqlState::UNDEFINED_DATABASE, message)
        })?;
        let forced = self.config.databases[at].forced.clone();
        let brought = if forced.is_some() { Credential::Nothing } else { brought };
        let user = forced.unwrap_or_else(|| wanted.user.clone());
        // What stands for the rest has a place for each name.
        let is_rest = self.config.databases[at].name == Database::REST && name != Database::REST;
        let there = self.pools_by_name.get(&(at, user.clone())).filter(|_| !is_rest);
        let pool = match there {
            Some(&pool) => pool,
            None => self.open_named(at, &name, user.clone())?,
        };
        let known = if self.config.users.knows(&user) {
            self.config.users.credential(&user)
        } else if user == wanted.user {
            self.auth_queries.credential(&wanted.database, &user)
        } else {
            Credential::Nothing
        };
        self.pools[pool].learn(known, brought);
        Ok(pool)
    }

    fn open_named(
        &mut self,
        at: usize,
        name: &str,
        user: Vec<u8>,
    ) -> Result<PoolIndex, (SqlState, String)> {
        let many = "there are too many pools: each database and user has one";
        let refused = || (SqlState::CONFIGURATION_LIMIT_EXCEEDED, many.to_owned());
        if !self.has_room_for_pool(at) {
            return Err(refused());
        }
        let at = self.place_for(at, name);
        self.open_pool(at, user).ok_or_else(refused)
    }

    /// The place of the database that clients call so: one that stands for the rest gets a place for
    /// each name.
    fn place_for(&mut self, at: usize, name: &str) -> usize {
        let all = &mut self.config.databases;
        if all[at].name != Database::REST || name == Database::REST {
            return at;
        }
        let named = Database { name: name.to_owned(), ..all[at].clone() };
        let place = match self.autodb.take_database() {
            Some(place) => {
                all[place] = named;
                place
            }
            None => {
                all.push(named);
                // Those that nobody has named are not watched.
                self.probes.push(None);
                all.len() - 1
            }
        };
        self.config.quotas.name_one_of_the_rest(name);
        self.databases.insert(name.to_owned(), place);
        self.autodb.is_used(place, self.now);
        place
    }
}
