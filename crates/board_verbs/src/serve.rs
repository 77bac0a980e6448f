//! `sekisho board serve`: the bulletin board on a store, for whoever is on this machine.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use board::{Server, Writes};
use clap::Args as ClapArgs;
use cli::json::{Answer, answer, notice};
use cli::text::{next, paragraph, sentence};
use cli::{Failure, Session, Verdict, say};
use databases::PrivateArgs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::stores::{DurabilityName, Ready, StoreName};

/// How often it is looked whether somebody wants it to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// Serve the papers' bulletin board on a store
///
/// The pages are the same bytes on every store. Everybody on this machine may read and write; it listens on
/// a loopback address and no other. SIGTERM lets requests end, holds what is stored against what was
/// acknowledged, and stops; a write that is missing, twice or out of order ends it with 3.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho board serve --store jungle")]
pub(crate) struct Args {
    /// The store
    #[arg(long, value_enum)]
    store: StoreName,
    /// The moment at which a write is acknowledged
    #[arg(long, value_enum, default_value = "strict")]
    durability: DurabilityName,
    /// Folder of `jungle` and `sqlite`; made if it is not there [default: ./board-STORE]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Address that clients use, a loopback one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7430")]
    at: SocketAddr,
    /// Also stop when standard input ends, for programs that start a board
    #[arg(long)]
    until_eof: bool,
    /// Server of `cassandra` or `etcd` on this machine, instead of a private one; what the board stores there
    /// (keyspace or prefix `sekisho_board`) stays
    #[arg(long, value_name = "ADDRESS")]
    server: Option<SocketAddr>,
    #[command(flatten)]
    postgres: PrivateArgs,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

/// A board that listens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Begun {
    /// Its address, as a URL.
    listening: String,
    /// The store.
    store: String,
    /// The durability class.
    durability: String,
    /// The store's own word for that.
    setting: String,
    /// Threads found.
    threads: u64,
    /// Messages found.
    messages: u64,
}

impl Answer for Begun {
    const FORMAT: &'static str = "sekisho/board-serve-start/1";
}

/// A board that has stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ended {
    /// Threads and messages that were acknowledged.
    acknowledged: u64,
    /// Deletions of messages that were acknowledged.
    deletions: u64,
    /// Threads that are stored.
    threads: u64,
    /// Messages that are stored.
    messages: u64,
    /// Acknowledged writes that are not there, are there twice or out of order; the first 20.
    faults: Vec<String>,
}

impl Answer for Ended {
    const FORMAT: &'static str = "sekisho/board-serve/1";
}

fn refuse(args: &Args) -> Result<(), Failure> {
    args.store.check(args.durability)?;
    let store = args.store.word();
    if !args.store.has_folder() && args.directory.is_some() {
        return Err(Failure::Usage(format!(
            "`--directory` is for `--store jungle` and `--store sqlite`; a private server for `{store}` has a \
             folder of its own, which is removed at the end: leave it out"
        )));
    }
    if let Some(at) = args.server {
        if !matches!(args.store, StoreName::Cassandra | StoreName::Etcd) {
            return Err(Failure::Usage(format!(
                "`--server {at}` is a server of `--store cassandra` or `--store etcd`, and the store is `{store}`: \
                 leave it out"
            )));
        }
        if !at.ip().is_loopback() {
            return Err(Failure::Usage(format!(
                "`--server {at}` is no loopback address, and a board presses its store: use one of this machine, as \
                 127.0.0.1:{}",
                at.port()
            )));
        }
    }
    match args.postgres.chosen() {
        Some(word) if args.store != StoreName::Postgres => Err(Failure::Usage(format!(
            "`--postgres {word}` chooses the server of `--store postgres`, and the store is `{store}`: leave it out"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    refuse(args)?;
    session.catch_interrupts()?;
    if args.until_eof {
        let interrupt = Arc::clone(&session.interrupt);
        thread::spawn(move || {
            // What cannot be read any more has ended too.
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            interrupt.store(true, Ordering::Relaxed);
        });
    }
    // Each connection is a descriptor. A machine that refuses keeps its limit, and connections beyond it wait.
    load::host::raise_descriptor_limit().ok();
    let folder = PathBuf::from(format!("board-{}", args.store.word()));
    let folder = args.directory.as_ref().unwrap_or(&folder);
    let class = args.durability.class();
    let server = (&args.postgres, args.server);
    let ready = match Ready::start(args.store, class, folder, server, &session.interrupt) {
        // Whoever started it has ended it, and knows.
        Err(Failure::Interrupted(_)) if args.until_eof => return Ok(Verdict::Interrupted),
        ready => ready?,
    };
    let server = Server::start(args.at, &ready.choice, class).map_err(Failure::machine)?;
    let found = server.board().found();
    let begun = Begun {
        listening: format!("http://{}", server.address()),
        store: args.store.word().to_owned(),
        durability: class.word().to_owned(),
        setting: ready.choice.setting(class).to_owned(),
        threads: found.threads,
        messages: found.messages,
    };
    say(out, &if args.json { notice(&begun) } else { told(args, &begun) })?;
    out.flush().map_err(Failure::machine)?;
    while !session.interrupted() {
        thread::sleep(GLANCE);
    }
    let told = server.board().writes();
    let count = |of: &Writes| of.acknowledged.load(Ordering::Relaxed);
    let acknowledged = count(&told.threads) + count(&told.messages);
    let deletions = count(&told.deletions);
    let verified = server.stop().map_err(Failure::machine)?;
    ready.stop()?;
    let verdict = if verified.faults.is_empty() { Verdict::Holds } else { Verdict::Fails };
    let ended = Ended {
        acknowledged,
        deletions,
        threads: verified.threads,
        messages: verified.messages,
        faults: verified.faults,
    };
    let text = if args.json {
        answer(verdict, verdict.word(), &ended)
    } else {
        let line = format!(
            "{}: {} threads and {} messages are stored; {} were acknowledged in this session, and {} deletions",
            verdict.word(),
            ended.threads,
            ended.messages,
            ended.acknowledged,
            ended.deletions
        );
        let faults = ended.faults.iter().map(|fault| paragraph(fault));
        sentence(&line) + "\n" + &faults.collect::<String>()
    };
    say(out, &text)?;
    Ok(verdict)
}

fn told(args: &Args, begun: &Begun) -> String {
    let kept = match args.store {
        store if !store.has_folder() && args.server.is_none() => "removed at the end".to_owned(),
        _ => format!("{} threads and {} messages found", begun.threads, begun.messages),
    };
    format!("listening on {}\n", begun.listening)
        + &paragraph(&format!("{} ({}: {}); {kept}", begun.store, begun.durability, begun.setting))
        + &next(&format!("sekisho measure http {}/ --clients 1,8", begun.listening))
}
