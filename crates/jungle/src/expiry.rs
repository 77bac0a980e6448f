//! A node may live for a time only. Its deadline is an attribute, so that it is merged, told and taken back as any
//! value is; and it goes by a tick in the log, so that every replay lets go of the same nodes at the same commit
//! without a clock.

use crate::attributes::Attributes;
use crate::commit::Timestamp;
use crate::map::Map;
use crate::node::{Node, NodeId};
use crate::operation::{Edit, Expect};
use crate::tree::{EditError, Target, Tree};

/// The attribute of a node that holds its deadline: microseconds since 1970 as decimal digits.
pub const EXPIRES: &str = "$expires";

/// The nodes at which a tick ends. The last that it takes goes with all below it, however many that are.
pub(crate) const EXPIRED_MAX: usize = 10_000;

/// The nodes of a tree that have a deadline, the earliest first.
pub(crate) type Deadlines = Map<(Timestamp, NodeId), ()>;

/// The deadline of an attribute's value; `None` if it is none, or not written as it is written here.
pub fn deadline(value: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(value).ok()?;
    let time: u64 = text.parse().ok()?;
    (time.to_string() == text).then_some(Timestamp(time))
}

/// The value of a deadline.
pub(crate) fn value_of(deadline: Timestamp) -> Vec<u8> {
    deadline.0.to_string().into_bytes()
}

/// Nothing, if a node can have this value as its deadline.
pub(crate) fn fits(tree: &Tree, node: NodeId, value: &[u8]) -> Result<(), EditError> {
    let cause = if !tree.is_addressable() {
        "its tree keeps no addresses by id, by which it would be found in time"
    } else if node == tree.root.id {
        "a root does not expire; drop its tree instead"
    } else if deadline(value).is_none() {
        "it is written as microseconds since 1970, in decimal digits"
    } else {
        return Ok(());
    };
    Err(EditError::Deadline { node, cause })
}

impl Node {
    /// The moment from which on a tick takes the node, with all below it.
    pub fn expires(&self) -> Option<Timestamp> {
        self.attribute(EXPIRES).and_then(deadline)
    }
}

impl Tree {
    /// The earliest deadline of a node.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.iter().next().map(|pair| pair.key.0)
    }

    /// The deadlines of all nodes, by a walk over them.
    pub(crate) fn build_deadlines(&self) -> Deadlines {
        let key = |node: &Node| Some((node.expires()?, node.id));
        let mut keys: Vec<_> = self.root.walk().filter_map(key).collect();
        keys.sort_unstable();
        let pair = |key| crate::map::Pair { key, value: () };
        Map::from_ascending(keys.into_iter().map(pair).collect())
    }
}

impl Attributes {
    /// The same with a deadline, or without the one that they have.
    #[must_use]
    pub fn expiring(mut self, deadline: Option<Timestamp>) -> Self {
        self.set(EXPIRES, deadline.map(value_of).as_deref());
        self
    }
}

impl Edit {
    /// Gives a node a deadline, or takes away the one that it has; the last in the log wins.
    pub fn expire(node: Target, deadline: Option<Timestamp>) -> Self {
        let (name, value) = (EXPIRES.to_owned(), deadline.map(value_of));
        Self::Put { node, name, value, expect: Expect::Anything }
    }
}
