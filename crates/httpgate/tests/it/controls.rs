//! Changes and observations of a running gate.

use std::sync::atomic::Ordering;

use httpgate::{ConfigError, ControlError, Server, StartError};

use crate::support::*;

pub(crate) fn admin(gate: &Gate, request: &str) -> Response {
    let mut client = Client::connect(gate.handle.admin_address().expect("it was asked for"));
    client.send(format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.response()
}

#[test]
fn slots_change_while_the_gate_runs() {
    let (upstream, peak) = Upstream::slow(ms(120));
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut clients: Vec<Client> = (0..6).map(|_| gate.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    gate.wait_for("five waiting", |stats| stats.waiting == 5);
    gate.handle.resize(0, 3).unwrap();
    let stats = gate.stats();
    assert_eq!((stats.waiting, stats.upstreams[0].busy, stats.upstreams[0].slots), (3, 3, 3));
    assert_eq!(admin(&gate, "POST /slots?server=0&slots=5").text(), "done\n");
    let stats = gate.stats();
    assert_eq!((stats.waiting, stats.upstreams[0].busy), (1, 5));
    gate.handle.resize(0, 1).unwrap();
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(peak.load(Ordering::SeqCst), 5);
    let error = gate.handle.resize(1, 1);
    assert_eq!(error, Err(ControlError::NoServer { server: 1, servers: 1 }));
    assert_eq!(gate.handle.resize(0, u32::MAX), Err(ControlError::Slots { slots: u32::MAX }));
    let handle = gate.handle.clone();
    gate.finish();
    assert_eq!(handle.pause(), Err(ControlError::Ended));
}

#[test]
fn a_paused_gate_lets_nobody_in_until_it_is_resumed() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 4));
    gate.handle.pause().unwrap();
    let mut client = gate.client();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(gate.wait_for("waiting", |stats| stats.waiting == 1).paused);
    assert!(client.is_silent(ms(60)));
    gate.handle.resume().unwrap();
    assert_eq!(client.response().text(), "/x");
    assert_eq!(admin(&gate, "POST /pause").status(), 200);
    gate.handle.set_wait_max(ms(50)).unwrap();
    client.get("/y").assert_refused("deadline");
    assert_eq!(admin(&gate, "POST /resume").status(), 200);
    assert_eq!(client.get("/z").text(), "/z");
    assert!(!gate.stats().paused);
}

#[test]
fn metrics_tell_what_happened() {
    let upstream = Upstream::echo();
    let gate = Gate::start(config(&[upstream.address], 2));
    let mut client = gate.client();
    for _ in 0..5 {
        client.get("/x");
    }
    client.send("BAD\r\n\r\n");
    client.response();
    let response = admin(&gate, "GET /metrics");
    assert_eq!(
        response.field("content-type").as_deref(),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let label = format!("server=\"{}\"", upstream.address);
    for line in [
        "sekisho_requests_total{class=\"other\",status=\"2xx\",source=\"server\"} 5",
        "sekisho_requests_total{class=\"other\",status=\"4xx\",source=\"gate\"} 1",
        "sekisho_connections_accepted_total 1",
        "sekisho_waiting{class=\"other\"} 0",
        "sekisho_slots 2",
        "sekisho_slots_busy 0",
        "sekisho_wait_seconds_count{class=\"other\"} 5",
        "sekisho_hold_seconds_count{class=\"other\"} 5",
        &format!("sekisho_server_slots{{{label}}} 2"),
        &format!("sekisho_server_hold_seconds_count{{{label}}} 5"),
        &format!("sekisho_server_hold_seconds_bucket{{{label},le=\"+Inf\"}} 5"),
        &format!("sekisho_server_reused_total{{{label}}} 4"),
    ] {
        assert!(response.text().contains(&format!("{line}\n")), "{line}: {}", response.text());
    }
    let hold = gate.stats().upstreams[0].hold.mean().unwrap();
    assert!(hold > ms(0) && hold < ms(1000), "{hold:?}");
}

#[test]
fn the_admin_server_answers_what_it_knows_and_nothing_to_browsers() {
    let address = nobody();
    let gate = Gate::start(config(&[address], 1));
    assert_eq!(admin(&gate, "GET /readyz").text(), "ok\n");
    gate.client().get("/");
    assert_eq!(admin(&gate, "GET /readyz").status(), 503);
    assert_eq!(admin(&gate, "GET /slots?server=0&slots=9").status(), 405);
    assert_eq!(admin(&gate, "POST /slots?server=3&slots=9").status(), 400);
    assert_eq!(admin(&gate, "POST /slots?slots=9").status(), 400);
    assert_eq!(admin(&gate, "GET /health").status(), 404);
    let mut page = Client::connect(gate.handle.admin_address().unwrap());
    page.send("POST /pause HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil\r\n\r\n");
    assert_eq!(page.response().status(), 403);
    let stats = gate.stats();
    assert_eq!((stats.upstreams[0].slots, stats.paused), (1, false));
    let mut garbage = Client::connect(gate.handle.admin_address().unwrap());
    garbage.send("\0\0\0");
    assert_eq!(garbage.response().status(), 400);
}

#[test]
fn a_configuration_that_describes_no_gate_is_refused_with_the_reason() {
    let address = nobody();
    let refused = |change: fn(&mut httpgate::Config)| {
        let mut config = config(&[address], 1);
        change(&mut config);
        match Server::bind(config) {
            Err(StartError::Config(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|c| c.gate.room = None), ConfigError::NoRoom);
    assert_eq!(refused(|c| c.gate.wait_max = None), ConfigError::NoWaitMax);
    assert_eq!(refused(|c| c.upstreams.clear()), {
        ConfigError::Upstreams { servers: 1, upstreams: 0 }
    });
    assert!(matches!(refused(|c| c.limits.head = 1), ConfigError::Limit { .. }));
    assert!(matches!(refused(|c| c.gate.servers[0].slots = 1 << 30), ConfigError::Limit { .. }));
    let probe = |c: &mut httpgate::Config| {
        c.health.probe = httpgate::Probe::Get("/a b".to_owned());
    };
    assert!(matches!(refused(probe), ConfigError::ProbePath(_)));
    let gate = Gate::start(config(&[address], 1));
    let mut taken = config(&[address], 1);
    taken.listen = gate.handle.address();
    assert!(matches!(Server::bind(taken), Err(StartError::Listen { .. })));
}
