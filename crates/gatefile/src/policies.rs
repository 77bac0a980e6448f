//! The gate of a database's pools as its configuration has it: who is next, where to, and what is
//! kept in reserve. What is checked of a file and what the running gate is told come from here.

use std::time::Duration;

use advise::{Policies, RouterEntry};
use gate::{
    EarlyRejection, GateSpec, KeyDefault, KeyDown, KeyMap, KeyOf, Queues, Reserve, Role as Asked,
    RouterSpec,
};

use super::config::{Database, GateFile, QueuesName, Role, Spread};

/// The class of jobs that no class holds.
pub(super) const OTHER: &str = "other";

/// The names of all classes by their numbers, from 0.
pub(super) fn classes(file: &GateFile) -> Vec<&str> {
    let classes = file.class.iter().map(|class| &*class.name);
    std::iter::once(OTHER).chain(classes).collect()
}

/// True if one queue is for all servers of a database: only then somebody waits longest.
pub(super) fn has_one_queue(file: &GateFile, entry: &Database) -> bool {
    let is_shared = file.queues == QueuesName::Shared && entry.spread != Some(Spread::Stay);
    is_shared || entry.server.len() == 1
}

/// True if all jobs of a database go to one of its servers as long as that is up: because the file says so,
/// or because it may not have a connection to each of them. By turns each job would then have one made at
/// its server, and the one at the other closed for it.
pub(super) fn stays(file: &GateFile, entry: &Database) -> bool {
    let limits = &file.limits;
    let most = [entry.slots_all.or(limits.database_slots), limits.user_slots, limits.slots];
    let is_scarce = most.into_iter().flatten().any(|most| (most as usize) < entry.server.len());
    // A router is where jobs are to go, whatever that costs, and a replica has jobs of its own.
    let is_free = file.router.is_none() && !has_replicas(entry);
    entry.spread == Some(Spread::Stay) || is_free && is_scarce
}

fn has_replicas(entry: &Database) -> bool {
    entry.server.iter().any(|server| server.role == Role::Replica)
}

/// The reserve of a pool at each of so many servers.
pub(super) fn reserve(file: &GateFile, slots: u32, servers: usize) -> Option<Reserve> {
    let after = file.pool.reserve_after.span()?;
    let slots = slots.div_ceil(u32::try_from(servers).unwrap_or(u32::MAX).max(1));
    (slots > 0).then(|| Reserve { slots, after: Duration::from_secs_f64(after.0) })
}

/// The gate of a database with the policies of the file, beside what `gate` says of slots and waits.
///
/// # Errors
/// What does not fit together, and the way out.
pub(super) fn gate(file: &GateFile, entry: &Database, gate: GateSpec) -> Result<GateSpec, String> {
    let stays = stays(file, entry);
    let policies = Policies {
        discipline: file.discipline.clone(),
        router: router(file, entry).filter(|_| !stays),
        length: file.length.filter(|_| !stays),
        ties: file.ties.filter(|_| !stays),
        load_information: file.load_information.filter(|_| !stays),
    };
    let one_queue = has_one_queue(file, entry) && !(stays && entry.server.len() > 1);
    let kept = entry.reserve.unwrap_or(file.pool.reserve);
    let has_replicas = has_replicas(entry);
    let role = |role| match role {
        Role::Primary => Asked::Primary,
        Role::Replica => Asked::Replica,
    };
    let spec = GateSpec {
        queues: match (file.queues, stays) {
            (QueuesName::Shared, false) => Queues::Shared,
            _ => Queues::PerServer,
        },
        reserve: reserve(file, kept, entry.server.len()).filter(|_| one_queue),
        early_rejection: file
            .pool
            .early_rejection
            .span()
            .map(|memory| EarlyRejection { memory: Duration::from_secs_f64(memory.0) }),
        roles: match has_replicas {
            true => entry.server.iter().map(|server| role(server.role)).collect(),
            false => Vec::new(),
        },
        ..gate
    };
    let mut spec = policies.at(spec, &classes(file))?;
    if has_replicas && matches!(spec.router, RouterSpec::ByKey { down: KeyDown::Wait, .. }) {
        return Err(WAITS_IN_VAIN.to_owned());
    }
    if stays {
        // All belong to the first server, and to the next while that is down.
        spec.router = RouterSpec::ByKey {
            of: KeyOf::Key,
            map: KeyMap::Table { rows: Vec::new(), default: KeyDefault::Server(0) },
            down: KeyDown::Next,
        };
    }
    Ok(spec)
}

/// A key has one server, which is a primary or a replica: the other half of its jobs would wait for it
/// until their deadlines.
const WAITS_IN_VAIN: &str = "`down = \"wait\"` beside a replica makes what only reads wait for the \
                             primary of its key, and writes for a replica, in vain; say `down = \
                             \"next\"`, or leave the replicas out";

/// The router of a database: weights that it leaves out are the servers', and texts in its table
/// stand for their places there. What is said of several servers is not of one.
fn router(file: &GateFile, entry: &Database) -> Option<RouterEntry> {
    match file.router.clone()? {
        RouterEntry::Weighted { .. } | RouterEntry::ByKey { .. } if entry.server.len() == 1 => None,
        RouterEntry::Weighted { weights, order } if weights.is_empty() => {
            let weights = entry.server.iter().map(|server| server.weight).collect();
            Some(RouterEntry::Weighted { weights, order })
        }
        RouterEntry::ByKey { of, bounds, table: Some(table), default, down }
            if of != Some(KeyOf::Class) && has_texts(&table) =>
        {
            let numbered = table.values().enumerate().map(|(at, server)| (at.to_string(), *server));
            let table = Some(numbered.collect());
            Some(RouterEntry::ByKey { of, bounds, table, default, down })
        }
        other => Some(other),
    }
}

/// True if a table of keys names one that is no number.
pub(super) fn has_texts(table: &std::collections::BTreeMap<String, u32>) -> bool {
    table.keys().any(|key| key.parse::<u64>().is_err())
}
