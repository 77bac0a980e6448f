//! The board by HTTP, asked by a client that shares no code with it.

use std::sync::atomic::Ordering;
use std::thread;

use board::{Choice, Durability, Server, StartError};
use ureq::Agent;

use crate::places::Place;

pub(crate) fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).max_redirects(0).build().new_agent()
}

fn ask(agent: &Agent, method: &str, url: &str, body: Option<&str>) -> (u16, String, String) {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(url)
        .header("content-type", "application/x-www-form-urlencoded");
    let mut reply = match body {
        Some(body) => agent.run(request.body(body.to_owned()).unwrap()).unwrap(),
        None => agent.run(request.body(()).unwrap()).unwrap(),
    };
    let place = reply.headers().get("location").map(|place| place.to_str().unwrap().to_owned());
    let text = reply.body_mut().read_to_string().unwrap();
    (reply.status().as_u16(), place.unwrap_or_default(), text)
}

/// The story: a client that sends an empty body in chunks, as one of Rust's does, lost its next request on the connection
/// where the last chunk came after the answer; one that is refused for its origin still did.
#[test]
fn the_end_of_a_body_that_nobody_wants_is_waited_for() {
    use std::io::{Read, Write};
    let place = Place::new();
    let choice = Choice::Jungle(place.0.join("jungle"));
    let server =
        Server::start("127.0.0.1:0".parse().unwrap(), &choice, Durability::Relaxed).unwrap();
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let method = ("", "lists what is\n", "HTTP/1.1 405 ");
    let origin = ("Origin: http://y\r\n", "may not ask this server\n", "HTTP/1.1 403 ");
    for (header, last, status) in [method, method, origin, origin, method] {
        let head =
            format!("POST / HTTP/1.1\r\nHost: x\r\n{header}Transfer-Encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        stream.write_all(b"0\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(last.as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(status.as_bytes()), "{}", String::from_utf8_lossy(&answer));
    }
    server.stop().unwrap();
}

/// Every kind of request, on each store: what is acknowledged is on the page, and everything wrong names the way out.
#[test]
fn a_browser_can_do_everything_on_every_store() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let relaxed = runtime.block_on(place.choices(Durability::Relaxed));
    let strict = runtime.block_on(place.choices(Durability::Strict));
    let relaxed = relaxed.into_iter().map(|choice| (choice, Durability::Relaxed));
    // etcd has the strict class alone.
    let strict = strict.into_iter().map(|choice| (choice, Durability::Strict));
    let strict = strict.filter(|(choice, _)| matches!(choice, Choice::Etcd(_)));
    for (choice, durability) in relaxed.chain(strict) {
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = Server::start(listen, &choice, durability).unwrap();
        let (base, agent) = (format!("http://{}", server.address()), agent());
        let go = |method: &str, path: &str, body: Option<&str>| {
            ask(&agent, method, &format!("{base}{path}"), body)
        };
        let (status, thread, _) = go("POST", "/threads", Some("title=One+%3C1%3E&author=ann"));
        assert_eq!((status, thread.as_str()), (303, "/threads/1"), "{choice:?}");
        for number in 0..25 {
            let body = format!("author=bob&body=message+{number}");
            assert_eq!(go("POST", "/threads/1/messages", Some(&body)).0, 303);
        }
        assert!(go("GET", "/", None).2.contains("One &lt;1&gt;"));
        let first = go("GET", "/threads/1", None).2;
        assert!(first.contains("message 19<") && !first.contains("message 20<"), "{first}");
        assert!(first.contains("?after=21\">next"), "{first}");
        assert!(go("GET", "/threads/1?after=21", None).2.contains("message 20<"));
        assert!(!go("GET", "/threads/1?newest", None).2.contains("message 4<"));
        assert_eq!(go("PUT", "/threads/1/messages/2", Some("body=changed")).0, 204);
        assert_eq!(go("DELETE", "/threads/1/messages/3", None).0, 204);
        let first = go("GET", "/threads/1", None).2;
        assert!(first.contains("changed") && !first.contains("message 1<"), "{first}");
        for (method, path, body, status, told) in [
            ("GET", "/threads/7", None, 404, "thread 7 is not there"),
            ("DELETE", "/threads/1/messages/3", None, 404, "message 3"),
            ("GET", "/threads/x", None, 404, "no id"),
            ("GET", "/threads/1?page=2", None, 400, "?newest"),
            ("GET", "/nothing", None, 404, "begin at /"),
            ("PUT", "/threads/1", Some("body=x"), 405, "is not done"),
            ("POST", "/threads", Some("title=x"), 422, "no field `author`"),
            ("POST", "/threads", Some("title=&author=x"), 422, "is empty"),
            ("POST", "/threads/1/messages", Some("author=a&body=a%00b"), 422, "NUL"),
            ("POST", "/threads/1/messages", Some("author=a&body=%FF"), 400, "no form"),
        ] {
            let (got, _, text) = go(method, path, body);
            assert_eq!(got, status, "{choice:?}: {method} {path}: {text}");
            assert!(text.contains(told), "{choice:?}: {method} {path}: {text}");
        }
        let large = format!("author=a&body={}", "x".repeat(70_000));
        assert_eq!(go("POST", "/threads/1/messages", Some(&large)).0, 413);
        let stranger = ureq::http::Request::post(format!("{base}/threads"))
            .header("origin", "http://elsewhere.example")
            .body("title=a&author=b".to_owned())
            .unwrap();
        assert_eq!(agent.run(stranger).unwrap().status().as_u16(), 403);
        assert!(go("GET", "/verify", None).2.contains("\"messages\":24"), "{choice:?}");
        assert_eq!(server.verify().unwrap().faults, Vec::<String>::new(), "{choice:?}");
        assert_eq!(server.stop().unwrap().messages, 24, "{choice:?}");
    }
}

/// Clients at once: each acknowledged message is there once, and nothing else is.
#[test]
fn what_clients_were_told_is_there_once() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for choice in runtime.block_on(place.choices(Durability::Strict)) {
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = Server::start(listen, &choice, Durability::Strict).unwrap();
        let base = format!("http://{}", server.address());
        ask(&agent(), "POST", &format!("{base}/threads"), Some("title=t&author=a"));
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let base = base.clone();
                thread::spawn(move || {
                    let agent = agent();
                    let told = (0..25).map(|number| {
                        let body = format!("author=c{client}&body=m{client}.{number}");
                        let url = format!("{base}/threads/1/messages");
                        let (status, place, text) = ask(&agent, "POST", &url, Some(&body));
                        assert_eq!(status, 303, "{text}");
                        place.rsplit_once("#m").unwrap().1.parse::<u64>().unwrap()
                    });
                    told.collect::<Vec<u64>>()
                })
            })
            .collect();
        let mut told: Vec<u64> = clients.into_iter().flat_map(|one| one.join().unwrap()).collect();
        told.sort_unstable();
        let found = server.verify().unwrap();
        assert_eq!(found.faults, Vec::<String>::new(), "{choice:?}");
        let board = server.board();
        let stored = runtime
            .block_on(board.store().messages(1, board::Span::After(0), 1_000))
            .unwrap()
            .unwrap();
        let stored: Vec<u64> = stored.1.iter().map(|message| message.id).collect();
        assert_eq!(stored, told, "{choice:?}");
        assert_eq!(server.board().writes().messages.acknowledged.load(Ordering::Relaxed), 200);
        server.stop().unwrap();
    }
}

#[test]
fn nobody_outside_this_machine_gets_in() {
    let place = Place::new();
    let choice = board::Choice::Jungle(place.0.join("never"));
    let refused = Server::start("0.0.0.0:0".parse().unwrap(), &choice, Durability::Strict);
    assert!(matches!(refused, Err(StartError::Public(_))));
    assert!(!place.0.join("never").exists(), "a start that fails leaves the disk alone");
}
