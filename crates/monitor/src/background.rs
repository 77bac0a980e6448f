//! Work that would hold up the loop, on threads of its own: passwords are hashed for servers, and
//! secrets of users are looked up. What comes of it is heard as a command of the loop's own.

use std::fmt;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use super::auth_query::Found;
use super::auth_query_connection::Place;
use super::auth_query_workers::AuthQueryWorkers;
use super::slab::Key;
use pgwire::auth::{Login, LoginError, LoginStep};
use pgwire::message::{Authentication, read};

/// A login that waits for a password to be hashed.
struct Hash {
    server: Key,
    login: Login,
    /// The body of the server's message.
    asked: Vec<u8>,
}

/// Somebody's secret that is wanted.
pub(super) struct Wanted {
    /// The database that the user wants to, by the name that clients know.
    pub(super) database: Vec<u8>,
    pub(super) user: Vec<u8>,
    pub(super) place: Arc<Place>,
}

/// Result of work aside.
pub(super) enum Done {
    /// The next step of a login at a server, and what is to be said there.
    Hashed { server: Key, step: Result<(LoginStep, Vec<u8>), LoginError> },
    /// Somebody's secret, or why it is not known.
    LookedUp { database: Vec<u8>, user: Vec<u8>, found: Result<Found, String> },
}

impl fmt::Debug for Done {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Done::Hashed { .. } => "Hashed",
            Done::LookedUp { .. } => "LookedUp",
        })
    }
}

/// The threads beside the loop. They end when this is dropped, and with what they are at.
pub(super) struct Background {
    /// As many wait here as connections may be made at once, and no more.
    hashes: mpsc::Sender<Hash>,
    /// As many wait here as lookups may be under way.
    auth_query_workers: AuthQueryWorkers,
}

impl Background {
    /// Starts the threads; they tell `back` what has come of each piece of work.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn start(
        back: impl Fn(Done) + Clone + Send + Sync + 'static,
    ) -> io::Result<Background> {
        let (hashes, work) = mpsc::channel::<Hash>();
        let tell = back.clone();
        thread::Builder::new().name("sekisho-hashes".into()).spawn(move || {
            for Hash { server, login, asked } in work {
                tell(Done::Hashed { server, step: hash(login, &asked) });
            }
        })?;
        let auth_query_workers =
            AuthQueryWorkers::start(move |Wanted { database, user, .. }, found| {
                back(Done::LookedUp { database, user, found });
            })?;
        Ok(Background { hashes, auth_query_workers })
    }

    /// Takes the step of a login that a message of the server asks for.
    pub(super) fn hash(&self, server: Key, login: Login, asked: Vec<u8>) {
        self.hashes.send(Hash { server, login, asked }).expect("the thread lives as long as this");
    }

    /// Looks somebody's secret up.
    pub(super) fn look_up(&self, wanted: Wanted) {
        self.auth_query_workers.look_up(wanted);
    }
}

fn hash(login: Login, asked: &[u8]) -> Result<(LoginStep, Vec<u8>), LoginError> {
    let asked: Authentication<'_> = read::authentication(asked).map_err(|_| LoginError::Order)?;
    let mut out = Vec::new();
    let step = login.answer(&asked, &mut out)?;
    Ok((step, out))
}
