//! The gate itself, on real sockets: slots, queue, deadlines, reneging, disciplines, routers.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Instant;

use gate::{DisciplineSpec, Event, Length, Queues, RouterSpec, Ties};
use httpgate::Class;

use crate::support::*;

/// Starts a request whose answer is read later.
fn begin(gate: &Gate, target: &str) -> Client {
    let mut client = gate.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

#[test]
fn a_full_queue_refuses_and_the_connection_stays() {
    let (upstream, _) = Upstream::slow(ms(200));
    let mut config = config(&[upstream.address], 1);
    config.gate.room = Some(1);
    let gate = Gate::start(config);
    let mut served = begin(&gate, "/served");
    upstream.wait_for(1);
    let mut waits = begin(&gate, "/waits");
    gate.wait_for("waiting", |stats| stats.waiting == 1);
    let mut refused = gate.client();
    refused.get("/refused").assert_refused("queue-full");
    refused.send("HEAD /refused HTTP/1.1\r\nHost: a\r\n\r\n");
    refused.head_response().assert_refused("queue-full");
    assert_eq!(served.response().text(), "/served");
    assert_eq!(waits.response().text(), "/waits");
    assert_eq!(refused.get("/later").text(), "/later");
    let stats = gate.finish().stats;
    assert_eq!((stats.refused_queue_full, stats.refused_deadline), (2, 0));
    assert_eq!(upstream.targets(), ["/served", "/waits", "/later"]);
}

#[test]
fn a_job_that_waited_too_long_is_refused_at_its_deadline() {
    let (upstream, _) = Upstream::slow(ms(400));
    let mut config = config(&[upstream.address], 1);
    config.gate.wait_max = Some(ms(120));
    let gate = Gate::start(config);
    let mut served = begin(&gate, "/served");
    upstream.wait_for(1);
    let began = Instant::now();
    let mut late = gate.client();
    late.get("/late").assert_refused("deadline");
    let waited = began.elapsed();
    assert!(waited >= ms(120) && waited < ms(300), "{waited:?}");
    assert_eq!(served.response().text(), "/served");
    // A refused request with a body cannot leave its connection usable.
    let mut served = begin(&gate, "/served");
    upstream.wait_for(2);
    late.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let response = late.response();
    response.assert_refused("deadline");
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    assert!(late.is_closed());
    assert_eq!(served.response().text(), "/served");
    assert_eq!(gate.finish().stats.refused_deadline, 2);
}

#[test]
fn who_leaves_while_waiting_never_reaches_the_server() {
    let (upstream, _) = Upstream::slow(ms(150));
    let gate = Gate::start(config(&[upstream.address], 1));
    let mut served = begin(&gate, "/served");
    upstream.wait_for(1);
    let leaves = begin(&gate, "/leaves");
    let mut stays = begin(&gate, "/stays");
    gate.wait_for("two waiting", |stats| stats.waiting == 2);
    drop(leaves);
    gate.wait_for("one waiting", |stats| stats.waiting == 1);
    assert_eq!(served.response().text(), "/served");
    assert_eq!(stays.response().text(), "/stays");
    let finished = gate.finish();
    assert_eq!(finished.stats.reneged, 1);
    assert_eq!(upstream.targets(), ["/served", "/stays"]);
    let steps = finished.recording.unwrap().steps;
    assert!(steps.iter().any(|step| matches!(step.event, Event::Renege(_))));
}

#[test]
fn slots_are_never_exceeded_whatever_clients_do() {
    let (one, one_peak) = Upstream::slow(ms(4));
    let (two, two_peak) = Upstream::slow(ms(4));
    let mut config = config(&[one.address, two.address], 2);
    config.gate.room = Some(4);
    config.timeouts.abandoned = ms(2000);
    let gate = Gate::start(config);
    let workers: Vec<_> = (0..10_u64)
        .map(|worker| {
            let address = gate.handle.address();
            std::thread::spawn(move || {
                let mut counts = HashMap::new();
                for i in 0..30_u64 {
                    let mut client = Client::connect(address);
                    client.send(format!("GET /{worker}/{i} HTTP/1.1\r\nHost: a\r\n\r\n"));
                    // Every third leaves at some moment: before, while waiting, or in service.
                    if (worker + i) % 3 == 0 {
                        std::thread::sleep(ms((worker * 7 + i * 3) % 9));
                        continue;
                    }
                    *counts.entry(client.response().status()).or_insert(0) += 1;
                }
                counts
            })
        })
        .collect();
    let mut counts = HashMap::new();
    for worker in workers {
        for (status, count) in worker.join().unwrap() {
            *counts.entry(status).or_insert(0) += count;
        }
    }
    assert_eq!(counts.values().sum::<i32>(), 200);
    assert!(counts.keys().all(|status| matches!(status, 200 | 503)), "{counts:?}");
    assert!(counts[&200] > 20, "{counts:?}");
    gate.wait_for("idle", |stats| stats.upstreams.iter().all(|upstream| upstream.busy == 0));
    for peak in [one_peak, two_peak] {
        let peak = peak.load(Ordering::SeqCst);
        assert!((1..=2).contains(&peak), "a server of 2 slots had {peak} at once");
    }
    let finished = gate.finish();
    let refused = finished.stats.refused_queue_full;
    assert!(refused as i32 >= counts.get(&503).copied().unwrap_or(0));
}

#[test]
fn priorities_and_queues_for_each_server_replay_too() {
    let (one, _) = Upstream::slow(ms(3));
    let (two, _) = Upstream::slow(ms(6));
    let mut config = config(&[one.address, two.address], 2);
    config.gate.discipline = DisciplineSpec::Priority;
    config.gate.queues = Queues::PerServer;
    config.gate.router = RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Random };
    config.gate.seed = 7;
    config.gate.wait_max = Some(ms(40));
    config.classes = vec![Class { priority: 9, ..Class::new("/vip") }];
    let gate = Gate::start(config);
    let workers: Vec<_> = (0..16)
        .map(|worker| {
            let address = gate.handle.address();
            std::thread::spawn(move || {
                let target = if worker % 4 == 0 { "/vip" } else { "/other" };
                let mut client = Client::connect(address);
                (0..25).filter(|_| client.get(target).status() == 200).count()
            })
        })
        .collect();
    gate.handle.resize(1, 3).unwrap();
    gate.handle.pause().unwrap();
    std::thread::sleep(ms(15));
    gate.handle.resume().unwrap();
    let served: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    let finished = gate.finish();
    let starts = finished.stats.upstreams.iter().map(|upstream| upstream.wait.count()).sum::<u64>();
    assert!(served > 50 && starts == served as u64, "{served} served, {starts} started");
    assert!(finished.recording.unwrap().steps.len() > 2 * served);
}

#[test]
fn a_higher_priority_overtakes() {
    let (upstream, _) = Upstream::slow(ms(100));
    let mut config = config(&[upstream.address], 1);
    config.gate.discipline = DisciplineSpec::Priority;
    config.classes = vec![Class { priority: 9, ..Class::new("/vip") }];
    let gate = Gate::start(config);
    gate.handle.pause().expect("the gate runs");
    let mut clients = Vec::new();
    for (before, target) in ["/first", "/low", "/vip"].into_iter().enumerate() {
        clients.push(begin(&gate, target));
        gate.wait_for("in line", |stats| stats.waiting == before as u64 + 1);
    }
    gate.handle.resume().expect("the gate runs");
    for client in &mut clients {
        client.response();
    }
    assert_eq!(upstream.targets(), ["/vip", "/first", "/low"]);
}

#[test]
fn a_slow_client_does_not_hold_its_slot() {
    // Larger than what the system itself would take off the gate's hands.
    let size = 24 << 20;
    let body = "x".repeat(size);
    let upstream = Upstream::start(move |stream, seen| match seen.target() {
        "/large" => ok(stream, &body),
        _ => ok(stream, "small"),
    });
    let mut config = config(&[upstream.address], 1);
    config.limits.buffer = 32 << 20;
    let gate = Gate::start(config);
    let mut slow = begin(&gate, "/large");
    upstream.wait_for(1);
    assert_eq!(gate.client().get("/small").text(), "small");
    let stats = gate.stats();
    assert_eq!((stats.upstreams[0].busy, stats.connections >= 1), (0, true));
    assert_eq!(slow.response().body.len(), size);
}

#[test]
fn a_response_larger_than_the_buffer_holds_its_slot_until_the_stall_is_cut() {
    let size = 24 << 20;
    let body = "x".repeat(size);
    let upstream = Upstream::start(move |stream, seen| match seen.target() {
        "/large" => ok(stream, &body),
        _ => ok(stream, "small"),
    });
    let mut config = config(&[upstream.address], 1);
    config.timeouts.stall = ms(2000);
    config.gate.wait_max = Some(ms(100));
    let gate = Gate::start(config);
    let mut slow = begin(&gate, "/large");
    upstream.wait_for(1);
    gate.client().get("/small").assert_refused("deadline");
    // It reads a little and stalls again: the first stall was not cut, the second is.
    slow.reader.read_exact(&mut vec![0; 8 << 20]).unwrap();
    gate.wait_for("lost", |stats| stats.clients_lost == 1);
    assert_eq!(gate.client().get("/small").text(), "small");
    let mut rest = Vec::new();
    let whole = slow.reader.read_to_end(&mut rest).is_ok_and(|n| n + (8 << 20) >= size);
    assert!(!whole, "the client must see that this is not all");
}

#[test]
fn who_leaves_while_served_leaves_a_busy_slot_behind_for_a_while() {
    let upstream = Upstream::start(|stream, seen| {
        if seen.target() == "/left" {
            // Enough that the gate notices that nobody is there, and then work that goes on.
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")?;
            for _ in 0..8 {
                std::thread::sleep(ms(40));
                stream.write_all(b"x")?;
            }
            return Ok(Then::Keep);
        }
        ok(stream, "next")
    });
    let gate = Gate::start(config(&[upstream.address], 1));
    let left = begin(&gate, "/left");
    upstream.wait_for(1);
    drop(left);
    let began = Instant::now();
    assert_eq!(gate.client().get("/next").text(), "next");
    assert!(began.elapsed() > ms(200), "the slot was another's while the server was at work");
    let finished = gate.finish();
    assert_eq!(finished.stats.clients_lost, 1);
    assert_eq!(finished.stats.upstreams[0].connections_opened, 1, "its connection was of use");
}

#[test]
fn an_abandoned_response_is_cut_after_the_patience_for_it() {
    let upstream = Upstream::start(|stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(ms(15));
        }
    });
    let mut config = config(&[upstream.address], 1);
    config.timeouts.abandoned = ms(100);
    let gate = Gate::start(config);
    let left = begin(&gate, "/");
    upstream.wait_for(1);
    let began = Instant::now();
    drop(left);
    gate.wait_for("free", |stats| stats.clients_lost == 1 && stats.upstreams[0].busy == 0);
    assert!(began.elapsed() < ms(2000), "{:?}", began.elapsed());
}

#[test]
fn routers_spread_requests_over_the_servers() {
    for router in [
        RouterSpec::Random,
        RouterSpec::RoundRobin,
        RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Rotate },
    ] {
        for queues in [Queues::Shared, Queues::PerServer] {
            let upstreams = [Upstream::echo(), Upstream::echo(), Upstream::echo()];
            let addresses: Vec<_> = upstreams.iter().map(|upstream| upstream.address).collect();
            let mut config = config(&addresses, 2);
            config.gate.router = router.clone();
            config.gate.queues = queues;
            let gate = Gate::start(config);
            let mut client = gate.client();
            for _ in 0..30 {
                assert_eq!(client.get("/x").status(), 200);
            }
            let counts: Vec<usize> = upstreams.iter().map(Upstream::requests).collect();
            assert_eq!(counts.iter().sum::<usize>(), 30);
            if router == RouterSpec::Random {
                assert!(counts.iter().all(|&n| n >= 2), "{counts:?}");
            } else {
                assert_eq!(counts, [10, 10, 10], "{router:?}");
            }
        }
    }
}
