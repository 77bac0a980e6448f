//! Slots that come and go, servers that go down and up.

use gate::{DisciplineSpec, Event, GateSpec, Length, RouterSpec, ServerView, SpecError, Ties};

use crate::play::{Play, arrive, depart, full, per_server, renege, resize, shared, start};

#[test]
fn the_slot_that_is_free_longest_is_taken() {
    let mut play = Play::new(&GateSpec::fifo(3));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (1, depart(0, 0), &[]),
        (1, arrive(2), &[start(2, 0, 1)]),
        (1, arrive(3), &[start(3, 0, 2)]),
        (2, depart(0, 2), &[]),
        (2, depart(0, 1), &[]),
        (2, arrive(4), &[start(4, 0, 0)]),
        (2, arrive(5), &[start(5, 0, 2)]),
        (2, arrive(6), &[start(6, 0, 1)]),
    ]);
}

#[test]
fn growth_starts_those_who_wait() {
    let mut play = Play::new(&GateSpec::fifo(1));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[]),
        (0, arrive(3), &[]),
        (0, arrive(4), &[]),
        (1, resize(0, 3), &[start(2, 0, 1), start(3, 0, 2)]),
        (2, depart(0, 1), &[start(4, 0, 1)]),
    ]);
    assert_eq!((play.gate.busy(), play.gate.slots()), (3, 3));
}

/// Found by review: a gate of four slots, two of which were held, was shrunk to two and at once let
/// two more in, because the slots that were left happened to be the free ones.
#[test]
fn after_a_shrink_nobody_starts_until_enough_have_departed() {
    let mut play = Play::new(&GateSpec::fifo(4));
    for id in 1..=4 {
        play.tell(0, arrive(id));
    }
    play.table(&[
        (1, depart(0, 0), &[]),
        (1, depart(0, 1), &[]),
        (2, resize(0, 2), &[]), // Slots 2 and 3 are gone, but held.
        (2, arrive(5), &[]),
        (2, arrive(6), &[]),
        (3, depart(0, 3), &[start(5, 0, 0)]),
        (4, depart(0, 2), &[start(6, 0, 1)]),
        (4, arrive(7), &[]),
        (5, depart(0, 1), &[start(7, 0, 1)]),
    ]);
    assert_eq!((play.gate.busy(), play.gate.slots()), (2, 2));
}

#[test]
fn a_slot_that_was_gone_while_held_comes_back_once() {
    let mut play = Play::new(&GateSpec::fifo(2));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[start(2, 0, 1)]),
        (0, arrive(3), &[]),
        (1, resize(0, 0), &[]),
        (1, resize(0, 1), &[]),
        (1, resize(0, 3), &[start(3, 0, 2)]), // Slots 0 and 1 are still held.
        (2, arrive(4), &[]),
        (2, depart(0, 1), &[start(4, 0, 1)]),
        (3, resize(0, 1), &[]),
        (3, depart(0, 2), &[]),
        (3, depart(0, 1), &[]),
        (3, depart(0, 0), &[]),
        (4, resize(0, 2), &[]),
        (4, arrive(5), &[start(5, 0, 0)]),
        (4, arrive(6), &[start(6, 0, 1)]),
        (4, arrive(7), &[]),
    ]);
}

#[test]
fn a_server_without_slots_lets_nobody_in() {
    let mut play = Play::new(&GateSpec { room: Some(1), ..GateSpec::fifo(0) });
    play.table(&[
        (0, arrive(1), &[]),
        (0, arrive(2), &[full(2)]),
        (1, resize(0, 1), &[start(1, 0, 0)]),
        (1, resize(0, 0), &[]),
        (2, depart(0, 0), &[]),
        (2, arrive(3), &[]),
    ]);
    assert_eq!((play.gate.slots(), play.gate.busy(), play.gate.waiting()), (0, 0, 1));
}

#[test]
fn with_one_queue_a_server_that_is_down_is_passed_over() {
    let mut play = Play::new(&shared(&[1, 1]));
    play.table(&[
        (0, Event::Down(0), &[]),
        (0, Event::Down(0), &[]), // Said twice.
        (0, arrive(1), &[start(1, 1, 0)]),
        (0, arrive(2), &[]),
        (1, Event::Down(1), &[]),
        (2, depart(1, 0), &[]), // It finished what it had.
        (2, arrive(3), &[]),
        (3, Event::Up(1), &[start(2, 1, 0)]),
        (4, Event::Up(0), &[start(3, 0, 0)]),
        (4, Event::Up(0), &[]),
    ]);
}

#[test]
fn a_queue_whose_server_goes_down_moves_to_the_others() {
    let shortest = RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Lowest };
    for (discipline, at_1, at_2) in [
        // Job 4 goes to server 2 (two jobs against three), job 7 to server 1 (a tie).
        (DisciplineSpec::Fifo, [2, 5, 7, 8], [3, 4, 6]),
        // Job 7 goes first.
        (DisciplineSpec::Lifo, [2, 8, 5, 4], [3, 7, 6]),
    ] {
        let name = format!("{discipline:?}");
        let router = shortest.clone();
        let spec = GateSpec { discipline, room: Some(5), ..per_server(&[1, 1, 1], router) };
        let mut play = Play::new(&spec);
        assert_eq!(play.servers_of(0, 1..4), [0, 1, 2]);
        for id in 4..=8 {
            assert_eq!(play.tell(0, arrive(id)), []); // 4 to 0, 5 to 1, 6 to 2, 7 to 0, 8 to 1.
        }
        assert_eq!(play.tell(0, arrive(9)), [full(9)]);
        // The room is full, yet those who are moved are not refused.
        assert_eq!(play.tell(1, Event::Down(0)), []);
        let expected = ServerView { busy: 1, slots: 1, ..ServerView::default() };
        assert_eq!(play.gate.servers()[0], expected);
        assert_eq!(play.gate.waiting(), 5);
        let line = |play: &mut Play, server: u32, first: u64| {
            let mut ids = vec![first];
            while play.gate.servers()[server as usize].waiting > 0 {
                let actions = play.tell(2, depart(server, 0));
                let [gate::Action::Start { job, slot }] = actions[..] else {
                    panic!("{actions:?}")
                };
                assert_eq!(slot.server, server);
                ids.push(job.0);
            }
            ids
        };
        assert_eq!(line(&mut play, 1, 2), at_1, "{name}");
        assert_eq!(line(&mut play, 2, 3), at_2, "{name}");
        assert_eq!(play.tell(3, depart(0, 0)), [], "nobody waits for a server that is down");
    }
}

#[test]
fn moved_jobs_start_at_once_where_a_slot_is_free() {
    let mut play = Play::new(&per_server(&[1, 2], RouterSpec::RoundRobin));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[start(2, 1, 0)]),
        (0, arrive(3), &[]),
        (1, Event::Down(0), &[start(3, 1, 1)]),
        (1, arrive(4), &[]),
        (2, Event::Up(0), &[]), // Job 1 still holds the slot; job 4 stays at server 1.
        (2, depart(0, 0), &[]),
        (2, arrive(5), &[start(5, 0, 0)]),
        (3, depart(1, 1), &[start(4, 1, 1)]),
    ]);
}

#[test]
fn jobs_that_find_no_server_wait_for_the_first_that_comes_up() {
    let spec = GateSpec { room: Some(3), ..per_server(&[1, 1], RouterSpec::RoundRobin) };
    let mut play = Play::new(&spec);
    play.table(&[
        (0, Event::Down(0), &[]),
        (0, Event::Down(1), &[]),
        (1, arrive(1), &[]),
        (1, arrive(2), &[]),
        (1, arrive(3), &[]),
        (1, arrive(4), &[full(4)]),
        (2, renege(2), &[]),
        (2, arrive(5), &[]),
        (3, Event::Up(1), &[start(1, 1, 0)]),
        (3, Event::Up(0), &[]), // Jobs 3 and 5 wait for server 1 by now.
        (4, depart(1, 0), &[start(3, 1, 0)]),
        (5, depart(1, 0), &[start(5, 1, 0)]),
    ]);
    assert_eq!(play.gate.waiting(), 0);
}

#[test]
fn what_servers_report_of_themselves() {
    let view = |usable, waiting, busy, slots| ServerView {
        usable,
        waiting,
        busy,
        slots,
        ..ServerView::default()
    };
    let mut play = Play::new(&per_server(&[1, 2], RouterSpec::RoundRobin));
    play.servers_of(0, 1..5);
    assert_eq!(play.gate.servers(), [view(true, 1, 1, 1), view(true, 0, 2, 2)]);
    play.tell(1, resize(1, 1));
    play.tell(1, Event::Down(0));
    assert_eq!(play.gate.servers(), [view(false, 0, 1, 1), view(true, 1, 2, 1)]);
    assert_eq!((play.gate.busy(), play.gate.slots(), play.gate.waiting()), (3, 2, 1));
    let mut play = Play::new(&shared(&[1, 2]));
    play.servers_of(0, 1..3);
    assert_eq!(play.gate.servers(), [view(false, 0, 1, 1), view(true, 0, 1, 2)]);
}

#[test]
fn a_specification_has_bounds() {
    let new = |slots: &[u32]| gate::Gate::new(&shared(slots)).map(|_| ());
    assert_eq!(new(&[]), Err(SpecError::NoServer));
    assert_eq!(new(&vec![1; GateSpec::SERVERS_MAX]), Ok(()));
    assert_eq!(new(&vec![1; GateSpec::SERVERS_MAX + 1]), Err(SpecError::TooManyServers));
    assert_eq!(new(&[GateSpec::SLOTS_MAX, 1]), Err(SpecError::TooManySlots));
    assert_eq!(new(&[u32::MAX, u32::MAX]), Err(SpecError::TooManySlots));
    assert_eq!(new(&[GateSpec::SLOTS_MAX / 64, 1]), Ok(()));
    let texts = [
        (SpecError::NoServer, "at least one server"),
        (SpecError::TooManyServers, &GateSpec::SERVERS_MAX.to_string()),
        (SpecError::TooManySlots, &GateSpec::SLOTS_MAX.to_string()),
    ];
    for (error, text) in texts {
        assert!(error.to_string().contains(text), "{error}");
    }
}
