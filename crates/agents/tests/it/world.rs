//! The world of a partition: clients, a store that loses, delays and repeats, crashes at any moment,
//! owners that are suspended and wake up after another has taken over. All of it from one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agents::{
    Action, Agent, Append, Audience, Commit, Destination, Envelope, Event, Key, MessageId,
    Notification, Outcome, Partition, PartitionSpec, Planted, Priority, Seq,
};
use gate::{EvictionRule, TenantSpec, Time};
use rand::RngExt;
use workload::{Chance, stream};

use crate::account::{Account, BAD_PRICE, FIRED, Message, RANG, SYMBOL, What};
use crate::reference::Reference;
use crate::store::Store;

/// Keys of accounts; those from `DELETABLE` on can end.
const KEYS: u64 = 40;
const DELETABLE: u64 = 30;
const SENDERS: u64 = 3;

/// A happening that is to come.
enum Coming {
    ToOwner(usize, Event<Message>),
    /// A transaction reaches the store; its end is told after a while, if at all.
    Append(usize, Arc<Append<Message>>, Tell),
    Commit(usize, Arc<Commit<Message>>, Tell),
    /// A notification arrives, if its owner is still there to deliver it.
    Deliver(usize, Notification),
    /// A sender offers its next message.
    Offer(u64),
    Crash,
    /// The owner is suspended, and another opens the partition.
    Suspend,
    Awake(usize),
    Open,
    Wake(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Tell {
    End,
    Nothing,
}

/// A core, with what it has been told while it could not hear.
struct Owner {
    core: Partition<Account>,
    suspended: bool,
    gone: bool,
    missed: Vec<Event<Message>>,
    /// When each version's commit was first handed out.
    started: BTreeMap<u64, u64>,
    woken_at: Option<Time>,
}

/// A client that has one message on its way.
struct Sender {
    script: Vec<Envelope<Message>>,
    next: usize,
    /// The ticket on its way.
    ticket: Option<u64>,
}

pub(crate) struct World {
    seed: u64,
    chance: Chance,
    now: u64,
    coming: BTreeMap<(u64, u64), Coming>,
    count: u64,
    store: Store,
    owners: Vec<Owner>,
    spec: PartitionSpec,
    planted: Option<Planted>,
    senders: Vec<Sender>,
    /// Faults are possible.
    faults: bool,
    crashes_left: u32,
    acknowledged: BTreeMap<MessageId, Seq>,
    delivered: BTreeMap<u64, Notification>,
    tickets: u64,
}

/// The numbers of a run that was right.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) messages: u64,
    pub(crate) acknowledged: u64,
    pub(crate) fired: u64,
    pub(crate) dead: u64,
    pub(crate) owners: u64,
}

impl World {
    pub(crate) fn new(seed: u64, planted: Option<Planted>) -> World {
        let mut chance = stream(seed, 0);
        let spec = any_spec(&mut chance);
        let length = chance.random_range(10..40);
        let senders = (0..SENDERS).map(|from| Sender {
            script: (1..=length).map(|n| any_message(from, n, &mut chance)).collect(),
            next: 0,
            ticket: None,
        });
        let senders = senders.collect();
        World {
            seed,
            now: 0,
            coming: BTreeMap::new(),
            count: 0,
            store: Store::default(),
            owners: Vec::new(),
            spec,
            planted,
            senders,
            faults: chance.random_bool(0.9),
            crashes_left: chance.random_range(0..6),
            acknowledged: BTreeMap::new(),
            delivered: BTreeMap::new(),
            tickets: 0,
            chance,
        }
    }

    /// Runs to the end; panics where a guarantee is broken.
    pub(crate) fn run(mut self) -> Done {
        self.open();
        for sender in 0..SENDERS {
            self.later(sender, Coming::Offer(sender));
        }
        let mut steps = 0;
        while let Some(((at, _), coming)) = self.coming.pop_first() {
            steps += 1;
            assert!(
                steps < 60_000,
                "seed {}: it does not come to an end: {}",
                self.seed,
                self.told()
            );
            self.now = self.now.max(at);
            self.happen(coming);
            if self.senders.iter().all(|it| it.next == it.script.len()) {
                self.faults = false;
            }
            if self.coming.is_empty() && !self.is_done() {
                let last = self.owners.len() - 1;
                let wakeup = self.owners[last].core.next_wakeup();
                assert!(wakeup.is_some(), "seed {}: it stands still: {}", self.seed, self.told());
            }
        }
        self.judge()
    }

    fn told(&self) -> String {
        let last = self.owners.last().unwrap();
        let counts = last.core.counts();
        format!("{counts:?}, {:?}, log {:?}", self.store.cursor(), self.store.log_end())
    }

    fn later(&mut self, span: u64, coming: Coming) {
        self.count += 1;
        self.coming.insert((self.now + span, self.count), coming);
    }

    fn soon(&mut self) -> u64 {
        self.chance.random_range(0..20)
    }

    fn chance(&mut self, share: f64) -> bool {
        self.faults && self.chance.random_bool(share)
    }

    fn open(&mut self) {
        let snapshot = self.store.acquire();
        let mut core = Partition::open(self.spec.clone(), self.time(), snapshot).unwrap();
        if let Some(planted) = self.planted {
            core.plant(planted);
        }
        self.owners.push(Owner {
            core,
            suspended: false,
            gone: false,
            missed: Vec::new(),
            started: BTreeMap::new(),
            woken_at: None,
        });
        let owner = self.owners.len() - 1;
        self.later(0, Coming::ToOwner(owner, Event::Wake));
        // Senders whose message got no answer give it again, under its id.
        for sender in 0..SENDERS {
            if self.senders[sender as usize].ticket.take().is_some() {
                let span = self.soon();
                self.later(span, Coming::Offer(sender));
            }
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now * 1_000_000)
    }

    fn happen(&mut self, coming: Coming) {
        match coming {
            Coming::ToOwner(owner, event) => self.tell(owner, event),
            Coming::Wake(owner) => {
                self.owners[owner].woken_at = None;
                self.tell(owner, Event::Wake);
            }
            Coming::Append(owner, append, tell) => {
                let outcome = self.store.append(&append);
                self.told_end(owner, tell, Event::Appended(outcome));
            }
            Coming::Commit(owner, commit, tell) => {
                let start = self.owners[owner].started[&commit.version];
                let outcome = self.store.commit(&commit, start, self.now);
                self.told_end(owner, tell, Event::Committed(outcome));
            }
            Coming::Deliver(owner, notification) => {
                if self.owners[owner].gone {
                    return;
                }
                // A process that is suspended goes on where it was.
                if self.owners[owner].suspended {
                    return self.later(20, Coming::Deliver(owner, notification));
                }
                let n = notification.n;
                let known = self.delivered.insert(n, notification.clone());
                assert!(
                    known.is_none_or(|known| known == notification),
                    "notification {n} changed"
                );
                let span = self.soon();
                self.later(span, Coming::ToOwner(owner, Event::Delivered(n)));
            }
            Coming::Offer(sender) => self.offer(sender),
            Coming::Crash => {
                let last = self.owners.len() - 1;
                self.owners[last].gone = true;
                let span = self.soon();
                self.later(span, Coming::Open);
            }
            Coming::Suspend => {
                let last = self.owners.len() - 1;
                self.owners[last].suspended = true;
                let (wake, open) = (self.soon() * 10, self.soon());
                self.later(wake, Coming::Awake(last));
                self.later(open, Coming::Open);
            }
            Coming::Awake(owner) => {
                self.owners[owner].suspended = false;
                let missed = std::mem::take(&mut self.owners[owner].missed);
                missed.into_iter().for_each(|event| self.tell(owner, event));
                self.tell(owner, Event::Wake);
            }
            Coming::Open => self.open(),
        }
    }

    fn told_end(&mut self, owner: usize, tell: Tell, event: Event<Message>) {
        if tell == Tell::End {
            let span = self.soon();
            self.later(span, Coming::ToOwner(owner, event));
        }
    }

    /// The owner hears an event; its actions happen, or a crash comes between two of them.
    fn tell(&mut self, owner: usize, event: Event<Message>) {
        if self.owners[owner].gone {
            return;
        }
        if self.owners[owner].suspended {
            self.owners[owner].missed.push(event);
            return;
        }
        let mut actions = Vec::new();
        let now = self.time();
        self.owners[owner].core.handle(now, event, &mut actions);
        let is_last = owner + 1 == self.owners.len();
        let going = self.coming.values().any(|it| matches!(it, Coming::Open));
        for action in actions {
            if is_last && !going && self.crashes_left > 0 && self.chance(0.02) {
                self.crashes_left -= 1;
                let how =
                    if self.chance.random_bool(0.4) { Coming::Suspend } else { Coming::Crash };
                self.happen(how);
                // Of a suspended one the rest happens as well: it had been asked for.
                if self.owners[owner].gone {
                    return;
                }
            }
            self.act(owner, action);
        }
        if let Some(at) = self.owners[owner].core.next_wakeup()
            && self.owners[owner].woken_at.is_none_or(|woken| at < woken)
        {
            self.owners[owner].woken_at = Some(at);
            let span = (at.as_nanos() / 1_000_000).saturating_sub(self.now).max(1);
            self.later(span, Coming::Wake(owner));
        }
    }

    fn act(&mut self, owner: usize, action: Action<Message>) {
        let soon = self.soon();
        let event = match action {
            Action::Append(append) => {
                return self.transact(owner, &append, Coming::Append, || {
                    Event::Appended(Outcome::Unknown)
                });
            }
            Action::Commit(commit) => {
                let now = self.now;
                self.owners[owner].started.entry(commit.version).or_insert(now);
                return self.transact(owner, &commit, Coming::Commit, || {
                    Event::Committed(Outcome::Unknown)
                });
            }
            Action::Load { load, keys, .. } => {
                let rows = (!self.chance(0.1)).then(|| self.store.load(&keys));
                Event::Loaded { load, rows }
            }
            Action::ReadOutbox { after, limit } => {
                Event::Outbox((!self.chance(0.1)).then(|| self.store.outbox(after, limit)))
            }
            Action::ReadSent { after, limit } => {
                Event::Sent((!self.chance(0.1)).then(|| self.store.sent(after, limit)))
            }
            Action::Answer { ticket, seq } => return self.answered(ticket, Some(seq)),
            Action::Refuse { ticket, .. } => return self.answered(ticket, None),
            Action::Deliver(notification) => {
                let span = self.chance.random_range(0..200);
                return self.later(span, Coming::Deliver(owner, notification));
            }
            Action::Relay(messages) => {
                if self.chance(0.1) {
                    Event::Declined
                } else {
                    Event::Incoming { from: 0, messages }
                }
            }
            Action::Accept { from: 0, upto } => Event::Relayed(upto),
            Action::Accept { .. } => unreachable!("there is one partition"),
            Action::Decline { .. } => Event::Declined,
            Action::Continue => return self.later(0, Coming::ToOwner(owner, Event::Wake)),
            Action::Stop(_) => {
                self.owners[owner].gone = true;
                return;
            }
        };
        self.later(soon, Coming::ToOwner(owner, event));
    }

    /// A transaction goes right, is lost, takes place without an answer, or comes late.
    fn transact<T>(
        &mut self,
        owner: usize,
        of: &Arc<T>,
        coming: fn(usize, Arc<T>, Tell) -> Coming,
        unknown: fn() -> Event<Message>,
    ) {
        let fate = if self.faults { self.chance.random_range(0..20) } else { 19 };
        let (soon, late) = (self.soon(), self.chance.random_range(0..300));
        match fate {
            0 => {}
            1 => self.later(soon, coming(owner, of.clone(), Tell::Nothing)),
            2 => self.later(late, coming(owner, of.clone(), Tell::Nothing)),
            _ => return self.later(soon, coming(owner, of.clone(), Tell::End)),
        }
        self.later(soon + 1, Coming::ToOwner(owner, unknown()));
    }

    fn offer(&mut self, sender: u64) {
        let last = self.owners.len() - 1;
        let it = &mut self.senders[sender as usize];
        if it.ticket.is_some() {
            return;
        }
        let Some(envelope) = it.script.get(it.next) else { return };
        self.tickets += SENDERS;
        let ticket = self.tickets + sender;
        it.ticket = Some(ticket);
        let envelope = envelope.clone();
        self.tell(last, Event::Offer { ticket, envelope });
    }

    fn answered(&mut self, ticket: u64, seq: Option<Seq>) {
        let sender = ticket % SENDERS;
        let it = &mut self.senders[sender as usize];
        // An answer to a client that has given the message again already.
        if it.ticket != Some(ticket) {
            return;
        }
        it.ticket = None;
        if let Some(seq) = seq {
            let envelope = &it.script[it.next];
            self.acknowledged.insert(envelope.id.unwrap(), seq);
            it.next += 1;
        }
        let span = self.chance.random_range(0..60);
        self.later(span, Coming::Offer(sender));
    }

    fn is_done(&self) -> bool {
        let last = &self.owners[self.owners.len() - 1];
        let sent = self.senders.iter().all(|it| it.next == it.script.len());
        sent && last.core.is_idle() && self.store.is_empty()
    }

    /// The oracles.
    fn judge(self) -> Done {
        let seed = self.seed;
        assert!(self.is_done(), "seed {seed}: it ended before all was done: {}", self.told());
        let messages: u64 = self.senders.iter().map(|it| it.script.len() as u64).sum();
        assert_eq!(self.acknowledged.len() as u64, messages, "seed {seed}: not all acknowledged");
        let mut ids = BTreeSet::new();
        for entry in &self.store.log {
            let Some(id) = entry.envelope.id else { continue };
            assert!(ids.insert(id), "seed {seed}: {id:?} is in the log twice");
            assert_eq!(self.acknowledged.get(&id), Some(&entry.seq), "seed {seed}: {id:?}");
        }
        let mut reference = Reference::default();
        self.store.log.iter().for_each(|entry| reference.take(entry));
        self.judge_accounts(&reference);
        let dead: BTreeSet<(Key, u64)> = self.store.dead_positions().into_iter().collect();
        assert_eq!(dead.len(), self.store.dead.len(), "seed {seed}: a dead letter twice");
        assert_eq!(dead, reference.dead, "seed {seed}: dead letters");
        let names: BTreeSet<_> = self.store.notified.iter().map(|it| it.key).collect();
        assert_eq!(names.len(), self.store.notified.len(), "seed {seed}: a name twice");
        for notification in &self.store.notified {
            let found = self.delivered.get(&notification.n);
            assert_eq!(found, Some(notification), "seed {seed}: not delivered");
        }
        Done {
            messages,
            acknowledged: self.acknowledged.len() as u64,
            fired: reference.fired.values().map(|of| of.len() as u64).sum(),
            dead: dead.len() as u64,
            owners: self.owners.len() as u64,
        }
    }

    fn judge_accounts(&self, reference: &Reference) {
        let seed = self.seed;
        let mut fired: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        let mut rang: BTreeSet<(Key, Vec<u8>)> = BTreeSet::new();
        for it in &self.store.notified {
            match it.key.rule {
                FIRED => fired.entry(it.key.agent).or_default().push((it.key, it.payload.clone())),
                RANG => {
                    let fresh = rang.insert((it.key.agent, it.payload.clone()));
                    assert!(fresh, "seed {seed}: a timer of {:?} rang twice", it.key.agent);
                }
                other => panic!("no rule {other}"),
            }
        }
        let in_order = |mut of: Vec<_>| {
            of.sort();
            of.into_iter().map(|(_, payload)| payload).collect::<Vec<Vec<u8>>>()
        };
        let fired: BTreeMap<Key, _> =
            fired.into_iter().map(|(key, of)| (key, in_order(of))).collect();
        assert_eq!(fired, reference.fired, "seed {seed}: crossings");
        let set = self.store.log.iter().filter_map(|entry| {
            match (&entry.envelope.to, &entry.envelope.message.what) {
                (Destination::One(key), What::Timer(name, _)) => {
                    Some((*key, name.to_le_bytes().to_vec()))
                }
                _ => None,
            }
        });
        assert_eq!(rang, set.collect(), "seed {seed}: timers");
        let accounts: BTreeMap<Key, Account> = (self.store.rows.iter())
            .filter_map(|(&key, row)| {
                let state = row.state.as_ref()?;
                let account = Account::decode(row.header.version, &state.cold, &state.hot);
                let mut account = account.unwrap_or_else(|failure| panic!("{failure:?}"));
                let told = self
                    .store
                    .notified
                    .iter()
                    .filter(|it| it.key.agent == key && it.key.life == row.header.born);
                assert_eq!(row.header.fired, told.count() as u64, "seed {seed}: outbox of {key:?}");
                assert_eq!(row.header.fired, account.fired + account.rang, "seed {seed}: {key:?}");
                // Timers have their own oracle.
                account.rang = 0;
                Some((key, account))
            })
            .collect();
        for (key, account) in &reference.accounts {
            assert_eq!(account.disorder, 0, "seed {seed}: {key:?}");
            assert_eq!(accounts.get(key), Some(account), "seed {seed}: {key:?}");
        }
        assert_eq!(accounts.len(), reference.accounts.len(), "seed {seed}: accounts");
    }
}

fn any_spec(chance: &mut Chance) -> PartitionSpec {
    let rules = [
        EvictionRule::Lru,
        EvictionRule::Mru,
        EvictionRule::Sieve,
        EvictionRule::Frequency,
        EvictionRule::WTinyLfu,
    ];
    let mut spec = PartitionSpec::new(0, chance.random_range(16..40));
    spec.eviction = rules[chance.random_range(0..5)];
    spec.state_bytes_max = if chance.random_bool(0.3) { 1_000 } else { u64::MAX };
    spec.message_bytes_max = if chance.random_bool(0.3) { 2_000 } else { 1 << 20 };
    spec.urgent_max = chance.random_bool(0.5).then_some(2);
    spec.ageing = chance.random_bool(0.3).then_some(Duration::from_millis(50));
    spec.members_max = chance.random_bool(0.3).then(|| chance.random_range(1..6));
    let tenants = TenantSpec { quantum: 2, weights: vec![1, 2] };
    spec.tenants = chance.random_bool(0.3).then_some(tenants);
    spec.batch_agents_max = chance.random_range(1..6);
    spec.batch_deliveries_max = chance.random_range(1..8);
    spec.pass_messages_max = chance.random_range(1..20);
    spec.held_max = chance.random_range(1..6);
    spec.outbox_max = chance.random_range(1..20);
    spec.sent_max = chance.random_range(1..6);
    spec.id_window = Duration::from_secs(3_600);
    spec.retry = Duration::from_millis(50);
    spec
}

fn any_message(from: u64, ordinal: u64, chance: &mut Chance) -> Envelope<Message> {
    let key = Key(chance.random_range(0..KEYS));
    let other = Key(chance.random_range(0..DELETABLE));
    let mut to = Destination::One(key);
    let (mut audience, mut priority) = (Audience::Everyone, Priority::Normal);
    let all = |chance: &mut Chance| match chance.random_range(0..3) {
        0 => Destination::All,
        1 => Destination::Range(key, Key(key.0 + chance.random_range(0..20))),
        _ => {
            let keys = (0..chance.random_range(0..9)).map(|_| Key(chance.random_range(0..KEYS)));
            Destination::Keys(keys.collect())
        }
    };
    let what = match chance.random_range(0..100) {
        0..20 => What::Add(chance.random_range(1..100)),
        20..32 => {
            (to, priority) = (Destination::One(other), Priority::Urgent);
            What::Add(chance.random_range(1..100))
        }
        32..46 => What::Limits(chance.random_range(5..15), chance.random_range(15..25)),
        46..58 => {
            let price = chance.random_range(0..30);
            to = Destination::Crossed { symbol: SYMBOL, price };
            if price == BAD_PRICE { What::Count } else { What::Price(price) }
        }
        58..70 => {
            to = all(chance);
            What::Price(chance.random_range(0..30))
        }
        70..78 => {
            (to, audience) = (all(chance), Audience::Armed);
            What::Count
        }
        78..86 => What::Arm(chance.random_bool(0.7)),
        86..91 => What::Forward(other, chance.random_range(1..100)),
        91..94 => {
            to = Destination::One(other);
            What::Timer(from * 1_000 + ordinal, Duration::from_millis(chance.random_range(0..400)))
        }
        94 => {
            // Of all priorities that a multicast may have: it divides the log whatever it has.
            (to, priority) =
                (Destination::All, [Priority::Low, Priority::High][key.0 as usize % 2]);
            What::Divide
        }
        other => {
            // Whether the account is there when these are handled must not depend on urgent messages;
            // what cannot be stored must not be deleted before anybody tries.
            let keys = if other < 98 { DELETABLE..DELETABLE + 5 } else { DELETABLE + 5..KEYS };
            to = Destination::One(Key(chance.random_range(keys)));
            match other {
                95..96 => What::Poison,
                96..98 => What::Unstorable,
                _ => What::Delete,
            }
        }
    };
    if let Destination::Crossed { .. } = to
        && what == What::Count
    {
        // All agents, as the reference takes it, or none.
        to = Destination::All;
    }
    let message = Message { from, ordinal, priority, what, behind: 0 };
    let id = Some(MessageId(u128::from(from * 1_000 + ordinal)));
    Envelope { id, sender: from, to, audience, priority, message }
}
