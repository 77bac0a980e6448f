//! `sekisho gate http` with policies as they are typed, in front of stand-ins that keep account: what a
//! flag names is what runs. What each policy promises in full is tested in `httpgate`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{PATIENCE, Running, start};

/// A server that notes what it is asked for, and answers each request when it gets a word, or nobody can
/// say one any more. It ends with the test process.
struct StandIn {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    word: Option<Sender<()>>,
}

impl StandIn {
    fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (word, words) = channel();
        let (seen, words) = (Arc::default(), Arc::new(Mutex::new(words)));
        let account = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, words) = (Arc::clone(&account), Arc::clone(&words));
                thread::spawn(move || serve(&stream, &seen, &words));
            }
        });
        StandIn { address, seen, word: Some(word) }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panics with it").clone()
    }
}

fn serve(mut stream: &TcpStream, seen: &Mutex<Vec<String>>, words: &Mutex<Receiver<()>>) {
    let mut reader = BufReader::new(stream);
    while let Some(target) = head(&mut reader) {
        seen.lock().expect("nobody panics with it").push(target);
        words.lock().expect("the same").recv().ok();
        // A gate that is gone needs no answer.
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
    }
}

/// The second word of the first line of a head, of a request or a response; none at the end.
fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let word = first.split(' ').nth(1)?.to_owned();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    }
    Some(word)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the gate listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    stream
}

fn ask(stream: &mut impl Write, target: &str) {
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the gate reads");
}

/// The command in front of stand-ins, with its addresses.
struct Gate {
    running: Running,
    listening: String,
    admin: String,
}

impl Gate {
    fn start(scratch: &Scratch, servers: &[StandIn], flags: &[&str]) -> Gate {
        let addresses: Vec<String> = servers.iter().map(|one| one.address.to_string()).collect();
        let mut words =
            vec!["gate", "http", "--listen", "127.0.0.1:0", "--admin-http", "127.0.0.1:0"];
        words.extend(addresses.iter().flat_map(|address| ["--upstream", address]));
        words.push("--json");
        let running = start(&scratch.join(""), &[&words[..], flags].concat());
        let said = running.says("}\n");
        let first: Value =
            serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
        let at = |name: &str| first[name].as_str().expect("an address").to_owned();
        Gate { listening: at("listening"), admin: at("http"), running }
    }

    /// A number of the metrics: the sum of all samples whose names and labels begin so.
    fn metric(&self, name: &str) -> f64 {
        let mut stream = connect(&self.admin);
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("the gate reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        let samples = text.lines().filter(|line| line.starts_with(name));
        let values: Vec<f64> =
            samples.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        assert!(!values.is_empty(), "no {name} in {text}");
        values.iter().sum()
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Gate) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < until, "never {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(self) {
        self.running.signal("TERM");
        let ended = self.running.ended(PATIENCE);
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}

#[test]
fn a_key_goes_to_one_server() {
    let scratch = Scratch::new();
    let mut servers: Vec<StandIn> = (0..3).map(|_| StandIn::start()).collect();
    servers.iter_mut().for_each(|server| server.word = None);
    let flags = ["--slots", "2", "--queues", "per-server", "--router"];
    let gate = Gate::start(&scratch, &servers, &[&flags[..], &["{ by-key = {} }"]].concat());
    let mut client = connect(&gate.listening);
    for nth in 0..60 {
        ask(&mut client, &format!("/doc/{}?nth={nth}", nth % 20));
        let status = head(&mut BufReader::new(&client));
        assert_eq!(status.as_deref(), Some("200"), "{nth}");
    }
    gate.end();
    let mut server_of = BTreeMap::new();
    let mut requests = 0;
    for (at, server) in servers.iter().enumerate() {
        for target in server.seen() {
            let path = target.split('?').next().expect("there is one").to_owned();
            assert_eq!(*server_of.entry(path).or_insert(at), at, "{target}");
            requests += 1;
        }
    }
    assert_eq!((requests, server_of.len()), (60, 20));
    assert!(servers.iter().all(|server| !server.seen().is_empty()), "20 keys over 3 servers");
}

#[test]
fn join_idle_queue_fills_the_idle_before_it_queues() {
    let scratch = Scratch::new();
    let mut servers: Vec<StandIn> = (0..3).map(|_| StandIn::start()).collect();
    let flags =
        ["--slots", "1", "--queues", "per-server", "--router", "join-idle-queue", "--seed", "5"];
    let gate = Gate::start(&scratch, &servers, &flags);
    let mut clients = Vec::new();
    for nth in 1..=5 {
        let mut client = connect(&gate.listening);
        ask(&mut client, "/x");
        clients.push(client);
        let busy = |_: &Gate| {
            servers.iter().map(|server| server.seen().len()).sum::<usize>() == nth.min(3)
        };
        gate.wait_until("served", busy);
        gate.wait_until("in line", |gate| {
            gate.metric("sekisho_waiting{") == nth.saturating_sub(3) as f64
        });
        if nth <= 3 {
            let most = servers.iter().map(|server| server.seen().len()).max();
            assert_eq!(most, Some(1), "a second request while another server idles");
        }
    }
    servers.iter_mut().for_each(|server| server.word = None);
    for client in &clients {
        assert_eq!(head(&mut BufReader::new(client)).as_deref(), Some("200"));
    }
    gate.end();
}

#[test]
fn deficit_round_robin_and_ageing_order_a_line() {
    let order = |flags: &[&str], line: &[&str]| {
        let scratch = Scratch::new();
        let mut servers = vec![StandIn::start()];
        let gate = Gate::start(&scratch, &servers, &[&["--slots", "1"], flags].concat());
        let mut clients = Vec::new();
        for (waiting, target) in std::iter::once(&"/first").chain(line).enumerate() {
            let mut client = connect(&gate.listening);
            ask(&mut client, target);
            clients.push(client);
            gate.wait_until("at work", |_| servers[0].seen().len() == 1);
            gate.wait_until("in line", |gate| gate.metric("sekisho_waiting{") == waiting as f64);
        }
        servers[0].word = None;
        for client in &clients {
            assert_eq!(head(&mut BufReader::new(client)).as_deref(), Some("200"));
        }
        gate.end();
        servers[0].seen().split_off(1)
    };
    // A turn is 4 units: four small ones, or one large.
    let deficit = ["--discipline", "{ deficit-round-robin = { quantum = \"4B\" } }"];
    let sizes = ["--size", "/web=1", "--size", "/bulk=4"];
    let found = order(
        &[deficit, [sizes[0], sizes[1]], [sizes[2], sizes[3]]].concat(),
        &["/bulk", "/bulk", "/bulk", "/web", "/web", "/web", "/web", "/web"],
    );
    let wanted = ["/bulk", "/web", "/web", "/web", "/web", "/bulk", "/web", "/bulk"];
    assert_eq!(found, wanted);
    // An hour is worth one priority: nobody here waits for so long, so that priorities decide.
    let ageing = ["--discipline", "{ priority-ageing = { interval = \"1h\" } }"];
    let found = order(&[ageing, ["--priority", "/vip=1"]].concat(), &["/old", "/vip", "/new"]);
    assert_eq!(found, ["/vip", "/old", "/new"]);
    // A nanosecond is: everybody has waited longer, so that arrivals decide.
    let ageing = ["--discipline", "{ priority-ageing = { interval = \"1ns\" } }"];
    let found = order(&[ageing, ["--priority", "/vip=1"]].concat(), &["/old", "/vip", "/new"]);
    assert_eq!(found, ["/old", "/vip", "/new"]);
}

/// A server at which a request calls something that many may call at once, and then uses the one thing
/// that there is of its kind.
fn with_one_lock() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let lock = Arc::new(Mutex::new(()));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                while head(&mut reader).is_some() {
                    thread::sleep(Duration::from_millis(20));
                    let held = lock.lock();
                    thread::sleep(Duration::from_millis(5));
                    drop(held);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
                }
            });
        }
    });
    address
}

/// Status and body of an answer at the gate's own address.
fn asked(admin: &str, request: &str) -> (String, String) {
    let mut stream = connect(admin);
    write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

/// Slots that are left to the gate, in front of HTTP as in front of PostgreSQL: it says what it has found
/// and what would be, and writes it as a scenario.
#[test]
fn slots_are_left_to_the_gate_and_its_model_answers() {
    let scratch = Scratch::new();
    let upstream = with_one_lock().to_string();
    let model = scratch.join("model.toml");
    let model_name = model.to_str().expect("a path");
    let mut words = vec!["gate", "http", "--listen", "127.0.0.1:0", "--admin-http", "127.0.0.1:0"];
    words.extend(["--upstream", &upstream, "--json", "--slots", "auto", "--slots-most", "30"]);
    words.extend(["--model", model_name]);
    let running = start(&scratch.join(""), &words);
    let said = running.says("}\n");
    let first: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    let at = |name: &str| first[name].as_str().expect("an address").to_owned();
    let (listening, admin) = (at("listening"), at("http"));
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let clients = (0..24).map(|_| {
        let (over, listening) = (Arc::clone(&over), listening.clone());
        thread::spawn(move || {
            let stream = connect(&listening);
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                ask(&mut &stream, "/");
                let status = head(&mut BufReader::new(&stream));
                assert_eq!(status.as_deref(), Some("200"));
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let begun = Instant::now();
    let answer = loop {
        let (status, body) = asked(&admin, "GET /whatif?slots=2");
        if status == "200" {
            break body;
        }
        assert_eq!(status, "409", "{body}");
        assert!(begun.elapsed() < PATIENCE, "never an answer: {body}");
        thread::sleep(Duration::from_millis(200));
    };
    let rows = |text: &str| serde_json::from_str::<Vec<Value>>(text).expect("rows");
    let of = |rows: &[Value], what: &str| {
        let row = rows.iter().find(|row| row["what"] == what).cloned();
        row.unwrap_or_else(|| panic!("no {what} in {rows:?}"))
    };
    let answer = rows(&answer);
    let throughput = of(&answer, "throughput");
    // Two slots do two jobs in 25 ms at most; what the model says of so few is a region.
    let low = throughput["interval"][0].as_f64().expect("a number");
    assert_eq!(throughput["unit"], "1/s");
    assert!(low > 0.0 && low < 80.0, "{answer:?}");
    let (status, found) = asked(&admin, "GET /model");
    assert_eq!(status, "200");
    let slots = of(&rows(&found), "slots");
    assert_eq!((&slots["of"], &slots["unit"]), (&"gate server 1".into(), &"slots".into()));
    let (status, why) = asked(&admin, "POST /slots?server=0&slots=3");
    assert_eq!((&*status, why.contains("left to the gate")), ("400", true), "{why}");
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("it was served"));
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    let last = ended.out.lines().last().expect("a line");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(last["slots"]["shadow"], false, "{last}");
    assert!(!last["model"].as_array().expect("rows").is_empty(), "{last}");
    if model.exists() {
        let scenario = std::fs::read_to_string(&model).expect("it was written");
        let scenario: advise::Scenario = toml::from_str(&scenario).expect("a scenario");
        scenario.network().expect("it can be run");
    }
}

#[test]
fn flags_of_slots_that_are_left_to_the_gate_go_with_auto_only() {
    let scratch = Scratch::new();
    let gate = ["gate", "http", "--upstream", "127.0.0.1:1", "--slots"];
    for (flags, cause) in [
        (&["2", "--shadow"][..], "go with `--slots auto`"),
        (&["auto,2"], "it stands alone"),
        (&["auto", "--slots-least", "0"], "`--slots-least` is at least 1"),
    ] {
        let ended = start(&scratch.join(""), &[&gate[..], flags].concat()).ended(PATIENCE);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(cause), "{ended:?}");
    }
    let servers = [StandIn::start()];
    let flags = ["--slots", "auto", "--slots-most", "5", "--shadow"];
    let gate = Gate::start(&scratch, &servers, &flags);
    assert_eq!(gate.metric("sekisho_slots "), 5.0, "they stay the most");
    gate.end();
}
