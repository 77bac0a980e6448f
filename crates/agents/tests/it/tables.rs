//! Guarantees and refusals, one by one, with a shell that does at once what it is asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agents::{
    Action, Agent, Audience, Context, Delivery, Destination, Effect, Envelope, Event, Failure, Key,
    LoadWay, MessageId, Partition, PartitionError, PartitionSpec, Priority, Refusal, Seq,
};
use gate::{EvictionRule, Time};

use crate::account::{Account, FIRED, Message, SYMBOL, What, precomputed};
use crate::store::Store;

/// A partition, its store, and a shell without delays.
struct Shell {
    core: Partition<Account>,
    store: Store,
    now: u64,
    tickets: u64,
    /// Actions that somebody may want to see.
    seen: Vec<Action<Message>>,
    delivers: bool,
}

impl Shell {
    fn new(spec: PartitionSpec) -> Shell {
        let mut store = Store::default();
        let core = Partition::open(spec, Time::ZERO, store.acquire()).unwrap();
        Shell { core, store, now: 0, tickets: 0, seen: Vec::new(), delivers: true }
    }

    /// Another owner opens the partition, on what the store has.
    fn reopen(&mut self, spec: PartitionSpec) -> Partition<Account> {
        let fresh = Partition::open(spec, self.time(), self.store.acquire()).unwrap();
        std::mem::replace(&mut self.core, fresh)
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now * 1_000_000)
    }

    fn tell(&mut self, event: Event<Message>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            self.core.handle(self.time(), event, &mut actions);
            for action in actions {
                self.seen.push(action.clone());
                events.extend(self.answer(action));
            }
        }
    }

    fn answer(&mut self, action: Action<Message>) -> Option<Event<Message>> {
        Some(match action {
            Action::Append(append) => Event::Appended(self.store.append(&append)),
            Action::Commit(commit) => {
                Event::Committed(self.store.commit(&commit, self.now, self.now))
            }
            Action::Load { load, keys, .. } => {
                Event::Loaded { load, rows: Some(self.store.load(&keys)) }
            }
            Action::ReadOutbox { after, limit } => {
                Event::Outbox(Some(self.store.outbox(after, limit)))
            }
            Action::ReadSent { after, limit } => Event::Sent(Some(self.store.sent(after, limit))),
            Action::Deliver(notification) if self.delivers => Event::Delivered(notification.n),
            Action::Relay(messages) => Event::Incoming { from: 0, messages },
            Action::Accept { upto, .. } => Event::Relayed(upto),
            Action::Decline { .. } => Event::Declined,
            Action::Continue => Event::Wake,
            Action::Deliver(_)
            | Action::Answer { .. }
            | Action::Refuse { .. }
            | Action::Stop(_) => {
                return None;
            }
        })
    }

    fn send(&mut self, to: Destination, priority: Priority, what: What) {
        self.give(None, to, Audience::Everyone, priority, what);
    }

    fn give(
        &mut self,
        id: Option<MessageId>,
        to: Destination,
        audience: Audience,
        priority: Priority,
        what: What,
    ) {
        self.tickets += 1;
        let message = Message { from: 0, ordinal: 0, priority, what, behind: 0 };
        let envelope = Envelope { id, sender: 0, to, audience, priority, message };
        self.tell(Event::Offer { ticket: self.tickets, envelope });
    }

    fn one(&mut self, key: u64, what: What) {
        self.send(Destination::One(Key(key)), Priority::Normal, what);
    }

    fn account(&self, key: u64) -> Option<Account> {
        let row = self.store.rows.get(&Key(key))?;
        let state = row.state.as_ref()?;
        Some(Account::decode(row.header.version, &state.cold, &state.hot).unwrap())
    }

    fn answers(&self) -> Vec<(u64, Result<u64, Refusal>)> {
        let all = self.seen.iter().filter_map(|action| match action {
            Action::Answer { ticket, seq } => Some((*ticket, Ok(seq.0))),
            Action::Refuse { ticket, cause } => Some((*ticket, Err(cause.clone()))),
            _ => None,
        });
        all.collect()
    }
}

fn small() -> PartitionSpec {
    PartitionSpec::new(0, 16)
}

#[test]
fn a_message_is_acknowledged_when_it_is_durable_and_takes_effect_once() {
    let mut it = Shell::new(small());
    let id = Some(MessageId(7));
    let give = |it: &mut Shell| {
        let to = Destination::One(Key(1));
        it.give(id, to, Audience::Everyone, Priority::Normal, What::Add(5));
    };
    give(&mut it);
    assert!(matches!(it.seen[0], Action::Append(_)), "{:?}", it.seen);
    assert!(matches!(it.seen[1], Action::Answer { ticket: 1, seq: Seq(1) }));
    give(&mut it);
    assert_eq!(it.answers(), [(1, Ok(1)), (2, Ok(1))]);
    assert_eq!((it.account(1).unwrap().sum, it.store.log.len()), (5, 1));
    assert!(it.core.is_idle());
    // The span for which ids are remembered is over: the same id is another message. A new owner
    // remembers them as well.
    it.reopen(small());
    give(&mut it);
    assert_eq!(it.store.log.len(), 1);
    it.now += 700_000;
    it.one(2, What::Add(1));
    give(&mut it);
    assert_eq!((it.account(1).unwrap().sum, it.store.log.len()), (10, 3));
}

#[test]
fn an_urgent_message_overtakes_a_pass() {
    let mut it = Shell::new(small());
    (0..40).for_each(|key| it.one(key, What::Add(1)));
    it.seen.clear();
    // A multicast is accepted; while its first batch is loaded, an urgent message comes.
    let message = |what, priority| Message { from: 0, ordinal: 0, priority, what, behind: 0 };
    let multicast = Envelope {
        id: None,
        sender: 0,
        to: Destination::All,
        audience: Audience::Everyone,
        priority: Priority::Normal,
        message: message(What::Count, Priority::Normal),
    };
    let urgent = Envelope {
        to: Destination::One(Key(39)),
        priority: Priority::Urgent,
        message: message(What::Add(7), Priority::Urgent),
        ..multicast.clone()
    };
    let mut actions = Vec::new();
    it.core.handle(it.time(), Event::Offer { ticket: 1, envelope: multicast }, &mut actions);
    it.core.handle(it.time(), Event::Offer { ticket: 2, envelope: urgent }, &mut actions);
    let mut commits = Vec::new();
    let mut events: VecDeque<Action<Message>> = actions.into();
    while let Some(action) = events.pop_front() {
        if let Action::Commit(commit) = &action {
            commits.push(commit.rows.iter().map(|row| row.key.0).collect::<Vec<u64>>());
        }
        if let Some(event) = it.answer(action) {
            let mut actions = Vec::new();
            it.core.handle(it.time(), event, &mut actions);
            events.extend(actions);
        }
    }
    let at = commits.iter().position(|keys| keys == &[39]).expect("a batch of its own");
    assert!(at <= 6, "in commit {at} of {}: {commits:?}", commits.len());
    assert!(commits.len() > 15, "{commits:?}");
    assert_eq!(it.account(39).unwrap().urgent, 7);
    assert!((0..40).all(|key| it.account(key).unwrap().counted == 1));
}

/// A price is inside of an account's limits, so that it changes nothing and leaves no trace. The
/// account leaves the cache. Then an urgent message sets other limits, in the same pass, and is the
/// last that the owner commits. The next one must not hand the old price to the account again: it is
/// outside of the new limits.
#[test]
fn a_message_that_changed_nothing_is_not_handled_again_on_a_later_state() {
    // At several moments of the pass; in some of them the account has left the cache.
    (20..58).for_each(limits_change_after_so_many_deliveries);
}

fn limits_change_after_so_many_deliveries(deliveries: u64) {
    let spec = PartitionSpec { eviction: EvictionRule::Lru, ..small() };
    let mut it = Shell::new(spec.clone());
    (0..60).for_each(|key| it.one(key, What::Limits(0, 100)));
    let before = it.core.counts().handled;
    let envelope = Envelope {
        id: None,
        sender: 0,
        to: Destination::All,
        audience: Audience::Everyone,
        priority: Priority::Normal,
        message: Message {
            from: 0,
            ordinal: 0,
            priority: Priority::Normal,
            what: What::Price(50),
            behind: 0,
        },
    };
    let limits = Envelope {
        to: Destination::One(Key(44)),
        priority: Priority::Urgent,
        message: Message {
            from: 0,
            ordinal: 0,
            priority: Priority::Urgent,
            what: What::Limits(0, 10),
            behind: 0,
        },
        ..envelope.clone()
    };
    let mut queue = VecDeque::from([Event::Offer { ticket: 1, envelope }]);
    let mut handled = 0;
    let (mut given, mut reopened) = (false, false);
    while let Some(event) = queue.pop_front() {
        let mut actions = Vec::new();
        it.core.handle(it.time(), event, &mut actions);
        handled += 1;
        assert!(handled < 1_000);
        // The 16 that were cached ran first, 44 among them, the first to leave the cache.
        if !given && it.core.counts().handled >= before + deliveries {
            given = true;
            queue.push_back(Event::Offer { ticket: 2, envelope: limits.clone() });
        }
        queue.extend(actions.into_iter().filter_map(|action| it.answer(action)));
        // A new owner goes on with the pass, and has only the rows to tell.
        if given && !reopened && it.store.rows[&Key(44)].header.bounds[0].high == 10 {
            reopened = true;
            it.reopen(spec.clone());
            queue = VecDeque::from([Event::Wake]);
        }
    }
    assert!(reopened);
    assert_eq!(it.account(44).unwrap().fired, 0, "{deliveries}: 50 came before the limits");
    it.send(Destination::All, Priority::Normal, What::Price(50));
    assert_eq!(it.account(44).unwrap().fired, 1);
}

#[test]
fn a_multicast_is_one_entry_and_reaches_all() {
    let mut it = Shell::new(PartitionSpec { batch_agents_max: 100, ..PartitionSpec::new(0, 800) });
    (0..2_000).for_each(|key| it.one(key, What::Add(1)));
    let (entries, commits) = (it.store.log.len(), it.core.counts().commits);
    it.seen.clear();
    it.send(Destination::All, Priority::Normal, What::Count);
    assert_eq!(it.store.log.len(), entries + 1);
    assert!((0..2_000).all(|key| it.account(key).unwrap().counted == 1));
    assert!(it.core.counts().commits - commits <= 23, "20 batches of 100, and the cursor");
    let loads = it.seen.iter().filter_map(|action| match action {
        Action::Load { keys, way, .. } => Some((keys.len(), keys.is_sorted(), *way)),
        _ => None,
    });
    let loads: Vec<_> = loads.collect();
    assert_eq!(loads.iter().map(|it| it.0).sum::<usize>(), 1_200, "the cached share is not loaded");
    assert!(loads.iter().all(|it| it.1 && it.2 == LoadWay::Range), "{loads:?}");
    assert!(loads.len() <= 13, "{}", loads.len());
}

/// The agents of a batch are precomputed together, those that are cached as those that are loaded, and each once.
#[test]
fn a_batch_is_precomputed_at_once() {
    let mut it = Shell::new(PartitionSpec { batch_agents_max: 100, ..PartitionSpec::new(0, 800) });
    (0..2_000).for_each(|key| it.one(key, What::Add(1)));
    precomputed();
    it.send(Destination::All, Priority::Normal, What::Count);
    let batches = precomputed();
    assert!(batches.len() <= 23, "20 batches of 100, and those at the edges: {}", batches.len());
    let mut all: Vec<(u64, What)> = batches.concat();
    all.sort_unstable_by_key(|(key, _)| *key);
    assert_eq!(all, (0..2_000).map(|key| (key, What::Count)).collect::<Vec<_>>());
    it.one(3, What::Add(1));
    assert_eq!(precomputed(), Vec::<Vec<_>>::new(), "it is not worth it");
    it.one(3, What::Price(7));
    assert_eq!(precomputed(), [[(3, What::Price(7))]]);
}

#[test]
fn a_precomputation_that_panics_is_without_consequences() {
    let mut it = Shell::new(small());
    (0..3).for_each(|key| it.one(key, What::Add(1)));
    precomputed();
    it.one(1, What::Panic);
    assert_eq!(precomputed()[0], [(1, What::Panic)]);
    let dead: Vec<(u64, &str)> =
        it.store.dead.iter().map(|one| (one.key.0, one.reason.as_str())).collect();
    assert_eq!(dead, [(1, "it panicked: on purpose")]);
    assert!((0..3).all(|key| it.account(key).unwrap().sum == 1));
}

#[test]
fn few_of_many_are_loaded_by_key_and_those_inside_of_their_bounds_are_left_alone() {
    let mut it = Shell::new(small());
    (0..500).for_each(|key| it.one(key, What::Limits(0, 100)));
    for key in [70, 210, 400] {
        it.one(key, What::Limits(0, 50));
    }
    (0..20).for_each(|key| it.one(key, What::Add(0)));
    it.seen.clear();
    let handled = it.core.counts().handled;
    it.send(Destination::Crossed { symbol: SYMBOL, price: 60 }, Priority::Normal, What::Price(60));
    assert_eq!(it.core.counts().handled - handled, 3);
    let mut fired: Vec<u64> = it.store.notified.iter().map(|one| one.key.agent.0).collect();
    fired.sort_unstable();
    assert_eq!(fired, [70, 210, 400]);
    assert!(it.store.notified.iter().all(|one| one.key.rule == FIRED && one.key.firing == 1));
    let ways: Vec<LoadWay> = (it.seen.iter())
        .filter_map(|action| match action {
            Action::Load { way, keys, .. } if keys.len() > 1 => Some(*way),
            _ => None,
        })
        .collect();
    assert!(ways.iter().all(|way| *way == LoadWay::Keys), "{ways:?}");
}

/// Any order of keys, any repetition: each named account that exists receives it once.
#[test]
fn keys_may_come_in_any_order() {
    let mut it = Shell::new(small());
    (0..5).for_each(|key| it.one(key, What::Add(1)));
    let keys: Arc<[Key]> = [4, 9, 0, 4, 2].map(Key).into();
    it.send(Destination::Keys(keys), Priority::Normal, What::Count);
    let counted: Vec<u64> = (0..5).map(|key| it.account(key).unwrap().counted).collect();
    assert_eq!((counted, it.account(9)), (vec![1, 0, 1, 0, 1], None));
}

#[test]
fn what_has_no_room_is_refused_and_nothing_of_it_is_lost() {
    let spec = PartitionSpec { message_bytes_max: 600, ids_max: 3, ..small() };
    let mut it = Shell::new(spec);
    let mut actions = Vec::new();
    for ticket in 1..=4 {
        let message = Message {
            from: 0,
            ordinal: 0,
            priority: Priority::Normal,
            what: What::Add(1),
            behind: 0,
        };
        let envelope = Envelope {
            id: None,
            sender: 0,
            to: Destination::One(Key(1)),
            audience: Audience::Everyone,
            priority: Priority::Normal,
            message,
        };
        it.core.handle(it.time(), Event::Offer { ticket, envelope }, &mut actions);
    }
    let refused = |action: &&Action<Message>| matches!(action, Action::Refuse { .. });
    assert_eq!(actions.iter().filter(refused).count(), 1, "three fit: {actions:?}");
    while let Some(action) = actions.pop() {
        if let Some(event) = it.answer(action) {
            it.core.handle(it.time(), event, &mut actions);
        }
    }
    assert_eq!(it.account(1).unwrap().sum, 3);
    it.send(Destination::All, Priority::Urgent, What::Count);
    assert_eq!(it.answers(), [(1, Err(Refusal::UrgentMulticast))]);
    for id in 0..4 {
        let to = Destination::One(Key(1));
        let id = Some(MessageId(id));
        it.give(id, to, Audience::Everyone, Priority::Normal, What::Add(1));
    }
    assert_eq!(it.answers()[4], (5, Err(Refusal::Full)), "three ids are remembered");
    it.now += 700_000;
    let to = Destination::One(Key(1));
    it.give(Some(MessageId(4)), to, Audience::Everyone, Priority::Normal, What::Add(1));
    assert!(it.answers()[5].1.is_ok(), "{:?}", it.answers());
}

#[test]
fn what_cannot_be_handled_is_a_dead_letter_and_its_batch_goes_on() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut it = Shell::new(PartitionSpec { batch_agents_max: 100, ..PartitionSpec::new(0, 800) });
    (0..100).for_each(|key| it.one(key, What::Limits(0, 100)));
    let bad = [(7, What::Poison), (31, What::Unstorable), (64, What::Panic)];
    let mut events = Vec::new();
    for key in 0..100 {
        let what = bad.iter().find(|it| it.0 == key).map_or(What::Add(1), |it| it.1.clone());
        let priority = Priority::Normal;
        let message = Message { from: 0, ordinal: 0, priority, what, behind: 0 };
        let to = Destination::One(Key(key));
        let audience = Audience::Everyone;
        let envelope = Envelope { id: None, sender: 0, to, audience, priority, message };
        events.push(Event::Offer { ticket: key, envelope });
    }
    let commits = it.core.counts().commits;
    // All in one append, and so in one batch.
    let mut actions = Vec::new();
    events.into_iter().for_each(|event| it.core.handle(it.time(), event, &mut actions));
    let mut actions = VecDeque::from(actions);
    while let Some(action) = actions.pop_front() {
        if let Some(event) = it.answer(action) {
            let mut more = Vec::new();
            it.core.handle(it.time(), event, &mut more);
            actions.extend(more);
        }
    }
    std::panic::set_hook(hook);
    let sums: u64 = (0..100).map(|key| it.account(key).unwrap().sum).sum();
    assert_eq!(sums, 97);
    let mut dead: Vec<(u64, &str)> =
        it.store.dead.iter().map(|dead| (dead.key.0, dead.reason.as_str())).collect();
    dead.sort_unstable();
    let store = "the store refuses its effects: a mark that is not allowed";
    assert_eq!(dead, [(7, "poison"), (31, store), (64, "it panicked: on purpose")]);
    let commits = it.core.counts().commits - commits;
    assert!(commits <= 20, "{commits} commits: halving takes a logarithm");
}

#[test]
fn a_message_to_nobody_is_a_dead_letter() {
    let mut it = Shell::new(small());
    it.one(3, What::Delete);
    assert_eq!(it.store.dead.len(), 1);
    assert_eq!(it.store.dead[0].reason, "there is no such agent");
    assert_eq!(it.store.dead[0].delivery, Delivery::Message(Priority::Normal, Seq(1)));
    it.one(3, What::Add(2));
    it.one(3, What::Timer(1, Duration::from_secs(5)));
    it.one(3, What::Delete);
    assert_eq!((it.account(3), it.core.agents().0), (None, 0));
    it.now += 10_000;
    it.tell(Event::Wake);
    assert_eq!(it.store.notified, [], "its timer ended with it");
    assert!(it.store.rows.is_empty(), "nothing is left of it: {:?}", it.store.rows);
}

#[test]
fn a_timer_that_nobody_was_there_for_fires_once() {
    let mut it = Shell::new(small());
    it.one(1, What::Timer(9, Duration::from_secs(5)));
    assert_eq!(it.core.next_wakeup(), Some(Time::from_nanos(5_000_000_000)));
    it.now = 4_999;
    it.tell(Event::Wake);
    assert_eq!(it.store.notified.len(), 0);
    it.now = 60_000;
    it.reopen(small());
    it.tell(Event::Wake);
    it.tell(Event::Wake);
    assert_eq!((it.store.notified.len(), it.account(1).unwrap().rang), (1, 1));
    assert_eq!(it.core.next_wakeup(), None);
}

#[test]
fn a_notification_is_delivered_again_by_the_next_owner_under_its_name() {
    let mut it = Shell::new(small());
    it.delivers = false;
    it.one(1, What::Limits(0, 10));
    it.send(Destination::All, Priority::Normal, What::Price(11));
    let delivered = |it: &Shell| {
        let all = it.seen.iter().filter_map(|action| match action {
            Action::Deliver(notification) => Some(notification.clone()),
            _ => None,
        });
        all.collect::<Vec<_>>()
    };
    let first = delivered(&it);
    assert_eq!(first.len(), 1);
    it.seen.clear();
    it.delivers = true;
    it.reopen(small());
    it.tell(Event::Wake);
    assert_eq!(delivered(&it), first);
    it.seen.clear();
    it.reopen(small());
    it.tell(Event::Wake);
    assert_eq!(delivered(&it), [], "the store knows that it was delivered");
}

#[test]
fn an_owner_that_was_replaced_changes_nothing_and_stops() {
    let mut it = Shell::new(small());
    it.one(1, What::Add(1));
    let zombie = it.reopen(small());
    it.one(1, What::Add(2));
    let fresh = std::mem::replace(&mut it.core, zombie);
    it.seen.clear();
    it.one(1, What::Add(4));
    assert_eq!(it.answers(), [(3, Err(Refusal::Stopped))]);
    assert!(it.seen.iter().any(|action| matches!(action, Action::Stop(_))));
    it.one(1, What::Add(8));
    assert_eq!(it.answers()[1], (4, Err(Refusal::Stopped)));
    it.core = fresh;
    it.one(1, What::Add(16));
    assert_eq!(it.account(1).unwrap().sum, 1 + 2 + 16);
}

#[test]
fn a_state_that_cannot_be_read_is_kept() {
    let mut it = Shell::new(small());
    it.one(1, What::Add(1));
    let row = it.store.rows.get_mut(&Key(1)).unwrap();
    row.header.version = 99;
    let state = row.state.clone();
    it.reopen(small());
    it.one(1, What::Add(2));
    assert_eq!(it.store.dead[0].reason, "its state cannot be read: version 99");
    assert_eq!(it.store.rows[&Key(1)].state, state);
}

#[test]
fn agents_send_to_agents() {
    let mut it = Shell::new(small());
    it.one(1, What::Forward(Key(2), 5));
    it.one(1, What::Forward(Key(1), 6));
    assert_eq!((it.account(2).unwrap().sum, it.account(1).unwrap().sum), (5, 6));
    assert!(it.core.is_idle() && it.store.is_empty());
}

#[test]
fn parameters_that_mean_nothing_are_refused() {
    let refused = |spec: PartitionSpec| {
        Partition::<Account>::open(spec, Time::ZERO, Store::default().acquire()).unwrap_err()
    };
    let rule = |spec| refused(spec).to_string();
    assert_eq!(rule(PartitionSpec::new(0, 15)), "a cache holds at least 16 agents");
    assert_eq!(
        rule(PartitionSpec { batch_agents_max: 0, ..small() }),
        "a batch has at least 1 agent"
    );
    let rule_of_outbox = "an outbox holds at least 1 notification";
    assert_eq!(rule(PartitionSpec { outbox_max: 0, ..small() }), rule_of_outbox);
    assert!(matches!(
        refused(PartitionSpec { urgent_max: Some(0), ..small() }),
        PartitionError::Scheduler(_)
    ));
}

/// A handler can be tested without a core.
#[test]
fn a_handler_is_a_function() {
    let message =
        |what| Message { from: 0, ordinal: 0, priority: Priority::Normal, what, behind: 0 };
    let mut account = Account::create(Key(1), &message(What::Add(0))).unwrap();
    let mut cx = Context::new(Time::ZERO, Key(1), 0);
    let failure = Err(Failure("poison".to_owned()));
    assert_eq!(account.on(&message(What::Poison), &mut cx), failure);
    assert_eq!(account.on(&message(What::Price(5)), &mut cx), Ok(Effect::Clean));
}

#[test]
fn a_read_that_fails_is_tried_again_after_a_wait() {
    let mut it = Shell::new(small());
    it.delivers = false;
    it.one(1, What::Limits(0, 10));
    it.send(Destination::All, Priority::Normal, What::Price(11));
    it.reopen(small());
    let reads = |it: &mut Shell, event| {
        let mut actions = Vec::new();
        it.core.handle(it.time(), event, &mut actions);
        actions.iter().filter(|action| matches!(action, Action::ReadOutbox { .. })).count()
    };
    assert_eq!(reads(&mut it, Event::Wake), 1);
    assert_eq!(reads(&mut it, Event::Outbox(None)), 0);
    assert_eq!(it.core.next_wakeup(), Some(Time::from_nanos(100_000_000)));
    it.now = 99;
    assert_eq!(reads(&mut it, Event::Wake), 0);
    it.now = 100;
    assert_eq!(reads(&mut it, Event::Wake), 1);
}
