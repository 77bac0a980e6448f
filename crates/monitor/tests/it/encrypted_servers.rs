//! TLS towards servers, in libpq's modes: a private PostgreSQL with a certificate, and servers that
//! are made to misbehave.
//!
//! The certificates in `crates/tls/tests/certificates` are good for a hundred years, but for `expired.pem`. Those of
//! `authority.pem`: `database.pem` of a server named `localhost`, signed with SHA-384, and `alice.pem` of
//! a client. `mallory.pem` claims to be alice too, but is of `stranger.pem`. All have the key `leaf.key`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use monitor::{
    Address, Authorities, Config, Database, Encryption, EncryptionError, Mode, Negotiation,
    ServerTls, Tls, TlsMode, TlsVersion,
};
use pgwire::auth::{Binding, Check, Checked, Credential, Method};
use pgwire::frame::HEAD;
use pgwire::message::{Status, write};
use pgwire::secrets::{MockKey, Secret};
use pgwire::startup::{ALPN, Version};
use postgres::{Private, Settings};
use tokio_postgres::Client;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use pgtest::{certify, fixture};

use super::{
    CONNECTIONS, CONNECTIONS_MAX, Gate, Raw, account, ask, code, database, enter, login, runtime,
    server, trusting,
};

/// Who may come in how: the users' names say it.
const RULES: &str = "local all all scram-sha-256\n\
    hostssl all by_tls all scram-sha-256\n\
    hostnossl all by_clear all scram-sha-256\n\
    hostssl all by_word all password\n\
    hostssl all alice all cert\n\
    host all sekisho all scram-sha-256\n";

/// A server with a certificate; it ends with this process.
pub(super) fn encrypted_server() -> &'static Private {
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let most = CONNECTIONS_MAX.to_string();
        let parameters =
            [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", &*most)];
        let parameters =
            parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut server = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
        runtime().block_on(async {
            let own = enter(&account(server.url().as_str())).await.unwrap();
            for role in ["by_tls", "by_clear", "by_word", "alice"] {
                let sql = format!("create role {role} login password 'mine'");
                ask(&own, &sql).await.unwrap();
            }
        });
        certify(&mut server, RULES);
        server
    })
}

pub(super) fn wanted(mode: TlsMode, authority: Option<&str>) -> ServerTls {
    let authorities = authority.map(|name| Authorities::File(fixture(name))).unwrap_or_default();
    ServerTls { mode, authorities, ..ServerTls::default() }
}

/// The address of a server under a name that certificates know.
pub(super) fn named(port: u16) -> Address {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Address::Host { name: "localhost".to_owned(), address }
}

pub(super) fn unnamed(port: u16) -> Address {
    Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// One server, where `role` logs in, encrypted as is wanted.
pub(super) fn behind(address: Address, wanted: &ServerTls, role: &str) -> Database {
    let mut database = database(Mode::Transaction, 2);
    database.servers = vec![address];
    database.server_tls = Encryption::load(wanted).unwrap();
    if role != "sekisho" {
        database.login = Some((role.as_bytes().to_vec(), Credential::Password(b"mine".to_vec())));
    } else {
        database.login = login(encrypted_server());
    }
    database
}

async fn comes(gate: &Gate, role: &str) -> Result<Client, tokio_postgres::Error> {
    let mut account = gate.account();
    account.user(role);
    enter(&account).await
}

const HOW: &str = "select coalesce(version, 'clear') from pg_stat_ssl where pid = pg_backend_pid()";

/// How the gate came to the server, or why it did not.
fn way(address: Address, wanted: &ServerTls, role: &str) -> String {
    let gate = Gate::new(trusting(behind(address, wanted, role)));
    let way = runtime().block_on(async {
        match comes(&gate, role).await {
            Ok(client) => ask(&client, HOW).await.unwrap(),
            Err(error) => {
                let words = error.as_db_error().map(|error| error.message().to_owned());
                format!("{} {}", code(&error), words.unwrap_or_default())
            }
        }
    });
    gate.end();
    way
}

#[test]
fn a_server_is_reached_as_libpq_s_modes_have_it() {
    let port = encrypted_server().port();
    let by_name = || named(port);
    let by_number = || unnamed(port);
    let ours = Some("authority.pem");
    let theirs = Some("stranger.pem");
    let refused = "28000 no pg_hba.conf entry";
    let unknown =
        "08006 the server cannot be reached: TLS: invalid peer certificate: UnknownIssuer";
    use TlsMode::{Allow, Disable, Prefer, Require, VerifyCa, VerifyFull};
    let cases: [(TlsMode, Option<&str>, Address, &str, &str); 17] = [
        (Disable, None, by_name(), "sekisho", "clear"),
        (Disable, None, by_name(), "by_tls", refused),
        (Allow, None, by_name(), "sekisho", "clear"),
        (Allow, None, by_name(), "by_tls", "TLSv1.3"),
        (Prefer, None, by_name(), "sekisho", "TLSv1.3"),
        (Prefer, None, by_name(), "by_clear", "clear"),
        // Nothing is verified that would not have to be encrypted.
        (Prefer, theirs, by_name(), "sekisho", "TLSv1.3"),
        (Require, None, by_number(), "by_tls", "TLSv1.3"),
        (Require, None, by_name(), "by_clear", refused),
        (Require, ours, by_number(), "by_tls", "TLSv1.3"),
        (Require, theirs, by_name(), "by_tls", unknown),
        (VerifyCa, ours, by_number(), "by_tls", "TLSv1.3"),
        (VerifyCa, theirs, by_number(), "by_tls", unknown),
        (VerifyFull, ours, by_name(), "by_tls", "TLSv1.3"),
        (VerifyFull, theirs, by_name(), "by_tls", unknown),
        (VerifyFull, ours, by_number(), "by_tls", "08006 the server cannot be reached: TLS"),
        (VerifyFull, ours, by_number(), "sekisho", "08006 the server cannot be reached: TLS"),
    ];
    for (mode, authority, address, role, expected) in cases {
        let found = way(address.clone(), &wanted(mode, authority), role);
        assert!(found.starts_with(expected), "{mode} {authority:?} {address} {role}: {found}");
        let is_misnamed = expected.ends_with("TLS");
        assert_eq!(is_misnamed, found.contains("not valid for name"), "{found}");
    }
    let socket = account(encrypted_server().socket_url().as_str());
    let folder = match &socket.get_hosts()[0] {
        tokio_postgres::config::Host::Unix(folder) => folder.clone(),
        tokio_postgres::config::Host::Tcp(_) => panic!("no socket"),
    };
    let address = Address::Unix(folder.join(format!(".s.PGSQL.{port}")));
    let found = way(address, &wanted(VerifyFull, ours), "sekisho");
    assert_eq!(found, "clear", "a Unix socket needs none");
}

#[test]
fn the_gate_shows_its_own_certificate_to_servers_that_want_one() {
    let identity =
        |name: &str| Some(Tls { cert: fixture(&format!("{name}.pem")), key: fixture("leaf.key") });
    let of =
        |identity| ServerTls { identity, ..wanted(TlsMode::VerifyFull, Some("authority.pem")) };
    let port = encrypted_server().port();
    assert_eq!(way(named(port), &of(identity("alice")), "alice"), "TLSv1.3");
    let oldest = ServerTls { oldest: TlsVersion::V13, ..of(identity("alice")) };
    assert_eq!(way(named(port), &oldest, "alice"), "TLSv1.3");
    let none = way(named(port), &of(None), "alice");
    assert!(none.starts_with("28000 connection requires a valid client certificate"), "{none}");
    let other = way(named(port), &of(identity("mallory")), "alice");
    assert!(
        other.starts_with("08006 the server cannot be reached: TLS: received fatal"),
        "{other}"
    );
}

#[test]
fn a_password_in_clear_is_only_for_servers_that_are_verified() {
    let port = encrypted_server().port();
    let verified = wanted(TlsMode::VerifyCa, Some("authority.pem"));
    assert_eq!(way(named(port), &verified, "by_word"), "TLSv1.3");
    let anybody = way(named(port), &wanted(TlsMode::Require, None), "by_word");
    assert!(anybody.contains("asks for a password in clear"), "{anybody}");
}

#[test]
fn a_server_that_speaks_no_tls_is_taken_only_where_that_will_do() {
    let at = |mode, authority| {
        let mut database = database(Mode::Transaction, 1);
        database.server_tls = Encryption::load(&wanted(mode, authority)).unwrap();
        let gate = Gate::new(trusting(database));
        let came = runtime().block_on(async { comes(&gate, "sekisho").await.map(drop) });
        gate.end();
        came.map_err(|error| error.as_db_error().unwrap().message().to_owned())
    };
    assert_eq!(at(TlsMode::Prefer, None), Ok(()));
    assert_eq!(at(TlsMode::Allow, None), Ok(()));
    for (mode, authority) in
        [(TlsMode::Require, None), (TlsMode::VerifyFull, Some("authority.pem"))]
    {
        let words = at(mode, authority).unwrap_err();
        assert!(words.contains("it does not speak TLS"), "{words}");
    }
    assert!(server().port() > 0);
}

#[test]
fn encryption_that_cannot_be_is_refused_before_anything_is_connected() {
    let direct = |mode| {
        let wanted = ServerTls { negotiation: Negotiation::Direct, ..wanted(mode, None) };
        Encryption::load(&wanted).map(drop)
    };
    assert_eq!(direct(TlsMode::Require), Ok(()));
    assert_eq!(direct(TlsMode::Prefer), Err(EncryptionError::Direct { mode: TlsMode::Prefer }));
    let mode = TlsMode::VerifyFull;
    let none = Encryption::load(&wanted(mode, None)).map(drop);
    assert_eq!(none, Err(EncryptionError::NoAuthority { mode }));
    for name in ["no-such-file.pem", "leaf.key"] {
        let error = Encryption::load(&wanted(mode, Some(name))).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    // Other files are other encryption, though all is named the same.
    let load = |name| Encryption::load(&wanted(mode, Some(name))).unwrap();
    assert!(load("authority.pem") == load("authority.pem"));
    assert!(load("authority.pem") != load("stranger.pem"));
}

/// What one connection of the gate meets.
pub(super) type Part = fn(TcpStream);

/// A server that plays a part, with each connection.
pub(super) fn acting(part: Part) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            thread::spawn(move || part(stream));
        }
    });
    port
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

fn is_asked(stream: &mut TcpStream) {
    let mut request = [0; 8];
    stream.read_exact(&mut request).unwrap();
    assert_eq!(request, SSL_REQUEST);
}

/// The inside of TLS, with one of the certificates.
fn inside(
    stream: TcpStream,
    certificate: &str,
    protocols: &[&[u8]],
) -> StreamOwned<ServerConnection, TcpStream> {
    let chain = CertificateDer::pem_file_iter(fixture(certificate)).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("leaf.key")).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

/// Reads the start-up packet, lets the gate in, and ends.
fn let_in(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    greet(stream)?;
    // Until the gate goes.
    let _ = stream.read(&mut [0; 16]);
    Ok(())
}

/// Reads the start-up packet and lets the gate in.
fn greet(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut packet = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut packet)?;
    let mut out = Vec::new();
    write::authentication_ok(&mut out);
    write::backend_key_data(&mut out, 1, &[1, 2, 3, 4]);
    write::ready_for_query(&mut out, Status::Idle);
    stream.write_all(&out)?;
    stream.flush()
}

/// What a client hears of a gate before a server that plays a part.
fn meets(part: Part, wanted: &ServerTls) -> Result<(), String> {
    let mut config = trusting(behind(named(acting(part)), wanted, "by_tls"));
    config.timeouts.connect = Duration::from_secs(5);
    let gate = Gate::new(config);
    let came = runtime().block_on(async { comes(&gate, "by_tls").await.map(drop) });
    gate.end();
    came.map_err(|error| error.as_db_error().unwrap().message().to_owned())
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let expired = |mut stream: TcpStream| {
        is_asked(&mut stream);
        stream.write_all(b"S").unwrap();
        let _ = let_in(&mut inside(stream, "expired.pem", &[]));
    };
    let words = meets(expired, &wanted(TlsMode::VerifyFull, Some("authority.pem"))).unwrap_err();
    assert!(words.contains("peer certificate: Expired"), "{words}");
    assert_eq!(meets(expired, &wanted(TlsMode::Require, None)), Ok(()), "nothing is verified");
}

#[test]
fn nothing_in_clear_passes_for_encrypted() {
    // Behind its promise of TLS comes what would be an answer, in one packet.
    let injects = |mut stream: TcpStream| {
        is_asked(&mut stream);
        let mut out = b"S".to_vec();
        write::authentication_ok(&mut out);
        write::ready_for_query(&mut out, Status::Idle);
        stream.write_all(&out).unwrap();
        let _ = stream.read(&mut [0; 16]);
    };
    let later = |mut stream: TcpStream| {
        is_asked(&mut stream);
        stream.write_all(b"S").unwrap();
        // The gate's handshake has begun; this is none.
        let _ = stream.read(&mut [0; 1]);
        let mut out = Vec::new();
        write::authentication_ok(&mut out);
        write::ready_for_query(&mut out, Status::Idle);
        stream.write_all(&out).unwrap();
        // What is unread when this closes would reset the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let declines = |mut stream: TcpStream| {
        is_asked(&mut stream);
        let mut out = b"N".to_vec();
        write::authentication_ok(&mut out);
        stream.write_all(&out).unwrap();
        let _ = stream.read(&mut [0; 16]);
    };
    let errs = |mut stream: TcpStream| {
        is_asked(&mut stream);
        stream.write_all(b"E").unwrap();
        let _ = stream.read(&mut [0; 16]);
    };
    let require = wanted(TlsMode::Require, None);
    for (part, words) in [
        (injects as Part, "sent bytes in clear"),
        (later, "TLS: "),
        (errs, "answered a request for TLS with byte 69"),
    ] {
        let heard = meets(part, &require).unwrap_err();
        assert!(heard.contains(words), "{heard}");
    }
    let prefer = wanted(TlsMode::Prefer, None);
    let heard = meets(declines, &prefer).unwrap_err();
    assert!(heard.contains("sent bytes in clear"), "{heard}");
    let heard = meets(injects, &prefer).unwrap_err();
    assert!(heard.contains("sent bytes in clear"), "{heard}");
}

#[test]
fn direct_tls_must_agree_on_what_is_spoken_inside() {
    let direct = ServerTls { negotiation: Negotiation::Direct, ..wanted(TlsMode::Require, None) };
    let speaks = |stream: TcpStream| {
        let _ = let_in(&mut inside(stream, "database.pem", &[ALPN]));
    };
    assert_eq!(meets(speaks, &direct), Ok(()));
    let says_nothing = |stream: TcpStream| {
        let _ = let_in(&mut inside(stream, "database.pem", &[]));
    };
    let heard = meets(says_nothing, &direct).unwrap_err();
    assert!(heard.contains("without agreeing to speak PostgreSQL"), "{heard}");
}

#[test]
fn a_server_that_is_silent_before_or_in_the_handshake_is_given_up() {
    let mute = |mut stream: TcpStream| drop(stream.read(&mut [0; 1 << 16]));
    let promises = |mut stream: TcpStream| {
        is_asked(&mut stream);
        stream.write_all(b"S").unwrap();
        while matches!(stream.read(&mut [0; 1 << 16]), Ok(1..)) {}
    };
    for part in [mute as Part, promises] {
        let mut config =
            trusting(behind(named(acting(part)), &wanted(TlsMode::Require, None), "by_tls"));
        config.timeouts.connect = Duration::from_millis(300);
        let gate = Gate::new(config);
        let error = runtime().block_on(async { comes(&gate, "by_tls").await.err().unwrap() });
        assert_eq!(code(&error), "08006");
        gate.end();
    }
}

/// The first message of SCRAM that a server heard.
static HEARD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

#[test]
fn scram_is_bound_to_the_server_s_certificate() {
    // It offers SCRAM-SHA-256-PLUS, bound to the certificate that it shows.
    let bound = |mut stream: TcpStream| {
        is_asked(&mut stream);
        stream.write_all(b"S").unwrap();
        let mut stream = inside(stream, "database.pem", &[]);
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        stream.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize - 4]).unwrap();
        let certificate = CertificateDer::from_pem_file(fixture("database.pem")).unwrap();
        let binding = Binding::of_certificate(&certificate);
        assert_ne!(binding, Binding::Absent);
        let secret = Secret::stored(b"by_tls", "mine", &MockKey::new([7; 32])).unwrap();
        let mut out = Vec::new();
        let method = Method::ScramSha256;
        let mut asked = Check::begin(method, b"by_tls", &secret, binding, [9; 18], &mut out);
        while let Checked::Asks(check) = asked {
            stream.write_all(&out).unwrap();
            stream.flush().unwrap();
            out.clear();
            let mut head = [0; HEAD];
            stream.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            stream.read_exact(&mut body).unwrap();
            HEARD.lock().unwrap().extend_from_slice(&body);
            asked = check.answer(pgwire::frame::Frontend::Password, &body, &mut out).unwrap();
        }
        write::backend_key_data(&mut out, 1, &[1, 2, 3, 4]);
        write::ready_for_query(&mut out, Status::Idle);
        stream.write_all(&out).unwrap();
        stream.flush().unwrap();
        let _ = stream.read(&mut [0; 16]);
    };
    assert_eq!(meets(bound, &wanted(TlsMode::Require, None)), Ok(()));
    let heard = HEARD.lock().unwrap().escape_ascii().to_string();
    assert!(heard.starts_with("SCRAM-SHA-256-PLUS\\x00"), "{heard}");
    assert!(heard.contains("p=tls-server-end-point,,"), "{heard}");
}

/// Lies between gate and server, and keeps what each connection begins with.
struct Tap {
    port: u16,
    begun: Arc<Mutex<Vec<[u8; 8]>>>,
}

impl Tap {
    fn before(server: u16) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&begun);
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut first = [0; 8];
                client.read_exact(&mut first).unwrap();
                kept.lock().unwrap().push(first);
                let mut server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                server.write_all(&first).unwrap();
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        Tap { port, begun }
    }
}

#[test]
fn cancel_requests_and_large_rows_go_encrypted_too() {
    let tap = Tap::before(encrypted_server().port());
    let wanted = wanted(TlsMode::VerifyFull, Some("authority.pem"));
    let gate = Gate::new(trusting(behind(named(tap.port), &wanted, "by_tls")));
    runtime().block_on(async {
        let client = comes(&gate, "by_tls").await.unwrap();
        let text = "0123456789".repeat(30_000);
        for _ in 0..3 {
            let sql = format!("select '{text}' from generate_series(1, 3)");
            assert_eq!(ask(&client, &sql).await.unwrap(), text);
        }
        let token = client.cancel_token();
        let slept = tokio::spawn(async move { ask(&client, "select pg_sleep(60)").await });
        while !slept.is_finished() {
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(code(&slept.await.unwrap().unwrap_err()), "57014");
    });
    gate.end();
    let begun = tap.begun.lock().unwrap();
    assert!(begun.len() >= 2, "a session and a cancel request");
    assert!(begun.iter().all(|first| *first == SSL_REQUEST), "{begun:?}");
}

/// Says this again and again, little by little, until nobody has taken anything for a while; how much
/// was taken.
fn say_all_that_is_taken(stream: &TcpStream, bytes: &[u8]) -> usize {
    stream.set_nonblocking(true).unwrap();
    let (mut said, mut taken_at) = (0, Instant::now());
    while taken_at.elapsed() < Duration::from_millis(500) {
        thread::sleep(Duration::from_micros(100));
        if let Ok(more) = (&*stream).write(&bytes[said % bytes.len()..]) {
            (said, taken_at) = (said + more, Instant::now());
        }
    }
    stream.set_nonblocking(false).unwrap();
    said
}

/// A client hung whose encrypted server had no room for what it had asked: the server's next answer was
/// read, which wrote what had been refused, and nobody saw that there was room again.
#[test]
fn much_at_once_goes_on_to_an_encrypted_server_as_it_finds_room() {
    let mut question = Vec::new();
    write::query(&mut question, &"much ".repeat(2000));
    let length = question.len();
    for workers in [1, 3] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let database = named(listener.local_addr().unwrap().port());
        let database = behind(database, &wanted(TlsMode::Require, None), "sekisho");
        let gate = Gate::new(Config { workers, ..trusting(database) });
        let (begin, begins) = mpsc::channel();
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            is_asked(&mut stream);
            stream.write_all(b"S").unwrap();
            let mut stream = inside(stream, "database.pem", &[]);
            greet(&mut stream).unwrap();
            begins.recv().unwrap();
            let mut question = vec![0; length];
            let mut answer = Vec::new();
            write::command_complete(&mut answer, "SELECT 0");
            write::ready_for_query(&mut answer, Status::InTransaction);
            // There is some room before the first answer, but not yet so much that the system tells of it.
            for _ in 0..50 {
                stream.read_exact(&mut question).unwrap();
            }
            thread::sleep(Duration::from_millis(100));
            for _ in 0..50 {
                stream.write_all(&answer).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            while stream.read_exact(&mut question).is_ok() {
                stream.write_all(&answer).unwrap();
            }
        });
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        let said = say_all_that_is_taken(&client.stream, &question);
        begin.send(()).unwrap();
        for at in 0..said / length {
            assert_eq!(client.answer(), ["SELECT 0", "ZT"], "{at} of {said} by {workers}");
        }
        drop(client);
        gate.end();
        server.join().unwrap();
    }
}
