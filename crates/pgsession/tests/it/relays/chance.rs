//! Scripts of chance: what several clients read through a few servers is what they read on
//! connections of their own. `SEKISHO_SEED` replays one script.

use pgsession::statements::Bounds;
use pgwire::frame::Frontend;
use pgwire::message::write;

use super::*;
use pgtest::suite::many;

const TEXTS: [&str; 22] = [
    "select 1",
    "select 2, 'two'",
    "select 3",
    "",
    "selec",
    "select 1/0",
    "table nowhere",
    "begin",
    "commit",
    "rollback",
    "deallocate a",
    "deallocate all",
    "discard all",
    "deallocate b; select 1",
    "select 5; deallocate prepare \"a\"; deallocate A",
    "set local work_mem = '1MB'",
    "execute a",
    "select 6; execute b; execute \"a\"; selec",
    "execute a(5); execute C(nocol)",
    "explain (costs off) execute b",
    "deallocate b; execute a; execute b",
    "prepare b as select 7",
];
const NAMES: [&str; 4] = ["", "a", "b", "c"];

/// Some messages of chance.
fn messages(chance: &mut Chance) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for _ in 0..1 + chance.below(7) {
        let (name, text) = (NAMES[chance.below(4)], TEXTS[chance.below(TEXTS.len())]);
        let easy = TEXTS[chance.below(4)];
        // What names others is executed by no other: that is refused.
        let names_others =
            ["deallocate", "execute", "prepare"].iter().any(|word| text.contains(word));
        let named = if names_others && !name.is_empty() { "d" } else { name };
        match chance.below(16) {
            0 => messages.push(parse(named, text, &[])),
            1 | 2 => messages.push(parse(name, easy, &[])),
            3 => messages.push([close("d"), runs(named, text)].concat()),
            4 | 5 => messages.push([close(name), runs(name, easy)].concat()),
            6 | 7 => messages.push([bind("", name, &[]), execute("")].concat()),
            8 => messages.push(describe(name)),
            9 => messages.push(close(name)),
            10 => messages.push(query(text)),
            11 => messages.push(again(name)),
            12 => messages.push(
                [parse(name, "select $1::int", &[23]), bind("p", name, &["5"]), execute("p")]
                    .concat(),
            ),
            13 => messages.push(b"H\0\0\0\x04".to_vec()),
            _ => messages.push(sync()),
        }
    }
    messages
}

/// Rows in the middle of things, mostly good ones, with what may stand between them; then an end.
fn copying(chance: &mut Chance, to: &mut Vec<Vec<u8>>) {
    for _ in 0..chance.below(4) {
        to.push(match chance.below(8) {
            0 => bare(Frontend::Flush),
            1 => sync(),
            2 => rows("x\n"),
            3 => rows("x"),
            4 => rows(&"1\n".repeat(300)),
            _ => rows("1\n"),
        });
    }
    to.push(match chance.below(4) {
        0 => named(Frontend::CopyFail, "", "no more", &[]),
        _ => bare(Frontend::CopyDone),
    });
}

/// int4pl(2, 3) by its number, or a function that does not exist.
fn call(function: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::FunctionCall, |out| {
        out.extend_from_slice(&function.to_be_bytes());
        out.extend_from_slice(&[0, 1, 0, 1, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2]);
        out.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 3, 0, 1]);
    });
    out
}

/// A row that nobody else has ever asked for.
fn nonce(chance: &mut Chance) -> String {
    format!("select '{:08x}'", chance.below(1 << 32))
}

/// Something of everything that the protocol has, valid in its order.
pub(super) fn anything(chance: &mut Chance, client: usize) -> Vec<Vec<u8>> {
    let mut to = Vec::new();
    for _ in 0..1 + chance.below(4) {
        let name = NAMES[chance.below(4)];
        let table = ["copy t from stdin", "copy v from stdin"][chance.below(2)];
        match chance.below(14) {
            0 => to.push(query(&nonce(chance))),
            1 => to.push(runs("", &nonce(chance))),
            2 => {
                let value = nonce(chance);
                let value = value.repeat(1 + chance.below(2) * 40);
                to.push([parse("n", "select $1::text", &[]), sync()].concat());
                to.push([bind("p", "n", &[&value]), execute("p"), sync(), close("n")].concat());
            }
            3 => to.extend([parse(name, "selec", &[]), bind("", name, &[]), sync()]),
            4 => {
                to.push(query(table));
                copying(chance, &mut to);
            }
            5 | 6 => {
                // Under a name of its own, so that nothing else begins it.
                to.push([close("copy"), runs("copy", table)].concat());
                if chance.below(2) == 0 {
                    to.push(sync());
                }
                copying(chance, &mut to);
                to.push(sync());
            }
            7 => {
                to.push(query("copy t from stdin; select 1; copy t from stdin"));
                copying(chance, &mut to);
                copying(chance, &mut to);
            }
            8 => to.push(query("copy (select generate_series(1, 300)) to stdout")),
            9 => to.push(call([177, 4_000_000_000][chance.below(2)])),
            10 => to.push(query(&format!("insert into d values ({client}), ({client})"))),
            11 => to.push(query("do $$ begin raise notice 'psst'; end $$")),
            12 => {
                let sql = "select generate_series(1, 3)";
                let some = named(Frontend::Execute, "", "c", &[0, 0, 0, 1]);
                to.push([parse("", sql, &[]), bind("c", "", &[]), some.clone(), some].concat());
                to.push(named(Frontend::Close, "P", "c", &[]));
            }
            _ => to.extend(messages(chance)),
        }
    }
    to
}

pub(super) const TABLES: &str = "create table if not exists t (n int); \
    create or replace view v as select * from t; \
    create table if not exists d (n int unique deferrable initially deferred); \
    create table if not exists half (n int)";

/// Plays scripts, each of which its seed replays.
fn play(scripts: u64, portions: fn(u64) -> Portions) {
    let replays = std::env::var("SEKISHO_SEED").is_ok();
    let scripts = if replays { 1 } else { many(scripts) };
    let mut gate = Gate::new(3, Bounds { server_max: 4, replies_max: 12, ..Bounds::default() });
    gate.strictness = Strictness::UpToFailed;
    make_tables();
    for number in 1..=scripts {
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut chance = Chance::new(seed);
        gate.portions = portions(seed);
        let steps: Vec<_> = (0..12)
            .map(|_| {
                let client = chance.below(5);
                (client, anything(&mut chance, client))
            })
            .collect();
        same(&mut gate, &steps);
        assert_eq!(gate.free.len(), 3);
    }
    println!("{} messages had to wait", gate.later);
    println!("{} scripts ended in a failed transaction that had to be left", gate.unlike);
    assert!(replays || gate.unlike as u64 <= scripts / 10);
}

#[test]
fn anything_valid_is_told_as_on_connections_of_their_own_in_any_portions() {
    play(120, |seed| Portions::Chance(Chance::new(seed)));
}

#[test]
fn a_session_of_its_own_is_told_the_same() {
    make_tables();
    for number in 1..=15_u64 {
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut chance = Chance::new(seed);
        let mut gate = Gate::of_sessions(2);
        gate.portions = Portions::Chance(Chance::new(seed));
        let steps: Vec<_> = (0..12)
            .map(|_| {
                let client = chance.below(2);
                (client, anything(&mut chance, client))
            })
            .collect();
        same(&mut gate, &steps);
    }
}

#[test]
fn bytes_one_by_one_mean_the_same() {
    play(15, |_| Portions::Single);
}

#[test]
fn scripts_of_chance_read_what_they_read_on_connections_of_their_own() {
    let mut chance = Chance::new(20_261_122);
    let mut gate = Gate::new(3, Bounds { server_max: 3, replies_max: 12, ..Bounds::default() });
    gate.strictness = Strictness::UpToFailed;
    for _ in 0..many(200) {
        let steps: Vec<_> = (0..9).map(|_| (chance.below(3), messages(&mut chance))).collect();
        same(&mut gate, &steps);
        assert_eq!(gate.free.len(), 3);
    }
    println!("{} messages had to wait", gate.later);
    println!("{} scripts ended in a failed transaction that had to be left", gate.unlike);
    assert!(gate.later > 0 && gate.unlike < 10);
}
