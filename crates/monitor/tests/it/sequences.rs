//! `currval` and `lastval` of clients that share servers: never the value of somebody else.

use monitor::Mode;
use pgsession::sql::{Choices, Reason, SequenceChoice};
use pgwire::message::write;
use pgwire::startup::Version;

use super::leftovers::at_the_server;
use super::{Gate, Raw, database, trusting};

const ROUNDS: usize = 200;

fn gate(slots: u32, sequences: SequenceChoice) -> Gate {
    let mut config = trusting(database(Mode::Transaction, slots));
    config.leftovers = Choices { sequences, ..Choices::default() };
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
        super::leftovers::extended(&mut out, sql);
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

#[test]
fn a_function_that_names_it_is_seen_by_no_text_and_needs_always() {
    let table = made("function");
    let mut server = at_the_server(&[]);
    server.says(&format!(
        "create or replace function of_{table}() returns bigint language sql as \
         $$ select currval('{table}_id_seq') $$"
    ));
    for (sequences, error) in
        [(SequenceChoice::DiscardAlways, true), (SequenceChoice::Discard, false)]
    {
        let gate = gate(1, sequences);
        let (mut one, mut other) = (enter(&gate), enter(&gate));
        other.says(&format!("insert into {table} (of) values (2)"));
        let told = one.says(&format!("select of_{table}()"));
        assert_eq!(told[0] == undefined(&table), error, "{sequences:?} {told:?}");
        gate.end();
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
