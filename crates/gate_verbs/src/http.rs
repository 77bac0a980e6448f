//! `sekisho gate http`: a reverse proxy with the gate in front.

mod from_file;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use advise::{Span, Unreachable};
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::{count, next, paragraph, quoted, sentence, shell_word, time};
use cli::{Failure, Verdict, say};
use gate::{GateSpec, ServerSpec};
use httpgate::{
    AccessLog, Class, Config, Finished, Handle, Key, LoggedTarget, Modelled, Probe, Server,
    StartError, Tls,
};
use measure::Recording;

use super::answer::{HttpEnded, HttpStarted};
use super::auto::{AutoArgs, Slots, best_slots, keep_model, models, numbers, tell};
use super::start::{Descriptors, ServerPlace, Unanswered, try_servers};
use super::{PolicyArgs, address, keep, reachable, service, slots};

/// Address that clients connect to where nobody says another one.
const LISTEN: &str = "127.0.0.1:8080";

/// Options that a file replaces.
const REPLACED: [&str; 29] = [
    "upstream",
    "slots",
    "slots_least",
    "slots_most",
    "shadow",
    "priority",
    "size",
    "deadline",
    "about",
    "discipline",
    "router",
    "length",
    "ties",
    "load_information",
    "queues",
    "seed",
    "room",
    "wait_max",
    "unreachable",
    "timeout",
    "health",
    "cert",
    "key",
    "clients_max",
    "admin_http",
    "access_log",
    "access_log_query",
    "drain_delay",
    "drain",
];

#[derive(ClapArgs)]
pub(super) struct HttpArgs {
    /// Everything from a file, TOML (docs/gate-http.md). Beside it only --listen, --record, --record-max,
    /// --model, --public and --json count, before what the file says
    #[arg(long, value_name = "FILE", conflicts_with_all = REPLACED)]
    config: Option<PathBuf>,
    /// Address that clients connect to; left out, 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// A server behind the gate; say it once for each
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["config", "check"])]
    upstream: Vec<String>,
    /// Slots of each server: one number for all, one for each, or `auto`: as many as a model and trials
    /// say, told on standard error
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        required_unless_present_any = ["config", "check"]
    )]
    slots: Vec<Slots>,
    #[command(flatten)]
    auto: AutoArgs,
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
    #[command(flatten)]
    policy: PolicyArgs,
    /// Most requests that may wait
    #[arg(long, value_name = "N", default_value_t = httpgate::ROOM)]
    room: u64,
    /// Longest wait of a request
    #[arg(long, value_name = "TIME", default_value = "30s")]
    wait_max: Span,
    /// Longest wait of a request while no server can be reached: a time, `refuse` for not at all, or
    /// `wait` for as long as for a slot
    #[arg(long, value_name = "TIME", default_value = "refuse")]
    unreachable: Unreachable,
    /// Time limit for a server to begin its response
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
    /// The most connections of clients; beyond, none is accepted until one ends
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    clients_max: usize,
    /// Where metrics, a live page and the controls are. Whoever reaches it may look, so use a loopback
    /// address, or one that only a trusted network reaches; controls answer to this machine alone
    #[arg(long, value_name = "ADDRESS")]
    admin_http: Option<String>,
    /// Write a line of JSON for each request to this file, or to standard output (`-`); SIGUSR1 opens it
    /// anew
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Write queries to the access log too
    #[arg(long, requires = "access_log")]
    access_log_query: bool,
    /// Time that clients are let in after SIGTERM, while /readyz says no already
    #[arg(long, value_name = "TIME", default_value = "0s")]
    drain_delay: Span,
    /// Time that requests may take to end after that
    #[arg(long, value_name = "TIME", default_value = "30s")]
    drain: Span,
    /// Allow an upstream that is neither loopback nor private
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
    /// Print a JSON object at the start and one at the end instead of text
    #[arg(long)]
    json: bool,
    /// Say whether a gate could start from this file, and with what: names of hosts are looked up, and the
    /// certificate is read. Nothing is listened to
    #[arg(long, visible_alias = "check-config", value_name = "FILE", conflicts_with_all = REPLACED, conflicts_with_all = ["config", "listen", "record"])]
    check: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum About {
    /// The path, without the query
    Path,
    /// The client's address
    Client,
}

pub(super) fn run(args: &HttpArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if let Some(path) = &args.check {
        return from_file::check(path, args.public, args.json, out);
    }
    if args.config.is_some() {
        return from_file::run(args, out);
    }
    let config = args.config()?;
    let slots = args.slots.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let started = Started::new(config, "--clients-max", "`--upstream`".to_owned(), slots)?;
    let server = started.server.drain_on_signals();
    say(out, &beginning(args.json, &server.handle(), &started.behind))?;
    out.flush()?;
    service::ready();
    let finished = server.run().map_err(Failure::machine)?;
    let classes = class_names(&args.classes()?).into_iter().map(str::to_owned).collect();
    let written = Written {
        record: args.policy.record.as_deref(),
        model: args.auto.model.as_deref(),
        classes,
        again: Some(args.again()),
    };
    end(&finished, written, args.json, out)
}

/// Words for what is behind the gate.
struct Behind {
    servers: usize,
    slots: String,
    room: u64,
    wait_max: Span,
}

/// A gate that listens, and what is told of it.
struct Started {
    server: Server,
    behind: Behind,
}

impl Started {
    /// Sees whether the gate can work, and listens. `clients_by` says how many clients there may be, and
    /// `servers_by` which servers.
    fn new(
        config: Config,
        clients_by: &str,
        servers_by: String,
        slots: String,
    ) -> Result<Started, Failure> {
        let servers = match &config.auto {
            Some(auto) => u64::from(auto.ceiling) * config.upstreams.len() as u64,
            None => config.gate.servers.iter().map(|server| u64::from(server.slots)).sum(),
        };
        let clients = config.limits.connections as u64;
        Descriptors { clients, clients_by, servers }.secured()?;
        let behind = Behind {
            servers: config.upstreams.len(),
            slots,
            room: config.gate.room.unwrap_or_default(),
            wait_max: Span(config.gate.wait_max.unwrap_or_default().as_secs_f64()),
        };
        let upstreams: Vec<_> = config.upstreams.iter().copied().map(ServerPlace::Tcp).collect();
        let has_page = config.admin.is_some();
        let refuses = config.gate.unreachable_max == Some(Duration::ZERO);
        let server = Server::bind(config).map_err(unstarted)?;
        let meanwhile = match (refuses, upstreams.len()) {
            (true, 1) => "requests are refused",
            (true, _) => "requests go to the others, and are refused if none answers",
            (false, _) => "requests wait for it",
        };
        let down = try_servers(&upstreams, &Unanswered { by: servers_by, meanwhile, has_page });
        Ok(Started { server: server.without_servers(down), behind })
    }
}

fn unstarted(error: StartError) -> Failure {
    match error {
        StartError::Listen { .. } | StartError::AccessLog { .. } | StartError::Runtime(_) => {
            Failure::machine(error)
        }
        error => Failure::usage(error),
    }
}

/// Files that are written in the end, if they are named.
struct Written<'a> {
    record: Option<&'a Path>,
    model: Option<&'a Path>,
    /// Names of the classes, for the recording.
    classes: Vec<String>,
    /// The command of the same gate without its slots, if it was one of flags.
    again: Option<String>,
}

/// Writes what was recorded and what was found, and says how it ended.
fn end(
    finished: &Finished,
    Written { record, model, classes, again }: Written<'_>,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    if let (Some(path), Some(recording)) = (record, &finished.recording) {
        keep(path, &Recording { classes, ..recording.clone() })?;
    }
    let mut modelled = None;
    if let (Some(path), Some(fitted)) = (model, &finished.modelled.fitted) {
        let upstreams = finished.stats.upstreams.iter().map(|one| one.address.to_string());
        let names = upstreams.collect::<Vec<_>>().join(",");
        keep_model(path, (&names, "servers"), fitted)?;
        modelled = Some(path);
    }
    let text = match json {
        true => {
            let recording = record.filter(|_| finished.recording.is_some());
            let written = [recording, modelled].map(|path| path.map(Path::to_owned));
            let answer = HttpEnded::new(&finished.stats, &finished.modelled, written);
            cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &answer)
        }
        false => {
            let recorded = record.filter(|_| finished.recording.is_some());
            ending(finished, recorded, modelled, again)
        }
    };
    say(out, &text)?;
    Ok(Verdict::Holds)
}

fn beginning(json: bool, handle: &Handle, behind: &Behind) -> String {
    let (address, http) = (handle.address(), handle.admin_address());
    if json {
        let http = http.map(|http| http.to_string());
        return cli::json::notice(&HttpStarted { listening: address.to_string(), http });
    }
    let servers = count(behind.servers as u64, "server");
    let text = sentence(&format!(
        "gate: listening on {address} for {servers}, slots {}, {} may wait {} at most",
        behind.slots, behind.room, behind.wait_max,
    ));
    let shown =
        http.map(|http| paragraph(&format!("live page, metrics and controls: http://{http}/")));
    text + &shown.unwrap_or_default() + &next(&format!("curl http://{address}/"))
}

fn ending(
    finished: &Finished,
    recorded: Option<&Path>,
    modelled: Option<&Path>,
    again: Option<String>,
) -> String {
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
    let Modelled { estimates, fitted, .. } = &finished.modelled;
    text += &models(std::iter::once(&**estimates));
    let mut text = format!("drained: {}\n{text}", count(stats.responses(), "response"));
    if let Some(path) = recorded {
        text += &paragraph(&format!("recorded: {}", path.display()));
    }
    let found = best_slots(fitted.as_ref(), estimates);
    match (modelled, recorded, found.zip(again)) {
        (Some(model), ..) => {
            let told = paragraph(&format!("modelled: {}", model.display()));
            text + &told + &next(&format!("sekisho ask bottleneck {}", shell_word(model)))
        }
        (None, Some(recording), found) => {
            let keep = |(slots, _): (f64, String)| {
                paragraph(&format!("to keep what was found: `--slots {slots:.0}` in place of auto"))
            };
            let keep = found.map(keep).unwrap_or_default();
            text + &keep + &next(&format!("sekisho replay {}", shell_word(recording)))
        }
        (None, None, Some((slots, again))) => text + &next(&format!("{again} --slots {slots:.0}")),
        (None, None, None) => text,
    }
}

impl HttpArgs {
    /// The command of such a gate, without its slots.
    fn again(&self) -> String {
        let upstreams = self.upstream.iter().map(|one| format!(" --upstream {}", quoted(one)));
        let public = " --public".repeat(self.public.into());
        let listen = quoted(self.listen.as_deref().unwrap_or(LISTEN));
        format!("sekisho gate http --listen {listen}{}{public}", upstreams.collect::<String>())
    }

    fn config(&self) -> Result<Config, Failure> {
        let upstreams = self
            .upstream
            .iter()
            .map(|name| address("--upstream", name))
            .collect::<Result<Vec<_>, _>>()?;
        for (name, upstream) in self.upstream.iter().zip(&upstreams) {
            reachable(name, [upstream.ip()], self.public)?;
        }
        let auto = self.auto.auto(&self.slots)?;
        let servers = match &auto {
            Some(auto) => vec![ServerSpec { slots: auto.start() }; upstreams.len()],
            None => self.servers(upstreams.len())?,
        };
        let mut config = Config::new(
            address("--listen", self.listen.as_deref().unwrap_or(LISTEN))?,
            upstreams,
            1,
        );
        config.classes = self.classes()?;
        config.auto = auto;
        config.decisions = Some(tell);
        let wait_max = Duration::from_secs_f64(self.wait_max.0);
        let gate = GateSpec {
            servers,
            room: Some(self.room),
            wait_max: Some(wait_max),
            unreachable_max: self.unreachable.limit(Some(wait_max)),
            ..config.gate
        };
        config.gate = self.policy.at(gate, &class_names(&config.classes))?;
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
        config.limits.connections = self.clients_max;
        config.timeouts.drain_delay = Duration::from_secs_f64(self.drain_delay.0);
        config.timeouts.drain = Duration::from_secs_f64(self.drain.0);
        let http = self.admin_http.as_ref();
        config.admin = http.map(|name| address("--admin-http", name)).transpose()?;
        config.access_log = self.access_log.as_ref().map(|path| AccessLog {
            target: match self.access_log_query {
                true => LoggedTarget::PathAndQuery,
                false => LoggedTarget::Path,
            },
            ..AccessLog::named(path)
        });
        config.record_max = self.policy.record_max();
        Ok(config)
    }

    fn servers(&self, upstreams: usize) -> Result<Vec<ServerSpec>, Failure> {
        let numbers = numbers(&self.slots);
        if self.admin_http.is_none() && numbers.iter().all(|&slots| slots == 0) {
            return Err(Failure::Usage(
                "`--slots 0` lets nobody in, and without `--admin-http` nobody can change that"
                    .into(),
            ));
        }
        slots("--upstream", &numbers, upstreams)
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
        if !self.priority.is_empty() && !self.policy.discipline.has_priorities() {
            return Err(Failure::Usage(
                "`--priority` has no effect without a `--discipline` that looks at it: priority, \
                 priority-ageing or cohort"
                    .into(),
            ));
        }
        Ok(classes)
    }
}

/// The names of these classes, and before them of that of all other requests.
fn class_names(classes: &[Class]) -> Vec<&str> {
    std::iter::once("other").chain(classes.iter().map(|class| &*class.name)).collect()
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
        let at = classes.iter().position(|class| class.name == prefix).unwrap_or_else(|| {
            classes.push(Class::new(prefix));
            classes.len() - 1
        });
        give(&mut classes[at], value).ok_or_else(wrong)?;
    }
    Ok(())
}
