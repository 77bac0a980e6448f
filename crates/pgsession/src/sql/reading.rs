//! Reads a text command by command with one token in sight, for those who look for commands in it.

use super::effects::{Alone, EffectKind};
use super::settings::Value;
use super::tokens::{Commands, Kind, LexerMode, Token, Unclear};

/// Limit of the values that a SET may list.
const VALUES_MAX: usize = 256;

/// Limit of the tokens of an argument of `set_config` that is looked at.
const TOKENS_MAX: usize = 64;

/// Reader of a text, and the token in sight.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    commands: Commands<'a>,
    now: Token,
    /// The end of the token before.
    behind: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a [u8], lexer_mode: LexerMode) -> Result<Reader<'a>, Unclear> {
        let mut commands = Commands::new(text, lexer_mode)?;
        let now = commands.read()?;
        Ok(Reader { commands, now, behind: 0 })
    }

    pub(super) fn text(&self) -> &'a [u8] {
        self.commands.text()
    }

    pub(super) fn now(&self) -> Token {
        self.now
    }

    pub(super) fn behind(&self) -> usize {
        self.behind
    }

    /// Number of parentheses that are open behind the token in sight.
    pub(super) fn depth(&self) -> usize {
        self.commands.depth()
    }

    /// True if the token in sight is in the body of a function.
    pub(super) fn is_in_body(&self) -> bool {
        self.commands.is_in_body()
    }

    /// Goes on, but not over the end of a command.
    pub(super) fn advance(&mut self) -> Result<(), Unclear> {
        // So whoever looks for the words of one command cannot take those of the next for them.
        if self.now.kind != Kind::Semicolon {
            self.behind = self.now.end;
            self.now = self.commands.read()?;
        }
        Ok(())
    }

    /// Goes to the first token of the next command that has some; whether there is one.
    pub(super) fn next_command(&mut self) -> Result<bool, Unclear> {
        while self.now.kind == Kind::Semicolon {
            self.now = self.commands.read()?;
        }
        Ok(self.now.kind != Kind::End)
    }

    pub(super) fn ends(&self) -> bool {
        matches!(self.now.kind, Kind::End | Kind::Semicolon)
    }

    pub(super) fn is(&self, keyword: &str) -> bool {
        self.now.is(self.text(), keyword)
    }

    pub(super) fn takes(&mut self, keyword: &str) -> Result<bool, Unclear> {
        let is = self.is(keyword);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    pub(super) fn mark(&mut self, mark: u8) -> Result<bool, Unclear> {
        let is = self.now.kind == Kind::Mark(mark);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    pub(super) fn is_operator(&self, operator: &[u8]) -> bool {
        self.now.kind == Kind::Operator && self.text()[self.now.at()] == *operator
    }

    /// The name of a setting, which may have dots, in lower case.
    pub(super) fn setting(&mut self) -> Result<Option<Vec<u8>>, Unclear> {
        let Some(mut name) = self.now.name(self.text()) else { return Ok(None) };
        self.advance()?;
        while self.mark(b'.')? {
            let Some(part) = self.now.name(self.text()) else { return Ok(None) };
            name.push(b'.');
            name.extend_from_slice(&part);
            self.advance()?;
        }
        name.make_ascii_lowercase();
        Ok(Some(name))
    }

    /// The name of a function, without its schema if that is the system's, and goes to what
    /// follows.
    pub(super) fn function(&mut self) -> Result<Option<Vec<u8>>, Unclear> {
        let Some(mut name) = self.now.name(self.text()) else { return Ok(None) };
        self.advance()?;
        // In another schema a function of that name is another one.
        if name == b"pg_catalog" && self.mark(b'.')? {
            let Some(function) = self.now.name(self.text()) else { return Ok(None) };
            name = function;
            self.advance()?;
        }
        Ok(Some(name))
    }

    /// The setting behind `set_config`. The outer none is what cannot be read; the inner one counts
    /// for nothing, neither behind the transaction nor in it.
    pub(super) fn set_config(&mut self) -> Result<Option<(Option<EffectKind>, Alone)>, Unclear> {
        if !self.mark(b'(')? {
            return Ok(None);
        }
        let text = self.text();
        let mut arguments = [Argument { token: self.now, tokens: 0 }; 3];
        for (index, argument) in arguments.iter_mut().enumerate() {
            let Some(found) = self.argument()? else { return Ok(None) };
            *argument = found;
            let behind = if index < 2 { b',' } else { b')' };
            if !self.mark(behind)? {
                return Ok(None);
            }
        }
        let [name, value, local] = arguments;
        let local = match local.single() {
            // A flag that the text does not show may be either, so nothing is claimed.
            Some(token) if token.is(text, "true") => Local::Yes,
            Some(token) if token.is(text, "false") => Local::No,
            Some(token) => match token.value(text).as_deref() {
                Some(b"t" | b"true" | b"on" | b"1" | b"yes") => Local::Yes,
                Some(b"f" | b"false" | b"off" | b"0" | b"no") => Local::No,
                _ => return Ok(None),
            },
            None => return Ok(None),
        };
        let plain = arguments.iter().all(|argument| argument.tokens == 1);
        let null = value.single().is_some_and(|token| token.is(text, "null"));
        let value = value.single().and_then(|token| token.value(text)).map(Value::Whole);
        let name = name.single().and_then(|token| token.value(text));
        let name = name.map(|name| name.to_ascii_lowercase());
        let what = match (name, &local) {
            (Some(name), _) if name == b"session_authorization" => match null {
                true => EffectKind::ResetAuthorization,
                false => EffectKind::SessionAuthorization,
            },
            (Some(name), _) if null => EffectKind::Reset { name },
            (Some(name), _) => EffectKind::Set { name, value },
            // Any setting, but none behind the transaction: `locally` makes it that.
            (None, Local::Yes) => EffectKind::SetUnknown,
            (None, Local::No) => return Ok(None),
        };
        let what = match local {
            Local::Yes => what.locally(),
            Local::No => Some(what),
        };
        let alone = if plain && self.clone().ends_select()? { Alone::Yes } else { Alone::No };
        Ok(Some((what, alone)))
    }

    /// Goes over one argument. None if it does not end soon.
    fn argument(&mut self) -> Result<Option<Argument>, Unclear> {
        let (mut depth, mut argument) = (0_usize, Argument { token: self.now, tokens: 0 });
        loop {
            match self.now.kind {
                Kind::End | Kind::Semicolon => return Ok(None),
                Kind::Mark(b',' | b')') if depth == 0 => return Ok(Some(argument)),
                Kind::Mark(b'(' | b'[') => depth += 1,
                Kind::Mark(b')' | b']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            argument.tokens += 1;
            // Or a text of nested calls would be read once for each of them.
            if argument.tokens > TOKENS_MAX {
                return Ok(None);
            }
            self.advance()?;
        }
    }

    /// True if a SELECT of one function ends here, perhaps behind a name for its column.
    pub(super) fn ends_select(&mut self) -> Result<bool, Unclear> {
        if self.takes("as")? {
            self.advance()?;
        }
        Ok(self.ends())
    }
}

/// An argument of a function.
#[derive(Clone, Copy)]
struct Argument {
    /// Its first token.
    token: Token,
    /// The number of its tokens.
    tokens: usize,
}

impl Argument {
    /// Its token, if it has just one.
    fn single(&self) -> Option<Token> {
        (self.tokens == 1).then_some(self.token)
    }
}

enum Local {
    Yes,
    No,
}

/// The values of a SET to its end. None if they are not plain.
pub(super) fn values(reader: &mut Reader<'_>) -> Result<Option<Value>, Unclear> {
    let mut items = Vec::new();
    loop {
        let text = reader.text();
        let sign = if reader.is_operator(b"-") {
            reader.advance()?;
            Some(&b"-"[..])
        } else if reader.is_operator(b"+") {
            reader.advance()?;
            Some(&b""[..])
        } else {
            None
        };
        let now = reader.now();
        let item = match (now.kind, sign) {
            (Kind::Number, sign) => {
                Some([sign.unwrap_or_default(), number(&text[now.at()])].concat())
            }
            (Kind::Word | Kind::Quoted, None) => now.name(text),
            (Kind::Literal(_), None) => now.value(text),
            _ => None,
        };
        // Not known is always safe: such a setting is taken from its report, or its client keeps its
        // server.
        let Some(item) = item.filter(|_| items.len() < VALUES_MAX) else { return Ok(None) };
        items.push(item);
        reader.advance()?;
        if reader.ends() {
            return Ok(Some(Value::items(items)));
        }
        if !reader.mark(b',')? {
            return Ok(None);
        }
    }
}

/// As a string a number with zeros before it would be octal.
fn number(digits: &[u8]) -> &[u8] {
    if !digits.iter().all(u8::is_ascii_digit) {
        return digits;
    }
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count();
    &digits[zeros.min(digits.len() - 1)..]
}
