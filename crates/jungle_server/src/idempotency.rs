//! A request that is sent again because its answer was lost must not take effect twice: its key stands in the commit
//! itself, so that it is known as long as the commit is, over every restart.
//!
//! The header is that of draft-ietf-httpapi-idempotency-key-header: the same key with another request is 422, and
//! while the first is under way 409. The newest 100,000 keys are known, of all users together: whoever sends so many
//! lets those of others be forgotten, and the request of one that is forgotten takes effect again. After a start they
//! are those of the commits that are remembered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::Method;
use jungle::{Commit, NodeId, Version};
use sha2::{Digest, Sha256};

use crate::answer::CommittedAnswer;
use crate::exchange::Ask;
use crate::problem::Problem;

/// The attribute of a commit that holds the key of its request, the request, and the number of ids that it made.
pub(crate) const ATTRIBUTE: &str = "idempotency-key";
/// Keys that are known, the newest of all users: 131,072 places of 65 B in the two tables of the window, 9 MB.
const KEYS_MAX: usize = 100_000;
const _: () = assert!(size_of::<(Hash, Kept)>() + 1 + size_of::<Hash>() == 65);
/// The longest key \[B\].
const LENGTH_MAX: usize = 255;

/// The beginning of a SHA-256: nobody finds two requests of one.
type Hash = [u8; 16];

fn hash(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize()[..16].try_into().expect("of 32 bytes")
}

/// The key of a request, and the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Key and user: nobody meets the keys of others.
    key: Hash,
    request: Hash,
}

impl Key {
    /// The key of a request that commits; `None` without the header.
    pub(crate) fn of(ask: &Ask) -> Result<Option<Self>, Problem> {
        let Some(text) = ask.header("idempotency-key")? else { return Ok(None) };
        if text.is_empty() || text.len() > LENGTH_MAX {
            return Err(Problem::bad_request(format!(
                "`Idempotency-Key` has 1 to {LENGTH_MAX} bytes; draw one for each edit, a UUID say"
            )));
        }
        let words: Vec<&str> = ask.segments.iter().map(String::as_str).collect();
        let commits = ask.method != Method::GET
            && ask.method != Method::HEAD
            && matches!(words[..], ["trees" | "commits" | "transactions", ..]);
        if ask.coming.is_some() {
            let wrong = "`Idempotency-Key` has no meaning for a blob, which is the same however often it is sent; leave it out";
            return Err(Problem::bad_request(wrong));
        }
        if !commits {
            let wrong = "`Idempotency-Key` has a meaning for edits alone; leave it out here";
            return Err(Problem::bad_request(wrong));
        }
        let mut parts =
            vec![ask.method.as_str().as_bytes(), ask.content_type().as_bytes(), &ask.body];
        for name in ["if-match", "jungle-author", "jungle-message"] {
            parts.push(ask.header(name)?.unwrap_or_default().as_bytes());
        }
        parts.extend(words.iter().map(|word| word.as_bytes()));
        let user = ask.caller.name().unwrap_or_default().as_bytes();
        Ok(Some(Self { key: hash(&[user, text.as_bytes()]), request: hash(&parts) }))
    }

    /// The value of the commit's attribute.
    pub(crate) fn written(&self, made: u32) -> Vec<u8> {
        let mut value = [self.key, self.request].concat();
        value.extend_from_slice(&made.to_le_bytes());
        value
    }

    /// The key that a commit has, and the number of ids that it made.
    fn read(commit: &Commit) -> Option<(Self, u32)> {
        let (_, value) = commit.attributes().find(|(name, _)| *name == ATTRIBUTE)?;
        let (key, rest) = value.split_first_chunk()?;
        let (request, made) = rest.split_first_chunk()?;
        Some((Self { key: *key, request: *request }, u32::from_le_bytes(made.try_into().ok()?)))
    }
}

/// A commit that took effect under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    request: Hash,
    seq: u64,
    made: u32,
    conflicts: u32,
}

/// The newest keys.
#[derive(Debug, Default)]
struct Window {
    kept: HashMap<Hash, Kept>,
    /// The same, the oldest first.
    order: VecDeque<Hash>,
    under_way: HashSet<Hash>,
}

impl Window {
    fn keep(&mut self, key: Hash, kept: Kept) {
        if self.kept.insert(key, kept).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > KEYS_MAX {
            let oldest = self.order.pop_front().expect("it has some");
            self.kept.remove(&oldest);
        }
    }
}

/// The keys of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(Arc<Mutex<Window>>);

/// The standing of a key: new, or that of a commit.
pub(crate) enum First {
    /// New: the key is taken until this is dropped.
    Yes(UnderWay),
    /// Of a commit, with its answer.
    No(CommittedAnswer),
}

/// A request with a key, until it is answered.
pub(crate) struct UnderWay {
    keys: Keys,
    key: Hash,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.keys.window(|window| window.under_way.remove(&self.key));
    }
}

impl Keys {
    /// The keys of the commits that a version remembers, the newest of them.
    pub(crate) fn of(version: &Version) -> Self {
        let oldest = version.oldest_commit().unwrap_or(u64::MAX);
        let commits = (oldest..=version.seq()).rev().map_while(|seq| version.commit(seq));
        let found = commits.filter_map(|commit| Some((commit, Key::read(commit)?)));
        let mut newest: Vec<_> = found.take(KEYS_MAX).collect();
        newest.reverse();
        let mut window = Window::default();
        for (commit, (key, made)) in newest {
            let (seq, conflicts) = (commit.seq(), commit.conflicts());
            window.keep(key.key, Kept { request: key.request, seq, made, conflicts });
        }
        Self(Arc::new(Mutex::new(window)))
    }

    fn window<T>(&self, act: impl FnOnce(&mut Window) -> T) -> T {
        // Each change of it is whole.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a key, or tells what became of the request that had it.
    pub(crate) fn begin(&self, key: Key, generation: u64) -> Result<First, Problem> {
        let kept = self.window(|window| match window.kept.get(&key.key) {
            Some(kept) => Ok(Some(*kept)),
            None if window.under_way.insert(key.key) => Ok(None),
            None => Err(Problem::new(
                409,
                "under-way",
                "The same request is under way",
                "a request with this `Idempotency-Key` is not answered yet; ask again in a moment",
            )),
        })?;
        let Some(Kept { request, seq, made, conflicts }) = kept else {
            return Ok(First::Yes(UnderWay { keys: self.clone(), key: key.key }));
        };
        if request != key.request {
            return Err(Problem::new(
                422,
                "key-reused",
                "The key belongs to another request",
                format!(
                    "commit {seq} has this `Idempotency-Key`, and was another request; draw a new key"
                ),
            ));
        }
        if conflicts > 0 {
            return Err(Problem::conflict(format!(
                "commit {seq} took effect under this `Idempotency-Key`; the {conflicts} conflicts that it decided are \
                 not kept: see /commits/{seq}"
            )));
        }
        let made = (0..made).map(|index| NodeId::new(seq, index).to_string()).collect();
        let token = format!("{generation}.{seq}");
        Ok(First::No(CommittedAnswer { seq, token, made, conflicts: Vec::new() }))
    }

    /// A request with a key took effect.
    pub(crate) fn keep(&self, key: Key, seq: u64, made: u32, conflicts: u32) {
        let kept = Kept { request: key.request, seq, made, conflicts };
        self.window(|window| window.keep(key.key, kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_keys_are_kept_and_one_under_way_is_told() {
        let keys = Keys::default();
        let key = |number: u32| Key { key: hash(&[&number.to_le_bytes()]), request: [1; 16] };
        let is_first = |number| matches!(keys.begin(key(number), 1), Ok(First::Yes(_)));
        let Ok(First::Yes(under_way)) = keys.begin(key(0), 1) else { panic!("it is new") };
        assert_eq!(keys.begin(key(0), 1).err().map(|problem| problem.status), Some(409));
        drop(under_way);
        assert!(is_first(0), "what took no effect may be asked again");
        for number in 0..=KEYS_MAX as u32 {
            keys.keep(key(number), u64::from(number) + 1, 2, 0);
        }
        assert!(is_first(0) && !is_first(1), "the oldest is gone");
        let Ok(First::No(answer)) = keys.begin(key(1), 7) else { panic!("it took effect") };
        assert_eq!((answer.seq, &*answer.token, answer.made.len()), (2, "7.2", 2));
        let other = Key { request: [2; 16], ..key(1) };
        assert_eq!(keys.begin(other, 1).err().map(|problem| problem.status), Some(422));
    }
}
