//! Servers that misbehave are measured all the same: their faults are counted by kind, and nothing
//! hangs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, start};
use crate::site::alone;

/// Answer of a server to a connection that sent a request.
type Answer = fn(&mut TcpStream) -> std::io::Result<()>;

/// A server with an answer of its own.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    fn start(answer: Answer) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                thread::spawn(move || serve(stream, answer));
            }
        });
        Server { address, stop, accepting: Some(accepting) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it; where nobody listens any more, nobody must be woken.
        TcpStream::connect(self.address).ok();
        self.accepting.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: TcpStream, answer: Answer) {
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    // Clients that leave, or that this server sends away, are what is tested here.
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        request.extend_from_slice(&bytes[..read]);
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            if answer(&mut stream).is_err() {
                return;
            }
            // So that a generator that comes back at once does not use up all ports.
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Measures that server for half a second, or for as long as `rest` says.
fn measured(answer: Answer, rest: &[&str]) -> Ended {
    let _live = alone();
    let server = Server::start(answer);
    let scratch = Scratch::new();
    let url = format!("http://{}/", server.address);
    let mut words = vec!["measure", "http", url.as_str(), "--clients", "2", "--warmup", "0s"];
    words.extend(["--timeout", "200ms", "--no-preflight"]);
    if !rest.contains(&"--duration") {
        words.extend(["--duration", "500ms"]);
    }
    words.extend(rest);
    start(&scratch.join(""), &words).ended(PATIENCE)
}

fn closed() -> std::io::Result<()> {
    Err(std::io::ErrorKind::ConnectionAborted.into())
}

#[test]
fn faults_are_counted_by_kind() {
    let cases: [(&str, Answer); 6] = [
        ("closed-early", |_| closed()),
        ("closed-early", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?;
            closed()
        }),
        ("wrong-length", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")?;
            closed()
        }),
        ("malformed", |stream| {
            stream.write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n\r\n")?;
            closed()
        }),
        ("timeout", |_| Ok(())),
        ("status5xx", |stream| {
            stream.write_all(b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n")
        }),
    ];
    for (kind, answer) in cases {
        let ended = measured(answer, &[]);
        assert_eq!(ended.code, 5, "{kind}: {ended:?}");
        assert!(ended.out.starts_with("invalid: closed load, 2 clients: 0 /s"), "{ended:?}");
        let failed = ended.out.lines().find(|line| line.starts_with("  failed: "));
        let failed = failed.unwrap_or_else(|| panic!("{kind}: {ended:?}"));
        assert!(failed.ends_with(&format!(" {kind}")), "{kind}: {ended:?}");
        assert!(ended.out.contains("invalid: no request was completed"), "{kind}: {ended:?}");
    }
}

#[test]
fn nobody_there_is_a_fault_too() {
    let _live = alone();
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let scratch = Scratch::new();
    let url = format!("http://{address}/");
    let mut words =
        vec!["measure", "http", &url, "--rate", "50/s", "--duration", "500ms", "--json"];
    let refused = start(&scratch.join(""), &words).ended(PATIENCE);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("the connection was refused"), "{refused:?}");
    words.push("--no-preflight");
    let ended = start(&scratch.join(""), &words).ended(PATIENCE);
    assert_eq!(ended.code, 5, "{ended:?}");
    let object = &ended.objects()[0];
    assert!(object["all"]["errors"]["connect-refused"].as_u64() > Some(0), "{object}");
    assert_eq!(object["all"]["completed"], 0);
}

/// A response that drips forever is over when its time is over.
#[test]
fn a_dripping_server_does_not_hold_the_generator() {
    let ended = measured(
        |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            loop {
                stream.write_all(b".")?;
                thread::sleep(Duration::from_millis(5));
            }
        },
        &[],
    );
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.out.contains(" timeout"), "{ended:?}");
}

/// `--expect` fails (3) or holds (0) as the interval says; only where this machine was too busy to
/// measure at all does the run count as invalid instead, and says why.
#[test]
fn expectations_decide_how_a_measurement_ends() {
    let slow: Answer = |stream| {
        thread::sleep(Duration::from_millis(20));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    };
    // The interval of a mean needs several intervals of a second; the others need none.
    for (limit, length, code, word) in [
        ("mean<1ms", "3s", 3, "fails"),
        ("errors<50%", "500ms", 0, "holds"),
        ("p99.9<1s", "500ms", 4, "inconclusive"),
    ] {
        let ended = measured(slow, &["--expect", limit, "--duration", length]);
        assert!(ended.out.contains(&format!("  {word}: {limit}: ")), "{ended:?}");
        let invalid = ended.out.contains("\n  invalid: ");
        assert_eq!(ended.code, if invalid { 5 } else { code }, "{ended:?}");
        assert!(ended.out.starts_with(if invalid { "invalid: " } else { word }), "{ended:?}");
    }
}
