//! Replication connections: one of its own for each client, in a slot of its pool.

use std::process::Command;

use monitor::{Config, Mode};
use pgwire::frame::Backend;
use pgwire::message::write;
use pgwire::startup::Version;

use super::{Gate, Raw, ask, config, database, directly, password, runtime, server, trusting};

fn replicating(mode: Mode) -> Config {
    let mut config = trusting(database(mode, 2));
    config.timeouts.idle_transaction = Some(std::time::Duration::from_secs(1));
    config
}

fn told(sql: &str) -> String {
    runtime().block_on(async { ask(&directly().await, sql).await.unwrap() })
}

#[test]
fn a_server_is_asked_who_it_is_and_its_log_followed() {
    let system = told("select system_identifier from pg_control_system()");
    for mode in [Mode::Session, Mode::Transaction] {
        let gate = Gate::new(replicating(mode));
        // As the programs of PostgreSQL say it; there is no such database.
        let begins = [
            ("database", "replication"),
            ("replication", "true"),
            ("application_name", "a standby"),
        ];
        let mut standby = Raw::enter(&gate, Version::V3_0, &begins);
        standby.query("IDENTIFY_SYSTEM");
        assert_eq!(standby.answer(), [&*system, "IDENTIFY_SYSTEM", "ZI"]);
        let named = "select count(*) from pg_stat_activity \
                     where backend_type = 'walsender' and application_name = 'a standby'";
        assert_eq!(told(named), "1");
        assert_eq!(gate.stats().pools[0].busy, 1, "it holds a slot");

        // What is written but not flushed yet is nothing that a server begins at.
        let position = told("select pg_current_wal_flush_lsn()");
        standby.query(&format!("START_REPLICATION PHYSICAL {position}"));
        assert_eq!(standby.hear().0, Backend::CopyBothResponse);
        told("select pg_logical_emit_message(false, 'test', repeat('x', 10000))");
        loop {
            let (tag, body) = standby.hear();
            assert_eq!(tag, Backend::CopyData, "{}", body.escape_ascii());
            if body[0] == b'w' {
                break;
            }
        }
        // Others are served beside it, on other connections.
        let mut other = Raw::enter(&gate, Version::V3_0, &[]);
        other.query("select backend_type from pg_stat_activity where pid = pg_backend_pid()");
        assert_eq!(other.answer(), ["client backend", "SELECT 1", "ZI"]);
        let mut out = Vec::new();
        write::message(&mut out, pgwire::frame::Frontend::CopyDone, |_| {});
        standby.say(&out);
        while standby.hear().0 != Backend::ReadyForQuery {}
        drop(standby);
        gate.until("its slot is free, and its connection nobody's", |stats| {
            stats.pools[0].busy == u32::from(mode == Mode::Session) && stats.pools[0].servers == 1
        });
        drop(other);
        gate.end();
    }
}

#[test]
fn a_database_is_followed_and_an_unknown_one_refused() {
    let gate = Gate::new(replicating(Mode::Session));
    let mut raw = Raw::enter(&gate, Version::V3_2, &[("replication", "database")]);
    raw.query("select current_database()");
    let name = told("select current_database()");
    assert_eq!(raw.answer(), [&*name, "SELECT 1", "ZI"]);
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &[("replication", "database"), ("database", "other")]);
    assert_eq!(raw.hear().0, Backend::Authentication);
    assert!(raw.last_words().starts_with("FATAL 3D000"));
    gate.end();
}

#[test]
fn a_drain_does_not_wait_for_a_standby() {
    let gate = Gate::new(replicating(Mode::Session));
    let mut standby = Raw::enter(&gate, Version::V3_0, &[("replication", "true")]);
    gate.handle.drain().unwrap();
    assert!(standby.last_words().starts_with("FATAL 57P01"));
    assert_eq!(gate.thread_ends().cut, 0);
}

#[test]
fn postgresql_s_own_programs_replicate_through_the_gate() {
    let folder = server().programs().folder();
    let scratch = std::env::temp_dir().join(format!("sekisho-replicating-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let gate = Gate::new(config(database(Mode::Session, 4)));
    let port = gate.address().port().to_string();
    let run = |program: &str, words: &[&str]| {
        let program = folder.join(program);
        if !program.exists() {
            return;
        }
        let ended = Command::new(program)
            .args(["-h", "127.0.0.1", "-U", "sekisho", "-w", "-p", &port])
            .args(words)
            .env("PGPASSWORD", String::from_utf8(password()).unwrap())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
    };
    let (backup, log) = (scratch.join("backup"), scratch.join("log"));
    run("pg_basebackup", &["-X", "stream", "-c", "fast", "-D", &backup.display().to_string()]);
    if folder.join("pg_basebackup").exists() {
        assert!(backup.join("PG_VERSION").exists() && backup.join("backup_manifest").exists());
    }
    std::fs::create_dir_all(&log).unwrap();
    let until = told("select pg_current_wal_lsn()");
    told("select pg_switch_wal()");
    run("pg_receivewal", &["--no-loop", "-E", &until, "-D", &log.display().to_string()]);
    run("psql", &["-d", "dbname=replication replication=1", "-c", "IDENTIFY_SYSTEM"]);
    std::fs::remove_dir_all(&scratch).unwrap();
    gate.end();
}
