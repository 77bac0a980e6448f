//! Clients and servers that go: in transactions, at any byte, idle and busy; and the monitor's own end.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use monitor::{Address, Mode};
use pgsession::sql::SequenceChoice;
use pgwire::frame::Backend;
use pgwire::message::{Status, write};
use pgwire::startup::{Version, write_startup};

use super::passage::Passage;
use super::{Gate, Raw, ask, code, config, database, directly, runtime, server, shown, trusting};

#[test]
fn a_transaction_whose_client_goes_is_rolled_back_and_its_slot_comes_back() {
    for mode in [Mode::Session, Mode::Transaction] {
        let gate = Gate::new(trusting(database(mode, 1)));
        let table = format!("left_in_{mode}");
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        client.query(&format!("create table {table} (x int)"));
        client.answer();
        client.query(&format!("begin; insert into {table} values (1)"));
        assert_eq!(client.answer(), ["BEGIN", "INSERT 0 1", "ZT"]);
        drop(client);
        let mut next = Raw::enter(&gate, Version::V3_0, &[]);
        next.query(&format!("select count(*) from {table}"));
        assert_eq!(next.answer(), ["0", "SELECT 1", "ZI"]);
        next.query(&format!("drop table {table}"));
        next.answer();
        assert_eq!(gate.stats().pools[0].counters.connects, 1, "the server was kept");
        drop(next);
        gate.end();
    }
}

/// The server was giving the client back what that had reset in its transaction: its answer was taken for
/// one that nobody had asked for, and the connection was closed.
#[test]
fn who_goes_while_it_is_given_back_what_it_has_reset_costs_no_connection() {
    let passage = Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port())));
    let mut database = database(Mode::Transaction, 1);
    database.servers = vec![Address::Tcp(passage.address())];
    let gate = Gate::new(trusting(database));
    let mut next = Raw::enter(&gate, Version::V3_0, &[]);
    for round in 0..3 {
        let mut client = Raw::enter(&gate, Version::V3_0, &[("work_mem", "99kB")]);
        client.query("begin; create table of_a_moment (n int)");
        assert_eq!(client.answer(), ["BEGIN", "CREATE TABLE", "ZT"]);
        passage.falls_silent_after("99kB");
        client.query("reset work_mem");
        assert_eq!(client.answer(), ["RESET", "ZT"]);
        gate.until("the server is asked", |_| passage.is_silent());
        drop(client);
        gate.until("it has gone", |stats| stats.clients == 1);
        assert!(passage.is_silent(), "the server has not answered yet");
        passage.is_mended();
        next.query("show work_mem");
        assert_eq!(next.answer(), ["4MB", "SHOW", "ZI"]);
        next.query("select to_regclass('of_a_moment') is null");
        assert_eq!(next.answer(), ["t", "SELECT 1", "ZI"], "it was rolled back");
        assert_eq!(gate.stats().pools[0].counters.connects, 1, "round {round}");
    }
    drop(next);
    gate.end();
}

#[test]
fn a_session_leaves_nothing_behind() {
    let gate = Gate::new(trusting(database(Mode::Session, 1)));
    let mut first = Raw::enter(&gate, Version::V3_0, &[("application_name", "first")]);
    first.query(
        "set work_mem = '123kB'; create temp table t (x int); prepare p as select 1; listen l; \
         select pg_advisory_lock(7); set role pg_read_all_data",
    );
    assert_eq!(first.answer().last().unwrap(), "ZI");
    drop(first);
    let mut next = Raw::enter(&gate, Version::V3_0, &[]);
    let mut asked = |sql: &str| {
        next.query(sql);
        next.answer().swap_remove(0)
    };
    assert_eq!(asked("select current_setting('work_mem')"), "4MB");
    assert_eq!(asked("select current_setting('application_name')"), "");
    assert_eq!(asked("select to_regclass('pg_temp.t') is null"), "t");
    assert_eq!(asked("select count(*) from pg_prepared_statements"), "0");
    assert_eq!(asked("select count(*) from pg_listening_channels()"), "0");
    assert_eq!(asked("select count(*) from pg_locks where locktype = 'advisory'"), "0");
    assert_eq!(asked("select current_user"), "sekisho");
    assert_eq!(gate.stats().pools[0].counters.connects, 1, "all on one server");
    gate.end();
}

#[test]
fn a_server_that_ends_idle_is_not_noticed() {
    let gate = Gate::of(Mode::Transaction, 1);
    runtime().block_on(async {
        let client = gate.connect().await;
        for _ in 0..5 {
            let process = ask(&client, "select pg_backend_pid()").await.unwrap();
            let ends = format!("select pg_terminate_backend({process}, 5000)");
            assert_eq!(ask(&directly().await, &ends).await.unwrap(), "t");
            gate.until("the loss is seen", |stats| stats.pools[0].servers == 0);
            let next = ask(&client, "select pg_backend_pid()").await.unwrap();
            assert_ne!(next, process);
        }
    });
    gate.end();
}

#[test]
fn who_is_served_by_a_server_that_ends_hears_of_it() {
    for mode in [Mode::Session, Mode::Transaction] {
        let gate = Gate::of(mode, 1);
        runtime().block_on(async {
            let client = gate.connect().await;
            let process = ask(&client, "begin; select pg_backend_pid()").await.unwrap();
            let ends = format!("select pg_terminate_backend({process}, 5000)");
            let ending = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                ask(&directly().await, &ends).await.unwrap();
            });
            let told = ask(&client, "select pg_sleep(30)").await;
            ending.await.unwrap();
            assert_eq!(code(&told.unwrap_err()), "57P01");
            gate.until("its session ends", |stats| stats.clients == 0);
            let next = gate.connect().await;
            assert_eq!(ask(&next, "select 'well'").await.unwrap(), "well");
        });
        gate.end();
    }
}

#[test]
fn what_a_server_does_for_who_has_gone_is_cancelled_in_time() {
    // Its connection was closed, but the server worked on, beside whoever had the slot next.
    for (mode, seconds) in [(Mode::Transaction, 3607), (Mode::Session, 3608)] {
        let mut config = trusting(database(mode, 1));
        config.timeouts.clean = Duration::from_millis(200);
        let gate = Gate::new(config);
        let sleeps = format!(
            "select count(*) from pg_stat_activity \
             where state = 'active' and query = 'select pg_sleep({seconds})'"
        );
        let sleeping = || runtime().block_on(async { ask(&directly().await, &sleeps).await });
        let until = |wanted: &str| {
            let began = Instant::now();
            while sleeping().unwrap() != wanted {
                assert!(began.elapsed() < Duration::from_secs(20), "never {wanted}");
            }
        };
        for _ in 0..3 {
            let mut client = Raw::enter(&gate, Version::V3_0, &[]);
            client.query(&format!("select pg_sleep({seconds})"));
            until("1");
            drop(client);
            until("0");
        }
        gate.until("the slot is back", |stats| stats.pools[0].busy == 0);
        let mut next = Raw::enter(&gate, Version::V3_0, &[]);
        next.query("select 'well'");
        assert_eq!(next.answer(), ["well", "SELECT 1", "ZI"]);
        assert!(gate.stats().cancels >= 3);
        drop(next);
        gate.end();
    }
}

/// A server that lets in whoever comes and then takes nothing.
fn deaf_server() -> Address {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut out = Vec::new();
            write::authentication_ok(&mut out);
            write::backend_key_data(&mut out, 1, &[1, 2, 3, 4]);
            write::ready_for_query(&mut out, Status::Idle);
            // A cancel request may have gone.
            let _ = stream.write_all(&out);
            kept.push(stream);
        }
    });
    Address::Tcp(address)
}

/// Asks the same until the server has no room for more, and some of it is with the gate.
fn ask_more_than_fits(gate: &Gate, client: &mut Raw, sql: &str) {
    let mut question = Vec::new();
    write::query(&mut question, sql);
    let taken = || gate.stats().pools[0].counters.received;
    let began = taken();
    for asked in 1..2000 {
        client.say(&question);
        let said = Instant::now();
        while taken() < began + asked * question.len() as u64 {
            if said.elapsed() > Duration::from_secs(1) {
                return;
            }
        }
    }
    panic!("there is room without end");
}

/// It kept its slot for ever: that a client has gone was found out by reading all that it had sent, and
/// nothing was read as long as its server had no room.
#[test]
fn who_goes_while_its_server_takes_nothing_leaves_its_slot() {
    let sql = format!("select 1 /* {} */", "much ".repeat(6000));
    let mut deaf = database(Mode::Transaction, 1);
    deaf.servers = vec![deaf_server()];
    let real = |mode| (database(mode, 1), Some("lock table held"));
    let holder = Gate::new(trusting(database(Mode::Session, 1)));
    let mut holds = Raw::enter(&holder, Version::V3_0, &[]);
    for (sql, status) in [("create table held (x int)", "ZI"), ("begin; lock table held", "ZT")] {
        holds.query(sql);
        assert_eq!(holds.answer().last().unwrap(), status);
    }
    for (database, waits) in [(deaf, None), real(Mode::Transaction), real(Mode::Session)] {
        let mut config = trusting(database);
        config.timeouts.clean = Duration::from_millis(500);
        config.timeouts.cancel = Duration::from_secs(2);
        let gate = Gate::new(config);
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        client.query(&format!("begin; {}", waits.unwrap_or_default()));
        ask_more_than_fits(&gate, &mut client, &sql);
        drop(client);
        gate.until("its slot is back", |stats| stats.clients == 0 && stats.pools[0].busy == 0);
        assert_eq!(gate.stats().cancels, 1, "what the server still did was cancelled");
        gate.end();
    }
    drop(holds);
    holder.end();
}

/// What clients say that go: all kinds of messages, some of which hold a server.
fn sayings() -> Vec<Vec<u8>> {
    use pgwire::frame::Frontend;
    use pgwire::message::write::{bare, message, query};
    let mut extended = Vec::new();
    message(&mut extended, Frontend::Parse, |out| {
        out.extend_from_slice(b"s\0select $1::text\0\0\0")
    });
    message(&mut extended, Frontend::Bind, |out| {
        out.extend_from_slice(b"\0s\0\0\0\0\x01\0\0\0\x03abc\0\0");
    });
    message(&mut extended, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    bare(&mut extended, Frontend::Sync);
    let mut copy = Vec::new();
    query(&mut copy, "create temp table if not exists c (x text); copy c from stdin");
    message(&mut copy, Frontend::CopyData, |out| out.extend_from_slice(b"one\ntwo\n"));
    bare(&mut copy, Frontend::CopyDone);
    let mut block = Vec::new();
    query(&mut block, "begin");
    query(&mut block, "select 'in a transaction'");
    query(&mut block, "select 1 / 0");
    let mut long = Vec::new();
    query(&mut long, "select repeat('long', 100000) from generate_series(1, 20)");
    vec![extended, copy, block, long]
}

#[test]
fn clients_that_go_at_any_byte_hurt_nobody() {
    for mode in [Mode::Session, Mode::Transaction] {
        let gate = Gate::new(trusting(database(mode, 3)));
        let sayings = sayings();
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (gate, done) = (&gate, &done);
            let killers: Vec<_> = (0..3_u64)
                .map(|seed| {
                    let sayings = &sayings;
                    scope.spawn(move || {
                        let mut chance = seed * 7 + 1;
                        for _ in 0..60 {
                            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let saying = &sayings[(chance >> 33) as usize % sayings.len()];
                            let bytes = (chance >> 40) as usize % (saying.len() + 1);
                            let mut client = Raw::enter(gate, Version::V3_0, &[]);
                            client.stream.write_all(&saying[..bytes]).unwrap();
                            if chance >> 60 & 1 == 0 {
                                std::thread::sleep(Duration::from_millis(1));
                            }
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            // In session mode these have servers only for a while, so they come again and again.
            let others = (0..4).map(|number| {
                scope.spawn(move || {
                    let mut turn = 0;
                    while done.load(Ordering::Relaxed) < 3 || turn < 20 {
                        let mut client = Raw::enter(gate, Version::V3_0, &[]);
                        for _ in 0..3 {
                            turn += 1;
                            let nonce = format!("{number}/{turn}");
                            client.query(&format!("select '{nonce}'"));
                            assert_eq!(client.answer(), [&nonce, "SELECT 1", "ZI"]);
                        }
                    }
                })
            });
            others
                .chain(killers)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|one| one.join().unwrap());
        });
        gate.until("all slots are back", |stats| stats.clients == 0 && stats.pools[0].busy == 0);
        gate.end();
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_told_of_and_costs_no_slot() {
    let mut unreachable = database(Mode::Transaction, 1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    unreachable.servers = vec![Address::Tcp(listener.local_addr().unwrap())];
    drop(listener);
    let gate = Gate::new(config(unreachable));
    runtime().block_on(async {
        for _ in 0..3 {
            let error = super::enter(&gate.account()).await.expect_err("nobody is there");
            assert_eq!(code(&error), "08006");
        }
    });
    let pool = &gate.stats().pools[0];
    assert_eq!((pool.busy, pool.servers), (0, 0));
    assert!((1..=3).contains(&pool.counters.connects_failed), "one may have tried for all");
    gate.end();
}

#[test]
fn with_several_servers_one_that_is_down_is_left_alone() {
    let mut two = database(Mode::Transaction, 2);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    two.servers.insert(0, Address::Tcp(listener.local_addr().unwrap()));
    drop(listener);
    two.gate.servers.insert(0, two.gate.servers[0]);
    let gate = Gate::new(config(two));
    runtime().block_on(async {
        let clients = [gate.connect().await, gate.connect().await, gate.connect().await];
        for turn in 0..10 {
            let asked: Vec<_> = clients.iter().map(|client| ask(client, "select 'well'")).collect();
            for asked in asked {
                assert_eq!(asked.await.unwrap(), "well", "turn {turn}");
            }
        }
    });
    assert_eq!(gate.stats().pools[0].counters.connects_failed, 1);
    gate.end();
}

/// What failed before the monitor knew that it was the first client's was nobody's: the client waited
/// until its login took too long, though another server was well.
#[test]
fn the_first_client_gets_in_though_servers_fail_at_once_and_else_hears_why() {
    let gone = |name: &str| Address::Unix(format!("/nonexistent/{name}/.s.PGSQL.1").into());
    let well = database(Mode::Transaction, 2).servers.swap_remove(0);
    for (servers, is_one_well) in [
        (vec![gone("a"), gone("b"), well.clone()], true),
        (vec![well, gone("a"), gone("b")], true),
        (vec![gone("a"), gone("b")], false),
        (vec![gone("a")], false),
    ] {
        for all in [None, Some(1)] {
            let mut database = database(Mode::Transaction, 2);
            database.gate.servers = vec![database.gate.servers[0]; servers.len()];
            database.servers = servers.clone();
            let mut config = trusting(database);
            config.timeouts.login = Duration::from_secs(5);
            config.quotas.all = all;
            let gate = Gate::new(config);
            let mut first = Raw::connect(&gate);
            first.start(Version::V3_0, &[]);
            if is_one_well {
                first = first.entered();
                first.query("select 'served'");
                assert_eq!(first.answer()[0], "served", "{servers:?} {all:?}");
            } else {
                let words = loop {
                    if let (Backend::ErrorResponse, body) = first.hear() {
                        break shown(&body);
                    }
                };
                let of = "FATAL 08006 the server cannot be reached";
                assert!(words.starts_with(of), "{servers:?} {all:?}: {words}");
            }
            drop(first);
            gate.end();
        }
    }
}

#[test]
fn a_drain_lets_transactions_end_and_sends_the_others_away() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 2)));
    let mut idle = Raw::enter(&gate, Version::V3_0, &[]);
    let mut busy = Raw::enter(&gate, Version::V3_0, &[]);
    busy.query("begin");
    busy.answer();
    let handle = gate.handle.clone();
    handle.drain().unwrap();
    let gone = "FATAL 57P01 terminating connection due to administrator command";
    assert_eq!(idle.last_words(), gone);
    busy.query("select 'to the end'");
    assert_eq!(busy.answer(), ["to the end", "SELECT 1", "ZT"]);
    busy.query("commit");
    assert_eq!(busy.answer(), ["COMMIT", "ZI"]);
    assert_eq!(busy.last_words(), gone);
    let finished = gate.thread_ends();
    assert_eq!((finished.cut, finished.stats.pools[0].busy), (0, 0));
}

#[test]
fn a_drain_ends_in_time_though_a_transaction_does_not() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.timeouts.drain = Duration::from_millis(200);
    let gate = Gate::new(config);
    let mut busy = Raw::enter(&gate, Version::V3_0, &[]);
    busy.query("begin");
    busy.answer();
    let began = Instant::now();
    gate.handle.drain().unwrap();
    let finished = gate.thread_ends();
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(finished.cut, 1);
    assert_eq!(finished.recordings[0].as_ref().unwrap().replay(), Ok(()));
    assert!(busy.last_words().starts_with("FATAL 57P01"));
}

#[test]
fn who_never_says_who_it_is_is_closed_in_time() {
    let mut config = config(database(Mode::Transaction, 1));
    config.timeouts.login = Duration::from_millis(100);
    let gate = Gate::new(config);
    let mut silent = Raw::connect(&gate);
    assert!(silent.last_words().contains("the login took longer than 0.1 s"));
    // Nor does a password that never comes.
    let mut half = Raw::connect(&gate);
    let mut out = Vec::new();
    let parameters = [(&b"user"[..], &b"sekisho"[..])];
    write_startup(&mut out, Version::V3_0, parameters).unwrap();
    half.say(&out);
    half.hear();
    assert!(half.last_words().contains("the login took longer than 0.1 s"));
    assert_eq!(gate.stats().logins_failed, 2);
    gate.end();
}

#[test]
fn who_is_idle_for_too_long_is_sent_away() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.timeouts.idle_transaction = Some(Duration::from_millis(300));
    config.timeouts.client_idle = Some(Duration::from_secs(6));
    let gate = Gate::new(config);
    let mut open = Raw::enter(&gate, Version::V3_0, &[]);
    let mut idle = Raw::enter(&gate, Version::V3_0, &[]);
    open.query("begin");
    open.answer();
    // One whose server works is not idle.
    open.query("select pg_sleep(1.5)");
    assert_eq!(open.answer(), ["", "SELECT 1", "ZT"]);
    let words = "FATAL 25P03 terminating connection due to idle-in-transaction timeout";
    assert_eq!(open.last_words(), words);
    idle.query("select 'well'");
    assert_eq!(idle.answer(), ["well", "SELECT 1", "ZI"]);
    let words = "FATAL 57P05 terminating connection due to idle-session timeout";
    assert_eq!(idle.last_words(), words);
    gate.end();
}

/// A server that takes connections and says this to each.
fn strange_server(words: &'static [u8]) -> Address {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Who has asked for nothing else may have gone.
            let _ = stream.write_all(words);
            kept.push(stream);
        }
    });
    Address::Tcp(address)
}

#[test]
fn a_server_that_is_none_is_given_up_in_time() {
    let cases = [
        (&b""[..], "08006", "it does not answer within 0.3 s"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "08P01", "invalid"),
        (b"Z\0\0\0\x05I", "08P01", "ReadyForQuery before it let the gate in"),
        (b"R\0\0\0\x08\0\0\0\x07", "0A000", "authentication of kind 7"),
        (b"E\0\0\0\x28SFATAL\0C57P03\0Mstarting up for now\0\0", "57P03", "starting up for now"),
    ];
    for (words, sqlstate, message) in cases {
        let mut strange = database(Mode::Transaction, 1);
        strange.servers = vec![strange_server(words)];
        let mut config = config(strange);
        config.timeouts.connect = Duration::from_millis(300);
        let gate = Gate::new(config);
        runtime().block_on(async {
            let error = super::enter(&gate.account()).await.expect_err("it is no server");
            let told = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
            let told = (told.code().code(), told.message());
            assert!(told.0 == sqlstate && told.1.contains(message), "{told:?}");
        });
        gate.until("the slot is back", |stats| stats.pools[0].busy == 0);
        gate.end();
    }
}

/// A server that lets in whoever comes, answers every question with `SELECT 0`, and says half of a
/// notice of the question behind each answer and the rest of it later.
fn talkative_server() -> Address {
    use std::io::Read;

    use pgwire::frame::Backend;
    use pgwire::message::write::message;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                assert!(stream.read(&mut room).unwrap() > 0);
                stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
                while let Ok(read @ 1..) = stream.read(&mut room) {
                    if room[0] != b'Q' {
                        return;
                    }
                    let mut notice = Vec::new();
                    message(&mut notice, Backend::NoticeResponse, |out| {
                        out.extend_from_slice(b"SNOTICE\0C00000\0M");
                        out.extend_from_slice(&room[5..read]);
                        out.push(0);
                    });
                    let half = notice.split_off(notice.len() / 2);
                    let mut answer = b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I".to_vec();
                    answer.append(&mut notice);
                    stream.write_all(&answer).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                    stream.write_all(&half).unwrap();
                }
            });
        }
    });
    Address::Tcp(address)
}

#[test]
fn half_a_notice_behind_an_answer_is_waited_for() {
    // A server was given on when its last answer was there, with half of a notice of the client
    // before: whoever had it next heard the whole.
    let mut database = database(Mode::Transaction, 1);
    database.servers = vec![talkative_server()];
    let mut config = trusting(database);
    config.session_state.sequences = SequenceChoice::Trust;
    let gate = Gate::new(config);
    let mut clients =
        [Raw::enter(&gate, Version::V3_0, &[]), Raw::enter(&gate, Version::V3_0, &[])];
    for turn in 0..4 {
        let [one, other] = &mut clients;
        one.query(&format!("select 'one {turn}'"));
        other.query(&format!("select 'other {turn}'"));
        for (client, name) in [(one, "'one"), (other, "'other")] {
            let told = client.answer();
            assert_eq!(&told[told.len() - 2..], ["SELECT 0", "ZI"]);
            for notice in &told[..told.len() - 2] {
                assert!(notice.starts_with("NOTICE 00000") && notice.contains(name), "{told:?}");
            }
            assert!(turn == 0 || told.len() > 2, "the notice of the turn before: {told:?}");
        }
    }
    gate.end();
}
