//! Verbs of whole databases and documents: snapshot, backup, verify, import, export, stats.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use cli::request::{path, query};
use cli::text::{bytes, count, next, paragraph, quoted, shell_word};
use cli::{Failure, Verdict, say};
use jungle::BlobId;
use jungle_server::{CommittedAnswer, SeqAnswer, Stats, backed_up};
use serde_json::{Value, json};

use crate::answer::{BackedUp, Counts, Exported, LookedThrough, SnapshotTaken};
use crate::client::{Answered, AuthorArgs, Client, ServerArgs, Wish};
use crate::folder::{self, parsed};
use crate::shown::{committed, done, line, refused};

/// The most bytes of a file that is imported \[B\].
const FILE_MAX: u64 = 1 << 30;
/// The longest line that is imported \[B\]: a server takes no longer body, unless it is told to.
const LINE_MAX: u64 = 8 << 20;

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

/// Make nodes of a JSON document, of each line of a file, or of a folder
///
/// A folder becomes one document: an object with a member for each folder and file. A file `*.json` is its value,
/// another its text, or {"base64": "..."} where it is no UTF-8.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle import notes site.json")]
pub(crate) struct ImportArgs {
    /// The tree; it is created if it is not there
    tree: String,
    /// The file, JSON; with --lines a value on each line; or a folder
    file: PathBuf,
    /// The parent of what is made
    #[arg(long, value_name = "NODE", default_value = "root")]
    parent: String,
    /// Each line of the file is a document
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Write a node that was made of JSON as JSON
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle export site -1,0 --out site.json")]
pub(crate) struct ExportArgs {
    /// The tree
    tree: String,
    /// The node of the document, such as -1,0
    #[arg(default_value = "-1,0", allow_hyphen_values = true)]
    node: String,
    /// The file; left out, standard output
    #[arg(long, value_name = "FILE", required_if_eq("json", "true"))]
    out: Option<PathBuf>,
    /// The version, a commit or a moment
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
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

fn read_error(file: &Path) -> impl Fn(std::io::Error) -> Failure {
    let file = file.display().to_string();
    move |error| Failure::Usage(format!("{file}: {error}"))
}

pub(crate) fn import(args: &ImportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let is_folder = args.file.is_dir();
    if is_folder && args.lines {
        let both = format!("{}: a folder has no lines; leave out --lines", args.file.display());
        return Err(Failure::Usage(both));
    }
    // Read, or opened at least, before anything is made.
    let source = match (is_folder, args.lines) {
        (true, _) => Source::Whole(folder::document(&args.file, FILE_MAX)?),
        (false, false) => Source::Whole(document(&args.file)?),
        (false, true) => Source::Lines(File::open(&args.file).map_err(read_error(&args.file))?),
    };
    let place = path(&["trees", &args.tree]);
    let created = client.bytes(&Wish::of("PUT", place.clone(), &json!({})).by(&args.author))?;
    // One that is there is what is wanted too.
    if let Answered::Refused(problem) = created
        && problem.status != 409
    {
        return refused(out, args.server.json, &problem);
    }
    let place = path(&["trees", &args.tree, "nodes", &args.parent, "children"]);
    let then = Some(format!("sekisho jungle get {}", quoted(&args.tree)));
    let insert = |value: Value| {
        client.ask(&Wish::of("POST", place.clone(), &json!({"json": value})).by(&args.author))
    };
    let answered = match source {
        Source::Whole(value) => insert(value)?,
        Source::Lines(file) => lines(&args.file, file, insert)?,
    };
    committed(out, &args.server, &answered, |_| then)
}

/// The source of an import.
enum Source {
    Whole(Value),
    /// A file with a document on each line.
    Lines(File),
}

/// Inserts the document of each line, up to the first that is refused; the answer is the last one.
fn lines(
    path: &Path,
    file: File,
    insert: impl Fn(Value) -> Result<Answered<CommittedAnswer>, Failure>,
) -> Result<Answered<CommittedAnswer>, Failure> {
    let mut reader = BufReader::new(file);
    let (mut last, mut committed) = (None, None);
    for number in 1_usize.. {
        let place = || format!("{}, line {number}", path.display());
        // Each line is a commit, so that those before one that is wrong are there.
        let stopped = |cause: String| match committed {
            None => format!("{cause}; nothing is imported"),
            Some(to) => format!(
                "{cause}; up to line {to} all is imported: import the rest, from `tail -n +{} {}`",
                to + 1,
                path.display()
            ),
        };
        let text = match next_line(&mut reader, place) {
            Ok(Some(text)) => text,
            Ok(None) => break,
            Err(cause) => return Err(Failure::Usage(stopped(cause))),
        };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let value = parsed(&text, 0, place).map_err(|failure| match failure {
            Failure::Usage(cause) => Failure::Usage(stopped(cause)),
            other => other,
        })?;
        match insert(value) {
            Ok(Answered::Refused(mut problem)) => {
                problem.detail = stopped(format!("{}: {}", place(), problem.detail)).into();
                return Ok(Answered::Refused(problem));
            }
            Ok(answered) => (last, committed) = (Some(answered), Some(number)),
            // Of this line itself it is not known.
            Err(Failure::Usage(cause)) => {
                return Err(Failure::Usage(stopped(format!("{}: {cause}", place()))));
            }
            Err(Failure::Machine(cause)) => {
                return Err(Failure::Machine(stopped(format!("{}: {cause}", place()))));
            }
            Err(other) => return Err(other),
        }
    }
    last.ok_or_else(|| Failure::Usage(format!("{}: it has no lines", path.display())))
}

/// The next line of a file; none at its end.
fn next_line(
    reader: &mut BufReader<File>,
    place: impl Fn() -> String,
) -> Result<Option<Vec<u8>>, String> {
    let mut text = Vec::new();
    let read = reader.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut text);
    if read.map_err(|error| format!("{}: {error}", place()))? == 0 {
        return Ok(None);
    }
    // With its end it may be a byte longer.
    if text.len() as u64 > LINE_MAX && !text.ends_with(b"\n") {
        let most = bytes(LINE_MAX);
        return Err(format!("{}: it is longer than {most}; import it as a file", place()));
    }
    Ok(Some(text))
}

/// The document of a file.
fn document(file: &Path) -> Result<Value, Failure> {
    let many = || {
        let most = bytes(FILE_MAX);
        Failure::Usage(format!("{}: it is larger than {most}; import it in parts", file.display()))
    };
    let text = folder::bytes_within(file, FILE_MAX).map_err(read_error(file))?.ok_or_else(many)?;
    parsed(&text, 0, || file.display().to_string())
}

pub(crate) fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let parts = query(&[("as", Some("json".into())), ("at", args.at.clone())]);
    let wish = Wish::get(path(&["trees", &args.tree, "nodes", &args.node]) + &parts);
    let document = match client.bytes(&wish)? {
        Answered::Refused(problem) => return refused(out, args.server.json, &problem),
        Answered::Done(document) => document,
    };
    let Some(file) = &args.out else {
        out.write_all(&document).map_err(Failure::machine)?;
        return Ok(Verdict::Holds);
    };
    let write = |error| Failure::Machine(format!("{}: {error}", file.display()));
    fs::write(file, &document).map_err(write)?;
    let size_bytes = document.len() as u64;
    done(out, args.server.json, &Exported { file: file.clone(), size_bytes }, || {
        line(&format!("wrote {}, {}", file.display(), bytes(size_bytes)))
    })
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
