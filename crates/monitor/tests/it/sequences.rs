//! `currval` and `lastval` of clients that share servers: never the value of somebody else.

use monitor::{Config, Mode};
use pgsession::sql::{Choices, Reason, SequenceChoice};
use pgwire::message::write;
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::Version;

use super::session_state::{at_the_database, at_the_server};
use super::{Gate, Raw, database, trusting};

const ROUNDS: usize = 200;

fn gate(slots: u32, sequences: SequenceChoice) -> Gate {
    let mut config = trusting(database(Mode::Transaction, slots));
    config.session_state = Choices { sequences, ..Choices::default() };
    Gate::new(config)
}

fn enter(gate: &Gate) -> Raw {
    Raw::enter(gate, Version::V3_0, &[])
}

impl Raw {
    fn says(&mut self, sql: &str) -> Vec<String> {
        self.query(sql);
        self.answer()
    }

    /// By the extended protocol.
    fn says_extended(&mut self, sql: &str) -> Vec<String> {
        let mut out = Vec::new();
        super::session_state::extended(&mut out, sql);
        write::bare(&mut out, pgwire::frame::Frontend::Sync);
        self.say(&out);
        self.answer()
    }
}

/// A sequence that is moved behind the default of a column.
fn made(name: &str) -> String {
    let mut server = at_the_server(&[]);
    let table = format!("sequences_{name}");
    server.says(&format!("drop table if exists {table}; create table {table} (id serial, of int)"));
    table
}

fn undefined(table: &str) -> String {
    format!("ERROR 55000 currval of sequence \"{table}_id_seq\" is not yet defined in this session")
}

/// Two clients in turns, each a transaction on whatever server is free: what `currval` or `lastval` said
/// was the other's value in 200 of 200 rounds, without a word.
#[test]
fn what_another_client_has_moved_is_nobodys_value() {
    for slots in [1, 2] {
        let table = made(&format!("turns_{slots}"));
        let gate = gate(slots, SequenceChoice::Discard);
        let mut clients = [enter(&gate), enter(&gate)];
        let (mut wrong, mut refused) = (0, 0);
        for round in 0..ROUNDS {
            let [one, other] = &mut clients;
            let id = one.says(&format!("insert into {table} (of) values (1) returning id"));
            other.says(&format!("insert into {table} (of) values (2) returning id"));
            let asks = match round % 2 {
                0 => format!("select currval('{table}_id_seq')"),
                _ => "select lastval()".to_owned(),
            };
            let heard = match round % 4 {
                0 | 1 => one.says(&asks),
                _ => one.says_extended(&asks),
            };
            let lastval = "ERROR 55000 lastval is not yet defined in this session".to_owned();
            let expected = if round % 2 == 0 { undefined(&table) } else { lastval };
            let value = heard.iter().find(|one| one.parse::<u32>().is_ok());
            wrong += usize::from(value.is_some_and(|value| *value != id[0]));
            refused += usize::from(heard.contains(&expected));
        }
        assert_eq!((wrong, refused), (0, ROUNDS), "of {ROUNDS} with {slots} slots");
        assert_eq!(gate.stats().pins, []);
        gate.end();
    }
}

#[test]
fn what_the_same_transaction_has_moved_is_known_as_ever() {
    let table = made("together");
    let gate = gate(2, SequenceChoice::Discard);
    let mut clients = [enter(&gate), enter(&gate)];
    // The first text of all that speaks of it begins with it: there is nothing to refuse.
    assert_eq!(clients[0].says("select lastval()")[0].split(' ').nth(1), Some("55000"));
    let mut right = 0;
    for round in 0..ROUNDS {
        let client = &mut clients[round % 2];
        client.says("begin");
        let id = client.says(&format!("insert into {table} (of) values (1) returning id"));
        let asks = format!("select currval('{table}_id_seq')");
        let told = match round % 4 {
            0 | 1 => client.says(&asks),
            _ => client.says_extended(&asks),
        };
        let told = told.iter().find(|one| one.parse::<u32>().is_ok());
        right += usize::from(told == Some(&id[0]));
        client.says("commit");
        // As one text, too.
        let both = format!("insert into {table} (of) values (1) returning id; {asks}");
        let both = client.says(&both);
        assert_eq!(both[0], both[2], "{both:?}");
    }
    assert_eq!(right, ROUNDS);
    gate.end();
}

/// The first text of a pool that speaks of it may come in the midst of a transaction, on a server where
/// others have moved sequences: what that would say is not told, and from then on all is well.
#[test]
fn the_first_one_within_a_transaction_is_refused_and_the_next_is_not() {
    let table = made("first");
    let gate = gate(1, SequenceChoice::Discard);
    let (mut one, mut other) = (enter(&gate), enter(&gate));
    other.says(&format!("insert into {table} (of) values (2)"));
    let texts = [
        "begin".to_owned(),
        format!("insert into {table} (of) values (1) returning id"),
        format!("select currval('{table}_id_seq')"),
    ];
    let run = |client: &mut Raw| texts.each_ref().map(|text| client.says(text));
    let [_, _, told] = run(&mut one);
    assert_eq!(
        told,
        [
            "ERROR 55000 it is not known which sequences this session has moved: the server was \
             another client's before",
            "ZE"
        ]
    );
    assert_eq!(one.says("rollback"), ["ROLLBACK", "ZI"]);
    let [_, moved, told] = run(&mut one);
    assert_eq!(told[0], moved[0]);
    one.says("commit");
    // Another's function of that name is read as the server's own.
    assert_eq!(other.says(&texts[2])[0], undefined(&table));
    gate.end();
}

#[test]
fn code_that_names_it_has_sequences_discarded_too() {
    let table = made("code");
    let gate = gate(1, SequenceChoice::Discard);
    let (mut one, mut other) = (enter(&gate), enter(&gate));
    other.says(&format!("insert into {table} (of) values (2)"));
    let text = format!("do $$ begin perform currval('{table}_id_seq'); end $$");
    assert_eq!(one.says(&text)[0], undefined(&table));
    gate.end();
}

/// Nothing showed that a default, a function or a view asked for it: each told the other client's value, 50 of
/// 50 times.
#[test]
fn what_asks_behind_a_default_a_function_or_a_view_gets_nobody_elses_value() {
    let unseen = [
        ("default", "create table AS (parent bigint default currval('SEQ'), of int)", ""),
        ("default_last", "create table AS (parent bigint default lastval(), of int)", ""),
        (
            "plpgsql",
            "create function AS() returns bigint language plpgsql as \
                     'begin return CurrVal(''SEQ''); end'",
            "select AS()",
        ),
        ("standard", "create function AS() returns bigint return lastval()", "select AS()"),
        ("view", "create view AS as select currval('SEQ') as id", "select id from AS"),
        (
            "domain",
            "create domain AS_of as bigint default currval('SEQ'); \
                    create table AS (parent AS_of, of int)",
            "",
        ),
        (
            "argument",
            "create function AS(id bigint default lastval()) returns bigint \
                      language sql as 'select id'",
            "select AS()",
        ),
    ];
    let own = OwnDatabase::new("unseen");
    let mut server = own.server();
    server.says("create table moved (id serial, of int)");
    for (name, makes, asks) in unseen {
        server.says("begin");
        let said = server.says(&makes.replace("AS", "thing").replace("SEQ", "moved_id_seq"));
        assert!(!said[0].starts_with("ERROR"), "{name}: {said:?}");
        server.says("commit");
        let asks = match asks {
            "" => "insert into thing (of) values (1) returning parent".to_owned(),
            asks => asks.replace("AS", "thing"),
        };
        let gate = own.gate(SequenceChoice::Discard);
        let (mut one, mut other) = (own.enter(&gate), own.enter(&gate));
        let insert = "insert into moved (of) values (1) returning id";
        for _ in 0..5 {
            one.says(insert);
            other.says(insert);
            let said = one.says(&asks);
            assert_eq!(said[0].split(' ').nth(1), Some("55000"), "{name}: {said:?}");
            // In one transaction it is as ever.
            one.says("begin");
            let id = one.says(insert)[0].clone();
            assert_eq!(one.says(&asks)[0], id, "{name}");
            one.says("commit");
        }
        gate.end();
        for kind in ["table", "view", "function", "domain"] {
            let of = if kind == "domain" { "thing_of" } else { "thing" };
            server.says(&format!("drop {kind} if exists {of} cascade"));
        }
    }
}

/// Where nothing asks nothing is discarded, and what is made past the gate is not known at once.
#[test]
fn where_the_database_has_nothing_that_asks_nothing_is_discarded() {
    let own = OwnDatabase::new("unasked");
    let mut server = own.server();
    server.says("create table moved (id serial, of int)");
    let gate = own.gate(SequenceChoice::Discard);
    let (mut one, mut other) = (own.enter(&gate), own.enter(&gate));
    one.says("select 1");
    other.says("select 1");
    let id = one.says("insert into moved (of) values (1) returning id")[0].clone();
    server.says("create function thing() returns bigint language sql as 'select lastval()'");
    assert_eq!(other.says("select thing()")[0], id);
    gate.end();
}

/// The choice for what is seen neither in a text nor in the database: a name that code puts together, and a function
/// that is made past the gate.
#[test]
fn discarded_always_no_value_is_another_clients_however_it_is_asked_for() {
    let own = OwnDatabase::new("always");
    let mut server = own.server();
    server.says("create table moved (id serial, of int)");
    let gate = own.gate(SequenceChoice::DiscardAlways);
    let (mut one, mut other) = (own.enter(&gate), own.enter(&gate));
    one.says("select 1");
    other.says("select 1");
    one.says("insert into moved (of) values (1) returning id");
    server.says("create function thing() returns bigint language sql as 'select lastval()'");
    let put_together = "select query_to_xml('select last' || 'val()', true, false, '')";
    for asks in ["select thing()", put_together] {
        let answer = other.says(asks);
        assert!(answer[0].contains("55000"), "{asks}: {answer:?}");
        one.says("insert into moved (of) values (1) returning id");
    }
    gate.end();
}

/// What a client of one pool makes counts for the clients of all pools of the database at once.
#[test]
fn what_is_made_through_the_gate_counts_for_all_users_of_the_database() {
    let own = OwnDatabase::new("made");
    let mut server = own.server();
    server.says("create table moved (id serial, of int)");
    server.says("drop role if exists sequences_made");
    server.says("create role sequences_made superuser login password 'made'");
    let mut config = own.config(SequenceChoice::Discard);
    let password = String::from_utf8(super::password()).unwrap();
    let users = format!("\"sekisho\" \"{password}\"\n\"sequences_made\" \"made\"\n");
    config.users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
    config.databases[0].login = None;
    let gate = Gate::new(config);
    let (mut one, mut other) = (own.enter(&gate), own.enter(&gate));
    let insert = "insert into moved (of) values (1) returning id";
    one.says(insert);
    let mut maker = Raw::connect(&gate);
    maker.start_of(("sequences_made", &own.0), Version::V3_0, &[]);
    let makes = "create function thing() returns bigint language sql as \
                 $$ select currval('moved_id_seq') $$";
    assert_eq!(maker.entered().says(makes)[0], "CREATE FUNCTION");
    other.says(insert);
    assert_eq!(one.says("select thing()")[0], undefined("moved"));
    gate.end();
}

/// A database of one test's own: what it has is nobody else's.
struct OwnDatabase(String);

impl OwnDatabase {
    fn new(name: &str) -> OwnDatabase {
        let own = OwnDatabase(format!("of_sequences_{name}"));
        let mut server = at_the_server(&[]);
        server.says(&format!("drop database if exists {}", own.0));
        let said = server.says(&format!("create database {}", own.0));
        assert_eq!(said[0], "CREATE DATABASE");
        own
    }

    fn server(&self) -> Raw {
        at_the_database(&self.0, &[])
    }

    fn config(&self, sequences: SequenceChoice) -> Config {
        let mut database = database(Mode::Transaction, 1);
        database.name.clone_from(&self.0);
        let mut config = trusting(database);
        config.session_state = Choices { sequences, ..Choices::default() };
        config
    }

    fn gate(&self, sequences: SequenceChoice) -> Gate {
        Gate::new(self.config(sequences))
    }

    fn enter(&self, gate: &Gate) -> Raw {
        Raw::enter_at(gate, &self.0)
    }
}

#[test]
fn who_keeps_the_server_for_it_has_its_own_value_and_nobody_elses() {
    let table = made("pinned");
    let gate = gate(2, SequenceChoice::Pin);
    let (mut one, mut other) = (enter(&gate), enter(&gate));
    let inserts = format!("insert into {table} (of) values (1) returning id");
    let asks = format!("select currval('{table}_id_seq')");
    for _ in 0..2 {
        one.says(&inserts);
        other.says(&inserts);
    }
    assert_eq!(one.says(&asks)[0], undefined(&table), "what was moved before is not known");
    let moved = one.says(&inserts)[0].clone();
    other.says(&inserts);
    assert_eq!(one.says(&asks)[0], moved);
    let pins = gate.stats().pins;
    assert_eq!(pins.len(), 1);
    assert!(pins[0].reasons.has(Reason::Sequence), "{pins:?}");
    one.says("discard sequences");
    assert_eq!(gate.stats().pins, []);
    drop(one);
    assert_eq!(other.says(&asks)[0], undefined(&table));
    gate.end();
}

#[test]
fn where_it_is_refused_the_gate_says_so_and_where_it_is_trusted_nothing_is_done() {
    let table = made("choices");
    let asks = format!("select currval('{table}_id_seq')");
    let refusing = gate(1, SequenceChoice::Refuse);
    let refused = "ERROR 0A000 currval and lastval are not allowed in transaction mode";
    assert_eq!(enter(&refusing).says(&asks), [refused, "ZI"]);
    refusing.end();
    let trusting = gate(1, SequenceChoice::Trust);
    let (mut one, mut other) = (enter(&trusting), enter(&trusting));
    let moved = other.says(&format!("insert into {table} (of) values (1) returning id"));
    assert_eq!(one.says(&asks)[0], moved[0], "it is the other's");
    trusting.end();
}
