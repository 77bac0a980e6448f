//! More clients than slots in each mode: every row is the one that was asked for.

use std::rc::Rc;
use std::time::Duration;

use monitor::{Address, Mode};
use pgwire::frame::{Backend, Frontend};
use pgwire::message::write;
use pgwire::startup::Version;
use tokio::task::LocalSet;

use super::{Gate, Raw, ask, database, runtime, server, trusting};

#[test]
fn a_client_is_served() {
    let gate = Gate::of(Mode::Session, 1);
    runtime().block_on(async {
        let client = gate.connect().await;
        assert_eq!(ask(&client, "select 1 + 1").await.unwrap(), "2");
        let row = client.query_one("select $1::text", &[&"nonce"]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "nonce");
    });
    let finished = gate.end();
    assert_eq!(finished.cut, 0);
}

/// Clients that ask by turns in each way that there is, and hold every answer against the question.
fn many_clients(mode: Mode, clients: u32, slots: u32) {
    let gate = Rc::new(Gate::of(mode, slots));
    let runtime = runtime();
    let tasks = LocalSet::new();
    for number in 0..clients {
        let gate = Rc::clone(&gate);
        tasks.spawn_local(async move {
            let client = gate.connect().await;
            let statement = client.prepare("select $1::int4, $2::text").await.unwrap();
            for turn in 0..10_i32 {
                let nonce = format!("client {number}, turn {turn}");
                let row = client.query_one(&statement, &[&turn, &nonce]).await.unwrap();
                assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (turn, nonce.clone()));
                let told = ask(&client, &format!("select '{nonce}'")).await.unwrap();
                assert_eq!(told, nonce);
            }
        });
    }
    runtime.block_on(tasks);
    let gate = Rc::try_unwrap(gate).unwrap_or_else(|_| panic!("all clients are done"));
    let finished = gate.end();
    let pool = &finished.stats.pools[0];
    assert!(pool.servers == 0 && pool.slots == slots, "{pool:?}");
    assert!(pool.counters.query_count >= u64::from(clients) * 21, "{pool:?}");
}

#[test]
fn more_clients_than_slots_in_session_mode() {
    many_clients(Mode::Session, 12, 3);
}

#[test]
fn more_clients_than_slots_in_transaction_mode() {
    many_clients(Mode::Transaction, 40, 3);
}

#[test]
fn more_clients_than_slots_in_statement_mode() {
    many_clients(Mode::Statement, 40, 3);
}

#[test]
fn a_transaction_of_several_statements_is_refused_in_statement_mode() {
    let gate = Gate::new(trusting(database(Mode::Statement, 1)));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("select 1");
    assert_eq!(client.answer(), ["1", "SELECT 1", "ZI"]);
    client.query("begin");
    assert_eq!(client.answer(), ["BEGIN", "ZT"]);
    let words = "FATAL 0A000 transaction blocks are not allowed in statement mode";
    assert_eq!(client.last_words(), words);
    let mut next = Raw::enter(&gate, Version::V3_0, &[]);
    next.query("select now() = statement_timestamp()");
    assert_eq!(next.answer(), ["t", "SELECT 1", "ZI"], "it was rolled back");
    gate.end();
}

#[test]
fn large_rows_and_texts_pass_in_both_directions() {
    for mode in [Mode::Session, Mode::Transaction] {
        let gate = Gate::of(mode, 1);
        runtime().block_on(async {
            let client = gate.connect().await;
            let text = "0123456789".repeat(300_000);
            let row = client.query_one("select $1::text, length($1)", &[&text]).await.unwrap();
            assert!(row.get::<_, String>(0) == text && row.get::<_, i32>(1) == 3_000_000);
            let told = ask(&client, &format!("select md5('{text}')")).await.unwrap();
            assert_eq!(
                told,
                ask(&client, "select md5(repeat('0123456789', 300000))").await.unwrap()
            );
            let rows = client
                .query("select g, repeat('x', g % 997) from generate_series(1, 20000) g", &[]);
            let rows = rows.await.unwrap();
            assert_eq!(rows.len(), 20_000);
            for (at, row) in rows.iter().enumerate() {
                assert_eq!(row.get::<_, i32>(0), at as i32 + 1);
                assert_eq!(row.get::<_, String>(1).len(), (at + 1) % 997);
            }
        });
        gate.end();
    }
}

#[test]
fn a_prepared_statement_goes_with_its_client_over_many_servers() {
    const SERVERS: u32 = 12;
    let gate = Gate::of(Mode::Transaction, SERVERS);
    runtime().block_on(async {
        let mut warm = Vec::new();
        for _ in 0..SERVERS {
            let client = gate.connect().await;
            ask(&client, "begin").await.unwrap();
            warm.push(client);
        }
        for client in &warm {
            ask(client, "commit").await.unwrap();
        }
        let (one, other) = (gate.connect().await, gate.connect().await);
        let sum = one.prepare("select $1::int4 + 1, pg_backend_pid()").await.unwrap();
        let product = other.prepare("select $1::int4 * 2, pg_backend_pid()").await.unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for turn in 0..3 * SERVERS.cast_signed() {
            for (client, statement, expected) in
                [(&one, &sum, turn + 1), (&other, &product, turn * 2)]
            {
                let row = client.query_one(statement, &[&turn]).await.unwrap();
                assert_eq!(row.get::<_, i32>(0), expected);
                seen.insert(row.get::<_, i32>(1));
            }
        }
        assert!(seen.len() >= 10, "{seen:?}");
    });
    let finished = gate.end();
    assert_eq!(finished.stats.pools[0].counters.connects, u64::from(SERVERS));
}

#[test]
fn rows_are_copied_in_and_out() {
    for mode in [Mode::Session, Mode::Transaction] {
        let gate = Gate::new(trusting(database(mode, 1)));
        let table = format!("copied_in_{mode}");
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        client.query(&format!("create table {table} (x text)"));
        client.answer();
        for ends in [Frontend::CopyDone, Frontend::CopyFail] {
            client.query(&format!("copy {table} from stdin"));
            assert_eq!(client.hear().0, Backend::CopyInResponse);
            let row = "0123456789".repeat(100) + "\n";
            let mut out = Vec::new();
            for _ in 0..2000 {
                write::message(&mut out, Frontend::CopyData, |out| out.extend(row.as_bytes()));
            }
            write::message(&mut out, ends, |out| {
                if ends == Frontend::CopyFail {
                    out.extend_from_slice(b"enough\0");
                }
            });
            client.say(&out);
            let told = client.answer();
            let expected = if ends == Frontend::CopyDone { "COPY 2000" } else { "ERROR 57014" };
            assert!(told[0].starts_with(expected) && told[1] == "ZI", "{told:?}");
        }
        client.query(&format!("copy {table} to stdout"));
        let told = client.answer();
        let rows = told.iter().filter(|tag| *tag == "CopyData").count();
        assert_eq!((rows, &*told[told.len() - 2]), (2000, "COPY 2000"));
        client.query(&format!("drop table {table}"));
        client.answer();
        drop(client);
        gate.end();
    }
}

#[test]
fn a_large_parse_is_waited_for_with_the_slot() {
    // It must be whole before it can get the gate's name; meanwhile its client gave the slot back and
    // asked for it again without end.
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let text = "x".repeat(200_000);
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("large\0select length('{text}')\0\0\0").as_bytes());
    });
    write::message(&mut out, Frontend::Bind, |out| out.extend_from_slice(b"\0large\0\0\0\0\0\0\0"));
    write::message(&mut out, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    write::bare(&mut out, Frontend::Sync);
    for part in out.chunks(30_000) {
        client.say(part);
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = ["ParseComplete", "BindComplete", "200000", "SELECT 1", "ZI"];
    assert_eq!(client.answer(), told);
    let recording = gate.handle.recordings().unwrap().swap_remove(0).unwrap();
    // The welcome connection's job and this one, each an arrival and a departure.
    assert_eq!(recording.steps.len(), 4);
    gate.end();
}

#[test]
fn servers_are_reached_by_unix_sockets_and_closed_when_nobody_needs_them() {
    let url = server().socket_url();
    let socket: tokio_postgres::Config = url.as_str().parse().unwrap();
    let tokio_postgres::config::Host::Unix(folder) = &socket.get_hosts()[0] else {
        panic!("{url:?}")
    };
    let mut database = database(Mode::Transaction, 2);
    database.servers = vec![Address::Unix(folder.join(format!(".s.PGSQL.{}", server().port())))];
    let mut config = trusting(database);
    config.timeouts.server_idle = Duration::from_millis(100);
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    for _ in 0..2 {
        client.query("select inet_server_addr() is null");
        assert_eq!(client.answer(), ["t", "SELECT 1", "ZI"]);
        gate.until("it is closed", |stats| stats.pools[0].servers == 0);
    }
    gate.end();
}

#[test]
fn who_prepares_in_sql_keeps_its_server_until_it_goes() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 2)));
    let mut keeps = Raw::enter(&gate, Version::V3_0, &[]);
    let mut other = Raw::enter(&gate, Version::V3_0, &[]);
    keeps.query("prepare mine as select 'kept'");
    assert_eq!(keeps.answer(), ["PREPARE", "ZI"]);
    for _ in 0..4 {
        other.query("select count(*) from pg_prepared_statements");
        assert_eq!(other.answer(), ["0", "SELECT 1", "ZI"]);
        keeps.query("execute mine");
        assert_eq!(keeps.answer(), ["kept", "SELECT 1", "ZI"]);
    }
    assert_eq!(gate.stats().pools[0].busy, 1);
    drop(keeps);
    gate.until("its slot is back", |stats| stats.pools[0].busy == 0);
    for _ in 0..4 {
        other.query("select count(*) from pg_prepared_statements");
        assert_eq!(other.answer(), ["0", "SELECT 1", "ZI"]);
    }
    assert_eq!(gate.stats().pools[0].counters.connects, 2, "it was cleaned, not closed");
    gate.end();
}
