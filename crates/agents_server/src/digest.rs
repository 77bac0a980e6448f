//! Digests: which notifications of one user leave together, and when. Decided here without a clock, a disk or a
//! destination.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The user whose notifications leave together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct User {
    /// `agent`, or the field of the state that says whose a notification is.
    pub(crate) by: String,
    pub(crate) name: String,
}

impl User {
    /// The user of a notification. An agent without a value of the field is a user of its own.
    pub(crate) fn of(by: Option<&str>, payload: &[u8]) -> User {
        let content: Map<String, Value> = serde_json::from_slice(payload).unwrap_or_default();
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let Some(by) = by
            && let Some(value) = content.get("fields").and_then(|fields| fields.get(by))
        {
            return User { by: by.to_owned(), name: text(value) };
        }
        let name = content.get("agent").map_or_else(String::new, text);
        User { by: "agent".to_owned(), name }
    }
}

/// The window of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Time for which the first notification waits for others.
    pub(crate) every: Duration,
    /// Number of notifications that leave at once, at least 1.
    pub(crate) count: usize,
}

/// Notifications that wait for the digests of a destination, by number; a later one has a larger number.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    groups: BTreeMap<User, BTreeMap<u64, u64>>,
    /// The oldest of each group: the moment when it came \[ns since 1970\], and its number.
    oldest: BTreeSet<(u64, u64, User)>,
    /// The size of each group.
    sizes: BTreeSet<(usize, User)>,
}

impl Gathering {
    /// One more of a user, which came at a moment \[ns since 1970\].
    pub(crate) fn add(&mut self, user: &User, n: u64, since_ns: u64) {
        self.changed(user, |group| _ = group.insert(n, since_ns));
    }

    /// It waits no more.
    pub(crate) fn remove(&mut self, user: &User, n: u64) {
        self.changed(user, |group| _ = group.remove(&n));
    }

    fn changed(&mut self, user: &User, change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
        let first = |group: &BTreeMap<u64, u64>| group.first_key_value().map(|(n, at)| (*at, *n));
        let group = self.groups.entry(user.clone()).or_default();
        let (before, size_before) = (first(group), group.len());
        change(group);
        let (after, size) = (first(group), group.len());
        self.sizes.remove(&(size_before, user.clone()));
        if size > 0 {
            self.sizes.insert((size, user.clone()));
        } else {
            self.groups.remove(user);
        }
        if before != after {
            if let Some((at, n)) = before {
                self.oldest.remove(&(at, n, user.clone()));
            }
            if let Some((at, n)) = after {
                self.oldest.insert((at, n, user.clone()));
            }
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> {
        self.groups.values().flat_map(|group| group.keys().copied())
    }

    /// A group that is due, with the oldest of it that leave at once: its first has waited long enough, or there
    /// are enough of them. Where there is no room for more, the oldest group is due in any case.
    pub(crate) fn due(
        &self,
        window: Window,
        now_ns: u64,
        is_full: bool,
    ) -> Option<(User, Vec<u64>)> {
        let every = window.every.as_nanos() as u64;
        // A clock that was set back must not make it wait for ever.
        let is_due = |at: u64| now_ns.abs_diff(at) >= every;
        let earliest = self.oldest.first().filter(|(at, ..)| is_full || is_due(*at));
        let latest = || self.oldest.last().filter(|(at, ..)| *at > now_ns && is_due(*at));
        let user = match earliest.or_else(latest) {
            Some((.., user)) => user,
            None => &self.sizes.last().filter(|(size, _)| *size >= window.count)?.1,
        };
        let numbers = self.groups[user].keys().copied().take(window.count);
        Some((user.clone(), numbers.collect()))
    }
}

/// The content of a digest: the user, and the notifications with their names.
pub(crate) fn content<'a>(
    user: &User,
    notifications: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let notifications = notifications.map(|(key, payload)| named(key, payload));
    let notifications = notifications.collect::<Vec<_>>().join(",");
    let (by, user) = (quoted(&user.by), quoted(&user.name));
    format!("{{\"by\":{by},\"user\":{user},\"notifications\":[{notifications}]}}")
}

/// A notification with its name first.
pub(crate) fn named(key: &str, payload: &str) -> String {
    let rest = payload.strip_prefix('{').unwrap_or(payload);
    format!("{{\"id\":\"{key}\",{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn user(name: &str) -> User {
        User { by: "agent".to_owned(), name: name.to_owned() }
    }

    fn window(count: usize) -> Window {
        Window { every: Duration::from_secs(60), count }
    }

    #[test]
    fn a_digest_is_due_by_its_first_or_by_its_number() {
        let (ann, bob) = (user("ann"), user("bob"));
        let mut all = Gathering::default();
        all.add(&ann, 1, MINUTE);
        all.add(&bob, 2, MINUTE + 1);
        all.add(&ann, 3, 2 * MINUTE - 1);
        assert_eq!(all.due(window(9), 2 * MINUTE - 1, false), None);
        assert_eq!(all.due(window(9), 2 * MINUTE, false), Some((ann.clone(), vec![1, 3])));
        // Enough of one user are due before the time of another.
        assert_eq!(all.due(window(2), MINUTE + 2, false), Some((ann.clone(), vec![1, 3])));
        assert_eq!(all.due(window(1), 2 * MINUTE, false), Some((ann.clone(), vec![1])));
        // Without room the oldest leaves at once.
        assert_eq!(all.due(window(9), MINUTE + 2, true), Some((ann.clone(), vec![1, 3])));
        all.remove(&ann, 1);
        // The window begins with the first that is left.
        assert_eq!(all.due(window(9), 2 * MINUTE + 1, false), Some((bob.clone(), vec![2])));
        all.remove(&bob, 2);
        assert_eq!(all.due(window(9), 3 * MINUTE - 2, false), None);
        assert_eq!(all.due(window(9), 3 * MINUTE - 1, false), Some((ann.clone(), vec![3])));
        all.remove(&ann, 3);
        assert_eq!(all.due(window(1), 9 * MINUTE, true), None);
        assert!(all.groups.is_empty() && all.oldest.is_empty() && all.sizes.is_empty());
    }

    /// A clock that is set back by a year makes a digest wait for one window more at most.
    #[test]
    fn a_digest_waits_for_no_clock_that_was_set_back() {
        let mut all = Gathering::default();
        all.add(&user("ann"), 1, 1_000 * MINUTE);
        assert_eq!(all.due(window(9), 5 * MINUTE, false), Some((user("ann"), vec![1])));
        all.add(&user("bob"), 2, 5 * MINUTE);
        assert_eq!(all.due(window(9), 5 * MINUTE, false), Some((user("ann"), vec![1])));
        assert_eq!(all.due(window(9), 1_000 * MINUTE - 1, false), Some((user("bob"), vec![2])));
        all.remove(&user("bob"), 2);
        assert_eq!(all.due(window(9), 1_000 * MINUTE - 1, false), None);
    }

    #[test]
    fn a_user_is_the_agent_or_a_field_of_it() {
        let payload = br#"{"agent":"a7","rule":"r","fields":{"owner":"ann","shop":7}}"#;
        assert_eq!(User::of(None, payload), user("a7"));
        let owner = User { by: "owner".to_owned(), name: "ann".to_owned() };
        assert_eq!(User::of(Some("owner"), payload), owner);
        assert_eq!(User::of(Some("shop"), payload).name, "7");
        // One without a value is a user of its own.
        assert_eq!(User::of(Some("other"), payload), user("a7"));
    }

    #[test]
    fn a_digest_has_the_notifications_with_their_names_as_they_are() {
        let pairs = [("k1", r#"{"agent":"a","price":1.50}"#), ("k2", r#"{"agent":"b"}"#)];
        let told = content(&user("ann \"x\""), pairs.into_iter());
        let wanted = r#"{"by":"agent","user":"ann \"x\"","notifications":[{"id":"k1","agent":"a","price":1.50},{"id":"k2","agent":"b"}]}"#;
        assert_eq!(told, wanted);
    }
}
