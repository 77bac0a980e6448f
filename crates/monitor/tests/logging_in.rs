//! What a client costs that has not logged in: anybody who reaches the address can make thousands of them. A
//! program of its own, because it counts the bytes that the whole program has.

#![allow(unsafe_code, reason = "an allocator that counts has no safe interface")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use monitor::{Address, Config, Database, Finished, Handle, Monitor, Stats};
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::{Version, write_startup};

struct Counting;

/// The bytes that are allocated now.
static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: everything is passed on as it is to the system's allocator, which keeps the promises; the
// counter has no destructor and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller has promised for this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How many connect at once.
const CLIENTS: usize = 400;
/// What one may cost \[byte\].
const COST_MAX: i64 = 2048;

/// A monitor whose server is not there: nobody gets as far as that.
struct Gate {
    handle: Handle,
    thread: JoinHandle<Finished>,
}

impl Gate {
    fn new(change: impl FnOnce(&mut Config)) -> Gate {
        let nobody = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 1)));
        let users = Users::parse("\"me\" \"secret\"\n", MockKey::new([7; 32]))
            .expect("loopback and a gate that runs");
        let database = Database::new("shop", vec![nobody], 2);
        let mut config = Config::new(
            "127.0.0.1:0".parse().expect("loopback and a gate that runs"),
            vec![database],
            users,
        );
        config.timeouts.drain = Duration::from_millis(10);
        change(&mut config);
        let monitor = Monitor::bind(config).expect("loopback and a gate that runs");
        let handle = monitor.handle();
        Gate {
            handle,
            thread: std::thread::spawn(move || {
                monitor.run().expect("loopback and a gate that runs")
            }),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream =
            TcpStream::connect(self.handle.address()).expect("loopback and a gate that runs");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("loopback and a gate that runs");
        stream
    }

    fn until(&self, what: &str, holds: impl Fn(&Stats) -> bool) {
        let began = Instant::now();
        while !holds(&self.handle.stats().expect("loopback and a gate that runs")) {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(self) {
        self.handle.drain().expect("loopback and a gate that runs");
        self.thread.join().expect("loopback and a gate that runs");
    }
}

fn startup() -> Vec<u8> {
    let pairs = [("user", "me"), ("database", "shop"), ("application_name", "psql")];
    let mut out = Vec::new();
    write_startup(
        &mut out,
        Version::V3_0,
        pairs.map(|(name, value)| (name.as_bytes(), value.as_bytes())),
    )
    .expect("loopback and a gate that runs");
    out
}

/// The first bytes of what it hears.
fn hear(stream: &mut TcpStream) -> [u8; 9] {
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("loopback and a gate that runs");
    head
}

/// The type of a request for authentication by SASL.
const SASL: [u8; 4] = 10_u32.to_be_bytes();

/// What each of many costs who have said this and no more, and what is left of each when they have gone.
fn cost(gate: &Gate, said: &[u8], hears: bool) -> (i64, i64) {
    let before = LIVE.load(Ordering::Relaxed);
    let mut clients = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let mut client = gate.connect();
        client.write_all(said).expect("loopback and a gate that runs");
        if hears {
            assert_eq!(hear(&mut client)[5..], SASL);
        }
        clients.push(client);
    }
    // What was said before this is asked has been read when it is answered.
    for _ in 0..2 {
        let mut one = gate.connect();
        one.write_all(&startup()).expect("loopback and a gate that runs");
        assert_eq!(hear(&mut one)[5..], SASL);
    }
    gate.until("all are there", |stats| stats.clients == CLIENTS);
    let with = LIVE.load(Ordering::Relaxed);
    drop(clients);
    gate.until("all have gone", |stats| stats.clients == 0);
    let behind = LIVE.load(Ordering::Relaxed);
    ((with - before) / CLIENTS as i64, (behind - before) / CLIENTS as i64)
}

#[test]
fn a_client_that_has_not_logged_in_costs_two_kilobytes_at_most() {
    let gate = Gate::new(|_| {});
    let startup = startup();
    // The first round makes places, which stay, and the buffers that all share.
    let places = cost(&gate, &startup, true);
    assert!(places.0 <= COST_MAX, "the first of all: {places:?} B");
    for (what, said, hears) in [
        ("silent", &b""[..], false),
        ("half a packet", &startup[..startup.len() / 2], false),
        ("asked for its password", &startup, true),
    ] {
        let (with, behind) = cost(&gate, said, hears);
        // Its place was made before.
        assert!(with + places.1 <= COST_MAX, "{what}: {with} B and its place, {} B", places.1);
        assert!(behind <= 16, "{what}: {behind} B stay behind of each");
    }
    // A packet may be larger than all that: it costs what is here of it, and no buffer of a fixed size.
    let options = vec![b'x'; 9000];
    let mut long = Vec::new();
    let pairs = [(&b"user"[..], &b"me"[..]), (b"database", b"shop"), (b"options", &options)];
    write_startup(&mut long, Version::V3_0, pairs).expect("loopback and a gate that runs");
    let here = &long[..long.len() - 1];
    for _ in 0..2 {
        let (with, behind) = cost(&gate, here, false);
        let most = COST_MAX + here.len() as i64;
        assert!(with + places.1 <= most, "{} B of a packet: {with} B", here.len());
        assert!(behind <= 16, "{behind} B stay behind of each");
    }
    gate.end();
}

#[test]
fn beyond_the_bound_whoever_has_tried_for_longest_makes_room() {
    let gate = Gate::new(|config| config.limits.login_clients = Some(3));
    let mut first = gate.connect();
    let others: Vec<TcpStream> = (0..3).map(|_| gate.connect()).collect();
    let mut words = Vec::new();
    first.read_to_end(&mut words).expect("loopback and a gate that runs");
    let words = String::from_utf8_lossy(&words);
    assert!(words.contains("53300") && words.contains("more than 3 clients log in"), "{words}");
    gate.until("one has gone", |stats| (stats.clients, stats.logins_failed) == (3, 1));
    // Who is quick gets on, however many stay silent.
    let mut last = gate.connect();
    last.write_all(&startup()).expect("loopback and a gate that runs");
    assert_eq!(hear(&mut last)[5..], SASL);
    gate.until("another has gone", |stats| (stats.clients, stats.logins_failed) == (3, 2));
    drop(others);
    gate.until("the silent have gone", |stats| stats.clients == 1);
    gate.end();
}
