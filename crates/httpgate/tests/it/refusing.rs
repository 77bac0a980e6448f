//! Requests that are refused before they reach the gate.

use httpgate::Class;

use crate::support::*;

#[test]
fn what_could_smuggle_a_request_is_refused_and_the_connection_closed() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 1));
    let get = "GET / HTTP/1.1\r\nHost: a\r\n";
    let post = "POST / HTTP/1.1\r\nHost: a\r\n";
    let inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let corpus = [
        (400, format!("{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
        (400, format!("{post}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n")),
        (400, format!("{post}Content-Length: 0\r\nContent-Length: 44\r\n\r\n")),
        (400, format!("{post}Content-Length: 0, 44\r\n\r\n")),
        (400, format!("{post}Content-Length: +0\r\n\r\n")),
        (400, format!("{post}Content-Length: 0 \x0b\r\n\r\n")),
        (400, format!("{post}Content-Length : 0\r\n\r\n")),
        (400, format!("{post}Transfer-Encoding: xchunked\r\n\r\n")),
        (400, format!("{post}Transfer-Encoding: chunked, identity\r\n\r\n")),
        (400, format!("{post}Transfer-Encoding:\x0bchunked\r\n\r\n")),
        (501, format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n")),
        (400, format!("{post}X: a\r\n Transfer-Encoding: chunked\r\n\r\n")),
        (400, format!("{get}X: a\nContent-Length: 44\r\n\r\n")),
        (400, format!("{get}X: a\rContent-Length: 44\r\n\r\n")),
        (400, format!("{get}X: \0\r\n\r\n")),
        (400, "GET / HTTP/1.1\nHost: a\n\n".to_owned()),
        (400, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (400, format!("{get}Host: b\r\n\r\n")),
        (400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        (405, "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (405, "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (501, format!("{get}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n")),
        (417, format!("{post}Expect: tea\r\nContent-Length: 1\r\n\r\n")),
        (414, format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000))),
        (431, format!("{get}X: {}\r\n", "x".repeat(20_000))),
        (431, format!("{get}{}\r\n", "A: b\r\n".repeat(101))),
    ];
    for (status, attack) in corpus {
        let mut client = gate.client();
        client.try_send(attack.clone() + inner);
        let response = client.response();
        assert_eq!(response.status(), status, "{attack:?}");
        assert_eq!(response.field("connection").as_deref(), Some("close"), "{attack:?}");
        assert!(!response.text().is_empty(), "it says why");
        assert!(client.is_closed(), "{attack:?}");
    }
    assert_eq!(upstream.targets(), Vec::<String>::new(), "nothing came through");
}

#[test]
fn a_chunked_body_that_is_none_ends_the_exchange() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 1));
    for body in
        ["5\nhello", "ffffffffffffffffff\r\n", "5;\0", "5\r\nhelloX", "0\r\nBad name: x\r\n\r\n"]
    {
        let mut client = gate.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}\r\n\r\n"
        ));
        assert_eq!(client.response().status(), 400, "{body:?}");
        assert!(client.is_closed());
    }
    // The same, after part of the body has gone to the server.
    let mut client = gate.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    gate.wait_for("started", |stats| stats.upstreams[0].busy == 1);
    std::thread::sleep(ms(20));
    client.send("zz\r\n");
    assert_eq!(client.response().status(), 400);
    gate.wait_for("free", |stats| stats.upstreams[0].busy == 0);
    assert_eq!(upstream.requests(), 0, "the server saw no whole request");
}

#[test]
fn slow_and_idle_clients_are_let_go() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 1);
    config.timeouts.head = ms(150);
    config.timeouts.idle = ms(150);
    config.timeouts.stall = ms(150);
    let gate = Gate::start(config);
    let mut slow = gate.client();
    slow.send("GET / HT");
    assert_eq!(slow.response().status(), 408);
    let mut silent = gate.client();
    assert!(silent.is_closed());
    let mut idle = gate.client();
    assert_eq!(idle.get("/x").text(), "/x");
    assert!(idle.is_closed());
    // One that stops in the middle of its body held a slot, and does not any more.
    let mut stalls = gate.client();
    stalls.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhal");
    assert_eq!(stalls.response().status(), 408);
    gate.wait_for("free", |stats| stats.upstreams[0].busy == 0);
}

#[test]
fn classes_are_told_by_the_beginning_of_the_target() {
    let upstream = Upstream::echo();
    let mut config = config(&[upstream.address], 1);
    config.classes = vec![
        Class { priority: 9, ..Class::new("/vip/") },
        Class { priority: 1, ..Class::new("/") },
    ];
    let gate = Gate::start(config);
    let mut client = gate.client();
    client.get("/vip/a");
    client.send("GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n");
    client.response();
    client.send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    client.response();
    let recording = gate.finish().recording.unwrap();
    let arrived: Vec<(u32, u8)> = (recording.steps.iter())
        .filter_map(|step| match step.event {
            gate::Event::Arrive(job) => Some((job.class, job.priority)),
            _ => None,
        })
        .collect();
    assert_eq!(arrived, [(1, 9), (2, 1), (0, 0)]);
}
