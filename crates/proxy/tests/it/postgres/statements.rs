//! Prepared statements of several clients on a few servers: scripts, by hand and by chance, through
//! the rewriting and over a connection of each client's own, to a private PostgreSQL. What the
//! clients read must be the same. `SEKISHO_SEED` replays a run.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use postgres::{Private, Settings};
use proxy::postgres::auth::{Credential, Login, LoginStep, Terms};
use proxy::postgres::frame::{Backend, Frames, Frontend, HEAD, Limits, Piece, Tag};
use proxy::postgres::message::{read, write};
use proxy::postgres::startup::{Version, write_startup};
use proxy::postgres::statements::{
    Bounds, Catalogue, Client, Forward, Message, Pin, Server, Treatment,
};

use super::CLIENT_NONCE;
use crate::fuzz::Chance;

/// The server of all tests here; it ends with this process.
fn server() -> &'static Private {
    static SERVER: OnceLock<Private> = OnceLock::new();
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
        let url = server().url();
        let password = url.as_str().split("://sekisho:").nth(1).unwrap().split('@').next().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", server().port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let limits = Limits { whole_max: 65_536, ..Limits::SESSION };
        let mut wire = Wire { stream, buffer: VecDeque::new(), frames: Frames::new(limits) };
        let mut out = Vec::new();
        let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", b"postgres")];
        write_startup(&mut out, Version::V3_0, parameters).unwrap();
        let credential = Credential::Password(password.as_bytes().to_vec());
        let mut login = Some(Login::new(b"sekisho", credential, Terms::default(), CLIENT_NONCE));
        loop {
            wire.send(&std::mem::take(&mut out));
            let message = wire.next();
            match Backend::from_byte(message[0]).unwrap() {
                Backend::Authentication => {
                    let asked = read::authentication(&message[HEAD..]).unwrap();
                    login = match login.take().unwrap().answer(&asked, &mut out).unwrap() {
                        LoginStep::Waits(waits) => Some(waits),
                        LoginStep::In => None,
                    };
                }
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

/// A type that no script uses but the mark at the end of each of its steps.
const MARK: u32 = 3614;

fn parse(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("{name}\0{text}\0").as_bytes());
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.iter().for_each(|of| out.extend_from_slice(&of.to_be_bytes()));
    });
    out
}

fn bind(portal: &str, name: &str, values: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Bind, |out| {
        out.extend_from_slice(format!("{portal}\0{name}\0\0\0").as_bytes());
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(&[0; 2]);
    });
    out
}

fn named(tag: Frontend, kind: &str, name: &str, more: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, tag, |out| {
        out.extend_from_slice(format!("{kind}{name}\0").as_bytes());
        out.extend_from_slice(more);
    });
    out
}

fn describe(name: &str) -> Vec<u8> {
    named(Frontend::Describe, "S", name, &[])
}

fn close(name: &str) -> Vec<u8> {
    named(Frontend::Close, "S", name, &[])
}

fn execute(portal: &str) -> Vec<u8> {
    named(Frontend::Execute, "", portal, &[0; 4])
}

fn query(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::query(&mut out, text);
    out
}

fn sync() -> Vec<u8> {
    b"S\0\0\0\x04".to_vec()
}

/// Parse, Bind, Execute.
fn runs(name: &str, text: &str) -> Vec<u8> {
    [parse(name, text, &[]), bind("", name, &[]), execute("")].concat()
}

/// Bind, Execute, Sync.
fn again(name: &str) -> Vec<u8> {
    [bind("", name, &[]), execute(""), sync()].concat()
}

/// What a client sends in one go: some messages and the mark.
fn step(messages: &[Vec<u8>]) -> Vec<u8> {
    let mark = "sekisho_test_mark";
    let mut step = messages.concat();
    step.extend(sync());
    step.extend(parse(mark, "", &[MARK]));
    step.extend(describe(mark));
    step.extend(close(mark));
    step.extend(sync());
    step
}

/// A message of a server as a client tells it from another one.
fn told(message: &[u8]) -> String {
    let (tag, body) = (Backend::from_byte(message[0]).unwrap(), &message[HEAD..]);
    match tag {
        Backend::ErrorResponse => {
            let fields = read::fields(body).unwrap();
            let [severity, code, text] =
                [b'V', b'C', b'M'].map(|kind| String::from_utf8_lossy(fields.field(kind).unwrap()));
            format!("{severity} {code} {text}")
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

fn is_mark(message: &[u8]) -> bool {
    message[0] == b't' && message[HEAD..] == [&[0, 1], &MARK.to_be_bytes()[..]].concat()
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

/// Several servers, in rotation.
struct Gate {
    catalogue: Catalogue,
    servers: Vec<(Server, Wire)>,
    free: VecDeque<usize>,
    /// How many times a message had to wait, and all messages.
    later: usize,
    all: usize,
    pin: Option<Pin>,
    strictness: Strictness,
    /// How many scripts were left for what a failed transaction cannot do.
    unlike: usize,
}

#[derive(PartialEq)]
enum Strictness {
    Full,
    UpToFailed,
}

/// A client, and the server that its transaction has.
struct Guest {
    client: Client,
    at: Option<usize>,
}

impl Guest {
    fn new() -> Guest {
        Guest { client: Client::new(0), at: None }
    }
}

impl Gate {
    fn new(servers: usize, bounds: Bounds) -> Gate {
        Gate {
            catalogue: Catalogue::new([7; 8], bounds),
            servers: (0..servers).map(|_| (Server::new(), Wire::connect())).collect(),
            free: (0..servers).collect(),
            later: 0,
            all: 0,
            pin: None,
            strictness: Strictness::Full,
            unlike: 0,
        }
    }

    /// Sends a step of a client to a server; what the client reads.
    fn through(&mut self, guest: &mut Guest, step: &[u8]) -> Vec<String> {
        let at = guest.at.take().unwrap_or_else(|| self.free.pop_front().unwrap());
        let (mut seen, mut out) = (Vec::new(), Vec::new());
        let mut rest = step;
        let mut frames = Frames::<Frontend>::new(Limits { whole_max: 1 << 20, ..Limits::SESSION });
        while !rest.is_empty() {
            let piece = frames.look(rest).unwrap();
            let Piece::Whole { tag, len } = piece else { panic!("{piece:?}") };
            let (server, wire) = &mut self.servers[at];
            let message = Message { tag, len, here: &rest[..len] };
            let asked =
                server.ask(&mut guest.client, &mut self.catalogue, message, &mut out, &mut seen);
            self.pin = self.pin.or(asked.pin);
            self.all += 1;
            match asked.forward {
                Forward::AsItIs => out.extend_from_slice(&rest[..len]),
                Forward::Behind { bytes } => out.extend_from_slice(&rest[bytes..len]),
                Forward::Nothing => {}
                Forward::Later => {
                    wire.send(&std::mem::take(&mut out));
                    self.later += 1;
                    self.reply(guest, at, &mut seen);
                    continue;
                }
                Forward::Whole => panic!("it is whole"),
            }
            if tag == Frontend::Flush {
                // What was asked so far is answered before the next is looked at.
                self.servers[at].1.send(&std::mem::take(&mut out));
                while self.servers[at].0.owes() > 0 {
                    self.reply(guest, at, &mut seen);
                }
            }
            rest = &rest[frames.take(piece)..];
        }
        self.servers[at].1.send(&out);
        while !self.servers[at].0.is_settled() {
            self.reply(guest, at, &mut seen);
        }
        let (mut read, mut status, mut rest) = (Vec::new(), 0, &seen[..]);
        while !rest.is_empty() {
            let len = 1 + u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
            read.push(told(&rest[..len]));
            status = rest[len - 1];
            rest = &rest[len..];
        }
        match status {
            b'I' => self.free.push_back(at),
            _ => guest.at = Some(at),
        }
        read
    }

    fn reply(&mut self, guest: &mut Guest, at: usize, seen: &mut Vec<u8>) {
        let (server, wire) = &mut self.servers[at];
        let message = wire.next();
        let tag = Backend::from_byte(message[0]).unwrap();
        let mut more = Vec::new();
        let treated =
            server.reply(&mut guest.client, &mut self.catalogue, tag, &message, &mut more).unwrap();
        if treated == Treatment::Pass {
            seen.extend(message);
        }
        seen.extend(more);
    }

    /// Nobody is left, so no statement may be in use.
    fn end(mut self, guests: Vec<Guest>) {
        for mut guest in guests {
            if let Some(at) = guest.at.take() {
                let (server, wire) = self.servers.swap_remove(at);
                server.lost(&mut guest.client, &mut self.catalogue);
                drop(wire);
                // The others keep their places in this test.
                self.servers.push((Server::new(), Wire::connect()));
                let last = self.servers.len() - 1;
                self.servers.swap(at, last);
            }
            self.catalogue.forget(guest.client);
        }
        assert_eq!(self.catalogue.used(), 0);
    }
}

/// Whether all that differs is a failed transaction: what the server lacks cannot be prepared in it,
/// and the client is told of that in the place of whatever else PostgreSQL says of a statement.
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
/// what that is, with one ReadyForQuery and without the marks.
fn same(gate: &mut Gate, steps: &[(usize, Vec<Vec<u8>>)]) -> Vec<Vec<String>> {
    let clients = steps.iter().map(|&(client, _)| client).max().unwrap() + 1;
    let mut direct: Vec<Wire> = (0..clients).map(|_| Wire::connect()).collect();
    let mut guests: Vec<Guest> = (0..clients).map(|_| Guest::new()).collect();
    let expected: Vec<Vec<String>> = steps
        .iter()
        .map(|(client, messages)| directly(&mut direct[*client], &step(messages)))
        .collect();
    drop(direct);
    let mut all = Vec::new();
    for (number, ((client, messages), expected)) in steps.iter().zip(expected).enumerate() {
        let mut found = gate.through(&mut guests[*client], &step(messages));
        let shown: Vec<_> = messages.iter().map(|one| one.escape_ascii().to_string()).collect();
        if gate.strictness == Strictness::UpToFailed && is_of_failed(&found, &expected) {
            gate.unlike += 1;
            break;
        }
        assert_eq!(found, expected, "step {number} of client {client}: {shown:#?}");
        found.truncate(found.len() - 5);
        all.push(found);
    }
    // Open transactions end, so that their servers are free for the next.
    for guest in &mut guests {
        if guest.at.is_some() {
            gate.through(guest, &step(&[query("rollback")]));
        }
        let client = std::mem::replace(&mut guest.client, Client::new(0));
        gate.catalogue.forget(client);
    }
    assert_eq!(gate.catalogue.used(), 0, "statements of no client");
    all
}

fn has(read: &[String], text: &str) -> usize {
    read.iter().filter(|one| one.contains(text)).count()
}

fn small() -> Gate {
    Gate::new(2, Bounds::default())
}

#[test]
fn clients_share_statements_under_names_of_their_own() {
    let mut gate = small();
    let read = same(
        &mut gate,
        &[
            (0, vec![runs("a", "select 1")]),
            (1, vec![runs("a", "select 2")]),
            (0, vec![again("a")]),
            (1, vec![again("a")]),
            (0, vec![parse("b", "select 2", &[]), again("b")]),
            (1, vec![parse("", "select 3", &[])]),
            (0, vec![again("a")]),
            // Its server has changed between Parse and Bind.
            (1, vec![again("")]),
        ],
    );
    assert_eq!(has(&read[7], "DataRow"), 1);
    // Two texts, one mark, and the unnamed one.
    assert_eq!(gate.catalogue.len(), 4);
}

#[test]
fn trap_2_a_parse_that_fails_registers_no_name() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("a", "selec", &[])]),
            (0, vec![again("a")]),
            (0, vec![runs("a", "select 1")]),
            // The unnamed one goes before its Parse is looked at.
            (
                0,
                vec![
                    parse("", "select 1", &[]),
                    sync(),
                    parse("", "selec", &[]),
                    sync(),
                    again(""),
                ],
            ),
            (0, vec![again("")]),
        ],
    );
    assert_eq!(has(&read[0], "42601"), 1);
    assert_eq!(has(&read[1], "26000 prepared statement \"a\" does not exist"), 1);
    assert_eq!(has(&read[3], "26000 unnamed prepared statement"), 1);
}

#[test]
fn trap_3_an_unknown_statement_fails_as_in_postgresql() {
    let long = "n".repeat(100);
    let read = same(
        &mut small(),
        &[
            (0, vec![bind("", "no", &[]), execute(""), parse("b", "select 1", &[])]),
            (0, vec![query("begin"), describe(&long), sync(), query("select 1")]),
            (
                0,
                vec![query("rollback"), describe("sekisho.0707070707070707.1"), sync(), again("b")],
            ),
            // Names are the same if their first 63 bytes are.
            (0, vec![parse(&long, "select 1", &[]), again(&long[..70]), again(&long[..62])]),
        ],
    );
    assert_eq!(has(&read[0], "26000"), 1);
    assert_eq!(has(&read[1], "25P02"), 1);
    assert_eq!(has(&read[2], "26000"), 2);
}

#[test]
fn an_error_that_names_a_statement_has_the_clients_name() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("a", "select $1::int", &[]), parse("b", "select $1::int", &[])]),
            (0, vec![again("b"), again("a"), parse("", "select $1::int", &[]), again("")]),
        ],
    );
    for name in ["\"a\"", "\"b\"", "\"\""] {
        let text = format!("0 parameters, but prepared statement {name} requires 1");
        assert_eq!(has(&read[1], &text), 1, "{name}");
    }
}

#[test]
fn trap_4_deallocate_and_discard_all_drop_the_clients_own_names() {
    let mut gate = small();
    let both = parse("a", "select 1", &[]);
    let read = same(
        &mut gate,
        &[
            (0, vec![both.clone()]),
            (1, vec![both.clone(), parse("", "select 9", &[])]),
            (0, vec![query("DEALLOCATE \"a\"; deallocate prepare A; select 7")]),
            (0, vec![again("a")]),
            (1, vec![again("a")]),
            (0, vec![both.clone(), runs("", "deallocate a"), again("a")]),
            (0, vec![both.clone(), query("deallocate all"), both.clone(), again("a")]),
            (0, vec![runs("d", "deallocate all"), again("a"), again("d")]),
            (0, vec![runs("", "deallocate nobody")]),
            (0, vec![query("begin; select 1/0"), query("deallocate all"), query("rollback")]),
            (1, vec![query("discard all"), again("a")]),
            (1, vec![both.clone(), sync(), runs("", "discard all"), sync(), again("a"), again("")]),
            (0, vec![both.clone(), query("discard all; select 1"), again("a")]),
        ],
    );
    assert_eq!(has(&read[2], "26000 prepared statement \"a\" does not exist"), 1);
    assert_eq!(has(&read[4], "DataRow"), 1);
    assert_eq!(has(&read[6], "DEALLOCATE ALL"), 1);
    assert_eq!(has(&read[7], "DEALLOCATE ALL"), 1);
    assert_eq!(has(&read[10], "DISCARD ALL"), 1);
}

#[test]
fn trap_5_close_of_what_is_not_there_succeeds_in_its_turn() {
    let read = same(
        &mut small(),
        &[
            (0, vec![close("x"), parse("a", "select 1", &[]), close("a"), close("a"), again("a")]),
            (0, vec![runs("a", "select 1"), named(Frontend::Close, "P", "p", &[]), close("a")]),
        ],
    );
    assert_eq!(has(&read[0], "CloseComplete"), 3);
}

#[test]
fn a_second_parse_of_a_name_is_a_duplicate() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("a", "select 1", &[]), parse("a", "select 1", &[]), close("a")]),
            (0, vec![parse("a", "selec", &[]), sync(), parse("a", "", &[]), sync(), again("a")]),
            (0, vec![query("begin; select 1/0"), parse("a", "select 1", &[]), sync(), again("a")]),
        ],
    );
    assert_eq!(has(&read[0], "42P05 prepared statement \"a\" already exists"), 1);
    assert_eq!((has(&read[1], "42P05"), has(&read[1], "42601")), (1, 1));
    assert_eq!(has(&read[2], "25P02"), 2);
}

#[test]
fn trap_6_a_query_drops_the_unnamed_statement() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("", "select 1", &[]), parse("a", "select 2", &[])]),
            (0, vec![again("")]),
            (0, vec![parse("", "select 1", &[]), query(""), again(""), again("a")]),
        ],
    );
    assert_eq!((has(&read[2], "26000"), has(&read[2], "DataRow")), (1, 1));
}

#[test]
fn trap_7_what_follows_an_error_is_not_registered_and_what_was_before_is() {
    let read = same(
        &mut small(),
        &[
            (
                0,
                vec![
                    parse("a", "select 1", &[]),
                    runs("", "select 1/0"),
                    parse("b", "select 2", &[]),
                ],
            ),
            (0, vec![again("a"), again("b")]),
            (0, vec![runs("", "select 1/0"), close("a"), query("select 3"), sync(), again("a")]),
            (
                0,
                vec![
                    query("begin"),
                    parse("c", "select 3", &[]),
                    sync(),
                    query("rollback"),
                    again("c"),
                ],
            ),
        ],
    );
    assert_eq!((has(&read[1], "DataRow"), has(&read[1], "26000")), (1, 1));
    assert_eq!((has(&read[2], "DataRow"), has(&read[3], "DataRow")), (1, 1));
}

#[test]
fn trap_1_sync_within_copy_is_no_end() {
    let mut rows = Vec::new();
    write::message(&mut rows, Frontend::CopyData, |out| out.extend_from_slice(b"5\n"));
    write::bare(&mut rows, Frontend::CopyDone);
    let read = same(
        &mut small(),
        &[
            (0, vec![query("drop table if exists t1; create table t1 (a int)")]),
            (
                0,
                vec![
                    runs("c", "copy t1 from stdin"),
                    sync(),
                    rows.clone(),
                    parse("a", "table t1", &[]),
                ],
            ),
            (0, vec![again("a"), query("copy t1 from stdin"), rows, again("a")]),
        ],
    );
    assert_eq!(has(&read[2], "DataRow"), 3);
}

#[test]
fn trap_17_a_changed_result_type_is_prepared_again() {
    let mut gate = Gate::new(1, Bounds::default());
    let table = |sql: &str| query(&format!("drop table if exists t2; create table t2 {sql}"));
    let read = same(
        &mut gate,
        &[
            (0, vec![table("(a int)"), parse("a", "table t2", &[]), again("a")]),
            (0, vec![query("alter table t2 add b int"), again("a")]),
            (1, vec![runs("x", "table t2")]),
        ],
    );
    assert_eq!(has(&read[1], "0A000"), 1);
    assert_eq!(has(&read[2], "BindComplete"), 1);
    let mut guest = Guest::new();
    for round in 0..3 {
        let change = query(&format!("alter table t2 add c{round} int"));
        gate.through(&mut guest, &step(&[parse(&round.to_string(), "table t2", &[])]));
        gate.through(&mut guest, &step(&[change]));
        let first = gate.through(&mut guest, &step(&[again("0")]));
        let second = gate.through(&mut guest, &step(&[again("0")]));
        let third = gate.through(&mut guest, &step(&[again("0")]));
        assert!(has(&first, "0A000") + has(&second, "0A000") >= 1, "{first:?} {second:?}");
        assert_eq!(has(&third, "0A000"), 0);
    }
    gate.end(vec![guest]);
}

#[test]
fn sql_prepare_is_a_reason_to_keep_the_server() {
    let mut gate = Gate::new(1, Bounds::default());
    let steps = [(
        0,
        vec![query("prepare s as select 1"), query("execute s"), again("s"), query("deallocate s")],
    )];
    assert_eq!(has(&same(&mut gate, &steps)[0], "DataRow"), 2);
    assert_eq!(gate.pin, Some(Pin::Prepare));
}

#[test]
fn bounds_are_kept_and_fail_the_transaction() {
    let bounds = Bounds {
        client_max: 3,
        server_max: 4,
        statement_max: 500,
        entries_max: 6,
        ..Bounds::default()
    };
    let mut gate = Gate::new(2, bounds);
    let (mut guest, mut other) = (Guest::new(), Guest::new());
    for name in ["a", "b", "c"] {
        // The mark has a name, too.
        let read = gate.through(
            &mut guest,
            &step(&[
                query("begin"),
                parse(name, &format!("select '{name}'"), &[]),
                sync(),
                query("rollback"),
            ]),
        );
        assert_eq!(has(&read, "ERROR"), usize::from(name == "c"), "{read:?}");
    }
    let read = gate.through(
        &mut guest,
        &step(&[
            query("begin"),
            parse("d", "select 4", &[]),
            sync(),
            query("select 1"),
            query("rollback"),
            close("a"),
        ]),
    );
    assert_eq!((has(&read, "53400"), has(&read, "25P02")), (1, 1));
    let read = gate.through(&mut guest, &step(&[parse("", &"x".repeat(600), &[]), sync()]));
    assert_eq!(has(&read, "54000"), 1);
    for number in 0..20 {
        let read = gate.through(&mut other, &step(&[runs("", &format!("select {number}"))]));
        assert_eq!(has(&read, "DataRow"), 1);
        assert!(gate.servers.iter().all(|(server, _)| server.prepared() <= 4));
        assert!(gate.catalogue.len() <= 6);
    }
    gate.end(vec![guest, other]);
}

const TEXTS: [&str; 16] = [
    "select 1",
    "select 2, 'two'",
    "select 3",
    "",
    "selec",
    "select 1/0",
    "table nowhere",
    "begin",
    "commit",
    "rollback",
    "deallocate a",
    "deallocate all",
    "discard all",
    "deallocate b; select 1",
    "select 5; deallocate prepare \"a\"; deallocate A",
    "set local work_mem = '1MB'",
];
const NAMES: [&str; 4] = ["", "a", "b", "c"];

/// Some messages of chance.
fn messages(chance: &mut Chance) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for _ in 0..1 + chance.below(7) {
        let (name, text) = (NAMES[chance.below(4)], TEXTS[chance.below(TEXTS.len())]);
        let easy = TEXTS[chance.below(4)];
        match chance.below(16) {
            0 => messages.push(parse(name, text, &[])),
            1 | 2 => messages.push(parse(name, easy, &[])),
            3 => messages.push(runs(name, text)),
            4 | 5 => messages.push([close(name), runs(name, easy)].concat()),
            6 | 7 => messages.push([bind("", name, &[]), execute("")].concat()),
            8 => messages.push(describe(name)),
            9 => messages.push(close(name)),
            10 => messages.push(query(text)),
            11 => messages.push(again(name)),
            12 => messages.push(
                [parse(name, "select $1::int", &[23]), bind("p", name, &["5"]), execute("p")]
                    .concat(),
            ),
            13 => messages.push(b"H\0\0\0\x04".to_vec()),
            _ => messages.push(sync()),
        }
    }
    messages
}

#[test]
fn scripts_of_chance_read_what_they_read_on_connections_of_their_own() {
    let mut chance = Chance::new(20_261_122);
    let mut gate = Gate::new(3, Bounds { server_max: 3, replies_max: 12, ..Bounds::default() });
    gate.strictness = Strictness::UpToFailed;
    for _ in 0..200 {
        let steps: Vec<_> = (0..9).map(|_| (chance.below(3), messages(&mut chance))).collect();
        same(&mut gate, &steps);
        assert_eq!(gate.free.len(), 3);
    }
    println!("{} of {} messages had to wait", gate.later, gate.all);
    println!("{} scripts ended in a failed transaction that had to be left", gate.unlike);
    assert!(gate.later > 0 && gate.unlike < 10);
}

#[test]
fn garbage_neither_panics_nor_grows() {
    let mut chance = Chance::new(31);
    const CLIENT: &[u8] = b"BCcfDEHFPQSd";
    const SERVER: &[u8] = b"123CDEGHITVZnstKRN";
    for _ in 0..300 {
        let bounds = Bounds {
            client_max: 5,
            entries_max: 20,
            server_max: 3,
            replies_max: 20,
            ..Bounds::default()
        };
        let mut catalogue = Catalogue::new([1; 8], bounds);
        let (mut server, mut client) = (Server::new(), Client::new(0));
        for _ in 0..400 {
            let (mut out, mut seen) = (Vec::new(), Vec::new());
            let mut body: Vec<u8> =
                (0..chance.below(12)).map(|_| b"\0\0\0\0aSPsIT;d\xff"[chance.below(13)]).collect();
            if chance.below(2) == 0 {
                let tag = Frontend::from_byte(CLIENT[chance.below(CLIENT.len())]).unwrap();
                let mut here = vec![tag.byte(), 0, 0, 0, 0];
                here.append(&mut body);
                if chance.below(3) == 0 {
                    here = messages(&mut chance)[0].clone();
                    here.truncate(1 + u32::from_be_bytes(here[1..5].try_into().unwrap()) as usize);
                }
                let tag = Frontend::from_byte(here[0]).unwrap();
                let message = Message { tag, len: here.len(), here: &here };
                let _ = server.ask(&mut client, &mut catalogue, message, &mut out, &mut seen);
            } else {
                let tag = Backend::from_byte(SERVER[chance.below(SERVER.len())]).unwrap();
                let mut message = vec![tag.byte(), 0, 0, 0, 0];
                message.append(&mut body);
                let _ = server.reply(&mut client, &mut catalogue, tag, &message, &mut seen);
            }
            assert!(client.names() <= 5 && catalogue.len() <= 20 && server.prepared() <= 23);
        }
        server.lost(&mut client, &mut catalogue);
        catalogue.forget(client);
        assert_eq!(catalogue.used(), 0);
    }
}

#[test]
fn what_the_gate_has_parsed_to_be_checked_is_nobodys_statement() {
    // A Close of it that an error let the server skip once left it to the next client.
    let mut gate = Gate::new(1, Bounds::default());
    let read = same(
        &mut gate,
        &[
            (
                0,
                vec![
                    runs("a", "select 1"),
                    query("begin"),
                    parse("", "select 1", &[]),
                    sync(),
                    query("commit"),
                ],
            ),
            (1, vec![execute("no"), bind("", "", &[]), sync(), again("")]),
        ],
    );
    assert_eq!((has(&read[1], "34000"), has(&read[1], "26000")), (1, 1));
}

#[test]
fn of_a_large_bind_only_the_head_is_written_and_a_large_parse_is_waited_for() {
    let mut catalogue = Catalogue::new([1; 8], Bounds::default());
    let (mut server, mut client) = (Server::new(), Client::new(0));
    let mut ask = |message: &[u8], here: usize| {
        let tag = Frontend::from_byte(message[0]).unwrap();
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        let message = Message { tag, len: message.len(), here: &message[..here] };
        let asked = server.ask(&mut client, &mut catalogue, message, &mut out, &mut seen);
        assert!(seen.is_empty());
        (asked.forward, out)
    };
    let large = parse("a", &format!("select $1::text --{}", "x".repeat(9000)), &[]);
    assert_eq!(ask(&large, 8192), (Forward::Whole, Vec::new()));
    let (forward, out) = ask(&large, large.len());
    assert_eq!(forward, Forward::Nothing);
    let name = b"Psekisho.0101010101010101.1\0";
    assert_eq!([&out[..1], &out[HEAD..HEAD + name.len() - 1]].concat(), name);
    let value = "v".repeat(3 << 20);
    let bytes = bind("p", "a", &[&value]);
    let (forward, mut out) = ask(&bytes, 8192);
    assert_eq!(forward, Forward::Behind { bytes: HEAD + 4 });
    assert!(out.len() < 50);
    out.extend_from_slice(&bytes[HEAD + 4..]);
    assert_eq!(out, bind("p", "sekisho.0101010101010101.1", &[&value]));
    // A second one takes nothing but its head, too, and the server has the statement.
    assert_eq!(ask(&bytes, 8192).1.len(), HEAD + 2 + name.len() - 1);
}

#[test]
fn a_parse_is_not_answered_for_a_transaction_that_may_have_failed() {
    let begun = [query("begin; select 1/0"), query("rollback")];
    let [begin, rollback] = begun;
    let read = same(
        &mut Gate::new(1, Bounds::default()),
        &[
            (0, vec![runs("a", "select 1")]),
            (0, vec![begin.clone(), parse("b", "select 1", &[]), sync(), rollback.clone()]),
            (0, vec![begin]),
            (0, vec![parse("c", "select 1", &[]), sync(), rollback, again("b"), again("c")]),
        ],
    );
    assert_eq!((has(&read[1], "25P02"), has(&read[3], "25P02")), (1, 1));
    assert_eq!(has(&read[3], "26000"), 2);
}

#[test]
fn what_an_earlier_batch_prepares_is_waited_for() {
    let fails = parse("", "table nowhere", &[]);
    let read = same(
        &mut Gate::new(1, Bounds::default()),
        &[(0, vec![fails.clone(), sync(), fails.clone(), sync(), fails, again("")])],
    );
    assert_eq!(has(&read[0], "42P01"), 3);
}
