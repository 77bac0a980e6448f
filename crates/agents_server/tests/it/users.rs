//! Users: nobody does what his rights do not give him, at whatever place, and others reach no server without users and TLS.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agents_server::{
    Access, AccessError, ROUTES, Right, Scope, Server, ServerSpec, StartError, Users,
    access_token_hash,
};
use agents_store::Memory;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tls::Tls;

use crate::delivering::{rules, spec};

/// The right that each place needs.
const RIGHTS: [(&str, Right); 23] = [
    ("GET /healthz", Right::Anybody),
    ("GET /readyz", Right::Anybody),
    ("GET /", Right::Anybody),
    ("GET /state.json", Right::Read),
    ("GET /metrics", Right::Read),
    ("GET /agents", Right::Read),
    ("GET /agents/NAME", Right::Read),
    ("GET /agents/NAME/why", Right::Read),
    ("GET /rules", Right::Read),
    ("POST /try", Right::Read),
    ("GET /notifications", Right::Read),
    ("POST /messages/MESSAGE", Right::Send),
    ("POST /agents/NAME/messages/MESSAGE", Right::Send),
    ("POST /agents", Right::Declare),
    ("PUT /agents/NAME", Right::Declare),
    ("DELETE /agents/NAME", Right::Declare),
    ("POST /agents/NAME/snooze", Right::Declare),
    ("POST /rules", Right::Administer),
    ("GET /dead", Right::Administer),
    ("POST /dead/resend", Right::Administer),
    ("GET /backup", Right::Administer),
    ("GET /undelivered", Right::Administer),
    ("POST /undelivered/resend", Right::Administer),
];

fn users() -> Users {
    let user = |(name, keys): (&str, &str)| {
        let hash = access_token_hash(&format!("{name}-token"));
        format!("[[user]]\nname = \"{name}\"\naccess_token_sha256 = \"{hash}\"\n{keys}\n")
    };
    let all = [
        ("idle", ""),
        ("reader", "read = true"),
        ("sender", "send = true"),
        ("keeper", "declare = true"),
        ("acme", "read = true\nsend = true\ndeclare = true\nagents = [\"acme/\", \"one\"]"),
        ("other", "read = true\nsend = true\nagents = [\"other/\"]"),
        ("watcher", "read = true\nin_flight = 1"),
        ("root", "admin = true"),
    ];
    Users::parse(&all.map(user).concat()).unwrap()
}

fn serve(access: Access) -> Server {
    let spec = ServerSpec { access, ..spec() };
    Server::start(&spec, rules(&[]), Arc::new(Memory::new())).unwrap()
}

fn with_users() -> Server {
    serve(Access { users: Some(users()), tls: None })
}

/// An answer whose body is read as far as its length is said: a stream has none.
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    /// What comes behind the body.
    stream: BufReader<TcpStream>,
}

fn ask(to: SocketAddr, line: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (extra, length) = (headers.iter().map(|it| format!("{it}\r\n")), body.len());
    let extra: String = extra.collect();
    let text = format!("{line} HTTP/1.1\r\n{extra}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map(Result::unwrap);
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.take_while(|line| !line.is_empty()).map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_lowercase(), value.to_owned())
    });
    let headers: BTreeMap<String, String> = headers.collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Answer { status, headers, body: String::from_utf8(body).unwrap(), stream: reader }
}

fn by(server: &Server, user: &str, line: &str, body: &str) -> Answer {
    let said = format!("Authorization: Bearer {user}-token");
    ask(server.address(), line, &["Host: localhost", &said], body)
}

/// A request to a place, with names and a body that mean something.
fn request_to(place: &str) -> (String, &'static str) {
    let line = place.replace("MESSAGE", "order").replace("NAME", "alice");
    let body = match place {
        "POST /agents" => r#"[{"agent": "bob", "state": {}}]"#,
        "POST /try" => r#""""#,
        _ => "{}",
    };
    let query = if place.ends_with("snooze") { "?for=1h" } else { "" };
    (line + query, body)
}

#[test]
fn each_place_needs_the_right_that_is_written_here() {
    let known: BTreeSet<String> =
        ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    let wanted: BTreeSet<String> = RIGHTS.iter().map(|(place, _)| (*place).to_owned()).collect();
    assert_eq!(known, wanted, "say above which right a new place needs");
    let server = with_users();
    let gives = |user: &str, right: Right| match right {
        Right::Anybody => true,
        Right::Read => ["reader", "root"].contains(&user),
        Right::Send => ["sender", "root"].contains(&user),
        Right::Declare => ["keeper", "root"].contains(&user),
        Right::Administer => user == "root",
    };
    let all = ["idle", "reader", "sender", "keeper", "root"];
    for (place, right) in RIGHTS {
        let (line, body) = request_to(place);
        for user in all.into_iter().filter(|it| !gives(it, right)) {
            let answer = by(&server, user, &line, body);
            assert_eq!(answer.status, 403, "{user}: {place}: {}", answer.body);
            let key = match right {
                Right::Read => "`read = true`",
                Right::Send => "`send = true`",
                Right::Declare => "`declare = true`",
                _ => "`admin = true`",
            };
            let told = format!("user `{user}` may not ");
            assert!(answer.body.contains(&told) && answer.body.contains(key), "{}", answer.body);
        }
        for headers in [&["Host: x"][..], &["Host: x", "Authorization: Bearer root-tokem"]] {
            let answer = ask(server.address(), &line, headers, body);
            let wanted = if right == Right::Anybody { 200 } else { 401 };
            assert_eq!(answer.status, wanted, "{headers:?}: {place}: {}", answer.body);
        }
    }
    let agents = (0..2).map(|it| by(&server, "root", &format!("GET /agents?partition={it}"), ""));
    for answer in agents {
        assert!(answer.body.contains("\"agents\":[]"), "nothing was done: {}", answer.body);
    }
    for (place, right) in RIGHTS {
        let (line, body) = request_to(place);
        for user in all.into_iter().filter(|it| gives(it, right)) {
            let Answer { status, body, .. } = by(&server, user, &line, body);
            let is_wanted = match status {
                200 | 202 => true,
                // What the answer is about is not there: a file of rules, rules to try, alice before she is declared.
                400 => body.contains("file") || body.contains("rules:1:1: "),
                404 => body.contains("there is no agent `alice`"),
                501 => place == "GET /backup" && body.contains("the store in memory"),
                _ => false,
            };
            assert!(is_wanted, "{user}: {place}: {status} {body}");
        }
    }
}

/// The agents that each place is about.
const SCOPES: [(&str, Scope); 23] = [
    ("GET /healthz", Scope::Nothing),
    ("GET /readyz", Scope::Nothing),
    ("GET /", Scope::Nothing),
    ("GET /rules", Scope::Nothing),
    ("GET /state.json", Scope::Everything),
    ("GET /metrics", Scope::Everything),
    ("POST /try", Scope::Everything),
    ("POST /rules", Scope::Everything),
    ("GET /dead", Scope::Everything),
    ("POST /dead/resend", Scope::Everything),
    ("GET /backup", Scope::Everything),
    ("GET /undelivered", Scope::Everything),
    ("POST /undelivered/resend", Scope::Everything),
    ("GET /agents", Scope::Listed),
    ("POST /agents", Scope::Listed),
    ("GET /notifications", Scope::Listed),
    ("POST /messages/MESSAGE", Scope::Listed),
    ("GET /agents/NAME", Scope::Named),
    ("GET /agents/NAME/why", Scope::Named),
    ("PUT /agents/NAME", Scope::Named),
    ("DELETE /agents/NAME", Scope::Named),
    ("POST /agents/NAME/snooze", Scope::Named),
    ("POST /agents/NAME/messages/MESSAGE", Scope::Named),
];

/// A user of some agents alone is refused at each place that is about others, whether they are there or not.
#[test]
fn a_user_of_some_agents_is_refused_about_others_at_every_place() {
    let known: BTreeSet<(String, String)> = (ROUTES.iter())
        .map(|it| (format!("{} {}", it.method, it.path), format!("{:?}", it.scope)))
        .collect();
    let wanted: BTreeSet<(String, String)> =
        SCOPES.iter().map(|(place, it)| ((*place).to_owned(), format!("{it:?}"))).collect();
    assert_eq!(known, wanted, "say above which agents a new place is about");
    let server = with_users();
    for name in ["acme%2Falice", "alice", "other%2Fbob"] {
        assert_eq!(by(&server, "root", &format!("PUT /agents/{name}"), "{}").status, 202);
    }
    for (place, scope) in SCOPES {
        let (line, body) = request_to(place);
        let rights = RIGHTS.iter().find(|it| it.0 == place).unwrap().1;
        let is_admin = rights == Right::Administer;
        match scope {
            Scope::Nothing => {
                assert_eq!(by(&server, "acme", &line, body).status, 200, "{place}");
            }
            Scope::Everything => {
                let answer = by(&server, "acme", &line, body);
                let cause = if is_admin { "`admin = true`" } else { "it has some alone" };
                assert_eq!(answer.status, 403, "{place}: {}", answer.body);
                assert!(answer.body.contains(cause), "{place}: {}", answer.body);
            }
            Scope::Named => {
                for name in
                    ["alice", "nobody", "acme", "acm%65", "acme2%2Falice", "onee", "%2Facme%2F"]
                {
                    let answer = by(&server, "acme", &line.replace("alice", name), body);
                    assert_eq!(answer.status, 403, "{place} {name}: {}", answer.body);
                    assert!(
                        answer.body.contains("which is none of its `agents`"),
                        "{}",
                        answer.body
                    );
                }
                for name in ["acme%2Falice", "%61cme/alice".replace('/', "%2F").as_str(), "one"] {
                    let answer = by(&server, "acme", &line.replace("alice", name), body);
                    assert!(
                        [200, 202, 404].contains(&answer.status),
                        "{place} {name}: {}",
                        answer.body
                    );
                }
            }
            // Of these the next test tells.
            Scope::Listed => {}
        }
    }
    let Answer { body, .. } = by(&server, "root", "GET /agents/alice", "");
    assert!(body.contains("\"agent\":\"alice\""), "it is as it was: {body}");
}

#[test]
fn of_lists_a_user_gives_and_gets_its_own_agents_alone() {
    let server = with_users();
    let mixed = r#"[{"agent": "acme/a", "state": {}}, {"agent": "bob", "state": {}}]"#;
    let refused = by(&server, "acme", "POST /agents", mixed);
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("agent `bob`, which is none"), "{}", refused.body);
    let listed = |user: &str| {
        let pages = (0..2).map(|it| by(&server, user, &format!("GET /agents?partition={it}"), ""));
        let pages: String = pages.map(|it| it.body).collect();
        ["acme/a", "acme/b", "bob", "other/c"].map(|it| pages.contains(&format!("\"{it}\"")))
    };
    assert_eq!(listed("root"), [false; 4], "of a list with one that is refused none is declared");
    let own = r#"[{"agent": "acme/a", "state": {}}, {"agent": "acme/b", "state": {}}]"#;
    assert_eq!(by(&server, "acme", "POST /agents", own).status, 202);
    for name in ["bob", "other%2Fc"] {
        assert_eq!(by(&server, "root", &format!("PUT /agents/{name}"), "{}").status, 202);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while listed("root") != [true; 4] {
        assert!(Instant::now() < until, "{:?}", listed("root"));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(listed("acme"), [true, true, false, false]);
    assert_eq!(listed("other"), [false, false, false, true]);
    // A filter that all meet shows no more than that.
    let found = |user: &str, filter: &str| {
        let line = |it| format!("GET /agents?partition={it}&where={filter}");
        let pages: String = (0..2).map(|it| by(&server, user, &line(it), "").body).collect();
        ["acme/a", "acme/b", "bob", "other/c"].map(|it| pages.contains(&format!("\"{it}\"")))
    };
    assert_eq!(found("root", "count==0"), [true; 4]);
    assert_eq!(found("acme", "count==0"), [true, true, false, false]);
    assert_eq!(found("acme", "count%3E0"), [false; 4]);
    for (query, status) in [
        ("", 403),
        ("?to=all", 403),
        ("?to=armed", 403),
        ("?from=1&upto=9", 403),
        ("?agents=acme/a,bob", 403),
        ("?agents=", 403),
        ("?agents=acme/a,acme%2Fb", 202),
        ("?agents=one&to=all", 202),
    ] {
        let answer = by(&server, "acme", &format!("POST /messages/order{query}"), "{}");
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
    }
}

/// Reads a stream until it tells of an agent.
#[track_caller]
fn read_until(stream: &mut impl Read, agent: &str) -> String {
    let mut text = String::new();
    let mut part = [0; 4_096];
    while !text.contains(&format!("\"agent\":\"{agent}\"")) {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{text}");
        text += &String::from_utf8_lossy(&part[..count]);
    }
    text
}

#[test]
fn a_stream_shows_a_user_the_notifications_of_its_own_agents_alone() {
    let server = with_users();
    let mut all = by(&server, "root", "GET /notifications", "").stream;
    let mut own = by(&server, "acme", "GET /notifications", "").stream;
    for name in ["bob", "acme%2Fa", "carol", "acme%2Fb"] {
        let state = r#"{"symbol": "A", "high": 10}"#;
        assert_eq!(by(&server, "root", &format!("PUT /agents/{name}"), state).status, 202);
        let line = format!("POST /agents/{name}/messages/tick");
        assert_eq!(by(&server, "root", &line, r#"{"symbol": "A", "price": 11}"#).status, 202);
        // One behind the other, so that those of others come before its own.
        read_until(&mut all, &name.replace("%2F", "/"));
    }
    let live = read_until(&mut own, "acme/b");
    let mut again = by(&server, "acme", "GET /notifications?after=0", "").stream;
    for text in [live, read_until(&mut again, "acme/b")] {
        assert!(
            text.contains("acme/a") && !text.contains("bob") && !text.contains("carol"),
            "{text}"
        );
    }
}

/// Two users that number their messages alike are two senders.
#[test]
fn the_ids_of_a_user_of_some_agents_are_its_own() {
    let server = with_users();
    for name in ["acme%2Fa", "other%2Fc"] {
        assert_eq!(by(&server, "root", &format!("PUT /agents/{name}"), "{}").status, 202);
    }
    for (user, agent) in [("acme", "acme/a"), ("other", "other/c"), ("acme", "acme/a")] {
        let said = format!("Authorization: Bearer {user}-token");
        let headers = ["Host: localhost", &said, "Idempotency-Key: 1"];
        let line = format!("POST /messages/order?agents={agent}");
        assert_eq!(ask(server.address(), &line, &headers, "{}").status, 202);
    }
    let until = Instant::now() + Duration::from_secs(60);
    let count = |name: &str| by(&server, "root", &format!("GET /agents/{name}"), "").body;
    while ["acme%2Fa", "other%2Fc"].iter().any(|it| !count(it).contains("\"count\":1.0")) {
        assert!(Instant::now() < until, "{} {}", count("acme%2Fa"), count("other%2Fc"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_stranger_is_told_how_to_come_in_and_not_which_places_there_are() {
    let server = with_users();
    for line in ["GET /metrics", "GET /nothing", "PATCH /agents/a"] {
        for (headers, told) in [
            (&["Host: x"][..], "send `Authorization: Bearer ACCESS-TOKEN`"),
            (&["Host: x", "Authorization: Basic YTph"], "another scheme"),
            (&["Host: x", "Authorization: Bearer root-token2"], "no user has this access token"),
        ] {
            let answer = ask(server.address(), line, headers, "");
            assert_eq!(answer.status, 401, "{line}: {}", answer.body);
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            assert!(answer.body.contains(told), "{}", answer.body);
        }
    }
    assert_eq!(by(&server, "idle", "GET /nothing", "").status, 404);
    assert_eq!(by(&server, "idle", "PATCH /agents/a", "").status, 405);
}

#[test]
fn a_stream_counts_among_what_is_in_flight_as_long_as_somebody_reads() {
    let server = with_users();
    let stream = by(&server, "watcher", "GET /notifications", "");
    assert_eq!(stream.status, 200);
    let refused = by(&server, "watcher", "GET /metrics", "");
    assert_eq!((refused.status, &*refused.headers["retry-after"]), (429, "1"));
    assert!(refused.body.contains("1 requests and streams of user `watcher`"), "{}", refused.body);
    assert_eq!(by(&server, "reader", "GET /metrics", "").status, 200, "others are not held up");
    drop(stream.stream);
    let until = Instant::now() + Duration::from_secs(20);
    while by(&server, "watcher", "GET /metrics", "").status != 200 {
        assert!(Instant::now() < until, "the place is never free again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The story: a page of anybody in a browser of this machine could send messages to a server without users.
#[test]
fn pages_of_others_do_not_ask_a_server_without_users() {
    let server = serve(Access::default());
    let own = format!("Host: {}", server.address());
    for (headers, status) in [
        (&[&*own][..], 202),
        (&["Host: localhost"], 202),
        (&[&*own, "Origin: http://evil.example"], 403),
        (&["Host: evil.example"], 421),
    ] {
        let answer = ask(server.address(), "PUT /agents/a", headers, "{}");
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
    }
    assert_eq!(ask(server.address(), "GET /healthz", &["Host: probe"], "").status, 200);
    // Who knows an access token may come from anywhere.
    let server = with_users();
    let said = ["Host: evil.example", "Authorization: Bearer root-token"];
    assert_eq!(ask(server.address(), "PUT /agents/a", &said, "{}").status, 202);
}

#[test]
fn others_reach_a_server_with_users_and_tls_alone() {
    let listen: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let refused = |access: Access| {
        let spec = ServerSpec { access, listen, ..spec() };
        Server::start(&spec, rules(&[]), Arc::new(Memory::new())).map(|_| ()).unwrap_err()
    };
    let public = refused(Access::default());
    assert!(matches!(public, StartError::Access(AccessError::Public(_))), "{public}");
    assert!(public.to_string().contains("--users"), "{public}");
    let public = refused(Access { users: None, tls: Some(identity()) });
    assert!(matches!(public, StartError::Access(AccessError::Public(_))), "{public}");
    let clear = refused(Access { users: Some(users()), tls: None });
    assert!(matches!(clear, StartError::Access(AccessError::InClear(_))), "{clear}");
    assert!(clear.to_string().contains("--tls-cert"), "{clear}");
}

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/certificates")
}

fn identity() -> Tls {
    Tls { cert: certificates().join("database.pem"), key: certificates().join("leaf.key") }
}

/// The answer to a request of a client that trusts the authority of this file, or why there is none.
fn over_tls(to: SocketAddr, authority: &str, text: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(certificates().join(authority)).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut stream = StreamOwned::new(client, stream);
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_client_that_knows_the_authority_speaks_tls_and_no_other_does() {
    let server = serve(Access { users: Some(users()), tls: Some(identity()) });
    let get = |path: &str, said: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        over_tls(server.address(), "authority.pem", &format!("{head}{said}\r\n")).unwrap()
    };
    let reader = "Authorization: Bearer reader-token\r\n";
    for (path, said, status) in
        [("/healthz", "", "200"), ("/metrics", "", "401"), ("/metrics", reader, "200")]
    {
        let answer = get(path, said);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    let stranger = over_tls(server.address(), "stranger.pem", "GET / HTTP/1.1\r\n\r\n");
    let told = stranger.unwrap_err().to_string();
    assert!(told.contains("certificate"), "{told}");
    // In clear nothing is answered, and who begins no handshake is let go.
    for sent in ["GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", ""] {
        let mut clear = TcpStream::connect(server.address()).unwrap();
        clear.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        clear.write_all(sent.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // An end and a reset are the same here; a timeout would be neither.
        let end = clear.read_to_end(&mut answer).map_err(|error| error.kind());
        assert!(matches!(end, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{end:?}");
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
}
