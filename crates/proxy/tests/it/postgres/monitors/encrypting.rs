//! TLS towards clients: asked for or direct, and what rules demand of it.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use proxy::postgres::frame::HEAD;
use proxy::postgres::message::write;
use proxy::postgres::monitor::{Admission, Config, Mode, Tls};
use proxy::postgres::secrets::Hba;
use proxy::postgres::startup::{ALPN, Version, write_ssl_request, write_startup};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{Gate, Raw, account, database, server, shown, trusting};

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// A gate with a certificate, whose rules want TLS of everybody.
fn config() -> Config {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.tls = Some(Tls { cert: fixture("server.pem"), key: fixture("server.key") });
    config.admission = Admission::Rules(Hba::parse("hostssl all all all trust").unwrap());
    config
}

/// TLS over a connection, which speaks one of these protocols.
fn encrypted(raw: Raw, protocols: &[&[u8]]) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_file_iter(fixture("server.pem")).unwrap() {
        roots.add(cert.unwrap()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(tls, raw.stream)
}

fn start(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let database = account(server().url().as_str()).get_dbname().unwrap().to_owned();
    let mut out = Vec::new();
    let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", database.as_bytes())];
    write_startup(&mut out, Version::V3_0, parameters).unwrap();
    stream.write_all(&out)
}

/// The tags and bodies of messages up to ReadyForQuery.
fn heard(stream: &mut impl Read) -> std::io::Result<Vec<(u8, Vec<u8>)>> {
    let mut heard = Vec::new();
    loop {
        let mut head = [0; HEAD];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body)?;
        assert!(head[0] != b'E', "{}", shown(&body));
        heard.push((head[0], body));
        if head[0] == b'Z' {
            return Ok(heard);
        }
    }
}

/// Rows of many kilobytes through TLS, and questions as large.
fn is_served(stream: &mut (impl Read + Write)) {
    heard(stream).unwrap();
    let text = "0123456789".repeat(30_000);
    for _ in 0..3 {
        let mut out = Vec::new();
        write::query(&mut out, &format!("select '{text}' from generate_series(1, 3)"));
        stream.write_all(&out).unwrap();
        let heard = heard(stream).unwrap();
        let rows: Vec<_> = heard.iter().filter(|(tag, _)| *tag == b'D').collect();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|(_, body)| body[6..] == *text.as_bytes()));
    }
}

#[test]
fn a_client_that_asks_for_tls_gets_it() {
    let gate = Gate::new(config());
    for protocols in [&[][..], &[ALPN]] {
        let mut raw = Raw::connect(&gate);
        let mut out = Vec::new();
        write_ssl_request(&mut out);
        raw.say(&out);
        let mut answer = [0];
        raw.stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        let mut stream = encrypted(raw, protocols);
        start(&mut stream).unwrap();
        is_served(&mut stream);
    }
    gate.end();
}

#[test]
fn a_client_may_begin_with_tls_if_it_says_what_it_speaks_inside() {
    let gate = Gate::new(config());
    let mut stream = encrypted(Raw::connect(&gate), &[ALPN]);
    start(&mut stream).unwrap();
    is_served(&mut stream);
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let mut stream = encrypted(Raw::connect(&gate), protocols);
        let refused = start(&mut stream).and_then(|()| heard(&mut stream));
        assert!(refused.is_err());
    }
    gate.end();
}

#[test]
fn who_comes_in_clear_where_rules_want_tls_is_refused() {
    let gate = Gate::new(config());
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &[]);
    let words = raw.last_words();
    assert!(words.starts_with("FATAL 28000 no pg_hba.conf entry"), "{words}");
    // What follows a promise of TLS and is none ends there.
    let mut raw = Raw::connect(&gate);
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    raw.say(&out);
    let mut answer = [0];
    raw.stream.read_exact(&mut answer).unwrap();
    raw.say(b"this is no handshake at all");
    let rest = raw.rest();
    assert!(rest.len() < 64 && !rest.starts_with(b"R"), "{rest:?}");
    gate.end();
}
