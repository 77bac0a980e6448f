//! The past is bounded by itself: versions thin with age, commits are forgotten at last, and every answer says
//! what it could not see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::commit::{Change, Commit, Commits, Timestamp};
use crate::node::{Node, NodeId};
use crate::version::Version;

/// The commits that changed a node or one below it, newest first.
#[derive(Debug)]
pub struct Log<'a> {
    version: &'a Version,
    tree: NodeId,
    node: NodeId,
    /// The commits to come, and whether each lies on the tree's own line or on that of a merged branch alone.
    ahead: BTreeMap<u64, Line>,
    forgotten: Option<u64>,
}

/// A commit of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogEntry<'a> {
    /// The commit.
    pub commit: &'a Commit,
    /// The changes of the node itself; none if only nodes below it changed, or if the commit made it.
    pub changes: &'a [Change],
    /// Tells whether the commit made the node.
    pub made: bool,
    /// Tells whether the commit merged changes that have commits of their own.
    pub merged: bool,
    line: Line,
}

/// The way on which a log comes to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Merged,
    Own,
}

/// A tree and the trees that it was branched from, with the commits from which on they are it: newest first.
struct Lineage(Vec<(u64, NodeId)>);

impl Lineage {
    fn of(version: &Version, tree: NodeId) -> Self {
        let mut line = Vec::new();
        let mut at = Some(tree);
        while let Some(id) = at {
            line.push((id.commit().unwrap_or(0), id));
            let tree = version.trees.iter().find(|pair| pair.value.id == id);
            at = tree.and_then(|pair| pair.value.fork.as_ref()).map(|fork| fork.origin);
        }
        Self(line)
    }

    /// The tree whose commits are those of the line at a moment; `None` if that tree is gone.
    fn tree_at(&self, seq: u64) -> Option<NodeId> {
        self.0.iter().find(|(since, _)| *since <= seq).map(|(_, tree)| *tree)
    }
}

impl<'a> Log<'a> {
    pub(crate) fn of(version: &'a Version, tree: NodeId, node: &Node) -> Self {
        let ahead = BTreeMap::from([(node.changed, Line::Own)]);
        Self { version, tree, node: node.id, ahead, forgotten: None }
    }

    fn go_on(&mut self, seq: u64, line: Line) {
        let known = self.ahead.entry(seq).or_insert(line);
        *known = line.max(*known);
    }

    /// Finds the commit from which a node that came back at `seq` goes on: its deletion, or the last change of
    /// one that was deleted with its parent. Time is by the commits between.
    fn before_return(&mut self, seq: u64, own: Line) {
        let made = self.node.commit().unwrap_or(0);
        let line = Lineage::of(self.version, self.tree);
        for before in (made.max(1)..seq).rev() {
            let Some(commit) = self.version.commit(before) else {
                self.forgotten = self.forgotten.max(Some(before));
                return;
            };
            let touched = line.tree_at(before).map_or_else(
                || commit.touch(self.tree, self.node).is_some(),
                |tree| commit.touch_of(tree, self.node).is_some(),
            );
            if touched || before == made {
                self.go_on(before, own);
                return;
            }
        }
    }

    /// The newest commit of the log that was forgotten, once the iterator has ended; the log is whole
    /// without one.
    pub fn forgotten(&self) -> Option<u64> {
        self.forgotten
    }
}

impl<'a> Iterator for Log<'a> {
    type Item = LogEntry<'a>;

    fn next(&mut self) -> Option<LogEntry<'a>> {
        loop {
            let (seq, line) = self.ahead.pop_last()?;
            let Some(commit) = self.version.commit(seq) else {
                self.forgotten = self.forgotten.max(Some(seq));
                continue;
            };
            let Some(touch) = commit.touch(self.tree, self.node) else {
                return Some(LogEntry { commit, changes: &[], made: true, merged: false, line });
            };
            let merged = !touch.merged.is_empty();
            let branches = touch.merged.iter().map(|before| (*before, Line::Merged));
            for (before, line) in branches.chain([(touch.previous, line)]) {
                // A log goes back in time only, whatever a file says.
                if (1..seq).contains(&before) {
                    self.go_on(before, line);
                }
            }
            if touch.previous == 0 && !merged && touch.changes.contains(&Change::Returned) {
                self.before_return(seq, line);
            }
            return Some(LogEntry { commit, changes: &touch.changes, made: false, merged, line });
        }
    }
}

/// The commits that answer for a node as it is.
#[derive(Debug, Default)]
pub struct Blame<'a> {
    /// The commit that made the node; `None` if it was forgotten.
    pub made: Option<&'a Commit>,
    /// The newest commit that moved it, if any is remembered.
    pub moved: Option<&'a Commit>,
    /// For each attribute the commit that set it; `None` if that was forgotten.
    pub attributes: BTreeMap<String, Option<&'a Commit>>,
    /// The newest forgotten commit that may have changed it.
    pub forgotten: Option<u64>,
}

impl<'a> Blame<'a> {
    pub(crate) fn of(version: &'a Version, tree: NodeId, node: &Node) -> Self {
        let mut open: BTreeSet<String> = node.attributes().map(|(n, _)| n.to_owned()).collect();
        let mut blame = Self::default();
        // A merge answers for a value only if no commit of a branch does: the commit did more than merge, or that
        // on the branch was forgotten. What the own line did before it, it has replaced.
        let mut by_merge: BTreeMap<String, &Commit> = BTreeMap::new();
        let mut moved_by_merge = None;
        let mut log = Log::of(version, tree, node);
        for entry in log.by_ref() {
            for change in entry.changes {
                match change {
                    Change::Put(name) if entry.merged && open.contains(&**name) => {
                        by_merge.entry(name.to_string()).or_insert(entry.commit);
                    }
                    Change::Put(name)
                        if entry.line == Line::Own && by_merge.contains_key(&**name) => {}
                    Change::Put(name) if open.remove(&**name) => {
                        blame.attributes.insert(name.to_string(), Some(entry.commit));
                    }
                    Change::Moved if entry.merged => {
                        moved_by_merge = moved_by_merge.or(Some(entry.commit));
                    }
                    Change::Moved if entry.line == Line::Merged || moved_by_merge.is_none() => {
                        blame.moved = blame.moved.or(Some(entry.commit));
                    }
                    // It came back with the attributes that it has since.
                    Change::Returned if !entry.merged => {
                        for name in std::mem::take(&mut open) {
                            blame.attributes.insert(name, Some(entry.commit));
                        }
                    }
                    _ => {}
                }
            }
            if entry.made {
                blame.made = Some(entry.commit);
            }
        }
        blame.moved = blame.moved.or(moved_by_merge);
        for name in open {
            let commit = by_merge.get(&name).copied().or(blame.made);
            blame.attributes.insert(name, commit);
        }
        blame.made = blame.made.or_else(|| version.commit(node.id.commit()?));
        blame.forgotten = log.forgotten();
        blame
    }
}

/// The versions that a database keeps, and how they thin with age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thinning {
    /// The newest versions, all of which are kept.
    pub newest: usize,
    /// The time for which all versions are kept \[us\].
    pub all_for: u64,
    /// The time for which one version a minute is kept \[us\]; beyond it, one a day.
    pub minutes_for: u64,
    /// The most versions in all, of which the oldest go first.
    pub versions: usize,
}

const MINUTE: u64 = 60_000_000;
const DAY: u64 = 24 * 60 * MINUTE;

impl Default for Thinning {
    /// The last 1,000 and all of ten minutes, one a minute for a day, one a day, at most 10,000.
    fn default() -> Self {
        Self { newest: 1_000, all_for: 10 * MINUTE, minutes_for: DAY, versions: 10_000 }
    }
}

/// Versions by commit. Those that are given up are handed over, so that a caller can free them where nobody waits.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    kept: BTreeMap<u64, Arc<Version>>,
    /// Versions that somebody needs, by name: tags and leases of readers.
    holds: BTreeMap<String, u64>,
    freed: u64,
    /// The versions from here on have been kept as they came, not thinned yet.
    fresh: u64,
    fresh_count: usize,
    /// The oldest commit that was remembered when all versions were last freed of those forgotten.
    oldest_commit: u64,
    thinning: Thinning,
    #[cfg(test)]
    pub(crate) planted: Option<crate::Planted>,
}

impl Versions {
    pub(crate) fn new(thinning: Thinning) -> Self {
        Self { thinning, ..Self::default() }
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Version> {
        self.kept.get(&seq).map(|version| &**version)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.kept.keys().copied()
    }

    pub(crate) fn freed(&self) -> u64 {
        self.freed
    }

    /// Keeps a version under a name until it is let go; false if the version is gone.
    pub(crate) fn hold(&mut self, name: &str, seq: u64) -> bool {
        let there = self.kept.contains_key(&seq);
        if there {
            self.holds.insert(name.to_owned(), seq);
        }
        there
    }

    pub(crate) fn let_go(&mut self, name: &str) -> bool {
        self.holds.remove(name).is_some()
    }

    /// Adds the newest version; those that go.
    pub(crate) fn add(&mut self, version: Arc<Version>) -> Vec<Arc<Version>> {
        let (now, commits) = (version.time, version.commits.clone());
        self.kept.insert(version.seq, version);
        self.fresh_count += 1;
        let mut gone = self.thin(now);
        if commits.oldest() - self.oldest_commit.min(commits.oldest()) > (commits.len() / 8).max(32)
        {
            self.oldest_commit = commits.oldest();
            self.forget(&commits, &mut gone);
        }
        gone
    }

    /// Versions hold no commits that the newest has forgotten: each would keep its whole past. Done whenever an eighth
    /// has gone, so that all of them together hold at most an eighth more than is remembered.
    fn forget(&mut self, commits: &Commits, gone: &mut Vec<Arc<Version>>) {
        for version in self.kept.values_mut() {
            if version.commits.oldest() < commits.oldest() {
                let commits = commits.up_to(version.seq);
                let bare = Version { commits, ..Version::clone(version) };
                gone.push(std::mem::replace(version, Arc::new(bare)));
            }
        }
    }

    /// Only what left the fresh range since the last call is looked at: a version is decided on twice in its
    /// life, when it stops being fresh and when days follow minutes.
    fn thin(&mut self, now: Timestamp) -> Vec<Arc<Version>> {
        let mut gone = Vec::new();
        let fresh = self.fresh;
        while self.fresh_count > self.thinning.newest {
            let (seq, version) = self.kept.range(self.fresh..).next().expect("they were counted");
            let (seq, time) = (*seq, version.time);
            if now.0.saturating_sub(time.0) < self.thinning.all_for {
                break;
            }
            self.fresh = seq + 1;
            self.fresh_count -= 1;
            let before = self.kept.range(..seq).next_back().map(|(_, version)| version.time);
            let same = |before: Timestamp| before.0 / MINUTE == time.0 / MINUTE;
            if before.is_some_and(same) && !self.is_held(seq) {
                gone.extend(self.kept.remove(&seq));
            }
        }
        if fresh != self.fresh {
            self.days(now, &mut gone);
        }
        while self.kept.len() > self.thinning.versions.max(1) {
            let newest = *self.kept.keys().next_back().expect("there are several");
            let free =
                self.kept.keys().find(|seq| !self.is_held(**seq) && **seq != newest).copied();
            let Some(seq) = free else { break };
            self.fresh_count -= usize::from(seq >= self.fresh);
            gone.extend(self.kept.remove(&seq));
        }
        self.freed += gone.len() as u64;
        gone
    }

    /// Of the oldest versions one a day stays.
    fn days(&mut self, now: Timestamp, gone: &mut Vec<Arc<Version>>) {
        let mut day = None;
        let mut drop = Vec::new();
        for (seq, version) in self.kept.range(..self.fresh) {
            if now.0.saturating_sub(version.time.0) < self.thinning.minutes_for {
                break;
            }
            if day == Some(version.time.0 / DAY) && !self.is_held(*seq) {
                drop.push(*seq);
            }
            day = Some(version.time.0 / DAY);
        }
        gone.extend(drop.iter().filter_map(|seq| self.kept.remove(seq)));
    }

    fn is_held(&self, seq: u64) -> bool {
        #[cfg(test)]
        if self.planted == Some(crate::Planted::HeldVersionFreed) {
            return false;
        }
        self.holds.values().any(|held| *held == seq)
    }
}
