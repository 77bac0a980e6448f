//! Rust source as a scanner sees it: which bytes are code, which comment, which literal. A check
//! that searches raw text would find braces in strings and words in comments.

/// What a byte of a source file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Identifiers, operators, lifetimes, numbers, white space.
    Code,
    /// Line and block comments, documentation too.
    Comment,
    /// String, byte string and character literals with their quotes.
    Literal,
}

/// A scanned source file.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// The text.
    pub(crate) text: &'a str,
    /// The text where everything but code (and line ends) is blank; the same length.
    code: Vec<u8>,
    /// The kind of each byte.
    kinds: Vec<Kind>,
    /// Where each line begins.
    line_starts: Vec<usize>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name, without a path.
    pub(crate) name: String,
    /// The line of its `fn`, counted from 1.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace, both counted.
    pub(crate) lines: usize,
}

impl<'a> Source<'a> {
    /// Scans a source file.
    pub(crate) fn scan(text: &'a str) -> Source<'a> {
        let bytes = text.as_bytes();
        let mut kinds = Vec::with_capacity(bytes.len());
        while kinds.len() < bytes.len() {
            let at = kinds.len();
            let (kind, end) = next_piece(bytes, at);
            kinds.resize(end.clamp(at + 1, bytes.len()), kind);
        }
        let code = bytes
            .iter()
            .zip(&kinds)
            .map(|(byte, kind)| if *kind == Kind::Code || *byte == b'\n' { *byte } else { b' ' })
            .collect();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let line_starts = [0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect();
        Source { text, code, kinds, line_starts }
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// The kind of a byte.
    pub(crate) fn kind(&self, at: usize) -> Kind {
        self.kinds[at]
    }

    /// The code, everything else blank; not always UTF-8 in between, hence bytes.
    pub(crate) fn code(&self) -> &[u8] {
        &self.code
    }

    /// The words (identifiers and keywords) of the code, each with the place of its first byte.
    /// A raw identifier `r#fn` is the word `r#fn`.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.code.len() && !is_word(self.code[at]) {
                at += 1;
            }
            let start = at;
            at = word_end(&self.code, at);
            (start < at).then(|| (start, &self.text[start..at]))
        })
    }

    /// The word that begins at the first code after `at` that is not white space; empty when
    /// something else stands there.
    pub(crate) fn word_after(&self, at: usize) -> &'a str {
        let start = self.skip_space(at);
        &self.text[start..word_end(&self.code, start)]
    }

    /// The first place from `at` that holds code other than white space.
    pub(crate) fn skip_space(&self, at: usize) -> usize {
        let rest = &self.code[at..];
        at + rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
    }

    /// All functions that have a body, nested ones too, in order.
    pub(crate) fn functions(&self) -> Vec<Function> {
        self.words()
            .filter(|(_, word)| *word == "fn")
            .filter_map(|(at, word)| {
                let after = self.skip_space(at + word.len());
                // In a macro a name may be a variable, `$name`.
                let sign = usize::from(self.code.get(after) == Some(&b'$'));
                let name = self.word_after(after + sign);
                if name.is_empty() {
                    return None; // `fn(u32)` is a type
                }
                let close = self.closing(self.body_start(after)?);
                let line = self.line(at);
                Some(Function { name: name.to_owned(), line, lines: self.line(close) - line + 1 })
            })
            .collect()
    }

    /// The brace that opens the body of the function whose signature goes on at `at`; `None` when
    /// a semicolon ends it, as in a trait. Semicolons of arrays `[u8; 4]` and braces of constant
    /// arguments `Table<{ N + 1 }>` belong to the signature.
    fn body_start(&self, at: usize) -> Option<usize> {
        let mut depth = 0_i32;
        let mut place = at;
        while place < self.code.len() {
            match self.code[place] {
                b'(' | b'[' | b'<' => depth += 1,
                b')' | b']' => depth -= 1,
                b'>' if !matches!(self.code[place - 1], b'-' | b'=') => depth -= 1,
                b'{' if depth > 0 => place = self.closing(place),
                b'{' => return Some(place),
                b';' if depth <= 0 => return None,
                _ => {}
            }
            place += 1;
        }
        None
    }

    /// The brace that closes the one at `open`; the last byte when none does.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_i32;
        for (place, byte) in self.code.iter().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return place;
            }
        }
        self.code.len() - 1
    }
}

/// The piece that begins at `at`: its kind and its end. Code comes in small pieces.
fn next_piece(bytes: &[u8], at: usize) -> (Kind, usize) {
    match bytes[at] {
        b'/' if bytes.get(at + 1) == Some(&b'/') => (Kind::Comment, line_end(bytes, at)),
        b'/' if bytes.get(at + 1) == Some(&b'*') => (Kind::Comment, block_comment_end(bytes, at)),
        b'"' => (Kind::Literal, quoted_end(bytes, at, b'"')),
        b'\'' => character_end(bytes, at).map_or((Kind::Code, at + 1), |end| (Kind::Literal, end)),
        byte if is_word(byte) => {
            let end = word_end(bytes, at);
            match (&bytes[at..end], bytes.get(end)) {
                (b"r" | b"br" | b"cr", Some(b'"' | b'#')) => {
                    raw_string_end(bytes, end).map_or((Kind::Code, end), |end| (Kind::Literal, end))
                }
                _ => (Kind::Code, end),
            }
        }
        _ => (Kind::Code, at + 1),
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

/// Block comments nest.
fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut place = at;
    while place < bytes.len() {
        match bytes[place..] {
            [b'/', b'*', ..] => depth += 1,
            [b'*', b'/', ..] => depth -= 1,
            _ => {
                place += 1;
                continue;
            }
        }
        place += 2;
        if depth == 0 {
            return place;
        }
    }
    bytes.len()
}

/// The end of a literal with escapes, whose opening quote stands at `at`.
fn quoted_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut place = at + 1;
    while place < bytes.len() {
        match bytes[place] {
            b'\\' => place += 2,
            byte if byte == quote => return place + 1,
            _ => place += 1,
        }
    }
    bytes.len()
}

/// The end of the character literal at `at`, or `None` when the quote begins a lifetime.
fn character_end(bytes: &[u8], at: usize) -> Option<usize> {
    let first = *bytes.get(at + 1)?;
    if first == b'\\' {
        return Some(quoted_end(bytes, at, b'\''));
    }
    let width = match first {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    };
    (bytes.get(at + 1 + width) == Some(&b'\'')).then_some(at + 2 + width)
}

/// The end of the raw string whose prefix ends at `at`, or `None` when a raw identifier follows.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'#'; hashes + 1];
    close[0] = b'"';
    let body = &bytes[open + 1..];
    let found = body.windows(close.len()).position(|window| window == close);
    Some(found.map_or(bytes.len(), |length| open + 1 + length + close.len()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of the word at `at`, which is `at` when there is none.
fn word_end(bytes: &[u8], at: usize) -> usize {
    let run = |from: usize| bytes[from..].iter().take_while(|byte| is_word(**byte)).count();
    let end = at + run(at);
    match bytes[at..] {
        [b'r', b'#', next, ..] if end == at + 1 && is_word(next) => end + 1 + run(end + 1),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source with `@` for each run of bytes that are not code.
    fn code(text: &str) -> String {
        let source = Source::scan(text);
        let mut shown = String::new();
        for (at, c) in text.char_indices() {
            match source.kind(at) {
                Kind::Code => shown.push(c),
                Kind::Comment | Kind::Literal if shown.ends_with('@') => {}
                Kind::Comment | Kind::Literal => shown.push('@'),
            }
        }
        shown
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // { \"\nb"), "a @\nb");
        assert_eq!(code("a /* { /* } */ \" */ b"), "a @ b");
        assert_eq!(code("a / b /"), "a / b /");
    }

    #[test]
    fn strings_are_not_code() {
        assert_eq!(code(r#"f("}\"{", b"}", c"}")"#), "f(@, b@, c@)");
        assert_eq!(code("f(r\"\\\", 1)"), "f(@, 1)");
        assert_eq!(code("f(r#\"}\"{\"#, br##\"\"#\"##)"), "f(@, @)");
        assert_eq!(code("\"two // lines\\\n}\"; 1"), "@; 1");
    }

    #[test]
    fn characters_are_not_code_and_lifetimes_are() {
        assert_eq!(code("('{', '\\'', '\\\\', '\\u{7d}', b'}', '\"')"), "(@, @, @, @, b@, @)");
        assert_eq!(code("('\u{e9}', '\u{2500}', '\u{1f600}')"), "(@, @, @)");
        for text in [
            "fn f<'a, 'b>(x: &'a str) -> &'static str",
            "'outer: loop { break 'outer; }",
            "impl<'a> T<'a, 'a>",
        ] {
            assert_eq!(code(text), text);
        }
    }

    #[test]
    fn the_code_keeps_its_places() {
        let source = Source::scan("a \"}\" b\n// }\nc");
        assert_eq!(source.code(), b"a     b\n    \nc");
        assert_eq!((source.line(0), source.line(7), source.line(8), source.line(13)), (1, 1, 2, 3));
    }

    #[test]
    fn raw_identifiers_are_words() {
        let source = Source::scan("let r#fn = r#type; for x in y");
        let words: Vec<_> = source.words().map(|(_, word)| word).collect();
        assert_eq!(words, ["let", "r#fn", "r#type", "for", "x", "in", "y"]);
        assert_eq!(source.functions(), []);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for text in ["\"", "r#\"", "/*", "'", "'\\", "\"\\", "fn f() {", "fn", "r#", "b"] {
            Source::scan(text).functions();
        }
    }

    fn lengths(text: &str) -> Vec<(String, usize, usize)> {
        let found = Source::scan(text).functions();
        found.into_iter().map(|one| (one.name, one.line, one.lines)).collect()
    }

    #[test]
    fn a_function_ends_at_its_own_brace() {
        let text = "fn a() {\n  let s = \"}\"; // }\n  let c = '}';\n}\n\nfn b() {}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 1, 4), ("b".to_owned(), 6, 1)]);
    }

    #[test]
    fn nested_functions_count_for_themselves_too() {
        let text = "fn a() {\n fn b() {\n }\n}";
        assert_eq!(lengths(text), [("a".to_owned(), 1, 4), ("b".to_owned(), 2, 2)]);
    }

    #[test]
    fn types_and_declarations_have_no_length() {
        assert_eq!(lengths("type F = fn(u8) -> u8; trait T { fn f(x: [u8; 4]); }"), []);
        assert_eq!(lengths("struct S { f: fn (u8), }\nconst C: fn() = x;"), []);
    }

    #[test]
    fn signatures_may_hold_semicolons_braces_and_arrows() {
        let body = "{\n}\n";
        for signature in [
            "fn f(x: [u8; 4]) -> [u8; 2] ",
            "fn f() -> Table<{ N + 1 }> ",
            "fn f<F: Fn(u8) -> u8>(g: F) -> impl Fn() -> Vec<Vec<u8>> where F: Send ",
            "fn f<const N: usize>() where [(); N]: Sized ",
            "fn f(g: fn(u8) -> u8) ",
            "pub(crate) async unsafe extern \"C\" fn f() ",
            "fn /* why */ f() ",
        ] {
            assert_eq!(lengths(&format!("{signature}{body}")), [("f".to_owned(), 1, 2)]);
        }
    }

    #[test]
    fn functions_of_macros_are_seen() {
        assert_eq!(lengths("($name:ident) => { fn $name() {\n} }"), [("name".to_owned(), 1, 2)]);
    }
}
