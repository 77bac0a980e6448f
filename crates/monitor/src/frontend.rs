//! Clients, from their first byte until they have nothing to ask.

use std::io::ErrorKind;
use std::sync::Arc;

use live::SlotGuard;
use rustls::ServerConnection;

use super::client::{Client, Looking, SECRET_BYTES, State, Wanted};
use super::config::{Admission, UnlistedUsers};
use super::connection::{Connection, Filled, Stream};
use super::listen::{Listener, Peer};
use super::peer;
use super::pool::{Pool, PoolIndex};
use super::serving::ROUNDS;
use super::slab::{Key, Socket};
use super::state::{Loop, Phase};
use pgsession::statements;
use pgsession::unlinked::Next;
use pgwire::SqlState;
use pgwire::auth::{Binding, Check, CheckError, Checked, Credential, Method, common_name};
use pgwire::frame::{Frontend, HEAD, Limits, Piece};
use pgwire::message::{Status, write};
use pgwire::secrets::{
    Admission as Wanting, Certificate, Facts, IdentMaps, Kind, Peer as Needed, Secret, Transport,
};
use pgwire::startup::{ALPN, Opening, Packet, Replication, Startup, Version};

/// Connections beyond clients and logins: of those that are told why they end, or that cancel.
const SURPLUS_MAX: usize = 128;

/// The beginning of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// The client waits to be told that it may.
    Asked,
    /// At once.
    Direct,
}

/// The next step with a client without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// All is done that can be done now.
    Done,
    /// It was told that it gets no server, and what it has sent behind that is to be heard.
    GoesOn,
}

/// The purpose of a client that begins.
enum Purpose {
    /// More must be read first.
    Unknown,
    /// TLS, at once or when it was told that it may.
    Tls(Handshake),
    /// Another encryption, which it does not get.
    Encryption,
    Cancel {
        process: u32,
        secret: Vec<u8>,
    },
    Session(Wanted, Vec<Vec<u8>>),
    Refused(SqlState, String),
    /// Nothing that could be answered.
    Nonsense,
}

impl Loop {
    /// Accepts whoever has come. False if the system has no room for them just now.
    pub(super) fn accept(&mut self, listener: &Listener) -> bool {
        loop {
            match listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(_) => return false,
            }
        }
    }

    fn welcome(&mut self, stream: Stream, peer: Peer) {
        self.stats.clients_accepted += 1;
        let mut connection = Connection::new(stream);
        let key = self.clients.next_key();
        let socket = Socket::Client(key);
        // A socket that was reset meanwhile, or that there is no memory for, is dropped.
        let ready = connection
            .stream()
            .set_prompt()
            .and_then(|()| connection.stream().tune(&self.config.tcp));
        if ready.and_then(|()| self.watchers.watch(&mut connection, socket)).is_err() {
            return;
        }
        let (id, came, ends) = (self.admin.number(), self.now, connection.stream().ends());
        let client = Client::new(connection, peer);
        let placed = self.clients.insert(Client { id, came, ends, asked: came, ..client });
        assert_eq!(placed, key, "the system tells of it by this key");
        self.logins.insert(id, key);
        let limits = &self.config.limits;
        if self.clients.len() > limits.clients + limits.login_clients() + SURPLUS_MAX {
            return self.refuse_surplus(key);
        }
        if self.logins.len() > limits.login_clients() {
            self.refuse_oldest_login();
        }
        let latest = self.now + self.config.timeouts.login;
        let client = self.clients.get_mut(key).expect("it has just been put there");
        self.deadlines.set(Socket::Client(key), &mut client.deadline, latest);
    }

    /// Too many log in: the one that has tried for longest makes room. So silent connections keep nobody out
    /// who logs in faster than they come again.
    fn refuse_oldest_login(&mut self) {
        let (_, &oldest) = self.logins.first_key_value().expect("its caller has counted them");
        let most = self.config.limits.login_clients();
        let message = format!(
            "sorry, more than {most} clients log in at once, and this one had taken the longest"
        );
        self.refuse(oldest, SqlState::TOO_MANY_CONNECTIONS, &message);
    }

    /// True if as many clients are logged in as may be.
    pub(super) fn is_full(&self) -> bool {
        self.clients.len() - self.logins.len() >= self.config.limits.clients
    }

    fn refuse_surplus(&mut self, key: Key) {
        self.stats.clients_refused += 1;
        self.fail(key, SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
    }

    /// A client may have sent something, or its socket has room again.
    pub(super) fn client_event(&mut self, key: Key) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let was_blocked = client.connection.is_blocked();
        if client.connection.flush(&mut self.buffers).is_err() {
            return self.close(key);
        }
        let unblocked = was_blocked && !client.connection.is_blocked();
        match client.state {
            State::Ending => {
                // What it says now is for nobody. Room again means that it can have its last words.
                if unblocked || client.connection.has_hung_up() {
                    self.close(key);
                }
            }
            State::Cancelling => {
                // libpq waits for the gate to close. Who does not wait is not needed: the request goes on.
                if client.connection.has_hung_up() {
                    self.close(key);
                }
            }
            State::Served(server) => {
                self.hear_client(key);
                // The server was left unread while its client took nothing, and its edge does not
                // come again.
                if unblocked {
                    self.again.push_back(Socket::Server(server));
                }
            }
            _ => self.read_client(key),
        }
    }

    /// Reads from a client that has no server. What it must wait with is laid aside: always before its login,
    /// when nobody has proved to be anybody, and later where many buffers are lent.
    pub(super) fn read_client(&mut self, key: Key) {
        self.hear_unserved(key);
        let Some(client) = self.clients.get_mut(key) else { return };
        let is_scarce = self.buffers.spare() == 0;
        match client.state {
            State::Opening(_) | State::Looking(_) | State::Asked(_) => {
                client.connection.lay_aside(&mut self.buffers);
            }
            State::WaitingForWelcome(_) | State::Waits(_) if is_scarce => {
                client.connection.lay_aside(&mut self.buffers);
            }
            _ => {}
        }
    }

    fn hear_unserved(&mut self, key: Key) {
        for _ in 0..ROUNDS {
            let Some(client) = self.clients.get_mut(key) else { return };
            let before = client.connection.read().len();
            // What is here comes first: half of it may have been enough, and a read costs a system call.
            match client.state {
                State::Opening(_) => self.open(key),
                State::Asked(_) => self.hear_answer(key),
                State::Idle => {
                    if self.ask(key) == Hearing::GoesOn {
                        continue;
                    }
                }
                // What it has sent already waits with it; only that it goes is of interest.
                State::Looking(_) | State::WaitingForWelcome(_) | State::Waits(_)
                    if client.connection.has_hung_up() =>
                {
                    return self.close(key);
                }
                _ => return,
            }
            let Some(client) = self.clients.get_mut(key) else { return };
            if client.connection.read().len() < before {
                // Something was taken, and what is behind it may be whole.
                continue;
            }
            if !matches!(client.state, State::Opening(_) | State::Asked(_) | State::Idle) {
                return;
            }
            if matches!(client.state, State::Idle) && client.connection.is_blocked() {
                return;
            }
            client.connection.reserve(client.needs as usize);
            match client.connection.fill(&mut self.buffers) {
                Filled::Bytes(_) => {}
                Filled::Nothing => return,
                Filled::Ended(_) => return self.close(key),
                // All that must be whole before a session fits a buffer.
                Filled::NoRoom => return self.close(key),
            }
        }
        self.again.push_back(Socket::Client(key));
    }

    /// Reads the packet that a client begins with.
    fn open(&mut self, key: Key) {
        let client = self.clients.get_mut(key).expect("its caller has it");
        let State::Opening(opening) = &mut client.state else { return };
        let readable = client.connection.read();
        let taken = readable.len();
        let (purpose, bytes) = match opening.read(readable) {
            Ok(Packet::More { .. }) => (Purpose::Unknown, 0),
            Ok(Packet::DirectTls) => (Purpose::Tls(Handshake::Direct), 0),
            Ok(Packet::SslRequest) => (Purpose::Tls(Handshake::Asked), taken),
            Ok(Packet::GssEncRequest) => (Purpose::Encryption, taken),
            Ok(Packet::Cancel(request)) => {
                let (process, secret) = (request.process, request.key.to_vec());
                (Purpose::Cancel { process, secret }, taken)
            }
            Ok(Packet::Startup(_))
                if client.direct && client.connection.protocol().as_deref() != Some(ALPN) =>
            {
                (Purpose::Nonsense, 0)
            }
            Ok(Packet::Startup(startup)) => {
                (session(&startup, &self.config.startup_ignored), startup.bytes())
            }
            Err(error) => (Purpose::Refused(error.sqlstate(), error.to_string()), 0),
        };
        client.connection.take(bytes, &mut self.buffers);
        match purpose {
            Purpose::Unknown => {}
            Purpose::Nonsense => self.close(key),
            Purpose::Tls(handshake) => self.encrypt(key, handshake),
            Purpose::Encryption => {
                // GSSAPI encryption; libpq goes on with TLS or in clear on the same connection.
                if self.say(key, b"N").is_err() {
                    self.close(key);
                }
            }
            Purpose::Cancel { process, secret } => self.cancel(key, process, &secret),
            Purpose::Refused(sqlstate, message) => self.refuse(key, sqlstate, &message),
            Purpose::Session(wanted, options) => self.begin_session(key, wanted, options),
        }
    }

    /// A client wants TLS, and gets it if there is a certificate.
    fn encrypt(&mut self, key: Key, handshake: Handshake) {
        let client = self.clients.get(key).expect("its caller has it");
        // As PostgreSQL has it: on this machine nobody reads along.
        let shown = self.tls.clone().filter(|_| client.peer != Peer::Local);
        let tls = shown.as_ref().map(|tls| ServerConnection::new(Arc::clone(&tls.config)));
        let (answer, tls) = match tls {
            Some(Ok(tls)) => (&b"S"[..], Some(tls)),
            Some(Err(_)) | None => (&b"N"[..], None),
        };
        let answered = match handshake {
            Handshake::Asked => self.say(key, answer).is_ok(),
            // There is no way to decline.
            Handshake::Direct => tls.is_some(),
        };
        if !answered {
            return self.close(key);
        }
        let Some(tls) = tls else { return };
        let client = self.clients.get_mut(key).expect("its caller has it");
        client.state = State::Opening(Opening::inside_tls());
        (client.transport, client.tls) = (Transport::Tls, shown);
        client.direct = handshake == Handshake::Direct;
        // What stands before TLS is one byte; a socket without room for that is of no use.
        if client.connection.is_blocked()
            || client.connection.encrypt(tls, &mut self.buffers).is_err()
        {
            self.close(key);
        }
    }

    /// A client does not get in.
    pub(super) fn refuse(&mut self, key: Key, sqlstate: SqlState, message: &str) {
        self.stats.logins_failed += 1;
        self.fail(key, sqlstate, message);
    }

    /// A client wants a session: it is asked who it is.
    fn begin_session(&mut self, key: Key, wanted: Wanted, options: Vec<Vec<u8>>) {
        // Who was accepted before a takeover gets in here, and goes over then.
        if !matches!(self.phase, Phase::Open | Phase::HandingOver) {
            let message = "the gate is shutting down";
            return self.refuse(key, SqlState::CANNOT_CONNECT_NOW, message);
        }
        // Who operates the gate gets in when it is full: that is when it is needed.
        if self.is_full() && !self.is_console(&wanted.database) {
            return self.refuse_surplus(key);
        }
        let client = self.clients.get(key).expect("its caller has it");
        let must_be = self.tls.as_ref().is_some_and(|tls| tls.mode.must_be());
        // It was not offered to who is on this machine.
        if must_be && client.transport == Transport::Clear && client.peer != Peer::Local {
            let message = "connection requires TLS: connect with sslmode=require";
            return self.refuse(key, SqlState::INVALID_AUTHORIZATION, message);
        }
        let settings_max = self.config.limits.settings;
        if wanted.settings.len() > settings_max {
            let message = format!("a session can begin with {settings_max} settings at most");
            return self.refuse(key, SqlState::PROGRAM_LIMIT_EXCEEDED, &message);
        }
        let method = match self.method(key, &wanted) {
            Ok(method) => method,
            Err((sqlstate, message)) => return self.refuse(key, sqlstate, &message),
        };
        let looking = Looking { wanted, method, options };
        let Wanted { database, user, .. } = &looking.wanted;
        if self.must_look_up(database, user, method) {
            return self.look_up(key, looking);
        }
        let secret = self.config.users.secret(user);
        let known = self.config.users.knows(user);
        self.challenge(key, looking, &secret, known);
    }

    /// Asks a client to prove who it is, against what is known of its user; `known` says whether
    /// there is one of that name.
    pub(super) fn challenge(&mut self, key: Key, looking: Looking, secret: &Secret, known: bool) {
        let Looking { wanted, method, options } = looking;
        let mut out = Vec::new();
        // Before the first authentication message, as PostgreSQL has it: a client reads it only there.
        if wanted.version != wanted.version.granted() || !options.is_empty() {
            let options = options.iter().map(Vec::as_slice);
            write::negotiate_protocol_version(&mut out, wanted.version.granted(), options);
        }
        if method == Method::Trust && self.config.unlisted_users == UnlistedUsers::Refused && !known
        {
            let name = String::from_utf8_lossy(&wanted.user);
            let message = format!("role \"{name}\" does not exist");
            return self.refuse(key, SqlState::INVALID_AUTHORIZATION, &message);
        }
        let client = self.clients.get(key).expect("its caller has it");
        let binding = client.tls.as_ref().map_or(Binding::Absent, |tls| tls.binding.clone());
        let method = match (method, secret.kind()) {
            (Method::ScramSha256, Kind::Md5) if self.is_by_default() => Method::Md5,
            // To hash what anybody sends, thousands of times, would hold up everybody else.
            (Method::Password, Kind::Scram) => Method::ScramSha256,
            (method, _) => method,
        };
        let nonce = self.draw();
        let checked = Check::begin(method, &wanted.user, secret, binding, nonce, &mut out);
        self.checked(key, wanted, checked, &out);
    }

    /// True if no rule of admission names the method.
    fn is_by_default(&self) -> bool {
        !matches!(self.config.admission, Admission::Rules(_))
    }

    /// The proof that a client must give of who it is.
    fn method(&self, key: Key, wanted: &Wanted) -> Result<Method, (SqlState, String)> {
        let client = self.clients.get(key).expect("its caller has it");
        match &self.config.admission {
            Admission::Everybody(method) => Ok(*method),
            Admission::Certificates => {
                let named = client.connection.certificate().and_then(|der| common_name(&der));
                let same = IdentMaps::default();
                certify(client, named, (None, &same), &wanted.user)?;
                Ok(Method::Trust)
            }
            Admission::Rules(hba) => {
                let facts = Facts {
                    origin: client.origin(),
                    user: &wanted.user,
                    database: &wanted.database,
                    replication: wanted.replication,
                };
                let admission = hba
                    .decide(&facts)
                    .map_err(|refusal| (refusal.sqlstate(), refusal.to_string()))?;
                identify(client, &admission, &wanted.user, &self.config.idents)?;
                Ok(admission.method)
            }
        }
    }

    /// A step of a client's proof was taken, and `out` is to be said to it.
    fn checked(&mut self, key: Key, wanted: Wanted, checked: Checked, out: &[u8]) {
        if self.say(key, out).is_err() {
            return self.close(key);
        }
        let client = self.clients.get_mut(key).expect("its caller has it");
        match checked {
            Checked::Asks(check) => client.state = State::Asked(Box::new((wanted, check))),
            Checked::Passed(brought) => self.let_in(key, wanted, brought),
        }
    }

    /// Takes what a client answers that was asked who it is.
    fn hear_answer(&mut self, key: Key) {
        let client = self.clients.get_mut(key).expect("its caller has it");
        let readable = client.connection.read();
        let (tag, len) = match client.frames.look(readable) {
            Ok(Piece::Whole { tag, len }) => (tag, len),
            Ok(_) => return,
            Err(error) => return self.refuse(key, error.sqlstate(), &error.to_string()),
        };
        let mut out = Vec::new();
        let State::Asked(asked) = std::mem::replace(&mut client.state, State::Ending) else {
            return;
        };
        let (wanted, check) = *asked;
        let answered = check.answer(tag, &readable[HEAD..len], &mut out);
        client.connection.take(len, &mut self.buffers);
        match answered {
            Ok(checked) => self.checked(key, wanted, checked, &out),
            // One that says nothing more has changed its mind, perhaps to ask its user.
            Err(_) if tag == Frontend::Terminate => self.close(key),
            Err(error) => {
                if matches!(error, CheckError::WrongPassword { .. }) {
                    self.auth_queries.suspect(&wanted.database, &wanted.user, self.now);
                }
                self.refuse(key, error.sqlstate(), &error.to_string());
            }
        }
    }

    /// A client is who it claims to be.
    fn let_in(&mut self, key: Key, wanted: Wanted, brought: Credential) {
        if self.is_console(&wanted.database) && wanted.replication == Replication::No {
            return self.admit(key, &wanted);
        }
        // Others may have logged in since it was asked.
        if self.is_full() {
            return self.refuse_surplus(key);
        }
        let name = String::from_utf8_lossy(&wanted.database);
        if self.admin.is_disabled(&name) {
            let message = format!("database \"{name}\" is disabled");
            return self.refuse(key, SqlState::NOT_IN_PREREQUISITE_STATE, &message);
        }
        let pool = match self.pool_for(&wanted, brought) {
            Ok(pool) => pool,
            Err((sqlstate, message)) => return self.refuse(key, sqlstate, &message),
        };
        let user = match self.count_in(&wanted.user, pool) {
            Ok(user) => user,
            Err((sqlstate, message)) => {
                self.stats.clients_refused += 1;
                return self.fail(key, sqlstate, &message);
            }
        };
        // It is counted by now: nothing may end it before it has its user, by which it is counted out.
        let settings = wanted.settings();
        let secret: [u8; SECRET_BYTES] = self.draw();
        let process = self.draw_process();
        let other = self.processes.insert(process, key);
        assert!(other.is_none(), "the number was drawn so that nobody has it");
        let client = self.clients.get_mut(key).expect("its caller has it");
        let login = self.logins.remove(&client.id);
        assert!(login.is_some() && client.user.is_none(), "a client gets in once");
        client.pool = pool;
        client.timeouts = self.client_timeouts.of(&user);
        client.user = Some(user);
        client.entered = self.now;
        client.statements = statements::Client::new(settings.scope());
        (client.process, client.secret) = (process, secret);
        // Below version 3.2 of the protocol BackendKeyData ends with 4 bytes of key, and a client
        // may read no more.
        client.secret_bytes = if wanted.version >= Version::V3_2 { SECRET_BYTES as u8 } else { 4 };
        client.frames.limit(Limits { length_max: self.config.limits.message, ..Limits::SESSION });
        client.replication = wanted.replication;
        self.begin_settings(key, settings);
        if wanted.replication != Replication::No {
            // It has its own server greet it, and its deadline for the login until then.
            self.log_login(key);
            let client = self.clients.get_mut(key).expect("its caller has it");
            client.since = self.now;
            let job = self.arrive(key, self.now);
            let client = self.clients.get_mut(key).expect("its caller has it");
            client.state = State::Waits(job);
            return;
        }
        let client = self.clients.get_mut(key).expect("its caller has it");
        client.state = State::WaitingForWelcome(None);
        self.log_login(key);
        self.pools[pool].waiting_for_welcome.push_back(key);
        self.invite(pool);
    }

    /// The pool of a database and a user, made if there is none; none if there are too many.
    pub(super) fn open_pool(&mut self, database: usize, user: Vec<u8>) -> Option<PoolIndex> {
        let named = (database, user.clone());
        if let Some(&pool) = self.pools_by_name.get(&named) {
            return Some(pool);
        }
        if !self.has_room_for_pool(database) {
            return None;
        }
        let pool = Pool::new(database, user, self.draw(), &self.config);
        let mut pool = pool.expect("its gate was built once already, and a user's slots checked");
        pool.quotas = self.quotas_of(database, &pool.user);
        if !pool.quotas.is_empty() {
            pool.driver.keep_waiting();
        }
        let pool = match self.autodb.take_pool() {
            Some(place) => {
                self.pools[place] = pool;
                place
            }
            None => {
                self.pools.push(pool);
                self.pools.len() - 1
            }
        };
        self.pools_by_name.insert(named, pool);
        self.pause_if_asked(pool);
        self.follow_health(pool, None);
        Some(pool)
    }

    /// Welcomes the clients of a pool that wait for that, if it is known what to tell them; else sees to it
    /// that one of them asks a server.
    pub(super) fn invite(&mut self, pool: usize) {
        if self.pools[pool].parameters.is_some() {
            while let Some(key) = self.pools[pool].waiting_for_welcome.front().copied() {
                self.greet(key);
            }
            return;
        }
        // One of them is enough: all clients of a pool are told what its first server has said.
        let waiting_for_welcome = &self.pools[pool].waiting_for_welcome;
        let asks = |key: &Key| self.clients.get(*key).is_some_and(|one| one.state.job().is_some());
        if self.pools[pool].welcome_connection.is_some() || waiting_for_welcome.iter().any(asks) {
            return;
        }
        if let Some(&key) = waiting_for_welcome.front() {
            let job = self.arrive(key, self.now);
            let client = self.clients.get_mut(key).expect("who waits is there");
            client.state = State::WaitingForWelcome(Some(job));
        }
    }

    /// Tells a client that got in all that there is to say before its first question.
    fn greet(&mut self, key: Key) {
        let client = self.clients.get_mut(key).expect("who waits is there");
        assert!(matches!(client.state, State::WaitingForWelcome(_)), "it is welcomed once");
        let pool = &mut self.pools[client.pool];
        pool.waiting_for_welcome.retain(|one| *one != key);
        if let State::WaitingForWelcome(Some(job)) = client.state {
            // It need not ask any more. No counter has it: it has not given up.
            client.state = State::Idle;
            let pool = client.pool;
            self.tell(pool, |driver, now| driver.renege(now, job));
        }
        let client = self.clients.get_mut(key).expect("who waits is there");
        client.state = State::Idle;
        client.since = self.now;
        self.deadlines.clear(Socket::Client(key), &mut client.deadline);
        self.begin_as_told(key);
        let client = self.clients.get_mut(key).expect("who waits is there");
        let mut out = std::mem::take(&mut self.to_client);
        out.clear();
        for (name, value) in self.pools[client.pool].parameters.iter().flatten() {
            let own = client.settings.value(&name.to_ascii_lowercase());
            write::parameter_status(&mut out, name, own.as_ref().unwrap_or(value));
        }
        write::backend_key_data(&mut out, client.process, client.secret());
        write::ready_for_query(&mut out, Status::Idle);
        let said = client.connection.send(&out, &mut self.buffers);
        self.to_client = out;
        if said.is_err() {
            return self.close(key);
        }
        self.greet_settings(key);
        // It may have sent its first question with its proof, before it was let in.
        self.again.push_back(Socket::Client(key));
    }

    /// A client without a server may have a question: then it asks the gate for one.
    fn ask(&mut self, key: Key) -> Hearing {
        if self.phase == Phase::Draining {
            self.send_away(key);
            return Hearing::Done;
        }
        // Before anything more is read of it: a client goes over only while nothing of it is in the
        // gate's own buffers.
        if self.phase == Phase::HandingOver && self.pass(key) {
            return Hearing::Done;
        }
        let client = self.clients.get_mut(key).expect("its caller has it");
        if client.connection.is_blocked() {
            // Who does not take what it is told is not heard either.
            return Hearing::Done;
        }
        // Or each byte that comes would have all before it looked at again.
        if client.connection.read().len() < client.needs as usize {
            return Hearing::Done;
        }
        let mut out = std::mem::take(&mut self.to_client);
        out.clear();
        let heard = client.unlinked.hear(&mut client.frames, client.connection.read(), &mut out);
        let bytes = heard.map_or(0, |heard| heard.bytes);
        if bytes > 0 {
            client.connection.take(bytes, &mut self.buffers);
            let counters = &mut self.pools[client.pool].counters;
            counters.received += bytes as u64;
            counters.sent += out.len() as u64;
        }
        let said = if out.is_empty() { Ok(()) } else { self.say(key, &out) };
        self.to_client = out;
        match heard.map(|heard| heard.next) {
            _ if said.is_err() => self.close(key),
            Ok(Next::More) => {}
            Ok(Next::Terminated) => self.close(key),
            Ok(Next::Asks) => return self.ask_for_server(key),
            Err(error) => self.fail(key, error.sqlstate(), &error.to_string()),
        }
        Hearing::Done
    }

    fn ask_for_server(&mut self, key: Key) -> Hearing {
        let client = self.clients.get_mut(key).expect("its caller has it");
        (client.since, client.asked, client.needs) = (self.now, self.now, 0);
        if let Err(hearing) = self.says_where(key) {
            return hearing;
        }
        let job = self.arrive(key, self.now);
        let client = self.clients.get_mut(key).expect("its caller has it");
        client.state = State::Waits(job);
        Hearing::Done
    }

    /// Ends the session of a client that has nothing under way.
    pub(super) fn send_away(&mut self, key: Key) {
        let message = "terminating connection due to administrator command";
        self.fail(key, SqlState::ADMIN_SHUTDOWN, message);
    }

    /// A client's job has a slot.
    pub(super) fn start(&mut self, key: Key, slot: SlotGuard) {
        let client = self.clients.get_mut(key).expect("who waits is there");
        let pool = client.pool;
        if matches!(client.state, State::WaitingForWelcome(_)) {
            // It has asked for all who wait, and may go meanwhile: so the connection is nobody's.
            client.state = State::WaitingForWelcome(None);
            let server = self.obtain(pool, None, slot);
            self.pools[pool].welcome_connection = server;
        } else {
            let place = self.pools[pool].driver.slot_of(&slot).server;
            self.note_start(key, place);
            self.obtain(pool, Some(key), slot);
        }
    }
}

/// Holds a client to what a certificate of it, or the system, must say. TLS has verified what was
/// shown.
fn identify(
    client: &Client,
    wanted: &Wanting,
    user: &[u8],
    maps: &IdentMaps,
) -> Result<(), (SqlState, String)> {
    let map = wanted.map.as_deref();
    if wanted.peer == Needed::OfUser {
        let name = match client.connection.stream() {
            Stream::Unix(stream) => peer::user_of(stream).ok().flatten(),
            Stream::Tcp(_) => None,
        };
        if !name.is_some_and(|name| maps.allow(map, &name, user)) {
            return refused("peer", user);
        }
    }
    match (wanted.certificate, client.connection.certificate()) {
        (Certificate::Unneeded, _) | (Certificate::Verified, Some(_)) => Ok(()),
        (Certificate::Verified, None) => uncertified(),
        (Certificate::OfUser, der) => {
            certify(client, der.and_then(|der| common_name(&der)), (map, maps), user)
        }
    }
}

/// Holds a client to the name that its certificate has.
fn certify(
    client: &Client,
    name: Option<Vec<u8>>,
    (map, maps): (Option<&str>, &IdentMaps),
    user: &[u8],
) -> Result<(), (SqlState, String)> {
    match name {
        Some(name) if maps.allow(map, &name, user) => Ok(()),
        None if client.connection.certificate().is_none() => uncertified(),
        _ => refused("certificate", user),
    }
}

fn uncertified() -> Result<(), (SqlState, String)> {
    let message = "connection requires a valid client certificate".to_owned();
    Err((SqlState::INVALID_AUTHORIZATION, message))
}

fn refused(how: &str, user: &[u8]) -> Result<(), (SqlState, String)> {
    let user = String::from_utf8_lossy(user);
    let message = format!("{how} authentication failed for user \"{user}\"");
    Err((SqlState::INVALID_AUTHORIZATION, message))
}

/// The session that a start-up packet asks for.
fn session(startup: &Startup<'_>, ignored: &[String]) -> Purpose {
    let ignores = |name: &[u8]| ignored.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(name));
    let settings = match ignores(b"options") {
        true => Ok(startup.settings_by_name().collect()),
        false => startup.settings(),
    };
    match settings {
        Err(error) => Purpose::Refused(error.sqlstate(), error.to_string()),
        Ok(settings) => {
            let kept = settings.iter().filter(|one| !ignores(&one.name));
            let settings = kept.map(|one| (one.name[..].into(), one.value[..].into())).collect();
            let wanted = Wanted {
                version: startup.version(),
                user: startup.user().to_vec(),
                database: startup.database().to_vec(),
                settings,
                replication: startup.replication(),
            };
            let options = startup.unknown_options().map(<[u8]>::to_vec).collect();
            Purpose::Session(wanted, options)
        }
    }
}
