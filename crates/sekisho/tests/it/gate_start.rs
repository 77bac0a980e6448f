//! The start of a gate before servers that do not answer, or that give fewer connections than it has slots:
//! alike for HTTP and for PostgreSQL.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use postgres::{Private, Settings};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, Running, sekisho, start, until};
use crate::gate_http::get;
use crate::tpcc::ask;

/// A port that nobody else takes, and at which nobody listens yet.
fn nobody() -> (OwnedFd, SocketAddr) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = getsockname(&socket).expect("it is bound");
    let address = SocketAddr::try_from(address).expect("of the network");
    (socket, address)
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The addresses of a gate that was started with `--json`: for clients, and of its live page.
fn addresses(running: &Running) -> (String, String) {
    let said = running.says("}\n");
    let first: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    let at = |name: &str| first[name].as_str().expect("an address").to_owned();
    (at("listening"), at("http"))
}

/// The story: `/readyz` of the gate for HTTP said yes until the first request had failed, that of the gate for
/// PostgreSQL always; and its note said that clients wait, who were refused.
#[test]
fn a_gate_whose_server_does_not_answer_is_not_ready_until_it_does() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for kind in ["http", "postgres", "http file", "postgres file"] {
        let (later, address) = nobody();
        let (host, port) = (address.ip(), address.port());
        let (upstream, url) = (address.to_string(), format!("postgresql://u:p@{address}/d"));
        let web = format!(
            "format = 1\nlisten = [\"127.0.0.1:0\"]\nadmin.http = \"127.0.0.1:0\"\npool.slots = 2\n\
             [[server]]\nhost = \"{host}\"\nport = {port}\n"
        );
        let base = format!(
            "format = 1\nlisten = [\"127.0.0.1:0\"]\nadmin.http = \"127.0.0.1:0\"\npool.slots = 2\n\
             auth.users-file = \"users.txt\"\n[[database]]\nname = \"d\"\nuser = \"u\"\npassword = \"p\"\n\
             server = [{{ host = \"{host}\", port = {port} }}]\n"
        );
        fs::write(folder.join("web.toml"), web).expect("a folder of our own");
        fs::write(folder.join("base.toml"), base).expect("the same");
        fs::write(folder.join("users.txt"), "\"u\" \"p\"\n").expect("the same");
        let flags = ["--slots", "2", "--listen", "127.0.0.1:0", "--admin-http", "127.0.0.1:0"];
        let (words, by) = match kind {
            "http" => (["gate", "http", "--upstream", &upstream], "`--upstream`"),
            "postgres" => (["gate", "postgres", "--db", &url], "`--db`"),
            "http file" => (["gate", "http", "--config", "web.toml"], "its address in web.toml"),
            _ => (["gate", "postgres", "--config", "base.toml"], "its address in base.toml"),
        };
        let rest = if kind.ends_with("file") { &[][..] } else { &flags };
        let running = start(&folder, &[&words[..], rest, &["--json"]].concat());
        let (_, page) = addresses(&running);
        let told = get(&page, "/readyz");
        assert!(
            told.starts_with("HTTP/1.1 503") && told.ends_with("no server is up\n"),
            "{kind}: {told}"
        );
        assert!(get(&page, "/healthz").starts_with("HTTP/1.1 200"), "{kind}: it lives");
        listen(&later, 16).expect("it was bound for that");
        until("it is ready", || get(&page, "/readyz").ends_with("ok\n"));
        running.signal("TERM");
        let ended = running.ended(PATIENCE);
        assert_eq!(ended.code, 0, "{kind}: {ended:?}");
        let who = if kind.starts_with("http") { "requests" } else { "clients" };
        let wanted = format!(
            "note: the server {address} does not answer (Connection refused (os error 111)): start it, or \
             correct {by}. Meanwhile {who} are refused; until one answers, /readyz says 503"
        );
        assert!(flat(&ended.err).contains(&wanted), "{kind}: {ended:?}");
        assert_eq!(
            ended.err.matches("note: ").count(),
            if who == "clients" { 2 } else { 1 },
            "{kind}: {ended:?}"
        );
    }
}

/// One of two servers is enough.
#[test]
fn a_gate_of_which_one_server_answers_is_ready() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let there = listener.local_addr().expect("it has one");
    let (_kept, address) = nobody();
    let (there, gone) = (there.to_string(), address.to_string());
    let words = ["gate", "http", "--upstream", &there, "--upstream", &gone, "--slots", "1"];
    let at = ["--listen", "127.0.0.1:0", "--admin-http", "127.0.0.1:0", "--json"];
    let running = start(&folder, &[&words[..], &at].concat());
    let (_, page) = addresses(&running);
    assert!(get(&page, "/readyz").ends_with("ok\n"));
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    let said = flat(&ended.err);
    assert!(said.contains("Meanwhile requests go to the others, and are refused"), "{ended:?}");
    assert!(said.contains(&gone) && !said.contains("/readyz"), "{ended:?}");
}

#[test]
fn more_slots_than_a_database_gives_connections_are_refused_with_the_number() {
    let parameters = [("fsync", "off"), ("max_connections", "10")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let server =
        Private::start(&Settings { parameters, ..Settings::default() }).expect("it starts");
    ask(server.url().as_str(), "create user clerk password 'paper' connection limit 5").unwrap();
    let own = server.url();
    let (_, place) = own.as_str().split_once('@').expect("there is a password");
    let url = format!("postgresql://clerk:paper@{place}");
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let listens = ["gate", "postgres", "--listen", "127.0.0.1:0", "--db"];
    let tried = |url: &str, rest: &[&str]| -> Ended {
        // One that is not refused goes on until it is told to end.
        start(&folder, &[&listens[..], &[url], rest].concat()).ended(Duration::from_secs(90))
    };
    let refused = tried(server.url().as_str(), &["--slots", "50"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let wanted = format!(
        "`--slots 50` is more than the server 127.0.0.1:{} gives: 10 connections (max_connections is 10); say \
         `--slots 10`, or raise that limit",
        server.port()
    );
    assert!(flat(&refused.err).contains(&wanted), "{refused:?}");
    let refused = tried(&url, &["--slots", "6"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let wanted = "gives: 5 connections (CONNECTION LIMIT of its role); say `--slots 5`";
    assert!(flat(&refused.err).contains(wanted), "{refused:?}");
    // The number that is printed can be typed.
    let running = start(&folder, &[&listens[..], &[&url, "--slots", "5"]].concat());
    running.says("next: psql ");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!((ended.code, ended.err.contains("note: ")), (0, false), "{ended:?}");
    // From a file it is the same. Slots that the gate sets itself may never be as many.
    let text = format!(
        "format = 1\nlisten = [\"127.0.0.1:0\"]\nauth.users-file = \"users.txt\"\npool.slots = 6\n[[database]]\nname = \"one\"\n\
         dbname = \"{}\"\nuser = \"clerk\"\npassword = \"paper\"\n\
         server = [{{ host = \"127.0.0.1\", port = {} }}]\n",
        place.split_once('/').expect("it names a database").1,
        server.port()
    );
    fs::write(folder.join("gate.toml"), text).expect("a folder of our own");
    fs::write(folder.join("users.txt"), "\"clerk\" \"paper\"\n").expect("the same");
    let refused = sekisho(&folder, &["gate", "postgres", "--config", "gate.toml"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let said = flat(&refused.err);
    assert!(said.contains("`database one: slots 6` is more than the server"), "{refused:?}");
    let auto = ["--slots", "auto", "--slots-most", "6"];
    let running = start(&folder, &[&listens[..], &[&url], &auto].concat());
    running.says("next: psql ");
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        flat(&ended.err).contains("note: `--slots-most 6` is more than the server"),
        "{ended:?}"
    );
    server.stop().expect("it stops");
}
