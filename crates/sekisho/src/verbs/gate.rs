//! `sekisho gate http`: a reverse proxy with the gate in front.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use advise::{DisciplineEntry, Policies, RouterEntry, SightEntry, Span};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use gate::{GateSpec, Length, Queues, ServerSpec, Ties};
use proxy::http::{Class, Config, Finished, Key, Probe, Server, StartError, Tls};
use serde_json::json;

use crate::scenario_file::parse_value;
use crate::session::say;
use crate::text::{paragraph, sentence, time};
use crate::verdict::{Failure, Verdict};

#[derive(ClapArgs)]
pub(crate) struct Args {
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
While it runs, on the admin address (loopback only):
  curl ADMIN/metrics                       Prometheus
  curl -X POST 'ADMIN/slots?server=0&slots=16'

Example:
  sekisho gate http --listen 127.0.0.1:8080 --upstream 127.0.0.1:9000 --slots 8")]
    Http(Box<HttpArgs>),
}

#[derive(ClapArgs)]
struct HttpArgs {
    /// Where clients connect to
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: String,
    /// A server behind the gate; say it once for each
    #[arg(long, value_name = "ADDRESS", required = true)]
    upstream: Vec<String>,
    /// Slots of each server: one number for all, or one for each
    #[arg(long, value_delimiter = ',', value_name = "N,...", required = true)]
    slots: Vec<u32>,
    /// Who is next, as in a scenario file: fifo, lifo, priority, shortest-job, earliest-deadline, or
    /// a table such as '{ priority-ageing = { interval = "2s" } }'
    #[arg(long, default_value = "fifo", value_name = "POLICY", value_parser = parse_value::<DisciplineEntry>)]
    discipline: DisciplineEntry,
    /// Requests whose path begins so have this priority; larger goes first (`/pay/=9`)
    #[arg(long, value_name = "PREFIX=N")]
    priority: Vec<String>,
    /// Requests whose path begins so need this much service, in any one unit (`/report/=50`)
    #[arg(long, value_name = "PREFIX=N")]
    size: Vec<String>,
    /// Requests whose path begins so wait no longer than this (`/live/=200ms`)
    #[arg(long, value_name = "PREFIX=TIME")]
    deadline: Vec<String>,
    /// What a request is about, for policies by key
    #[arg(long, value_enum, default_value = "path")]
    about: About,
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
    /// How stale what the router sees is: reported (POST ADMIN/report), '{ delay = "100ms" }' or
    /// '{ refresh = "1s" }'
    #[arg(long, value_name = "SIGHT", value_parser = parse_value::<SightEntry>)]
    sight: Option<SightEntry>,
    /// One queue for all servers, or one for each, chosen at arrival
    #[arg(long, value_enum, default_value = "shared")]
    queues: QueuesName,
    /// How many requests may wait
    #[arg(long, value_name = "N", default_value_t = proxy::http::ROOM)]
    room: u64,
    /// How long a request may wait
    #[arg(long, value_name = "TIME", default_value = "30s")]
    wait_max: Span,
    /// How long a server may take to begin its response
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Span,
    /// Ask every server for this path; 200 to 399 is healthy
    #[arg(long, value_name = "PATH")]
    health: Option<String>,
    /// Certificate (PEM), for TLS towards clients
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Where metrics and controls are served
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Record the gate here, to be replayed and simulated
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Most steps that are recorded
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    record_max: usize,
    /// The seed of random routing
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print a JSON object at the start and one at the end instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum About {
    /// The path, without the query
    Path,
    /// The client's address
    Client,
}

#[derive(Clone, Copy, ValueEnum)]
enum QueuesName {
    /// One queue for all servers
    Shared,
    /// A queue for each server
    PerServer,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let What::Http(args) = &args.what;
    let config = args.config()?;
    let server = Server::bind(config).map_err(|error| match error {
        StartError::Listen { .. } | StartError::Runtime(_) => Failure::machine(error),
        error => Failure::usage(error),
    });
    let server = server?.drain_on_signals();
    let handle = server.handle();
    say(out, &beginning(args, handle.address(), handle.admin_address()))?;
    out.flush()?;
    let finished = server.run().map_err(Failure::machine)?;
    if let (Some(path), Some(recording)) = (&args.record, &finished.recording) {
        let file = std::fs::File::create(path).map_err(|error| {
            Failure::Machine(format!("cannot write {}: {error}", path.display()))
        })?;
        recording.write(std::io::BufWriter::new(file))?;
    }
    say(out, &if args.json { ending_json(&finished) } else { ending(&finished) })?;
    Ok(Verdict::Holds)
}

fn beginning(args: &HttpArgs, address: SocketAddr, admin: Option<SocketAddr>) -> String {
    if args.json {
        return format!("{}\n", json!({"listening": address, "admin": admin}));
    }
    let admin = admin.map(|at| format!("; metrics and controls on http://{at}"));
    let servers = match args.upstream.len() {
        1 => "1 server".to_owned(),
        servers => format!("{servers} servers"),
    };
    sentence(&format!(
        "gate: listening on {address} for {servers}, slots {}, {} may wait {} at most{}",
        args.slots.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        args.room,
        args.wait_max,
        admin.unwrap_or_default(),
    ))
}

fn ending_json(finished: &Finished) -> String {
    let stats = &finished.stats;
    let mean = |of: Option<Duration>| of.map(|span| span.as_secs_f64());
    let servers = stats.upstreams.iter().map(|upstream| {
        json!({
            "address": upstream.address,
            "served": upstream.hold.count(),
            "wait_mean_s": mean(upstream.wait.mean()),
            "hold_mean_s": mean(upstream.hold.mean()),
        })
    });
    let object = json!({
        "verdict": Verdict::Holds.word(),
        "exit_code": Verdict::Holds.code(),
        "responses": stats.responses(),
        "reneged": stats.reneged,
        "refused_queue_full": stats.refused_queue_full,
        "refused_deadline": stats.refused_deadline,
        "refused_no_upstream": stats.refused_no_upstream,
        "servers": servers.collect::<Vec<_>>(),
    });
    format!("{object}\n")
}

fn ending(finished: &Finished) -> String {
    let stats = &finished.stats;
    let mean = |of: Option<Duration>| of.map_or("-".into(), |span| time(span.as_secs_f64()));
    let mut text = String::new();
    for (at, upstream) in stats.upstreams.iter().enumerate() {
        text += &paragraph(&format!(
            "server {at}: {} served, mean wait {}, mean hold {}",
            upstream.hold.count(),
            mean(upstream.wait.mean()),
            mean(upstream.hold.mean())
        ));
    }
    format!("drained: {} responses\n{text}", stats.responses())
}

impl HttpArgs {
    fn config(&self) -> Result<Config, Failure> {
        let upstreams = self
            .upstream
            .iter()
            .map(|name| address("--upstream", name))
            .collect::<Result<Vec<_>, _>>()?;
        let servers = self.servers(upstreams.len())?;
        let mut config = Config::new(address("--listen", &self.listen)?, upstreams, 1);
        config.classes = self.classes()?;
        let gate = GateSpec {
            servers,
            queues: match self.queues {
                QueuesName::Shared => Queues::Shared,
                QueuesName::PerServer => Queues::PerServer,
            },
            room: Some(self.room),
            wait_max: Some(Duration::from_secs_f64(self.wait_max.0)),
            seed: self.seed,
            ..config.gate
        };
        let policies = Policies {
            discipline: Some(self.discipline.clone()),
            router: Some(self.router.clone()),
            length: self.length,
            ties: self.ties,
            sight: self.sight,
        };
        let prefixes = config.classes.iter().map(|class| &*class.prefix);
        let names: Vec<&str> = std::iter::once("other").chain(prefixes).collect();
        config.gate = policies.at(gate, &names).map_err(Failure::Usage)?;
        config.key = match self.about {
            About::Path => Key::Path,
            About::Client => Key::Client,
        };
        config.timeouts.response = Duration::from_secs_f64(self.timeout.0);
        if let Some(path) = &self.health {
            config.health.probe = Probe::Get(path.clone());
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            config.tls = Some(Tls { cert: cert.clone(), key: key.clone() });
        }
        config.admin = self.admin.as_ref().map(|name| address("--admin", name)).transpose()?;
        config.record_max = if self.record.is_some() { self.record_max } else { 0 };
        Ok(config)
    }

    fn servers(&self, upstreams: usize) -> Result<Vec<ServerSpec>, Failure> {
        if self.admin.is_none() && self.slots.iter().all(|&slots| slots == 0) {
            return Err(Failure::Usage(
                "`--slots 0` lets nobody in, and without `--admin` nobody can change that".into(),
            ));
        }
        match self.slots.as_slice() {
            [slots] => Ok(vec![ServerSpec { slots: *slots }; upstreams]),
            each if each.len() == upstreams => {
                Ok(each.iter().map(|&slots| ServerSpec { slots }).collect())
            }
            each => Err(Failure::Usage(format!(
                "`--slots` has {} numbers, `--upstream` {upstreams}: give one for all servers, or \
                 one for each",
                each.len()
            ))),
        }
    }

    /// The classes that the flags name, each prefix one, in the order of the flags.
    fn classes(&self) -> Result<Vec<Class>, Failure> {
        let mut classes: Vec<Class> = Vec::new();
        each(&mut classes, "priority", &self.priority, "`/pay/=9`", |class, value| {
            value.parse().map(|priority| class.priority = priority).ok()
        })?;
        each(&mut classes, "size", &self.size, "`/report/=50`", |class, value| {
            let size = value.parse().ok().filter(|size| *size > 0)?;
            class.size = size;
            Some(())
        })?;
        each(&mut classes, "deadline", &self.deadline, "`/live/=200ms`", |class, value| {
            let span = value.parse::<Span>().ok().filter(|span| span.0 > 0.0)?;
            class.wait_max = Some(Duration::from_secs_f64(span.0));
            Some(())
        })?;
        if !self.priority.is_empty() && !self.discipline.has_priorities() {
            return Err(Failure::Usage(
                "`--priority` has no effect without a `--discipline` that looks at it: priority, \
                 priority-ageing or cohort"
                    .into(),
            ));
        }
        Ok(classes)
    }
}

/// Gives the classes of one flag's prefixes its values; a prefix that is new becomes a class.
fn each(
    classes: &mut Vec<Class>,
    flag: &str,
    texts: &[String],
    example: &str,
    give: impl Fn(&mut Class, &str) -> Option<()>,
) -> Result<(), Failure> {
    for text in texts {
        let wrong =
            || Failure::Usage(format!("`--{flag} {text}` is not PREFIX=VALUE such as {example}"));
        let (prefix, value) = text.rsplit_once('=').ok_or_else(wrong)?;
        if !prefix.starts_with('/') {
            return Err(wrong());
        }
        let at = classes.iter().position(|class| class.prefix == prefix).unwrap_or_else(|| {
            classes.push(Class::new(prefix, classes.len() as u32 + 1));
            classes.len() - 1
        });
        give(&mut classes[at], value).ok_or_else(wrong)?;
    }
    Ok(())
}

/// The address of a name: `127.0.0.1:80`, `localhost:80`, `:80` on all addresses.
fn address(flag: &str, name: &str) -> Result<SocketAddr, Failure> {
    let full = if name.starts_with(':') { format!("0.0.0.0{name}") } else { name.to_owned() };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("`{flag} {name}` is no address such as 127.0.0.1:8080: {why}"))
    };
    let mut found = full.to_socket_addrs().map_err(|error| wrong(&error))?;
    found.next().ok_or_else(|| wrong(&"no address belongs to that name"))
}
