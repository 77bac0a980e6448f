//! `jungle import`: documents with their blobs out of a file of JSON, a file of lines, or a folder.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use cli::request::{path, query};
use cli::text::{bytes, quoted};
use cli::{Failure, Verdict};
use jungle_server::{CommittedAnswer, NodeAnswer};
use serde_json::{Value, json};

use crate::blob::place;
use crate::client::{Answered, AuthorArgs, Client, ServerArgs, Wish};
use crate::folder::{self, BlobFile, parsed};
use crate::package::{Piece, Unpacked, is_packed, unpacked};
use crate::shown::{committed, refused};

/// The most bytes of a file that is imported \[B\].
const FILE_MAX: u64 = 1 << 30;
/// The longest line that is imported \[B\], but for a package: a server takes no longer body, unless it is told to.
const LINE_MAX: u64 = 8 << 20;

/// Make nodes of a JSON document, of each line of a file, or of a folder
///
/// A folder becomes one document: an object with a member for each folder and file. A file `*.json` is its value,
/// another its text, or {"base64": "..."} where it is no UTF-8. What `export` has written comes with its blobs, and is
/// looked through before anything is made.
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

/// The source of an import.
enum Source {
    Whole(Document),
    /// A file with a document on each line.
    Lines(File),
}

/// A document with its blobs.
struct Document {
    value: Value,
    blobs: Vec<Beside>,
}

/// The bytes of a blob.
enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// A blob, and where it belongs.
struct Beside {
    at: String,
    name: String,
    content: Content,
}

impl From<Unpacked> for Beside {
    fn from(blob: Unpacked) -> Self {
        Self { at: blob.at, name: blob.name, content: Content::Bytes(blob.bytes) }
    }
}

impl From<BlobFile> for Beside {
    fn from(blob: BlobFile) -> Self {
        Self { at: blob.at, name: blob.name, content: Content::File(blob.path) }
    }
}

fn read_error(file: &Path) -> impl Fn(io::Error) -> Failure {
    let file = file.display().to_string();
    move |error| Failure::Usage(format!("{file}: {error}"))
}

pub(crate) fn import(args: &ImportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    // Read, or looked through at least, before anything is made.
    let source = source(args)?;
    let tree = path(&["trees", &args.tree]);
    let created = client.bytes(&Wish::of("PUT", tree, &json!({})).by(&args.author))?;
    // One that is there is what is wanted too.
    if let Answered::Refused(problem) = created
        && problem.status != 409
    {
        return refused(out, args.server.json, &problem);
    }
    let then = Some(format!("sekisho jungle get {}", quoted(&args.tree)));
    let insert = |document| inserted(&client, args, document);
    let answered = match source {
        Source::Whole(document) => insert(document)?,
        Source::Lines(file) => lines(&args.file, file, insert)?,
    };
    committed(out, &args.server, &answered, |_| then)
}

fn source(args: &ImportArgs) -> Result<Source, Failure> {
    let file = &args.file;
    let wrong = |cause: String| Failure::Usage(format!("{}: {cause}", file.display()));
    if file.is_dir() {
        if args.lines {
            return Err(wrong("a folder has no lines; leave out --lines".to_owned()));
        }
        let value = folder::document(file, FILE_MAX)?;
        let blobs = folder::blobs(file, &value)?.into_iter().map(Beside::from).collect();
        return Ok(Source::Whole(Document { value, blobs }));
    }
    if args.lines {
        let mut opened = File::open(file).map_err(read_error(file))?;
        looked_through(file, &opened)?;
        io::Seek::rewind(&mut opened).map_err(read_error(file))?;
        return Ok(Source::Lines(opened));
    }
    let many = || wrong(format!("it is larger than {}; import it in parts", bytes(FILE_MAX)));
    let text = folder::bytes_within(file, FILE_MAX).map_err(read_error(file))?.ok_or_else(many)?;
    let value = parsed(&text, 0, || file.display().to_string())?;
    match unpacked(value).map_err(wrong)? {
        Piece::Head(_) => Err(wrong("it has a document on each line; say --lines".to_owned())),
        Piece::Document { document: value, blobs } => {
            let blobs = blobs.into_iter().map(Beside::from).collect();
            Ok(Source::Whole(Document { value, blobs }))
        }
    }
}

/// Inserts a document and stores its blobs; one that does not come whole is taken away again.
fn inserted(
    client: &Client,
    args: &ImportArgs,
    document: Document,
) -> Result<Answered<CommittedAnswer>, Failure> {
    let children = path(&["trees", &args.tree, "nodes", &args.parent, "children"]);
    let wish = Wish::of("POST", children, &json!({"json": document.value})).by(&args.author);
    let done: CommittedAnswer = match client.ask(&wish)? {
        Answered::Done(done) => done,
        refused @ Answered::Refused(_) => return Ok(refused),
    };
    let Some(made) = done.made.first() else { return Ok(Answered::Done(done)) };
    for blob in document.blobs {
        let (name, at) = (blob.name.clone(), blob.at.clone());
        let cause = match stored(client, args, made, blob) {
            Ok(Answered::Done(_)) => continue,
            Ok(Answered::Refused(problem)) => problem.detail.to_string(),
            Err(Failure::Usage(cause) | Failure::Machine(cause)) => cause,
            Err(other) => return Err(other),
        };
        let node = path(&["trees", &args.tree, "nodes", made]);
        let removed = client.bytes(&Wish::bare("DELETE", node).by(&args.author));
        let left = match removed {
            Ok(Answered::Done(_)) => "the document was taken away again".to_owned(),
            _ => format!("node {made} is there without all of its blobs; remove it"),
        };
        let cause = cause.trim_end_matches('.');
        return Err(Failure::Usage(format!(
            "blob `{name}` at `{at}` is not stored: {cause}; {left}"
        )));
    }
    Ok(Answered::Done(done))
}

/// Stores a blob beside a node of a document.
fn stored(
    client: &Client,
    args: &ImportArgs,
    document: &str,
    blob: Beside,
) -> Result<Answered<CommittedAnswer>, Failure> {
    let mut node = document.to_owned();
    if !blob.at.is_empty() {
        let parts = query(&[("depth", Some("0".into())), ("pointer", Some(blob.at))]);
        let wish = Wish::get(path(&["trees", &args.tree, "nodes", document]) + &parts);
        match client.ask::<NodeAnswer>(&wish)? {
            Answered::Done(found) => node = found.node.id,
            Answered::Refused(problem) => return Ok(Answered::Refused(problem)),
        }
    }
    let mut wish = Wish::bare("PUT", place((&args.tree, &node), &blob.name));
    wish.headers.push(("content-type", "application/octet-stream".to_owned()));
    // A server that refuses it says so before it is sent.
    wish.headers.push(("expect", "100-continue".to_owned()));
    match blob.content {
        Content::Bytes(bytes) => wish.body = Some(bytes),
        Content::File(file) => {
            let opened = File::open(&file).map_err(read_error(&file))?;
            let length = opened.metadata().map_err(read_error(&file))?.len();
            wish.file = Some((opened, length));
        }
    }
    client.ask(&wish.by(&args.author))
}

/// Inserts the document of each line, up to the first that is refused; the answer is the last one.
fn lines(
    path: &Path,
    file: File,
    insert: impl Fn(Document) -> Result<Answered<CommittedAnswer>, Failure>,
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
        let document = match piece(&text, place) {
            Ok(Piece::Head(_)) if number == 1 => continue,
            Ok(Piece::Head(_)) => {
                let cause = "another export begins here; import them one by one";
                return Err(Failure::Usage(stopped(format!("{}: {cause}", place()))));
            }
            Ok(Piece::Document { document: value, blobs }) => {
                Document { value, blobs: blobs.into_iter().map(Beside::from).collect() }
            }
            Err(Failure::Usage(cause)) => return Err(Failure::Usage(stopped(cause))),
            Err(other) => return Err(other),
        };
        match insert(document) {
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
    reader: &mut BufReader<impl Read>,
    place: impl Fn() -> String,
) -> Result<Option<Vec<u8>>, String> {
    let mut text = Vec::new();
    let told = |error| format!("{}: {error}", place());
    if reader.take(LINE_MAX + 1).read_until(b'\n', &mut text).map_err(told)? == 0 {
        return Ok(None);
    }
    let is_longer = |text: &[u8], most| text.len() as u64 > most && !text.ends_with(b"\n");
    // The blobs of a package are no part of the document that a server takes.
    if is_longer(&text, LINE_MAX) && is_packed(&text) {
        let rest = FILE_MAX - text.len() as u64;
        reader.take(rest + 1).read_until(b'\n', &mut text).map_err(told)?;
        if !is_longer(&text, FILE_MAX) {
            return Ok(Some(text));
        }
    }
    // With its end it may be a byte longer.
    if is_longer(&text, LINE_MAX) {
        let most = bytes(LINE_MAX);
        return Err(format!("{}: it is longer than {most}; import it as a file", place()));
    }
    Ok(Some(text))
}

/// Looks through a file of lines whose first says how many follow, before anything is made: all of it is there.
fn looked_through(path: &Path, file: &File) -> Result<(), Failure> {
    let mut reader = BufReader::new(file);
    let place = |number: u64| format!("{}, line {number}", path.display());
    let wrong = |cause: String| Failure::Usage(format!("{cause}; nothing is imported"));
    let (mut documents, mut found) = (None, 0);
    for number in 1.. {
        let Some(text) = next_line(&mut reader, || place(number)).map_err(wrong)? else { break };
        if number > 1 && text.trim_ascii().is_empty() {
            continue;
        }
        if number == 1 && !is_packed(&text) {
            return Ok(());
        }
        match piece(&text, || place(number)) {
            Ok(Piece::Head(count)) if number == 1 => documents = Some(count),
            // Each is whole by itself: the rest of a file.
            Ok(_) if documents.is_none() => return Ok(()),
            Ok(_) => found += 1,
            Err(Failure::Usage(cause)) => return Err(wrong(cause)),
            Err(other) => return Err(other),
        }
    }
    match documents {
        Some(documents) if documents != found => Err(wrong(format!(
            "{}: it has {found} documents, and its first line says {documents}; export it again",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// The piece of a line.
fn piece(text: &[u8], place: impl Fn() -> String) -> Result<Piece, Failure> {
    let value = parsed(text, 0, &place)?;
    unpacked(value).map_err(|cause| Failure::Usage(format!("{}: {cause}", place())))
}
