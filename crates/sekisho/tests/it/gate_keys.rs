//! Keys of a configuration of the gate for PostgreSQL, each by what the running gate does with it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gatefile::{Disk, Loaded, read, to_monitor};
use monitor::{Config, Finished, Handle, Monitor, PoolStats, Stats};
use pgtest::Bound;
use pgwire::auth::Credential;
use pgwire::secrets::MockKey;
use postgres::{Private, Settings};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::browser::Scratch;
use crate::command::PATIENCE;

/// The server of all tests here; it ends with this process.
struct Office {
    server: Private,
    password: String,
    database: String,
    scratch: Scratch,
}

fn office() -> &'static Office {
    // PostgreSQL's own number, and as many as a test here has at once.
    static CONNECTIONS: Bound = Bound::of(100, 12);
    static OFFICE: OnceLock<Office> = OnceLock::new();
    CONNECTIONS.enter();
    OFFICE.get_or_init(|| {
        let parameters = vec![("fsync".to_owned(), "off".to_owned())];
        let server = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
        let url = server.url().as_str().to_owned();
        crate::tpcc::ask(&url, "create user clerk password 'paper'").unwrap();
        crate::tpcc::ask(&url, "create user guest password 'unlisted'").unwrap();
        let account: tokio_postgres::Config = url.parse().unwrap();
        let password = String::from_utf8(account.get_password().unwrap().to_vec()).unwrap();
        let database = account.get_dbname().unwrap().to_owned();
        let scratch = Scratch::new();
        let users = format!("\"sekisho\" \"{password}\"\n\"clerk\" \"paper\"\n\"asks\" \"\"\n");
        fs::write(scratch.join("userlist.txt"), users).unwrap();
        Office { server, password, database, scratch }
    })
}

/// Parts that differ from file to file: keys before all tables, the database's servers and keys,
/// and tables.
#[derive(Clone, Copy, Default)]
struct Said<'s> {
    head: &'s str,
    /// `HERE` is the server's host and port.
    servers: &'s str,
    database: &'s str,
    tables: &'s str,
}

fn config(said: Said<'_>) -> Config {
    let Office { server, database, scratch, .. } = office();
    let here = format!("host = \"127.0.0.1\", port = {}", server.port());
    let servers = if said.servers.is_empty() { "{ HERE }" } else { said.servers };
    let text = format!(
        "format = 1\nlisten = [\"127.0.0.1:0\"]\nauth.users-file = \"{}\"\n{}\n[[database]]\n\
         name = \"one\"\ndbname = \"{database}\"\nserver = [{}]\n{}\n{}\n",
        scratch.join("userlist.txt").display(),
        said.head,
        servers.replace("HERE", &here),
        said.database,
        said.tables.replace("HERE", &here).replace("DATABASE", database),
    );
    let loaded = read("g.toml", &text, &Disk).and_then(Loaded::to_run);
    let (file, told) = loaded.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(told, [""; 0], "nothing is left aside");
    to_monitor(&file, &Disk, &MockKey::new([7; 32])).unwrap()
}

/// A server that trusts the gate asks for no password: who looks secrets up there needs none in the list.
#[test]
fn who_looks_up_secrets_may_have_none_in_the_list() {
    let config = config(Said { head: "auth.query-user = \"asks\"", ..Said::default() });
    let lookup = config.databases[0].lookup.as_ref().expect("it was said");
    assert_eq!((&lookup.user[..], &lookup.credential), (&b"asks"[..], &Credential::Nothing));
}

struct Gate {
    handle: Handle,
    thread: std::thread::JoinHandle<Finished>,
    runtime: Runtime,
}

impl Gate {
    fn of(said: Said<'_>) -> Gate {
        let mut config = config(said);
        config.record_max = 100_000;
        config.timeouts.drain = Duration::from_secs(10);
        let monitor = Monitor::bind(config).unwrap();
        let handle = monitor.handle();
        let thread = std::thread::spawn(move || monitor.run().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Gate { handle, thread, runtime }
    }

    fn try_enter(&self, user: &str, word: &str, name: &str) -> Result<Client, String> {
        self.enter_by(self.account(user, word, name))
    }

    fn account(&self, user: &str, word: &str, name: &str) -> tokio_postgres::Config {
        let SocketAddr::V4(address) = self.handle.address() else { panic!("it is of IPv4") };
        let mut account = tokio_postgres::Config::new();
        account.host(address.ip().to_string()).port(address.port());
        account.user(user).password(word).dbname(name);
        account
    }

    fn enter_by(&self, account: tokio_postgres::Config) -> Result<Client, String> {
        self.runtime.block_on(async {
            let (client, connection) = account.connect(NoTls).await.map_err(code)?;
            tokio::spawn(connection);
            Ok(client)
        })
    }

    /// A client of the database `one`.
    fn enter(&self) -> Client {
        self.try_enter("sekisho", &office().password, "one").unwrap()
    }

    /// The first column of the first row, or the code of the error.
    fn ask(&self, client: &Client, sql: &str) -> Result<String, String> {
        self.runtime.block_on(ask(client, sql))
    }

    fn stats(&self) -> Stats {
        self.handle.stats().unwrap()
    }

    fn pool(&self) -> PoolStats {
        self.stats().pools.swap_remove(0)
    }

    /// Waits until the figures are so, while clients are served.
    fn until(&self, what: &str, holds: impl Fn(&Stats) -> bool) {
        let began = Instant::now();
        while !holds(&self.stats()) {
            assert!(began.elapsed() < PATIENCE, "{what}: {:?}", self.stats());
            let pause = async { tokio::time::sleep(Duration::from_millis(5)).await };
            self.runtime.block_on(pause);
        }
    }

    fn end(self) -> Finished {
        self.handle.drain().unwrap();
        // What clients have said is passed on here.
        drop(self.runtime);
        let finished = self.thread.join().unwrap();
        for recording in &finished.recordings {
            assert_eq!(recording.as_ref().unwrap().replay(), Ok(()));
        }
        finished
    }
}

fn code(error: tokio_postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

async fn ask(client: &Client, sql: &str) -> Result<String, String> {
    let answer = client.simple_query(sql).await.map_err(code)?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.unwrap_or_default().to_owned())
}

/// Numbers of jobs that each server of the first pool has started.
fn started(gate: &Gate) -> Vec<u64> {
    gate.pool().per_server.iter().map(|server| server.started).collect()
}

#[test]
fn classes_and_the_priorities_of_users_say_who_is_next() {
    let gate = Gate::of(Said {
        head: "discipline = \"priority\"",
        database: "slots = 1\nuser = \"sekisho\"\nmode = \"transaction\"",
        tables: "[[class]]\nname = \"desk\"\napplication-name = \"desk*\"\npriority = 9\n\
                 [[class]]\nname = \"report\"\ntag = \"kind=report\"\npriority = 3\n\
                 [[user]]\nname = \"clerk\"\npriority = 5\n",
        ..Said::default()
    });
    let holder = gate.enter();
    gate.ask(&holder, "begin").unwrap();
    let plain = gate.enter();
    let report = gate.enter();
    let clerk = gate.try_enter("clerk", "paper", "one").unwrap();
    let mut account = gate.account("sekisho", &office().password, "one");
    account.application_name("desk 7");
    let desk = gate.enter_by(account).unwrap();
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    let waiting = [
        ("plain", plain, "select 1"),
        ("report", report, "select 1 /*kind='report'*/"),
        ("clerk", clerk, "select 1"),
        ("desk", desk, "select 1"),
    ];
    for (at, (name, client, sql)) in (1..).zip(waiting) {
        let done = done.clone();
        gate.runtime.spawn(async move {
            ask(&client, sql).await.unwrap();
            done.send(name).unwrap();
        });
        gate.until("it waits", |stats| stats.pools[0].waiting == at);
    }
    gate.ask(&holder, "commit").unwrap();
    for expected in ["desk", "clerk", "report", "plain"] {
        assert_eq!(gate.runtime.block_on(order.recv()), Some(expected));
    }
    let pool = gate.pool();
    let classes: Vec<_> = pool.classes.iter().map(|class| &*class.name).collect();
    assert_eq!(classes, ["other", "desk", "report"]);
    gate.end();
}

#[test]
fn jobs_go_where_their_keys_belong() {
    let servers = "{ HERE }, { HERE }";
    let ranges = Gate::of(Said {
        head: "queues = \"per-server\"\nrouter = { by-key = { bounds = [100] } }\n\
               key = [{ tag = \"shop\" }, { parameter = 1 }]",
        servers,
        ..Said::default()
    });
    let client = ranges.enter();
    // One job asked for the settings of sessions.
    let first = started(&ranges);
    for shop in [5, 500, 100] {
        ranges.ask(&client, &format!("select 1 /*shop='{shop}'*/")).unwrap();
    }
    let then = started(&ranges);
    assert_eq!([then[0] - first[0], then[1] - first[1]], [1, 2]);
    ranges.end();
    let towns = Gate::of(Said {
        head: "queues = \"per-server\"\nkey = [{ tag = \"town\" }]\nrouter = { by-key = { table = \
               { osaka = 1, tokyo = 0 }, default = { server = 1 } } }",
        servers,
        ..Said::default()
    });
    let client = towns.enter();
    let first = started(&towns);
    for town in ["tokyo", "tokyo", "osaka", "nara"] {
        towns.ask(&client, &format!("select 1 /*town='{town}'*/")).unwrap();
    }
    let then = started(&towns);
    assert_eq!([then[0] - first[0], then[1] - first[1]], [2, 2]);
    towns.end();
}

#[test]
fn weights_and_roles_of_servers_are_followed() {
    let gate = Gate::of(Said {
        head: "router = \"weighted\"",
        servers: "{ HERE, weight = 3 }, { HERE }",
        ..Said::default()
    });
    let client = gate.enter();
    let first = started(&gate);
    (0..40).for_each(|_| drop(gate.ask(&client, "select 1").unwrap()));
    let then = started(&gate);
    assert_eq!([then[0] - first[0], then[1] - first[1]], [30, 10]);
    gate.end();
    let gate = Gate::of(Said {
        head: "queues = \"per-server\"\npool.own-writes = \"0s\"",
        servers: "{ HERE }, { HERE, role = \"replica\" }",
        ..Said::default()
    });
    let client = gate.enter();
    let first = started(&gate);
    for sql in ["begin read only", "select 1", "commit", "select 2"] {
        gate.ask(&client, sql).unwrap();
    }
    let then = started(&gate);
    assert_eq!([then[0] - first[0], then[1] - first[1]], [1, 1]);
    gate.end();
}

#[test]
fn quotas_bound_what_pools_have_together() {
    let second = "[[database]]\nname = \"two\"\ndbname = \"DATABASE\"\nserver = [{ HERE }]\n\
                  [[database]]\nname = \"*\"\ndbname = \"DATABASE\"\nserver = [{ HERE }]\n\
                  slots = 1\nslots-all = 1\n[[user]]\nname = \"clerk\"\nslots-all = 2\n";
    let gate = Gate::of(Said {
        head: "pool.slots = 2\nlimits.slots = 3\nlimits.database-slots = 2",
        tables: second,
        ..Said::default()
    });
    let word = &*office().password;
    let clients: Vec<Client> = ["one", "two", "elsewhere"]
        .map(|name| gate.try_enter("sekisho", word, name).unwrap())
        .into();
    let clerk = gate.try_enter("clerk", "paper", "elsewhere").unwrap();
    let slots = |stats: &Stats| {
        let mut all: Vec<_> =
            stats.quotas.iter().map(|quota| (quota.name.clone(), quota.slots)).collect();
        all.sort();
        all
    };
    let expected = [
        ("all", 3),
        ("database elsewhere", 1),
        ("database one", 2),
        ("database two", 2),
        ("user clerk", 2),
    ];
    assert_eq!(slots(&gate.stats()), expected.map(|(name, slots)| (name.to_owned(), slots)));
    for client in &clients {
        gate.ask(client, "begin").unwrap();
    }
    // The clerk's pool has a slot, but its database has no more.
    gate.runtime.spawn(async move { ask(&clerk, "select 1").await });
    gate.until("it waits for the quota of its database", |stats| {
        stats.quotas.iter().any(|one| one.name == "database elsewhere" && one.waiting == 1)
    });
    gate.ask(&clients[2], "commit").unwrap();
    gate.until("it was served", |stats| stats.quotas.iter().all(|one| one.waiting == 0));
    for client in &clients[..2] {
        gate.ask(client, "commit").unwrap();
    }
    gate.end();
}

#[test]
fn a_reserve_is_lent_to_who_has_waited_long() {
    let gate = Gate::of(Said {
        head: "pool.reserve-after = \"100ms\"",
        database: "slots = 1\nreserve = 1",
        tables: "[[user]]\nname = \"clerk\"\nreserve = 0\nwait-max = \"1s\"\n",
        ..Said::default()
    });
    let (holder, other) = (gate.enter(), gate.enter());
    gate.ask(&holder, "begin").unwrap();
    assert_eq!(gate.ask(&other, "select 'lent'").unwrap(), "lent");
    gate.ask(&holder, "commit").unwrap();
    // Somebody who has no reserve waits in vain.
    let clerk = || gate.try_enter("clerk", "paper", "one").unwrap();
    let (holder, other) = (clerk(), clerk());
    gate.ask(&holder, "begin").unwrap();
    assert_eq!(gate.ask(&other, "select 1").unwrap_err(), "53300");
    gate.end();
}

#[test]
fn a_pool_of_one_slot_before_two_servers_is_taken() {
    let gate = Gate::of(Said {
        tables: "[[database]]\nname = \"pair\"\ndbname = \"DATABASE\"\n\
                 server = [{ HERE }, { HERE }]\nslots = 1\n",
        ..Said::default()
    });
    let (user, password) = ("sekisho", office().password.clone());
    let clients = [0, 1].map(|_| gate.try_enter(user, &password, "pair").unwrap());
    for client in clients.iter().cycle().take(6) {
        assert_eq!(gate.ask(client, "select 'served'").unwrap(), "served");
    }
    gate.end();
}

/// Each job went to the host whose turn it was, and had a connection made there and the other's closed for it.
#[test]
fn one_connection_before_two_servers_is_kept_for_all_jobs() {
    let gate = Gate::of(Said {
        tables: "[[database]]\nname = \"pair\"\ndbname = \"DATABASE\"\n\
                 server = [{ HERE }, { HERE }]\nslots = 4\nslots-all = 1\n\
                 [[database]]\nname = \"half\"\ndbname = \"DATABASE\"\n\
                 server = [{ host = \"127.0.0.1\", port = 1 }, { HERE }]\nslots-all = 1\n",
        ..Said::default()
    });
    let (user, password) = ("sekisho", office().password.clone());
    for name in ["pair", "half"] {
        let clients = [0, 1, 2].map(|_| gate.try_enter(user, &password, name).unwrap());
        let asked = clients.iter().cycle().take(9).map(|client| {
            let asked = gate.ask(client, "select pg_backend_pid()").unwrap();
            let stats = gate.stats();
            let pool = stats.pools.iter().find(|pool| pool.database == name).unwrap();
            assert!(pool.servers <= 1, "{name}: {} connections", pool.servers);
            asked
        });
        let asked: std::collections::BTreeSet<String> = asked.collect();
        assert_eq!(asked.len(), 1, "{name}: one connection for all, also where the first is down");
    }
    gate.end();
}

/// One name without an address kept the whole gate from starting.
#[test]
fn a_host_without_an_address_puts_out_its_own_database_alone() {
    let gate = Gate::of(Said {
        tables: "[[database]]\nname = \"lost\"\n\
                 server = [{ host = \"no.such.host.invalid\", port = 5432 }]\n",
        ..Said::default()
    });
    let client = gate.enter();
    assert_eq!(gate.ask(&client, "select 'served'").unwrap(), "served");
    let (user, password) = ("sekisho", office().password.clone());
    assert_eq!(gate.try_enter(user, &password, "lost").unwrap_err(), "08006");
    gate.end();
}

#[test]
fn what_clients_leave_in_sessions_is_as_the_file_has_it() {
    let gate = Gate::of(Said {
        head: "session-state.listen = \"refuse\"\nsession-state.set = \"pin\"\nsession-state.role = \"refuse\"\n\
               session-state.code = \"refuse\"\nsession-state.sequences = \"refuse\"\nsession-state.notice = true\nstartup.track = [\"Work_Mem\"]\n\
               startup.ignore = [\"no_such_setting\"]",
        ..Said::default()
    });
    let client = gate.enter();
    for refused in ["listen bell", "set role clerk", "do $$ begin end $$", "select lastval()"] {
        assert_eq!(gate.ask(&client, refused).unwrap_err(), "0A000", "{refused}");
    }
    gate.ask(&client, "set work_mem = '1MB'").unwrap();
    assert_eq!(gate.stats().pins.len(), 0, "it goes with its client");
    gate.ask(&client, "set statement_timeout = '1h'").unwrap();
    gate.until("it is pinned", |stats| stats.pins.len() == 1);
    let mut account = gate.account("sekisho", &office().password, "one");
    account.options("-c no_such_setting=1");
    let odd = gate.enter_by(account).unwrap();
    assert_eq!(gate.ask(&odd, "select 'served'").unwrap(), "served");
    drop((client, odd));
    gate.end();
}

#[test]
fn secrets_are_looked_up_as_the_file_has_it() {
    let gate = Gate::of(Said { head: "auth.query-user = \"sekisho\"", ..Said::default() });
    let guest = gate.try_enter("guest", "unlisted", "one").unwrap();
    assert_eq!(gate.ask(&guest, "select current_user").unwrap(), "guest");
    assert_eq!(gate.try_enter("guest", "wrong", "one").unwrap_err(), "28P01");
    assert!(gate.stats().auth_queries > 0);
    gate.end();
    // Another question, asked elsewhere, knows nobody.
    let gate = Gate::of(Said {
        database: "query-user = \"sekisho\"\nquery = \"select 'x', null where $1 = ''\"\n\
                   query-database = \"two\"",
        tables: "[[database]]\nname = \"two\"\ndbname = \"DATABASE\"\nserver = [{ HERE }]\n",
        ..Said::default()
    });
    assert_eq!(gate.try_enter("guest", "unlisted", "one").unwrap_err(), "28P01");
    assert!(gate.stats().auth_queries > 0 && gate.stats().auth_queries_failed == 0);
    gate.end();
}

#[test]
fn slots_are_sought_within_the_band_of_the_file() {
    let auto = "[auto]\nfloor = 2\nceiling = 5\n[[user]]\nname = \"clerk\"\nslots = 1\n";
    for (shadow, slots) in [("", 5), ("shadow = true\n", 5)] {
        let gate = Gate::of(Said {
            head: "pool.slots = \"auto\"",
            tables: &auto.replace("[[user]]", &format!("{shadow}[[user]]")),
            ..Said::default()
        });
        let client = gate.enter();
        gate.ask(&client, "select 1").unwrap();
        let clerk = gate.try_enter("clerk", "paper", "one").unwrap();
        gate.ask(&clerk, "select 1").unwrap();
        let pools = gate.stats().pools;
        let control = pools[0].control.as_ref().expect("its slots are sought");
        assert_eq!(control.conduct == gate::Conduct::Shadows, !shadow.is_empty());
        assert_eq!((pools[0].slots, control.band.most), (slots, 5));
        assert_eq!((pools[1].control.is_none(), pools[1].slots), (true, 1), "its own number");
        gate.end();
    }
    // One user's alone.
    let gate = Gate::of(Said {
        tables: "[auto]\nceiling = 7\n[[user]]\nname = \"sekisho\"\nslots = \"auto\"\n",
        ..Said::default()
    });
    let client = gate.enter();
    gate.ask(&client, "select 1").unwrap();
    assert_eq!((gate.pool().control.is_some(), gate.pool().slots), (true, 7));
    gate.end();
}

#[test]
fn administrators_and_metrics_are_as_the_file_has_them() {
    let gate = Gate::of(Said {
        head: "admin.users = [\"sekisho\"]\nadmin.stats-users = [\"clerk\"]\n\
               admin.http = \"127.0.0.1:0\"\nadmin.stats-period = \"7s\"",
        ..Said::default()
    });
    let admin = gate.try_enter("sekisho", &office().password, "pgbouncer").unwrap();
    gate.ask(&admin, "pause").unwrap();
    gate.ask(&admin, "resume").unwrap();
    let clerk = gate.try_enter("clerk", "paper", "pgbouncer").unwrap();
    let version = gate.ask(&clerk, "show version").unwrap();
    assert!(version.starts_with("PgBouncer 1.25.0 console of Sekisho "), "{version}");
    assert_eq!(gate.ask(&clerk, "pause").unwrap_err(), "42501");
    assert!(gate.handle.http().is_some());
    gate.end();
    let gate = Gate::of(Said::default());
    assert_eq!(gate.try_enter("sekisho", &office().password, "pgbouncer").unwrap_err(), "42501");
    gate.end();
}

#[test]
fn servers_are_watched_as_the_file_has_it() {
    let gate = Gate::of(Said {
        head: "queues = \"per-server\"",
        servers: "{ HERE }, { host = \"127.0.0.1\", port = 1 }",
        tables: "[health]\nuser = \"sekisho\"\ninterval = \"1s\"\nfailures-max = 1\n",
        ..Said::default()
    });
    let client = gate.enter();
    gate.until("the one that nobody is behind is down", |stats| {
        stats.pools[0].per_server.iter().map(|server| server.up).eq([true, false])
    });
    assert_eq!(gate.ask(&client, "select 'up'").unwrap(), "up");
    gate.end();
}

#[test]
fn connections_are_kept_as_the_file_has_it() {
    let gate = Gate::of(Said {
        head: "pool.slots-kept = 2",
        database: "user = \"sekisho\"\nslots-kept = 3\nconnect-query = \"set work_mem = '3MB'\"\n\
                   settings = { timezone = \"Asia/Tokyo\" }\nlifetime = \"1s\"",
        ..Said::default()
    });
    gate.until("as many as are kept", |stats| {
        stats.pools.first().is_some_and(|pool| pool.servers_idle == 3)
    });
    let client = gate.enter();
    assert_eq!(gate.ask(&client, "show timezone").unwrap(), "Asia/Tokyo");
    assert_eq!(gate.ask(&client, "show work_mem").unwrap(), "3MB");
    gate.until("old ones are replaced", |stats| stats.pools[0].counters.connects > 4);
    gate.end();
}

#[test]
fn a_database_that_only_the_rest_names_goes_after_connections_unnamed() {
    let gate = Gate::of(Said {
        head: "connections.autodb-idle = \"1ms\"",
        tables: "[[database]]\nname = \"*\"\ndbname = \"DATABASE\"\nserver = [{ HERE }]\n",
        ..Said::default()
    });
    let client = gate.try_enter("sekisho", &office().password, "passing").unwrap();
    assert_eq!(gate.ask(&client, "select 'served'").unwrap(), "served");
    let named = gate.enter();
    assert_eq!(gate.stats().pools.len(), 2);
    drop(client);
    gate.until("it has gone, and the named one has not", |stats| {
        stats.pools.iter().map(|pool| &*pool.database).eq(["one"])
    });
    assert_eq!(gate.ask(&named, "select 'served'").unwrap(), "served");
    drop(named);
    gate.end();
}

#[test]
fn a_gate_with_the_same_file_takes_over_at_take_over() {
    let head = format!("take-over = \"{}\"", office().scratch.join("door").display());
    let said = Said { head: &head, ..Said::default() };
    let old = Gate::of(said);
    let client = old.enter();
    assert_eq!(old.ask(&client, "select 'old'").unwrap(), "old");
    let new = Gate::of(said);
    assert_eq!(new.handle.address(), old.handle.address());
    let Gate { thread, runtime, .. } = old;
    let finished = thread.join().unwrap();
    assert_eq!((finished.cut, finished.stats.clients_handed_over), (0, 1));
    let rows = runtime.block_on(client.simple_query("select 'new'")).unwrap();
    assert!(matches!(&rows[1], SimpleQueryMessage::Row(row) if row.get(0) == Some("new")));
    drop(client);
    new.end();
}
