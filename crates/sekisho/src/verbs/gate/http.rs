//! `sekisho gate http`: a reverse proxy with the gate in front.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use advise::{Span, Unreachable};
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::{next, paragraph, quoted, sentence, time};
use cli::{Failure, Verdict, say};
use gate::{GateSpec, ServerSpec};
use httpgate::{Class, Config, Finished, Key, Modelled, Probe, Server, StartError, Tls};
use measure::Recording;
use serde_json::json;

use super::auto::{AutoArgs, Slots, best_slots, control_json, keep_model, models, numbers, tell};
use super::{PolicyArgs, address, keep, reachable, slots};

#[derive(ClapArgs)]
pub(super) struct HttpArgs {
    /// Address that clients connect to
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: String,
    /// A server behind the gate; say it once for each
    #[arg(long, value_name = "ADDRESS", required = true)]
    upstream: Vec<String>,
    /// Slots of each server: one number for all, one for each, or `auto`: as many as a model and trials
    /// say, told on standard error
    #[arg(long, value_delimiter = ',', value_name = "N,...", required = true)]
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
    /// How long a request may wait while no server can be reached: a time, `refuse` for not at all, or
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
    /// Address of metrics and controls
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Allow an upstream that is neither loopback nor private
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
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

pub(super) fn run(args: &HttpArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
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
    if let (Some(path), Some(recording)) = (&args.policy.record, &finished.recording) {
        let classes = class_names(&args.classes()?).into_iter().map(str::to_owned).collect();
        keep(path, &Recording { classes, ..recording.clone() })?;
    }
    let mut modelled = None;
    if let (Some(path), Some(fitted)) = (&args.auto.model, &finished.modelled.fitted) {
        keep_model(path, (&args.upstream.join(","), "servers"), fitted)?;
        modelled = Some(path.as_path());
    }
    let text = match args.json {
        true => ending_json(&finished),
        false => ending(args, &finished, modelled),
    };
    say(out, &text)?;
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
    let slots = stats.upstreams.iter().map(|upstream| upstream.slots).sum();
    let object = json!({
        "verdict": Verdict::Holds.word(),
        "exit_code": Verdict::Holds.code(),
        "responses": stats.responses(),
        "reneged": stats.reneged,
        "refused_queue_full": stats.refused_queue_full,
        "refused_deadline": stats.refused_deadline,
        "refused_hopeless": stats.refused_hopeless,
        "refused_unreachable": stats.refused_unreachable,
        "servers": servers.collect::<Vec<_>>(),
        "model": finished.modelled.estimates,
        "slots": control_json(slots, finished.modelled.control.as_ref()),
    });
    format!("{object}\n")
}

fn ending(args: &HttpArgs, finished: &Finished, modelled: Option<&Path>) -> String {
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
    let text = format!("drained: {} responses\n{text}", stats.responses());
    match (modelled, best_slots(fitted.as_ref(), estimates)) {
        (Some(model), _) => {
            let told = sentence(&format!("  modelled: {}", model.display()));
            text + &told + &next(&format!("sekisho ask bottleneck {}", model.display()))
        }
        (None, Some(slots)) => {
            let upstreams: String =
                args.upstream.iter().map(|one| format!(" --upstream {}", quoted(one))).collect();
            let public = " --public".repeat(args.public.into());
            let listen = quoted(&args.listen);
            let command = "sekisho gate http --listen";
            text + &next(&format!("{command} {listen}{upstreams}{public} --slots {slots:.0}"))
        }
        (None, None) => text,
    }
}

impl HttpArgs {
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
        let mut config = Config::new(address("--listen", &self.listen)?, upstreams, 1);
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
        config.admin = self.admin.as_ref().map(|name| address("--admin", name)).transpose()?;
        config.record_max = self.policy.record_max();
        Ok(config)
    }

    fn servers(&self, upstreams: usize) -> Result<Vec<ServerSpec>, Failure> {
        let numbers = numbers(&self.slots);
        if self.admin.is_none() && numbers.iter().all(|&slots| slots == 0) {
            return Err(Failure::Usage(
                "`--slots 0` lets nobody in, and without `--admin` nobody can change that".into(),
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
    std::iter::once("other").chain(classes.iter().map(|class| &*class.prefix)).collect()
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
