//! Requests of every kind: methods, bodies, headers, weights, sizes, the order of a list, a load that varies.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use load::http::{Load, Method, Order, Plan, Request, Schedule};
use measure::{ArrivalSpacing, Course, ErrorKind, LoadShape, Until};

use crate::server::{Server, ok};
use crate::{closed, completed, failed, failed_in_all, run, spec, warns};

/// A request as a server reads it: its head, and as many bytes of a body as that announces.
fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(seen).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Heads and bodies of requests, in the order in which they came.
type Kept = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A server that keeps what it is asked, and answers as `answer` says.
fn keeping(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> (Server, Kept) {
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    let server = Server::new(move |mut stream| {
        while let Some((head, body)) = read_request(&mut stream) {
            let answer = answer(&head);
            keeps.lock().unwrap().push((head, body));
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    (server, kept)
}

fn request(method: Method, path: &str, body: &[u8], weight: u32) -> Request {
    Request { body: body.into(), weight, ..Request::new(method, path) }
}

#[test]
fn methods_bodies_headers_and_weights_arrive_as_they_were_asked_for() {
    let (server, kept) = keeping(|head| match head.starts_with("HEAD") {
        true => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_vec(),
        false => ok(10),
    });
    // Longer than a socket takes at once.
    let long = vec![b'x'; 3_000_000];
    let mut plan = closed(&server.url(), 3, Until::Requests(100));
    plan.requests = vec![
        request(Method::Get, "/cheap", b"", 5),
        request(Method::Post, "/orders?a=1", b"{\"id\":7}", 2),
        request(Method::Put, "/long", &long, 1),
        request(Method::Delete, "/orders/7", b"", 1),
        request(Method::Head, "/", b"", 1),
    ];
    plan.headers = vec![("X-All".into(), "1".into()), ("X-Some".into(), "common".into())];
    plan.requests[1].headers =
        vec![("Content-Type".into(), "application/json".into()), ("x-some".into(), "own".into())];
    let record = run(plan);
    assert_eq!((completed(&record), failed_in_all(&record)), (100, 0));
    let names: Vec<&str> = record.header.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["/cheap", "POST /orders?a=1", "PUT /long", "DELETE /orders/7", "HEAD /"]);
    assert_eq!(record.header.settings["method"], "GET,HEAD,POST,PUT,DELETE");
    assert_eq!(record.header.settings["headers"], "X-All,X-Some,Content-Type,x-some");
    let mut made = BTreeMap::<String, u32>::new();
    for (head, body) in kept.lock().unwrap().iter() {
        let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
        *made.entry(line.to_owned()).or_default() += 1;
        assert!(head.contains("\r\nX-All: 1\r\n"), "{head}");
        match line {
            "POST /orders?a=1" => {
                assert_eq!(body, b"{\"id\":7}");
                assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
                assert!(head.contains("\r\nx-some: own\r\n") && !head.contains("common"), "{head}");
            }
            "PUT /long" => assert_eq!(*body, long),
            _ => assert!(body.is_empty() && !head.contains("Content-Length"), "{head}"),
        }
    }
    let counts: Vec<u32> =
        ["GET /cheap", "POST /orders?a=1", "PUT /long", "DELETE /orders/7", "HEAD /"]
            .iter()
            .map(|line| made[*line])
            .collect();
    assert_eq!(counts, [50, 20, 10, 10, 10], "a deck is the exact mix");
}

/// A kept connection that is closed while a request is on its way leaves open whether it took effect.
#[test]
fn what_may_take_effect_twice_is_not_sent_again() {
    for (method, again) in
        [(Method::Get, true), (Method::Put, true), (Method::Post, false), (Method::Patch, false)]
    {
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        // Each connection answers once, is kept, and is closed by the next request.
        let server = Server::new(move |mut stream| {
            if read_request(&mut stream).is_some() {
                counter.fetch_add(1, Ordering::SeqCst);
                stream.write_all(&ok(10)).unwrap();
                if read_request(&mut stream).is_some() {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let mut plan = closed(&server.url(), 1, Until::Requests(20));
        plan.requests = vec![request(method, "/", b"", 1)];
        let record = run(plan);
        let lost = failed(&record, ErrorKind::ClosedEarly) + failed(&record, ErrorKind::Reset);
        assert_eq!(completed(&record) + lost, 20, "{method}");
        assert_eq!(lost == 0, again, "{method}: {lost}");
        assert_eq!(warns(&record, "sent again because"), again, "{method}");
        let twice = if again { 20 + 19 } else { 20 };
        assert_eq!(asked.load(Ordering::SeqCst), twice, "{method}");
    }
}

#[test]
fn a_size_that_is_not_constant_is_not_recorded() {
    let count = AtomicU64::new(0);
    let server = Server::answering(move |head| match head.starts_with("GET /other") {
        true => ok(10 + usize::from(count.fetch_add(1, Ordering::SeqCst) == 7)),
        false => ok(10),
    });
    let mut plan = closed(&server.url(), 1, Until::Requests(30));
    plan.requests = ["/same", "/other", "/unknown"].map(Request::get).to_vec();
    plan.requests[0].bytes = Some(10);
    plan.requests[1].bytes = Some(10);
    let record = run(plan);
    let sizes: Vec<Option<u64>> = record.header.classes.iter().map(|class| class.bytes).collect();
    assert_eq!(sizes, [Some(10), None, None]);
    assert!(warns(&record, "not every answer of `/other` had 10 B"));
}

#[test]
fn a_list_is_made_in_its_order_by_one_client() {
    let (server, kept) = keeping(|_| ok(1));
    let mut plan = closed(&server.url(), 1, Until::Requests(7));
    plan.requests = ["/a", "/b", "/c"].map(Request::get).to_vec();
    plan.order = Order::Listed(vec![2, 0, 0, 1, 2].into());
    let record = run(plan);
    assert_eq!(completed(&record), 7);
    assert_eq!(record.header.settings["draw"], "listed");
    let kept = kept.lock().unwrap();
    let paths: Vec<&str> = kept.iter().map(|(head, _)| crate::server::path(head)).collect();
    assert_eq!(paths, ["/c", "/a", "/a", "/b", "/c", "/c", "/a"]);
}

/// The moments are a machine's at best; the order, the number and the least length are the log's.
#[test]
fn a_log_with_its_own_gaps_ends_with_its_last_answer() {
    for threads in [1, 2] {
        let (server, kept) = keeping(|_| ok(1));
        let schedule = Schedule::log(vec![0.0, 0.05, 0.3, 0.3, 0.5], 1.0);
        let load = Load::Varying { schedule, in_flight_max: 10 };
        let mut plan = spec(&server.url(), load, Until::Requests(5));
        plan.requests = ["/a", "/b", "/c"].map(Request::get).to_vec();
        plan.requests.iter_mut().for_each(|one| one.class = "all".into());
        plan.order = Order::Listed(vec![2, 0, 1, 1, 0].into());
        plan.threads = threads;
        let record = run(plan);
        assert_eq!((completed(&record), failed_in_all(&record)), (5, 0));
        assert_eq!(record.header.classes.len(), 1, "three requests, one class");
        let kept = kept.lock().unwrap();
        let mut paths: Vec<&str> = kept.iter().map(|(head, _)| crate::server::path(head)).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["/a", "/a", "/b", "/b", "/c"]);
        let length: f64 = record.intervals.iter().map(|interval| interval.length_s).sum();
        assert!(length >= 0.5, "{length}");
        let LoadShape::Varying { course, phases, .. } = &record.header.load else { panic!() };
        assert_eq!(*course, Course::Log { requests: 5, speed: 1.0 });
        assert_eq!(phases.iter().map(|phase| phase.arrivals).sum::<f64>(), 5.0);
    }
}

#[test]
fn intervals_end_with_the_phases_of_a_load_that_varies() {
    let server = Server::answering(|_| ok(1));
    let steps = [(200.0, 0.25), (600.0, 0.33), (0.0, 0.1), (200.0, 0.2)];
    let schedule = Schedule::steps(&steps, ArrivalSpacing::Fixed).unwrap();
    let until = Until::Seconds(schedule.length_s());
    let mut plan = spec(&server.url(), Load::Varying { schedule, in_flight_max: 1000 }, until);
    plan.warmup = Duration::from_millis(150);
    let record = run(plan);
    assert_eq!(failed_in_all(&record), 0);
    let judged = record.judge_phases(0.95);
    assert_eq!(judged.len(), 4);
    for (part, (rate, span)) in judged.iter().zip(steps) {
        assert!(part.complete, "{part:?}");
        assert!((part.judgement.length_s - span).abs() < 1e-6, "{part:?}");
        assert!((part.phase.arrivals - rate * span).abs() < 1e-6);
    }
    // All that was asked for was begun: of equal gaps the number is exact but for the edges.
    let started: u64 = record.intervals.iter().map(|interval| interval.started).sum();
    let asked = 200.0 * 0.4 + 600.0 * 0.33 + 200.0 * 0.2;
    assert!((started as f64 - asked).abs() <= 3.0, "{started} of {asked}");
    assert!(!record.judge(0.95).faults.iter().any(|fault| {
        matches!(fault, measure::Fault::Drifts { .. } | measure::Fault::Little(_))
    }));
}

#[test]
fn requests_that_cannot_be_made_are_refused_with_their_cause() {
    let refused = |change: fn(&mut load::http::PlanSpec)| {
        let mut plan = closed("http://127.0.0.1:1/", 1, Until::Requests(1));
        change(&mut plan);
        Plan::new(plan).unwrap_err().to_string()
    };
    assert!(refused(|plan| plan.requests.clear()).contains("1 to 1000000 different requests"));
    assert!(refused(|plan| plan.requests[0].path = "x".into()).contains("begin with a slash"));
    assert!(refused(|plan| plan.requests[0].path = "/a b".into()).contains("' '"));
    assert!(refused(|plan| plan.requests[0].weight = 0).contains("weight 0"));
    assert!(refused(|plan| plan.requests[0].body = (*b"x").into()).contains("use POST"));
    assert!(refused(|plan| plan.order = Order::Listed(vec![1].into())).contains("request 1"));
    let own = |plan: &mut load::http::PlanSpec| {
        plan.requests[0].headers = vec![("Content-Length".into(), "7".into())];
    };
    assert!(refused(own).contains("the engine's own"));
    let huge = |plan: &mut load::http::PlanSpec| {
        plan.requests = vec![request(Method::Get, "/a", b"", u32::MAX), Request::get("/b")];
    };
    assert!(refused(huge).contains("smaller weights"));
}
