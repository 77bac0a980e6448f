//! The bound of what waits for an answer of a server.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::post::StoreError;

/// The most that waits.
const WAITING: usize = 10_000;

/// Room for what waits.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

impl Room {
    /// A place in it, until it is dropped; refused if too much waits.
    pub(crate) fn enter(&self) -> Result<Waiting<'_>, StoreError> {
        let waiting = self.0.fetch_add(1, Ordering::Relaxed);
        let place = Waiting(&self.0);
        if waiting >= WAITING {
            return Err(StoreError::Busy(format!("{WAITING} statements wait already")));
        }
        Ok(place)
    }
}

/// A place.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
