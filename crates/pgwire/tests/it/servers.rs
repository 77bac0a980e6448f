//! Our client side against a real PostgreSQL: a private one, with users for every method.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pgtest::Bound;
use pgwire::auth::{Binding, Cleartext, Credential, Login, LoginError, LoginStep, Method, Terms};
use pgwire::frame::{Backend, Frames, HEAD, Limits, Piece};
use pgwire::message::{Status, read, write};
use pgwire::secrets::{Certificate, Facts, Hba, MockKey, Origin, Secret, Transport};
use pgwire::startup::{Replication, Version, write_cancel, write_ssl_request, write_startup};
use postgres::{Private, Settings};
use tokio_postgres::NoTls;
use tokio_rustls::rustls;

use super::{CLIENT_NONCE, meet};

/// The rules of admission; `sekisho` is the user of the private server itself.
const RULES: &str = "\
    host all sekisho 127.0.0.1/32 scram-sha-256\n\
    host all trusty 127.0.0.1/32 trust\n\
    host all plain 127.0.0.1/32 password\n\
    host all hashed 127.0.0.1/32 md5\n\
    hostssl all sealed 127.0.0.1/32 scram-sha-256\n\
    host all salted 127.0.0.1/32 scram-sha-256\n\
    host all rejected 127.0.0.1/32 reject\n";
const PASSWORD: &str = "p\u{e4}ss 'word\"";

const KEY: &[u8] = include_bytes!("../../../tls/tests/certificates/server.key");
const CERTIFICATE: &[u8] = include_bytes!("../../../tls/tests/certificates/server.pem");

/// The server of all tests here; it ends with this process.
fn server() -> &'static Private {
    // A test has a connection or two, and PostgreSQL's default is 100.
    static CONNECTIONS: Bound = Bound::of(100, 8);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters = [("fsync", "off"), ("shared_buffers", "16MB")];
        let parameters =
            parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut server = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
        ask(
            &server,
            &format!(
                "create role trusty login; create role rejected login;
                 set password_encryption = 'md5'; create role hashed login password $${PASSWORD}$$;
                 set password_encryption = 'scram-sha-256';
                 create role plain login password $${PASSWORD}$$;
                 create role sealed login password $${PASSWORD}$$;
                 create role salted login password $${PASSWORD}$$"
            ),
        );
        ask(&server, "alter system set ssl = on");
        let data = server.data();
        fs::write(data.join("pg_hba.conf"), RULES).unwrap();
        // The key must be its owner's alone, and the owner the server's user.
        for (name, content) in [("server.key", KEY), ("server.crt", CERTIFICATE)] {
            use std::os::unix::fs::{OpenOptionsExt, chown};
            let mut options = fs::OpenOptions::new();
            let path = data.join(name);
            options
                .create(true)
                .write(true)
                .mode(0o600)
                .open(&path)
                .unwrap()
                .write_all(content)
                .unwrap();
            if let Some((user, group)) = server.user() {
                chown(&path, Some(user), Some(group)).unwrap();
            }
        }
        server.restart().unwrap();
        server
    })
}

/// The first column of the first row that the private server's own user is told.
fn ask(server: &Private, sql: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(server.url().as_str(), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let answer = client.simple_query(sql).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
        let row = answer.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        row.unwrap_or_default().to_owned()
    })
}

/// A connection, and what was read of it.
struct Wire<S> {
    stream: S,
    buffer: Vec<u8>,
    frames: Frames<Backend>,
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server().port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

impl<S: Read + Write> Wire<S> {
    fn new(stream: S) -> Wire<S> {
        let limits = Limits { whole_max: 65_536, ..Limits::SESSION };
        Wire { stream, buffer: Vec::new(), frames: Frames::new(limits) }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    /// The next message.
    fn next(&mut self) -> (Backend, Vec<u8>) {
        loop {
            match self.frames.look(&self.buffer).unwrap() {
                Piece::Whole { tag, len } => {
                    let message: Vec<u8> = self.buffer.drain(..len).collect();
                    return (tag, message[HEAD..].to_vec());
                }
                Piece::More { .. } => {
                    let mut portion = [0; 4096];
                    let read = self.stream.read(&mut portion).unwrap();
                    assert!(read > 0, "the server closed the connection");
                    self.buffer.extend_from_slice(&portion[..read]);
                }
                piece => panic!("{piece:?}"),
            }
        }
    }

    fn asks(&mut self, sql: &str) {
        let mut out = Vec::new();
        write::query(&mut out, sql);
        self.send(&out);
    }
}

/// A session, as its server has begun it.
struct Session<S> {
    wire: Wire<S>,
    process: u32,
    key: Vec<u8>,
    parameters: Vec<(String, String)>,
    negotiated: Option<(Version, usize)>,
}

#[derive(Debug, PartialEq)]
enum Refused {
    /// With this code.
    Server(String),
    Login(LoginError),
}

fn log_in<S: Read + Write>(
    stream: S,
    user: &str,
    credential: Credential,
    terms: Terms,
    version: Version,
    more: &[(&[u8], &[u8])],
) -> Result<Session<S>, Refused> {
    let mut wire = Wire::new(stream);
    let mut out = Vec::new();
    let mut parameters = vec![(&b"user"[..], user.as_bytes()), (b"database", b"postgres")];
    parameters.extend_from_slice(more);
    write_startup(&mut out, version, parameters).unwrap();
    let mut login = Login::new(user.as_bytes(), credential, terms, CLIENT_NONCE);
    let mut negotiated = None;
    loop {
        wire.send(&std::mem::take(&mut out));
        let (tag, body) = wire.next();
        match tag {
            Backend::NegotiateProtocolVersion => {
                let found = read::negotiate_protocol_version(&body).unwrap();
                negotiated = Some((found.version, found.unknown_options().count()));
            }
            Backend::Authentication => {
                let asked = read::authentication(&body).unwrap();
                match login.answer(&asked, &mut out).map_err(Refused::Login)? {
                    LoginStep::Waits(waits) => login = waits,
                    LoginStep::In => break,
                }
            }
            Backend::ErrorResponse => {
                let fields = read::fields(&body).unwrap();
                assert_eq!(fields.severity(), Some(&b"FATAL"[..]));
                return Err(Refused::Server(fields.sqlstate().unwrap().to_string()));
            }
            other => panic!("{other:?}"),
        }
    }
    let (mut process, mut key, mut parameters) = (0, Vec::new(), Vec::new());
    loop {
        let (tag, body) = wire.next();
        match tag {
            Backend::ParameterStatus => {
                let (name, value) = read::parameter_status(&body).unwrap();
                let [name, value] =
                    [name, value].map(|text| String::from_utf8(text.to_vec()).unwrap());
                parameters.push((name, value));
            }
            Backend::BackendKeyData => {
                let (number, bytes) = read::backend_key_data(&body).unwrap();
                (process, key) = (number, bytes.to_vec());
            }
            Backend::ReadyForQuery => {
                assert_eq!(read::ready_for_query(&body), Ok(Status::Idle));
                return Ok(Session { wire, process, key, parameters, negotiated });
            }
            other => panic!("{other:?}"),
        }
    }
}

fn comes_in(user: &str, credential: Credential) -> Result<(), Refused> {
    let terms = Terms { cleartext: Cleartext::Allowed, ..Terms::default() };
    log_in(connect(), user, credential, terms, Version::V3_0, &[]).map(drop)
}

fn password(text: &str) -> Credential {
    Credential::Password(text.as_bytes().to_vec())
}

fn refused(code: &str) -> Result<(), Refused> {
    Err(Refused::Server(code.to_owned()))
}

#[test]
fn a_server_lets_in_who_proves_it_by_its_method_and_nobody_else() {
    assert_eq!(comes_in("trusty", Credential::Nothing), Ok(()));
    for user in ["plain", "hashed", "salted"] {
        assert_eq!(comes_in(user, password(PASSWORD)), Ok(()), "{user}");
        assert_eq!(comes_in(user, password("wrong")), refused("28P01"), "{user}");
        let error = comes_in(user, Credential::Nothing).unwrap_err();
        assert!(matches!(error, Refused::Login(LoginError::Credential { .. })), "{error:?}");
    }
    // SCRAM knows a password by what it is prepared to, a hash by its bytes alone.
    let decomposed = PASSWORD.replace('\u{e4}', "a\u{308}");
    assert_ne!(decomposed, PASSWORD);
    assert_eq!(comes_in("salted", password(&decomposed)), Ok(()));
    assert_eq!(comes_in("hashed", password(&decomposed)), refused("28P01"));
    assert_eq!(comes_in("rejected", password(PASSWORD)), refused("28000"));
    assert_eq!(comes_in("nobody", password(PASSWORD)), refused("28000"));
    // Without TLS the rule of this user does not match.
    assert_eq!(comes_in("sealed", password(PASSWORD)), refused("28000"));
}

#[test]
fn a_password_goes_in_clear_only_where_that_is_allowed() {
    let plain =
        |terms| log_in(connect(), "plain", password(PASSWORD), terms, Version::V3_0, &[]).map(drop);
    assert_eq!(plain(Terms::default()), Err(Refused::Login(LoginError::Cleartext)));
}

/// The server's stored secret of a user.
fn stored(user: &str) -> Secret {
    let text =
        ask(server(), &format!("select rolpassword from pg_authid where rolname = '{user}'"));
    assert!(text.len() > 30, "{text}");
    Secret::stored(user.as_bytes(), &text, &MockKey::new([9; 32])).unwrap()
}

#[test]
fn a_stored_hash_logs_in_by_md5_and_keys_of_a_client_by_scram() {
    assert_eq!(comes_in("hashed", stored("hashed").credential()), Ok(()));
    // A client proves itself to the gate, by the secret of the server; the gate then is that client.
    let secret = stored("salted");
    let met =
        meet(Method::ScramSha256, &secret, Binding::Absent, password(PASSWORD), Terms::default());
    let keys = met.unwrap().passed;
    assert_eq!(comes_in("salted", keys.clone()), Ok(()));
    // The same password, but another salt: these keys are of `salted` alone.
    // Keys are no password.
    let error = comes_in("plain", keys).unwrap_err();
    assert!(matches!(error, Refused::Login(LoginError::Credential { .. })), "{error:?}");
    // The same password under another salt is another secret.
    let other = stored("plain");
    let met =
        meet(Method::ScramSha256, &other, Binding::Absent, password(PASSWORD), Terms::default());
    assert_eq!(comes_in("salted", met.unwrap().passed), refused("28P01"));
}

#[test]
fn newer_versions_and_unknown_options_are_negotiated() {
    let of_server: u32 = ask(server(), "show server_version_num").parse().unwrap();
    let newest = if of_server >= 180_000 { Version::V3_2 } else { Version::V3_0 };
    let begin = |version, more: &[(&[u8], &[u8])]| {
        let session =
            log_in(connect(), "trusty", Credential::Nothing, Terms::default(), version, more);
        session.map_err(|error| format!("{error:?}")).unwrap()
    };
    let plain = begin(Version::V3_0, &[]);
    assert_eq!((plain.negotiated, plain.key.len()), (None, 4));
    assert!(plain.parameters.iter().any(|(name, _)| name == "server_version"));
    let newer = begin(Version::V3_2, &[]);
    let negotiated = (newest != Version::V3_2).then_some((Version::V3_0, 0));
    assert_eq!(newer.negotiated, negotiated);
    assert_eq!(newer.key.len(), if newest == Version::V3_2 { 32 } else { 4 });
    let options: [(&[u8], &[u8]); 2] = [(b"_pq_.a", b"1"), (b"_pq_.b", b"2")];
    let greased = begin(Version { major: 3, minor: 9999 }, &options);
    assert_eq!(greased.negotiated, Some((newest, 2)));
}

#[test]
fn settings_at_the_start_are_read_as_the_server_reads_them() {
    let options = b"-c work_mem=5MB --statement-timeout=77s -c DateStyle=SQL,\\ DMY";
    let more: [(&[u8], &[u8]); 2] = [(b"options", options), (b"application_name", b"me")];
    let session =
        log_in(connect(), "trusty", Credential::Nothing, Terms::default(), Version::V3_0, &more);
    let mut session = session.map_err(|error| format!("{error:?}")).unwrap();
    let mut packet = Vec::new();
    let pairs = [(&b"user"[..], &b"trusty"[..])].into_iter().chain(more);
    write_startup(&mut packet, Version::V3_0, pairs).unwrap();
    let mut opening = pgwire::startup::Opening::in_clear();
    let Ok(pgwire::startup::Packet::Startup(startup)) = opening.read(&packet) else {
        panic!("it is a start-up packet");
    };
    for setting in startup.settings().unwrap() {
        let name = String::from_utf8(setting.name).unwrap();
        session.wire.asks(&format!("show {name}"));
        let mut shown = Vec::new();
        loop {
            match session.wire.next() {
                // One column: its count, its length, its text.
                (Backend::DataRow, body) => shown = body[6..].to_vec(),
                (Backend::ReadyForQuery, _) => break,
                (Backend::RowDescription | Backend::CommandComplete, _) => {}
                other => panic!("{other:?}"),
            }
        }
        let shown = String::from_utf8(shown).unwrap();
        let value = String::from_utf8(setting.value).unwrap();
        let same = if name == "statement_timeout" { "77s" } else { &value };
        assert_eq!(shown, same, "{name}");
    }
}

#[test]
fn a_query_is_cancelled_by_its_key_and_by_no_other() {
    let session =
        log_in(connect(), "trusty", Credential::Nothing, Terms::default(), Version::V3_2, &[]);
    let mut session = session.map_err(|error| format!("{error:?}")).unwrap();
    session.wire.asks("select pg_sleep(60)");
    // What comes before the query cancels nothing.
    let sleeps = format!(
        "select count(*) from pg_stat_activity where pid = {} and wait_event = 'PgSleep'",
        session.process
    );
    while ask(server(), &sleeps) != "1" {}
    let mut wrong = session.key.clone();
    wrong[0] ^= 1;
    for key in [&wrong, &session.key] {
        let mut out = Vec::new();
        write_cancel(&mut out, session.process, key).unwrap();
        let mut stream = connect();
        stream.write_all(&out).unwrap();
        // No answer; the server closes when it has done what it does.
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
    // The row's description may come first.
    let body = loop {
        match session.wire.next() {
            (Backend::ErrorResponse, body) => break body,
            (Backend::RowDescription, _) => {}
            other => panic!("{other:?}"),
        }
    };
    let fields = read::fields(&body).unwrap();
    assert_eq!(fields.sqlstate().unwrap().as_str(), "57014");
    assert_eq!(session.wire.next(), (Backend::ReadyForQuery, b"I".to_vec()));
}

#[test]
fn our_reading_of_the_rules_is_the_servers() {
    let hba = Hba::parse(RULES).unwrap();
    let decide = |user: &str, transport| {
        let origin = Origin::Network { address: "127.0.0.1".parse().unwrap(), transport };
        let facts = Facts {
            origin,
            user: user.as_bytes(),
            database: b"postgres",
            replication: Replication::No,
        };
        hba.decide(&facts).map(|admission| {
            assert_eq!(admission.certificate, Certificate::Unneeded);
            admission.method
        })
    };
    for (user, method) in [
        ("trusty", Method::Trust),
        ("plain", Method::Password),
        ("hashed", Method::Md5),
        ("salted", Method::ScramSha256),
    ] {
        assert_eq!(decide(user, Transport::Clear), Ok(method));
    }
    assert_eq!(decide("sealed", Transport::Tls), Ok(Method::ScramSha256));
    for user in ["sealed", "rejected", "nobody"] {
        let refusal = decide(user, Transport::Clear).unwrap_err();
        // The server says the same to the same client.
        let code = refusal.sqlstate().to_string();
        assert_eq!(comes_in(user, password(PASSWORD)), refused(&code));
    }
}

/// Trusts whoever answers: what binds to the certificate is what is tested.
#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection that has asked for TLS and got it, and the hash of the server's certificate.
fn connect_tls() -> (rustls::StreamOwned<rustls::ClientConnection, TcpStream>, Vec<u8>) {
    let mut stream = connect();
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    stream.write_all(&out).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"S");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).unwrap();
    }
    let certificate = &connection.peer_certificates().unwrap()[0];
    // The certificate is signed with SHA-256, so this is its hash for binding (RFC 5929, section 4.1).
    let hash = ring::digest::digest(&ring::digest::SHA256, certificate).as_ref().to_vec();
    (rustls::StreamOwned::new(connection, stream), hash)
}

#[test]
fn scram_is_bound_to_the_tls_connection_of_a_real_server() {
    let with = |change: fn(&mut Vec<u8>)| {
        let (stream, mut hash) = connect_tls();
        change(&mut hash);
        let terms = Terms { binding: Binding::EndPoint(hash), ..Terms::default() };
        log_in(stream, "sealed", password(PASSWORD), terms, Version::V3_0, &[]).map(drop)
    };
    assert_eq!(with(|_| {}), Ok(()));
    // Bound to another certificate: only who speaks SCRAM-SHA-256-PLUS is refused for that.
    assert_eq!(with(|hash| hash[0] ^= 1), refused("28000"));
    let (stream, _) = connect_tls();
    let unbound =
        log_in(stream, "sealed", password(PASSWORD), Terms::default(), Version::V3_0, &[]);
    assert_eq!(unbound.map(drop), Ok(()));
}
