//! Connections to servers that are kept, checked, set up and renewed; servers that let nobody in; and
//! clients that stop reading.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use monitor::{Address, Check, Config, Database, Health, Maintenance, Mode, Quotas};
use pgwire::frame::Backend;
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::{Version, write_startup};
use postgres::{Private, Settings};

use super::looking::get;
use super::passage::Passage;
use super::{
    Gate, Raw, ask, database, directly, login, password, runtime, server, shown, trusting,
};

fn says(client: &mut Raw, sql: &str) -> String {
    client.query(sql);
    client.answer().swap_remove(0)
}

/// The same database with a forced user, whose pool is there from the start on.
fn forced(slots: u32, maintenance: Maintenance) -> Database {
    let mut database = database(Mode::Transaction, slots);
    database.forced = Some(b"sekisho".to_vec());
    database.maintenance = maintenance;
    database
}

#[test]
fn connections_are_there_before_anybody_asks() {
    let maintenance = Maintenance {
        slots_kept: 2,
        idle: Some(Duration::from_millis(1)),
        ..Maintenance::default()
    };
    let gate = Gate::new(trusting(forced(3, maintenance)));
    let kept = |gate: &Gate| {
        gate.until("two are kept", |stats| {
            stats.pools.first().is_some_and(|pool| (pool.servers, pool.servers_idle) == (2, 2))
        });
    };
    kept(&gate);
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    assert_eq!(gate.stats().pools[0].counters.connects, 2, "what clients are told is known");
    for client in &mut clients[..2] {
        assert_eq!(says(client, "begin"), "BEGIN");
    }
    assert_eq!(gate.stats().pools[0].counters.connects, 2);
    assert_eq!(says(&mut clients[2], "begin"), "BEGIN");
    assert_eq!(gate.stats().pools[0].servers, 3);
    for client in &mut clients {
        assert_eq!(says(client, "commit"), "COMMIT");
    }
    // The third one goes when it is idle, the two stay.
    kept(&gate);
    drop(clients);
    gate.end();
}

#[test]
fn who_comes_while_a_connection_is_made_for_nobody_gets_it() {
    let maintenance = Maintenance { slots_kept: 1, ..Maintenance::default() };
    let gate = Gate::new(trusting(forced(1, maintenance)));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 'served'"), "served");
    assert_eq!(gate.stats().pools[0].counters.connects, 1);
    drop(client);
    gate.end();
}

#[test]
fn a_pool_that_nobody_uses_keeps_nothing_unless_its_user_is_forced() {
    let mut database = database(Mode::Transaction, 2);
    database.maintenance = Maintenance {
        slots_kept: 2,
        idle: Some(Duration::from_millis(1)),
        ..Maintenance::default()
    };
    let gate = Gate::new(trusting(database));
    let client = Raw::enter(&gate, Version::V3_0, &[]);
    gate.until("two are kept", |stats| stats.pools[0].servers_idle == 2);
    drop(client);
    gate.until("none is kept", |stats| stats.pools[0].servers == 0);
    gate.end();
}

/// All that were made at once ended at once, and were all made anew while clients waited.
#[test]
fn connections_of_one_age_are_renewed_one_after_the_other() {
    let lifetime = Some(Duration::from_secs(4));
    let maintenance = Maintenance { slots_kept: 4, lifetime, ..Maintenance::default() };
    let mut database = forced(4, maintenance);
    database.settings = vec![("application_name".into(), "of one age".into())];
    let gate = Gate::new(trusting(database));
    gate.until("four are kept", |stats| {
        stats.pools.first().is_some_and(|pool| pool.servers_idle == 4)
    });
    gate.until("all are renewed", |stats| stats.pools[0].counters.connects >= 8);
    gate.until("and there", |stats| stats.pools[0].servers_idle == 4);
    let spread = runtime().block_on(async {
        let sql = "select extract(epoch from max(backend_start) - min(backend_start)) \
                   from pg_stat_activity where application_name = 'of one age'";
        ask(&directly().await, sql).await.unwrap()
    });
    // A second between two, and the sweep comes each second.
    let spread: f64 = spread.parse().unwrap();
    assert!(spread > 2.0, "{spread} s from the first to the last");
    gate.end();
}

#[test]
fn a_connection_that_fails_its_check_is_replaced_and_nobody_hears_of_it() {
    for query in ["select 1/0", "select pg_terminate_backend(pg_backend_pid())", "", "select 1"] {
        let mut config = trusting(database(Mode::Transaction, 1));
        config.check = Some(Check { query: query.to_owned(), after: Duration::ZERO });
        let gate = Gate::new(config);
        let mut client = Raw::enter(&gate, Version::V3_0, &[("application_name", "checked")]);
        let mut processes = BTreeSet::new();
        for _ in 0..4 {
            client.query("select pg_backend_pid()");
            let answer = client.answer();
            assert_eq!(&answer[1..], ["SELECT 1", "ZI"], "{query}");
            processes.insert(answer[0].clone());
        }
        let replaced = if query.len() > 8 { 4 } else { 1 };
        assert_eq!(processes.len(), replaced, "{query}");
        let pool = &gate.stats().pools[0];
        assert_eq!((pool.servers, pool.busy), (1, 0));
        assert_eq!(pool.wait.len(), 5, "each job has had one slot, the one that asked too");
        drop(client);
        gate.end();
    }
    // One that was not idle for so long is not asked.
    let mut config = trusting(database(Mode::Transaction, 1));
    config.check = Some(Check { query: "select 1/0".into(), after: Duration::from_secs(3600) });
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let process = says(&mut client, "select pg_backend_pid()");
    assert_eq!(says(&mut client, "select pg_backend_pid()"), process);
    drop(client);
    gate.end();
}

/// Each of the idle connections was asked in turn, and given its time: of a pool of twenty that a
/// firewall had forgotten, who came next waited for minutes.
#[test]
fn connections_that_were_forgotten_together_are_not_waited_for_one_by_one() {
    let patience = Duration::from_secs(3);
    // One is asked how it is before it is used, and where none is, it is given settings.
    for check in [Some(Check { after: Duration::ZERO, ..Check::default() }), None] {
        let passage = Passage::to(([127, 0, 0, 1], server().port()).into());
        let mut database = database(Mode::Transaction, 4);
        database.servers = vec![Address::Tcp(passage.address())];
        let mut config = trusting(database);
        config.check = check;
        (config.timeouts.connect, config.timeouts.clean) = (patience, patience);
        let gate = Gate::new(config);
        let mut clients: Vec<Raw> = (0..4).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
        for sql in ["begin", "commit"] {
            for client in &mut clients {
                says(client, sql);
            }
        }
        gate.until("all are idle", |stats| stats.pools[0].servers_idle == 4);
        passage.forgets();
        let mut next = Raw::enter(&gate, Version::V3_0, &[("application_name", "next")]);
        let began = Instant::now();
        assert_eq!(says(&mut next, "select 'served'"), "served");
        let time = began.elapsed();
        assert!(time >= patience && time < 3 * patience, "{time:?}");
        assert_eq!((passage.links(), gate.stats().pools[0].servers), (5, 1));
        // Those that have been heard of since are trusted.
        assert_eq!(says(&mut next, "select 'served'"), "served");
        assert_eq!(passage.links(), 5);
        drop((clients, next));
        gate.end();
    }
}

#[test]
fn a_fresh_session_is_set_up_once_and_again_when_it_was_discarded() {
    for mode in [Mode::Transaction, Mode::Session] {
        let mut database = database(mode, 1);
        let query = "create temp table started as select 1 as one".to_owned();
        database.maintenance.connect_query = Some(query);
        database.settings = vec![("work_mem".into(), "7MB".into())];
        let gate = Gate::new(trusting(database));
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        for _ in 0..3 {
            assert_eq!(says(&mut client, "select one from started"), "1");
            assert_eq!(says(&mut client, "show work_mem"), "7MB");
        }
        says(&mut client, "set work_mem to '8MB'");
        assert_eq!(says(&mut client, "show work_mem"), "8MB");
        drop(client);
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        assert_eq!(says(&mut client, "show work_mem"), "7MB", "{mode}");
        says(&mut client, "set work_mem to '8MB'");
        says(&mut client, "reset work_mem");
        assert_eq!(says(&mut client, "show work_mem"), "7MB", "{mode}");
        // What cannot be followed: the server is discarded behind it.
        says(&mut client, "set session authorization sekisho");
        drop(client);
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        assert_eq!(says(&mut client, "select one from started"), "1", "{mode}");
        assert_eq!(gate.stats().pools[0].counters.connects, 1, "{mode}");
        drop(client);
        gate.end();
    }
}

#[test]
fn a_session_that_cannot_be_set_up_is_not_used() {
    let mut database = database(Mode::Transaction, 1);
    database.maintenance.connect_query = Some("select 1/0".into());
    let gate = Gate::new(trusting(database));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("select 1");
    let of = "ERROR 22012 the server refuses what is asked on each fresh connection to database";
    for _ in 0..2 {
        let words = client.answer();
        assert!(words[0].starts_with(of) && words[1..] == ["ZI"], "{words:?}");
        client.query("select 1");
    }
    drop(client);
    gate.until("it was closed", |stats| (stats.pools[0].servers, stats.pools[0].busy) == (0, 0));
    gate.end();
}

/// A server of its own, of the same password as all others.
fn start() -> Private {
    let parameters = [("fsync", "off"), ("shared_buffers", "4MB")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings { parameters: parameters.to_vec(), ..Settings::default() };
    Private::start(&settings).unwrap()
}

/// Starts a server again that was killed: its last process may not have ended yet.
fn comes_back(one: &mut Private) {
    let began = Instant::now();
    while let Err(error) = one.restart() {
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A gate before a server of its own, and what becomes of those who wait while that is gone.
fn before(one: &Private, unreachable_max: Option<Duration>) -> Config {
    let mut database = database(Mode::Transaction, 1);
    database.servers = vec![Address::Tcp(([127, 0, 0, 1], one.port()).into())];
    database.login = login(one);
    let mut config = trusting(database);
    config.unreachable_max = unreachable_max;
    config
}

/// Who waited for a server that restarts was told that it cannot be reached, at once.
#[test]
fn who_waits_for_a_server_that_restarts_is_served_when_it_is_back() {
    let mut one = start();
    let mut config = before(&one, None);
    config.admin.http = Some(([127, 0, 0, 1], 0).into());
    let gate = Gate::new(config);
    let page = gate.handle.http().expect("it was asked for");
    assert_eq!(get(page, "/readyz"), (200, "ok\n".to_owned()));
    let mut clients: Vec<Raw> = (0..6).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    assert_eq!(says(&mut clients[0], "begin"), "BEGIN");
    for client in &mut clients[1..] {
        client.query("select 'served'");
    }
    gate.until("they wait", |stats| stats.pools[0].waiting == 5);
    one.kill().unwrap();
    // What has begun is lost with its server.
    let words = clients[0].last_words();
    assert!(words.starts_with("FATAL 08006 the server has closed the connection"), "{words}");
    gate.until("it was tried", |stats| stats.pools[0].counters.connects_failed > 2);
    // Who comes while it is gone waits as well, and so does who has not asked yet.
    let mut late = Raw::enter(&gate, Version::V3_0, &[]);
    late.query("select 'served'");
    gate.until("all wait", |stats| stats.pools[0].waiting == 6);
    // The story: a balancer was told to send more of them.
    assert_eq!(get(page, "/readyz"), (503, "no server is up\n".to_owned()));
    comes_back(&mut one);
    clients.push(late);
    for client in &mut clients[1..] {
        assert_eq!(client.answer(), ["served", "SELECT 1", "ZI"]);
    }
    gate.until("the slot is back", |stats| stats.pools[0].busy == 0);
    assert_eq!(get(page, "/readyz"), (200, "ok\n".to_owned()));
    gate.end();
}

#[test]
fn who_has_waited_in_vain_for_a_server_hears_why_it_cannot_be_reached() {
    let mut one = start();
    let mut config = before(&one, None);
    config.databases[0].gate.wait_max = Some(Duration::from_millis(1500));
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "select 1"), "1");
    one.kill().unwrap();
    // What is sent before the gate hears of the end has begun, and is lost with its server.
    gate.until("the end of its server is heard of", |stats| stats.pools[0].servers == 0);
    let began = Instant::now();
    client.query("select 1");
    let words = client.answer();
    assert!(words[0].starts_with("ERROR 08006 the server cannot be reached"), "{words:?}");
    assert!(began.elapsed() >= Duration::from_millis(1500), "not before its deadline");
    let counters = gate.stats().pools[0].counters;
    assert_eq!((counters.refused_unreachable, counters.refused_deadline), (1, 0));
    gate.end();
}

/// The story: a limit of its own could not be said, and with one the wait would have begun anew whenever
/// the server was tried, each second: for ever.
#[test]
fn who_waits_for_a_server_that_is_gone_does_so_for_its_own_time() {
    let mut one = start();
    let gate = Gate::new(before(&one, Some(Duration::from_millis(2500))));
    let [mut first, mut second] = [0; 2].map(|_| Raw::enter(&gate, Version::V3_0, &[]));
    assert_eq!(says(&mut first, "select 1"), "1");
    one.kill().unwrap();
    gate.until("the end of its server is heard of", |stats| stats.pools[0].servers == 0);
    let began = Instant::now();
    first.query("select 1");
    std::thread::sleep(Duration::from_millis(1200));
    second.query("select 2");
    for (client, longest) in [(&mut first, 2500), (&mut second, 3700)] {
        let words = client.answer();
        assert!(words[0].starts_with("ERROR 08006 the server cannot be reached"), "{words:?}");
        let waited = began.elapsed();
        let [earliest, latest] = [longest, 10_000].map(Duration::from_millis);
        assert!(earliest <= waited && waited < latest, "{waited:?}: each from when it came");
    }
    let pool = &gate.stats().pools[0];
    let counters = pool.counters;
    assert!(counters.connects_failed > 2, "it was tried meanwhile: {counters:?}");
    assert_eq!((counters.refused_unreachable, counters.refused_deadline), (2, 0));
    comes_back(&mut one);
    assert_eq!(says(&mut first, "select 3"), "3", "it is back before it has waited for that long");
    assert_eq!(says(&mut second, "select 4"), "4");
    gate.until("the slot is back", |stats| stats.pools[0].busy == 0);
    gate.end();
}

/// Those who waited tried the dead server one after the other, each until its connection failed.
#[test]
fn who_waits_for_a_server_that_has_died_is_told_at_once_and_served_when_it_is_back() {
    let mut one = start();
    let gate = Gate::new(before(&one, Some(Duration::ZERO)));
    let mut clients: Vec<Raw> = (0..6).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    assert_eq!(says(&mut clients[0], "begin"), "BEGIN");
    for client in &mut clients[1..] {
        client.query("select 1");
    }
    gate.until("they wait", |stats| stats.pools[0].waiting == 5);
    one.kill().unwrap();
    for client in &mut clients[1..] {
        let words = client.answer();
        let of = "ERROR 08006 the server cannot be reached";
        assert!(words[0].starts_with(of) && words[1..] == ["ZI"], "{words:?}");
    }
    let failed = gate.stats().pools[0].counters.connects_failed;
    assert_eq!(failed, 1, "one has tried for all");
    // It had a transaction there.
    let words = clients[0].last_words();
    assert!(words.starts_with("FATAL 08006 the server has closed the connection"), "{words}");
    comes_back(&mut one);
    let began = Instant::now();
    let mut tries = 0;
    // Their sessions go on; and what newcomers are told at login is known, so they get in.
    clients[0] = Raw::enter(&gate, Version::V3_0, &[]);
    for client in &mut clients {
        while {
            client.query("select 'back'");
            client.answer()[0] != "back"
        } {
            tries += 1;
            assert!(began.elapsed() < Duration::from_secs(30), "{tries} tries and not served");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    gate.until("the slot is back", |stats| stats.pools[0].busy == 0);
    gate.end();
}

#[test]
fn a_server_that_lets_nobody_in_is_told_of_in_its_own_words() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.databases[0].login = login(server());
    config.databases[0].target = Some("nowhere".into());
    let gate = Gate::new(config);
    for _ in 0..4 {
        let mut raw = Raw::connect(&gate);
        raw.start(Version::V3_0, &[]);
        let mut heard = raw.hear();
        while heard.0 != Backend::ErrorResponse {
            heard = raw.hear();
        }
        assert_eq!(shown(&heard.1), "FATAL 3D000 database \"nowhere\" does not exist");
    }
    let failed = gate.stats().pools[0].counters.connects_failed;
    let tried = gate.stats().logins_failed;
    assert!((1..=4).contains(&failed) && tried == 4, "{failed} of {tried}");
    assert_eq!(gate.stats().pools[0].servers, 0);
    gate.end();
}

/// A client that does not read held its server for as long as it liked.
#[test]
fn a_client_that_stops_reading_loses_its_server() {
    for (mode, sql) in [
        (Mode::Transaction, "select repeat('x', 1000) from generate_series(1, 10000000)"),
        (Mode::Session, "select repeat('x', 30000000) from generate_series(1, 100)"),
    ] {
        let mut config = trusting(database(mode, 1));
        config.timeouts.stalled = Some(Duration::from_secs(1));
        let gate = Gate::new(config);
        let mut stalled = Raw::enter(&gate, Version::V3_0, &[]);
        stalled.query(sql);
        gate.until("it has a server", |stats| stats.pools[0].busy == 1);
        let mut next = Raw::enter(&gate, Version::V3_0, &[]);
        assert_eq!(says(&mut next, "select 'served'"), "served", "{mode}");
        gate.until("its session ends", |stats| stats.clients == 1);
        drop((stalled, next));
        gate.end();
    }
    // Whoever reads, however slowly, keeps it.
    let mut config = trusting(database(Mode::Transaction, 1));
    config.timeouts.stalled = Some(Duration::from_secs(4));
    let gate = Gate::new(config);
    let mut slow = Raw::enter(&gate, Version::V3_0, &[]);
    slow.query("select repeat('x', 100000) from generate_series(1, 400)");
    let began = Instant::now();
    let mut rows = 0;
    while let (tag, _) = slow.hear()
        && tag != Backend::ReadyForQuery
    {
        assert_ne!(tag, Backend::ErrorResponse);
        rows += usize::from(tag == Backend::DataRow);
        std::thread::sleep(Duration::from_millis(15));
    }
    assert!(rows == 400 && began.elapsed() > Duration::from_secs(5), "{rows}");
    drop(slow);
    gate.end();
}

/// Each name took memory for ever, and behind the thousandth nobody got in.
#[test]
fn databases_that_nobody_has_named_go_when_nobody_uses_them() {
    let mut rest = database(Mode::Transaction, 1);
    rest.target = Some(std::mem::replace(&mut rest.name, Database::REST.to_owned()));
    let mut named = rest.clone();
    named.name = "named".into();
    let mut config = trusting(rest);
    config.databases.push(named);
    runtime().block_on(async {
        ask(&directly().await, "create user passing_guest password 'paper'").await.unwrap();
    });
    let users = format!(
        "\"sekisho\" \"{}\"\n\"passing_guest\" \"paper\"\n",
        String::from_utf8(password()).unwrap()
    );
    config.users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
    config.limits.pools = 4;
    config.quotas = Quotas { database: Some(1), user: Some(9), ..Quotas::default() };
    let gate = Gate::new(config);
    let mut kept = [of(&gate, "named").unwrap(), of(&gate, "first").unwrap()];
    for at in 0..50 {
        let mut client = of(&gate, &format!("unnamed {at}")).unwrap();
        assert_eq!(says(&mut client, "select 'served'"), "served");
        drop(client);
        gate.until("it has gone", |stats| stats.clients == 2);
        let stats = gate.stats();
        let names: BTreeSet<&str> = stats.pools.iter().map(|pool| &*pool.database).collect();
        assert!(names.len() <= 4 && names.contains("named") && names.contains("first"));
        assert_eq!(names.len(), stats.pools.len(), "each has one");
        assert_eq!(stats.quotas.len(), names.len() + 1, "one each, and the user's");
    }
    // The one that was used last is there still, the others are not. It has a pool for another user,
    // and does not go for that itself.
    assert!(gate.stats().pools.iter().any(|pool| pool.database == "unnamed 49"));
    for name in ["unnamed 48", "unnamed 49"] {
        drop(of_user(&gate, "passing_guest", name).unwrap());
        gate.until("it has gone", |stats| stats.clients == 2);
        let stats = gate.stats();
        let pools: Vec<_> = stats.pools.iter().filter(|pool| pool.database == name).collect();
        assert!(pools.iter().any(|pool| pool.user == "passing_guest"), "{name}");
        assert!(stats.pools.len() <= 4 && stats.pools.iter().all(|pool| !pool.database.is_empty()));
    }
    let more = [of(&gate, "more").unwrap(), of(&gate, "and more").unwrap()];
    let words = of(&gate, "too many").err().unwrap();
    assert_eq!(words, "FATAL 53400 there are too many pools: each database and user has one");
    for client in &mut kept {
        assert_eq!(says(client, "select 'served'"), "served");
    }
    drop((kept, more));
    gate.end();
}

#[test]
fn a_database_that_nobody_has_named_goes_after_a_while() {
    let mut rest = database(Mode::Transaction, 1);
    rest.target = Some(std::mem::replace(&mut rest.name, Database::REST.to_owned()));
    let mut config = trusting(rest);
    config.timeouts.autodb_idle = Some(Duration::from_millis(1));
    let gate = Gate::new(config);
    for round in 0..3 {
        let mut client = of(&gate, "passing").unwrap();
        assert_eq!(says(&mut client, "select 'served'"), "served", "{round}");
        assert_eq!(gate.stats().pools.len(), 1);
        drop(client);
        gate.until("it has gone", |stats| stats.pools.is_empty());
    }
    gate.end();
}

/// Those that had been named before stayed for good, with a probe at each server, and took the room of
/// others: only those that had come by `*` were looked at.
#[test]
fn a_database_that_a_reload_has_left_out_goes_after_a_while() {
    for has_rest in [true, false] {
        let passage = Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port())));
        let config = |names: &[&str]| {
            let mut rest = database(Mode::Transaction, 1);
            rest.target = Some(std::mem::replace(&mut rest.name, Database::REST.to_owned()));
            let health = Some(Health { interval: Duration::from_secs(1), ..Health::default() });
            let mut config = trusting(rest.clone());
            config.databases = vec![Database { name: "stays".to_owned(), health, ..rest.clone() }];
            if names.contains(&"left") {
                let servers = vec![Address::Tcp(passage.address())];
                let name = "left".to_owned();
                config.databases.push(Database { name, health, servers, ..rest.clone() });
            }
            config.databases.extend(has_rest.then_some(rest));
            config.timeouts.autodb_idle = Some(Duration::from_millis(1));
            config
        };
        let gate = Gate::new(config(&["left", "stays"]));
        let mut left = of(&gate, "left").unwrap();
        let mut stays = of(&gate, "stays").unwrap();
        gate.handle.reload(config(&["stays"])).unwrap();
        for client in [&mut left, &mut stays] {
            assert_eq!(says(client, "select 'served'"), "served");
        }
        assert_eq!(gate.stats().pools.len(), 2);
        drop((left, stays));
        gate.until("it has gone", |stats| stats.pools.len() == 1);
        assert_eq!(gate.stats().pools[0].database, "stays");
        passage.said();
        std::thread::sleep(Duration::from_millis(2100));
        let said = passage.said();
        // Connections that were left say Terminate when the pool has gone.
        let mut asked = said.chunks(5).filter(|message| *message != b"X\0\0\0\x04");
        assert_eq!(asked.next(), None, "it is asked no more: {}", said.escape_ascii());
        assert_eq!(gate.stats().pools.len(), 1);
        let again = of(&gate, "left");
        match has_rest {
            // Whoever asks for it comes by `*`.
            true => assert_eq!(says(&mut again.unwrap(), "select 'served'"), "served"),
            false => assert!(again.err().unwrap().contains("3D000")),
        }
        gate.end();
    }
}

/// A client of a database, or why it does not get in.
fn of(gate: &Gate, database: &str) -> Result<Raw, String> {
    of_user(gate, "sekisho", database)
}

fn of_user(gate: &Gate, user: &str, database: &str) -> Result<Raw, String> {
    let mut raw = Raw::connect(gate);
    let parameters = [(&b"user"[..], user.as_bytes()), (b"database", database.as_bytes())];
    let mut out = Vec::new();
    write_startup(&mut out, Version::V3_0, parameters).unwrap();
    raw.say(&out);
    loop {
        match raw.hear() {
            (Backend::ReadyForQuery, _) => return Ok(raw),
            (Backend::ErrorResponse, body) => return Err(shown(&body)),
            _ => {}
        }
    }
}
