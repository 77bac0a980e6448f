//! A user's own SQL on a private PostgreSQL: what is sent, counted and refused. What became of it is
//! asked through another client.
#![allow(clippy::unwrap_used)]

mod counting;
mod entering;
mod failing;
mod looking;
mod open;
mod parts;
mod pgbench;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use load::http::{Load, Naming};
use measure::{ErrorKind, RunRecord, Until};
use pgload::script::{Protocol, Scripts, Source};
use pgload::{Plan, PlanSpec, RunError, record};
use pgtest::Bound;
use postgres::{Private, Settings};
use tokio_postgres::{NoTls, SimpleQueryMessage};
use tpcc::Config;
use workload::Dist;

/// The server of all tests that do not kill theirs. It ends with this process.
fn server() -> &'static Private {
    static CONNECTIONS: Bound = Bound::of(CONNECTIONS_MAX, SHARE);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(start)
}

/// The connections of a server, and those that a test may have at once.
const CONNECTIONS_MAX: usize = 40;
const SHARE: usize = 15;

fn start() -> Private {
    let connections_max = CONNECTIONS_MAX.to_string();
    let parameters =
        [("fsync", "off"), ("deadlock_timeout", "10ms"), ("max_connections", &*connections_max)];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Private::start(&Settings { parameters, ..Settings::default() }).unwrap()
}

/// A new database with these tables; its address.
fn database(tables: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("d{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = server().url();
    ask(url.as_str(), &format!("create database {name}"));
    let (start, _) = url.as_str().rsplit_once('/').unwrap();
    let url = format!("{start}/{name}");
    ask(&url, tables);
    url
}

/// The rows of a statement, columns joined by a bar.
fn ask(url: &str, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let messages = client.simple_query(sql).await.unwrap();
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("null").to_owned());
                Some(columns.collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        messages.into_iter().filter_map(row).collect()
    })
}

fn source(name: &str, text: &str, weight: u32) -> Source {
    Source { name: name.into(), text: text.into(), weight }
}

fn closed(clients: u32) -> Load {
    Load::Closed { clients, think: Dist::Constant(0.0) }
}

/// A spec of one script.
fn spec(url: &str, text: &str, protocol: Protocol, load: Load, until: Until) -> PlanSpec {
    let scripts = Scripts::read(&[source("own.sql", text, 1)], &[], protocol).unwrap();
    PlanSpec::new(url.parse::<Config>().unwrap(), "a test".into(), scripts, load, until)
}

fn run(spec: PlanSpec) -> Result<RunRecord, RunError> {
    let naming = Naming {
        id: "x".into(),
        started: "2026-11-20T11:30:00Z".into(),
        tool: "test".into(),
        command: Vec::new(),
    };
    let plan = Plan::new(spec).unwrap();
    let record = record(&plan, naming, &AtomicBool::new(false), &mut |_| {})?;
    let started: u64 = record.intervals.iter().map(|interval| interval.started).sum();
    let ended = completed(&record) + failed(&record).iter().map(|(_, n)| n).sum::<u64>();
    assert!(ended <= started, "{ended} of {started} ended");
    Ok(record)
}

fn completed(record: &RunRecord) -> u64 {
    let of = |class: &measure::ClassCounts| class.completed;
    record.intervals.iter().flat_map(|interval| interval.classes.iter().map(of)).sum()
}

/// Failures by kind.
fn failed(record: &RunRecord) -> Vec<(ErrorKind, u64)> {
    let mut all = std::collections::BTreeMap::new();
    for class in record.intervals.iter().flat_map(|interval| &interval.classes) {
        for (kind, count) in &class.errors {
            *all.entry(*kind).or_insert(0) += count;
        }
    }
    all.into_iter().collect()
}

fn warnings(record: &RunRecord) -> String {
    record.summary.as_ref().unwrap().warnings.join("\n")
}
