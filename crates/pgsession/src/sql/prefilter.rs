//! Prefilter of texts: those that are sure to leave nothing behind are known before anybody reads
//! them token by token. Nearly all texts are, so this is what looking at texts costs.

use super::tokens::{Encoding, LexerMode};

/// Result of the prefilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefilter {
    /// It leaves nothing, opens no transaction that was not open, and is not COPY.
    Nothing,
    /// It is BEGIN and nothing else.
    Opens,
    /// It has to be read.
    Unknown,
}

/// Glances at a text. What it says holds however its strings and comments end: it looks for parts of
/// words, wherever they stand.
pub fn prefilter(text: &[u8], lexer_mode: LexerMode) -> Prefilter {
    if lexer_mode.encoding != Encoding::AsciiSafe {
        return Prefilter::Unknown;
    }
    let text = text.trim_ascii();
    let word = text.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, rest) = text.split_at(word);
    let is = |keyword: &[u8]| word.eq_ignore_ascii_case(keyword);
    let alone = rest.iter().all(|byte| matches!(byte, b';' | b' '));
    let reads = match word.len() {
        // By length first: most texts are told apart by one comparison.
        3 => return if is(b"end") && alone { Prefilter::Nothing } else { Prefilter::Unknown },
        // What follows it reads or writes rows, as the others do.
        4 => is(b"with"),
        5 if is(b"begin") && alone => return Prefilter::Opens,
        6 if is(b"commit") && alone => return Prefilter::Nothing,
        6 => is(b"select") || is(b"insert") || is(b"update") || is(b"delete") || is(b"values"),
        8 if is(b"rollback") && alone => return Prefilter::Nothing,
        _ => false,
    };
    // What goes on in the name of the word is another word.
    let ends = rest.first().is_some_and(|&byte| !matches!(byte, b'_' | b'$' | 0x80..));
    if reads && ends && !is_suspect(rest) { Prefilter::Nothing } else { Prefilter::Unknown }
}

/// True if a command that reads or writes rows has something in it that may leave more: another
/// command, `set_config`, a function for advisory locks or of sequences, a temporary table, an
/// escaped name.
fn is_suspect(text: &[u8]) -> bool {
    text.iter().enumerate().any(|(at, byte)| {
        let behind = &text[at + 1..];
        let starts = |word: &[u8]| {
            behind.get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word))
        };
        let follows = |word: &[u8]| {
            let part = at.checked_sub(word.len()).map(|start| &text[start..at]);
            part.is_some_and(|part| part.eq_ignore_ascii_case(word))
        };
        match byte {
            b';' => !behind.iter().all(|byte| matches!(byte, b';' | b' ' | b'\t' | b'\r' | b'\n')),
            // One rare byte of each word is looked for, and only there the rest is compared: `set_config`
            // and `pg_advisory_...`, TEMP, `currval` and `lastval`, `U&`.
            b'_' => starts(b"config") || starts(b"advisory"),
            b'm' | b'M' => starts(b"p") && follows(b"te"),
            b'v' | b'V' => starts(b"al") && (follows(b"curr") || follows(b"last")),
            b'&' => follows(b"u"),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::effects;
    use super::*;

    fn of(text: &str) -> Prefilter {
        prefilter(text.as_bytes(), LexerMode::default())
    }

    #[test]
    fn what_leaves_something_is_never_taken_for_nothing() {
        const PARTS: [&str; 37] = [
            "select",
            "with",
            "insert into",
            "update",
            "begin",
            "commit",
            "end",
            "values(",
            " ",
            "\n",
            ";",
            "set_config('a','b',false)",
            "pg_advisory_lock(1)",
            "\"pg_advisory_lock\"",
            "into temp t",
            "into pg_temp.t",
            "U&\"\\0073et_config\"",
            "SET a TO b",
            "to savepoint s",
            "rollback",
            "pg_Try_Advisory_Lock(2)",
            "/* x */",
            "-- y\n",
            "'",
            "\"",
            "$$",
            "a",
            "_b",
            "prepare p as",
            "execute p",
            "copy t from stdin",
            "and chain",
            "Temporary",
            "listen a",
            "CurrVal",
            "lastval ()",
            "('s')",
        ];
        let mut state = 3_u32;
        let (mut nothing, mut unknown) = (0, 0);
        for _ in 0..60_000 {
            let mut text = String::new();
            for _ in 0..=state >> 8 & 7 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(PARTS[(state >> 16) as usize % PARTS.len()]);
                if state >> 13 & 3 > 0 {
                    text.push(' ');
                }
            }
            state = state.wrapping_add(12_345);
            if of(&text) == Prefilter::Unknown {
                unknown += 1;
            } else {
                nothing += 1;
                let found = effects(text.as_bytes(), LexerMode::default());
                assert_eq!(found.effects, [], "{text}");
            }
        }
        assert!(nothing > 3000 && unknown > 3000, "{nothing} {unknown}");
    }

    #[test]
    fn what_is_common_is_known_at_a_glance() {
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;",
            " update t set a_x = 1; ",
            "insert into t (a) values ('x')",
            "commit",
            "END;",
            "rollback ;",
        ] {
            assert_eq!(of(text), Prefilter::Nothing, "{text}");
        }
        assert_eq!((of("BEGIN"), of("begin;")), (Prefilter::Opens, Prefilter::Opens));
        for text in ["begin read only", "select", "selects 1", "select$a 1", "commit and chain"] {
            assert_eq!(of(text), Prefilter::Unknown, "{text}");
        }
        let unsafe_encoding = LexerMode { encoding: Encoding::AsciiUnsafe, ..LexerMode::default() };
        assert_eq!(prefilter(b"select 1", unsafe_encoding), Prefilter::Unknown);
    }
}
