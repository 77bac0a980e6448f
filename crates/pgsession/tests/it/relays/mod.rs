//! Several clients on a few servers: scripts, by hand and by chance, through relays and over a
//! connection of each client's own, to a private PostgreSQL. What the clients read must be the same.

mod chance;
mod copying;
mod damage;
mod executing;
mod leaving;
mod sequences;
mod skipped;
mod statements;
mod traps;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use pgsession::pipeline::{Abandoned, Kept, Turn};
use pgsession::relay::{ClientFault, ClientStatements as Here, Copied, News, Relay, Stop};
use pgsession::sql::{Reason, Reasons};
use pgsession::statements::{Bounds, Client, StatementCache};
use pgwire::frame::{Backend, Frames, Frontend, HEAD, Limits, Piece, Tag};
use pgwire::message::{read, write};
use pgwire::startup::{Version, write_startup};
use postgres::{Private, Settings};

use pgtest::script::{
    again, bare, bind, close, describe, execute, is_mark, named, parse, query, rows, runs, step,
    sync,
};
use pgtest::{Bound, Chance, Proof, password_of};

/// The server of all tests here; it ends with this process.
fn server() -> &'static Private {
    // PostgreSQL's own number, and more than any test has at once.
    static CONNECTIONS: Bound = Bound::of(100, 15);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters = [("fsync", "off"), ("shared_buffers", "16MB")];
        let parameters =
            parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let parameters =
            [parameters, vec![("client_min_messages".into(), "error".into())]].concat();
        Private::start(&Settings { parameters, ..Settings::default() }).unwrap()
    })
}

/// A connection to it.
struct Wire {
    stream: TcpStream,
    buffer: VecDeque<u8>,
    frames: Frames<Backend>,
}

impl Wire {
    fn connect() -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", server().port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let limits = Limits { whole_max: 65_536, ..Limits::SESSION };
        let mut wire = Wire { stream, buffer: VecDeque::new(), frames: Frames::new(limits) };
        let mut out = Vec::new();
        let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", b"postgres")];
        write_startup(&mut out, Version::V3_0, parameters).unwrap();
        wire.send(&out);
        let mut proof = Proof::of(&password_of(server()));
        loop {
            let message = wire.next();
            match Backend::from_byte(message[0]).unwrap() {
                Backend::Authentication => wire.send(&proof.answer(&message[HEAD..])),
                Backend::ReadyForQuery => return wire,
                Backend::ErrorResponse => panic!("{}", String::from_utf8_lossy(&message)),
                _ => {}
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn next(&mut self) -> Vec<u8> {
        loop {
            match self.frames.look(self.buffer.make_contiguous()).unwrap() {
                Piece::Whole { len, .. } => return self.buffer.drain(..len).collect(),
                Piece::More { .. } => {
                    let mut portion = [0; 8192];
                    let read = self.stream.read(&mut portion).expect("an answer in time");
                    assert!(read > 0, "the server closed the connection");
                    self.buffer.extend(&portion[..read]);
                }
                piece => panic!("{piece:?}"),
            }
        }
    }
}

/// A message of a server as a client tells it from another one.
fn told(message: &[u8]) -> String {
    let (tag, body) = (Backend::from_byte(message[0]).unwrap(), &message[HEAD..]);
    match tag {
        Backend::ErrorResponse => {
            let fields = read::fields(body).unwrap();
            let [severity, code, text] =
                [b'V', b'C', b'M'].map(|kind| String::from_utf8_lossy(fields.field(kind).unwrap()));
            let at = fields.field(b'P').map(|at| format!(" at {}", at.escape_ascii()));
            format!("{severity} {code} {text}{}", at.unwrap_or_default())
        }
        Backend::NoticeResponse => "notice".to_owned(),
        Backend::RowDescription => {
            let (mut rest, mut names) = (&body[2..], String::from("columns"));
            while let Some(end) = rest.iter().position(|&byte| byte == 0) {
                // Tables are made anew; types are not.
                let of = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
                names.push_str(&format!(" {}:{of}", rest[..end].escape_ascii()));
                rest = &rest[end + 19..];
            }
            names
        }
        _ => format!("{tag:?} {}", body.escape_ascii()),
    }
}

/// Sends a step over a connection of the client's own; what it reads.
fn directly(wire: &mut Wire, step: &[u8]) -> Vec<String> {
    wire.send(step);
    let (mut read, mut marked) = (Vec::new(), false);
    loop {
        let message = wire.next();
        marked |= is_mark(&message);
        read.push(told(&message));
        if marked && message[0] == b'Z' {
            return read;
        }
    }
}

/// Makes the tables of all tests here, once: of two that make the same at once, one fails.
fn make_tables() {
    static MADE: OnceLock<()> = OnceLock::new();
    // Its share first: who has one may wait here for who makes them.
    server();
    MADE.get_or_init(|| {
        let read = directly(&mut Wire::connect(), &step(&[query(chance::TABLES)]));
        assert!(!read.iter().any(|message| message.starts_with("ERROR")), "{read:?}");
    });
}

/// In which portions bytes become readable.
enum Portions {
    Whole,
    Single,
    Chance(Chance),
}

impl Portions {
    /// Number of the `left` more bytes that are readable now, at least one.
    fn next(&mut self, left: usize) -> usize {
        match self {
            Portions::Whole => left,
            Portions::Single => 1,
            Portions::Chance(chance) => match chance.below(3) {
                0 => left,
                1 => 1 + chance.below(left),
                _ => 1 + chance.below(left.min(12)),
            },
        }
    }

    /// True if what the server owes is heard before more is asked.
    fn settles(&mut self) -> bool {
        match self {
            Portions::Whole => false,
            Portions::Single => true,
            Portions::Chance(chance) => chance.below(4) == 0,
        }
    }
}

fn limits() -> Limits {
    Limits { whole_max: 256, ..Limits::SESSION }
}

/// One connection of the gate's, and what was read of it and is not taken.
struct Line {
    relay: Relay,
    wire: Wire,
    read: Vec<u8>,
    /// The server has closed the connection.
    torn: bool,
}

impl Line {
    fn new(relay: Relay) -> Line {
        Line { relay, wire: Wire::connect(), read: Vec::new(), torn: false }
    }

    fn in_rotation() -> Line {
        Line::new(Relay::new(Limits { whole_max: 65_536, ..Limits::SESSION }))
    }

    /// A server that has closed says why in what is still to be read.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.wire.stream.write_all(bytes);
    }

    fn is_over(&self) -> bool {
        self.torn || matches!(self.relay.kept(), Some(Kept::Ended(_)))
    }

    /// Waits for the server, and hears what it says.
    fn hear(
        &mut self,
        mut client: Option<&mut Client>,
        cache: &mut StatementCache,
        portions: &mut Portions,
        seen: &mut Vec<u8>,
        mut news: impl FnMut(News<'_>),
    ) {
        let mut portion = [0; 8192];
        let read = match self.wire.stream.read(&mut portion) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            read => read.unwrap_or(0),
        };
        self.torn = read == 0;
        let mut rest = &portion[..read];
        while !rest.is_empty() {
            let more = portions.next(rest.len());
            self.read.extend_from_slice(&rest[..more]);
            rest = &rest[more..];
            let mut out = Copied::new(&self.read, seen);
            let mut to_server = Vec::new();
            let taken = self
                .relay
                .from_server(
                    client.as_deref_mut(),
                    cache,
                    &self.read,
                    &mut out,
                    &mut to_server,
                    &mut news,
                )
                .unwrap();
            self.read.drain(..taken.bytes);
            self.send(&to_server);
            if taken.stop == Stop::Ended {
                return;
            }
        }
    }
}

/// Several servers, in rotation.
struct Gate {
    cache: StatementCache,
    lines: Vec<Line>,
    free: VecDeque<usize>,
    portions: Portions,
    sessions: Sessions,
    fault: Option<ClientFault>,
    /// The number of times that a message had to wait.
    later: usize,
    pins: Reasons,
    strictness: Strictness,
    /// The messages that went through last, for whoever reads of a failure.
    story: Vec<String>,
    /// The number of scripts that were left for what a failed transaction cannot do.
    unlike: usize,
}

/// Sessions of clients: each keeps its server, which then has its names, or shares it.
#[derive(PartialEq)]
enum Sessions {
    Shared,
    Own,
}

#[derive(PartialEq)]
enum Strictness {
    Full,
    UpToFailed,
}

/// A client, and the server that its transaction has.
struct ClientStatements {
    client: Client,
    frames: Frames<Frontend>,
    at: Option<usize>,
}

impl ClientStatements {
    fn new() -> ClientStatements {
        ClientStatements { client: Client::new(0), frames: Frames::new(limits()), at: None }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.story.join("\n"));
        }
    }
}

impl Gate {
    fn new(servers: usize, bounds: Bounds) -> Gate {
        Gate {
            cache: StatementCache::new([7; 8], bounds),
            lines: (0..servers).map(|_| Line::in_rotation()).collect(),
            free: (0..servers).collect(),
            portions: Portions::Whole,
            sessions: Sessions::Shared,
            fault: None,
            later: 0,
            pins: Reasons::default(),
            strictness: Strictness::Full,
            story: Vec::new(),
            unlike: 0,
        }
    }

    /// Each client has a server for itself.
    fn of_sessions(servers: usize) -> Gate {
        let mut gate = Gate::new(servers, Bounds::default());
        for line in &mut gate.lines {
            line.relay = Relay::transparent(Limits { whole_max: 65_536, ..Limits::SESSION });
        }
        gate.sessions = Sessions::Own;
        gate
    }

    /// Sends a step of a client to a server; what the client reads.
    fn through(&mut self, client_statements: &mut ClientStatements, step: &[u8]) -> Vec<String> {
        let at = client_statements.at.take().unwrap_or_else(|| self.free.pop_front().unwrap());
        let seen = self.passes(client_statements, at, step, Ending::Settled);
        assert_eq!((self.fault, self.lines[at].is_over()), (None, false));
        let is_pinned = self.lines[at].relay.pins().has(Reason::Prepare);
        match self.lines[at].relay.kept() {
            None if self.sessions == Sessions::Shared && !is_pinned => self.free.push_back(at),
            None => client_statements.at = Some(at),
            Some(Kept::InTransaction | Kept::InFailedTransaction) => {
                client_statements.at = Some(at)
            }
            kept => panic!("{kept:?} behind a Sync"),
        }
        let relay = &mut self.lines[at].relay;
        self.pins = self.pins.with(relay.pins());
        if relay.kept().is_none() && relay.pins().is_empty() {
            relay.cleaned();
        }
        let (mut read, mut rest) = (Vec::new(), &seen[..]);
        while !rest.is_empty() {
            let len = 1 + u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
            read.push(told(&rest[..len]));
            rest = &rest[len..];
        }
        read
    }

    /// Lets bytes of a client pass to a server; all that the client reads.
    fn passes(
        &mut self,
        client_statements: &mut ClientStatements,
        at: usize,
        step: &[u8],
        ending: Ending,
    ) -> Vec<u8> {
        let (mut seen, mut taken, mut end) = (Vec::new(), 0, 0);
        let line = &mut self.lines[at];
        while taken < step.len() && !line.is_over() {
            let (mut out, mut here) = (Vec::new(), Vec::new());
            let readable = &step[taken..end];
            let mut copied = Copied::new(readable, &mut out);
            let mut of = Here { client: &mut client_statements.client, cache: &mut self.cache };
            let frames = &mut client_statements.frames;
            let went = line.relay.from_client(&mut of, frames, readable, &mut copied, &mut here);
            line.send(&out);
            let went = match went {
                Ok(went) => went,
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            };
            seen.extend(here);
            taken += went.bytes;
            match went.stop {
                // What is left is a part of a message.
                Stop::More { .. } if end == step.len() && taken < end => break,
                Stop::More { .. } if end == step.len() => {}
                Stop::More { .. } => end += self.portions.next(step.len() - end),
                Stop::Later => {
                    self.later += 1;
                    let client = Some(&mut client_statements.client);
                    line.hear(client, &mut self.cache, &mut self.portions, &mut seen, |_| {});
                    continue;
                }
                stop => panic!("{stop:?}"),
            }
            let settled = taken == step.len() && ending == Ending::Settled;
            while line.relay.turn() == Turn::Server
                && !line.is_over()
                && (settled || self.portions.settles())
            {
                let client = Some(&mut client_statements.client);
                line.hear(client, &mut self.cache, &mut self.portions, &mut seen, |_| {});
            }
        }
        seen
    }

    /// A client goes, and its server is cleaned or closed.
    fn effects(&mut self, client_statements: ClientStatements, at: usize) -> Abandoned {
        let line = &mut self.lines[at];
        let mut out = Vec::new();
        let mut what = line.relay.leave(client_statements.client, &mut self.cache, &mut out);
        line.send(&out);
        let first = what;
        let mut nothing = Vec::new();
        for _ in 0..1000 {
            match what {
                Abandoned::Free => break,
                Abandoned::Waits(_) if !line.torn => {}
                Abandoned::Waits(kept) | Abandoned::Close(kept) => {
                    let line = std::mem::replace(line, Line::in_rotation());
                    line.relay.end(None, &mut self.cache);
                    self.free.push_back(at);
                    return Abandoned::Close(kept);
                }
            }
            line.hear(None, &mut self.cache, &mut self.portions, &mut nothing, |_| {});
            what = match line.relay.kept() {
                None => Abandoned::Free,
                Some(kept @ Kept::Ended(_)) => Abandoned::Close(kept),
                Some(kept) => Abandoned::Waits(kept),
            };
        }
        assert_eq!((what, nothing), (Abandoned::Free, Vec::new()), "left: {first:?}");
        self.free.push_back(at);
        first
    }

    /// What a client has prepared by SQL, which keeps its server for it, goes, as a monitor sees to.
    fn unprepare(&mut self, client_statements: &mut ClientStatements) {
        let at =
            client_statements.at.filter(|&at| self.lines[at].relay.pins().has(Reason::Prepare));
        if at.is_some() && self.sessions == Sessions::Shared {
            self.through(client_statements, &step(&[query("rollback"), query("deallocate all")]));
        }
    }

    /// Nobody is left, so no statement may be in use.
    fn end(&mut self, guests: Vec<ClientStatements>) {
        for mut client_statements in guests {
            match client_statements.at.take() {
                Some(at) => drop(self.effects(client_statements, at)),
                None => self.cache.forget(client_statements.client),
            }
        }
        assert_eq!(self.cache.used(), 0);
    }
}

/// End of a script: all is waited for that the server owes for what was sent, or not.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Settled,
    Open,
}

/// True if all that differs is a failed transaction: what the server lacks cannot be prepared in
/// it, and the client is told of that in the place of whatever else PostgreSQL says of a statement.
fn is_of_failed(found: &[String], expected: &[String]) -> bool {
    let (found, expected) = (batches(found), batches(expected));
    let same = |(found, expected): (&&[String], &&[String])| {
        let status = |batch: &[String]| batch.last().cloned();
        let failed = status(found) == Some("ReadyForQuery E".to_owned());
        found == expected
            || (failed && status(expected) == status(found) && has(found, " 25P02 ") == 1)
    };
    found != expected && found.len() == expected.len() && found.iter().zip(&expected).all(same)
}

fn batches(read: &[String]) -> Vec<&[String]> {
    read.split_inclusive(|one| one.starts_with("ReadyForQuery")).collect()
}

/// Runs steps of clients, by number, through the gate and directly: the same must be read. Returns
/// what that is, with one ReadyForQuery and without the marks. Where no server is free, a client
/// waits until one is.
fn same(gate: &mut Gate, steps: &[(usize, Vec<Vec<u8>>)]) -> Vec<Vec<String>> {
    let clients = steps.iter().map(|&(client, _)| client).max().unwrap() + 1;
    let mut direct: Vec<Wire> = (0..clients).map(|_| Wire::connect()).collect();
    let mut guests: Vec<ClientStatements> = (0..clients).map(|_| ClientStatements::new()).collect();
    let expected: Vec<Vec<String>> = steps
        .iter()
        .map(|(client, messages)| directly(&mut direct[*client], &step(messages)))
        .collect();
    drop(direct);
    let mut all = vec![Vec::new(); steps.len()];
    gate.story.clear();
    let mut left: VecDeque<usize> = (0..steps.len()).collect();
    while !left.is_empty() {
        let can = |&&number: &&usize| guests[steps[number].0].at.is_some() || !gate.free.is_empty();
        let Some(number) = left.iter().find(can).copied() else {
            // Who has a server has nothing more to say.
            let holder =
                guests.iter_mut().find(|client_statements| client_statements.at.is_some()).unwrap();
            gate.through(holder, &step(&[query("rollback")]));
            gate.unprepare(holder);
            continue;
        };
        left.retain(|&one| one != number);
        let ((client, messages), expected) = (&steps[number], &expected[number]);
        let shown: Vec<_> = messages.iter().map(|one| one.escape_ascii().to_string()).collect();
        gate.story.push(format!("step {number} of client {client}: {shown:#?}"));
        let mut found = gate.through(&mut guests[*client], &step(messages));
        if gate.strictness == Strictness::UpToFailed && is_of_failed(&found, expected) {
            gate.unlike += 1;
            break;
        }
        assert_eq!(&found, expected, "step {number} of client {client}");
        found.truncate(found.len() - 5);
        all[number] = found;
    }
    // Open transactions end, so that their servers are free for the next.
    for mut client_statements in guests {
        gate.unprepare(&mut client_statements);
        match client_statements.at {
            Some(at) => drop(gate.effects(client_statements, at)),
            None => gate.cache.forget(client_statements.client),
        }
    }
    assert_eq!(gate.cache.used(), 0, "statements of no client");
    all
}

fn has(read: &[String], text: &str) -> usize {
    read.iter().filter(|one| one.contains(text)).count()
}

fn small() -> Gate {
    Gate::new(2, Bounds::default())
}
