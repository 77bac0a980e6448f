//! Servers that are watched: the connections on which they are asked are beside those of jobs.

use std::time::Duration;

use proxy::postgres::monitor::{Config, Health, Mode};
use proxy::postgres::startup::Version;

use super::{Gate, Raw, database, trusting};

/// A watched database with so many slots, whose only user is also who watches.
fn watched(mode: Mode, slots: u32) -> Config {
    let mut config = trusting(database(mode, slots));
    config.admin.users = vec!["sekisho".to_owned()];
    let interval = Duration::from_secs(1);
    config.databases[0].health = Some(Health { interval, failures_max: 1, ..Health::default() });
    config
}

fn says(client: &mut Raw, sql: &str) -> String {
    client.query(sql);
    client.answer().swap_remove(0)
}

/// A probe took the room of a connection: where all slots were in use, each transaction closed its
/// connection as one too many, and the next one made another.
#[test]
fn a_probe_takes_no_room_of_jobs() {
    for mode in [Mode::Transaction, Mode::Session] {
        let gate = Gate::new(watched(mode, 1));
        let pid = "select pg_backend_pid()";
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        let first = says(&mut client, pid);
        gate.until("the server is asked, too", |stats| stats.pools[0].counters.connects >= 2);
        for _ in 0..20 {
            if mode == Mode::Session {
                client = Raw::enter(&gate, Version::V3_0, &[]);
            }
            assert_eq!(says(&mut client, pid), first, "{mode}");
        }
        let pool = &gate.stats().pools[0];
        assert_eq!((pool.servers, pool.per_server[0].connections), (1, 1), "{mode}");
        assert_eq!(pool.counters.connects, 2, "{mode}");
        drop(client);
        gate.end();
    }
}

/// It waited for the probes to go, which never do.
#[test]
fn a_pause_is_done_while_servers_are_asked() {
    let gate = Gate::new(watched(Mode::Transaction, 2));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 1"), "1");
    gate.until("the server is asked, too", |stats| stats.pools[0].counters.connects >= 2);
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    assert_eq!(says(&mut console, "PAUSE"), "PAUSE");
    assert_eq!(says(&mut console, "RESUME"), "RESUME");
    assert_eq!(says(&mut client, "select 2"), "2");
    drop((client, console));
    gate.end();
}

/// A probe's connection was to be closed as soon as somebody gave it back, which nobody does: whoever
/// waited for that did so for ever.
#[test]
fn the_connections_of_probes_are_renewed_like_all() {
    let gate = Gate::new(watched(Mode::Transaction, 2));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 1"), "1");
    gate.until("the server is asked, too", |stats| stats.pools[0].counters.connects >= 2);
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    for turn in 0..3 {
        let before = gate.stats().pools[0].counters.connects;
        assert_eq!(says(&mut console, "RECONNECT"), "RECONNECT", "turn {turn}");
        assert_eq!(says(&mut console, "WAIT_CLOSE"), "WAIT_CLOSE", "turn {turn}");
        gate.until("it is asked anew", |stats| stats.pools[0].counters.connects > before);
    }
    drop((client, console));
    gate.end();
}
