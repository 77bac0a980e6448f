//! Servers that are watched: the connections on which they are asked are beside those of jobs.

use std::net::SocketAddr;
use std::time::Duration;

use gate::{Queues, Role};
use monitor::{Address, Config, Health, Mode, Share};
use pgwire::startup::Version;

use super::passage::Passage;
use super::{Gate, Raw, database, server, trusting};

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

/// That its connection was closed counted as a probe that had failed: one KILL took a server out that was
/// well, until it was asked again.
#[test]
fn a_probe_that_an_administrator_ends_says_nothing_of_its_server() {
    let passage = Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port())));
    let gate = Gate::new(at(&[Address::Tcp(passage.address()), by_socket()]));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 1"), "1");
    passage.falls_silent_after("pg_is_in_recovery");
    gate.until("it is asked", |_| passage.is_silent());
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    assert_eq!(says(&mut console, "KILL"), "KILL");
    assert_eq!(are_up(&gate, 0), [true, true]);
    passage.is_mended();
    let before = gate.stats().pools[0].counters.connects;
    assert_eq!(says(&mut console, "RESUME"), "RESUME");
    gate.until("both are asked anew", |stats| stats.pools[0].counters.connects >= before + 2);
    assert_eq!(are_up(&gate, 0), [true, true]);
    gate.end();
}

/// The server of all tests by its socket, and places where nobody listens.
fn by_socket() -> Address {
    let socket: tokio_postgres::Config = server().socket_url().as_str().parse().unwrap();
    let tokio_postgres::config::Host::Unix(folder) = &socket.get_hosts()[0] else {
        panic!("it is a socket")
    };
    Address::Unix(folder.join(format!(".s.PGSQL.{}", server().port())))
}

fn nowhere(port: u16) -> Address {
    Address::Tcp(([127, 0, 0, 1], port).into())
}

/// A watched database at these servers, with a slot at each.
fn at(servers: &[Address]) -> Config {
    let mut config = watched(Mode::Transaction, 1);
    let database = &mut config.databases[0];
    database.gate.servers = Share::Each.of(1, servers.len());
    database.servers = servers.to_vec();
    config
}

/// Which servers of a pool are up, as far as is known.
fn are_up(gate: &Gate, pool: usize) -> Vec<bool> {
    gate.stats().pools[pool].per_server.iter().map(|server| server.up).collect()
}

/// While a job held a pool at the servers that it had, probes asked these in the name of those that were
/// new: where there were fewer the monitor ended, and else one stayed unwatched for good.
#[test]
fn new_servers_are_watched_though_a_job_goes_on_at_one_that_is_gone() {
    let network = database(Mode::Transaction, 1).servers.swap_remove(0);
    for new in [vec![by_socket(), nowhere(1), nowhere(2)], vec![by_socket(), nowhere(1)]] {
        let gate = Gate::new(at(std::slice::from_ref(&network)));
        let mut busy = Raw::enter(&gate, Version::V3_0, &[]);
        let local = "select inet_server_addr() is null";
        assert_eq!(says(&mut busy, "begin"), "BEGIN");
        gate.handle.reload(at(&[network.clone(), by_socket()])).unwrap();
        let before = gate.stats().pools[0].counters.connects_failed;
        let told = gate.handle.reload(at(&new)).unwrap();
        assert!(told.later[0].contains("other servers count when"), "{told:?}");
        // They are asked at once, each at its own address.
        let missing = new.len() as u64 - 1;
        gate.until("all were asked twice", |stats| {
            stats.pools[0].counters.connects_failed >= before + 2 * missing
        });
        assert_eq!(are_up(&gate, 0), [false, true], "no job goes where none is to go");
        let mut other = Raw::enter(&gate, Version::V3_0, &[]);
        assert_eq!(says(&mut other, local), "t");
        assert_eq!(says(&mut busy, local), "f", "a transaction ends where it began");
        assert_eq!(says(&mut busy, "commit"), "COMMIT");
        let up = (0..new.len()).map(|place| place == 0).collect::<Vec<_>>();
        gate.until("what was seen counts now", |_| are_up(&gate, 0) == up);
        assert_eq!(says(&mut busy, local), "t");
        drop((busy, other));
        gate.end();
    }
}

/// A pool whose mode was to change went by nothing that probes saw until its clients had gone.
#[test]
fn servers_are_watched_while_another_mode_waits() {
    let network = database(Mode::Transaction, 1).servers.swap_remove(0);
    let servers = [network, nowhere(1)];
    let mut before = at(&servers);
    before.databases[0].health = None;
    let gate = Gate::new(before);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 1"), "1");
    let mut after = at(&servers);
    after.databases[0].mode = Mode::Session;
    let told = gate.handle.reload(after).unwrap();
    assert!(told.later[0].contains("the mode counts when its clients have gone"), "{told:?}");
    gate.until("one is down", |_| are_up(&gate, 0) == [true, false]);
    drop(client);
    gate.end();
}

/// What was known of their roles was kept: of two servers that had been one and its replica the second
/// stayed out as one primary too many.
#[test]
fn servers_that_have_other_roles_are_watched_as_these() {
    let servers = [database(Mode::Transaction, 1).servers.swap_remove(0), by_socket()];
    let with = |roles: &[Role]| {
        let mut config = at(&servers);
        let gate = &mut config.databases[0].gate;
        (gate.queues, gate.roles) = (Queues::PerServer, roles.to_vec());
        config
    };
    let gate = Gate::new(with(&[Role::Primary, Role::Replica]));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 1"), "1");
    // Both say that they take writes.
    gate.until("one of them is not used", |_| are_up(&gate, 0).contains(&false));
    let before = gate.stats().pools[0].counters.connects;
    gate.handle.reload(with(&[])).unwrap();
    gate.until("both were asked", |stats| stats.pools[0].counters.connects >= before + 2);
    gate.until("both are used", |_| are_up(&gate, 0) == [true, true]);
    gate.handle.reload(with(&[Role::Primary, Role::Replica])).unwrap();
    gate.until("one of them is not used", |_| are_up(&gate, 0).contains(&false));
    drop(client);
    gate.end();
}
