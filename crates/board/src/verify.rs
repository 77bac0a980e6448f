//! What a board is worth after a run: everything acknowledged is stored, nothing twice, all in order.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::board::{AllWrites, Board, Writes};
use crate::post::{Span, Store, StoreError};

/// Items that are read at once.
const PORTION: usize = 500;
/// Faults that are told.
const FAULTS_MAX: usize = 20;

/// Contents of a store, read whole while nobody writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Threads.
    pub threads: u64,
    /// Messages.
    pub messages: u64,
    /// Messages that were edited.
    pub edited: u64,
    /// The greatest id.
    pub id_max: u64,
    /// The latest moment \[us since 1970\].
    pub time_max: u64,
    /// Faults, the first 20: an id twice, an order that is broken, an acknowledged write that is not there.
    pub faults: Vec<String>,
}

impl Verified {
    fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(text);
        }
    }
}

/// Ids and times of a list must rise, and no id may come twice.
struct Course {
    last: (u64, u64),
}

impl Course {
    fn step(
        &mut self,
        (id, time): (u64, u64),
        place: &str,
        seen: &mut HashSet<u64>,
        found: &mut Verified,
    ) {
        if !seen.insert(id) {
            found.fault(format!("{place}: the id {id} is there twice"));
        }
        if id <= self.last.0 {
            found.fault(format!("{place}: id {id} comes behind id {}", self.last.0));
        }
        if time < self.last.1 {
            found.fault(format!("{place}: id {id} is older than the one before"));
        }
        self.last = (id.max(self.last.0), time);
        found.id_max = found.id_max.max(id);
        found.time_max = found.time_max.max(time);
    }
}

/// Reads all of a store.
///
/// # Errors
/// [`StoreError`], if it cannot be read.
pub(crate) async fn read(store: &dyn Store) -> Result<Verified, StoreError> {
    let (mut found, mut seen) = (Verified::default(), HashSet::new());
    let mut course = Course { last: (0, 0) };
    loop {
        let threads = store.threads(Span::After(course.last.0), PORTION).await?;
        for thread in &threads {
            found.threads += 1;
            course.step((thread.id, thread.time), "threads", &mut seen, &mut found);
            messages(store, thread.id, &mut seen, &mut found).await?;
        }
        if threads.len() < PORTION {
            return Ok(found);
        }
    }
}

async fn messages(
    store: &dyn Store,
    thread: u64,
    seen: &mut HashSet<u64>,
    found: &mut Verified,
) -> Result<(), StoreError> {
    let place = format!("thread {thread}");
    // A message is younger than its thread.
    let mut course = Course { last: (thread, 0) };
    let mut after = 0;
    loop {
        let read = store.messages(thread, Span::After(after), PORTION).await?;
        let Some((_, messages)) = read else {
            found.fault(format!("{place} is listed, but not there"));
            return Ok(());
        };
        for message in &messages {
            found.messages += 1;
            found.edited += u64::from(message.edited.is_some());
            found.time_max = found.time_max.max(message.edited.unwrap_or(0));
            course.step((message.id, message.time), &place, seen, found);
        }
        if messages.len() < PORTION {
            return Ok(());
        }
        after = course.last.0;
    }
}

impl Board {
    /// Reads all of the store and holds it against what was acknowledged. Nobody may write meanwhile.
    ///
    /// # Errors
    /// [`StoreError`], if it cannot be read.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        let mut found = read(&**self.store()).await?;
        let AllWrites { threads, messages, deletions, .. } = self.writes();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let done = |of: &Writes| count(&of.acknowledged);
        let unknown = |of: &Writes| count(&of.unknown);
        let before = self.found();
        // A write of unknown fate adds what nobody was promised, or takes away what was: never the other way round.
        // A delete of what is gone already is acknowledged by some stores and missing to others, but only side by side
        // with the first; runs delete each message once.
        let opened = before.threads + done(threads);
        let kept = (before.messages + done(messages)).saturating_sub(done(deletions));
        let least = kept.saturating_sub(unknown(deletions));
        let wanted = [
            ("threads", opened..=opened + unknown(threads), found.threads),
            ("messages", least..=kept + unknown(messages), found.messages),
        ];
        for (what, wanted, stored) in wanted {
            if !wanted.contains(&stored) {
                let (least, most) = wanted.into_inner();
                found.fault(format!(
                    "{stored} {what} are stored, and {least} to {most} were acknowledged or of unknown fate"
                ));
            }
        }
        Ok(found)
    }
}
