//! Recognises the commands of SQL that drop prepared statements, and those that open a transaction or may
//! change a schema, by their first words, and literals that are another value at another time. All
//! other text is skipped: strings, names, comments.

use std::ops::Range;
use std::sync::Arc;

use crate::sql::tokens::{Commands, Kind, LexerMode, Literal, Token, Tokens, Unclear};
use crate::sql::{EffectKind, Followed};

/// Effect of a command on the client's statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `DEALLOCATE name`.
    Name(Arc<[u8]>),
    /// `DEALLOCATE ALL`.
    All,
    /// `DISCARD ALL`.
    Discard,
}

/// Contents of a text that concern statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// A transaction may be open behind it that was not before.
    pub(super) opens: bool,
    /// COPY is in it.
    pub(super) copies: bool,
    /// The meaning of a text may be another one behind it: DDL, or code.
    pub(super) alters: bool,
    /// The statements that it drops, in its order, and the places that name them.
    pub(super) drops: Vec<(Range<usize>, Target)>,
    /// The statements that it executes or prepares, in its order.
    pub(super) names: Vec<Named>,
}

/// A statement that a text names otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The index of the session effect of its text that says so.
    pub(super) effect: usize,
    /// The place of the name in the text.
    pub(super) at: Range<usize>,
    pub(super) name: Arc<[u8]>,
    pub(super) usage: Usage,
}

/// The purpose for which a text names a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    /// `EXECUTE name`, also of EXPLAIN and CREATE TABLE AS.
    Executes,
    /// `PREPARE name`.
    Prepares,
}

/// The statements that a text executes or prepares, of which this is what it leaves.
pub(super) fn names(text: &[u8], lexer_mode: LexerMode, followed: Option<&Followed>) -> Vec<Named> {
    let effects = followed.map_or(&[][..], |followed| &followed.effects().effects);
    let named = effects.iter().enumerate().filter_map(|(effect, found)| {
        let usage = match found.what {
            EffectKind::Execute => Usage::Executes,
            EffectKind::Prepare => Usage::Prepares,
            _ => return None,
        };
        // An effect of EXECUTE or PREPARE ends with that word, so the next token is the name. No token
        // spans this place, so the rest is cut as it would be with all of the text.
        let start = found.at.end;
        let behind = text.get(start..)?;
        let token = Tokens::new(behind, lexer_mode).ok()?.read().ok()?;
        let name = token.name(behind)?.into();
        Some(Named { effect, at: start + token.start..start + token.end, name, usage })
    });
    named.collect()
}

/// The most commands that drop statements in one text; one with more is passed as it is.
// Each puts a Close and a Parse before its text, and a name to be remembered. A longer text names what no
// server has, and its server says so.
const DROPS_MAX: usize = 64;

/// Looks through a text. One that does not end, or closes what it did not open, is an error for the
/// server to tell: nothing is found in it.
pub(super) fn look(text: &[u8], lexer_mode: LexerMode) -> Found {
    // Nothing is found that could be rewritten. What the text may do to the transaction and to the schema
    // is taken for the worst.
    let unclear = || Found { opens: true, alters: true, ..Found::default() };
    find(text, lexer_mode).ok().flatten().unwrap_or_else(unclear)
}

/// True if a text may have a literal that says when it is read, such as 'now': a Parse of it then
/// fixes the time. Rather too often than not at all.
pub(super) fn is_dated(text: &[u8], lexer_mode: LexerMode) -> bool {
    let read = || {
        let mut tokens = Tokens::new(text, lexer_mode)?;
        loop {
            let token = tokens.read()?;
            match token.kind {
                Kind::End => return Ok::<bool, Unclear>(false),
                // Digits alone: `B''` and `X''` name no time.
                Kind::Literal(Literal::Bits) => {}
                // A value that is not read here, as of `U&''`, may be any.
                Kind::Literal(_) if token.value(text).is_none_or(|value| says_when(&value)) => {
                    return Ok(true);
                }
                _ => {}
            }
        }
    };
    read().unwrap_or(true)
}

/// True if a server holds a statement to the parameters and columns that it had when it was
/// prepared: what is analysed then (`analyze.c`), which is what is planned, procedures' arguments,
/// and what has a plan within it (EXPLAIN, DECLARE, CREATE TABLE AS); not commands such as FETCH,
/// whose columns are those of each time.
pub(super) fn is_shaped(text: &[u8], lexer_mode: LexerMode) -> bool {
    #[rustfmt::skip]
    const ANALYSED: [&str; 12] = [
        "select", "insert", "update", "delete", "merge", "values", "table", "with",
        "call", "explain", "declare", "create",
    ];
    let first = || {
        let mut tokens = Commands::new(text, lexer_mode)?;
        loop {
            let token = tokens.read()?;
            if token.kind != Kind::Semicolon {
                return Ok::<Token, Unclear>(token);
            }
        }
    };
    first().is_ok_and(|token| {
        token.kind == Kind::Mark(b'(') || ANALYSED.iter().any(|word| token.is(text, word))
    })
}

fn says_when(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];
    // Within the literal anything may stand around the word: ' ToMorrow 10:00'.
    let mut words = value.split(|byte| !byte.is_ascii_alphabetic());
    words.any(|word| WORDS.iter().any(|one| one.eq_ignore_ascii_case(word)))
}

/// None where nothing may be claimed.
fn find(text: &[u8], lexer_mode: LexerMode) -> Result<Option<Found>, Unclear> {
    let mut tokens = Commands::new(text, lexer_mode)?;
    let mut found = Found::default();
    loop {
        let first = tokens.read()?;
        let mut last = first;
        match first.kind {
            Kind::End => return Ok(Some(found)),
            Kind::Semicolon => continue,
            Kind::Word => match Keyword::of(&text[first.at()]) {
                Keyword::Opens => found.opens = true,
                Keyword::Copy => found.copies = true,
                Keyword::Alters => found.alters = true,
                Keyword::Deallocate => match target(&mut tokens)? {
                    Some((at, target, end)) => {
                        found.drops.push((at, target));
                        last = end;
                    }
                    None => return Ok(None),
                },
                Keyword::Discard => {
                    let all = tokens.read()?;
                    last = if ends(&all) { all } else { tokens.read()? };
                    // The other forms of DISCARD drop no statement.
                    if all.is(text, "all") && ends(&last) {
                        found.drops.push((all.at(), Target::Discard));
                    }
                }
                Keyword::Other => {}
            },
            _ => {}
        }
        if found.drops.len() > DROPS_MAX {
            return Ok(None);
        }
        while last.kind != Kind::Semicolon {
            if last.kind == Kind::End {
                return Ok(Some(found));
            }
            last = tokens.read()?;
        }
    }
}

fn ends(token: &Token) -> bool {
    matches!(token.kind, Kind::End | Kind::Semicolon)
}

/// Place of a name to drop in a text, the statement, and the token that ends the command.
type Dropped = (Range<usize>, Target, Token);

/// The name behind DEALLOCATE; none if the server will call it an error.
fn target(tokens: &mut Commands<'_>) -> Result<Option<Dropped>, Unclear> {
    let text = tokens.text();
    let mut name = tokens.read()?;
    let mut end = tokens.read()?;
    // PREPARE is a word that may be left out, and a name that a statement may have.
    if name.is(text, "prepare") && matches!(end.kind, Kind::Word | Kind::Quoted) {
        name = end;
        end = tokens.read()?;
    }
    let target = match name.kind {
        // Only without quotes: "all" in quotes is a name like any other.
        _ if name.is(text, "all") => Some(Target::All),
        Kind::Word | Kind::Quoted => name.name(text).map(|name| Target::Name(name.into())),
        _ => None,
    };
    Ok(target.filter(|_| ends(&end)).map(|target| (name.at(), target, end)))
}

enum Keyword {
    Opens,
    Copy,
    Alters,
    Deallocate,
    Discard,
    Other,
}

impl Keyword {
    fn of(word: &[u8]) -> Keyword {
        let named = |keyword: &str| word.eq_ignore_ascii_case(keyword.as_bytes());
        match word[0].to_ascii_lowercase() {
            b'b' if named("begin") => Keyword::Opens,
            b's' if named("start") => Keyword::Opens,
            b'c' if named("copy") => Keyword::Copy,
            b'c' if named("create") || named("call") => Keyword::Alters,
            b'a' if named("alter") => Keyword::Alters,
            b'd' if named("drop") || named("do") => Keyword::Alters,
            b'i' if named("import") => Keyword::Alters,
            b'd' if named("deallocate") => Keyword::Deallocate,
            b'd' if named("discard") => Keyword::Discard,
            _ => Keyword::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &[u8]) -> Found {
        super::look(text, LexerMode::default())
    }

    fn drops(text: &str) -> Vec<String> {
        let found = look(text.as_bytes());
        let told = found.drops.into_iter().map(|(at, target)| match target {
            Target::Name(name) => format!("{}={}", &text[at], String::from_utf8_lossy(&name)),
            other => format!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn commands_are_found_among_comments_case_quotes_and_others() {
        assert_eq!(drops("deallocate a"), ["a=a"]);
        assert_eq!(
            drops("/* a /* ; */ */DEALLOCATE -- x\n PREPARE \"A \"\"b\";"),
            ["\"A \"\"b\"=A \"b"]
        );
        assert_eq!(
            drops("; Deallocate prepare; discard ALL; deallocate All"),
            ["prepare=prepare", "Discard", "All"]
        );
        assert_eq!(drops("select 'deallocate a; '; deallocate B"), ["B=b"]);
        for none in [
            "select 1",
            "discard plans",
            "deallocate a b",
            "deallocate",
            "select ';deallocate a",
            "select $$;deallocate a$$",
            "select $x$ $$; deallocate a; $x$",
            "select E'\\';deallocate a'",
            "create rule r as on insert to t do (select 1; deallocate a; select 2)",
            "/* deallocate a",
            "select \";deallocate a;\"",
            "deallocate 'a'",
            "deallocate u&\"a\"",
            "select $1;discard all all",
        ] {
            assert_eq!(drops(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn names_that_are_executed_or_prepared_are_found() {
        let named = |text: &str| -> Vec<String> {
            let choices = crate::sql::Choices::default();
            let followed = Followed::of(text.as_bytes(), LexerMode::default(), &choices).unwrap();
            let found = names(text.as_bytes(), LexerMode::default(), followed.as_ref());
            let told = found.into_iter().map(|one| {
                let name = String::from_utf8_lossy(&one.name).into_owned();
                format!("{:?} {}={name}", one.usage, &text[one.at])
            });
            told.collect()
        };
        assert_eq!(named("execute A(1, ';')"), ["Executes A=a"]);
        assert_eq!(
            named("select 1;/* x */EXECUTE -- y\n \"A\"; prepare b (int) as select 1"),
            ["Executes \"A\"=A", "Prepares b=b"]
        );
        assert_eq!(
            named("explain (analyze, costs off) execute a; create temp table t as execute b(1)"),
            ["Executes a=a", "Executes b=b"]
        );
        for none in [
            "select 'execute a'",
            "create trigger t before insert on a for each row execute function f()",
            "prepare transaction 'a'",
            "grant execute on function f to a",
            "execute",
            "execute 'a'",
        ] {
            assert_eq!(named(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn what_a_server_holds_to_its_shape_is_told_by_its_first_word() {
        let shaped = |text: &str| is_shaped(text.as_bytes(), LexerMode::default());
        for text in [
            "select 1",
            "(select 1)",
            "; /* x */ WITH a as (select 1) table a",
            "merge into t using u on true when matched then delete",
            "CALL p($1)",
            "explain analyze insert into t values ($1)",
            "declare c cursor for select $1",
            "create table t as select $1",
        ] {
            assert!(shaped(text), "{text}");
        }
        for text in ["fetch 1 from c", "show work_mem", "execute a($1)", "do ''", ""] {
            assert!(!shaped(text), "{text}");
        }
    }

    #[test]
    fn what_opens_or_copies_is_found() {
        assert!(look(b"select 1; BEGIN").opens && look(b" start transaction").opens);
        assert!(!look(b"select 1; commit").opens && look(b"select '").opens);
        assert!(look(b"Copy t from stdin").copies && !look(b"select copy").copies);
        assert!(look(b"select 1; Alter table t add b int").alters && look(b"do ''").alters);
        assert!(look(b"select '").alters && !look(b"select create from drop").alters);
    }

    #[test]
    fn a_literal_that_says_when_is_found() {
        let dated = |text: &str| is_dated(text.as_bytes(), LexerMode::default());
        for text in [
            "select 'now'::timestamp",
            "select date ' ToMorrow 10:00'",
            "select $$yesterday$$::date",
            "select 'to'\n'day'::date",
            "select E'n\\u006fw'::time",
            "select U&'n\\006fw'::time",
            "select '",
        ] {
            assert!(dated(text), "{text}");
        }
        for text in [
            "select now(), \"today\" -- now",
            "select 'unknown', 'nowhere', 'it''s', 'todays'",
            "select b'1', E'a\\n'",
            "",
        ] {
            assert!(!dated(text), "{text}");
        }
    }

    #[test]
    fn any_bytes_end() {
        let mut state = 7_u32;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..state % 17)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"$$'\"e\\;/**/-\n a1\xff("[(state >> 16) as usize % 18]
                })
                .collect();
            state = state.wrapping_add(12_345);
            look(&text);
        }
    }
}
