//! Queues: the next job, the number that waits, those who give up.

use gate::{DisciplineSpec, Event, GateSpec, Slot};

use crate::play::{Play, arrive, arrive_with, depart, full, renege, shared, start};

/// Six jobs arrive with these priorities behind one that is served; in what order are they served?
fn order(discipline: DisciplineSpec, gone: &[u64]) -> Vec<u64> {
    let mut play = Play::new(&GateSpec { discipline, ..GateSpec::fifo(1) });
    assert_eq!(play.tell(0, arrive(1)), [start(1, 0, 0)]);
    for (id, priority) in [(2, 1), (3, 0), (4, 200), (5, 1), (6, 200), (7, 0)] {
        assert_eq!(play.tell(0, arrive_with(id, priority)), []);
    }
    for &id in gone {
        assert_eq!(play.tell(1, renege(id)), []);
    }
    let mut order = Vec::new();
    while play.gate.waiting() > 0 {
        let actions = play.tell(2, depart(0, 0));
        let [gate::Action::Start { job, .. }] = actions[..] else { panic!("{actions:?}") };
        order.push(job.0);
    }
    assert_eq!(play.tell(3, depart(0, 0)), []);
    order
}

#[test]
fn each_discipline_has_its_order() {
    use DisciplineSpec::{Fifo, Lifo, Priority};
    assert_eq!(order(Fifo, &[]), [2, 3, 4, 5, 6, 7]);
    assert_eq!(order(Lifo, &[]), [7, 6, 5, 4, 3, 2]);
    assert_eq!(order(Priority, &[]), [4, 6, 2, 5, 3, 7]);
    assert_eq!(order(Fifo, &[2, 5]), [3, 4, 6, 7]);
    assert_eq!(order(Lifo, &[7, 2]), [6, 5, 4, 3]);
    assert_eq!(order(Priority, &[6, 3]), [4, 2, 5, 7]);
}

#[test]
fn a_long_line_with_many_gaps_keeps_its_order() {
    for discipline in [DisciplineSpec::Fifo, DisciplineSpec::Lifo, DisciplineSpec::Priority] {
        let newest_first = discipline == DisciplineSpec::Lifo;
        let mut play = Play::new(&GateSpec { discipline, ..GateSpec::fifo(1) });
        play.tell(0, arrive(1));
        for id in 2..1000 {
            play.tell(0, arrive(id));
        }
        let stays = |id: &u64| id % 7 == 3;
        for id in (2..1000).filter(|id| !stays(id)) {
            play.tell(1, renege(id));
            play.tell(1, renege(id));
        }
        let mut left: Vec<u64> = (2..1000).filter(stays).collect();
        if newest_first {
            left.reverse();
        }
        assert_eq!(play.gate.waiting(), left.len() as u64);
        for id in left {
            assert_eq!(play.tell(2, depart(0, 0)), [start(id, 0, 0)]);
        }
    }
}

#[test]
fn renege_takes_out_only_who_waits() {
    let mut play = Play::new(&GateSpec::fifo(1));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[]),
        (0, arrive(3), &[]),
        (1, renege(1), &[]),  // It is being served: it stays.
        (1, renege(99), &[]), // Nobody.
        (1, renege(2), &[]),
        (1, renege(2), &[]), // No more.
    ]);
    assert_eq!((play.gate.waiting(), play.gate.busy()), (1, 1));
    assert_eq!(play.tell(2, depart(0, 0)), [start(3, 0, 0)]);
}

#[test]
fn room_0_is_a_loss_system() {
    let mut play = Play::new(&GateSpec { room: Some(0), ..shared(&[1, 1]) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[start(2, 1, 0)]),
        (0, arrive(3), &[full(3)]),
        (1, depart(1, 0), &[]),
        (1, arrive(4), &[start(4, 1, 0)]),
        (2, arrive(5), &[full(5)]),
    ]);
    assert_eq!((play.gate.waiting(), play.gate.busy(), play.gate.slots()), (0, 2, 2));
}

#[test]
fn room_counts_those_who_wait_and_no_priority_makes_any() {
    let discipline = DisciplineSpec::Priority;
    let mut play = Play::new(&GateSpec { room: Some(2), discipline, ..GateSpec::fifo(1) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[]),
        (0, arrive(3), &[]),
        (0, arrive_with(4, 255), &[full(4)]),
        (1, renege(3), &[]),
        (1, arrive_with(5, 255), &[]),
        (1, arrive(6), &[full(6)]),
        (2, depart(0, 0), &[start(5, 0, 0)]),
        (2, arrive(7), &[]),
    ]);
}

#[test]
fn another_room_counts_for_those_who_come_and_sends_nobody_away() {
    let mut play = Play::new(&GateSpec { room: Some(1), ..GateSpec::fifo(1) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[]),
        (0, arrive(3), &[full(3)]),
        (1, Event::Room(Some(2)), &[]),
        (1, arrive(4), &[]),
        (1, arrive(5), &[full(5)]),
        (2, Event::Room(Some(0)), &[]),
        (2, arrive(6), &[full(6)]),
        (3, depart(0, 0), &[start(2, 0, 0)]),
        (4, Event::Room(None), &[]),
        (4, arrive(7), &[]),
        (5, depart(0, 0), &[start(4, 0, 0)]),
    ]);
}

#[test]
fn a_slot_that_was_held_before_is_given_back_as_any_other() {
    let occupy = |server, index| Event::Occupy(Slot { server, index });
    let mut play = Play::new(&shared(&[2, 1]));
    play.table(&[
        (0, occupy(0, 1), &[]),
        // One that is beyond the slots.
        (0, occupy(1, 3), &[]),
        (1, arrive(1), &[start(1, 0, 0)]),
        (1, arrive(2), &[]),
        (1, arrive(3), &[]),
        (2, depart(0, 1), &[start(2, 0, 1)]),
        (3, depart(1, 3), &[start(3, 1, 0)]),
        (4, depart(0, 0), &[]),
        (4, depart(1, 0), &[]),
    ]);
    assert_eq!((play.gate.busy(), play.gate.slots()), (1, 3));
}

#[test]
#[should_panic(expected = "somebody holds it")]
fn a_slot_is_never_occupied_twice() {
    let mut play = Play::new(&GateSpec::fifo(1));
    play.tell(0, arrive(1));
    play.tell(1, Event::Occupy(Slot { server: 0, index: 0 }));
}

#[test]
fn pause_holds_everybody_and_resume_lets_them_in() {
    let mut play = Play::new(&GateSpec { room: Some(3), ..GateSpec::fifo(2) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (1, Event::Pause, &[]),
        (1, arrive(2), &[]), // Beside a free slot.
        (1, arrive(3), &[]),
        (2, depart(0, 0), &[]),
        (2, Event::Wake, &[]),
        (2, arrive(4), &[]),
        (2, arrive(5), &[full(5)]),
        (3, Event::Resume, &[start(2, 0, 1), start(3, 0, 0)]),
        (3, Event::Resume, &[]),
        (4, depart(0, 1), &[start(4, 0, 1)]),
    ]);
}
