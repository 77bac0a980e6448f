//! Slots that clients keep beyond their jobs, for what they left in the sessions there: how many of a
//! pool's, by what, and how those are told who get none.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::log::Line;
use super::pool::PoolIndex;
use super::slab::{Key, Socket};
use super::state::Loop;
use pgsession::sql::Reasons;
use pgwire::SqlState;
use pgwire::message::{Report, Severity, write};

/// The hint for an administrator.
pub(super) const HINT: &str = "SHOW PINS at the console tells which clients keep slots, and why. \
    Let them end what they have left, or end them; the table `session-state` of a configuration refuses \
    what keeps a slot.";

/// The slots of one pool that are kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    slots: u32,
    /// On how many of them each kind of thing was left.
    by: BTreeMap<String, u32>,
}

impl Kept {
    /// One slot more, with what was left there; `lost` if settings were that are not known.
    fn add(&mut self, reasons: Reasons, lost: bool) {
        self.slots += 1;
        let kinds = reasons.iter().map(|one| one.to_string());
        for kind in kinds.chain(lost.then(|| "settings that are not known".to_owned())) {
            *self.by.entry(kind).or_default() += 1;
        }
    }

    /// The detail for a client that gets none of these `slots`, while so many others wait. What is
    /// kept is kept for as long as its client likes: no wait is foreseen then.
    pub(super) fn detail(&self, slots: u32, waiting: u64, wait: Option<Duration>) -> String {
        // Here and in the hint: to wait does not help who waits for a client that keeps a slot.
        if self.slots > 0 {
            return format!(
                "{} of {slots} slots are kept by what clients left there ({self}); {waiting} other \
                 clients wait.",
                self.slots
            );
        }
        let estimate = match wait {
            Some(wait) => format!("the estimated wait is {:.3} s", wait.as_secs_f64()),
            None => "nothing is known of how long they are held".to_owned(),
        };
        format!("{slots} slots are there and {waiting} clients wait; {estimate}.")
    }

    /// The hint for a client that gets none.
    pub(super) fn hint(&self) -> &'static str {
        match self.slots {
            0 => "Try again later, or with fewer clients at once.",
            _ => HINT,
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (kind, slots)) in self.by.iter().enumerate() {
            write!(out, "{}{kind} on {slots}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// True if half of the slots are kept with this one, and were not without it.
fn comes_to_half(kept: u32, slots: u32) -> bool {
    is_half(kept, slots) && (kept == 1 || !is_half(kept - 1, slots))
}

/// True if half of the slots are kept.
fn is_half(kept: u32, slots: u32) -> bool {
    // A pool may have fewer slots than are kept: those of jobs in slots that are gone stay with these.
    kept > 0 && u64::from(kept) * 2 >= u64::from(slots)
}

/// The notice to clients that their pool's slots are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptNotice {
    /// None is; the log has it.
    #[default]
    Off,
    /// A NOTICE to a client that keeps one by what it has left, where half of them are kept with
    /// it.
    Half,
}

impl Loop {
    /// A server's client, which keeps it, has nothing under way.
    pub(super) fn pin(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        assert!(server.client.is_some() && server.slot.is_some(), "its client keeps its slot, too");
        // Said once for each pin, and not behind each job of it.
        if !server.pin(self.now) {
            return;
        }
        let at = server.pool;
        let pool = &mut self.pools[at];
        pool.kept += 1;
        let (kept, slots) = (pool.kept, pool.driver.slots());
        if self.config.kept_notice == KeptNotice::Half && is_half(kept, slots) {
            self.tell_kept(key, slots);
        }
        if self.config.logged.errors && comes_to_half(kept, slots) {
            let line = Line::new("kept")
                .text("database", &self.config.databases[self.pools[at].database].name)
                .text("user", &String::from_utf8_lossy(&self.pools[at].user))
                .with("kept", kept)
                .with("slots", slots);
            let by = self.kept(at).to_string();
            self.log.line(line.text("by", &by).text("see", "SHOW PINS"));
        }
    }

    /// Tells the client of a server, which keeps it from now on, what is kept of the pool's `slots`.
    fn tell_kept(&mut self, key: Key, slots: u32) {
        let server = self.servers.get(key).expect("its caller has it");
        let (pool, client) = (server.pool, server.client.expect("its client keeps it"));
        let kept = self.kept(pool);
        let message = format!(
            "this session keeps its server by what it has left there, as {} of {slots} do",
            kept.slots
        );
        let detail = format!("{kept}.");
        let report = Report {
            detail: Some(&detail),
            hint: Some(HINT),
            ..Report::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, &message)
        };
        let mut out = Vec::new();
        write::notice_response(&mut out, &report);
        if self.say(client, &out).is_err() {
            // It is found when it is read.
            self.again.push_back(Socket::Client(client));
        }
    }

    /// The slots of a pool that are kept now.
    pub(super) fn kept(&self, pool: PoolIndex) -> Kept {
        let mut kept = Kept::default();
        // Refusals are many where nothing is kept.
        if self.pools[pool].kept > 0 {
            let servers = self.servers.iter().map(|(_, server)| server);
            for server in servers.filter(|server| server.pool == pool && server.is_kept()) {
                kept.add(server.relay.pins(), server.session.is_lost());
            }
            debug_assert_eq!(kept.slots, self.pools[pool].kept, "each pin is counted once");
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgsession::sql::Reason;

    #[test]
    fn what_is_kept_is_told_with_its_kinds_and_no_wait() {
        let mut kept = Kept::default();
        let wait = Some(Duration::ZERO);
        let plain = "2 slots are there and 3 clients wait; the estimated wait is 0.000 s.";
        assert_eq!(kept.detail(2, 3, wait), plain);
        assert!(kept.detail(2, 3, None).ends_with("nothing is known of how long they are held."));
        assert!(kept.hint().starts_with("Try again later"));
        kept.add(Reasons::of(Reason::Listen).with(Reasons::of(Reason::Temporary)), false);
        kept.add(Reasons::of(Reason::Listen), true);
        assert_eq!(
            kept.detail(2, 0, wait),
            "2 of 2 slots are kept by what clients left there (LISTEN on 2, settings that are not \
             known on 1, temporary objects on 1); 0 other clients wait."
        );
        assert!(kept.hint().contains("SHOW PINS"));
    }

    #[test]
    fn half_is_reached_once_on_the_way_up() {
        for (slots, half) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (20, 10)] {
            let told: Vec<u32> = (0..=slots).filter(|kept| comes_to_half(*kept, slots)).collect();
            assert_eq!(told, [half], "{slots}");
        }
        // Slots may have become fewer than are kept.
        assert!(!comes_to_half(7, 2) && comes_to_half(1, 0));
    }
}
