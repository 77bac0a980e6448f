//! Bounds: whoever asks for too much is told so, and the server goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Folder, Site, settings};

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.body_max = 1000;
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/board", None).is(201);
    let long = json!({"attributes": {"text": "x".repeat(1000)}});
    site.post("/trees/board/nodes/root/children", &long).is_problem(413, &["1000 B", "--body-max"]);
    // Without a length it is refused when it gets there.
    let mut raw = TcpStream::connect(site.server.address()).unwrap();
    raw.write_all(
        b"POST /transactions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
    )
    .unwrap();
    let chunk = [&b"1f4\r\n"[..], &[b' '; 500], b"\r\n"].concat();
    for _ in 0..3 {
        raw.write_all(&chunk).unwrap();
    }
    raw.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = [0; 12];
    raw.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 413");
    site.get("/trees").is(200);
}

/// Nobody is accepted meanwhile; 900 are those of the paper's experiment.
#[test]
fn a_burst_of_connections_finds_room_to_wait() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.connections_max = 1;
    let site = Site::with(&folder.join("data"), settings);
    // Whoever finds no room is answered after a second at the soonest.
    let connect =
        |_| TcpStream::connect_timeout(&site.server.address(), Duration::from_millis(700));
    let connected: Vec<TcpStream> = (0..900).filter_map(|n| connect(n).ok()).collect();
    assert_eq!(connected.len(), 900);
}

#[test]
fn more_connections_than_there_may_be_wait_for_one_that_ends() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.connections_max = 1;
    let site = Site::with(&folder.join("data"), settings);
    let first = TcpStream::connect(site.server.address()).unwrap();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    };
    let mut held = first;
    ask(&mut held);
    let mut head = [0; 12];
    held.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let mut second = TcpStream::connect(site.server.address()).unwrap();
    ask(&mut second);
    second.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(second.read(&mut head).is_err(), "nobody answers while the first is there");
    drop(held);
    second.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    second.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
}

#[test]
fn a_head_that_does_not_come_ends_the_connection() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.patience = Duration::from_millis(300);
    let site = Site::with(&folder.join("data"), settings);
    let mut slow = TcpStream::connect(site.server.address()).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let begun = Instant::now();
    let mut rest = Vec::new();
    // It is ended by the server, with or without a status.
    slow.read_to_end(&mut rest).ok();
    assert!(begun.elapsed() < Duration::from_secs(50), "{rest:?}");
    let mut half = TcpStream::connect(site.server.address()).unwrap();
    half.write_all(b"PUT /trees/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        .unwrap();
    half.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = [0; 12];
    half.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 408");
}

/// With room for one commit and many at once some are turned away with 503, and none of those took effect.
#[test]
fn commits_beyond_those_that_may_wait_are_turned_away_and_did_not_happen() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.store.waiting = 1;
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/board", None).is(201);
    let (mut done, mut busy) = (0, 0);
    // Until both were seen: how many meet is up to the machine.
    let begun = Instant::now();
    while busy == 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::scope(|scope| {
            let one = || {
                let child = json!({"attributes": {}});
                let answer = site.post("/trees/board/nodes/root/children", &child);
                if answer.status == 503 {
                    answer.is_problem(503, &["retry later"]);
                    assert_eq!(answer.header("retry-after"), Some("1"));
                }
                answer.status
            };
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(one)).collect();
            for status in threads.into_iter().map(|thread| thread.join().unwrap()) {
                match status {
                    201 => done += 1,
                    503 => busy += 1,
                    other => panic!("{other}"),
                }
            }
        });
    }
    assert!(busy > 0 && done > 0, "{done} {busy}");
    assert_eq!(site.get("/trees/board").is(200)["nodes"], done + 1);
    assert_eq!(site.get("/stats").is(200)["waiting"], 0);
}

#[test]
fn odd_bytes_get_an_answer_and_leave_the_server_alone() {
    let folder = Folder::new();
    let site = Site::start(&folder.join("data"));
    for odd in [
        &b"GET / HTTP/9.9\r\n\r\n"[..],
        b"\x00\xff\x00\xff\r\n\r\n",
        b"GET /trees/%ff%fe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /trees?at=%ff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /transactions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n[[",
        b"PUT /trees/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
        b"GET /trees/a/nodes/99999999999999999999.0 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        let mut raw = TcpStream::connect(site.server.address()).unwrap();
        raw.write_all(odd).unwrap();
        raw.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut head = [0; 10];
        raw.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 4", "{}", String::from_utf8_lossy(odd));
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut raw = TcpStream::connect(site.server.address()).unwrap();
    write!(
        raw,
        "POST /transactions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{deep}",
        deep.len()
    )
    .unwrap();
    let mut head = [0; 12];
    raw.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 400");
    site.get("/trees").is(200);
}

/// A client that asks for much and takes nothing would keep its connection, and one of those that there may be.
#[test]
fn who_takes_nothing_of_an_answer_is_cut_off() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.patience = Duration::from_secs(1);
    let site = Site::with(&folder.join("data"), settings);
    site.put("/trees/board", None).is(201);
    let long = json!({"attributes": {"text": "x".repeat(6 << 20)}});
    for _ in 0..3 {
        site.post("/trees/board/nodes/root/children", &long).is(201);
    }
    let mut silent = TcpStream::connect(site.server.address()).unwrap();
    silent.write_all(b"GET /trees/board/nodes/root HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    let connections = || site.get("/stats").is(200)["connections"].as_u64().unwrap();
    // That of the client that asks, and any that it keeps.
    while connections() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} connections", connections());
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(silent);
}
