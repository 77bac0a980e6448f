//! Jobs that would wait in vain, and what is known of that.

use gate::{Action, DisciplineSpec, EarlyRejection, GateSpec, Job, JobId, Reason, RouterSpec};

use crate::play::{
    Play, arrive, arrive_until, at, depart, ms, per_server, renege, resize, shared, start,
};

fn foreseeing(spec: GateSpec) -> GateSpec {
    GateSpec { early_rejection: Some(EarlyRejection { memory: ms(1000) }), ..spec }
}

fn hopeless(id: u64) -> Action {
    Action::Refuse { job: JobId(id), reason: Reason::Hopeless }
}

/// Two slots that have been taken from 0 on; a job departs every 5 ms, the last one, the 16th, at
/// 80 ms. Ten wait then.
fn moving(discipline: DisciplineSpec) -> Play {
    let mut play = Play::new(&foreseeing(GateSpec { discipline, ..shared(&[2]) }));
    for id in 1..=40 {
        play.tell(0, arrive(id));
    }
    for departure in 0..16 {
        play.tell(5 * (departure + 1), depart(0, (departure % 2) as u32));
    }
    for id in (3..=40).rev() {
        if play.gate.waiting() > 10 {
            play.tell(80, renege(id));
        }
    }
    assert_eq!(play.gate.waiting(), 10);
    play
}

#[test]
fn nobody_is_refused_before_anything_is_known() {
    let mut play = Play::new(&foreseeing(shared(&[1])));
    assert_eq!(play.tell(0, arrive(1)), [start(1, 0, 0)]);
    for id in 2..200 {
        assert_eq!(play.tell(0, arrive_until(id, 1000)), []);
    }
    for departure in 1..=7 {
        play.tell(100 * departure, depart(0, 0));
        assert_eq!(play.gate.foreseen_wait(at(100 * departure), &Job::new(JobId(0))), None);
    }
    assert_eq!(play.tell(700, arrive_until(200, 701)), [], "seven departures say nothing");
    play.tell(800, depart(0, 0));
    assert_eq!(play.tell(800, arrive_until(201, 801)), [hopeless(201)]);
}

#[test]
fn a_job_is_refused_that_would_be_late_even_at_the_highest_likely_rate() {
    // Behind ten at 16 departures in 80 ms: 55 ms; at 16 + 2 sqrt(16) departures 36.67 ms.
    let mut play = moving(DisciplineSpec::Fifo);
    assert_eq!(play.gate.foreseen_wait(at(80), &Job::new(JobId(0))), Some(ms(55)));
    assert_eq!(play.tell(80, arrive_until(41, 80 + 36)), [hopeless(41)]);
    assert_eq!(play.tell(80, arrive_until(42, 80 + 37)), []);
    assert_eq!(play.gate.waiting(), 11, "who is refused does not wait");
    // While nothing departs, it takes longer.
    assert_eq!(play.gate.foreseen_wait(at(160), &Job::new(JobId(0))), Some(ms(120)));
}

#[test]
fn only_those_count_who_are_served_before_it() {
    let urgent = |id, priority, deadline| {
        let deadline = Some(at(deadline));
        gate::Event::Arrive(Job { priority, deadline, ..Job::new(JobId(id)) })
    };
    // Behind nobody, at the highest likely rate: 80 / 24 ms.
    let ageing = DisciplineSpec::PriorityAgeing { interval: ms(1000) };
    for discipline in [DisciplineSpec::Priority, ageing] {
        let mut play = moving(discipline);
        assert_eq!(play.tell(80, urgent(41, 1, 83)), [hopeless(41)]);
        assert_eq!(play.tell(80, urgent(42, 1, 84)), []);
        assert_eq!(play.tell(80, urgent(43, 1, 84)), [hopeless(43)], "it is behind the other one");
        assert_eq!(play.tell(80, urgent(44, 0, 84)), [hopeless(44)]);
    }
    let mut play = moving(DisciplineSpec::Lifo);
    assert_eq!(play.tell(80, arrive_until(41, 84)), []);
    // Ten of class 0; class 1 has three turns for each of theirs, and its first comes at once.
    let turns = DisciplineSpec::DeficitRoundRobin { quantum: 1, weights: vec![1, 3] };
    let mut play = moving(turns);
    let of_class = |id, deadline| {
        let deadline = Some(at(deadline));
        gate::Event::Arrive(Job { class: 1, deadline, ..Job::new(JobId(id)) })
    };
    assert_eq!(play.tell(80, of_class(41, 84)), []);
    for id in 42..=43 {
        assert_eq!(play.tell(80, of_class(id, 1000)), []);
    }
    // Three of its own and one of the others: 5 * 80 / 24 ms.
    assert_eq!(play.tell(80, of_class(44, 96)), [hopeless(44)]);
    assert_eq!(play.tell(80, of_class(45, 97)), []);
}

#[test]
fn quiet_times_do_not_count_and_long_ones_are_forgotten() {
    for (back, foreseen) in [(900, true), (2000, false)] {
        let mut play = moving(DisciplineSpec::Fifo);
        for id in 19..=28 {
            play.tell(80, renege(id));
        }
        play.tell(80, depart(0, 0));
        play.tell(80, depart(0, 1));
        assert_eq!(play.gate.busy(), 0);
        for id in 41..=50 {
            play.tell(back, arrive(id));
        }
        let wait = play.gate.foreseen_wait(at(back), &Job::new(JobId(0)));
        // 17 departures in 80 ms: the last one found a slot free.
        assert_eq!(wait.is_some(), foreseen, "at {back}");
        assert!(wait.is_none_or(|wait| wait < ms(46)), "a quiet time was counted: {wait:?}");
        let refused = play.tell(back, arrive_until(51, back + 1)) == [hopeless(51)];
        assert_eq!(refused, foreseen, "at {back}");
    }
}

#[test]
fn a_job_that_takes_very_long_costs_one_slot_of_the_rate() {
    let mut play = Play::new(&foreseeing(shared(&[2])));
    for id in 1..=60 {
        play.tell(0, arrive(id));
    }
    // The first slot is held for ever, the other one for 1 ms at a time.
    for departure in 1..=50 {
        play.tell(departure, depart(0, 1));
    }
    assert_eq!(play.gate.foreseen_wait(at(50), &Job::new(JobId(0))), Some(ms(9)), "behind 8");
}

#[test]
fn what_was_seen_ends_with_the_slots_that_it_was_seen_of() {
    let mut play = moving(DisciplineSpec::Fifo);
    play.tell(80, resize(0, 3));
    assert_eq!(play.tell(80, arrive_until(41, 81)), []);
    let mut play = moving(DisciplineSpec::Fifo);
    play.tell(80, gate::Event::Pause);
    assert_eq!(play.tell(80, arrive_until(41, 81)), [], "nobody knows when it is resumed");
}

#[test]
fn each_queue_has_a_rate_of_its_own() {
    let router = RouterSpec::Weighted { weights: vec![1, 1], order: gate::WeightedOrder::Rotate };
    let mut play = Play::new(&foreseeing(per_server(&[1, 1], router)));
    for id in 1..=60 {
        play.tell(0, arrive(id));
    }
    // The first server is ten times as fast.
    for turn in 1..=20 {
        play.tell(turn, depart(0, 0));
    }
    for turn in 3..=10 {
        play.tell(10 * turn, depart(1, 0));
    }
    assert_eq!(play.gate.servers()[0].waiting, 9);
    assert_eq!(play.gate.servers()[1].waiting, 21);
    // 20 in 20 ms, and nothing since then for 80 ms; 8 in 100 ms.
    assert_eq!(play.gate.foreseen_wait(at(100), &Job::new(JobId(0))), Some(ms(50)));
    let first = play.tell(100, arrive_until(61, 150));
    let second = play.tell(100, arrive_until(62, 150));
    // Soonest: 10 * 100 / (20 + 2 sqrt(20)) = 34.5 ms; 22 * 100 / (8 + 2 sqrt(8)) = 161 ms.
    assert_eq!((first, second), (vec![], vec![hopeless(62)]));
}
