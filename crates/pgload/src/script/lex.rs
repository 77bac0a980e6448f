//! Statements of a script: where one ends, and where it names variables, by the lexical rules of
//! PostgreSQL and psql.

use super::expr::{Fault, variable_length};

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// `:name`.
    Variable {
        name: String,
        at: usize,
        place: Inside,
    },
}

/// Surroundings of a name in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// Where a value may stand.
    Nothing,
    /// In quotes, or between dollars.
    Quotes,
}

/// A statement as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statement {
    /// Where its first word stands.
    pub(super) at: usize,
    pub(super) pieces: Vec<Piece>,
    /// Where `\;` joins it to another, if it does.
    pub(super) joined: Option<usize>,
}

/// End of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Semicolon,
    /// A meta-command begins there.
    Backslash,
    File,
}

/// Reads a statement from `at` on; none if only white space and comments stand there. What ended it,
/// and where it goes on.
pub(super) fn statement(text: &str, at: usize) -> Result<(Option<Statement>, Ends, usize), Fault> {
    let mut lexer = Lexer {
        text,
        at,
        begins: None,
        pieces: Vec::new(),
        plain: String::new(),
        joined: None,
        parentheses: 0,
        words: Words::default(),
    };
    let ends = lexer.run()?;
    let next = lexer.at;
    lexer.flush();
    if let Some(Piece::Text(last)) = lexer.pieces.last_mut() {
        last.truncate(last.trim_end().len());
    }
    let found = lexer.begins.map(|at| Statement { at, pieces: lexer.pieces, joined: lexer.joined });
    Ok((found, ends, next))
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    begins: Option<usize>,
    pieces: Vec<Piece>,
    plain: String,
    joined: Option<usize>,
    parentheses: usize,
    words: Words,
}

/// Words so far, as far as they matter: the semicolons in the body of an SQL function do not end its
/// statement.
#[derive(Default)]
struct Words {
    count: usize,
    creates: bool,
    routine: bool,
    depth: usize,
}

impl Words {
    fn word(&mut self, word: &str) {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        match self.count {
            0 => self.creates = is("create"),
            1..=3 if self.creates => self.routine |= is("function") || is("procedure"),
            _ => {}
        }
        self.count += 1;
        if self.routine && is("begin") || self.depth > 0 && is("case") {
            self.depth += 1;
        } else if self.depth > 0 && is("end") {
            self.depth -= 1;
        }
    }
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Goes on by so many bytes, which belong to the statement.
    fn take(&mut self, length: usize) {
        self.plain.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// Notes where the statement begins; comments and white space before it are left out.
    fn begin(&mut self) {
        if self.begins.is_none() {
            self.begins = Some(self.at);
            self.plain.clear();
        }
    }

    fn flush(&mut self) {
        if !self.plain.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.plain)));
        }
    }

    fn run(&mut self) -> Result<Ends, Fault> {
        loop {
            let Some(c) = self.rest().chars().next() else { return Ok(Ends::File) };
            let rest = self.rest();
            if c.is_whitespace() {
                self.take(c.len_utf8());
            } else if rest.starts_with("--") {
                let length = rest.find('\n').unwrap_or(rest.len());
                self.take(length);
            } else if rest.starts_with("/*") {
                let length = comment_length(rest);
                let length = length.ok_or_else(|| {
                    Fault::new(self.at, "the comment is never closed: `*/` is missing")
                })?;
                self.take(length);
            } else if c == '\\' {
                match rest.as_bytes().get(1) {
                    Some(joint @ (b';' | b':')) => {
                        self.begin();
                        if *joint == b';' {
                            self.joined.get_or_insert(self.at);
                        }
                        self.at += 1;
                        self.take(1);
                    }
                    _ => return Ok(Ends::Backslash),
                }
            } else if c == ';' && self.parentheses == 0 && self.words.depth == 0 {
                self.at += 1;
                return Ok(Ends::Semicolon);
            } else {
                self.begin();
                self.token(c)?;
            }
        }
    }

    /// A word, a quoted text, a variable or a sign.
    fn token(&mut self, c: char) -> Result<(), Fault> {
        match c {
            '\'' => self.quoted('\'', false),
            '"' => self.quoted('"', false),
            '$' => self.dollar(),
            ':' => {
                self.colon(Inside::Nothing);
                Ok(())
            }
            '(' => {
                self.parentheses += 1;
                self.take(1);
                Ok(())
            }
            ')' => {
                self.parentheses = self.parentheses.saturating_sub(1);
                self.take(1);
                Ok(())
            }
            _ if c.is_alphanumeric() || c == '_' => self.word(),
            _ => {
                self.take(c.len_utf8());
                Ok(())
            }
        }
    }

    fn word(&mut self) -> Result<(), Fault> {
        let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let length = self.rest().find(|c| !fits(c)).unwrap_or(self.rest().len());
        let word = self.rest()[..length].to_owned();
        self.take(length);
        if word.eq_ignore_ascii_case("e") && self.rest().starts_with('\'') {
            return self.quoted('\'', true);
        }
        self.words.word(&word);
        Ok(())
    }

    /// A text in quotes; the quote itself is doubled there, or follows a backslash in E'...'.
    fn quoted(&mut self, quote: char, escapes: bool) -> Result<(), Fault> {
        let begins = self.at;
        self.take(1);
        loop {
            let Some(c) = self.rest().chars().next() else {
                let cause = format!("the quoted text is never closed: {quote} is missing");
                return Err(Fault::new(begins, cause));
            };
            if c == '\\' && escapes {
                let length = self.rest().chars().take(2).map(char::len_utf8).sum();
                self.take(length);
            } else if c == quote {
                self.take(1);
                if !self.rest().starts_with(quote) {
                    return Ok(());
                }
                self.take(1);
            } else if c == ':' {
                self.colon(Inside::Quotes);
            } else {
                self.take(c.len_utf8());
            }
        }
    }

    /// A text between dollars, or a parameter such as `$1`.
    fn dollar(&mut self) -> Result<(), Fault> {
        let begins = self.at;
        let rest = self.rest();
        let tag = 1 + variable_length(&rest[1..]);
        if rest.as_bytes().get(tag) != Some(&b'$') {
            self.take(1);
            return Ok(());
        }
        let mark = rest[..=tag].to_owned();
        self.take(mark.len());
        loop {
            if self.rest().starts_with(&mark) {
                self.take(mark.len());
                return Ok(());
            }
            match self.rest().chars().next() {
                None => {
                    let cause =
                        format!("the text between dollars is never closed: {mark} is missing");
                    return Err(Fault::new(begins, cause));
                }
                Some(':') => self.colon(Inside::Quotes),
                Some(c) => self.take(c.len_utf8()),
            }
        }
    }

    /// A variable, or colons that are none: casts, slices, times.
    fn colon(&mut self, place: Inside) {
        let at = self.at;
        let length = variable_length(&self.rest()[1..]);
        if length == 0 {
            let colons = self.rest().bytes().take_while(|byte| *byte == b':').count();
            self.take(colons);
            return;
        }
        let name = self.rest()[1..=length].to_owned();
        self.flush();
        self.pieces.push(Piece::Variable { name, at, place });
        self.at += 1 + length;
    }
}

/// Length of a comment with which a text begins; comments nest.
fn comment_length(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of a script, variables in angle brackets; `?` marks those within quotes.
    fn statements(text: &str) -> Vec<String> {
        let (mut at, mut all) = (0, Vec::new());
        loop {
            let (found, ends, next) = statement(text, at).unwrap();
            all.extend(found.map(|statement| {
                let piece = |piece: &Piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Variable { name, place: Inside::Nothing, .. } => format!("<{name}>"),
                    Piece::Variable { name, .. } => format!("<{name}?>"),
                };
                statement.pieces.iter().map(piece).collect::<String>()
            }));
            if ends != Ends::Semicolon {
                return all;
            }
            at = next;
        }
    }

    #[test]
    fn a_statement_ends_where_psql_ends_it() {
        for (text, wanted) in [
            ("select 1; select 2;", vec!["select 1", "select 2"]),
            ("  -- nothing\n;; select 1 -- one; two\n ;", vec!["select 1 -- one; two"]),
            ("select ';'; select \"a;\"", vec!["select ';'", "select \"a;\""]),
            ("select 'it''s;'; x", vec!["select 'it''s;'", "x"]),
            (r"select E'\';'; select '\'; x", vec![r"select E'\';'", r"select '\'", "x"]),
            ("do $$ a; b; $$; x", vec!["do $$ a; b; $$", "x"]),
            ("do $a$ $$;$a $a$; x", vec!["do $a$ $$;$a $a$", "x"]),
            ("a /* ; /* ; */ ; */ b; c", vec!["a /* ; /* ; */ ; */ b", "c"]),
            ("create rule r as do (a; b); c", vec!["create rule r as do (a; b)", "c"]),
            (r"a \; b; c", vec!["a ; b", "c"]),
            (
                "create function f() returns int begin atomic select case when true then 1 end; \
                 select 2; end; x",
                vec![
                    "create function f() returns int begin atomic select case when true then 1 \
                     end; select 2; end",
                    "x",
                ],
            ),
            ("begin; select 1; end;", vec!["begin", "select 1", "end"]),
        ] {
            assert_eq!(statements(text), wanted, "{text}");
        }
    }

    #[test]
    fn names_after_a_colon_are_variables() {
        for (text, wanted) in [
            ("select :a + :b_1", "select <a> + <b_1>"),
            ("select 1::int, x[1:2], '12:30:00'::time", "select 1::int, x[1:2], '12:30:00'::time"),
            ("select :a::int, ::b", "select <a>::int, ::b"),
            ("select '{\"k\":true}', ':a', $$:b$$", "select '{\"k\"<true?>}', '<a?>', $$<b?>$$"),
            ("select 1 -- :a\n /* :b */ + 2", "select 1 -- :a\n /* :b */ + 2"),
            (r"select x[1\:n], a := 1, $1", "select x[1:n], a := 1, $1"),
            ("select :größe", "select <größe>"),
        ] {
            assert_eq!(statements(text), [wanted], "{text}");
        }
    }

    #[test]
    fn what_is_never_closed_is_found_where_it_begins() {
        for (text, at) in [("select 'a", 7), ("x /* y", 2), ("do $q$ x", 3), ("\"a", 0)] {
            assert_eq!(statement(text, 0).unwrap_err().at, at, "{text}");
        }
    }
}
