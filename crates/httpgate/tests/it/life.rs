//! Start and end of a gate, with TLS and without, and at its limit of connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use httpgate::{Server, StartError, Tls};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::*;

#[test]
fn a_drain_serves_what_is_in_and_lets_nobody_else_in() {
    let (upstream, _) = Upstream::slow(ms(150));
    let mut config = config(&[upstream.address], 1);
    config.timeouts.drain = PATIENCE;
    let mut gate = Gate::start(config);
    let mut idle = gate.client();
    idle.get("/idle");
    let mut served = gate.client();
    served.send("GET /served HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.wait_for(2);
    let mut waits = gate.client();
    waits.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.wait_for("waiting", |stats| stats.waiting == 1);
    gate.handle.drain().unwrap();
    assert!(idle.is_closed());
    for (client, text) in [(&mut served, "/served"), (&mut waits, "/waits")] {
        let response = client.response();
        assert_eq!((response.text(), response.field("connection").as_deref()), {
            (text, Some("close"))
        });
        assert!(client.is_closed());
    }
    let address = gate.handle.address();
    let finished = gate.join();
    assert_eq!(finished.cut, 0);
    assert!(finished.stats.draining);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_drain_that_takes_too_long_cuts_and_still_gives_back_every_slot() {
    let (upstream, _) = Upstream::slow(ms(3000));
    let mut config = config(&[upstream.address], 1);
    config.timeouts.drain = ms(150);
    let gate = Gate::start(config);
    let mut clients: Vec<Client> = (0..3).map(|_| gate.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    gate.wait_for("waiting", |stats| stats.waiting == 2);
    let began = Instant::now();
    let finished = gate.finish();
    assert!(began.elapsed() < ms(1500), "{:?}", began.elapsed());
    assert_eq!(finished.cut, 3);
    for client in &mut clients {
        assert!(client.try_response("GET").is_err());
    }
}

#[test]
fn sigterm_drains() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 1);
    config.record_max = 0;
    let server = Server::bind(config).unwrap().drain_on_signals();
    let address = server.handle().address();
    let thread = std::thread::spawn(move || server.run().unwrap());
    // Once it answers, it listens to signals.
    assert_eq!(Client::connect(address).get("/x").text(), "/x");
    let kill = format!("kill -TERM {}", std::process::id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let finished = thread.join().unwrap();
    assert_eq!((finished.stats.responses(), finished.cut, finished.recording), (1, 0, None));
}

#[test]
fn a_recording_stops_at_its_bound_and_says_so() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 1);
    config.record_max = 5;
    let server = Server::bind(config).unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let mut client = Client::connect(handle.address());
    client.get("/1");
    assert_eq!(handle.recording().unwrap().unwrap().steps.len(), 2);
    for _ in 0..4 {
        client.get("/more");
    }
    handle.drain().unwrap();
    let recording = thread.join().unwrap().recording.unwrap();
    assert_eq!((recording.steps.len(), recording.truncated), (5, true));
    assert_eq!(recording.replay(), Ok(()));
}

#[test]
fn connections_beyond_the_limit_wait_to_be_accepted() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 4);
    config.limits.connections = 2;
    let gate = Gate::start(config);
    let (mut one, mut two) = (gate.client(), gate.client());
    assert_eq!((one.get("/1").text(), two.get("/2").text()), ("/1", "/2"));
    let mut three = gate.client();
    three.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(three.is_silent(ms(80)));
    assert_eq!(gate.stats().connections, 2);
    drop(one);
    assert_eq!(three.response().text(), "/3");
}

fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates").join(name)
}

fn tls_client(gate: &Gate) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls_file("server.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(gate.handle.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(session, stream)
}

#[test]
fn clients_with_tls_are_served_and_told_apart() {
    let large = "y".repeat(1_000_000);
    let body = large.clone();
    let upstream = Upstream::start(move |stream, seen| match seen.target() {
        "/large" => ok(stream, &body),
        _ => ok(stream, "small"),
    });
    let mut config = config(&[upstream.address], 1);
    config.tls = Some(Tls { cert: tls_file("server.pem"), key: tls_file("server.key") });
    config.timeouts.head = ms(400);
    let gate = Gate::start(config);
    let mut client = tls_client(&gate);
    client.write_all(b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"small") {
        let mut some = [0; 512];
        let n = client.read(&mut some).unwrap();
        assert!(n > 0, "{bytes:?}");
        bytes.extend_from_slice(&some[..n]);
    }
    client
        .write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    // A clean end: rustls makes a missing close_notify an error.
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with(&large));
    let seen = upstream.seen.lock().unwrap();
    assert!(seen.iter().all(|seen| seen.head.contains("\r\nX-Forwarded-Proto: https\r\n")));
    drop(seen);
    // A client that does not speak TLS, and one that never does its part of the handshake.
    let mut plain = gate.client();
    plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(plain.try_response("GET").is_err());
    let mut silent = gate.client();
    assert!(silent.is_closed());
    gate.wait_for("gone", |stats| stats.connections == 0);
}

#[test]
fn a_client_with_tls_that_leaves_while_waiting_reneges() {
    let (upstream, _) = Upstream::slow(ms(200));
    let mut config = config(&[upstream.address], 1);
    config.tls = Some(Tls { cert: tls_file("server.pem"), key: tls_file("server.key") });
    let gate = Gate::start(config);
    let mut served = tls_client(&gate);
    served.write_all(b"GET /served HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    upstream.wait_for(1);
    let mut leaves = tls_client(&gate);
    leaves.write_all(b"GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    gate.wait_for("waiting", |stats| stats.waiting == 1);
    drop(leaves);
    gate.wait_for("reneged", |stats| stats.reneged == 1);
    assert!(served.read(&mut [0; 512]).unwrap() > 0);
}

#[test]
fn a_certificate_that_is_none_is_named() {
    let mut config = config(&[nobody()], 1);
    config.tls = Some(Tls { cert: tls_file("server.key"), key: tls_file("server.key") });
    assert!(matches!(Server::bind(config.clone()), Err(StartError::Tls { .. })));
    config.tls = Some(Tls { cert: tls_file("missing.pem"), key: tls_file("server.key") });
    let error = Server::bind(config).unwrap_err().to_string();
    assert!(error.contains("missing.pem"), "{error}");
}
