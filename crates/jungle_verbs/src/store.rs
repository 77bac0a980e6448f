//! Verbs of whole databases: snapshot, backup, verify, stats.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use cli::request::path;
use cli::text::{bytes, count, next, paragraph, shell_word};
use cli::{Failure, Verdict, say};
use jungle::BlobId;
use jungle_server::{SeqAnswer, Stats, backed_up};
use serde_json::json;

use crate::answer::{BackedUp, Counts, LookedThrough, SnapshotTaken};
use crate::client::{Answered, Client, ServerArgs, Wish};
use crate::shown::{done, line, refused};

/// Write a snapshot, with which the next start begins
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle snapshot")]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    server: ServerArgs,
}

/// Copy the whole database into a new directory, while commits go on
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle backup ./copy")]
pub(crate) struct BackupArgs {
    /// The directory, a new one; `serve` starts from it
    directory: PathBuf,
    #[command(flatten)]
    server: ServerArgs,
}

/// Look through a directory that no server has, and name what is broken
///
/// Nothing is changed. What is broken ends with exit code 3.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle verify ./copy")]
pub(crate) struct VerifyArgs {
    /// The directory
    directory: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Show how much there is, of the present and of the past
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle stats")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn snapshot(args: &SnapshotArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let taken: SeqAnswer = match client.ask(&Wish::bare("POST", "/snapshot".into()))? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(taken) => taken,
    };
    done(out, args.server.json, &SnapshotTaken(&taken), || {
        format!("snapshot of commit {}\n", taken.seq)
    })
}

pub(crate) fn backup(args: &BackupArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let stats: Stats = match client.ask(&Wish::get("/stats".into()))? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(stats) => stats,
    };
    // Its blobs must stay until all of them are copied.
    let hold = Hold::of(&client, stats.seq)?;
    let response = client.send(&Wish::get(format!("/backup?at={}", stats.seq)))?;
    let token = response.headers().get("jungle-token").and_then(|token| token.to_str().ok());
    let seq = token.and_then(|token| token.split_once('.')?.1.parse().ok());
    let (200, Some(seq)) = (response.status().as_u16(), seq) else {
        return Err(Failure::Usage(format!("{}: no backup can be made there", args.server.server)));
    };
    let mut body = hold.reading(response.into_body().into_reader());
    let blob = |id: BlobId| {
        let response = client.send(&Wish::get(format!("/blobs/{id}"))).map_err(|_| "no answer")?;
        match response.status().as_u16() {
            200 => Ok(hold.reading(response.into_body().into_reader())),
            _ => Err("the server does not give it"),
        }
    };
    let size_bytes = backed_up(&args.directory, seq, &mut body, blob).map_err(Failure::usage)?;
    hold.let_go()?;
    let folder = args.directory.clone();
    done(out, args.server.json, &BackedUp { folder, seq, size_bytes }, || {
        let place = shell_word(&args.directory);
        let head =
            format!("copied commit {seq}, {}, and read it again: it is whole\n", bytes(size_bytes));
        head + &next(&format!("sekisho jungle verify {place}"))
    })
}

/// The time for which a version is kept if the backup is killed \[s\].
const LEASE_S: u32 = 600;
/// The time after which its lease begins anew.
const RENEWED: Duration = Duration::from_secs(60);

/// A version that is kept for so long.
struct Hold<'a> {
    client: &'a Client,
    name: String,
    seq: u64,
    begun: Cell<Instant>,
}

impl<'a> Hold<'a> {
    fn of(client: &'a Client, seq: u64) -> Result<Self, Failure> {
        let name = format!("backup-{seq}-{}", std::process::id());
        let hold = Self { client, name, seq, begun: Cell::new(Instant::now()) };
        hold.renew()?;
        Ok(hold)
    }

    /// Begins its lease, or begins it anew.
    fn renew(&self) -> Result<(), Failure> {
        let wish = json!({"seq": self.seq, "lease_s": LEASE_S});
        let wish = Wish::of("PUT", path(&["holds", &self.name]), &wish);
        self.begun.set(Instant::now());
        match self.client.bytes(&wish)? {
            Answered::Refused(problem) => Err(Failure::Usage(problem.detail.into())),
            Answered::Done(_) => Ok(()),
        }
    }

    /// A reader of what is copied, which begins the lease anew now and then.
    fn reading<R: Read>(&self, reader: R) -> Leased<'_, R> {
        Leased { reader, hold: self }
    }

    fn release(&self) -> Result<(), Failure> {
        self.client.bytes(&Wish::bare("DELETE", path(&["holds", &self.name]))).map(drop)
    }

    fn let_go(self) -> Result<(), Failure> {
        let done = self.release();
        std::mem::forget(self);
        done
    }
}

struct Leased<'a, R> {
    reader: R,
    hold: &'a Hold<'a>,
}

impl<R: Read> Read for Leased<'_, R> {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        if self.hold.begun.get().elapsed() > RENEWED {
            self.hold.renew().map_err(|error| io::Error::other(error.to_string()))?;
        }
        self.reader.read(part)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // A backup that failed is told by its own cause.
        drop(self.release());
    }
}

pub(crate) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let found = jungle_server::verify(&args.directory).map_err(Failure::usage)?;
    let verdict = if found.broken.is_empty() { Verdict::Holds } else { Verdict::Fails };
    let text = if args.json {
        cli::json::answer(verdict, verdict.word(), &LookedThrough(&found))
    } else {
        let mut text = match found.seq {
            Some(seq) if found.broken.is_empty() => {
                format!("holds: commit {seq} can be read whole\n")
            }
            Some(seq) => format!("fails: commit {seq} can be read, and something else is broken\n"),
            None => "fails: the database cannot be read whole\n".to_owned(),
        };
        for broken in &found.broken {
            text.push_str(&paragraph(&format!("broken: {broken}")));
        }
        if let Some(torn) = &found.torn {
            text.push_str(&paragraph(&format!("torn by a crash, nobody was promised it: {torn}")));
        }
        let (entries, snapshots) = (found.entries, found.snapshots.len());
        let blobs = found.blobs;
        text.push_str(&format!(
            "  read: entries of the log: {entries}, snapshots: {snapshots}, blobs: {blobs}\n"
        ));
        if let Some(hash) = &found.hash {
            text.push_str(&line(&format!("  hash: {hash}")));
        }
        text
    };
    say(out, &text)?;
    Ok(verdict)
}

pub(crate) fn stats(args: &StatsArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let stats: Stats = match client.ask(&Wish::get("/stats".into()))? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(stats) => stats,
    };
    done(out, args.server.json, &Counts(&stats), || {
        let mut text = format!("commit {}, durability {}\n", stats.seq, stats.durability);
        text.push_str(&format!(
            "  present: {} in {}\n",
            count(stats.nodes, "node"),
            count(stats.trees, "tree")
        ));
        let oldest = stats.oldest_version.unwrap_or(stats.seq);
        text.push_str(&format!(
            "  past: {} from commit {oldest} on, {} thinned\n",
            count(stats.versions, "version"),
            stats.versions_freed
        ));
        let remembered =
            stats.oldest_commit.map_or("none".into(), |oldest| format!("from {oldest} on"));
        text.push_str(&format!(
            "  commits remembered: {remembered}, {}\n",
            bytes(stats.commits_bytes)
        ));
        text.push_str(&format!("  directory: {}\n", bytes(stats.disk_bytes)));
        text.push_str(&format!(
            "  since the start: {}, {} rejected, {} turned away\n",
            count(stats.commits, "commit"),
            stats.rejected,
            stats.busy
        ));
        if let Some(failed) = &stats.failed {
            text.push_str(&paragraph(&format!("nothing is committed any more: {failed}")));
        }
        text
    })
}
