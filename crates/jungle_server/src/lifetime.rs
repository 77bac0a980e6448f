//! The time of a clock, which the core has not: commits are stamped with it, and times to live are counted from it.

use std::time::Duration;

use jungle::{Edit, Target, Timestamp, Version};

use crate::problem::Problem;

/// The shortest and the longest time to live.
const TTL: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(100 * 366 * 24 * 3600)];

/// The clock's time, as commits have it.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is no reason to refuse: time never runs backwards along the log.
    Timestamp(since.map_or(0, |since| since.as_micros() as u64))
}

/// The same, and not before the newest commit: a clock that was set back must not let nodes go that were just made.
pub(crate) fn now_in(version: &Version) -> Timestamp {
    now().max(version.time())
}

/// A time to live as somebody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// It goes after so long.
    For(Duration),
    /// It stays.
    Never,
}

impl Lifetime {
    /// Reads `90s`, `2h 30m` or `never`.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let wrong = |cause: String| {
            Problem::bad_request(format!(
                "`ttl` {text:?}: {cause}; write a time from 1ms to 100 years with its unit, such as `90s` or \
                 `2h 30m`, or `never`"
            ))
        };
        let ttl = humantime::parse_duration(text).map_err(|error| wrong(error.to_string()))?;
        if ttl < TTL[0] || ttl > TTL[1] {
            return Err(wrong("it is too short or too long".to_owned()));
        }
        Ok(Self::For(ttl))
    }

    /// The same of a field that may be left out.
    pub(crate) fn of(text: Option<&String>) -> Result<Option<Self>, Problem> {
        text.map(|text| Self::parse(text)).transpose()
    }

    /// The deadline, if it begins now.
    pub(crate) fn deadline(self, version: &Version) -> Option<Timestamp> {
        match self {
            Self::For(ttl) => Some(Timestamp(now_in(version).0 + ttl.as_micros() as u64)),
            Self::Never => None,
        }
    }

    /// The edit that gives a node this time to live. To stay takes none where the node has no deadline.
    pub(crate) fn edit(self, version: &Version, tree: &str, node: &Target) -> Option<Edit> {
        let deadline = self.deadline(version);
        let tree = version.tree(tree);
        let known = tree.and_then(|tree| match node {
            Target::Node(id) => tree.node(*id),
            Target::Path(path) => tree.at(path),
        });
        if deadline.is_none() && known.is_some_and(|node| node.expires().is_none()) {
            return None;
        }
        Some(Edit::expire(node.clone(), deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_has_a_unit_and_bounds() {
        assert_eq!(Lifetime::parse("90s").unwrap(), Lifetime::For(Duration::from_secs(90)));
        assert_eq!(Lifetime::parse("2h 30m").unwrap(), Lifetime::For(Duration::from_secs(9_000)));
        assert_eq!(Lifetime::parse("never").unwrap(), Lifetime::Never);
        for wrong in ["", "90", "0s", "999us", "101years", "soon", "-1s"] {
            let told = Lifetime::parse(wrong).unwrap_err().detail;
            assert!(told.contains("such as `90s`"), "{told}");
        }
    }
}
