//! Who may operate a monitor, and where what it shows is shown.

use std::net::SocketAddr;
use std::time::Duration;

use pgconsole::Access;

/// Who may operate a monitor, and where it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Users who may do everything on the console, by the names with which they log in.
    pub users: Vec<String>,
    /// Users who may look.
    pub stats_users: Vec<String>,
    /// Over how long recent counts are, at least 1 s; in whole turns of a second.
    pub stats_period: Duration,
    /// Where metrics and the live page are, if anywhere. Whoever reaches it may look.
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
    /// What a user may do on the console, if anything.
    pub(super) fn access(&self, user: &[u8]) -> Option<Access> {
        let among = |users: &[String]| users.iter().any(|one| one.as_bytes() == user);
        if among(&self.users) {
            Some(Access::All)
        } else {
            among(&self.stats_users).then_some(Access::Show)
        }
    }

    /// Whether there is anybody to show something.
    pub(crate) fn is_used(&self) -> bool {
        self.http.is_some() || !self.users.is_empty() || !self.stats_users.is_empty()
    }
}
