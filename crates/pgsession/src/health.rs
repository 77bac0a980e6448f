//! Results of probes of a database's servers: which are up, which takes writes, and how far
//! replicas are behind. A gate asks with [`PROBE`], and each [`Watch`] judges.

use std::time::Duration;

use gate::Role;

/// Health probes of the servers of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// From one probe of a server to the next; in whole seconds, since the loop looks every second.
    pub interval: Duration,
    /// Time limit of a probe, its connection included.
    pub timeout: Duration,
    /// A server that so many probes in a row have failed at is down.
    pub failures_max: u32,
    /// A replica that is further behind is not used; `None` for no bound. It is not behind if it has
    /// all that the primary had written when that was asked last, else as long as the time since
    /// the last transaction that it has replayed, or longer than any bound if that is not known.
    pub lag_max: Option<Duration>,
}

impl Default for Health {
    /// Every 2 s; three failures of 5 s at most; replicas are at most 10 s behind.
    fn default() -> Health {
        Health {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(5),
            failures_max: 3,
            lag_max: Some(Duration::from_secs(10)),
        }
    }
}

/// The question of a probe. The answer comes as a setting, as the server reports these: no row is
/// needed.
pub const PROBE: &str = "SELECT pg_catalog.set_config('application_name', CASE WHEN \
    pg_catalog.pg_is_in_recovery() THEN 'replica ' || coalesce(pg_catalog.pg_wal_lsn_diff(\
    pg_catalog.pg_last_wal_replay_lsn(), '0/0'), 0)::int8 || ' ' || coalesce((extract(epoch FROM \
    pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) * 1000)::int8, -1) \
    ELSE 'primary ' || pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), '0/0')::int8 \
    END, false)";

/// Answer to a probe. Positions are in the log of writes \[byte\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A server that takes writes.
    Primary {
        /// Up to where it has written.
        written: u64,
    },
    /// A server that follows another one.
    Replica {
        /// Up to where it has replayed that.
        replayed: u64,
        /// Since the last transaction that it has replayed; `None` if there was none.
        age: Option<Duration>,
    },
}

impl Seen {
    /// Reads the answer to [`PROBE`].
    pub fn read(answer: &[u8]) -> Option<Seen> {
        let mut words = std::str::from_utf8(answer).ok()?.split(' ');
        let role = words.next()?;
        let position = words.next()?.parse().ok()?;
        match role {
            "primary" => Some(Seen::Primary { written: position }),
            "replica" => {
                let age: i64 = words.next()?.parse().ok()?;
                let age = u64::try_from(age).ok().map(Duration::from_millis);
                Some(Seen::Replica { replayed: position, age })
            }
            _ => None,
        }
    }
}

/// Verdict on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// True if it may be used.
    pub up: bool,
    /// Its role, as far as is known.
    pub role: Role,
}

/// Knowledge about the servers of a database.
#[derive(Debug)]
pub struct Watch {
    health: Health,
    servers: Vec<Watched>,
    /// The one that takes writes, and up to where it had written when it was asked last.
    primary: Option<(usize, u64)>,
    /// True if replicas are configured, beside one primary. Else all servers are asked everything,
    /// whatever they say that they are: there may be one queue for all, or nobody to write to.
    replicated: bool,
}

#[derive(Clone, Debug)]
struct Watched {
    role: Role,
    failures: u32,
    seen: Option<Seen>,
}

impl Watch {
    /// Servers of these roles, as far as is known yet.
    pub fn new(health: Health, roles: &[Role]) -> Watch {
        let watched = |&role: &Role| Watched { role, failures: 0, seen: None };
        Watch {
            health,
            servers: roles.iter().map(watched).collect(),
            primary: None,
            replicated: roles.contains(&Role::Replica),
        }
    }

    /// The settings of its probes.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// True if it has no server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Number of its servers.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// A probe has seen this at a server, or failed.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn note(&mut self, server: usize, seen: Option<Seen>) {
        let Some(seen) = seen else {
            self.servers[server].failures = self.servers[server].failures.saturating_add(1);
            return;
        };
        let watched = &mut self.servers[server];
        (watched.failures, watched.seen) = (0, Some(seen));
        match seen {
            Seen::Primary { written } => {
                watched.role = Role::Primary;
                if self.primary.is_none_or(|(at, _)| at == server || !self.leads(at)) {
                    self.primary = Some((server, written));
                }
            }
            Seen::Replica { .. } => watched.role = Role::Replica,
        }
    }

    /// True if it answers, and says that it takes writes.
    fn leads(&self, server: usize) -> bool {
        let Watched { role, failures, .. } = self.servers[server];
        role == Role::Primary && failures < self.health.failures_max
    }

    /// The verdict on a server. One that says it is the primary beside another one that still
    /// answers is not used: of two truths one is wrong.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn standing(&self, server: usize) -> Standing {
        let Watched { role, failures, seen } = self.servers[server];
        let answers = failures < self.health.failures_max;
        if !self.replicated {
            return Standing { up: answers, role: Role::Primary };
        }
        let fits = match seen {
            None => true,
            Some(Seen::Primary { .. }) => self.primary.is_none_or(|(at, _)| at == server),
            Some(Seen::Replica { replayed, age }) => {
                let has_all = self.primary.is_some_and(|(_, written)| replayed >= written);
                let lag = if has_all { Some(Duration::ZERO) } else { age };
                let in_time = |most| lag.is_some_and(|lag| lag <= most);
                self.health.lag_max.is_none_or(in_time)
            }
        };
        Standing { up: answers && fits, role }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 3] = [Role::Primary, Role::Replica, Role::Replica];

    fn primary(written: u64) -> Option<Seen> {
        Some(Seen::Primary { written })
    }

    fn replica(replayed: u64, age_s: Option<u64>) -> Option<Seen> {
        Some(Seen::Replica { replayed, age: age_s.map(Duration::from_secs) })
    }

    fn up(watch: &Watch) -> Vec<bool> {
        (0..watch.len()).map(|at| watch.standing(at).up).collect()
    }

    #[test]
    fn the_answer_of_a_probe_is_read_or_not_believed() {
        assert_eq!(Seen::read(b"primary 77"), primary(77));
        assert_eq!(Seen::read(b"replica 5 12000"), replica(5, Some(12)));
        assert_eq!(Seen::read(b"replica 5 -1"), replica(5, None));
        for wrong in [&b""[..], b"primary", b"primary x", b"replica 5", b"other 1 2", b"\xff 1"] {
            assert_eq!(Seen::read(wrong), None);
        }
    }

    #[test]
    fn a_server_is_down_after_so_many_failures_in_a_row() {
        let mut watch = Watch::new(Health::default(), &ROLES);
        assert_eq!(up(&watch), [true; 3], "nothing is known against them");
        for _ in 0..2 {
            watch.note(1, None);
        }
        assert_eq!(up(&watch), [true; 3]);
        watch.note(1, replica(0, Some(0)));
        for _ in 0..3 {
            assert_eq!(up(&watch), [true; 3]);
            watch.note(1, None);
        }
        assert_eq!(up(&watch), [true, false, true]);
        watch.note(1, replica(0, Some(0)));
        assert_eq!(up(&watch), [true; 3]);
    }

    #[test]
    fn a_replica_that_is_too_far_behind_is_not_used() {
        let mut watch = Watch::new(Health::default(), &ROLES);
        watch.note(0, primary(1000));
        for (seen, used) in [
            // A primary that writes nothing leaves its replicas old, but not behind.
            (replica(1000, Some(900)), true),
            (replica(1000, None), true),
            (replica(999, Some(10)), true),
            (replica(999, Some(11)), false),
            (replica(999, None), false),
        ] {
            watch.note(1, seen);
            assert_eq!(watch.standing(1).up, used, "{seen:?}");
        }
        let any = Health { lag_max: None, ..Health::default() };
        let mut watch = Watch::new(any, &ROLES);
        watch.note(0, primary(1000));
        watch.note(1, replica(0, None));
        assert_eq!(up(&watch), [true; 3]);
    }

    #[test]
    fn the_promoted_one_takes_over_when_the_old_one_has_gone_and_not_before() {
        let mut watch = Watch::new(Health::default(), &ROLES);
        watch.note(0, primary(1000));
        watch.note(1, replica(1000, Some(0)));
        watch.note(2, replica(1000, Some(0)));
        watch.note(1, primary(1001));
        assert_eq!(up(&watch), [true, false, true], "the old one still answers");
        for _ in 0..3 {
            watch.note(0, None);
        }
        watch.note(1, primary(1002));
        assert_eq!(up(&watch), [false, true, true]);
        assert_eq!(watch.standing(1).role, Role::Primary);
        // It comes back, and does not know.
        watch.note(0, primary(1000));
        assert_eq!(up(&watch), [false, true, true]);
        watch.note(0, replica(1002, Some(0)));
        assert_eq!(up(&watch), [true; 3]);
        assert_eq!(watch.standing(0).role, Role::Replica);
    }

    #[test]
    fn without_replicas_all_are_primaries() {
        let mut watch = Watch::new(Health::default(), &[Role::Primary; 2]);
        watch.note(0, primary(1));
        for seen in [primary(9), replica(0, None)] {
            watch.note(1, seen);
            assert_eq!(up(&watch), [true; 2], "{seen:?}");
            assert_eq!(watch.standing(1).role, Role::Primary, "{seen:?}");
        }
        for _ in 0..3 {
            watch.note(1, None);
        }
        assert_eq!(up(&watch), [true, false]);
    }
}
