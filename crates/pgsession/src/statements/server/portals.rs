//! Portals of a session that drop statements, have session effects, copy or change a schema: an Execute
//! does not say.

use std::ops::Range;
use std::sync::Arc;

use super::ask::Naming;
use super::{EntryId, Followed, StatementCache};
use crate::statements::sql::May;

/// The most that are remembered at once.
// Each Bind and Execute looks through them by name, so they must be few. Portals that leave nothing and
// hide none of these are not among them.
pub(super) const PORTALS_MAX: usize = 64;

/// A portal that drops statements, leaves something behind, copies or changes a schema, or that takes the
/// name of such a one once its Bind is done.
#[derive(Debug)]
pub(super) struct Portal {
    /// Of its Bind, and of the batch that this is in.
    pub(super) number: u64,
    pub(super) batch: u64,
    pub(super) name: Box<[u8]>,
    pub(super) drops: Option<EntryId>,
    pub(super) followed: Option<Arc<Followed>>,
    pub(super) naming: Option<Naming>,
    /// The possible effects of each Execute of it: its Bind may be answered long before.
    pub(super) may: May,
}

impl Portal {
    fn is_plain(&self) -> bool {
        self.drops.is_none()
            && self.followed.is_none()
            && self.naming.is_none()
            && !self.may.is_told_by_portal()
    }

    /// The statements that it needs.
    fn entries(&self) -> impl Iterator<Item = EntryId> {
        let executes = self.naming.as_ref().and_then(Naming::executes);
        self.drops.into_iter().chain(executes)
    }
}

/// Those of a session, in the order of their Binds. A Bind replaces the portal that had its name when
/// it is done, so until then both are here.
#[derive(Debug, Default)]
pub(super) struct Portals(Vec<Portal>);

impl Portals {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= PORTALS_MAX
            && self.0.iter().filter(|portal| !portal.is_plain()).count() >= PORTALS_MAX
    }

    /// The last Bind of this name, if what it is can tell an Execute anything.
    pub(super) fn last(&self, name: &[u8]) -> Option<&Portal> {
        self.0.iter().rev().find(|portal| *portal.name == *name)
    }

    /// A Bind is asked for.
    pub(super) fn asked(&mut self, portal: Portal, cache: &mut StatementCache) {
        if !portal.is_plain() || self.last(&portal.name).is_some() {
            // The client may drop its name for them before the Execute comes.
            portal.entries().for_each(|id| cache.retain(id));
            let follows = self.0.last().is_none_or(|last| last.number < portal.number);
            assert!(follows, "portals are in the order of their Binds");
            self.0.push(portal);
            let told = self.0.iter().filter(|portal| !portal.is_plain()).count();
            debug_assert!(told <= PORTALS_MAX, "{told} portals");
        }
    }

    /// The Bind of this number is done.
    pub(super) fn done(&mut self, number: u64, cache: &mut StatementCache) {
        let Ok(at) = self.0.binary_search_by_key(&number, |portal| portal.number) else { return };
        // Those of its name that were bound before are gone at the server. Later ones are still to come.
        let now = self.0.remove(at);
        self.forget(cache, |one| one.number < number && one.name == now.name);
        // A plain one was here only to hide the one before it, which is gone.
        if !now.is_plain() {
            let at = self.0.partition_point(|one| one.number < number);
            self.0.insert(at, now);
        }
    }

    /// The requests of these numbers have not happened.
    pub(super) fn undo(&mut self, numbers: Range<u64>, cache: &mut StatementCache) {
        self.forget(cache, |portal| numbers.contains(&portal.number));
    }

    /// The session has none any more.
    pub(super) fn clear(&mut self, cache: &mut StatementCache) {
        self.forget(cache, |_| true);
    }

    fn forget(&mut self, cache: &mut StatementCache, which: impl Fn(&Portal) -> bool) {
        for portal in self.0.extract_if(.., |portal| which(portal)) {
            portal.entries().for_each(|id| cache.release(id));
        }
    }
}
