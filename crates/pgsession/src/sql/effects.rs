//! Finds in a text what it leaves behind in the session of its server, beyond its transaction.
//!
//! Seen are commands, and a few functions by name. Not seen is what a function does within, whoever
//! calls it: it may set, listen, lock and create. [`EffectKind::Code`] marks the commands that are there
//! to run code (`DO`, `CALL`); a function in a SELECT is as any other. What a sequence was moved to
//! cannot be seen; who asks for it by `currval` or `lastval` is told as [`EffectKind::Sequence`]. The seed
//! of `random()` is taken for nothing left.
//!
//! What is left is told also where a rollback will take it back. Of what ends with its transaction
//! only [`EffectKind::SetLocal`] is told, since texts behind it may mean something else.

use std::ops::Range;

use super::reading::{Reader, values};
use super::settings::{Value, is_meaning};
use super::tokens::{Kind, LexerMode, Token, Unclear};

/// Limit of the session effects that are told of one text; behind them stands [`EffectKind::Many`] if there
/// are more.
// A text with more is followed no further: its client keeps its server, which is always right.
const EFFECTS_MAX: usize = 256;

/// Session effects of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// In the text's order.
    pub effects: Vec<Effect>,
    /// The number of its commands, if that is known: as many complete where none fails.
    pub commands: Option<usize>,
    /// Nothing is claimed of it, and why.
    pub unclear: Option<Unclear>,
}

impl Effects {
    /// Those of the command with this number. The n-th CommandComplete of a text is of its n-th
    /// command.
    pub fn of(&self, command: usize) -> impl Iterator<Item = &EffectKind> {
        self.effects
            .iter()
            .filter(move |effect| effect.command == command)
            .map(|effect| &effect.what)
    }
}

/// One thing that is left behind, or taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The number of its command in the text, from 0; empty ones do not count.
    pub command: usize,
    /// The words that say so.
    pub at: Range<usize>,
    /// The effect.
    pub what: EffectKind,
}

/// Effect of a command on its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// A setting of the session, `role` among them.
    Set {
        /// Its name in lower case.
        name: Vec<u8>,
        /// Its value. None where the text does not say: a parameter, an expression, or a function
        /// that may run or not.
        value: Option<Value>,
    },
    /// A setting until the transaction ends, of those that change what a text means.
    SetLocal {
        /// Its name in lower case. None where the text does not say.
        name: Option<Vec<u8>>,
        /// Its value. None where the text does not say.
        value: Option<Value>,
    },
    /// A setting has the value again that the session began with.
    Reset {
        /// Its name in lower case.
        name: Vec<u8>,
    },
    /// All settings have, but role and session authorization.
    ResetAll,
    /// A setting whose name the text does not say.
    SetUnknown,
    /// `SET SESSION AUTHORIZATION`, which ends a role too.
    SessionAuthorization,
    /// `RESET SESSION AUTHORIZATION`, or to DEFAULT: the user that the session began with, and the
    /// role.
    ResetAuthorization,
    /// `LISTEN`.
    Listen,
    /// `UNLISTEN *`: nothing is listened to any more.
    UnlistenAll,
    /// A lock of the session is taken.
    AdvisoryLock,
    /// One is given back, which only its server can.
    AdvisoryUnlock,
    /// All are given back.
    AdvisoryUnlockAll,
    /// Something in the schema for temporary things.
    Temporary,
    /// A search_path by which things may come into it that name no schema, of a transaction or of the
    /// session.
    TemporaryPath,
    /// `DISCARD TEMP`.
    DiscardTemporary,
    /// `currval` or `lastval`: what the session has moved of sequences counts.
    Sequence,
    /// `DISCARD SEQUENCES`.
    DiscardSequences,
    /// A cursor WITH HOLD.
    WithHold,
    /// `CLOSE ALL`.
    CloseAll,
    /// SQL's PREPARE.
    Prepare,
    /// SQL's EXECUTE, of what only its server has.
    Execute,
    /// The same of EXPLAIN or CREATE TABLE AS, which may leave the statement undone.
    MayExecute,
    /// `DEALLOCATE ALL`.
    DeallocateAll,
    /// `LOAD`, which nothing undoes.
    Load,
    /// `DISCARD ALL`.
    DiscardAll,
    /// `DO` or `CALL`, or a function by a name that cannot be read: anything.
    Code,
    /// `SAVEPOINT`.
    Savepoint(Vec<u8>),
    /// `RELEASE`.
    Release(Vec<u8>),
    /// `ROLLBACK TO`.
    RollbackTo(Vec<u8>),
    /// More than is told.
    Many,
}

impl EffectKind {
    /// The effect of this SET as a SET LOCAL: none for what changes no text's meaning.
    pub(super) fn locally(self) -> Option<EffectKind> {
        match self {
            EffectKind::Set { name, value } => {
                is_meaning(&name).then_some(EffectKind::SetLocal { name: Some(name), value })
            }
            EffectKind::Reset { name } => {
                is_meaning(&name).then_some(EffectKind::SetLocal { name: Some(name), value: None })
            }
            EffectKind::SetUnknown => Some(EffectKind::SetLocal { name: None, value: None }),
            // With the user the role changes.
            EffectKind::SessionAuthorization | EffectKind::ResetAuthorization => {
                Some(EffectKind::SetLocal { name: Some(b"role".to_vec()), value: None })
            }
            // What is made under a path stays when that ends.
            EffectKind::TemporaryPath => Some(EffectKind::TemporaryPath),
            _ => None,
        }
    }

    /// The effect of this where its command may be left undone: what it would leave may be there, what it
    /// would take away may be there still.
    pub(super) fn undone_perhaps(self) -> Option<EffectKind> {
        match self {
            EffectKind::Set { name, .. } | EffectKind::Reset { name } => {
                Some(EffectKind::Set { name, value: None })
            }
            EffectKind::SetLocal { name, .. } => Some(EffectKind::SetLocal { name, value: None }),
            EffectKind::ResetAuthorization => Some(EffectKind::SessionAuthorization),
            EffectKind::AdvisoryUnlockAll => Some(EffectKind::AdvisoryUnlock),
            // Neither EXPLAIN nor CREATE TABLE AS runs what is no query.
            EffectKind::UnlistenAll
            | EffectKind::DiscardTemporary
            | EffectKind::DiscardSequences
            | EffectKind::CloseAll
            | EffectKind::DeallocateAll
            | EffectKind::ResetAll
            | EffectKind::DiscardAll
            | EffectKind::Savepoint(_)
            | EffectKind::Release(_)
            | EffectKind::RollbackTo(_) => None,
            EffectKind::SetUnknown
            | EffectKind::SessionAuthorization
            | EffectKind::Listen
            | EffectKind::AdvisoryLock
            | EffectKind::AdvisoryUnlock
            | EffectKind::Temporary
            | EffectKind::TemporaryPath
            | EffectKind::Sequence
            | EffectKind::WithHold
            | EffectKind::Prepare
            | EffectKind::Execute
            | EffectKind::MayExecute
            | EffectKind::Load
            | EffectKind::Code
            | EffectKind::Many => Some(self),
        }
    }

    /// True if things may be temporary that are made without a schema behind it.
    fn sets_temporary_path(&self) -> bool {
        match self {
            EffectKind::Set { name, value } if name == b"search_path" => {
                value.as_ref().is_none_or(Value::has_temporary_schema)
            }
            // What a parameter says is taken for none: so tenants are told apart in transactions.
            EffectKind::SetLocal { name: Some(name), value: Some(value) } => {
                name == b"search_path" && value.has_temporary_schema()
            }
            _ => false,
        }
    }
}

/// Session effects of `text`.
pub fn effects(text: &[u8], lexer_mode: LexerMode) -> Effects {
    let mut found = Effects::default();
    let read = Reader::new(text, lexer_mode).and_then(|reader| {
        let (into, bodies, many) = (Into::May, Bodies::None, None);
        Look { reader, command: 0, out: &mut found.effects, many, into, bodies }.text()
    });
    match read {
        Ok((commands, many)) => {
            found.commands = Some(commands);
            found.effects.extend(many);
        }
        // The server refuses the text as a whole, or nobody can read it: half of it says nothing.
        Err(unclear) => return Effects { unclear: Some(unclear), ..Effects::default() },
    }
    debug_assert!(found.effects.len() <= EFFECTS_MAX + 1, "{} effects", found.effects.len());
    debug_assert!(found.effects.is_sorted_by_key(|effect| effect.command), "{found:?}");
    debug_assert!(found.effects.iter().all(|effect| effect.at.end <= text.len()), "{found:?}");
    found
}

/// Meaning of INTO in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Into {
    /// A new table's name.
    May,
    /// That of one that is there.
    Not,
}

/// Meaning of strings in a command: code that it runs or makes, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bodies {
    None,
    Strings,
}

struct Look<'a, 'o> {
    reader: Reader<'a>,
    command: usize,
    out: &'o mut Vec<Effect>,
    /// The first effect that is not told, as the mark of all.
    // Not among the others, since some of these are taken back or read anew.
    many: Option<Effect>,
    into: Into,
    bodies: Bodies,
}

type Step = Result<(), Unclear>;

impl Look<'_, '_> {
    /// Reads all of it; how many commands it has, and the mark of the effects that are not told.
    fn text(mut self) -> Result<(usize, Option<Effect>), Unclear> {
        while self.reader.next_command()? {
            (self.into, self.bodies) = (Into::May, Bodies::None);
            self.command()?;
            self.rest()?;
            if self.reader.is_in_body() {
                // The server refuses the text, or reads it otherwise.
                self.leave(self.reader.behind(), EffectKind::Code);
            }
            self.command += 1;
        }
        Ok((self.command, self.many))
    }

    fn is(&self, keyword: &str) -> bool {
        self.reader.is(keyword)
    }

    /// Goes behind a word if it is there.
    fn takes(&mut self, keyword: &str) -> Result<bool, Unclear> {
        self.reader.takes(keyword)
    }

    /// Goes behind a word of a command's own if it is there: it may be a setting's too, as in
    /// `SET local.a TO 1`.
    fn leads(&mut self, keyword: &str) -> Result<bool, Unclear> {
        let mut ahead = self.reader.clone();
        let leads = ahead.takes(keyword)?
            && ahead.now().kind != Kind::Mark(b'.')
            && !ahead.is("to")
            && !ahead.is_operator(b"=");
        if leads {
            self.reader = ahead;
        }
        Ok(leads)
    }

    fn leave(&mut self, start: usize, what: EffectKind) {
        if self.many.is_some() {
            return;
        }
        let (command, at) = (self.command, start..self.reader.behind().max(start));
        if self.out.len() < EFFECTS_MAX {
            self.out.push(Effect { command, at, what });
        } else {
            self.many = Some(Effect { command, at, what: EffectKind::Many });
        }
    }

    /// Reads the words that make a command what it is.
    fn command(&mut self) -> Step {
        // A command begins with a keyword, or with a parenthesis before SELECT, which `rest` reads.
        let first = self.reader.now();
        if first.kind != Kind::Word {
            return Ok(());
        }
        let text = self.reader.text();
        let start = first.start;
        match text[start].to_ascii_lowercase() {
            b's' if self.takes("set")? => return self.set(start),
            b's' if self.takes("savepoint")? => {
                return self.savepoint(start, EffectKind::Savepoint);
            }
            b's' if self.is("select") => return self.select(start),
            b'r' if self.takes("reset")? => return self.reset(start),
            b'r' if self.takes("release")? => {
                self.takes("savepoint")?;
                return self.savepoint(start, EffectKind::Release);
            }
            b'r' if self.takes("rollback")? => return self.rollback(start),
            b'c' if self.takes("create")? => return self.create(start),
            b'd' if self.takes("declare")? => return self.declare(start),
            b'd' if self.takes("discard")? => return self.discard(start),
            b'e' if self.takes("explain")? => return self.explain(),
            // INTO names a table that is there: nothing is made by it.
            b'i' if self.is("insert") => self.into = Into::Not,
            b'm' if self.is("merge") => self.into = Into::Not,
            _ => {}
        }
        let what = match text[start].to_ascii_lowercase() {
            b'l' if self.takes("listen")? => EffectKind::Listen,
            b'l' if self.takes("load")? => EffectKind::Load,
            // Of one channel nothing can be told: others may be listened to still.
            b'u' if self.takes("unlisten")? && self.reader.now().kind == Kind::Operator => {
                EffectKind::UnlistenAll
            }
            // PREPARE TRANSACTION ends a transaction, and leaves the session nothing.
            b'p' if self.takes("prepare")? && !self.is("transaction") => EffectKind::Prepare,
            b'e' if self.takes("execute")? => EffectKind::Execute,
            b'd' if self.takes("deallocate")? => {
                self.takes("prepare")?;
                // One statement less says nothing of the others.
                if !self.is("all") {
                    return Ok(());
                }
                EffectKind::DeallocateAll
            }
            b'd' if self.takes("do")? => {
                self.bodies = Bodies::Strings;
                EffectKind::Code
            }
            b'c' if self.takes("call")? => EffectKind::Code,
            b'c' if self.takes("close")? && self.is("all") => EffectKind::CloseAll,
            _ => return Ok(()),
        };
        self.leave(start, what);
        Ok(())
    }

    fn savepoint(&mut self, start: usize, what: fn(Vec<u8>) -> EffectKind) -> Step {
        let name = self.reader.now().name(self.reader.text());
        self.reader.advance()?;
        self.leave(start, name.map_or(EffectKind::Code, what));
        Ok(())
    }

    fn rollback(&mut self, start: usize) -> Step {
        if !self.takes("work")? {
            self.takes("transaction")?;
        }
        // Without TO the tag tells that the transaction has ended.
        if self.takes("to")? {
            self.takes("savepoint")?;
            self.savepoint(start, EffectKind::RollbackTo)?;
        }
        Ok(())
    }

    fn discard(&mut self, start: usize) -> Step {
        if self.takes("all")? {
            self.leave(start, EffectKind::DiscardAll);
        } else if self.takes("temp")? || self.takes("temporary")? {
            self.leave(start, EffectKind::DiscardTemporary);
        } else if self.takes("sequences")? {
            self.leave(start, EffectKind::DiscardSequences);
        }
        Ok(())
    }

    /// Only as a command of its own is a function sure to run, once and with these values.
    fn select(&mut self, start: usize) -> Step {
        let mut ahead = self.reader.clone();
        ahead.advance()?;
        let function = ahead.function()?;
        let what = match function.as_deref() {
            // Where it is not alone `word` finds it again, and claims no value.
            Some(b"set_config") => match ahead.set_config()? {
                Some((what, Alone::Yes)) => what,
                _ => return Ok(()),
            },
            Some(b"pg_advisory_unlock_all") => {
                // Beside other things it may run or not, so the locks may still be there.
                if !ahead.mark(b'(')? || !ahead.mark(b')')? || !ahead.ends_select()? {
                    return Ok(());
                }
                Some(EffectKind::AdvisoryUnlockAll)
            }
            _ => return Ok(()),
        };
        self.reader = ahead;
        if let Some(what) = what {
            self.sets(start, what);
        }
        Ok(())
    }

    /// A setting is set, perhaps the search_path.
    fn sets(&mut self, start: usize, what: EffectKind) {
        let temporary = what.sets_temporary_path();
        self.leave(start, what);
        if temporary {
            self.leave(start, EffectKind::TemporaryPath);
        }
    }

    /// Goes to the end of the command, and sees what may stand in any.
    fn rest(&mut self) -> Step {
        loop {
            let now = self.reader.now();
            match now.kind {
                Kind::End | Kind::Semicolon => return Ok(()),
                Kind::Word | Kind::Quoted | Kind::UnicodeQuoted => self.word(now)?,
                Kind::Literal(_) if self.bodies == Bodies::Strings => self.body(now)?,
                _ => self.reader.advance()?,
            }
        }
    }

    /// A string that is code: its own strings, comments and names are not told apart.
    fn body(&mut self, now: Token) -> Step {
        let asks = asks_of_sequences(&self.reader.text()[now.start..now.end]);
        self.reader.advance()?;
        if asks {
            self.leave(now.start, EffectKind::Sequence);
        }
        Ok(())
    }

    fn word(&mut self, now: Token) -> Step {
        let text = self.reader.text();
        let length = now.end - now.start;
        let inner = now.start
            + match now.kind {
                Kind::UnicodeQuoted if now.name(text).is_none() => {
                    self.reader.advance()?;
                    self.leave(now.start, EffectKind::Code);
                    return Ok(());
                }
                Kind::UnicodeQuoted => 3,
                Kind::Quoted => 1,
                _ => 0,
            };
        match text[inner].to_ascii_lowercase() {
            // The shortest name that counts has so many bytes, which spares most words a copy of their
            // name.
            b'p' if length >= 16 => {
                if let Some(what) = lock(&now.name(text).unwrap_or_default()) {
                    self.reader.advance()?;
                    self.leave(now.start, what);
                    return Ok(());
                }
            }
            b'c' | b'l' if length >= 7 && asks_of_sequence(&now.name(text).unwrap_or_default()) => {
                self.reader.advance()?;
                // A column may have that name.
                if self.reader.now().kind == Kind::Mark(b'(') {
                    self.leave(now.start, EffectKind::Sequence);
                }
                return Ok(());
            }
            b's' if length >= 10 && now.name(text).as_deref() == Some(b"set_config") => {
                // What runs under a condition, or often, or not at all, has no sure value.
                self.reader.advance()?;
                let what = self.reader.clone().set_config()?.map(|(what, _)| what);
                let temporary = what.iter().flatten().any(EffectKind::sets_temporary_path);
                match what {
                    // Until the end of its transaction, and of no meaning to any text.
                    Some(None) => {}
                    Some(Some(EffectKind::Set { name, .. })) => {
                        self.leave(now.start, EffectKind::Set { name, value: None });
                    }
                    Some(Some(EffectKind::SetLocal { name, .. })) => {
                        self.leave(now.start, EffectKind::SetLocal { name, value: None });
                    }
                    _ => self.leave(now.start, EffectKind::SetUnknown),
                }
                if temporary {
                    self.leave(now.start, EffectKind::TemporaryPath);
                }
                return Ok(());
            }
            b'i' if self.into == Into::May && self.takes("into")? => {
                if !self.takes("local")? {
                    self.takes("global")?;
                }
                self.temporary(now.start)?;
                return Ok(());
            }
            // Only the first one is of the table; another is taken for the worst.
            b'i' if self.takes("into")? => {
                self.into = Into::May;
                self.reader.advance()?;
                return Ok(());
            }
            _ => {}
        }
        self.reader.advance()
    }

    /// True if something temporary is made: TEMP, TEMPORARY, or a name in its schema.
    fn temporary(&mut self, start: usize) -> Result<bool, Unclear> {
        let word = self.is("temp") || self.is("temporary");
        let now = self.reader.now();
        let schema = now.name(self.reader.text()).is_some_and(|name| name.starts_with(b"pg_temp"));
        if !word && !schema {
            return Ok(false);
        }
        self.reader.advance()?;
        if word || self.reader.now().kind == Kind::Mark(b'.') {
            self.leave(start, EffectKind::Temporary);
            return Ok(true);
        }
        Ok(false)
    }

    fn create(&mut self, start: usize) -> Step {
        if self.takes("or")? {
            self.takes("replace")?;
        }
        if !self.takes("local")? {
            self.takes("global")?;
        }
        let routine = ["function", "procedure", "trigger", "event", "rule", "constraint"];
        // What a trigger executes is a function.
        let executes = !routine.iter().any(|word| self.is(word));
        if self.is("function") || self.is("procedure") {
            self.bodies = Bodies::Strings;
        }
        // The name comes before what it is made of.
        let mut named = true;
        let mut temporary = None;
        loop {
            let now = self.reader.now();
            match now.kind {
                Kind::End | Kind::Semicolon => return Ok(()),
                Kind::Mark(b'(') => named = false,
                Kind::Word if self.is("as") => {
                    self.reader.advance()?;
                    named = false;
                    let execute = self.reader.now().start;
                    if executes && self.takes("execute")? {
                        self.leave(execute, EffectKind::MayExecute);
                    }
                    continue;
                }
                Kind::Word if self.is("on") => {
                    named = false;
                    self.reader.advance()?;
                    if self.takes("commit")? && self.is("drop") {
                        // It ends with its transaction.
                        // Only if nothing was found since: the effect is removed by its place.
                        if let Some(at) = temporary.take().filter(|at| at + 1 == self.out.len()) {
                            self.out.remove(at);
                        }
                    }
                    continue;
                }
                Kind::Word | Kind::Quoted | Kind::UnicodeQuoted
                    if named && now.name(self.reader.text()).is_some() =>
                {
                    let place = self.out.len();
                    if self.temporary(start)? {
                        named = false;
                        // Where it is not told, nothing is there to be taken back.
                        temporary = (self.out.len() > place).then_some(place);
                    } else if self.reader.now() == now {
                        self.reader.advance()?;
                    }
                    continue;
                }
                Kind::Word | Kind::Quoted | Kind::UnicodeQuoted => {
                    self.into = Into::Not;
                    self.word(now)?;
                    continue;
                }
                Kind::Literal(_) if self.bodies == Bodies::Strings => {
                    self.body(now)?;
                    continue;
                }
                _ => {}
            }
            self.reader.advance()?;
        }
    }

    fn declare(&mut self, start: usize) -> Step {
        // Behind FOR the query stands, in which WITH begins something else.
        while !self.reader.ends() && !self.is("for") {
            if self.takes("with")? {
                if self.takes("hold")? {
                    self.leave(start, EffectKind::WithHold);
                }
            } else {
                self.reader.advance()?;
            }
        }
        Ok(())
    }

    fn explain(&mut self) -> Step {
        loop {
            if self.reader.now().kind == Kind::Mark(b'(') {
                // Options in parentheses, which may have such words as values.
                let depth = self.reader.depth();
                while !self.reader.ends() && self.reader.depth() >= depth {
                    self.reader.advance()?;
                }
                self.reader.advance()?;
            } else if !self.takes("analyze")?
                && !self.takes("analyse")?
                && !self.takes("verbose")?
            {
                break;
            }
        }
        let start = self.reader.now().start;
        if self.takes("execute")? {
            self.leave(start, EffectKind::MayExecute);
        } else if self.takes("create")? {
            self.create(start)?;
        } else if self.takes("declare")? {
            self.declare(start)?;
        } else if self.is("insert") || self.is("merge") {
            self.into = Into::Not;
        }
        Ok(())
    }

    fn reset(&mut self, start: usize) -> Step {
        let what = if self.takes("all")? {
            EffectKind::ResetAll
        } else if self.leads("session")? {
            self.takes("authorization")?;
            EffectKind::ResetAuthorization
        } else if self.leads("time")? {
            self.takes("zone")?;
            EffectKind::Reset { name: b"timezone".to_vec() }
        } else if self.leads("transaction")? {
            return Ok(());
        } else {
            match self.reader.setting()? {
                None => EffectKind::SetUnknown,
                Some(name) if name == b"session_authorization" => EffectKind::ResetAuthorization,
                Some(name) if is_local(&name) => return Ok(()),
                Some(name) => EffectKind::Reset { name },
            }
        };
        self.leave(start, what);
        Ok(())
    }

    fn set(&mut self, start: usize) -> Step {
        if self.leads("local")? {
            return self.set_locally(start);
        }
        self.set_rest(start)
    }

    /// `SET LOCAL`: what the same without LOCAL would leave that counts before the transaction ends.
    fn set_locally(&mut self, start: usize) -> Step {
        // SET LOCAL has the forms of SET, so it is read as one; what it leaves is weighed again.
        let before = self.out.len();
        self.set_rest(start)?;
        for effect in self.out.split_off(before) {
            if let Some(what) = effect.what.locally() {
                self.out.push(Effect { what, ..effect });
            }
        }
        Ok(())
    }

    fn set_rest(&mut self, start: usize) -> Step {
        if self.leads("session")? {
            if self.leads("characteristics")? {
                return self.characteristics(start);
            }
            if self.takes("authorization")? {
                return self.authorization(start);
            }
        }
        // `SET time TO ...` sets a setting of that name, `SET TIME ZONE ...` another one: what follows
        // decides.
        let special = self.reader.now();
        let mut ahead = self.reader.clone();
        let Some(name) = ahead.setting()? else {
            self.leave(start, EffectKind::SetUnknown);
            return Ok(());
        };
        if !ahead.is("to") && !ahead.is_operator(b"=") && special.kind == Kind::Word {
            return self.special(start, &name);
        }
        self.reader = ahead;
        self.reader.advance()?;
        if name == b"session_authorization" {
            return self.authorization(start);
        }
        self.value(start, name)
    }

    /// The forms of SET with words of their own.
    fn special(&mut self, start: usize, word: &[u8]) -> Step {
        let name: &[u8] = match word {
            b"session" => {
                self.reader.advance()?;
                if self.takes("authorization")? {
                    return self.authorization(start);
                }
                return Ok(());
            }
            // These end with the transaction.
            b"transaction" | b"constraints" => return Ok(()),
            b"time" => b"timezone",
            b"schema" => b"search_path",
            b"names" => b"client_encoding",
            b"role" => b"role",
            b"xml" => b"xmloption",
            _ => {
                self.leave(start, EffectKind::SetUnknown);
                return Ok(());
            }
        };
        self.reader.advance()?;
        if name == b"timezone" {
            self.takes("zone")?;
            if self.takes("local")? {
                self.leave(start, EffectKind::Reset { name: name.to_vec() });
                return Ok(());
            }
        }
        if name == b"xmloption" {
            self.takes("option")?;
        }
        if name == b"client_encoding" && self.reader.ends() {
            self.leave(start, EffectKind::Reset { name: name.to_vec() });
            return Ok(());
        }
        self.value(start, name.to_vec())
    }

    fn value(&mut self, start: usize, name: Vec<u8>) -> Step {
        if is_local(&name) {
            return Ok(());
        }
        // In quotes it is a value like any other.
        let unquoted_default = self.is("default");
        let value = values(&mut self.reader)?;
        if unquoted_default && self.reader.ends() {
            self.leave(start, EffectKind::Reset { name });
        } else {
            self.sets(start, EffectKind::Set { name, value });
        }
        Ok(())
    }

    fn authorization(&mut self, start: usize) -> Step {
        let default = self.is("default");
        self.reader.advance()?;
        let what =
            if default { EffectKind::ResetAuthorization } else { EffectKind::SessionAuthorization };
        self.leave(start, what);
        Ok(())
    }

    /// The characteristics of the session's transactions from now on.
    fn characteristics(&mut self, start: usize) -> Step {
        self.takes("as")?;
        self.takes("transaction")?;
        let set = |look: &mut Self, name: &str, value: &str| {
            let value = Some(Value::items([value.as_bytes().to_vec()]));
            look.leave(start, EffectKind::Set { name: name.as_bytes().to_vec(), value });
        };
        while !self.reader.ends() {
            if self.takes("isolation")? {
                self.takes("level")?;
                let mut level = Vec::new();
                while self.reader.now().kind == Kind::Word && level.len() < 2 {
                    let name = self.reader.now().name(self.reader.text()).unwrap_or_default();
                    self.reader.advance()?;
                    // The other levels have two words.
                    let last = name == b"serializable" || !level.is_empty();
                    level.push(name);
                    if last {
                        break;
                    }
                }
                let level = String::from_utf8_lossy(&level.join(&b' ')).into_owned();
                set(self, "default_transaction_isolation", &level);
            } else if self.takes("read")? {
                let value = if self.is("only") { "on" } else { "off" };
                set(self, "default_transaction_read_only", value);
                self.reader.advance()?;
            } else if self.takes("not")? {
                set(self, "default_transaction_deferrable", "off");
                self.reader.advance()?;
            } else if self.takes("deferrable")? {
                set(self, "default_transaction_deferrable", "on");
            } else {
                self.reader.advance()?;
            }
        }
        Ok(())
    }
}

/// Settings of the transaction alone, and the seed of `random()`, which no one hands on.
fn is_local(name: &[u8]) -> bool {
    matches!(
        name,
        b"transaction_isolation" | b"transaction_read_only" | b"transaction_deferrable" | b"seed"
    )
}

/// The effect of a function on the locks of the session; those of the transaction end with it.
fn lock(name: &[u8]) -> Option<EffectKind> {
    Some(match name {
        b"pg_advisory_lock"
        | b"pg_advisory_lock_shared"
        | b"pg_try_advisory_lock"
        | b"pg_try_advisory_lock_shared" => EffectKind::AdvisoryLock,
        b"pg_advisory_unlock" | b"pg_advisory_unlock_shared" | b"pg_advisory_unlock_all" => {
            EffectKind::AdvisoryUnlock
        }
        _ => return None,
    })
}

/// True if a text names `currval` or `lastval` anywhere, in whatever string or comment.
pub(super) fn asks_of_sequences(text: &[u8]) -> bool {
    let is = |at: &[u8], name: &[u8]| at.eq_ignore_ascii_case(name);
    // A string of code is not read as code: a word in a comment of it is taken for a call. That is the
    // safe side.
    text.windows(7).any(|at| is(at, b"currval") || is(at, b"lastval"))
}

/// True if a function tells what the session has moved of sequences.
fn asks_of_sequence(name: &[u8]) -> bool {
    matches!(name, b"currval" | b"lastval")
}

/// Mark of a function that is all that its command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    /// It is.
    Yes,
    /// There is more.
    No,
}
