//! Numbers of the ingress, counted where requests end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Numbers of the ingress.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Requests that change something and are not answered.
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    lines_refused: AtomicU64,
    /// The last cause of one.
    line_error: Mutex<Option<String>>,
}

impl Figures {
    /// Messages that are durable.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Requests that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A line of a source is no message, or the file cannot be read.
    pub(crate) fn line_refused(&self, told: String) {
        self.lines_refused.fetch_add(1, Ordering::Relaxed);
        *self.line_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Number of such lines, and the cause of the last.
    pub(crate) fn lines_refused(&self) -> (u64, Option<String>) {
        let error = self.line_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.lines_refused.load(Ordering::Relaxed), error)
    }
}

/// A request that is counted as long as it lasts, also if its client leaves.
pub(crate) struct Open<'a>(&'a AtomicU64);

impl Open<'_> {
    pub(crate) fn count(open: &AtomicU64) -> Open<'_> {
        open.fetch_add(1, Ordering::Relaxed);
        Open(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
