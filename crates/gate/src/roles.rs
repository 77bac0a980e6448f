//! Roles of servers: replicas serve those alone who only read.

use crate::{Access, Job, Role, ServerView};

/// The roles of servers, where one may be a replica.
#[derive(Debug)]
pub(crate) struct Roles {
    roles: Vec<Role>,
    seen: Vec<ServerView>,
}

impl Roles {
    /// None if all servers are primaries for good.
    pub(crate) fn new(roles: &[Role]) -> Option<Box<Roles>> {
        let roles = roles.to_vec();
        (!roles.is_empty()).then(|| Box::new(Roles { roles, seen: Vec::new() }))
    }

    pub(crate) fn set(&mut self, server: usize, role: Role) {
        self.roles[server] = role;
    }

    /// Views that a router may see for this job: a job that writes has primaries alone, one that
    /// only reads has the replicas, and the primaries if no replica is usable.
    pub(crate) fn see(&mut self, job: &Job, views: &[ServerView]) -> &[ServerView] {
        let usable = |role: Role| {
            self.roles.iter().zip(views).any(|(one, view)| *one == role && view.usable)
        };
        let role = match job.access {
            Access::Read if usable(Role::Replica) => Role::Replica,
            Access::Read | Access::Write => Role::Primary,
        };
        self.seen.clear();
        let seen = self.roles.iter().zip(views);
        self.seen.extend(
            seen.map(|(one, view)| ServerView { usable: view.usable && *one == role, ..*view }),
        );
        &self.seen
    }
}
