//! Notifications that their destinations did not take, kept in a file apart from the outbox: so the outbox
//! goes on. The file is a log of JSON lines, written anew when it is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{self, Gathering, User, Window};
use crate::ids::message_id;

/// Most notifications that are kept: beyond it they stay in the outbox, which then waits for them.
pub(crate) const KEPT_MAX: usize = 100_000;
/// Notifications that wait for digests; beyond it the oldest leave before their time.
const GATHERED_MAX: usize = KEPT_MAX / 2;

/// A notification that is kept for a destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) destination: String,
    /// The stable name of the notification.
    pub(crate) key: String,
    pub(crate) payload: String,
    /// When it was kept first \[ns since 1970\].
    pub(crate) since_ns: u64,
    pub(crate) attempts: u32,
    /// Nothing tries it any more before it is sent again by command.
    pub(crate) is_dead: bool,
    /// The cause of the last failure.
    pub(crate) cause: String,
    /// The user whose digest it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<User>,
    /// The names of the notifications in it, if it is a digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) members: Vec<String>,
}

/// The numbers of what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptCounts {
    /// Those that are tried again.
    pub(crate) waiting: usize,
    /// Those that are tried by command alone.
    pub(crate) dead: usize,
    /// Those that wait for a digest.
    pub(crate) gathered: usize,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Keep(u64, Kept),
    Gone(u64),
}

/// The moment at which a line counts as written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Disk,
    /// In the memory of the system: without it a notification comes once more.
    System,
}

/// The notifications that are kept, by number.
#[derive(Debug)]
pub(crate) struct Shelf {
    all: BTreeMap<u64, Kept>,
    /// Those that are to be tried, of each destination.
    waiting: BTreeMap<String, BTreeSet<u64>>,
    /// Those that wait for a digest, of each destination.
    gathering: BTreeMap<String, Gathering>,
    gathered: usize,
    /// Destination and name of each notification that waits for a digest or is in one.
    digested: BTreeSet<(String, String)>,
    last: u64,
    /// The file, and the bytes of its whole lines.
    file: Option<(PathBuf, File, u64)>,
    /// Lines of the file that say nothing any more.
    stale: usize,
}

impl Shelf {
    /// The shelf of a directory; without one it is in memory.
    pub(crate) fn open(directory: Option<&Path>) -> io::Result<Shelf> {
        let Some(directory) = directory else {
            return Ok(Shelf::of(BTreeMap::new()));
        };
        fs::create_dir_all(directory)?;
        let path = directory.join("undelivered.jsonl");
        let mut all = BTreeMap::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).split(b'\n') {
                // The last line may be torn by a crash: it was not told to anybody then.
                match serde_json::from_slice(&line?) {
                    Ok(Line::Keep(n, kept)) => _ = all.insert(n, kept),
                    Ok(Line::Gone(n)) => _ = all.remove(&n),
                    Err(_) => break,
                }
            }
        }
        let mut shelf = Shelf::of(all);
        shelf.rewrite(path)?;
        Ok(shelf)
    }

    fn of(all: BTreeMap<u64, Kept>) -> Shelf {
        let last = all.keys().next_back().copied().unwrap_or(0);
        let (waiting, gathering) = (BTreeMap::new(), BTreeMap::new());
        let (gathered, digested) = (0, BTreeSet::new());
        let (file, stale) = (None, 0);
        let mut shelf = Shelf { all, waiting, gathering, gathered, digested, last, file, stale };
        let numbers: Vec<u64> = shelf.all.keys().copied().collect();
        numbers.into_iter().for_each(|n| shelf.list(n));
        shelf
    }

    /// Lists one as waiting, or no more; or as one that waits for a digest.
    fn list(&mut self, n: u64) {
        let Some(kept) = self.all.get(&n) else { return };
        self.digested.extend(digested(kept));
        if let Some(user) = &kept.user {
            let gathering = self.gathering.entry(kept.destination.clone()).or_default();
            gathering.add(user, n, kept.since_ns);
            self.gathered += 1;
            return;
        }
        let waiting = self.waiting.entry(kept.destination.clone()).or_default();
        if kept.is_dead {
            waiting.remove(&n)
        } else {
            waiting.insert(n)
        };
    }

    /// Writes the file anew, with what is kept alone.
    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        let mut text = Vec::new();
        for (n, kept) in &self.all {
            line(&mut text, &Line::Keep(*n, kept.clone()));
        }
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        let file = OpenOptions::new().append(true).open(&path)?;
        (self.file, self.stale) = (Some((path, file, text.len() as u64)), 0);
        Ok(())
    }

    fn write(&mut self, lines: &[Line], durability: Durability) -> io::Result<()> {
        let Some((path, file, len)) = &mut self.file else { return Ok(()) };
        let mut text = Vec::new();
        lines.iter().for_each(|one| line(&mut text, one));
        // A part of these lines may be there, as on a disk that is full: behind it nothing would be read again.
        file.set_len(*len)?;
        file.write_all(&text)?;
        if durability == Durability::Disk {
            file.sync_data()?;
        }
        *len += text.len() as u64;
        self.stale += lines.len();
        if self.stale > 2 * self.all.len() + 10_000 {
            let path = path.clone();
            self.rewrite(path)?;
        }
        Ok(())
    }

    /// Keeps the first of them for which there is room, durably; how many these are. One that comes again from the
    /// outbox while it waits for a digest is kept already.
    pub(crate) fn keep(&mut self, kept: Vec<Kept>) -> io::Result<usize> {
        let (mut count, mut numbered) = (0, Vec::new());
        let mut fresh = BTreeSet::new();
        for one in kept {
            let name = (one.destination.clone(), one.key.clone());
            let is_known = self.digested.contains(&name) || !fresh.insert(name);
            if one.user.is_none() || !is_known {
                if self.all.len() + numbered.len() >= KEPT_MAX {
                    break;
                }
                numbered.push((self.last + 1 + numbered.len() as u64, one));
            }
            count += 1;
        }
        if numbered.is_empty() {
            return Ok(count);
        }
        let lines = numbered.iter().map(|(n, kept)| Line::Keep(*n, kept.clone()));
        self.write(&lines.collect::<Vec<_>>(), Durability::Disk)?;
        self.last += numbered.len() as u64;
        for (n, kept) in numbered {
            self.all.insert(n, kept);
            self.list(n);
        }
        Ok(count)
    }

    /// It was tried once more, and failed; `is_dead` if nothing tries it any more.
    pub(crate) fn failed(&mut self, n: u64, cause: &str, is_dead: bool) -> io::Result<()> {
        let Some(kept) = self.all.get_mut(&n) else { return Ok(()) };
        kept.attempts += 1;
        cause.clone_into(&mut kept.cause);
        // An attempt more or less does not matter; that it is over does.
        if is_dead {
            kept.is_dead = true;
            let kept = kept.clone();
            self.list(n);
            self.write(&[Line::Keep(n, kept)], Durability::System)?;
        }
        Ok(())
    }

    /// It has arrived; false if it was not there. After a loss of power it may arrive once more.
    pub(crate) fn remove(&mut self, n: u64) -> io::Result<bool> {
        let gone = self.forget(n);
        if gone.is_some() {
            self.write(&[Line::Gone(n)], Durability::System)?;
        }
        Ok(gone.is_some())
    }

    /// The dead ones of these numbers, or all of them, are tried again; how many these are.
    pub(crate) fn revive(&mut self, numbers: Option<&[u64]>, now_ns: u64) -> io::Result<u64> {
        let wanted = |n: &u64| numbers.is_none_or(|numbers| numbers.contains(n));
        let mut lines = Vec::new();
        for (n, kept) in self.all.iter_mut().filter(|(n, kept)| kept.is_dead && wanted(n)) {
            (kept.is_dead, kept.since_ns) = (false, now_ns);
            lines.push(Line::Keep(*n, kept.clone()));
        }
        let revived = lines.iter().map(|line| match line {
            Line::Keep(n, _) | Line::Gone(n) => *n,
        });
        revived.collect::<Vec<_>>().into_iter().for_each(|n| self.list(n));
        self.write(&lines, Durability::Disk)?;
        Ok(lines.len() as u64)
    }

    /// Makes digests of a destination that are due, at most so many: in place of its notifications each is kept,
    /// and tried like others. How many these are.
    pub(crate) fn digest(
        &mut self,
        destination: &str,
        window: Window,
        now_ns: u64,
        most: usize,
    ) -> io::Result<usize> {
        let (mut lines, mut digests, mut members) = (Vec::new(), Vec::new(), Vec::new());
        while digests.len() < most {
            // Others need room, too.
            let is_full = self.gathered > GATHERED_MAX;
            let due = self.gathering.get(destination);
            let Some((user, numbers)) = due.and_then(|it| it.due(window, now_ns, is_full)) else {
                break;
            };
            let n = self.last + 1 + digests.len() as u64;
            let digest = self.digest_of(destination, &user, &numbers, now_ns);
            // A crash within these lines may leave notifications beside their digest: they come twice then.
            lines.push(Line::Keep(n, digest.clone()));
            for n in numbers {
                lines.push(Line::Gone(n));
                members.extend(self.forget(n).map(|kept| (n, kept)));
            }
            digests.push((n, digest));
        }
        if digests.is_empty() {
            return Ok(0);
        }
        let written = self.write(&lines, Durability::Disk);
        let (count, now_kept) = match &written {
            Ok(()) => (digests.len(), digests),
            Err(_) => (0, members),
        };
        self.last += count as u64;
        for (n, kept) in now_kept {
            self.all.insert(n, kept);
            self.list(n);
        }
        written.map(|()| count)
    }

    fn digest_of(&self, destination: &str, user: &User, numbers: &[u64], now_ns: u64) -> Kept {
        let members: Vec<&Kept> = numbers.iter().map(|n| &self.all[n]).collect();
        let keys: Vec<&str> = members.iter().map(|kept| &*kept.key).collect();
        let pairs = members.iter().map(|kept| (&*kept.key, &*kept.payload));
        Kept {
            destination: destination.to_owned(),
            key: format!("digest-{:032x}", message_id(&keys).0),
            payload: digest::content(user, pairs),
            since_ns: now_ns,
            attempts: 0,
            is_dead: false,
            cause: "it was not tried yet".to_owned(),
            user: None,
            members: keys.into_iter().map(str::to_owned).collect(),
        }
    }

    /// A destination makes no digests any more: what waits for one is tried by itself.
    pub(crate) fn release(&mut self, destination: &str) {
        let Some(gathering) = self.gathering.remove(destination) else { return };
        let numbers: Vec<u64> = gathering.all().collect();
        self.gathered -= numbers.len();
        for n in numbers {
            if let Some(kept) = self.all.get_mut(&n) {
                self.digested.remove(&(kept.destination.clone(), kept.key.clone()));
                kept.user = None;
            }
            self.list(n);
        }
    }

    /// It is not kept any more; as it was.
    fn forget(&mut self, n: u64) -> Option<Kept> {
        let kept = self.all.remove(&n)?;
        digested(&kept).for_each(|name| _ = self.digested.remove(&name));
        match &kept.user {
            Some(user) => {
                self.gathered -= 1;
                if let Some(gathering) = self.gathering.get_mut(&kept.destination) {
                    gathering.remove(user, n);
                }
            }
            None => {
                self.waiting.entry(kept.destination.clone()).or_default().remove(&n);
            }
        }
        Some(kept)
    }

    /// The first of a destination after a number that is to be tried.
    pub(crate) fn next(&self, destination: &str, after: u64) -> Option<(u64, &Kept)> {
        let waiting = self.waiting.get(destination)?;
        let n = *waiting.range(after.saturating_add(1)..).next()?;
        Some((n, self.all.get(&n)?))
    }

    /// Those after a number that were not taken, at most so many.
    pub(crate) fn part(&self, after: u64, limit: usize) -> Vec<(u64, Kept)> {
        let rest = self.all.range(after.saturating_add(1)..);
        rest.filter(|(_, kept)| kept.user.is_none())
            .take(limit)
            .map(|(n, kept)| (*n, kept.clone()))
            .collect()
    }

    /// Lines of a file as this one, of those after a number, at most so many; the last number. What goes from one
    /// place to another meanwhile goes behind, into a digest: whoever reads on loses none.
    pub(crate) fn lines(&self, after: u64, limit: usize) -> (Vec<u8>, Option<u64>) {
        let (mut lines, mut last) = (Vec::new(), None);
        for (&n, kept) in self.all.range(after.saturating_add(1)..).take(limit) {
            line(&mut lines, &Line::Keep(n, kept.clone()));
            last = Some(n);
        }
        (lines, last)
    }

    /// Those of a notification, by its stable name, also within a digest.
    pub(crate) fn of_key(&self, key: &str) -> impl Iterator<Item = &Kept> {
        let has = move |kept: &&Kept| kept.key == key || kept.members.iter().any(|it| it == key);
        self.all.values().filter(has)
    }

    /// The numbers of what is kept for each destination.
    pub(crate) fn of_destinations(&self) -> BTreeMap<String, KeptCounts> {
        let mut of: BTreeMap<String, KeptCounts> = BTreeMap::new();
        for kept in self.all.values() {
            if !of.contains_key(&kept.destination) {
                of.insert(kept.destination.clone(), KeptCounts::default());
            }
            let Some(counts) = of.get_mut(&kept.destination) else { continue };
            match (&kept.user, kept.is_dead) {
                (Some(_), _) => counts.gathered += 1,
                (None, true) => counts.dead += 1,
                (None, false) => counts.waiting += 1,
            }
        }
        of
    }

    /// The numbers of what is kept.
    pub(crate) fn counts(&self) -> KeptCounts {
        let waiting = self.waiting.values().map(BTreeSet::len).sum();
        let gathered = self.gathered;
        KeptCounts { waiting, dead: self.all.len() - waiting - gathered, gathered }
    }
}

/// Destination and name of each notification that it gathers.
fn digested(kept: &Kept) -> impl Iterator<Item = (String, String)> {
    let own = kept.user.is_some().then_some(&kept.key);
    own.into_iter().chain(&kept.members).map(|key| (kept.destination.clone(), key.clone()))
}

fn line(to: &mut Vec<u8>, line: &Line) {
    serde_json::to_writer(&mut *to, line).expect("writing to memory does not fail");
    to.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use std::time::Duration;

    use super::{GATHERED_MAX, Kept, KeptCounts, Shelf};
    use crate::digest::{User, Window};

    fn counts(waiting: usize, dead: usize, gathered: usize) -> KeptCounts {
        KeptCounts { waiting, dead, gathered }
    }

    fn kept(destination: &str, key: &str) -> Kept {
        Kept {
            destination: destination.to_owned(),
            key: key.to_owned(),
            payload: "{}".to_owned(),
            since_ns: 1,
            attempts: 1,
            is_dead: false,
            cause: String::new(),
            user: None,
            members: Vec::new(),
        }
    }

    /// The last line of a crash is torn; all before it are there, and what comes after the start is, too.
    #[test]
    fn what_was_kept_is_there_after_a_crash() {
        let folder = std::env::temp_dir().join(format!("agents-shelf-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        let mut shelf = Shelf::open(Some(&folder)).unwrap();
        let three = ["a", "b", "c"].map(|key| kept("hook", key));
        assert_eq!(shelf.keep(three.to_vec()).unwrap(), 3);
        assert!(shelf.remove(2).unwrap() && !shelf.remove(2).unwrap());
        shelf.failed(1, "down", true).unwrap();
        drop(shelf);
        let path = folder.join("undelivered.jsonl");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"Keep\":[4,{\"dest").unwrap();
        let mut shelf = Shelf::open(Some(&folder)).unwrap();
        assert_eq!(shelf.counts(), counts(1, 1, 0));
        assert_eq!(shelf.next("hook", 0).map(|(n, kept)| (n, &*kept.key)), Some((3, "c")));
        assert!(shelf.next("other", 0).is_none());
        shelf.keep(vec![kept("hook", "d")]).unwrap();
        assert_eq!(shelf.revive(None, 2).unwrap(), 1);
        let shelf = Shelf::open(Some(&folder)).unwrap();
        assert_eq!(shelf.counts(), counts(3, 0, 0));
        let keys: Vec<String> = shelf.part(0, 9).into_iter().map(|(_, kept)| kept.key).collect();
        assert_eq!(keys, ["a", "c", "d"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The story: a disk that was full had taken a part of a line, and what was written behind it when there was room
    /// again was not read at the next start.
    #[test]
    fn what_is_kept_after_a_write_that_was_torn_is_read_again() {
        let folder = std::env::temp_dir().join(format!("agents-torn-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        let mut shelf = Shelf::open(Some(&folder)).unwrap();
        shelf.keep(vec![kept("hook", "a")]).unwrap();
        let path = folder.join("undelivered.jsonl");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"Keep\":[2,{\"dest").unwrap();
        shelf.keep(vec![kept("hook", "b")]).unwrap();
        let shelf = Shelf::open(Some(&folder)).unwrap();
        let keys: Vec<String> = shelf.part(0, 9).into_iter().map(|(_, kept)| kept.key).collect();
        assert_eq!(keys, ["a", "b"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    fn gathered(key: &str, user: &str) -> Kept {
        let user = User { by: "agent".to_owned(), name: user.to_owned() };
        Kept { user: Some(user), attempts: 0, ..kept("mail", key) }
    }

    const WINDOW: Window = Window { every: Duration::from_nanos(10), count: 3 };

    /// A digest is durable in place of its notifications; after a crash at any byte of the file each of them is
    /// there, by itself or in a digest.
    #[test]
    fn a_digest_loses_nothing_at_whatever_byte_a_crash_comes() {
        let folder = std::env::temp_dir().join(format!("agents-digest-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        let mut shelf = Shelf::open(Some(&folder)).unwrap();
        let five = ["a", "b", "c", "d"].map(|key| gathered(key, "ann"));
        shelf.keep([&five[..], &[gathered("e", "bob")]].concat()).unwrap();
        let path = folder.join("undelivered.jsonl");
        let before = fs::read(&path).unwrap();
        assert_eq!(shelf.counts(), counts(0, 0, 5));
        assert!(shelf.next("mail", 0).is_none() && shelf.part(0, 9).is_empty(), "not yet");
        assert_eq!(shelf.digest("mail", WINDOW, 2, 9).unwrap(), 1, "three of one user are enough");
        assert_eq!(shelf.counts(), counts(1, 0, 2));
        let (n, digest) = shelf.next("mail", 0).map(|(n, kept)| (n, kept.clone())).unwrap();
        assert_eq!((n, &digest.members[..]), (6, &["a", "b", "c"].map(str::to_owned)[..]));
        assert_eq!(shelf.digest("mail", WINDOW, 10, 9).unwrap(), 0, "one is not, before its time");
        let after = fs::read(&path).unwrap();
        assert!(after.starts_with(&before) && after.len() > before.len());
        for end in before.len()..=after.len() {
            fs::write(&path, &after[..end]).unwrap();
            let shelf = Shelf::open(Some(&folder)).unwrap();
            let mut found: Vec<&str> = Vec::new();
            for key in ["a", "b", "c", "d", "e"] {
                assert!(shelf.of_key(key).count() >= 1, "{key} is lost at byte {end}");
                found.extend(shelf.of_key(key).map(|kept| &*kept.key));
            }
            // Once the digest is there it has the same name.
            assert!(found.iter().all(|key| key.len() == 1 || *key == digest.key), "{found:?}");
        }
        let mut shelf = Shelf::open(Some(&folder)).unwrap();
        assert_eq!(shelf.counts(), counts(1, 0, 2));
        assert_eq!(shelf.digest("mail", WINDOW, 11, 9).unwrap(), 2);
        assert_eq!(shelf.counts(), counts(3, 0, 0));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_waits_for_a_digest_leaves_by_itself_where_there_are_none_any_more() {
        let mut shelf = Shelf::open(None).unwrap();
        shelf.keep(vec![gathered("a", "ann"), gathered("b", "bob")]).unwrap();
        shelf.release("mail");
        assert_eq!(shelf.counts(), counts(2, 0, 0));
        assert_eq!(shelf.next("mail", 1).map(|(n, kept)| (n, &*kept.key)), Some((2, "b")));
        assert!(shelf.remove(1).unwrap());
    }

    /// The story: after a restart the outbox has what was gathered just before it, and a digest had it twice.
    #[test]
    fn what_comes_again_while_it_waits_for_a_digest_is_in_it_once() {
        let mut shelf = Shelf::open(None).unwrap();
        let two = vec![gathered("a", "ann"), gathered("a", "ann")];
        assert_eq!(shelf.keep(two).unwrap(), 2, "both are done");
        assert_eq!(shelf.keep(vec![gathered("a", "ann"), gathered("b", "ann")]).unwrap(), 2);
        assert_eq!(shelf.counts(), counts(0, 0, 2));
        assert_eq!(shelf.digest("mail", WINDOW, 20, 9).unwrap(), 1);
        assert_eq!(shelf.keep(vec![gathered("b", "ann")]).unwrap(), 1);
        assert_eq!(shelf.counts(), counts(1, 0, 0));
        let (n, digest) = shelf.next("mail", 0).unwrap();
        assert_eq!(digest.members, ["a", "b"]);
        // Once it has arrived, it is a notification as any other that comes again.
        shelf.remove(n).unwrap();
        assert_eq!(shelf.keep(vec![gathered("b", "ann")]).unwrap(), 1);
        assert_eq!(shelf.counts(), counts(0, 0, 1));
    }

    /// Digests leave half of the room to others.
    #[test]
    fn a_digest_leaves_before_its_time_where_there_is_no_room() {
        let mut shelf = Shelf::open(None).unwrap();
        let all = (0..=GATHERED_MAX).map(|n| gathered(&n.to_string(), &n.to_string()));
        shelf.keep(all.collect()).unwrap();
        assert_eq!(shelf.digest("mail", WINDOW, 2, 9).unwrap(), 1);
        assert_eq!(shelf.counts(), counts(1, 0, GATHERED_MAX));
    }
}
