//! A client's statements as plain values, while none of them is being asked about: what another
//! process needs to go on with them.

use std::sync::Arc;

use thiserror::Error;

use super::server::is_parse;
use super::shape::{Known, Shape};
use super::statement_cache::{Room, StatementCache, Untaken, read, written};
use super::{Client, NAME_MAX};
use crate::sql::tokens::LexerMode;

/// A statement, whoever has a name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedStatement {
    /// The scope in which it was prepared, as a statement cache writes it.
    pub scope: u64,
    /// The lexer mode in which its text was cut there.
    pub lexer_mode: LexerMode,
    /// The body of its Parse behind the name.
    pub tail: Vec<u8>,
}

/// A client's name for a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedName {
    /// The number of the statement.
    pub number: u64,
    /// The shape that it was told of it.
    pub shape: Option<Shape>,
}

/// Why a statement cannot be taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Untakeable {
    #[error("a statement of it, or a name for one, is malformed")]
    Malformed,
    #[error("it has more names for statements than one client may have")]
    Names,
    #[error("the statements of its pool have no room for one of its")]
    NoRoom,
    #[error("a statement of it leaves behind what is refused here")]
    Refused,
}

impl Client {
    /// True if nothing is under way that could change what its names mean, and nothing that it has
    /// prepared is at one server alone.
    pub fn rests(&self) -> bool {
        // Statements of SQL's PREPARE are at their server alone, and nobody knows their texts.
        !self.moves && !self.has_sql
    }
}

impl StatementCache {
    /// The mark that tells its statements' numbers from those of any other statement cache.
    pub fn mark(&self) -> &[u8] {
        self.prefix()
    }

    /// Declares the types that the parameters of a client's statements had when it prepared them, as far as
    /// they are remembered: where it goes on they are no other ones, whatever has become of the tables.
    pub fn declare_types(&mut self, client: &mut Client) {
        // Copied, since each name may be given anew on the way.
        let named: Vec<Arc<[u8]>> = client.names.keys().cloned().collect();
        for name in named.into_iter().chain([Arc::default()]) {
            let Some(Known { id, shape: Some(shape) }) = client.known(&name) else { continue };
            let room = if name.is_empty() { Room::All } else { Room::Named };
            // Where there is no room it goes on as it was said: its server may find other types.
            let Some(Ok(id)) = self.retyped(id, shape.parameters, room) else { continue };
            let known = Known { id, shape: Some(shape) };
            let before = match name.is_empty() {
                true => client.unnamed.replace(known),
                false => client.name(name, known, self),
            };
            if let Some(before) = before {
                self.release(before.id);
            }
        }
    }

    /// A client's names for statements, that of the unnamed one empty.
    pub fn names_of<'a>(
        &'a self,
        client: &'a Client,
    ) -> impl Iterator<Item = (&'a [u8], ExportedName)> {
        let unnamed = client.unnamed.map(|known| (&b""[..], known));
        let named = client.names.iter().map(|(name, known)| (&name[..], *known));
        let export =
            |known: Known| ExportedName { number: self.entry(known.id).number, shape: known.shape };
        named.chain(unnamed).map(move |(name, known)| (name, export(known)))
    }

    /// The statement that a client has this name for, if any.
    pub fn export(&self, client: &Client, name: &[u8]) -> Option<ExportedStatement> {
        let entry = self.entry(client.lookup(name)?);
        let lexer_mode = entry.lexer_mode();
        let scope = written(entry.scope(), lexer_mode);
        Some(ExportedStatement { scope, lexer_mode, tail: entry.tail().to_vec() })
    }

    /// Gives a client a name for a statement that it was told this shape of; an empty one for the unnamed
    /// one.
    ///
    /// # Errors
    /// If it cannot have it here. It is as it was then.
    pub fn take_up(
        &mut self,
        client: &mut Client,
        name: &[u8],
        (statement, shape): (&ExportedStatement, Option<Shape>),
    ) -> Result<(), Untakeable> {
        let ExportedStatement { scope, lexer_mode, tail } = statement;
        // It comes from another process, so nothing of it is taken on trust: a name with a zero byte
        // would end early in a message, and a tail that is no Parse would be sent to servers as one.
        if name.len() > NAME_MAX || name.contains(&0) || !is_parse(tail) {
            return Err(Untakeable::Malformed);
        }
        if tail.len() > self.bounds.statement_max {
            return Err(Untakeable::NoRoom);
        }
        // A name that it has is given another statement, which takes no more room.
        let is_new = !name.is_empty() && !client.names.contains_key(name);
        if is_new && client.names.len() >= self.bounds.client_max {
            return Err(Untakeable::Names);
        }
        let room = if name.is_empty() { Room::All } else { Room::Named };
        let id = self.intern(read(*scope), *lexer_mode, tail, room).map_err(
            |untaken| match untaken {
                Untaken::NoRoom => Untakeable::NoRoom,
                Untaken::Refused(_) => Untakeable::Refused,
            },
        )?;
        let known = Known { id, shape };
        let before = match name.is_empty() {
            true => client.unnamed.replace(known),
            false => client.name(Arc::from(name), known, self),
        };
        if let Some(before) = before {
            self.release(before.id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::Bounds;

    fn cache(secret: u8) -> StatementCache {
        let bounds = Bounds { client_max: 2, entries_max: 3, ..Bounds::default() };
        StatementCache::new([secret; 8], bounds)
    }

    fn statement(text: &str) -> ExportedStatement {
        let tail = [text.as_bytes(), &[0, 0, 1, 0, 0, 0, 23]].concat();
        ExportedStatement { scope: 7, lexer_mode: LexerMode::default(), tail }
    }

    fn names(cache: &StatementCache, client: &Client) -> Vec<(Vec<u8>, ExportedStatement)> {
        let names = cache.names_of(client);
        let named = |(name, _): (&[u8], ExportedName)| {
            (name.to_vec(), cache.export(client, name).expect("it has the name"))
        };
        let mut names: Vec<_> = names.map(named).collect();
        names.sort_by(|one, other| one.0.cmp(&other.0));
        names
    }

    #[test]
    fn statements_are_taken_up_elsewhere_as_they_were() {
        let (mut here, mut there) = (cache(1), cache(2));
        let (mut client, mut taken) = (Client::new(7), Client::new(7));
        here.take_up(&mut client, b"a", (&statement("select $1"), None)).unwrap();
        here.take_up(&mut client, b"b", (&statement("select $1"), None)).unwrap();
        here.take_up(&mut client, b"", (&statement("select 2"), None)).unwrap();
        assert_eq!(here.len(), 2, "the same text is there once");
        let all = names(&here, &client);
        assert_eq!(all.len(), 3);
        for (name, statement) in &all {
            there.take_up(&mut taken, name, (statement, None)).unwrap();
        }
        assert_eq!(names(&there, &taken), all);
        assert_eq!(there.text(&taken, b"a"), Some(&b"select $1"[..]));
        there.take_up(&mut taken, b"a", (&statement("select 3"), None)).unwrap();
        assert_eq!(there.text(&taken, b"a"), Some(&b"select 3"[..]));
        there.forget(taken);
        assert_eq!((there.used(), here.used()), (0, 2));
    }

    #[test]
    fn what_cannot_be_taken_up_leaves_all_as_it_was() {
        let mut here = cache(1);
        let mut client = Client::new(7);
        let refused = |here: &mut StatementCache, client: &mut Client, name: &[u8], tail: &[u8]| {
            let statement = ExportedStatement { tail: tail.to_vec(), ..statement("") };
            here.take_up(client, name, (&statement, None)).unwrap_err()
        };
        for tail in [&b""[..], b"no end", b"one type\0\0\x01\0\0", b"two\0\0\x02\0\0\0\x17"] {
            assert_eq!(refused(&mut here, &mut client, b"a", tail), Untakeable::Malformed);
        }
        let long = [b'n'; 64];
        assert_eq!(refused(&mut here, &mut client, &long, b"x\0\0\0"), Untakeable::Malformed);
        assert_eq!(refused(&mut here, &mut client, b"a\0", b"x\0\0\0"), Untakeable::Malformed);
        here.take_up(&mut client, b"a", (&statement("select 1"), None)).unwrap();
        here.take_up(&mut client, b"b", (&statement("select 2"), None)).unwrap();
        assert_eq!(refused(&mut here, &mut client, b"c", b"x\0\0\0"), Untakeable::Names);
        here.take_up(&mut client, b"", (&statement("select 3"), None)).unwrap();
        let mut other = Client::new(7);
        assert_eq!(refused(&mut here, &mut other, b"a", b"x\0\0\0"), Untakeable::NoRoom);
        assert_eq!((here.used(), other.names()), (3, 0));
    }
}
