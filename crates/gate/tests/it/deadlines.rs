//! When it is too late to be started, to the nanosecond.

use gate::{Action, DisciplineSpec, Event, GateSpec, JobId, Reason, RouterSpec, Time};

use crate::play::{
    Play, arrive, arrive_until, at, depart, full, late, ms, per_server, renege, resize, shared,
    start,
};

#[test]
fn a_slot_that_frees_exactly_at_the_deadline_still_serves() {
    let mut play = Play::new(&GateSpec::fifo(1));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive_until(2, 10), &[]),
        (0, arrive_until(3, 10), &[]),
    ]);
    assert_eq!(play.gate.next_wakeup(), Some(at(10)));
    // One slot, two jobs whose time is up: one is served, the other refused, in this order.
    assert_eq!(play.tell(10, depart(0, 0)), [start(2, 0, 0), late(3)]);
    assert_eq!(play.gate.next_wakeup(), None);
}

#[test]
fn a_slot_that_frees_too_late_serves_the_next() {
    let mut play = Play::new(&GateSpec::fifo(1));
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive_until(2, 10), &[]),
        (0, arrive_until(3, 30), &[]),
    ]);
    let mut actions = Vec::new();
    let just_late = Time::from_nanos(at(10).as_nanos() + 1);
    play.gate.handle(just_late, depart(0, 0), &mut actions);
    assert_eq!(actions, [late(2), start(3, 0, 0)]);
    assert_eq!(play.gate.next_wakeup(), None);
}

#[test]
fn deadlines_fall_due_in_their_own_order() {
    for discipline in [DisciplineSpec::Fifo, DisciplineSpec::Lifo, DisciplineSpec::Priority] {
        let mut play = Play::new(&GateSpec { discipline, ..GateSpec::fifo(1) });
        play.table(&[
            (0, arrive(1), &[start(1, 0, 0)]),
            (0, arrive_until(2, 30), &[]),
            (0, arrive_until(3, 10), &[]),
            (0, arrive_until(4, 20), &[]),
            (0, arrive_until(5, 10), &[]),
        ]);
        assert_eq!(play.gate.next_wakeup(), Some(at(10)));
        assert_eq!(play.tell(9, Event::Wake), []);
        assert_eq!(play.tell(10, Event::Wake), [late(3), late(5)]);
        assert_eq!(play.gate.next_wakeup(), Some(at(20)));
        assert_eq!(play.tell(31, Event::Wake), [late(4), late(2)]);
        assert_eq!((play.gate.waiting(), play.gate.next_wakeup()), (0, None));
    }
}

#[test]
fn the_earlier_of_wait_max_and_own_deadline_counts() {
    let mut play = Play::new(&GateSpec { wait_max: Some(ms(10)), ..GateSpec::fifo(1) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (1, arrive(2), &[]),           // Until 11.
        (1, arrive_until(3, 5), &[]),  // Until 5.
        (1, arrive_until(4, 50), &[]), // Until 11.
        (4, Event::WaitMax(Some(ms(2))), &[]),
        (4, arrive(5), &[]), // Until 6; those before keep theirs.
        (5, Event::WaitMax(None), &[late(3)]),
        (5, arrive(6), &[]), // Without end.
        (6, Event::Wake, &[late(5)]),
        (11, Event::Wake, &[late(2), late(4)]),
    ]);
    assert_eq!((play.gate.waiting(), play.gate.next_wakeup()), (1, None));
    assert_eq!(play.tell(1_000_000, depart(0, 0)), [start(6, 0, 0)]);
}

#[test]
fn a_job_that_need_not_wait_needs_no_time() {
    let mut play = Play::new(&GateSpec { wait_max: Some(ms(0)), ..GateSpec::fifo(1) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[late(2)]),
        (5, depart(0, 0), &[]),
        (5, arrive_until(3, 5), &[start(3, 0, 0)]),
        (6, depart(0, 0), &[]),
        (6, arrive_until(4, 5), &[late(4)]), // Too late when it came.
    ]);
    assert_eq!((play.gate.waiting(), play.gate.busy()), (0, 0));
}

#[test]
fn a_deadline_ends_with_its_job() {
    let mut play = Play::new(&GateSpec { room: Some(2), ..GateSpec::fifo(1) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive_until(2, 10), &[]),
        (0, arrive_until(3, 20), &[]),
        (0, arrive_until(4, 5), &[full(4)]),
    ]);
    assert_eq!(play.gate.next_wakeup(), Some(at(10)), "a refused job has no deadline");
    play.tell(1, renege(2));
    assert_eq!(play.gate.next_wakeup(), Some(at(20)), "nor has one that gave up");
    assert_eq!(play.tell(2, depart(0, 0)), [start(3, 0, 0)]);
    assert_eq!(play.gate.next_wakeup(), None, "nor one that was started");
    assert_eq!(play.tell(100, Event::Wake), []);
}

#[test]
fn those_who_are_too_late_make_room() {
    let mut play = Play::new(&GateSpec { room: Some(1), ..GateSpec::fifo(1) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive_until(2, 10), &[]),
        (10, arrive(3), &[full(3), late(2)]), // Job 2 waits until the end of this moment.
        (11, arrive_until(4, 20), &[]),
        (21, arrive(5), &[late(4)]),
    ]);
    assert_eq!(play.gate.waiting(), 1);
}

#[test]
fn deadlines_run_on_while_nobody_may_start() {
    let mut play = Play::new(&GateSpec { wait_max: Some(ms(10)), ..shared(&[1]) });
    play.table(&[(0, Event::Pause, &[]), (0, arrive(1), &[])]);
    assert_eq!(play.gate.next_wakeup(), Some(at(10)));
    play.table(&[
        (10, Event::Wake, &[late(1)]),
        (10, arrive(2), &[]),
        (20, Event::Resume, &[start(2, 0, 0)]), // Just in time.
        (20, resize(0, 0), &[]),
        (20, depart(0, 0), &[]),
        (20, arrive(3), &[]),
        (30, Event::Down(0), &[late(3)]),
        (30, arrive(4), &[]),
        (41, Event::Up(0), &[late(4)]),
    ]);
}

fn unreachable(id: u64) -> Action {
    Action::Refuse { job: JobId(id), reason: Reason::Unreachable }
}

#[test]
fn while_no_server_is_up_jobs_wait_as_long_as_they_may_and_are_refused_for_that() {
    let spec = GateSpec {
        wait_max: Some(ms(30)),
        unreachable_max: Some(ms(10)),
        ..per_server(&[1, 1], RouterSpec::RoundRobin)
    };
    let mut play = Play::new(&spec);
    play.table(&[
        (0, Event::Down(0), &[]),
        (0, arrive(1), &[start(1, 1, 0)]),
        (1, arrive(2), &[]),
        (20, arrive(3), &[]),
        (25, Event::Down(1), &[]), // From here on they wait for 10 ms at most.
        (28, Event::Down(1), &[]), // Said twice, it changes nothing.
        (29, arrive(4), &[]),
        (31, Event::Wake, &[unreachable(2)]), // Its own deadline, while nobody is there.
    ]);
    assert_eq!(play.gate.next_wakeup(), Some(at(35)));
    play.table(&[
        (35, Event::Wake, &[unreachable(3)]),
        (36, depart(1, 0), &[]),
        (38, Event::Up(0), &[start(4, 0, 0)]),
        (39, arrive(5), &[]), // A server is up: the limit does not hold.
        (69, Event::Wake, &[late(5)]),
    ]);
}

#[test]
fn without_a_limit_of_its_own_a_gate_without_servers_is_one_that_is_busy() {
    let mut play = Play::new(&GateSpec { wait_max: Some(ms(30)), ..shared(&[1]) });
    play.table(&[(0, Event::Down(0), &[]), (0, arrive(1), &[]), (30, Event::Wake, &[late(1)])]);
}

#[test]
fn a_limit_of_nothing_refuses_at_once_whoever_waits_or_comes() {
    let mut play = Play::new(&GateSpec { unreachable_max: Some(ms(0)), ..shared(&[1]) });
    play.table(&[
        (0, arrive(1), &[start(1, 0, 0)]),
        (0, arrive(2), &[]),
        (0, arrive_until(3, 9), &[]),
        (1, Event::Down(0), &[unreachable(2), unreachable(3)]),
        (2, arrive(4), &[unreachable(4)]),
        // Whoever tries whether it is up again lets one in and says what it was.
        (3, depart(0, 0), &[]),
        (4, Event::Up(0), &[]),
        (4, arrive(5), &[start(5, 0, 0)]),
        (4, Event::Down(0), &[]),
        (5, arrive(6), &[unreachable(6)]),
        (6, Event::UnreachableMax(Some(ms(5))), &[]),
        (6, arrive(7), &[]),
        (8, Event::UnreachableMax(Some(ms(1))), &[]), // From now.
        (9, Event::Wake, &[unreachable(7)]),
    ]);
}
