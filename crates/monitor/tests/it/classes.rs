//! Classes of jobs: who belongs to which, who goes first, and who is never parked.

use std::time::Duration;

use gate::DisciplineSpec;
use monitor::{ClassStats, Classes, Config, JobClass, Mode};
use pgsession::sql::tokens::LexerMode;
use pgsession::sql::{Class, Fingerprint, Pattern, Rule, Test};
use pgwire::frame::Frontend;
use pgwire::message::write;
use pgwire::startup::Version;

use super::{Gate, Raw, database, trusting};

fn job_class(name: &str) -> JobClass {
    JobClass { name: name.to_owned(), wait_max: None }
}

fn rule(tests: Vec<Test>, class: u32, priority: u8) -> Rule {
    Rule { tests, class: Class { class, priority } }
}

fn program(name: &str) -> Test {
    Test::ApplicationName(Pattern::new(name.as_bytes()))
}

/// One slot in this mode, and who comes first is said by `discipline`.
fn config(mode: Mode, discipline: DisciplineSpec, classes: Classes) -> Config {
    let mut database = database(mode, 1);
    database.gate.discipline = discipline;
    let mut config = trusting(database);
    config.classes = classes;
    config
}

fn client(gate: &Gate, program: &str) -> Raw {
    Raw::enter(gate, Version::V3_0, &[("application_name", program)])
}

fn waiting(gate: &Gate, jobs: usize) {
    gate.until("they wait", |stats| stats.pools[0].waiting == jobs as u64);
}

/// The figures of a class.
fn class(gate: &Gate, name: &str) -> ClassStats {
    let stats = gate.stats();
    let found = stats.pools[0].classes.iter().find(|class| class.name == name);
    found.unwrap_or_else(|| panic!("no job of {name}: {stats:?}")).clone()
}

/// Lets them wait in this order while somebody has the one slot, and returns the order in which they
/// were served.
fn order(gate: &Gate, asking: &mut [(Raw, Vec<u8>)]) -> Vec<usize> {
    let mut holder = client(gate, "holder");
    holder.query("begin");
    holder.answer();
    for (at, (client, words)) in asking.iter_mut().enumerate() {
        client.say(words);
        waiting(gate, at + 1);
    }
    holder.query("commit");
    holder.answer();
    let mut turns = Vec::new();
    for (at, (client, _)) in asking.iter_mut().enumerate() {
        let answer = client.answer();
        let turn = answer.iter().find_map(|word| word.parse::<u64>().ok());
        turns.push((turn.unwrap_or_else(|| panic!("{answer:?}")), at));
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, at)| at).collect()
}

/// Does something with sequences.
fn sequence(gate: &Gate, sql: &str) {
    let mut client = client(gate, "owner");
    client.query(sql);
    assert_eq!(client.answer().last().unwrap(), "ZI");
}

fn query(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::query(&mut out, sql);
    out
}

/// Bind and Execute of a statement that was prepared before.
fn execute(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Bind, |out| {
        out.extend_from_slice(format!("\0{name}\0").as_bytes());
        out.extend_from_slice(b"\0\0\0\0\0\0");
    });
    write::message(&mut out, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    write::bare(&mut out, Frontend::Sync);
    out
}

fn prepare(client: &mut Raw, name: &str, sql: &str) {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("{name}\0{sql}\0\0\0").as_bytes());
    });
    write::bare(&mut out, Frontend::Sync);
    client.say(&out);
    assert_eq!(client.answer(), ["ParseComplete", "ZI"]);
}

#[test]
fn the_more_important_go_first_by_program_tag_and_fingerprint() {
    let next = "select nextval('by_rule')";
    let alike =
        |sql: &str| Test::Statement(Fingerprint::of(sql.as_bytes(), LexerMode::default()).unwrap());
    let tag = Test::Tag { name: b"route".to_vec(), value: Pattern::new(b"/pay*") };
    let rules = vec![
        rule(vec![program("web*"), tag.clone()], 2, 9),
        rule(vec![tag], 0, 1),
        rule(vec![alike("select nextval('x') + 41")], 2, 8),
        rule(vec![program("web*")], 1, 5),
        rule(vec![Test::User(Pattern::new(b"nobody"))], 1, 255),
        rule(vec![Test::Database(Pattern::new(b"nothing"))], 1, 255),
    ];
    let classes = Classes::new(vec![job_class("web"), job_class("pay")], rules).unwrap();
    let gate = Gate::new(config(Mode::Transaction, DisciplineSpec::Priority, classes));
    sequence(&gate, "create sequence by_rule");
    let mut prepared = client(&gate, "batch");
    prepare(&mut prepared, "s", "select nextval('by_rule') + 0 -- as a fingerprint has it");
    let paid = format!("/*route='%2Fpay%2Fnow'*/ {next}");
    let mut asking = vec![
        (client(&gate, "batch"), query(next)),
        (client(&gate, "batch"), query(&paid)),
        (client(&gate, "web 1"), query(next)),
        (prepared, execute("s")),
        (client(&gate, "web 2"), query(&paid)),
        (client(&gate, "web 3"), query(next)),
    ];
    assert_eq!(order(&gate, &mut asking), [4, 3, 2, 5, 1, 0]);
    // To prepare a statement is a job of its class too.
    assert_eq!((class(&gate, "web").hold.len(), class(&gate, "pay").hold.len()), (2, 3));
    let web = class(&gate, "web");
    assert_eq!((web.waiting, web.busy, web.wait.len()), (0, 0, 2));
    sequence(&gate, "drop sequence by_rule");
    gate.end();
}

#[test]
fn a_session_has_another_class_when_its_settings_change() {
    let classes = Classes::new(vec![job_class("web")], vec![rule(vec![program("web")], 1, 1)]);
    let gate = Gate::new(config(Mode::Transaction, DisciplineSpec::Fifo, classes.unwrap()));
    let mut client = client(&gate, "batch");
    for (sql, web) in [
        ("select 1", 0),
        ("set application_name = 'web'", 0),
        ("select 2", 1),
        ("select 3", 2),
        ("set application_name = 'batch'", 3),
        ("select 4", 3),
    ] {
        client.query(sql);
        client.answer();
        let stats = gate.stats();
        let classes = &stats.pools[0].classes;
        let found = classes.iter().find(|class| class.name == "web");
        assert_eq!(found.map_or(0, |class| class.wait.len()), web, "{sql}");
    }
    gate.end();
}

#[test]
fn classes_share_the_slot_by_their_weights() {
    let classes = Classes::new(
        vec![job_class("web"), job_class("batch")],
        vec![rule(vec![program("web")], 1, 0), rule(vec![program("batch")], 2, 0)],
    );
    let turns = DisciplineSpec::DeficitRoundRobin { quantum: 1, weights: vec![1, 3, 1] };
    let gate = Gate::new(config(Mode::Transaction, turns, classes.unwrap()));
    sequence(&gate, "create sequence by_weight");
    let programs = ["batch"; 6].into_iter().chain(["web"; 6]);
    let mut asking: Vec<_> =
        programs.map(|name| (client(&gate, name), query("select nextval('by_weight')"))).collect();
    let served = order(&gate, &mut asking);
    let web = |turns: &[usize]| turns.iter().filter(|&&at| at >= 6).count();
    assert_eq!((web(&served[..4]), web(&served[..8])), (3, 6), "{served:?}");
    sequence(&gate, "drop sequence by_weight");
    gate.end();
}

/// The locks of a transaction are not seen at the gate: were it parked, those whom it blocks would
/// hold all slots and wait for it.
#[test]
fn who_holds_a_slot_is_never_parked_behind_the_more_important() {
    for mode in [Mode::Transaction, Mode::Session, Mode::Statement] {
        let classes =
            Classes::new(vec![job_class("web")], vec![rule(vec![program("web")], 1, 255)]);
        let gate = Gate::new(config(mode, DisciplineSpec::Priority, classes.unwrap()));
        let mut holder = client(&gate, "batch");
        // In statement mode a pin is what a transaction is in the others.
        let (first, last) = match mode {
            Mode::Statement => ("prepare held as select 1", "deallocate held"),
            Mode::Transaction | Mode::Session => ("begin", "commit"),
        };
        holder.query(first);
        holder.answer();
        let mut newcomers: Vec<Raw> = (0..3).map(|_| client(&gate, "web")).collect();
        for (at, newcomer) in newcomers.iter_mut().enumerate() {
            newcomer.query("select 'served'");
            waiting(&gate, at + 1);
        }
        for turn in 0..5 {
            holder.query(&format!("select {turn}"));
            let state = if mode == Mode::Statement { "ZI" } else { "ZT" };
            assert_eq!(holder.answer(), [&turn.to_string(), "SELECT 1", state], "{mode}");
            assert_eq!(gate.stats().pools[0].waiting, 3, "{mode}: nobody was let past");
        }
        holder.query(last);
        holder.answer();
        if mode != Mode::Transaction {
            drop(holder);
        }
        for mut newcomer in newcomers {
            assert_eq!(newcomer.answer(), ["served", "SELECT 1", "ZI"], "{mode}");
        }
        gate.end();
    }
}

#[test]
fn a_class_has_a_deadline_of_its_own() {
    let hasty = JobClass { wait_max: Some(Duration::from_millis(100)), ..job_class("hasty") };
    let classes = Classes::new(vec![hasty], vec![rule(vec![program("hasty")], 1, 0)]);
    let gate = Gate::new(config(Mode::Transaction, DisciplineSpec::Fifo, classes.unwrap()));
    let mut holder = client(&gate, "holder");
    holder.query("begin");
    holder.answer();
    let (mut patient, mut hasty) = (client(&gate, "patient"), client(&gate, "hasty"));
    patient.query("select 'patient'");
    waiting(&gate, 1);
    hasty.query("select 'hasty'");
    assert_eq!(hasty.answer(), ["ERROR 53300 no server became free in time", "ZI"]);
    assert_eq!((class(&gate, "hasty").refused_deadline, class(&gate, "hasty").waiting), (1, 0));
    waiting(&gate, 1);
    holder.query("commit");
    holder.answer();
    assert_eq!(patient.answer(), ["patient", "SELECT 1", "ZI"]);
    gate.end();
}
