//! Servers behind the gate that misbehave: counted by kind, never a hang, and the slot comes back.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use httpgate::{Probe, UpstreamError};

use crate::support::*;

#[test]
fn a_server_that_does_not_answer_properly_is_told_by_kind() {
    use UpstreamError::{Closed, Garbage, Timeout};
    let cases: [(&'static str, u16, UpstreamError); 14] = [
        ("", 502, Closed),
        ("HTTP/1.1 200 OK\r\nContent-Le", 502, Closed),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", 502, Garbage),
        ("\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 502, {
            Garbage
        }),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", 502, Garbage),
        ("HTTP/1.1 999 X\r\n\r\n", 502, Garbage),
        ("stall", 504, Timeout),
        ("HTTP/1.1 200 OK\r\nstall", 504, Timeout),
    ];
    for (bytes, status, kind) in cases {
        let upstream = Upstream::start(move |stream, _| {
            match bytes.strip_suffix("stall") {
                Some(before) => {
                    say(stream, before)?;
                    let _ = stream.read(&mut [0]);
                }
                None => drop(say(stream, bytes)?),
            }
            Ok(Then::Close)
        });
        let mut config = config(&[upstream.address], 1);
        config.timeouts.response = ms(120);
        let gate = Gate::start(config);
        let mut client = gate.client();
        assert_eq!(client.get("/").status(), status, "{bytes:?}");
        let stats = gate.stats();
        assert_eq!(stats.upstreams[0].errors(kind), 1, "{bytes:?}: {stats:?}");
        assert_eq!((stats.upstreams[0].busy, stats.upstreams[0].up), (0, true));
        // The client's connection is as good as before.
        assert_eq!(client.get("/").status(), status, "{bytes:?}");
    }
}

#[test]
fn a_response_that_breaks_off_is_seen_to_break_off() {
    let cases: [(&'static str, UpstreamError); 5] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", UpstreamError::Truncated),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n", {
            UpstreamError::Truncated
        }),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nzz", {
            UpstreamError::Garbage
        }),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshortstall", UpstreamError::Timeout),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nstall", {
            UpstreamError::Timeout
        }),
    ];
    for (bytes, kind) in cases {
        let upstream = Upstream::start(move |stream, _| {
            say(stream, bytes.strip_suffix("stall").unwrap_or(bytes))?;
            if bytes.ends_with("stall") {
                let _ = stream.read(&mut [0]);
            }
            Ok(Then::Close)
        });
        let mut config = config(&[upstream.address], 1);
        config.timeouts.stall = ms(120);
        let gate = Gate::start(config);
        let mut client = gate.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let broken = client.try_response("GET");
        assert!(broken.is_err(), "{bytes:?}: {broken:?}");
        // An HTTP/1.0 client cannot tell the end of chunks, so its connection is reset.
        let mut old = gate.client();
        old.send("GET / HTTP/1.0\r\n\r\n");
        assert!(old.try_response("GET").is_err(), "{bytes:?}");
        let stats = gate.wait_for("counted", |stats| stats.upstreams[0].errors(kind) == 2);
        assert_eq!(stats.upstreams[0].busy, 0);
    }
}

#[test]
fn more_than_was_announced_is_not_taken_for_the_next_response() {
    let upstream = Upstream::start(|stream, seen| {
        let body = format!("{:05}", seen.nth);
        let lie = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        say(stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}{lie}"))
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "00000", "each comes over a connection of its own");
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 3);
}

#[test]
fn one_byte_too_many_after_a_body_that_streams_ends_the_connection() {
    let upstream = Upstream::start(|stream, seen| {
        say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n00")?;
        std::thread::sleep(ms(30));
        say(stream, &format!("00{}!", seen.nth))
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), "00000", "each comes over a connection of its own");
    }
}

#[test]
fn a_response_in_crumbs_arrives_whole() {
    let upstream = Upstream::start(|stream, _| {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            3;x\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        for byte in text.as_bytes() {
            stream.write_all(&[*byte])?;
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        Ok(Then::Keep)
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    assert_eq!(client.get("/").text(), "abcde");
    assert_eq!(client.get("/").text(), "abcde");
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_kept_connection_that_dies_costs_a_retry_where_that_is_safe() {
    // Each connection takes one request, and dies when it gets a second one.
    let upstream =
        Upstream::start(
            |stream, seen| {
                if seen.nth == 1 { Ok(Then::Close) } else { ok(stream, seen.target()) }
            },
        );
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    assert_eq!(client.get("/a").text(), "/a");
    assert_eq!(client.get("/b").text(), "/b");
    client.send("PUT /c HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.response().text(), "/c");
    assert_eq!(upstream.seen.lock().unwrap().last().unwrap().body, b"abc");
    // A POST may have been done already, so it is not sent twice.
    client.send("POST /d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.response().status(), 502);
    assert_eq!(upstream.targets(), ["/a", "/b", "/b", "/c", "/c", "/d"]);
    let stats = gate.finish().stats;
    assert_eq!(stats.upstreams[0].retries, 2);
    assert_eq!(stats.upstreams[0].errors(UpstreamError::Closed), 1);
}

#[test]
fn a_server_that_is_down_is_passed_over_and_comes_back() {
    let address = nobody();
    let gate = Gate::start(config(&[address], 1));
    let mut client = gate.client();
    assert_eq!(client.get("/").status(), 502);
    let stats = gate.stats();
    assert!(!stats.upstreams[0].up);
    assert_eq!(stats.upstreams[0].errors(UpstreamError::Connect), 1);
    client.get("/").assert_refused("unreachable");
    let upstream = Upstream::start_at(address, |stream, seen| ok(stream, seen.target()));
    gate.wait_for("up", |stats| stats.upstreams[0].up);
    assert_eq!(client.get("/back").text(), "/back");
    assert_eq!(upstream.requests(), 1);
    assert_eq!(gate.finish().stats.refused_unreachable, 1);
}

#[test]
fn a_request_waits_for_a_server_that_is_down_as_long_as_it_may() {
    let address = nobody();
    let mut config = config(&[address], 1);
    config.gate.unreachable_max = Some(ms(300));
    let gate = Gate::start(config);
    let mut client = gate.client();
    assert_eq!(client.get("/").status(), 502);
    let began = Instant::now();
    client.get("/").assert_refused("unreachable");
    assert!(began.elapsed() >= ms(300), "{:?}", began.elapsed());
    client.send("GET /back HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.wait_for("waiting", |stats| stats.waiting == 1);
    let _upstream = Upstream::start_at(address, |stream, seen| ok(stream, seen.target()));
    assert_eq!(client.response().text(), "/back");
    assert_eq!(gate.finish().stats.refused_unreachable, 1);
}

#[test]
fn a_request_that_could_not_connect_goes_to_another_server() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[nobody(), upstream.address], 2));
    let mut client = gate.client();
    for i in 0..6 {
        assert_eq!(client.get(&format!("/{i}")).text(), format!("/{i}"));
    }
    let stats = gate.stats();
    assert_eq!((stats.upstreams[0].up, stats.upstreams[1].up), (false, true));
}

#[test]
fn a_health_check_takes_a_sick_server_out_and_back_in() {
    let well = Arc::new(AtomicBool::new(true));
    let checks = well.clone();
    let sick = Upstream::start(move |stream, seen| {
        if seen.target() != "/ready" {
            // Every request connects, which must not count for health.
            say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsick")?;
            return Ok(Then::Close);
        }
        let status = if checks.load(Ordering::SeqCst) { "200 OK" } else { "500 No" };
        say(stream, &format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        Ok(Then::Close)
    });
    let other = Upstream::start(|stream, _| ok(stream, "other"));
    let mut config = config(&[sick.address, other.address], 1);
    config.health.probe = Probe::Get("/ready".to_owned());
    config.health.interval = ms(20);
    config.health.fall = 2;
    config.health.rise = 2;
    let gate = Gate::start(config);
    let mut client = gate.client();
    let mut bodies =
        |n: usize| -> Vec<String> { (0..n).map(|_| client.get("/").text().to_owned()).collect() };
    assert!(bodies(4).contains(&"sick".to_owned()));
    well.store(false, Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    while gate.stats().upstreams[0].up {
        bodies(2);
        assert!(Instant::now() < until, "it never went down under load");
    }
    assert_eq!(bodies(4), ["other"; 4]);
    well.store(true, Ordering::SeqCst);
    gate.wait_for("up", |stats| stats.upstreams[0].up);
    assert!(bodies(4).contains(&"sick".to_owned()));
}

#[test]
fn a_server_without_end_is_cut_at_the_longest_hold() {
    let upstream = Upstream::start(|stream, _| {
        say(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(ms(10));
        }
    });
    let mut config = config(&[upstream.address], 1);
    config.timeouts.hold = ms(200);
    let gate = Gate::start(config);
    let mut client = gate.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_response("GET").is_err());
    let stats = gate.wait_for("free", |stats| stats.upstreams[0].busy == 0);
    assert_eq!(stats.upstreams[0].errors(UpstreamError::Timeout), 1);
}
