//! Parts of a run of own SQL: together they do to the tables what one process does.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use load::meeting::{Attendance, Meeting};
use measure::RunPart;
use pgload::record_part;
use workload::Arrivals;

use super::*;

#[test]
fn parts_make_exactly_n_transactions_in_the_exact_mix_with_the_clients_of_one_process() {
    let url = database("create table t (what text, client int)");
    let sources = [
        source("pay.sql", "insert into t values ('pay', :client_id)", 2),
        source("browse.sql", "insert into t values ('browse', :client_id)", 3),
    ];
    let scripts = Scripts::read(&sources, &[], Protocol::Prepared).unwrap();
    let until = Until::Requests(500);
    let spec = PlanSpec {
        threads: 2,
        ..PlanSpec::new(url.parse().unwrap(), "a test".into(), scripts, closed(7), until)
    };
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let parts: Vec<RunRecord> = thread::scope(|scope| {
        let parts = RunPart::all("1/3".parse().unwrap()).map(|part| {
            let plan = Plan::new(PlanSpec { part, ..spec.clone() }).unwrap();
            scope.spawn(move || {
                let patience = Duration::from_secs(60);
                let meeting = Meeting { part, addresses: vec![address], patience };
                let attendance = Attendance { meeting: &meeting, waits: &mut |_| {} };
                let naming = Naming {
                    id: part.to_string(),
                    started: String::new(),
                    tool: "a test".into(),
                    command: Vec::new(),
                };
                let interrupt = AtomicBool::new(false);
                record_part(&plan, naming, attendance, &interrupt, &mut |_| {}).unwrap()
            })
        });
        parts.collect::<Vec<_>>().into_iter().map(|part| part.join().unwrap()).collect()
    });
    let rows = ask(&url, "select what, count(*) from t group by 1 order by 1");
    assert_eq!(rows, ["browse|300", "pay|200"]);
    let clients = ask(&url, "select count(distinct client), min(client), max(client) from t");
    assert_eq!(clients, ["7|0|6"], "each client is one part's");
    let merged = RunRecord::merge(&parts).unwrap();
    assert_eq!((completed(&merged), failed(&merged)), (500, vec![]));
    assert_eq!(merged.header.merged.len(), 3);
    let starts: Vec<i64> = merged.header.merged.iter().map(|part| part.part.start_us).collect();
    assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
}

#[test]
fn a_part_without_a_client_or_a_transaction_is_refused() {
    let under = |load, until| {
        let url = "postgresql://127.0.0.1:1/x";
        let spec = spec(url, "select 1", Protocol::Simple, load, until);
        Plan::new(PlanSpec { part: "2/4".parse().unwrap(), ..spec }).unwrap_err().to_string()
    };
    let of = |clients, until| under(closed(clients), until);
    // A part with no transaction in flight would fail all of its arrivals.
    let open = Load::Open { arrivals: Arrivals::Fixed { rate: 10.0 }, in_flight_max: 3 };
    let few = under(open, Until::Seconds(1.0));
    assert!(few.starts_with("4 parts are too many for 3 transactions in flight"), "{few}");
    let few = of(3, Until::Seconds(1.0));
    assert!(few.starts_with("4 parts are too many for 3 clients: each needs one"), "{few}");
    let few = of(4, Until::Requests(2));
    assert!(few.starts_with("4 parts are too many for 2 transactions"), "{few}");
}
