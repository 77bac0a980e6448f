//! The part of the gate that takes over: what it asks for before it begins, how clients come in that
//! another process has let in, and what becomes of it if that goes on.

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::Registry;
use mio::net::{TcpStream, UnixStream as MioUnixStream};
use socket2::{Domain, SockRef, Type};

use super::channel::{Channel, Filled, Heard, Side};
use super::protocol::{FORMAT, Message, MigratingClient, Place, Pool, Wrote};
use super::{AFTERWARDS, ROUNDS, TakeoverError};
use crate::client::{Client, SECRET_BYTES, State, Wanted};
use crate::connection::{Connection, Stream};
use crate::listen::{Listener, Peer};
use crate::log::Line;
use crate::run::{PREDECESSOR, Running};
use crate::slab::{Key, Socket};
use crate::state::{Loop, Phase};
use pgsession::sql::{Settings, SettingsBounds};
use pgsession::statements::{self, ExportedName, ExportedStatement};
use pgwire::frame::Limits;
use pgwire::startup::{Replication, Version};

/// The most listeners that are taken.
const LISTENERS_MAX: usize = 1024;

/// Bytes of statements that are kept until the takeover is over \[byte\]; clients with names for
/// others are declined.
const STATEMENTS_MAX: usize = 1 << 30;

/// Listeners of the gate before, each until somebody has asked for it.
#[derive(Debug, Default)]
pub(crate) struct Given(Vec<(Place, OwnedFd)>);

impl Given {
    fn take(&mut self, is_it: impl Fn(&Place, &OwnedFd) -> bool) -> Option<(Place, OwnedFd)> {
        // Whatever the other side calls it: only a listener can be accepted from.
        let listens = |socket: &OwnedFd| SockRef::from(socket).is_listener().unwrap_or(false);
        let at =
            self.0.iter().position(|(place, socket)| is_it(place, socket) && listens(socket))?;
        Some(self.0.remove(at))
    }

    /// The one at an address, as that was named or as it is.
    pub(crate) fn tcp(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        let named = address.to_string();
        let by_name = |place: &Place, _: &OwnedFd| *place == Place::Tcp { named: named.clone() };
        let by_address = |place: &Place, socket: &OwnedFd| {
            matches!(place, Place::Tcp { .. }) && local(socket) == Some(address)
        };
        self.take(by_name).or_else(|| self.take(by_address)).map(|(_, socket)| socket)
    }

    /// The one of metrics and the live page.
    pub(crate) fn http(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        let named = address.to_string();
        let is_it = |place: &Place, socket: &OwnedFd| match place {
            Place::Http { named: known } => *known == named || local(socket) == Some(address),
            _ => false,
        };
        self.take(is_it).map(|(_, socket)| socket)
    }

    /// The one of a file, with the file's number.
    pub(crate) fn unix(&mut self, path: &Path) -> Option<(OwnedFd, u64)> {
        let path = path.as_os_str().as_bytes();
        let is_it = |place: &Place, _: &OwnedFd| match place {
            Place::Unix { path: known, .. } => known == path,
            _ => false,
        };
        match self.take(is_it)? {
            (Place::Unix { inode, .. }, socket) => Some((socket, inode)),
            _ => None,
        }
    }

    /// The one of the next successor, with its file's number.
    pub(crate) fn door(&mut self) -> Option<(OwnedFd, u64)> {
        match self.take(|place, _| matches!(place, Place::Takeover { .. }))? {
            (Place::Takeover { inode, .. }, socket) => Some((socket, inode)),
            _ => None,
        }
    }

    /// Number of those that nobody has asked for.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }
}

fn local(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

/// The gate that hands over.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: Channel,
    process: u32,
    /// Its knowledge that the loop goes round.
    knows: Knows,
    pools: HashMap<u32, Pool>,
    statements: HashMap<u64, ExportedStatement>,
    statement_bytes: usize,
    /// Number of its listeners that nobody listens on from now on.
    unclaimed: usize,
    /// Clients that it has given, each until the word is out that they are here: the word's number.
    arriving: VecDeque<(u64, Key)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    NotYet,
    Told,
}

/// The end with a predecessor.
enum Over {
    /// It has handed over all that it could.
    Ended,
    /// It died: what came is here.
    Died,
    /// It serves as before.
    GoesOn(TakeoverError),
}

impl Predecessor {
    /// Asks the gate that listens at `path` for what clients connect to; `None` if nobody does. It may
    /// take so long for each answer.
    ///
    /// # Errors
    /// If it does not hand over.
    pub(crate) fn call(
        path: &Path,
        timeout: Duration,
    ) -> Result<Option<(Predecessor, Given)>, TakeoverError> {
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            // No file, or one that a gate which was killed has left behind.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(TakeoverError::Unreachable(error)),
        };
        let mut channel = Channel::new(stream, Side::Successor);
        channel.wait_for(timeout).map_err(TakeoverError::Unreachable)?;
        let (user, _) = channel.peer().map_err(TakeoverError::Unreachable)?;
        if user != rustix::process::geteuid().as_raw() {
            return Err(TakeoverError::UnlistedUser { user });
        }
        // One that refuses at once has closed it, and its word is there.
        drop(say(&mut channel, &Message::Hello { format: FORMAT }));
        let process = match wait(&mut channel)? {
            (Message::Welcome { process }, _) => process,
            (Message::Refused { why }, _) => return Err(TakeoverError::Refused(why)),
            (message, _) => return Err(misunderstood(&message)),
        };
        let mut given = Given::default();
        loop {
            match wait(&mut channel)? {
                (Message::Listener(place), Some(socket)) if given.0.len() < LISTENERS_MAX => {
                    given.0.push((place, socket));
                }
                (Message::Listeners { count }, _) if count as usize == given.0.len() => break,
                (Message::GivenUp { why }, _) => return Err(TakeoverError::GivenUp(why)),
                (message, _) => return Err(misunderstood(&message)),
            }
        }
        let predecessor = Predecessor {
            channel,
            process,
            knows: Knows::NotYet,
            pools: HashMap::new(),
            statements: HashMap::new(),
            statement_bytes: 0,
            unclaimed: 0,
            arriving: VecDeque::new(),
        };
        Ok(Some((predecessor, given)))
    }

    /// The number of its process, as it sees it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// So many of its listeners are not in this gate's configuration.
    pub(crate) fn leave(&mut self, listeners: usize) {
        self.unclaimed = listeners;
    }

    pub(super) fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// All is ready: from here on the gate before accepts nobody any more.
    ///
    /// # Errors
    /// If it does not let go; it serves as before then.
    pub(crate) fn begin(&mut self, registry: &Registry) -> Result<(), TakeoverError> {
        say(&mut self.channel, &Message::Ready)?;
        match wait(&mut self.channel)? {
            (Message::Begin, _) => {
                let watched = self.channel.watch(registry, PREDECESSOR.token());
                watched.map_err(TakeoverError::Unreachable)
            }
            (Message::GivenUp { why }, _) => Err(TakeoverError::GivenUp(why)),
            (message, _) => Err(misunderstood(&message)),
        }
    }

    /// Says something; that it cannot be said is found when it is read.
    fn tell(&mut self, message: &Message) -> u64 {
        let number = self.channel.say(message, None).expect("it is short, and causes are cut");
        let _ = self.channel.flush();
        number
    }

    /// True once it was told that this gate serves.
    pub(super) fn is_told(&self) -> bool {
        self.knows == Knows::Told
    }

    /// The next thing that it says.
    fn hear(&mut self) -> Result<Option<Heard>, Over> {
        loop {
            let said = self
                .channel
                .next()
                .map_err(|error| Over::GoesOn(TakeoverError::Misunderstood(error.to_string())))?;
            if said.is_some() {
                return Ok(said);
            }
            match self.channel.fill() {
                Ok(Filled::Bytes) => {}
                Ok(Filled::Nothing) => return Ok(None),
                Ok(Filled::Ended) | Err(_) => return Err(Over::Died),
            }
        }
    }

    /// The next client that is here and whose predecessor knows it.
    fn next_arrived(&mut self) -> Option<Key> {
        // As long as the system has not taken the `Has`, the predecessor may still take the client
        // back.
        let sent = self.channel.sent();
        let (_, key) = self.arriving.front().copied().filter(|(message, _)| *message <= sent)?;
        self.arriving.pop_front();
        Some(key)
    }
}

fn say(channel: &mut Channel, message: &Message) -> Result<(), TakeoverError> {
    channel.say(message, None).expect("it is short");
    channel.flush().map_err(|_| TakeoverError::Silent)?;
    // It waits for room as long as it may: what is unsent now is so since the other side reads nothing.
    if channel.unsent() > 0 { Err(TakeoverError::Silent) } else { Ok(()) }
}

fn wait(channel: &mut Channel) -> Result<Heard, TakeoverError> {
    let heard = channel.wait().map_err(|error| TakeoverError::Misunderstood(error.to_string()))?;
    heard.ok_or(TakeoverError::Silent)
}

fn misunderstood(message: &Message) -> TakeoverError {
    let said = match message {
        Message::Pool(_) | Message::Statement { .. } | Message::Client(_) => {
            "something of clients too early"
        }
        _ => "something out of its order",
    };
    TakeoverError::Misunderstood(said.to_owned())
}

impl Running {
    /// The predecessor says something, or can be told more.
    pub(crate) fn hear_predecessor(&mut self) {
        for _ in 0..ROUNDS {
            let Some(predecessor) = &mut self.inner.takeover.predecessor else { return };
            if predecessor.knows == Knows::NotYet {
                predecessor.knows = Knows::Told;
                predecessor.tell(&Message::Serves);
                let (process, unclaimed) = (predecessor.process, predecessor.unclaimed);
                self.inner.tell_begin(process, unclaimed);
                continue;
            }
            // What cannot be said is known when the reason has been read.
            let _ = predecessor.channel.flush();
            match predecessor.hear() {
                Ok(Some((message, socket))) => {
                    if let Err(over) = self.inner.heed_predecessor(message, socket) {
                        return self.part_from_predecessor(over);
                    }
                }
                Ok(None) => return self.inner.welcome_arrived(),
                Err(over) => return self.part_from_predecessor(over),
            }
            self.inner.welcome_arrived();
        }
        self.inner.again.push_back(PREDECESSOR);
    }

    fn part_from_predecessor(&mut self, over: Over) {
        let Some(predecessor) = self.inner.takeover.predecessor.take() else { return };
        let Predecessor { process, arriving, channel, .. } = predecessor;
        let line = |state| Line::new("takeover").text("state", state).with("of", process);
        match over {
            Over::Ended | Over::Died => {
                // It takes no files away any more.
                let door = &mut self.inner.takeover.door;
                self.listeners.iter_mut().chain(door).for_each(Listener::keep);
                // Before it said that this was all it has told those to go of whom it had not heard
                // that they are here.
                let sent = channel.sent();
                let is_ours = |message: u64| matches!(over, Over::Died) || message <= sent;
                for (message, key) in arriving {
                    match is_ours(message) {
                        true => self.inner.welcome_taken(key),
                        false => self.inner.let_go(key),
                    }
                }
                let taken = self.inner.stats.clients_taken_over;
                let (state, how) = match over {
                    Over::Ended => ("ended", "has ended"),
                    _ => ("died", "has died"),
                };
                let sentence =
                    format!("process {process} {how}; {taken} clients were taken over from it");
                self.inner.tell_takeover(line(state).with("clients", taken), &sentence);
            }
            Over::GoesOn(error) => {
                arriving.into_iter().for_each(|(_, key)| self.inner.let_go(key));
                let why = error.to_string();
                self.inner.tell_takeover(line("failed").text("why", &why), &why);
                self.inner.takeover.given_up = Some(error);
                // Whatever is listened on stays the other one's, with its file.
                let door = &mut self.inner.takeover.door;
                self.listeners.iter_mut().chain(door).for_each(Listener::give_away);
                self.drain();
            }
        }
        self.inner.takeover.afterwards = Some(self.inner.now + AFTERWARDS);
        self.inner.forget_cancels();
    }
}

impl Loop {
    fn tell_begin(&self, process: u32, unclaimed: usize) {
        let line = Line::new("takeover").text("state", "begins").with("of", process);
        let mut sentence = format!("takes over from process {process}");
        if unclaimed > 0 {
            sentence += &format!(
                "; {unclaimed} of its listeners are not in this configuration, and nobody listens \
                 there any more"
            );
        }
        self.tell_takeover(line.with("unclaimed", unclaimed), &sentence);
    }

    fn heed_predecessor(&mut self, message: Message, socket: Option<OwnedFd>) -> Result<(), Over> {
        let Some(predecessor) = &mut self.takeover.predecessor else { return Ok(()) };
        match (message, socket) {
            (Message::Pool(pool), _) => drop(predecessor.pools.insert(pool.number, pool)),
            (Message::Statement { number, statement }, _) => {
                // One that does not fit is passed over: clients with names for it stay where they are.
                let bytes = predecessor.statement_bytes + statement.tail.len();
                if bytes <= STATEMENTS_MAX {
                    predecessor.statement_bytes = bytes;
                    predecessor.statements.insert(number, statement);
                }
            }
            (Message::Client(client), Some(socket)) => {
                let number = client.number;
                let taken = self.take_in(*client, socket);
                let Some(predecessor) = &mut self.takeover.predecessor else { return Ok(()) };
                match taken {
                    Ok(key) => {
                        let message = predecessor.tell(&Message::Has { number });
                        let last = predecessor.arriving.back();
                        debug_assert!(last.is_none_or(|(before, _)| *before < message));
                        predecessor.arriving.push_back((message, key));
                    }
                    Err(why) => {
                        let process = predecessor.process;
                        let line = Line::new("takeover").text("state", "declined");
                        let line = line.with("of", process).text("why", &why);
                        predecessor.tell(&Message::Declines { number, why });
                        self.log.line(line);
                    }
                }
            }
            (Message::Cancel { number, process, secret }, _) => {
                self.hear_cancel(number, process, &secret);
            }
            (Message::Cancelled { number }, _) => self.cancel_passed(number),
            (Message::GivenUp { why }, _) => return Err(Over::GoesOn(TakeoverError::GivenUp(why))),
            (Message::Ended { .. }, _) => return Err(Over::Ended),
            (message, _) => return Err(Over::GoesOn(misunderstood(&message))),
        }
        Ok(())
    }

    /// Takes a client in, which is migrating until its predecessor knows.
    ///
    /// # Errors
    /// Why it cannot be here. All is as it was then.
    fn take_in(&mut self, migrating: MigratingClient, socket: OwnedFd) -> Result<Key, String> {
        if self.phase != Phase::Open {
            return Err("the gate that takes over is shutting down".into());
        }
        if self.is_full() {
            return Err("the gate that takes over has as many clients as it may have".into());
        }
        let MigratingClient { pool, user, process, secret, wrote, settings, statements, .. } =
            migrating;
        let predecessor = self.takeover.predecessor.as_ref().expect("its caller has it");
        let told = predecessor.pools.get(&pool).ok_or("its pool was not told")?.clone();
        // Its client has the number in its hands: another one cannot be drawn for it.
        if !(1..=SECRET_BYTES).contains(&secret.len()) || !self.is_free(process) {
            return Err("its key for cancelling cannot be used here".into());
        }
        let settings = Settings::of_export(settings, SettingsBounds::default());
        if let Some(lost) = settings.lost() {
            return Err(lost.to_string());
        }
        let mut connection = Connection::new(stream_of(socket)?);
        let peer = peer_of(connection.stream())?;
        let wanted = Wanted {
            version: Version::V3_2,
            user,
            database: told.database,
            settings: Box::default(),
            replication: Replication::No,
        };
        let pool = self.pool_for(&wanted, told.credential).map_err(|(_, why)| why)?;
        if self.pools[pool].mode != told.mode {
            let (was, is) = (told.mode, self.pools[pool].mode);
            return Err(format!("its pool was in {was} mode, and is in {is} mode now"));
        }
        let mut settings = Arc::new(settings);
        self.pools[pool].known.share(&mut settings);
        let names = self.take_up(pool, &settings, &statements)?;
        let key = self.clients.next_key();
        if let Err(error) = self.watchers.watch(&mut connection, Socket::Client(key)) {
            self.pools[pool].cache.forget(names);
            return Err(format!("the system has no room for it: {error}"));
        }
        let user = match self.count_in(&wanted.user, pool) {
            Ok(user) => user,
            Err((_, why)) => {
                self.pools[pool].cache.forget(names);
                // It is not this gate's, and closed without a word.
                let _ = self.watchers.release(&connection);
                return Err(why);
            }
        };
        let (id, came, ends) = (self.admin.number(), self.now, connection.stream().ends());
        let mut client = Client::new(connection, peer);
        (client.id, client.came, client.ends, client.asked) = (id, came, ends, came);
        (client.state, client.pool, client.entered) = (State::Migrating, pool, came);
        (client.settings, client.statements) = (settings, names);
        client.timeouts = self.client_timeouts.of(&user);
        client.user = Some(user);
        client.process = process;
        client.secret[..secret.len()].copy_from_slice(&secret);
        client.secret_bytes = secret.len() as u8;
        client.wrote = (wrote == Wrote::Perhaps).then_some(came);
        client.frames.limit(Limits { length_max: self.config.limits.message, ..Limits::SESSION });
        let placed = self.clients.insert(client);
        let other = self.processes.insert(process, key);
        assert!(placed == key && other.is_none(), "the key was next, and the number free");
        self.follow_client(key);
        Ok(key)
    }

    /// The names of a client that was told of for statements.
    fn take_up(
        &mut self,
        pool: usize,
        settings: &Settings,
        statements: &[(Vec<u8>, ExportedName)],
    ) -> Result<statements::Client, String> {
        let mut names = statements::Client::new(settings.scope());
        let known = &self.takeover.predecessor.as_ref().expect("its caller has it").statements;
        let cache = &mut self.pools[pool].cache;
        for (name, told) in statements {
            let taken = match known.get(&told.number) {
                Some(statement) => cache
                    .take_up(&mut names, name, (statement, told.shape))
                    .map_err(|error| error.to_string()),
                None => Err("a statement of it was not told, or there was no room for it".into()),
            };
            if let Err(why) = taken {
                cache.forget(names);
                return Err(why);
            }
        }
        Ok(names)
    }

    /// Clients go on whose predecessor knows that they are here.
    fn welcome_arrived(&mut self) {
        while let Some(predecessor) = &mut self.takeover.predecessor
            && let Some(key) = predecessor.next_arrived()
        {
            self.welcome_taken(key);
        }
    }

    fn welcome_taken(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        assert!(matches!(client.state, State::Migrating), "nobody else touches it on its way");
        (client.state, client.since) = (State::Idle, self.now);
        self.stats.clients_taken_over += 1;
        self.log_login(key);
        // It may have said something on its way here.
        self.again.push_back(Socket::Client(key));
    }

    /// A migrating client stays with the predecessor: its socket is let go without a word.
    fn let_go(&mut self, key: Key) {
        let Some(mut client) = self.clients.remove(key) else { return };
        // It must not be watched here as long as the other one has it.
        let _ = self.watchers.release(&client.connection);
        let cancels = self.processes.remove(&client.process);
        assert_eq!(cancels, Some(key), "a number for cancelling is of one client");
        let statements = std::mem::take(&mut client.statements);
        self.pools[client.pool].cache.forget(statements);
        self.count_out(&client);
        // Not closed: to shut the socket down would shut it down for the other process, too.
        drop(client);
    }

    /// The gate ends as it was told to: the predecessor need not go on.
    pub(crate) fn tell_predecessor_of_end(&mut self) {
        if let Some(predecessor) = &mut self.takeover.predecessor {
            predecessor.tell(&Message::Ending);
        }
    }
}

/// A connection of one of the kinds that clients have.
fn stream_of(socket: OwnedFd) -> Result<Stream, String> {
    let broken = |error: std::io::Error| format!("its socket cannot be used: {error}");
    let found = SockRef::from(&socket);
    if found.r#type().map_err(broken)? != Type::STREAM || found.is_listener().map_err(broken)? {
        return Err("its socket is no connection".into());
    }
    let domain = found.domain().map_err(broken)?;
    // Both processes share this flag, and the gate before has set it. If it had not, a read would stop
    // the loop.
    found.set_nonblocking(true).map_err(broken)?;
    if domain == Domain::UNIX {
        return Ok(Stream::Unix(MioUnixStream::from_std(UnixStream::from(socket))));
    }
    if domain == Domain::IPV4 || domain == Domain::IPV6 {
        return Ok(Stream::Tcp(TcpStream::from_std(std::net::TcpStream::from(socket))));
    }
    Err("its socket is of no kind that clients have".into())
}

fn peer_of(stream: &Stream) -> Result<Peer, String> {
    match stream {
        Stream::Unix(_) => Ok(Peer::Local),
        Stream::Tcp(stream) => match stream.peer_addr() {
            Ok(address) => Ok(Peer::Network(address)),
            Err(error) => Err(format!("its connection is broken: {error}")),
        },
    }
}
