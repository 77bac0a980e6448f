//! The HTTP target of a measurement: which server, how connections are used, whom TLS trusts, and the one
//! place where a run is pressed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use advise::Span;
use clap::{Args as ClapArgs, ValueEnum};
use cli::{Failure, Session, advance, store, tool};
use indicatif::ProgressBar;
use load::http::{
    Closing, Connections, Idle, Load, Naming, Plan, PlanSpec, Protocol, Reach, Resumption,
    RunError, Schedule, Target, TargetError, Trust,
};
use load::meeting::{Attendance, Meeting};
use measure::{Interval, RunRecord, Until};
use workload::Dist;

use super::http_requests::RequestArgs;
use super::parts;
use databases::{PRESSES, out_of_reach, reach};

#[derive(ClapArgs)]
pub(crate) struct TargetArgs {
    /// What to measure: one URL or several of one server
    #[arg(value_name = "URL", required = true)]
    url: Vec<String>,
    #[command(flatten)]
    requests: RequestArgs,
    #[command(flatten)]
    connections: ConnectionArgs,
}

/// Use of connections, and the generator itself.
#[derive(ClapArgs)]
#[command(next_help_heading = "Connections")]
struct ConnectionArgs {
    /// Open a connection for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Speak HTTP/2, many requests at once on a connection: agreed on by ALPN for https://, without a word for
    /// http:// (prior knowledge)
    #[arg(long, conflicts_with = "no_keep_alive")]
    http2: bool,
    /// Most streams of an HTTP/2 connection at once; beyond them another connection is opened
    #[arg(long, value_name = "N", default_value_t = 100, requires = "http2")]
    streams: u32,
    /// Generator threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Bind the generator threads to these processors
    #[arg(long, value_delimiter = ',', value_name = "CPU,...")]
    cpus: Vec<usize>,
    /// What the generator does while there is nothing to do
    #[arg(long, value_enum, default_value = "sleep")]
    idle: IdleName,
    /// How the generator closes connections
    #[arg(long, value_enum, default_value = "fin")]
    close: CloseName,
    /// A header line to send with every request, `Name: value`
    #[arg(short = 'H', long, value_name = "LINE")]
    header: Vec<String>,
    /// The longest that a response may take
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Span,
    /// Trust the certificates in this PEM file only
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust every certificate; the record says so
    #[arg(long)]
    insecure: bool,
    /// Allow a target that is neither loopback nor private: say it twice
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
    /// Time in which each kind of request must be answered once before any load
    #[arg(long, value_name = "TIME", default_value = "1s")]
    preflight: Span,
    /// Make the load without a look at the server, whatever it answers
    #[arg(long, conflicts_with = "preflight")]
    no_preflight: bool,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum IdleName {
    /// Sleep: each answer that finds it asleep costs the server a wake-up
    Sleep,
    /// Spin: a processor is always busy
    Spin,
}

#[derive(Clone, Copy, ValueEnum)]
enum CloseName {
    /// With a FIN, as clients do
    Fin,
    /// With a RST, which leaves no port in TIME_WAIT
    Rst,
}

impl TargetArgs {
    /// Reach of the load, and of the meeting of its parts.
    pub(crate) fn reach(&self) -> Reach {
        reach(self.connections.public, PRESSES)
    }

    /// The run that these arguments describe, but for its load: of no clients, and without an end.
    pub(crate) fn site(&self) -> Result<Site, Failure> {
        let own = &self.connections;
        let reach = self.reach();
        let target = Target::parse(&self.url[0], reach).map_err(refused)?;
        let mix = self.requests.mix(&self.url, &target, reach)?;
        let load = Load::Closed { clients: 1, think: Dist::Constant(0.0) };
        let mut spec = PlanSpec::new(target, load, Until::Requests(1));
        spec.requests = mix.requests;
        spec.order = mix.order;
        if own.http2 {
            spec.protocol = Protocol::Http2 { streams_max: own.streams };
        }
        spec.connections =
            if own.no_keep_alive { Connections::PerRequest } else { Connections::KeepAlive };
        spec.threads = own.threads;
        spec.cpus.clone_from(&own.cpus);
        spec.idle = match own.idle {
            IdleName::Sleep => Idle::Sleep,
            IdleName::Spin => Idle::Spin,
        };
        spec.closing = match own.close {
            CloseName::Fin => Closing::Fin,
            CloseName::Rst => Closing::Rst,
        };
        spec.headers = own.header.iter().map(|line| header(line)).collect::<Result<_, _>>()?;
        spec.response_max = Duration::from_secs_f64(own.timeout.0);
        spec.trust = match &own.ca {
            Some(path) => Trust::File(path.clone()),
            None if own.insecure => Trust::Insecure,
            None => Trust::System,
        };
        spec.resumption = Resumption::Off;
        spec.seed = own.seed;
        let preflight = (!own.no_preflight).then(|| Duration::from_secs_f64(own.preflight.0));
        Ok(Site { spec, log: mix.schedule, notes: mix.notes, preflight })
    }
}

/// A server to be loaded, and the requests for it.
pub(crate) struct Site {
    /// The run but for its load.
    pub(crate) spec: PlanSpec,
    /// A log's own gaps.
    pub(crate) log: Option<Schedule>,
    /// Facts about the requests that the user must know.
    pub(crate) notes: Vec<String>,
    /// Time in which each kind of request must be answered once before any load; none: that is left out.
    pub(crate) preflight: Option<Duration>,
}

/// Reason that a URL is no target, with the way out.
pub(crate) fn refused(error: TargetError) -> Failure {
    match error {
        TargetError::Reach(error) => out_of_reach(&error, PRESSES),
        error => Failure::usage(error),
    }
}

fn header(line: &str) -> Result<(String, String), Failure> {
    let (name, value) = line.split_once(':').ok_or_else(|| {
        Failure::Usage(format!("`--header {line}` has no colon: write `Name: value`"))
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Runs a plan and returns its record; the bar goes on with every interval.
pub(crate) fn press(
    spec: PlanSpec,
    session: &Session,
    bar: &ProgressBar,
) -> Result<RunRecord, Failure> {
    let record = press_part(spec, None, session, bar)?;
    Ok(record.expect("only a meeting may come to nothing"))
}

/// Runs a plan, or the part of one that meets others, and returns its record. None if the user did not want to
/// wait for the other parts.
pub(crate) fn press_part(
    spec: PlanSpec,
    meeting: Option<&Meeting>,
    session: &Session,
    bar: &ProgressBar,
) -> Result<Option<RunRecord>, Failure> {
    let plan = Plan::new(spec).map_err(Failure::usage)?;
    let naming = naming(session);
    let mut sink = |interval: &Interval| advance(bar, interval);
    let interrupt = &session.interrupt;
    let made = match meeting {
        None => load::http::record(&plan, naming, interrupt, &mut sink),
        Some(meeting) => {
            let attendance = Attendance { meeting, waits: &mut parts::waiting(bar) };
            load::http::record_part(&plan, naming, attendance, interrupt, &mut sink)
        }
    };
    match made {
        Ok(record) => Ok(Some(record)),
        Err(RunError::Meet(error)) => parts::unmet(error).map_or(Ok(None), Err),
        Err(error) => Err(failure(error)),
    }
}

/// Runs a plan, which ends early after so long a time.
pub(crate) fn press_within(
    spec: PlanSpec,
    longest: Duration,
    session: &Session,
) -> Result<RunRecord, Failure> {
    let plan = Plan::new(spec).map_err(Failure::usage)?;
    let (begun, enough) = (Instant::now(), AtomicBool::new(false));
    load::http::record(&plan, naming(session), &enough, &mut |_| {
        if begun.elapsed() > longest || session.interrupted() {
            enough.store(true, Ordering::Relaxed);
        }
    })
    .map_err(failure)
}

/// Name of a run, and its command without what may be a secret.
pub(super) fn naming(session: &Session) -> Naming {
    Naming {
        id: store::new_id(),
        started: store::now_rfc3339(),
        tool: tool(),
        command: without_payloads(&session.command),
    }
}

fn failure(error: RunError) -> Failure {
    match error {
        RunError::Tls(_) => Failure::usage(error),
        RunError::Start(_) | RunError::Meet(_) => Failure::machine(error),
    }
}

/// The words of a command line without the values of headers and the texts of bodies: they may be secrets,
/// and a record holds no payload. Files that are named stay.
fn without_payloads(words: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(words.len());
    let is = |at: usize, names: &[&str]| {
        at.checked_sub(1).is_some_and(|before| names.contains(&words[before].as_str()))
    };
    let is_second =
        |at: usize| at.checked_sub(1).is_some_and(|at| is(at, &["--post", "--put", "--patch"]));
    for (at, word) in words.iter().enumerate() {
        let (flag, value) = match word.split_once('=') {
            Some((flag @ ("--header" | "--body"), value)) => (Some(flag), value),
            _ => (None, word.as_str()),
        };
        let is_header = flag == Some("--header") || is(at, &["--header", "-H"]);
        let is_body = flag == Some("--body") || is(at, &["--body"]) || is_second(at);
        let shown = if is_header {
            format!("{}: ...", value.split(':').next().unwrap_or(""))
        } else if is_body && !value.starts_with('@') {
            "...".into()
        } else {
            value.to_owned()
        };
        kept.push(flag.map_or(shown.clone(), |flag| format!("{flag}={shown}")));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_headers_nor_bodies_are_recorded() {
        let line = "measure http http://h/ -H A:b --header=C:d --post /x {1} --post /y @f --body=s \
                    --get /z";
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let kept = without_payloads(&words).join("|");
        let wanted = "measure|http|http://h/|-H|A: ...|--header=C: ...|--post|/x|...|--post|/y|@f|\
                      --body=...|--get|/z";
        assert_eq!(kept, wanted);
    }
}
