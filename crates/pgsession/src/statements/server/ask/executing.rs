//! SQL's EXECUTE and PREPARE of names that their client has prepared by the protocol.
//!
//! The text goes on with the name that the server knows the statement by, in the place of the client's:
//! so the server parses the arguments, coerces them to the types of its parameters and says what is
//! wrong, and the statement is there once for all clients, held to the shape that each was told.

use std::ops::Range;
use std::sync::Arc;

use super::{Altered, Forward, Message, Renamed, Step, Target, Turn, Unresolved, text};
use crate::sql::Followed;
use crate::statements::server::errors::Moved;
use crate::statements::server::{Refusal, Special};
use crate::statements::sql::{Found, May, Named, Usage};
use crate::statements::statement_cache::{EntryId, Given};
use pgwire::frame::{Frontend, HEAD};
use pgwire::message::{Status, write};

/// The meaning of a text's name for a statement when its command has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A statement of the client's, which is executed.
    Clients(EntryId),
    /// None: it was the client's, and is dropped before.
    Gone,
    /// A statement of the client's, so that no other can have the name.
    Taken,
    /// The server knows.
    AsItIs,
}

/// The name in the text that a portal was bound with.
#[derive(Clone, Debug)]
pub(in crate::statements::server) struct Naming {
    /// The client's name.
    name: Arc<[u8]>,
    meaning: Meaning,
    moved: Moved,
}

impl Naming {
    /// The statement that it executes.
    pub(in crate::statements::server) fn executes(&self) -> Option<EntryId> {
        match self.meaning {
            Meaning::Clients(id) => Some(id),
            _ => None,
        }
    }
}

/// The form in which a message goes on that names statements in its text.
pub(super) enum Executed {
    /// As it is.
    AsItIs,
    /// With names at the server.
    Named(Vec<Meaning>),
    /// Not yet, or not at all.
    Other(Forward),
}

impl Turn<'_> {
    /// The meanings of the names in a text, each when its command has its turn.
    pub(super) fn meanings(&self, found: &Found) -> Vec<Meaning> {
        let meaning = |one: &Named| {
            // Commands of a text run in its order, so what stands before the name has been done by then.
            let before = |at: &Range<usize>| at.start < one.at.start;
            let dropped = found.drops.iter().any(|(at, target)| {
                let name = |name: &[u8]| *name == *one.name;
                before(at) && !matches!(target, Target::Name(other) if !name(other))
            });
            let known = self.client.lookup(&one.name).filter(|_| !one.name.is_empty());
            let made = |other: &Named| {
                before(&other.at) && other.usage == Usage::Prepares && other.name == one.name
            };
            match (one.usage, known) {
                (Usage::Executes, Some(id)) if !dropped => Meaning::Clients(id),
                (Usage::Executes, Some(_)) if !found.names.iter().any(made) => Meaning::Gone,
                // Whoever learns a name of ours must not run what it means for others.
                (Usage::Executes, None) if one.name.starts_with(self.cache.prefix()) => {
                    Meaning::Gone
                }
                (Usage::Prepares, Some(_)) if !dropped => Meaning::Taken,
                _ => Meaning::AsItIs,
            }
        };
        found.names.iter().map(meaning).collect()
    }

    /// Sees to it that the server has what a text executes of its client's.
    pub(super) fn executed(&mut self, message: Message<'_>, found: &Found) -> Executed {
        self.server.query_waits = false;
        if found.names.is_empty() {
            return Executed::AsItIs;
        }
        if self.server.names.earlier() {
            return Executed::Other(self.later());
        }
        let meanings = self.meanings(found);
        if meanings.iter().all(|&meaning| meaning == Meaning::AsItIs) {
            return Executed::AsItIs;
        }
        // No error of another request may take back what is prepared for this one.
        if !self.server.expected.is_empty() {
            return Executed::Other(self.later());
        }
        let refused = match self.provide_all(found, &meanings) {
            // Once more: to declare types gives a name another entry.
            Ok(()) => return Executed::Named(self.meanings(found)),
            Err(Unresolved::Waits) => {
                self.server.query_waits = message.tag == Frontend::Query;
                return Executed::Other(self.later());
            }
            Err(Unresolved::Reshaped(what)) => Refusal::Reshaped(what),
            Err(Unresolved::NoRoom) => Refusal::StatementCache,
            Err(Unresolved::Refused(refusal)) => refusal,
        };
        Executed::Other(match message.tag {
            Frontend::Query => self.refuse_query(refused),
            _ => self.refuse(message, refused),
        })
    }

    fn provide_all(&mut self, found: &Found, meanings: &[Meaning]) -> Result<(), Unresolved> {
        let mut all: Vec<(u64, EntryId, Arc<[u8]>)> = Vec::new();
        for (one, &meaning) in found.names.iter().zip(meanings) {
            if let Meaning::Clients(id) = meaning {
                let entry = self.cache.entry(id);
                // The server runs its text as it was parsed once, so no name in that could be put right
                // each time.
                // Nothing in DISCARD ALL names one.
                let drops = entry.found.drops.iter().any(|(_, target)| *target != Target::Discard);
                if drops || !entry.found.names.is_empty() {
                    return Err(Unresolved::Refused(Refusal::Nested));
                }
                all.push((entry.number, id, one.name.clone()));
            }
        }
        // What it was asked for last is compared first, before that is forgotten.
        let asked = self.server.asked;
        // By number: an entry that has two names is provided for each, since each has a shape of its own.
        all.sort_unstable();
        all.dedup();
        let mut numbers: Vec<u64> = all.iter().map(|&(number, ..)| number).collect();
        numbers.dedup();
        let most = self.cache.bounds.server_max.max(1);
        if numbers.len() > most {
            return Err(Unresolved::Refused(Refusal::Executes { most }));
        }
        // A failed transaction takes none, and executes none.
        if self.pipeline.status() == Status::InFailedTransaction {
            return Ok(());
        }
        all.sort_by_key(|&(number, ..)| Some(number) != asked);
        // Those that are there must not make room for the others.
        for (number, ..) in &all {
            if self.server.prepared.peek(*number).is_some() {
                self.server.prepared.touch(*number);
            }
        }
        for (_, _, name) in all {
            let Some(known) = self.client.known(&name) else { continue };
            self.provide(&name, known)?;
        }
        Ok(())
    }

    /// All that a text leaves, with what the statements leave that it executes.
    pub(super) fn executing(
        &self,
        followed: Option<Arc<Followed>>,
        found: &Found,
        meanings: &[Meaning],
    ) -> Option<Arc<Followed>> {
        let followed = followed?;
        let known = found.names.iter().zip(meanings).filter_map(|(one, meaning)| match meaning {
            Meaning::Clients(id) => Some((one.effect, self.cache.entry(*id).followed.as_deref())),
            Meaning::Gone => Some((one.effect, None)),
            Meaning::Taken | Meaning::AsItIs => None,
        });
        let known: Vec<_> = known.collect();
        if known.is_empty() { Some(followed) } else { Some(Arc::new(followed.executing(&known))) }
    }

    /// All that a text may do, of which this is known, with the statements that it executes.
    pub(super) fn may_do(&self, text: May, meanings: &[Meaning]) -> May {
        let executed = meanings.iter().filter_map(|meaning| match meaning {
            Meaning::Clients(id) => Some(self.cache.entry(*id).found.may),
            _ => None,
        });
        executed.fold(text, May::with)
    }

    /// The names of ours for those in a text, and where they go.
    pub(super) fn given_names(
        &mut self,
        found: &Found,
        meanings: &[Meaning],
    ) -> Vec<(Range<usize>, Given)> {
        let mut given = Vec::new();
        for (one, meaning) in found.names.iter().zip(meanings) {
            // Names of ours that stand for one of the client's are told apart by its place among these.
            let place = self.server.specials.len();
            let name = match meaning {
                Meaning::AsItIs => continue,
                Meaning::Clients(id) => {
                    let number = self.cache.entry(*id).number;
                    self.server.executed.push((number, one.name.clone()));
                    given.push((one.at.clone(), Given::Entry(number)));
                    continue;
                }
                Meaning::Gone => Given::Lacking(place),
                Meaning::Taken => Given::Present(place),
            };
            if *meaning == Meaning::Taken {
                self.put_present(name);
            }
            let special = Special { name: one.name.clone(), target: Target::Discard };
            self.server.specials.push(special);
            given.push((one.at.clone(), name));
        }
        given
    }

    /// A text with names of ours, and where what is behind them was.
    pub(super) fn with_names(
        &self,
        text: &[u8],
        given: &mut [(Range<usize>, Given)],
    ) -> (Vec<u8>, Moved) {
        // Those that are dropped come first in the list, wherever they stand.
        given.sort_by_key(|(at, _)| at.start);
        let (mut out, mut copied, mut moved) = (Vec::new(), 0, Moved::within(text));
        for (at, name) in given {
            debug_assert!(copied <= at.start, "two names in one place");
            out.extend_from_slice(&text[copied..at.start]);
            let start = out.len();
            self.cache.write_quoted(&mut out, *name);
            moved.replaced(text, at, out.len() - start);
            copied = at.end;
        }
        out.extend_from_slice(&text[copied..]);
        (out, moved)
    }

    /// Has a server parse a statement of the client's that names another, as its unnamed one, with the
    /// names of ours.
    pub(super) fn put_named(&mut self, id: EntryId, meanings: &[Meaning]) -> Option<Naming> {
        let found = self.cache.entry(id).found.clone();
        // A Parse is of one command, and a command names one statement.
        let (one, &meaning) = found.names.iter().zip(meanings).next()?;
        let given = match meaning {
            Meaning::Clients(executed) => Given::Entry(self.cache.entry(executed).number),
            Meaning::Taken => Given::Present(0),
            Meaning::Gone | Meaning::AsItIs => Given::Lacking(0),
        };
        let tail = self.cache.entry(id).tail();
        let (said, types) = text(tail).expect("a Parse was read");
        let (named, moved) = self.with_names(said, &mut [(one.at.clone(), given)]);
        self.cache.write_parse_of(self.out, &named, types);
        self.push(Step::PutParse, Renamed::Nothing, Altered::Nothing);
        Some(Naming { name: one.name.clone(), meaning, moved })
    }

    /// An Execute of a portal of such a text.
    pub(super) fn execute_named(
        &mut self,
        message: Message<'_>,
        naming: &Naming,
        followed: Option<Arc<Followed>>,
        may: May,
    ) -> Forward {
        if !self.server.expected.is_empty() {
            return self.later();
        }
        self.server.may(may);
        self.stall();
        let name = naming.name.clone();
        if let Some(id) = naming.executes() {
            let number = self.cache.entry(id).number;
            self.server.executed.push((number, name));
            let failed = self.pipeline.status() == Status::InFailedTransaction;
            // Since the Bind it may have had to make room.
            if !failed && self.server.prepared.peek(number).is_none() {
                self.put_parse(id);
            }
        } else {
            if naming.meaning == Meaning::Taken {
                self.put_present(Given::Present(0));
            }
            self.server.specials.push(Special { name, target: Target::Discard });
        }
        self.server.moved = naming.moved.clone();
        // An Execute is short, so all of it is here.
        self.out.extend_from_slice(message.here);
        self.plain(Step::Execute);
        if let Some(followed) = followed {
            self.watch(&followed);
        }
        self.flush();
        Forward::Nothing
    }

    /// A name that SQL's PREPARE may have: the server tells, by its own.
    pub(super) fn check_sql_name(&mut self, name: &[u8], tail: &[u8]) {
        if !self.client.has_sql || name.starts_with(self.cache.prefix()) {
            return;
        }
        // A name that is taken fails here, in the server's words, as 42P05. One that is free is made and
        // closed again, so that nothing of the client's own name stays.
        write::message(self.out, Frontend::Parse, |out| {
            out.extend_from_slice(name);
            out.push(0);
            out.extend_from_slice(tail);
        });
        self.plain(Step::PutParse);
        write::message(self.out, Frontend::Close, |out| {
            out.push(b'S');
            out.extend_from_slice(name);
            out.push(0);
        });
        self.plain(Step::PutClose);
    }

    /// A Query whose statements the server could not prepare has failed with that: what the client waits
    /// for is its end.
    pub(super) fn end_query(&mut self) -> Forward {
        self.server.query_waits = false;
        // Its ReadyForQuery is the one that the client expects of its Query.
        write::bare(self.out, Frontend::Sync);
        self.plain(Step::Sync);
        Forward::Nothing
    }

    /// Writes a Query with names of ours in its text.
    pub(super) fn query_named(
        &mut self,
        message: Message<'_>,
        found: &Found,
        meanings: &[Meaning],
    ) -> Forward {
        assert_eq!(message.here.len(), message.len, "names are found in a whole text alone");
        self.stall();
        let body = &message.here[HEAD..];
        let mut given = self.dropped(found);
        given.extend(self.given_names(found, meanings));
        let (named, moved) = self.with_names(body, &mut given);
        self.server.moved = moved;
        self.head(message, body.len(), |_, out| out.extend_from_slice(&named));
        Forward::Nothing
    }
}
