//! The look at a server before any load: each cause by its own name.

use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use load::http::{
    Answer, Distrust, Fault, Method, Plan, PlanSpec, Request, Trial, TrialError, Trust, try_each,
};
use measure::Until;

use crate::closed;
use crate::server::{Server, ok, path, read_head};
use crate::tls::{answering as answering_tls, ca};

const WITHIN: Duration = Duration::from_millis(800);

fn tried(spec: PlanSpec) -> Result<Vec<Answer>, Box<TrialError>> {
    let plan = Plan::new(spec).unwrap();
    try_each(&plan, Trial { within: WITHIN }, &AtomicBool::new(false))
}

fn at(url: &str) -> PlanSpec {
    closed(url, 1, Until::Requests(1))
}

/// The fault of a server that does this with each connection.
fn fault_of(serve: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> Fault {
    let server = Server::new(serve);
    tried(at(&server.url())).unwrap_err().fault
}

#[test]
fn each_class_is_asked_once_and_its_size_is_told() {
    let server = Server::answering(|head| match path(head) {
        "/none" => b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/moved" => b"HTTP/1.1 301 M\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/secret" => {
            b"HTTP/1.1 401 U\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
                .to_vec()
        }
        "/odd" => {
            b"HTTP/1.1 400 B\r\nContent-Length: 34\r\n\r\n<p>No <b>id</b>\n given</p><i></i>."
                .to_vec()
        }
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec()
        }
        "/late" => [&b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"[..], &ok(3)].concat(),
        "/posted" => {
            assert!(head.starts_with("POST /posted"), "{head}");
            b"HTTP/1.1 201 C\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_vec()
        }
        _ => ok(5000),
    });
    let mut spec = at(&server.url());
    let paths = ["/", "/none", "/moved", "/secret", "/odd", "/chunked", "/late"];
    spec.requests = paths.map(Request::get).to_vec();
    spec.requests.push(Request::new(Method::Post, "/posted"));
    // Of one class the first request is made.
    spec.requests.push(Request { class: "/".into(), ..Request::get("/none") });
    let answers = tried(spec).unwrap();
    let told: Vec<_> =
        answers.iter().map(|one| (one.status, one.bytes, one.detail.as_deref())).collect();
    assert_eq!(
        told,
        [
            (200, Some(5000), None),
            (404, Some(0), None),
            (301, Some(0), Some("/there")),
            (401, Some(0), Some("Basic realm=x")),
            (400, Some(34), Some("No id given .")),
            (200, None, None),
            (200, Some(3), None),
            (201, Some(2), None),
        ]
    );
    let open: Vec<bool> = answers.iter().map(|answer| answer.keeps_open).collect();
    assert_eq!(open, [true, true, true, true, true, true, true, false]);
    // One for each, and a second look after the 400, which a port for TLS answers, too.
    assert_eq!(server.connections.load(std::sync::atomic::Ordering::SeqCst), 9);
}

#[test]
fn servers_that_do_not_answer_are_told_apart() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = tried(at(&format!("http://{gone}/x?y"))).unwrap_err();
    assert!(matches!(refused.fault, Fault::Refused), "{refused}");
    assert!(refused.to_string().starts_with(&format!("GET /x?y at {gone}: the connection was")));
    let closes = fault_of(|mut stream| drop(read_head(&mut stream)));
    assert!(matches!(closes, Fault::Closed(0)), "{closes}");
    let breaks_off = fault_of(|mut stream| {
        read_head(&mut stream);
        stream.write_all(&ok(100)[..50]).unwrap();
    });
    assert!(matches!(breaks_off, Fault::Closed(50)), "{breaks_off}");
    let other = fault_of(|mut stream| {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        read_head(&mut stream);
    });
    assert!(matches!(&other, Fault::NotHttp(text) if text.starts_with("SSH-2.0")), "{other}");
}

#[test]
fn a_server_that_hangs_takes_no_longer_than_it_is_given() {
    let begun = Instant::now();
    let silent = fault_of(|mut stream| while read_head(&mut stream).is_some() {});
    assert!(matches!(silent, Fault::Silent(WITHIN)), "{silent}");
    // A byte every 20 ms is no answer either: each read would go on for ever.
    let drips = fault_of(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(matches!(drips, Fault::Endless(200, _, WITHIN)), "{drips}");
    // Twice the limit; the rest is for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn the_wrong_protocol_is_named() {
    let tls = answering_tls(10);
    let plain_to_tls = tried(at(&tls.url())).unwrap_err();
    assert!(matches!(plain_to_tls.fault, Fault::SpeaksTls), "{plain_to_tls}");
    let plain = Server::answering(|_| ok(1));
    let mut spec = at(&format!("https://{}/", plain.address));
    spec.trust = Trust::File(ca());
    let tls_to_plain = tried(spec).unwrap_err();
    assert!(matches!(tls_to_plain.fault, Fault::SpeaksPlain), "{tls_to_plain}");
    // As nginx does it: an answer in plain words on the port for TLS.
    let polite = Server::new(|mut stream| {
        let mut first = [0];
        if stream.peek(&mut first).is_ok_and(|count| count == 1) && first[0] == 0x16 {
            // The beginning of TLS: an alert is an answer, too.
            let mut hello = [0; 4096];
            let _ = stream.read(&mut hello);
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
            return;
        }
        if read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let polite = tried(at(&polite.url())).unwrap_err();
    assert!(matches!(polite.fault, Fault::SpeaksTls), "{polite}");
}

#[test]
fn certificates_are_told_apart() {
    let server = answering_tls(10);
    let url = format!("https://{}/", server.address);
    let mut spec = at(&url);
    spec.trust = Trust::File(ca());
    assert_eq!(tried(spec.clone()).unwrap()[0].bytes, Some(10));
    // An authority that has nothing to do with it.
    spec.trust = Trust::File(ca().with_file_name("server.pem"));
    let unknown = tried(spec.clone()).unwrap_err().fault;
    assert!(matches!(unknown, Fault::Certificate(Distrust::Unknown)), "{unknown}");
    spec.trust = Trust::File("/absent".into());
    let absent = tried(spec).unwrap_err().fault;
    assert!(matches!(absent, Fault::Setup(_)), "{absent}");
    let mut other = at(&format!("https://127.0.0.2:{}/", server.address.port()));
    other.trust = Trust::File(ca());
    let Err(other) = tried(other).map_err(|error| error.fault) else { panic!("another name") };
    // Linux connects to all of 127/8; the test's server listens on one address of it.
    assert!(matches!(other, Fault::Certificate(Distrust::Name) | Fault::Refused), "{other}");
}

#[test]
fn an_alert_of_the_server_is_told_by_its_name() {
    let server = Server::new(|mut stream| {
        let mut hello = [0; 4096];
        match stream.read(&mut hello) {
            Ok(_) => {}
            Err(error) if error.kind() == IoKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
        // A fatal alert, handshake_failure (RFC 8446, section 6.2).
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
    });
    let mut spec = at(&format!("https://{}/", server.address));
    spec.trust = Trust::Insecure;
    let alert = tried(spec).unwrap_err().fault;
    assert!(matches!(&alert, Fault::Alert(name) if name == "handshake_failure"), "{alert}");
}
