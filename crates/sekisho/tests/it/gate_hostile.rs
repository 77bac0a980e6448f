//! `sekisho gate postgres` among hostile clients by the hundred: it neither grows without bound nor
//! falls, and whoever means well is served all the while.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use postgres::{Private, Settings};

use crate::browser::Scratch;
use crate::command::{PATIENCE, Running, start};
use crate::tpcc::ask;

/// Number of clients of each kind at the same time.
const OF_EACH: usize = 20;
/// Number of times that somebody tries a password that is wrong.
const GUESSES: usize = 1000;
/// Most by which all of them may make the gate's memory grow \[kB\]: 200 kB for each that is
/// connected, where one alone claims a gigabyte. Most of it is what the system's allocator keeps
/// back.
const GROWTH_MAX: u64 = 32 * 1024;

/// Behaviour of a hostile client.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A first packet of two gigabytes, then of none, then one that is cut off.
    Oversized,
    /// Garbage in place of a first packet.
    Garbage,
    /// A first packet of which a byte comes now and then.
    Slow,
    /// Asks for encryption again and again.
    Encryption,
    /// Proves nothing, by messages of every kind in place of a password.
    Unproven,
    /// Parameters without an end, or thousands.
    Parameters,
    /// Cancels what nobody asked for.
    Cancels,
    /// Connects and is silent.
    Silent,
}

const KINDS: [Kind; 8] = [
    Kind::Oversized,
    Kind::Garbage,
    Kind::Slow,
    Kind::Encryption,
    Kind::Unproven,
    Kind::Parameters,
    Kind::Cancels,
    Kind::Silent,
];

/// Says this, and hears what comes within a moment; either may be cut short.
fn say(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut heard = vec![0; 4096];
    let _ = stream.write_all(bytes);
    let read = stream.read(&mut heard).unwrap_or(0);
    heard.truncate(read);
    heard
}

/// The first packet of a user of that name, with more behind it.
fn startup(user: &str, more: &[u8]) -> Vec<u8> {
    let body = [b"\0\x03\0\0user\0", user.as_bytes(), b"\0database\0postgres\0", more, b"\0"];
    let body = body.concat();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

fn connect(gate: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(gate).expect("the gate listens");
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("it is open");
    stream
}

/// Does what its kind does, until all is over.
fn is_hostile(gate: SocketAddr, kind: Kind, number: usize, over: &AtomicBool) {
    let mut turn = number;
    while !over.load(Ordering::Relaxed) {
        let mut stream = connect(gate);
        // They are many, but leave the machine, and its ports, to others as well.
        std::thread::sleep(Duration::from_millis(250));
        turn += 1;
        match kind {
            Kind::Oversized => {
                let heads =
                    [&b"\x7f\xff\xff\xff\0\x03\0\0"[..], b"\0\0\0\0", b"\0\0\x20\0\0\x03\0\0user"];
                say(&mut stream, heads[turn % heads.len()]);
            }
            Kind::Garbage => {
                let garbage: Vec<u8> = (0..3000).map(|at| (at * 31 + turn * 7) as u8).collect();
                say(&mut stream, &garbage);
            }
            Kind::Slow => {
                for byte in startup("sekisho", b"") {
                    if over.load(Ordering::Relaxed) || stream.write_all(&[byte]).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(40));
                }
            }
            Kind::Encryption => {
                for _ in 0..50 {
                    say(&mut stream, b"\0\0\0\x08\x04\xd2\x16\x2f");
                }
            }
            Kind::Unproven => unproven(&mut stream, turn),
            Kind::Parameters => {
                let many = b"application_name\0x\0".repeat([300, 500, 2000][turn % 3]);
                say(&mut stream, &startup("sekisho", &many));
            }
            Kind::Cancels => {
                let request = [b"\0\0\0\x10\x04\xd2\x16\x2e", &(turn as u64).to_be_bytes()[..]];
                say(&mut stream, &request.concat());
            }
            Kind::Silent => {
                say(&mut stream, b"");
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    }
}

/// Is asked for a proof, and gives something else.
fn unproven(stream: &mut TcpStream, turn: usize) {
    say(stream, &startup("guessed", b""));
    let words: [&[u8]; 7] = [
        b"Q\0\0\0\x0dselect 1\0",
        b"p\x3f\xff\xff\xff",
        b"p\0\0\0\x04",
        b"X\0\0\0\x04",
        b"S\0\0\0\x04S\0\0\0\x04",
        b"p\0\0\0\x32SCRAM-SHA-256\0\0\0\0\x1cn,,n=,r=rOprNGfwEbeRWgbNEkqO",
        &[0xff; 2000],
    ];
    say(stream, words[turn % words.len()]);
}

/// Tries a proof that is none; whether it is refused as PostgreSQL does.
fn is_refused(gate: SocketAddr) -> bool {
    let mut stream = connect(gate);
    stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
    say(&mut stream, &startup("guessed", b""));
    let first = b"p\0\0\0\x38SCRAM-SHA-256\0\0\0\0\x22n,,n=,r=rOprNGfwEbeRWgbNEkqO+guess";
    let heard = say(&mut stream, first);
    let challenge = String::from_utf8_lossy(&heard);
    let Some((_, rest)) = challenge.split_once("r=") else { return false };
    let nonce = rest.split(',').next().unwrap_or_default();
    let proof = format!("c=biws,r={nonce},p={}=", "A".repeat(43));
    let length = (proof.len() as u32 + 4).to_be_bytes();
    let heard = say(&mut stream, &[b"p", &length[..], proof.as_bytes()].concat());
    heard.starts_with(b"E") && heard.windows(7).any(|part| part == b"C28P01\0")
}

/// Gets in, and then does not keep to the protocol.
fn is_hostile_inside(gate: SocketAddr, turn: usize) {
    let mut stream = connect(gate);
    stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
    let heard = say(&mut stream, &startup("sekisho", b""));
    assert!(heard.starts_with(b"R\0\0\0\x08\0\0\0\0"), "it is let in: {}", heard.escape_ascii());
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("it is open");
    let large = [b"Q\x3f\xff\xff\xff", &b"x".repeat(4 << 20)[..]].concat();
    let words: [&[u8]; 9] = [
        b"d\0\0\0\x08rows",
        b"B\0\0\0\x0e\0\0\xff\xff\0\0\0\0\0\0",
        b"E\0\0\0\x09\0\0\0\0\0",
        b"P\0\0\0\x0aname\0\0",
        b"p\0\0\0\x08late",
        b"Q\xff\xff\xff\xff",
        b"Q\0\0\0\x02",
        b"?\0\0\0\x04",
        &large,
    ];
    for _ in 0..3 {
        say(&mut stream, words[turn % words.len()]);
    }
}

/// The most memory that it had so far \[kB\].
fn memory(gate: &Running) -> u64 {
    let path = format!("/proc/{}/status", gate.pid());
    let status = std::fs::read_to_string(path).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number =
        line.and_then(|line| line.split_whitespace().next()).expect("there is such a line");
    number.parse().expect("it is a number")
}

#[test]
fn hostile_clients_by_the_hundred_hurt_nobody_else() {
    let server = Private::start(&Settings::default()).expect("a server starts");
    let scratch = Scratch::new();
    let url = server.url();
    let rules = scratch.join("hba.conf");
    std::fs::write(&rules, "host all guessed all scram-sha-256\nhost all all all trust\n").unwrap();
    let users = scratch.join("users.txt");
    let (_, secret) = url.as_str().split_once("sekisho:").expect("it has a user");
    let (password, _) = secret.split_once('@').expect("it has a password");
    std::fs::write(&users, format!("\"sekisho\" \"{password}\"\n\"guessed\" \"sesame\"\n"))
        .unwrap();
    let (rules, users) = (rules.display().to_string(), users.display().to_string());
    let words =
        ["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url.as_str(), "--slots", "3"];
    let more = ["--hba", &rules, "--users", &users, "--clients-max", "1000"];
    let gate = start(&scratch.join(""), &[&words[..], &more].concat());
    let said = gate.says(" for database");
    let (_, rest) = said.split_once("listening on ").expect("it says so");
    let address: SocketAddr =
        rest.split_whitespace().next().expect("it says where").parse().expect("it is one");
    let gated = format!("postgresql://sekisho:{password}@{address}/postgres");
    for turn in 0..20 {
        assert_eq!(
            ask(&gated, &format!("select {turn}")).expect("it is served"),
            [turn.to_string()]
        );
    }
    let before = memory(&gate);

    let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (kind, number) in KINDS.iter().flat_map(|kind| (0..OF_EACH).map(move |at| (kind, at))) {
            let over = &over;
            scope.spawn(move || is_hostile(address, *kind, number, over));
        }
        let good: Vec<_> = (0..4)
            .map(|client| {
                let (gated, over, served) = (&gated, &over, &served);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let nonce = format!("{client} {}", served.fetch_add(1, Ordering::Relaxed));
                        let heard = ask(gated, &format!("select '{nonce}'"));
                        assert_eq!(heard.expect("it is served"), [nonce]);
                        std::thread::sleep(Duration::from_millis(10));
                    }
                })
            })
            .collect();
        let guessed = (0..GUESSES).filter(|_| is_refused(address)).count();
        (0..90).for_each(|turn| is_hostile_inside(address, turn));
        over.store(true, Ordering::Relaxed);
        good.into_iter().for_each(|one| one.join().expect("it was served"));
        assert_eq!(guessed, GUESSES, "every wrong password is refused as one");
    });
    let after = memory(&gate);
    println!("{} were served; memory {before} kB, then {after} kB", served.load(Ordering::Relaxed));
    assert!(served.load(Ordering::Relaxed) > 20, "who means well was served all the while");
    assert!(after < before + GROWTH_MAX, "it grew from {before} kB to {after} kB");
    // All of them gone, it ends as it is told.
    assert_eq!(ask(&gated, "select 'last'").expect("it is served"), ["last"]);
    gate.signal("TERM");
    let ended = gate.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    server.stop().expect("it stops");
}
