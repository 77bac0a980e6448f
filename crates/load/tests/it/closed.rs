//! Closed load: exact counts, the laws of closed systems, connections, ends.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use load::http::{
    Closing, Connections, Idle, Load, Method, Order, Plan, PlanSpec, Reach, Request, Target, record,
};
use measure::{LittleVerdict, Until};
use workload::{Dist, DocumentSet};

use crate::server::{Server, ok, path};
use crate::{closed, completed, failed_in_all, naming, responses, run, spec, warns};

#[test]
fn a_limit_on_requests_is_exact_on_any_number_of_threads() {
    for (requests, clients, threads) in [(1, 1, 1), (3, 8, 2), (777, 5, 1), (777, 5, 3)] {
        let seen = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&seen);
        let server = Server::answering(move |_| {
            *counter.lock().unwrap() += 1;
            ok(10)
        });
        let mut plan = closed(&server.url(), clients, Until::Requests(requests));
        plan.threads = threads;
        let record = run(plan);
        assert_eq!(completed(&record), requests);
        assert_eq!(*seen.lock().unwrap(), requests, "no request more than was asked for");
        let started: u64 = record.intervals.iter().map(|interval| interval.started).sum();
        assert_eq!(started, requests);
    }
}

#[test]
fn the_deck_is_exact_per_thousand_on_any_number_of_threads() {
    for threads in [1, 3] {
        let seen = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
        let counter = Arc::clone(&seen);
        let server = Server::answering(move |head| {
            *counter.lock().unwrap().entry(path(head).to_owned()).or_default() += 1;
            ok(10)
        });
        let mut plan = closed(&format!("{}docs?v=1", server.url()), 6, Until::Requests(2000));
        plan.requests = Request::documents(&plan.target, &DocumentSet::webstone());
        plan.order = Order::Deck;
        plan.threads = threads;
        let record = run(plan);
        let dealt = seen.lock().unwrap();
        for (class, (name, count)) in
            [("500b", 700), ("5k", 1000), ("50k", 280), ("500k", 18), ("5m", 2)].iter().enumerate()
        {
            assert_eq!(dealt[&format!("/docs/{name}?v=1")], *count, "{threads} threads: {dealt:?}");
            let of_class: u64 =
                record.intervals.iter().map(|interval| interval.classes[class].completed).sum();
            assert_eq!(of_class, *count, "the record counts the same");
        }
    }
}

/// Requests in flight are counted; throughput and response times are measured: L = X R. Over the
/// whole run the sums are exact but for the requests cut off at the end: at most the clients, each
/// for at most one response time.
#[test]
fn littles_law_holds() {
    for (connections, threads) in [(Connections::KeepAlive, 1), (Connections::PerRequest, 2)] {
        let server = Server::answering(|_| {
            thread::sleep(Duration::from_millis(3));
            ok(100)
        });
        // On a busy machine that is long beside the responses that the end cuts off.
        let mut plan = closed(&server.url(), 8, Until::Requests(2000));
        plan.connections = connections;
        plan.threads = threads;
        let record = run(plan);
        let judged = record.judge(0.95);
        assert_eq!(judged.little.verdict, LittleVerdict::Closes, "{:?}", judged.little);
        let counted = judged.little.counted;
        // All 8 clients are always in flight, once a busy machine has let the threads begin.
        assert!(counted > 7.0 && counted < 8.0 + 1e-9, "{counted}");
        let computed = judged.little.computed;
        let length_s: f64 = record.intervals.iter().map(|interval| interval.length_s).sum();
        let cut_off = 8.0 * responses(&record).max().as_secs_f64() / length_s;
        assert!((counted - computed).abs() <= cut_off + 0.02, "{:?}, {cut_off}", judged.little);
    }
}

/// R + Z = N / X, the law of response times in a closed system.
#[test]
fn clients_think() {
    let server = Server::answering(|_| {
        thread::sleep(Duration::from_millis(5));
        ok(100)
    });
    let load = Load::Closed { clients: 10, think: Dist::Constant(0.020) };
    let record = run(spec(&server.url(), load, Until::Seconds(1.5)));
    let response_s = responses(&record).mean_s();
    let throughput = completed(&record) as f64 / 1.5;
    let cycle_s = 10.0 / throughput;
    // A cycle is cut off at each end of the run: 1 in 60.
    let off = (response_s + 0.020 - cycle_s) / cycle_s;
    assert!(off.abs() < 0.03, "R = {response_s}, Z = 0.020, N/X = {cycle_s}");
    assert!(response_s >= 0.005);
    assert_eq!(record.header.settings["think"], "Constant(0.02)");
}

#[test]
fn one_connection_a_request() {
    for closing in [Closing::Fin, Closing::Rst] {
        let server = Server::once(|head| {
            assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
            ok(100)
        });
        let mut plan = closed(&server.url(), 4, Until::Requests(200));
        plan.connections = Connections::PerRequest;
        plan.closing = closing;
        let record = run(plan);
        assert_eq!((completed(&record), failed_in_all(&record)), (200, 0));
        assert_eq!(server.connections.load(Ordering::SeqCst), 200);
        let connects: u64 = record.intervals.iter().map(|interval| interval.connects).sum();
        assert_eq!(connects, 200);
        assert_eq!(record.header.settings["keep-alive"], "off");
        let opening_s: f64 = record
            .intervals
            .iter()
            .map(|interval| &interval.classes[0].connect)
            .map(|connect| connect.mean_s() * connect.len() as f64)
            .sum();
        let response_s = responses(&record).mean_s() * 200.0;
        assert!(0.0 < opening_s && opening_s < response_s, "a response includes its connection");
    }
}

#[test]
fn kept_connections_are_one_a_client() {
    let server = Server::answering(|_| ok(100));
    let record = run(closed(&server.url(), 4, Until::Requests(400)));
    assert_eq!(completed(&record), 400);
    assert_eq!(server.connections.load(Ordering::SeqCst), 4);
}

#[test]
fn requests_say_what_the_plan_says() {
    let seen = Arc::new(Mutex::new(String::new()));
    let last = Arc::clone(&seen);
    let server = Server::answering(move |head| {
        *last.lock().unwrap() = head.to_owned();
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec()
    });
    let url = format!("http://me:secret@{}/a/b?c", server.address);
    let mut plan = closed(&url, 1, Until::Requests(3));
    plan.requests[0].method = Method::Head;
    plan.headers = vec![("X-Key".into(), "hidden".into())];
    plan.idle = Idle::Spin;
    let record = run(plan);
    assert_eq!(completed(&record), 3, "an answer to HEAD has no body");
    let expected = format!(
        "HEAD /a/b?c HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic bWU6c2VjcmV0\r\n\
         X-Key: hidden\r\n\r\n",
        server.address
    );
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(record.header.target, format!("http://{}/a/b?c", server.address));
    assert_eq!(record.header.settings["idle"], "spin");
    let stored = format!("{:?}", record.header);
    assert!(!stored.contains("secret") && !stored.contains("hidden"), "{stored}");
}

#[test]
fn long_bodies_are_counted_to_the_byte() {
    let server = Server::answering(|_| ok(5_000_000));
    for receive_buffer in [None, Some(65_536)] {
        let mut plan = closed(&server.url(), 2, Until::Requests(10));
        plan.receive_buffer = receive_buffer;
        let record = run(plan);
        assert_eq!((completed(&record), failed_in_all(&record)), (10, 0));
        let bytes: u64 = record.intervals.iter().map(|interval| interval.classes[0].bytes).sum();
        assert_eq!(bytes, 10 * ok(5_000_000).len() as u64);
    }
}

#[test]
fn an_interrupt_ends_a_run_within_a_second_and_the_record_is_complete() {
    let server = Server::answering(|_| {
        thread::sleep(Duration::from_millis(400));
        ok(10)
    });
    let plan = Plan::new(closed(&server.url(), 3, Until::Seconds(60.0))).unwrap();
    let interrupt = Arc::new(AtomicBool::new(false));
    let setter = Arc::clone(&interrupt);
    let begun = Instant::now();
    let timer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(650));
        setter.store(true, Ordering::SeqCst);
    });
    let mut intervals = 0;
    let record = record(&plan, naming(), &interrupt, &mut |_| intervals += 1).unwrap();
    timer.join().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1650), "{:?}", begun.elapsed());
    assert_eq!(record.intervals.len(), intervals);
    let length_s: f64 = record.intervals.iter().map(|interval| interval.length_s).sum();
    let summary = record.summary.unwrap();
    assert!(summary.interrupted && (summary.elapsed_s - length_s).abs() < 1e-9, "{summary:?}");
}

#[test]
fn intervals_tile_the_run_and_one_ends_with_the_warm_up() {
    let server = Server::answering(|_| ok(10));
    let mut plan = closed(&server.url(), 2, Until::Seconds(0.5));
    plan.warmup = Duration::from_millis(250);
    plan.threads = 2;
    let record = run(plan);
    let starts: Vec<f64> = record.intervals.iter().map(|interval| interval.start_s).collect();
    let expected = [0.0, 0.1, 0.2, 0.25, 0.35, 0.45, 0.55, 0.65];
    assert_eq!(starts.len(), expected.len(), "{starts:?}");
    assert!(starts.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{starts:?}");
    let steady_s: f64 = record.steady().iter().map(|interval| interval.length_s).sum();
    assert!((steady_s - 0.5).abs() < 1e-9);
    assert!(record.intervals.iter().all(|i| i.generator.thread_cpu_s.len() == 2));
}

/// A name that leads to two addresses, of which the server uses one.
#[test]
fn localhost_finds_the_address_that_answers() {
    let server = Server::answering(|_| ok(10));
    let url = format!("http://localhost:{}/", server.address.port());
    let record = run(closed(&url, 2, Until::Requests(20)));
    assert_eq!((completed(&record), failed_in_all(&record)), (20, 0));
}

#[test]
fn threads_are_bound_where_the_plan_says_or_a_warning_says_why_not() {
    let server = Server::answering(|_| ok(10));
    let mut plan = closed(&server.url(), 1, Until::Requests(5));
    plan.cpus = vec![100_000];
    let record = run(plan);
    assert_eq!(completed(&record), 5);
    assert!(warns(&record, "could not be bound to processor 100000"));
}

/// The memory of a run does not grow with its requests: 400 000 more of them, eight bytes kept of
/// each, would be 3.2 MB. In a process of its own, since its peak is looked at; the first runs let
/// the allocator settle.
#[test]
fn memory_does_not_grow_with_requests() {
    const CHILD: &str = "LOAD_TEST_MEMORY_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name = "closed::memory_does_not_grow_with_requests";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(text.contains("peak grew by"), "the child did measure: {text}");
        return;
    }
    let server = Server::answering(|_| ok(100));
    let press = |requests| {
        let target = Target::parse(&server.url(), Reach::Private).unwrap();
        let load = Load::Closed { clients: 16, think: Dist::Constant(0.0) };
        let mut spec = PlanSpec::new(target, load, Until::Requests(requests));
        spec.interval = Duration::from_millis(50);
        let mut ended = 0;
        let plan = Plan::new(spec).unwrap();
        load::http::run(&plan, &AtomicBool::new(false), &mut |interval| {
            ended += interval.classes[0].completed;
        })
        .unwrap();
        assert_eq!(ended, requests);
    };
    (0..4).for_each(|_| press(10_000));
    let before = peak_kib();
    press(410_000);
    let grown = peak_kib() - before;
    println!("peak grew by {grown} KiB");
    assert!(grown < 2000, "the peak grew by {grown} KiB");
}

/// The most memory that this process ever had resident [KiB].
fn peak_kib() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
