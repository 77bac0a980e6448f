//! Clients, a sequencer, a log, a disk, and the oracles that watch them.

use std::collections::{BTreeMap, BTreeSet};

use super::chance::Chance;
use super::disk::SimulatedDisk;
use super::linearizable::{self, Event};
use crate::blob::{BLOB, BlobError, BlobRef, BlobWriter};
use crate::log::{Log, LogError, SegmentLog};
use crate::sequencer::{self, CommitError, Group, Sequencer, SequencerSettings, Settings};
use crate::{
    Database, Durability, LogSettings, Node, NodeId, Operation, Planted, Policy, Retention,
    Thinning, Timestamp, Transaction, Version,
};

/// The lists that clients append to, each the children of one node.
const LISTS: usize = 3;
const STEPS: usize = 260;

/// The faults of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) durability: Durability,
    /// A crash after so many operations.
    pub(super) crash_at: Option<u64>,
    pub(super) crashes: bool,
    pub(super) flips: bool,
    pub(super) failed_syncs: bool,
    pub(super) full_disks: bool,
}

impl Faults {
    /// A crash, if one is asked for, and nothing else.
    pub(super) fn none() -> Self {
        Self {
            durability: Durability::Sync,
            crash_at: None,
            crashes: false,
            flips: false,
            failed_syncs: false,
            full_disks: false,
        }
    }

    /// The faults that a seed has.
    pub(super) fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0xfa17);
        let durability = match chance.below(100) {
            0..25 => Durability::Interval,
            25..40 => Durability::None,
            _ => Durability::Sync,
        };
        Self {
            durability,
            crash_at: None,
            crashes: chance.percent(90),
            flips: chance.percent(40),
            failed_syncs: chance.percent(40),
            full_disks: chance.percent(40),
        }
    }
}

/// What happened in a run, so that a simulator that has gone blunt is seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) acknowledged: u64,
    pub(super) rejected: u64,
    pub(super) unknown: u64,
    pub(super) no_room: u64,
    pub(super) reads: u64,
    pub(super) crashes: u64,
    pub(super) kills: u64,
    pub(super) torn: u64,
    pub(super) damaged: u64,
    pub(super) snapshots: u64,
    pub(super) from_snapshot: u64,
    pub(super) ticks: u64,
    pub(super) blobs: u64,
    pub(super) blobs_freed: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.rejected += other.rejected;
        self.unknown += other.unknown;
        self.no_room += other.no_room;
        self.reads += other.reads;
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.torn += other.torn;
        self.damaged += other.damaged;
        self.snapshots += other.snapshots;
        self.from_snapshot += other.from_snapshot;
        self.ticks += other.ticks;
        self.blobs += other.blobs;
        self.blobs_freed += other.blobs_freed;
    }
}

/// An append of a client that waits for its answer.
#[derive(Clone, Debug)]
enum Wish {
    Append { list: usize, value: u64, start: u64 },
    Increment,
    Tick,
    Other,
}

pub(super) struct World {
    chance: Chance,
    faults: Faults,
    settings: Settings,
    disk: SimulatedDisk,
    /// `None` while the machine is down.
    running: Option<(Sequencer, SegmentLog<SimulatedDisk>)>,
    in_flight: Option<Group>,
    time: u64,
    ticket: u64,
    wishes: BTreeMap<u64, Wish>,
    histories: Vec<Vec<Event>>,
    /// All entries that were handed to the log, by number.
    journal: BTreeMap<u64, Vec<u8>>,
    /// The newest commit that was acknowledged, that a reader saw, and that was synced.
    acknowledged: u64,
    seen: u64,
    synced: u64,
    /// The epoch of the log that ran last.
    epoch: u32,
    increments: (u64, u64),
    held: BTreeMap<String, (u64, [u8; 32])>,
    /// A blob that is stored and that no commit names yet.
    stored: Option<BlobRef>,
    blobs: u64,
    totals: Totals,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults, planted: Option<Planted>) -> Self {
        let log = LogSettings { durability: faults.durability, segment_bytes: 6_000, planted };
        let sequencer = SequencerSettings { queue: 30, group: 6, group_bytes: 4_000 };
        let thinning = Thinning { newest: 4, all_for: 0, minutes_for: 0, versions: 6 };
        Self {
            chance: Chance::new(seed),
            faults,
            settings: Settings { log, sequencer, retention: Retention::default(), thinning },
            disk: SimulatedDisk::new(seed),
            running: None,
            in_flight: None,
            time: 0,
            ticket: 0,
            wishes: BTreeMap::new(),
            histories: vec![Vec::new(); LISTS],
            journal: BTreeMap::new(),
            acknowledged: 0,
            seen: 0,
            synced: 0,
            epoch: 0,
            increments: (0, 0),
            held: BTreeMap::new(),
            stored: None,
            blobs: 0,
            totals: Totals::default(),
        }
    }

    /// Runs the world; the first oracle that fails.
    pub(super) fn run(mut self) -> Result<Totals, String> {
        self.start()?;
        let operations = self.disk.operations();
        self.disk.crash_at(self.faults.crash_at.map(|after| operations + after));
        let steps = if self.faults.crash_at.is_some() { STEPS / 2 } else { STEPS };
        for _ in 0..steps {
            self.time += 1;
            self.step()?;
            if self.disk.is_down() {
                self.crash()?;
            }
        }
        // A last crash, and whatever happened before, the database goes on.
        if self.faults.crashes {
            self.crash()?;
        }
        self.floor()?;
        for history in &self.histories {
            linearizable::check(history)?;
        }
        Ok(self.totals)
    }

    fn step(&mut self) -> Result<(), String> {
        match self.chance.below(100) {
            0..=24 => self.append(),
            25..=28 => self.blob(),
            29 => self.free()?,
            30..=37 => self.increment(),
            38..=44 => self.other(),
            45..=56 => self.read()?,
            57..=59 => self.tick(),
            60..=89 => self.log()?,
            90..=92 => self.sync()?,
            93 | 94 => self.snapshot()?,
            95 => self.hold()?,
            96 if self.faults.failed_syncs => self.disk.fail_sync_in(self.chance.next() % 3),
            97 if self.faults.full_disks => {
                let room =
                    if self.chance.percent(50) { self.chance.next() % 7_000 } else { u64::MAX };
                self.disk.room(room);
            }
            98 if self.faults.crashes => {
                let operations = self.disk.operations() + self.chance.next() % 8;
                self.disk.crash_at(Some(operations));
            }
            99 if self.faults.crashes && self.chance.percent(30) => self.crash()?,
            _ => {}
        }
        Ok(())
    }

    fn submit(&mut self, mut transaction: Transaction, wish: Wish) {
        let Some((sequencer, _)) = &mut self.running else { return };
        self.ticket += 1;
        transaction.time = Timestamp(self.time);
        match sequencer.submit(self.ticket, transaction) {
            Ok(()) => drop(self.wishes.insert(self.ticket, wish)),
            // Nothing happened, whatever the reason: the wish was never queued.
            Err(_) => {
                if let Wish::Append { list, value, .. } = wish {
                    self.histories[list].push(Event::Refused { value });
                }
            }
        }
    }

    fn version(&self) -> Option<std::sync::Arc<Version>> {
        self.running.as_ref().map(|(sequencer, _)| sequencer.reader().version())
    }

    /// Appends to a list, in a version that was read before: side by side with others.
    fn append(&mut self) {
        let Some(version) = self.version() else { return };
        let list = self.chance.below(LISTS);
        let (value, start) = (self.ticket + 1, self.time);
        let text = value.to_string();
        let size = *self.chance.pick(&[0, 0, 100, 700, 2_000]);
        let filler = vec![0; size];
        let attributes = [("v", text.as_bytes()), ("filler", &filler[..])];
        let parent = list_of(&version, list).id();
        let transaction = Transaction::append("lists", parent, attributes);
        self.submit(transaction, Wish::Append { list, value, start });
    }

    /// Adds one to a counter, by compare-and-set.
    fn increment(&mut self) {
        let Some(version) = self.version() else { return };
        let editor = version.editor("lists").expect("it is there");
        let next = (counter(&version) + 1).to_string();
        let root = editor.tree().root().id();
        let editor = editor.put(root, "counter", next.as_bytes()).expect("the root is there");
        self.submit(editor.transaction(), Wish::Increment);
    }

    /// Branches, merges and moves in a tree beside the lists.
    fn other(&mut self) {
        let Some(version) = self.version() else { return };
        let pending = NodeId::pending(0);
        let branch = version.trees().find(|name| name.starts_with("branch")).map(str::to_owned);
        let operation = match (branch, self.chance.below(4)) {
            (Some(from), 0) => {
                let policy = *self.chance.pick(&[Policy::Refuse, Policy::Ours, Policy::Theirs]);
                Operation::Merge { from, into: "other".to_owned(), policy }
            }
            (Some(tree), 1) => Operation::DropTree { tree },
            (None, 0) => {
                let name = format!("branch{}", self.ticket);
                Operation::Branch { id: pending, tree: "other".to_owned(), name }
            }
            (branch, _) => return self.edit(&version, &branch.unwrap_or("other".to_owned())),
        };
        let operations = vec![operation];
        self.submit(Transaction { operations, ..Transaction::default() }, Wish::Other);
    }

    fn edit(&mut self, version: &Version, tree: &str) {
        let Some(mut editor) = version.editor(tree) else { return };
        for _ in 0..3 {
            let nodes: Vec<NodeId> = editor.tree().root().walk().map(Node::id).collect();
            let (node, other) = (*self.chance.pick(&nodes), *self.chance.pick(&nodes));
            let deadline = Timestamp(self.time + self.chance.next() % 60);
            let done = match self.chance.below(7) {
                0 => editor.clone().delete(node),
                3 | 4 => editor.clone().expire(node, Some(deadline)),
                1 => editor.clone().relocate(node, other, 0),
                2 => editor.clone().put(node, "a", &[b'0' + self.chance.below(10) as u8]),
                _ => editor.clone().append(node, []),
            };
            editor = done.unwrap_or(editor);
        }
        self.submit(editor.transaction(), Wish::Other);
    }

    /// Stores a blob, or names the one that was stored: of three nodes, so that blobs are soon not named any more.
    fn blob(&mut self) {
        let Some(version) = self.version() else { return };
        let Some(blob) = self.stored else {
            let is_planted = self.settings.log.planted == Some(Planted::BlobNotSynced);
            self.blobs += 1;
            let (number, length) = (self.blobs, 1 + self.chance.below(2_500));
            let bytes: Vec<u8> = (0..length).map(|at| (number + at as u64 % 7) as u8 | 1).collect();
            let stored = store(&mut self.disk.clone(), number, &bytes, is_planted);
            // Without room, or with a crash, there is none.
            self.stored = stored.ok();
            self.totals.blobs += u64::from(self.stored.is_some());
            return;
        };
        let Some(editor) = version.editor("other") else { return };
        let nodes: Vec<NodeId> = editor.tree().root().walk().take(3).map(Node::id).collect();
        let node = *self.chance.pick(&nodes);
        let editor = editor.put(node, &format!("{BLOB}b"), &blob.value()).expect("it is there");
        self.stored = None;
        self.submit(editor.transaction(), Wish::Other);
    }

    /// Removes the blobs that nobody names.
    fn free(&mut self) -> Result<(), String> {
        let Some((sequencer, log)) = &mut self.running else { return Ok(()) };
        let pinned = self.stored.iter().map(|blob| blob.id).collect();
        match sequencer::free_blobs(sequencer, log, &pinned) {
            Ok(freed) => self.totals.blobs_freed += freed.len() as u64,
            Err(_) => return self.crash(),
        }
        self.synced = self.synced.max(log.synced());
        Ok(())
    }

    /// All blobs that a version names are stored, whole.
    fn blobs_are_whole(&self, version: &Version) -> Result<(), String> {
        for id in crate::blobs_of([version]) {
            match crate::check_blob(&self.disk, id) {
                Ok(None) => {}
                Ok(Some(wrong)) => return Err(wrong),
                Err(error) => {
                    return Err(format!("version {} names a blob: {error}", version.seq()));
                }
            }
        }
        Ok(())
    }

    /// Lets go of what is due, if anything is.
    fn tick(&mut self) {
        let Some(version) = self.version() else { return };
        let now = Timestamp(self.time);
        for tree in version.due(now) {
            self.submit(Transaction::tick(tree, now), Wish::Tick);
        }
    }

    fn read(&mut self) -> Result<(), String> {
        let Some(version) = self.version() else { return Ok(()) };
        self.totals.reads += 1;
        self.saw(version.seq())?;
        let list = self.chance.below(LISTS);
        let values = values(&version, list);
        let (start, end) = (self.time, self.time);
        self.histories[list].push(Event::Read { values, start, end });
        for (name, (seq, hash)) in &self.held {
            let (sequencer, _) = self.running.as_ref().expect("it runs");
            let kept = sequencer.database().at(*seq);
            let kept =
                kept.ok_or_else(|| format!("version {seq} was freed, and `{name}` holds it"))?;
            if kept.hash() != *hash {
                return Err(format!("version {seq} has changed"));
            }
            self.blobs_are_whole(kept).map_err(|error| format!("`{name}` holds {seq}: {error}"))?;
        }
        Ok(())
    }

    /// A reader has seen a commit: it must be in the log, and in the modes that promise it, safe.
    fn saw(&mut self, seq: u64) -> Result<(), String> {
        let (_, log) = self.running.as_ref().expect("it runs");
        self.seen = self.seen.max(seq);
        if seq > log.head() || self.faults.durability == Durability::Sync && seq > log.synced() {
            let (head, synced) = (log.head(), log.synced());
            return Err(format!("a reader sees {seq}; the log has {head}, {synced} are safe"));
        }
        Ok(())
    }

    fn hold(&mut self) -> Result<(), String> {
        let Some((sequencer, _)) = &mut self.running else { return Ok(()) };
        let version = sequencer.reader().version();
        let name = format!("lease{}", self.time);
        if !sequencer.database_mut().hold(&name, version.seq()) {
            return Err(format!("the newest version, {}, is not kept", version.seq()));
        }
        self.held.insert(name, (version.seq(), version.hash()));
        if self.held.len() > 2 {
            let (name, _) = self.held.pop_first().expect("there are three");
            sequencer.database_mut().let_go(&name);
        }
        Ok(())
    }

    /// The sequencer decides a group, or the log keeps the one that is on its way.
    fn log(&mut self) -> Result<(), String> {
        let Some((sequencer, log)) = &mut self.running else { return Ok(()) };
        let Some(group) = self.in_flight.take() else {
            self.in_flight = sequencer.next_group();
            return Ok(());
        };
        for (seq, payload) in (group.first..).zip(&group.payloads) {
            self.journal.insert(seq, payload.clone());
        }
        let kept = if group.payloads.is_empty() {
            Ok(())
        } else {
            log.append(group.first, &group.payloads)
        };
        self.synced = log.synced();
        let done = sequencer.appended(kept);
        self.answer(done.answers)
    }

    fn answer(
        &mut self,
        answers: Vec<(u64, Result<crate::Committed, CommitError>)>,
    ) -> Result<(), String> {
        let mut down = false;
        for (ticket, answer) in answers {
            let wish =
                self.wishes.remove(&ticket).ok_or_else(|| format!("{ticket} answered twice"))?;
            let (end, refused) = match answer {
                Ok(committed) => {
                    self.totals.acknowledged += 1;
                    self.totals.ticks += u64::from(matches!(wish, Wish::Tick));
                    self.acknowledged = self.acknowledged.max(committed.seq);
                    (Some(self.time), false)
                }
                Err(CommitError::Unknown(_)) => {
                    self.totals.unknown += 1;
                    down = true;
                    (None, false)
                }
                Err(error) => {
                    self.totals.no_room += u64::from(matches!(error, CommitError::NoRoom(_)));
                    self.totals.rejected += u64::from(matches!(error, CommitError::Rejected(_)));
                    (None, true)
                }
            };
            self.known(wish, end, refused);
        }
        // A log that has stopped is started again, as its message says.
        if down { self.crash() } else { Ok(()) }
    }

    fn known(&mut self, wish: Wish, end: Option<u64>, refused: bool) {
        match wish {
            Wish::Append { list, value, .. } if refused => {
                self.histories[list].push(Event::Refused { value });
            }
            Wish::Append { list, value, start } => {
                self.histories[list].push(Event::Append { value, start, end });
            }
            Wish::Increment if !refused => match end {
                Some(_) => self.increments.0 += 1,
                None => self.increments.1 += 1,
            },
            Wish::Increment | Wish::Tick | Wish::Other => {}
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        let Some((_, log)) = &mut self.running else { return Ok(()) };
        match log.sync() {
            Ok(()) => self.synced = log.synced(),
            Err(_) => return self.crash(),
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<(), String> {
        let Some((sequencer, log)) = &mut self.running else { return Ok(()) };
        match sequencer::take_snapshot(sequencer, log) {
            Ok(seq) => {
                self.totals.snapshots += 1;
                self.synced = self.synced.max(seq);
                Ok(())
            }
            // A full disk stops no one, nor does it leave anything behind.
            Err(LogError::NoSnapshot(_)) if !self.disk.is_down() => {
                let files = crate::Disk::list(&self.disk).map_err(|error| error.to_string())?;
                match files.iter().find(|file| file.ends_with(".part")) {
                    Some(file) => Err(format!("{file} was left behind")),
                    None => Ok(()),
                }
            }
            Err(_) => self.crash(),
        }
    }

    /// The machine goes down and up again, or the program alone.
    fn crash(&mut self) -> Result<(), String> {
        self.totals.crashes += 1;
        self.running = None;
        self.in_flight = None;
        // What waited for an answer gets none; only what had come to the log may be there.
        for (_, wish) in std::mem::take(&mut self.wishes) {
            self.known(wish, None, false);
        }
        self.held.clear();
        // A server that has gone names no blob that it had stored.
        self.stored = None;
        if self.chance.percent(30) && self.faults.crash_at.is_none() {
            // Only the program was killed.
            self.totals.kills += 1;
            self.disk.come_up();
            return self.start();
        }
        self.disk.restart();
        if self.faults.flips && self.chance.percent(30) {
            self.start_with_a_flip()?;
        }
        // The next start is cut short too, at each of its writes in turn.
        while self.chance.percent(30) {
            let operations = self.disk.operations() + self.chance.next() % 6;
            self.disk.crash_at(Some(operations));
            let started = sequencer::start(self.disk.clone(), self.settings);
            if let Ok((sequencer, log, _)) = &started {
                self.whole(sequencer, log)?;
            } else if !self.disk.is_down() {
                return started.map(drop).map_err(|error| format!("an honest disk: {error}"));
            }
            self.disk.restart();
        }
        self.start()
    }

    /// A bit has flipped: a start says so, or nothing is lost.
    fn start_with_a_flip(&mut self) -> Result<(), String> {
        let Some(flip) = self.disk.flip() else { return Ok(()) };
        match sequencer::start(self.disk.clone(), self.settings) {
            Ok((sequencer, log, _)) => {
                // A start does not read blobs; whoever reads one does.
                match self.blobs_are_whole(&sequencer.reader().version()) {
                    Ok(()) => self.whole(&sequencer, &log)?,
                    Err(_) => self.totals.damaged += 1,
                }
            }
            Err(LogError::Damaged { .. } | LogError::Missing { .. } | LogError::Entry { .. }) => {
                self.totals.damaged += 1;
            }
            Err(other) => return Err(format!("a flipped bit: {other}")),
        }
        self.disk.unflip(flip);
        Ok(())
    }

    fn start(&mut self) -> Result<(), String> {
        let (mut sequencer, mut log, started) = sequencer::start(self.disk.clone(), self.settings)
            .map_err(|error| format!("the disk was honest, and a start fails: {error}"))?;
        self.totals.torn += u64::from(started.log.torn.is_some());
        self.totals.from_snapshot += u64::from(started.snapshot > 0);
        if let Some(error) = started.unusable.first() {
            return Err(format!("the disk was honest, and a snapshot cannot be read: {error}"));
        }
        self.whole(&sequencer, &log)?;
        let files = crate::Disk::list(&self.disk).map_err(|error| error.to_string())?;
        if let Some(part) = files.iter().find(|file| file.ends_with(".part")) {
            return Err(format!("{part} is there after a start"));
        }
        let is_lost = log.head() < self.acknowledged.max(self.seen);
        if log.epoch() < self.epoch || is_lost && log.epoch() == self.epoch {
            return Err(format!("epoch {} comes after {}", log.epoch(), self.epoch));
        }
        self.epoch = log.epoch();
        // What was lost, within what the mode promises, is not there for anybody.
        let head = log.head();
        self.journal.retain(|seq, _| *seq <= head);
        if self.faults.durability != Durability::Sync && head < self.acknowledged.max(self.seen) {
            self.forget_lost(&sequencer.reader().version());
        }
        (self.acknowledged, self.seen, self.synced) = (head, head, head);
        if sequencer.reader().version().tree("lists").is_none() {
            self.set_up(&mut sequencer, &mut log)?;
        }
        self.running = Some((sequencer, log));
        Ok(())
    }

    /// The oracles of a start.
    fn whole(&self, sequencer: &Sequencer, log: &SegmentLog<SimulatedDisk>) -> Result<(), String> {
        let version = sequencer.reader().version();
        let seq = version.seq();
        if seq != log.head() {
            return Err(format!("the database has {seq} commits, the log {}", log.head()));
        }
        let promised = match self.faults.durability {
            Durability::Sync => self.acknowledged.max(self.seen),
            _ => self.synced,
        };
        if seq < promised {
            return Err(format!("{promised} commits were promised, {seq} are there"));
        }
        let mut replay = Database::default();
        for number in 1..=seq {
            let payload = self.journal.get(&number);
            let payload = payload.ok_or_else(|| format!("entry {number} was never written"))?;
            let transaction = crate::decode(payload).map_err(|error| error.to_string())?;
            let before = replay.private().clone();
            replay.commit(&transaction).map_err(|error| format!("replay of {number}: {error}"))?;
            if let [Operation::Tick { tree }] = &transaction.operations[..] {
                took_what_was_due(&before, replay.private(), tree)?;
            }
        }
        if replay.private().hash() != version.hash() {
            return Err(format!("replayed from empty, version {seq} has another hash"));
        }
        let commits = |version: &Version| {
            (1..=seq).map(|seq| version.commit(seq).cloned()).collect::<Vec<_>>()
        };
        if commits(replay.private()) != commits(&version) {
            return Err(format!("replayed from empty, version {seq} has another past"));
        }
        let mut due = BTreeSet::new();
        for name in version.trees() {
            let tree = version.tree(name).expect("it is listed");
            tree.assert_sound();
            due.extend(tree.next_deadline().map(|_| name));
        }
        if version.due(Timestamp(u64::MAX)).collect::<BTreeSet<_>>() != due {
            return Err(format!(
                "trees with deadlines are {due:?}, and version {seq} tells others"
            ));
        }
        self.blobs_are_whole(&version)?;
        let counter = counter(&version);
        let (known, unknown) = self.increments;
        if self.faults.durability == Durability::Sync
            && !(known..=known + unknown).contains(&counter)
        {
            return Err(format!(
                "{known} increments were acknowledged, {unknown} unknown; {counter}"
            ));
        }
        Ok(())
    }

    /// In the modes that may lose what they acknowledged, histories begin anew with what is there.
    fn forget_lost(&mut self, version: &Version) {
        for list in 0..LISTS {
            let there: BTreeSet<u64> = match version.tree("lists") {
                Some(_) => values(version, list).into_iter().collect(),
                None => BTreeSet::new(),
            };
            let events = std::mem::take(&mut self.histories[list]);
            let kept = events.into_iter().filter_map(|event| match event {
                Event::Append { value, start, end } if there.contains(&value) => {
                    Some(Event::Append { value, start, end })
                }
                Event::Refused { value } => Some(Event::Refused { value }),
                Event::Append { .. } | Event::Read { .. } => None,
            });
            self.histories[list] = kept.collect();
        }
    }

    fn set_up(
        &mut self,
        sequencer: &mut Sequencer,
        log: &mut SegmentLog<SimulatedDisk>,
    ) -> Result<(), String> {
        let mut operations = Vec::new();
        for (number, name) in ["lists", "other"].into_iter().enumerate() {
            let root = NodeId::pending(number as u32);
            operations.push(Operation::CreateTree {
                root,
                name: name.to_owned(),
                addressable: true,
            });
        }
        for number in 0..LISTS as u32 {
            let edit = crate::Edit::Insert {
                node: NodeId::pending(2 + number),
                parent: crate::Target::Node(NodeId::pending(0)),
                place: crate::Place::Last,
                attributes: crate::Attributes::default(),
            };
            operations.push(Operation::Edit { tree: "lists".to_owned(), edit });
        }
        operations
            .push(Operation::MakeIndex { tree: "other".to_owned(), attribute: "a".to_owned() });
        let transaction = Transaction { operations, ..Transaction::default() };
        self.journal.insert(1, crate::encode(&transaction));
        sequencer.submit(0, transaction).map_err(|error| error.to_string())?;
        let done = sequencer.run(log).expect("it waits");
        let (_, answer) = done.answers.first().expect("one was asked");
        answer.as_ref().map_err(|error| format!("on a healthy disk: {error}"))?;
        (self.acknowledged, self.synced) = (1, log.synced());
        Ok(())
    }

    /// The liveness floor: on a healthy disk a commit is taken at once, after whatever came before.
    fn floor(&mut self) -> Result<(), String> {
        if self.running.is_none() {
            self.start()?;
        }
        self.disk.come_up();
        self.time += 1;
        if let Some(group) = self.in_flight.take() {
            self.in_flight = Some(group);
            self.log()?;
        }
        while self.running.as_ref().is_some_and(|(sequencer, _)| sequencer.waiting() > 0) {
            self.log()?;
        }
        if self.in_flight.is_some() {
            self.log()?;
        }
        self.tick();
        while self.running.as_ref().is_some_and(|(sequencer, _)| sequencer.waiting() > 0) {
            self.log()?;
            self.log()?;
        }
        let now = Timestamp(self.time);
        if let Some(tree) = self.version().as_ref().and_then(|version| version.due(now).next()) {
            return Err(format!("on a healthy disk nodes of `{tree}` outlive their time"));
        }
        // What nobody holds is freed, and nothing else.
        self.stored = None;
        self.free()?;
        let (sequencer, _) = self.running.as_ref().expect("it runs");
        let files = crate::Disk::list(&self.disk).map_err(|error| error.to_string())?;
        let held = sequencer.database().held_blobs();
        let left: BTreeSet<_> = files.iter().filter_map(|file| crate::blob_of_file(file)).collect();
        if let Some(leaked) = left.difference(&held).next() {
            return Err(format!("blob {leaked} is there, and nobody names it"));
        }
        let acknowledged = self.totals.acknowledged;
        self.time += 1;
        self.append();
        self.log()?;
        self.log()?;
        if self.totals.acknowledged != acknowledged + 1 {
            return Err("on a healthy disk an append is not acknowledged".to_owned());
        }
        self.time += 1;
        for list in 0..LISTS {
            let version = self.version().expect("it runs");
            self.saw(version.seq())?;
            let (values, start, end) = (values(&version, list), self.time, self.time);
            self.histories[list].push(Event::Read { values, start, end });
        }
        Ok(())
    }
}

/// Stores a blob in up to three parts.
fn store(
    disk: &mut SimulatedDisk,
    number: u64,
    bytes: &[u8],
    is_planted: bool,
) -> Result<BlobRef, BlobError> {
    let mut writer = BlobWriter::begin(disk, number, 10_000)?;
    for part in bytes.chunks(1_000) {
        if let Err(error) = writer.write(disk, part) {
            writer.abandon(disk);
            return Err(error);
        }
    }
    let sealed = if is_planted { writer.seal(&mut Unsynced)? } else { writer.seal(disk)? };
    sealed.place(disk)
}

/// A disk that promises what it does not do.
struct Unsynced;

impl crate::Disk for Unsynced {
    fn list(&self) -> Result<Vec<String>, crate::DiskError> {
        Ok(Vec::new())
    }
    fn read(&self, _: &str) -> Result<Vec<u8>, crate::DiskError> {
        Ok(Vec::new())
    }
    fn create(&mut self, _: &str, _: u64) -> Result<(), crate::DiskError> {
        Ok(())
    }
    fn write(&mut self, _: &str, _: u64, _: &[u8]) -> Result<(), crate::DiskError> {
        Ok(())
    }
    fn truncate(&mut self, _: &str, _: u64) -> Result<(), crate::DiskError> {
        Ok(())
    }
    fn sync(&mut self, _: &str) -> Result<(), crate::DiskError> {
        Ok(())
    }
    fn sync_directory(&mut self) -> Result<(), crate::DiskError> {
        Ok(())
    }
    fn rename(&mut self, _: &str, _: &str) -> Result<(), crate::DiskError> {
        Ok(())
    }
    fn remove(&mut self, _: &str) -> Result<(), crate::DiskError> {
        Ok(())
    }
}

/// A tick took the nodes whose time was over, with all below them, and no other.
fn took_what_was_due(before: &Version, after: &Version, name: &str) -> Result<(), String> {
    let (seq, now) = (after.seq(), after.time());
    let none = || format!("tick {seq} is of `{name}`, which is not there");
    let (old, new) = (before.tree(name).ok_or_else(none)?, after.tree(name).ok_or_else(none)?);
    let is_due = |node: &&Node| node.expires().is_some_and(|at| at <= now);
    let due: BTreeSet<NodeId> =
        old.root().walk().filter(is_due).flat_map(Node::walk).map(Node::id).collect();
    let wrong = old.root().walk().find(|node| new.contains(node.id()) == due.contains(&node.id()));
    wrong.map_or(Ok(()), |node| Err(format!("tick {seq} decided wrongly on {node:?}")))
}

fn list_of(version: &Version, list: usize) -> &Node {
    let tree = version.tree("lists").expect("it is there");
    tree.root().child(list).expect("it is there")
}

fn values(version: &Version, list: usize) -> Vec<u64> {
    let value = |node: &Node| {
        let text = node.attribute("v").expect("each has a value");
        std::str::from_utf8(text).expect("text").parse().expect("a number")
    };
    list_of(version, list).children().map(value).collect()
}

fn counter(version: &Version) -> u64 {
    let root = version.tree("lists").map(|tree| tree.root());
    let text = root.and_then(|root| root.attribute("counter"));
    text.map_or(0, |text| std::str::from_utf8(text).expect("text").parse().expect("a number"))
}
