//! `sekisho agents backup` and `restore`: all that a server has at one moment as one file, and a folder made of it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use agents_store::{Backed, EmbeddedSpec, StoreError, check_backup, check_restore, restore};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{bytes, count, next, paragraph, sentence, shell_word};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;

use crate::client::{Client, ServerArgs};

/// Write a backup of a server that runs to a file: agents, messages, timers, notifications, as of one moment
///
/// The server goes on meanwhile. The file is read again before it gets its name; until then it is FILE.part. The
/// file of rules is not in it. Agents in your PostgreSQL are backed up by `pg_dump` (docs/agents-rules.md).
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho agents backup agents.backup")]
pub(crate) struct BackupArgs {
    /// The file, which must not be there yet
    file: PathBuf,
    #[command(flatten)]
    server: ServerArgs,
}

/// Make a folder of agents of a backup, in place of one that was lost
///
/// The backup is checked as a whole first. A folder that is there and not empty is left alone. The server that was
/// backed up must not go on: both would send notifications.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents restore agents.backup --store restored --dry-run
  sekisho agents restore agents.backup --store restored")]
pub(crate) struct RestoreArgs {
    /// The file, as `agents backup` writes it
    file: PathBuf,
    /// The folder, which is made
    #[arg(long, value_name = "FOLDER", default_value = "agents.store")]
    store: PathBuf,
    /// Check the backup and the place, and make nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The content of a backup.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Content {
    /// Moment of the backup, as RFC 3339.
    taken: String,
    /// Bytes of the file.
    size_bytes: u64,
    /// Partitions, all of one moment.
    partitions: Vec<PartitionContent>,
    /// Agents with a state.
    agents: u64,
    /// Messages that are kept.
    messages: u64,
    /// Notifications that are not delivered.
    notifications: u64,
    /// Timers that are set.
    timers: u64,
    /// Messages that agents could not handle.
    dead: u64,
}

/// A partition in a backup.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PartitionContent {
    /// Its number.
    partition: u32,
    /// The number of its owner.
    epoch: u64,
    /// The number of its last commit.
    version: u64,
    /// Position of the last message that was accepted: a message that was answered with this position or an earlier
    /// one is in the backup.
    position: u64,
    /// Position up to which all messages had taken effect.
    handled: u64,
}

/// A backup that was written, and read again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BackedUp {
    /// The file.
    file: String,
    #[serde(flatten)]
    content: Content,
}

impl Answer for BackedUp {
    const FORMAT: &'static str = "sekisho/agents-backup/1";
}

/// A folder that was made of a backup, or would be.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Restored {
    /// The file.
    file: String,
    /// The folder.
    folder: String,
    /// True if nothing was made.
    is_dry: bool,
    #[serde(flatten)]
    content: Content,
}

impl Answer for Restored {
    const FORMAT: &'static str = "sekisho/agents-restore/1";
}

fn content(backed: &Backed) -> Content {
    let taken = UNIX_EPOCH + Duration::from_nanos(backed.taken_ns);
    let partitions = backed.partitions.iter().map(|of| PartitionContent {
        partition: of.id,
        epoch: of.epoch,
        version: of.version,
        position: of.position,
        handled: of.handled,
    });
    Content {
        taken: humantime::format_rfc3339_millis(taken).to_string(),
        size_bytes: backed.bytes,
        partitions: partitions.collect(),
        agents: backed.agents,
        messages: backed.messages,
        notifications: backed.notifications,
        timers: backed.timers,
        dead: backed.dead,
    }
}

impl Content {
    /// Lines for a person.
    fn text(&self) -> String {
        let rest = [
            count(self.messages, "kept message"),
            count(self.notifications, "notification"),
            count(self.timers, "timer"),
            count(self.dead, "dead letter"),
        ];
        let partitions = count(self.partitions.len() as u64, "partition");
        paragraph(&format!("as of {}: {partitions}, {}", self.taken, rest.join(", ")))
    }
}

pub(crate) fn backup(args: &BackupArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let name = args.file.display().to_string();
    let wrong = |error: io::Error| Failure::Machine(format!("{name}: {error}"));
    if args.file.exists() {
        return Err(Failure::Usage(format!("{name} is there already: name another file")));
    }
    let part = part(&args.file);
    let client = Client::without_haste(&args.server)?;
    let written = File::create(&part).map_err(wrong).and_then(|file| {
        let mut file = io::BufWriter::with_capacity(1 << 20, file);
        client.copy("/backup", &mut file, &wrong)?;
        let file = file.into_inner().map_err(|error| wrong(error.into_error()))?;
        file.sync_all().map_err(wrong)?;
        check_backup(&part).map_err(failed)
    });
    // A part of a backup would look like one.
    let backed = written.inspect_err(|_| drop(fs::remove_file(&part)))?;
    fs::rename(&part, &args.file).map_err(wrong)?;
    let parent = args.file.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new("."))).and_then(|it| it.sync_all()).map_err(wrong)?;
    let content = content(&backed);
    let text = match args.server.json {
        true => {
            let told = BackedUp { file: name, content };
            cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &told)
        }
        false => {
            let (agents, size) = (count(backed.agents, "agent"), bytes(backed.bytes));
            let file = shell_word(&args.file);
            sentence(&format!("{name}: {agents} written, {size}, and read again: it is whole"))
                + &content.text()
                + &next(&format!("sekisho agents restore {file} --store restored --dry-run"))
        }
    };
    say(out, &text)?;
    Ok(Verdict::Holds)
}

/// The name of a backup that is not whole yet. One that was left by a process that was killed is written over.
fn part(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn failed(error: StoreError) -> Failure {
    match error {
        StoreError::Unusable { .. } => Failure::usage(error),
        StoreError::Unavailable { .. } | StoreError::Full { .. } => Failure::machine(error),
    }
}

pub(crate) fn run_restore(args: &RestoreArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let backed = match args.dry_run {
        true => check_restore(&args.store).and_then(|()| check_backup(&args.file)),
        false => restore(&args.file, &args.store, EmbeddedSpec::default()),
    };
    let backed = backed.map_err(failed)?;
    let content = content(&backed);
    let (file, folder) = (args.file.display().to_string(), args.store.display().to_string());
    let text = match args.json {
        true => {
            let told = Restored { file, folder, is_dry: args.dry_run, content };
            cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &told)
        }
        false => {
            let done = if args.dry_run { "would be restored; nothing is made" } else { "restored" };
            let store = shell_word(&args.store);
            let command = match args.dry_run {
                true => {
                    format!("sekisho agents restore {} --store {store}", shell_word(&args.file))
                }
                false => format!(
                    "sekisho agents serve rules.toml --store {store} --partitions {}",
                    backed.partitions.len()
                ),
            };
            sentence(&format!("{folder}: {} {done}", count(backed.agents, "agent")))
                + &content.text()
                + &next(&command)
        }
    };
    say(out, &text)?;
    Ok(Verdict::Holds)
}
