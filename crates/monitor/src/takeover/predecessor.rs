//! The part of the gate that hands over: whom it lets in, what it gives and when, and how it goes on if
//! that comes to nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gate::Time;

use super::channel::{Channel, Filled, Side};
use super::protocol::{FORMAT, Message, MigratingClient, Place, Pool, Wrote};
use super::{Predecessor, ROUNDS, Takeover};
use crate::admin::Listening;
use crate::client::{Client, State};
use crate::connection::Stream;
use crate::deadlines::Deadline;
use crate::listen::Listener;
use crate::log::Line;
use crate::pool::PoolIndex;
use crate::run::{DOOR, LISTENERS, Running, SUCCESSOR};
use crate::slab::{Key, Socket};
use crate::state::{Loop, Phase};
use pgsession::statements::ExportedName;
use pgwire::startup::Replication;

/// Migrating clients at once, at most: each has a socket that is with nobody.
const MIGRATING_MAX: usize = 64;

/// Bytes that may wait to be sent before the next client follows \[byte\].
const UNSENT_MAX: usize = 1 << 20;

/// Time for the last words.
const LAST: Duration = Duration::from_secs(1);

/// Stage of a takeover, as the successor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It has said nothing.
    Came,
    /// It has the listeners, and nothing else has changed.
    Told,
    /// It accepts whoever comes.
    Begun,
    /// Its loop goes round.
    Serves,
}

/// The gate that takes over.
#[derive(Debug)]
pub(crate) struct Successor {
    channel: Channel,
    process: u32,
    stage: Stage,
    /// When it said something last, or was told something, and how long it may say nothing.
    heard: Time,
    timeout: Duration,
    /// Migrating clients, by the numbers that they have there.
    migrating: BTreeMap<u64, Key>,
    numbered: u64,
    handed: u64,
    /// Clients that may migrate.
    ready: BTreeSet<Key>,
    /// Those that it does not take.
    declined: BTreeSet<Key>,
    /// The pools that it was told of, by the marks of their statement caches.
    pools: HashMap<Vec<u8>, Pool>,
    /// The numbers of statements that it was told of, by their pools' and their own.
    statements: HashMap<(u32, u64), u64>,
}

/// Why a successor is given up.
enum Lost {
    /// It has gone.
    Gone,
    /// It has to be told.
    GivenUp(String),
}

impl Successor {
    fn new(channel: Channel, process: u32, now: Time, timeout: Duration) -> Successor {
        Successor {
            channel,
            process,
            stage: Stage::Came,
            heard: now,
            timeout,
            migrating: BTreeMap::new(),
            numbered: 0,
            handed: 0,
            ready: BTreeSet::new(),
            declined: BTreeSet::new(),
            pools: HashMap::new(),
            statements: HashMap::new(),
        }
    }

    pub(super) fn latest(&self) -> Option<Time> {
        // One that serves and owes no answer may be silent for as long as it likes.
        let awaited = self.stage < Stage::Serves || !self.migrating.is_empty();
        awaited.then(|| self.heard + self.timeout)
    }

    pub(super) fn serves(&self) -> bool {
        self.stage == Stage::Serves
    }

    /// The way to it, once it may have clients.
    pub(super) fn channel_begun(&mut self) -> Option<&mut Channel> {
        (self.stage >= Stage::Begun).then_some(&mut self.channel)
    }

    fn has_room(&self) -> bool {
        self.migrating.len() < MIGRATING_MAX && self.channel.unsent() < UNSENT_MAX
    }

    fn say(&mut self, message: &Message, socket: Option<OwnedFd>) {
        self.channel.say(message, socket).expect("only what clients have said can be too long");
    }

    /// The next thing that it says.
    fn hear(&mut self) -> Result<Option<Message>, Lost> {
        let broken = |_| Lost::Gone;
        // An event may mean that there is room again, too.
        self.channel.flush().map_err(broken)?;
        loop {
            let said = self.channel.next().map_err(|error| Lost::GivenUp(error.to_string()))?;
            if let Some((message, _)) = said {
                return Ok(Some(message));
            }
            match self.channel.fill().map_err(broken)? {
                Filled::Bytes => {}
                Filled::Nothing => return Ok(None),
                Filled::Ended => return Err(Lost::Gone),
            }
        }
    }
}

/// True if a client can be handed over when it rests.
fn goes_over(client: &Client) -> bool {
    // The keys of its encryption are within this process, and a replication stream is a server's.
    !client.connection.is_encrypted()
        && client.replication == Replication::No
        && client.statements.rests()
        && client.settings.can_export()
}

impl Running {
    /// Somebody is at the door.
    pub(crate) fn answer_door(&mut self) {
        loop {
            let Some(door) = &self.inner.takeover.door else { return };
            match door.accept() {
                Ok((Stream::Unix(stream), _)) => {
                    self.let_in(UnixStream::from(OwnedFd::from(stream)))
                }
                Ok(_) => unreachable!("a door is a Unix socket"),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                // Whoever has no room comes again with the next one.
                Err(_) => return,
            }
        }
    }

    /// Somebody wants to take over.
    fn let_in(&mut self, stream: UnixStream) {
        let channel = Channel::new(stream, Side::Predecessor);
        let Ok((user, process)) = channel.peer() else { return };
        let inner = &mut self.inner;
        let Takeover { successor, parting, predecessor, .. } = &inner.takeover;
        let own = rustix::process::geteuid().as_raw();
        let refusal = if !is_same_user(user, own) {
            Some(format!("user {user} of the system is not its own, {own}"))
        } else if inner.phase != Phase::Open {
            Some("it is shutting down".to_owned())
        } else if successor.is_some() || parting.is_some() {
            Some("another one is taking over".to_owned())
        } else if predecessor.is_some() {
            Some("the one before it has not ended yet: try again when it has".to_owned())
        } else {
            None
        };
        if let Some(why) = refusal {
            let sentence = format!("takeover by process {process} refused: {why}");
            inner.tell_takeover(line("refused", process).text("why", &why), &sentence);
            refuse(channel, why);
            return;
        }
        if channel.watch(inner.watchers.first(), SUCCESSOR.token()).is_err() {
            return;
        }
        let timeout = inner.config.timeouts.connect;
        let successor = Successor::new(channel, process, inner.now, timeout);
        inner.takeover.successor = Some(successor);
        self.hear_successor();
    }

    /// A successor says something, or can be told more.
    pub(crate) fn hear_successor(&mut self) {
        for _ in 0..ROUNDS {
            let now = self.inner.now;
            let Some(successor) = &mut self.inner.takeover.successor else {
                return self.inner.part_from_successor();
            };
            match successor.hear() {
                Ok(Some(message)) => {
                    successor.heard = now;
                    if let Err(lost) = self.heed_successor(message) {
                        return self.lose_successor(lost);
                    }
                }
                Ok(None) => return self.inner.pass_ready(),
                Err(lost) => return self.lose_successor(lost),
            }
        }
        self.inner.pass_ready();
        self.inner.again.push_back(SUCCESSOR);
    }

    fn heed_successor(&mut self, message: Message) -> Result<(), Lost> {
        let Some(successor) = &mut self.inner.takeover.successor else { return Ok(()) };
        match (successor.stage, message) {
            (Stage::Came, Message::Hello { format: FORMAT }) => self.tell_listeners()?,
            (Stage::Came, Message::Hello { format }) => {
                let why = format!(
                    "it hands over in format {FORMAT}, and the other program takes over in format \
                     {format}: restart it without a takeover"
                );
                let process = successor.process;
                let refused = self.inner.takeover.successor.take().expect("it was there above");
                let sentence = format!("takeover by process {process} refused: {why}");
                let line = line("refused", process).text("why", &why);
                self.inner.tell_takeover(line, &sentence);
                refuse(refused.channel, why);
            }
            (Stage::Told, Message::Ready) => self.begin_takeover(),
            (Stage::Begun, Message::Serves) => self.succeed(),
            (Stage::Begun | Stage::Serves, Message::Has { number }) => {
                // One that says it of another client is not believed in anything.
                let key = successor.migrating.remove(&number).ok_or_else(unasked)?;
                successor.handed += 1;
                self.inner.handed(key);
            }
            (Stage::Begun | Stage::Serves, Message::Declines { number, why }) => {
                let key = successor.migrating.remove(&number).ok_or_else(unasked)?;
                successor.declined.insert(key);
                let process = successor.process;
                self.inner.log.line(line("declined", process).text("why", &why));
                self.inner.take_back(key);
            }
            (Stage::Begun | Stage::Serves, Message::Cancel { number, process, secret }) => {
                self.inner.hear_cancel(number, process, &secret);
            }
            (Stage::Begun | Stage::Serves, Message::Cancelled { number }) => {
                self.inner.cancel_passed(number);
            }
            (Stage::Serves, Message::Ending) => self.drain(),
            _ => return Err(unasked()),
        }
        Ok(())
    }

    /// Gives a successor what clients connect to.
    fn tell_listeners(&mut self) -> Result<(), Lost> {
        let failed = |error| Lost::GivenUp(format!("its listeners cannot be given: {error}"));
        let mut given = Vec::new();
        for (at, listener) in self.listeners.iter().enumerate() {
            let named = self.inner.config.listen.get(at).map(ToString::to_string);
            given.push((listener.place(named), listener.socket().map_err(failed)?));
        }
        let takeover = &mut self.inner.takeover;
        if let Some((named, http)) = &takeover.http {
            let place = Place::Http { named: named.clone() };
            given.push((place, http.try_clone().map_err(failed)?));
        }
        if let Some(door) = &takeover.door
            && let Place::Unix { path, inode } = door.place(None)
        {
            given.push((Place::Takeover { path, inode }, door.socket().map_err(failed)?));
        }
        let Some(successor) = &mut takeover.successor else { return Ok(()) };
        successor.say(&Message::Welcome { process: std::process::id() }, None);
        let count = given.len() as u32;
        for (place, socket) in given {
            successor.say(&Message::Listener(place), Some(socket));
        }
        // Behind them, so that it knows that none is missing.
        successor.say(&Message::Listeners { count }, None);
        successor.stage = Stage::Told;
        successor.channel.flush().map_err(|_| Lost::Gone)
    }

    /// A successor accepts whoever comes from now on, and gets those who rest.
    fn begin_takeover(&mut self) {
        let Some(successor) = &mut self.inner.takeover.successor else { return };
        successor.stage = Stage::Begun;
        // Before `Begin`: with it the successor accepts, and clients must not come in here any
        // more.
        self.stop_listening();
        let inner = &mut self.inner;
        // A gate that ends goes on doing so: who is not sent away by then goes over.
        if inner.phase == Phase::Open {
            inner.phase = Phase::HandingOver;
        }
        // Before `Begin`, too: the successor makes its own from then on, and the server has room for so many.
        for pool in 0..inner.pools.len() {
            inner.close_idle(pool);
            inner.settle();
        }
        let Some(successor) = &mut inner.takeover.successor else { return };
        successor.say(&Message::Begin, None);
        successor.ready = inner.clients.iter().map(|(key, _)| key).collect();
        let process = successor.process;
        let clients = inner.clients.len();
        let line = line("begins", process).with("clients", clients);
        inner.tell_takeover(
            line,
            &format!("process {process} takes over; {clients} clients are in"),
        );
        inner.pass_ready();
    }

    /// Files of sockets go with a gate that ends, unless another one listens there: a successor that
    /// knows of them, or a predecessor that has not heard that this gate serves.
    pub(crate) fn part_with_files(&mut self) {
        let Takeover { successor, predecessor, door, given_up, .. } = &mut self.inner.takeover;
        let listeners = self.listeners.iter_mut().chain(door);
        if successor.as_ref().is_some_and(|successor| successor.stage >= Stage::Told) {
            listeners.for_each(Listener::give_away);
        } else if given_up.is_none() && predecessor.as_ref().is_some_and(Predecessor::is_told) {
            listeners.for_each(Listener::keep);
        }
    }

    /// Listeners stay open for the case that they are needed again, with nobody accepting there.
    fn stop_listening(&mut self) {
        self.accept_again = None;
        let registry = self.inner.watchers.first();
        for listener in self.listeners.iter_mut().chain(&mut self.inner.takeover.door) {
            // One that is not watched has nobody to tell.
            let _ = listener.deregister(registry);
            listener.give_away();
        }
        self.inner.admin.listen(Listening::Stops);
    }

    /// All is as if nothing had been.
    fn listen_again(&mut self) {
        let registry = self.inner.watchers.first();
        let mut failed = None;
        for (listener, own) in self.listeners.iter_mut().zip(LISTENERS..) {
            listener.keep();
            failed = failed.or(listener.register(registry, Socket::Own(own).token()).err());
        }
        if let Some(door) = &mut self.inner.takeover.door {
            door.keep();
            // Without it there is no takeover; clients are served.
            let _ = door.register(registry, DOOR.token());
        }
        self.inner.admin.listen(Listening::GoesOn);
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    /// A successor serves: who cannot go over goes, as in a drain.
    fn succeed(&mut self) {
        self.until = Some(self.inner.now + self.inner.config.timeouts.drain);
        let Some(successor) = &mut self.inner.takeover.successor else { return };
        successor.stage = Stage::Serves;
        let clients: Vec<Key> = self.inner.clients.iter().map(|(key, _)| key).collect();
        successor.ready.extend(&clients);
        for key in clients {
            if let Some(client) = self.inner.clients.get(key)
                && let State::Served(at) = client.state
            {
                self.inner.dismiss_served(key, at);
                self.inner.settle();
            }
        }
    }

    /// A successor takes too long.
    pub(crate) fn successor_late(&mut self) {
        let seconds = self.inner.config.timeouts.connect.as_secs_f64();
        self.lose_successor(Lost::GivenUp(format!("it has said nothing for {seconds} s")));
    }

    /// A successor is given up: whom it has not said that it has stays here.
    fn lose_successor(&mut self, lost: Lost) {
        let Some(successor) = self.inner.end_migration() else { return };
        let Successor { mut channel, process, stage, .. } = successor;
        let why = match &lost {
            Lost::Gone => "it has gone",
            Lost::GivenUp(why) => why,
        };
        let goes_on = stage >= Stage::Begun && self.inner.phase == Phase::HandingOver;
        let sentence = match goes_on {
            true => format!("takeover by process {process} failed: {why}; this gate serves again"),
            false => format!("takeover by process {process} failed: {why}; nothing has changed"),
        };
        if self.inner.phase != Phase::Draining {
            self.inner.tell_takeover(line("failed", process).text("why", why), &sentence);
        }
        if goes_on {
            self.inner.phase = Phase::Open;
            self.until = None;
            self.listen_again();
        }
        if let Lost::GivenUp(why) = lost {
            // Words that wait may hand over clients that were just taken back.
            channel.withhold();
            channel.say(&Message::GivenUp { why }, None).expect("a cause is cut to its bound");
            self.inner.takeover.parting = Some(channel);
            self.inner.part_from_successor();
        }
    }
}

impl Loop {
    /// True if a connection of this pool that nobody has is not needed any more, since whoever
    /// comes next comes to a successor.
    pub(crate) fn is_left_over(&self, pool: PoolIndex) -> bool {
        self.phase == Phase::HandingOver && self.pools[pool].driver.waiting() == 0
    }

    /// True if clients with nothing under way are told to go.
    pub(crate) fn sends_away(&self) -> bool {
        match self.phase {
            Phase::Draining => true,
            Phase::HandingOver => self.takeover.is_served(),
            Phase::Open | Phase::Leaving => false,
        }
    }

    /// A client without a server may migrate: then it goes on its way to the successor, or, if it
    /// cannot, is told to go. False if it stays for now.
    pub(crate) fn pass(&mut self, key: Key) -> bool {
        let serves = self.takeover.is_served();
        let (Some(successor), Some(client)) =
            (&mut self.takeover.successor, self.clients.get_mut(key))
        else {
            return false;
        };
        // A segment that was refused, or a message that is passed over, ends here.
        if !client.unlinked.is_heard() || !client.frames.is_between() {
            return false;
        }
        if !client.connection.is_at_rest() {
            if client.connection.is_being_written() {
                self.again.push_back(Socket::Client(key));
            }
            return false;
        }
        // Before it serves it may yet fail, and then nobody needs to have gone.
        if successor.declined.contains(&key) || !goes_over(client) {
            if serves {
                self.send_away(key);
            }
            return serves;
        }
        if !successor.has_room() {
            successor.ready.insert(key);
            return false;
        }
        let sent = self.send_over(key);
        if sent.is_none()
            && let Some(successor) = &mut self.takeover.successor
        {
            // What it has cannot be told, or the system has no room: it is drained.
            successor.declined.insert(key);
        }
        sent.is_some()
    }

    /// Sends a client on its way. None if that cannot be.
    fn send_over(&mut self, key: Key) -> Option<()> {
        let Loop { takeover, clients, pools, config, watchers, again, .. } = self;
        let successor = takeover.successor.as_mut()?;
        let client = clients.get_mut(key)?;
        let pool = &mut pools[client.pool];
        assert!(matches!(client.state, State::Idle), "who goes over has nothing at the gate");
        // What is handed over is forgotten without a look at what is due for it.
        assert_eq!(client.deadline, Deadline::default(), "a client at rest has no deadline");
        pool.cache.declare_types(&mut client.statements);
        let next = successor.pools.len() as u32;
        let mark = pool.cache.mark();
        let number = successor.pools.get(mark).map_or(next, |told| told.number);
        let told = Pool {
            number,
            database: config.databases[pool.database].name.clone().into_bytes(),
            mode: pool.mode,
            credential: pool.learnt(),
        };
        if successor.pools.get(mark) != Some(&told) {
            successor.channel.say(&Message::Pool(told.clone()), None).ok()?;
            successor.pools.insert(mark.to_vec(), told);
        }
        let mut statements = Vec::new();
        for (name, own) in pool.cache.names_of(&client.statements) {
            let next = successor.statements.len() as u64;
            let known = successor.statements.get(&(number, own.number)).copied();
            if known.is_none() {
                let statement = pool.cache.export(&client.statements, name)?;
                let message = Message::Statement { number: next, statement };
                successor.channel.say(&message, None).ok()?;
                successor.statements.insert((number, own.number), next);
            }
            let told = ExportedName { number: known.unwrap_or(next), ..own };
            statements.push((name.to_vec(), told));
        }
        let migrating = MigratingClient {
            number: successor.numbered + 1,
            pool: number,
            user: client.user.as_deref()?.to_vec(),
            process: client.process,
            secret: client.secret().to_vec(),
            wrote: client.wrote.map_or(Wrote::Nothing, |_| Wrote::Perhaps),
            settings: client.settings.export()?,
            statements,
        };
        let socket = client.connection.stream().socket().ok()?;
        let frame = successor.channel.frame(&Message::Client(Box::new(migrating))).ok()?;
        // Both processes have the socket from here on: this one must hear nothing of it, or both
        // would read. Behind all that can fail: whom the system did not watch again nobody would hear.
        watchers.release(&client.connection).ok()?;
        successor.channel.put(frame, Some(socket));
        client.state = State::Migrating;
        successor.numbered += 1;
        let other = successor.migrating.insert(successor.numbered, key);
        assert!(other.is_none(), "each client on its way has a number of its own");
        // From now on an answer is awaited: its silence before was none.
        if successor.migrating.len() == 1 {
            successor.heard = self.now;
        }
        if successor.channel.flush().is_err() {
            again.push_back(SUCCESSOR);
        }
        Some(())
    }

    /// Sends those on their way that may migrate, as far as there is room.
    fn pass_ready(&mut self) {
        while let Some(successor) = &mut self.takeover.successor
            && successor.stage >= Stage::Begun
            && successor.has_room()
            && let Some(key) = successor.ready.pop_first()
        {
            if matches!(self.clients.get(key).map(|client| &client.state), Some(State::Idle)) {
                self.pass(key);
            }
        }
    }

    /// A successor has a client.
    fn handed(&mut self, key: Key) {
        let Some(mut client) = self.clients.remove(key) else { return };
        assert!(matches!(client.state, State::Migrating), "nobody else touches it on its way");
        let cancels = self.processes.remove(&client.process);
        assert_eq!(cancels, Some(key), "a number for cancelling is of one client");
        let statements = std::mem::take(&mut client.statements);
        self.pools[client.pool].cache.forget(statements);
        self.log_handed(&client);
        self.count_out(&client);
        self.stats.clients_handed_over += 1;
        // Its socket is somebody else's: it is let go without a word.
        drop(client);
    }

    /// A client that was migrating stays.
    fn take_back(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        assert!(matches!(client.state, State::Migrating), "nobody else touches it on its way");
        client.state = State::Idle;
        // The system tells anew of what is there already when a socket is watched.
        match self.watchers.watch(&mut client.connection, Socket::Client(key)) {
            Ok(()) => self.again.push_back(Socket::Client(key)),
            Err(_) => self.close(key),
        }
    }

    /// Nothing more that a successor says counts: clients that it has said it has are its own, the others
    /// stay.
    fn end_migration(&mut self) -> Option<Successor> {
        let mut successor = self.takeover.successor.take()?;
        // Deaf first, and then the rest is read: a later `Has` fails at the successor, which knows
        // by that that the client has stayed here.
        // One that is broken says nothing more anyway.
        let _ = successor.channel.deafen();
        loop {
            match successor.channel.next() {
                Ok(Some((Message::Has { number }, _))) => {
                    if let Some(key) = successor.migrating.remove(&number) {
                        successor.handed += 1;
                        self.handed(key);
                    }
                }
                // Declined or not, the others stay; and nobody waits for what else it says.
                Ok(Some(_)) => {}
                Ok(None) => match successor.channel.fill() {
                    Ok(Filled::Bytes) => {}
                    Ok(Filled::Nothing | Filled::Ended) | Err(_) => break,
                },
                Err(_) => break,
            }
        }
        for key in std::mem::take(&mut successor.migrating).into_values() {
            self.take_back(key);
        }
        self.forget_cancels();
        Some(successor)
    }

    /// Goes on telling a successor that it was given up.
    fn part_from_successor(&mut self) {
        if let Some(channel) = &mut self.takeover.parting
            && (channel.flush().is_err() || channel.unsent() == 0)
        {
            self.takeover.parting = None;
        }
    }

    /// The gate ends: a successor that serves is told that this was all.
    pub(crate) fn end_takeover(&mut self) {
        let Some(mut successor) = self.end_migration() else { return };
        if successor.stage != Stage::Serves {
            return;
        }
        let handed = successor.handed;
        successor.say(&Message::Ended { handed }, None);
        let told = successor.channel.wait_for(LAST).and_then(|()| successor.channel.flush());
        let line = line("ended", successor.process).with("clients", handed);
        let line = if told.is_ok() { line } else { line.with("told", "no") };
        let process = successor.process;
        self.tell_takeover(
            line,
            &format!("{handed} clients were handed over to process {process}"),
        );
    }
}

/// A word that nobody asked for.
fn unasked() -> Lost {
    Lost::GivenUp("it has said something that does not belong here".to_owned())
}

fn line(what: &str, process: u32) -> Line {
    Line::new("takeover").text("state", what).with("by", process)
}

/// True if a successor is of the same user of the system as the gate.
fn is_same_user(user: u32, own: u32) -> bool {
    user == own
}

/// Tells somebody why it cannot take over.
fn refuse(mut channel: Channel, why: String) {
    // Who does not listen finds it closed.
    if channel.say(&Message::Refused { why }, None).is_ok() && channel.wait_for(LAST).is_ok() {
        let _ = channel.flush();
    }
}
