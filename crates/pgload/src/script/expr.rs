//! Expressions of `\set` and `\if`: pgbench's grammar, read by precedence climbing.

use super::Names;
use super::value::Value;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Constant(Value),
    /// A variable, by its number.
    Variable(usize),
    Call(Function, Vec<Expr>),
    /// Conditions with their results, and what holds otherwise.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
}

/// A function or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Not,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Is,
    Absolute,
    Double,
    Exponential,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Integer,
    Least,
    Logarithm,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    SquareRoot,
}

/// Functions by name, with the least and the largest number of their arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 20] = [
    ("abs", Function::Absolute, 1, 1),
    ("double", Function::Double, 1, 1),
    ("exp", Function::Exponential, 1, 1),
    ("greatest", Function::Greatest, 1, usize::MAX),
    ("hash", Function::HashMurmur2, 1, 2),
    ("hash_fnv1a", Function::HashFnv1a, 1, 2),
    ("hash_murmur2", Function::HashMurmur2, 1, 2),
    ("int", Function::Integer, 1, 1),
    ("least", Function::Least, 1, usize::MAX),
    ("ln", Function::Logarithm, 1, 1),
    ("mod", Function::Remainder, 2, 2),
    ("permute", Function::Permute, 2, 3),
    ("pi", Function::Pi, 0, 0),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("random", Function::Random, 2, 2),
    ("random_exponential", Function::RandomExponential, 3, 3),
    ("random_gaussian", Function::RandomGaussian, 3, 3),
    ("random_zipfian", Function::RandomZipfian, 3, 3),
    ("sqrt", Function::SquareRoot, 1, 1),
];

/// A fault of a text, where it begins, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) cause: String,
}

impl Fault {
    pub(super) fn new(at: usize, cause: impl Into<String>) -> Fault {
        Fault { at, cause: cause.into() }
    }
}

/// A word of an expression.
#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    /// An integer, or 2^63, which only a minus sign makes one.
    Int(u64),
    Double(f64),
    Variable(&'a str),
    Word(&'a str),
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: [&str; 19] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "|", "#", "&", "~",
    "(",
];

/// A variable that an expression uses, and where.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Use {
    pub(super) variable: usize,
    pub(super) at: usize,
}

/// Reads the expression in `text[start..end]`, and notes the variables that it uses.
pub(super) fn parse(
    text: &str,
    (start, end): (usize, usize),
    names: &mut Names,
    uses: &mut Vec<Use>,
) -> Result<Expr, Fault> {
    let tokens = tokens(text, start, end)?;
    let mut parser = Parser { tokens, next: 0, end, depth: 0, names, uses };
    let expr = parser.expression(0)?;
    match parser.tokens.get(parser.next) {
        None => Ok(expr),
        Some((at, _)) => Err(Fault::new(
            *at,
            "the expression ends before this: an operator is missing, or too much stands here",
        )),
    }
}

fn tokens(text: &str, start: usize, end: usize) -> Result<Vec<(usize, Token<'_>)>, Fault> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = start;
    while at < end {
        let rest = &text[at..end];
        let byte = bytes[at];
        let begins = at;
        if let Some(length) = continuation(rest) {
            at += length;
            continue;
        }
        let token = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b'0'..=b'9' | b'.' => {
                let (token, length) = number(rest).map_err(|cause| Fault::new(begins, cause))?;
                at += length;
                token
            }
            b':' => match variable_length(&rest[1..]) {
                0 => return Err(Fault::new(begins, "a name must follow the colon")),
                length => {
                    at += 1 + length;
                    Token::Variable(&rest[1..=length])
                }
            },
            b')' | b',' => {
                at += 1;
                Token::Sign(if byte == b')' { ")" } else { "," })
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    at += sign.len();
                    Token::Sign(sign)
                }
                None => match variable_length(rest) {
                    0 => {
                        let odd = rest.chars().next().unwrap_or_default();
                        return Err(Fault::new(begins, format!("{odd:?} stands in no expression")));
                    }
                    length => {
                        at += length;
                        Token::Word(&rest[..length])
                    }
                },
            },
        };
        tokens.push((begins, token));
    }
    Ok(tokens)
}

/// Length of a backslash and the end of its line, which go on with the line.
pub(super) fn continuation(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\\')?;
    [("\r\n", 3), ("\n", 2)]
        .iter()
        .find(|(end, _)| rest.starts_with(end))
        .map(|(_, length)| *length)
}

/// Length of the name of a variable with which a text begins: no digit first, so that `12:30` names
/// none.
pub(super) fn variable_length(text: &str) -> usize {
    let fits = |(at, byte): (usize, u8)| {
        byte == b'_'
            || byte.is_ascii_alphabetic()
            || byte >= 0x80
            || at > 0 && byte.is_ascii_digit()
    };
    text.bytes().enumerate().take_while(|&one| fits(one)).count()
}

/// A number, and its length.
fn number(text: &str) -> Result<(Token<'static>, usize), String> {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    if bytes.get(length) == Some(&b'.') {
        length += 1;
        length += digits(length);
        if length == 1 {
            return Err("a dot stands in no expression without a digit".into());
        }
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let signed = length + 1 + usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = if signed < bytes.len() { digits(signed) } else { 0 };
        if exponent > 0 {
            length = signed + exponent;
        }
    }
    let read = &text[..length];
    if length == whole {
        return match read.parse::<u64>() {
            Ok(value) if value <= 1 << 63 => Ok((Token::Int(value), length)),
            _ => Err(format!("{read} is beyond a 64-bit integer: write {read}.0 for a double")),
        };
    }
    let value = read.parse().map_err(|_| format!("`{read}` is no number"))?;
    Ok((Token::Double(value), length))
}

/// No expression nests deeper: reading it must not exhaust the stack.
const DEPTH_MAX: usize = 200;

struct Parser<'a, 'n> {
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    end: usize,
    depth: usize,
    names: &'n mut Names,
    uses: &'n mut Vec<Use>,
}

/// Levels of precedence, the loosest first: OR, AND, NOT, IS, comparisons, bits, sums, products, signs.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;
const COMPARISON: u8 = 5;
const BITS: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const SIGN: u8 = 9;

/// An operator between two operands: its level, its function, and whether its operands change places.
fn infix(token: &Token<'_>) -> Option<(u8, Function, bool)> {
    Some(match token {
        Token::Word(word) if word.eq_ignore_ascii_case("or") => (OR, Function::Or, false),
        Token::Word(word) if word.eq_ignore_ascii_case("and") => (AND, Function::And, false),
        Token::Sign(sign) => match *sign {
            "=" => (COMPARISON, Function::Equal, false),
            "<>" | "!=" => (COMPARISON, Function::NotEqual, false),
            "<" => (COMPARISON, Function::Less, false),
            "<=" => (COMPARISON, Function::LessOrEqual, false),
            ">" => (COMPARISON, Function::Less, true),
            ">=" => (COMPARISON, Function::LessOrEqual, true),
            "|" => (BITS, Function::BitOr, false),
            "#" => (BITS, Function::BitXor, false),
            "&" => (BITS, Function::BitAnd, false),
            "<<" => (BITS, Function::ShiftLeft, false),
            ">>" => (BITS, Function::ShiftRight, false),
            "+" => (SUM, Function::Add, false),
            "-" => (SUM, Function::Subtract, false),
            "*" => (PRODUCT, Function::Multiply, false),
            "/" => (PRODUCT, Function::Divide, false),
            "%" => (PRODUCT, Function::Remainder, false),
            _ => return None,
        },
        _ => return None,
    })
}

impl<'a> Parser<'a, '_> {
    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    /// Where the next word stands, or the end of all.
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is =
            matches!(self.peek(), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.next += usize::from(is);
        is
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.next += usize::from(is);
        is
    }

    fn wants<T>(&self, what: &str) -> Result<T, Fault> {
        Err(Fault::new(self.at(), format!("{what} is wanted here")))
    }

    /// An expression whose operators bind at least so tightly.
    fn expression(&mut self, least: u8) -> Result<Expr, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let cause = format!("the expression nests deeper than {DEPTH_MAX}: split it up");
            return Err(Fault::new(self.at(), cause));
        }
        let mut left = self.prefix()?;
        loop {
            if IS >= least
                && let Some(tested) = self.test(&left)?
            {
                left = tested;
                continue;
            }
            let Some((level, function, swapped)) = self.peek().and_then(infix) else { break };
            if level < least {
                break;
            }
            self.next += 1;
            let right = self.expression(level + 1)?;
            let operands = if swapped { vec![right, left] } else { vec![left, right] };
            left = Expr::Call(function, operands);
            let chained = self.peek().and_then(infix).map(|(next, ..)| next);
            if level == COMPARISON && chained == Some(COMPARISON) {
                let cause = "comparisons cannot be chained: join them with AND";
                return Err(Fault::new(self.at(), cause));
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    /// A test that follows its operand: IS [NOT] NULL, TRUE or FALSE; ISNULL; NOTNULL.
    fn test(&mut self, operand: &Expr) -> Result<Option<Expr>, Fault> {
        let (negated, against) = if self.take_word("isnull") {
            (false, Value::Null)
        } else if self.take_word("notnull") {
            (true, Value::Null)
        } else if self.take_word("is") {
            let negated = self.take_word("not");
            if self.take_word("null") {
                (negated, Value::Null)
            } else if self.take_word("true") {
                (negated, Value::Bool(true))
            } else if self.take_word("false") {
                (negated, Value::Bool(false))
            } else {
                return self.wants("NULL, TRUE or FALSE");
            }
        } else {
            return Ok(None);
        };
        let tested = Expr::Call(Function::Is, vec![operand.clone(), Expr::Constant(against)]);
        Ok(Some(if negated { Expr::Call(Function::Not, vec![tested]) } else { tested }))
    }

    fn prefix(&mut self) -> Result<Expr, Fault> {
        let at = self.at();
        let Some(token) = self.peek().cloned() else { return self.wants("a value") };
        self.next += 1;
        match token {
            Token::Int(value) => match i64::try_from(value) {
                Ok(value) => Ok(Expr::Constant(Value::Int(value))),
                Err(_) => {
                    let cause = format!("{value} is beyond a 64-bit integer");
                    Err(Fault::new(at, cause))
                }
            },
            Token::Double(value) => Ok(Expr::Constant(Value::Double(value))),
            Token::Variable(name) => {
                let variable = self.names.number(name);
                self.uses.push(Use { variable, at });
                Ok(Expr::Variable(variable))
            }
            Token::Sign("(") => {
                let inner = self.expression(0)?;
                if self.take_sign(")") { Ok(inner) } else { self.wants("`)`") }
            }
            Token::Sign("+") => self.expression(SIGN),
            Token::Sign("-") => self.negation(),
            // All bits turned over, as pgbench binds it: looser than sums.
            Token::Sign("~") => {
                let operand = self.expression(BITS + 1)?;
                Ok(Expr::Call(Function::BitXor, vec![Expr::Constant(Value::Int(-1)), operand]))
            }
            Token::Sign(_) => Err(Fault::new(at, "a value is wanted here")),
            Token::Word(word) => self.word(word, at),
        }
    }

    fn negation(&mut self) -> Result<Expr, Fault> {
        if self.peek() == Some(&Token::Int(1 << 63)) {
            self.next += 1;
            return Ok(Expr::Constant(Value::Int(i64::MIN)));
        }
        let operand = self.expression(SIGN)?;
        Ok(Expr::Call(Function::Subtract, vec![Expr::Constant(Value::Int(0)), operand]))
    }

    fn word(&mut self, word: &str, at: usize) -> Result<Expr, Fault> {
        match &*word.to_ascii_lowercase() {
            "null" => Ok(Expr::Constant(Value::Null)),
            "true" => Ok(Expr::Constant(Value::Bool(true))),
            "false" => Ok(Expr::Constant(Value::Bool(false))),
            "not" => Ok(Expr::Call(Function::Not, vec![self.expression(NOT)?])),
            "case" => self.case(),
            "and" | "or" | "is" | "isnull" | "notnull" | "when" | "then" | "else" | "end" => {
                Err(Fault::new(at, format!("a value is wanted here, not `{word}`")))
            }
            "debug" => Err(Fault::new(
                at,
                "debug() would print with every transaction: leave it out, and try the script with \
                 pgbench -t 1 to see its values",
            )),
            name => self.call(word, name, at),
        }
    }

    fn call(&mut self, word: &str, name: &str, at: usize) -> Result<Expr, Fault> {
        if !matches!(self.peek(), Some(Token::Sign("("))) {
            let cause = format!(
                "`{word}` is neither a value nor a function: a variable is written :{word}"
            );
            return Err(Fault::new(at, cause));
        }
        let known = FUNCTIONS.iter().find(|(known, ..)| *known == name);
        let Some(&(_, function, least, most)) = known else {
            let names = FUNCTIONS.iter().map(|(known, ..)| *known);
            let way_out = match measure::nearest(name, names.clone()) {
                Some(near) => format!("did you mean {near}()?"),
                None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
            };
            return Err(Fault::new(at, format!("`{word}` is no function of pgbench's: {way_out}")));
        };
        self.next += 1;
        let mut operands = Vec::new();
        if !self.take_sign(")") {
            loop {
                operands.push(self.expression(0)?);
                if self.take_sign(")") {
                    break;
                }
                if !self.take_sign(",") {
                    return self.wants("`,` or `)`");
                }
            }
        }
        if !(least..=most).contains(&operands.len()) {
            let wanted = match (least, most) {
                (1, usize::MAX) => "1 argument or more".to_owned(),
                (1, 1) => "1 argument".to_owned(),
                (least, most) if least == most => format!("{least} arguments"),
                (least, most) => format!("{least} or {most} arguments"),
            };
            let cause = format!("{name}() takes {wanted}, and has {}", operands.len());
            return Err(Fault::new(at, cause));
        }
        let seeded = matches!(function, Function::HashFnv1a | Function::HashMurmur2)
            && operands.len() == 1
            || function == Function::Permute && operands.len() == 2;
        if seeded {
            operands.push(Expr::Variable(self.names.number("default_seed")));
        }
        Ok(Expr::Call(function, operands))
    }

    fn case(&mut self) -> Result<Expr, Fault> {
        let mut arms = Vec::new();
        while self.take_word("when") {
            let condition = self.expression(0)?;
            if !self.take_word("then") {
                return self.wants("THEN");
            }
            arms.push((condition, self.expression(0)?));
        }
        if arms.is_empty() {
            return self.wants("WHEN");
        }
        let otherwise = match self.take_word("else") {
            true => self.expression(0)?,
            false => Expr::Constant(Value::Null),
        };
        if self.take_word("end") {
            Ok(Expr::Case(arms, otherwise.into()))
        } else {
            self.wants("END")
        }
    }
}
