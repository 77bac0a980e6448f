//! The clock of the server, read once for each event.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gate::Time;

/// Now, counted from 1970. A clock before that year counts as its beginning.
pub(crate) fn now() -> Time {
    Time::ZERO + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}
