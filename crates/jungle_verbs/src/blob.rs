//! Blobs: bytes of any length beside a node, from a file and into one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cli::request::{path, query};
use cli::text::bytes;
use cli::{Failure, Verdict};
use jungle::BlobHash;
use jungle_server::CommittedAnswer;

use crate::answer::BlobWritten;
use crate::client::{Answered, Client, ServerArgs, Wish};
use crate::edit::PutArgs;
use crate::shown::{done, line, refused};

pub(crate) fn place((tree, node): (&str, &str), name: &str) -> String {
    path(&["trees", tree, "nodes", node, "blobs", name])
}

/// Sends a file, written NAME=FILE, as the blob of that name.
pub(crate) fn stored(
    client: &Client,
    of: (&str, &str),
    named: &str,
    args: &PutArgs,
) -> Result<Answered<CommittedAnswer>, Failure> {
    let Some((name, file)) = named.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(Failure::Usage(format!(
            "`--file {named}` has no name; write NAME=FILE, such as photo=cat.jpg"
        )));
    };
    let wrong = |error: io::Error| Failure::Usage(format!("{file}: {error}"));
    let opened = File::open(file).map_err(wrong)?;
    let found = opened.metadata().map_err(wrong)?;
    if !found.is_file() {
        return Err(Failure::Usage(format!(
            "{file}: it is no file; name one with its bytes in it"
        )));
    }
    let mut wish = Wish::bare("PUT", place(of, name));
    wish.headers.push(("content-type", "application/octet-stream".to_owned()));
    // A server that refuses it says so before it is sent.
    wish.headers.push(("expect", "100-continue".to_owned()));
    wish.file = Some((opened, found.len()));
    client.ask(&wish.by(&args.author).with("if-match", args.if_match.as_ref()))
}

/// A request that takes a blob away.
pub(crate) fn removed(of: (&str, &str), name: &str, args: &PutArgs) -> Wish<'static> {
    let wish = Wish::bare("DELETE", place(of, name));
    wish.by(&args.author).with("if-match", args.if_match.as_ref())
}

/// Writes a blob to a file, which is there only if it came whole.
pub(crate) fn get(
    client: &Client,
    server: &ServerArgs,
    of: (&str, &str),
    (name, when): (&str, Option<String>),
    file: &Path,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let wish = Wish::get(place(of, name) + &query(&[("at", when)]));
    let response = client.send(&wish)?;
    if response.status().as_u16() != 200 {
        return match client.read(response)? {
            Answered::Refused(problem) => refused(out, server.json, &problem),
            Answered::Done(_) => Err(Failure::Usage(format!("{}: no blob came", server.server))),
        };
    }
    let mark = response.headers().get("etag").and_then(|mark| mark.to_str().ok());
    let mark = mark.unwrap_or_default().trim_matches('"').to_owned();
    let (part, mut body) = (beside(file), response.into_body().into_reader());
    let written = write(&mut body, &part, &mark).and_then(|size_bytes| {
        fs::rename(&part, file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(size_bytes)
    });
    let size_bytes = written.map_err(|cause| {
        // Nobody takes a part for the whole.
        drop(fs::remove_file(&part));
        Failure::Machine(cause)
    })?;
    let written = BlobWritten { file: file.to_owned(), size_bytes, sha256: mark };
    done(out, server.json, &written, || {
        line(&format!("wrote {}, {}", file.display(), bytes(size_bytes)))
    })
}

/// The name of a file while it is written.
pub(crate) fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
}

/// Writes what comes, and checks its hash; its bytes \[B\].
pub(crate) fn write(body: &mut impl Read, part: &Path, sha256: &str) -> Result<u64, String> {
    let told = |error: io::Error| format!("{}: {error}", part.display());
    let (mut hash, mut bytes, mut size) = (BlobHash::default(), vec![0; 1 << 18], 0);
    let mut file = File::create(part).map_err(told)?;
    loop {
        let read = body.read(&mut bytes);
        let read =
            read.map_err(|error| format!("the blob broke off: {error}; ask again, or `verify`"))?;
        if read == 0 {
            break;
        }
        hash.update(&bytes[..read]);
        file.write_all(&bytes[..read]).map_err(told)?;
        size += read as u64;
    }
    let found = hash.id().to_string();
    if found == sha256 {
        return Ok(size);
    }
    Err(format!("what came has the hash {found}, and {sha256} was said; ask again, or `verify`"))
}
