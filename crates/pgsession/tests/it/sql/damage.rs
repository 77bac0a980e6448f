//! Damaged texts: nothing panics, nothing takes more than linear time, and what is told stays
//! within its bounds. `SEKISHO_SEED` replays a run.

use std::time::{Duration, Instant};

use pgsession::sql::tokens::{Encoding, Kind, LexerMode, Strings, Tokens};
use pgsession::sql::{
    Choices, Fingerprint, KeyRule, KeyRules, KeyType, Left, Mapping, Settings, SettingsBounds,
    Side, Tags, Where, access, decide, effects,
};

use pgtest::Chance;
use pgtest::suite::many;

const SEEDS: [&str; 14] = [
    "set search_path to a, \"B\", 'c', -1.5e3; reset all; set time zone interval '1' hour",
    "select set_config('a', f(1, 2), false), pg_advisory_lock(1) from t where a in (1, -2, $3)",
    "create or replace temp view a as select 1 into temp b; create function f() begin atomic select 1; end",
    "begin read only; savepoint a; rollback to a; release a; commit",
    "declare c cursor with hold for select 1; explain (analyze) execute a(1, 2)",
    "/*key='42',route='%2Fa'*/ select E'a\\'b' 'c' /* x: y */",
    "set session characteristics as transaction isolation level read committed, read only",
    "select $a$ $$ $a$, U&\"x\", U&'y', B'01', X'1F', 1..2, 0x1F, .5e-3 -- end",
    "(((((((((((((((((((((((",
    "))))]]]];;;;",
    "set role none; set session authorization default; discard all",
    "do $$ x $$; call y(); load 'z'; listen a; unlisten *",
    "\u{e4}\u{f6} \"\u{fc}\" '\u{df}'",
    "set a.b.c to $1; set names; set xml option document",
];

fn read(text: &[u8], lexer_mode: LexerMode, keys: &KeyRules) {
    let mut told = 0;
    if let Ok(mut tokens) = Tokens::new(text, lexer_mode) {
        let mut end = 0;
        while let Ok(token) = tokens.read() {
            assert!(end <= token.start && token.start <= token.end && token.end <= text.len());
            end = token.end;
            if token.kind == Kind::End {
                break;
            }
            assert!(token.end > token.start);
            told += 1;
            let _ = (token.name(text), token.value(text));
        }
    }
    let found = effects(text, lexer_mode);
    assert!(found.effects.len() <= 257 && found.effects.len() <= told * 2);
    for effect in &found.effects {
        assert!(effect.at.start <= effect.at.end && effect.at.end <= text.len(), "{effect:?}");
    }
    let _ =
        (decide(&found, &Choices::default()), access(text, lexer_mode), Tags::of(text, lexer_mode));
    let fingerprint = Fingerprint::of(text, lexer_mode);
    assert_eq!(fingerprint.is_err(), found.unclear.is_some());
    let _ = keys.source(text, lexer_mode);
    let mut settings = Settings::new(Side::Client, SettingsBounds::default(), []);
    let mut left = Left::default();
    left.sent(&found);
    for command in 0..4 {
        settings.completed(found.of(command), b"SET");
        left.completed(found.of(command), b"COMMIT");
    }
    settings.ready(pgwire::message::Status::Idle);
    let server = Settings::new(Side::Server, SettingsBounds::default(), []);
    // What is told to a server is itself a text that can be read.
    if let Ok(Some(batch)) = Settings::difference(&server, &settings) {
        assert_eq!(effects(&batch, LexerMode::default()).unclear, None, "{}", batch.escape_ascii());
    }
}

fn keys() -> KeyRules {
    let statement = Fingerprint::of(b"select $1", LexerMode::default()).unwrap();
    let at = [Where::Comment { name: b"key".to_vec() }, Where::Place { statement, number: 1 }];
    let rules = at.map(|at| KeyRule { at, of: KeyType::Integer, mapping: Mapping::Number });
    KeyRules::new(rules.to_vec())
}

#[test]
fn damaged_texts_are_read_or_unclear() {
    let mut chance = Chance::new(0xda3a);
    let keys = keys();
    for _ in 0..many(30_000) {
        let mut text = SEEDS[chance.below(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..=chance.below(4) {
            let at = chance.below(text.len() + 1);
            match chance.below(5) {
                0 if at < text.len() => text[at] = chance.below(256) as u8,
                1 if at < text.len() => drop(text.remove(at)),
                2 => text.truncate(at.max(1)),
                3 => {
                    let other = SEEDS[chance.below(SEEDS.len())].as_bytes();
                    let from = chance.below(other.len());
                    text.splice(at..at, other[from..].iter().copied());
                }
                _ => text.insert(at, b"'\"$\\/*-;(,)=. \n\0e"[chance.below(17)]),
            }
        }
        let strings = [Strings::Standard, Strings::Backslash][chance.below(2)];
        let encoding = [Encoding::AsciiSafe, Encoding::AsciiUnsafe][chance.below(2)];
        read(&text, LexerMode { strings, encoding }, &keys);
    }
}

/// Each of these repeated is the worst that somebody could think of.
const WORST: [&str; 26] = [
    "+",
    "-+",
    "$a",
    "$a$ ",
    "$",
    "'a' ",
    "'a'\n",
    "/*",
    "*/",
    "(",
    "set_config(",
    "select set_config('a',",
    "set_config('a','b',",
    "savepoint a;",
    "set a to 1;",
    "begin atomic ",
    "create function a begin atomic ",
    "explain (",
    "a=b,",
    "/*a='b'*/ ",
    "U&\"\\\" ",
    "1,",
    "in (1,",
    "into temp ",
    "case ",
    "E'\\''\n",
];

#[test]
fn time_is_linear_whatever_is_repeated() {
    let keys = keys();
    for worst in WORST {
        // This takes some ten milliseconds; if time grew with the square it would be an hour.
        let text = worst.repeat((1 << 18) / worst.len());
        let begun = Instant::now();
        read(text.as_bytes(), LexerMode::default(), &keys);
        read([text.as_bytes(), b"'"].concat().as_slice(), LexerMode::default(), &keys);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{worst:?}: {took:?}");
    }
}
