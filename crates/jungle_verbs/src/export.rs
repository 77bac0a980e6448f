//! `jungle export`: documents with their blobs into a file of JSON, a file of lines, or a folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use cli::request::{path, query};
use cli::text::{bytes, count};
use cli::{Failure, Verdict};
use jungle_server::{DocumentBlobView, ExportAnswer, NodeAnswer, Problem};

use crate::answer::Exported;
use crate::blob::{beside, write};
use crate::client::{Answered, Client, ServerArgs, Wish};
use crate::folder;
use crate::package::{PackedBlob, head, is_packed, packed, same};
use crate::shown::{done, line, refused};

/// The most bytes of blobs that go into one piece of JSON \[B\].
const PACKED_MAX: u64 = 512 << 20;
/// The children that are asked for at once.
const PAGE: usize = 1_000;

/// Write a node that was made of JSON as JSON, with its blobs
///
/// A document with blobs is written as a package: {"$jungle": "document/1", "document": ..., "blobs": [...]} with the
/// bytes of the blobs in base64. In a folder they are files in `$jungle`. `import` reads all of it back.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho jungle export site -1,0 --out site.json")]
pub(crate) struct ExportArgs {
    /// The tree
    tree: String,
    /// The node of the document; left out, -1,0, and with --lines the root
    #[arg(allow_hyphen_values = true)]
    node: Option<String>,
    /// The file or folder, which is a new one; left out, standard output
    #[arg(long, value_name = "PATH", required_if_eq_any([("json", "true"), ("lines", "true"), ("folder", "true")]))]
    out: Option<PathBuf>,
    /// Each child of the node is a document on a line of its own
    #[arg(long)]
    lines: bool,
    /// Objects become folders and texts files, as `import` makes a document of a folder
    #[arg(long, conflicts_with = "lines")]
    folder: bool,
    /// The version, a commit or a moment
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// What stopped an export: a refusal of the server, or a failure.
enum Stopped {
    Refused(Problem),
    Failed(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

fn wrong(file: &Path) -> impl Fn(io::Error) -> Stopped {
    let file = file.display().to_string();
    move |error| Stopped::Failed(Failure::Machine(format!("{file}: {error}")))
}

fn answered<T>(answered: Answered<T>) -> Result<T, Stopped> {
    match answered {
        Answered::Refused(problem) => Err(Stopped::Refused(problem)),
        Answered::Done(done) => Ok(done),
    }
}

/// Counts of what was written.
#[derive(Default)]
struct Written {
    documents: u64,
    blobs: u64,
    bytes: u64,
}

/// A way to the tree that is exported.
struct Source<'a> {
    client: &'a Client,
    tree: &'a str,
}

impl Source<'_> {
    /// A document and the names of its blobs.
    fn document(&self, node: &str, at: Option<String>) -> Result<ExportAnswer, Stopped> {
        let parts = query(&[("as", Some("export".into())), ("at", at)]);
        let wish = Wish::get(path(&["trees", self.tree, "nodes", node]) + &parts);
        answered(self.client.ask(&wish)?)
    }

    /// A blob at a version, which is read to its end.
    fn blob(&self, blob: &DocumentBlobView, seq: u64) -> Result<impl Read + use<>, Stopped> {
        let place = path(&["trees", self.tree, "nodes", &blob.node, "blobs", &blob.name]);
        let wish = Wish::get(place + &query(&[("at", Some(seq.to_string()))]));
        let response = self.client.send(&wish)?;
        if response.status().as_u16() == 200 {
            return Ok(response.into_body().into_reader());
        }
        answered(self.client.read(response)?)?;
        Err(Failure::Usage(format!("{}: no blob came", blob.name)).into())
    }

    /// A document with its blobs as a text.
    fn packed(&self, answer: ExportAnswer) -> Result<String, Stopped> {
        let all: u64 = answer.blobs.iter().map(|blob| blob.bytes).sum();
        if all > PACKED_MAX {
            let most = bytes(PACKED_MAX);
            return Err(Failure::Usage(format!(
                "the blobs of the document have {}, and {most} go into JSON at most; export a folder \
                 (--folder), or copy the whole database (`sekisho jungle backup`)",
                bytes(all)
            ))
            .into());
        }
        let mut blobs = Vec::new();
        for blob in &answer.blobs {
            let mut bytes = Vec::new();
            let cut = |cause: String| {
                let (name, at) = (&blob.name, &blob.at);
                Failure::Machine(format!(
                    "blob `{name}` at `{at}`: {cause}; ask again, or `verify` the directory"
                ))
            };
            let mut body = self.blob(blob, answer.seq)?;
            body.read_to_end(&mut bytes).map_err(|error| cut(error.to_string()))?;
            same(&bytes, &blob.sha256).map_err(cut)?;
            blobs.push(PackedBlob::of(&blob.at, &blob.name, &blob.sha256, &bytes));
        }
        Ok(packed(answer.document, blobs))
    }
}

pub(crate) fn export(args: &ExportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let source = Source { client: &client, tree: &args.tree };
    match exported(args, &source, out) {
        Err(Stopped::Refused(problem)) => refused(out, args.server.json, &problem),
        Err(Stopped::Failed(failure)) => Err(failure),
        Ok(None) => Ok(Verdict::Holds),
        Ok(Some((file, written))) => {
            let Written { documents, blobs, bytes: size_bytes } = written;
            let answer = Exported { file: file.clone(), size_bytes, documents, blobs };
            done(out, args.server.json, &answer, || {
                let of = match (args.lines, blobs) {
                    (false, 0) => String::new(),
                    (false, _) => format!(", {}", count(blobs, "blob")),
                    (true, _) => {
                        format!(", {}, {}", count(documents, "document"), count(blobs, "blob"))
                    }
                };
                line(&format!("wrote {}, {}{of}", file.display(), bytes(size_bytes)))
            })
        }
    }
}

fn exported(
    args: &ExportArgs,
    source: &Source<'_>,
    out: &mut dyn Write,
) -> Result<Option<(PathBuf, Written)>, Stopped> {
    let node = args.node.as_deref().unwrap_or(if args.lines { "root" } else { "-1,0" });
    let Some(target) = &args.out else {
        let text = source.packed(source.document(node, args.at.clone())?)?;
        out.write_all(text.as_bytes()).map_err(Failure::machine)?;
        return Ok(None);
    };
    let part = beside(target);
    let written = if args.folder {
        if target.exists() {
            let there = "is there already; name a folder that is not";
            return Err(Failure::Usage(format!("{}: {there}", target.display())).into());
        }
        into_folder(source, source.document(node, args.at.clone())?, &part)
    } else if args.lines {
        into_lines(source, node, args.at.clone(), &part)
    } else {
        into_file(source, source.document(node, args.at.clone())?, &part)
    };
    let written = written.and_then(|written| {
        fs::rename(&part, target).map_err(wrong(target))?;
        Ok(written)
    });
    if written.is_err() {
        // Nobody takes a part for the whole.
        drop(if args.folder { fs::remove_dir_all(&part) } else { fs::remove_file(&part) });
    }
    Ok(Some((target.clone(), written?)))
}

fn into_file(source: &Source<'_>, answer: ExportAnswer, part: &Path) -> Result<Written, Stopped> {
    let blobs = answer.blobs.len() as u64;
    let text = source.packed(answer)?;
    fs::write(part, &text).map_err(wrong(part))?;
    Ok(Written { documents: 1, blobs, bytes: text.len() as u64 })
}

/// Writes the document of each child on a line.
fn into_lines(
    source: &Source<'_>,
    node: &str,
    mut at: Option<String>,
    part: &Path,
) -> Result<Written, Stopped> {
    let body = beside(part);
    let told = wrong(&body);
    let (mut file, mut written) =
        (BufWriter::new(File::create(&body).map_err(&told)?), Written::default());
    let (mut offset, mut has_packages) = (0, false);
    let mut lines = || -> Result<(), Stopped> {
        loop {
            let parts = query(&[
                ("at", at.clone()),
                ("offset", Some(offset.to_string())),
                ("limit", Some(PAGE.to_string())),
            ]);
            let wish = Wish::get(path(&["trees", source.tree, "nodes", node]) + &parts);
            let page: NodeAnswer = answered(source.client.ask(&wish)?)?;
            // All of it is of one version.
            at = Some(page.seq.to_string());
            for child in &page.node.nodes {
                let answer = source.document(&child.id, at.clone())?;
                written.blobs += answer.blobs.len() as u64;
                written.documents += 1;
                let text = source.packed(answer)?;
                has_packages |= is_packed(text.as_bytes());
                written.bytes += text.len() as u64 + 1;
                writeln!(file, "{text}").map_err(&told)?;
            }
            match page.node.next_offset {
                Some(next) => offset = next,
                None => return file.flush().map_err(&told),
            }
        }
    };
    let done = lines().and_then(|()| {
        if !has_packages {
            return fs::rename(&body, part).map_err(wrong(part));
        }
        let first = head(written.documents) + "\n";
        written.bytes += first.len() as u64;
        let mut whole = File::create(part).map_err(wrong(part))?;
        whole.write_all(first.as_bytes()).map_err(wrong(part))?;
        io::copy(&mut File::open(&body).map_err(&told)?, &mut whole).map_err(wrong(part))?;
        fs::remove_file(&body).map_err(&told)
    });
    if done.is_err() {
        drop(fs::remove_file(&body));
    }
    done.map(|()| written)
}

fn into_folder(source: &Source<'_>, answer: ExportAnswer, part: &Path) -> Result<Written, Stopped> {
    let mut bytes = folder::written(&answer.document, part)?;
    if !answer.blobs.is_empty() {
        let blobs = folder::blobs_folder(part);
        fs::create_dir(&blobs).map_err(wrong(&blobs))?;
        for blob in &answer.blobs {
            let file = blobs.join(&blob.sha256);
            if !file.exists() {
                let mut body = source.blob(blob, answer.seq)?;
                bytes += write(&mut body, &file, &blob.sha256).map_err(Failure::Machine)?;
            }
        }
        bytes += folder::listed(&answer, part)?;
    }
    Ok(Written { documents: 1, blobs: answer.blobs.len() as u64, bytes })
}
