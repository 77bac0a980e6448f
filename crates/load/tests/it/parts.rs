//! Parts of a run: together they ask for what one process asks for, from one moment on.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use load::http::{Load, Plan, PlanSpec, Request, RunError, record, record_part};
use load::meeting::{Attendance, MeetError, Meeting};
use measure::{RunPart, RunRecord, Until};
use workload::{Arrivals, Dist};

use crate::server::{Server, ok, path};
use crate::{closed, completed, naming, spec};

/// A server that counts what it is asked for.
fn counting() -> (Server, Arc<Mutex<BTreeMap<String, u64>>>) {
    let asked = Arc::new(Mutex::new(BTreeMap::new()));
    let of_server = Arc::clone(&asked);
    let server = Server::answering(move |head| {
        *of_server.lock().unwrap().entry(path(head).to_owned()).or_default() += 1;
        ok(100)
    });
    (server, asked)
}

/// Runs a spec as so many parts at once.
fn in_parts(spec: &PlanSpec, of: u32) -> Vec<Result<RunRecord, RunError>> {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    thread::scope(|scope| {
        let parts = RunPart::all(format!("1/{of}").parse().unwrap()).map(|part| {
            let plan = Plan::new(PlanSpec { part, ..spec.clone() }).unwrap();
            scope.spawn(move || {
                let patience = Duration::from_secs(30);
                let meeting = Meeting { part, addresses: vec![address], patience };
                let attendance = Attendance { meeting: &meeting, waits: &mut |_| {} };
                let interrupt = AtomicBool::new(false);
                record_part(&plan, naming(), attendance, &interrupt, &mut |_| {})
            })
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    })
}

fn merged(parts: Vec<Result<RunRecord, RunError>>) -> RunRecord {
    let parts: Vec<RunRecord> = parts.into_iter().map(Result::unwrap).collect();
    RunRecord::merge(&parts).unwrap()
}

/// A number of requests is exact, and so is the deck, whichever part makes a request.
#[test]
fn a_closed_run_in_parts_asks_for_the_exact_mix() {
    for of in [1, 3] {
        let (server, asked) = counting();
        let mut spec = closed(&server.url(), 7, Until::Requests(600));
        spec.requests = [("/a", 3), ("/b", 2), ("/c", 1)]
            .map(|(path, weight)| Request { weight, ..Request::get(path) })
            .into();
        spec.threads = 2;
        let run = match of {
            1 => record(&Plan::new(spec).unwrap(), naming(), &AtomicBool::new(false), &mut |_| {})
                .unwrap(),
            of => merged(in_parts(&spec, of)),
        };
        assert_eq!(completed(&run), 600, "{of} parts");
        let asked = asked.lock().unwrap().clone();
        let wanted = [("/a", 300), ("/b", 200), ("/c", 100)].map(|(at, n)| (at.to_owned(), n));
        assert_eq!(asked, BTreeMap::from(wanted), "{of} parts");
        assert_eq!(run.header.merged.len() as u32, if of == 1 { 0 } else { of });
        let threads = run.intervals[0].generator.thread_cpu_s.len();
        assert_eq!(threads as u32, 2 * of);
    }
}

/// The arrivals of all parts are those of one process with as many threads: as many in the whole run, and in
/// each interval of it, whatever the server does.
#[test]
fn an_open_run_in_parts_has_the_arrivals_of_one_process() {
    for arrivals in [Arrivals::Poisson { rate: 800.0 }, Arrivals::Fixed { rate: 800.0 }] {
        let (server, _) = counting();
        let load = Load::Open { arrivals, in_flight_max: 1_000 };
        let mut spec = spec(&server.url(), load, Until::Seconds(1.0));
        spec.warmup = Duration::from_millis(200);
        let mut together = spec.clone();
        together.threads = 2;
        let together = Plan::new(together).unwrap();
        let sum = |run: &RunRecord| run.intervals.iter().map(|one| one.started).sum::<u64>();
        let pair = || {
            let one = record(&together, naming(), &AtomicBool::new(false), &mut |_| {}).unwrap();
            (merged(in_parts(&spec, 2)), one)
        };
        // What is due at the very end may or may not begin before it: as much as a generator was kept from
        // the processor then. A second and a third run meet another moment.
        let is_alike = |(parts, one): &(RunRecord, RunRecord)| sum(parts).abs_diff(sum(one)) <= 8;
        let mut runs = vec![pair()];
        while runs.len() < 3 && !is_alike(runs.last().unwrap()) {
            runs.push(pair());
        }
        let sums: Vec<_> = runs.iter().map(|(parts, one)| (sum(parts), sum(one))).collect();
        let (parts, one) = runs.pop().filter(is_alike).unwrap_or_else(|| panic!("{sums:?}"));
        assert_eq!(parts.intervals.len(), one.intervals.len());
        let starts: Vec<f64> = parts.intervals.iter().map(|one| one.start_s).collect();
        assert_eq!(starts, one.intervals.iter().map(|one| one.start_s).collect::<Vec<_>>());
        let firsts = parts.header.merged.iter().map(|part| part.part.start_us);
        assert_eq!(firsts.collect::<std::collections::BTreeSet<_>>().len(), 1, "one start");
    }
}

#[test]
fn parts_of_different_plans_do_not_begin() {
    let (server, asked) = counting();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let errors = thread::scope(|scope| {
        let parts = [(1, 100.0), (2, 200.0)].map(|(number, rate)| {
            let arrivals = Arrivals::Poisson { rate };
            let load = Load::Open { arrivals, in_flight_max: 100 };
            let mut spec = spec(&server.url(), load, Until::Seconds(1.0));
            spec.part = format!("{number}/2").parse().unwrap();
            scope.spawn(move || {
                let plan = Plan::new(spec.clone()).unwrap();
                let patience = Duration::from_secs(2);
                let meeting = Meeting { part: spec.part, addresses: vec![address], patience };
                let attendance = Attendance { meeting: &meeting, waits: &mut |_| {} };
                let interrupt = AtomicBool::new(false);
                let run = record_part(&plan, naming(), attendance, &interrupt, &mut |_| {});
                run.unwrap_err()
            })
        });
        parts.map(|part| part.join().unwrap())
    });
    assert!(matches!(errors[1], RunError::Meet(MeetError::Differs(_))), "{:?}", errors[1]);
    let host = errors[0].to_string();
    assert!(host.contains("its rate is 200/s (poisson) and here it is 100/s (poisson)"), "{host}");
    assert!(asked.lock().unwrap().is_empty(), "nobody was asked for anything");
}

#[test]
fn a_part_without_anything_to_do_is_refused() {
    let (server, _) = counting();
    let part = "1/5".parse().unwrap();
    let think = Dist::Constant(0.0);
    let refused = |load, until| {
        let spec = PlanSpec { part, ..spec(&server.url(), load, until) };
        Plan::new(spec).unwrap_err().to_string()
    };
    let clients = refused(Load::Closed { clients: 4, think }, Until::Seconds(1.0));
    assert!(clients.starts_with("5 parts are too many for 4 clients"), "{clients}");
    let requests = refused(Load::Closed { clients: 5, think }, Until::Requests(4));
    assert!(requests.starts_with("5 parts are too many for 4 requests"), "{requests}");
}
