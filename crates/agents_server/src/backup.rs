//! A backup of a server that runs: its store as it is at one moment, and what lies beside.
//!
//! The order is what makes it whole. The places of sources come first: what is accepted after that is offered
//! again, under the same id. Then the store. Then the notifications that are kept: one that goes from the outbox
//! to them meanwhile is in both, under one key, and in neither never.

use std::fs;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use agents_store::{BackupError, BackupWriter, StoreError};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use hyper::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::clock;
use crate::http::Gateway;
use crate::response::{Answer, Refused, streamed};

/// Bytes that are sent at once.
const PART: usize = 64 << 10;
/// Time in which a client takes one of them.
const PART_WITHIN: Duration = Duration::from_secs(60);
/// Kept notifications that are read at once.
const KEPT: usize = 1_000;

/// The way to a client, for a thread that may block.
struct Pipe {
    sender: Sender<Bytes>,
    runtime: Handle,
    part: Vec<u8>,
    /// Told when the first part is there.
    begun: Option<oneshot::Sender<Result<(), StoreError>>>,
}

impl Pipe {
    fn send(&mut self) -> io::Result<()> {
        if let Some(begun) = self.begun.take() {
            // A client that has left is seen below.
            begun.send(Ok(())).ok();
        }
        let part = Bytes::from(std::mem::take(&mut self.part));
        let sent = self.runtime.block_on(timeout(PART_WITHIN, self.sender.send_data(part)));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.part.is_empty() { Ok(()) } else { self.send() }
    }
}

impl Gateway {
    /// `GET /backup`: all that a server needs to go on elsewhere, but the file of rules. A client that does not
    /// get its end has none: the end says so.
    pub(crate) async fn backup(
        self: &Arc<Gateway>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, Refused> {
        let turn = self.backups.clone().try_acquire_owned();
        let turn = turn.map_err(|_| Refused::later("another backup is being made"))?;
        let (sender, channel) = Channel::<Bytes>::new(2);
        let (begun, told) = oneshot::channel();
        let (gateway, runtime) = (self.clone(), Handle::current());
        let mut pipe = Pipe { sender, runtime, part: Vec::new(), begun: Some(begun) };
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let ended = gateway.write_backup(&mut pipe);
            // Behind the first part the end that is missing tells it.
            if let (Err(BackupError::Store(error)), Some(begun)) = (ended, pipe.begun.take()) {
                begun.send(Err(error)).ok();
            }
        });
        match told.await {
            Ok(Ok(())) => Ok(streamed("application/octet-stream", channel, permit)),
            Ok(Err(error @ StoreError::Unusable { .. })) => {
                Err(Refused::new(StatusCode::NOT_IMPLEMENTED, error.to_string()))
            }
            Ok(Err(error)) => Err(Refused::later(error.to_string())),
            Err(_) => Err(Refused::later("the backup ended before it began")),
        }
    }

    fn write_backup(&self, to: &mut dyn Write) -> Result<(), BackupError> {
        let mut writer = BackupWriter::new(to, clock::now())?;
        for (name, place) in self.places()? {
            writer.file(&format!("server/{name}"), &place)?;
        }
        self.store.backup(&mut writer)?;
        let mut after = 0;
        loop {
            let (lines, last) = self.board.shelf().lines(after, KEPT);
            let Some(last) = last else { break };
            writer.file("server/undelivered.jsonl", &lines)?;
            after = last;
        }
        Ok(writer.end()?)
    }

    /// The places of the sources that are kept.
    fn places(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let Some(directory) = &self.directory else { return Ok(Vec::new()) };
        let mut places = Vec::new();
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            let digits = name.strip_prefix("source-").or_else(|| name.strip_prefix("table-"));
            // Not one that is being written.
            if digits.is_some_and(|it| it.len() == 32 && it.bytes().all(|b| b.is_ascii_hexdigit()))
            {
                places.push((name.clone(), fs::read(directory.join(&name))?));
            }
        }
        Ok(places)
    }
}
