//! Every kind of failure in its situation: counted by kind, never a hang or a panic.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use load::http::{Connections, Load};
use measure::{ErrorKind, Until};
use workload::{Arrivals, Dist};

use crate::server::{Server, ok, read_head};
use crate::{closed, completed, failed, failed_in_all, run, spec, warns};

const FEW: Until = Until::Requests(6);

/// Runs a few requests, of which each must fail in this way.
fn all_fail(server: &Server, kind: ErrorKind) {
    let record = run(closed(&server.url(), 2, FEW));
    let seen: Vec<_> =
        record.intervals.iter().flat_map(|i| &i.classes).map(|c| &c.errors).collect();
    assert_eq!(failed(&record, kind), 6, "{seen:?}");
    assert_eq!((failed_in_all(&record), completed(&record)), (6, 0));
}

#[test]
fn a_server_that_sends_garbage() {
    all_fail(
        &Server::answering(|_| b"220 mail.example ESMTP\r\n\r\n".to_vec()),
        ErrorKind::Malformed,
    );
    all_fail(&Server::once(|_| b"no line ever ends".to_vec()), ErrorKind::Malformed);
    all_fail(&Server::once(|_| vec![0xff; 100_000]), ErrorKind::Malformed);
}

#[test]
fn a_server_that_closes_early() {
    all_fail(&Server::once(|_| Vec::new()), ErrorKind::ClosedEarly);
    all_fail(&Server::once(|_| b"HTTP/1.1 200 OK\r\nContent-Le".to_vec()), ErrorKind::ClosedEarly);
    let chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    all_fail(&Server::once(|_| chunk.to_vec()), ErrorKind::ClosedEarly);
}

#[test]
fn a_server_that_lies_about_the_length_both_ways() {
    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello";
    all_fail(&Server::once(|_| short.to_vec()), ErrorKind::WrongLength);
    let long = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhello";
    all_fail(&Server::answering(|_| long.to_vec()), ErrorKind::WrongLength);
}

/// Long bodies are thrown away in the kernel: the lie must show there too.
#[test]
fn a_lie_about_a_long_body_shows_too() {
    let body = |announced: usize, sent: usize| {
        move |_: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\n\r\n");
            let mut response = head.into_bytes();
            response.resize(response.len() + sent, b'x');
            response
        }
    };
    all_fail(&Server::once(body(900_000, 899_999)), ErrorKind::WrongLength);
    let record = run(closed(&Server::once(body(900_000, 900_000)).url(), 1, FEW));
    assert_eq!(completed(&record), 6);
    let server = Server::answering(body(900_000, 900_100));
    let record = run(closed(&server.url(), 1, FEW));
    // The surplus may come after the response was complete: then the next one begins with it.
    let kinds = [ErrorKind::WrongLength, ErrorKind::Malformed].map(|kind| failed(&record, kind));
    assert_eq!(kinds.iter().sum::<u64>() + completed(&record), 6);
    assert!(kinds.iter().sum::<u64>() >= 2, "{kinds:?}");
}

#[test]
fn a_server_that_resets() {
    // To close a socket with unread bytes sends a RST.
    let server = Server::new(|stream: TcpStream| {
        let _ = stream.peek(&mut [0]);
    });
    all_fail(&server, ErrorKind::Reset);
}

#[test]
fn a_server_that_stalls_or_vanishes() {
    let stalls = Server::new(|mut stream: TcpStream| {
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
        let _ = read_head(&mut stream);
    });
    let mut plan = closed(&stalls.url(), 3, FEW);
    plan.response_max = Duration::from_millis(150);
    let begun = Instant::now();
    let record = run(plan);
    assert_eq!(failed(&record, ErrorKind::Timeout), 6);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(300), "two after another, 150 ms each: {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");

    let gone = { Server::answering(|_| ok(1)).url() };
    let record = run(closed(&gone, 2, FEW));
    assert_eq!(failed(&record, ErrorKind::ConnectRefused), 6);
}

#[test]
fn an_address_that_cannot_even_be_tried() {
    // A link-local address says nothing without the interface that it belongs to.
    let record = run(closed("http://[fe80::1]:9/", 2, FEW));
    assert_eq!(failed(&record, ErrorKind::ConnectOther), 6);
}

#[test]
fn every_status_has_its_kind() {
    for (status, kind) in [
        (404, ErrorKind::Status4xx),
        (500, ErrorKind::Status5xx),
        (503, ErrorKind::Refused),
        (101, ErrorKind::StatusOther),
        (700, ErrorKind::StatusOther),
    ] {
        let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        let server = Server::answering(move |_| response.clone().into_bytes());
        all_fail(&server, kind);
    }
    let moved = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
    let record = run(closed(&Server::answering(|_| moved.to_vec()).url(), 1, FEW));
    assert_eq!(completed(&record), 6, "a redirection is an answer");
}

#[test]
fn an_arrival_beyond_the_bound_counts_as_failed() {
    let stalls = Server::new(|mut stream: TcpStream| while read_head(&mut stream).is_some() {});
    let arrivals = Arrivals::Fixed { rate: 100.0 };
    let record =
        run(spec(&stalls.url(), Load::Open { arrivals, in_flight_max: 7 }, Until::Seconds(0.5)));
    let started: u64 = record.intervals.iter().map(|interval| interval.started).sum();
    assert_eq!(failed(&record, ErrorKind::InFlightBound) + 7, started);
    // Those that a busy machine has no time for before the end are not begun.
    assert!((10..=50).contains(&started), "{started} of 50 arrivals");
    assert!(record.intervals.last().unwrap().in_flight_mean > 6.9, "the seven are in flight");
    assert!(warns(&record, "still in flight at the end"));
}

/// A server may close a kept connection at any time: the request that crosses with it is sent again,
/// and fails in no way. A request that is answered with a close on a fresh connection does fail.
#[test]
fn a_stale_connection_is_opened_anew_and_counted() {
    let server = Server::once(|_| ok(3));
    let record = run(closed(&server.url(), 1, Until::Requests(20)));
    assert_eq!((completed(&record), failed_in_all(&record)), (20, 0));
    let connects: u64 = record.intervals.iter().map(|interval| interval.connects).sum();
    assert_eq!(connects, 20, "each connection served one request");
    assert!(warns(&record, "19 requests sent again"), "{:?}", record.summary);
}

#[test]
fn an_idle_connection_that_closes_or_speaks_is_dropped() {
    let server = Server::new(|mut stream: TcpStream| {
        if read_head(&mut stream).is_some() {
            let _ = stream.write_all(&ok(3));
            thread::sleep(Duration::from_millis(10));
            let _ = stream.write_all(b"HTTP/1.1 408 Too slow\r\n\r\n");
        }
    });
    let load = Load::Closed { clients: 1, think: Dist::Constant(0.04) };
    let record = run(spec(&server.url(), load, Until::Requests(5)));
    assert_eq!((completed(&record), failed_in_all(&record)), (5, 0));
    assert!(warns(&record, "bytes nobody had asked for"), "{:?}", record.summary);
}

#[test]
fn a_slow_trickle_is_read_to_its_end() {
    let trickles = Server::new(|mut stream: TcpStream| {
        while read_head(&mut stream).is_some() {
            for byte in
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_micros(300));
            }
        }
    });
    let record = run(closed(&trickles.url(), 2, FEW));
    assert_eq!(completed(&record), 6);
    let class = record.intervals.iter().flat_map(|i| &i.classes).find(|c| c.completed > 0).unwrap();
    assert!(class.first_byte.mean_s() + 0.01 < class.total.mean_s(), "{class:?}");
}

#[test]
fn a_body_may_end_with_the_connection() {
    let server = Server::once(|_| b"HTTP/1.1 200 OK\r\n\r\nas long as it takes".to_vec());
    for connections in [Connections::KeepAlive, Connections::PerRequest] {
        let mut plan = closed(&server.url(), 2, FEW);
        plan.connections = connections;
        let record = run(plan);
        assert_eq!((completed(&record), failed_in_all(&record)), (6, 0));
        assert!(!warns(&record, "sent again"), "a close that ends a body is no stale connection");
    }
}

#[test]
fn a_run_that_lost_its_server_ends_early_and_says_so() {
    let url = { Server::answering(|_| ok(1)).url() };
    let mut plan = closed(&url, 2, Until::Seconds(20.0));
    plan.lost_after = Duration::from_millis(300);
    let begun = Instant::now();
    let record = run(plan);
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(warns(&record, "the server is lost"), "{:?}", record.summary);
    assert!(!record.summary.unwrap().interrupted);

    // Being turned away is an answer: the server is there.
    let busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    let server = Server::answering(|_| busy.to_vec());
    let mut plan = closed(&server.url(), 1, Until::Seconds(0.8));
    plan.lost_after = Duration::from_millis(300);
    let record = run(plan);
    assert!(!warns(&record, "lost") && record.summary.unwrap().elapsed_s >= 0.8);
}
