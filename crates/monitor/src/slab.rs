//! Places for connections, whose keys are never anybody else's again: an event of the system that
//! comes late finds nobody, and not whoever has the place now.

use mio::Token;

/// Key of a connection in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

/// Owner of the socket that an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Socket {
    /// A client's connection.
    Client(Key),
    /// A connection to a server.
    Server(Key),
    /// A connection that carries a cancel request to a server.
    Cancel(Key),
    /// One of the loop's own: listeners, signals, controls.
    Own(u32),
}

const KIND_BITS: u32 = 62;
const GENERATION_MASK: u32 = (1 << 30) - 1;

impl Socket {
    /// The name under which the system tells of it.
    pub(super) fn token(self) -> Token {
        let (kind, index, generation) = match self {
            Socket::Client(key) => (0, key.index, key.generation),
            Socket::Server(key) => (1, key.index, key.generation),
            Socket::Cancel(key) => (2, key.index, key.generation),
            Socket::Own(number) => (3, number, 0),
        };
        Token(kind << KIND_BITS | (generation as usize) << 32 | index as usize)
    }

    /// The one that a name is of.
    pub(super) fn of(token: Token) -> Socket {
        let index = token.0 as u32;
        let key = Key { index, generation: (token.0 >> 32) as u32 & GENERATION_MASK };
        match token.0 >> KIND_BITS {
            0 => Socket::Client(key),
            1 => Socket::Server(key),
            2 => Socket::Cancel(key),
            _ => Socket::Own(index),
        }
    }
}

/// Things in places.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    vacant: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { places: Vec::new(), vacant: Vec::new() }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Places that wait for the next ones.
    pub(super) fn vacant(&self) -> usize {
        self.vacant.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key that the next one will have.
    pub(super) fn next_key(&self) -> Key {
        match self.vacant.last() {
            Some(&index) => Key { index, generation: self.places[index as usize].0 },
            None => Key { index: self.places.len() as u32, generation: 0 },
        }
    }

    /// Puts one into a place.
    pub(super) fn insert(&mut self, thing: T) -> Key {
        let key = self.next_key();
        match self.vacant.pop() {
            Some(index) => self.places[index as usize].1 = Some(thing),
            None => self.places.push((0, Some(thing))),
        }
        key
    }

    /// Takes it out, if it is still there.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let (generation, thing) = self.places.get_mut(key.index as usize)?;
        if *generation != key.generation {
            return None;
        }
        let taken = thing.take()?;
        *generation = (*generation + 1) & GENERATION_MASK;
        self.vacant.push(key.index);
        Some(taken)
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let (generation, thing) = self.places.get(key.index as usize)?;
        thing.as_ref().filter(|_| *generation == key.generation)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, thing) = self.places.get_mut(key.index as usize)?;
        thing.as_mut().filter(|_| *generation == key.generation)
    }

    /// All, with their keys, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(index, (generation, thing))| {
            let key = Key { index: index as u32, generation: *generation };
            thing.as_ref().map(|thing| (key, thing))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_one_thing_alone() {
        let mut slab = Slab::new();
        let a = slab.insert('a');
        assert_eq!((slab.len(), slab.get(a)), (1, Some(&'a')));
        assert_eq!(slab.remove(a), Some('a'));
        let next = slab.next_key();
        let b = slab.insert('b');
        assert_eq!(b, next);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.get_mut(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(b, &'b')]);
    }

    #[test]
    fn a_token_is_of_its_socket() {
        let key = Key { index: u32::MAX, generation: GENERATION_MASK };
        for socket in
            [Socket::Client(key), Socket::Server(key), Socket::Cancel(key), Socket::Own(7)]
        {
            assert_eq!(Socket::of(socket.token()), socket);
        }
    }
}
