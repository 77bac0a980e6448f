//! Texts by chance, cut by us and by a real PostgreSQL: what it says of them must fit.

use pgsession::sql::tokens::{Commands, Kind, LexerMode, Strings, Token, Tokens, Unclear};

use super::{Said, Session};
use pgtest::Chance;

const CRUMBS: [&str; 44] = [
    "'", "''", "\"", "\"\"", "\\", "\\'", "$$", "$a$", "$b", "$1", "$", "--", "\n", "\r", "/*",
    "*/", "E'", "e", "U&'", "U&\"", "B'", "x'1F'", "n'", "a", "_b", "\u{e4}", "1", ".5", "1e",
    "e-3", "+", "-", "*", "=", "<", "@", "(", ")", ",", ";", " ", "\t", "a.b", "::text",
];

fn tokens(text: &[u8], lexer_mode: LexerMode) -> Result<Vec<Token>, Unclear> {
    let (mut tokens, mut found) = (Tokens::new(text, lexer_mode)?, Vec::new());
    loop {
        let token = tokens.read()?;
        if token.kind == Kind::End {
            return Ok(found);
        }
        found.push(token);
    }
}

/// Number of a text's commands.
fn commands(text: &[u8], lexer_mode: LexerMode) -> Result<usize, Unclear> {
    let (mut commands, mut count, mut empty) = (Commands::new(text, lexer_mode)?, 0, true);
    loop {
        match commands.read()?.kind {
            Kind::End => return Ok(count + usize::from(!empty)),
            Kind::Semicolon => {
                count += usize::from(!empty);
                empty = true;
            }
            _ => empty = false,
        }
    }
}

/// Tells the session how strings are to be read.
fn lexer_mode(session: &mut Session, strings: Strings) -> LexerMode {
    let on = if strings == Strings::Standard { "on" } else { "off" };
    session.ask(
        format!("set standard_conforming_strings to {on}; set escape_string_warning to off")
            .as_bytes(),
    );
    LexerMode { strings, ..LexerMode::default() }
}

/// One string or name of a text that should be right.
fn piece(chance: &mut Chance) -> String {
    let inner: String = (0..chance.below(6)).map(|_| CRUMBS[chance.below(CRUMBS.len())]).collect();
    let part = |inner: &str| format!("'{}'", inner.replace('\'', "''"));
    match chance.below(9) {
        0 => part(&inner),
        1 => format!("E{}", part(&inner.replace('\\', "\\\\"))),
        2 => format!("E'\\t{}\\x41\\''", inner.replace('\\', "\\\\").replace('\'', "\\'")),
        3 => format!("$q${inner}$q$"),
        4 => format!("{} -- {}\n {}", part(&inner), inner.replace(['\n', '\r'], ""), part("x")),
        5 => {
            format!("/*{}*/'a'", inner.replace("*/", "").replace("/*", "").replace(['*', '/'], ""))
        }
        6 => {
            let escaped = inner.replace('\\', "\\\\").replace('\'', "\\'");
            format!("E'a'\n'{escaped}\\''")
        }
        7 => "/* a /* ' */ $$ */$$b$$".to_owned(),
        _ => format!("$${}$$", inner.replace('$', "")),
    }
}

#[test]
fn what_a_server_accepts_has_the_same_commands_and_values() {
    let (mut session, _) = Session::new(&[]);
    let mut chance = Chance::new(0x70ce);
    let (mut accepted, mut compared, mut skipped) = (0, 0, 0);
    for round in 0..1500 {
        let strings = [Strings::Standard, Strings::Backslash][round / 100 % 2];
        let lexer_mode = match round % 100 {
            0 => lexer_mode(&mut session, strings),
            _ => LexerMode { strings, ..LexerMode::default() },
        };
        let pieces: Vec<_> = (0..=chance.below(4)).map(|_| piece(&mut chance)).collect();
        let text: Vec<_> = pieces.iter().map(|piece| format!("select {piece}")).collect();
        let text = text.join([";", ";;", "; --'\n"][chance.below(3)]);
        let said = session.ask(text.as_bytes());
        let found = commands(text.as_bytes(), lexer_mode);
        let failed = said.iter().any(|said| matches!(said, Said::Error { .. }));
        if failed {
            continue;
        }
        accepted += 1;
        let complete = said.iter().filter(|said| matches!(said, Said::Complete(_))).count();
        assert_eq!(found, Ok(complete), "{lexer_mode:?} {text}");
        let rows = said.iter().filter_map(|said| match said {
            Said::Row(row) => row[0].clone(),
            _ => None,
        });
        let rows: Vec<_> = rows.collect();
        let found = tokens(text.as_bytes(), lexer_mode).unwrap();
        let values: Vec<_> = found
            .iter()
            .filter(|token| matches!(token.kind, Kind::Literal(_)))
            .map(|token| token.value(text.as_bytes()))
            .collect();
        // What was meant to be in a string may have become an operator between two.
        if values.len() != rows.len() {
            skipped += 1;
            continue;
        }
        compared += values.iter().flatten().count();
        for (value, row) in values.iter().zip(&rows) {
            // What is not told is not wrong.
            assert!(
                value.as_ref().is_none_or(|value| value == row),
                "{lexer_mode:?} {text}: {value:?} {row:?}"
            );
        }
    }
    println!("{accepted} accepted, {compared} values compared, {skipped} not");
    assert!(accepted > 700 && compared > 1000, "{accepted} accepted, {compared} compared");
    assert!(skipped < accepted / 20, "{skipped} of {accepted} have literals that are no columns");
}

#[test]
fn what_a_server_finds_without_end_is_unclear_and_its_errors_stand_at_tokens() {
    let (mut session, _) = Session::new(&[]);
    let mut chance = Chance::new(0x11f3);
    let (mut accepted, mut unterminated, mut placed) = (0, 0, 0);
    for round in 0..6000 {
        let strings = [Strings::Standard, Strings::Backslash][round / 100 % 2];
        let lexer_mode = match round % 100 {
            0 => lexer_mode(&mut session, strings),
            _ => LexerMode { strings, ..LexerMode::default() },
        };
        let crumbs: String =
            (0..=chance.below(7)).map(|_| CRUMBS[chance.below(CRUMBS.len())]).collect();
        let text = format!("select {crumbs}");
        let said = session.ask(text.as_bytes());
        let found = tokens(text.as_bytes(), lexer_mode);
        let error = said.iter().find_map(|said| match said {
            Said::Error { code, message, position } => Some((code, message, position)),
            _ => None,
        });
        let Some((code, message, position)) = error else {
            accepted += 1;
            let complete = said.iter().filter(|said| matches!(said, Said::Complete(_))).count();
            assert_eq!(
                commands(text.as_bytes(), lexer_mode),
                Ok(complete),
                "{lexer_mode:?} {text:?}"
            );
            continue;
        };
        if message.starts_with("unterminated") {
            unterminated += 1;
            assert_eq!(found, Err(Unclear::Unterminated), "{lexer_mode:?} {text:?}: {message}");
        }
        if let (Ok(found), true, Some(position)) =
            (&found, message.starts_with("syntax error at or near"), position)
        {
            placed += 1;
            let at = text.char_indices().nth(position - 1).map_or(text.len(), |(at, _)| at);
            assert!(
                found.iter().any(|token| token.start == at),
                "{lexer_mode:?} {text:?}: {code} {message} at {at} {found:?}"
            );
        }
    }
    println!("{accepted} accepted, {unterminated} without end, {placed} errors at tokens");
    assert!(
        accepted > 100 && unterminated > 500 && placed > 500,
        "{accepted} {unterminated} {placed}"
    );
}

/// END and CASE are names, too, and a body was taken to end at one, or to go on behind its end: what
/// followed was not seen.
#[test]
fn what_stands_behind_the_body_of_a_function_has_the_number_that_the_server_gives_it() {
    const STATEMENTS: [&str; 12] = [
        "",
        "select 1",
        "select 1 end",
        "select 1 as end",
        "select 1 as case",
        "select 1 as begin",
        "select x.end from (select 1 as end) x",
        "select case when true then 1 end",
        "select case when true then case 1 when 1 then 2 end end as case",
        "(select 1 end)",
        "select (select 1 as end)",
        "select 'end;' as \"end\"",
    ];
    const HEADS: [&str; 4] = [
        "create or replace function body_f(begin int) returns setof int",
        "create or replace function body_f(begin int, \"end\" int) returns setof int",
        "Create Or Replace Function body_f(\"case\" int) Returns Setof int language sql",
        "create or replace procedure body_p()",
    ];
    let (mut session, _) = Session::new(&[]);
    let mut chance = Chance::new(0xb0d1);
    let mut accepted = 0;
    for _ in 0..300 {
        let head = HEADS[chance.below(HEADS.len())];
        let mut text = format!("begin; {head} begin atomic");
        for _ in 0..=chance.below(4) {
            text.push_str(&format!(" {};", STATEMENTS[chance.below(STATEMENTS.len())]));
        }
        // Some end with no statement that gives what the function returns.
        text.push_str(" select 2; End; select 3; rollback; select 4 as end; select 5");
        let found = commands(text.as_bytes(), LexerMode::default());
        let said = session.ask(text.as_bytes());
        if said.iter().any(|said| matches!(said, Said::Error { .. })) {
            session.ask(b"rollback");
            continue;
        }
        accepted += 1;
        let complete = said.iter().filter(|said| matches!(said, Said::Complete(_))).count();
        assert_eq!(found, Ok(complete), "{text}");
    }
    assert!(accepted > 200, "{accepted} of 300");
}
