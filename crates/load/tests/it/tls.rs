//! HTTPS: trust, names, kept and single connections, and handshakes that fail or stall.
//!
//! The certificates under `certs` were made once, for these tests only: a CA that lasts until 2126,
//! its key thrown away, and one server's for `localhost` and 127.0.0.1.

use std::io::{ErrorKind as IoKind, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use load::http::{Connections, PlanSpec, Resumption, RunError, Trust};
use measure::{ErrorKind, Until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{Server, ok, read_head};
use crate::{closed, completed, failed, failed_in_all, naming, run, warns};

pub(crate) fn ca() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/certs/ca.pem")
}

fn server(
    serve: impl Fn(StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
) -> Server {
    let chain = vec![CertificateDer::from_pem_slice(include_bytes!("certs/server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certs/server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    Server::new(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).unwrap();
        serve(StreamOwned::new(session, stream));
    })
}

pub(crate) fn answering(length: usize) -> Server {
    server(move |mut stream| {
        while read_head(&mut stream).is_some() {
            let sent = stream.write_all(&ok(length)).and_then(|()| stream.flush());
            if sent.is_err_and(|error| error.kind() != IoKind::Interrupted) {
                return;
            }
        }
    })
}

fn plan(server: &Server, clients: u32, requests: u64) -> PlanSpec {
    let url = format!("https://{}/", server.address);
    let mut plan = closed(&url, clients, Until::Requests(requests));
    plan.trust = Trust::File(ca());
    plan
}

#[test]
fn requests_go_over_tls_kept_and_single() {
    // The long body needs many records, of which several come at once.
    for (length, requests) in [(100, 100), (1_000_000, 20)] {
        for connections in [Connections::KeepAlive, Connections::PerRequest] {
            for resumption in [Resumption::Off, Resumption::On] {
                let server = answering(length);
                let mut plan = plan(&server, 3, requests);
                (plan.connections, plan.resumption) = (connections, resumption);
                let record = run(plan);
                assert_eq!((completed(&record), failed_in_all(&record)), (requests, 0));
                let connects: u64 = record.intervals.iter().map(|i| i.connects).sum();
                let kept = connections == Connections::KeepAlive;
                assert_eq!(connects, if kept { 3 } else { requests });
                let bytes: u64 = record.intervals.iter().map(|i| i.classes[0].bytes).sum();
                assert_eq!(bytes, requests * ok(length).len() as u64);
            }
        }
    }
}

#[test]
fn names_are_checked_as_well_as_addresses() {
    let server = answering(10);
    let url = format!("https://localhost:{}/", server.address.port());
    let mut by_name = closed(&url, 1, Until::Requests(3));
    by_name.trust = Trust::File(ca());
    assert_eq!(completed(&run(by_name)), 3);
}

#[test]
fn who_is_not_trusted_gets_no_request() {
    let server = answering(10);
    let mut strict = plan(&server, 1, 4);
    strict.trust =
        Trust::File(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/certs/server.pem"));
    let record = run(strict);
    assert_eq!((failed(&record, ErrorKind::Tls), completed(&record)), (4, 0));

    let mut loose = plan(&server, 1, 4);
    loose.trust = Trust::Insecure;
    let record = run(loose);
    assert_eq!(completed(&record), 4);
    assert!(warns(&record, "no certificate was checked"));
    assert!(record.header.settings["tls-trust"].starts_with("insecure"));
}

#[test]
fn a_file_without_certificates_ends_the_run_before_it_begins() {
    let server = answering(10);
    let files = [
        ("no/such.pem", "no/such.pem"),
        ("Cargo.toml", "no usable certificate"),
        ("/dev/zero", "larger than 16 MiB"),
    ];
    for (file, says) in files {
        let mut plan = plan(&server, 1, 4);
        plan.trust = Trust::File(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file));
        let plan = load::http::Plan::new(plan).unwrap();
        let interrupt = std::sync::atomic::AtomicBool::new(false);
        let error = load::http::record(&plan, naming(), &interrupt, &mut |_| {}).unwrap_err();
        assert!(matches!(error, RunError::Tls(_)));
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_server_that_speaks_no_tls_or_stops_speaking_it() {
    let speaks = Server::new(|mut stream: TcpStream| {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
        let _ = read_head(&mut stream);
    });
    let record = run(plan(&speaks, 2, 4));
    assert_eq!(failed(&record, ErrorKind::Tls), 4);

    let cut_off = server(|mut stream| {
        if read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nno end in sight");
            let _ = stream.flush();
            // Closes without saying so in TLS: the body may be incomplete.
        }
    });
    let record = run(plan(&cut_off, 2, 4));
    assert_eq!(failed(&record, ErrorKind::ClosedEarly), 4);
}

#[test]
fn a_handshake_that_stalls_is_a_connection_that_is_not_open_in_time() {
    let silent = Server::new(|mut stream: TcpStream| while read_head(&mut stream).is_some() {});
    let mut plan = plan(&silent, 2, 4);
    plan.connect_max = Duration::from_millis(100);
    let record = run(plan);
    assert_eq!(failed(&record, ErrorKind::ConnectTimeout), 4);
}
