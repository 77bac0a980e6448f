//! `sekisho gate postgres` when clients are killed with signal 9, each process with several connections:
//! in a transaction, in a COPY, in a result that has no end, keeping a server, waiting for one. All
//! slots come back clean, whoever comes next sees nothing of them, and nothing grows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use pgwire::frame::{Backend, Frontend, Tag};
use pgwire::message::write;
use pgwire::startup::{Version, write_startup};
use postgres::{Private, Settings};

use crate::browser::Scratch;
use crate::command::{PATIENCE, Running, start};

const SLOTS: usize = 6;
/// Number of times that clients come and are killed, in either mode.
const ROUNDS: usize = 6;
/// Behind so many the gate has all the memory that it needs for them.
const WARM: usize = 3;
/// Most that the rounds behind may add to its memory, which an allocator may well cut up otherwise
/// \[kB\]: what they have under way in one round is more.
const GROWTH_MAX: u64 = 4 * 1024;

/// A connection, message by message.
struct Line(TcpStream);

impl Line {
    fn open(gate: SocketAddr) -> Line {
        let stream = TcpStream::connect(gate).expect("the gate listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
        Line(stream)
    }

    fn enter(gate: SocketAddr, database: &str) -> Line {
        let mut line = Line::open(gate);
        let mut out = Vec::new();
        let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", database.as_bytes())];
        write_startup(&mut out, Version::V3_0, parameters).expect("it is short");
        line.say(&out);
        line.until(Backend::ReadyForQuery);
        line
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the gate is there");
    }

    fn query(&mut self, text: &str) {
        let mut out = Vec::new();
        write::query(&mut out, text);
        self.say(&out);
    }

    /// Hears messages up to one of this kind, and no further; the columns of each row among them.
    fn until(&mut self, last: Backend) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).expect("the gate answers");
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).expect("a message has its length");
            let tag = Backend::from_byte(head[0]).expect("there is such a message");
            assert_ne!(tag, Backend::ErrorResponse, "{}", body.escape_ascii());
            if tag == Backend::DataRow {
                rows.push(columns(&body[2..]));
            }
            if tag == last {
                return rows;
            }
        }
    }

    fn ask(&mut self, text: &str) -> Vec<Vec<String>> {
        self.query(text);
        self.until(Backend::ReadyForQuery)
    }
}

fn columns(mut rest: &[u8]) -> Vec<String> {
    let mut columns = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        columns.push(String::from_utf8_lossy(&behind[..length]).into_owned());
        rest = &behind[length..];
    }
    columns
}

/// Parse, Bind and Execute of a text, without an end.
fn series(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("\0{text}\0\0\0").as_bytes());
    });
    write::message(&mut out, Frontend::Bind, |out| out.extend_from_slice(&[0; 8]));
    write::message(&mut out, Frontend::Execute, |out| out.extend_from_slice(&[0; 5]));
    out
}

/// A gate, its server, and where either is.
struct Place {
    server: Private,
    gate: Running,
    address: SocketAddr,
    console: Line,
}

impl Place {
    fn new(scratch: &Scratch, mode: &str) -> Place {
        let server = Private::start(&Settings::default()).expect("a server starts");
        let url = server.url();
        let rules = scratch.join("hba.conf");
        std::fs::write(&rules, "host all all all trust\n").expect("there is room");
        let users = scratch.join("users.txt");
        std::fs::write(&users, "\"sekisho\" \"unused\"\n").expect("there is room");
        let (rules, users) = (rules.display().to_string(), users.display().to_string());
        let slots = SLOTS.to_string();
        let words =
            ["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url.as_str(), "--mode", mode];
        let more = ["--slots", &slots, "--admin", "sekisho", "--hba", &rules, "--users", &users];
        let gate = start(&scratch.join(""), &[&words[..], &more].concat());
        let said = gate.says(" for database");
        let (_, rest) = said.split_once("listening on ").expect("it says so");
        let address = rest.split_whitespace().next().expect("it says where");
        let address = address.parse().expect("it is one");
        let console = Line::enter(address, "pgbouncer");
        Place { server, gate, address, console }
    }

    fn enter(&self) -> Line {
        Line::enter(self.address, "postgres")
    }

    /// Waits until the pool has so many clients, of these so many that wait, and so many slots held.
    fn until(&mut self, wanted: [usize; 3]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pools = self.console.ask("show pools");
            let pool = pools.iter().find(|pool| pool[0] == "postgres").expect("it is there");
            let figure = |at: usize| pool[at].parse::<usize>().expect("it is a number");
            let found = [figure(2) + figure(3), figure(3), figure(6)];
            if found == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{wanted:?} clients, waiting and busy: {pool:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Clients in all that they can be in, more than there are slots.
    fn clients(&mut self) -> Vec<Line> {
        let mut lines: Vec<Line> = (0..SLOTS).map(|_| self.enter()).collect();
        let [transaction, copy, keeps, endless, sleeps, open] = &mut lines[..] else {
            unreachable!("there are as many");
        };
        transaction.ask("begin; insert into kept values ('transaction'); set local work_mem = 64");
        transaction.ask("set statement_timeout = '1h'; select pg_advisory_xact_lock(1)");
        copy.query("copy kept from stdin");
        copy.until(Backend::CopyInResponse);
        copy.say(b"d\0\0\0\x09copy\nd\0\0\0\x08half");
        keeps.ask("listen kept; create temp table own (n int); prepare own as select 1");
        keeps.ask("select pg_advisory_lock(2)");
        endless.query("select repeat('endless', 1000) from generate_series(1, 30000)");
        endless.until(Backend::DataRow);
        // What is not over soon is cancelled, but not before half a minute.
        sleeps.query("select pg_sleep(1)");
        open.say(&[&series("insert into kept values ('series')")[..], b"H\0\0\0\x04"].concat());
        open.until(Backend::CommandComplete);
        self.until([SLOTS, 0, SLOTS]);
        lines
    }

    /// Clients that wait for the others: with a query, a whole series and one without an end; and one
    /// that has not even said who it is.
    fn waiting(&mut self) -> Vec<Line> {
        let mut half = Line::open(self.address);
        half.say(b"\0\0\0\x40\0\x03\0\0user\0");
        // What is whole may be done, as PostgreSQL does what it has read.
        let whole = "insert into kept values ('whole')";
        let mut query = Vec::new();
        write::query(&mut query, whole);
        let whole = [&series(whole)[..], b"S\0\0\0\x04"].concat();
        let open = series("insert into kept values ('waited')");
        let mut lines = vec![half];
        for words in [query, whole, open] {
            // In session mode who has said who it is waits already.
            let mut line = Line::open(self.address);
            let mut out = Vec::new();
            let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", b"postgres")];
            write_startup(&mut out, Version::V3_0, parameters).expect("it is short");
            line.say(&[out, words].concat());
            lines.push(line);
        }
        self.until([SLOTS + 3, 3, SLOTS]);
        lines
    }

    /// Whoever comes next, on all slots at once, sees nothing of who was there.
    fn is_clean(&mut self) {
        let mut lines: Vec<Line> = (0..SLOTS).map(|_| self.enter()).collect();
        lines.iter_mut().for_each(|line| drop(line.ask("begin")));
        let seen = "select (select count(*) from kept where n <> 'whole'), to_regclass('own'), \
            current_setting('work_mem'), current_setting('statement_timeout'), \
            (select count(*) from pg_listening_channels()), \
            (select count(*) from pg_prepared_statements where name = 'own'), \
            (select count(*) from pg_locks where locktype = 'advisory')";
        for line in &mut lines {
            let rows = line.ask(seen);
            let own = ["0", "", "4MB", "0", "0", "0", "0"];
            assert_eq!(rows[0], own, "somebody else's");
        }
        lines.iter_mut().for_each(|line| drop(line.ask("commit")));
        drop(lines);
        self.until([0, 0, 0]);
    }

    /// Waits until the server works for nobody who has gone.
    fn is_calm(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let mut line = self.enter();
        loop {
            let found = line.ask(
                "select state, query from pg_stat_activity \
                 where backend_type = 'client backend' and pid <> pg_backend_pid()",
            );
            let idle = found.iter().all(|one| one[0] == "idle");
            if idle && found.len() < SLOTS {
                break;
            }
            assert!(Instant::now() < deadline, "still there: {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(line);
        self.until([0, 0, 0]);
    }

    /// The files that the gate has open, and its memory \[kB\].
    fn size(&self) -> (usize, u64) {
        let folder = format!("/proc/{}", self.gate.pid());
        let files = std::fs::read_dir(format!("{folder}/fd")).expect("it runs").count();
        let status = std::fs::read_to_string(format!("{folder}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        (files, number.expect("there is such a line").parse().expect("it is a number"))
    }
}

/// A process that has these connections, three at most, and nobody else: they end with it, in whatever
/// state the system finds them.
fn process(lines: Vec<Line>) -> Child {
    let mut files = lines.into_iter().map(|line| OwnedFd::from(line.0));
    let mut command = Command::new("sleep");
    command.arg("3600");
    if let Some(file) = files.next() {
        command.stdin(file);
    }
    if let Some(file) = files.next() {
        command.stdout(file);
    }
    if let Some(file) = files.next() {
        command.stderr(file);
    }
    assert!(files.next().is_none(), "a process has three without further ado");
    command.spawn().expect("there is such a program")
}

/// Kills processes that have these connections.
fn kill(mut lines: Vec<Line>) {
    let mut processes = Vec::new();
    while !lines.is_empty() {
        processes.push(process(lines.drain(..lines.len().min(3)).collect()));
    }
    // The connections are open as long as these live.
    std::thread::sleep(Duration::from_millis(50));
    for process in &mut processes {
        assert!(process.try_wait().expect("it is our child").is_none(), "it lives");
    }
    processes.iter_mut().for_each(|process| process.kill().expect("it is our child"));
    for mut process in processes {
        process.wait().expect("it is our child");
    }
}

fn killed(mode: &str) {
    let scratch = Scratch::new();
    let mut place = Place::new(&scratch, mode);
    place.enter().ask("create table kept (n text)");
    place.until([0, 0, 0]);
    let mut sizes = Vec::new();
    let long = std::env::var_os("SEKISHO_LONG").map_or(1, |_| 10);
    for _ in 0..long * ROUNDS {
        let mut lines = place.clients();
        lines.extend(place.waiting());
        kill(lines);
        place.until([0, 0, 0]);
        place.is_clean();
        place.is_calm();
        sizes.push(place.size());
    }
    let most = |of: &[(usize, u64)]| of.iter().map(|size| size.1).max();
    let (warm, late) = (most(&sizes[..WARM]), most(&sizes[WARM..]));
    assert!(late < warm.map(|warm| warm + GROWTH_MAX), "its memory grows: {sizes:?}");
    // One for each server that is there now; the rest is the same.
    let spread = sizes.iter().map(|size| size.0).max().zip(sizes.iter().map(|size| size.0).min());
    assert!(spread.is_some_and(|(most, least)| most - least <= SLOTS), "files: {sizes:?}");
    drop(place.console);
    place.gate.signal("TERM");
    let ended = place.gate.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    place.server.stop().expect("it stops");
}

#[test]
fn clients_that_are_killed_in_transaction_mode_leave_nothing() {
    killed("transaction");
}

#[test]
fn clients_that_are_killed_in_session_mode_leave_nothing() {
    killed("session");
}
