//! Bounds of a partition: of what waits, of what is held in memory, and of work that is done twice.
//! Each test begins with the story of the defect that it found.

use std::collections::BTreeMap;

use agents::{
    Action, Delivery, Destination, Event, Key, Outgoing, PartitionSpec, Priority, Refusal, Row,
    Stored,
};

use crate::probe::{Act, Rig};

fn small() -> PartitionSpec {
    PartitionSpec::new(0, 16)
}

/// A cache of 160 agents: batches have at most 20, and at most 80 agents run.
fn medium() -> PartitionSpec {
    PartitionSpec::new(0, 160)
}

/// Each urgent message that came while a commit was on its way made a batch of its own, which went
/// before those that were there: the last came first, and under a stream of them the first never.
#[test]
fn urgent_messages_run_in_the_order_in_which_they_came_and_together() {
    let mut it = Rig::new(medium());
    (0..60).for_each(|key| _ = it.one(key, Priority::Normal, Act::Cold(1)));
    it.holds_commits = true;
    it.one(59, Priority::Urgent, Act::Cold(2));
    // Every second one is not cached.
    let keys: Vec<u64> = (0..30).flat_map(|key| [key, 1_000 + key]).collect();
    keys.iter().for_each(|&key| _ = it.one(key, Priority::Urgent, Act::Cold(3)));
    assert_eq!(it.answer_commit(), [59]);
    let mut ran = Vec::new();
    while it.rows.values().filter(|row| row.state.as_ref().unwrap().cold.len() == 3).count() < 60 {
        let batch = it.answer_commit();
        assert!(batch.len() <= 20, "a batch has at most 20 agents: {batch:?}");
        ran.extend(batch);
    }
    let cached: Vec<u64> = ran.iter().copied().filter(|&key| key < 1_000).collect();
    assert!(cached.is_sorted(), "{ran:?}");
    assert!(ran.iter().filter(|&&key| key >= 1_000).is_sorted(), "{ran:?}");
    assert_eq!(ran.len(), 60, "{ran:?}");
}

/// A batch that was loaded and ready did not count as waiting, so that nothing limited the urgent
/// messages before it: a stream of these kept it for ever, and its pass from ending.
#[test]
fn a_batch_that_is_ready_is_not_kept_by_a_stream_of_urgent_messages() {
    let mut it = Rig::new(PartitionSpec { urgent_max: Some(4), ..small() });
    (0..3).for_each(|key| _ = it.one(key, Priority::Normal, Act::Cold(1)));
    it.holds_commits = true;
    it.one(0, Priority::Urgent, Act::Cold(2));
    it.one(7, Priority::Normal, Act::Cold(2));
    for n in 1..100 {
        it.one(n % 3, Priority::Urgent, Act::Cold(2));
        if it.answer_commit().contains(&7) {
            assert!(n <= 8, "after {n} commits");
            return;
        }
    }
    panic!("it never ran");
}

/// After a message that failed the batch ran anew up to the next one that failed: a message that all
/// of n agents cannot handle took n^2 / 2 loads.
#[test]
fn a_message_that_no_agent_can_handle_costs_as_much_as_others_do() {
    let mut it = Rig::new(PartitionSpec { batch_agents_max: 100, ..PartitionSpec::new(0, 800) });
    (0..400).for_each(|key| _ = it.one(key, Priority::Normal, Act::Cold(1)));
    let (loaded, commits) = (it.keys_loaded(), it.core.counts().commits);
    it.offer(Destination::All, Priority::Normal, Act::Fail("not for me".to_owned()));
    assert_eq!(it.dead.len(), 400);
    assert_eq!(it.keys_loaded() - loaded, 400, "each is loaded anew once");
    assert!(it.core.counts().commits - commits <= 6);
    let handled = it.core.counts().handled;
    it.offer(Destination::All, Priority::Normal, Act::Look);
    assert_eq!(it.core.counts().handled - handled, 400);
}

/// A message to nobody leaves a row that remembers it. At most 64 of these were erased in a commit,
/// and none when nothing else was to do: a thousand in a batch made nine hundred rows for ever.
#[test]
fn rows_without_a_state_do_not_grow_in_number() {
    let mut it = Rig::new(PartitionSpec { batch_agents_max: 500, ..PartitionSpec::new(0, 4_000) });
    let mut most = 0;
    for round in 0..20 {
        it.holds_appends = true;
        (0..1_000).for_each(|n| {
            _ = it.one(round * 1_000 + n, Priority::Normal, Act::Look);
        });
        it.holds_appends = false;
        while !it.appends.is_empty() {
            it.answer_append();
        }
        most = most.max(it.rows.len());
    }
    assert_eq!(it.dead.len(), 20_000);
    assert!(most <= 2_000, "{most} rows");
    assert_eq!(it.rows.len(), 0);
}

/// Agents left the cache for others only, so that states that grow in the cache were bounded by nothing;
/// and the hot part did not count when it was written alone.
#[test]
fn states_that_grow_in_the_cache_push_others_out_of_it() {
    for act in [Act::Hot(2_000), Act::Cold(2_000)] {
        let mut it = Rig::new(PartitionSpec { state_bytes_max: 10_000, ..small() });
        (0..16).for_each(|key| _ = it.one(key, Priority::Normal, Act::Cold(10)));
        assert_eq!(it.core.agents(), (16, 16));
        (0..16).for_each(|key| _ = it.one(key, Priority::Normal, act.clone()));
        assert_eq!(
            it.rows[&Key(3)].state.as_ref().map(|it| it.cold.len() + it.hot.len() >= 2_000),
            Some(true)
        );
        let (bytes, cached) = (it.core.bytes().0, it.core.agents().1);
        assert!(bytes <= 10_000 && (4..=5).contains(&cached), "{bytes} bytes, {cached} agents");
    }
}

/// Timers of one agent that were due together were handled the last one first, and before messages of
/// a higher priority.
#[test]
fn timers_fire_in_the_order_in_which_they_are_due() {
    let mut it = Rig::new(small());
    for (name, span) in [(1, 30), (2, 10), (3, 20)] {
        it.one(1, Priority::Normal, Act::Timer(name, span));
    }
    it.now = 1_000;
    it.tell(Event::Wake);
    let names: Vec<u8> = it.notified.iter().map(|one| one.payload[0]).collect();
    assert_eq!(names, [2, 3, 1]);
}

/// A clock that jumps an hour ahead: a timer of each second fires once, and in each second after it. Set back, the
/// clock of the core stands, and nothing fires a second time; when the other has caught up all goes on.
#[test]
fn a_clock_that_jumps_makes_no_timer_fire_sixty_times() {
    let mut it = Rig::new(small());
    it.one(1, Priority::Normal, Act::Every(1, 1_000));
    let mut fired = |now: u64| {
        it.now = now;
        it.tell(Event::Wake);
        std::mem::take(&mut it.notified).len()
    };
    assert_eq!([999, 1_000, 1_999, 2_000].map(&mut fired), [0, 1, 0, 1]);
    assert_eq!([3_602_500, 3_602_999, 3_603_000].map(&mut fired), [1, 0, 1]);
    assert_eq!([3_000, 4_000, 3_603_000].map(&mut fired), [0, 0, 0]);
    assert_eq!([3_604_000, 3_605_000].map(&mut fired), [1, 1]);
}

/// Timers have the usual priority: a message of a higher one that waits with them comes first.
#[test]
fn a_timer_waits_for_messages_of_a_higher_priority() {
    let mut it = Rig::new(small());
    it.one(1, Priority::Normal, Act::Timer(9, 10));
    it.holds_commits = true;
    it.one(1, Priority::Normal, Act::Cold(1));
    it.one(1, Priority::High, Act::Notify);
    it.now = 1_000;
    while !it.commits.is_empty() {
        it.answer_commit();
    }
    let payloads: Vec<usize> = it.notified.iter().map(|one| one.payload.len()).collect();
    assert_eq!(payloads, [0, 8]);
}

/// A panic of a handler was a failure, but one of `decode` or `bounds` was the end of the partition.
#[test]
fn a_panic_of_any_part_of_an_agent_is_a_failure() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let state = Some(Stored { cold: vec![0xff], hot: vec![] });
    let row = Row { state, ..Row::default() };
    let mut it = Rig::open(small(), BTreeMap::from([(Key(1), row)]));
    it.one(1, Priority::Normal, Act::Cold(1));
    it.one(2, Priority::Normal, Act::Cold(1));
    it.one(2, Priority::Normal, Act::BreakBounds);
    std::panic::set_hook(hook);
    let reasons: Vec<&str> = it.dead.iter().map(|dead| dead.reason.as_str()).collect();
    assert_eq!(
        reasons,
        ["its state cannot be read: it panicked: no such byte", "it panicked: there are none"]
    );
}

/// Causes come from handlers. One of a megabyte, or with a NUL that PostgreSQL stores in no text, was
/// written as it was; the store refused it, and the batch ran anew for ever.
#[test]
fn the_cause_of_a_dead_letter_is_short_and_can_be_stored() {
    let mut it = Rig::new(small());
    it.refuses_commit = |commit| commit.dead.iter().any(|dead| dead.reason.contains('\0'));
    it.one(1, Priority::Normal, Act::Fail(format!("a\0b\n{}", "é".repeat(1_000_000))));
    assert_eq!(it.dead.len(), 1);
    let reason = &it.dead[0].reason;
    assert!(reason.starts_with("a b é") && reason.len() <= 1_100, "{} bytes", reason.len());
    assert_eq!(it.dead[0].delivery, Delivery::Message(Priority::Normal, agents::Seq(1)));
}

/// A dead letter that the store refuses too was tried again at once, and again.
#[test]
fn what_the_store_refuses_in_any_form_is_tried_again_after_a_wait() {
    let mut it = Rig::new(small());
    it.refuses_commit = |commit| !commit.rows.is_empty();
    it.one(1, Priority::Normal, Act::Cold(1));
    assert_eq!(it.dead.len(), 0);
    assert_eq!(it.core.next_wakeup(), Some(gate::Time::from_nanos(100_000_000)));
    it.refuses_commit = |_| false;
    it.now = 100;
    it.tell(Event::Wake);
    assert_eq!(it.dead.len(), 1);
    assert!(it.core.is_idle());
    // The same of the cursor alone.
    it.refuses_commit = |_| true;
    it.holds_deliveries = true;
    it.one(2, Priority::Normal, Act::Look);
    assert!(it.core.next_wakeup().is_some());
}

/// An append that the store refused was refused to all whose messages were in it.
#[test]
fn only_the_message_that_the_store_refuses_is_refused() {
    let mut it = Rig::new(small());
    it.refuses_append =
        |append| append.entries.iter().any(|it| it.envelope.message == Act::Cold(666));
    it.holds_appends = true;
    it.one(0, Priority::Normal, Act::Cold(0));
    let bad = [5, 23].map(|at| 2 + at);
    for n in 0..40_u64 {
        let act = if bad.contains(&(n + 2)) { Act::Cold(666) } else { Act::Cold(1) };
        it.one(n, Priority::Normal, act);
    }
    while !it.appends.is_empty() {
        it.answer_append();
    }
    let mut refused = Vec::new();
    let mut answered = 0;
    for action in &it.seen {
        match action {
            Action::Refuse { ticket, cause: Refusal::Store(_) } => refused.push(*ticket),
            Action::Refuse { cause, .. } => panic!("{cause:?}"),
            Action::Answer { .. } => answered += 1,
            _ => {}
        }
    }
    assert_eq!((refused.as_slice(), answered), (bad.as_slice(), 39));
    let appends = it.seen.iter().filter(|action| matches!(action, Action::Append(_))).count();
    assert!(appends <= 25, "{appends} appends");
    // The next ones go together again.
    (0..40).for_each(|n| _ = it.one(n, Priority::Normal, Act::Cold(1)));
    it.answer_append();
    assert_eq!(it.appends.len(), 1);
    assert_eq!(it.appends[0].entries.len(), 39);
}

/// Messages between agents come in groups. Clients, whose messages are let in one by one, took each bit
/// of room, so that a group never found enough.
#[test]
fn room_that_a_group_of_messages_waits_for_is_not_given_to_clients() {
    let mut it = Rig::new(PartitionSpec { message_bytes_max: 1_000, ..small() });
    it.holds_commits = true;
    let fits = |it: &mut Rig, key| {
        let ticket = it.one(key, Priority::Urgent, Act::Cold(1));
        it.seen
            .iter()
            .any(|action| matches!(action, Action::Answer { ticket: t, .. } if *t == ticket))
    };
    let full = (0..20).take_while(|&key| fits(&mut it, key)).count();
    assert!((4..=8).contains(&full), "{full}");
    let group = |n: u64| Outgoing {
        n,
        from: Key(9),
        to: Key(n),
        priority: Priority::Normal,
        message: Act::Cold(1),
    };
    let messages: Vec<_> = (1..=3).map(group).collect();
    let incoming = Event::Incoming { from: 7, messages };
    let declined = |it: &Rig| {
        it.seen.iter().filter(|action| matches!(action, Action::Decline { from: 7 })).count()
    };
    it.tell(incoming.clone());
    assert_eq!(declined(&it), 1);
    for round in 0..100 {
        it.answer_commit();
        while fits(&mut it, round) {}
        let before = declined(&it);
        it.tell(incoming.clone());
        if declined(&it) == before {
            // The room is free for clients again.
            (0..5).for_each(|_| {
                if !it.commits.is_empty() {
                    it.answer_commit();
                }
            });
            assert!(fits(&mut it, 3));
            return;
        }
        assert!(!it.commits.is_empty(), "round {round}");
    }
    panic!("it never found room");
}

/// The room is not kept for ever for a partition that does not come again.
#[test]
fn room_is_kept_for_a_group_for_a_while_only() {
    let mut it = Rig::new(PartitionSpec { message_bytes_max: 1_000, ..small() });
    it.holds_commits = true;
    (0..8).for_each(|key| _ = it.one(key, Priority::Urgent, Act::Cold(1)));
    let messages = (1..=8).map(|n| Outgoing {
        n,
        from: Key(9),
        to: Key(n),
        priority: Priority::Normal,
        message: Act::Cold(1),
    });
    it.tell(Event::Incoming { from: 7, messages: messages.collect() });
    it.holds_commits = false;
    while !it.commits.is_empty() {
        it.answer_commit();
    }
    assert!(it.core.is_idle());
    it.one(1, Priority::Normal, Act::Cold(1));
    it.now = 10_000;
    it.one(2, Priority::Normal, Act::Cold(1));
    let last = it.seen.iter().rev().find_map(|action| match action {
        Action::Answer { ticket, .. } => Some(*ticket),
        _ => None,
    });
    assert_eq!(last, Some(10));
}

/// An owner that had stopped did not answer what came from another partition, which waited for ever.
#[test]
fn an_owner_that_has_stopped_declines_what_comes_from_other_partitions() {
    let mut it = Rig::new(small());
    it.holds_appends = true;
    let message = |n| Outgoing {
        n,
        from: Key(9),
        to: Key(n),
        priority: Priority::Normal,
        message: Act::Cold(1),
    };
    it.tell(Event::Incoming { from: 7, messages: vec![message(1)] });
    let declined = |it: &Rig| {
        it.seen.iter().filter(|action| matches!(action, Action::Decline { from: 7 })).count()
    };
    let (epoch, log_end) = (agents::Epoch(2), agents::Seq(0));
    it.tell(Event::Appended(agents::Outcome::Conflict { epoch, version: 0, log_end }));
    assert_eq!(declined(&it), 1, "what it had not written");
    it.tell(Event::Incoming { from: 7, messages: vec![message(1)] });
    assert_eq!(declined(&it), 2);
}

/// A multicast to a few neighbours looked at all agents that there are.
#[test]
fn a_range_of_few_looks_at_few() {
    let row = Row { state: Some(Stored { cold: vec![0], hot: vec![] }), ..Row::default() };
    let rows = (0..100_000).map(|key| (Key(key), row.clone())).collect();
    let mut it = Rig::open(small(), rows);
    it.offer(Destination::Range(Key(70_000), Key(70_004)), Priority::Normal, Act::Look);
    assert_eq!(it.core.counts().handled, 5);
    let again = it.seen.iter().filter(|action| matches!(action, Action::Continue)).count();
    assert!(again <= 2, "{again} times");
}

/// A destination that was gone filled the store with notifications for it.
#[test]
fn agents_wait_while_the_outbox_is_full() {
    let spec = PartitionSpec { outbox_max: 10, batch_agents_max: 4, ..PartitionSpec::new(0, 80) };
    let mut it = Rig::new(spec);
    it.holds_deliveries = true;
    (0..60).for_each(|key| _ = it.one(key, Priority::Normal, Act::Notify));
    let all = it.notified.len();
    assert!((10..14).contains(&all), "{all} notifications: the bound and one batch at most");
    assert!(!it.core.is_idle());
    for n in 1..=60 {
        it.tell(Event::Delivered(n));
        let waiting = it.notified.len() as u64 - n;
        assert!(waiting < 14, "{waiting} of {} wait", it.notified.len());
    }
    assert_eq!(it.notified.len(), 60);
    assert!(it.core.is_idle());
}

/// Messages to a partition that took none filled the store.
#[test]
fn clients_wait_while_too_many_messages_are_between_agents() {
    let mut it = Rig::new(PartitionSpec { sent_max: 3, ..small() });
    (0..3).for_each(|key| _ = it.one(key, Priority::Normal, Act::Send(Key(100))));
    let ticket = it.one(7, Priority::Normal, Act::Cold(1));
    let refused = |it: &Rig, ticket| {
        it.seen.iter().any(|action| {
            matches!(action, Action::Refuse { ticket: t, cause: Refusal::Full } if *t == ticket)
        })
    };
    assert!(refused(&it, ticket));
    it.tell(Event::Relayed(1));
    let ticket = it.one(7, Priority::Normal, Act::Cold(1));
    assert!(!refused(&it, ticket));
    assert!(it.rows.contains_key(&Key(7)));
}
