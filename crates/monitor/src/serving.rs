//! A client and its server: bytes pass, and when nothing is owed any more the server goes on.

use std::time::Duration;

use gate::Access;
use live::model::Work;

use super::access_log::Ended;
use super::client;
use super::config::Mode;
use super::connection::{Connection, Filled};
use super::server::State;
use super::slab::{Key, Socket};
use super::state::{Loop, Phase};
use pgsession::pipeline::{Abandoned, Kept, Turn};
use pgsession::relay::{
    ClientFault, ClientStatements, Copied, News, Out as _, ServerFault, Stop, Taken,
};
use pgsession::session::Following;
use pgwire::SqlState;
use pgwire::message::{Severity, Status, write};

/// Reads of one connection before others have their turn.
// A connection that always has more would else hold up all others, and the gate's own clock.
pub(super) const ROUNDS: u32 = 8;

/// The bytes that were taken, and why no more.
fn bytes_of<E>(taken: Result<Taken, E>) -> (usize, Result<Stop, E>) {
    match taken {
        Ok(taken) => (taken.bytes, Ok(taken.stop)),
        Err(fault) => (0, Err(fault)),
    }
}

/// News in a server's words that concern more than its client.
#[derive(Default)]
struct Heard {
    queries: u32,
    transactions: u32,
    /// True if a transaction of several statements was open.
    block: bool,
    own: Option<(Option<SqlState>, u64)>,
    ended: bool,
    /// The error with which it has ended, if it can be read.
    words: Vec<u8>,
    /// True if something took its time and came to nothing.
    wasted: bool,
}

impl Heard {
    fn note(&mut self, settings: &mut Following<'_>, news: News<'_>) {
        match news {
            News::Ready(status) => {
                self.queries += 1;
                self.transactions += u32::from(status == Status::Idle);
                self.block |= status != Status::Idle;
                settings.ready(status);
            }
            News::Parameter { name, value, own, instead } => {
                *instead.borrow_mut() = settings.reported(name, value, own);
            }
            News::Tells(told) => settings.tell(&mut told.borrow_mut()),
            News::Own { failed, rows } => self.own = Some((failed, rows)),
            News::Ended(fields) => {
                self.ended = true;
                if let Some(fields) = fields {
                    write::error_response_as(&mut self.words, Severity::Fatal, &fields);
                }
            }
            News::Completed { tag, left } => settings.completed(tag, left),
            News::Failed(fields) => {
                settings.failed();
                let sqlstate = fields.and_then(|fields| fields.sqlstate());
                self.wasted |= sqlstate.is_some_and(SqlState::is_waste);
            }
            News::Unheard { .. } => {}
        }
    }
}

impl Loop {
    /// Passes on what a client has sent that has a server.
    pub(super) fn hear_client(&mut self, key: Key) {
        self.pass_all_on(key);
        self.limit_stay(key);
    }

    /// Limits the stay of a client that has gone: what it has sent may wait until its server takes
    /// it, but not for ever. It is found to have gone when all of it is read, and nothing is read
    /// meanwhile.
    fn limit_stay(&mut self, key: Key) {
        let client = self.clients.get(key).filter(|client| client.connection.has_hung_up());
        let Some(&client::State::Served(at)) = client.map(|client| &client.state) else { return };
        let server = self.servers.get_mut(at).expect("who is served has a server");
        if matches!(server.state, State::Serving) {
            let latest = self.now + self.config.timeouts.clean;
            self.deadlines.set(Socket::Server(at), &mut server.deadline, latest);
        }
    }

    fn pass_all_on(&mut self, key: Key) {
        for _ in 0..ROUNDS {
            let Some(client) = self.clients.get_mut(key) else { return };
            let client::State::Served(at) = client.state else { return };
            let server = self.servers.get_mut(at).expect("who is served has a server");
            assert_eq!(server.client, Some(key), "a served client's server names that client");
            if !matches!(server.state, State::Serving) {
                // What it has sent waits with it; only that it goes is of interest.
                if client.connection.has_hung_up() {
                    self.close(key);
                }
                return;
            }
            if server.cancels > 0 && server.relay.turn() == Turn::Client {
                // What the request was for is over, and it would hit what comes next.
                return;
            }
            // What cannot go on is not read either: TCP slows the client down, and nothing piles up here.
            let blocked =
                server.connection.as_ref().is_none_or(|connection| connection.is_blocked());
            if blocked || client.connection.is_blocked() {
                return;
            }
            let there = client.connection.read().len();
            if there > 0 && there >= client.needs as usize && !self.pass_on(key, at) {
                return;
            }
            // To pass it on may have ended the client, or its job.
            let Some(client) = self.clients.get_mut(key) else { return };
            if !matches!(client.state, client::State::Served(_)) {
                return;
            }
            client.connection.reserve(client.needs as usize);
            match client.connection.fill(&mut self.buffers) {
                Filled::Bytes(_) => {}
                Filled::Nothing | Filled::NoRoom => return,
                Filled::Ended(_) => return self.close(key),
            }
        }
        self.again.push_back(Socket::Client(key));
    }

    /// Passes on what was read from a client. False if no more should be read now.
    fn pass_on(&mut self, key: Key, at: Key) -> bool {
        let (Some(client), Some(server)) = (self.clients.get_mut(key), self.servers.get_mut(at))
        else {
            return false;
        };
        let pool = &mut self.pools[server.pool];
        let (to_server, to_client) = (&mut self.to_server, &mut self.to_client);
        to_server.clear();
        to_client.clear();
        let readable = client.connection.read();
        let mut out = Copied::new(readable, to_server);
        server.relay.set_ahead(pool.ahead(&self.config));
        let mut client_statements =
            ClientStatements { client: &mut client.statements, cache: &mut pool.cache };
        let taken = server.relay.from_client(
            &mut client_statements,
            &mut client.frames,
            readable,
            &mut out,
            to_client,
        );
        let (bytes, fault) = bytes_of(taken);
        client.connection.take(bytes, &mut self.buffers);
        pool.counters.received += bytes as u64;
        if let Some(course) = &mut client.course {
            course.received += bytes as u64;
            course.sent += to_client.len() as u64;
        }
        pool.counters.prepare(server.relay.take_prepares());
        server.active = self.now;
        if !to_server.is_empty() {
            server.query_since.get_or_insert(self.now);
            server.xact_since.get_or_insert(self.now);
            server.works(self.now);
            let connection = server.connection.as_mut().expect("it is made");
            if connection.send(to_server, &mut self.buffers).is_err() {
                // What it has said before it broke is read first.
                self.again.push_back(Socket::Server(at));
            }
        }
        if !to_client.is_empty() {
            pool.counters.sent += to_client.len() as u64;
            if client.connection.send(to_client, &mut self.buffers).is_err() {
                self.close(key);
                return false;
            }
        }
        self.after_pass(key, at, bytes, fault)
    }

    /// What follows from why no more was taken of a client. False if no more should be read now.
    fn after_pass(
        &mut self,
        key: Key,
        at: Key,
        bytes: usize,
        fault: Result<Stop, ClientFault>,
    ) -> bool {
        let client = self.clients.get_mut(key).expect("it was there a moment ago");
        match fault {
            Ok(Stop::More { needs }) => {
                client.needs = needs as u32;
                // One of whose message nothing was taken yet keeps the server for it.
                if bytes > 0 {
                    self.look_after(at);
                }
                true
            }
            Ok(stop @ (Stop::Later | Stop::Sequences)) => {
                client.needs = 0;
                if stop == Stop::Sequences {
                    self.forget_sequences(at);
                }
                false
            }
            Ok(Stop::Terminated) => {
                self.close(key);
                false
            }
            Ok(Stop::Ended) => {
                self.lost(at);
                false
            }
            Err(fault) => {
                self.fail(key, fault.sqlstate(), &fault.to_string());
                false
            }
        }
    }

    /// Passes on what a server has sent.
    pub(super) fn hear_server(&mut self, key: Key) {
        for _ in 0..ROUNDS {
            let Some(server) = self.servers.get_mut(key) else { return };
            let client = server.client.and_then(|client| self.clients.get(client));
            debug_assert!(client.is_some() || server.client.is_none(), "who has a server is there");
            // Bounds what the gate keeps for a client that does not read: the server waits in its write.
            if client.is_some_and(|client| client.connection.is_blocked()) {
                return;
            }
            let Some(connection) = &mut server.connection else { return };
            let was_there = !connection.read().is_empty();
            match connection.fill(&mut self.buffers) {
                Filled::Bytes(_) => {}
                // It may have been read before there was room for it at the client.
                Filled::Nothing if was_there => {}
                Filled::Nothing => return,
                Filled::NoRoom if was_there => {}
                Filled::Ended(_) if was_there => {
                    // Its last words came before it was known that they are the last.
                    self.pass_back(key);
                    return self.lost(key);
                }
                Filled::NoRoom | Filled::Ended(_) => return self.lost(key),
            }
            if !self.pass_back(key) {
                return;
            }
        }
        self.again.push_back(Socket::Server(key));
    }

    /// Passes on what was read from a server. False if there is nothing more to do for it now.
    fn pass_back(&mut self, key: Key) -> bool {
        let Some(server) = self.servers.get_mut(key) else { return false };
        let pool = &mut self.pools[server.pool];
        let mut client = server.client.and_then(|client| self.clients.get_mut(client));
        let serves = matches!(server.state, State::Serving | State::Restoring(_));
        let sets = server.is_being_set();
        let (unseen, unheard) = (server.is_replaceable(), server.is_unheard());
        let connection = server.connection.as_mut().expect("it is made");
        let (to_server, to_client) = (&mut self.to_server, &mut self.to_client);
        to_server.clear();
        to_client.clear();
        let readable = connection.read();
        let mut out = Copied::new(readable, to_client);
        let mut heard = Heard::default();
        let (statements, settings) = match &mut client {
            Some(client) => (Some(&mut client.statements), Some(&mut client.settings)),
            None => (None, None),
        };
        let mut settings = Following::new(&mut server.session, settings, serves);
        let taken = server.relay.from_server(
            statements,
            &mut pool.cache,
            readable,
            &mut out,
            to_server,
            |news| match (news, &mut server.probe) {
                (News::Parameter { name: b"application_name", value, .. }, Some(told)) => {
                    value.clone_into(told);
                }
                (news, _) => heard.note(&mut settings, news),
            },
        );
        let changed = settings.changed;
        if sets {
            out.put(&settings.news);
        }
        if heard.ended && (unseen || unheard && !heard.words.is_empty()) {
            // Its client has said nothing here, and gets another one or is told otherwise.
            to_client.clear();
        }
        let (bytes, fault) = bytes_of(taken);
        connection.take(bytes, &mut self.buffers);
        server.active = self.now;
        pool.counters.sent += to_client.len() as u64;
        let reached = client.is_none_or(|client| {
            client.take_answer(to_client, heard.queries, &mut self.buffers).is_ok()
        });
        let gone = server.client.filter(|_| !reached);
        let broken =
            !to_server.is_empty() && connection.send(to_server, &mut self.buffers).is_err();
        let whose = server.client.filter(|_| changed);
        self.follow(key, whose);
        self.count(key, &heard);
        if heard.wasted
            && let Some(server) = self.servers.get_mut(key)
        {
            server.work = Work::Failed;
        }
        // Behind what was counted: to close it may drop the server.
        if let Some(client) = gone {
            self.close(client);
        }
        self.after_words(key, fault, &heard, broken);
        let connection = self.servers.get(key).and_then(|server| server.connection.as_ref());
        connection.is_some_and(Connection::may_read)
    }

    /// Adapts the reading of a client's texts, if its settings have changed, and of those of all
    /// who have its database, if its schema may have.
    fn follow(&mut self, key: Key, client: Option<Key>) {
        if let Some(client) = client {
            self.follow_client(client);
        }
        let Some(by) = self.servers.get(key).map(|server| server.pool) else { return };
        if !self.pools[by].cache.take_schema_news() {
            return;
        }
        let database = self.pools[by].database;
        let asks = self.pools[by].cache.asks_of_sequences();
        let others = self.pools.iter_mut().enumerate().filter(|(at, _)| *at != by);
        for (_, pool) in others.filter(|(_, pool)| pool.database == database) {
            pool.cache.schema_changed();
            if asks {
                // What was made may be behind what others ask for.
                pool.cache.asked_of_sequences();
            }
        }
    }

    /// Does what follows from what a server has said. `broken`: it cannot be written to any more.
    fn after_words(
        &mut self,
        key: Key,
        fault: Result<Stop, ServerFault>,
        heard: &Heard,
        broken: bool,
    ) {
        match fault {
            Err(fault) => self.misbehaves(key, fault.sqlstate(), &fault.to_string()),
            // Before a connection that cannot be written to: its last words tell the client why.
            Ok(_) if heard.ended => self.ended(key, &heard.words),
            Ok(Stop::Ended) => {
                let message = "it is not known what the server answers: a COPY has failed, and more \
                               was asked behind it";
                self.misbehaves(key, SqlState::PROTOCOL_VIOLATION, message);
            }
            Ok(_) if broken => self.lost(key),
            Ok(_) => {
                if let Some((failed, rows)) = heard.own {
                    // Who has the server now has not said anything to it yet, and keeps it.
                    self.answered(key, failed, rows);
                } else {
                    self.refuse_block(key, heard.block);
                    self.look_after(key);
                }
            }
        }
    }

    /// Counts what has ended.
    fn count(&mut self, key: Key, heard: &Heard) {
        if heard.queries == 0 {
            return;
        }
        let Some(server) = self.servers.get_mut(key) else { return };
        let counters = &mut self.pools[server.pool].counters;
        let since = |moment: Option<gate::Time>| {
            moment.map_or(Duration::ZERO, |moment| self.now.since(moment))
        };
        counters.query_count += u64::from(heard.queries);
        counters.query_time += since(server.query_since.take());
        if heard.transactions > 0 {
            counters.xact_count += u64::from(heard.transactions);
            counters.xact_time += since(server.xact_since.take());
        }
        if server.relay.kept().is_some() {
            // It belongs to the same transaction, or another one was asked for already.
            server.xact_since.get_or_insert(self.now);
            server.query_since = (server.relay.turn() == Turn::Server).then_some(self.now);
        }
    }

    /// In statement mode nobody has a server for a transaction of several statements.
    fn refuse_block(&mut self, key: Key, block: bool) {
        let Some(server) = self.servers.get(key) else { return };
        if block
            && self.pools[server.pool].mode == Mode::Statement
            && let Some(client) = server.client
        {
            let message = "transaction blocks are not allowed in statement mode";
            self.fail(client, SqlState::FEATURE_NOT_SUPPORTED, message);
        }
    }

    /// A server has said what it could not say.
    fn misbehaves(&mut self, key: Key, sqlstate: SqlState, message: &str) {
        if let Some(server) = self.servers.get_mut(key) {
            server.work = Work::Failed;
        }
        if let Some(client) = self.servers.get(key).and_then(|server| server.client) {
            self.orphan(key, client);
            self.fail(client, sqlstate, message);
        }
        self.drop_server(key);
    }

    /// A server has ended its session with these words, which its client has heard if it had said
    /// anything there.
    fn ended(&mut self, key: Key, words: &[u8]) {
        let Some(server) = self.servers.get(key) else { return };
        if server.is_replaceable() {
            return self.replace(key);
        }
        let unheard = server.is_unheard() && !words.is_empty();
        if let Some(client) = server.client {
            self.orphan(key, client);
            if unheard {
                self.leave_unserved(client, words);
            } else {
                self.end_with(client, b"");
            }
        }
        self.drop_server(key);
    }

    /// Sees what is to become of a server, after bytes have passed.
    pub(super) fn look_after(&mut self, key: Key) {
        let Some(server) = self.servers.get_mut(key) else { return };
        let kept = server.relay.kept();
        let between = server.stands_between();
        let is_served = server.client.is_some() || !matches!(server.state, State::Serving);
        assert!(is_served, "a server without a client is cleaned, or idle");
        match (&server.state, server.client) {
            (State::Serving, Some(client)) => {
                let is_session = self.pools[server.pool].mode == Mode::Session;
                let served = self.clients.get_mut(client).expect("who has a server is there");
                if between && !served.tell_settings(&mut self.buffers) {
                    return self.close(client);
                }
                if !between {
                    if !self.restore(key) {
                        self.resume(client);
                    }
                    return;
                }
                if !is_session && !server.is_pinned() {
                    return self.part_ways(key, client);
                }
                // To what is not known nothing can be compared; in session mode the session is the client's.
                let settled = is_session || server.session.is_lost();
                if !is_session {
                    self.pin(key);
                }
                if self.sends_away() {
                    self.send_away(client);
                } else if settled {
                    self.resume(client);
                } else {
                    // What it has reset is at the server's own value, and the client's may be another.
                    self.prepare(key);
                }
            }
            (State::Leaving | State::GivenUp, _) => match kept {
                None if between => self.cleaned(key),
                Some(Kept::Ended(_)) => self.drop_server(key),
                _ => {}
            },
            _ => {}
        }
    }

    /// Lets what a client has sent go on now that its server has said something.
    fn resume(&mut self, key: Key) {
        let client = self.clients.get(key).expect("who has a server is there");
        if client.needs == 0 && !client.connection.read().is_empty() {
            self.again.push_back(Socket::Client(key));
        }
    }

    /// A client needs its server no longer: both go on, the server first.
    fn part_ways(&mut self, key: Key, at: Key) {
        let now = self.now;
        self.note_end(at, Ended::Served, None);
        let client = self.part_from_server(at, key);
        if client.access == Access::Write {
            client.wrote = Some(now);
        }
        (client.needs, client.since) = (0, now);
        let more = !client.connection.read().is_empty() || client.connection.may_read();
        let server = self.servers.get_mut(key).expect("its caller has it");
        server.client = None;
        server.relay.parted();
        self.deadlines.clear(Socket::Server(key), &mut server.deadline);
        self.unpin(key);
        // The server first: whoever waits is served before this client asks for its next job.
        self.give_back(key);
        if self.phase == Phase::Draining {
            self.send_away(at);
        } else if more || self.phase == Phase::HandingOver {
            self.again.push_back(Socket::Client(at));
        }
    }

    /// A client has gone that has a server.
    pub(super) fn leave(&mut self, key: Key, at: Key) {
        self.unpin(at);
        let server = self.servers.get_mut(at).expect("who is served has a server");
        let client = server.client.take();
        assert_eq!(client, Some(key), "a served client's server names that client");
        let client = self.clients.get_mut(key).expect("its caller has it");
        let statements = std::mem::take(&mut client.statements);
        let cache = &mut self.pools[server.pool].cache;
        if matches!(server.state, State::Admitting) {
            // It stands for a wait alone, which ends with the place in the queues of quotas.
            cache.forget(statements);
            return self.drop_server(at);
        }
        if !matches!(server.state, State::Serving | State::Restoring(_)) {
            // It is being made, or given settings, and goes to somebody else when that is done.
            return cache.forget(statements);
        }
        let mut out = Vec::new();
        let abandoned = server.relay.leave(statements, cache, &mut out);
        server.state = State::Leaving;
        // Nobody follows any more whether what is under way commits: its settings count as unknown.
        if abandoned != Abandoned::Free
            && (server.session.is_moving() || server.relay.left().is_moving())
        {
            server.session.unfollowed();
        }
        (server.query_since, server.xact_since) = (None, None);
        let connection = server.connection.as_mut().expect("it is made");
        if !out.is_empty() && connection.send(&out, &mut self.buffers).is_err() {
            return self.drop_server(at);
        }
        match abandoned {
            Abandoned::Free => self.cleaned(at),
            Abandoned::Close(_) => self.drop_server(at),
            Abandoned::Waits(_) => {
                let latest = self.now + self.config.timeouts.clean;
                self.deadlines.set(Socket::Server(at), &mut server.deadline, latest);
                // The server may have been left unread while this client could take no answers, and
                // its edge does not come again.
                self.again.push_back(Socket::Server(at));
            }
        }
    }

    /// Nothing is owed to a client that has gone.
    fn cleaned(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        self.deadlines.clear(Socket::Server(key), &mut server.deadline);
        if self.pools[server.pool].mode == Mode::Session {
            self.discard(key);
        } else {
            self.give_back(key);
        }
    }

    /// A clean server becomes idle, and its slot is given back, unless a cancel request is on its way
    /// or it has lived long enough.
    pub(super) fn give_back(&mut self, key: Key) {
        // A client that is refused its settings goes without leaving.
        self.unpin(key);
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(server.client.is_none(), "somebody has it");
        (server.query_since, server.xact_since) = (None, None);
        if !server.stands_between() {
            // A notice that came behind the last answer is not all here.
            server.state = State::Leaving;
            let latest = self.now + self.config.timeouts.clean;
            return self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        }
        if self.clean(key) {
            return;
        }
        let server = self.servers.get_mut(key).expect("it was there above");
        // A cancel request names a session and not a query: it would hit whoever has this one next.
        if server.cancels > 0 {
            // With its slot: a connection that nobody may have is none for the next job.
            server.state = State::BeingCancelled;
            return;
        }
        let (pool, place, since) = (server.pool, server.place, server.since);
        let old = self.is_old(pool, since);
        let server = self.servers.get(key).expect("it was there above");
        let spent = server.tainted || server.closing || old || self.pools[pool].paused;
        if spent || self.is_crowded(pool, place) || self.is_left_over(pool) {
            return self.drop_server(key);
        }
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(server.probe.is_none() && server.greeting.is_none(), "a job can have it next");
        server.state = State::Idle;
        server.active = self.now;
        let work = server.work;
        let permits = std::mem::take(&mut server.permits);
        let slot = server.slot.take();
        self.pools[pool].put_idle(place, key);
        self.release_permits(permits);
        // One that was made for nobody yet has none.
        if let Some(slot) = slot {
            self.tell(pool, |driver, now| driver.depart(now, slot, work));
        }
    }

    /// Closes idle connections that are not needed any more, and tries servers that were down.
    pub(super) fn sweep(&mut self) {
        for at in 0..self.pools.len() {
            if self.pools[at].janitor.unavailable_at_once().is_some() {
                // Whoever comes tries them, one after the other.
                continue;
            }
            for place in 0..self.pools[at].retries.len() {
                if self.pools[at].retries[place].is_some_and(|moment| moment <= self.now) {
                    self.try_again(at, place as u32);
                }
            }
        }
        self.tend();
        self.probe();
        self.sweep_clients();
    }
}
