//! Administrators of a monitor, and the addresses at which it is shown.

use std::net::SocketAddr;
use std::time::Duration;

use pgconsole::Access;

/// Administrators of a monitor, and the address at which it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Users who may do everything on the console, by the names with which they log in.
    pub users: Vec<String>,
    /// Users who may look.
    pub stats_users: Vec<String>,
    /// Over how long recent counts are, at least 1 s; in whole turns of a second.
    pub stats_period: Duration,
    /// The address of the metrics and the live page, if there is one. Whoever reaches it may look.
    pub http: Option<SocketAddr>,
}

impl Default for Admin {
    /// Nobody, nowhere, and a minute.
    fn default() -> Admin {
        Admin {
            users: Vec::new(),
            stats_users: Vec::new(),
            stats_period: Duration::from_secs(60),
            http: None,
        }
    }
}

impl Admin {
    /// The rights of a user on the console, if it has any.
    pub(super) fn access(&self, user: &[u8]) -> Option<Access> {
        let among = |users: &[String]| users.iter().any(|one| one.as_bytes() == user);
        if among(&self.users) {
            Some(Access::All)
        } else {
            among(&self.stats_users).then_some(Access::Show)
        }
    }

    /// True if there is anybody to show something.
    pub(crate) fn is_used(&self) -> bool {
        self.http.is_some() || !self.users.is_empty() || !self.stats_users.is_empty()
    }
}
