//! Pools that are there when the configuration changes: what it says reaches them, and nobody is
//! dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gate::{DisciplineSpec, Queues as Lines, Reserve, RouterSpec, Ties};
use monitor::{
    Address, Auto, Classes, Config, Database, Health, JobClass, Mode, Quotas, Share, Stats,
};
use pgsession::sql::{Choice, Class, Pattern, Rule, Test};
use pgwire::startup::Version;
use tokio_postgres::Client;

use super::operating::{console, rows, until};
use super::{Gate, Raw, database, routing, runtime, server, trusting};

fn config(slots: u32) -> Config {
    trusting(database(Mode::Transaction, slots))
}

fn enter(gate: &Gate, name: &str) -> Raw {
    Raw::enter(gate, Version::V3_0, &[("application_name", name)])
}

fn says(client: &mut Raw, sql: &str) -> String {
    client.query(sql);
    client.answer().swap_remove(0)
}

/// Classes by programs, each with a priority.
fn classes(of: &[(&str, u8)]) -> Classes {
    let list = of.iter().map(|(name, _)| JobClass { name: (*name).to_owned(), wait_max: None });
    let rules = (1..).zip(of).map(|(class, (name, priority))| Rule {
        tests: vec![Test::ApplicationName(Pattern::new(name.as_bytes()))],
        class: Class { class, priority: *priority },
    });
    Classes::new(list.collect(), rules.collect()).unwrap()
}

/// The same server on the network, and by its socket.
fn by_socket() -> Address {
    let socket: tokio_postgres::Config = server().socket_url().as_str().parse().unwrap();
    let tokio_postgres::config::Host::Unix(folder) = &socket.get_hosts()[0] else {
        panic!("it is a socket")
    };
    Address::Unix(folder.join(format!(".s.PGSQL.{}", server().port())))
}

/// A database with these servers, and so many slots at each.
fn at(servers: Vec<Address>, slots: u32) -> Config {
    let mut config = config(slots);
    let database = &mut config.databases[0];
    database.gate.servers = Share::Each.of(slots, servers.len());
    database.servers = servers;
    config
}

fn by_network() -> Address {
    config(1).databases[0].servers[0].clone()
}

#[test]
fn who_waits_does_so_on_as_of_the_class_that_it_has_now() {
    let gate = Gate::new(config(1));
    let mut holder = enter(&gate, "holder");
    assert_eq!(says(&mut holder, "begin"), "BEGIN");
    let mut waiting: Vec<Raw> = ["low", "desk", "other"].map(|name| enter(&gate, name)).into();
    for (at, client) in (1..).zip(&mut waiting) {
        client.query("select pg_advisory_xact_lock(19), clock_timestamp()::text");
        gate.until("it waits", |stats| stats.pools[0].waiting == at);
    }
    let mut next = config(1);
    next.databases[0].gate.discipline = DisciplineSpec::Priority;
    next.databases[0].gate.room = Some(1);
    next.classes = classes(&[("desk", 9), ("low", 1)]);
    let told = gate.handle.reload(next).unwrap();
    assert_eq!((told.restart, told.later), (vec![], vec![]));
    let stats = gate.stats();
    assert_eq!((stats.pools[0].waiting, stats.pools[0].busy), (3, 1), "{:?}", stats.pools[0]);
    // The room is that of those who come.
    let mut more = enter(&gate, "more");
    more.query("select 1");
    assert!(more.answer()[0].starts_with("ERROR 53300"));
    let began = |stats: &Stats, name: &str| {
        let class = stats.pools[0].classes.iter().find(|class| class.name == name);
        class.map_or(0, |class| class.wait.len())
    };
    assert_eq!(says(&mut holder, "commit"), "COMMIT");
    for client in &mut waiting {
        assert_eq!(client.answer()[1], "SELECT 1");
    }
    let stats = gate.stats();
    assert_eq!((began(&stats, "desk"), began(&stats, "low")), (1, 1));
    let recording = gate.handle.recordings().unwrap().swap_remove(0).unwrap();
    assert_eq!(recording.replay(), Ok(()));
    // The same again, with the numbers of the classes exchanged and one that has gone.
    assert_eq!(says(&mut holder, "begin"), "BEGIN");
    waiting[1].query("select 'desk'");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    let mut last = config(1);
    last.classes = classes(&[("new", 0), ("desk", 9)]);
    gate.handle.reload(last).unwrap();
    assert_eq!(says(&mut holder, "commit"), "COMMIT");
    assert_eq!(waiting[1].answer()[0], "desk");
    assert_eq!(began(&gate.stats(), "desk"), 2);
    drop((holder, waiting));
    gate.end();
}

/// A reload while a hundred transactions a second pass: each has its answer.
#[test]
fn nobody_notices_under_load_that_the_gate_begins_anew() {
    let gate = Gate::new(config(2));
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..6_u64 {
            let (gate, stop, served) = (&gate, &stop, &served);
            scope.spawn(move || {
                let name = ["desk", "low", "other"][client as usize % 3];
                let mut raw = enter(gate, name);
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let nonce = client * 1_000_000 + turn;
                    raw.query(&format!("begin; select {nonce}; commit"));
                    let answer = raw.answer();
                    assert_eq!(answer[1], nonce.to_string(), "{answer:?}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let disciplines = [DisciplineSpec::Priority, DisciplineSpec::Fifo, DisciplineSpec::Lifo];
        for turn in 0..18 {
            let servers = match turn % 4 {
                0 => vec![by_network()],
                1 => vec![by_network(), by_socket()],
                2 => vec![by_socket(), by_network()],
                _ => vec![by_socket()],
            };
            let mut next = at(servers, 1 + turn % 3);
            let gate_spec = &mut next.databases[0].gate;
            gate_spec.discipline = disciplines[turn as usize % 3].clone();
            if turn % 2 == 1 {
                gate_spec.queues = Lines::PerServer;
                gate_spec.router = RouterSpec::JoinIdleQueue { ties: Ties::Lowest };
            }
            next.classes = if turn % 5 < 2 { classes(&[("desk", 9)]) } else { Classes::default() };
            next.quotas.all = (turn % 6 < 3).then_some(2);
            let told = gate.handle.reload(next).unwrap();
            assert_eq!(told.restart, [""; 0]);
            let before = served.load(Ordering::Relaxed);
            gate.until("it goes on", |_| served.load(Ordering::Relaxed) > before + 20);
        }
        stop.store(true, Ordering::Relaxed);
    });
    gate.until("all has been settled", |stats| {
        let pool = &stats.pools[0];
        (pool.busy, pool.waiting) == (0, 0)
    });
    gate.end();
}

#[test]
fn servers_come_and_go_and_what_they_do_ends_first() {
    let gate = Gate::new(at(vec![by_network()], 1));
    let local = "select inet_server_addr() is null";
    let mut busy = enter(&gate, "busy");
    assert_eq!(says(&mut busy, &format!("begin; {local}")), "BEGIN");
    let mut other = enter(&gate, "other");
    other.query(local);
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    let told = gate.handle.reload(at(vec![by_network(), by_socket()], 1)).unwrap();
    assert_eq!(told.later, [""; 0]);
    assert_eq!(other.answer()[0], "t", "the new server has a slot");
    let told = gate.handle.reload(at(vec![by_socket()], 1)).unwrap();
    assert!(told.later[0].contains("other servers count when"), "{told:?}");
    for _ in 0..3 {
        assert_eq!(says(&mut other, local), "t", "the one that is gone takes no job");
    }
    busy.query(&format!("{local}; commit"));
    assert_eq!(busy.answer()[0], "f", "a transaction ends where it began");
    gate.until("one server is left", |stats| stats.pools[0].per_server.len() == 1);
    assert_eq!(says(&mut busy, local), "t");
    drop((busy, other));
    gate.end();
}

/// A server that was to go when its job had ended, and was then to stay after all, took no job any
/// more; where slots are sought, it had none.
#[test]
fn a_server_that_stays_after_all_serves_on() {
    let sought = |mut config: Config| {
        let auto = Auto { floor: 1, ceiling: 1, ..Auto::default() };
        config.databases[0].auto = Some(auto);
        config
    };
    let set = |config: Config| config;
    let kinds: [&dyn Fn(Config) -> Config; 2] = [&set, &sought];
    for of in kinds {
        let both = || of(at(vec![by_network(), by_socket()], 1));
        let gate = Gate::new(both());
        let mut busy = [enter(&gate, "one"), enter(&gate, "two")];
        for client in &mut busy {
            assert_eq!(says(client, "begin"), "BEGIN");
        }
        let told = gate.handle.reload(of(at(vec![by_socket()], 1))).unwrap();
        assert!(told.later[0].contains("other servers count when"), "{told:?}");
        let stats = gate.stats();
        let up = |stats: &Stats| stats.pools[0].per_server.iter().filter(|one| one.up).count();
        assert_eq!(up(&stats), 1, "{:?}", stats.pools[0]);
        let told = gate.handle.reload(both()).unwrap();
        assert_eq!((told.restart, told.later), (vec![], vec![]));
        let stats = gate.stats();
        assert_eq!((up(&stats), stats.pools[0].slots), (2, 2), "{:?}", stats.pools[0]);
        for client in &mut busy {
            assert_eq!(says(client, "commit"), "COMMIT");
        }
        for client in &mut busy {
            assert_eq!(says(client, "begin"), "BEGIN", "both have a slot again");
        }
        for client in &mut busy {
            assert_eq!(says(client, "commit"), "COMMIT");
        }
        drop(busy);
        gate.end();
    }
}

/// Where as many servers came as went, and the gate began anew for another reason, the new ones took
/// the places of the old: connections to one were given to whoever was to be at another, and nothing
/// waited any more for the job at the server that had gone.
#[test]
fn as_many_servers_come_as_go_while_the_discipline_changes() {
    let elsewhere = routing::ports()[1];
    let third = Address::Tcp(([127, 0, 0, 1], elsewhere).into());
    let place = "select coalesce(inet_server_port()::text, 'socket')";
    let gate = Gate::new(at(vec![by_network(), by_socket()], 1));
    let (mut one, mut two) = (enter(&gate, "one"), enter(&gate, "two"));
    for client in [&mut one, &mut two] {
        assert_eq!(says(client, "begin"), "BEGIN");
    }
    if says(&mut one, place) == "socket" {
        std::mem::swap(&mut one, &mut two);
    }
    let network = server().port().to_string();
    assert_eq!((says(&mut one, place), says(&mut two, place)), (network.clone(), "socket".into()));
    assert_eq!(says(&mut two, "commit"), "COMMIT");
    let mut next = at(vec![by_socket(), third], 1);
    next.databases[0].gate.discipline = DisciplineSpec::Lifo;
    let told = gate.handle.reload(next).unwrap();
    assert!(told.later[0].contains("other servers count when"), "{told:?}");
    // Over more than one attempt to catch up.
    for _ in 0..15 {
        assert_eq!(says(&mut two, place), "socket", "only one is left for now");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(says(&mut one, place), network, "a transaction ends where it began");
    assert_eq!(says(&mut one, "commit"), "COMMIT");
    gate.until("both are there", |stats| {
        let servers = &stats.pools[0].per_server;
        servers.iter().map(|server| (server.up, server.slots)).eq([(true, 1), (true, 1)])
    });
    let mut found = Vec::new();
    for client in [&mut one, &mut two] {
        assert_eq!(says(client, "begin"), "BEGIN");
        found.push(says(client, place));
    }
    found.sort();
    assert_eq!(found, [elsewhere.to_string(), "socket".into()]);
    drop((one, two));
    gate.end();
}

/// Has jobs done until the averages of a period show them.
async fn works(client: &mut Raw, console: &Client) {
    let began = Instant::now();
    loop {
        for _ in 0..50 {
            assert_eq!(says(client, "select 1"), "1");
        }
        let averages = rows(console, "SHOW STATS_AVERAGES").await;
        if averages[0]["server_assignment_count"] != "0" {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{averages:?}");
    }
}

/// Its jobs were no longer counted as the pool's: a total fell, and what had been since the last look
/// was below zero, which ended the gate or was a number of twenty digits.
#[test]
fn a_total_does_not_fall_when_a_class_goes() {
    let with = |classes: Classes| {
        let mut config = config(1);
        config.classes = classes;
        config.admin.users = vec!["sekisho".to_owned()];
        config.admin.stats_period = Duration::from_secs(1);
        config
    };
    let gate = Gate::new(with(classes(&[("web", 0)])));
    let mut client = enter(&gate, "web");
    runtime().block_on(async {
        let (count, console) = ("server_assignment_count", console(&gate).await);
        let averages = "SHOW STATS_AVERAGES";
        // An average is shown for one period only, so jobs come until one is seen.
        works(&mut client, &console).await;
        until(&console, averages, |rows| rows[0][count] == "0").await;
        let before = rows(&console, "SHOW STATS_TOTALS").await.swap_remove(0);
        gate.handle.reload(with(Classes::default())).unwrap();
        let after = rows(&console, "SHOW STATS_TOTALS").await.swap_remove(0);
        assert_eq!(before[count], after[count]);
        works(&mut client, &console).await;
        until(&console, averages, |rows| rows[0][count] == "0").await;
    });
    drop(client);
    gate.end();
}

#[test]
fn the_mode_changes_when_nobody_is_in() {
    let gate = Gate::new(config(2));
    let mut client = enter(&gate, "one");
    assert_eq!(says(&mut client, "select 1"), "1");
    let session = || trusting(database(Mode::Session, 2));
    let told = gate.handle.reload(session()).unwrap();
    assert!(told.later[0].contains("the mode counts when its clients have gone"), "{told:?}");
    assert_eq!(says(&mut client, "select 2"), "2");
    gate.until("it holds no slot", |stats| stats.pools[0].busy == 0);
    drop(client);
    gate.until("it has gone", |stats| stats.clients == 0);
    // Looked at every second: a new client may come before that.
    let began = Instant::now();
    loop {
        let mut client = enter(&gate, "two");
        assert_eq!(says(&mut client, "select 3"), "3");
        if gate.stats().pools[0].busy == 1 {
            break;
        }
        drop(client);
        assert!(began.elapsed() < Duration::from_secs(30), "it is of sessions in the end");
        std::thread::sleep(Duration::from_millis(300));
    }
    gate.end();
}

#[test]
fn what_clients_may_leave_changes_for_those_who_are_in() {
    let gate = Gate::new(config(2));
    let mut client = enter(&gate, "one");
    assert_eq!(says(&mut client, "listen bell"), "LISTEN");
    assert_eq!(says(&mut client, "unlisten *"), "UNLISTEN");
    let mut next = config(2);
    next.session_state.listen = Choice::Refuse;
    gate.handle.reload(next).unwrap();
    assert!(says(&mut client, "listen bell").starts_with("ERROR 0A000"));
    gate.handle.reload(config(2)).unwrap();
    assert_eq!(says(&mut client, "listen bell"), "LISTEN");
    drop(client);
    gate.end();
}

#[test]
fn slots_over_several_pools_come_change_and_go_while_jobs_run() {
    let named = |name: &str| {
        let of_test = database(Mode::Transaction, 2);
        let target = Some(of_test.name.clone());
        Database { name: name.to_owned(), target, ..of_test }
    };
    let with = |all: Option<u32>| {
        let mut config = trusting(named("first"));
        config.databases.push(named("second"));
        config.quotas = Quotas { all, ..Quotas::default() };
        config
    };
    let gate = Gate::new(with(None));
    let mut first = Raw::enter_at(&gate, "first");
    let mut second = Raw::enter_at(&gate, "second");
    assert_eq!(says(&mut first, "begin"), "BEGIN");
    let told = gate.handle.reload(with(Some(1))).unwrap();
    assert_eq!((told.restart, told.later), (vec![], vec![]));
    second.query("select 'served'");
    gate.until("what is held counts", |stats| {
        stats.quotas.iter().any(|all| (all.slots, all.busy, all.waiting) == (1, 1, 1))
    });
    gate.handle.reload(with(Some(2))).unwrap();
    assert_eq!(second.answer()[0], "served", "there is one more");
    gate.handle.reload(with(Some(1))).unwrap();
    second.query("select 'again'");
    gate.until("it waits", |stats| stats.quotas[0].waiting == 1);
    gate.handle.reload(with(None)).unwrap();
    assert_eq!(second.answer()[0], "again", "there is none any more");
    assert_eq!(says(&mut first, "commit"), "COMMIT");
    drop((first, second));
    gate.end();
}

#[test]
fn servers_are_watched_from_now_on_and_slots_sought() {
    let nowhere = Address::Tcp(([127, 0, 0, 1], 1).into());
    let both = || {
        let mut config = at(vec![by_network(), nowhere.clone()], 2);
        config.databases[0].gate.queues = Lines::PerServer;
        config
    };
    let gate = Gate::new(both());
    let mut client = enter(&gate, "one");
    assert_eq!(says(&mut client, "select 1"), "1");
    let mut watched = both();
    watched.databases[0].health =
        Some(Health { interval: Duration::from_secs(1), failures_max: 1, ..Health::default() });
    gate.handle.reload(watched).unwrap();
    gate.until("one is down", |stats| {
        stats.pools[0].per_server.iter().map(|server| server.up).eq([true, false])
    });
    let mut sought = both();
    let auto = Auto { floor: 1, ceiling: 3, ..Auto::default() };
    sought.databases[0].auto = Some(auto);
    sought.databases[0].gate.servers = Share::Each.of(auto.start(), 2);
    gate.handle.reload(sought).unwrap();
    let stats = gate.stats();
    assert!(stats.pools[0].control.is_some() && stats.pools[0].slots == 6, "{:?}", stats.pools[0]);
    gate.handle.reload(both()).unwrap();
    assert!(gate.stats().pools[0].control.is_none());
    assert_eq!(gate.stats().pools[0].slots, 4);
    drop(client);
    gate.end();
}

/// A gate that began anew took what was lent for what had been found, and began above the ceiling.
#[test]
fn what_is_lent_of_a_reserve_is_not_taken_for_slots_that_were_found() {
    let sought = |discipline| {
        let mut config = config(1);
        let database = &mut config.databases[0];
        let auto = Auto { floor: 1, ceiling: 2, ..Auto::default() };
        database.auto = Some(auto);
        database.gate.servers = Share::Each.of(auto.start(), 1);
        database.gate.reserve = Some(Reserve { slots: 1, after: Duration::from_millis(50) });
        database.gate.discipline = discipline;
        config
    };
    let gate = Gate::new(sought(DisciplineSpec::Fifo));
    let mut clients: Vec<Raw> = (0..3).map(|_| enter(&gate, "holder")).collect();
    for client in &mut clients {
        assert_eq!(says(client, "begin"), "BEGIN");
    }
    assert_eq!(gate.stats().pools[0].slots, 3, "one is lent");
    gate.handle.reload(sought(DisciplineSpec::Priority)).unwrap();
    let stats = gate.stats();
    assert_eq!((stats.pools[0].slots, stats.pools[0].busy), (2, 3), "{:?}", stats.pools[0]);
    assert_eq!(stats.pools[0].control.as_ref().unwrap().standing, [2]);
    for client in &mut clients {
        assert_eq!(says(client, "commit"), "COMMIT");
    }
    drop(clients);
    gate.end();
}
