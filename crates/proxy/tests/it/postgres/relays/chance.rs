//! Scripts of chance: what several clients read through a few servers is what they read on
//! connections of their own. `SEKISHO_SEED` replays one script.

use super::*;

const TEXTS: [&str; 16] = [
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
];
const NAMES: [&str; 4] = ["", "a", "b", "c"];

/// Some messages of chance.
fn messages(chance: &mut Chance) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for _ in 0..1 + chance.below(7) {
        let (name, text) = (NAMES[chance.below(4)], TEXTS[chance.below(TEXTS.len())]);
        let easy = TEXTS[chance.below(4)];
        match chance.below(16) {
            0 => messages.push(parse(name, text, &[])),
            1 | 2 => messages.push(parse(name, easy, &[])),
            3 => messages.push(runs(name, text)),
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

#[test]
fn scripts_of_chance_read_what_they_read_on_connections_of_their_own() {
    let mut chance = Chance::new(20_261_122);
    let mut gate = Gate::new(3, Bounds { server_max: 3, replies_max: 12, ..Bounds::default() });
    gate.strictness = Strictness::UpToFailed;
    for _ in 0..200 {
        let steps: Vec<_> = (0..9).map(|_| (chance.below(3), messages(&mut chance))).collect();
        same(&mut gate, &steps);
        assert_eq!(gate.free.len(), 3);
    }
    println!("{} messages had to wait", gate.later);
    println!("{} scripts ended in a failed transaction that had to be left", gate.unlike);
    assert!(gate.later > 0 && gate.unlike < 10);
}
