//! `sekisho agents`: keyed agents that follow the rules of a file, and what the rules of a file do.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

mod ask;
mod backup;
mod client;
mod csv;
mod dead;
mod explain;
mod init;
#[cfg(feature = "wasm")]
mod modules;
mod moved;
#[cfg(feature = "parquet")]
mod parquet_file;
mod reload;
mod serve;
mod user;
mod why;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use agents_rules::{Modules, Rules, Way};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use cli::json::Format;
use cli::{Failure, Session, Verdict};

#[expect(missing_docs, reason = "a comment would become the text of the verb's help")]
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Serve the agents of a file: messages by HTTP, notifications by webhook
    ///
    /// A message is answered 202 when it is durable, and takes effect exactly once. A notification is
    /// delivered at least once, under a key that stays the same. SIGTERM takes nothing new, does what was
    /// accepted, and ends. SIGHUP reads the file of rules anew, as `agents reload` does.
    /// Without users everybody on this machine may use it, and it listens on a loopback address and no other.
    #[command(after_help = "\
At its address (docs/agents.md):
  PUT /agents/NAME              declare an agent, or change its fields
  GET, DELETE /agents/NAME      its state; its end
  GET /agents/NAME/why          its past; POST /try: rules on kept messages
  GET, POST /agents             a page of all; a list to declare
  POST /messages/MESSAGE        a message, or a list of them, to those concerned
  POST /agents/NAME/messages/MESSAGE
  POST /rules                   read the file anew; ?dry_run=true only tells
  GET /notifications            a stream; ?after=N goes on behind one
  GET /dead, /undelivered       what failed; POST .../resend sends it again
  GET /backup                   all of it, as of one moment
  /metrics, /healthz, /readyz

Examples:
  sekisho agents serve rules.toml
  sekisho agents serve rules.toml --db \"$DATABASE_URL\"
  sekisho agents serve rules.toml --users users.toml")]
    Serve(Box<serve::ServeArgs>),
    /// Make the tables of the agents in your PostgreSQL, in a schema of their own
    ///
    /// Without `--apply` the statements are printed, and no database is asked.
    #[command(after_help = "\
Examples:
  sekisho agents init rules.toml --db \"$DATABASE_URL\"
  sekisho agents init rules.toml --db \"$DATABASE_URL\" --apply")]
    Init(init::InitArgs),
    /// Check a file, and say how each rule is evaluated and finds its agents
    #[command(after_help = "\
Example:
  sekisho agents explain rules.toml")]
    Explain(explain::ExplainArgs),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Put(ask::PutArgs),
    Send(ask::SendArgs),
    Get(ask::GetArgs),
    Delete(ask::DeleteArgs),
    /// Messages that agents could not handle, and notifications that were not taken
    #[command(subcommand)]
    Dead(dead::Dead),
    Export(moved::ExportArgs),
    Import(moved::ImportArgs),
    Reload(reload::ReloadArgs),
    User(user::UserArgs),
    Why(why::WhyArgs),
    Try(why::TryArgs),
}

/// Formats of what these verbs print with `--json`.
pub fn formats() -> Vec<Format> {
    vec![
        Format::of_notice::<serve::Started>(),
        Format::of_answer::<serve::EndedAnswer>(),
        Format::of_answer::<init::Inited>(),
        Format::of_answer::<explain::Explained>(),
        Format::of_answer::<ask::Accepted>(),
        Format::of_answer::<ask::AgentState>(),
        Format::of_answer::<dead::DeadList>(),
        Format::of_answer::<dead::Resent>(),
        Format::of_answer::<moved::Moved>(),
        Format::of_answer::<backup::BackedUp>(),
        Format::of_answer::<backup::Restored>(),
        Format::of_answer::<reload::Reloaded>(),
        Format::of_answer::<user::UserMade<'_>>(),
        Format::of_answer::<why::Why>(),
        Format::of_answer::<why::Tried>(),
    ]
}

/// Does what the arguments ask for.
///
/// # Errors
/// A file with an error, an address or a store that is not to be had.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.what {
        What::Serve(args) => serve::run(args, session, out),
        What::Init(args) => init::run(args, out),
        What::Explain(args) => explain::run(args, out),
        What::Backup(args) => backup::backup(args, out),
        What::Restore(args) => backup::run_restore(args, out),
        What::Put(args) => ask::put(args, out),
        What::Send(args) => ask::send(args, out),
        What::Get(args) => ask::get(args, out),
        What::Delete(args) => ask::delete(args, out),
        What::Dead(of) => dead::run(of, out),
        What::Export(args) => moved::export(args, out),
        What::Import(args) => moved::import(args, out),
        What::Reload(args) => reload::run(args, out),
        What::User(args) => user::run(args, out),
        What::Why(args) => why::why(args, out),
        What::Try(args) => why::attempt(args, out),
    }
}

/// Most MiB of a file of rules.
const FILE_MIB: u64 = 16;

/// The rules of a file.
fn read(path: &Path, way: Option<WayArg>) -> Result<Arc<Rules>, Failure> {
    read_text(path, way).map(|(rules, _)| rules)
}

/// The way in which messages find agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WayArg {
    /// By an index over bounds that agents publish
    Bounds,
    /// By asking all agents
    All,
}

fn way(arg: Option<WayArg>) -> Option<Way> {
    arg.map(|way| match way {
        WayArg::Bounds => Way::Bounds,
        WayArg::All => Way::All,
    })
}

/// The modules that a file may name, on this machine.
#[cfg(feature = "wasm")]
fn modules() -> Arc<dyn Modules> {
    Arc::new(modules::ModuleFiles::default())
}

#[cfg(not(feature = "wasm"))]
fn modules() -> Arc<dyn Modules> {
    Arc::new(agents_rules::NoModules)
}

/// The rules of a file, and its text.
fn read_text(path: &Path, way: Option<WayArg>) -> Result<(Arc<Rules>, String), Failure> {
    let name = path.display().to_string();
    let text = formats::bounded::text(path, FILE_MIB)
        .map_err(|error| Failure::Usage(format!("cannot read {name}: {error}")))?;
    let rules =
        Rules::read_with(&name, &text, self::way(way), &modules()).map_err(Failure::usage)?;
    Ok((rules, text))
}
