//! `sekisho gate postgres` before a private server: clients get in with the password of `--db`, share
//! its slots, and what was recorded of them replays.

use std::fs::File;
use std::io::BufReader;
use std::process::Command;
use std::time::Duration;

use measure::Recording;
use postgres::{Private, Settings};

use crate::browser::Scratch;
use crate::command::{PATIENCE, PROGRAM, sekisho, start};
use crate::tpcc::ask;

fn private() -> Private {
    let parameters = vec![("fsync".to_owned(), "off".to_owned())];
    Private::start(&Settings { parameters, ..Settings::default() }).expect("a server starts")
}

#[test]
fn a_monitor_shares_slots_tells_what_it_saw_and_records_it() {
    let server = private();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let listens = ["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url.as_str()];
    for mode in ["session", "transaction", "statement"] {
        let log = format!("{mode}.log");
        let mut rest = vec!["--slots", "2", "--mode", mode, "--record", "gate.jsonl"];
        rest.extend(["--access-log", &log]);
        let running = start(&folder, &[&listens[..], &rest].concat());
        let said = running.says("next: psql ");
        let (_, rest) = said.split_once("listening on ").expect("it says so");
        let address = rest.split(' ').next().expect("it says where").to_owned();
        let (account, place) = url.as_str().split_once('@').expect("there is a password");
        let (_, database) = place.split_once('/').expect("there is a database");
        let gated = format!("{account}@{address}/{database}");
        let clients: Vec<_> = (0..6)
            .map(|client| {
                let gated = gated.clone();
                std::thread::spawn(move || {
                    let nonce = format!("{client}");
                    assert_eq!(ask(&gated, &format!("select {nonce}")).unwrap(), [nonce]);
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("its answer is its own"));
        // With the word of another user nobody gets in.
        let wrong = gated.replace(&account["postgresql://".len()..], "sekisho:wrong");
        assert_eq!(ask(&wrong, "select 1").unwrap_err().code().unwrap().code(), "28P01");
        let psql = server.programs().folder().join("psql");
        if psql.exists() {
            let told =
                Command::new(&psql).args([&gated, "-Atc", "select 'psql'"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&told.stdout), "psql\n", "{told:?}");
        }
        running.signal("TERM");
        let ended = running.ended(PATIENCE);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.out.contains("drained: "), "{ended:?}");
        assert!(ended.err.contains(" event=error ") && ended.err.contains("28P01"), "{ended:?}");
        assert!(ended.out.contains("hold p50"), "{ended:?}");
        let file = File::open(folder.join("gate.jsonl")).expect("it was recorded");
        let recording = Recording::read(BufReader::new(file), 1000).expect("it can be read");
        assert!(recording.steps.len() >= 12, "{}", recording.steps.len());
        assert_eq!(recording.replay(), Ok(()));
        let next = ended.last("next").strip_prefix("sekisho ").expect("a command of ours");
        let next: Vec<&str> = next.split(' ').collect();
        assert_eq!(next, ["replay", "gate.jsonl"]);
        assert_eq!(sekisho(&folder, &next).code, 0);
        let lines = std::fs::read_to_string(folder.join(&log)).expect("it was written");
        let served = lines.lines().filter(|line| line.contains(r#""outcome":"served""#)).count();
        let asked = 6 + usize::from(psql.exists());
        assert_eq!(served, asked, "{mode}: {lines}");
    }
    server.stop().expect("it stops");
}

/// Asks the same on one connection, again and again.
fn ask_again(url: &str, sql: &str, goes_on: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it has nothing behind it").block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("it gets in");
        tokio::spawn(connection);
        while goes_on() {
            client.simple_query(sql).await.expect("it is answered");
        }
    });
}

/// Eight clients in turns of 4 ms alone and 4 ms with a lock that one can have: a knee at two slots.
#[test]
fn slots_are_left_to_the_gate_and_its_model_becomes_a_scenario() {
    let server = private();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let listens = ["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url.as_str()];
    let rest = ["--slots", "auto", "--slots-most", "8", "--model", "model.toml", "--shadow"];
    let running = start(&folder, &[&listens[..], &rest].concat());
    let said = running.says("next: psql ");
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("slots auto per transaction"), "{said}");
    let (_, address) = said.split_once("listening on ").expect("it says so");
    let address = address.split(' ').next().expect("it says where");
    let (account, place) = url.as_str().split_once('@').expect("there is a password");
    let (_, database) = place.split_once('/').expect("there is a database");
    let gated = format!("{account}@{address}/{database}");
    let asks = "do $$begin perform pg_sleep(0.004); perform pg_advisory_xact_lock(1); \
                perform pg_sleep(0.004); end$$";
    let began = std::time::Instant::now();
    let clients: Vec<_> = (0..8)
        .map(|at| {
            let gated = gated.clone();
            std::thread::spawn(move || {
                // They begin one after the other, so that few slots are held at first and more later.
                std::thread::sleep(Duration::from_secs(at));
                ask_again(&gated, asks, || began.elapsed() < Duration::from_secs(24));
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("it hears no error"));
    running.signal("TERM");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("time alone"), "{ended:?}");
    // Where the machine lets the law be seen, the model is a scenario that can be asked.
    if folder.join("model.toml").exists() {
        assert!(ended.out.contains("next: sekisho ask bottleneck model.toml"), "{ended:?}");
        let asked = sekisho(&folder, &["ask", "bottleneck", "model.toml"]);
        assert_eq!(asked.code, 0, "{asked:?}");
    } else {
        assert!(ended.out.contains("does not fit") || !ended.out.contains("knee"), "{ended:?}");
    }
    server.stop().expect("it stops");
}

#[test]
fn slots_that_cannot_be_left_to_the_gate_are_refused_with_a_way_out() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    for (words, cause) in [
        (&["--slots", "auto,3"][..], "stands alone"),
        (&["--slots", "3", "--shadow"], "go with `--slots auto`"),
        (&["--slots", "auto", "--mode", "session"], "needs `--mode transaction`"),
        (&["--slots", "auto", "--slots-least", "9", "--slots-most", "3"], "at most"),
        (&["--slots", "many"], "such as 8, or `auto`"),
    ] {
        let db = ["gate", "postgres", "--db", "postgresql://a:b@127.0.0.1:1/x"];
        let ended = sekisho(&folder, &[&db[..], words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(format!("{ended:?}").contains(cause), "{cause}: {ended:?}");
    }
}

#[test]
fn a_pgbouncer_ini_is_translated_and_back() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let ini = "[databases]\nshop = host=10.0.0.5 port=5433\n[pgbouncer]\nlisten_port = 6432\n\
               pool_mode = transaction\ndefault_pool_size = 25\n";
    std::fs::write(folder.join("pgbouncer.ini"), ini).expect("a folder of our own");
    let translated = |file: &str| {
        // What it prints is a file, whose comments need not fit a terminal.
        let mut command = Command::new(PROGRAM);
        command.args(["gate", "postgres", "--translate", file]).current_dir(&folder);
        let output = command.env_remove("DATABASE_URL").output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let own = translated("pgbouncer.ini");
    assert!(own.contains("format = 1") && own.contains("slots = 25"), "{own}");
    std::fs::write(folder.join("gate.toml"), own).expect("a folder of our own");
    let back = translated("gate.toml");
    assert!(back.contains("default_pool_size = 25") && back.contains("10.0.0.5"), "{back}");
    let missing = sekisho(&folder, &["gate", "postgres", "--translate", "missing.ini"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("cannot read missing.ini"), "{missing:?}");
}

#[test]
fn what_cannot_be_is_refused_before_anybody_is_let_in() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    std::fs::write(folder.join("users"), "\"alice\" secret\n").expect("a folder of our own");
    let db = "postgresql://alice@127.0.0.1:1/x";
    let cases = [
        (&["--slots", "2"][..], "nobody could log in"),
        (&["--slots", "0", "--auth", "trust"], "`--slots 0` lets nobody in"),
        (&["--slots", "1,2", "--auth", "trust"], "`--slots` has 2 numbers, `--db` 1"),
        (&["--slots", "1", "--auth", "trust", "--listen", ":0"], "is no loopback address"),
        (&["--slots", "1", "--users", "users"], "line 1: no quotation mark before the secret"),
        (&["--slots", "1", "--hba", "missing"], "`--hba missing`"),
        (&["--slots", "1", "--db", "postgresql://alice@127.0.0.1:2/y"], "the same database"),
        (&["--slots", "1", "--db", "postgresql://alice@h/x?sslmode=always"], "use disable, allow"),
        (&["--slots", "1", "--db", "postgresql://a@h/x?sslmode=require"], "the same of encryption"),
    ];
    for (words, expected) in cases {
        let listens =
            if words.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let words = [&["gate", "postgres", "--db", db], listens, words].concat();
        let ended = sekisho(&folder, &words);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        let told = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(expected), "{words:?}: {ended:?}");
    }
}
