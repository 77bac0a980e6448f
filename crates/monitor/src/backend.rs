//! Connections to servers: how they are made, logged in, and lost.

use std::io;
use std::sync::Arc;

use live::model::Work;
use live::{Permits, SlotGuard};
use mio::net::{TcpStream, UnixStream};

use super::client;
use super::config::{Address, Mode};
use super::connection::{Connection, Filled, Stream};
use super::negotiation::{self, Negotiating};
use super::pool::PoolIndex;
use super::server::{Begun, Greeting, LIMITS, Server, State};
use super::slab::{Key, Socket};
use super::state::Loop;
use pgsession::relay::Relay;
use pgsession::session::Session;
use pgsession::sql::{Lost, Settings};
use pgwire::SqlState;
use pgwire::auth::{Cleartext, Login, LoginError, LoginStep, Terms};
use pgwire::frame::{Backend, Frontend, HEAD, Limits, Piece};
use pgwire::message::{Authentication, Report, Severity, Status, read, write};
use pgwire::startup::{Replication, Version, write_startup};

/// Why a connection to a server could not be made: the message that its clients hear.
struct Unmade {
    words: Vec<u8>,
    /// The chance that another server is better off.
    elsewhere: Elsewhere,
    /// The chance of this one on the other way, encrypted or in clear.
    other_way: OtherWay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherWay {
    /// It may, where both are allowed.
    Perhaps,
    /// It is no question of encryption.
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    /// The server could not be reached.
    Perhaps,
    /// It has refused this user or database.
    No,
}

impl Unmade {
    fn because(elsewhere: Elsewhere, sqlstate: SqlState, message: &str) -> Unmade {
        let mut words = Vec::new();
        write::error_response(&mut words, &Report::new(Severity::Fatal, sqlstate, message));
        Unmade { words, elsewhere, other_way: OtherWay::No }
    }

    /// True if it may be otherwise soon: the server was not reached, or shuts down or starts up.
    /// One that is full says what it has to say.
    fn comes_back(&self) -> bool {
        let fields = self.words.get(HEAD..).and_then(|body| read::fields(body).ok());
        let sqlstate = fields.and_then(|fields| fields.sqlstate());
        self.elsewhere == Elsewhere::Perhaps && sqlstate != Some(SqlState::TOO_MANY_CONNECTIONS)
    }

    fn unreachable(cause: &dyn std::fmt::Display) -> Unmade {
        let message = format!("the server cannot be reached: {cause}");
        Unmade::because(Elsewhere::Perhaps, SqlState::CONNECTION_FAILURE, &message)
    }
}

impl Loop {
    /// Gives the holder of a slot a connection to its server, as soon as it has the slots of its quotas
    /// too: what is made for it now.
    pub(super) fn obtain(
        &mut self,
        pool: PoolIndex,
        client: Option<Key>,
        slot: SlotGuard,
    ) -> Option<Key> {
        if self.pools[pool].quotas.is_empty() {
            return self.provide(pool, client, slot, Permits::new());
        }
        Some(self.begin_admission(pool, client, slot))
            .filter(|key| self.servers.get(*key).is_some())
    }

    /// Gives who may have it a connection to its server: an idle one, or one that is made now.
    pub(super) fn provide(
        &mut self,
        pool: PoolIndex,
        client: Option<Key>,
        slot: SlotGuard,
        permits: Permits,
    ) -> Option<Key> {
        let place = self.pools[pool].driver.slot_of(&slot).server;
        let replicates = client.and_then(|client| self.clients.get(client));
        let replicates = replicates.filter(|client| client.replication != Replication::No);
        let own = replicates.map(|client| client.replication);
        let begun = self.begun_of(pool, client);
        let idle = match own {
            None => self.idle_for(pool, client, place, &begun),
            Some(_) => None,
        };
        let prewarmed = match own {
            None if idle.is_none() && begun.is_empty() => self.take_prewarmed(pool, place),
            _ => None,
        };
        if idle.or(prewarmed).is_none() {
            // Before it is made: a quota bounds the connections that are open, not those in use.
            self.evict_idle(pool);
        }
        let key = idle.or(prewarmed).unwrap_or_else(|| self.new_server(pool, place));
        let server = self.servers.get_mut(key).expect("idle connections are there");
        (server.permits, server.reused) = (permits, idle.is_some());
        if idle.or(prewarmed).is_none() {
            server.session = Session::begun(&begun);
            server.begun = begun;
        }
        if let Some(replication) = own {
            server.replication = replication;
            server.relay = Relay::of_replication(LIMITS);
        }
        assert!(server.slot.is_none() && server.client.is_none(), "a connection is given to two");
        assert_eq!((server.pool, server.place), (pool, place), "a slot is of its server");
        (server.slot, server.work) = (Some(slot), Work::Done);
        server.client = client;
        if let Some(client) = client {
            self.give_server(client, key);
        }
        if idle.is_some() && client.is_none() {
            // It is known meanwhile what was to be asked.
            self.give_back(key);
            None
        } else if idle.is_some() {
            if !self.check(key) {
                self.prepare(key);
            }
            None
        } else if prewarmed.is_some() {
            prewarmed
        } else {
            if client.is_none() {
                // Before it is tried: it may fail at once, and those who wait are to hear of that.
                self.pools[pool].welcome_connection = Some(key);
            }
            let latest = self.now + self.connect_timeout_of(pool);
            let server = self.servers.get_mut(key).expect("it was there above");
            self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
            self.connects.push_back(key);
            self.connect_next();
            Some(key).filter(|key| self.servers.get(*key).is_some())
        }
    }

    /// An idle connection; for nobody, who asks what only a fresh one is told, none.
    fn idle_for(
        &mut self,
        pool: PoolIndex,
        client: Option<Key>,
        place: u32,
        begun: &Begun,
    ) -> Option<Key> {
        let idle = self.take_idle(pool, place, begun)?;
        // What it was told at its beginning is forgotten: only a fresh one can be asked. This one goes, or
        // there would be one more than slots.
        if client.is_none() && self.pools[pool].parameters.is_none() {
            self.drop_server(idle);
            return None;
        }
        Some(idle)
    }

    /// A connection of a pool that is still to be made.
    pub(super) fn new_server(&mut self, pool: PoolIndex, place: u32) -> Key {
        self.pools[pool].connections[place as usize] += 1;
        let address = self.address_of(pool, place);
        let server = self.fresh_server(pool, (place, address));
        self.servers.insert(server)
    }

    /// An entry for a connection that is still to be made, and that nobody has counted.
    pub(super) fn fresh_server(&mut self, pool: PoolIndex, at: (u32, Address)) -> Server {
        let relay = relay_of(self.pools[pool].mode, self.config.limits.message);
        let id = self.admin.number();
        Server { id, ..Server::new(pool, at, relay, self.now) }
    }

    /// The address of a server of a pool.
    pub(super) fn address_of(&self, pool: PoolIndex, place: u32) -> Address {
        self.pools[pool].addresses[place as usize].clone()
    }

    /// Begins as many connections as may be made at once.
    pub(super) fn connect_next(&mut self) {
        while self.connecting < self.config.limits.connecting
            && let Some(key) = self.connects.pop_front()
        {
            // Nobody takes it out of the queue who drops it while it waits.
            if self.servers.get(key).is_none() {
                continue;
            }
            match self.dial(key) {
                Ok(()) => self.connecting += 1,
                Err(error) => self.unmade(key, &Unmade::unreachable(&error)),
            }
        }
    }

    /// Begins a connection on the way whose turn it is.
    fn dial(&mut self, key: Key) -> io::Result<()> {
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(server.connection.is_none(), "the connection before is closed first");
        let database = &self.config.databases[self.pools[server.pool].database];
        let greeting = server.greeting.as_mut().expect("the gate is not in");
        let way = database.server_tls.way(&server.address, greeting.tries);
        let way = way.ok_or_else(|| io::Error::other("there is no other way"))?;
        let mut connection = Connection::new(connect(&server.address)?);
        connection.stream().tune(&self.config.tcp)?;
        self.watchers.watch(&mut connection, Socket::Server(key))?;
        greeting.negotiation = Some(Negotiating::new(way));
        server.connection = Some(connection);
        // A connection on this machine may be there at once.
        self.again.push_back(Socket::Server(key));
        Ok(())
    }

    /// Tries a server on the other way, encrypted or in clear. False if there is none.
    fn try_other_way(&mut self, key: Key) -> bool {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let Some(greeting) = &server.greeting else { return false };
        let database = &self.config.databases[self.pools[server.pool].database];
        let tries = greeting.tries + 1;
        if database.server_tls.way(&server.address, tries).is_none() {
            return false;
        }
        if let Some(connection) = server.connection.take() {
            connection.close(&mut self.buffers);
        }
        server.greeting = Some(Box::new(Greeting::new(tries)));
        server.state = State::Connecting;
        let dialled = self.dial(key);
        // It was counted at the first try, and is dropped as one without a connection, which is not.
        if dialled.is_err() {
            self.connecting -= 1;
        }
        dialled.is_ok()
    }

    /// A server has no room for a connection just now, and will have some: it is made again, until its
    /// time is over.
    fn try_later(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        if let Some(connection) = server.connection.take() {
            connection.close(&mut self.buffers);
            self.connecting -= 1;
        }
        server.greeting = Some(Box::new(Greeting::new(0)));
        server.state = State::Connecting;
        // Its deadline stays and bounds all tries together, but where nobody gets in: there each try that
        // is accepted has its own (`hurries_no_more`).
        self.await_connection_slot(key);
        self.connect_next();
    }

    /// Something happened at a connection to a server.
    pub(super) fn server_event(&mut self, key: Key) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let Some(connection) = &mut server.connection else { return };
        match server.state {
            State::Connecting => self.connected(key),
            State::LoggingIn(_) | State::Hashing => {
                // A broken connection is found when it is read.
                let _ = connection.flush(&mut self.buffers);
                self.log_in(key);
            }
            _ => {
                let was_blocked = connection.is_blocked();
                let broken = connection.flush(&mut self.buffers).is_err();
                let unblocked = was_blocked && !connection.is_blocked();
                let client = server.client;
                self.hear_server(key);
                if broken {
                    self.lost(key);
                } else if unblocked && let Some(client) = client {
                    // The client was left unread while its server took nothing, and its edge does
                    // not come again.
                    self.again.push_back(Socket::Client(client));
                }
            }
        }
    }

    /// A connection may be there, and encrypted: then the gate says what it wants.
    fn connected(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let place = server.own_place();
        let connection = server.connection.as_mut().expect("it is being made");
        let greeting = server.greeting.as_mut().expect("the gate is not in");
        let negotiation = greeting.negotiation.as_mut().expect("it was dialled");
        match negotiation.advance(connection, &mut self.buffers) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let mut unmade = Unmade::unreachable(&error);
                if error.is_of_tls() {
                    unmade.other_way = OtherWay::Perhaps;
                }
                return self.unmade(key, &unmade);
            }
        }
        let pool = &self.pools[server.pool];
        let database = &self.config.databases[pool.database];
        let mut out = Vec::new();
        let client = server.client.and_then(|client| self.clients.get(client));
        let begun = client.map(|client| Arc::clone(&client.settings));
        let mut parameters =
            vec![(&b"user"[..], &pool.user[..]), (b"database", database.target().as_bytes())];
        match server.replication {
            Replication::No => {}
            Replication::Physical => parameters.push((b"replication", b"true")),
            Replication::Logical => parameters.push((b"replication", b"database")),
        }
        let settings = database.settings.iter().map(|(a, b)| (a.as_bytes(), b.as_bytes()));
        if server.replication == Replication::No {
            parameters.extend(settings);
            parameters.extend(server.begun.iter().map(|(name, value)| (&name[..], &value[..])));
        } else {
            // No SQL can be said to some of these later.
            parameters.extend(begun.iter().flat_map(|settings| settings.begun_with()));
        }
        if let Err(error) = write_startup(&mut out, Version::V3_2, parameters) {
            // Too much for a packet: it would be so at any other server.
            let sqlstate = SqlState::PROTOCOL_VIOLATION;
            let unmade = Unmade::because(Elsewhere::No, sqlstate, &error.to_string());
            return self.unmade(key, &unmade);
        }
        let (user, credential) = (pool.user.clone(), pool.credential(place));
        if let Err(error) = connection.send(&out, &mut self.buffers) {
            return self.unmade(key, &Unmade::unreachable(&error));
        }
        // A server may ask for the password itself. Only one whose certificate was verified, or
        // that is reached through this machine's file system, is sure to be the right one.
        let is_safe = match connection.stream() {
            Stream::Tcp(_) => connection.is_encrypted() && database.server_tls.is_verified(),
            Stream::Unix(_) => true,
        };
        let cleartext = if is_safe { Cleartext::Allowed } else { Cleartext::Refused };
        let terms =
            Terms { cleartext, binding: negotiation::binding(connection), ..Terms::default() };
        let login = Login::new(&user, credential, terms, self.draw());
        self.hurries_no_more(key);
        let server = self.servers.get_mut(key).expect("it was there above");
        server.state = State::LoggingIn(Some(login));
        self.log_in(key);
    }

    /// Takes what a server says before its first ReadyForQuery.
    fn log_in(&mut self, key: Key) {
        loop {
            let Some(server) = self.servers.get_mut(key) else { return };
            if matches!(server.state, State::Hashing) {
                return;
            }
            if !matches!(server.state, State::LoggingIn(_)) {
                // It is in, and what came behind belongs to the session.
                return self.hear_server(key);
            }
            let connection = server.connection.as_mut().expect("it is being made");
            let frames = &server.greeting.as_ref().expect("the gate is not in").frames;
            match frames.look(connection.read()) {
                Ok(Piece::Whole { tag, len }) => {
                    // A copy: whatever it leads to needs the loop, and may close the connection.
                    let message = connection.read()[..len].to_vec();
                    connection.take(len, &mut self.buffers);
                    if let Err(unmade) = self.hear_greeting(key, tag, &message) {
                        return self.unmade(key, &unmade);
                    }
                    continue;
                }
                Ok(Piece::More { .. }) => {}
                Ok(_) => {
                    let message = "the server sent too large a message before it was ready";
                    let sqlstate = SqlState::PROTOCOL_VIOLATION;
                    let unmade = Unmade::because(Elsewhere::Perhaps, sqlstate, message);
                    return self.unmade(key, &unmade);
                }
                Err(error) => {
                    let text = error.to_string();
                    let unmade = Unmade::because(Elsewhere::Perhaps, error.sqlstate(), &text);
                    return self.unmade(key, &unmade);
                }
            }
            match connection.fill(&mut self.buffers) {
                Filled::Bytes(_) => {}
                Filled::Nothing => return,
                Filled::Ended(_) | Filled::NoRoom => {
                    // A certificate of the gate's that a server does not take ends it here.
                    let unmade = match connection.fault() {
                        Some(fault) => Unmade::unreachable(&format!("TLS: {fault}")),
                        None => Unmade::unreachable(&"it has closed the connection"),
                    };
                    return self.unmade(key, &unmade);
                }
            }
        }
    }

    /// A message of a server that has not let the gate in, or not said all of its settings.
    fn hear_greeting(&mut self, key: Key, tag: Backend, message: &[u8]) -> Result<(), Unmade> {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let body = &message[HEAD..];
        let broken = |cause: &dyn std::fmt::Display| {
            let sqlstate = SqlState::PROTOCOL_VIOLATION;
            Unmade::because(Elsewhere::Perhaps, sqlstate, &cause.to_string())
        };
        let is_in = matches!(server.state, State::LoggingIn(None));
        match tag {
            Backend::Authentication => {
                let asked = read::authentication(body).map_err(|error| broken(&error))?;
                self.prove(key, &asked, body)?;
            }
            Backend::ErrorResponse => {
                let sqlstate = read::fields(body).ok().and_then(|fields| fields.sqlstate());
                // 28000 is also PostgreSQL's answer where its `pg_hba.conf` has no rule for a
                // connection in clear, or none for an encrypted one.
                let other_way = match sqlstate {
                    Some(SqlState::INVALID_AUTHORIZATION) if !is_in => OtherWay::Perhaps,
                    _ => OtherWay::No,
                };
                let (words, elsewhere) = (message.to_vec(), elsewhere(sqlstate));
                return Err(Unmade { words, elsewhere, other_way });
            }
            // One that lets in whoever comes has not proved to be the server.
            Backend::ParameterStatus | Backend::BackendKeyData | Backend::ReadyForQuery
                if !is_in =>
            {
                return Err(broken(&format!("the server sent {tag:?} before it let the gate in")));
            }
            Backend::ParameterStatus => {
                let (name, value) = read::parameter_status(body).map_err(|error| broken(&error))?;
                let greeting = server.greeting.as_mut().expect("the gate is not in");
                greeting.parameters.push((name.to_vec(), value.to_vec()));
                server.session.reported(name, value);
            }
            Backend::BackendKeyData => {
                let (process, secret) =
                    read::backend_key_data(body).map_err(|error| broken(&error))?;
                (server.process, server.secret) = (process, secret.into());
            }
            Backend::ReadyForQuery => self.made(key),
            Backend::NegotiateProtocolVersion | Backend::NoticeResponse => {}
            tag => return Err(broken(&format!("the server sent {tag:?} before it was ready"))),
        }
        Ok(())
    }

    /// Answers a server that asks the gate who it is.
    fn prove(&mut self, key: Key, asked: &Authentication<'_>, body: &[u8]) -> Result<(), Unmade> {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let State::LoggingIn(login) = &mut server.state else { return Ok(()) };
        let login = login.take().ok_or_else(|| {
            let message = "the server sent an authentication message out of order";
            Unmade::because(Elsewhere::No, SqlState::PROTOCOL_VIOLATION, message)
        })?;
        // SCRAM's salted hash takes as long as the server's iterations want. On the loop it would
        // hold up every other client.
        if login.hashes(asked) {
            server.state = State::Hashing;
            self.background.hash(key, login, body.to_vec());
            return Ok(());
        }
        let mut out = Vec::new();
        let step = login.answer(asked, &mut out);
        self.proved(key, step.map(|step| (step, out)))
    }

    /// A password was hashed for a server.
    pub(super) fn hashed(&mut self, key: Key, step: Result<(LoginStep, Vec<u8>), LoginError>) {
        let server = self.servers.get_mut(key);
        // It may have been dropped meanwhile, by its deadline or with its pool.
        let Some(server) = server.filter(|server| matches!(server.state, State::Hashing)) else {
            return;
        };
        server.state = State::LoggingIn(None);
        match self.proved(key, step) {
            // What it has said meanwhile.
            Ok(()) => self.log_in(key),
            Err(unmade) => self.unmade(key, &unmade),
        }
    }

    /// The next step of a login, and what is to be said for it.
    fn proved(
        &mut self,
        key: Key,
        step: Result<(LoginStep, Vec<u8>), LoginError>,
    ) -> Result<(), Unmade> {
        let (step, out) = step.map_err(|error| {
            Unmade::because(Elsewhere::No, error.sqlstate(), &error.to_string())
        })?;
        let server = self.servers.get_mut(key).expect("its caller has it");
        let connection = server.connection.as_mut().expect("it is being made");
        connection.send(&out, &mut self.buffers).map_err(|error| Unmade::unreachable(&error))?;
        if let LoginStep::Waits(login) = step {
            if let (Some(keys), Some(place)) = (login.keys(), server.own_place()) {
                self.pools[server.pool].remember(place, keys);
            }
            server.state = State::LoggingIn(Some(login));
        }
        Ok(())
    }

    /// A connection is made, and its server waits for a question.
    fn made(&mut self, key: Key) {
        self.connecting -= 1;
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(matches!(server.state, State::LoggingIn(None)), "it has let the gate in");
        self.deadlines.clear(Socket::Server(key), &mut server.deadline);
        let greeting = server.greeting.take().expect("the gate was not in");
        server.state = State::Idle;
        let (at, has_client) = (server.pool, server.client.is_some());
        let address = server.address.clone();
        self.was_reached(&address);
        let server = self.servers.get_mut(key).expect("it was there above");
        let is_probe = server.probe.is_some();
        let pool = &mut self.pools[at];
        pool.counters.connects += 1;
        pool.janitor.is_made(key);
        if pool.welcome_connection == Some(key) {
            pool.welcome_connection = None;
        }
        if server.replication != Replication::No {
            self.greet_replica(key, &greeting.parameters);
        } else {
            // One that a reload has overtaken was told what counts no more, and one that has begun as
            // its client wants what does not count for others.
            let is_fresh = !server.closing && !server.tainted && server.begun.is_empty();
            if is_fresh {
                pool.hear_parameters(greeting.parameters, &server.address);
            }
        }
        if self.servers.get(key).is_none() {
            // It was a replication connection whose client had gone.
        } else if !is_probe && self.introduce(key) {
            // It goes on when that is answered.
        } else if has_client {
            self.prepare(key);
        } else if is_probe {
            self.ask_health(key);
        } else {
            self.give_back(key);
        }
        if !is_probe {
            self.is_back(at);
        }
        self.invite(at);
        self.connect_next();
    }

    /// Tells a client that replicates what its own server has said at the beginning.
    fn greet_replica(&mut self, key: Key, parameters: &[(Vec<u8>, Vec<u8>)]) {
        let server = self.servers.get(key).expect("its caller has it");
        let client = server.client.and_then(|client| Some((client, self.clients.get_mut(client)?)));
        let Some((at, client)) = client else { return self.drop_server(key) };
        self.deadlines.clear(Socket::Client(at), &mut client.deadline);
        let mut out = Vec::new();
        for (name, value) in parameters {
            write::parameter_status(&mut out, name, value);
        }
        write::backend_key_data(&mut out, client.process, client.secret());
        write::ready_for_query(&mut out, Status::Idle);
        if client.connection.send(&out, &mut self.buffers).is_err() {
            // It is found when it is read.
            self.again.push_back(Socket::Client(at));
        }
    }

    /// Gives a clean server the settings of the client that has it, if it has others, and has it forget
    /// what others have moved of sequences, where clients ask for that.
    pub(super) fn prepare(&mut self, key: Key) {
        if self.inquire(key) {
            return;
        }
        let server = self.servers.get_mut(key).expect("its caller has it");
        let at = server.client.expect("somebody has it");
        let client = self.clients.get_mut(at).expect("who has a server is there");
        debug_assert_eq!(client.state.server(), Some(key), "a server's client names it");
        // By pointer: in the steady state clients of the same settings share them.
        let has_all = server.session.has(&client.settings);
        let discards = self.pools[server.pool].cache.discards_sequences()
            && server.relay.has_others_sequences();
        if server.replication != Replication::No || (has_all && !discards) {
            server.state = State::Serving;
            self.again.push_back(Socket::Client(at));
            return;
        }
        let difference = match has_all {
            true => Ok(None),
            false => server.session.difference(&client.settings),
        };
        match difference {
            Ok(None) if !discards => {
                let known = &mut self.pools[server.pool].known;
                server.session.agrees(&mut client.settings, known);
                server.state = State::Serving;
                self.follow_client(at);
                self.again.push_back(Socket::Client(at));
            }
            Ok(sql) => {
                let mut sql = sql.unwrap_or_default();
                if discards {
                    sql.extend_from_slice(if sql.is_empty() { b"" } else { b"; " });
                    sql.extend_from_slice(b"DISCARD SEQUENCES");
                }
                server.discards = discards;
                server.state = State::Setting(Arc::clone(&client.settings));
                self.query(key, &sql);
            }
            Err(Lost::Encoding) => {
                let sql = Settings::encoding_first(&client.settings);
                server.state = State::Encoding;
                self.query(key, &sql);
            }
            // Who has lost its settings keeps its server until its end.
            Err(lost) => self.part_for(key, lost),
        }
    }

    /// Ends a client whose settings its server cannot get.
    fn part_for(&mut self, key: Key, lost: Lost) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let at = server.client.take().expect("somebody has it");
        self.part_from_server(at, key);
        self.give_back(key);
        self.fail(at, SqlState::INTERNAL_ERROR, &lost.to_string());
    }

    /// A server has the encoding of the client that has it, and is told the rest.
    fn encoded(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let client = server.client.and_then(|client| self.clients.get_mut(client));
        match client.map(|client| server.session.encoded(&mut client.settings)) {
            None => self.give_back(key),
            Some(Ok(())) => self.prepare(key),
            Some(Err(lost)) => self.part_for(key, lost),
        }
    }

    /// Has a server forget what others have moved of sequences, since its client asks for that.
    pub(super) fn forget_sequences(&mut self, key: Key) {
        self.servers.get_mut(key).expect("its caller has it").state = State::Forgetting;
        self.query(key, b"DISCARD SEQUENCES");
    }

    /// A server has forgotten them, and its client goes on.
    fn sequences_forgotten(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        server.relay.sequences_discarded();
        let Some(client) = server.client else { return self.give_back(key) };
        server.state = State::Serving;
        self.again.push_back(Socket::Client(client));
    }

    /// Asks a server something of the gate's own.
    pub(super) fn query(&mut self, key: Key, sql: &[u8]) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(server.greeting.is_none(), "nothing is asked before the server lets the gate in");
        let mut out = Vec::new();
        let asked = server.relay.query(sql, &mut out);
        let latest = self.now + self.config.timeouts.clean;
        self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        let connection = server.connection.as_mut().expect("it is made");
        if asked.is_err() || connection.send(&out, &mut self.buffers).is_err() {
            self.lost(key);
        }
    }

    /// A question of the gate's own is answered with so many rows; with this code, if not well.
    pub(super) fn answered(&mut self, key: Key, failed: Option<SqlState>, rows: u64) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        if matches!(server.state, State::Leaving | State::GivenUp) {
            // It was asked for a client that has gone meanwhile, whose transaction is rolled back next.
            return self.look_after(key);
        }
        self.deadlines.clear(Socket::Server(key), &mut server.deadline);
        match (std::mem::replace(&mut server.state, State::Idle), failed) {
            (State::Setting(settings), None) => self.settings_given(key, settings),
            (State::Restoring(sets), failed) if server.client.is_some() => {
                self.restored(key, &sets, failed);
            }
            (State::Encoding, None) => self.encoded(key),
            (State::Forgetting, None) => self.sequences_forgotten(key),
            (State::Setting(_) | State::Encoding, Some(SqlState::QUERY_CANCELED))
                if !server.is_pinned() =>
            {
                // By a time-out of whoever had it before, or a cancel request: another one is better.
                // What pins a server is on no other one.
                let client = server.client.take();
                self.drop_server(key);
                if let Some(client) = client {
                    self.part_from_server(client, key);
                    self.ask_again(client);
                }
            }
            (State::Setting(_) | State::Encoding, Some(sqlstate)) => {
                // None of them was applied: they were one transaction.
                let client = server.client.take();
                self.give_back(key);
                if let Some(client) = client {
                    self.refuse_settings(client, key, sqlstate);
                }
            }
            (State::Cleanup, None) => {
                server.relay.cleaned();
                server.session.discarded();
                self.begin_anew(key);
            }
            (State::Discarding, None) => {
                server.relay.discarded();
                server.session.discarded();
                self.begin_anew(key);
            }
            (State::Inquiring, failed) => self.inquired(key, failed, rows),
            (State::Introducing, failed) => self.introduced(key, failed),
            (State::Checking, None) if server.client.is_some() => self.prepare(key),
            (State::Checking, None) => self.give_back(key),
            (State::Checking, Some(_)) => self.replace(key),
            (State::Probing, None) => self.probed(key),
            (state @ State::Probing, Some(_)) => {
                server.state = state;
                self.lost(key);
            }
            // What cannot be cleaned, or fails beyond what is foreseen, is of no use to anybody.
            (_, _) => self.lost(key),
        }
    }

    /// A server has the settings of the client that has it, or had it when they were given.
    fn settings_given(&mut self, key: Key, mut settings: Arc<Settings>) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        if std::mem::take(&mut server.discards) {
            server.relay.sequences_discarded();
        }
        // What the server has made of them is the client's from here on.
        server.session.agrees(&mut settings, &mut self.pools[server.pool].known);
        let Some(at) = server.client else { return self.give_back(key) };
        let client = self.clients.get_mut(at).expect("who has a server is there");
        client.settings = settings;
        self.follow_client(at);
        self.prepare(key);
    }

    fn refuse_settings(&mut self, key: Key, server: Key, sqlstate: SqlState) {
        let client = self.part_from_server(key, server);
        let names: Vec<_> = client.settings.wanted().map(String::from_utf8_lossy).collect();
        let message =
            format!("the server refuses the settings of this session: {}", names.join(", "));
        self.fail(key, sqlstate, &message);
    }

    /// A connection could not be made.
    fn unmade(&mut self, key: Key, unmade: &Unmade) {
        if unmade.other_way == OtherWay::Perhaps && self.try_other_way(key) {
            return;
        }
        let is_full = || {
            let fields = unmade.words.get(HEAD..).and_then(|body| read::fields(body).ok());
            fields.and_then(|fields| fields.sqlstate()) == Some(SqlState::TOO_MANY_CONNECTIONS)
        };
        if self.awaits_connection_slot() && is_full() {
            return self.try_later(key);
        }
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(server.greeting.is_some(), "one that was made is lost instead");
        server.work = Work::Failed;
        let (at, place, client) = (server.pool, server.place, server.client.take());
        let elsewhere = unmade.elsewhere == Elsewhere::Perhaps;
        let concerns_all =
            server.replication == Replication::No && (elsewhere || server.begun.is_empty());
        let at_address = server.address.clone();
        self.log_unmade(&at_address.to_string(), &unmade.words);
        let is_probe = self.servers.get(key).is_some_and(|server| server.probe.is_some());
        let pool = &mut self.pools[at];
        pool.counters.connects_failed += 1;
        if is_probe {
            self.drop_server(key);
            return self.connect_next();
        }
        pool.forget_keys(place);
        let is_welcome_connection = pool.welcome_connection == Some(key);
        if is_welcome_connection {
            pool.welcome_connection = None;
        }
        let fell = unmade.elsewhere == Elsewhere::Perhaps
            && self.tell(at, |driver, now| driver.fall(now, place));
        if fell && !self.follows_probes(at) {
            let retry = self.now + self.config.timeouts.server_retry;
            self.pools[at].retries[place as usize] = Some(retry);
        }
        let is_own = self.servers.get(key).is_some_and(|one| one.replication != Replication::No);
        let returns = !fell && unmade.comes_back() && !is_own && self.may_return(&at_address);
        if returns {
            self.awaits_return(at, place, &unmade.words);
        } else if !fell && concerns_all {
            // Before its slot goes to whoever is next, who would only try again.
            self.goes_out(at, place, &unmade.words);
        }
        self.drop_server(key);
        if let Some(client) = client {
            self.part_from_server(client, key);
            if fell || returns {
                self.ask_again(client);
            } else {
                self.leave_unserved(client, &unmade.words);
            }
        }
        if is_welcome_connection && (fell || returns) {
            self.invite(at);
        } else if is_welcome_connection {
            self.refuse_waiting_for_welcome(at, &unmade.words);
        }
        self.connect_next();
    }

    /// A client whose server could not be reached asks for another one, as long as it may wait.
    fn ask_again(&mut self, key: Key) {
        // From its first try on, or each one would begin its wait anew.
        let since = self.clients.get(key).expect("its caller has it").since;
        let job = self.arrive(key, since);
        let client = self.clients.get_mut(key).expect("it was there above");
        client.state = client::State::Waits(job);
    }

    /// A deadline of a connection to a server has come.
    pub(super) fn server_late(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("it has a deadline");
        match server.state {
            State::Connecting | State::LoggingIn(_) | State::Hashing => {
                let seconds = self.config.timeouts.connect.as_secs_f64();
                let cause = format!("it does not answer within {seconds} s");
                self.unmade(key, &Unmade::unreachable(&cause));
            }
            // Of a client that has gone, or has hung up while its server does not take its words.
            State::Leaving | State::Serving => self.give_up_on(key),
            _ => {
                if server.is_replaceable() {
                    self.distrust_silent(key);
                }
                self.lost(key);
            }
        }
    }

    /// Cancels what a server still does for a client that has gone. To close the connection alone would
    /// leave it at work, beside whoever has the slot next.
    fn give_up_on(&mut self, key: Key) {
        if self.send_cancel(None, key).is_none() {
            return self.lost(key);
        }
        self.stats.cancels += 1;
        if let Some(client) = self.servers.get(key).and_then(|server| server.client) {
            // All that it has sent was still to be taken.
            self.close(client);
        }
        // To leave it may have closed it.
        let Some(server) = self.servers.get_mut(key) else { return };
        if matches!(server.state, State::Leaving) {
            server.state = State::GivenUp;
            let latest = self.now + self.config.timeouts.cancel;
            self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        }
    }

    /// A connection to a server is over, whatever it was doing.
    pub(super) fn lost(&mut self, key: Key) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if matches!(server.state, State::Connecting | State::LoggingIn(_) | State::Hashing) {
            return self.unmade(key, &Unmade::unreachable(&"it has closed the connection"));
        }
        // Nothing of its client's was said on it, so on another connection nothing happens twice.
        if server.is_replaceable() {
            return self.replace(key);
        }
        server.work = Work::Failed;
        if let Some(client) = server.client {
            let message = "the server has closed the connection unexpectedly";
            let (sqlstate, unheard) = (SqlState::CONNECTION_FAILURE, server.is_unheard());
            self.orphan(key, client);
            if unheard {
                self.refuse_job(client, &Report::new(Severity::Error, sqlstate, message));
            } else {
                self.fail(client, sqlstate, message);
            }
        }
        self.drop_server(key);
    }

    /// Parts a client from its server, which ends: what was asked and not answered has not happened.
    pub(super) fn orphan(&mut self, key: Key, client: Key) {
        self.part_from_server(client, key);
        let server = self.servers.get_mut(key).expect("its caller has it");
        server.client = None;
        let client = self.clients.get_mut(client).expect("who has a server is there");
        // `end` takes the relay for good. An empty one stands in for it, since the server is
        // dropped next.
        let relay = std::mem::replace(&mut server.relay, Relay::transparent(LIMITS));
        let cache = &mut self.pools[server.pool].cache;
        relay.end(Some(&mut client.statements), cache);
    }

    /// Closes a connection to a server that no client has, and gives its slot back.
    pub(super) fn drop_server(&mut self, key: Key) {
        self.unpin(key);
        let Some(mut server) = self.servers.remove(key) else { return };
        assert!(server.client.is_none(), "a client is left without a word");
        assert!(server.permits.is_empty() || server.slot.is_some(), "permits go with a slot");
        let is_admitting = matches!(server.state, State::Admitting);
        assert!(server.asks.is_none() || is_admitting, "who has passed its quotas asks no more");
        let at = server.pool;
        self.deadlines.clear(Socket::Server(key), &mut server.deadline);
        let pool = &mut self.pools[at];
        if server.counts() {
            let count = &mut pool.connections[server.place as usize];
            *count = count.checked_sub(1).expect("it was counted when it was begun");
        }
        if pool.welcome_connection == Some(key) {
            pool.welcome_connection = None;
        }
        if let (None, Some(place)) = (&server.slot, server.own_place()) {
            pool.drop_idle(place, key);
            pool.janitor.is_gone(key);
        }
        server.relay.end(None, &mut pool.cache);
        // Counted from the dial to the end of the login: one that still waits for its turn is not.
        if server.greeting.is_some() && server.connection.is_some() {
            self.connecting -= 1;
        }
        if let Some(mut connection) = server.connection {
            let mut out = Vec::new();
            write::bare(&mut out, Frontend::Terminate);
            // It is closed either way.
            let _ = connection.send(&out, &mut self.buffers);
            connection.close(&mut self.buffers);
        }
        if let Some(slot) = server.slot {
            self.tell(at, |driver, now| driver.depart(now, slot, server.work));
        }
        if let Some(pass) = server.asks {
            self.quotas.chain.withdraw(self.now, pass);
        }
        self.release_permits(server.permits);
        if server.probe.is_some() {
            self.probe_ended(key, (self.pools[at].database, server.place), &server.state);
        }
    }
}

/// The relay between clients of a pool of this mode and its servers.
pub(super) fn relay_of(mode: Mode, message_max: u32) -> Relay {
    let limits = Limits { length_max: message_max, ..LIMITS };
    match mode {
        Mode::Session => Relay::transparent(limits),
        Mode::Transaction | Mode::Statement => Relay::new(limits),
    }
}

/// The chance that another server lets in whom one has refused with this code: one that shuts down,
/// starts up or is full, but not one that does not know the user.
fn elsewhere(sqlstate: Option<SqlState>) -> Elsewhere {
    match sqlstate {
        Some(
            SqlState::CANNOT_CONNECT_NOW
            | SqlState::ADMIN_SHUTDOWN
            | SqlState::TOO_MANY_CONNECTIONS,
        ) => Elsewhere::Perhaps,
        _ => Elsewhere::No,
    }
}

pub(super) fn connect(address: &Address) -> io::Result<Stream> {
    Ok(match address {
        Address::Tcp(address) | Address::Host { address, .. } => {
            Stream::Tcp(TcpStream::connect(*address)?)
        }
        Address::Unresolved { name, .. } => return Err(Address::unresolved(name)),
        Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
    })
}
