//! A client's own names for statements.

use std::collections::HashMap;
use std::sync::Arc;

use super::NAME_MAX;
use super::shape::Known;
use super::statement_cache::{EntryId, StatementCache};
use crate::sql::tokens::LexerMode;

/// The statements of a client, by its names for them. It stays while servers come and go.
#[derive(Debug, Default)]
pub struct Client {
    pub(super) names: HashMap<Arc<[u8]>, Known>,
    /// The size of what these stand for \[byte\].
    pub(super) bytes: usize,
    pub(super) unnamed: Option<Known>,
    /// None while what its texts mean is not known: nobody shares them.
    pub(super) scope: Option<u64>,
    /// The lexer mode of its texts.
    pub(super) lexer_mode: LexerMode,
    /// True if the scope may change with what is not answered yet.
    pub(super) moves: bool,
    /// True if it has statements of SQL's PREPARE at its server, which it then keeps.
    pub(super) has_sql: bool,
}

impl Client {
    /// A client that has just come. `scope` tells apart settings that change what a text means, such
    /// as DateStyle: statements are shared only within one. Without one, what they are is not known, and
    /// nothing is shared.
    pub fn new(scope: impl Into<Option<u64>>) -> Client {
        Client { scope: scope.into(), ..Client::default() }
    }

    /// Sets how texts are read from now on: their scope, and how they are cut.
    pub fn set_scope(&mut self, scope: Option<u64>, lexer_mode: LexerMode) {
        (self.scope, self.lexer_mode) = (scope, lexer_mode);
    }

    /// Says whether a transaction is open that has changed settings. While it is, each text waits
    /// for the replies to what was run before it, since that may change what it means.
    pub fn set_moving(&mut self, moves: bool) {
        self.moves = moves;
    }

    /// Number of its names; the unnamed statement does not count.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// The name as a server tells it from others: its first 63 bytes.
    pub(super) fn key(name: &[u8]) -> &[u8] {
        // The hash of `prepare.c` has keys of NAMEDATALEN bytes: a longer name is the same statement as
        // its front, and no character counts there, only bytes.
        &name[..name.len().min(NAME_MAX)]
    }

    pub(super) fn lookup(&self, name: &[u8]) -> Option<EntryId> {
        self.known(name).map(|known| known.id)
    }

    /// The same with its shape.
    pub(super) fn known(&self, name: &[u8]) -> Option<Known> {
        if name.is_empty() { self.unnamed } else { self.names.get(Client::key(name)).copied() }
    }

    /// The same to be changed.
    pub(super) fn known_mut(&mut self, name: &[u8]) -> Option<&mut Known> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.names.get_mut(Client::key(name)) }
    }

    /// Gives it a name for an entry; what that stood for before.
    pub(super) fn name(
        &mut self,
        name: Arc<[u8]>,
        known: Known,
        cache: &StatementCache,
    ) -> Option<Known> {
        // What the protocol calls unnamed is kept apart, and no name of more bytes would be found again.
        assert!(!name.is_empty() && name.len() <= NAME_MAX, "{} bytes of a name", name.len());
        let before = self.names.insert(name, known);
        self.bytes += cache.entry(known.id).bytes();
        self.bytes -= before.map_or(0, |before| cache.entry(before.id).bytes());
        before
    }

    /// Takes a name from it, and what that stood for, whose reference is its caller's now.
    pub(super) fn unname(
        &mut self,
        name: &[u8],
        cache: &StatementCache,
    ) -> Option<(Arc<[u8]>, Known)> {
        let (name, known) = self.names.remove_entry(name)?;
        self.bytes -= cache.entry(known.id).bytes();
        assert!(self.bytes == 0 || !self.names.is_empty(), "{} bytes of no name", self.bytes);
        Some((name, known))
    }

    pub(super) fn drop_all(&mut self, cache: &mut StatementCache) {
        // The unnamed statement stays: `DropAllPreparedStatements` knows those that have a name.
        for (_, known) in self.names.drain() {
            cache.release(known.id);
        }
        self.bytes = 0;
        self.has_sql = false;
    }
}
