//! A small agent that does as it is told, and a shell that can hold back commits and refuse appends:
//! for the bounds of a partition.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agents::{
    Action, Agent, Append, Audience, Bound, Commit, Context, DeadLetter, Destination, Effect,
    Envelope, Epoch, Event, Failure, Key, Listed, Notification, Outcome, Partition, PartitionSpec,
    Priority, Row, Seq, Snapshot, StateWrite, TimerName,
};
use gate::Time;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// The hot part has this length from now on.
    Hot(usize),
    /// The cold part has.
    Cold(usize),
    /// Changes nothing.
    Look,
    /// Cannot be handled, for this cause.
    Fail(String),
    /// Sets a timer that is due after so many milliseconds.
    Timer(u64, u64),
    /// Sets a timer that is due each so many milliseconds.
    Every(u64, u64),
    /// Notifies the world.
    Notify,
    /// Sends a message to another agent.
    Send(Key),
    /// Its bounds cannot be told from now on.
    BreakBounds,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    cold: Vec<u8>,
    hot: Vec<u8>,
    bounds_break: bool,
}

impl Agent for Probe {
    type Message = Act;
    const VERSION: u16 = 1;

    fn create(_key: Key, first: &Act) -> Option<Probe> {
        (*first != Act::Look).then(Probe::default)
    }

    fn decode(_version: u16, cold: &[u8], hot: &[u8]) -> Result<Probe, Failure> {
        assert!(cold.first() != Some(&0xff), "no such byte");
        Ok(Probe { cold: cold.to_vec(), hot: hot.to_vec(), bounds_break: false })
    }

    fn encode_cold(&self, to: &mut Vec<u8>) {
        to.extend(&self.cold);
    }

    fn encode_hot(&self, to: &mut Vec<u8>) {
        to.extend(&self.hot);
    }

    fn on(&mut self, message: &Act, cx: &mut Context<Act>) -> Result<Effect, Failure> {
        match message {
            Act::Hot(length) => {
                self.hot = vec![0; *length];
                return Ok(Effect::Hot);
            }
            Act::Cold(length) => self.cold = vec![0; *length],
            Act::Look => return Ok(Effect::Clean),
            Act::Fail(cause) => return Err(Failure(cause.clone())),
            Act::Timer(name, span) => cx.after(TimerName(*name), Duration::from_millis(*span)),
            Act::Every(name, span) => cx.every(TimerName(*name), Duration::from_millis(*span)),
            Act::Notify => _ = cx.notify(1, vec![]),
            Act::Send(to) => cx.send(*to, Priority::Normal, Act::Hot(1)),
            Act::BreakBounds => self.bounds_break = true,
        }
        Ok(Effect::Dirty)
    }

    fn on_timer(&mut self, name: TimerName, cx: &mut Context<Act>) -> Result<Effect, Failure> {
        cx.notify(1, name.0.to_le_bytes().to_vec());
        Ok(Effect::Hot)
    }

    fn bounds(&self) -> Vec<Bound> {
        assert!(!self.bounds_break, "there are none");
        Vec::new()
    }
}

/// A partition of probes, and its store.
pub(crate) struct Rig {
    pub(crate) core: Partition<Probe>,
    pub(crate) now: u64,
    tickets: u64,
    pub(crate) rows: BTreeMap<Key, Row>,
    pub(crate) notified: Vec<Notification>,
    pub(crate) dead: Vec<DeadLetter<Act>>,
    /// Appends, commits and deliveries are not answered before they are asked for.
    pub(crate) holds_appends: bool,
    pub(crate) holds_commits: bool,
    pub(crate) holds_deliveries: bool,
    pub(crate) appends: VecDeque<Arc<Append<Act>>>,
    pub(crate) commits: VecDeque<Arc<Commit<Act>>>,
    /// Appends and commits that the store refuses.
    pub(crate) refuses_append: fn(&Append<Act>) -> bool,
    pub(crate) refuses_commit: fn(&Commit<Act>) -> bool,
    pub(crate) seen: Vec<Action<Act>>,
    /// Events at most, against hot loops.
    pub(crate) steps_left: u64,
}

pub(crate) fn snapshot() -> Snapshot<Act> {
    Snapshot {
        epoch: Epoch(1),
        version: 0,
        cursor: Default::default(),
        log_end: Seq(0),
        received: Default::default(),
        log: Vec::new(),
        directory: Vec::new(),
        ended: Vec::new(),
        timers: Vec::new(),
    }
}

pub(crate) fn envelope(to: Destination, priority: Priority, message: Act) -> Envelope<Act> {
    Envelope { id: None, sender: 0, to, audience: Audience::Everyone, priority, message }
}

impl Rig {
    pub(crate) fn new(spec: PartitionSpec) -> Rig {
        Rig::open(spec, BTreeMap::new())
    }

    /// A partition over agents that are in the store already.
    pub(crate) fn open(spec: PartitionSpec, rows: BTreeMap<Key, Row>) -> Rig {
        let directory = rows.keys().map(|&key| (key, Listed { armed: true, bounds: Vec::new() }));
        let snapshot = Snapshot { directory: directory.collect(), ..snapshot() };
        Rig {
            core: Partition::open(spec, Time::ZERO, snapshot).unwrap(),
            now: 0,
            tickets: 0,
            rows,
            notified: Vec::new(),
            dead: Vec::new(),
            holds_appends: false,
            holds_commits: false,
            holds_deliveries: false,
            appends: VecDeque::new(),
            commits: VecDeque::new(),
            refuses_append: |_| false,
            refuses_commit: |_| false,
            seen: Vec::new(),
            steps_left: 100_000,
        }
    }

    pub(crate) fn tell(&mut self, event: Event<Act>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.steps_left = self.steps_left.checked_sub(1).expect("it comes to an end");
            let mut actions = Vec::new();
            self.core.handle(Time::from_nanos(self.now * 1_000_000), event, &mut actions);
            for action in actions {
                self.seen.push(action.clone());
                events.extend(self.answer(action));
            }
        }
    }

    fn answer(&mut self, action: Action<Act>) -> Option<Event<Act>> {
        match action {
            Action::Append(append) if self.holds_appends => self.appends.push_back(append),
            Action::Append(append) => return Some(self.append(&append)),
            Action::Commit(commit) if self.holds_commits => self.commits.push_back(commit),
            Action::Commit(commit) => return Some(self.commit(&commit)),
            Action::Load { load, keys, .. } => {
                let row = |key: Key| self.rows.get(&key).cloned().unwrap_or_default();
                let rows = keys.into_iter().map(|key| (key, row(key))).collect();
                return Some(Event::Loaded { load, rows: Some(rows) });
            }
            Action::Deliver(it) if !self.holds_deliveries => return Some(Event::Delivered(it.n)),
            Action::Continue => return Some(Event::Wake),
            _ => {}
        }
        None
    }

    fn append(&self, append: &Append<Act>) -> Event<Act> {
        Event::Appended(match (self.refuses_append)(append) {
            true => Outcome::Rejected("no such message".to_owned()),
            false => Outcome::Written,
        })
    }

    fn commit(&mut self, commit: &Commit<Act>) -> Event<Act> {
        if (self.refuses_commit)(commit) {
            return Event::Committed(Outcome::Rejected("no such content".to_owned()));
        }
        for write in &commit.rows {
            let row = self.rows.entry(write.key).or_default();
            row.header = write.header.clone();
            match &write.state {
                StateWrite::Keep => {}
                StateWrite::Hot(hot) => row.state.as_mut().unwrap().hot = hot.clone(),
                StateWrite::Whole(stored) => row.state = Some(stored.clone()),
                StateWrite::Delete => row.state = None,
            }
        }
        commit.erased.iter().for_each(|key| _ = self.rows.remove(key));
        self.notified.extend(commit.notifications.iter().cloned());
        self.dead.extend(commit.dead.iter().cloned());
        Event::Committed(Outcome::Written)
    }

    /// Answers the first append that is held back.
    pub(crate) fn answer_append(&mut self) {
        let append = self.appends.pop_front().expect("an append is held back");
        let event = self.append(&append);
        self.tell(event);
    }

    /// Answers the first commit that is held back; the keys of its rows.
    pub(crate) fn answer_commit(&mut self) -> Vec<u64> {
        let commit = self.commits.pop_front().expect("a commit is held back");
        let event = self.commit(&commit);
        self.tell(event);
        commit.rows.iter().map(|row| row.key.0).collect()
    }

    pub(crate) fn offer(&mut self, to: Destination, priority: Priority, act: Act) -> u64 {
        self.tickets += 1;
        let envelope = envelope(to, priority, act);
        self.tell(Event::Offer { ticket: self.tickets, envelope });
        self.tickets
    }

    pub(crate) fn one(&mut self, key: u64, priority: Priority, act: Act) -> u64 {
        self.offer(Destination::One(Key(key)), priority, act)
    }

    /// The number of keys that were to be loaded.
    pub(crate) fn keys_loaded(&self) -> usize {
        let keys = self.seen.iter().map(|action| match action {
            Action::Load { keys, .. } => keys.len(),
            _ => 0,
        });
        keys.sum()
    }
}
