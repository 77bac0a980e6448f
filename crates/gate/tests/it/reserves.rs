//! Slots in reserve: when they are lent, and when they are taken back.

use gate::{DisciplineSpec, Event, GateSpec, Reserve, RouterSpec, SpecError};

use crate::play::{
    Play, arrive, arrive_with, at, depart, ms, per_server, renege, resize, shared, start,
};

fn reserved(spec: GateSpec, slots: u32) -> GateSpec {
    GateSpec { reserve: Some(Reserve { slots, after: ms(10) }), ..spec }
}

#[test]
fn who_has_waited_long_gets_a_slot_in_reserve_which_goes_with_the_next_departure() {
    let mut play = Play::new(&reserved(shared(&[1]), 1));
    play.table(&[(0, arrive(1), &[start(1, 0, 0)]), (0, arrive(2), &[]), (5, arrive(3), &[])]);
    assert_eq!(play.gate.next_wakeup(), Some(at(10)));
    play.table(&[(9, Event::Wake, &[]), (10, Event::Wake, &[start(2, 0, 1)])]);
    assert_eq!((play.gate.slots(), play.gate.next_wakeup()), (2, None), "no more is in reserve");
    // Nobody has waited long: the slot is not there for the next one.
    play.table(&[(12, depart(0, 0), &[]), (13, depart(0, 1), &[start(3, 0, 0)])]);
    assert_eq!((play.gate.slots(), play.gate.busy()), (1, 1));
}

#[test]
fn the_reserve_stays_lent_while_somebody_waits_too_long() {
    let mut play = Play::new(&reserved(shared(&[1]), 2));
    for id in 1..=5 {
        play.tell(0, arrive(id));
    }
    play.table(&[
        (10, Event::Wake, &[start(2, 0, 1), start(3, 0, 2)]),
        (11, depart(0, 2), &[start(4, 0, 2)]),
        (12, depart(0, 0), &[start(5, 0, 0)]),
        (13, depart(0, 0), &[]),
        (13, arrive(6), &[]),
        (14, depart(0, 2), &[]),
    ]);
    assert_eq!((play.gate.slots(), play.gate.busy()), (1, 1));
    play.table(&[(15, depart(0, 1), &[start(6, 0, 0)])]);
}

#[test]
fn the_next_of_the_discipline_has_it() {
    let priority = GateSpec { discipline: DisciplineSpec::Priority, ..shared(&[1]) };
    let mut play = Play::new(&reserved(priority, 1));
    play.tell(0, arrive(1));
    play.tell(0, arrive(2));
    play.tell(3, arrive_with(3, 9));
    play.table(&[(10, Event::Wake, &[start(3, 0, 1)])]);
}

#[test]
fn who_goes_needs_none_and_nothing_is_lent_in_a_pause() {
    let mut play = Play::new(&reserved(shared(&[1]), 1));
    play.tell(0, arrive(1));
    play.tell(0, arrive(2));
    play.tell(4, arrive(3));
    play.tell(5, renege(2));
    assert_eq!(play.gate.next_wakeup(), Some(at(14)));
    play.table(&[(6, Event::Pause, &[]), (20, Event::Wake, &[])]);
    assert_eq!(play.gate.next_wakeup(), None);
    play.table(&[(21, Event::Resume, &[start(3, 0, 1)])]);
}

#[test]
fn a_resize_is_of_the_slots_without_the_reserve() {
    let mut play = Play::new(&reserved(shared(&[1]), 1));
    play.tell(0, arrive(1));
    play.tell(0, arrive(2));
    play.tell(10, Event::Wake);
    assert_eq!((play.gate.slots(), play.gate.slots_own(0)), (2, 1));
    play.tell(11, resize(0, 3));
    assert_eq!((play.gate.slots(), play.gate.slots_own(0)), (4, 3));
    play.tell(12, depart(0, 1));
    assert_eq!((play.gate.slots(), play.gate.slots_own(0)), (3, 3));
}

#[test]
fn a_reserve_needs_one_queue() {
    let refused = |spec: GateSpec| gate::Gate::new(&spec).unwrap_err();
    let two = reserved(per_server(&[1, 1], RouterSpec::RoundRobin), 1);
    assert_eq!(refused(two), SpecError::ReserveWithQueues);
    assert_eq!(refused(reserved(shared(&[1]), u32::MAX)), SpecError::ReserveTooLarge);
    let one = reserved(per_server(&[1], RouterSpec::RoundRobin), 1);
    let mut play = Play::new(&one);
    play.tell(0, arrive(1));
    play.tell(0, arrive(2));
    play.table(&[(10, Event::Wake, &[start(2, 0, 1)])]);
}
