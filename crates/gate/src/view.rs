//! Views that routers go by: each server as it is now, or as it was a while ago.

/// View of a server, as it reports itself to a router.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerView {
    /// True if a job may be routed to it now: it is up, and, where jobs wait in one queue for all
    /// servers, a slot of it is free.
    pub usable: bool,
    /// Jobs that wait for this server alone.
    pub waiting: u64,
    /// Slots held; for a while more than there are, after a resize to fewer.
    pub busy: u32,
    /// Slots in all.
    pub slots: u32,
    /// The share of its slots that is busy, 0 to 1, over the window of the router; 0 where the router
    /// does not ask for it, so that nobody pays for what nobody looks at.
    pub utilisation: f64,
    /// The work that waits for this server alone or is being served, in the unit of
    /// [`Job::size`](crate::Job::size); 0 where the router does not ask for it.
    pub work: u64,
}
