//! Notifications that their destinations did not take, kept in a file apart from the outbox: so the outbox
//! goes on. The file is a log of JSON lines, written anew when it is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Most notifications that are kept: beyond it they stay in the outbox, which then waits for them.
pub(crate) const KEPT_MAX: usize = 100_000;

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
    last: u64,
    file: Option<(PathBuf, File)>,
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
        let waiting = BTreeMap::new();
        let mut shelf = Shelf { all, waiting, last, file: None, stale: 0 };
        let numbers: Vec<u64> = shelf.all.keys().copied().collect();
        numbers.into_iter().for_each(|n| shelf.list(n));
        shelf
    }

    /// Lists one as waiting, or no more.
    fn list(&mut self, n: u64) {
        let Some(kept) = self.all.get(&n) else { return };
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
        (self.file, self.stale) = (Some((path, file)), 0);
        Ok(())
    }

    fn write(&mut self, lines: &[Line], durability: Durability) -> io::Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let mut text = Vec::new();
        lines.iter().for_each(|one| line(&mut text, one));
        file.write_all(&text)?;
        if durability == Durability::Disk {
            file.sync_data()?;
        }
        self.stale += lines.len();
        if self.stale > 2 * self.all.len() + 10_000 {
            let path = path.clone();
            self.rewrite(path)?;
        }
        Ok(())
    }

    /// Keeps the first of them for which there is room, durably; how many these are.
    pub(crate) fn keep(&mut self, kept: Vec<Kept>) -> io::Result<usize> {
        let room = KEPT_MAX.saturating_sub(self.all.len());
        let numbers = self.last + 1..;
        let numbered: Vec<(u64, Kept)> = numbers.zip(kept.into_iter().take(room)).collect();
        let lines = numbered.iter().map(|(n, kept)| Line::Keep(*n, kept.clone()));
        self.write(&lines.collect::<Vec<_>>(), Durability::Disk)?;
        self.last += numbered.len() as u64;
        let count = numbered.len();
        for (n, kept) in numbered {
            self.all.insert(n, kept);
            self.list(n);
        }
        Ok(count)
    }

    /// It was tried once more, and failed.
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
        let gone = self.all.remove(&n);
        if let Some(kept) = &gone {
            self.waiting.entry(kept.destination.clone()).or_default().remove(&n);
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

    /// The first of a destination after a number that is to be tried.
    pub(crate) fn next(&self, destination: &str, after: u64) -> Option<(u64, &Kept)> {
        let waiting = self.waiting.get(destination)?;
        let n = *waiting.range(after.saturating_add(1)..).next()?;
        Some((n, self.all.get(&n)?))
    }

    /// Those after a number, at most so many.
    pub(crate) fn part(&self, after: u64, limit: usize) -> Vec<(u64, Kept)> {
        let rest = self.all.range(after.saturating_add(1)..);
        rest.take(limit).map(|(n, kept)| (*n, kept.clone())).collect()
    }

    /// Those of a notification, by its stable name.
    pub(crate) fn of_key(&self, key: &str) -> impl Iterator<Item = &Kept> {
        self.all.values().filter(move |kept| kept.key == key)
    }

    /// The number of those that wait, and of the dead ones.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let waiting = self.waiting.values().map(BTreeSet::len).sum();
        (waiting, self.all.len() - waiting)
    }
}

fn line(to: &mut Vec<u8>, line: &Line) {
    serde_json::to_writer(&mut *to, line).expect("writing to memory does not fail");
    to.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::{Kept, Shelf};

    fn kept(destination: &str, key: &str) -> Kept {
        Kept {
            destination: destination.to_owned(),
            key: key.to_owned(),
            payload: "{}".to_owned(),
            since_ns: 1,
            attempts: 1,
            is_dead: false,
            cause: String::new(),
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
        assert_eq!(shelf.counts(), (1, 1));
        assert_eq!(shelf.next("hook", 0).map(|(n, kept)| (n, &*kept.key)), Some((3, "c")));
        assert!(shelf.next("other", 0).is_none());
        shelf.keep(vec![kept("hook", "d")]).unwrap();
        assert_eq!(shelf.revive(None, 2).unwrap(), 1);
        let shelf = Shelf::open(Some(&folder)).unwrap();
        assert_eq!(shelf.counts(), (3, 0));
        let keys: Vec<String> = shelf.part(0, 9).into_iter().map(|(_, kept)| kept.key).collect();
        assert_eq!(keys, ["a", "c", "d"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
