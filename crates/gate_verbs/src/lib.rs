//! `sekisho gate`: a gate in front of a service. What the gates have in common is here: their policies
//! and what is recorded of them.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

mod answer;
mod auto;
mod http;
mod postgres;
mod service;
mod start;

use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use ::load::judge;
use advise::{DisciplineEntry, LoadInformationEntry, Policies, RouterEntry};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use cli::json::Format;
use cli::{Failure, Verdict};
use formats::scenario_file::parse_value;
use gate::{GateSpec, Length, Queues, ServerSpec, Ties};
use measure::Recording;

use databases::{STANDS_BEFORE, out_of_reach, reach};

#[expect(missing_docs, reason = "a comment would become the text of the verb's help")]
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A reverse proxy for HTTP/1.1 with the gate in front
    ///
    /// A request asks for a slot when its head is complete and holds it until the upstream's last
    /// byte is read; what cannot be let in waits in a bounded queue, up to its deadline, and is then
    /// refused with 503 and Retry-After. SIGTERM drains.
    #[command(after_help = "\
At the address of --admin-http, while it runs (docs/gate-http.md):
  /                     the live page
  /metrics              Prometheus
  /healthz, /readyz     it lives; it takes requests
  /model, '/whatif?slots=16&arrivals=x2'
  POST '/slots?server=0&slots=16', /pause, /resume (from this machine only)

Signals: TERM drains, HUP reads the file of --config anew, USR1 opens the
access log anew.

Example:
  sekisho gate http --listen 127.0.0.1:8080 --upstream 127.0.0.1:9000 --slots 8")]
    Http(Box<http::HttpArgs>),
    /// A TP monitor for PostgreSQL: many clients on few connections to servers
    ///
    /// Each pool, a database as one user asks for it, has a gate. A client asks for a slot with its
    /// first message and holds it for a transaction (or a session, or a statement: --mode); a slot is
    /// one connection to a server. Who cannot be let in waits in a bounded queue, up to its deadline,
    /// and is then refused with SQLSTATE 53300 and the estimated wait: what it asked has failed, and
    /// its session goes on (in session mode it ends). SIGTERM drains.
    #[command(after_help = "\
To upgrade without dropping clients in clear, install the new program and start
the same command beside the gate that runs, which ends when it has handed over:
  sekisho gate postgres --db \"$DATABASE_URL\" --slots 20 --take-over gate.sock

Example:
  sekisho gate postgres --listen 127.0.0.1:6432 --db \"$DATABASE_URL\" --slots 20")]
    Postgres(Box<postgres::PostgresArgs>),
}

/// Policies of the gate, and the recording of what they decided.
#[derive(ClapArgs)]
struct PolicyArgs {
    /// Who is next, as in a scenario file: fifo, lifo, priority, shortest-job, earliest-deadline, or
    /// a table such as '{ priority-ageing = { interval = "2s" } }'
    #[arg(long, default_value = "fifo", value_name = "POLICY", value_parser = parse_value::<DisciplineEntry>)]
    discipline: DisciplineEntry,
    /// Where to, with several servers, as in a scenario file: round-robin, random, shortest-queue,
    /// join-idle-queue, lowest-utilisation, or a table such as '{ power-of-d = { d = 2 } }'
    #[arg(long, default_value = "round-robin", value_name = "POLICY", value_parser = parse_value::<RouterEntry>)]
    router: RouterEntry,
    /// What routers count that compare queues: in-system (left out) or waiting
    #[arg(long, value_name = "LENGTH", value_parser = parse_value::<Length>)]
    length: Option<Length>,
    /// Which of equally good servers: rotate (left out), lowest or random
    #[arg(long, value_name = "TIES", value_parser = parse_value::<Ties>)]
    ties: Option<Ties>,
    /// Age of the load information that the router sees: reported (POST ADMIN/report), '{ delay = "100ms" }' or
    /// '{ refresh = "1s" }'
    #[arg(long, value_name = "AGE", value_parser = parse_value::<LoadInformationEntry>)]
    load_information: Option<LoadInformationEntry>,
    /// One queue for all servers, or one for each, chosen at arrival
    #[arg(long, value_enum, default_value = "shared")]
    queues: QueuesName,
    /// Record the gate here, to be replayed and simulated
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Most steps that are recorded
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    record_max: usize,
    /// The seed of random routing
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum QueuesName {
    /// One queue for all servers
    Shared,
    /// A queue for each server
    PerServer,
}

/// Formats of what these verbs print with `--json`.
pub fn formats() -> Vec<Format> {
    vec![
        Format::of_notice::<answer::HttpStarted>(),
        Format::of_answer::<answer::HttpEnded<'_>>(),
        Format::of_answer::<answer::HttpChecked<'_>>(),
        Format::of_notice::<answer::PostgresStarted>(),
        Format::of_answer::<answer::PostgresEnded<'_>>(),
        Format::of_answer::<answer::PostgresChecked<'_>>(),
    ]
}

/// Runs the gate that the arguments describe, until it is told to stop.
///
/// # Errors
/// It cannot start, or cannot write what it was asked to keep.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.what {
        What::Http(args) => http::run(args, out),
        What::Postgres(args) => postgres::run(args, out),
    }
}

impl PolicyArgs {
    /// The gate with these policies; its classes have these names.
    fn at(&self, gate: GateSpec, names: &[&str]) -> Result<GateSpec, Failure> {
        let queues = match self.queues {
            QueuesName::Shared => Queues::Shared,
            QueuesName::PerServer => Queues::PerServer,
        };
        let policies = Policies {
            discipline: Some(self.discipline.clone()),
            router: Some(self.router.clone()),
            length: self.length,
            ties: self.ties,
            load_information: self.load_information,
        };
        policies.at(GateSpec { queues, seed: self.seed, ..gate }, names).map_err(Failure::Usage)
    }

    /// Number of steps that are recorded.
    fn record_max(&self) -> usize {
        if self.record.is_some() { self.record_max } else { 0 }
    }
}

/// The slots of so many servers, each of which `flag` names: one number for all, or one for each.
fn slots(flag: &str, slots: &[u32], servers: usize) -> Result<Vec<ServerSpec>, Failure> {
    match slots {
        [slots] => Ok(vec![ServerSpec { slots: *slots }; servers]),
        each if each.len() == servers => {
            Ok(each.iter().map(|&slots| ServerSpec { slots }).collect())
        }
        each => Err(Failure::Usage(format!(
            "`--slots` has {} numbers, `{flag}` {servers}: give one for all servers, or one for each",
            each.len()
        ))),
    }
}

/// Writes what was recorded to a file.
fn keep(path: &Path, recording: &Recording) -> Result<(), Failure> {
    let file = std::fs::File::create(path)
        .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
    recording.write(std::io::BufWriter::new(file))?;
    Ok(())
}

/// The address of a name: `127.0.0.1:80`, `localhost:80`, `:80` on all addresses.
fn address(flag: &str, name: &str) -> Result<SocketAddr, Failure> {
    let full = if name.starts_with(':') { format!("0.0.0.0{name}") } else { name.to_owned() };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("`{flag} {name}` is no address such as 127.0.0.1:8080: {why}"))
    };
    if let Some((_, rest)) = name.split_once("://") {
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let place = place.rsplit('@').next().unwrap_or_default();
        let port = if place.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) {
            ""
        } else if name.starts_with("https") {
            ":443"
        } else {
            ":80"
        };
        return Err(Failure::Usage(format!(
            "`{flag} {name}` is a URL, and a host with its port is wanted: `{flag} {place}{port}`"
        )));
    }
    let mut found = full.to_socket_addrs().map_err(|error| wrong(&error))?;
    found.next().ok_or_else(|| wrong(&"no address belongs to that name"))
}

/// Checks that a gate may stand in front of what a name leads to, if `--public` was said so often.
fn reachable(
    name: &str,
    addresses: impl IntoIterator<Item = IpAddr>,
    public: u8,
) -> Result<(), Failure> {
    judge(name, addresses, reach(public, STANDS_BEFORE))
        .map_err(|error| out_of_reach(&error, STANDS_BEFORE))
}
