//! Blobs beside nodes, by HTTP: sent and read in parts, and checked by their hash before whoever reads has the last.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use jungle::{
    BLOB, BlobError, BlobHash, BlobId, BlobRef, DiskError, Edit, Expect, Node, Operation, Target,
    Version, blobs_of,
};
use tokio::sync::mpsc;

use crate::answer::{BlobList, StoredBlob};
use crate::blobs::Unstored;
use crate::edits::{Guard, commit, committed};
use crate::exchange::{Ask, Reply, coming, empty, json, set};
use crate::problem::Problem;
use crate::ranges::{Wanted, wanted};
use crate::reads::{gone, node_of, tags, tree_of, version_at};
use crate::request::{Planned, settled, target};
use crate::shared::Shared;

/// The bytes that are read and sent at once \[B\].
const PART: usize = 1 << 18;
/// The most bytes of a blob's name: with what stands before it in the attribute it has 255.
const NAME_MAX: usize = 255 - BLOB.len();

fn told(error: Unstored) -> Problem {
    match error {
        Unstored::Blob(BlobError::TooLarge(_)) => {
            Problem::too_large(format!("{error} (--blob-max)"))
        }
        Unstored::Blob(BlobError::Disk(DiskError::Full { .. })) => Problem::full(error),
        Unstored::Late(_) => Problem::new(408, "late", "The body came too slowly", error),
        Unstored::Broken(_) => Problem::bad_request(error),
        Unstored::Blob(_) => Problem::new(500, "not-stored", "The blob is not stored", error),
    }
}

fn attribute(name: &str) -> Result<String, Problem> {
    if name.is_empty() || name.len() > NAME_MAX {
        let name: String = name.chars().take(40).collect();
        let wrong = format!("`{name}` is no name of a blob; it has 1 to {NAME_MAX} bytes");
        return Err(Problem::bad_request(wrong));
    }
    Ok(format!("{BLOB}{name}"))
}

/// The edit that sets the blob of a node, or with `None` takes it out.
fn edit(
    version: &Version,
    (tree, place): (&str, &str),
    name: &str,
    blob: Option<BlobRef>,
) -> Result<Planned, Problem> {
    node_of(tree_of(version, tree)?, place)?;
    let node: Target = settled(version, tree, target(place)?);
    let (name, value) = (name.to_owned(), blob.map(BlobRef::value));
    let edit = Edit::Put { node, name, value, expect: Expect::Anything };
    Ok(Planned::of(vec![Operation::Edit { tree: tree.to_owned(), edit }], 0))
}

/// `PUT /trees/TREE/nodes/NODE/blobs/NAME`, the bytes as the body.
pub(crate) async fn put(
    mut ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
    place: &str,
    name: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let name = attribute(name)?;
    // Before anything is stored: a node that is not there gets none.
    edit(&shared.store.version(), (tree, place), &name, None)?;
    let body = ask.coming.take().expect("this address takes its body as it comes");
    let (bytes_max, patience) = (shared.settings.blob_max, shared.settings.patience);
    let length = ask.header("content-length")?.and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > bytes_max) {
        return Err(told(BlobError::TooLarge(bytes_max).into()));
    }
    let (blob, _pin) = shared.store.blobs().store(body, bytes_max, patience).await.map_err(told)?;
    let plan = |version: &Version| edit(version, (tree, place), &name, Some(blob));
    let guard = Some(Guard { tree, node: Some(place) });
    let answer = commit(&ask, shared, guard, plan).await?;
    let mut reply = committed(StatusCode::OK, &answer);
    set(&mut reply, "etag", &mark(blob.id));
    Ok(reply)
}

/// `DELETE /trees/TREE/nodes/NODE/blobs/NAME`.
pub(crate) async fn remove(
    ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
    place: &str,
    name: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let name = attribute(name)?;
    let plan = |version: &Version| edit(version, (tree, place), &name, None);
    let guard = Some(Guard { tree, node: Some(place) });
    Ok(committed(StatusCode::OK, &commit(&ask, shared, guard, plan).await?))
}

fn mark(id: BlobId) -> String {
    format!("\"{id}\"")
}

fn blob_of(node: &Node, name: &str) -> Result<BlobRef, Problem> {
    node.blob(name).ok_or_else(|| {
        let names: Vec<&str> = node.blobs().map(|(name, _)| name).take(10).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Problem::not_found(format!("node {} has no blob `{name}`; it has {known}", node.id()))
    })
}

/// `GET /trees/TREE/nodes/NODE/blobs/NAME`.
pub(crate) async fn get(
    mut ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
    place: &str,
    name: &str,
) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    ask.nothing_left(&["at"])?;
    let blob = blob_of(node_of(tree_of(&version, tree)?, place)?, name)?;
    let known = ask.header("if-none-match")?;
    if known.is_some_and(|known| tags(known).any(|one| one == mark(blob.id))) {
        let mut reply = empty(StatusCode::NOT_MODIFIED);
        set(&mut reply, "etag", &mark(blob.id));
        return Ok(reply);
    }
    sent(ask, shared, blob.id)
}

/// `GET /blobs`: all that a version names, for a backup.
pub(crate) async fn list(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    ask.caller.must_administer("list the blobs of all trees")?;
    let version = version_at(&mut ask, &shared.store).await?;
    ask.nothing_left(&["at"])?;
    let blobs = blobs_of([&*version]).into_iter().map(|id| StoredBlob { sha256: id.to_string() });
    Ok(json(StatusCode::OK, &BlobList { seq: version.seq(), blobs: blobs.collect() }))
}

/// `GET /blobs/SHA256`.
pub(crate) fn get_any(ask: Ask, shared: &Arc<Shared>, id: &str) -> Result<Reply, Problem> {
    ask.caller.must_administer("read a blob by its hash")?;
    ask.nothing_left(&[])?;
    sent(ask, shared, id.parse().map_err(Problem::bad_request)?)
}

/// A blob as it comes from the disk. A file that is open stays whole, whoever frees the blob meanwhile.
fn sent(mut ask: Ask, shared: &Shared, id: BlobId) -> Result<Reply, Problem> {
    let cannot = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => {
            gone(format!("blob {id} is not stored any more: no version that is kept names it"))
        }
        _ => Problem::new(500, "unreadable", "The blob cannot be read", error),
    };
    let file = shared.store.blobs().open(id).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    let wanted = wanted(ask.header("range")?, ask.header("if-range")?, &mark(id), length);
    let part = match &wanted {
        Wanted::Whole => 0..length,
        Wanted::Part(part) => part.clone(),
        Wanted::Nothing => return Err(Problem::no_part(id, length)),
    };
    let permit = ask.caller.take_permit();
    let (parts, body) = mpsc::channel(4);
    let asked = part.clone();
    tokio::task::spawn_blocking(move || {
        send(file, id, asked, &parts);
        drop(permit);
    });
    let mut reply = coming("application/octet-stream", body);
    if matches!(wanted, Wanted::Part(_)) {
        *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {}-{}/{length}", part.start, part.end - 1);
        set(&mut reply, "content-range", &range);
    }
    set(&mut reply, "content-length", &(part.end - part.start).to_string());
    set(&mut reply, "accept-ranges", "bytes");
    set(&mut reply, "etag", &mark(id));
    set(&mut reply, "x-content-type-options", "nosniff");
    Ok(reply)
}

/// Sends a part of a file, and its end only if the whole has the hash: else the body stays shorter than it was said to
/// be, which breaks the connection off. So a part costs a read of the whole.
fn send(mut file: File, id: BlobId, wanted: Range<u64>, parts: &mpsc::Sender<Bytes>) {
    let (mut hash, mut last, mut at) = (BlobHash::default(), Bytes::new(), 0_u64);
    loop {
        let mut part = vec![0; PART];
        let read = match file.read(&mut part) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if read == 0 {
            break;
        }
        part.truncate(read);
        hash.update(&part);
        let here = at..at + read as u64;
        at = here.end;
        let (from, to) = (wanted.start.max(here.start), wanted.end.min(here.end));
        if from >= to {
            continue;
        }
        let part = Bytes::from(part);
        let part = part.slice((from - here.start) as usize..(to - here.start) as usize);
        let before = std::mem::replace(&mut last, part);
        if !before.is_empty() && parts.blocking_send(before).is_err() {
            return;
        }
    }
    if hash.id() == id && !last.is_empty() {
        // Whoever asked may have left.
        drop(parts.blocking_send(last));
    }
}
