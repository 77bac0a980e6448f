//! A client's connection: what is known of it, and where it is on its way.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use gate::{Access, JobId, Time};

use super::access_log::Course;
use super::client_tls::ClientEncryption;
use super::config::ClientTimeouts;
use super::connection::{Buffers, Connection};
use super::deadlines::Deadline;
use super::listen::Peer;
use super::pool::PoolIndex;
use super::slab::Key;
use pgsession::sql::{Class, Settings, SettingsBounds, Side};
use pgsession::statements;
use pgsession::unlinked::Unlinked;
use pgwire::SqlState;
use pgwire::auth::{Check, Method};
use pgwire::frame::{Frames, Frontend, Limits};
use pgwire::secrets::{Origin, Transport};
use pgwire::startup::{Opening, Replication, Version};

/// The bytes of a key for cancelling where the client can take more than 4 \[byte\].
// As many as PostgreSQL 18 gives to who speaks version 3.2 of the protocol.
pub(super) const SECRET_BYTES: usize = 32;

/// State of a client.
#[derive(Debug)]
pub(super) enum State {
    /// It has not said what it wants.
    Opening(Opening),
    /// Its user's secret is being looked up.
    // This and the next are boxed: clients stay in the small states, and all pay for the largest.
    Looking(Box<Looking>),
    /// It was asked to prove who it is.
    Asked(Box<(Wanted, Check)>),
    /// It is in, but nobody has been told yet what the servers' settings are. One of these clients
    /// has a job at the gate.
    WaitingForWelcome(Option<JobId>),
    /// It has nothing at the gate.
    Idle,
    /// Its job waits at the gate.
    Waits(JobId),
    /// It has a slot and a connection to a server, which may still be in the making.
    Served(Key),
    /// Its socket is on its way to another process or from there, and nobody reads from it.
    Migrating,
    /// It is closed as soon as what was said to it is written.
    Ending,
    /// Its cancel request is on the way; it is closed when that has arrived.
    Cancelling,
}

impl State {
    /// Its job at the gate of its pool, as long as that waits.
    pub(super) fn job(&self) -> Option<JobId> {
        match *self {
            State::Waits(job) | State::WaitingForWelcome(Some(job)) => Some(job),
            _ => None,
        }
    }

    /// The server that it has.
    pub(super) fn server(&self) -> Option<Key> {
        match *self {
            State::Served(server) => Some(server),
            _ => None,
        }
    }
}

/// The wishes of a client that has not proved who it is.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) version: Version,
    pub(super) user: Vec<u8>,
    pub(super) database: Vec<u8>,
    /// The settings that it asks for, by name, as they are in its packet: half as large as what follows
    /// from them, and nobody needs that before it is in.
    pub(super) settings: Box<[NamedValue]>,
    pub(super) replication: Replication,
}

/// A setting's name and value.
pub(super) type NamedValue = (Box<[u8]>, Box<[u8]>);

impl Wanted {
    /// The settings of its session.
    pub(super) fn settings(&self) -> Settings {
        let base = self.settings.iter().map(|(name, value)| (&**name, &**value));
        Settings::new(Side::Client, SettingsBounds::default(), base)
    }
}

/// Those of clients that are not in yet.
// One for all: connections that never log in cost as little as they can.
static NO_SETTINGS: LazyLock<Arc<Settings>> =
    LazyLock::new(|| Arc::new(Settings::new(Side::Client, SettingsBounds::default(), [])));

/// The wishes of a client whose user's secret is being looked up, and its method of authentication.
#[derive(Debug)]
pub(super) struct Looking {
    pub(super) wanted: Wanted,
    pub(super) method: Method,
    /// The options of the protocol that it has named.
    pub(super) options: Vec<Vec<u8>>,
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: Connection,
    pub(super) state: State,
    pub(super) frames: Frames<Frontend>,
    /// Its messages while it has no server.
    pub(super) unlinked: Unlinked,
    pub(super) peer: Peer,
    pub(super) transport: Transport,
    /// The encryption of its connection, if it has one.
    pub(super) tls: Option<Arc<ClientEncryption>>,
    /// Its kind of replication: then it has a connection to a server of its own.
    pub(super) replication: Replication,
    /// True if it began with TLS without asking: then it must have agreed on the protocol inside.
    pub(super) direct: bool,
    pub(super) deadline: Deadline,
    /// Its pool, from when it is in.
    pub(super) pool: PoolIndex,
    pub(super) settings: Arc<Settings>,
    pub(super) statements: statements::Client,
    /// The class of its jobs, as long as it has these settings.
    pub(super) class: Option<(Arc<Settings>, Class)>,
    /// Its user's name, from when it is in.
    pub(super) user: Option<Arc<[u8]>>,
    /// When it was let in.
    pub(super) entered: Time,
    /// The code of the error that has ended its session.
    pub(super) ended_with: Option<SqlState>,
    /// Its time limits.
    pub(super) timeouts: Arc<ClientTimeouts>,
    /// When the job arrived of which it was told that it waits.
    pub(super) told: Time,
    /// By which it may have its query cancelled.
    pub(super) process: u32,
    pub(super) secret: [u8; SECRET_BYTES],
    pub(super) secret_bytes: u8,
    /// Its number on the console, its end of the connection and ours, and when it came.
    pub(super) id: u64,
    pub(super) ends: (Option<SocketAddr>, Option<SocketAddr>),
    pub(super) came: Time,
    /// When it last asked for a slot.
    pub(super) asked: Time,
    /// The access of its job, and the end of the last one that may have written.
    pub(super) access: Access,
    pub(super) wrote: Option<Time>,
    /// When its job arrived, or the last one ended.
    pub(super) since: Time,
    /// The bytes that it had been sent when it was seen to take nothing, and the time of that.
    pub(super) stalled: Option<(u64, Time)>,
    /// Bytes that must be there for its next message to be taken.
    pub(super) needs: u32,
    /// The course of its job, where there is an access log.
    pub(super) course: Option<Box<Course>>,
}

impl Client {
    pub(super) fn new(connection: Connection, peer: Peer) -> Client {
        Client {
            connection,
            state: State::Opening(Opening::in_clear()),
            // Who has proved nothing has no large message waited for.
            frames: Frames::new(Limits::AUTHENTICATION),
            unlinked: Unlinked::default(),
            peer,
            transport: Transport::Clear,
            tls: None,
            replication: Replication::No,
            direct: false,
            deadline: Deadline::default(),
            // Nobody's yet: it counts from when the client has a user.
            pool: 0,
            settings: Arc::clone(&NO_SETTINGS),
            statements: statements::Client::new(0),
            class: None,
            user: None,
            entered: Time::ZERO,
            ended_with: None,
            timeouts: Arc::default(),
            told: Time::ZERO,
            process: 0,
            secret: [0; SECRET_BYTES],
            secret_bytes: 0,
            id: 0,
            ends: (None, None),
            came: Time::ZERO,
            asked: Time::ZERO,
            // What is not known to only read goes to the primary.
            access: Access::Write,
            wrote: None,
            since: Time::ZERO,
            stalled: None,
            needs: 0,
            course: None,
        }
    }

    /// Its origin, for the rules of admission.
    pub(super) fn origin(&self) -> Origin {
        match self.peer {
            Peer::Local => Origin::Local,
            Peer::Network(address) => {
                // IPv4 comes as a mapped address where the listener is of IPv6; rules name it as IPv4.
                Origin::Network { address: address.ip().to_canonical(), transport: self.transport }
            }
        }
    }

    /// Passes on what a server answered, with the ends of so many queries in it.
    pub(super) fn take_answer(
        &mut self,
        answer: &[u8],
        queries: u32,
        buffers: &mut Buffers,
    ) -> io::Result<()> {
        if let Some(course) = &mut self.course {
            course.queries += u64::from(queries);
            course.sent += answer.len() as u64;
        }
        if answer.is_empty() { Ok(()) } else { self.connection.send(answer, buffers) }
    }

    /// Its key for cancelling.
    pub(super) fn secret(&self) -> &[u8] {
        &self.secret[..usize::from(self.secret_bytes)]
    }
}
