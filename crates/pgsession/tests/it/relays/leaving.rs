//! Clients that go at any byte: their server is clean for the next one, or closed, and never waited
//! for in vain. `SEKISHO_SEED` replays one script.

use super::chance::anything;
use super::*;
use crate::talks::Author;
use pgtest::suite::many;

/// The next client of a server hears the reply to its question and nothing else.
fn proves_free(gate: &mut Gate, at: usize, nonce: &str) {
    let mut client_statements = ClientStatements::new();
    let seen = gate.passes(
        &mut client_statements,
        at,
        &query(&format!("select '{nonce}'")),
        Ending::Settled,
    );
    let tags: Vec<Backend> =
        pgtest::messages::<Backend>(&seen).iter().map(|&(tag, _)| tag).collect();
    use Backend as B;
    assert_eq!(tags, [B::RowDescription, B::DataRow, B::CommandComplete, B::ReadyForQuery]);
    assert!(seen.windows(nonce.len()).any(|window| window == nonce.as_bytes()));
    assert_eq!(gate.lines[at].relay.kept(), None, "in no transaction");
    gate.cache.forget(client_statements.client);
}

#[test]
fn a_client_that_goes_at_any_byte_leaves_nothing_behind() {
    let replays = std::env::var("SEKISHO_SEED").is_ok();
    let mut gate = Gate::new(2, Bounds { server_max: 4, replies_max: 12, ..Bounds::default() });
    make_tables();
    let mut closed = 0;
    let scripts = if replays { 1 } else { many(250) };
    for number in 1..=scripts {
        let seed = 7_u64.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut chance = Chance::new(seed);
        gate.portions = Portions::Chance(Chance::new(seed));
        let mut client_statements = ClientStatements::new();
        let at = gate.free.pop_front().unwrap();
        let mut said = anything(&mut chance, 1).concat();
        said.extend(anything(&mut chance, 1).concat());
        said.truncate(1 + chance.below(said.len()));
        gate.story = vec![said.escape_ascii().to_string()];
        gate.passes(&mut client_statements, at, &said, Ending::Open);
        closed += usize::from(matches!(gate.effects(client_statements, at), Abandoned::Close(_)));
        assert_eq!(gate.cache.used(), 0, "statements of nobody");
        proves_free(&mut gate, at, &format!("nonce {seed}"));
    }
    println!("{closed} connections were closed");
    assert!(replays || (closed > 0 && closed as u64 * 2 < scripts), "{closed}");
}

#[test]
fn odd_messages_leave_a_server_that_is_clean_or_closed() {
    let replays = std::env::var("SEKISHO_SEED").is_ok();
    let mut gate = Gate::new(2, Bounds { server_max: 4, replies_max: 12, ..Bounds::default() });
    make_tables();
    let (mut closed, mut faults) = (0, 0);
    let scripts = if replays { 1 } else { many(250) };
    for number in 1..=scripts {
        let seed = 13_u64.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut author = Author(Chance::new(seed));
        gate.portions = Portions::Chance(Chance::new(seed));
        let mut script = Vec::new();
        for _ in 0..6 {
            author.unit(&mut script);
        }
        let mut said = Vec::new();
        for (tag, body) in &script {
            write::message(&mut said, *tag, |out| out.extend_from_slice(body));
        }
        let mut client_statements = ClientStatements::new();
        let at = gate.free.pop_front().unwrap();
        gate.story = vec![said.escape_ascii().to_string()];
        gate.passes(&mut client_statements, at, &said, Ending::Open);
        faults += usize::from(gate.fault.take().is_some());
        closed += usize::from(matches!(gate.effects(client_statements, at), Abandoned::Close(_)));
        assert_eq!(gate.cache.used(), 0, "statements of nobody");
        proves_free(&mut gate, at, &format!("nonce {seed}"));
    }
    println!("{closed} connections were closed, {faults} clients refused");
    assert!(
        replays || (closed > 0 && faults > 0 && closed as u64 * 2 < scripts),
        "{closed} {faults}"
    );
}

#[test]
fn what_a_series_has_done_when_its_client_goes_is_undone() {
    let mut gate = Gate::new(1, Bounds::default());
    let mut client_statements = ClientStatements::new();
    make_tables();
    for begun in ["select 1", "begin"] {
        let said = [runs("", begun), runs("", "insert into half values (1)")].concat();
        gate.free.clear();
        let mut leaver = ClientStatements::new();
        gate.passes(&mut leaver, 0, &said, Ending::Open);
        assert!(matches!(gate.effects(leaver, 0), Abandoned::Waits(_)), "{begun}");
        let read = gate
            .through(&mut client_statements, &step(&[query("select 'rows', count(*) from half")]));
        assert_eq!(has(&read, r"rows\x00\x00\x00\x010"), 1, "{read:?}");
    }
    gate.end(vec![client_statements]);
}

#[test]
fn a_connection_that_ends_undoes_what_it_was_asked() {
    let mut gate = Gate::new(2, Bounds::default());
    let mut client_statements = ClientStatements::new();
    let at = gate.free.pop_front().unwrap();
    // No Sync: the server has nothing to say yet.
    gate.passes(&mut client_statements, at, &parse("a", "select 1", &[]), Ending::Open);
    let line = std::mem::replace(&mut gate.lines[at], Line::in_rotation());
    line.relay.end(Some(&mut client_statements.client), &mut gate.cache);
    let read =
        gate.through(&mut client_statements, &step(&[again("a"), parse("a", "select 2", &[])]));
    assert_eq!(has(&read, "26000"), 1);
    gate.end(vec![client_statements]);
}

#[test]
fn a_connection_that_ends_undoes_what_it_was_asked_from_the_end() {
    // The unnamed statement was what it had been before the last Parse, not before the first.
    let mut gate = Gate::new(2, Bounds::default());
    let mut client_statements = ClientStatements::new();
    gate.through(&mut client_statements, &step(&[parse("", "select 'settled'", &[])]));
    let at = gate.free.pop_front().unwrap();
    let open = [parse("", "select 'first'", &[]), parse("", "select 'second'", &[])];
    gate.passes(&mut client_statements, at, &open.concat(), Ending::Open);
    let line = std::mem::replace(&mut gate.lines[at], Line::in_rotation());
    line.relay.end(Some(&mut client_statements.client), &mut gate.cache);
    let read = gate.through(&mut client_statements, &step(&[again("")]));
    assert_eq!(has(&read, "settled"), 1, "{read:?}");
    gate.end(vec![client_statements]);
}
