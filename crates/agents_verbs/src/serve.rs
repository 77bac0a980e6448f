//! `sekisho agents serve`: the server, until it is told to stop.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use access_verbs::AccessArgs;
use agents_rules::Message;
use agents_server::{
    Ended, ReloadAnswer, RulesFile, Server, ServerSpec, SourceSpec, StartError, TableSource, Users,
};
use agents_store::{Embedded, EmbeddedSpec, Memory, PostgresSpec, PostgresStore, Store};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{count, next, paragraph, sentence};
use cli::{Failure, Session, Verdict, say};
use databases::DatabaseArgs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::WayArg;
use crate::init::SCHEMA;
use crate::reload;

#[derive(ClapArgs)]
pub(crate) struct ServeArgs {
    /// The file of rules (docs/agents.md)
    rules: PathBuf,
    /// The way in which messages find agents, in place of the one that `agents explain` tells
    #[arg(long, value_enum)]
    way: Option<WayArg>,
    /// Address that clients use; other than loopback with --users and --tls-cert only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7080")]
    listen: SocketAddr,
    /// Folder of the agents; it is made if there is none. With `--db` it has only the notifications
    /// that a destination did not take
    #[arg(long, value_name = "FOLDER", default_value = "agents.store")]
    store: PathBuf,
    /// Keep nothing on disk: all agents end with the server
    #[arg(long, conflicts_with_all = ["store", "db"])]
    in_memory: bool,
    /// Keep the agents in this PostgreSQL: postgresql://USER@HOST:PORT/NAME. `agents init` makes the
    /// tables. A password is better put into PGPASSWORD, `~/.pgpass`, or the file that PGPASSFILE names: an
    /// address is seen in the list of processes
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Schema of the tables
    #[arg(long, value_name = "NAME", default_value = SCHEMA, requires = "db")]
    schema: String,
    /// Take each line of a file that grows as a MESSAGE: a JSON object of its fields. May be repeated
    #[arg(long = "source", value_name = "MESSAGE=FILE", value_parser = source)]
    sources: Vec<SourceSpec>,
    /// Take each row of a table as a MESSAGE: its fields are columns of the same names, and COLUMN only
    /// grows. May be repeated
    #[arg(long = "source-table", value_name = "MESSAGE=TABLE:COLUMN", value_parser = table)]
    tables: Vec<Named>,
    /// The PostgreSQL of these tables, if it is not that of `--db`
    #[arg(long, value_name = "URL", requires = "tables")]
    source_db: Option<String>,
    /// Memory for states, messages and the store's own cache, such as 256MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    memory: u64,
    /// Partitions, each with a thread; a folder keeps the number that it began with
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    partitions: u32,
    #[command(flatten)]
    access: AccessArgs,
    /// Allow destinations that are neither loopback nor private; said twice, such a database too
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
    /// Time for which messages are kept, for `why` and `try`
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = humantime::parse_duration)]
    keep: Duration,
    /// Most of them; beyond it the oldest go earlier, but none within 10 minutes whose id is remembered
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    keep_size: u64,
    /// Time that is left after SIGTERM to do what was accepted
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
    /// Print a JSON object at the start and one at the end instead of text
    #[arg(long)]
    json: bool,
}

/// A server of agents that listens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Started {
    /// Address that clients use.
    listening: String,
}

impl Answer for Started {
    const FORMAT: &'static str = "sekisho/agents-serve-start/1";
}

/// A server of agents that has ended.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EndedAnswer {
    /// Deliveries of messages that agents have handled.
    handled: u64,
    /// Notifications that arrived.
    notified: u64,
    /// Notifications that are kept because a destination did not take them.
    kept: u64,
    /// Notifications that wait for digests; they are delivered after the next start.
    gathered: u64,
    /// True if all that was accepted had been handled; what was not is handled after the next start.
    drained: bool,
}

impl Answer for EndedAnswer {
    const FORMAT: &'static str = "sekisho/agents-serve/1";
}

/// A source of a text such as `tick=prices.jsonl`.
fn source(text: &str) -> Result<SourceSpec, String> {
    let (message, file) = text
        .split_once('=')
        .filter(|(message, file)| !message.is_empty() && !file.is_empty())
        .ok_or_else(|| format!("`{text}` is no source such as tick=prices.jsonl"))?;
    Ok(SourceSpec { message: message.to_owned(), file: file.into() })
}

/// A table as the command line names it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    message: String,
    table: String,
    column: String,
}

/// A table of a text such as `tick=prices:id`.
fn table(text: &str) -> Result<Named, String> {
    let parts = text.split_once('=').and_then(|(message, rest)| {
        let (table, column) = rest.rsplit_once(':')?;
        Some([message, table, column].map(str::to_owned))
    });
    match parts {
        Some([message, table, column])
            if ![&message, &table, &column].iter().any(|it| it.is_empty()) =>
        {
            Ok(Named { message, table, column })
        }
        _ => Err(format!("`{text}` is no table such as tick=prices:id")),
    }
}

/// The tables whose rows are messages, each with its database.
fn tables(args: &ServeArgs) -> Result<Vec<TableSource>, Failure> {
    if args.tables.is_empty() {
        return Ok(Vec::new());
    }
    let Some(url) = args.source_db.as_ref().or(args.db.as_ref()) else {
        let cause =
            "`--source-table` needs its database: --source-db postgresql://USER@HOST:PORT/NAME";
        return Err(Failure::Usage(cause.to_owned()));
    };
    let config = DatabaseArgs::at(url, args.public).named()?;
    let each = args.tables.iter().map(|it| TableSource {
        message: it.message.clone(),
        config: config.clone(),
        table: it.table.clone(),
        column: it.column.clone(),
    });
    Ok(each.collect())
}

/// Bytes of a text such as `256MiB`.
fn size(text: &str) -> Result<u64, String> {
    let wanted = || format!("`{text}` is no size such as 256MiB or 2GiB, at least 32MiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(wanted()),
    };
    let number: u64 = digits.parse().map_err(|_| wanted())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wanted)?;
    if bytes < 32 << 20 { Err(wanted()) } else { Ok(bytes) }
}

pub(crate) fn run(
    args: &ServeArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let rules = super::read(&args.rules, args.way)?;
    let spec = ServerSpec {
        listen: args.listen,
        partitions: args.partitions,
        // The other half is the store's, unless that is a server of its own.
        memory: if args.db.is_some() { args.memory } else { args.memory / 2 },
        access: args.access.access(Users::parse)?,
        public: args.public > 0,
        directory: (!args.in_memory).then(|| args.store.join("server")),
        sources: args.sources.clone(),
        tables: tables(args)?,
        rules_file: Some(RulesFile { path: args.rules.clone(), way: super::way(args.way) }),
        keep: args.keep,
        // In memory they are a part of it.
        keep_bytes: if args.in_memory {
            args.keep_size.min(args.memory / 4)
        } else {
            args.keep_size
        },
        drain: Duration::from_secs(args.drain),
    };
    // Before the store is touched: a start that is refused should leave it alone.
    spec.access.check(spec.listen).map_err(Failure::usage)?;
    let hangup = session.catch_hangups()?;
    let server = Server::start(&spec, rules, store(args)?).map_err(unstarted)?;
    session.catch_interrupts()?;
    say(out, &beginning(args, &server))?;
    out.flush()?;
    let (mut known, mut reloading) = (0, None);
    while !session.interrupted() && !server.is_superseded() {
        std::thread::sleep(Duration::from_millis(50));
        if reloading.is_none() && hangup.swap(false, Ordering::Relaxed) {
            reloading = Some(server.reload());
        }
        if let Some(end) = reloading.take() {
            match end.try_recv() {
                Ok(told) => tell_reload(told),
                Err(TryRecvError::Empty) => reloading = Some(end),
                Err(TryRecvError::Disconnected) => {
                    tell_reload(Err("a defect of this program: they may have changed".to_owned()));
                }
            }
        }
        let (refused, told) = server.lines_refused();
        if refused > known {
            tell(refused - known, &told.unwrap_or_default());
            known = refused;
        }
    }
    let ended = server.end();
    if ended.was_superseded {
        return Err(Failure::Machine(
            "another server has taken these agents over; what was accepted is safe there"
                .to_owned(),
        ));
    }
    say(out, &ending(args, &ended))?;
    Ok(Verdict::Holds)
}

/// Tells a person that lines of a source were left out, and why the last one was.
fn tell(lines: u64, why: &str) {
    let lines = count(lines, "line");
    // Who closed standard error does not want to know.
    let _ = write!(io::stderr(), "{}", sentence(&format!("source: {lines} left out; {why}")));
}

/// Tells a person how the rules were changed, or why they were not.
fn tell_reload(told: Result<ReloadAnswer, String>) {
    let told = match told {
        // With the line of the file below, as it stands there.
        Err(cause) => format!("rules: {}\n", cause.trim_end()),
        Ok(told) => {
            let fields = told.fields.iter().map(reload::field_line);
            let fields = fields.map(|line| format!("; {line}")).collect::<String>();
            sentence(&(reload::summary(&told) + &fields))
        }
    };
    // Who closed standard error does not want to know.
    let _ = io::stderr().write_all(told.as_bytes());
}

fn store(args: &ServeArgs) -> Result<Arc<dyn Store<Message>>, Failure> {
    if args.in_memory {
        return Ok(Arc::new(Memory::new()));
    }
    if let Some(url) = &args.db {
        let config = DatabaseArgs::at(url, args.public).named()?;
        let spec = PostgresSpec { schema: args.schema.clone(), ..PostgresSpec::default() };
        return Ok(Arc::new(PostgresStore::open(config, &spec).map_err(Failure::usage)?));
    }
    let spec = EmbeddedSpec { memory_bytes: args.memory / 2, ..EmbeddedSpec::default() };
    Ok(Arc::new(Embedded::open(&args.store, spec).map_err(Failure::machine)?))
}

fn unstarted(error: StartError) -> Failure {
    match error {
        StartError::Listen(..) | StartError::Disk(_) | StartError::Threads(_) => {
            Failure::machine(error)
        }
        error => Failure::usage(error),
    }
}

fn beginning(args: &ServeArgs, server: &Server) -> String {
    let address = format!("{}://{}", args.access.scheme(), server.address());
    if args.json {
        return cli::json::notice(&Started { listening: address });
    }
    let place = match (&args.db, args.in_memory) {
        (Some(_), _) => format!("agents in the schema {} of PostgreSQL", args.schema),
        (None, true) => "in memory: nothing is kept".to_owned(),
        (None, false) => format!("agents in {}", args.store.display()),
    };
    // What nobody is asked an access token for, where there are users; the certificate may be of one's own authority.
    let then = if args.access.has_users() { "/healthz" } else { "/metrics" };
    let unchecked = if args.access.scheme() == "https" { "-k " } else { "" };
    sentence(&format!("agents: listening on {address}, {place}"))
        + &paragraph("states: /agents/NAME, metrics: /metrics")
        + &next(&format!("curl {unchecked}{address}{then}"))
}

fn ending(args: &ServeArgs, ended: &Ended) -> String {
    let Ended { handled, notified, kept, gathered, is_drained, .. } = *ended;
    if args.json {
        let answer = EndedAnswer { handled, notified, kept, gathered, drained: is_drained };
        return cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &answer);
    }
    let rest = if is_drained { "drained" } else { "ended with messages that wait in the store" };
    let (handled, notified) = (count(handled, "message"), count(notified, "notification"));
    let mut text = sentence(&format!("{rest}: {handled} handled, {notified} delivered"));
    if kept > 0 {
        let kept = count(kept, "notification");
        text += &paragraph(&format!("{kept} kept for destinations that failed"));
    }
    if gathered > 0 {
        let gathered = count(gathered, "notification");
        text += &paragraph(&format!("{gathered} kept for digests"));
    }
    text
}
