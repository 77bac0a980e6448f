//! auth_query: secrets of users that no list has are looked up in a database while the login waits, and
//! kept for a few seconds, also that there is none.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gate::Time;

use super::auth_query_connection::Place;
use super::background::Wanted;
use super::client::{Looking, State};
use super::config::{Database, UnlistedUsers};
use super::slab::Key;
use super::state::Loop;
use pgwire::SqlState;
use pgwire::auth::{Credential, Method};
use pgwire::secrets::{Looks, Secret};

/// The query where nobody says otherwise: `$1` is the user. One whose password is no longer valid
/// has none.
pub const LOOKUP_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN \
                                NULL ELSE rolpassword END FROM pg_catalog.pg_authid \
                                WHERE rolname = $1 AND rolcanlogin";

/// Time for which what was found counts.
const FRESH: Duration = Duration::from_secs(10);
/// Age from which a secret is looked up anew after a proof has failed.
const SUSPECTED: Duration = Duration::from_secs(1);
/// Results that are kept, and lookups that may be under way, at most.
const KEPT_MAX: usize = 10_000;
const UNDER_WAY_MAX: usize = 128;

/// The `auth_query` for users that no list has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// As whom.
    pub user: Vec<u8>,
    /// With what that user logs in.
    pub credential: Credential,
    /// The query: `$1` is the user, the row has the user's name and the secret as `pg_authid` has
    /// it, or NULL. Names in it are those of `pg_catalog` unless they are qualified.
    pub query: String,
    /// In which database, by the name that clients know; in the one that they want to if none.
    pub database: Option<String>,
}

/// Result of a lookup.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Secret(Secret),
    /// A user without a password that is valid.
    Bare,
    Nobody,
}

/// A database and a user.
type Name = (Vec<u8>, Vec<u8>);

#[derive(Default)]
pub(super) struct AuthQueries {
    kept: HashMap<Name, (Time, Found)>,
    /// Clients that wait for a lookup that is under way.
    waiting: HashMap<Name, Vec<Key>>,
    /// The place of the lookups of each database.
    places: HashMap<Vec<u8>, Arc<Place>>,
    /// The looks of the last secret that was found, so that those of nobody look the same.
    looks: Option<Looks>,
}

impl AuthQueries {
    /// Forgets all results and places, which may be of before a change of the configuration.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.places.clear();
    }

    /// The result for a user, if it is fresh.
    fn fresh(&self, name: &Name, now: Time) -> Option<&Found> {
        let (since, found) = self.kept.get(name)?;
        (now.since(*since) < FRESH).then_some(found)
    }

    fn keep(&mut self, name: Name, found: Found, now: Time) {
        if let Found::Secret(secret) = &found {
            self.looks = Some(secret.looks());
        }
        if self.kept.len() >= KEPT_MAX {
            self.kept.retain(|_, (since, _)| now.since(*since) < FRESH);
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.insert(name, (now, found));
        }
    }

    /// With what the gate can log in as a user whose secret was looked up.
    pub(super) fn credential(&self, database: &[u8], user: &[u8]) -> Credential {
        match self.kept.get(&(database.to_vec(), user.to_vec())) {
            Some((_, Found::Secret(secret))) => secret.credential(),
            _ => Credential::Nothing,
        }
    }

    /// A proof against what was found has failed: it may have been changed since.
    pub(super) fn suspect(&mut self, database: &[u8], user: &[u8], now: Time) {
        let name = (database.to_vec(), user.to_vec());
        if self.kept.get(&name).is_some_and(|(since, _)| now.since(*since) >= SUSPECTED) {
            self.kept.remove(&name);
        }
    }
}

impl Loop {
    /// True if a user is to be looked up where it wants to: for its secret, or to know whether
    /// there is one of that name.
    pub(super) fn must_look_up(&self, database: &[u8], user: &[u8], method: Method) -> bool {
        let is_of_use =
            method != Method::Trust || self.config.unlisted_users == UnlistedUsers::Refused;
        is_of_use
            && !self.config.users.knows(user)
            && self.place_named(database).is_some_and(|at| {
                let lookup = &self.config.databases[at].lookup;
                lookup.is_some()
            })
    }

    fn place_named(&self, name: &[u8]) -> Option<usize> {
        let named = std::str::from_utf8(name).ok().and_then(|name| self.databases.get(name));
        named.or_else(|| self.databases.get(Database::REST)).copied()
    }

    /// Has a client wait until the secret of its user is known.
    pub(super) fn look_up(&mut self, key: Key, looking: Looking) {
        let name = (looking.wanted.database.clone(), looking.wanted.user.clone());
        if let Some(found) = self.auth_queries.fresh(&name, self.now) {
            let found = found.clone();
            return self.challenge_with(key, looking, &found);
        }
        let under_way = self.auth_queries.waiting.len();
        if !self.auth_queries.waiting.contains_key(&name) {
            if under_way >= UNDER_WAY_MAX {
                let message = "too many logins wait for secrets to be looked up";
                return self.refuse(key, SqlState::TOO_MANY_CONNECTIONS, message);
            }
            self.stats.auth_queries += 1;
            let place = self.place_of(&name.0);
            let (database, user) = name.clone();
            self.background.look_up(Wanted { database, user, place });
        }
        self.auth_queries.waiting.entry(name).or_default().push(key);
        let client = self.clients.get_mut(key).expect("its caller has it");
        client.state = State::Looking(Box::new(looking));
    }

    fn place_of(&mut self, name: &[u8]) -> Arc<Place> {
        if let Some(place) = self.auth_queries.places.get(name) {
            return Arc::clone(place);
        }
        if self.auth_queries.places.len() >= KEPT_MAX {
            // Names that only `*` names have no end.
            self.auth_queries.places.clear();
        }
        let at = self.place_named(name).expect("it was found before");
        let database = &self.config.databases[at];
        let lookup = database.lookup.as_ref().expect("it was asked for before");
        let named = lookup.database.as_ref().and_then(|name| self.place_named(name.as_bytes()));
        let asked = named.map_or(database, |at| &self.config.databases[at]);
        // One that stands for the rest is at the servers what it is called.
        let called = lookup.database.clone().map_or_else(|| name.to_vec(), String::into_bytes);
        let called = || String::from_utf8_lossy(&called).into_owned();
        let place = Arc::new(Place {
            servers: asked.servers.clone(),
            server_tls: asked.server_tls.clone(),
            target: asked.target.clone().unwrap_or_else(called),
            user: lookup.user.clone(),
            credential: lookup.credential.clone(),
            query: lookup.query.clone(),
            timeout: self.config.timeouts.connect,
            key: self.config.users.key().clone(),
        });
        // Anybody may ask for any name where one stands for the rest.
        if self.auth_queries.places.len() >= KEPT_MAX {
            self.auth_queries.places.clear();
        }
        self.auth_queries.places.insert(name.to_vec(), Arc::clone(&place));
        place
    }

    /// A lookup has ended: those who waited for it are asked for their proofs.
    pub(super) fn looked_up(
        &mut self,
        database: Vec<u8>,
        user: Vec<u8>,
        found: Result<Found, String>,
    ) {
        let name = (database, user);
        let waiting = self.auth_queries.waiting.remove(&name).unwrap_or_default();
        if let Ok(found) = &found {
            self.auth_queries.keep(name, found.clone(), self.now);
        }
        if let Err(cause) = &found {
            self.stats.auth_queries_failed += 1;
            self.stats.auth_query_fault = Some(cause.clone());
        }
        for key in waiting {
            let Some(client) = self.clients.get_mut(key) else { continue };
            if !matches!(client.state, State::Looking(_)) {
                continue;
            }
            let State::Looking(looking) = std::mem::replace(&mut client.state, State::Ending)
            else {
                continue;
            };
            match &found {
                Ok(found) => self.challenge_with(key, *looking, found),
                Err(_) => {
                    // Why is not for the ears of whoever comes.
                    let user = String::from_utf8_lossy(&looking.wanted.user).into_owned();
                    let message = format!("the secret of user \"{user}\" cannot be looked up now");
                    self.refuse(key, SqlState::CANNOT_CONNECT_NOW, &message);
                }
            }
        }
    }

    fn challenge_with(&mut self, key: Key, looking: Looking, found: &Found) {
        let secret = match found {
            Found::Secret(secret) => secret.clone(),
            Found::Bare | Found::Nobody => {
                let looks = self.auth_queries.looks.unwrap_or_default();
                Secret::mock(&looking.wanted.user, looks, self.config.users.key())
            }
        };
        self.challenge(key, looking, &secret, !matches!(found, Found::Nobody));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_grows_old_and_is_doubted() {
        let mut auth_queries = AuthQueries::default();
        let name = |n: usize| (b"db".to_vec(), n.to_string().into_bytes());
        for n in 0..2 * KEPT_MAX {
            auth_queries.keep(name(n), Found::Nobody, Time::ZERO);
        }
        assert_eq!(auth_queries.kept.len(), KEPT_MAX);
        assert!(auth_queries.fresh(&name(0), Time::ZERO + FRESH / 2).is_some());
        let later = Time::ZERO + FRESH;
        assert!(auth_queries.fresh(&name(0), later).is_none());
        auth_queries.keep(name(KEPT_MAX), Found::Nobody, later);
        assert_eq!(auth_queries.kept.len(), 1, "what is old makes room");
        auth_queries.suspect(b"db", &name(KEPT_MAX).1, later + SUSPECTED / 2);
        assert!(auth_queries.fresh(&name(KEPT_MAX), later).is_some(), "a flood looks nothing up");
        auth_queries.suspect(b"db", &name(KEPT_MAX).1, later + SUSPECTED);
        assert!(auth_queries.fresh(&name(KEPT_MAX), later).is_none());
    }
}
