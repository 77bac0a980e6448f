//! The server about itself: whether it works, how much there is, and a copy of all of it.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::StatusCode;
use hyper::body::Bytes;
use jungle::{Disk, DiskError, Durability, write_snapshot};
use tokio::sync::mpsc;

use crate::answer::{SeqAnswer, Stats};
use crate::exchange::{Ask, Reply, coming, json, reply, set};
use crate::problem::Problem;
use crate::reads::version_at;
use crate::shared::Shared;

/// `GET /readyz`.
pub(crate) fn ready(shared: &Shared) -> Result<Reply, Problem> {
    let why = match shared.store.failed() {
        Some(failed) => Some(format!("nothing is committed any more: {failed}")),
        None if *shared.stopping.borrow() => Some("the server is stopping".to_owned()),
        None => None,
    };
    match why {
        Some(why) => Err(Problem::new(503, "not-ready", "The server takes no commits", why)),
        None => Ok(reply(StatusCode::OK, "text/plain; charset=utf-8", "ready\n")),
    }
}

/// The name of a durability.
pub(crate) fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Interval => "interval",
        Durability::None => "none",
    }
}

/// The bytes of all files of a directory \[B\].
fn disk_bytes(folder: &std::path::Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// `GET /stats`.
pub(crate) async fn stats(ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    ask.caller.must_administer("see the figures of all trees")?;
    ask.nothing_left(&[])?;
    let store = &shared.store;
    let past = store.look(|database| {
        let oldest = database.versions().next();
        (database.versions().count() as u64, oldest, database.freed())
    });
    let (versions, oldest_version, versions_freed) = past.await?;
    let (version, counts) = (store.version(), store.counts());
    let nodes = version.trees().filter_map(|name| version.tree(name)).map(jungle::Tree::nodes);
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    Ok(json(
        StatusCode::OK,
        &Stats {
            seq: version.seq(),
            token: format!("{}.{}", store.generation(), version.seq()),
            durability: durability(store.settings().durability).to_owned(),
            trees: version.trees().count() as u64,
            nodes: nodes.sum(),
            versions,
            oldest_version,
            versions_freed,
            oldest_commit: version.oldest_commit(),
            commits_bytes: version.commit_bytes(),
            disk_bytes: disk_bytes(&shared.folder),
            commits: count(&counts.commits),
            rejected: count(&counts.rejected),
            busy: count(&counts.busy),
            waiting: count(&counts.waiting),
            connections: count(&shared.connections),
            failed: store.failed(),
        },
    ))
}

/// `GET /metrics`: the text format of Prometheus.
pub(crate) fn metrics(shared: &Shared) -> Reply {
    let (store, counts) = (&shared.store, shared.store.counts());
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed) as f64;
    let version = store.version();
    let rows: [(&str, &str, &str, f64); 18] = [
        ("commits_total", "counter", "Commits that took effect", count(&counts.commits)),
        ("ticks_total", "counter", "Commits by which nodes went in time", count(&counts.ticks)),
        (
            "blobs_freed_total",
            "counter",
            "Blobs that nobody names any more",
            count(&counts.blobs_freed),
        ),
        ("rejected_total", "counter", "Transactions without effect", count(&counts.rejected)),
        ("busy_total", "counter", "Wishes turned away: too much waited", count(&counts.busy)),
        ("groups_total", "counter", "Groups that the log has kept", count(&counts.groups)),
        ("log_seconds_total", "counter", "Time of the log", count(&counts.log_us) / 1e6),
        ("log_bytes_total", "counter", "Bytes of log entries", count(&counts.log_bytes)),
        ("snapshots_total", "counter", "Snapshots written", count(&counts.snapshots)),
        (
            "snapshots_failed_total",
            "counter",
            "Snapshots not written",
            count(&counts.snapshots_failed),
        ),
        ("versions_freed_total", "counter", "Versions given up", count(&counts.freed)),
        ("requests_total", "counter", "Requests", count(&shared.requests)),
        ("problems_total", "counter", "Requests answered by a problem", count(&shared.problems)),
        ("waiting", "gauge", "Commits that wait", count(&counts.waiting)),
        ("waiting_bytes", "gauge", "Bytes of their requests", count(&counts.waiting_bytes)),
        ("connections", "gauge", "Connections", count(&shared.connections)),
        ("head", "gauge", "Number of the newest commit", version.seq() as f64),
        (
            "log_failed",
            "gauge",
            "1 if the log has stopped",
            f64::from(u8::from(store.failed().is_some())),
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        let name = format!("jungle_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
            .expect("writing to memory does not fail");
    }
    reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// `POST /snapshot`.
pub(crate) async fn snapshot(ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    ask.caller.must_administer("take a snapshot")?;
    ask.nothing_left(&[])?;
    let seq = shared.store.snapshot().await?;
    Ok(json(StatusCode::OK, &SeqAnswer { seq }))
}

/// `GET /backup`: a snapshot of a version as it would lie on a disk, written while it is sent. A part that is
/// missing shows by the hash at its end.
pub(crate) async fn backup(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    ask.caller.must_administer("make a backup")?;
    let version = version_at(&mut ask, &shared.store).await?;
    ask.nothing_left(&["at"])?;
    let permit = ask.caller.take_permit();
    let (parts, sent) = mpsc::channel(8);
    let seq = version.seq();
    tokio::task::spawn_blocking(move || {
        let mut stream = Sent { parts, offset: 0 };
        // Whoever asked may leave before the end.
        drop(write_snapshot(&mut stream, &version));
        drop(permit);
    });
    let mut reply = coming("application/octet-stream", sent);
    set(&mut reply, "jungle-token", &format!("{}.{seq}", shared.store.generation()));
    Ok(reply)
}

/// A disk that is somewhere else: one file, written from its start to its end.
struct Sent {
    parts: mpsc::Sender<Bytes>,
    offset: u64,
}

impl Disk for Sent {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(Vec::new())
    }

    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError> {
        let (file, cause) = (file.to_owned(), "it was sent away".to_owned());
        Err(DiskError::Failed { file, action: "read", cause })
    }

    fn create(&mut self, _: &str, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        assert_eq!(offset, self.offset, "a snapshot is written from its start to its end");
        self.offset += bytes.len() as u64;
        self.parts.blocking_send(Bytes::copy_from_slice(bytes)).map_err(|_| DiskError::Failed {
            file: file.to_owned(),
            action: "write",
            cause: "whoever asked has left".to_owned(),
        })
    }

    fn truncate(&mut self, _: &str, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn sync(&mut self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn rename(&mut self, _: &str, _: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn remove(&mut self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }
}
