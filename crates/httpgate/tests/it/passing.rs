//! Forwarding of messages: heads, bodies, framing, connections.

use std::io::Write;
use std::sync::atomic::Ordering;

use crate::support::*;

#[test]
fn requests_arrive_with_where_they_came_from() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 2));
    let mut client = gate.client();
    client.send(
        "POST /a?b HTTP/1.1\r\nHost: shop:80\r\nContent-Length: 5\r\nX-Own: 1\r\nTE: trailers\r\n\
         Connection: X-Hop\r\nX-Hop: 1\r\nX-Forwarded-For: 6.6.6.6\r\n\r\nhello",
    );
    let response = client.response();
    assert_eq!((response.status(), response.text()), (200, "/a?b"));
    assert_eq!(response.field("via").as_deref(), Some("1.1 sekisho"));
    let seen = upstream.seen.lock().unwrap()[0].clone();
    assert_eq!(seen.body, b"hello");
    for line in [
        "POST /a?b HTTP/1.1\r\n",
        "\r\nHost: shop:80\r\n",
        "\r\nX-Own: 1\r\n",
        "\r\nX-Forwarded-For: 127.0.0.1\r\n",
        "\r\nX-Forwarded-Proto: http\r\n",
        "\r\nX-Forwarded-Host: shop:80\r\n",
        "\r\nForwarded: for=127.0.0.1;host=\"shop:80\";proto=http\r\n",
        "\r\nVia: 1.1 sekisho\r\n",
    ] {
        assert!(seen.head.contains(line), "{line:?} is not in {:?}", seen.head);
    }
    for name in ["TE:", "X-Hop", "Connection", "6.6.6.6"] {
        assert!(!seen.head.contains(name), "{name} is in {:?}", seen.head);
    }
}

#[test]
fn request_bodies_stream_in_both_framings() {
    let upstream = Upstream::start(|stream, seen| {
        let sum: u64 = seen.body.iter().map(|&byte| u64::from(byte)).sum();
        ok(stream, &format!("{} {sum}", seen.body.len()))
    });
    let gate = Gate::start(config(&[upstream.address], 2));
    let body: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let sum: u64 = body.iter().map(|&byte| u64::from(byte)).sum();
    let expected = format!("{} {sum}", body.len());
    let mut client = gate.client();
    client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.response().text(), expected);
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (at, chunk) in body.chunks(70_001).enumerate() {
        let mut bytes = format!("{:X};n={at}\r\n", chunk.len()).into_bytes();
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        client.send(&bytes);
    }
    client.send("0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.response().text(), expected);
    assert_eq!(client.get("/again").text(), "0 0");
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1, "one connection served all");
}

#[test]
fn response_bodies_stream_in_every_framing() {
    let body: String = ('a'..='z').cycle().take(2_000_000).collect();
    let sent = body.clone();
    let upstream = Upstream::start(move |stream, seen| match seen.target() {
        "/length" => ok(stream, &sent),
        "/chunked" => {
            say(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for chunk in sent.as_bytes().chunks(33_333) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            say(stream, "0\r\nX-Trailer: 1\r\n\r\n")
        }
        _ => {
            say(stream, "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n")?;
            say(stream, &sent)?;
            Ok(Then::Close)
        }
    });
    let gate = Gate::start(config(&[upstream.address], 2));
    let mut client = gate.client();
    for target in ["/length", "/chunked", "/close", "/length"] {
        let response = client.get(target);
        assert!(response.text() == body, "{target}: {}", response.head);
    }
    // An old client gets the same, and knows the end by the close where it has to.
    for target in ["/length", "/chunked", "/close"] {
        let mut old = gate.client();
        old.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        let response = old.response();
        assert_eq!(response.field("transfer-encoding"), None);
        assert!(response.text() == body, "{target}: {}", response.head);
        assert!(old.is_closed());
    }
}

#[test]
fn responses_without_a_body_leave_the_connection_usable() {
    let upstream = Upstream::start(|stream, seen| match (seen.method(), seen.target()) {
        ("HEAD", _) => say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"),
        (_, "/204") => say(stream, "HTTP/1.1 204 No Content\r\n\r\n"),
        (_, "/304") => say(stream, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
        (_, "/empty") => ok(stream, ""),
        _ => ok(stream, "body"),
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head_response().field("content-length").as_deref(), Some("77"));
    assert_eq!(client.get("/204").status(), 204);
    assert_eq!(client.get("/304").status(), 304);
    assert_eq!(client.get("/empty").text(), "");
    assert_eq!(client.get("/").text(), "body");
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn informational_responses_pass_but_not_a_second_hundred() {
    let upstream = Upstream::start(|stream, _| {
        say(stream, "HTTP/1.1 100 Continue\r\n\r\n")?;
        say(stream, "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\nConnection: x\r\n\r\n")?;
        ok(stream, "done")
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    let hints = client.get("/");
    assert_eq!((hints.status(), hints.field("link").as_deref()), (103, Some("</s>")));
    assert_eq!(hints.field("connection"), None);
    assert_eq!(client.response().text(), "done");
    let mut old = gate.client();
    old.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(old.response().text(), "done");
}

#[test]
fn a_hundred_continue_comes_with_the_slot_and_not_before() {
    let (upstream, _) = Upstream::slow(ms(150));
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut first = gate.client();
    first.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.wait_for(1);
    let mut client = gate.client();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert!(client.is_silent(ms(60)), "it was told to send before it had a slot");
    assert_eq!(first.response().text(), "/first");
    assert_eq!(client.response().status(), 100);
    client.send("data");
    assert_eq!(client.response().text(), "/x");
    let seen = upstream.seen.lock().unwrap()[1].clone();
    assert!(seen.body == b"data" && !seen.head.contains("Expect"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 4));
    let mut client = gate.client();
    let text: String = (0..20).map(|i| format!("GET /{i} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    client.send(text);
    for i in 0..20 {
        assert_eq!(client.response().text(), format!("/{i}"));
    }
    // A body stands between two requests.
    client.send(
        "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
         GET /q HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!((client.response().text(), client.response().text()), ("/p", "/q"));
}

#[test]
fn connections_to_clients_persist_as_they_ask() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut keeps = gate.client();
    keeps.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(keeps.response().field("connection").as_deref(), Some("keep-alive"));
    keeps.send("GET /b HTTP/1.0\r\n\r\n");
    let last = keeps.response();
    assert_eq!((last.text(), last.field("connection").as_deref()), ("/b", Some("close")));
    assert!(keeps.is_closed());
    let mut closes = gate.client();
    closes.send("GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(closes.response().text(), "/c");
    assert!(closes.is_closed());
}

#[test]
fn connections_to_servers_are_reused_and_let_go_when_idle() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 4);
    config.timeouts.pool_idle = ms(120);
    let gate = Gate::start(config);
    for i in 0..10 {
        // Each from another client: the pool is the server's, not the client's.
        assert_eq!(gate.client().get(&format!("/{i}")).text(), format!("/{i}"));
    }
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 1);
    let stats = gate.stats();
    assert_eq!(stats.upstreams[0].connections_opened, 1);
    assert_eq!(stats.upstreams[0].connections_reused, 9);
    std::thread::sleep(ms(400));
    assert_eq!(gate.client().get("/late").text(), "/late");
    assert_eq!(upstream.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn absolute_targets_and_options_reach_the_server_in_origin_form() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    client.send("GET http://other:81/x?y HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response().text(), "/x?y");
    assert!(upstream.seen.lock().unwrap()[0].head.contains("\r\nHost: other:81\r\n"));
    client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\n\r\n");
    assert_eq!(client.response().text(), "*");
    assert!(upstream.seen.lock().unwrap()[1].head.contains("\r\nMax-Forwards: 2\r\n"));
    client.send("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n");
    let here = client.response();
    assert!(here.status() == 200 && here.field("allow").is_some());
    assert_eq!(client.get("/after").text(), "/after");
    assert_eq!(upstream.requests(), 3);
}

#[test]
fn an_early_answer_reaches_a_client_that_is_still_sending() {
    let upstream = Upstream::raw_at(any_port(), |stream, _| {
        use std::io::Read;
        stream.read_exact(&mut [0; 64])?;
        say(stream, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")?;
        // It keeps reading a little, as servers do, and then closes.
        std::thread::sleep(ms(100));
        Ok(())
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut client = gate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    let response = client.response();
    assert_eq!((response.status(), response.text()), (413, "no\n"));
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    client.try_send(vec![b'x'; 1000]);
    assert!(client.is_closed());
    gate.wait_for("free", |stats| stats.upstreams[0].busy == 0);
}
