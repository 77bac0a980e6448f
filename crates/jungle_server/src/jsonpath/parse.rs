//! The grammar of RFC 9535, section 2 and appendix A, read in one pass: no alternative is tried twice, so that a query
//! takes time by its length.

use regex::RegexBuilder;
use regex_syntax::hir::{Hir, HirKind};
use serde_json::Value;

use super::{Comparison, Compiled, JsonPath, Operand, Pattern, Query, Segment, Selector, Test};

/// The longest query \[B\].
const LENGTH_MAX: usize = 4_096;
/// The deepest nesting of filters, parentheses and functions.
const DEPTH_MAX: usize = 64;
/// The largest index, 2^53 - 1: what every JSON number holds (RFC 7493).
const INT_MAX: i64 = (1 << 53) - 1;
/// The most bytes of a compiled regular expression \[B\].
const REGEX_MAX: usize = 64 << 10;
/// The most places of a regular expression that are counted: as many as nobody may ask for.
const PLACES_MAX: u64 = 1 << 40;

/// Text that is no JSONPath.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no JSONPath: at byte {at} {wanted}")]
pub struct JsonPathError {
    /// The text, or its beginning.
    pub text: String,
    /// The place of the fault \[B\].
    pub at: usize,
    /// The cause.
    pub wanted: &'static str,
}

type Fault = (usize, &'static str);
type Parsed<T> = Result<T, Fault>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// A part of a filter whose type decides where it may stand.
enum Primary {
    Operand(Operand),
    Nodes(Query),
    Test(Test),
}

pub(super) fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
    let error =
        |(at, wanted): Fault| JsonPathError { text: text.chars().take(80).collect(), at, wanted };
    if text.len() > LENGTH_MAX {
        return Err(error((LENGTH_MAX, "it must end: a query has at most 4,096 B")));
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let parsed = (|| {
        parser.expect('$', "`$` is wanted, which is the document")?;
        let segments = parser.segments()?;
        if parser.at < text.len() {
            return parser.fault("a segment is wanted: `.name`, `[...]` or `..`");
        }
        Ok(JsonPath { segments })
    })();
    parsed.map_err(error)
}

/// A regular expression that takes more memory than one may.
pub(super) struct TooLarge;

/// A regular expression of RFC 9485 as the crate `regex` reads it: a dot there is no end of a line, and a class is a list
/// of characters without operations. One that is none matches nothing.
pub(super) fn regex(pattern: &str, is_whole: bool) -> Result<Compiled, TooLarge> {
    let steps = 1 + pattern.len() as u64;
    let Some(text) = rewritten(pattern) else { return Ok(Compiled { regex: None, steps }) };
    let Ok(read) = regex_syntax::parse(&text) else { return Ok(Compiled { regex: None, steps }) };
    // What is repeated by number is as if it stood there so often, and costs most.
    let repeated = places(&read, true) - places(&read, false);
    let steps = steps + repeated.saturating_mul(16);
    let compiled = |text: &str| {
        let mut builder = RegexBuilder::new(text);
        match builder.size_limit(REGEX_MAX).dfa_size_limit(REGEX_MAX).build() {
            Ok(regex) => Ok(Some(regex)),
            Err(regex::Error::CompiledTooBig(_)) => Err(TooLarge),
            Err(_) => Ok(None),
        }
    };
    // The pattern must be one by itself: `a)|(b` is none.
    let alone = compiled(&text)?;
    let regex = match alone {
        Some(_) if is_whole => compiled(&format!("\\A(?:{text})\\z"))?,
        alone => alone,
    };
    Ok(Compiled { regex, steps })
}

/// The places of a regular expression, at most 2^40; where it is `counted`, what is repeated by number has its places as
/// often: 34 + 2 of `(ab{3}){9}`, say, are counted and 2 are not.
fn places(of: &Hir, is_counted: bool) -> u64 {
    let sum = |all: &[Hir]| all.iter().map(|of| places(of, is_counted)).sum::<u64>();
    let found = match of.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(text) => text.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Capture(group) => places(&group.sub, is_counted),
        HirKind::Concat(all) | HirKind::Alternation(all) => sum(all),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            let times = if is_counted { u64::from(times) } else { 1 };
            places(&repetition.sub, is_counted).saturating_mul(times)
        }
    };
    found.min(PLACES_MAX)
}

/// The same text for the crate `regex`; `None` if it has what RFC 9485 has not and the crate has: a class in a class or
/// one that begins with its end, flags, blanks in a count.
fn rewritten(pattern: &str) -> Option<String> {
    let (mut text, mut in_class, mut is_escaped) = (String::new(), false, false);
    // True behind `[` and `[^`, and behind `\p` and `\P`.
    let (mut is_first, mut is_property) = (false, false);
    let mut chars = pattern.chars().peekable();
    let mut before = None;
    while let Some(char) = chars.next() {
        let last = before.replace(char);
        let was_first = std::mem::take(&mut is_first);
        let was_property = std::mem::take(&mut is_property);
        match char {
            _ if is_escaped => {
                is_escaped = false;
                is_property = matches!(char, 'p' | 'P');
                before = None;
            }
            '\\' => is_escaped = true,
            '[' if in_class => return None,
            ']' if was_first => return None,
            '[' => (in_class, is_first) = (true, true),
            '^' if was_first && last == Some('[') => is_first = true,
            ']' => in_class = false,
            '(' if !in_class && chars.peek() == Some(&'?') => return None,
            '{' if !in_class && !was_property => {
                let mut count = chars.clone().take_while(|char| *char != '}');
                if !count.all(|char| char.is_ascii_digit() || char == ',') {
                    return None;
                }
            }
            // `&&`, `~~` and `--` are operations there.
            '&' | '~' if in_class => text.push('\\'),
            '-' if in_class && (last == Some('-') || chars.peek() == Some(&'-')) => {
                text.push('\\');
            }
            '.' if !in_class => {
                text.push_str("[^\\n\\r]");
                continue;
            }
            _ => {}
        }
        text.push(char);
    }
    Some(text)
}

impl Parser<'_> {
    fn fault<T>(&self, wanted: &'static str) -> Parsed<T> {
        Err((self.at, wanted))
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, text: &str) -> bool {
        let is_there = self.rest().starts_with(text);
        if is_there {
            self.at += text.len();
        }
        is_there
    }

    fn expect(&mut self, char: char, wanted: &'static str) -> Parsed<()> {
        match self.peek() {
            Some(next) if next == char => {
                self.at += char.len_utf8();
                Ok(())
            }
            _ => self.fault(wanted),
        }
    }

    fn space(&mut self) {
        let blank = |char: char| matches!(char, ' ' | '\t' | '\n' | '\r');
        self.at += self.rest().len() - self.rest().trim_start_matches(blank).len();
    }

    /// Does something one level deeper.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return self.fault("it is nested deeper than 64 levels");
        }
        self.depth += 1;
        let done = inner(self);
        self.depth -= 1;
        done
    }

    fn segments(&mut self) -> Parsed<Vec<Segment>> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.space();
            let is_descendant = self.take("..");
            let selectors = match self.peek() {
                Some('[') => self.bracketed()?,
                _ if is_descendant => vec![self.shorthand()?],
                Some('.') => {
                    self.at += 1;
                    vec![self.shorthand()?]
                }
                _ => {
                    // Blanks behind the last segment are not its own.
                    self.at = before;
                    return Ok(segments);
                }
            };
            segments.push(Segment { is_descendant, selectors });
        }
    }

    /// A name or `*` behind a dot.
    fn shorthand(&mut self) -> Parsed<Selector> {
        if self.take("*") {
            return Ok(Selector::Wildcard);
        }
        let is_first = |char: char| char.is_ascii_alphabetic() || char == '_' || !char.is_ascii();
        let rest = self.rest();
        let end = rest.find(|char: char| !is_first(char) && !char.is_ascii_digit());
        let name = rest[..end.unwrap_or(rest.len())].to_owned();
        if !name.starts_with(is_first) {
            return self.fault("a name or `*` is wanted; write other names as `['name']`");
        }
        self.at += name.len();
        Ok(Selector::Name(name))
    }

    fn bracketed(&mut self) -> Parsed<Vec<Selector>> {
        self.expect('[', "`[` is wanted")?;
        let mut selectors = Vec::new();
        loop {
            self.space();
            selectors.push(self.selector()?);
            self.space();
            if !self.take(",") {
                break;
            }
        }
        self.expect(']', "`,` or `]` is wanted")?;
        Ok(selectors)
    }

    fn selector(&mut self) -> Parsed<Selector> {
        match self.peek() {
            Some('\'' | '"') => Ok(Selector::Name(self.string()?)),
            Some('*') => {
                self.at += 1;
                Ok(Selector::Wildcard)
            }
            Some('?') => {
                self.at += 1;
                self.space();
                let test = self.deeper(Self::or)?;
                Ok(Selector::Filter(Box::new(test)))
            }
            Some(':' | '-' | '0'..='9') => self.index_or_slice(),
            _ => self.fault("a selector is wanted: 'name', *, index, start:end:step or ?filter"),
        }
    }

    fn index_or_slice(&mut self) -> Parsed<Selector> {
        let start = self.int()?;
        let behind = self.at;
        self.space();
        if !self.take(":") {
            self.at = behind;
            let Some(index) = start else { return self.fault("an index is wanted") };
            return Ok(Selector::Index(index));
        }
        self.space();
        let end = self.int()?;
        let behind = self.at;
        self.space();
        let mut step = None;
        if self.take(":") {
            let behind = self.at;
            self.space();
            step = self.int()?;
            if step.is_none() {
                self.at = behind;
            }
        } else {
            self.at = behind;
        }
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    /// The bytes of a whole number as it stands here.
    fn digits(&self, text: &str) -> usize {
        text.bytes().take_while(u8::is_ascii_digit).count()
    }

    fn int(&mut self) -> Parsed<Option<i64>> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with('-'));
        let count = self.digits(&rest[sign..]);
        if count == 0 {
            return if sign == 1 { self.fault("a digit is wanted behind `-`") } else { Ok(None) };
        }
        let text = &rest[..sign + count];
        if rest[sign..].starts_with('0') && (count > 1 || sign == 1) {
            return self.fault("a whole number has no leading 0, and is not -0");
        }
        let number = text.parse::<i64>().ok().filter(|number| number.abs() <= INT_MAX);
        let Some(number) = number else {
            return self.fault("a whole number lies within 2^53 - 1 of 0");
        };
        self.at += sign + count;
        Ok(Some(number))
    }

    fn or(&mut self) -> Parsed<Test> {
        let mut tests = vec![self.and()?];
        loop {
            self.space();
            if !self.take("||") {
                break;
            }
            self.space();
            tests.push(self.and()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::Or(tests) })
    }

    fn and(&mut self) -> Parsed<Test> {
        let mut tests = vec![self.basic()?];
        loop {
            self.space();
            if !self.take("&&") {
                break;
            }
            self.space();
            tests.push(self.basic()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::And(tests) })
    }

    fn basic(&mut self) -> Parsed<Test> {
        if self.take("!") {
            self.space();
            let test = if self.peek() == Some('(') {
                self.parenthesis()?
            } else {
                let primary = self.primary()?;
                self.test(primary)?
            };
            return Ok(Test::Not(Box::new(test)));
        }
        if self.peek() == Some('(') {
            return self.parenthesis();
        }
        let begin = self.at;
        let left = self.primary()?;
        self.space();
        let Some(comparison) = self.comparison() else {
            return self.test(left);
        };
        let left = Self::operand(left).ok_or((begin, NO_VALUE))?;
        self.space();
        let begin = self.at;
        let right = Self::operand(self.primary()?).ok_or((begin, NO_VALUE))?;
        Ok(Test::Compare(left, comparison, right))
    }

    fn parenthesis(&mut self) -> Parsed<Test> {
        self.expect('(', "`(` is wanted")?;
        self.space();
        let test = self.deeper(Self::or)?;
        self.space();
        self.expect(')', "`)` is wanted")?;
        Ok(test)
    }

    fn comparison(&mut self) -> Option<Comparison> {
        for (text, comparison) in [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ] {
            if self.take(text) {
                return Some(comparison);
            }
        }
        None
    }

    /// A primary that stands for true or false.
    fn test(&self, primary: Primary) -> Parsed<Test> {
        match primary {
            Primary::Nodes(query) => Ok(Test::Exists(query)),
            Primary::Test(test) => Ok(test),
            Primary::Operand(_) => self.fault("a comparison is wanted: a value alone is no test"),
        }
    }

    /// A primary that stands for one value at most.
    fn operand(primary: Primary) -> Option<Operand> {
        match primary {
            Primary::Operand(operand) => Some(operand),
            Primary::Nodes(query) => query.is_singular().then_some(Operand::Query(query)),
            Primary::Test(_) => None,
        }
    }

    fn primary(&mut self) -> Parsed<Primary> {
        match self.peek() {
            Some('\'' | '"') => Ok(Primary::Operand(Operand::Literal(self.string()?.into()))),
            Some('-' | '0'..='9') => Ok(Primary::Operand(Operand::Literal(self.number()?))),
            Some(sign @ ('@' | '$')) => {
                self.at += 1;
                let segments = self.deeper(Self::segments)?;
                Ok(Primary::Nodes(Query { is_absolute: sign == '$', segments }))
            }
            Some('a'..='z') => self.word(),
            _ => self.fault("`@`, `$`, a literal, a function or `(` is wanted"),
        }
    }

    /// A literal or a function.
    fn word(&mut self) -> Parsed<Primary> {
        let rest = self.rest();
        let end = rest
            .find(|char: char| !char.is_ascii_lowercase() && !char.is_ascii_digit() && char != '_');
        let word = rest[..end.unwrap_or(rest.len())].to_owned();
        let begin = self.at;
        self.at += word.len();
        let literal = |value: Value| Ok(Primary::Operand(Operand::Literal(value)));
        match &*word {
            "true" => literal(Value::Bool(true)),
            "false" => literal(Value::Bool(false)),
            "null" => literal(Value::Null),
            "length" | "count" | "value" | "match" | "search" => {
                self.deeper(|parser| parser.function(&word))
            }
            _ => Err((begin, "no such function: there are length, count, value, match, search")),
        }
    }

    fn function(&mut self, name: &str) -> Parsed<Primary> {
        self.expect('(', "`(` is wanted behind the name of a function")?;
        let primary = match name {
            "count" => Primary::Operand(Operand::Count(self.nodes()?)),
            "value" => Primary::Operand(Operand::Value(self.nodes()?)),
            "length" => Primary::Operand(Operand::Length(Box::new(self.value()?))),
            _ => {
                let text = self.value()?;
                self.space();
                self.expect(',', "a second argument is wanted")?;
                let is_whole = name == "match";
                self.space();
                let begin = self.at;
                let pattern = match self.value()? {
                    Operand::Literal(Value::String(pattern)) => {
                        let compiled = regex(&pattern, is_whole);
                        Pattern::Known(compiled.map_err(|TooLarge| (begin, TOO_LARGE))?)
                    }
                    asked => Pattern::Asked(asked),
                };
                Primary::Test(Test::Matches { is_whole, text, pattern })
            }
        };
        self.space();
        self.expect(')', "`)` is wanted behind the arguments")?;
        Ok(primary)
    }

    fn nodes(&mut self) -> Parsed<Query> {
        self.space();
        match self.peek() {
            Some('@' | '$') => match self.primary()? {
                Primary::Nodes(query) => Ok(query),
                _ => unreachable!("@ and $ begin queries"),
            },
            _ => self.fault("a query is wanted, `@...` or `$...`"),
        }
    }

    fn value(&mut self) -> Parsed<Operand> {
        self.space();
        let begin = self.at;
        Self::operand(self.primary()?).ok_or((begin, NO_VALUE))
    }

    fn number(&mut self) -> Parsed<Value> {
        let rest = self.rest();
        let sign = usize::from(rest.starts_with('-'));
        let whole = self.digits(&rest[sign..]);
        if whole == 0 || (whole > 1 && rest[sign..].starts_with('0')) {
            return self.fault("a number is wanted, without leading 0");
        }
        let mut end = sign + whole;
        if rest[end..].starts_with('.') {
            let digits = self.digits(&rest[end + 1..]);
            if digits == 0 {
                return self.fault("digits are wanted behind the point of a number");
            }
            end += 1 + digits;
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['-', '+']));
            let digits = self.digits(&rest[end + 1 + sign..]);
            if digits == 0 {
                return self.fault("digits are wanted in the exponent of a number");
            }
            end += 1 + sign + digits;
        }
        let Ok(number) = serde_json::from_str::<Value>(&rest[..end]) else {
            return self.fault("the number is too large");
        };
        self.at += end;
        Ok(number)
    }

    fn string(&mut self) -> Parsed<String> {
        let quote = self.peek().expect("a quotation mark was seen");
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(char) = self.peek() else {
                return self.fault("the text has no end: a quotation mark is wanted");
            };
            if (char as u32) < 0x20 {
                return self.fault("control characters are written as `\\u0000`");
            }
            self.at += char.len_utf8();
            match char {
                '\\' => text.push(self.escaped(quote)?),
                _ if char == quote => return Ok(text),
                _ => text.push(char),
            }
        }
    }

    fn escaped(&mut self, quote: char) -> Parsed<char> {
        let wrong = "an escape is one of b f n r t / \\ u, or the quotation mark";
        let Some(char) = self.peek() else { return self.fault(wrong) };
        self.at += char.len_utf8();
        Ok(match char {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '/' | '\\' => char,
            _ if char == quote => char,
            'u' => {
                let first = self.unit()?;
                let mut units = vec![first];
                if (0xd800..0xdc00).contains(&first) && self.take("\\u") {
                    units.push(self.unit()?);
                }
                let mut chars = char::decode_utf16(units);
                match (chars.next(), chars.next()) {
                    (Some(Ok(char)), None) => char,
                    _ => return self.fault("a surrogate stands alone"),
                }
            }
            _ => {
                self.at -= char.len_utf8();
                return self.fault(wrong);
            }
        })
    }

    fn unit(&mut self) -> Parsed<u16> {
        let digits =
            self.rest().get(..4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(unit) = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) else {
            return self.fault("four hexadecimal digits are wanted");
        };
        self.at += 4;
        Ok(unit)
    }
}

const TOO_LARGE: &str = "a smaller regular expression is wanted: compiled, it takes at most 64 KiB";
const NO_VALUE: &str =
    "one value is wanted: a literal, a query of names and indexes, or length, count, value";

#[cfg(test)]
mod tests {
    use super::{PLACES_MAX, places};

    #[test]
    fn places_of_counted_repetitions() {
        for (pattern, once, counted) in [
            ("abc", 3, 3),
            ("a{9}", 1, 9),
            ("ab{3}", 2, 4),
            ("(ab{3}){9}", 2, 9 * 4),
            ("((a|bc){9}){9}c", 4, 81 * 3 + 1),
            ("[a{9}]{2,5}", 1, 5),
            ("\\p{L}{3}", 1, 3),
            ("a{2,}b*c{0}", 2, 3),
            ("((((a{999}){999}){999}){999}){999}", 1, PLACES_MAX),
        ] {
            let read = regex_syntax::parse(pattern).unwrap();
            assert_eq!((places(&read, false), places(&read, true)), (once, counted), "{pattern}");
        }
    }
}
