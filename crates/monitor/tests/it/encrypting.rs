//! TLS towards clients: asked for or direct, what rules demand of it, certificates of clients, and
//! SCRAM that is bound to the gate's own.

use std::io::{Read, Write};
use std::sync::Arc;

use monitor::{
    Admission, Authorities, ClientTls, Config, ControlError, Mode, Tls, TlsMode, TlsVersion,
};
use pgwire::auth::{Binding, Credential, Login, LoginStep, Terms};
use pgwire::frame::HEAD;
use pgwire::message::{read, write};
use pgwire::secrets::Hba;
use pgwire::startup::{ALPN, Version, write_ssl_request, write_startup};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use pgtest::fixture;

use super::{
    Gate, Raw, account, ask, config as known, database, directly, password, runtime, server, shown,
    trusting,
};

/// A gate with a certificate, whose rules want TLS of everybody.
pub(super) fn config() -> Config {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.tls = Some(Tls { cert: fixture("server.pem"), key: fixture("server.key") }.into());
    config.admission = Admission::Rules(Hba::parse("hostssl all all all trust").unwrap());
    config
}

pub(super) type Encrypted = StreamOwned<ClientConnection, std::net::TcpStream>;

/// TLS over a connection, which speaks one of these protocols.
pub(super) fn encrypted(raw: Raw, protocols: &[&[u8]]) -> Encrypted {
    encrypted_as(raw, protocols, None, &[&TLS12, &TLS13])
}

/// The same, with the certificate that is shown and the versions that are spoken.
fn encrypted_as(
    raw: Raw,
    protocols: &[&[u8]],
    identity: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> Encrypted {
    let mut roots = RootCertStore::empty();
    for name in ["server.pem", "authority.pem"] {
        for cert in CertificateDer::pem_file_iter(fixture(name)).unwrap() {
            roots.add(cert.unwrap()).unwrap();
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = CertificateDer::pem_file_iter(fixture(name)).unwrap();
            let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_file(fixture("leaf.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(tls, raw.stream)
}

pub(super) fn start(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    start_as(stream, "sekisho")
}

fn start_as(stream: &mut (impl Read + Write), user: &str) -> std::io::Result<()> {
    let database = account(server().url().as_str()).get_dbname().unwrap().to_owned();
    let mut out = Vec::new();
    let parameters = [(&b"user"[..], user.as_bytes()), (b"database", database.as_bytes())];
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

/// A connection whose TLS was asked for and promised.
pub(super) fn promised(gate: &Gate) -> Raw {
    let mut raw = Raw::connect(gate);
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    raw.say(&out);
    let mut answer = [0];
    raw.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"S");
    raw
}

pub(super) fn tls(mode: TlsMode) -> ClientTls {
    ClientTls {
        mode,
        authorities: Authorities::File(fixture("authority.pem")),
        ..Tls { cert: fixture("server.pem"), key: fixture("server.key") }.into()
    }
}

/// What becomes of a client that shows a certificate, or none, and claims to be `user`.
fn becomes(gate: &Gate, identity: Option<&str>, user: &str) -> String {
    let mut stream = encrypted_as(promised(gate), &[], identity, &[&TLS12, &TLS13]);
    let came = start_as(&mut stream, user).and_then(|()| {
        let mut head = [0; HEAD];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body)?;
        Ok(if head[0] == b'E' { shown(&body) } else { "in".to_owned() })
    });
    came.unwrap_or_else(|error| format!("no session: {error}"))
}

#[test]
fn clients_are_known_by_their_certificates() {
    runtime().block_on(async {
        ask(&directly().await, "create role alice login password 'mine'").await.unwrap();
    });
    let mut database = database(Mode::Transaction, 1);
    database.login = Some((b"alice".to_vec(), Credential::Password(b"mine".to_vec())));
    let mut config = known(database.clone());
    config.tls = Some(tls(TlsMode::VerifyFull));
    config.admission = Admission::Certificates;
    let gate = Gate::new(config);
    assert_eq!(becomes(&gate, Some("alice.pem"), "alice"), "in");
    let other = becomes(&gate, Some("alice.pem"), "sekisho");
    assert_eq!(other, "FATAL 28000 certificate authentication failed for user \"sekisho\"");
    for identity in [None, Some("mallory.pem")] {
        let refused = becomes(&gate, identity, "alice");
        assert!(refused.starts_with("no session: received fatal alert"), "{refused}");
    }
    gate.end();

    // Where rules say who must show one, others need not.
    let mut config = known(database);
    config.tls = Some(tls(TlsMode::Prefer));
    let rules = "hostssl all alice all cert\nhostssl all bob all trust clientcert=verify-ca\n\
                 hostssl all carol all trust\n";
    config.admission = Admission::Rules(Hba::parse(rules).unwrap());
    let gate = Gate::new(config);
    let missing = "FATAL 28000 connection requires a valid client certificate";
    assert_eq!(becomes(&gate, Some("alice.pem"), "alice"), "in");
    assert_eq!(becomes(&gate, None, "alice"), missing);
    assert_eq!(becomes(&gate, None, "bob"), missing);
    assert_eq!(becomes(&gate, Some("alice.pem"), "bob"), "in");
    assert_eq!(becomes(&gate, None, "carol"), "in");
    let refused = becomes(&gate, Some("mallory.pem"), "carol");
    assert!(refused.starts_with("no session: "), "what is shown must be right: {refused}");
    gate.end();
    runtime().block_on(async { ask(&directly().await, "drop role alice").await.unwrap() });
}

#[test]
fn who_must_be_encrypted_or_speak_the_newest_is_refused_otherwise() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.tls = Some(ClientTls { oldest: TlsVersion::V13, ..tls(TlsMode::Require) });
    let gate = Gate::new(config);
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &[]);
    assert!(raw.last_words().starts_with("FATAL 28000 connection requires TLS"));
    let mut stream = encrypted_as(promised(&gate), &[], None, &[&TLS12]);
    let refused = start(&mut stream).and_then(|()| heard(&mut stream)).unwrap_err();
    assert!(refused.to_string().contains("ProtocolVersion"), "{refused}");
    is_in(&mut encrypted_as(promised(&gate), &[], None, &[&TLS13]));
    gate.end();
    let mut config = trusting(database(Mode::Transaction, 1));
    config.admission = Admission::Certificates;
    let error = monitor::Monitor::bind(config).unwrap_err().to_string();
    assert!(error.contains("verify-ca or verify-full"), "{error}");
}

fn is_in(stream: &mut Encrypted) {
    start(stream).unwrap();
    heard(stream).unwrap();
}

/// A client that logs in by SCRAM and is bound as it thinks it is; what it is told at the end.
fn proves(gate: &Gate, binding: Binding) -> String {
    let mut stream = encrypted(promised(gate), &[]);
    start(&mut stream).unwrap();
    let terms = Terms { binding, ..Terms::default() };
    let mut login = Login::new(b"sekisho", Credential::Password(password()), terms, [3; 18]);
    loop {
        let mut head = [0; HEAD];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body).unwrap();
        if head[0] == b'E' {
            return shown(&body);
        }
        let mut out = Vec::new();
        match login.answer(&read::authentication(&body).unwrap(), &mut out).unwrap() {
            LoginStep::In => return "in".to_owned(),
            LoginStep::Waits(next) => login = next,
        }
        stream.write_all(&out).unwrap();
    }
}

#[test]
fn a_client_may_bind_its_proof_to_the_gate_s_certificate_and_nobody_sits_in_between() {
    let mut config = known(database(Mode::Transaction, 1));
    config.tls = Some(Tls { cert: fixture("server.pem"), key: fixture("server.key") }.into());
    let gate = Gate::new(config);
    let of = |name: &str| {
        let certificate = CertificateDer::from_pem_file(fixture(name)).unwrap();
        Binding::of_certificate(&certificate)
    };
    assert_eq!(proves(&gate, of("server.pem")), "in");
    assert_eq!(proves(&gate, Binding::Absent), "in", "it need not");
    let other = proves(&gate, of("database.pem"));
    assert_eq!(other, "FATAL 28000 SCRAM channel binding check failed");
    // Somebody has hidden the offer from a client that could bind.
    let mut stream = encrypted(promised(&gate), &[]);
    start(&mut stream).unwrap();
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).unwrap();
    let mut offer = vec![0; head[4] as usize - 4];
    stream.read_exact(&mut offer).unwrap();
    assert_eq!(&offer[4..], b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    let mut out = Vec::new();
    write::sasl_initial_response(&mut out, "SCRAM-SHA-256", b"y,,n=,r=abcdefghijklmnop");
    stream.write_all(&out).unwrap();
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; head[4] as usize - 4];
    stream.read_exact(&mut body).unwrap();
    let words = shown(&body);
    assert!(words.starts_with("FATAL 28000 SCRAM channel binding negotiation error"), "{words}");
    // And libpq, where it is there to witness.
    let psql = server().programs().folder().join("psql");
    if psql.exists() {
        let url = account(server().url().as_str());
        let told = std::process::Command::new(psql)
            .arg(format!(
                "host=127.0.0.1 port={} user=sekisho dbname={} sslmode=require \
                 channel_binding=require",
                gate.address().port(),
                url.get_dbname().unwrap()
            ))
            .args(["-Atc", "select 'bound'"])
            .env("PGPASSWORD", String::from_utf8(password()).unwrap())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&told.stdout), "bound\n", "{told:?}");
    }
    gate.end();
}

#[test]
fn a_certificate_is_changed_and_nobody_is_dropped() {
    let gate = Gate::new(config());
    let mut before = encrypted(promised(&gate), &[]);
    is_in(&mut before);
    let shown = |stream: &Encrypted| stream.conn.peer_certificates().unwrap()[0].as_ref().to_vec();
    let of = |name: &str| CertificateDer::from_pem_file(fixture(name)).unwrap().to_vec();
    assert_eq!(shown(&before), of("server.pem"));
    let next = Tls { cert: fixture("database.pem"), key: fixture("leaf.key") };
    let missing = Tls { cert: fixture("none.pem"), key: fixture("leaf.key") };
    let failed = gate.handle.encrypt_clients(Some(&missing.into()));
    assert!(matches!(failed, Err(ControlError::Tls(_))), "{failed:?}");
    gate.handle.encrypt_clients(Some(&next.into())).unwrap();
    let mut after = encrypted(promised(&gate), &[]);
    is_in(&mut after);
    assert_eq!(shown(&after), of("database.pem"));
    gate.handle.encrypt_clients(None).unwrap();
    let mut raw = Raw::connect(&gate);
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    raw.say(&out);
    let mut answer = [0];
    raw.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    for stream in [&mut before, &mut after] {
        let mut out = Vec::new();
        write::query(&mut out, "select 'still here'");
        stream.write_all(&out).unwrap();
        assert!(heard(stream).unwrap().iter().any(|(tag, _)| *tag == b'D'));
    }
    gate.end();
}
