//! libpq before the gate, by the programs that PostgreSQL brings: psql, and pgbench for what psql does
//! not do, which is to prepare by the protocol and to pipeline.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use crate::behind::{Behind, CLIENTS, Mode, PATIENCE, server};

/// A program of PostgreSQL's: the server's own, or the machine's.
fn program(name: &str) -> PathBuf {
    let own = server().programs().folder().join(name);
    if own.is_file() { own } else { name.into() }
}

fn table(behind: &Behind) -> String {
    format!("libpq_{}", behind.mode().name())
}

/// A psql that reads this.
fn psql(behind: &Behind, script: &str) -> Child {
    let mut command = Command::new(program("psql"));
    behind.tell(&mut command, "libpq");
    command.args(["--no-psqlrc", "-qAt", "-v", "VERBOSITY=sqlstate"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("psql starts");
    let mut pipe = child.stdin.take().expect("piped above");
    let script = script.to_owned();
    // Who is cancelled does not read all of it.
    thread::spawn(move || pipe.write_all(script.as_bytes()));
    child
}

/// Status, output and errors.
fn ended(child: Child) -> (ExitStatus, String, String) {
    let id = child.id().to_string();
    let (ends, over) = channel::<()>();
    let watch = thread::spawn(move || {
        if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            signal("-KILL", &id);
        }
    });
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it is our child");
    drop(ends);
    watch.join().expect("it only waits");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status, text(stdout), text(stderr))
}

/// Output of a run without errors.
fn well(child: Child) -> String {
    let (status, out, err) = ended(child);
    assert!(status.success() && err.is_empty(), "{status}: {out}{err}");
    out
}

fn signal(which: &str, id: &str) {
    let status = Command::new("kill").args([which, id]).status().expect("kill starts");
    assert!(status.success(), "there is no process {id}");
}

/// Script of a client, and its output: transactions, what SQL prepares, COPY both ways, and errors.
fn session(client: usize, table: &str) -> (String, String, String) {
    let (mut script, mut out) = (String::new(), String::new());
    let mut say = |words: String| script.push_str(&words);
    for turn in 1..=10 {
        say(format!("begin; insert into {table} values ({client}, 'nonce {turn}');\n"));
        say(format!("savepoint s; insert into {table} values ({client}, 'x'); rollback to s;\n"));
        say(format!("select 'client {client}', count(*) from {table} where n = {client};\n"));
        say("commit;\n".to_owned());
        let _ = writeln!(out, "client {client}|{turn}");
    }
    say(format!("prepare own as select 'client {client} ' || $1;\n"));
    for turn in 0..5 {
        say(format!("execute own('{turn}');\n"));
        let _ = writeln!(out, "client {client} {turn}");
    }
    say(format!("deallocate own;\ncopy {table} from stdin;\n"));
    for row in 100..300 {
        say(format!("{}\tnonce {client} {row}\n", 1000 + client));
        let _ = writeln!(out, "nonce {client} {row}");
    }
    let rows = format!("select x from {table} where n = {} order by x", 1000 + client);
    say(format!("\\.\ncopy ({rows}) to stdout;\nbegin;\nselect 1 / 0;\nselect 1;\nrollback;\n"));
    say(format!("copy {table} from stdin;\n1\n\\.\nselect 'still {client}';\n"));
    let _ = writeln!(out, "still {client}");
    let errors = ["22012", "25P02", "22P04"].map(|code| format!("ERROR:  {code}\n"));
    (script, out, errors.concat())
}

fn sessions(behind: &Behind) {
    let table = table(behind);
    let made = format!("drop table if exists {table}; create table {table} (n int, x text);");
    well(psql(behind, &format!("set client_min_messages = 'error'; {made}")));
    let said = (0..CLIENTS).map(|client| (client, psql(behind, &session(client, &table).0)));
    for (client, child) in said.collect::<Vec<_>>() {
        let (_, wanted, errors) = session(client, &table);
        let (status, out, err) = ended(child);
        assert_eq!((status.code(), out, err), (Some(0), wanted, errors), "client {client}");
    }
}

/// Runs a script of pgbench's for each client, so often.
fn pgbench(behind: &Behind, script: &str, turns: usize) {
    let mut command = Command::new(program("pgbench"));
    behind.tell(&mut command, "libpq");
    command.args(["--no-vacuum", "--protocol=prepared", "--file=/dev/stdin"]);
    // Where it prepares it blocks, and with it all clients of its thread, one of whom has a slot.
    command.args([format!("--client={CLIENTS}"), format!("--jobs={CLIENTS}")]);
    command.arg(format!("--transactions={turns}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("pgbench starts");
    let mut pipe = child.stdin.take().expect("piped above");
    pipe.write_all(script.as_bytes()).expect("it is read");
    drop(pipe);
    let (status, out, err) = ended(child);
    let all = format!("actually processed: {0}/{0}", CLIENTS * turns);
    assert!(status.success() && out.contains(&all), "{status}: {out}{err}");
}

/// Script that compares what is heard: a difference ends it with an error.
const PREPARED: &str = "\
\\set mine random(1, 1000000000)
select :mine as heard, :client_id as whose \\gset
\\set is_mine case when :heard = :mine and :whose = :client_id then 1 else 0 end
select 1 / :is_mine;
begin;
select :mine + 1 as heard \\gset
\\set is_mine case when :heard = :mine + 1 then 1 else 0 end
select 1 / :is_mine;
commit;
";

fn prepared(behind: &Behind) {
    pgbench(behind, PREPARED, 25);
}

fn pipeline(behind: &Behind) {
    let table = table(behind);
    let row = format!("insert into {table} values (500 + :client_id, 'piped');\n");
    let select = "select :client_id, pg_sleep(0);\n";
    let script =
        format!("\\startpipeline\nbegin;\n{row}{select}{row}commit;\n{row}\\endpipeline\n");
    pgbench(behind, &script, 10);
    let text = format!("select count(*), count(distinct n) from {table} where x = 'piped'");
    let found = well(psql(behind, &text));
    assert_eq!(found, format!("{}|{CLIENTS}\n", 30 * CLIENTS));
}

/// An interrupt of psql cancels what it asks, and nothing of another's.
fn cancel(behind: &Behind) {
    for turn in 0..3 {
        let text = format!("select pg_sleep(600), 'cancelled {} {turn}'", behind.mode().name());
        let beside = psql(behind, &"select 'beside', pg_sleep(0.01);\n".repeat(100));
        let sleeping = psql(behind, &format!("{text};\n"));
        let like = text.replace('_', "\\_").replace('\'', "''");
        let looks = format!(
            "do $$ begin while not exists (select from pg_stat_activity where state = 'active' \
             and query like '{like}%') loop perform pg_sleep(0.01), pg_stat_clear_snapshot(); \
             end loop; end $$;\n"
        );
        well(psql(behind, &looks));
        signal("-INT", &sleeping.id().to_string());
        let (_, out, err) = ended(sleeping);
        assert!(out.is_empty() && err.contains("57014"), "{out}{err}");
        assert_eq!(well(beside), "beside|\n".repeat(100));
    }
}

/// A notification of another session's, which psql starts.
fn notify(behind: &Behind) {
    let table = table(behind);
    let other = program("psql");
    let script = format!(
        "listen {table};\n\\! {} -qAtc \"notify {table}, 'heard {table}'\"\nselect 'last';\n",
        other.display()
    );
    // It looks for notifications behind each command.
    let out = well(psql(behind, &format!("{script}select pg_sleep(0.5);\nunlisten *;\n")));
    assert!(out.starts_with("last\n") && out.contains(&format!("\"heard {table}\"")), "{out}");
}

fn drive(mode: Mode) {
    let behind = Behind::start(mode);
    sessions(&behind);
    prepared(&behind);
    pipeline(&behind);
    cancel(&behind);
    notify(&behind);
    behind.end();
}

#[test]
fn in_transaction_mode() {
    drive(Mode::Transaction);
}

#[test]
fn in_session_mode() {
    drive(Mode::Session);
}
